//! The hook of libraries that are built for profiles: it keeps when each kernel begins and ends.
#![allow(unsafe_code)] // Called by the library, and reads its texts.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Native;

/// One call of a kernel.
#[derive(Clone, Debug)]
pub struct KernelCall {
    /// The prim_func.
    pub kernel: String,
    /// The function that calls it, and the tensor that it computes: `main/lv3`.
    pub place: String,
    /// The values of its symbols.
    pub sizes: BTreeMap<String, i64>,
    /// When it began, from the begin of the request.
    pub start: Duration,
    /// How long it took.
    pub time: Duration,
}

/// What a request was made of.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// How long all of it took.
    pub total: Duration,
    /// The kernels in order.
    pub calls: Vec<KernelCall>,
}

/// A call as it is kept while the request runs: texts by address.
struct Kept {
    texts: [usize; 3],
    sizes: Vec<i64>,
    start: Duration,
    time: Duration,
}

/// The request that runs.
struct Record {
    begin: Instant,
    open: Option<Instant>,
    calls: Vec<Kept>,
}

static RECORD: Mutex<Option<Record>> = Mutex::new(None);

type Hook = extern "C" fn(*const c_char, *const c_char, *const c_char, *const i64, i64);
type SetHook = unsafe extern "C" fn(Option<Hook>);

extern "C" fn hook(
    kernel: *const c_char,
    place: *const c_char,
    symbols: *const c_char,
    sizes: *const i64,
    phase: i64,
) {
    let end = Instant::now();
    let mut guard = RECORD.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(record) = guard.as_mut() else {
        return;
    };
    if phase != 0
        && let Some(start) = record.open.take()
    {
        // SAFETY: the library passes texts that live as long as it does, and one number for each symbol.
        let sizes = unsafe {
            let n = names(CStr::from_ptr(symbols)).count();
            (0..n).map(|at| *sizes.add(at)).collect()
        };
        record.calls.push(Kept {
            texts: [kernel as usize, place as usize, symbols as usize],
            sizes,
            start: start - record.begin,
            time: end - start,
        });
    } else if phase == 0 {
        record.open = Some(Instant::now());
    }
}

fn names(symbols: &CStr) -> impl Iterator<Item = String> {
    let text = symbols.to_string_lossy().into_owned();
    let names: Vec<String> = text.split(',').map(str::to_owned).collect();
    names.into_iter().filter(|name| !name.is_empty())
}

impl Native {
    /// Whether the library was built for profiles.
    pub fn has_hook(&self) -> bool {
        // SAFETY: the symbol is only looked up.
        unsafe { self.library.get::<SetHook>(b"net_profile").is_ok() }
    }

    /// Runs a request of this library and keeps what its kernels do. One request is traced at a time.
    ///
    /// # Errors
    /// What the request says; the library was not built for profiles.
    pub fn trace(&self, request: impl FnOnce() -> Result<(), String>) -> Result<Trace, String> {
        // SAFETY: the signature is that of every library built for profiles.
        let set = unsafe { self.library.get::<SetHook>(b"net_profile") };
        let set = set.map_err(|error| error.to_string())?;
        let begin = Instant::now();
        let keep = |record: Option<Record>| {
            let mut guard = RECORD.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *guard, record)
        };
        keep(Some(Record {
            begin,
            open: None,
            calls: Vec::new(),
        }));
        // SAFETY: the hook has the signature that the library calls, and is never unloaded.
        unsafe { set(Some(hook)) };
        let outcome = request();
        let total = begin.elapsed();
        // SAFETY: as above.
        unsafe { set(None) };
        let calls = keep(None).map_or_else(Vec::new, |record| record.calls);
        outcome?;
        Ok(Trace {
            total,
            calls: calls.iter().map(resolve).collect(),
        })
    }
}

fn resolve(kept: &Kept) -> KernelCall {
    // SAFETY: the library is loaded still, and the texts are in its read-only data.
    let text = |at: usize| unsafe { CStr::from_ptr(kept.texts[at] as *const c_char) };
    KernelCall {
        kernel: text(0).to_string_lossy().into_owned(),
        place: text(1).to_string_lossy().into_owned(),
        sizes: names(text(2)).zip(kept.sizes.iter().copied()).collect(),
        start: kept.start,
        time: kept.time,
    }
}
