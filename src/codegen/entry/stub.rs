//! The code and data of one entry: a description, and functions that hand it to `irc_call`.

use cranelift_codegen::ir::types::{F64, I32, I64};
use cranelift_codegen::ir::{Type, Value};
use cranelift_module::{DataDescription, DataId, Linkage};
use irc_syntax::{BinaryOp, DType, Diagnostic, Expr, ExprKind, UnaryOp};

use super::describe::{DimRule, Entry, Form, Kind, Slot};
use super::layout::{DIM_BYTES, PARAM_BYTES, SYMBOL_BYTES, any, dim, frame, func, param, symbol};
use super::map;
use crate::codegen::Assembler;
use crate::codegen::runtime::emit::{Emit, define};
use crate::codegen::runtime::{ARRAY_TYPE, TENSOR_BODY, call};

/// The frame of a call: the record of the call, then its parts.
struct Frame {
    outs: i64,
    args: i64,
    symbols: i64,
    binders: i64,
    dims: i64,
    bytes: i64,
}

impl Frame {
    fn new(entry: &Entry) -> Self {
        let outs = i64::from(call::BYTES);
        let args = outs + call::OUT_BYTES * entry.outputs.len() as i64;
        let symbols = args + 16 * entry.inputs.len() as i64;
        let binders = symbols + 8 * entry.symbols.len() as i64;
        let dims = binders + 8 * entry.symbols.len() as i64;
        let bytes = dims + 8 * entry.compound.len() as i64;
        Self {
            outs,
            args,
            symbols,
            binders,
            dims,
            bytes,
        }
    }
}

/// A table of 64-bit words, some of which are addresses.
#[derive(Default)]
struct Table {
    bytes: Vec<u8>,
    data: Vec<(u32, DataId)>,
}

impl Table {
    fn word(&mut self, value: i64) {
        self.bytes.extend(value.to_le_bytes());
    }

    fn addr(&mut self, id: DataId) {
        self.data.push((self.bytes.len() as u32, id));
        self.word(0);
    }

    fn text(&mut self, asm: &mut Assembler, text: &str) -> Result<(), Diagnostic> {
        let id = asm.c_text(text)?;
        self.addr(id);
        Ok(())
    }

    /// Places the table; `funcs` are addresses of functions.
    fn place(
        mut self,
        asm: &mut Assembler,
        name: &str,
        funcs: &[(i32, &str, &[Type], &[Type])],
    ) -> Result<DataId, Diagnostic> {
        let id = asm.declare_data(name, Linkage::Local, false)?;
        if self.bytes.is_empty() {
            self.word(0);
        }
        let mut data = DataDescription::new();
        data.define(self.bytes.into_boxed_slice());
        data.set_align(16);
        for (at, target) in self.data {
            let target = asm.data_in_data(target, &mut data);
            data.write_data_addr(at, target, 0);
        }
        for (at, target, params, returns) in funcs {
            let target = asm.declare(target, Linkage::Local, params, returns)?;
            let target = asm.func_in_data(target, &mut data);
            data.write_function_addr(*at as u32, target);
        }
        asm.define_data(id, &data)?;
        Ok(id)
    }
}

/// Defines everything of one public function.
pub fn define_entry(asm: &mut Assembler, entry: &Entry) -> Result<(), Diagnostic> {
    define_description(asm, entry)?;
    let name = &entry.name;
    let params = [I64, I64, I32, I64];
    // Where maps are passed, the entry that takes tensors stands behind one that takes maps.
    let (inner, linkage) = match entry.maps.is_empty() {
        true => (format!("__tvm_ffi_{name}"), Linkage::Export),
        false => (format!("irc.{name}.tensors"), Linkage::Local),
    };
    define(asm, &inner, linkage, &params, &[I32], |f| {
        let desc = description(f, entry);
        let frame = f.stack(Frame::new(entry).bytes as u32);
        let (args, n, result) = (f.param(1), f.param(2), f.param(3));
        let status = f.call_i32("irc_call", &[desc, args, n, result, frame]);
        // TVM-FFI knows -1 only; the code is for C.
        f.if_(status, |f| f.ret_status(-1));
        let is_text = |slot: &Slot| slot.kind == Kind::Tensor(DType::Str);
        if entry.outputs.iter().any(is_text) {
            let status = f.call_i64("irc_nested_give_all", &[result]);
            f.if_(status, |f| {
                emit_drop(f, result);
                f.call_i32("irc_report", &[]);
                f.ret_status(-1);
            });
        }
        f.ret_status(0);
    })?;
    if !entry.maps.is_empty() {
        let outer = format!("__tvm_ffi_{name}");
        define(asm, &outer, Linkage::Export, &params, &[I32], |f| {
            map::emit_wrapper(f, entry, &inner);
        })?;
    }
    if !entry.has_c_entries() {
        return Ok(());
    }
    let (inputs, n_out) = (c_types(&entry.inputs), entry.outputs.len());
    let with = |n: usize| -> Vec<Type> {
        inputs
            .iter()
            .copied()
            .chain(std::iter::repeat_n(I64, n))
            .collect()
    };
    define(
        asm,
        &format!("net_{name}"),
        Linkage::Export,
        &with(n_out),
        &[I32],
        |f| {
            let (desc, args, frame) = c_call(f, entry, n_out);
            let (n, result) = (f.int32((entry.inputs.len() + n_out) as i32), f.stack(16));
            let status = f.call_i32("irc_call", &[desc, args, n, result, frame]);
            f.ret(&[status]);
        },
    )?;
    if n_out == 0 {
        return Ok(());
    }
    define(
        asm,
        &format!("net_{name}_new"),
        Linkage::Export,
        &with(n_out),
        &[I32],
        |f| {
            emit_new(f, entry);
        },
    )?;
    define(
        asm,
        &format!("net_{name}_shapes"),
        Linkage::Export,
        &with(n_out),
        &[I32],
        |f| {
            let (desc, args, frame) = c_call(f, entry, 0);
            let shapes = f.stack(8 * n_out as u32);
            for i in 0..n_out {
                let shape = f.param(c_types(&entry.inputs).len() + i);
                f.store(shape, shapes, 8 * i as i32);
            }
            let n = f.int(entry.inputs.len() as i64);
            let status = f.call_i32("irc_call_shapes", &[desc, args, n, frame, shapes]);
            f.ret(&[status]);
        },
    )
}

/// Gives a result up.
fn emit_drop(f: &mut Emit<'_>, result: Value) {
    let (object, nothing) = (f.load(result, any::VALUE), f.int(any::NONE));
    f.call_void("irc_release", &[object]);
    f.store(nothing, result, any::TYPE);
    f.store(nothing, result, any::VALUE);
}

/// `net_f_new(inputs…, &out…) -> status`: the library makes the results.
fn emit_new(f: &mut Emit<'_>, entry: &Entry) {
    let (desc, args, frame) = c_call(f, entry, 0);
    let (n, result) = (f.int32(entry.inputs.len() as i32), f.stack(16));
    let status = f.call_i32("irc_call", &[desc, args, n, result, frame]);
    f.if_(status, |f| f.ret(&[status]));
    let outs = f.offset(frame, Frame::new(entry).outs);
    let n_inputs = c_types(&entry.inputs).len();
    for i in 0..entry.outputs.len() {
        let object = f.load(outs, (call::OUT_BYTES as i32) * i as i32 + 8);
        let (tensor, to) = (f.offset(object, TENSOR_BODY), f.param(n_inputs + i));
        f.store(tensor, to, 0);
    }
    if entry.form == Form::Array {
        // The array's references go to the caller; only the array itself ends.
        let array = f.load(result, any::VALUE);
        let destroyed = f.int32(2);
        f.call_void("irc_array_delete", &[array, destroyed]);
    }
    f.ret_status(0);
}

/// Defines `net_free(tensor)`.
pub fn define_free(asm: &mut Assembler) -> Result<(), Diagnostic> {
    define(asm, "net_free", Linkage::Export, &[I64], &[], |f| {
        let tensor = f.param(0);
        f.if_(tensor, |f| {
            let object = f.offset(tensor, -TENSOR_BODY);
            f.call_void("irc_release", &[object]);
        });
    })
}

/// Types of the C parameters that inputs become.
fn c_types(inputs: &[Slot]) -> Vec<Type> {
    let mut res = Vec::new();
    for input in inputs {
        match input.kind {
            Kind::Tensor(_)
            | Kind::Seq(_)
            | Kind::OptTensor(_)
            | Kind::OptSeq(_)
            | Kind::AnyRank(_) => res.push(I64),
            Kind::Scalar(dtype) => res.push(if dtype.is_float() { F64 } else { I64 }),
            Kind::Shape => res.extend([I64, I64]),
        }
    }
    res
}

/// Packs C arguments the way TVM-FFI passes them: the description, the arguments, and the frame.
fn c_call(f: &mut Emit<'_>, entry: &Entry, n_out: usize) -> (Value, Value, Value) {
    let desc = description(f, entry);
    let frame = f.stack(Frame::new(entry).bytes as u32);
    let n = entry.inputs.len() + n_out;
    let args = f.stack(16 * n.max(1) as u32);
    let mut next = 0;
    let kinds = entry
        .inputs
        .iter()
        .map(|input| Some(input.kind))
        .chain(vec![None; n_out]);
    for (i, kind) in kinds.enumerate() {
        let at = 16 * i as i32;
        let value = f.param(next);
        next += 1;
        let (index, value) = match kind {
            None
            | Some(
                Kind::Tensor(_)
                | Kind::Seq(_)
                | Kind::OptTensor(_)
                | Kind::OptSeq(_)
                | Kind::AnyRank(_),
            ) => (any::DL_TENSOR, value),
            Some(Kind::Scalar(dtype)) => (
                if dtype.is_float() {
                    any::FLOAT
                } else {
                    any::INT
                },
                value,
            ),
            Some(Kind::Shape) => {
                // Only the dims and their number are looked at.
                let object = f.stack(40);
                let rank = f.param(next);
                next += 1;
                f.store(value, object, 24);
                f.store(rank, object, 32);
                (any::SHAPE, object)
            }
        };
        let index = f.int(index);
        f.store(index, args, at + any::TYPE);
        f.store(value, args, at + any::VALUE);
    }
    (desc, args, frame)
}

fn description(f: &mut Emit<'_>, entry: &Entry) -> Value {
    f.data_of(&format!("irc.{}.entry", entry.name), Linkage::Local, false)
}

/// Places the description that `irc_call` reads.
fn define_description(asm: &mut Assembler, entry: &Entry) -> Result<(), Diagnostic> {
    let name = &entry.name;
    let mut params = Table::default();
    for (i, slot) in entry.inputs.iter().chain(&entry.outputs).enumerate() {
        let dims = define_dims(asm, &format!("irc.{name}.dims.{i}"), slot)?;
        let start = params.bytes.len();
        params.text(asm, &slot.name)?;
        params.word(slot.kind_code());
        params.word(slot.dtype_word());
        params.word(slot.dims.len() as i64);
        params.addr(dims);
        params.text(asm, &slot.ty())?;
        params.word(slot.element_bytes());
        params.word(slot.dtype_word());
        params.bytes.resize(start + PARAM_BYTES as usize, 0);
    }
    let params = params.place(asm, &format!("irc.{name}.params"), &[])?;
    let mut symbols = Table::default();
    for (symbol, facts) in &entry.symbols {
        symbols.text(asm, symbol)?;
        symbols.word(facts.min.unwrap_or(i64::MIN));
        symbols.word(facts.max.unwrap_or(i64::MAX));
        symbols.word(facts.multiple_of.max(1));
    }
    let symbols = symbols.place(asm, &format!("irc.{name}.symbols"), &[])?;
    let frame = Frame::new(entry);
    let usage: Vec<&str> = entry
        .inputs
        .iter()
        .map(|input| input.name.as_str())
        .collect();
    let mut table = Table::default();
    table.text(asm, name)?;
    table.word(0);
    table.word(0);
    table.word(entry.inputs.len() as i64);
    table.word(entry.outputs.len() as i64);
    table.word(entry.symbols.len() as i64);
    table.addr(params);
    table.addr(symbols);
    table.word(match entry.form {
        Form::Tensor => func::RESULT_TENSOR,
        Form::Array => func::RESULT_ARRAY,
        Form::None => func::RESULT_NONE,
    });
    table.text(asm, &usage.join(", "))?;
    for offset in [
        frame.outs,
        frame.args,
        frame.symbols,
        frame.binders,
        frame.dims,
    ] {
        table.word(offset);
    }
    let host = host_name(entry);
    let mut funcs: Vec<(i32, &str, &[Type], &[Type])> =
        vec![(func::HOST, &host, &[I64, I64], &[I32])];
    let evaluator = format!("irc.{name}.compound");
    if !entry.compound.is_empty() {
        define_compound(asm, &evaluator, entry)?;
        funcs.push((func::DIMS, &evaluator, &[I64, I64], &[]));
    }
    if entry.is_loops {
        define_adapter(asm, entry)?;
    }
    table.place(asm, &format!("irc.{name}.entry"), &funcs)?;
    Ok(())
}

fn define_dims(asm: &mut Assembler, name: &str, slot: &Slot) -> Result<DataId, Diagnostic> {
    let mut table = Table::default();
    for rule in &slot.dims {
        let words = match *rule {
            DimRule::Const(value) => [dim::CONST, value, 0, 0],
            DimRule::Linear {
                symbol,
                factor,
                term,
            } => [dim::LINEAR, symbol as i64, factor, term],
            DimRule::Compound(place) => [dim::COMPOUND, place as i64, 0, 0],
            DimRule::Any => [dim::ANY, 0, 0, 0],
        };
        words.into_iter().for_each(|word| table.word(word));
    }
    table.place(asm, name, &[])
}

/// The function in the convention of graph functions: its own, or an adapter of a prim_func.
fn host_name(entry: &Entry) -> String {
    if entry.is_loops {
        format!("irc.{}.host", entry.name)
    } else {
        format!("irc.{}", entry.name)
    }
}

/// Calls a prim_func the way a graph function is called.
fn define_adapter(asm: &mut Assembler, entry: &Entry) -> Result<(), Diagnostic> {
    define(
        asm,
        &host_name(entry),
        Linkage::Local,
        &[I64, I64],
        &[I32],
        |f| {
            let args = f.param(1);
            let mut values = Vec::new();
            for (i, input) in entry.inputs.iter().enumerate() {
                let value = f.load(args, 16 * i as i32);
                values.push(match input.kind {
                    Kind::Scalar(dtype) => f.scalar(value, dtype),
                    Kind::Tensor(_)
                    | Kind::Shape
                    | Kind::Seq(_)
                    | Kind::OptTensor(_)
                    | Kind::OptSeq(_)
                    | Kind::AnyRank(_) => value,
                });
            }
            // The entry has bound the symbols; they lie in the frame that the call record begins.
            let (record, offset) = (f.param(0), Frame::new(entry).symbols);
            let symbols = f.offset(record, offset);
            for i in 0..entry.symbols.len() {
                let value = f.load(symbols, 8 * i as i32);
                values.push(value);
            }
            let status = f.call_i32(&format!("irc.{}", entry.name), &values);
            f.ret(&[status]);
        },
    )
}

/// `fn(symbols, dims)`: evaluates the compound dims.
fn define_compound(asm: &mut Assembler, name: &str, entry: &Entry) -> Result<(), Diagnostic> {
    define(asm, name, Linkage::Local, &[I64, I64], &[], |f| {
        let (symbols, dims) = (f.param(0), f.param(1));
        for (i, compound) in entry.compound.iter().enumerate() {
            let value = emit_dim(f, entry, symbols, &compound.to_expr());
            f.store(value, dims, 8 * i as i32);
        }
    })
}

/// The value of a dim expression; what cannot be evaluated is -1, which no extent is.
fn emit_dim(f: &mut Emit<'_>, entry: &Entry, symbols: Value, expr: &Expr) -> Value {
    match &expr.kind {
        ExprKind::Int(value) => f.int(i64::try_from(*value).unwrap_or(-1)),
        ExprKind::Name(name) => match entry.symbols.iter().position(|(symbol, _)| symbol == name) {
            Some(place) => f.load(symbols, 8 * place as i32),
            None => f.int(-1),
        },
        ExprKind::Unary {
            op: UnaryOp::Neg,
            value,
        } => {
            let (zero, value) = (f.int(0), emit_dim(f, entry, symbols, value));
            f.sub(zero, value)
        }
        ExprKind::Binary { op, lhs, rhs } => {
            let (lhs, rhs) = (
                emit_dim(f, entry, symbols, lhs),
                emit_dim(f, entry, symbols, rhs),
            );
            match op {
                BinaryOp::Add => f.add(lhs, rhs),
                BinaryOp::Sub => f.sub(lhs, rhs),
                BinaryOp::Mul => f.mul(lhs, rhs),
                BinaryOp::FloorDiv => f.floor_div_mod(lhs, rhs).0,
                BinaryOp::Mod => f.floor_div_mod(lhs, rhs).1,
                _ => f.int(-1),
            }
        }
        ExprKind::Call { .. } => {
            let path = expr.as_call().map(|(path, _)| path).unwrap_or_default();
            let args: Vec<Value> = expr
                .positional()
                .map(|arg| emit_dim(f, entry, symbols, arg))
                .collect();
            match (path.as_str(), args.as_slice()) {
                ("T.min", &[a, b]) => f.min(a, b),
                ("T.max", &[a, b]) => f.max(a, b),
                _ => f.int(-1),
            }
        }
        _ => f.int(-1),
    }
}

/// Defines `net_manifest()` and `__tvm_ffi_irc_manifest`.
pub fn define_manifest(asm: &mut Assembler, manifest: &str) -> Result<(), Diagnostic> {
    let id = asm.declare_data("irc.manifest", Linkage::Local, false)?;
    let mut data = DataDescription::new();
    data.define(manifest.bytes().chain([0]).collect());
    data.custom_section = Some(crate::codegen::MANIFEST_SECTION.to_owned());
    asm.define_data(id, &data)?;
    define(asm, "net_manifest", Linkage::Export, &[], &[I64], |f| {
        let text = f.data_of("irc.manifest", Linkage::Local, false);
        f.ret(&[text]);
    })?;
    let params = [I64, I64, I32, I64];
    let length = manifest.len() as i64;
    define(
        asm,
        "__tvm_ffi_irc_manifest",
        Linkage::Export,
        &params,
        &[I32],
        |f| {
            let result = f.param(3);
            let text = f.data_of("irc.manifest", Linkage::Local, false);
            let make = f.func_addr("TVMFFIStringFromByteArray", &[I64, I64], &[I32]);
            f.if_(make, |f| {
                let (bytes, length) = (f.stack(16), f.int(length));
                f.store(text, bytes, 0);
                f.store(length, bytes, 8);
                let status = f.call_addr(make, &[bytes, result], &[I32]);
                f.ret(&[status]);
            });
            let kind = f.int(any::RAW_STR);
            f.store(kind, result, any::TYPE);
            f.store(text, result, any::VALUE);
            f.ret_status(0);
        },
    )
}

const _: () = assert!(ARRAY_TYPE == 71 && symbol::MULTIPLE_OF as i64 + 8 == SYMBOL_BYTES);
const _: () =
    assert!(dim::TERM as i64 + 8 == DIM_BYTES && param::RESULT_DTYPE as i64 + 16 == PARAM_BYTES);
const _: () = assert!(frame::DIMS as usize + 8 == func::BYTES && func::FRAME == frame::OUTS);
