//! Small constructors and readers of tree nodes: what passes and the ONNX import build with.
//!
//! Nothing made here has a span; a pass that replaces a node gives it the span of the node it came from
//! ([`Expr::at`], [`Stmt::at`]).

use crate::ast::*;

impl Expr {
    /// The node of a kind, without a place.
    pub fn new(kind: ExprKind) -> Self {
        Self {
            kind,
            span: None,
            trivia: None,
        }
    }

    /// The same node at a place.
    pub fn at(mut self, span: Option<Span>) -> Self {
        self.span = span;
        self
    }

    /// `name`, or a chain of members when the text has dots: `R.nn.relu`.
    pub fn path(text: &str) -> Self {
        let mut parts = text.split('.');
        let first = Self::name(parts.next().unwrap_or_default());
        parts.fold(first, |value, name| {
            Self::new(ExprKind::Attr {
                value: Box::new(value),
                name: Name::from(name),
            })
        })
    }

    /// A plain name; dots are not looked at.
    pub fn name(name: impl Into<Name>) -> Self {
        Self::new(ExprKind::Name(name.into()))
    }

    /// An integer.
    pub fn int(value: impl Into<i128>) -> Self {
        Self::new(ExprKind::Int(value.into()))
    }

    /// A float.
    pub fn float(value: f64) -> Self {
        Self::new(ExprKind::Float(value))
    }

    /// `True` or `False`.
    pub fn bool(value: bool) -> Self {
        Self::new(ExprKind::Bool(value))
    }

    /// A string.
    pub fn str(text: impl Into<String>) -> Self {
        Self::new(ExprKind::Str(text.into()))
    }

    /// `None`.
    pub fn none() -> Self {
        Self::new(ExprKind::None)
    }

    /// `[a, b]`.
    pub fn list(items: impl IntoIterator<Item = Expr>) -> Self {
        Self::new(ExprKind::List(items.into_iter().collect()))
    }

    /// `(a, b)`.
    pub fn tuple(items: impl IntoIterator<Item = Expr>) -> Self {
        Self::new(ExprKind::Tuple {
            items: items.into_iter().collect(),
            parens: true,
        })
    }

    /// `{"k": v}`.
    pub fn dict(items: impl IntoIterator<Item = (String, Expr)>) -> Self {
        Self::new(ExprKind::Dict(
            items
                .into_iter()
                .map(|(key, value)| (Self::str(key), value))
                .collect(),
        ))
    }

    /// `value[i, j]`.
    pub fn index(value: Expr, index: impl IntoIterator<Item = Expr>) -> Self {
        Self::new(ExprKind::Index {
            value: Box::new(value),
            index: index.into_iter().collect(),
        })
    }

    /// `lhs op rhs`.
    pub fn binary(op: BinaryOp, lhs: Expr, rhs: Expr) -> Self {
        Self::new(ExprKind::Binary {
            op,
            lhs: Box::new(lhs),
            rhs: Box::new(rhs),
        })
    }

    /// `op value`.
    pub fn unary(op: UnaryOp, value: Expr) -> Self {
        Self::new(ExprKind::Unary {
            op,
            value: Box::new(value),
        })
    }

    /// `path(a, b)` with positional arguments.
    pub fn call(path: &str, args: impl IntoIterator<Item = Expr>) -> Self {
        let args = args
            .into_iter()
            .map(|value| Arg { name: None, value })
            .collect();
        Self::new(ExprKind::Call {
            func: Box::new(Self::path(path)),
            args,
        })
    }

    /// The same call with one more keyword argument; other expressions stay as they are.
    pub fn with(mut self, key: &str, value: Expr) -> Self {
        if let ExprKind::Call { args, .. } = &mut self.kind {
            args.push(Arg {
                name: Some(Name::from(key)),
                value,
            });
        }
        self
    }

    /// The dotted text of a name or chain of members; `None` for anything else.
    pub fn as_path(&self) -> Option<String> {
        match &self.kind {
            ExprKind::Name(name) => Some(name.to_string()),
            ExprKind::Attr { value, name } => {
                let mut path = value.as_path()?;
                path.push('.');
                path.push_str(name);
                Some(path)
            }
            _ => None,
        }
    }

    /// The name, where the expression is one.
    pub fn as_name(&self) -> Option<&Name> {
        if let ExprKind::Name(name) = &self.kind {
            Some(name)
        } else {
            None
        }
    }

    /// The integer, where the expression is one; `-3` is read as one too.
    pub fn as_int(&self) -> Option<i128> {
        match &self.kind {
            ExprKind::Int(value) => Some(*value),
            ExprKind::Unary {
                op: UnaryOp::Neg,
                value,
            } => Some(-value.as_int()?),
            _ => None,
        }
    }

    /// The string, where the expression is one.
    pub fn as_str(&self) -> Option<&str> {
        if let ExprKind::Str(text) = &self.kind {
            Some(text)
        } else {
            None
        }
    }

    /// The elements of a list or tuple.
    pub fn as_items(&self) -> Option<&[Expr]> {
        match &self.kind {
            ExprKind::List(items) | ExprKind::Tuple { items, .. } => Some(items),
            _ => None,
        }
    }

    /// The dotted callee and the arguments of a call: `("R.nn.relu", [x])`.
    pub fn as_call(&self) -> Option<(String, &[Arg])> {
        if let ExprKind::Call { func, args } = &self.kind {
            Some((func.as_path()?, args))
        } else {
            None
        }
    }

    /// Whether this is a call of the given dotted name.
    pub fn is_call_of(&self, path: &str) -> bool {
        self.as_call().is_some_and(|(callee, _)| callee == path)
    }

    /// The value of a keyword argument of a call.
    pub fn keyword(&self, key: &str) -> Option<&Expr> {
        let ExprKind::Call { args, .. } = &self.kind else {
            return None;
        };
        args.iter()
            .find(|arg| arg.name.as_ref().is_some_and(|name| name == key))
            .map(|arg| &arg.value)
    }

    /// The positional arguments of a call, in order.
    pub fn positional(&self) -> impl Iterator<Item = &Expr> {
        let args = if let ExprKind::Call { args, .. } = &self.kind {
            args.as_slice()
        } else {
            &[]
        };
        args.iter()
            .filter(|arg| arg.name.is_none())
            .map(|arg| &arg.value)
    }
}

impl Stmt {
    /// The statement of a kind, without a place.
    pub fn new(kind: StmtKind) -> Self {
        Self {
            kind,
            trivia: Trivia::default(),
            span: None,
        }
    }

    /// The same statement at a place.
    pub fn at(mut self, span: Option<Span>) -> Self {
        self.span = span;
        self
    }

    /// `name = value`.
    pub fn bind(name: impl Into<Name>, value: Expr) -> Self {
        Self::assign(Expr::name(name), value)
    }

    /// `target = value`.
    pub fn assign(target: Expr, value: Expr) -> Self {
        Self::new(StmtKind::Assign {
            target,
            ty: None,
            value,
        })
    }

    /// A call for its effect.
    pub fn expr(value: Expr) -> Self {
        Self::new(StmtKind::Expr(value))
    }

    /// `return value`.
    pub fn ret(value: Expr) -> Self {
        Self::new(StmtKind::Return(Some(value)))
    }
}

impl Func {
    /// A function without parameters, decorator arguments or body.
    pub fn new(kind: FuncKind, name: impl Into<Name>) -> Self {
        Self {
            kind,
            decorator: Vec::new(),
            name: name.into(),
            params: Vec::new(),
            ret: None,
            doc: None,
            body: Vec::new(),
            trivia: Trivia::default(),
            span: None,
            name_span: None,
        }
    }

    /// An argument of the decorator: `private`, `op`, `since`.
    pub fn decorator_arg(&self, key: &str) -> Option<&Expr> {
        self.decorator
            .iter()
            .find(|arg| arg.name.as_ref().is_some_and(|name| name == key))
            .map(|arg| &arg.value)
    }

    /// Whether the decorator says `private=True`.
    pub fn is_private(&self) -> bool {
        self.decorator_arg("private")
            .is_some_and(|value| value.kind == ExprKind::Bool(true))
    }

    /// The dictionary of `R.func_attr({…})` or `T.func_attr({…})`, looked for at the head of the body.
    pub fn attr(&self, key: &str) -> Option<&Expr> {
        self.body.iter().find_map(|stmt| {
            let StmtKind::Expr(call) = &stmt.kind else {
                return None;
            };
            let (path, args) = call.as_call()?;
            if path != "R.func_attr" && path != "T.func_attr" {
                return None;
            }
            let ExprKind::Dict(items) = &args.first()?.value.kind else {
                return None;
            };
            items
                .iter()
                .find(|(name, _)| name.as_str() == Some(key))
                .map(|(_, value)| value)
        })
    }
}

impl Param {
    /// A parameter with its annotation.
    pub fn new(name: impl Into<Name>, ty: Expr) -> Self {
        Self {
            name: name.into(),
            ty: Some(ty),
            default: None,
            trivia: Trivia::default(),
            span: None,
        }
    }
}

impl Module {
    /// The functions in written order.
    pub fn funcs(&self) -> impl Iterator<Item = &Func> {
        self.items.iter().filter_map(|item| {
            if let Item::Func(func) = item {
                Some(func)
            } else {
                None
            }
        })
    }

    /// The functions in written order, to change.
    pub fn funcs_mut(&mut self) -> impl Iterator<Item = &mut Func> {
        self.items.iter_mut().filter_map(|item| {
            if let Item::Func(func) = item {
                Some(func)
            } else {
                None
            }
        })
    }

    /// The function of a name.
    pub fn find_func(&self, name: &str) -> Option<&Func> {
        self.funcs().find(|func| func.name == *name)
    }

    /// The value of a key in `I.module_attrs({…})`.
    pub fn attr(&self, key: &str) -> Option<&Expr> {
        self.items.iter().find_map(|item| {
            let Item::Stmt(Stmt {
                kind: StmtKind::Expr(call),
                ..
            }) = item
            else {
                return None;
            };
            let (path, args) = call.as_call()?;
            let ExprKind::Dict(items) = &args.first()?.value.kind else {
                return None;
            };
            if path != "I.module_attrs" {
                return None;
            }
            items
                .iter()
                .find(|(name, _)| name.as_str() == Some(key))
                .map(|(_, value)| value)
        })
    }
}
