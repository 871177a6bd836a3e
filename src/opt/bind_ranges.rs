//! Computes how long a range is whose bounds are tensors, and makes it from its positions.
//!
//!     y = R.arange(a, b, c, dtype="float32")      y_length = …  ceil((b - a) / c), at least 0, as int64
//!                                            →    y_shape = R.match_cast(R.tensor_to_shape(…), R.Shape([n]))
//!                                                 y_at = R.arange(0, n, 1, dtype="int64")
//!                                                 y = a + R.astype(y_at, "float32") * c
//!
//! The length is a symbol that the checker gave the result; here it gets its value. Lengths are computed in
//! float64, exact for integers below 2^53. Ranges between dims need no run-time length and stay.

use irc_syntax::names::NameSupply;
use irc_syntax::{DType, Expr, ExprKind, FuncKind, Module, Name, Stmt, StmtKind};

use super::{Changed, Pass, PassCx};
use crate::check::FuncInfo;
use crate::check::prim::{self, Prim};
use crate::check::stage::Level;

/// The pass.
pub const PASS: Pass = Pass {
    name: "bind_ranges",
    run,
    from: Level::Normal,
    to: Level::Normal,
    summary: "compute lengths of ranges between tensors",
    args: &[],
};

/// Runs the pass on every graph function.
pub fn run(module: &mut Module, cx: &mut PassCx) -> Changed {
    let mut changed = false;
    for func in module
        .funcs_mut()
        .filter(|func| func.kind == FuncKind::Graph)
    {
        let info = cx.info.funcs.get(&func.name).cloned().unwrap_or_default();
        let mut names = NameSupply::of_func(func);
        let body = std::mem::take(&mut func.body);
        func.body = bind_in(body, &info, &mut names, &mut changed);
    }
    Changed::from(changed)
}

fn bind_in(
    stmts: Vec<Stmt>,
    info: &FuncInfo,
    names: &mut NameSupply,
    changed: &mut bool,
) -> Vec<Stmt> {
    let mut out = Vec::with_capacity(stmts.len());
    for mut stmt in stmts {
        match &mut stmt.kind {
            StmtKind::If { then, orelse, .. } => {
                *then = bind_in(std::mem::take(then), info, names, changed);
                *orelse = bind_in(std::mem::take(orelse), info, names, changed);
            }
            StmtKind::Assign { target, value, .. } => {
                if let Some(name) = target.as_name().cloned()
                    && let Some(range) = Range::of(&name, value, info)
                {
                    range.emit(names, &mut out);
                    *changed = true;
                    continue;
                }
            }
            _ => {}
        }
        out.push(stmt);
    }
    out
}

/// A range with a bound that is a tensor.
struct Range {
    name: Name,
    /// The symbol that is its length.
    length: Name,
    dtype: DType,
    start: Expr,
    end: Expr,
    step: Expr,
    span: Option<irc_syntax::Span>,
}

impl Range {
    fn of(name: &Name, value: &Expr, info: &FuncInfo) -> Option<Self> {
        if !value.is_call_of("R.arange") {
            return None;
        }
        let call = prim::bind(Prim::Arange, value).ok()?;
        let (dtype, shape) = info.vars.get(name)?.as_known_tensor()?;
        let length = shape.first()?.as_sym()?.clone();
        let first = call.operand("start")?.clone();
        let (start, end) = match call.operand("end") {
            Some(end) => (first, end.clone()),
            None => (Expr::int(0), first),
        };
        let step = call
            .operand("step")
            .cloned()
            .unwrap_or_else(|| Expr::int(1));
        let is_tensor = |value: &Expr| {
            value.as_name().is_some_and(|name| {
                info.vars
                    .get(name)
                    .is_some_and(|ty| ty.as_tensor().is_some())
            })
        };
        if ![&start, &end, &step].into_iter().any(is_tensor) {
            return None;
        }
        let as_tensor = |value: Expr| match value.kind {
            ExprKind::Int(_) | ExprKind::Float(_) => {
                Some(Expr::call("R.const", [value, Expr::str(dtype.name())]))
            }
            _ if is_tensor(&value) || value.is_call_of("R.const") => Some(value),
            _ => None,
        };
        let (start, end, step) = (as_tensor(start)?, as_tensor(end)?, as_tensor(step)?);
        Some(Self {
            name: name.clone(),
            length,
            dtype,
            start,
            end,
            step,
            span: value.span,
        })
    }

    fn emit(self, names: &mut NameSupply, out: &mut Vec<Stmt>) {
        let span = self.span;
        let mut bind = |suffix: &str, value: Expr| {
            let name = names.fresh(&format!("{}_{suffix}", self.name));
            out.push(Stmt::bind(&name, value).at(span));
            Expr::name(name)
        };
        let wide = |value: &Expr| Expr::call("R.astype", [value.clone(), Expr::str("float64")]);
        let start = bind("start", wide(&self.start));
        let end = bind("end", wide(&self.end));
        let step = bind("step", wide(&self.step));
        let distance = bind("distance", Expr::call("R.subtract", [end, start]));
        let steps = bind("steps", Expr::call("R.divide", [distance, step]));
        let steps = bind("steps", Expr::call("R.ceil", [steps]));
        let zero = Expr::call("R.const", [Expr::float(0.0), Expr::str("float64")]);
        let steps = bind("steps", Expr::call("R.maximum", [steps, zero]));
        let count = bind(
            "length",
            Expr::call("R.astype", [steps, Expr::str("int64")]),
        );
        let one = Expr::call("R.shape", [Expr::list([Expr::int(1)])]);
        let count = bind("length", Expr::call("R.reshape", [count, one]));
        let shape = bind("shape", Expr::call("R.tensor_to_shape", [count]));
        let length = Expr::name(&self.length);
        let ty = Expr::call("R.Shape", [Expr::list([length.clone()])]);
        bind("shape", Expr::call("R.match_cast", [shape, ty]));
        let positions = Expr::call("R.arange", [Expr::int(0), length, Expr::int(1)]);
        let at = bind("at", positions.with("dtype", Expr::str("int64")));
        let dtype = Expr::str(self.dtype.name());
        let at = bind("at", Expr::call("R.astype", [at, dtype]));
        let scaled = bind("scaled", Expr::call("R.multiply", [at, self.step]));
        out.push(Stmt::bind(&self.name, Expr::call("R.add", [scaled, self.start])).at(span));
    }
}
