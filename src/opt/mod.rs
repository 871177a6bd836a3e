//! Passes on graph functions: each is one file with a `PASS`, and a rewrite of the tree; the driver has their order.
//!
//! [`run_passes`] is the runner: it checks the module before the first pass and after each that changed something, so
//! that a pass always finds the types of all names in `cx.info`. A pass that cannot apply leaves the tree as it
//! is; what it has to say goes to `cx.diags`. Tests are in `tests/opt/<pass>/`.

pub mod allocate_workspace;
pub mod bind_ranges;
pub mod bind_symbols;
pub mod by_inverse;
pub mod channels_last;
pub mod collapse_axes;
pub mod common_subexpr;
pub mod dead_code;
pub mod fold_constants;
pub mod fold_factors;
pub mod for_onnx;
pub mod for_tvm;
pub mod fuse;
pub mod graph;
pub mod guard;
pub mod hoist_constants;
pub mod hoist_invariants;
pub mod legalize;
pub mod lift;
mod lift_branches;
mod lift_calls;
mod lift_gradient;
mod lift_loops;
mod lift_ranks;
pub mod log;
pub mod lower;
pub mod narrow;
pub mod normalize;
pub mod own_results;
pub mod pattern;
pub mod plan_memory;
pub mod quantized;
pub mod rewrite;
pub mod simplify;
pub mod specialize;
pub mod summary;
mod tail;
pub mod take_first;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use irc_syntax::{
    Diagnostic, Expr, ExprKind, Func, FuncKind, Module, Name, Severity, SourceMap, Stmt, StmtKind,
    is_identical, parse, print,
};

use crate::check::stage::{self, Level};
use crate::check::{self, Info};
use crate::library::Library;
use crate::target::Target;
use crate::tensor::Weights;

use log::{Log, Remark};

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

/// Whether the module is looked at after each pass for what the pass promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Promises {
    /// It is.
    Held,
    /// Passes are trusted.
    Trusted,
}

/// Builds of irc for its developers trust no pass.
impl Default for Promises {
    fn default() -> Self {
        if cfg!(debug_assertions) {
            Self::Held
        } else {
            Self::Trusted
        }
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
    /// Whether passes are held to what they promise.
    pub promises: Promises,
    /// What passes did, and what they may still do.
    pub log: Log,
    /// The arguments of the pass that runs.
    args: Args,
}

/// Arguments of a pass that are given, by name.
pub type Args = BTreeMap<String, i64>;

impl<'a> PassCx<'a> {
    /// A context without types yet; the runner fills them in.
    pub fn new(lib: &'a Library, weights: &'a mut Weights, target: &'a Target) -> Self {
        Self {
            lib,
            weights,
            target,
            info: Info::default(),
            diags: Vec::new(),
            promises: Promises::default(),
            log: Log::default(),
            args: Args::new(),
        }
    }

    /// The arguments that are given to the pass that runs.
    pub fn args(&self) -> &Args {
        &self.args
    }

    /// An argument of the pass that runs, or what it is when nobody says.
    pub fn arg(&self, arg: &PassArg) -> i64 {
        self.args.get(arg.name).copied().unwrap_or(arg.default)
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

/// A pass: one file, whose name is the pass's.
pub struct Pass {
    /// The name of its file, its tests and its flag.
    pub name: &'static str,
    /// Rewrites the module.
    pub run: fn(&mut Module, &mut PassCx) -> Changed,
    /// What it needs for its promise to hold.
    pub from: Level,
    /// What it promises: the level of a module that was at `from`. A higher level is kept.
    pub to: Level,
    /// One line for `irc list passes`.
    pub summary: &'static str,
    /// What may be said of it in `-p 'pass(name=4)'`.
    pub args: &'static [PassArg],
}

/// A number that a pass takes.
pub struct PassArg {
    /// Its name; `*` stands for any.
    pub name: &'static str,
    /// What it is when it is not given.
    pub default: i64,
    /// One line for `irc explain`.
    pub summary: &'static str,
}

/// A pass with its arguments.
#[derive(Clone)]
pub struct Step {
    /// The pass.
    pub pass: &'static Pass,
    /// Those of its arguments that are given.
    pub args: Args,
}

impl From<&'static Pass> for Step {
    fn from(pass: &'static Pass) -> Self {
        Self {
            pass,
            args: Args::new(),
        }
    }
}

/// What is seen after a pass.
pub struct Outcome<'a> {
    /// The pass, with its arguments.
    pub step: &'a Step,
    /// The module, and the weights of its public functions.
    pub module: &'a Module,
    /// The weights.
    pub weights: &'a Weights,
    /// Whether the module is another than before.
    pub changed: Changed,
    /// The rewrites of the pass.
    pub rewrites: &'a [Remark],
    /// How long the pass took, without the check of what came out.
    pub time: Duration,
}

/// The most rounds of a list of passes; one after which nothing changed is the last.
const MAX_ROUNDS: usize = 16;

/// Runs passes in order. `after` sees the module after each, with whether it changed.
///
/// # Errors
/// Faults of the module before the first pass, those that passes reported, and what breaks a pass's promises.
pub fn run_passes(
    module: &mut Module,
    passes: &[&'static Pass],
    cx: &mut PassCx,
    after: &mut dyn FnMut(&'static str, &Module, Changed),
) -> Result<(), Vec<Diagnostic>> {
    let steps: Vec<Step> = passes.iter().map(|pass| Step::from(*pass)).collect();
    run_steps(module, &steps, cx, &mut |outcome| {
        after(outcome.step.pass.name, outcome.module, outcome.changed);
    })
}

/// Runs passes with their arguments in order. `after` sees what each made.
///
/// # Errors
/// As [`run_passes`].
pub fn run_steps(
    module: &mut Module,
    steps: &[Step],
    cx: &mut PassCx,
    after: &mut dyn FnMut(&Outcome),
) -> Result<(), Vec<Diagnostic>> {
    cx.recheck(module)?;
    let mut level = Level::Graph;
    let given: BTreeSet<Name> = module.funcs().map(|func| func.name.clone()).collect();
    for step in steps {
        run_step(module, step, cx, (&mut level, &given), after)?;
    }
    Ok(())
}

/// Runs passes over and over, until none of them changes anything. `first` runs once before them, whatever the fuel.
///
/// # Errors
/// As [`run_passes`].
pub fn run_rounds(
    module: &mut Module,
    first: &[Step],
    steps: &[Step],
    cx: &mut PassCx,
    after: &mut dyn FnMut(&Outcome),
) -> Result<(), Vec<Diagnostic>> {
    cx.recheck(module)?;
    let mut level = Level::Graph;
    let given: BTreeSet<Name> = module.funcs().map(|func| func.name.clone()).collect();
    // Their form is what the others need; they are no rewrites that fuel is counted for.
    let log = std::mem::take(&mut cx.log);
    for step in first {
        run_step(module, step, cx, (&mut level, &given), after)?;
    }
    cx.log = log;
    for _ in 0..MAX_ROUNDS {
        let mut changed = false;
        for step in steps {
            let outcome = run_step(module, step, cx, (&mut level, &given), after)?;
            changed |= outcome == Changed::Yes;
        }
        if !changed {
            break;
        }
    }
    Ok(())
}

/// Runs one pass, and checks what came out of it.
fn run_step(
    module: &mut Module,
    step: &Step,
    cx: &mut PassCx,
    (level, given): (&mut Level, &BTreeSet<Name>),
    after: &mut dyn FnMut(&Outcome),
) -> Result<Changed, Vec<Diagnostic>> {
    let pass = step.pass;
    if cx.log.is_spent() {
        return Ok(Changed::No);
    }
    cx.log.enter(pass.name);
    cx.args.clone_from(&step.args);
    let before = cx.log.n_done();
    let start = Instant::now();
    let changed = (pass.run)(module, cx);
    let time = start.elapsed();
    if !cx.diags.is_empty() {
        return Err(std::mem::take(&mut cx.diags));
    }
    // A pass that does not count is one rewrite.
    if changed == Changed::Yes && cx.log.n_done() == before {
        let counted = cx.log.allows("", None, || pass.summary.to_owned());
        debug_assert!(counted);
    }
    after(&Outcome {
        step,
        module,
        weights: cx.weights,
        changed,
        rewrites: &cx.log.done_since(before),
        time,
    });
    if changed == Changed::Yes {
        cx.recheck(module).map_err(|diags| {
            diags
                .into_iter()
                .map(|diag| diag.note(format!("after the pass `{}`", pass.name)))
                .collect::<Vec<_>>()
        })?;
    }
    if pass.from <= *level {
        *level = (*level).max(pass.to);
    }
    if cx.promises == Promises::Held {
        verify(module, *level, given).map_err(|diags| broken(pass, diags))?;
    }
    Ok(changed)
}

/// What a pass owes beyond a sound module: its level, and a text that reads back equal.
fn verify(module: &Module, level: Level, given: &BTreeSet<Name>) -> Result<(), Vec<Diagnostic>> {
    let faults = stage::verify(module, level, given);
    if !faults.is_empty() {
        return Err(faults);
    }
    let (read, diags) = parse(&mut SourceMap::default(), "pass", &print(module));
    if !diags.is_empty() {
        return Err(diags);
    }
    if !is_identical(module, &read) {
        let message = "the printed module does not read back equal";
        return Err(vec![Diagnostic::error("level", message)]);
    }
    Ok(())
}

/// A pass left what it may not leave: irc's fault, whatever the faults are.
fn broken(pass: &Pass, mut faults: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let message = format!("the pass `{}` left a module that is not sound", pass.name);
    faults.insert(0, Diagnostic::error("pass-fault", message));
    faults
}

/// Sets `num_input` in the function's attributes.
pub(crate) fn set_num_input(func: &mut Func, num_input: usize) {
    set_func_attr(func, "num_input", Expr::int(num_input as i128));
}

/// Sets one attribute of a function, in the order of keys.
pub(crate) fn set_func_attr(func: &mut Func, key: &str, value: Expr) {
    let path = match func.kind {
        FuncKind::Loops => "T.func_attr",
        FuncKind::Graph | FuncKind::Local => "R.func_attr",
    };
    for stmt in &mut func.body {
        let StmtKind::Expr(call) = &mut stmt.kind else {
            continue;
        };
        if !call.is_call_of(path) {
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
    func.body.insert(0, Stmt::expr(Expr::call(path, [attrs])));
}
