//! Recognizes the arithmetic that makes floats of quantized weights.
//!
//!     f = R.astype(q, "float32")                            (q is int8 [k, n], s is [1, n])
//!     w = R.multiply(f, s)            →      w = R.dequantize(q, s1, zeros, axis=1, out_dtype="float32")      (s1 and zeros are [n])
//!
//! Refused where the scale has numbers along several axes, and where the floats are read elsewhere too.

use irc_syntax::{DType, Expr};

use super::{Binding, Rewrite, Site, pass};
use crate::check::prim::{Binary, Prim};
use crate::opt::Pass;
use crate::tensor::Tensor;

/// The pass.
pub const PASS: Pass = pass!(
    "fuse_cast_mul_into_dequantize",
    "integers made floats and multiplied by a scale are one operator"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let call = site.prim(binding.value)?;
    if call.prim != Prim::Binary(Binary::Multiply) {
        return None;
    }
    let (a, b) = (call.operand("a")?, call.operand("b")?);
    let (q, value, scale) = [(a, b), (b, a)].into_iter().find_map(|(value, scale)| {
        let cast = site
            .prim(site.def(value)?)
            .filter(|cast| cast.prim == Prim::Astype)?;
        let q = cast.operand("x")?.clone();
        let is_narrow = matches!(site.dtype(&q)?, DType::I8 | DType::U8);
        let is_float =
            site.dtype(value) == Some(DType::F32) && site.constant_shape(scale).is_some();
        (is_narrow && is_float).then_some((q, value, scale))
    })?;
    let dims = site.shape(&q)?;
    if site.result_shape(binding)? != dims {
        return None;
    }
    if site.uses(value) != 1 {
        return site.refuse(binding, "the floats are read elsewhere too");
    }
    let shape = site.constant_shape(scale)?;
    let missing = dims.len().checked_sub(shape.len())?;
    let long: Vec<usize> = (0..shape.len()).filter(|&axis| shape[axis] != 1).collect();
    let (axis, flat) = match long.as_slice() {
        [] => (0, Vec::new()),
        [axis] => (axis + missing, vec![shape[*axis]]),
        _ => return site.refuse(binding, "the scale has numbers along several axes"),
    };
    let dtype = site.dtype(&q)?;
    let zeros = Tensor::zeros(dtype, flat.clone())?;
    let numbers = match shape == flat {
        true => scale.clone(),
        false => site.revise(scale, site.constant(scale)?.reshaped(flat)?),
    };
    // ONNX wants a zero for each scale.
    let zero = site.keep(&format!("{}_zero", binding.name), zeros);
    let call = Expr::call("R.dequantize", [q, numbers, zero])
        .with("axis", Expr::int(axis as i128))
        .with("out_dtype", Expr::str("float32"));
    Some(Rewrite::Value(call))
}
