//! Rewrites of operators, rule by rule: what the passes of this folder stand on.
//!
//! A pass is one file with a rule: given a binding and what is known around it, the rule says what takes its place.
//! [`run_rule`] walks the functions, asks the log, puts the replacement in, and removes what nothing reads any more
//! because of it. What makes a rewrite worth trusting is kept here, once: names of results stay names of results,
//! comments move to the next statement, a value of a branch stays bound, weights that others read stay as they are.
//! Rules want normal form, and see operators of `R` and of ONNX as they were written.

pub mod adjust_add;
pub mod adjust_matmul_order;
pub mod combine_parallel_matmul;
pub mod convolution;
pub mod eliminate_consecutive_idempotent_ops;
pub mod eliminate_duplicate_initializer;
pub mod eliminate_if_with_const_cond;
pub mod eliminate_nop_cast;
pub mod eliminate_nop_concat;
pub mod eliminate_nop_dropout;
pub mod eliminate_nop_expand;
pub mod eliminate_nop_monotone_argmax;
pub mod eliminate_nop_pad;
pub mod eliminate_nop_reshape;
pub mod eliminate_nop_slice;
pub mod eliminate_nop_split;
pub mod eliminate_nop_transpose;
pub mod eliminate_nop_with_unit;
pub mod eliminate_reshapes_around_elementwise;
pub mod eliminate_transposes_around_elementwise;
pub mod eliminate_zero_initial_state;
pub mod expand_matmul_of_sum;
pub mod factors;
pub mod fast_math;
pub mod fuse_add_bias_into_conv;
pub mod fuse_add_bias_into_conv_transpose;
pub mod fuse_bn_into_conv;
pub mod fuse_bn_into_conv_transpose;
pub mod fuse_bn_into_gemm;
pub mod fuse_cast_mul_into_dequantize;
pub mod fuse_consecutive_concats;
pub mod fuse_consecutive_constants;
pub mod fuse_consecutive_log_softmax;
pub mod fuse_consecutive_reduce_unsqueeze;
pub mod fuse_consecutive_reshapes;
pub mod fuse_consecutive_slices;
pub mod fuse_consecutive_transposes;
pub mod fuse_gelu;
pub mod fuse_hard_swish;
pub mod fuse_layer_norm;
pub mod fuse_matmul_add_bias_into_gemm;
pub mod fuse_mul_into_conv;
pub mod fuse_mul_into_gemm;
pub mod fuse_pad_into_conv;
pub mod fuse_pad_into_pool;
pub mod fuse_silu;
pub mod fuse_slice_squeeze_into_take;
pub mod fuse_slices_into_split;
pub mod fuse_transpose_into_gemm;
pub mod fuse_view_into_fill;
pub mod operator;
pub mod product;
pub mod region;
pub mod remove_unused_parameters;
pub mod reorder_permute_dims_after_concat;
pub mod reorder_take_after_matmul;
pub mod replace_einsum_with_matmul;
pub mod rewrite_where;
pub mod to_mixed_precision;
mod transposed;
pub mod view;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::names::NameSupply;
use irc_syntax::uses::{bound_names, for_each_name, names_read, substitute, substitute_stmt};
use irc_syntax::{
    DType, Expr, ExprKind, Func, FuncKind, Module, Name, Param, Stmt, StmtKind, TriviaLine,
};

use super::graph::{count_uses, is_pure, returned};
use super::hoist_constants::type_of;
use super::log::Log;
use super::{Changed, PassCx, set_num_input};
use crate::check::prim::{self, BoundCall, Prim};
use crate::check::{FuncInfo, Type, type_to_expr};
use crate::library::{Library, since_of};
use crate::shape::Dim;
use crate::tensor::{Tensor, Weights, parse_const, print_const};

pub use operator::Operator;

/// A pass by the function `rule` of the file that it stands in.
macro_rules! pass {
    ($name:literal, $summary:literal) => {
        Pass {
            name: $name,
            run: |module, cx| super::run_rule(module, cx, &rule),
            from: crate::check::stage::Level::Normal,
            to: crate::check::stage::Level::Normal,
            summary: $summary,
            args: &[],
        }
    };
}
use pass;

/// How many elements a constant in the text may have.
const MAX_INLINE: usize = 16;

/// What takes a binding's place.
#[derive(Clone, Debug)]
pub enum Rewrite {
    /// Another value: a name, or a constant.
    Alias(Expr),
    /// The same value, computed another way.
    Value(Expr),
}

/// A rule: what takes the place of a binding, if it applies.
pub type Rule<'r> = &'r dyn Fn(&Site, &Binding) -> Option<Rewrite>;

/// The binding that a rule looks at.
#[derive(Clone, Copy, Debug)]
pub struct Binding<'a> {
    /// The name that it binds; the first of several.
    pub name: &'a Name,
    /// What it binds: a name, or a tuple of names.
    pub target: &'a Expr,
    /// What it computes.
    pub value: &'a Expr,
}

/// What a rule knows around a binding, and where it puts what the replacement needs beside it.
pub struct Site<'a> {
    /// Types and facts of the function.
    pub info: &'a FuncInfo,
    /// The operators.
    pub lib: &'a Library,
    log: &'a Log,
    weights: &'a Weights,
    /// The weights of the function at hand.
    own: &'a BTreeSet<Name>,
    /// Parameters whose name another function has too: they are one weight.
    shared: &'a BTreeSet<Name>,
    may_add: bool,
    defs: BTreeMap<Name, Expr>,
    uses: BTreeMap<Name, usize>,
    /// What the block at hand computes from each name, as it was before the rule ran.
    readers: BTreeMap<Name, Vec<Expr>>,
    /// Steps that rewrites of other bindings use too.
    notes: BTreeMap<String, Name>,
    at: RefCell<Pending>,
    names: RefCell<NameSupply>,
}

/// What a rule asked for; forgotten where its rewrite does not come about.
#[derive(Default)]
struct Pending {
    steps: Vec<Stmt>,
    weights: Vec<(Name, Tensor)>,
    notes: Vec<(String, Name)>,
    said: String,
}

impl Site<'_> {
    /// What a visible name is bound to, in its block or around it.
    pub fn def(&self, value: &Expr) -> Option<&Expr> {
        self.defs.get(value.as_name()?)
    }

    /// How often a name is read in the function.
    pub fn uses(&self, value: &Expr) -> usize {
        let name = value.as_name();
        name.and_then(|name| self.uses.get(name))
            .copied()
            .unwrap_or(0)
    }

    /// What a value is bound to, where only the binding at hand reads it: it may become part of another.
    pub fn only_def(&self, value: &Expr) -> Option<&Expr> {
        self.def(value).filter(|_| self.uses(value) == 1)
    }

    /// What is a member of a tuple: what the tuple is bound to, and which member.
    pub fn member(&self, value: &Expr) -> Option<(&Expr, usize)> {
        let ExprKind::Index { value, index } = &value.kind else {
            return None;
        };
        let at = usize::try_from(index.first()?.as_int()?).ok()?;
        Some((self.def(value)?, at))
    }

    /// What the block at hand computes from a name, in order, before and after the binding at hand.
    pub fn readers(&self, value: &Expr) -> Vec<Expr> {
        let name = value.as_name();
        let found = name.and_then(|name| self.readers.get(name));
        found.cloned().unwrap_or_default()
    }

    /// What was remembered under a key, where it is visible.
    pub fn recall(&self, key: &str) -> Option<Expr> {
        let name = self.notes.get(key)?;
        self.defs.contains_key(name).then(|| Expr::name(name))
    }

    /// Remembers a step for other bindings of the function, if the rewrite comes about.
    pub fn remember(&self, key: impl Into<String>, value: &Expr) {
        if let Some(name) = value.as_name() {
            self.at.borrow_mut().notes.push((key.into(), name.clone()));
        }
    }

    /// The extents of what a binding computes.
    pub fn result_shape(&self, binding: &Binding) -> Option<Vec<Dim>> {
        self.shape(&Expr::name(binding.target.as_name()?))
    }

    /// The type of a name or a constant.
    pub fn ty(&self, value: &Expr) -> Option<Type> {
        match value.as_name() {
            Some(name) => self.info.vars.get(name).cloned(),
            None => literal(value).map(|tensor| type_of(&tensor)),
        }
    }

    /// The extents of a tensor.
    pub fn shape(&self, value: &Expr) -> Option<Vec<Dim>> {
        self.ty(value)?.as_tensor()?.shape.clone()
    }

    /// The element type of a tensor.
    pub fn dtype(&self, value: &Expr) -> Option<DType> {
        self.ty(value)?.as_tensor()?.dtype
    }

    /// The elements of a tensor that is a constant or a weight.
    pub fn constant(&self, value: &Expr) -> Option<Tensor> {
        if let Some(tensor) = literal(value) {
            return Some(tensor);
        }
        let name = value.as_name()?;
        if let Some(def) = self.defs.get(name) {
            return literal(def);
        }
        self.own
            .contains(name)
            .then(|| self.weights.get(name))??
            .tensor()
            .into()
    }

    /// The extents of a constant or a weight, which is not read for that.
    pub fn constant_shape(&self, value: &Expr) -> Option<Vec<usize>> {
        let name = match value.as_name() {
            Some(name) => match self.defs.get(name) {
                Some(def) => return Some(literal(def)?.shape),
                None => name,
            },
            None => return Some(literal(value)?.shape),
        };
        let weight = self.own.contains(name).then(|| self.weights.get(name))??;
        Some(weight.shape.clone())
    }

    /// The elements of a constant or a weight of floats, in 64 bits.
    pub fn numbers(&self, value: &Expr) -> Option<Vec<f64>> {
        let tensor = self
            .constant(value)
            .filter(|tensor| tensor.dtype.is_float())?;
        tensor.cast(DType::F64).ok()?.to_vec()
    }

    /// The number that all elements of a constant of floats or integers are.
    pub fn number(&self, value: &Expr) -> Option<f64> {
        match &value.kind {
            ExprKind::Float(number) => return Some(*number),
            ExprKind::Int(number) => return Some(*number as f64),
            _ => {}
        }
        // A large weight is seldom one number, and is not read to find out.
        let count = |dims: Vec<Dim>| {
            dims.iter()
                .try_fold(1, |all: i64, dim| Some(all * dim.as_int()?))
        };
        if self
            .shape(value)
            .and_then(count)
            .is_none_or(|count| count > 64)
        {
            return None;
        }
        let numbers = self
            .constant(value)?
            .cast(DType::F64)
            .ok()?
            .to_vec::<f64>()?;
        let (first, rest) = numbers.split_first()?;
        rest.iter().all(|number| number == first).then_some(*first)
    }

    /// Whether every element of a constant, a weight or a fill is this number.
    pub fn is_all(&self, value: &Expr, number: f64) -> bool {
        let Some(dtype) = self.dtype(value) else {
            return false;
        };
        let bytes_of = |number: f64| {
            let tensor = Tensor::scalar(number).cast(dtype).ok();
            tensor
                .map(|tensor| tensor.data.to_vec())
                .filter(|bytes| !bytes.is_empty())
        };
        // Zero has two signs.
        let (Some(wanted), Some(other)) = (bytes_of(number), bytes_of(-number)) else {
            return false;
        };
        let all = |data: &[u8]| {
            let is_it = |bytes: &[u8]| bytes == wanted || number == 0.0 && bytes == other;
            !data.is_empty() && data.chunks(wanted.len()).all(is_it)
        };
        if let Some(name) = value.as_name()
            && self.own.contains(name)
        {
            // Read in place: most weights show by their first element that they are not.
            return self
                .weights
                .get(name)
                .is_some_and(|weight| all(weight.bytes()));
        }
        let fill = self.def(value).filter(|def| def.is_call_of("R.full"));
        match fill.and_then(|fill| fill.positional().nth(1)) {
            Some(fill) => self.number(fill) == Some(number),
            None => self.constant(value).is_some_and(|tensor| all(&tensor.data)),
        }
    }

    /// The call of a primitive that a value is, with its arguments in place.
    pub fn prim(&self, value: &Expr) -> Option<BoundCall> {
        let (path, _) = value.as_call()?;
        prim::bind(Prim::find(&path)?, value).ok()
    }

    /// The call of an operator that a value is, be it a primitive or the library's.
    pub fn operator<'e>(&self, value: &'e Expr) -> Option<Operator<'e>> {
        Operator::read(value, self.lib)
    }

    /// The operator set that the library has an operator of ONNX from, as the newest says it.
    pub fn since(&self, path: &str) -> i128 {
        let found = self.lib.find(path, None);
        found.map_or(1, |found| i128::from(since_of(found.func)))
    }

    /// Computes a value beside the binding at hand, and gives its name, made from `hint`.
    pub fn step(&self, hint: &str, value: Expr) -> Expr {
        let name = self.fresh(hint);
        self.at.borrow_mut().steps.push(Stmt::bind(&name, value));
        Expr::name(name)
    }

    /// A constant operand: in the text when it is small, a weight named from `hint` otherwise.
    pub fn keep(&self, hint: &str, tensor: Tensor) -> Expr {
        let is_small = tensor.len() <= MAX_INLINE;
        // A large one is not printed to find out.
        if is_small || !self.may_add || tensor.strings.is_some() {
            let text = print_const(&tensor);
            match (text.is_call_of("R.const"), is_small) {
                (true, true) => return text,
                (true, false) => return self.step(hint, text),
                (false, _) => {}
            }
        }
        let name = self.fresh(hint);
        self.at.borrow_mut().weights.push((name.clone(), tensor));
        Expr::name(name)
    }

    /// New elements for a constant operand. A weight that nothing else reads keeps its name.
    pub fn revise(&self, old: &Expr, tensor: Tensor) -> Expr {
        let hint = old.as_name().map_or("const", |name| name.as_str());
        if let Some(name) = old.as_name()
            && self.own.contains(name)
            && self.uses(old) == 1
            && !self.shared.contains(name)
            && self
                .weights
                .get(name)
                .is_some_and(|weight| weight.dtype == tensor.dtype && weight.shape == tensor.shape)
        {
            self.at.borrow_mut().weights.push((name.clone(), tensor));
            return old.clone();
        }
        self.keep(hint, tensor)
    }

    /// Says what the rewrite does, where the pass's name does not say it.
    pub fn say(&self, what: impl Into<String>) {
        self.at.borrow_mut().said = what.into();
    }

    /// Says why a look-alike is left alone.
    pub fn refuse<T>(&self, binding: &Binding, why: impl Into<String>) -> Option<T> {
        self.log.miss(binding.name, binding.value.span, why);
        None
    }

    fn fresh(&self, hint: &str) -> Name {
        let mut names = self.names.borrow_mut();
        loop {
            let name = names.fresh(hint);
            // Weights of other functions share the table.
            if self.weights.get(&name).is_none() {
                return name;
            }
        }
    }

    fn count(&mut self, value: &Expr, read: bool) {
        for_each_name(value, &mut |name| {
            let count = self.uses.entry(name.clone()).or_insert(0);
            *count = if read {
                *count + 1
            } else {
                count.saturating_sub(1)
            };
        });
    }
}

/// Numbers as a constant of another dtype, each rounded once.
pub fn round(shape: Vec<usize>, numbers: &[f64], dtype: DType) -> Option<Tensor> {
    Tensor::from_vec(shape, numbers)?.cast(dtype).ok()
}

/// A call with another value in the place of one of its operands.
pub fn with_operand(call: &Expr, old: &Expr, new: &Expr) -> Expr {
    let mut call = call.clone();
    if let ExprKind::Call { args, .. } = &mut call.kind
        && let Some(arg) = args.iter_mut().find(|arg| arg.value == *old)
    {
        arg.value = new.clone();
    }
    call
}

/// A constant written as one.
fn literal(value: &Expr) -> Option<Tensor> {
    let (path, args) = value.as_call()?;
    (path == "R.const")
        .then(|| parse_const(args).ok())
        .flatten()
}

/// Applies a rule to every binding of every graph function that is no group, in order.
pub fn run_rule(module: &mut Module, cx: &mut PassCx, rule: Rule) -> Changed {
    let mut changed = false;
    let mut new_weights = Vec::new();
    let shared = shared_params(module);
    for func in module.funcs_mut() {
        if func.kind != FuncKind::Graph || func.attr("op_pattern").is_some() || cx.log.is_spent() {
            continue;
        }
        let Some(info) = cx.info.funcs.get(&func.name) else {
            continue;
        };
        changed |= run_on_func(func, (info, &shared), cx, rule, &mut new_weights);
    }
    for (name, tensor) in new_weights {
        cx.weights.insert(name.as_str(), tensor);
    }
    Changed::from(changed)
}

/// Names of parameters that several public functions have.
fn shared_params(module: &Module) -> BTreeSet<Name> {
    let mut seen = BTreeSet::new();
    let public = module.funcs().filter(|func| !func.is_private());
    let names = public.flat_map(|func| func.params.iter().map(|param| param.name.clone()));
    names.filter(|name| !seen.insert(name.clone())).collect()
}

fn run_on_func(
    func: &mut Func,
    (info, shared): (&FuncInfo, &BTreeSet<Name>),
    cx: &PassCx,
    rule: Rule,
    new_weights: &mut Vec<(Name, Tensor)>,
) -> bool {
    let num_input = info.num_input.min(func.params.len());
    let own: BTreeSet<Name> = func.params[num_input..]
        .iter()
        .map(|param| param.name.clone())
        .collect();
    let uses = count_uses(&func.body);
    let results: BTreeSet<Name> = returned(&func.body)
        .into_iter()
        .filter_map(|value| value.as_name().cloned())
        .collect();
    let params: BTreeSet<Name> = func.params.iter().map(|param| param.name.clone()).collect();
    let mut walk = Walk {
        site: Site {
            info,
            lib: cx.lib,
            log: &cx.log,
            weights: cx.weights,
            own: &own,
            shared,
            may_add: !func.is_private(),
            defs: BTreeMap::new(),
            uses: uses.clone(),
            readers: BTreeMap::new(),
            notes: BTreeMap::new(),
            at: RefCell::default(),
            names: RefCell::new(NameSupply::of_func(func)),
        },
        rule,
        results: &results,
        params: &params,
        map: BTreeMap::new(),
        weights: Vec::new(),
        changed: false,
    };
    walk.block(&mut func.body, true);
    let (changed, made) = (walk.changed, std::mem::take(&mut walk.weights));
    if !changed {
        return false;
    }
    let fresh: Vec<&(Name, Tensor)> = made
        .iter()
        .filter(|(name, _)| !own.contains(name))
        .collect();
    if !fresh.is_empty() {
        for (name, tensor) in fresh {
            func.params
                .push(Param::new(name, type_to_expr(&type_of(tensor))));
        }
        set_num_input(func, num_input);
    }
    sweep_absorbed(func, &uses);
    new_weights.extend(made);
    true
}

struct Walk<'a> {
    site: Site<'a>,
    rule: Rule<'a>,
    /// The names that the function returns.
    results: &'a BTreeSet<Name>,
    params: &'a BTreeSet<Name>,
    /// Names that stand for other values from here on.
    map: BTreeMap<Name, Expr>,
    weights: Vec<(Name, Tensor)>,
    changed: bool,
}

impl Walk<'_> {
    fn block(&mut self, stmts: &mut Vec<Stmt>, outermost: bool) {
        let read_here = count_uses(stmts);
        let outside = std::mem::replace(&mut self.site.readers, readers_of(stmts));
        let mut kept: Vec<Stmt> = Vec::with_capacity(stmts.len());
        let mut comments = Vec::new();
        for mut stmt in stmts.drain(..) {
            stmt.trivia.leading.splice(0..0, comments.drain(..));
            if !self.map.is_empty() {
                substitute_stmt(&mut stmt, &self.map);
            }
            match &mut stmt.kind {
                StmtKind::If { then, orelse, .. } => {
                    for branch in [then, orelse] {
                        let outside = self.site.defs.clone();
                        self.block(branch, false);
                        self.site.defs = outside;
                    }
                }
                StmtKind::Assign { target, value, .. } => {
                    let Some(name) = bound_names(target).into_iter().next() else {
                        kept.push(stmt);
                        continue;
                    };
                    let binding = Binding {
                        name: &name,
                        target,
                        value,
                    };
                    match self.ask(&binding, &kept, read_here.contains_key(&name) && outermost) {
                        Some(Rewrite::Alias(other)) => {
                            self.forget(value, &mut kept);
                            if self.results.contains(&name) {
                                self.rename(&other, &name, &mut kept);
                            } else {
                                let reads = self.site.uses.remove(&name).unwrap_or(0);
                                if let Some(other) = other.as_name() {
                                    *self.site.uses.entry(other.clone()).or_insert(0) += reads;
                                }
                                self.map.insert(name, other);
                            }
                            comments.extend(comments_of(stmt));
                            continue;
                        }
                        Some(Rewrite::Value(new)) => {
                            self.forget(value, &mut kept);
                            self.site.count(&new, true);
                            *value = new.at(value.span);
                        }
                        None => {}
                    }
                    if target.as_name().is_some() {
                        self.site.defs.insert(name, value.clone());
                    }
                }
                _ => {}
            }
            kept.push(stmt);
        }
        *stmts = kept;
        self.site.readers = outside;
    }

    /// What the rule makes of a binding, if it may.
    fn ask(&mut self, binding: &Binding, kept: &[Stmt], may_go: bool) -> Option<Rewrite> {
        *self.site.at.borrow_mut() = Pending::default();
        let rewrite = (self.rule)(&self.site, binding)?;
        if let Rewrite::Alias(other) = &rewrite
            && !self.may_alias(binding, other, kept, may_go)
        {
            return None;
        }
        let said = std::mem::take(&mut self.site.at.borrow_mut().said);
        self.site
            .log
            .allows(binding.name, binding.value.span, || said)
            .then_some(rewrite)
    }

    /// A name goes where its block reads it and nothing around the block does. The name of a result stays: then the other
    /// value has to be one of this block that may take the name.
    fn may_alias(&self, binding: &Binding, other: &Expr, kept: &[Stmt], may_go: bool) -> bool {
        if binding.target.as_name().is_none() {
            return false;
        }
        if !may_go {
            return self
                .site
                .refuse::<()>(binding, "it is the value of a branch")
                .is_some();
        }
        if !self.results.contains(binding.name) {
            return true;
        }
        let is_free = other.as_name().is_some_and(|other| {
            let bound = |stmt: &Stmt| {
                matches!(&stmt.kind, StmtKind::Assign { target, value, .. }
                if bound_names(target).contains(other) && !value.is_call_of("T.int64"))
            };
            !self.results.contains(other)
                && !self.params.contains(other)
                && kept.iter().filter(|stmt| bound(stmt)).count() == 1
        });
        if !is_free {
            let why = "the function returns it by name, and what it equals has one of its own";
            self.site.log.miss(binding.name, binding.value.span, why);
        }
        is_free
    }

    /// The old value is read no more; what the rule asked for comes before the binding.
    fn forget(&mut self, old: &Expr, kept: &mut Vec<Stmt>) {
        self.changed = true;
        self.site.count(old, false);
        let pending = std::mem::take(&mut *self.site.at.borrow_mut());
        for step in pending.steps {
            if let StmtKind::Assign { target, value, .. } = &step.kind {
                self.site.count(value, true);
                if let Some(name) = target.as_name() {
                    self.site.defs.insert(name.clone(), value.clone());
                }
            }
            kept.push(step.at(old.span));
        }
        self.weights.extend(pending.weights);
        self.site.notes.extend(pending.notes);
    }

    /// The value `other` gets the name `name`, which the function returns.
    fn rename(&mut self, other: &Expr, name: &Name, kept: &mut [Stmt]) {
        let Some(old) = other.as_name() else { return };
        let map = BTreeMap::from([(old.clone(), Expr::name(name))]);
        for stmt in kept.iter_mut() {
            substitute_stmt(stmt, &map);
            rename_targets(stmt, &map);
        }
        for value in self.site.defs.values_mut() {
            substitute(value, &map);
        }
        if let Some(def) = self.site.defs.remove(old) {
            self.site.defs.insert(name.clone(), def);
        }
        let reads = self.site.uses.remove(old).unwrap_or(0);
        *self.site.uses.entry(name.clone()).or_insert(0) += reads;
        self.map.extend(map);
    }
}

/// What a block computes from each name.
fn readers_of(stmts: &[Stmt]) -> BTreeMap<Name, Vec<Expr>> {
    let mut readers: BTreeMap<Name, Vec<Expr>> = BTreeMap::new();
    for stmt in stmts {
        if let StmtKind::Assign { value, .. } = &stmt.kind {
            for name in names_read(value) {
                readers.entry(name).or_default().push(value.clone());
            }
        }
    }
    readers
}

/// Gives what a statement binds, and what those inside it bind, other names.
pub(super) fn rename_targets(stmt: &mut Stmt, map: &BTreeMap<Name, Expr>) {
    match &mut stmt.kind {
        StmtKind::Assign { target, .. } => substitute(target, map),
        StmtKind::If { then, orelse, .. } => {
            then.iter_mut()
                .chain(orelse)
                .for_each(|stmt| rename_targets(stmt, map));
        }
        _ => {}
    }
}

/// The comments of a statement that goes.
fn comments_of(gone: Stmt) -> Vec<TriviaLine> {
    let trailing = gone.trivia.trailing.map(TriviaLine::Comment);
    let has_text = |line: &TriviaLine| !matches!(line, TriviaLine::Blank);
    gone.trivia
        .leading
        .into_iter()
        .filter(has_text)
        .chain(trailing)
        .collect()
}

/// Removes the bindings that were read before a rule ran, and are not any more.
fn sweep_absorbed(func: &mut Func, before: &BTreeMap<Name, usize>) {
    fn sweep(
        stmts: &mut Vec<Stmt>,
        before: &BTreeMap<Name, usize>,
        counts: &mut BTreeMap<Name, usize>,
    ) {
        let mut kept: Vec<Stmt> = Vec::with_capacity(stmts.len());
        while let Some(mut stmt) = stmts.pop() {
            let is_dead = match &mut stmt.kind {
                StmtKind::Assign { target, value, .. } => {
                    let names = bound_names(target);
                    !names.is_empty()
                        && is_pure(value)
                        && !value.is_call_of("R.match_cast")
                        && value
                            .as_call()
                            .is_none_or(|(path, _)| !path.starts_with("T."))
                        && names.iter().any(|name| before.contains_key(name))
                        && names
                            .iter()
                            .all(|name| counts.get(name).is_none_or(|&count| count == 0))
                }
                StmtKind::If { then, orelse, .. } => {
                    sweep(orelse, before, counts);
                    sweep(then, before, counts);
                    false
                }
                _ => false,
            };
            if !is_dead {
                kept.push(stmt);
                continue;
            }
            if let StmtKind::Assign { value, .. } = &stmt.kind {
                for_each_name(value, &mut |name| {
                    if let Some(count) = counts.get_mut(name) {
                        *count = count.saturating_sub(1);
                    }
                });
            }
            // The statement that follows is the last that was kept.
            if let Some(next) = kept.last_mut() {
                next.trivia.leading.splice(0..0, comments_of(stmt));
            }
        }
        kept.reverse();
        *stmts = kept;
    }
    let mut counts = count_uses(&func.body);
    sweep(&mut func.body, before, &mut counts);
}
