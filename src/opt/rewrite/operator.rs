//! Calls of operators, read argument by argument, whoever defines the operator.

use std::collections::BTreeMap;

use irc_syntax::{Expr, ExprKind, UnaryOp};

use crate::check::prim::{self, Prim};
use crate::library::Library;

/// A call with its arguments by name. What is left out has the operator's default.
#[derive(Clone, Debug)]
pub struct Operator<'e> {
    /// The operator: `R.nn.batch_norm`, `onnx.Conv`.
    pub path: String,
    args: BTreeMap<String, Expr>,
    /// The call as it is written.
    pub call: &'e Expr,
}

impl<'e> Operator<'e> {
    /// Reads a call; `None` where it is none, its operator is not known, or its arguments are not the operator's.
    pub fn read(call: &'e Expr, lib: &Library) -> Option<Self> {
        let (path, given) = call.as_call()?;
        let (names, defaults) =
            match Prim::find(&path).filter(|_| !prim::is_library_form(&path, call)) {
                Some(prim) => {
                    let slots = prim::slots(prim);
                    let names: Vec<Vec<&str>> = slots
                        .iter()
                        .map(|slot| {
                            std::iter::once(slot.name)
                                .chain(slot.aliases.iter().copied())
                                .collect()
                        })
                        .collect();
                    (names, BTreeMap::new())
                }
                None => {
                    let since = call.keyword("since").and_then(Expr::as_int);
                    let since = since.and_then(|since| u32::try_from(since).ok());
                    let params = &lib.find(&path, since)?.func.params;
                    let names = params
                        .iter()
                        .map(|param| vec![param.name.as_str()])
                        .collect();
                    let defaults = params
                        .iter()
                        .filter_map(|param| Some((param.name.to_string(), param.default.clone()?)))
                        .collect();
                    (names, defaults)
                }
            };
        let mut args: BTreeMap<String, Expr> = defaults;
        let mut at = 0;
        for arg in given {
            let name = match &arg.name {
                Some(name) => {
                    let named =
                        |names: &&Vec<&str>| names.iter().any(|other| *other == name.as_str());
                    match names.iter().find(named) {
                        Some(names) => names[0].to_owned(),
                        None if matches!(name.as_str(), "since" | "outputs") => name.to_string(),
                        None => return None,
                    }
                }
                None => {
                    at += 1;
                    (*names.get(at - 1)?.first()?).to_owned()
                }
            };
            args.insert(name, arg.value.clone());
        }
        Some(Self { path, args, call })
    }

    /// Whether it is the operator of this name.
    pub fn is(&self, path: &str) -> bool {
        self.path == path
    }

    /// An argument that is given, or has a default other than `None`.
    pub fn get(&self, name: &str) -> Option<&Expr> {
        let value = self.args.get(name)?;
        (!matches!(value.kind, ExprKind::None)).then_some(value)
    }

    /// An integer.
    pub fn int(&self, name: &str) -> Option<i64> {
        i64::try_from(self.get(name)?.as_int()?).ok()
    }

    /// A number.
    pub fn float(&self, name: &str) -> Option<f64> {
        number(self.get(name)?)
    }

    /// A truth value.
    pub fn bool(&self, name: &str) -> Option<bool> {
        match &self.get(name)?.kind {
            ExprKind::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// A string.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str()
    }

    /// Integers; a single one stands for a list of one.
    pub fn ints(&self, name: &str) -> Option<Vec<i64>> {
        let value = self.get(name)?;
        let number = |value: &Expr| i64::try_from(value.as_int()?).ok();
        match value.as_items() {
            Some(items) => items.iter().map(number).collect(),
            None => number(value).map(|one| vec![one]),
        }
    }
}

/// A number that is written out.
fn number(value: &Expr) -> Option<f64> {
    match &value.kind {
        ExprKind::Float(number) => Some(*number),
        ExprKind::Unary {
            op: UnaryOp::Neg,
            value,
        } => Some(-number(value)?),
        _ => value.as_int().map(|number| number as f64),
    }
}
