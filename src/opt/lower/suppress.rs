//! `R.vision.keep_boxes`: greedy suppression of boxes, as plain serial loops.
//!
//! The boxes that are kept so far stand in a local buffer; each candidate is compared with them until one overlaps too much.

use irc_syntax::{BinaryOp, Diagnostic, Expr, Name, SourceMap, Stmt, parse, print_expr};

use super::element::{element, t};
use super::opaque::{loops, when};
use super::{Block, Lower, access, index, nest, operand};
use crate::check::prim::BoundCall;
use crate::shape::Dim;

/// What is done for one candidate; words in capitals are replaced by names and expressions.
const CANDIDATE: &str = r#"
@T.prim_func(private=True)
def candidate():
    TOP: T.let[T.DTYPE] = T.min(CORNER_0, CORNER_2)
    LEFT: T.let[T.DTYPE] = T.min(CORNER_1, CORNER_3)
    BOTTOM: T.let[T.DTYPE] = T.max(CORNER_0, CORNER_2)
    RIGHT: T.let[T.DTYPE] = T.max(CORNER_1, CORNER_3)
    FREE: T.bool = True
    AT: T.int64 = T.int64(0)
    while FREE and AT < COUNT:
        HIGH: T.let[T.DTYPE] = T.min(BOTTOM, KEPT[AT, 2]) - T.max(TOP, KEPT[AT, 0])
        WIDE: T.let[T.DTYPE] = T.min(RIGHT, KEPT[AT, 3]) - T.max(LEFT, KEPT[AT, 1])
        if HIGH > ZERO and WIDE > ZERO:
            BOTH: T.let[T.DTYPE] = HIGH * WIDE
            MINE: T.let[T.DTYPE] = (BOTTOM - TOP) * (RIGHT - LEFT)
            THEIRS: T.let[T.DTYPE] = (KEPT[AT, 2] - KEPT[AT, 0]) * (KEPT[AT, 3] - KEPT[AT, 1])
            if BOTH / (MINE + THEIRS - BOTH) > THRESHOLD:
                FREE = False
        AT = AT + T.int64(1)
    if FREE:
        KEPT[COUNT, 0] = TOP
        KEPT[COUNT, 1] = LEFT
        KEPT[COUNT, 2] = BOTTOM
        KEPT[COUNT, 3] = RIGHT
        COUNT = COUNT + T.int64(1)
        PLACE = True
"#;

/// The names of the text that are made fresh.
const LOCALS: [&str; 13] = [
    "TOP", "LEFT", "BOTTOM", "RIGHT", "FREE", "AT", "HIGH", "WIDE", "BOTH", "MINE", "THEIRS",
    "COUNT", "KEPT",
];

/// The loops of the operator.
pub(super) fn keep_boxes(
    lower: &mut Lower,
    name: &Name,
    call: &BoundCall,
) -> Result<(), Diagnostic> {
    let [boxes, order, counts, limit, threshold] =
        ["boxes", "order", "counts", "limit", "threshold"].map(|slot| operand(call, slot));
    let (dtype, extents) = lower.operand(&boxes)?;
    let (_, shape) = lower.tensor(name)?;
    let (vars, sizes, idx) = loops(&shape);
    let ([batch, class, place], [n_batch, n_class, n]) = (vars.as_slice(), sizes.as_slice()) else {
        return Err(Diagnostic::error(
            "not-lowered",
            "the order of boxes has three axes",
        ));
    };
    let locals = LOCALS.map(|local| (local, lower.names.fresh(&local.to_ascii_lowercase())));
    let local = |wanted: &str| {
        let found = locals.iter().find(|(local, _)| *local == wanted);
        found.map_or_else(|| Name::from(wanted), |(_, name)| name.clone())
    };
    lower.alloc(&local("KEPT"), dtype, &[shape[2].clone(), Dim::int(4)]);
    // Bounds are read for every candidate: only what is taken part in is read beyond.
    let mut bounds = Block::default();
    let count = element(lower, &mut bounds, &counts, &idx[..2])?;
    let limit = element(lower, &mut bounds, &limit, &[])?;
    let mut reads = Block {
        conditional: 1,
        ..Block::default()
    };
    let picked = index::checked_index(lower, &mut reads, &order, &idx, &extents[1])?;
    let mut words = vec![
        ("DTYPE", dtype.name().to_owned()),
        ("ZERO", format!("T.{}(0)", dtype.name())),
        ("PLACE", print_expr(&access(name, &idx))),
        (
            "THRESHOLD",
            print_expr(&element(lower, &mut reads, &threshold, &[])?),
        ),
    ];
    let corners = ["CORNER_0", "CORNER_1", "CORNER_2", "CORNER_3"];
    for (at, corner) in corners.into_iter().enumerate() {
        let from = [idx[0].clone(), picked.clone(), Dim::from(at)];
        words.push((
            corner,
            print_expr(&element(lower, &mut reads, &boxes, &from)?),
        ));
    }
    words.extend(locals.iter().map(|(word, name)| (*word, name.to_string())));
    let mut candidate = reads.stmts;
    candidate.extend(instantiate(&words)?);
    let less = |a: Expr, b: Expr| Expr::binary(BinaryOp::Lt, a, b);
    let taken = Expr::binary(
        BinaryOp::And,
        less(t("Cast", [Expr::str("int64"), Expr::name(place)]), count),
        less(Expr::name(local("COUNT")), limit),
    );
    let mut body = bounds.stmts;
    body.push(Stmt::assign(access(name, &idx), Expr::bool(false)));
    body.push(when(taken, candidate, Vec::new()));
    let start = Stmt::new(irc_syntax::StmtKind::Assign {
        target: Expr::name(local("COUNT")),
        ty: Some(Expr::path("T.int64")),
        value: Expr::call("T.int64", [Expr::int(0)]),
    });
    let row = nest(std::slice::from_ref(place), vec![n.clone()], body);
    lower.body.push(nest(
        &[batch.clone(), class.clone()],
        vec![n_batch.clone(), n_class.clone()],
        vec![start, row],
    ));
    Ok(())
}

/// The statements of the text with its words replaced.
fn instantiate(words: &[(&str, String)]) -> Result<Vec<Stmt>, Diagnostic> {
    let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let mut text = String::new();
    let mut rest = CANDIDATE;
    while let Some(start) = rest.find(|c: char| c.is_ascii_uppercase()) {
        let end = rest[start..]
            .find(|c| !is_part(c))
            .map_or(rest.len(), |len| start + len);
        let word = &rest[start..end];
        text.push_str(&rest[..start]);
        match words.iter().find(|(known, _)| *known == word) {
            Some((_, value)) => text.push_str(value),
            None => text.push_str(word),
        }
        rest = &rest[end..];
    }
    text.push_str(rest);
    let (mut module, faults) = parse(&mut SourceMap::new(), "keep_boxes", &text);
    match faults.into_iter().next() {
        Some(fault) => Err(fault),
        None => Ok(module
            .funcs_mut()
            .next()
            .map(|func| std::mem::take(&mut func.body))
            .unwrap_or_default()),
    }
}
