//! Choices of a function that is being lifted, whose branches may give values of different ranks.
//!
//!     if c: y = x                       if c:
//!     else: y = onnx.Squeeze(x)             y_1 = x
//!     z = onnx.Exp(y)               →       z_1 = R.exp(y_1)
//!     s = onnx.ReduceSum(z)                 s = R.sum(z_1)
//!     return s                          else: …
//!                                       return s
//!
//! An operator is typed for one rank, so what follows a choice is lifted in each branch for as long as values of
//! different rank are read; what has one type again stands behind it. Where what follows is wrong for the value of
//! one branch only, the program checks that the other is taken. A branch knows what its condition is, so choices by the
//! same truth value are none inside it.
//!
//! How far the region reaches is found by lifting longer and longer parts of what follows; all of it is repeated at
//! most twice a choice, and a budget for the function bounds choices inside choices.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use irc_syntax::uses::{substitute, substitute_stmt};
use irc_syntax::{DType, Diagnostic, Expr, Name, Stmt, StmtKind, Trivia};

use super::lift::{Lift, State};
use super::normalize::common_results;
use super::tail::{self, Places, Tail};
use crate::check::prim::Scope;
use crate::check::{self, TensorType, Type, type_to_expr};
use crate::interp::Value;
use crate::tensor::Tensor;

/// Vectors of up to this many integers are taken for shapes.
const MAX_SHAPE: i64 = 8;

/// An `if`.
struct Choice {
    cond: Expr,
    then: Vec<Stmt>,
    orelse: Vec<Stmt>,
    /// The statement without its parts.
    shell: Stmt,
}

/// A branch that has been lifted.
struct Side {
    stmts: Vec<Stmt>,
    /// The types of all names at its end.
    vars: BTreeMap<Name, Type>,
    faults: Vec<Diagnostic>,
    /// Names of the region as they are called in it.
    names: BTreeMap<Name, Name>,
}

impl Side {
    fn ty(&self, name: &Name) -> Option<&Type> {
        self.vars.get(self.names.get(name).unwrap_or(name))
    }

    /// Whether what it computes is wrong, rather than beyond what can be compiled.
    fn is_wrong(&self) -> bool {
        let is_limit =
            |diag: &Diagnostic| diag.code.contains("unsupported") || diag.code == "type-unknown";
        !self.faults.is_empty() && !self.faults.iter().any(is_limit)
    }
}

impl Lift<'_> {
    /// `if`: its branch where the condition is known, else both, with as much of `queue`, which follows, as has to be in them.
    pub(super) fn branch(
        &mut self,
        stmt: Stmt,
        queue: &mut VecDeque<Stmt>,
        live: &BTreeSet<Name>,
        out: &mut Vec<Stmt>,
    ) {
        let StmtKind::If {
            mut cond,
            then,
            orelse,
            else_trivia,
        } = stmt.kind
        else {
            return;
        };
        substitute(&mut cond, &self.alias);
        let follow = |stmts: Vec<Stmt>, queue: &mut VecDeque<Stmt>| {
            stmts.into_iter().rev().for_each(|s| queue.push_front(s));
        };
        if let Some(Value::Tensor(known)) = self.operand(&cond) {
            let holds = known.to_i64s().first().is_some_and(|value| *value != 0);
            follow(if holds { then } else { orelse }, queue);
            return;
        }
        let shell = Stmt {
            kind: StmtKind::If {
                cond: Expr::none(),
                then: Vec::new(),
                orelse: Vec::new(),
                else_trivia,
            },
            trivia: stmt.trivia,
            span: stmt.span,
        };
        let choice = Choice {
            cond,
            then,
            orelse,
            shell,
        };
        let before = self.save();
        let sides = self.sides(&choice, choice.then.clone(), choice.orelse.clone());
        let results: BTreeSet<Name> = common_results(&choice.then, &choice.orelse)
            .into_iter()
            .collect();
        let weak = self.weak_names(&results, &sides);
        if weak.is_empty() || queue.is_empty() {
            self.finish(choice, sides, &before, out);
            return;
        }
        let tail = Tail::new(std::mem::take(queue).into());
        let plan = Plan::new(&tail, &results, weak);
        let mut wanted = plan.uses.iter().copied().collect::<Places>();
        wanted.retain(|at| tail.is_use(*at));
        let (region, before_it) = tail.region(&wanted, &plan.dependent);
        // Their symbols are not followed.
        let has_casts = || {
            tail.at(&region).iter().any(|stmt| match &stmt.kind {
                StmtKind::Assign { value, .. } => value.is_call_of("R.match_cast"),
                _ => false,
            })
        };
        if wanted.is_empty() || has_casts() {
            queue.extend(tail.without(&Places::new()));
            self.finish(choice, sides, &before, out);
            return;
        }
        if !before_it.is_empty() {
            // They go first, and then it is this statement's turn again.
            self.restore(before);
            queue.extend(tail.at(&before_it));
            queue.push_back(choice.whole());
            queue.extend(tail.without(&before_it));
            return;
        }
        let (sides, rest) = self.with_region(&choice, &tail, &plan, sides, &before, live);
        let wrong = [&sides.0, &sides.1].map(Side::is_wrong);
        let right = [&sides.0, &sides.1].map(|side| side.faults.is_empty());
        let taken = match (wrong, right) {
            ([true, _], [_, true]) => false,
            ([_, true], [true, _]) => true,
            _ => {
                queue.extend(rest);
                self.finish(choice, sides, &before, out);
                return;
            }
        };
        self.restore(before);
        self.require(&choice.cond, taken, out);
        self.assume(&choice.cond, taken);
        queue.extend(if taken { choice.then } else { choice.orelse });
        queue.extend(tail.without(&Places::new()));
    }

    /// Both branches, each with what is known of its condition.
    fn sides(&mut self, choice: &Choice, then: Vec<Stmt>, orelse: Vec<Stmt>) -> (Side, Side) {
        let live = common_results(&then, &orelse).into_iter().collect();
        let before = self.save();
        let [then, orelse] = [(then, true), (orelse, false)].map(|(stmts, holds)| {
            let facts = self.scope.info.facts.clone();
            let n_faults = self.diags.len();
            let known = self.assume(&choice.cond, holds);
            let stmts = self.block(stmts, &live);
            for name in known {
                self.scope.forget(&name);
                if let Some(ty) = before.scope.var(&name) {
                    self.scope.define(&name, ty.clone());
                }
            }
            self.scope.leave_branch(&facts, &before.scope);
            let mut vars = before.scope.info.vars.clone();
            std::mem::swap(&mut vars, &mut self.scope.info.vars);
            self.leave_branch(&before);
            Side {
                stmts,
                vars,
                faults: self.diags.split_off(n_faults),
                names: BTreeMap::new(),
            }
        });
        (then, orelse)
    }

    /// The branches with the region that has to be in them, and what stays behind it.
    fn with_region(
        &mut self,
        choice: &Choice,
        tail: &Tail,
        plan: &Plan,
        sides: (Side, Side),
        before: &State,
        live: &BTreeSet<Name>,
    ) -> ((Side, Side), Vec<Stmt>) {
        let (mut sides, mut region) = (sides, Places::new());
        let mut weak = plan.weak.clone();
        let mut reach = 4;
        loop {
            let is_used = |at: &&usize| tail.reads_any(**at, &weak);
            let exact: Places = plan.uses.iter().filter(is_used).copied().collect();
            let (least, _) = tail.region(&exact, &plan.dependent);
            let is_enough = exact.is_subset(&region);
            if is_enough && least == region {
                break;
            }
            // Too little yet: a longer part, so that few steps come to the end of the longest.
            let next = if is_enough {
                least
            } else {
                let part: Places = plan.uses.iter().take(reach).copied().collect();
                reach *= 2;
                tail.region(&part.union(&exact).copied().collect(), &plan.dependent)
                    .0
            };
            let cost = 2 * tail::count(&tail.at(&next));
            if cost > self.budget {
                break;
            }
            self.budget -= cost;
            self.restore(before.clone());
            sides = self.sides_with(choice, tail, &next, plan, live);
            region = next;
            if is_enough || sides.0.is_wrong() || sides.1.is_wrong() {
                break;
            }
            let mut names = plan.results.clone();
            names.extend(tail::bound(&tail.at(&region)));
            weak = self.weak_names(&names, &sides);
            tail.add_aliases(&mut weak);
        }
        (sides, tail.without(&region))
    }

    /// Names whose types in two branches have no common rank, or are shapes of different length.
    fn weak_names(&self, names: &BTreeSet<Name>, (then, orelse): &(Side, Side)) -> BTreeSet<Name> {
        let length = |ty: &TensorType| match ty.shape.as_deref() {
            Some([length]) if ty.dtype == Some(DType::I64) => length.as_int(),
            _ => None,
        };
        let is_weak = |name: &&Name| match (then.ty(name), orelse.ty(name)) {
            (Some(Type::Tensor(a)), Some(Type::Tensor(b))) => {
                let lengths = (length(a), length(b));
                a.ndim != b.ndim
                    || a.ndim.is_none()
                    || self.is_ranked(name)
                    || matches!(lengths, (Some(a), Some(b)) if a != b && a.max(b) <= MAX_SHAPE)
            }
            _ => false,
        };
        names.iter().filter(is_weak).cloned().collect()
    }

    /// Both branches with a copy of the region behind each.
    fn sides_with(
        &mut self,
        choice: &Choice,
        tail: &Tail,
        region: &Places,
        plan: &Plan,
        live: &BTreeSet<Name>,
    ) -> (Side, Side) {
        let moved = tail.at(region);
        let mut wanted = tail::read(&tail.without(region));
        wanted.extend(live.iter().cloned());
        let mut given = tail::bound(&moved);
        given.extend(plan.results.iter().cloned());
        let results: Vec<Name> = given.intersection(&wanted).cloned().collect();
        let own = tail::bound(&choice.orelse);
        let is_own = |name: &Name| own.contains(name) && !plan.results.contains(name);
        let mut copy = |stmts: &[Stmt], is_renamed: &dyn Fn(&Name) -> bool| {
            let mut all = stmts.to_vec();
            all.extend(moved.iter().cloned());
            let names = tail::rename(&mut all, &mut self.names, is_renamed);
            for name in &results {
                let inner = names.get(name).unwrap_or(name);
                all.push(Stmt::bind(name, Expr::name(inner)));
            }
            (all, names)
        };
        let (then, then_names) = copy(&choice.then, &|name| results.contains(name));
        let (orelse, orelse_names) = copy(&choice.orelse, &|name| !is_own(name));
        for (name, new) in then_names.iter().chain(&orelse_names) {
            let first = self.copies.get(name).unwrap_or(name).clone();
            self.copies.insert(new.clone(), first);
        }
        let mut sides = self.sides(choice, then, orelse);
        (sides.0.names, sides.1.names) = (then_names, orelse_names);
        sides
    }

    /// Puts the choice behind `out`: results that differ in an extent get a new one.
    fn finish(
        &mut self,
        choice: Choice,
        (then, orelse): (Side, Side),
        before: &State,
        out: &mut Vec<Stmt>,
    ) {
        let outside = &before.scope.info.vars;
        let mut vars = outside.clone();
        for side in [&then, &orelse] {
            let new = side
                .vars
                .iter()
                .filter(|(name, _)| !outside.contains_key(*name));
            vars.extend(new.map(|(name, ty)| (name.clone(), ty.clone())));
        }
        self.scope.info.vars = vars;
        // What follows is in both, and its faults are said once.
        let is_twice = !then.names.is_empty() && !then.faults.is_empty();
        self.diags.extend(then.faults);
        self.diags
            .extend(orelse.faults.into_iter().filter(|_| !is_twice));
        let mut casts = Vec::new();
        let mut renamed = BTreeMap::new();
        let results: BTreeSet<Name> = common_results(&then.stmts, &orelse.stmts)
            .into_iter()
            .collect();
        for name in results {
            let (Some(ty), Some(other)) = (then.vars.get(&name), orelse.vars.get(&name)) else {
                continue;
            };
            self.scope.forget(&name);
            let (joined, has_new) = self.join(&name, ty, other);
            if has_new {
                let inner = self.names.fresh(&format!("{name}_if"));
                self.scope.define(&inner, other.clone());
                renamed.insert(name.clone(), Expr::name(&inner));
                let fresh = check::expand::symbols_of(&joined);
                let new = fresh
                    .into_iter()
                    .filter(|dim| dim.starts_with(name.as_str()));
                casts.extend(new.map(|dim| Stmt::bind(dim, Expr::call("T.int64", []))));
                let cast = Expr::call("R.match_cast", [Expr::name(&inner), type_to_expr(&joined)]);
                casts.push(Stmt::bind(&name, cast));
            }
            self.scope.define(&name, joined);
        }
        let rename = |mut stmts: Vec<Stmt>| {
            for stmt in &mut stmts {
                substitute_stmt(stmt, &renamed);
                if let StmtKind::Assign { target, .. } = &mut stmt.kind
                    && let Some(inner) = target.as_name().and_then(|name| renamed.get(name))
                {
                    *target = inner.clone();
                }
            }
            stmts
        };
        out.push(choice.with(rename(then.stmts), rename(orelse.stmts)));
        out.extend(casts);
    }

    /// The type of a value that comes from one of two branches, and whether it has new extents.
    fn join(&mut self, name: &Name, a: &Type, b: &Type) -> (Type, bool) {
        if a == b {
            return (a.clone(), false);
        }
        let (Type::Tensor(a), Type::Tensor(b)) = (a, b) else {
            return (check::join(a, b), false);
        };
        if a.dtype != b.dtype {
            self.diags.push(Diagnostic::error(
                "onnx-unsupported",
                format!("the branches that give `{name}` differ in dtype"),
            ));
            return (Type::Error, false);
        }
        let (Some(left), Some(right)) = (&a.shape, &b.shape) else {
            return (
                check::join(&Type::Tensor(a.clone()), &Type::Tensor(b.clone())),
                false,
            );
        };
        if left.len() != right.len() {
            // Its rank is known at run time only.
            let ty = TensorType {
                dtype: a.dtype,
                ..TensorType::default()
            };
            return (Type::Tensor(ty), false);
        }
        let mut has_new = false;
        let mut dims = Vec::with_capacity(left.len());
        for (axis, (l, r)) in left.iter().zip(right).enumerate() {
            if l == r {
                dims.push(l.clone());
            } else {
                has_new = true;
                dims.push(self.scope.fresh(&format!("{name}_d{axis}")));
            }
        }
        let ty = TensorType {
            dtype: a.dtype,
            ndim: Some(dims.len()),
            shape: Some(dims),
            value: None,
        };
        (Type::Tensor(ty), has_new)
    }

    /// A check that a condition is what it has to be.
    fn require(&mut self, cond: &Expr, holds: bool, out: &mut Vec<Stmt>) {
        let base = cond.as_name().map_or("cond", |name| name.as_str());
        let [number, vector, shape, seen, agreed] = ["number", "vector", "shape", "seen", "agrees"]
            .map(|part| self.names.fresh(&format!("{base}_{part}")));
        let symbol = self.names.fresh(&format!("{base}_holds"));
        let one = Expr::call("R.shape", [Expr::list([Expr::int(1)])]);
        let cast = |value: Expr, dim: Expr| {
            let ty = Expr::call("R.Shape", [Expr::list([dim])]);
            Expr::call("R.match_cast", [value, ty])
        };
        let wanted = Expr::int(i128::from(holds));
        let known = Expr::call("R.shape", [Expr::list([Expr::name(&symbol)])]);
        let checks = [
            (
                number.clone(),
                Expr::call("R.astype", [cond.clone()]).with("dtype", Expr::str("int64")),
            ),
            (
                vector.clone(),
                Expr::call("R.reshape", [Expr::name(number), one]),
            ),
            (symbol.clone(), Expr::call("T.int64", [])),
            (
                shape.clone(),
                Expr::call("R.tensor_to_shape", [Expr::name(vector)]),
            ),
            (seen, cast(Expr::name(shape), Expr::name(symbol))),
            (agreed, cast(known, wanted)),
        ];
        for (name, value) in checks {
            out.push(Stmt::bind(&name, value));
        }
    }

    /// Notes that a name is a truth value that has a name already, in another form.
    pub(super) fn note_truth(&mut self, name: &Name, value: &Expr) {
        let is_one = |lift: &Self, name: &Name| {
            let ty = lift.scope.var(name).and_then(Type::as_known_tensor);
            ty.is_some_and(|(_, dims)| dims.iter().all(|dim| dim.as_int() == Some(1)))
        };
        let (operand, path) = match value.as_call() {
            Some((path, args)) => (args.first().map(|arg| &arg.value), path),
            None => (Some(value), String::new()),
        };
        let Some(operand) = operand.and_then(Expr::as_name).cloned() else {
            return;
        };
        let dtype = self.scope.var(&operand).and_then(Type::as_tensor);
        let is_truth = dtype.and_then(|ty| ty.dtype) == Some(DType::Bool)
            || self.truths.contains_key(&operand);
        let is_form = matches!(
            path.as_str(),
            "" | "R.reshape" | "R.astype" | "R.logical_not" | "R.squeeze" | "R.expand_dims"
        );
        if is_form && is_truth && is_one(self, name) && is_one(self, &operand) {
            let (root, negated) = self.truth(&operand);
            let negated = negated ^ (path == "R.logical_not");
            self.truths.insert(name.clone(), (root, negated));
        }
    }

    /// The truth value that a name is, and whether negated.
    fn truth(&self, name: &Name) -> (Name, bool) {
        self.truths
            .get(name)
            .cloned()
            .unwrap_or_else(|| (name.clone(), false))
    }

    /// Knows the values of all names that are the same truth value as a condition; gives those names.
    fn assume(&mut self, cond: &Expr, holds: bool) -> Vec<Name> {
        let Some(name) = cond.as_name() else {
            return Vec::new();
        };
        let (root, negated) = self.truth(name);
        let holds = holds ^ negated;
        let same = self.truths.iter().filter(|(_, (other, _))| *other == root);
        let mut all: Vec<(Name, bool)> = same
            .map(|(name, (_, negated))| (name.clone(), holds ^ negated))
            .collect();
        all.push((root, holds));
        let mut known = Vec::new();
        for (name, holds) in all {
            let ty = self.scope.var(&name).and_then(Type::as_known_tensor);
            let Some((dtype, dims)) = ty else { continue };
            let shape = vec![1; dims.len()];
            let value = Tensor::from_fn(shape, |_| holds).cast(dtype);
            if let (Ok(value), true) = (value, dims.iter().all(|dim| dim.as_int() == Some(1))) {
                self.scope.know(&name, value);
                known.push(name);
            }
        }
        known
    }
}

impl Choice {
    /// The statement.
    fn whole(self) -> Stmt {
        let (then, orelse) = (self.then.clone(), self.orelse.clone());
        self.with(then, orelse)
    }

    /// The statement with other branches.
    fn with(self, then: Vec<Stmt>, orelse: Vec<Stmt>) -> Stmt {
        let else_trivia = match self.shell.kind {
            StmtKind::If { else_trivia, .. } => else_trivia,
            _ => Trivia::default(),
        };
        Stmt {
            kind: StmtKind::If {
                cond: self.cond,
                then,
                orelse,
                else_trivia,
            },
            ..self.shell
        }
    }
}

/// What of the statements behind a choice its values concern.
struct Plan {
    /// Names that both branches bind.
    results: BTreeSet<Name>,
    /// Those whose rank differs, and what only stands for them.
    weak: BTreeSet<Name>,
    /// Statements that depend on a result.
    dependent: Places,
    /// Statements that depend on a weak one and compute with what they read, in order.
    uses: Vec<usize>,
}

impl Plan {
    fn new(tail: &Tail, results: &BTreeSet<Name>, mut weak: BTreeSet<Name>) -> Self {
        tail.add_aliases(&mut weak);
        let (dependent, _) = tail.dependents(results);
        let (uses, _) = tail.dependents(&weak);
        Self {
            results: results.clone(),
            weak,
            dependent,
            uses: uses.into_iter().filter(|at| tail.is_use(*at)).collect(),
        }
    }
}
