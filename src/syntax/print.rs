//! Tree to text, in the one canonical form.
//!
//! Four spaces, at most 100 columns where that is possible, and black's way of breaking: first what a bracket
//! holds goes to one indented line, then each element to its own line with a comma behind it. What is printed
//! depends on the tree alone, so printing what was parsed from a printed text gives the same bytes.
//! Statements are here; expressions are in `print_expr.rs`.

use crate::ast::*;
use crate::literal;
use std::fmt::Write;

/// The columns a line may take.
pub const WIDTH: usize = 100;

/// Whose reader the text is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Dialect {
    /// irc's canonical form.
    #[default]
    Irc,
    /// What Apache TVM reads and prints: one statement a line, its header comments, no facts on dims.
    Tvm,
}

/// How to print.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PrintOptions {
    /// Whose reader the text is for.
    pub dialect: Dialect,
}

/// The module in canonical form, ending in a newline unless it is empty.
pub fn print(module: &Module) -> String {
    print_with(module, &PrintOptions::default())
}

/// The module in the form that the options ask for.
pub fn print_with(module: &Module, options: &PrintOptions) -> String {
    let mut printer = Printer::new(options.dialect);
    match options.dialect {
        Dialect::Irc => printer.module(module),
        Dialect::Tvm => printer.module(&crate::tvm::for_tvm(module)),
    }
    printer.out
}

/// The expression on one line.
pub fn print_expr(expr: &Expr) -> String {
    let mut printer = Printer::new(Dialect::Irc);
    printer.open_expr(expr);
    printer.out
}

/// The statement as it stands in a body, ending in a newline.
pub fn print_stmt(stmt: &Stmt) -> String {
    let mut printer = Printer::new(Dialect::Irc);
    printer.stmt(stmt);
    printer.out
}

/// The function as it stands in a file without a module, ending in a newline.
pub fn print_func(func: &Func) -> String {
    let mut printer = Printer::new(Dialect::Irc);
    printer.func(func);
    printer.out
}

/// Text being written.
pub(crate) struct Printer {
    pub(crate) out: String,
    pub(crate) dialect: Dialect,
    /// Columns before each line of the current block.
    pub(crate) indent: usize,
    /// Set when something flat held a comment, which only a broken form can show.
    pub(crate) met_comment: bool,
}

impl Printer {
    pub(crate) fn new(dialect: Dialect) -> Self {
        Self {
            out: String::new(),
            dialect,
            indent: 0,
            met_comment: false,
        }
    }

    pub(crate) fn push(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// Starts a line at the current indentation.
    pub(crate) fn start_line(&mut self) {
        let indent = self.indent;
        self.out.extend(std::iter::repeat_n(' ', indent));
    }

    fn end_line(&mut self, trailing: Option<&String>) {
        if let Some(text) = trailing {
            let _ = write!(self.out, "  #{}", comment_text(text));
        }
        self.out.push('\n');
    }

    fn blank_line(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }

    fn comment(&mut self, text: &str) {
        self.start_line();
        let _ = writeln!(self.out, "#{}", comment_text(text));
    }

    /// Comments on lines of their own; blank lines at the head are left out where `is_first`.
    fn leading(&mut self, lines: &[TriviaLine], is_first: bool) {
        let mut skip_blank = is_first;
        for line in lines {
            match line {
                TriviaLine::Blank if skip_blank => {}
                TriviaLine::Blank => self.blank_line(),
                TriviaLine::Comment(text) => {
                    self.comment(text);
                    skip_blank = false;
                }
            }
        }
    }

    /// Comments after the last statement of a block.
    fn dangling(&mut self, lines: &[TriviaLine]) {
        let end = lines.iter().rposition(|line| *line != TriviaLine::Blank);
        self.leading(&lines[..end.map_or(0, |end| end + 1)], false);
    }

    pub(crate) fn module(&mut self, module: &Module) {
        if module.name.is_none()
            && let Some(doc) = &module.doc
        {
            self.doc(doc);
        }
        self.stmts(&module.prelude, module.doc.is_none());
        let is_first = module.prelude.is_empty();
        let Some(name) = &module.name else {
            self.leading(&module.trivia.leading, is_first && module.doc.is_none());
            self.items(&module.items, is_first && module.doc.is_none());
            self.dangling(&module.trivia.dangling);
            return;
        };
        if !is_first {
            self.blank_line();
        }
        self.leading(&module.trivia.leading, true);
        let _ = write!(self.out, "@I.ir_module\nclass {name}:");
        self.end_line(module.trivia.trailing.as_ref());
        self.indent += 4;
        if let Some(doc) = &module.doc {
            self.doc(doc);
        }
        self.items(&module.items, module.doc.is_none());
        if module.items.is_empty() && module.doc.is_none() {
            self.push("    pass\n");
        }
        self.indent -= 4;
        self.dangling(&module.trivia.dangling);
    }

    fn items(&mut self, items: &[Item], mut is_first: bool) {
        let mut after_func = false;
        for item in items {
            match item {
                Item::Func(func) => {
                    if !is_first {
                        self.blank_line();
                    }
                    self.func(func);
                    after_func = true;
                }
                Item::Stmt(stmt) => {
                    if after_func {
                        self.blank_line();
                    }
                    self.stmt_at(stmt, is_first || after_func);
                    after_func = false;
                }
            }
            is_first = false;
        }
    }

    fn doc(&mut self, doc: &str) {
        self.start_line();
        let text = doc.replace('\\', "\\\\").replace("\"\"\"", "\\\"\\\"\\\"");
        let mut lines = text.split('\n');
        self.push("\"\"\"");
        self.push(lines.next().unwrap_or_default());
        let is_long = text.contains('\n');
        for line in lines {
            self.push("\n");
            if !line.is_empty() {
                self.start_line();
                self.push(line);
            }
        }
        if is_long {
            self.push("\n");
            self.start_line();
        } else if text.ends_with('"') {
            self.out.pop();
            self.push("\\\"");
        }
        self.push("\"\"\"\n");
    }

    pub(crate) fn func(&mut self, func: &Func) {
        self.leading(&func.trivia.leading, true);
        let decorator = match func.kind {
            FuncKind::Graph => "@R.function",
            FuncKind::Loops => "@T.prim_func",
            FuncKind::Local => "",
        };
        if !decorator.is_empty() {
            self.start_line();
            self.push(decorator);
            if !func.decorator.is_empty() {
                self.args(&func.decorator);
            }
            self.push("\n");
        }
        self.start_line();
        let _ = write!(self.out, "def {}", func.name);
        self.signature(func);
        self.end_line(func.trivia.trailing.as_ref());
        self.indent += 4;
        if let Some(doc) = &func.doc {
            self.doc(doc);
        }
        self.stmts(&func.body, func.doc.is_none());
        if func.body.is_empty() && func.doc.is_none() {
            self.start_line();
            self.push("pass\n");
        }
        self.dangling(&func.trivia.dangling);
        self.indent -= 4;
    }

    /// The statements of a block and the comments behind the last.
    fn block(&mut self, body: &[Stmt], dangling: &[TriviaLine]) {
        self.indent += 4;
        self.stmts(body, true);
        if body.is_empty() {
            self.start_line();
            self.push("pass\n");
        }
        self.dangling(dangling);
        self.indent -= 4;
    }

    fn stmts(&mut self, body: &[Stmt], mut is_first: bool) {
        let mut after_func = false;
        for stmt in body {
            let is_func = matches!(stmt.kind, StmtKind::Func(_));
            let apart = after_func || (is_func && !is_first);
            if apart {
                self.blank_line();
            }
            self.stmt_at(stmt, is_first || apart);
            after_func = is_func;
            is_first = false;
        }
    }

    pub(crate) fn stmt(&mut self, stmt: &Stmt) {
        self.stmt_at(stmt, false);
    }

    fn stmt_at(&mut self, stmt: &Stmt, is_first: bool) {
        self.leading(&stmt.trivia.leading, is_first);
        if let StmtKind::Func(func) = &stmt.kind {
            self.func(func);
            return;
        }
        self.start_line();
        self.stmt_kind(stmt);
    }

    /// The statement from its first word to the end of its last line.
    fn stmt_kind(&mut self, stmt: &Stmt) {
        let trivia = &stmt.trivia;
        match &stmt.kind {
            StmtKind::Assign { target, ty, value } => {
                self.fitted_open(target, " = ".len());
                if let Some(ty) = ty {
                    self.push(": ");
                    self.fitted(ty, 0, " = ".len());
                }
                self.push(" = ");
                self.fitted_open(value, 0);
            }
            StmtKind::Declare { target, ty } => {
                self.open_expr(target);
                self.push(": ");
                self.fitted(ty, 0, 0);
            }
            StmtKind::Expr(value) => self.fitted_open(value, 0),
            StmtKind::If {
                cond,
                then,
                orelse,
                else_trivia,
            } => {
                self.header("if ", cond, trivia);
                self.block(then, &trivia.dangling);
                self.orelse(orelse, else_trivia);
                return;
            }
            StmtKind::For { target, iter, body } => {
                self.push("for ");
                self.open_expr(target);
                self.header(" in ", iter, trivia);
                self.block(body, &trivia.dangling);
                return;
            }
            StmtKind::While { cond, body } => {
                self.header("while ", cond, trivia);
                self.block(body, &trivia.dangling);
                return;
            }
            StmtKind::With {
                context,
                target,
                body,
            } => {
                self.push("with ");
                if let Some(target) = target {
                    self.fitted(context, 0, " as :".len());
                    self.header(" as ", target, trivia);
                } else {
                    self.header("", context, trivia);
                }
                self.block(body, &trivia.dangling);
                return;
            }
            StmtKind::Return(None) => self.push("return"),
            StmtKind::Return(Some(value)) => {
                self.push("return ");
                self.fitted_open(value, 0);
            }
            StmtKind::Assert { cond, message } => self.assert(cond, message.as_ref()),
            StmtKind::Break => self.push("break"),
            StmtKind::Continue => self.push("continue"),
            StmtKind::Pass | StmtKind::Error => self.push("pass"),
            StmtKind::Import(text) => self.push(text),
            StmtKind::Func(func) => {
                self.func(func);
                return;
            }
        }
        self.end_line(trivia.trailing.as_ref());
        self.dangling(&trivia.dangling);
    }

    fn assert(&mut self, cond: &Expr, message: Option<&Expr>) {
        self.push("assert ");
        let Some(message) = message else {
            self.fitted(cond, 0, 0);
            return;
        };
        let is_flat = self.try_flat(0, |printer| {
            printer.expr(cond, 0);
            printer.push(", ");
            printer.expr(message, 0);
        });
        if !is_flat {
            self.fitted(cond, 0, ", (".len());
            self.push(", ");
            self.parenthesized(message);
        }
    }

    /// The rest of a header line: a word, an expression, `:` and the comment.
    fn header(&mut self, word: &str, expr: &Expr, trivia: &Trivia) {
        self.push(word);
        self.fitted_open(expr, 1);
        self.push(":");
        self.end_line(trivia.trailing.as_ref());
    }

    fn orelse(&mut self, orelse: &[Stmt], trivia: &Trivia) {
        if orelse.is_empty() {
            return;
        }
        if let [only] = orelse
            && let StmtKind::If { .. } = only.kind
            && *trivia == Trivia::default()
        {
            self.leading(&only.trivia.leading, false);
            self.start_line();
            self.push("el");
            self.stmt_kind(only);
            return;
        }
        self.leading(&trivia.leading, false);
        self.start_line();
        self.push("else:");
        self.end_line(trivia.trailing.as_ref());
        self.block(orelse, &trivia.dangling);
    }

    /// A string on one line, or with its line ends when it stands alone.
    pub(crate) fn string(&mut self, text: &str) {
        if text.contains('\n') {
            literal::write_triple(text, &mut self.out);
        } else {
            literal::write_str(text, &mut self.out);
        }
    }
}

/// A comment's text with one space in front, as the formatter writes it.
pub(crate) fn comment_text(text: &str) -> String {
    let text = text.trim_end();
    match text.chars().next() {
        None => String::new(),
        Some(' ' | '!' | '#' | ':') => text.to_string(),
        Some(_) => format!(" {text}"),
    }
}
