//! stub
use super::vir::{BinOp, Builder, Reg, UnOp};
/// abs
pub fn abs(b: &mut Builder, x: Reg) -> Reg {
    let mask = b.constant(super::vir::Ty::F32, 0x7FFF_FFFF);
    b.bin(BinOp::And, x, mask)
}
macro_rules! todo_fn { ($($n:ident),*) => { $( /// .
pub fn $n(b: &mut Builder, x: Reg) -> Reg { b.un(UnOp::Copy, x) } )* } }
todo_fn!(exp, log, rsqrt, tanh, sigmoid, erf, sin, cos);
/// .
pub fn pow(b: &mut Builder, x: Reg, y: Reg) -> Reg { b.bin(BinOp::Mul, x, y) }
