//! Convolutions, however they are written: `R.nn.conv2d(x, w, …)` or `onnx.Conv(x, w, b, …)`.

use irc_syntax::Expr;

use super::Site;
use crate::check::prim::Prim;
use crate::shape::Dim;

/// A convolution with its channels second, and its kernel [M, C / groups, …].
#[derive(Clone, Debug)]
pub struct Convolution {
    /// The data, [N, C, …].
    pub x: Expr,
    /// The kernel.
    pub w: Expr,
    /// What is added to each channel, [M].
    pub bias: Option<Expr>,
    /// Steps of the window, one a spatial axis.
    pub strides: Vec<i64>,
    /// All begins, and then all ends.
    pub pads: Vec<i64>,
    /// Distances between taps.
    pub dilations: Vec<i64>,
    /// Into how many parts the channels fall.
    pub groups: i64,
}

impl Convolution {
    /// Reads one. `None` for another layout, pads that depend on extents, and another dtype of the result.
    pub fn read(site: &Site, value: &Expr) -> Option<Self> {
        let op = site.operator(value)?;
        if op.is("onnx.Conv") {
            let (x, w) = (op.get("x")?.clone(), op.get("w")?.clone());
            let n = site.shape(&w)?.len().checked_sub(2)?;
            let pads = match op.text("auto_pad").unwrap_or("NOTSET") {
                "NOTSET" => op.ints("pads").unwrap_or_else(|| vec![0; 2 * n]),
                "VALID" => vec![0; 2 * n],
                _ => return None,
            };
            return Some(Self {
                x,
                w,
                bias: op.get("b").cloned(),
                strides: op.ints("strides").unwrap_or_else(|| vec![1; n]),
                pads,
                dilations: op.ints("dilations").unwrap_or_else(|| vec![1; n]),
                groups: op.int("group").unwrap_or(1),
            });
        }
        let call = site.prim(value)?;
        let Prim::Conv(n) = call.prim else {
            return None;
        };
        let (data, kernel) = [("NCW", "OIW"), ("NCHW", "OIHW"), ("NCDHW", "OIDHW")][n - 1];
        let is =
            |name: &str, wanted: &str| call.opt_str(name).is_none_or(|layout| layout == wanted);
        let plain = is("data_layout", data)
            && is("kernel_layout", kernel)
            && is("out_layout", data)
            && call
                .opt_dtype("out_dtype")
                .is_none_or(|dtype| site.dtype(&Expr::clone(call.operands()[0])) == Some(dtype));
        plain.then(|| Self {
            x: call.operands()[0].clone(),
            w: call.operands()[1].clone(),
            bias: None,
            strides: call.ints("strides").to_vec(),
            pads: call.ints("padding").to_vec(),
            dilations: call.ints("dilation").to_vec(),
            groups: call.int("groups"),
        })
    }

    /// Writes it: with a bias as ONNX does, without one as `R` does.
    pub fn write(&self, site: &Site) -> Expr {
        let list = |values: &[i64]| Expr::list(values.iter().map(|&value| Expr::int(value)));
        let n = self.strides.len();
        let Some(bias) = &self.bias else {
            let call = Expr::call(&format!("R.nn.conv{n}d"), [self.x.clone(), self.w.clone()])
                .with("strides", list(&self.strides))
                .with("padding", list(&self.pads))
                .with("dilation", list(&self.dilations));
            return if self.groups == 1 {
                call
            } else {
                call.with("groups", Expr::int(self.groups))
            };
        };
        let since = site.since("onnx.Conv");
        let kernel: Option<Vec<i64>> = site
            .shape(&self.w)
            .and_then(|dims| dims.get(2..)?.iter().map(Dim::as_int).collect());
        let call = Expr::call("onnx.Conv", [self.x.clone(), self.w.clone(), bias.clone()])
            .with("dilations", list(&self.dilations))
            .with("group", Expr::int(self.groups));
        let call = match kernel {
            Some(kernel) => call.with("kernel_shape", list(&kernel)),
            None => call,
        };
        call.with("pads", list(&self.pads))
            .with("strides", list(&self.strides))
            .with("since", Expr::int(since))
    }

    /// How many channels come out, where it is known.
    pub fn n_channels(&self, site: &Site) -> Option<i64> {
        site.shape(&self.w)?.first()?.as_int()
    }

    /// The numbers that an operand beside `value`, the result, has for each channel, [M].
    pub fn by_channel(&self, site: &Site, value: &Expr, added: &Expr) -> Option<Vec<f64>> {
        let m = usize::try_from(self.n_channels(site)?).ok()?;
        by_channel(site, m, value, added)
    }
}

/// The numbers that an operand beside `value` has for each of its `m` channels, which are its second axis.
pub fn by_channel(site: &Site, m: usize, value: &Expr, added: &Expr) -> Option<Vec<f64>> {
    let shape = site.shape(value)?;
    let dims = site.shape(added)?;
    // Aligned at the end: the channels are all that may be more than one.
    let is_plain = |(at, dim): (usize, &Dim)| {
        let extent = dim.as_int();
        extent == Some(1) || (dims.len() - at == shape.len() - 1 && extent == i64::try_from(m).ok())
    };
    if dims.len() > shape.len() || !dims.iter().enumerate().all(is_plain) {
        return None;
    }
    let numbers = site.numbers(added)?;
    match numbers.as_slice() {
        [one] => Some(vec![*one; m]),
        many => (many.len() == m).then(|| many.to_vec()),
    }
}
