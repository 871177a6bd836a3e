//! The process that loads one library and calls it as it is told: `round SECONDS` and `end`, a line each, answered by a
//! line of JSON.

use std::io::BufRead;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use super::Args;
use crate::cli::Exit;
use crate::cli::data::{self, Data};
use crate::cli::inputs::{forms, make_input, parse_sizes, read_inputs};
use crate::cli::native::{Interface, Native, Request};
use crate::cli::output::write_stdout;
use crate::cli::report::Failure;

/// The most calls of a round.
const MAX_CALLS: usize = 50_000;

/// Loads, calls, and obeys.
pub fn run(args: &Args) -> Result<Exit, Failure> {
    let path = Path::new(args.files.first().map_or("", String::as_str));
    let failed = |message: String| Failure::new(Exit::RunFailed, message);
    let folder = args.data.as_deref();
    let inputs = inputs_for(path, &args.function, folder, &args.inputs, &args.sizes)?;
    // Memory is counted from here on.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let before = memory_mb("VmRSS:");
    let start = Instant::now();
    let library = Native::open(path).map_err(|why| Failure::new(Exit::Io, why))?;
    let load = start.elapsed();
    let request = library.prepare(&args.function, &inputs).map_err(failed)?;
    request.run().map_err(failed)?;
    let cold = start.elapsed();
    calls(&request, Duration::from_secs_f64(args.warm_up), 1)?;
    say(&json!({
        "threads": std::env::var("IRC_NUM_THREADS").ok().and_then(|text| text.parse::<u64>().ok()).unwrap_or(cores()),
        "cold_ms": cold.as_secs_f64() * 1e3,
        "load_ms": load.as_secs_f64() * 1e3,
    }))?;
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap_or_default();
        match line.strip_prefix("round ").map(str::parse::<f64>) {
            Some(Ok(seconds)) => {
                let times = calls(&request, Duration::from_secs_f64(seconds), 3)?;
                say(&json!(times))?;
            }
            _ => break,
        }
    }
    say(&json!({ "rss_mb": (memory_mb("VmHWM:") - before).max(0.0) }))?;
    Ok(Exit::Good)
}

/// The inputs of a function of a library: those of a folder, or those that are given, and the others made.
///
/// # Errors
/// There is no such function, or an input cannot be read or made.
pub fn inputs_for(
    path: &Path,
    function: &str,
    folder: Option<&Path>,
    given: &[String],
    sizes: &[String],
) -> Result<Vec<Data>, Failure> {
    let interface = Interface::read(path).map_err(|why| Failure::new(Exit::Io, why))?;
    let (params, _) = interface.slots(function).ok_or_else(|| {
        let known = interface.functions().join(", ");
        let message = format!("there is no function `{function}`; there are: {known}");
        Failure::new(Exit::Usage, message)
    })?;
    if let Some(folder) = folder {
        let sets = data::find_sets(folder)?;
        let set = sets.first().map_or(folder, |set| set.as_path());
        return data::read(set, "input", &forms(&params));
    }
    let sizes = parse_sizes(sizes)?;
    let missing = |param: &_| make_input(param, &sizes);
    read_inputs(given, &params, &interface.maps(function), &missing)
}

/// Calls for so long, and at least so often; the nanoseconds of each call.
fn calls(request: &Request<'_>, period: Duration, least: usize) -> Result<Vec<u64>, Failure> {
    let start = Instant::now();
    let mut times = Vec::new();
    while times.len() < least || (start.elapsed() < period && times.len() < MAX_CALLS) {
        let before = Instant::now();
        let answer = request.run();
        times.push(u64::try_from(before.elapsed().as_nanos()).unwrap_or(u64::MAX));
        answer.map_err(|message| Failure::new(Exit::RunFailed, message))?;
    }
    Ok(times)
}

fn say(answer: &serde_json::Value) -> Result<(), Failure> {
    write_stdout(format!("{answer}\n").as_bytes())
}

fn cores() -> u64 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u64)
}

/// A figure of this process in MB, 0 where the system does not tell.
fn memory_mb(key: &str) -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    let number = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    number.map_or(0.0, |kib| kib / 1024.0)
}
