//! Calls of other prim_funcs: `cls.f(A, B, n)`, or `f(A, B, n)` where functions stand in no class.
//!
//! A buffer is passed as the pointer to its first element; the symbolic dims of the callee follow from the extents of the
//! buffers. What the callee raises, the caller raises.

use std::collections::BTreeMap;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};
use irc_syntax::{Arg, DType, Expr, Name, Span};

use super::{BufferDecl, PrimParam, argument_type};
use crate::codegen::cast;
use crate::codegen::lower::{Extent, Lower, Res, unsupported};

impl Lower<'_, '_> {
    /// Calls a prim_func of the object; `false` where no such is declared.
    pub(super) fn call_prim(&mut self, path: &str, args: &[Arg], span: Option<Span>) -> Res<bool> {
        let name = path.strip_prefix("cls.").unwrap_or(path);
        let Some((id, sig)) = self.asm.prims.get(name).cloned() else {
            return Ok(false);
        };
        if sig.params.len() != args.len() {
            let message = format!("`{name}` takes {} values", sig.params.len());
            return Err(unsupported(span, message));
        }
        let mut values = Vec::new();
        let mut dims = BTreeMap::new();
        for (arg, (param, kind)) in args.iter().zip(&sig.params) {
            values.push(match kind {
                PrimParam::Buffer(decl) => self.pass_buffer(&arg.value, param, decl, &mut dims)?,
                PrimParam::Scalar(dtype) => self.pass_scalar(&arg.value, *dtype)?,
            });
        }
        for dim in &sig.dims {
            let value = dims.get(dim).copied().ok_or_else(|| {
                unsupported(span, format!("`{dim}` of `{name}` follows from no buffer"))
            })?;
            values.push(value);
        }
        let status = self.call(id, &values);
        self.check_status(status);
        Ok(true)
    }

    fn pass_scalar(&mut self, arg: &Expr, dtype: DType) -> Res<Value> {
        let value = self.value_as(arg, dtype)?;
        let passed = argument_type(dtype);
        let ty = self.b.func.dfg.value_type(value);
        Ok(if ty == passed {
            value
        } else if dtype.is_float() {
            cast::cast(&mut self.b, value, dtype, DType::F32)
        } else if dtype.is_signed() {
            self.b.ins().sextend(passed, value)
        } else {
            self.b.ins().uextend(passed, value)
        })
    }

    fn pass_buffer(
        &mut self,
        arg: &Expr,
        param: &Name,
        decl: &BufferDecl,
        dims: &mut BTreeMap<Name, Value>,
    ) -> Res<Value> {
        let name = arg.as_name().ok_or_else(|| {
            unsupported(arg.span, format!("`{param}` takes a buffer by its name"))
        })?;
        let buffer = self.buffer(name, arg.span)?;
        let fits = buffer.dtype == decl.dtype
            && buffer.shape.len() == decl.shape.len()
            && buffer.stride_exprs.is_none()
            && decl.strides.is_none()
            && decl.elem_offset.is_none();
        if !fits {
            let message = format!("`{name}` is not such a buffer as `{param}`");
            return Err(unsupported(arg.span, message));
        }
        for (expr, &extent) in decl.shape.iter().zip(&buffer.shape) {
            if let Some(sym) = expr.as_name().or(expr.as_str().map(Name::from).as_ref()) {
                let value = self.extent(extent);
                match dims.get(sym) {
                    Some(&known) => self.require_equal(known, value)?,
                    None => {
                        dims.insert(sym.clone(), value);
                    }
                }
                continue;
            }
            let wanted = expr.as_int().and_then(|value| i64::try_from(value).ok());
            match (wanted, extent) {
                (Some(wanted), Extent::Const(extent)) if wanted == extent => {}
                (Some(wanted), Extent::Run(extent)) => {
                    let wanted = self.i64(wanted);
                    self.require_equal(wanted, extent)?;
                }
                _ => {
                    let message = format!("an extent of `{name}` is not that of `{param}`");
                    return Err(unsupported(arg.span, message));
                }
            }
        }
        self.pointer_of(name, arg.span)
    }

    fn require_equal(&mut self, a: Value, b: Value) -> Res<()> {
        let same = self.b.ins().icmp(IntCC::Equal, a, b);
        self.require(same, "ValueError", "extents of a called function differ")
    }
}
