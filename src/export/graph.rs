//! The walk over a function: bindings to nodes, constants to initializers.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::uses::bound_names;
use irc_syntax::{DType, Diagnostic, Expr, ExprKind, Func, Module, Name, Span, Stmt, StmtKind};

use super::node::{self, Role};
use super::preferred::Preferred;
use super::proto::{Attr, Chunks, Data, Graph, Node, Tensor};
use super::{Written, original_names, tensor};
use crate::check::prim::{self, Prim};
use crate::check::{FuncInfo, Info, Type, type_from_expr};
use crate::library::{Library, since_of};
use crate::onnx::schemas;
use crate::shape::Dim;
use crate::tensor::{Weights, parse_const};

/// Weights of fewer bytes stay in the model when the others go beside it.
const MIN_EXTERNAL: usize = 1024;

/// What a name stands for.
#[derive(Clone, Debug)]
pub enum Val {
    /// A value of the graph.
    Value(String),
    /// Several.
    Tuple(Vec<Val>),
    /// A shape, by its extents.
    Dims(Vec<Dim>),
    /// A shape, as a vector of the graph.
    ShapeOf(String),
    /// A sequence of nothing, whose element type its first use says.
    Empty,
    /// Something that has been refused.
    Refused,
}

/// Where the number is that a symbol stands for.
#[derive(Clone, Debug)]
pub enum Source {
    /// The extent of a value along an axis.
    Axis(String, usize),
    /// An element of a vector.
    Element(String, usize),
    /// A vector of one element.
    Vector(String),
    /// A 0-d tensor.
    Scalar(String),
}

/// One graph in the making.
pub struct Frame<'w> {
    /// The function whose names these are.
    pub func: Name,
    /// What its names stand for.
    pub values: BTreeMap<Name, Val>,
    /// Where its symbols come from.
    pub symbols: BTreeMap<Name, Source>,
    /// Values by their extents, where these are not all numbers.
    pub shapes: BTreeMap<Vec<Dim>, String>,
    /// Values that have an extent that is no symbol, and the axis.
    pub extents: BTreeMap<Dim, (String, usize)>,
    /// Shapes that are vectors already.
    pub vectors: BTreeMap<Vec<Dim>, String>,
    /// Extents that are vectors of one element already.
    pub dims: BTreeMap<Dim, String>,
    /// Nodes that compute extents, by their text, and what they make.
    pub made: BTreeMap<String, String>,
    /// The nodes so far.
    pub nodes: Vec<Node<'w>>,
}

impl<'w> Frame<'w> {
    /// The graph of a function.
    pub fn of(func: &Func) -> Self {
        Self {
            func: func.name.clone(),
            values: BTreeMap::new(),
            symbols: BTreeMap::new(),
            shapes: BTreeMap::new(),
            extents: BTreeMap::new(),
            vectors: BTreeMap::new(),
            dims: BTreeMap::new(),
            made: BTreeMap::new(),
            nodes: Vec::new(),
        }
    }

    /// A graph inside this one: it sees all that is here.
    pub fn inner(&self) -> Frame<'w> {
        Frame {
            func: self.func.clone(),
            values: self.values.clone(),
            symbols: self.symbols.clone(),
            shapes: self.shapes.clone(),
            extents: self.extents.clone(),
            vectors: self.vectors.clone(),
            dims: self.dims.clone(),
            made: self.made.clone(),
            nodes: Vec::new(),
        }
    }
}

/// The state of an export.
pub struct Exporter<'m, 'w> {
    pub module: &'m Module,
    pub info: &'m Info,
    weights: &'w Weights,
    lib: &'m Library,
    /// Names of values that are taken; ONNX wants them unique through all graphs.
    taken: BTreeSet<String>,
    /// The names of `main` that have others in ONNX.
    renamed: BTreeMap<Name, String>,
    initializers: Vec<Tensor<'w>>,
    /// Constants without a name, by their text.
    constants: BTreeMap<String, String>,
    /// The file beside the model that large weights go to.
    pub external: Option<String>,
    /// What goes there.
    pub beside: Chunks<'w>,
    /// Operator sets, by domain.
    pub opsets: BTreeMap<String, u32>,
    /// The names that the text gives its results and constants.
    pub written: Written,
    /// Names of the text in place of others.
    preferred: Preferred,
    /// How many nodes there are.
    pub n_nodes: usize,
    /// What cannot be said.
    pub diags: Vec<Diagnostic>,
}

impl<'m, 'w> Exporter<'m, 'w> {
    pub fn new(module: &'m Module, info: &'m Info, weights: &'w Weights, lib: &'m Library) -> Self {
        Self {
            module,
            info,
            weights,
            lib,
            taken: BTreeSet::new(),
            renamed: BTreeMap::new(),
            initializers: Vec::new(),
            constants: BTreeMap::new(),
            external: None,
            beside: Chunks::default(),
            opsets: BTreeMap::new(),
            written: Written::default(),
            preferred: Preferred::default(),
            n_nodes: 0,
            diags: Vec::new(),
        }
    }

    /// The graph of the function that is exported.
    pub fn main(&mut self, func: &Func) -> Graph<'w> {
        let info = self.func_info(&func.name);
        self.renamed = original_names(func);
        self.taken.extend(self.renamed.values().cloned());
        self.preferred = Preferred::of(&func.body, &self.written);
        let mut frame = Frame::of(func);
        let mut graph = Graph {
            name: func.name.to_string(),
            ..Graph::default()
        };
        if func.attr("irc.maps").is_some() {
            self.refuse(func.name_span, "maps at the boundary");
        }
        let named = |_: &Dim| true;
        for (at, (name, ty)) in info.params.iter().enumerate() {
            let value = self.name(name);
            frame.values.insert(name.clone(), Val::Value(value.clone()));
            if at >= info.num_input {
                self.weight(name, value, func.name_span);
                continue;
            }
            match tensor::type_of(ty, &named) {
                Some(ty) => graph.inputs.push((value.clone(), ty)),
                None => self.refuse(func.name_span, &format!("the type of the input `{name}`")),
            }
            self.note_type(&mut frame, &value, ty);
            if matches!(ty, Type::Scalar(_)) {
                frame.symbols.insert(name.clone(), Source::Scalar(value));
            }
        }
        let results = self.block(&func.body, &mut frame);
        self.outputs(&info, results, &mut frame, &mut graph);
        graph.nodes = frame.nodes;
        graph.initializers = std::mem::take(&mut self.initializers);
        graph
    }

    /// Results under their names. A value that is the result of a node takes the name; what is none, or is given twice, gets
    /// a node that hands it on.
    fn outputs(
        &mut self,
        info: &FuncInfo,
        results: Vec<Expr>,
        frame: &mut Frame<'w>,
        graph: &mut Graph<'w>,
    ) {
        let types = match &info.ret {
            Some(Type::Tuple(types)) => types.clone(),
            Some(ty) => vec![ty.clone()],
            None => Vec::new(),
        };
        let mut given: BTreeMap<String, String> = BTreeMap::new();
        let mut handed_on = Vec::new();
        for (at, result) in results.iter().enumerate() {
            let Some(value) = self.operand(result, frame) else {
                continue;
            };
            let name = self.written.results.get(at).cloned().flatten();
            let name = name.or_else(|| result.as_name().cloned());
            let wanted = match &name {
                Some(name) => self.renamed.get(name).cloned().unwrap_or(name.to_string()),
                None => format!("result_{at}"),
            };
            let is_made = self.is_made(&value, frame);
            let is_first = !given.contains_key(&value);
            // What the graph has from outside is a result as it is.
            if wanted == value && is_first && !is_made {
                given.insert(value.clone(), value.clone());
                self.list_output(value, types.get(at), result, graph);
                continue;
            }
            let is_free = wanted == value
                || self.renamed.values().any(|name| *name == wanted)
                || self.taken.insert(wanted.clone());
            let is_given = graph.outputs.iter().any(|(output, _)| *output == wanted);
            let is_free = is_free && !is_given;
            let output = if is_free { wanted } else { self.fresh(&wanted) };
            if is_made && is_first {
                given.insert(value, output.clone());
            } else {
                handed_on.push((value, output.clone()));
            }
            self.list_output(output, types.get(at), result, graph);
        }
        frame.nodes.iter_mut().for_each(|node| node.rename(&given));
        for (value, output) in handed_on {
            let value = given.get(&value).cloned().unwrap_or(value);
            self.push(frame, node::plain("Identity", vec![value], output));
        }
    }

    /// Whether a node of a graph makes a value.
    pub fn is_made(&self, value: &str, frame: &Frame<'w>) -> bool {
        let mut outputs = frame.nodes.iter().flat_map(|node| &node.outputs);
        outputs.any(|output| output == value)
    }

    fn list_output(
        &mut self,
        name: String,
        ty: Option<&Type>,
        result: &Expr,
        graph: &mut Graph<'w>,
    ) {
        let named = |dim: &Dim| dim.as_sym().is_some();
        match ty.and_then(|ty| tensor::type_of(ty, &named)) {
            Some(ty) => graph.outputs.push((name, ty)),
            None => self.refuse(result.span, &format!("the type of the result `{name}`")),
        }
    }

    pub fn func_info(&self, name: &Name) -> FuncInfo {
        self.info.funcs.get(name).cloned().unwrap_or_default()
    }

    /// Notes that ONNX has no word for something.
    pub fn refuse(&mut self, span: Option<Span>, what: &str) {
        let message = format!("{what} cannot be said in ONNX");
        let diag = Diagnostic::error("onnx-unsupported", message).at(span, "this");
        self.diags.push(diag);
    }

    /// A name of ONNX that is free, made of a text.
    pub fn fresh(&mut self, base: &str) -> String {
        let (mut name, mut number) = (base.to_owned(), 0);
        while !self.taken.insert(name.clone()) {
            number += 1;
            name = format!("{base}_{number}");
        }
        name
    }

    /// The name of ONNX for a name of the text that is bound now.
    pub fn name(&mut self, name: &Name) -> String {
        let name = self.preferred.name(name).clone();
        match self.renamed.get(&name) {
            Some(original) => original.clone(),
            None => self.fresh(&name),
        }
    }

    pub fn push(&mut self, frame: &mut Frame<'w>, node: Node<'w>) {
        self.n_nodes += 1;
        frame.nodes.push(node);
    }

    fn weight(&mut self, name: &Name, value: String, span: Option<Span>) {
        let weights: &'w Weights = self.weights;
        let Some(weight) = weights.get(name) else {
            let message =
                format!("the weight `{name}` is missing: the text came without its weights");
            let diag = Diagnostic::error("params-missing", message).at(span, "of this function");
            self.diags.push(diag);
            return;
        };
        let mut tensor = tensor::of_weight(value, weight);
        if let (Some(file), Data::Borrowed(bytes)) = (&self.external, &tensor.data)
            && bytes.len() >= MIN_EXTERNAL
        {
            let offset = self.beside.append(bytes);
            tensor.data = Data::External(file.clone(), offset, bytes.len() as u64);
        }
        self.initializers.push(tensor);
    }

    /// The name of a constant.
    pub fn constant(&mut self, call: &Expr, name: Option<String>) -> Option<String> {
        let tensor = match parse_const(call.as_call()?.1) {
            Ok(tensor) => tensor,
            Err(why) => {
                self.refuse(call.span, &format!("a constant of which {why}"));
                return None;
            }
        };
        if let Some(name) = name {
            self.initializers
                .push(tensor::of_tensor(name.clone(), &tensor));
            return Some(name);
        }
        let text = irc_syntax::print_expr(call);
        if let Some(name) = self.constants.get(&text) {
            return Some(name.clone());
        }
        let written = self.written.constants.get(&text);
        let written = written.and_then(|names| names.first()).cloned();
        let name = match written {
            Some(name) => self.name(&name),
            None => self.fresh("constant"),
        };
        self.initializers
            .push(tensor::of_tensor(name.clone(), &tensor));
        self.constants.insert(text, name.clone());
        Some(name)
    }

    /// A vector of numbers.
    pub fn numbers(&mut self, values: &[i64]) -> Option<String> {
        let list = Expr::list(values.iter().map(|value| Expr::int(*value)));
        self.constant(&Expr::call("R.const", [list, Expr::str("int64")]), None)
    }

    /// Symbols that a value's type shows.
    pub fn note_type(&mut self, frame: &mut Frame<'w>, value: &str, ty: &Type) {
        let Some(ty) = ty.as_tensor() else { return };
        if let Some(dims) = ty.shape.as_ref().filter(|dims| dims.len() > 1)
            && dims.iter().any(|dim| dim.as_int().is_none())
        {
            let place = frame.shapes.entry(dims.clone());
            place.or_insert_with(|| value.to_owned());
        }
        for (axis, dim) in ty.shape.iter().flatten().enumerate() {
            if let Some(symbol) = dim.as_sym() {
                frame
                    .symbols
                    .entry(symbol.clone())
                    .or_insert_with(|| Source::Axis(value.to_owned(), axis));
            } else if dim.as_int().is_none() {
                let place = frame.extents.entry(dim.clone());
                place.or_insert_with(|| (value.to_owned(), axis));
            }
        }
    }

    /// Nodes for a block; the members of what it returns.
    pub fn block(&mut self, stmts: &[Stmt], frame: &mut Frame<'w>) -> Vec<Expr> {
        for (at, stmt) in stmts.iter().enumerate() {
            match &stmt.kind {
                StmtKind::Assign { target, value, .. } => self.binding(target, value, frame),
                StmtKind::If {
                    cond, then, orelse, ..
                } => self.choice(
                    cond,
                    [then.as_slice(), orelse.as_slice()],
                    &stmts[at + 1..],
                    frame,
                ),
                StmtKind::Return(Some(value)) => {
                    return match &value.kind {
                        ExprKind::Tuple { items, .. } => items.clone(),
                        _ => self.members(value, frame),
                    };
                }
                StmtKind::Expr(value) if value.is_call_of("R.func_attr") => {}
                StmtKind::Pass | StmtKind::Import(_) | StmtKind::Declare { .. } => {}
                StmtKind::Expr(_)
                | StmtKind::For { .. }
                | StmtKind::While { .. }
                | StmtKind::With { .. }
                | StmtKind::Return(None)
                | StmtKind::Assert { .. }
                | StmtKind::Break
                | StmtKind::Continue
                | StmtKind::Func(_)
                | StmtKind::Error => self.refuse(stmt.span, "this statement"),
            }
        }
        Vec::new()
    }

    /// A returned name that is a tuple, as its members.
    fn members(&mut self, value: &Expr, frame: &mut Frame<'w>) -> Vec<Expr> {
        let found = value.as_name().and_then(|name| frame.values.get(name));
        let Some(Val::Tuple(items)) = found.cloned() else {
            return vec![value.clone()];
        };
        let member = |(at, item): (usize, Val)| {
            let name = Name::from(format!("{}[{at}]", value.as_name().map_or("", |name| name)));
            frame.values.insert(name.clone(), item);
            Expr::name(name)
        };
        items.into_iter().enumerate().map(member).collect()
    }

    fn binding(&mut self, target: &Expr, value: &Expr, frame: &mut Frame<'w>) {
        let names = bound_names(target);
        let info = self.info;
        let types = info.funcs.get(&frame.func).map(|info| &info.vars);
        let types: Vec<Option<&Type>> = names
            .iter()
            .map(|name| types.and_then(|types| types.get(name)))
            .collect();
        let found = match value.as_call() {
            Some((path, _)) if path.starts_with("onnx.") => self.operator(
                &path,
                value,
                &names,
                types.first().copied().flatten(),
                frame,
            ),
            Some((path, _)) if path == "R.const" => {
                let name = names.first().map(|name| self.name(name));
                self.constant(value, name).map(Val::Value)
            }
            Some((path, _)) if path == "T.int64" => return,
            Some((path, _)) if path == "R.match_cast" => self.match_cast(value, frame),
            Some((path, _)) if Prim::find(&path).is_some() => self.primitive(
                &path,
                value,
                &names,
                types.first().copied().flatten(),
                frame,
            ),
            Some((path, _)) => {
                self.refuse(value.span, &format!("`{path}`"));
                None
            }
            None => self.value(value, frame),
        };
        let found = found.unwrap_or(Val::Refused);
        let many = match &found {
            Val::Tuple(items) if names.len() > 1 => items.clone(),
            _ => vec![found],
        };
        for ((name, found), ty) in names.iter().zip(many).zip(types) {
            if let (Val::Value(value), Some(ty)) = (&found, ty) {
                self.note_type(frame, value, ty);
            }
            frame.values.insert(name.clone(), found);
        }
    }

    /// What an expression that is no call stands for.
    pub fn value(&mut self, value: &Expr, frame: &mut Frame<'w>) -> Option<Val> {
        let found = match &value.kind {
            ExprKind::Name(name) if frame.values.contains_key(name) => {
                frame.values.get(name).cloned()
            }
            ExprKind::Tuple { items, .. } | ExprKind::List(items) => {
                let items = items.iter().map(|item| self.value(item, frame));
                Some(Val::Tuple(items.collect::<Option<_>>()?))
            }
            ExprKind::Index { value, index } => {
                let at = index.first().and_then(Expr::as_int)?;
                match self.value(value, frame)? {
                    Val::Tuple(items) => usize::try_from(at)
                        .ok()
                        .and_then(|at| items.get(at))
                        .cloned(),
                    _ => None,
                }
            }
            ExprKind::Call { .. } if value.is_call_of("R.const") => {
                self.constant(value, None).map(Val::Value)
            }
            ExprKind::Call { .. } if value.is_call_of("R.shape") => {
                prim::shape_dims(value)?.ok().map(Val::Dims)
            }
            _ => match Dim::from_expr(value) {
                Ok(dim) => return self.scalar(&dim, value.span, frame).map(Val::Value),
                Err(_) => None,
            },
        };
        if found.is_none() {
            self.refuse(value.span, &format!("`{}`", irc_syntax::print_expr(value)));
        }
        found.filter(|found| !matches!(found, Val::Refused))
    }

    /// The value of the graph that an operand is.
    pub fn operand(&mut self, value: &Expr, frame: &mut Frame<'w>) -> Option<String> {
        match self.value(value, frame)? {
            Val::Value(name) | Val::ShapeOf(name) => Some(name),
            Val::Dims(dims) => self.vector(&dims, value.span, frame),
            Val::Refused => None,
            Val::Empty => Some(self.empty(None, frame)),
            // A tuple that is one value is a sequence.
            Val::Tuple(items) => {
                let name = self.fresh("sequence");
                self.sequence_of(items, name, frame)
            }
        }
    }

    /// A call of an operator of ONNX.
    fn operator(
        &mut self,
        path: &str,
        call: &Expr,
        names: &[Name],
        ty: Option<&Type>,
        frame: &mut Frame<'w>,
    ) -> Option<Val> {
        let since = call.keyword("since").and_then(Expr::as_int);
        let since = since.and_then(|since| u32::try_from(since).ok());
        let template = self.lib.find(path, since)?;
        let (domain, op) = node::domain_of(path);
        let (mut inputs, mut types) = (Vec::new(), Vec::new());
        self.fill_empty(call, frame);
        let mut attrs: Vec<(String, Attr<'w>)> = Vec::new();
        for role in node::roles(path, call, template) {
            match role {
                Role::Inputs(values) => {
                    for value in values {
                        types.push(value.and_then(|value| self.dtype_of(value, frame)));
                        inputs.push(match value {
                            Some(value) => self.operand(value, frame)?,
                            None => String::new(),
                        });
                    }
                }
                Role::Attr(name, value) => {
                    let param = template.func.params.iter().find(|param| param.name == name);
                    let annotated = param.and_then(|param| param.ty.as_ref()?.as_path());
                    let wanted = match schemas::attribute_type(&domain, &op, &name) {
                        Some("int") if annotated.as_deref() == Some("dtype") => annotated,
                        Some(kind) => Some(kind.to_owned()),
                        None => annotated,
                    };
                    let default = param.and_then(|param| param.default.as_ref());
                    let constant = match value.as_name().and_then(|name| frame.values.get(name)) {
                        Some(Val::Value(value)) => self.attribute_tensor(value),
                        _ => node::attr(value, wanted.as_deref().unwrap_or_default(), default),
                    };
                    match constant {
                        Some(attr) => attrs.push((name.to_string(), attr)),
                        None => self.refuse(
                            value.span.or(call.span),
                            &format!("the attribute `{name}` of `{path}`"),
                        ),
                    }
                }
            }
        }
        while inputs.last().is_some_and(String::is_empty) {
            inputs.pop();
        }
        types.truncate(inputs.len());
        let results = match ty {
            Some(Type::Tuple(types)) => types.as_slice(),
            Some(ty) => std::slice::from_ref(ty),
            None => &[],
        };
        let use_ = schemas::Use {
            domain: &domain,
            op: &op,
            attributes: attrs.iter().map(|(name, _)| name.as_str()).collect(),
            inputs: types,
            outputs: results.iter().map(dtype_of_type).collect(),
        };
        let needed = schemas::needed(&use_).unwrap_or(1);
        let needed = needed.max(since.unwrap_or(since_of(template.func)));
        let version = self.opsets.entry(domain.clone()).or_insert(1);
        *version = (*version).max(needed);
        attrs.sort_by(|a, b| a.0.cmp(&b.0));
        let (outputs, found) = self.results(names, ty);
        let node = Node {
            op,
            domain,
            inputs,
            outputs,
            attrs,
        };
        self.push(frame, node);
        Some(found)
    }

    /// Gives sequences of nothing among the operands of a call the element type of the others.
    fn fill_empty(&mut self, call: &Expr, frame: &mut Frame<'w>) {
        let operands: Vec<Expr> = call.positional().cloned().collect();
        let mut dtypes = operands.iter().map(|value| self.dtype_of(value, frame));
        let dtype = dtypes.find_map(|dtype| dtype);
        for name in operands.iter().filter_map(Expr::as_name) {
            if matches!(frame.values.get(name), Some(Val::Empty)) {
                let value = self.empty(dtype, frame);
                frame.values.insert(name.clone(), Val::Value(value));
            }
        }
    }

    /// The element type of an operand, where it is known.
    fn dtype_of(&self, value: &Expr, frame: &Frame<'w>) -> Option<DType> {
        if let Some((path, args)) = value.as_call() {
            let constant = (path == "R.const").then(|| parse_const(args).ok());
            return constant.flatten().map(|tensor| tensor.dtype);
        }
        let vars = self.info.funcs.get(&frame.func).map(|info| &info.vars)?;
        match &value.kind {
            ExprKind::Name(name) => dtype_of_type(vars.get(name)?),
            ExprKind::Index { value, index } => {
                let at = usize::try_from(index.first()?.as_int()?).ok()?;
                match vars.get(value.as_name()?)? {
                    Type::Tuple(types) => types.get(at).and_then(dtype_of_type),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// A tensor attribute that has a name in the text.
    fn attribute_tensor(&self, value: &str) -> Option<Attr<'w>> {
        let weights: &'w Weights = self.weights;
        if let Some(weight) = weights.get(value) {
            return Some(Attr::Tensor(tensor::of_weight(String::new(), weight)));
        }
        let found = self
            .initializers
            .iter()
            .find(|tensor| tensor.name == value)?;
        let data = match &found.data {
            Data::Borrowed(bytes) => Data::Borrowed(bytes),
            Data::Owned(bytes) => Data::Owned(bytes.clone()),
            Data::Strings(texts) => Data::Strings(texts.clone()),
            Data::External(..) => return None,
        };
        Some(Attr::Tensor(Tensor {
            name: String::new(),
            data_type: found.data_type,
            dims: found.dims.clone(),
            data,
        }))
    }

    /// The outputs of a node that is bound to names, and what the names stand for.
    pub fn results(&mut self, names: &[Name], ty: Option<&Type>) -> (Vec<String>, Val) {
        let outputs: Vec<String> = match (names, ty) {
            ([name], Some(Type::Tuple(types))) => (0..types.len())
                .map(|at| match self.preferred.member(name, at).cloned() {
                    Some(member) => self.name(&member),
                    None => self.fresh(&format!("{name}_{at}")),
                })
                .collect(),
            _ => names.iter().map(|name| self.name(name)).collect(),
        };
        let found = match (names, ty) {
            ([_], Some(Type::Tuple(_))) => {
                Val::Tuple(outputs.iter().cloned().map(Val::Value).collect())
            }
            ([_], _) => Val::Value(outputs.first().cloned().unwrap_or_default()),
            _ => Val::Tuple(outputs.iter().cloned().map(Val::Value).collect()),
        };
        (outputs, found)
    }

    /// A value seen as another type: the same value; its extents give symbols their numbers.
    fn match_cast(&mut self, call: &Expr, frame: &mut Frame<'w>) -> Option<Val> {
        let mut args = call.positional();
        let found = self.value(args.next()?, frame)?;
        let ty = type_from_expr(args.next().or_else(|| call.keyword("ty"))?).ok()?;
        match (&found, &ty) {
            (Val::Value(value), ty) => self.note_type(frame, &value.clone(), ty),
            (Val::ShapeOf(vector), Type::Shape(Some(dims))) => {
                for (at, dim) in dims.iter().enumerate() {
                    if let Some(symbol) = dim.as_sym() {
                        let source = Source::Element(vector.clone(), at);
                        frame.symbols.entry(symbol.clone()).or_insert(source);
                    }
                }
            }
            _ => {}
        }
        Some(match ty {
            Type::Shape(Some(dims)) => Val::Dims(dims),
            _ => found,
        })
    }
}

fn dtype_of_type(ty: &Type) -> Option<DType> {
    ty.as_tensor()?.dtype
}
