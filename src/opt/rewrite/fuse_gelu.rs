//! Recognizes gelu, by the error function or by tanh.
//!
//!     a = R.divide(x, R.const(1.4142135))
//!     b = R.erf(a)
//!     c = R.add(b, R.const(1.0))
//!     d = R.multiply(x, c)
//!     y = R.multiply(d, R.const(0.5))            →      y = R.nn.gelu(x)
//!
//! In whatever order the factors stand. With 0.7978846 · (x + 0.044715 · x³) and tanh it is `R.nn.gelu_tanh`. Refused where
//! a step is read elsewhere too, and where a number is another one.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use irc_syntax::Expr;

use super::factors::{Factors, argument, plus, same, sum};
use super::{Binding, Rewrite, Site, pass};
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!("fuse_gelu", "the arithmetic of gelu is one operator");

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let all = Factors::of(site, binding.value);
    let [a, b] = all.others.as_slice() else {
        return None;
    };
    [(a, b), (b, a)].into_iter().find_map(|(x, other)| {
        let curve = plus(site, other, 1.0)?;
        let by_erf = argument(site, &curve, "R.erf")
            .filter(|inner| is_scaled(site, inner, x, FRAC_1_SQRT_2));
        let by_tanh = argument(site, &curve, "R.tanh").filter(|inner| is_cubic(site, inner, x));
        let path = match (by_erf, by_tanh) {
            (Some(_), _) => "R.nn.gelu",
            (None, Some(_)) => "R.nn.gelu_tanh",
            (None, None) => return None,
        };
        if !all.is(0.5) {
            return site.refuse(binding, "it is gelu but for a factor");
        }
        let fits = site.shape(x)? == site.result_shape(binding)?;
        fits.then(|| Rewrite::Value(Expr::call(path, [x.clone()])))
    })
}

fn is_scaled(site: &Site, value: &Expr, x: &Expr, number: f64) -> bool {
    let factors = Factors::of_name(site, value);
    factors.is(number) && matches!(factors.others.as_slice(), [only] if same(only, x))
}

/// sqrt(2 / pi) · (x + 0.044715 · x³), or with x in front.
fn is_cubic(site: &Site, value: &Expr, x: &Expr) -> bool {
    let factors = Factors::of_name(site, value);
    if !factors.is((2.0 / PI).sqrt()) {
        return false;
    }
    let power = |value: &Expr, times: usize| {
        let factors = Factors::of_name(site, value);
        factors.is(0.044715)
            && factors.others.len() == times
            && factors.others.iter().all(|factor| same(factor, x))
    };
    match factors.others.as_slice() {
        [inner] => sum(site, inner)
            .is_some_and(|(a, b)| same(&a, x) && power(&b, 3) || same(&b, x) && power(&a, 3)),
        [a, b] => [(a, b), (b, a)].into_iter().any(|(first, inner)| {
            same(first, x) && plus(site, inner, 1.0).is_some_and(|square| power(&square, 2))
        }),
        _ => false,
    }
}
