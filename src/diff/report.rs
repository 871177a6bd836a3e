//! What is said of a pair of programs, as data: text, JSON and HTML are written from it.

/// What a change of a program asks of the version of its interface.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Verdict {
    /// Equal, but for names of internal values, the order of statements, comments and formatting.
    #[default]
    None,
    /// The interface is the same; what is computed, or how, differs.
    Patch,
    /// Every call that was valid still is, and means the same; more calls are valid.
    Minor,
    /// A call that was valid may fail or mean something else.
    Major,
}

impl Verdict {
    /// `none`, `patch`, `minor`, `major`.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Patch => "patch",
            Self::Minor => "minor",
            Self::Major => "major",
        }
    }
}

/// How something differs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// In the second program only.
    Added,
    /// In the first program only.
    Removed,
    /// In both, with differences.
    Changed,
    /// In both, under two names.
    Renamed,
}

impl Kind {
    /// `added`, `removed`, `changed`, `renamed`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Changed => "changed",
            Self::Renamed => "renamed",
        }
    }

    /// The mark in front of a line.
    pub fn mark(self) -> char {
        match self {
            Self::Added => '+',
            Self::Removed => '-',
            Self::Changed | Self::Renamed => '~',
        }
    }
}

/// What differs about something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Detail {
    /// What a detail is of: an attribute, an operand, the operator, a fact.
    pub aspect: Aspect,
    /// Its name: `strides`, `x`, `dtype`.
    pub what: String,
    /// As it is in the first program.
    pub from: Option<String>,
    /// As it is in the second program.
    pub to: Option<String>,
}

/// What a detail is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Aspect {
    /// An attribute of an operator.
    Attribute,
    /// A value that an operator takes.
    Operand,
    /// The operator itself.
    Operator,
    /// Where two operands stand that may be swapped.
    Order,
    /// A fact: a dtype, a shape, a sum, a distance.
    Fact,
}

impl Aspect {
    /// `attribute`, `operand`, `operator`, `order`, `fact`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Attribute => "attribute",
            Self::Operand => "operand",
            Self::Operator => "operator",
            Self::Order => "order",
            Self::Fact => "fact",
        }
    }
}

impl Detail {
    /// What was `from` and is `to`.
    pub fn new(aspect: Aspect, what: &str, from: Option<String>, to: Option<String>) -> Self {
        Self {
            aspect,
            what: what.to_owned(),
            from,
            to,
        }
    }

    /// A fact that changed.
    pub fn fact(what: &str, from: impl Into<String>, to: impl Into<String>) -> Self {
        Self::new(Aspect::Fact, what, Some(from.into()), Some(to.into()))
    }
}

/// One line of a report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// How it differs.
    pub kind: Kind,
    /// What it is: `R.nn.conv2d`, `input`, `weight`, `constant`.
    pub what: String,
    /// Its name in the first program, or in the second where it is added.
    pub name: String,
    /// Its name in the second program, where that is another.
    pub renamed: Option<String>,
    /// What differs, in order.
    pub details: Vec<Detail>,
    /// More about it: a call as written, who reads it.
    pub note: String,
    /// What the change means for callers.
    pub verdict: Verdict,
}

impl Change {
    /// A change without details.
    pub fn new(kind: Kind, what: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            kind,
            what: what.into(),
            name: name.into(),
            renamed: None,
            details: Vec::new(),
            note: String::new(),
            verdict: Verdict::Patch,
        }
    }

    /// The same with what it means for callers.
    pub fn weighs(mut self, verdict: Verdict) -> Self {
        self.verdict = verdict;
        self
    }
}

/// What differs inside one function.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FuncReport {
    /// Its name in the first program.
    pub name: String,
    /// In the order of the program.
    pub changes: Vec<Change>,
    /// What follows from the changes, in sentences.
    pub follows: Vec<String>,
}

impl FuncReport {
    /// Whether it is of a function of loops, compared as text.
    pub fn is_loops(&self) -> bool {
        matches!(self.changes.as_slice(), [only] if only.what == "loops")
    }
}

/// What differs between two programs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// The most that a change asks for.
    pub verdict: Verdict,
    /// Why, for `major` and `minor`.
    pub reason: String,
    /// What callers see.
    pub interface: Vec<Change>,
    /// Functions with changes.
    pub functions: Vec<FuncReport>,
    /// Weights: those added, removed or renamed, and those that differ, the most different first.
    pub weights: Vec<Change>,
    /// What is no difference: names of internal values.
    pub notes: Vec<String>,
}

impl Report {
    /// Whether nothing differs that counts.
    pub fn is_empty(&self) -> bool {
        self.interface.is_empty() && self.functions.is_empty() && self.weights.is_empty()
    }

    /// Every change.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        let inside = self.functions.iter().flat_map(|func| &func.changes);
        self.interface.iter().chain(inside).chain(&self.weights)
    }

    /// Says what the changes come to.
    pub(super) fn judge(&mut self) {
        let most = self.changes().map(|change| change.verdict).max();
        self.verdict = most.unwrap_or_default();
        if self.verdict < Verdict::Minor {
            return;
        }
        let because = self
            .interface
            .iter()
            .find(|change| change.verdict == self.verdict);
        if let Some(change) = because {
            let name = match change.name.as_str() {
                "" => String::new(),
                name => format!(" `{name}`"),
            };
            let details = change.details.iter().map(|detail| detail.what.as_str());
            let details: Vec<&str> = details.collect();
            let details = match details.as_slice() {
                [] => String::new(),
                _ => format!(" ({})", details.join(", ")),
            };
            self.reason = format!("{}{name} {}{details}", change.what, change.kind.name());
        }
    }
}
