//! House rules that a machine can check: the order of modules, sizes, words that must not stand in sources, and that
//! every diagnostic code is explained.

use crate::harness::{files_below, root, shown};
use irc::syntax::explain::EXPLANATIONS;
use libtest_mimic::{Failed, Trial};
use std::collections::BTreeSet;

/// Each module uses only those before it; `onnx` uses `syntax` and `tensor`.
const ORDER: [&str; 14] = [
    "syntax", "shape", "tensor", "library", "check", "interp", "opt", "sched", "codegen", "link",
    "driver", "edit", "diff", "cli",
];

/// The most lines of a file, and of a function without a `// tidy: table` line.
const FILE_LINES: usize = 800;
const FUNCTION_LINES: usize = 100;

/// Text that must not stand in sources, and why.
const BANNED: [(&str, &str); 6] = [
    ("todo!(", "what is missing is a refusal with a diagnostic"),
    ("dbg!(", "a trace for one day"),
    (
        "unimplemented!(",
        "what is missing is a refusal with a diagnostic",
    ),
    ("TODO", "open work is an issue, not a comment"),
    ("FIXME", "open work is an issue, not a comment"),
    ("To be written", "a module holds something or is not there"),
];

/// One Rust source: its name and text.
struct Source {
    name: String,
    text: String,
}

impl Source {
    /// The top module that the file belongs to: `check` for `src/check/dims.rs`.
    fn module(&self) -> &str {
        let path = self.name.strip_prefix("src/").unwrap_or(&self.name);
        let first = path.split('/').next().unwrap_or(path);
        first.strip_suffix(".rs").unwrap_or(first)
    }
}

fn sources() -> Vec<Source> {
    let rust = |path: &std::path::PathBuf| path.extension().is_some_and(|found| found == "rs");
    let files = files_below(&root().join("src")).into_iter().filter(rust);
    let source = |path: std::path::PathBuf| Source {
        name: shown(&path),
        text: std::fs::read_to_string(&path).unwrap_or_default(),
    };
    files
        .map(source)
        .filter(|source| !source.name.starts_with("src/syntax/examples"))
        .collect()
}

/// The tests of the house rules.
pub fn trials() -> Vec<Trial> {
    let rule = |name: &str, check: fn(&Source) -> Vec<String>| {
        Trial::test(format!("tidy:{name}"), move || {
            report(sources().iter().flat_map(check).collect())
        })
    };
    vec![
        rule("modules_use_only_those_before_them", check_order),
        rule("files_and_functions_are_short", check_sizes),
        rule("banned_words", check_banned),
        rule("files_say_what_they_are", check_heads),
        rule("foreign_types_stay_where_they_belong", check_borders),
        Trial::test("tidy:every_code_is_explained", || report(check_codes())),
    ]
}

fn report(faults: Vec<String>) -> Result<(), Failed> {
    if faults.is_empty() {
        Ok(())
    } else {
        Err(Failed::from(faults.join("\n")))
    }
}

fn rank(module: &str) -> Option<usize> {
    ORDER.iter().position(|name| *name == module)
}

fn check_order(source: &Source) -> Vec<String> {
    let module = source.module();
    let mut faults = Vec::new();
    if source.name.ends_with("tests.rs") {
        return faults;
    }
    for (at, line) in source.text.lines().enumerate() {
        let Some(rest) = line
            .trim_start()
            .trim_start_matches("pub ")
            .strip_prefix("use crate::")
        else {
            continue;
        };
        let used: String = rest
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
            .collect();
        let is_allowed = match module {
            "syntax" | "main" | "lib" => true,
            "onnx" => ["syntax", "tensor", "onnx"].contains(&used.as_str()),
            _ => match (rank(module), rank(&used)) {
                (Some(own), Some(used)) => used <= own,
                (Some(own), None) if used == "onnx" => own >= rank("driver").unwrap_or(0),
                _ => true,
            },
        };
        if !is_allowed {
            faults.push(format!(
                "{}:{}: `{module}` comes before `{used}`",
                source.name,
                at + 1
            ));
        }
    }
    faults
}

fn check_sizes(source: &Source) -> Vec<String> {
    let mut faults = Vec::new();
    let n_lines = source.text.lines().count();
    if n_lines > FILE_LINES {
        faults.push(format!(
            "{}: {n_lines} lines; at most {FILE_LINES}",
            source.name
        ));
    }
    let mut open: Option<(usize, usize, String)> = None;
    let mut is_table = false;
    for (at, line) in source.text.lines().enumerate() {
        let code = line.trim_start();
        let indent = line.len() - code.len();
        is_table |= code.contains("// tidy: table");
        if let Some((start, column, name)) = &open {
            if code.starts_with('}') && indent == *column {
                let length = at - start + 1;
                if length > FUNCTION_LINES && !is_table {
                    faults.push(format!(
                        "{}:{}: `{name}` has {length} lines; at most {FUNCTION_LINES}",
                        source.name,
                        start + 1
                    ));
                }
                open = None;
            }
            continue;
        }
        let words = code
            .trim_start_matches("pub(crate) ")
            .trim_start_matches("pub(super) ")
            .trim_start_matches("pub ");
        let words = words
            .trim_start_matches("const ")
            .trim_start_matches("unsafe ")
            .trim_start_matches("extern \"C\" ");
        if let Some(rest) = words.strip_prefix("fn ")
            && !code.ends_with('}')
            && !code.ends_with(';')
        {
            let name = rest
                .chars()
                .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
                .collect();
            open = Some((at, indent, name));
            is_table = code.contains("// tidy: table");
        }
    }
    faults
}

fn check_banned(source: &Source) -> Vec<String> {
    let mut faults = Vec::new();
    for (at, line) in source.text.lines().enumerate() {
        for (word, reason) in BANNED {
            if line.contains(word) {
                faults.push(format!("{}:{}: `{word}`: {reason}", source.name, at + 1));
            }
        }
    }
    faults
}

fn check_heads(source: &Source) -> Vec<String> {
    let is_told = source.text.starts_with("//! ") || source.text.starts_with("#![");
    if is_told {
        Vec::new()
    } else {
        vec![format!("{}: no `//!` head", source.name)]
    }
}

fn check_borders(source: &Source) -> Vec<String> {
    let may_use = |folders: &[&str]| folders.iter().any(|folder| source.name.starts_with(folder));
    let rules: [(&str, &[&str]); 4] = [
        ("cranelift_", &["src/codegen"]),
        ("iced_x86", &["src/codegen/x64"]),
        ("ariadne", &["src/syntax/render.rs", "src/syntax/diag.rs"]),
        (
            "std::fs",
            &[
                "src/driver",
                "src/tensor",
                "src/link",
                "src/cli",
                "src/main.rs",
                "src/onnx/file.rs",
            ],
        ),
    ];
    let mut faults = Vec::new();
    let body = source.text.split("#[cfg(test)]").next().unwrap_or_default();
    for (at, line) in body.lines().enumerate() {
        let is_comment = line.trim_start().starts_with("//");
        for (word, folders) in rules {
            if !is_comment
                && line.contains(word)
                && !may_use(folders)
                && !source.name.ends_with("tests.rs")
            {
                faults.push(format!(
                    "{}:{}: `{word}` belongs under {folders:?}",
                    source.name,
                    at + 1
                ));
            }
        }
    }
    faults
}

/// Every code that sources hand to a function with a parameter `code` is explained, and every explanation is of one.
fn check_codes() -> Vec<String> {
    let sources: Vec<Source> = sources()
        .into_iter()
        .filter(|source| !source.name.ends_with("tests.rs"))
        .collect();
    let takers: BTreeSet<(String, usize)> = sources
        .iter()
        .flat_map(|source| code_takers(&source.text))
        .collect();
    let mut faults = Vec::new();
    let mut used = BTreeSet::new();
    for source in &sources {
        for (name, at) in &takers {
            for code in codes_given(&source.text, name, *at) {
                let is_explained = EXPLANATIONS.iter().any(|(name, _)| *name == code);
                if used.insert(code.clone()) && !is_explained {
                    faults.push(format!(
                        "{}: the code `{code}` is not in explain.rs",
                        source.name
                    ));
                }
            }
        }
    }
    for (code, _) in EXPLANATIONS {
        let quoted = format!("\"{code}\"");
        let is_said = |source: &Source| {
            source.name != "src/syntax/explain.rs" && source.text.contains(&quoted)
        };
        if !sources.iter().any(is_said) {
            faults.push(format!("src/syntax/explain.rs: nothing says `{code}`"));
        }
    }
    let is_sorted = EXPLANATIONS.windows(2).all(|pair| pair[0].0 < pair[1].0);
    if !is_sorted {
        faults.push("src/syntax/explain.rs: the codes are not in order".into());
    }
    faults
}

/// The functions with a parameter `code: &'static str`, and how many arguments stand before it.
fn code_takers(text: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for piece in text.split("fn ").skip(1) {
        let Some((name, rest)) = piece.split_once('(') else {
            continue;
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let name = name.split('<').next().unwrap_or_default();
        if !name.chars().all(is_name) {
            continue;
        }
        let params = arguments(rest);
        let others = params.iter().filter(|param| !param.ends_with("self"));
        if let Some(at) = others
            .clone()
            .position(|param| *param == "code: &'static str")
        {
            found.push((name.to_string(), at));
        }
    }
    found
}

/// The literals that calls of a function have at a position.
fn codes_given(text: &str, name: &str, at: usize) -> Vec<String> {
    let mut codes = Vec::new();
    let start = format!("{name}(");
    for (place, _) in text.match_indices(&start) {
        let before = text[..place].chars().next_back();
        if before.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
            continue;
        }
        let args = arguments(&text[place + start.len()..]);
        let literal = args
            .get(at)
            .and_then(|arg| arg.strip_prefix('"')?.strip_suffix('"'));
        if let Some(code) = literal
            && code.chars().all(|c| c.is_ascii_lowercase() || c == '-')
        {
            codes.push(code.to_string());
        }
    }
    codes
}

/// The parts between commas up to the parenthesis that closes them.
fn arguments(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut from, mut in_text) = (0, 0, false);
    let mut was_escape = false;
    for (at, c) in text.char_indices() {
        match c {
            '"' if !was_escape => in_text = !in_text,
            _ if in_text => {}
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => {
                parts.push(text[from..at].trim());
                break;
            }
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
        was_escape = c == '\\' && !was_escape;
    }
    parts
}
