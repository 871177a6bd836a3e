//! Recognizes a layer normalization over the last axes.
//!
//!     mu = R.mean(x, axis=[-1], keepdims=True)
//!     d = R.subtract(x, mu)
//!     s = R.multiply(d, d)
//!     v = R.mean(s, axis=[-1], keepdims=True)
//!     e = R.add(v, R.const(1e-5))
//!     r = R.sqrt(e)
//!     n = R.divide(d, r)
//!     m = R.multiply(n, gamma)
//!     y = R.add(m, beta)                            →      y = R.nn.layer_norm(x, gamma, beta, axes=[2], epsilon=1e-5)
//!
//! Refused where a step is read elsewhere too, and where gamma or beta is not as wide as what is normalized.

use irc_syntax::Expr;

use super::factors::{Factors, argument, same, sum};
use super::view::{from_front, places};
use super::{Binding, Rewrite, Site, pass};
use crate::check::prim::{Binary, Prim};
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "fuse_layer_norm",
    "the arithmetic of a layer normalization is one operator"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let call = site.prim(binding.value)?;
    if call.prim != Prim::Binary(Binary::Add) {
        return None;
    }
    let (a, b) = (call.operand("a")?, call.operand("b")?);
    let (scaled, beta) = [(a, b), (b, a)].into_iter().find(|(scaled, _)| {
        site.only_def(scaled)
            .is_some_and(|def| def.is_call_of("R.multiply"))
    })?;
    let scaled = site.prim(site.only_def(scaled)?)?;
    let (a, b) = (scaled.operand("a")?, scaled.operand("b")?);
    let (norm, gamma) = [(a, b), (b, a)]
        .into_iter()
        .find_map(|(norm, gamma)| Some((Norm::read(site, norm)?, gamma)))?;
    let dims = site.shape(&norm.x)?;
    let first = dims.len() - norm.axes.len();
    let wanted = dims.get(first..)?;
    let trails = norm.axes.iter().copied().eq(first..dims.len());
    let is_wide = |side: &Expr| site.shape(side).is_some_and(|dims| dims == wanted);
    if !trails || !is_wide(gamma) || !is_wide(beta) {
        return site.refuse(
            binding,
            "gamma and beta are not as wide as what is normalized",
        );
    }
    let call = Expr::call("R.nn.layer_norm", [norm.x, gamma.clone(), beta.clone()])
        .with("axes", places(&norm.axes))
        .with("epsilon", Expr::float(norm.epsilon));
    Some(Rewrite::Value(call))
}

/// (x - mean) / sqrt(variance + epsilon)
struct Norm {
    x: Expr,
    axes: Vec<usize>,
    epsilon: f64,
}

impl Norm {
    fn read(site: &Site, value: &Expr) -> Option<Self> {
        let call = site.prim(site.only_def(value)?)?;
        let (centred, root) = match call.prim {
            Prim::Binary(Binary::Divide) => (
                call.operand("a")?,
                argument(site, call.operand("b")?, "R.sqrt")?,
            ),
            Prim::Binary(Binary::Multiply) => {
                let (a, b) = (call.operand("a")?, call.operand("b")?);
                [(a, b), (b, a)]
                    .into_iter()
                    .find_map(|(centred, root)| Some((centred, inverse_root(site, root)?)))?
            }
            _ => return None,
        };
        let (a, b) = sum(site, &root)?;
        let (variance, epsilon) = [(&a, &b), (&b, &a)]
            .into_iter()
            .find_map(|(variance, number)| Some((variance, site.number(number)?)))?;
        let (squares, axes) = mean(site, site.only_def(variance)?)?;
        let factors = Factors::of_name(site, &squares);
        let is_square = factors.is(1.0)
            && factors.others.len() == 2
            && factors.others.iter().all(|factor| same(factor, centred));
        let call = site.prim(site.def(centred)?)?;
        // The deviation is read by its square and by the quotient.
        let reads = factors.others.len();
        if !is_square
            || call.prim != Prim::Binary(Binary::Subtract)
            || site.uses(centred) > reads + 1
        {
            return None;
        }
        let x = call.operand("a")?;
        let (of, over) = mean(site, site.only_def(call.operand("b")?)?)?;
        (same(&of, x) && over == axes).then(|| Self {
            x: x.clone(),
            axes,
            epsilon,
        })
    }
}

/// The argument of 1 / sqrt.
fn inverse_root(site: &Site, value: &Expr) -> Option<Expr> {
    if let Some(inner) = argument(site, value, "R.rsqrt") {
        return Some(inner);
    }
    let call = site.prim(site.only_def(value)?)?;
    let is_inverse =
        call.prim == Prim::Binary(Binary::Divide) && site.number(call.operand("a")?) == Some(1.0);
    is_inverse.then(|| argument(site, call.operand("b")?, "R.sqrt"))?
}

/// What a mean that keeps its axes is taken of, and over which axes.
fn mean(site: &Site, value: &Expr) -> Option<(Expr, Vec<usize>)> {
    let op = site
        .operator(value)
        .filter(|op| op.is("R.mean") && op.bool("keepdims") == Some(true))?;
    let x = op.get("x")?;
    let mut axes = from_front(&op.ints("axis")?, site.shape(x)?.len())?;
    axes.sort_unstable();
    Some((x.clone(), axes))
}
