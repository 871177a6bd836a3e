//! `tests/opt/<pass>`: a module, and what the pass of that name makes of it.
//!
//! The directive `passes: a, b` names others. An `unchanged` part says that the pass leaves the module alone; a
//! `refused` part holds what it said, a `missed` part why look-alikes were left alone. `tests/sched/<primitive>` is the same for the automatic schedule, for the
//! instruction set that the directive `cpu` names, and with `exact: true` as `--exact` asks for. With a directive `sizes`,
//! `main` computes the same before and after. Parameters after `num_input` are weights of varied numbers.

use super::Outcome;
use super::laws::parse_clean;
use super::native::{self, LIBRARY, agree, interpret};
use super::programs::all_sizes;
use super::sections::{Case, Part};
use irc::driver::find_pass;
use irc::opt::{Changed, Pass, PassCx, run_passes};
use irc::syntax::{Format, Module, Name, SourceMap, parse, print, render};
use irc::target::Target;
use irc::tensor::Weights;
use std::path::Path;

/// Runs the passes on the first part; the second is what came out.
pub fn run(case: &Case, path: &Path) -> Outcome {
    let folder = path
        .parent()
        .and_then(Path::file_name)
        .unwrap_or_default()
        .to_string_lossy();
    let names = case.directive("passes").unwrap_or(&folder);
    let weights = match case.directive("sizes") {
        Some(_) => weights_of(case)?,
        None => Weights::default(),
    };
    run_named(case, names, &Target::native(), weights)
}

/// Schedules the functions of the first part; the second is what came out.
pub fn run_sched(case: &Case, _path: &Path) -> Outcome {
    let name = case.directive("cpu").unwrap_or("x86-64-v3");
    let cpu = native::CPUS.iter().find(|(_, known)| *known == name);
    let (cpu, _) = *cpu.ok_or_else(|| format!("there is no instruction set `{name}`"))?;
    let target = Target {
        cpu,
        exact: case.directive("exact").is_some(),
        ..Target::native()
    };
    let names = case.directive("passes").unwrap_or("schedule");
    run_named(case, names, &target, weights_of(case)?)
}

/// Values for what `main` has after its inputs.
fn weights_of(case: &Case) -> Result<Weights, String> {
    let mut weights = Weights::default();
    let (module, diagnostics) = parse(&mut SourceMap::new(), "text", &case.parts[0].text);
    if !diagnostics.is_empty() {
        return Ok(weights);
    }
    let info = native::types(&module)?;
    let sizes = all_sizes(case)?.into_iter().next().unwrap_or_default();
    if let Some(main) = info
        .funcs
        .get(&Name::from("main"))
        .filter(|main| main.num_input < main.params.len())
    {
        let values = native::inputs(&info, "main", &sizes)?;
        let named = main.params.iter().zip(values).skip(main.num_input);
        for ((name, _), value) in named {
            weights.insert(name.as_str(), value);
        }
    }
    Ok(weights)
}

fn run_named(case: &Case, names: &str, target: &Target, mut weights: Weights) -> Outcome {
    let passes: Vec<&Pass> = names
        .split(", ")
        .map(|name| find_pass(name).ok_or_else(|| format!("there is no pass `{name}`")))
        .collect::<Result<_, _>>()?;
    let mut sources = SourceMap::new();
    let (mut module, diagnostics) = parse(&mut sources, "text", &case.parts[0].text);
    if !diagnostics.is_empty() {
        return Err(render(
            &diagnostics,
            &sources,
            Format::Full,
            Default::default(),
        ));
    }
    let (before, original) = (print(&module), module.clone());
    let library = &*LIBRARY;
    let originals = weights.clone();
    let mut cx = PassCx::new(library, &mut weights, target);
    let mut has_changed = false;
    let outcome = run_passes(&mut module, &passes, &mut cx, &mut |_, _, changed| {
        has_changed |= changed == Changed::Yes;
    });
    let missed = cx.log.missed();
    let after = print(&module);
    let (label, text) = match outcome {
        Err(faults) => (
            "refused",
            render(&faults, &sources, Format::Short, Default::default()),
        ),
        Ok(()) if after == before && has_changed => {
            return Err("the pass says that it changed the module, but did not".into());
        }
        Ok(()) if after == before => ("unchanged", String::new()),
        Ok(()) => ("after", after),
    };
    if label == "after" {
        if case.directive("sizes").is_some() {
            computes_the_same(case, (&original, &originals), (&module, &weights))?;
        }
        parse_clean(&text).map_err(|fault| format!("the result does not read back\n{fault}"))?;
    }
    let mut parts = vec![Part::new("", &before), Part::new(label, &text)];
    if case.parts.iter().any(|part| part.label == "missed") {
        let missed = missed
            .iter()
            .map(|remark| format!("{}: {}\n", remark.name, remark.message));
        parts.push(Part::new("missed", &missed.collect::<String>()));
    }
    Ok(parts)
}

/// Interprets both, each with its weights, for all sizes of the section.
fn computes_the_same(
    case: &Case,
    before: (&Module, &Weights),
    after: (&Module, &Weights),
) -> Result<(), String> {
    for sizes in all_sizes(case)? {
        let results = |(module, weights): (&Module, &Weights)| {
            let info = native::types(module)?;
            let mut inputs = native::inputs(&info, "main", &sizes)?;
            let params = info
                .funcs
                .get(&Name::from("main"))
                .into_iter()
                .flat_map(|main| &main.params);
            for ((name, _), input) in params.zip(&mut inputs) {
                if let Some(weight) = weights.get(name) {
                    *input = weight.tensor();
                }
            }
            interpret(module, "main", &inputs)
        };
        agree(&results(after)?, &results(before)?).map_err(|why| format!("{sizes:?}: {why}"))?;
    }
    Ok(())
}
