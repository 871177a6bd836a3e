//! Operators whose results have sizes that depend on values: `R.nonzero`, `R.unique`.
//!
//! Each is a pair of prim_funcs written here as text: one that counts, one that fills. They are made once for every
//! dtype that a module needs.

use cranelift_codegen::ir::{InstBuilder, MemFlagsData};
use irc_syntax::{DType, Expr, Func, SourceMap, Span};

use super::{Host, HostTensor, HostValue};
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

impl Host<'_, '_, '_> {
    /// The helper functions of a text, compiled once.
    fn helpers(&mut self, text: &str, dtype: DType) -> Res<Vec<Func>> {
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
        for func in &funcs {
            if !self
                .program
                .helpers
                .iter()
                .any(|known| **known == *func.name)
            {
                self.program.helpers.push(func.name.to_string());
                loops::lower(self.lower.asm, func, self.program.cpu)?;
            }
        }
        Ok(funcs)
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
        let n = self.lower.b.ins().load(
            cranelift_codegen::ir::types::I64,
            MemFlagsData::trusted(),
            found,
            0,
        );
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

    /// `relax.run.unique(x, sorted, return_index, return_inverse, return_counts, axis)`
    pub fn unique(&mut self, x: &Expr, flags: &[&Expr], span: Option<Span>) -> Res<HostValue> {
        let _ = (x, flags);
        Err(unsupported(span, "`R.unique` cannot be compiled"))
    }
}
