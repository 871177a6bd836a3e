//! Element-wise nests over the same elements as one.
//!
//!     for i, j in T.grid(n, 64):                           for i, j in T.grid(n, 64):
//!         with T.sblock("c"):                                  with T.sblock("c"):
//!             c[i, j] = a[i, j] + b[i, j]                          c_v: T.let[T.float32] = a[i, j] + b[i, j]
//!     for i, j in T.grid(n, 64):                      →            c[i, j] = c_v
//!         with T.sblock("h"):                                      h[i, j] = T.tanh(c_v)
//!             h[i, j] = T.tanh(c[i, j])
//!
//! What the first store is not loaded by the next, and not stored where nothing else reads it. Each buffer that one of them
//! stores to is met by all at the same element.

use std::collections::BTreeSet;

use irc_syntax::names::NameSupply;
use irc_syntax::same::is_identical_expr;
use irc_syntax::{DType, Expr, ExprKind, Name, Stmt, StmtKind, VisitMut};

use super::fuse_rows::renamed;
use super::nest::{Access, Buffers, Nest, accesses};
use super::tile::{ReplaceExpr, has_long_call};
use super::vectorize::is_kernel_code;

/// Nests that became one.
pub struct Joined {
    /// The one.
    pub nest: Nest,
    /// How many they were.
    pub taken: usize,
    /// Buffers that are gone.
    pub gone: BTreeSet<Name>,
}

/// The first nests as one, where they are two or more. `used_after` gives what is read behind so many of them.
pub fn beside(
    names: &mut NameSupply,
    nests: &[&Nest],
    buffers: &Buffers,
    used_after: &dyn Fn(usize) -> BTreeSet<Name>,
) -> Option<Joined> {
    let (first, rest) = nests.split_first()?;
    let fits = |nest: &Nest| {
        let assigns = |stmt: &Stmt| matches!(stmt.kind, StmtKind::Assign { .. });
        nest.init.is_empty() && nest.body.iter().all(assigns) && is_kernel_code(&nest.body, buffers)
    };
    if !fits(first) {
        return None;
    }
    let outer = first.loops.len();
    let mut group = renamed(&nests[..1], outer);
    for (at, nest) in rest.iter().enumerate() {
        let same = nest.loops.len() == outer
            && nest
                .loops
                .iter()
                .zip(&first.loops)
                .all(|(a, b)| is_identical_expr(&a.extent, &b.extent));
        let both_long = is_long(nest) && group.iter().any(is_long);
        if !same || !fits(nest) || both_long {
            break;
        }
        let longer = renamed(&nests[..at + 2], outer);
        if !meets_same_elements(&longer) {
            break;
        }
        group = longer;
    }
    let taken = group.len();
    (taken > 1).then(|| joined(names, group, buffers, &used_after(taken)))
}

/// Whether a nest calls functions of many instructions. Two of them one behind the other for each element would take as long as
/// both chains, where loops of their own overlap the chains of several elements.
fn is_long(nest: &Nest) -> bool {
    nest.body.iter().any(|stmt| match &stmt.kind {
        StmtKind::Assign { value, .. } => has_long_call(value),
        _ => false,
    })
}

/// Whether each buffer that is stored to has one index in all accesses.
fn meets_same_elements(group: &[Nest]) -> bool {
    let all: Vec<Access> = group.iter().flat_map(|nest| accesses(&nest.body)).collect();
    all.iter().filter(|access| access.stores).all(|store| {
        let same = |access: &&Access| access.stores && access.buffer == store.buffer;
        if all.iter().filter(same).count() > 1 {
            return false;
        }
        let mut others = all.iter().filter(|access| access.buffer == store.buffer);
        others.all(|access| {
            access.index.len() == store.index.len()
                && access
                    .index
                    .iter()
                    .zip(&store.index)
                    .all(|(a, b)| is_identical_expr(a, b))
        })
    })
}

/// One nest of the bodies one after the other; values that are stored and read again keep a name.
fn joined(
    names: &mut NameSupply,
    group: Vec<Nest>,
    buffers: &Buffers,
    used: &BTreeSet<Name>,
) -> Joined {
    let taken = group.len();
    let mut nests = group.into_iter();
    let mut nest = nests.next().unwrap_or_else(|| Nest {
        name: String::new(),
        loops: Vec::new(),
        init: Vec::new(),
        body: Vec::new(),
    });
    let mut rest: Vec<Stmt> = std::mem::take(&mut nest.body);
    rest.extend(nests.flat_map(|nest| nest.body));
    rest.reverse();
    let mut gone = BTreeSet::new();
    while let Some(mut stmt) = rest.pop() {
        let Some((place, buffer, dtype)) = stored(&stmt, buffers) else {
            nest.body.push(stmt);
            continue;
        };
        let is_read = |stmt: &Stmt| {
            let mut reads = accesses(std::slice::from_ref(stmt)).into_iter();
            reads.any(|access| !access.stores && access.buffer == buffer)
        };
        if rest.iter().any(is_read) {
            let local = Expr::name(names.fresh(&format!("{buffer}_v")));
            let mut change = ReplaceExpr {
                from: &place,
                to: &local,
            };
            for stmt in &mut rest {
                if let StmtKind::Assign { value, .. } = &mut stmt.kind {
                    change.visit_expr(value);
                }
            }
            if let StmtKind::Assign { value, .. } = &mut stmt.kind {
                let of = Expr::path(&format!("T.{}", dtype.name()));
                nest.body.push(Stmt::new(StmtKind::Assign {
                    target: local.clone(),
                    ty: Some(Expr::index(Expr::path("T.let"), [of])),
                    value: std::mem::replace(value, local),
                }));
            }
            if !used.contains(&buffer) {
                gone.insert(buffer);
                continue;
            }
        }
        nest.body.push(stmt);
    }
    Joined { nest, taken, gone }
}

/// The place that a statement stores to and its buffer, where what is read back is what was stored.
fn stored(stmt: &Stmt, buffers: &Buffers) -> Option<(Expr, Name, DType)> {
    let StmtKind::Assign { target, .. } = &stmt.kind else {
        return None;
    };
    let ExprKind::Index { value, .. } = &target.kind else {
        return None;
    };
    let buffer = value.as_name()?;
    let (dtype, _) = buffers.get(buffer)?;
    matches!(dtype, DType::F32 | DType::I32).then(|| (target.clone(), buffer.clone(), *dtype))
}
