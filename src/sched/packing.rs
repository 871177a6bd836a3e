//! Which weights of a tile are packed, and how.
//!
//!     w[k, j], with j the vector's axis and k reduced      →      w_packed[j // 16, k, j % 16]
//!
//! A panel holds the columns of one tile, one row of them after the other, so that a tile reads its panel from front to
//! back. Needs an index that depends on nothing but the vector axis and the reduction. What is copied into panels in the
//! function itself (`copied`) may depend on other axes too, which come first there. Tests: `tests/sched/tile`.

use irc_syntax::Name;

use super::nest::{Access, Loop, int_of};
use super::tile::{Scope, mentions_any};

/// A weight that a tile reads in panels.
#[derive(Clone, PartialEq, Debug)]
pub struct Packing {
    /// The parameter of the prim_func.
    pub param: Name,
    /// The axis of the packed tensor's parts in the original: the panel axis first, then the others in order.
    pub axes: Vec<usize>,
    /// Columns of a panel.
    pub lanes: i64,
    /// Whether two steps along the last axis lie beside each other: `b[k, j]` is `bp[j // 16, k // 2, j % 16, k % 2]`.
    pub pairs: bool,
    /// Where the weight is first transformed for tiles of so many results to a side. Its axes are then result channel,
    /// row, column, data channel, and the parts after the panel the places of a tile and the data channels.
    pub winograd: Option<usize>,
}

/// How an access is packed: each of its axes is the vector axis or a reduction axis as a whole, or 0. Other axes of a
/// copy are not in the packing.
pub fn packing_of(
    access: &Access,
    reads: &[Access],
    last: &Loop,
    reduced: &[Loop],
    lanes: i64,
    scope: &Scope,
) -> Option<Packing> {
    let is_only = reads
        .iter()
        .filter(|other| other.buffer == access.buffer)
        .count()
        == 1;
    let is_copied = scope.panels.contains_key(&access.buffer);
    if !is_only || !(is_copied || scope.weights.contains(&access.buffer)) {
        return None;
    }
    let (_, shape) = scope.buffers.get(&access.buffer)?;
    let axis_of = |each: &Loop| -> Option<usize> {
        let at = access
            .index
            .iter()
            .position(|expr| expr.as_name() == Some(&each.var))?;
        let len = int_of(shape.get(at)?)?;
        (each.len() == Some(len)).then_some(at)
    };
    let panel = axis_of(last)?;
    let mut axes = vec![panel];
    axes.extend(
        reduced
            .iter()
            .filter(|each| mentions_any(access, &each.var))
            .map(axis_of)
            .collect::<Option<Vec<_>>>()?,
    );
    for (at, expr) in access.index.iter().enumerate() {
        if !axes.contains(&at) && !is_copied {
            let is_zero = int_of(expr) == Some(0) && int_of(shape.get(at)?) == Some(1);
            if !is_zero {
                return None;
            }
            axes.push(at);
        }
    }
    Some(Packing {
        param: access.buffer.clone(),
        axes,
        lanes,
        pairs: false,
        winograd: None,
    })
}
