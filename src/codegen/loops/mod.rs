//! The loop level: one `@T.prim_func` in, one Cranelift function of the object's calling convention out.
//!
//! Any mixture of blocks (`T.sblock` with axes, `T.init`, `T.where`) and plain scheduled loops is taken. A parallel
//! loop becomes a function of its own that the pool runs; a kernel region becomes machine code of the kernel emitter
//! where that takes it, and plain code otherwise. Tests: `tests/codegen`.

mod block;
mod buffer;
mod call;
mod nest;
mod parallel;
mod stmt;
mod walk;

use std::rc::Rc;

use cranelift_codegen::ir::types::{F32, F64, I32, I64};
use cranelift_codegen::ir::{Function, Type, Value};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_module::{FuncId, Linkage};
use irc_syntax::{DType, Diagnostic, Expr, ExprKind, Func, Name, StmtKind};

use super::arith::Val;
use super::cast;
use super::lower::{Binding, Lower, Res, unsupported};
use super::object::Assembler;

pub use buffer::{BufferDecl, read_decl};
pub use nest::constant;

/// One parameter of a prim_func.
pub enum PrimParam {
    /// A pointer to the elements.
    Buffer(BufferDecl),
    /// A scalar.
    Scalar(DType),
}

/// What a caller of a prim_func has to pass.
pub struct PrimSig {
    /// Parameters in order.
    pub params: Vec<(Name, PrimParam)>,
    /// Its symbolic dims, in order of first appearance.
    pub dims: Vec<Name>,
}

impl PrimSig {
    /// The types of the compiled function's parameters.
    pub fn types(&self) -> Vec<Type> {
        let params = self.params.iter().map(|(_, param)| match param {
            PrimParam::Buffer(_) => I64,
            PrimParam::Scalar(dtype) => argument_type(*dtype),
        });
        params.chain(self.dims.iter().map(|_| I64)).collect()
    }
}

/// The type that a scalar is passed in.
pub fn argument_type(dtype: DType) -> Type {
    match (dtype.is_float(), dtype.bits()) {
        (true, 64) => F64,
        (true, _) => F32,
        (false, 64) => I64,
        (false, _) => I32,
    }
}

/// Reads the signature of a prim_func.
pub fn prim_sig(func: &Func) -> Res<PrimSig> {
    let mut params = Vec::new();
    for param in &func.params {
        let ty = param
            .ty
            .as_ref()
            .ok_or_else(|| unsupported(param.span, format!("`{}` has no type", param.name)))?;
        let decl = if ty.is_call_of("T.Buffer") {
            PrimParam::Buffer(read_decl(ty, 0)?)
        } else if ty.as_path().as_deref() == Some("T.handle") || ty.is_call_of("T.handle") {
            PrimParam::Buffer(find_match(func, &param.name)?)
        } else {
            PrimParam::Scalar(scalar_type(ty)?)
        };
        params.push((param.name.clone(), decl));
    }
    let mut dims: Vec<Name> = Vec::new();
    for (_, param) in &params {
        let PrimParam::Buffer(decl) = param else {
            continue;
        };
        let strides = decl.strides.iter().flatten();
        for expr in decl.shape.iter().chain(strides).chain(&decl.elem_offset) {
            collect_names(expr, &mut |name| {
                if !dims.contains(name) && func.params.iter().all(|param| param.name != *name) {
                    dims.push(name.clone());
                }
            });
        }
    }
    Ok(PrimSig { params, dims })
}

/// The dtype of a scalar parameter's annotation: `T.int64`, or `T.int64()`.
fn scalar_type(ty: &Expr) -> Res<DType> {
    let path = match &ty.kind {
        ExprKind::Call { func, .. } => func.as_path(),
        _ => ty.as_path(),
    };
    path.and_then(|path| DType::from_name(path.strip_prefix("T.")?))
        .ok_or_else(|| unsupported(ty.span, "this parameter type cannot be compiled"))
}

/// The `T.match_buffer` of a handle parameter.
fn find_match(func: &Func, param: &Name) -> Res<BufferDecl> {
    for stmt in &func.body {
        if let StmtKind::Assign { value, .. } = &stmt.kind
            && value.is_call_of("T.match_buffer")
            && value.positional().next().and_then(Expr::as_name) == Some(param)
        {
            return read_decl(value, 1);
        }
    }
    Err(unsupported(
        func.name_span,
        format!("`{param}` is matched to no buffer"),
    ))
}

/// The names inside a dim expression; a compound dim may be quoted.
fn collect_names(expr: &Expr, found: &mut dyn FnMut(&Name)) {
    match &expr.kind {
        ExprKind::Name(name) => found(name),
        ExprKind::Str(text) => match irc_syntax::parse_expr_str(text) {
            Ok(inner) => collect_names(&inner, found),
            Err(_) => found(&Name::from(text.as_str())),
        },
        ExprKind::Binary { lhs, rhs, .. } => {
            collect_names(lhs, found);
            collect_names(rhs, found);
        }
        ExprKind::Unary { value, .. } => collect_names(value, found),
        ExprKind::Call { args, .. } => {
            for arg in args {
                collect_names(&arg.value, found);
            }
        }
        _ => {}
    }
}

/// Declares the symbol of a prim_func.
pub fn declare(asm: &mut Assembler, func: &Func) -> Res<FuncId> {
    let sig = prim_sig(func)?;
    let id = asm.declare(
        &format!("irc.{}", func.name),
        Linkage::Local,
        &sig.types(),
        &[I32],
    )?;
    asm.prims.insert(func.name.clone(), (id, Rc::new(sig)));
    Ok(id)
}

/// Lowers a prim_func into the object.
///
/// # Errors
/// What cannot be compiled, at its place.
pub fn lower(asm: &mut Assembler, func: &Func) -> Result<(), Diagnostic> {
    let sig = prim_sig(func)?;
    let id = declare(asm, func)?;
    let line = asm.lines.line(func.name_span);
    asm.start_at(id, line);
    let mut body: Function = asm.begin(id);
    let mut cx = FunctionBuilderContext::new();
    let builder = FunctionBuilder::new(&mut body, &mut cx);
    let mut lower = Lower::new(asm, builder, &format!("irc.{}", func.name));
    lower.checked = func
        .attr("irc.checked")
        .and_then(Expr::as_str)
        .map(str::to_owned);
    let values: Vec<Value> = lower.b.block_params(lower.entry).to_vec();
    let (args, dims) = values.split_at(sig.params.len());
    for (name, &v) in sig.dims.iter().zip(dims) {
        lower.scope.insert(
            name.clone(),
            Binding::Index {
                v,
                dtype: DType::I64,
                natural: true,
            },
        );
    }
    for ((name, param), &v) in sig.params.iter().zip(args) {
        if let PrimParam::Scalar(dtype) = param {
            lower.bind_scalar(name, *dtype, v)?;
        }
    }
    for ((name, param), &v) in sig.params.iter().zip(args) {
        if let PrimParam::Buffer(decl) = param {
            lower.bind_buffer(name, decl, v)?;
        }
    }
    lower.statements(&func.body)?;
    lower.finish()?;
    asm.define(id, body);
    Ok(())
}

impl Lower<'_, '_> {
    /// Brings a scalar parameter into scope.
    fn bind_scalar(&mut self, name: &Name, dtype: DType, v: Value) -> Res<()> {
        let binding = if dtype == DType::I64 {
            Binding::Index {
                v,
                dtype,
                natural: false,
            }
        } else {
            let passed = match (dtype.is_float(), dtype.bits()) {
                (true, 64) => DType::F64,
                (true, _) => DType::F32,
                (false, 64) => dtype,
                (false, _) => DType::I32,
            };
            let v = cast::cast(&mut self.b, v, passed, dtype);
            Binding::Value(Val { v, dtype })
        };
        self.scope.insert(name.clone(), binding);
        Ok(())
    }
}
