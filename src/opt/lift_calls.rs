//! Operators of an imported function that stay calls of ONNX's operators.
//!
//!     y, h, c = onnx.LSTM(x, w, r, hidden_size=64, outputs=3, since=17)        stays; as `R.*` it is a loop of 30 lines
//!     y = onnx.Relu(x, since=17)                                           →   y = R.nn.relu(x)
//!
//! An operator that is one operator of `R` is said in that. One that takes more stays, as long as all that is to be known
//! of its results is their types: some operand is no constant, and it does not compute shapes. One whose results have extents
//! that come into being in it stays only where it could not go back to ONNX otherwise, and the extents are bound after it:
//!
//!     y_found = onnx.NonMaxSuppression(b, s, since=10)
//!     y_d0 = T.int64()
//!     y = R.match_cast(y_found, R.Tensor((y_d0, 3), dtype="int64"))
//!
//! `since` becomes the version that std has the operator from, so that texts do not differ by operator sets that mean the same; an
//! operator of a set that is not written any more is said in newer ones where `std.to_onnx.onnx.…` does so.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::uses::substitute;
use irc_syntax::{Expr, Name, Stmt, StmtKind};

use super::for_onnx::{has_word, in_newer};
use super::graph;
use super::lift::Lift;
use super::lift_ranks::operands;
use super::normalize::is_attribute_call;
use crate::check::expand::{Depth, Expansion, is_operator_of_onnx};
use crate::check::prim::{Prim, Scope};
use crate::check::{TensorType, Type, type_to_expr};
use crate::library::since_of;
use crate::shape::Facts;

/// Operators that make no kernel by themselves beside another.
const VIEWS: [&str; 6] = [
    "R.const",
    "R.expand_dims",
    "R.match_cast",
    "R.reshape",
    "R.squeeze",
    "T.int64",
];

/// Primitives that an export writes itself.
const SHAPES: [&str; 6] = [
    "R.const",
    "R.match_cast",
    "R.shape",
    "R.shape_of",
    "R.shape_to_tensor",
    "R.tensor_to_shape",
];

impl Lift<'_> {
    /// Whether a call stays one, given what it comes to.
    pub(super) fn stays_call(&self, value: &Expr, expansion: &Expansion, before: &Facts) -> bool {
        let types = match &expansion.ty {
            Type::Tuple(types) => types.iter().collect(),
            ty => vec![ty],
        };
        let is_plain = |ty: &&Type| {
            ty.as_tensor()
                .is_some_and(|ty| ty.dtype.is_some() && ty.shape.is_some())
        };
        // Numbers that are known as extents are wanted by what follows.
        let is_shape = |ty: &TensorType| ty.value.is_some();
        let operands = operands(value);
        let is_constant = operands.iter().all(|name| self.scope.known(name).is_some());
        let is_of_onnx = value
            .as_call()
            .is_some_and(|(path, _)| is_operator_of_onnx(&path));
        is_of_onnx
            && count_operators(&expansion.stmts) > 1
            && types.iter().all(is_plain)
            && !types.iter().filter_map(|ty| ty.as_tensor()).any(is_shape)
            && (value.keyword("outputs").is_some() || types.len() == 1)
            && !is_constant
            && (types.iter().all(|ty| !self.is_born(ty, before)) || self.is_final(expansion))
    }

    /// Whether a type has symbols that came into being since `before`.
    fn is_born(&self, ty: &Type, before: &Facts) -> bool {
        let born = &symbols(self.scope.facts()) - &symbols(before);
        let shape = ty.as_tensor().and_then(|ty| ty.shape.as_ref());
        shape.is_some_and(|dims| dims.iter().any(|dim| !dim.symbols().is_disjoint(&born)))
    }

    /// Whether an expansion has a primitive that cannot go back to ONNX.
    fn is_final(&self, expansion: &Expansion) -> bool {
        let lib = self.expander.library();
        expansion.stmts.iter().any(|stmt| match &stmt.kind {
            StmtKind::Assign { value, .. } => value.as_call().is_some_and(|(path, _)| {
                let is_operator = Prim::find(&path).is_some_and(Prim::is_plain);
                let is_written = SHAPES.contains(&path.as_str()) || is_attribute_call(&path);
                is_operator && !is_written && !has_word(&path, lib)
            }),
            _ => false,
        })
    }

    /// Keeps a call; its names get their types. An extent that depends on symbols in `born`, which the text does not have,
    /// gets one of its own.
    pub(super) fn keep_call(
        &mut self,
        mut stmt: Stmt,
        bound: &[Name],
        ty: Type,
        born: &BTreeSet<Name>,
        out: &mut Vec<Stmt>,
    ) {
        let types = match ty {
            Type::Tuple(types) if bound.len() > 1 => types,
            ty => vec![ty],
        };
        let (mut renamed, mut casts) = (BTreeMap::new(), Vec::new());
        for (name, mut ty) in bound.iter().zip(types) {
            let mut fresh = Vec::new();
            if let Type::Tensor(TensorType {
                shape: Some(dims), ..
            }) = &mut ty
            {
                for (axis, dim) in dims.iter_mut().enumerate() {
                    if !dim.symbols().is_disjoint(born) {
                        *dim = self.scope.fresh(&format!("{name}_d{axis}"));
                        fresh.extend(dim.as_sym().cloned());
                    }
                }
            }
            if !fresh.is_empty() {
                let found = self.names.fresh(&format!("{name}_found"));
                for symbol in fresh {
                    self.names.take(&symbol);
                    casts.push(Stmt::bind(symbol, Expr::call("T.int64", [])).at(stmt.span));
                }
                let cast = Expr::call("R.match_cast", [Expr::name(&found), type_to_expr(&ty)]);
                casts.push(Stmt::bind(name, cast).at(stmt.span));
                self.scope.define(&found, ty.clone());
                renamed.insert(name.clone(), Expr::name(found));
            }
            self.scope.define(name, ty);
        }
        if let StmtKind::Assign { target, value, .. } = &mut stmt.kind {
            self.say_version(value);
            substitute(target, &renamed);
        }
        out.push(stmt);
        out.append(&mut casts);
    }

    /// What a call comes to that stays one, but of a version that is not written any more.
    pub(super) fn in_newer(
        &mut self,
        target: &Expr,
        value: &Expr,
        base: &str,
    ) -> Option<Expansion> {
        target.as_name()?;
        let newer = in_newer(value, self.expander.library())?;
        let (scope, names) = (&mut self.scope, &mut self.names);
        let found = self
            .expander
            .expand(&newer, base, Depth::Onnx, scope, names);
        found.ok()
    }

    /// Names the version that std has the operator of a call from.
    fn say_version(&self, value: &mut Expr) {
        let Some((path, _)) = value.as_call() else {
            return;
        };
        let since = value.keyword("since").and_then(Expr::as_int);
        let since = since.and_then(|since| u32::try_from(since).ok());
        let Some(template) = self.expander.library().find(&path, since) else {
            return;
        };
        let since = Expr::int(i128::from(since_of(template.func)));
        for arg in graph::args_mut(value) {
            if arg.name.as_deref() == Some("since") {
                arg.value = since.clone();
            }
        }
    }
}

/// The symbols that facts are known of.
pub(super) fn symbols(facts: &Facts) -> BTreeSet<Name> {
    facts.symbols().map(|(symbol, _)| symbol.clone()).collect()
}

/// How many operators the bindings of an expansion have: choices and loops counted as many, and an element reordered
/// between two views of it too.
fn count_operators(stmts: &[Stmt]) -> usize {
    let operators = stmts.iter().map(|stmt| match &stmt.kind {
        StmtKind::Assign { value, .. } => value.as_call().map_or(0, |(path, _)| {
            let is_view = VIEWS.contains(&path.as_str()) || is_attribute_call(&path);
            if path == "I.while_loop" {
                2
            } else {
                usize::from(!is_view)
            }
        }),
        StmtKind::If { .. } | StmtKind::For { .. } | StmtKind::While { .. } => 2,
        _ => 0,
    });
    let calls = |wanted: &str| {
        let is_one = |stmt: &&Stmt| match &stmt.kind {
            StmtKind::Assign { value, .. } => value.is_call_of(wanted),
            _ => false,
        };
        stmts.iter().filter(is_one).count()
    };
    let is_blocked = calls("R.permute_dims") == 1 && calls("R.reshape") == 2;
    operators.sum::<usize>() + usize::from(is_blocked)
}
