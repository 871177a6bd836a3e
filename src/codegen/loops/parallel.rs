//! Parallel loops and kernel regions: bodies that become functions of their own.
//!
//! The body of `for i in T.parallel(n)` is outlined as `fn(closure, lo, hi) -> i32`: the closure is an array of eight-byte
//! values on the caller's stack that holds every register the body's names stand for. Stack buffers of the caller are
//! passed by address. Inside, parallel loops run serially.

use std::collections::BTreeMap;
use std::rc::Rc;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{Function, InstBuilder, MemFlagsData, Type, Value};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_module::{DataDescription, Linkage};
use irc_syntax::uses::{for_each_subexpr, mentioned};
use irc_syntax::{DType, Name, Stmt};

use super::nest::Loop;
use crate::codegen::Region;
use crate::codegen::arith::Val;
use crate::codegen::kernel;
use crate::codegen::lower::{Binding, Buffer, Extent, Lower, Res, Storage};
use crate::codegen::runtime::state;

/// The values that a body takes along, in order, and where they go.
#[derive(Default)]
struct Closure {
    values: Vec<Value>,
    slots: BTreeMap<Value, usize>,
}

impl Closure {
    fn add(&mut self, value: Value) {
        if let std::collections::btree_map::Entry::Vacant(entry) = self.slots.entry(value) {
            entry.insert(self.values.len());
            self.values.push(value);
        }
    }

    fn add_extents(&mut self, extents: &[Extent]) {
        for extent in extents {
            if let Extent::Run(value) = extent {
                self.add(*value);
            }
        }
    }
}

impl Lower<'_, '_> {
    /// Runs a loop on the pool; serially where the body uses what lives in registers.
    pub fn parallel_loop(&mut self, level: &Loop, inner: &[Loop], body: &[Stmt]) -> Res<()> {
        let mut names = mentioned(body);
        for level in inner {
            for expr in [Some(&level.hi), level.lo.as_ref(), level.step.as_ref()]
                .into_iter()
                .flatten()
            {
                for_each_subexpr(expr, &mut |part| names.extend(part.as_name().cloned()));
            }
        }
        // Kernel regions inside compute addresses from the extents' names.
        for name in names.clone() {
            if let Some(Binding::Buffer(buffer)) = self.scope.get(&name) {
                for expr in buffer
                    .shape_exprs
                    .iter()
                    .chain(buffer.stride_exprs.iter().flatten())
                {
                    for_each_subexpr(expr, &mut |part| names.extend(part.as_name().cloned()));
                }
            }
        }
        let captured: Vec<(Name, Binding)> = names
            .into_iter()
            .filter(|name| *name != level.var)
            .filter_map(|name| Some((name.clone(), self.scope.get(&name)?.clone())))
            .collect();
        let in_registers = captured.iter().any(|(_, binding)| {
            matches!(binding, Binding::Buffer(buffer) if matches!(buffer.storage, Storage::Registers(_)))
        });
        if in_registers || !self.promoted.is_empty() || level.step.is_some() {
            return self.serial(level, &mut |lower| lower.nest_inside(inner, body));
        }
        let lo = match &level.lo {
            None => self.i64(0),
            Some(expr) => {
                let index = self.index(expr)?;
                self.index_value(index)
            }
        };
        let hi = self.index(&level.hi)?;
        let hi = self.index_value(hi);
        let n = self.b.ins().isub(hi, lo);
        let mut closure = Closure::default();
        closure.add(lo);
        let captured: Vec<(Name, Binding)> = captured
            .into_iter()
            .map(|(name, binding)| (name, self.capture(binding, &mut closure)))
            .collect();
        let id =
            self.asm
                .declare_fresh(&format!("{}.par", self.symbol), &[I64, I64, I64], &[I32])?;
        self.asm.start_at(id, self.line());
        self.outline(id, level, inner, body, &captured, &closure, lo)?;
        let array = self.stack_array(&closure.values);
        let callee = self.asm.func_ref(id, self.b.func);
        let address = self.b.ins().func_addr(I64, callee);
        let work = match &level.work {
            None => self.i64(i64::MAX),
            Some(expr) => {
                let each = self.index(expr)?;
                let each = self.index_value(each);
                self.b.ins().imul(n, each)
            }
        };
        let status = self.call_runtime(
            "irc_parallel_for",
            &[I64, I64, I64, I64],
            &[I32],
            &[address, array, n, work],
        )?;
        self.check_status(status);
        Ok(())
    }

    /// Notes the registers of a binding; a variable is taken by its value here.
    fn capture(&mut self, binding: Binding, closure: &mut Closure) -> Binding {
        match binding {
            Binding::Value(val) => {
                closure.add(val.v);
                Binding::Value(val)
            }
            Binding::Index { v, dtype, natural } => {
                closure.add(v);
                Binding::Index { v, dtype, natural }
            }
            Binding::Var(var, dtype) => {
                let v = self.b.use_var(var);
                closure.add(v);
                Binding::Value(Val { v, dtype })
            }
            Binding::Const(value, dtype) => Binding::Const(value, dtype),
            Binding::Buffer(buffer) => {
                if let Storage::Memory(base) = buffer.storage {
                    closure.add(base);
                }
                closure.add_extents(&buffer.shape);
                closure.add_extents(&buffer.strides);
                Binding::Buffer(buffer)
            }
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn outline(
        &mut self,
        id: cranelift_module::FuncId,
        level: &Loop,
        inner: &[Loop],
        body: &[Stmt],
        captured: &[(Name, Binding)],
        closure: &Closure,
        first: Value,
    ) -> Res<()> {
        let types: Vec<Type> = closure
            .values
            .iter()
            .map(|&value| self.b.func.dfg.value_type(value))
            .collect();
        let dtype = self.int_dtype(&level.hi);
        let natural = level.lo.is_none();
        let here = self.b.srcloc();
        let mut func: Function = self.asm.begin(id);
        let mut cx = FunctionBuilderContext::new();
        let builder = FunctionBuilder::new(&mut func, &mut cx);
        let mut lower = Lower::new(self.asm, builder, &self.symbol);
        lower.in_parallel = true;
        lower.checked = self.checked.clone();
        lower.b.set_srcloc(here);
        let params: Vec<Value> = lower.b.block_params(lower.entry).to_vec();
        let loaded: Vec<Value> = types
            .iter()
            .enumerate()
            .map(|(idx, &ty)| {
                lower
                    .b
                    .ins()
                    .load(ty, MemFlagsData::trusted(), params[0], 8 * idx as i32)
            })
            .collect();
        let moved = |value: Value| loaded[closure.slots[&value]];
        for (name, binding) in captured {
            lower
                .scope
                .insert(name.clone(), move_binding(binding, &moved));
        }
        let base = moved(first);
        let lo = lower.b.ins().iadd(base, params[1]);
        let hi = lower.b.ins().iadd(base, params[2]);
        let step = lower.i64(1);
        let turn = match level.turns {
            true => Some(lower.turn(id, params[1])?),
            false => None,
        };
        lower.serial_range(&level.var, dtype, natural, [lo, hi, step], &mut |lower| {
            if let Some(turn) = turn {
                lower.turned(&level.var, turn, [lo, hi]);
            }
            lower.nest_inside(inner, body)
        })?;
        lower.finish()?;
        self.asm.define(id, func);
        Ok(())
    }

    /// 1 in every other run of a loop, 0 in the others. The chunk that begins at 0 ends a run. Threads may see either
    /// while it does: the order of rounds is free.
    fn turn(&mut self, of: cranelift_module::FuncId, begin: Value) -> Res<Value> {
        let name = format!("{}.turn.{}", self.symbol, of.as_u32());
        let id = self.asm.declare_data(&name, Linkage::Local, true)?;
        let mut data = DataDescription::new();
        data.define_zeroinit(8);
        self.asm.define_data(id, &data)?;
        let global = self.asm.data_ref(id, self.b.func);
        let place = self.b.ins().symbol_value(I64, global);
        let turn = self.b.ins().load(I64, MemFlagsData::trusted(), place, 0);
        let (first, rest) = (self.b.create_block(), self.b.create_block());
        let is_first = self.b.ins().icmp_imm_s(IntCC::Equal, begin, 0);
        self.b.ins().brif(is_first, first, &[], rest, &[]);
        self.b.switch_to_block(first);
        self.b.seal_block(first);
        let next = self.b.ins().bxor_imm_s(turn, 1);
        self.b.ins().store(MemFlagsData::trusted(), next, place, 0);
        self.b.ins().jump(rest, &[]);
        self.b.switch_to_block(rest);
        self.b.seal_block(rest);
        Ok(turn)
    }

    /// Counts a variable from the end of its range where `turn` is 1.
    fn turned(&mut self, var: &Name, turn: Value, [lo, hi]: [Value; 2]) {
        if let Some(&Binding::Index { v, dtype, natural }) = self.scope.get(var) {
            let ends = self.b.ins().iadd(lo, hi);
            let back = self.b.ins().isub(ends, v);
            let back = self.b.ins().iadd_imm_s(back, -1);
            let v = self.b.ins().select(turn, back, v);
            let index = Binding::Index { v, dtype, natural };
            self.scope.insert(var.clone(), index);
        }
    }

    /// Hands a marked region to the kernel emitter; `false` when it does not take it.
    pub fn kernel_region(&mut self, name: &str, body: &[Stmt]) -> Res<bool> {
        let refusal = self.try_kernel_region(body)?.err();
        let is_taken = refusal.is_none();
        self.asm.regions.push(Region {
            place: format!("{}:{name}", self.symbol.trim_start_matches("irc.")),
            refusal,
        });
        Ok(is_taken)
    }

    /// The inner error is why the region is refused.
    fn try_kernel_region(&mut self, body: &[Stmt]) -> Res<Result<(), String>> {
        let mut env = kernel::Env {
            lines: self.asm.lines.clone(),
            ..Default::default()
        };
        for name in mentioned(body) {
            match self.scope.get(&name) {
                Some(Binding::Buffer(buffer)) => {
                    if matches!(buffer.storage, Storage::Registers(_)) {
                        return Ok(Err(format!("`{name}` is kept in registers around it")));
                    }
                    for expr in buffer
                        .shape_exprs
                        .iter()
                        .chain(buffer.stride_exprs.iter().flatten())
                    {
                        for_each_subexpr(expr, &mut |part| {
                            let Some(name) = part.as_name() else { return };
                            let dtype = match self.scope.get(name) {
                                Some(Binding::Value(val)) => val.dtype,
                                Some(
                                    Binding::Index { dtype, .. }
                                    | Binding::Const(_, dtype)
                                    | Binding::Var(_, dtype),
                                ) => *dtype,
                                Some(Binding::Buffer(_)) | None => return,
                            };
                            env.scalars.insert(name.clone(), dtype);
                        });
                    }
                    env.buffers.insert(
                        name,
                        kernel::Buffer {
                            dtype: buffer.dtype,
                            shape: buffer.shape_exprs.clone(),
                            strides: buffer.stride_exprs.clone(),
                        },
                    );
                }
                Some(Binding::Value(val)) => {
                    env.scalars.insert(name, val.dtype);
                }
                Some(
                    Binding::Index { dtype, .. }
                    | Binding::Const(_, dtype)
                    | Binding::Var(_, dtype),
                ) => {
                    env.scalars.insert(name, *dtype);
                }
                None => {}
            }
        }
        let code = match kernel::compile(body, &env, self.asm.cpu) {
            Ok(code) => code,
            Err(why) => return Ok(Err(why)),
        };
        let wider = self.asm.wider;
        let wider = wider.and_then(|cpu| Some((cpu, kernel::compile(body, &env, cpu).ok()?)));
        let Some((cpu, wider)) = wider else {
            let args = self.kernel_args(&code)?;
            self.call_kernel(&code, &args, "kernel")?;
            return Ok(Ok(()));
        };
        let (wide_args, args) = (self.kernel_args(&wider)?, self.kernel_args(&code)?);
        let level = self.state_word(state::LEVEL)?;
        let has = self
            .b
            .ins()
            .icmp_imm_s(IntCC::SignedGreaterThanOrEqual, level, cpu.level());
        let [inside, other, join] = [(); 3].map(|()| self.b.create_block());
        self.b.ins().brif(has, inside, &[], other, &[]);
        for (block, code, args, kind) in [
            (inside, &wider, wide_args, "wider"),
            (other, &code, args, "kernel"),
        ] {
            self.b.switch_to_block(block);
            self.b.seal_block(block);
            self.call_kernel(code, &args, kind)?;
            self.b.ins().jump(join, &[]);
        }
        self.b.switch_to_block(join);
        self.b.seal_block(join);
        Ok(Ok(()))
    }

    /// Places a kernel and calls it.
    fn call_kernel(&mut self, code: &kernel::Kernel, args: &[Value], kind: &str) -> Res<()> {
        let id = self
            .asm
            .declare_fresh(&format!("{}.{kind}", self.symbol), &[I64], &[])?;
        self.asm.start_at(id, self.line());
        self.asm.define_raw(id, code)?;
        let array = self.stack_array(args);
        self.call(id, &[array]);
        Ok(())
    }

    fn kernel_args(&mut self, code: &kernel::Kernel) -> Res<Vec<Value>> {
        code.args.iter().map(|arg| self.kernel_arg(arg)).collect()
    }

    /// A word of the runtime's state.
    fn state_word(&mut self, offset: i32) -> Res<Value> {
        let id = self.asm.declare_data("irc_state", Linkage::Local, true)?;
        let global = self.asm.data_ref(id, self.b.func);
        let base = self.b.ins().symbol_value(I64, global);
        let flags = MemFlagsData::trusted();
        Ok(self.b.ins().load(I64, flags, base, offset))
    }

    fn kernel_arg(&mut self, arg: &kernel::KernelArg) -> Res<Value> {
        match arg {
            kernel::KernelArg::Buffer(name) => self.pointer_of(name, None),
            kernel::KernelArg::Int(name) => {
                let index = self.index(&irc_syntax::Expr::name(name))?;
                Ok(self.index_value(index))
            }
            kernel::KernelArg::Float(name) => {
                let v = self.value_as(&irc_syntax::Expr::name(name), DType::F32)?;
                let bits = self.b.ins().bitcast(I32, MemFlagsData::new(), v);
                Ok(self.b.ins().uextend(I64, bits))
            }
        }
    }
}

/// A binding whose registers are those of another function.
fn move_binding(binding: &Binding, moved: &dyn Fn(Value) -> Value) -> Binding {
    let extents = |list: &[Extent]| -> Vec<Extent> {
        list.iter()
            .map(|extent| match *extent {
                Extent::Const(value) => Extent::Const(value),
                Extent::Run(value) => Extent::Run(moved(value)),
            })
            .collect()
    };
    match binding {
        Binding::Value(val) => Binding::Value(Val {
            v: moved(val.v),
            dtype: val.dtype,
        }),
        Binding::Index { v, dtype, natural } => Binding::Index {
            v: moved(*v),
            dtype: *dtype,
            natural: *natural,
        },
        Binding::Const(value, dtype) => Binding::Const(*value, *dtype),
        Binding::Var(var, dtype) => Binding::Var(*var, *dtype),
        Binding::Buffer(buffer) => Binding::Buffer(Rc::new(Buffer {
            dtype: buffer.dtype,
            storage: match &buffer.storage {
                Storage::Memory(base) => Storage::Memory(moved(*base)),
                Storage::Registers(vars) => Storage::Registers(vars.clone()),
            },
            shape_exprs: buffer.shape_exprs.clone(),
            shape: extents(&buffer.shape),
            strides: extents(&buffer.strides),
            stride_exprs: buffer.stride_exprs.clone(),
        })),
    }
}
