//! `R.image.decode`: calls of the loops in `std/image`.

use irc_syntax::{DType, Expr, Func};

use super::{Host, HostTensor, HostValue};
use crate::check::prim::{self, PixelFormat, Prim};
use crate::codegen::lower::{Extent, Res, unsupported};
use crate::library::image_loops;

impl Host<'_, '_, '_> {
    /// The header gives the extents, then the pixels are written.
    pub fn decode_image(&mut self, expr: &Expr) -> Res<HostValue> {
        let call = prim::bind(Prim::DecodeImage, expr)?;
        let operand = call
            .operand("x")
            .ok_or_else(|| unsupported(expr.span, "an operand is missing"))?;
        let value = self.value(operand, None)?;
        let file = self.as_tensor(value, expr.span)?;
        let format = PixelFormat::parse(call.str("pixel_format"))
            .ok_or_else(|| unsupported(expr.span, "there is no such pixel format"))?;
        let funcs = image_loops()?;
        self.lower_helpers(funcs)?;
        let find = |name: &str| -> Res<&Func> {
            let func = funcs.iter().find(|func| *func.name == *name);
            func.ok_or_else(|| unsupported(expr.span, format!("there is no `{name}`")))
        };
        let info = self.new_tensor(DType::I64, &[Extent::Const(prim::IMAGE_INFO)])?;
        let given = |tensor: &HostTensor| HostValue::Tensor(tensor.clone());
        let args = vec![given(&file), given(&info)];
        self.call_prim(find(prim::IMAGE_SIZE)?, args, expr.span)?;
        let (height, width) = (self.number_at(&info, 0), self.number_at(&info, 1));
        let channels = Extent::Const(format.channels());
        let pixels = [Extent::Run(height), Extent::Run(width), channels];
        let pixels = self.new_tensor(DType::U8, &pixels)?;
        let args = vec![given(&file), given(&info), given(&pixels)];
        self.call_prim(find(format.decoder())?, args, expr.span)?;
        Ok(HostValue::Tensor(pixels))
    }
}
