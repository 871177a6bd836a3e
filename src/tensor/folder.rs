//! The folder of a model: files beside it, and no others.
//!
//! A model names the files of its external data itself, so the names are hostile until proven otherwise.
//! [`ModelFolder::open`] takes a relative path, resolves every link on the way, and refuses what is outside
//! the folder, what is no regular file, and what has a second name (a hard link may stand for any file of the
//! same disk). The opened file itself is looked at, so nothing can be exchanged after the look.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::MappedFile;

/// Opens files beside a model; each once.
#[derive(Debug)]
pub struct ModelFolder {
    root: io::Result<PathBuf>,
    open: Mutex<BTreeMap<PathBuf, MappedFile>>,
}

impl ModelFolder {
    /// The folder in which a model file lies.
    pub fn of(model: &Path) -> Self {
        let folder = match model.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            Some(_) | None => Path::new("."),
        };
        Self {
            root: folder.canonicalize(),
            open: Mutex::default(),
        }
    }

    /// Maps the file of a relative path.
    ///
    /// # Errors
    /// Says why the file may not be, or cannot be, opened.
    pub fn open(&self, location: &str) -> Result<MappedFile, String> {
        let root = self
            .root
            .as_ref()
            .map_err(|error| format!("the model's folder cannot be read: {error}"))?;
        let relative = Path::new(location);
        if !relative
            .components()
            .all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
        {
            return Err("the path is not a plain path inside the model's folder".to_owned());
        }
        let path = root
            .join(relative)
            .canonicalize()
            .map_err(|error| error.to_string())?;
        if !path.starts_with(root) {
            return Err("the path leads out of the model's folder through a link".to_owned());
        }
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = open.get(&path) {
            return Ok(file.clone());
        }
        let file = File::open(&path).map_err(|error| error.to_string())?;
        check_links(&file)?;
        let file = MappedFile::from_file(&file).map_err(|error| error.to_string())?;
        open.insert(path, file.clone());
        Ok(file)
    }
}

#[cfg(unix)]
fn check_links(file: &File) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;
    let n_links = file.metadata().map_err(|error| error.to_string())?.nlink();
    if n_links > 1 {
        return Err(
            "the file has several names (hard links), so it may belong outside the folder"
                .to_owned(),
        );
    }
    Ok(())
}

#[cfg(not(unix))]
fn check_links(_: &File) -> Result<(), String> {
    Ok(())
}
