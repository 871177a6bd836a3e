//! Floor-division, modulus, minimum and maximum of symbolic integers, and the broadcast rule.
//!
//! Divisors are taken as not zero: a division by a symbolic zero is a fault at run time, so `n * m // n` is `m`.

use super::dim::{Atom, Dim, Monomial, Repr, checked_floor_div, checked_floor_mod};

impl Dim {
    /// The quotient rounded down.
    pub fn floor_div(&self, divisor: &Dim) -> Dim {
        match (self.as_int(), divisor.as_int()) {
            (Some(a), Some(b)) if b != 0 => {
                checked_floor_div(a, b).map_or_else(Dim::overflow, Dim::int)
            }
            (Some(0), _) => Dim::int(0),
            (_, Some(1)) => self.clone(),
            (_, Some(-1)) => -self,
            (None, Some(b)) if b > 0 => self.floor_div_int(b),
            (None, Some(b)) if b < -1 && b != i64::MIN => (-self).floor_div_int(-b),
            _ => self.floor_div_poly(divisor),
        }
    }

    /// The rest of [`Self::floor_div`]; it has the sign of the divisor.
    pub fn floor_mod(&self, divisor: &Dim) -> Dim {
        match (self.as_int(), divisor.as_int()) {
            (Some(a), Some(b)) if b != 0 => {
                checked_floor_mod(a, b).map_or_else(Dim::overflow, Dim::int)
            }
            (Some(0), _) | (_, Some(1 | -1)) => Dim::int(0),
            (None, Some(b)) if b > 0 => self.floor_mod_int(b),
            (None, Some(b)) if b < -1 && b != i64::MIN => -(-self).floor_mod_int(-b),
            _ => self.floor_mod_poly(divisor),
        }
    }

    /// The quotient rounded up, for positive divisors.
    pub fn ceil_div(&self, divisor: &Dim) -> Dim {
        -(-self).floor_div(divisor)
    }

    /// The smaller one.
    pub fn min(a: &Dim, b: &Dim) -> Dim {
        Self::min_of([a.clone(), b.clone()])
    }

    /// The larger one.
    pub fn max(a: &Dim, b: &Dim) -> Dim {
        Self::max_of([a.clone(), b.clone()])
    }

    /// The smallest; 0 of nothing.
    pub fn min_of(items: impl IntoIterator<Item = Dim>) -> Dim {
        let kept = extremes(items, false);
        one_or(kept, Atom::Min)
    }

    /// The largest; 0 of nothing.
    pub fn max_of(items: impl IntoIterator<Item = Dim>) -> Dim {
        let kept = extremes(items, true);
        one_or(kept, Atom::Max)
    }

    /// The extent of two broadcast extents: equal, or the other of one, or the number above one, or the larger.
    /// `None` when they are two different numbers and neither is one.
    pub fn broadcast(a: &Dim, b: &Dim) -> Option<Dim> {
        if a == b {
            return Some(a.clone());
        }
        match (a.as_int(), b.as_int()) {
            (Some(1), _) => Some(b.clone()),
            (_, Some(1)) => Some(a.clone()),
            (Some(_), Some(_)) => None,
            (Some(_), None) => Some(a.clone()),
            (None, Some(_)) => Some(b.clone()),
            (None, None) => Some(Dim::max(a, b)),
        }
    }

    /// The value of a symbol for which this equals `value`, where the symbol occurs once, in a term of its own.
    pub fn solve_for(&self, name: &irc_syntax::Name, value: &Dim) -> Option<Dim> {
        let symbol = Dim::sym(name);
        let is_it = |term: &(Monomial, i64)| match term.0.as_slice() {
            [(Atom::Sym(other), 1)] => other == name,
            _ => false,
        };
        let coefficient = self.terms().into_iter().find(is_it)?.1;
        let rest = self - &(&symbol * coefficient);
        if rest.symbols().contains(name) {
            return None;
        }
        let scaled = value - &rest;
        (scaled.content() % coefficient == 0).then(|| scaled.floor_div(&Dim::int(coefficient)))
    }

    /// `(c, x, d)` where this is `c * ceil(x / d)` with positive numbers `c` and `d`; itself with 1 and 1 where it is no
    /// quotient.
    pub(super) fn rounded_up(&self) -> Option<(i64, Dim, i64)> {
        if let [(monomial, coefficient)] = self.terms().as_slice()
            && let [(Atom::FloorDiv(a, b), 1)] = monomial.as_slice()
        {
            let divisor = b.as_int().filter(|divisor| *divisor > 0)?;
            let x = a - &Dim::int(divisor - 1);
            return (*coefficient > 0).then_some((*coefficient, x, divisor));
        }
        Some((1, self.clone(), 1))
    }

    /// A sum in which a minimum of two meets what it is the least of, or their difference:
    /// `n - min(n, m)` is `max(0, n - m)`, and `min(n, m) + max(0, n - m)` is `n`.
    pub(super) fn settled(self) -> Dim {
        for (monomial, coefficient) in self.terms() {
            if let [(Atom::Min(items), 1)] = monomial.as_slice()
                && let [a, b] = items.as_slice()
            {
                let simpler = self.without_minimum(a, b, coefficient);
                let simpler = simpler.or_else(|| self.without_minimum(b, a, coefficient));
                if let Some(simpler) = simpler {
                    return simpler;
                }
            }
        }
        self
    }

    /// This sum with `coefficient * min(one, other)` said by `one` and `max(0, one - other)`, where that is shorter.
    fn without_minimum(&self, one: &Dim, other: &Dim, coefficient: i64) -> Option<Dim> {
        let count = |dim: &Dim| dim.terms().len();
        let beyond = Dim::max(&Dim::int(0), &(one - other));
        let rest = self - &(Dim::min(one, other) * coefficient);
        if coefficient < 0 {
            let left = &rest + &(one * coefficient);
            let is_shorter = one.as_int().is_none() && count(&left) + count(one) == count(&rest);
            return is_shorter.then(|| left - beyond * coefficient);
        }
        let left = &rest - &(&beyond * coefficient);
        let is_shorter = beyond.single_atom().is_some() && count(&left) + 1 == count(&rest);
        is_shorter.then(|| left + one * coefficient)
    }

    /// The largest number that divides it for all values of its symbols; 0 for zero.
    pub fn content(&self) -> i64 {
        self.terms()
            .iter()
            .fold(0, |content, term| gcd(content, term.1))
    }

    fn floor_div_int(&self, divisor: i64) -> Dim {
        // (d q + r) // d = q + r // d, term by term; the constant's rest is not negative.
        let (mut whole, mut rest) = (Vec::new(), Vec::new());
        for (monomial, coefficient) in self.terms() {
            let (quotient, left) = if monomial.is_empty() {
                (
                    coefficient.div_euclid(divisor),
                    coefficient.rem_euclid(divisor),
                )
            } else {
                (coefficient / divisor, coefficient % divisor)
            };
            if quotient != 0 {
                whole.push((monomial.clone(), quotient));
            }
            if left != 0 {
                rest.push((monomial, left));
            }
        }
        let (whole, rest) = (Dim::from_terms(whole), Dim::from_terms(rest));
        if let Some(rest) = rest.as_int() {
            return whole + rest.div_euclid(divisor);
        }
        // (g x + k) // (g d) = (x + k // g) // d.
        let factor = gcd(variable_content(&rest), divisor);
        let (rest, divisor) = (divide_terms(&rest, factor), divisor / factor);
        if divisor == 1 {
            return whole + rest;
        }
        // r // d = -((d - 1 - r) // d): the first variable term is positive in the normal form.
        let leads_negative = rest
            .terms()
            .iter()
            .find(|term| !term.0.is_empty())
            .is_some_and(|term| term.1 < 0);
        if leads_negative {
            return whole - (-rest + (divisor - 1)).floor_div_int(divisor);
        }
        let constant = rest.constant_term();
        match (&rest - constant).single_atom() {
            // (a // b + k) // d = (a + k b) // (b d), for positive numbers b.
            Some(Atom::FloorDiv(a, b)) => {
                let product = b
                    .as_int()
                    .filter(|b| *b > 0)
                    .and_then(|b| b.checked_mul(divisor));
                if let Some(product) = product {
                    return whole + (a + b * constant).floor_div(&Dim::int(product));
                }
            }
            // (a % b) // d = 0 for b <= d.
            Some(Atom::Mod(_, b))
                if constant == 0 && b.as_int().is_some_and(|b| b > 0 && b <= divisor) =>
            {
                return whole;
            }
            _ => {}
        }
        whole + Dim::atom(Atom::FloorDiv(rest, Dim::int(divisor)))
    }

    fn floor_mod_int(&self, divisor: i64) -> Dim {
        // (x % m) % d = x % d where d divides m.
        let opened = self.rebuild(&|atom| match atom {
            Atom::Mod(a, b) if b.as_int().is_some_and(|b| b > 0 && b % divisor == 0) => a.clone(),
            _ => Dim::atom(atom.clone()),
        });
        let rest = opened.terms().into_iter().map(|(monomial, coefficient)| {
            let left = coefficient.rem_euclid(divisor);
            // The variable terms take the rest that is nearest to zero.
            let near = if !monomial.is_empty() && left > divisor / 2 {
                left - divisor
            } else {
                left
            };
            (monomial, near)
        });
        let rest = Dim::from_terms(rest.filter(|term| term.1 != 0).collect());
        if let Some(rest) = rest.as_int() {
            return Dim::int(rest.rem_euclid(divisor));
        }
        if let Some(Atom::Mod(_, b)) = rest.single_atom()
            && b.as_int().is_some_and(|b| b > 0 && b <= divisor)
        {
            return rest;
        }
        // (g x + k) % (g d) = g ((x + k // g) % d) + k % g.
        let factor = gcd(variable_content(&rest), divisor);
        if factor > 1 {
            let constant = rest.constant_term().rem_euclid(factor);
            let inner = divide_terms(&rest, factor).floor_mod(&Dim::int(divisor / factor));
            return inner * factor + constant;
        }
        Dim::atom(Atom::Mod(rest, Dim::int(divisor)))
    }

    fn floor_div_poly(&self, divisor: &Dim) -> Dim {
        if divisor.as_int().is_some() {
            return Dim::atom(Atom::FloorDiv(self.clone(), divisor.clone()));
        }
        let (quotient, rest) = self.divide(divisor);
        if rest.as_int() == Some(0) {
            return quotient;
        }
        let whole = if is_product(divisor) {
            quotient
        } else {
            Dim::int(0)
        };
        let rest = if is_product(divisor) {
            rest
        } else {
            self.clone()
        };
        let (rest, divisor) = cancel(&rest, divisor);
        if divisor.as_int().is_some() {
            return whole + rest.floor_div(&divisor);
        }
        whole + Dim::atom(Atom::FloorDiv(rest, divisor))
    }

    fn floor_mod_poly(&self, divisor: &Dim) -> Dim {
        if divisor.as_int().is_some() {
            return Dim::atom(Atom::Mod(self.clone(), divisor.clone()));
        }
        let (_, rest) = self.divide(divisor);
        if rest.as_int() == Some(0) {
            return rest;
        }
        let rest = if is_product(divisor) {
            rest
        } else {
            self.clone()
        };
        Dim::atom(Atom::Mod(rest, divisor.clone()))
    }

    /// Polynomial division by the leading term of the divisor: `self = quotient * divisor + rest`.
    fn divide(&self, divisor: &Dim) -> (Dim, Dim) {
        let (mut quotient, mut rest, mut kept) = (Dim::int(0), self.clone(), Dim::int(0));
        let divisor_terms = divisor.terms();
        let Some((lead, lead_coefficient)) =
            divisor_terms.iter().max_by(|a, b| by_degree(&a.0, &b.0))
        else {
            return (quotient, rest);
        };
        for _ in 0..256 {
            let terms = rest.terms();
            let Some((monomial, coefficient)) = terms.iter().max_by(|a, b| by_degree(&a.0, &b.0))
            else {
                break;
            };
            let term = Dim::from_terms(vec![(monomial.clone(), *coefficient)]);
            match divide_monomial(monomial, lead) {
                Some(factor) if coefficient % lead_coefficient == 0 => {
                    let part = Dim::from_terms(vec![(factor, coefficient / lead_coefficient)]);
                    rest = &rest - &(&part * divisor);
                    quotient = quotient + part;
                }
                _ => {
                    rest = &rest - &term;
                    kept = kept + term;
                }
            }
        }
        (quotient, kept + rest)
    }
}

/// The operands of a minimum or maximum that no other dominates, ascending.
fn extremes(items: impl IntoIterator<Item = Dim>, largest: bool) -> Vec<Dim> {
    let mut flat = Vec::new();
    for item in items {
        match item.single_atom() {
            Some(Atom::Max(inner)) if largest => flat.extend(inner.iter().cloned()),
            Some(Atom::Min(inner)) if !largest => flat.extend(inner.iter().cloned()),
            _ => flat.push(item),
        }
    }
    flat.sort();
    flat.dedup();
    let dominated = |item: &Dim| {
        flat.iter().any(|other| {
            let (low, high) = if largest {
                (item, other)
            } else {
                (other, item)
            };
            (high - low).as_int().unwrap_or(0) > 0
                || is_rounded_further(low, high)
                || item != other && is_absorbed(item, other, largest)
        })
    };
    flat.iter()
        .filter(|item| !dominated(item))
        .cloned()
        .collect()
}

/// max(a, min(a, b)) = a, and min(a, max(a, b)) = a: whether `item` is the inner one.
fn is_absorbed(item: &Dim, other: &Dim, largest: bool) -> bool {
    match item.single_atom() {
        Some(Atom::Min(inner)) if largest => inner.contains(other),
        Some(Atom::Max(inner)) if !largest => inner.contains(other),
        _ => false,
    }
}

/// Whether `low` is `c * ceil(x / d)` and `high` is `c * k * ceil(x / (k * d))`, which is not smaller.
fn is_rounded_further(low: &Dim, high: &Dim) -> bool {
    let (Some((c, x, d)), Some((more, y, wider))) = (low.rounded_up(), high.rounded_up()) else {
        return false;
    };
    let times = wider / d;
    times > 1 && wider % d == 0 && c.checked_mul(times) == Some(more) && x == y
}

fn one_or(kept: Vec<Dim>, atom: fn(Vec<Dim>) -> Atom) -> Dim {
    match kept.as_slice() {
        [] => Dim::int(0),
        [one] => one.clone(),
        _ => Dim::atom(atom(kept)),
    }
}

/// The largest number that divides all terms but the constant one.
fn variable_content(dim: &Dim) -> i64 {
    dim.terms()
        .iter()
        .filter(|term| !term.0.is_empty())
        .fold(0, |content, term| gcd(content, term.1))
}

/// Every coefficient divided, the constant rounded down.
fn divide_terms(dim: &Dim, factor: i64) -> Dim {
    if factor <= 1 {
        return dim.clone();
    }
    let terms = dim.terms().into_iter().map(|(monomial, coefficient)| {
        (
            monomial,
            checked_floor_div(coefficient, factor).unwrap_or(0),
        )
    });
    Dim::from_terms(terms.filter(|term| term.1 != 0).collect())
}

fn is_product(dim: &Dim) -> bool {
    matches!(&dim.0, Repr::Poly(poly) if poly.terms.len() == 1)
}

/// Both sides without the atoms and the number that divide every term of both.
fn cancel(a: &Dim, b: &Dim) -> (Dim, Dim) {
    let (a_terms, b_terms) = (a.terms(), b.terms());
    let mut monomials = a_terms.iter().chain(&b_terms).map(|term| &term.0);
    let Some(first) = monomials.next() else {
        return (a.clone(), b.clone());
    };
    let common: Monomial = monomials.fold(first.clone(), |common, monomial| {
        let shared = common.into_iter().filter_map(|(atom, power)| {
            let other = monomial.iter().find(|(candidate, _)| *candidate == atom)?.1;
            Some((atom, power.min(other)))
        });
        shared.collect()
    });
    let factor = gcd(a.content(), b.content()).max(1);
    let strip = |terms: Vec<(Monomial, i64)>| {
        let mut stripped: Vec<(Monomial, i64)> = terms
            .into_iter()
            .map(|(monomial, coefficient)| {
                (
                    divide_monomial(&monomial, &common).unwrap_or(monomial),
                    coefficient / factor,
                )
            })
            .collect();
        stripped.sort();
        Dim::from_terms(stripped)
    };
    (strip(a_terms), strip(b_terms))
}

fn divide_monomial(monomial: &Monomial, divisor: &Monomial) -> Option<Monomial> {
    let mut left = monomial.clone();
    for (atom, power) in divisor {
        let entry = left.iter_mut().find(|(candidate, _)| candidate == atom)?;
        entry.1 = entry.1.checked_sub(*power)?;
    }
    left.retain(|entry| entry.1 > 0);
    Some(left)
}

/// Total degree first, then the order of the powers of each atom, which is a monomial order: it survives
/// multiplication.
pub(super) fn by_degree(a: &Monomial, b: &Monomial) -> std::cmp::Ordering {
    let degree = |monomial: &Monomial| monomial.iter().map(|entry| entry.1).sum::<u32>();
    degree(a).cmp(&degree(b)).then_with(|| {
        let (mut left, mut right) = (a.iter(), b.iter());
        loop {
            match (left.next(), right.next()) {
                (None, None) => return std::cmp::Ordering::Equal,
                (None, Some(_)) => return std::cmp::Ordering::Less,
                (Some(_), None) => return std::cmp::Ordering::Greater,
                (Some(x), Some(y)) => {
                    // The monomial with more of the first atom is the larger one.
                    let order = y.0.cmp(&x.0).then(x.1.cmp(&y.1));
                    if order.is_ne() {
                        return order;
                    }
                }
            }
        }
    })
}

/// The greatest common divisor, not negative.
pub(super) fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i64::try_from(a).unwrap_or(i64::MAX)
}
