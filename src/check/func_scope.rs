//! The scope of a checked function, for passes that type what they build.

use irc_syntax::{Diagnostic, Expr, ExprKind, Name};

use super::annotation::type_from_expr;
use super::prim::{self, Prim, Scope};
use super::types::{FuncInfo, Type};
use crate::shape::{Dim, Facts, SymbolFacts};

/// Types of names, facts and fresh symbols of one function; fresh symbols are recorded in its info.
pub struct FuncScope<'a> {
    info: &'a mut FuncInfo,
}

impl<'a> FuncScope<'a> {
    /// The scope of a function.
    pub fn new(info: &'a mut FuncInfo) -> Self {
        Self { info }
    }

    fn fresh_name(&self, base: &str) -> Name {
        let mut at = 0;
        let mut name = Name::from(base);
        while self.is_taken(&name) {
            at += 1;
            name = Name::from(format!("{base}_{at}"));
        }
        name
    }

    fn is_taken(&self, name: &Name) -> bool {
        self.info.vars.contains_key(name)
            || self.info.facts.symbols().any(|(symbol, _)| symbol == name)
            || self.info.vars.values().any(|ty| {
                let shape = ty.as_tensor().and_then(|tensor| tensor.shape.as_ref());
                shape.is_some_and(|dims| dims.iter().any(|dim| dim.symbols().contains(name)))
            })
    }
}

impl Scope for FuncScope<'_> {
    fn type_of(&mut self, expr: &Expr) -> Type {
        match &expr.kind {
            ExprKind::Name(name) => self
                .info
                .vars
                .get(name)
                .cloned()
                .unwrap_or(Type::Scalar(irc_syntax::DType::I64)),
            ExprKind::Call { .. } => {
                let prim = expr.as_call().and_then(|(path, _)| Prim::find(&path));
                let typed = prim
                    .map(|prim| prim::bind(prim, expr).and_then(|call| prim::infer(&call, self)));
                match typed {
                    Some(Ok(ty)) => ty,
                    Some(Err(_)) => Type::Error,
                    None => Type::Any,
                }
            }
            ExprKind::Tuple { items, .. } | ExprKind::List(items) => {
                Type::Tuple(items.iter().map(|item| self.type_of(item)).collect())
            }
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
        let name = self.fresh_name(base);
        self.info.facts.set(name.clone(), SymbolFacts::default());
        Dim::sym(name)
    }

    fn fresh_any_sign(&mut self, base: &str) -> Dim {
        let name = self.fresh_name(base);
        self.info.facts.set_any_sign(name.clone());
        Dim::sym(name)
    }

    fn annotation(&mut self, expr: &Expr) -> Result<Type, Diagnostic> {
        type_from_expr(expr)
    }
}
