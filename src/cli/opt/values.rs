//! Whether passes leave what a program computes: the interpreter's answers before and after each.
//!
//! Inputs are made from a seed, for sizes that the program takes. A pass that only removes what computes nothing has to
//! leave every bit; others may round differently. Where answers differ, the pass is run again with less and less fuel,
//! until the one rewrite is found that makes the difference.

use std::collections::{BTreeMap, BTreeSet};

use super::Exit;
use crate::check::{Info, Type, check};
use crate::cli::compare::{Tolerance, compare};
use crate::cli::report::{Failure, Session};
use crate::driver::{OptLevel, Program, REWRITES};
use crate::interp::{Value, run_func};
use crate::library::Library;
use crate::opt::log::Log;
use crate::opt::specialize::symbols_of;
use crate::opt::{Outcome, PassCx, Step, run_steps};
use crate::shape::Dim;
use crate::syntax::{DType, Diagnostic, Module, Name};
use crate::target::Target;
use crate::tensor::{Tensor, Weights, count};

/// Sizes that are tried for all symbols, until the program takes one.
const SIZES: [i64; 10] = [2, 3, 1, 8, 16, 32, 64, 128, 224, 320];

/// Inputs by function and name.
type Inputs = BTreeMap<Name, BTreeMap<Name, Value>>;
/// Results by function.
type Answers = BTreeMap<Name, Vec<Tensor>>;

/// The program as it was before the next pass, and what it computes.
pub struct Values<'a> {
    lib: &'a Library,
    inputs: Inputs,
    module: Module,
    weights: Weights,
    answers: Answers,
    faults: Vec<Diagnostic>,
    n_checked: usize,
}

impl<'a> Values<'a> {
    /// Makes inputs, and interprets the program.
    ///
    /// # Errors
    /// The program takes no inputs that are made here.
    pub fn new(program: &Program, lib: &'a Library, seed: u64) -> Result<Self, Failure> {
        let (info, _) = check(&program.module, lib);
        let mut last = String::new();
        let symbols: BTreeSet<Name> = program.module.funcs().flat_map(symbols_of).collect();
        // All alike, and then each in turn twice as large, as a total is that others are parts of.
        let tries = SIZES.iter().flat_map(|size| {
            let double = symbols.iter().map(move |symbol| (*size, Some(symbol)));
            std::iter::once((*size, None)).chain(double)
        });
        for sizes in tries {
            let tried = make_inputs(&program.module, &info, sizes, seed).and_then(|inputs| {
                let answers = interpret(&program.module, &program.weights, lib, &inputs)?;
                Ok((inputs, answers))
            });
            match tried {
                Ok((inputs, answers)) => {
                    return Ok(Self {
                        lib,
                        inputs,
                        module: program.module.clone(),
                        weights: program.weights.clone(),
                        answers,
                        faults: Vec::new(),
                        n_checked: 0,
                    });
                }
                Err(why) => last = why,
            }
        }
        let message = format!(
            "values cannot be checked with inputs made here: {last}; give sizes: --dim n=4"
        );
        Err(Failure::new(Exit::Unsupported, message))
    }

    /// Compares the answers after a pass with those before it.
    pub fn check(&mut self, outcome: &Outcome) {
        let tolerance = tolerance_of(outcome.step.pass.name);
        let found = self.differs(outcome.module, outcome.weights, tolerance);
        self.n_checked += 1;
        match found {
            Ok(answers) => self.answers = answers,
            Err(why) => self.blame(outcome, tolerance, why),
        }
        self.module = outcome.module.clone();
        self.weights = outcome.weights.clone();
    }

    /// The answers of a module; or how they differ from those before.
    fn differs(
        &self,
        module: &Module,
        weights: &Weights,
        tolerance: Option<Tolerance>,
    ) -> Result<Answers, String> {
        let answers = interpret(module, weights, self.lib, &self.inputs)?;
        for (func, wanted) in &self.answers {
            let got = answers.get(func).map(Vec::as_slice).unwrap_or_default();
            for (at, (got, wanted)) in got.iter().zip(wanted).enumerate() {
                let outcome = match tolerance {
                    Some(tolerance) => compare(got, wanted, tolerance),
                    None if is_same(got, wanted) => Ok(()),
                    None => Err("not every bit is the same".to_owned()),
                };
                outcome.map_err(|why| format!("result {at} of `{func}`: {why}"))?;
            }
            if got.len() < wanted.len() {
                return Err(format!(
                    "`{func}` has {} results, and had {}",
                    got.len(),
                    wanted.len()
                ));
            }
        }
        Ok(answers)
    }

    /// Finds the first rewrite of a pass after which answers differ.
    fn blame(&mut self, outcome: &Outcome, tolerance: Option<Tolerance>, why: String) {
        let pass = outcome.step.pass.name;
        let (mut good, mut bad) = (0, outcome.rewrites.len());
        while bad - good > 1 {
            let middle = good + (bad - good) / 2;
            let (module, weights) = self.run_again(outcome.step, middle);
            if self.differs(&module, &weights, tolerance).is_ok() {
                good = middle;
            } else {
                bad = middle;
            }
        }
        let remark = outcome.rewrites.get(bad.saturating_sub(1));
        let name = remark.map_or("", |remark| remark.name.as_str());
        let message = format!("the pass `{pass}` changes what the program computes, at `{name}`");
        let diag = Diagnostic::error("pass-values", message)
            .note(why)
            .note(format!(
                "it is the rewrite {bad} of {} of the pass",
                outcome.rewrites.len()
            ));
        let span = remark.and_then(|remark| remark.span);
        self.faults.push(match span {
            Some(span) => diag.at(Some(span), "rewritten here"),
            None => diag,
        });
    }

    /// The module before the pass, after some of its rewrites.
    fn run_again(&self, step: &Step, fuel: usize) -> (Module, Weights) {
        let (mut module, mut weights) = (self.module.clone(), self.weights.clone());
        let target = Target::native();
        let mut cx = PassCx::new(self.lib, &mut weights, &target);
        cx.log = Log::with_fuel(fuel as u64);
        // The pass ran on the whole module before; a fault now shows as a difference.
        let _ = run_steps(
            &mut module,
            std::slice::from_ref(step),
            &mut cx,
            &mut |_| {},
        );
        (module, weights)
    }

    /// Tells what was found; 1 where answers differ.
    ///
    /// # Errors
    /// None.
    pub fn close(self, session: &Session) -> Result<Exit, Failure> {
        session.show(&self.faults);
        if !self.faults.is_empty() {
            return Ok(Exit::No);
        }
        session.say(&format!(
            "note: {} passes changed the program, and no answer\n",
            self.n_checked
        ));
        Ok(Exit::Good)
    }
}

/// What a pass may change: nothing where it only removes what computes nothing.
fn tolerance_of(pass: &str) -> Option<Tolerance> {
    let level = REWRITES.iter().find(|(other, _)| other.name == pass);
    match level {
        Some((_, OptLevel::O0 | OptLevel::O1)) => None,
        Some((_, OptLevel::O2 | OptLevel::O3)) | None => Some(Tolerance::default()),
    }
}

fn is_same(a: &Tensor, b: &Tensor) -> bool {
    a.dtype == b.dtype && a.shape == b.shape && a.data == b.data && a.strings == b.strings
}

/// The results of every function that inputs were made for.
fn interpret(
    module: &Module,
    weights: &Weights,
    lib: &Library,
    inputs: &Inputs,
) -> Result<Answers, String> {
    let mut answers = Answers::new();
    for (name, given) in inputs {
        let func = module
            .find_func(name)
            .ok_or_else(|| format!("`{name}` is gone"))?;
        let mut args = Vec::new();
        for param in &func.params {
            let weight = || Some(Value::Tensor(weights.get(&param.name)?.tensor()));
            let value = given.get(&param.name).cloned().or_else(weight);
            args.push(value.ok_or_else(|| format!("the weight `{}` is missing", param.name))?);
        }
        let result = run_func(module, lib, name, args).map_err(|error| error.to_string())?;
        let mut tensors = Vec::new();
        flatten(&result, &mut tensors)?;
        answers.insert(name.clone(), tensors);
    }
    Ok(answers)
}

fn flatten(value: &Value, out: &mut Vec<Tensor>) -> Result<(), String> {
    match value {
        Value::None => {}
        Value::Tuple(items) | Value::Seq(items) => {
            for item in items.iter() {
                flatten(item, out)?;
            }
        }
        value => out.push(value.to_tensor(None).map_err(|error| error.to_string())?),
    }
    Ok(())
}

/// Inputs of all public functions, every symbol being of one size, one perhaps of twice that, or what is nearest
/// to it among what it may be.
fn make_inputs(
    module: &Module,
    info: &Info,
    (size, double): (i64, Option<&Name>),
    seed: u64,
) -> Result<Inputs, String> {
    let mut inputs = Inputs::new();
    for func in module.funcs().filter(|func| !func.is_private()) {
        let Some(info) = info.funcs.get(&func.name) else {
            continue;
        };
        let sizes = |name: &Name| {
            let facts = info.facts.get(name);
            let size = if double == Some(name) { 2 * size } else { size };
            let multiple = facts.multiple_of.max(1);
            let size = (size + multiple - 1) / multiple * multiple;
            Some(
                size.max(facts.min.unwrap_or(0))
                    .min(facts.max.unwrap_or(i64::MAX)),
            )
        };
        let mut numbers = Numbers(seed.wrapping_mul(2).wrapping_add(1));
        let mut given = BTreeMap::new();
        for (name, ty) in info.params.iter().take(info.num_input) {
            let value = make_value(ty, &sizes, &mut numbers);
            let value = value.ok_or_else(|| format!("there is no value for the input `{name}`"))?;
            given.insert(name.clone(), value);
        }
        inputs.insert(func.name.clone(), given);
    }
    Ok(inputs)
}

fn make_value(
    ty: &Type,
    sizes: &dyn Fn(&Name) -> Option<i64>,
    numbers: &mut Numbers,
) -> Option<Value> {
    let extent = |dim: &Dim| {
        dim.eval(sizes)
            .and_then(|extent| usize::try_from(extent).ok())
    };
    match ty {
        Type::Tensor(tensor) => {
            let shape: Vec<usize> = tensor
                .shape
                .as_ref()?
                .iter()
                .map(extent)
                .collect::<Option<_>>()?;
            let (dtype, n) = (tensor.dtype?, count(&shape)?);
            let tensor = if dtype == DType::Str {
                Tensor::from_strings(shape, vec!["a".to_owned(); n])
            } else if dtype.is_float() {
                Tensor::from_f32s(dtype, shape, &numbers.take(n))
            } else {
                // Indices and masks alike are often these.
                let bits: Vec<i64> = numbers
                    .take(n)
                    .iter()
                    .map(|number| i64::from(*number > 0.0))
                    .collect();
                Tensor::from_i64s(dtype, shape, &bits)
            };
            tensor.map(Value::Tensor)
        }
        Type::Scalar(_) => Some(Value::Int(1)),
        Type::Opt(_) => Some(Value::None),
        Type::Shape(dims) => {
            let dims: Option<Vec<i64>> = dims.as_ref()?.iter().map(|dim| dim.eval(sizes)).collect();
            Some(Value::Shape(dims?))
        }
        _ => None,
    }
}

/// Numbers in -1..1 from a seed (a linear congruential generator).
struct Numbers(u64);

impl Numbers {
    fn take(&mut self, n: usize) -> Vec<f32> {
        let next = |_| {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        };
        (0..n).map(next).collect()
    }
}
