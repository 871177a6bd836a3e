//! What the grammar's rules do: tokens and parts in, tree nodes with their places out.
//!
//! Here old spellings become today's ([`ALIASES`]), literals get their values, a sign in front of a number
//! becomes part of it, and flat operator chains are folded by precedence. Faults go to the context and
//! parsing goes on.

use crate::ast::*;
use crate::diag::Diagnostic;
use crate::literal;
use crate::ops::{COMPARE_LEVEL, POW_LEVEL};
use crate::token::Tok;
use lalrpop_util::{ErrorRecovery, ParseError};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Namespace, old member, today's member. `R.Prim("int64")` is read in [`Cx::call`].
pub const ALIASES: [(&str, &str, &str); 4] = [
    ("T", "block", "sblock"),
    ("T", "block_attr", "sblock_attr"),
    ("T", "block_alloc_buffer", "sblock_alloc_buffer"),
    ("R", "Object", "Any"),
];

/// Old keyword, today's keyword.
pub const KEYWORD_ALIASES: [(&str, &str); 2] = [("out_sinfo", "out_ty"), ("sinfo_args", "ty_args")];

/// What stands for a namespace when a member follows.
const NAMESPACE_ALIASES: [(&str, &str); 4] =
    [("relax", "R"), ("tir", "T"), ("tirx", "T"), ("Tx", "T")];

/// What was read.
pub enum Root {
    /// Every statement of a file; a class is an `Error` statement at the place of [`Cx::class`].
    File(Vec<Stmt>),
    /// One expression.
    Expr(Expr),
}

/// The class of a file.
pub struct Class {
    /// Its name.
    pub name: Name,
    /// What is in it.
    pub body: Vec<Stmt>,
    /// From the decorator to the end.
    pub span: Option<Span>,
}

/// An operator chain before precedence is applied.
pub enum Chain {
    /// No operator.
    One(Expr),
    /// Operators and operands as written.
    Many(Vec<Part>),
}

/// One part of an operator chain.
pub enum Part {
    /// A prefix operator and its first byte.
    Prefix(u32, UnaryOp),
    /// A value.
    Operand(Expr),
    /// An operator between values.
    Infix(BinaryOp),
}

/// What the rules share.
pub struct Cx<'a> {
    src: &'a str,
    file: FileId,
    /// Faults found by the rules.
    pub diagnostics: Vec<Diagnostic>,
    /// Faults found by the parser, to be worded.
    pub errors: Vec<ParseError<u32, Tok<'a>, ()>>,
    /// The names met so far; each text is kept once.
    names: HashMap<&'a str, Name, BuildHasherDefault<Fnv>>,
    /// The class, once it has been read.
    pub class: Option<Class>,
}

/// The FNV-1a hash, which is quick for words.
#[derive(Clone, Copy)]
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl<'a> Cx<'a> {
    /// The context of one text.
    pub fn new(src: &'a str, file: FileId) -> Self {
        Self {
            src,
            file,
            diagnostics: Vec::new(),
            errors: Vec::new(),
            names: HashMap::default(),
            class: None,
        }
    }

    /// The name of a text, shared with every other place that has it.
    pub fn intern(&mut self, text: &'a str) -> Name {
        self.names
            .entry(text)
            .or_insert_with(|| Name::from(text))
            .clone()
    }

    fn span(&self, lo: u32, hi: u32) -> Option<Span> {
        let file = self.file;
        Some(Span { file, lo, hi })
    }

    fn error(
        &mut self,
        code: &'static str,
        message: impl Into<String>,
        span: Option<Span>,
        label: &str,
    ) {
        self.diagnostics
            .push(Diagnostic::error(code, message).at(span, label));
    }

    // ---- statements ----

    /// A statement at its place.
    pub fn stmt(&self, lo: u32, kind: Box<StmtKind>, hi: u32) -> Box<Stmt> {
        Box::new(Stmt::new(*kind).at(self.span(lo, hi)))
    }

    /// `target: ty = value`
    pub fn assign(&mut self, target: Expr, ty: Option<Expr>, value: Expr) -> Box<StmtKind> {
        self.check_target(&target);
        Box::new(StmtKind::Assign { target, ty, value })
    }

    /// `target: ty`
    pub fn declare(&mut self, target: Expr, ty: Expr) -> Box<StmtKind> {
        if target.as_name().is_none() {
            self.error(
                "bad-target",
                "only a name can be declared",
                target.span,
                "this is no name",
            );
        }
        Box::new(StmtKind::Declare { target, ty })
    }

    fn check_target(&mut self, target: &Expr) {
        match &target.kind {
            ExprKind::Name(_) | ExprKind::Index { .. } | ExprKind::Error => {}
            ExprKind::Tuple { items, .. } | ExprKind::List(items) => {
                for item in items {
                    self.check_target(item);
                }
            }
            _ => self.error(
                "bad-target",
                "only names, tuples of names and elements can be assigned",
                target.span,
                "cannot be assigned",
            ),
        }
    }

    /// `import …`, kept as text.
    pub fn import(&self, lo: u32, hi: u32) -> Box<StmtKind> {
        let text = &self.src[lo as usize..hi as usize];
        let words: Vec<&str> = text.split_whitespace().collect();
        Box::new(StmtKind::Import(words.join(" ")))
    }

    /// `elif c: …` as the statement alone in an `else`.
    pub fn elif(
        &self,
        lo: u32,
        cond: Expr,
        then: Vec<Stmt>,
        orelse: Vec<Stmt>,
        hi: u32,
    ) -> Vec<Stmt> {
        vec![*self.stmt(lo, if_stmt(cond, then, orelse), hi)]
    }

    /// `: stmt` on one line.
    pub fn line_block(&self, lo: u32, kind: Box<StmtKind>, hi: u32) -> Vec<Stmt> {
        vec![*self.stmt(lo + 1, kind, hi)]
    }

    /// A line that did not parse.
    pub fn error_stmt(
        &mut self,
        lo: u32,
        error: ErrorRecovery<u32, Tok<'a>, ()>,
        hi: u32,
    ) -> Box<Stmt> {
        self.errors.push(error.error);
        Box::new(Stmt::new(StmtKind::Error).at(self.span(lo, hi)))
    }

    /// `@R.function def name(…): …`
    // The grammar hands parameters over one by one, each boxed.
    #[allow(clippy::too_many_arguments, clippy::vec_box)]
    pub fn func(
        &mut self,
        lo: u32,
        decorators: Vec<Expr>,
        name: (u32, Name, u32),
        params: Vec<Box<Param>>,
        ret: Option<Expr>,
        mut body: Vec<Stmt>,
        hi: u32,
    ) -> Box<Stmt> {
        let (name_lo, name, name_hi) = name;
        let mut func = Func::new(FuncKind::Local, name);
        for decorator in decorators {
            let (path, args) = split_decorator(&decorator);
            match path.as_deref() {
                Some("R.function") => func.kind = FuncKind::Graph,
                Some("T.prim_func") => func.kind = FuncKind::Loops,
                _ => self.unknown_decorator(&decorator),
            }
            func.decorator = args;
        }
        func.doc = take_doc(&mut body);
        func.params = unbox(params);
        func.ret = ret;
        func.body = body;
        func.span = self.span(lo, hi);
        func.name_span = self.span(name_lo, name_hi);
        let span = func.span;
        Box::new(Stmt::new(StmtKind::Func(Box::new(func))).at(span))
    }

    fn unknown_decorator(&mut self, decorator: &Expr) {
        self.diagnostics.push(
            Diagnostic::error("unknown-decorator", "this decorator has no meaning here")
                .at(decorator.span, "not known")
                .note(
                    "functions take `@R.function` or `@T.prim_func`, a class takes `@I.ir_module`",
                ),
        );
    }

    /// `@I.ir_module class Name: …`
    pub fn class(
        &mut self,
        lo: u32,
        decorators: Vec<Expr>,
        name: Name,
        bases: Option<Vec<Expr>>,
        body: Vec<Stmt>,
        hi: u32,
    ) -> Box<Stmt> {
        let span = self.span(lo, hi);
        for decorator in &decorators {
            if split_decorator(decorator).0.as_deref() != Some("I.ir_module") {
                self.unknown_decorator(decorator);
            }
        }
        if let Some(base) = bases.as_ref().and_then(|bases| bases.first()) {
            self.error(
                "class-base",
                "a module has no base class",
                base.span,
                "remove this",
            );
        }
        if let Some(first) = &self.class {
            let diagnostic = Diagnostic::error("second-module", "a file holds one module")
                .at(self.span(lo, lo + 1), "second class")
                .related(
                    first.span.map(|span| Span {
                        hi: span.lo + 1,
                        ..span
                    }),
                    "first class",
                );
            self.diagnostics.push(diagnostic);
        } else {
            self.class = Some(Class { name, body, span });
        }
        Box::new(Stmt::new(StmtKind::Error).at(span))
    }

    /// One parameter.
    pub fn param(
        &self,
        lo: u32,
        name: Name,
        ty: Option<Expr>,
        default: Option<Expr>,
        hi: u32,
    ) -> Box<Param> {
        Box::new(Param {
            name,
            ty,
            default,
            trivia: Trivia::default(),
            span: self.span(lo, hi),
        })
    }

    // ---- expressions ----

    /// An expression at its place.
    pub fn expr(&self, lo: u32, kind: ExprKind, hi: u32) -> Expr {
        Expr::new(kind).at(self.span(lo, hi))
    }

    /// A name.
    pub fn name(&mut self, lo: u32, text: &'a str, hi: u32) -> Expr {
        let name = self.intern(text);
        self.expr(lo, ExprKind::Name(name), hi)
    }

    /// An integer literal.
    pub fn int(&mut self, lo: u32, text: &str, hi: u32) -> Expr {
        let value = literal::parse_int(text).unwrap_or_else(|| {
            let span = self.span(lo, hi);
            self.error(
                "bad-number",
                "this integer has more than 127 bits",
                span,
                "too large",
            );
            0
        });
        self.expr(lo, ExprKind::Int(value), hi)
    }

    /// A float literal.
    pub fn float(&self, lo: u32, text: &str, hi: u32) -> Expr {
        let value = literal::parse_float(text);
        self.expr(lo, ExprKind::Float(value), hi)
    }

    /// String literals beside each other are one string.
    pub fn str(&mut self, lo: u32, texts: Vec<&str>, hi: u32) -> Expr {
        let mut value = String::new();
        for text in texts {
            if let Err(escape) = literal::parse_str(text, &mut value) {
                let span = self.span(lo, hi);
                let message = format!("`{escape}` is no escape of a string");
                self.error("bad-escape", message, span, "in this string");
            }
        }
        self.expr(lo, ExprKind::Str(value), hi)
    }

    /// `value.name`, in today's spelling; `I.inf` and `I.nan` are literals.
    pub fn attr(&self, lo: u32, mut value: Expr, name: Name, hi: u32) -> Expr {
        let mut name = name;
        if let ExprKind::Name(base) = &mut value.kind {
            if let Some((_, today)) = NAMESPACE_ALIASES.iter().find(|(old, _)| *base == *old) {
                *base = Name::from(*today);
            }
            if let Some((_, _, today)) = ALIASES
                .iter()
                .find(|(space, old, _)| *base == *space && name == *old)
            {
                name = Name::from(*today);
            }
            match (base.as_str(), name.as_str()) {
                ("I", "inf") => return self.expr(lo, ExprKind::Float(f64::INFINITY), hi),
                ("I", "nan") => return self.expr(lo, ExprKind::Float(f64::NAN), hi),
                _ => {}
            }
        }
        let value = Box::new(value);
        self.expr(lo, ExprKind::Attr { value, name }, hi)
    }

    /// `func(args)`; `R.Prim("int64")` is today's `T.int64`.
    pub fn call(&mut self, lo: u32, func: Expr, args: Vec<Arg>, hi: u32) -> Expr {
        self.check_args(&args);
        if let ([Arg { name: None, value }], ExprKind::Attr { name, .. }) =
            (args.as_slice(), &func.kind)
            && name == "Prim"
            && let Some(dtype) = value.as_str()
        {
            return Expr::path(&format!("T.{dtype}")).at(self.span(lo, hi));
        }
        let func = Box::new(func);
        self.expr(lo, ExprKind::Call { func, args }, hi)
    }

    /// Positional arguments come first, and a keyword stands once.
    fn check_args(&mut self, args: &[Arg]) {
        let Some(first) = args.iter().position(|arg| arg.name.is_some()) else {
            return;
        };
        for (at, arg) in args.iter().enumerate().skip(first) {
            let Some(name) = &arg.name else {
                let span = arg.value.span;
                let message = "arguments without a keyword come before those with one";
                self.error("argument-order", message, span, "has no keyword");
                continue;
            };
            if args[first..at]
                .iter()
                .any(|earlier| earlier.name.as_ref() == Some(name))
            {
                let message = format!("the keyword `{name}` is given twice");
                self.error("duplicate-keyword", message, arg.value.span, "given again");
            }
        }
    }

    /// `value[index]`; `value[()]` has no index.
    pub fn index(&mut self, lo: u32, value: Expr, mut index: Vec<Expr>, hi: u32) -> Expr {
        if index.is_empty() {
            let span = self.span(lo, hi);
            self.error(
                "empty-index",
                "an index is needed here; `[()]` for none",
                span,
                "no index",
            );
        }
        if let [
            Expr {
                kind: ExprKind::Tuple { items, .. },
                ..
            },
        ] = index.as_slice()
            && items.is_empty()
        {
            index.clear();
        }
        let value = Box::new(value);
        self.expr(lo, ExprKind::Index { value, index }, hi)
    }

    /// `first:last:step`
    pub fn slice(
        &self,
        lo: u32,
        first: Option<Expr>,
        last: Option<Expr>,
        step: Option<Expr>,
        hi: u32,
    ) -> Expr {
        let kind = ExprKind::Slice {
            lo: first.map(Box::new),
            hi: last.map(Box::new),
            step: step.map(Box::new),
        };
        self.expr(lo, kind, hi)
    }

    /// `(a, b)`
    pub fn tuple(&self, lo: u32, items: Vec<Expr>, hi: u32) -> Expr {
        let parens = true;
        self.expr(lo, ExprKind::Tuple { items, parens }, hi)
    }

    /// `(first, rest…)`
    pub fn tuple_of(&self, lo: u32, first: Expr, mut rest: Vec<Expr>, hi: u32) -> Expr {
        rest.insert(0, first);
        self.tuple(lo, rest, hi)
    }

    /// `first, rest…` without parentheses
    pub fn open_tuple(&self, lo: u32, first: Expr, mut rest: Vec<Expr>, hi: u32) -> Expr {
        rest.insert(0, first);
        let (items, parens) = (rest, false);
        self.expr(lo, ExprKind::Tuple { items, parens }, hi)
    }

    /// `(inner)`: parentheses leave no node, only a wider place.
    pub fn paren(&mut self, lo: u32, inner: Expr, hi: u32) -> Expr {
        if let ExprKind::Starred(_) = inner.kind {
            self.error(
                "bad-star",
                "`*` needs a list of values around it",
                inner.span,
                "stands alone",
            );
        }
        inner.at(self.span(lo, hi))
    }

    /// `a if c else b`
    pub fn if_else(&self, lo: u32, then: Expr, cond: Expr, orelse: Expr, hi: u32) -> Expr {
        let kind = ExprKind::IfElse {
            cond: Box::new(cond),
            then: Box::new(then),
            orelse: Box::new(orelse),
        };
        self.expr(lo, kind, hi)
    }

    /// `[element for target in iter if cond]`
    pub fn list_comp(
        &self,
        lo: u32,
        element: Expr,
        target: Expr,
        iter: Expr,
        cond: Option<Expr>,
        hi: u32,
    ) -> Expr {
        let kind = ExprKind::ListComp {
            element: Box::new(element),
            target: Box::new(target),
            iter: Box::new(iter),
            cond: cond.map(Box::new),
        };
        self.expr(lo, kind, hi)
    }

    /// Applies precedence to an operator chain.
    pub fn fold(&mut self, chain: Chain) -> Expr {
        match chain {
            Chain::One(expr) => expr,
            Chain::Many(parts) => {
                let mut parts = parts.into_iter().peekable();
                self.fold_from(&mut parts, 0)
            }
        }
    }

    /// Reads the longest expression whose operators bind at least as tightly as `min`.
    fn fold_from(&mut self, parts: &mut Parts, min: u8) -> Expr {
        let mut lhs = match parts.next() {
            Some(Part::Operand(expr)) => expr,
            Some(Part::Prefix(lo, op)) => {
                let value = self.fold_from(parts, op.level());
                self.unary(lo, op, value)
            }
            Some(Part::Infix(_)) | None => Expr::new(ExprKind::Error),
        };
        let mut compared = false;
        while let Some(Part::Infix(op)) = parts.peek() {
            let mut op = *op;
            let level = op.level();
            if level < min {
                break;
            }
            parts.next();
            if op == BinaryOp::Is && matches!(parts.peek(), Some(Part::Prefix(_, UnaryOp::Not))) {
                parts.next();
                op = BinaryOp::IsNot;
            }
            let rhs = self.fold_from(parts, if level == POW_LEVEL { level } else { level + 1 });
            if level == COMPARE_LEVEL && compared {
                let (span, label) = (rhs.span, "second comparison");
                self.error(
                    "chained-compare",
                    "comparisons do not chain; join two with `and`",
                    span,
                    label,
                );
            }
            compared = level == COMPARE_LEVEL;
            lhs = binary(op, lhs, rhs);
        }
        lhs
    }

    /// A prefix operator; a sign in front of a number becomes part of it.
    fn unary(&self, lo: u32, op: UnaryOp, value: Expr) -> Expr {
        let hi = value.span.map_or(lo, |span| span.hi);
        let kind = match value.kind {
            ExprKind::Int(n) if op == UnaryOp::Neg && n >= 0 => ExprKind::Int(-n),
            ExprKind::Float(x) if op == UnaryOp::Neg && !x.is_sign_negative() => {
                ExprKind::Float(-x)
            }
            _ => ExprKind::Unary {
                op,
                value: Box::new(value),
            },
        };
        self.expr(lo, kind, hi)
    }
}

type Parts = std::iter::Peekable<std::vec::IntoIter<Part>>;

fn binary(op: BinaryOp, lhs: Expr, rhs: Expr) -> Expr {
    let span = lhs
        .span
        .zip(rhs.span)
        .map(|(lhs, rhs)| Span { hi: rhs.hi, ..lhs });
    Expr::binary(op, lhs, rhs).at(span)
}

/// `chain op operand`
pub fn infix(chain: Chain, op: BinaryOp, operand: Chain) -> Chain {
    let mut parts = chain.into_parts();
    parts.push(Part::Infix(op));
    match operand {
        Chain::One(expr) => parts.push(Part::Operand(expr)),
        Chain::Many(more) => parts.extend(more),
    }
    Chain::Many(parts)
}

/// `op operand`
pub fn prefix(lo: u32, op: UnaryOp, operand: Chain) -> Chain {
    let mut parts = vec![Part::Prefix(lo, op)];
    parts.extend(operand.into_parts());
    Chain::Many(parts)
}

impl Chain {
    fn into_parts(self) -> Vec<Part> {
        match self {
            Chain::One(expr) => vec![Part::Operand(expr)],
            Chain::Many(parts) => parts,
        }
    }
}

/// `name=value`, in today's spelling.
pub fn keyword(name: Name, value: Expr) -> Arg {
    let today = KEYWORD_ALIASES.iter().find(|(old, _)| name == *old);
    let name = Some(today.map_or(name, |(_, today)| Name::from(*today)));
    Arg { name, value }
}

/// `if cond: then else: orelse`
pub fn if_stmt(cond: Expr, then: Vec<Stmt>, orelse: Vec<Stmt>) -> Box<StmtKind> {
    let else_trivia = Trivia::default();
    Box::new(StmtKind::If {
        cond,
        then,
        orelse,
        else_trivia,
    })
}

/// `for target in iter: body`
pub fn for_stmt(target: Expr, iter: Expr, body: Vec<Stmt>) -> Box<StmtKind> {
    Box::new(StmtKind::For { target, iter, body })
}

/// `while cond: body`
pub fn while_stmt(cond: Expr, body: Vec<Stmt>) -> Box<StmtKind> {
    Box::new(StmtKind::While { cond, body })
}

/// `with context as target: body`
pub fn with_stmt(context: Expr, target: Option<Expr>, body: Vec<Stmt>) -> Box<StmtKind> {
    Box::new(StmtKind::With {
        context,
        target,
        body,
    })
}

/// The values out of the boxes that keep the parser's stack small.
#[allow(clippy::vec_box)]
pub fn unbox<T>(boxes: Vec<Box<T>>) -> Vec<T> {
    boxes.into_iter().map(|value| *value).collect()
}

/// The dotted name and the arguments of a decorator.
fn split_decorator(decorator: &Expr) -> (Option<String>, Vec<Arg>) {
    match decorator.as_call() {
        Some((path, args)) => (Some(path), args.to_vec()),
        None => (decorator.as_path(), Vec::new()),
    }
}

/// Takes the docstring off the head of a body.
pub fn take_doc(body: &mut Vec<Stmt>) -> Option<String> {
    let text = match &body.first()?.kind {
        StmtKind::Expr(expr) => literal::clean_doc(expr.as_str()?),
        _ => return None,
    };
    body.remove(0);
    Some(text)
}
