//! What passes did, rewrite by rewrite, and what they did not do and why.
//!
//! A pass asks [`Log::allows`] before each rewrite and leaves the place alone where the answer is no: so a run can stop
//! before its N-th rewrite, and a wrong one is found by bisection. Places are those of the text that was read, whatever
//! has been rewritten since.

use std::cell::{Cell, RefCell};

use irc_syntax::Span;

/// One rewrite, or one that was not to be.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Remark {
    /// The pass that speaks.
    pub pass: &'static str,
    /// The binding concerned; empty where it is the whole module.
    pub name: String,
    /// Where that was written, if it was.
    pub span: Option<Span>,
    /// What was done, or why it was not.
    pub message: String,
}

/// The account that passes keep.
#[derive(Debug)]
pub struct Log {
    pass: Cell<&'static str>,
    /// How many rewrites are left.
    fuel: Cell<u64>,
    done: RefCell<Vec<Remark>>,
    missed: RefCell<Vec<Remark>>,
}

impl Default for Log {
    fn default() -> Self {
        Self::with_fuel(u64::MAX)
    }
}

impl Log {
    /// An account that ends after `fuel` rewrites.
    pub fn with_fuel(fuel: u64) -> Self {
        Self {
            pass: Cell::new(""),
            fuel: Cell::new(fuel),
            done: RefCell::default(),
            missed: RefCell::default(),
        }
    }

    /// Names the pass that speaks from here on.
    pub fn enter(&self, pass: &'static str) {
        self.pass.set(pass);
    }

    /// Whether no rewrite may follow.
    pub fn is_spent(&self) -> bool {
        self.fuel.get() == 0
    }

    /// Whether a rewrite of the binding `name` may happen; it has happened from then on.
    #[must_use]
    pub fn allows(&self, name: &str, span: Option<Span>, what: impl FnOnce() -> String) -> bool {
        let Some(left) = self.fuel.get().checked_sub(1) else {
            return false;
        };
        self.fuel.set(left);
        self.done.borrow_mut().push(self.remark(name, span, what()));
        true
    }

    /// Says why a rewrite of the binding `name`, which looks as if it could be one, is none.
    pub fn miss(&self, name: &str, span: Option<Span>, why: impl Into<String>) {
        let remark = self.remark(name, span, why.into());
        let mut missed = self.missed.borrow_mut();
        if !missed.contains(&remark) {
            missed.push(remark);
        }
    }

    fn remark(&self, name: &str, span: Option<Span>, message: String) -> Remark {
        Remark {
            pass: self.pass.get(),
            name: name.to_owned(),
            span,
            message,
        }
    }

    /// How many rewrites there have been.
    pub fn n_done(&self) -> usize {
        self.done.borrow().len()
    }

    /// The rewrites from the `first` on, in order.
    pub fn done_since(&self, first: usize) -> Vec<Remark> {
        self.done.borrow().get(first..).unwrap_or_default().to_vec()
    }

    /// What was not done, each once, in the order of its first mention.
    pub fn missed(&self) -> Vec<Remark> {
        self.missed.borrow().clone()
    }
}
