//! Nests over the same rows as one: softmax, layer norm and their like go over memory once.
//!
//!     for i, k in T.grid(n, m): top[i] = max(…)              for i in T.parallel(n):
//!     for i, j in T.grid(n, m): e[i, j] = exp(…)                 e = T.alloc_buffer((m,))
//!     for i, k in T.grid(n, m): sum[i] = …            →          with T.sblock("rows"):             (a kernel region)
//!     for i, j in T.grid(n, m): y[i, j] = e[i, j] / sum[i]           top[0] = …; e[j] = …; sum[0] = …; y[i, j] = …
//!
//! Needs every buffer that one nest fills and another reads to be indexed by the shared loops as they are. Buffers that only
//! these nests use lose the shared axes and are allocated by the task.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::names::NameSupply;
use irc_syntax::same::is_identical_expr;
use irc_syntax::visit::walk_expr_mut;
use irc_syntax::{DType, Expr, ExprKind, Name, Stmt, StmtKind, VisitMut};

use super::Target;
use super::nest::{Access, Buffers, Loop, Nest, accesses, int_of, replaced};
use super::parallelize::{Sharing, distribute, work_of};
use super::tile::ReplaceExpr;
use super::vectorize::{
    alloc_local, is_contiguous, is_kernel_code, map_inside, reduce_row_after, reduce_row_inside,
};

/// The fused code, how many nests went into it, and the buffers that are declared inside it now.
pub struct FusedRows {
    /// The code.
    pub stmts: Vec<Stmt>,
    /// Nests taken.
    pub taken: usize,
    /// Buffers whose outer declaration goes.
    pub moved: BTreeSet<Name>,
}

/// Fuses as many of the nests as can be, at least two and one of them a reduction. `used_after(n)` are the buffers that
/// anything but the first `n` nests uses.
pub fn fuse_rows(
    names: &mut NameSupply,
    nests: &[&Nest],
    target: Target,
    buffers: &Buffers,
    sharing: Sharing,
    used_after: &dyn Fn(usize) -> BTreeSet<Name>,
) -> Option<FusedRows> {
    let first = nests.first()?;
    let n_spatial = first.loops.iter().take_while(|each| !each.reduces).count();
    let mut best: Option<(usize, usize)> = None;
    for outer in (1..=n_spatial).rev() {
        let taken = run_length(names, nests, outer, target, buffers);
        let reduces = nests[..taken].iter().any(|nest| !nest.init.is_empty());
        if reduces && taken >= 2 && best.is_none_or(|(_, most)| most < taken) {
            best = Some((outer, taken));
        }
    }
    let (outer, taken) = best?;
    let group = renamed(&nests[..taken], outer);
    let kept = used_after(taken);
    let shared: Vec<&Name> = first.loops[..outer].iter().map(|each| &each.var).collect();
    let mut compact: BTreeMap<Name, Vec<usize>> = BTreeMap::new();
    for access in group.iter().flat_map(accesses_of) {
        if access.stores && !kept.contains(&access.buffer) {
            let axes = shared_axes(&access, &shared)?;
            compact.insert(access.buffer.clone(), axes);
        }
    }
    emit(names, group, outer, target, buffers, sharing, compact)
}

pub(super) fn accesses_of(nest: &Nest) -> Vec<Access> {
    let mut res = accesses(&nest.init);
    res.extend(accesses(&nest.body));
    res
}

/// The nests with their first loops named as those of the first nest.
pub(super) fn renamed(nests: &[&Nest], outer: usize) -> Vec<Nest> {
    let heads: Vec<Name> = nests[0].loops[..outer]
        .iter()
        .map(|each| each.var.clone())
        .collect();
    nests
        .iter()
        .map(|nest| {
            // Through names of their own, so that exchanged names do not meet.
            let own = nest.loops[..outer].iter().zip(&heads);
            let map: BTreeMap<Name, Expr> = own
                .map(|(each, head)| (each.var.clone(), Expr::name(head)))
                .collect();
            let mut res = (*nest).clone();
            res.init = replaced(&nest.init, &map);
            res.body = replaced(&nest.body, &map);
            for (each, head) in res.loops.iter_mut().zip(&heads) {
                each.var = head.clone();
            }
            res
        })
        .collect()
}

/// For each shared loop the axis of an access that it is the index of.
pub(super) fn shared_axes(access: &Access, shared: &[&Name]) -> Option<Vec<usize>> {
    shared
        .iter()
        .map(|var| {
            access
                .index
                .iter()
                .position(|expr| expr.as_name() == Some(*var))
        })
        .collect()
}

/// How many nests from the first on go together inside `outer` shared loops.
fn run_length(
    names: &NameSupply,
    nests: &[&Nest],
    outer: usize,
    target: Target,
    buffers: &Buffers,
) -> usize {
    let heads = &nests[0].loops[..outer];
    let mut taken = 0;
    for nest in nests {
        let same = nest.loops.len() >= outer
            && nest.loops[..outer].iter().zip(heads).all(|(a, b)| {
                !a.reduces && is_identical_expr(&a.extent, &b.extent)
            })
            // Names of inner loops must not be those of the shared ones.
            && nest.loops[outer..].iter().all(|each| heads.iter().all(|head| head.var != each.var));
        let mut probe = names.clone();
        if !same || inside(&mut probe, nest, outer, target, buffers).is_none() {
            break;
        }
        let group = renamed(&nests[..taken + 1], outer);
        if !flows_within(&group, heads) {
            break;
        }
        taken += 1;
    }
    taken
}

/// Whether what one nest stores is met by the others at the same place of the shared loops.
pub(super) fn flows_within(group: &[Nest], heads: &[Loop]) -> bool {
    let shared: Vec<&Name> = heads.iter().map(|each| &each.var).collect();
    let all: Vec<Access> = group.iter().flat_map(accesses_of).collect();
    let stored: BTreeSet<&Name> = all
        .iter()
        .filter(|access| access.stores)
        .map(|access| &access.buffer)
        .collect();
    stored.iter().all(|buffer| {
        let axes: BTreeSet<Option<Vec<usize>>> = all
            .iter()
            .filter(|access| access.buffer == **buffer)
            .map(|access| shared_axes(access, &shared))
            .collect();
        axes.len() == 1 && !axes.contains(&None)
    })
}

fn inside(
    names: &mut NameSupply,
    nest: &Nest,
    outer: usize,
    target: Target,
    buffers: &Buffers,
) -> Option<Vec<Stmt>> {
    if nest.init.is_empty() {
        map_inside(names, nest, outer, target, buffers)
    } else {
        reduce_row_inside(names, nest, outer, target, buffers)
    }
}

fn emit(
    names: &mut NameSupply,
    mut group: Vec<Nest>,
    outer: usize,
    target: Target,
    buffers: &Buffers,
    sharing: Sharing,
    compact: BTreeMap<Name, Vec<usize>>,
) -> Option<FusedRows> {
    let mut prologue = Vec::new();
    let mut drop_axes = DropAxes(&compact);
    for nest in &mut group {
        nest.init
            .iter_mut()
            .chain(&mut nest.body)
            .for_each(|stmt| drop_axes.visit_stmt(stmt));
    }
    let mut body = Vec::new();
    for (name, axes) in &compact {
        let (dtype, shape) = buffers.get(name)?;
        let mut rest: Vec<Expr> = shape
            .iter()
            .enumerate()
            .filter(|(at, _)| !axes.contains(at))
            .map(|(_, extent)| extent.clone())
            .collect();
        let is_one = rest.iter().all(|extent| int_of(extent) == Some(1));
        if rest.is_empty() {
            rest.push(Expr::int(1));
        }
        if is_one && matches!(dtype, DType::F32 | DType::I32) {
            // One number a row stays in a register.
            body.push(alloc_local(name, &vec![1; rest.len()], *dtype));
            continue;
        }
        let alloc = Expr::call(
            "T.alloc_buffer",
            [Expr::tuple(rest), Expr::str(dtype.name())],
        );
        prologue.push(Stmt::bind(name, alloc));
    }
    let mut work = 0;
    let mut rest = group.as_slice();
    while let [nest, after @ ..] = rest {
        work += work_of(&nest.loops[outer..]);
        rest = after;
        if let [next, after @ ..] = after
            && let Some(code) = summed_up(names, nest, next, outer, target, buffers)
        {
            work += work_of(&next.loops[outer..]);
            body.extend(code);
            rest = after;
            continue;
        }
        body.extend(inside(names, nest, outer, target, buffers)?);
    }
    let heads = group.first()?.loops[..outer].to_vec();
    let taken = group.len();
    let stmts = distribute(names, "rows", &heads, work, sharing, prologue, body);
    Some(FusedRows {
        stmts,
        taken,
        moved: compact.into_keys().collect(),
    })
}

/// An element-wise nest and the reduction of what it stores as one loop: each vector is added up as it is computed.
fn summed_up(
    names: &mut NameSupply,
    map: &Nest,
    reduction: &Nest,
    outer: usize,
    target: Target,
    buffers: &Buffers,
) -> Option<Vec<Stmt>> {
    let ([over], [column]) = (map.loops.get(outer..)?, reduction.loops.get(outer..)?) else {
        return None;
    };
    let same = map.init.is_empty()
        && column.reduces
        && is_identical_expr(&over.extent, &column.extent)
        && is_kernel_code(&map.body, buffers)
        && is_contiguous(&map.body, &over.var, buffers);
    if !same {
        return None;
    }
    let to_column = BTreeMap::from([(over.var.clone(), Expr::name(&column.var))]);
    let mut before = replaced(&map.body, &to_column);
    let last = before.pop()?;
    let StmtKind::Assign {
        target: place,
        value,
        ..
    } = last.kind
    else {
        return None;
    };
    let ExprKind::Index { value: buffer, .. } = &place.kind else {
        return None;
    };
    let buffer = buffer.as_name()?.clone();
    let dtype = buffers.get(&buffer)?.0;
    let is_let = |stmt: &Stmt| match &stmt.kind {
        StmtKind::Assign { target, .. } => target.as_name().is_some(),
        _ => false,
    };
    let reads_elsewhere = |access: &Access| {
        access.buffer == buffer
            && !is_identical_expr(
                &Expr::index(Expr::name(&buffer), access.index.clone()),
                &place,
            )
    };
    let read: Vec<Access> = accesses(&reduction.body);
    let fits = dtype == DType::F32
        && before.iter().all(is_let)
        && read.iter().any(|access| access.buffer == buffer)
        && !read.iter().any(reads_elsewhere);
    if !fits {
        return None;
    }
    let local = Expr::name(names.fresh(&format!("{buffer}_v")));
    let of = Expr::path(&format!("T.{}", dtype.name()));
    before.push(Stmt::new(StmtKind::Assign {
        target: local.clone(),
        ty: Some(Expr::index(Expr::path("T.let"), [of])),
        value,
    }));
    before.push(Stmt::assign(place.clone(), local.clone()));
    let mut reduction = reduction.clone();
    let mut change = ReplaceExpr {
        from: &place,
        to: &local,
    };
    for stmt in &mut reduction.body {
        change.visit_stmt(stmt);
    }
    reduce_row_after(names, &reduction, &before, outer, target, buffers)
}

/// Takes axes out of accesses; one without axes left reads its only element.
struct DropAxes<'a>(&'a BTreeMap<Name, Vec<usize>>);

impl VisitMut for DropAxes<'_> {
    fn visit_expr(&mut self, expr: &mut Expr) {
        walk_expr_mut(self, expr);
        let ExprKind::Index { value, index } = &mut expr.kind else {
            return;
        };
        let Some(axes) = value.as_name().and_then(|name| self.0.get(name)) else {
            return;
        };
        let mut at = 0;
        index.retain(|_| {
            at += 1;
            !axes.contains(&(at - 1))
        });
        if index.is_empty() {
            index.push(Expr::int(0));
        }
    }

    fn visit_stmt(&mut self, stmt: &mut Stmt) {
        match &mut stmt.kind {
            // The type of a `let` looks like an access.
            StmtKind::Assign { target, value, .. } => {
                self.visit_expr(target);
                self.visit_expr(value);
            }
            _ => irc_syntax::visit::walk_stmt_mut(self, stmt),
        }
    }
}
