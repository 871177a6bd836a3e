//! Multiplies a batch normalization by known moments into the product of matrices before it.
//!
//!     a = onnx.Gemm(x, w, b, …)
//!     t = R.nn.batch_norm(a, gamma, beta, mean, var, axis=1, …, training=False)
//!     y = t[0]                                                 →      y = onnx.Gemm(x, w2, b2, …)
//!
//! With s = gamma / sqrt(var + epsilon): w2 = w · s by column, b2 = (b - mean) · s + beta. Refused where a parameter is no
//! constant, and where the product is read elsewhere too.

use super::fuse_bn_into_conv::{normalization, scale_and_shift};
use super::product::{Product, by_column};
use super::{Binding, Rewrite, Site, pass, round};
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "fuse_bn_into_gemm",
    "a batch normalization by known moments is part of the product before it"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let norm = normalization(site, binding)?;
    let data = norm.get("data")?;
    let product = Product::read(site, site.def(data)?)?;
    if site.uses(data) != 1 {
        return site.refuse(binding, "the product is read elsewhere too");
    }
    if norm.bool("training") != Some(false) || norm.int("axis") != Some(1) {
        return site.refuse(
            binding,
            "it does not normalize the columns by known moments",
        );
    }
    let Some((scale, shift)) = scale_and_shift(site, &norm) else {
        return site.refuse(binding, "a parameter of the normalization is no constant");
    };
    let n = scale.len();
    let old = match &product.c {
        None => Some(vec![0.0; n]),
        Some(c) => by_column(site, c, n),
    };
    let (Some(mut w), Some(old)) = (site.numbers(&product.b), old) else {
        return site.refuse(binding, "a weight of the product is no constant");
    };
    let dtype = site.dtype(&product.b)?;
    if n == 0 || w.len() % n != 0 {
        return None;
    }
    product.scale_columns(&mut w, &scale);
    let sums: Vec<f64> = (0..n)
        .map(|at| old[at] * product.beta * scale[at] + shift[at])
        .collect();
    let w = round(site.constant(&product.b)?.shape, &w, dtype)?;
    let sums = round(vec![n], &sums, dtype)?;
    let c = site.revise(product.c.as_ref().or(norm.get("beta"))?, sums);
    let b = site.revise(&product.b, w);
    Some(Rewrite::Value(
        Product {
            b,
            c: Some(c),
            beta: 1.0,
            ..product
        }
        .write(site),
    ))
}
