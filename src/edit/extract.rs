//! A part of a function as a program: from some of its values to some others.
//!
//!     def main(x, w):                     def main(h, w):
//!         h = R.nn.relu(x)        →           y = R.matmul(h, w)      from `h` to `y`
//!         y = R.matmul(h, w)                  return y
//!         z = R.exp(y)
//!         return z
//!
//! The cut walks up from the values wanted and stops at those given, which become inputs of the types that they have.
//! Inputs that are still needed stay inputs, weights stay weights, and constants, choices and loops on the way stay whole.
//! Symbols keep their names; an extent that no input can bind any more (`n * 2` without an `n`) is a symbol of its own,
//! or, where the part computes with it, a number that is passed. What lies inside a branch cannot be cut at.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::uses::{for_each_expr, mentioned, names_read};
use irc_syntax::{
    Diagnostic, Expr, ExprKind, Func, FuncKind, Name, NameSupply, Param, Stmt, StmtKind,
};

use super::expose::find_binding;
use super::{
    binds, bound_by, flatten, is_declaration, keep_reached, returns, set_attrs, written_type,
};
use crate::check::{FuncInfo, Info, Type, closest, symbols_of};
use crate::driver::{Program, is_planned};
use crate::opt::graph::names_of;
use crate::shape::Dim;

/// A part of a program, and what its reader should know.
pub struct Extracted {
    /// The part.
    pub program: Program,
    /// What is not as it may be expected, in sentences.
    pub notes: Vec<String>,
}

/// Cuts the part of a function from some values to others: from its inputs where none are named, to its results
/// likewise.
///
/// # Errors
/// A name that is no value, or one that the function cannot be cut at.
pub fn extract(
    program: &Program,
    info: &Info,
    func: &str,
    from: &[String],
    to: &[String],
) -> Result<Extracted, Diagnostic> {
    if is_planned(&program.module) {
        return Err(illegal(super::PLANNED.to_owned()));
    }
    let found = program.module.find_func(func).zip(info.funcs.get(func));
    let Some((func, info)) = found else {
        return Err(illegal(format!("there is no function `{func}`")));
    };
    if func.kind != FuncKind::Graph {
        let message = format!(
            "`{}` is written in loops, and has no values to cut at",
            func.name
        );
        return Err(illegal(message).at(func.name_span, "a prim_func"));
    }
    let mut cut = Cut {
        func,
        info,
        from: Vec::new(),
        notes: Vec::new(),
        symbols: info.vars.values().flat_map(symbols_of).collect(),
        body: flatten(func.body.clone()),
    };
    for name in from {
        let name = cut.value(name)?;
        if !cut.from.contains(&name) {
            cut.from.push(name);
        }
    }
    let wanted: Vec<Name> = to
        .iter()
        .map(|name| cut.value(name))
        .collect::<Result<_, _>>()?;
    let (part, weights) = cut.run(&wanted)?;
    let mut res = Program {
        module: program.module.clone(),
        weights: program.weights.clone(),
    };
    let name = part.name.clone();
    for func in res.module.funcs_mut().filter(|func| func.name == name) {
        *func = part.clone();
    }
    keep_reached(&mut res.module, &name);
    res.weights
        .retain(|name| weights.iter().any(|weight| *weight == *name));
    Ok(Extracted {
        program: res,
        notes: cut.notes,
    })
}

fn illegal(message: String) -> Diagnostic {
    Diagnostic::error("illegal-cut", message)
}

struct Cut<'a> {
    func: &'a Func,
    info: &'a FuncInfo,
    from: Vec<Name>,
    notes: Vec<String>,
    /// Every symbol that is in a type.
    symbols: BTreeSet<Name>,
    body: Vec<Stmt>,
}

impl Cut<'_> {
    /// The value of a name that the function can be cut at.
    fn value(&self, text: &str) -> Result<Name, Diagnostic> {
        let name = Name::from(text);
        let param = self.func.params.iter().find(|param| param.name == name);
        let bindings = self.body.iter().filter(|stmt| binds(stmt, &name)).count();
        let inside = find_binding(&self.func.body, &name);
        let span = param.and_then(|param| param.span);
        let span = span.or(inside.and_then(|stmt| stmt.span));
        match (param, bindings, inside) {
            (None, 0, Some(_)) => {
                let message = format!("`{name}` is bound inside a branch, which stays whole");
                return Err(illegal(message)
                    .at(span, "inside a branch")
                    .help("cut at what the choice gives", None));
            }
            (None, 0, None) => {
                let known = self.info.vars.keys().map(Name::as_str);
                let mut diag = illegal(format!("`{}` has no value `{name}`", self.func.name));
                if let Some(near) = closest(text, known) {
                    diag = diag.help(format!("there is `{near}`"), None);
                }
                return Err(diag);
            }
            (Some(_), 0, _) | (None, 1, _) => {}
            (_, _, _) => {
                let message =
                    format!("`{name}` is bound more than once, so a cut there is not one place");
                return Err(illegal(message).at(span, "bound here first"));
            }
        }
        match self.info.vars.get(&name) {
            Some(ty) if is_value(ty) => Ok(name),
            Some(ty) => Err(
                illegal(format!("`{name}` is {ty}, no value that a caller has"))
                    .at(span, "bound here"),
            ),
            None => {
                Err(illegal(format!("the type of `{name}` is not known")).at(span, "bound here"))
            }
        }
    }

    /// The part, and its weights.
    fn run(&mut self, wanted: &[Name]) -> Result<(Func, Vec<Name>), Diagnostic> {
        let result = self.result(wanted)?;
        let mut needed = self.mentions(&result);
        let stays = self.walk(&mut needed);
        self.keep_needed(&needed);
        let mut names = NameSupply::of_func(self.func);
        let mut head = Vec::new();
        let mut params = self.inputs(&mut names, &mut head);
        let (mut kept_inputs, mut weights) = (Vec::new(), Vec::new());
        for (at, param) in self.func.params.iter().enumerate() {
            if self.from.contains(&param.name) || !needed.contains(&param.name) {
                continue;
            }
            if at < self.info.num_input {
                if !self.from.is_empty() {
                    kept_inputs.push(param.name.clone());
                }
                params.push(param.clone());
            } else {
                weights.push(param.clone());
            }
        }
        for name in kept_inputs {
            self.notes
                .push(format!("`{name}` stays an input: it is still needed"));
        }
        head.extend(stays);
        head.push(Stmt::ret(result));
        self.bind_symbols(&mut params, &weights, &mut head, &mut names);
        let mut part = Func {
            params,
            body: head,
            ret: None,
            doc: None,
            ..self.func.clone()
        };
        part.decorator
            .retain(|arg| arg.name.as_deref() != Some("private"));
        let num_input = part.params.len();
        let weight_names = weights.iter().map(|param| param.name.clone()).collect();
        let has_weights = !weights.is_empty();
        part.params.extend(weights);
        let left = names_of(&part);
        let names = kept_items(self.func.attr("irc.names"), |name| left.contains(name));
        let dims = kept_items(self.func.attr("irc.dims"), |name| {
            left.contains(name) || mentions_symbol(&part, &Name::from(name))
        });
        let count = has_weights.then(|| Expr::int(num_input as i128));
        set_attrs(
            &mut part,
            &[
                ("num_input", count),
                ("irc.dims", dims),
                ("irc.names", names),
                ("irc.maps", None),
            ],
        );
        Ok((part, weight_names))
    }

    /// Leaves out the values that nothing in the part needs: neither themselves, nor for an extent that only they bind.
    fn keep_needed(&mut self, needed: &BTreeSet<Name>) {
        let symbols = |name: &Name| {
            let ty = self.info.vars.get(name);
            ty.map(plain_symbols).unwrap_or_default()
        };
        let (mut kept, mut idle) = (Vec::new(), Vec::new());
        let mut bound: BTreeSet<Name> = BTreeSet::new();
        for name in self.from.iter().filter(|name| needed.contains(*name)) {
            bound.extend(symbols(name));
        }
        for param in &self.func.params {
            if needed.contains(&param.name) && !self.from.contains(&param.name) {
                bound.extend(symbols(&param.name));
            }
        }
        for name in &self.from {
            let mut new = symbols(name).into_iter();
            let is_binder = new.any(|symbol| needed.contains(&symbol) && !bound.contains(&symbol));
            if needed.contains(name) || is_binder {
                bound.extend(symbols(name));
                kept.push(name.clone());
            } else {
                idle.push(format!("`{name}` is not needed for what is wanted"));
            }
        }
        self.from = kept;
        self.notes.append(&mut idle);
    }

    /// What the part returns.
    fn result(&mut self, wanted: &[Name]) -> Result<Expr, Diagnostic> {
        let last = self.body.pop();
        let returned = match last.as_ref().map(|stmt| &stmt.kind) {
            Some(StmtKind::Return(Some(value))) => value.clone(),
            _ => {
                let message = format!("`{}` does not end in a result", self.func.name);
                return Err(illegal(message).at(self.func.name_span, "this function"));
            }
        };
        if let Some(span) = self.body.iter().find_map(returns) {
            let message = format!("`{}` returns in several places", self.func.name);
            return Err(illegal(message).at(span, "here, too"));
        }
        let mut items = Vec::new();
        for name in wanted {
            let whole = Expr::name(name);
            match self.info.vars.get(name) {
                Some(Type::Tuple(types)) => items.extend(
                    (0..types.len()).map(|at| Expr::index(whole.clone(), [Expr::int(at as i128)])),
                ),
                _ => items.push(whole),
            }
        }
        Ok(match items.len() {
            0 => returned,
            1 => items.remove(0),
            _ => Expr::tuple(items),
        })
    }

    /// The statements that are needed, from the last to the first, in order.
    fn walk(&mut self, needed: &mut BTreeSet<Name>) -> Vec<Stmt> {
        let given: BTreeSet<Name> = self
            .from
            .iter()
            .filter_map(|name| self.info.vars.get(name))
            .flat_map(plain_symbols)
            .collect();
        // A symbol that no input has is bound by the first statement that speaks of it.
        let mut spoken: BTreeSet<Name> = self
            .info
            .params
            .iter()
            .flat_map(|(_, ty)| symbols_of(ty))
            .collect();
        let mut binds_symbols: Vec<BTreeSet<Name>> = Vec::new();
        for stmt in &self.body {
            let mut new = BTreeSet::new();
            if !is_declaration(stmt) {
                for name in self.mentions_of(stmt) {
                    if self.symbols.contains(&name) && spoken.insert(name.clone()) {
                        new.insert(name);
                    }
                }
            }
            binds_symbols.push(new);
        }
        let mut kept = Vec::new();
        let mut dropped_effects = 0;
        for (at, stmt) in self.body.iter().enumerate().rev() {
            let names = bound_by(stmt);
            let is_needed = names
                .iter()
                .any(|name| needed.contains(name) && !self.from.contains(name));
            let is_binder = binds_symbols[at]
                .iter()
                .any(|name| needed.contains(name) && !given.contains(name));
            let is_head = match &stmt.kind {
                StmtKind::Expr(call) => call.is_call_of("R.func_attr"),
                StmtKind::Assign { target, .. } => {
                    let is_module = target.as_name().is_some_and(|name| *name == *"cls");
                    is_module && mentioned(&kept).contains("cls")
                }
                _ => false,
            };
            if let StmtKind::Expr(_) = stmt.kind
                && !is_head
            {
                dropped_effects += 1;
            }
            if !is_needed && !is_binder && !is_head {
                continue;
            }
            if !is_head {
                needed.extend(self.mentions_of(stmt));
            }
            kept.push(stmt.clone());
        }
        if dropped_effects > 0 {
            self.notes.push(format!(
                "{dropped_effects} calls for an effect are left out"
            ));
        }
        kept.reverse();
        self.spare_targets(&mut kept);
        kept
    }

    /// A statement that also binds a value which is an input now binds another name in its place.
    fn spare_targets(&self, stmts: &mut [Stmt]) {
        let mut names = NameSupply::of_func(self.func);
        for stmt in stmts {
            if let StmtKind::Assign { target, .. } = &mut stmt.kind
                && let ExprKind::Tuple { items, .. } = &mut target.kind
            {
                for item in items {
                    if let Some(name) = item.as_name().filter(|name| self.from.contains(name)) {
                        *item = Expr::name(names.fresh(&format!("{name}_unused")));
                    }
                }
            }
        }
    }

    /// Parameters for the values given; a tuple is made of one each.
    fn inputs(&self, names: &mut NameSupply, head: &mut Vec<Stmt>) -> Vec<Param> {
        let mut params = Vec::new();
        for name in &self.from {
            let written = self.func.params.iter().find(|param| param.name == *name);
            match (written, self.info.vars.get(name)) {
                (_, Some(Type::Tuple(types))) => {
                    let parts: Vec<Name> = (0..types.len())
                        .map(|at| names.fresh(&format!("{name}_{at}")))
                        .collect();
                    for (part, ty) in parts.iter().zip(types) {
                        params.push(Param::new(part, written_type(ty)));
                    }
                    let parts = parts.iter().map(Expr::name);
                    head.push(Stmt::bind(name, Expr::tuple(parts)));
                }
                (Some(param), _) => params.push(param.clone()),
                (None, Some(ty)) => params.push(Param::new(name, written_type(ty))),
                (None, None) => {}
            }
        }
        params
    }

    /// Sees to it that every symbol is bound by an input.
    fn bind_symbols(
        &mut self,
        params: &mut Vec<Param>,
        weights: &[Param],
        body: &mut Vec<Stmt>,
        names: &mut NameSupply,
    ) {
        let types = |params: &[Param]| -> Vec<Type> {
            let types = params.iter().filter_map(|param| param.ty.as_ref());
            types
                .filter_map(|ty| crate::check::type_from_expr(ty).ok())
                .collect()
        };
        let mut bound: BTreeSet<Name> = types(params)
            .iter()
            .chain(&types(weights))
            .flat_map(plain_symbols)
            .collect();
        bound.extend(params.iter().map(|param| param.name.clone()));
        let mut in_body = BTreeSet::new();
        for stmt in body.iter() {
            let found = self.mentions_of(stmt);
            if is_declaration(stmt) {
                continue;
            }
            // Bound where it is first spoken of, unless an input has it.
            in_body.extend(found.into_iter().filter(|name| self.symbols.contains(name)));
        }
        let sized: BTreeSet<Name> = self
            .info
            .params
            .iter()
            .flat_map(|(_, ty)| symbols_of(ty))
            .collect();
        for name in in_body {
            if sized.contains(&name) && bound.insert(name.clone()) {
                self.notes.push(format!(
                    "`{name}` is passed as a number: no input has this extent any more"
                ));
                params.push(Param::new(&name, Expr::path("T.int64")));
            }
        }
        self.name_extents(params, &bound, names);
        // A declaration of what is a parameter, or of nothing, says nothing.
        body.retain(|stmt| {
            !is_declaration(stmt)
                || bound_by(stmt)
                    .iter()
                    .any(|name| params.iter().all(|param| param.name != *name))
        });
        let declared: BTreeSet<Name> = body
            .iter()
            .filter(|stmt| is_declaration(stmt))
            .flat_map(bound_by)
            .collect();
        let known: BTreeSet<Name> = types(params)
            .iter()
            .chain(&types(weights))
            .flat_map(plain_symbols)
            .collect();
        let mut spoken = BTreeSet::new();
        for stmt in body.iter().filter(|stmt| !is_declaration(stmt)) {
            spoken.extend(self.mentions_of(stmt));
        }
        let mut head = Vec::new();
        for symbol in known.difference(&declared) {
            let written = self
                .body
                .iter()
                .find(|stmt| is_declaration(stmt) && bound_by(stmt).contains(symbol));
            match written {
                Some(stmt) => head.push(stmt.clone()),
                None if spoken.contains(symbol) => {
                    head.push(Stmt::bind(symbol, Expr::call("T.int64", [])));
                }
                None => {}
            }
        }
        body.splice(0..0, head);
    }

    /// Gives extents made of symbols that nothing binds names of their own.
    fn name_extents(
        &mut self,
        params: &mut [Param],
        bound: &BTreeSet<Name>,
        names: &mut NameSupply,
    ) {
        let mut renamed: BTreeMap<String, Name> = BTreeMap::new();
        for param in params.iter_mut() {
            let Some(ty) = &param.ty else { continue };
            let Ok(mut ty) = crate::check::type_from_expr(ty) else {
                continue;
            };
            let mut is_changed = false;
            for_each_dim(&mut ty, &mut |dim| {
                if dim.symbols().iter().any(|name| !bound.contains(name)) {
                    let key = dim.to_string();
                    let symbol = renamed
                        .entry(key)
                        .or_insert_with(|| names.fresh(&format!("{}_dim", param.name)));
                    *dim = Dim::sym(&*symbol);
                    is_changed = true;
                }
            });
            if is_changed {
                param.ty = Some(written_type(&ty));
            }
        }
        for (dim, symbol) in &renamed {
            self.notes.push(format!(
                "the extent `{dim}` is called `{symbol}`: no input binds its symbols"
            ));
        }
    }

    /// The names that an expression reads, symbols in quotes among them.
    fn mentions(&self, expr: &Expr) -> BTreeSet<Name> {
        let mut names = names_read(expr);
        irc_syntax::uses::for_each_subexpr(expr, &mut |part| {
            names.extend(self.quoted(part));
        });
        names
    }

    fn mentions_of(&self, stmt: &Stmt) -> BTreeSet<Name> {
        if let StmtKind::Assign { target, ty, value } = &stmt.kind
            && !matches!(target.kind, ExprKind::Index { .. })
        {
            let ty = ty.iter().flat_map(|ty| self.mentions(ty));
            return self.mentions(value).into_iter().chain(ty).collect();
        }
        let mut names = BTreeSet::new();
        for_each_expr(std::slice::from_ref(stmt), &mut |part| {
            names.extend(part.as_name().cloned());
            names.extend(self.quoted(part));
        });
        names
    }

    fn quoted(&self, expr: &Expr) -> BTreeSet<Name> {
        let dim = expr.as_str().and_then(|_| Dim::from_expr(expr).ok());
        let symbols = dim.map(|dim| dim.symbols()).unwrap_or_default();
        if symbols.iter().all(|name| self.symbols.contains(name)) {
            symbols
        } else {
            BTreeSet::new()
        }
    }
}

/// Whether a caller can have a value of a type.
fn is_value(ty: &Type) -> bool {
    match ty {
        Type::Tensor(tensor) => tensor.dtype.is_some(),
        Type::Seq(inner) | Type::Opt(inner) => is_value(inner),
        Type::Tuple(members) => members
            .iter()
            .all(|member| is_value(member) && !matches!(member, Type::Tuple(_))),
        Type::Shape(dims) => dims.is_some(),
        Type::Scalar(_)
        | Type::Func(..)
        | Type::Str
        | Type::DTypeValue
        | Type::Any
        | Type::Void
        | Type::Error => false,
    }
}

/// The symbols that are extents by themselves, which a value of the type binds.
fn plain_symbols(ty: &Type) -> Vec<Name> {
    let mut found = Vec::new();
    for_each_dim(&mut ty.clone(), &mut |dim| {
        found.extend(dim.as_sym().cloned())
    });
    found
}

fn for_each_dim(ty: &mut Type, found: &mut dyn FnMut(&mut Dim)) {
    match ty {
        Type::Tensor(tensor) => tensor.shape.iter_mut().flatten().for_each(found),
        Type::Shape(dims) => dims.iter_mut().flatten().for_each(found),
        Type::Tuple(members) => {
            for member in members {
                for_each_dim(member, found);
            }
        }
        Type::Seq(inner) | Type::Opt(inner) => for_each_dim(inner, found),
        Type::Scalar(_)
        | Type::Func(..)
        | Type::Str
        | Type::DTypeValue
        | Type::Any
        | Type::Void
        | Type::Error => {}
    }
}

/// The entries of a dictionary whose keys are kept; `None` where none is.
fn kept_items(dict: Option<&Expr>, keep: impl Fn(&str) -> bool) -> Option<Expr> {
    let Some(ExprKind::Dict(items)) = dict.map(|dict| &dict.kind) else {
        return None;
    };
    let items = items
        .iter()
        .filter(|(name, _)| name.as_str().is_some_and(&keep));
    let items: Vec<(Expr, Expr)> = items.cloned().collect();
    (!items.is_empty()).then(|| Expr::new(ExprKind::Dict(items)))
}

fn mentions_symbol(func: &Func, name: &Name) -> bool {
    let types = func.params.iter().filter_map(|param| param.ty.as_ref());
    let mut types = types.filter_map(|ty| crate::check::type_from_expr(ty).ok());
    types.any(|ty| symbols_of(&ty).contains(name))
}
