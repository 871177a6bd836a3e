//! Files read in place, and their hashes.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read};
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest, Sha256};

/// A file mapped into memory. Cloning shares the mapping.
#[derive(Clone, Debug)]
pub struct MappedFile(Option<Arc<memmap2::Mmap>>);

impl MappedFile {
    /// Maps a regular file, which must not be changed while it is in use.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::from_file(&File::open(path)?)
    }

    /// Maps a regular file that is open.
    pub fn from_file(file: &File) -> io::Result<Self> {
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a regular file",
            ));
        }
        // A length of zero cannot be mapped.
        if meta.len() == 0 {
            return Ok(Self(None));
        }
        // SAFETY: the mapping is read only and private to this process; a file truncated by someone else while it is
        // mapped raises a signal on access, which no reader of mapped files can exclude.
        let map = unsafe { memmap2::Mmap::map(file)? };
        Ok(Self(Some(Arc::new(map))))
    }
}

impl Deref for MappedFile {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Some(map) => map,
            None => &[],
        }
    }
}

/// The sha256 of bytes, in lower-case hexadecimal.
pub fn sha256_bytes(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// The sha256 of a file, in lower-case hexadecimal.
pub fn sha256_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0u8; 1 << 20];
    loop {
        let n = file.read(&mut buffer)?;
        if n == 0 {
            return Ok(hex(&hasher.finalize()));
        }
        hasher.update(&buffer[..n]);
    }
}

/// Bytes in lower-case hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
