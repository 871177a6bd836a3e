//! Transposed convolutions, however they are written: `R.nn.conv2d_transpose(x, w, …)` or `onnx.ConvTranspose(x, w, b, …)`.

use irc_syntax::Expr;

use super::{Operator, Site, round};
use crate::check::prim::Prim;
use crate::tensor::Tensor;

/// A transposed convolution with its channels second, and its kernel [C, M / groups, …].
#[derive(Clone, Debug)]
pub struct Transposed {
    /// The data, [N, C, …].
    pub x: Expr,
    /// The kernel.
    pub w: Expr,
    /// What is added to each channel, [M].
    pub bias: Option<Expr>,
    strides: Vec<i64>,
    pads: Vec<i64>,
    output_padding: Vec<i64>,
    dilations: Vec<i64>,
    groups: i64,
}

impl Transposed {
    /// Reads one. `None` for another layout, and extents that are stated in place of pads.
    pub fn read(site: &Site, value: &Expr) -> Option<Self> {
        let op = site.operator(value)?;
        if op.is("onnx.ConvTranspose") {
            return Self::of_onnx(site, &op);
        }
        let call = site.prim(value)?;
        let Prim::ConvTranspose(n) = call.prim else {
            return None;
        };
        let (data, kernel) = *[("NCW", "IOW"), ("NCHW", "IOHW"), ("NCDHW", "IODHW")].get(n - 1)?;
        let is = |name: &str, wanted: &str| call.opt_str(name).is_none_or(|text| text == wanted);
        let (x, w) = (call.operand("x")?, call.operand("weight")?);
        let same = call
            .opt_dtype("out_dtype")
            .is_none_or(|dtype| site.dtype(x) == Some(dtype));
        let is_plain =
            is("data_layout", data) && is("kernel_layout", kernel) && is("out_layout", data);
        (is_plain && same).then(|| Self {
            x: x.clone(),
            w: w.clone(),
            bias: None,
            strides: call.ints("strides").to_vec(),
            pads: call.ints("padding").to_vec(),
            output_padding: call.ints("output_padding").to_vec(),
            dilations: call.ints("dilation").to_vec(),
            groups: call.int("groups"),
        })
    }

    fn of_onnx(site: &Site, op: &Operator) -> Option<Self> {
        let (x, w) = (op.get("x")?.clone(), op.get("w")?.clone());
        let n = site.shape(&w)?.len().checked_sub(2)?;
        if op.get("output_shape").is_some()
            || op.text("auto_pad").is_some_and(|how| how != "NOTSET")
        {
            return None;
        }
        Some(Self {
            x,
            w,
            bias: op.get("b").cloned(),
            strides: op.ints("strides").unwrap_or_else(|| vec![1; n]),
            pads: op.ints("pads").unwrap_or_else(|| vec![0; 2 * n]),
            output_padding: op.ints("output_padding").unwrap_or_else(|| vec![0; n]),
            dilations: op.ints("dilations").unwrap_or_else(|| vec![1; n]),
            groups: op.int("group").unwrap_or(1),
        })
    }

    /// How many channels come out, where it is known.
    pub fn n_channels(&self, site: &Site) -> Option<usize> {
        let each = site.shape(&self.w)?.get(1)?.as_int()?;
        usize::try_from(each.checked_mul(self.groups)?).ok()
    }

    /// The numbers of the bias; zeros where there is none.
    pub fn bias_numbers(&self, site: &Site, n: usize) -> Option<Vec<f64>> {
        let numbers = match &self.bias {
            None => vec![0.0; n],
            Some(bias) => site.numbers(bias)?,
        };
        (numbers.len() == n).then_some(numbers)
    }

    /// The kernel with the taps of each channel that comes out multiplied by its factor.
    pub fn scaled_kernel(&self, site: &Site, factors: &[f64]) -> Option<Tensor> {
        let kernel = site.constant(&self.w)?;
        let mut numbers = site.numbers(&self.w)?;
        let &[inputs, each, ref window @ ..] = kernel.shape.as_slice() else {
            return None;
        };
        let groups = usize::try_from(self.groups).ok()?;
        let taps: usize = window.iter().product();
        if taps == 0 || inputs % groups != 0 || each * groups != factors.len() {
            return None;
        }
        for (at, number) in numbers.iter_mut().enumerate() {
            let (row, column) = (at / taps / each, at / taps % each);
            *number *= factors[row / (inputs / groups) * each + column];
        }
        round(kernel.shape.clone(), &numbers, kernel.dtype)
    }

    /// Writes it as ONNX does, which has a bias.
    pub fn write(&self, site: &Site) -> Option<Expr> {
        let list = |values: &[i64]| Expr::list(values.iter().map(|&value| Expr::int(value)));
        let kernel: Vec<i64> = site
            .constant_shape(&self.w)?
            .get(2..)?
            .iter()
            .map(|&extent| extent as i64)
            .collect();
        let operands = [self.x.clone(), self.w.clone(), self.bias.clone()?];
        let call = Expr::call("onnx.ConvTranspose", operands)
            .with("dilations", list(&self.dilations))
            .with("group", Expr::int(self.groups))
            .with("kernel_shape", list(&kernel))
            .with("output_padding", list(&self.output_padding))
            .with("pads", list(&self.pads))
            .with("strides", list(&self.strides));
        Some(call.with("since", Expr::int(site.since("onnx.ConvTranspose"))))
    }
}
