//! Files that commands write: whole or not at all, and several of one command together.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::Exit;
use super::report::{Failure, Session};
use crate::driver::{self, Fault, Program};
use crate::syntax::{Name, print};

/// Files that are written beside their places, and put there together by [`Outputs::keep`]; what was not kept is
/// removed. What is no regular file (a device, a pipe) has no place to be put in: it is written at once.
#[derive(Default)]
pub struct Outputs(Vec<Part>);

struct Part {
    written: PathBuf,
    place: PathBuf,
}

impl Outputs {
    /// Writes one file, and gives what `body` gives. A symbolic link stays one: the file that it names is written. A
    /// file that was there keeps its permissions.
    ///
    /// # Errors
    /// What `body` says, or the file cannot be written.
    pub fn write<T, E: From<Unwritable>>(
        &mut self,
        path: &Path,
        body: impl FnOnce(&mut BufWriter<File>) -> Result<T, E>,
    ) -> Result<T, E> {
        let file = self
            .open(path)
            .map_err(|error| Unwritable::new(path, &error))?;
        let mut out = BufWriter::with_capacity(1 << 20, file);
        let res = body(&mut out)?;
        out.flush().map_err(|error| Unwritable::new(path, &error))?;
        Ok(res)
    }

    /// Writes one file of bytes, as [`Outputs::write`] does.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_bytes(&mut self, path: &Path, bytes: &[u8]) -> Result<(), Unwritable> {
        self.write(path, |out| {
            out.write_all(bytes)
                .map_err(|error| Unwritable::new(path, &error))
        })
    }

    fn open(&mut self, path: &Path) -> io::Result<File> {
        let there = fs::metadata(path).ok();
        if there
            .as_ref()
            .is_some_and(|meta| !meta.is_file() && !meta.is_dir())
        {
            return File::options().write(true).open(path);
        }
        let place = match there {
            Some(_) => fs::canonicalize(path)?,
            None => path.to_owned(),
        };
        let mut written = place.as_os_str().to_owned();
        written.push(format!(".{}.part", std::process::id()));
        let written = PathBuf::from(written);
        let file = File::create(&written)?;
        self.0.push(Part {
            written: written.clone(),
            place,
        });
        if let Some(meta) = there.filter(fs::Metadata::is_file) {
            fs::set_permissions(&written, meta.permissions())?;
        }
        Ok(file)
    }

    /// Puts all files in their places.
    ///
    /// # Errors
    /// One cannot be put there.
    pub fn keep(&mut self) -> Result<(), Unwritable> {
        while let Some(part) = self.0.first() {
            fs::rename(&part.written, &part.place)
                .map_err(|error| Unwritable::new(&part.place, &error))?;
            self.0.remove(0);
        }
        Ok(())
    }
}

impl Drop for Outputs {
    fn drop(&mut self) {
        for part in &self.0 {
            // The fault that kept it from its place is the one to tell.
            let _ = fs::remove_file(&part.written);
        }
    }
}

/// A file that cannot be written, and why.
pub struct Unwritable(String);

impl Unwritable {
    /// `path` and what the system says.
    pub fn new(path: &Path, why: &dyn std::fmt::Display) -> Self {
        Self(format!("cannot write {}: {why}", path.display()))
    }
}

impl From<Unwritable> for Fault {
    fn from(Unwritable(message): Unwritable) -> Self {
        Self::io(message)
    }
}

impl From<Unwritable> for Failure {
    fn from(Unwritable(message): Unwritable) -> Self {
        Self::new(Exit::Io, message)
    }
}

/// Writes one file.
///
/// # Errors
/// The folder or the file cannot be written.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut outputs = Outputs::default();
    outputs.write_bytes(path, bytes)?;
    Ok(outputs.keep()?)
}

/// Writes a result to the file that `-o` names; `-`, and no `-o`, is stdout.
///
/// # Errors
/// As [`write_file`] and [`write_stdout`].
pub fn write_output(path: Option<&Path>, bytes: &[u8]) -> Result<(), Failure> {
    match path.filter(|path| *path != Path::new("-")) {
        Some(path) => write_file(path, bytes),
        None => write_stdout(bytes),
    }
}

/// Writes a program as text, its weights beside it as `.safetensors`; without a file, and for `-`, the text goes to
/// stdout, without weights.
///
/// # Errors
/// As [`write_file`] and [`write_stdout`].
pub fn write_program(
    path: Option<&Path>,
    program: &mut Program,
    session: &Session,
) -> Result<(), Failure> {
    let Some(path) = path.filter(|path| *path != Path::new("-")) else {
        if !program.weights.is_empty() {
            session.say("note: the weights are not written without `-o FILE`\n");
        }
        return write_stdout(print(&program.module).as_bytes());
    };
    let params: BTreeSet<Name> = program
        .module
        .funcs()
        .flat_map(|func| func.params.iter().map(|param| param.name.clone()))
        .collect();
    program.weights.retain(|name| params.contains(name));
    if program.weights.is_empty() {
        driver::remove_attr(&mut program.module, "irc.params");
        return write_file(path, print(&program.module).as_bytes());
    }
    let beside = path.with_extension("safetensors");
    let mut outputs = Outputs::default();
    let hash = outputs.write(&beside, |out| {
        let written = program.weights.write(out);
        written.map_err(|error| Failure::from(Unwritable::new(&beside, &error)))
    })?;
    let name = beside.file_name().map_or(beside.as_path(), Path::new);
    driver::name_weights(&mut program.module, &name.display().to_string(), &hash);
    outputs.write_bytes(path, print(&program.module).as_bytes())?;
    Ok(outputs.keep()?)
}

/// Writes a result to stdout.
///
/// # Errors
/// stdout cannot take it; a closed pipe is no error.
pub fn write_stdout(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::new(
            Exit::Io,
            format!("cannot write to stdout: {error}"),
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_pipes_and_faults() {
        let dir = std::env::temp_dir().join(format!("irc-outputs-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("made");
        let (file, link, pipe) = (dir.join("file"), dir.join("link"), dir.join("pipe"));

        fs::write(&file, "old").expect("written");
        std::os::unix::fs::symlink("file", &link).expect("linked");
        assert!(write_file(&link, b"new").is_ok());
        assert_eq!(fs::read_to_string(&file).expect("there"), "new");
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());

        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("run").success());
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read_to_string(pipe)
        });
        assert!(write_file(&pipe, b"through").is_ok());
        assert_eq!(reader.join().expect("joined").expect("read"), "through");
        assert!(!fs::metadata(&pipe).expect("there").is_file());

        let mut outputs = Outputs::default();
        assert!(outputs.write_bytes(&file, b"half").is_ok());
        drop(outputs);
        assert_eq!(fs::read_to_string(&file).expect("there"), "new");
        assert_eq!(fs::read_dir(&dir).expect("there").count(), 3);
        fs::remove_dir_all(&dir).expect("removed");
    }
}
