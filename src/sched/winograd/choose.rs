//! Which tiles a convolution is made from, and how they are shared out, by operations and bytes.

use irc_syntax::Expr;

use super::super::Target;
use super::super::build::{ceil_div, product};
use super::super::nest::int_of;
use super::form::Convolution;

/// The sizes of a schedule.
pub struct Plan {
    /// Results of a tile along one side.
    pub m: i64,
    /// Tiles of an image along a column and along a row, and of all images.
    pub down: Expr,
    pub across: Expr,
    pub tiles: Expr,
    /// Tiles of a register tile, and of a task.
    pub rows: i64,
    pub band: i64,
    /// Lanes of a vector, and of a panel of kernels.
    pub lanes: i64,
    pub panel: i64,
    /// Panels of a register tile, and of a task.
    pub beside: i64,
    pub panels: i64,
    /// Tasks that share the result channels of a band.
    pub groups: i64,
}

/// Bytes of `v` that a task may hold: what the second cache of a core has room for beside the kernels.
const BAND_BYTES: i64 = 384 * 1024;
/// Cycles that a byte of a weight costs when it is read from beyond the second cache, by which kernels pay for their size.
const CYCLES_A_BYTE: f64 = 0.25;
/// Cycles that a byte more of transformed kernels has to save beside those, because it stays in memory: `F(4, 3)` has
/// more than twice the bytes of `F(2, 3)`.
const CYCLES_A_BYTE_KEPT: f64 = 0.25;
/// How much better than the direct sum the method has to be.
const MARGIN: f64 = 0.85;

/// An extent, or what is taken for one that is not known.
fn about(extent: &Expr, unknown: i64) -> f64 {
    int_of(extent).unwrap_or(unknown) as f64
}

/// The cheapest of `F(4, 3)`, `F(2, 3)` and the direct sum, which is `None`, in estimated cycles.
pub fn choose(conv: &Convolution, target: Target) -> Option<Plan> {
    let images = conv
        .image
        .as_ref()
        .map_or(1.0, |image| about(&image.extent, 1));
    // Maps of many channels are small: what is usual where it is not known.
    let side = (4096 / conv.depth.max(conv.width)).clamp(8, 128);
    let (height, width) = (
        about(&conv.row.extent, side),
        about(&conv.column.extent, side),
    );
    let lanes = target.lanes as f64;
    let vectors = |channels: i64| (channels as f64 / lanes).ceil();
    let (depth, wide) = (conv.depth as f64, vectors(conv.width) * lanes);
    // Two vectors of products a cycle.
    let products = |count: f64| count * depth * wide / (2.0 * lanes);
    let bytes = |places: f64| places * depth * wide * 4.0 * CYCLES_A_BYTE;
    let direct = products(images * height * width * 9.0) + bytes(9.0);
    if conv.width < target.lanes || conv.depth < 4 {
        return None;
    }
    let mut best: Option<(f64, Plan)> = None;
    for (m, data_cost, result_cost) in [(4, 140.0, 100.0), (2, 60.0, 45.0)] {
        let across = m as f64;
        let plan = plan(conv, m, target);
        let places = ((m + 2) * (m + 2)) as f64;
        let tiles = images * (height / across).ceil() * (width / across).ceil();
        let rows = (tiles / plan.rows as f64).ceil() * plan.rows as f64;
        let start = 30.0 * places * rows / plan.rows as f64 * wide / plan.panel as f64;
        let transforms = vectors(conv.depth) * data_cost * plan.groups as f64
            + vectors(conv.width) * result_cost;
        let cost = products(rows * places) + start + tiles * transforms + bytes(places);
        let kept = cost + places * depth * wide * 4.0 * CYCLES_A_BYTE_KEPT;
        if cost < direct * MARGIN && best.as_ref().is_none_or(|(least, _)| kept < *least) {
            best = Some((kept, plan));
        }
    }
    Some(best?.1)
}

/// The sizes for tiles of `m × m`.
pub fn plan(conv: &Convolution, m: i64, target: Target) -> Plan {
    let (down, across) = (
        ceil_div(&conv.row.extent, m),
        ceil_div(&conv.column.extent, m),
    );
    let mut tiles = product(down.clone(), across.clone());
    if let Some(image) = &conv.image {
        tiles = product(image.extent.clone(), tiles);
    }
    let lanes = target.lanes;
    let panel = if conv.width <= lanes {
        lanes
    } else {
        2 * lanes
    };
    let vectors = panel / lanes;
    let sums = target.registers - 1 - vectors;
    let n_tiles = int_of(&tiles);
    let most = (sums / vectors).clamp(1, 14);
    let rows = n_tiles.map_or(most, |tiles| tiles.clamp(1, most));
    let places = (m + 2) * (m + 2);
    let all_panels = (conv.width + panel - 1) / panel;
    let a_tile = 4 * places * (conv.depth + conv.width);
    let band = (BAND_BYTES / a_tile / rows * rows).clamp(4 * rows, 64 * rows);
    let up = |tiles: i64| (tiles + rows - 1) / rows * rows;
    let band = match n_tiles {
        // As many tasks as it takes, of even size; few are an even number, so that two threads end together.
        Some(tiles) => {
            let bands = match (tiles + band - 1) / band {
                bands @ (3 | 5 | 7) if tiles >= 2 * rows * (bands + 1) => bands + 1,
                bands => bands,
            };
            up((tiles + bands - 1) / bands.max(1)).max(rows)
        }
        None => band,
    };
    // Few bands of many channels are shared out by channels, each task with 8 panels or more.
    let bands = n_tiles.map_or(4, |tiles| (tiles + band - 1) / band);
    let groups = [4, 3, 2]
        .into_iter()
        .find(|&groups| bands < 4 && all_panels % groups == 0 && all_panels / groups >= 8)
        .unwrap_or(1);
    let panels = all_panels / groups;
    let most_beside = (sums / (rows * vectors)).clamp(1, 6);
    let beside = (1..=most_beside)
        .rev()
        .find(|beside| panels % beside == 0)
        .unwrap_or(1);
    Plan {
        m,
        down,
        across,
        tiles,
        rows,
        band,
        lanes,
        panel,
        beside,
        panels,
        groups,
    }
}
