//! Symbolic extents as values of a graph: vectors of int64 with one element each, put together to shapes.
//!
//!     R.shape_to_tensor(R.shape([n, 4 * m]))      →      n_dim = Shape(x, start=0, end=1)
//!                                                        m_dim = Shape(x, start=1, end=2)
//!                                                        product = Mul(m_dim, [4])
//!                                                        shape = Concat(n_dim, product, axis=0)

use irc_syntax::{BinaryOp, Expr, ExprKind, Name, Span, UnaryOp};

use super::graph::{Exporter, Frame, Source};
use super::node;
use super::proto::{Attr, Node};
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
        if let Some(value) = frame.shapes.get(dims).cloned() {
            let output = self.fresh("shape");
            self.push(frame, node::plain("Shape", vec![value], output.clone()));
            return Some(output);
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
        let output = self.fresh("shape");
        let mut concat = node::plain("Concat", parts, output.clone());
        concat.attrs.push(("axis".to_owned(), Attr::Int(0)));
        self.push(frame, concat);
        Some(output)
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
        let output = self.fresh("number");
        let shape = self.numbers(&[])?;
        self.push(
            frame,
            node::plain("Reshape", vec![vector, shape], output.clone()),
        );
        Some(output)
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
            (None, None) => self.arithmetic(&dim.to_expr(), span, frame)?,
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
        let output = self.fresh(&format!("{symbol}_dim"));
        let node = match source {
            Source::Axis(value, axis) => Node {
                attrs: vec![
                    ("end".to_owned(), Attr::Int(axis as i64 + 1)),
                    ("start".to_owned(), Attr::Int(axis as i64)),
                ],
                ..node::plain("Shape", vec![value], output.clone())
            },
            Source::Element(vector, at) => {
                let place = self.numbers(&[at as i64])?;
                node::plain("Gather", vec![vector, place], output.clone())
            }
            Source::Vector(vector) => return Some(vector),
            Source::Scalar(scalar) => {
                let shape = self.numbers(&[1])?;
                node::plain("Reshape", vec![scalar, shape], output.clone())
            }
        };
        self.push(frame, node);
        Some(output)
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
        let output = self.fresh("extent");
        self.push(frame, node::plain(op, inputs, output.clone()));
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
