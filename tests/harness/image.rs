//! Image files in `tests/image`: `NAME.want` beside one holds its pixels, as Pillow decodes them, as raw PPM.
//!
//! The interpreter and compiled code give these pixels. Of every beginning of a file, and of files with bytes changed,
//! compiled code gives pixels or an error of the decoder's own, and the interpreter the same.

use super::native::{self, Built, agree, interpret};
use super::{files_below, root, shown};
use irc::syntax::{DType, Module, SourceMap, parse};
use irc::target::Target;
use irc::tensor::Tensor;
use libtest_mimic::Trial;
use std::path::Path;

const PROGRAM: &str = r#"
@I.ir_module
class Module:
    @R.function
    def rgb(x: R.Tensor(("n",), "uint8")):
        y = R.image.decode(x)
        return y

    @R.function
    def bgr(x: R.Tensor(("n",), "uint8")):
        y = R.image.decode(x, pixel_format="BGR")
        return y

    @R.function
    def gray(x: R.Tensor(("n",), "uint8")):
        y = R.image.decode(x, pixel_format="Grayscale")
        return y
"#;

/// Files with changed bytes, of each image.
const N_CHANGED: usize = 150;

/// One test an image.
pub fn trials() -> Vec<Trial> {
    files_below(&root().join("tests/image"))
        .into_iter()
        .filter(|path| path.with_added_extension("want").is_file())
        .map(|path| Trial::test(shown(&path), move || run(&path).map_err(|why| why.into())))
        .collect()
}

fn run(path: &Path) -> Result<(), String> {
    let read = |path: &Path| std::fs::read(path).map_err(|error| error.to_string());
    let file = read(path)?;
    let wanted = pixels_of(&read(&path.with_added_extension("want"))?)?;
    let (module, faults) = parse(&mut SourceMap::new(), "images", PROGRAM);
    if !faults.is_empty() {
        return Err(native::show(&faults));
    }
    let compiled = native::compile(native::program(&module), Target::native().cpu)
        .and_then(|compiled| native::load(&compiled))
        .map_err(|fault| native::say(&fault))?;
    for func in ["rgb", "bgr", "gray"] {
        let found = compiled.call(func, &[tensor_of(&file)?])?;
        agree(&found, &interpret(&module, func, &[tensor_of(&file)?])?)?;
        if func == "rgb" {
            agree(&found, std::slice::from_ref(&wanted)).map_err(|why| format!("pixels: {why}"))?;
        }
    }
    for len in 0..file.len() {
        hostile(&module, &compiled, &file[..len], len % 97 == 0)
            .map_err(|why| format!("the first {len} bytes: {why}"))?;
    }
    // The numbers of a linear congruential generator, the same in each run.
    let mut state = 1u64;
    let mut random = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % below
    };
    for at in 0..N_CHANGED {
        let mut changed = file.clone();
        for _ in 0..=random(4) {
            let place = random(changed.len());
            changed[place] = random(256) as u8;
        }
        hostile(&module, &compiled, &changed, at % 25 == 0)
            .map_err(|why| format!("changed file {at}: {why}"))?;
    }
    Ok(())
}

/// Pixels or an error that speaks of images; by the interpreter too where asked for.
fn hostile(module: &Module, built: &Built, file: &[u8], both: bool) -> Result<(), String> {
    let found = built.call("rgb", &[tensor_of(file)?]);
    if let Err(why) = &found
        && !why.contains("image")
        && !why.contains("compressed data")
    {
        return Err(why.clone());
    }
    if !both {
        return Ok(());
    }
    match (found, interpret(module, "rgb", &[tensor_of(file)?])) {
        (Ok(found), Ok(wanted)) => agree(&found, &wanted),
        (Err(found), Err(wanted)) if found.contains(&wanted) || wanted.contains(&found) => Ok(()),
        (found, wanted) => Err(format!("compiled {found:?}, interpreted {wanted:?}")),
    }
}

fn tensor_of(file: &[u8]) -> Result<Tensor, String> {
    Tensor::new(DType::U8, vec![file.len()], file).ok_or_else(|| "no tensor".into())
}

/// The pixels of a raw PPM whose header is three lines.
fn pixels_of(file: &[u8]) -> Result<Tensor, String> {
    let mut parts = file.splitn(4, |&byte| byte == b'\n');
    let bad = || "the wanted pixels are no raw PPM".to_string();
    let (Some(b"P6"), Some(size), Some(b"255"), Some(pixels)) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(bad());
    };
    let size = std::str::from_utf8(size).map_err(|_| bad())?;
    let (width, height) = size.split_once(' ').ok_or_else(bad)?;
    let extent = |text: &str| text.parse().map_err(|_| bad());
    Tensor::new(DType::U8, vec![extent(height)?, extent(width)?, 3], pixels).ok_or_else(bad)
}
