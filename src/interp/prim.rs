//! What each primitive means: a bound call and the values of its operands give a value.
//!
//! [`eval_prim`] is the one meaning of the primitives of ARCHITECTURE.md's table; folding of constants, the interpreter
//! of graph functions and the tests of compiled code all come here.

use irc_syntax::{DType, Name};

use super::kernels::contract::{self, Conv};
use super::kernels::gather::{self, Mode};
use super::kernels::order::{self, Direction, UniqueOrder};
use super::kernels::reduce::{self, Extreme, Scan};
use super::kernels::scatter::{self, Reduction};
use super::kernels::window::{self, Pool, Pooling, Rounding};
use super::kernels::{Done, element, image, layout, make, string};
use super::{RunError, Value, control};
use crate::check::prim::{Bound, BoundCall, Kind, Prim, Text, slots};
use crate::shape::Dim;
use crate::tensor::text::Case;
use crate::tensor::{Tensor, parse_const_value};

/// Evaluates a primitive. `operands` are the values of [`BoundCall::operands`], in that order; `symbol` gives the
/// values of symbolic dims. Calls of functions (`R.call_tir` and its kin) are not for here.
pub fn eval_prim(
    call: &BoundCall,
    operands: &[Value],
    symbol: &dyn Fn(&Name) -> Option<i64>,
) -> Result<Value, RunError> {
    let cx = Operands {
        call,
        operands,
        symbol,
    };
    cx.eval().map_err(|error| error.at(call.span))
}

struct Operands<'a> {
    call: &'a BoundCall,
    operands: &'a [Value],
    symbol: &'a dyn Fn(&Name) -> Option<i64>,
}

impl Operands<'_> {
    fn eval(&self) -> Result<Value, RunError> {
        // tidy: table
        let call = self.call;
        if call.prim.is_control() {
            return control::eval(call, self.operands);
        }
        let tensor = match call.prim {
            Prim::Unary(op) => element::unary(op, &self.tensor("x")?),
            Prim::Binary(op) => {
                let [a, b] = self.alike(["a", "b"])?;
                element::binary(op, &a, &b)
            }
            Prim::Where => {
                let [a, b] = self.alike(["a", "b"])?;
                element::select(&self.tensor("condition")?, &a, &b)
            }
            Prim::Astype => Ok(self.tensor("x")?.cast(self.dtype("dtype")?)?),
            Prim::Reinterpret => element::reinterpret(&self.tensor("x")?, self.dtype("dtype")?),
            Prim::BroadcastTo => {
                element::broadcast_to(&self.tensor("x")?, &extents(&self.shape("shape")?)?)
            }
            Prim::Reduce(op) => {
                let axes = call.opt_ints("axis");
                reduce::reduce(op, &self.tensor("x")?, axes, call.bool("keepdims"))
            }
            Prim::Argmax => self.arg_reduce(Extreme::Max),
            Prim::Argmin => self.arg_reduce(Extreme::Min),
            Prim::Cumsum => self.scan(Scan::Sum),
            Prim::Cumprod => self.scan(Scan::Prod),
            Prim::PermuteDims => layout::permute_dims(&self.tensor("x")?, call.opt_ints("axes")),
            Prim::Reshape => layout::reshape(&self.tensor("x")?, &self.shape("shape")?),
            Prim::StridedSlice => self.strided_slice(),
            Prim::Concat => {
                let items = self.tensors("tensors")?;
                layout::concat(&items.iter().collect::<Vec<_>>(), call.int("axis"))
            }
            Prim::Pad => self.pad(),
            Prim::Take => self.take(),
            Prim::GatherElements => gather::gather_elements(
                &self.tensor("x")?,
                &self.tensor("indices")?,
                call.int("axis"),
            ),
            Prim::GatherNd => gather::gather_nd(
                &self.tensor("x")?,
                &self.tensor("indices")?,
                call.int("batch_dims"),
            ),
            Prim::ScatterElements => {
                let [x, updates] = self.alike(["x", "updates"])?;
                let reduction = Reduction::parse(call.str("reduction"))?;
                let indices = self.tensor("indices")?;
                scatter::scatter_elements(&x, &indices, &updates, call.int("axis"), reduction)
            }
            Prim::ScatterNd => {
                let [x, updates] = self.alike(["x", "updates"])?;
                let reduction = Reduction::parse(call.str("reduction"))?;
                scatter::scatter_nd(&x, &self.tensor("indices")?, &updates, reduction)
            }
            Prim::MaxPool(_) => self.pool(Pooling::Max),
            Prim::AvgPool(_) if call.bool("count_include_pad") => {
                self.pool(Pooling::MeanWithPadding)
            }
            Prim::AvgPool(_) => self.pool(Pooling::Mean),
            Prim::Matmul => {
                let [a, b] = self.factors(["a", "b"])?;
                contract::matmul(&a, &b, call.opt_dtype("out_dtype").unwrap_or(a.dtype))
            }
            Prim::Conv(_) => self.conv(contract::conv),
            Prim::ConvTranspose(_) => self.conv(contract::conv_transpose),
            Prim::Full => self.full(),
            Prim::Arange => self.arange(),
            Prim::Const => self.constant(),
            Prim::Sort => order::sort(&self.tensor("x")?, call.int("axis"), self.direction()),
            Prim::Argsort => order::argsort(
                &self.tensor("x")?,
                call.int("axis"),
                self.direction(),
                call.opt_dtype("dtype").unwrap_or(DType::I64),
            ),
            Prim::KeepBoxes => self.keep_boxes(),
            Prim::Nonzero => reduce::nonzero(&self.tensor("x")?),
            Prim::Unique => return self.unique(),
            Prim::Text(op) => return self.text(op),
            Prim::DecodeImage => image::decode(&self.tensor("x")?, call.str("pixel_format")),
            Prim::ShapeOf => {
                let x = self.tensor("x")?;
                return Ok(Value::Shape(
                    x.shape.iter().map(|&extent| extent as i64).collect(),
                ));
            }
            Prim::Shape => return Ok(Value::Shape(self.dims("values")?)),
            Prim::ShapeToTensor => self.shape_to_tensor(),
            Prim::TensorToShape => return Ok(Value::Shape(self.tensor("x")?.to_i64s())),
            Prim::WhileLoop
            | Prim::Sequence
            | Prim::SeqInsert
            | Prim::SeqErase
            | Prim::SeqAt
            | Prim::SeqLen
            | Prim::SeqConcat
            | Prim::Rank
            | Prim::Optional
            | Prim::HasValue
            | Prim::GetValue
            | Prim::MatchCast
            | Prim::CallTir
            | Prim::CallTirInplace
            | Prim::CallDpsPacked
            | Prim::CallPurePacked
            | Prim::CallPacked => {
                let message = format!("`{}` has no value by itself", call.prim.name());
                Err(RunError::runtime_error(message))
            }
        };
        tensor.map(Value::Tensor)
    }

    /// The values of one argument, in the order they are written.
    fn values(&self, name: &str) -> &[Value] {
        let mut at = 0;
        for (slot, bound) in slots(self.call.prim).iter().zip(&self.call.values) {
            let len = match bound {
                Bound::Expr(_) if slot.kind != Kind::Value => 1,
                Bound::Items(items) => items.len(),
                _ => 0,
            };
            if slot.name == name {
                return self.operands.get(at..at + len).unwrap_or_default();
            }
            at += len;
        }
        &[]
    }

    fn value(&self, name: &str) -> Option<&Value> {
        self.values(name)
            .first()
            .filter(|value| **value != Value::None)
    }

    fn missing(&self, name: &str) -> RunError {
        RunError::type_error(format!(
            "`{}` has no argument `{name}`",
            self.call.prim.name()
        ))
    }

    fn tensor(&self, name: &str) -> Done {
        self.value(name)
            .ok_or_else(|| self.missing(name))?
            .to_tensor(None)
    }

    fn tensors(&self, name: &str) -> Done<Vec<Tensor>> {
        let values = self.values(name);
        let items = match values {
            [only] => only.as_items().unwrap_or(values),
            _ => values,
        };
        let dtype = common_dtype(&items.iter().collect::<Vec<_>>());
        items
            .iter()
            .map(|item| item.to_tensor(Some(dtype)))
            .collect()
    }

    fn keep_boxes(&self) -> Done {
        let [boxes, threshold] = self.alike(["boxes", "threshold"])?;
        let [order, counts, limit] = ["order", "counts", "limit"].map(|name| self.tensor(name));
        order::keep_boxes(&boxes, &order?, &counts?, &limit?, &threshold)
    }

    /// Operands of one dtype; written numbers take that of the tensors.
    fn alike<const N: usize>(&self, names: [&str; N]) -> Done<[Tensor; N]> {
        let values: Vec<&Value> = names
            .iter()
            .map(|name| self.value(name).ok_or_else(|| self.missing(name)))
            .collect::<Done<_>>()?;
        let dtype = common_dtype(&values);
        let tensors: Vec<Tensor> = values
            .iter()
            .map(|value| value.to_tensor(Some(dtype)))
            .collect::<Done<_>>()?;
        tensors
            .try_into()
            .map_err(|_| RunError::type_error("an operand is missing"))
    }

    /// The operands of a contraction: of one dtype, unless that of the sums is said.
    fn factors(&self, names: [&str; 2]) -> Done<[Tensor; 2]> {
        if self.call.opt_dtype("out_dtype").is_some() {
            return Ok([self.tensor(names[0])?, self.tensor(names[1])?]);
        }
        self.alike(names)
    }

    fn dtype(&self, name: &str) -> Done<DType> {
        self.call.opt_dtype(name).ok_or_else(|| self.missing(name))
    }

    fn eval_dims(&self, dims: &[Dim]) -> Done<Vec<i64>> {
        let eval = |dim: &Dim| {
            dim.eval(self.symbol)
                .ok_or_else(|| RunError::runtime_error(format!("dim {dim} has no value here")))
        };
        dims.iter().map(eval).collect()
    }

    fn dims(&self, name: &str) -> Done<Vec<i64>> {
        self.eval_dims(self.call.dims(name))
    }

    /// A shape that is written out, or the value of one.
    fn shape(&self, name: &str) -> Done<Vec<i64>> {
        if let Some(dims) = self.call.opt_dims(name) {
            return self.eval_dims(dims);
        }
        match self.value(name) {
            Some(Value::Shape(dims)) => Ok(dims.clone()),
            Some(Value::Tensor(tensor)) if tensor.dtype.is_int() => Ok(tensor.to_i64s()),
            _ => Err(self.missing(name)),
        }
    }

    fn direction(&self) -> Direction {
        if self.call.bool("descending") {
            Direction::Descending
        } else {
            Direction::Ascending
        }
    }

    fn arg_reduce(&self, extreme: Extreme) -> Done {
        let call = self.call;
        let dtype = call.opt_dtype("dtype").unwrap_or(DType::I64);
        let axis = call.opt_int("axis");
        reduce::arg_reduce(
            extreme,
            &self.tensor("x")?,
            axis,
            call.bool("keepdims"),
            dtype,
        )
    }

    fn scan(&self, scan: Scan) -> Done {
        let x = self.tensor("x")?;
        let dtype = self.call.opt_dtype("dtype").unwrap_or(x.dtype);
        reduce::scan(
            scan,
            &x,
            self.call.opt_int("axis"),
            dtype,
            self.call.bool("exclusive"),
        )
    }

    fn strided_slice(&self) -> Done {
        let call = self.call;
        let strides = call
            .opt_dims("strides")
            .map(|dims| self.eval_dims(dims))
            .transpose()?;
        layout::strided_slice(
            &self.tensor("x")?,
            call.ints("axes"),
            &self.dims("begin")?,
            &self.dims("end")?,
            strides.as_deref(),
        )
    }

    fn pad(&self) -> Done {
        let x = self.tensor("x")?;
        let value = Value::Float(self.call.float("pad_value")).to_tensor(Some(x.dtype))?;
        layout::pad(&x, &self.dims("pad_width")?, &value)
    }

    fn take(&self) -> Done {
        let mode = match self.call.str("mode") {
            "clip" => Mode::Clip,
            "wrap" => Mode::Wrap,
            _ => Mode::Check,
        };
        let axis = self.call.opt_int("axis");
        gather::take(&self.tensor("x")?, &self.tensor("indices")?, axis, mode)
    }

    fn pool(&self, pooling: Pooling) -> Done {
        let call = self.call;
        let attrs = Pool {
            pooling,
            size: call.ints("pool_size"),
            strides: call.ints("strides"),
            padding: call.ints("padding"),
            dilation: call.ints("dilation"),
            rounding: if call.bool("ceil_mode") {
                Rounding::Ceil
            } else {
                Rounding::Floor
            },
            layout: call.str("layout"),
            out_layout: call.str("out_layout"),
        };
        window::pool(&self.tensor("x")?, &attrs)
    }

    fn conv(&self, kernel: fn(&Tensor, &Tensor, &Conv) -> Done) -> Done {
        let call = self.call;
        let [x, weight] = self.factors(["x", "weight"])?;
        let is_transposed = matches!(call.prim, Prim::ConvTranspose(_));
        let attrs = Conv {
            strides: call.ints("strides"),
            padding: call.ints("padding"),
            dilation: call.ints("dilation"),
            output_padding: if is_transposed {
                call.ints("output_padding")
            } else {
                &[]
            },
            groups: call.int("groups"),
            data_layout: call.str("data_layout"),
            kernel_layout: call.str("kernel_layout"),
            out_layout: call.str("out_layout"),
            dtype: call.opt_dtype("out_dtype").unwrap_or(x.dtype),
        };
        kernel(&x, &weight, &attrs)
    }

    fn full(&self) -> Done {
        let dtype = self.call.opt_dtype("dtype");
        let value = self
            .value("fill_value")
            .ok_or_else(|| self.missing("fill_value"))?;
        let fill = value.to_tensor(dtype)?;
        let fill = fill.cast(dtype.unwrap_or(fill.dtype))?;
        make::full(&extents(&self.shape("shape")?)?, &fill)
    }

    fn arange(&self) -> Done {
        let start = self.value("start").ok_or_else(|| self.missing("start"))?;
        let (start, end) = match self.value("end") {
            Some(end) => (start, end),
            None => (&Value::Int(0), start),
        };
        let step = self.value("step").unwrap_or(&Value::Int(1));
        let dtype = self
            .call
            .opt_dtype("dtype")
            .unwrap_or_else(|| common_dtype(&[start, end, step]));
        // The ends keep their own fractions: `R.arange(0, 2.5, dtype="int64")` has three elements.
        let is_float = |value: &Value| match value {
            Value::Float(_) => true,
            Value::Tensor(tensor) => tensor.dtype.is_float(),
            _ => false,
        };
        let through = match dtype.is_int() && [start, end, step].into_iter().any(is_float) {
            true => DType::F64,
            false => dtype,
        };
        let end_of = |value: &Value| value.to_tensor(Some(through));
        let range = make::arange(&end_of(start)?, &end_of(end)?, &end_of(step)?, through)?;
        Ok(range.cast(dtype)?)
    }

    fn constant(&self) -> Done {
        let value = self
            .call
            .operand("value")
            .ok_or_else(|| self.missing("value"))?;
        Ok(parse_const_value(value, self.call.opt_dtype("dtype"))?)
    }

    fn text(&self, op: Text) -> Result<Value, RunError> {
        let call = self.call;
        let tensor = match op {
            Text::Concat => string::concat(&self.tensor("a")?, &self.tensor("b")?),
            Text::Split => {
                let (delimiter, most) = (call.str("delimiter"), call.int("maxsplit"));
                return string::split(&self.tensor("x")?, delimiter, most);
            }
            Text::Lower => string::in_case(&self.tensor("x")?, Case::Lower),
            Text::Upper => string::in_case(&self.tensor("x")?, Case::Upper),
            Text::FullMatch => string::matches(&self.tensor("x")?, call.str("pattern")),
            Text::Format => string::format(&self.tensor("x")?),
            Text::Parse => string::parse(&self.tensor("x")?, self.dtype("dtype")?),
        };
        tensor.map(Value::Tensor)
    }

    fn unique(&self) -> Result<Value, RunError> {
        let call = self.call;
        let by = if call.bool("sorted") {
            UniqueOrder::Sorted
        } else {
            UniqueOrder::Appearance
        };
        let found = order::unique(&self.tensor("x")?, call.opt_int("axis"), by)?;
        let parts = [
            (true, found.values),
            (call.bool("return_index"), found.first),
            (call.bool("return_inverse"), found.inverse),
            (call.bool("return_counts"), found.counts),
        ];
        let mut parts: Vec<Value> = parts
            .into_iter()
            .filter(|(wanted, _)| *wanted)
            .map(|(_, tensor)| Value::Tensor(tensor))
            .collect();
        if parts.len() == 1 {
            return Ok(parts.remove(0));
        }
        Ok(Value::Tuple(parts))
    }

    fn shape_to_tensor(&self) -> Done {
        let dims = match self
            .call
            .operand("x")
            .and_then(crate::check::prim::shape_dims)
        {
            Some(dims) => {
                let dims = dims.map_err(|fault| RunError::value_error(fault.message))?;
                self.eval_dims(&dims)?
            }
            None => self.shape("x")?,
        };
        Ok(Tensor::from_fn(vec![dims.len()], |at| dims[at]))
    }
}

/// The dtype that written numbers take beside tensors; without a tensor `float32` if any is a float.
fn common_dtype(values: &[&Value]) -> DType {
    let tensor = values.iter().find_map(|value| value.as_tensor());
    if let Some(tensor) = tensor {
        return tensor.dtype;
    }
    if values.iter().any(|value| matches!(value, Value::Float(_))) {
        DType::F32
    } else if values.iter().any(|value| matches!(value, Value::Str(_))) {
        DType::Str
    } else if values.iter().all(|value| matches!(value, Value::Bool(_))) {
        DType::Bool
    } else {
        DType::I64
    }
}

fn extents(dims: &[i64]) -> Done<Vec<usize>> {
    let extent = |&dim: &i64| {
        usize::try_from(dim).map_err(|_| RunError::value_error(format!("an extent of {dim}")))
    };
    dims.iter().map(extent).collect()
}
