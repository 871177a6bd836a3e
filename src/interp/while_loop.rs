//! Runs `I.while_loop`: the body is a function of the module, called once an iteration.
//!
//! `body(i, carried…, captured…)` gives the condition where the loop has one, then the carried values of the next
//! iteration, then one element of each stacked result.

use super::control::stack;
use super::graph::{Frame, Run, fault, out_types};
use super::{RunError, Value};
use crate::check::Type;
use crate::check::prim::{Bound, BoundCall, Items};
use crate::tensor::Tensor;

impl Run<'_> {
    /// The carried values at the end, then the stacked ones; one alone is no tuple.
    pub(super) fn while_loop(
        &mut self,
        call: &BoundCall,
        base: &str,
        frame: &mut Frame,
    ) -> Result<Value, RunError> {
        let body = match call.get("func") {
            Bound::Expr(func) => func.as_path().and_then(|path| self.callee(&path)),
            _ => None,
        };
        let Some(body) = body else {
            return Err(RunError::runtime_error("the body is not in the module"));
        };
        let mut number = |run: &mut Self, slot: &str| match call.operand(slot) {
            Some(expr) => match run.eval(expr, base, frame)?.as_int() {
                Some(value) => Ok(Some(value)),
                None => Err(RunError::type_error(format!("`{slot}` is one number"))),
            },
            None => Ok(None),
        };
        let trips = number(self, "trip_count")?;
        let mut condition = number(self, "condition")?;
        let mut carried = self.values(call.items("carried"), base, frame)?;
        let captured = self.values(call.items("captured"), base, frame)?;
        let (types, _) = out_types(call)?;
        let mut rows: Vec<Vec<Tensor>> =
            vec![Vec::new(); types.len().saturating_sub(carried.len())];
        let mut i = 0;
        while trips.is_none_or(|trips| i < trips) && condition != Some(0) {
            let mut args = vec![Value::Tensor(Tensor::scalar(i))];
            args.extend(carried.iter().chain(&captured).cloned());
            let mut results = match self.call(&body, args)? {
                Value::Tuple(items) => items,
                one => vec![one],
            };
            if condition.is_some() {
                let first = if results.is_empty() {
                    None
                } else {
                    results.remove(0).as_int()
                };
                condition = Some(first.ok_or_else(|| {
                    RunError::type_error("the body of a loop gives its condition first")
                })?);
            }
            if results.len() != types.len() {
                let message = format!(
                    "the body gives {} values, and the loop {}",
                    results.len(),
                    types.len()
                );
                return Err(RunError::type_error(message));
            }
            let made = results.split_off(carried.len());
            carried = results;
            for (rows, row) in rows.iter_mut().zip(made) {
                rows.push(row.to_tensor(None)?);
            }
            i += 1;
        }
        let mut results = carried;
        for (rows, ty) in rows.iter().zip(types.iter().skip(results.len())) {
            results.push(Value::Tensor(match rows.as_slice() {
                [] => no_rows(ty, frame)?,
                rows => stack(rows)?,
            }));
        }
        for (result, ty) in results.iter().zip(&types) {
            frame.bind_type(ty, result, "a result of the loop")?;
        }
        Ok(match results.len() {
            1 => results.remove(0),
            _ => Value::Tuple(results),
        })
    }

    fn values(
        &mut self,
        items: Items<'_>,
        base: &str,
        frame: &mut Frame,
    ) -> Result<Vec<Value>, RunError> {
        match items {
            Items::Listed(items) => items
                .iter()
                .map(|item| self.eval(item, base, frame))
                .collect(),
            Items::Tuple(expr) => {
                let value = self.eval(expr, base, frame)?;
                Ok(value
                    .as_items()
                    .map_or_else(|| vec![value.clone()], <[_]>::to_vec))
            }
        }
    }
}

/// A stacked result without rows; extents that nothing says are 0.
fn no_rows(ty: &Type, frame: &Frame) -> Result<Tensor, RunError> {
    let known = ty.as_tensor().and_then(|tensor| {
        let dims = tensor.shape.clone()?;
        let extents = dims.iter().enumerate().map(|(axis, dim)| {
            let extent = if axis == 0 { None } else { frame.dim(dim) };
            extent.map_or(Some(0), |extent| usize::try_from(extent).ok())
        });
        Tensor::zeros(tensor.dtype?, extents.collect::<Option<_>>()?)
    });
    known.ok_or_else(|| {
        fault(irc_syntax::Diagnostic::error(
            "type-unknown",
            format!("a stacked result of type {ty} cannot be made"),
        ))
    })
}
