//! Finds the test files, and runs each section with the runner of its folder.

mod carets;
mod check;
mod cli;
mod debug;
mod diff;
mod editors;
mod examples;
mod export;
mod hostile;
mod image;
mod kernel;
mod laws;
mod native;
mod onnx;
mod opt;
mod programs;
mod reference;
mod sections;
mod syntax;
mod tools;

use libtest_mimic::{Failed, Trial};
use sections::{Case, Part, TestFile};
use similar::TextDiff;
use std::path::{Path, PathBuf};

/// What came out of a section: the parts as they should be stored.
type Outcome = Result<Vec<Part>, String>;

/// Runs one section. The path is the file's, under `tests/`.
type Runner = fn(&Case, &Path) -> Outcome;

/// Folder or file under `tests/`, the extension of its files, their runner. The first that fits counts.
const KINDS: [(&str, &str, Runner); 14] = [
    ("readme.ir", "ir", syntax::run_ok),
    ("syntax/ok", "ir", syntax::run_ok),
    ("syntax/err", "ir", syntax::run_err),
    ("check", "ir", check::run),
    ("onnx", "ir", onnx::run),
    ("export", "ir", export::run),
    ("opt", "ir", opt::run),
    ("sched", "ir", opt::run_sched),
    ("interp", "ir", programs::run_interp),
    ("codegen", "ir", programs::run_codegen),
    ("kernel", "vir", kernel::run),
    ("std", "ir", examples::run),
    ("cli", "cmd", cli::run),
    ("diff", "diff", diff::run),
];

/// The folder of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file below a folder of the repository, in order.
pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    if folder.is_file() {
        return vec![folder.to_path_buf()];
    }
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// A path as tests are named: from the repository's folder, with `/`.
pub fn shown(path: &Path) -> String {
    let path = path.strip_prefix(root()).unwrap_or(path);
    path.components()
        .map(|part| part.as_os_str().to_string_lossy())
        .collect::<Vec<_>>()
        .join("/")
}

/// Whether files are written instead of compared.
pub fn is_blessing() -> bool {
    std::env::var_os("BLESS").is_some_and(|value| value == "1")
}

/// The tests of all files.
pub fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for (folder, extension, runner) in KINDS {
        for path in files_below(&root().join("tests").join(folder)) {
            if path.extension().is_some_and(|found| found == extension) {
                add_file(&path, runner, &mut trials);
            }
        }
    }
    trials.extend(debug::trials());
    trials.extend(diff::trials());
    trials.extend(editors::trials());
    trials.extend(hostile::trials());
    trials.extend(image::trials());
    trials.extend(laws::trials());
    trials.extend(reference::trials());
    trials.extend(examples::trials());
    trials.extend(tools::trials());
    trials
}

/// One test a section, or one for the whole file when it is to be written.
fn add_file(path: &Path, runner: Runner, trials: &mut Vec<Trial>) {
    let name = shown(path);
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let file = TestFile::parse(&text, &name);
    if is_blessing() {
        let path = path.to_path_buf();
        trials.push(Trial::test(name, move || bless(&path, file, runner)));
        return;
    }
    for case in file.cases {
        let path = path.to_path_buf();
        trials.push(Trial::test(format!("{name}:{}", case.name), move || {
            let outcome = runner(&case, &path).map_err(Failed::from)?;
            compare(&case, &outcome, &shown(&path))
        }));
    }
}

fn bless(path: &Path, mut file: TestFile, runner: Runner) -> Result<(), Failed> {
    let mut faults = String::new();
    for case in &mut file.cases {
        match runner(case, path) {
            Ok(parts) => case.parts = parts,
            Err(fault) => faults.push_str(&format!("{}: {fault}\n", case.name)),
        }
    }
    std::fs::write(path, file.print()).map_err(|error| Failed::from(error.to_string()))?;
    if faults.is_empty() {
        Ok(())
    } else {
        Err(Failed::from(faults))
    }
}

fn compare(case: &Case, outcome: &[Part], file: &str) -> Result<(), Failed> {
    let (stored, found) = (Part::print_all(&case.parts), Part::print_all(outcome));
    compare_text(&stored, &found, &format!("{file}:{}", case.line), file)
}

/// Nothing, or the difference of two texts with the command that accepts it.
pub fn compare_text(stored: &str, found: &str, place: &str, filter: &str) -> Result<(), Failed> {
    if stored == found {
        return Ok(());
    }
    let diff = TextDiff::from_lines(stored, found)
        .unified_diff()
        .header("stored", "found")
        .to_string();
    Err(Failed::from(format!(
        "{place}\n{diff}\nto accept: BLESS=1 cargo test -- {filter}"
    )))
}
