//! Facts on dims that a program states: `n = T.int64(min=1)` and `"irc.dims"`.

use irc_syntax::{Diagnostic, Expr, ExprKind, Name};

use crate::shape::{Facts, SymbolFacts};

/// `{"n": {"min": 1, "max": 2048, "multiple_of": 8}}`
pub(super) fn state_facts(attr: Option<&Expr>, known: &mut Facts, faults: &mut Vec<Diagnostic>) {
    let Some(ExprKind::Dict(symbols)) = attr.map(|attr| &attr.kind) else {
        return;
    };
    for (name, facts) in symbols {
        let (Some(name), ExprKind::Dict(facts)) = (name.as_str(), &facts.kind) else {
            continue;
        };
        let name = Name::from(name);
        for (key, value) in facts {
            state_fact(
                &name,
                key.as_str().unwrap_or_default(),
                value,
                known,
                faults,
            );
        }
    }
}

/// The same dictionary, of the symbols given, without those of which nothing is known beyond `plain`; `None` when
/// nothing is left.
pub fn dims_attr<'n>(
    names: impl IntoIterator<Item = &'n Name>,
    known: &Facts,
    plain: impl Fn(&Name) -> SymbolFacts,
) -> Option<Expr> {
    let stated: Vec<(String, Expr)> = names
        .into_iter()
        .filter_map(|name| {
            let facts = known.get(name);
            if facts == plain(name) {
                return None;
            }
            let mut items = Vec::new();
            for (key, number) in [("min", facts.min), ("max", facts.max)] {
                items.extend(number.map(|number| (key.to_owned(), Expr::int(i128::from(number)))));
            }
            if facts.multiple_of != 1 {
                let number = Expr::int(i128::from(facts.multiple_of));
                items.push(("multiple_of".to_owned(), number));
            }
            (!items.is_empty()).then(|| (name.to_string(), Expr::dict(items)))
        })
        .collect();
    (!stated.is_empty()).then(|| Expr::dict(stated))
}

/// One fact: `min`, `max` or `multiple_of` of a symbol.
pub(super) fn state_fact(
    name: &Name,
    key: &str,
    value: &Expr,
    known: &mut Facts,
    faults: &mut Vec<Diagnostic>,
) {
    if key.is_empty() || key == "dtype" {
        return;
    }
    let mut fault =
        |text: String| faults.push(Diagnostic::error("dim-fact", text).at(value.span, "this fact"));
    let Some(number) = value.as_int().and_then(|number| i64::try_from(number).ok()) else {
        return fault(format!("`{key}` of `{name}` is an integer"));
    };
    let mut facts = known.get(name);
    match key {
        "min" => facts.min = Some(number),
        "max" => facts.max = Some(number),
        "multiple_of" if number >= 1 => facts.multiple_of = number,
        "multiple_of" => return fault(format!("`multiple_of` of `{name}` is at least 1")),
        _ => {
            return fault(format!(
                "there is no fact `{key}`: `min`, `max` and `multiple_of` are"
            ));
        }
    }
    if let (Some(min), Some(max)) = (facts.min, facts.max)
        && min > max
    {
        return fault(format!("no value of `{name}` is between {min} and {max}"));
    }
    known.set(name, facts);
}
