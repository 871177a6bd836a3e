//! Pads by the pool that reads what is padded: the largest of numbers with minus infinity, the mean with zeros that count.
//!
//!     a = R.nn.pad(x, pad_width=[0, 0, 0, 0, 1, 1, 1, 1])
//!     y = R.nn.avg_pool2d(a, pool_size=[3, 3])
//!                 →      y = R.nn.avg_pool2d(x, pool_size=[3, 3], padding=[1, 1, 1, 1], …, count_include_pad=True)
//!
//! Refused where it pads with another number, along batch or channels, or crops, where the pool rounds its extents up, and
//! where what is padded is read elsewhere too.

use irc_syntax::Expr;

use super::fuse_pad_into_conv::spatial_pads;
use super::view::ints;
use super::{Binding, Rewrite, Site, pass};
use crate::check::prim::Prim;
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "fuse_pad_into_pool",
    "padding before a pool is padding of its own"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let pool = site.prim(binding.value)?;
    let value = match pool.prim {
        Prim::MaxPool(_) | Prim::AvgPool(_) => pool.operand("x")?,
        _ => return None,
    };
    let pad = site
        .prim(site.def(value)?)
        .filter(|pad| pad.prim == Prim::Pad)?;
    let is_mean = matches!(pool.prim, Prim::AvgPool(_));
    let wanted = if is_mean { 0.0 } else { f64::NEG_INFINITY };
    if pad.float("pad_value") != wanted {
        return site.refuse(binding, "it pads with another number");
    }
    let Some(widths) = spatial_pads(site, &pad) else {
        return site.refuse(
            binding,
            "it pads by what is not known, along batch or channels, or crops",
        );
    };
    let own = pool.ints("padding");
    let has_own = own.iter().any(|&width| width != 0);
    let plain = |name: &str| {
        pool.opt_str(name)
            .is_none_or(|layout| layout.starts_with("NC"))
    };
    let is_plain = plain("layout") && plain("out_layout");
    if pool.bool("ceil_mode") || !is_plain || is_mean && has_own && !pool.bool("count_include_pad")
    {
        return site.refuse(binding, "the pool counts what it pads in another way");
    }
    if site.uses(value) != 1 {
        return site.refuse(binding, "what is padded is read elsewhere too");
    }
    if own.len() != widths.len() {
        return None;
    }
    let padding: Vec<i64> = own
        .iter()
        .zip(widths)
        .map(|(own, width)| own + width)
        .collect();
    // A window beside all elements has no largest, and a pool does not let that be.
    let size = pool.ints("pool_size");
    if padding
        .iter()
        .enumerate()
        .any(|(at, &width)| width >= size[at % size.len()])
    {
        return site.refuse(binding, "it pads by a window or more");
    }
    let (path, _) = binding.value.as_call()?;
    let call = Expr::call(&path, [pad.operand("x")?.clone()])
        .with("pool_size", ints(size))
        .with("strides", ints(pool.ints("strides")))
        .with("padding", ints(&padding))
        .with("dilation", ints(pool.ints("dilation")));
    Some(Rewrite::Value(match is_mean {
        true => call.with("count_include_pad", Expr::bool(true)),
        false => call,
    }))
}
