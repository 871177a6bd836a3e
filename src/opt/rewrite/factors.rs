//! Products of several factors, however they are nested: what patterns of activations are read from.

use irc_syntax::Expr;

use super::Site;
use crate::check::prim::{Binary, Prim, Unary};

/// How far a number may be from the one that a formula has, by its size: models write 1.41421 for the root of 2.
const TOLERANCE: f64 = 1e-5;

/// A number, and what is multiplied by it.
#[derive(Clone, Debug)]
pub struct Factors {
    /// All constant factors in one.
    pub number: f64,
    /// The others: names, each as often as it is a factor.
    pub others: Vec<Expr>,
}

impl Factors {
    /// Reads the factors of a value that is computed as said; those of operands that nothing else reads are its own.
    pub fn of(site: &Site, value: &Expr) -> Self {
        let mut factors = Self {
            number: 1.0,
            others: Vec::new(),
        };
        factors.multiply(site, value, false);
        factors
    }

    /// The factors of a name.
    pub fn of_name(site: &Site, name: &Expr) -> Self {
        match site.only_def(name) {
            Some(def) => Self::of(site, def),
            None => Self {
                number: 1.0,
                others: vec![name.clone()],
            },
        }
    }

    /// Whether the number is this one.
    pub fn is(&self, number: f64) -> bool {
        close(self.number, number)
    }

    fn multiply(&mut self, site: &Site, value: &Expr, is_name: bool) {
        if is_name && let Some(number) = site.number(value) {
            self.number *= number;
            return;
        }
        let def = if is_name {
            site.only_def(value)
        } else {
            Some(value)
        };
        if let Some(call) = def.and_then(|def| site.prim(def))
            && let (Some(a), Some(b)) = operands(&call)
        {
            match call.prim {
                Prim::Binary(Binary::Multiply) => {
                    self.multiply(site, a, true);
                    return self.multiply(site, b, true);
                }
                Prim::Binary(Binary::Divide) => {
                    if let Some(number) = site.number(b) {
                        self.number /= number;
                        return self.multiply(site, a, true);
                    }
                }
                Prim::Binary(Binary::Power) => {
                    let times = site.number(b).filter(|times| [2.0, 3.0].contains(times));
                    if let Some(times) = times {
                        return (0..times as usize).for_each(|_| self.others.push(a.clone()));
                    }
                }
                _ => {}
            }
        }
        self.others.push(value.clone());
    }
}

fn operands(call: &crate::check::prim::BoundCall) -> (Option<&Expr>, Option<&Expr>) {
    match call.prim {
        Prim::Binary(_) => (call.operand("a"), call.operand("b")),
        _ => (None, None),
    }
}

/// Whether two numbers are the same but for how they were written.
pub fn close(number: f64, wanted: f64) -> bool {
    (number - wanted).abs() <= TOLERANCE * wanted.abs()
}

/// The other operand of a sum of a value and a number.
pub fn plus(site: &Site, value: &Expr, number: f64) -> Option<Expr> {
    let (a, b) = sum(site, value)?;
    let is_it = |side: &Expr| site.number(side).is_some_and(|side| close(side, number));
    match (is_it(&a), is_it(&b)) {
        (_, true) => Some(a),
        (true, false) => Some(b),
        (false, false) => None,
    }
}

/// The operands of a sum that nothing else reads.
pub fn sum(site: &Site, value: &Expr) -> Option<(Expr, Expr)> {
    let call = site.prim(site.only_def(value)?)?;
    let is_sum = call.prim == Prim::Binary(Binary::Add);
    is_sum.then(|| Some((call.operand("a")?.clone(), call.operand("b")?.clone())))?
}

/// The operand of an element-wise operator that nothing else reads.
pub fn argument(site: &Site, value: &Expr, path: &str) -> Option<Expr> {
    let def = site.only_def(value).filter(|def| def.is_call_of(path))?;
    def.positional().next().cloned()
}

/// The operand of a primitive of one operand.
pub fn unary(site: &Site, value: &Expr, op: Unary) -> Option<Expr> {
    let call = site.prim(site.only_def(value)?)?;
    (call.prim == Prim::Unary(op)).then(|| call.operand("x").cloned())?
}

/// Whether two operands are one name.
pub fn same(a: &Expr, b: &Expr) -> bool {
    a.as_name().is_some() && a.as_name() == b.as_name()
}
