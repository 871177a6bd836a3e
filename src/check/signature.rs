//! What callers see of a function: parameters, result, effects.

use std::collections::BTreeMap;

use irc_syntax::{DType, Diagnostic, Expr, ExprKind, Func, FuncKind, Module, Name, Span};

use super::annotation::type_from_expr;
use super::prim;
use super::types::{TensorType, Type};

/// A function as its callers see it.
#[derive(Clone, Debug)]
pub(crate) struct Signature {
    pub(crate) kind: FuncKind,
    pub(crate) params: Vec<(Name, Type)>,
    /// `None` when it is not annotated.
    pub(crate) ret: Option<Type>,
    /// `@R.function(pure=False)`
    pub(crate) impure: bool,
    pub(crate) span: Option<Span>,
}

/// The signatures of a module's functions; annotations in error count as `Type::Error`.
pub(crate) fn signatures(
    module: &Module,
    faults: &mut Vec<Diagnostic>,
) -> BTreeMap<Name, Signature> {
    let mut found: BTreeMap<Name, Signature> = BTreeMap::new();
    for func in module.funcs() {
        if let Some(first) = found.get(&func.name) {
            faults.push(
                Diagnostic::error(
                    "duplicate-name",
                    format!("function `{}` is defined twice", func.name),
                )
                .at(func.name_span.or(func.span), "defined again here")
                .related(first.span, "first defined here"),
            );
            continue;
        }
        found.insert(func.name.clone(), signature(func, faults));
    }
    found
}

/// The signature of one function.
pub(crate) fn signature(func: &Func, faults: &mut Vec<Diagnostic>) -> Signature {
    let mut read = |ty: &Expr| {
        let ty = match func.kind {
            FuncKind::Loops => buffer_type(ty),
            FuncKind::Graph | FuncKind::Local => type_from_expr(ty),
        };
        ty.unwrap_or_else(|fault| {
            faults.push(fault);
            Type::Error
        })
    };
    let params = func.params.iter().map(|param| {
        (
            param.name.clone(),
            param.ty.as_ref().map_or(Type::Any, &mut read),
        )
    });
    let params = params.collect();
    let ret = match func.kind {
        FuncKind::Loops => Some(Type::Void),
        FuncKind::Graph | FuncKind::Local => func.ret.as_ref().map(&mut read),
    };
    let impure = func
        .decorator_arg("pure")
        .is_some_and(|pure| pure.kind == ExprKind::Bool(false));
    Signature {
        kind: func.kind,
        params,
        ret,
        impure,
        span: func.name_span.or(func.span),
    }
}

/// `T.Buffer((n, 4), "float32")` as the tensor type of its elements; scalars as scalars, handles as anything.
pub(crate) fn buffer_type(ty: &Expr) -> Result<Type, Diagnostic> {
    let is_buffer = [
        "T.Buffer",
        "T.match_buffer",
        "T.alloc_buffer",
        "T.sblock_alloc_buffer",
        "T.alloc_local",
        "T.decl_buffer",
        "T.alloc_shared",
    ];
    let Some((path, _)) = ty
        .as_call()
        .filter(|(path, _)| is_buffer.contains(&path.as_str()))
    else {
        return type_from_expr(ty);
    };
    let mut args = ty.positional();
    if path == "T.match_buffer" {
        args.next();
    }
    let shape = args.next().or_else(|| ty.keyword("shape"));
    let dims = match shape {
        Some(shape) => match prim::shape_dims(shape) {
            Some(dims) => Some(dims?),
            // One extent without a tuple.
            None => Some(vec![crate::shape::Dim::from_expr(shape)?]),
        },
        None => None,
    };
    let dtype = args.next().or_else(|| ty.keyword("dtype"));
    let dtype = match dtype.and_then(Expr::as_str) {
        Some(name) => scalar_dtype(name, ty)?,
        None => DType::F32,
    };
    let ndim = dims.as_ref().map(Vec::len);
    Ok(Type::Tensor(TensorType {
        dtype: Some(dtype),
        ndim,
        shape: dims,
        value: None,
    }))
}

/// A dtype by name; of a vector type the element.
pub(crate) fn scalar_dtype(name: &str, at: &Expr) -> Result<DType, Diagnostic> {
    if let Some(dtype) = DType::from_name(name) {
        return Ok(dtype);
    }
    let element = name
        .rsplit_once('x')
        .filter(|(_, lanes)| lanes.chars().all(|c| c.is_ascii_digit()));
    match element.and_then(|(element, _)| DType::from_name(element)) {
        Some(dtype) => Ok(dtype),
        None => Err(prim::unknown_dtype(name, at)),
    }
}
