//! Large buffers inside prim_funcs become tensors of the caller, so that they share its memory with all others.
//!
//!     def conv(x, w, y):                                        def conv(x, w, y, padded: T.Buffer((n, 58, 58, 64), "float32")):
//!         padded = T.sblock_alloc_buffer((n, 58, 58, 64), …)        …
//!         …                                                  →
//!     y = R.call_tir(cls.conv, (x, w), out_ty=T)                y, padded = R.call_tir(cls.conv, (x, w), out_ty=[T, …])
//!
//! Without it they are allocated and given back by every call. A buffer stays where its extents do not follow from what
//! some caller passes, where a prim_func calls its function, and where it is small enough for the stack. The same step is AllocateWorkspace in Relax.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::names::NameSupply;
use irc_syntax::uses::{bound_names, for_each_expr};
use irc_syntax::{DType, Expr, ExprKind, Func, FuncKind, Module, Name, Param, Stmt, StmtKind};

use super::{Changed, Pass, PassCx};
use crate::check::stage::Level;
use crate::check::{FuncInfo, Type, type_to_expr};
use crate::shape::Dim;
use crate::target::MAX_STACK_BUFFER;

/// The pass.
pub const PASS: Pass = Pass {
    name: "allocate_workspace",
    run,
    from: Level::Scheduled,
    to: Level::Scheduled,
    summary: "buffers inside prim_funcs share the memory plan",
    args: &[],
};

/// A buffer to move, with its extents in the callee's symbols.
struct Buffer {
    name: Name,
    dtype: DType,
    shape: Vec<Dim>,
}

/// Runs the pass on every prim_func that graph functions call.
pub fn run(module: &mut Module, cx: &mut PassCx) -> Changed {
    let called_otherwise = called_otherwise(module);
    let mut moved: BTreeMap<Name, Vec<Buffer>> = module
        .funcs()
        .filter(|func| func.kind == FuncKind::Loops && func.is_private())
        .filter(|func| !called_otherwise.contains(&func.name))
        .map(|func| (func.name.clone(), buffers_of(func)))
        .filter(|(_, buffers)| !buffers.is_empty())
        .collect();
    let callees: BTreeMap<Name, Vec<Param>> = module
        .funcs()
        .filter(|func| moved.contains_key(&func.name))
        .map(|func| (func.name.clone(), func.params.clone()))
        .collect();
    for func in module.funcs().filter(|func| func.kind == FuncKind::Graph) {
        let info = cx.info.funcs.get(&func.name);
        each_call(&func.body, &mut |callee, stmt| {
            let (Some(buffers), Some(params), Some(info)) =
                (moved.get_mut(callee), callees.get(callee), info)
            else {
                return;
            };
            let map = symbols_at(params, stmt, info);
            buffers.retain(|buffer| {
                let mut symbols = buffer.shape.iter().flat_map(Dim::symbols);
                symbols.all(|symbol| map.contains_key(&symbol))
            });
        });
    }
    moved.retain(|_, buffers| !buffers.is_empty());
    if moved.is_empty() {
        return Changed::No;
    }
    for func in module.funcs_mut() {
        if func.kind == FuncKind::Graph {
            let info = cx.info.funcs.get(&func.name).cloned().unwrap_or_default();
            let mut names = NameSupply::of_func(func);
            pass_buffers(&mut func.body, &moved, &callees, &info, &mut names);
        } else if let Some(buffers) = moved.get(&func.name) {
            take_buffers(func, buffers);
        }
    }
    Changed::Yes
}

/// The large buffers that a prim_func declares at its head.
fn buffers_of(func: &Func) -> Vec<Buffer> {
    let declared = func.body.iter().filter_map(|stmt| match &stmt.kind {
        StmtKind::Assign { target, value, .. } => declared_buffer(target, value),
        _ => None,
    });
    let is_large = |buffer: &Buffer| {
        let elements: Dim = buffer.shape.iter().product();
        let bytes = elements
            .as_int()
            .map(|len| len.saturating_mul(buffer.dtype.bytes() as i64));
        bytes.is_none_or(|bytes| bytes > MAX_STACK_BUFFER)
    };
    declared.filter(is_large).collect()
}

fn declared_buffer(target: &Expr, value: &Expr) -> Option<Buffer> {
    let (path, _) = value.as_call()?;
    if path != "T.sblock_alloc_buffer" && path != "T.alloc_buffer" {
        return None;
    }
    let args: Vec<&Expr> = value.positional().collect();
    let [shape, dtype] = args.as_slice() else {
        return None;
    };
    let shape = shape.as_items()?.iter().map(|dim| Dim::from_expr(dim).ok());
    Some(Buffer {
        name: target.as_name()?.clone(),
        dtype: DType::from_name(dtype.as_str()?)?,
        shape: shape.collect::<Option<Vec<_>>>()?,
    })
}

/// The prim_func that a statement calls, `y = R.call_tir(cls.f, …)`.
fn callee_of(stmt: &Stmt) -> Option<Name> {
    let StmtKind::Assign { value, .. } = &stmt.kind else {
        return None;
    };
    if !value.is_call_of("R.call_tir") {
        return None;
    }
    let path = value.positional().next()?.as_path()?;
    Some(Name::from(path.strip_prefix("cls.")?))
}

fn each_call(stmts: &[Stmt], f: &mut impl FnMut(&Name, &Stmt)) {
    for stmt in stmts {
        if let StmtKind::If { then, orelse, .. } = &stmt.kind {
            each_call(then, f);
            each_call(orelse, f);
        } else if let Some(callee) = callee_of(stmt) {
            f(&callee, stmt);
        }
    }
}

/// What is named elsewhere than as the callee of `R.call_tir`, as in the calls of one prim_func by another.
fn called_otherwise(module: &Module) -> BTreeSet<Name> {
    let mut names = BTreeSet::new();
    for func in module.funcs() {
        for_each_expr(&func.body, &mut |expr| {
            let Some((path, args)) = expr.as_call() else {
                return;
            };
            let skip = usize::from(func.kind == FuncKind::Graph && path == "R.call_tir");
            let given = args.iter().skip(skip).filter_map(|arg| {
                let path = arg.value.as_path()?;
                path.strip_prefix("cls.").map(Name::from)
            });
            names.extend(given);
            names.insert(Name::from(path.strip_prefix("cls.").unwrap_or(&path)));
        });
    }
    names
}

/// The caller's dims for the symbols of a callee: from the shapes of tensors and results, and from scalars.
fn symbols_at(params: &[Param], stmt: &Stmt, info: &FuncInfo) -> BTreeMap<Name, Dim> {
    let StmtKind::Assign { target, value, .. } = &stmt.kind else {
        return BTreeMap::new();
    };
    let args = value.positional().nth(1).and_then(Expr::as_items);
    let results: Vec<Expr> = bound_names(target).iter().map(Expr::name).collect();
    let mut map = BTreeMap::new();
    for (param, arg) in params
        .iter()
        .zip(args.into_iter().flatten().chain(&results))
    {
        let Some(ty) = &param.ty else { continue };
        if !ty.is_call_of("T.Buffer") {
            if let Ok(dim) = Dim::from_expr(arg) {
                map.insert(param.name.clone(), dim);
            }
            continue;
        }
        let extents = ty.positional().next().and_then(Expr::as_items);
        let shape = arg
            .as_name()
            .and_then(|name| info.vars.get(name)?.as_tensor()?.shape.as_ref());
        for (extent, dim) in extents
            .into_iter()
            .flatten()
            .zip(shape.into_iter().flatten())
        {
            if let Some(symbol) = extent.as_name() {
                map.entry(symbol.clone()).or_insert_with(|| dim.clone());
            }
        }
    }
    map
}

/// Makes declarations parameters.
fn take_buffers(func: &mut Func, buffers: &[Buffer]) {
    let is_moved = |name: &Name| buffers.iter().any(|buffer| buffer.name == *name);
    func.body.retain(|stmt| match &stmt.kind {
        StmtKind::Assign { target, value, .. } => {
            declared_buffer(target, value).is_none_or(|buffer| !is_moved(&buffer.name))
        }
        _ => true,
    });
    for buffer in buffers {
        let shape = Expr::tuple(buffer.shape.iter().map(Dim::to_expr));
        let ty = Expr::call("T.Buffer", [shape, Expr::str(buffer.dtype.name())]);
        func.params.push(Param::new(&buffer.name, ty));
    }
}

/// Gives every call what its callee takes beside its results.
fn pass_buffers(
    stmts: &mut [Stmt],
    moved: &BTreeMap<Name, Vec<Buffer>>,
    callees: &BTreeMap<Name, Vec<Param>>,
    info: &FuncInfo,
    names: &mut NameSupply,
) {
    for stmt in stmts {
        if let StmtKind::If { then, orelse, .. } = &mut stmt.kind {
            pass_buffers(then, moved, callees, info, names);
            pass_buffers(orelse, moved, callees, info, names);
            continue;
        }
        let Some(callee) = callee_of(stmt) else {
            continue;
        };
        let (Some(buffers), Some(params)) = (moved.get(&callee), callees.get(&callee)) else {
            continue;
        };
        let map = symbols_at(params, stmt, info);
        let StmtKind::Assign { target, value, .. } = &mut stmt.kind else {
            continue;
        };
        let mut targets: Vec<Expr> = bound_names(target).iter().map(Expr::name).collect();
        let ExprKind::Call { args, .. } = &mut value.kind else {
            continue;
        };
        let stated = args.iter_mut().find(|arg| {
            let keyword = arg.name.as_ref().map(|name| name.as_str());
            matches!(keyword, Some("out_ty" | "out_sinfo"))
        });
        let Some(stated) = stated else { continue };
        let mut types = match &stated.value.kind {
            ExprKind::List(items) => items.clone(),
            _ => vec![stated.value.clone()],
        };
        for buffer in buffers {
            let shape = buffer.shape.iter().map(|dim| dim.subst(&map)).collect();
            types.push(type_to_expr(&Type::tensor(buffer.dtype, shape)));
            targets.push(Expr::name(names.fresh(&buffer.name)));
        }
        stated.value = Expr::list(types);
        *target = Expr::new(ExprKind::Tuple {
            items: targets,
            parens: false,
        });
    }
}
