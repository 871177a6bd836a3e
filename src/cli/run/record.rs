//! The values inside a function while it runs: told by the interpreter, or returned by compiled code.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Engine, Interp};
use crate::check::check;
use crate::cli::Exit;
use crate::cli::data::Data;
use crate::cli::native::{Native, Slot};
use crate::cli::report::{Failure, Session, has_error, read_bytes};
use crate::cli::temporary::Temporary;
use crate::codegen::Target;
use crate::driver::{self, FileKind, Program};
use crate::edit::expose::{Inner, expose, inner_values, reads_of};
use crate::interp::Value;
use crate::library::Library;
use crate::syntax::{Func, parse, print};

/// A value that a run computed.
pub(super) struct Seen {
    pub(super) inner: Inner,
    pub(super) data: Data,
}

/// What a run computed: values in order, each of a name of its own, and results.
#[derive(Default)]
pub(super) struct Recording {
    pub(super) values: Vec<Seen>,
    pub(super) results: Vec<Data>,
}

impl Recording {
    /// The values by their keys.
    pub(super) fn by_key(self) -> BTreeMap<String, Data> {
        let values = self.values.into_iter();
        values.map(|seen| (seen.inner.key(), seen.data)).collect()
    }
}

/// How functions are run.
pub(super) enum How<'a> {
    /// By the interpreter.
    Interp,
    /// As code for a machine.
    Native(&'a Target),
}

/// Opens a program to be looked into; of a shared object only results are seen.
///
/// # Errors
/// The file cannot be read; the inner exit is of what has been shown.
pub(super) fn open(file: &str, session: &mut Session) -> Result<Result<Engine, Exit>, Failure> {
    let is_library = file != "-" && {
        let bytes = read_bytes(file)?;
        driver::recognize(Path::new(file), &bytes) == FileKind::Library
    };
    if is_library {
        let native = Native::open(Path::new(file)).map_err(|why| Failure::new(Exit::Io, why))?;
        return Ok(Ok(Engine::Native(native)));
    }
    let lib = session.library()?;
    let program = match session.load(file, &lib) {
        Ok(program) => with_places(program, file, session),
        Err(fault) => return Ok(Err(session.show_fault(&fault))),
    };
    let (info, faults) = check(&program.module, &lib);
    if has_error(&faults) {
        return Ok(Err(session.show_fault(&faults.into())));
    }
    Ok(Ok(Engine::Interp(Interp { program, lib, info })))
}

/// The same program with places in a text: that of an import has none, and gets those of the text it prints as.
fn with_places(program: Program, file: &str, session: &mut Session) -> Program {
    if program.module.funcs().any(|func| func.span.is_some()) {
        return program;
    }
    let text = print(&program.module);
    let (module, faults) = parse(&mut session.sources, &format!("{file} as text"), &text);
    if has_error(&faults) {
        return program;
    }
    Program { module, ..program }
}

impl Interp {
    /// The function of a name.
    pub(super) fn func(&self, name: &str) -> Option<&Func> {
        self.program.module.find_func(name)
    }

    /// The values of a function that compiled code can return.
    pub(super) fn inner_values(&self, func: &str) -> Vec<Inner> {
        let info = self.info.funcs.get(func);
        let found = self.func(func).zip(info);
        found.map_or_else(Vec::new, |(func, info)| inner_values(func, info))
    }

    /// Runs a function and records what it computes.
    ///
    /// # Errors
    /// The run fails; the inner exit is of what has been shown.
    pub(super) fn record(
        &self,
        how: &How<'_>,
        func: &str,
        inputs: &[Data],
        session: &mut Session,
    ) -> Result<Result<Recording, Exit>, Failure> {
        match how {
            How::Interp => self.record_interpreted(func, inputs).map(Ok),
            How::Native(cpu) => {
                let inner = self.inner_values(func);
                let wanted: Vec<&Inner> = inner.iter().collect();
                self.record_native(cpu, func, inputs, &wanted, session)
            }
        }
    }

    fn record_interpreted(&self, func: &str, inputs: &[Data]) -> Result<Recording, Failure> {
        let mut values: Vec<Seen> = Vec::new();
        let results = self.call_watched(
            func,
            inputs,
            Some(&mut |stmt, name, value| {
                // A name that is bound again is its last value.
                values.retain(|seen| seen.inner.name != *name);
                for (member, data) in members(value) {
                    let inner = Inner {
                        name: name.clone(),
                        member,
                        span: stmt.span,
                        reads: reads_of(stmt),
                    };
                    values.push(Seen { inner, data });
                }
            }),
        );
        let results = results.map_err(|why| Failure::new(Exit::RunFailed, why))?;
        Ok(Recording { values, results })
    }

    /// Builds the function so that it returns some of its values, and calls it.
    ///
    /// # Errors
    /// As [`Interp::record`].
    pub(super) fn record_native(
        &self,
        cpu: &Target,
        func: &str,
        inputs: &[Data],
        wanted: &[&Inner],
        session: &mut Session,
    ) -> Result<Result<Recording, Exit>, Failure> {
        let exposed = match wanted {
            [] => Ok((self.program.clone(), usize::MAX)),
            wanted => expose(&self.program, &self.info, func, wanted),
        };
        let (program, n_results) = exposed.map_err(|why| Failure::new(Exit::Unsupported, why))?;
        let made = match Temporary::build(program, cpu, &self.lib)? {
            Ok(made) => made,
            Err(fault) => return Ok(Err(session.show_fault(&fault))),
        };
        let native = Native::open(made.path()).map_err(|why| Failure::new(Exit::Io, why))?;
        let results = native.call(func, inputs);
        let mut results = results.map_err(|why| Failure::new(Exit::RunFailed, why))?;
        let inner = results.split_off(n_results.min(results.len()));
        let seen = |(inner, data): (&&Inner, Data)| Seen {
            inner: (*inner).clone(),
            data,
        };
        let values = wanted.iter().zip(inner).map(seen).collect();
        Ok(Ok(Recording { values, results }))
    }
}

impl Engine {
    /// Runs a function and records what of it can be seen.
    ///
    /// # Errors
    /// As [`Interp::record`].
    pub(super) fn record(
        &self,
        how: &How<'_>,
        func: &str,
        inputs: &[Data],
        session: &mut Session,
    ) -> Result<Result<Recording, Exit>, Failure> {
        match self {
            Self::Interp(interp) => interp.record(how, func, inputs, session),
            Self::Native(_) => {
                let results = self.call(func, inputs)?;
                let values = Vec::new();
                Ok(Ok(Recording { values, results }))
            }
        }
    }

    /// The inputs of a function.
    pub(super) fn inputs(&self, func: &str) -> Result<Vec<Slot>, Failure> {
        Ok(self.slots(func)?.0)
    }

    /// The library of operators that a program was checked with.
    pub(super) fn library(&self) -> Option<&Library> {
        match self {
            Self::Interp(interp) => Some(&interp.lib),
            Self::Native(_) => None,
        }
    }
}

/// A value as data, or the members of a tuple that are; shapes and numbers are none.
fn members(value: &Value) -> Vec<(Option<usize>, Data)> {
    let one = |value: &Value| match value {
        Value::Tensor(tensor) => Some(Data::Tensor(tensor.clone())),
        Value::Seq(items) => {
            let items = items.iter().map(|item| item.as_tensor().cloned());
            items.collect::<Option<Vec<_>>>().map(Data::Seq)
        }
        Value::None => Some(Data::None),
        Value::Tuple(_)
        | Value::Shape(_)
        | Value::Int(_)
        | Value::Float(_)
        | Value::Bool(_)
        | Value::Str(_) => None,
    };
    match value {
        Value::Tuple(items) => {
            let items = items.iter().enumerate();
            items
                .filter_map(|(at, item)| Some((Some(at), one(item)?)))
                .collect()
        }
        value => one(value).into_iter().map(|data| (None, data)).collect(),
    }
}
