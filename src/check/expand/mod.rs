//! The template evaluator: what a call of a library function comes to.
//!
//! A template is evaluated with the caller's arguments. What is known without tensor values (attributes, ranks,
//! dtypes, dims and arithmetic of these) is computed; calls of primitives are emitted as bindings, one operator a
//! binding, with names made from the name of the result and the template's own variables: `y_exp`. Dims are
//! compared by proof; a comparison that cannot be decided is a fault unless `I.prove` asks for it.
//!
//!     y = R.nn.softmax(x, axis=-1)        y_m = R.max(x, axis=[-1], keepdims=True)
//!                                    →    y_subtract = R.subtract(x, y_m)
//!                                         y_e = R.exp(y_subtract)
//!                                         y_sum = R.sum(y_e, axis=[-1], keepdims=True)
//!                                         y = R.divide(y_e, y_sum)
//!
//! Extents that are known at run time only become symbols that an emitted `R.match_cast` binds, after their
//! declaration `n = T.int64()`.

mod arith;
mod builtin;
mod call;
mod emit;
mod eval;
mod loops;
mod stmt;
mod user;
mod value;

use std::collections::BTreeMap;

use irc_syntax::{
    Diagnostic, Expr, ExprKind, Name, NameSupply, Span, Stmt, StmtKind, VisitMut, visit,
};

use super::prim::{self, Prim, Scope};
use super::types::Type;
use crate::library::{Library, Template};
use crate::shape::{Dim, Facts};

pub(crate) use call::{is_operator_of_onnx, unknown_operator};
pub use value::Value;

/// How far a call is expanded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Depth {
    /// Library functions that the template calls stay as calls, but for helpers (`std.…`).
    OneLevel,
    /// The same, and operators of ONNX stay calls that name their version.
    Onnx,
    /// Down to primitives.
    Full,
}

/// What a call comes to.
#[derive(Clone, Debug)]
pub struct Expansion {
    /// Bindings in order, and declarations of symbols.
    pub stmts: Vec<Stmt>,
    /// The result: a name, a constant, a shape, or a tuple of these.
    pub result: Expr,
    /// The type of the result.
    pub ty: Type,
    /// The type of every name that `stmts` binds.
    pub types: BTreeMap<Name, Type>,
    /// The bodies of its loops: functions that the module needs.
    pub funcs: Vec<irc_syntax::Func>,
}

impl Expansion {
    /// The same with the result bound to a name of the caller's, by renaming the last binding where that is what
    /// the result is.
    pub fn bind_to(mut self, target: &Name) -> Self {
        if let Some(name) = self.result.as_name().cloned()
            && self.types.contains_key(&name)
        {
            let mut rename = Rename {
                from: name.clone(),
                to: target.clone(),
            };
            rename.visit_body(&mut self.stmts);
            if let Some(ty) = self.types.remove(&name) {
                self.types.insert(target.clone(), ty);
            }
            self.result = Expr::name(target);
            return self;
        }
        let result = std::mem::replace(&mut self.result, Expr::name(target));
        let span = self.stmts.last().and_then(|stmt| stmt.span);
        self.stmts.push(Stmt::bind(target, result).at(span));
        self.types.insert(target.clone(), self.ty.clone());
        self
    }
}

struct Rename {
    from: Name,
    to: Name,
}

impl VisitMut for Rename {
    fn visit_expr(&mut self, expr: &mut Expr) {
        if let ExprKind::Name(name) = &mut expr.kind
            && *name == self.from
        {
            *name = self.to.clone();
        }
        visit::walk_expr_mut(self, expr);
    }
}

/// Expands calls of library functions, and remembers their types.
pub struct Expander<'a> {
    lib: &'a Library,
    memo: BTreeMap<String, Type>,
}

/// Evaluation steps that one call may take, and those for each member of a list among its arguments.
const STEPS: u64 = 4_000_000;
const MEMBER_STEPS: u64 = 1024;
/// Calls of library functions inside one another.
const DEPTH: u32 = 48;

impl<'a> Expander<'a> {
    /// An expander over a library.
    pub fn new(lib: &'a Library) -> Self {
        Self {
            lib,
            memo: BTreeMap::new(),
        }
    }

    /// The library.
    pub fn library(&self) -> &'a Library {
        self.lib
    }

    /// What a call of a library function comes to. Names are made from `base`.
    pub fn expand(
        &mut self,
        call: &Expr,
        base: &str,
        depth: Depth,
        scope: &mut dyn Scope,
        names: &mut NameSupply,
    ) -> Result<Expansion, Diagnostic> {
        let mut machine = Machine::new(self, depth, scope, names, base, call.span);
        let (template, args) = machine.user_call(call).map_err(|fault| *fault)?;
        machine.allow(&args);
        let result = machine
            .call_template(template, args)
            .map_err(|fault| at_call(*fault, call))?;
        machine.finish(result)
    }

    /// What a library function comes to for arguments given as values.
    pub fn expand_values(
        &mut self,
        template: Template<'a>,
        args: Vec<Value>,
        base: &str,
        depth: Depth,
        scope: &mut dyn Scope,
        names: &mut NameSupply,
    ) -> Result<Expansion, Diagnostic> {
        let mut machine = Machine::new(self, depth, scope, names, base, None);
        let args = args.into_iter().map(|value| (None, value)).collect();
        let result = machine
            .call_template(template, args)
            .map_err(|fault| *fault)?;
        machine.finish(result)
    }

    /// The type of a call of a library function.
    pub fn type_of_call(&mut self, call: &Expr, scope: &mut dyn Scope) -> Result<Type, Diagnostic> {
        let mut names = NameSupply::new();
        let mut machine = Machine::new(self, Depth::Full, scope, &mut names, "lv", call.span);
        let (template, args) = machine.user_call(call).map_err(|fault| *fault)?;
        if args.iter().any(|(_, value)| value.is_error()) {
            return Ok(Type::Error);
        }
        machine.allow(&args);
        machine
            .type_of_template(template, args)
            .map_err(|fault| at_call(*fault, call))
    }
}

/// Puts a fault of a template at the place of the call.
fn at_call(fault: Diagnostic, call: &Expr) -> Diagnostic {
    match &fault.primary {
        Some(_) => fault,
        None => fault.at(call.span, "in this call"),
    }
}

pub(super) type Fault = Box<Diagnostic>;
pub(super) type Eval<T = Value> = Result<T, Fault>;

/// The state of one expansion.
pub(super) struct Machine<'m, 'a> {
    lib: &'a Library,
    memo: &'m mut BTreeMap<String, Type>,
    depth: Depth,
    scope: &'m mut dyn Scope,
    names: &'m mut NameSupply,
    base: String,
    /// The place of the user's call; everything emitted carries it.
    span: Option<Span>,
    stmts: Vec<Stmt>,
    types: BTreeMap<Name, Type>,
    /// Bodies of loops.
    funcs: Vec<irc_syntax::Func>,
    steps: u64,
    max_steps: u64,
    calls: u32,
    /// Symbols made so far; a result that holds one is of this call alone.
    fresh: Vec<Name>,
    /// Whether the result depends on a constant that the key of the memo does not show.
    tainted: bool,
}

/// The variables of one template call.
pub(super) struct Frame<'a> {
    pub(super) vars: BTreeMap<Name, Value>,
    pub(super) defs: BTreeMap<Name, &'a irc_syntax::Func>,
    pub(super) template: Option<Template<'a>>,
    /// What emitted names start with.
    pub(super) prefix: String,
}

impl<'m, 'a> Machine<'m, 'a> {
    fn new(
        expander: &'m mut Expander<'a>,
        depth: Depth,
        scope: &'m mut dyn Scope,
        names: &'m mut NameSupply,
        base: &str,
        span: Option<Span>,
    ) -> Self {
        Self {
            lib: expander.lib,
            memo: &mut expander.memo,
            depth,
            scope,
            names,
            base: base.to_string(),
            span,
            stmts: Vec::new(),
            types: BTreeMap::new(),
            funcs: Vec::new(),
            steps: 0,
            max_steps: STEPS,
            calls: 0,
            fresh: Vec::new(),
            tainted: false,
        }
    }

    fn finish(mut self, result: Value) -> Result<Expansion, Diagnostic> {
        let (result, ty) = self.as_result(result).map_err(|fault| *fault)?;
        Ok(Expansion {
            stmts: self.stmts,
            result,
            ty,
            types: self.types,
            funcs: self.funcs,
        })
    }

    /// A value as the result of a call: its expression and type.
    fn as_result(&mut self, value: Value) -> Eval<(Expr, Type)> {
        match value {
            Value::Expr(expr, ty) => Ok((expr, ty)),
            Value::Tuple(items) | Value::List(items) => {
                let (mut exprs, mut types) = (Vec::new(), Vec::new());
                for item in items {
                    let (expr, ty) = self.as_result(item)?;
                    exprs.push(expr);
                    types.push(ty);
                }
                Ok((Expr::tuple(exprs).at(self.span), Type::Tuple(types)))
            }
            Value::Shape(dims) => {
                let expr = Expr::call("R.shape", [Expr::list(dims.iter().map(Dim::to_expr))]);
                Ok((expr.at(self.span), Type::Shape(Some(dims))))
            }
            Value::None => Ok((Expr::none(), Type::Void)),
            other => Err(Box::new(Diagnostic::error(
                "template-result",
                format!(
                    "a library function returns tensors, not {}",
                    other.describe()
                ),
            ))),
        }
    }

    /// A scope that also knows the names emitted so far.
    pub(super) fn inner(&mut self) -> Inner<'_> {
        Inner {
            scope: &mut *self.scope,
            types: &self.types,
            fresh: &mut self.fresh,
            names: &mut *self.names,
        }
    }

    pub(super) fn type_of(&mut self, expr: &Expr) -> Type {
        self.inner().type_of(expr)
    }

    pub(super) fn facts(&self) -> &Facts {
        self.scope.facts()
    }

    /// Long lists take long: ensembles of trees, say.
    fn allow(&mut self, args: &[(Option<Name>, Value)]) {
        let members = args.iter().map(|(_, value)| match value {
            Value::List(items) | Value::Tuple(items) => items.len() as u64,
            _ => 0,
        });
        self.max_steps = STEPS.saturating_add(MEMBER_STEPS.saturating_mul(members.sum()));
    }

    pub(super) fn step(&mut self) -> Eval<()> {
        self.steps += 1;
        if self.steps > self.max_steps {
            let message = "this call takes too many steps to expand".to_string();
            return Err(Box::new(Diagnostic::error("template-steps", message)));
        }
        Ok(())
    }

    /// Emits a binding and gives its name as a value. Symbols born in `ty` are bound by a cast.
    pub(super) fn emit(
        &mut self,
        frame: &Frame<'_>,
        hint: &str,
        expr: Expr,
        ty: Type,
        born: usize,
    ) -> Value {
        let base = if hint.is_empty() {
            frame.prefix.clone()
        } else {
            format!("{}_{hint}", frame.prefix)
        };
        let value = self.bind(&base, expr, ty.clone());
        if self.fresh.len() == born {
            return value;
        }
        match (value, ty) {
            (Value::Expr(whole, _), Type::Tuple(members)) => {
                let mut items = Vec::with_capacity(members.len());
                for (at, member) in members.into_iter().enumerate() {
                    let part = Expr::index(whole.clone(), [Expr::int(at as i128)]).at(self.span);
                    let part = self.bind(&format!("{base}_{at}"), part, member.clone());
                    items.push(self.cast_fresh(&base, part, member, born));
                }
                Value::Tuple(items)
            }
            (value, ty) => self.cast_fresh(&base, value, ty, born),
        }
    }

    fn cast_fresh(&mut self, base: &str, value: Value, ty: Type, born: usize) -> Value {
        let symbols = symbols_of(&ty);
        let new: Vec<Name> = self
            .fresh
            .iter()
            .skip(born)
            .filter(|name| symbols.contains(*name))
            .cloned()
            .collect();
        let Value::Expr(expr, _) = &value else {
            return value;
        };
        if new.is_empty() {
            return value;
        }
        for name in &new {
            self.declare(name);
        }
        let cast =
            Expr::call("R.match_cast", [expr.clone(), super::type_to_expr(&ty)]).at(self.span);
        self.bind(base, cast, ty)
    }

    /// `n = T.int64()`, once for each symbol.
    pub(super) fn declare(&mut self, name: &Name) {
        let declared = |stmt: &Stmt| matches!(&stmt.kind, StmtKind::Assign { target, .. } if target.as_name() == Some(name));
        if !self.stmts.iter().any(declared) {
            let value = Expr::call("T.int64", []).at(self.span);
            self.stmts.push(Stmt::bind(name, value).at(self.span));
        }
    }

    pub(super) fn bind(&mut self, base: &str, expr: Expr, ty: Type) -> Value {
        let name = self.names.fresh(base);
        self.stmts.push(Stmt::bind(&name, expr).at(self.span));
        self.types.insert(name.clone(), ty.clone());
        Value::Expr(Expr::name(&name).at(self.span), ty)
    }
}

/// The symbols in a type.
pub fn symbols_of(ty: &Type) -> std::collections::BTreeSet<Name> {
    let of = |dims: &Option<Vec<Dim>>| dims.iter().flatten().flat_map(Dim::symbols).collect();
    match ty {
        Type::Tensor(tensor) => of(&tensor.shape),
        Type::Shape(dims) => of(dims),
        Type::Tuple(members) => members.iter().flat_map(symbols_of).collect(),
        Type::Seq(inner) | Type::Opt(inner) => symbols_of(inner),
        Type::Func(params, ret) => params.iter().chain([&**ret]).flat_map(symbols_of).collect(),
        Type::Scalar(_) | Type::Str | Type::DTypeValue | Type::Any | Type::Void | Type::Error => {
            std::collections::BTreeSet::new()
        }
    }
}

/// The caller's scope with the emitted names.
pub(super) struct Inner<'s> {
    scope: &'s mut dyn Scope,
    types: &'s BTreeMap<Name, Type>,
    fresh: &'s mut Vec<Name>,
    names: &'s mut NameSupply,
}

impl Inner<'_> {
    /// A new symbol of the scope, by a name that no binding of the expansion has or will have.
    fn note(&mut self, base: &str, make: fn(&mut dyn Scope, &str) -> Dim) -> Dim {
        loop {
            let dim = make(&mut *self.scope, base);
            let Some(name) = dim.as_sym() else {
                return dim;
            };
            if self.names.is_taken(name) {
                continue;
            }
            self.names.take(name);
            self.fresh.push(name.clone());
            return dim;
        }
    }
}

impl Scope for Inner<'_> {
    fn type_of(&mut self, expr: &Expr) -> Type {
        match &expr.kind {
            ExprKind::Name(name) => match self.types.get(name) {
                Some(ty) => ty.clone(),
                None => self.scope.type_of(expr),
            },
            ExprKind::Index { value, index } => match (self.type_of(value), index.as_slice()) {
                (Type::Tuple(members), [at]) => {
                    let at = at.as_int().and_then(|at| usize::try_from(at).ok());
                    at.and_then(|at| members.get(at).cloned())
                        .unwrap_or(Type::Any)
                }
                _ => Type::Any,
            },
            ExprKind::Call { .. } => match expr.as_call().and_then(|(path, _)| Prim::find(&path)) {
                Some(found @ (Prim::Const | Prim::Shape)) => prim::bind(found, expr)
                    .and_then(|call| prim::infer(&call, self))
                    .unwrap_or(Type::Error),
                _ => self.scope.type_of(expr),
            },
            _ => self.scope.type_of(expr),
        }
    }

    fn facts(&self) -> &Facts {
        self.scope.facts()
    }

    fn assume_equal(&mut self, a: &Dim, b: &Dim) {
        self.scope.assume_equal(a, b);
    }

    fn fresh(&mut self, base: &str) -> Dim {
        self.note(base, |scope, base| scope.fresh(base))
    }

    fn fresh_any_sign(&mut self, base: &str) -> Dim {
        self.note(base, |scope, base| scope.fresh_any_sign(base))
    }

    fn annotation(&mut self, expr: &Expr) -> Result<Type, Diagnostic> {
        self.scope.annotation(expr)
    }

    fn constant(&self, expr: &Expr) -> Option<crate::tensor::Tensor> {
        self.scope.constant(expr)
    }
}
