//! `tests/interp` and `tests/codegen`: programs with a function `main`, run by the interpreter and compiled.
//!
//! A section of `tests/interp` has a part `gives` with the results, or `raises` with the kind of error. One of
//! `tests/codegen` is run for every assignment of the directive `sizes`, such as `n=0; n=1; n=17`, on all instruction
//! sets that the machine has; its part `kernels` says how many marked regions the vector emitter took for each, and why
//! it refused others.

use super::Outcome;
use super::laws::parse_clean;
use super::native::{self, CPUS, Sizes, agree, interpret};
use super::sections::{Case, Part};
use irc::syntax::Name;
use irc::tensor::Tensor;
use std::fmt::Write as _;
use std::path::Path;

/// Runs a section of `tests/interp`.
pub fn run_interp(case: &Case, _path: &Path) -> Outcome {
    let source = &case.parts[0];
    let module = parse_clean(&source.text)?;
    let info = native::types(&module)?;
    let mut parts = vec![source.clone()];
    for sizes in all_sizes(case)? {
        let inputs = native::inputs(&info, "main", &sizes)?;
        let result = interpret(&module, "main", &inputs);
        for (cpu, name) in CPUS
            .into_iter()
            .filter(|(cpu, _)| native::is_run_here(*cpu))
        {
            let compiled = native::compile(native::program(&module), cpu)
                .and_then(|compiled| native::load(&compiled))
                .map_err(|fault| native::say(&fault))?;
            match (&result, compiled.call("main", &inputs)) {
                (Ok(wanted), Ok(found)) => {
                    agree(&found, wanted).map_err(|why| format!("compiled for {name}: {why}"))?;
                }
                (Err(_), Err(_)) => {}
                (Ok(_), Err(why)) => return Err(format!("compiled for {name}: {why}")),
                (Err(why), Ok(_)) => {
                    return Err(format!("compiled for {name}: no error, but {why}"));
                }
            }
        }
        parts.push(match result {
            Ok(values) => Part::new(
                "gives",
                &values.iter().map(print_tensor).collect::<String>(),
            ),
            Err(why) => Part::new("raises", &format!("# {why}")),
        });
    }
    Ok(parts)
}

/// Runs a section of `tests/codegen`.
pub fn run_codegen(case: &Case, _path: &Path) -> Outcome {
    let source = &case.parts[0];
    let module = parse_clean(&source.text)?;
    let info = native::types(&module)?;
    let sizes = all_sizes(case)?;
    let inputs: Vec<Vec<Tensor>> = sizes
        .iter()
        .map(|sizes| native::inputs(&info, "main", sizes))
        .collect::<Result<_, _>>()?;
    let wanted: Vec<Vec<Tensor>> = inputs
        .iter()
        .map(|inputs| interpret(&module, "main", inputs))
        .collect::<Result<_, _>>()?;
    let mut kernels = String::new();
    for (cpu, name) in CPUS {
        let compiled = native::compile(native::program(&module), cpu)
            .map_err(|fault| format!("{name}: {}", native::say(&fault)))?;
        describe(&compiled, name, &mut kernels);
        let built = native::load(&compiled).map_err(|fault| native::say(&fault))?;
        if !native::is_run_here(cpu) {
            for inputs in &inputs {
                let refusal = built.call("main", inputs).err().unwrap_or_default();
                if !refusal.contains(name) {
                    return Err(format!("{name} is not this machine's, but: {refusal:?}"));
                }
            }
            continue;
        }
        for ((sizes, inputs), wanted) in sizes.iter().zip(&inputs).zip(&wanted) {
            built
                .call("main", inputs)
                .and_then(|found| agree(&found, wanted))
                .map_err(|why| format!("{name}, {sizes:?}: {why}"))?;
        }
    }
    Ok(vec![source.clone(), Part::new("kernels", &kernels)])
}

fn describe(compiled: &native::Compiled, cpu: &str, text: &mut String) {
    let regions = &compiled.regions;
    let refused: Vec<_> = regions
        .iter()
        .filter(|region| region.refusal.is_some())
        .collect();
    let n_taken = regions.len() - refused.len();
    let _ = writeln!(text, "# {cpu}: {n_taken} of {}", regions.len());
    for region in refused {
        let why = region.refusal.as_deref().unwrap_or_default();
        let _ = writeln!(text, "#     {}: {why}", region.place);
    }
}

/// The assignments of the directive `sizes`; one without symbols when there is none.
pub fn all_sizes(case: &Case) -> Result<Vec<Sizes>, String> {
    let Some(text) = case.directive("sizes") else {
        return Ok(vec![Sizes::new()]);
    };
    let one = |text: &str| -> Result<Sizes, String> {
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=')?;
            Some((Name::from(name), value.parse().ok()?))
        };
        text.split_whitespace()
            .map(|text| pair(text).ok_or_else(|| format!("`{text}` is not of the form n=1")))
            .collect()
    };
    text.split(';').map(one).collect()
}

/// A tensor in one comment line: dtype, extents, elements.
fn print_tensor(tensor: &Tensor) -> String {
    let elements: Vec<String> = match &tensor.strings {
        Some(strings) => strings.iter().map(|text| format!("{text:?}")).collect(),
        None if tensor.dtype.is_float() => {
            let values = tensor.to_f64s();
            values
                .iter()
                .map(|value| format!("{}", *value as f32))
                .collect()
        }
        None => tensor.to_i64s().iter().map(ToString::to_string).collect(),
    };
    format!(
        "# {}{:?} {}\n",
        tensor.dtype,
        tensor.shape,
        elements.join(" ")
    )
}
