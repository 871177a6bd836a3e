//! Reads a 3×3 convolution with the channels last off its nests.

use std::collections::BTreeSet;

use irc_syntax::same::is_identical_expr;
use irc_syntax::uses::mentions;
use irc_syntax::{BinaryOp, DType, Expr, ExprKind, Name, Stmt, StmtKind};

use super::super::nest::{Access, Buffers, Loop, Nest, Step, accesses, int_of, step_of};
use super::super::tile::{epilogue_of, has_long_call};
use super::super::vectorize::{Update, is_kernel_code, update_of};
use crate::shape::Dim;

/// A convolution whose kernel moves by one place over neighbouring places.
pub struct Convolution {
    /// The block's name.
    pub name: String,
    /// What the reduction does.
    pub update: Update,
    /// The image, where there is more than one.
    pub image: Option<Loop>,
    /// The row of the result.
    pub row: Loop,
    /// The column of the result.
    pub column: Loop,
    /// The channel of the result.
    pub channel: Loop,
    /// Channels of the result.
    pub width: i64,
    /// Channels of the data.
    pub depth: i64,
    /// The kernels.
    pub weight: Name,
    /// The axes of the kernels that are result channel, row, column and data channel.
    pub axes: Vec<usize>,
    /// What is convolved.
    pub data: Data,
    /// Element-wise code over the result, in the variables of the result.
    pub epilogue: Option<Vec<Stmt>>,
    /// Whether the result is read by anything but the epilogue.
    pub result_is_read: bool,
    /// How many nests it is.
    pub taken: usize,
}

/// The data, zeros around it included: a value in four variables, and where it holds.
pub struct Data {
    /// The variable of the image, where there is more than one.
    pub image: Option<Name>,
    /// The variables of row, column and channel.
    pub place: [Name; 3],
    /// The value at a place.
    pub value: Expr,
    /// The first row and column that are no zeros, where those are not 0.
    pub lower: [Option<Expr>; 2],
    /// The ends of the rows and columns.
    pub upper: [Expr; 2],
}

/// Reads a convolution at the first nests: its padding where it has one, itself, and the element-wise nest after it.
/// `used_after(n)` are the buffers that anything but the first `n` nests uses.
pub fn convolution(
    nests: &[&Nest],
    buffers: &Buffers,
    weights: &BTreeSet<Name>,
    used_after: &dyn Fn(usize) -> BTreeSet<Name>,
) -> Option<Convolution> {
    let (padding, nest, rest) = match nests {
        [padding, nest, rest @ ..] if padding.init.is_empty() => (Some(*padding), *nest, rest),
        [nest, rest @ ..] => (None, *nest, rest),
        [] => return None,
    };
    let (mut found, data) = contraction(nest, buffers, weights)?;
    found.taken = 1;
    if let Some(padding) = padding {
        if found.data.lower.iter().any(Option::is_some) {
            return None;
        }
        found.data = padded(padding, &data, buffers)?;
        found.taken = 2;
    }
    let spatial: Vec<Loop> = nest
        .loops
        .iter()
        .take_while(|each| !each.reduces)
        .cloned()
        .collect();
    if let Some(next) = rest.first()
        && let Some(body) = epilogue_of(next, &spatial, &found.update, buffers)
    {
        found.epilogue = Some(body);
        found.taken += 1;
    }
    let used = used_after(found.taken);
    found.result_is_read = used.contains(&found.update.buffer);
    let pad_is_read = padding.is_some() && used.contains(&data.buffer);
    (!pad_is_read).then_some(found)
}

/// The loop that an index is the variable of.
fn loop_at<'n>(nest: &'n Nest, index: &Expr) -> Option<&'n Loop> {
    nest.loops
        .iter()
        .find(|each| Some(&each.var) == index.as_name())
}

/// The data, the condition that it is there if there is one, and the weight, whose products a reduction sums up.
fn factors(
    nest: &Nest,
    update: &Update,
    buffers: &Buffers,
    weights: &BTreeSet<Name>,
) -> Option<(Access, Option<Expr>, Access)> {
    let ExprKind::Binary { op, lhs, rhs } = &update.value.kind else {
        return None;
    };
    let ExprKind::Binary {
        op: BinaryOp::Mul,
        lhs: a,
        rhs: b,
    } = &rhs.kind
    else {
        return None;
    };
    let is_sum = *op == BinaryOp::Add
        && is_identical_expr(lhs, &update.place)
        && is_zero(&update.start)
        && update.lets.is_empty()
        && is_kernel_code(&nest.body, buffers);
    if !is_sum {
        return None;
    }
    let (data, weight) = match only_access(b) {
        Some(b) if weights.contains(&b.buffer) => (a, b),
        _ => (b, only_access(a)?),
    };
    let (data, cond) = match data.as_call() {
        Some((path, [cond, data, otherwise])) => {
            let fits = path == "T.if_then_else" && is_zero(&otherwise.value);
            let cond = Some(cond.value.clone()).filter(|_| fits)?;
            (only_access(&data.value)?, Some(cond))
        }
        _ => (only_access(data)?, None),
    };
    let is_float = |access: &Access| {
        buffers
            .get(&access.buffer)
            .is_some_and(|(dtype, shape)| *dtype == DType::F32 && shape.len() == 4)
    };
    let place = only_access(&update.place)?;
    let fits =
        weights.contains(&weight.buffer) && [&place, &data, &weight].into_iter().all(is_float);
    fits.then_some((data, cond, weight))
}

/// The reduction, and its access to the data. The data is as it is stored.
fn contraction(
    nest: &Nest,
    buffers: &Buffers,
    weights: &BTreeSet<Name>,
) -> Option<(Convolution, Access)> {
    let update = update_of(nest)?;
    let place = only_access(&update.place)?;
    let (data, cond, weight) = factors(nest, &update, buffers, weights)?;
    let [image, row, column, channel] = place.index.as_slice() else {
        return None;
    };
    let [data_image, data_row, data_column, data_channel] = data.index.as_slice() else {
        return None;
    };
    let image_loop = loop_at(nest, image);
    let (row, column, channel) = (
        loop_at(nest, row)?,
        loop_at(nest, column)?,
        loop_at(nest, channel)?,
    );
    let reduced = loop_at(nest, data_channel).filter(|each| each.reduces)?;
    // The kernel's row or column that an index moves with, and how far before the result it begins.
    let tap = |index: &Expr, at: &Loop| -> Option<(&Loop, i64)> {
        let rest = &Dim::from_expr(index).ok()? - &Dim::sym(&at.var);
        let mut taps = nest.loops.iter();
        let over = taps.find(|each| rest.symbols().contains(&each.var))?;
        let before = (&Dim::sym(&over.var) - &rest).as_int()?;
        (over.reduces && over.len() == Some(3)).then_some((over, before))
    };
    let (over_row, above) = tap(data_row, row)?;
    let (over_column, left) = tap(data_column, column)?;
    let n_images = usize::from(image_loop.is_some());
    let fits = is_identical_expr(image, data_image)
        && (image_loop.is_some() || int_of(image) == Some(0))
        && over_row.var != over_column.var
        && nest.loops.iter().filter(|each| each.reduces).count() == 3
        && nest.loops.len() == 6 + n_images;
    if !fits {
        return None;
    }
    let axis = |over: &Loop| {
        let is_here = |index: &Expr| index.as_name() == Some(&over.var);
        weight.index.iter().position(is_here)
    };
    let axes = vec![
        axis(channel)?,
        axis(over_row)?,
        axis(over_column)?,
        axis(reduced)?,
    ];
    let (_, shape) = buffers.get(&weight.buffer)?;
    let (width, depth) = (channel.len()?, reduced.len()?);
    let extents = axes.iter().map(|&at| int_of(&shape[at]));
    if !extents.eq([width, 3, 3, depth].map(Some)) {
        return None;
    }
    let shape = &buffers.get(&data.buffer)?.1;
    let places = [row, column, reduced];
    let stored = stored(&data, shape, cond, places, [above, left])?;
    let found = Convolution {
        name: nest.name.clone(),
        image: image_loop.cloned(),
        row: row.clone(),
        column: column.clone(),
        channel: channel.clone(),
        width,
        depth,
        weight: weight.buffer.clone(),
        axes,
        data: Data {
            image: image_loop.map(|each| each.var.clone()),
            ..stored
        },
        epilogue: None,
        result_is_read: true,
        taken: 0,
        update,
    };
    Some((found, data))
}

/// The data as it is stored, `before` rows and columns of zeros before it where there is a condition; its image is not
/// filled in.
fn stored(
    data: &Access,
    shape: &[Expr],
    cond: Option<Expr>,
    places: [&Loop; 3],
    before: [i64; 2],
) -> Option<Data> {
    let [data_image, data_row, data_column, _] = data.index.as_slice() else {
        return None;
    };
    let [row, column, channel] = places;
    let [above, left] = before;
    let sides = [(data_row, &shape[1]), (data_column, &shape[2])];
    if !cond.is_none_or(|cond| is_inside(&cond, &sides)) {
        return None;
    }
    let behind = |at: &Loop, by: i64| match by {
        0 => Expr::name(&at.var),
        _ => Expr::binary(BinaryOp::Sub, Expr::name(&at.var), Expr::int(by)),
    };
    let value = Expr::index(
        Expr::name(&data.buffer),
        [
            data_image.clone(),
            behind(row, above),
            behind(column, left),
            Expr::name(&channel.var),
        ],
    );
    let end = |extent: &Expr, by: i64| {
        let extent = Dim::from_expr(extent).ok()?;
        Some((&extent + &Dim::int(by)).to_expr())
    };
    Some(Data {
        image: None,
        place: [row.var.clone(), column.var.clone(), channel.var.clone()],
        value,
        lower: [above, left].map(|by| (by != 0).then(|| Expr::int(by))),
        upper: [end(&shape[1], above)?, end(&shape[2], left)?],
    })
}

/// Whether a condition says of indices that they are in their axes, and nothing else.
fn is_inside(cond: &Expr, sides: &[(&Expr, &Expr)]) -> bool {
    let ExprKind::Binary { op, lhs, rhs } = &cond.kind else {
        return false;
    };
    match op {
        BinaryOp::And => is_inside(lhs, sides) && is_inside(rhs, sides),
        BinaryOp::Le => {
            int_of(lhs) == Some(0) && sides.iter().any(|(at, _)| is_identical_expr(at, rhs))
        }
        BinaryOp::Lt => sides
            .iter()
            .any(|(at, end)| is_identical_expr(at, lhs) && is_identical_expr(end, rhs)),
        _ => false,
    }
}

fn only_access(expr: &Expr) -> Option<Access> {
    let ExprKind::Index { value, index } = &expr.kind else {
        return None;
    };
    Some(Access {
        buffer: value.as_name()?.clone(),
        index: index.clone(),
        stores: false,
    })
}

/// `T.float32(0.0)`
fn is_zero(value: &Expr) -> bool {
    let Some((path, [arg])) = value.as_call() else {
        return false;
    };
    let zero = match arg.value.kind {
        ExprKind::Float(value) => value == 0.0,
        _ => arg.value.as_int() == Some(0),
    };
    path == "T.float32" && zero
}

/// The data that a nest puts zeros around: `pad[…] = T.if_then_else(lo <= row and row < hi …, value, 0)`.
fn padded(nest: &Nest, data: &Access, buffers: &Buffers) -> Option<Data> {
    let [
        Stmt {
            kind: StmtKind::Assign { target, value, .. },
            ..
        },
    ] = nest.body.as_slice()
    else {
        return None;
    };
    let to = only_access(target)?;
    let [image, row, column, channel] = to.index.as_slice() else {
        return None;
    };
    let image_loop = loop_at(nest, image);
    let (row, column, channel) = (
        loop_at(nest, row)?,
        loop_at(nest, column)?,
        loop_at(nest, channel)?,
    );
    let (_, shape) = buffers.get(&to.buffer)?;
    let (path, args) = value.as_call()?;
    let [cond, inner, otherwise] = args else {
        return None;
    };
    let fits = to.buffer == data.buffer
        && nest.loops.len() == 3 + usize::from(image_loop.is_some())
        && (image_loop.is_some() || int_of(image) == Some(0))
        && path == "T.if_then_else"
        && is_zero(&otherwise.value)
        && is_kernel_code(&nest.body, buffers)
        && !has_long_call(&inner.value)
        && accesses(&[Stmt::expr(inner.value.clone())])
            .iter()
            .all(|access| step_of(access, &channel.var, buffers) != Step::Other);
    if !fits {
        return None;
    }
    let mut res = Data {
        image: image_loop.map(|each| each.var.clone()),
        place: [row.var.clone(), column.var.clone(), channel.var.clone()],
        value: inner.value.clone(),
        lower: [None, None],
        upper: [shape[1].clone(), shape[2].clone()],
    };
    bounds(&cond.value, &mut res)?;
    Some(res)
}

/// Takes `lo <= row`, `row < hi` and the same of columns, joined by `and`.
fn bounds(cond: &Expr, data: &mut Data) -> Option<()> {
    let ExprKind::Binary { op, lhs, rhs } = &cond.kind else {
        return None;
    };
    let place = data.place.clone();
    let axis = |expr: &Expr| {
        let name = expr.as_name()?;
        place[..2].iter().position(|var| var == name)
    };
    let is_fixed = |expr: &Expr| !mentions(expr, |name| place.contains(name));
    match op {
        BinaryOp::And => {
            bounds(lhs, data)?;
            bounds(rhs, data)
        }
        BinaryOp::Le => {
            let at = axis(rhs).filter(|_| is_fixed(lhs))?;
            data.lower[at] = Some((**lhs).clone());
            Some(())
        }
        BinaryOp::Lt => {
            let at = axis(lhs).filter(|_| is_fixed(rhs))?;
            data.upper[at] = (**rhs).clone();
            Some(())
        }
        _ => None,
    }
}
