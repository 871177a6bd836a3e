//! `I.while_loop`: a loop whose body is the inner form of a graph function.
//!
//! What goes round lives in one stack slot: for each carried value its address and extents, or its object; for each
//! stacked result its buffer, how many rows that holds, and the extents of a row. Buffers double when they are full.
//! After every iteration the blocks that hold neither are given back (see `runtime/object`), so a loop holds what it
//! carries and what it collects, whatever its body allocates.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I64};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value};
use cranelift_module::Linkage;
use irc_syntax::{DType, Expr, Func, FuncKind, Span};

use super::object::is_object;
use super::{Form, Host, HostTensor, HostValue, flatten_type};
use crate::check::prim::{self, Bound, BoundCall, Items, Prim};
use crate::check::{TensorType, Type, type_from_expr};
use crate::codegen::lower::{Extent, Res, unsupported};
use crate::codegen::runtime::call as record;

/// A value that goes round: its type in the body, and its first word.
struct Carried {
    ty: Type,
    at: i32,
}

/// A result that gets one row an iteration.
struct Stacked {
    dtype: DType,
    rank: usize,
    /// The word of its buffer; then come the rows that it holds, and the extents of one.
    at: i32,
}

/// The loop being lowered.
struct Loop {
    body: Func,
    carried: Vec<Carried>,
    stacked: Vec<Stacked>,
    /// The state, `args` of the body, its results.
    state: Value,
    args: Value,
    results: Value,
    /// The newest block at the start.
    until: Value,
    trips: Option<Value>,
    has_condition: bool,
}

/// Words of the state that every loop has: the iteration, the condition.
const ITERATION: i32 = 0;
const CONDITION: i32 = 8;
const FIRST: i32 = 16;

const FLAGS: fn() -> MemFlagsData = MemFlagsData::trusted;

impl Host<'_, '_, '_> {
    /// The carried values at the end and the stacked ones.
    pub fn while_loop(&mut self, expr: &Expr) -> Res<HostValue> {
        let span = expr.span;
        let call = prim::bind(Prim::WhileLoop, expr)?;
        let body = self.loop_body(&call)?;
        let params: Vec<Type> = (0..body.params.len())
            .map(|idx| self.param_type(&body, idx).unwrap_or(Type::Any))
            .collect();
        let outs = out_types(&call)?;
        let initial = self.loop_values(call.items("carried"))?;
        let captured = self.loop_values(call.items("captured"))?;
        if params.len() != 1 + initial.len() + captured.len() || outs.len() < initial.len() {
            return Err(unsupported(
                span,
                "the body of this loop takes other values",
            ));
        }
        let trips = match call.operand("trip_count") {
            Some(expr) => {
                let held = self.value(expr, None)?;
                Some(self.integer(held, expr.span)?)
            }
            None => None,
        };
        let condition = match call.operand("condition") {
            Some(expr) => {
                let held = self.value(expr, None)?;
                Some(self.truth(held, expr.span)?)
            }
            None => None,
        };
        let (mut carried, mut at) = (Vec::new(), FIRST);
        for ty in params.iter().skip(1).take(initial.len()) {
            carried.push(Carried { ty: ty.clone(), at });
            at += 8 * words(ty, span)? as i32;
        }
        let mut stacked = Vec::new();
        for ty in outs.iter().skip(initial.len()) {
            let Type::Tensor(TensorType {
                dtype: Some(dtype),
                ndim: Some(rank @ 1..),
                ..
            }) = ty
            else {
                return Err(unsupported(span, "a stacked result has a known rank"));
            };
            let (dtype, rank) = (*dtype, rank - 1);
            stacked.push(Stacked { dtype, rank, at });
            at += 8 * (2 + rank as i32);
        }
        let ret = self.return_type(&body, span)?;
        let mut leaves = Vec::new();
        flatten_type(&ret, &mut leaves)
            .ok_or_else(|| unsupported(span, "the results of the body have no known rank"))?;
        let n_results: usize = leaves.iter().map(super::Leaf::words).sum();
        let state = self.slot(at as u32);
        let args = self.slot(16 * params.len() as u32);
        let results = self.slot(8 * n_results as u32);
        let has_condition = condition.is_some();
        self.enter_loop(state, (&carried, &stacked), &outs, initial, condition, span)?;
        let types = &params[1 + carried.len()..];
        self.captured_args((state, args), &carried, captured, types, span)?;
        let this = Loop {
            // What is live from the start on is older than what iterations give back.
            until: self.load_word(self.call, record::BLOCKS),
            state,
            args,
            results,
            has_condition,
            body,
            carried,
            stacked,
            trips,
        };
        self.emit_loop(&this, span)?;
        self.loop_results(&this, &outs, span)
    }

    fn loop_body(&mut self, call: &BoundCall) -> Res<Func> {
        let Bound::Expr(callee) = call.get("func") else {
            return Err(unsupported(call.span, "a loop needs a body"));
        };
        let path = callee.as_path().unwrap_or_default();
        let short = path.rsplit('.').next().unwrap_or(&path);
        let func = self.program.module.find_func(short);
        func.filter(|func| func.kind == FuncKind::Graph)
            .cloned()
            .ok_or_else(|| unsupported(call.span, format!("there is no graph function `{short}`")))
    }

    fn loop_values(&mut self, items: Items<'_>) -> Res<Vec<HostValue>> {
        match items {
            Items::Listed(items) => items.iter().map(|item| self.value(item, None)).collect(),
            Items::Tuple(expr) => match self.value(expr, None)? {
                HostValue::Tuple(items) => Ok(items),
                one => Ok(vec![one]),
            },
        }
    }

    fn slot(&mut self, bytes: u32) -> Value {
        let slot = self.lower.stack(bytes, 8);
        self.lower.b.ins().stack_addr(I64, slot, 0)
    }

    /// Sets the state: the first carried values, and buffers without rows.
    fn enter_loop(
        &mut self,
        state: Value,
        (carried, stacked): (&[Carried], &[Stacked]),
        outs: &[Type],
        initial: Vec<HostValue>,
        condition: Option<Value>,
        span: Option<Span>,
    ) -> Res<()> {
        let zero = self.lower.i64(0);
        self.store_word(zero, state, ITERATION);
        let condition = condition.unwrap_or_else(|| self.lower.b.ins().iconst(I8, 1));
        let condition = self.lower.b.ins().uextend(I64, condition);
        self.store_word(condition, state, CONDITION);
        let n_carried = carried.len();
        for (carried, value) in carried.iter().zip(initial) {
            let value = self.coerce(value, &carried.ty, span)?;
            self.store_value(value, state, carried.at, span)?;
        }
        for (stacked, ty) in stacked.iter().zip(&outs[n_carried..]) {
            let buffer =
                self.lower
                    .call_runtime("irc_alloc", &[I64, I64], &[I64], &[self.call, zero])?;
            self.lower.require_pointer(buffer);
            self.store_word(buffer, state, stacked.at);
            self.store_word(zero, state, stacked.at + 8);
            // Without an iteration nothing says the extents but the type.
            let shape = ty.as_tensor().and_then(|tensor| tensor.shape.clone());
            for axis in 0..stacked.rank {
                let dim = shape.as_ref().and_then(|dims| dims.get(axis + 1));
                let known = dim.filter(|dim| {
                    let symbols = dim.symbols();
                    symbols.iter().all(|sym| self.lower.scope.contains_key(sym))
                });
                let extent = match known {
                    Some(dim) => self.extent(&dim.to_expr())?,
                    None => Extent::Const(0),
                };
                let extent = self.lower.extent(extent);
                self.store_word(extent, state, stacked.at + 16 + 8 * axis as i32);
            }
        }
        Ok(())
    }

    /// The arguments that stay the same, and those that point into the state.
    fn captured_args(
        &mut self,
        (state, args): (Value, Value),
        carried: &[Carried],
        captured: Vec<HostValue>,
        types: &[Type],
        span: Option<Span>,
    ) -> Res<()> {
        let zero = self.lower.i64(0);
        let iteration = self.lower.b.ins().iadd_imm_s(state, i64::from(ITERATION));
        self.store_word(iteration, args, 0);
        self.store_word(zero, args, 8);
        for (idx, carried) in carried.iter().enumerate() {
            let shape = if is_object(&carried.ty) {
                zero
            } else {
                let at = i64::from(carried.at) + 8;
                self.lower.b.ins().iadd_imm_s(state, at)
            };
            self.store_word(shape, args, 16 * (1 + idx as i32) + 8);
        }
        let first = 1 + carried.len() as i32;
        for (idx, (value, ty)) in captured.into_iter().zip(types).enumerate() {
            let value = self.coerce(value, ty, span)?;
            let (data, shape) = self.argument(value, ty, span)?;
            let at = 16 * (first + idx as i32);
            self.store_word(data, args, at);
            self.store_word(shape, args, at + 8);
        }
        Ok(())
    }

    fn store_word(&mut self, value: Value, base: Value, at: i32) {
        self.lower.b.ins().store(FLAGS(), value, base, at);
    }

    fn load_word(&mut self, base: Value, at: i32) -> Value {
        self.lower.b.ins().load(I64, FLAGS(), base, at)
    }

    /// Header, one iteration, and back.
    fn emit_loop(&mut self, this: &Loop, span: Option<Span>) -> Res<()> {
        let b = &mut self.lower.b;
        let (head, inner, end) = (b.create_block(), b.create_block(), b.create_block());
        b.ins().jump(head, &[]);
        b.switch_to_block(head);
        let iteration = self.load_word(this.state, ITERATION);
        let mut goes_on = self.load_word(this.state, CONDITION);
        if let Some(trips) = this.trips {
            let b = &mut self.lower.b;
            let more = b.ins().icmp(IntCC::SignedLessThan, iteration, trips);
            let holds = b.ins().icmp_imm_s(IntCC::NotEqual, goes_on, 0);
            goes_on = b.ins().band(more, holds);
        }
        self.lower.b.ins().brif(goes_on, inner, &[], end, &[]);
        self.lower.b.switch_to_block(inner);
        self.lower.b.seal_block(inner);
        for (idx, carried) in this.carried.iter().enumerate() {
            let data = self.load_word(this.state, carried.at);
            self.store_word(data, this.args, 16 * (1 + idx as i32));
        }
        let id = super::declare(self.lower.asm, &this.body.name, Form::Inner)?;
        let status = self.lower.call(id, &[self.call, this.args, this.results]);
        self.lower.check_status(status);
        let mut at = 0;
        if this.has_condition {
            let place = self.load_word(this.results, at);
            let holds = self.lower.b.ins().load(I8, FLAGS(), place, 0);
            let holds = self.lower.b.ins().uextend(I64, holds);
            self.store_word(holds, this.state, CONDITION);
            at += 8;
        }
        for carried in &this.carried {
            for word in 0..words(&carried.ty, span)? as i32 {
                let value = self.load_word(this.results, at);
                self.store_word(value, this.state, carried.at + 8 * word);
                at += 8;
            }
        }
        for stacked in &this.stacked {
            self.add_row(this, stacked, at, iteration)?;
            at += 8 * (1 + stacked.rank as i32);
        }
        self.give_back(this)?;
        let next = self.lower.b.ins().iadd_imm_s(iteration, 1);
        self.store_word(next, this.state, ITERATION);
        let b = &mut self.lower.b;
        b.ins().jump(head, &[]);
        b.seal_block(head);
        b.switch_to_block(end);
        b.seal_block(end);
        Ok(())
    }

    /// Copies one row behind the others.
    fn add_row(&mut self, this: &Loop, stacked: &Stacked, at: i32, iteration: Value) -> Res<()> {
        let data = self.load_word(this.results, at);
        let is_first = self.lower.b.ins().icmp_imm_s(IntCC::Equal, iteration, 0);
        let mut dims = Vec::with_capacity(stacked.rank);
        for axis in 0..stacked.rank as i32 {
            let dim = self.load_word(this.results, at + 8 + 8 * axis);
            let place = stacked.at + 16 + 8 * axis;
            let wanted = self.load_word(this.state, place);
            let same = self.lower.b.ins().icmp(IntCC::Equal, dim, wanted);
            let good = self.lower.b.ins().bor(same, is_first);
            let text = "a row of a stacked result differs in shape from those before";
            self.lower.require(good, "ValueError", text)?;
            self.store_word(dim, this.state, place);
            dims.push(Extent::Run(dim));
        }
        let bytes = self.bytes(stacked.dtype, &dims);
        let (buffer, held) = (
            self.load_word(this.state, stacked.at),
            self.load_word(this.state, stacked.at + 8),
        );
        let so_far = self.lower.b.ins().imul(iteration, bytes);
        let b = &mut self.lower.b;
        let (grow, go_on) = (b.create_block(), b.create_block());
        let full = b
            .ins()
            .icmp(IntCC::SignedGreaterThanOrEqual, iteration, held);
        b.ins().brif(full, grow, &[], go_on, &[]);
        b.switch_to_block(grow);
        b.seal_block(grow);
        let twice = b.ins().ishl_imm_s(held, 1);
        let four = b.ins().iconst(I64, 4);
        let more = b.ins().smax(twice, four);
        let all = b.ins().imul(more, bytes);
        let larger =
            self.lower
                .call_runtime("irc_alloc", &[I64, I64], &[I64], &[self.call, all])?;
        self.lower.require_pointer(larger);
        self.copy_bytes(larger, buffer, so_far)?;
        self.store_word(larger, this.state, stacked.at);
        self.store_word(more, this.state, stacked.at + 8);
        let b = &mut self.lower.b;
        b.ins().jump(go_on, &[]);
        b.switch_to_block(go_on);
        b.seal_block(go_on);
        let buffer = self.load_word(this.state, stacked.at);
        let place = self.lower.b.ins().iadd(buffer, so_far);
        self.copy_bytes(place, data, bytes)
    }

    fn copy_bytes(&mut self, to: Value, from: Value, bytes: Value) -> Res<()> {
        let id = self
            .lower
            .asm
            .declare("memcpy", Linkage::Import, &[I64, I64, I64], &[I64])?;
        self.lower.call(id, &[to, from, bytes]);
        Ok(())
    }

    /// Frees what the iteration allocated and nothing holds.
    fn give_back(&mut self, this: &Loop) -> Res<()> {
        let call = self.call;
        for carried in &this.carried {
            let value = self.load_word(this.state, carried.at);
            self.mark(call, this.until, value, &carried.ty)?;
        }
        for stacked in &this.stacked {
            let buffer = self.load_word(this.state, stacked.at);
            self.lower.call_runtime(
                "irc_mark",
                &[I64, I64, I64],
                &[],
                &[call, this.until, buffer],
            )?;
        }
        self.lower
            .call_runtime("irc_sweep", &[I64, I64], &[], &[call, this.until])?;
        Ok(())
    }

    fn mark(&mut self, call: Value, until: Value, value: Value, ty: &Type) -> Res<()> {
        let name = match ty {
            Type::Seq(_) => "irc_mark_seq",
            Type::Opt(inner) => return self.mark(call, until, value, inner),
            ty if is_object(ty) => "irc_mark_record",
            // An optional of a tensor of known rank is a record too; plain tensors have their address in the state.
            _ => {
                self.lower.call_runtime(
                    "irc_mark",
                    &[I64, I64, I64],
                    &[],
                    &[call, until, value],
                )?;
                return Ok(());
            }
        };
        self.lower.call_runtime(name, &[I64], &[], &[value])?;
        Ok(())
    }

    fn loop_results(&mut self, this: &Loop, outs: &[Type], span: Option<Span>) -> Res<HostValue> {
        let mut values = Vec::with_capacity(outs.len());
        for (carried, out) in this.carried.iter().zip(outs) {
            let value = self.load_value(&carried.ty, this.state, carried.at);
            values.push(self.coerce(value, out, span)?);
        }
        for stacked in &this.stacked {
            let data = self.load_word(this.state, stacked.at);
            let n = self.load_word(this.state, ITERATION);
            let mut dims = vec![Extent::Run(n)];
            for axis in 0..stacked.rank as i32 {
                let dim = self.load_word(this.state, stacked.at + 16 + 8 * axis);
                dims.push(Extent::Run(dim));
            }
            values.push(HostValue::Tensor(HostTensor {
                data,
                dtype: stacked.dtype,
                dims,
            }));
        }
        Ok(match values.len() {
            1 => values.swap_remove(0),
            _ => HostValue::Tuple(values),
        })
    }
}

/// How many words a value of a type takes where it goes round or is returned.
fn words(ty: &Type, span: Option<Span>) -> Res<usize> {
    let mut leaves = Vec::new();
    flatten_type(ty, &mut leaves)
        .ok_or_else(|| unsupported(span, format!("{ty} cannot go round a loop")))?;
    match (leaves.as_slice(), ty) {
        ([leaf], Type::Tensor(_) | Type::Seq(_) | Type::Opt(_)) => Ok(leaf.words()),
        _ => Err(unsupported(span, format!("{ty} cannot go round a loop"))),
    }
}

/// The types that `out_ty=` states.
fn out_types(call: &BoundCall) -> Res<Vec<Type>> {
    let Bound::Expr(expr) = call.get("out_ty") else {
        return Ok(Vec::new());
    };
    match expr.as_items() {
        Some(items) => items.iter().map(type_from_expr).collect(),
        None => Ok(match type_from_expr(expr)? {
            Type::Tuple(types) => types,
            Type::Void => Vec::new(),
            one => vec![one],
        }),
    }
}
