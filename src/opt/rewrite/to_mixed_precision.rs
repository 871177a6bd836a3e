//! Multiplies and convolves in 16 bits, and keeps everything else as it is.
//!
//!                                       x16 = R.astype(x, "float16")
//!                                       w16 = R.astype(w, "float16")
//!     y = R.matmul(x, w)       →        y16 = R.matmul(x16, w16)
//!                                       y = R.astype(y16, "float32")
//!
//! With `bfloat16=1` in that type. Casts of weights are computed by `fold_constants` afterwards. Other numbers come out:
//! run by name only.

use irc_syntax::{DType, Expr, Module};

use super::{Binding, Rewrite, Site, run_rule, with_operand};
use crate::check::prim::Prim;
use crate::check::stage::Level;
use crate::opt::{Changed, Pass, PassArg, PassCx};

const BFLOAT16: PassArg = PassArg {
    name: "bfloat16",
    default: 0,
    summary: "whether the 16 bits are those of bfloat16",
};

/// The pass.
pub const PASS: Pass = Pass {
    name: "to_mixed_precision",
    run,
    from: Level::Normal,
    to: Level::Normal,
    summary: "multiply and convolve in 16 bits",
    args: &[BFLOAT16],
};

/// Runs the pass.
pub fn run(module: &mut Module, cx: &mut PassCx) -> Changed {
    let dtype = match cx.arg(&BFLOAT16) {
        0 => DType::F16,
        _ => DType::BF16,
    };
    run_rule(module, cx, &|site, binding| rule(site, binding, dtype))
}

fn rule(site: &Site, binding: &Binding, dtype: DType) -> Option<Rewrite> {
    let operands: Vec<Expr> = match binding.value.is_call_of("onnx.Conv") {
        true => binding.value.positional().cloned().collect(),
        false => {
            let call = site.prim(binding.value)?;
            let is_product = matches!(
                call.prim,
                Prim::Matmul | Prim::Conv(_) | Prim::ConvTranspose(_)
            );
            if !is_product || call.opt_dtype("out_dtype").is_some() {
                return None;
            }
            call.operands().into_iter().cloned().collect()
        }
    };
    let is_wide = |operand: &Expr| site.dtype(operand) == Some(DType::F32);
    let operands: Vec<Expr> = operands
        .into_iter()
        .filter(|operand| site.ty(operand).is_some())
        .collect();
    if operands.is_empty() || !operands.iter().all(is_wide) {
        return None;
    }
    let cast = |value: Expr, dtype: DType| {
        Expr::call("R.astype", [value]).with("dtype", Expr::str(dtype.name()))
    };
    let mut call = binding.value.clone();
    for operand in operands {
        let hint = operand.as_name().map_or("const", |name| name.as_str());
        let key = format!("{hint} {}", dtype.name());
        let narrow = match site.recall(&key).filter(|_| operand.as_name().is_some()) {
            Some(narrow) => narrow,
            None => {
                let narrow = site.step(&format!("{hint}_16"), cast(operand.clone(), dtype));
                site.remember(key, &narrow);
                narrow
            }
        };
        call = with_operand(&call, &operand, &narrow);
    }
    let narrow = site.step(&format!("{}_16", binding.name), call);
    Some(Rewrite::Value(cast(narrow, DType::F32)))
}
