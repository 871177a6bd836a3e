//! Keeps one of several weights with the same elements.
//!
//!     a = R.matmul(x, w1)          →      a = R.matmul(x, w1)
//!     b = R.matmul(y, w2)                 b = R.matmul(y, w1)      (w2 has the elements of w1)
//!
//! Weights are one where dtype, extents and every byte agree. The first in the order of parameters stays.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::uses::substitute_stmt;
use irc_syntax::{Expr, FuncKind, Module, Name};

use crate::check::stage::Level;
use crate::opt::{Changed, Pass, PassCx, set_num_input};

/// The pass.
pub const PASS: Pass = Pass {
    name: "eliminate_duplicate_initializer",
    run,
    from: Level::Normal,
    to: Level::Normal,
    summary: "weights with the same elements are one",
    args: &[],
};

/// Runs the pass on every function that has weights.
pub fn run(module: &mut Module, cx: &mut PassCx) -> Changed {
    let mut changed = false;
    for func in module.funcs_mut() {
        if func.kind != FuncKind::Graph || func.is_private() {
            continue;
        }
        let Some(info) = cx.info.funcs.get(&func.name) else {
            continue;
        };
        let num_input = info.num_input.min(func.params.len());
        let mut first: BTreeMap<(usize, Vec<usize>, u64), Vec<Name>> = BTreeMap::new();
        let mut map: BTreeMap<Name, Expr> = BTreeMap::new();
        for param in &func.params[num_input..] {
            let Some(weight) = cx.weights.get(&param.name) else {
                continue;
            };
            let key = (weight.len(), weight.shape.clone(), digest(weight.bytes()));
            let known = first.entry(key).or_default();
            let twin = known.iter().find(|other| {
                let other = cx.weights.get(other);
                other.is_some_and(|other| {
                    other.dtype == weight.dtype && other.bytes() == weight.bytes()
                })
            });
            match twin {
                Some(twin) => {
                    let said = || format!("has the elements of `{twin}`");
                    if cx.log.allows(&param.name, param.span, said) {
                        map.insert(param.name.clone(), Expr::name(twin));
                    }
                }
                None => known.push(param.name.clone()),
            }
        }
        if map.is_empty() {
            continue;
        }
        changed = true;
        let gone: BTreeSet<&Name> = map.keys().collect();
        func.params.retain(|param| !gone.contains(&param.name));
        func.body
            .iter_mut()
            .for_each(|stmt| substitute_stmt(stmt, &map));
        set_num_input(func, num_input);
    }
    Changed::from(changed)
}

/// Tells most weights of one size apart by some of their bytes.
fn digest(bytes: &[u8]) -> u64 {
    let step = (bytes.len() / 64).max(1);
    let some = bytes.iter().step_by(step);
    some.fold(0, |sum: u64, &byte| {
        sum.wrapping_mul(0x0100_0000_01b3) ^ u64::from(byte)
    })
}
