//! Kernel regions to vector IR.
//!
//! ```text
//! for k in range(K):                        loop i9 = 64 {
//!     for vi in T.vectorized(8):      →       f4 = load f32 [i1]
//!         acc[vi] = acc[vi] + x[k, vi]        f2 = add f2 f4 … }
//! ```
//!
//! Loop variables become polynomials (`affine`): a vectorized one is a number of lanes plus the lane, one pass over the
//! body for each vector it fills; an unrolled one is a number. Addresses are pointers that serial loops advance
//! (`address`). Bounds on lanes become masks, and loops are split where their masks begin to matter (`cond`, `loops`).
//! Register arrays are virtual registers. Whatever does not fit gives `None` and the whole region is refused.
//!
//! Blocks of the vector IR under construction are *frames*. Integers and addresses are computed in the frame of the
//! innermost loop they vary in, which lies in front of the open inner frames; loads of what the region never writes
//! leave the loops in which they do not vary.

mod address;
mod ahead;
mod call;
mod cond;
mod loops;
mod pairs;
mod range;
mod value;

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::{DType, Expr, ExprKind, Name, Stmt, StmtKind};

use self::value::Val;
use super::affine::{Atom, Poly};
use super::unused::remove_unused;
use super::vir::{BinOp, Builder, CmpOp, Elem, Func, Inst, Reg, Ty};
use super::{Env, KernelArg};

/// The vector IR of a region and its arguments.
///
/// # Errors
/// The part of the text that is not for the emitter.
pub fn lower(region: &[Stmt], env: &Env, lanes: u8) -> Result<(Func, Vec<KernelArg>), String> {
    let mut lower = Lower::new(env, lanes);
    find_stored(region, &mut lower.stored);
    find_locals(region, &mut lower.local_names);
    if lower.stmts(region).is_none() {
        return Err(lower.blame.unwrap_or_else(|| "an empty region".to_owned()));
    }
    let mut func = lower.b.finish();
    remove_unused(&mut func);
    Ok((func, lower.args))
}

/// What a name stands for inside the region.
#[derive(Clone, Debug)]
enum Bind {
    Val(Val),
    Local(usize),
}

/// A register array.
#[derive(Clone, Debug)]
struct Local {
    dtype: DType,
    shape: Vec<i64>,
    /// The dim that vectorized variables index, once an access has shown it; `Some(None)` when there is none.
    lane_dim: Option<Option<usize>>,
    /// By index; along the lane dim by number of vector.
    regs: BTreeMap<Vec<i64>, Reg>,
}

/// What the kind of a frame allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FrameKind {
    /// The function, or the body of a loop that runs at least once when it is reached.
    Body,
    /// One side of a branch.
    Branch,
}

/// A block under construction.
#[derive(Clone, Debug)]
struct Frame {
    kind: FrameKind,
    /// Loads already made in it, that are still good.
    loads: BTreeMap<LoadKey, Reg>,
    /// Masks of the lanes below a number.
    masks: BTreeMap<Poly, Reg>,
    /// Comparisons with 0, as 1 or 0.
    flags: BTreeMap<(CmpOp, Poly), Reg>,
}

/// Buffer, address in elements, what is read there, whether lanes read one after the other, mask.
type LoadKey = (Name, Poly, Elem, bool, Option<Reg>);

/// A loop under construction.
#[derive(Clone, Debug)]
struct Loop {
    /// The frame of its body; its own frame is the one before.
    frame: usize,
    begin: Poly,
    /// The variable in a register, once something needs it.
    value: Option<Reg>,
    /// Pointers to advance, with the bytes for one iteration.
    steps: Vec<(Reg, Poly)>,
}

#[derive(Clone, Debug)]
enum AtomKind {
    /// In a register.
    Reg(Reg),
    /// The variable of the n-th loop.
    Var(usize),
    /// The number of the lane.
    Lane,
}

#[derive(Clone, Debug)]
struct AtomInfo {
    kind: AtomKind,
    /// The frame from which on it is known.
    frame: usize,
}

/// The lane of a vector; always the first atom.
const LANE: Atom = Atom(0);

#[derive(Clone)]
struct Lower<'a> {
    env: &'a Env,
    b: Builder,
    args: Vec<KernelArg>,
    arg_regs: BTreeMap<KernelArg, Reg>,
    names: BTreeMap<Name, Bind>,
    locals: Vec<Local>,
    atoms: Vec<AtomInfo>,
    loops: Vec<Loop>,
    frames: Vec<Frame>,
    /// Integers from around the region.
    symbols: BTreeMap<Name, Poly>,
    /// Divisions, minima and the like, by what they are of.
    opaque: BTreeMap<(super::vir::IntOp, Poly, Poly), Atom>,
    ints: BTreeMap<Poly, Reg>,
    pointers: BTreeMap<(Name, Poly), Reg>,
    /// Bounds known to hold for all iterations of their vectorized loop.
    assumed: BTreeSet<Poly>,
    /// Bounds whose loops run with masks, because they do not hold.
    masked: BTreeSet<Poly>,
    /// Comparisons of integers with 0 known to hold.
    known: BTreeSet<(CmpOp, Poly)>,
    /// On trial: the comparisons that were not known.
    asked: Option<BTreeSet<(CmpOp, Poly)>>,
    /// Registers that a name stands for.
    shared: BTreeSet<Reg>,
    /// What is known of registers that are written once.
    ranges: BTreeMap<Reg, range::Range>,
    /// int32 lanes that were float32 ones.
    origins: BTreeMap<Reg, range::Origin>,
    /// Lanes that are on; `None` when all are.
    mask: Option<Reg>,
    /// Those of them that the extent of the vectorized loop leaves on.
    limit: Option<Reg>,
    /// The extent of the vectorized loop at hand and the first lane of the vector at hand.
    chunk: Option<(i64, i64)>,
    /// Buffers that the region writes.
    stored: BTreeSet<Name>,
    /// Names of register arrays anywhere in the region.
    local_names: BTreeSet<Name>,
    /// The innermost part of the statement at hand that was not understood.
    blame: Option<String>,
}

impl<'a> Lower<'a> {
    fn new(env: &'a Env, lanes: u8) -> Self {
        Self {
            env,
            b: Builder::new(lanes),
            args: Vec::new(),
            arg_regs: BTreeMap::new(),
            names: BTreeMap::new(),
            locals: Vec::new(),
            atoms: vec![AtomInfo {
                kind: AtomKind::Lane,
                frame: 0,
            }],
            loops: Vec::new(),
            frames: vec![Frame {
                kind: FrameKind::Body,
                loads: BTreeMap::new(),
                masks: BTreeMap::new(),
                flags: BTreeMap::new(),
            }],
            symbols: BTreeMap::new(),
            opaque: BTreeMap::new(),
            ints: BTreeMap::new(),
            pointers: BTreeMap::new(),
            assumed: BTreeSet::new(),
            masked: BTreeSet::new(),
            known: BTreeSet::new(),
            asked: None,
            shared: BTreeSet::new(),
            ranges: BTreeMap::new(),
            origins: BTreeMap::new(),
            mask: None,
            limit: None,
            chunk: None,
            stored: BTreeSet::new(),
            local_names: BTreeSet::new(),
            blame: None,
        }
    }

    /// A sequence. Runs of statements with bounds on lanes that are known here get a fast path for the case that the
    /// bounds hold.
    fn stmts(&mut self, stmts: &[Stmt]) -> Option<()> {
        if self.chunk.is_some() {
            return self.plain_stmts(stmts);
        }
        let mut rest = stmts;
        while let Some(stmt) = rest.first() {
            let mut open = self.open_bounds(std::slice::from_ref(stmt));
            if open.is_empty() {
                self.stmt(stmt)?;
                rest = &rest[1..];
                continue;
            }
            let mut len = 1;
            while let Some(next) = rest.get(len) {
                let more = self.open_bounds(std::slice::from_ref(next));
                if more.is_empty() {
                    break;
                }
                open.extend(
                    more.into_iter()
                        .filter(|bound| !open.contains(bound))
                        .collect::<Vec<_>>(),
                );
                len += 1;
            }
            self.unswitch(&open, &rest[..len])?;
            rest = &rest[len..];
        }
        Some(())
    }

    fn open_bounds(&mut self, stmts: &[Stmt]) -> Vec<cond::Bound> {
        let bounds = self.bounds_in(stmts);
        bounds
            .into_iter()
            .filter(|bound| self.is_open(bound))
            .collect()
    }

    fn plain_stmts(&mut self, stmts: &[Stmt]) -> Option<()> {
        for stmt in stmts {
            self.stmt(stmt)?;
        }
        Some(())
    }

    fn stmt(&mut self, stmt: &Stmt) -> Option<()> {
        self.blame = None;
        let outer = self.b.line;
        self.b.line = self.env.lines.line(stmt.span).or(outer);
        let done = self.stmt_parts(stmt);
        self.b.line = outer;
        if done.is_none() && self.blame.is_none() {
            let text = irc_syntax::print_stmt(stmt);
            let line = text.lines().next().unwrap_or_default();
            self.blame = Some(format!("`{line}`"));
        }
        done
    }

    fn stmt_parts(&mut self, stmt: &Stmt) -> Option<()> {
        match &stmt.kind {
            StmtKind::Assign { target, ty, value } => self.assign(target, ty.as_ref(), value),
            StmtKind::For { target, iter, body } => self.for_loop(target, iter, body),
            StmtKind::If {
                cond, then, orelse, ..
            } => {
                let cond = self.cond(cond)?;
                self.branch(cond, then, orelse)
            }
            StmtKind::With { context, body, .. } => {
                let (path, _) = context.as_call()?;
                (path == "T.sblock" || path == "T.block").then_some(())?;
                self.stmts(body)
            }
            StmtKind::Expr(call) => {
                let (path, _) = call.as_call()?;
                if path == "T.prefetch" {
                    return self.prefetch(call.positional().next()?);
                }
                matches!(
                    path.as_str(),
                    "T.sblock_attr" | "T.block_attr" | "T.reads" | "T.writes" | "T.evaluate"
                )
                .then_some(())
            }
            StmtKind::Pass => Some(()),
            StmtKind::Declare { .. }
            | StmtKind::While { .. }
            | StmtKind::Return(_)
            | StmtKind::Assert { .. }
            | StmtKind::Break
            | StmtKind::Continue
            | StmtKind::Import(_)
            | StmtKind::Func(_)
            | StmtKind::Error => None,
        }
    }

    fn assign(&mut self, target: &Expr, ty: Option<&Expr>, value: &Expr) -> Option<()> {
        match &target.kind {
            ExprKind::Name(name) => {
                if let Some((dtype, shape)) = local_of(value) {
                    return self.declare(name, dtype, &shape);
                }
                // A `T.let` is a new name, whatever else is called so; any other may be a variable that is written.
                let is_let = ty.is_some_and(|ty| match &ty.kind {
                    ExprKind::Index { value, .. } => value.as_path().as_deref() == Some("T.let"),
                    _ => false,
                });
                let is_known = self.names.contains_key(name) || self.env.scalars.contains_key(name);
                if is_known && !is_let {
                    return None;
                }
                let value = self.expr(value)?;
                let value = self.settle(value)?;
                self.names.insert(name.clone(), Bind::Val(value));
                Some(())
            }
            ExprKind::Index {
                value: array,
                index,
            } => {
                let name = array.as_name()?.clone();
                if let Some(Bind::Local(local)) = self.names.get(&name) {
                    return self.assign_local(*local, target, index, value);
                }
                self.store(&name, target, index, value)
            }
            _ => None,
        }
    }

    fn declare(&mut self, name: &Name, dtype: DType, shape: &[Expr]) -> Option<()> {
        matches!(dtype, DType::F32 | DType::I32 | DType::Bool).then_some(())?;
        let shape: Option<Vec<i64>> = shape
            .iter()
            .map(|dim| self.poly(dim)?.as_constant())
            .collect();
        let local = Local {
            dtype,
            shape: shape?,
            lane_dim: None,
            regs: BTreeMap::new(),
        };
        self.locals.push(local);
        self.names
            .insert(name.clone(), Bind::Local(self.locals.len() - 1));
        Some(())
    }

    /// The register of an element of a register array, made when it is new.
    fn local_reg(&mut self, local: usize, index: &[Expr]) -> Option<Reg> {
        let lanes = self.b.lanes();
        let mut key = Vec::new();
        let mut lane_dim = None;
        for (dim, at) in index.iter().enumerate() {
            let at = self.poly(at)?;
            let (lane, rest) = at.split(LANE)?;
            let rest = rest.as_constant()?;
            match lane.as_constant()? {
                0 => key.push(rest),
                1 if lane_dim.is_none() && rest % lanes == 0 => {
                    lane_dim = Some(dim);
                    key.push(rest / lanes);
                }
                _ => return None,
            }
        }
        let ty = match self.locals[local].dtype {
            DType::F32 => Ty::F32,
            DType::I32 => Ty::I32,
            DType::Bool => Ty::Mask,
            _ => return None,
        };
        let array = &mut self.locals[local];
        if key.len() != array.shape.len() || *array.lane_dim.get_or_insert(lane_dim) != lane_dim {
            return None;
        }
        for (dim, (&at, &extent)) in key.iter().zip(&array.shape).enumerate() {
            let at = if Some(dim) == lane_dim {
                at * lanes
            } else {
                at
            };
            (0 <= at && at < extent).then_some(())?;
        }
        if let Some(&reg) = array.regs.get(&key) {
            return Some(reg);
        }
        let reg = self.b.reg(ty);
        self.locals[local].regs.insert(key, reg);
        Some(reg)
    }

    fn assign_local(
        &mut self,
        local: usize,
        target: &Expr,
        index: &[Expr],
        value: &Expr,
    ) -> Option<()> {
        let reg = self.local_reg(local, index)?;
        let dtype = self.locals[local].dtype;
        if self.chunk.is_some() && self.locals[local].lane_dim == Some(None) {
            let (op, other) = reduction(target, value)?;
            let old = reg;
            let new = self.reduce_lanes(op, other, dtype)?;
            let joined = self.join(op, old, new)?;
            self.write(reg, joined);
            return Some(());
        }
        let value = self.expr(value)?;
        let value = self.convert(value, dtype)?;
        // Lanes behind the extent of the loop may hold anything.
        let value = match self.mask.filter(|_| self.mask != self.limit) {
            None => value,
            Some(mask) if self.b.ty(value) == Ty::Mask => self.select_mask(mask, value, reg),
            Some(mask) => self.b.select(mask, value, reg),
        };
        self.write(reg, value);
        Some(())
    }

    fn store(&mut self, name: &Name, target: &Expr, index: &[Expr], value: &Expr) -> Option<()> {
        let buffer = self.env.buffers.get(name)?;
        let (dtype, elem) = (buffer.dtype, elem_of(buffer.dtype)?);
        let at = self.flat_index(name, index)?;
        let (lane, rest) = at.split(LANE)?;
        let vector = match lane.as_constant()? {
            0 => false,
            1 => true,
            2 if dtype == DType::I16 => return self.store_half(name, index, &rest, value),
            _ => return None,
        };
        if self.chunk.is_some() && !vector {
            let (op, other) = reduction(target, value)?;
            let old = self.load_at(name, &rest, false)?;
            let old = self.convert(old, dtype)?;
            let new = self.reduce_lanes(op, other, dtype)?;
            let src = self.join(op, old, new)?;
            let mem = self.mem(name, &rest, elem)?;
            self.b.push(Inst::StoreOne { elem, mem, src });
            self.forget(name);
            return Some(());
        }
        let value = self.expr(value)?;
        let src = self.convert(value, dtype)?;
        let src = if self.b.ty(src) == Ty::Mask {
            self.mask_as_int(src)
        } else {
            src
        };
        let mem = self.mem(name, &rest, elem)?;
        let mask = self.mask;
        self.b.push(if vector {
            Inst::Store {
                elem,
                mem,
                src,
                mask,
            }
        } else {
            Inst::StoreOne { elem, mem, src }
        });
        self.forget(name);
        Some(())
    }

    /// `T.prefetch(A[i, j])`
    fn prefetch(&mut self, element: &Expr) -> Option<()> {
        let ExprKind::Index { value, index } = &element.kind else {
            return None;
        };
        let name = value.as_name()?;
        let elem = elem_of(self.env.buffers.get(name)?.dtype)?;
        let at = self.flat_index(name, index)?;
        let mem = self.mem(name, &at, elem)?;
        self.b.push(Inst::Prefetch { mem });
        Some(())
    }

    /// Loads of a buffer that has just been written are no longer good.
    fn forget(&mut self, name: &Name) {
        for frame in &mut self.frames {
            frame.loads.retain(|(other, ..), _| other != name);
        }
    }

    /// `mask ? a : b` of masks.
    fn select_mask(&mut self, mask: Reg, a: Reg, b: Reg) -> Reg {
        let yes = self.b.bin(BinOp::And, mask, a);
        let no = self.b.bin(BinOp::AndNot, mask, b);
        self.b.bin(BinOp::Or, yes, no)
    }

    /// 1 where a mask is set, 0 elsewhere.
    fn mask_as_int(&mut self, mask: Reg) -> Reg {
        let (one, zero) = (self.b.i32(1), self.b.i32(0));
        self.b.select(mask, one, zero)
    }

    /// The outermost frame from which a value known from `home` on can be had without leaving a branch.
    fn outside(&self, home: usize) -> usize {
        let mut frame = self.b.block();
        while frame > home && frame > 0 && self.frames[frame].kind == FrameKind::Body {
            frame -= 1;
        }
        frame
    }

    fn open(&mut self, kind: FrameKind) {
        self.b.open();
        self.frames.push(Frame {
            kind,
            loads: BTreeMap::new(),
            masks: BTreeMap::new(),
            flags: BTreeMap::new(),
        });
    }

    fn close(&mut self) -> Vec<Inst> {
        self.frames.pop();
        self.b.close()
    }
}

/// The element in memory of a dtype.
fn elem_of(dtype: DType) -> Option<Elem> {
    match dtype {
        DType::F32 => Some(Elem::F32),
        DType::I32 => Some(Elem::I32),
        DType::F16 => Some(Elem::F16),
        DType::I16 => Some(Elem::I16),
        DType::I8 => Some(Elem::I8),
        DType::U8 | DType::Bool => Some(Elem::U8),
        _ => None,
    }
}

/// `T.alloc_local(shape, dtype)`
fn local_of(value: &Expr) -> Option<(DType, Vec<Expr>)> {
    let (path, _) = value.as_call()?;
    let local = path == "T.alloc_local"
        || (path == "T.alloc_buffer"
            && value.keyword("scope").and_then(Expr::as_str) == Some("local"));
    local.then_some(())?;
    let mut positional = value.positional();
    let shape = positional.next()?.as_items()?.to_vec();
    let dtype = positional.next().or_else(|| value.keyword("dtype"));
    let dtype = match dtype {
        None => DType::F32,
        Some(dtype) => DType::from_name(dtype.as_str()?)?,
    };
    Some((dtype, shape))
}

/// `target = target op other` with the operation and `other`.
fn reduction<'e>(target: &Expr, value: &'e Expr) -> Option<(BinOp, &'e Expr)> {
    use irc_syntax::BinaryOp;
    let (op, a, b) = match &value.kind {
        ExprKind::Binary {
            op: BinaryOp::Add,
            lhs,
            rhs,
        } => (BinOp::Add, &**lhs, &**rhs),
        ExprKind::Binary {
            op: BinaryOp::Mul,
            lhs,
            rhs,
        } => (BinOp::Mul, &**lhs, &**rhs),
        ExprKind::Call { .. } => {
            let (path, args) = value.as_call()?;
            let [a, b] = args else { return None };
            let op = match path.as_str() {
                "T.max" => BinOp::Max,
                "T.min" => BinOp::Min,
                _ => return None,
            };
            (op, &a.value, &b.value)
        }
        _ => return None,
    };
    if irc_syntax::same::is_identical_expr(target, a) {
        Some((op, b))
    } else if irc_syntax::same::is_identical_expr(target, b) {
        Some((op, a))
    } else {
        None
    }
}

/// The buffers that statements write.
fn find_stored(stmts: &[Stmt], found: &mut BTreeSet<Name>) {
    each_stmt(stmts, &mut |stmt| {
        if let StmtKind::Assign { target, .. } = &stmt.kind
            && let ExprKind::Index { value, .. } = &target.kind
            && let Some(name) = value.as_name()
        {
            found.insert(name.clone());
        }
    });
}

/// The register arrays that statements declare.
fn find_locals(stmts: &[Stmt], found: &mut BTreeSet<Name>) {
    each_stmt(stmts, &mut |stmt| {
        if let StmtKind::Assign { target, value, .. } = &stmt.kind
            && local_of(value).is_some()
            && let Some(name) = target.as_name()
        {
            found.insert(name.clone());
        }
    });
}

/// Calls `f` with every statement, nested ones too.
fn each_stmt(stmts: &[Stmt], f: &mut dyn FnMut(&Stmt)) {
    for stmt in stmts {
        f(stmt);
        match &stmt.kind {
            StmtKind::For { body, .. } | StmtKind::With { body, .. } => each_stmt(body, f),
            StmtKind::If { then, orelse, .. } => {
                each_stmt(then, f);
                each_stmt(orelse, f);
            }
            _ => {}
        }
    }
}
