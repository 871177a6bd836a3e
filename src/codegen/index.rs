//! Index arithmetic: sums of a register and a constant, in 64 bits, folded while they are built.

use cranelift_codegen::ir::{InstBuilder, Value};
use irc_syntax::{BinaryOp, DType, Expr, ExprKind};

use super::arith::{self, Arith, Operand, Val};
use super::lower::{Binding, Lower, Res};

/// An index: a register, when there is one, plus a constant.
#[derive(Clone, Copy, Debug)]
pub struct Index {
    /// The part known at run time, an i64.
    pub run: Option<Value>,
    /// The part known now.
    pub add: i64,
    /// Whether the whole is known not to be negative.
    pub natural: bool,
}

impl Index {
    pub(super) fn known(value: i64) -> Self {
        Self {
            run: None,
            add: value,
            natural: value >= 0,
        }
    }
}

impl Lower<'_, '_> {
    /// An integer expression as an index; constants are kept apart.
    pub fn index(&mut self, expr: &Expr) -> Res<Index> {
        match &expr.kind {
            ExprKind::Int(value) => Ok(Index::known(*value as i64)),
            ExprKind::Name(name) => {
                if let Some(binding) = self.scope.get(name) {
                    match *binding {
                        Binding::Const(value, _) => return Ok(Index::known(value)),
                        Binding::Index { v, natural, .. } => {
                            return Ok(Index {
                                run: Some(v),
                                add: 0,
                                natural,
                            });
                        }
                        Binding::Value(_) | Binding::Var(..) | Binding::Buffer(_) => {}
                    }
                }
                self.general_index(expr)
            }
            ExprKind::Binary { op, lhs, rhs } => self.binary_index(*op, lhs, rhs, expr),
            ExprKind::Call { func, args } => {
                let path = func.as_path().unwrap_or_default();
                let is_int = matches!(&*path, "T.int64" | "T.int32");
                let is_cast = path == "T.Cast"
                    && args.len() == 2
                    && matches!(args[0].value.as_str(), Some("int64"));
                match args.as_slice() {
                    [only] if is_int => self.index(&only.value),
                    [_, value] if is_cast && self.is_index_expr(&value.value) => {
                        self.index(&value.value)
                    }
                    _ => self.general_index(expr),
                }
            }
            _ => self.general_index(expr),
        }
    }

    /// Whether an expression is made of indices only, so that converting it to int64 changes nothing.
    pub(super) fn is_index_expr(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Int(_) => true,
            ExprKind::Name(name) => {
                matches!(
                    self.scope.get(name),
                    Some(Binding::Index { .. } | Binding::Const(..))
                )
            }
            ExprKind::Binary {
                op: BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul,
                lhs,
                rhs,
            } => self.is_index_expr(lhs) && self.is_index_expr(rhs),
            _ => false,
        }
    }

    pub(super) fn general_index(&mut self, expr: &Expr) -> Res<Index> {
        let operand = self.expr(expr)?;
        if let Operand::Int(value) = operand {
            return Ok(Index::known(value as i64));
        }
        let natural = matches!(operand, Operand::Val(val) if val.dtype.is_unsigned());
        let run = self.index_of(operand, expr.span)?;
        Ok(Index {
            run: Some(run),
            add: 0,
            natural,
        })
    }

    pub(super) fn binary_index(
        &mut self,
        op: BinaryOp,
        lhs: &Expr,
        rhs: &Expr,
        whole: &Expr,
    ) -> Res<Index> {
        let simple = matches!(
            op,
            BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::FloorDiv | BinaryOp::Mod
        );
        if !simple {
            return self.general_index(whole);
        }
        let a = self.index(lhs)?;
        let c = self.index(rhs)?;
        match op {
            BinaryOp::Add => Ok(Index {
                run: self.join(a.run, c.run, |b, x, y| b.ins().iadd(x, y)),
                add: a.add.wrapping_add(c.add),
                natural: a.natural && c.natural,
            }),
            BinaryOp::Sub => {
                let run = match (a.run, c.run) {
                    (Some(x), Some(y)) => Some(self.b.ins().isub(x, y)),
                    (None, Some(y)) => Some(self.b.ins().ineg(y)),
                    (x, None) => x,
                };
                let add = a.add.wrapping_sub(c.add);
                Ok(Index {
                    run,
                    add,
                    natural: run.is_none() && add >= 0,
                })
            }
            BinaryOp::Mul => Ok(self.index_mul(a, c)),
            _ => Ok(self.index_div(op == BinaryOp::FloorDiv, a, c)),
        }
    }

    pub(super) fn join(
        &mut self,
        a: Option<Value>,
        c: Option<Value>,
        op: impl FnOnce(&mut cranelift_frontend::FunctionBuilder<'_>, Value, Value) -> Value,
    ) -> Option<Value> {
        match (a, c) {
            (Some(x), Some(y)) => Some(op(&mut self.b, x, y)),
            (x, y) => x.or(y),
        }
    }

    /// `a * c`
    pub fn index_mul(&mut self, a: Index, c: Index) -> Index {
        let natural = a.natural && c.natural;
        match (a.run, c.run) {
            (None, None) => Index::known(a.add.wrapping_mul(c.add)),
            (Some(x), None) => self.scale(x, a.add, c.add, natural),
            (None, Some(y)) => self.scale(y, c.add, a.add, natural),
            (Some(_), Some(_)) => {
                let (x, y) = (self.index_value(a), self.index_value(c));
                Index {
                    run: Some(self.b.ins().imul(x, y)),
                    add: 0,
                    natural,
                }
            }
        }
    }

    pub(super) fn scale(&mut self, run: Value, add: i64, by: i64, natural: bool) -> Index {
        if by == 0 {
            return Index::known(0);
        }
        let run = if by == 1 {
            run
        } else {
            let by = self.i64(by);
            self.b.ins().imul(run, by)
        };
        Index {
            run: Some(run),
            add: add.wrapping_mul(by),
            natural,
        }
    }

    pub(super) fn index_div(&mut self, is_div: bool, a: Index, c: Index) -> Index {
        if let (None, None, true) = (a.run, c.run, c.add > 0) {
            let value = if is_div {
                a.add.div_euclid(c.add)
            } else {
                a.add.rem_euclid(c.add)
            };
            return Index::known(value);
        }
        let rhs_const = c.run.is_none().then_some(i128::from(c.add));
        let (x, y) = (self.index_value(a), self.index_value(c));
        let run = if a.natural && c.natural {
            if is_div {
                arith::index_div(&mut self.b, x, y, rhs_const)
            } else {
                arith::index_rem(&mut self.b, x, y, rhs_const)
            }
        } else {
            let op = if is_div {
                Arith::FloorDiv
            } else {
                Arith::FloorMod
            };
            let (x, y) = (
                Val {
                    v: x,
                    dtype: DType::I64,
                },
                Val {
                    v: y,
                    dtype: DType::I64,
                },
            );
            arith::arith(&mut self.b, false, op, x, y, rhs_const)
        };
        Index {
            run: Some(run),
            add: 0,
            natural: if is_div {
                a.natural && c.natural
            } else {
                c.natural
            },
        }
    }

    /// The i64 of an index.
    pub fn index_value(&mut self, index: Index) -> Value {
        match index.run {
            None => self.i64(index.add),
            Some(run) if index.add == 0 => run,
            Some(run) => self.b.ins().iadd_imm_s(run, index.add),
        }
    }
}
