//! `irc weights`: what weights a program or a file has, and the same under other names, without contents, or elsewhere.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};

use super::Exit;
use super::inputs::parse_pairs;
use super::output::{Outputs, Unwritable, write_file, write_stdout};
use super::report::{Failure, Session};
use super::save::save;
use crate::driver::{self, Fault, Program};
use crate::edit::weights::{declared, rename, rename_file, splat, unknown};
use crate::library::Library;
use crate::syntax::{Expr, print_expr};
use crate::tensor::{MappedFile, Stats, Weight, Weights, parse_npz, print_npz, sha256_bytes};

/// `irc weights FILE [--json | rename OLD=NEW… | strip | splat VALUE | convert --to FORMAT]`
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  irc weights model.onnx
  irc weights net.ir rename w1=encoder_w -o net2.ir
  irc weights model.onnx splat 0 -o shared.ir
  irc weights net.ir convert --to npz -o net.npz")]
pub struct Args {
    /// A program (text, ONNX, a shared object of irc), or a .safetensors or .npz file
    #[arg(value_name = "FILE")]
    file: String,
    /// Print the list as JSON
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Give weights other names, in the text too
    Rename {
        /// The name and the new one; names may be exchanged
        #[arg(value_name = "OLD=NEW", required = true)]
        names: Vec<String>,
        /// Where the program, or the file of weights, goes
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
    /// Leave their contents out; types stay in the text
    Strip {
        /// Where the text goes
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
    /// Fill all of them with one value, to share a model without its weights. Constants in the text stay
    Splat {
        /// The value
        #[arg(value_name = "VALUE", allow_negative_numbers = true)]
        value: f64,
        /// Where the program, or the file of weights, goes
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
    /// Write them to a file of another format
    Convert {
        /// The format: safetensors, npz
        #[arg(long, value_name = "FORMAT", value_parser = ["safetensors", "npz"])]
        to: String,
        /// Where the file goes
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
}

/// What has weights.
enum Holder {
    Program(Program),
    File(Weights),
}

/// Lists or changes the weights.
pub fn run(args: Args, session: &mut Session) -> Result<Exit, Failure> {
    let lib = session.library()?;
    let holder = match load(&args.file, &lib, session) {
        Ok(holder) => holder,
        Err(fault) => return Ok(session.show_fault(&fault)),
    };
    let usage = |why: String| Failure::new(Exit::Usage, why);
    match args.action {
        None => list(&holder, args.json),
        Some(Action::Rename { names, output }) => {
            let names = parse_pairs(&names)?;
            match holder {
                Holder::Program(mut program) => {
                    rename(&mut program, &names).map_err(usage)?;
                    save(program, Some(&output), &lib, session)
                }
                Holder::File(weights) => {
                    if let Some(name) = names.keys().find(|name| weights.get(name).is_none()) {
                        let known = weights.iter().map(|(name, _)| name);
                        return Err(usage(unknown(name, known)));
                    }
                    write_weights(&rename_file(&weights, &names).map_err(usage)?, &output)
                }
            }
        }
        Some(Action::Strip { output }) => {
            let Holder::Program(mut program) = holder else {
                let message = "a file of weights is nothing without their contents";
                return Err(usage(message.to_owned()));
            };
            if output.extension().is_some_and(|suffix| suffix == "onnx") {
                let message = "an ONNX file has to hold its weights: `strip` writes text";
                return Err(Failure::new(Exit::Unsupported, message));
            }
            program.weights = Weights::new();
            driver::remove_attr(&mut program.module, "irc.params");
            save(program, Some(&output), &lib, session)
        }
        Some(Action::Splat { value, output }) => match holder {
            Holder::Program(mut program) => {
                program.weights = splat(&program.weights, value).map_err(usage)?;
                save(program, Some(&output), &lib, session)
            }
            Holder::File(weights) => {
                write_weights(&splat(&weights, value).map_err(usage)?, &output)
            }
        },
        Some(Action::Convert { to, output }) => {
            let weights = match holder {
                Holder::Program(program) => program.weights,
                Holder::File(weights) => weights,
            };
            write_as(&weights, &to, &output)
        }
    }
}

fn load(path: &str, lib: &Library, session: &mut Session) -> Result<Holder, Fault> {
    if path == "-" {
        return Ok(Holder::Program(session.load(path, lib)?));
    }
    let unsound =
        |why: &dyn std::fmt::Display| Fault::io(format!("`{path}` cannot be read: {why}"));
    let file = MappedFile::open(Path::new(path)).map_err(|error| unsound(&error))?;
    if file.starts_with(b"PK") {
        let tensors = parse_npz(&file).map_err(|error| unsound(&error))?;
        let mut weights = Weights::new();
        for (name, tensor) in tensors {
            weights.insert(name, tensor);
        }
        return Ok(Holder::File(weights));
    }
    if super::diff::is_safetensors(&file) {
        let weights = Weights::parse(file).map_err(|error| unsound(&error))?;
        return Ok(Holder::File(weights));
    }
    Ok(Holder::Program(session.load(path, lib)?))
}

/// Writes weights by the suffix of the file.
fn write_weights(weights: &Weights, output: &Path) -> Result<Exit, Failure> {
    let format = match output.extension().and_then(|suffix| suffix.to_str()) {
        Some("npz") => "npz",
        _ => "safetensors",
    };
    write_as(weights, format, output)
}

fn write_as(weights: &Weights, format: &str, output: &Path) -> Result<Exit, Failure> {
    if format == "npz" {
        let tensors: Vec<_> = weights
            .iter()
            .map(|(name, weight)| (name, weight.tensor()))
            .collect();
        let bytes = print_npz(tensors.iter().map(|(name, tensor)| (*name, tensor)))
            .map_err(|error| Failure::new(Exit::Unsupported, error.to_string()))?;
        write_file(output, &bytes)?;
        return Ok(Exit::Good);
    }
    let mut outputs = Outputs::default();
    outputs.write(output, |out| {
        let written = weights.write(out);
        written.map_err(|error| Failure::from(Unwritable::new(output, &error)))
    })?;
    outputs.keep()?;
    Ok(Exit::Good)
}

/// Lists weights, and those of which only types are known.
fn list(holder: &Holder, is_json: bool) -> Result<Exit, Failure> {
    let (weights, stripped) = match holder {
        Holder::Program(program) => {
            let declared = declared(&program.module).into_iter();
            let stripped = declared.filter(|(name, _)| program.weights.get(name).is_none());
            (&program.weights, stripped.collect())
        }
        Holder::File(weights) => (weights, Vec::new()),
    };
    let bytes: usize = weights.iter().map(|(_, weight)| weight.bytes().len()).sum();
    let text = |ty: &Option<Expr>| ty.as_ref().map(print_expr).unwrap_or_default();
    if is_json {
        let mut items: Vec<Json> = weights
            .iter()
            .map(|(name, weight)| facts(name, weight))
            .collect();
        items.extend(
            stripped
                .iter()
                .map(|(name, ty)| json!({ "name": name.as_str(), "type": text(ty) })),
        );
        let all = json!({ "weights": items, "count": items.len(), "bytes": bytes });
        write_stdout(format!("{all:#}\n").as_bytes())?;
        return Ok(Exit::Good);
    }
    let mut out = String::new();
    for (name, weight) in weights.iter() {
        let (ty, size) = (weight.dtype, weight.bytes().len());
        let _ = write!(
            out,
            "{name}: {ty}{:?} {size} bytes {}",
            weight.shape,
            short_hash(weight)
        );
        if let Some(stats) = Stats::of(&weight.tensor()) {
            for (key, value) in [("min", stats.min), ("max", stats.max), ("mean", stats.mean)] {
                if let Some(value) = value {
                    let _ = write!(out, " {key} {}", value as f32);
                }
            }
            for (key, count) in [("NaN", stats.n_nan), ("infinite", stats.n_inf)] {
                if count > 0 {
                    let _ = write!(out, " {count} {key}");
                }
            }
        }
        out.push('\n');
    }
    for (name, ty) in &stripped {
        let _ = writeln!(out, "{name}: {} without contents", text(ty));
    }
    let count = weights.len() + stripped.len();
    let words = if count == 1 { "weight" } else { "weights" };
    let _ = writeln!(out, "{count} {words} of {bytes} bytes");
    write_stdout(out.as_bytes())?;
    Ok(Exit::Good)
}

/// The first digits of the sha256 of the contents.
fn short_hash(weight: &Weight) -> String {
    let mut hash = sha256_bytes(weight.bytes());
    hash.truncate(12);
    hash
}

fn facts(name: &str, weight: &Weight) -> Json {
    let stats = Stats::of(&weight.tensor());
    let mut facts: BTreeMap<&str, Json> = BTreeMap::from([
        ("name", json!(name)),
        ("dtype", json!(weight.dtype.name())),
        ("shape", json!(weight.shape)),
        ("bytes", json!(weight.bytes().len())),
        ("sha256", json!(short_hash(weight))),
    ]);
    if let Some(stats) = stats {
        facts.insert("min", json!(stats.min));
        facts.insert("max", json!(stats.max));
        facts.insert("mean", json!(stats.mean));
        facts.insert("nan", json!(stats.n_nan));
        facts.insert("inf", json!(stats.n_inf));
    }
    json!(facts)
}
