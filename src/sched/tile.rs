//! Reductions whose results lie side by side as register tiles: matrix products, convolutions, pooling.
//!
//!     for i, j, k in T.grid(60, 64, n):            for task in T.parallel(…):
//!         with T.sblock("y"):                          with T.sblock("y"):                      (a kernel region)
//!             with T.init():                               for mo in range(…): for no in range(4):
//!                 y[i, j] = 0                                  acc = T.alloc_local((6, 16), "float32")
//!             y[i, j] = y[i, j] + a[i, k] * b[k, j]   →        for k in range(n):
//!     for i, j in T.grid(60, 64):                                  for mi in T.unroll(6): for vi in T.vectorized(16):
//!         with T.sblock("z"):                                          acc[mi, vi] = acc[mi, vi] + a[…] * b[…]
//!             z[i, j] = T.max(y[i, j], 0)                      for mi … vi …: z[…] = T.max(acc[mi, vi], 0)
//!
//! The last result axis is the vector's. Rows are an axis that some operand of the vectors does not depend on, so that
//! its loads serve all rows of a tile. An element-wise nest over the result runs in the tile (the epilogue). A weight
//! that depends on nothing but the vector axis and the reduction is packed: `b[k, j]` becomes `bp[j // 16, k, j % 16]`.

mod ahead;
mod rows;

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::names::NameSupply;
use irc_syntax::same::is_identical_expr;
use irc_syntax::uses::{for_each_subexpr, mentions};
use irc_syntax::visit::walk_expr_mut;
use irc_syntax::{BinaryOp, DType, Expr, ExprKind, Name, Stmt, StmtKind, VisitMut};

use self::rows::Rows;
use super::Target;
use super::build::{add, floor_div, guarded, less, mul, serial, serial_from, unrolled, vectorized};
use super::inside::{Window, split_rows, windows_of};
use super::nest::{
    Access, Buffers, Loop, Nest, Step, accesses, int_of, replace, replaced, step_of,
};
use super::packing::{Packing, packing_of};
use super::pairs::{Pairs, Panel, pairs_of};
use super::parallelize::{Sharing, work_of};
use super::vectorize::{
    Update, alloc_local, cover, is_contiguous, is_kernel_code, unroll_rows, update_of,
};

/// What surrounds the nest.
pub struct Scope<'a> {
    /// The vector unit.
    pub target: Target,
    /// Buffers in scope.
    pub buffers: &'a Buffers,
    /// Parameters that are weights wherever the function is called.
    pub weights: &'a BTreeSet<Name>,
    /// Buffers of which copies in panels exist, with the copies.
    pub panels: &'a BTreeMap<Name, Name>,
    /// Whether the reduction's result is read by anything but the epilogue.
    pub result_is_read: bool,
    /// Whether the outer loops become tasks.
    pub sharing: Sharing,
}

/// A tile's plan.
struct Tile<'a> {
    scope: &'a Scope<'a>,
    nest: &'a Nest,
    update: Update,
    dtype: DType,
    /// Element-wise code over the result, in the nest's variables.
    epilogue: Option<Vec<Stmt>>,
    spatial: Vec<Loop>,
    reduced: Vec<Loop>,
    /// Position of the row axis among the spatial ones.
    row: Option<usize>,
    lanes: i64,
    panels: Expr,
    masked: bool,
    packed: Vec<(Access, Packing)>,
    /// Products of narrow integers, which are added two by two.
    pairs: Option<Pairs>,
    /// Bounds of the reduction's loops.
    windows: Vec<Window>,
}

/// Panels of one kind of tile.
struct Columns {
    /// The first of them.
    first: Expr,
    /// How many tiles.
    tiles: Expr,
    /// Panels of a tile.
    beside: i64,
    /// Whether the last tile hangs over.
    masked: bool,
}

/// Tiles a reduction and runs an element-wise nest over its result in the tile. `None` when it is not of that kind.
pub fn tile(
    names: &mut NameSupply,
    nest: &Nest,
    epilogue: Option<&Nest>,
    scope: &Scope,
) -> Option<(Vec<Stmt>, Vec<Packing>)> {
    let bare = windows_of(nest);
    let planned = bare.as_ref().and_then(|(bare, windows)| {
        let tile = plan(bare, epilogue, scope).filter(|tile| tile.row.is_some())?;
        Some(Tile {
            windows: windows.clone(),
            ..tile
        })
    });
    let mut tile = match planned {
        Some(tile) => tile,
        None => plan(nest, epilogue, scope)?,
    };
    let packings = tile
        .packed
        .iter()
        .map(|(_, packing)| packing.clone())
        .collect();
    let Some(row) = tile.row else {
        return Some((
            tile.nest(names, &[Rows::tiles(Expr::int(0), 1, Expr::int(1))]),
            packings,
        ));
    };
    let row = tile.spatial[row].clone();
    let Some(split) = split_rows(&row, &tile.windows) else {
        return Some((tile.spread(names, &Expr::int(0), &row.extent), packings));
    };
    let mut res = Vec::new();
    for (first, count) in split.edges {
        res.extend(tile.nest(names, &[Rows::tiles(first, 1, count)]));
    }
    tile.windows
        .retain(|window| window.axis.as_ref() != Some(&row.var));
    let (first, count) = split.inside;
    res.extend(tile.spread(names, &first, &count));
    Some((res, packings))
}

fn plan<'a>(nest: &'a Nest, epilogue: Option<&Nest>, scope: &'a Scope) -> Option<Tile<'a>> {
    let update = update_of(nest)?;
    let dtype = scope.buffers.get(&update.buffer)?.0;
    let n_spatial = nest.loops.iter().take_while(|each| !each.reduces).count();
    let (spatial, reduced) = nest.loops.split_at(n_spatial);
    let last = spatial.last()?;
    let reads: Vec<Access> = accesses(&nest.body);
    let fits = !reduced.is_empty()
        && reduced.iter().all(|each| each.reduces)
        && matches!(dtype, DType::F32 | DType::I32)
        && is_kernel_code(&nest.body, scope.buffers);
    if !fits {
        return None;
    }
    let mut packed = Vec::new();
    let wide = scope.target.choice.vectors.unwrap_or(2) * scope.target.lanes;
    let lanes = cover(&last.extent, wide).lanes;
    for access in &reads {
        let is_place = access.buffer == update.buffer;
        if is_place {
            let place = Expr::index(Expr::name(&access.buffer), access.index.clone());
            if !is_identical_expr(&place, &update.place)
                || step_of(access, &last.var, scope.buffers) != Step::One
            {
                return None;
            }
            continue;
        }
        if let Some(packing) = packing_of(access, &reads, last, reduced, lanes, scope) {
            packed.push((access.clone(), packing));
        } else if step_of(access, &last.var, scope.buffers) == Step::Other {
            return None;
        }
    }
    let pairs = match dtype {
        DType::I32 => pairs_of(&update, reduced, last, &mut packed, scope.buffers),
        _ => None,
    };
    let row = (0..n_spatial - 1).rev().find(|&at| {
        reads.iter().any(|access| {
            access.buffer != update.buffer
                && mentions_any(access, &last.var)
                && !mentions_any(access, &spatial[at].var)
        })
    });
    let lanes = if row.is_none() && packed.is_empty() {
        cover(&last.extent, 2 * wide).lanes
    } else {
        lanes
    };
    let cover = cover(&last.extent, lanes);
    let epilogue = match epilogue {
        Some(nest) => Some(epilogue_of(nest, spatial, &update, scope.buffers)?),
        None => None,
    };
    Some(Tile {
        scope,
        nest,
        update,
        dtype,
        epilogue,
        spatial: spatial.to_vec(),
        reduced: reduced.to_vec(),
        row,
        lanes,
        panels: cover.steps,
        masked: cover.masked,
        packed,
        pairs,
        windows: Vec::new(),
    })
}

/// Whether the place of an access moves with a variable.
pub fn mentions_any(access: &Access, var: &Name) -> bool {
    access
        .index
        .iter()
        .any(|expr| mentions(expr, |name| name == var))
}

/// The body of an element-wise nest in the reduction's variables.
pub(super) fn epilogue_of(
    nest: &Nest,
    spatial: &[Loop],
    update: &Update,
    buffers: &Buffers,
) -> Option<Vec<Stmt>> {
    let same_loops = nest.init.is_empty()
        && nest.loops.len() == spatial.len()
        && nest
            .loops
            .iter()
            .zip(spatial)
            .all(|(a, b)| is_identical_expr(&a.extent, &b.extent));
    if !same_loops || !is_kernel_code(&nest.body, buffers) {
        return None;
    }
    let map = nest
        .loops
        .iter()
        .zip(spatial)
        .map(|(a, b)| (a.var.clone(), Expr::name(&b.var)));
    let body = replaced(&nest.body, &map.collect());
    let last = &spatial.last()?.var;
    let reads_place = accesses(&body)
        .iter()
        .filter(|access| access.buffer == update.buffer)
        .all(|access| {
            let place = Expr::index(Expr::name(&access.buffer), access.index.clone());
            !access.stores && is_identical_expr(&place, &update.place)
        });
    (reads_place && is_contiguous(&body, last, buffers)).then_some(body)
}

impl Tile<'_> {
    /// Vector registers of a panel's row.
    fn vectors(&self) -> i64 {
        let target = self.scope.target;
        (self.lanes + target.lanes - 1) / target.lanes
    }

    /// Registers that the operands leave: the vectors of one, one of the other, and a product where it is no part of the
    /// addition.
    fn registers_for_sums(&self) -> i64 {
        let products = i64::from(self.dtype == DType::I32);
        self.scope.target.registers - 1 - self.vectors() - products
    }

    /// How many rows the registers hold: the sums, the vectors of one operand, and one of the other.
    fn most_rows(&self) -> i64 {
        let vectors = self.vectors();
        let formula = (self.registers_for_sums() / vectors).clamp(1, 14);
        self.scope.target.choice.rows.unwrap_or(formula)
    }

    /// Whether each panel goes over all rows before the next, because all panels together are too large for the cache.
    fn is_panel_outer(&self) -> bool {
        let depth = work_of(&self.reduced);
        let columns = self
            .spatial
            .last()
            .map_or(1, |last| last.len().unwrap_or(64));
        let formula = depth.saturating_mul(columns) > 64 * 1024;
        let chosen = self.scope.target.choice.panel_outer.map(|outer| outer != 0);
        self.row.is_some() && chosen.unwrap_or(formula)
    }

    /// How many tiles go over one panel before the next: few where all panels stay in the cache near the core, so that the
    /// results of a row are written close to each other; many where each round reads the panels from farther away.
    fn tiles_of_block(&self) -> i64 {
        let depth = work_of(&self.reduced);
        let columns = self.spatial.last().and_then(Loop::len).unwrap_or(64);
        let formula = match depth.saturating_mul(columns) <= 256 * 1024 {
            true => 8,
            false => 64,
        };
        self.scope.target.choice.block.unwrap_or(formula)
    }

    /// How many panels stand beside each other in a tile of so many rows: enough sums to hide how long an addition
    /// takes, as far as registers hold them.
    fn panels_beside(&self, rows: i64) -> i64 {
        let formula = (self.registers_for_sums() / (rows * self.vectors())).clamp(1, 6);
        self.scope.target.choice.panels.unwrap_or(formula)
    }

    /// The panels of tiles of `rows` rows, in parts of equal tiles.
    fn parts(&self, rows: i64) -> Vec<Columns> {
        let most = self.panels_beside(rows);
        let part = |first: Expr, tiles: Expr, beside: i64, masked: bool| Columns {
            first,
            tiles,
            beside,
            masked: masked && self.masked,
        };
        let panels = &self.panels;
        if most == 1 && self.masked && self.has_open_loads() {
            // Masks would take registers from the sums of all panels.
            let whole = floor_div(&self.columns(), self.lanes);
            let rest = match int_of(&self.columns()) {
                Some(_) => Expr::int(1),
                None => Expr::binary(BinaryOp::Sub, panels.clone(), whole.clone()),
            };
            return vec![
                part(Expr::int(0), whole.clone(), 1, false),
                part(whole, rest, 1, true),
            ];
        }
        if most == 1 {
            return vec![part(Expr::int(0), panels.clone(), 1, true)];
        }
        let (beside, whole, rest) = match int_of(panels) {
            Some(len) => {
                let tiles = (len + most - 1) / most;
                let beside = ((len + tiles - 1) / tiles.max(1)).max(1);
                let rest = (len % beside > 0).then(|| (Expr::int(1), len % beside));
                (beside, Expr::int(len / beside), rest)
            }
            None => {
                // Where the last panel hangs over, it is no part of a tile without masks.
                let whole = floor_div(&self.columns(), most * self.lanes);
                let rest = Expr::binary(BinaryOp::Sub, panels.clone(), mul(whole.clone(), most));
                (most, whole, Some((rest, 1)))
            }
        };
        let first = mul(whole.clone(), beside);
        let mut res = vec![part(Expr::int(0), whole, beside, rest.is_none())];
        if let Some((tiles, beside)) = rest {
            res.push(part(first, tiles, beside, true));
        }
        res
    }

    /// Whether panels of what is no weight are packed before the rows go over them.
    fn packs_panels(&self) -> bool {
        let row = self.row.and_then(|row| self.spatial.get(row));
        let pairs = self.pairs.as_ref().zip(row);
        pairs.is_some_and(|(pairs, row)| pairs.is_computed(&row.var))
    }

    /// A buffer for one panel, and the code that packs the panel `at`.
    fn packed_panel(
        &self,
        names: &mut NameSupply,
        buffer: &Name,
        at: &Expr,
        columns: &Columns,
    ) -> (Stmt, Vec<Stmt>) {
        let lane = names.fresh("vi");
        let column = add(mul(at.clone(), self.lanes), Expr::name(&lane));
        let cond = columns.masked.then(|| less(column.clone(), self.columns()));
        match (&self.pairs, self.spatial.last()) {
            (Some(pairs), Some(last)) => {
                let (lanes, to) = ((&lane, self.lanes), (&last.var, &column));
                let fill = pairs.fill(buffer, lanes, to, cond);
                (pairs.declare(buffer, self.lanes), fill)
            }
            _ => (Stmt::new(StmtKind::Pass), Vec::new()),
        }
    }

    /// One tile: sums to their start, the reduction, the results. `first` is its first panel.
    fn tile_body(
        &self,
        names: &mut NameSupply,
        (rows, base): (i64, Expr),
        first: Expr,
        columns: &Columns,
        scratch: Option<&Name>,
    ) -> Vec<Stmt> {
        let acc = names.fresh("acc");
        let row_var = names.fresh("mi");
        let side_var = names.fresh("ni");
        let lane = names.fresh("vi");
        let beside = columns.beside;
        let panel = match beside {
            1 => first,
            _ => add(first, Expr::name(&side_var)),
        };
        let column = add(mul(panel.clone(), self.lanes), Expr::name(&lane));
        let mut map = BTreeMap::new();
        if let Some(last) = self.spatial.last() {
            map.insert(last.var.clone(), column.clone());
        }
        if let Some(row) = self.row {
            map.insert(
                self.spatial[row].var.clone(),
                add(base.clone(), Expr::name(&row_var)),
            );
        }
        let sum_at = match beside {
            1 => Expr::name(&lane),
            _ => add(mul(Expr::name(&side_var), self.lanes), Expr::name(&lane)),
        };
        let sum = Expr::index(Expr::name(&acc), [Expr::name(&row_var), sum_at]);
        let over_columns = |body: Vec<Stmt>, masked: bool| {
            let cond = masked.then(|| less(column.clone(), self.columns()));
            let inner = vectorized(&lane, self.lanes, guarded(cond, body));
            match beside {
                1 => inner,
                _ => unrolled(&side_var, beside, vec![inner]),
            }
        };
        let over_lanes = |body: Vec<Stmt>, masked: bool| {
            unroll_rows(&row_var, rows, vec![over_columns(body, masked)])
        };
        let mut body = vec![alloc_local(&acc, &[rows, beside * self.lanes], self.dtype)];
        body.extend(over_lanes(
            vec![Stmt::assign(sum.clone(), self.update.start.clone())],
            false,
        ));

        let masked = columns.masked && self.has_open_loads() && scratch.is_none();
        let add_up = |step: &[Stmt]| over_lanes(self.placed(step, &sum, &map), masked);
        let from = Panel {
            at: &panel,
            lane: &lane,
            buffer: scratch,
        };
        body.extend(self.reduction(&from, &base, &add_up));

        let costly = self
            .epilogue
            .as_ref()
            .and_then(|epilogue| self.costly_store(epilogue));
        let mut finish = Vec::new();
        if self.epilogue.is_none() || self.scope.result_is_read {
            let store = Stmt::assign(self.update.place.clone(), sum.clone());
            finish.extend(replaced(&[store], &map));
        }
        match (&self.epilogue, &costly) {
            (Some(_), Some(store)) => {
                let store = Stmt::assign(store.clone(), sum.clone());
                finish.extend(replaced(&[store], &map));
            }
            (Some(epilogue), None) => finish.extend(self.placed(epilogue, &sum, &map)),
            (None, _) => {}
        }
        body.extend(over_lanes(finish, columns.masked));
        if let (Some(epilogue), Some(store)) = (&self.epilogue, costly) {
            // Long functions beside the sums would push them out of registers: they run on what was just stored.
            let after = self.placed(epilogue, &store, &map);
            let cond = columns.masked.then(|| less(column.clone(), self.columns()));
            let mut inner = vectorized(&lane, self.lanes, guarded(cond, after));
            if beside > 1 {
                inner = serial(&side_var, Expr::int(beside), vec![inner]);
            }
            body.extend(match rows {
                1 => unroll_rows(&row_var, 1, vec![inner]),
                _ => vec![serial(&row_var, Expr::int(rows), vec![inner])],
            });
        }
        body
    }

    /// The loops of the reduction around what `add_up` makes of one step.
    fn reduction(
        &self,
        panel: &Panel,
        base: &Expr,
        add_up: &dyn Fn(&[Stmt]) -> Vec<Stmt>,
    ) -> Vec<Stmt> {
        let mut outer = self.reduced.iter().rev();
        let mut sums = match &self.pairs {
            Some(pairs) if pairs.is_weight() || panel.buffer.is_some() => {
                outer.next();
                let place = &self.update.place;
                pairs.sums(place, &self.packed, panel, |step| add_up(&[step]))
            }
            _ => {
                let mut step = self.update.lets.clone();
                step.push(Stmt::assign(
                    self.update.place.clone(),
                    self.update.value.clone(),
                ));
                self.read_packed(&mut step, panel.at, panel.lane);
                add_up(&step)
            }
        };
        for each in outer {
            let (lo, hi) = self
                .bounds(&each.var, base)
                .unwrap_or_else(|| (Expr::int(0), each.extent.clone()));
            sums = vec![match int_of(&lo) {
                Some(0) => serial(&each.var, hi, sums),
                _ => serial_from(&each.var, lo, hi, sums),
            }];
        }
        sums
    }

    /// The bounds of a loop of the reduction in a tile whose first row is `base`, where a window sets them.
    fn bounds(&self, tap: &Name, base: &Expr) -> Option<(Expr, Expr)> {
        let window = self.windows.iter().find(|window| window.tap == *tap)?;
        let row = self.row.map(|row| &self.spatial[row].var);
        match &window.axis {
            Some(axis) if Some(axis) == row => window.bounds(base),
            Some(axis) => window.bounds(&Expr::name(axis)),
            None => window.bounds(&Expr::int(0)),
        }
    }

    fn columns(&self) -> Expr {
        self.spatial
            .last()
            .map_or_else(|| Expr::int(1), |last| last.extent.clone())
    }

    /// The one place that an epilogue with long functions stores to, where sums can be kept there in between.
    fn costly_store(&self, epilogue: &[Stmt]) -> Option<Expr> {
        let costly = epilogue.iter().any(|stmt| match &stmt.kind {
            StmtKind::Assign { value, .. } => has_long_call(value),
            _ => false,
        });
        let stores: Vec<&Expr> = epilogue
            .iter()
            .filter_map(|stmt| match &stmt.kind {
                StmtKind::Assign { target, .. } => {
                    matches!(target.kind, ExprKind::Index { .. }).then_some(target)
                }
                _ => None,
            })
            .collect();
        let [store] = stores.as_slice() else {
            return None;
        };
        let ExprKind::Index { value, .. } = &store.kind else {
            return None;
        };
        let buffer = value.as_name()?;
        let same = self.scope.buffers.get(buffer)?.0 == self.dtype;
        let is_read = accesses(epilogue)
            .iter()
            .any(|access| !access.stores && access.buffer == *buffer);
        (costly && same && !is_read).then(|| (*store).clone())
    }

    /// Whether the reduction reads beside the packed weights at a lane's own place.
    fn has_open_loads(&self) -> bool {
        let Some(last) = self.spatial.last() else {
            return false;
        };
        accesses(&self.nest.body).iter().any(|access| {
            access.buffer != self.update.buffer
                && mentions_any(access, &last.var)
                && !self
                    .packed
                    .iter()
                    .any(|(packed, _)| packed.buffer == access.buffer)
        })
    }

    /// Statements with the place that is reduced into replaced by its sum, and variables by the tile's.
    fn placed(&self, stmts: &[Stmt], sum: &Expr, map: &BTreeMap<Name, Expr>) -> Vec<Stmt> {
        let mut res = stmts.to_vec();
        let mut change = ReplaceExpr {
            from: &self.update.place,
            to: sum,
        };
        for stmt in &mut res {
            change.visit_stmt(stmt);
            replace(stmt, map);
        }
        res
    }

    /// Reads packed weights by panel and lane.
    fn read_packed(&self, stmts: &mut [Stmt], panel: &Expr, lane: &Name) {
        for (access, packing) in &self.packed {
            let from = Expr::index(Expr::name(&access.buffer), access.index.clone());
            let copy = self.scope.panels.get(&access.buffer);
            let is_head = |at: &usize| {
                let index = &access.index[*at];
                copy.is_some() && !packing.axes.contains(at) && int_of(index).is_none()
            };
            let heads = (0..access.index.len()).filter(is_head);
            let mut index: Vec<Expr> = heads.map(|at| access.index[at].clone()).collect();
            index.push(panel.clone());
            index.extend(
                packing.axes[1..]
                    .iter()
                    .map(|&axis| access.index[axis].clone()),
            );
            index.push(Expr::name(lane));
            let to = Expr::index(Expr::name(copy.unwrap_or(&access.buffer)), index);
            let mut change = ReplaceExpr {
                from: &from,
                to: &to,
            };
            stmts.iter_mut().for_each(|stmt| change.visit_stmt(stmt));
        }
    }
}

/// Whether a value calls a function of many instructions.
pub(super) fn has_long_call(expr: &Expr) -> bool {
    const LONG: [&str; 9] = [
        "T.exp",
        "T.log",
        "T.erf",
        "T.tanh",
        "T.sigmoid",
        "T.sin",
        "T.cos",
        "T.pow",
        "T.power",
    ];
    let mut long = false;
    for_each_subexpr(expr, &mut |part| {
        long |= LONG.iter().any(|path| part.is_call_of(path));
    });
    long
}

/// Replaces an element by another.
pub(super) struct ReplaceExpr<'a> {
    pub from: &'a Expr,
    pub to: &'a Expr,
}

impl VisitMut for ReplaceExpr<'_> {
    fn visit_expr(&mut self, expr: &mut Expr) {
        let is_index = matches!(expr.kind, ExprKind::Index { .. });
        if is_index && is_identical_expr(expr, self.from) {
            *expr = self.to.clone();
        } else {
            walk_expr_mut(self, expr);
        }
    }

    fn visit_stmt(&mut self, stmt: &mut Stmt) {
        match &mut stmt.kind {
            StmtKind::Assign { target, value, .. } => {
                self.visit_expr(target);
                self.visit_expr(value);
            }
            _ => irc_syntax::visit::walk_stmt_mut(self, stmt),
        }
    }
}
