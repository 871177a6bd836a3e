//! The inputs of a function as commands take them: `--input x=@x.npy`, or made for given sizes.

use std::collections::BTreeMap;

use super::Exit;
use super::data::{self, Data, Form};
use super::map::read_map;
use super::native::Slot;
use super::report::{Failure, read_bytes};
use crate::codegen::entry::Maps;
use crate::shape::Dim;
use crate::syntax::{DType, parse_expr_str};
use crate::tensor::{Tensor, count, parse_const_value, parse_npy};

/// The inputs of a function from texts `NAME=VALUE`, in order; `missing` answers for those that have none.
///
/// # Errors
/// A text is no value of its input, or names none.
pub fn read_inputs(
    texts: &[String],
    params: &[Slot],
    maps: &Maps,
    missing: &dyn Fn(&Slot) -> Result<Data, Failure>,
) -> Result<Vec<Data>, Failure> {
    let mut given = parse_pairs(texts)?;
    let mut inputs = Vec::new();
    for (at, param) in params.iter().enumerate() {
        if inputs.len() > at {
            continue;
        }
        let map = maps.inputs.iter().find(|(_, keys)| *keys == at);
        let map = map.and_then(|(name, _)| given.remove(name));
        if let (Some(text), Some(values)) = (map, params.get(at + 1)) {
            inputs.extend(read_map(&text, param, values)?.map(Data::Tensor));
            continue;
        }
        inputs.push(match given.remove(&param.name) {
            Some(text) => read_data(&text, param)?,
            None => missing(param)?,
        });
    }
    unused(&given, params)?;
    Ok(inputs)
}

/// What files of each of the slots hold.
pub fn forms(slots: &[Slot]) -> Vec<Form> {
    slots.iter().map(|slot| Form::of(&slot.kind)).collect()
}

/// A value for a parameter where none is given: floats in -1..1, the same ones every time, ones for all other numbers,
/// nothing for optionals. `sizes` are the values of its symbols.
///
/// # Errors
/// A symbol has no size, or there is no value to make.
pub fn make_input(param: &Slot, sizes: &BTreeMap<String, i64>) -> Result<Data, Failure> {
    let fault = |why: String| {
        let message = format!("input `{}` {why}", param.name);
        Failure::new(Exit::Usage, message)
    };
    let give = || fault(format!("has to be given: --input {}=@FILE", param.name));
    if matches!(Form::of(&param.kind), Form::OptTensor | Form::OptSeq) {
        return Ok(Data::None);
    }
    let mut shape = Vec::new();
    for text in &param.dims {
        let dim = parse_expr_str(text)
            .ok()
            .and_then(|expr| Dim::from_expr(&expr).ok())
            .ok_or_else(give)?;
        let symbols = dim.symbols();
        let open = symbols
            .iter()
            .find(|name| !sizes.contains_key(name.as_str()));
        if let Some(name) = open {
            return Err(fault(format!("needs a size: --size {name}=…")));
        }
        let extent = dim.eval(&|name| sizes.get(name.as_str()).copied());
        let extent = extent.and_then(|extent| usize::try_from(extent).ok());
        shape.push(extent.ok_or_else(|| fault(format!("has no extent `{text}`")))?);
    }
    if param.kind == "shape" {
        let extents: Vec<i64> = shape.iter().map(|&extent| extent as i64).collect();
        let tensor = Tensor::from_i64s(DType::I64, vec![extents.len()], &extents);
        return tensor.map(Data::Tensor).ok_or_else(give);
    }
    let dtype = param
        .dtype
        .filter(|_| Form::of(&param.kind) == Form::Tensor);
    let (dtype, n) = dtype.zip(count(&shape)).ok_or_else(give)?;
    let tensor = if dtype == DType::Str {
        Tensor::from_strings(shape, vec!["a".to_owned(); n])
    } else if dtype.is_float() {
        Tensor::from_f32s(dtype, shape, &pseudo_random(n))
    } else {
        Tensor::from_i64s(dtype, shape, &vec![1; n])
    };
    tensor.map(Data::Tensor).ok_or_else(give)
}

/// `n` numbers in -1..1.
fn pseudo_random(n: usize) -> Vec<f32> {
    let mut state = 1u32;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..n).map(next).collect()
}

/// Sizes of symbols from texts `n=128`.
///
/// # Errors
/// A text is not of that form.
pub fn parse_sizes(texts: &[String]) -> Result<BTreeMap<String, i64>, Failure> {
    let size = |(name, text): (String, String)| match text.parse::<i64>() {
        Ok(size) if size >= 0 => Ok((name, size)),
        _ => Err(Failure::new(
            Exit::Usage,
            format!("`{text}` is no size of `{name}`"),
        )),
    };
    parse_pairs(texts)?.into_iter().map(size).collect()
}

/// A value of the command line: `None`, `[1];[2, 3]` for a sequence, or a tensor.
fn read_data(text: &str, param: &Slot) -> Result<Data, Failure> {
    let form = Form::of(&param.kind);
    if form == Form::Tensor {
        return read_value(text, param.dtype).map(Data::Tensor);
    }
    if text == "None" && form != Form::Seq {
        return Ok(Data::None);
    }
    if form == Form::OptTensor {
        return read_value(text, param.dtype).map(Data::Tensor);
    }
    let items = text.split(';').filter(|item| !item.trim().is_empty());
    let items = items.map(|item| read_value(item.trim(), param.dtype));
    Ok(Data::Seq(items.collect::<Result<_, _>>()?))
}

fn unused(given: &BTreeMap<String, String>, params: &[Slot]) -> Result<(), Failure> {
    match given.keys().next() {
        None => Ok(()),
        Some(name) => {
            let known: Vec<&str> = params.iter().map(|param| param.name.as_str()).collect();
            let message = format!(
                "there is no input `{name}`; there are: {}",
                known.join(", ")
            );
            Err(Failure::new(Exit::Usage, message))
        }
    }
}

/// Texts `NAME=VALUE` as pairs.
///
/// # Errors
/// A text is not of that form.
pub fn parse_pairs(texts: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    let pair = |text: &String| {
        let (name, value) = text.split_once('=').ok_or_else(|| {
            Failure::new(
                Exit::Usage,
                format!("`{text}` is not of the form NAME=VALUE"),
            )
        })?;
        Ok((name.to_owned(), value.to_owned()))
    };
    texts.iter().map(pair).collect()
}

/// `@x.npy`, `@x.pb`, a number, or a list as `R.const` takes it.
///
/// # Errors
/// The text is none of them.
pub fn read_value(text: &str, dtype: Option<DType>) -> Result<Tensor, Failure> {
    if let Some(path) = text.strip_prefix('@') {
        let bytes = read_bytes(path)?;
        let unsound = |why: String| Failure::new(Exit::Io, format!("{path} cannot be read: {why}"));
        return if bytes.starts_with(b"\x93NUMPY") {
            parse_npy(&bytes).map_err(|error| unsound(error.to_string()))
        } else {
            data::parse_tensor(&bytes).map_err(unsound)
        };
    }
    if text.starts_with(['[', '"', '\'']) {
        let fault = |why: String| Failure::new(Exit::Usage, format!("`{text}`: {why}"));
        let expr = parse_expr_str(text).map_err(|_| fault("this is no list".to_owned()))?;
        return parse_const_value(&expr, dtype).map_err(|error| fault(error.to_string()));
    }
    let number = text.parse::<f64>().map_err(|_| {
        Failure::new(
            Exit::Usage,
            format!("`{text}` is neither a number nor a list nor @FILE"),
        )
    })?;
    let dtype = dtype.unwrap_or(DType::F64);
    let exact = text.parse::<i64>().ok().filter(|_| !dtype.is_float());
    let made = match exact {
        Some(value) => Tensor::from_i64s(dtype, Vec::new(), &[value]),
        None => Tensor::from_f64s(dtype, Vec::new(), &[number]),
    };
    made.ok_or_else(|| Failure::new(Exit::Usage, format!("`{text}` is no {dtype}")))
}
