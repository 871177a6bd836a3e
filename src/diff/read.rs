//! Reads a graph function as what it computes: operators, and which value each takes.
//!
//!     y = R.nn.relu(R.matmul(x, w))        0  R.matmul  a: x, b: w
//!     return y                        →    1  R.nn.relu `y`  x: 0
//!                                          2  return  0: 1
//!
//! What a text can say in several ways is one here: arguments by position or by name, defaults left out or written,
//! nested calls or bindings, names for names, constants bound or written in place, `a + b`. Each node stands behind
//! those that it takes. Of a planned function the tensors that a call writes are its results, and where they lie is
//! kept apart.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use irc_syntax::uses::{bound_names, substitute};
use irc_syntax::{Expr, ExprKind, Func, Module, Name, Stmt, StmtKind, print_expr};

use super::call::{Ops, Shape, is_attribute};
use super::graph::{
    Attr, Const, Graph, Node, Operand, Region, Renames, Value, WHOLE, flat, n_inputs,
};
use crate::check::prim::{binary_prim, unary_prim};
use crate::shape::Dim;
use crate::tensor::parse_const;

/// Reads a function; symbols are called as `renames` says.
pub(super) fn build<'m>(
    func: &'m Func,
    module: &'m Module,
    ops: &Ops<'_>,
    renames: &Renames,
) -> Graph<'m> {
    let mut builder = Builder {
        module,
        ops,
        renames,
        env: HashMap::new(),
        undo: Vec::new(),
        region: 0,
        effect: None,
        graph: Graph {
            nodes: Vec::new(),
            consts: Vec::new(),
            params: Vec::new(),
            n_inputs: n_inputs(func),
            regions: vec![Region {
                label: String::new(),
            }],
            users: Vec::new(),
            param_users: Vec::new(),
            const_users: Vec::new(),
            places: Vec::new(),
        },
    };
    for (at, param) in func.params.iter().enumerate() {
        builder.graph.params.push(param.name.clone());
        builder.bind(&param.name, Bound::One(Value::Param(at, WHOLE)));
    }
    builder.body(&func.body);
    builder.finish()
}

/// What a name stands for.
#[derive(Clone)]
enum Bound {
    One(Value),
    Many(Vec<Bound>),
    /// A tensor of a planned function that nothing has written yet, and its type.
    Unwritten(String),
}

struct Builder<'m, 'c> {
    module: &'m Module,
    ops: &'c Ops<'c>,
    renames: &'c Renames,
    env: HashMap<Name, Bound>,
    /// What names stood for before, in the open block.
    undo: Vec<(Name, Option<Bound>)>,
    region: usize,
    /// The last statement made for its effect.
    effect: Option<usize>,
    graph: Graph<'m>,
}

/// The parts of a node while its arguments are read.
#[derive(Default)]
struct Parts {
    attrs: Vec<(String, Attr)>,
    operands: Vec<Operand>,
}

impl Parts {
    fn take(&mut self, key: &str, bound: Bound) {
        match bound {
            Bound::One(value) => self.operands.push(Operand {
                key: key.to_owned(),
                value,
            }),
            Bound::Many(items) => {
                for (at, item) in items.into_iter().enumerate() {
                    self.take(&format!("{key}[{at}]"), item);
                }
            }
            Bound::Unwritten(ty) => self.attrs.push((key.to_owned(), Attr::Text(ty))),
        }
    }
}

impl<'m> Builder<'m, '_> {
    fn finish(self) -> Graph<'m> {
        let mut graph = self.graph;
        graph.users = vec![Vec::new(); graph.nodes.len()];
        graph.param_users = vec![Vec::new(); graph.params.len()];
        graph.const_users = vec![Vec::new(); graph.consts.len()];
        for (user, node) in graph.nodes.iter().enumerate() {
            for (at, operand) in node.operands.iter().enumerate() {
                let list = match operand.value {
                    Value::Node(of, _) => graph.users.get_mut(of),
                    Value::Param(of, _) => graph.param_users.get_mut(of),
                    Value::Const(of) => graph.const_users.get_mut(of),
                    Value::Literal(_) => None,
                };
                if let Some(list) = list {
                    list.push((user, at));
                }
            }
        }
        graph
    }

    fn bind(&mut self, name: &Name, bound: Bound) {
        let old = self.env.insert(name.clone(), bound);
        self.undo.push((name.clone(), old));
    }

    fn push(&mut self, op: impl Into<String>, parts: Parts, written: Option<&'m Expr>) -> usize {
        self.graph.nodes.push(Node {
            op: op.into(),
            names: Vec::new(),
            attrs: parts.attrs,
            operands: parts.operands,
            region: self.region,
            commutes: false,
            written,
        });
        self.graph.nodes.len() - 1
    }

    fn name_node(&mut self, at: usize, names: Vec<Name>) {
        if let Some(node) = self.graph.nodes.get_mut(at) {
            node.names = names;
        }
    }

    /// Runs `inside` in a block of its own, and gives the names it bound and what they stand for.
    fn block(&mut self, label: &str, inside: impl FnOnce(&mut Self)) -> Vec<(Name, Bound)> {
        let outer = (std::mem::take(&mut self.undo), self.region);
        let around = self.graph.regions.get(outer.1);
        let around = around.map_or("", |region| region.label.as_str());
        let label = match around {
            "" => label.to_owned(),
            _ => format!("{around}/{label}"),
        };
        self.region = self.graph.regions.len();
        self.graph.regions.push(Region { label });
        inside(self);
        let mut bound: Vec<(Name, Bound)> = Vec::new();
        let undo = std::mem::replace(&mut self.undo, outer.0);
        let mut seen = HashSet::new();
        for (name, _) in &undo {
            if seen.insert(name.clone())
                && let Some(value) = self.env.get(name)
            {
                bound.push((name.clone(), value.clone()));
            }
        }
        for (name, old) in undo.into_iter().rev() {
            match old {
                Some(old) => self.env.insert(name, old),
                None => self.env.remove(&name),
            };
        }
        self.region = outer.1;
        bound
    }

    fn body(&mut self, stmts: &'m [Stmt]) {
        for stmt in stmts {
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &'m Stmt) {
        match &stmt.kind {
            StmtKind::Assign { target, value, .. } => self.assign(target, value),
            StmtKind::Expr(call) => self.effect(call),
            StmtKind::If {
                cond, then, orelse, ..
            } => self.branch(cond, then, orelse),
            StmtKind::For { target, iter, body } => {
                let mut parts = Parts::default();
                self.argument("in", iter, &mut parts);
                self.looped("for", Some(target), parts, body);
            }
            StmtKind::While { cond, body } => {
                let mut parts = Parts::default();
                self.argument("while", cond, &mut parts);
                self.looped("while", None, parts, body);
            }
            StmtKind::With { body, .. } => self.body(body),
            StmtKind::Return(value) => {
                let mut parts = Parts::default();
                if let Some(value) = value {
                    self.results(value, &mut parts);
                }
                self.push("return", parts, None);
            }
            StmtKind::Assert { cond, .. } => {
                let mut parts = Parts::default();
                self.argument("condition", cond, &mut parts);
                self.after(&mut parts);
                self.effect = Some(self.push("assert", parts, None));
            }
            StmtKind::Func(func) => self.local(func),
            // A symbol is what its uses say of it.
            StmtKind::Declare { .. }
            | StmtKind::Break
            | StmtKind::Continue
            | StmtKind::Pass
            | StmtKind::Import(_)
            | StmtKind::Error => {}
        }
    }

    /// What is returned, one operand a result.
    fn results(&mut self, value: &'m Expr, parts: &mut Parts) {
        let bound = match self.eval(value) {
            Some(bound) => bound,
            None => {
                let text = self.text(value, parts);
                parts.attrs.push(("value".to_owned(), Attr::Text(text)));
                return;
            }
        };
        match bound {
            Bound::Many(items) => {
                for (at, item) in items.into_iter().enumerate() {
                    parts.take(&at.to_string(), item);
                }
            }
            Bound::One(_) | Bound::Unwritten(_) => parts.take("0", bound),
        }
    }

    fn assign(&mut self, target: &'m Expr, value: &'m Expr) {
        if let ExprKind::Index { value: place, .. } = &target.kind {
            let mut parts = Parts::default();
            self.argument("into", place, &mut parts);
            self.argument("value", value, &mut parts);
            self.after(&mut parts);
            self.effect = Some(self.push("store", parts, None));
            return;
        }
        if let Some((path, args)) = value.as_call() {
            if path.starts_with("T.") && args.iter().all(|arg| arg.name.is_some()) {
                return;
            }
            if path.ends_with("alloc_tensor") || path.ends_with("alloc_storage") {
                let written = print_expr(value);
                let is_tensor = path.ends_with("alloc_tensor");
                let shape = args
                    .iter()
                    .find(|arg| arg.value.is_call_of("R.shape"))
                    .map(|arg| self.text(&arg.value, &mut Parts::default()));
                if let Some(name) = target.as_name() {
                    self.graph.places.push(written);
                    let ty = if is_tensor { shape } else { None };
                    self.bind(name, Bound::Unwritten(ty.unwrap_or_default()));
                }
                return;
            }
        }
        let first = self.graph.nodes.len();
        let n_consts = self.graph.consts.len();
        let bound = self.eval(value).unwrap_or_else(|| {
            let mut parts = Parts::default();
            let text = self.text(value, &mut parts);
            parts.attrs.push(("value".to_owned(), Attr::Text(text)));
            Bound::One(Value::Node(self.push("value", parts, Some(value)), WHOLE))
        });
        self.assign_bound(target, bound, (first, n_consts));
    }

    /// Binds a target; what is new since `(nodes, constants)` takes the target's names.
    fn assign_bound(&mut self, target: &'m Expr, bound: Bound, since: (usize, usize)) {
        match (&target.kind, bound) {
            (ExprKind::Name(name), bound) => {
                match bound {
                    Bound::One(Value::Node(at, WHOLE)) if at >= since.0 => {
                        self.name_node(at, vec![name.clone()]);
                    }
                    Bound::One(Value::Const(at)) if at >= since.1 => {
                        if let Some(found) = self.graph.consts.get_mut(at) {
                            found.name.get_or_insert_with(|| name.clone());
                        }
                    }
                    _ => {}
                }
                self.bind(name, bound);
            }
            (ExprKind::Tuple { items, .. } | ExprKind::List(items), Bound::Many(values)) => {
                for (item, value) in items.iter().zip(values) {
                    self.assign_bound(item, value, since);
                }
            }
            (ExprKind::Tuple { items, .. } | ExprKind::List(items), Bound::One(value)) => {
                let names: Vec<Name> = items.iter().filter_map(Expr::as_name).cloned().collect();
                if let Value::Node(at, WHOLE) = value
                    && at >= since.0
                    && names.len() == items.len()
                {
                    self.name_node(at, names);
                }
                for (at, item) in items.iter().enumerate() {
                    let member = self.member(Bound::One(value.clone()), at);
                    self.assign_bound(item, member, (usize::MAX, usize::MAX));
                }
            }
            (_, _) => {}
        }
    }

    fn member(&mut self, bound: Bound, at: usize) -> Bound {
        let out = i32::try_from(at).unwrap_or(i32::MAX);
        match bound {
            Bound::Many(items) => items
                .get(at)
                .cloned()
                .unwrap_or(Bound::One(Value::Literal("None".to_owned()))),
            Bound::One(Value::Node(of, WHOLE)) => Bound::One(Value::Node(of, out)),
            Bound::One(Value::Param(of, WHOLE)) => Bound::One(Value::Param(of, out)),
            Bound::One(_) | Bound::Unwritten(_) => {
                let mut parts = Parts::default();
                parts.take("tuple", bound);
                let index = Attr::Text(at.to_string());
                parts.attrs.push(("index".to_owned(), index));
                Bound::One(Value::Node(self.push("member", parts, None), WHOLE))
            }
        }
    }

    /// A statement for its effect. Tensors that nothing has written are what it writes.
    fn effect(&mut self, call: &'m Expr) {
        let Some((path, args)) = call.as_call() else {
            return;
        };
        if matches!(path.as_str(), "R.func_attr" | "T.func_attr" | "R.output")
            || path.starts_with("R.memory.kill")
        {
            return;
        }
        let outputs: Vec<(Name, String)> = args
            .iter()
            .filter_map(|arg| {
                let name = arg.value.as_name()?;
                match self.env.get(name)? {
                    Bound::Unwritten(ty) => Some((name.clone(), ty.clone())),
                    Bound::One(_) | Bound::Many(_) => None,
                }
            })
            .collect();
        let Some(Bound::One(Value::Node(at, _))) = self.eval(call) else {
            return;
        };
        if outputs.is_empty() {
            let mut parts = Parts::default();
            self.after(&mut parts);
            if let Some(node) = self.graph.nodes.get_mut(at) {
                node.operands.extend(parts.operands);
            }
            self.effect = Some(at);
            return;
        }
        for (out, (name, _)) in outputs.iter().enumerate() {
            let out = i32::try_from(out).unwrap_or(i32::MAX);
            self.bind(name, Bound::One(Value::Node(at, out)));
        }
        self.name_node(at, outputs.into_iter().map(|(name, _)| name).collect());
    }

    /// Effects stay in their order.
    fn after(&self, parts: &mut Parts) {
        if let Some(before) = self.effect {
            parts.take("after", Bound::One(Value::Node(before, WHOLE)));
        }
    }

    fn branch(&mut self, cond: &'m Expr, then: &'m [Stmt], orelse: &'m [Stmt]) {
        let mut parts = Parts::default();
        self.argument("cond", cond, &mut parts);
        let effect = self.effect;
        let then = self.block("then", |inner| inner.body(then));
        let orelse = self.block("else", |inner| inner.body(orelse));
        self.effect = effect;
        let mut names = Vec::new();
        let other: HashMap<Name, Bound> = orelse.iter().cloned().collect();
        let first: HashMap<Name, Bound> = then.iter().cloned().collect();
        let all = then.iter().chain(&orelse).map(|(name, _)| name);
        for name in all {
            let find = |side: &HashMap<Name, Bound>| {
                side.get(name).or_else(|| self.env.get(name)).cloned()
            };
            let (Some(a), Some(b)) = (find(&first), find(&other)) else {
                continue;
            };
            if names.contains(name) {
                continue;
            }
            let at = names.len();
            parts.take(&format!("then {at}"), a);
            parts.take(&format!("else {at}"), b);
            names.push(name.clone());
        }
        let node = self.push("if", parts, None);
        for (at, name) in names.iter().enumerate() {
            let out = i32::try_from(at).unwrap_or(i32::MAX);
            self.bind(name, Bound::One(Value::Node(node, out)));
        }
        self.name_node(node, names);
    }

    fn looped(&mut self, op: &str, target: Option<&'m Expr>, parts: Parts, body: &'m [Stmt]) {
        let node = self.push(op, parts, None);
        let inside = self.block(op, |inner| {
            for name in target.iter().flat_map(|target| bound_names(target)) {
                inner.bind(&name, Bound::One(Value::Node(node, WHOLE)));
            }
            inner.body(body);
        });
        for (name, bound) in inside {
            self.bind(&name, bound);
        }
    }

    /// A function inside the function.
    fn local(&mut self, func: &'m Func) {
        let effect = self.effect.take();
        let mut last = self.graph.nodes.len();
        self.block("def", |inner| {
            for (at, param) in func.params.iter().enumerate() {
                let mut parts = Parts::default();
                let index = Attr::Text(at.to_string());
                parts.attrs.push(("index".to_owned(), index));
                let node = inner.push("parameter", parts, None);
                inner.name_node(node, vec![param.name.clone()]);
                inner.bind(&param.name, Bound::One(Value::Node(node, WHOLE)));
            }
            inner.body(&func.body);
            last = inner.graph.nodes.len();
        });
        self.effect = effect;
        let mut parts = Parts::default();
        if let Some(ret) = last.checked_sub(1) {
            parts.take("body", Bound::One(Value::Node(ret, WHOLE)));
        }
        let node = self.push("def", parts, None);
        self.name_node(node, vec![func.name.clone()]);
        self.bind(&func.name, Bound::One(Value::Node(node, WHOLE)));
    }

    /// An argument: operands where it is one or several, an attribute otherwise.
    fn argument(&mut self, key: &str, expr: &'m Expr, parts: &mut Parts) {
        if let Some(path) = expr.as_path()
            && let Some(name) = path.strip_prefix("cls.")
        {
            parts
                .attrs
                .push((key.to_owned(), Attr::Func(Name::from(name))));
            return;
        }
        match self.eval(expr) {
            Some(bound) => parts.take(key, bound),
            None => {
                let text = self.text(expr, parts);
                parts.attrs.push((key.to_owned(), Attr::Text(text)));
            }
        }
    }

    /// The value of an expression; `None` for what holds no value: numbers, shapes, types.
    fn eval(&mut self, expr: &'m Expr) -> Option<Bound> {
        match &expr.kind {
            ExprKind::Name(name) => self.env.get(name).cloned(),
            ExprKind::Call { .. } => self.call(expr),
            ExprKind::Tuple { items, .. } | ExprKind::List(items) => {
                if !items.iter().any(|item| self.has_value(item)) {
                    return None;
                }
                let mut bound = Vec::with_capacity(items.len());
                for item in items {
                    let literal = |text| Bound::One(Value::Literal(text));
                    bound.push(match self.eval(item) {
                        Some(value) => value,
                        None => literal(self.text(item, &mut Parts::default())),
                    });
                }
                Some(Bound::Many(bound))
            }
            ExprKind::Index { value, index } if self.has_value(value) => {
                let base = self.eval(value)?;
                if let [only] = index.as_slice()
                    && let Some(at) = only.as_int().and_then(|at| usize::try_from(at).ok())
                {
                    return Some(self.member(base, at));
                }
                let mut parts = Parts::default();
                parts.take("x", base);
                for (at, item) in index.iter().enumerate() {
                    self.argument(&format!("index {at}"), item, &mut parts);
                }
                let node = self.push("index", parts, Some(expr));
                Some(Bound::One(Value::Node(node, WHOLE)))
            }
            ExprKind::Binary { op, lhs, rhs } if self.has_value(lhs) || self.has_value(rhs) => {
                let name = binary_prim(*op).map_or("infix", |prim| prim.name());
                self.infix(name, expr, &[lhs, rhs])
            }
            ExprKind::Unary { op, value } if self.has_value(value) => match unary_prim(*op) {
                Some(prim) => self.infix(prim.name(), expr, &[value]),
                None => self.eval(value),
            },
            _ => None,
        }
    }

    /// `a + b` as the call that it means.
    fn infix(&mut self, name: &str, written: &'m Expr, values: &[&'m Expr]) -> Option<Bound> {
        let shape = self.ops.shape(name, self.module);
        let mut parts = Parts::default();
        for (at, value) in values.iter().enumerate() {
            self.argument(&shape.key(at), value, &mut parts);
        }
        let node = self.push(name, parts, Some(written));
        self.commute(node, &shape);
        Some(Bound::One(Value::Node(node, WHOLE)))
    }

    fn commute(&mut self, node: usize, shape: &Shape) {
        if let Some(node) = self.graph.nodes.get_mut(node) {
            node.commutes = shape.commutes;
        }
    }

    fn call(&mut self, expr: &'m Expr) -> Option<Bound> {
        let ExprKind::Call { func, args } = &expr.kind else {
            return None;
        };
        let path = func.as_path()?;
        if path == "R.const" {
            return Some(Bound::One(self.constant(expr)?));
        }
        if is_attribute(&path) {
            return None;
        }
        let mut parts = Parts::default();
        let (op, shape) = match path.strip_prefix("cls.") {
            Some(name) => {
                let callee = Attr::Func(Name::from(name));
                parts.attrs.push(("function".to_owned(), callee));
                ("call".to_owned(), Rc::default())
            }
            None => match self.env.get(path.as_str()).cloned() {
                Some(local) => {
                    parts.take("function", local);
                    ("call".to_owned(), Rc::default())
                }
                None => {
                    let shape = self.ops.shape(&path, self.module);
                    (path, shape)
                }
            },
        };
        let mut given = Vec::with_capacity(args.len());
        for (at, arg) in args.iter().enumerate() {
            let key = match &arg.name {
                Some(name) => shape.named(name),
                None => shape.key(at),
            };
            if arg.value.kind == ExprKind::None {
                continue;
            }
            match shape.literal(&key, &arg.value) {
                Some(text) => parts.attrs.push((key.clone(), Attr::Text(text))),
                None => self.argument(&key, &arg.value, &mut parts),
            }
            given.push(key);
        }
        shape.complete(&given, |key, text| {
            parts
                .attrs
                .push((key.to_owned(), Attr::Text(text.to_owned())));
        });
        if !shape.is_empty() {
            parts.attrs.sort_by_key(|(key, _)| shape.rank(key));
            parts
                .operands
                .sort_by_key(|operand| shape.rank(&operand.key));
        }
        let node = self.push(op, parts, Some(expr));
        self.commute(node, &shape);
        Some(Bound::One(Value::Node(node, WHOLE)))
    }

    fn constant(&mut self, expr: &Expr) -> Option<Value> {
        let (_, args) = expr.as_call()?;
        match parse_const(args) {
            Ok(tensor) => {
                self.graph.consts.push(Const { tensor, name: None });
                Some(Value::Const(self.graph.consts.len() - 1))
            }
            Err(_) => Some(Value::Literal(flat(&print_expr(expr)))),
        }
    }

    /// Whether an expression holds a value of the program.
    fn has_value(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Name(name) => self.env.contains_key(name),
            ExprKind::Call { func, args } => match func.as_path() {
                Some(path) if is_attribute(&path) => {
                    args.iter().any(|arg| self.has_value(&arg.value))
                }
                _ => true,
            },
            ExprKind::Tuple { items, .. } | ExprKind::List(items) => {
                items.iter().any(|item| self.has_value(item))
            }
            ExprKind::Index { value, .. }
            | ExprKind::Unary { value, .. }
            | ExprKind::Attr { value, .. }
            | ExprKind::Starred(value) => self.has_value(value),
            ExprKind::Binary { lhs, rhs, .. } => self.has_value(lhs) || self.has_value(rhs),
            _ => false,
        }
    }

    /// The canonical text of an attribute. Values in it become operands, `$0` in the text.
    fn text(&mut self, expr: &'m Expr, parts: &mut Parts) -> String {
        let mut out = String::new();
        self.write(expr, parts, &mut out);
        out
    }

    fn write(&mut self, expr: &'m Expr, parts: &mut Parts, out: &mut String) {
        match &expr.kind {
            ExprKind::Name(name) if self.env.contains_key(name) => {
                let holes = parts.operands.iter();
                let at = holes.filter(|operand| operand.key.starts_with('$')).count();
                out.push_str(&format!("${at}"));
                if let Some(bound) = self.env.get(name).cloned() {
                    parts.take(&format!("${at}"), bound);
                }
            }
            ExprKind::Name(name) => out.push_str(self.renames.get(name).unwrap_or(name)),
            ExprKind::Tuple { items, .. } | ExprKind::List(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at > 0 { ", " } else { "" });
                    self.write(item, parts, out);
                }
                out.push(']');
            }
            ExprKind::Call { func, args } => {
                let path = func.as_path().unwrap_or_default();
                out.push_str(&path);
                out.push('(');
                for (at, arg) in args.iter().enumerate() {
                    out.push_str(if at > 0 { ", " } else { "" });
                    if let Some(name) = &arg.name {
                        out.push_str(&format!("{name}="));
                    }
                    // A dim may stand in quotes.
                    self.write(&arg.value, parts, out);
                }
                out.push(')');
            }
            ExprKind::Binary { .. } | ExprKind::Unary { .. } if !self.has_value(expr) => {
                match Dim::from_expr(&self.renamed(expr)) {
                    Ok(dim) => out.push_str(&print_expr(&dim.to_expr())),
                    Err(_) => out.push_str(&flat(&print_expr(&self.renamed(expr)))),
                }
            }
            _ => out.push_str(&flat(&print_expr(&self.renamed(expr)))),
        }
    }

    /// An expression with symbols as `renames` says.
    fn renamed(&self, expr: &Expr) -> Expr {
        let mut res = expr.clone();
        if !self.renames.is_empty() {
            let map = self
                .renames
                .iter()
                .map(|(from, to)| (from.clone(), Expr::name(to)))
                .collect();
            substitute(&mut res, &map);
        }
        res
    }
}
