//! Element-wise nests and reductions along rows as vector loops.
//!
//!     for i, j in T.grid(n, 100):              for i in T.parallel(n):
//!         y[i, j] = T.exp(x[i, j])      →          with T.sblock("y"):                        (a kernel region)
//!                                                      for jo in range(7):
//!                                                          for vi in T.vectorized(16):
//!                                                              if jo * 16 + vi < 100:
//!                                                                  y[i, jo * 16 + vi] = T.exp(x[i, jo * 16 + vi])
//!
//! Needs addresses that move by one element, or not at all, with the innermost loop. A row reduction keeps one partial
//! result a lane and combines them at the row's end. Nests refused here stay as they are.

use std::collections::BTreeMap;

use irc_syntax::names::NameSupply;
use irc_syntax::same::is_identical_expr;
use irc_syntax::uses::mentions;
use irc_syntax::{BinaryOp, DType, Expr, ExprKind, Name, Stmt, StmtKind};

use super::Target;
use super::build::{add, ceil_div, guarded, less, mul, serial, unrolled, vectorized};
use super::nest::{Buffers, Loop, Nest, Step, accesses, int_of, replaced, step_of};

/// Whether the kernel emitter takes the values of statements: element types, calls, and no index that is itself loaded.
pub fn is_kernel_code(stmts: &[Stmt], buffers: &Buffers) -> bool {
    if stmts
        .iter()
        .any(|stmt| matches!(stmt.kind, StmtKind::Assert { .. }))
    {
        return false;
    }
    // What an index depends on must show in it.
    let lets: Vec<&Name> = stmts
        .iter()
        .filter_map(|stmt| match &stmt.kind {
            StmtKind::Assign { target, .. } => target.as_name(),
            _ => None,
        })
        .collect();
    accesses(stmts).iter().all(|access| {
        let plain = access
            .index
            .iter()
            .all(|expr| !mentions(expr, |name| lets.contains(&name)));
        let loads = buffers.get(&access.buffer).is_some_and(|(dtype, _)| {
            matches!(
                dtype,
                DType::F32
                    | DType::I32
                    | DType::Bool
                    | DType::F16
                    | DType::I16
                    | DType::I8
                    | DType::U8
            )
        });
        plain
            && loads
            && access
                .index
                .iter()
                .all(|expr| accesses(&[Stmt::expr(expr.clone())]).is_empty())
    })
}

/// How a loop is covered by vectors.
pub struct Cover {
    /// Lanes of one vector loop.
    pub lanes: i64,
    /// How many vector loops.
    pub steps: Expr,
    /// Whether the last one may hang over.
    pub masked: bool,
}

/// Covers an extent with vectors of about `wide` lanes.
pub fn cover(extent: &Expr, wide: i64) -> Cover {
    match int_of(extent) {
        Some(len) if 0 < len && len <= wide => Cover {
            lanes: len.max(1),
            steps: Expr::int(1),
            masked: false,
        },
        Some(len) => Cover {
            lanes: wide,
            steps: ceil_div(extent, wide),
            masked: len % wide != 0,
        },
        None => Cover {
            lanes: wide,
            steps: ceil_div(extent, wide),
            masked: true,
        },
    }
}

/// The vector loops over one loop: `body` sees its variable as `jo * lanes + vi`.
pub fn vector_loop(
    names: &mut NameSupply,
    over: &Loop,
    wide: i64,
    body: impl Fn(&BTreeMap<Name, Expr>, &Name) -> Vec<Stmt>,
) -> Vec<Stmt> {
    let cover = cover(&over.extent, wide);
    let lane = names.fresh("vi");
    let is_single = int_of(&cover.steps) == Some(1);
    let outer = if is_single {
        Name::from("jo")
    } else {
        names.fresh("jo")
    };
    let start = if is_single {
        Expr::int(0)
    } else {
        mul(Expr::name(&outer), cover.lanes)
    };
    let place = add(start, Expr::name(&lane));
    let map = BTreeMap::from([(over.var.clone(), place.clone())]);
    let cond = cover.masked.then(|| less(place, over.extent.clone()));
    let inner = vectorized(&lane, cover.lanes, guarded(cond, body(&map, &lane)));
    if is_single {
        vec![inner]
    } else {
        vec![serial(&outer, cover.steps, vec![inner])]
    }
}

/// Whether every address moves by one element or not at all with a variable, and every store by one.
pub fn is_contiguous(stmts: &[Stmt], var: &Name, buffers: &Buffers) -> bool {
    accesses(stmts)
        .iter()
        .all(|access| match step_of(access, var, buffers) {
            Step::One => true,
            Step::Still => !access.stores,
            Step::Other => false,
        })
}

/// The code of an element-wise nest inside its first `outer` loops: vectors over the innermost, serial loops between.
/// `None` when it cannot be vectorized.
pub fn map_inside(
    names: &mut NameSupply,
    nest: &Nest,
    outer: usize,
    target: Target,
    buffers: &Buffers,
) -> Option<Vec<Stmt>> {
    if !nest.init.is_empty() || !is_kernel_code(&nest.body, buffers) {
        return None;
    }
    let inner = nest.loops.get(outer..)?;
    let Some((last, between)) = inner.split_last() else {
        return Some(nest.body.clone());
    };
    if !is_contiguous(&nest.body, &last.var, buffers) {
        return None;
    }
    let wide = 2 * target.lanes;
    let mut body = vector_loop(names, last, wide, |map, _| replaced(&nest.body, map));
    for each in between.iter().rev() {
        body = vec![serial(&each.var, each.extent.clone(), body)];
    }
    Some(body)
}

/// A reduction's single store: where to, and the new value as a function of the old and of an element.
pub struct Update {
    /// The place that is updated.
    pub place: Expr,
    /// Its buffer.
    pub buffer: Name,
    /// Its initial value.
    pub start: Expr,
    /// What runs before the store.
    pub lets: Vec<Stmt>,
    /// The store's right-hand side.
    pub value: Expr,
}

/// Reads a reduction that updates one place.
pub fn update_of(nest: &Nest) -> Option<Update> {
    let [
        Stmt {
            kind:
                StmtKind::Assign {
                    target: first,
                    value: start,
                    ..
                },
            ..
        },
    ] = nest.init.as_slice()
    else {
        return None;
    };
    let (last, lets) = nest.body.split_last()?;
    let StmtKind::Assign {
        target: place,
        value,
        ..
    } = &last.kind
    else {
        return None;
    };
    let ExprKind::Index { value: buffer, .. } = &place.kind else {
        return None;
    };
    let is_let = |stmt: &Stmt| match &stmt.kind {
        StmtKind::Assign { target, .. } => target.as_name().is_some(),
        _ => false,
    };
    if !is_identical_expr(first, place) || !lets.iter().all(is_let) {
        return None;
    }
    Some(Update {
        place: place.clone(),
        buffer: buffer.as_name()?.clone(),
        start: start.clone(),
        lets: lets.to_vec(),
        value: value.clone(),
    })
}

/// The right-hand side of an update with its old value and its new element: `old + e`, `T.max(old, e)`.
pub fn combine_parts<'a>(value: &'a Expr, place: &Expr) -> Option<(&'a Expr, Combine)> {
    match &value.kind {
        ExprKind::Binary { op, lhs, rhs }
            if matches!(op, BinaryOp::Add | BinaryOp::Mul) && is_identical_expr(lhs, place) =>
        {
            Some((
                rhs,
                if *op == BinaryOp::Add {
                    Combine::Add
                } else {
                    Combine::Mul
                },
            ))
        }
        ExprKind::Call { .. } => {
            let (path, args) = value.as_call()?;
            let [old, element] = args else { return None };
            if !is_identical_expr(&old.value, place) {
                return None;
            }
            match path.as_str() {
                "T.max" => Some((&element.value, Combine::Max)),
                "T.min" => Some((&element.value, Combine::Min)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// How a reduction combines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Combine {
    /// `a + b`
    Add,
    /// `a * b`
    Mul,
    /// `T.max(a, b)`
    Max,
    /// `T.min(a, b)`
    Min,
}

impl Combine {
    /// `a` and `b` combined.
    pub fn apply(self, a: Expr, b: Expr) -> Expr {
        match self {
            Self::Add => Expr::binary(BinaryOp::Add, a, b),
            Self::Mul => Expr::binary(BinaryOp::Mul, a, b),
            Self::Max => Expr::call("T.max", [a, b]),
            Self::Min => Expr::call("T.min", [a, b]),
        }
    }
}

/// `name = T.alloc_local((extents), "dtype")`
pub fn alloc_local(name: &Name, extents: &[i64], dtype: DType) -> Stmt {
    let shape = Expr::tuple(extents.iter().map(|&extent| Expr::int(extent)));
    Stmt::bind(
        name,
        Expr::call("T.alloc_local", [shape, Expr::str(dtype.name())]),
    )
}

fn at(buffer: &Name, index: impl IntoIterator<Item = Expr>) -> Expr {
    Expr::index(Expr::name(buffer), index)
}

/// The code of a row reduction inside its first `outer` loops, all of them spatial: the innermost reduction runs in
/// vectors. `None` when it cannot.
pub fn reduce_row_inside(
    names: &mut NameSupply,
    nest: &Nest,
    outer: usize,
    target: Target,
    buffers: &Buffers,
) -> Option<Vec<Stmt>> {
    reduce_row_after(names, nest, &[], outer, target, buffers)
}

/// The same with element-wise code before the update of each element, whose names the update may read.
pub fn reduce_row_after(
    names: &mut NameSupply,
    nest: &Nest,
    before: &[Stmt],
    outer: usize,
    target: Target,
    buffers: &Buffers,
) -> Option<Vec<Stmt>> {
    let update = update_of(nest)?;
    let (element, combine) = combine_parts(&update.value, &update.place)?;
    let dtype = buffers.get(&update.buffer)?.0;
    let inner = nest.loops.get(outer..)?;
    let (last, others) = inner.split_last()?;
    let spatial: Vec<&Loop> = others.iter().filter(|each| !each.reduces).collect();
    // A partial sum a lane is another order.
    let keeps_order = matches!(combine, Combine::Max | Combine::Min) || dtype == DType::I32;
    if target.exact && !keeps_order {
        return None;
    }
    let is_row = last.reduces
        && others.iter().skip(spatial.len()).all(|each| each.reduces)
        && matches!(dtype, DType::F32 | DType::I32)
        && is_kernel_code(&nest.body, buffers)
        && accesses(&nest.body)
            .iter()
            .all(|access| match step_of(access, &last.var, buffers) {
                Step::Still => true,
                Step::One => access.buffer != update.buffer,
                Step::Other => false,
            });
    if !is_row {
        return None;
    }
    // Enough independent sums to hide the latency of one.
    let wide = match last.len() {
        Some(len) if len < 4 * target.lanes => 2 * target.lanes,
        _ => 4 * target.lanes,
    };
    let lanes = cover(&last.extent, wide).lanes;
    let (partial, total) = (names.fresh("partial"), names.fresh("total"));
    let clear = names.fresh("vi");
    let gather = names.fresh("vi");
    let mut body = vec![
        alloc_local(&partial, &[lanes], dtype),
        alloc_local(&total, &[1], dtype),
        vectorized(
            &clear,
            lanes,
            vec![Stmt::assign(
                at(&partial, [Expr::name(&clear)]),
                update.start.clone(),
            )],
        ),
    ];
    let mut sums = vector_loop(names, last, wide, |map, lane| {
        let mut inner = replaced(before, map);
        inner.extend(replaced(&update.lets, map));
        let place = at(&partial, [Expr::name(lane)]);
        let store = Stmt::assign(place.clone(), combine.apply(place, element.clone()));
        inner.extend(replaced(&[store], map));
        inner
    });
    for each in others.iter().skip(spatial.len()).rev() {
        sums = vec![serial(&each.var, each.extent.clone(), sums)];
    }
    body.extend(sums);
    let place = at(&total, [Expr::int(0)]);
    body.push(Stmt::assign(place.clone(), update.start.clone()));
    let fold = combine.apply(place.clone(), at(&partial, [Expr::name(&gather)]));
    body.push(vectorized(
        &gather,
        lanes,
        vec![Stmt::assign(place.clone(), fold)],
    ));
    body.push(Stmt::assign(update.place.clone(), place));
    for each in spatial.iter().rev() {
        body = vec![serial(&each.var, each.extent.clone(), body)];
    }
    Some(body)
}

/// `for mi in T.unroll(rows)`, or the body with 0 for `mi`.
pub fn unroll_rows(var: &Name, rows: i64, body: Vec<Stmt>) -> Vec<Stmt> {
    if rows == 1 {
        let map = BTreeMap::from([(var.clone(), Expr::int(0))]);
        return replaced(&body, &map);
    }
    vec![unrolled(var, rows, body)]
}
