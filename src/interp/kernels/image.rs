//! `R.image.decode`: runs the loops in `std/image`.

use irc_syntax::DType;

use crate::check::prim::{IMAGE_INFO, IMAGE_SIZE, PixelFormat};
use crate::interp::{RunError, run_prim_func_of};
use crate::library::image_loops;
use crate::tensor::Tensor;

/// The pixels `[h, w, c]` of an encoded image `[n]`.
pub fn decode(file: &Tensor, pixel_format: &str) -> Result<Tensor, RunError> {
    let format = PixelFormat::parse(pixel_format)
        .ok_or_else(|| RunError::value_error("there is no such pixel format"))?;
    let funcs = image_loops().map_err(|fault| RunError::runtime_error(fault.message))?;
    let run = |name: &str, args: &[Tensor]| -> Result<Tensor, RunError> {
        let func = funcs
            .iter()
            .find(|func| *func.name == *name)
            .ok_or_else(|| RunError::runtime_error(format!("there is no `{name}`")))?;
        let buffers = run_prim_func_of(funcs, func, args);
        // Places in the library's text are none of the program.
        let buffers = buffers.map_err(|error| RunError {
            span: None,
            ..error
        })?;
        let last = buffers.into_iter().last();
        last.ok_or_else(|| RunError::runtime_error(format!("`{name}` gives nothing")))
    };
    let too_large = || RunError::value_error("an image is too large");
    let info = Tensor::zeros(DType::I64, vec![IMAGE_INFO as usize]).ok_or_else(too_large)?;
    let info = run(IMAGE_SIZE, &[file.clone(), info])?;
    let extents: Vec<usize> = info.to_i64s()[..2]
        .iter()
        .map(|&dim| dim as usize)
        .collect();
    let shape = vec![extents[0], extents[1], format.channels() as usize];
    let pixels = Tensor::zeros(DType::U8, shape).ok_or_else(too_large)?;
    run(format.decoder(), &[file.clone(), info, pixels])
}
