//! A report as one HTML file that needs nothing else, light or dark as the reader's system is.

use crate::diff::{Change, Report, Verdict};

use super::text::{detail, subject, tally};

/// Nothing is loaded from anywhere.
const HEAD: &str = "<!doctype html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width\">
<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">
<title>irc diff</title>
<style>
:root { color-scheme: light dark; --fg: #1b1f24; --bg: #fff; --dim: #57606a; --line: #d0d7de;
  --add: #116329; --del: #a40e26; --mod: #0550ae; }
@media (prefers-color-scheme: dark) { :root { --fg: #e6edf3; --bg: #0d1117; --dim: #9198a1;
  --line: #3d444d; --add: #3fb950; --del: #ff7b72; --mod: #79c0ff; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--fg); background: var(--bg);
  max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin: 1.5rem 0 .3rem; }
code { font: 13px/1.5 ui-monospace, monospace; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; }
td { border-top: 1px solid var(--line); padding: .3rem .5rem; vertical-align: top; }
td:first-child { width: 5.5rem; font-weight: 600; }
.added { color: var(--add); } .removed { color: var(--del); } .changed, .renamed { color: var(--mod); }
.dim { color: var(--dim); } ul { margin: .2rem 0; padding-left: 1.1rem; }
</style>
</head>
<body>
";

/// The report.
pub fn write(report: &Report, a: &str, b: &str) -> String {
    let mut out = HEAD.to_owned();
    out.push_str(&format!(
        "<h1><code>{}</code> → <code>{}</code></h1>\n",
        escape(a),
        escape(b)
    ));
    let verdict = match (report.is_empty(), report.reason.as_str()) {
        (true, _) => "equal".to_owned(),
        (false, "") => report.verdict.name().to_owned(),
        (false, reason) => format!("{}: {}", report.verdict.name(), escape(reason)),
    };
    out.push_str(&format!("<p><strong>{verdict}</strong></p>\n"));
    section("Interface", &report.interface, &mut out);
    for func in &report.functions {
        section(&func.name, &func.changes, &mut out);
        for line in &func.follows {
            out.push_str(&format!("<p class=\"dim\">{}</p>\n", escape(line)));
        }
    }
    section("Weights", &report.weights, &mut out);
    for note in &report.notes {
        out.push_str(&format!("<p class=\"dim\">{}</p>\n", escape(note)));
    }
    out.push_str("</body>\n</html>\n");
    out
}

fn section(title: &str, changes: &[Change], out: &mut String) {
    if changes.is_empty() {
        return;
    }
    let title = escape(title);
    out.push_str(&format!(
        "<h2>{title} <span class=\"dim\">{}</span></h2>\n<table>\n",
        tally(changes)
    ));
    for change in changes {
        let kind = change.kind.name();
        let mut cell = format!("<code>{}</code>", escape(&subject(change)));
        if change.verdict > Verdict::Patch {
            cell.push_str(&format!(" <strong>{}</strong>", change.verdict.name()));
        }
        if !change.note.is_empty() {
            cell.push_str(&format!(
                " <span class=\"dim\"><code>{}</code></span>",
                escape(&change.note)
            ));
        }
        if !change.details.is_empty() {
            cell.push_str("<ul>");
            for item in &change.details {
                cell.push_str(&format!("<li><code>{}</code></li>", escape(&detail(item))));
            }
            cell.push_str("</ul>");
        }
        out.push_str(&format!(
            "<tr><td class=\"{kind}\">{kind}</td><td>{cell}</td></tr>\n"
        ));
    }
    out.push_str("</table>\n");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
