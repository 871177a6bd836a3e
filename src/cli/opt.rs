//! `irc opt`: passes over a program, with what each made of it.

use std::path::PathBuf;

use super::inputs::parse_sizes;
use super::output::{write_program, write_stdout};
use super::report::{Failure, Session};
use super::{Exit, list};
use crate::codegen::Target;
use crate::driver::{self, Fault, OptLevel, PIPELINE, Plan, REWRITES};
use crate::opt::{Changed, Promises, Step, bind_symbols, normalize};
use crate::syntax::{Diagnostic, print};

mod account;
mod values;

use account::Account;

/// `irc opt [-O LEVEL | -p PASSES] FILE`
#[derive(clap::Args)]
pub struct Args {
    /// The program: text, an ONNX file, or a shared object that irc made; `-` is stdin
    #[arg(value_name = "FILE", required_unless_present = "list")]
    file: Option<String>,
    /// How much is changed: 0 normal form; 1 what computes nothing goes; 2 fewer operators; 3 other arithmetic too
    #[arg(short = 'O', value_name = "LEVEL", default_value = "2", value_parser = ["0", "1", "2", "3"], conflicts_with = "passes")]
    level: String,
    /// Passes to run once, in this order, with their arguments: `normalize,fuse(max=8)`. Most want the form that `normalize` makes
    #[arg(short, long, value_name = "PASSES")]
    passes: Option<String>,
    /// Passes of the level that are left out
    #[arg(
        long,
        value_name = "PASSES",
        value_delimiter = ',',
        conflicts_with = "passes"
    )]
    skip: Vec<String>,
    /// Passes of the level that are run, and no others
    #[arg(long, value_name = "PASSES", value_delimiter = ',', conflicts_with_all = ["passes", "skip"])]
    only: Vec<String>,
    /// Stop after this pass; for one of `irc build` alone, its passes are run up to it
    #[arg(long, value_name = "PASS")]
    until: Option<String>,
    /// Make N rewrites, and stop before the next
    #[arg(long, value_name = "N")]
    fuel: Option<u64>,
    /// Fix symbolic dims first: `n=4`
    #[arg(long, value_name = "NAME=N", value_delimiter = ',')]
    dim: Vec<String>,
    /// Print the program after these passes to stderr
    #[arg(long, value_name = "PASSES", value_delimiter = ',')]
    dump_after: Vec<String>,
    /// Write the program after each pass into this folder, as `NN-pass.ir`
    #[arg(long, value_name = "DIR")]
    dump: Option<PathBuf>,
    /// With `--dump`: only after passes that changed it
    #[arg(long, requires = "dump")]
    changed: bool,
    /// Print what the program was and is: operators, parameters, FLOPs, bytes, peak memory
    #[arg(long)]
    summary: bool,
    /// Print how long each pass took
    #[arg(long)]
    timing: bool,
    /// Print the rewrites and where they were made; `missed`: those that look-alikes were refused
    #[arg(long, value_name = "WHICH", num_args = 0..=1, require_equals = true, default_missing_value = "all", value_parser = ["all", "done", "missed"])]
    remarks: Option<String>,
    /// Write the passes, what each did and the text after it into this file, as JSON
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Interpret the program before and after each pass that changed it, for inputs made from a seed
    #[arg(long, value_name = "SEED", num_args = 0..=1, require_equals = true, default_missing_value = "0")]
    check_values: Option<u64>,
    /// Check after each pass that the program is at the level that the pass promises, and reads back equal
    #[arg(long)]
    verify: bool,
    /// Take every sum term by term in the order of the text
    #[arg(long)]
    exact: bool,
    /// List the passes
    #[arg(long)]
    list: bool,
    /// Where the text goes; weights go beside it as `.safetensors`. Without it, and for `-`, the text goes to stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the passes; 1 when the program has errors, or a pass changed what it computes.
pub fn run(args: Args, session: &mut Session) -> Result<Exit, Failure> {
    if args.list {
        write_stdout(list::passes().as_bytes())?;
        return Ok(Exit::Good);
    }
    let plan = match plan(&args) {
        Ok(plan) => plan,
        Err(fault) => {
            session.show(&fault.diagnostics);
            return Ok(Exit::Usage);
        }
    };
    let lib = session.library()?;
    let mut program = match session.load(args.file.as_deref().unwrap_or_default(), &lib) {
        Ok(program) => program,
        Err(fault) => return Ok(session.show_fault(&fault)),
    };
    let target = Target {
        exact: args.exact,
        ..Target::native()
    };
    let sizes = parse_sizes(&args.dim)?;
    if !sizes.is_empty() {
        let mut bind = Step::from(&bind_symbols::PASS);
        bind.args = sizes;
        let plan = Plan {
            steps: vec![bind],
            ..Plan::default()
        };
        if let Err(fault) = driver::run_plan(&mut program, &plan, &target, &lib, &mut |_| {}) {
            let exit = session.show_fault(&fault);
            let is_unknown = fault
                .diagnostics
                .iter()
                .all(|diag| diag.code == "unknown-size");
            return Ok(if is_unknown { Exit::Usage } else { exit });
        }
    }
    let mut account = Account::new(&args, &program, &lib)?;
    let outcome = driver::run_plan(&mut program, &plan, &target, &lib, &mut |outcome| {
        account.note(outcome);
        let pass = outcome.step.pass.name;
        if outcome.changed == Changed::No && args.passes.is_some() {
            session.say(&format!("note: `{pass}` changed nothing\n"));
        }
        if args.dump_after.iter().any(|name| name == pass) {
            session.say(&format!("# after {pass}\n{}", print(outcome.module)));
        }
    });
    let missed = match outcome {
        Ok(missed) => missed,
        Err(fault) => return Ok(session.show_fault(&fault)),
    };
    let exit = account.close(&program, &missed, &lib, session)?;
    write_program(args.output.as_deref(), &mut program, session)?;
    Ok(exit)
}

/// The passes that the arguments ask for.
///
/// # Errors
/// A name that no pass has, or one that is not among those that would run.
fn plan(args: &Args) -> Result<Plan, Fault> {
    let plan = Plan {
        fuel: args.fuel,
        promises: if args.verify {
            Promises::Held
        } else {
            Promises::default()
        },
        ..Plan::default()
    };
    let named = args.dump_after.iter().chain(&args.skip).chain(&args.only);
    let named: Vec<&str> = named.chain(&args.until).map(String::as_str).collect();
    driver::select_passes(&named)?;
    if let Some(text) = &args.passes {
        let mut steps = driver::parse_steps(text)?;
        if let Some(last) = &args.until {
            steps.truncate(end_of(last, steps.iter().map(|step| step.pass.name))?);
        }
        return Ok(Plan { steps, ..plan });
    }
    let level = match args.level.as_str() {
        "0" => OptLevel::O0,
        "1" => OptLevel::O1,
        "2" => OptLevel::O2,
        _ => OptLevel::O3,
    };
    let is_wanted = |name: &str| {
        let has = |names: &[String]| names.iter().any(|other| other == name);
        !has(&args.skip) && (args.only.is_empty() || has(&args.only))
    };
    let all = REWRITES.iter().filter(|(pass, from)| {
        // A pass that is asked for by name runs at any level.
        is_wanted(pass.name) && (*from <= level || !args.only.is_empty())
    });
    let mut steps: Vec<Step> = all.map(|(pass, _)| Step::from(*pass)).collect();
    let first = vec![Step::from(&normalize::PASS)];
    match &args.until {
        // One of the passes between the text and code generation: those up to it, as a build runs them.
        Some(last) if !REWRITES.iter().any(|(pass, _)| pass.name == last) => {
            let names = PIPELINE.iter().map(|(pass, _)| pass.name);
            let end = end_of(last, names)?;
            let steps = PIPELINE[..end].iter().map(|(pass, _)| Step::from(*pass));
            Ok(Plan {
                steps: steps.collect(),
                ..plan
            })
        }
        Some(last) => {
            steps.truncate(end_of(last, steps.iter().map(|step| step.pass.name))?);
            Ok(Plan {
                first,
                steps,
                over_and_over: false,
                ..plan
            })
        }
        None => Ok(Plan {
            first,
            steps,
            over_and_over: true,
            ..plan
        }),
    }
}

/// How many of the passes run until the one of a name has.
fn end_of(last: &str, mut names: impl Iterator<Item = &'static str>) -> Result<usize, Fault> {
    let at = names.position(|name| name == last);
    at.map(|at| at + 1).ok_or_else(|| {
        let message = format!("`{last}` is not among the passes that run");
        Fault::program(vec![Diagnostic::error("unknown-pass", message)])
    })
}
