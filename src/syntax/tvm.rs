//! The tree as Apache TVM spells it: what only irc says becomes what TVM keeps.
//!
//!     n = T.int64(min=1, max=8)      →      R.func_attr({"irc.dims": {"n": {"max": 8, "min": 1}}})
//!                                           n = T.int64()
//!     R.const("-inf", "float32")     →      R.const(-1e999, "float32")
//!
//! Operators that TVM does not have are not looked at here. Spelling of single tokens is the printer's.

use crate::ast::*;
use crate::visit::{VisitMut, walk_expr_mut, walk_func_mut};

/// The comments at the head of a text, as TVM prints them.
const HEADER: [&str; 3] = [
    " from tvm.script import ir as I",
    " from tvm.script import tirx as T",
    " from tvm.script import relax as R",
];

/// The same module in TVM's spelling.
pub fn for_tvm(module: &Module) -> Module {
    let mut module = module.clone();
    let mut speller = Speller;
    for func in module.funcs_mut() {
        speller.visit_func(func);
    }
    add_header(&mut module);
    module
}

/// Puts TVM's header comments at the top, once.
fn add_header(module: &mut Module) {
    let trivia = match module.prelude.first_mut() {
        Some(stmt) => &mut stmt.trivia,
        None if module.name.is_some() => &mut module.trivia,
        None => match module.items.first_mut() {
            Some(Item::Func(func)) => &mut func.trivia,
            Some(Item::Stmt(stmt)) => &mut stmt.trivia,
            None => return,
        },
    };
    let is_header = |line: &TriviaLine| matches!(line, TriviaLine::Comment(text) if text.trim_start().starts_with("from "));
    if !trivia.leading.iter().any(is_header) {
        let mut leading: Vec<TriviaLine> = HEADER
            .iter()
            .map(|text| TriviaLine::Comment((*text).into()))
            .collect();
        leading.push(TriviaLine::Blank);
        leading.append(&mut trivia.leading);
        trivia.leading = leading;
    }
}

struct Speller;

impl VisitMut for Speller {
    fn visit_func(&mut self, func: &mut Func) {
        walk_func_mut(self, func);
        let mut facts = Vec::new();
        for stmt in &mut func.body {
            if let StmtKind::Assign { target, value, .. } = &mut stmt.kind
                && let Some(name) = target.as_name()
                && let Some(fact) = take_facts(value)
            {
                facts.push((name.to_string(), fact));
            }
        }
        if func.kind == FuncKind::Graph && !facts.is_empty() {
            add_attr(func, "irc.dims", Expr::dict(facts));
        }
    }

    fn visit_expr(&mut self, expr: &mut Expr) {
        walk_expr_mut(self, expr);
        if expr.is_call_of("R.const")
            && let ExprKind::Call { args, .. } = &mut expr.kind
            && let Some(first) = args.first_mut()
            && let Some(value) = first.value.as_str().and_then(infinity)
        {
            first.value = Expr::float(value);
        }
    }
}

fn infinity(text: &str) -> Option<f64> {
    match text {
        "inf" => Some(f64::INFINITY),
        "-inf" => Some(f64::NEG_INFINITY),
        "nan" => Some(f64::NAN),
        _ => None,
    }
}

/// Takes the keywords of `T.int64(min=…)`, as a dictionary.
fn take_facts(value: &mut Expr) -> Option<Expr> {
    if !value.is_call_of("T.int64") {
        return None;
    }
    let ExprKind::Call { args, .. } = &mut value.kind else {
        return None;
    };
    if args.is_empty() || args.iter().any(|arg| arg.name.is_none()) {
        return None;
    }
    let mut facts: Vec<(String, Expr)> = std::mem::take(args)
        .into_iter()
        .filter_map(|arg| Some((arg.name?.to_string(), arg.value)))
        .collect();
    facts.sort_by(|(a, _), (b, _)| a.cmp(b));
    Some(Expr::dict(facts))
}

/// Adds a key to `R.func_attr`, in the order of keys.
fn add_attr(func: &mut Func, key: &str, value: Expr) {
    for stmt in &mut func.body {
        if let StmtKind::Expr(call) = &mut stmt.kind
            && call.is_call_of("R.func_attr")
            && let ExprKind::Call { args, .. } = &mut call.kind
            && let Some(ExprKind::Dict(items)) = args.first_mut().map(|arg| &mut arg.value.kind)
        {
            if items.iter().all(|(name, _)| name.as_str() != Some(key)) {
                items.push((Expr::str(key), value));
                items.sort_by(|(a, _), (b, _)| a.as_str().cmp(&b.as_str()));
            }
            return;
        }
    }
    let attrs = Expr::dict([(key.to_string(), value)]);
    func.body
        .insert(0, Stmt::expr(Expr::call("R.func_attr", [attrs])));
}
