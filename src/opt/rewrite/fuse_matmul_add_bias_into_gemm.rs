//! Adds to a product of two matrices by the operator that multiplies them.
//!
//!     a = R.matmul(x, w)
//!     y = R.add(a, b)            →      y = onnx.Gemm(x, w, b, …)
//!
//! Refused where the sum widens the product, where something is added to it already, and where it is read elsewhere too.

use super::product::Product;
use super::{Binding, Rewrite, Site, pass};
use crate::check::prim::{Binary, Prim};
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "fuse_matmul_add_bias_into_gemm",
    "a product of two matrices and what is added to it are one operator"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let call = site.prim(binding.value)?;
    if call.prim != Prim::Binary(Binary::Add) {
        return None;
    }
    let (a, b) = (call.operand("a")?, call.operand("b")?);
    let (product, value, added) = [(a, b), (b, a)]
        .into_iter()
        .find_map(|(x, other)| Some((Product::read(site, site.def(x)?)?, x, other)))?;
    if product.c.is_some() {
        return site.refuse(binding, "something is added to the product already");
    }
    if site.uses(value) != 1 {
        return site.refuse(binding, "the product is read elsewhere too");
    }
    let dims = site.shape(value)?;
    let added_dims = site.shape(added)?;
    let fits = added_dims.len() <= 2
        && dims
            .iter()
            .rev()
            .zip(added_dims.iter().rev())
            .all(|(dim, added)| added.as_int() == Some(1) || added == dim);
    if !fits {
        return site.refuse(binding, "what is added is wider than the product");
    }
    let c = Some(added.clone());
    Some(Rewrite::Value(
        Product {
            c,
            beta: 1.0,
            ..product
        }
        .write(site),
    ))
}
