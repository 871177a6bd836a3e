//! Refusals of an argument whose kind or dtype is wrong, with what came spelled out.

use cranelift_codegen::ir::Value;
use cranelift_codegen::ir::condcodes::IntCC;

use super::layout::{any, dl, func, param};
use crate::codegen::runtime::emit::Emit;
use crate::codegen::runtime::error::raise_format;

/// Refuses a dtype, with the one that came spelled out.
pub fn emit_wrong_dtype(
    f: &mut Emit<'_>,
    (name, index, who, ty): (Value, Value, Value, Value),
    tensor: Value,
) {
    let code = f.load8(tensor, dl::DTYPE);
    let bits = f.load8(tensor, dl::DTYPE + 1);
    let lanes = {
        let (low, high) = (
            f.load8(tensor, dl::DTYPE + 2),
            f.load8(tensor, dl::DTYPE + 3),
        );
        let high = f.shl(high, 8);
        f.or(low, high)
    };
    let unknown = f.text("type code ");
    let kind = f.var(unknown);
    for (number, text) in [
        (0, "int"),
        (1, "uint"),
        (2, "float"),
        (3, "handle"),
        (4, "bfloat"),
        (5, "complex"),
        (6, "bool"),
        (17, "float4_"),
    ] {
        let same = f.cmp_int(IntCC::Equal, code, number);
        f.if_(same, |f| {
            let text = f.text(text);
            f.set(kind, text);
        });
    }
    let kind = f.get(kind);
    let vector = f.cmp_int(IntCC::NotEqual, lanes, 1);
    f.if_(vector, |f| {
        let text = "%s: argument %lld `%s` has dtype %s%lld of %lld lanes, wanted is %s";
        raise_format(
            f,
            "TypeError",
            text,
            &[name, index, who, kind, bits, lanes, ty],
        );
        f.ret_status(-1);
    });
    let text = "%s: argument %lld `%s` has dtype %s%lld, wanted is %s";
    raise_format(f, "TypeError", text, &[name, index, who, kind, bits, ty]);
    f.ret_status(-1);
}

/// `irc_wrong_kind(func, param, index, type index) -> -1`
pub fn emit_wrong_kind(f: &mut Emit<'_>) {
    let (desc, param, index, came) = (f.param(0), f.param(1), f.param(2), f.param(3));
    let kind = f.call_i64("irc_kind_name", &[came]);
    let (name, who) = (f.load(desc, func::NAME), f.load(param, param::NAME));
    let ty = f.load(param, param::TYPE);
    let text = "%s: argument %lld `%s` is %s, wanted is %s";
    raise_format(f, "TypeError", text, &[name, index, who, kind, ty]);
    f.ret_status(-1);
}

/// `irc_kind_name(type index) -> text`
pub fn emit_kind_name(f: &mut Emit<'_>) {
    const NAMES: [(i64, &str); 24] = [
        (any::NONE, "None"),
        (any::INT, "an int"),
        (any::BOOL, "a bool"),
        (any::FLOAT, "a float"),
        (4, "a pointer"),
        (5, "a dtype"),
        (6, "a device"),
        (any::DL_TENSOR, "a null tensor"),
        (any::RAW_STR, "a str"),
        (9, "bytes"),
        (any::SMALL_STR, "a str"),
        (12, "bytes"),
        (any::STR, "a str"),
        (66, "bytes"),
        (67, "an error"),
        (68, "a function"),
        (any::SHAPE, "a shape"),
        (any::TENSOR, "a tensor"),
        (71, "an array"),
        (72, "a map"),
        (73, "a module"),
        (74, "a Python object"),
        (75, "a list"),
        (76, "a dict"),
    ];
    let came = f.param(0);
    for (index, text) in NAMES {
        let same = f.cmp_int(IntCC::Equal, came, index);
        f.if_(same, |f| {
            let text = f.text(text);
            f.ret(&[text]);
        });
    }
    let text = f.text("another object");
    f.ret(&[text]);
}
