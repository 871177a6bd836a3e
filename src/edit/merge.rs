//! Two programs as one: the functions of both, or one function that goes on where the other ends.
//!
//!     def main(x, w):                 def main(h, v):
//!         y = R.matmul(x, w)    +         z = R.matmul(h, v)
//!         return y                        return z
//!
//!     y=h   →     def main(x, w, v):
//!                     y = R.matmul(x, w)
//!                     z = R.matmul(y, v)
//!                     return z
//!
//! Names of the second program that the first has too get a number behind them, the same for the same programs. Weights of
//! one name and the same bytes are one. Symbols of the second function stand for the extents that its inputs get; where
//! the two cannot be told to be equal, `R.match_cast` checks it when the program runs.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::{
    Diagnostic, Expr, ExprKind, Func, FuncKind, Item, Module, Name, NameSupply, Param, Stmt,
    StmtKind, print_expr,
};

use super::rename::Renamer;
use super::weights::{declared, num_input, rename};
use super::{flatten, is_declaration, keep_reached, set_attrs, written_type};
use crate::check::{FuncInfo, Info, TensorType, Type, symbols_of, type_from_expr};
use crate::driver::{Program, is_planned, set_attr};
use crate::opt::graph::names_of;
use crate::shape::Dim;

/// The two as one, and what its reader should know.
pub struct Merged {
    /// The program.
    pub program: Program,
    /// What got another name or was left out, in sentences.
    pub notes: Vec<String>,
}

/// A program, the types of its names, and the function of it that is meant.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    /// The program.
    pub program: &'a Program,
    /// Its types.
    pub info: &'a Info,
    /// The name of the function.
    pub func: &'a str,
}

/// The functions of both programs in one module.
///
/// # Errors
/// Weights that cannot get other names.
pub fn merge(a: &Program, b: &Program) -> Result<Merged, Diagnostic> {
    if is_planned(&a.module) || is_planned(&b.module) {
        return Err(illegal(super::PLANNED.to_owned()));
    }
    let mut notes = Vec::new();
    let mut res = a.clone();
    let mut other = b.clone();
    part_weights(a, &mut other, &BTreeSet::new(), &mut notes)?;
    part_funcs(&a.module, &mut other.module, &mut notes);
    join_modules(&mut res, other, &mut notes);
    Ok(Merged {
        program: res,
        notes,
    })
}

/// One function: that of `a`, with those of its results that `links` names as inputs of that of `b`.
///
/// # Errors
/// A name that is no result or input, types that do not fit, or a function that cannot go on.
pub fn chain(a: Side<'_>, b: Side<'_>, links: &[(String, String)]) -> Result<Merged, Diagnostic> {
    if is_planned(&a.program.module) || is_planned(&b.program.module) {
        return Err(illegal(super::PLANNED.to_owned()));
    }
    let mut notes = Vec::new();
    let (mut left, mut right) = (a.program.clone(), b.program.clone());
    keep_reached(&mut left.module, &Name::from(a.func));
    keep_reached(&mut right.module, &Name::from(b.func));
    let first = graph_func(&left.module, a)?.clone();
    let mut taken: BTreeSet<Name> = names_of(&first);
    taken.extend(
        a.info
            .funcs
            .get(a.func)
            .into_iter()
            .flat_map(|info| info.vars.values().flat_map(symbols_of).collect::<Vec<_>>()),
    );
    part_weights(&left, &mut right, &taken, &mut notes)?;
    // The function itself goes into the other; those that it calls come along.
    let second = graph_func(&right.module, b)?.clone();
    part_funcs(&left.module, &mut right.module, &mut Vec::new());
    let calls = renamed_calls(&second, &b.program.module, &right.module);
    let mut chain = Chain {
        a: Half::new(first, a)?,
        b: Half::new(second, b)?,
        notes,
        names: NameSupply::new(),
        renamer: Renamer {
            funcs: calls,
            module: b.program.module.name.clone(),
            new_module: a.program.module.name.clone(),
            ..Renamer::default()
        },
        casts: Vec::new(),
    };
    let func = chain.run(links)?;
    let mut notes = chain.notes;
    right.module.items.retain(|item| match item {
        Item::Func(func) => func.is_private(),
        Item::Stmt(_) => true,
    });
    for found in left.module.funcs_mut() {
        if found.name == func.name {
            *found = func.clone();
        }
    }
    join_modules(&mut left, right, &mut notes);
    Ok(Merged {
        program: left,
        notes,
    })
}

fn illegal(message: String) -> Diagnostic {
    Diagnostic::error("illegal-merge", message)
}

fn graph_func<'m>(module: &'m Module, side: Side<'_>) -> Result<&'m Func, Diagnostic> {
    match module.find_func(side.func) {
        Some(func) if func.kind == FuncKind::Graph => Ok(func),
        Some(func) => {
            let message = format!("`{}` is written in loops, and cannot go on", func.name);
            Err(illegal(message).at(func.name_span, "a prim_func"))
        }
        None => Err(illegal(format!("there is no function `{}`", side.func))),
    }
}

/// Gives weights of `b` that `a` has with other contents names of their own.
fn part_weights(
    a: &Program,
    b: &mut Program,
    taken: &BTreeSet<Name>,
    notes: &mut Vec<String>,
) -> Result<(), Diagnostic> {
    let ours = declared(&a.module);
    let mut names = NameSupply::of_module(&b.module);
    for name in ours.iter().map(|(name, _)| name).chain(taken) {
        names.take(name);
    }
    let mut map = BTreeMap::new();
    for (name, ty) in declared(&b.module) {
        let text = |ty: &Option<Expr>| ty.as_ref().map(print_expr);
        let (x, y) = (a.weights.get(&name), b.weights.get(&name));
        let is_same = match (x, y) {
            (Some(x), Some(y)) => {
                (x.dtype, &x.shape) == (y.dtype, &y.shape) && x.bytes() == y.bytes()
            }
            (None, None) => ours
                .iter()
                .any(|(other, known)| *other == name && text(known) == text(&ty)),
            _ => false,
        };
        let is_there =
            ours.iter().any(|(other, _)| *other == name) || a.weights.get(&name).is_some();
        let is_taken = taken.contains(&name) && !is_there;
        if (is_there && !is_same) || is_taken {
            let fresh = names.fresh(&name);
            notes.push(format!("the second weight `{name}` is called `{fresh}`"));
            map.insert(name.to_string(), fresh.to_string());
        }
    }
    if map.is_empty() {
        return Ok(());
    }
    rename(b, &map).map_err(illegal)
}

/// Gives functions of `b` whose names `a` has names of their own.
fn part_funcs(a: &Module, b: &mut Module, notes: &mut Vec<String>) {
    let mut names = NameSupply::new();
    for func in a.funcs().chain(b.funcs()) {
        names.take(&func.name);
    }
    let mut renamer = Renamer {
        module: b.name.clone(),
        new_module: a.name.clone(),
        ..Renamer::default()
    };
    for func in b.funcs() {
        if a.find_func(&func.name).is_some() {
            let fresh = names.fresh(&func.name);
            if !func.is_private() {
                notes.push(format!(
                    "the second function `{}` is called `{fresh}`",
                    func.name
                ));
            }
            renamer.funcs.insert(func.name.clone(), fresh);
        }
    }
    renamer.module_funcs(b);
}

/// How the functions that `func` calls are called now: they are in the order that they were.
fn renamed_calls(func: &Func, before: &Module, after: &Module) -> BTreeMap<Name, Name> {
    let mut kept = before.clone();
    keep_reached(&mut kept, &func.name);
    let pairs = kept.funcs().zip(after.funcs());
    pairs
        .map(|(old, new)| (old.name.clone(), new.name.clone()))
        .collect()
}

/// Adds the functions, weights and attributes of `b`.
fn join_modules(a: &mut Program, b: Program, notes: &mut Vec<String>) {
    a.module.name.get_or_insert_with(|| Name::from("Module"));
    let texts: BTreeSet<String> = a
        .module
        .prelude
        .iter()
        .map(irc_syntax::print_stmt)
        .collect();
    for stmt in b.module.prelude {
        if !texts.contains(&irc_syntax::print_stmt(&stmt)) {
            a.module.prelude.push(stmt);
        }
    }
    for item in b.module.items {
        match item {
            Item::Func(func) => a.module.items.push(Item::Func(func)),
            Item::Stmt(stmt) => join_attrs(&mut a.module, &stmt, notes),
        }
    }
    for (name, weight) in b.weights.iter() {
        if a.weights.get(name).is_none() {
            a.weights.insert(name, weight.clone());
        }
    }
}

fn join_attrs(module: &mut Module, stmt: &Stmt, notes: &mut Vec<String>) {
    let StmtKind::Expr(call) = &stmt.kind else {
        return;
    };
    let Some(ExprKind::Dict(items)) = call.positional().next().map(|dict| &dict.kind) else {
        return;
    };
    if !call.is_call_of("I.module_attrs") {
        notes.push("what the second module says for all its functions is left out".to_owned());
        return;
    }
    for (key, value) in items {
        let Some(key) = key.as_str() else { continue };
        // Of the file that is written, and of the text that was read.
        if matches!(key, "irc.params" | "irc.source") {
            continue;
        }
        match module.attr(key) {
            None => set_attr(module, key, value.clone()),
            Some(other) if print_expr(other) == print_expr(value) => {}
            Some(_) => notes.push(format!("the second module attribute `{key}` is left out")),
        }
    }
}

/// What an input of the second function becomes.
enum Source {
    /// A result of the first, by its place.
    Result(usize),
    /// Any other value of it.
    Value(Name),
}

/// One of two functions, taken apart.
struct Half {
    func: Func,
    info: FuncInfo,
    inputs: Vec<Param>,
    weights: Vec<Param>,
    body: Vec<Stmt>,
    /// What it returns, one a member.
    results: Vec<(Expr, Type)>,
}

impl Half {
    fn new(func: Func, side: Side<'_>) -> Result<Self, Diagnostic> {
        let info = side.info.funcs.get(side.func).cloned().unwrap_or_default();
        let mut body = flatten(func.body.clone());
        let last = body.pop().map(|stmt| stmt.kind);
        let Some(StmtKind::Return(Some(value))) = last else {
            let message = format!("`{}` does not end in a result", func.name);
            return Err(illegal(message).at(func.name_span, "this function"));
        };
        if let Some(span) = body.iter().find_map(super::returns) {
            let message = format!("`{}` returns in several places", func.name);
            return Err(illegal(message).at(span, "here, too"));
        }
        let types = match info.ret.clone() {
            Some(Type::Tuple(types)) => types,
            ty => vec![ty.unwrap_or(Type::Any)],
        };
        let items = match (value.kind, types.len()) {
            (ExprKind::Tuple { items, .. }, n) if items.len() == n => items,
            (kind, 1) => vec![Expr::new(kind).at(value.span)],
            (kind, n) => {
                let base = NameSupply::of_func(&func).fresh("results");
                body.push(Stmt::bind(&base, Expr::new(kind)));
                let member = |at: usize| Expr::index(Expr::name(&base), [Expr::int(at as i128)]);
                (0..n).map(member).collect()
            }
        };
        let mut params = func.params.clone();
        let weights = params.split_off(num_input(&func).min(params.len()));
        Ok(Self {
            results: items.into_iter().zip(types).collect(),
            inputs: params,
            info,
            weights,
            body,
            func,
        })
    }

    /// The names that results are known by.
    fn result_names(&self) -> Vec<Vec<String>> {
        let slots = crate::codegen::entry::result_names(&self.func, self.results.len());
        let names = self.results.iter().zip(slots).map(|((value, _), slot)| {
            let own = value.as_name().map(Name::to_string);
            own.into_iter().chain([slot]).collect()
        });
        names.collect()
    }
}

struct Chain {
    a: Half,
    b: Half,
    notes: Vec<String>,
    names: NameSupply,
    renamer: Renamer,
    /// `x = R.match_cast(y, …)`
    casts: Vec<Stmt>,
}

impl Chain {
    fn run(&mut self, links: &[(String, String)]) -> Result<Func, Diagnostic> {
        self.names = NameSupply::of_func(&self.a.func);
        let ours: BTreeSet<Name> = self.a.info.vars.values().flat_map(symbols_of).collect();
        for name in &ours {
            self.names.take(name);
        }
        let links = self.resolve(links)?;
        self.part_names(&ours);
        let result_of = |(source, _): &(Source, usize)| match source {
            Source::Result(at) => Some(*at),
            Source::Value(_) => None,
        };
        let linked: BTreeSet<usize> = links.iter().filter_map(result_of).collect();
        for (source, input) in &links {
            self.link(source, *input)?;
        }
        let used: BTreeSet<usize> = links.iter().map(|(_, input)| *input).collect();
        let mut params = self.a.inputs.clone();
        let mut weights = self.a.weights.clone();
        for (at, mut param) in std::mem::take(&mut self.b.inputs).into_iter().enumerate() {
            if !used.contains(&at) {
                self.renamer.param(&mut param);
                params.push(param);
            }
        }
        for mut param in std::mem::take(&mut self.b.weights) {
            self.renamer.param(&mut param);
            if weights.iter().all(|other| other.name != param.name) {
                weights.push(param);
            }
        }
        let num_input = Expr::int(params.len() as i128);
        let num_input = (!weights.is_empty()).then_some(num_input);
        params.extend(weights);
        let (dims, names) = (self.attr("irc.dims"), self.attr("irc.names"));
        let mut body = self.body(&ours);
        let mut results = Vec::new();
        for (at, (value, _)) in self.a.results.iter().enumerate() {
            if !linked.contains(&at) {
                results.push(value.clone());
            }
        }
        for (value, _) in &self.b.results {
            let mut value = value.clone();
            self.renamer.expr(&mut value);
            results.push(value);
        }
        body.push(Stmt::ret(match results.len() {
            1 => results.remove(0),
            _ => Expr::tuple(results),
        }));
        let has_maps = [&self.a.func, &self.b.func]
            .iter()
            .any(|func| func.attr("irc.maps").is_some());
        if has_maps {
            self.notes
                .push("maps are passed as vectors of keys and of values".to_owned());
        }
        let mut func = Func {
            params,
            body,
            ret: None,
            ..self.a.func.clone()
        };
        set_attrs(
            &mut func,
            &[
                ("num_input", num_input),
                ("irc.dims", dims),
                ("irc.names", names),
                ("irc.maps", None),
            ],
        );
        Ok(func)
    }

    /// The statements of both, but their results.
    fn body(&mut self, ours: &BTreeSet<Name>) -> Vec<Stmt> {
        let mut body = std::mem::take(&mut self.a.body);
        let (mut declared, mut rest) = (Vec::new(), Vec::new());
        for mut stmt in std::mem::take(&mut self.b.body) {
            let is_attrs =
                matches!(&stmt.kind, StmtKind::Expr(call) if call.is_call_of("R.func_attr"));
            let is_module = matches!(&stmt.kind, StmtKind::Assign { target, .. }
                if target.as_name().is_some_and(|name| *name == *"cls"));
            if is_attrs || (is_module && body.iter().any(binds_module)) {
                continue;
            }
            if is_declaration(&stmt) {
                if let StmtKind::Assign { target, .. } = &stmt.kind
                    && let Some(name) = target.as_name()
                    && self
                        .renamer
                        .values
                        .get(name)
                        .is_some_and(|to| to.as_name().is_none_or(|to| ours.contains(to)))
                {
                    continue;
                }
                self.renamer.stmt(&mut stmt);
                declared.push(stmt);
                continue;
            }
            self.renamer.stmt(&mut stmt);
            rest.push(stmt);
        }
        body.splice(0..0, declared);
        body.append(&mut self.casts);
        body.extend(rest);
        body
    }

    /// Links as values and places of inputs.
    fn resolve(&self, links: &[(String, String)]) -> Result<Vec<(Source, usize)>, Diagnostic> {
        let results = self.a.result_names();
        let mut res: Vec<(Source, usize)> = Vec::new();
        for (out, input) in links {
            let name = Name::from(out.as_str());
            let is_value = self.a.inputs.iter().any(|param| param.name == name)
                || self.a.body.iter().any(|stmt| super::binds(stmt, &name));
            let source = match results.iter().position(|names| names.contains(out)) {
                Some(at) => Source::Result(at),
                None if is_value => Source::Value(name),
                None => {
                    let known = results.iter().filter_map(|names| names.first());
                    let known: Vec<&str> = known.map(String::as_str).collect();
                    let message = format!(
                        "the first program has no value `{out}`; its results are: {}",
                        known.join(", ")
                    );
                    return Err(illegal(message));
                }
            };
            let at = self.b.inputs.iter().position(|param| param.name == **input);
            let Some(at) = at else {
                let known = self.b.inputs.iter().map(|param| param.name.as_str());
                let message = format!(
                    "the second program has no input `{input}`; there are: {}",
                    known.collect::<Vec<_>>().join(", ")
                );
                return Err(illegal(message));
            };
            if res.iter().any(|(_, other)| *other == at) {
                return Err(illegal(format!("the input `{input}` is given twice")));
            }
            res.push((source, at));
        }
        Ok(res)
    }

    /// Gives names of the second function that the first has too names of their own; those of weights have been parted.
    fn part_names(&mut self, ours: &BTreeSet<Name>) {
        let weights: BTreeSet<Name> = self
            .b
            .weights
            .iter()
            .map(|param| param.name.clone())
            .collect();
        let mut theirs = names_of(&self.b.func);
        theirs.remove("cls");
        theirs.remove(&self.b.func.name);
        theirs.extend(self.b.info.vars.values().flat_map(symbols_of));
        let a_names = names_of(&self.a.func);
        let is_clash = |name: &Name| {
            !weights.contains(name) && (a_names.contains(name) || ours.contains(name))
        };
        let (clashes, free): (Vec<Name>, Vec<Name>) = theirs.into_iter().partition(is_clash);
        for name in &free {
            self.names.take(name);
        }
        let mut n_renamed = 0;
        for name in clashes {
            let fresh = self.names.fresh(&name);
            if self.b.inputs.iter().all(|param| param.name != name) {
                n_renamed += 1;
            }
            self.renamer.values.insert(name, Expr::name(&fresh));
        }
        if n_renamed > 0 {
            let names = if n_renamed == 1 { "name" } else { "names" };
            self.notes.push(format!(
                "{n_renamed} {names} of the second function got a number"
            ));
        }
    }

    /// Makes a value of the first function an input of the second.
    fn link(&mut self, source: &Source, input: usize) -> Result<(), Diagnostic> {
        let Some(param) = self.b.inputs.get(input).cloned() else {
            return Ok(());
        };
        let (value, given, shown) = match source {
            Source::Value(name) => {
                let ty = self.a.info.vars.get(name).cloned();
                (Expr::name(name), ty.unwrap_or(Type::Any), name.to_string())
            }
            Source::Result(at) => {
                let shown = self.a.result_names().into_iter().nth(*at);
                let shown = shown.and_then(|names| names.into_iter().next());
                match self.a.results.get(*at).cloned() {
                    Some((value, ty)) => (value, ty, shown.unwrap_or_default()),
                    None => return Ok(()),
                }
            }
        };
        let name = match self.renamer.values.get(&param.name).and_then(Expr::as_name) {
            Some(name) => name.clone(),
            None => param.name.clone(),
        };
        // Named, so that it is computed once.
        let is_named = value.as_name().is_some();
        let value = if is_named {
            value
        } else {
            self.a.body.push(Stmt::bind(&name, value));
            let named = Expr::name(&name);
            if let Source::Result(at) = source
                && let Some(slot) = self.a.results.get_mut(*at)
            {
                slot.0 = named.clone();
            }
            named
        };
        let wanted = param.ty.as_ref().map(type_from_expr);
        let wanted = wanted.transpose()?.unwrap_or(Type::Any);
        let is_cast = self.fit(&given, &wanted, &param, &shown)?;
        if !is_cast {
            self.renamer.values.insert(param.name.clone(), value);
            return Ok(());
        }
        let name = match is_named {
            true => name,
            false => self.names.fresh(&name),
        };
        self.renamer
            .values
            .insert(param.name.clone(), Expr::name(&name));
        let mut ty = written_type(&wanted);
        self.renamer.expr(&mut ty);
        // In a body extents stand without quotes.
        let ty = type_from_expr(&ty).map(|ty| crate::check::type_to_expr(&ty))?;
        let cast = Expr::call("R.match_cast", [value, ty]);
        self.casts.push(Stmt::bind(&name, cast));
        Ok(())
    }

    /// Whether a value has to be cast to be of the type wanted; symbols that it settles are remembered.
    fn fit(
        &mut self,
        given: &Type,
        wanted: &Type,
        param: &Param,
        shown: &str,
    ) -> Result<bool, Diagnostic> {
        let misfit = || {
            let message = format!(
                "`{shown}` is {given}, and the input `{}` wants {wanted}",
                param.name
            );
            Err(illegal(message).at(param.span, "this input"))
        };
        let (x, y): (&TensorType, &TensorType) = match (given, wanted) {
            (Type::Tensor(x), Type::Tensor(y)) => (x, y),
            (x, y) if x == y || *y == Type::Any => return Ok(false),
            _ => return misfit(),
        };
        let differs = |a: bool, b: bool, same: bool| a && b && !same;
        if differs(x.dtype.is_some(), y.dtype.is_some(), x.dtype == y.dtype)
            || differs(x.ndim.is_some(), y.ndim.is_some(), x.ndim == y.ndim)
        {
            return misfit();
        }
        let Some(wanted_dims) = &y.shape else {
            return Ok(false);
        };
        let Some(dims) = &x.shape else {
            return Ok(true);
        };
        let known = names_of(&self.a.func);
        let mut sized: BTreeSet<Name> = BTreeSet::new();
        for (_, ty) in &self.a.info.params {
            sized.extend(symbols_of(ty));
        }
        let is_said = |dim: &Dim| {
            dim.symbols()
                .iter()
                .all(|name| known.contains(name) || sized.contains(name))
        };
        let mut is_cast = false;
        for (dim, wanted) in dims.iter().zip(wanted_dims) {
            if let Some(name) = wanted.as_sym()
                && is_said(dim)
                && !self.renamer.settled.contains_key(name)
            {
                self.renamer.settled.insert(name.clone(), dim.clone());
                self.renamer.values.insert(name.clone(), dim.to_expr());
                continue;
            }
            let wanted = wanted.subst(&self.renamer.settled);
            match self.a.info.facts.prove_eq(dim, &wanted) {
                Some(true) => {}
                Some(false) => return misfit(),
                None => is_cast = true,
            }
        }
        Ok(is_cast)
    }

    /// An attribute that says something of names, of both: facts on symbols, names in ONNX.
    fn attr(&self, key: &str) -> Option<Expr> {
        let mut items: Vec<(Expr, Expr)> = Vec::new();
        for (func, is_second) in [(&self.a.func, false), (&self.b.func, true)] {
            let Some(ExprKind::Dict(found)) = func.attr(key).map(|dict| &dict.kind) else {
                continue;
            };
            for (name, value) in found {
                let name = Name::from(name.as_str().unwrap_or_default());
                let renamed = self.renamer.values.get(&name).filter(|_| is_second);
                let name = match renamed.map(Expr::as_name) {
                    None => name,
                    Some(Some(name)) => name.clone(),
                    // A sum has no facts of its own.
                    Some(None) => continue,
                };
                let known = items
                    .iter_mut()
                    .find(|(key, _)| key.as_str() == Some(name.as_str()));
                if let Some((_, known)) = known {
                    join_dicts(known, value);
                    continue;
                }
                let is_text = value.as_str().is_some();
                let is_taken = items
                    .iter()
                    .any(|(_, other)| is_text && other.as_str() == value.as_str());
                if !is_taken {
                    items.push((Expr::str(name.as_str()), value.clone()));
                }
            }
        }
        (!items.is_empty()).then(|| Expr::new(ExprKind::Dict(items)))
    }
}

/// Adds the entries of another dictionary that a dictionary does not have.
fn join_dicts(dict: &mut Expr, other: &Expr) {
    if let (ExprKind::Dict(items), ExprKind::Dict(others)) = (&mut dict.kind, &other.kind) {
        for (key, value) in others {
            if items
                .iter()
                .all(|(known, _)| known.as_str() != key.as_str())
            {
                items.push((key.clone(), value.clone()));
            }
        }
    }
}

fn binds_module(stmt: &Stmt) -> bool {
    matches!(&stmt.kind, StmtKind::Assign { target, .. }
        if target.as_name().is_some_and(|name| *name == *"cls"))
}
