//! Gradient: a function inside the function for what is differentiated, and one call of `I.gradient`.
//!
//! Before: `dy = Gradient(a, b, xs=["a"], zs=["c"], y="y")`. After:
//!
//!     def dy_of(a_1, c_1):
//!         y_1 = onnx.Mul(a_1, c_1, since=17)
//!         return y_1
//!     dy = I.gradient(dy_of, (a, b), wrt=1)
//!
//! The names in the attributes define the function: the nodes between them and `y`, which stand beside the node. The inputs
//! say where it is differentiated. A node between may be a Gradient, which gives derivatives of higher order. What is not named
//! is a constant. The pass `lift` differentiates, as types are not known here.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use irc_syntax::ast::{Expr, Func, FuncKind, Name, Param, Stmt, StmtKind, Trivia};

use super::fault::Failure;
use super::import::{Importer, Place, Scope};
use super::model::{AttrValue, Node};
use super::nodes::targets;
use super::order::{describe, reads, sort_nodes};

/// The dotted name of the operator.
pub const GRADIENT: &str = "onnx.preview.training.Gradient";

/// What the attributes of a node say.
struct Function<'a> {
    /// The variables, those to differentiate by first.
    variables: Vec<&'a str>,
    n_wrt: usize,
    result: &'a str,
}

impl<'m, 'a> Importer<'m, 'a> {
    /// The function that the node differentiates, and the call that does so.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn gradient(
        &mut self,
        node: &'m Node<'a>,
        siblings: &'m [Node<'a>],
        inputs: &[Option<Name>],
        attrs: &BTreeMap<&'a str, &'m AttrValue<'a>>,
        scope: &mut Scope<'a>,
        place: Place<'_, 'm, 'a>,
        body: &mut Vec<Stmt>,
    ) -> Result<(), Failure> {
        let at = describe(node);
        let function = read_function(attrs, &at)?;
        let args: Option<Vec<Name>> = inputs.iter().cloned().collect();
        let args = args.filter(|args| args.len() == function.variables.len());
        let Some(args) = args else {
            return Err(Failure::invalid(format!(
                "{at} has {} inputs for {} names in `xs` and `zs`",
                inputs.len(),
                function.variables.len()
            )));
        };
        if self.gradients.iter().any(|open| std::ptr::eq(*open, node)) {
            return Err(Failure::invalid(format!("{at} differentiates itself")));
        }
        let mut inner = scope.clone();
        inner.levels.push(HashMap::new());
        let mut params = Vec::with_capacity(args.len());
        for name in &function.variables {
            let param = self.names.fresh(name);
            inner.define(name, param.clone());
            params.push(Param {
                name: param,
                ty: None,
                default: None,
                trivia: Trivia::default(),
                span: None,
            });
        }
        self.gradients.push(node);
        let mut stmts = Vec::new();
        for idx in between(&function, siblings)? {
            if let Some(node) = siblings.get(idx) {
                self.count_binding()?;
                self.node(node, siblings, &mut inner, place, &mut stmts)?;
            }
        }
        self.gradients.pop();
        let own = inner.levels.last().and_then(|own| own.get(function.result));
        let Some(result) = own.cloned() else {
            return Err(Failure::invalid(format!(
                "{at} differentiates `{}`, which no node beside it makes",
                function.result
            )));
        };
        stmts.push(Stmt::ret(Expr::name(result)));
        let base = node.outputs.iter().find(|output| !output.is_empty());
        let base = base.copied().unwrap_or(function.result);
        let mut func = Func::new(FuncKind::Local, self.names.fresh(&format!("{base}_of")));
        func.params = params;
        func.body = stmts;
        let call = Expr::call(
            "I.gradient",
            [
                Expr::name(func.name.clone()),
                Expr::tuple(args.into_iter().map(Expr::name)),
            ],
        );
        let call = call.with("wrt", Expr::int(function.n_wrt as i128));
        body.push(Stmt::new(StmtKind::Func(Box::new(func))));
        let outputs = self.bind_outputs(node, scope);
        if outputs.is_empty() || outputs.len() > function.n_wrt {
            return Err(Failure::invalid(format!(
                "{at} has {} outputs for {} names in `xs`",
                outputs.len(),
                function.n_wrt
            )));
        }
        body.push(Stmt::assign(targets(&outputs), call));
        Ok(())
    }
}

fn read_function<'a>(
    attrs: &BTreeMap<&'a str, &AttrValue<'a>>,
    at: &str,
) -> Result<Function<'a>, Failure> {
    let text = |bytes: &'a [u8]| {
        std::str::from_utf8(bytes)
            .map_err(|_| Failure::invalid(format!("{at} names a tensor in text that is not UTF-8")))
    };
    let names = |key: &str| match attrs.get(key) {
        Some(AttrValue::Strs(names)) => names.iter().map(|name| text(name)).collect(),
        _ => Ok(Vec::new()),
    };
    let mut variables: Vec<&str> = names("xs")?;
    let n_wrt = variables.len();
    variables.extend(names("zs")?);
    let Some(AttrValue::Str(result)) = attrs.get("y") else {
        return Err(Failure::invalid(format!("{at} has no attribute `y`")));
    };
    let distinct: BTreeSet<&str> = variables.iter().copied().collect();
    if n_wrt == 0 || distinct.len() < variables.len() {
        return Err(Failure::invalid(format!(
            "{at} needs names in `xs`, each once in `xs` and `zs`"
        )));
    }
    Ok(Function {
        variables,
        n_wrt,
        result: text(result)?,
    })
}

/// The nodes that make the result out of the variables, in an order in which they can run.
fn between(function: &Function<'_>, siblings: &[Node<'_>]) -> Result<Vec<usize>, Failure> {
    let mut makers: HashMap<&str, usize> = HashMap::new();
    for (idx, node) in siblings.iter().enumerate() {
        makers.extend(node.outputs.iter().map(|output| (*output, idx)));
    }
    let mut needed = BTreeSet::new();
    let mut open = vec![function.result];
    while let Some(name) = open.pop() {
        if name.is_empty() || function.variables.contains(&name) {
            continue;
        }
        if let Some(idx) = makers.get(name)
            && let Some(node) = siblings.get(*idx)
            && needed.insert(*idx)
        {
            open.extend(reads(node));
        }
    }
    let mut order = sort_nodes(siblings)?;
    order.retain(|idx| needed.contains(idx));
    Ok(order)
}
