//! The normal form of symbolic integers, and its ring operations.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Add, Mul, Neg, Sub};
use std::sync::Arc;

use irc_syntax::Name;

/// A symbolic integer in normal form. Numbers are kept apart from polynomials, so that static shapes cost nothing.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Dim(pub(super) Repr);

#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Repr {
    Int(i64),
    /// Never constant.
    Poly(Arc<Poly>),
}

/// A sum of products; terms ascend by monomial, no coefficient is zero.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(super) struct Poly {
    pub(super) terms: Vec<(Monomial, i64)>,
}

/// A product of atoms with their powers, ascending by atom; empty for the constant term.
pub(super) type Monomial = Vec<(Atom, u32)>;

/// What a polynomial takes as indivisible.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Atom {
    Sym(Name),
    FloorDiv(Dim, Dim),
    Mod(Dim, Dim),
    /// Two or more operands, ascending.
    Min(Vec<Dim>),
    /// Two or more operands, ascending.
    Max(Vec<Dim>),
    /// What left the range of int64; equal to nothing that is proved.
    Overflow,
}

impl Dim {
    /// A number.
    pub const fn int(value: i64) -> Self {
        Self(Repr::Int(value))
    }

    /// A symbol.
    pub fn sym(name: impl Into<Name>) -> Self {
        Self::atom(Atom::Sym(name.into()))
    }

    /// The number, where it is one.
    pub fn as_int(&self) -> Option<i64> {
        if let Repr::Int(value) = &self.0 {
            Some(*value)
        } else {
            None
        }
    }

    /// The symbol, where it is nothing but one.
    pub fn as_sym(&self) -> Option<&Name> {
        match self.single_atom()? {
            Atom::Sym(name) => Some(name),
            Atom::FloorDiv(..) | Atom::Mod(..) | Atom::Min(_) | Atom::Max(_) | Atom::Overflow => {
                None
            }
        }
    }

    /// Every symbol in it.
    pub fn symbols(&self) -> BTreeSet<Name> {
        let mut found = BTreeSet::new();
        self.collect_symbols(&mut found);
        found
    }

    /// Whether some arithmetic in it left the range of int64.
    pub fn overflows(&self) -> bool {
        self.any_atom(&|atom| matches!(atom, Atom::Overflow))
    }

    /// The same with symbols replaced; symbols without an entry stay.
    pub fn subst(&self, map: &BTreeMap<Name, Dim>) -> Dim {
        self.rebuild(&|atom| match atom {
            Atom::Sym(name) => map
                .get(name)
                .cloned()
                .unwrap_or_else(|| Dim::atom(atom.clone())),
            Atom::FloorDiv(a, b) => a.subst(map).floor_div(&b.subst(map)),
            Atom::Mod(a, b) => a.subst(map).floor_mod(&b.subst(map)),
            Atom::Min(items) => Dim::min_of(items.iter().map(|item| item.subst(map))),
            Atom::Max(items) => Dim::max_of(items.iter().map(|item| item.subst(map))),
            Atom::Overflow => Dim::atom(Atom::Overflow),
        })
    }

    /// Its number for given symbols; `None` when a symbol has none, or on overflow or division by zero.
    pub fn eval(&self, symbol: &dyn Fn(&Name) -> Option<i64>) -> Option<i64> {
        let poly = match &self.0 {
            Repr::Int(value) => return Some(*value),
            Repr::Poly(poly) => poly,
        };
        let mut sum = 0i64;
        for (monomial, coefficient) in &poly.terms {
            let mut product = *coefficient;
            for (atom, power) in monomial {
                let value = atom.eval(symbol)?;
                for _ in 0..*power {
                    product = product.checked_mul(value)?;
                }
            }
            sum = sum.checked_add(product)?;
        }
        Some(sum)
    }

    pub(super) fn atom(atom: Atom) -> Self {
        Self::from_terms(vec![(vec![(atom, 1)], 1)])
    }

    pub(super) fn overflow() -> Self {
        Self::atom(Atom::Overflow)
    }

    /// The normal form of ascending, merged terms.
    pub(super) fn from_terms(terms: Vec<(Monomial, i64)>) -> Self {
        match terms.as_slice() {
            [] => Self::int(0),
            [(monomial, value)] if monomial.is_empty() => Self::int(*value),
            _ => Self(Repr::Poly(Arc::new(Poly { terms }))),
        }
    }

    /// The terms in ascending order; a constant has one or none.
    pub(super) fn terms(&self) -> Vec<(Monomial, i64)> {
        match &self.0 {
            Repr::Int(0) => Vec::new(),
            Repr::Int(value) => vec![(Vec::new(), *value)],
            Repr::Poly(poly) => poly.terms.clone(),
        }
    }

    /// The constant term.
    pub(super) fn constant_term(&self) -> i64 {
        match &self.0 {
            Repr::Int(value) => *value,
            Repr::Poly(poly) => poly
                .terms
                .first()
                .filter(|term| term.0.is_empty())
                .map_or(0, |term| term.1),
        }
    }

    pub(super) fn single_atom(&self) -> Option<&Atom> {
        let Repr::Poly(poly) = &self.0 else {
            return None;
        };
        match poly.terms.as_slice() {
            [(monomial, 1)] => match monomial.as_slice() {
                [(atom, 1)] => Some(atom),
                _ => None,
            },
            _ => None,
        }
    }

    /// The same with every atom replaced.
    pub(super) fn rebuild(&self, replace: &dyn Fn(&Atom) -> Dim) -> Dim {
        let Repr::Poly(poly) = &self.0 else {
            return self.clone();
        };
        let mut sum = Dim::int(0);
        for (monomial, coefficient) in &poly.terms {
            let mut product = Dim::int(*coefficient);
            for (atom, power) in monomial {
                let value = replace(atom);
                for _ in 0..*power {
                    product = &product * &value;
                }
            }
            sum = &sum + &product;
        }
        sum
    }

    /// Whether an atom at any depth satisfies a predicate.
    pub(super) fn any_atom(&self, test: &dyn Fn(&Atom) -> bool) -> bool {
        let Repr::Poly(poly) = &self.0 else {
            return false;
        };
        poly.terms.iter().flat_map(|term| &term.0).any(|(atom, _)| {
            test(atom)
                || match atom {
                    Atom::Sym(_) | Atom::Overflow => false,
                    Atom::FloorDiv(a, b) | Atom::Mod(a, b) => a.any_atom(test) || b.any_atom(test),
                    Atom::Min(items) | Atom::Max(items) => {
                        items.iter().any(|item| item.any_atom(test))
                    }
                }
        })
    }

    fn collect_symbols(&self, found: &mut BTreeSet<Name>) {
        let Repr::Poly(poly) = &self.0 else { return };
        for (atom, _) in poly.terms.iter().flat_map(|term| &term.0) {
            match atom {
                Atom::Sym(name) => {
                    found.insert(name.clone());
                }
                Atom::FloorDiv(a, b) | Atom::Mod(a, b) => {
                    a.collect_symbols(found);
                    b.collect_symbols(found);
                }
                Atom::Min(items) | Atom::Max(items) => {
                    items.iter().for_each(|item| item.collect_symbols(found));
                }
                Atom::Overflow => {}
            }
        }
    }
}

impl Atom {
    fn eval(&self, symbol: &dyn Fn(&Name) -> Option<i64>) -> Option<i64> {
        match self {
            Self::Sym(name) => symbol(name),
            Self::FloorDiv(a, b) => checked_floor_div(a.eval(symbol)?, b.eval(symbol)?),
            Self::Mod(a, b) => checked_floor_mod(a.eval(symbol)?, b.eval(symbol)?),
            Self::Min(items) => items
                .iter()
                .map(|item| item.eval(symbol))
                .collect::<Option<Vec<_>>>()?
                .into_iter()
                .min(),
            Self::Max(items) => items
                .iter()
                .map(|item| item.eval(symbol))
                .collect::<Option<Vec<_>>>()?
                .into_iter()
                .max(),
            Self::Overflow => None,
        }
    }
}

/// Division rounded down; `None` on division by zero and overflow.
pub(super) fn checked_floor_div(a: i64, b: i64) -> Option<i64> {
    let quotient = a.checked_div(b)?;
    let rest = a.checked_rem(b)?;
    Some(if rest != 0 && (rest < 0) != (b < 0) {
        quotient - 1
    } else {
        quotient
    })
}

/// The rest of the division rounded down: it has the sign of the divisor.
pub(super) fn checked_floor_mod(a: i64, b: i64) -> Option<i64> {
    let rest = a.checked_rem(b)?;
    Some(if rest != 0 && (rest < 0) != (b < 0) {
        rest + b
    } else {
        rest
    })
}

fn merge(a: Dim, b: &Dim, sign: i64) -> Dim {
    let mut sums: BTreeMap<Monomial, i64> = a.terms().into_iter().collect();
    for (monomial, coefficient) in b.terms() {
        let Some(coefficient) = coefficient.checked_mul(sign) else {
            return Dim::overflow();
        };
        let sum = sums.entry(monomial).or_insert(0);
        let Some(total) = sum.checked_add(coefficient) else {
            return Dim::overflow();
        };
        *sum = total;
    }
    let sum = Dim::from_terms(sums.into_iter().filter(|term| term.1 != 0).collect());
    sum.settled()
}

fn multiply(a: &Dim, b: &Dim) -> Dim {
    let mut sums: BTreeMap<Monomial, i64> = BTreeMap::new();
    let right = b.terms();
    for (left_monomial, left) in a.terms() {
        for (right_monomial, right) in &right {
            let Some(product) = left.checked_mul(*right) else {
                return Dim::overflow();
            };
            let Some(monomial) = multiply_monomials(&left_monomial, right_monomial) else {
                return Dim::overflow();
            };
            let sum = sums.entry(monomial).or_insert(0);
            let Some(total) = sum.checked_add(product) else {
                return Dim::overflow();
            };
            *sum = total;
        }
    }
    Dim::from_terms(sums.into_iter().filter(|term| term.1 != 0).collect())
}

fn multiply_monomials(a: &Monomial, b: &Monomial) -> Option<Monomial> {
    let mut powers: BTreeMap<&Atom, u32> = a.iter().map(|(atom, power)| (atom, *power)).collect();
    for (atom, power) in b {
        let sum = powers.entry(atom).or_insert(0);
        *sum = sum.checked_add(*power).filter(|sum| *sum <= 64)?;
    }
    Some(
        powers
            .into_iter()
            .map(|(atom, power)| (atom.clone(), power))
            .collect(),
    )
}

impl Add<&Dim> for &Dim {
    type Output = Dim;
    fn add(self, other: &Dim) -> Dim {
        match (self.as_int(), other.as_int()) {
            (Some(a), Some(b)) => a.checked_add(b).map_or_else(Dim::overflow, Dim::int),
            (Some(0), None) => other.clone(),
            (None, Some(0)) => self.clone(),
            _ => merge(self.clone(), other, 1),
        }
    }
}

impl Sub<&Dim> for &Dim {
    type Output = Dim;
    fn sub(self, other: &Dim) -> Dim {
        match (self.as_int(), other.as_int()) {
            (Some(a), Some(b)) => a.checked_sub(b).map_or_else(Dim::overflow, Dim::int),
            (None, Some(0)) => self.clone(),
            _ => merge(self.clone(), other, -1),
        }
    }
}

impl Mul<&Dim> for &Dim {
    type Output = Dim;
    fn mul(self, other: &Dim) -> Dim {
        match (self.as_int(), other.as_int()) {
            (Some(a), Some(b)) => a.checked_mul(b).map_or_else(Dim::overflow, Dim::int),
            (Some(1), None) => other.clone(),
            (None, Some(1)) => self.clone(),
            _ => multiply(self, other),
        }
    }
}

/// By value, and with plain numbers, every operator is the one by reference.
macro_rules! forward {
    ($($trait:ident $method:ident),*) => {$(
        impl $trait<Dim> for Dim {
            type Output = Dim;
            fn $method(self, other: Dim) -> Dim {
                (&self).$method(&other)
            }
        }
        impl $trait<&Dim> for Dim {
            type Output = Dim;
            fn $method(self, other: &Dim) -> Dim {
                (&self).$method(other)
            }
        }
        impl $trait<Dim> for &Dim {
            type Output = Dim;
            fn $method(self, other: Dim) -> Dim {
                self.$method(&other)
            }
        }
        impl $trait<i64> for &Dim {
            type Output = Dim;
            fn $method(self, other: i64) -> Dim {
                self.$method(&Dim::int(other))
            }
        }
        impl $trait<i64> for Dim {
            type Output = Dim;
            fn $method(self, other: i64) -> Dim {
                (&self).$method(&Dim::int(other))
            }
        }
    )*};
}

forward!(Add add, Sub sub, Mul mul);

impl Neg for &Dim {
    type Output = Dim;
    fn neg(self) -> Dim {
        self * -1
    }
}

impl Neg for Dim {
    type Output = Dim;
    fn neg(self) -> Dim {
        &self * -1
    }
}

impl From<i64> for Dim {
    fn from(value: i64) -> Self {
        Self::int(value)
    }
}

impl From<usize> for Dim {
    fn from(value: usize) -> Self {
        i64::try_from(value).map_or_else(|_| Self::overflow(), Self::int)
    }
}

impl std::iter::Product for Dim {
    fn product<I: Iterator<Item = Dim>>(items: I) -> Dim {
        items.fold(Dim::int(1), |product, item| product * item)
    }
}

impl<'a> std::iter::Product<&'a Dim> for Dim {
    fn product<I: Iterator<Item = &'a Dim>>(items: I) -> Dim {
        items.fold(Dim::int(1), |product, item| product * item)
    }
}

impl std::iter::Sum for Dim {
    fn sum<I: Iterator<Item = Dim>>(items: I) -> Dim {
        items.fold(Dim::int(0), |sum, item| sum + item)
    }
}
