//! What a program costs, as formulas of its symbols: operators, parameters, FLOPs, bytes moved, peak memory.
//!
//! Operators are calls as they are written; constants, shapes that are written out, declarations and views of tuples are
//! none. A FLOP is a multiplication, an addition or one function on an element, counted on primitives: a product of
//! [m, k] and [k, n] has 2·m·n·k. Bytes are those that each operator reads and writes, if it were a kernel of its own, and
//! the peak is that of all values alive between two operators, weights and inputs apart. Bodies of loops are functions of
//! their own, and count once an iteration.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::uses::{bound_names, names_read};
use irc_syntax::{Expr, Func, FuncKind, Module, Name, Stmt, StmtKind, print_expr};

use super::hoist_constants::type_of;
use super::{PassCx, Step, legalize, lift, normalize};
use crate::check::prim::{self, BoundCall, Prim};
use crate::check::{FuncInfo, Info, Type};
use crate::library::Library;
use crate::shape::Dim;
use crate::target::Target;
use crate::tensor::{Weights, parse_const};

/// What one function costs.
#[derive(Clone, Debug)]
pub struct FuncSummary {
    /// Its name.
    pub name: Name,
    /// Calls by operator.
    pub operators: BTreeMap<String, usize>,
    /// Elements of its weights.
    pub parameters: usize,
    /// Bytes of its weights.
    pub parameter_bytes: usize,
    /// Floating-point and integer operations; `None` where a type is not known.
    pub flops: Option<Dim>,
    /// Bytes read and written, operator by operator.
    pub bytes: Option<Dim>,
    /// Bytes of the values alive at once.
    pub peak: Option<Dim>,
}

impl FuncSummary {
    /// How many operators there are.
    pub fn n_operators(&self) -> usize {
        self.operators.values().sum()
    }
}

/// A formula as it is printed.
pub fn formula(dim: Option<&Dim>) -> String {
    dim.map_or("unknown".to_owned(), |dim| print_expr(&dim.to_expr()))
}

/// Summaries of the graph functions of a module, in its order.
pub fn summarize(
    module: &Module,
    info: &Info,
    weights: &Weights,
    lib: &Library,
) -> Vec<FuncSummary> {
    let flops = count_flops(module, weights, lib);
    let graphs = module.funcs().filter(|func| func.kind == FuncKind::Graph);
    let summaries = graphs.filter_map(|func| {
        let info = info.funcs.get(&func.name)?;
        let own = func.params.iter().skip(info.num_input);
        let own: Vec<_> = own
            .filter(|_| !func.is_private())
            .filter_map(|param| weights.get(&param.name))
            .collect();
        let mut cost = Cost::new(info);
        cost.block(&func.body, &BTreeSet::new());
        Some(FuncSummary {
            name: func.name.clone(),
            operators: cost.operators,
            parameters: own
                .iter()
                .map(|weight| weight.shape.iter().product::<usize>())
                .sum(),
            parameter_bytes: own.iter().map(|weight| weight.bytes().len()).sum(),
            flops: flops.get(&func.name).cloned().flatten(),
            bytes: cost.bytes,
            peak: cost.peaks.into_iter().reduce(|a, b| Dim::max(&a, &b)),
        })
    });
    summaries.collect()
}

/// FLOPs by function, counted on primitives.
fn count_flops(module: &Module, weights: &Weights, lib: &Library) -> BTreeMap<Name, Option<Dim>> {
    let (mut module, mut weights) = (module.clone(), weights.clone());
    let target = Target::native();
    let mut cx = PassCx::new(lib, &mut weights, &target);
    let passes = [
        &normalize::PASS,
        &lift::PASS,
        &normalize::PASS,
        &legalize::PASS,
    ];
    let steps: Vec<Step> = passes.into_iter().map(Step::from).collect();
    if super::run_steps(&mut module, &steps, &mut cx, &mut |_| {}).is_err() {
        return BTreeMap::new();
    }
    let count = |func: &Func| {
        let info = cx.info.funcs.get(&func.name)?;
        let mut sum = Some(Dim::int(0));
        for_each_call(&func.body, &mut |target, value| {
            let flops = flops_of(info, target, value);
            sum = sum.take().zip(flops).map(|(sum, flops)| &sum + &flops);
        });
        sum.filter(|sum| !sum.overflows())
    };
    module
        .funcs()
        .map(|func| (func.name.clone(), count(func)))
        .collect()
}

fn for_each_call(stmts: &[Stmt], found: &mut dyn FnMut(&Expr, &Expr)) {
    for stmt in stmts {
        match &stmt.kind {
            StmtKind::Assign { target, value, .. } => found(target, value),
            StmtKind::If { then, orelse, .. } => {
                for_each_call(then, found);
                for_each_call(orelse, found);
            }
            _ => {}
        }
    }
}

/// The FLOPs of one primitive; none for what only moves elements.
fn flops_of(info: &FuncInfo, target: &Expr, value: &Expr) -> Option<Dim> {
    let none = Some(Dim::int(0));
    let Some(prim) = value.as_call().and_then(|(path, _)| Prim::find(&path)) else {
        return none;
    };
    let Ok(call) = prim::bind(prim, value) else {
        return none;
    };
    let result = |target: &Expr| elements(info.vars.get(bound_names(target).first()?)?);
    match prim {
        Prim::Unary(_) | Prim::Binary(_) | Prim::Where => result(target),
        Prim::Reduce(_) | Prim::Argmax | Prim::Argmin | Prim::Cumsum | Prim::Cumprod => {
            elements(&operand_type(info, call.operands().first()?)?)
        }
        Prim::MaxPool(_) | Prim::AvgPool(_) => {
            let window: i64 = call.ints("pool_size").iter().product();
            Some(&result(target)? * &Dim::int(window))
        }
        Prim::Matmul => {
            let left = operand_type(info, call.operand("a")?)?;
            let depth = left.as_tensor()?.shape.as_ref()?.last()?.clone();
            Some(&(&result(target)? * &depth) * &Dim::int(2))
        }
        Prim::Conv(_) => products(info, &call, result(target)?, 'O'),
        Prim::ConvTranspose(_) => {
            let data = elements(&operand_type(info, call.operands().first()?)?)?;
            products(info, &call, data, 'I')
        }
        _ => none,
    }
}

/// Two FLOPs for each of `elements` and each tap of a kernel, taken apart along the axis of this letter, which is the
/// first where no layout is given.
fn products(info: &FuncInfo, call: &BoundCall, elements: Dim, letter: char) -> Option<Dim> {
    let kernel = operand_type(info, call.operand("weight")?)?;
    let shape = kernel.as_tensor()?.shape.clone()?;
    let layout = call.opt_str("kernel_layout");
    let axis = layout.and_then(|layout| layout.find(letter)).unwrap_or(0);
    let taps = shape.iter().enumerate().filter(|(at, _)| *at != axis);
    Some(taps.fold(&elements * &Dim::int(2), |product, (_, dim)| &product * dim))
}

fn operand_type(info: &FuncInfo, operand: &Expr) -> Option<Type> {
    match operand.as_call().filter(|(path, _)| path == "R.const") {
        Some((_, args)) => parse_const(args).ok().map(|tensor| type_of(&tensor)),
        None => info.vars.get(operand.as_name()?).cloned(),
    }
}

fn elements(ty: &Type) -> Option<Dim> {
    let shape = ty.as_tensor()?.shape.as_ref()?;
    Some(
        shape
            .iter()
            .fold(Dim::int(1), |product, dim| &product * dim),
    )
}

/// Bytes of a value; those of a tuple together.
fn bytes(ty: &Type) -> Option<Dim> {
    match ty {
        Type::Tensor(tensor) => {
            let size = i64::try_from(tensor.dtype?.bytes()).ok()?;
            Some(&elements(ty)? * &Dim::int(size))
        }
        Type::Tuple(members) => members
            .iter()
            .try_fold(Dim::int(0), |sum, member| Some(&sum + &bytes(member)?)),
        Type::Scalar(_) | Type::Shape(_) | Type::Str | Type::DTypeValue | Type::Void => {
            Some(Dim::int(0))
        }
        Type::Seq(_) | Type::Opt(_) | Type::Func(..) | Type::Any | Type::Error => None,
    }
}

/// A walk that counts operators, bytes, and what is alive.
struct Cost<'a> {
    info: &'a FuncInfo,
    operators: BTreeMap<String, usize>,
    bytes: Option<Dim>,
    alive: BTreeSet<Name>,
    /// The largest sums, none of which is known to be no larger than another.
    peaks: Vec<Dim>,
}

impl<'a> Cost<'a> {
    fn new(info: &'a FuncInfo) -> Self {
        Self {
            info,
            operators: BTreeMap::new(),
            bytes: Some(Dim::int(0)),
            alive: BTreeSet::new(),
            peaks: Vec::new(),
        }
    }

    /// `after` are the names that are read behind the block.
    fn block(&mut self, stmts: &[Stmt], after: &BTreeSet<Name>) {
        // What is read from each statement on.
        let mut read = vec![after.clone()];
        for stmt in stmts.iter().rev() {
            let mut names = read.last().cloned().unwrap_or_default();
            irc_syntax::uses::for_each_read(std::slice::from_ref(stmt), &mut |expr| {
                names.extend(names_read(expr));
            });
            read.push(names);
        }
        read.reverse();
        for (at, stmt) in stmts.iter().enumerate() {
            match &stmt.kind {
                StmtKind::Assign { target, value, .. } => {
                    self.operator(target, value);
                    self.alive.extend(bound_names(target));
                    self.note_peak();
                }
                StmtKind::If { then, orelse, .. } => {
                    self.block(then, &read[at + 1]);
                    self.block(orelse, &read[at + 1]);
                }
                _ => {}
            }
            self.alive.retain(|name| read[at + 1].contains(name));
        }
    }

    fn operator(&mut self, target: &Expr, value: &Expr) {
        let Some(path) = value
            .as_call()
            .map(|(path, _)| path)
            .filter(|path| is_operator(path))
        else {
            return;
        };
        *self.operators.entry(path).or_insert(0) += 1;
        let mut moved = bytes_of(self.info, &bound_names(target));
        let operands: Vec<Name> = names_read(value).into_iter().collect();
        moved = moved
            .zip(bytes_of(self.info, &operands))
            .map(|(a, b)| &a + &b);
        self.bytes = self
            .bytes
            .take()
            .zip(moved)
            .map(|(sum, moved)| &sum + &moved);
    }

    fn note_peak(&mut self) {
        let alive: Vec<Name> = self.alive.iter().cloned().collect();
        let Some(sum) = bytes_of(self.info, &alive) else {
            return;
        };
        let mut facts = self.info.facts.clone();
        // Of what holds nothing there is no peak.
        for symbol in self.info.facts.symbols().map(|(symbol, _)| symbol) {
            facts.narrow(symbol, Some(1), None);
        }
        let is_known = |peak: &Dim| facts.prove_le(&sum, peak) == Some(true);
        if !self.peaks.iter().any(is_known) {
            self.peaks
                .retain(|peak| facts.prove_le(peak, &sum) != Some(true));
            self.peaks.push(sum);
        }
    }
}

/// The bytes of the values of these names; symbols are none.
fn bytes_of(info: &FuncInfo, names: &[Name]) -> Option<Dim> {
    let types = names.iter().filter_map(|name| info.vars.get(name));
    types
        .map(bytes)
        .try_fold(Dim::int(0), |sum, bytes| Some(&sum + &bytes?))
}

/// Whether a call is counted as an operator.
fn is_operator(path: &str) -> bool {
    !path.starts_with("T.")
        && !matches!(
            path,
            "R.const" | "R.shape" | "R.match_cast" | "R.func_attr" | "R.tuple" | "R.assert_op"
        )
}
