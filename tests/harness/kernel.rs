//! `tests/kernel`: a prim_func whose marked region becomes vector IR, in the part `vir 8` or `vir 16` by the number of
//! lanes; `refused: …` says why the region is not one for the emitter.

use super::Outcome;
use super::sections::{Case, Part};
use irc::codegen::kernel::{Buffer, Env, lower, vir_text};
use irc::syntax::{DType, Expr, Func, SourceMap, Stmt, StmtKind, parse};
use std::path::Path;

/// The vector IR of the region, which reads back equal.
pub fn run(case: &Case, _path: &Path) -> Outcome {
    let source = &case.parts[0];
    let (module, diagnostics) = parse(&mut SourceMap::new(), "text", &source.text);
    if !diagnostics.is_empty() {
        return Err(format!("the text has faults: {diagnostics:?}"));
    }
    let func = module.funcs().next().ok_or("there is no function")?;
    let mut env = env_of(func)?;
    let region = find_region(&func.body, &mut env).ok_or("there is no region")?;
    let mut parts = vec![source.clone()];
    for part in &case.parts[1..] {
        let lanes = part
            .label
            .strip_prefix("vir ")
            .and_then(|lanes| lanes.parse().ok());
        let lanes = lanes.ok_or("parts are called `vir 8` or `vir 16`")?;
        let text = match lower(region, &env, lanes) {
            Err(why) => format!("refused: {why}"),
            Ok((func, args)) => {
                let text = vir_text::print(&func);
                let back =
                    vir_text::parse(&text).map_err(|line| format!("line {line}:\n{text}"))?;
                if back.body != func.body {
                    return Err(format!("the vector IR reads back changed:\n{text}"));
                }
                let args: Vec<String> = args.iter().map(|arg| format!("{arg:?}")).collect();
                format!("args {}\n{text}", args.join(", "))
            }
        };
        parts.push(Part::new(&part.label, &text));
    }
    Ok(parts)
}

/// What the parameters declare.
fn env_of(func: &Func) -> Result<Env, String> {
    let mut env = Env::default();
    for param in &func.params {
        let ty = param.ty.as_ref().ok_or("a parameter has no type")?;
        let name = param.name.clone();
        if ty.is_call_of("T.Buffer") {
            let mut args = ty.positional();
            let shape = args
                .next()
                .and_then(Expr::as_items)
                .ok_or("a buffer has no shape")?;
            let dtype = args.next().and_then(Expr::as_str).unwrap_or("float32");
            let dtype = DType::from_name(dtype).ok_or("no such dtype")?;
            env.buffers.insert(
                name,
                Buffer {
                    dtype,
                    shape: shape.to_vec(),
                    strides: None,
                },
            );
        } else {
            let path = ty.as_path().ok_or("not a scalar type")?;
            let dtype = DType::from_name(path.trim_start_matches("T.")).ok_or("no such dtype")?;
            env.scalars.insert(name, dtype);
        }
    }
    Ok(env)
}

/// The statements of the first block; loops around it are integers in scope.
fn find_region<'f>(stmts: &'f [Stmt], env: &mut Env) -> Option<&'f [Stmt]> {
    stmts.iter().find_map(|stmt| match &stmt.kind {
        StmtKind::With { body, .. } => Some(body.as_slice()),
        StmtKind::For { target, body, .. } => {
            env.scalars.insert(target.as_name()?.clone(), DType::I64);
            find_region(body, env)
        }
        _ => None,
    })
}
