//! The algebra has no textual face of its own, so its laws are checked here.

use std::collections::BTreeMap;

use irc_syntax::Name;

use super::*;

fn n() -> Dim {
    Dim::sym("n")
}

fn m() -> Dim {
    Dim::sym("m")
}

fn i(value: i64) -> Dim {
    Dim::int(value)
}

#[test]
fn ring_operations_reach_one_form() {
    assert_eq!((n() + 1) * (n() - 1), n() * n() - 1);
    assert_eq!(n() + m() - n(), m());
    assert_eq!((n() - n()).as_int(), Some(0));
    assert_eq!((n() * 2 + m() * -3 + 4).to_string(), "n * 2 - m * 3 + 4");
    assert_eq!((i(8) - n()).to_string(), "8 - n");
    assert_eq!(Dim::sym("n").as_sym(), Some(&Name::from("n")));
}

#[test]
fn division_by_numbers_is_exact() {
    assert_eq!((n() * 8).floor_div(&i(8)), n());
    assert_eq!((n() * 8 + 3).floor_mod(&i(8)), i(3));
    assert_eq!((n() * 8 + 3).floor_div(&i(8)), n());
    assert_eq!((n() + 8).floor_div(&i(8)), n().floor_div(&i(8)) + 1);
    assert_eq!(n().floor_div(&i(2)).floor_div(&i(4)), n().floor_div(&i(8)));
    assert_eq!((n() * 2).floor_div(&i(4)), n().floor_div(&i(2)));
    assert_eq!((n() * 2 + 1).floor_mod(&i(4)), n().floor_mod(&i(2)) * 2 + 1);
    assert_eq!(n().floor_mod(&i(16)).floor_mod(&i(4)), n().floor_mod(&i(4)));
    assert_eq!(n().ceil_div(&i(2)), (n() + 1).floor_div(&i(2)));
    assert_eq!(i(-7).floor_div(&i(2)), i(-4));
    assert_eq!(i(-7).floor_mod(&i(2)), i(1));
}

#[test]
fn division_by_symbols_cancels() {
    assert_eq!((n() * m()).floor_div(&n()), m());
    assert_eq!((n() * m() + n()).floor_div(&n()), m() + 1);
    assert_eq!((n() * m()).floor_mod(&m()), i(0));
    assert_eq!((n() * m()).floor_div(&(n() * 4)), m().floor_div(&i(4)));
    assert_eq!(((n() + 1) * m()).floor_div(&(n() + 1)), m());
}

#[test]
fn normal_form_keeps_values() {
    let forms = [
        (n() * 9 - 5).floor_div(&i(4)),
        (n() * -3 + 7).floor_mod(&i(8)),
        (n().floor_div(&i(3)) + 2).floor_div(&i(5)),
        n().floor_mod(&i(6)).floor_div(&i(2)) * 7,
        (n() * 7 + m() * 6).floor_div(&i(12)),
        Dim::max(&(n() - 3), &m()).floor_mod(&i(4)),
    ];
    let plain = |n: i64, m: i64| {
        [
            (n * 9 - 5).div_euclid(4),
            (n * -3 + 7).rem_euclid(8),
            (n.div_euclid(3) + 2).div_euclid(5),
            n.rem_euclid(6).div_euclid(2) * 7,
            (n * 7 + m * 6).div_euclid(12),
            (n - 3).max(m).rem_euclid(4),
        ]
    };
    for (x, y) in (-20..20).flat_map(|x| (-20..20).map(move |y| (x, y))) {
        let value = |name: &Name| Some(if *name == *"n" { x } else { y });
        let got: Vec<_> = forms.iter().map(|form| form.eval(&value)).collect();
        let wanted: Vec<_> = plain(x, y).into_iter().map(Some).collect();
        assert_eq!(got, wanted, "n = {x}, m = {y}");
    }
}

#[test]
fn minimum_and_maximum_drop_what_is_dominated() {
    assert_eq!(Dim::max(&n(), &(n() + 1)), n() + 1);
    assert_eq!(Dim::min(&n(), &(n() + 1)), n());
    assert_eq!(Dim::max(&Dim::max(&n(), &m()), &n()), Dim::max(&m(), &n()));
    assert_eq!(Dim::max(&n(), &m()).to_string(), "T.max(m, n)");
}

#[test]
fn broadcast_follows_the_rule() {
    assert_eq!(Dim::broadcast(&n(), &i(1)), Some(n()));
    assert_eq!(Dim::broadcast(&i(4), &n()), Some(i(4)));
    assert_eq!(Dim::broadcast(&i(4), &i(3)), None);
    assert_eq!(Dim::broadcast(&n(), &m()), Some(Dim::max(&n(), &m())));
}

#[test]
fn what_is_rounded_up_further_is_larger() {
    let up = |d: i64| n().ceil_div(&i(d));
    assert_eq!(Dim::max(&up(8), &(&up(16) * 2)), &up(16) * 2);
    assert_eq!(Dim::max(&n(), &(&up(2) * 2)), &up(2) * 2);
    assert_eq!(Dim::min(&up(8), &(&up(16) * 2)), up(8));
    // Neither of these is larger for every n.
    assert_ne!(Dim::max(&up(8), &up(16)), up(8));
    assert_ne!(Dim::max(&up(4), &(&up(6) * 2)), &up(6) * 2);
    let facts = Facts::default();
    assert_eq!(facts.broadcast(&up(8), &(&up(16) * 2)), Some(&up(16) * 2));
    for value in 0..70 {
        let at = |dim: &Dim| dim.eval(&|_| Some(value)).unwrap_or(-1);
        let (a, b) = (at(&up(8)), at(&(&up(16) * 2)));
        assert!(a <= b);
        assert_eq!(a == 0, b == 0);
    }
}

#[test]
fn extents_of_0_and_1_broadcast_to_0() {
    let facts = Facts::default();
    let once = facts.broadcast(&n(), &m()).unwrap_or(i(-1));
    let value = |at: [i64; 2]| {
        let map = BTreeMap::from([(Name::from("n"), i(at[0])), (Name::from("m"), i(at[1]))]);
        once.subst(&map)
    };
    assert_eq!(value([0, 1]), i(0));
    assert_eq!(value([1, 0]), i(0));
    assert_eq!(value([1, 7]), i(7));
    assert_eq!(value([3, 3]), i(3));
    assert_eq!(facts.broadcast(&once, &n()), Some(once.clone()));
    assert_eq!(facts.broadcast(&m(), &once), Some(once));
}

#[test]
fn minimum_and_maximum_absorb() {
    let low = Dim::min(&n(), &i(512));
    assert_eq!(Dim::max(&n(), &low), n());
    assert_eq!(Dim::min(&n(), &Dim::max(&n(), &m())), n());
    // A slice of an axis beside the axis: what is 0 where the axis is broadcasts to the axis.
    let facts = Facts::default();
    assert_eq!(facts.broadcast(&n(), &low), Some(n()));
    assert_eq!(facts.broadcast(&low, &n()), Some(n()));
    // min(n, m) is 0 where m is, and n is not then.
    assert_ne!(facts.broadcast(&n(), &Dim::min(&n(), &m())), Some(n()));
}

#[test]
fn what_a_minimum_leaves_is_a_maximum() {
    let first = Dim::min(&n(), &i(1));
    let others = n() - first.clone();
    assert_eq!(others, Dim::max(&i(0), &(n() - 1)));
    assert_eq!(first + others, n());
    let pair = Dim::min(&n(), &m());
    let forms = [
        n() + 3 - pair.clone(),
        n() * 2 + m() - pair.clone() * 2,
        pair.clone() * 3 + Dim::max(&i(0), &(m() - n())) * 3 + n(),
        n() - pair.clone() + m() - pair,
    ];
    assert_eq!(forms[1], Dim::max(&i(0), &(n() - m())) * 2 + m());
    assert_eq!(forms[2], m() * 3 + n());
    for (x, y) in (0..6).flat_map(|x| (0..6).map(move |y| (x, y))) {
        let value = |name: &Name| Some(if *name == *"n" { x } else { y });
        let got = forms.each_ref().map(|form| form.eval(&value));
        let least = x.min(y);
        let wanted = [
            x + 3 - least,
            2 * x + y - 2 * least,
            3 * y + x,
            x + y - 2 * least,
        ];
        assert_eq!(got, wanted.map(Some), "n = {x}, m = {y}");
    }
}

#[test]
fn substitution_simplifies() {
    let map = BTreeMap::from([(Name::from("n"), i(12))]);
    assert_eq!((n().floor_div(&i(5)) + m()).subst(&map), m() + 2);
}

#[test]
fn facts_decide() {
    let mut facts = Facts::default();
    assert_eq!(facts.prove_eq(&(n() + 1), &i(0)), Some(false));
    assert_eq!(facts.prove_eq(&n(), &m()), None);
    assert_eq!(facts.prove_eq(&(n() * 2), &(m() * 2 + 1)), Some(false));
    assert_eq!(
        facts.prove_le(&(n().floor_div(&i(8)) * 8), &n()),
        Some(true)
    );
    assert_eq!(facts.prove_lt(&n().floor_mod(&i(8)), &i(8)), Some(true));
    assert_eq!(facts.prove_le(&n(), &Dim::max(&n(), &m())), Some(true));
    facts.set(
        "n",
        SymbolFacts {
            min: Some(1),
            max: Some(64),
            multiple_of: 8,
        },
    );
    assert_eq!(facts.prove_eq(&n().floor_mod(&i(4)), &i(0)), Some(true));
    assert_eq!(
        facts.prove_eq(&(n().floor_div(&i(8)) * 8), &n()),
        Some(true)
    );
    assert_eq!(
        facts.bounds(&n()),
        Range {
            lo: Some(8),
            hi: Some(64)
        }
    );
    assert_eq!(
        facts.bounds(&(n() * n() - n())),
        Range {
            lo: Some(0),
            hi: Some(4088)
        }
    );
    assert!(facts.assume_eq(&(m() * 2), &(Dim::sym("z") + n())));
    assert_eq!(facts.prove_eq(&(m() * 2 - n()), &Dim::sym("z")), Some(true));
    assert_eq!(facts.simplify(&n().floor_mod(&i(128))), n());
}

#[test]
fn equalities_hold_both_ways() {
    let mut facts = Facts::default();
    assert!(facts.assume_eq(&n(), &m()));
    assert_eq!(facts.prove_eq(&(n() * 3), &(m() * 3)), Some(true));
    assert!(facts.assume_eq(&n(), &i(4)));
    assert_eq!(facts.prove_eq(&m(), &i(4)), Some(true));
    assert!(!facts.assume_eq(&m(), &i(5)));
}

#[test]
fn text_reads_back() {
    let forms = [
        n() * 2 + 1,
        (n() + m()).floor_div(&i(4)) * 3 - n(),
        Dim::max(&(n() - 1), &m()),
        (n() * m()).floor_mod(&i(7)) * (n() + 1).floor_div(&i(3)),
        -n(),
    ];
    for form in forms {
        assert_eq!(Dim::from_expr(&form.to_expr()).ok(), Some(form));
    }
    assert_eq!(
        (Dim::sym("a") * (n() + 1).floor_div(&i(3))).to_string(),
        "a * ((n + 1) // 3)"
    );
}

#[test]
fn overflow_is_never_a_number() {
    let huge = i(i64::MAX) + 1;
    assert!(huge.overflows());
    assert_eq!(Facts::default().prove_eq(&huge, &huge), None);
}
