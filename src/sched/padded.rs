//! A padded copy made a band of rows at a time, in the task that reads it.
//!
//!     for y, x, c in T.grid(210, 210, 24): p[y, x, c] = …           for band in T.parallel(26):
//!     for y, x, o, j, i, c in T.grid(104, 104, 48, 3, 3, 24):   →       p = T.alloc_buffer((9, 210, 24))
//!         s[y, x, o] += p[y * 2 + j, x * 2 + i, c] * w[…]               (9 rows of p, 4 rows of s)
//!
//! The copy stays in the cache and takes no memory of its own. Rows that two bands read are made twice. Each sum is taken
//! as without bands, so the result is the same to the bit.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::names::NameSupply;
use irc_syntax::same::is_identical_expr;
use irc_syntax::{Expr, Name, VisitMut};

use super::bands::{BAND, Bands, Cut, Shift};
use super::build::{add, mul};
use super::fuse_rows::{accesses_of, renamed};
use super::nest::{Access, Buffers, Loop, Nest, int_of, replaced};
use super::parallelize::OPEN_EXTENT;
use crate::shape::Dim;

/// Bytes that a copy has at least, for which it is worth it.
const LEAST: i64 = 1024 * 1024;
/// Bytes of weights at most: each band reads them all.
const MOST_WEIGHTS: i64 = 192 * 1024;
/// Bands at least, so that threads have as much to do.
const LEAST_BANDS: i64 = 8;

/// Which rows of the copy a row of sums reads: `row * step + reach`, `reach` from 0 to less than `reads`.
struct Window {
    /// The axis of the copy.
    axis: usize,
    step: i64,
    reads: i64,
}

/// Finds a copy and the sums over it at the first nests. `used_after(n)` are the buffers that anything but the first `n`
/// nests uses.
pub fn padded(
    names: &mut NameSupply,
    nests: &[&Nest],
    buffers: &Buffers,
    used_after: &dyn Fn(usize) -> BTreeSet<Name>,
) -> Option<Bands> {
    let (&[copy, sums], rest) = nests.split_first_chunk::<2>()?;
    let stored = copied(copy)?;
    let reads: Vec<Access> = accesses_of(sums)
        .into_iter()
        .filter(|access| access.buffer == stored)
        .collect();
    let [read] = reads.as_slice() else {
        return None;
    };
    if sums.init.is_empty() || read.stores {
        return None;
    }
    let (row, window) = sums
        .loops
        .iter()
        .take_while(|each| !each.reduces)
        .enumerate()
        .find_map(|(at, each)| Some((at, window_of(sums, each, read)?)))?;
    let heads = sums.loops[..row].iter();
    let mut axes = heads
        .map(|head| {
            let mut found = (0..read.index.len()).filter(|&axis| {
                Dim::from_expr(&read.index[axis]).is_ok_and(|dim| dim.symbols().contains(&head.var))
            });
            let axis = found.next().filter(|_| found.next().is_none())?;
            (read.index[axis].as_name() == Some(&head.var)).then_some(axis)
        })
        .collect::<Option<Vec<usize>>>()?;
    axes.push(window.axis);
    let follows = rest.first().filter(|next| follows(sums, next, row + 1));
    let taken = 2 + usize::from(follows.is_some());
    let kept = used_after(taken);
    let inner = accesses_of(sums).into_iter().filter(|access| access.stores);
    let is_result = |access: &Access| follows.is_none() == kept.contains(&access.buffer);
    if kept.contains(&stored) || !inner.into_iter().all(|access| is_result(&access)) {
        return None;
    }
    let rows = rows_of(
        sums,
        &axes,
        row,
        &window,
        buffers.get(&stored)?.1.as_slice(),
    )?;
    let group: Vec<&Nest> = [sums].into_iter().chain(follows.copied()).collect();
    let group = renamed(&group, row + 1);
    let own = BTreeMap::from([(stored, axes)]);
    let over = names.fresh("band");
    let start = mul(Expr::name(&over), rows);
    let cut = Cut {
        group: &group,
        own: &own,
        buffers,
        row: &group[0].loops[row],
        outer: row + 1,
    };
    let room = (rows - 1) * window.step + window.reads;
    let bands = match group[0].loops[row].len() {
        Some(len) => Expr::int(len / rows),
        None => group[0].loops[row].extent.clone(),
    };
    let mut band = cut.band(&over, bands, start, Expr::int(rows), room)?;
    let first = mul(Expr::name(&over), rows * window.step);
    band.nests.insert(0, rows_of_copy(copy, &cut, first, room)?);
    Some(Bands {
        taken,
        heads: group[0].loops[..row].to_vec(),
        copied: None,
        parts: vec![band],
        packs: true,
    })
}

/// The buffer that an element-wise nest fills, each axis by a loop of its own.
fn copied(copy: &Nest) -> Option<Name> {
    let all = accesses_of(copy);
    let mut stores = all.iter().filter(|access| access.stores);
    let store = stores.next().filter(|_| stores.next().is_none())?;
    // Axes of extent 1 have no loop.
    let mut vars = copy.loops.iter();
    let is_plain = copy.init.is_empty()
        && all
            .iter()
            .filter(|access| access.buffer == store.buffer)
            .count()
            == 1
        && store.index.iter().all(|index| {
            int_of(index) == Some(0)
                || vars
                    .next()
                    .is_some_and(|each| !each.reduces && index.as_name() == Some(&each.var))
        });
    (is_plain && vars.next().is_none()).then(|| store.buffer.clone())
}

/// How the rows that a read meets move with a loop, where they do in one axis and over several rows.
fn window_of(sums: &Nest, row: &Loop, read: &Access) -> Option<Window> {
    let dims: Vec<Dim> = read
        .index
        .iter()
        .map(|index| Dim::from_expr(index).ok())
        .collect::<Option<_>>()?;
    let mut moving = (0..dims.len()).filter(|&axis| dims[axis].symbols().contains(&row.var));
    let axis = moving.next().filter(|_| moving.next().is_none())?;
    let at = |var: &Name| dims[axis].eval(&|name| Some(i64::from(name == var)));
    let nowhere = dims[axis].eval(&|_| Some(0))?;
    let step = at(&row.var)? - nowhere;
    let mut linear = &Dim::int(nowhere) + &(&Dim::sym(row.var.clone()) * &Dim::int(step));
    let mut reads = nowhere + 1;
    for each in sums.loops.iter().filter(|each| each.reduces) {
        if dims[axis].symbols().contains(&each.var) {
            let by = at(&each.var)? - nowhere;
            linear = &linear + &(&Dim::sym(each.var.clone()) * &Dim::int(by));
            reads += by.max(0) * (each.len()? - 1);
            if by < 0 {
                return None;
            }
        }
    }
    let is_window = nowhere >= 0 && step > 0 && reads > 1 && linear == dims[axis];
    is_window.then_some(Window { axis, step, reads })
}

/// Whether a nest goes over the results of sums, row by row.
fn follows(sums: &Nest, next: &Nest, outer: usize) -> bool {
    let n_spatial = sums.loops.iter().take_while(|each| !each.reduces).count();
    let same = next.init.is_empty()
        && next.loops.len() == n_spatial
        && sums.loops[..n_spatial]
            .iter()
            .zip(&next.loops)
            .all(|(a, b)| !b.reduces && is_identical_expr(&a.extent, &b.extent));
    if !same {
        return false;
    }
    let Some(stored) = accesses_of(sums).into_iter().find(|access| access.stores) else {
        return false;
    };
    // What is read of the sums is the row that is gone over.
    let row = &sums.loops[outer - 1].var;
    let axis = stored
        .index
        .iter()
        .position(|index| index.as_name() == Some(row));
    let Some(axis) = axis else { return false };
    let reads = accesses_of(next);
    let mut reads = reads
        .iter()
        .filter(|access| access.buffer == stored.buffer)
        .peekable();
    reads.peek().is_some()
        && reads.all(|access| {
            !access.stores && access.index[axis].as_name() == Some(&next.loops[outer - 1].var)
        })
}

/// How many rows of sums a band has: as many as a cache holds the copy for, one where the number of rows is not known.
fn rows_of(
    sums: &Nest,
    axes: &[usize],
    row: usize,
    window: &Window,
    shape: &[Expr],
) -> Option<i64> {
    let others = shape
        .iter()
        .enumerate()
        .filter(|(axis, _)| !axes.contains(axis));
    let line: i64 = others
        .map(|(_, extent)| int_of(extent).unwrap_or(OPEN_EXTENT))
        .product::<i64>()
        .checked_mul(4)?;
    let n_spatial = sums.loops.iter().take_while(|each| !each.reduces).count();
    let weights: Option<i64> = sums.loops[n_spatial..].iter().map(Loop::len).product();
    let weights = weights?.checked_mul(sums.loops[n_spatial - 1].len()?)? * 4;
    if weights > MOST_WEIGHTS || window.reads * line > BAND {
        return None;
    }
    let lines = int_of(&shape[window.axis]).unwrap_or(OPEN_EXTENT);
    // Sums that are neither of one row nor of one channel are what register tiles are made of.
    if lines * line < LEAST || row + 3 > n_spatial {
        return None;
    }
    let Some(len) = sums.loops[row].len() else {
        return Some(1);
    };
    (1..=len / LEAST_BANDS)
        .rev()
        .find(|rows| len % rows == 0 && ((rows - 1) * window.step + window.reads) * line <= BAND)
}

/// The nest of the copy over the rows of a band from `first` on.
fn rows_of_copy(copy: &Nest, cut: &Cut<'_>, first: Expr, room: i64) -> Option<Nest> {
    let (row, heads) = cut.own.values().next()?.split_last()?;
    let store = accesses_of(copy).into_iter().find(|access| access.stores)?;
    let loop_of = |axis: usize| {
        let var = store.index.get(axis)?.as_name()?;
        copy.loops.iter().find(|each| each.var == *var)
    };
    let row = loop_of(*row)?;
    let mut map = BTreeMap::new();
    for (axis, head) in heads.iter().zip(&cut.group[0].loops) {
        let own = loop_of(*axis)?;
        let is_other = |each: &Loop| each.var != own.var && each.var == head.var;
        if !is_identical_expr(&own.extent, &head.extent) || copy.loops.iter().any(is_other) {
            return None;
        }
        map.insert(own.var.clone(), Expr::name(&head.var));
    }
    let mut nest = copy.clone();
    nest.body = replaced(&copy.body, &map);
    nest.loops.retain(|each| !map.contains_key(&each.var));
    let own = nest.loops.iter_mut().find(|each| each.var == row.var)?;
    own.extent = Expr::int(room);
    let mut shift = Shift {
        own: cut.own,
        row: &row.var,
        to: add(first, Expr::name(&row.var)),
    };
    nest.body.iter_mut().for_each(|stmt| shift.visit_stmt(stmt));
    Some(nest)
}
