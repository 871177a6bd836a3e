//! The checker's walk over a module: a type for every name, faults for what has none.
//!
//! Graph functions are walked in order; each binding's type is that of its value, narrowed by its annotation. Prim_funcs
//! give the types of their parameters. All faults of a module are found in one run.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::{Diagnostic, Expr, ExprKind, Func, FuncKind, Module, Name, Stmt, StmtKind};

use super::annotation::type_from_expr;
use super::expand::Expander;
use super::prim::{self, Prim, Scope};
use super::types::{FuncInfo, Info, TensorType, Type};
use crate::library::Library;
use crate::shape::{Dim, Facts, SymbolFacts};

/// Checks a module: the types of its names, and every fault in it.
pub fn check(module: &Module, lib: &Library) -> (Info, Vec<Diagnostic>) {
    let mut diags = Vec::new();
    let mut signatures = BTreeMap::new();
    for func in module.funcs() {
        signatures.insert(func.name.clone(), signature(func, &mut diags));
    }
    let mut info = Info::default();
    for func in module.funcs() {
        let mut walk = Walk::new(func, lib, &signatures);
        if func.kind == FuncKind::Graph {
            walk.block(&func.body);
        }
        diags.append(&mut walk.diags);
        info.funcs.insert(func.name.clone(), walk.info);
    }
    (info, diags)
}

/// The types of a function's parameters and result, as annotated.
struct Signature {
    params: Vec<(Name, Type)>,
    ret: Option<Type>,
}

fn signature(func: &Func, diags: &mut Vec<Diagnostic>) -> Signature {
    let mut read = |ty: &Expr| {
        let ty = if func.kind == FuncKind::Loops {
            buffer_type(ty)
        } else {
            type_from_expr(ty)
        };
        ty.unwrap_or_else(|diag| {
            diags.push(diag);
            Type::Error
        })
    };
    let params = func
        .params
        .iter()
        .map(|param| {
            (
                param.name.clone(),
                param.ty.as_ref().map_or(Type::Any, &mut read),
            )
        })
        .collect();
    let ret = match func.kind {
        FuncKind::Graph | FuncKind::Local => func.ret.as_ref().map(&mut read),
        FuncKind::Loops => Some(Type::Void),
    };
    Signature { params, ret }
}

/// `T.Buffer((n, 4), "float32")` as the tensor type of its elements, scalars as scalars.
fn buffer_type(ty: &Expr) -> Result<Type, Diagnostic> {
    if !ty.is_call_of("T.Buffer") {
        return type_from_expr(ty);
    }
    let mut args = ty.positional();
    let shape = args.next().or_else(|| ty.keyword("shape"));
    let dims = shape.and_then(prim::shape_dims).transpose()?;
    let dtype = args
        .next()
        .or_else(|| ty.keyword("dtype"))
        .and_then(Expr::as_str)
        .unwrap_or("float32");
    let dtype =
        irc_syntax::DType::from_name(dtype).ok_or_else(|| prim::unknown_dtype(dtype, ty))?;
    Ok(Type::Tensor(TensorType {
        dtype: Some(dtype),
        ndim: dims.as_ref().map(Vec::len),
        shape: dims,
        value: None,
    }))
}

struct Walk<'a> {
    lib: &'a Library,
    signatures: &'a BTreeMap<Name, Signature>,
    info: FuncInfo,
    diags: Vec<Diagnostic>,
    expander: Expander<'a>,
    /// Names in use, so that fresh symbols differ from them.
    taken: BTreeSet<Name>,
}

impl<'a> Walk<'a> {
    fn new(func: &Func, lib: &'a Library, signatures: &'a BTreeMap<Name, Signature>) -> Self {
        let mut info = FuncInfo {
            num_input: func.params.len(),
            ..FuncInfo::default()
        };
        if let Some(count) = func.attr("num_input").and_then(Expr::as_int) {
            info.num_input = usize::try_from(count).unwrap_or(0).min(func.params.len());
        }
        if let Some(signature) = signatures.get(&func.name) {
            info.params = signature.params.clone();
            info.ret = signature.ret.clone();
            info.vars = signature.params.iter().cloned().collect();
        }
        let mut taken: BTreeSet<Name> = info.vars.keys().cloned().collect();
        for (_, ty) in &info.params {
            if let Some(shape) = ty.as_tensor().and_then(|tensor| tensor.shape.as_ref()) {
                taken.extend(shape.iter().flat_map(Dim::symbols));
            }
        }
        Self {
            lib,
            signatures,
            info,
            diags: Vec::new(),
            expander: Expander::new(lib),
            taken,
        }
    }

    fn block(&mut self, stmts: &[Stmt]) {
        for stmt in stmts {
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Assign { target, ty, value } => {
                let inferred = self.value_type(value);
                let ty = match ty.as_ref().map(type_from_expr) {
                    Some(Ok(declared)) => narrow(declared, inferred),
                    Some(Err(diag)) => {
                        self.diags.push(diag);
                        inferred
                    }
                    None => inferred,
                };
                self.bind(target, ty);
            }
            StmtKind::If {
                cond, then, orelse, ..
            } => {
                self.type_of(cond);
                self.block(then);
                let then_vars = self.info.vars.clone();
                self.block(orelse);
                for (name, ty) in &mut self.info.vars {
                    if let Some(other) = then_vars.get(name) {
                        *ty = join(other, ty);
                    }
                }
            }
            StmtKind::With { body, .. } => self.block(body),
            StmtKind::Return(Some(value)) => {
                let ty = self.type_of(value);
                self.info.ret.get_or_insert(ty);
            }
            StmtKind::Expr(value) => {
                self.effect(value);
            }
            _ => {}
        }
    }

    fn effect(&mut self, value: &Expr) {
        if let Some((path, _)) = value.as_call()
            && (path == "R.func_attr" || path == "R.output" || path.starts_with("cls."))
        {
            return;
        }
        self.type_of(value);
    }

    fn bind(&mut self, target: &Expr, ty: Type) {
        match &target.kind {
            ExprKind::Name(name) => {
                self.taken.insert(name.clone());
                self.info.vars.insert(name.clone(), ty);
            }
            ExprKind::Tuple { items, .. } | ExprKind::List(items) => {
                let types = match ty {
                    Type::Tuple(types) if types.len() == items.len() => types,
                    Type::Error => vec![Type::Error; items.len()],
                    _ => vec![Type::Any; items.len()],
                };
                for (item, ty) in items.iter().zip(types) {
                    self.bind(item, ty);
                }
            }
            _ => {}
        }
    }

    /// The type of a right-hand side; declarations of symbols state facts.
    fn value_type(&mut self, value: &Expr) -> Type {
        if let Some((path, _)) = value.as_call()
            && matches!(path.as_str(), "T.int64" | "T.int32")
            && value.positional().next().is_none()
        {
            return Type::Scalar(irc_syntax::DType::I64);
        }
        if value.as_path().is_some_and(|path| path == "Module") {
            return Type::Any;
        }
        self.type_of(value)
    }

    fn call(&mut self, value: &Expr, path: &str) -> Type {
        if let Some(prim) = Prim::find(path) {
            let typed = prim::bind(prim, value).and_then(|call| prim::infer(&call, self));
            return typed.unwrap_or_else(|diag| {
                self.diags.push(diag);
                Type::Error
            });
        }
        match path {
            "R.builtin.alloc_tensor" => {
                return self.placed(value.positional().next(), value.positional().nth(1));
            }
            "R.memory.alloc_tensor" => {
                return self.placed(value.positional().nth(2), value.positional().nth(3));
            }
            "R.memory.alloc_storage" => return Type::Any,
            "R.tuple" => return Type::Void,
            _ => {}
        }
        if let Some(signature) = path
            .strip_prefix("cls.")
            .and_then(|name| self.signatures.get(name))
        {
            return self.result_at(signature, value);
        }
        if self.lib.has(path) {
            let mut expander = std::mem::replace(&mut self.expander, Expander::new(self.lib));
            let typed = expander.type_of_call(value, self);
            self.expander = expander;
            return typed.unwrap_or_else(|diag| {
                self.diags.push(diag);
                Type::Error
            });
        }
        let fault = Diagnostic::error("unknown-op", format!("there is no operator `{path}`"));
        self.diags.push(fault.at(value.span, "unknown operator"));
        Type::Error
    }

    fn placed(&mut self, shape: Option<&Expr>, dtype: Option<&Expr>) -> Type {
        let dims = shape.and_then(prim::shape_dims).and_then(Result::ok);
        let dtype = dtype
            .map(|dtype| dtype.positional().next().unwrap_or(dtype))
            .and_then(Expr::as_str);
        match (dims, dtype.and_then(irc_syntax::DType::from_name)) {
            (Some(dims), Some(dtype)) => Type::tensor(dtype, dims),
            _ => Type::Any,
        }
    }

    /// The result of a function with its symbols replaced by the dims of the call's operands.
    fn result_at(&mut self, signature: &Signature, value: &Expr) -> Type {
        let Some(ret) = signature.ret.clone() else {
            return Type::Any;
        };
        let mut map = BTreeMap::new();
        let actual: Vec<Type> = value
            .positional()
            .cloned()
            .collect::<Vec<_>>()
            .iter()
            .map(|arg| self.type_of(arg))
            .collect();
        for ((_, param), actual) in signature.params.iter().zip(&actual) {
            let shapes = (param.as_tensor(), actual.as_tensor());
            let (Some(param), Some(actual)) = shapes else {
                continue;
            };
            let dims = param
                .shape
                .iter()
                .flatten()
                .zip(actual.shape.iter().flatten());
            for (dim, actual) in dims {
                if let Some(symbol) = dim.as_sym() {
                    map.insert(symbol.clone(), actual.clone());
                }
            }
        }
        substitute(&ret, &map)
    }
}

impl Scope for Walk<'_> {
    fn type_of(&mut self, expr: &Expr) -> Type {
        match &expr.kind {
            ExprKind::Name(name) => match self.info.vars.get(name) {
                Some(ty) => ty.clone(),
                None if self.taken.contains(name) => Type::Scalar(irc_syntax::DType::I64),
                None => {
                    let fault =
                        Diagnostic::error("unknown-name", format!("`{name}` is not defined"));
                    self.diags.push(fault.at(expr.span, "not defined"));
                    Type::Error
                }
            },
            ExprKind::Call { .. } => match expr.as_call() {
                Some((path, _)) => self.call(expr, &path),
                None => Type::Any,
            },
            ExprKind::Tuple { items, .. } | ExprKind::List(items) => {
                Type::Tuple(items.iter().map(|item| self.type_of(item)).collect())
            }
            ExprKind::Index { value, index } => {
                let at = index
                    .first()
                    .and_then(Expr::as_int)
                    .and_then(|at| usize::try_from(at).ok());
                match (self.type_of(value), at) {
                    (Type::Tuple(types), Some(at)) => types.get(at).cloned().unwrap_or(Type::Error),
                    (Type::Seq(inner), _) => *inner,
                    (Type::Error, _) => Type::Error,
                    _ => Type::Any,
                }
            }
            ExprKind::Binary { .. } | ExprKind::Unary { .. } => match prim::bind_infix(expr) {
                Some(call) => prim::infer(&call, self).unwrap_or_else(|diag| {
                    self.diags.push(diag);
                    Type::Error
                }),
                None => Type::Any,
            },
            ExprKind::Int(_) => Type::Scalar(irc_syntax::DType::I64),
            ExprKind::Float(_) => Type::Scalar(irc_syntax::DType::F32),
            ExprKind::Bool(_) => Type::Scalar(irc_syntax::DType::Bool),
            ExprKind::Str(_) => Type::Str,
            ExprKind::None => Type::Void,
            ExprKind::Error => Type::Error,
            _ => Type::Any,
        }
    }

    fn facts(&self) -> &Facts {
        &self.info.facts
    }

    fn fresh(&mut self, base: &str) -> Dim {
        let mut at = 0;
        let mut name = Name::from(base);
        while !self.taken.insert(name.clone()) {
            at += 1;
            name = Name::from(format!("{base}_{at}"));
        }
        self.info.facts.set(name.clone(), SymbolFacts::default());
        Dim::sym(name)
    }

    fn fresh_any_sign(&mut self, base: &str) -> Dim {
        let dim = self.fresh(base);
        if let Some(name) = dim.as_sym() {
            self.info.facts.set_any_sign(name);
        }
        dim
    }

    fn annotation(&mut self, expr: &Expr) -> Result<Type, Diagnostic> {
        let ty = type_from_expr(expr)?;
        if let Type::Shape(Some(dims)) = &ty {
            self.taken.extend(dims.iter().flat_map(Dim::symbols));
        }
        if let Some(shape) = ty.as_tensor().and_then(|tensor| tensor.shape.as_ref()) {
            self.taken.extend(shape.iter().flat_map(Dim::symbols));
        }
        Ok(ty)
    }
}

/// A declared type, with what is known besides.
fn narrow(declared: Type, inferred: Type) -> Type {
    match (declared, inferred) {
        (Type::Tensor(declared), Type::Tensor(inferred)) => Type::Tensor(TensorType {
            dtype: declared.dtype.or(inferred.dtype),
            ndim: declared.ndim.or(inferred.ndim),
            shape: declared.shape.or(inferred.shape),
            value: inferred.value,
        }),
        (Type::Any, inferred) => inferred,
        (declared, _) => declared,
    }
}

/// What is known of a value that comes from one of two branches.
fn join(a: &Type, b: &Type) -> Type {
    match (a, b) {
        (Type::Tensor(a), Type::Tensor(b)) => Type::Tensor(TensorType {
            dtype: if a.dtype == b.dtype { a.dtype } else { None },
            ndim: if a.ndim == b.ndim { a.ndim } else { None },
            shape: if a.shape == b.shape {
                a.shape.clone()
            } else {
                None
            },
            value: if a.value == b.value {
                a.value.clone()
            } else {
                None
            },
        }),
        _ if a == b => a.clone(),
        (Type::Error, _) | (_, Type::Error) => Type::Error,
        _ => Type::Any,
    }
}

fn substitute(ty: &Type, map: &BTreeMap<Name, Dim>) -> Type {
    let dims = |dims: &[Dim]| dims.iter().map(|dim| dim.subst(map)).collect::<Vec<_>>();
    match ty {
        Type::Tensor(tensor) => Type::Tensor(TensorType {
            shape: tensor.shape.as_deref().map(dims),
            ..tensor.clone()
        }),
        Type::Shape(Some(shape)) => Type::Shape(Some(dims(shape))),
        Type::Tuple(types) => Type::Tuple(types.iter().map(|ty| substitute(ty, map)).collect()),
        other => other.clone(),
    }
}
