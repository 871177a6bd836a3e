//! Runs `@R.function`s, statement by statement.
//!
//! A primitive goes to its kernel, `R.call_tir` to the interpreter of loops, a call of another function to itself. A
//! library operator is expanded for the operands at hand: their extents, and their contents where a template asks, are
//! numbers here, so what a template does for values known early is tested against what it does for late ones.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::rc::Rc;

use irc_syntax::uses::bound_names;
use irc_syntax::{
    Arg, DType, Diagnostic, Expr, ExprKind, Func, FuncKind, Module, Name, NameSupply, Span, Stmt,
    StmtKind, UnaryOp,
};

use super::{RunError, Value, eval_prim, run_prim_func};
use crate::check::expand::{Depth, Expander};
use crate::check::prim::{self, Bound, BoundCall, Prim, Scope};
use crate::check::{TensorType, Type, type_from_expr};
use crate::library::Library;
use crate::shape::{Dim, Facts};
use crate::tensor::Tensor;

/// How deep functions may call each other.
const MAX_CALLS: usize = 200;
/// Integer tensors of up to this many elements are known by content to templates.
const MAX_CONTENT: usize = 64;

/// Runs a function of a module: a graph function, or a prim_func, whose results are the arguments it wrote.
///
/// # Errors
/// What stops the run: an operand that does not fit, an index out of range, an operator without a meaning.
pub fn run_func(
    module: &Module,
    lib: &Library,
    name: &str,
    args: Vec<Value>,
) -> Result<Value, RunError> {
    run_watched(module, lib, name, args, None)
}

/// Is told of every name that the called function itself binds, in order: the statement, the name, its value.
pub type Watch<'w> = &'w mut dyn FnMut(&Stmt, &Name, &Value);

/// [`run_func`] under the eyes of a watch. Branches are the function's own; library operators, functions that it calls and
/// bodies of loops are not.
///
/// # Errors
/// As [`run_func`]; the watch has been told of what was bound before.
pub fn run_watched<'a>(
    module: &'a Module,
    lib: &'a Library,
    name: &str,
    args: Vec<Value>,
    watch: Option<Watch<'a>>,
) -> Result<Value, RunError> {
    let mut run = Run {
        module,
        made: BTreeMap::new(),
        expander: Expander::new(lib),
        n_calls: 0,
        n_expansions: 0,
        watch,
    };
    let Some(func) = module.find_func(name) else {
        return Err(RunError::value_error(format!(
            "there is no function `{name}`"
        )));
    };
    run.call(func, args)
}

pub(super) struct Run<'a> {
    module: &'a Module,
    /// Bodies of loops of the library operators that are running.
    made: BTreeMap<Name, Rc<Func>>,
    expander: Expander<'a>,
    n_calls: usize,
    /// How many expansions of library operators are running, one inside the other.
    n_expansions: usize,
    watch: Option<Watch<'a>>,
}

/// A function that is called: of the module, or made by an expansion.
pub(super) enum Callee<'a> {
    OfModule(&'a Func),
    Made(Rc<Func>),
}

impl Deref for Callee<'_> {
    type Target = Func;
    fn deref(&self) -> &Func {
        match self {
            Self::OfModule(func) => func,
            Self::Made(func) => func,
        }
    }
}

/// The variables of one call.
pub(super) struct Frame {
    vars: BTreeMap<Name, Value>,
    symbols: BTreeMap<Name, i64>,
    names: NameSupply,
    /// Symbols made while expanding, so that each has a name of its own.
    n_fresh: usize,
}

impl Frame {
    fn symbol(&self, name: &Name) -> Option<i64> {
        self.symbols.get(name).copied()
    }

    pub(super) fn dim(&self, dim: &Dim) -> Option<i64> {
        dim.eval(&|name| self.symbol(name))
    }

    /// Binds the symbols of a type to the extents of a value, and checks the others.
    pub(super) fn bind_type(
        &mut self,
        ty: &Type,
        value: &Value,
        what: &str,
    ) -> Result<(), RunError> {
        let (dims, extents): (&[Dim], Vec<i64>) = match (ty, value) {
            (Type::Tensor(ty), Value::Tensor(tensor)) => {
                if ty.dtype.is_some_and(|dtype| dtype != tensor.dtype) {
                    let message = format!("{what} is of dtype {}, not {ty}", tensor.dtype);
                    return Err(RunError::type_error(message));
                }
                if ty.ndim.is_some_and(|ndim| ndim != tensor.shape.len()) {
                    let message = format!("{what} has the shape {:?}, not {ty}", tensor.shape);
                    return Err(RunError::value_error(message));
                }
                let extents = tensor.shape.iter().map(|extent| *extent as i64).collect();
                (ty.shape.as_deref().unwrap_or_default(), extents)
            }
            (Type::Shape(Some(dims)), Value::Shape(extents)) => (dims, extents.clone()),
            (Type::Tuple(members), _) => {
                let items = value.as_items().unwrap_or_default();
                if members.len() != items.len() {
                    let message =
                        format!("{what} has {} members, not {}", items.len(), members.len());
                    return Err(RunError::type_error(message));
                }
                for (member, item) in members.iter().zip(items) {
                    self.bind_type(member, item, what)?;
                }
                return Ok(());
            }
            _ => return Ok(()),
        };
        // Plain symbols first: the others are made of them.
        for (dim, extent) in dims.iter().zip(&extents) {
            if let Some(name) = dim.as_sym()
                && !self.symbols.contains_key(name)
            {
                self.symbols.insert(name.clone(), *extent);
            }
        }
        for (dim, extent) in dims.iter().zip(&extents) {
            if self.dim(dim).is_some_and(|wanted| wanted != *extent) {
                let message = format!("{what} has an extent of {extent} where {dim} is wanted");
                return Err(RunError::value_error(message));
            }
        }
        Ok(())
    }
}

/// Where a block of statements ends.
enum Flow {
    Next,
    Return(Value),
}

impl<'a> Run<'a> {
    pub(super) fn call(&mut self, func: &Func, args: Vec<Value>) -> Result<Value, RunError> {
        self.n_calls += 1;
        if self.n_calls > MAX_CALLS {
            return Err(RunError::runtime_error(
                "functions call each other too deep",
            ));
        }
        let result = match func.kind {
            FuncKind::Graph => self.call_graph(func, args),
            FuncKind::Local => Err(RunError::runtime_error(
                "templates are not run by themselves",
            )),
            FuncKind::Loops => {
                let tensors: Vec<Tensor> = args
                    .iter()
                    .map(|arg| arg.to_tensor(None))
                    .collect::<Result<_, _>>()?;
                let tensors = run_prim_func(func, &tensors)?;
                Ok(Value::Tuple(
                    tensors.into_iter().map(Value::Tensor).collect(),
                ))
            }
        };
        self.n_calls -= 1;
        result
    }

    fn call_graph(&mut self, func: &Func, args: Vec<Value>) -> Result<Value, RunError> {
        if func.params.len() != args.len() {
            let message = format!(
                "`{}` takes {} arguments, not {}",
                func.name,
                func.params.len(),
                args.len()
            );
            return Err(RunError::type_error(message).at(func.name_span));
        }
        let mut frame = Frame {
            vars: BTreeMap::new(),
            symbols: BTreeMap::new(),
            names: NameSupply::of_func(func),
            n_fresh: 0,
        };
        for (param, arg) in func.params.iter().zip(args) {
            if let Some(ty) = &param.ty {
                let ty = type_from_expr(ty).map_err(fault)?;
                let what = format!("argument `{}`", param.name);
                frame
                    .bind_type(&ty, &arg, &what)
                    .map_err(|error| error.at(param.span))?;
                if let (Type::Scalar(_), Some(value)) = (&ty, arg.as_int()) {
                    frame.symbols.insert(param.name.clone(), value);
                }
            }
            frame.vars.insert(param.name.clone(), arg);
        }
        match self.block(&func.body, &mut frame)? {
            Flow::Return(value) => Ok(value),
            Flow::Next => Ok(Value::None),
        }
    }

    fn block(&mut self, body: &[Stmt], frame: &mut Frame) -> Result<Flow, RunError> {
        for stmt in body {
            let flow = self
                .stmt(stmt, frame)
                .map_err(|error| error.at(stmt.span))?;
            if let Flow::Return(value) = flow {
                return Ok(Flow::Return(value));
            }
        }
        Ok(Flow::Next)
    }

    fn stmt(&mut self, stmt: &Stmt, frame: &mut Frame) -> Result<Flow, RunError> {
        match &stmt.kind {
            StmtKind::Assign { target, value, .. } => {
                if !is_declaration(value) && !self.is_module(value) {
                    let base = target.as_name().map_or("lv", Name::as_str);
                    let value = self.eval(value, base, frame)?;
                    assign(target, value, frame)?;
                    self.tell(stmt, target, frame);
                }
            }
            StmtKind::Return(Some(expr)) => {
                return Ok(Flow::Return(self.eval(expr, "result", frame)?));
            }
            StmtKind::Return(None) => return Ok(Flow::Return(Value::None)),
            StmtKind::If {
                cond, then, orelse, ..
            } => {
                let cond = self.eval(cond, "cond", frame)?;
                let Some(cond) = cond.as_int() else {
                    return Err(RunError::type_error(format!(
                        "a condition cannot be {cond}"
                    )));
                };
                return self.block(if cond != 0 { then } else { orelse }, frame);
            }
            StmtKind::With { body, .. } => return self.block(body, frame),
            StmtKind::Expr(expr) => {
                let names_types = expr
                    .as_call()
                    .is_some_and(|(path, _)| path == "R.output" || path == "R.func_attr");
                if !names_types {
                    self.eval(expr, "lv", frame)?;
                }
            }
            StmtKind::Declare { .. } | StmtKind::Pass | StmtKind::Import(_) => {}
            StmtKind::Assert { .. }
            | StmtKind::For { .. }
            | StmtKind::While { .. }
            | StmtKind::Break
            | StmtKind::Continue
            | StmtKind::Func(_)
            | StmtKind::Error => {
                let message = "this statement has no meaning in a graph function";
                return Err(RunError::runtime_error(message));
            }
        }
        Ok(Flow::Next)
    }

    /// Tells the watch what a statement of the called function bound.
    fn tell(&mut self, stmt: &Stmt, target: &Expr, frame: &Frame) {
        if self.n_calls != 1 || self.n_expansions != 0 {
            return;
        }
        if let Some(watch) = &mut self.watch {
            for name in bound_names(target) {
                if let Some(value) = frame.vars.get(&name) {
                    watch(stmt, &name, value);
                }
            }
        }
    }

    /// `cls = Module`
    fn is_module(&self, expr: &Expr) -> bool {
        expr.as_name()
            .is_some_and(|name| self.module.name.as_ref() == Some(name))
    }

    pub(super) fn eval(
        &mut self,
        expr: &Expr,
        base: &str,
        frame: &mut Frame,
    ) -> Result<Value, RunError> {
        let value = match &expr.kind {
            ExprKind::Name(name) => match (frame.vars.get(name), frame.symbol(name)) {
                (Some(value), _) => Ok(value.clone()),
                (None, Some(value)) => Ok(Value::Int(value)),
                (None, None) => Err(RunError::runtime_error(format!("`{name}` has no value"))),
            },
            ExprKind::Int(value) => Ok(Value::Int(i64::try_from(*value).unwrap_or(i64::MAX))),
            ExprKind::Float(value) => Ok(Value::Float(*value)),
            ExprKind::Bool(value) => Ok(Value::Bool(*value)),
            ExprKind::Str(text) => Ok(Value::Str(text.clone())),
            ExprKind::None => Ok(Value::None),
            ExprKind::Tuple { items, .. } | ExprKind::List(items) => {
                let items = items.iter().map(|item| self.eval(item, base, frame));
                Ok(Value::Tuple(items.collect::<Result<_, _>>()?))
            }
            ExprKind::Index { value, index } => {
                let whole = self.eval(value, base, frame)?;
                let at = match index.as_slice() {
                    [at] => self.eval(at, base, frame)?.as_int(),
                    _ => None,
                };
                let item = at
                    .and_then(|at| usize::try_from(at).ok())
                    .and_then(|at| whole.as_items()?.get(at).cloned());
                item.ok_or_else(|| RunError::type_error(format!("{whole} has no such member")))
            }
            ExprKind::Binary { .. } | ExprKind::Unary { .. } => self.infix(expr, base, frame),
            ExprKind::Call { args, .. } => self.call_expr(expr, args, base, frame),
            ExprKind::Ellipsis
            | ExprKind::Attr { .. }
            | ExprKind::Slice { .. }
            | ExprKind::Dict(_)
            | ExprKind::IfElse { .. }
            | ExprKind::ListComp { .. }
            | ExprKind::Starred(_)
            | ExprKind::Error => Err(RunError::runtime_error(
                "this expression has no meaning in a graph function",
            )),
        };
        value.map_err(|error| error.at(expr.span))
    }

    /// Arithmetic of dims, or of tensors.
    fn infix(&mut self, expr: &Expr, base: &str, frame: &mut Frame) -> Result<Value, RunError> {
        if let Some(value) = Dim::from_expr(expr).ok().and_then(|dim| frame.dim(&dim)) {
            return Ok(Value::Int(value));
        }
        if let ExprKind::Unary {
            op: UnaryOp::Pos,
            value,
        } = &expr.kind
        {
            return self.eval(value, base, frame);
        }
        match prim::bind_infix(expr) {
            Some(call) => self.prim(&call, base, frame),
            None => Err(RunError::runtime_error("this operator has no meaning here")),
        }
    }

    fn call_expr(
        &mut self,
        expr: &Expr,
        args: &[Arg],
        base: &str,
        frame: &mut Frame,
    ) -> Result<Value, RunError> {
        let Some((path, _)) = expr.as_call() else {
            return Err(RunError::runtime_error("only names are called"));
        };
        if let Some(func) = self.callee(&path) {
            let values = args.iter().map(|arg| self.eval(&arg.value, base, frame));
            let values = values.collect::<Result<_, _>>()?;
            return self.call(&func, values);
        }
        if let Some(prim) = Prim::find(&path).filter(|_| !prim::is_library_form(&path, expr)) {
            let call = prim::bind(prim, expr).map_err(fault)?;
            return self.prim(&call, base, frame);
        }
        if matches!(path.as_str(), "T.max" | "T.min") {
            let dim = Dim::from_expr(expr).map_err(fault)?;
            return match frame.dim(&dim) {
                Some(value) => Ok(Value::Int(value)),
                None => Err(RunError::runtime_error(format!("{dim} has no value"))),
            };
        }
        if path == "R.tuple" {
            let items = args.iter().map(|arg| self.eval(&arg.value, base, frame));
            return Ok(Value::Tuple(items.collect::<Result<_, _>>()?));
        }
        if let (Some(dtype), [arg]) = (written_dtype(&path), args) {
            let number = self.eval(&arg.value, base, frame)?;
            return Ok(Value::Tensor(number.to_tensor(None)?.cast(dtype)?));
        }
        if matches!(path.as_str(), "R.prim_value" | "R.str" | "R.dtype")
            && let [arg] = args
        {
            return self.eval(&arg.value, base, frame);
        }
        self.library_call(expr, base, frame)
    }

    /// The function of the module that `cls.f` or `Module.f` names.
    pub(super) fn callee(&self, path: &str) -> Option<Callee<'a>> {
        let module = self.module;
        let (head, name) = path.split_once('.')?;
        let is_ours = head == "cls" || module.name.as_ref().is_some_and(|name| name == head);
        if !is_ours {
            return None;
        }
        let made = self.made.get(name).cloned().map(Callee::Made);
        made.or_else(|| module.find_func(name).map(Callee::OfModule))
    }

    fn prim(&mut self, call: &BoundCall, base: &str, frame: &mut Frame) -> Result<Value, RunError> {
        match call.prim {
            Prim::MatchCast => {
                let [operand] = call.operands()[..] else {
                    return Err(RunError::type_error("one value is cast"));
                };
                let value = self.eval(operand, base, frame)?;
                if let Bound::Expr(ty) = call.get("ty") {
                    let ty = type_from_expr(ty).map_err(fault)?;
                    frame.bind_type(&ty, &value, "the cast value")?;
                }
                Ok(value)
            }
            Prim::CallTir => self.call_tir(call, base, frame),
            Prim::WhileLoop => self.while_loop(call, base, frame),
            _ => {
                let mut operands = Vec::new();
                for operand in call.operands() {
                    operands.push(self.eval(operand, base, frame)?);
                }
                eval_prim(call, &operands, &|name| frame.symbol(name))
            }
        }
    }

    /// `R.call_tir(cls.f, (a, b), out_ty=…)`
    fn call_tir(
        &mut self,
        call: &BoundCall,
        base: &str,
        frame: &mut Frame,
    ) -> Result<Value, RunError> {
        let func = match call.get("func") {
            Bound::Expr(func) => func.as_path().and_then(|path| self.callee(&path)),
            _ => None,
        };
        let Some(func) = func else {
            return Err(RunError::runtime_error(
                "this prim_func is not in the module",
            ));
        };
        let mut args = Vec::new();
        for operand in call.operands() {
            match self.eval(operand, base, frame)? {
                Value::Tuple(items) => args.extend(items),
                // A shape stands for its dims, as scalars.
                Value::Shape(dims) => args.extend(dims.into_iter().map(Value::Int)),
                value => args.push(value),
            }
        }
        let mut tensors: Vec<Tensor> = args
            .iter()
            .map(|arg| arg.to_tensor(None))
            .collect::<Result<_, _>>()?;
        let (types, is_tuple) = out_types(call)?;
        for ty in &types {
            let known = ty.as_known_tensor().and_then(|(dtype, dims)| {
                let extents = dims
                    .iter()
                    .map(|dim| usize::try_from(frame.dim(dim)?).ok())
                    .collect::<Option<Vec<_>>>()?;
                Tensor::zeros(dtype, extents)
            });
            tensors.push(known.ok_or_else(|| {
                RunError::value_error(format!("a result of type {ty} cannot be made"))
            })?);
        }
        let inputs = func.params.iter().take(tensors.len() - types.len());
        // Scalars are not given back.
        let n_inputs = inputs.filter(|param| !is_scalar(param.ty.as_ref())).count();
        let buffers = run_prim_func(&func, &tensors)?;
        let mut results: Vec<Value> = buffers
            .into_iter()
            .skip(n_inputs)
            .map(Value::Tensor)
            .collect();
        match (results.len(), is_tuple) {
            (1, false) => Ok(results.remove(0)),
            _ => Ok(Value::Tuple(results)),
        }
    }

    /// A library operator: its expansion for these operands.
    fn library_call(
        &mut self,
        expr: &Expr,
        base: &str,
        frame: &mut Frame,
    ) -> Result<Value, RunError> {
        let call = self.settle(expr, base, frame)?;
        let mut names = std::mem::take(&mut frame.names);
        let mut scope = ValueScope {
            frame,
            facts: Facts::default(),
        };
        let expansion = self
            .expander
            .expand(&call, base, Depth::Full, &mut scope, &mut names);
        frame.names = names;
        let mut expansion = expansion.map_err(fault)?;
        self.n_expansions += 1;
        if expansion.funcs.is_empty() {
            self.block(&expansion.stmts, frame)?;
            let result = self.eval(&expansion.result, base, frame);
            self.n_expansions -= 1;
            return result;
        }
        // Names that no text can have, so that an expansion inside one of the bodies has its own.
        let depth = self.made.len();
        expansion.name_funcs(&mut |name| Name::from(format!("{name}@{depth}")));
        let outer = self.made.clone();
        let made = expansion.funcs.into_iter();
        self.made
            .extend(made.map(|func| (func.name.clone(), Rc::new(func))));
        let result = self
            .block(&expansion.stmts, frame)
            .and_then(|_| self.eval(&expansion.result, base, frame));
        self.made = outer;
        self.n_expansions -= 1;
        result
    }

    /// The call with operands that must be computed first bound to names.
    fn settle(&mut self, expr: &Expr, base: &str, frame: &mut Frame) -> Result<Expr, RunError> {
        let mut call = expr.clone();
        if let ExprKind::Call { args, .. } = &mut call.kind {
            for arg in args {
                self.settle_arg(&mut arg.value, base, frame)?;
            }
        }
        Ok(call)
    }

    fn settle_arg(
        &mut self,
        expr: &mut Expr,
        base: &str,
        frame: &mut Frame,
    ) -> Result<(), RunError> {
        match &mut expr.kind {
            ExprKind::Tuple { items, .. } | ExprKind::List(items) => {
                for item in items {
                    self.settle_arg(item, base, frame)?;
                }
                Ok(())
            }
            ExprKind::Call { .. }
            | ExprKind::Binary { .. }
            | ExprKind::Unary { .. }
            | ExprKind::Index { .. } => {
                if is_written(expr) || Dim::from_expr(expr).is_ok() {
                    return Ok(());
                }
                let value = self.eval(expr, base, frame)?;
                let name = frame.names.fresh(&format!("{base}_arg"));
                frame.vars.insert(name.clone(), value);
                *expr = Expr::name(&name).at(expr.span);
                Ok(())
            }
            ExprKind::Name(_)
            | ExprKind::Int(_)
            | ExprKind::Float(_)
            | ExprKind::Str(_)
            | ExprKind::Bool(_)
            | ExprKind::None
            | ExprKind::Ellipsis
            | ExprKind::Attr { .. }
            | ExprKind::Slice { .. }
            | ExprKind::Dict(_)
            | ExprKind::IfElse { .. }
            | ExprKind::ListComp { .. }
            | ExprKind::Starred(_)
            | ExprKind::Error => Ok(()),
        }
    }
}

/// `n = T.int64()`, which declares a symbol.
fn is_declaration(value: &Expr) -> bool {
    value.as_call().is_some_and(|(path, args)| {
        let is_dtype = written_dtype(&path).is_some();
        let has_value = args.iter().any(|arg| arg.name.is_none());
        (is_dtype && !has_value) || path == "TypeVar"
    })
}

/// The dtype of `T.int64`.
fn written_dtype(path: &str) -> Option<DType> {
    path.strip_prefix("T.").and_then(DType::from_name)
}

/// Calls that state a value rather than compute one.
fn is_written(expr: &Expr) -> bool {
    expr.as_call().is_some_and(|(path, _)| {
        matches!(
            path.as_str(),
            "R.const" | "R.shape" | "R.str" | "R.dtype" | "R.prim_value" | "R.null_value"
        ) || path.starts_with("T.")
    })
}

fn is_scalar(ty: Option<&Expr>) -> bool {
    ty.and_then(|ty| type_from_expr(ty).ok())
        .is_some_and(|ty| matches!(ty, Type::Scalar(_)))
}

fn assign(target: &Expr, value: Value, frame: &mut Frame) -> Result<(), RunError> {
    match &target.kind {
        ExprKind::Name(name) => {
            frame.vars.insert(name.clone(), value);
            Ok(())
        }
        ExprKind::Tuple { items, .. } => {
            let values = value.as_items().unwrap_or_default();
            if values.len() != items.len() {
                let message = format!("{value} cannot be taken apart into {}", items.len());
                return Err(RunError::type_error(message));
            }
            for (item, value) in items.iter().zip(values) {
                assign(item, value.clone(), frame)?;
            }
            Ok(())
        }
        _ => Err(RunError::runtime_error("only names are bound here")),
    }
}

/// The types of the results of a `call_tir`, and whether they were written as several.
pub(super) fn out_types(call: &BoundCall) -> Result<(Vec<Type>, bool), RunError> {
    let Bound::Expr(expr) = call.get("out_ty") else {
        return Err(RunError::type_error("`out_ty` is missing"));
    };
    if let ExprKind::List(items) | ExprKind::Tuple { items, .. } = &expr.kind {
        let types = items.iter().map(|item| type_from_expr(item).map_err(fault));
        let types = types.collect::<Result<Vec<_>, _>>()?;
        let is_tuple = types.len() != 1;
        return Ok((types, is_tuple));
    }
    match type_from_expr(expr).map_err(fault)? {
        Type::Tuple(types) => Ok((types, true)),
        ty => Ok((vec![ty], false)),
    }
}

pub(super) fn fault(fault: Diagnostic) -> RunError {
    let span: Option<Span> = fault.primary.as_ref().map(|label| label.span);
    RunError::runtime_error(fault.message).at(span)
}

/// The names of a frame as the expander sees them: everything is known.
struct ValueScope<'f> {
    frame: &'f mut Frame,
    facts: Facts,
}

impl Scope for ValueScope<'_> {
    fn type_of(&mut self, expr: &Expr) -> Type {
        match &expr.kind {
            // A name without a value is a symbol.
            ExprKind::Name(name) => match self.frame.vars.get(name) {
                Some(value) => type_of_value(value),
                None => Type::Scalar(DType::I64),
            },
            ExprKind::Int(_) | ExprKind::Binary { .. } | ExprKind::Unary { .. } => {
                Type::Scalar(DType::I64)
            }
            ExprKind::Float(_) => Type::Scalar(DType::F32),
            ExprKind::Bool(_) => Type::Scalar(DType::Bool),
            ExprKind::Str(_) => Type::Str,
            ExprKind::None => Type::Void,
            ExprKind::Tuple { items, .. } | ExprKind::List(items) => {
                Type::Tuple(items.iter().map(|item| self.type_of(item)).collect())
            }
            ExprKind::Index { value, index } => match (self.type_of(value), index.as_slice()) {
                (Type::Tuple(members), [at]) => at
                    .as_int()
                    .and_then(|at| usize::try_from(at).ok())
                    .and_then(|at| members.get(at).cloned())
                    .unwrap_or(Type::Any),
                _ => Type::Any,
            },
            ExprKind::Call { .. } => {
                let prim = expr.as_call().and_then(|(path, _)| Prim::find(&path));
                let call = prim.and_then(|prim| prim::bind(prim, expr).ok());
                match call {
                    Some(call) => prim::infer(&call, self).unwrap_or(Type::Any),
                    None => Type::Scalar(DType::I64),
                }
            }
            ExprKind::Ellipsis
            | ExprKind::Attr { .. }
            | ExprKind::Slice { .. }
            | ExprKind::Dict(_)
            | ExprKind::IfElse { .. }
            | ExprKind::ListComp { .. }
            | ExprKind::Starred(_)
            | ExprKind::Error => Type::Any,
        }
    }

    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn fresh(&mut self, base: &str) -> Dim {
        self.frame.n_fresh += 1;
        Dim::sym(format!("{base}__{}", self.frame.n_fresh))
    }

    fn fresh_any_sign(&mut self, base: &str) -> Dim {
        self.fresh(base)
    }

    fn constant(&self, expr: &Expr) -> Option<Tensor> {
        self.frame.vars.get(expr.as_name()?)?.as_tensor().cloned()
    }

    fn annotation(&mut self, expr: &Expr) -> Result<Type, Diagnostic> {
        type_from_expr(expr)
    }
}

/// The type of a value: every extent is a number.
fn type_of_value(value: &Value) -> Type {
    match value {
        Value::Tensor(tensor) => {
            let dims = tensor.shape.iter().map(|extent| Dim::int(*extent as i64));
            let is_content = tensor.shape.len() <= 1
                && tensor.len() <= MAX_CONTENT
                && (tensor.dtype.is_int() || tensor.dtype == DType::Bool);
            Type::Tensor(TensorType {
                value: is_content.then(|| tensor.to_i64s().into_iter().map(Dim::int).collect()),
                ..TensorType::new(tensor.dtype, dims.collect())
            })
        }
        Value::Tuple(items) => Type::Tuple(items.iter().map(type_of_value).collect()),
        Value::Seq(items) => {
            let types: Vec<Type> = items.iter().map(type_of_value).collect();
            Type::Seq(Box::new(prim::common_type(&types)))
        }
        Value::Shape(dims) => Type::Shape(Some(dims.iter().map(|dim| Dim::int(*dim)).collect())),
        Value::Int(_) => Type::Scalar(DType::I64),
        Value::Float(_) => Type::Scalar(DType::F32),
        Value::Bool(_) => Type::Scalar(DType::Bool),
        Value::Str(_) => Type::Str,
        Value::None => Type::Void,
    }
}
