//! NumPy's `.npy` files, versions 1 to 3. `bfloat16` and the small floats, which NumPy itself has not, are written as raw
//! items (`<V2`, `|V1`); `<V2` is read as `bfloat16`.

use irc_syntax::DType;

use super::{Tensor, TensorError};

const MAGIC: &[u8] = b"\x93NUMPY";

/// The bytes of a `.npy` file that holds the tensor. *Errors*: text has no such form.
pub fn print_npy(tensor: &Tensor) -> Result<Vec<u8>, TensorError> {
    let descr = match tensor.dtype {
        DType::Bool => "|b1",
        DType::I2 | DType::I4 | DType::I8 => "|i1",
        DType::U2 | DType::U4 | DType::U8 => "|u1",
        DType::I16 => "<i2",
        DType::I32 => "<i4",
        DType::I64 => "<i8",
        DType::U16 => "<u2",
        DType::U32 => "<u4",
        DType::U64 => "<u8",
        DType::F4E2M1
        | DType::F8E4M3FN
        | DType::F8E4M3FNUZ
        | DType::F8E5M2
        | DType::F8E5M2FNUZ
        | DType::F8E8M0 => "|V1",
        DType::BF16 => "<V2",
        DType::F16 => "<f2",
        DType::F32 => "<f4",
        DType::F64 => "<f8",
        DType::C64 => "<c8",
        DType::C128 => "<c16",
        DType::Str => return Err(TensorError("a string tensor has no .npy form".to_owned())),
    };
    let dims: Vec<String> = tensor.shape.iter().map(usize::to_string).collect();
    let comma = if dims.len() == 1 { "," } else { "" };
    let mut header = format!(
        "{{'descr': '{descr}', 'fortran_order': False, 'shape': ({}{comma}), }}",
        dims.join(", ")
    );
    // Magic, version and length take 10 bytes; the data begins at a multiple of 64.
    let padding = (64 - (10 + header.len() + 1) % 64) % 64;
    header.extend(std::iter::repeat_n(' ', padding));
    header.push('\n');
    let len =
        u16::try_from(header.len()).map_err(|_| TensorError("too many dimensions".to_owned()))?;
    let mut bytes = Vec::with_capacity(10 + header.len() + tensor.data.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&[1, 0]);
    bytes.extend_from_slice(&len.to_le_bytes());
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(&tensor.data);
    Ok(bytes)
}

/// The tensor that a `.npy` file holds.
pub fn parse_npy(bytes: &[u8]) -> Result<Tensor, TensorError> {
    let fault = |text: &str| TensorError(format!("not a .npy file: {text}"));
    let rest = bytes
        .strip_prefix(MAGIC)
        .ok_or_else(|| fault("no magic number"))?;
    let (version, rest) = rest.split_at_checked(2).ok_or_else(|| fault("cut short"))?;
    let (header_len, rest) = if version[0] == 1 {
        let (len, rest) = rest
            .split_first_chunk::<2>()
            .ok_or_else(|| fault("cut short"))?;
        (usize::from(u16::from_le_bytes(*len)), rest)
    } else {
        let (len, rest) = rest
            .split_first_chunk::<4>()
            .ok_or_else(|| fault("cut short"))?;
        (u32::from_le_bytes(*len) as usize, rest)
    };
    let (header, data) = rest
        .split_at_checked(header_len)
        .ok_or_else(|| fault("cut short"))?;
    let header = std::str::from_utf8(header).map_err(|_| fault("header is no text"))?;
    let descr = quoted_after(header, "'descr'").ok_or_else(|| fault("no descr"))?;
    let is_fortran = header
        .split_once("'fortran_order'")
        .is_some_and(|(_, rest)| rest.trim_start_matches([':', ' ']).starts_with("True"));
    let shape = header
        .split_once("'shape'")
        .and_then(|(_, rest)| rest.split_once('('))
        .and_then(|(_, rest)| rest.split_once(')'))
        .map(|(dims, _)| dims)
        .ok_or_else(|| fault("no shape"))?;
    let shape: Vec<usize> = shape
        .split(',')
        .map(|dim| dim.trim().trim_end_matches('L'))
        .filter(|dim| !dim.is_empty())
        .map(|dim| dim.parse().map_err(|_| fault("a dimension is no number")))
        .collect::<Result<_, _>>()?;
    let dtype = match descr.trim_start_matches(['<', '>', '|', '=']) {
        "b1" => DType::Bool,
        "i1" => DType::I8,
        "i2" => DType::I16,
        "i4" => DType::I32,
        "i8" => DType::I64,
        "u1" | "V1" => DType::U8,
        "u2" => DType::U16,
        "u4" => DType::U32,
        "u8" => DType::U64,
        "f2" => DType::F16,
        "f4" => DType::F32,
        "f8" => DType::F64,
        "V2" => DType::BF16,
        "c8" => DType::C64,
        "c16" => DType::C128,
        _ => {
            return Err(TensorError(format!(
                "element type {descr:?} of the .npy file is not known"
            )));
        }
    };
    let mut data = data.to_vec();
    if descr.starts_with('>') {
        let part = if matches!(dtype, DType::C64 | DType::C128) {
            dtype.bytes() / 2
        } else {
            dtype.bytes()
        };
        data.chunks_exact_mut(part).for_each(<[u8]>::reverse);
    }
    if is_fortran {
        data = from_column_major(&data, &shape, dtype.bytes())
            .ok_or_else(|| fault("data does not fit the shape"))?;
    }
    Tensor::new(dtype, shape, data).ok_or_else(|| fault("data does not fit the shape"))
}

fn quoted_after<'a>(header: &'a str, key: &str) -> Option<&'a str> {
    let rest = header.split_once(key)?.1;
    let rest = rest.split_once('\'')?.1;
    Some(rest.split_once('\'')?.0)
}

fn from_column_major(data: &[u8], shape: &[usize], size: usize) -> Option<Vec<u8>> {
    let len = super::count(shape)?;
    if len.checked_mul(size)? != data.len() {
        return None;
    }
    let mut res = vec![0u8; data.len()];
    let mut index = vec![0usize; shape.len()];
    for chunk in res.chunks_exact_mut(size) {
        let at = index
            .iter()
            .zip(shape)
            .rev()
            .fold(0, |at, (&i, &extent)| at * extent + i);
        chunk.copy_from_slice(&data[at * size..(at + 1) * size]);
        for (i, &extent) in index.iter_mut().zip(shape).rev() {
            *i += 1;
            if *i < extent {
                break;
            }
            *i = 0;
        }
    }
    Some(res)
}
