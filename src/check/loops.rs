//! The checker of prim_funcs: names, ranks of accesses, dtypes of scalars and stores.
//!
//! Scopes are lexical: a loop variable lives in its loop, a block variable in its block. A bare integer is an int32
//! that takes any integer dtype beside it; a loop variable has the dtype of its extent.

use std::collections::BTreeMap;

use irc_syntax::{
    BinaryOp, DType, Diagnostic, Expr, ExprKind, Func, Name, Span, Stmt, StmtKind, UnaryOp,
};

use super::intrinsics::{self, Gives};
use super::signature::{Signature, buffer_type, scalar_dtype};
use super::stated::{state_fact, state_facts};
use super::suggest::closest;
use super::types::{FuncInfo, TensorType, Type};
use crate::shape::{Dim, Facts};
use crate::target::WORK;

/// Checks one prim_func.
pub(super) fn check(
    func: &Func,
    signature: &Signature,
    outer: &[Name],
    faults: &mut Vec<Diagnostic>,
) -> FuncInfo {
    let broken = super::module::is_broken(&func.body);
    let mut walk = Loops {
        broken,
        faults,
        scopes: vec![BTreeMap::new()],
        all: BTreeMap::new(),
        facts: Facts::default(),
    };
    for name in outer {
        walk.define(name, Type::Scalar(DType::I64));
    }
    state_facts(func.attr("irc.dims"), &mut walk.facts, walk.faults);
    let mut seen: BTreeMap<&Name, Option<Span>> = BTreeMap::new();
    for (param, (name, ty)) in func.params.iter().zip(&signature.params) {
        if let Some(first) = seen.insert(&param.name, param.span) {
            walk.faults.push(
                Diagnostic::error(
                    "duplicate-name",
                    format!("parameter `{name}` is there twice"),
                )
                .at(param.span, "again here")
                .related(first, "first here"),
            );
        }
        walk.declare_symbols(ty);
        if let Some(annotation) = &param.ty {
            walk.declare_offsets(annotation);
        }
        walk.define(name, ty.clone());
    }
    walk.block(&func.body);
    FuncInfo {
        params: signature.params.clone(),
        ret: Some(Type::Void),
        num_input: signature.params.len(),
        vars: walk.all,
        facts: walk.facts,
        checks: BTreeMap::new(),
    }
}

/// The dtype of a scalar expression as far as known.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Scalar {
    /// A value of this dtype.
    Of(DType),
    /// A bare integer: any integer or float dtype beside it.
    Int,
    /// A bare float.
    Float,
    /// A pointer, or the result of something not followed.
    Other,
}

impl Scalar {
    fn dtype(self) -> Option<DType> {
        match self {
            Self::Of(dtype) => Some(dtype),
            Self::Int => Some(DType::I32),
            Self::Float => Some(DType::F32),
            Self::Other => None,
        }
    }

    /// The dtype that two operands come to: literals give way, then the wider one.
    fn with(self, other: Self) -> Self {
        match (self, other) {
            (Self::Other, _) | (_, Self::Other) => Self::Other,
            (Self::Of(a), Self::Of(b)) => {
                let wider = if a.is_float() == b.is_float() {
                    a.bits() >= b.bits()
                } else {
                    a.is_float()
                };
                Self::Of(if wider { a } else { b })
            }
            (Self::Of(dtype), Self::Float) | (Self::Float, Self::Of(dtype)) => {
                if dtype.is_float() {
                    Self::Of(dtype)
                } else {
                    Self::Float
                }
            }
            (Self::Of(dtype), Self::Int) | (Self::Int, Self::Of(dtype)) => Self::Of(dtype),
            (Self::Float, _) | (_, Self::Float) => Self::Float,
            (Self::Int, Self::Int) => Self::Int,
        }
    }

    fn is_index(self) -> bool {
        match self {
            Self::Of(dtype) => dtype.is_int() || dtype == DType::Bool,
            Self::Int | Self::Other => true,
            Self::Float => false,
        }
    }
}

struct Loops<'f> {
    /// Whether parts of the text did not parse, so that names may be missing for that reason.
    broken: bool,
    faults: &'f mut Vec<Diagnostic>,
    scopes: Vec<BTreeMap<Name, Type>>,
    all: BTreeMap<Name, Type>,
    facts: Facts,
}

impl Loops<'_> {
    fn define(&mut self, name: &Name, ty: Type) {
        self.all.insert(name.clone(), ty.clone());
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.clone(), ty);
        }
    }

    fn find(&self, name: &str) -> Option<&Type> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name))
    }

    fn declare_symbols(&mut self, ty: &Type) {
        for symbol in super::expand::symbols_of(ty) {
            if self.find(&symbol).is_none() {
                self.define(&symbol, Type::Scalar(DType::I64));
            }
        }
    }

    /// Symbols of strides and offsets of a buffer parameter.
    fn declare_offsets(&mut self, annotation: &Expr) {
        for key in ["elem_offset", "strides"] {
            let Some(value) = annotation.keyword(key) else {
                continue;
            };
            let items = value.as_items().unwrap_or(std::slice::from_ref(value));
            for item in items {
                for symbol in Dim::from_expr(item)
                    .map(|dim| dim.symbols())
                    .unwrap_or_default()
                {
                    if self.find(&symbol).is_none() {
                        self.define(&symbol, Type::Scalar(DType::I64));
                    }
                }
            }
        }
    }

    fn scoped(&mut self, work: impl FnOnce(&mut Self)) {
        self.scopes.push(BTreeMap::new());
        work(self);
        self.scopes.pop();
    }

    fn block(&mut self, body: &[Stmt]) {
        for stmt in body {
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Assign { target, ty, value } => self.assign(target, ty.as_ref(), value),
            StmtKind::Declare { target, ty } => {
                if let Some(name) = target.as_name() {
                    let ty = self.annotation(ty);
                    self.define(name, ty);
                }
            }
            StmtKind::Expr(value) => self.effect(value),
            StmtKind::If {
                cond, then, orelse, ..
            } => {
                self.value(cond);
                self.scoped(|walk| walk.block(then));
                self.scoped(|walk| walk.block(orelse));
            }
            StmtKind::For { target, iter, body } => {
                let types = self.loop_vars(iter);
                self.scoped(|walk| {
                    walk.bind_all(target, &types, iter.span);
                    walk.block(body);
                });
            }
            StmtKind::While { cond, body } => {
                self.value(cond);
                self.scoped(|walk| walk.block(body));
            }
            StmtKind::With {
                context,
                target,
                body,
            } => self.scoped(|walk| {
                walk.context(context, target.as_ref());
                walk.block(body);
            }),
            StmtKind::Return(Some(value)) => {
                self.value(value);
            }
            StmtKind::Assert { cond, .. } => {
                self.value(cond);
            }
            StmtKind::Return(None)
            | StmtKind::Break
            | StmtKind::Continue
            | StmtKind::Pass
            | StmtKind::Import(_)
            | StmtKind::Func(_)
            | StmtKind::Error => {}
        }
    }

    fn annotation(&mut self, ty: &Expr) -> Type {
        let inner = match &ty.kind {
            // `T.let[T.int64]`
            ExprKind::Index { index, .. } => index.first().unwrap_or(ty),
            _ => ty,
        };
        buffer_type(inner).unwrap_or(Type::Any)
    }

    fn assign(&mut self, target: &Expr, ty: Option<&Expr>, value: &Expr) {
        if let ExprKind::Index { .. } = &target.kind {
            return self.store(target, value);
        }
        let path = value.as_call().map(|(path, _)| path).unwrap_or_default();
        if let ExprKind::Tuple { items, .. } | ExprKind::List(items) = &target.kind {
            return self.remap(items, &path, value);
        }
        let Some(name) = target.as_name() else { return };
        if let Some(ty) = ty {
            self.value(value);
            let ty = self.annotation(ty);
            return self.define(name, ty);
        }
        match path.as_str() {
            "T.alloc_buffer"
            | "T.sblock_alloc_buffer"
            | "T.alloc_local"
            | "T.alloc_shared"
            | "T.decl_buffer"
            | "T.match_buffer"
            | "T.Buffer" => {
                let ty = buffer_type(value).unwrap_or_else(|fault| {
                    self.faults.push(fault);
                    Type::Error
                });
                if path == "T.match_buffer" {
                    self.declare_symbols(&ty);
                }
                self.define(name, ty);
            }
            "T.allocate" | "T.allocate_const" | "T.handle" => self.define(name, Type::Any),
            "T.axis.remap" => self.remap(std::slice::from_ref(target), &path, value),
            "T.axis.spatial" | "T.axis.reduce" | "T.axis.scan" | "T.axis.opaque" => {
                let args: Vec<&Expr> = value.positional().collect();
                let parts: Vec<Scalar> = args.iter().map(|arg| self.domain(arg)).collect();
                let dtype = parts
                    .into_iter()
                    .reduce(Scalar::with)
                    .and_then(Scalar::dtype);
                self.define(name, Type::Scalar(dtype.unwrap_or(DType::I32)));
            }
            _ => self.scalar_binding(name, &path, value),
        }
    }

    fn scalar_binding(&mut self, name: &Name, path: &str, value: &Expr) {
        let dtype = path.strip_prefix("T.").and_then(DType::from_name);
        if let Some(dtype) = dtype
            && value.positional().next().is_none()
        {
            // A symbol: `n = T.int64(min=1)`.
            let args = value.as_call().map(|(_, args)| args).unwrap_or_default();
            for arg in args {
                let key = arg.name.as_deref().unwrap_or_default();
                state_fact(name, key, &arg.value, &mut self.facts, self.faults);
            }
            return self.define(name, Type::Scalar(dtype));
        }
        if path == "T.int64" || path == "T.int32" {
            let quoted = value
                .positional()
                .next()
                .is_some_and(|arg| arg.as_str().is_some());
            if quoted {
                return self.define(name, Type::Scalar(dtype.unwrap_or(DType::I64)));
            }
        }
        let ty = self.value(value).dtype().map_or(Type::Any, Type::Scalar);
        self.define(name, ty);
    }

    /// `v_i, v_j = T.axis.remap("SR", [i, j])`, and other tuples of scalars.
    fn remap(&mut self, items: &[Expr], path: &str, value: &Expr) {
        let args: Vec<&Expr> = value.positional().collect();
        let sources: Vec<Expr> = match (path, args.as_slice()) {
            ("T.axis.remap", [kinds, sources]) => {
                let sources = sources.as_items().unwrap_or(&[]).to_vec();
                let letters = kinds.as_str().map_or(0, str::len);
                if letters != sources.len() || sources.len() != items.len() {
                    self.faults.push(
                        Diagnostic::error(
                            "bad-call",
                            format!(
                                "{letters} kinds of axes, {} values and {} names",
                                sources.len(),
                                items.len()
                            ),
                        )
                        .at(value.span, "these are equally many"),
                    );
                }
                sources
            }
            _ => value.as_items().unwrap_or(&[]).to_vec(),
        };
        let types: Vec<Type> = sources
            .iter()
            .map(|source| self.value(source).dtype().map_or(Type::Any, Type::Scalar))
            .collect();
        for (at, item) in items.iter().enumerate() {
            if let Some(name) = item.as_name() {
                self.define(name, types.get(at).cloned().unwrap_or(Type::Any));
            }
        }
    }

    /// The extent of an axis: `n` or `(lo, hi)`.
    fn domain(&mut self, expr: &Expr) -> Scalar {
        match expr.as_items() {
            Some(items) => items
                .iter()
                .map(|item| self.value(item))
                .reduce(Scalar::with)
                .unwrap_or(Scalar::Other),
            None => self.value(expr),
        }
    }

    fn store(&mut self, target: &Expr, value: &Expr) {
        let place = self.value(target);
        let given = self.value(value);
        if let (Scalar::Of(wanted), Scalar::Of(found)) = (place, given)
            && wanted != found
        {
            self.faults.push(
                Diagnostic::error(
                    "dtype-mismatch",
                    format!("a value of {found} is stored into a buffer of {wanted}"),
                )
                .at(value.span, format!("{found}"))
                .related(target.span, format!("{wanted}"))
                .help(format!("convert it with `T.Cast(\"{wanted}\", …)`"), None),
            );
        }
    }

    fn loop_vars(&mut self, iter: &Expr) -> Vec<Type> {
        let Some((path, args)) = iter.as_call() else {
            self.value(iter);
            return vec![Type::Scalar(DType::I32)];
        };
        let extents: Vec<&Expr> = args
            .iter()
            .filter(|arg| arg.name.is_none())
            .map(|arg| &arg.value)
            .collect();
        match path.as_str() {
            "range" | "T.serial" | "T.parallel" | "T.vectorized" | "T.unroll"
            | "T.thread_binding" => {
                if let Some(ExprKind::Dict(items)) =
                    iter.keyword("annotations").map(|noted| &noted.kind)
                {
                    let noted = items.iter().filter(|(key, _)| key.as_str() == Some(WORK));
                    noted.for_each(|(_, work)| {
                        self.value(work);
                    });
                }
                let dtype = extents
                    .iter()
                    .map(|extent| self.value(extent))
                    .reduce(Scalar::with);
                vec![Type::Scalar(
                    dtype.and_then(Scalar::dtype).unwrap_or(DType::I32),
                )]
            }
            "T.grid" => extents
                .iter()
                .map(|extent| Type::Scalar(self.value(extent).dtype().unwrap_or(DType::I32)))
                .collect(),
            _ => {
                self.faults.push(
                    Diagnostic::error("bad-statement", format!("`{path}` is not a loop"))
                        .at(iter.span, "not a loop")
                        .help(
                            "write `range`, `T.grid`, `T.parallel`, `T.vectorized` or `T.unroll`",
                            None,
                        ),
                );
                Vec::new()
            }
        }
    }

    fn bind_all(&mut self, target: &Expr, types: &[Type], span: Option<Span>) {
        let items = target.as_items().unwrap_or(std::slice::from_ref(target));
        if items.len() != types.len() && !types.is_empty() {
            let message = format!("{} loop variables for {} extents", items.len(), types.len());
            self.faults.push(
                Diagnostic::error("bad-call", message)
                    .at(target.span, "the variables")
                    .related(span, "the extents"),
            );
        }
        for (at, item) in items.iter().enumerate() {
            if let Some(name) = item.as_name() {
                self.define(name, types.get(at).cloned().unwrap_or(Type::Any));
            }
        }
    }

    fn context(&mut self, context: &Expr, target: Option<&Expr>) {
        let path = context.as_call().map(|(path, _)| path).unwrap_or_default();
        match intrinsics::canonical(&path) {
            "T.sblock" => {
                // Older texts name the block's variables here.
                for item in target
                    .map(|target| target.as_items().unwrap_or(std::slice::from_ref(target)))
                    .unwrap_or(&[])
                {
                    if let Some(name) = item.as_name() {
                        self.define(name, Type::Scalar(DType::I32));
                    }
                }
            }
            "T.init" | "T.attr" | "T.launch_thread" | "T.allocate" | "T.decl_buffer"
            | "T.LetStmt" | "T.Let" => {
                if let Some(name) = target.and_then(Expr::as_name) {
                    let ty = if path == "T.decl_buffer" || path == "T.allocate" {
                        buffer_type(context).unwrap_or(Type::Any)
                    } else {
                        Type::Scalar(DType::I32)
                    };
                    self.define(name, ty);
                }
            }
            _ => self.faults.push(
                Diagnostic::error("bad-statement", format!("`{path}` is not a block"))
                    .at(context.span, "not a block")
                    .help("write `T.sblock(\"name\")` or `T.init()`", None),
            ),
        }
    }

    fn effect(&mut self, value: &Expr) {
        match value.as_call() {
            Some((path, _)) if path.ends_with("_attr") => {}
            // Written as `T.call_extern("int32", "f", …)`.
            _ => {
                if !matches!(value.kind, ExprKind::Str(_)) {
                    self.value(value);
                }
            }
        }
    }

    /// The dtype of a scalar expression; every name and access in it is checked.
    fn value(&mut self, expr: &Expr) -> Scalar {
        match &expr.kind {
            ExprKind::Name(name) => self.name(expr, name),
            ExprKind::Int(_) => Scalar::Int,
            ExprKind::Float(_) => Scalar::Float,
            ExprKind::Bool(_) => Scalar::Of(DType::Bool),
            ExprKind::Index { value, index } => self.access(expr, value, index),
            ExprKind::Unary { op, value } => {
                let inner = self.value(value);
                if *op == UnaryOp::Not {
                    Scalar::Of(DType::Bool)
                } else {
                    inner
                }
            }
            ExprKind::Binary { op, lhs, rhs } => {
                let (left, right) = (self.value(lhs), self.value(rhs));
                if is_truth(*op) {
                    Scalar::Of(DType::Bool)
                } else {
                    left.with(right)
                }
            }
            ExprKind::Call { .. } => self.call(expr),
            ExprKind::Attr { value, .. } => {
                // `A.data`, `A.elem_offset`
                if let Some(name) = value.as_name()
                    && **name != *"T"
                {
                    self.name(value, name);
                }
                Scalar::Other
            }
            ExprKind::Tuple { items, .. } | ExprKind::List(items) => {
                for item in items {
                    self.value(item);
                }
                Scalar::Other
            }
            ExprKind::IfElse { cond, then, orelse } => {
                self.value(cond);
                self.value(then).with(self.value(orelse))
            }
            ExprKind::Slice { lo, hi, step } => {
                for part in [lo, hi, step].into_iter().flatten() {
                    self.value(part);
                }
                Scalar::Int
            }
            ExprKind::Str(_)
            | ExprKind::None
            | ExprKind::Ellipsis
            | ExprKind::Dict(_)
            | ExprKind::ListComp { .. }
            | ExprKind::Starred(_)
            | ExprKind::Error => Scalar::Other,
        }
    }

    fn name(&mut self, expr: &Expr, name: &Name) -> Scalar {
        match self.find(name) {
            Some(Type::Scalar(dtype)) => return Scalar::Of(*dtype),
            Some(_) => return Scalar::Other,
            None => {}
        }
        if self.broken {
            return Scalar::Other;
        }
        let fault = Diagnostic::error("unknown-name", format!("`{name}` is not defined"))
            .at(expr.span, "not defined");
        let known = self
            .scopes
            .iter()
            .flat_map(|scope| scope.keys())
            .map(Name::as_str);
        let near = closest(name, known).map(str::to_string);
        self.faults.push(match near {
            Some(near) => fault.help(format!("write `{near}`"), None),
            None => fault,
        });
        // Said once.
        self.define(name, Type::Any);
        Scalar::Other
    }

    fn access(&mut self, expr: &Expr, value: &Expr, index: &[Expr]) -> Scalar {
        for item in index {
            let dtype = self.value(item);
            if !dtype.is_index() {
                self.faults.push(
                    Diagnostic::error("dtype-mismatch", "an index is an integer".to_string())
                        .at(item.span, dtype.dtype().map_or("a float", DType::name)),
                );
            }
        }
        let Some(name) = value.as_name() else {
            self.value(value);
            return Scalar::Other;
        };
        let ty = self.find(name).cloned();
        match ty {
            Some(Type::Tensor(TensorType { dtype, ndim, .. })) => {
                if let Some(rank) = ndim
                    && rank != index.len()
                {
                    let message = format!(
                        "`{name}` has {rank} axes, and {} indices are given",
                        index.len()
                    );
                    self.faults.push(
                        Diagnostic::error("rank-mismatch", message).at(expr.span, "this access"),
                    );
                }
                dtype.map_or(Scalar::Other, Scalar::Of)
            }
            Some(Type::Scalar(dtype)) => {
                let message = format!("`{name}` is a scalar {dtype} and has no elements");
                self.faults
                    .push(Diagnostic::error("type-mismatch", message).at(expr.span, "this access"));
                Scalar::Of(dtype)
            }
            Some(_) => Scalar::Other,
            None => self.name(value, name),
        }
    }

    fn call(&mut self, expr: &Expr) -> Scalar {
        let Some((path, args)) = expr.as_call() else {
            return Scalar::Other;
        };
        let operands: Vec<Scalar> = args.iter().map(|arg| self.value(&arg.value)).collect();
        let first = operands.first().copied().unwrap_or(Scalar::Other);
        let Some(name) = path.strip_prefix("T.") else {
            // `A.vload(…)`, `cls.f(…)`
            return match path.as_str() {
                "min" | "max" | "abs" => operands
                    .into_iter()
                    .reduce(Scalar::with)
                    .unwrap_or(Scalar::Other),
                "int" | "float" | "bool" => first,
                _ if path.contains('.') => Scalar::Other,
                _ => {
                    self.unknown(expr, &path);
                    Scalar::Other
                }
            };
        };
        if let Ok(dtype) = scalar_dtype(name, expr) {
            return Scalar::Of(dtype);
        }
        match intrinsics::find(name) {
            Some(Gives::First) => first,
            Some(Gives::Common) => operands
                .into_iter()
                .reduce(Scalar::with)
                .unwrap_or(Scalar::Other),
            Some(Gives::Second) => operands
                .into_iter()
                .skip(1)
                .reduce(Scalar::with)
                .unwrap_or(Scalar::Other),
            Some(Gives::Bool) => Scalar::Of(DType::Bool),
            Some(Gives::Named) => {
                let named = args.first().map(|arg| &arg.value);
                match named.and_then(|named| Some((named.as_str()?, named))) {
                    Some(("handle" | "void" | "", _)) | None => Scalar::Other,
                    Some((name, at)) => match scalar_dtype(name, at) {
                        Ok(dtype) => Scalar::Of(dtype),
                        Err(fault) => {
                            self.faults.push(fault);
                            Scalar::Other
                        }
                    },
                }
            }
            Some(Gives::Handle | Gives::Nothing) => Scalar::Other,
            None => {
                self.unknown(expr, &path);
                Scalar::Other
            }
        }
    }

    fn unknown(&mut self, expr: &Expr, path: &str) {
        let fault = Diagnostic::error("unknown-intrinsic", format!("there is no `{path}`"))
            .at(expr.span, "unknown name");
        let near = closest(path.strip_prefix("T.").unwrap_or(path), intrinsics::names());
        self.faults.push(match near {
            Some(near) => fault.help(format!("write `T.{near}`"), None),
            None => fault,
        });
    }
}

fn is_truth(op: BinaryOp) -> bool {
    match op {
        BinaryOp::Eq
        | BinaryOp::Ne
        | BinaryOp::Lt
        | BinaryOp::Le
        | BinaryOp::Gt
        | BinaryOp::Ge
        | BinaryOp::And
        | BinaryOp::Or
        | BinaryOp::In
        | BinaryOp::NotIn
        | BinaryOp::Is
        | BinaryOp::IsNot => true,
        BinaryOp::Pow
        | BinaryOp::Mul
        | BinaryOp::Div
        | BinaryOp::FloorDiv
        | BinaryOp::Mod
        | BinaryOp::MatMul
        | BinaryOp::Add
        | BinaryOp::Sub
        | BinaryOp::Shl
        | BinaryOp::Shr
        | BinaryOp::BitAnd
        | BinaryOp::BitXor
        | BinaryOp::BitOr => false,
    }
}
