//! A graph function as what it computes: operators, and which value each takes. `read` makes it of a text.

use std::collections::HashMap;

use irc_syntax::{Expr, Func, Name};

use crate::tensor::Tensor;

/// The whole value of a node or parameter, not a member of a tuple.
pub(super) const WHOLE: i32 = -1;

/// What an operator takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Value {
    /// A node's result, or a member of it.
    Node(usize, i32),
    /// A parameter, or a member of it.
    Param(usize, i32),
    /// A constant.
    Const(usize),
    /// A number or text among tensors.
    Literal(String),
}

/// An operand with the name of the argument that it stands for.
pub(super) struct Operand {
    pub(super) key: String,
    pub(super) value: Value,
}

/// What is no operand.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Attr {
    /// Canonical text, with `$0` for values in it.
    Text(String),
    /// A function of the module.
    Func(Name),
}

/// One operator.
pub(super) struct Node<'m> {
    /// `R.nn.relu`, `call`, `if`, `return` …
    pub(super) op: String,
    /// The names of its results.
    pub(super) names: Vec<Name>,
    pub(super) attrs: Vec<(String, Attr)>,
    pub(super) operands: Vec<Operand>,
    /// The block it stands in.
    pub(super) region: usize,
    /// Whether the first two operands may be swapped.
    pub(super) commutes: bool,
    /// The call as it is written.
    pub(super) written: Option<&'m Expr>,
}

/// A constant, by its content.
pub(super) struct Const {
    pub(super) tensor: Tensor,
    /// The first name it is bound to.
    pub(super) name: Option<Name>,
}

/// A block: the function's body, a branch, the body of a local function.
pub(super) struct Region {
    /// `then`, `else`, `def`, with those around it in front.
    pub(super) label: String,
}

/// A function.
pub(super) struct Graph<'m> {
    pub(super) nodes: Vec<Node<'m>>,
    pub(super) consts: Vec<Const>,
    pub(super) params: Vec<Name>,
    /// How many leading parameters are inputs; the others are weights.
    pub(super) n_inputs: usize,
    pub(super) regions: Vec<Region>,
    /// Who takes each node: user, and which of its operands.
    pub(super) users: Vec<Vec<(usize, usize)>>,
    /// Who takes each parameter.
    pub(super) param_users: Vec<Vec<(usize, usize)>>,
    /// Who takes each constant.
    pub(super) const_users: Vec<Vec<(usize, usize)>>,
    /// The statements that place tensors in memory.
    pub(super) places: Vec<String>,
}

/// Names of symbols that stand for others.
pub(super) type Renames = HashMap<Name, Name>;

/// How many leading parameters of a function are inputs; all of them where it does not say.
pub(super) fn n_inputs(func: &Func) -> usize {
    let stated = func.attr("num_input").and_then(Expr::as_int);
    let stated = stated.and_then(|n| usize::try_from(n).ok());
    stated.unwrap_or(func.params.len()).min(func.params.len())
}

/// A text in one line.
pub(super) fn flat(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    line.replace("( ", "(")
        .replace(" )", ")")
        .replace("[ ", "[")
        .replace(" ]", "]")
        .replace(",)", ")")
        .replace(",]", "]")
}
