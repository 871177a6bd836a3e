//! Makes a fill of what is a part, a permutation or another view of one.
//!
//!     a = R.full(R.shape([4, b, 8]), R.const(0.0, "float32"), dtype="float32")
//!     y = R.strided_slice(a, axes=[0], begin=[0], end=[2])
//!                 →      y = R.full(R.shape([2, b, 8]), R.const(0.0, "float32"), dtype="float32")

use irc_syntax::Expr;

use super::view::viewed;
use super::{Binding, Rewrite, Site, pass};
use crate::check::prim::Prim;
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "fuse_view_into_fill",
    "a part or another view of one number is fewer or other places of it"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let (path, _) = binding.value.as_call()?;
    let is_part = matches!(
        path.as_str(),
        "R.strided_slice" | "R.permute_dims" | "R.broadcast_to"
    );
    let x = match is_part {
        true => binding.value.positional().next(),
        false => viewed(binding.value),
    }?;
    let fill = site
        .prim(site.def(x)?)
        .filter(|fill| fill.prim == Prim::Full)?;
    let number = fill.operand("fill_value")?;
    let dims = site.result_shape(binding)?;
    let dims = Expr::call(
        "R.shape",
        [Expr::list(dims.iter().map(|dim| dim.to_expr()))],
    );
    let call = Expr::call("R.full", [dims, number.clone()]);
    let dtype = site.dtype(x)?;
    Some(Rewrite::Value(call.with("dtype", Expr::str(dtype.name()))))
}
