//! The folders of ONNX's backend tests: `test_data_set_0/input_0.pb`, `output_0.pb` and so on. What a file holds, a tensor,
//! a sequence or an optional, only the function can tell.

use std::path::{Path, PathBuf};

use super::Exit;
use super::report::Failure;
use crate::onnx;
use crate::tensor::Tensor;

/// The data sets of a folder: itself, or its folders `test_data_set_…` in order.
///
/// # Errors
/// There is none.
pub fn find_sets(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let shown = folder.display();
    if folder.join("output_0.pb").exists() || folder.join("input_0.pb").exists() {
        return Ok(vec![folder.to_owned()]);
    }
    let entries = std::fs::read_dir(folder)
        .map_err(|error| Failure::new(Exit::Io, format!("cannot read {shown}: {error}")))?;
    let is_set = |path: &PathBuf| {
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        path.is_dir() && name.is_some_and(|name| name.starts_with("test_data_set_"))
    };
    let mut sets: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(is_set)
        .collect();
    sets.sort();
    if sets.is_empty() {
        return Err(Failure::new(
            Exit::Io,
            format!("{shown} holds no test data"),
        ));
    }
    Ok(sets)
}

/// A value that is passed to a function or comes back.
#[derive(Clone, PartialEq, Debug)]
pub enum Data {
    /// A tensor.
    Tensor(Tensor),
    /// A sequence of tensors.
    Seq(Vec<Tensor>),
    /// An optional without a value.
    None,
}

/// What a file holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// A tensor.
    Tensor,
    /// A sequence.
    Seq,
    /// A tensor or nothing.
    OptTensor,
    /// A sequence or nothing.
    OptSeq,
}

impl Form {
    /// The form of a slot, by its kind in the manifest.
    pub fn of(kind: &str) -> Self {
        match kind {
            "sequence" => Self::Seq,
            "optional tensor" => Self::OptTensor,
            "optional sequence" => Self::OptSeq,
            _ => Self::Tensor,
        }
    }
}

/// The values `input_0.pb`, `input_1.pb`… of a data set, in forms given in order; tensors beyond them.
///
/// # Errors
/// One cannot be read.
pub fn read(set: &Path, prefix: &str, forms: &[Form]) -> Result<Vec<Data>, Failure> {
    let mut res = Vec::new();
    loop {
        let path = set.join(format!("{prefix}_{}.pb", res.len()));
        if !path.exists() {
            return Ok(res);
        }
        let fault = |why: String| {
            Failure::new(
                Exit::Io,
                format!("{} cannot be read: {why}", path.display()),
            )
        };
        let bytes = std::fs::read(&path).map_err(|error| fault(error.to_string()))?;
        let form = forms.get(res.len()).copied().unwrap_or(Form::Tensor);
        res.push(parse(&bytes, form).map_err(fault)?);
    }
}

fn parse(bytes: &[u8], form: Form) -> Result<Data, String> {
    match form {
        Form::Tensor => parse_tensor(bytes).map(Data::Tensor),
        Form::Seq => onnx::read_sequence(bytes).map(Data::Seq).map_err(text),
        // Of an optional the file may also be its value.
        Form::OptTensor => match onnx::read_optional(bytes) {
            Ok(onnx::Optional::Tensor(tensor)) => Ok(Data::Tensor(tensor)),
            Ok(onnx::Optional::None) => Ok(Data::None),
            Ok(onnx::Optional::Sequence(_)) => Err("it holds a sequence".to_owned()),
            Err(_) => parse_tensor(bytes).map(Data::Tensor),
        },
        Form::OptSeq => match onnx::read_optional(bytes) {
            Ok(onnx::Optional::Sequence(items)) => Ok(Data::Seq(items)),
            Ok(onnx::Optional::None) => Ok(Data::None),
            Ok(onnx::Optional::Tensor(_)) => Err("it holds a tensor".to_owned()),
            Err(_) => onnx::read_sequence(bytes).map(Data::Seq).map_err(text),
        },
    }
}

fn text(failure: onnx::fault::Failure) -> String {
    let messages = failure.diagnostics.iter().map(|diag| diag.message.clone());
    messages.collect::<Vec<_>>().join("; ")
}

/// The tensor of a `.pb` file.
///
/// # Errors
/// The bytes are no tensor.
pub fn parse_tensor(bytes: &[u8]) -> Result<Tensor, String> {
    onnx::read_tensor(bytes).map_err(text)
}
