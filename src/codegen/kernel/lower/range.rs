//! What is known of lanes: bounds, whole numbers, that none is NaN.
//!
//! ```text
//! v = T.min(T.max(T.nearbyint(x) + T.float32(136.0), T.float32(0.0)), T.float32(255.0))
//! T.Cast("float32", T.Cast("int32", T.Cast("uint8", v)) - T.int32(136))     →     f5 = max f4 0; f6 = add f5 -136
//! ```
//!
//! A value in the range of a narrow integer is not wrapped to it, and a small whole number that was float32 before stays
//! one. Bounds follow IEEE 754: an operation rounds its exact result, and rounding keeps order, so what it gives for
//! the bounds of its operands are the bounds of its result.

use irc_syntax::DType;

use super::super::vir::{BinOp, CmpOp, Reg, Ty, UnOp};
use super::Lower;
use super::value::Val;

/// All whole numbers up to here are float32 numbers.
const EXACT: f64 = 16_777_216.0;

/// What holds for every lane of a register.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Range {
    /// No lane is below but NaN.
    low: f64,
    /// No lane is above but NaN.
    high: f64,
    /// Every lane is a whole number, infinite or NaN.
    whole: bool,
    /// A lane may be NaN.
    nan: bool,
}

/// Where the lanes of an int32 register come from: whole float32 lanes, and what was added since.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    from: Reg,
    plus: f64,
}

impl Range {
    fn ints(low: f64, high: f64) -> Self {
        Self {
            low,
            high,
            whole: true,
            nan: false,
        }
    }

    /// The values of an integer dtype of at most 32 bits.
    fn of(dtype: DType) -> Option<Self> {
        Some(match dtype {
            DType::U8 => Self::ints(0.0, 255.0),
            DType::I8 => Self::ints(-128.0, 127.0),
            DType::I16 => Self::ints(-32_768.0, 32_767.0),
            DType::I32 => Self::ints(f64::from(i32::MIN), f64::from(i32::MAX)),
            _ => return None,
        })
    }

    /// Whether all lanes that are numbers lie in a dtype's range once their fractions are cut off.
    pub(super) fn fits(&self, dtype: DType) -> bool {
        let within = |all: Self| all.low <= self.low.trunc() && self.high.trunc() <= all.high;
        Self::of(dtype).is_some_and(within)
    }

    /// Whether no lane is NaN.
    pub(super) fn is_number(&self) -> bool {
        !self.nan
    }

    /// The range of `a op b`, where it is known.
    fn joined(op: BinOp, ty: Ty, a: &Self, b: &Self) -> Option<Self> {
        let finite = [a.low, a.high, b.low, b.high].iter().all(|x| x.is_finite());
        let by_zero = op == BinOp::Div && b.low <= 0.0 && b.high >= 0.0;
        // Infinities and zeros are what makes new NaN.
        if by_zero || !(finite || matches!(op, BinOp::Min | BinOp::Max)) {
            return None;
        }
        let corners = [
            (a.low, b.low),
            (a.low, b.high),
            (a.high, b.low),
            (a.high, b.high),
        ];
        let mut low = f64::INFINITY;
        let mut high = f64::NEG_INFINITY;
        for (x, y) in corners {
            let res = match op {
                BinOp::Add => x + y,
                BinOp::Sub => x - y,
                BinOp::Mul => x * y,
                BinOp::Div => x / y,
                BinOp::Min => x.min(y),
                BinOp::Max => x.max(y),
                _ => return None,
            };
            // float64 has so many digits more that rounding twice is rounding once (Figueroa 1995).
            let res = if ty == Ty::F32 {
                f64::from(res as f32)
            } else {
                res
            };
            (low, high) = (low.min(res), high.max(res));
        }
        let res = Self {
            low,
            high,
            whole: a.whole && b.whole && op != BinOp::Div,
            nan: a.nan || b.nan,
        };
        (ty == Ty::F32 || res.fits(DType::I32)).then_some(res)
    }
}

impl Lower<'_> {
    /// What is known of a register that is not written again.
    pub(super) fn range(&self, reg: Reg) -> Range {
        if let Some(range) = self.ranges.get(&reg) {
            return *range;
        }
        let ty = self.b.ty(reg);
        if let Some(bits) = self.b.as_constant(reg) {
            let value = match ty {
                Ty::F32 => f64::from(f32::from_bits(bits)),
                _ => f64::from(bits as i32),
            };
            return Range {
                low: value,
                high: value,
                whole: value == value.trunc(),
                nan: value.is_nan(),
            };
        }
        let unknown = Range {
            low: f64::NEG_INFINITY,
            high: f64::INFINITY,
            whole: false,
            nan: true,
        };
        let ints = Range::of(DType::I32).unwrap_or(unknown);
        if ty == Ty::I32 { ints } else { unknown }
    }

    /// Keeps that a fresh register holds a value of a dtype.
    pub(super) fn note_dtype(&mut self, reg: Reg, dtype: DType) {
        if let Some(range) = Range::of(dtype) {
            self.ranges.entry(reg).or_insert(range);
        }
    }

    /// `a op b` of float32 or int32 lanes, and what is known of it.
    pub(super) fn bin(&mut self, op: BinOp, a: Reg, b: Reg) -> Reg {
        let res = self.b.bin(op, a, b);
        let (x, y) = (self.range(a), self.range(b));
        if let Some(range) = Range::joined(op, self.b.ty(a), &x, &y) {
            self.ranges.insert(res, range);
        }
        // A sum of a whole number that was float32 and a constant is one still.
        let moved = match (op, self.b.as_constant(a), self.b.as_constant(b)) {
            (BinOp::Add, _, Some(by)) => Some((a, f64::from(by as i32))),
            (BinOp::Add, Some(by), _) => Some((b, f64::from(by as i32))),
            (BinOp::Sub, _, Some(by)) => Some((a, -f64::from(by as i32))),
            _ => None,
        };
        if let Some((of, by)) = moved
            && let Some(origin) = self.origins.get(&of).copied()
        {
            let plus = origin.plus + by;
            let range = self.range(res);
            if [plus, range.low, range.high]
                .iter()
                .all(|x| x.abs() <= EXACT)
            {
                self.origins.insert(res, Origin { plus, ..origin });
            }
        }
        res
    }

    /// `op a` where the operation gives whole numbers, and what is known of it.
    pub(super) fn whole(&mut self, op: UnOp, a: Reg) -> Reg {
        let res = self.b.un(op, a);
        let range = self.range(a);
        let apply = |x: f64| match op {
            UnOp::Floor => x.floor(),
            UnOp::Ceil => x.ceil(),
            UnOp::Trunc => x.trunc(),
            _ => x.round_ties_even(),
        };
        let whole = Range {
            low: apply(range.low),
            high: apply(range.high),
            whole: true,
            nan: range.nan,
        };
        self.ranges.insert(res, whole);
        res
    }

    /// float32 lanes as int8 or uint8: the low byte of the value as a 64-bit integer, which saturates.
    pub(super) fn as_byte(&mut self, dtype: DType, reg: Reg) -> Val {
        let range = self.range(reg);
        let low = self.b.un(UnOp::ToInt, reg);
        if range.fits(dtype) && range.is_number() {
            self.ranges
                .insert(low, Range::ints(range.low.trunc(), range.high.trunc()));
            if range.whole {
                self.origins.insert(
                    low,
                    Origin {
                        from: reg,
                        plus: 0.0,
                    },
                );
            }
            return Val::Narrow(low, dtype);
        }
        // From 2^31 on the low byte is 0, as is that of what the instruction gives there, up to where it saturates above.
        let limit = 9_223_372_036_854_775_808.0;
        let mut whole = low;
        if range.high >= limit {
            let above = self.b.f32(limit as f32);
            let above = self.b.cmp(CmpOp::Ge, reg, above);
            let ones = self.b.i32(-1);
            whole = self.b.select(above, ones, low);
        }
        let res = self.low_of(dtype, whole);
        // NaN becomes 0, which is what the larger of it and 0 is.
        if let Val::Narrow(byte, DType::U8) = res
            && range.fits(DType::U8)
            && range.whole
        {
            self.origins.insert(
                byte,
                Origin {
                    from: reg,
                    plus: 0.0,
                },
            );
        }
        res
    }

    /// int32 lanes as float32.
    pub(super) fn as_float(&mut self, reg: Reg) -> Reg {
        let range = self.range(reg);
        let res = match self.origins.get(&reg).copied() {
            None => self.b.un(UnOp::ToFloat, reg),
            Some(origin) => {
                let from = self.range(origin.from);
                let mut res = origin.from;
                if from.nan {
                    let zero = self.b.f32(0.0);
                    res = self.b.bin(BinOp::Max, res, zero);
                }
                // Adding 0 makes zeros positive, as those of integers are.
                if origin.plus != 0.0 || !from.nan {
                    let by = self.b.f32(origin.plus as f32);
                    res = self.b.bin(BinOp::Add, res, by);
                }
                res
            }
        };
        let bounds = |x: f64| f64::from(x as f32);
        self.ranges
            .insert(res, Range::ints(bounds(range.low), bounds(range.high)));
        res
    }
}
