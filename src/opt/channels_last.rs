//! Computes convolutions and what surrounds them with the channels last.
//!
//!     y = R.nn.conv2d(x, w)                      x_cl = R.permute_dims(x, axes=[0, 2, 3, 1])
//!     z = R.nn.relu(y)                 →         w_cl = R.permute_dims(w, axes=[2, 3, 1, 0])
//!                                                y_cl = R.nn.conv2d(x_cl, w_cl, data_layout="NHWC", …)
//!                                                z_cl = R.nn.relu(y_cl)
//!                                                z = R.permute_dims(z_cl, axes=[0, 3, 1, 2])
//!
//! Channels are what kernels vectorize over, whatever the image's size. Convolutions and pools start it, operators that do
//! not care (element-wise, concat, pad, reductions, slices along an axis, reshapes of spatial axes) carry it on, so that
//! a whole network is permuted once at its start and once at its end. Every value's old form is bound too and falls to `dead_code`
//! where nothing reads it; permuted weights are folded. An image of few channels is read by its convolution as it is. A transposed convolution whose windows do not overlap becomes a
//! matrix product whose result is rearranged.

use std::collections::BTreeMap;

use irc_syntax::names::NameSupply;
use irc_syntax::{Expr, ExprKind, FuncKind, Module, Name, Stmt, StmtKind};

use super::pattern::{Pattern, pattern_of};
use super::{Changed, Pass, PassCx};
use crate::check::prim::{self, BoundCall, Prim};
use crate::check::stage::Level;
use crate::check::{FuncInfo, Type};
use crate::shape::Dim;
use crate::tensor::parse_const;

/// The pass.
pub const PASS: Pass = Pass {
    name: "channels_last",
    run,
    from: Level::Normal,
    to: Level::Normal,
    summary: "convolutions with the channels last",
    args: &[],
};

/// Runs the pass on every graph function that has a convolution or a pool.
pub fn run(module: &mut Module, cx: &mut PassCx) -> Changed {
    let mut changed = false;
    for func in module
        .funcs_mut()
        .filter(|func| func.kind == FuncKind::Graph)
    {
        let info = cx.info.funcs.get(&func.name).cloned().unwrap_or_default();
        let mut layout = Layout {
            info: &info,
            names: NameSupply::of_func(func),
            last: BTreeMap::new(),
            out: Vec::new(),
            changed: false,
        };
        for stmt in std::mem::take(&mut func.body) {
            layout.stmt(stmt);
        }
        changed |= layout.changed;
        func.body = layout.out;
    }
    Changed::from(changed)
}

/// So many channels are read where they lie by a convolution at the start.
const FEW_CHANNELS: i64 = 3;

struct Layout<'a> {
    info: &'a FuncInfo,
    names: NameSupply,
    /// The channels-last form of a value.
    last: BTreeMap<Name, Name>,
    out: Vec<Stmt>,
    changed: bool,
}

/// The axes of a channels-last value in terms of the original: `[0, 2, 3, 1]`.
/// A product with the dtype of sums that another call states.
fn with_out_dtype(new: Expr, call: &BoundCall) -> Expr {
    match call.opt_dtype("out_dtype") {
        Some(dtype) => new.with("out_dtype", Expr::str(dtype.name())),
        None => new,
    }
}

fn to_last(rank: usize) -> Vec<usize> {
    std::iter::once(0).chain(2..rank).chain([1]).collect()
}

/// Back again: `[0, 3, 1, 2]`.
fn to_first(rank: usize) -> Vec<usize> {
    [0, rank - 1].into_iter().chain(1..rank - 1).collect()
}

/// Where an axis of the original stands in the channels-last form.
fn moved_axis(axis: usize, rank: usize) -> usize {
    match axis {
        0 => 0,
        1 => rank - 1,
        _ => axis - 1,
    }
}

fn permute(value: &Name, axes: &[usize]) -> Expr {
    let axes = Expr::list(axes.iter().map(|&axis| Expr::int(axis as i128)));
    Expr::call("R.permute_dims", [Expr::name(value)]).with("axes", axes)
}

fn ints(values: impl IntoIterator<Item = i64>) -> Expr {
    Expr::list(values.into_iter().map(Expr::int))
}

impl Layout<'_> {
    fn stmt(&mut self, mut stmt: Stmt) {
        if let StmtKind::If { then, orelse, .. } = &mut stmt.kind {
            self.branch(then);
            self.branch(orelse);
            self.out.push(stmt);
            return;
        }
        if let Some((name, from)) = self.first_again(&stmt) {
            self.last.insert(name, from);
            self.out.push(stmt);
            return;
        }
        if let Some((name, value)) = self.rewritten(&stmt) {
            let rank = self.rank(&name).unwrap_or(0);
            let new = self.names.fresh(&format!("{name}_cl"));
            let mut moved = Stmt::bind(&new, value).at(stmt.span);
            moved.trivia = stmt.trivia;
            self.out.push(moved);
            self.last.insert(name.clone(), new.clone());
            self.out
                .push(Stmt::bind(&name, permute(&new, &to_first(rank))).at(stmt.span));
            self.changed = true;
            return;
        }
        if let Some(value) = self.same_order(&stmt) {
            let StmtKind::Assign { target, ty, .. } = stmt.kind else {
                return;
            };
            self.out.push(Stmt {
                kind: StmtKind::Assign { target, ty, value },
                ..stmt
            });
            return;
        }
        self.out.push(stmt);
    }

    /// A block that sees the values around it, and whose own are seen by nobody else.
    fn branch(&mut self, stmts: &mut Vec<Stmt>) {
        let (outside, last) = (std::mem::take(&mut self.out), self.last.clone());
        for stmt in std::mem::take(stmts) {
            self.stmt(stmt);
        }
        *stmts = std::mem::replace(&mut self.out, outside);
        self.last = last;
    }

    fn rank(&self, name: &Name) -> Option<usize> {
        self.info.vars.get(name)?.as_tensor()?.ndim
    }

    fn shape(&self, name: &Name) -> Option<&[Dim]> {
        self.info.vars.get(name)?.as_tensor()?.shape.as_deref()
    }

    /// The channels-last right-hand side of a statement, where it has one.
    fn rewritten(&mut self, stmt: &Stmt) -> Option<(Name, Expr)> {
        let StmtKind::Assign { target, value, .. } = &stmt.kind else {
            return None;
        };
        let name = target.as_name()?.clone();
        let rank = self.rank(&name)?;
        let (path, _) = value.as_call()?;
        let prim = Prim::find(&path)?;
        let call = prim::bind(prim, value).ok()?;
        let new = match prim {
            Prim::Conv(_) => self.conv(&name, value, &call)?,
            Prim::ConvTranspose(_) => self.conv_transpose(&name, value, &call)?,
            Prim::MaxPool(_) | Prim::AvgPool(_) => self.pool(value, &call)?,
            _ if rank < 3 => return None,
            Prim::Concat => self.concat(&call, rank)?,
            Prim::Pad => self.pad(&call, rank)?,
            Prim::Reduce(_) if call.bool("keepdims") => self.reduce(&path, &call, true)?,
            Prim::StridedSlice => self.slice(value, &call)?,
            Prim::Take => self.take(value, &call, rank)?,
            Prim::Reshape => self.reshape(&name, value, &call, rank)?,
            Prim::BroadcastTo => self.broadcast(&name, value, &call, rank)?,
            _ if pattern_of(value) == Some(Pattern::ElementWise) => {
                self.element_wise(value, rank)?
            }
            _ => return None,
        };
        Some((name, new.at(value.span)))
    }

    /// Operators whose result has no channels-last form, but which can read one.
    fn same_order(&mut self, stmt: &Stmt) -> Option<Expr> {
        let StmtKind::Assign { value, .. } = &stmt.kind else {
            return None;
        };
        let (path, _) = value.as_call()?;
        let prim = Prim::find(&path)?;
        let call = prim::bind(prim, value).ok()?;
        match prim {
            Prim::Reduce(_) => self.reduce(&path, &call, false),
            // With spatial extents of 1 both forms have the same bytes.
            Prim::Reshape => {
                let x = call.operand("x")?.as_name()?;
                let moved = self.last.get(x)?;
                let shape = self.shape(x)?;
                let spatial_is_one = shape[2..].iter().all(|dim| dim.as_int() == Some(1));
                let mut value = value.clone();
                *value_first(&mut value)? = Expr::name(moved);
                spatial_is_one.then_some(value)
            }
            _ => None,
        }
    }

    /// The channels-last form of an operand, permuted here if there is none yet.
    fn operand(&mut self, value: &Expr) -> Option<Name> {
        let name = value.as_name()?;
        if let Some(moved) = self.last.get(name) {
            return Some(moved.clone());
        }
        let rank = self.rank(name)?;
        if rank < 3 {
            return None;
        }
        let new = self.names.fresh(&format!("{name}_cl"));
        self.out
            .push(Stmt::bind(&new, permute(name, &to_last(rank))));
        self.last.insert(name.clone(), new.clone());
        Some(new)
    }

    fn is_moved(&self, value: &Expr) -> bool {
        value
            .as_name()
            .is_some_and(|name| self.last.contains_key(name))
    }

    fn conv(&mut self, name: &Name, value: &Expr, call: &BoundCall) -> Option<Expr> {
        let rank = self.rank(name)?;
        let letters = ["W", "HW", "DHW"][rank - 3];
        let default_data = format!("NC{letters}");
        let default_kernel = format!("OI{letters}");
        if call.opt_str("data_layout").unwrap_or(&default_data) != default_data
            || call.opt_str("out_layout").unwrap_or(&default_data) != default_data
            || call.opt_str("kernel_layout").unwrap_or(&default_kernel) != default_kernel
        {
            return None;
        }
        let w = call.operand("weight")?.as_name()?.clone();
        let filters = self.shape(&w)?.to_vec();
        let x = call.operand("x")?;
        let is_dense = call.opt_int("groups").unwrap_or(1) == 1;
        let is_point = filters[2..].iter().all(|dim| dim.as_int() == Some(1))
            && call.ints("strides").iter().all(|&stride| stride == 1)
            && call.ints("padding").iter().all(|&padding| padding == 0)
            && is_dense;
        if is_point {
            let x = self.operand(x)?;
            return Some(with_out_dtype(self.point_conv(&x, &w, &filters), call));
        }
        // Each element of few channels is read alone, wherever it lies.
        let is_thin = rank == 4
            && is_dense
            && matches!(filters[1].as_int(), Some(2..=FEW_CHANNELS))
            && !self.is_moved(x);
        let (x, data) = match is_thin {
            true => (x.as_name()?.clone(), default_data),
            false => (self.operand(x)?, format!("N{letters}C")),
        };
        // OIHW → HWIO
        let order: Vec<usize> = (2..rank).chain([1, 0]).collect();
        let kernel = self.names.fresh(&format!("{w}_cl"));
        self.out.push(Stmt::bind(&kernel, permute(&w, &order)));
        let new = Expr::call(&value.as_call()?.0, [Expr::name(x), Expr::name(kernel)]);
        Some(self.with_layouts(new, call, letters, (&data, &format!("{letters}IO"))))
    }

    /// A convolution of single points is a matrix product over the channels.
    fn point_conv(&mut self, x: &Name, w: &Name, filters: &[Dim]) -> Expr {
        let matrix = self.names.fresh(&format!("{w}_matrix"));
        let shape = Expr::list(filters[..2].iter().map(Dim::to_expr));
        let flat = Expr::call("R.reshape", [Expr::name(w), Expr::call("R.shape", [shape])]);
        self.out.push(Stmt::bind(&matrix, flat));
        let turned = self.names.fresh(&format!("{w}_cl"));
        self.out
            .push(Stmt::bind(&turned, permute(&matrix, &[1, 0])));
        Expr::call("R.matmul", [Expr::name(x), Expr::name(turned)])
    }

    fn with_layouts(
        &self,
        new: Expr,
        call: &BoundCall,
        letters: &str,
        (data, kernel): (&str, &str),
    ) -> Expr {
        let mut new = new
            .with("strides", ints(call.ints("strides").to_vec()))
            .with("padding", ints(call.ints("padding").to_vec()));
        if matches!(call.prim, Prim::ConvTranspose(_)) {
            new = new.with("output_padding", ints(call.ints("output_padding").to_vec()));
        }
        new = new
            .with("dilation", ints(call.ints("dilation").to_vec()))
            .with("groups", Expr::int(call.opt_int("groups").unwrap_or(1)))
            .with("data_layout", Expr::str(data))
            .with("kernel_layout", Expr::str(kernel))
            .with("out_layout", Expr::str(format!("N{letters}C")));
        with_out_dtype(new, call)
    }

    fn conv_transpose(&mut self, name: &Name, value: &Expr, call: &BoundCall) -> Option<Expr> {
        let rank = self.rank(name)?;
        let letters = ["W", "HW", "DHW"][rank - 3];
        let default_data = format!("NC{letters}");
        let default_kernel = format!("IO{letters}");
        if call.opt_str("data_layout").unwrap_or(&default_data) != default_data
            || call.opt_str("out_layout").unwrap_or(&default_data) != default_data
            || call.opt_str("kernel_layout").unwrap_or(&default_kernel) != default_kernel
        {
            return None;
        }
        let source = call.operand("x")?.clone();
        let x = self.operand(&source)?;
        let w = call.operand("weight")?.as_name()?.clone();
        let filters = self.shape(&w)?.to_vec();
        let taps: Option<Vec<i64>> = filters[2..].iter().map(Dim::as_int).collect();
        let disjoint = taps.as_deref() == Some(call.ints("strides"))
            && call.ints("padding").iter().all(|&padding| padding == 0)
            && call
                .ints("output_padding")
                .iter()
                .all(|&padding| padding == 0)
            && call.ints("dilation").iter().all(|&dilation| dilation == 1)
            && call.opt_int("groups").unwrap_or(1) == 1;
        if disjoint {
            let extents = self.shape(source.as_name()?)?.to_vec();
            return Some(self.disjoint_transpose((&x, &w), &extents, &filters, call));
        }
        // IOHW → HWIO
        let order: Vec<usize> = (2..rank).chain([0, 1]).collect();
        let kernel = self.names.fresh(&format!("{w}_cl"));
        self.out.push(Stmt::bind(&kernel, permute(&w, &order)));
        let new = Expr::call(&value.as_call()?.0, [Expr::name(x), Expr::name(kernel)]);
        let data = format!("N{letters}C");
        Some(self.with_layouts(new, call, letters, (&data, &format!("{letters}IO"))))
    }

    /// Every input pixel makes a patch of its own: x[…, I] · w[I, (taps, O)], patches laid side by side.
    fn disjoint_transpose(
        &mut self,
        (x, w): (&Name, &Name),
        extents: &[Dim],
        filters: &[Dim],
        call: &BoundCall,
    ) -> Expr {
        let rank = extents.len();
        let n_spatial = rank - 2;
        let order: Vec<usize> = std::iter::once(0).chain(2..rank).chain([1]).collect();
        let turned = self.names.fresh(&format!("{w}_cl"));
        self.out.push(Stmt::bind(&turned, permute(w, &order)));
        let patch = filters[1..].iter().product::<Dim>();
        let matrix = self.names.fresh(&format!("{w}_matrix"));
        let reshape = |from: &Name, dims: Vec<Dim>| {
            let dims = Expr::list(dims.iter().map(Dim::to_expr));
            Expr::call(
                "R.reshape",
                [Expr::name(from), Expr::call("R.shape", [dims])],
            )
        };
        self.out.push(Stmt::bind(
            &matrix,
            reshape(&turned, vec![filters[0].clone(), patch]),
        ));
        let product = self.names.fresh("patches");
        self.out.push(Stmt::bind(
            &product,
            with_out_dtype(
                Expr::call("R.matmul", [Expr::name(x), Expr::name(&matrix)]),
                call,
            ),
        ));
        let mut split = vec![extents[0].clone()];
        split.extend(extents[2..].iter().cloned());
        split.extend(filters[2..].iter().cloned());
        split.push(filters[1].clone());
        let apart = self.names.fresh("patches");
        self.out.push(Stmt::bind(&apart, reshape(&product, split)));
        let mut axes = vec![0];
        for axis in 0..n_spatial {
            axes.extend([1 + axis, 1 + n_spatial + axis]);
        }
        axes.push(1 + 2 * n_spatial);
        let woven = self.names.fresh("patches");
        self.out.push(Stmt::bind(&woven, permute(&apart, &axes)));
        let mut dims = vec![extents[0].clone()];
        dims.extend(
            extents[2..]
                .iter()
                .zip(&filters[2..])
                .map(|(extent, taps)| extent * taps),
        );
        dims.push(filters[1].clone());
        reshape(&woven, dims)
    }

    fn pool(&mut self, value: &Expr, call: &BoundCall) -> Option<Expr> {
        let x = call.operand("x")?.clone();
        let rank = self.rank(x.as_name()?)?;
        let letters = ["W", "HW", "DHW"][rank - 3];
        let default_layout = format!("NC{letters}");
        let is_default = |key: &str| call.opt_str(key).unwrap_or(&default_layout) == default_layout;
        if !is_default("layout") || !is_default("out_layout") {
            return None;
        }
        let x = self.operand(&x)?;
        let layout = format!("N{letters}C");
        Some(
            Expr::call(&value.as_call()?.0, [Expr::name(x)])
                .with("pool_size", ints(call.ints("pool_size").to_vec()))
                .with("strides", ints(call.ints("strides").to_vec()))
                .with("dilation", ints(call.ints("dilation").to_vec()))
                .with("padding", ints(call.ints("padding").to_vec()))
                .with("ceil_mode", Expr::bool(call.bool("ceil_mode")))
                .with(
                    "count_include_pad",
                    Expr::bool(call.bool("count_include_pad")),
                )
                .with("layout", Expr::str(&layout))
                .with("out_layout", Expr::str(&layout)),
        )
    }

    fn concat(&mut self, call: &BoundCall, rank: usize) -> Option<Expr> {
        let parts: Vec<Expr> = call.operands().into_iter().cloned().collect();
        if !parts.iter().any(|part| self.is_moved(part)) {
            return None;
        }
        let parts: Option<Vec<Name>> = parts.iter().map(|part| self.operand(part)).collect();
        let axis = normal_axis(call.int("axis"), rank)?;
        let axis = Expr::int(moved_axis(axis, rank) as i128);
        Some(
            Expr::call("R.concat", [Expr::tuple(parts?.iter().map(Expr::name))]).with("axis", axis),
        )
    }

    fn pad(&mut self, call: &BoundCall, rank: usize) -> Option<Expr> {
        let x = call.operand("x")?.clone();
        if !self.is_moved(&x)
            || call
                .opt_str("pad_mode")
                .is_some_and(|mode| mode != "constant")
        {
            return None;
        }
        let x = self.operand(&x)?;
        let widths = call.dims("pad_width");
        let moved = to_last(rank)
            .into_iter()
            .flat_map(|axis| [2 * axis, 2 * axis + 1]);
        let widths: Option<Vec<Expr>> = moved.map(|at| widths.get(at).map(Dim::to_expr)).collect();
        Some(
            Expr::call("R.nn.pad", [Expr::name(x)])
                .with("pad_width", Expr::list(widths?))
                .with("pad_value", Expr::float(call.float("pad_value"))),
        )
    }

    /// A reduction: of any axes where they are kept, and where not, if the others keep their order.
    fn reduce(&mut self, path: &str, call: &BoundCall, keepdims: bool) -> Option<Expr> {
        let x = call.operand("x")?.clone();
        if !self.is_moved(&x) || call.bool("keepdims") != keepdims {
            return None;
        }
        let rank = self.rank(x.as_name()?)?;
        let axes: Vec<usize> = match call.opt_ints("axis") {
            Some(axes) => axes
                .iter()
                .map(|&axis| normal_axis(axis, rank))
                .collect::<Option<_>>()?,
            None => (0..rank).collect(),
        };
        let stays: Vec<usize> = to_last(rank)
            .into_iter()
            .filter(|axis| !axes.contains(axis))
            .collect();
        if !keepdims && !stays.is_sorted() {
            return None;
        }
        let x = self.operand(&x)?;
        let mut axes: Vec<i64> = axes
            .into_iter()
            .map(|axis| moved_axis(axis, rank) as i64)
            .collect();
        axes.sort_unstable();
        Some(
            Expr::call(path, [Expr::name(x)])
                .with("axis", ints(axes))
                .with("keepdims", Expr::bool(keepdims)),
        )
    }

    fn slice(&mut self, value: &Expr, call: &BoundCall) -> Option<Expr> {
        let x = call.operand("x")?.clone();
        if !self.is_moved(&x) {
            return None;
        }
        let rank = self.rank(x.as_name()?)?;
        let x = self.operand(&x)?;
        let axes: Option<Vec<Expr>> = call
            .ints("axes")
            .iter()
            .map(|&axis| Some(Expr::int(moved_axis(normal_axis(axis, rank)?, rank) as i128)))
            .collect();
        let dims = |key: &str| Expr::tuple(call.dims(key).iter().map(Dim::to_expr));
        let mut args = vec![
            Expr::name(x),
            Expr::tuple(axes?),
            dims("begin"),
            dims("end"),
        ];
        if call.opt_dims("strides").is_some() {
            args.push(dims("strides"));
        }
        Some(
            Expr::call(&value.as_call()?.0, args)
                .with("assume_inbound", Expr::bool(call.bool("assume_inbound"))),
        )
    }

    /// What a statement permutes from channels last to channels first, which is thereby known in both forms.
    fn first_again(&self, stmt: &Stmt) -> Option<(Name, Name)> {
        let StmtKind::Assign { target, value, .. } = &stmt.kind else {
            return None;
        };
        let (path, _) = value.as_call()?;
        let prim = Prim::find(&path).filter(|prim| *prim == Prim::PermuteDims)?;
        let call = prim::bind(prim, value).ok()?;
        let x = call.operand("x")?;
        let from = x.as_name().filter(|_| !self.is_moved(x))?;
        let rank = self.rank(from).filter(|rank| *rank >= 3)?;
        let axes: Option<Vec<usize>> = call
            .opt_ints("axes")?
            .iter()
            .map(|&axis| normal_axis(axis, rank))
            .collect();
        (axes? == to_first(rank)).then(|| Some((target.as_name()?.clone(), from.clone())))?
    }

    /// A reshape that leaves the batch and the channels alone.
    fn reshape(
        &mut self,
        name: &Name,
        value: &Expr,
        call: &BoundCall,
        rank: usize,
    ) -> Option<Expr> {
        let x = call.operand("x")?.clone();
        let (from, to) = (self.shape(x.as_name()?)?, self.shape(name)?.to_vec());
        if !self.is_moved(&x) || from.len() < 3 || from[..2] != to[..2] {
            return None;
        }
        self.with_shape(value, &x, &to, rank)
    }

    fn broadcast(
        &mut self,
        name: &Name,
        value: &Expr,
        call: &BoundCall,
        rank: usize,
    ) -> Option<Expr> {
        let x = call.operand("x")?.clone();
        if !self.is_moved(&x) || self.rank(x.as_name()?) != Some(rank) {
            return None;
        }
        let to = self.shape(name)?.to_vec();
        self.with_shape(value, &x, &to, rank)
    }

    /// The call of an operator that takes a shape, with the shape permuted.
    fn with_shape(&mut self, value: &Expr, x: &Expr, to: &[Dim], rank: usize) -> Option<Expr> {
        let x = self.operand(x)?;
        let dims = to_last(rank).into_iter().map(|axis| to[axis].to_expr());
        let shape = Expr::call("R.shape", [Expr::list(dims)]);
        Some(Expr::call(&value.as_call()?.0, [Expr::name(x), shape]))
    }

    fn take(&mut self, value: &Expr, call: &BoundCall, rank: usize) -> Option<Expr> {
        let x = call.operand("x")?.clone();
        let indices = call.operand("indices")?.clone();
        let is_row = match indices.as_name() {
            Some(name) => self.rank(name) == Some(1),
            None => indices
                .positional()
                .next()?
                .as_items()
                .is_some_and(|items| items.iter().all(|item| item.as_items().is_none())),
        };
        if !self.is_moved(&x) || !is_row || self.rank(x.as_name()?) != Some(rank) {
            return None;
        }
        let axis = moved_axis(normal_axis(call.opt_int("axis")?, rank)?, rank);
        let x = self.operand(&x)?;
        Some(
            Expr::call(&value.as_call()?.0, [Expr::name(x), indices])
                .with("axis", Expr::int(axis as i128))
                .with("mode", Expr::str(call.str("mode"))),
        )
    }

    /// The same operator over the channels-last forms, where one of the large operands has one already.
    fn element_wise(&mut self, value: &Expr, rank: usize) -> Option<Expr> {
        let mut new = value.clone();
        let ExprKind::Call { args, .. } = &mut new.kind else {
            return None;
        };
        let is_operand = |arg: &irc_syntax::Arg| {
            arg.name.is_none() && matches!(arg.value.kind, ExprKind::Name(_))
        };
        let full = args.iter().filter(|arg| is_operand(arg)).any(|arg| {
            self.is_moved(&arg.value)
                && arg.value.as_name().and_then(|name| self.rank(name)) == Some(rank)
        });
        if !full {
            return None;
        }
        for arg in args.iter_mut() {
            if let Some(shape) = literal_shape(&arg.value).filter(|_| arg.name.is_none()) {
                arg.value = Expr::name(self.literal(&arg.value, &shape, rank)?);
                continue;
            }
            if !is_operand(arg) {
                continue;
            }
            let name = arg.value.as_name()?.clone();
            let own = match self.info.vars.get(&name) {
                Some(Type::Tensor(tensor)) => tensor.ndim?,
                _ => continue,
            };
            if own == 0 {
                continue;
            }
            if own < rank {
                let shape = self.shape(&name)?.to_vec();
                arg.value = Expr::name(self.widen(&name, shape, rank));
            } else {
                arg.value = Expr::name(self.operand(&arg.value)?);
            }
        }
        Some(new)
    }

    /// An operand of lower rank, given leading axes of 1 and permuted.
    fn widen(&mut self, name: &Name, shape: Vec<Dim>, rank: usize) -> Name {
        let dims = std::iter::repeat_n(Dim::int(1), rank - shape.len()).chain(shape);
        let dims = Expr::list(dims.map(|dim| dim.to_expr()));
        let wide = self.names.fresh(name);
        let value = Expr::call(
            "R.reshape",
            [Expr::name(name), Expr::call("R.shape", [dims])],
        );
        self.out.push(Stmt::bind(&wide, value));
        let moved = self.names.fresh(&format!("{name}_cl"));
        self.out
            .push(Stmt::bind(&moved, permute(&wide, &to_last(rank))));
        moved
    }

    /// A constant in the text, bound to a name and permuted.
    fn literal(&mut self, value: &Expr, shape: &[usize], rank: usize) -> Option<Name> {
        let dims: Option<Vec<Dim>> = shape
            .iter()
            .map(|&len| Some(Dim::int(i64::try_from(len).ok()?)))
            .collect();
        let name = self.names.fresh("const");
        self.out.push(Stmt::bind(&name, value.clone()));
        Some(self.widen(&name, dims?, rank))
    }
}

/// The extents of a constant in the text that is no scalar.
fn literal_shape(value: &Expr) -> Option<Vec<usize>> {
    let (path, args) = value.as_call()?;
    let tensor = (path == "R.const").then(|| parse_const(args).ok())??;
    (!tensor.shape.is_empty()).then_some(tensor.shape)
}

fn value_first(value: &mut Expr) -> Option<&mut Expr> {
    let ExprKind::Call { args, .. } = &mut value.kind else {
        return None;
    };
    args.first_mut().map(|arg| &mut arg.value)
}

fn normal_axis(axis: i64, rank: usize) -> Option<usize> {
    usize::try_from(if axis < 0 { axis + rank as i64 } else { axis })
        .ok()
        .filter(|&axis| axis < rank)
}
