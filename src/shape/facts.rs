//! What is known about symbols, and proofs from it.
//!
//! Proofs are sound, not complete: a difference is brought to normal form, rewritten by the known equalities,
//! and then decided by its constant, its bounds, or its divisibility.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::Name;

use super::arith::gcd;
use super::dim::{Atom, Dim, Repr};

/// What is known about one symbol.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SymbolFacts {
    /// Smallest value; an extent is never negative, so 0 unless stated otherwise.
    pub min: Option<i64>,
    /// Largest value.
    pub max: Option<i64>,
    /// A number that divides it; at least 1.
    pub multiple_of: i64,
}

impl Default for SymbolFacts {
    fn default() -> Self {
        Self {
            min: Some(0),
            max: None,
            multiple_of: 1,
        }
    }
}

/// The values that an expression can take; an end that is not known is `None`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// Smallest value.
    pub lo: Option<i64>,
    /// Largest value.
    pub hi: Option<i64>,
}

/// Facts on symbols: ranges, divisibility, equalities.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    symbols: BTreeMap<Name, SymbolFacts>,
    /// Symbols that equal an expression; no key occurs in a value.
    equal: BTreeMap<Name, Dim>,
    /// Other expressions that are zero, after rewriting by `equal`.
    zero: Vec<Dim>,
    /// Symbols that no text declares (yet).
    hidden: BTreeSet<Name>,
    /// Equalities that were taken as given without a proof, since last asked for.
    undecided: Vec<(Dim, Dim)>,
}

impl Facts {
    /// What is known about a symbol; the default for one never spoken of.
    pub fn get(&self, name: &Name) -> SymbolFacts {
        self.symbols.get(name).cloned().unwrap_or_default()
    }

    /// Every symbol spoken of, in order.
    pub fn symbols(&self) -> impl Iterator<Item = (&Name, &SymbolFacts)> {
        self.symbols.iter()
    }

    /// Equalities of a symbol with an expression, in order.
    pub fn equalities(&self) -> impl Iterator<Item = (&Name, &Dim)> {
        self.equal.iter()
    }

    /// States all that is known about a symbol, in place of what was known.
    pub fn set(&mut self, name: impl Into<Name>, facts: SymbolFacts) {
        self.symbols.insert(name.into(), facts);
    }

    /// A symbol that may be negative: an integer argument rather than an extent.
    pub fn set_any_sign(&mut self, name: impl Into<Name>) {
        self.symbols.entry(name.into()).or_default().min = None;
    }

    /// Narrows the range of a symbol.
    pub fn narrow(&mut self, name: impl Into<Name>, min: Option<i64>, max: Option<i64>) {
        let facts = self.symbols.entry(name.into()).or_default();
        facts.min = match (facts.min, min) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (a, b) => a.or(b),
        };
        facts.max = match (facts.max, max) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }

    /// Says that no text declares a symbol: an equality replaces it by others where it can.
    pub fn hide(&mut self, name: impl Into<Name>) {
        self.hidden.insert(name.into());
    }

    /// Says that a text declares a symbol.
    pub fn show(&mut self, name: &Name) {
        self.hidden.remove(name);
    }

    /// States that two expressions are equal; says whether that is possible, as far as can be seen.
    pub fn assume_eq(&mut self, a: &Dim, b: &Dim) -> bool {
        let difference = self.rewrite(&(a - b));
        if let Some(value) = difference.as_int() {
            return value == 0;
        }
        match self.prove_eq(a, b) {
            Some(false) => return false,
            Some(true) => {}
            None => self.note_undecided(a, b),
        }
        let Some((name, value)) = solve(&difference, &self.hidden) else {
            self.zero.push(difference);
            return true;
        };
        self.inherit(&name, &value);
        let single = BTreeMap::from([(name.clone(), value.clone())]);
        for known in self.equal.values_mut() {
            *known = known.subst(&single);
        }
        for known in &mut self.zero {
            *known = known.subst(&single);
        }
        self.zero.retain(|known| known.as_int().is_none());
        self.equal.insert(name, value);
        true
    }

    /// Notes that two expressions have to be equal, which only run time can tell.
    pub fn note_undecided(&mut self, a: &Dim, b: &Dim) {
        self.undecided.push((a.clone(), b.clone()));
    }

    /// The equalities that were taken as given since this was last asked.
    pub fn take_undecided(&mut self) -> Vec<(Dim, Dim)> {
        std::mem::take(&mut self.undecided)
    }

    /// Takes back what was found inside a branch, but for symbols that are new there: `before` holds after it, and
    /// `is_old` for the symbols that there were.
    pub fn leave_branch(&mut self, before: &Facts, is_old: &dyn Fn(&Name) -> bool) {
        let is_new = |name: &Name| !before.symbols.contains_key(name) && !is_old(name);
        let mut left = before.clone();
        let symbols = std::mem::take(&mut self.symbols);
        left.symbols
            .extend(symbols.into_iter().filter(|(name, _)| is_new(name)));
        let equal = std::mem::take(&mut self.equal);
        left.equal
            .extend(equal.into_iter().filter(|(name, _)| is_new(name)));
        left.hidden = std::mem::take(&mut self.hidden);
        left.undecided = std::mem::take(&mut self.undecided);
        *self = left;
    }

    /// The expression with known equalities put in and what facts decide folded.
    pub fn simplify(&self, dim: &Dim) -> Dim {
        self.fold(&self.rewrite(dim))
    }

    /// Whether two expressions are equal, where that can be told.
    pub fn prove_eq(&self, a: &Dim, b: &Dim) -> Option<bool> {
        if a == b {
            return (!a.overflows()).then_some(true);
        }
        if let (Some(a), Some(b)) = (a.as_int(), b.as_int()) {
            return Some(a == b);
        }
        let difference = self.expand(&(a - b));
        if difference.overflows() {
            return None;
        }
        for form in [self.fold(&difference), without_mod(&difference)] {
            if let Some(value) = form.as_int() {
                return Some(value == 0);
            }
            let negated = -&form;
            if self
                .zero
                .iter()
                .any(|known| *known == form || *known == negated)
            {
                return Some(true);
            }
        }
        let range = self.ends(&difference);
        if range.0 > 0 || range.1 < 0 {
            return Some(false);
        }
        // An integer combination of multiples of g cannot make up for a constant that is none.
        let constant = difference.constant_term();
        let content = (&difference - constant).content();
        (content != 0 && constant % content != 0).then_some(false)
    }

    /// Whether `a <= b`, where that can be told.
    pub fn prove_le(&self, a: &Dim, b: &Dim) -> Option<bool> {
        if a == b {
            return (!a.overflows()).then_some(true);
        }
        let difference = self.expand(&(b - a));
        let range = self.ends(&difference);
        if range.0 >= 0 {
            return Some(true);
        }
        (range.1 < 0).then_some(false)
    }

    /// Whether `a < b`, where that can be told.
    pub fn prove_lt(&self, a: &Dim, b: &Dim) -> Option<bool> {
        self.prove_le(&(a + 1), b)
    }

    /// The values that an expression can take.
    pub fn bounds(&self, dim: &Dim) -> Range {
        let (lo, hi) = self.ends(&self.expand(dim));
        let end = |value: i128| i64::try_from(value).ok().filter(|_| !is_infinite(value));
        Range {
            lo: end(lo),
            hi: end(hi),
        }
    }

    /// The largest number known to divide an expression; 0 for zero.
    pub fn multiple_of(&self, dim: &Dim) -> i64 {
        self.expand(dim).content()
    }

    /// [`Dim::broadcast`] with what the facts decide.
    pub fn broadcast(&self, a: &Dim, b: &Dim) -> Option<Dim> {
        if a == b {
            return Some(a.clone());
        }
        let (left, right) = (self.simplify(a), self.simplify(b));
        let merged = Dim::broadcast(&left, &right)?;
        if merged.as_int().is_some() || (left.as_int() == Some(1)) || (right.as_int() == Some(1)) {
            return Some(match merged {
                _ if left.as_int() == Some(1) => b.clone(),
                _ if right.as_int() == Some(1) => a.clone(),
                merged => merged,
            });
        }
        if self.prove_eq(a, b) == Some(true) {
            return Some(a.clone());
        }
        Some(self.broadcast_symbols(a, b))
    }

    /// The extent of two extents that may be 1, or equal: the larger, but 0 where one of them is 0 and the other 1.
    /// An extent that was made so is taken apart again, so that merging the same extents once more changes nothing.
    fn broadcast_symbols(&self, a: &Dim, b: &Dim) -> Dim {
        let (mut larger, mut smaller) = merged_extents(a);
        let (more_larger, more_smaller) = merged_extents(b);
        larger.extend(more_larger);
        smaller.extend(more_smaller);
        smaller.retain(|dim| self.bounds(dim).lo.is_none_or(|lo| lo < 1));
        let base = self.zero_with(a);
        if smaller.is_empty() || base.is_some() && base == self.zero_with(b) {
            return Dim::max_of(larger);
        }
        let larger = Dim::max_of(larger);
        smaller.push(Dim::int(1));
        larger * Dim::min_of(smaller)
    }

    /// What is not negative, and 0 exactly where an extent is.
    fn zero_with(&self, dim: &Dim) -> Option<Dim> {
        match dim.single_atom() {
            Some(Atom::Max(items)) => {
                let (first, others) = items.split_first()?;
                let base = self.zero_with(first)?;
                let same = others
                    .iter()
                    .all(|other| self.zero_with(other).as_ref() == Some(&base));
                return same.then_some(base);
            }
            // The least of an extent and of what is never 0.
            Some(Atom::Min(items)) => {
                let may_be_zero = |dim: &&Dim| self.bounds(dim).lo.is_none_or(|lo| lo < 1);
                let mut left = items.iter().filter(may_be_zero);
                if let (Some(only), None) = (left.next(), left.next()) {
                    return self.zero_with(only);
                }
            }
            Some(Atom::Sym(_) | Atom::FloorDiv(..) | Atom::Mod(..) | Atom::Overflow) | None => {}
        }
        let (_, base, _) = dim.rounded_up()?;
        self.bounds(&base)
            .lo
            .is_some_and(|lo| lo >= 0)
            .then_some(base)
    }

    fn rewrite(&self, dim: &Dim) -> Dim {
        if dim.as_int().is_some() || self.equal.is_empty() {
            dim.clone()
        } else {
            dim.subst(&self.equal)
        }
    }

    /// Equalities put in, and each symbol known to be a multiple of k written as k times a symbol `name/k`.
    fn expand(&self, dim: &Dim) -> Dim {
        let dim = self.rewrite(dim);
        if dim.as_int().is_some() {
            return dim;
        }
        let mut multiples = BTreeMap::new();
        for name in dim.symbols() {
            let known = self.get(&name).multiple_of;
            if known > 1 {
                multiples.insert(name.clone(), Dim::sym(format!("{name}/{known}")) * known);
            }
        }
        if multiples.is_empty() {
            dim
        } else {
            dim.subst(&multiples)
        }
    }

    /// Atoms that facts decide, folded from the inside out.
    fn fold(&self, dim: &Dim) -> Dim {
        dim.rebuild(&|atom| match atom {
            Atom::Sym(_) | Atom::Overflow => Dim::atom(atom.clone()),
            Atom::FloorDiv(a, b) => {
                let (a, b) = (self.fold(a), self.fold(b));
                let quotient = a.floor_div(&b);
                let (lo, hi) = self.ends(&self.expand(&quotient));
                if lo == hi && !is_infinite(lo) {
                    number(lo)
                } else {
                    quotient
                }
            }
            Atom::Mod(a, b) => {
                let (a, b) = (self.fold(a), self.fold(b));
                if let Some(rest) = self.expand(&a).floor_mod(&self.expand(&b)).as_int() {
                    return Dim::int(rest);
                }
                let (lo, hi) = self.ends(&self.expand(&a));
                let fits = b.as_int().is_some_and(|b| lo >= 0 && hi < i128::from(b));
                if fits { a } else { a.floor_mod(&b) }
            }
            Atom::Min(items) => Dim::min_of(self.undominated(items, false)),
            Atom::Max(items) => Dim::max_of(self.undominated(items, true)),
        })
    }

    fn undominated(&self, items: &[Dim], largest: bool) -> Vec<Dim> {
        let mut kept: Vec<Dim> = Vec::new();
        for item in items.iter().map(|item| self.fold(item)) {
            let covers = |a: &Dim, b: &Dim| {
                let (low, high) = if largest { (b, a) } else { (a, b) };
                self.prove_le(low, high) == Some(true)
            };
            if kept.iter().any(|other| covers(other, &item)) {
                continue;
            }
            kept.retain(|other| !covers(&item, other));
            kept.push(item);
        }
        kept
    }

    /// The facts of a symbol that is about to be replaced go over to the symbol that replaces it.
    fn inherit(&mut self, name: &Name, value: &Dim) {
        let Some(other) = value.as_sym().cloned() else {
            return;
        };
        let Some(known) = self.symbols.get(name).cloned() else {
            return;
        };
        self.narrow(other.clone(), known.min, known.max);
        let facts = self.symbols.entry(other).or_default();
        let factor = gcd(facts.multiple_of, known.multiple_of).max(1);
        facts.multiple_of = (facts.multiple_of / factor)
            .checked_mul(known.multiple_of)
            .unwrap_or(facts.multiple_of);
    }

    /// The tighter of the bounds of several equal forms.
    fn ends(&self, dim: &Dim) -> (i128, i128) {
        let plain = self.sum_ends(dim, 0);
        let Repr::Poly(poly) = &dim.0 else {
            return plain;
        };
        let divides = poly
            .terms
            .iter()
            .flat_map(|term| &term.0)
            .any(|(atom, _)| matches!(atom, Atom::FloorDiv(..) | Atom::Mod(..)));
        if !divides {
            return plain;
        }
        let mut best = plain;
        for form in [without_mod(dim), without_div(dim)] {
            let other = self.sum_ends(&form, 0);
            best = (best.0.max(other.0), best.1.min(other.1));
        }
        best
    }

    fn sum_ends(&self, dim: &Dim, depth: u32) -> (i128, i128) {
        let poly = match &dim.0 {
            Repr::Int(value) => return (i128::from(*value), i128::from(*value)),
            Repr::Poly(poly) => poly,
        };
        let mut sum = (0, 0);
        for (monomial, coefficient) in &poly.terms {
            let mut product = (i128::from(*coefficient), i128::from(*coefficient));
            for (atom, power) in monomial {
                let ends = self.atom_ends(atom);
                let power_ends = power_ends(ends, *power);
                product = multiply(product, power_ends);
            }
            sum = (
                add(sum.0, product.0, -INFINITE),
                add(sum.1, product.1, INFINITE),
            );
        }
        if depth >= 3 {
            return sum;
        }
        // A sum with `max(a, b)` is at least the sum with `a` in its place; and so on.
        let mut best = sum;
        for (monomial, coefficient) in &poly.terms {
            let [(atom, 1)] = monomial.as_slice() else {
                continue;
            };
            let (items, largest) = match atom {
                Atom::Max(items) => (items, true),
                Atom::Min(items) => (items, false),
                Atom::Sym(_) | Atom::FloorDiv(..) | Atom::Mod(..) | Atom::Overflow => continue,
            };
            let forms = items.iter().take(4).map(|item| {
                let form = dim - &(&(&Dim::atom(atom.clone()) - item) * *coefficient);
                self.sum_ends(&form, depth + 1)
            });
            let forms: Vec<(i128, i128)> = forms.collect();
            if largest == (*coefficient > 0) {
                best.0 = forms.iter().map(|form| form.0).fold(best.0, i128::max);
            } else {
                best.1 = forms.iter().map(|form| form.1).fold(best.1, i128::min);
            }
        }
        best
    }

    fn atom_ends(&self, atom: &Atom) -> (i128, i128) {
        match atom {
            Atom::Sym(name) => self.symbol_ends(name),
            Atom::Overflow => (-INFINITE, INFINITE),
            Atom::FloorDiv(a, b) => {
                let (a, b) = (self.ends(a), self.ends(b));
                if b.0 < 1 {
                    return if a.0 >= 0 && b.0 >= 0 {
                        (0, a.1)
                    } else {
                        (-INFINITE, INFINITE)
                    };
                }
                let quotient = |a: i128, b: i128| {
                    if is_infinite(a) {
                        a
                    } else if is_infinite(b) {
                        if a < 0 { -1 } else { 0 }
                    } else {
                        a.div_euclid(b)
                    }
                };
                let all = [
                    quotient(a.0, b.0),
                    quotient(a.0, b.1),
                    quotient(a.1, b.0),
                    quotient(a.1, b.1),
                ];
                least_and_most(&all)
            }
            Atom::Mod(a, b) => {
                let (a, b) = (self.ends(a), self.ends(b));
                if b.0 < 0 {
                    return (-INFINITE, INFINITE);
                }
                let top = if is_infinite(b.1) { INFINITE } else { b.1 - 1 };
                (0, if a.0 >= 0 { top.min(a.1) } else { top }.max(0))
            }
            Atom::Min(items) | Atom::Max(items) => {
                let ends: Vec<(i128, i128)> = items.iter().map(|item| self.ends(item)).collect();
                let pick = if matches!(atom, Atom::Max(_)) {
                    i128::max
                } else {
                    i128::min
                };
                ends.into_iter()
                    .reduce(|a, b| (pick(a.0, b.0), pick(a.1, b.1)))
                    .unwrap_or((0, 0))
            }
        }
    }

    fn symbol_ends(&self, name: &Name) -> (i128, i128) {
        // `name/k` stands for a symbol known to be a multiple of k.
        let (facts, factor) = match name.split_once('/') {
            Some((base, factor)) => (
                self.get(&Name::from(base)),
                factor.parse::<i64>().unwrap_or(1).max(1),
            ),
            None => (self.get(name), 1),
        };
        let lo = facts.min.map_or(-INFINITE, |min| {
            -(-i128::from(min)).div_euclid(factor.into())
        });
        let hi = facts
            .max
            .map_or(INFINITE, |max| i128::from(max.div_euclid(factor)));
        (lo, hi)
    }
}

/// Beyond every int64; ends of this size or more count as not known.
const INFINITE: i128 = 1 << 96;

fn is_infinite(value: i128) -> bool {
    value.abs() >= INFINITE
}

fn clamp(value: i128) -> i128 {
    value.clamp(-INFINITE, INFINITE)
}

fn add(a: i128, b: i128, unknown: i128) -> i128 {
    if is_infinite(a) || is_infinite(b) {
        unknown
    } else {
        clamp(a + b)
    }
}

fn multiply(a: (i128, i128), b: (i128, i128)) -> (i128, i128) {
    let times = |x: i128, y: i128| clamp(x.saturating_mul(y));
    least_and_most(&[
        times(a.0, b.0),
        times(a.0, b.1),
        times(a.1, b.0),
        times(a.1, b.1),
    ])
}

fn power_ends(ends: (i128, i128), power: u32) -> (i128, i128) {
    let mut product = ends;
    for _ in 1..power {
        product = multiply(product, ends);
    }
    if power.is_multiple_of(2) {
        (product.0.max(0), product.1)
    } else {
        product
    }
}

fn least_and_most(values: &[i128]) -> (i128, i128) {
    let least = values.iter().copied().min().unwrap_or(-INFINITE);
    (least, values.iter().copied().max().unwrap_or(INFINITE))
}

fn number(value: i128) -> Dim {
    i64::try_from(value).map_or_else(|_| Dim::overflow(), Dim::int)
}

/// A symbol with coefficient 1 or -1 that occurs nowhere else, and what it equals when the sum is zero.
fn solve(difference: &Dim, hidden: &BTreeSet<Name>) -> Option<(Name, Dim)> {
    let mut found: Option<(Name, i64)> = None;
    for (monomial, coefficient) in difference.terms() {
        let [(Atom::Sym(name), 1)] = monomial.as_slice() else {
            continue;
        };
        if coefficient.abs() != 1 {
            continue;
        }
        let rest = difference - &(&Dim::sym(name) * coefficient);
        if !rest.symbols().contains(name) && !rest.overflows() {
            // The last in order is replaced, so that the first name stays; one that no text declares before all.
            let stays = found
                .as_ref()
                .is_some_and(|(found, _)| hidden.contains(found));
            if !stays || hidden.contains(name) {
                found = Some((name.clone(), coefficient));
            }
        }
    }
    let (name, coefficient) = found?;
    let rest = difference - &(&Dim::sym(&name) * coefficient);
    let value = if coefficient > 0 { -rest } else { rest };
    Some((name, value))
}

/// `a % b` written as `a - b * (a // b)`.
fn without_mod(dim: &Dim) -> Dim {
    dim.rebuild(&|atom| match atom {
        Atom::Mod(a, b) => a - &(b * &a.floor_div(b)),
        _ => Dim::atom(atom.clone()),
    })
}

/// `c * (a // b)` with a number b that divides c written as `c / b * (a - a % b)`.
fn without_div(dim: &Dim) -> Dim {
    let mut sum = Dim::int(0);
    for (monomial, coefficient) in dim.terms() {
        let term = Dim::from_terms(vec![(monomial.clone(), coefficient)]);
        let replaced = match monomial.as_slice() {
            [(Atom::FloorDiv(a, b), 1)] => b
                .as_int()
                .filter(|b| *b > 0 && coefficient % b == 0)
                .map(|factor| &(a - &a.floor_mod(b)) * (coefficient / factor)),
            _ => None,
        };
        sum = sum + replaced.unwrap_or(term);
    }
    sum
}

/// What [`Facts::broadcast`] merged to an extent: those whose largest counts, and those that make it 0 where they are.
fn merged_extents(dim: &Dim) -> (Vec<Dim>, Vec<Dim>) {
    let one = Dim::int(1);
    if let [(monomial, 1)] = dim.terms().as_slice() {
        match monomial.as_slice() {
            [(Atom::Max(larger), 1), (Atom::Min(smaller), 1)]
            | [(Atom::Min(smaller), 1), (Atom::Max(larger), 1)]
                if smaller.contains(&one) =>
            {
                let rest = smaller.iter().filter(|dim| **dim != one).cloned().collect();
                return (larger.clone(), rest);
            }
            [(Atom::Max(larger), 1)] => return (larger.clone(), vec![dim.clone()]),
            _ => {}
        }
    }
    (vec![dim.clone()], vec![dim.clone()])
}
