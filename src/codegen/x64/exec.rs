//! Runs emitted code inside the tests: maps it executable and calls it.
#![allow(unsafe_code)]

use memmap2::{Mmap, MmapMut};

/// Code in memory.
pub struct Loaded(Mmap);

impl Loaded {
    /// Maps code.
    pub fn new(code: &[u8]) -> Self {
        let mut map = MmapMut::map_anon(code.len().max(1)).expect("memory for code");
        map[..code.len()].copy_from_slice(code);
        Self(map.make_exec().expect("executable memory"))
    }

    /// Calls it with an array of arguments.
    pub fn call(&self, args: &[u64]) {
        // SAFETY: the map holds a complete function of this signature made by `emit`; what its arguments point to
        // is the caller's, who made the function.
        unsafe {
            let entry: extern "C" fn(*const u64) = std::mem::transmute(self.0.as_ptr());
            entry(args.as_ptr());
        }
    }
}

impl Loaded {
    /// Calls it with a place to write to.
    pub fn call_at(&self, place: &mut u64) {
        // SAFETY: as for `call`; the function writes one `u64`.
        unsafe {
            let entry: extern "C" fn(*mut u64) = std::mem::transmute(self.0.as_ptr());
            entry(place);
        }
    }
}

/// Reads bytes that emulated code asks for.
pub fn peek(at: u64, bytes: &mut [u8]) {
    // SAFETY: the addresses are those that emulated code computes from buffers of the test that runs it, or from its
    // own literals; a wrong one is the fault the test is looking for.
    unsafe {
        std::ptr::copy_nonoverlapping(at as *const u8, bytes.as_mut_ptr(), bytes.len());
    }
}

/// Writes bytes that emulated code stores.
pub fn poke(at: u64, bytes: &[u8]) {
    // SAFETY: as for `peek`.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len());
    }
}
