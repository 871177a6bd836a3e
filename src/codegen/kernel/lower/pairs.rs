//! Sums of two products of narrow integers as one instruction.
//!
//! ```text
//! acc[mi, vi] = (                                                  d5 = broadcast i32 [i1]
//!     acc[mi, vi]                                                  d6 = load i8pair [i2]
//!     + T.Cast("int32", A[i, 2 * k]) * T.Cast("int32", B[k, vi, 0])         →    d7 = pairs d5 d6
//!     + T.Cast("int32", A[i, 2 * k + 1]) * T.Cast("int32", B[k, vi, 1])    d4 = add d4 d7
//! )
//! ```
//!
//! The two elements of a factor lie beside each other: those of lanes two elements apart, or one pair for all lanes. One
//! product of the element of a pair's lower half is taken too, with a zero for the other. The result is the same as that of the single
//! operations, for sums wrap.

use irc_syntax::{BinaryOp, DType, Expr, ExprKind, Name};

use super::super::affine::Poly;
use super::super::vir::{BinOp, Elem, Inst, Reg};
use super::value::Val;
use super::{LANE, Lower};

/// An element that is a factor: the buffer's dtype and name, the number of lanes' steps, and the index without lanes.
struct Factor {
    name: Name,
    dtype: DType,
    step: i64,
    at: Poly,
}

impl Lower<'_> {
    /// `lhs + rhs` where `rhs` is a product of elements of pairs, and `lhs` may end in the product of their other halves.
    pub(super) fn pairs(&mut self, lhs: &Expr, rhs: &Expr) -> Option<Val> {
        let (a, b) = product(rhs)?;
        let (high_a, high_b) = (self.factor(a)?, self.factor(b)?);
        if high_a.step != 2 && high_b.step != 2 {
            return None;
        }
        let lower_half = |lower: &mut Self| {
            let ExprKind::Binary {
                op: BinaryOp::Add,
                lhs: sum,
                rhs: first,
            } = &lhs.kind
            else {
                return None;
            };
            let (a, b) = product(first)?;
            let (low_a, low_b) = (lower.factor(a)?, lower.factor(b)?);
            (is_next(&low_a, &high_a) && is_next(&low_b, &high_b)).then_some((sum, low_a, low_b))
        };
        let (sum, a, b) = match lower_half(self) {
            Some((sum, low_a, low_b)) => {
                let Val::I32(sum) = self.expr(sum)? else {
                    return None;
                };
                (sum, self.both(&low_a)?, self.both(&low_b)?)
            }
            None => {
                let Val::I32(sum) = self.expr(lhs)? else {
                    return None;
                };
                // One operand has a zero in the other half; reading the other one's is reading inside its buffer.
                let (one, pair, text) = match (high_a.step, high_b.step) {
                    (0, 2) => (high_a, high_b, b),
                    (2, 0) => (high_b, high_a, a),
                    _ => return None,
                };
                self.is_first_of_two(text).then_some(())?;
                (sum, self.lower_only(&one)?, self.both(&pair)?)
            }
        };
        let products = self.b.bin(BinOp::Pairs, a, b);
        Some(Val::I32(self.b.bin(BinOp::Add, sum, products)))
    }

    /// `T.Cast("int32", buffer[…])` of a narrow buffer whose lanes read one element or go in steps of two.
    fn factor(&mut self, expr: &Expr) -> Option<Factor> {
        let (name, index) = element(expr)?;
        let dtype = self.env.buffers.get(name)?.dtype;
        matches!(dtype, DType::I8 | DType::I16).then_some(())?;
        if self.local_names.contains(name) {
            return None;
        }
        let (lane, at) = self.flat_index(name, index)?.split(LANE)?;
        let step = lane.as_constant().filter(|step| [0, 2].contains(step))?;
        let name = name.clone();
        Some(Factor {
            name,
            dtype,
            step,
            at,
        })
    }

    /// Two elements in each lane.
    fn both(&mut self, factor: &Factor) -> Option<Reg> {
        let elem = match factor.dtype {
            DType::I16 => Elem::I32,
            _ => Elem::I8Pair,
        };
        let vector = factor.step == 2;
        let mask = if vector { self.mask } else { None };
        self.load_reg(&factor.name, &factor.at, vector, elem, mask)
    }

    /// `B[k, vi, which] = value` where `B` holds pairs of int16: the other halves stay.
    pub(super) fn store_half(
        &mut self,
        name: &Name,
        index: &[Expr],
        at: &Poly,
        value: &Expr,
    ) -> Option<()> {
        let which = index.last().and_then(Expr::as_int)?;
        (self.last_extent(name) == Some(2) && (which == 0 || which == 1)).then_some(())?;
        let new = self.expr(value)?;
        let new = self.convert(new, DType::I16)?;
        let pair = at.add_constant(-(which as i64));
        let mask = self.mask;
        let old = self.load_reg(name, &pair, true, Elem::I32, mask)?;
        let low = self.b.i32(0xFFFF);
        let (kept, added) = if which == 0 {
            let kept = self.b.bin(BinOp::AndNot, low, old);
            (kept, self.b.bin(BinOp::And, new, low))
        } else {
            let by = self.b.i32(16);
            let kept = self.b.bin(BinOp::And, old, low);
            (kept, self.b.bin(BinOp::Shl, new, by))
        };
        let src = self.b.bin(BinOp::Or, kept, added);
        let mem = self.mem(name, &pair, Elem::I16)?;
        self.b.push(Inst::Store {
            elem: Elem::I32,
            mem,
            src,
            mask,
        });
        self.forget(name);
        Some(())
    }

    /// One element in the lower half of all lanes, 0 in the upper.
    fn lower_only(&mut self, factor: &Factor) -> Option<Reg> {
        let elem = match factor.dtype {
            DType::I16 => Elem::I16,
            _ => Elem::I8,
        };
        let wide = self.load_reg(&factor.name, &factor.at, false, elem, None)?;
        let low = self.b.i32(0xFFFF);
        Some(self.b.bin(BinOp::And, wide, low))
    }

    /// Whether the index of an access along a last axis of extent 2 is 0.
    fn is_first_of_two(&self, expr: &Expr) -> bool {
        let Some((name, index)) = element(expr) else {
            return false;
        };
        self.last_extent(name) == Some(2) && index.last().and_then(Expr::as_int) == Some(0)
    }

    /// The extent of a buffer's last axis, along which its elements lie beside each other.
    fn last_extent(&self, name: &Name) -> Option<i128> {
        let buffer = self.env.buffers.get(name)?;
        buffer.strides.is_none().then_some(())?;
        buffer.shape.last()?.as_int()
    }
}

/// The factors of a product.
fn product(expr: &Expr) -> Option<(&Expr, &Expr)> {
    match &expr.kind {
        ExprKind::Binary {
            op: BinaryOp::Mul,
            lhs,
            rhs,
        } => Some((lhs, rhs)),
        _ => None,
    }
}

/// The buffer and index of an element that is cast to int32.
fn element(expr: &Expr) -> Option<(&Name, &[Expr])> {
    let (path, args) = expr.as_call()?;
    let [dtype, value] = args else { return None };
    (path == "T.Cast" && dtype.value.as_str() == Some("int32")).then_some(())?;
    let ExprKind::Index { value, index } = &value.value.kind else {
        return None;
    };
    Some((value.as_name()?, index))
}

fn is_next(low: &Factor, high: &Factor) -> bool {
    low.name == high.name && low.step == high.step && high.at.sub(&low.at).as_constant() == Some(1)
}
