//! The one syntax tree of irc: Python's shape, generic at the expression level.
//!
//! Data only. What is here prints and parses back; what can be recomputed (types, proofs, liveness) lives in
//! side tables of other modules. Comments and blank lines are fields ([`Trivia`]) of the node they belong to,
//! so that a rewrite moves or drops them on purpose.
//!
//! Types, dims and attributes are expressions too (`R.Tensor((n, 4), dtype="float32")`): `check` gives them
//! meaning. Operators are dotted names (`R.nn.softmax`) looked up in the library, so the tree does not grow
//! with them. Builders are in `make.rs`, walks in `visit.rs`, equality that ignores spans in `same.rs`.

use std::fmt;
use std::num::NonZeroU32;
use std::ops::Deref;
use std::sync::Arc;

/// The name of a value, function, dim or operator part. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Arc<str>);

impl Name {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for Name {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Self(Arc::from(text))
    }
}

impl From<String> for Name {
    fn from(text: String) -> Self {
        Self(Arc::from(text))
    }
}

impl From<&Name> for Name {
    fn from(name: &Name) -> Self {
        name.clone()
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        &*self.0 == other
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, other: &&str) -> bool {
        &*self.0 == *other
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// The source text a span points into; an index of the `SourceMap`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct FileId(pub NonZeroU32);

/// A byte range of one source text. Nodes made by a pass have none (`Option<Span>`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Span {
    /// The text it points into.
    pub file: FileId,
    /// First byte.
    pub lo: u32,
    /// One past the last byte.
    pub hi: u32,
}

/// Comments and blank lines that belong to a node.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Trivia {
    /// Lines before the node, in order.
    pub leading: Vec<TriviaLine>,
    /// The comment on the node's last line, without the `#`.
    pub trailing: Option<String>,
    /// Comments inside an otherwise empty block, or after the last statement or element of one.
    pub dangling: Vec<TriviaLine>,
}

/// One line of trivia.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TriviaLine {
    /// An empty line; the printer folds runs of them.
    Blank,
    /// `# text`, without the `#` and as written otherwise.
    Comment(String),
}

/// A whole file: what stands before the module, and the module's items.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Module {
    /// The name after `class`; `None` for a file of bare functions, with no `@I.ir_module`.
    pub name: Option<Name>,
    /// Statements before the module: `n = TypeVar("n")`, `metadata = …`, imports.
    pub prelude: Vec<Stmt>,
    /// `I.module_attrs(…)`, functions, and statements that did not parse, in written order.
    pub items: Vec<Item>,
    /// The docstring of the class.
    pub doc: Option<String>,
    /// Comments of the class line, and dangling ones at the end of the file.
    pub trivia: Trivia,
    /// The whole module.
    pub span: Option<Span>,
}

/// One member of a module.
#[derive(Clone, PartialEq, Debug)]
pub enum Item {
    /// `@R.function def f(…): …` or `@T.prim_func def f(…): …`
    Func(Func),
    /// `I.module_attrs({…})`, `I.module_global_infos({…})`, or a statement in error.
    Stmt(Stmt),
}

/// A function of either level.
#[derive(Clone, PartialEq, Debug)]
pub struct Func {
    /// What the decorator says.
    pub kind: FuncKind,
    /// Arguments of the decorator: `private=True`, `op="R.nn.softmax"`.
    pub decorator: Vec<Arg>,
    /// The name after `def`.
    pub name: Name,
    /// Parameters in order.
    pub params: Vec<Param>,
    /// The annotation after `->`.
    pub ret: Option<Expr>,
    /// The docstring.
    pub doc: Option<String>,
    /// The body; never empty in a checked module.
    pub body: Vec<Stmt>,
    /// Comments of the decorator line, and dangling ones at the end of the body.
    pub trivia: Trivia,
    /// From the decorator to the end of the body.
    pub span: Option<Span>,
    /// The name after `def`.
    pub name_span: Option<Span>,
}

/// The level a function is written at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FuncKind {
    /// `@R.function`: tensors.
    Graph,
    /// `@T.prim_func`: loops over buffers.
    Loops,
    /// `def` without a decorator: a helper inside a template.
    Local,
}

/// One parameter: `x: R.Tensor((n, 4), dtype="float32") = None`.
#[derive(Clone, PartialEq, Debug)]
pub struct Param {
    /// The parameter's name.
    pub name: Name,
    /// The annotation.
    pub ty: Option<Expr>,
    /// The default; only templates of the library have one.
    pub default: Option<Expr>,
    /// Comments of the parameter.
    pub trivia: Trivia,
    /// The whole parameter.
    pub span: Option<Span>,
}

/// A statement.
#[derive(Clone, PartialEq, Debug)]
pub struct Stmt {
    /// What it is.
    pub kind: StmtKind,
    /// Comments and blank lines around it.
    pub trivia: Trivia,
    /// Where it was written.
    pub span: Option<Span>,
}

/// The kinds of statement.
#[derive(Clone, PartialEq, Debug)]
pub enum StmtKind {
    /// `x = e`, `x: T = e`, `a, b = e`, `B[i, j] = e`
    Assign {
        /// A name, a tuple of names, or a subscript.
        target: Expr,
        /// The annotation.
        ty: Option<Expr>,
        /// The right-hand side.
        value: Expr,
    },
    /// `x: T.int32` without a value.
    Declare {
        /// The declared name.
        target: Expr,
        /// Its annotation.
        ty: Expr,
    },
    /// A call or other expression for its effect: `R.output(gv)`.
    Expr(Expr),
    /// `if c: … else: …`; `elif` is an `If` alone in `orelse`.
    If {
        /// The condition.
        cond: Expr,
        /// Taken when it holds.
        then: Vec<Stmt>,
        /// Taken otherwise; empty when there is no `else`.
        orelse: Vec<Stmt>,
        /// Comments on the `else:` line.
        else_trivia: Trivia,
    },
    /// `for i, j in T.grid(n, 4): …`
    For {
        /// A name or a tuple of names.
        target: Expr,
        /// `range(…)`, `T.grid(…)`, `T.parallel(…)` …
        iter: Expr,
        /// The loop's body.
        body: Vec<Stmt>,
    },
    /// `while c: …`
    While {
        /// The condition.
        cond: Expr,
        /// The loop's body.
        body: Vec<Stmt>,
    },
    /// `with R.dataflow(): …`, `with T.sblock("b") as v: …`
    With {
        /// The context.
        context: Expr,
        /// The target after `as`.
        target: Option<Expr>,
        /// The block.
        body: Vec<Stmt>,
    },
    /// `return e`
    Return(Option<Expr>),
    /// `assert c, m`
    Assert {
        /// What must hold.
        cond: Expr,
        /// What is said when it does not.
        message: Option<Expr>,
    },
    /// `break`
    Break,
    /// `continue`
    Continue,
    /// `pass`
    Pass,
    /// `import a.b as c`, `from a import b`: kept as written, without meaning.
    Import(String),
    /// A function inside a function.
    Func(Box<Func>),
    /// A line that did not parse; its diagnostic has been reported.
    Error,
}

/// An expression.
#[derive(Clone, PartialEq, Debug)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Where it was written.
    pub span: Option<Span>,
    /// Comments, where it is an element of a bracketed list.
    pub trivia: Option<Box<Trivia>>,
}

/// The kinds of expression.
#[derive(Clone, PartialEq, Debug)]
pub enum ExprKind {
    /// `x`
    Name(Name),
    /// `42`; 128 bits hold every dtype's values.
    Int(i128),
    /// `0.5`; the printer writes the shortest text that reads back to the same bits.
    Float(f64),
    /// `"text"`
    Str(String),
    /// `True`, `False`
    Bool(bool),
    /// `None`
    None,
    /// `...`
    Ellipsis,
    /// `value.name`
    Attr {
        /// The object.
        value: Box<Expr>,
        /// The member.
        name: Name,
    },
    /// `func(a, b, key=c)`
    Call {
        /// The callee, mostly a dotted name.
        func: Box<Expr>,
        /// Positional and keyword arguments in written order.
        args: Vec<Arg>,
    },
    /// `value[i, j:k]`; `value[()]` has an empty list.
    Index {
        /// The indexed value.
        value: Box<Expr>,
        /// Indices and slices.
        index: Vec<Expr>,
    },
    /// `lo:hi:step`, only inside an index.
    Slice {
        /// First.
        lo: Option<Box<Expr>>,
        /// One past the last.
        hi: Option<Box<Expr>>,
        /// Step.
        step: Option<Box<Expr>>,
    },
    /// `(a, b)` or `a, b`
    Tuple {
        /// The elements.
        items: Vec<Expr>,
        /// Whether it was written with parentheses.
        parens: bool,
    },
    /// `[a, b]`
    List(Vec<Expr>),
    /// `{"k": v}`
    Dict(Vec<(Expr, Expr)>),
    /// `-x`, `not x`, `~x`
    Unary {
        /// The operator.
        op: UnaryOp,
        /// Its operand.
        value: Box<Expr>,
    },
    /// `a + b`, `a < b`, `a and b`
    Binary {
        /// The operator.
        op: BinaryOp,
        /// Left operand.
        lhs: Box<Expr>,
        /// Right operand.
        rhs: Box<Expr>,
    },
    /// `a if c else b`, in templates.
    IfElse {
        /// The condition.
        cond: Box<Expr>,
        /// The value when it holds.
        then: Box<Expr>,
        /// The value otherwise.
        orelse: Box<Expr>,
    },
    /// `[e for v in it if c]`, in templates.
    ListComp {
        /// The element.
        element: Box<Expr>,
        /// A name or a tuple of names.
        target: Box<Expr>,
        /// What is walked.
        iter: Box<Expr>,
        /// The filter.
        cond: Option<Box<Expr>>,
    },
    /// `*x` among the arguments of a call or the elements of a list.
    Starred(Box<Expr>),
    /// Text that did not parse; its diagnostic has been reported.
    Error,
}

/// One argument of a call: positional, or `name=value`.
#[derive(Clone, PartialEq, Debug)]
pub struct Arg {
    /// The keyword.
    pub name: Option<Name>,
    /// The value.
    pub value: Expr,
}

/// Prefix operators.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum UnaryOp {
    /// `-x`
    Neg,
    /// `+x`
    Pos,
    /// `not x`
    Not,
    /// `~x`
    Invert,
}

/// Infix operators, loosest last.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BinaryOp {
    /// `a ** b`
    Pow,
    /// `a * b`
    Mul,
    /// `a / b`
    Div,
    /// `a // b`
    FloorDiv,
    /// `a % b`
    Mod,
    /// `a @ b`
    MatMul,
    /// `a + b`
    Add,
    /// `a - b`
    Sub,
    /// `a << b`
    Shl,
    /// `a >> b`
    Shr,
    /// `a & b`
    BitAnd,
    /// `a ^ b`
    BitXor,
    /// `a | b`
    BitOr,
    /// `a == b`
    Eq,
    /// `a != b`
    Ne,
    /// `a < b`
    Lt,
    /// `a <= b`
    Le,
    /// `a > b`
    Gt,
    /// `a >= b`
    Ge,
    /// `a in b`
    In,
    /// `a not in b`
    NotIn,
    /// `a is b`
    Is,
    /// `a is not b`
    IsNot,
    /// `a and b`
    And,
    /// `a or b`
    Or,
}
