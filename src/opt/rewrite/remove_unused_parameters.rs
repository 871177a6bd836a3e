//! Takes inputs that nothing reads from the functions that have them.
//!
//!     def main(x: R.Tensor((4,)), y: R.Tensor((4,))):              def main(x: R.Tensor((4,))):
//!         R.func_attr({"num_input": 2})                     →         R.func_attr({"num_input": 1})
//!         return R.exp(x)                                              return R.exp(x)
//!
//! Public functions only, by name only: it changes what a caller passes. An input stays where an extent that is read, or
//! that another input has, comes from it.

use std::collections::BTreeSet;

use irc_syntax::uses::{for_each_read, names_read};
use irc_syntax::{Func, FuncKind, Module, Name};

use crate::check::stage::Level;
use crate::opt::specialize::symbols_of;
use crate::opt::{Changed, Pass, PassCx, set_num_input};

/// The pass.
pub const PASS: Pass = Pass {
    name: "remove_unused_parameters",
    run,
    from: Level::Normal,
    to: Level::Normal,
    summary: "inputs that nothing reads go",
    args: &[],
};

/// Runs the pass.
pub fn run(module: &mut Module, cx: &mut PassCx) -> Changed {
    let mut changed = false;
    let called = called(module);
    for func in module.funcs_mut() {
        let is_public = func.kind == FuncKind::Graph && !func.is_private();
        let info = cx.info.funcs.get(&func.name).filter(|_| is_public);
        let Some(info) = info.filter(|_| !called.contains(&func.name)) else {
            continue;
        };
        let num_input = info.num_input.min(func.params.len());
        let (mut at, mut left) = (0, num_input);
        while at < left {
            let name = func.params[at].name.clone();
            let span = func.params[at].span;
            if is_unused(func, at) && cx.log.allows(&name, span, || "nothing reads it".to_owned()) {
                func.params.remove(at);
                left -= 1;
            } else {
                at += 1;
            }
        }
        if left < num_input {
            set_num_input(func, left);
            changed = true;
        }
    }
    Changed::from(changed)
}

/// Functions that others call, by `cls.name`.
fn called(module: &Module) -> BTreeSet<Name> {
    let mut called = BTreeSet::new();
    for func in module.funcs() {
        irc_syntax::uses::for_each_expr(&func.body, &mut |expr| {
            let path = expr.as_path().unwrap_or_default();
            called.extend(path.strip_prefix("cls.").map(Name::from));
        });
    }
    called
}

/// Whether neither an input nor a symbol that no other has is read.
fn is_unused(func: &Func, at: usize) -> bool {
    let mut read: BTreeSet<Name> = BTreeSet::new();
    for_each_read(&func.body, &mut |expr| read.extend(names_read(expr)));
    read.extend(func.ret.iter().flat_map(names_read));
    if read.contains(&func.params[at].name) {
        return false;
    }
    let mut others = func.clone();
    let gone = others.params.remove(at);
    let left = symbols_of(&others);
    others.params = vec![gone];
    // A symbol of the input that remains in use has to come from another input.
    let declared = |name: &Name| func.body.iter().any(|stmt| declares(stmt, name));
    symbols_of(&others)
        .iter()
        .all(|symbol| left.contains(symbol) || !(read.contains(symbol) || declared(symbol)))
}

/// Whether a statement is `name = T.int64()`.
fn declares(stmt: &irc_syntax::Stmt, name: &Name) -> bool {
    match &stmt.kind {
        irc_syntax::StmtKind::Assign { target, value, .. } => {
            target.as_name() == Some(name) && value.as_call().is_some_and(is_declaration)
        }
        _ => false,
    }
}

fn is_declaration((path, _): (String, &[irc_syntax::Arg])) -> bool {
    path == "T.int64"
}
