//! Names of an ONNX file as names of the language.
//!
//! ONNX names are any text; names here are identifiers. What is one already stays as it is; other characters
//! become `_`, in runs of one and none at the ends: `/layer1/Conv_output_0` is `layer1_Conv_output_0`. A name
//! that is taken gets the first free `_1`, `_2`. The result depends on the file alone.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::ast::Name;

/// Words that the language or Python keeps for itself.
const RESERVED: [&str; 46] = [
    "False", "I", "Module", "None", "R", "T", "True", "TypeVar", "and", "as", "assert", "async",
    "await", "break", "class", "cls", "continue", "def", "del", "elif", "else", "except",
    "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "main", "metadata",
    "nonlocal", "not", "onnx", "or", "pass", "raise", "return", "std", "try", "tvm", "while",
    "with", "yield",
];

/// The names of a function that are taken.
#[derive(Clone, Default, Debug)]
pub struct Names {
    taken: BTreeSet<Name>,
    next: BTreeMap<Name, usize>,
}

impl Names {
    /// A free name made of any text; taken from now on.
    pub fn fresh(&mut self, text: &str) -> Name {
        let base = Name::from(legalize(text));
        let mut name = base.clone();
        let next = self.next.entry(base.clone()).or_insert(1);
        while self.taken.contains(&name) || RESERVED.contains(&name.as_str()) {
            name = Name::from(format!("{base}_{next}"));
            *next += 1;
        }
        self.taken.insert(name.clone());
        name
    }
}

/// Text as an identifier.
pub fn legalize(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if starts_well && text.chars().all(is_plain) {
        return text.to_owned();
    }
    let parts = text
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|part| !part.is_empty());
    let name = parts.collect::<Vec<_>>().join("_");
    if name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        name
    } else {
        format!("v{name}")
    }
}

/// The names of a list that are close to a given one, closest first, at most two.
pub fn find_close<'n>(name: &str, all: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let limit = (name.chars().count() / 3).max(2);
    let mut close: Vec<(usize, &str)> = all
        .filter(|other| other.len().abs_diff(name.len()) <= limit)
        .map(|other| (distance(name, other), other))
        .filter(|(distance, other)| *distance <= limit && !other.is_empty())
        .collect();
    close.sort_unstable();
    close.into_iter().map(|(_, other)| other).take(2).collect()
}

/// Levenshtein's distance, a row at a time; names beyond 64 characters are not compared.
fn distance(a: &str, b: &str) -> usize {
    if a.len() > 64 || b.len() > 64 {
        return usize::MAX;
    }
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, cb) in row.iter_mut().skip(1).zip(&b) {
            let best = (diagonal + usize::from(ca != *cb))
                .min(left + 1)
                .min(*cell + 1);
            diagonal = *cell;
            *cell = best;
            left = best;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_identifiers() {
        let cases = [
            ("x", "x"),
            ("_x", "_x"),
            ("/layer1/Conv_output_0", "layer1_Conv_output_0"),
            ("onnx::MatMul_12", "onnx_MatMul_12"),
            ("12", "v12"),
            ("", "v"),
            ("größe", "gr_e"),
        ];
        for (text, want) in cases {
            assert_eq!(legalize(text), want);
        }
    }

    #[test]
    fn taken_names_are_numbered() {
        let mut names = Names::default();
        let got: Vec<String> = ["x", "x", "x_1", "x", "for", "for"]
            .iter()
            .map(|text| names.fresh(text).to_string())
            .collect();
        assert_eq!(got, ["x", "x_1", "x_1_1", "x_2", "for_1", "for_2"]);
    }

    #[test]
    fn close_names_are_found() {
        let all = ["y", "ghosts", "hidden"];
        assert_eq!(find_close("ghost", all.into_iter()), ["ghosts"]);
    }
}
