//! Integers and addresses: expressions to polynomials, polynomials to registers, accesses to pointers.
//!
//! The pointer of an access is its address without the constant part, which goes into the displacement. A pointer that
//! varies in a serial loop is set in front of it and advanced at its end. Accesses that differ by a product that the
//! loop does not change (rows of a matrix with a symbolic stride) share a pointer and take that product, times 1, 2, 4 or
//! 8, as the index.

use irc_syntax::{BinaryOp, DType, Expr, ExprKind, Name, UnaryOp};

use super::super::KernelArg;
use super::super::affine::{Atom, Poly};
use super::super::vir::{CmpOp, Elem, Inst, IntOp, Mem, Reg, Src, Ty};
use super::{AtomInfo, AtomKind, Bind, Lower, Val, elem_of};

impl Lower<'_> {
    /// An integer expression.
    pub(super) fn poly(&mut self, expr: &Expr) -> Option<Poly> {
        match &expr.kind {
            ExprKind::Int(value) => Some(Poly::constant(i64::try_from(*value).ok()?)),
            ExprKind::Name(name) => self.named_poly(name),
            ExprKind::Unary {
                op: UnaryOp::Neg,
                value,
            } => Some(self.poly(value)?.scale(-1)),
            ExprKind::Binary { op, lhs, rhs } => {
                let (a, b) = (self.poly(lhs)?, self.poly(rhs)?);
                match op {
                    BinaryOp::Add => Some(a.add(&b)),
                    BinaryOp::Sub => Some(a.sub(&b)),
                    BinaryOp::Mul => Some(a.mul(&b)),
                    BinaryOp::FloorDiv => self.opaque(IntOp::Div, a, b),
                    BinaryOp::Mod => self.opaque(IntOp::Mod, a, b),
                    _ => None,
                }
            }
            ExprKind::Call { .. } => self.call_poly(expr),
            _ => None,
        }
    }

    fn named_poly(&mut self, name: &Name) -> Option<Poly> {
        match self.names.get(name) {
            Some(Bind::Val(Val::Int(poly))) => return Some(poly.clone()),
            Some(_) => return None,
            None => {}
        }
        if let Some(poly) = self.symbols.get(name) {
            return Some(poly.clone());
        }
        let dtype = *self.env.scalars.get(name)?;
        if !(dtype.is_int() || dtype == DType::Bool) {
            return None;
        }
        let reg = self.argument(KernelArg::Int(name.clone()));
        let poly = self.atom_of(reg, 0);
        self.symbols.insert(name.clone(), poly.clone());
        Some(poly)
    }

    fn call_poly(&mut self, expr: &Expr) -> Option<Poly> {
        let (path, args) = expr.as_call()?;
        let args: Vec<&Expr> = args.iter().map(|arg| &arg.value).collect();
        let op = match (path.as_str(), args.as_slice()) {
            ("T.int64" | "T.int32" | "T.likely", [value]) => return self.poly(value),
            ("T.Cast", [dtype, value]) => {
                DType::from_name(dtype.as_str()?)?.is_int().then_some(())?;
                return self.poly(value);
            }
            ("T.Add" | "T.Sub" | "T.Mul", [a, b]) => {
                let (a, b) = (self.poly(a)?, self.poly(b)?);
                return Some(match path.as_str() {
                    "T.Add" => a.add(&b),
                    "T.Sub" => a.sub(&b),
                    _ => a.mul(&b),
                });
            }
            ("T.max", [_, _]) => IntOp::Max,
            ("T.min", [_, _]) => IntOp::Min,
            ("T.floordiv" | "T.FloorDiv", [_, _]) => IntOp::Div,
            ("T.floormod" | "T.FloorMod", [_, _]) => IntOp::Mod,
            _ => return None,
        };
        let (a, b) = (self.poly(args[0])?, self.poly(args[1])?);
        self.opaque(op, a, b)
    }

    /// An atom for a register that is known from a frame on.
    pub(super) fn atom_of(&mut self, reg: Reg, frame: usize) -> Poly {
        self.atoms.push(AtomInfo {
            kind: AtomKind::Reg(reg),
            frame,
        });
        Poly::atom(Atom(self.atoms.len() as u32 - 1))
    }

    /// The register of an argument.
    pub(super) fn argument(&mut self, arg: KernelArg) -> Reg {
        if let Some(&reg) = self.arg_regs.get(&arg) {
            return reg;
        }
        let reg = self.b.arg(self.args.len() as u32);
        self.args.push(arg.clone());
        self.arg_regs.insert(arg, reg);
        reg
    }

    /// `a op b` for what is not `+ - *`.
    pub(super) fn opaque(&mut self, op: IntOp, a: Poly, b: Poly) -> Option<Poly> {
        if a.atoms().chain(b.atoms()).any(|atom| self.is_lane(atom)) {
            return None;
        }
        if let (Some(x), Some(y)) = (a.as_constant(), b.as_constant()) {
            return fold(op, x, y).map(Poly::constant);
        }
        // The difference may be known where the sides are not.
        if let Some(delta) = a.sub(&b).as_constant() {
            match op {
                IntOp::Min => return Some(if delta <= 0 { a } else { b }),
                IntOp::Max => return Some(if delta >= 0 { a } else { b }),
                _ => {}
            }
        }
        if let Some(by) = b.as_constant().filter(|&by| by > 0)
            && let Some(res) = divide_terms(op, &a, by)
        {
            return Some(res);
        }
        let key = (op, a, b);
        if let Some(&atom) = self.opaque.get(&key) {
            return Some(Poly::atom(atom));
        }
        let (a, b) = (&key.1, &key.2);
        let frame = self.home(a).max(self.home(b));
        let (x, mut y) = (self.int(a), self.int(b));
        if matches!(op, IntOp::Div | IntOp::Mod) {
            match y {
                Src::Imm(0) => return None,
                Src::Imm(_) => {}
                // A branch that is not taken may have guarded a divisor of 0; extents are never negative.
                Src::Reg(_) => y = Src::Reg(self.int_at(frame, IntOp::Max, y, Src::Imm(1))),
            }
        }
        let reg = self.int_at(frame, op, x, y);
        let poly = self.atom_of(reg, frame);
        self.opaque.insert(key, Atom(self.atoms.len() as u32 - 1));
        Some(poly)
    }

    /// Whether an atom has no register: the lane, or a variable on trial.
    fn is_lane(&self, atom: Atom) -> bool {
        matches!(self.atoms[atom.0 as usize].kind, AtomKind::Lane)
    }

    fn int_at(&mut self, frame: usize, op: IntOp, a: Src, b: Src) -> Reg {
        let dst = self.b.reg(Ty::Int);
        self.b.push_at(frame, Inst::Int { op, dst, a, b });
        dst
    }

    /// The frame from which on all atoms are known.
    pub(super) fn home(&self, poly: &Poly) -> usize {
        poly.atoms()
            .map(|atom| self.atoms[atom.0 as usize].frame)
            .max()
            .unwrap_or(0)
    }

    /// The value of a polynomial without lanes.
    pub(super) fn int(&mut self, poly: &Poly) -> Src {
        if let Some(value) = poly.as_constant() {
            return Src::Imm(value);
        }
        if let Some(&reg) = self.ints.get(poly) {
            return Src::Reg(reg);
        }
        let frame = self.home(poly);
        let mut sum = None;
        let terms: Vec<(Vec<Atom>, i64)> = poly
            .terms()
            .map(|(factors, by)| (factors.to_vec(), by))
            .collect();
        for (factors, by) in terms {
            let mut value = None;
            for atom in factors {
                let reg = Src::Reg(self.atom_reg(atom));
                value = Some(match value {
                    None => reg,
                    Some(value) => Src::Reg(self.int_at(frame, IntOp::Mul, value, reg)),
                });
            }
            let value = match (value, by) {
                (None, by) => Src::Imm(by),
                (Some(value), 1) => value,
                (Some(value), by) => Src::Reg(self.int_at(frame, IntOp::Mul, value, Src::Imm(by))),
            };
            sum = Some(match sum {
                None => value,
                Some(sum) => Src::Reg(self.int_at(frame, IntOp::Add, sum, value)),
            });
        }
        match sum {
            Some(Src::Reg(reg)) => {
                self.ints.insert(poly.clone(), reg);
                Src::Reg(reg)
            }
            Some(imm) => imm,
            None => Src::Imm(0),
        }
    }

    /// The register of an atom; a loop variable gets one when it is first asked for.
    fn atom_reg(&mut self, atom: Atom) -> Reg {
        match self.atoms[atom.0 as usize].kind {
            AtomKind::Reg(reg) => reg,
            AtomKind::Var(id) => {
                if let Some(reg) = self.loops[id].value {
                    return reg;
                }
                let (begin, frame) = (self.loops[id].begin.clone(), self.loops[id].frame);
                let src = self.int(&begin);
                let dst = self.b.reg(Ty::Int);
                self.b.push_at(frame - 1, Inst::Move { dst, src });
                self.loops[id].value = Some(dst);
                dst
            }
            // Callers take the lane out first.
            AtomKind::Lane => self.b.reg(Ty::Int),
        }
    }

    /// The index of an access in elements.
    pub(super) fn flat_index(&mut self, name: &Name, index: &[Expr]) -> Option<Poly> {
        let env = self.env;
        let buffer = env.buffers.get(name)?;
        let index = match index {
            [
                Expr {
                    kind: ExprKind::Tuple { items, .. },
                    ..
                },
            ] => items.as_slice(),
            index => index,
        };
        (index.len() == buffer.shape.len()).then_some(())?;
        let mut sum = Poly::default();
        if let Some(strides) = &buffer.strides {
            for (at, stride) in index.iter().zip(strides) {
                sum = sum.add(&self.poly(at)?.mul(&self.poly(stride)?));
            }
        } else {
            // The outermost extent plays no part, and need not be known.
            for (axis, (at, extent)) in index.iter().zip(&buffer.shape).enumerate() {
                if axis > 0 {
                    sum = sum.mul(&self.poly(extent)?);
                }
                sum = sum.add(&self.poly(at)?);
            }
        }
        Some(sum)
    }

    /// The address of an element, by its index without lanes.
    pub(super) fn mem(&mut self, name: &Name, at: &Poly, elem: Elem) -> Option<Mem> {
        let bytes = elem.bytes();
        let disp = i32::try_from(at.constant_part().checked_mul(bytes)?).ok()?;
        let moving = at.add_constant(-at.constant_part());
        if let Some(&base) = self.pointers.get(&(name.clone(), moving.clone())) {
            return Some(Mem::at(base, disp));
        }
        if let Some((base, index)) = self.neighbour(name, &moving, bytes) {
            return Some(Mem {
                base,
                index: Some(index),
                disp,
            });
        }
        Some(Mem::at(self.pointer(name, &moving, bytes)?, disp))
    }

    /// A pointer that differs by a product known outside its loop, and the index that makes up for it.
    fn neighbour(&mut self, name: &Name, at: &Poly, bytes: i64) -> Option<(Reg, (Reg, u8))> {
        let home = self.home(at);
        let mut found = None;
        for ((other, from), &reg) in &self.pointers {
            if other != name || self.home(from) != home {
                continue;
            }
            let delta = at.sub(from);
            let mut terms = delta.terms();
            let (Some((factors, by)), None) = (terms.next(), terms.next()) else {
                continue;
            };
            if by > 0 && !factors.is_empty() && (self.home(&delta) < home || home == 0) {
                found = Some((reg, Poly::term(factors, 1), by * bytes));
                break;
            }
        }
        let (base, product, by) = found?;
        let scale = [8, 4, 2, 1].into_iter().find(|scale| by % scale == 0)?;
        let Src::Reg(index) = self.int(&product.scale(by / scale)) else {
            return None;
        };
        Some((base, (index, scale as u8)))
    }

    /// The register that points to an element.
    fn pointer(&mut self, name: &Name, at: &Poly, bytes: i64) -> Option<Reg> {
        if at.is_zero() {
            return Some(self.argument(KernelArg::Buffer(name.clone())));
        }
        let key = (name.clone(), at.clone());
        if let Some(&reg) = self.pointers.get(&key) {
            return Some(reg);
        }
        let home = self.home(at);
        let moving = at
            .atoms()
            .find_map(|atom| match self.atoms[atom.0 as usize] {
                AtomInfo {
                    kind: AtomKind::Var(id),
                    frame,
                } if frame == home => Some((atom, id)),
                _ => None,
            });
        let reg = match moving.and_then(|(atom, id)| Some((at.split(atom)?, id))) {
            Some(((step, rest), id)) if self.home(&step) < home && self.home(&rest) < home => {
                let start = rest.add(&step.mul(&self.loops[id].begin));
                let disp = start.constant_part().checked_mul(bytes)?;
                let start = start.add_constant(-start.constant_part());
                let from = self.pointer(name, &start, bytes)?;
                let dst = self.b.reg(Ty::Int);
                let (a, b) = (Src::Reg(from), Src::Imm(disp));
                self.b.push_at(
                    home - 1,
                    match disp {
                        0 => Inst::Move { dst, src: a },
                        _ => Inst::Int {
                            op: IntOp::Add,
                            dst,
                            a,
                            b,
                        },
                    },
                );
                self.loops[id].steps.push((dst, step.scale(bytes)));
                dst
            }
            _ => {
                let base = self.argument(KernelArg::Buffer(name.clone()));
                let offset = self.int(&at.scale(bytes));
                self.int_at(home, IntOp::Add, Src::Reg(base), offset)
            }
        };
        self.pointers.insert(key, reg);
        Some(reg)
    }

    /// A load as a value; of one element, or of consecutive ones into lanes.
    pub(super) fn load_at(&mut self, name: &Name, at: &Poly, vector: bool) -> Option<Val> {
        let dtype = self.env.buffers.get(name)?.dtype;
        let elem = elem_of(dtype)?;
        // One element is read whatever the mask: it is only asked for where a lane needs it.
        let mask = if vector { self.mask } else { None };
        let reg = self.load_reg(name, at, vector, elem, mask)?;
        Some(match dtype {
            DType::F32 => Val::F32(reg),
            DType::I32 => Val::I32(reg),
            DType::F16 => Val::Half(reg),
            DType::Bool => {
                let zero = self.b.i32(0);
                Val::Mask(self.b.cmp(CmpOp::Ne, reg, zero))
            }
            dtype => {
                self.note_dtype(reg, dtype);
                Val::Narrow(reg, dtype)
            }
        })
    }

    pub(super) fn load_reg(
        &mut self,
        name: &Name,
        at: &Poly,
        vector: bool,
        elem: Elem,
        mask: Option<Reg>,
    ) -> Option<Reg> {
        let key = (name.clone(), at.clone(), elem, vector, mask);
        let here = self.b.block();
        let constant = !self.stored.contains(name);
        let oldest = if constant { 0 } else { here };
        for frame in &self.frames[oldest..] {
            if let Some(&reg) = frame.loads.get(&key) {
                return Some(reg);
            }
        }
        // Out of loops in which it does not vary; never out of a branch, which may guard it.
        let mut frame = here;
        if constant && mask.is_none() {
            frame = self.outside(self.home(at));
        }
        let unit = elem_of(self.env.buffers.get(name)?.dtype)?;
        let mem = self.mem(name, at, unit)?;
        let dst = self.b.reg(elem.ty());
        self.b.push_at(
            frame,
            if vector {
                Inst::Load {
                    dst,
                    elem,
                    mem,
                    mask,
                }
            } else {
                Inst::Broadcast { dst, elem, mem }
            },
        );
        self.frames[frame].loads.insert(key, dst);
        Some(dst)
    }
}

/// `(8 * n + 3) // 4 = 2 * n` and the like, where all but the constant is divisible.
fn divide_terms(op: IntOp, a: &Poly, by: i64) -> Option<Poly> {
    let rest = a.constant_part();
    if a.terms()
        .any(|(factors, coefficient)| !factors.is_empty() && coefficient % by != 0)
    {
        return None;
    }
    match op {
        IntOp::Mod => Some(Poly::constant(rest.rem_euclid(by))),
        IntOp::Div => {
            let mut res = Poly::constant(rest.div_euclid(by));
            for (factors, coefficient) in a.terms().filter(|(factors, _)| !factors.is_empty()) {
                res = res.add(&Poly::term(factors, coefficient / by));
            }
            Some(res)
        }
        _ => None,
    }
}

fn fold(op: IntOp, a: i64, b: i64) -> Option<i64> {
    Some(match op {
        IntOp::Add => a.checked_add(b)?,
        IntOp::Sub => a.checked_sub(b)?,
        IntOp::Mul => a.checked_mul(b)?,
        IntOp::Min => a.min(b),
        IntOp::Max => a.max(b),
        IntOp::Div | IntOp::Mod => {
            let (quotient, rest) = (a.checked_div(b)?, a.checked_rem(b)?);
            let off = i64::from(rest != 0 && (rest < 0) != (b < 0));
            if op == IntOp::Div {
                quotient - off
            } else {
                rest + off * b
            }
        }
    })
}
