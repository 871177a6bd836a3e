//! The scope of one function in the hands of a pass that types what it builds.
//!
//! In: what a check, or the heads of a function, say of its names. Grows as the pass binds names; `info` is then what the
//! checker would find. It reports nothing: what has no type is `Type::Any`, and a call in error is `Type::Error`, which
//! the next check explains.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::{DType, Diagnostic, Expr, ExprKind, Name};

use super::annotation::type_from_expr;
use super::expand::symbols_of;
use super::prim::{self, MAX_CONTENT, Prim, Scope};
use super::types::{FuncInfo, TensorType, Type};
use crate::shape::{Dim, Facts, SymbolFacts};
use crate::tensor::Tensor;

/// Types, facts, fresh symbols and known values of one function.
#[derive(Clone, Default)]
pub struct FuncScope {
    /// Types of names and facts on symbols; fresh symbols are recorded here.
    pub info: FuncInfo,
    /// Names with a known value.
    known: BTreeMap<Name, Tensor>,
    /// Names that a fresh symbol may not have.
    taken: BTreeSet<Name>,
}

impl FuncScope {
    /// The scope of a function of which this is known.
    pub fn new(info: FuncInfo) -> Self {
        let mut taken: BTreeSet<Name> = info.vars.keys().cloned().collect();
        taken.extend(info.facts.symbols().map(|(symbol, _)| symbol.clone()));
        taken.extend(info.vars.values().flat_map(symbols_of));
        Self {
            info,
            known: BTreeMap::new(),
            taken,
        }
    }

    /// Says that no fresh symbol may have these names.
    pub fn take(&mut self, names: impl IntoIterator<Item = Name>) {
        self.taken.extend(names);
    }

    /// The type of a name, where it has one.
    pub fn var(&self, name: &Name) -> Option<&Type> {
        self.info.vars.get(name)
    }

    /// Whether a name is that of an integer rather than of a tensor.
    fn is_symbol(&self, name: &Name) -> bool {
        self.var(name)
            .is_none_or(|ty| matches!(ty, Type::Scalar(dtype) if dtype.is_int()))
    }

    /// Binds a name to a type, in place of what it had.
    pub fn define(&mut self, name: &Name, ty: Type) {
        self.taken.insert(name.clone());
        self.info.vars.insert(name.clone(), ty);
    }

    /// Binds a name to a value.
    pub fn know(&mut self, name: &Name, tensor: Tensor) {
        let shape = tensor.shape.iter().map(|extent| Dim::from(*extent));
        let is_whole = tensor.dtype.is_int() || tensor.dtype == DType::Bool;
        let has_content = is_whole && tensor.shape.len() <= 1 && tensor.len() <= MAX_CONTENT;
        let ty = TensorType {
            value: has_content.then(|| tensor.to_i64s().into_iter().map(Dim::int).collect()),
            ..TensorType::new(tensor.dtype, shape.collect())
        };
        self.define(name, Type::Tensor(ty));
        self.known.insert(name.clone(), tensor);
    }

    /// The value of a name, where it is known.
    pub fn known(&self, name: &Name) -> Option<&Tensor> {
        self.known.get(name)
    }

    /// Takes back what was found inside a branch: `facts` hold after it, and `outside` has the symbols there were.
    pub fn leave_branch(&mut self, facts: &Facts, outside: &FuncScope) {
        let is_old = |name: &Name| outside.taken.contains(name);
        self.info.facts.leave_branch(facts, &is_old);
    }

    /// Forgets the value of a name that may also have another.
    pub fn forget(&mut self, name: &Name) {
        self.known.remove(name);
    }
}

impl Scope for FuncScope {
    fn type_of(&mut self, expr: &Expr) -> Type {
        match &expr.kind {
            // What is no value of the function is a symbol.
            ExprKind::Name(name) => self.var(name).cloned().unwrap_or(Type::Scalar(DType::I64)),
            ExprKind::Call { .. } => {
                let found = expr.as_call().and_then(|(path, _)| Prim::find(&path));
                found.map_or(Type::Any, |prim| {
                    prim::bind(prim, expr)
                        .and_then(|call| prim::infer(&call, self))
                        .unwrap_or(Type::Error)
                })
            }
            ExprKind::Tuple { items, .. } | ExprKind::List(items) => {
                Type::Tuple(items.iter().map(|item| self.type_of(item)).collect())
            }
            ExprKind::Index { value, index } => {
                let at = index.first().and_then(Expr::as_int);
                match (self.type_of(value), at.map(usize::try_from)) {
                    (Type::Tuple(types), Some(Ok(at))) => {
                        types.get(at).cloned().unwrap_or(Type::Any)
                    }
                    _ => Type::Any,
                }
            }
            // Arithmetic of extents; that of tensors is no operator by itself after `normalize`.
            ExprKind::Unary { .. } | ExprKind::Binary { .. } => match Dim::from_expr(expr) {
                Ok(dim) if dim.symbols().iter().all(|name| self.is_symbol(name)) => {
                    Type::Scalar(DType::I64)
                }
                _ => Type::Any,
            },
            ExprKind::Int(_) => Type::Scalar(DType::I64),
            ExprKind::Float(_) => Type::Scalar(DType::F32),
            ExprKind::Bool(_) => Type::Scalar(DType::Bool),
            ExprKind::Str(_) => Type::Str,
            ExprKind::None => Type::Void,
            ExprKind::Error => Type::Error,
            ExprKind::Ellipsis
            | ExprKind::Attr { .. }
            | ExprKind::Slice { .. }
            | ExprKind::Dict(_)
            | ExprKind::IfElse { .. }
            | ExprKind::ListComp { .. }
            | ExprKind::Starred(_) => Type::Any,
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

    fn assume_equal(&mut self, a: &Dim, b: &Dim) {
        self.info.facts.assume_eq(a, b);
    }

    fn constant(&self, expr: &Expr) -> Option<Tensor> {
        self.known(expr.as_name()?).cloned()
    }

    fn annotation(&mut self, expr: &Expr) -> Result<Type, Diagnostic> {
        type_from_expr(expr)
    }
}
