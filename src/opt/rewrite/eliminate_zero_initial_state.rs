//! Takes zeros away from where a recurrent operator begins, which are what it begins with by itself.
//!
//!     h = R.full(R.shape([2, b, 64]), R.const(0.0, "float32"), dtype="float32")
//!     y, s, c = onnx.LSTM(x, w, r, b, None, h, h, …)          →      y, s, c = onnx.LSTM(x, w, r, b, …)

use irc_syntax::{Arg, Expr, ExprKind};

use super::{Binding, Rewrite, Site, pass};
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "eliminate_zero_initial_state",
    "a recurrent operator begins with zeros by itself"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let op = site.operator(binding.value)?;
    let names: &[&str] = match op.path.as_str() {
        "onnx.LSTM" => &["initial_h", "initial_c"],
        "onnx.GRU" | "onnx.RNN" => &["initial_h"],
        _ => return None,
    };
    let zeros: Vec<Expr> = names
        .iter()
        .filter_map(|name| op.get(name))
        .filter(|state| site.is_all(state, 0.0))
        .cloned()
        .collect();
    if zeros.is_empty() {
        return None;
    }
    let mut call = binding.value.clone();
    if let ExprKind::Call { args, .. } = &mut call.kind {
        // The data, the weights, the biases and the lengths come before the states.
        let place = |arg: &Arg| {
            names
                .iter()
                .any(|name| arg.name.as_ref().is_some_and(|arg| arg.as_str() == *name))
        };
        for (at, arg) in args.iter_mut().enumerate() {
            if (place(arg) || arg.name.is_none() && at >= STATES) && zeros.contains(&arg.value) {
                arg.value = Expr::none();
            }
        }
        let n_given = args.iter().filter(|arg| arg.name.is_none()).count();
        let is_none = |arg: &Arg| matches!(arg.value.kind, ExprKind::None);
        let n_needed = args[..n_given]
            .iter()
            .rposition(|arg| !is_none(arg))
            .map_or(0, |at| at + 1);
        args.drain(n_needed..n_given);
        args.retain(|arg| !(place(arg) && is_none(arg)));
    }
    Some(Rewrite::Value(call))
}

/// How many arguments a recurrent operator has before its states.
const STATES: usize = 5;
