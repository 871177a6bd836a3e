//! 3×3 convolutions by Winograd's method: a tile of the result costs fewer products than its sums are long.
//!
//!     for n, y, x, k, ky, kx, c in T.grid(…):       for task in T.parallel(…):                 (a band of tiles)
//!         with T.sblock("r"):                           with T.sblock("r"):                    (a kernel region)
//!             r[n, y, x, k] = (                             for ti in range(24):
//!                 r[n, y, x, k]                                 v[ti, t, c] = …                (Bᵀ d B of a tile, t < 36)
//!                 + x[n, y + ky, x + kx, c]      →          for t in range(36):
//!                 * w[ky, kx, c, k]                             v[ti, t, C + k] = Σ v[ti, t, c] * w[k // 16, t, c, k % 16]
//!             )                                             for ti in range(24):
//!     for n, y, x, k in T.grid(…):                              z[…] = T.max(…, 0)             (Aᵀ v A, then the epilogue)
//!         with T.sblock("z"):
//!             z[n, y, x, k] = T.max(r[n, y, x, k], 0)
//!
//! `F(m×m, 3×3)` makes `m × m` results of one channel from `(m + 2)²` products where the sum has `9 m²`: 2.25 times fewer for
//! `m = 2`, 4 times fewer for `m = 4`. The kernels are constants, so `G g Gᵀ` is a weight made when the program is built, 16/9
//! or 4 times as large as they were. A task holds the transformed data of its tiles and their products side by side in `v`, as much as
//! the second cache takes; tiles that reach into the padding are copied there with zeros first. `choose` weighs operations and bytes from the extents.
//!
//! The method rounds differently. With `e = 2⁻²⁴` and `s` the largest sum of |data|·|kernel| of a tile's results, an error is at
//! most `8 e s` for `m = 2` and `32 e s` for `m = 4`, for up to 64 channels of data; a test holds the code to it. Found are up to
//! `5 e s` and `13 e s`, where the direct sum has `4 e s` for numbers of both signs, and more than the method for numbers of one.
//! `irc build --exact` leaves convolutions as they are. Sources: Lavin and Gray, Fast Algorithms for Convolutional Neural
//! Networks, CVPR 2016; for the points, Barabasz and others, Error Analysis and Improving the Accuracy of Winograd Convolution
//! for Deep Neural Networks, ACM TOMS 46 (4), 2020.

mod choose;
mod form;
#[cfg(test)]
mod tests;
pub(super) mod transform;

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::names::NameSupply;
use irc_syntax::uses::mentions;
use irc_syntax::visit::{walk_body_mut, walk_expr_mut};
use irc_syntax::{
    BinaryOp, Expr, ExprKind, Name, SourceMap, Stmt, StmtKind, VisitMut, parse, parse_expr_str,
};

use super::Target;
use super::build::{add, ceil_div, less, min, parallel, product, region};
use super::nest::{Buffers, Loop, Nest, int_of, replace, replaced};
use super::{packing::Packing, tile::ReplaceExpr};
use choose::{Plan, choose, plan};
use form::{Convolution, Data, convolution};

/// What the schedule of a convolution is.
pub struct Winograd {
    /// The code.
    pub stmts: Vec<Stmt>,
    /// How the kernels are passed.
    pub packing: Packing,
    /// Nests taken.
    pub taken: usize,
}

/// Schedules the convolution at the first nests. `None` when there is none, and where the direct sum is as good or chosen.
/// `scope` is the buffers and the parameters that are weights; `used_after(n)` what anything but the first `n` nests uses.
pub fn winograd(
    names: &mut NameSupply,
    nests: &[&Nest],
    target: Target,
    scope: (&Buffers, &BTreeSet<Name>),
    used_after: &dyn Fn(usize) -> BTreeSet<Name>,
) -> Option<Winograd> {
    let conv = convolution(nests, scope.0, scope.1, used_after)?;
    let plan = match target.choice.winograd {
        None => choose(&conv, target)?,
        Some(0) => return None,
        Some(m) => plan(&conv, m, target),
    };
    made(names, &conv, &plan)
}

fn made(names: &mut NameSupply, conv: &Convolution, plan: &Plan) -> Option<Winograd> {
    let packing = Packing {
        param: conv.weight.clone(),
        axes: conv.axes.clone(),
        lanes: plan.panel,
        pairs: false,
        winograd: Some(plan.m as usize),
    };
    let stmts = Emit::new(names, conv, plan).code(names)?;
    Some(Winograd {
        stmts,
        packing,
        taken: conv.taken,
    })
}

/// Names that the code binds, beside those of the transforms.
const LOCALS: [&str; 22] = [
    "across", "acc", "ai", "band", "co", "count", "d0", "d1", "d2", "d3", "d4", "d5", "down",
    "first", "group", "i", "j", "mi", "mo", "no", "r", "s",
];
/// The same.
const MORE_LOCALS: [&str; 7] = ["size", "t", "ti", "tiles", "v", "vi", "kc"];

/// The text of a schedule, and what stands for the names in it.
struct Emit<'a> {
    conv: &'a Convolution,
    plan: &'a Plan,
    map: BTreeMap<Name, Expr>,
    /// What is bound before the region.
    heads: Vec<Stmt>,
    /// The tasks of the parallel loop.
    levels: Vec<(Name, Expr)>,
    /// Whether there are as many tiles as a register tile takes, whatever the sizes.
    is_enough: bool,
    /// Whether there is one task of tiles.
    is_whole: bool,
}

impl<'a> Emit<'a> {
    fn new(names: &mut NameSupply, conv: &'a Convolution, plan: &'a Plan) -> Self {
        let locals = LOCALS
            .iter()
            .chain(&MORE_LOCALS)
            .chain(&transform::NAMES)
            .map(|name| (Name::from(*name), Expr::name(names.fresh(name))))
            .collect();
        let mut emit = Self {
            conv,
            plan,
            map: locals,
            heads: Vec::new(),
            levels: Vec::new(),
            is_enough: int_of(&product(plan.down.clone(), plan.across.clone()))
                .or(int_of(&plan.tiles))
                .is_some_and(|tiles| tiles >= plan.rows || conv.image.is_none()),
            is_whole: int_of(&plan.tiles).is_some_and(|tiles| tiles <= plan.band),
        };
        emit.map.insert("WEIGHT".into(), Expr::name(&conv.weight));
        let bands = ceil_div(&plan.tiles, plan.band);
        for (name, extent) in [("band", bands), ("group", Expr::int(plan.groups))] {
            let fresh = emit.map.get(name).and_then(Expr::as_name).cloned();
            match int_of(&extent) {
                Some(1) => emit.set(name, Expr::int(0)),
                _ => emit
                    .levels
                    .extend(fresh.map(|fresh| (fresh, extent.clone()))),
            }
        }
        for (name, value) in [
            ("across", &plan.across),
            ("down", &plan.down),
            ("tiles", &plan.tiles),
        ] {
            emit.bind(name, value.clone());
        }
        if int_of(&plan.tiles).is_none() {
            // Tiles are spread evenly over the tasks.
            let bands = format!("(tiles + {}) // {}", plan.band - 1, plan.band);
            let size = emit.expr(&format!("(tiles + {bands} - 1) // ({bands})"));
            emit.bind("size", size);
        }
        let (first, count) = emit.range();
        emit.bind("first", first);
        emit.bind("count", count);
        emit
    }

    fn set(&mut self, name: &str, value: Expr) {
        self.map.insert(Name::from(name), value);
    }

    /// Binds a local before the region; a number takes its place.
    fn bind(&mut self, name: &str, value: Expr) {
        match int_of(&value) {
            Some(_) => self.set(name, value),
            None => {
                if let Some(local) = self.map.get(name).and_then(Expr::as_name) {
                    self.heads.push(Stmt::bind(local.clone(), value));
                }
            }
        }
    }

    /// The first tile of a task and how many there are. All tasks have as many as a register tile, so the last one may
    /// begin among the tiles of the one before; where there are fewer in all, the last tile is computed again.
    fn range(&self) -> (Expr, Expr) {
        let Plan { rows, band, .. } = *self.plan;
        let Some(tiles) = int_of(&self.plan.tiles) else {
            let first = format!("T.min(band * size, tiles - {rows})");
            let count = "T.min(size, tiles - first)";
            return match self.is_enough {
                true => (self.expr(&first), self.expr(count)),
                false => (
                    self.expr(&format!("T.max({first}, 0)")),
                    self.expr(&format!("T.max({count}, {rows})")),
                ),
            };
        };
        if self.is_whole {
            return (Expr::int(0), Expr::int(tiles));
        }
        let start = self.expr(&format!("band * {band}"));
        let first = match self.last_is_short() {
            true => min(start, Expr::int(tiles - rows)),
            false => start,
        };
        let count = match tiles % band {
            0 => Expr::int(band),
            _ => self.expr(&format!("T.min({band}, {tiles} - first)")),
        };
        (first, count)
    }

    /// Whether the last task has fewer tiles of its own than a register tile.
    fn last_is_short(&self) -> bool {
        let rest = int_of(&self.plan.tiles).map(|tiles| tiles % self.plan.band);
        !self.is_whole && rest.is_none_or(|rest| 0 < rest && rest < self.plan.rows)
    }

    /// An expression over the names of the text.
    fn expr(&self, text: &str) -> Expr {
        let parsed = parse_expr_str(text);
        debug_assert!(parsed.is_ok(), "{text}");
        with_names(parsed.unwrap_or_else(|_| Expr::none()), &self.map)
    }

    /// Image, row and column of a tile as text, the latter two counted in tiles.
    fn place(&self, is_data: bool) -> [String; 3] {
        let tile = match (self.is_whole, self.is_enough || !is_data) {
            (true, _) => "ti",
            (false, true) => "(first + ti)",
            (false, false) => "T.min(first + ti, tiles - 1)",
        };
        match self.conv.image {
            None => [
                "0".to_owned(),
                format!("{tile} // across"),
                format!("{tile} % across"),
            ],
            Some(_) => [
                format!("{tile} // across // down"),
                format!("{tile} // across % down"),
                format!("{tile} % across"),
            ],
        }
    }

    /// The data at a place given as text.
    fn data(&self, row: &str, column: &str) -> Expr {
        let Data {
            image,
            place,
            value,
            ..
        } = &self.conv.data;
        let [tile_image, ..] = self.place(true);
        let channel = self.expr(&format!("co * {} + vi", self.plan.lanes));
        let mut map = BTreeMap::from([
            (place[0].clone(), self.expr(row)),
            (place[1].clone(), self.expr(column)),
            (place[2].clone(), channel.clone()),
        ]);
        map.extend(image.clone().map(|image| (image, self.expr(&tile_image))));
        let mut value = with_names(value.clone(), &map);
        FoldOffsets.visit_expr(&mut value);
        if self.conv.depth % self.plan.lanes == 0 {
            return value;
        }
        let cond = less(channel, Expr::int(self.conv.depth));
        let zero = Expr::call("T.float32", [Expr::float(0.0)]);
        Expr::call("T.if_then_else", [cond, value, zero])
    }

    /// The condition that no data is padding, of a tile or (`taps` 1) of one place; `None` where that is known.
    fn inside(&mut self, row: &str, column: &str, taps: i64) -> Option<String> {
        let m = self.plan.m;
        let mut parts = Vec::new();
        let sides = [
            (row, &self.plan.down, "ROW"),
            (column, &self.plan.across, "COLUMN"),
        ];
        for (axis, (at, steps, label)) in sides.into_iter().enumerate() {
            if let Some(lower) = self.conv.data.lower[axis].clone() {
                self.map.insert(Name::from(format!("{label}_FIRST")), lower);
                parts.push(format!("{label}_FIRST <= {at}"));
            }
            let upper = self.conv.data.upper[axis].clone();
            let end = int_of(steps).map(|steps| steps * m + 2);
            let stays = end
                .zip(int_of(&upper))
                .is_some_and(|(end, upper)| end <= upper);
            if !stays {
                self.map.insert(Name::from(format!("{label}_END")), upper);
                let last = match taps {
                    1 => at.to_owned(),
                    _ => format!("{at} + {}", taps - 1),
                };
                parts.push(format!("{last} < {label}_END"));
            }
        }
        (!parts.is_empty()).then(|| parts.join(" and "))
    }

    /// The lines of `Bᵀ d B` over all channels, from data named `{from}0`, `{from}1`, … in a column.
    fn transform(&self, from: &dyn Fn(i64) -> String) -> Vec<String> {
        let Plan { m, lanes, .. } = *self.plan;
        let n = m + 2;
        let steps = (self.conv.depth + lanes - 1) / lanes;
        let mut down: Vec<String> = (0..n)
            .map(|i| format!("d{i}: T.let[T.float32] = {}", from(i)))
            .collect();
        down.extend(transform::of_data(m as usize, &|i| {
            format!("s[{i}, j, vi]")
        }));
        let mut along: Vec<String> = (0..n)
            .map(|j| format!("d{j}: T.let[T.float32] = s[i, {j}, vi]"))
            .collect();
        along.extend(transform::of_data(m as usize, &|j| {
            let place = offset(&format!("i * {n}"), j as i64);
            format!("v[ti, {place}, co * {lanes} + vi]")
        }));
        let mut body = block(
            &format!("for j in range({n}):"),
            block(&format!("for vi in T.vectorized({lanes}):"), down),
        );
        body.extend(block(
            &format!("for i in range({n}):"),
            block(&format!("for vi in T.vectorized({lanes}):"), along),
        ));
        block(&format!("for co in range({steps}):"), body)
    }

    /// The lines that fill `v`.
    fn data_lines(&mut self) -> Vec<String> {
        let Plan { m, lanes, .. } = *self.plan;
        let n = m + 2;
        let [_, row, column] = self.place(true);
        let (row, column) = (format!("{row} * {m}"), format!("{column} * {m}"));
        for i in 0..n {
            let value = self.data(&offset(&row, i), &format!("{column} + j"));
            self.set(&format!("DATA_{i}"), value);
        }
        let value = self.data(&format!("{row} + i"), &format!("{column} + j"));
        self.set("DATA", value);
        let whole = self.transform(&|i| format!("DATA_{i}"));
        let Some(inside) = self.inside(&row, &column, n) else {
            return block("for ti in range(count):", whole);
        };
        let here = self.inside(&format!("{row} + i"), &format!("{column} + j"), 1);
        let steps = (self.conv.depth + lanes - 1) / lanes;
        let fill = |value: &str| {
            let to = format!("v[ti, i * {n} + j, co * {lanes} + vi]");
            let store = vec![format!("{to} = {value}")];
            let lane = block(&format!("for vi in T.vectorized({lanes}):"), store);
            block(&format!("for co in range({steps}):"), lane)
        };
        let mut copy = block(&format!("if {}:", here.unwrap_or_default()), fill("DATA"));
        copy.extend(block("else:", fill("T.float32(0.0)")));
        let mut edge = block(
            &format!("for i in range({n}):"),
            block(&format!("for j in range({n}):"), copy),
        );
        // In place: the channels of a step are all read before they are written.
        edge.extend(self.transform(&|i| match i {
            0 => format!("v[ti, j, co * {lanes} + vi]"),
            _ => format!("v[ti, {} + j, co * {lanes} + vi]", i * n),
        }));
        let mut body = block(&format!("if {inside}:"), whole);
        body.extend(block("else:", edge));
        block("for ti in range(count):", body)
    }

    /// The lines of the products: a matrix product for each of the places of a tile.
    fn product_lines(&self) -> Vec<String> {
        let Plan {
            m,
            rows,
            panel,
            beside,
            panels,
            ..
        } = *self.plan;
        let places = (m + 2) * (m + 2);
        let known = self.map.get("count").and_then(int_of);
        let base = match known {
            Some(count) if count % rows == 0 => format!("mo * {rows}"),
            Some(count) => format!("T.min(mo * {rows}, {})", count - rows),
            None => format!("T.min(mo * {rows}, count - {rows})"),
        };
        let steps = match known {
            Some(count) => ((count + rows - 1) / rows).to_string(),
            None => format!("(count + {}) // {rows}", rows - 1),
        };
        let first = match (self.plan.groups, beside) {
            (1, 1) => "no".to_owned(),
            (1, _) => format!("no * {beside}"),
            (_, 1) => format!("group * {panels} + no"),
            _ => format!("group * {panels} + no * {beside}"),
        };
        let (column, weight, to) = match beside {
            1 => ("ai".to_owned(), first, format!("no * {panel} + ai")),
            _ => (
                format!("i * {panel} + ai"),
                format!("{first} + i"),
                format!("(no * {beside} + i) * {panel} + ai"),
            ),
        };
        let sum = format!("acc[mi, {column}]");
        let over = |line: String| {
            let lane = block(&format!("for ai in T.vectorized({panel}):"), vec![line]);
            let side = match beside {
                1 => lane,
                _ => block(&format!("for i in T.unroll({beside}):"), lane),
            };
            block(&format!("for mi in T.unroll({rows}):"), side)
        };
        let mut body = vec![format!(
            "acc = T.alloc_local(({rows}, {}), \"float32\")",
            beside * panel
        )];
        body.extend(over(format!("{sum} = T.float32(0.0)")));
        let add = format!("{sum} = {sum} + v[{base} + mi, t, kc] * WEIGHT[{weight}, t, kc, ai]");
        body.extend(block(
            &format!("for kc in range({}):", self.conv.depth),
            over(add),
        ));
        let to = format!("{} + {to}", self.depth());
        body.extend(over(format!("v[{base} + mi, t, {to}] = {sum}")));
        block(
            &format!("for t in range({places}):"),
            block(
                &format!("for no in range({}):", panels / beside),
                block(&format!("for mo in range({steps}):"), body),
            ),
        )
    }

    /// The lines of `Aᵀ v A` and what is done with a result.
    fn result_lines(&mut self) -> Vec<String> {
        let Plan {
            m,
            lanes,
            panel,
            panels,
            groups,
            band,
            ..
        } = *self.plan;
        let n = m + 2;
        let [_, row, column] = self.place(false);
        let (row, column) = (format!("{row} * {m} + i"), format!("{column} * {m} + j"));
        let (steps, masked) = match groups {
            1 => ((self.conv.width + lanes - 1) / lanes, lanes),
            _ => (panels * panel / lanes, panel),
        };
        let depth = self.depth();
        let mut down: Vec<String> = (0..n)
            .map(|i| {
                let at = match i {
                    0 => format!("j, {depth} + co * {lanes} + vi"),
                    _ => format!("{} + j, {depth} + co * {lanes} + vi", i * n),
                };
                format!("d{i}: T.let[T.float32] = v[ti, {at}]")
            })
            .collect();
        let inner = |i: usize| format!("s[{i}, j, vi]");
        down.extend(transform::of_result(m as usize, &inner));
        let mut along: Vec<String> = (0..n)
            .map(|j| format!("d{j}: T.let[T.float32] = s[i, {j}, vi]"))
            .collect();
        along.extend(transform::of_result(m as usize, &|j| format!("r[{j}, vi]")));
        let vector = format!("for vi in T.vectorized({lanes}):");
        let mut store = vec!["RESULT".to_owned()];
        if self.conv.width % masked != 0 {
            let cond = format!("if {} < {}:", self.channel(), self.conv.width);
            store = block(&cond, store);
        }
        store = block(&vector, store);
        if let Some(cond) = self.below(&self.conv.column, &column, "COLUMNS") {
            store = block(&cond, store);
        }
        let mut line = vec![format!("r = T.alloc_local(({m}, {lanes}), \"float32\")")];
        line.extend(block(&vector, along));
        line.extend(block(&format!("for j in T.unroll({m}):"), store));
        if let Some(cond) = self.below(&self.conv.row, &row, "ROWS") {
            line = block(&cond, line);
        }
        let mut body = block(&format!("for j in range({n}):"), block(&vector, down));
        body.extend(block(&format!("for i in range({m}):"), line));
        let body = block(&format!("for co in range({steps}):"), body);
        let start = match int_of(&self.plan.tiles) {
            Some(_) => format!("band * {band} - first"),
            None => "band * size - first".to_owned(),
        };
        let own = match (self.last_is_short(), self.is_enough) {
            (false, _) => "for ti in range(count):".to_owned(),
            (true, true) => format!("for ti in range({start}, count):"),
            (true, false) => format!("for ti in range({start}, T.min(count, tiles - first)):"),
        };
        block(&own, body)
    }

    /// `if {at} < {extent}:`, where a tile may reach over the end.
    fn below(&mut self, over: &Loop, at: &str, label: &str) -> Option<String> {
        let fits = over.len().is_some_and(|len| len % self.plan.m == 0);
        if fits {
            return None;
        }
        self.set(label, over.extent.clone());
        Some(format!("if {at} < {label}:"))
    }

    /// What is done with a result.
    fn finish(&self) -> Vec<Stmt> {
        let conv = self.conv;
        let Plan { m, .. } = *self.plan;
        let [image, row, column] = self.place(false);
        let mut places = BTreeMap::from([
            (conv.row.var.clone(), self.expr(&format!("{row} * {m} + i"))),
            (
                conv.column.var.clone(),
                self.expr(&format!("{column} * {m} + j")),
            ),
            (conv.channel.var.clone(), self.expr(&self.channel())),
        ]);
        if let Some(each) = &conv.image {
            places.insert(each.var.clone(), self.expr(&image));
        }
        let sum = self.expr("r[j, vi]");
        let mut stmts = Vec::new();
        if conv.epilogue.is_none() || conv.result_is_read {
            stmts.push(Stmt::assign(conv.update.place.clone(), sum.clone()));
        }
        let mut change = ReplaceExpr {
            from: &conv.update.place,
            to: &sum,
        };
        for stmt in conv.epilogue.iter().flatten() {
            let mut stmt = stmt.clone();
            change.visit_stmt(&mut stmt);
            stmts.push(stmt);
        }
        // The sum's own variables are not those of the result.
        let hidden: Vec<Name> = places.keys().cloned().collect();
        debug_assert!(!mentions(&sum, |name| hidden.contains(name)));
        replaced(&stmts, &places)
    }

    /// Where in a row of `v` the products stand, behind the data.
    fn depth(&self) -> i64 {
        let lanes = self.plan.lanes;
        (self.conv.depth + lanes - 1) / lanes * lanes
    }

    /// The channel of a result.
    fn channel(&self) -> String {
        let Plan {
            lanes,
            panel,
            panels,
            groups,
            ..
        } = *self.plan;
        match groups {
            1 => format!("co * {lanes} + vi"),
            _ => format!("group * {} + co * {lanes} + vi", panels * panel),
        }
    }

    /// The whole schedule.
    fn code(mut self, names: &mut NameSupply) -> Option<Vec<Stmt>> {
        let Plan {
            m,
            lanes,
            panel,
            panels,
            band,
            ..
        } = *self.plan;
        let n = m + 2;
        // Rows that lie a power of two apart would share few sets of the first cache.
        let apart = |len: i64| len + if len % 64 == 0 { 16 } else { 0 };
        let mut code = self.data_lines();
        code.extend(self.product_lines());
        code.extend(self.result_lines());
        let alloc = |name: &str, extents: [i64; 3]| {
            let [a, b, c] = extents;
            format!("{name} = T.alloc_buffer(({a}, {b}, {c}), \"float32\")")
        };
        let lines = [
            alloc("v", [band, n * n, apart(self.depth() + panels * panel)]),
            alloc("s", [n, n, lanes]),
        ];
        let body = self.parsed(&lines)?;
        let mut inner = std::mem::take(&mut self.heads);
        inner.extend(body);
        inner.push(region(&self.conv.name, self.parsed(&code)?));
        Some(parallel(names, std::mem::take(&mut self.levels), inner))
    }

    /// Lines as statements, their names replaced and results put in.
    fn parsed(&self, lines: &[String]) -> Option<Vec<Stmt>> {
        let text = block("@T.prim_func(private=True)\ndef tile():", lines.to_vec());
        let (module, faults) = parse(&mut SourceMap::new(), "winograd", &(text.join("\n") + "\n"));
        debug_assert!(faults.is_empty(), "{faults:?}\n{}", text.join("\n"));
        let mut body = module
            .funcs()
            .next()
            .filter(|_| faults.is_empty())?
            .body
            .clone();
        body.iter_mut().for_each(|stmt| replace(stmt, &self.map));
        let mut put = Put {
            results: self.finish(),
        };
        put.visit_body(&mut body);
        Some(body)
    }
}

/// Puts what is done with a result where the text says `RESULT`.
struct Put {
    results: Vec<Stmt>,
}

impl VisitMut for Put {
    fn visit_body(&mut self, body: &mut Vec<Stmt>) {
        let is_mark = |stmt: &Stmt| match &stmt.kind {
            StmtKind::Expr(expr) => expr.as_name().is_some_and(|name| name.as_str() == "RESULT"),
            _ => false,
        };
        if body.iter().any(is_mark) {
            *body = self.results.clone();
        } else {
            walk_body_mut(self, body);
        }
    }
}

/// An expression with names replaced.
fn with_names(expr: Expr, map: &BTreeMap<Name, Expr>) -> Expr {
    let mut stmt = Stmt::expr(expr);
    replace(&mut stmt, map);
    match stmt.kind {
        StmtKind::Expr(expr) => expr,
        _ => Expr::none(),
    }
}

/// Takes numbers that are added and subtracted one after the other together: `x + 3 - 1` is `x + 2`.
struct FoldOffsets;

impl VisitMut for FoldOffsets {
    fn visit_expr(&mut self, expr: &mut Expr) {
        walk_expr_mut(self, expr);
        let mut by = 0;
        let mut at = &*expr;
        while let ExprKind::Binary { op, lhs, rhs } = &at.kind
            && let Some(number) = int_of(rhs)
        {
            match op {
                BinaryOp::Add => by += number,
                BinaryOp::Sub => by -= number,
                _ => break,
            }
            at = lhs;
        }
        let rest = at.clone();
        match by {
            0 => *expr = rest,
            1.. => *expr = add(rest, Expr::int(by)),
            _ => *expr = Expr::binary(BinaryOp::Sub, rest, Expr::int(-by)),
        }
    }
}

/// `{text} + {by}`
fn offset(text: &str, by: i64) -> String {
    match by {
        0 => text.to_owned(),
        _ => format!("{text} + {by}"),
    }
}

/// Lines inside a head.
fn block(head: &str, body: Vec<String>) -> Vec<String> {
    let mut res = vec![head.to_owned()];
    res.extend(body.into_iter().map(|line| format!("    {line}")));
    res
}
