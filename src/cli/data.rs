//! The folders of ONNX's backend tests: `test_data_set_0/input_0.pb`, `output_0.pb` and so on.

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

/// The tensors `input_0.pb`, `input_1.pb`… of a data set.
///
/// # Errors
/// One cannot be read.
pub fn read(set: &Path, prefix: &str) -> Result<Vec<Tensor>, Failure> {
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
        res.push(parse_tensor(&bytes).map_err(fault)?);
    }
}

/// The tensor of a `.pb` file.
///
/// # Errors
/// The bytes are no tensor.
pub fn parse_tensor(bytes: &[u8]) -> Result<Tensor, String> {
    onnx::read_tensor(bytes).map_err(|failure| {
        let messages = failure.diagnostics.iter().map(|diag| diag.message.clone());
        messages.collect::<Vec<_>>().join("; ")
    })
}
