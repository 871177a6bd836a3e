//! Operators that run graphs of theirs between the stages of a computation.
//!
//! Before: `FlexAttention(q, k, v)` with a graph `score_mod` of one node `Add(scores, bias)`. After:
//!
//!     y_scores = onnx.preview.FlexAttention.scores(q, k, since=1)
//!     scores_out = onnx.Add(y_scores, bias, since=26)
//!     y_probs = onnx.preview.FlexAttention.probs(scores_out, since=1)
//!     y = onnx.preview.FlexAttention.output(y_probs, v, since=1)
//!
//! The stages are functions of the library; names with a second dot are no operator's of any model.

use std::collections::{BTreeMap, HashMap};

use irc_syntax::ast::{Expr, Name, Stmt};

use super::fault::Failure;
use super::import::{Importer, Place, Scope};
use super::model::{AttrValue, Node};
use super::order::describe;

/// The dotted name of the operator whose stages stand here.
pub const FLEX_ATTENTION: &str = "onnx.preview.FlexAttention";

/// Whether an attribute is a graph.
pub fn has_graph(attrs: &BTreeMap<&str, &AttrValue<'_>>) -> bool {
    attrs
        .values()
        .any(|value| matches!(value, AttrValue::Graph(_)))
}

impl<'m, 'a> Importer<'m, 'a> {
    /// Attention with graphs that change the scores and the probabilities.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn flex_attention(
        &mut self,
        node: &'m Node<'a>,
        version: i64,
        inputs: &[Option<Name>],
        attrs: &BTreeMap<&'a str, &'m AttrValue<'a>>,
        scope: &mut Scope<'a>,
        place: Place<'_, 'm, 'a>,
        body: &mut Vec<Stmt>,
    ) -> Result<(), Failure> {
        let at = describe(node);
        let ([Some(query), Some(key), Some(value)], [_]) = (inputs, node.outputs.as_slice()) else {
            return Err(Failure::invalid(format!(
                "{at} has {} inputs and {} outputs, and a FlexAttention has three and one",
                inputs.len(),
                node.outputs.len()
            )));
        };
        let base = node.outputs.first().copied().unwrap_or_default();
        let stage = |name: &str, args: [&Name; 2]| {
            Expr::call(&format!("{FLEX_ATTENTION}.{name}"), args.map(Expr::name))
        };
        let mut call = stage("scores", [query, key]);
        for (name, attr) in attrs {
            if !matches!(attr, AttrValue::Graph(_))
                && let Some(attr) = self.attr_value(name, attr, node, body)?
            {
                call = call.with(name, attr);
            }
        }
        let since = |call: Expr| call.with("since", Expr::int(version));
        let scores = self.names.fresh(&format!("{base}_scores"));
        body.push(Stmt::bind(scores.clone(), since(call)));
        let scores = self.modified("score_mod", scores, node, attrs, scope, place, body)?;
        let probs = self.names.fresh(&format!("{base}_probs"));
        let call = Expr::call(&format!("{FLEX_ATTENTION}.probs"), [Expr::name(scores)]);
        body.push(Stmt::bind(probs.clone(), since(call)));
        let probs = self.modified("prob_mod", probs, node, attrs, scope, place, body)?;
        let call = since(stage("output", [&probs, value]));
        for output in self.bind_outputs(node, scope) {
            body.push(Stmt::bind(output, call.clone()));
        }
        Ok(())
    }

    /// The nodes of the graph in an attribute, with its one input bound to a value; the name of its one output.
    #[allow(clippy::too_many_arguments)]
    fn modified(
        &mut self,
        attr: &str,
        value: Name,
        node: &'m Node<'a>,
        attrs: &BTreeMap<&'a str, &'m AttrValue<'a>>,
        scope: &Scope<'a>,
        place: Place<'_, 'm, 'a>,
        body: &mut Vec<Stmt>,
    ) -> Result<Name, Failure> {
        let at = describe(node);
        let graph = match attrs.get(attr) {
            None => return Ok(value),
            Some(AttrValue::Graph(graph)) => graph.as_ref(),
            Some(_) => {
                return Err(Failure::invalid(format!(
                    "attribute `{attr}` of {at} is no graph"
                )));
            }
        };
        let ([input], [output]) = (graph.inputs.as_slice(), graph.outputs.as_slice()) else {
            return Err(Failure::invalid(format!(
                "graph `{attr}` of {at} has {} inputs and {} outputs, and it changes one tensor",
                graph.inputs.len(),
                graph.outputs.len()
            )));
        };
        let mut inner = scope.clone();
        inner.levels.push(HashMap::new());
        inner.define(input.name, value);
        let what = format!("graph `{attr}` of {at}");
        body.extend(self.graph_body(graph, &mut inner, place, &what)?);
        self.find_output(output.name, graph, &inner, &what)
    }
}
