//! Literals: their text to values, and values to the shortest text that reads back the same.

use std::fmt::Write;

/// The value of an integer literal; `None` when it needs more than 127 bits.
pub fn parse_int(text: &str) -> Option<i128> {
    let digits = text.replace('_', "");
    let radix = match digits.get(..2) {
        Some("0x" | "0X") => 16,
        Some("0b" | "0B") => 2,
        Some("0o" | "0O") => 8,
        _ => return digits.parse().ok(),
    };
    i128::from_str_radix(&digits[2..], radix).ok()
}

/// The value of a float literal.
pub fn parse_float(text: &str) -> f64 {
    if text.contains('_') {
        text.replace('_', "").parse().unwrap_or(f64::NAN)
    } else {
        text.parse().unwrap_or(f64::NAN)
    }
}

/// Appends the value of a string literal with its quotes.
///
/// # Errors
/// Gives the first escape that is none.
pub fn parse_str(text: &str, value: &mut String) -> Result<(), String> {
    let width = if text.starts_with("\"\"\"") || text.starts_with("'''") {
        3
    } else {
        1
    };
    let inner = text.get(width..text.len() - width).unwrap_or_default();
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        value.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let used = parse_escape(rest, value).ok_or_else(|| {
            let shown: String = rest.chars().take(1).collect();
            format!("\\{shown}")
        })?;
        rest = &rest[used..];
    }
    value.push_str(rest);
    Ok(())
}

/// Appends what an escape stands for; gives the bytes it takes after the backslash.
fn parse_escape(rest: &str, value: &mut String) -> Option<usize> {
    let plain = |value: &mut String, c| {
        value.push(c);
        Some(1)
    };
    match rest.chars().next()? {
        '\n' => Some(1),
        '\r' => Some(if rest.starts_with("\r\n") { 2 } else { 1 }),
        'n' => plain(value, '\n'),
        't' => plain(value, '\t'),
        'r' => plain(value, '\r'),
        'a' => plain(value, '\u{7}'),
        'b' => plain(value, '\u{8}'),
        'f' => plain(value, '\u{c}'),
        'v' => plain(value, '\u{b}'),
        c @ ('\\' | '"' | '\'' | '/') => plain(value, c),
        'x' => parse_code(rest, 1, 2, 16, value),
        'u' => parse_code(rest, 1, 4, 16, value),
        'U' => parse_code(rest, 1, 8, 16, value),
        '0'..='7' => {
            let octal = rest
                .bytes()
                .take(3)
                .take_while(|byte| (b'0'..=b'7').contains(byte));
            parse_code(rest, 0, octal.count(), 8, value)
        }
        _ => None,
    }
}

fn parse_code(
    rest: &str,
    from: usize,
    len: usize,
    radix: u32,
    value: &mut String,
) -> Option<usize> {
    let digits = rest.get(from..from + len)?;
    let code = u32::from_str_radix(digits, radix).ok()?;
    value.push(char::from_u32(code)?);
    Some(from + len)
}

/// A docstring without the indentation of its lines and the blank lines around it.
pub fn clean_doc(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let indents = lines.iter().skip(1).filter(|line| !line.is_empty());
    let indent = indents
        .map(|line| line.len() - line.trim_start().len())
        .min()
        .unwrap_or(0);
    for line in lines.iter_mut().skip(1) {
        *line = line.get(indent..).unwrap_or_default();
    }
    if let Some(first) = lines.first_mut() {
        *first = first.trim_start();
    }
    while lines.last().is_some_and(|line| line.is_empty()) {
        lines.pop();
    }
    let first = lines.iter().position(|line| !line.is_empty()).unwrap_or(0);
    lines[first..].join("\n")
}

/// Appends a float: the shortest decimal text that reads back to the same bits; `I.inf` and `I.nan` else.
pub fn write_float(value: f64, out: &mut String) {
    if value.is_nan() {
        out.push_str("I.nan");
    } else if value.is_infinite() {
        out.push_str(if value > 0.0 { "I.inf" } else { "-I.inf" });
    } else {
        let start = out.len();
        let _ = write!(out, "{value:?}");
        // Python writes the sign and two digits of an exponent; `1e16` reads well without.
        debug_assert!(out[start..].contains(['.', 'e']));
    }
}

/// Appends a string in double quotes on one line.
pub fn write_str(value: &str, out: &mut String) {
    out.push('"');
    for c in value.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            _ => write_char(c, out),
        }
    }
    out.push('"');
}

/// Appends a string in triple quotes, with its line ends as they are.
pub fn write_triple(value: &str, out: &mut String) {
    out.push_str("\"\"\"");
    for c in value.chars() {
        match c {
            '\n' => out.push('\n'),
            _ => write_char(c, out),
        }
    }
    out.push_str("\"\"\"");
}

fn write_char(c: char, out: &mut String) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\t' => out.push_str("\\t"),
        '\r' => out.push_str("\\r"),
        c if (c as u32) < 0x20 || c as u32 == 0x7f => {
            let _ = write!(out, "\\x{:02x}", c as u32);
        }
        c => out.push(c),
    }
}
