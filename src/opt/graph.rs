//! Reading and rewriting graph functions binding by binding; what every pass of this folder stands on.
//!
//! After `normalize` a block is a list of `name = R.op(…)`, `a, b = …`, `if`, effects and one `return`.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::uses::{bound_names, for_each_expr, for_each_name, for_each_read, names_read};
use irc_syntax::visit::{walk_expr, walk_func};
use irc_syntax::{Arg, Expr, ExprKind, Func, FuncKind, Module, Name, Stmt, StmtKind, Visit};

/// How often each name is read in a block, nested blocks included.
pub fn count_uses(stmts: &[Stmt]) -> BTreeMap<Name, usize> {
    let mut counts = BTreeMap::new();
    for_each_read(stmts, &mut |expr| {
        for_each_name(expr, &mut |name| {
            *counts.entry(name.clone()).or_insert(0) += 1
        });
    });
    counts
}

/// The members of the value a block returns: one name, or the elements of a tuple.
pub fn returned(stmts: &[Stmt]) -> Vec<&Expr> {
    let Some(StmtKind::Return(Some(value))) = stmts.last().map(|stmt| &stmt.kind) else {
        return Vec::new();
    };
    match &value.kind {
        ExprKind::Tuple { items, .. } => items.iter().collect(),
        _ => vec![value],
    }
}

/// Names that show what a kernel of a block writes: its results and reshapes of them, with the name that it writes.
/// `is_view` decides which reshapes count, given that name and the reshape.
pub fn kernel_views(
    stmts: &[Stmt],
    is_kernel: impl Fn(&Expr) -> bool,
    is_view: impl Fn(&Name, &Expr) -> bool,
) -> BTreeMap<Name, Name> {
    let mut roots: BTreeMap<Name, Name> = BTreeMap::new();
    for stmt in stmts {
        let StmtKind::Assign { target, value, .. } = &stmt.kind else {
            continue;
        };
        if is_kernel(value) {
            let written = bound_names(target).into_iter();
            roots.extend(written.map(|name| (name.clone(), name)));
        } else if value.is_call_of("R.reshape")
            && let (Some(name), Some(source)) = (target.as_name(), value.positional().next())
            && let Some(root) = source.as_name().and_then(|source| roots.get(source))
            && is_view(root, value)
        {
            roots.insert(name.clone(), root.clone());
        }
    }
    roots
}

/// Whether a call only computes: everything but calls for an effect.
pub fn is_pure(value: &Expr) -> bool {
    value.as_call().is_none_or(|(path, _)| {
        !matches!(
            path.as_str(),
            "R.print" | "R.assert_op" | "R.call_packed" | "R.output"
        ) && !path.starts_with("R.memory.")
            && !path.starts_with("R.builtin.")
    })
}

/// The positional arguments of a call, to change.
pub fn args_mut(value: &mut Expr) -> &mut [Arg] {
    if let ExprKind::Call { args, .. } = &mut value.kind {
        args
    } else {
        &mut []
    }
}

/// Runs `rewrite` on the body of every graph function and on the blocks inside it, innermost first.
pub fn for_each_block(module: &mut Module, rewrite: &mut impl FnMut(&Name, &mut Vec<Stmt>)) {
    fn walk(name: &Name, stmts: &mut Vec<Stmt>, rewrite: &mut impl FnMut(&Name, &mut Vec<Stmt>)) {
        for stmt in stmts.iter_mut() {
            if let StmtKind::If { then, orelse, .. } = &mut stmt.kind {
                walk(name, then, rewrite);
                walk(name, orelse, rewrite);
            }
        }
        rewrite(name, stmts);
    }
    for func in module
        .funcs_mut()
        .filter(|func| func.kind == FuncKind::Graph)
    {
        let name = func.name.clone();
        walk(&name, &mut func.body, rewrite);
    }
}

/// The functions of a module that those named call, themselves included, through others too.
pub fn reached(module: &Module, mut found: BTreeSet<Name>) -> BTreeSet<Name> {
    let mut work: Vec<Name> = found.iter().cloned().collect();
    while let Some(name) = work.pop() {
        let Some(func) = module.find_func(&name) else {
            continue;
        };
        for_each_expr(&func.body, &mut |expr| {
            if let ExprKind::Attr { value, name } = &expr.kind
                && value
                    .as_name()
                    .is_some_and(|base| *base == *"cls" || module.name.as_ref() == Some(base))
                && found.insert(name.clone())
            {
                work.push(name.clone());
            }
        });
    }
    found
}

/// Every name that a function binds or declares, parameters included.
pub fn names_of(func: &Func) -> BTreeSet<Name> {
    struct Bound(BTreeSet<Name>);
    impl Visit for Bound {
        fn visit_func(&mut self, func: &Func) {
            self.0.insert(func.name.clone());
        }

        fn visit_target(&mut self, target: &Expr) {
            self.0.extend(bound_names(target));
        }

        fn visit_expr(&mut self, _: &Expr) {}
    }
    let mut bound = Bound(func.params.iter().map(|param| param.name.clone()).collect());
    bound.visit_body(&func.body);
    bound.0
}

/// Makes parameters of the symbols that a function reads and that no dim of a parameter is, and returns them in order:
/// a call has to pass them.
pub fn bind_free_symbols(func: &mut Func) -> Vec<Name> {
    let mut bound = names_of(func);
    let mut read = BTreeSet::new();
    for param in &func.params {
        let Some(ty) = &param.ty else { continue };
        let dims = ty
            .positional()
            .next()
            .and_then(Expr::as_items)
            .unwrap_or_default();
        bound.extend(dims.iter().filter_map(|dim| dim.as_name().cloned()));
        read.extend(names_read(ty));
    }
    for_each_read(&func.body, &mut |expr| read.extend(names_read(expr)));
    read.extend(func.ret.iter().flat_map(names_read));
    let free: Vec<Name> = read
        .into_iter()
        .filter(|name| !bound.contains(name))
        .collect();
    for name in &free {
        func.params
            .push(irc_syntax::Param::new(name, Expr::path("T.int64")));
    }
    free
}

/// The functions of the graph level, each after the bodies of the loops that it runs.
pub fn bodies_first(module: &Module) -> Vec<Name> {
    struct Bodies(Vec<Name>);
    impl Visit for Bodies {
        fn visit_expr(&mut self, expr: &Expr) {
            self.0.extend(loop_call(expr).map(|call| call.body));
            walk_expr(self, expr);
        }
    }
    fn place(module: &Module, func: &Func, done: &mut BTreeSet<Name>, order: &mut Vec<Name>) {
        if func.kind != FuncKind::Graph || !done.insert(func.name.clone()) {
            return;
        }
        let mut bodies = Bodies(Vec::new());
        walk_func(&mut bodies, func);
        for body in bodies.0.iter().filter_map(|name| module.find_func(name)) {
            place(module, body, done, order);
        }
        order.push(func.name.clone());
    }
    let (mut done, mut order) = (BTreeSet::new(), Vec::new());
    module
        .funcs()
        .for_each(|func| place(module, func, &mut done, &mut order));
    order
}

/// `I.while_loop(cls.body, n, c, (carried…), (captured…), …)`
pub struct LoopCall<'e> {
    /// The body.
    pub body: Name,
    /// The parameter of the body that takes the first captured value.
    pub first: usize,
    /// The captured values.
    pub captured: &'e [Expr],
}

/// Where the captured values stand in the call.
pub const CAPTURED: usize = 4;

/// Reads a call of a loop that captures values.
pub fn loop_call(expr: &Expr) -> Option<LoopCall<'_>> {
    let (path, args) = expr.as_call()?;
    if path != "I.while_loop" || args.iter().take(CAPTURED + 1).any(|arg| arg.name.is_some()) {
        return None;
    }
    let body = args.first()?.value.as_path()?;
    Some(LoopCall {
        body: Name::from(body.strip_prefix("cls.")?),
        first: 1 + args.get(3)?.value.as_items()?.len(),
        captured: args.get(CAPTURED)?.value.as_items()?,
    })
}

/// The elements of a call's positional tuple.
pub fn items_mut(expr: &mut Expr, at: usize) -> Option<&mut Vec<Expr>> {
    let ExprKind::Call { args, .. } = &mut expr.kind else {
        return None;
    };
    match &mut args.get_mut(at)?.value.kind {
        ExprKind::Tuple { items, .. } | ExprKind::List(items) => Some(items),
        _ => None,
    }
}
