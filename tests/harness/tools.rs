//! Commands that measure: what they say has the right form. What they measured is not judged.

use libtest_mimic::{Failed, Trial};
use serde_json::Value as Json;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

const PROGRAM: &str = r#"
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 64), dtype="float32"), w: R.Tensor((64, 32), dtype="float32")):
        y = R.matmul(x, w)
        z = R.nn.relu(y)
        return z
"#;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        Trial::test("tools:bench", || bench().map_err(Failed::from)),
        Trial::test("tools:profile", || profile().map_err(Failed::from)),
        Trial::test("tools:specialize", || specialize().map_err(Failed::from)),
        Trial::test("tools:tune", || tune().map_err(Failed::from)),
    ]
}

/// A folder of a test, with the program in it.
fn folder(name: &str) -> Result<PathBuf, String> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    std::fs::write(folder.join("net.ir"), PROGRAM).map_err(|error| error.to_string())?;
    Ok(folder)
}

fn irc(folder: &PathBuf, args: &str) -> Result<Output, String> {
    Command::new(env!("CARGO_BIN_EXE_irc"))
        .args(args.split_whitespace())
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())
}

/// What a command that ends well says on stdout.
fn good(folder: &PathBuf, args: &str) -> Result<String, String> {
    let output = irc(folder, args)?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!(
            "irc {args}: {}",
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

fn json(text: &str) -> Result<Json, String> {
    serde_json::from_str(text).map_err(|error| format!("{error}: {text}"))
}

fn claim(holds: bool, what: &str) -> Result<(), String> {
    match holds {
        true => Ok(()),
        false => Err(format!("it does not hold that {what}")),
    }
}

fn bench() -> Result<(), String> {
    const QUICK: &str = "--size n=5 --threads 1,2 --rounds 2 --seconds 0 --warm-up 0";
    let folder = folder("bench")?;
    good(&folder, "build net.ir -o net.so")?;
    let report = good(&folder, &format!("bench net.ir net.so --json {QUICK}"))?;
    let report = json(&report)?;
    let runs = report["runs"].as_array().ok_or("no runs")?;
    claim(runs.len() == 4, "each file runs at each number of threads")?;
    for run in runs {
        let time = |key: &str| run["ms"][key].as_f64().unwrap_or(f64::NAN);
        claim(time("n") == 6.0, "a round has three calls at the least")?;
        let sorted = ["min", "p50", "p90", "p99"].map(time);
        claim(sorted.is_sorted() && sorted[0] > 0.0, "percentiles grow")?;
        claim(
            run["cold_ms"].as_f64() > run["load_ms"].as_f64(),
            "loading is a part of the first answer",
        )?;
    }
    claim(
        runs[0]["ratio"].is_null() && runs[2]["ratio"].is_f64(),
        "files after the first are compared with it",
    )?;
    let table = good(&folder, &format!("bench net.so {QUICK}"))?;
    claim(
        table.lines().count() == 3 && table.starts_with("file"),
        "the table has a line a run",
    )?;
    for (median, limit, code) in [(1e9, "5%", 0), (1e-9, "5%", 1)] {
        let old = |threads: u32| serde_json::json!({ "file": "net.onnx", "threads": threads, "ms": { "p50": median } });
        let old = serde_json::json!({ "runs": [old(1), old(2)] });
        std::fs::write(folder.join("old.json"), old.to_string())
            .map_err(|error| error.to_string())?;
        let args = format!("bench net.so --baseline old.json --fail-over {limit} {QUICK}");
        let output = irc(&folder, &args)?;
        claim(
            output.status.code() == Some(code),
            &format!("{args} ends with {code}"),
        )?;
    }
    Ok(())
}

fn profile() -> Result<(), String> {
    const FILES: &str = "--profile-json profile.json --trace trace.json";
    let folder = folder("profile")?;
    good(&folder, "build net.ir -o plain.so")?;
    good(&folder, "build net.ir -o hooked.so --profile")?;
    let bytes = |name: &str| std::fs::read(folder.join(name)).map_err(|error| error.to_string());
    let has_hook = |bytes: &[u8]| bytes.windows(11).any(|part| part == b"net_profile");
    claim(
        !has_hook(&bytes("plain.so")?),
        "a library pays nothing that is not built for profiles",
    )?;
    claim(
        has_hook(&bytes("hooked.so")?),
        "the hook is there where it is asked for",
    )?;
    for file in ["plain.so", "hooked.so", "net.ir"] {
        let args = format!("run {file} --profile --size n=5 --repeat 2 --peaks 100,20 {FILES}");
        let table = good(&folder, &args)?;
        claim(
            table.contains("as stated"),
            "the table says where peaks come from",
        )?;
        let report = json(&String::from_utf8_lossy(&bytes("profile.json")?))?;
        let kernels = report["kernels"].as_array().ok_or("no kernels")?;
        let calls: u64 = kernels
            .iter()
            .filter_map(|kernel| kernel["calls"].as_u64())
            .sum();
        claim(calls >= 1 && report["requests"] == 2, "kernels are counted")?;
        if file != "plain.so" {
            let sum = |key: &str| -> f64 {
                kernels
                    .iter()
                    .filter_map(|kernel| kernel[key].as_f64())
                    .sum()
            };
            claim(
                sum("operations") == 5.0 * 32.0 * (2.0 * 64.0 + 1.0),
                "operations are those of the sizes",
            )?;
            claim(
                sum("bytes") == 4.0 * (5.0 * 64.0 + 64.0 * 32.0 + 5.0 * 32.0),
                "every element is moved once",
            )?;
        }
        let trace = json(&String::from_utf8_lossy(&bytes("trace.json")?))?;
        let events = trace["traceEvents"].as_array().ok_or("no events")?;
        claim(
            events.len() as u64 == calls + 1 && events.iter().all(|event| event["ph"] == "X"),
            "the trace has an event a kernel, and one of the request",
        )?;
    }
    good(&folder, "run net.ir --profile --size n=5 --repeat 1")?;
    Ok(())
}

fn tune() -> Result<(), String> {
    let folder = folder("tune")?;
    let bytes = |name: &str| std::fs::read(folder.join(name)).map_err(|error| error.to_string());
    let found = good(
        &folder,
        "tune net.ir --size n=7 --seconds 0 --cpu x86-64-v3",
    )?;
    let found = json(&found)?;
    claim(
        found["v"] == 1 && found["kernels"].is_object(),
        "the log holds choices by key",
    )?;
    // What is faster differs by machine; a log of one's own is as good.
    good(&folder, "build net.ir -o plain.so")?;
    let listed = good(
        &folder,
        "build net.ir --emit scheduled -o - --tuned empty.json",
    );
    claim(listed.is_err(), "a log has to be there")?;
    let log = |kernels: Json| {
        let log = serde_json::json!({
            "v": 1, "irc": "0", "target": "any", "threads": null, "kernels": kernels,
        });
        std::fs::write(folder.join("log.json"), log.to_string()).map_err(|error| error.to_string())
    };
    log(serde_json::json!({}))?;
    let scheduled = good(
        &folder,
        "build net.ir --emit scheduled -o - --tuned log.json",
    )?;
    let key = scheduled
        .split("\"irc.key\": \"")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .ok_or("no key")?
        .to_owned();
    let entry = |choice: Json| serde_json::json!({ "kernel": "", "choice": choice, "ms": 1, "formula_ms": 2 });
    log(
        serde_json::json!({ key.as_str(): entry(serde_json::json!({ "rows": 2 })), "0": entry(serde_json::json!({})) }),
    )?;
    for name in ["one.so", "two.so"] {
        let output = irc(&folder, &format!("build net.ir -o {name} --tuned log.json"))?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        claim(
            said == "note: 1 of 2 choices are for kernels that this program does not have\n",
            &format!("keys of other programs are noted, not `{said}`"),
        )?;
    }
    claim(
        bytes("one.so")? == bytes("two.so")?,
        "the same log gives the same bytes",
    )?;
    let program = good(&folder, "print one.so")?;
    claim(
        program.contains("\"irc.schedule\": {\"rows\": 2}"),
        "the choice is taken",
    )?;
    for (name, code) in [("rows", 3), ("columns", 3)] {
        log(serde_json::json!({ key.as_str(): entry(serde_json::json!({ name: 1000 })) }))?;
        let output = irc(&folder, "build net.ir --tuned log.json")?;
        claim(
            output.status.code() == Some(code),
            "a log that makes no sense is refused",
        )?;
    }
    Ok(())
}

fn specialize() -> Result<(), String> {
    let folder = folder("specialize")?;
    good(&folder, "build net.ir -o plain.so")?;
    good(&folder, "build net.ir -o net.so --specialize n=1,5")?;
    let info = json(&good(&folder, "info net.so --json")?)?;
    let functions = info["functions"].as_object().ok_or("no functions")?;
    let names: Vec<&str> = functions.keys().map(String::as_str).collect();
    claim(
        names == ["main", "main_n1", "main_n5"],
        "there is a version a size",
    )?;
    for n in [1, 2, 5] {
        let rows: Vec<String> = (0..n)
            .map(|row| format!("[{}]", vec![row.to_string(); 64].join(",")))
            .collect();
        let inputs = format!(
            "--input x=[{}] --input w=[{}]",
            rows.join(","),
            vec![format!("[{}]", vec!["0.5"; 32].join(",")); 64].join(",")
        );
        let general = good(&folder, &format!("run plain.so {inputs}"))?;
        let special = good(&folder, &format!("run net.so {inputs}"))?;
        claim(general == special, "versions compute the same")?;
    }
    for (n, place) in [(5, "main_n5/"), (2, "main/")] {
        let args = "--profile --repeat 1 --peaks 1,1 --trace trace.json";
        good(&folder, &format!("run net.so --size n={n} {args}"))?;
        let trace = std::fs::read_to_string(folder.join("trace.json"));
        let trace = json(&trace.map_err(|error| error.to_string())?)?;
        let found = trace["traceEvents"][1]["args"]["place"]
            .as_str()
            .unwrap_or_default();
        claim(found.starts_with(place), &format!("{found} is in {place}"))?;
    }
    let output = irc(
        &folder,
        "bench net.so --function main_n5 --rounds 1 --seconds 0 --warm-up 0",
    )?;
    claim(output.status.success(), "a version can be called")?;
    for (sizes, code) in [("k=1", 2), ("n", 2), ("n=-1", 2)] {
        let output = irc(&folder, &format!("build net.ir --specialize {sizes}"))?;
        claim(
            output.status.code() == Some(code),
            "sizes that make no sense are refused",
        )?;
    }
    let output = irc(&folder, "build net.so -o again.so --specialize n=3")?;
    claim(
        output.status.code() == Some(4),
        "a program that is compiled gets no versions",
    )?;
    good(&folder, "build net.so -o again.so")?;
    Ok(())
}
