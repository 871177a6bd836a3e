//! Puts sizes in the place of symbolic dims: `bind_symbols(n=4)`.
//!
//!     def main(x: R.Tensor(("n", 8))):             def main(x: R.Tensor((4, 8))):
//!         n = T.int64()                        →       y = R.reshape(x, R.shape([32]))
//!         y = R.reshape(x, R.shape([n * 8]))
//!
//! Done in the public functions whose inputs have the symbol; a private function gets its sizes from its calls. A symbol
//! that no public function has is a fault.

use std::collections::BTreeSet;

use irc_syntax::{Diagnostic, FuncKind, Module, Name};

use super::specialize::{Sizes, bind_sizes, symbols_of};
use super::{Changed, Pass, PassArg, PassCx};
use crate::check::stage::Level;

/// The pass.
pub const PASS: Pass = Pass {
    name: "bind_symbols",
    run,
    from: Level::Graph,
    to: Level::Graph,
    summary: "put sizes in the place of symbolic dims",
    args: &[PassArg {
        name: "*",
        default: 0,
        summary: "the size of the symbol of this name",
    }],
};

/// Runs the pass.
pub fn run(module: &mut Module, cx: &mut PassCx) -> Changed {
    let wanted: Sizes = cx
        .args()
        .iter()
        .map(|(name, size)| (Name::from(name.as_str()), *size))
        .collect();
    let mut known = BTreeSet::new();
    let mut changed = false;
    for func in module.funcs_mut() {
        if func.kind != FuncKind::Graph || func.is_private() {
            continue;
        }
        let symbols = symbols_of(func);
        let sizes: Sizes = wanted
            .iter()
            .filter(|(name, _)| symbols.contains(*name))
            .map(|(name, size)| (name.clone(), *size))
            .collect();
        if !sizes.is_empty() && cx.log.allows(&func.name, func.span, String::new) {
            bind_sizes(func, &sizes);
            changed = true;
        }
        known.extend(symbols);
    }
    for name in wanted.keys().filter(|name| !known.contains(*name)) {
        let names: Vec<&str> = known.iter().map(|name| name.as_str()).collect();
        let known = if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        };
        let message = format!("no input has the symbol `{name}`; the symbols are: {known}");
        cx.diags.push(Diagnostic::error("unknown-size", message));
    }
    Changed::from(changed)
}
