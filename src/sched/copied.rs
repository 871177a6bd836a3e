//! An operand that many bands of rows read, copied once into panels of columns.
//!
//!     k[h, d, j]      →      k_panels[h, j // 16, d, j % 16]
//!
//! A tile that reads 16 columns of a wide operand touches a line of the cache, and often a page, for each step of the
//! reduction; a panel lies in one piece. The copy costs as much as a few rows of the product, so it is made where rows are
//! known to be many.

use irc_syntax::names::NameSupply;
use irc_syntax::{DType, Expr, Name, Stmt};

use super::Target;
use super::build::{add, ceil_div, less, mul, serial, vectorized};
use super::nest::{Access, Buffers, Loop, Nest, accesses, int_of};
use super::parallelize::{Sharing, distribute};
use super::tile::mentions_any;
use super::vectorize::update_of;

/// Rows from which on the copy is worth it.
const LEAST_ROWS: i64 = 256;

/// Columns from which on panels are closer together than rows of the operand.
const LEAST_COLUMNS: i64 = 256;

/// A copy in panels.
pub struct Copied {
    /// What is copied.
    pub from: Name,
    /// The copy.
    pub to: Name,
    /// The code that declares and fills it.
    pub stmts: Vec<Stmt>,
}

/// The copy of the operand of a product whose loops are `heads`, a row, a column and the reduction. `is_filled` says
/// whether a buffer is one that the bands fill.
pub fn copied(
    names: &mut NameSupply,
    product: &Nest,
    target: Target,
    buffers: &Buffers,
    is_filled: &dyn Fn(&Name) -> bool,
) -> Option<Copied> {
    let [heads @ .., row, column, depth] = product.loops.as_slice() else {
        return None;
    };
    let update = update_of(product)?;
    let is_wide = row.len()? >= LEAST_ROWS && column.len()? >= LEAST_COLUMNS;
    if !is_wide || row.reduces || column.reduces || !depth.reduces {
        return None;
    }
    let reads: Vec<Access> = accesses(&product.body)
        .into_iter()
        .filter(|access| access.buffer != update.buffer && mentions_any(access, &column.var))
        .collect();
    let [read] = reads.as_slice() else {
        return None;
    };
    let (dtype, shape) = buffers.get(&read.buffer)?;
    let covers = |at: usize, over: &Loop| {
        read.index.get(at).and_then(Expr::as_name) == Some(&over.var)
            && shape.get(at).and_then(int_of) == over.len()
    };
    let last = read.index.len().checked_sub(1)?;
    let step = (0..last).find(|&at| covers(at, depth))?;
    let is_head = |expr: &Expr| {
        int_of(expr) == Some(0)
            || heads
                .iter()
                .any(|head| expr.as_name() == Some(&head.var) && head.len().is_some())
    };
    let others = (0..last).filter(|at| *at != step);
    let others: Vec<&Expr> = others.map(|at| &read.index[at]).collect();
    let fits = *dtype == DType::F32
        && covers(last, column)
        && others.iter().all(|expr| is_head(expr))
        && !is_filled(&read.buffer);
    if !fits {
        return None;
    }
    let lanes = target.choice.vectors.unwrap_or(2) * target.lanes;
    let of_heads: Vec<&Loop> = heads
        .iter()
        .filter(|head| others.iter().any(|expr| expr.as_name() == Some(&head.var)))
        .collect();
    let (panel, lane) = (names.fresh("no"), names.fresh("vi"));
    let panels = ceil_div(&column.extent, lanes);
    let to = names.fresh(&format!("{}_panels", read.buffer));
    let mut extents: Vec<Expr> = of_heads.iter().map(|head| head.extent.clone()).collect();
    extents.extend([panels.clone(), depth.extent.clone(), Expr::int(lanes)]);
    let declare = Expr::call(
        "T.alloc_buffer",
        [Expr::tuple(extents), Expr::str(dtype.name())],
    );
    let mut place: Vec<Expr> = of_heads.iter().map(|head| Expr::name(&head.var)).collect();
    place.extend([&panel, &depth.var, &lane].map(Expr::name));
    let at = add(mul(Expr::name(&panel), lanes), Expr::name(&lane));
    let mut from = read.index.clone();
    from[last] = at.clone();
    let mut value = Expr::index(Expr::name(&read.buffer), from);
    if column.len()? % lanes != 0 {
        let (inside, zero) = (less(at, column.extent.clone()), Expr::float(0.0));
        let zero = Expr::call("T.float32", [zero]);
        value = Expr::call("T.if_then_else", [inside, value, zero]);
    }
    let store = Stmt::assign(Expr::index(Expr::name(&to), place), value);
    let body = serial(
        &depth.var,
        depth.extent.clone(),
        vec![vectorized(&lane, lanes, vec![store])],
    );
    let mut outer: Vec<Loop> = of_heads.into_iter().cloned().collect();
    outer.push(Loop {
        var: panel,
        extent: panels,
        reduces: false,
    });
    let mut stmts = vec![Stmt::bind(&to, declare)];
    stmts.extend(distribute(
        names,
        to.as_str(),
        &outer,
        depth.len()? * lanes,
        Sharing::Tasks(target.grain()),
        Vec::new(),
        vec![body],
    ));
    Some(Copied {
        from: read.buffer.clone(),
        to,
        stmts,
    })
}
