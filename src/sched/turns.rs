//! Loops over the panels of a weight that runs round a loop go backwards every other time.
//!
//!     for no in T.parallel(25):      →      for no in T.parallel(25, annotations={"irc.turns": True}):
//!         … w_packed[no, k, vi] …               …
//!
//! The body of a loop (a step of an LSTM) reads its weights anew in each iteration. A weight larger than the cache near the
//! core has left it at the front when its end is read; from the end backwards, what was read last is still there. The order of
//! rounds of a parallel loop is free, so results are the same.

use std::collections::BTreeSet;

use irc_syntax::uses::mentioned;
use irc_syntax::visit::walk_stmt_mut;
use irc_syntax::{Arg, Expr, ExprKind, Func, Module, Name, Stmt, StmtKind, Visit, VisitMut};

use super::nest::{Buffers, int_of};
use super::pack::call_tir;
use super::packing::Packing;
use crate::target::TURNS;

/// Weights of so many bytes neither stay in the cache near the core nor pass it as a whole.
const BYTES: std::ops::RangeInclusive<i64> = 1 << 17..=1 << 22;

/// The prim_funcs that bodies of loops call.
pub fn called_in_loops(module: &Module) -> BTreeSet<Name> {
    let mut found = Called::default();
    module
        .funcs()
        .filter(|func| func.is_private())
        .for_each(|func| found.visit_func(func));
    found.0
}

#[derive(Default)]
struct Called(BTreeSet<Name>);

impl Visit for Called {
    fn visit_expr(&mut self, expr: &Expr) {
        self.0.extend(call_tir(expr).map(|(callee, _)| callee));
        irc_syntax::visit::walk_expr(self, expr);
    }
}

/// Notes it at the parallel loops over parts of packed weights. `buffers` has the weights as they were.
pub fn note_turns(func: &mut Func, packings: &[Packing], buffers: &Buffers) {
    let is_large = |packing: &&Packing| {
        let bytes = buffers.get(&packing.param).and_then(|(dtype, shape)| {
            let size = i64::try_from(dtype.bytes()).ok()?;
            shape
                .iter()
                .try_fold(size, |all, extent| all.checked_mul(int_of(extent)?))
        });
        packing.winograd.is_none() && bytes.is_some_and(|bytes| BYTES.contains(&bytes))
    };
    let large = packings.iter().filter(is_large);
    let mut note = Note(large.map(|packing| packing.param.clone()).collect());
    if !note.0.is_empty() {
        func.body.iter_mut().for_each(|stmt| note.visit_stmt(stmt));
    }
}

struct Note(BTreeSet<Name>);

impl VisitMut for Note {
    fn visit_stmt(&mut self, stmt: &mut Stmt) {
        if let StmtKind::For { iter, body, .. } = &mut stmt.kind
            && iter.is_call_of("T.parallel")
            && mentioned(body).iter().any(|name| self.0.contains(name))
            && let ExprKind::Call { args, .. } = &mut iter.kind
        {
            let (key, value) = (Expr::str(TURNS), Expr::bool(true));
            let is_annotations = |arg: &&mut Arg| {
                arg.name
                    .as_ref()
                    .is_some_and(|name| name.as_str() == "annotations")
            };
            match args.iter_mut().find(is_annotations) {
                Some(Arg {
                    value:
                        Expr {
                            kind: ExprKind::Dict(items),
                            ..
                        },
                    ..
                }) => items.push((key, value)),
                Some(_) => {}
                None => args.push(Arg {
                    name: Some(Name::from("annotations")),
                    value: Expr::dict([(TURNS.to_owned(), value)]),
                }),
            }
            return;
        }
        walk_stmt_mut(self, stmt);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::nest::buffers_of;
    use irc_syntax::{SourceMap, parse, print};

    const TEXT: &str = r#"
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def step(w: T.Buffer((256, 512), "float32"), y: T.Buffer((512,), "float32")):
        for no in T.parallel(32, annotations={"irc.work": 4096}):
            y[no] = w[no, 0]
        for no in T.parallel(32):
            y[no] = w[no, 1]
        for no in T.parallel(32):
            y[no] = y[no] + y[no]

    @R.function(private=True)
    def body(i: R.Tensor((), dtype="int64"), w: R.Tensor((256, 512), dtype="float32")):
        y = R.call_tir(cls.step, (w,), out_ty=R.Tensor((512,), dtype="float32"))
        return y
"#;

    #[test]
    fn loops_over_large_weights_of_a_step_turn() {
        let (mut module, faults) = parse(&mut SourceMap::new(), "text", TEXT);
        assert!(faults.is_empty(), "{faults:?}");
        let called = called_in_loops(&module);
        assert_eq!(called, BTreeSet::from([Name::from("step")]));
        for (rows, count) in [(8, 0), (256, 2)] {
            let func = module.funcs_mut().next().expect("a function");
            let mut buffers = buffers_of(func);
            if let Some((_, shape)) = buffers.get_mut(&Name::from("w")) {
                shape[0] = Expr::int(rows);
            }
            let packing = Packing {
                param: Name::from("w"),
                axes: vec![1, 0],
                lanes: 16,
                pairs: false,
                winograd: None,
            };
            note_turns(func, &[packing], &buffers);
            let text = print(&module);
            let found = text.matches("\"irc.turns\": True").count();
            assert_eq!(found, count, "{text}");
        }
    }
}
