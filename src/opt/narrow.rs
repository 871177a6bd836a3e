//! Keeps the operands of integer products as narrow as their values are.
//!
//!     x = R.astype(q, dtype="int32")                  (q is uint8, w a weight of int8)
//!     c = R.subtract(x, R.const(128, "int32"))
//!     v = R.astype(w, dtype="int32")
//!     y = R.matmul(c, v)                         →    c_narrow = R.astype(c, dtype="int16")
//!                                                     y = R.matmul(c_narrow, w, out_dtype="int32")
//!
//! The same sums of 32 bits: both operands are seen to lie in int16, from the dtypes that they were cast from, from
//! constants, and through sums, products, bounds and moves. Instructions take twice as many such products, and memory
//! holds half or a quarter of the bytes. What is right of a product is int8 where it fits there, so that weights stay
//! as they came; what is left of it, int16.

use std::collections::BTreeMap;

use irc_syntax::names::NameSupply;
use irc_syntax::{DType, Expr, FuncKind, Module, Name, Stmt, StmtKind};

use super::graph::args_mut;
use super::{Changed, Pass, PassCx};
use crate::check::FuncInfo;
use crate::check::prim::{self, BoundCall, Prim};
use crate::check::stage::Level;
use crate::tensor::{Tensor, Weights, parse_const};

/// The pass.
pub const PASS: Pass = Pass {
    name: "narrow",
    run,
    from: Level::Normal,
    to: Level::Normal,
    summary: "operands of integer products in 8 or 16 bits",
    args: &[],
};

/// Runs the pass on every graph function that is no group.
pub fn run(module: &mut Module, cx: &mut PassCx) -> Changed {
    let mut changed = false;
    for func in module
        .funcs_mut()
        .filter(|func| func.kind == FuncKind::Graph && func.attr("op_pattern").is_none())
    {
        let Some(info) = cx.info.funcs.get(&func.name) else {
            continue;
        };
        let weights = match func.is_private() {
            true => Vec::new(),
            false => {
                let own = func.params.iter().skip(info.num_input);
                own.map(|param| param.name.clone()).collect()
            }
        };
        let mut narrow = Narrow {
            info,
            weights: cx.weights,
            is_weight: weights,
            names: NameSupply::of_func(func),
            made_by: BTreeMap::new(),
            ranges: BTreeMap::new(),
            changed: false,
        };
        narrow.block(&mut func.body);
        changed |= narrow.changed;
    }
    Changed::from(changed)
}

/// The least and the greatest value.
type Range = (i64, i64);

struct Narrow<'a> {
    info: &'a FuncInfo,
    weights: &'a Weights,
    is_weight: Vec<Name>,
    names: NameSupply,
    /// The values in sight.
    made_by: BTreeMap<Name, Expr>,
    /// The values of names in sight.
    ranges: BTreeMap<Name, Option<Range>>,
    changed: bool,
}

impl Narrow<'_> {
    fn block(&mut self, stmts: &mut Vec<Stmt>) {
        let mut kept = Vec::with_capacity(stmts.len());
        for mut stmt in std::mem::take(stmts) {
            match &mut stmt.kind {
                StmtKind::If { then, orelse, .. } => {
                    // Both may bind one name, to different things.
                    let outside = (self.made_by.clone(), self.ranges.clone());
                    for branch in [then, orelse] {
                        self.block(branch);
                        (self.made_by, self.ranges) = outside.clone();
                    }
                }
                StmtKind::Assign { target, value, .. } => {
                    if let Some((casts, new)) = self.narrowed(value) {
                        kept.extend(casts);
                        *value = new.at(value.span);
                        self.changed = true;
                    }
                    if let Some(name) = target.as_name() {
                        let range = self.range_of_call(value);
                        self.ranges.insert(name.clone(), range);
                        self.made_by.insert(name.clone(), value.clone());
                    }
                }
                _ => {}
            }
            kept.push(stmt);
        }
        *stmts = kept;
    }

    /// The casts that a product of int32 tensors needs first, and the product of what they give.
    fn narrowed(&mut self, value: &Expr) -> Option<(Vec<Stmt>, Expr)> {
        let prim = Prim::find(&value.as_call()?.0)?;
        if !matches!(prim, Prim::Matmul | Prim::Conv(_)) {
            return None;
        }
        let call = prim::bind(prim, value).ok()?;
        let out = call.opt_dtype("out_dtype");
        let operands: Vec<Expr> = call.operands().into_iter().cloned().collect();
        let [left, right] = operands.as_slice() else {
            return None;
        };
        let both = [left, right].map(|operand| self.dtype(operand));
        if both != [Some(DType::I32); 2] || out.is_some_and(|dtype| dtype != DType::I32) {
            return None;
        }
        let (a, b) = (self.range(left)?, self.range(right)?);
        if !fits(a, DType::I16) || !fits(b, DType::I16) {
            return None;
        }
        let right_dtype = if fits(b, DType::I8) {
            DType::I8
        } else {
            DType::I16
        };
        let mut casts = Vec::new();
        let left = self.cast(left, DType::I16, &mut casts);
        let right = self.cast(right, right_dtype, &mut casts);
        let mut new = value.clone();
        for (arg, operand) in args_mut(&mut new).iter_mut().zip([left, right]) {
            arg.value = operand;
        }
        if out.is_none() {
            new = new.with("out_dtype", Expr::str("int32"));
        }
        Some((casts, new))
    }

    /// An operand as another dtype; what it was cast from, where that is of the dtype.
    fn cast(&mut self, operand: &Expr, dtype: DType, casts: &mut Vec<Stmt>) -> Expr {
        let mut source = operand;
        while let Some(made) = source.as_name().and_then(|name| self.made_by.get(name))
            && made.is_call_of("R.astype")
            && let Some(from) = made.positional().next()
            && let Some(range) = self.range(from)
            && fits(range, dtype)
        {
            source = from;
        }
        if self.dtype(source) == Some(dtype) {
            return source.clone();
        }
        let base = operand.as_name().map_or("operand", Name::as_str);
        let name = self.names.fresh(&format!("{base}_narrow"));
        let call = Expr::call("R.astype", [source.clone()]).with("dtype", Expr::str(dtype.name()));
        casts.push(Stmt::bind(&name, call));
        Expr::name(name)
    }

    fn dtype(&self, operand: &Expr) -> Option<DType> {
        match operand.as_name() {
            Some(name) => self.info.vars.get(name)?.as_tensor()?.dtype,
            None => self.constant(operand).map(|tensor| tensor.dtype),
        }
    }

    fn constant(&self, operand: &Expr) -> Option<Tensor> {
        match operand.as_name() {
            Some(name) => {
                let is_weight = self.is_weight.contains(name);
                is_weight
                    .then(|| self.weights.get(name))?
                    .map(|weight| weight.tensor())
            }
            None => {
                let (path, args) = operand.as_call()?;
                (path == "R.const").then(|| parse_const(args).ok())?
            }
        }
    }

    /// Where the values of an operand lie.
    fn range(&self, operand: &Expr) -> Option<Range> {
        let known = operand.as_name().and_then(|name| self.ranges.get(name));
        if let Some(Some(range)) = known {
            return Some(*range);
        }
        if let Some(value) = operand.as_int() {
            let value = i64::try_from(value).ok()?;
            return Some((value, value));
        }
        let dtype = self.dtype(operand);
        let of_dtype = dtype.and_then(range_of_dtype);
        // Values are read of integers only: a large table of floats is not copied for nothing.
        if known.is_some() || !dtype.is_some_and(DType::is_int) {
            return of_dtype;
        }
        self.constant(operand)
            .as_ref()
            .and_then(range_of_values)
            .or(of_dtype)
    }

    /// Where the values of a call lie, by its operands; nothing where int32 would not hold them.
    fn range_of_call(&self, value: &Expr) -> Option<Range> {
        if value.is_call_of("R.const") {
            return self.range(value);
        }
        let prim = Prim::find(&value.as_call()?.0)?;
        let call = prim::bind(prim, value).ok()?;
        let operands = call.operands();
        let range = |at: usize| self.range(operands.get(at)?);
        let found = match prim {
            Prim::Astype => {
                let dtype = call.opt_dtype("dtype").filter(|dtype| dtype.is_int())?;
                return range(0).filter(|&range| fits(range, dtype));
            }
            Prim::Unary(_) if value.is_call_of("R.negative") => {
                let (low, high) = range(0)?;
                (-high, -low)
            }
            Prim::Binary(_) => binary_range(prim.name(), range(0)?, range(1)?)?,
            Prim::Where => union(range(1)?, range(2)?),
            Prim::Reshape | Prim::PermuteDims | Prim::StridedSlice | Prim::BroadcastTo => range(0)?,
            Prim::Take => range(0)?,
            Prim::Pad => union(range(0)?, padding(&call)?),
            Prim::Concat => {
                let parts = call.operands();
                let mut ranges = parts.iter().map(|part| self.range(part));
                let first = ranges.next()??;
                ranges.try_fold(first, |all, part| Some(union(all, part?)))?
            }
            _ => return None,
        };
        fits(found, DType::I32).then_some(found)
    }
}

/// What padding adds.
fn padding(call: &BoundCall) -> Option<Range> {
    let value = call.float("pad_value");
    (value.fract() == 0.0 && value.abs() < 1e9).then_some((value as i64, value as i64))
}

fn union(a: Range, b: Range) -> Range {
    (a.0.min(b.0), a.1.max(b.1))
}

fn binary_range(name: &str, a: Range, b: Range) -> Option<Range> {
    Some(match name {
        "R.add" => (a.0 + b.0, a.1 + b.1),
        "R.subtract" => (a.0 - b.1, a.1 - b.0),
        "R.multiply" => {
            let corners = [(a.0, b.0), (a.0, b.1), (a.1, b.0), (a.1, b.1)];
            let products = corners.map(|(x, y)| x.saturating_mul(y));
            (*products.iter().min()?, *products.iter().max()?)
        }
        "R.maximum" => (a.0.max(b.0), a.1.max(b.1)),
        "R.minimum" => (a.0.min(b.0), a.1.min(b.1)),
        _ => return None,
    })
}

fn fits(range: Range, dtype: DType) -> bool {
    dtype
        .int_range()
        .is_some_and(|(low, high)| low <= i128::from(range.0) && i128::from(range.1) <= high)
}

/// The values that an integer of up to 32 bits may have.
fn range_of_dtype(dtype: DType) -> Option<Range> {
    if dtype == DType::Bool {
        return Some((0, 1));
    }
    let (low, high) = dtype.int_range().filter(|_| dtype.bits() <= 32)?;
    Some((i64::try_from(low).ok()?, i64::try_from(high).ok()?))
}

/// The least and greatest element of an integer tensor.
fn range_of_values(tensor: &Tensor) -> Option<Range> {
    let values = tensor
        .cast(DType::I64)
        .ok()
        .filter(|_| tensor.dtype.is_int())?
        .to_vec::<i64>()?;
    let range = (*values.iter().min()?, *values.iter().max()?);
    fits(range, DType::I32).then_some(range)
}
