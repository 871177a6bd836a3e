//! Loops: vectorized ones become vectors, unrolled ones copies, serial ones counted loops.
//!
//! A serial loop is cut in two where a bound on lanes that holds at its beginning ceases to hold. One without loops
//! inside is unrolled as long as its body stays small; what is left over runs in a second loop.

use std::collections::BTreeSet;

use irc_syntax::uses::{for_each_expr, mentions};
use irc_syntax::{Expr, ExprKind, Name, Stmt, StmtKind};

use super::super::affine::{Atom, Poly};
use super::super::vir::{CmpOp, Inst, IntOp, Src};
use super::ahead::prefetch_panels;
use super::cond::{Bound, Cond, last_full};
use super::value::Val;
use super::{AtomInfo, AtomKind, Bind, FrameKind, LANE, Loop, Lower, each_stmt};

/// How a loop runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LoopKind {
    Serial,
    Unrolled,
    Vectorized,
}

/// What is known in a part of a loop of the bounds that it was cut for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bounds {
    /// They hold.
    Hold,
    /// They do not.
    Mask,
    /// It was not cut.
    Open,
}

/// Instructions that an unrolled body may have.
const UNROLL_TO: usize = 96;

/// From (absent when 0) and to, for each variable of a nest.
type Ranges<'e> = Vec<(Option<&'e Expr>, &'e Expr)>;

/// The kind of a loop and its ranges.
pub(super) fn loop_kind(iter: &Expr) -> Option<(LoopKind, Ranges<'_>)> {
    let (path, _) = iter.as_call()?;
    let args: Vec<&Expr> = iter.positional().collect();
    if path == "T.grid" {
        return Some((
            LoopKind::Serial,
            args.into_iter().map(|end| (None, end)).collect(),
        ));
    }
    let kind = match path.as_str() {
        "range" | "T.serial" => LoopKind::Serial,
        "T.unroll" => LoopKind::Unrolled,
        "T.vectorized" => LoopKind::Vectorized,
        _ => return None,
    };
    match args.as_slice() {
        [end] => Some((kind, vec![(None, end)])),
        [begin, end] => Some((kind, vec![(Some(begin), end)])),
        _ => None,
    }
}

impl Lower<'_> {
    pub(super) fn for_loop(&mut self, target: &Expr, iter: &Expr, body: &[Stmt]) -> Option<()> {
        let (kind, ranges) = loop_kind(iter)?;
        let names: Vec<Name> = match &target.kind {
            ExprKind::Name(name) => vec![name.clone()],
            ExprKind::Tuple { items, .. } => items
                .iter()
                .map(|item| item.as_name().cloned())
                .collect::<Option<_>>()?,
            _ => return None,
        };
        if names.len() != ranges.len() {
            return None;
        }
        let nest: Vec<(Name, Option<&Expr>, &Expr)> = names
            .into_iter()
            .zip(ranges)
            .map(|(name, (begin, end))| (name, begin, end))
            .collect();
        self.nest(kind, &nest, body)
    }

    fn nest(
        &mut self,
        kind: LoopKind,
        nest: &[(Name, Option<&Expr>, &Expr)],
        body: &[Stmt],
    ) -> Option<()> {
        let Some(((name, begin, end), inner)) = nest.split_first() else {
            return self.stmts(body);
        };
        let begin = begin.map_or(Some(Poly::default()), |begin| self.poly(begin))?;
        let end = self.poly(end)?;
        let saved = self.names.clone();
        let plain = |lower: &mut Self| lower.nest(kind, inner, body);
        match kind {
            LoopKind::Vectorized => {
                if !begin.is_zero() {
                    return None;
                }
                self.vectorize(name, end.as_constant()?, body)?;
            }
            LoopKind::Serial if !self.must_unroll(name, body) => {
                let body = SerialBody {
                    name,
                    kind,
                    inner,
                    stmts: body,
                };
                self.serial(&body, &begin, &end)?;
            }
            LoopKind::Serial | LoopKind::Unrolled => {
                let (begin, end) = (begin.as_constant()?, end.as_constant()?);
                if end - begin > 256 {
                    return None;
                }
                for at in begin..end {
                    self.bind_int(name, Poly::constant(at));
                    plain(self)?;
                    self.names.clone_from(&saved);
                }
            }
        }
        self.names = saved;
        Some(())
    }

    fn bind_int(&mut self, name: &Name, value: Poly) {
        self.names.insert(name.clone(), Bind::Val(Val::Int(value)));
    }

    /// Whether the variable indexes a register array.
    fn must_unroll(&self, name: &Name, body: &[Stmt]) -> bool {
        let mut indexes = false;
        for_each_expr(body, &mut |expr| {
            if let ExprKind::Index { value, index } = &expr.kind
                && value
                    .as_name()
                    .is_some_and(|array| self.local_names.contains(array))
            {
                indexes |= index.iter().any(|at| mentions(at, |other| other == name));
            }
        });
        indexes
    }

    fn vectorize(&mut self, name: &Name, extent: i64, body: &[Stmt]) -> Option<()> {
        if self.chunk.is_some() || !(1..=1024).contains(&extent) {
            return None;
        }
        let lanes = self.b.lanes();
        let saved = self.names.clone();
        for first in (0..extent).step_by(lanes as usize) {
            self.bind_int(name, Poly::atom(LANE).add_constant(first));
            self.chunk = Some((extent, first));
            self.mask =
                (extent - first < lanes).then(|| self.lane_mask(&Poly::constant(extent - first)));
            self.limit = self.mask;
            self.plain_stmts(body)?;
            self.names.clone_from(&saved);
        }
        self.chunk = None;
        self.mask = None;
        self.limit = None;
        Some(())
    }

    /// A counted loop. One that branches on what it does not change is made twice: without the branches, for the case
    /// that they all hold (a filter inside its image), and with them.
    fn serial(&mut self, body: &SerialBody<'_>, begin: &Poly, end: &Poly) -> Option<()> {
        if self.asked.is_none() && self.chunk.is_none() && body.is_innermost() && body.has_branch()
        {
            let here = self.b.block();
            let mut trial = self.clone();
            trial.asked = Some(BTreeSet::new());
            if trial.cut(body, begin, end).is_none() {
                self.blame = trial.blame;
                return None;
            }
            let mut asked = trial.asked.unwrap_or_default();
            asked.retain(|(_, poly)| {
                poly.atoms().all(|atom| {
                    self.atoms
                        .get(atom.0 as usize)
                        .is_some_and(|atom| atom.frame <= here)
                })
            });
            if !asked.is_empty() {
                return self.with_known(asked, |lower| lower.cut(body, begin, end));
            }
        }
        self.cut(body, begin, end)
    }

    /// A counted loop, in two parts when bounds hold only for the first of them.
    fn cut(&mut self, body: &SerialBody<'_>, begin: &Poly, end: &Poly) -> Option<()> {
        if self.chunk.is_none()
            && let Some(split) = self.split_point(body)?
        {
            let split = self.opaque(IntOp::Min, split, end.clone())?;
            let split = self.opaque(IntOp::Max, split, begin.clone())?;
            let split = self.known_int(&split);
            self.counted(body, begin, &split, Bounds::Hold)?;
            return self.counted(body, &split, end, Bounds::Mask);
        }
        self.counted(body, begin, end, Bounds::Open)
    }

    /// A value that is used often, as an atom.
    fn known_int(&mut self, poly: &Poly) -> Poly {
        let frame = self.home(poly);
        match self.int(poly) {
            Src::Imm(value) => Poly::constant(value),
            Src::Reg(reg) if poly.n_terms() > 1 => self.atom_of(reg, frame),
            Src::Reg(_) => poly.clone(),
        }
    }

    /// Where the first bound ceases to hold.
    fn split_point(&mut self, body: &SerialBody<'_>) -> Option<Option<Poly>> {
        let trial = Atom(self.atoms.len() as u32);
        let frame = self.b.block();
        self.atoms.push(AtomInfo {
            kind: AtomKind::Lane,
            frame,
        });
        let mut bounds = self.body_bounds(body, &Poly::atom(trial));
        bounds.retain(|bound| self.is_open(bound));
        let mut split: Option<Poly> = None;
        for bound in &bounds {
            let Some((slack, step)) = last_full(bound, trial) else {
                continue;
            };
            // slack - step * var >= 0
            let by = Poly::constant(step);
            let here = self.opaque(IntOp::Div, slack, by)?.add_constant(1);
            split = Some(match split {
                None => here,
                Some(other) => self.opaque(IntOp::Min, other, here)?,
            });
        }
        Some(split)
    }

    fn body_bounds(&mut self, body: &SerialBody<'_>, var: &Poly) -> Vec<Bound> {
        let shadowed = self
            .names
            .insert(body.name.clone(), Bind::Val(Val::Int(var.clone())));
        let bounds = self.bounds_in(body.stmts);
        let inner: BTreeSet<&Name> = body.inner.iter().map(|(name, ..)| name).collect();
        // Variables of the same nest are not known yet; a name from outside would stand for them.
        let bounds = if inner.is_empty() { bounds } else { Vec::new() };
        match shadowed {
            Some(bind) => self.names.insert(body.name.clone(), bind),
            None => self.names.remove(body.name),
        };
        bounds
    }

    fn counted(
        &mut self,
        body: &SerialBody<'_>,
        begin: &Poly,
        end: &Poly,
        bounds: Bounds,
    ) -> Option<()> {
        let count = end.sub(begin);
        match count.as_constant() {
            Some(count) if count <= 0 => Some(()),
            Some(1) => self.copy(body, begin, bounds),
            Some(count) => {
                let unrolled = self.repeat(body, begin, Some(count), &Src::Imm(count), bounds)?;
                let done = count - count % unrolled;
                (done..count).try_for_each(|at| self.copy(body, &begin.add_constant(at), bounds))
            }
            None => {
                let many = (bounds == Bounds::Mask).then_some(1);
                // Loads that leave the loop may do so only where it runs at all.
                self.choose(
                    Cond::Int(CmpOp::Gt, count.clone()),
                    |lower| {
                        let count = lower.int(&count);
                        let unrolled = lower.repeat(body, begin, many, &count, bounds)?;
                        if unrolled > 1 {
                            lower.rest(body, begin, end, unrolled, bounds)?;
                        }
                        Some(())
                    },
                    |_| Some(()),
                )
            }
        }
    }

    /// What a loop unrolled by `by` leaves over.
    fn rest(
        &mut self,
        body: &SerialBody<'_>,
        begin: &Poly,
        end: &Poly,
        by: i64,
        bounds: Bounds,
    ) -> Option<()> {
        let count = end.sub(begin);
        let rest = self.opaque(IntOp::Mod, count, Poly::constant(by))?;
        let from = end.sub(&rest);
        let from = self.known_int(&from);
        self.choose(
            Cond::Int(CmpOp::Gt, rest.clone()),
            |lower| {
                let count = lower.int(&rest);
                lower
                    .repeat(body, &from, Some(1), &count, bounds)
                    .map(|_| ())
            },
            |_| Some(()),
        )
    }

    /// One loop; gives how often its body was unrolled. `known` is the number of iterations, or 1 to forbid unrolling.
    fn repeat(
        &mut self,
        body: &SerialBody<'_>,
        begin: &Poly,
        known: Option<i64>,
        count: &Src,
        bounds: Bounds,
    ) -> Option<i64> {
        self.open(FrameKind::Body);
        let (frame, id) = (self.b.block(), self.loops.len());
        self.loops.push(Loop {
            frame,
            begin: begin.clone(),
            value: None,
            steps: Vec::new(),
        });
        self.atoms.push(AtomInfo {
            kind: AtomKind::Var(id),
            frame,
        });
        let var = Poly::atom(Atom(self.atoms.len() as u32 - 1));
        self.copy(body, &var, bounds)?;
        let copies = if body.is_innermost() {
            factor(self.b.block_len(), known)
        } else {
            1
        };
        for at in 1..copies {
            self.copy(body, &var.add_constant(at), bounds)?;
        }
        // Advance what moves.
        let steps = std::mem::take(&mut self.loops[id].steps);
        let mut known_steps = Vec::new();
        for (dst, step) in steps {
            let step = step.scale(copies);
            known_steps.extend(step.as_constant().map(|step| (dst, step)));
            let b = self.int(&step);
            self.b.push(Inst::Int {
                op: IntOp::Add,
                dst,
                a: Src::Reg(dst),
                b,
            });
        }
        if let Some(dst) = self.loops[id].value {
            let b = Src::Imm(copies);
            self.b.push(Inst::Int {
                op: IntOp::Add,
                dst,
                a: Src::Reg(dst),
                b,
            });
        }
        let mut insts = self.close();
        if let (true, Src::Imm(count)) = (body.is_innermost(), *count) {
            let lanes = self.b.lanes();
            prefetch_panels(&mut insts, &known_steps, count / copies, lanes);
        }
        let counter = self.b.reg(super::super::vir::Ty::Int);
        let count = match *count {
            Src::Imm(count) => Src::Imm(count / copies),
            count if copies == 1 => count,
            count => Src::Reg(self.b.int(IntOp::Div, count, Src::Imm(copies))),
        };
        if count == Src::Imm(1) {
            self.b.append(insts);
        } else {
            self.b.push(Inst::Loop {
                counter,
                count,
                body: insts,
            });
        }
        Some(copies)
    }

    fn copy(&mut self, body: &SerialBody<'_>, var: &Poly, bounds: Bounds) -> Option<()> {
        let (names, assumed) = (self.names.clone(), self.assumed.clone());
        let masked = self.masked.clone();
        if bounds != Bounds::Open {
            let found = self
                .body_bounds(body, var)
                .into_iter()
                .map(|bound| bound.below);
            match bounds {
                Bounds::Hold => self.assumed.extend(found),
                Bounds::Mask | Bounds::Open => self.masked.extend(found),
            }
        }
        self.bind_int(body.name, var.clone());
        self.nest(body.kind, body.inner, body.stmts)?;
        self.names = names;
        self.assumed = assumed;
        self.masked = masked;
        Some(())
    }
}

/// The body of a serial loop; the rest of its nest first.
struct SerialBody<'a> {
    name: &'a Name,
    kind: LoopKind,
    inner: &'a [(Name, Option<&'a Expr>, &'a Expr)],
    stmts: &'a [Stmt],
}

impl SerialBody<'_> {
    /// Whether some of the code is conditional.
    fn has_branch(&self) -> bool {
        let mut conditional = false;
        each_stmt(self.stmts, &mut |stmt| {
            conditional |= matches!(stmt.kind, StmtKind::If { .. });
        });
        for_each_expr(self.stmts, &mut |expr| {
            conditional |= expr.is_call_of("T.if_then_else");
        });
        conditional
    }

    fn is_innermost(&self) -> bool {
        let mut innermost = self.inner.is_empty();
        each_stmt(self.stmts, &mut |stmt| {
            if let StmtKind::For { iter, .. } = &stmt.kind {
                innermost &= !matches!(loop_kind(iter), None | Some((LoopKind::Serial, _)));
            }
        });
        innermost
    }
}

/// How many copies of a body of some instructions a loop gets.
fn factor(n_insts: usize, known: Option<i64>) -> i64 {
    let most = (UNROLL_TO / n_insts.max(1)) as i64;
    match known {
        // A short loop disappears as a whole.
        Some(count) if count <= most.min(16) => count,
        Some(count) => [8, 4, 3, 2]
            .into_iter()
            .find(|&by| by <= most && (count % by == 0 || count >= 4 * by))
            .unwrap_or(1),
        None => [4, 2].into_iter().find(|&by| by <= most).unwrap_or(1),
    }
}
