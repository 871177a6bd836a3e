//! Scalar expressions of the loop level, and dims of either level.
//!
//! Numbers without a dtype take the one of what they meet; two dtypes meet in the wider one, as TVM's reader does it.
//! Index arithmetic is done in 64 bits whatever the dtype of the loop variables: an int32 index that overflows has no
//! meaning. `and`, `or`, `T.if_then_else` evaluate their right sides only when needed if these read memory.

use cranelift_codegen::ir::types::I8;
use cranelift_codegen::ir::{InstBuilder, Value};
use irc_syntax::{Arg, BinaryOp, DType, Expr, ExprKind, Name, Span, UnaryOp};

use super::arith::{self, Arith, Compare, Operand, Unary, Val};
use super::cast;
pub use super::index::Index;
use super::lower::{Binding, Lower, Res, Storage, unsupported};

fn arith_of(op: BinaryOp) -> Option<Arith> {
    Some(match op {
        BinaryOp::Pow => Arith::Pow,
        BinaryOp::Mul => Arith::Mul,
        BinaryOp::Div => Arith::Div,
        BinaryOp::FloorDiv => Arith::FloorDiv,
        BinaryOp::Mod => Arith::FloorMod,
        BinaryOp::Add => Arith::Add,
        BinaryOp::Sub => Arith::Sub,
        BinaryOp::Shl => Arith::Shl,
        BinaryOp::Shr => Arith::Shr,
        BinaryOp::BitAnd => Arith::And,
        BinaryOp::BitXor => Arith::Xor,
        BinaryOp::BitOr => Arith::Or,
        _ => return None,
    })
}

fn compare_of(op: BinaryOp) -> Option<Compare> {
    Some(match op {
        BinaryOp::Eq => Compare::Eq,
        BinaryOp::Ne => Compare::Ne,
        BinaryOp::Lt => Compare::Lt,
        BinaryOp::Le => Compare::Le,
        BinaryOp::Gt => Compare::Gt,
        BinaryOp::Ge => Compare::Ge,
        _ => return None,
    })
}

/// Whether evaluating an expression reads memory or calls something.
fn reads_memory(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Index { .. } => true,
        ExprKind::Call { func, args } => {
            func.as_path()
                .is_some_and(|path| path.starts_with("T.call"))
                || args.iter().any(|arg| reads_memory(&arg.value))
        }
        ExprKind::Unary { value, .. } => reads_memory(value),
        ExprKind::Binary { lhs, rhs, .. } => reads_memory(lhs) || reads_memory(rhs),
        ExprKind::IfElse { cond, then, orelse } => {
            reads_memory(cond) || reads_memory(then) || reads_memory(orelse)
        }
        _ => false,
    }
}

/// Whether an expression reads memory at a place that depends on memory.
fn reads_indirectly(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Index { index, .. } => index.iter().any(reads_memory),
        ExprKind::Call { args, .. } => args.iter().any(|arg| reads_indirectly(&arg.value)),
        ExprKind::Unary { value, .. } => reads_indirectly(value),
        ExprKind::Binary { lhs, rhs, .. } => reads_indirectly(lhs) || reads_indirectly(rhs),
        _ => false,
    }
}

impl Lower<'_, '_> {
    /// Evaluates an expression.
    pub fn expr(&mut self, expr: &Expr) -> Res<Operand> {
        let span = expr.span;
        match &expr.kind {
            ExprKind::Int(value) => Ok(Operand::Int(*value)),
            ExprKind::Float(value) => Ok(Operand::Float(*value)),
            ExprKind::Bool(value) => {
                let v = self.b.ins().iconst(I8, i64::from(*value));
                Ok(Operand::Val(Val {
                    v,
                    dtype: DType::Bool,
                }))
            }
            ExprKind::Name(name) => self.name(name, span),
            ExprKind::Unary { op, value } => self.unary_expr(*op, value),
            ExprKind::Binary { op, lhs, rhs } => self.binary_expr(*op, lhs, rhs, span),
            ExprKind::Index { value, index } => self.read(value, index, span),
            ExprKind::Call { func, args } => {
                let path = func
                    .as_path()
                    .ok_or_else(|| unsupported(span, "a computed callee cannot be compiled"))?;
                self.call_expr(&path, args, span)
            }
            ExprKind::Attr { value, name } => self.member(value, name, span),
            ExprKind::IfElse { cond, then, orelse } => self.lazy_select(cond, then, orelse, span),
            ExprKind::Str(_)
            | ExprKind::None
            | ExprKind::Ellipsis
            | ExprKind::Slice { .. }
            | ExprKind::Tuple { .. }
            | ExprKind::List(_)
            | ExprKind::Dict(_)
            | ExprKind::ListComp { .. }
            | ExprKind::Starred(_)
            | ExprKind::Error => Err(unsupported(span, "this expression has no scalar value")),
        }
    }

    /// Evaluates to a register in the expression's own dtype.
    pub fn value(&mut self, expr: &Expr) -> Res<Val> {
        let operand = self.expr(expr)?;
        self.settle(operand, expr.span)
    }

    /// Evaluates to a condition.
    pub fn condition(&mut self, expr: &Expr) -> Res<Value> {
        let operand = self.expr(expr)?;
        self.truth(operand, expr.span)
    }

    /// Evaluates to a register of a dtype.
    pub fn value_as(&mut self, expr: &Expr, dtype: DType) -> Res<Value> {
        let operand = self.expr(expr)?;
        self.convert(operand, dtype, expr.span)
    }

    fn name(&mut self, name: &Name, span: Option<Span>) -> Res<Operand> {
        Ok(match self.binding(name, span)? {
            Binding::Value(val) => Operand::Val(val),
            Binding::Const(value, dtype) => {
                let v = self.convert(Operand::Int(i128::from(value)), dtype, span)?;
                Operand::Val(Val { v, dtype })
            }
            Binding::Index { v, dtype, .. } => {
                let v = super::cast::cast(&mut self.b, v, DType::I64, dtype);
                Operand::Val(Val { v, dtype })
            }
            Binding::Var(var, dtype) => Operand::Val(Val {
                v: self.b.use_var(var),
                dtype,
            }),
            Binding::Buffer(_) => {
                return Err(unsupported(
                    span,
                    format!("buffer `{name}` is used as a value"),
                ));
            }
        })
    }

    pub(super) fn unary_expr(&mut self, op: UnaryOp, value: &Expr) -> Res<Operand> {
        let operand = self.expr(value)?;
        match (op, operand) {
            (UnaryOp::Pos, _) => Ok(operand),
            (UnaryOp::Neg, Operand::Int(value)) => Ok(Operand::Int(-value)),
            (UnaryOp::Neg, Operand::Float(value)) => Ok(Operand::Float(-value)),
            (UnaryOp::Invert, Operand::Int(value)) => Ok(Operand::Int(!value)),
            (UnaryOp::Not, _) => {
                let truth = self.truth(operand, value.span)?;
                Ok(Operand::Val(Val {
                    v: self.b.ins().bxor_imm_u(truth, 1),
                    dtype: DType::Bool,
                }))
            }
            (UnaryOp::Neg | UnaryOp::Invert, _) => {
                let val = self.number(operand, value.span)?;
                let op = if op == UnaryOp::Neg {
                    Unary::Neg
                } else {
                    Unary::BitNot
                };
                Ok(Operand::Val(Val {
                    v: arith::unary(&mut self.b, op, val),
                    dtype: val.dtype,
                }))
            }
        }
    }

    fn binary_expr(
        &mut self,
        op: BinaryOp,
        lhs: &Expr,
        rhs: &Expr,
        span: Option<Span>,
    ) -> Res<Operand> {
        if let Some(op) = arith_of(op) {
            return self.arith_expr(op, lhs, rhs, span);
        }
        if let Some(op) = compare_of(op) {
            return self.compare_expr(op, lhs, rhs, span);
        }
        match op {
            BinaryOp::And | BinaryOp::Or => self.logic(op == BinaryOp::And, lhs, rhs),
            _ => Err(unsupported(span, "this operator has no scalar meaning")),
        }
    }

    pub(super) fn arith_expr(
        &mut self,
        op: Arith,
        lhs: &Expr,
        rhs: &Expr,
        span: Option<Span>,
    ) -> Res<Operand> {
        let a = self.expr(lhs)?;
        let c = self.expr(rhs)?;
        self.arith_operands(op, a, c, span)
    }

    pub(super) fn arith_operands(
        &mut self,
        op: Arith,
        lhs: Operand,
        rhs: Operand,
        span: Option<Span>,
    ) -> Res<Operand> {
        let dtype = match arith::unify(lhs, rhs) {
            // Operators on bits keep `bool`, and so do the smaller and the larger of two.
            Some(DType::Bool)
                if !matches!(
                    op,
                    Arith::And | Arith::Or | Arith::Xor | Arith::Min | Arith::Max
                ) =>
            {
                DType::I32
            }
            Some(dtype) => dtype,
            None => {
                if let Some(folded) = fold(op, lhs, rhs) {
                    return Ok(folded);
                }
                match (lhs, rhs) {
                    (Operand::Int(_), Operand::Int(_)) => DType::I32,
                    _ => DType::F32,
                }
            }
        };
        if cast::is_opaque(dtype) {
            return Err(unsupported(span, format!("`{dtype}` has no arithmetic")));
        }
        let rhs_const = if let Operand::Int(value) = rhs {
            Some(value)
        } else {
            self.const_of(rhs)
        };
        let lhs = Val {
            v: self.convert(lhs, dtype, span)?,
            dtype,
        };
        let rhs = Val {
            v: self.convert(rhs, dtype, span)?,
            dtype,
        };
        let fma = self.fma();
        let v = arith::arith(&mut self.b, fma, op, lhs, rhs, rhs_const);
        Ok(Operand::Val(Val { v, dtype }))
    }

    /// The number in a register, where an instruction just put it there.
    fn const_of(&self, operand: Operand) -> Option<i128> {
        use cranelift_codegen::ir::{InstructionData, Opcode};
        let Operand::Val(val) = operand else {
            return None;
        };
        let inst = self.b.func.dfg.value_def(val.v).inst()?;
        match self.b.func.dfg.insts[inst] {
            InstructionData::UnaryImm {
                opcode: Opcode::Iconst,
                imm,
            } => {
                let bits = imm.bits();
                let unused = 64 - i64::from(val.dtype.bits().clamp(8, 64));
                Some(i128::from(bits << unused >> unused))
            }
            _ => None,
        }
    }

    pub(super) fn compare_expr(
        &mut self,
        op: Compare,
        lhs: &Expr,
        rhs: &Expr,
        span: Option<Span>,
    ) -> Res<Operand> {
        let a = self.expr(lhs)?;
        let c = self.expr(rhs)?;
        let dtype = match arith::unify(a, c) {
            Some(dtype) => dtype,
            None => match (a, c) {
                (Operand::Int(_), Operand::Int(_)) => DType::I64,
                _ => DType::F64,
            },
        };
        let lhs = Val {
            v: self.convert(a, dtype, span)?,
            dtype,
        };
        let rhs = Val {
            v: self.convert(c, dtype, span)?,
            dtype,
        };
        let v = match dtype {
            DType::Str => self.compare_strings(op, lhs.v, rhs.v)?,
            _ if cast::is_opaque(dtype) && !matches!(op, Compare::Eq | Compare::Ne) => {
                return Err(unsupported(span, format!("`{dtype}` has no order")));
            }
            _ => arith::compare(&mut self.b, op, lhs, rhs),
        };
        Ok(Operand::Val(Val {
            v,
            dtype: DType::Bool,
        }))
    }

    pub(super) fn logic(&mut self, is_and: bool, lhs: &Expr, rhs: &Expr) -> Res<Operand> {
        let a = self.condition(lhs)?;
        let v = if reads_memory(rhs) {
            let (more, join) = (self.b.create_block(), self.b.create_block());
            let res = self.b.append_block_param(join, I8);
            if is_and {
                self.b.ins().brif(a, more, &[], join, &[a.into()]);
            } else {
                self.b.ins().brif(a, join, &[a.into()], more, &[]);
            }
            self.b.switch_to_block(more);
            self.b.seal_block(more);
            let c = self.condition(rhs)?;
            self.b.ins().jump(join, &[c.into()]);
            self.b.switch_to_block(join);
            self.b.seal_block(join);
            res
        } else {
            let c = self.condition(rhs)?;
            if is_and {
                self.b.ins().band(a, c)
            } else {
                self.b.ins().bor(a, c)
            }
        };
        Ok(Operand::Val(Val {
            v,
            dtype: DType::Bool,
        }))
    }

    /// Evaluates one side only.
    pub(super) fn lazy_select(
        &mut self,
        cond: &Expr,
        then: &Expr,
        orelse: &Expr,
        span: Option<Span>,
    ) -> Res<Operand> {
        let cond = self.condition(cond)?;
        let (yes, no, join) = (
            self.b.create_block(),
            self.b.create_block(),
            self.b.create_block(),
        );
        self.b.ins().brif(cond, yes, &[], no, &[]);
        self.b.switch_to_block(yes);
        self.b.seal_block(yes);
        let first = self.expr(then)?;
        // The common dtype is known after the other side; what converts to it comes in a block of its own.
        let yes_end = self.b.create_block();
        self.b.ins().jump(yes_end, &[]);
        self.b.seal_block(yes_end);
        self.b.switch_to_block(no);
        self.b.seal_block(no);
        let second = self.expr(orelse)?;
        let dtype = self.meet(first, second);
        let other = self.convert(second, dtype, span)?;
        let ty = self.register(dtype, span)?;
        let res = self.b.append_block_param(join, ty);
        self.b.ins().jump(join, &[other.into()]);
        self.b.switch_to_block(yes_end);
        let one = self.convert(first, dtype, span)?;
        self.b.ins().jump(join, &[one.into()]);
        self.b.switch_to_block(join);
        self.b.seal_block(join);
        Ok(Operand::Val(Val { v: res, dtype }))
    }

    fn meet(&self, a: Operand, c: Operand) -> DType {
        arith::unify(a, c).unwrap_or(match (a, c) {
            (Operand::Int(_), Operand::Int(_)) => DType::I32,
            _ => DType::F32,
        })
    }

    pub(super) fn select(&mut self, args: &[Arg], span: Option<Span>) -> Res<Operand> {
        let [cond, then, orelse] = args else {
            return Err(unsupported(span, "`T.Select` takes three values"));
        };
        // Both sides of a select are evaluated; one that follows a stored index only where it is chosen.
        if reads_indirectly(&then.value) || reads_indirectly(&orelse.value) {
            return self.lazy_select(&cond.value, &then.value, &orelse.value, span);
        }
        let cond = self.condition(&cond.value)?;
        let a = self.expr(&then.value)?;
        let c = self.expr(&orelse.value)?;
        let dtype = self.meet(a, c);
        let a = self.convert(a, dtype, span)?;
        let c = self.convert(c, dtype, span)?;
        Ok(Operand::Val(Val {
            v: self.b.ins().select(cond, a, c),
            dtype,
        }))
    }

    fn member(&mut self, value: &Expr, name: &Name, span: Option<Span>) -> Res<Operand> {
        let owner = value
            .as_name()
            .ok_or_else(|| unsupported(span, format!("`.{name}` has no scalar value")))?;
        let buffer = self.buffer(owner, span)?;
        match (&**name, &buffer.storage) {
            ("data", Storage::Memory(base)) => Ok(Operand::Val(Val {
                v: *base,
                dtype: DType::U64,
            })),
            ("elem_offset", _) => Ok(Operand::Int(0)),
            _ => Err(unsupported(
                span,
                format!("`{owner}.{name}` has no scalar value"),
            )),
        }
    }

    /// `B[i, j]`, or `B.strides[0]`.
    fn read(&mut self, value: &Expr, index: &[Expr], span: Option<Span>) -> Res<Operand> {
        if let ExprKind::Attr { value: owner, name } = &value.kind {
            let axis = index
                .first()
                .and_then(Expr::as_int)
                .and_then(|axis| usize::try_from(axis).ok());
            if let (Some(owner), Some(axis)) = (owner.as_name(), axis) {
                let buffer = self.buffer(owner, span)?;
                let list = match &**name {
                    "shape" => &buffer.shape,
                    "strides" => &buffer.strides,
                    _ => return Err(unsupported(span, format!("`.{name}` is not known"))),
                };
                let extent = *list
                    .get(axis)
                    .ok_or_else(|| unsupported(span, format!("`{owner}` has no axis {axis}")))?;
                let v = self.extent(extent);
                return Ok(Operand::Val(Val {
                    v,
                    dtype: DType::I64,
                }));
            }
        }
        let name = value
            .as_name()
            .ok_or_else(|| unsupported(span, "only buffers are indexed at the loop level"))?;
        let val = self.load(name, index, span)?;
        Ok(Operand::Val(val))
    }
}

/// Arithmetic on plain numbers.
fn fold(op: Arith, lhs: Operand, rhs: Operand) -> Option<Operand> {
    if let (Operand::Int(a), Operand::Int(c)) = (lhs, rhs) {
        return Some(Operand::Int(match op {
            Arith::Add => a.checked_add(c)?,
            Arith::Sub => a.checked_sub(c)?,
            Arith::Mul => a.checked_mul(c)?,
            Arith::Div => a.checked_div(c)?,
            Arith::TruncMod => a.checked_rem(c)?,
            Arith::FloorDiv if c > 0 => a.div_euclid(c),
            Arith::FloorMod if c > 0 => a.rem_euclid(c),
            Arith::Min => a.min(c),
            Arith::Max => a.max(c),
            _ => return None,
        }));
    }
    let number = |operand| match operand {
        Operand::Int(value) => Some(value as f64),
        Operand::Float(value) => Some(value),
        Operand::Val(_) => None,
    };
    let (a, c) = (number(lhs)?, number(rhs)?);
    Some(Operand::Float(match op {
        Arith::Add => a + c,
        Arith::Sub => a - c,
        Arith::Mul => a * c,
        Arith::Div => a / c,
        _ => return None,
    }))
}
