//! Every example of the library has a type, and both sides of its claims agree.

use irc_syntax::{BinaryOp, Expr, ExprKind, SourceMap, Stmt, StmtKind, parse};

use super::check;
use crate::library::Library;

/// The statements of the examples in a docstring.
fn example(doc: &str) -> String {
    let mut text = String::new();
    let mut inside = false;
    let mut depth = None;
    for line in doc.lines() {
        if line.trim() == "Example:" {
            inside = true;
            continue;
        }
        if inside && line.trim().is_empty() {
            inside = false;
        }
        if inside {
            // The docstring may or may not have been dedented; the first line says by how much.
            let indent = *depth.get_or_insert(line.len() - line.trim_start().len());
            text.push_str("    ");
            text.push_str(line.get(indent..).unwrap_or_default());
            text.push('\n');
        }
    }
    text
}

#[test]
fn examples_have_types() {
    let lib = Library::load();
    let mut faults = Vec::new();
    for (path, fault) in lib.faults() {
        faults.push(format!("{path}: {}", fault.message));
    }
    for template in lib.templates() {
        let body = example(template.func.doc.as_deref().unwrap_or(""));
        if body.is_empty() {
            continue;
        }
        let mut sources = SourceMap::new();
        let text = format!("@R.function\ndef main():\n{body}    return x\n");
        let (mut module, parsed) = parse(&mut sources, "example", &text);
        for func in module.funcs_mut() {
            let body = std::mem::take(&mut func.body);
            func.body = body
                .into_iter()
                .enumerate()
                .flat_map(|(at, stmt)| claims(at, stmt))
                .collect();
        }
        let (info, found) = check(&module, &lib);
        let vars = info.funcs.values().flat_map(|func| &func.vars);
        for (name, left) in vars.clone() {
            let Some(at) = name.strip_prefix("left") else {
                continue;
            };
            let right = vars
                .clone()
                .find(|(name, _)| name.strip_prefix("right") == Some(at));
            if let Some((_, right)) = right
                // What depends on data is as long as it is.
                && super::symbols_of(left).is_empty()
                && left.to_string() != right.to_string()
            {
                faults.push(format!(
                    "{}: {left} is said to equal {right}",
                    template.op()
                ));
            }
        }
        for fault in parsed.into_iter().chain(found) {
            if fault.message == "`x` is not defined" {
                continue;
            }
            let place = fault
                .primary
                .map(|label| sources.text(label.span).to_string());
            faults.push(format!(
                "{}: {} [{}] {:?} {:?}",
                template.op(),
                fault.message,
                fault.code,
                place,
                fault.notes
            ));
        }
    }
    assert!(
        faults.is_empty(),
        "{} faults\n{}",
        faults.len(),
        faults.join("\n")
    );
}

fn claims(at: usize, stmt: Stmt) -> Vec<Stmt> {
    match stmt.kind {
        StmtKind::Expr(Expr {
            kind:
                ExprKind::Binary {
                    op: BinaryOp::Eq,
                    lhs,
                    rhs,
                },
            ..
        }) => {
            vec![
                Stmt::bind(format!("left{at}"), *lhs),
                Stmt::bind(format!("right{at}"), *rhs),
            ]
        }
        kind => vec![Stmt {
            kind,
            trivia: stmt.trivia,
            span: stmt.span,
        }],
    }
}

#[test]
fn corpus() {
    let Ok(folder) = std::env::var("IRC_CORPUS") else {
        return;
    };
    let lib = Library::load();
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == "py"))
        .collect();
    paths.sort();
    let mut count = 0;
    let mut time = std::time::Duration::ZERO;
    for path in &paths {
        let text = std::fs::read_to_string(path).unwrap();
        let mut sources = SourceMap::new();
        let (module, parsed) = parse(&mut sources, "f", &text);
        let t = std::time::Instant::now();
        let (_, found) = check(&module, &lib);
        time += t.elapsed();
        for fault in parsed.into_iter().chain(found) {
            count += 1;
            if count < 120 {
                let place = fault.primary.map(|label| {
                    format!(
                        "{}: {}",
                        sources.place(label.span),
                        sources
                            .text(label.span)
                            .chars()
                            .take(150)
                            .collect::<String>()
                    )
                });
                println!(
                    "{}: {} [{}] {:?} {:?}",
                    path.file_name().unwrap().display(),
                    fault.message,
                    fault.code,
                    place,
                    fault.notes
                );
            }
        }
    }
    println!("{count} faults in {} files, {time:?}", paths.len());
}
