//! Types to and from the expressions that annotate them.

use std::fmt;

use irc_syntax::{Arg, DType, Diagnostic, Expr, ExprKind};

use super::types::{TensorType, Type};
use crate::shape::Dim;

/// The meaning of an annotation: `R.Tensor((n, 4), dtype="float32")`, `R.Tuple(A, B)`, `T.int64`, `R.Shape([n])`.
/// Whether the symbols in it are declared is for the caller to say.
pub fn type_from_expr(expr: &Expr) -> Result<Type, Diagnostic> {
    let (path, args) = match expr.as_call() {
        Some((path, args)) => (path, args),
        None => match expr.as_path() {
            Some(path) => (path, &[][..]),
            None => return Err(not_a_type(expr)),
        },
    };
    match path.as_str() {
        "R.Tensor" => tensor(args),
        "R.Tuple" | "R.TupleType" => members(expr, args),
        "R.Shape" => shape(args),
        "R.Any" | "R.Object" | "R.PackedFunc" => Ok(Type::Any),
        "R.Callable" => callable(args),
        "R.Prim" => prim(expr, args),
        "R.str" | "R.Str" => Ok(Type::Str),
        "R.dtype" => Ok(Type::DTypeValue),
        "R.Seq" => Ok(Type::Seq(Box::new(only(expr, args)?))),
        "R.Opt" => Ok(Type::Opt(Box::new(only(expr, args)?))),
        "T.handle" => Ok(Type::Any),
        "None" => Ok(Type::Void),
        _ => match path.strip_prefix("T.").and_then(DType::from_name) {
            Some(dtype) if args.is_empty() => Ok(Type::Scalar(dtype)),
            _ => Err(not_a_type(expr)),
        },
    }
}

fn tensor(args: &[Arg]) -> Result<Type, Diagnostic> {
    let mut ty = TensorType::default();
    for (at, arg) in args.iter().enumerate() {
        let slot = arg
            .name
            .as_deref()
            .unwrap_or(if at == 0 { "shape" } else { "dtype" });
        match slot {
            "shape" => match &arg.value.kind {
                // `R.Tensor("float32")` is a tensor of unknown rank.
                ExprKind::Str(name) => ty.dtype = Some(dtype(name, &arg.value)?),
                ExprKind::None => {}
                ExprKind::Name(_) => {}
                _ => {
                    let dims = super::prim::shape_dims(&arg.value)
                        .ok_or_else(|| not_a_shape(&arg.value))??;
                    ty.ndim = Some(dims.len());
                    ty.shape = Some(dims);
                }
            },
            "dtype" => match arg.value.as_str() {
                Some("void" | "") => {}
                Some(name) => ty.dtype = Some(dtype(name, &arg.value)?),
                None if arg.value.kind == ExprKind::None => {}
                None => return Err(not_a_type(&arg.value)),
            },
            "ndim" => {
                let rank = arg.value.as_int().ok_or_else(|| not_a_type(&arg.value))?;
                // -1 says that it is not known.
                ty.ndim = usize::try_from(rank).ok().or(ty.ndim);
            }
            // Devices are not modelled.
            "vdevice" => {}
            _ => return Err(unknown_argument("R.Tensor", arg)),
        }
    }
    Ok(Type::Tensor(ty))
}

fn members(expr: &Expr, args: &[Arg]) -> Result<Type, Diagnostic> {
    if args.is_empty() && expr.as_call().is_none() {
        return Ok(Type::Void);
    }
    let items: Vec<&Expr> = match args {
        [only] if only.value.as_items().is_some() => {
            only.value.as_items().into_iter().flatten().collect()
        }
        _ => args.iter().map(|arg| &arg.value).collect(),
    };
    if items.is_empty() {
        return Ok(Type::Void);
    }
    Ok(Type::Tuple(
        items
            .into_iter()
            .map(type_from_expr)
            .collect::<Result<_, _>>()?,
    ))
}

fn shape(args: &[Arg]) -> Result<Type, Diagnostic> {
    for arg in args {
        match arg.name.as_deref() {
            Some("ndim") => {}
            Some("values") | None => {
                if arg.value.kind == ExprKind::None {
                    continue;
                }
                let dims = super::prim::shape_dims(&arg.value)
                    .ok_or_else(|| not_a_shape(&arg.value))??;
                return Ok(Type::Shape(Some(dims)));
            }
            Some(_) => return Err(unknown_argument("R.Shape", arg)),
        }
    }
    Ok(Type::Shape(None))
}

fn callable(args: &[Arg]) -> Result<Type, Diagnostic> {
    let mut positional = args
        .iter()
        .filter(|arg| arg.name.is_none())
        .map(|arg| &arg.value);
    let Some(params) = positional.next().and_then(Expr::as_items) else {
        return Ok(Type::Any);
    };
    let params = params
        .iter()
        .map(type_from_expr)
        .collect::<Result<Vec<_>, _>>()?;
    let ret = positional
        .next()
        .map(type_from_expr)
        .transpose()?
        .unwrap_or(Type::Any);
    Ok(Type::Func(params, Box::new(ret)))
}

fn prim(expr: &Expr, args: &[Arg]) -> Result<Type, Diagnostic> {
    match args {
        [arg] => match arg.value.as_str() {
            Some(name) => Ok(Type::Scalar(dtype(name, &arg.value)?)),
            None => Ok(Type::Scalar(DType::I64)),
        },
        _ => Err(not_a_type(expr)),
    }
}

fn only(expr: &Expr, args: &[Arg]) -> Result<Type, Diagnostic> {
    match args {
        [arg] => type_from_expr(&arg.value),
        _ => Err(not_a_type(expr)),
    }
}

fn dtype(name: &str, at: &Expr) -> Result<DType, Diagnostic> {
    DType::from_name(name).ok_or_else(|| super::prim::unknown_dtype(name, at))
}

fn not_a_type(expr: &Expr) -> Diagnostic {
    Diagnostic::error(
        "not-a-type",
        "a type is `R.Tensor(…)`, `R.Shape(…)`, `R.Tuple(…)`, `R.Any` or `T.int64`",
    )
    .at(expr.span, "not a type")
}

fn not_a_shape(expr: &Expr) -> Diagnostic {
    Diagnostic::error("not-a-shape", "a shape is a tuple or list of extents")
        .at(expr.span, "not a shape")
}

fn unknown_argument(callee: &str, arg: &Arg) -> Diagnostic {
    let name = arg.name.as_deref().unwrap_or_default();
    Diagnostic::error("bad-call", format!("`{callee}` has no argument `{name}`"))
        .at(arg.value.span, "unknown argument")
}

/// The annotation of a type. Contents of tensors are not part of it.
pub fn type_to_expr(ty: &Type) -> Expr {
    match ty {
        Type::Tensor(ty) => tensor_expr(ty),
        Type::Scalar(dtype) => Expr::path(&format!("T.{dtype}")),
        Type::Shape(None) => Expr::path("R.Shape"),
        Type::Shape(Some(dims)) => {
            Expr::call("R.Shape", [Expr::list(dims.iter().map(Dim::to_expr))])
        }
        Type::Tuple(members) if members.is_empty() => Expr::path("R.Tuple"),
        Type::Tuple(members) => Expr::call("R.Tuple", members.iter().map(type_to_expr)),
        Type::Seq(inner) => Expr::call("R.Seq", [type_to_expr(inner)]),
        Type::Opt(inner) => Expr::call("R.Opt", [type_to_expr(inner)]),
        Type::Func(params, ret) => {
            let params = Expr::tuple(params.iter().map(type_to_expr));
            Expr::call("R.Callable", [params, type_to_expr(ret)])
        }
        Type::Str => Expr::path("R.str"),
        Type::DTypeValue => Expr::path("R.dtype"),
        Type::Any | Type::Error => Expr::path("R.Any"),
        Type::Void => Expr::path("R.Tuple"),
    }
}

fn tensor_expr(ty: &TensorType) -> Expr {
    let mut call = Expr::call(
        "R.Tensor",
        ty.shape
            .iter()
            .map(|dims| Expr::tuple(dims.iter().map(Dim::to_expr))),
    );
    if let Some(dtype) = ty.dtype {
        call = call.with("dtype", Expr::str(dtype.name()));
    }
    if let (None, Some(rank)) = (&ty.shape, ty.ndim) {
        call = call.with("ndim", Expr::int(rank as i128));
    }
    match call.as_call() {
        Some((_, [])) => Expr::path("R.Tensor"),
        _ => call,
    }
}

impl fmt::Display for TensorType {
    /// `(n, 4) float32`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.shape, self.ndim) {
            (Some(dims), _) => write_dims(f, dims, '(', ')')?,
            (None, Some(rank)) => write!(f, "rank {rank}")?,
            (None, None) => f.write_str("any rank")?,
        }
        match self.dtype {
            Some(dtype) => write!(f, " {dtype}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tensor(ty) => write!(f, "a tensor {ty}"),
            Self::Scalar(dtype) => write!(f, "a scalar {dtype}"),
            Self::Shape(None) => f.write_str("a shape"),
            Self::Shape(Some(dims)) => {
                f.write_str("a shape ")?;
                write_dims(f, dims, '[', ']')
            }
            Self::Tuple(members) => {
                f.write_str("a tuple of ")?;
                for (at, member) in members.iter().enumerate() {
                    write!(f, "{}{member}", if at > 0 { ", " } else { "" })?;
                }
                Ok(())
            }
            Self::Seq(inner) => write!(f, "a sequence of {inner}"),
            Self::Opt(inner) => write!(f, "{inner} or nothing"),
            Self::Func(..) => f.write_str("a function"),
            Self::Str => f.write_str("a string"),
            Self::DTypeValue => f.write_str("a dtype"),
            Self::Any => f.write_str("a value of any type"),
            Self::Void => f.write_str("no value"),
            Self::Error => f.write_str("a value in error"),
        }
    }
}

fn write_dims(f: &mut fmt::Formatter<'_>, dims: &[Dim], open: char, close: char) -> fmt::Result {
    write!(f, "{open}")?;
    for (at, dim) in dims.iter().enumerate() {
        write!(f, "{}{dim}", if at > 0 { ", " } else { "" })?;
    }
    let comma = if dims.len() == 1 && open == '(' {
        ","
    } else {
        ""
    };
    write!(f, "{comma}{close}")
}
