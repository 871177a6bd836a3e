//! Says imported operators in terms of `R.*`: one level of expansion of every `onnx.*` call that std does not keep.
//!
//!     y = onnx.Conv(x, w, b, strides=[2, 2], since=11)     y_conv2d = R.nn.conv2d(x, w, strides=[2, 2], …)
//!                                                     →    y = R.add(y_conv2d, y_reshape)
//!
//! Composites of `R` stay calls, so the text reads as one would write it. Operators marked `keep=True` in std stay
//! `onnx.*` calls until `legalize`.

use irc_syntax::{Expr, ExprKind, Module};

use super::legalize::expand_calls;
use super::{Changed, PassCx};
use crate::check::expand::Depth;

/// Runs the pass on every graph function.
pub fn run(module: &mut Module, cx: &mut PassCx) -> Changed {
    let lib = cx.lib;
    let wanted = |path: &str, call: &Expr| {
        let since = call.keyword("since").and_then(Expr::as_int).and_then(|since| u32::try_from(since).ok());
        path.starts_with("onnx.")
            && lib.find(path, since).is_some_and(|template| {
                template.func.decorator_arg("keep").is_none_or(|keep| keep.kind != ExprKind::Bool(true))
            })
    };
    expand_calls(module, cx, Depth::OneLevel, &wanted)
}
