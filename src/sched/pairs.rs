//! Products of narrow integers two by two, in tiles of int32 sums.
//!
//!     for k in range(9):                                   for k in range(4):
//!         … acc = acc + Cast(a[i, k]) * Cast(b[k, j])  →       … acc = acc + Cast(a[i, k * 2]) * Cast(bp[j // 16, k, vi, 0])
//!                                                                  + Cast(a[i, k * 2 + 1]) * Cast(bp[j // 16, k, vi, 1])
//!                                                          … acc = acc + Cast(a[i, 8]) * Cast(bp[j // 16, 4, vi, 0])
//!
//! The emitter has one instruction for both products. The panels of the packed operand hold two steps of the
//! innermost reduction beside each other; an odd last step stands alone.

use std::collections::BTreeMap;

use irc_syntax::same::is_identical_expr;
use irc_syntax::uses::{mentions, substitute};
use irc_syntax::{BinaryOp, DType, Expr, ExprKind, Name, Stmt};

use super::build::{add, mul, serial};
use super::nest::{Access, Buffers, Loop, Step, step_of};
use super::tile::Packing;
use super::vectorize::Update;

/// A sum of products of a row's narrow integers and those of a packed operand.
pub struct Pairs {
    /// The element of a row.
    row: Expr,
    /// The place of the packed access among all packed ones.
    packed: usize,
    /// The innermost reduction.
    depth: Name,
    /// Its extent.
    len: i64,
}

/// Recognizes such a sum, and lets its packed operand be packed by pairs.
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
    let is_narrow = |access: &Access| {
        let dtype = buffers.get(&access.buffer).map(|(dtype, _)| *dtype);
        matches!(dtype, Some(DType::I8 | DType::I16))
    };
    [(&a, &b), (&b, &a)].into_iter().find_map(|(row, other)| {
        let at = packed
            .iter()
            .position(|(access, _)| access.buffer == other.buffer)?;
        let fits = is_narrow(row)
            && is_narrow(other)
            && row.buffer != other.buffer
            && step_of(row, &depth.var, buffers) == Step::One
            && !row
                .index
                .iter()
                .any(|expr| mentions(expr, |name| *name == last.var));
        let axis = other
            .index
            .iter()
            .position(|expr| expr.as_name() == Some(&depth.var))?;
        if !fits {
            return None;
        }
        let packing = &mut packed[at].1;
        packing.axes.retain(|&other| other != axis);
        packing.axes.push(axis);
        packing.pairs = true;
        Some(Pairs {
            row: Expr::index(Expr::name(&row.buffer), row.index.clone()),
            packed: at,
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

impl Pairs {
    /// The innermost loop of the reduction: `step` makes the code that adds products to `place`.
    pub fn sums(
        &self,
        place: &Expr,
        packed: &[(Access, Packing)],
        (panel, lane): (&Expr, &Name),
        step: impl Fn(Stmt) -> Vec<Stmt>,
    ) -> Vec<Stmt> {
        let product = |at: &Expr, pair: &Expr, which: i64| {
            let mut row = self.row.clone();
            substitute(
                &mut row,
                &BTreeMap::from([(self.depth.clone(), at.clone())]),
            );
            let mut index = vec![panel.clone()];
            if let Some((access, packing)) = packed.get(self.packed) {
                let between = packing.axes.len() - 1;
                let axes = packing.axes[..between].iter().skip(1);
                index.extend(axes.map(|&axis| access.index[axis].clone()));
            }
            index.extend([pair.clone(), Expr::name(lane), Expr::int(which)]);
            let buffer = packed.get(self.packed).map(|(access, _)| &access.buffer);
            let other = Expr::index(Expr::name(buffer.unwrap_or(&self.depth)), index);
            let wide = |value: Expr| Expr::call("T.Cast", [Expr::str("int32"), value]);
            Expr::binary(BinaryOp::Mul, wide(row), wide(other))
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
