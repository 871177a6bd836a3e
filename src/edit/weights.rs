//! The weights of a program under other names, or with other contents.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::names::legal_name;
use irc_syntax::uses::substitute_stmt;
use irc_syntax::{Expr, Func, Module, Name};

use crate::check::closest;
use crate::driver::Program;
use crate::opt::graph::names_of;
use crate::tensor::{Tensor, Weights};

/// The parameters of public functions that are weights, in order, with the types that are written for them; each once.
pub fn declared(module: &Module) -> Vec<(Name, Option<Expr>)> {
    let mut res: Vec<(Name, Option<Expr>)> = Vec::new();
    for func in module.funcs().filter(|func| !func.is_private()) {
        for param in func.params.iter().skip(num_input(func)) {
            if res.iter().all(|(name, _)| *name != param.name) {
                res.push((param.name.clone(), param.ty.clone()));
            }
        }
    }
    res
}

/// How many leading parameters of a function are inputs.
pub(super) fn num_input(func: &Func) -> usize {
    let stated = func.attr("num_input").and_then(Expr::as_int);
    let stated = stated.and_then(|count| usize::try_from(count).ok());
    stated.unwrap_or(func.params.len())
}

/// Gives weights other names, in the text and in the file; names may be exchanged.
///
/// # Errors
/// A name that no weight has, or one that is taken or none of the language.
pub fn rename(program: &mut Program, names: &BTreeMap<String, String>) -> Result<(), String> {
    let known = declared(&program.module);
    for (old, new) in names {
        if known.iter().all(|(name, _)| *name != **old) && program.weights.get(old).is_none() {
            return Err(unknown(old, known.iter().map(|(name, _)| name.as_str())));
        }
        if *legal_name(new) != **new {
            return Err(format!("`{new}` is no name of the language"));
        }
    }
    let renamed = rename_file(&program.weights, names)?;
    let map: BTreeMap<Name, Expr> = names
        .iter()
        .map(|(old, new)| (Name::from(old.as_str()), Expr::name(new.as_str())))
        .collect();
    for func in program.module.funcs_mut() {
        let count = num_input(func);
        let is_renamed = |name: &Name| map.contains_key(name);
        let weights = func.params.iter().skip(count);
        if func.is_private() || !weights.clone().any(|param| is_renamed(&param.name)) {
            continue;
        }
        let taken: BTreeSet<Name> = names_of(func)
            .into_iter()
            .filter(|name| !is_renamed(name))
            .collect();
        for param in func.params.iter_mut().skip(count) {
            let Some(new) = names.get(param.name.as_str()) else {
                continue;
            };
            if taken.contains(new.as_str()) {
                return Err(format!("`{}` has a value `{new}` already", func.name));
            }
            param.name = Name::from(new.as_str());
        }
        for stmt in &mut func.body {
            substitute_stmt(stmt, &map);
        }
    }
    program.weights = renamed;
    Ok(())
}

/// Weights under other names, in their order.
///
/// # Errors
/// Two weights of one name.
pub fn rename_file(weights: &Weights, names: &BTreeMap<String, String>) -> Result<Weights, String> {
    let mut res = Weights::new();
    for (name, weight) in weights.iter() {
        let name = names.get(name).map_or(name, String::as_str);
        if res.get(name).is_some() {
            return Err(format!("two weights would be called `{name}`"));
        }
        res.insert(name, weight.clone());
    }
    Ok(res)
}

/// What to say of a name that no weight has.
pub fn unknown<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> String {
    match closest(name, known) {
        Some(near) => format!("there is no weight `{name}`; there is `{near}`"),
        None => format!("there is no weight `{name}`"),
    }
}

/// Weights of the same names and types that hold one value everywhere.
///
/// # Errors
/// A type that does not hold numbers.
pub fn splat(weights: &Weights, value: f64) -> Result<Weights, String> {
    let mut res = Weights::new();
    for (name, weight) in weights.iter() {
        let values = vec![value; weight.len()];
        let tensor = Tensor::from_f64s(weight.dtype, weight.shape.clone(), &values);
        let tensor = tensor.ok_or_else(|| format!("`{name}` holds no numbers"))?;
        res.insert(name, tensor);
    }
    Ok(res)
}
