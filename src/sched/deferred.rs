//! The division of softmax after the product that follows it, on fewer elements.
//!
//!     p[i, j] = e[i, j] / s[i]                  →      y_sum[i, d] += e[i, j] * v[j, d]
//!     y[i, d] += p[i, j] * v[j, d]                     y[i, d] = y_sum[i, d] / s[i]
//!
//! `e` must be the exponentials of what a row has less its largest, and `s` their sum, so that no term is larger than it
//! would be in the sum of `p`'s by more than the number of columns: nothing overflows. A term is rounded once less. Where
//! what is no number counts as 0 in `p`, it does in `y`: a row has such numbers in all places or in none.

use std::collections::BTreeMap;

use irc_syntax::names::NameSupply;
use irc_syntax::same::is_identical_expr;
use irc_syntax::uses::{mentions, substitute};
use irc_syntax::{BinaryOp, Expr, ExprKind, Name, Stmt, StmtKind, VisitMut};

use super::nest::{Access, Buffers, Nest, accesses, replaced};
use super::tile::ReplaceExpr;
use super::vectorize::{Combine, combine_parts, update_of};

/// Moves the division behind the last product of `group`, whose nests share their first `outer` loops. `used` says which
/// buffers are needed afterwards.
pub fn defer_division(
    names: &mut NameSupply,
    group: &mut Vec<Nest>,
    buffers: &mut Buffers,
    outer: usize,
    used: &dyn Fn(&Name) -> bool,
) -> Option<()> {
    let at = group.iter().rposition(|nest| {
        update_of(nest).is_some() && nest.loops.len() == outer + 2 && !nest.loops[outer].reduces
    })?;
    let divides = at.checked_sub(1)?;
    let quotient = quotient_of(&group[divides], outer)?;
    if used(&quotient.place.buffer) || !is_softmax(group, &quotient, outer) {
        return None;
    }
    let update = update_of(&group[at])?;
    let reads: Vec<Access> = accesses(&group[at].body)
        .into_iter()
        .filter(|access| access.buffer == quotient.place.buffer)
        .collect();
    let [read] = reads.as_slice() else {
        return None;
    };
    let mut to_product = BTreeMap::new();
    for (from, to) in quotient.place.index.iter().zip(&read.index) {
        match from.as_name() {
            Some(name) => to_product.insert(name.clone(), to.clone()),
            None if is_identical_expr(from, to) => None,
            None => return None,
        };
    }
    let mut from_exponential = quotient.exponential.clone();
    substitute(&mut from_exponential, &to_product);

    let result = update.buffer.clone();
    let kind = buffers.get(&result)?.clone();
    let sum = names.fresh(&format!("{result}_sum"));
    buffers.insert(sum.clone(), kind);
    let product = &mut group[at];
    let mut take_exponential = ReplaceExpr {
        from: &Expr::index(Expr::name(&read.buffer), read.index.clone()),
        to: &from_exponential,
    };
    for stmt in &mut product.body {
        take_exponential.visit_stmt(stmt);
    }
    let to_sum = BTreeMap::from([(result.clone(), Expr::name(&sum))]);
    product.init = replaced(&product.init, &to_sum);
    product.body = replaced(&product.body, &to_sum);

    let mut place = update.place.clone();
    rename(&mut place, &to_sum);
    let divided = quotient.of(place);
    let follows = group.get(at + 1).is_some_and(|next| {
        let spatial = |nest: &Nest| nest.loops[outer].var.clone();
        next.loops.len() == outer + 1 && !used(&result) && {
            let map = BTreeMap::from([(spatial(&group[at]), Expr::name(spatial(next)))]);
            let mut there = update.place.clone();
            substitute(&mut there, &map);
            accesses(&next.body)
                .iter()
                .filter(|access| access.buffer == result)
                .all(|access| {
                    let here = Expr::index(Expr::name(&result), access.index.clone());
                    !access.stores && is_identical_expr(&here, &there)
                })
        }
    });
    if follows {
        let column = group[at].loops[outer].var.clone();
        let next = &mut group[at + 1];
        let map = BTreeMap::from([(column, Expr::name(&next.loops[outer].var))]);
        let (mut from, mut to) = (update.place.clone(), divided);
        substitute(&mut from, &map);
        substitute(&mut to, &map);
        let mut change = ReplaceExpr {
            from: &from,
            to: &to,
        };
        for stmt in &mut next.body {
            change.visit_stmt(stmt);
        }
    } else {
        let after = Nest {
            name: group[at].name.clone(),
            loops: group[at].loops[..=outer].to_vec(),
            init: Vec::new(),
            body: vec![Stmt::assign(update.place.clone(), divided)],
        };
        group.insert(at + 1, after);
    }
    group.remove(divides);
    Some(())
}

fn rename(expr: &mut Expr, map: &BTreeMap<Name, Expr>) {
    let mut stmt = Stmt::expr(expr.clone());
    super::nest::replace(&mut stmt, map);
    if let StmtKind::Expr(renamed) = stmt.kind {
        *expr = renamed;
    }
}

/// A quotient of an element and a number of its row.
struct Quotient {
    /// Where it goes.
    place: Access,
    /// The element.
    exponential: Expr,
    /// Its buffer.
    buffer: Name,
    /// The number of the row.
    divisor: Expr,
    /// Whether 0 stands for what is no number.
    is_guarded: bool,
}

impl Quotient {
    /// The quotient of another value in the same row.
    fn of(&self, value: Expr) -> Expr {
        let divided = Expr::binary(BinaryOp::Div, value, self.divisor.clone());
        match self.is_guarded {
            true => {
                let is_nan = Expr::call("T.isnan", [self.divisor.clone()]);
                let zero = Expr::call("T.float32", [Expr::float(0.0)]);
                Expr::call("T.Select", [is_nan, zero, divided])
            }
            false => divided,
        }
    }
}

/// What a nest divides by a number of the row.
fn quotient_of(nest: &Nest, outer: usize) -> Option<Quotient> {
    if !nest.init.is_empty() || nest.loops.len() != outer + 1 {
        return None;
    }
    let (place, value) = stored_value(&nest.body)?;
    let (value, is_guarded) = match guarded_by(&value) {
        Some(inner) => (inner.clone(), true),
        None => (value, false),
    };
    let ExprKind::Binary { op, lhs, rhs } = value.kind else {
        return None;
    };
    let column = &nest.loops[outer].var;
    let is_row = !mentions(&rhs, |name| name == column);
    if op != BinaryOp::Div || !is_row || !matches!(rhs.kind, ExprKind::Index { .. }) {
        return None;
    }
    let buffer = buffer_of(&lhs)?;
    let place = accesses(&[Stmt::assign(place, Expr::int(0))]).pop()?;
    Some(Quotient {
        place,
        exponential: *lhs,
        buffer,
        divisor: *rhs,
        is_guarded,
    })
}

/// `x` of `T.Select(T.isnan(x), 0, x)`.
fn guarded_by(value: &Expr) -> Option<&Expr> {
    let (path, [cond, zero, other]) = value.as_call()? else {
        return None;
    };
    let (is_nan, [of]) = cond.value.as_call()? else {
        return None;
    };
    let (_, [number]) = zero.value.as_call()? else {
        return None;
    };
    let is_zero = matches!(number.value.kind, ExprKind::Float(value) if value.to_bits() == 0);
    let fits = path == "T.Select" && is_nan == "T.isnan" && is_zero;
    (fits && is_identical_expr(&of.value, &other.value)).then_some(&other.value)
}

fn buffer_of(expr: &Expr) -> Option<Name> {
    match &expr.kind {
        ExprKind::Index { value, .. } => value.as_name().cloned(),
        _ => None,
    }
}

/// The last store of a body and what it stores, with the names before it put in.
fn stored_value(body: &[Stmt]) -> Option<(Expr, Expr)> {
    let (last, lets) = body.split_last()?;
    let mut known: BTreeMap<Name, Expr> = BTreeMap::new();
    for stmt in lets {
        let StmtKind::Assign { target, value, .. } = &stmt.kind else {
            return None;
        };
        let mut value = value.clone();
        rename(&mut value, &known);
        known.insert(target.as_name()?.clone(), value);
    }
    let StmtKind::Assign { target, value, .. } = &last.kind else {
        return None;
    };
    let mut value = value.clone();
    rename(&mut value, &known);
    Some((target.clone(), value))
}

/// Whether a quotient is that of an exponential below 1 and the sum of the row's.
fn is_softmax(group: &[Nest], quotient: &Quotient, outer: usize) -> bool {
    let stores = |nest: &&Nest, buffer: &Name| {
        let mut all = accesses(&nest.body).into_iter();
        all.any(|access| access.stores && access.buffer == *buffer)
    };
    let one = |buffer: &Name| {
        let mut found = group.iter().filter(|nest| stores(nest, buffer));
        found.next().filter(|_| found.next().is_none())
    };
    let check = || {
        let summed = row_of(one(&buffer_of(&quotient.divisor)?)?, outer)?;
        let from_sum = summed.combine == Combine::Add
            && is_identical_expr(&summed.place, &quotient.divisor)
            && buffer_of(&summed.element)? == quotient.buffer;
        let nest = one(&quotient.buffer)?;
        let (_, value) = stored_value(&nest.body)?;
        let (path, [argument]) = value.as_call()? else {
            return None;
        };
        let ExprKind::Binary { op, lhs, rhs } = &argument.value.kind else {
            return None;
        };
        let top = row_of(one(&buffer_of(rhs)?)?, outer)?;
        let column = nest.loops.get(outer)?.var.clone();
        let mut element = top.element;
        rename(
            &mut element,
            &BTreeMap::from([(top.column, Expr::name(column))]),
        );
        let from_top = path == "T.exp"
            && *op == BinaryOp::Sub
            && top.combine == Combine::Max
            && is_identical_expr(&top.place, rhs)
            && is_identical_expr(&element, lhs);
        Some(from_sum && from_top)
    };
    check().unwrap_or(false)
}

/// A reduction along a row.
struct Row {
    place: Expr,
    element: Expr,
    combine: Combine,
    column: Name,
}

fn row_of(nest: &Nest, outer: usize) -> Option<Row> {
    let [column] = nest.loops.get(outer..)? else {
        return None;
    };
    update_of(nest)?;
    let (place, value) = stored_value(&nest.body)?;
    let (element, combine) = combine_parts(&value, &place)?;
    Some(Row {
        element: element.clone(),
        combine,
        column: column.var.clone(),
        place,
    })
}
