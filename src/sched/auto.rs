//! Which primitive goes where: the automatic schedule of one prim_func.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::names::NameSupply;
use irc_syntax::uses::{for_each_expr, for_each_subexpr};
use irc_syntax::{Expr, Func, Name, Stmt, StmtKind};

use super::Target;
use super::bands::{Band, bands};
use super::beside::beside;
use super::build::{
    add, ceil_div, guarded, less, min, mul, parallel, region, serial_from, vectorized,
};
use super::choice::Choice;
use super::fuse_rows::fuse_rows;
use super::look_up::look_up;
use super::nest::{Buffers, Nest, Part, accesses, buffers_of, int_of, parts_of, replaced};
use super::packing::Packing;
use super::padded::padded;
use super::parallelize::{Sharing, distribute, is_long, work_of};
use super::tile::{Scope, tile};
use super::vectorize::{is_contiguous, is_kernel_code, map_inside, reduce_row_inside};
use super::winograd::winograd;
use super::worth::note_work;

/// Schedules a prim_func in block form. `weights` are the parameters that may be packed; gives how they are, so that
/// callers pass them so. A function that is scheduled already stays as it is.
pub fn schedule_func(func: &mut Func, weights: &BTreeSet<Name>, target: Target) -> Vec<Packing> {
    let target = Target {
        choice: Choice::of(func),
        ..target
    };
    let buffers = buffers_of(func);
    // Declarations first, so that nests stand beside each other.
    let is_head = |stmt: &Stmt| match &stmt.kind {
        StmtKind::Assign { value, .. } => is_declaration(value),
        _ => false,
    };
    let n_attrs = func
        .body
        .iter()
        .take_while(|stmt| !matches!(stmt.kind, StmtKind::For { .. } | StmtKind::With { .. }))
        .count();
    let tail = func.body.split_off(n_attrs);
    let (heads, rest): (Vec<Stmt>, Vec<Stmt>) = tail.into_iter().partition(is_head);
    func.body.extend(heads);
    func.body.extend(rest);
    let originals = func.body.clone();
    let parts = parts_of(func);
    let mut names = NameSupply::of_func(func);
    let no_panels = BTreeMap::new();
    let params: BTreeSet<Name> = func.params.iter().map(|param| param.name.clone()).collect();
    let mut cx = Auto {
        target,
        buffers: &buffers,
        params: &params,
        weights,
        panels: &no_panels,
        parts: &parts,
        names: &mut names,
        sharing: Sharing::Tasks(target.grain()),
        packings: Vec::new(),
        moved: BTreeSet::new(),
    };
    // Statements, and whether they stood there before.
    let mut body: Vec<(bool, Stmt)> = Vec::new();
    let mut at = 0;
    while at < parts.len() {
        match &parts[at] {
            Part::Stmt(stmt) => {
                body.push((true, stmt.clone()));
                at += 1;
            }
            Part::Nest(nest) => match cx.next(at, nest) {
                Some((mut stmts, taken)) => {
                    stmts.iter_mut().for_each(note_work);
                    body.extend(stmts.into_iter().map(|stmt| (false, stmt)));
                    at += taken;
                }
                None => {
                    let mut stmt = in_parallel(&originals[at], nest);
                    note_work(&mut stmt);
                    body.push((false, stmt));
                    at += 1;
                }
            },
        }
    }
    let Auto {
        packings, moved, ..
    } = cx;
    body.retain(|(is_old, stmt)| !is_old || !declares_any(stmt, &moved));
    func.body = body.into_iter().map(|(_, stmt)| stmt).collect();
    drop_unused(func, &params);
    packings
}

struct Auto<'a> {
    target: Target,
    buffers: &'a Buffers,
    params: &'a BTreeSet<Name>,
    weights: &'a BTreeSet<Name>,
    /// Buffers of which copies in panels exist, with the copies.
    panels: &'a BTreeMap<Name, Name>,
    parts: &'a [Part],
    names: &'a mut NameSupply,
    sharing: Sharing,
    packings: Vec<Packing>,
    moved: BTreeSet<Name>,
}

impl Auto<'_> {
    /// The code of the nest at a place, and how many nests from there on it covers.
    fn next(&mut self, at: usize, nest: &Nest) -> Option<(Vec<Stmt>, usize)> {
        let nests: Vec<&Nest> = self.parts[at..]
            .iter()
            .map_while(|part| match part {
                Part::Nest(nest) => Some(nest),
                Part::Stmt(_) => None,
            })
            .collect();
        let (parts, params) = (self.parts, self.params);
        let used_after = |taken: usize| {
            let mut used = used_in(
                parts
                    .iter()
                    .enumerate()
                    .filter(|(idx, _)| *idx < at || at + taken <= *idx)
                    .map(|(_, part)| part),
            );
            used.extend(params.iter().cloned());
            used
        };
        let scope = (self.buffers, self.weights);
        if self.sharing != Sharing::Within
            && !self.target.exact
            && let Some(done) = winograd(self.names, &nests, self.target, scope, &used_after)
        {
            self.packings.push(done.packing);
            return Some((done.stmts, done.taken));
        }
        if self.sharing != Sharing::Within
            && let Some(res) = self.bands(&nests, &used_after)
        {
            return Some(res);
        }
        if let Some(fused) = fuse_rows(
            self.names,
            &nests,
            self.target,
            self.buffers,
            self.sharing,
            &used_after,
        ) {
            self.moved.extend(fused.moved);
            return Some((fused.stmts, fused.taken));
        }
        if nest.init.is_empty() {
            let run = beside(self.names, &nests, self.buffers, &used_after);
            if let Some(joined) = run
                && let Some(stmts) = self.map(&joined.nest)
            {
                self.moved.extend(joined.gone);
                return Some((stmts, joined.taken));
            }
            return Some((self.map(nest)?, 1));
        }
        for taken in [2, 1] {
            let epilogue = match taken {
                2 => match nests.get(1) {
                    Some(next) => Some(*next),
                    None => continue,
                },
                _ => None,
            };
            let used = used_after(taken);
            let scope = Scope {
                target: self.target,
                buffers: self.buffers,
                weights: self.weights,
                panels: self.panels,
                result_is_read: result_of(nest).is_some_and(|name| used.contains(&name)),
                sharing: self.sharing,
            };
            if let Some((stmts, packings)) = tile(self.names, nest, epilogue, &scope) {
                self.packings.extend(packings);
                return Some((stmts, taken));
            }
        }
        let outer = nest.loops.iter().take_while(|each| !each.reduces).count();
        let body = reduce_row_inside(self.names, nest, outer, self.target, self.buffers)?;
        let work = work_of(&nest.loops[outer..]);
        Some((
            distribute(
                self.names,
                &nest.name,
                &nest.loops[..outer],
                work,
                self.sharing,
                Vec::new(),
                body,
            ),
            1,
        ))
    }

    fn map(&mut self, nest: &Nest) -> Option<Vec<Stmt>> {
        let (last, outer) = nest.loops.split_last()?;
        if let Some(stmts) = look_up(self.names, nest, self.sharing, self.target, self.buffers) {
            return Some(stmts);
        }
        if outer.is_empty() && last.len().is_none_or(|len| len > 2 * self.target.grain()) {
            return self.long_row(nest);
        }
        let body = map_inside(self.names, nest, outer.len(), self.target, self.buffers)?;
        let work = work_of(std::slice::from_ref(last));
        Some(distribute(
            self.names,
            &nest.name,
            outer,
            work,
            self.sharing,
            Vec::new(),
            body,
        ))
    }

    /// The code of attention, or of sums over a padded copy, a task a band of rows, and how many nests it covers.
    fn bands(
        &mut self,
        nests: &[&Nest],
        used_after: &dyn Fn(usize) -> BTreeSet<Name>,
    ) -> Option<(Vec<Stmt>, usize)> {
        let found = bands(self.names, nests, self.target, self.buffers, used_after)
            .or_else(|| padded(self.names, nests, self.buffers, used_after))?;
        let (mut stmts, mut panels) = (Vec::new(), BTreeMap::new());
        if let Some(copied) = found.copied {
            panels.insert(copied.from, copied.to);
            stmts = copied.stmts;
        }
        let mut packings = Vec::new();
        for part in &found.parts {
            let mut levels: Vec<(Name, Expr)> = found
                .heads
                .iter()
                .map(|each| (each.var.clone(), each.extent.clone()))
                .collect();
            levels.push((part.over.var.clone(), part.over.extent.clone()));
            let weights = found.packs.then_some(self.weights);
            let body = self.inside(part, &panels, weights, &mut packings)?;
            stmts.extend(parallel(self.names, levels, body));
        }
        self.packings.extend(packings);
        if found.packs {
            self.moved
                .extend(found.parts.into_iter().flat_map(|part| part.own));
            return Some((stmts, found.taken));
        }
        // A band declares its buffers itself, or has put another in their place.
        let used = used_after(found.taken);
        let filled = nests[..found.taken]
            .iter()
            .flat_map(|nest| accesses(&nest.body))
            .filter(|access| access.stores && !used.contains(&access.buffer));
        self.moved.extend(filled.map(|access| access.buffer));
        Some((stmts, found.taken))
    }

    /// The nests of a band, and its buffers before them.
    fn inside(
        &mut self,
        band: &Band,
        panels: &BTreeMap<Name, Name>,
        weights: Option<&BTreeSet<Name>>,
        packings: &mut Vec<Packing>,
    ) -> Option<Vec<Stmt>> {
        let none = BTreeSet::new();
        let parts: Vec<Part> = band.nests.iter().cloned().map(Part::Nest).collect();
        let mut inner = Auto {
            target: self.target,
            buffers: &band.buffers,
            params: self.params,
            weights: weights.unwrap_or(&none),
            panels,
            parts: &parts,
            names: self.names,
            sharing: Sharing::Within,
            packings: Vec::new(),
            moved: BTreeSet::new(),
        };
        let mut code = Vec::new();
        let mut at = 0;
        while at < parts.len() {
            let (stmts, taken) = inner.next(at, &band.nests[at])?;
            code.extend(stmts);
            at += taken;
        }
        if weights.is_some() {
            packings.append(&mut inner.packings);
        }
        let moved = inner.moved;
        let used = used_in(
            code.iter()
                .cloned()
                .map(Part::Stmt)
                .collect::<Vec<_>>()
                .iter(),
        );
        let mut body = Vec::new();
        for name in band
            .own
            .iter()
            .filter(|name| used.contains(*name) && !moved.contains(*name))
        {
            let (dtype, shape) = band.buffers.get(name)?;
            let shape = Expr::tuple(shape.iter().cloned());
            body.push(Stmt::bind(
                name,
                Expr::call("T.alloc_buffer", [shape, Expr::str(dtype.name())]),
            ));
        }
        body.extend(code);
        Some(body)
    }

    /// One long loop, its vectors shared out in chunks.
    fn long_row(&mut self, nest: &Nest) -> Option<Vec<Stmt>> {
        let [over] = nest.loops.as_slice() else {
            return None;
        };
        if !is_kernel_code(&nest.body, self.buffers)
            || !is_contiguous(&nest.body, &over.var, self.buffers)
        {
            return None;
        }
        let lanes = 2 * self.target.lanes;
        let rounds = (self.target.grain() / lanes).max(1);
        let (task, step, lane) = (
            self.names.fresh("task"),
            self.names.fresh("jo"),
            self.names.fresh("vi"),
        );
        let steps = ceil_div(&over.extent, lanes);
        let place = add(mul(Expr::name(&step), lanes), Expr::name(&lane));
        let map = BTreeMap::from([(over.var.clone(), place.clone())]);
        let masked = over.len().is_none_or(|len| len % lanes != 0);
        let cond = masked.then(|| less(place, over.extent.clone()));
        let inner = vectorized(&lane, lanes, guarded(cond, replaced(&nest.body, &map)));
        let lo = mul(Expr::name(&task), rounds);
        let hi = min(add(lo.clone(), Expr::int(rounds)), steps.clone());
        let body = region(&nest.name, vec![serial_from(&step, lo, hi, vec![inner])]);
        Some(parallel(
            self.names,
            vec![(task, ceil_div(&steps, rounds))],
            vec![body],
        ))
    }
}

/// The buffer that a reduction fills.
fn result_of(nest: &Nest) -> Option<Name> {
    super::vectorize::update_of(nest).map(|update| update.buffer)
}

/// Every name in parts, but for what declarations declare.
fn used_in<'a>(parts: impl Iterator<Item = &'a Part>) -> BTreeSet<Name> {
    let mut used = BTreeSet::new();
    let mut take = |expr: &Expr| used.extend(expr.as_name().cloned());
    for part in parts {
        match part {
            Part::Nest(nest) => {
                for_each_expr(&nest.init, &mut take);
                for_each_expr(&nest.body, &mut take);
            }
            Part::Stmt(stmt) => match &stmt.kind {
                StmtKind::Assign { target, value, .. } if target.as_name().is_some() => {
                    for_each_subexpr(value, &mut take);
                }
                _ => for_each_expr(std::slice::from_ref(stmt), &mut take),
            },
        }
    }
    used
}

fn declares_any(stmt: &Stmt, names: &BTreeSet<Name>) -> bool {
    match &stmt.kind {
        StmtKind::Assign { target, value, .. } => {
            is_declaration(value) && target.as_name().is_some_and(|name| names.contains(name))
        }
        _ => false,
    }
}

fn is_declaration(value: &Expr) -> bool {
    value.is_call_of("T.sblock_alloc_buffer") || value.is_call_of("T.alloc_buffer")
}

/// Takes out declarations of buffers that nothing uses any more.
fn drop_unused(func: &mut Func, params: &BTreeSet<Name>) {
    let mut used = BTreeSet::new();
    let mut take = |expr: &Expr| used.extend(expr.as_name().cloned());
    for stmt in &func.body {
        match &stmt.kind {
            StmtKind::Assign { value, .. } if is_declaration(value) => {
                for_each_subexpr(value, &mut take);
            }
            _ => for_each_expr(std::slice::from_ref(stmt), &mut take),
        }
    }
    func.body.retain(|stmt| match &stmt.kind {
        StmtKind::Assign { target, value, .. } if is_declaration(value) => target
            .as_name()
            .is_none_or(|name| params.contains(name) || used.contains(name)),
        _ => true,
    });
}

/// A nest in block form whose first result loop runs in parallel, where there is enough work.
fn in_parallel(stmt: &Stmt, nest: &Nest) -> Stmt {
    let StmtKind::For { target, iter, body } = &stmt.kind else {
        return stmt.clone();
    };
    let vars = target.as_items().unwrap_or(std::slice::from_ref(target));
    let extents: Vec<&Expr> = iter.positional().collect();
    let first = vars.iter().zip(&extents).position(|(var, extent)| {
        let is_result = nest
            .loops
            .iter()
            .any(|each| Some(&each.var) == var.as_name() && !each.reduces);
        is_result && int_of(extent) != Some(1)
    });
    let Some(at) = first.filter(|_| is_long(&nest.loops) && vars.len() == extents.len()) else {
        return stmt.clone();
    };
    let ones_before = extents[..at].iter().all(|extent| int_of(extent) == Some(1));
    if !ones_before {
        return stmt.clone();
    }
    let loop_over = |vars: &[Expr], extents: &[&Expr], body: Vec<Stmt>| -> Vec<Stmt> {
        match (vars, extents) {
            ([], _) => body,
            ([var], [extent]) => vec![Stmt::new(StmtKind::For {
                target: var.clone(),
                iter: Expr::call("range", [(*extent).clone()]),
                body,
            })],
            _ => vec![Stmt::new(StmtKind::For {
                target: Expr::new(irc_syntax::ExprKind::Tuple {
                    items: vars.to_vec(),
                    parens: false,
                }),
                iter: Expr::call("T.grid", extents.iter().map(|extent| (*extent).clone())),
                body,
            })],
        }
    };
    let inner = loop_over(&vars[at + 1..], &extents[at + 1..], body.clone());
    let task = Stmt::new(StmtKind::For {
        target: vars[at].clone(),
        iter: Expr::call("T.parallel", [extents[at].clone()]),
        body: inner,
    });
    let mut res = loop_over(&vars[..at], &extents[..at], vec![task]);
    if res.len() == 1 {
        res.remove(0)
    } else {
        stmt.clone()
    }
}
