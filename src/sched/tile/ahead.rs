//! Rows of the next tile are fetched while the panels go over this one.
//!
//!     for mo in …:                              for mo in …:
//!         for no in range(8):                       for no in range(8):
//!             …                        →                for ri in T.unroll(6):
//!                                                           T.prefetch(a[mo * 6 + 6 + ri, no * 16])
//!                                                       …
//!
//! A tile meets its rows when the first panel goes over them, and would wait for each line of them: they come from
//! beyond the core's own caches, too many rows side by side for the processor to foresee. Each panel asks for its part
//! of the lines.

use std::collections::BTreeMap;

use irc_syntax::names::NameSupply;
use irc_syntax::{Expr, Name, Stmt};

use super::super::build::{add, guarded, less, mul, serial, unrolled};
use super::super::nest::{Access, Loop, Step, accesses, int_of, replaced, step_of};
use super::super::parallelize::Sharing;
use super::super::vectorize::unroll_rows;
use super::rows::Rows;
use super::{Columns, Tile, mentions_any};

/// Bytes of a cache line.
const LINE: i64 = 64;

/// Rows of fewer lines lie so close together that the processor fetches them by itself.
const MIN_LINES: i64 = 2;

/// Fewer tiles than these do not wait long.
const MIN_TILES: i64 = 4;

/// So many bytes stay in the cache nearest to the core.
const NEAR: i64 = 32 * 1024;

/// So many lines of a row are asked for without a loop.
const MOST_COPIES: i64 = 4;

impl Tile<'_> {
    /// What a tile of this kind asks for before its sums: a part of the rows from `next` on.
    pub(super) fn ahead(
        &self,
        names: &mut NameSupply,
        kind: &Rows,
        next: &Expr,
        (panel, columns): (&Name, &Columns),
    ) -> Vec<Stmt> {
        let [depth] = self.reduced.as_slice() else {
            return Vec::new();
        };
        let (Some(panels), Some(row)) = (int_of(&columns.tiles), self.row) else {
            return Vec::new();
        };
        let is_near = self.scope.sharing == Sharing::Within;
        // What is left over is few tiles.
        let is_many = match int_of(&kind.tiles) {
            Some(tiles) => tiles >= MIN_TILES,
            None => kind.rows == self.most_rows(),
        };
        if !is_many || is_near || !self.windows.is_empty() {
            return Vec::new();
        }
        let (n_rows, row) = (self.spatial[row].len(), &self.spatial[row].var);
        let rows: Vec<Access> = accesses(&self.nest.body)
            .into_iter()
            .filter(|access| self.is_row(access, row, depth))
            .collect();
        let mut res = Vec::new();
        for access in rows {
            let Some((dtype, _)) = self.scope.buffers.get(&access.buffer) else {
                continue;
            };
            let step = LINE / i64::try_from(dtype.bytes()).unwrap_or(LINE).max(1);
            let Some(lines) = depth.len().map(|len| (len + step - 1) / step) else {
                continue;
            };
            let all = n_rows.map_or(i64::MAX, |rows| rows.saturating_mul(lines * LINE));
            if lines < MIN_LINES || all <= NEAR {
                continue;
            }
            let part = (lines + panels - 1) / panels.max(1);
            let (line, side) = (names.fresh("li"), names.fresh("ri"));
            let at = match (panels > 1, part > 1) {
                (true, true) => add(
                    mul(Expr::name(panel), part * step),
                    mul(Expr::name(&line), step),
                ),
                (true, false) => mul(Expr::name(panel), step),
                (false, _) => mul(Expr::name(&line), step),
            };
            let map = BTreeMap::from([
                (row.clone(), add(next.clone(), Expr::name(&side))),
                (depth.var.clone(), at),
            ]);
            let element = Expr::index(Expr::name(&access.buffer), access.index.clone());
            let ask = Stmt::expr(Expr::call("T.prefetch", [element]));
            let body = unroll_rows(&side, kind.rows, replaced(&[ask], &map));
            let body = match part {
                1 if panels > 1 => body,
                2..=MOST_COPIES => vec![unrolled(&line, part, body)],
                _ => vec![serial(&line, Expr::int(part), body)],
            };
            let has_part = (panels > lines).then(|| less(Expr::name(panel), Expr::int(lines)));
            res.extend(guarded(has_part, body));
        }
        res
    }

    /// Whether an access reads the tile's rows, whose elements lie in the order of the reduction.
    fn is_row(&self, access: &Access, row: &Name, depth: &Loop) -> bool {
        let Some(last) = self.spatial.last() else {
            return false;
        };
        access.buffer != self.update.buffer
            && mentions_any(access, row)
            && !mentions_any(access, &last.var)
            && step_of(access, &depth.var, self.scope.buffers) == Step::One
    }
}
