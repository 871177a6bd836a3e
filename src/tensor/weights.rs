//! Named tensors, and the safetensors files they are kept in.
//!
//! A file is read in place: names, dtypes and shapes are checked against its length, the bytes stay mapped. It is written in
//! one pass that also hashes it, the same weights giving the same bytes. Sub-byte dtypes and the others that the
//! format has no name for are stored as bytes, with their true dtype in `__metadata__`.

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use irc_syntax::DType;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::file::{MappedFile, hex};
use super::{Made, Tensor, TensorError, count};

/// The bytes of a weight: in memory, in a mapped file, or yet to be made.
#[derive(Clone, Debug)]
pub enum WeightData {
    /// In memory, shared.
    Owned(Arc<[u8]>),
    /// A range of a mapped file, within its length.
    Mapped(MappedFile, Range<usize>),
    /// Made of another weight when they are wanted.
    Made(Arc<Made>),
}

/// One weight.
#[derive(Clone, Debug)]
pub struct Weight {
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub shape: Vec<usize>,
    /// Row-major bytes, little endian, as [`Tensor`] has them.
    pub data: WeightData,
}

impl Weight {
    /// The bytes. Those that are to be made are made, and stay in memory.
    pub fn bytes(&self) -> &[u8] {
        match &self.data {
            WeightData::Owned(bytes) => bytes,
            WeightData::Mapped(file, range) => file.get(range.clone()).unwrap_or_default(),
            WeightData::Made(made) => made.whole(),
        }
    }

    /// How many bytes there are; makes none.
    pub fn n_bytes(&self) -> usize {
        match &self.data {
            WeightData::Made(made) => made.len(),
            WeightData::Owned(_) | WeightData::Mapped(..) => self.bytes().len(),
        }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        count(&self.shape).unwrap_or_default()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The weight as a tensor; copies what is mapped.
    pub fn tensor(&self) -> Tensor {
        Tensor {
            dtype: self.dtype,
            shape: self.shape.clone(),
            data: match &self.data {
                WeightData::Owned(bytes) => bytes.clone(),
                WeightData::Mapped(..) => self.bytes().into(),
                WeightData::Made(made) => made.whole().clone(),
            },
            strings: None,
        }
    }
}

impl From<Tensor> for Weight {
    fn from(tensor: Tensor) -> Self {
        Self {
            dtype: tensor.dtype,
            shape: tensor.shape,
            data: WeightData::Owned(tensor.data),
        }
    }
}

/// Weights by name, in the order they were inserted.
#[derive(Clone, Debug, Default)]
pub struct Weights {
    items: Vec<(String, Weight)>,
    index: BTreeMap<String, usize>,
}

impl Weights {
    /// No weights.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The weight of a name.
    pub fn get(&self, name: &str) -> Option<&Weight> {
        self.items
            .get(*self.index.get(name)?)
            .map(|(_, weight)| weight)
    }

    /// Adds a weight at the end, or replaces the one of that name in its place.
    pub fn insert(&mut self, name: impl Into<String>, weight: impl Into<Weight>) {
        let (name, weight) = (name.into(), weight.into());
        match self.index.get(&name) {
            Some(&at) => self.items[at].1 = weight,
            None => {
                self.index.insert(name.clone(), self.items.len());
                self.items.push((name, weight));
            }
        }
    }

    /// Takes out the weights whose names `keep` refuses.
    pub fn retain(&mut self, mut keep: impl FnMut(&str) -> bool) {
        self.items.retain(|(name, _)| keep(name));
        self.index = self
            .items
            .iter()
            .enumerate()
            .map(|(at, (name, _))| (name.clone(), at))
            .collect();
    }

    /// Names and weights in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Weight)> {
        self.items
            .iter()
            .map(|(name, weight)| (name.as_str(), weight))
    }

    /// Maps a safetensors file. *Errors*: the file cannot be read or its header is not sound.
    pub fn read(path: &Path) -> Result<Self, TensorError> {
        let file = MappedFile::open(path).map_err(|error| TensorError(error.to_string()))?;
        Self::parse(file)
    }

    /// Reads the header of a mapped safetensors file.
    pub fn parse(file: MappedFile) -> Result<Self, TensorError> {
        let fault = |text: &str| TensorError(format!("not a safetensors file: {text}"));
        let (len, rest) = file
            .split_first_chunk::<8>()
            .ok_or_else(|| fault("shorter than its header"))?;
        let len =
            usize::try_from(u64::from_le_bytes(*len)).map_err(|_| fault("header too long"))?;
        let header = rest
            .get(..len)
            .ok_or_else(|| fault("shorter than its header"))?;
        let base = 8 + len;
        let header: Map<String, Value> =
            serde_json::from_slice(header).map_err(|error| fault(&format!("header: {error}")))?;
        let true_dtypes: BTreeMap<String, String> = header
            .get("__metadata__")
            .and_then(|meta| meta.get(DTYPES_KEY))
            .and_then(Value::as_str)
            .map(serde_json::from_str)
            .transpose()
            .map_err(|_| fault("dtypes in its metadata"))?
            .unwrap_or_default();
        let mut entries = Vec::new();
        for (name, entry) in &header {
            if name != "__metadata__" {
                let true_dtype = true_dtypes.get(name).map(String::as_str);
                let weight = parse_entry(entry, true_dtype, base, &file)
                    .map_err(|text| fault(&format!("{name:?}: {text}")))?;
                entries.push((name.clone(), weight));
            }
        }
        // Order of the data, which is the order of writing; names settle empty tensors.
        entries.sort_by(|(a_name, a), (b_name, b)| (start(a), a_name).cmp(&(start(b), b_name)));
        let mut res = Self::new();
        for (name, weight) in entries {
            res.insert(name, weight);
        }
        Ok(res)
    }

    /// Writes a safetensors file and gives its sha256 in hexadecimal.
    ///
    /// # Errors
    /// `out` cannot take it.
    pub fn write(&self, out: &mut dyn Write) -> std::io::Result<String> {
        // Wide elements first, so that every tensor is aligned to its element.
        let mut order: Vec<&(String, Weight)> = self.items.iter().collect();
        order.sort_by_key(|(_, weight)| std::cmp::Reverse(weight.dtype.bytes()));
        let mut header = Map::new();
        let mut true_dtypes = BTreeMap::new();
        let mut offset = 0;
        for (name, weight) in &order {
            let (dtype, is_true) = stored_dtype(weight.dtype);
            if !is_true {
                true_dtypes.insert(name.clone(), weight.dtype.name());
            }
            let mut shape = weight.shape.clone();
            if weight.dtype == DType::C128 {
                shape.push(2);
            }
            let end = offset + weight.n_bytes();
            header.insert(
                name.clone(),
                json!({"dtype": dtype, "shape": shape, "data_offsets": [offset, end]}),
            );
            offset = end;
        }
        if !true_dtypes.is_empty() {
            header.insert(
                "__metadata__".to_owned(),
                json!({DTYPES_KEY: json!(true_dtypes).to_string()}),
            );
        }
        let mut header = Value::Object(header).to_string().into_bytes();
        // The data begins at a multiple of 64.
        let padded = (8 + header.len()).next_multiple_of(64) - 8;
        header.resize(padded, b' ');

        let mut hasher = Sha256::new();
        let mut put = |bytes: &[u8]| {
            hasher.update(bytes);
            out.write_all(bytes)
        };
        put(&(header.len() as u64).to_le_bytes())?;
        put(&header)?;
        for (_, weight) in order {
            put(weight.bytes())?;
        }
        Ok(hex(&hasher.finalize()))
    }
}

/// The key of `__metadata__` under which true dtypes are kept, as a JSON object in text.
const DTYPES_KEY: &str = "irc.dtypes";

fn start(weight: &Weight) -> usize {
    match &weight.data {
        WeightData::Mapped(_, range) => range.start,
        WeightData::Owned(_) | WeightData::Made(_) => 0,
    }
}

fn parse_entry(
    entry: &Value,
    true_dtype: Option<&str>,
    base: usize,
    file: &MappedFile,
) -> Result<Weight, String> {
    let name = entry
        .get("dtype")
        .and_then(Value::as_str)
        .ok_or("no dtype")?;
    let usizes = |key: &str| -> Option<Vec<usize>> {
        let items = entry.get(key)?.as_array()?;
        items
            .iter()
            .map(|item| item.as_u64().and_then(|item| usize::try_from(item).ok()))
            .collect()
    };
    let mut shape = usizes("shape").ok_or("no shape")?;
    let offsets = usizes("data_offsets").ok_or("no offsets")?;
    let &[lo, hi] = offsets.as_slice() else {
        return Err("two offsets are needed".to_owned());
    };
    let dtype = match true_dtype {
        Some(name) => DType::from_name(name).ok_or_else(|| format!("dtype {name} is not known"))?,
        None => dtype_of(name).ok_or_else(|| format!("dtype {name} is not known"))?,
    };
    if dtype == DType::C128 {
        shape.pop();
    }
    let bytes = count(&shape).and_then(|len| len.checked_mul(dtype.bytes()));
    if lo > hi || bytes != Some(hi - lo) {
        return Err(format!("{hi} - {lo} bytes do not fit {shape:?} of {dtype}"));
    }
    let range = base
        .checked_add(lo)
        .zip(base.checked_add(hi))
        .map(|(lo, hi)| lo..hi);
    match range {
        Some(range) if range.end <= file.len() => Ok(Weight {
            dtype,
            shape,
            data: WeightData::Mapped(file.clone(), range),
        }),
        _ => Err("its data lies beyond the end of the file".to_owned()),
    }
}

/// The format's name for a dtype, and whether it is that dtype's own.
fn stored_dtype(dtype: DType) -> (&'static str, bool) {
    match dtype {
        DType::Bool => ("BOOL", true),
        DType::I2 | DType::I4 => ("I8", false),
        DType::U2 | DType::U4 | DType::F4E2M1 | DType::Str => ("U8", false),
        DType::I8 => ("I8", true),
        DType::I16 => ("I16", true),
        DType::I32 => ("I32", true),
        DType::I64 => ("I64", true),
        DType::U8 => ("U8", true),
        DType::U16 => ("U16", true),
        DType::U32 => ("U32", true),
        DType::U64 => ("U64", true),
        DType::F8E4M3FN => ("F8_E4M3", true),
        DType::F8E5M2 => ("F8_E5M2", true),
        DType::F8E8M0 => ("F8_E8M0", true),
        DType::F8E4M3FNUZ | DType::F8E5M2FNUZ => ("U8", false),
        DType::F16 => ("F16", true),
        DType::BF16 => ("BF16", true),
        DType::F32 => ("F32", true),
        DType::F64 => ("F64", true),
        DType::C64 => ("C64", true),
        DType::C128 => ("F64", false),
    }
}

fn dtype_of(name: &str) -> Option<DType> {
    DType::all().find(|&dtype| stored_dtype(dtype) == (name, true))
}
