//! Operators that move elements and compute nothing: reshapes, permutations and slices, read and written.

use std::collections::BTreeMap;

use irc_syntax::Expr;

use super::Site;
use crate::check::prim::Prim;
use crate::shape::Dim;

/// What a reshape, in whatever operator it is said, reshapes.
pub fn viewed(value: &Expr) -> Option<&Expr> {
    let (path, _) = value.as_call()?;
    let is_view = matches!(
        path.as_str(),
        "R.reshape" | "R.expand_dims" | "R.squeeze" | "R.flatten" | "R.nn.batch_flatten"
    );
    is_view.then(|| value.positional().next())?
}

/// `R.reshape(x, R.shape([…]))`
pub fn reshape(x: &Expr, dims: &[Dim]) -> Expr {
    let dims = Expr::list(dims.iter().map(Dim::to_expr));
    Expr::call("R.reshape", [x.clone(), Expr::call("R.shape", [dims])])
}

/// `R.permute_dims(x, axes=[…])`
pub fn permute(x: &Expr, axes: &[usize]) -> Expr {
    Expr::call("R.permute_dims", [x.clone()]).with("axes", places(axes))
}

/// A list of axes.
pub fn places(axes: &[usize]) -> Expr {
    Expr::list(axes.iter().map(|&axis| Expr::int(axis as i128)))
}

/// A list of integers.
pub fn ints(values: &[i64]) -> Expr {
    Expr::list(values.iter().map(|&value| Expr::int(value)))
}

/// Axes counted from the front, in the order given. `None` for one that there is not.
pub fn from_front(axes: &[i64], rank: usize) -> Option<Vec<usize>> {
    let place = |&axis: &i64| {
        let axis = if axis < 0 { axis + rank as i64 } else { axis };
        usize::try_from(axis).ok().filter(|&axis| axis < rank)
    };
    axes.iter().map(place).collect()
}

/// What a permutation permutes, and where each axis of its result comes from.
pub fn permutation(site: &Site, value: &Expr) -> Option<(Expr, Vec<usize>)> {
    let call = site.prim(value)?;
    if call.prim != Prim::PermuteDims {
        return None;
    }
    let x = call.operand("x")?;
    let axes = match call.opt_ints("axes") {
        Some(axes) => from_front(axes, axes.len())?,
        None => (0..site.shape(x)?.len()).rev().collect(),
    };
    Some((x.clone(), axes))
}

/// A slice with known steps.
pub struct Slice {
    /// What is sliced.
    pub x: Expr,
    /// The axes that are cut, counted from the front, each with its begin and its end as written.
    pub cuts: Vec<(usize, Dim, Dim)>,
    /// The steps of the axes that are not taken one by one.
    pub steps: BTreeMap<usize, i64>,
}

impl Slice {
    /// Reads one with steps of 1.
    pub fn read(site: &Site, value: &Expr) -> Option<Self> {
        Self::read_any(site, value).filter(|slice| slice.steps.is_empty())
    }

    /// Reads one.
    pub fn read_any(site: &Site, value: &Expr) -> Option<Self> {
        let call = site.prim(value)?;
        if call.prim != Prim::StridedSlice || call.bool("assume_inbound") {
            return None;
        }
        let x = call.operand("x")?;
        let axes = from_front(call.ints("axes"), site.shape(x)?.len())?;
        let (begin, end) = (call.opt_dims("begin")?, call.opt_dims("end")?);
        let strides: Option<Vec<i64>> = match call.opt_dims("strides") {
            Some(strides) => strides.iter().map(Dim::as_int).collect(),
            None => Some(vec![1; axes.len()]),
        };
        let strides = strides?;
        if [begin.len(), end.len(), strides.len()] != [axes.len(); 3] {
            return None;
        }
        let steps = axes.iter().copied().zip(strides);
        let bounds = begin.iter().cloned().zip(end.iter().cloned());
        let cuts = axes.iter().copied().zip(bounds);
        Some(Self {
            x: x.clone(),
            cuts: cuts.map(|(axis, (lo, hi))| (axis, lo, hi)).collect(),
            steps: steps.filter(|(_, step)| *step != 1).collect(),
        })
    }

    /// Writes it.
    pub fn write(&self) -> Expr {
        let bounds =
            |pick: &dyn Fn(&(usize, Dim, Dim)) -> Expr| Expr::list(self.cuts.iter().map(pick));
        Expr::call("R.strided_slice", [self.x.clone()])
            .with("axes", bounds(&|cut| Expr::int(cut.0 as i128)))
            .with("begin", bounds(&|cut| cut.1.to_expr()))
            .with("end", bounds(&|cut| cut.2.to_expr()))
            .with(
                "strides",
                bounds(&|cut| Expr::int(self.steps.get(&cut.0).copied().unwrap_or(1))),
            )
    }

    /// The one axis that is cut, where it begins and where it ends, if all of that is known.
    pub fn only_cut(&self, site: &Site) -> Option<(usize, i64, i64)> {
        let [(axis, lo, hi)] = self.cuts.as_slice() else {
            return None;
        };
        let extent = site.shape(&self.x)?.get(*axis)?.as_int()?;
        let place = |bound: &Dim| {
            let bound = bound.as_int()?;
            Some(if bound < 0 { bound + extent } else { bound }.clamp(0, extent))
        };
        Some((*axis, place(lo)?, place(hi)?))
    }
}
