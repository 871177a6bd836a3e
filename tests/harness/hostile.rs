//! Texts made to break a reader: deep nesting, and many faults. Each ends quickly and says what is wrong.

use irc::syntax::{Colour, Format, SourceMap, parse, print, render};
use libtest_mimic::Trial;

const DEEP: usize = 20_000;

/// The text of a name, and the code of a fault that must be among those found; none for a sound text.
fn texts() -> Vec<(&'static str, String, Option<&'static str>)> {
    let expr = |text: String| format!("x = {text}\n");
    let deep = Some("too-deep");
    let blocks = |n: usize| {
        (0..n)
            .map(|depth| format!("{}if a:\n", " ".repeat(depth)))
            .collect::<String>()
    };
    vec![
        (
            "parentheses",
            expr("(".repeat(DEEP) + &")".repeat(DEEP)),
            deep,
        ),
        ("open_brackets", expr("[".repeat(DEEP)), deep),
        ("signs", expr("-".repeat(DEEP) + "1"), deep),
        ("nots", expr("not ".repeat(DEEP) + "1"), deep),
        ("sums", expr("1".to_string() + &" + 1".repeat(DEEP)), deep),
        ("powers", expr("a".to_string() + &"**a".repeat(DEEP)), deep),
        ("members", expr("a".to_string() + &".b".repeat(DEEP)), deep),
        ("calls", expr("a".to_string() + &"()".repeat(DEEP)), deep),
        (
            "brackets_with_tails",
            expr("(".repeat(200) + "a" + &format!("){}", " + a".repeat(200)).repeat(200)),
            deep,
        ),
        (
            "a_sum_of_products",
            expr("a * b * c * d".to_string() + &" + a * b * c * d".repeat(200)),
            None,
        ),
        (
            "choices",
            expr("a".to_string() + &" if a else a".repeat(DEEP)),
            deep,
        ),
        (
            "elifs",
            "if a:\n    pass\n".to_string() + &"elif a:\n    pass\n".repeat(DEEP),
            deep,
        ),
        ("blocks", blocks(1000), deep),
        ("long_list", expr(format!("[{}]", "1,".repeat(DEEP))), None),
        (
            "deep_enough",
            expr("(".repeat(200) + "a" + &")".repeat(200)),
            None,
        ),
        ("bad_lines", "x = 1 1\n".repeat(1000), Some("syntax")),
        ("bad_characters", "$\n".repeat(1000), Some("bad-character")),
        ("zeros", "\0".repeat(DEEP), Some("bad-character")),
        (
            "open_string",
            expr("\"".to_string() + &"a".repeat(DEEP)),
            Some("unclosed-string"),
        ),
        ("only_a_sign", "-".into(), Some("syntax")),
        ("only_a_colon", ":".into(), Some("syntax")),
        ("empty", String::new(), None),
    ]
}

/// One test a text.
pub fn trials() -> Vec<Trial> {
    let trial = |(name, text, code): (&'static str, String, Option<&'static str>)| {
        Trial::test(format!("hostile:{name}"), move || {
            let mut sources = SourceMap::new();
            let (module, faults) = parse(&mut sources, "text", &text);
            print(&module);
            let shown = &faults[..faults.len().min(3)];
            render(shown, &sources, Format::Full, Colour::Off);
            let found = faults.iter().any(|fault| Some(fault.code) == code);
            if found || (code.is_none() && faults.is_empty()) {
                return Ok(());
            }
            let codes: Vec<&str> = shown.iter().map(|fault| fault.code).collect();
            Err(format!("found {codes:?}, wanted {code:?}").into())
        })
    };
    texts().into_iter().map(trial).collect()
}
