//! Operators whose loops carry values from one iteration to the next: scans, scatters, sorts. They are written
//! as plain serial loops, without blocks.

use irc_syntax::{BinaryOp, DType, Diagnostic, Expr, Name, Stmt, StmtKind, Trivia};

use super::element::{bind, element, t, zero};
use super::{Axis, Block, Lower, access, constant, index, nest, operand};
use crate::check::prim::{BoundCall, Prim};
use crate::shape::Dim;

/// The loops of an operator that is neither element-wise, a reduction, a window nor a contraction.
pub(super) fn materialize(
    lower: &mut Lower,
    name: &Name,
    call: &BoundCall,
) -> Result<(), Diagnostic> {
    match call.prim {
        Prim::Cumsum | Prim::Cumprod => scan(lower, name, call),
        Prim::ScatterElements => scatter_elements(lower, name, call),
        Prim::ScatterNd => scatter_nd(lower, name, call),
        Prim::Sort | Prim::Argsort => sort(lower, name, call),
        Prim::KeepBoxes => super::suppress::keep_boxes(lower, name, call),
        _ => Err(Diagnostic::error(
            "not-lowered",
            format!("`{}` has no loops", call.prim.name()),
        )
        .at(call.span, "this call")),
    }
}

/// Loop variables over a shape, without the block's `v_`.
pub(super) fn loops(shape: &[Dim]) -> (Vec<Name>, Vec<Expr>, Vec<Dim>) {
    let vars: Vec<Name> = (0..shape.len())
        .map(|axis| Name::from(format!("i{axis}")))
        .collect();
    let extents = shape.iter().map(Dim::to_expr).collect();
    let idx = vars.iter().map(Dim::sym).collect();
    (vars, extents, idx)
}

fn push_loops(lower: &mut Lower, vars: &[Name], extents: Vec<Expr>, body: Vec<Stmt>) {
    if vars.is_empty() {
        lower.body.extend(body);
    } else {
        lower.body.push(nest(vars, extents, body));
    }
}

pub(super) fn when(cond: Expr, then: Vec<Stmt>, orelse: Vec<Stmt>) -> Stmt {
    Stmt::new(StmtKind::If {
        cond,
        then,
        orelse,
        else_trivia: Trivia::default(),
    })
}

/// `out[k] = out[k - 1] + x[k]`, or `+ x[k - 1]` where the element itself does not count.
fn scan(lower: &mut Lower, name: &Name, call: &BoundCall) -> Result<(), Diagnostic> {
    let x = operand(call, "x");
    let (_, shape) = lower.operand(&x)?;
    let (dtype, _) = lower.tensor(name)?;
    let (from, _) = lower.operand(&x)?;
    let axis = index::axis(call.int("axis"), shape.len());
    let exclusive = call.bool("exclusive");
    let (vars, extents, idx) = loops(&shape);
    let mut before = idx.clone();
    before[axis] = &before[axis] - &Dim::int(1);
    let read = if exclusive {
        before.clone()
    } else {
        idx.clone()
    };
    let mut block = Block::conditional();
    let value = element(lower, &mut block, &x, &read)?;
    let value = if from == dtype {
        value
    } else {
        t("Cast", [Expr::str(dtype.name()), value])
    };
    let is_sum = call.prim == Prim::Cumsum;
    let op = if is_sum { BinaryOp::Add } else { BinaryOp::Mul };
    let one = if dtype.is_float() {
        Expr::float(1.0)
    } else {
        Expr::int(1)
    };
    let identity = constant(dtype, if is_sum { zero(dtype) } else { one });
    let first = Expr::binary(BinaryOp::Eq, idx[axis].to_expr(), Expr::int(0));
    let place = access(name, &idx);
    let start = if exclusive { identity } else { value.clone() };
    let next = Expr::binary(op, access(name, &before), value);
    let mut body = block.stmts;
    body.push(when(
        first,
        vec![Stmt::assign(place.clone(), start)],
        vec![Stmt::assign(place, next)],
    ));
    push_loops(lower, &vars, extents, body);
    Ok(())
}

/// Copies the data, as scatters start from it.
fn copy(lower: &mut Lower, name: &Name, x: &Expr) -> Result<(), Diagnostic> {
    let (_, shape) = lower.tensor(name)?;
    let axes = Lower::axes(&shape);
    let idx: Vec<Dim> = axes.iter().map(Axis::dim).collect();
    let mut block = Block::default();
    let value = element(lower, &mut block, x, &idx)?;
    let block_name = format!("{name}_copy");
    lower.push_store(&block_name, &axes, access(name, &idx), value, block.stmts);
    Ok(())
}

/// `place = update`, or the reduction of both.
fn combine(call: &BoundCall, dtype: DType, place: &Expr, update: Expr) -> Expr {
    let old = place.clone();
    match call.str("reduction") {
        "add" if dtype == DType::Bool => Expr::binary(BinaryOp::Or, old, update),
        "mul" if dtype == DType::Bool => Expr::binary(BinaryOp::And, old, update),
        "add" => Expr::binary(BinaryOp::Add, old, update),
        "mul" => Expr::binary(BinaryOp::Mul, old, update),
        "min" => t("min", [old, update]),
        "max" => t("max", [old, update]),
        _ => update,
    }
}

fn scatter_elements(lower: &mut Lower, name: &Name, call: &BoundCall) -> Result<(), Diagnostic> {
    copy(lower, name, &operand(call, "x"))?;
    let (indices, updates) = (operand(call, "indices"), operand(call, "updates"));
    let (dtype, shape) = lower.tensor(name)?;
    let (_, picks) = lower.operand(&indices)?;
    let axis = index::axis(call.int("axis"), shape.len());
    let (vars, extents, idx) = loops(&picks);
    let mut block = Block::default();
    let mut to = idx.clone();
    to[axis] = index::checked_index(lower, &mut block, &indices, &idx, &shape[axis])?;
    let update = element(lower, &mut block, &updates, &idx)?;
    let place = access(name, &to);
    let value = combine(call, dtype, &place, update);
    let mut body = block.stmts;
    body.push(Stmt::assign(place, value));
    push_loops(lower, &vars, extents, body);
    Ok(())
}

fn scatter_nd(lower: &mut Lower, name: &Name, call: &BoundCall) -> Result<(), Diagnostic> {
    copy(lower, name, &operand(call, "x"))?;
    let (indices, updates) = (operand(call, "indices"), operand(call, "updates"));
    let (dtype, shape) = lower.tensor(name)?;
    let (_, picks) = lower.operand(&indices)?;
    let (_, extents) = lower.operand(&updates)?;
    let outer = picks.len() - 1;
    let (vars, extents, idx) = loops(&extents);
    let mut block = Block::default();
    let mut to = index::index_vector(lower, &mut block, &indices, &idx[..outer], &shape)?;
    to.extend_from_slice(&idx[outer..]);
    let update = element(lower, &mut block, &updates, &idx)?;
    let place = access(name, &to);
    let value = combine(call, dtype, &place, update);
    let mut body = block.stmts;
    body.push(Stmt::assign(place, value));
    push_loops(lower, &vars, extents, body);
    Ok(())
}

/// A stable bottom-up merge sort of positions along an axis, a row at a time; `sort` then reads the values.
///
/// Runs of `width` are merged pairwise from one row buffer into the other and copied back, with `width` doubling:
/// O(n log n) comparisons. NaN counts as the greatest value, as in NumPy.
fn sort(lower: &mut Lower, name: &Name, call: &BoundCall) -> Result<(), Diagnostic> {
    let x = operand(call, "x");
    let (dtype, shape) = lower.operand(&x)?;
    let (out_dtype, _) = lower.tensor(name)?;
    let axis = index::axis(call.int("axis"), shape.len());
    let extent = shape[axis].clone();
    let [order, merged] = ["order", "merged"].map(|base| lower.names.fresh(base));
    for buffer in [&order, &merged] {
        lower.alloc(buffer, DType::I64, std::slice::from_ref(&extent));
    }
    let outer: Vec<Dim> = shape
        .iter()
        .enumerate()
        .filter(|(at, _)| *at != axis)
        .map(|(_, dim)| dim.clone())
        .collect();
    let (vars, extents, mut row) = loops(&outer);
    row.insert(axis, Dim::int(0));
    let at = |k: Dim| {
        let mut idx = row.clone();
        idx[axis] = k;
        idx
    };
    let k = Dim::sym("k");
    let mut body = vec![nest(
        &[Name::from("k")],
        vec![extent.to_expr()],
        vec![Stmt::assign(
            access(&order, std::slice::from_ref(&k)),
            // A loop up to a number counts in 32 bits.
            t("Cast", [Expr::str("int64"), k.to_expr()]),
        )],
    )];
    let mut block = Block::conditional();
    let left = element(lower, &mut block, &x, &at(Dim::sym("left_at")))?;
    let right = element(lower, &mut block, &x, &at(Dim::sym("right_at")))?;
    let goes_left = not_after(left, right, dtype, call.bool("descending"));
    body.extend(merge_passes(&order, &merged, &extent, goes_left));
    let place = access(name, &at(k.clone()));
    let value = if call.prim == Prim::Argsort {
        t(
            "Cast",
            [
                Expr::str(out_dtype.name()),
                access(&order, std::slice::from_ref(&k)),
            ],
        )
    } else {
        let mut block = Block::conditional();
        let from = bind(
            lower,
            &mut block,
            "from",
            DType::I64,
            access(&order, std::slice::from_ref(&k)),
        );
        let from = from.as_name().map_or_else(|| Dim::int(0), Dim::sym);
        let value = element(lower, &mut block, &x, &at(from))?;
        let mut body_k = block.stmts;
        body_k.push(Stmt::assign(place, value));
        body.push(nest(&[Name::from("k")], vec![extent.to_expr()], body_k));
        push_loops(lower, &vars, extents, body);
        return Ok(());
    };
    body.push(nest(
        &[Name::from("k")],
        vec![extent.to_expr()],
        vec![Stmt::assign(place, value)],
    ));
    push_loops(lower, &vars, extents, body);
    Ok(())
}

/// Whether `left` may stand before `right` in a stable order.
fn not_after(left: Expr, right: Expr, dtype: DType, descending: bool) -> Expr {
    let op = if descending {
        BinaryOp::Ge
    } else {
        BinaryOp::Le
    };
    let ordered = Expr::binary(op, left.clone(), right.clone());
    if !dtype.is_float() {
        return ordered;
    }
    let nan = t("isnan", [if descending { left } else { right }]);
    Expr::binary(BinaryOp::Or, ordered, nan)
}

/// The merge passes over `order`, written for one row. `goes_left` compares `left_at` with `right_at`.
fn merge_passes(order: &Name, merged: &Name, extent: &Dim, goes_left: Expr) -> Vec<Stmt> {
    let n = || extent.to_expr();
    let name = |text: &str| Expr::name(text);
    let i64_ty = || Expr::path("T.int64");
    let declare = |text: &str, value: Expr| {
        Stmt::new(StmtKind::Assign {
            target: Expr::name(text),
            ty: Some(i64_ty()),
            value,
        })
    };
    let set = |text: &str, value: Expr| Stmt::bind(text, value);
    let add = |a: Expr, b: Expr| Expr::binary(BinaryOp::Add, a, b);
    let less = |a: Expr, b: Expr| Expr::binary(BinaryOp::Lt, a, b);
    let at = |buffer: &Name, index: Expr| Expr::index(Expr::name(buffer), [index]);
    let long = |value: i64| Expr::call("T.int64", [Expr::int(value)]);
    let take = |side: &str| {
        vec![
            Stmt::assign(at(merged, name("to")), at(order, name(side))),
            set(side, add(name(side), Expr::int(1))),
        ]
    };
    // Both runs have elements left: compare. Otherwise take from the one that has.
    let both = Expr::binary(
        BinaryOp::And,
        less(name("left"), name("middle")),
        less(name("right"), name("end")),
    );
    let compare = vec![
        Stmt::new(StmtKind::Assign {
            target: name("left_at"),
            ty: Some(Expr::index(Expr::path("T.let"), [i64_ty()])),
            value: at(order, name("left")),
        }),
        Stmt::new(StmtKind::Assign {
            target: name("right_at"),
            ty: Some(Expr::index(Expr::path("T.let"), [i64_ty()])),
            value: at(order, name("right")),
        }),
        when(goes_left, take("left"), take("right")),
    ];
    let rest = when(
        less(name("left"), name("middle")),
        take("left"),
        take("right"),
    );
    let one = vec![
        when(both, compare, vec![rest]),
        set("to", add(name("to"), Expr::int(1))),
    ];
    let min = |a: Expr, b: Expr| t("min", [a, b]);
    let pair = vec![
        declare("middle", min(add(name("first"), name("width")), n())),
        declare("end", min(add(name("middle"), name("width")), n())),
        declare("left", name("first")),
        declare("right", name("middle")),
        declare("to", name("first")),
        Stmt::new(StmtKind::While {
            cond: less(name("to"), name("end")),
            body: one,
        }),
        set("first", name("end")),
    ];
    let pass = vec![
        declare("first", long(0)),
        Stmt::new(StmtKind::While {
            cond: less(name("first"), n()),
            body: pair,
        }),
        nest(
            &[Name::from("k")],
            vec![n()],
            vec![Stmt::assign(at(order, name("k")), at(merged, name("k")))],
        ),
        set(
            "width",
            Expr::binary(BinaryOp::Mul, name("width"), Expr::int(2)),
        ),
    ];
    vec![
        declare("width", long(1)),
        Stmt::new(StmtKind::While {
            cond: less(name("width"), n()),
            body: pass,
        }),
    ]
}
