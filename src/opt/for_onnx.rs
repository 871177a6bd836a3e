//! Says a graph function in operators of ONNX.
//!
//!     y = R.max(x, axis=[1])      →      y_const = R.const([1], "int64")
//!                                        y = onnx.ReduceMax(x, y_const, keepdims=0, since=18)
//!
//! How an operator of `R` is said stands in `std/export`, as functions `std.to_onnx.R.…`; what has none there is taken apart
//! by its own function. Operators of ONNX stay as they are where the operator set [`OPSET`] still means the same by them, and
//! are said anew where not, by `std.to_onnx.onnx.…` or their own function. What is left beside `onnx.*` calls is control flow, constants, shapes and what ONNX has no word
//! for; `export` writes, or refuses, those. Needs normal form.

use std::collections::BTreeMap;

use irc_syntax::{Expr, ExprKind, Module, Name, StmtKind, VisitMut, visit};

use super::legalize::expand_calls;
use super::{Changed, Pass, PassCx};
use crate::check::expand::{Depth, is_operator_of_onnx};
use crate::check::prim::{self, Prim};
use crate::check::stage::Level;
use crate::library::{Library, Template, since_of};

/// The operator set of ai.onnx that is written, where no operator needs a newer one.
pub const OPSET: u32 = 18;

/// Functions that say an operator of `R` in those of ONNX.
const PREFIX: &str = "std.to_onnx.";

/// The most times that what came out is looked at again; a function that comes to itself ends here.
const MAX_ROUNDS: usize = 24;

/// The pass.
pub const PASS: Pass = Pass {
    name: "for_onnx",
    run,
    from: Level::Normal,
    to: Level::Normal,
    summary: "say operators in those of ONNX",
    args: &[],
};

/// Runs the pass on every graph function.
pub fn run(module: &mut Module, cx: &mut PassCx) -> Changed {
    run_for(module, cx, OPSET)
}

/// Runs the pass for a newer operator set of ai.onnx.
pub fn run_for(module: &mut Module, cx: &mut PassCx, opset: u32) -> Changed {
    let lib = cx.lib;
    let mut changed = Changed::No;
    for _ in 0..MAX_ROUNDS {
        let found = false;
        let mut rename = Rename { lib, opset, found };
        for func in module.funcs_mut() {
            rename.visit_func(func);
        }
        let wanted = |path: &str, call: &Expr| is_wanted(path, call, lib, opset);
        let expanded = expand_calls(module, cx, Depth::Onnx, &wanted);
        if !cx.diags.is_empty() || (expanded == Changed::No && !rename.found) {
            break;
        }
        changed = Changed::Yes;
        if let Err(faults) = cx.recheck(module) {
            cx.diags.extend(faults);
            break;
        }
    }
    changed
}

/// Whether an operator of `R` is said by a function of its own.
pub fn has_word(path: &str, lib: &Library) -> bool {
    lib.has(&format!("{PREFIX}{path}"))
}

/// A call of an operator whose version the operator set [`OPSET`] has not, as that of the function that says it in one that
/// it has.
pub fn in_newer(call: &Expr, lib: &Library) -> Option<Expr> {
    let (path, _) = call.as_call()?;
    let says = format!("{PREFIX}{path}");
    let is_older = is_operator_of_onnx(&path) && is_wanted(&path, call, lib, OPSET);
    (is_older && lib.has(&says)).then(|| {
        let mut newer = call.clone();
        rename_call(&mut newer, &path, &says);
        newer
    })
}

/// Whether a call is taken apart.
fn is_wanted(path: &str, call: &Expr, lib: &Library, opset: u32) -> bool {
    if is_operator_of_onnx(path) {
        let since = call.keyword("since").and_then(Expr::as_int);
        let since = since.and_then(|since| u32::try_from(since).ok());
        let version = |since| lib.find(path, since).map(|found| since_of(found.func));
        if lib
            .find(path, since)
            .is_some_and(|found| ends(found) <= i128::from(opset))
        {
            return true;
        }
        let is_newer = since.is_some_and(|since| since > opset);
        return !is_newer && since.is_some() && version(since) != version(Some(opset));
    }
    // What has a word gets it in the next round.
    let is_composite = Prim::find(path).is_none() || prim::is_library_form(path, call);
    !path.starts_with("I.") && is_composite && !has_word(path, lib)
}

/// The operator set that has an operator no more: `until=10` in its decorator.
fn ends(template: Template<'_>) -> i128 {
    let until = template.func.decorator_arg("until").and_then(Expr::as_int);
    until.unwrap_or(i128::MAX)
}

/// Puts the function that says an operator in the operator's place.
struct Rename<'a> {
    lib: &'a Library,
    opset: u32,
    found: bool,
}

impl VisitMut for Rename<'_> {
    fn visit_stmt(&mut self, stmt: &mut irc_syntax::Stmt) {
        if let StmtKind::Assign { value, .. } = &mut stmt.kind
            && let Some((path, _)) = value.as_call()
            && !path.starts_with(PREFIX)
        {
            let says = format!("{PREFIX}{path}");
            let stays =
                || is_operator_of_onnx(&path) && !is_wanted(&path, value, self.lib, self.opset);
            if self.lib.has(&says) && !stays() {
                rename_call(value, &path, &says);
                self.found = true;
            }
        }
        visit::walk_stmt_mut(self, stmt);
    }

    fn visit_expr(&mut self, _: &mut Expr) {}
}

/// The same call of another function; arguments of a primitive get the names that it has for them.
fn rename_call(call: &mut Expr, path: &str, says: &str) {
    let ExprKind::Call { func, args } = &mut call.kind else {
        return;
    };
    **func = Expr::path(says).at(func.span);
    args.retain(|arg| arg.name.as_deref() != Some("since"));
    let Some(prim) = Prim::find(path) else { return };
    let names: BTreeMap<&str, &str> = prim::slots(prim)
        .iter()
        .flat_map(|slot| slot.aliases.iter().map(|alias| (*alias, slot.name)))
        .collect();
    for arg in args {
        if let Some(name) = arg.name.as_deref().and_then(|name| names.get(name)) {
            arg.name = Some(Name::from(*name));
        }
    }
}
