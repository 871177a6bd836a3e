//! Operators whose results have sizes that depend on values: `R.nonzero`, `R.unique`.
//!
//! Each is a pair of prim_funcs written here as text: one that counts, one that fills. They are made once for every
//! dtype that a module needs.

use cranelift_codegen::ir::types::{I8, I64};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData};
use irc_syntax::{DType, Expr, ExprKind, Func, SourceMap, Span};

use super::{Host, HostTensor, HostValue};
use crate::codegen::arith::Val;
use crate::codegen::loops;
use crate::codegen::lower::{Extent, Res, unsupported};

const NONZERO: &str = r#"
@T.prim_func(private=True)
def irc_nonzero_count_DTYPE(x: T.Buffer((n,), "DTYPE"), count: T.Buffer((), "int64")):
    k: T.int64 = 0
    for i in range(n):
        if x[i] != ZERO:
            k = k + 1
    count[()] = k

@T.prim_func(private=True)
def irc_nonzero_DTYPE(x: T.Buffer((n,), "DTYPE"), shape: T.Buffer((r,), "int64"), out: T.Buffer((r, m), "int64")):
    k: T.int64 = 0
    for i in range(n):
        if x[i] != ZERO:
            rest: T.int64 = i
            for a in range(r):
                out[r - 1 - a, k] = rest % shape[r - 1 - a]
                rest = rest // shape[r - 1 - a]
            k = k + 1
"#;

/// `x` is seen as `p` × `n` × `q`; the `n` slices are compared in row-major order of the rest. Groups of equal slices are
/// numbered by the order of a stable merge sort, or of their first slices.
const UNIQUE: &str = r#"
@T.prim_func(private=True)
def irc_unique_order_DTYPE(x: T.Buffer((p, n, q), "DTYPE"), a: T.Buffer((n,), "int64"), b: T.Buffer((n,), "int64")):
    for i in range(n):
        a[i] = i
    width: T.int64 = 1
    while width < n:
        for s in range((n + 2 * width - 1) // (2 * width)):
            mid: T.let[T.int64] = T.min(s * 2 * width + width, n)
            end: T.let[T.int64] = T.min(s * 2 * width + 2 * width, n)
            i: T.int64 = s * 2 * width
            j: T.int64 = mid
            for k in range(s * 2 * width, end):
                right: T.bool = False
                if i >= mid:
                    right = True
                else:
                    if j < end:
                        c: T.int32 = 0
                        for u in range(p):
                            for v in range(q):
                                if c == 0:
                                    if x[u, a[j], v] < x[u, a[i], v]:
                                        c = 1
                                    if x[u, a[i], v] < x[u, a[j], v]:
                                        c = -1
                        right = c == 1
                if right:
                    b[k] = a[j]
                    j = j + 1
                else:
                    b[k] = a[i]
                    i = i + 1
        for i in range(n):
            a[i] = b[i]
        width = width * 2

@T.prim_func(private=True)
def irc_unique_group_DTYPE(x: T.Buffer((p, n, q), "DTYPE"), a: T.Buffer((n,), "int64"), b: T.Buffer((n,), "int64"), group: T.Buffer((n,), "int64"), first: T.Buffer((n,), "int64"), count: T.Buffer((), "int64"), in_order: T.bool):
    m: T.int64 = 0
    for k in range(n):
        same: T.bool = k > 0
        if same:
            for u in range(p):
                for v in range(q):
                    same = same and x[u, a[k - 1], v] == x[u, a[k], v]
        if not same:
            first[m] = a[k]
            m = m + 1
        group[a[k]] = m - 1
    count[()] = m
    if not in_order:
        for g in range(m):
            a[g] = first[g]
        next: T.int64 = 0
        for i in range(n):
            if a[group[i]] == i:
                b[group[i]] = next
                first[next] = i
                next = next + 1
        for i in range(n):
            group[i] = b[group[i]]

@T.prim_func(private=True)
def irc_unique_fill_DTYPE(x: T.Buffer((p, n, q), "DTYPE"), group: T.Buffer((n,), "int64"), first: T.Buffer((n,), "int64"), y: T.Buffer((p, m, q), "DTYPE"), index: T.Buffer((m,), "int64"), counts: T.Buffer((m,), "int64")):
    for g in range(m):
        index[g] = first[g]
        counts[g] = T.int64(0)
    for i in range(n):
        counts[group[i]] = counts[group[i]] + T.int64(1)
    for u, g, v in T.grid(p, m, q):
        y[u, g, v] = x[u, first[g], v]
"#;

impl Host<'_, '_, '_> {
    /// The helper functions of a text, compiled once.
    pub(super) fn helpers(&mut self, text: &str, dtype: DType) -> Res<Vec<Func>> {
        let zero = if dtype == DType::Bool {
            "False".to_owned()
        } else {
            format!("T.{dtype}(0)")
        };
        let text = text.replace("DTYPE", dtype.name()).replace("ZERO", &zero);
        let (module, faults) = irc_syntax::parse(&mut SourceMap::new(), "helper", &text);
        if let Some(fault) = faults.into_iter().next() {
            return Err(fault);
        }
        let funcs: Vec<Func> = module.funcs().cloned().collect();
        self.lower_helpers(&funcs)?;
        Ok(funcs)
    }

    /// Brings helpers into the object, those that are not there yet.
    pub(super) fn lower_helpers(&mut self, funcs: &[Func]) -> Res<()> {
        for func in funcs {
            // One may call another that comes later.
            loops::declare(self.lower.asm, func)?;
        }
        for func in funcs {
            if !self
                .program
                .helpers
                .iter()
                .any(|known| **known == *func.name)
            {
                self.program.helpers.push(func.name.to_string());
                loops::lower(self.lower.asm, func)?;
            }
        }
        Ok(())
    }

    /// The indices of elements that are not zero, `[rank, count]`, in row-major order.
    pub fn nonzero(&mut self, x: &Expr, span: Option<Span>) -> Res<HostValue> {
        let value = self.value(x, None)?;
        let tensor = self.as_tensor(value, span)?;
        let funcs = self.helpers(NONZERO, tensor.dtype)?;
        let [count, fill] = funcs.as_slice() else {
            return Err(unsupported(span, "`R.nonzero` has no code"));
        };
        let len = self.lower.product(&tensor.dims);
        let flat = HostValue::Tensor(HostTensor {
            dims: vec![len],
            ..tensor.clone()
        });
        let found = self.alloc(DType::I64, &[])?;
        let found_tensor = HostTensor {
            data: found,
            dtype: DType::I64,
            dims: Vec::new(),
        };
        self.call_prim(
            count,
            vec![flat.clone(), HostValue::Tensor(found_tensor)],
            span,
        )?;
        let n = self
            .lower
            .b
            .ins()
            .load(I64, MemFlagsData::trusted(), found, 0);
        // A 0-d tensor counts as one axis of length one.
        let dims = if tensor.dims.is_empty() {
            vec![Extent::Const(1)]
        } else {
            tensor.dims
        };
        let rank = Extent::Const(dims.len() as i64);
        let shape = self.as_tensor(HostValue::Shape(dims), span)?;
        let out_dims = vec![rank, Extent::Run(n)];
        let data = self.alloc(DType::I64, &out_dims)?;
        let out = HostTensor {
            data,
            dtype: DType::I64,
            dims: out_dims,
        };
        let args = vec![
            flat,
            HostValue::Tensor(shape),
            HostValue::Tensor(out.clone()),
        ];
        self.call_prim(fill, args, span)?;
        Ok(HostValue::Tensor(out))
    }

    /// `R.unique(x, sorted, return_index, return_inverse, return_counts, axis)`: the values, and what was asked for.
    pub fn unique(
        &mut self,
        x: &Expr,
        flags: &[Option<&Expr>; 5],
        span: Option<Span>,
    ) -> Res<HostValue> {
        let flag = |at: usize, default: bool| match flags[at].map(|expr| &expr.kind) {
            Some(ExprKind::Bool(value)) => *value,
            Some(ExprKind::Int(value)) => *value != 0,
            _ => default,
        };
        let value = self.value(x, None)?;
        let tensor = self.as_tensor(value, span)?;
        let axis = match flags[4].and_then(loops::constant) {
            None => None,
            Some(axis) => {
                let rank = tensor.dims.len() as i64;
                let axis = usize::try_from(if axis < 0 { axis + rank } else { axis }).ok();
                let fault = || unsupported(span, "`R.unique` has an axis that the tensor has not");
                Some(
                    axis.filter(|axis| *axis < tensor.dims.len())
                        .ok_or_else(fault)?,
                )
            }
        };
        let cube = match axis {
            None => vec![
                Extent::Const(1),
                self.lower.product(&tensor.dims),
                Extent::Const(1),
            ],
            Some(axis) => vec![
                self.lower.product(&tensor.dims[..axis]),
                tensor.dims[axis],
                self.lower.product(&tensor.dims[axis + 1..]),
            ],
        };
        let funcs = self.helpers(UNIQUE, tensor.dtype)?;
        let [order, group_func, fill] = funcs.as_slice() else {
            return Err(unsupported(span, "`R.unique` has no code"));
        };
        let n = cube[1];
        let source = HostValue::Tensor(HostTensor {
            dims: cube.clone(),
            ..tensor.clone()
        });
        let a = self.int_tensor(&[n])?;
        let spare = self.int_tensor(&[n])?;
        let group = self.int_tensor(&[n])?;
        let first = self.int_tensor(&[n])?;
        let count = self.int_tensor(&[])?;
        self.call_prim(order, wrap(&source, [&a, &spare]), span)?;
        let mut args = wrap(&source, [&a, &spare, &group, &first, &count]);
        let in_order = self.lower.b.ins().iconst(I8, i64::from(flag(0, true)));
        args.push(HostValue::Scalar(Val {
            v: in_order,
            dtype: DType::Bool,
        }));
        self.call_prim(group_func, args, span)?;
        let m = self
            .lower
            .b
            .ins()
            .load(I64, MemFlagsData::trusted(), count.data, 0);
        let m = Extent::Run(m);
        let y_cube = vec![cube[0], m, cube[2]];
        let data = self.alloc(tensor.dtype, &y_cube)?;
        let y = HostTensor {
            data,
            dtype: tensor.dtype,
            dims: y_cube,
        };
        let index = self.int_tensor(&[m])?;
        let counts = self.int_tensor(&[m])?;
        self.call_prim(
            fill,
            wrap(&source, [&group, &first, &y, &index, &counts]),
            span,
        )?;
        let dims = match axis {
            None => vec![m],
            Some(axis) => {
                let mut dims = tensor.dims;
                dims[axis] = m;
                dims
            }
        };
        let mut results = vec![HostValue::Tensor(HostTensor { dims, ..y })];
        for (at, part) in [(1, index), (2, group), (3, counts)] {
            if flag(at, false) {
                results.push(HostValue::Tensor(part));
            }
        }
        Ok(match results.len() {
            1 => results.swap_remove(0),
            _ => HostValue::Tuple(results),
        })
    }

    /// Memory for int64 numbers.
    fn int_tensor(&mut self, dims: &[Extent]) -> Res<HostTensor> {
        let data = self.alloc(DType::I64, dims)?;
        Ok(HostTensor {
            data,
            dtype: DType::I64,
            dims: dims.to_vec(),
        })
    }
}

/// The arguments of a helper.
fn wrap<const N: usize>(source: &HostValue, rest: [&HostTensor; N]) -> Vec<HostValue> {
    let mut args = vec![source.clone()];
    args.extend(
        rest.into_iter()
            .map(|tensor| HostValue::Tensor(tensor.clone())),
    );
    args
}
