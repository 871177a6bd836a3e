//! The standard library: `std/**/*.ir`, embedded, and operators that a user adds.
//!
//! A file is parsed when one of its operators is first asked for; which file has which operator is seen from its
//! decorator lines.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use irc_syntax::{Diagnostic, Func, FuncKind, Module, SourceMap, Span, parse};

mod files {
    include!(concat!(env!("OUT_DIR"), "/std_files.rs"));
}

/// Where the loops of image decoders are, which hold no operators.
const IMAGE_LOOPS: &str = "image/";

/// The loops of image decoders: the prim_funcs of `std/image/*.ir`, which call one another by name. Parsed when first asked for.
///
/// # Errors
/// A fault in one of the texts; none in a good build.
pub fn image_loops() -> Result<&'static [Func], Diagnostic> {
    static LOOPS: OnceLock<Result<Vec<Func>, Diagnostic>> = OnceLock::new();
    let parsed = LOOPS.get_or_init(|| {
        let mut funcs = Vec::new();
        for (path, text) in files::FILES {
            if !path.starts_with(IMAGE_LOOPS) {
                continue;
            }
            let (module, faults) = parse(&mut SourceMap::new(), &format!("std/{path}"), text);
            if let Some(fault) = faults.into_iter().next() {
                return Err(fault);
            }
            funcs.extend(module.funcs().cloned());
        }
        Ok(funcs)
    });
    parsed.as_deref().map_err(Clone::clone)
}

/// Operators by name and version.
#[derive(Debug)]
pub struct Library {
    files: Vec<File>,
    /// Operator → its versions, descending.
    ops: BTreeMap<String, Vec<Entry>>,
}

/// Where one version of an operator is defined.
#[derive(Clone, Copy, Debug)]
struct Entry {
    since: u32,
    file: usize,
}

/// One text of operators.
#[derive(Debug)]
struct File {
    path: String,
    text: &'static str,
    parsed: OnceLock<Parsed>,
}

#[derive(Debug)]
struct Parsed {
    /// `None` when the places in the tree belong to the sources of the program itself.
    sources: Option<SourceMap>,
    module: Module,
    faults: Vec<Diagnostic>,
}

/// An operator of the library.
#[derive(Clone, Copy, Debug)]
pub struct Template<'a> {
    /// Its definition.
    pub func: &'a Func,
    /// The functions of the same file, which it may call by their plain names.
    pub module: &'a Module,
    sources: Option<&'a SourceMap>,
}

impl<'a> Template<'a> {
    /// `std/norm.ir:12` for a place in its text; `None` where that text is among the program's own sources.
    pub fn place(&self, span: Span) -> Option<String> {
        self.sources.map(|sources| sources.place(span))
    }

    /// The name in text: `R.nn.softmax`.
    pub fn op(&self) -> &'a str {
        op_of(self.func).unwrap_or(self.func.name.as_str())
    }

    /// Another function of the same file, by its plain name.
    pub fn sibling(&self, name: &str) -> Option<Template<'a>> {
        self.module
            .find_func(name)
            .map(|func| Template { func, ..*self })
    }
}

impl Default for Library {
    fn default() -> Self {
        Self::load()
    }
}

impl Library {
    /// The standard library.
    pub fn load() -> Self {
        let mut library = Self {
            files: Vec::new(),
            ops: BTreeMap::new(),
        };
        for (path, text) in files::FILES {
            if path.starts_with(IMAGE_LOOPS) {
                continue;
            }
            let file = library.files.len();
            for (op, since) in declared(text) {
                library.insert(op, since, file);
            }
            let path = format!("std/{path}");
            library.files.push(File {
                path,
                text,
                parsed: OnceLock::new(),
            });
        }
        library
    }

    /// The same with the operators of a user's file; they go before those of the standard library. The places in
    /// `module` belong to the sources of the program.
    pub fn with_user_file(mut self, module: Module) -> Self {
        let file = self.files.len();
        let graph_level = |func: &&Func| func.kind == FuncKind::Graph;
        let ops: Vec<(String, u32)> = module
            .funcs()
            .filter(graph_level)
            .filter_map(|func| Some((op_of(func)?.to_string(), since_of(func))))
            .collect();
        for (op, since) in ops {
            self.insert(&op, since, file);
        }
        let parsed = OnceLock::new();
        let _ = parsed.set(Parsed {
            sources: None,
            module,
            faults: Vec::new(),
        });
        self.files.push(File {
            path: String::new(),
            text: "",
            parsed,
        });
        self
    }

    fn insert(&mut self, op: &str, since: u32, file: usize) {
        let versions = self.ops.entry(op.to_string()).or_default();
        versions.push(Entry { since, file });
        versions.sort_by_key(|entry| {
            (
                std::cmp::Reverse(entry.since),
                std::cmp::Reverse(entry.file),
            )
        });
    }

    /// The newest version of an operator that is not newer than `since`, or the newest of all.
    pub fn find(&self, op: &str, since: Option<u32>) -> Option<Template<'_>> {
        let versions = self.ops.get(op)?;
        let entry = versions
            .iter()
            .find(|entry| since.is_none_or(|since| entry.since <= since))?;
        let parsed = self.parsed(entry.file)?;
        let is_it = |func: &&Func| {
            func.kind == FuncKind::Graph && op_of(func) == Some(op) && since_of(func) == entry.since
        };
        let func = parsed.module.funcs().find(is_it)?;
        Some(Template {
            func,
            module: &parsed.module,
            sources: parsed.sources.as_ref(),
        })
    }

    /// Whether there is an operator of this name in any version.
    pub fn has(&self, op: &str) -> bool {
        self.ops.contains_key(op)
    }

    /// Every operator with its versions, in order of names; versions descend.
    pub fn ops(&self) -> impl Iterator<Item = (&str, impl Iterator<Item = u32>)> {
        self.ops
            .iter()
            .map(|(op, versions)| (op.as_str(), versions.iter().map(|entry| entry.since)))
    }

    /// Every operator's definition, by file and in written order.
    pub fn templates(&self) -> impl Iterator<Item = Template<'_>> {
        (0..self.files.len())
            .filter_map(|file| self.parsed(file))
            .flat_map(|parsed| {
                parsed
                    .module
                    .funcs()
                    .filter(|func| op_of(func).is_some())
                    .map(|func| Template {
                        func,
                        module: &parsed.module,
                        sources: parsed.sources.as_ref(),
                    })
            })
    }

    /// What is wrong with the texts, each with its path; nothing in a good build.
    pub fn faults(&self) -> Vec<(String, Diagnostic)> {
        let mut faults = Vec::new();
        for (at, file) in self.files.iter().enumerate() {
            let found = self
                .parsed(at)
                .map(|parsed| parsed.faults.clone())
                .unwrap_or_default();
            faults.extend(found.into_iter().map(|fault| (file.path.clone(), fault)));
        }
        faults
    }

    fn parsed(&self, file: usize) -> Option<&Parsed> {
        let file = self.files.get(file)?;
        Some(file.parsed.get_or_init(|| {
            let mut sources = SourceMap::new();
            let (module, faults) = parse(&mut sources, &file.path, file.text);
            Parsed {
                sources: Some(sources),
                module,
                faults,
            }
        }))
    }
}

/// The `op` of a decorator.
pub fn op_of(func: &Func) -> Option<&str> {
    func.decorator_arg("op")?.as_str()
}

/// The `since` of a decorator; 1 when it has none.
pub fn since_of(func: &Func) -> u32 {
    let since = func.decorator_arg("since").and_then(|since| since.as_int());
    since
        .and_then(|since| u32::try_from(since).ok())
        .unwrap_or(1)
}

/// The operators that the decorators of a text declare.
fn declared(text: &'static str) -> impl Iterator<Item = (&'static str, u32)> {
    // A decorator may be wrapped over lines; it ends where the function begins.
    text.split("@R.function(").skip(1).filter_map(|rest| {
        let decorator = rest.split("\ndef ").next()?;
        let op = decorator.split_once("op=\"")?.1.split_once('"')?.0;
        let since = decorator.split_once("since=").map(|(_, rest)| {
            let digits = rest
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(rest.len());
            rest[..digits].parse().unwrap_or(1)
        });
        Some((op, since.unwrap_or(1)))
    })
}
