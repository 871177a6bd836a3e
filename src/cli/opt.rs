//! `irc opt`: chosen passes over a program, with what each made of it.

use std::path::PathBuf;

use super::output::{write_file, write_output, write_stdout};
use super::report::{Failure, Session};
use super::{Exit, list};
use crate::codegen::Target;
use crate::driver::{self, PIPELINE};
use crate::opt::{Changed, Promises};
use crate::syntax::print;

/// `irc opt [-p PASSES] [--dump-after PASS] [--dump-dir DIR] FILE`
#[derive(clap::Args)]
pub struct Args {
    /// The program: text, an ONNX file, or a shared object that irc made; `-` is stdin
    #[arg(value_name = "FILE", required_unless_present = "list")]
    file: Option<String>,
    /// Passes to run, in this order; all of the pipeline's without it. Most want the form that `normalize` makes
    #[arg(short, long, value_name = "PASSES", value_delimiter = ',')]
    passes: Vec<String>,
    /// Print the program after these passes to stderr
    #[arg(long, value_name = "PASSES", value_delimiter = ',')]
    dump_after: Vec<String>,
    /// Write the program after each pass that changed it into this folder, as `NN-pass.ir`
    #[arg(long, value_name = "DIR")]
    dump_dir: Option<PathBuf>,
    /// Check after each pass that the program is at the level that the pass promises, and reads back equal
    #[arg(long)]
    verify: bool,
    /// Take every sum term by term in the order of the text
    #[arg(long)]
    exact: bool,
    /// List the passes
    #[arg(long)]
    list: bool,
    /// Where the text goes; stdout without it, and for `-`
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the passes; 1 when the program has errors.
pub fn run(args: Args, session: &mut Session) -> Result<Exit, Failure> {
    if args.list {
        write_stdout(list::passes().as_bytes())?;
        return Ok(Exit::Good);
    }
    let file = args.file.clone().unwrap_or_default();
    let lib = session.library()?;
    let names: Vec<&str> = args.passes.iter().map(String::as_str).collect();
    let dumped: Vec<&str> = args.dump_after.iter().map(String::as_str).collect();
    let passes = driver::select_passes(&dumped).and_then(|_| match names.as_slice() {
        [] => Ok(PIPELINE.iter().map(|(pass, _)| *pass).collect()),
        names => driver::select_passes(names),
    });
    let passes = match passes {
        Ok(passes) => passes,
        Err(fault) => {
            session.show(&fault.diagnostics);
            return Ok(Exit::Usage);
        }
    };
    if let Some(dir) = &args.dump_dir {
        std::fs::create_dir_all(dir).map_err(|error| {
            Failure::new(Exit::Io, format!("cannot make {}: {error}", dir.display()))
        })?;
    }
    let mut program = match session.load(&file, &lib) {
        Ok(program) => program,
        Err(fault) => return Ok(session.show_fault(&fault)),
    };
    let target = Target {
        exact: args.exact,
        ..Target::native()
    };
    let promises = if args.verify {
        Promises::Held
    } else {
        Promises::default()
    };
    let mut number = 0;
    let mut failed = None;
    let outcome = driver::run_passes(
        &mut program,
        &passes,
        &target,
        &lib,
        promises,
        &mut |pass, module, changed| {
            number += 1;
            if changed == Changed::No && !args.passes.is_empty() {
                session.say(&format!("note: `{pass}` changed nothing\n"));
            }
            if dumped.contains(&pass) {
                session.say(&format!("# after {pass}\n{}", print(module)));
            }
            if let Some(dir) = args.dump_dir.as_ref().filter(|_| changed == Changed::Yes) {
                let path = dir.join(format!("{number:02}-{pass}.ir"));
                failed = failed
                    .take()
                    .or(write_file(&path, print(module).as_bytes()).err());
            }
        },
    );
    if let Err(fault) = outcome {
        return Ok(session.show_fault(&fault));
    }
    if let Some(failure) = failed {
        return Err(failure);
    }
    let text = print(&program.module);
    write_output(args.output.as_deref(), text.as_bytes())?;
    Ok(Exit::Good)
}
