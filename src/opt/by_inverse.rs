//! Multiplies by the inverse of a constant instead of dividing by it.
//!
//!     y = R.divide(x, R.const(6.0))      →      y = R.multiply(x, R.const(0.16666667))
//!
//! A division takes as long as a dozen products. The product may differ from the quotient in the last bit, which is
//! no matter for values that are used as they are, and decides where they are rounded to integers or compared: such
//! quotients stay, and `--exact` leaves all.

use std::collections::BTreeSet;

use irc_syntax::uses::{bound_names, names_read};
use irc_syntax::{DType, Expr, FuncKind, Module, Name, Stmt, StmtKind};

use super::rewrite::{Binding, Rewrite, Site, round, run_rule};
use super::{Changed, Pass, PassCx};
use crate::check::prim::{Binary, Prim, Unary};
use crate::check::stage::Level;

/// The pass.
pub const PASS: Pass = Pass {
    name: "by_inverse",
    run,
    from: Level::Normal,
    to: Level::Normal,
    summary: "quotients by constants are products by their inverses",
    args: &[],
};

/// Runs the pass on every graph function that is no group.
pub fn run(module: &mut Module, cx: &mut PassCx) -> Changed {
    if cx.target.exact {
        return Changed::No;
    }
    let mut decisive = BTreeSet::new();
    for func in module.funcs().filter(|func| func.kind == FuncKind::Graph) {
        mark_decisive(&func.body, &mut decisive);
    }
    run_rule(module, cx, &|site, binding| {
        rule(site, binding, decisive.contains(binding.name))
    })
}

fn rule(site: &Site, binding: &Binding, is_decisive: bool) -> Option<Rewrite> {
    let call = site.prim(binding.value)?;
    if call.prim != Prim::Binary(Binary::Divide) {
        return None;
    }
    let (x, divisor) = (call.operand("a")?, call.operand("b")?);
    if site.dtype(divisor)? != DType::F32 {
        return None;
    }
    let shape = site.constant_shape(divisor)?;
    let divisors = site.numbers(divisor)?;
    // Their inverses are normal numbers too.
    let is_plain = |number: &f64| (1e-30..1e30).contains(&number.abs());
    if !divisors.iter().all(is_plain) {
        return None;
    }
    let is_exact = |number: &f64| (number.to_bits() << 12) == 0;
    if is_decisive && !divisors.iter().all(is_exact) {
        return site.refuse(binding, "it is rounded to integers or compared");
    }
    let inverses: Vec<f64> = divisors.iter().map(|number| 1.0 / number).collect();
    let inverse = site.revise(divisor, round(shape, &inverses, DType::F32)?);
    Some(Rewrite::Value(Expr::call(
        "R.multiply",
        [x.clone(), inverse],
    )))
}

/// Adds the names whose last bit may decide: what is rounded to integers or compared, and what that is computed from.
fn mark_decisive(stmts: &[Stmt], marked: &mut BTreeSet<Name>) {
    for stmt in stmts.iter().rev() {
        match &stmt.kind {
            StmtKind::If { then, orelse, .. } => {
                mark_decisive(orelse, marked);
                mark_decisive(then, marked);
            }
            StmtKind::Assign { target, value, .. } => {
                let reads_on = match flow_of(value) {
                    Flow::Decides => true,
                    Flow::Hides => false,
                    Flow::Carries => bound_names(target).iter().any(|name| marked.contains(name)),
                };
                if reads_on {
                    marked.extend(names_read(value));
                }
            }
            _ => {}
        }
    }
}

/// What an operator does with the last bits of what it reads.
enum Flow {
    /// The result depends on them as a whole.
    Decides,
    /// They are in the last bits of the result.
    Carries,
    /// They are lost among others.
    Hides,
}

fn flow_of(value: &Expr) -> Flow {
    let prim = value.as_call().and_then(|(path, _)| Prim::find(&path));
    match prim {
        Some(Prim::Unary(Unary::Real(real))) => match real {
            _ if real.is_rounding() => Flow::Decides,
            _ => Flow::Carries,
        },
        Some(
            Prim::Astype
            | Prim::WhileLoop
            | Prim::Unary(Unary::Sign)
            | Prim::Binary(
                Binary::FloorDivide
                | Binary::FloorMod
                | Binary::Mod
                | Binary::Equal
                | Binary::NotEqual
                | Binary::Less
                | Binary::LessEqual
                | Binary::Greater
                | Binary::GreaterEqual,
            ),
        ) => Flow::Decides,
        Some(Prim::Matmul | Prim::Conv(_) | Prim::ConvTranspose(_)) => Flow::Hides,
        _ => Flow::Carries,
    }
}
