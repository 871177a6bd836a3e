//! Operators of a function that is being lifted, on tensors whose rank is known at run time only.
//!
//!     y = onnx.SequenceAt(s, i)        y_rank = I.rank(y)
//!     z = onnx.Exp(y)             →    if R.less(y_rank, 4): …
//!                                      else: … y_ranked = R.match_cast(y, R.Tensor((y_d0, …)))
//!                                      z = onnx.Exp(y_ranked)
//!
//! An operator is typed for one rank, so the value is looked at first: a choice by its rank, whose branches give it a
//! type. What then follows moves into the branches as with any choice (`lift_branches`). The same is done by the length of
//! a vector of integers where that has to be known: it is the rank of a shape. What an operator can do without is left alone.
//! A Squeeze of all axes of extent 1 is a choice by each extent that may be 1.

use std::collections::{BTreeMap, VecDeque};

use irc_syntax::uses::substitute_stmt;
use irc_syntax::{DType, Expr, ExprKind, Name, Stmt, StmtKind, Trivia};

use super::lift::Lift;
use super::tail;
use crate::check::prim::Scope;
use crate::check::{TensorType, Type};
use crate::shape::Dim;

/// Ranks that are told apart; a value of more axes is an error at run time.
const MAX_RANK: usize = 8;

/// Extents that a Squeeze chooses by; of more, none may be 1.
const MAX_OPEN: usize = 3;

/// An operand of which too little is known.
struct Unknown {
    name: Name,
    dtype: DType,
    /// Where it is a vector, its length.
    length: Option<Dim>,
}

impl Lift<'_> {
    /// Lifts a statement that can do with what is known of its operands. One that cannot goes back to `queue`, behind a
    /// choice by what has to be known.
    pub(super) fn with_ranks(
        &mut self,
        stmt: Stmt,
        queue: &mut VecDeque<Stmt>,
        out: &mut Vec<Stmt>,
    ) {
        if let Some(choice) = self.open_squeeze(&stmt, queue) {
            choice.into_iter().rev().for_each(|s| queue.push_front(s));
            return;
        }
        let Some(unknown) = self.unknown_operand(&stmt) else {
            self.single(stmt, out);
            return;
        };
        let (before, n_faults) = (self.save(), self.diags.len());
        let mut lifted = Vec::new();
        self.single(stmt.clone(), &mut lifted);
        let is_good = self.diags.len() == n_faults
            && !lifted
                .iter()
                .any(|stmt| matches!(&stmt.kind, StmtKind::Assign { value, .. } if self.needs_rank(value)));
        if is_good || self.budget == 0 || self.is_ranked(&unknown.name) {
            out.append(&mut lifted);
            return;
        }
        self.budget -= 1;
        self.restore(before);
        self.diags.truncate(n_faults);
        self.choose_by_rank(&unknown, stmt, queue, out);
    }

    /// The first operand of an operator whose rank, or else whose length, is not known.
    fn unknown_operand(&self, stmt: &Stmt) -> Option<Unknown> {
        let StmtKind::Assign { value, .. } = &stmt.kind else {
            return None;
        };
        let (path, _) = value.as_call()?;
        if path.starts_with("I.") || path.starts_with("T.") || path == "R.match_cast" {
            return None;
        }
        let operands = operands(value);
        let typed = || {
            operands
                .iter()
                .filter_map(|name| Some((*name, self.scope.var(name)?.as_tensor()?)))
        };
        let unranked = typed().find(|(_, ty)| ty.ndim.is_none() && ty.dtype.is_some());
        let open = |ty: &TensorType| match ty.shape.as_deref() {
            Some([length]) if ty.dtype.is_some_and(DType::is_int) => {
                length.as_int().is_none().then(|| length.clone())
            }
            _ => None,
        };
        let found = unranked.map(|(name, ty)| (name, ty, None));
        let (name, ty, length) = found.or_else(|| {
            let mut vectors = typed().filter(|_| path.starts_with("onnx."));
            vectors.find_map(|(name, ty)| Some((name, ty, Some(open(ty)?))))
        })?;
        Some(Unknown {
            name: name.clone(),
            dtype: ty.dtype?,
            length,
        })
    }

    /// Whether a choice by rank gives a name, or the first copy of it.
    pub(super) fn is_ranked(&self, name: &Name) -> bool {
        self.ranked.contains(self.copies.get(name).unwrap_or(name))
    }

    /// Whether this is an operator that has a kernel, on a value whose rank is not known.
    fn needs_rank(&self, value: &Expr) -> bool {
        let Some((path, _)) = value.as_call() else {
            return false;
        };
        let is_unranked = |name: &&Name| {
            let ty = self.scope.var(name).and_then(Type::as_tensor);
            ty.is_some_and(|ty| ty.ndim.is_none())
        };
        path.starts_with("R.") && path != "R.match_cast" && operands(value).iter().any(is_unranked)
    }

    /// Puts a choice by the rank of a value before what follows, which reads the value of its branches.
    fn choose_by_rank(
        &mut self,
        unknown: &Unknown,
        stmt: Stmt,
        queue: &mut VecDeque<Stmt>,
        out: &mut Vec<Stmt>,
    ) {
        let name = &unknown.name;
        let count = match &unknown.length {
            None => Expr::call("I.rank", [Expr::name(name)]),
            Some(length) => {
                let shape = Expr::call("R.shape", [Expr::list([length.to_expr()])]);
                let vector = self.names.fresh(&format!("{name}_lengths"));
                self.keep(
                    Stmt::bind(&vector, Expr::call("R.shape_to_tensor", [shape])),
                    out,
                );
                let scalar = Expr::call("R.shape", [Expr::list([])]);
                Expr::call("R.reshape", [Expr::name(vector), scalar])
            }
        };
        let rank = self.names.fresh(&format!("{name}_rank"));
        self.keep(Stmt::bind(&rank, count), out);
        let ranked = self.names.fresh(&format!("{name}_ranked"));
        self.ranked.insert(ranked.clone());
        let choice = self.choice(unknown, &rank, &ranked, (0, MAX_RANK));
        let map = BTreeMap::from([(name.clone(), Expr::name(&ranked))]);
        queue.push_front(stmt);
        for stmt in queue.iter_mut() {
            if !matches!(stmt.kind, StmtKind::Return(_)) {
                substitute_stmt(stmt, &map);
            }
        }
        choice.into_iter().rev().for_each(|s| queue.push_front(s));
    }

    /// Binds `ranked` to the value as one of rank `lo` up to, and without, `hi`.
    fn choice(
        &mut self,
        unknown: &Unknown,
        rank: &Name,
        ranked: &Name,
        (lo, hi): (usize, usize),
    ) -> Vec<Stmt> {
        let name = &unknown.name;
        if lo + 1 == hi {
            let own = self.names.fresh(&format!("{name}_{lo}d"));
            let (symbols, dims) = self.extents(unknown, lo);
            let dtype = Expr::str(unknown.dtype.name());
            let ty = Expr::call("R.Tensor", [Expr::tuple(dims)]).with("dtype", dtype);
            let mut stmts = symbols;
            let cast = Expr::call("R.match_cast", [Expr::name(name), ty]);
            stmts.push(Stmt::bind(&own, cast));
            stmts.push(Stmt::bind(ranked, Expr::name(own)));
            return stmts;
        }
        let middle = (lo + hi) / 2;
        let is_less = self.names.fresh(&format!("{name}_below_{middle}"));
        let bound = Expr::call("R.const", [Expr::int(middle as i128), Expr::str("int64")]);
        let test = Expr::call("R.less", [Expr::name(rank), bound]);
        let choice = StmtKind::If {
            cond: Expr::name(&is_less),
            then: self.choice(unknown, rank, ranked, (lo, middle)),
            orelse: self.choice(unknown, rank, ranked, (middle, hi)),
            else_trivia: Trivia::default(),
        };
        vec![Stmt::bind(&is_less, test), Stmt::new(choice)]
    }

    /// The extents of a value that has a rank, with the statements that declare them.
    fn extents(&mut self, unknown: &Unknown, rank: usize) -> (Vec<Stmt>, Vec<Expr>) {
        if unknown.length.is_some() {
            return (Vec::new(), vec![Expr::int(rank as i128)]);
        }
        let (mut declared, mut dims) = (Vec::new(), Vec::new());
        for axis in 0..rank {
            let dim = self.scope.fresh(&format!("{}_d{axis}", unknown.name));
            if let Some(symbol) = dim.as_sym() {
                self.names.take(symbol);
                self.scope.define(symbol, Type::Scalar(DType::I64));
                declared.push(Stmt::bind(symbol, Expr::call("T.int64", [])));
            }
            dims.push(dim.to_expr());
        }
        (declared, dims)
    }
}

/// What goes on after a Squeeze of the extents that are 1 is repeated for each choice of them.
impl Lift<'_> {
    /// A Squeeze of all axes of extent 1 as a choice by the extents that may be 1 or not.
    fn open_squeeze(&mut self, stmt: &Stmt, queue: &VecDeque<Stmt>) -> Option<Vec<Stmt>> {
        let StmtKind::Assign { target, value, .. } = &stmt.kind else {
            return None;
        };
        let target = target.as_name()?;
        let mut operands = value.positional();
        if !value.is_call_of("onnx.Squeeze") || value.keyword("axes").is_some() {
            return None;
        }
        let (Some(x), None) = (operands.next().and_then(Expr::as_name), operands.next()) else {
            return None;
        };
        let dims = self.scope.var(x)?.as_tensor()?.shape.clone()?;
        let one = Dim::int(1);
        let (mut ones, mut open) = (Vec::new(), Vec::new());
        for (axis, dim) in dims.into_iter().enumerate() {
            match self.scope.info.facts.prove_eq(&dim, &one) {
                Some(true) => ones.push(axis),
                Some(false) => {}
                None => open.push((axis, dim)),
            }
        }
        let cost = (8 * tail::count(queue.iter())) << open.len().min(MAX_OPEN);
        if open.is_empty() || open.len() > MAX_OPEN || cost > self.budget {
            return None;
        }
        Some(self.squeezed((target, x), &open, ones))
    }

    /// Binds `target` to `x` without the axes in `ones` and those of `open` whose extent is 1.
    fn squeezed(
        &mut self,
        (target, x): (&Name, &Name),
        open: &[(usize, Dim)],
        ones: Vec<usize>,
    ) -> Vec<Stmt> {
        let Some(((axis, dim), rest)) = open.split_first() else {
            let own = self.names.fresh(target);
            let axes = ones.iter().map(|axis| Expr::int(*axis as i128));
            let value = if ones.is_empty() {
                Expr::name(x)
            } else {
                Expr::call("R.squeeze", [Expr::name(x)]).with("axis", Expr::list(axes))
            };
            return vec![Stmt::bind(&own, value), Stmt::bind(target, Expr::name(own))];
        };
        let [vector, extent, is_one] = ["extents", "extent", "is_one"]
            .map(|part| self.names.fresh(&format!("{target}_{part}")));
        let shape = Expr::call("R.shape", [Expr::list([dim.to_expr()])]);
        let scalar = Expr::call("R.shape", [Expr::list([])]);
        let one = Expr::call("R.const", [Expr::int(1), Expr::str("int64")]);
        let with = [ones.as_slice(), &[*axis]].concat();
        let choice = StmtKind::If {
            cond: Expr::name(&is_one),
            then: self.squeezed((target, x), rest, with),
            orelse: self.squeezed((target, x), rest, ones),
            else_trivia: Trivia::default(),
        };
        vec![
            Stmt::bind(&vector, Expr::call("R.shape_to_tensor", [shape])),
            Stmt::bind(
                &extent,
                Expr::call("R.reshape", [Expr::name(vector), scalar]),
            ),
            Stmt::bind(&is_one, Expr::call("R.equal", [Expr::name(extent), one])),
            Stmt::new(choice),
        ]
    }
}

/// The names among the operands of a call, those in tuples included.
pub(super) fn operands(value: &Expr) -> Vec<&Name> {
    let mut names = Vec::new();
    for arg in value.positional() {
        match &arg.kind {
            ExprKind::Name(name) => names.push(name),
            ExprKind::Tuple { items, .. } | ExprKind::List(items) => {
                names.extend(items.iter().filter_map(Expr::as_name));
            }
            _ => {}
        }
    }
    names
}
