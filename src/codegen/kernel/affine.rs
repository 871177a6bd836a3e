//! Integer polynomials over named values: what indices and bounds inside a kernel region are.
//!
//! Unlike `shape::Dim` the atoms here are values that a register may hold (arguments, loop variables, results of
//! divisions), so that an address can be split by the loop that changes it.

use std::collections::BTreeMap;

/// A value that is not computed from others by `+ - *`: an index of the lowering's table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Atom(pub u32);

/// A sum of products of atoms with integer coefficients.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Poly {
    /// By the sorted factors of the product; no coefficient is 0. The constant has no factors.
    terms: BTreeMap<Vec<Atom>, i64>,
}

impl Poly {
    /// A number.
    pub fn constant(value: i64) -> Self {
        let mut res = Self::default();
        res.add_term(Vec::new(), value);
        res
    }

    /// One atom.
    pub fn atom(atom: Atom) -> Self {
        let mut res = Self::default();
        res.add_term(vec![atom], 1);
        res
    }

    /// One product with a coefficient.
    pub fn term(factors: &[Atom], coefficient: i64) -> Self {
        let mut res = Self::default();
        res.add_term(factors.to_vec(), coefficient);
        res
    }

    fn add_term(&mut self, factors: Vec<Atom>, coefficient: i64) {
        let entry = self.terms.entry(factors).or_insert(0);
        *entry = entry.wrapping_add(coefficient);
        if *entry == 0 {
            self.terms.retain(|_, coefficient| *coefficient != 0);
        }
    }

    /// The products and their coefficients.
    pub fn terms(&self) -> impl Iterator<Item = (&[Atom], i64)> {
        self.terms
            .iter()
            .map(|(factors, &coefficient)| (factors.as_slice(), coefficient))
    }

    /// Number of products.
    pub fn n_terms(&self) -> usize {
        self.terms.len()
    }

    /// Whether it is 0.
    pub fn is_zero(&self) -> bool {
        self.terms.is_empty()
    }

    /// The number, where it is one.
    pub fn as_constant(&self) -> Option<i64> {
        match self.terms.len() {
            0 => Some(0),
            1 => self.terms.get(&Vec::new()).copied(),
            _ => None,
        }
    }

    /// The number in the sum.
    pub fn constant_part(&self) -> i64 {
        self.terms.get(&Vec::new()).copied().unwrap_or(0)
    }

    /// The sum.
    pub fn add(&self, other: &Self) -> Self {
        let mut res = self.clone();
        for (factors, coefficient) in &other.terms {
            res.add_term(factors.clone(), *coefficient);
        }
        res
    }

    /// The sum with a number.
    pub fn add_constant(&self, value: i64) -> Self {
        self.add(&Self::constant(value))
    }

    /// The difference.
    pub fn sub(&self, other: &Self) -> Self {
        self.add(&other.scale(-1))
    }

    /// The product with a number.
    pub fn scale(&self, by: i64) -> Self {
        let mut res = Self::default();
        for (factors, coefficient) in &self.terms {
            res.add_term(factors.clone(), coefficient.wrapping_mul(by));
        }
        res
    }

    /// The product.
    pub fn mul(&self, other: &Self) -> Self {
        let mut res = Self::default();
        for (left, a) in &self.terms {
            for (right, b) in &other.terms {
                let mut factors = left.clone();
                factors.extend(right);
                factors.sort();
                res.add_term(factors, a.wrapping_mul(*b));
            }
        }
        res
    }

    /// `coefficient * atom + rest`; `None` when the atom occurs in a power.
    pub fn split(&self, atom: Atom) -> Option<(Self, Self)> {
        let (mut coefficient, mut rest) = (Self::default(), Self::default());
        for (factors, value) in &self.terms {
            match factors.iter().filter(|&&factor| factor == atom).count() {
                0 => rest.add_term(factors.clone(), *value),
                1 => {
                    let others = factors.iter().copied().filter(|&factor| factor != atom);
                    coefficient.add_term(others.collect(), *value);
                }
                _ => return None,
            }
        }
        Some((coefficient, rest))
    }

    /// Every atom in it.
    pub fn atoms(&self) -> impl Iterator<Item = Atom> {
        self.terms.keys().flatten().copied()
    }
}
