//! `irc schedule`: primitives applied to the loops of a program, by hand.

use std::path::PathBuf;

use super::Exit;
use super::output::write_program;
use super::report::{Failure, Session};
use crate::check::check;
use crate::codegen::Target;
use crate::driver::{self, Program};
use crate::opt::lower;
use crate::sched::by_hand::{Primitive, apply};
use crate::syntax::{FuncKind, Module, parse, print};

/// `irc schedule FILE --apply 'split(y, i, 8)'`
#[derive(clap::Args)]
pub struct Args {
    /// The program: text, an ONNX file, or a shared object that irc made; `-` is stdin. One without prim_funcs is lowered to loops first
    #[arg(value_name = "FILE")]
    file: String,
    /// A primitive: `split(block, i, 8)`, `tile(block, i, 8, j, 8)`, `reorder(block, j, i)`, `fuse(block, i, j)`, `vectorize(block, i)`, `unroll(block, i)`, `parallel(block, i)`. Several are applied in order
    #[arg(long, value_name = "PRIMITIVE")]
    apply: Vec<String>,
    /// Where the text goes; weights go beside it as `.safetensors`. Without it, and for `-`, the text goes to stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Applies the primitives; 1 where one is refused.
pub fn run(args: Args, session: &mut Session) -> Result<Exit, Failure> {
    let mut primitives = Vec::new();
    for text in &args.apply {
        match Primitive::parse(text) {
            Ok(primitive) => primitives.push(primitive),
            Err(fault) => {
                session.show(&[fault]);
                return Ok(Exit::Usage);
            }
        }
    }
    let lib = session.library()?;
    let mut program = match session.load(&args.file, &lib) {
        Ok(program) => program,
        Err(fault) => return Ok(session.show_fault(&fault)),
    };
    if !program
        .module
        .funcs()
        .any(|func| func.kind == FuncKind::Loops)
    {
        let target = Target::native();
        if let Err(fault) = driver::run_to(&mut program, &lower::PASS, &target, &lib) {
            return Ok(session.show_fault(&fault));
        }
    }
    for primitive in &primitives {
        // A refusal shows the loop in the program as it stands.
        program.module = read_again(&program, session);
        let (info, faults) = check(&program.module, &lib);
        if super::report::has_error(&faults) {
            session.show(&faults);
            return Ok(Exit::No);
        }
        let facts = info
            .funcs
            .into_iter()
            .map(|(name, info)| (name, info.facts))
            .collect();
        if let Err(refusal) = apply(&mut program.module, &facts, primitive) {
            session.show(&[refusal]);
            return Ok(Exit::No);
        }
    }
    write_program(args.output.as_deref(), &mut program, session)?;
    Ok(Exit::Good)
}

/// The program as printed, and its places in that text.
fn read_again(program: &Program, session: &mut Session) -> Module {
    let text = print(&program.module);
    let (module, _) = parse(&mut session.sources, "the program", &text);
    module
}
