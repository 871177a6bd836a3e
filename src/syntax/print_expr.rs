//! Expressions to text: flat where they fit, else broken at their brackets.
//!
//! `expr` writes one line. `fitted` writes flat first and looks at the column: when it is too far right, or when
//! a comment was met, the flat text is taken back and `broken` writes the outermost bracket over several lines.

use crate::ast::*;
use crate::literal;
use crate::ops::{COMPARE_LEVEL, POW_LEVEL, UNARY_LEVEL};
use crate::print::{Dialect, Printer, WIDTH};
use std::fmt::Write;

/// How tightly names, calls and brackets bind.
const ATOM_LEVEL: u8 = 13;

/// How tightly an expression binds, as it is printed.
fn level(expr: &Expr) -> u8 {
    match &expr.kind {
        ExprKind::IfElse { .. } | ExprKind::Starred(_) | ExprKind::Slice { .. } => 0,
        ExprKind::Binary { op, .. } => op.level(),
        ExprKind::Unary { op, .. } => op.level(),
        ExprKind::Int(value) if *value < 0 => UNARY_LEVEL,
        ExprKind::Float(value) if value.is_sign_negative() => UNARY_LEVEL,
        ExprKind::Name(_)
        | ExprKind::Int(_)
        | ExprKind::Float(_)
        | ExprKind::Str(_)
        | ExprKind::Bool(_)
        | ExprKind::None
        | ExprKind::Ellipsis
        | ExprKind::Attr { .. }
        | ExprKind::Call { .. }
        | ExprKind::Index { .. }
        | ExprKind::Tuple { .. }
        | ExprKind::List(_)
        | ExprKind::Dict(_)
        | ExprKind::ListComp { .. }
        | ExprKind::Error => ATOM_LEVEL,
    }
}

/// What an element of a bracket is made of.
enum Element<'a> {
    Expr(&'a Expr),
    Arg(&'a Arg),
    Entry(&'a (Expr, Expr)),
    Param(&'a Param),
}

impl Element<'_> {
    fn trivia(&self) -> Option<&Trivia> {
        match self {
            Element::Expr(expr) => expr.trivia.as_deref(),
            Element::Arg(arg) => arg.value.trivia.as_deref(),
            Element::Entry(entry) => entry.0.trivia.as_deref(),
            Element::Param(param) => Some(&param.trivia),
        }
    }
}

impl Printer {
    fn column(&self) -> usize {
        let start = self.out.rfind('\n').map_or(0, |newline| newline + 1);
        self.out[start..].chars().count()
    }

    /// An expression on one line, without parentheses around a tuple written so.
    pub(crate) fn open_expr(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Tuple {
                items,
                parens: false,
            } if !items.is_empty() => {
                self.exprs(items);
                if items.len() == 1 {
                    self.push(",");
                }
            }
            _ => self.expr(expr, 0),
        }
    }

    /// An expression on one line, in parentheses when it binds looser than `min`.
    pub(crate) fn expr(&mut self, expr: &Expr, min: u8) {
        self.met_comment |= expr.trivia.as_deref().is_some_and(has_comment);
        if level(expr) < min {
            self.push("(");
            self.bare_expr(expr);
            self.push(")");
        } else {
            self.bare_expr(expr);
        }
    }

    fn bare_expr(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Name(name) => self.push(name),
            ExprKind::Int(value) => {
                let _ = write!(self.out, "{value}");
            }
            ExprKind::Float(value) => self.float(*value),
            ExprKind::Str(text) => self.string(text),
            ExprKind::Bool(true) => self.push("True"),
            ExprKind::Bool(false) => self.push("False"),
            ExprKind::None => self.push("None"),
            ExprKind::Ellipsis => self.push("..."),
            ExprKind::Error => self.push("None"),
            ExprKind::Attr { value, name } => {
                self.base(value);
                self.push(".");
                self.push(name);
            }
            ExprKind::Call { func, args } => {
                self.base(func);
                self.args(args);
            }
            ExprKind::Index { value, index } => {
                self.base(value);
                self.push("[");
                if index.is_empty() {
                    self.push("()");
                }
                self.exprs(index);
                self.push("]");
            }
            ExprKind::Slice { lo, hi, step } => self.slice(lo, hi, step),
            ExprKind::Tuple { items, .. } => {
                self.push("(");
                self.exprs(items);
                self.push(if items.len() == 1 { ",)" } else { ")" });
            }
            ExprKind::List(items) => {
                self.push("[");
                self.exprs(items);
                self.push("]");
            }
            ExprKind::Dict(items) => {
                self.push("{");
                for (at, entry) in items.iter().enumerate() {
                    self.comma(at);
                    self.element(&Element::Entry(entry));
                }
                self.push("}");
            }
            ExprKind::Unary { op, value } => {
                self.push(op.symbol());
                self.expr(value, op.level());
            }
            ExprKind::Binary { op, lhs, rhs } => {
                let (left, right) = sides(*op);
                self.expr(lhs, left);
                let _ = write!(self.out, " {} ", op.symbol());
                self.expr(rhs, right);
            }
            ExprKind::IfElse { cond, then, orelse } => {
                self.expr(then, 1);
                self.push(" if ");
                self.expr(cond, 1);
                self.push(" else ");
                self.expr(orelse, 0);
            }
            ExprKind::ListComp {
                element,
                target,
                iter,
                cond,
            } => {
                self.push("[");
                self.expr(element, 0);
                self.push(" for ");
                self.open_expr(target);
                self.push(" in ");
                self.expr(iter, 1);
                if let Some(cond) = cond {
                    self.push(" if ");
                    self.expr(cond, 1);
                }
                self.push("]");
            }
            ExprKind::Starred(value) => {
                self.push("*");
                self.expr(value, 0);
            }
        }
    }

    fn float(&mut self, value: f64) {
        match self.dialect {
            // Python has no name for these that TVM's reader takes everywhere.
            Dialect::Tvm if value.is_nan() => self.push("(1e999 - 1e999)"),
            Dialect::Tvm if value == f64::INFINITY => self.push("1e999"),
            Dialect::Tvm if value == f64::NEG_INFINITY => self.push("-1e999"),
            Dialect::Tvm | Dialect::Irc => literal::write_float(value, &mut self.out),
        }
    }

    /// What a member, call or subscript stands behind.
    fn base(&mut self, expr: &Expr) {
        if let ExprKind::Int(_) | ExprKind::Float(_) = expr.kind {
            self.push("(");
            self.bare_expr(expr);
            self.push(")");
        } else {
            self.expr(expr, ATOM_LEVEL);
        }
    }

    fn slice(&mut self, lo: &Option<Box<Expr>>, hi: &Option<Box<Expr>>, step: &Option<Box<Expr>>) {
        if let Some(lo) = lo {
            self.expr(lo, 0);
        }
        self.push(":");
        if let Some(hi) = hi {
            self.expr(hi, 0);
        }
        if let Some(step) = step {
            self.push(":");
            self.expr(step, 0);
        }
    }

    fn comma(&mut self, at: usize) {
        if at > 0 {
            self.push(", ");
        }
    }

    fn exprs(&mut self, items: &[Expr]) {
        for (at, item) in items.iter().enumerate() {
            self.comma(at);
            self.expr(item, 0);
        }
    }

    /// `(a, b, key=c)` on one line.
    pub(crate) fn args(&mut self, args: &[Arg]) {
        self.push("(");
        for (at, arg) in args.iter().enumerate() {
            self.comma(at);
            self.element(&Element::Arg(arg));
        }
        self.push(")");
    }

    fn element(&mut self, element: &Element) {
        match element {
            Element::Expr(expr) => self.expr(expr, 0),
            Element::Arg(Arg { name, value }) => {
                if let Some(name) = name {
                    self.push(name);
                    self.push("=");
                }
                self.expr(value, 0);
            }
            Element::Entry((key, value)) => {
                self.expr(key, 0);
                self.push(": ");
                self.expr(value, 0);
            }
            Element::Param(param) => {
                self.met_comment |= has_comment(&param.trivia);
                self.push(&param.name);
                if let Some(ty) = &param.ty {
                    self.push(": ");
                    self.expr(ty, 0);
                }
                if let Some(default) = &param.default {
                    self.push(if param.ty.is_some() { " = " } else { "=" });
                    self.expr(default, 0);
                }
            }
        }
    }

    // ---- breaking ----

    /// Writes flat and says whether that stayed within the line, with `tail` columns to follow.
    pub(crate) fn try_flat(&mut self, tail: usize, write: impl FnOnce(&mut Self)) -> bool {
        let start = self.out.len();
        let met_before = std::mem::take(&mut self.met_comment);
        write(self);
        let met = std::mem::replace(&mut self.met_comment, met_before);
        let is_wide = self.dialect == Dialect::Irc && self.column() + tail > WIDTH;
        if met || is_wide {
            self.out.truncate(start);
            return false;
        }
        true
    }

    /// An expression with `tail` columns to follow on its last line.
    pub(crate) fn fitted(&mut self, expr: &Expr, min: u8, tail: usize) {
        if !self.try_flat(tail, |printer| printer.expr(expr, min)) {
            self.broken(expr, min, tail, false);
        }
    }

    /// The same, where a tuple may stand without parentheses.
    pub(crate) fn fitted_open(&mut self, expr: &Expr, tail: usize) {
        if !self.try_flat(tail, |printer| printer.open_expr(expr)) {
            self.broken(expr, 0, tail, false);
        }
    }

    /// The same inside a bracket, where lines may break anywhere.
    fn fitted_inside(&mut self, expr: &Expr, min: u8, tail: usize) {
        if !self.try_flat(tail, |printer| printer.expr(expr, min)) {
            self.broken(expr, min, tail, true);
        }
    }

    /// An expression over several lines.
    fn broken(&mut self, expr: &Expr, min: u8, tail: usize, inside: bool) {
        let needs_parens = level(expr) < min;
        match &expr.kind {
            ExprKind::Binary { .. } | ExprKind::IfElse { .. } if needs_parens || !inside => {
                self.parenthesized(expr);
            }
            ExprKind::Binary { op, lhs, rhs } => {
                let (left, right) = sides(*op);
                self.fitted_inside_chain(lhs, left, op.level());
                self.new_line();
                let _ = write!(self.out, "{} ", op.symbol());
                self.fitted_inside(rhs, right, tail);
            }
            ExprKind::IfElse { cond, then, orelse } => {
                self.fitted_inside(then, 1, 0);
                self.new_line();
                self.push("if ");
                self.fitted_inside(cond, 1, 0);
                self.new_line();
                self.push("else ");
                self.fitted_inside(orelse, 0, tail);
            }
            ExprKind::Unary { op, value } if !needs_parens => {
                self.push(op.symbol());
                self.broken(value, op.level(), tail, inside);
            }
            ExprKind::Starred(value) => {
                self.push("*");
                self.broken(value, 0, tail, true);
            }
            ExprKind::Attr { value, name } => {
                self.broken(value, ATOM_LEVEL, tail + 1 + name.len(), inside);
                self.push(".");
                self.push(name);
            }
            ExprKind::Call { func, args } => {
                self.base_fitted(func, inside);
                self.bracket("(", args.iter().map(Element::Arg).collect(), ")", tail);
            }
            ExprKind::Index { value, index } if !index.is_empty() => {
                self.base_fitted(value, inside);
                self.bracket("[", index.iter().map(Element::Expr).collect(), "]", tail);
            }
            ExprKind::Tuple { items, .. } => {
                self.bracket("(", items.iter().map(Element::Expr).collect(), ")", tail);
            }
            ExprKind::List(items) => {
                self.bracket("[", items.iter().map(Element::Expr).collect(), "]", tail);
            }
            ExprKind::Dict(items) => {
                self.bracket("{", items.iter().map(Element::Entry).collect(), "}", tail);
            }
            ExprKind::ListComp {
                element,
                target,
                iter,
                cond,
            } => self.broken_comprehension(element, target, iter, cond.as_deref()),
            ExprKind::Name(_)
            | ExprKind::Int(_)
            | ExprKind::Float(_)
            | ExprKind::Str(_)
            | ExprKind::Bool(_)
            | ExprKind::None
            | ExprKind::Ellipsis
            | ExprKind::Unary { .. }
            | ExprKind::Index { .. }
            | ExprKind::Slice { .. }
            | ExprKind::Error => self.expr(expr, min),
        }
    }

    /// An expression on its own lines between parentheses.
    pub(crate) fn parenthesized(&mut self, expr: &Expr) {
        self.push("(");
        self.indent += 4;
        self.new_line();
        self.fitted_inside(expr, 0, 0);
        self.indent -= 4;
        self.new_line();
        self.push(")");
    }

    /// The left side of a broken chain; operands of the same level get their own lines.
    fn fitted_inside_chain(&mut self, expr: &Expr, min: u8, chain: u8) {
        match &expr.kind {
            ExprKind::Binary { op, .. } if op.level() == chain && level(expr) >= min => {
                self.broken(expr, min, 0, true);
            }
            _ => self.fitted_inside(expr, min, 0),
        }
    }

    fn broken_comprehension(
        &mut self,
        element: &Expr,
        target: &Expr,
        iter: &Expr,
        cond: Option<&Expr>,
    ) {
        self.push("[");
        self.indent += 4;
        self.new_line();
        self.fitted_inside(element, 0, 0);
        self.new_line();
        self.push("for ");
        self.open_expr(target);
        self.push(" in ");
        self.fitted_inside(iter, 1, 0);
        if let Some(cond) = cond {
            self.new_line();
            self.push("if ");
            self.fitted_inside(cond, 1, 0);
        }
        self.indent -= 4;
        self.new_line();
        self.push("]");
    }

    /// A callee or indexed value: flat unless only a broken one can keep to the line.
    fn base_fitted(&mut self, expr: &Expr, inside: bool) {
        if !self.try_flat(1, |printer| printer.base(expr)) {
            match &expr.kind {
                ExprKind::Int(_) | ExprKind::Float(_) => self.base(expr),
                _ => self.broken(expr, ATOM_LEVEL, 1, inside),
            }
        }
    }

    fn new_line(&mut self) {
        self.push("\n");
        self.start_line();
    }

    /// A bracket over several lines: all elements on one, or each on its own.
    fn bracket(&mut self, open: &str, elements: Vec<Element>, close: &str, tail: usize) {
        if elements.is_empty() && tail < WIDTH {
            self.push(open);
            self.push(close);
            return;
        }
        self.push(open);
        if let Some(value) = lone_bracket(&elements) {
            // A bracket alone in a call shares its lines: `f({`.
            self.broken(value, 0, tail + 1, true);
            self.push(close);
            return;
        }
        self.indent += 4;
        let start = self.out.len();
        self.new_line();
        let is_one_tuple =
            open == "(" && elements.len() == 1 && matches!(elements[0], Element::Expr(_));
        let fits = self.try_flat(0, |printer| {
            for (at, element) in elements.iter().enumerate() {
                printer.comma(at);
                printer.element(element);
            }
            if is_one_tuple {
                printer.push(",");
            }
        });
        if !fits {
            self.out.truncate(start);
            for element in &elements {
                self.own_line(element);
            }
        }
        self.indent -= 4;
        self.new_line();
        self.push(close);
    }

    /// An element on its own line, with its comments and a comma.
    fn own_line(&mut self, element: &Element) {
        let none = Trivia::default();
        let trivia = element.trivia().unwrap_or(&none);
        for line in &trivia.leading {
            self.comment_line(line);
        }
        self.new_line();
        match element {
            Element::Expr(expr) => self.element_expr(expr),
            Element::Arg(Arg { name, value }) => {
                if let Some(name) = name {
                    self.push(name);
                    self.push("=");
                }
                self.element_expr(value);
            }
            Element::Entry((key, value)) => {
                self.expr(key, 0);
                self.push(": ");
                self.fitted_inside(value, 0, 1);
            }
            Element::Param(param) => {
                self.push(&param.name);
                if let Some(ty) = &param.ty {
                    self.push(": ");
                    self.fitted_inside(ty, 0, 1);
                }
                if let Some(default) = &param.default {
                    self.push(if param.ty.is_some() { " = " } else { "=" });
                    self.fitted_inside(default, 0, 1);
                }
            }
        }
        self.push(",");
        if let Some(text) = &trivia.trailing {
            let _ = write!(self.out, "  #{}", crate::print::comment_text(text));
        }
        for line in &trivia.dangling {
            self.comment_line(line);
        }
    }

    /// The value of an element, whose own comments have been written around it.
    fn element_expr(&mut self, expr: &Expr) {
        let is_flat = self.try_flat(1, |printer| printer.bare_expr(expr));
        if !is_flat {
            self.broken(expr, 0, 1, true);
        }
    }

    fn comment_line(&mut self, line: &TriviaLine) {
        if let TriviaLine::Comment(text) = line {
            self.new_line();
            let _ = write!(self.out, "#{}", crate::print::comment_text(text));
        }
    }

    /// `(params) -> ret:` of a function.
    pub(crate) fn signature(&mut self, func: &Func) {
        let is_flat = self.try_flat(0, |printer| {
            printer.push("(");
            for (at, param) in func.params.iter().enumerate() {
                printer.comma(at);
                printer.element(&Element::Param(param));
            }
            printer.push(")");
            if let Some(ret) = &func.ret {
                printer.push(" -> ");
                printer.expr(ret, 0);
            }
            printer.push(":");
        });
        if is_flat {
            return;
        }
        let params: Vec<Element> = func.params.iter().map(Element::Param).collect();
        self.bracket("(", params, ")", 0);
        if let Some(ret) = &func.ret {
            self.push(" -> ");
            self.fitted(ret, 0, 1);
        }
        self.push(":");
    }
}

/// The only argument of a call, where that is a bracket with something in it.
fn lone_bracket<'a>(elements: &[Element<'a>]) -> Option<&'a Expr> {
    let [Element::Arg(Arg { name: None, value })] = elements else {
        return None;
    };
    let has_items = match &value.kind {
        ExprKind::List(items) | ExprKind::Tuple { items, .. } => !items.is_empty(),
        ExprKind::Dict(items) => !items.is_empty(),
        _ => false,
    };
    (has_items && value.trivia.is_none()).then_some(value)
}

fn has_comment(trivia: &Trivia) -> bool {
    let is_comment = |line: &TriviaLine| matches!(line, TriviaLine::Comment(_));
    trivia.trailing.is_some()
        || trivia
            .leading
            .iter()
            .chain(&trivia.dangling)
            .any(is_comment)
}

/// How tightly the two sides of an operator must bind to stand without parentheses.
fn sides(op: BinaryOp) -> (u8, u8) {
    let level = op.level();
    match level {
        POW_LEVEL => (ATOM_LEVEL, UNARY_LEVEL),
        COMPARE_LEVEL => (level + 1, level + 1),
        _ => (level, level + 1),
    }
}
