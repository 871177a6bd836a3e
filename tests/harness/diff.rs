//! `tests/diff`: a text, after `# => with` another, and after `# => says` what `irc diff` says of the two. With the
//! directive `ignore: names, order` what it names does not count. Compared with itself, each text is equal.

use super::laws::parse_clean;
use super::native::LIBRARY;
use super::sections::{Case, Part};
use super::{Outcome, root};
use irc::cli::diff::text;
use irc::diff::{Options, compare};
use irc::driver::Program;
use irc::tensor::Weights;
use libtest_mimic::Trial;
use std::path::{Path, PathBuf};

/// Compares the first two parts.
pub fn run(case: &Case, _path: &Path) -> Outcome {
    let find = |label: &str| case.parts.iter().find(|part| part.label == label);
    let (first, second) = (
        find("").ok_or("a text")?,
        find("with").ok_or("a `with` part")?,
    );
    let (a, b) = (load(first)?, load(second)?);
    let mut options = Options::default();
    for what in case.directive("ignore").unwrap_or_default().split(", ") {
        match what {
            "names" => options.ignore_names = true,
            "order" => options.ignore_order = true,
            "weights" => options.ignore_weights = true,
            "attrs" => options.ignore_attrs = true,
            "" => {}
            other => return Err(format!("nothing is called `{other}`")),
        }
    }
    for program in [&a, &b] {
        let own = compare(program, program, &LIBRARY, &options);
        if !own.is_empty() || !own.notes.is_empty() {
            return Err(format!(
                "a text differs from itself\n{}",
                text::write(&own, true)
            ));
        }
    }
    let report = compare(&a, &b, &LIBRARY, &options);
    let back = compare(&b, &a, &LIBRARY, &options);
    if report.is_empty() != back.is_empty() {
        return Err("it is a difference one way only".into());
    }
    let says = Part::new("says", &text::write(&report, false));
    Ok(vec![first.clone(), second.clone(), says])
}

fn load(part: &Part) -> Result<Program, String> {
    let module = parse_clean(&part.text)?;
    Ok(Program {
        module,
        weights: Weights::default(),
    })
}

/// The tests that need git.
pub fn trials() -> Vec<Trial> {
    vec![
        Trial::test("diff:git_shows_models", || Ok(git_shows_models()?)),
        Trial::test("diff:git_merges_texts", || Ok(git_merges_texts()?)),
    ]
}

/// A repository of its own, and what git says in it.
struct Repository(PathBuf);

impl Repository {
    fn new(name: &str) -> Result<Self, String> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join("git")
            .join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let repository = Self(folder);
        repository.git(&["init", "-q", "-b", "main", "."])?;
        Ok(repository)
    }

    fn run(&self, program: &str, args: &[&str]) -> Result<String, String> {
        let output = std::process::Command::new(program)
            .args(args)
            .current_dir(&self.0)
            .env("GIT_CONFIG_GLOBAL", self.0.join("..").join("no-config"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .map_err(|error| format!("{program}: {error}"))?;
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            text.push_str(&String::from_utf8_lossy(&output.stderr));
            return Err(text);
        }
        Ok(text)
    }

    fn git(&self, args: &[&str]) -> Result<String, String> {
        let who = ["-c", "user.name=test", "-c", "user.email=test@localhost"];
        self.run("git", &[&who, args].concat())
    }

    fn irc(&self, args: &[&str]) -> Result<String, String> {
        self.run(env!("CARGO_BIN_EXE_irc"), args)
    }

    fn commit(&self) -> Result<(), String> {
        self.git(&["add", "-A"])?;
        self.git(&["commit", "-q", "-m", "a commit"]).map(drop)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> Result<(), String> {
        std::fs::write(self.0.join(name), bytes).map_err(|error| error.to_string())
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, String> {
        std::fs::read(self.0.join(name)).map_err(|error| format!("{name}: {error}"))
    }
}

fn expect(found: &str, wanted: &str) -> Result<(), String> {
    if found == wanted {
        return Ok(());
    }
    Err(format!("wanted\n{wanted}\nfound\n{found}"))
}

fn git_shows_models() -> Result<(), String> {
    let repository = Repository::new("models")?;
    let model = std::fs::read(root().join("examples/shapes/shapes.onnx"))
        .map_err(|error| error.to_string())?;
    repository.write("net.onnx", &model)?;
    repository.irc(&["import", "net.onnx", "-o", "net.ir"])?;
    repository.write(".gitattributes", "*.txt text\n")?;
    let config = repository.read(".git/config")?;
    repository.irc(&["git-setup"])?;
    let set_up = (
        repository.read(".gitattributes")?,
        repository.read(".git/config")?,
    );
    repository.irc(&["git-setup"])?;
    if set_up
        != (
            repository.read(".gitattributes")?,
            repository.read(".git/config")?,
        )
    {
        return Err("a second time changes something".into());
    }
    repository.commit()?;

    // The first stride of the first pooling, and the last byte of the weights.
    let mut changed = model.clone();
    let strides = model
        .windows(7)
        .position(|bytes| bytes == b"strides")
        .ok_or("strides")?;
    let two = model[strides..]
        .iter()
        .position(|byte| *byte == 2)
        .ok_or("2")?;
    changed[strides + two] = 1;
    repository.write("net.onnx", &changed)?;
    let mut weights = repository.read("net.safetensors")?;
    *weights.last_mut().ok_or("weights")? ^= 0x80;
    repository.write("net.safetensors", &weights)?;
    let shown = repository.git(&["diff"])?;
    for wanted in [
        "irc diff a/net.onnx b/net.onnx\npatch\nmain\n",
        "  ~ R.nn.max_pool2d `pool1`  strides: [2, 2] → [1, 2]\n",
        "first `pool1`: (batch, 12, 12, 12) → (batch, 12, 23, 12)\n",
        "irc diff a/net.safetensors b/net.safetensors\npatch\nweights: 1 changed\n",
        "elements 1 of ",
    ] {
        if !shown.contains(wanted) {
            return Err(format!("`{wanted}` is not in\n{shown}"));
        }
    }
    let text = repository.git(&["diff", "--no-ext-diff"])?;
    for wanted in ["strides=[1, 2]", "sha256"] {
        if !text.contains(wanted) {
            return Err(format!("`{wanted}` is not in\n{text}"));
        }
    }
    repository.irc(&["git-setup", "--uninstall"])?;
    expect(
        &String::from_utf8_lossy(&repository.read(".gitattributes")?),
        "*.txt text\n",
    )?;
    let left = String::from_utf8_lossy(&repository.read(".git/config")?).into_owned();
    if left.contains("irc") {
        return Err(format!(
            "left in the configuration, which was {config:?}\n{left}"
        ));
    }
    Ok(())
}

/// A text with one line for each operator.
fn chain(ops: &[&str]) -> String {
    let mut text = "@R.function\ndef main(x: R.Tensor((4,), dtype=\"float32\")):\n".to_owned();
    let mut last = "x".to_owned();
    for (at, op) in ops.iter().enumerate() {
        text.push_str(&format!("    v{at} = {op}({last})\n"));
        last = format!("v{at}");
    }
    text + &format!("    return {last}\n")
}

fn git_merges_texts() -> Result<(), String> {
    let repository = Repository::new("texts")?;
    repository.irc(&["git-setup", "--merge"])?;
    let base = ["R.exp", "R.sin", "R.cos", "R.tanh", "R.sqrt"];
    repository.write("net.ir", chain(&base))?;
    repository.commit()?;
    let change = |branch: &str, text: String| {
        repository.git(&["checkout", "-q", "-b", branch, "main"])?;
        repository.write("net.ir", text)?;
        repository.commit()
    };
    let replaced = |at: usize, op: &'static str| {
        let mut ops = base;
        ops[at] = op;
        chain(&ops)
    };
    change("first", replaced(0, "R.log"))?;
    // The same program written loosely: only the operator differs from the base.
    change(
        "last",
        replaced(4, "R.abs")
            .replace("(v", "( v")
            .replace("R.sin(x", "R.sin( x"),
    )?;
    change(
        "removed",
        chain(&base)
            .replace("    v1 = R.sin(v0)\n", "")
            .replace("R.cos(v1)", "R.cos(x)"),
    )?;
    change("reads", chain(&base).replace("R.sqrt(v3)", "R.add(v3, v1)"))?;

    repository.git(&["checkout", "-q", "first"])?;
    repository.git(&["merge", "-q", "-m", "both", "last"])?;
    let mut both = base;
    (both[0], both[4]) = ("R.log", "R.abs");
    let merged = String::from_utf8_lossy(&repository.read("net.ir")?).into_owned();
    expect(&merged, &chain(&both))?;

    // Line by line these do not touch, and the result reads a name that is gone.
    repository.git(&["checkout", "-q", "removed"])?;
    match repository.git(&["merge", "-q", "-m", "both", "reads"]) {
        Ok(_) => Err("a merge that does not check went through".into()),
        Err(_) => Ok(()),
    }
}
