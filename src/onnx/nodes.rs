//! One node at a time: a call, a constant, an `if`, or a function in place of its call.
//!
//! Before: `Conv(x, w, "")` with `strides = [2, 2]`. After: `y = onnx.Conv(x, w, strides=[2, 2], since=17)`.

use std::collections::{BTreeMap, HashMap};

use irc_syntax::DType;
use irc_syntax::ast::{Expr, ExprKind, Name, Stmt, StmtKind, Trivia};

use super::attr::{attr_expr, const_expr};
use super::fault::Failure;
use super::gradient;
use super::import::{Importer, Place, Scope, own_domain};
use super::map;
use super::model::{AttrValue, Attribute, Function, Node};
use super::order::describe;
use super::signature::element_type;
use super::staged;
use super::tensor::{Bytes, Dense, decode_sparse};

/// How deep functions may call each other.
const MAX_CALLS: usize = 64;

/// The dotted name of an operator.
fn operator_path(domain: &str, op: &str) -> String {
    let domain = own_domain(domain);
    let short = domain
        .strip_prefix("ai.onnx.")
        .or_else(|| domain.strip_prefix("com."))
        .unwrap_or(domain);
    if short.is_empty() {
        format!("onnx.{op}")
    } else {
        format!("onnx.{short}.{op}")
    }
}

/// The first input that is one of a list, for operators that take any number.
fn variadic_from(path: &str) -> Option<usize> {
    Some(match path {
        "onnx.Concat"
        | "onnx.Einsum"
        | "onnx.Max"
        | "onnx.Mean"
        | "onnx.Min"
        | "onnx.SequenceConstruct"
        | "onnx.Sum"
        | "onnx.ml.FeatureVectorizer" => 0,
        "onnx.microsoft.QLinearConcat"
        | "onnx.preview.training.Adagrad"
        | "onnx.preview.training.Adam"
        | "onnx.preview.training.Momentum" => 2,
        _ => return None,
    })
}

impl<'m, 'a> Importer<'m, 'a> {
    pub(super) fn node(
        &mut self,
        node: &'m Node<'a>,
        siblings: &'m [Node<'a>],
        scope: &mut Scope<'a>,
        place: Place<'_, 'm, 'a>,
        body: &mut Vec<Stmt>,
    ) -> Result<(), Failure> {
        let mut inputs = Vec::with_capacity(node.inputs.len());
        for input in &node.inputs {
            inputs.push(if input.is_empty() {
                None
            } else {
                Some(self.find_input(input, node, siblings, scope)?)
            });
        }
        while inputs.last().is_some_and(Option::is_none) {
            inputs.pop();
        }
        let mut attrs: BTreeMap<&'a str, &'m AttrValue<'a>> = BTreeMap::new();
        for attr in &node.attributes {
            let value = Self::resolve(attr, place);
            let is_new = value.is_none_or(|value| attrs.insert(attr.name, value).is_none());
            if !is_new {
                return Err(Failure::invalid(format!(
                    "{} has attribute `{}` twice",
                    describe(node),
                    attr.name
                )));
            }
        }
        if let Some(func) = self.find_function(node) {
            return self.inline(node, func, &inputs, &attrs, scope, body);
        }
        let Some(version) = place.version(node.domain) else {
            return Err(Failure::invalid(format!(
                "{} is of domain `{}`, and the model imports no operator set of that domain",
                describe(node),
                if node.domain.is_empty() {
                    "ai.onnx"
                } else {
                    node.domain
                }
            )));
        };
        let path = operator_path(node.domain, node.op);
        match path.as_str() {
            "onnx.Constant" => self.constant_node(node, &attrs, scope, body),
            "onnx.Loop" | "onnx.Scan" | "onnx.SequenceMap" => {
                self.loop_node(node, version, &inputs, &attrs, scope, place, body)
            }
            "onnx.If" => self.if_node(node, &inputs, &attrs, scope, place, body),
            map::ZIP_MAP => self.zip_map(node, version, &inputs, &attrs, scope, body),
            gradient::GRADIENT => {
                self.gradient(node, siblings, &inputs, &attrs, scope, place, body)
            }
            staged::FLEX_ATTENTION if staged::has_graph(&attrs) => {
                self.flex_attention(node, version, &inputs, &attrs, scope, place, body)
            }
            _ => self.call_node(node, &path, version, inputs, &attrs, scope, body),
        }
    }

    /// One binding: `y = onnx.Conv(x, w, …)`.
    #[allow(clippy::too_many_arguments)]
    fn call_node(
        &mut self,
        node: &'m Node<'a>,
        path: &str,
        version: i64,
        inputs: Vec<Option<Name>>,
        attrs: &BTreeMap<&'a str, &'m AttrValue<'a>>,
        scope: &mut Scope<'a>,
        body: &mut Vec<Stmt>,
    ) -> Result<(), Failure> {
        let is_legal = node
            .op
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !node.op.is_empty();
        let has_graph = attrs
            .values()
            .any(|value| matches!(value, AttrValue::Graph(_)));
        if !is_legal || has_graph || !(self.options.is_known)(path, version) {
            let full = if own_domain(node.domain).is_empty() {
                format!("{} (operator set {version})", node.op)
            } else {
                format!("{}.{} (version {version})", node.domain, node.op)
            };
            let missing = self.missing.entry(full).or_default();
            missing.nodes.push(describe(node));
            if is_legal && !has_graph {
                missing.path = Some(path.to_owned());
            }
            self.bind_outputs(node, scope);
            return Ok(());
        }
        let inputs = self.opened_maps(node, path, inputs)?;
        let mut args: Vec<Expr> = inputs
            .into_iter()
            .map(|input| input.map_or_else(Expr::none, Expr::name))
            .collect();
        if let Some(first) = variadic_from(path) {
            let list = args.split_off(first.min(args.len()));
            args.push(Expr::tuple(list));
        }
        let mut call = Expr::call(path, args);
        for (name, value) in attrs {
            if let Some(value) = self.attr_value(name, value, node, body)? {
                call = call.with(name, value);
            }
        }
        let outputs = self.bind_outputs(node, scope);
        if outputs.len() > 1 {
            call = call.with("outputs", Expr::int(outputs.len() as i128));
        }
        call = call.with("since", Expr::int(version));
        body.push(Stmt::assign(targets(&outputs), call));
        Ok(())
    }

    /// Legal names of a node's outputs up to the last that is wanted, in scope from now on.
    pub(super) fn bind_outputs(&mut self, node: &'m Node<'a>, scope: &mut Scope<'a>) -> Vec<Name> {
        let wanted = node
            .outputs
            .iter()
            .rposition(|output| !output.is_empty())
            .map_or(0, |last| last + 1);
        let mut bound = Vec::with_capacity(wanted);
        for (idx, output) in node.outputs.iter().take(wanted).enumerate() {
            let legal = if output.is_empty() {
                self.names
                    .fresh(&format!("{}_{idx}", node.op.to_ascii_lowercase()))
            } else {
                let legal = self.names.fresh(output);
                scope.define(output, legal.clone());
                legal
            };
            self.origins.insert(legal.clone(), describe(node));
            bound.push(legal);
        }
        bound
    }

    pub(super) fn attr_value(
        &mut self,
        name: &str,
        value: &'m AttrValue<'a>,
        node: &Node<'a>,
        body: &mut Vec<Stmt>,
    ) -> Result<Option<Expr>, Failure> {
        let at = describe(node);
        let attr = Attribute {
            name,
            value: AttrValue::Int(0),
        };
        if let Some(expr) = attr_expr(&attr, value, &at)? {
            return Ok(Some(expr));
        }
        let what = format!("attribute `{name}` of {at}");
        if let AttrValue::Type(ty) = value {
            return match element_type(ty, &what) {
                Ok(ty) => Ok(Some(ty)),
                Err(failure) => self.gather(failure).map(|()| None),
            };
        }
        let dense = match value {
            AttrValue::Tensor(tensor) => self.tensor(tensor, &what)?,
            AttrValue::Sparse(sparse) => Some(decode_sparse(sparse, &what, self.files)?),
            AttrValue::Other(kind) => return Err(bad_attribute(&what, *kind)),
            AttrValue::Float(_)
            | AttrValue::Int(_)
            | AttrValue::Str(_)
            | AttrValue::Floats(_)
            | AttrValue::Ints(_)
            | AttrValue::Strs(_)
            | AttrValue::Graph(_)
            | AttrValue::Tensors(_)
            | AttrValue::Type(_)
            | AttrValue::Ref(_) => {
                self.gather(Failure::unsupported(format!(
                    "{what} is of a kind not supported"
                )))?;
                None
            }
        };
        Ok(dense.map(|dense| {
            const_expr(&dense).unwrap_or_else(|| {
                let base = node.outputs.first().copied().unwrap_or_default();
                let legal = self.names.fresh(&format!("{base}_{name}"));
                self.constant(body, legal.clone(), dense);
                Expr::name(legal)
            })
        }))
    }

    fn constant_node(
        &mut self,
        node: &'m Node<'a>,
        attrs: &BTreeMap<&'a str, &'m AttrValue<'a>>,
        scope: &mut Scope<'a>,
        body: &mut Vec<Stmt>,
    ) -> Result<(), Failure> {
        let at = describe(node);
        let mut values = attrs.iter();
        let (Some((name, value)), None) = (values.next(), values.next()) else {
            return Err(Failure::invalid(format!(
                "{at} has {} attributes, and a Constant has one",
                attrs.len()
            )));
        };
        let what = format!("attribute `{name}` of {at}");
        let bytes_of = |values: &[f32]| {
            Bytes::Owned(
                values
                    .iter()
                    .flat_map(|value| value.to_le_bytes())
                    .collect(),
            )
        };
        let ints = |values: &[i64]| {
            Bytes::Owned(
                values
                    .iter()
                    .flat_map(|value| value.to_le_bytes())
                    .collect(),
            )
        };
        let text = |bytes: &[u8]| {
            String::from_utf8(bytes.to_vec())
                .map_err(|_| Failure::unsupported(format!("{what} is not UTF-8")))
        };
        let plain = |dtype, shape, bytes| Dense {
            dtype,
            shape,
            bytes,
            strings: Vec::new(),
        };
        let none = Bytes::Borrowed(&[]);
        let dense = match (*name, value) {
            ("value", AttrValue::Tensor(tensor)) => match self.tensor(tensor, &what)? {
                Some(dense) => dense,
                None => {
                    self.bind_outputs(node, scope);
                    return Ok(());
                }
            },
            ("sparse_value", AttrValue::Sparse(sparse)) => {
                decode_sparse(sparse, &what, self.files)?
            }
            ("value_float", AttrValue::Float(value)) => {
                plain(DType::F32, vec![], bytes_of(&[*value]))
            }
            ("value_floats", AttrValue::Floats(values)) => {
                plain(DType::F32, vec![values.len()], bytes_of(values))
            }
            ("value_int", AttrValue::Int(value)) => plain(DType::I64, vec![], ints(&[*value])),
            ("value_ints", AttrValue::Ints(values)) => {
                plain(DType::I64, vec![values.len()], ints(values))
            }
            ("value_string", AttrValue::Str(value)) => Dense {
                dtype: DType::Str,
                shape: vec![],
                bytes: none,
                strings: vec![text(value)?],
            },
            ("value_strings", AttrValue::Strs(values)) => Dense {
                dtype: DType::Str,
                shape: vec![values.len()],
                bytes: none,
                strings: values
                    .iter()
                    .map(|value| text(value))
                    .collect::<Result<_, _>>()?,
            },
            _ => {
                return Err(Failure::invalid(format!(
                    "{what} is none of the values that a Constant has"
                )));
            }
        };
        let outputs = self.bind_outputs(node, scope);
        let [output] = outputs.as_slice() else {
            return Err(Failure::invalid(format!(
                "{at} has {} outputs, and a Constant has one",
                outputs.len()
            )));
        };
        self.constant(body, output.clone(), dense);
        Ok(())
    }

    /// `if` over two subgraphs; both bind the outputs' names last.
    fn if_node(
        &mut self,
        node: &'m Node<'a>,
        inputs: &[Option<Name>],
        attrs: &BTreeMap<&'a str, &'m AttrValue<'a>>,
        scope: &mut Scope<'a>,
        place: Place<'_, 'm, 'a>,
        body: &mut Vec<Stmt>,
    ) -> Result<(), Failure> {
        let at = describe(node);
        let [Some(cond)] = inputs else {
            return Err(Failure::invalid(format!(
                "{at} has {} inputs, and an If has one",
                inputs.len()
            )));
        };
        let branch = |name: &str| match attrs.get(name) {
            Some(AttrValue::Graph(graph)) => Ok(graph.as_ref()),
            Some(_) | None => Err(Failure::invalid(format!(
                "{at} has no graph in attribute `{name}`"
            ))),
        };
        let (then, orelse) = (branch("then_branch")?, branch("else_branch")?);
        if then.outputs.len() != orelse.outputs.len() || node.outputs.len() > then.outputs.len() {
            return Err(Failure::invalid(format!(
                "the branches of {at} return {} and {} values, and it has {} outputs",
                then.outputs.len(),
                orelse.outputs.len(),
                node.outputs.len()
            )));
        }
        // A condition may be a tensor of one element; the language wants a scalar.
        let scalar = self.names.fresh(&format!("{cond}_scalar"));
        let shape = Expr::call("R.shape", [Expr::list([])]);
        body.push(Stmt::bind(
            scalar.clone(),
            Expr::call("R.reshape", [Expr::name(cond.clone()), shape]),
        ));
        let mut branches = Vec::new();
        for graph in [then, orelse] {
            if !graph.inputs.is_empty() {
                return Err(Failure::invalid(format!(
                    "a branch of {at} has inputs, and branches have none"
                )));
            }
            let mut inner = scope.clone();
            inner.levels.push(HashMap::new());
            let stmts = self.graph_body(graph, &mut inner, place, &format!("a branch of {at}"))?;
            let mut results = Vec::new();
            for output in &graph.outputs {
                results.push(self.find_output(
                    output.name,
                    graph,
                    &inner,
                    &format!("output of a branch of {at}"),
                )?);
            }
            branches.push((stmts, results));
        }
        let outputs = self.bind_outputs(node, scope);
        for (stmts, results) in &mut branches {
            let results = std::mem::take(results);
            stmts.extend(
                outputs
                    .iter()
                    .zip(results)
                    .map(|(output, result)| Stmt::bind(output.clone(), Expr::name(result))),
            );
        }
        let (orelse, then) = (
            branches.pop().unwrap_or_default().0,
            branches.pop().unwrap_or_default().0,
        );
        let cond = Expr::name(scalar);
        body.push(Stmt::new(StmtKind::If {
            cond,
            then,
            orelse,
            else_trivia: Trivia::default(),
        }));
        Ok(())
    }

    /// The nodes of a function in place of its call.
    fn inline(
        &mut self,
        node: &'m Node<'a>,
        func: &'m Function<'a>,
        inputs: &[Option<Name>],
        attrs: &BTreeMap<&'a str, &'m AttrValue<'a>>,
        scope: &mut Scope<'a>,
        body: &mut Vec<Stmt>,
    ) -> Result<(), Failure> {
        let at = describe(node);
        let call = (own_domain(func.domain), func.name, func.overload);
        if let Some(start) = self.calls.iter().position(|open| *open == call) {
            let mut names: Vec<String> = self
                .calls
                .iter()
                .skip(start)
                .map(|(domain, name, _)| format!("{domain}.{name}"))
                .collect();
            names.extend(names.first().cloned());
            return Err(Failure::invalid(format!(
                "functions call each other in a circle: {}",
                names.join(" -> ")
            )));
        }
        if self.calls.len() >= MAX_CALLS {
            return Err(Failure::unsupported(format!(
                "functions call each other more than {MAX_CALLS} deep, at {at}"
            )));
        }
        if inputs.len() > func.inputs.len() || node.outputs.len() > func.outputs.len() {
            return Err(Failure::invalid(format!(
                "{at} has {} inputs and {} outputs, and function {}.{} has {} and {}",
                inputs.len(),
                node.outputs.len(),
                func.domain,
                func.name,
                func.inputs.len(),
                func.outputs.len()
            )));
        }
        let mut values: BTreeMap<&'a str, &'m AttrValue<'a>> = func
            .defaults
            .iter()
            .map(|attr| (attr.name, &attr.value))
            .collect();
        values.extend(attrs.iter().map(|(name, value)| (*name, *value)));
        let mut inner = Scope {
            levels: vec![HashMap::new()],
        };
        for (name, value) in func.inputs.iter().zip(inputs) {
            if let Some(value) = value {
                inner.define(name, value.clone());
            }
        }
        self.calls.push(call);
        let place = Place {
            opsets: &func.opsets,
            attrs: &values,
        };
        self.nodes(&func.nodes, &mut inner, place, body)?;
        self.calls.pop();
        for (output, inside) in node.outputs.iter().zip(&func.outputs) {
            let Some(value) = inner.find(inside).cloned() else {
                return Err(Failure::invalid(format!(
                    "output `{inside}` of function {}.{} is not made by any of its nodes",
                    func.domain, func.name
                )));
            };
            if !output.is_empty() {
                let legal = self.names.fresh(output);
                self.origins.insert(legal.clone(), at.clone());
                body.push(Stmt::bind(legal.clone(), Expr::name(value)));
                scope.define(output, legal);
            }
        }
        Ok(())
    }

    fn find_function(&self, node: &Node<'a>) -> Option<&'m Function<'a>> {
        self.model.functions.iter().find(|func| {
            func.name == node.op
                && own_domain(func.domain) == own_domain(node.domain)
                && func.overload == node.overload
        })
    }

    /// The value of an attribute; `None` where it refers to one that the call leaves out.
    fn resolve(attr: &'m Attribute<'a>, place: Place<'_, 'm, 'a>) -> Option<&'m AttrValue<'a>> {
        match &attr.value {
            AttrValue::Ref(name) => place.attrs.get(name).copied(),
            AttrValue::Float(_)
            | AttrValue::Int(_)
            | AttrValue::Str(_)
            | AttrValue::Tensor(_)
            | AttrValue::Graph(_)
            | AttrValue::Sparse(_)
            | AttrValue::Floats(_)
            | AttrValue::Ints(_)
            | AttrValue::Strs(_)
            | AttrValue::Tensors(_)
            | AttrValue::Type(_)
            | AttrValue::Other(_) => Some(&attr.value),
        }
    }
}

fn bad_attribute(what: &str, kind: i64) -> Failure {
    Failure::invalid(format!(
        "{what} says it is of kind {kind}, and holds no such value"
    ))
}

/// `y`, or `a, b`.
pub(super) fn targets(names: &[Name]) -> Expr {
    match names {
        [name] => Expr::name(name.clone()),
        names => Expr::new(ExprKind::Tuple {
            items: names.iter().map(|name| Expr::name(name.clone())).collect(),
            parens: false,
        }),
    }
}
