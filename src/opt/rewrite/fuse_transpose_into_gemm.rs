//! Transposes an operand of a product of two matrices by the operator that multiplies them.
//!
//!     t = R.permute_dims(w, axes=[1, 0])
//!     y = R.matmul(x, t)                          →      y = onnx.Gemm(x, w, …, transB=1)
//!
//! Refused where the transposed one is read elsewhere too.

use irc_syntax::Expr;

use super::product::Product;
use super::view::permutation;
use super::{Binding, Rewrite, Site, pass};
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "fuse_transpose_into_gemm",
    "a product transposes its operands by itself"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let mut product = Product::read(site, binding.value)?;
    let turned =
        |side: &Expr| permutation(site, site.def(side)?).filter(|(_, axes)| axes == &[1, 0]);
    let (a, b) = (turned(&product.a), turned(&product.b));
    if a.is_none() && b.is_none() {
        return None;
    }
    for (side, found) in [(&product.a, &a), (&product.b, &b)] {
        if found.is_some() && site.uses(side) != 1 {
            return site.refuse(binding, "the transposed matrix is read elsewhere too");
        }
    }
    if let Some((x, _)) = a {
        (product.a, product.trans_a) = (x, !product.trans_a);
    }
    if let Some((w, _)) = b {
        (product.b, product.trans_b) = (w, !product.trans_b);
    }
    Some(Rewrite::Value(product.write(site)))
}
