//! The format of test files: sections, directives and parts.
//!
//! `# --- name` starts a section, `# key: value` lines right below it are its directives, `# => label` starts another
//! part of it. What stands before the first section introduces the file. A file without sections is one section.

/// A test file.
pub struct TestFile {
    /// The lines before the first section.
    intro: String,
    /// The sections in order.
    pub cases: Vec<Case>,
    /// Whether the file has no section line.
    is_bare: bool,
}

/// One section.
pub struct Case {
    /// What is behind `# ---`; the file's name without sections.
    pub name: String,
    /// The line of the section, from 1.
    pub line: usize,
    /// `# key: value` lines.
    pub directives: Vec<(String, String)>,
    /// The texts; the first has no label.
    pub parts: Vec<Part>,
}

/// One text of a section.
#[derive(Clone)]
pub struct Part {
    /// What is behind `# =>`.
    pub label: String,
    /// The lines, without blank ones at the end.
    pub text: String,
}

impl Part {
    /// A part; blank lines at the end are dropped.
    pub fn new(label: &str, text: &str) -> Self {
        let text = text.trim_end();
        let end = if text.is_empty() { "" } else { "\n" };
        let (label, text) = (label.to_string(), format!("{text}{end}"));
        Self { label, text }
    }

    /// The parts as they stand in a file.
    pub fn print_all(parts: &[Part]) -> String {
        let mut out = String::new();
        for part in parts {
            if !part.label.is_empty() {
                out.push_str(&format!("# => {}\n", part.label));
            }
            out.push_str(&part.text);
        }
        out
    }
}

impl Case {
    /// The value of a directive.
    pub fn directive(&self, key: &str) -> Option<&str> {
        self.directives
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    }
}

/// The keys of directives; other comments at the head of a section are its text.
const KEYS: [&str; 6] = ["passes", "model", "sizes", "cpu", "exact", "ignore"];

fn directive(line: &str) -> Option<(String, String)> {
    let (key, value) = line.strip_prefix("# ")?.split_once(": ")?;
    KEYS.contains(&key)
        .then(|| (key.to_string(), value.to_string()))
}

impl TestFile {
    /// Reads a file; `name` is for a file without sections.
    pub fn parse(text: &str, name: &str) -> Self {
        let mut file = TestFile {
            intro: String::new(),
            cases: Vec::new(),
            is_bare: false,
        };
        let mut at_head = false;
        for (at, line) in text.lines().enumerate() {
            if let Some(name) = line.strip_prefix("# --- ") {
                file.cases.push(Case {
                    name: name.trim().to_string(),
                    line: at + 1,
                    directives: Vec::new(),
                    parts: vec![Part::new("", "")],
                });
                at_head = true;
                continue;
            }
            let Some(case) = file.cases.last_mut() else {
                file.intro.push_str(line);
                file.intro.push('\n');
                continue;
            };
            if at_head && let Some(found) = directive(line) {
                case.directives.push(found);
                continue;
            }
            at_head = false;
            if let Some(label) = line.strip_prefix("# => ") {
                case.parts.push(Part::new(label.trim(), ""));
            } else if let Some(part) = case.parts.last_mut() {
                part.text.push_str(line);
                part.text.push('\n');
            }
        }
        if file.cases.is_empty() {
            file.is_bare = true;
            file.cases.push(Case {
                name: name.to_string(),
                line: 1,
                directives: Vec::new(),
                parts: vec![Part::new("", &std::mem::take(&mut file.intro))],
            });
        }
        for part in file.cases.iter_mut().flat_map(|case| &mut case.parts) {
            *part = Part::new(&part.label, &part.text);
        }
        file
    }

    /// The file's text.
    pub fn print(&self) -> String {
        if self.is_bare {
            return Part::print_all(&self.cases[0].parts);
        }
        let mut out = self.intro.clone();
        for (at, case) in self.cases.iter().enumerate() {
            if at > 0 {
                out.push('\n');
            }
            out.push_str(&format!("# --- {}\n", case.name));
            for (key, value) in &case.directives {
                out.push_str(&format!("# {key}: {value}\n"));
            }
            out.push_str(&Part::print_all(&case.parts));
        }
        out
    }
}
