//! Results of a graph function: where each is made, and how it is handed over.

use std::collections::BTreeMap;

use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value};
use irc_syntax::{Expr, ExprKind, Name, Span, Stmt, StmtKind};

use super::{Form, Host, HostValue, object};
use crate::check::Type;
use crate::codegen::lower::Res;

impl Host<'_, '_, '_> {
    /// Follows every result of the `return` at the end back to the statement that allocates it.
    pub(super) fn find_outputs(&mut self, body: &[Stmt]) {
        let mut bindings: BTreeMap<Name, &Expr> = BTreeMap::new();
        let mut returned = None;
        collect_bindings(body, &mut bindings, &mut returned);
        let Some(returned) = returned else { return };
        let mut leaves = Vec::new();
        let members = |name: &Name| {
            let mut types = Vec::new();
            flatten_type(&self.known_type(name)?, &mut types)?;
            Some(types.len())
        };
        flatten_leaves(returned, &bindings, &members, 0, &mut leaves);
        for (idx, leaf) in leaves.into_iter().enumerate() {
            let Some(leaf) = leaf else { continue };
            if let Some((root, shape)) = trace(leaf, &bindings)
                && !self.outputs.contains_key(&root)
            {
                self.outputs.insert(root, (idx, shape));
            }
        }
    }

    /// `return value`
    pub(super) fn return_value(&mut self, expr: Option<&Expr>, span: Option<Span>) -> Res<()> {
        let value = match expr {
            Some(expr) => self.value(expr, None)?,
            None => HostValue::Tuple(Vec::new()),
        };
        let value = match self.ret.clone() {
            Some(ty) => self.coerce(value, &ty, span)?,
            None => value,
        };
        let mut leaves = Vec::new();
        value.flatten(&mut leaves);
        let mut at = 0;
        for (idx, leaf) in leaves.into_iter().enumerate() {
            match (self.form, self.results) {
                (Form::Inner, Some(results)) => {
                    self.store_value(leaf, results, at, span)
                        .map(|words| at += 8 * words as i32)?;
                }
                _ if matches!(leaf, HostValue::Object { .. }) => self.give_object(idx, leaf)?,
                _ => {
                    let tensor = self.as_tensor(leaf, span)?;
                    if self.placed.get(&idx) != Some(&tensor.data) {
                        let pointer = self.output(idx, &tensor.dims)?;
                        self.copy(pointer, &tensor)?;
                    }
                }
            }
        }
        self.returned = true;
        Ok(())
    }

    /// Stores a value as the words of its type, and says how many these are.
    pub(super) fn store_value(
        &mut self,
        value: HostValue,
        base: Value,
        at: i32,
        span: Option<Span>,
    ) -> Res<usize> {
        let flags = MemFlagsData::trusted();
        if let HostValue::Object { object, .. } = value {
            self.lower.b.ins().store(flags, object, base, at);
            return Ok(1);
        }
        let tensor = self.as_tensor(value, span)?;
        self.lower.b.ins().store(flags, tensor.data, base, at);
        for (axis, &dim) in tensor.dims.iter().enumerate() {
            let dim = self.lower.extent(dim);
            let place = at + 8 * (1 + axis as i32);
            self.lower.b.ins().store(flags, dim, base, place);
        }
        Ok(1 + tensor.dims.len())
    }
}

/// Bindings of the straight part of a body, dataflow blocks included, and what it returns.
fn collect_bindings<'s>(
    body: &'s [Stmt],
    bindings: &mut BTreeMap<Name, &'s Expr>,
    returned: &mut Option<&'s Expr>,
) {
    for stmt in body {
        match &stmt.kind {
            StmtKind::Assign { target, value, .. } => {
                if let Some(name) = target.as_name() {
                    bindings.insert(name.clone(), value);
                }
            }
            StmtKind::With { body, .. } => collect_bindings(body, bindings, returned),
            StmtKind::Return(value) => *returned = value.as_ref(),
            _ => {}
        }
    }
}

/// The leaves of a result, `None` for one that is not a plain binding.
fn flatten_leaves<'s>(
    expr: &'s Expr,
    bindings: &BTreeMap<Name, &'s Expr>,
    members: &dyn Fn(&Name) -> Option<usize>,
    depth: usize,
    leaves: &mut Vec<Option<&'s Expr>>,
) {
    if let Some(items) = expr.as_items() {
        for item in items {
            flatten_leaves(item, bindings, members, depth, leaves);
        }
        return;
    }
    if let Some((name, value)) = expr
        .as_name()
        .and_then(|name| Some((name, bindings.get(name)?)))
        && depth < 64
    {
        if value.as_items().is_some() || value.as_name().is_some() {
            return flatten_leaves(value, bindings, members, depth + 1, leaves);
        }
        // A call with several results makes several leaves.
        if let Some(n) = call_tir_members(value).or_else(|| members(name).filter(|&n| n != 1)) {
            return leaves.extend((0..n).map(|_| None));
        }
    }
    leaves.push(Some(expr));
}

/// The number of results of an `R.call_tir` that has a list of them.
fn call_tir_members(expr: &Expr) -> Option<usize> {
    if !expr.is_call_of("R.call_tir") {
        return None;
    }
    let ty = expr.keyword("out_ty").or(expr.keyword("out_sinfo"))?;
    if let ExprKind::List(items) = &ty.kind {
        return Some(items.len());
    }
    ty.is_call_of("R.Tuple").then(|| ty.positional().count())
}

/// The allocation behind a name: through names, reshapes and members of calls.
#[allow(clippy::type_complexity)]
fn trace(
    leaf: &Expr,
    bindings: &BTreeMap<Name, &Expr>,
) -> Option<((Name, Option<usize>), Option<Expr>)> {
    let mut name = leaf.as_name()?.clone();
    let mut shape: Option<Expr> = None;
    for _ in 0..256 {
        let value = bindings.get(&name)?;
        if let Some(next) = value.as_name() {
            name = next.clone();
        } else if value.is_call_of("R.reshape") {
            let mut args = value.positional();
            let source = args.next()?.as_name()?.clone();
            shape = shape.or_else(|| args.next().or(value.keyword("shape")).cloned());
            name = source;
        } else if let ExprKind::Index {
            value: tuple,
            index,
        } = &value.kind
        {
            let [idx] = index.as_slice() else { return None };
            let owner = tuple.as_name()?;
            let source = bindings.get(owner)?;
            let idx = usize::try_from(idx.as_int()?).ok()?;
            call_tir_members(source)?;
            return Some(((owner.clone(), Some(idx)), shape));
        } else if value.is_call_of("R.builtin.alloc_tensor")
            || (value.is_call_of("R.call_tir") && call_tir_members(value).is_none())
        {
            return Some(((name, None), shape));
        } else {
            return None;
        }
    }
    None
}

/// One value of the results of an inner function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Leaf {
    /// A tensor: its address and as many extents.
    Tensor(usize),
    /// The address of an object.
    Object,
}

impl Leaf {
    /// The words that it takes.
    pub(super) fn words(&self) -> usize {
        match self {
            Self::Tensor(rank) => rank + 1,
            Self::Object => 1,
        }
    }
}

/// The values that results of an inner function have, flattened.
pub(super) fn flatten_type(ty: &Type, leaves: &mut Vec<Leaf>) -> Option<()> {
    match ty {
        Type::Tensor(tensor) => {
            tensor.dtype?;
            leaves.push(tensor.ndim.map_or(Leaf::Object, Leaf::Tensor));
        }
        Type::Scalar(_) => leaves.push(Leaf::Tensor(0)),
        Type::Shape(Some(_)) => leaves.push(Leaf::Tensor(1)),
        Type::Seq(_) | Type::Opt(_) => leaves.push(Leaf::Object),
        Type::Tuple(items) => {
            for item in items {
                flatten_type(item, leaves)?;
            }
        }
        Type::Void => {}
        Type::Func(..)
        | Type::Str
        | Type::DTypeValue
        | Type::Any
        | Type::Shape(None)
        | Type::Error => return None,
    }
    Some(())
}

/// Whether a result or part of it is described at run time.
pub(super) fn has_object(ty: &Type) -> bool {
    match ty {
        Type::Tuple(items) => items.iter().any(has_object),
        ty => object::is_object(ty),
    }
}
