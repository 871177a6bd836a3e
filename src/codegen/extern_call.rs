//! Calls of C functions from the loop level.

use cranelift_codegen::ir::{InstBuilder, Value};
use cranelift_module::Linkage;
use irc_syntax::{Arg, DType, ExprKind, Span};

use super::arith::{Operand, Val};
use super::lower::{Binding, Lower, Res, unsupported};

impl Lower<'_, '_> {
    /// `T.call_extern("int32", "puts", x)`: a C function of another library, or of the object.
    pub fn call_extern(&mut self, args: &[Arg], span: Option<Span>) -> Res<Operand> {
        let [dtype, symbol, rest @ ..] = args else {
            return Err(unsupported(
                span,
                "`T.call_extern` needs a type and a symbol",
            ));
        };
        let symbol = symbol
            .value
            .as_str()
            .ok_or_else(|| unsupported(span, "the symbol of `T.call_extern` is a string"))?
            .to_owned();
        let mut params = Vec::new();
        let mut values = Vec::new();
        for arg in rest {
            let value = if let ExprKind::Str(text) = &arg.value.kind {
                self.text(&text.clone())?
            } else if let Some(name) = arg.value.as_name()
                && matches!(self.scope.get(name), Some(Binding::Buffer(_)))
            {
                self.pointer_of(name, arg.value.span)?
            } else {
                let val = self.value(&arg.value)?;
                self.c_argument(val)
            };
            params.push(self.b.func.dfg.value_type(value));
            values.push(value);
        }
        let is_void =
            matches!(&dtype.value.kind, ExprKind::Str(text) if text == "void" || text == "handle");
        let dtype = if is_void {
            DType::I64
        } else {
            self.dtype_of(&dtype.value)?
        };
        let ty = self.register(dtype, span)?;
        let id = self.asm.declare(&symbol, Linkage::Import, &params, &[ty])?;
        let v = self.call(id, &values);
        Ok(Operand::Val(Val { v, dtype }))
    }

    /// Integers narrower than an int are passed as one.
    fn c_argument(&mut self, val: Val) -> Value {
        let ty = self.b.func.dfg.value_type(val.v);
        if !ty.is_int() || ty.bits() >= 32 {
            val.v
        } else if val.dtype.is_signed() {
            self.b
                .ins()
                .sextend(cranelift_codegen::ir::types::I32, val.v)
        } else {
            self.b
                .ins()
                .uextend(cranelift_codegen::ir::types::I32, val.v)
        }
    }

    /// `T.call_llvm_pure_intrin("float32", "llvm.exp", x)`: the function that the intrinsic stands for.
    pub fn call_llvm(&mut self, args: &[Arg], span: Option<Span>) -> Res<Operand> {
        let [_, name, rest @ ..] = args else {
            return Err(unsupported(span, "an intrinsic needs a type and a name"));
        };
        let base = name
            .value
            .as_str()
            .and_then(|text| text.strip_prefix("llvm."));
        let base = base
            .map(|text| text.split('.').next().unwrap_or(text).to_owned())
            .ok_or_else(|| unsupported(span, "the name of an intrinsic is a string"))?;
        // Some printings count the arguments first.
        let rest = match rest {
            [count, others @ ..] if count.value.is_call_of("T.uint32") && others.len() == 1 => {
                others
            }
            _ => rest,
        };
        self.call_expr(&format!("T.{base}"), rest, span)
    }
}
