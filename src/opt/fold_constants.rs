//! Computes bindings that depend on constants and weights only.
//!
//!     w_cl = R.permute_dims(w, axes=[2, 3, 1, 0])        (w is a weight)
//!     y = R.nn.conv2d(x, w_cl, …)                  →     y = R.nn.conv2d(x, w_cl, …)     (w_cl is a weight)
//!
//! The interpreter evaluates them. A result of up to 16 elements becomes `R.const`, a larger one a weight of the
//! function under the binding's name. A result that is much larger than what it was made from stays a computation where
//! it only moves elements, or where it is large: text and library would grow for nothing. Values with an effect, and those
//! the interpreter refuses, stay as well.

use std::collections::BTreeMap;

use irc_syntax::uses::substitute_stmt;
use irc_syntax::{Expr, ExprKind, Func, FuncKind, Module, Name, Param, Span, Stmt, StmtKind};

use super::graph::count_uses;
use super::hoist_constants::type_of;
use super::log::Log;
use super::{Changed, Pass, PassCx, set_num_input};
use crate::check::prim::{self, Prim};
use crate::check::stage::Level;
use crate::check::type_to_expr;
use crate::interp::{Value, eval_prim};
use crate::tensor::{Tensor, Weight, Weights, parse_const, print_const};

/// Results of up to this many bytes are kept whatever they were made from.
const SMALL_RESULT: usize = 1 << 16;
/// The same for results that took arithmetic, such as the matrix of a Fourier transform.
const COMPUTED_RESULT: usize = 1 << 22;
/// A larger result may be this many times the bytes of its operands.
const MAX_GROWTH: usize = 2;
/// How many elements a constant in the text may have.
const MAX_INLINE: usize = 16;

/// The pass.
pub const PASS: Pass = Pass {
    name: "fold_constants",
    run,
    from: Level::Normal,
    to: Level::Normal,
    summary: "compute what depends on constants only",
    args: &[],
};

/// Runs the pass on every graph function that is no group.
pub fn run(module: &mut Module, cx: &mut PassCx) -> Changed {
    let mut changed = false;
    for func in module.funcs_mut() {
        if func.kind != FuncKind::Graph || func.attr("op_pattern").is_some() {
            continue;
        }
        let num_input = cx.info.num_input(func);
        let num_input = num_input.min(func.params.len());
        changed |= fold_func(func, num_input, cx.weights, &cx.log);
    }
    Changed::from(changed)
}

struct Fold<'a> {
    known: BTreeMap<Name, Tensor>,
    /// What replaces folded names: constants.
    map: BTreeMap<Name, Expr>,
    weights: &'a mut Weights,
    new_weights: Vec<Name>,
    /// Whether results may become weights: only public functions have them.
    may_add: bool,
    changed: bool,
    log: &'a Log,
}

fn fold_func(func: &mut Func, num_input: usize, weights: &mut Weights, log: &Log) -> bool {
    let mut fold = Fold {
        known: BTreeMap::new(),
        map: BTreeMap::new(),
        weights,
        new_weights: Vec::new(),
        may_add: !func.is_private(),
        changed: false,
        log,
    };
    let is_weight: Vec<Name> = func.params[num_input..]
        .iter()
        .map(|param| param.name.clone())
        .collect();
    let uses = count_uses(&func.body);
    let mut body = std::mem::take(&mut func.body);
    fold.block(&mut body, &is_weight, &uses);
    func.body = body;
    let (new, changed) = (std::mem::take(&mut fold.new_weights), fold.changed);
    if !new.is_empty() {
        set_num_input(func, num_input);
    }
    for name in new {
        if let Some(weight) = weights.get(&name) {
            let shape: Vec<crate::shape::Dim> = weight
                .shape
                .iter()
                .map(|&extent| crate::shape::Dim::from(extent))
                .collect();
            let ty = crate::check::Type::tensor(weight.dtype, shape);
            func.params.push(Param::new(&name, type_to_expr(&ty)));
        }
    }
    changed
}

impl Fold<'_> {
    fn block(&mut self, stmts: &mut Vec<Stmt>, weights: &[Name], uses: &BTreeMap<Name, usize>) {
        let mut kept = Vec::with_capacity(stmts.len());
        for mut stmt in stmts.drain(..) {
            if !self.map.is_empty() {
                substitute_stmt(&mut stmt, &self.map);
            }
            match &mut stmt.kind {
                StmtKind::If { then, orelse, .. } => {
                    self.block(then, weights, uses);
                    self.block(orelse, weights, uses);
                }
                StmtKind::Assign { target, value, .. } => {
                    if let Some(name) = target.as_name()
                        && uses.contains_key(name)
                        && self.fold(name, value, weights, stmt.span)
                    {
                        self.changed = true;
                        continue;
                    }
                }
                _ => {}
            }
            kept.push(stmt);
        }
        *stmts = kept;
    }

    /// Makes a binding a constant or a weight. False where it may be neither.
    fn fold(&mut self, name: &Name, value: &Expr, weights: &[Name], span: Option<Span>) -> bool {
        match self.permuted(value, weights) {
            Some(weight) => self.keep_weight(name, weight, span),
            None => self
                .evaluate(value, weights)
                .is_some_and(|tensor| self.keep(name, tensor, span)),
        }
    }

    /// The value of a binding whose operands are all known.
    fn evaluate(&self, value: &Expr, weights: &[Name]) -> Option<Tensor> {
        let (path, _) = value.as_call()?;
        let prim = Prim::find(&path).filter(|prim| is_foldable(*prim))?;
        let call = prim::bind(prim, value).ok()?;
        // Weights are copied when all operands are known.
        if !(call.operands().iter()).all(|operand| self.is_known(operand, weights)) {
            return None;
        }
        let mut operands = Vec::new();
        let mut bytes = 0;
        for operand in call.operands() {
            let value = self.operand(operand, weights)?;
            bytes += value.as_tensor().map_or(0, |tensor| tensor.data.len());
            operands.push(value);
        }
        let result = match eval_prim(&call, &operands, &|_| None).ok()? {
            Value::Tensor(tensor) => tensor,
            _ => return None,
        };
        let bound = match prim {
            Prim::Unary(_) | Prim::Binary(_) | Prim::Astype | Prim::Where => COMPUTED_RESULT,
            _ => SMALL_RESULT,
        };
        let small = result.data.len() <= bound;
        (small || result.data.len() <= MAX_GROWTH * bytes).then_some(result)
    }

    /// Whether an operand is no name, or that of something known.
    fn is_known(&self, operand: &Expr, weights: &[Name]) -> bool {
        operand.as_name().is_none_or(|name| {
            self.known.contains_key(name)
                || weights.contains(name)
                || self.new_weights.contains(name)
        })
    }

    fn operand(&self, operand: &Expr, weights: &[Name]) -> Option<Value> {
        if !self.is_known(operand, weights) {
            return None;
        }
        match &operand.kind {
            ExprKind::Name(name) => {
                if let Some(tensor) = self.known.get(name) {
                    return Some(Value::Tensor(tensor.clone()));
                }
                Some(Value::Tensor(self.weights.get(name)?.tensor()))
            }
            ExprKind::Call { args, .. } if operand.is_call_of("R.const") => {
                parse_const(args).ok().map(Value::Tensor)
            }
            ExprKind::Int(value) => i64::try_from(*value).ok().map(Value::Int),
            ExprKind::Float(value) => Some(Value::Float(*value)),
            ExprKind::Bool(value) => Some(Value::Bool(*value)),
            ExprKind::None => Some(Value::None),
            _ => None,
        }
    }

    /// Makes a result a constant or a weight. False where it may be neither.
    fn keep(&mut self, name: &Name, tensor: Tensor, span: Option<Span>) -> bool {
        let is_text = tensor.strings.is_some();
        if tensor.len() <= MAX_INLINE {
            let literal = print_const(&tensor);
            // Extents behind an empty one take a call of `R.full` to say, which is no operand.
            let is_literal = literal.is_call_of("R.const")
                && self
                    .log
                    .allows(name, span, || "it is a constant".to_owned());
            if is_literal {
                self.map.insert(name.clone(), literal);
            }
            return is_literal;
        }
        debug_assert!(is_text || type_of(&tensor).as_known_tensor().is_some());
        !is_text && self.keep_weight(name, tensor.into(), span)
    }

    /// Makes a result a weight. False where it may be none.
    fn keep_weight(&mut self, name: &Name, weight: Weight, span: Option<Span>) -> bool {
        if !self.may_add || self.weights.get(name).is_some() {
            return false;
        }
        if !self.log.allows(name, span, || "it is a weight".to_owned()) {
            return false;
        }
        self.weights.insert(name.as_str(), weight);
        self.new_weights.push(name.clone());
        true
    }

    /// A weight with its axes in another order, whose elements move when they are written; `None` where a binding is nothing
    /// like it.
    fn permuted(&self, value: &Expr, weights: &[Name]) -> Option<Weight> {
        if !value.is_call_of("R.permute_dims") {
            return None;
        }
        let call = prim::bind(Prim::PermuteDims, value).ok()?;
        let operand = call.operands().first()?.as_name()?;
        if self.known.contains_key(operand) || !self.is_known(call.operands().first()?, weights) {
            return None;
        }
        let weight = self.weights.get(operand)?;
        let rank = weight.shape.len();
        let axes: Vec<usize> = match call.opt_ints("axes") {
            Some(axes) => axes
                .iter()
                .map(|&axis| if axis < 0 { axis + rank as i64 } else { axis })
                .map(|axis| usize::try_from(axis).ok())
                .collect::<Option<_>>()?,
            None => (0..rank).rev().collect(),
        };
        weight
            .permuted(&axes)
            .filter(|weight| weight.len() > MAX_INLINE)
    }
}

/// Plain primitives whose shape is known too, but for what is a constant already.
fn is_foldable(prim: Prim) -> bool {
    prim.is_plain() && !matches!(prim, Prim::Const | Prim::Unique | Prim::Nonzero)
}
