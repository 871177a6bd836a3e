//! `I.while_loop(cls.body, n, c, (carried…), (captured…), out_ty=[…])`: the body against the call.

use irc_syntax::{DType, Diagnostic, Expr, FuncKind, Name};

use std::collections::BTreeMap;

use super::prim::{Bound, BoundCall, Items, Scope};
use super::scope::GraphScope;
use super::types::{TensorType, Type};

impl GraphScope<'_> {
    /// Checks that the body takes the iteration, the carried and the captured values, and gives the condition, the
    /// carried values and one element of each stacked result.
    pub(super) fn loop_body(&mut self, bound: &BoundCall, out: &Type) {
        let Bound::Expr(callee) = bound.get("func") else {
            return;
        };
        let path = callee.as_path().unwrap_or_default();
        let Some((_, name)) = path.split_once('.') else {
            let fault =
                Diagnostic::error("bad-call", "the body of a loop is a function of the module");
            self.report(fault.at(callee.span, "write `cls.body`"));
            return;
        };
        let Some(signature) = self.signatures.get(name).cloned() else {
            self.unknown_function(callee, name);
            return;
        };
        if signature.impure {
            self.effects.push((bound.span, format!("cls.{name}")));
        }
        if signature.kind == FuncKind::Loops {
            self.bad_body(
                bound,
                name,
                "is a prim_func, and a body is a graph function",
            );
            return;
        }
        for (slot, wanted) in [("trip_count", DType::I64), ("condition", DType::Bool)] {
            self.loop_bound(bound, slot, wanted);
        }
        let (Some(carried), Some(captured)) = (
            self.listed(bound.items("carried")),
            self.listed(bound.items("captured")),
        ) else {
            return;
        };
        let n_carried = carried.len();
        let mut args = vec![Expr::call("R.const", [Expr::int(0), Expr::str("int64")])];
        args.extend(carried.into_iter().chain(captured));
        if signature.params.len() != args.len() {
            let text = format!(
                "takes {} values, and the loop passes the iteration and {}",
                signature.params.len(),
                args.len() - 1
            );
            self.bad_body(bound, name, &text);
            return;
        }
        if !self.pass_arguments(name, &signature, &args, &mut BTreeMap::new()) {
            return;
        }
        let results = match (&signature.ret, out) {
            (Some(Type::Tuple(members)), _) => members.clone(),
            (Some(Type::Void), _) => Vec::new(),
            (Some(Type::Any | Type::Error) | None, _) | (_, Type::Error) => return,
            (Some(one), _) => vec![one.clone()],
        };
        let n_out = match out {
            Type::Tuple(members) => members.len(),
            Type::Void => 0,
            _ => 1,
        };
        let n_cond = usize::from(bound.operand("condition").is_some());
        if results.len() != n_cond + n_out || n_out < n_carried {
            let text = format!(
                "gives {} values, and {} are wanted for `out_ty`{}",
                results.len(),
                n_cond + n_out,
                if n_cond == 1 {
                    " and the condition"
                } else {
                    ""
                }
            );
            self.bad_body(bound, name, &text);
            return;
        }
        let params = signature.params.iter().skip(1).take(n_carried);
        for ((param, wanted), given) in params.zip(results.iter().skip(n_cond)) {
            if !goes_round(wanted, given) {
                let text = format!("takes `{param}` as {wanted}, and gives {given} for it");
                self.bad_body(bound, name, &text);
            }
        }
    }

    fn bad_body(&mut self, bound: &BoundCall, name: &str, text: &str) {
        let related = self
            .signatures
            .get(name)
            .and_then(|signature| signature.span);
        let fault = Diagnostic::error("bad-call", format!("`{name}` {text}"));
        self.report(
            fault
                .at(bound.span, "body of this loop")
                .related(related, "defined here"),
        );
    }

    /// The number of iterations and the condition are one number each.
    fn loop_bound(&mut self, bound: &BoundCall, slot: &str, wanted: DType) {
        let Some(expr) = bound.operand(slot) else {
            return;
        };
        let fits = match self.type_of(expr) {
            Type::Tensor(TensorType { dtype, ndim, .. }) => {
                dtype.is_none_or(|dtype| dtype == wanted) && ndim.is_none_or(|rank| rank == 0)
            }
            Type::Scalar(dtype) => dtype == wanted,
            Type::Any | Type::Error => true,
            _ => false,
        };
        if !fits {
            let message = format!("`{slot}` of a loop is a {wanted} tensor without axes");
            self.report(
                Diagnostic::error("type-mismatch", message)
                    .at(expr.span, format!("not a {wanted}")),
            );
        }
    }

    /// The operands of a tuple; `None` for one that is held by a name.
    fn listed(&mut self, items: Items<'_>) -> Option<Vec<Expr>> {
        match items {
            Items::Listed(items) => Some(items.to_vec()),
            Items::Tuple(expr) => match self.type_of(expr) {
                Type::Void => Some(Vec::new()),
                _ => None,
            },
        }
    }
}

/// Whether a value that a body gives can be what it takes in the next iteration. Symbols are bound anew by each.
fn goes_round(wanted: &Type, given: &Type) -> bool {
    match (wanted, given) {
        (Type::Tensor(a), Type::Tensor(b)) => {
            let same_dtype = a.dtype.is_none() || b.dtype.is_none() || a.dtype == b.dtype;
            let same_rank = a.ndim.is_none() || b.ndim.is_none() || a.ndim == b.ndim;
            let dims = a.shape.iter().flatten().zip(b.shape.iter().flatten());
            let same_dims = dims
                .filter_map(|(a, b)| a.as_int().zip(b.as_int()))
                .all(|(a, b)| a == b);
            same_dtype && same_rank && same_dims
        }
        (Type::Tensor(a), Type::Scalar(b)) | (Type::Scalar(b), Type::Tensor(a)) => {
            a.dtype.is_none_or(|dtype| dtype == *b) && a.ndim.is_none_or(|rank| rank == 0)
        }
        (Type::Seq(a), Type::Seq(b)) => goes_round(a, b),
        (Type::Opt(a), Type::Opt(b)) => goes_round(a, b),
        // A value serves as an optional.
        (Type::Opt(a), b) => *b == Type::Void || goes_round(a, b),
        (Type::Any | Type::Error, _) | (_, Type::Any | Type::Error) => true,
        (Type::Tuple(a), Type::Tuple(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| goes_round(a, b))
        }
        _ => wanted == given,
    }
}

/// The name of the function that a call runs as the body of a loop.
pub fn body_of(expr: &Expr) -> Option<Name> {
    if !expr.is_call_of("I.while_loop") {
        return None;
    }
    let path = expr.positional().next()?.as_path()?;
    path.split_once('.').map(|(_, name)| Name::from(name))
}
