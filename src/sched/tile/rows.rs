//! The rows of a reduction as tiles of few kinds, and the loops around the tiles.
//!
//!     128 rows, at most 6 a tile     →     18 tiles of 6 rows, 4 tiles of 5
//!     n rows                         →     tiles of 6, one of 5 if n is odd, up to two of 4; fewer than 8 one by one
//!
//! A tile of nearly as many rows costs nearly as much, so rows are spread evenly where their number is known.

use irc_syntax::names::NameSupply;
use irc_syntax::{BinaryOp, Expr, Name, Stmt};

use super::super::build::{add, ceil_div, floor_div, min, mul, serial, serial_from};
use super::super::nest::{Loop, accesses, int_of};
use super::super::parallelize::{distribute, work_of};
use super::{Columns, Tile, mentions_any};

/// Tiles of one kind: `tiles` of them, of `rows` rows each, from row `start` on.
pub(super) struct Rows {
    /// The first row.
    start: Expr,
    /// Rows of a tile.
    pub(super) rows: i64,
    /// How many tiles.
    pub(super) tiles: Expr,
}

impl Rows {
    /// `tiles` tiles of `rows` rows, from row `start` on.
    pub(super) fn tiles(start: Expr, rows: i64, tiles: Expr) -> Self {
        Self { start, rows, tiles }
    }

    /// Whether it is one tile for certain.
    fn is_one(&self) -> bool {
        int_of(&self.tiles) == Some(1)
    }
}

impl Tile<'_> {
    /// `count` rows from row `first` on, in tiles of as many rows as registers hold.
    pub(super) fn spread(&self, names: &mut NameSupply, first: &Expr, count: &Expr) -> Vec<Stmt> {
        let most = self.most_rows();
        let together = self.goes_together();
        let mut kinds = match int_of(count) {
            Some(len) => even_rows(len, most),
            None => open_rows(count, most),
        };
        for kind in &mut kinds {
            kind.start = add(kind.start.clone(), first.clone());
        }
        if !together && int_of(count).is_some() {
            let nests = kinds.iter().map(std::slice::from_ref);
            return nests.flat_map(|kind| self.nest(names, kind)).collect();
        }
        if !together && kinds.len() > 1 {
            // Whole tiles are shared out; what is left is little.
            let rest = kinds.split_off(1);
            let mut res = self.nest(names, &kinds);
            res.extend(self.nest(names, &rest));
            res.extend(self.few(names, first, count));
            return res;
        }
        let mut res = self.nest(names, &kinds);
        if int_of(count).is_none() {
            res.extend(self.few(names, first, count));
        }
        res
    }

    /// The rows where they are too few for a tile: panels beside each other instead.
    fn few(&self, names: &mut NameSupply, first: &Expr, count: &Expr) -> Vec<Stmt> {
        let most = self.most_rows();
        if most <= 1 {
            return Vec::new();
        }
        let few = few_rows(count, least_rows(most));
        self.nest(names, &[Rows::tiles(first.clone(), 1, few)])
    }

    /// Whether tiles of all kinds stand in the same loops: each panel is read once for all of them.
    fn goes_together(&self) -> bool {
        let tasks = work_of(&self.others());
        let rows = self.row.and_then(|row| self.spatial.get(row));
        let is_known = rows.is_none_or(|rows| rows.len().is_some());
        self.is_panel_outer()
            || self.packs_panels()
            || tasks >= 8
            || is_known && self.work() <= 4 * self.scope.target.grain()
    }

    /// Operations of all tiles.
    fn work(&self) -> i64 {
        work_of(&self.spatial).saturating_mul(work_of(&self.reduced))
    }

    /// Result loops that are neither rows nor columns.
    fn others(&self) -> Vec<Loop> {
        (0..self.spatial.len() - 1)
            .filter(|at| Some(*at) != self.row)
            .map(|at| self.spatial[at].clone())
            .collect()
    }

    /// Tiles of some kinds in one nest for each kind of columns.
    pub(super) fn nest(&self, names: &mut NameSupply, kinds: &[Rows]) -> Vec<Stmt> {
        let kinds: Vec<&Rows> = kinds
            .iter()
            .filter(|kind| int_of(&kind.tiles) != Some(0))
            .collect();
        let Some(widest) = kinds.iter().map(|kind| kind.rows).max() else {
            return Vec::new();
        };
        let mut res = Vec::new();
        for columns in self.parts(widest) {
            if int_of(&columns.tiles) == Some(0) {
                continue;
            }
            let packs = columns.beside == 1 && self.packs_panels() && !kinds[0].is_one();
            let is_outer = self.is_panel_outer() && int_of(&columns.tiles) != Some(1);
            res.extend(match is_outer || packs {
                true => self.panel_outer(names, &kinds, &columns, packs),
                false => self.panel_inner(names, &kinds, &columns),
            });
        }
        res
    }

    /// Panels around tiles: blocks of tiles go over one panel before the next. With `packs` the panel is packed first.
    fn panel_outer(
        &self,
        names: &mut NameSupply,
        kinds: &[&Rows],
        columns: &Columns,
        packs: bool,
    ) -> Vec<Stmt> {
        let panel = names.fresh("no");
        let mut outer = self.others();
        let [main, rest @ ..] = kinds else {
            return Vec::new();
        };
        let scratch = packs.then(|| names.fresh("panel"));
        let scratch = scratch.as_ref();
        let (mut body, mut work) = (Vec::new(), 0);
        let mut is_last = None;
        let tile = names.fresh("mo");
        let (code, each) = self.tile_at(names, main, &tile, columns, (&panel, scratch));
        if main.is_one() {
            body.extend(code);
            work += each;
        } else {
            let block = match packs {
                true => self.tiles_of_block().max(64),
                false => self.tiles_of_block(),
            };
            let blocks = Loop {
                var: names.fresh("bo"),
                extent: ceil_div(&main.tiles, block),
                reduces: false,
            };
            let (lo, hi) = match blocks.len() {
                Some(1) => (Expr::int(0), main.tiles.clone()),
                _ => {
                    let next = add(Expr::name(&blocks.var), Expr::int(1));
                    is_last = Some(Expr::binary(
                        BinaryOp::FloorDiv,
                        next,
                        blocks.extent.clone(),
                    ));
                    let lo = mul(Expr::name(&blocks.var), block);
                    let hi = min(add(lo.clone(), Expr::int(block)), main.tiles.clone());
                    (lo, hi)
                }
            };
            body.push(serial_from(&tile, lo, hi, code));
            work += each * block;
            outer.push(blocks);
        }
        for kind in rest {
            let tile = names.fresh("mo");
            let (code, each) = self.tile_at(names, kind, &tile, columns, (&panel, scratch));
            work += each;
            match &is_last {
                None if kind.is_one() => body.extend(code),
                None => body.push(serial(&tile, kind.tiles.clone(), code)),
                Some(is_last) => {
                    let tiles = match int_of(&kind.tiles) {
                        Some(tiles) => mul(is_last.clone(), tiles),
                        None => Expr::binary(BinaryOp::Mul, kind.tiles.clone(), is_last.clone()),
                    };
                    body.push(serial(&tile, tiles, code));
                }
            }
        }
        if let Some(rounds) = self.images_of_block(kinds) {
            body = self.in_blocks(names, rounds, &mut outer, body);
            work = work.saturating_mul(rounds);
        }
        let mut declared = Vec::new();
        if let Some(buffer) = scratch {
            let first = self.first_panel(&panel, columns);
            let (declare, fill) = self.packed_panel(names, buffer, &first, columns);
            declared.push(declare);
            body.splice(0..0, fill);
        }
        if int_of(&columns.tiles) != Some(1) {
            outer.push(Loop {
                var: panel,
                extent: columns.tiles.clone(),
                reduces: false,
            });
        }
        self.shared_out(names, &outer, work, declared, body)
    }

    /// How many rounds of the innermost other loop go over one panel before the next, where the panels serve them all.
    fn images_of_block(&self, kinds: &[&Rows]) -> Option<i64> {
        let others = self.others();
        let (over, last) = (others.last()?, self.spatial.last()?);
        let serves_all = accesses(&self.nest.body).iter().all(|access| {
            access.buffer == self.update.buffer
                || !mentions_any(access, &last.var)
                || !mentions_any(access, &over.var)
        });
        let tiles: i64 = kinds
            .iter()
            .map(|kind| int_of(&kind.tiles).unwrap_or(8))
            .sum();
        let most = over.len().unwrap_or(i64::MAX);
        let rounds = (self.tiles_of_block() / tiles.max(1)).min(most);
        (serves_all && rounds > 1).then_some(rounds)
    }

    /// The innermost outer loop in blocks of so many rounds, the rounds of a block around the body.
    fn in_blocks(
        &self,
        names: &mut NameSupply,
        rounds: i64,
        outer: &mut Vec<Loop>,
        body: Vec<Stmt>,
    ) -> Vec<Stmt> {
        let Some(at) = self.others().len().checked_sub(1) else {
            return body;
        };
        let over = outer[at].clone();
        let blocks = ceil_div(&over.extent, rounds);
        if int_of(&blocks) == Some(1) {
            outer.remove(at);
            return vec![serial(&over.var, over.extent, body)];
        }
        let block = names.fresh(&format!("{}_block", over.var));
        let lo = mul(Expr::name(&block), rounds);
        let hi = min(add(lo.clone(), Expr::int(rounds)), over.extent);
        outer[at] = Loop {
            var: block,
            extent: blocks,
            reduces: false,
        };
        vec![serial_from(&over.var, lo, hi, body)]
    }

    /// Panels inside tiles. Tiles of one kind may be shared out; those of several kinds follow one another.
    fn panel_inner(&self, names: &mut NameSupply, kinds: &[&Rows], columns: &Columns) -> Vec<Stmt> {
        let panel = names.fresh("no");
        let panels = int_of(&columns.tiles);
        let mut outer = self.others();
        let (mut body, mut work) = (Vec::new(), 0);
        for kind in kinds {
            let tile = names.fresh("mo");
            let (mut code, mut each) = self.tile_at(names, kind, &tile, columns, (&panel, None));
            let next = add(self.base_of(kind, &tile), Expr::int(kind.rows));
            code.splice(0..0, self.ahead(names, kind, &next, (&panel, columns)));
            // A tile of much work is a task.
            let is_task = kinds.len() == 1 && each >= self.scope.target.grain();
            if panels != Some(1) && !is_task {
                each *= panels.unwrap_or(8);
                code = vec![serial(&panel, columns.tiles.clone(), code)];
            }
            if kind.is_one() {
                body.extend(code);
            } else if kinds.len() > 1 {
                body.push(serial(&tile, kind.tiles.clone(), code));
                each = each.saturating_mul(int_of(&kind.tiles).unwrap_or(8));
            } else {
                body.extend(code);
                outer.push(Loop {
                    var: tile,
                    extent: kind.tiles.clone(),
                    reduces: false,
                });
            }
            if panels != Some(1) && is_task {
                outer.push(Loop {
                    var: panel.clone(),
                    extent: columns.tiles.clone(),
                    reduces: false,
                });
            }
            work += each;
        }
        self.shared_out(names, &outer, work, Vec::new(), body)
    }

    fn shared_out(
        &self,
        names: &mut NameSupply,
        outer: &[Loop],
        work: i64,
        declared: Vec<Stmt>,
        body: Vec<Stmt>,
    ) -> Vec<Stmt> {
        distribute(
            names,
            &self.nest.name,
            outer,
            work,
            self.scope.sharing,
            declared,
            body,
        )
    }

    /// The first panel of a tile.
    fn first_panel(&self, panel: &Name, columns: &Columns) -> Expr {
        match int_of(&columns.tiles) {
            Some(1) => columns.first.clone(),
            _ => add(
                mul(Expr::name(panel), columns.beside),
                columns.first.clone(),
            ),
        }
    }

    /// The first row of a tile.
    fn base_of(&self, kind: &Rows, tile: &Name) -> Expr {
        match kind.is_one() {
            true => kind.start.clone(),
            false => add(mul(Expr::name(tile), kind.rows), kind.start.clone()),
        }
    }

    /// One tile at `tile` and `panel`, and its work.
    fn tile_at(
        &self,
        names: &mut NameSupply,
        kind: &Rows,
        tile: &Name,
        columns: &Columns,
        (panel, scratch): (&Name, Option<&Name>),
    ) -> (Vec<Stmt>, i64) {
        let base = self.base_of(kind, tile);
        let first = self.first_panel(panel, columns);
        let work = kind.rows * columns.beside * self.lanes * work_of(&self.reduced);
        (
            self.tile_body(names, (kind.rows, base), first, columns, scratch),
            work,
        )
    }
}

/// Tiles of at most `most` rows that differ by one row at most.
fn even_rows(len: i64, most: i64) -> Vec<Rows> {
    let tiles = ((len + most - 1) / most).max(1);
    let rows = (len + tiles - 1) / tiles;
    let short = tiles * rows - len;
    let kind =
        |start: i64, rows: i64, tiles: i64| Rows::tiles(Expr::int(start), rows, Expr::int(tiles));
    let mut res = vec![kind(0, rows, tiles - short)];
    if short > 0 {
        res.push(kind((tiles - short) * rows, rows - 1, short));
    }
    res.retain(|kind| kind.rows > 0);
    res
}

/// The number of rows from which on [`even_open_rows`] makes tiles of 6, 5 and 4 rows of all.
const EVEN_FROM: i64 = 8;

/// Rows of an unknown number in tiles of at most `most` rows, where they are no [`few_rows`].
fn open_rows(extent: &Expr, most: i64) -> Vec<Rows> {
    match most {
        6 => even_open_rows(extent),
        _ => halved_rows(extent, most),
    }
}

/// How many rows are too few for tiles of an unknown number of rows.
fn least_rows(most: i64) -> i64 {
    match most {
        6 => EVEN_FROM,
        _ => most,
    }
}

/// Tiles of 6 rows, at most one of 5 and two of 4: a tile of 1 or 2 rows takes as long as one of 4, since it waits for
/// its sums. An odd number of rows takes the tile of 5, and 4 is 1 more than a multiple of 3.
fn even_open_rows(extent: &Expr) -> Vec<Rows> {
    let rest = |value: Expr, by: i64| Expr::binary(BinaryOp::Mod, value, Expr::int(by));
    let is_many = min(Expr::int(1), floor_div(extent, EVEN_FROM));
    let fives = rest(extent.clone(), 2);
    let fours = rest(add(extent.clone(), fives.clone()), 3);
    let sub = |a: Expr, b: Expr| Expr::binary(BinaryOp::Sub, a, b);
    let in_sixes = sub(
        sub(extent.clone(), mul(fives.clone(), 5)),
        mul(fours.clone(), 4),
    );
    let kind = |start: Expr, rows: i64, tiles: Expr| {
        let tiles = Expr::binary(BinaryOp::Mul, tiles, is_many.clone());
        Rows::tiles(start, rows, tiles)
    };
    let fours_start = sub(extent.clone(), mul(fours.clone(), 4));
    let mut sixes = kind(Expr::int(0), 6, floor_div(&in_sixes, 6));
    // A bound without rests of divisions tells how many there are, about.
    sixes.tiles = min(floor_div(extent, 6), sixes.tiles);
    vec![sixes, kind(in_sixes, 5, fives), kind(fours_start, 4, fours)]
}

/// Tiles of `most` rows and, unless those are all that there is, what is left in tiles of 8, 4, 2 and 1 rows.
fn halved_rows(extent: &Expr, most: i64) -> Vec<Rows> {
    let whole = floor_div(extent, most);
    let rest = Expr::binary(BinaryOp::Mod, extent.clone(), Expr::int(most));
    let is_many = Expr::call("T.min", [Expr::int(1), whole.clone()]);
    let rest = Expr::binary(BinaryOp::Mul, rest, is_many);
    let mut start = mul(whole.clone(), most);
    let mut res = vec![Rows::tiles(Expr::int(0), most, whole)];
    let (mut left, mut bound) = (rest, most - 1);
    for rows in [8, 4, 2, 1] {
        if bound < rows {
            continue;
        }
        let tiles = floor_div(&left, rows);
        res.push(Rows::tiles(start.clone(), rows, tiles.clone()));
        start = add(start, mul(tiles, rows));
        left = Expr::binary(BinaryOp::Mod, left, Expr::int(rows));
        bound = rows - 1;
    }
    res
}

/// How many rows there are where they are fewer than `most`, and 0 otherwise.
fn few_rows(count: &Expr, most: i64) -> Expr {
    let divisor = add(count.clone(), Expr::int(1));
    let quotient = Expr::binary(BinaryOp::FloorDiv, Expr::int(most), divisor);
    let is_few = Expr::call("T.min", [Expr::int(1), quotient]);
    Expr::binary(BinaryOp::Mul, count.clone(), is_few)
}
