//! Calls of one prim_func by another: `cls.f(A, B, n)`, or `f(A, B, n)` where functions stand in no class.
//!
//! The callee has slots and views of its own and shares the storage; its symbols are the extents of the buffers it is given.

use std::rc::Rc;

use irc_syntax::{DType, Expr, ExprKind, Func, Name};

use super::expr::{Code, FloatCode, IntCode};
use super::machine::{Machine, Ran, Stop};
use super::stmt::{Run, scalar_type};
use super::{Compiler, Others, buffer_type};
use crate::interp::RunError;

/// How deep calls go, so that one that never ends is an error.
const MAX_DEPTH: usize = 64;

/// What a parameter of a compiled function is.
enum Slot {
    Scalar(usize),
    /// Its number, and what each extent has to be.
    Buffer(usize, Vec<Extent>),
}

enum Extent {
    /// The slot of a symbol that has its value from here.
    Symbol(usize),
    /// What was bound or written before.
    Equal(IntCode),
}

/// A compiled function that others call.
pub(super) struct Callee {
    slots: Vec<Slot>,
    n_slots: usize,
    n_buffers: usize,
    body: Run,
    func: &'static Func,
}

enum Arg {
    Int(IntCode),
    Float(FloatCode),
    Buffer(usize),
}

/// The error of a function whose indices are checked (`irc.checked`): an index outside its axis is the error it names.
pub(super) fn checked_error(func: &Func, error: RunError) -> RunError {
    match func.attr("irc.checked").and_then(Expr::as_str) {
        Some(message) if error.kind == "IndexError" => RunError::value_error(message),
        _ => error,
    }
}

impl Compiler {
    /// Whether a path names a prim_func that can be called from here.
    pub(super) fn can_call(&self, path: &str) -> bool {
        self.find_other(path).is_some()
    }

    fn find_other(&self, path: &str) -> Option<&'static Func> {
        let name = path.strip_prefix("cls.").unwrap_or(path);
        self.others.funcs.iter().find(|func| *func.name == *name)
    }

    /// `f(A, B, n)`; the function is compiled when it is first called.
    pub(super) fn call_other(&mut self, path: &str, expr: &Expr) -> Result<Run, RunError> {
        let func = self
            .find_other(path)
            .ok_or_else(|| RunError::type_error(format!("there is no prim_func `{path}`")))?;
        let given: Vec<&Expr> = expr.positional().collect();
        if given.len() != func.params.len() {
            let message = format!("`{path}` takes {} values", func.params.len());
            return Err(RunError::type_error(message).at(expr.span));
        }
        let mut args = Vec::new();
        for (arg, param) in given.into_iter().zip(&func.params) {
            if buffer_type(func, &param.name, param.ty.as_ref()).is_some() {
                args.push(Arg::Buffer(self.buffer(arg)?.0));
                continue;
            }
            let value = self.expr(arg)?;
            let dtype = param.ty.as_ref().and_then(scalar_type);
            let dtype = dtype.unwrap_or(value.dtype);
            args.push(match value.cast(dtype).code {
                Code::Int(code) => Arg::Int(code),
                Code::Float(code) => Arg::Float(code),
            });
        }
        // What is compiled is kept there, this closure too.
        let (others, span) = (Rc::downgrade(&self.others), expr.span);
        Ok(Box::new(move |m| {
            let gone = || RunError::runtime_error("the functions to call are gone");
            let callee = others.upgrade().ok_or_else(gone)?.callee(func)?;
            callee.run(m, &args).map_err(|stop| match stop {
                Stop::Fault(error) => Stop::from(error.at(span)),
                other => other,
            })
        }))
    }

    fn compile_callee(&mut self, func: &'static Func) -> Result<Callee, RunError> {
        let untyped = |name: &Name| RunError::type_error(format!("`{name}` has no known type"));
        let mut slots = Vec::new();
        for param in &func.params {
            if let Some(decl) = buffer_type(func, &param.name, param.ty.as_ref()) {
                let ty = param.ty.as_ref().ok_or_else(|| untyped(&param.name))?;
                let dtype = self.decl_dtype(ty, 1)?;
                let name = decl.name.as_ref().unwrap_or(&param.name);
                let mut extents = Vec::new();
                for expr in &decl.shape {
                    let sym = match &expr.kind {
                        ExprKind::Name(name) => Some(name.clone()),
                        ExprKind::Str(text) => Some(Name::from(text.as_str())),
                        _ => None,
                    };
                    extents.push(match sym {
                        Some(sym) if !self.scope.contains_key(&sym) => {
                            Extent::Symbol(self.slot(&sym, DType::I64))
                        }
                        _ => Extent::Equal(self.expr(expr)?.into_int()),
                    });
                }
                slots.push(Slot::Buffer(self.new_buffer(name, dtype), extents));
            } else {
                let dtype = param.ty.as_ref().and_then(scalar_type);
                let dtype = dtype.ok_or_else(|| untyped(&param.name))?;
                slots.push(Slot::Scalar(self.slot(&param.name, dtype)));
            }
        }
        let body = self.body(&func.body)?;
        Ok(Callee {
            slots,
            n_slots: self.n_slots,
            n_buffers: self.n_buffers,
            body,
            func,
        })
    }
}

impl Others {
    fn callee(self: &Rc<Self>, func: &'static Func) -> Result<Rc<Callee>, RunError> {
        if let Some(callee) = self.compiled.borrow().get(&func.name) {
            return Ok(callee.clone());
        }
        let mut compiler = Compiler {
            others: self.clone(),
            ..Compiler::default()
        };
        let callee = Rc::new(compiler.compile_callee(func)?);
        let mut compiled = self.compiled.borrow_mut();
        compiled.insert(func.name.clone(), callee.clone());
        Ok(callee)
    }
}

impl Callee {
    fn run(&self, m: &mut Machine, args: &[Arg]) -> Ran {
        let n_storage = m.storage.len();
        if m.depth == MAX_DEPTH {
            let message = format!("`{}` is called too deeply", self.func.name);
            return Err(RunError::runtime_error(message).into());
        }
        let mut inner = Machine {
            depth: m.depth + 1,
            slots: vec![0; self.n_slots],
            views: vec![None; self.n_buffers],
            storage: Vec::new(),
        };
        for (arg, slot) in args.iter().zip(&self.slots) {
            match (arg, slot) {
                (Arg::Int(code), Slot::Scalar(slot)) => inner.slots[*slot] = code(m)? as u64,
                (Arg::Float(code), Slot::Scalar(slot)) => {
                    inner.slots[*slot] = code(m)?.to_bits();
                }
                (Arg::Buffer(from), Slot::Buffer(to, extents)) => {
                    let view = m.view(*from)?.clone();
                    if view.dims.len() != extents.len() {
                        let message =
                            format!("`{}` takes a buffer of another rank", self.func.name);
                        return Err(RunError::type_error(message).into());
                    }
                    for (extent, &dim) in extents.iter().zip(&view.dims) {
                        match extent {
                            Extent::Symbol(slot) => inner.slots[*slot] = dim as u64,
                            Extent::Equal(code) if code(&inner)? == dim => {}
                            Extent::Equal(_) => {
                                let message = "extents of a called function differ";
                                return Err(RunError::value_error(message).into());
                            }
                        }
                    }
                    inner.views[*to] = Some(view);
                }
                (Arg::Buffer(_), Slot::Scalar(_)) | (Arg::Int(_) | Arg::Float(_), _) => {}
            }
        }
        std::mem::swap(&mut inner.storage, &mut m.storage);
        let ran = (self.body)(&mut inner);
        std::mem::swap(&mut inner.storage, &mut m.storage);
        m.storage.truncate(n_storage);
        match ran {
            Ok(()) | Err(Stop::Return) => Ok(()),
            Err(Stop::Fault(error)) => Err(checked_error(self.func, *error).into()),
            Err(stop @ (Stop::Break | Stop::Continue)) => Err(stop),
        }
    }
}
