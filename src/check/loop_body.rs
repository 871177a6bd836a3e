//! Makes the body of a loop a function: what goes round gets a type that holds for every iteration, and names of the
//! caller that the body reads become parameters.
//!
//! The symbols of the caller keep their names inside the body, so its types read alike on both sides. An extent that
//! an iteration may change is a symbol of its own, in the body and, for the value at the end, in the caller.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::{
    Arg, DType, Expr, ExprKind, Func, FuncKind, Name, Param, Stmt, StmtKind, Visit, visit,
};

use super::annotation::type_to_expr;
use super::expand::symbols_of;
use super::prim::{Scope, element_type, join_elements};
use super::types::{TensorType, Type};
use crate::shape::{Dim, Facts};

/// A body before it is a function.
pub struct Body {
    /// The function's name.
    pub name: Name,
    /// The iteration and the carried values, with their types.
    pub params: Vec<(Name, Type)>,
    /// Its statements.
    pub stmts: Vec<Stmt>,
    /// What it gives, with types.
    pub results: Vec<(Expr, Type)>,
}

/// The type of what is carried from the first iteration on: without content.
pub fn carried_type(ty: &Type) -> Type {
    match ty {
        Type::Tensor(tensor) => Type::Tensor(TensorType {
            value: None,
            ..tensor.clone()
        }),
        Type::Scalar(_) => element_type(ty),
        other => element_type(other),
    }
}

/// The type of a carried value that may also be what an iteration gives; `None` where it is that already. `fresh` makes
/// a symbol for an axis; `Err` says why no type holds both.
pub fn widen(
    held: &Type,
    given: &Type,
    facts: &Facts,
    widened: &BTreeSet<Name>,
    fresh: &mut dyn FnMut(usize) -> Dim,
) -> Result<Option<Type>, String> {
    let (Type::Tensor(a), Type::Tensor(b)) = (held, &carried_type(given)) else {
        let joined = join_elements(&element_type(held), &element_type(given));
        return match joined {
            Type::Any if *held != Type::Any => Err(format!(
                "{held} goes into an iteration, and {given} comes out"
            )),
            joined => Ok((joined != *held).then_some(joined)),
        };
    };
    if a.dtype != b.dtype && b.dtype.is_some() {
        return Err(format!(
            "{held} goes into an iteration, and {given} comes out"
        ));
    }
    let (Some(left), Some(right)) = (&a.shape, &b.shape) else {
        let ndim = a.ndim.filter(|rank| b.ndim == Some(*rank));
        let loose = Type::Tensor(TensorType {
            dtype: a.dtype,
            ndim,
            ..TensorType::default()
        });
        return Ok((loose != *held).then_some(loose));
    };
    if left.len() != right.len() {
        return Ok(Some(Type::Tensor(TensorType {
            dtype: a.dtype,
            ..TensorType::default()
        })));
    }
    let mut changed = false;
    let mut dims = Vec::with_capacity(left.len());
    for (axis, (l, r)) in left.iter().zip(right).enumerate() {
        let is_open = l.as_sym().is_some_and(|name| widened.contains(name));
        if is_open || l == r || facts.prove_eq(l, r) == Some(true) {
            dims.push(l.clone());
        } else {
            changed = true;
            dims.push(fresh(axis));
        }
    }
    Ok(changed.then(|| {
        Type::Tensor(TensorType {
            shape: Some(dims),
            ..a.clone()
        })
    }))
}

/// A loop as text: the function that its body is, its call, and the types of its results.
pub struct Loop {
    /// The body.
    pub func: Func,
    /// `I.while_loop(cls.body, …)`
    pub call: Expr,
    /// The carried values, then the stacked ones.
    pub types: Vec<Type>,
    /// Symbols that the call binds.
    pub fresh: BTreeSet<Name>,
}

/// What a loop is called with.
pub struct Bounds {
    /// The number of iterations.
    pub trips: Option<Expr>,
    /// The same where it is an extent.
    pub count: Option<Dim>,
    /// The condition before the first iteration.
    pub condition: Option<Expr>,
    /// The first carried values.
    pub initial: Vec<Expr>,
    /// The types of what is carried, as the body takes it.
    pub carried: Vec<Type>,
    /// Symbols of the body alone.
    pub fresh: BTreeSet<Name>,
}

/// The loop of a body, in the scope of the caller; new symbols have names made from `base`.
///
/// # Errors
/// Why there is none, as a sentence.
pub fn make(body: Body, bounds: Bounds, base: &str, scope: &mut dyn Scope) -> Result<Loop, String> {
    let skip = usize::from(bounds.condition.is_some());
    let exact = bounds.count.filter(|count| {
        bounds.condition.is_none() && scope.facts().prove_le(&Dim::int(0), count) == Some(true)
    });
    let mut types = bounds.carried;
    let inner = bounds.fresh;
    let mut symbols: BTreeSet<Name> = types.iter().flat_map(symbols_of).collect();
    symbols.retain(|symbol| inner.contains(symbol));
    let mut new_dim = |what: &str| {
        let dim = scope.fresh(&format!("{base}_{what}"));
        symbols.extend(dim.as_sym().cloned());
        dim
    };
    let mut length = exact;
    for (_, row) in body.results.iter().skip(skip + types.len()) {
        let Type::Tensor(TensorType {
            dtype,
            shape: Some(dims),
            ..
        }) = row
        else {
            return Err(format!("a stacked result has rows of one shape, not {row}"));
        };
        let count = length.get_or_insert_with(|| new_dim("n")).clone();
        let mut rows = vec![count];
        for dim in dims {
            // A symbol of the body means another number in every iteration; only that of the rows is the same.
            let is_inner = dim.symbols().iter().any(|symbol| inner.contains(symbol));
            rows.push(if is_inner {
                new_dim("row")
            } else {
                dim.clone()
            });
        }
        let dims = rows;
        types.push(Type::Tensor(TensorType {
            dtype: *dtype,
            ndim: Some(dims.len()),
            shape: Some(dims),
            value: None,
        }));
    }
    let (func, captured) = close(body, &mut |name| scope.type_of(&Expr::name(name)));
    let call = Expr::call(
        "I.while_loop",
        [
            Expr::path(&format!("cls.{}", func.name)),
            bounds.trips.unwrap_or_else(Expr::none),
            bounds.condition.unwrap_or_else(Expr::none),
            Expr::tuple(bounds.initial),
            Expr::tuple(captured),
        ],
    )
    .with("out_ty", Expr::list(types.iter().map(type_to_expr)));
    Ok(Loop {
        func,
        call,
        types,
        fresh: symbols,
    })
}

/// The function of a body, and what a call passes after the carried values. `type_of` gives the type of a name of the
/// caller; a scalar is taken for a symbol.
fn close(body: Body, type_of: &mut dyn FnMut(&Name) -> Type) -> (Func, Vec<Expr>) {
    let Body {
        name,
        mut params,
        stmts,
        results,
    } = body;
    let mut names = Names::default();
    for (param, _) in &params {
        names.bound.insert(param.clone());
    }
    stmts.iter().for_each(|stmt| names.visit_stmt(stmt));
    results.iter().for_each(|(expr, _)| names.visit_expr(expr));
    let mut captured = Vec::new();
    let mut symbols = BTreeSet::new();
    for read in std::mem::take(&mut names.read) {
        if names.bound.contains(&read) {
            continue;
        }
        match type_of(&read) {
            Type::Scalar(dtype) if dtype.is_int() => {
                symbols.insert(read);
            }
            ty => {
                captured.push(Expr::name(&read));
                params.push((read, captured_type(&ty)));
            }
        }
    }
    for (_, ty) in &params {
        symbols.extend(symbols_of(ty));
    }
    for (_, ty) in &results {
        symbols.extend(symbols_of(ty));
    }
    let plain: BTreeSet<Name> = params
        .iter()
        .flat_map(|(_, ty)| plain_symbols(ty))
        .collect();
    let head: Vec<Stmt> = plain
        .iter()
        .filter(|symbol| !names.bound.contains(*symbol))
        .map(|symbol| Stmt::bind(symbol, Expr::call("T.int64", [])))
        .collect();
    for symbol in symbols {
        if !plain.contains(&symbol) && !names.bound.contains(&symbol) {
            captured.push(Expr::name(&symbol));
            params.push((symbol, Type::Scalar(DType::I64)));
        }
    }
    let mut func = Func::new(FuncKind::Graph, name);
    func.decorator.push(Arg {
        name: Some(Name::from("private")),
        value: Expr::bool(true),
    });
    func.params = params
        .iter()
        .map(|(name, ty)| Param::new(name, type_to_expr(ty)))
        .collect();
    let (mut values, mut types): (Vec<Expr>, Vec<Type>) = results.into_iter().unzip();
    let (value, ty) = match (values.len(), types.len()) {
        (1, 1) => (values.remove(0), types.remove(0)),
        _ => (Expr::tuple(values), Type::Tuple(types)),
    };
    func.ret = Some(type_to_expr(&ty));
    func.body = head;
    func.body.extend(stmts);
    func.body.push(Stmt::ret(value));
    (func, captured)
}

/// The type of a captured value: a sequence or tuple without symbols, a tensor without content.
fn captured_type(ty: &Type) -> Type {
    match ty {
        Type::Tensor(_) => carried_type(ty),
        Type::Seq(_) | Type::Opt(_) => element_type(ty),
        Type::Tuple(members) => Type::Tuple(members.iter().map(captured_type).collect()),
        other => other.clone(),
    }
}

/// Symbols that an extent of the type is.
fn plain_symbols(ty: &Type) -> Vec<Name> {
    match ty {
        Type::Tensor(tensor) => {
            let dims = tensor.shape.iter().flatten();
            dims.filter_map(|dim| dim.as_sym().cloned()).collect()
        }
        Type::Shape(Some(dims)) => dims
            .iter()
            .filter_map(|dim| dim.as_sym().cloned())
            .collect(),
        Type::Tuple(members) => members.iter().flat_map(plain_symbols).collect(),
        _ => Vec::new(),
    }
}

/// Names that statements bind, and those that they read, in order.
#[derive(Default)]
struct Names {
    bound: BTreeSet<Name>,
    read: Vec<Name>,
}

impl Visit for Names {
    fn visit_stmt(&mut self, stmt: &Stmt) {
        if let StmtKind::Assign { target, ty, value } = &stmt.kind {
            ty.iter().for_each(|ty| self.visit_expr(ty));
            self.visit_expr(value);
            let items = std::slice::from_ref(target);
            for item in target.as_items().unwrap_or(items) {
                self.bound.extend(item.as_name().cloned());
            }
            return;
        }
        visit::walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Name(name) if !self.read.contains(name) => self.read.push(name.clone()),
            // `R.add`, `cls.f`: names of operators and functions.
            ExprKind::Attr { .. } if expr.as_path().is_some() => {}
            _ => visit::walk_expr(self, expr),
        }
    }
}

/// Gives the functions that loops call other names, in statements and in the functions themselves.
pub fn rename_funcs(stmts: &mut [Stmt], map: &BTreeMap<Name, Name>) {
    struct Rename<'m>(&'m BTreeMap<Name, Name>);
    impl irc_syntax::VisitMut for Rename<'_> {
        fn visit_expr(&mut self, expr: &mut Expr) {
            if let ExprKind::Attr { value, name } = &mut expr.kind
                && value.as_name().is_some_and(|head| **head == *"cls")
                && let Some(new) = self.0.get(name)
            {
                *name = new.clone();
                return;
            }
            visit::walk_expr_mut(self, expr);
        }
    }
    let mut rename = Rename(map);
    for stmt in stmts {
        irc_syntax::VisitMut::visit_stmt(&mut rename, stmt);
    }
}
