//! Loads a shared object that irc made and calls it as TVM-FFI would, with structures laid out by hand.
#![allow(unsafe_code)] // Calls into a library through its C interface.

mod hook;

use std::ffi::{CStr, c_char, c_void};
use std::path::Path;

use serde_json::Value as Json;

use super::data::Data;
use crate::codegen::entry::Maps;
use crate::link;
use crate::syntax::DType;
use crate::tensor::{MappedFile, Tensor, count};

pub use hook::{KernelCall, Trace};

/// `TVMFFIAny`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Any {
    type_index: i32,
    padding: u32,
    value: u64,
}

/// `DLTensor`.
#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// An element of a tensor of strings.
#[repr(C)]
struct StringElement {
    bytes: *const u8,
    length: i64,
}

/// The head of a TVM-FFI object.
#[repr(C)]
struct Object {
    references: u64,
    type_index: i32,
    padding: u32,
    deleter: Option<unsafe extern "C" fn(*mut Object, i32)>,
}

/// What follows the head of an array.
#[repr(C)]
struct ArrayBody {
    data: *const Any,
    size: i64,
}

/// An array that the caller owns; nobody ends it.
#[repr(C)]
struct Array {
    head: Object,
    body: ArrayBody,
    capacity: i64,
    deleter: usize,
}

impl Array {
    fn over(elements: &[Any]) -> Self {
        let size = elements.len() as i64;
        Self {
            head: Object {
                references: 1 << 32 | 1,
                type_index: ARRAY,
                padding: 0,
                deleter: None,
            },
            body: ArrayBody {
                data: elements.as_ptr(),
                size,
            },
            capacity: size,
            deleter: 0,
        }
    }
}

type Entry = unsafe extern "C" fn(*mut c_void, *const Any, i32, *mut Any) -> i32;
type LastError = unsafe extern "C" fn() -> *const c_char;

const INT: i32 = 1;
const FLOAT: i32 = 3;
const DL_TENSOR: i32 = 7;
const SMALL_STR: i32 = 11;
/// Types from here on are objects.
const FIRST_OBJECT: i32 = 64;
const STR: i32 = 65;
const TENSOR: i32 = 70;
const ARRAY: i32 = 71;

/// A parameter or a result, as the manifest has it.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Its name.
    pub name: String,
    /// `tensor`, `scalar` or `shape`.
    pub kind: String,
    /// The element type.
    pub dtype: Option<DType>,
    /// The number of axes.
    pub rank: usize,
    /// The extents: numbers, symbols, or expressions of them.
    pub dims: Vec<String>,
}

/// What a library says of itself.
pub struct Interface(Json);

impl Interface {
    /// Reads it out of a file, without loading it.
    ///
    /// # Errors
    /// The file is no library of irc's.
    pub fn read(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let file =
            MappedFile::open(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
        let manifest = link::read_manifest(&file)
            .and_then(|text| serde_json::from_str(&text).ok())
            .ok_or_else(|| format!("{shown} is not a library that irc made"))?;
        Ok(Self(manifest))
    }

    fn func(&self, func: &str) -> Option<&Json> {
        self.0.get("functions")?.get(func)
    }

    /// Inputs and results of a function; `None` when there is no such function.
    pub fn slots(&self, func: &str) -> Option<(Vec<Slot>, Vec<Slot>)> {
        let func = self.func(func)?;
        let slots = |key: &str| {
            let all = func.get(key).and_then(Json::as_array);
            all.into_iter().flatten().map(read_slot).collect()
        };
        Some((slots("inputs"), slots("outputs")))
    }

    /// Which inputs and results of a function are maps to callers.
    pub fn maps(&self, func: &str) -> Maps {
        let maps = self.func(func).and_then(|func| func.get("maps"));
        let places = |key: &str| -> Vec<(String, usize)> {
            let all = maps.and_then(|maps| maps.get(key)?.as_object());
            let places = all.into_iter().flatten();
            places
                .filter_map(|(name, at)| Some((name.clone(), usize::try_from(at.as_u64()?).ok()?)))
                .collect()
        };
        Maps {
            inputs: places("inputs"),
            results: places("outputs"),
        }
    }

    /// Whether a function answers an array of results, not one result.
    fn returns_list(&self, func: &str) -> bool {
        let func = self.func(func);
        func.and_then(|func| func.get("returns")?.as_str()) == Some("array")
    }

    /// The names of the functions.
    pub fn functions(&self) -> Vec<String> {
        let all = self.0.get("functions").and_then(Json::as_object);
        all.into_iter()
            .flat_map(|all| all.keys().cloned())
            .collect()
    }
}

/// A library in memory.
pub struct Native {
    library: libloading::Library,
    /// What it says of itself.
    pub interface: Interface,
}

impl Native {
    /// Loads a library.
    ///
    /// # Errors
    /// It is not one of irc's, or the loader refuses it.
    pub fn open(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let interface = Interface::read(path)?;
        let full = path
            .canonicalize()
            .map_err(|error| format!("cannot read {shown}: {error}"))?;
        // SAFETY: the library is one of irc's, whose constructors only set up its own state.
        let library = unsafe { libloading::Library::new(&full) }
            .map_err(|error| format!("cannot load {shown}: {error}"))?;
        Ok(Self { library, interface })
    }

    /// Calls a function with its inputs and gives its results. Numbers are passed as tensors of rank 0.
    ///
    /// # Errors
    /// What the function reports, or what cannot be passed.
    pub fn call(&self, func: &str, values: &[Data]) -> Result<Vec<Data>, String> {
        let request = self.prepare(func, values)?;
        let result = request.answer()?;
        // SAFETY: the entry wrote a result that it owns, and hands over.
        unsafe { take_results(result, &request.results, self.interface.returns_list(func)) }
    }

    /// A call of a function with its inputs laid out, to be made any number of times.
    ///
    /// # Errors
    /// There is no such function.
    pub fn prepare<'n>(&'n self, func: &str, values: &'n [Data]) -> Result<Request<'n>, String> {
        let (params, results) = self
            .interface
            .slots(func)
            .ok_or_else(|| format!("there is no function `{func}`"))?;
        // SAFETY: the signature is that of every entry.
        let entry = unsafe {
            let symbol = format!("__tvm_ffi_{func}");
            let entry = self.library.get::<Entry>(symbol.as_bytes());
            entry.map_err(|error| error.to_string())?
        };
        // The tensors of all inputs in one row; sequences take several.
        let inputs: Vec<&Tensor> = values
            .iter()
            .flat_map(|value| match value {
                Data::Tensor(tensor) => std::slice::from_ref(tensor),
                Data::Seq(items) => items.as_slice(),
                Data::None => &[],
            })
            .collect();
        let mut shapes: Vec<Vec<i64>> = inputs
            .iter()
            .map(|input| input.shape.iter().map(|&extent| extent as i64).collect())
            .collect();
        let texts: Vec<Vec<StringElement>> =
            inputs.iter().map(|input| string_elements(input)).collect();
        let tensors: Vec<DlTensor> = inputs
            .iter()
            .zip(&mut shapes)
            .zip(&texts)
            .map(|((input, shape), texts)| dl_tensor(input, shape, texts))
            .collect();
        let mut rest = tensors.iter();
        let mut sequences: Vec<(Vec<Any>, Option<Box<Array>>)> = Vec::new();
        let mut args = Vec::new();
        for (value, param) in values.iter().zip(&params) {
            args.push(match value {
                Data::Tensor(tensor) if param.kind == "scalar" => {
                    rest.next();
                    scalar(tensor)
                }
                Data::Tensor(_) => rest.next().map(by_pointer).unwrap_or_default(),
                Data::Seq(items) => {
                    let elements = rest.by_ref().take(items.len()).map(by_pointer).collect();
                    sequences.push((elements, None));
                    Any::default()
                }
                Data::None => Any::default(),
            });
        }
        // Their addresses are taken when all are where they stay.
        let places = values
            .iter()
            .enumerate()
            .filter(|(_, value)| matches!(value, Data::Seq(_)));
        for ((at, _), (elements, array)) in places.zip(&mut sequences) {
            let array = array.insert(Box::new(Array::over(elements)));
            if let Some(arg) = args.get_mut(at) {
                arg.type_index = ARRAY;
                arg.value = std::ptr::from_ref(array.as_ref()) as u64;
            }
        }
        Ok(Request {
            library: self,
            entry,
            args,
            results,
            _shapes: shapes,
            _texts: texts,
            _tensors: tensors,
            _sequences: sequences,
        })
    }

    fn last_error(&self) -> String {
        // SAFETY: the function takes nothing and answers text that lives as long as this thread.
        unsafe {
            match self.library.get::<LastError>(b"net_last_error") {
                Ok(last) => CStr::from_ptr(last()).to_string_lossy().into_owned(),
                Err(error) => error.to_string(),
            }
        }
    }
}

/// A call that is ready to be made. What the arguments point to lies on the heap and stays there.
pub struct Request<'n> {
    library: &'n Native,
    entry: libloading::Symbol<'n, Entry>,
    args: Vec<Any>,
    results: Vec<Slot>,
    _shapes: Vec<Vec<i64>>,
    _texts: Vec<Vec<StringElement>>,
    _tensors: Vec<DlTensor>,
    _sequences: Vec<(Vec<Any>, Option<Box<Array>>)>,
}

impl Request<'_> {
    /// Makes the call and ends its results unread.
    ///
    /// # Errors
    /// What the function reports.
    pub fn run(&self) -> Result<(), String> {
        let result = self.answer()?;
        // SAFETY: the entry wrote a result that it owns, and hands over.
        unsafe { end(result) };
        Ok(())
    }

    fn answer(&self) -> Result<Any, String> {
        let mut result = Any::default();
        // SAFETY: arguments outlive the call.
        let status = unsafe {
            (self.entry)(
                std::ptr::null_mut(),
                self.args.as_ptr(),
                self.args.len() as i32,
                &mut result,
            )
        };
        match status {
            0 => Ok(result),
            _ => Err(self.library.last_error()),
        }
    }
}

fn read_slot(slot: &Json) -> Slot {
    let text = |key: &str| slot.get(key).and_then(Json::as_str).unwrap_or_default();
    let dims = slot.get("shape").and_then(Json::as_array).into_iter();
    let dims: Vec<String> = dims
        .flatten()
        .map(|dim| dim.as_str().map_or_else(|| dim.to_string(), str::to_owned))
        .collect();
    Slot {
        name: text("name").to_owned(),
        kind: text("kind").to_owned(),
        dtype: DType::from_name(text("dtype")),
        rank: dims.len(),
        dims,
    }
}

/// The elements of a string tensor; none for others.
fn string_elements(tensor: &Tensor) -> Vec<StringElement> {
    let strings = tensor.strings.as_deref().unwrap_or_default();
    let element = |text: &String| StringElement {
        bytes: text.as_ptr(),
        length: text.len() as i64,
    };
    strings.iter().map(element).collect()
}

/// A view of a tensor. Types below a byte are passed one element a byte.
fn dl_tensor(tensor: &Tensor, shape: &mut [i64], texts: &[StringElement]) -> DlTensor {
    let dtype = tensor.dtype;
    let (code, bits) = match dtype {
        _ if dtype.bits() >= 8 => (dtype.dlpack_code(), dtype.bits() as u8),
        _ if dtype.is_signed() => (0, 8),
        _ => (1, 8),
    };
    let data: *const c_void = match dtype {
        DType::Str => texts.as_ptr().cast(),
        _ => tensor.data.as_ptr().cast(),
    };
    DlTensor {
        data: data.cast_mut(),
        device_type: 1,
        device_id: 0,
        ndim: shape.len() as i32,
        code,
        bits,
        lanes: 1,
        shape: shape.as_mut_ptr(),
        strides: std::ptr::null_mut(),
        byte_offset: 0,
    }
}

fn by_pointer(tensor: &DlTensor) -> Any {
    Any {
        type_index: DL_TENSOR,
        padding: 0,
        value: std::ptr::from_ref(tensor) as u64,
    }
}

fn scalar(tensor: &Tensor) -> Any {
    if tensor.dtype.is_float() {
        let value = tensor.to_f64s().first().copied().unwrap_or_default();
        Any {
            type_index: FLOAT,
            padding: 0,
            value: value.to_bits(),
        }
    } else {
        let value = tensor.to_i64s().first().copied().unwrap_or_default();
        Any {
            type_index: INT,
            padding: 0,
            value: value as u64,
        }
    }
}

/// Copies results out of the objects that hold them, and ends the objects.
///
/// # Safety
/// `result` was written by an entry, and nobody else owns it.
unsafe fn take_results(result: Any, slots: &[Slot], is_list: bool) -> Result<Vec<Data>, String> {
    // SAFETY: by contract these are tensors, arrays of tensors, or arrays of both; the layouts are TVM-FFI's.
    unsafe {
        let res = match result.type_index {
            0 if slots.is_empty() => Ok(Vec::new()),
            ARRAY if is_list => {
                let copy = |(i, value): (usize, &Any)| copy_value(value, slots.get(i));
                items(&result).iter().enumerate().map(copy).collect()
            }
            _ => copy_value(&result, slots.first()).map(|tensor| vec![tensor]),
        };
        end(result);
        res
    }
}

/// Ends what an entry gave.
///
/// # Safety
/// `result` was written by an entry, and nobody else owns it.
unsafe fn end(result: Any) {
    // Values below 64 stand in the word itself.
    let object = result.value as *mut Object;
    if result.type_index < FIRST_OBJECT || object.is_null() {
        return;
    }
    // SAFETY: the only reference is ours: 3 ends the object and frees it.
    unsafe {
        if let Some(deleter) = (*object).deleter {
            deleter(object, 3);
        }
    }
}

/// The elements of an array.
///
/// # Safety
/// `value` is an array that lives.
unsafe fn items(value: &Any) -> &[Any] {
    // SAFETY: the head is followed by where the elements are, and their number.
    unsafe {
        let body = &*(value.value as *const Object).add(1).cast::<ArrayBody>();
        match body.size {
            0 => &[],
            n => std::slice::from_raw_parts(body.data, n as usize),
        }
    }
}

/// # Safety
/// `value` is a result that lives.
unsafe fn copy_value(value: &Any, slot: Option<&Slot>) -> Result<Data, String> {
    // SAFETY: strings come as nested arrays, as deep as their rank, sequences as arrays, others as tensors.
    unsafe {
        match slot {
            _ if value.type_index == TENSOR => {
                copy_tensor(value.value as *mut Object, slot).map(Data::Tensor)
            }
            Some(slot) if slot.kind == "tensor" && slot.dtype == Some(DType::Str) => {
                let mut shape = vec![0; slot.rank];
                let mut strings = Vec::new();
                copy_strings(value, 0, &mut shape, &mut strings)?;
                Tensor::from_strings(shape, strings)
                    .map(Data::Tensor)
                    .ok_or_else(|| "arrays of strings differ in length".to_owned())
            }
            _ if value.type_index == ARRAY => {
                let copy = |item: &Any| copy_tensor(item.value as *mut Object, slot);
                let items = items(value).iter().map(copy);
                items.collect::<Result<_, _>>().map(Data::Seq)
            }
            _ if value.type_index == 0 => Ok(Data::None),
            _ => Err(format!("a result is of type {}", value.type_index)),
        }
    }
}

/// # Safety
/// `value` lives.
unsafe fn copy_strings(
    value: &Any,
    axis: usize,
    shape: &mut [usize],
    strings: &mut Vec<String>,
) -> Result<(), String> {
    // SAFETY: the layouts are TVM-FFI's; a short string stands in the value itself.
    unsafe {
        if axis < shape.len() && value.type_index == ARRAY {
            let items = items(value);
            shape[axis] = items.len();
            return items
                .iter()
                .try_for_each(|item| copy_strings(item, axis + 1, shape, strings));
        }
        let (start, size) = match value.type_index {
            SMALL_STR => (
                std::ptr::from_ref(&value.value).cast::<u8>(),
                value.padding as usize,
            ),
            STR => {
                let body = &*(value.value as *const Object).add(1).cast::<ArrayBody>();
                (body.data.cast::<u8>(), body.size as usize)
            }
            other => return Err(format!("a string is of type {other}")),
        };
        let bytes = std::slice::from_raw_parts(start, size);
        strings.push(String::from_utf8_lossy(bytes).into_owned());
        Ok(())
    }
}

/// # Safety
/// `object` is a tensor object.
unsafe fn copy_tensor(object: *mut Object, slot: Option<&Slot>) -> Result<Tensor, String> {
    // SAFETY: the `DLTensor` follows the head, and describes memory that is there.
    unsafe {
        let tensor = &*object.add(1).cast::<DlTensor>();
        let shape: Vec<usize> = match tensor.ndim {
            0 => Vec::new(),
            n => std::slice::from_raw_parts(tensor.shape, n as usize)
                .iter()
                .map(|&extent| extent as usize)
                .collect(),
        };
        let dtype = slot
            .and_then(|slot| slot.dtype)
            .ok_or("a result has no known dtype")?;
        let bytes = count(&shape)
            .and_then(|n| n.checked_mul(dtype.bytes()))
            .ok_or("too large")?;
        let start = tensor.data.cast::<u8>().add(tensor.byte_offset as usize);
        let data = std::slice::from_raw_parts(start, bytes).to_vec();
        Tensor::new(dtype, shape, data).ok_or_else(|| "a result has no sound shape".to_owned())
    }
}
