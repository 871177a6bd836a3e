//! How the outer loops of a kernel are shared out: the outermost become tasks of one parallel loop, the innermost go into the
//! kernel region so that a task is worth its dispatch.
//!
//!     outer loops i < 64, j < 100, work 50 an iteration        for task in T.parallel(64 * 2):  (i, and j in chunks of 82)
//!                                                       →          with T.sblock(…):            (region)
//!                                                                      for j in range(jc * 82, T.min(jc * 82 + 82, 100)):

use irc_syntax::names::NameSupply;
use irc_syntax::{Expr, Name, Stmt};

use super::build::{add, ceil_div, min, mul, parallel, region, serial, serial_from};
use super::nest::{Loop, int_of};
use crate::shape::Dim;

/// Operations that a task should have, where a choice does not say.
pub const GRAIN: i64 = 32 * 1024;

/// Whether loops become tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// The outermost do, where a task then has so many operations.
    Tasks(i64),
    /// None: the code is part of a task.
    Within,
}

/// Shares out `outer` loops, each round of all of which takes `work` operations, around the region's `body`.
pub fn distribute(
    names: &mut NameSupply,
    name: &str,
    outer: &[Loop],
    work: i64,
    sharing: Sharing,
    prologue: Vec<Stmt>,
    mut body: Vec<Stmt>,
) -> Vec<Stmt> {
    let mut work = work.max(1);
    let mut at = outer.len();
    let mut chunk: Option<(Name, Expr)> = None;
    let grain = match sharing {
        Sharing::Tasks(grain) => grain,
        Sharing::Within => GRAIN,
    };
    while at > 0 && (work < grain || sharing == Sharing::Within) {
        at -= 1;
        let each = &outer[at];
        let rounds = (grain + work - 1) / work;
        match each.len() {
            _ if sharing == Sharing::Within => {
                body = vec![serial(&each.var, each.extent.clone(), body)];
            }
            Some(len) if len <= rounds => {
                body = vec![serial(&each.var, each.extent.clone(), body)];
                work *= len.max(1);
            }
            _ => {
                let task = names.fresh(&format!("{}_task", each.var));
                let lo = mul(Expr::name(&task), rounds);
                let hi = min(add(lo.clone(), Expr::int(rounds)), each.extent.clone());
                body = vec![serial_from(&each.var, lo, hi, body)];
                chunk = Some((task, ceil_div(&each.extent, rounds)));
                break;
            }
        }
    }
    let mut levels: Vec<(Name, Expr)> = outer[..at]
        .iter()
        .map(|each| (each.var.clone(), each.extent.clone()))
        .collect();
    levels.extend(chunk);
    let mut inner = prologue;
    inner.push(region(name, body));
    parallel(names, levels, inner)
}

/// What an extent that nothing is known of counts as.
pub const OPEN_EXTENT: i64 = 64;

/// The product of extents; of those with symbols, what is there for one of each, and no less than [`OPEN_EXTENT`].
pub fn work_of(loops: &[Loop]) -> i64 {
    loops.iter().fold(1i64, |work, each| {
        let likely = || {
            let least = Dim::from_expr(&each.extent).ok()?.eval(&|_| Some(1));
            Some(least?.max(OPEN_EXTENT))
        };
        let len = each.len().or_else(likely).unwrap_or(OPEN_EXTENT);
        work.saturating_mul(len.max(1))
    })
}

/// The least number of rounds of a loop that is known.
pub fn is_long(loops: &[Loop]) -> bool {
    loops.iter().any(|each| int_of(&each.extent).is_none()) || work_of(loops) >= 2 * GRAIN
}
