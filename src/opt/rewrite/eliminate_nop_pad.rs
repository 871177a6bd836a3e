//! Removes padding by nothing.
//!
//!     y = R.nn.pad(x, pad_width=[0, 0, 0, 0])                            →      (x takes the place of y)
//!     y = onnx.Pad(x, R.const([0, 0, 0, 0], "int64"), mode="edge")       →      (x takes the place of y)

use super::{Binding, Rewrite, Site, pass};
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!("eliminate_nop_pad", "padding of nothing is its operand");

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let op = site.operator(binding.value)?;
    let (x, none) = match op.path.as_str() {
        "R.nn.pad" => {
            let x = op.get("x").or(op.get("data"))?;
            (x, op.ints("pad_width")?.iter().all(|&width| width == 0))
        }
        "onnx.Pad" => (op.get("x")?, site.number(op.get("pads")?) == Some(0.0)),
        _ => return None,
    };
    none.then(|| Rewrite::Alias(x.clone()))
}
