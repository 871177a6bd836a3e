//! The C header of a shared object.
//!
//! It is usable from C and C++, needs no other header than `stdint.h`, and takes DLPack's `DLTensor` from `dlpack.h` when
//! that is included before it.

use std::fmt::Write as _;

use super::describe::{Entry, Kind, Slot};
use crate::codegen::runtime::error::STATUS;

const HEAD: &str = "\
/* Made by irc. Every function answers 0, or one of NET_… after which net_last_error() says what was wrong.
 * Tensors are in CPU memory, in row-major order, without gaps. Any number of threads may call at once. */
#ifndef NET_H
#define NET_H

#include <stdint.h>

#ifndef DLPACK_VERSION
#ifndef DLPACK_MAJOR_VERSION
typedef struct { int32_t device_type; int32_t device_id; } DLDevice; /* device_type 1: CPU */
typedef struct { uint8_t code; uint8_t bits; uint16_t lanes; } DLDataType; /* float32: {2, 32, 1} */
typedef struct {
  void *data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape;
  int64_t *strides; /* in elements; NULL: row-major */
  uint64_t byte_offset;
} DLTensor;
#endif
#endif

/* An element of a tensor of strings, whose dtype is {3, 128, 1}: UTF-8 bytes, which need no zero at the end. In results
 * that a call writes, the bytes of all elements are one block: free((void *)elements[0].bytes) ends it; net_free()
 * does so for tensors that net_…_new made. */
typedef struct { const char *bytes; int64_t length; } NetString;

#ifdef __cplusplus
extern \"C\" {
#endif

";

const TAIL: &str = "\
/* The text of the last error of this thread; \"\" when there was none. */
const char *net_last_error(void);
/* Ends a tensor that net_…_new made. */
void net_free(DLTensor *tensor);
/* What is in this library, as JSON. */
const char *net_manifest(void);
/* Takes the weights from another params file; no other call may run meanwhile. */
int32_t net_load_params(const char *path);

#ifdef __cplusplus
}
#endif
#endif
";

/// The header of an object with these entries.
pub fn print(entries: &[Entry]) -> String {
    let mut res = HEAD.to_owned();
    for (kind, status) in STATUS {
        let name = kind.trim_end_matches("Error").to_uppercase();
        let _ = writeln!(res, "#define NET_{name} {status} /* {kind} */");
    }
    res.push('\n');
    for entry in entries.iter().filter(|entry| entry.has_c_entries()) {
        print_entry(&mut res, entry);
    }
    res + TAIL
}

fn print_entry(res: &mut String, entry: &Entry) {
    let name = &entry.name;
    for slot in entry.inputs.iter().chain(&entry.outputs) {
        let _ = writeln!(
            res,
            "/* {}: {} */",
            slot.name,
            slot.ty().replace("*/", "* /")
        );
    }
    let inputs: Vec<String> = entry.inputs.iter().flat_map(c_params).collect();
    let with = |outputs: Vec<String>| -> String {
        let all: Vec<String> = inputs.iter().cloned().chain(outputs).collect();
        if all.is_empty() {
            "void".to_owned()
        } else {
            all.join(", ")
        }
    };
    let outputs = |ty: &str| {
        entry
            .outputs
            .iter()
            .map(|slot| format!("{ty}{}", c_name(slot)))
            .collect()
    };
    let call = with(outputs("DLTensor *"));
    let _ = writeln!(res, "int32_t net_{name}({call});");
    if !entry.outputs.is_empty() {
        let made = with(outputs("DLTensor **"));
        let _ = writeln!(
            res,
            "/* The same with results that the library makes, for net_free(). */"
        );
        let _ = writeln!(res, "int32_t net_{name}_new({made});");
        let shapes = with(outputs("int64_t *"));
        let _ = writeln!(
            res,
            "/* The extents of the results; -1 where only running tells. */"
        );
        let _ = writeln!(res, "int32_t net_{name}_shapes({shapes});");
    }
    res.push('\n');
}

fn c_params(slot: &Slot) -> Vec<String> {
    let name = c_name(slot);
    match slot.kind {
        Kind::Tensor(_)
        | Kind::Seq(_)
        | Kind::OptTensor(_)
        | Kind::OptSeq(_)
        | Kind::AnyRank(_) => vec![format!("const DLTensor *{name}")],
        Kind::Scalar(dtype) if dtype.is_float() => vec![format!("double {name}")],
        Kind::Scalar(_) => vec![format!("int64_t {name}")],
        Kind::Shape => vec![
            format!("const int64_t *{name}"),
            format!("int64_t {name}_rank"),
        ],
    }
}

/// The name of a slot, made legal where C has another use for it.
fn c_name(slot: &Slot) -> String {
    const WORDS: [&str; 46] = [
        "asm",
        "auto",
        "bool",
        "break",
        "case",
        "catch",
        "char",
        "class",
        "const",
        "continue",
        "default",
        "delete",
        "do",
        "double",
        "else",
        "enum",
        "extern",
        "float",
        "for",
        "friend",
        "goto",
        "if",
        "inline",
        "int",
        "long",
        "namespace",
        "new",
        "operator",
        "private",
        "public",
        "register",
        "return",
        "short",
        "signed",
        "sizeof",
        "static",
        "struct",
        "switch",
        "template",
        "this",
        "throw",
        "typedef",
        "union",
        "unsigned",
        "void",
        "while",
    ];
    let name: String = slot
        .name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    if WORDS.contains(&name.as_str()) {
        format!("{name}_")
    } else {
        name
    }
}
