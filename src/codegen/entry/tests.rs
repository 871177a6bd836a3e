//! Entries and the runtime around a function written by hand: `main(x, k)` answers `x + k` and the shape of `x`.
#![allow(unsafe_code)] // Loads the library it made.

use std::ffi::{CStr, c_char, c_void};

use cranelift_codegen::ir::types::{I32, I64};
use cranelift_module::Linkage;
use irc_syntax::{DType, Func, FuncKind, Item};

use super::*;
use crate::check::{FuncInfo, Type};
use crate::codegen::Target;
use crate::codegen::runtime::{self, emit};
use crate::link::{Parts, WeightPlace, write_shared};
use crate::shape::{Dim, SymbolFacts};

/// `DLTensor`.
#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device: [i32; 2],
    ndim: i32,
    dtype: [u8; 4],
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

type Main = unsafe extern "C" fn(*const DlTensor, i64, *mut DlTensor, *mut DlTensor) -> i32;
type Shapes = unsafe extern "C" fn(*const DlTensor, i64, *mut i64, *mut i64) -> i32;

fn tensor(data: &mut [i64], shape: &mut [i64]) -> DlTensor {
    DlTensor {
        data: data.as_mut_ptr().cast(),
        device: [1, 0],
        ndim: shape.len() as i32,
        dtype: [0, 64, 1, 0],
        shape: shape.as_mut_ptr(),
        strides: std::ptr::null_mut(),
        byte_offset: 0,
    }
}

fn module() -> (Module, Info) {
    let mut func = Func::new(FuncKind::Graph, "main");
    func.params = ["x", "k"]
        .map(|name| irc_syntax::Param::new(name, irc_syntax::Expr::none()))
        .into();
    let n = Dim::sym("n");
    let x = Type::tensor(DType::I64, vec![n.clone(), Dim::int(4)]);
    let mut info = FuncInfo {
        params: vec![
            ("x".into(), x.clone()),
            ("k".into(), Type::Scalar(DType::I64)),
        ],
        ret: Some(Type::Tuple(vec![
            x,
            Type::tensor(DType::I64, vec![n * Dim::int(2) + Dim::int(1)]),
        ])),
        num_input: 2,
        ..FuncInfo::default()
    };
    info.facts.set(
        "n",
        SymbolFacts {
            min: Some(1),
            max: Some(1000),
            multiple_of: 1,
        },
    );
    let mut module = Module::default();
    module.items.push(Item::Func(func));
    (
        module,
        Info {
            funcs: [("main".into(), info)].into(),
        },
    )
}

/// `out0 = x + k` row by row in parallel, `out1` is filled with `n`; a negative `k` fails in row 7.
fn define_main(asm: &mut Assembler) -> Result<(), Diagnostic> {
    emit::define(asm, "irc.main", Linkage::Local, &[I64, I64], &[I32], |f| {
        let (record, args) = (f.param(0), f.param(1));
        let (x, shape, k) = (f.load(args, 0), f.load(args, 8), f.load(args, 16));
        let (closure, dims, zero, one) = (f.stack(32), f.stack(8), f.int(0), f.int(1));
        let out = f.call_i64("irc_output", &[record, zero, shape]);
        let missing = f.is_zero(out);
        f.if_(missing, |f| f.ret_status(-1));
        let n = f.load(shape, 0);
        let size = f.scale(n, 2);
        let size = f.offset(size, 1);
        f.store(size, dims, 0);
        let second = f.call_i64("irc_output", &[record, one, dims]);
        let missing = f.is_zero(second);
        f.if_(missing, |f| f.ret_status(-1));
        f.for_(size, |f, i| {
            let at = f.scale(i, 8);
            let at = f.add(second, at);
            f.store(n, at, 0);
        });
        let bytes = f.scale(n, 32);
        let scratch = f.call_i64("irc_workspace", &[record, bytes]);
        for (i, value) in [x, scratch, k].into_iter().enumerate() {
            f.store(value, closure, 8 * i as i32);
        }
        let body = f.func_addr("irc.row", &[I64, I64, I64], &[I32]);
        let work = f.int(i64::MAX);
        let status = f.call_i32("irc_parallel_for", &[body, closure, n, work]);
        f.if_(status, |f| f.ret(&[status]));
        f.call_i64("memcpy", &[out, scratch, bytes]);
        f.ret_status(0);
    })?;
    emit::define(
        asm,
        "irc.row",
        Linkage::Local,
        &[I64, I64, I64],
        &[I32],
        |f| {
            let (closure, lo, hi) = (f.param(0), f.param(1), f.param(2));
            let (x, out, k) = (f.load(closure, 0), f.load(closure, 8), f.load(closure, 16));
            let n = f.sub(hi, lo);
            f.for_(n, |f, i| {
                let row = f.add(lo, i);
                let negative = f.cmp_int(
                    cranelift_codegen::ir::condcodes::IntCC::SignedLessThan,
                    k,
                    0,
                );
                let seventh = f.cmp_int(cranelift_codegen::ir::condcodes::IntCC::Equal, row, 7);
                let bad = f.both(negative, seventh);
                f.if_(bad, |f| {
                    runtime::error::raise(f, "IndexError", "row 7 is not allowed");
                    f.ret_status(-1);
                });
                for column in 0..4 {
                    let at = f.scale(row, 32);
                    let (from, to) = (f.add(x, at), f.add(out, at));
                    let value = f.load(from, 8 * column);
                    let value = f.add(value, k);
                    f.store(value, to, 8 * column);
                }
            });
            f.ret_status(0);
        },
    )
}

#[test]
fn entries_check_run_and_report() {
    let (module, info) = module();
    let target = Target::native();
    let mut asm = Assembler::new(&target).expect("a target");
    runtime::define(&mut asm).expect("the runtime");
    define_main(&mut asm).expect("main");
    let interface = define(
        &mut asm,
        &module,
        &info,
        &Facets::new(&module, &target, &[], &[]),
    )
    .expect("entries");
    let object = asm.finish().expect("compiles");
    let parts = Parts {
        object: &object.bytes,
        weights: &[],
        names: &[],
        place: WeightPlace::Embedded,
        program: "",
    };
    let mut bytes = Vec::new();
    write_shared(&parts, &mut bytes).expect("links");
    let dir = std::env::var("IRC_KEEP").map_or_else(|_| std::env::temp_dir(), Into::into);
    let path = dir.join(format!("irc-entry-{}.so", std::process::id()));
    std::fs::write(&path, &bytes).expect("writable");
    std::fs::write(path.with_extension("h"), &interface.header).expect("writable");
    // SAFETY: the signatures are those that the header declares.
    unsafe {
        let library = libloading::Library::new(&path).expect("loads");
        let main: Main = *library.get(b"net_main").expect("exported");
        let shapes: Shapes = *library.get(b"net_main_shapes").expect("exported");
        let last: unsafe extern "C" fn() -> *const c_char =
            *library.get(b"net_last_error").expect("exported");
        let message = || CStr::from_ptr(last()).to_string_lossy().into_owned();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    for n in [1, 3, 50, 997, 8] {
                        assert_eq!(run(main, n, thread), 0);
                    }
                });
            }
        });
        let (mut a, mut b) = ([0; 2], [0; 1]);
        let mut data = vec![0; 40];
        let mut extents = [10, 4];
        let x = tensor(&mut data, &mut extents);
        assert_eq!(shapes(&x, 0, a.as_mut_ptr(), b.as_mut_ptr()), 0);
        assert_eq!((a, b), ([10, 4], [21]));
        assert_eq!(
            (run(main, 20, -1), message().as_str()),
            (3, "row 7 is not allowed")
        );
        assert_eq!(
            (run(main, 0, 1), message().as_str()),
            (2, "main: `n` is 0, wanted is at least 1")
        );
        let status = {
            let (mut of_x, mut of_y, mut of_z) = ([8, 5], [8, 4], [17]);
            let x = tensor(&mut data, &mut of_x);
            let (mut y, mut z) = (tensor(&mut [], &mut of_y), tensor(&mut [], &mut of_z));
            main(&x, 0, &mut y, &mut z)
        };
        let want = "main: `x.shape[1]` is 5, wanted is 4: Tensor((n, 4), \"int64\")";
        assert_eq!((status, message().as_str()), (2, want));
    }
    if std::env::var_os("IRC_KEEP").is_none() {
        std::fs::remove_file(path.with_extension("h")).expect("removable");
        std::fs::remove_file(path).expect("removable");
    }
}

unsafe fn run(main: Main, n: i64, k: i64) -> i32 {
    let len = (n * 4) as usize;
    let mut data: Vec<i64> = (0..n * 4).collect();
    let (mut sum, mut second) = (vec![0; len], vec![0; (2 * n + 1) as usize]);
    let (mut shape, mut size) = ([n, 4], [2 * n + 1]);
    let mut x_shape = shape;
    let x = tensor(&mut data, &mut x_shape);
    let (mut y, mut z) = (tensor(&mut sum, &mut shape), tensor(&mut second, &mut size));
    // SAFETY: the tensors outlive the call.
    let status = unsafe { main(&x, k, &mut y, &mut z) };
    if status == 0 {
        assert!(sum.iter().zip(&data).all(|(sum, x)| *sum == x + k));
        assert!(second.iter().all(|value| *value == n));
    }
    status
}
