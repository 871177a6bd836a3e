//! Passes on graph functions: each is one file, one row of [`PASSES`], and a rewrite of the tree.
//!
//! [`run_passes`] is the runner: it checks the module before the first pass and after each that changed something, so
//! that a pass always finds the types of all names in `cx.info`. A pass that cannot apply leaves the tree as it
//! is; what it has to say goes to `cx.diags`. Tests are in `tests/opt/<pass>/`.

pub mod bind_ranges;
pub mod channels_last;
pub mod collapse_axes;
pub mod common_subexpr;
pub mod dead_code;
pub mod fold_constants;
pub mod for_tvm;
pub mod fuse;
pub mod graph;
pub mod guard;
pub mod hoist_constants;
pub mod legalize;
pub mod lift;
mod lift_loops;
pub mod lower;
pub mod normalize;
pub mod own_results;
pub mod pattern;
pub mod plan_memory;
pub mod simplify;

use irc_syntax::{Diagnostic, Expr, ExprKind, Func, Module, Severity, Stmt, StmtKind};

use crate::check::{self, Info};
use crate::library::Library;
use crate::target::Target;
use crate::tensor::Weights;

/// Whether a pass changed the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Changed {
    /// It did.
    Yes,
    /// The module is as it was.
    No,
}

impl From<bool> for Changed {
    fn from(changed: bool) -> Self {
        if changed { Self::Yes } else { Self::No }
    }
}

/// What passes share.
pub struct PassCx<'a> {
    /// The operators.
    pub lib: &'a Library,
    /// The weights of the public functions, by parameter name.
    pub weights: &'a mut Weights,
    /// What code is made for.
    pub target: &'a Target,
    /// The types of the module as it stands.
    pub info: Info,
    /// Faults that passes found.
    pub diags: Vec<Diagnostic>,
}

impl<'a> PassCx<'a> {
    /// A context without types yet; the runner fills them in.
    pub fn new(lib: &'a Library, weights: &'a mut Weights, target: &'a Target) -> Self {
        Self {
            lib,
            weights,
            target,
            info: Info::default(),
            diags: Vec::new(),
        }
    }

    /// Checks the module again.
    ///
    /// # Errors
    /// The module's faults: the user's before the first pass, a pass's own after it.
    pub fn recheck(&mut self, module: &Module) -> Result<(), Vec<Diagnostic>> {
        let (info, diags) = check::check(module, self.lib);
        let errors: Vec<Diagnostic> = diags
            .into_iter()
            .filter(|diag| diag.severity == Severity::Error)
            .collect();
        if errors.is_empty() {
            self.info = info;
            Ok(())
        } else {
            Err(errors)
        }
    }
}

/// A row of the pass table.
pub struct Pass {
    /// The name of its file, its tests and its flag.
    pub name: &'static str,
    /// Rewrites the module.
    pub run: fn(&mut Module, &mut PassCx) -> Changed,
    /// One line for `irc opt --list`.
    pub summary: &'static str,
}

/// Every pass, in the order of the pipeline.
pub const PASSES: &[Pass] = &[
    Pass {
        name: "lift",
        run: lift::run,
        summary: "expand imported operators into R.* calls",
    },
    Pass {
        name: "normalize",
        run: normalize::run,
        summary: "one operator a binding, unique names",
    },
    Pass {
        name: "legalize",
        run: legalize::run,
        summary: "expand composite operators into primitives",
    },
    Pass {
        name: "guard",
        run: guard::run,
        summary: "state extents that have to agree",
    },
    Pass {
        name: "simplify",
        run: simplify::run,
        summary: "algebraic identities on tensors",
    },
    Pass {
        name: "fold_constants",
        run: fold_constants::run,
        summary: "compute what depends on constants only",
    },
    Pass {
        name: "common_subexpr",
        run: common_subexpr::run,
        summary: "compute equal values once",
    },
    Pass {
        name: "dead_code",
        run: dead_code::run,
        summary: "remove what nothing reads",
    },
    Pass {
        name: "bind_ranges",
        run: bind_ranges::run,
        summary: "compute lengths of ranges between tensors",
    },
    Pass {
        name: "channels_last",
        run: channels_last::run,
        summary: "convolutions with the channels last",
    },
    Pass {
        name: "hoist_constants",
        run: hoist_constants::run,
        summary: "constant operands become weights",
    },
    Pass {
        name: "own_results",
        run: own_results::run,
        summary: "copy results that are no kernel's own",
    },
    Pass {
        name: "fuse",
        run: fuse::run,
        summary: "group bindings into kernels",
    },
    Pass {
        name: "collapse_axes",
        run: collapse_axes::run,
        summary: "merge axes that are walked together",
    },
    Pass {
        name: "lower",
        run: lower::run,
        summary: "turn groups into loops",
    },
    Pass {
        name: "schedule",
        run: crate::sched::run,
        summary: "tile, vectorize and parallelize loops",
    },
    Pass {
        name: "plan_memory",
        run: plan_memory::run,
        summary: "place every tensor",
    },
    Pass {
        name: "for_tvm",
        run: for_tvm::run,
        summary: "expand the operators that Apache TVM does not have",
    },
];

/// The pass of a name.
pub fn find_pass(name: &str) -> Option<&'static Pass> {
    PASSES.iter().find(|pass| pass.name == name)
}

/// Runs passes in order. `after` sees the module after each, with whether it changed.
///
/// # Errors
/// Faults of the module before the first pass, or those that passes reported.
pub fn run_passes(
    module: &mut Module,
    passes: &[&Pass],
    cx: &mut PassCx,
    after: &mut dyn FnMut(&'static str, &Module, Changed),
) -> Result<(), Vec<Diagnostic>> {
    cx.recheck(module)?;
    for pass in passes {
        let changed = (pass.run)(module, cx);
        if !cx.diags.is_empty() {
            return Err(std::mem::take(&mut cx.diags));
        }
        after(pass.name, module, changed);
        if changed == Changed::Yes {
            cx.recheck(module).map_err(|diags| {
                diags
                    .into_iter()
                    .map(|diag| diag.note(format!("after the pass `{}`", pass.name)))
                    .collect::<Vec<_>>()
            })?;
        }
    }
    Ok(())
}

/// Sets `num_input` in the function's attributes.
pub(crate) fn set_num_input(func: &mut Func, num_input: usize) {
    set_func_attr(func, "num_input", Expr::int(num_input as i128));
}

/// Sets one attribute of a graph function, in the order of keys.
pub(crate) fn set_func_attr(func: &mut Func, key: &str, value: Expr) {
    for stmt in &mut func.body {
        let StmtKind::Expr(call) = &mut stmt.kind else {
            continue;
        };
        if !call.is_call_of("R.func_attr") {
            continue;
        }
        let ExprKind::Call { args, .. } = &mut call.kind else {
            continue;
        };
        let Some(ExprKind::Dict(items)) = args.first_mut().map(|arg| &mut arg.value.kind) else {
            continue;
        };
        match items
            .iter_mut()
            .find(|(name, _)| name.as_str() == Some(key))
        {
            Some((_, old)) => *old = value,
            None => {
                items.push((Expr::str(key), value));
                items.sort_by(|(a, _), (b, _)| a.as_str().cmp(&b.as_str()));
            }
        }
        return;
    }
    let attrs = Expr::dict([(key.to_owned(), value)]);
    func.body
        .insert(0, Stmt::expr(Expr::call("R.func_attr", [attrs])));
}
