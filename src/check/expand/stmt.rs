//! Statements of templates.

use irc_syntax::{BinaryOp, Diagnostic, Expr, ExprKind, Stmt, StmtKind};

use super::eval::fault;
use super::{Eval, Frame, Machine, Value};
use crate::check::prim::Scope as _;
use crate::check::{Type, type_to_expr};

/// How a statement ends.
pub(super) enum Flow {
    /// The next one follows.
    Next,
    /// The loop ends.
    Break,
    /// The loop goes on.
    Continue,
    /// The function ends.
    Return(Value),
}

impl<'a> Machine<'_, 'a> {
    pub(super) fn run(&mut self, body: &'a [Stmt], frame: &mut Frame<'a>) -> Eval<Flow> {
        for stmt in body {
            match self.stmt(stmt, frame)? {
                Flow::Next => {}
                other => return Ok(other),
            }
        }
        Ok(Flow::Next)
    }

    fn stmt(&mut self, stmt: &'a Stmt, frame: &mut Frame<'a>) -> Eval<Flow> {
        self.step()?;
        match &stmt.kind {
            StmtKind::Assign { target, value, .. } => {
                let hint = target.as_name().map_or("", |name| name.as_str());
                let value = self.eval(value, frame, hint)?;
                self.assign(target, value, frame)?;
                Ok(Flow::Next)
            }
            StmtKind::Expr(expr) => {
                if !matches!(expr.kind, ExprKind::Str(_)) && !expr.is_call_of("R.output") {
                    self.eval(expr, frame, "")?;
                }
                Ok(Flow::Next)
            }
            StmtKind::If {
                cond, then, orelse, ..
            } => match self.condition(cond, frame)? {
                true => self.run(then, frame),
                false => self.run(orelse, frame),
            },
            StmtKind::For { target, iter, body } => {
                let items = self.eval(iter, frame, "")?;
                for item in self.iterate(items, iter.span, frame)? {
                    self.step()?;
                    self.assign(target, item, frame)?;
                    match self.run(body, frame)? {
                        Flow::Next | Flow::Continue => {}
                        Flow::Break => break,
                        Flow::Return(value) => return Ok(Flow::Return(value)),
                    }
                }
                Ok(Flow::Next)
            }
            StmtKind::While { cond, body } => {
                while self.condition(cond, frame)? {
                    self.step()?;
                    match self.run(body, frame)? {
                        Flow::Next | Flow::Continue => {}
                        Flow::Break => break,
                        Flow::Return(value) => return Ok(Flow::Return(value)),
                    }
                }
                Ok(Flow::Next)
            }
            StmtKind::With { body, .. } => self.run(body, frame),
            StmtKind::Return(value) => match value {
                Some(value) => Ok(Flow::Return(self.eval(value, frame, "=")?)),
                None => Ok(Flow::Return(Value::None)),
            },
            StmtKind::Assert { cond, message } => {
                let value = self.eval(cond, frame, "")?;
                match value.truth(self.facts()) {
                    Some(false) => {
                        let text = match message {
                            Some(message) => self.eval(message, frame, "")?,
                            None => Value::Str("a constraint does not hold".to_string()),
                        };
                        return Err(self.constraint(text));
                    }
                    None => self.agree_at_run_time(cond, frame)?,
                    Some(true) => {}
                }
                Ok(Flow::Next)
            }
            StmtKind::Break => Ok(Flow::Break),
            StmtKind::Continue => Ok(Flow::Continue),
            StmtKind::Pass => Ok(Flow::Next),
            StmtKind::Func(func) => {
                frame.defs.insert(func.name.clone(), func);
                Ok(Flow::Next)
            }
            StmtKind::Declare { .. } | StmtKind::Import(_) | StmtKind::Error => Err(fault(
                stmt.span,
                "this has no meaning in a library function",
            )),
        }
    }

    /// A constraint that is not decided: that two extents are equal is checked by the program, and holds from here
    /// on; any other is left to the operators that rest on it.
    fn agree_at_run_time(&mut self, cond: &Expr, frame: &mut Frame<'a>) -> Eval<()> {
        let ExprKind::Binary {
            op: BinaryOp::Eq,
            lhs,
            rhs,
        } = &cond.kind
        else {
            return Ok(());
        };
        let (lhs, rhs) = (self.eval(lhs, frame, "")?, self.eval(rhs, frame, "")?);
        let (Some(a), Some(b)) = (lhs.as_dim(), rhs.as_dim()) else {
            return Ok(());
        };
        let shape = Expr::call("R.shape", [Expr::list([a.to_expr()])]);
        let ty = Type::Shape(Some(vec![b.clone()]));
        let cast = Expr::call("R.match_cast", [shape, type_to_expr(&ty)]);
        self.bind(&format!("{}_agree", frame.prefix), cast.at(self.span), ty);
        self.inner().assume_equal(&a, &b);
        Ok(())
    }

    /// A constraint of a library function that the arguments break; shown at the call.
    pub(super) fn constraint(&self, text: Value) -> super::Fault {
        let text = match text {
            Value::Str(text) => text,
            other => other.describe(),
        };
        Box::new(Diagnostic::error("constraint", text))
    }

    /// Binds a name, or the names of a tuple, to a value.
    pub(super) fn assign(
        &mut self,
        target: &Expr,
        value: Value,
        frame: &mut Frame<'a>,
    ) -> Eval<()> {
        match &target.kind {
            ExprKind::Name(name) => {
                frame.vars.insert(name.clone(), value);
                Ok(())
            }
            // What is in error has been reported; so are its parts.
            ExprKind::Tuple { items, .. } | ExprKind::List(items)
                if matches!(value, Value::Expr(_, Type::Error)) =>
            {
                items
                    .iter()
                    .try_for_each(|item| self.assign(item, value.clone(), frame))
            }
            ExprKind::Tuple { items, .. } | ExprKind::List(items) => {
                let parts = self.iterate(value, target.span, frame)?;
                if parts.len() != items.len() {
                    let message = format!("{} values for {} names", parts.len(), items.len());
                    return Err(fault(target.span, &message));
                }
                items
                    .iter()
                    .zip(parts)
                    .try_for_each(|(item, part)| self.assign(item, part, frame))
            }
            _ => Err(fault(target.span, "only names are assigned to")),
        }
    }
}
