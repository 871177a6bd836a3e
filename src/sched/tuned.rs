//! Takes over what was measured: gives prim_funcs the choices that a log holds for them.
//!
//!     I.module_attrs({"irc.tuned": {"5c1f0e…": {"rows": 4}}})    →    T.func_attr({"irc.key": "5c1f0e…", "irc.schedule": {"rows": 4}})
//!
//! A key is a hash of a prim_func in block form, of which parameters are weights, and of the instruction set; names of
//! functions, variables and blocks do not count, so the same kernel of another model has the same key. Without the
//! attribute the pass does nothing; with an empty dictionary it notes keys.

use std::collections::BTreeMap;

use irc_syntax::visit::walk_expr_mut;
use irc_syntax::{
    Expr, ExprKind, Func, FuncKind, Item, Module, Name, Stmt, StmtKind, VisitMut, print,
};

use super::choice::{ATTR, Choice};
use super::pack::weight_params;
use crate::check::stage::Level;
use crate::opt::{Changed, Pass, PassCx, set_func_attr};
use crate::tensor::sha256_bytes;

/// The pass.
pub const PASS: Pass = Pass {
    name: "tuned",
    run,
    from: Level::Loops,
    to: Level::Loops,
    summary: "give prim_funcs the choices of a tuning log",
    args: &[],
};

/// The attribute of modules that holds choices by key.
pub const LOG: &str = "irc.tuned";

/// The attribute of prim_funcs that holds their key.
pub const KEY: &str = "irc.key";

fn run(module: &mut Module, cx: &mut PassCx) -> Changed {
    let Some(ExprKind::Dict(items)) = module.attr(LOG).map(|log| &log.kind) else {
        return Changed::No;
    };
    let log: BTreeMap<String, Choice> = items
        .iter()
        .filter_map(|(key, choice)| Some((key.as_str()?.to_owned(), Choice::from_expr(choice)?)))
        .collect();
    let weights = weight_params(module, cx);
    let cpu = format!("{:?}", cx.target.cpu);
    let mut changed = false;
    for func in module.funcs_mut() {
        if func.kind != FuncKind::Loops || func.attr(KEY).is_some() {
            continue;
        }
        let of_func = weights.get(&func.name);
        let places: Vec<usize> = (0..func.params.len())
            .filter(|&at| of_func.is_some_and(|names| names.contains(&func.params[at].name)))
            .collect();
        let key = key_of(func, &places, &cpu);
        if let Some(choice) = log.get(&key).filter(|_| func.attr(ATTR).is_none()) {
            set_func_attr(func, ATTR, choice.to_expr());
        }
        set_func_attr(func, KEY, Expr::str(key));
        changed = true;
    }
    Changed::from(changed)
}

/// The key of a prim_func whose parameters at these places are weights.
fn key_of(func: &Func, weights: &[usize], cpu: &str) -> String {
    let mut func = func.clone();
    func.body.retain(
        |stmt| !matches!(&stmt.kind, StmtKind::Expr(call) if call.is_call_of("T.func_attr")),
    );
    let mut names = Anonymous::default();
    func.name = Name::from("kernel");
    func.decorator.clear();
    for param in &mut func.params {
        param.name = names.of(&param.name);
    }
    irc_syntax::visit::walk_func_mut(&mut names, &mut func);
    let module = Module {
        items: vec![Item::Func(func)],
        ..Module::default()
    };
    let text = format!("{cpu} {weights:?}\n{}", print(&module));
    let mut key = sha256_bytes(text.as_bytes());
    key.truncate(16);
    key
}

/// Names by the order of their first appearance.
#[derive(Default)]
struct Anonymous(BTreeMap<Name, Name>);

impl Anonymous {
    fn of(&mut self, name: &Name) -> Name {
        let fresh = Name::from(format!("v{}", self.0.len()));
        self.0.entry(name.clone()).or_insert(fresh).clone()
    }
}

impl VisitMut for Anonymous {
    fn visit_stmt(&mut self, stmt: &mut Stmt) {
        stmt.trivia = Default::default();
        irc_syntax::visit::walk_stmt_mut(self, stmt);
    }

    fn visit_expr(&mut self, expr: &mut Expr) {
        expr.trivia = None;
        let is_block = expr.is_call_of("T.sblock");
        match &mut expr.kind {
            ExprKind::Call { func, args } => {
                // Operators keep their names.
                if func.as_path().is_none_or(|path| !path.starts_with("T.")) {
                    self.visit_expr(func);
                }
                args.retain(|_| !is_block);
                for arg in args {
                    self.visit_expr(&mut arg.value);
                }
            }
            ExprKind::Name(name) => *name = self.of(name),
            _ => walk_expr_mut(self, expr),
        }
    }
}
