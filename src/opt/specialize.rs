//! Makes versions of public functions for sizes that are asked for often.
//!
//!     I.module_attrs({"irc.specialize": {"n": [1, 128]}})
//!
//!     def main(x: R.Tensor(("n", 4))): …    →    def main(x: R.Tensor(("n", 4))): R.func_attr({"irc.versions": {"main_n1": {"n": 1}, …}}) …
//!                                                def main_n1(x: R.Tensor((1, 4))): …
//!                                                def main_n128(x: R.Tensor((128, 4))): …
//!
//! A version computes the same. `main` compiled looks at its sizes first and goes on in the version that is made for
//! them, if there is one; versions can be called by their names as well. With several symbols there is a version for each
//! combination. It is done after the graph has been optimized, so that versions share the weights that were computed.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::names::NameSupply;
use irc_syntax::uses::for_each_subexpr;
use irc_syntax::visit::walk_expr_mut;
use irc_syntax::{
    Expr, ExprKind, Func, FuncKind, Item, Module, Name, Stmt, StmtKind, VisitMut, parse_expr_str,
};

use super::{Changed, Pass, PassCx, set_func_attr};
use crate::check::stage::Level;
use crate::shape::Dim;

/// The pass.
pub const PASS: Pass = Pass {
    name: "specialize",
    run,
    from: Level::Normal,
    to: Level::Normal,
    summary: "make versions of functions for sizes that are asked for often",
    args: &[],
};

/// The attribute of modules that says for which sizes.
pub const ATTR: &str = "irc.specialize";

/// The attribute of functions that names their versions, and their sizes.
pub const VERSIONS: &str = "irc.versions";

/// Sizes by symbol.
pub type Sizes = BTreeMap<Name, i64>;

fn run(module: &mut Module, _cx: &mut PassCx) -> Changed {
    let wanted = module.attr(ATTR).map(read_wanted).unwrap_or_default();
    let mut names = NameSupply::of_module(module);
    let mut added = Vec::new();
    for func in module.funcs_mut() {
        let is_public = func.kind == FuncKind::Graph && !func.is_private();
        if !is_public || func.attr(VERSIONS).is_some() {
            continue;
        }
        let symbols = symbols_of(func);
        let wanted = wanted.iter().filter(|(name, _)| symbols.contains(*name));
        let mut versions = vec![Sizes::new()];
        for (name, sizes) in wanted {
            let with = |version: &Sizes, size: i64| {
                let mut version = version.clone();
                version.insert(name.clone(), size);
                version
            };
            versions = versions
                .iter()
                .flat_map(|version| sizes.iter().map(|&size| with(version, size)))
                .collect();
        }
        let mut made = Vec::new();
        for sizes in versions.iter().filter(|sizes| !sizes.is_empty()) {
            let parts: Vec<String> = sizes
                .iter()
                .map(|(name, size)| format!("_{name}{size}"))
                .collect();
            let name = names.fresh(&format!("{}{}", func.name, parts.concat()));
            added.push(version_of(func, &name, sizes));
            let sizes = sizes
                .iter()
                .map(|(name, size)| (name.to_string(), Expr::int(*size)));
            made.push((name.to_string(), Expr::dict(sizes)));
        }
        if !made.is_empty() {
            set_func_attr(func, VERSIONS, Expr::dict(made));
        }
    }
    let changed = !added.is_empty();
    module.items.extend(added.into_iter().map(Item::Func));
    Changed::from(changed)
}

fn read_wanted(attr: &Expr) -> BTreeMap<Name, Vec<i64>> {
    let ExprKind::Dict(items) = &attr.kind else {
        return BTreeMap::new();
    };
    let read = |(name, sizes): &(Expr, Expr)| {
        let sizes = sizes.as_items()?.iter();
        let sizes = sizes.filter_map(|size| i64::try_from(size.as_int()?).ok());
        Some((Name::from(name.as_str()?), sizes.collect()))
    };
    items.iter().filter_map(read).collect()
}

/// The versions of a function, in order.
pub fn versions_of(func: &Func) -> Vec<(Name, Sizes)> {
    let Some(ExprKind::Dict(items)) = func.attr(VERSIONS).map(|versions| &versions.kind) else {
        return Vec::new();
    };
    let read = |(name, sizes): &(Expr, Expr)| {
        let ExprKind::Dict(sizes) = &sizes.kind else {
            return None;
        };
        let sizes = sizes.iter().filter_map(|(name, size)| {
            Some((
                Name::from(name.as_str()?),
                i64::try_from(size.as_int()?).ok()?,
            ))
        });
        Some((Name::from(name.as_str()?), sizes.collect()))
    };
    items.iter().filter_map(read).collect()
}

/// The symbols in the types of a function's inputs.
pub fn symbols_of(func: &Func) -> BTreeSet<Name> {
    let mut symbols = BTreeSet::new();
    for ty in func.params.iter().filter_map(|param| param.ty.as_ref()) {
        for_each_subexpr(ty, &mut |part| {
            for dim in dims_of(part) {
                let text = dim.as_str().and_then(|text| parse_expr_str(text).ok());
                for_each_subexpr(text.as_ref().unwrap_or(dim), &mut |part| {
                    symbols.extend(part.as_name().cloned());
                });
            }
        });
    }
    symbols
}

/// The extents that an annotation lists.
fn dims_of(ty: &Expr) -> &[Expr] {
    let is_shaped = ty.is_call_of("R.Tensor") || ty.is_call_of("R.Shape");
    let shape = ty.positional().next().filter(|_| is_shaped);
    shape.and_then(Expr::as_items).unwrap_or_default()
}

fn version_of(func: &Func, name: &Name, sizes: &Sizes) -> Func {
    let mut version = func.clone();
    version.name = name.clone();
    bind_sizes(&mut version, sizes);
    irc_syntax::visit::walk_func_mut(&mut Unplaced, &mut version);
    version
}

/// A version is written nowhere.
struct Unplaced;

impl VisitMut for Unplaced {
    fn visit_stmt(&mut self, stmt: &mut Stmt) {
        stmt.span = None;
        irc_syntax::visit::walk_stmt_mut(self, stmt);
    }
}

/// Puts sizes in the place of a function's symbols, which it declares no more.
pub fn bind_sizes(func: &mut Func, sizes: &Sizes) {
    let is_symbol = |target: &Expr| {
        target
            .as_name()
            .is_some_and(|name| sizes.contains_key(name))
    };
    func.body.retain(|stmt| match &stmt.kind {
        StmtKind::Assign { target, value, .. } => {
            !(is_symbol(target) && value.is_call_of("T.int64"))
        }
        StmtKind::Declare { target, .. } => !is_symbol(target),
        _ => true,
    });
    let mut bind = Bind(sizes);
    irc_syntax::visit::walk_func_mut(&mut bind, func);
}

/// Puts numbers in the place of symbols.
struct Bind<'s>(&'s Sizes);

impl VisitMut for Bind<'_> {
    fn visit_expr(&mut self, expr: &mut Expr) {
        let is_shaped = expr.is_call_of("R.Tensor") || expr.is_call_of("R.Shape");
        if let ExprKind::Call { args, .. } = &mut expr.kind
            && let Some(shape) = args
                .first_mut()
                .filter(|arg| is_shaped && arg.name.is_none())
            && let ExprKind::Tuple { items, .. } | ExprKind::List(items) = &mut shape.value.kind
        {
            for item in items {
                let dim = item.as_str().and_then(|text| parse_expr_str(text).ok());
                let mentions =
                    |dim: &Expr| irc_syntax::uses::mentions(dim, |name| self.0.contains_key(name));
                if let Some(dim) = dim.filter(mentions) {
                    item.kind = dim.kind;
                }
            }
        }
        match &expr.kind {
            ExprKind::Name(name) => {
                if let Some(&size) = self.0.get(name) {
                    expr.kind = Expr::int(size).kind;
                }
            }
            ExprKind::Binary { .. } => {
                walk_expr_mut(self, expr);
                if let Some(number) = Dim::from_expr(expr).ok().and_then(|dim| dim.as_int()) {
                    expr.kind = Expr::int(number).kind;
                }
            }
            _ => walk_expr_mut(self, expr),
        }
    }
}
