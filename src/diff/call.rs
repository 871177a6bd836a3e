//! The arguments of operators: their names, what they are when left out, and which operators commute.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use irc_syntax::{Expr, ExprKind, Module, Name, print_expr};

use crate::check::prim::{Binary, Default, Kind, Prim, slots};
use crate::library::Library;

/// The arguments of operators, each looked up once.
pub(super) struct Ops<'l> {
    lib: &'l Library,
    known: RefCell<HashMap<String, Rc<Shape>>>,
}

/// The arguments of one operator, in order.
#[derive(Default)]
pub(super) struct Shape {
    args: Vec<Arg>,
    /// From this argument on all positional ones belong to it.
    rest: Option<usize>,
    pub(super) commutes: bool,
}

struct Arg {
    name: String,
    aliases: Vec<&'static str>,
    /// The text of its default.
    default: Option<String>,
    is_float: bool,
    is_list: bool,
}

/// Calls that state a type, a shape or a number, not a value of the program.
pub(super) fn is_attribute(path: &str) -> bool {
    const R: [&str; 14] = [
        "R.shape",
        "R.dtype",
        "R.Tensor",
        "R.Tuple",
        "R.Shape",
        "R.Any",
        "R.Object",
        "R.Callable",
        "R.Prim",
        "R.prim_value",
        "R.str",
        "R.Str",
        "R.Seq",
        "R.Opt",
    ];
    path.starts_with("T.") || R.contains(&path)
}

impl<'l> Ops<'l> {
    pub(super) fn new(lib: &'l Library) -> Self {
        Self {
            lib,
            known: RefCell::default(),
        }
    }

    /// The arguments of an operator; none are known for a foreign one.
    pub(super) fn shape(&self, op: &str, _module: &Module) -> Rc<Shape> {
        if let Some(found) = self.known.borrow().get(op) {
            return found.clone();
        }
        let shape = Rc::new(self.look_up(op));
        self.known.borrow_mut().insert(op.to_owned(), shape.clone());
        shape
    }

    fn look_up(&self, op: &str) -> Shape {
        if let Some(prim) = Prim::find(op) {
            return of_prim(prim);
        }
        let Some(template) = self.lib.find(op, None) else {
            return Shape::default();
        };
        let args = template.func.params.iter().map(|param| Arg {
            name: param.name.to_string(),
            aliases: Vec::new(),
            default: param
                .default
                .as_ref()
                .filter(|default| default.kind != ExprKind::None)
                .map(print_list),
            is_float: is_named(param.ty.as_ref(), "float"),
            is_list: is_named(param.ty.as_ref(), "list"),
        });
        Shape {
            args: args.collect(),
            rest: None,
            commutes: false,
        }
    }
}

fn is_named(ty: Option<&Expr>, name: &str) -> bool {
    ty.and_then(Expr::as_name).is_some_and(|ty| *ty == *name)
}

fn of_prim(prim: Prim) -> Shape {
    let slots = slots(prim);
    let args = slots.iter().map(|slot| Arg {
        name: slot.name.to_owned(),
        aliases: slot.aliases.clone(),
        default: match (slot.default, slot.kind) {
            (Default::Required | Default::None, _) => None,
            (Default::Int(value), Kind::Ints | Kind::Dims) => Some(format!("[{value}]")),
            (Default::Int(value), _) => Some(value.to_string()),
            (Default::Float(value), _) => Some(print_expr(&Expr::float(value))),
            (Default::Bool(value), _) => Some(print_expr(&Expr::bool(value))),
            (Default::Str(text), _) => Some(print_expr(&Expr::str(text))),
            (Default::Empty, _) => Some("[]".to_owned()),
        },
        is_float: slot.kind == Kind::Float,
        is_list: matches!(slot.kind, Kind::Ints | Kind::Dims),
    });
    Shape {
        args: args.collect(),
        rest: slots.iter().position(|slot| slot.rest),
        commutes: matches!(
            prim,
            Prim::Binary(
                Binary::Add
                    | Binary::Multiply
                    | Binary::Maximum
                    | Binary::Minimum
                    | Binary::BitwiseAnd
                    | Binary::BitwiseOr
                    | Binary::BitwiseXor
                    | Binary::LogicalAnd
                    | Binary::LogicalOr
                    | Binary::LogicalXor
                    | Binary::Equal
                    | Binary::NotEqual
            )
        ),
    }
}

impl Shape {
    pub(super) fn is_empty(&self) -> bool {
        self.args.is_empty()
    }

    /// The name of a positional argument.
    pub(super) fn key(&self, at: usize) -> String {
        if let Some(rest) = self.rest
            && at >= rest
        {
            let name = self.args.get(rest).map_or("", |arg| arg.name.as_str());
            return format!("{name}[{}]", at - rest);
        }
        match self.args.get(at) {
            Some(arg) => arg.name.clone(),
            None => at.to_string(),
        }
    }

    /// The name of an argument that is given by a name.
    pub(super) fn named(&self, name: &Name) -> String {
        let arg = self
            .args
            .iter()
            .find(|arg| arg.aliases.contains(&name.as_str()));
        arg.map_or_else(|| name.to_string(), |arg| arg.name.clone())
    }

    /// Where an argument stands among the others.
    pub(super) fn rank(&self, key: &str) -> usize {
        let base = key.split('[').next().unwrap_or(key);
        let found = self.args.iter().position(|arg| arg.name == base);
        found.unwrap_or(usize::MAX)
    }

    /// The one text of a number that may be written in several ways.
    pub(super) fn literal(&self, key: &str, value: &Expr) -> Option<String> {
        let arg = self.args.iter().find(|arg| arg.name == key)?;
        let number = value.as_int()?;
        if arg.is_float {
            return Some(print_expr(&Expr::float(number as f64)));
        }
        arg.is_list.then(|| format!("[{number}]"))
    }

    /// Calls `add` with the arguments that are left out and have a default.
    pub(super) fn complete(&self, given: &[String], mut add: impl FnMut(&str, &str)) {
        for arg in &self.args {
            if let Some(default) = &arg.default
                && !given.contains(&arg.name)
            {
                add(&arg.name, default);
            }
        }
    }
}

fn print_list(expr: &Expr) -> String {
    match expr.as_items() {
        Some(items) => format!(
            "[{}]",
            items.iter().map(print_expr).collect::<Vec<_>>().join(", ")
        ),
        None => print_expr(expr),
    }
}
