//! Primitives that are no operator by themselves: control flow, shapes, sequences and optional values.

use std::collections::BTreeSet;

use irc_syntax::uses::{bound_names, mentioned};
use irc_syntax::{DType, Expr, ExprKind, Name, Stmt, StmtKind};

use super::graph::{Exporter, Frame, Source, Val};
use super::proto::{Attr, Extent, Graph, Node, Type as Proto};
use super::{node, tensor};
use crate::check::prim::{self, Items, Prim};
use crate::check::{FuncInfo, Type, type_from_expr};
use crate::onnx::number_of;
use crate::shape::Dim;

impl<'w> Exporter<'_, 'w> {
    /// A call of a primitive that `for_onnx` left.
    pub fn primitive(
        &mut self,
        path: &str,
        call: &Expr,
        names: &[Name],
        ty: Option<&Type>,
        frame: &mut Frame<'w>,
    ) -> Option<Val> {
        let prim = Prim::find(path)?;
        let bound = match prim::bind(prim, call) {
            Ok(bound) => bound,
            Err(diag) => {
                self.diags.push(diag);
                return None;
            }
        };
        match prim {
            Prim::Shape => self.value(call, frame),
            Prim::ShapeOf => {
                let value = self.operand(bound.operand("x")?, frame)?;
                let output = self.fresh(&format!("{}_shape", names.first()?));
                self.push(frame, node::plain("Shape", vec![value], output.clone()));
                Some(Val::ShapeOf(output))
            }
            Prim::TensorToShape => {
                let vector = self.operand(bound.operand("x")?, frame)?;
                Some(Val::ShapeOf(vector))
            }
            Prim::ShapeToTensor => {
                let shape = self.value(bound.operand("x")?, frame)?;
                if let (Val::Dims(dims), Some(name)) = (&shape, names.first())
                    && self.written.shapes.contains(name)
                {
                    let vector = self.named_vector(dims, name, call.span, frame)?;
                    return Some(Val::Value(vector));
                }
                Some(Val::Value(self.operand(bound.operand("x")?, frame)?))
            }
            Prim::Sequence => self.sequence(&bound, call, names, frame),
            Prim::Optional => {
                let mut made = Node {
                    op: "Optional".to_owned(),
                    domain: String::new(),
                    inputs: Vec::new(),
                    outputs: names.iter().map(|name| self.name(name)).collect(),
                    attrs: Vec::new(),
                };
                if let Some(value) = bound.operand("x")
                    && self.is_optional(value, frame)
                {
                    return self.value(value, frame);
                }
                match bound.operand("x") {
                    Some(value) => made.inputs.push(self.operand(value, frame)?),
                    None => {
                        let element = type_from_expr(call.keyword("ty")?).ok()?;
                        let element = tensor::type_of(&element, &|_| false)?;
                        made.attrs.push(("type".to_owned(), Attr::Type(element)));
                    }
                }
                let found = Val::Value(made.outputs.first()?.clone());
                self.push(frame, made);
                Some(found)
            }
            Prim::HasValue | Prim::GetValue => {
                let op = if prim == Prim::HasValue {
                    "OptionalHasElement"
                } else {
                    "OptionalGetElement"
                };
                let value = self.operand(bound.operand("x")?, frame)?;
                let (outputs, found) = self.results(names, ty);
                let output = outputs.into_iter().next()?;
                self.push(frame, node::plain(op, vec![value], output));
                Some(found)
            }
            Prim::WhileLoop => self.while_loop(&bound, call, names, ty, frame),
            _ => {
                self.refuse(call.span, &format!("`{path}`"));
                None
            }
        }
    }

    fn is_optional(&self, value: &Expr, frame: &Frame<'w>) -> bool {
        let vars = self.info.funcs.get(&frame.func).map(|info| &info.vars);
        let ty = value.as_name().and_then(|name| vars?.get(name));
        matches!(ty, Some(Type::Opt(_)))
    }

    fn sequence(
        &mut self,
        bound: &prim::BoundCall,
        call: &Expr,
        names: &[Name],
        frame: &mut Frame<'w>,
    ) -> Option<Val> {
        let items: Vec<Expr> = match bound.items("items") {
            Items::Listed(items) => items.to_vec(),
            Items::Tuple(value) => match self.value(value, frame)? {
                Val::Tuple(items) => {
                    let output = self.name(names.first()?);
                    return self.sequence_of(items, output, frame).map(Val::Value);
                }
                // A sequence made of a sequence is the same.
                found => return Some(found),
            },
        };
        if items.is_empty() {
            let ty = match bound.get("ty") {
                prim::Bound::Expr(ty) => type_from_expr(ty).ok(),
                _ => call.keyword("ty").and_then(|ty| type_from_expr(ty).ok()),
            };
            let dtype = ty.and_then(|ty| ty.as_tensor().and_then(|ty| ty.dtype));
            return Some(match dtype {
                Some(dtype) => Val::Value(self.empty(Some(dtype), frame)),
                None => Val::Empty,
            });
        }
        let items: Option<Vec<Val>> = items.iter().map(|item| self.value(item, frame)).collect();
        let output = self.name(names.first()?);
        self.sequence_of(items?, output, frame).map(Val::Value)
    }

    /// A sequence of nothing.
    pub fn empty(&mut self, dtype: Option<DType>, frame: &mut Frame<'w>) -> String {
        let output = self.fresh("empty");
        let mut made = node::plain("SequenceEmpty", Vec::new(), output.clone());
        if let Some(dtype) = dtype {
            made.attrs
                .push(("dtype".to_owned(), Attr::Int(number_of(dtype))));
        }
        self.push(frame, made);
        output
    }

    /// A sequence of values, under a name of the graph.
    pub fn sequence_of(
        &mut self,
        items: Vec<Val>,
        output: String,
        frame: &mut Frame<'w>,
    ) -> Option<String> {
        let inputs = items.into_iter().map(|item| match item {
            Val::Value(name) | Val::ShapeOf(name) => Some(name),
            Val::Tuple(_) | Val::Dims(_) | Val::Empty | Val::Refused => None,
        });
        let inputs = inputs.collect::<Option<_>>()?;
        let made = node::plain("SequenceConstruct", inputs, output.clone());
        self.push(frame, made);
        Some(output)
    }

    /// `if`: a graph a branch, whose outputs are the names that both bind and that are read after it.
    pub fn choice(
        &mut self,
        cond: &Expr,
        branches: [&[Stmt]; 2],
        rest: &[Stmt],
        frame: &mut Frame<'w>,
    ) {
        let Some(cond) = self.operand(cond, frame) else {
            return;
        };
        let bound = branches.map(|stmts| {
            let bound = stmts.iter().flat_map(names_bound);
            bound.collect::<BTreeSet<Name>>()
        });
        let read = mentioned(rest);
        let wanted: Vec<Name> = bound[0]
            .intersection(&bound[1])
            .filter(|name| read.contains(*name))
            .cloned()
            .collect();
        let mut inner = [frame.inner(), frame.inner()];
        for (inner, stmts) in inner.iter_mut().zip(branches) {
            self.block(stmts, inner);
        }
        // A tuple is given member by member.
        let vars = self.info.funcs.get(&frame.func).map(|info| &info.vars);
        let n_members = |name: &Name| match vars.and_then(|vars| vars.get(name)) {
            Some(Type::Tuple(types)) => Some(types.len()),
            _ => None,
        };
        let members: Vec<Option<usize>> = wanted.iter().map(n_members).collect();
        let mut attrs = Vec::new();
        for (key, mut inner) in ["then_branch", "else_branch"].iter().zip(inner) {
            let mut graph = Graph {
                name: (*key).to_owned(),
                ..Graph::default()
            };
            for (name, members) in wanted.iter().zip(&members) {
                let values = match members {
                    Some(n) => (0..*n)
                        .map(|at| Expr::index(Expr::name(name), [Expr::int(at as i128)]))
                        .collect(),
                    None => vec![Expr::name(name)],
                };
                for value in values {
                    self.result(&value, name, &mut inner, &mut graph);
                }
            }
            graph.nodes = inner.nodes;
            attrs.push(((*key).to_owned(), Attr::Graph(graph)));
        }
        attrs.reverse();
        let mut outputs = Vec::new();
        for (name, members) in wanted.iter().zip(&members) {
            if let Some(n) = members {
                let items: Vec<String> = (0..*n)
                    .map(|at| self.fresh(&format!("{name}_{at}")))
                    .collect();
                let found = items.iter().cloned().map(Val::Value).collect();
                frame.values.insert(name.clone(), Val::Tuple(found));
                outputs.extend(items);
                continue;
            }
            let output = self.name(name);
            let info = self.info;
            let ty = info
                .funcs
                .get(&frame.func)
                .and_then(|info| info.vars.get(name));
            if let Some(ty) = ty {
                self.note_type(frame, &output, ty);
            }
            frame
                .values
                .insert(name.clone(), Val::Value(output.clone()));
            outputs.push(output);
        }
        let node = Node {
            op: "If".to_owned(),
            domain: String::new(),
            inputs: vec![cond],
            outputs,
            attrs,
        };
        self.push(frame, node);
    }

    /// A result of a graph inside another: always that of a node of its own.
    fn result(&mut self, value: &Expr, base: &str, frame: &mut Frame<'w>, graph: &mut Graph<'w>) {
        let info = self.info;
        let vars = info.funcs.get(&frame.func).map(|info| &info.vars);
        let ty = match &value.kind {
            ExprKind::Name(name) => vars.and_then(|vars| vars.get(name)),
            ExprKind::Index { value, index } => {
                let at = index.first().and_then(Expr::as_int);
                let of = value.as_name().and_then(|name| vars?.get(name));
                match (of, at.map(usize::try_from)) {
                    (Some(Type::Tuple(types)), Some(Ok(at))) => types.get(at),
                    _ => None,
                }
            }
            _ => None,
        };
        let ty = match ty {
            Some(Type::Tuple(types)) => {
                let element = types.first().and_then(|ty| ty.as_tensor());
                element
                    .and_then(|ty| ty.dtype)
                    .map(|dtype| Proto::Sequence(Box::new(Proto::Tensor(number_of(dtype), None))))
            }
            ty => ty.and_then(|ty| tensor::type_of(ty, &|_| false)),
        };
        let Some(name) = self.operand(value, frame) else {
            return;
        };
        let is_own = self.is_made(&name, frame);
        let is_listed = graph.outputs.iter().any(|(output, _)| *output == name);
        let name = if is_own && !is_listed {
            name
        } else {
            let output = self.fresh(&format!("{base}_out"));
            self.push(frame, node::plain("Identity", vec![name], output.clone()));
            output
        };
        let ty = ty.or_else(|| {
            let tensor = irc_const_type(value)?;
            Some(Proto::Tensor(tensor.0, Some(tensor.1)))
        });
        match ty {
            Some(ty) => graph.outputs.push((name, ty)),
            None => self.refuse(value.span, &format!("the type of `{base}`")),
        }
    }

    /// `I.while_loop`: the body is a graph with the iteration, the condition and the carried values as inputs; it sees the
    /// captured values where they are.
    fn while_loop(
        &mut self,
        bound: &prim::BoundCall,
        call: &Expr,
        names: &[Name],
        ty: Option<&Type>,
        frame: &mut Frame<'w>,
    ) -> Option<Val> {
        let path = call.positional().next()?.as_path()?;
        let module = self.module;
        let func = module.find_func(path.strip_prefix("cls.")?)?;
        let info = self.func_info(&func.name);
        let listed = |items: Items<'_>| match items {
            Items::Listed(items) => items.to_vec(),
            Items::Tuple(value) => vec![value.clone()],
        };
        let (carried, captured) = (
            listed(bound.items("carried")),
            listed(bound.items("captured")),
        );
        let trips = bound
            .operand("trip_count")
            .filter(|expr| expr.kind != ExprKind::None);
        let condition = bound
            .operand("condition")
            .filter(|expr| expr.kind != ExprKind::None);
        let inputs = self.loop_inputs([trips, condition], &carried, &info, frame)?;
        let mut inner = Frame::of(func);
        let mut graph = Graph {
            name: func.name.to_string(),
            ..Graph::default()
        };
        for (at, (name, ty)) in info.params.iter().enumerate() {
            if at > carried.len() {
                let outer = captured.get(at - carried.len() - 1)?;
                self.capture(name, ty, outer, frame, &mut inner);
                continue;
            }
            let value = self.fresh(name);
            let proto = tensor::type_of(ty, &|_| false)?;
            graph.inputs.push((value.clone(), proto));
            self.note_type(&mut inner, &value, ty);
            inner.values.insert(name.clone(), Val::Value(value));
            if at == 0 {
                let value = self.fresh(&format!("{}_condition", func.name));
                let truth = Proto::Tensor(number_of(DType::Bool), Some(Vec::new()));
                graph.inputs.push((value, truth));
            }
        }
        let mut results = self.block(&func.body, &mut inner);
        let go_on = if condition.is_some() {
            if results.is_empty() {
                None
            } else {
                Some(results.remove(0))
            }
        } else {
            let given = Name::from(format!("{}_condition", func.name));
            let input = graph.inputs.get(1)?.0.clone();
            inner.values.insert(given.clone(), Val::Value(input));
            Some(Expr::name(given))
        };
        let mut output = self.operand(&go_on?, &mut inner)?;
        // A result of a graph is made in it.
        if !self.is_made(&output, &inner) {
            let own = self.fresh(&format!("{}_goes_on", func.name));
            let inputs = vec![output];
            self.push(&mut inner, node::plain("Identity", inputs, own.clone()));
            output = own;
        }
        let truth = Proto::Tensor(number_of(DType::Bool), Some(Vec::<Extent>::new()));
        graph.outputs.push((output, truth));
        for value in &results {
            let base = value.as_name().map_or("row".to_owned(), Name::to_string);
            self.result(value, &base, &mut inner, &mut graph);
        }
        graph.nodes = inner.nodes;
        let (outputs, found) = self.results(names, ty);
        let node = Node {
            op: "Loop".to_owned(),
            domain: String::new(),
            inputs,
            outputs,
            attrs: vec![("body".to_owned(), Attr::Graph(graph))],
        };
        self.push(frame, node);
        Some(found)
    }

    /// What a loop starts with: the number of trips, the condition, and the carried values.
    fn loop_inputs(
        &mut self,
        heads: [Option<&Expr>; 2],
        carried: &[Expr],
        body: &FuncInfo,
        frame: &mut Frame<'w>,
    ) -> Option<Vec<String>> {
        let mut inputs = Vec::new();
        for operand in heads {
            inputs.push(match operand {
                Some(operand) => self.operand(operand, frame)?,
                None => String::new(),
            });
        }
        for (value, (_, ty)) in carried.iter().zip(body.params.iter().skip(1)) {
            let element = match ty {
                Type::Seq(element) => element.as_tensor().and_then(|ty| ty.dtype),
                _ => None,
            };
            inputs.push(match self.value(value, frame)? {
                Val::Empty => self.empty(element, frame),
                _ => self.operand(value, frame)?,
            });
        }
        Some(inputs)
    }

    /// A value from around a loop, inside it.
    fn capture(
        &mut self,
        name: &Name,
        ty: &Type,
        outer: &Expr,
        frame: &mut Frame<'w>,
        inner: &mut Frame<'w>,
    ) {
        if matches!(ty, Type::Scalar(_)) {
            let Ok(dim) = Dim::from_expr(outer) else {
                self.refuse(outer.span, "this captured value");
                return;
            };
            if let Some(vector) = self.extent(&dim, outer.span, frame) {
                inner.symbols.insert(name.clone(), Source::Vector(vector));
            }
            return;
        }
        let Some(found) = self.value(outer, frame) else {
            return;
        };
        if let Val::Value(value) = &found {
            self.note_type(inner, value, ty);
        }
        inner.values.insert(name.clone(), found);
    }
}

/// Element type and extents of a constant that is written out.
fn irc_const_type(value: &Expr) -> Option<(i64, Vec<Extent>)> {
    let (path, args) = value.as_call()?;
    let tensor = (path == "R.const").then(|| crate::tensor::parse_const(args).ok())??;
    let dims = tensor.shape.iter().map(|dim| Extent::Value(*dim as i64));
    Some((number_of(tensor.dtype), dims.collect()))
}

/// The names that a statement binds in its block.
fn names_bound(stmt: &Stmt) -> Vec<Name> {
    match &stmt.kind {
        StmtKind::Assign { target, .. } => bound_names(target),
        StmtKind::If { then, orelse, .. } => {
            let inner = |stmts: &[Stmt]| {
                let bound = stmts.iter().flat_map(names_bound);
                bound.collect::<BTreeSet<Name>>()
            };
            inner(then).intersection(&inner(orelse)).cloned().collect()
        }
        _ => Vec::new(),
    }
}
