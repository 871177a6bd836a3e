//! A report as JSON, version 1: every change, whatever their number.

use serde_json::{Value, json};

use crate::diff::{Change, Report, Verdict};

/// The report, in two-space indentation.
pub fn write(report: &Report, a: &str, b: &str) -> String {
    let list = |changes: &[Change]| changes.iter().map(change).collect::<Vec<Value>>();
    let functions = report.functions.iter().map(|func| {
        json!({ "name": func.name, "changes": list(&func.changes), "follows": func.follows })
    });
    let value = json!({
        "v": 1,
        "a": a,
        "b": b,
        "equal": report.is_empty(),
        "verdict": report.verdict.name(),
        "reason": report.reason,
        "interface": list(&report.interface),
        "functions": functions.collect::<Vec<_>>(),
        "weights": list(&report.weights),
        "notes": report.notes,
    });
    format!("{value:#}\n")
}

fn change(change: &Change) -> Value {
    let details = change.details.iter().map(|detail| {
        json!({
            "aspect": detail.aspect.name(),
            "what": detail.what,
            "from": detail.from,
            "to": detail.to,
        })
    });
    // What has no name of its own is said by where it stands.
    let (name, inside) = match change.name.strip_prefix("in ") {
        Some(inside) => ("", Some(inside)),
        None => (change.name.as_str(), None),
    };
    let mut value = json!({
        "kind": change.kind.name(),
        "what": change.what,
        "name": name,
        "details": details.collect::<Vec<_>>(),
    });
    if let Some(inside) = inside {
        value["in"] = json!(inside);
    }
    if let Some(renamed) = &change.renamed {
        value["renamed"] = json!(renamed);
    }
    if !change.note.is_empty() {
        value["note"] = json!(change.note);
    }
    if change.verdict > Verdict::Patch {
        value["verdict"] = json!(change.verdict.name());
    }
    value
}
