//! ONNX files as modules of the language.
//!
//! Before: a `ModelProto`. After: a module with one function `main`, in which each node is one binding
//! `y = onnx.Conv(x, w, None, strides=[2, 2], since=17)`. Meaning is not here: the library holds it, as text
//! (`std/onnx`), and `opt/lift` puts it in place.
//!
//! * Operators are spelled `onnx.<Op>`; of other domains `onnx.<domain>.<Op>`, where a leading `ai.onnx.` or
//!   `com.` is left out: `onnx.ml.Scaler`, `onnx.microsoft.Gelu`, `onnx.example.Fused`. `since` is the version
//!   of the domain's operator set. Attributes keep their names; element types are written by name.
//! * Inputs left out are `None`; trailing ones are dropped. A variadic input is a tuple: `onnx.Concat((a, b), axis=1)`.
//! * A node with several outputs binds them all, and says how many: `a, b = onnx.Split(x, outputs=2)`. Names of
//!   outputs that the file leaves out are made up.
//! * `Constant` nodes and initializers of up to 16 elements are `R.const`; larger ones are weights: parameters
//!   after `num_input`. An initializer that is also an input is a weight, as in every file of IR version 3.
//! * `If` is an `if` statement, whose branches bind the outputs' names. Functions of the model are inlined.
//! * A map is two tensors, its keys and its values (`map.rs`).
//! * `Gradient` is a function inside the function and a call of `I.gradient` (`gradient.rs`).
//! * Names that are no identifiers change (`names.rs`); `irc.names` keeps those of inputs and outputs.
//! * A dim without a name gets one: `x_d0`. Dim names that are sums of others stay sums: `past + seq`.
//!
//! `wire.rs` reads bytes, `model.rs` messages, `tensor.rs` data, `order.rs` sorts, `scope.rs` resolves, and
//! `import.rs` builds. Tests are in `tests/onnx`.

mod attr;
pub mod fault;
mod gradient;
mod import;
mod loops;
mod map;
pub mod model;
pub mod names;
mod nodes;
mod order;
pub mod schemas;
mod signature;
mod staged;
mod tensor;
mod value;
pub mod wire;

pub use fault::{Failure, FailureKind};
pub use import::{Imported, Options, Source, import};
pub use tensor::{Files, NoFiles, number_of};
pub use value::{Optional, read_optional, read_sequence};

/// The value of a `TensorProto`: test data, as ONNX's backend tests store it.
///
/// # Errors
/// Where the bytes are not those of one, or its data do not fit its shape.
pub fn read_tensor(bytes: &[u8]) -> Result<crate::tensor::Tensor, Failure> {
    let tensor = model::Tensor::read(wire::Reader::new(bytes))
        .map_err(|fault| Failure::unreadable(format!("not a tensor file: {fault}")))?;
    Ok(tensor::decode(&tensor, "the tensor", &NoFiles)?.to_tensor())
}
