//! Products of narrow integers two by two, in tiles of int32 sums.
//!
//!     for k in range(9):                                   for k in range(4):
//!         … acc = acc + Cast(a[i, k]) * Cast(b[k, j])  →       … acc = acc + Cast(a[i, k * 2]) * Cast(bp[j // 16, k, vi, 0])
//!                                                                  + Cast(a[i, k * 2 + 1]) * Cast(bp[j // 16, k, vi, 1])
//!                                                          … acc = acc + Cast(a[i, 8]) * Cast(bp[j // 16, 4, vi, 0])
//!
//! The emitter has one instruction for both products. The panels of the packed operand hold two steps of the
//! innermost reduction beside each other; an odd last step stands alone. A weight is packed for good; of another operand each
//! panel is, in a small buffer, before the tiles of all rows go over it.

use std::collections::BTreeMap;

use irc_syntax::same::is_identical_expr;
use irc_syntax::uses::{mentions, substitute};
use irc_syntax::{BinaryOp, DType, Expr, ExprKind, Name, Stmt};

use super::build::{add, guarded, mul, serial, vectorized};
use super::nest::{Access, Buffers, Loop, Step, step_of};
use super::packing::Packing;
use super::vectorize::Update;

/// A sum of products of a row's narrow integers and those of a packed operand.
pub struct Pairs {
    /// The element of a row.
    row: Expr,
    /// The other operand.
    other: Other,
    /// The innermost reduction.
    depth: Name,
    /// Its extent.
    len: i64,
}

enum Other {
    /// The place of the access among those of packed weights.
    Weight(usize),
    /// What panels are packed from, and its dtype.
    Computed(Access, DType),
}

/// Recognizes such a sum, and lets its operand be packed by pairs where it is a weight.
pub fn pairs_of(
    update: &Update,
    reduced: &[Loop],
    last: &Loop,
    packed: &mut [(Access, Packing)],
    buffers: &Buffers,
) -> Option<Pairs> {
    let depth = reduced.last()?;
    let len = depth.len().filter(|&len| len >= 2)?;
    let ExprKind::Binary {
        op: BinaryOp::Add,
        lhs,
        rhs,
    } = &update.value.kind
    else {
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
    if !update.lets.is_empty() || !is_identical_expr(lhs, &update.place) {
        return None;
    }
    let (a, b) = (element(a)?, element(b)?);
    let narrow = |access: &Access| {
        let dtype = buffers.get(&access.buffer).map(|(dtype, _)| *dtype);
        dtype.filter(|dtype| matches!(dtype, DType::I8 | DType::I16))
    };
    let mentions_last = |access: &Access| {
        let mut index = access.index.iter();
        index.any(|expr| mentions(expr, |name| *name == last.var))
    };
    [(&a, &b), (&b, &a)].into_iter().find_map(|(row, other)| {
        let fits = narrow(row).is_some()
            && row.buffer != other.buffer
            && step_of(row, &depth.var, buffers) == Step::One
            && !mentions_last(row);
        let dtype = narrow(other).filter(|_| fits)?;
        let weight = packed
            .iter()
            .position(|(access, _)| access.buffer == other.buffer);
        let other = match weight {
            Some(at) => {
                let is_depth = |expr: &Expr| expr.as_name() == Some(&depth.var);
                let axis = other.index.iter().position(is_depth)?;
                let packing = &mut packed[at].1;
                packing.axes.retain(|&other| other != axis);
                packing.axes.push(axis);
                packing.pairs = true;
                Other::Weight(at)
            }
            None => {
                let is_row = reduced.len() == 1
                    && mentions_last(other)
                    && step_of(other, &last.var, buffers) == Step::One;
                Other::Computed(is_row.then(|| other.clone())?, dtype)
            }
        };
        Some(Pairs {
            row: Expr::index(Expr::name(&row.buffer), row.index.clone()),
            other,
            depth: depth.var.clone(),
            len,
        })
    })
}

/// The access of `T.Cast("int32", buffer[…])`.
fn element(expr: &Expr) -> Option<Access> {
    let (path, args) = expr.as_call()?;
    let [dtype, value] = args else { return None };
    if path != "T.Cast" || dtype.value.as_str() != Some("int32") {
        return None;
    }
    let ExprKind::Index { value, index } = &value.value.kind else {
        return None;
    };
    Some(Access {
        buffer: value.as_name()?.clone(),
        index: index.clone(),
        stores: false,
    })
}

/// Where the packed operand of a tile lies: the panel of a weight, or the buffer of the one that was packed last.
pub struct Panel<'a> {
    /// The number of the panel.
    pub at: &'a Expr,
    /// The lane.
    pub lane: &'a Name,
    /// The buffer that holds it, where it is no weight's.
    pub buffer: Option<&'a Name>,
}

impl Pairs {
    /// Whether panels are packed while the function runs, from what does not depend on `row`.
    pub fn is_computed(&self, row: &Name) -> bool {
        match &self.other {
            Other::Weight(_) => false,
            Other::Computed(access, _) => {
                let mut index = access.index.iter();
                !index.any(|expr| mentions(expr, |name| name == row))
            }
        }
    }

    /// Whether the packed operand is a weight.
    pub fn is_weight(&self) -> bool {
        matches!(self.other, Other::Weight(_))
    }

    /// The declaration of a buffer for one panel.
    pub fn declare(&self, buffer: &Name, lanes: i64) -> Stmt {
        let shape = [(self.len + 1) / 2, lanes, 2].map(Expr::int);
        let call = Expr::call("T.alloc_buffer", [Expr::tuple(shape), Expr::str("int16")]);
        Stmt::bind(buffer, call)
    }

    /// The code that packs one panel: column `column` of its operand into lane `lane`, where `cond` holds.
    pub fn fill(
        &self,
        buffer: &Name,
        (lane, lanes): (&Name, i64),
        (last, column): (&Name, &Expr),
        cond: Option<Expr>,
    ) -> Vec<Stmt> {
        let Other::Computed(access, dtype) = &self.other else {
            return Vec::new();
        };
        let store = |at: Expr, pair: &Expr, which: i64| {
            let map = BTreeMap::from([(self.depth.clone(), at), (last.clone(), column.clone())]);
            let mut value = Expr::index(Expr::name(&access.buffer), access.index.clone());
            substitute(&mut value, &map);
            if *dtype != DType::I16 {
                value = Expr::call("T.Cast", [Expr::str("int16"), value]);
            }
            let index = [pair.clone(), Expr::name(lane), Expr::int(which)];
            Stmt::assign(Expr::index(Expr::name(buffer), index), value)
        };
        let over_lanes = |body: Vec<Stmt>| vectorized(lane, lanes, guarded(cond.clone(), body));
        let depth = Expr::name(&self.depth);
        let low = mul(depth.clone(), 2);
        let high = add(low.clone(), Expr::int(1));
        let both = vec![store(low, &depth, 0), store(high, &depth, 1)];
        let half = self.len / 2;
        let mut res = vec![serial(&self.depth, Expr::int(half), vec![over_lanes(both)])];
        if self.len % 2 == 1 {
            let last = store(Expr::int(self.len - 1), &Expr::int(half), 0);
            res.push(over_lanes(vec![last]));
        }
        res
    }

    /// The innermost loop of the reduction: `step` makes the code that adds products to `place`.
    pub fn sums(
        &self,
        place: &Expr,
        packed: &[(Access, Packing)],
        panel: &Panel,
        step: impl Fn(Stmt) -> Vec<Stmt>,
    ) -> Vec<Stmt> {
        let element = |pair: &Expr, which: i64| {
            let ends = [pair.clone(), Expr::name(panel.lane), Expr::int(which)];
            let weight = match &self.other {
                Other::Weight(at) => packed.get(*at),
                Other::Computed(..) => None,
            };
            match (weight, panel.buffer) {
                (Some((access, packing)), _) => {
                    let between = packing.axes.len() - 1;
                    let axes = packing.axes[..between].iter().skip(1);
                    let mut index = vec![panel.at.clone()];
                    index.extend(axes.map(|&axis| access.index[axis].clone()));
                    index.extend(ends);
                    Expr::index(Expr::name(&access.buffer), index)
                }
                (None, buffer) => Expr::index(Expr::name(buffer.unwrap_or(panel.lane)), ends),
            }
        };
        let product = |at: &Expr, pair: &Expr, which: i64| {
            let mut row = self.row.clone();
            substitute(
                &mut row,
                &BTreeMap::from([(self.depth.clone(), at.clone())]),
            );
            let wide = |value: Expr| Expr::call("T.Cast", [Expr::str("int32"), value]);
            Expr::binary(BinaryOp::Mul, wide(row), wide(element(pair, which)))
        };
        let plus = |sum: Expr, product: Expr| Expr::binary(BinaryOp::Add, sum, product);
        let depth = Expr::name(&self.depth);
        let low = mul(depth.clone(), 2);
        let sum = plus(place.clone(), product(&low, &depth, 0));
        let sum = plus(sum, product(&add(low, Expr::int(1)), &depth, 1));
        let both = step(Stmt::assign(place.clone(), sum));
        let half = self.len / 2;
        let mut res = vec![serial(&self.depth, Expr::int(half), both)];
        if self.len % 2 == 1 {
            let last = product(&Expr::int(self.len - 1), &Expr::int(half), 0);
            res.extend(step(Stmt::assign(place.clone(), plus(place.clone(), last))));
        }
        res
    }
}
