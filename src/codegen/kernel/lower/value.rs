//! Values: expressions to vectors, of one lane's worth of meaning each.
//!
//! Nothing is converted silently but integer constants and index arithmetic, which become what the other operand is.

use irc_syntax::{BinaryOp, DType, Expr, ExprKind, UnaryOp};

use super::super::affine::Poly;
use super::super::vir::{BinOp, CmpOp, Inst, Reg, Src, Ty, UnOp};
use super::super::{KernelArg, math};
use super::cond::{Cond, comparison};
use super::{Bind, LANE, Lower};

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Val {
    /// Index arithmetic, constants.
    Int(Poly),
    /// float32 lanes.
    F32(Reg),
    /// int32 lanes.
    I32(Reg),
    /// float16, held as float32 lanes.
    Half(Reg),
    /// int8, uint8 or int16, held as int32 lanes.
    Narrow(Reg, DType),
    /// bool lanes.
    Mask(Reg),
    /// bool, not in a register yet.
    Cond(Cond),
}

impl Lower<'_> {
    /// The value of an expression.
    pub(super) fn expr(&mut self, expr: &Expr) -> Option<Val> {
        let value = self.expr_parts(expr);
        if value.is_none() && self.blame.is_none() {
            self.blame = Some(format!("`{}`", irc_syntax::print_expr(expr)));
        }
        value
    }

    fn expr_parts(&mut self, expr: &Expr) -> Option<Val> {
        match &expr.kind {
            ExprKind::Name(name) => match self.names.get(name) {
                Some(Bind::Val(value)) => Some(value.clone()),
                Some(Bind::Local(_)) => None,
                None => self.scalar(expr),
            },
            ExprKind::Int(_) => Some(Val::Int(self.poly(expr)?)),
            ExprKind::Float(value) => Some(Val::F32(self.b.f32(*value as f32))),
            ExprKind::Bool(value) => Some(Val::Cond(Cond::Known(*value))),
            ExprKind::Index { value, index } => {
                let name = value.as_name()?;
                if let Some(Bind::Local(local)) = self.names.get(name) {
                    let reg = self.local_reg(*local, index)?;
                    return Some(match self.b.ty(reg) {
                        Ty::F32 => Val::F32(reg),
                        Ty::Mask => Val::Mask(reg),
                        Ty::I32 | Ty::Int => Val::I32(reg),
                    });
                }
                let at = self.flat_index(name, index)?;
                let (lane, rest) = at.split(LANE)?;
                match lane.as_constant()? {
                    0 => self.load_at(name, &rest, false),
                    1 => self.load_at(name, &rest, true),
                    _ => None,
                }
            }
            ExprKind::Unary { op, value } => self.unary(*op, value),
            ExprKind::Binary { op, lhs, rhs } => self.binary(expr, *op, lhs, rhs),
            ExprKind::Call { .. } => self.call(expr),
            ExprKind::Str(_)
            | ExprKind::None
            | ExprKind::Ellipsis
            | ExprKind::Attr { .. }
            | ExprKind::Slice { .. }
            | ExprKind::Tuple { .. }
            | ExprKind::List(_)
            | ExprKind::Dict(_)
            | ExprKind::IfElse { .. }
            | ExprKind::ListComp { .. }
            | ExprKind::Starred(_)
            | ExprKind::Error => None,
        }
    }

    /// A scalar from around the region.
    fn scalar(&mut self, expr: &Expr) -> Option<Val> {
        let name = expr.as_name()?;
        if *self.env.scalars.get(name)? != DType::F32 {
            return Some(Val::Int(self.poly(expr)?));
        }
        let src = self.argument(KernelArg::Float(name.clone()));
        let dst = self.b.reg(Ty::F32);
        self.b.push_at(0, Inst::Splat { dst, src });
        self.shared.insert(dst);
        self.names.insert(name.clone(), Bind::Val(Val::F32(dst)));
        Some(Val::F32(dst))
    }

    /// A value to keep under a name: nothing written later changes it.
    pub(super) fn settle(&mut self, value: Val) -> Option<Val> {
        let value = match value {
            Val::Cond(Cond::Mask(mask)) => Val::Mask(mask),
            other => other,
        };
        let keep = |lower: &mut Self, reg: Reg| {
            let is_local = lower
                .locals
                .iter()
                .any(|local| local.regs.values().any(|&r| r == reg));
            let reg = if is_local {
                lower.b.un(UnOp::Copy, reg)
            } else {
                reg
            };
            lower.shared.insert(reg);
            reg
        };
        Some(match value {
            Val::F32(reg) => Val::F32(keep(self, reg)),
            Val::I32(reg) => Val::I32(keep(self, reg)),
            Val::Half(reg) => Val::Half(keep(self, reg)),
            Val::Narrow(reg, dtype) => Val::Narrow(keep(self, reg), dtype),
            Val::Mask(reg) => Val::Mask(keep(self, reg)),
            Val::Int(_) | Val::Cond(_) => value,
        })
    }

    /// Writes a value to a register that lives on; the instruction that made it writes there at once, where no other
    /// name stands for it.
    pub(super) fn write(&mut self, to: Reg, from: Reg) {
        let is_local = self
            .locals
            .iter()
            .any(|local| local.regs.values().any(|&reg| reg == from));
        if is_local || self.shared.contains(&from) || self.mask == Some(from) {
            if to != from {
                self.b.push(Inst::Un {
                    op: UnOp::Copy,
                    dst: to,
                    a: from,
                });
            }
        } else {
            self.b.write_to(to, from);
        }
    }

    /// The lanes of a value as what a buffer or register array of a dtype holds.
    pub(super) fn convert(&mut self, value: Val, dtype: DType) -> Option<Reg> {
        match (value, dtype) {
            (Val::F32(reg), DType::F32) | (Val::I32(reg), DType::I32) => Some(reg),
            (Val::Half(reg), DType::F16) => Some(reg),
            (Val::Narrow(reg, from), to) if from == to => Some(reg),
            (Val::Mask(mask), DType::Bool) => Some(mask),
            (Val::Cond(cond), DType::Bool) => Some(self.mask_of(cond)),
            (Val::Int(poly), DType::I32 | DType::I16 | DType::I8 | DType::U8) => {
                self.lanes_of(&poly)
            }
            (Val::Int(poly), DType::F32 | DType::F16) => {
                Some(self.b.f32(poly.as_constant()? as f32))
            }
            _ => None,
        }
    }

    /// Index arithmetic as int32 lanes.
    pub(super) fn lanes_of(&mut self, poly: &Poly) -> Option<Reg> {
        if let Some(value) = poly.as_constant() {
            return Some(self.b.i32(i32::try_from(value).ok()?));
        }
        let (lane, rest) = poly.split(LANE)?;
        let lane = i32::try_from(lane.as_constant()?).ok()?;
        let rest = match self.int(&rest) {
            Src::Imm(value) => self.b.i32(i32::try_from(value).ok()?),
            Src::Reg(src) => {
                let dst = self.b.reg(Ty::I32);
                self.b.push(Inst::Splat { dst, src });
                dst
            }
        };
        if lane == 0 {
            return Some(rest);
        }
        let mut iota = self.b.reg(Ty::I32);
        self.b.push(Inst::Iota { dst: iota });
        if lane != 1 {
            let by = self.b.i32(lane);
            iota = self.b.bin(BinOp::Mul, iota, by);
        }
        Some(self.b.bin(BinOp::Add, rest, iota))
    }

    fn unary(&mut self, op: UnaryOp, value: &Expr) -> Option<Val> {
        let value = self.expr(value)?;
        match (op, value) {
            (UnaryOp::Pos, value) => Some(value),
            (UnaryOp::Neg, Val::Int(poly)) => Some(Val::Int(poly.scale(-1))),
            (UnaryOp::Neg, Val::F32(reg)) => {
                let sign = self.b.f32(-0.0);
                Some(Val::F32(self.b.bin(BinOp::Xor, reg, sign)))
            }
            (UnaryOp::Neg, Val::Half(reg)) => {
                let sign = self.b.f32(-0.0);
                Some(Val::Half(self.b.bin(BinOp::Xor, reg, sign)))
            }
            (UnaryOp::Neg, Val::I32(reg)) => {
                let zero = self.b.i32(0);
                Some(Val::I32(self.b.bin(BinOp::Sub, zero, reg)))
            }
            (UnaryOp::Not, Val::Mask(mask)) => Some(Val::Cond(Cond::Mask(mask).not())),
            (UnaryOp::Not, Val::Cond(cond)) => Some(Val::Cond(cond.not())),
            (UnaryOp::Invert, Val::I32(reg)) => Some(Val::I32(self.b.un(UnOp::Not, reg))),
            _ => None,
        }
    }

    fn binary(&mut self, expr: &Expr, op: BinaryOp, lhs: &Expr, rhs: &Expr) -> Option<Val> {
        match op {
            BinaryOp::And | BinaryOp::Or => {
                let (a, b) = (self.cond(lhs)?, self.cond(rhs)?);
                return Some(Val::Cond(if op == BinaryOp::And {
                    a.and(b)
                } else {
                    a.or(b)
                }));
            }
            BinaryOp::Eq
            | BinaryOp::Ne
            | BinaryOp::Lt
            | BinaryOp::Le
            | BinaryOp::Gt
            | BinaryOp::Ge => {
                let (op, a, b) = comparison(expr)?;
                return self.compare(op, a, b);
            }
            BinaryOp::Add | BinaryOp::Sub => {
                if op == BinaryOp::Add
                    && let Some(value) = self.pairs(lhs, rhs)
                {
                    return Some(value);
                }
                if let Some(value) = self.fused(op, lhs, rhs) {
                    return Some(value);
                }
            }
            _ => {}
        }
        let (a, b) = (self.expr(lhs)?, self.expr(rhs)?);
        self.arithmetic(op, a, b)
    }

    /// `a op b` of values.
    pub(super) fn arithmetic(&mut self, op: BinaryOp, a: Val, b: Val) -> Option<Val> {
        use super::super::vir::IntOp;
        if let (Val::Int(a), Val::Int(b)) = (&a, &b) {
            return Some(Val::Int(match op {
                BinaryOp::Add => a.add(b),
                BinaryOp::Sub => a.sub(b),
                BinaryOp::Mul => a.mul(b),
                BinaryOp::FloorDiv => self.opaque(IntOp::Div, a.clone(), b.clone())?,
                BinaryOp::Mod => self.opaque(IntOp::Mod, a.clone(), b.clone())?,
                _ => return None,
            }));
        }
        if let (Val::Half(a), Val::Half(b)) = (&a, &b) {
            // f32 has more than twice the digits: rounding twice is rounding once.
            let Some(Val::F32(res)) = self.arithmetic(op, Val::F32(*a), Val::F32(*b)) else {
                return None;
            };
            return Some(Val::Half(self.b.un(UnOp::RoundHalf, res)));
        }
        if let (Val::Narrow(x, dtype), Val::Narrow(y, other)) = (&a, &b)
            && dtype == other
            && matches!(op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul)
        {
            let Some(Val::I32(res)) = self.arithmetic(op, Val::I32(*x), Val::I32(*y)) else {
                return None;
            };
            return Some(self.low_of(*dtype, res));
        }
        let (ty, a, b) = self.same_type(a, b)?;
        let op = match (op, ty) {
            (BinaryOp::Add, _) => BinOp::Add,
            (BinaryOp::Sub, _) => BinOp::Sub,
            (BinaryOp::Mul, _) => BinOp::Mul,
            (BinaryOp::Div, Ty::F32) => return Some(Val::F32(self.divide(a, b))),
            (BinaryOp::Pow, Ty::F32) => return Some(Val::F32(math::pow(&mut self.b, a, b))),
            (BinaryOp::BitAnd, Ty::I32) => BinOp::And,
            (BinaryOp::BitOr, Ty::I32) => BinOp::Or,
            (BinaryOp::BitXor, Ty::I32) => BinOp::Xor,
            (BinaryOp::Shl, Ty::I32) => BinOp::Shl,
            (BinaryOp::Shr, Ty::I32) => BinOp::Sar,
            _ => return None,
        };
        let res = self.bin(op, a, b);
        Some(if ty == Ty::F32 {
            Val::F32(res)
        } else {
            Val::I32(res)
        })
    }

    /// A division; by a power of two it is a multiplication, with the same result.
    pub(super) fn divide(&mut self, a: Reg, b: Reg) -> Reg {
        if let Some(bits) = self.b.as_constant(b) {
            let by = f32::from_bits(bits);
            let normal = by.is_normal() && (1.0 / by).is_normal();
            if normal && bits & 0x007F_FFFF == 0 {
                let inverse = self.b.f32(1.0 / by);
                return self.bin(BinOp::Mul, a, inverse);
            }
        }
        self.bin(BinOp::Div, a, b)
    }

    /// Two float32 or two int32 operands.
    pub(super) fn same_type(&mut self, a: Val, b: Val) -> Option<(Ty, Reg, Reg)> {
        match (a, b) {
            (Val::F32(a), Val::F32(b)) => Some((Ty::F32, a, b)),
            (Val::I32(a), Val::I32(b)) => Some((Ty::I32, a, b)),
            (Val::F32(a), Val::Int(b)) => {
                let b = self.convert(Val::Int(b), DType::F32)?;
                Some((Ty::F32, a, b))
            }
            (Val::Int(a), Val::F32(b)) => {
                let a = self.convert(Val::Int(a), DType::F32)?;
                Some((Ty::F32, a, b))
            }
            (Val::I32(a), Val::Int(b)) => {
                let b = self.lanes_of(&b)?;
                Some((Ty::I32, a, b))
            }
            (Val::Int(a), Val::I32(b)) => {
                let a = self.lanes_of(&a)?;
                Some((Ty::I32, a, b))
            }
            _ => None,
        }
    }

    /// `a * b + c`, `c + a * b` and `c - a * b` in one rounding.
    fn fused(&mut self, op: BinaryOp, lhs: &Expr, rhs: &Expr) -> Option<Val> {
        let product = |expr: &Expr| match &expr.kind {
            ExprKind::Binary {
                op: BinaryOp::Mul,
                lhs,
                rhs,
            } => Some(((**lhs).clone(), (**rhs).clone())),
            _ => None,
        };
        let ((a, b), c, first) = match (product(lhs), product(rhs)) {
            (_, Some(product)) => (product, lhs, false),
            (Some(product), None) if op == BinaryOp::Add => (product, rhs, true),
            _ => return None,
        };
        // Index arithmetic stays what it is.
        if self.poly(c).is_some() && self.poly(&a).is_some() {
            return None;
        }
        // Operands are read in the order they are written.
        let early = if first { None } else { Some(self.expr(c)?) };
        let (a, b) = (self.expr(&a)?, self.expr(&b)?);
        let c = match early {
            Some(value) => value,
            None => self.expr(c)?,
        };
        match (a, b, c) {
            (Val::F32(a), Val::F32(b), Val::F32(c)) => Some(Val::F32(if op == BinaryOp::Add {
                self.b.fma(a, b, c)
            } else {
                self.b.fnma(a, b, c)
            })),
            (a, b, c) => {
                let product = self.arithmetic(BinaryOp::Mul, a, b)?;
                if first {
                    self.arithmetic(op, product, c)
                } else {
                    self.arithmetic(op, c, product)
                }
            }
        }
    }

    /// `a op b` as a condition.
    pub(super) fn compare(&mut self, op: CmpOp, a: &Expr, b: &Expr) -> Option<Val> {
        let (a, b) = (self.expr(a)?, self.expr(b)?);
        match (a, b) {
            (Val::Int(a), Val::Int(b)) => Some(Val::Cond(self.compare_polys(op, &a.sub(&b))?)),
            (Val::Half(a), Val::Half(b)) => Some(Val::Mask(self.b.cmp(op, a, b))),
            (Val::Narrow(a, x), Val::Narrow(b, y)) if x == y => {
                Some(Val::Mask(self.b.cmp(op, a, b)))
            }
            (Val::Mask(_) | Val::Cond(_), _) => None,
            (a, b) => {
                let (_, a, b) = self.same_type(a, b)?;
                Some(Val::Mask(self.b.cmp(op, a, b)))
            }
        }
    }

    /// `mask ? yes : no`
    pub(super) fn blend(&mut self, mask: Reg, yes: Val, no: Val) -> Option<Val> {
        match (yes, no) {
            (Val::Half(a), Val::Half(b)) => Some(Val::Half(self.b.select(mask, a, b))),
            (Val::Narrow(a, x), Val::Narrow(b, y)) if x == y => {
                Some(Val::Narrow(self.b.select(mask, a, b), x))
            }
            (a @ (Val::Mask(_) | Val::Cond(_)), b) => {
                let (a, b) = (self.convert(a, DType::Bool)?, self.convert(b, DType::Bool)?);
                Some(Val::Mask(self.select_mask(mask, a, b)))
            }
            (Val::Int(a), Val::Int(b)) => {
                let (a, b) = (self.lanes_of(&a)?, self.lanes_of(&b)?);
                Some(Val::I32(self.b.select(mask, a, b)))
            }
            (a, b) => {
                let (ty, a, b) = self.same_type(a, b)?;
                let res = self.b.select(mask, a, b);
                Some(if ty == Ty::F32 {
                    Val::F32(res)
                } else {
                    Val::I32(res)
                })
            }
        }
    }

    /// `op` over the lanes that are on, in all lanes.
    pub(super) fn reduce_lanes(&mut self, op: BinOp, expr: &Expr, dtype: DType) -> Option<Reg> {
        let value = self.expr(expr)?;
        let mut src = self.convert(value, dtype)?;
        let float = match self.b.ty(src) {
            Ty::F32 => true,
            Ty::I32 => false,
            Ty::Mask | Ty::Int => return None,
        };
        if let Some(mask) = self.mask {
            let neutral = match (op, float) {
                (BinOp::Add, true) => self.b.f32(0.0),
                (BinOp::Mul, true) => self.b.f32(1.0),
                (BinOp::Max, true) => self.b.f32(f32::NEG_INFINITY),
                (BinOp::Min, true) => self.b.f32(f32::INFINITY),
                (BinOp::Add, false) => self.b.i32(0),
                (BinOp::Mul, false) => self.b.i32(1),
                (BinOp::Max, false) => self.b.i32(i32::MIN),
                (BinOp::Min, false) => self.b.i32(i32::MAX),
                _ => return None,
            };
            src = self.b.select(mask, src, neutral);
        }
        let ty = self.b.ty(src);
        let dst = self.b.reg(ty);
        self.b.push(Inst::Reduce { op, dst, src });
        if float && matches!(op, BinOp::Max | BinOp::Min) {
            // The instruction may drop a NaN; its bits, joined over all lanes, make the result one.
            let nan = self.b.cmp(CmpOp::Ne, src, src);
            let zero = self.b.f32(0.0);
            let bits = self.b.select(nan, src, zero);
            let any = self.b.reg(ty);
            self.b.push(Inst::Reduce {
                op: BinOp::Or,
                dst: any,
                src: bits,
            });
            return Some(self.b.bin(BinOp::Or, dst, any));
        }
        Some(dst)
    }

    /// `a op b` for the operations of reductions; NaN stays NaN.
    pub(super) fn join(&mut self, op: BinOp, a: Reg, b: Reg) -> Option<Reg> {
        match (op, self.b.ty(a)) {
            (BinOp::Max | BinOp::Min, Ty::F32) => Some(self.extremum(op, a, b)),
            _ => Some(self.b.bin(op, a, b)),
        }
    }

    /// Minimum or maximum that is NaN where either side is.
    pub(super) fn extremum(&mut self, op: BinOp, a: Reg, b: Reg) -> Reg {
        // The instruction gives its second operand when either is NaN.
        if self.range(a).is_number() {
            return self.bin(op, a, b);
        }
        if self.range(b).is_number() {
            return self.bin(op, b, a);
        }
        // Of the two orders one gives the NaN, whose exponent survives the union; without NaN they agree.
        let (one, other) = (self.b.bin(op, a, b), self.b.bin(op, b, a));
        self.b.bin(BinOp::Or, one, other)
    }
}
