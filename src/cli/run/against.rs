//! `irc run A --against B`: the first value of A that is not B's.
//!
//! Values are compared in A's order. Compiled code beside the interpreter is asked for its results first, as it is built
//! otherwise; where they differ, for all its values at once; and where those agree, as they may where the fault is in
//! computing several together, for one at a time, halving.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::record::{How, Recording, Seen, open};
use super::{Args, Engine, Interp, compare_data};
use crate::cli::Exit;
use crate::cli::compare::{Tolerance, gap};
use crate::cli::data::{Data, parse_tensor};
use crate::cli::native::Slot;
use crate::cli::output::write_stdout;
use crate::cli::report::{Failure, Session, read_bytes};
use crate::codegen::Target;
use crate::diff::pair_values;
use crate::edit::expose::Inner;
use crate::onnx::names::legalize;
use crate::syntax::{Diagnostic, Name, Span, StmtKind};
use crate::tensor::{MappedFile, Weights, parse_npy, parse_npz};

/// What values are compared with.
#[derive(Default)]
struct Reference {
    /// By key, or by the name that a file has.
    values: BTreeMap<String, Data>,
    /// By place.
    results: BTreeMap<usize, Data>,
    /// The names of A's values in it, where they are another program's.
    names: Option<BTreeMap<Name, Name>>,
    /// Which weights hold something else, and how far that is.
    weights: BTreeMap<Name, String>,
}

/// Compares; 1 where a value differs.
pub(super) fn run(
    args: &Args,
    other: &str,
    engine: &Engine,
    how: &How<'_>,
    inputs: &[Data],
    session: &mut Session,
) -> Result<Exit, Failure> {
    let func = args.function.as_str();
    let tolerance = args.tol.unwrap_or_default();
    let program = match engine {
        Engine::Interp(program) => Some(program),
        Engine::Native(_) => None,
    };
    let is_interp = other == "interp";
    let reference = if is_interp {
        let Some(program) = program else {
            let message = format!(
                "{} has no text to interpret: give the program that it was made of",
                args.file
            );
            return Err(Failure::new(Exit::Unsupported, message));
        };
        match program.record(&How::Interp, func, inputs, session)? {
            Ok(recording) => Reference::of_recording(recording),
            Err(exit) => return Ok(exit),
        }
    } else {
        match read_reference(other, func, engine, how, inputs, session)? {
            Ok(reference) => reference,
            Err(exit) => return Ok(exit),
        }
    };
    let compare = Compare {
        reference: &reference,
        tolerance,
        program,
        func,
        results: engine.slots(func)?.1,
    };
    let outcome = match (how, program) {
        (How::Native(cpu), Some(program)) if is_interp => {
            match compiled(&compare, program, cpu, inputs, session)? {
                Ok(outcome) => outcome,
                Err(exit) => return Ok(exit),
            }
        }
        _ => match engine.record(how, func, inputs, session)? {
            Ok(recording) => compare.all(&recording),
            Err(exit) => return Ok(exit),
        },
    };
    tell(&outcome, other, session)
}

fn tell(outcome: &Outcome, other: &str, session: &Session) -> Result<Exit, Failure> {
    let n_missing = outcome.missing.len();
    if n_missing > 0 {
        const SHOWN: usize = 8;
        let shown: Vec<&str> = outcome
            .missing
            .iter()
            .take(SHOWN)
            .map(String::as_str)
            .collect();
        let more = if n_missing > SHOWN { ", …" } else { "" };
        let values = if n_missing == 1 { "value" } else { "values" };
        session.say(&format!(
            "note: {n_missing} {values} without a counterpart: {}{more}\n",
            shown.join(", ")
        ));
    }
    if let Some(diag) = &outcome.first {
        session.show(std::slice::from_ref(diag));
        return Ok(Exit::No);
    }
    if outcome.n_agreed == 0 {
        let message = format!("nothing in {other} is of the name of a value");
        return Err(Failure::new(Exit::Usage, message));
    }
    let agree = if outcome.n_agreed == 1 {
        "value agrees"
    } else {
        "values agree"
    };
    write_stdout(format!("{} {agree}\n", outcome.n_agreed).as_bytes())?;
    Ok(Exit::Good)
}

impl Reference {
    fn of_recording(mut recording: Recording) -> Self {
        let results = std::mem::take(&mut recording.results);
        Self {
            values: recording.by_key(),
            results: results.into_iter().enumerate().collect(),
            ..Self::default()
        }
    }

    /// Tensors by the names that a file gives them. `output_0` and `out0` are results.
    fn of_tensors(tensors: Vec<(String, Data)>, names: &[String]) -> Self {
        let mut res = Self::default();
        let mut n_legal: BTreeMap<String, usize> = BTreeMap::new();
        for (name, _) in &tensors {
            *n_legal.entry(legalize(name)).or_default() += 1;
        }
        for (name, data) in tensors {
            let place = name.strip_prefix("output_").and_then(|at| at.parse().ok());
            let place = place.or_else(|| names.iter().position(|result| *result == name));
            if let Some(place) = place {
                res.results.insert(place, data.clone());
            }
            // As the import calls it, where no other name is called so.
            let legal = legalize(&name);
            if n_legal.get(&legal) == Some(&1) && legal != name {
                res.values.insert(legal, data.clone());
            }
            res.values.insert(name, data);
        }
        res
    }

    fn find(&self, inner: &Inner) -> Option<&Data> {
        match &self.names {
            None => self.values.get(&inner.key()),
            Some(names) => {
                let name = names.get(&inner.name)?.clone();
                let member = inner.member;
                let partner = Inner {
                    name,
                    member,
                    span: None,
                    reads: Vec::new(),
                };
                self.values.get(&partner.key())
            }
        }
    }
}

fn read_reference(
    other: &str,
    func: &str,
    engine: &Engine,
    how: &How<'_>,
    inputs: &[Data],
    session: &mut Session,
) -> Result<Result<Reference, Exit>, Failure> {
    let (_, results) = engine.slots(func)?;
    let names: Vec<String> = results.into_iter().map(|slot| slot.name).collect();
    if let Some(tensors) = read_tensors(other)? {
        return Ok(Ok(Reference::of_tensors(tensors, &names)));
    }
    let b = match open(other, session)? {
        Ok(b) => b,
        Err(exit) => return Ok(Err(exit)),
    };
    let given = same_inputs(func, engine, &b, inputs)?;
    let recording = match b.record(how, func, &given, session)? {
        Ok(recording) => recording,
        Err(exit) => return Ok(Err(exit)),
    };
    let mut res = Reference::of_recording(recording);
    if let (Engine::Interp(a), Engine::Interp(b), Some(lib)) = (engine, &b, engine.library()) {
        let names = pair_values((&a.program, func), (&b.program, func), lib);
        res.weights = weights_apart(a, b, func, &names);
        res.names = Some(names);
    }
    Ok(Ok(res))
}

/// The tensors of a folder, an `.npz` or a `.safetensors` file; `None` for anything else.
fn read_tensors(path: &str) -> Result<Option<Vec<(String, Data)>>, Failure> {
    let unsound = |path: &Path, why: &dyn std::fmt::Display| {
        Failure::new(
            Exit::Io,
            format!("{} cannot be read: {why}", path.display()),
        )
    };
    let place = Path::new(path);
    if place.is_dir() {
        let entries = std::fs::read_dir(place).map_err(|error| unsound(place, &error))?;
        let mut files: Vec<_> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect();
        files.sort();
        let mut res = Vec::new();
        for file in files {
            let suffix = file.extension().and_then(|suffix| suffix.to_str());
            let stem = file.file_stem().map(|stem| stem.to_string_lossy());
            let (Some(stem), Some(suffix @ ("npy" | "pb"))) = (stem, suffix) else {
                continue;
            };
            let bytes = std::fs::read(&file).map_err(|error| unsound(&file, &error))?;
            let tensor = match suffix {
                "npy" => parse_npy(&bytes).map_err(|error| error.to_string()),
                _ => parse_tensor(&bytes),
            };
            let tensor = tensor.map_err(|why| unsound(&file, &why))?;
            res.push((stem.into_owned(), Data::Tensor(tensor)));
        }
        return Ok(Some(res));
    }
    let bytes = read_bytes(path)?;
    if bytes.starts_with(b"PK") {
        let tensors = parse_npz(&bytes).map_err(|error| unsound(place, &error))?;
        let tensors = tensors.into_iter();
        let tensors = tensors.map(|(name, tensor)| (name, Data::Tensor(tensor)));
        return Ok(Some(tensors.collect()));
    }
    if place
        .extension()
        .is_some_and(|suffix| suffix == "safetensors")
    {
        let file = MappedFile::open(place).map_err(|error| unsound(place, &error))?;
        let weights = Weights::parse(file).map_err(|error| unsound(place, &error))?;
        let tensors = weights.iter();
        let tensors =
            tensors.map(|(name, weight)| (name.to_owned(), Data::Tensor(weight.tensor())));
        return Ok(Some(tensors.collect()));
    }
    Ok(None)
}

/// The inputs in the order of B: by name where B has all names, by place otherwise.
fn same_inputs(func: &str, a: &Engine, b: &Engine, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
    let (params, wanted) = (a.inputs(func)?, b.inputs(func)?);
    let find = |name: &str| {
        let at = params.iter().position(|param| param.name == name)?;
        inputs.get(at).cloned()
    };
    let by_name = wanted.iter().map(|param| find(&param.name));
    if let Some(found) = by_name.collect::<Option<Vec<_>>>() {
        return Ok(found);
    }
    if wanted.len() != params.len() {
        let message = format!(
            "the other program takes {} inputs, not {}",
            wanted.len(),
            params.len()
        );
        return Err(Failure::new(Exit::Usage, message));
    }
    Ok(inputs.to_vec())
}

/// The weights of A that are others in B.
fn weights_apart(
    a: &Interp,
    b: &Interp,
    func: &str,
    names: &BTreeMap<Name, Name>,
) -> BTreeMap<Name, String> {
    let mut res = BTreeMap::new();
    let params = a.info.funcs.get(func).map(|info| info.params.as_slice());
    for (name, _) in params.unwrap_or_default() {
        let Some(x) = a.program.weights.get(name.as_str()) else {
            continue;
        };
        let other = names.get(name);
        let y = other.and_then(|other| b.program.weights.get(other.as_str()));
        let Some(y) = y else {
            res.insert(name.clone(), "has no counterpart".to_owned());
            continue;
        };
        if (x.dtype, &x.shape) == (y.dtype, &y.shape) && x.bytes() == y.bytes() {
            continue;
        }
        let far = match gap(&x.tensor(), &y.tensor()) {
            Some(gap) => format!("is another weight, {} apart at most", short(gap.max_abs)),
            None => "is a weight of another type".to_owned(),
        };
        res.insert(name.clone(), far);
    }
    res
}

/// What came out of a comparison.
#[derive(Default)]
struct Outcome {
    n_agreed: usize,
    /// Keys that nothing is compared with.
    missing: Vec<String>,
    first: Option<Diagnostic>,
}

struct Compare<'a> {
    reference: &'a Reference,
    tolerance: Tolerance,
    program: Option<&'a Interp>,
    func: &'a str,
    results: Vec<Slot>,
}

impl Compare<'_> {
    /// Values in order, then results.
    fn all(&self, recording: &Recording) -> Outcome {
        let mut res = self.values(&recording.values);
        if res.first.is_none() {
            let results = self.results(&recording.results);
            res.n_agreed += results.n_agreed;
            res.missing.extend(results.missing);
            res.first = results.first;
        }
        res
    }

    fn values(&self, values: &[Seen]) -> Outcome {
        let mut res = Outcome::default();
        let mut agreed = BTreeSet::new();
        for seen in values {
            let key = seen.inner.key();
            let Some(wanted) = self.reference.find(&seen.inner) else {
                res.missing.push(key);
                continue;
            };
            let Err(why) = compare_data(&seen.data, wanted, self.tolerance) else {
                res.n_agreed += 1;
                agreed.insert(seen.inner.name.clone());
                continue;
            };
            let place = (seen.inner.span, seen.inner.reads.as_slice());
            let what = format!("`{key}`");
            res.first = Some(self.diverges(&what, place, &agreed, &seen.data, wanted, &why));
            return res;
        }
        res
    }

    fn results(&self, results: &[Data]) -> Outcome {
        let mut res = Outcome::default();
        let func = self.program.and_then(|program| program.func(self.func));
        for (at, got) in results.iter().enumerate() {
            let name = self.results.get(at).map_or("", |slot| slot.name.as_str());
            let Some(wanted) = self.reference.results.get(&at) else {
                // Results of a file that names values are compared as those.
                if self.reference.results.is_empty() {
                    continue;
                }
                res.missing.push(name.to_owned());
                continue;
            };
            let Err(why) = compare_data(got, wanted, self.tolerance) else {
                res.n_agreed += 1;
                continue;
            };
            let is_return = |stmt: &&crate::syntax::Stmt| matches!(stmt.kind, StmtKind::Return(_));
            let stmt = func.and_then(|func| func.body.iter().rev().find(is_return));
            let place = (stmt.and_then(|stmt| stmt.span), &[][..]);
            let what = format!("the result `{name}`");
            res.first = Some(self.diverges(&what, place, &BTreeSet::new(), got, wanted, &why));
            return res;
        }
        res
    }

    fn diverges(
        &self,
        what: &str,
        (span, reads): (Option<Span>, &[Name]),
        agreed: &BTreeSet<Name>,
        got: &Data,
        wanted: &Data,
        why: &str,
    ) -> Diagnostic {
        let mut diag = Diagnostic::error("value-diverges", format!("{what} differs: {why}"))
            .at(span, "first value that differs");
        if let (Data::Tensor(got), Data::Tensor(wanted)) = (got, wanted)
            && let Some(gap) = gap(got, wanted)
        {
            diag = diag.note(format!(
                "{}{:?}, most at {:?}: {} not {}",
                got.dtype, got.shape, gap.place, gap.got, gap.wanted
            ));
            diag = diag.note(format!(
                "largest difference {}, relative {}",
                short(gap.max_abs),
                short(gap.max_rel)
            ));
        }
        let mut same = Vec::new();
        let params = self.params();
        for name in reads {
            if let Some(far) = self.reference.weights.get(name) {
                diag = diag.note(format!("`{name}` {far}"));
            } else if agreed.contains(name) || params.contains(name) {
                same.push(format!("`{name}`"));
            }
        }
        if !same.is_empty() {
            let verb = if same.len() == 1 { "agrees" } else { "agree" };
            diag = diag.note(format!("{} {verb}", same.join(", ")));
        }
        diag
    }

    /// The parameters of the function.
    fn params(&self) -> BTreeSet<&Name> {
        let info = self
            .program
            .and_then(|program| program.info.funcs.get(self.func));
        let params = info.map(|info| info.params.as_slice()).unwrap_or_default();
        params.iter().map(|(name, _)| name).collect()
    }
}

/// A number with four digits.
fn short(value: f64) -> String {
    if value == 0.0 || (1e-3..1e6).contains(&value) || !value.is_finite() {
        let text = format!("{value:.4}");
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    format!("{value:.3e}")
}

/// Compiled code beside the interpreter.
fn compiled(
    compare: &Compare<'_>,
    program: &Interp,
    cpu: &Target,
    inputs: &[Data],
    session: &mut Session,
) -> Result<Result<Outcome, Exit>, Failure> {
    let mut ask =
        |wanted: &[&Inner]| program.record_native(cpu, compare.func, inputs, wanted, session);
    let plain = match ask(&[])? {
        Ok(plain) => compare.results(&plain.results),
        Err(exit) => return Ok(Err(exit)),
    };
    if plain.first.is_none() {
        return Ok(Ok(plain));
    }
    let inner = program.inner_values(compare.func);
    let all: Vec<&Inner> = inner.iter().collect();
    if all.is_empty() {
        return Ok(Ok(plain));
    }
    let together = match ask(&all)? {
        Ok(recording) => compare.values(&recording.values),
        Err(exit) => return Ok(Err(exit)),
    };
    if together.first.is_some() {
        return Ok(Ok(together));
    }
    let mut found: BTreeMap<usize, Diagnostic> = BTreeMap::new();
    let mut stopped = None;
    let first = first_bad(all.len(), &mut |at| {
        let recording = match (stopped.is_none(), all.get(at)) {
            (true, Some(inner)) => ask(&[inner])?,
            _ => return Ok(false),
        };
        let recording = match recording {
            Ok(recording) => recording,
            Err(exit) => {
                stopped = Some(exit);
                return Ok(false);
            }
        };
        let first = compare.values(&recording.values).first;
        let is_bad = first.is_some();
        found.extend(first.map(|diag| (at, diag)));
        Ok::<_, Failure>(is_bad)
    })?;
    if let Some(exit) = stopped {
        return Ok(Err(exit));
    }
    let why = "it agrees where every value is returned: what differs is how several are computed together";
    let diag = first.and_then(|at| found.remove(&at)).or(plain.first);
    Ok(Ok(Outcome {
        first: diag.map(|diag| diag.note(why)),
        ..Outcome::default()
    }))
}

/// The first of `n` places from which on all are bad, by halving; `None` where the last is good.
fn first_bad<E>(
    n: usize,
    is_bad: &mut dyn FnMut(usize) -> Result<bool, E>,
) -> Result<Option<usize>, E> {
    let (mut lo, mut hi) = (0, n);
    while lo < hi {
        let middle = lo + (hi - lo) / 2;
        if is_bad(middle)? {
            hi = middle;
        } else {
            lo = middle + 1;
        }
    }
    Ok((lo < n).then_some(lo))
}

#[cfg(test)]
mod tests {
    use super::first_bad;

    #[test]
    fn halving_finds_the_first() {
        for n in 0..9usize {
            for first in 0..=n {
                let found = first_bad::<()>(n, &mut |at| Ok(at >= first));
                assert_eq!(found, Ok((first < n).then_some(first)));
            }
        }
    }
}
