//! Computes on the integers themselves what stands between `R.dequantize` and `R.quantize`.
//!
//!     a = R.dequantize(x, R.const(0.1), R.const(3, "uint8"))
//!     b = R.reshape(a, R.shape([6]))                           →    y = R.reshape(x, R.shape([6]))
//!     y = R.quantize(b, R.const(0.1), R.const(3, "uint8"), …)
//!
//!     a = R.dequantize(x, R.const(0.5), R.const(3, "uint8"))        p = R.subtract(R.astype(x, "int32"), 3)
//!     b = R.dequantize(w, R.const(0.25), R.const(0, "int8"))   →    s = R.matmul(p, R.astype(w, "int32"))
//!     y = R.matmul(a, b)                                            y = R.multiply(R.astype(s, "float32"), 0.125)
//!
//! Three laws, each applied wherever it holds, in one walk in order:
//!
//! * *Moving*: what only moves elements of a dequantized tensor (reshape, transpose, slice, gather, concat of equal
//!   parameters, padding with zeros …) or chooses among them (ReLU, maximum over windows; the scale is positive) does the
//!   same to the integers, and is dequantized behind. The same bits.
//! * *Back and forth*: quantizing with the parameters of the dequantization gives the integers. The same bits: k * s / s
//!   is off k by less than a half, for integers of up to 16 bits and scales well inside float32's range.
//! * *Contracting*: a matrix product or convolution of two dequantized tensors is one of int32 sums, which are exact
//!   (refused where the worst sum would not fit), times the product of the scales. Three roundings are left, that of
//!   the product of scales, of the sum as float32, and of their product: the result is within 3 * 2^-24 of the real one,
//!   relatively, where the float form has an error that grows with the length of the sum. What quantizes the result gives the
//!   same integer unless the real quotient is that close to the middle of two. Bias, activation and `R.quantize`
//!   behind it become its epilogue when `fuse` comes.
//!
//! Refused, and left in floats: parameters that are not constant; scales along an axis other than the one of the results'
//! channels; zero points along an axis unless all are 0; one operand that is not dequantized; unknown lengths
//! of sums. A sum, product or mean of dequantized tensors stays as it is: with two scales there is no integer form of the
//! same value, and its element-wise kernel reads and writes the integers already.

use std::collections::BTreeMap;

use irc_syntax::names::NameSupply;
use irc_syntax::uses::substitute_stmt;
use irc_syntax::{DType, Expr, ExprKind, FuncKind, Name, Stmt, StmtKind};

use super::graph::{args_mut, count_uses};
use super::{Changed, Pass, PassCx};
use crate::check::FuncInfo;
use crate::check::prim::{self, Prim};
use crate::check::stage::Level;
use crate::shape::Dim;
use crate::tensor::{Tensor, Weights, parse_const, print_const};

/// Scales for which k * s / s is k, with room to spare on either side.
const SCALES: std::ops::Range<f32> = 1e-30..1e30;

/// Operators that move elements of their first operand, and take nothing from their values.
const MOVES: &[&str] = &[
    "R.reshape",
    "R.permute_dims",
    "R.expand_dims",
    "R.squeeze",
    "R.flatten",
    "R.nn.batch_flatten",
    "R.strided_slice",
    "R.take",
    "R.flip",
    "R.broadcast_to",
    "R.tile",
    "R.repeat",
];

/// The pass.
pub const PASS: Pass = Pass {
    name: "quantized",
    run,
    from: Level::Normal,
    to: Level::Normal,
    summary: "integers between dequantize and quantize",
    args: &[],
};

/// Runs the pass on every graph function.
pub fn run(module: &mut irc_syntax::Module, cx: &mut PassCx) -> Changed {
    let mut changed = false;
    for func in module
        .funcs_mut()
        .filter(|func| func.kind == FuncKind::Graph && func.attr("op_pattern").is_none())
    {
        let Some(info) = cx.info.funcs.get(&func.name) else {
            continue;
        };
        let names = NameSupply::of_func(func);
        let is_weight = func.params.iter().skip(info.num_input);
        let mut walk = Quantized {
            info,
            weights: cx.weights,
            is_weight: is_weight.map(|param| param.name.clone()).collect(),
            names,
            made: BTreeMap::new(),
            constants: BTreeMap::new(),
            out: Vec::new(),
            changed: false,
        };
        let body = std::mem::take(&mut func.body);
        func.body = walk.block(body);
        changed |= walk.changed;
    }
    Changed::from(changed)
}

/// `R.dequantize(x, scale, zero, axis=…)`, float32, of constant parameters.
#[derive(Clone)]
struct Real {
    x: Expr,
    dtype: DType,
    scale: Expr,
    scales: Vec<f32>,
    zero: Expr,
    zeros: Vec<i64>,
    /// The axis along which the parameters lie, where there are several.
    axis: Option<usize>,
}

impl Real {
    /// The one zero point, or 0 where all of several are.
    fn zero_point(&self) -> Option<i64> {
        match self.zeros.as_slice() {
            [one] => Some(*one),
            many if many.iter().all(|&zero| zero == 0) => Some(0),
            _ => None,
        }
    }

    /// How far an integer can be from its zero point.
    fn reach(&self, zero: i64) -> Option<i128> {
        let (low, high) = self.dtype.int_range()?;
        let zero = i128::from(zero);
        Some((zero - low).max(high - zero))
    }

    /// Whether the scales are positive, and such that integers come back from what they stand for.
    fn is_increasing(&self) -> bool {
        self.scales.iter().all(|scale| SCALES.contains(scale))
    }

    fn same_parameters(&self, other: &Self) -> bool {
        self.dtype == other.dtype
            && self.scales == other.scales
            && self.zeros == other.zeros
            && self.axis == other.axis
    }

    /// The value that an integer tensor of the same parameters stands for.
    fn of(&self, x: &Name) -> Expr {
        Expr::call(
            "R.dequantize",
            [Expr::name(x), self.scale.clone(), self.zero.clone()],
        )
    }
}

struct Quantized<'a> {
    info: &'a FuncInfo,
    weights: &'a Weights,
    is_weight: Vec<Name>,
    names: NameSupply,
    /// What names of dequantized values stand for.
    made: BTreeMap<Name, Real>,
    /// Names bound to constants.
    constants: BTreeMap<Name, Tensor>,
    out: Vec<Stmt>,
    changed: bool,
}

impl Quantized<'_> {
    fn block(&mut self, stmts: Vec<Stmt>) -> Vec<Stmt> {
        let read_here = count_uses(&stmts);
        let outer = std::mem::take(&mut self.out);
        let mut map: BTreeMap<Name, Expr> = BTreeMap::new();
        for mut stmt in stmts {
            if !map.is_empty() {
                substitute_stmt(&mut stmt, &map);
            }
            if let StmtKind::If { then, orelse, .. } = &mut stmt.kind {
                // Both may bind one name, to different things: what is known of it ends with the branch.
                let outside = (self.made.clone(), self.constants.clone());
                for branch in [then, orelse] {
                    let body = std::mem::take(branch);
                    *branch = self.block(body);
                    (self.made, self.constants) = outside.clone();
                }
                self.out.push(stmt);
                continue;
            }
            let StmtKind::Assign { target, value, .. } = &mut stmt.kind else {
                self.out.push(stmt);
                continue;
            };
            let Some(name) = target.as_name().cloned() else {
                self.out.push(stmt);
                continue;
            };
            // A name that only an enclosing block reads is the value of a branch and stays bound.
            if let Some(x) = self.forth_and_back(value)
                && read_here.contains_key(&name)
            {
                map.insert(name, x);
                self.changed = true;
                continue;
            }
            if let Some(new) = self
                .moved(&name, value)
                .or_else(|| self.contracted(&name, value))
            {
                *value = new.at(value.span);
                self.changed = true;
            }
            if let Some(tensor) = self.constant(value) {
                self.constants.insert(name.clone(), tensor);
            }
            if let Some(real) = self.real(value, "R.dequantize") {
                self.made.insert(name, real);
            }
            self.out.push(stmt);
        }
        std::mem::replace(&mut self.out, outer)
    }

    /// The content of a constant, a name bound to one, or a weight.
    fn constant(&self, value: &Expr) -> Option<Tensor> {
        if let Some(name) = value.as_name() {
            let bound = self.constants.get(name).cloned();
            return bound.or_else(|| {
                let weight = self.is_weight.contains(name);
                weight
                    .then(|| self.weights.get(name.as_str()))?
                    .map(|weight| weight.tensor())
            });
        }
        match value.as_call()? {
            (path, args) if path == "R.const" => parse_const(args).ok(),
            _ => None,
        }
    }

    /// A name's dtype and rank: of a value of the program, or of the integers below one.
    fn typed(&self, value: &Expr) -> Option<(DType, usize)> {
        let tensor = self.info.vars.get(value.as_name()?)?.as_tensor()?;
        Some((tensor.dtype?, tensor.ndim?))
    }

    /// A call of `R.dequantize` to float32, or of `R.quantize` from it, with constant parameters.
    fn real(&self, value: &Expr, path: &str) -> Option<Real> {
        if !value.is_call_of(path) {
            return None;
        }
        let args: Vec<&Expr> = value.positional().collect();
        let &[x, scale, zero] = args.as_slice() else {
            return None;
        };
        let quantizes = path == "R.quantize";
        let out = match value.keyword("out_dtype") {
            Some(dtype) => DType::from_name(dtype.as_str()?)?,
            None if quantizes => DType::I8,
            None => DType::F32,
        };
        let source = self.typed(x).or_else(|| {
            let real = self.made.get(x.as_name()?)?;
            self.typed(&real.x)
        });
        let (dtype, rank) = match (source, quantizes) {
            (Some((_, rank)), true) => (out, rank),
            (Some((dtype, rank)), false) if out == DType::F32 => (dtype, rank),
            // Integers that this pass made have the dtype of their zero point.
            (None, false) if out == DType::F32 => (self.constant(zero)?.dtype, 0),
            _ => return None,
        };
        let scales = self.constant(scale)?;
        let zeros = self.constant(zero)?;
        dtype.int_range().filter(|_| zeros.dtype == dtype)?;
        if scales.len() != zeros.len() && scales.len() != 1 && zeros.len() != 1 {
            return None;
        }
        let many = scales.len().max(zeros.len()) > 1;
        let axis = value.keyword("axis").map_or(Some(-1), Expr::as_int)?;
        let axis = if axis < 0 { axis + rank as i128 } else { axis };
        Some(Real {
            x: x.clone(),
            dtype,
            scale: scale.clone(),
            scales: scales.to_vec::<f32>()?,
            zero: zero.clone(),
            zeros: whole_numbers(&zeros)?,
            axis: many.then(|| usize::try_from(axis).ok()).flatten(),
        })
        .filter(|real| real.axis.is_some() == many)
    }

    /// `R.quantize` of a dequantized value with the parameters that it had: the integers.
    fn forth_and_back(&self, value: &Expr) -> Option<Expr> {
        let to = self.real(value, "R.quantize")?;
        let from = self.made.get(to.x.as_name()?)?;
        let held = from.dtype.bits() <= 16 && from.is_increasing();
        (held && from.same_parameters(&to)).then(|| from.x.clone())
    }

    /// A move of dequantized values as the dequantization of moved integers, which get a binding.
    fn moved(&mut self, name: &Name, value: &Expr) -> Option<Expr> {
        let (path, _) = value.as_call()?;
        let first = value.positional().next()?;
        let (real, integers) = if path == "R.concat" {
            self.concat(first, value)?
        } else {
            let real = self.made.get(first.as_name()?)?.clone();
            let integers = match path.as_str() {
                path if MOVES.contains(&path) => with_first(value, real.x.clone()),
                "R.nn.pad" => padded(value, &real)?,
                "R.nn.relu" if real.is_increasing() => {
                    Expr::call("R.maximum", [real.x.clone(), number(&real)?])
                }
                path if real.is_increasing() && windows_have_elements(path, value) => {
                    with_first(value, real.x.clone())
                }
                _ => return None,
            };
            (real, integers)
        };
        if real.axis.is_some() || self.typed(&Expr::name(name))?.0 != DType::F32 {
            return None;
        }
        let moved = self.bind(name, "q", integers);
        Some(real.of(&moved))
    }

    /// The concatenation of dequantized tensors of one scale and zero point.
    fn concat(&self, parts: &Expr, value: &Expr) -> Option<(Real, Expr)> {
        let reals: Vec<&Real> = parts
            .as_items()?
            .iter()
            .map(|part| self.made.get(part.as_name()?))
            .collect::<Option<_>>()?;
        let (first, rest) = reals.split_first()?;
        if !rest.iter().all(|real| real.same_parameters(first)) {
            return None;
        }
        let items = Expr::tuple(reals.iter().map(|real| real.x.clone()));
        Some(((*first).clone(), with_first(value, items)))
    }

    /// A matrix product or convolution of dequantized values as one of integers, times the scales.
    fn contracted(&mut self, name: &Name, value: &Expr) -> Option<Expr> {
        let (path, _) = value.as_call()?;
        let prim @ (Prim::Matmul | Prim::Conv(_)) = Prim::find(&path)? else {
            return None;
        };
        let call = prim::bind(prim, value).ok()?;
        let operands: Vec<Expr> = call.operands().into_iter().cloned().collect();
        let [left, right] = operands.as_slice() else {
            return None;
        };
        let a = self.made.get(left.as_name()?)?.clone();
        let b = self.made.get(right.as_name()?)?.clone();
        let shape = self.info.vars.get(name)?.as_tensor()?.shape.clone()?;
        let right_shape = self.info.vars.get(right.as_name()?)?.as_tensor()?;
        let right_shape = right_shape.shape.clone()?;
        // Which axis of the right operand makes the channels of the result, and where those are.
        let (from, to) = match prim {
            Prim::Conv(_) => {
                let data = call.opt_str("data_layout").unwrap_or("NC");
                let out = call
                    .opt_str("out_layout")
                    .filter(|layout| !layout.is_empty());
                let kernel = call.opt_str("kernel_layout").unwrap_or("OI");
                (kernel.find('O')?, out.unwrap_or(data).find('C')?)
            }
            _ => (
                right_shape.len().checked_sub(1)?,
                shape.len().checked_sub(1)?,
            ),
        };
        if a.axis.is_some()
            || b.axis
                .is_some_and(|axis| axis != from || right_shape.len() < 2)
        {
            return None;
        }
        let (a_zero, b_zero) = (a.zero_point()?, b.zero_point()?);
        let terms = match prim {
            Prim::Conv(_) => product(right_shape.iter().enumerate(), |axis| axis != from)?,
            _ => {
                let at = right_shape.len().saturating_sub(2);
                product(right_shape.iter().enumerate(), |axis| axis == at)?
            }
        };
        let most = terms
            .checked_mul(a.reach(a_zero)?)?
            .checked_mul(b.reach(b_zero)?)?;
        if most > i128::from(i32::MAX)
            || call.opt_dtype("out_dtype").is_some_and(|d| d != DType::F32)
        {
            return None;
        }
        let left = self.centered(name, "left", &a, a_zero);
        let right = self.centered(name, "right", &b, b_zero);
        let mut sums = value.clone();
        if let ExprKind::Call { args, .. } = &mut sums.kind {
            args.retain(|arg| {
                arg.name
                    .as_ref()
                    .is_none_or(|key| key.as_str() != "out_dtype")
            });
        }
        for (arg, new) in args_mut(&mut sums).iter_mut().zip([left, right]) {
            arg.value = Expr::name(&new);
        }
        let sums = self.bind(name, "sum", sums);
        let real = Expr::call("R.astype", [Expr::name(&sums)]).with("dtype", Expr::str("float32"));
        let real = self.bind(name, "real", real);
        let scale = self.scale(name, &a, &b, shape.len(), to)?;
        Some(Expr::call("R.multiply", [Expr::name(&real), scale]))
    }

    /// x - zero, int32, bound to a name.
    fn centered(&mut self, name: &Name, what: &str, real: &Real, zero: i64) -> Name {
        let wide = Expr::call("R.astype", [real.x.clone()]).with("dtype", Expr::str("int32"));
        let wide = self.bind(name, what, wide);
        if zero == 0 {
            return wide;
        }
        let zero = Expr::call("R.const", [Expr::int(zero), Expr::str("int32")]);
        self.bind(
            name,
            what,
            Expr::call("R.subtract", [Expr::name(&wide), zero]),
        )
    }

    /// The product of the scales, to broadcast with a result of rank `rank` whose channels are on axis `to`.
    fn scale(&mut self, name: &Name, a: &Real, b: &Real, rank: usize, to: usize) -> Option<Expr> {
        let [one] = a.scales.as_slice() else {
            return None;
        };
        if let [other] = b.scales.as_slice() {
            return Some(print_const(&Tensor::scalar(one * other)));
        }
        let one = print_const(&Tensor::scalar(*one));
        let each = self.bind(
            name,
            "scale",
            Expr::call("R.multiply", [b.scale.clone(), one]),
        );
        let count = i128::try_from(b.scales.len()).ok()?;
        let dims = (0..rank).map(|axis| Expr::int(if axis == to { count } else { 1 }));
        let shape = Expr::call("R.shape", [Expr::list(dims)]);
        let along = Expr::call("R.reshape", [Expr::name(&each), shape]);
        Some(Expr::name(self.bind(name, "scale", along)))
    }

    /// Binds a value to a fresh name made from that of a result.
    fn bind(&mut self, name: &Name, what: &str, value: Expr) -> Name {
        let fresh = self.names.fresh(&format!("{name}_{what}"));
        self.out.push(Stmt::bind(&fresh, value));
        fresh
    }
}

/// The call with another first argument.
fn with_first(value: &Expr, first: Expr) -> Expr {
    let mut new = value.clone();
    if let Some(arg) = args_mut(&mut new).first_mut() {
        arg.value = first;
    }
    new
}

/// The one zero point as a constant of no axes.
fn number(real: &Real) -> Option<Expr> {
    let zero = Expr::int(real.zero_point()?);
    let dtype = Expr::str(real.dtype.name());
    Some(Expr::call("R.const", [zero, dtype]))
}

/// Padding with zeros, which the zero point stands for.
fn padded(value: &Expr, real: &Real) -> Option<Expr> {
    if value.keyword("pad_mode").is_some() || value.positional().count() > 1 {
        return None;
    }
    let zero = real.zero_point()?;
    let mut new = with_first(value, real.x.clone());
    let ExprKind::Call { args, .. } = &mut new.kind else {
        return None;
    };
    args.retain(|arg| {
        arg.name
            .as_ref()
            .is_none_or(|key| key.as_str() != "pad_value")
    });
    match value.keyword("pad_value").map(|fill| &fill.kind) {
        None => {}
        Some(ExprKind::Float(fill)) if *fill == 0.0 => {}
        Some(ExprKind::Int(0)) => {}
        Some(_) => return None,
    }
    Some(if zero == 0 {
        new
    } else {
        new.with("pad_value", Expr::int(zero))
    })
}

/// Whether a call is a maximum over windows none of which lies in the padding.
fn windows_have_elements(path: &str, value: &Expr) -> bool {
    let Some(prim @ Prim::MaxPool(_)) = Prim::find(path) else {
        return false;
    };
    let Ok(call) = prim::bind(prim, value) else {
        return false;
    };
    let least = call.ints("pool_size").iter().min();
    !call.bool("ceil_mode")
        && call.ints("dilation").iter().all(|&step| step == 1)
        && call.ints("padding").iter().max() < least
}

/// The product of the extents of the axes that `wanted` chooses, where they are numbers.
fn product<'a>(
    shape: impl Iterator<Item = (usize, &'a Dim)>,
    wanted: impl Fn(usize) -> bool,
) -> Option<i128> {
    shape
        .filter(|(axis, _)| wanted(*axis))
        .try_fold(1i128, |all, (_, dim)| {
            all.checked_mul(i128::from(dim.as_int()?))
        })
}

/// The elements of an integer tensor.
fn whole_numbers(tensor: &Tensor) -> Option<Vec<i64>> {
    tensor.cast(DType::I64).ok()?.to_vec::<i64>()
}
