//! Loop, Scan and SequenceMap: a function inside the function as body, and one call of `I.while_loop`.
//!
//! Before: `end, rows = Loop(n, go, start)` with a graph as body. After:
//!
//!     def end_body(i, acc):
//!         go_in = R.const(True, "bool")
//!         …
//!         return (go_out, acc_out, row)
//!     end, rows = I.while_loop(end_body, n, go, (start,))
//!
//! A body sees the names around it. Types are not known here: the pass `lift` finds them and makes the body a function
//! of the module. Scan takes one element of each scanned input an iteration; Scan before operator set 9 is a loop over
//! the batch around that loop. SequenceMap carries the sequences it makes.

use std::collections::{BTreeMap, HashMap};

use irc_syntax::ast::{Expr, Func, FuncKind, Name, Param, Stmt, StmtKind, Trivia};

use super::fault::Failure;
use super::import::{Importer, Place, Scope};
use super::model::{AttrValue, Graph, Node};
use super::order::describe;

type Attrs<'p, 'm, 'a> = &'p BTreeMap<&'a str, &'m AttrValue<'a>>;

/// What is the same for all of a node.
#[derive(Clone, Copy)]
struct Site<'p, 'm, 'a> {
    node: &'m Node<'a>,
    version: i64,
    scope: &'p Scope<'a>,
    place: Place<'p, 'm, 'a>,
}

impl<'m, 'a> Importer<'m, 'a> {
    /// A node whose body is run many times.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn loop_node(
        &mut self,
        node: &'m Node<'a>,
        version: i64,
        inputs: &[Option<Name>],
        attrs: Attrs<'_, 'm, 'a>,
        scope: &mut Scope<'a>,
        place: Place<'_, 'm, 'a>,
        body: &mut Vec<Stmt>,
    ) -> Result<(), Failure> {
        let graph = match attrs.get("body") {
            Some(AttrValue::Graph(graph)) => graph.as_ref(),
            Some(_) | None => {
                let at = describe(node);
                return Err(Failure::invalid(format!(
                    "{at} has no graph in attribute `body`"
                )));
            }
        };
        let site = Site {
            node,
            version,
            scope,
            place,
        };
        let results = match node.op {
            "Loop" => self.plain_loop(site, graph, inputs, body)?,
            "Scan" => self.scan(site, graph, inputs, attrs, body)?,
            _ => self.sequence_map(site, graph, inputs, body)?,
        };
        let outputs = self.bind_outputs(node, scope);
        if outputs.len() > results.len() {
            return Err(Failure::invalid(format!(
                "{} has {} outputs, and its body gives {}",
                describe(node),
                outputs.len(),
                results.len()
            )));
        }
        for (output, result) in outputs.into_iter().zip(results) {
            body.push(Stmt::bind(output, result));
        }
        Ok(())
    }

    /// A name made from that of the node's first output.
    fn part(&mut self, site: Site<'_, 'm, 'a>, what: &str) -> Name {
        let base = site.node.outputs.iter().find(|output| !output.is_empty());
        let base = base.copied().unwrap_or("loop");
        self.names.fresh(&format!("{base}_{what}"))
    }

    /// The same value without axes: numbers of iterations and conditions may have one axis of extent 1.
    fn scalar(&mut self, site: Site<'_, 'm, 'a>, value: &Name, body: &mut Vec<Stmt>) -> Name {
        let scalar = self.part(site, "scalar");
        let shape = Expr::call("R.shape", [Expr::list([])]);
        let value = Expr::call("R.reshape", [Expr::name(value.clone()), shape]);
        body.push(Stmt::bind(scalar.clone(), value));
        scalar
    }

    /// The statements of a graph whose inputs are bound to names, and the names of its outputs.
    fn body_graph(
        &mut self,
        site: Site<'_, 'm, 'a>,
        graph: &'m Graph<'a>,
        inputs: &[Name],
        stmts: &mut Vec<Stmt>,
    ) -> Result<Vec<Name>, Failure> {
        let what = format!("the body of {}", describe(site.node));
        if graph.inputs.len() != inputs.len() {
            return Err(Failure::invalid(format!(
                "{what} has {} inputs, and {} are passed to it",
                graph.inputs.len(),
                inputs.len()
            )));
        }
        let mut inner = site.scope.clone();
        inner.levels.push(HashMap::new());
        for (input, name) in graph.inputs.iter().zip(inputs) {
            inner.define(input.name, name.clone());
        }
        stmts.extend(self.graph_body(graph, &mut inner, site.place, &what)?);
        let mut results = Vec::with_capacity(graph.outputs.len());
        for output in &graph.outputs {
            let what = format!("output of {what}");
            results.push(self.find_output(output.name, graph, &inner, &what)?);
        }
        Ok(results)
    }

    /// The body as a function, and the call of the loop; gives names for its results.
    #[allow(clippy::too_many_arguments)]
    fn call_loop(
        &mut self,
        site: Site<'_, 'm, 'a>,
        params: Vec<Name>,
        mut stmts: Vec<Stmt>,
        results: Vec<Expr>,
        (trips, condition): (Expr, Expr),
        initial: Vec<Expr>,
        body: &mut Vec<Stmt>,
    ) -> Vec<Name> {
        let n_results = results.len() - usize::from(condition != Expr::none());
        stmts.push(Stmt::ret(match results.as_slice() {
            [one] => one.clone(),
            _ => Expr::tuple(results),
        }));
        let mut func = Func::new(FuncKind::Local, self.part(site, "body"));
        func.params = params
            .into_iter()
            .map(|name| Param {
                name,
                ty: None,
                default: None,
                trivia: Trivia::default(),
                span: None,
            })
            .collect();
        func.body = stmts;
        let call = Expr::call(
            "I.while_loop",
            [
                Expr::name(func.name.clone()),
                trips,
                condition,
                Expr::tuple(initial),
            ],
        );
        body.push(Stmt::new(StmtKind::Func(Box::new(func))));
        let names: Vec<Name> = (0..n_results)
            .map(|at| self.part(site, &format!("loop{at}")))
            .collect();
        let target = match names.as_slice() {
            [one] => Expr::name(one.clone()),
            many => Expr::tuple(many.iter().cloned().map(Expr::name)),
        };
        body.push(Stmt::assign(target, call));
        names
    }

    fn plain_loop(
        &mut self,
        site: Site<'_, 'm, 'a>,
        graph: &'m Graph<'a>,
        inputs: &[Option<Name>],
        body: &mut Vec<Stmt>,
    ) -> Result<Vec<Expr>, Failure> {
        let at = describe(site.node);
        let (trips, condition) = (inputs.first().cloned(), inputs.get(1).cloned());
        let (trips, condition) = (trips.flatten(), condition.flatten());
        if trips.is_none() && condition.is_none() {
            return Err(Failure::unsupported(format!(
                "{at} has neither a number of iterations nor a condition, so it never ends"
            )));
        }
        let mut initial = Vec::new();
        for input in inputs.iter().skip(2) {
            match input {
                Some(name) => initial.push(Expr::name(name.clone())),
                None => {
                    return Err(Failure::invalid(format!("{at} leaves out a carried value")));
                }
            }
        }
        let mut params: Vec<Name> = graph
            .inputs
            .iter()
            .map(|input| self.names.fresh(input.name))
            .collect();
        let mut stmts = Vec::new();
        let [_, holds, ..] = params.as_slice() else {
            return Err(Failure::invalid(format!(
                "the body of {at} takes no iteration and condition"
            )));
        };
        // An iteration is made only where the condition holds.
        let truth = Expr::call("R.const", [Expr::bool(true), Expr::str("bool")]);
        stmts.push(Stmt::bind(holds.clone(), truth));
        let mut results = self.body_graph(site, graph, &params, &mut stmts)?;
        params.remove(1);
        if results.len() < 1 + initial.len() || params.len() != 1 + initial.len() {
            return Err(Failure::invalid(format!(
                "the body of {at} takes and gives another number of carried values than {}",
                initial.len()
            )));
        }
        let goes_on = results.remove(0);
        let mut results: Vec<Expr> = results.into_iter().map(Expr::name).collect();
        // Without a condition that of the body is ignored, as the operator's text says.
        let condition = match condition {
            Some(condition) => {
                let goes_on = self.scalar(site, &goes_on, &mut stmts);
                results.insert(0, Expr::name(goes_on));
                Expr::name(self.scalar(site, &condition, body))
            }
            None => Expr::none(),
        };
        let trips = match trips {
            Some(trips) => Expr::name(self.scalar(site, &trips, body)),
            None => Expr::none(),
        };
        let names = self.call_loop(
            site,
            params,
            stmts,
            results,
            (trips, condition),
            initial,
            body,
        );
        Ok(names.into_iter().map(Expr::name).collect())
    }

    fn scan(
        &mut self,
        site: Site<'_, 'm, 'a>,
        graph: &'m Graph<'a>,
        inputs: &[Option<Name>],
        attrs: Attrs<'_, 'm, 'a>,
        body: &mut Vec<Stmt>,
    ) -> Result<Vec<Expr>, Failure> {
        let at = describe(site.node);
        let batched = site.version < 9;
        let mut given = inputs.iter();
        let lengths = if batched { given.next() } else { None };
        let lengths = lengths.cloned().flatten();
        let given: Option<Vec<Name>> = given.cloned().collect();
        let given =
            given.ok_or_else(|| Failure::invalid(format!("{at} leaves out one of its inputs")))?;
        let ints = |key: &str| match attrs.get(key) {
            Some(AttrValue::Ints(values)) => values.clone(),
            _ => Vec::new(),
        };
        let n_scanned = match attrs.get("num_scan_inputs") {
            Some(AttrValue::Int(n)) => usize::try_from(*n).ok(),
            _ => None,
        };
        let n_scanned = n_scanned.filter(|n| 1 <= *n && *n <= given.len());
        let Some(n_scanned) = n_scanned else {
            return Err(Failure::invalid(format!(
                "attribute `num_scan_inputs` of {at} is not one of its inputs' numbers"
            )));
        };
        let scan = Scan {
            graph,
            n_states: given.len() - n_scanned,
            axes: ints("scan_input_axes"),
            backward: ints(if batched {
                "directions"
            } else {
                "scan_input_directions"
            }),
            out_axes: ints("scan_output_axes"),
            out_backward: ints("scan_output_directions"),
        };
        if !batched {
            return self.scan_once(site, &scan, &given, None, body);
        }
        // Each member of the batch is scanned by itself, and what comes out is stacked.
        let member = self.part(site, "member");
        let mut stmts = Vec::new();
        let mut parts = Vec::with_capacity(given.len());
        for name in &given {
            let part = self.part(site, "part");
            let index = Expr::name(member.clone());
            stmts.push(Stmt::bind(part.clone(), gather(site, name, index, 0)));
            parts.push(part);
        }
        let length = lengths.map(|lengths| {
            let length = self.part(site, "length");
            let index = Expr::name(member.clone());
            stmts.push(Stmt::bind(length.clone(), gather(site, &lengths, index, 0)));
            length
        });
        let results = self.scan_once(site, &scan, &parts, length.as_ref(), &mut stmts)?;
        let Some(first) = given.first() else {
            return Ok(Vec::new());
        };
        let count = self.extent(site, first, 0, body);
        let loop_bounds = (Expr::name(count), Expr::none());
        let names = self.call_loop(
            site,
            vec![member],
            stmts,
            results,
            loop_bounds,
            Vec::new(),
            body,
        );
        Ok(names.into_iter().map(Expr::name).collect())
    }

    /// The extent of an axis, as a tensor without axes.
    fn extent(
        &mut self,
        site: Site<'_, 'm, 'a>,
        value: &Name,
        axis: i64,
        body: &mut Vec<Stmt>,
    ) -> Name {
        let (shape, extent) = (self.part(site, "shape"), self.part(site, "count"));
        let call = Expr::call("onnx.Shape", [Expr::name(value.clone())]);
        let call = call.with("since", Expr::int(site.version));
        body.push(Stmt::bind(shape.clone(), call));
        let index = Expr::call("R.const", [Expr::int(axis), Expr::str("int64")]);
        body.push(Stmt::bind(extent.clone(), gather(site, &shape, index, 0)));
        extent
    }

    /// A scan without a batch: names of the last states, and of the stacked outputs.
    fn scan_once(
        &mut self,
        site: Site<'_, 'm, 'a>,
        scan: &Scan<'m, 'a>,
        given: &[Name],
        length: Option<&Name>,
        body: &mut Vec<Stmt>,
    ) -> Result<Vec<Expr>, Failure> {
        let (states, scanned) = given.split_at(scan.n_states);
        let Some(first) = scanned.first() else {
            return Ok(Vec::new());
        };
        let axis_of = |at: usize| scan.axes.get(at).copied().unwrap_or(0);
        let count = self.extent(site, first, axis_of(0), body);
        let iteration = self.part(site, "i");
        let mut stmts = Vec::new();
        let mut params = vec![iteration.clone()];
        for _ in states {
            params.push(self.part(site, "state"));
        }
        let mut inputs: Vec<Name> = params.iter().skip(1).cloned().collect();
        for (at, name) in scanned.iter().enumerate() {
            let mut index = Expr::name(iteration.clone());
            if scan.backward.get(at) == Some(&1) {
                let one = Expr::call("R.const", [Expr::int(1), Expr::str("int64")]);
                let last = self.part(site, "last");
                let end = length.unwrap_or(&count).clone();
                let call = Expr::call("R.subtract", [Expr::name(end), one]);
                stmts.push(Stmt::bind(last.clone(), call));
                let from_end = self.part(site, "from_end");
                let call = Expr::call("R.subtract", [Expr::name(last), index]);
                stmts.push(Stmt::bind(from_end.clone(), call));
                index = Expr::name(from_end);
                if length.is_some() {
                    // Behind the end of its sequence an iteration reads what it does not use.
                    let zero = Expr::call("R.const", [Expr::int(0), Expr::str("int64")]);
                    let inside = self.part(site, "inside");
                    let call = Expr::call("R.maximum", [index, zero]);
                    stmts.push(Stmt::bind(inside.clone(), call));
                    index = Expr::name(inside);
                }
            }
            let element = self.part(site, "element");
            stmts.push(Stmt::bind(
                element.clone(),
                gather(site, name, index, axis_of(at)),
            ));
            inputs.push(element);
        }
        let results = self.body_graph(site, scan.graph, &inputs, &mut stmts)?;
        if results.len() < states.len() {
            return Err(Failure::invalid(format!(
                "the body of {} gives {} values for {} states",
                describe(site.node),
                results.len(),
                states.len()
            )));
        }
        let results = match length {
            Some(length) => self.until(site, length, &params, results, &mut stmts),
            None => results.into_iter().map(Expr::name).collect(),
        };
        let initial = states.iter().cloned().map(Expr::name).collect();
        let bounds = (Expr::name(count), Expr::none());
        let names = self.call_loop(site, params, stmts, results, bounds, initial, body);
        let mut values = Vec::with_capacity(names.len());
        for (at, name) in names.into_iter().enumerate() {
            let Some(at) = at.checked_sub(scan.n_states) else {
                values.push(Expr::name(name));
                continue;
            };
            let axis = scan.out_axes.get(at).copied().unwrap_or(0);
            let backward = scan.out_backward.get(at) == Some(&1);
            if axis == 0 && !backward {
                values.push(Expr::name(name));
                continue;
            }
            let placed = self.part(site, "placed");
            let call = Expr::call("std.onnx_scan_output", [Expr::name(name)])
                .with("axis", Expr::int(axis))
                .with("backward", Expr::bool(backward));
            body.push(Stmt::bind(placed.clone(), call));
            values.push(Expr::name(placed));
        }
        Ok(values)
    }

    /// What an iteration gives where a sequence may have ended: its states as they were, and no elements of outputs.
    fn until(
        &mut self,
        site: Site<'_, 'm, 'a>,
        length: &Name,
        params: &[Name],
        results: Vec<Name>,
        stmts: &mut Vec<Stmt>,
    ) -> Vec<Expr> {
        let [iteration, states @ ..] = params else {
            return Vec::new();
        };
        let goes_on = self.part(site, "goes_on");
        let bounds = [iteration, length].map(|name| Expr::name(name.clone()));
        stmts.push(Stmt::bind(goes_on.clone(), Expr::call("R.less", bounds)));
        let mut held = Vec::with_capacity(results.len());
        for (at, result) in results.into_iter().enumerate() {
            let mut args = vec![Expr::name(goes_on.clone()), Expr::name(result)];
            args.extend(states.get(at).cloned().map(Expr::name));
            let value = self.part(site, "until");
            let call = Expr::call("std.onnx_scan_until", args);
            stmts.push(Stmt::bind(value.clone(), call));
            held.push(Expr::name(value));
        }
        held
    }

    fn sequence_map(
        &mut self,
        site: Site<'_, 'm, 'a>,
        graph: &'m Graph<'a>,
        inputs: &[Option<Name>],
        body: &mut Vec<Stmt>,
    ) -> Result<Vec<Expr>, Failure> {
        let at = describe(site.node);
        let given: Option<Vec<Name>> = inputs.iter().cloned().collect();
        let given = given.filter(|given| !given.is_empty());
        let given =
            given.ok_or_else(|| Failure::invalid(format!("{at} leaves out one of its inputs")))?;
        let mut sequences = Vec::with_capacity(given.len());
        for name in &given {
            // Tensors among the inputs are passed to every iteration as they are.
            let source = self.part(site, "source");
            let call = Expr::call("std.onnx_map_source", [Expr::name(name.clone())]);
            body.push(Stmt::bind(source.clone(), call));
            sequences.push(source);
        }
        let count = self.part(site, "count");
        let first = sequences.first().cloned().map(Expr::name);
        body.push(Stmt::bind(count.clone(), Expr::call("I.seq_len", first)));
        let iteration = self.part(site, "i");
        let mut stmts = Vec::new();
        let mut elements = Vec::new();
        for name in &sequences {
            let element = self.part(site, "element");
            let args = [Expr::name(name.clone()), Expr::name(iteration.clone())];
            let call = Expr::call("std.onnx_map_element", args);
            stmts.push(Stmt::bind(element.clone(), call));
            elements.push(element);
        }
        let results = self.body_graph(site, graph, &elements, &mut stmts)?;
        let mut params = vec![iteration];
        let (mut initial, mut grown) = (Vec::new(), Vec::new());
        for result in results {
            let (empty, held, more) = (
                self.part(site, "empty"),
                self.part(site, "held"),
                self.part(site, "more"),
            );
            body.push(Stmt::bind(empty.clone(), Expr::call("I.sequence", [])));
            let call = Expr::call("I.seq_insert", [held.clone(), result].map(Expr::name));
            stmts.push(Stmt::bind(more.clone(), call));
            initial.push(Expr::name(empty));
            params.push(held);
            grown.push(Expr::name(more));
        }
        let bounds = (Expr::name(count), Expr::none());
        let names = self.call_loop(site, params, stmts, grown, bounds, initial, body);
        Ok(names.into_iter().map(Expr::name).collect())
    }
}

/// A Scan's body and how its inputs and outputs are walked.
struct Scan<'m, 'a> {
    graph: &'m Graph<'a>,
    n_states: usize,
    axes: Vec<i64>,
    backward: Vec<i64>,
    out_axes: Vec<i64>,
    out_backward: Vec<i64>,
}

/// `onnx.Gather(value, index, axis=…)`
fn gather(site: Site<'_, '_, '_>, value: &Name, index: Expr, axis: i64) -> Expr {
    Expr::call("onnx.Gather", [Expr::name(value.clone()), index])
        .with("axis", Expr::int(axis))
        .with("since", Expr::int(site.version))
}
