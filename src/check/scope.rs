//! Types of graph-level expressions among the names of one function.
//!
//! [`GraphScope`] is what the checker walks with; it reports what is wrong with an expression while it types it. Passes type
//! what they build with [`super::FuncScope`], which reports nothing.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::{DType, Diagnostic, Expr, ExprKind, FuncKind, Name, Span};

use super::agree::{substitute, unify};
use super::annotation::type_from_expr;
use super::expand::{Expander, symbols_of};
use super::prim::{self, BoundCall, Items, Prim, Scope};
use super::signature::Signature;
use super::suggest::closest;
use super::types::{TensorType, Type};
use crate::library::Library;
use crate::shape::{Dim, Facts, SymbolFacts};
use crate::tensor::{Tensor, parse_const};

/// The names of one graph function, with their types.
pub struct GraphScope<'a> {
    pub(super) signatures: &'a BTreeMap<Name, Signature>,
    pub(super) vars: BTreeMap<Name, Type>,
    /// Names bound to `R.const(…)`.
    constants: BTreeMap<Name, Expr>,
    /// Symbols that may be used.
    pub(super) symbols: BTreeSet<Name>,
    pub(super) facts: Facts,
    expander: Option<Expander<'a>>,
    lib: &'a Library,
    /// Names that a fresh symbol must differ from.
    taken: BTreeSet<Name>,
    pub(super) faults: Vec<Diagnostic>,
    /// Whether parts of the text did not parse, so that names may be missing for that reason.
    pub(super) broken: bool,
    /// Places where something impure is called.
    pub(super) effects: Vec<(Option<Span>, String)>,
}

impl<'a> GraphScope<'a> {
    pub(super) fn new(lib: &'a Library, signatures: &'a BTreeMap<Name, Signature>) -> Self {
        Self {
            signatures,
            vars: BTreeMap::new(),
            constants: BTreeMap::new(),
            symbols: BTreeSet::new(),
            facts: Facts::default(),
            expander: Some(Expander::new(lib)),
            lib,
            taken: BTreeSet::new(),
            faults: Vec::new(),
            broken: false,
            effects: Vec::new(),
        }
    }

    /// Binds a name, in place of what it was bound to.
    pub fn define(&mut self, name: impl Into<Name>, ty: Type) {
        let name = name.into();
        self.taken.insert(name.clone());
        for symbol in symbols_of(&ty) {
            self.taken.insert(symbol.clone());
            self.symbols.insert(symbol);
        }
        self.constants.remove(&name);
        self.vars.insert(name, ty);
    }

    /// Says that a name is bound to a constant, so that templates can see its numbers.
    pub fn define_constant(&mut self, name: &Name, value: &Expr) {
        if value.is_call_of("R.const") {
            self.constants.insert(name.clone(), value.clone());
        }
    }

    /// The expander, which works in this scope: `scope.with_expander(|expander, scope| expander.expand(…))`.
    pub fn with_expander<T>(&mut self, work: impl FnOnce(&mut Expander<'a>, &mut Self) -> T) -> T {
        // Taken out while it works, since it asks the scope for types; nested use gets one of its own.
        let mut expander = self
            .expander
            .take()
            .unwrap_or_else(|| Expander::new(self.lib));
        let result = work(&mut expander, self);
        self.expander = Some(expander);
        result
    }

    pub(super) fn report(&mut self, fault: Diagnostic) -> Type {
        self.faults.push(fault);
        Type::Error
    }

    /// Says that no fresh symbol may have these names.
    pub(super) fn reserve(&mut self, names: impl IntoIterator<Item = Name>) {
        self.taken.extend(names);
    }

    pub(super) fn declare_symbol(&mut self, name: &Name) {
        self.taken.insert(name.clone());
        self.symbols.insert(name.clone());
        self.facts.show(name);
    }

    fn name(&mut self, expr: &Expr, name: &Name) -> Type {
        if let Some(ty) = self.vars.get(name) {
            return ty.clone();
        }
        if self.symbols.contains(name) {
            return Type::Scalar(DType::I64);
        }
        let fault = Diagnostic::error("unknown-name", format!("`{name}` is not defined"))
            .at(expr.span, "not defined");
        let near = closest(name, self.vars.keys().map(Name::as_str)).map(str::to_string);
        // Said once: from here on the name is in error.
        self.vars.insert(name.clone(), Type::Error);
        if self.broken {
            return Type::Error;
        }
        self.report(match near {
            Some(near) => fault.help(format!("write `{near}`"), None),
            None => fault,
        })
    }

    fn index(&mut self, expr: &Expr, value: &Expr, index: &[Expr]) -> Type {
        if value.as_path().is_none()
            && matches!(value.kind, ExprKind::Index { .. })
            && is_metadata(value)
        {
            return Type::Any;
        }
        if is_metadata(expr) {
            return Type::Any;
        }
        let at = index
            .first()
            .and_then(Expr::as_int)
            .and_then(|at| usize::try_from(at).ok());
        match (self.type_of(value), at) {
            (Type::Tuple(members), Some(at)) => match members.get(at) {
                Some(ty) => ty.clone(),
                None => {
                    let message = format!("index {at} is outside a tuple of {}", members.len());
                    self.report(
                        Diagnostic::error("index-range", message).at(expr.span, "no such member"),
                    )
                }
            },
            (Type::Shape(Some(dims)), Some(at)) if at < dims.len() => Type::Scalar(DType::I64),
            (Type::Seq(inner), _) => *inner,
            (Type::Any, _) => Type::Any,
            (Type::Error, _) => Type::Error,
            (other, _) => {
                let message = format!("{other} has no members to take by an index");
                self.report(
                    Diagnostic::error("type-mismatch", message)
                        .at(expr.span, "not a tuple")
                        .help(
                            "take elements of a tensor with `R.take` or `R.strided_slice`",
                            None,
                        ),
                )
            }
        }
    }

    fn infix(&mut self, expr: &Expr, operands: &[&Expr]) -> Type {
        let types: Vec<Type> = operands
            .iter()
            .map(|operand| self.type_of(operand))
            .collect();
        if types.contains(&Type::Error) {
            return Type::Error;
        }
        if types.iter().all(|ty| matches!(ty, Type::Scalar(_))) {
            return types.into_iter().next().unwrap_or(Type::Any);
        }
        match prim::bind_infix(expr) {
            Some(call) => prim::infer(&call, self).unwrap_or_else(|fault| self.report(fault)),
            None => Type::Any,
        }
    }

    fn call(&mut self, expr: &Expr, path: &str) -> Type {
        if let Some(found) = Prim::find(path) {
            let bound = match prim::bind(found, expr) {
                Ok(bound) => bound,
                Err(fault) => return self.report(fault),
            };
            // Functions of TVM's own virtual machine only compute.
            let built_in = |call: &BoundCall| {
                let name = callee_expr(call).and_then(Expr::as_str);
                name.is_some_and(|name| name.starts_with("vm.builtin."))
            };
            if found.is_impure() && !built_in(&bound) {
                self.effects.push((expr.span, path.to_string()));
            }
            let ty = prim::infer(&bound, self).unwrap_or_else(|fault| self.report(fault));
            if bound.prim == Prim::WhileLoop {
                self.loop_body(&bound, &ty);
            }
            self.callee(&bound, &ty);
            return ty;
        }
        if let Some(name) = path
            .strip_prefix("cls.")
            .or_else(|| path.strip_prefix("Module."))
        {
            return self.call_function(expr, name);
        }
        if self.lib.has(path) {
            let typed = self.with_expander(|expander, scope| expander.type_of_call(expr, scope));
            return typed.unwrap_or_else(|fault| self.report(fault));
        }
        if let Some(ty) = self.vars.get(path).cloned() {
            return self.call_value(expr, &ty);
        }
        self.structural(expr, path)
    }

    /// Forms of the graph level that are no operators.
    fn structural(&mut self, expr: &Expr, path: &str) -> Type {
        let args: Vec<Expr> = expr.positional().cloned().collect();
        match path {
            "R.tuple" if args.is_empty() => Type::Void,
            "R.tuple" => Type::Tuple(args.iter().map(|arg| self.type_of(arg)).collect()),
            "R.str" => Type::Str,
            "R.dtype" => Type::DTypeValue,
            "R.null_value" => Type::Opt(Box::new(Type::Any)),
            "R.prim_value" => args.first().map_or(Type::Error, |arg| self.type_of(arg)),
            "R.builtin.alloc_tensor" => self.placed(args.first(), args.get(1)),
            "R.memory.alloc_tensor" | "R.vm.alloc_tensor" => self.placed(args.get(2), args.get(3)),
            "R.memory.alloc_storage"
            | "R.vm.alloc_storage"
            | "R.ExternFunc"
            | "R.make_closure"
            | "R.memory.view"
            | "R.memory.ensure_zero_offset" => Type::Any,
            "R.memory.kill_storage" | "R.memory.kill_tensor" | "R.vm.kill_object" => Type::Void,
            "R.to_vdevice" | "R.hint_on_device" | "R.stop_lift_params" => {
                args.first().map_or(Type::Error, |arg| self.type_of(arg))
            }
            "R.print" | "R.assert_op" => {
                self.effects.push((expr.span, path.to_string()));
                Type::Void
            }
            "R.call_builtin_with_ctx"
            | "R.call_inplace_packed"
            | "R.invoke_closure"
            | "R.invoke_pure_closure" => {
                let stated = expr
                    .keyword("ty_args")
                    .or_else(|| expr.keyword("sinfo_args"));
                stated
                    .cloned()
                    .map_or(Type::Any, |stated| self.stated(&stated))
            }
            _ => match path.strip_prefix("T.").and_then(DType::from_name) {
                Some(dtype) => Type::Scalar(dtype),
                // Scalar arithmetic in arguments.
                None if path.starts_with("T.") => Type::Scalar(DType::I64),
                None => {
                    let fault = super::expand::unknown_operator(path, expr.span, self.lib);
                    self.report(*fault)
                }
            },
        }
    }

    fn stated(&mut self, expr: &Expr) -> Type {
        let items = expr.as_items().map(<[Expr]>::to_vec);
        let one = match items.as_deref() {
            Some([one]) => one,
            Some(several) => {
                let types = several
                    .iter()
                    .map(|item| self.annotation(item))
                    .collect::<Result<_, _>>();
                return types.map_or_else(|fault| self.report(fault), Type::Tuple);
            }
            None => expr,
        };
        self.annotation(one)
            .unwrap_or_else(|fault| self.report(fault))
    }

    /// The tensor that an allocation makes.
    fn placed(&mut self, shape: Option<&Expr>, dtype: Option<&Expr>) -> Type {
        let dims = match shape.map(|shape| (prim::shape_dims(shape), shape)) {
            Some((Some(dims), _)) => match dims {
                Ok(dims) => Some(dims),
                Err(fault) => return self.report(fault),
            },
            Some((None, shape)) => match self.type_of(shape) {
                Type::Shape(dims) => dims,
                _ => None,
            },
            None => None,
        };
        let dtype = dtype.map(|dtype| dtype.positional().next().unwrap_or(dtype));
        let dtype = dtype.and_then(Expr::as_str).and_then(DType::from_name);
        let ndim = dims.as_ref().map(Vec::len);
        Type::Tensor(TensorType {
            dtype,
            ndim,
            shape: dims,
            value: None,
        })
    }

    /// A call of a function value.
    fn call_value(&mut self, expr: &Expr, ty: &Type) -> Type {
        let args: Vec<Expr> = expr.positional().cloned().collect();
        let given: Vec<Type> = args.iter().map(|arg| self.type_of(arg)).collect();
        match ty {
            Type::Func(params, ret) => {
                let mut symbols = BTreeMap::new();
                for ((param, arg), written) in params.iter().zip(&given).zip(&args) {
                    if let Err(found) = unify(param, arg, &mut symbols, &mut self.facts) {
                        let fault = Diagnostic::error(
                            found.code,
                            format!("an argument does not fit: {}", found.text),
                        );
                        return self.report(fault.at(written.span, "this argument"));
                    }
                }
                substitute(ret, &symbols)
            }
            Type::Error => Type::Error,
            Type::Any => Type::Any,
            other => {
                let message = format!("{other} is not a function");
                self.report(
                    Diagnostic::error("type-mismatch", message).at(expr.span, "called here"),
                )
            }
        }
    }

    /// `cls.f(x, y)`
    fn call_function(&mut self, expr: &Expr, name: &str) -> Type {
        let Some(signature) = self.signatures.get(name).cloned() else {
            return self.unknown_function(expr, name);
        };
        if signature.impure {
            self.effects.push((expr.span, format!("cls.{name}")));
        }
        let args: Vec<Expr> = expr.positional().cloned().collect();
        if args.len() != signature.params.len() {
            // Parameters after `num_input` are weights, bound when the program is built.
            let message = format!(
                "`{name}` takes {} arguments, and {} are given",
                signature.params.len(),
                args.len()
            );
            return self.report(
                Diagnostic::error("bad-call", message)
                    .at(expr.span, "in this call")
                    .related(signature.span, "defined here"),
            );
        }
        let mut symbols = BTreeMap::new();
        if !self.pass_arguments(name, &signature, &args, &mut symbols) {
            return Type::Error;
        }
        let Some(ret) = signature.ret.clone() else {
            return Type::Any;
        };
        for symbol in symbols_of(&ret) {
            if let Entry::Vacant(vacant) = symbols.entry(symbol) {
                let fresh = self.fresh(vacant.key());
                vacant.insert(fresh);
            }
        }
        substitute(&ret, &symbols)
    }

    pub(super) fn unknown_function(&mut self, expr: &Expr, name: &str) -> Type {
        if self.broken {
            return Type::Error;
        }
        let fault = Diagnostic::error(
            "unknown-function",
            format!("the module has no function `{name}`"),
        )
        .at(expr.span, "unknown function");
        let near = closest(name, self.signatures.keys().map(Name::as_str));
        let fault = match near {
            Some(near) => fault.help(format!("write `cls.{near}`"), None),
            None => fault,
        };
        self.report(fault)
    }

    /// Checks arguments against the first parameters of a function; binds its symbols.
    pub(super) fn pass_arguments(
        &mut self,
        name: &str,
        signature: &Signature,
        args: &[Expr],
        symbols: &mut BTreeMap<Name, Dim>,
    ) -> bool {
        let mut good = true;
        let mut types = Vec::with_capacity(args.len());
        for ((param, wanted), arg) in signature.params.iter().zip(args) {
            let ty = self.type_of(arg);
            if let (Type::Scalar(_), Ok(dim)) = (wanted, Dim::from_expr(arg)) {
                symbols.insert(param.clone(), dim);
            }
            good &= ty != Type::Error;
            types.push(ty);
        }
        // Twice: a symbol may occur in a compound extent before the parameter that binds it.
        for ((_, wanted), ty) in signature.params.iter().zip(&types) {
            let _ = unify(wanted, ty, symbols, &mut self.facts.clone());
        }
        for (((param, wanted), arg), ty) in signature.params.iter().zip(args).zip(&types) {
            if let Err(found) = unify(wanted, ty, symbols, &mut self.facts) {
                let message = format!(
                    "argument `{param}` of `{name}` does not fit: {}",
                    found.text
                );
                let fault = Diagnostic::error(found.code, message)
                    .at(arg.span, "this argument")
                    .related(signature.span, format!("`{name}` is defined here"));
                self.faults.push(fault);
                good = false;
            }
        }
        good
    }

    /// `R.call_tir(cls.f, args, out_ty)`: the buffers of the callee against arguments and results.
    fn callee(&mut self, bound: &BoundCall, out: &Type) {
        if !matches!(bound.prim, Prim::CallTir | Prim::CallTirInplace) || *out == Type::Error {
            return;
        }
        let Some(func) = callee_expr(bound) else {
            return;
        };
        let Some(name) = func
            .as_path()
            .and_then(|path| path.split_once('.').map(|(_, name)| name.to_string()))
        else {
            return;
        };
        let Some(signature) = self.signatures.get(&*name).cloned() else {
            self.unknown_function(func, &name);
            return;
        };
        if signature.kind != FuncKind::Loops {
            let message = format!(
                "`{name}` is no prim_func, and `{}` calls one",
                bound.prim.name()
            );
            self.report(
                Diagnostic::error("bad-call", message)
                    .at(func.span, "called here")
                    .related(signature.span, "defined here"),
            );
            return;
        }
        let Items::Listed(args) = bound.items("args") else {
            return;
        };
        let mut args = args.to_vec();
        let outs: Vec<Type> = match out {
            Type::Tuple(members) => members.clone(),
            other => vec![other.clone()],
        };
        let inplace = bound.prim == Prim::CallTirInplace;
        let scalars = signature
            .params
            .iter()
            .rev()
            .take_while(|(_, ty)| matches!(ty, Type::Scalar(_)))
            .count();
        // `tir_vars=R.shape([n])`, or a shape as the last argument, gives scalars after the results.
        let extra = bound.operand("tir_vars").cloned().or_else(|| {
            let last = args.last()?;
            (scalars > 0 && last.is_call_of("R.shape")).then(|| last.clone())
        });
        let tail = extra
            .as_ref()
            .and_then(prim::shape_dims)
            .and_then(Result::ok)
            .map_or(0, |dims| dims.len());
        if extra.is_some() && bound.operand("tir_vars").is_none() {
            args.pop();
        }
        let given = args.len() + tail + if inplace { 0 } else { outs.len() };
        if given != signature.params.len() {
            let message = format!(
                "`{name}` takes {} buffers and scalars, and {} arguments with {} results are given",
                signature.params.len(),
                args.len() + tail,
                outs.len()
            );
            self.report(
                Diagnostic::error("bad-call", message)
                    .at(bound.span, "in this call")
                    .related(signature.span, "defined here"),
            );
            return;
        }
        let mut symbols = BTreeMap::new();
        if !self.pass_arguments(&name, &signature, &args, &mut symbols) || inplace {
            return;
        }
        for ((param, wanted), ty) in signature.params.iter().skip(args.len()).zip(&outs) {
            if let Err(found) = unify(wanted, ty, &mut symbols, &mut self.facts) {
                let message = format!(
                    "result `{param}` of `{name}` does not fit `out_ty`: {}",
                    found.text
                );
                let fault = Diagnostic::error(found.code, message)
                    .at(bound.span, "in this call")
                    .related(signature.span, format!("`{name}` is defined here"));
                self.faults.push(fault);
            }
        }
    }
}

/// `metadata["ir.GenericConst"][0]`
fn is_metadata(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Index { value, .. } => is_metadata(value),
        ExprKind::Name(name) => **name == *"metadata",
        _ => false,
    }
}

fn callee_expr(bound: &BoundCall) -> Option<&Expr> {
    let takes_one = prim::slots(bound.prim)
        .iter()
        .any(|slot| slot.name == "func");
    if takes_one && let prim::Bound::Expr(func) = bound.get("func") {
        Some(func)
    } else {
        None
    }
}

impl Scope for GraphScope<'_> {
    fn type_of(&mut self, expr: &Expr) -> Type {
        match &expr.kind {
            ExprKind::Name(name) => self.name(expr, name),
            ExprKind::Call { .. } => match expr.as_call() {
                Some((path, _)) => self.call(expr, &path),
                None => Type::Any,
            },
            ExprKind::Tuple { items, .. } | ExprKind::List(items) => {
                if items.is_empty() {
                    return Type::Void;
                }
                Type::Tuple(items.iter().map(|item| self.type_of(item)).collect())
            }
            ExprKind::Index { value, index } => self.index(expr, value, index),
            ExprKind::Binary { lhs, rhs, .. } => self.infix(expr, &[lhs, rhs]),
            ExprKind::Unary { value, .. } => self.infix(expr, &[value]),
            ExprKind::Attr { name, .. } => match expr.as_path() {
                Some(path) if path.starts_with("cls.") || path.starts_with("Module.") => {
                    match self.signatures.get(name) {
                        Some(signature) => {
                            let params = signature
                                .params
                                .iter()
                                .map(|param| param.1.clone())
                                .collect();
                            Type::Func(params, Box::new(signature.ret.clone().unwrap_or(Type::Any)))
                        }
                        None => self.unknown_function(expr, name),
                    }
                }
                _ => Type::Any,
            },
            ExprKind::Int(_) => Type::Scalar(DType::I64),
            ExprKind::Float(_) => Type::Scalar(DType::F32),
            ExprKind::Bool(_) => Type::Scalar(DType::Bool),
            ExprKind::Str(_) => Type::Str,
            ExprKind::None => Type::Void,
            ExprKind::Error => Type::Error,
            ExprKind::Ellipsis
            | ExprKind::Slice { .. }
            | ExprKind::Dict(_)
            | ExprKind::IfElse { .. }
            | ExprKind::ListComp { .. }
            | ExprKind::Starred(_) => self.report(
                Diagnostic::error(
                    "not-a-value",
                    "this has no meaning as a value of a graph function",
                )
                .at(expr.span, "here"),
            ),
        }
    }

    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn fresh(&mut self, base: &str) -> Dim {
        let mut at = 0;
        let mut name = Name::from(base);
        while !self.taken.insert(name.clone()) {
            at += 1;
            name = Name::from(format!("{base}_{at}"));
        }
        self.facts.set(name.clone(), SymbolFacts::default());
        self.facts.hide(name.clone());
        self.symbols.insert(name.clone());
        Dim::sym(name)
    }

    fn fresh_any_sign(&mut self, base: &str) -> Dim {
        let dim = self.fresh(base);
        if let Some(name) = dim.as_sym() {
            self.facts.set_any_sign(name);
        }
        dim
    }

    fn must_agree(&mut self, a: &Dim, b: &Dim) {
        self.facts.note_undecided(a, b);
    }

    fn annotation(&mut self, expr: &Expr) -> Result<Type, Diagnostic> {
        let ty = type_from_expr(expr)?;
        for symbol in symbols_of(&ty) {
            if !self.symbols.contains(&symbol)
                && !matches!(self.vars.get(&symbol), Some(Type::Scalar(_)))
            {
                // Said once.
                self.declare_symbol(&symbol);
                if self.broken {
                    continue;
                }
                return Err(Diagnostic::error(
                    "unknown-symbol",
                    format!("extent `{symbol}` is not declared"),
                )
                .at(expr.span, "used here")
                .help(format!("declare it before: `{symbol} = T.int64()`"), None));
            }
        }
        Ok(ty)
    }

    fn constant(&self, expr: &Expr) -> Option<Tensor> {
        let (_, args) = self.constants.get(expr.as_name()?)?.as_call()?;
        parse_const(args).ok()
    }
}
