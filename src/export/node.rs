//! One call of an operator of ONNX as a node: which arguments are inputs, and what its attributes are.

use irc_syntax::{DType, Expr, ExprKind, Name};

use super::proto::{Attr, Node};
use super::tensor;
use crate::library::Template;
use crate::onnx::number_of;
use crate::tensor::parse_const;

/// Attributes that are tensors, by operator and name; everywhere else a tensor is an input.
const TENSOR_ATTRIBUTES: [(&str, &str); 11] = [
    ("onnx.ConstantOfShape", "value"),
    ("onnx.ml.LabelEncoder", "default_tensor"),
    ("onnx.ml.LabelEncoder", "keys_tensor"),
    ("onnx.ml.LabelEncoder", "values_tensor"),
    ("onnx.ml.TreeEnsemble", "leaf_weights"),
    ("onnx.ml.TreeEnsemble", "membership_values"),
    ("onnx.ml.TreeEnsemble", "nodes_hitrates"),
    ("onnx.ml.TreeEnsemble", "nodes_modes"),
    ("onnx.ml.TreeEnsemble", "nodes_splits"),
    ("onnx.ml.TreeEnsembleClassifier", "*_as_tensor"),
    ("onnx.ml.TreeEnsembleRegressor", "*_as_tensor"),
];

/// Attributes of old operator sets that mean nothing more.
const LEGACY: [&str; 2] = ["consumed_inputs", "output_sequence"];

/// What one argument of an operator is.
pub enum Role<'e> {
    /// The inputs from a place on; several for an operator that takes any number.
    Inputs(Vec<Option<&'e Expr>>),
    /// An attribute.
    Attr(Name, &'e Expr),
}

/// The domain and the plain name of an operator: `onnx.ml.Scaler` is `Scaler` of `ai.onnx.ml`.
pub fn domain_of(path: &str) -> (String, String) {
    let name = path.strip_prefix("onnx.").unwrap_or(path);
    match name.rsplit_once('.') {
        None => (String::new(), name.to_owned()),
        Some((domain @ ("ml" | "preview" | "preview.training"), op)) => {
            (format!("ai.onnx.{domain}"), op.to_owned())
        }
        Some(("microsoft", op)) => ("com.microsoft".to_owned(), op.to_owned()),
        Some((domain, op)) => (domain.to_owned(), op.to_owned()),
    }
}

/// Sorts the arguments of a call into inputs, in the order of the operator's parameters, and attributes.
pub fn roles<'e>(path: &str, call: &'e Expr, template: Template<'_>) -> Vec<Role<'e>> {
    let Some((_, args)) = call.as_call() else {
        return Vec::new();
    };
    let params = &template.func.params;
    let mut given: Vec<Option<&Expr>> = vec![None; params.len()];
    let mut place = 0;
    for arg in args {
        let at = match &arg.name {
            None => {
                place += 1;
                Some(place - 1)
            }
            Some(name) => params.iter().position(|param| param.name == *name),
        };
        if let Some(slot) = at.and_then(|at| given.get_mut(at)) {
            *slot = Some(&arg.value).filter(|value| value.kind != ExprKind::None);
        }
    }
    let mut found = Vec::new();
    for (param, value) in params.iter().zip(given) {
        let annotation = param.ty.as_ref().and_then(Expr::as_path);
        let is_attribute = match annotation.as_deref() {
            Some("int" | "float" | "bool" | "str" | "list" | "dtype") => true,
            _ => is_tensor_attribute(path, &param.name),
        };
        match value {
            value if !is_attribute && param.name != "outputs" => {
                let items = value.and_then(Expr::as_items);
                found.push(Role::Inputs(match items {
                    Some(items) => items.iter().map(Some).collect(),
                    None => vec![value],
                }));
            }
            Some(value) if param.name != "outputs" && !LEGACY.contains(&param.name.as_str()) => {
                found.push(Role::Attr(param.name.clone(), value));
            }
            _ => {}
        }
    }
    found
}

fn is_tensor_attribute(path: &str, name: &str) -> bool {
    TENSOR_ATTRIBUTES.iter().any(|(op, attr)| {
        *op == path
            && match attr.strip_prefix('*') {
                Some(end) => name.ends_with(end),
                None => *attr == name,
            }
    })
}

/// The value of an attribute; `wanted` is how the library annotates it.
pub fn attr<'w>(value: &Expr, wanted: &str, default: Option<&Expr>) -> Option<Attr<'w>> {
    let int = |value: &Expr| value.as_int().and_then(|value| i64::try_from(value).ok());
    if value.is_call_of("R.const") {
        let tensor = parse_const(value.as_call()?.1).ok()?;
        return Some(Attr::Tensor(tensor::of_tensor(String::new(), &tensor)));
    }
    Some(match (&value.kind, wanted) {
        (ExprKind::Str(name), "dtype") => Attr::Int(number_of(DType::from_name(name)?)),
        (ExprKind::Str(text), _) => Attr::Str(text.clone()),
        (ExprKind::Bool(truth), _) => Attr::Int(i64::from(*truth)),
        (ExprKind::List(items) | ExprKind::Tuple { items, .. }, _) => {
            let like = default.and_then(Expr::as_items).unwrap_or_default();
            list(items, like, wanted)?
        }
        (_, "int") if value.as_int().is_none() => {
            let number = number(value).filter(|number| number.fract() == 0.0)?;
            Attr::Int(number as i64)
        }
        (_, "float") => Attr::Float(number(value)? as f32),
        _ => match int(value) {
            Some(value) => Attr::Int(value),
            None => Attr::Float(number(value)? as f32),
        },
    })
}

fn list<'w>(items: &[Expr], like: &[Expr], wanted: &str) -> Option<Attr<'w>> {
    let is_text = |expr: &Expr| matches!(expr.kind, ExprKind::Str(_));
    let is_whole = |expr: &Expr| expr.as_int().is_some();
    let first = items.iter().chain(like);
    Some(if wanted == "strings" || first.clone().any(is_text) {
        let texts = items.iter().map(|item| item.as_str().map(str::to_owned));
        Attr::Strs(texts.collect::<Option<_>>()?)
    } else if wanted != "floats" && items.iter().all(is_whole) && like.iter().all(is_whole) {
        let ints = items.iter().map(|item| i64::try_from(item.as_int()?).ok());
        Attr::Ints(ints.collect::<Option<_>>()?)
    } else {
        let floats = items.iter().map(|item| Some(number(item)? as f32));
        Attr::Floats(floats.collect::<Option<_>>()?)
    })
}

/// A number, written in any way.
pub fn number(value: &Expr) -> Option<f64> {
    match &value.kind {
        ExprKind::Float(number) => Some(*number),
        ExprKind::Unary {
            op: irc_syntax::UnaryOp::Neg,
            value,
        } => Some(-number(value)?),
        ExprKind::Call { .. } if value.is_call_of("float") => {
            value.positional().next()?.as_str()?.parse().ok()
        }
        _ => value.as_int().map(|value| value as f64),
    }
}

/// A node of ai.onnx without attributes.
pub fn plain<'w>(op: &str, inputs: Vec<String>, output: String) -> Node<'w> {
    Node {
        op: op.to_owned(),
        domain: String::new(),
        inputs,
        outputs: vec![output],
        attrs: Vec::new(),
    }
}
