//! Conditions: known ones vanish, those on integers branch, those on lanes mask.
//!
//! A *bound* is `vi < n`, where `vi` is the variable of a vectorized loop and `n` does not depend on it. Where bounds are
//! known before their loop, the code around is made twice: once for the case that they hold for the whole extent, in
//! which they vanish, and once with masks.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::uses::{bound_names, for_each_expr, mentions};
use irc_syntax::{BinaryOp, DType, Expr, ExprKind, Name, Stmt, StmtKind, UnaryOp};

use super::super::affine::{Atom, Poly};
use super::super::vir::{BinOp, CmpOp, Inst, IntOp, Reg, Src, Ty};
use super::loops::{LoopKind, loop_kind};
use super::value::Val;
use super::{Bind, FrameKind, LANE, Lower, each_stmt, elem_of};

/// A condition.
#[derive(Clone, Debug)]
pub(super) enum Cond {
    /// Decided while compiling.
    Known(bool),
    /// `poly op 0`, the same for all lanes.
    Int(CmpOp, Poly),
    /// The lanes below a number.
    Below(Poly),
    /// Lanes of a mask.
    Mask(Reg),
    /// Both.
    And(Box<Cond>, Box<Cond>),
    /// Either.
    Or(Box<Cond>, Box<Cond>),
    /// The opposite.
    Not(Box<Cond>),
}

impl Cond {
    fn is_scalar(&self) -> bool {
        match self {
            Self::Known(_) | Self::Int(..) => true,
            Self::Below(_) | Self::Mask(_) => false,
            Self::And(a, b) | Self::Or(a, b) => a.is_scalar() && b.is_scalar(),
            Self::Not(a) => a.is_scalar(),
        }
    }

    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Known(true), other) | (other, Self::Known(true)) => other,
            (Self::Known(false), _) | (_, Self::Known(false)) => Self::Known(false),
            (a, b) => Self::And(Box::new(a), Box::new(b)),
        }
    }

    pub(super) fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Known(false), other) | (other, Self::Known(false)) => other,
            (Self::Known(true), _) | (_, Self::Known(true)) => Self::Known(true),
            (a, b) => Self::Or(Box::new(a), Box::new(b)),
        }
    }

    pub(super) fn not(self) -> Self {
        match self {
            Self::Known(value) => Self::Known(!value),
            Self::Not(inner) => *inner,
            other => Self::Not(Box::new(other)),
        }
    }

    /// The part that is the same for all lanes, and the rest.
    fn parts(self) -> (Self, Self) {
        match self {
            Self::And(a, b) => {
                let ((a_int, a_lanes), (b_int, b_lanes)) = (a.parts(), b.parts());
                (a_int.and(b_int), a_lanes.and(b_lanes))
            }
            other if other.is_scalar() => (other, Self::Known(true)),
            other => (Self::Known(true), other),
        }
    }
}

/// A bound that could be dropped: `vi < below` in a loop of `extent` lanes.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Bound {
    pub(super) below: Poly,
    pub(super) extent: i64,
}

impl Lower<'_> {
    /// A condition.
    pub(super) fn cond(&mut self, expr: &Expr) -> Option<Cond> {
        match &expr.kind {
            ExprKind::Bool(value) => return Some(Cond::Known(*value)),
            ExprKind::Unary {
                op: UnaryOp::Not,
                value,
            } => return Some(self.cond(value)?.not()),
            ExprKind::Binary {
                op: BinaryOp::And,
                lhs,
                rhs,
            } => {
                return Some(self.cond(lhs)?.and(self.cond(rhs)?));
            }
            ExprKind::Binary {
                op: BinaryOp::Or,
                lhs,
                rhs,
            } => {
                return Some(self.cond(lhs)?.or(self.cond(rhs)?));
            }
            _ => {}
        }
        if let Some((op, a, b)) = comparison(expr)
            && let (Some(a), Some(b)) = (self.poly(a), self.poly(b))
        {
            return self.compare_polys(op, &a.sub(&b));
        }
        match self.expr(expr)? {
            Val::Cond(cond) => Some(cond),
            Val::Mask(mask) => Some(Cond::Mask(mask)),
            Val::Int(poly) => self.compare_polys(CmpOp::Ne, &poly),
            Val::F32(_) | Val::I32(_) | Val::Half(_) | Val::Narrow(..) => None,
        }
    }

    /// `delta op 0`
    pub(super) fn compare_polys(&mut self, op: CmpOp, delta: &Poly) -> Option<Cond> {
        if let Some(value) = delta.as_constant() {
            return Some(Cond::Known(holds(op, value)));
        }
        let (lane, rest) = delta.split(LANE)?;
        let cond = match (lane.as_constant()?, op) {
            (0, op) => {
                let key = (op, rest);
                if self.known.contains(&key) {
                    return Some(Cond::Known(true));
                }
                if let Some(asked) = &mut self.asked {
                    asked.insert(key.clone());
                }
                return Some(Cond::Int(key.0, key.1));
            }
            // lane + rest < 0, that is, lane < -rest.
            (1, CmpOp::Lt) => self.below(rest.scale(-1)),
            (1, CmpOp::Le) => self.below(rest.scale(-1).add_constant(1)),
            (1, CmpOp::Ge) => self.below(rest.scale(-1)).not(),
            (1, CmpOp::Gt) => self.below(rest.scale(-1).add_constant(1)).not(),
            // rest - lane > 0, that is, lane < rest.
            (-1, CmpOp::Gt) => self.below(rest),
            (-1, CmpOp::Ge) => self.below(rest.add_constant(1)),
            (-1, CmpOp::Le) => self.below(rest).not(),
            (-1, CmpOp::Lt) => self.below(rest.add_constant(1)).not(),
            (1 | -1, CmpOp::Eq | CmpOp::Ne) => {
                let (a, zero) = (self.lanes_of(delta)?, self.b.i32(0));
                Cond::Mask(self.b.cmp(op, a, zero))
            }
            _ => return None,
        };
        Some(cond)
    }

    /// The lanes of the vector at hand below a number.
    fn below(&mut self, below: Poly) -> Cond {
        let (extent, first) = self.chunk.unwrap_or((0, 0));
        let bound = Bound {
            below: below.add_constant(first),
            extent,
        };
        if self.holds(&bound) {
            return Cond::Known(true);
        }
        match below.as_constant() {
            Some(below) if below <= 0 => Cond::Known(false),
            Some(below) if below >= self.b.lanes() => Cond::Known(true),
            _ => Cond::Below(below),
        }
    }

    /// Whether a bound is known to hold for its whole loop.
    pub(super) fn holds(&self, bound: &Bound) -> bool {
        self.assumed.contains(&bound.below)
            || bound
                .below
                .as_constant()
                .is_some_and(|below| below >= bound.extent)
    }

    /// Whether code has yet to be made apart for the case that a bound holds.
    pub(super) fn is_open(&self, bound: &Bound) -> bool {
        !self.holds(bound) && !self.masked.contains(&bound.below)
    }

    /// The mask of a condition.
    pub(super) fn mask_of(&mut self, cond: Cond) -> Reg {
        match cond {
            Cond::Known(value) => self.b.constant(Ty::Mask, if value { u32::MAX } else { 0 }),
            Cond::Mask(mask) => mask,
            Cond::Below(below) => self.lane_mask(&below),
            Cond::Int(..) => {
                let flag = self.flag(&cond);
                let lanes = self.b.reg(Ty::I32);
                self.b.push(Inst::Splat {
                    dst: lanes,
                    src: flag,
                });
                let zero = self.b.i32(0);
                self.b.cmp(CmpOp::Ne, lanes, zero)
            }
            Cond::And(a, b) => {
                let (a, b) = (self.mask_of(*a), self.mask_of(*b));
                self.b.bin(BinOp::And, a, b)
            }
            Cond::Or(a, b) => {
                let (a, b) = (self.mask_of(*a), self.mask_of(*b));
                self.b.bin(BinOp::Or, a, b)
            }
            Cond::Not(a) => {
                let a = self.mask_of(*a);
                self.b.un(super::super::vir::UnOp::Not, a)
            }
        }
    }

    /// The mask of the lanes below a number, made outside the loops in which it does not vary.
    pub(super) fn lane_mask(&mut self, below: &Poly) -> Reg {
        if let Some(&mask) = self.frames.iter().find_map(|frame| frame.masks.get(below)) {
            return mask;
        }
        let home = self.home(below);
        let frame = self.outside(home);
        let count = match self.int(below) {
            Src::Imm(value) => {
                let dst = self.b.reg(Ty::Int);
                let value = value.clamp(0, self.b.lanes());
                self.b.push_at(
                    frame,
                    Inst::Move {
                        dst,
                        src: Src::Imm(value),
                    },
                );
                dst
            }
            count => {
                let (low, high) = (self.b.reg(Ty::Int), self.b.reg(Ty::Int));
                let lanes = Src::Imm(self.b.lanes());
                let op = IntOp::Max;
                self.b.push_at(
                    frame,
                    Inst::Int {
                        op,
                        dst: low,
                        a: count,
                        b: Src::Imm(0),
                    },
                );
                let op = IntOp::Min;
                self.b.push_at(
                    frame,
                    Inst::Int {
                        op,
                        dst: high,
                        a: Src::Reg(low),
                        b: lanes,
                    },
                );
                high
            }
        };
        let dst = self.b.reg(Ty::Mask);
        self.b.push_at(frame, Inst::Lanes { dst, count });
        self.frames[frame].masks.insert(below.clone(), dst);
        dst
    }

    /// 1 when a condition that is the same for all lanes holds, else 0.
    fn flag(&mut self, cond: &Cond) -> Reg {
        let dst = self.b.reg(Ty::Int);
        match cond {
            Cond::Known(value) => {
                self.b.push(Inst::Move {
                    dst,
                    src: Src::Imm(i64::from(*value)),
                });
            }
            Cond::Int(op, poly) => {
                let key = (*op, poly.clone());
                if let Some(&flag) = self.frames.iter().find_map(|frame| frame.flags.get(&key)) {
                    return flag;
                }
                let frame = self.outside(self.home(poly));
                let a = self.int(poly);
                self.b.push_at(
                    frame,
                    Inst::Move {
                        dst,
                        src: Src::Imm(0),
                    },
                );
                let then = vec![Inst::Move {
                    dst,
                    src: Src::Imm(1),
                }];
                let (op, b, orelse) = (*op, Src::Imm(0), Vec::new());
                self.b.push_at(
                    frame,
                    Inst::If {
                        op,
                        a,
                        b,
                        then,
                        orelse,
                    },
                );
                self.frames[frame].flags.insert(key, dst);
            }
            Cond::And(a, b) | Cond::Or(a, b) => {
                let (a, b) = (Src::Reg(self.flag(a)), Src::Reg(self.flag(b)));
                let both = matches!(cond, Cond::And(..));
                let op = if both { IntOp::Min } else { IntOp::Max };
                self.b.push(Inst::Int { op, dst, a, b });
            }
            Cond::Not(a) => {
                let a = self.flag(a);
                let (op, a, b) = (IntOp::Sub, Src::Imm(1), Src::Reg(a));
                self.b.push(Inst::Int { op, dst, a, b });
            }
            Cond::Below(_) | Cond::Mask(_) => {}
        }
        dst
    }

    /// Code under a condition that is the same for all lanes, in two frames.
    pub(super) fn choose(
        &mut self,
        cond: Cond,
        then: impl FnOnce(&mut Self) -> Option<()>,
        orelse: impl FnOnce(&mut Self) -> Option<()>,
    ) -> Option<()> {
        let (op, poly) = match cond {
            Cond::Known(true) => return then(self),
            Cond::Known(false) => return orelse(self),
            Cond::Int(op, poly) => {
                let a = self.int(&poly);
                (op, a)
            }
            cond => (CmpOp::Ne, Src::Reg(self.flag(&cond))),
        };
        let then = self.side(then)?;
        let orelse = self.side(orelse)?;
        self.b.push(Inst::If {
            op,
            a: poly,
            b: Src::Imm(0),
            then,
            orelse,
        });
        Some(())
    }

    fn side(&mut self, make: impl FnOnce(&mut Self) -> Option<()>) -> Option<Vec<Inst>> {
        let (names, assumed) = (self.names.clone(), self.assumed.clone());
        let (masked, known) = (self.masked.clone(), self.known.clone());
        self.open(FrameKind::Branch);
        make(self)?;
        let insts = self.close();
        self.names = names;
        self.assumed = assumed;
        self.masked = masked;
        self.known = known;
        Some(insts)
    }

    /// `if cond: then else: orelse`
    pub(super) fn branch(&mut self, cond: Cond, then: &[Stmt], orelse: &[Stmt]) -> Option<()> {
        let (scalar, lanes) = cond.parts();
        match (lanes, &scalar) {
            (Cond::Known(true), _) => self.choose(
                scalar,
                |lower| lower.stmts(then),
                |lower| lower.stmts(orelse),
            ),
            (lanes, Cond::Known(true)) => {
                let outer = self.mask;
                let mask = self.mask_of(lanes);
                self.mask = Some(self.under(outer, mask));
                let names = self.names.clone();
                self.stmts(then)?;
                self.names.clone_from(&names);
                if !orelse.is_empty() {
                    self.mask = Some(self.except(outer, mask));
                    self.stmts(orelse)?;
                    self.names = names;
                }
                self.mask = outer;
                Some(())
            }
            (lanes, _) => self.choose(
                scalar,
                |lower| lower.branch(lanes, then, orelse),
                |lower| lower.stmts(orelse),
            ),
        }
    }

    /// `outer and mask`
    pub(super) fn under(&mut self, outer: Option<Reg>, mask: Reg) -> Reg {
        match outer {
            None => mask,
            Some(outer) => self.b.bin(BinOp::And, outer, mask),
        }
    }

    /// `outer and not mask`
    pub(super) fn except(&mut self, outer: Option<Reg>, mask: Reg) -> Reg {
        match outer {
            None => self.b.un(super::super::vir::UnOp::Not, mask),
            Some(outer) => self.b.bin(BinOp::AndNot, mask, outer),
        }
    }

    /// `T.if_then_else(c, a, b)`: the side that is not chosen is not read.
    pub(super) fn choose_value(&mut self, cond: Cond, a: &Expr, b: &Expr) -> Option<Val> {
        let (scalar, lanes) = cond.parts();
        if let Cond::Known(value) = lanes {
            return match scalar {
                Cond::Known(true) if value => self.expr(a),
                Cond::Known(_) => self.expr(b),
                scalar if value => {
                    let dtype = self.dtype_of(a).or_else(|| self.dtype_of(b))?;
                    let dst = self.b.reg(elem_of(dtype)?.ty());
                    let write = |lower: &mut Self, expr: &Expr| {
                        let value = lower.expr(expr)?;
                        let value = lower.convert(value, dtype)?;
                        lower.write(dst, value);
                        Some(())
                    };
                    self.choose(scalar, |l| write(l, a), |l| write(l, b))?;
                    Some(match dtype {
                        DType::F32 => Val::F32(dst),
                        DType::F16 => Val::Half(dst),
                        DType::I32 => Val::I32(dst),
                        dtype => Val::Narrow(dst, dtype),
                    })
                }
                _ => self.expr(b),
            };
        }
        let (mask, outer) = (self.mask_of(scalar.and(lanes)), self.mask);
        self.mask = Some(self.under(outer, mask));
        let yes = self.expr(a);
        self.mask = Some(self.except(outer, mask));
        let no = self.expr(b);
        self.mask = outer;
        self.blend(mask, yes?, no?)
    }

    /// The dtype of a value of lanes, where it shows.
    fn dtype_of(&self, expr: &Expr) -> Option<DType> {
        // The code of the trial goes with its copy.
        match self.clone().expr(expr)? {
            Val::F32(_) => Some(DType::F32),
            Val::I32(_) => Some(DType::I32),
            Val::Half(_) => Some(DType::F16),
            Val::Narrow(_, dtype) => Some(dtype),
            Val::Int(_) | Val::Mask(_) | Val::Cond(_) => None,
        }
    }

    /// Code once for the case that bounds hold and once for the other.
    pub(super) fn unswitch(&mut self, bounds: &[Bound], stmts: &[Stmt]) -> Option<()> {
        let mut all = Cond::Known(true);
        for bound in bounds {
            // below - extent >= 0
            let slack = bound.below.add_constant(-bound.extent);
            all = all.and(self.compare_polys(CmpOp::Ge, &slack)?);
        }
        let full: Vec<Poly> = bounds.iter().map(|bound| bound.below.clone()).collect();
        let masked = full.clone();
        self.choose(
            all,
            |lower| {
                lower.assumed.extend(full);
                lower.plain_stmts(stmts)
            },
            |lower| {
                lower.masked.extend(masked);
                lower.plain_stmts(stmts)
            },
        )
    }

    /// Code once for the case that comparisons of integers hold and once for the other. Of comparisons that differ by a
    /// number only the strictest is made.
    pub(super) fn with_known(
        &mut self,
        asked: BTreeSet<(CmpOp, Poly)>,
        mut make: impl FnMut(&mut Self) -> Option<()>,
    ) -> Option<()> {
        let mut strictest: BTreeMap<(CmpOp, Poly), i64> = BTreeMap::new();
        let mut all = Cond::Known(true);
        for (op, poly) in &asked {
            let rest = poly.constant_part();
            let moving = poly.add_constant(-rest);
            match op {
                CmpOp::Eq | CmpOp::Ne => all = all.and(Cond::Int(*op, poly.clone())),
                CmpOp::Lt | CmpOp::Le => {
                    let most = strictest.entry((*op, moving)).or_insert(rest);
                    *most = rest.max(*most);
                }
                CmpOp::Gt | CmpOp::Ge => {
                    let least = strictest.entry((*op, moving)).or_insert(rest);
                    *least = rest.min(*least);
                }
            }
        }
        for ((op, moving), rest) in strictest {
            all = all.and(Cond::Int(op, moving.add_constant(rest)));
        }
        let flag = self.flag(&all);
        let then = self.side(|lower| {
            lower.known.extend(asked);
            make(lower)
        })?;
        let orelse = self.side(&mut make)?;
        let (op, a, b) = (CmpOp::Ne, Src::Reg(flag), Src::Imm(0));
        self.b.push(Inst::If {
            op,
            a,
            b,
            then,
            orelse,
        });
        Some(())
    }

    /// The bounds in statements that are known here, but for the lane.
    pub(super) fn bounds_in(&mut self, stmts: &[Stmt]) -> Vec<Bound> {
        let mut found = Vec::new();
        let mut inner = BTreeSet::new();
        each_stmt(stmts, &mut |stmt| match &stmt.kind {
            StmtKind::For { target, .. } => inner.extend(bound_names(target)),
            StmtKind::Assign { target, .. } => {
                if let Some(name) = target.as_name() {
                    inner.insert(name.clone());
                }
            }
            _ => {}
        });
        self.find_bounds(stmts, &inner, &mut found);
        found
    }

    fn find_bounds(&mut self, stmts: &[Stmt], inner: &BTreeSet<Name>, found: &mut Vec<Bound>) {
        for stmt in stmts {
            match &stmt.kind {
                StmtKind::For { target, iter, body } => match loop_kind(iter) {
                    Some((LoopKind::Vectorized, range)) => {
                        let extent = range.last().and_then(|range| self.poly(range.1));
                        let extent = extent.and_then(|extent| extent.as_constant());
                        if let (Some(name), Some(extent)) = (target.as_name(), extent) {
                            self.lane_bounds(body, (name, extent), inner, found);
                        }
                    }
                    _ => self.find_bounds(body, inner, found),
                },
                StmtKind::With { body, .. } => self.find_bounds(body, inner, found),
                StmtKind::If { then, orelse, .. } => {
                    self.find_bounds(then, inner, found);
                    self.find_bounds(orelse, inner, found);
                }
                _ => {}
            }
        }
    }

    /// The bounds in the body of a vectorized loop.
    fn lane_bounds(
        &mut self,
        body: &[Stmt],
        (name, extent): (&Name, i64),
        inner: &BTreeSet<Name>,
        found: &mut Vec<Bound>,
    ) {
        let mut comparisons = Vec::new();
        for_each_expr(body, &mut |expr| {
            if let Some((op, a, b)) = comparison(expr) {
                comparisons.push((op, a.clone(), b.clone()));
            }
        });
        let shadowed = self
            .names
            .insert(name.clone(), Bind::Val(Val::Int(Poly::atom(LANE))));
        for (op, a, b) in comparisons {
            let known = [&a, &b]
                .iter()
                .all(|side| !mentions(side, |other| other != name && inner.contains(other)));
            if !known {
                continue;
            }
            let (Some(a), Some(b)) = (self.poly(&a), self.poly(&b)) else {
                continue;
            };
            let Some((lane, rest)) = a.sub(&b).split(LANE) else {
                continue;
            };
            let below = match (lane.as_constant(), op) {
                (Some(1), CmpOp::Lt | CmpOp::Ge) => rest.scale(-1),
                (Some(1), CmpOp::Le | CmpOp::Gt) => rest.scale(-1).add_constant(1),
                (Some(-1), CmpOp::Gt | CmpOp::Le) => rest,
                (Some(-1), CmpOp::Ge | CmpOp::Lt) => rest.add_constant(1),
                _ => continue,
            };
            let bound = Bound { below, extent };
            if bound.below.as_constant().is_none() && !found.contains(&bound) {
                found.push(bound);
            }
        }
        match shadowed {
            Some(bind) => self.names.insert(name.clone(), bind),
            None => self.names.remove(name),
        };
    }
}

/// How far a loop may run until one of its bounds begins to matter: for `a * var + rest < 0` with `a > 0`.
pub(super) fn last_full(bound: &Bound, var: Atom) -> Option<(Poly, i64)> {
    let (step, rest) = bound.below.split(var)?;
    let step = -step.as_constant()?;
    (step > 0).then_some((rest.add_constant(-bound.extent), step))
}

/// The sides of a comparison.
pub(super) fn comparison(expr: &Expr) -> Option<(CmpOp, &Expr, &Expr)> {
    match &expr.kind {
        ExprKind::Binary { op, lhs, rhs } => {
            let op = match op {
                BinaryOp::Eq => CmpOp::Eq,
                BinaryOp::Ne => CmpOp::Ne,
                BinaryOp::Lt => CmpOp::Lt,
                BinaryOp::Le => CmpOp::Le,
                BinaryOp::Gt => CmpOp::Gt,
                BinaryOp::Ge => CmpOp::Ge,
                _ => return None,
            };
            Some((op, lhs, rhs))
        }
        ExprKind::Call { .. } => {
            let (path, args) = expr.as_call()?;
            let [a, b] = args else { return None };
            let op = match path.as_str() {
                "T.EQ" => CmpOp::Eq,
                "T.NE" => CmpOp::Ne,
                "T.LT" => CmpOp::Lt,
                "T.LE" => CmpOp::Le,
                "T.GT" => CmpOp::Gt,
                "T.GE" => CmpOp::Ge,
                _ => return None,
            };
            Some((op, &a.value, &b.value))
        }
        _ => None,
    }
}

fn holds(op: CmpOp, value: i64) -> bool {
    match op {
        CmpOp::Eq => value == 0,
        CmpOp::Ne => value != 0,
        CmpOp::Lt => value < 0,
        CmpOp::Le => value <= 0,
        CmpOp::Gt => value > 0,
        CmpOp::Ge => value >= 0,
    }
}
