//! Symbolic extents as values of a graph: vectors of int64 with one element each, put together to shapes.
//!
//!     R.shape_to_tensor(R.shape([n, 4 * m]))      →      n_dim = Shape(x, start=0, end=1)
//!                                                        m_dim = Shape(x, start=1, end=2)
//!                                                        extent = Mul(m_dim, [4])
//!                                                        shape = Concat(n_dim, extent, axis=0)
//!
//! An extent that some value has is read from it; what is computed is computed once.

use irc_syntax::{BinaryOp, Expr, ExprKind, Name, Span, UnaryOp};

use super::graph::{Exporter, Frame, Source};
use super::node;
use super::proto::Attr;
use crate::shape::Dim;

impl<'w> Exporter<'_, 'w> {
    /// A shape as a vector.
    pub fn vector(
        &mut self,
        dims: &[Dim],
        span: Option<Span>,
        frame: &mut Frame<'w>,
    ) -> Option<String> {
        let known: Option<Vec<i64>> = dims.iter().map(Dim::as_int).collect();
        if let Some(known) = known {
            return self.numbers(&known);
        }
        if let Some(vector) = frame.vectors.get(dims) {
            return Some(vector.clone());
        }
        let vector = self.put_together(dims, span, frame)?;
        frame.vectors.insert(dims.to_vec(), vector.clone());
        Some(vector)
    }

    fn put_together(
        &mut self,
        dims: &[Dim],
        span: Option<Span>,
        frame: &mut Frame<'w>,
    ) -> Option<String> {
        if let Some(value) = frame.shapes.get(dims).cloned() {
            return Some(self.made("Shape", "shape", vec![value], Vec::new(), frame));
        }
        let (mut parts, mut run) = (Vec::new(), Vec::new());
        for dim in dims {
            if let Some(value) = dim.as_int() {
                run.push(value);
                continue;
            }
            if !run.is_empty() {
                parts.push(self.numbers(&std::mem::take(&mut run))?);
            }
            parts.push(self.extent(dim, span, frame)?);
        }
        if !run.is_empty() {
            parts.push(self.numbers(&run)?);
        }
        if let [only] = parts.as_slice() {
            return Some(only.clone());
        }
        let axis = vec![("axis", 0)];
        Some(self.made("Concat", "shape", parts, axis, frame))
    }

    /// A shape that has a name in the text: a vector of its own.
    pub fn named_vector(
        &mut self,
        dims: &[Dim],
        name: &Name,
        span: Option<Span>,
        frame: &mut Frame<'w>,
    ) -> Option<String> {
        let is_known = dims.iter().all(|dim| dim.as_int().is_some());
        if let Some(value) = frame.shapes.get(dims).filter(|_| !is_known).cloned() {
            let own = self.name(name);
            self.push(frame, node::plain("Shape", vec![value], own.clone()));
            frame.vectors.insert(dims.to_vec(), own.clone());
            return Some(own);
        }
        let n_nodes = frame.nodes.len();
        let vector = self.vector(dims, span, frame)?;
        let at = frame
            .nodes
            .iter()
            .position(|node| node.outputs == [vector.clone()]);
        let Some(at) = at else { return Some(vector) };
        let own = self.name(name);
        if at < n_nodes {
            let node = frame.nodes.get(at)?;
            let mut copy = node::plain(&node.op, node.inputs.clone(), own.clone());
            for (name, value) in &node.attrs {
                if let Attr::Int(value) = value {
                    copy.attrs.push((name.clone(), Attr::Int(*value)));
                }
            }
            self.push(frame, copy);
            return Some(own);
        }
        frame.nodes.get_mut(at)?.outputs = vec![own.clone()];
        let known = frame.made.values_mut().chain(frame.dims.values_mut());
        let known = known.chain(frame.vectors.values_mut());
        known
            .filter(|known| **known == vector)
            .for_each(|known| *known = own.clone());
        Some(own)
    }

    /// A number as a 0-d tensor.
    pub fn scalar(
        &mut self,
        dim: &Dim,
        span: Option<Span>,
        frame: &mut Frame<'w>,
    ) -> Option<String> {
        if let Some(value) = dim.as_int() {
            let value = Expr::int(value);
            return self.constant(&Expr::call("R.const", [value, Expr::str("int64")]), None);
        }
        let vector = self.extent(dim, span, frame)?;
        let shape = self.numbers(&[])?;
        let inputs = vec![vector, shape];
        Some(self.made("Reshape", "number", inputs, Vec::new(), frame))
    }

    /// One extent as a vector of one element.
    pub fn extent(
        &mut self,
        dim: &Dim,
        span: Option<Span>,
        frame: &mut Frame<'w>,
    ) -> Option<String> {
        if let Some(found) = frame.dims.get(dim) {
            return Some(found.clone());
        }
        let found = match (dim.as_int(), dim.as_sym()) {
            (Some(value), _) => self.numbers(&[value])?,
            (None, Some(symbol)) => self.symbol(symbol, span, frame)?,
            (None, None) => match frame.extents.get(dim).cloned() {
                Some((value, axis)) => {
                    let axis = i64::try_from(axis).ok()?;
                    let attrs = vec![("end", axis + 1), ("start", axis)];
                    self.made("Shape", "extent", vec![value], attrs, frame)
                }
                None => self.arithmetic(&dim.to_expr(), span, frame)?,
            },
        };
        frame.dims.insert(dim.clone(), found.clone());
        Some(found)
    }

    fn symbol(
        &mut self,
        symbol: &Name,
        span: Option<Span>,
        frame: &mut Frame<'w>,
    ) -> Option<String> {
        let Some(source) = frame.symbols.get(symbol).cloned() else {
            self.refuse(span, &format!("the extent `{symbol}`, which no value has,"));
            return None;
        };
        let name = format!("{symbol}_dim");
        let (op, inputs, attrs) = match source {
            Source::Axis(value, axis) => {
                let axis = i64::try_from(axis).ok()?;
                (
                    "Shape",
                    vec![value],
                    vec![("end", axis + 1), ("start", axis)],
                )
            }
            Source::Element(vector, at) => {
                let place = self.numbers(&[i64::try_from(at).ok()?])?;
                ("Gather", vec![vector, place], Vec::new())
            }
            Source::Vector(vector) => return Some(vector),
            Source::Scalar(scalar) => {
                let shape = self.numbers(&[1])?;
                ("Reshape", vec![scalar, shape], Vec::new())
            }
        };
        Some(self.made(op, &name, inputs, attrs, frame))
    }

    /// Arithmetic of extents; quotients round down, as those of ONNX do not below zero.
    fn arithmetic(
        &mut self,
        expr: &Expr,
        span: Option<Span>,
        frame: &mut Frame<'w>,
    ) -> Option<String> {
        let refused = |this: &mut Self| {
            this.refuse(
                span,
                &format!("the extent `{}`", irc_syntax::print_expr(expr)),
            );
            None
        };
        match &expr.kind {
            ExprKind::Int(_) | ExprKind::Name(_) => {
                let dim = Dim::from_expr(expr).ok()?;
                self.extent(&dim, span, frame)
            }
            ExprKind::Unary {
                op: UnaryOp::Neg,
                value,
            } => {
                let value = self.arithmetic(value, span, frame)?;
                Some(self.computed("Neg", vec![value], frame))
            }
            ExprKind::Binary { op, lhs, rhs } => {
                let sides = vec![
                    self.arithmetic(lhs, span, frame)?,
                    self.arithmetic(rhs, span, frame)?,
                ];
                Some(match op {
                    BinaryOp::Add => self.computed("Add", sides, frame),
                    BinaryOp::Sub => self.computed("Sub", sides, frame),
                    BinaryOp::Mul => self.computed("Mul", sides, frame),
                    BinaryOp::Mod => self.computed("Mod", sides, frame),
                    BinaryOp::FloorDiv if may_be_negative(lhs) => {
                        let rest = self.computed("Mod", sides.clone(), frame);
                        let [lhs, rhs] = <[String; 2]>::try_from(sides).ok()?;
                        let whole = self.computed("Sub", vec![lhs, rest], frame);
                        self.computed("Div", vec![whole, rhs], frame)
                    }
                    BinaryOp::FloorDiv => self.computed("Div", sides, frame),
                    _ => return refused(self),
                })
            }
            ExprKind::Call { args, .. } => {
                let op = match expr.as_call()?.0.as_str() {
                    "T.min" => "Min",
                    "T.max" => "Max",
                    _ => return refused(self),
                };
                let sides = args
                    .iter()
                    .map(|arg| self.arithmetic(&arg.value, span, frame))
                    .collect::<Option<_>>()?;
                Some(self.computed(op, sides, frame))
            }
            _ => refused(self),
        }
    }

    fn computed(&mut self, op: &str, inputs: Vec<String>, frame: &mut Frame<'w>) -> String {
        self.made(op, "extent", inputs, Vec::new(), frame)
    }

    /// The output of a node, whose name is made of `base` where there is no such node yet.
    fn made(
        &mut self,
        op: &str,
        base: &str,
        inputs: Vec<String>,
        attrs: Vec<(&str, i64)>,
        frame: &mut Frame<'w>,
    ) -> String {
        let text = format!("{op} {inputs:?} {attrs:?}");
        if let Some(output) = frame.made.get(&text) {
            return output.clone();
        }
        let output = self.fresh(base);
        frame.made.insert(text, output.clone());
        let mut node = node::plain(op, inputs, output.clone());
        let attrs = attrs.into_iter();
        node.attrs = attrs
            .map(|(name, value)| (name.to_owned(), Attr::Int(value)))
            .collect();
        self.push(frame, node);
        output
    }
}

/// Whether an expression of extents, which are not negative, subtracts.
fn may_be_negative(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Int(value) => *value < 0,
        ExprKind::Unary { .. } => true,
        ExprKind::Binary { op, lhs, rhs } => {
            *op == BinaryOp::Sub || may_be_negative(lhs) || may_be_negative(rhs)
        }
        ExprKind::Call { args, .. } => args.iter().any(|arg| may_be_negative(&arg.value)),
        _ => false,
    }
}
