//! Comments and blank lines to the nodes they belong to.
//!
//! The tree is walked once in written order beside the list that `layout.rs` kept. A comment on a line of its own
//! leads the statement, item, parameter or list element below it; one behind a node trails it; one after the
//! last statement of a block, at the block's column, dangles from the block's owner. A comment at a place
//! that keeps none, such as between two operands, moves in front of its statement. Nothing is lost.

use crate::ast::*;
use crate::layout::RawTrivia;
use crate::visit::{VisitMut, walk_expr_mut, walk_stmt_mut};

/// Gives every comment and blank line of a text to a node of its module.
pub fn attach(module: &mut Module, text: &str, items: &[RawTrivia]) {
    if items.is_empty() {
        return;
    }
    let mut attacher = Attacher {
        text,
        items,
        at: 0,
        hoisted: Vec::new(),
    };
    attacher.module(module);
}

struct Attacher<'a> {
    text: &'a str,
    items: &'a [RawTrivia<'a>],
    /// The first item that has no node yet.
    at: usize,
    /// Comments that move in front of the current statement.
    hoisted: Vec<TriviaLine>,
}

fn line(item: &RawTrivia) -> TriviaLine {
    item.text.map_or(TriviaLine::Blank, |text| {
        TriviaLine::Comment(text.to_string())
    })
}

fn range(span: Option<Span>) -> (u32, u32) {
    span.map_or((0, 0), |span| (span.lo, span.hi))
}

impl<'a> Attacher<'a> {
    fn peek(&self) -> Option<&'a RawTrivia<'a>> {
        self.items.get(self.at)
    }

    /// Takes everything before a byte.
    fn take_before(&mut self, pos: u32) -> Vec<TriviaLine> {
        let start = self.at;
        while self.peek().is_some_and(|item| item.at < pos) {
            self.at += 1;
        }
        self.items[start..self.at].iter().map(line).collect()
    }

    /// Takes a comment behind a node that ends at `hi`, on the same line, with nothing but `limit` after it.
    fn take_trailing(&mut self, hi: u32, limit: u32) -> Option<String> {
        let item = self.peek()?;
        let between = self.text.get(hi as usize..item.at as usize)?;
        if item.own_line || item.at >= limit || between.contains('\n') {
            return None;
        }
        self.at += 1;
        item.text.map(str::to_string)
    }

    /// Takes the comment of a header line whose block starts at `body`.
    fn take_header(&mut self, body: u32) -> Option<String> {
        let item = self.peek()?;
        if item.own_line || item.at >= body {
            return None;
        }
        self.at += 1;
        item.text.map(str::to_string)
    }

    /// Takes comments of at least a column, and blank lines between them, before `limit`.
    fn take_dangling(&mut self, column: u32, limit: u32) -> Vec<TriviaLine> {
        let start = self.at;
        let mut end = start;
        for (at, item) in self.items.iter().enumerate().skip(start) {
            let belongs = item.at < limit && (item.text.is_none() || column <= item.column);
            if !belongs {
                break;
            }
            if item.text.is_some() {
                end = at + 1;
            }
        }
        self.at = end;
        self.items[start..end].iter().map(line).collect()
    }

    fn hoist_before(&mut self, pos: u32) {
        let lines = self.take_before(pos);
        self.hoisted
            .extend(lines.into_iter().filter(|line| *line != TriviaLine::Blank));
    }

    fn column(&self, at: u32) -> u32 {
        let before = self.text.get(..at as usize).unwrap_or_default();
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        before[start..].chars().count() as u32
    }

    // ---- items and statements ----

    fn module(&mut self, module: &mut Module) {
        let end = self.text.len() as u32 + 1;
        let first_item = module.items.first().map_or(end, |item| item_range(item).0);
        let class = module.name.as_ref().map(|_| range(module.span));
        self.body(
            &mut module.prelude,
            class.map_or(first_item, |class| class.0),
        );
        let mut class_end = end;
        if let Some((lo, hi)) = class {
            module.trivia.leading = self.take_before(lo);
            while let Some(comment) = self.take_header(first_item.min(hi)) {
                if let Some(earlier) = module.trivia.trailing.replace(comment) {
                    module.trivia.leading.push(TriviaLine::Comment(earlier));
                }
            }
            class_end = end;
        }
        let starts: Vec<u32> = module.items.iter().map(|item| item_range(item).0).collect();
        for (at, item) in module.items.iter_mut().enumerate() {
            let limit = starts.get(at + 1).copied().unwrap_or(class_end);
            match item {
                Item::Func(func) => self.func(func, limit),
                Item::Stmt(stmt) => self.stmt(stmt, limit),
            }
        }
        if class.is_some() {
            let lines = self.take_dangling(1, end);
            match module.items.last_mut() {
                Some(Item::Func(func)) => func.trivia.dangling.extend(lines),
                Some(Item::Stmt(stmt)) => stmt.trivia.dangling.extend(lines),
                None => module.trivia.dangling.extend(lines),
            }
        }
        let rest = self.take_dangling(0, end);
        module.trivia.dangling.extend(rest);
    }

    /// The statements of a block; `limit` is where the next thing after it begins.
    fn body(&mut self, body: &mut [Stmt], limit: u32) {
        let starts: Vec<u32> = body.iter().map(|stmt| range(stmt.span).0).collect();
        for (at, stmt) in body.iter_mut().enumerate() {
            self.stmt(stmt, starts.get(at + 1).copied().unwrap_or(limit));
        }
    }

    /// A block and the comments that dangle from its owner.
    fn block(&mut self, body: &mut [Stmt], limit: u32) -> Vec<TriviaLine> {
        let column = body
            .first()
            .map_or(1, |stmt| self.column(range(stmt.span).0));
        self.body(body, limit);
        self.take_dangling(column, limit)
    }

    fn func(&mut self, func: &mut Func, limit: u32) {
        let (lo, hi) = range(func.span);
        func.trivia.leading = self.take_before(lo);
        let name_lo = range(func.name_span).0;
        func.trivia.leading.extend(self.take_before(name_lo));
        let body_lo = func.body.first().map_or(hi, |stmt| range(stmt.span).0);
        let header_hi = func.ret.as_ref().map_or(body_lo, |ret| range(ret.span).0);
        self.params(&mut func.params, header_hi);
        if let Some(ret) = &mut func.ret {
            self.expr(ret);
        }
        func.trivia.leading.append(&mut self.hoisted);
        func.trivia.trailing = self.take_header(body_lo);
        func.trivia.dangling = self.block(&mut func.body, limit);
    }

    fn params(&mut self, params: &mut [Param], limit: u32) {
        let starts: Vec<u32> = params.iter().map(|param| range(param.span).0).collect();
        for (at, param) in params.iter_mut().enumerate() {
            let (lo, hi) = range(param.span);
            param.trivia.leading = self.take_before(lo);
            for expr in param.ty.iter_mut().chain(&mut param.default) {
                self.expr(expr);
            }
            let next = starts.get(at + 1).copied();
            param.trivia.trailing = self.take_inside_trailing(hi, next.unwrap_or(limit));
            if next.is_none() {
                param.trivia.dangling = self.take_inside(limit);
            }
        }
    }

    /// A trailing comment inside brackets.
    fn take_inside_trailing(&mut self, hi: u32, limit: u32) -> Option<String> {
        if self.peek()?.is_inside {
            self.take_trailing(hi, limit)
        } else {
            None
        }
    }

    /// The comments before `limit` that stand inside brackets.
    fn take_inside(&mut self, limit: u32) -> Vec<TriviaLine> {
        let start = self.at;
        while self
            .peek()
            .is_some_and(|item| item.at < limit && item.is_inside)
        {
            self.at += 1;
        }
        self.items[start..self.at].iter().map(line).collect()
    }

    fn stmt(&mut self, stmt: &mut Stmt, limit: u32) {
        let (lo, hi) = range(stmt.span);
        if let StmtKind::Func(func) = &mut stmt.kind {
            self.func(func, limit);
            return;
        }
        let trivia = &mut stmt.trivia;
        trivia.leading = self.take_before(lo);
        match &mut stmt.kind {
            StmtKind::If {
                cond,
                then,
                orelse,
                else_trivia,
            } => {
                self.expr(cond);
                self.header(trivia, then, hi);
                let else_lo = self.find_else(then, orelse);
                trivia.dangling = self.block(then, else_lo.unwrap_or(limit));
                if let Some(else_lo) = else_lo {
                    self.orelse(orelse, else_trivia, else_lo, limit);
                }
                return;
            }
            StmtKind::For { target, iter, body } => {
                self.expr(target);
                self.expr(iter);
                self.header(trivia, body, hi);
                trivia.dangling = self.block(body, limit);
                return;
            }
            StmtKind::While { cond, body } => {
                self.expr(cond);
                self.header(trivia, body, hi);
                trivia.dangling = self.block(body, limit);
                return;
            }
            StmtKind::With {
                context,
                target,
                body,
            } => {
                self.expr(context);
                if let Some(target) = target {
                    self.expr(target);
                }
                self.header(trivia, body, hi);
                trivia.dangling = self.block(body, limit);
                return;
            }
            StmtKind::Assign { .. }
            | StmtKind::Declare { .. }
            | StmtKind::Expr(_)
            | StmtKind::Return(_)
            | StmtKind::Assert { .. }
            | StmtKind::Func(_)
            | StmtKind::Break
            | StmtKind::Continue
            | StmtKind::Pass
            | StmtKind::Import(_)
            | StmtKind::Error => walk_stmt_mut(self, stmt),
        }
        self.hoist_before(hi);
        let trivia = &mut stmt.trivia;
        trivia.leading.append(&mut self.hoisted);
        trivia.trailing = self.take_trailing(hi, limit);
    }

    /// The comments of a header line.
    fn header(&mut self, trivia: &mut Trivia, body: &[Stmt], hi: u32) {
        let body_lo = body.first().map_or(hi, |stmt| range(stmt.span).0);
        self.hoisted.extend({
            let start = self.at;
            while self
                .peek()
                .is_some_and(|item| item.at < body_lo && item.is_inside)
            {
                self.at += 1;
            }
            self.items[start..self.at].iter().map(line)
        });
        trivia.leading.append(&mut self.hoisted);
        trivia.trailing = self.take_header(body_lo);
    }

    fn orelse(&mut self, orelse: &mut [Stmt], trivia: &mut Trivia, else_lo: u32, limit: u32) {
        let first_lo = orelse.first().map_or(else_lo, |stmt| range(stmt.span).0);
        if first_lo == else_lo {
            // `elif`: the statement itself takes what stands before it.
            self.body(orelse, limit);
            return;
        }
        trivia.leading = self.take_before(else_lo);
        trivia.trailing = self.take_header(first_lo);
        trivia.dangling = self.block(orelse, limit);
    }

    /// Where the `else` or `elif` of a statement stands.
    fn find_else(&self, then: &[Stmt], orelse: &[Stmt]) -> Option<u32> {
        let first_lo = range(orelse.first()?.span).0;
        let from = range(then.last()?.span).1;
        let between = self.text.get(from as usize..first_lo as usize)?;
        let mut at = from;
        for line in between.split_inclusive('\n') {
            let word = line.trim_start();
            if word.starts_with("else") {
                return Some(at + (line.len() - word.len()) as u32);
            }
            at += line.len() as u32;
        }
        Some(first_lo)
    }

    // ---- expressions ----

    fn expr(&mut self, expr: &mut Expr) {
        let (lo, hi) = range(expr.span);
        if self.peek().is_none_or(|item| item.at >= hi) {
            return;
        }
        self.hoist_before(lo);
        match &mut expr.kind {
            ExprKind::Call { func, args } => {
                self.expr(func);
                self.elements(
                    args.iter_mut().map(|arg| (&mut arg.value, None)).collect(),
                    hi,
                );
            }
            ExprKind::Index { value, index } => {
                self.expr(value);
                self.elements(index.iter_mut().map(|item| (item, None)).collect(), hi);
            }
            ExprKind::Tuple { items, .. } | ExprKind::List(items) => {
                self.elements(items.iter_mut().map(|item| (item, None)).collect(), hi);
            }
            ExprKind::Dict(items) => {
                let entries = items.iter_mut().map(|(key, value)| (key, Some(value)));
                self.elements(entries.collect(), hi);
            }
            ExprKind::Attr { .. }
            | ExprKind::Unary { .. }
            | ExprKind::Starred(_)
            | ExprKind::Slice { .. }
            | ExprKind::Binary { .. }
            | ExprKind::IfElse { .. }
            | ExprKind::ListComp { .. }
            | ExprKind::Name(_)
            | ExprKind::Int(_)
            | ExprKind::Float(_)
            | ExprKind::Str(_)
            | ExprKind::Bool(_)
            | ExprKind::None
            | ExprKind::Ellipsis
            | ExprKind::Error => walk_expr_mut(self, expr),
        }
        self.hoist_before(hi);
    }

    /// The elements of a bracket that ends at `hi`; an entry of a dictionary is a key and its value.
    fn elements(&mut self, mut elements: Vec<(&mut Expr, Option<&mut Expr>)>, hi: u32) {
        let starts: Vec<u32> = elements
            .iter()
            .map(|(expr, _)| range(expr.span).0)
            .collect();
        for (at, (expr, value)) in elements.iter_mut().enumerate() {
            if self.peek().is_none_or(|item| item.at >= hi) {
                return;
            }
            let (lo, mut element_hi) = range(expr.span);
            let mut trivia = Trivia {
                leading: self.take_before(lo),
                ..Trivia::default()
            };
            self.expr(expr);
            if let Some(value) = value {
                self.expr(value);
                element_hi = range(value.span).1;
            }
            let next = starts.get(at + 1).copied();
            trivia.trailing = self.take_trailing(element_hi, next.unwrap_or(hi));
            if next.is_none() {
                trivia.dangling = self.take_before(hi);
            }
            if trivia != Trivia::default() {
                expr.trivia = Some(Box::new(trivia));
            }
        }
    }
}

/// What keeps no comments of its own is walked as every tree is.
impl VisitMut for Attacher<'_> {
    fn visit_expr(&mut self, expr: &mut Expr) {
        self.expr(expr);
    }
}

fn item_range(item: &Item) -> (u32, u32) {
    match item {
        Item::Func(func) => range(func.span),
        Item::Stmt(stmt) => range(stmt.span),
    }
}
