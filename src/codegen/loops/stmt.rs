//! Statements of the loop level.

use cranelift_codegen::ir::InstBuilder;
use irc_syntax::{DType, Expr, ExprKind, Name, Span, Stmt, StmtKind};

use super::buffer::read_decl;
use super::walk;
use crate::codegen::arith::{Operand, Val};
use crate::codegen::lower::{Binding, LoopExit, Lower, Res, unsupported};

impl Lower<'_, '_> {
    /// Lowers statements of one block; names bound among them end with it.
    pub fn scoped(&mut self, stmts: &[Stmt]) -> Res<()> {
        let scope = self.scope.clone();
        let n_heap = self.heap.len();
        self.statements(stmts)?;
        // What a loop body allocates must not pile up.
        for at in n_heap..self.heap.len() {
            let slot = self.heap[at];
            self.free_slot(slot)?;
        }
        self.scope = scope;
        Ok(())
    }

    /// Lowers statements in order.
    pub fn statements(&mut self, stmts: &[Stmt]) -> Res<()> {
        self.statements_with(stmts, &[])
    }

    /// The same; `after` is what follows them in their block.
    pub fn statements_with(&mut self, stmts: &[Stmt], after: &[Stmt]) -> Res<()> {
        for (idx, stmt) in stmts.iter().enumerate() {
            if matches!(
                stmt.kind,
                StmtKind::Break | StmtKind::Continue | StmtKind::Return(_)
            ) {
                // Nothing after it runs.
                return self.jump_out(stmt);
            }
            let rest = if after.is_empty() {
                &stmts[idx + 1..]
            } else {
                after
            };
            let outer = self.at_line_of(stmt);
            self.statement(stmt, rest)?;
            self.b.set_srcloc(outer);
        }
        Ok(())
    }

    /// Lowers one statement; `rest` is what follows it in its block.
    fn statement(&mut self, stmt: &Stmt, rest: &[Stmt]) -> Res<()> {
        match &stmt.kind {
            StmtKind::Assign { target, ty, value } => {
                self.assign(target, ty.as_ref(), value, rest, stmt.span)
            }
            StmtKind::Declare { target, ty } => self.declare_scalar(target, ty),
            StmtKind::Expr(expr) => self.effect(expr),
            StmtKind::If {
                cond, then, orelse, ..
            } => self.branch(cond, then, orelse),
            StmtKind::For { target, iter, body } => self.for_loop(target, iter, body, stmt.span),
            StmtKind::While { cond, body } => self.while_loop(cond, body),
            StmtKind::With {
                context,
                target,
                body,
            } => self.with_block(context, target.as_ref(), body),
            StmtKind::Assert { cond, message } => {
                let cond = self.condition(cond)?;
                let (kind, text) = assert_message(message.as_ref());
                self.require(cond, &kind, &text)
            }
            StmtKind::Pass | StmtKind::Import(_) => Ok(()),
            StmtKind::Break | StmtKind::Continue | StmtKind::Return(_) => self.jump_out(stmt),
            StmtKind::Func(_) | StmtKind::Error => {
                Err(unsupported(stmt.span, "this statement cannot be compiled"))
            }
        }
    }

    /// `break`, `continue`, `return`; what follows in the block is unreachable.
    fn jump_out(&mut self, stmt: &Stmt) -> Res<()> {
        let target = match &stmt.kind {
            StmtKind::Break => self.loops.last().map(|exit| exit.on_break),
            StmtKind::Continue => self.loops.last().map(|exit| exit.on_continue),
            _ => {
                let zero = self.b.ins().iconst(cranelift_codegen::ir::types::I32, 0);
                self.b.ins().jump(self.exit, &[zero.into()]);
                self.start_unreachable();
                return Ok(());
            }
        };
        let target =
            target.ok_or_else(|| unsupported(stmt.span, "there is no loop around this jump"))?;
        self.b.ins().jump(target, &[]);
        self.start_unreachable();
        Ok(())
    }

    /// A block for code that no jump reaches.
    fn start_unreachable(&mut self) {
        let block = self.b.create_block();
        self.b.switch_to_block(block);
        self.b.seal_block(block);
    }

    fn assign(
        &mut self,
        target: &Expr,
        ty: Option<&Expr>,
        value: &Expr,
        rest: &[Stmt],
        span: Option<Span>,
    ) -> Res<()> {
        match &target.kind {
            ExprKind::Index {
                value: buffer,
                index,
            } => {
                let name = buffer
                    .as_name()
                    .ok_or_else(|| unsupported(span, "only buffers are stored to"))?;
                let value = self.expr(value)?;
                self.store(name, index, value, span)
            }
            ExprKind::Name(name) => self.assign_name(name, ty, value, rest, span),
            ExprKind::Tuple { items, .. } => self.bind_axes(items, value),
            _ => Err(unsupported(span, "this cannot be assigned to")),
        }
    }

    fn assign_name(
        &mut self,
        name: &Name,
        ty: Option<&Expr>,
        value: &Expr,
        rest: &[Stmt],
        span: Option<Span>,
    ) -> Res<()> {
        if let Some((path, _)) = value.as_call() {
            match &*path {
                "T.sblock_alloc_buffer" | "T.alloc_buffer" | "T.alloc_local" | "T.alloc_shared" => {
                    let decl = read_decl(value, 0)?;
                    let registers = walk::has_constant_indices(rest, name, self.constant_names());
                    return self.alloc_buffer(name, &decl, registers);
                }
                "T.allocate_const" => return self.constant_buffer(name, value),
                "T.decl_buffer" => return self.decl_buffer(name, value),
                "T.match_buffer" => return self.match_buffer(name, value),
                "T.axis.spatial" | "T.axis.S" | "T.axis.reduce" | "T.axis.R" | "T.axis.scan"
                | "T.axis.opaque" | "T.axis.remap" => {
                    return self.bind_axes(std::slice::from_ref(&Expr::name(name)), value);
                }
                // `n = T.int64()` declares a dim; the parameters have bound it.
                "T.int64" | "T.int32" if value.positional().next().is_none() => return Ok(()),
                _ => {}
            }
        }
        if let ExprKind::Attr { .. } = value.kind {
            return self.alias(name, value, span);
        }
        let operand = self.expr(value)?;
        let is_let = ty.is_some_and(|ty| {
            matches!(&ty.kind, ExprKind::Index { value, .. } if value.as_path().as_deref() == Some("T.let"))
        });
        let declared = match ty {
            Some(ty) => Some(self.declared_type(ty)?),
            None => None,
        };
        if !is_let && let Some(Binding::Var(var, dtype)) = self.scope.get(name) {
            let (var, dtype) = (*var, *dtype);
            let v = self.convert(operand, dtype, span)?;
            self.b.def_var(var, v);
            return Ok(());
        }
        let val = match declared {
            Some(dtype) => Val {
                v: self.convert(operand, dtype, span)?,
                dtype,
            },
            None => self.settle(operand, span)?,
        };
        if is_let {
            self.scope.insert(name.clone(), Binding::Value(val));
            return Ok(());
        }
        let ty = self.register(val.dtype, span)?;
        let var = self.b.declare_var(ty);
        self.b.def_var(var, val.v);
        self.scope
            .insert(name.clone(), Binding::Var(var, val.dtype));
        Ok(())
    }

    /// The dtype of `T.int64`, `T.let[T.int64]`, `T.let["int64"]`.
    fn declared_type(&self, ty: &Expr) -> Res<DType> {
        if let ExprKind::Index { index, .. } = &ty.kind
            && let [inner] = index.as_slice()
        {
            return self.dtype_of(inner);
        }
        self.dtype_of(ty)
    }

    /// `x: T.int32`
    fn declare_scalar(&mut self, target: &Expr, ty: &Expr) -> Res<()> {
        let name = target
            .as_name()
            .ok_or_else(|| unsupported(target.span, "only names are declared"))?
            .clone();
        let dtype = self.declared_type(ty)?;
        let register = self.register(dtype, ty.span)?;
        let var = self.b.declare_var(register);
        let zero = self.convert(Operand::Int(0), dtype, ty.span)?;
        self.b.def_var(var, zero);
        self.scope.insert(name, Binding::Var(var, dtype));
        Ok(())
    }

    /// `p = A.data`: another name for a pointer.
    fn alias(&mut self, name: &Name, value: &Expr, span: Option<Span>) -> Res<()> {
        let operand = self.expr(value)?;
        let val = self.settle(operand, span)?;
        self.scope.insert(name.clone(), Binding::Value(val));
        Ok(())
    }

    /// `B = T.decl_buffer((n,), "float32", data=A.data, elem_offset=0)`
    fn decl_buffer(&mut self, name: &Name, value: &Expr) -> Res<()> {
        let decl = read_decl(value, 0)?;
        let Some(data) = decl.data.clone() else {
            return self.alloc_buffer(name, &decl, false);
        };
        let val = self.value(&data)?;
        let pointer = self.index_of(Operand::Val(val), data.span)?;
        self.bind_buffer(name, &decl, pointer)
    }

    /// `A = T.match_buffer(a, …)` of a handle parameter, or of a region of a buffer: `T.match_buffer(B[i, 0:4], …)`.
    fn match_buffer(&mut self, name: &Name, value: &Expr) -> Res<()> {
        let decl = read_decl(value, 1)?;
        let source = value
            .positional()
            .next()
            .ok_or_else(|| unsupported(value.span, "`T.match_buffer` needs a buffer"))?;
        match &source.kind {
            ExprKind::Name(param) => {
                let pointer = self.pointer_of(param, source.span)?;
                let decl = super::BufferDecl {
                    elem_offset: None,
                    ..decl
                };
                self.bind_buffer(name, &decl, pointer)
            }
            ExprKind::Index {
                value: buffer,
                index,
            } => {
                let buffer = buffer
                    .as_name()
                    .ok_or_else(|| unsupported(source.span, "this is not a region of a buffer"))?;
                let first: Vec<Expr> = index
                    .iter()
                    .map(|idx| match &idx.kind {
                        ExprKind::Slice { lo, .. } => {
                            lo.as_deref().cloned().unwrap_or_else(|| Expr::int(0))
                        }
                        _ => idx.clone(),
                    })
                    .collect();
                let (address, offset, _) = self.address(buffer, &first, source.span)?;
                let pointer = self.b.ins().iadd_imm_s(address, i64::from(offset));
                let owner = self.buffer(buffer, source.span)?;
                let n_axes = decl.shape.len();
                let decl = super::BufferDecl {
                    elem_offset: None,
                    strides: None,
                    ..decl
                };
                self.bind_buffer(name, &decl, pointer)?;
                // A region keeps the strides of its owner's last axes.
                let mut view = (*self.buffer(name, source.span)?).clone();
                view.strides = owner.strides[owner.strides.len().saturating_sub(n_axes)..].to_vec();
                self.scope
                    .insert(name.clone(), Binding::Buffer(view.into()));
                Ok(())
            }
            _ => Err(unsupported(source.span, "this is not a buffer")),
        }
    }

    /// A call for its effect.
    fn effect(&mut self, expr: &Expr) -> Res<()> {
        let Some((path, args)) = expr.as_call() else {
            return match expr.kind {
                // A docstring that stands after the first statement.
                ExprKind::Str(_) | ExprKind::Ellipsis | ExprKind::None => Ok(()),
                _ => self.expr(expr).map(|_| ()),
            };
        };
        match &*path {
            "T.func_attr" | "T.sblock_attr" | "T.block_attr" | "T.reads" | "T.writes"
            | "T.attr" | "T.where" | "T.prefetch" => Ok(()),
            "T.evaluate" => match args.first() {
                Some(arg) if arg.value.as_call().is_some() => self.effect(&arg.value),
                _ => Ok(()),
            },
            "T.break_loop" => self.jump_out(&Stmt::new(StmtKind::Break)),
            "T.continue_loop" => self.jump_out(&Stmt::new(StmtKind::Continue)),
            "T.call_extern" | "T.call_pure_extern" => self.call_extern(args, expr.span).map(|_| ()),
            path if self.call_prim(path, args, expr.span)? => Ok(()),
            _ => self.expr(expr).map(|_| ()),
        }
    }

    fn branch(&mut self, cond: &Expr, then: &[Stmt], orelse: &[Stmt]) -> Res<()> {
        let cond = self.condition(cond)?;
        let (yes, no, join) = (
            self.b.create_block(),
            self.b.create_block(),
            self.b.create_block(),
        );
        self.b.ins().brif(cond, yes, &[], no, &[]);
        for (block, body) in [(yes, then), (no, orelse)] {
            self.b.switch_to_block(block);
            self.b.seal_block(block);
            self.scoped(body)?;
            self.b.ins().jump(join, &[]);
        }
        self.b.switch_to_block(join);
        self.b.seal_block(join);
        Ok(())
    }

    fn while_loop(&mut self, cond: &Expr, body: &[Stmt]) -> Res<()> {
        let (head, inside, exit) = (
            self.b.create_block(),
            self.b.create_block(),
            self.b.create_block(),
        );
        self.b.ins().jump(head, &[]);
        self.b.switch_to_block(head);
        let cond = self.condition(cond)?;
        self.b.ins().brif(cond, inside, &[], exit, &[]);
        self.b.switch_to_block(inside);
        self.b.seal_block(inside);
        self.loops.push(LoopExit {
            on_break: exit,
            on_continue: head,
        });
        self.scoped(body)?;
        self.loops.pop();
        self.b.ins().jump(head, &[]);
        self.b.seal_block(head);
        self.b.switch_to_block(exit);
        self.b.seal_block(exit);
        Ok(())
    }

    /// The names that stand for numbers here.
    fn constant_names(&self) -> Vec<Name> {
        self.scope
            .iter()
            .filter(|(_, binding)| matches!(binding, Binding::Const(..)))
            .map(|(name, _)| name.clone())
            .collect()
    }
}

/// The kind and text of `assert c, "text"` and of `assert c, ("Kind", ["part", …])`.
fn assert_message(message: Option<&Expr>) -> (String, String) {
    let default = (
        "RuntimeError".to_owned(),
        "an assertion of the model does not hold".to_owned(),
    );
    let Some(message) = message else {
        return default;
    };
    if let Some(text) = message.as_str() {
        return (default.0, text.to_owned());
    }
    let Some([kind, parts]) = message.as_items() else {
        return default;
    };
    let text = match parts.as_items() {
        Some(items) => items.iter().filter_map(Expr::as_str).collect(),
        None => parts.as_str().unwrap_or(&default.1).to_owned(),
    };
    (kind.as_str().unwrap_or(&default.0).to_owned(), text)
}
