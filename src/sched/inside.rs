//! Windows that hang over the edge of what they read: the taps inside, by the bounds of their loops.
//!
//!     for y, c, ky in T.grid(8, 16, 3):                    for ky in range(T.max(0, 1 - y), T.min(3, 9 - y)):
//!         s[y, c] = s[y, c] + T.if_then_else(        →         s[y, c] = s[y, c] + x[y + ky - 1, c] * w[ky, c]
//!             1 <= y + ky and y + ky < 9,
//!             x[y + ky - 1, c], 0) * w[ky, c]
//!
//! Needs every condition to be a bound of `stride * y + dilation * ky` for one loop of the result and one of the reduction,
//! and a value outside that changes nothing: 0 in a sum of products. `tile` runs the rows of its tiles that are inside as a
//! whole without bounds, and those at the edges one by one. Tests: `tests/sched/tile`.

use irc_syntax::{BinaryOp, Expr, ExprKind, Name, Stmt, StmtKind};

use super::nest::{Loop, Nest, accesses};
use super::vectorize::{Combine, combine_parts, update_of};
use crate::shape::Dim;

/// What bounds the taps of one loop: `low + stride * axis + step * tap >= 0`, `high - stride * axis - step * tap >= 0`.
#[derive(Clone, PartialEq, Debug)]
pub struct Window {
    /// The loop of the result that moves the window; `None` where it stands still.
    pub axis: Option<Name>,
    /// The loop of the reduction that walks it.
    pub tap: Name,
    taps: i64,
    stride: i64,
    step: i64,
    low: Option<Dim>,
    high: Option<Dim>,
}

/// The nest without its conditions, and the windows that stand for them. `None` when it is not of that kind, or has none.
pub fn windows_of(nest: &Nest) -> Option<(Nest, Vec<Window>)> {
    let update = update_of(nest)?;
    let (element, combine) = combine_parts(&update.value, &update.place)?;
    if combine != Combine::Add {
        return None;
    }
    let ExprKind::Binary { op, lhs, rhs } = &element.kind else {
        return None;
    };
    let (cond, value, otherwise) = choice_of(lhs)?;
    let is_zero = |expr: &Expr| {
        let number = expr.positional().next().unwrap_or(expr);
        matches!(number.kind, ExprKind::Float(value) if value == 0.0)
    };
    let clean = update.lets.is_empty() && accesses(&[Stmt::expr(cond.clone())]).is_empty();
    if *op != BinaryOp::Mul || !is_zero(otherwise) || !clean {
        return None;
    }
    let mut windows: Vec<Window> = Vec::new();
    add_windows(cond, &nest.loops, &mut windows)?;
    let product = Expr::binary(BinaryOp::Mul, value.clone(), (**rhs).clone());
    let mut bare = nest.clone();
    let Some(Stmt {
        kind: StmtKind::Assign { value, .. },
        ..
    }) = bare.body.last_mut()
    else {
        return None;
    };
    *value = combine.apply(update.place.clone(), product);
    Some((bare, windows))
}

/// The condition and the sides of `T.if_then_else(c, a, b)`.
fn choice_of(expr: &Expr) -> Option<(&Expr, &Expr, &Expr)> {
    if !expr.is_call_of("T.if_then_else") {
        return None;
    }
    let sides: Vec<&Expr> = expr.positional().collect();
    match sides.as_slice() {
        [cond, value, otherwise] => Some((cond, value, otherwise)),
        _ => None,
    }
}

fn add_windows(cond: &Expr, loops: &[Loop], windows: &mut Vec<Window>) -> Option<()> {
    let ExprKind::Binary { op, lhs, rhs } = &cond.kind else {
        return None;
    };
    if *op == BinaryOp::And {
        add_windows(lhs, loops, windows)?;
        return add_windows(rhs, loops, windows);
    }
    let (lhs, rhs) = (Dim::from_expr(lhs).ok()?, Dim::from_expr(rhs).ok()?);
    // How far the condition is from failing.
    let slack = match op {
        BinaryOp::Le => &rhs - &lhs,
        BinaryOp::Lt => &(&rhs - &lhs) - &Dim::int(1),
        _ => return None,
    };
    let mentioned = slack.symbols();
    let inner = |reduces: bool| {
        let mut found = loops
            .iter()
            .filter(move |each| each.reduces == reduces && mentioned.contains(&each.var));
        let first = found.next();
        found.next().is_none().then_some(first)
    };
    let tap = inner.clone()(true)??;
    let axis = inner(false)?;
    let (step, rest) = linear(&slack, &tap.var)?;
    let (stride, rest) = match axis {
        Some(axis) => linear(&rest, &axis.var)?,
        None => (0, rest),
    };
    if step == 0 || stride.signum() * step.signum() < 0 {
        return None;
    }
    let new = Window {
        axis: axis.map(|axis| axis.var.clone()),
        tap: tap.var.clone(),
        taps: tap.len()?,
        stride: stride.abs(),
        step: step.abs(),
        low: (step > 0).then(|| rest.clone()),
        high: (step < 0).then_some(rest),
    };
    let Some(window) = windows.iter_mut().find(|window| window.tap == new.tap) else {
        windows.push(new);
        return Some(());
    };
    let same = window.axis == new.axis && window.stride == new.stride && window.step == new.step;
    let apart = (window.low.is_none() || new.low.is_none())
        && (window.high.is_none() || new.high.is_none());
    if !same || !apart {
        return None;
    }
    window.low = window.low.take().or(new.low);
    window.high = window.high.take().or(new.high);
    Some(())
}

/// `coefficient * var + rest`
fn linear(dim: &Dim, var: &Name) -> Option<(i64, Dim)> {
    let at = |value: i64| dim.subst(&[(var.clone(), Dim::int(value))].into());
    let rest = at(0);
    let coefficient = (&at(1) - &rest).as_int()?;
    let moving = &Dim::sym(var.clone()) * &Dim::int(coefficient);
    (&(dim - &moving) - &rest)
        .as_int()
        .filter(|&off| off == 0)?;
    Some((coefficient, rest))
}

impl Window {
    /// The first tap inside and the one behind the last, where the window's axis is at `at`.
    pub fn bounds(&self, at: &Expr) -> Option<(Expr, Expr)> {
        let moved = &Dim::from_expr(at).ok()? * &Dim::int(self.stride);
        let step = Dim::int(self.step);
        let lo = self.low.as_ref().map(|low| {
            let first = (&(&Dim::int(0) - low) - &moved).ceil_div(&step);
            Dim::max(&Dim::int(0), &first)
        });
        let hi = self.high.as_ref().map(|high| {
            let last = (high - &moved).floor_div(&step);
            Dim::min(&Dim::int(self.taps), &(&last + &Dim::int(1)))
        });
        Some((
            lo.unwrap_or_else(|| Dim::int(0)).to_expr(),
            hi.unwrap_or_else(|| Dim::int(self.taps)).to_expr(),
        ))
    }

    /// The places of the axis, of `extent`, where all taps are inside: the first, and the one behind the last.
    fn whole(&self, extent: &Dim) -> (Dim, Dim) {
        let stride = Dim::int(self.stride);
        let lo = match &self.low {
            Some(low) => Dim::max(&Dim::int(0), &(&Dim::int(0) - low).ceil_div(&stride)),
            None => Dim::int(0),
        };
        let hi = match &self.high {
            Some(high) => {
                let reach = Dim::int(self.step * (self.taps - 1));
                let last = (high - &reach).floor_div(&stride);
                Dim::min(extent, &(&last + &Dim::int(1)))
            }
            None => extent.clone(),
        };
        (lo, hi)
    }
}

/// Rows at the start and at the end that some window hangs over, and those between: each the first and how many.
pub struct Rows {
    /// Those where all taps are inside.
    pub inside: (Expr, Expr),
    /// The others.
    pub edges: [(Expr, Expr); 2],
}

/// Splits the rows of a loop. `None` when no window moves with it.
pub fn split_rows(row: &Loop, windows: &[Window]) -> Option<Rows> {
    let extent = Dim::from_expr(&row.extent).ok()?;
    let (mut lo, mut hi) = (Dim::int(0), extent.clone());
    let mut moves = false;
    for window in windows
        .iter()
        .filter(|each| each.axis.as_ref() == Some(&row.var))
    {
        let (first, end) = window.whole(&extent);
        (lo, hi) = (Dim::max(&lo, &first), Dim::min(&hi, &end));
        moves = true;
    }
    if !moves {
        return None;
    }
    let zero = Dim::int(0);
    let lo = Dim::min(&lo, &extent);
    let hi = Dim::max(&lo, &hi);
    let part = |first: &Dim, end: &Dim| {
        let count = Dim::max(&zero, &(end - first));
        (first.to_expr(), count.to_expr())
    };
    Some(Rows {
        inside: part(&lo, &hi),
        edges: [part(&zero, &lo), part(&hi, &extent)],
    })
}
