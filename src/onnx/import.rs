//! Builds the module: a function of bindings from a graph of nodes.
//!
//! In: a model that has been read. Out: the module, and the weights where they lie. The rules are in `mod.rs`.
//! Faults of structure end the walk; operators and types that are not supported are gathered.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use irc_syntax::ast::{Expr, Func, FuncKind, Item, Module, Name, Param, Stmt};
use irc_syntax::diag::Diagnostic;

use super::attr::const_expr;
use super::fault::{Failure, FailureKind};
use super::map::Maps;
use super::model::{AttrValue, Graph, Model, Node, Opset, Tensor, TypeProto, ValueInfo};
use super::names::{Names, find_close};
use super::order::{describe, sort_nodes};
use super::signature::{Symbols, input_type, output_value, tensor_type};
use super::tensor::{Dense, Files, decode, decode_sparse};
use crate::tensor::{MappedFile, Weights};

/// The newest version of the format, of ONNX's operators, that is known.
const MAX_IR_VERSION: i64 = 14;
const MAX_OPSET: i64 = 28;
/// How many bindings a module may have: inlining multiplies.
const MAX_BINDINGS: usize = 1 << 20;
/// How many nodes are named for one operator that is not supported.
const MAX_LISTED: usize = 8;

/// The nodes of an operator that nothing gives a meaning.
#[derive(Default)]
pub(super) struct Missing {
    /// What each is called in messages.
    pub(super) nodes: Vec<String>,
    /// The name that a function for it would have, where a function could say it.
    pub(super) path: Option<String>,
}

/// What the import needs to know of its surroundings.
pub struct Options<'o> {
    /// Whether the library has an operator: its full name (`onnx.Conv`) and the version of its operator set.
    pub is_known: &'o dyn Fn(&str, i64) -> bool,
}

/// Where the bytes of a model are.
#[derive(Clone, Copy, Debug)]
pub enum Source<'s> {
    /// In a mapped file: weights stay there.
    Mapped(&'s MappedFile),
    /// In memory: weights are copied once.
    Memory(&'s [u8]),
}

/// A model as text and weights.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The module; its function is `main`.
    pub module: Module,
    /// By the names of the trailing parameters of `main`, in their order.
    pub weights: Weights,
    /// What each binding was in the file: "node `conv1` (Conv)".
    pub origins: BTreeMap<Name, String>,
}

/// Reads a model and builds its module.
///
/// # Errors
/// One diagnostic for a broken file; one for each operator or type that is not supported.
pub fn import(
    source: Source<'_>,
    files: &dyn Files,
    options: &Options<'_>,
) -> Result<Imported, Failure> {
    let bytes = match source {
        Source::Mapped(file) => file,
        Source::Memory(bytes) => bytes,
    };
    let model = Model::read(bytes).map_err(|fault| unreadable(bytes, &fault.to_string()))?;
    let graph = model
        .graph
        .as_ref()
        .ok_or_else(|| unreadable(bytes, "it holds no graph"))?;
    check_versions(&model)?;
    let mut importer = Importer {
        model: &model,
        files,
        options,
        names: Names::default(),
        body: Vec::new(),
        params: Vec::new(),
        weights: Vec::new(),
        origins: BTreeMap::new(),
        renamed: BTreeMap::new(),
        symbols: Vec::new(),
        missing: BTreeMap::new(),
        unsupported: Vec::new(),
        calls: Vec::new(),
        gradients: Vec::new(),
        maps: Maps::default(),
        n_bindings: 0,
    };
    importer.main(graph)?;
    importer.finish(source)
}

/// The file is no model; says what it looks like.
fn unreadable(bytes: &[u8], reason: &str) -> Failure {
    let head = bytes.get(..64.min(bytes.len())).unwrap_or_default();
    let starts = |text: &str| {
        head.trim_ascii_start()
            .get(..text.len())
            .is_some_and(|head| head.eq_ignore_ascii_case(text.as_bytes()))
    };
    let failure = Failure::unreadable(format!("not a complete ONNX file: {reason}"));
    if bytes.is_empty() {
        failure.note("the file is empty")
    } else if starts("<!doctype") || starts("<html") || starts("<?xml") || starts("<") {
        failure.note("it looks like HTML: a failed download")
    } else if starts("version https://git-lfs") {
        failure.note("it is a Git LFS pointer: fetch the file with `git lfs pull`")
    } else {
        failure
    }
}

fn check_versions(model: &Model<'_>) -> Result<(), Failure> {
    if model.ir_version > MAX_IR_VERSION {
        return Err(Failure::unsupported(format!(
            "the file is of ONNX IR version {}, and the newest known is {MAX_IR_VERSION}",
            model.ir_version
        )));
    }
    if model.opsets.is_empty() {
        return Err(Failure::invalid(
            "the model names no operator set (`opset_import` is empty)",
        ));
    }
    let mut seen: BTreeMap<&str, i64> = BTreeMap::new();
    for opset in &model.opsets {
        let domain = own_domain(opset.domain);
        let name = if domain.is_empty() { "ai.onnx" } else { domain };
        if let Some(other) = seen
            .insert(domain, opset.version)
            .filter(|other| *other != opset.version)
        {
            return Err(Failure::invalid(format!(
                "the model imports operator set `{name}` twice: version {other} and version {}",
                opset.version
            )));
        }
        if domain.is_empty() && opset.version > MAX_OPSET {
            return Err(Failure::unsupported(format!(
                "the model uses operator set {name} {}, and the newest known is {MAX_OPSET}",
                opset.version
            )));
        }
        if opset.version < 1 {
            return Err(Failure::invalid(format!(
                "operator set `{name}` has version {}",
                opset.version
            )));
        }
    }
    Ok(())
}

/// ONNX's own domain has two spellings.
pub(super) fn own_domain(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

/// Values by their names in the file; inner scopes last.
#[derive(Clone, Default)]
pub(super) struct Scope<'a> {
    pub(super) levels: Vec<HashMap<&'a str, Name>>,
}

impl<'a> Scope<'a> {
    pub(super) fn find(&self, name: &str) -> Option<&Name> {
        self.levels.iter().rev().find_map(|level| level.get(name))
    }

    pub(super) fn define(&mut self, name: &'a str, legal: Name) {
        if let Some(level) = self.levels.last_mut() {
            level.insert(name, legal);
        }
    }
}

/// Where nodes stand: the operator sets they mean, and the attributes of the function around them.
#[derive(Clone, Copy)]
pub(super) struct Place<'p, 'm, 'a> {
    pub(super) opsets: &'m [Opset<'a>],
    pub(super) attrs: &'p BTreeMap<&'a str, &'m AttrValue<'a>>,
}

impl Place<'_, '_, '_> {
    pub(super) fn version(&self, domain: &str) -> Option<i64> {
        let domain = own_domain(domain);
        self.opsets
            .iter()
            .find(|opset| own_domain(opset.domain) == domain)
            .map(|opset| opset.version)
    }
}

pub(super) struct Importer<'m, 'a> {
    pub(super) model: &'m Model<'a>,
    pub(super) files: &'m dyn Files,
    pub(super) options: &'m Options<'m>,
    pub(super) names: Names,
    pub(super) body: Vec<Stmt>,
    pub(super) params: Vec<Param>,
    pub(super) weights: Vec<(Name, Dense<'a>)>,
    pub(super) origins: BTreeMap<Name, String>,
    /// Legal name → name in the file, of inputs and outputs that had to change.
    pub(super) renamed: BTreeMap<Name, String>,
    pub(super) symbols: Vec<Name>,
    /// Operators the library has not → the nodes that use them.
    pub(super) missing: BTreeMap<String, Missing>,
    pub(super) unsupported: Vec<Diagnostic>,
    /// Functions being inlined.
    pub(super) calls: Vec<(&'m str, &'m str, &'m str)>,
    pub(super) maps: Maps,
    /// Gradient nodes whose functions are being built.
    pub(super) gradients: Vec<&'m Node<'a>>,
    n_bindings: usize,
}

impl<'m, 'a> Importer<'m, 'a> {
    fn main(&mut self, graph: &'m Graph<'a>) -> Result<(), Failure> {
        let constants: BTreeSet<&str> = graph
            .initializers
            .iter()
            .map(|tensor| tensor.name)
            .chain(
                graph
                    .sparse_initializers
                    .iter()
                    .map(|tensor| tensor.values.name),
            )
            .collect();
        let inputs: Vec<&'m ValueInfo<'a>> = graph
            .inputs
            .iter()
            .filter(|input| !constants.contains(input.name))
            .collect();
        let mut scope = Scope {
            levels: vec![HashMap::new()],
        };
        let legal: Vec<Name> = inputs
            .iter()
            .map(|input| self.names.fresh(input.name))
            .collect();
        let mut symbols = Symbols::of_inputs(&inputs);
        for (input, legal) in inputs.iter().zip(legal) {
            if input.name.is_empty() {
                return Err(Failure::invalid("an input of the graph has no name"));
            }
            if scope
                .levels
                .iter()
                .any(|level| level.contains_key(input.name))
            {
                return Err(Failure::invalid(format!(
                    "two inputs are called `{}`",
                    input.name
                )));
            }
            if let Some(TypeProto::Map(key, value)) = &input.ty {
                self.map_input(input.name, &legal, *key, value, &mut symbols)?;
            } else {
                match input_type(input, &legal, &mut symbols, &mut self.names) {
                    Ok(ty) => self.params.push(Param::new(legal.clone(), ty)),
                    Err(failure) => self.gather(failure)?,
                }
            }
            self.remember(&legal, input.name);
            scope.define(input.name, legal);
        }
        self.symbols = symbols.all;
        let attrs = BTreeMap::new();
        let place = Place {
            opsets: &self.model.opsets,
            attrs: &attrs,
        };
        let body = self.graph_body(graph, &mut scope, place, "the graph")?;
        self.body = body;
        let mut results = Vec::new();
        for output in &graph.outputs {
            let legal = self.find_output(output.name, graph, &scope, "graph output")?;
            if let Some([keys, values]) = self.maps.pairs.get(&legal).cloned() {
                let place = (output.name.to_owned(), results.len());
                self.maps.results.push(place);
                results.extend([Expr::name(keys), Expr::name(values)]);
                continue;
            }
            self.remember(&legal, output.name);
            let mut result = Expr::name(legal.clone());
            match output_value(output, result.clone()) {
                Ok(None) => {}
                Ok(Some(value)) => {
                    let held = self.names.fresh(&format!("{legal}_result"));
                    self.body.push(Stmt::bind(held.clone(), value));
                    result = Expr::name(held);
                }
                Err(failure) => self.gather(failure)?,
            }
            results.push(result);
        }
        let result = match results.len() {
            0 => return Err(Failure::invalid("the graph has no outputs")),
            1 => results.remove(0),
            _ => Expr::tuple(results),
        };
        self.body.push(Stmt::ret(result));
        Ok(())
    }

    /// The module, or everything that is not supported.
    fn finish(mut self, source: Source<'_>) -> Result<Imported, Failure> {
        for (op, Missing { nodes, path }) in &self.missing {
            let mut listed = nodes
                .iter()
                .take(MAX_LISTED)
                .cloned()
                .collect::<Vec<_>>()
                .join(", ");
            if nodes.len() > MAX_LISTED {
                listed.push_str(&format!(" and {} more", nodes.len() - MAX_LISTED));
            }
            let fault = Diagnostic::error(
                "onnx-unsupported",
                format!("operator {op} is not supported; it is used by {listed}"),
            );
            self.unsupported.push(match path {
                Some(path) => fault.help(
                    format!(
                        "a function `@R.function(op=\"{path}\")` in a file that `--ops` names gives it \
                         a meaning"
                    ),
                    None,
                ),
                None => fault,
            });
        }
        if !self.unsupported.is_empty() {
            return Err(Failure {
                kind: FailureKind::Unsupported,
                diagnostics: self.unsupported,
            });
        }
        let mut func = Func::new(FuncKind::Graph, "main");
        let n_inputs = self.params.len();
        func.params = self.params;
        let mut weights = Weights::new();
        for (name, value) in self.weights {
            let dims = value
                .shape
                .iter()
                .map(|extent| Expr::int(*extent as i128))
                .collect();
            func.params.push(Param::new(
                name.clone(),
                tensor_type(value.dtype, Some(dims)),
            ));
            weights.insert(name.as_str(), value.into_weight(source));
        }
        let mut attrs = Vec::new();
        if !self.renamed.is_empty() {
            let names = self
                .renamed
                .iter()
                .map(|(legal, name)| (legal.to_string(), Expr::str(name.as_str())));
            attrs.push(("irc.names".to_owned(), Expr::dict(names)));
        }
        if let Some(maps) = self.maps.attr() {
            attrs.push(("irc.maps".to_owned(), maps));
        }
        if !weights.is_empty() {
            attrs.push(("num_input".to_owned(), Expr::int(n_inputs as i128)));
        }
        if !attrs.is_empty() {
            func.body
                .push(Stmt::expr(Expr::call("R.func_attr", [Expr::dict(attrs)])));
        }
        let symbols = self.symbols.iter();
        func.body
            .extend(symbols.map(|name| Stmt::bind(name.clone(), Expr::call("T.int64", []))));
        func.body.extend(self.body);
        let module = Module {
            name: Some(Name::from("Module")),
            items: vec![Item::Func(func)],
            ..Module::default()
        };
        Ok(Imported {
            module,
            weights,
            origins: self.origins,
        })
    }

    /// The bindings of a graph's constants and nodes.
    pub(super) fn graph_body(
        &mut self,
        graph: &'m Graph<'a>,
        scope: &mut Scope<'a>,
        place: Place<'_, 'm, 'a>,
        where_: &str,
    ) -> Result<Vec<Stmt>, Failure> {
        let mut body = Vec::new();
        let mut defined: BTreeSet<&str> = BTreeSet::new();
        let used = used_names(graph);
        for tensor in &graph.initializers {
            if tensor.name.is_empty() || !defined.insert(tensor.name) {
                return Err(Failure::invalid(format!(
                    "two initializers of {where_} are called `{}`",
                    tensor.name
                )));
            }
            let value = self.tensor(tensor, &format!("initializer `{}`", tensor.name))?;
            if let (Some(value), true) = (value, used.contains(tensor.name)) {
                let legal = self.names.fresh(tensor.name);
                self.constant(&mut body, legal.clone(), value);
                scope.define(tensor.name, legal);
            }
        }
        for sparse in &graph.sparse_initializers {
            let name = sparse.values.name;
            if name.is_empty() || !defined.insert(name) {
                return Err(Failure::invalid(format!(
                    "two initializers of {where_} are called `{name}`"
                )));
            }
            let value = decode_sparse(sparse, &format!("initializer `{name}`"), self.files)?;
            let legal = self.names.fresh(name);
            self.constant(&mut body, legal.clone(), value);
            scope.define(name, legal);
        }
        for node in &graph.nodes {
            for output in &node.outputs {
                if defined.contains(output)
                    || graph.inputs.iter().any(|input| input.name == *output) && !output.is_empty()
                {
                    return Err(Failure::invalid(format!(
                        "`{output}` is made by {} and is an input or initializer of {where_} too",
                        describe(node)
                    )));
                }
            }
        }
        self.nodes(&graph.nodes, scope, place, &mut body)?;
        Ok(body)
    }

    pub(super) fn nodes(
        &mut self,
        nodes: &'m [Node<'a>],
        scope: &mut Scope<'a>,
        place: Place<'_, 'm, 'a>,
        body: &mut Vec<Stmt>,
    ) -> Result<(), Failure> {
        for idx in sort_nodes(nodes)? {
            let Some(node) = nodes.get(idx) else { continue };
            self.count_binding()?;
            self.node(node, nodes, scope, place, body)?;
        }
        Ok(())
    }

    /// Counts one more node; inlining multiplies them.
    pub(super) fn count_binding(&mut self) -> Result<(), Failure> {
        if self.n_bindings > MAX_BINDINGS {
            return Err(Failure::unsupported(format!(
                "the model has more than {MAX_BINDINGS} nodes, functions inlined"
            )));
        }
        self.n_bindings += 1;
        Ok(())
    }

    pub(super) fn find_input(
        &mut self,
        input: &'a str,
        node: &Node<'a>,
        siblings: &[Node<'a>],
        scope: &Scope<'a>,
    ) -> Result<Name, Failure> {
        if let Some(name) = scope.find(input) {
            return Ok(name.clone());
        }
        let made = siblings
            .iter()
            .flat_map(|node| node.outputs.iter().copied());
        let known = scope.levels.iter().flat_map(|level| level.keys().copied());
        let mut all: Vec<&str> = made.chain(known).collect();
        all.sort_unstable();
        all.dedup();
        let close = find_close(input, all.into_iter());
        let failure = Failure::invalid(format!(
            "{} reads `{input}`, which nothing makes",
            describe(node)
        ));
        Err(if close.is_empty() {
            failure
        } else {
            failure.note(format!("close names: {}", quoted(&close)))
        })
    }

    pub(super) fn find_output(
        &self,
        output: &str,
        graph: &Graph<'a>,
        scope: &Scope<'a>,
        what: &str,
    ) -> Result<Name, Failure> {
        if let Some(name) = scope.find(output) {
            return Ok(name.clone());
        }
        let mut made: Vec<&str> = graph
            .nodes
            .iter()
            .flat_map(|node| node.outputs.iter().copied())
            .collect();
        made.sort_unstable();
        let close = find_close(output, made.iter().copied());
        let failure = Failure::invalid(format!("{what} `{output}` is not made by any node"));
        let nearest = if close.is_empty() {
            made.iter().rev().take(1).copied().collect()
        } else {
            close
        };
        Err(failure.note(format!("nearest: {}", quoted(&nearest))))
    }

    /// The value of a tensor; `None` where it is not supported, which is gathered.
    pub(super) fn tensor(
        &mut self,
        tensor: &'m Tensor<'a>,
        what: &str,
    ) -> Result<Option<Dense<'a>>, Failure> {
        match decode(tensor, what, self.files) {
            Ok(dense) => Ok(Some(dense)),
            Err(failure) => self.gather(failure).map(|()| None),
        }
    }

    /// Binds a constant, or makes it a weight.
    pub(super) fn constant(&mut self, body: &mut Vec<Stmt>, name: Name, value: Dense<'a>) {
        match const_expr(&value) {
            Some(expr) => body.push(Stmt::bind(name, expr)),
            None => self.weights.push((name, value)),
        }
    }

    pub(super) fn gather(&mut self, failure: Failure) -> Result<(), Failure> {
        match failure.kind {
            FailureKind::Unsupported => {
                self.unsupported.extend(failure.diagnostics);
                Ok(())
            }
            FailureKind::Malformed | FailureKind::Io => Err(failure),
        }
    }

    fn remember(&mut self, legal: &Name, name: &str) {
        if *legal != *name {
            self.renamed.insert(legal.clone(), name.to_owned());
        }
    }
}

/// The names that a graph's nodes, their subgraphs, and its outputs read.
fn used_names<'a>(graph: &Graph<'a>) -> BTreeSet<&'a str> {
    let reads = graph.nodes.iter().flat_map(super::order::reads);
    reads
        .chain(graph.outputs.iter().map(|output| output.name))
        .collect()
}

fn quoted(names: &[&str]) -> String {
    names
        .iter()
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ")
}
