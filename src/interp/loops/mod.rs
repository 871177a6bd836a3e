//! Runs prim_funcs: plain loops and blocks alike, every loop kind serially.
//!
//! A function is first compiled to closures over numbered slots, so that names are looked up once and not once an element.
//! Indices are checked against their axis. Declared buffers hold bytes of all ones until they are written. A block whose
//! reduction has no rounds still initializes its result.

mod block;
mod call;
mod callee;
mod expr;
mod machine;
mod scalar;
mod stmt;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use irc_syntax::{DType, Expr, ExprKind, Func, Name, StmtKind};

use super::RunError;
use crate::tensor::Tensor;
use machine::{Machine, Stop};

/// What a name stands for.
#[derive(Clone, Debug)]
enum Place {
    /// The slot of an integer or bool.
    Int(usize, DType),
    /// The slot of a float.
    Float(usize, DType),
    /// The number of a buffer.
    Buffer(usize, DType),
}

/// Names in scope, and how many slots and buffers there are.
#[derive(Default)]
struct Compiler {
    scope: BTreeMap<Name, Place>,
    n_slots: usize,
    n_buffers: usize,
    others: Rc<Others>,
}

/// The prim_funcs that one may call.
#[derive(Default)]
struct Others {
    funcs: &'static [Func],
    /// Those compiled so far.
    compiled: RefCell<BTreeMap<Name, Rc<callee::Callee>>>,
}

impl Compiler {
    fn slot(&mut self, name: &Name, dtype: DType) -> usize {
        let slot = self.n_slots;
        self.n_slots += 1;
        let place = if dtype.is_float() {
            Place::Float(slot, dtype)
        } else {
            Place::Int(slot, dtype)
        };
        self.scope.insert(name.clone(), place);
        slot
    }

    fn new_buffer(&mut self, name: &Name, dtype: DType) -> usize {
        let buffer = self.n_buffers;
        self.n_buffers += 1;
        self.scope
            .insert(name.clone(), Place::Buffer(buffer, dtype));
        buffer
    }

    /// The buffer that an expression names.
    fn buffer(&self, expr: &Expr) -> Result<(usize, DType), RunError> {
        match expr.as_name().and_then(|name| self.scope.get(name)) {
            Some(Place::Buffer(buffer, dtype)) => Ok((*buffer, *dtype)),
            Some(Place::Int(..) | Place::Float(..)) | None => {
                Err(RunError::type_error("an index into what is no buffer").at(expr.span))
            }
        }
    }
}

/// Runs a prim_func. `args` are its parameters in order, scalars as tensors of rank 0; results are passed in with any
/// content. Gives the buffers back, in the order of the parameters.
pub fn run_prim_func(func: &Func, args: &[Tensor]) -> Result<Vec<Tensor>, RunError> {
    run_prim_func_of(&[], func, args)
}

/// The same for one that may call others: functions of the library, since a call is compiled when it is first made.
pub(crate) fn run_prim_func_of(
    others: &'static [Func],
    func: &Func,
    args: &[Tensor],
) -> Result<Vec<Tensor>, RunError> {
    if func.params.len() != args.len() {
        let message = format!(
            "`{}` takes {} arguments, not {}",
            func.name,
            func.params.len(),
            args.len()
        );
        return Err(RunError::type_error(message).at(func.name_span));
    }
    let others = Others {
        funcs: others,
        ..Others::default()
    };
    let mut compiler = Compiler {
        others: Rc::new(others),
        ..Compiler::default()
    };
    let mut symbols = Symbols::default();
    symbols.declared(func);
    for (param, arg) in func.params.iter().zip(args) {
        if buffer_type(func, &param.name, param.ty.as_ref()).is_none() {
            compiler.slot(&param.name, arg.dtype);
        }
    }
    let mut buffers = Vec::new();
    for (param, arg) in func.params.iter().zip(args) {
        if let Some(decl) = buffer_type(func, &param.name, param.ty.as_ref()) {
            symbols.bind(&decl, arg, &compiler)?;
            let name = decl.name.as_ref().unwrap_or(&param.name);
            buffers.push((compiler.new_buffer(name, arg.dtype), arg, decl));
        }
    }
    let mut symbol_slots = Vec::new();
    for (name, value) in &symbols.values {
        let dtype = symbols.dtypes.get(name).copied().unwrap_or(DType::I64);
        symbol_slots.push((compiler.slot(name, dtype), *value));
    }
    let mut checks = Vec::new();
    for (_, arg, decl) in &buffers {
        for (expr, &extent) in decl.shape.iter().zip(&arg.shape) {
            checks.push((compiler.expr(expr)?.into_int(), extent));
        }
    }
    let body = compiler.body(&func.body)?;

    let mut machine = Machine {
        slots: vec![0; compiler.n_slots],
        views: vec![None; compiler.n_buffers],
        storage: Vec::new(),
        depth: 0,
    };
    for (param, arg) in func.params.iter().zip(args) {
        match compiler.scope.get(&param.name) {
            Some(Place::Int(slot, _)) => {
                machine.slots[*slot] = arg.to_i64s().first().copied().unwrap_or_default() as u64;
            }
            Some(Place::Float(slot, _)) => {
                machine.slots[*slot] = arg.to_f64s().first().copied().unwrap_or_default().to_bits();
            }
            Some(Place::Buffer(..)) | None => {}
        }
    }
    for (slot, value) in symbol_slots {
        machine.slots[slot] = value as u64;
    }
    let ran = run(&mut machine, &buffers, &checks, &body);
    ran.map_err(|error| callee::checked_error(func, error))?;
    buffers
        .iter()
        .map(|(buffer, arg, _)| take_back(&machine, *buffer, arg))
        .collect()
}

fn run(
    machine: &mut Machine,
    buffers: &[(usize, &Tensor, Declared)],
    checks: &[(expr::IntCode, usize)],
    body: &stmt::Run,
) -> Result<(), RunError> {
    let mut ran = || -> machine::Ran {
        for (code, extent) in checks {
            let wanted = code(machine)?;
            if wanted != *extent as i64 {
                let message = format!("an axis of {extent} where {wanted} was needed");
                return Err(RunError::value_error(message).into());
            }
        }
        for (buffer, arg, _) in buffers {
            machine.load(*buffer, arg)?;
        }
        body(machine)
    };
    match ran() {
        Ok(()) | Err(Stop::Return) => Ok(()),
        Err(Stop::Fault(error)) => Err(*error),
        Err(Stop::Break | Stop::Continue) => Err(RunError::runtime_error(
            "`break` or `continue` outside a loop",
        )),
    }
}

fn take_back(machine: &Machine, buffer: usize, arg: &Tensor) -> Result<Tensor, RunError> {
    let bytes = machine
        .views
        .get(buffer)
        .and_then(Option::as_ref)
        .and_then(|view| machine.storage.get(view.storage));
    bytes
        .and_then(|bytes| Tensor::new(arg.dtype, arg.shape.clone(), bytes.as_slice()))
        .ok_or_else(|| RunError::runtime_error("a parameter lost its buffer"))
}

/// The declaration of a buffer parameter.
struct Declared {
    /// The buffer's own name, where a handle is matched.
    name: Option<Name>,
    shape: Vec<Expr>,
}

/// The declaration of a parameter, where it is a buffer.
fn buffer_type(func: &Func, param: &Name, ty: Option<&Expr>) -> Option<Declared> {
    let ty = ty?;
    if ty.is_call_of("T.Buffer") {
        return Some(Declared {
            name: None,
            shape: shape_of(ty, 0),
        });
    }
    func.body.iter().find_map(|stmt| match &stmt.kind {
        StmtKind::Assign { target, value, .. }
            if value.is_call_of("T.match_buffer")
                && value.positional().next().and_then(Expr::as_name) == Some(param) =>
        {
            let name = target.as_name()?.clone();
            Some(Declared {
                name: Some(name),
                shape: shape_of(value, 1),
            })
        }
        _ => None,
    })
}

/// The shape argument of a buffer declaration.
fn shape_of(call: &Expr, skip: usize) -> Vec<Expr> {
    let shape = call
        .keyword("shape")
        .or_else(|| call.positional().nth(skip));
    match shape {
        Some(shape) => shape
            .as_items()
            .map_or_else(|| vec![shape.clone()], <[Expr]>::to_vec),
        None => Vec::new(),
    }
}

/// Values of the symbols of a signature.
#[derive(Default)]
struct Symbols {
    values: BTreeMap<Name, i64>,
    dtypes: BTreeMap<Name, DType>,
}

impl Symbols {
    /// Reads `n = T.int32()` at the head of the body.
    fn declared(&mut self, func: &Func) {
        for stmt in &func.body {
            let StmtKind::Assign { target, value, .. } = &stmt.kind else {
                continue;
            };
            let dtype = value
                .as_call()
                .filter(|(_, args)| args.iter().all(|arg| arg.name.is_some()))
                .and_then(|(path, _)| DType::from_name(path.strip_prefix("T.")?));
            if let (Some(name), Some(dtype)) = (target.as_name(), dtype) {
                self.dtypes.insert(name.clone(), dtype);
            }
        }
    }

    /// Gives the plain symbols of a shape the extents of an argument.
    fn bind(&mut self, decl: &Declared, arg: &Tensor, compiler: &Compiler) -> Result<(), RunError> {
        if decl.shape.len() != arg.shape.len() {
            let message = format!(
                "a tensor of rank {} where rank {} was needed",
                arg.shape.len(),
                decl.shape.len()
            );
            return Err(RunError::value_error(message));
        }
        for (expr, &extent) in decl.shape.iter().zip(&arg.shape) {
            let name = match &expr.kind {
                ExprKind::Name(name) => name.clone(),
                ExprKind::Str(text) => Name::from(text.as_str()),
                _ => continue,
            };
            let is_plain = name.chars().all(|c| c.is_alphanumeric() || c == '_');
            if is_plain && !compiler.scope.contains_key(&name) {
                self.values.entry(name).or_insert(extent as i64);
            }
        }
        Ok(())
    }
}
