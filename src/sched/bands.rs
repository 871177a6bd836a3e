//! Two products and the rows between them, a band of rows at a time: attention without its matrix of scores.
//!
//!     for i, j, k in T.grid(1500, 1500, 64): s[i, j] += q[i, k] * k[k, j]      for band in T.parallel(…):
//!     for i, j in T.grid(1500, 1500): softmax of s along j, into p       →         s = T.alloc_buffer((24, 1500))
//!     for i, d, j in T.grid(1500, 64, 1500): y[i, d] += p[i, j] * v[j, d]          (the three nests over 24 rows, s in place)
//!
//! A band's scores stay in the cache. Every buffer that one nest fills and another reads must be indexed by the shared loops as
//! they are; buffers that only these nests use shrink to a band. This file says what a band holds; `auto` schedules the nests
//! inside it as any others. Each row is computed as without bands, but for the division of softmax, which comes after the
//! second product (`deferred`) unless sums are exact.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::names::NameSupply;
use irc_syntax::same::is_identical_expr;
use irc_syntax::visit::walk_expr_mut;
use irc_syntax::{BinaryOp, Expr, ExprKind, Name, Stmt, StmtKind, VisitMut};

use super::Target;
use super::build::{add, floor_div, mul};
use super::copied::{Copied, copied};
use super::deferred::defer_division;
use super::fuse_rows::{accesses_of, flows_within, renamed, shared_axes};
use super::nest::{Buffers, Loop, Nest, int_of, replaced};
use super::vectorize::update_of;

/// Bytes of scores in a band: a good part of a second-level cache.
pub(super) const BAND: i64 = 160 * 1024;

/// Tiles of rows in a band, at most: each panel of columns is read once for all of them.
const MOST_TILES: i64 = 8;

/// Nests in bands.
pub struct Bands {
    /// How many nests.
    pub taken: usize,
    /// The loops around the bands.
    pub heads: Vec<Loop>,
    /// An operand that all bands read in panels, copied before them.
    pub copied: Option<Copied>,
    /// Whole bands, then what is left.
    pub parts: Vec<Band>,
    /// Whether weights are packed for the nests of a band.
    pub packs: bool,
}

/// The nests of a band.
pub struct Band {
    /// The loop over bands of this kind.
    pub over: Loop,
    /// The nests over its rows.
    pub nests: Vec<Nest>,
    /// All buffers, as the nests see them.
    pub buffers: Buffers,
    /// The buffers of the band, to be declared in it.
    pub own: BTreeSet<Name>,
}

/// Finds bands at the first nests. `used_after(n)` are the buffers that anything but the first `n` nests uses.
pub fn bands(
    names: &mut NameSupply,
    nests: &[&Nest],
    target: Target,
    buffers: &Buffers,
    used_after: &dyn Fn(usize) -> BTreeSet<Name>,
) -> Option<Bands> {
    let (taken, outer) = reach(nests)?;
    let mut group = renamed(&nests[..taken], outer);
    let kept = used_after(taken);
    let mut buffers = buffers.clone();
    if !target.exact {
        let used = |name: &Name| kept.contains(name);
        defer_division(names, &mut group, &mut buffers, outer, &used);
    }
    let buffers = &buffers;
    let shared: Vec<Name> = group[0].loops[..outer]
        .iter()
        .map(|each| each.var.clone())
        .collect();
    let shared: Vec<&Name> = shared.iter().collect();
    let mut own: BTreeMap<Name, Vec<usize>> = BTreeMap::new();
    for access in group.iter().flat_map(accesses_of) {
        if access.stores && !kept.contains(&access.buffer) {
            own.insert(access.buffer.clone(), shared_axes(&access, &shared)?);
        }
    }
    let (row, heads) = group[0].loops[..outer].split_last()?;
    let (row, heads) = (row.clone(), heads.to_vec());
    reuse(&mut group, &mut own, buffers, outer);
    let columns = group[0].loops[outer].len().unwrap_or(512).max(1);
    let is_filled = |name: &Name| {
        group
            .iter()
            .flat_map(accesses_of)
            .any(|access| access.stores && access.buffer == *name)
    };
    let copied = copied(names, &group[0], target, buffers, &is_filled);
    let tile = target.tile_rows();
    let most = (BAND / 4 / columns / tile).clamp(1, MOST_TILES);
    let cx = Cut {
        group: &group,
        own: &own,
        buffers,
        row: &row,
        outer,
    };
    let whole = |rows: i64| floor_div(&row.extent, rows);
    let mut parts = Vec::new();
    let rows = match row.len() {
        Some(len) => {
            let tiles = (len + tile - 1) / tile;
            let bands = (tiles + most - 1) / most;
            ((tiles + bands - 1) / bands.max(1) * tile).min(len)
        }
        None => most * tile,
    };
    let over = names.fresh("band");
    parts.push(cx.band(
        &over,
        whole(rows),
        mul(Expr::name(&over), rows),
        Expr::int(rows),
        rows,
    )?);
    let rest = match row.len() {
        Some(len) => Expr::int(len % rows),
        None => Expr::binary(BinaryOp::Mod, row.extent.clone(), Expr::int(rows)),
    };
    if int_of(&rest) != Some(0) {
        let over = names.fresh("band");
        parts.push(cx.band(&over, Expr::int(1), mul(whole(rows), rows), rest, rows)?);
    }
    Some(Bands {
        taken,
        heads,
        copied,
        parts,
        packs: false,
    })
}

/// How many nests make attention, and the number of loops they share: a product, rows, and a product of what the rows
/// gave, with an element-wise nest after it where there is one.
fn reach(nests: &[&Nest]) -> Option<(usize, usize)> {
    let first = nests.first()?;
    let n_spatial = spatial(first);
    let outer = n_spatial.checked_sub(1).filter(|&outer| outer > 0)?;
    let is_product = |nest: &Nest| update_of(nest).is_some() && spatial(nest) == n_spatial;
    if !is_product(first) {
        return None;
    }
    let second = 1 + nests[1..].iter().position(|nest| is_product(nest))?;
    let has_rows = nests[1..second]
        .iter()
        .any(|nest| !nest.init.is_empty() && spatial(nest) == outer);
    let follows = nests.get(second + 1).is_some_and(|next| {
        next.init.is_empty()
            && next.loops.len() == n_spatial
            && is_identical_expr(
                &next.loops[outer].extent,
                &nests[second].loops[outer].extent,
            )
    });
    let fits = |taken: usize| {
        let heads = &first.loops[..outer];
        let same = nests[..taken].iter().all(|nest| {
            nest.loops.len() >= outer
                && nest.loops[..outer]
                    .iter()
                    .zip(heads)
                    .all(|(a, b)| !a.reduces && is_identical_expr(&a.extent, &b.extent))
                && nest.loops[outer..]
                    .iter()
                    .all(|each| heads.iter().all(|head| head.var != each.var))
        });
        same && flows_within(&renamed(&nests[..taken], outer), heads)
    };
    let taken = [second + 2, second + 1]
        .into_iter()
        .find(|&taken| (follows || taken == second + 1) && fits(taken))?;
    has_rows.then_some((taken, outer))
}

fn spatial(nest: &Nest) -> usize {
    nest.loops.iter().take_while(|each| !each.reduces).count()
}

/// Lets what one nest fills take the place of what is not read any more, but at the same place by that nest.
fn reuse(
    group: &mut [Nest],
    own: &mut BTreeMap<Name, Vec<usize>>,
    buffers: &Buffers,
    outer: usize,
) {
    for at in 1..group.len() {
        let stored = accesses_of(&group[at])
            .into_iter()
            .find(|access| access.stores);
        let Some(place) = stored.filter(|place| own.contains_key(&place.buffer)) else {
            continue;
        };
        let to = place.buffer.clone();
        let only_there = |nest: &Nest, name: &Name| {
            accesses_of(nest).iter().all(|access| {
                let index = access.index.iter().zip(&place.index);
                access.buffer != *name || index.into_iter().all(|(a, b)| is_identical_expr(a, b))
            })
        };
        let mentions = |nest: &Nest, name: &Name| {
            accesses_of(nest)
                .iter()
                .any(|access| access.buffer == *name)
        };
        let is_first = !group[..at].iter().any(|nest| mentions(nest, &to));
        let is_row = group[at].loops.len() > outer && group[at].init.is_empty();
        let same_type = |from: &Name| match (buffers.get(from), buffers.get(&to)) {
            (Some((a, xs)), Some((b, ys))) => {
                a == b
                    && xs.len() == ys.len()
                    && xs.iter().zip(ys).all(|(x, y)| is_identical_expr(x, y))
            }
            _ => false,
        };
        let free = own.keys().find(|from| {
            **from != to
                && own.get(*from) == own.get(&to)
                && same_type(from)
                && group[..at].iter().any(|nest| mentions(nest, from))
                && only_there(&group[at], from)
                && !group[at + 1..].iter().any(|nest| mentions(nest, from))
        });
        let Some(from) = free.filter(|_| is_first && is_row).cloned() else {
            continue;
        };
        let map = BTreeMap::from([(to.clone(), Expr::name(&from))]);
        for nest in &mut group[at..] {
            nest.init = replaced(&nest.init, &map);
            nest.body = replaced(&nest.body, &map);
        }
        own.remove(&to);
    }
}

/// What bands are cut from.
pub(super) struct Cut<'a> {
    pub group: &'a [Nest],
    /// Buffers of a band, with the axis that each shared loop indexes.
    pub own: &'a BTreeMap<Name, Vec<usize>>,
    pub buffers: &'a Buffers,
    pub row: &'a Loop,
    pub outer: usize,
}

impl Cut<'_> {
    /// The nests over `rows` rows from `start` on, in buffers of `room` rows.
    pub fn band(
        &self,
        over: &Name,
        bands: Expr,
        start: Expr,
        rows: Expr,
        room: i64,
    ) -> Option<Band> {
        let mut shift = Shift {
            own: self.own,
            row: &self.row.var,
            to: add(start, Expr::name(&self.row.var)),
        };
        let mut buffers = self.buffers.clone();
        for (name, axes) in self.own {
            let (_, shape) = buffers.get_mut(name)?;
            let (row, heads) = axes.split_last()?;
            *shape.get_mut(*row)? = Expr::int(room);
            let mut at = 0;
            shape.retain(|_| {
                at += 1;
                !heads.contains(&(at - 1))
            });
        }
        let nests = self.group.iter().map(|nest| {
            let mut nest = nest.clone();
            nest.loops.drain(..self.outer - 1);
            nest.loops[0].extent = rows.clone();
            let stmts = nest.init.iter_mut().chain(&mut nest.body);
            stmts.for_each(|stmt| shift.visit_stmt(stmt));
            nest
        });
        Some(Band {
            over: Loop {
                var: over.clone(),
                extent: bands,
                reduces: false,
            },
            nests: nests.collect(),
            buffers,
            own: self.own.keys().cloned().collect(),
        })
    }
}

/// Counts rows from the start of the band in the band's own buffers, and from the start of all elsewhere.
pub(super) struct Shift<'a> {
    pub own: &'a BTreeMap<Name, Vec<usize>>,
    pub row: &'a Name,
    pub to: Expr,
}

impl VisitMut for Shift<'_> {
    fn visit_expr(&mut self, expr: &mut Expr) {
        if expr.as_name() == Some(self.row) {
            *expr = self.to.clone();
            return;
        }
        let ExprKind::Index { value, index } = &mut expr.kind else {
            return walk_expr_mut(self, expr);
        };
        let Some((row, heads)) = value
            .as_name()
            .and_then(|name| self.own.get(name)?.split_last())
        else {
            return walk_expr_mut(self, expr);
        };
        for (at, each) in index.iter_mut().enumerate() {
            if at != *row {
                self.visit_expr(each);
            }
        }
        let mut at = 0;
        index.retain(|_| {
            at += 1;
            !heads.contains(&(at - 1))
        });
    }

    fn visit_stmt(&mut self, stmt: &mut Stmt) {
        match &mut stmt.kind {
            // The type of a `let` looks like an access.
            StmtKind::Assign { target, value, .. } => {
                self.visit_expr(target);
                self.visit_expr(value);
            }
            _ => irc_syntax::visit::walk_stmt_mut(self, stmt),
        }
    }
}
