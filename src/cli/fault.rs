//! Our own faults: a panic or an internal diagnostic ends with a file that holds what is needed to see it again.

use std::fmt::Write as _;
use std::panic::PanicHookInfo;
use std::path::Path;
use std::sync::Once;

use crate::tensor::sha256_bytes;

/// The largest input that is copied into a reproducer.
const MAX_INPUT: u64 = 1 << 20;

/// Makes panics write a reproducer in place of Rust's own message.
pub fn install_hook() {
    std::panic::set_hook(Box::new(|info: &PanicHookInfo<'_>| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let text = info.payload_as_str().unwrap_or("no message");
        report(&format!("{text} ({place})"));
    }));
}

/// Says what happened and writes the reproducer; only the first fault of a process counts.
pub fn report(what: &str) {
    static FIRST: Once = Once::new();
    FIRST.call_once(|| {
        let text = reproducer(what);
        let hash = sha256_bytes(text.as_bytes());
        let path = format!("irc-repro-{}.txt", hash.get(..12).unwrap_or("0"));
        let written = match std::fs::write(&path, &text) {
            Ok(()) => format!("  what is needed to repeat it is in {path}"),
            Err(error) => format!("  no reproducer could be written: {error}"),
        };
        eprintln!(
            "error: internal fault of irc: {what}\n{written}\n  rerun: {}",
            command_line()
        );
    });
}

/// The command line as a shell takes it.
fn command_line() -> String {
    let quoted = std::env::args().map(|arg| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+@".contains(c);
        if !arg.is_empty() && arg.chars().all(plain) {
            arg
        } else {
            format!("'{}'", arg.replace('\'', "'\\''"))
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

fn reproducer(what: &str) -> String {
    let mut res = format!(
        "irc {}\ncommand: {}\nfault: {what}\n",
        env!("CARGO_PKG_VERSION"),
        command_line()
    );
    for arg in std::env::args().skip(1) {
        let path = Path::new(&arg);
        let Ok(meta) = path.metadata() else {
            continue;
        };
        if !meta.is_file() || meta.len() > MAX_INPUT {
            continue;
        }
        if let Ok(text) = std::fs::read_to_string(path) {
            let _ = write!(res, "\n--- {arg}\n{text}");
        }
    }
    let _ = write!(
        res,
        "\n--- backtrace\n{}\n",
        std::backtrace::Backtrace::force_capture()
    );
    res
}
