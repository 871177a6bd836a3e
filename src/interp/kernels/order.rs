//! Sorting and distinct elements. NaN is greater than every number.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use irc_syntax::DType;

use super::gather::{Mode, take};
use super::num::Num;
use super::{Done, Nums, norm_axis, rearrange, split_at_axis, with_nums};
use crate::interp::RunError;
use crate::tensor::Tensor;

/// The direction of a sort.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::interp) enum Direction {
    Ascending,
    Descending,
}

fn order<T: Num>(a: T, b: T) -> Ordering {
    a.partial_cmp(&b)
        .unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// Positions along an axis in the order of their elements; equal elements stay in their order.
fn sorted_rows(x: &Tensor, axis: usize, direction: Direction) -> Done<Vec<usize>> {
    let parts = split_at_axis(&x.shape, axis);
    if let Some(strings) = &x.strings {
        return Ok(rows_by(parts, |a, b| {
            directed(strings[a].cmp(&strings[b]), direction)
        }));
    }
    Ok(with_nums!(Nums::load(x)?, values => {
        rows_by(parts, |a, b| directed(order(values[a], values[b]), direction))
    }))
}

fn directed(order: Ordering, direction: Direction) -> Ordering {
    match direction {
        Direction::Ascending => order,
        Direction::Descending => order.reverse(),
    }
}

fn rows_by(
    (outer, extent, inner): (usize, usize, usize),
    compare: impl Fn(usize, usize) -> Ordering,
) -> Vec<usize> {
    let mut res = vec![0; outer * extent * inner];
    let mut rows: Vec<usize> = Vec::with_capacity(extent);
    for at in 0..outer {
        for column in 0..inner {
            let place = |row: usize| (at * extent + row) * inner + column;
            rows.clear();
            rows.extend(0..extent);
            rows.sort_by(|&a, &b| compare(place(a), place(b)));
            for (to, &row) in rows.iter().enumerate() {
                res[place(to)] = row;
            }
        }
    }
    res
}

/// Sorts along an axis, stably.
pub(in crate::interp) fn sort(x: &Tensor, axis: i64, direction: Direction) -> Done {
    let axis = norm_axis(axis, x.shape.len())?;
    let rows = sorted_rows(x, axis, direction)?;
    let (_, extent, inner) = split_at_axis(&x.shape, axis);
    rearrange(x, |x| {
        let size = x.dtype.bytes();
        let mut data = Vec::with_capacity(x.data.len());
        for (at, &row) in rows.iter().enumerate() {
            let column = at % inner;
            let start = at / (extent * inner) * extent;
            let from = ((start + row) * inner + column) * size;
            data.extend_from_slice(&x.data[from..from + size]);
        }
        super::tensor(x.dtype, x.shape.clone(), data)
    })
}

/// The positions along an axis that sort it, stably.
pub(in crate::interp) fn argsort(
    x: &Tensor,
    axis: i64,
    direction: Direction,
    dtype: DType,
) -> Done {
    let axis = norm_axis(axis, x.shape.len())?;
    let rows: Vec<i64> = sorted_rows(x, axis, direction)?
        .into_iter()
        .map(|row| row as i64)
        .collect();
    Tensor::from_i64s(dtype, x.shape.clone(), &rows)
        .ok_or_else(|| RunError::value_error("positions do not fit their shape"))
}

/// What `unique` finds: distinct slices, where each occurs first, which one each slice is, how often each occurs.
pub(in crate::interp) struct Distinct {
    pub(in crate::interp) values: Tensor,
    pub(in crate::interp) first: Tensor,
    pub(in crate::interp) inverse: Tensor,
    pub(in crate::interp) counts: Tensor,
}

/// How distinct elements are ordered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::interp) enum UniqueOrder {
    /// By value.
    Sorted,
    /// By first occurrence.
    Appearance,
}

/// The distinct slices along an axis; the distinct elements for `None`.
pub(in crate::interp) fn unique(x: &Tensor, axis: Option<i64>, by: UniqueOrder) -> Done<Distinct> {
    let flat;
    let (x, axis) = match axis {
        Some(axis) => (x, norm_axis(axis, x.shape.len())?),
        None => {
            flat = x
                .reshaped(vec![x.len()])
                .ok_or_else(|| RunError::value_error("elements do not fit their shape"))?;
            (&flat, 0)
        }
    };
    let (outer, extent, inner) = split_at_axis(&x.shape, axis);
    // Ranks stand for elements, so that slices of any dtype compare alike.
    let ranks = element_ranks(x)?;
    let slice = |row: usize| -> Vec<usize> {
        let ranks = &ranks;
        (0..outer)
            .flat_map(|at| {
                (0..inner).map(move |column| ranks[(at * extent + row) * inner + column])
            })
            .collect()
    };
    let mut groups: BTreeMap<Vec<usize>, Vec<usize>> = BTreeMap::new();
    for row in 0..extent {
        groups.entry(slice(row)).or_default().push(row);
    }
    let mut members: Vec<Vec<usize>> = groups.into_values().collect();
    if by == UniqueOrder::Appearance {
        members.sort_by_key(|rows| rows.first().copied());
    }
    let mut inverse = vec![0i64; extent];
    for (group, rows) in members.iter().enumerate() {
        rows.iter().for_each(|&row| inverse[row] = group as i64);
    }
    let list = |values: Vec<i64>| Tensor::from_fn(vec![values.len()], |at| values[at]);
    let first = list(
        members
            .iter()
            .map(|rows| rows.first().map_or(0, |&row| row as i64))
            .collect(),
    );
    Ok(Distinct {
        values: take(x, &first, Some(axis as i64), Mode::Check)?,
        first,
        inverse: list(inverse),
        counts: list(members.iter().map(|rows| rows.len() as i64).collect()),
    })
}

/// For each element its place among the distinct elements in order; all NaN are one.
fn element_ranks(x: &Tensor) -> Done<Vec<usize>> {
    let flat = x
        .reshaped(vec![x.len()])
        .ok_or_else(|| RunError::value_error("elements do not fit their shape"))?;
    let rows = sorted_rows(&flat, 0, Direction::Ascending)?;
    let same: Box<dyn Fn(usize, usize) -> bool> = match &x.strings {
        Some(strings) => {
            let strings = strings.clone();
            Box::new(move |a, b| strings[a] == strings[b])
        }
        None => with_nums!(Nums::load(x)?, values => {
            Box::new(move |a: usize, b: usize| order(values[a], values[b]) == Ordering::Equal)
        }),
    };
    let mut ranks = vec![0; rows.len()];
    let mut rank = 0;
    for (at, &row) in rows.iter().enumerate() {
        if at > 0 && !same(rows[at - 1], row) {
            rank += 1;
        }
        ranks[row] = rank;
    }
    Ok(ranks)
}

/// Which places of `order` [b, c, n] hold boxes that no better one overlaps by more than `threshold`. The first `counts`
/// [b, c] places take part, until `limit` are kept.
pub(in crate::interp) fn keep_boxes(
    boxes: &Tensor,
    order: &Tensor,
    counts: &Tensor,
    limit: &Tensor,
    threshold: &Tensor,
) -> Done {
    let ([_, n_boxes, 4], [batch, class, n]) = (boxes.shape.as_slice(), order.shape.as_slice())
    else {
        return Err(RunError::value_error(
            "boxes are [b, n, 4], their order is [b, c, n]",
        ));
    };
    let (n_boxes, rows, n) = (*n_boxes, batch * class, *n);
    let limit = limit.to_i64s().first().copied().unwrap_or(0);
    let (order, counts) = (order.to_i64s(), counts.to_i64s());
    let mut keep = vec![0u8; rows * n];
    with_nums!(Nums::load(boxes)?, values => {
            let threshold = with_nums!(Nums::load(threshold)?, given => given.first().map_or(0.0, |t| t.to_f64()));
            for row in 0..rows {
                let mut kept: Vec<[_; 4]> = Vec::new();
                for place in 0..n {
                    if place as i64 >= counts[row] || kept.len() as i64 >= limit {
                        break;
                    }
                    let index = order[row * n + place];
                    let from_front = if index < 0 { index + n_boxes as i64 } else { index };
                    let Some(from) = usize::try_from(from_front).ok()
    .filter(|from| *from < n_boxes) else {
                        return Err(RunError::index_error(index, n_boxes));
                    };
                    let from = (row / class * n_boxes + from) * 4;
                    let corner = |at: usize| values[from + at];
                    let own = [
                        corner(0).smaller(corner(2)),
                        corner(1).smaller(corner(3)),
                        corner(0).larger(corner(2)),
                        corner(1).larger(corner(3)),
                    ];
                    if !kept.iter().any(|other| overlap(&own, other) > threshold) {
                        kept.push(own);
                        keep[row * n + place] = 1;
                    }
                }
            }
        });
    super::tensor(DType::Bool, vec![*batch, *class, n], keep)
}

/// The share of the union of two boxes that both cover; 0 where they do not meet.
fn overlap<T: Num>(a: &[T; 4], b: &[T; 4]) -> f64 {
    let high = a[2].smaller(b[2]).sub(a[0].larger(b[0]));
    let wide = a[3].smaller(b[3]).sub(a[1].larger(b[1]));
    if !(high > T::ZERO && wide > T::ZERO) {
        return 0.0;
    }
    let area = |c: &[T; 4]| c[2].sub(c[0]).mul(c[3].sub(c[1]));
    let both = high.mul(wide);
    both.div(area(a).add(area(b)).sub(both)).to_f64()
}
