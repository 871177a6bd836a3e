//! Computes with operators that take less time.
//!
//!     a = R.divide(x, R.const(8.0))              →      a = R.multiply(x, R.const(0.125))
//!     b = R.power(a, R.const(2.0))               →      b = R.multiply(a, a)
//!     c = R.power(b, R.const(0.5))               →      c = R.sqrt(b)
//!
//! A product by the inverse may round in another way than the quotient. Powers of 1 / 2 differ for minus zero and minus
//! infinity.

use irc_syntax::Expr;

use super::{Binding, Rewrite, Site, pass, round};
use crate::check::prim::{Binary, Prim};
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "fast_math",
    "quotients by constants are products, small powers too"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let call = site.prim(binding.value)?;
    let Prim::Binary(op @ (Binary::Divide | Binary::Power)) = call.prim else {
        return None;
    };
    let (x, other) = (call.operand("a")?, call.operand("b")?);
    if !site.dtype(x)?.is_float() {
        return None;
    }
    if op == Binary::Divide {
        let shape = site.constant_shape(other)?;
        let numbers: Vec<f64> = site
            .numbers(other)?
            .iter()
            .map(|number| 1.0 / number)
            .collect();
        if !numbers.iter().all(|number| number.is_finite()) {
            return site.refuse(binding, "it divides by zero");
        }
        let inverse = site.revise(other, round(shape, &numbers, site.dtype(other)?)?);
        return Some(Rewrite::Value(Expr::call(
            "R.multiply",
            [x.clone(), inverse],
        )));
    }
    let power = site.number(other)?;
    if site.shape(x)? != site.result_shape(binding)? {
        return None;
    }
    let value = match power {
        2.0 => Expr::call("R.multiply", [x.clone(), x.clone()]),
        0.5 => Expr::call("R.sqrt", [x.clone()]),
        -0.5 => Expr::call("R.rsqrt", [x.clone()]),
        _ => return None,
    };
    Some(Rewrite::Value(value))
}
