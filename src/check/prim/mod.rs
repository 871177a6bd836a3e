//! The primitives: operators that the compiler itself knows. All others are functions of the library.
//!
//! A primitive is a row of [`TABLE`]: its name, its [`Prim`] and its arguments. [`bind`] matches a call against
//! the arguments, [`infer`] gives the type of the result. The interpreter (`interp/prim`) and the lowering
//! (`opt/lower`) have an arm for each `Prim` and read the same [`BoundCall`].

mod bind;
mod control;
mod element;
mod index;
mod infer;
mod layout;
mod make;
mod schema;
mod string;
mod value;
mod window;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use irc_syntax::Expr;

pub use super::intrinsics::Real;
pub(crate) use bind::unknown_dtype;
pub use bind::{Bound, BoundCall, Items, binary_prim, bind, bind_infix, shape_dims, unary_prim};
pub use control::{common_type, element_type, join_elements};
pub use infer::{Scope, infer};
pub use layout::slice_begin;
pub use schema::{Default, Kind, Slot, slots};
pub use value::MAX_CONTENT;

/// A primitive operator.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Prim {
    /// One operand, element by element.
    Unary(Unary),
    /// Two operands with numpy's broadcasting, element by element.
    Binary(Binary),
    /// `R.where(c, a, b)`
    Where,
    /// `R.astype(x, dtype)`
    Astype,
    /// `R.reinterpret(x, dtype)`: the same bits.
    Reinterpret,
    /// `R.broadcast_to(x, shape)`
    BroadcastTo,
    /// Sum, product, maximum or minimum over axes.
    Reduce(Reduce),
    /// Index of the largest element along an axis.
    Argmax,
    /// Index of the smallest element along an axis.
    Argmin,
    /// Running sums along an axis.
    Cumsum,
    /// Running products along an axis.
    Cumprod,
    /// `R.permute_dims(x, axes)`
    PermuteDims,
    /// `R.reshape(x, shape)`
    Reshape,
    /// `R.strided_slice(x, axes, begin, end, strides)`
    StridedSlice,
    /// `R.concat((a, b), axis)`
    Concat,
    /// `R.nn.pad(x, pad_width, pad_value=0.0)`
    Pad,
    /// `R.take(x, indices, axis)`
    Take,
    /// `R.gather_elements(x, indices, axis)`
    GatherElements,
    /// `R.gather_nd(x, indices, batch_dims)`
    GatherNd,
    /// `R.scatter_elements(x, indices, updates, axis, reduction)`
    ScatterElements,
    /// `R.scatter_nd(x, indices, updates, reduction)`
    ScatterNd,
    /// `R.nn.max_pool*d`, with the number of spatial axes.
    MaxPool(usize),
    /// `R.nn.avg_pool*d`, with the number of spatial axes.
    AvgPool(usize),
    /// `R.matmul(a, b)`
    Matmul,
    /// `R.nn.conv*d`, with the number of spatial axes.
    Conv(usize),
    /// `R.nn.conv*d_transpose`, with the number of spatial axes.
    ConvTranspose(usize),
    /// `R.full(shape, fill)`
    Full,
    /// `R.arange(start, end, step)`
    Arange,
    /// `R.const(value, dtype)`
    Const,
    /// `R.sort(x, axis)`
    Sort,
    /// `R.argsort(x, axis)`
    Argsort,
    /// `R.vision.keep_boxes(boxes, order, counts, limit, threshold)`
    KeepBoxes,
    /// `R.nonzero(x)`
    Nonzero,
    /// `R.unique(x, …)`
    Unique,
    /// What makes or reads the bytes of strings.
    Text(Text),
    /// `R.image.decode(x, pixel_format)`: the pixels `[h, w, c]` of an encoded image.
    DecodeImage,
    /// `R.shape_of(x)`
    ShapeOf,
    /// `R.shape([n, 4])`
    Shape,
    /// `R.shape_to_tensor(s)`
    ShapeToTensor,
    /// `R.tensor_to_shape(t)`
    TensorToShape,
    /// `R.match_cast(v, T)`
    MatchCast,
    /// `R.call_tir(cls.f, (a, b), out_ty=T)`
    CallTir,
    /// `R.call_tir_inplace(cls.f, (a, b), out_ty=T, inplace_indices=[0])`
    CallTirInplace,
    /// `R.call_dps_packed("f", (a, b), out_ty=T)`
    CallDpsPacked,
    /// `R.call_pure_packed("f", a, b, ty_args=(T,))`
    CallPurePacked,
    /// `R.call_packed("f", a, b, ty_args=(T,))`, for its effect.
    CallPacked,
    /// `I.while_loop(cls.body, n, c, (carried…), (captured…), out_ty=[…])`
    WhileLoop,
    /// `I.sequence((a, b), ty=R.Tensor(…))`
    Sequence,
    /// `I.seq_insert(s, x, position)`
    SeqInsert,
    /// `I.seq_erase(s, position)`
    SeqErase,
    /// `I.seq_at(s, position)`
    SeqAt,
    /// `I.seq_len(s)`
    SeqLen,
    /// `I.seq_concat(s, axis, new_axis)`
    SeqConcat,
    /// `I.rank(x)`
    Rank,
    /// `I.optional(x)`, `I.optional(ty=R.Tensor(…))`
    Optional,
    /// `I.has_value(o)`
    HasValue,
    /// `I.get_value(o)`
    GetValue,
}

/// Element-wise operators of one operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[allow(missing_docs)]
pub enum Unary {
    Abs,
    Negative,
    Sign,
    Real(Real),
    Isnan,
    Isinf,
    Isfinite,
    LogicalNot,
    BitwiseNot,
}

/// Element-wise operators of two operands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[allow(missing_docs)]
pub enum Binary {
    Add,
    Subtract,
    Multiply,
    /// Truncates for integers.
    Divide,
    FloorDivide,
    /// The sign of the divisor.
    FloorMod,
    /// The sign of the dividend.
    Mod,
    Power,
    Maximum,
    Minimum,
    LeftShift,
    RightShift,
    BitwiseAnd,
    BitwiseOr,
    BitwiseXor,
    LogicalAnd,
    LogicalOr,
    LogicalXor,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

/// What makes or reads the bytes of strings; moving and comparing them is the business of other primitives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Text {
    /// `R.str.concat(a, b)`: of one shape.
    Concat,
    /// `R.str.split(x, delimiter, maxsplit)`: pieces along a new last axis, and their numbers.
    Split,
    /// `R.str.lower(x)`
    Lower,
    /// `R.str.upper(x)`
    Upper,
    /// `R.str.full_match(x, pattern)`: in RE2's syntax.
    FullMatch,
    /// `R.str.format(x)`: numbers in plain notation.
    Format,
    /// `R.str.parse(x, dtype)`
    Parse,
}

/// What a pixel of a decoded image is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PixelFormat {
    /// Red, green, blue.
    Rgb,
    /// Blue, green, red.
    Bgr,
    /// Luma of ITU-R BT.601.
    Grayscale,
}

/// The prim_func that reads the header of an image into `[IMAGE_INFO]` numbers, of which the first two are the extents.
pub const IMAGE_SIZE: &str = "image_size";
/// How many numbers that are.
pub const IMAGE_INFO: i64 = 8;

impl PixelFormat {
    /// By ONNX's name.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "RGB" => Self::Rgb,
            "BGR" => Self::Bgr,
            "Grayscale" => Self::Grayscale,
            _ => return None,
        })
    }

    /// How many bytes a pixel has.
    pub fn channels(self) -> i64 {
        match self {
            Self::Rgb | Self::Bgr => 3,
            Self::Grayscale => 1,
        }
    }

    /// The prim_func that writes the pixels of an image, after [`IMAGE_SIZE`].
    pub fn decoder(self) -> &'static str {
        match self {
            Self::Rgb => "image_rgb",
            Self::Bgr => "image_bgr",
            Self::Grayscale => "image_gray",
        }
    }
}

/// Reductions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[allow(missing_docs)]
pub enum Reduce {
    Sum,
    Prod,
    Max,
    Min,
}

impl Binary {
    /// Whether the result is of dtype bool whatever the operands are.
    pub fn is_comparison(self) -> bool {
        matches!(
            self,
            Self::Equal
                | Self::NotEqual
                | Self::Less
                | Self::LessEqual
                | Self::Greater
                | Self::GreaterEqual
        )
    }

    /// Whether operands and result are of dtype bool.
    pub fn is_logical(self) -> bool {
        matches!(self, Self::LogicalAnd | Self::LogicalOr | Self::LogicalXor)
    }
}

const POOL: &str = "x|data: tensor, pool_size: ints = 1, strides: ints = 1, padding: ints = 0, \
    dilation: ints = 1, ceil_mode: bool = False, count_include_pad: bool = False, layout: str = None, \
    out_layout: str = None";
const CONV: &str = "x|data: tensor, weight: tensor, strides: ints = 1, padding: ints = 0, \
    dilation: ints = 1, groups: int = 1, data_layout: str = None, kernel_layout: str = None, \
    out_layout: str = None, out_dtype: dtype = None";
const CONV_TRANSPOSE: &str = "x|data: tensor, weight: tensor, strides: ints = 1, padding: ints = 0, \
    output_padding: ints = 0, dilation: ints = 1, groups: int = 1, data_layout: str = None, \
    kernel_layout: str = None, out_layout: str = None, out_dtype: dtype = None";
const UNARY: &str = "x: tensor";
const BINARY: &str = "a|x1|lhs: tensor, b|x2|rhs: tensor";
const REDUCE: &str = "x: tensor, axis: ints = None, keepdims: bool = False";
const ARG_REDUCE: &str =
    "x: tensor, axis: int = None, keepdims: bool = False, dtype: dtype = 'int64'";
const SCAN: &str = "x|data: tensor, axis: int = None, dtype: dtype = None, exclusive: bool = False";
const DPS: &str = "func: value, args: tensors, out_ty|out_sinfo: value, tir_vars: value = None";
const PACKED: &str = "func: value, *args: tensors, ty_args|sinfo_args: value = None";

/// name, primitive, arguments in TVM's positional order: `name|other name: kind = default`
#[rustfmt::skip]
pub const TABLE: &[(&str, Prim, &str)] = &[
    ("R.abs", Prim::Unary(Unary::Abs), UNARY),
    ("R.negative", Prim::Unary(Unary::Negative), UNARY),
    ("R.exp", Prim::Unary(Unary::Real(Real::Exp)), UNARY),
    ("R.log", Prim::Unary(Unary::Real(Real::Log)), UNARY),
    ("R.sqrt", Prim::Unary(Unary::Real(Real::Sqrt)), UNARY),
    ("R.rsqrt", Prim::Unary(Unary::Real(Real::Rsqrt)), UNARY),
    ("R.sin", Prim::Unary(Unary::Real(Real::Sin)), UNARY),
    ("R.cos", Prim::Unary(Unary::Real(Real::Cos)), UNARY),
    ("R.tan", Prim::Unary(Unary::Real(Real::Tan)), UNARY),
    ("R.sinh", Prim::Unary(Unary::Real(Real::Sinh)), UNARY),
    ("R.cosh", Prim::Unary(Unary::Real(Real::Cosh)), UNARY),
    ("R.tanh", Prim::Unary(Unary::Real(Real::Tanh)), UNARY),
    ("R.asin", Prim::Unary(Unary::Real(Real::Asin)), UNARY),
    ("R.acos", Prim::Unary(Unary::Real(Real::Acos)), UNARY),
    ("R.atan", Prim::Unary(Unary::Real(Real::Atan)), UNARY),
    ("R.asinh", Prim::Unary(Unary::Real(Real::Asinh)), UNARY),
    ("R.acosh", Prim::Unary(Unary::Real(Real::Acosh)), UNARY),
    ("R.atanh", Prim::Unary(Unary::Real(Real::Atanh)), UNARY),
    ("R.erf", Prim::Unary(Unary::Real(Real::Erf)), UNARY),
    ("R.sigmoid", Prim::Unary(Unary::Real(Real::Sigmoid)), UNARY),
    ("R.floor", Prim::Unary(Unary::Real(Real::Floor)), UNARY),
    ("R.ceil", Prim::Unary(Unary::Real(Real::Ceil)), UNARY),
    ("R.round", Prim::Unary(Unary::Real(Real::Round)), UNARY),
    ("R.trunc", Prim::Unary(Unary::Real(Real::Trunc)), UNARY),
    ("R.sign", Prim::Unary(Unary::Sign), UNARY),
    ("R.isnan", Prim::Unary(Unary::Isnan), UNARY),
    ("R.isinf", Prim::Unary(Unary::Isinf), UNARY),
    ("R.isfinite", Prim::Unary(Unary::Isfinite), UNARY),
    ("R.logical_not", Prim::Unary(Unary::LogicalNot), UNARY),
    ("R.bitwise_not", Prim::Unary(Unary::BitwiseNot), UNARY),
    ("R.add", Prim::Binary(Binary::Add), BINARY),
    ("R.subtract", Prim::Binary(Binary::Subtract), BINARY),
    ("R.multiply", Prim::Binary(Binary::Multiply), BINARY),
    ("R.divide", Prim::Binary(Binary::Divide), BINARY),
    ("R.floor_divide", Prim::Binary(Binary::FloorDivide), BINARY),
    ("R.floor_mod", Prim::Binary(Binary::FloorMod), BINARY),
    ("R.mod", Prim::Binary(Binary::Mod), BINARY),
    ("R.power", Prim::Binary(Binary::Power), BINARY),
    ("R.maximum", Prim::Binary(Binary::Maximum), BINARY),
    ("R.minimum", Prim::Binary(Binary::Minimum), BINARY),
    ("R.left_shift", Prim::Binary(Binary::LeftShift), BINARY),
    ("R.right_shift", Prim::Binary(Binary::RightShift), BINARY),
    ("R.bitwise_and", Prim::Binary(Binary::BitwiseAnd), BINARY),
    ("R.bitwise_or", Prim::Binary(Binary::BitwiseOr), BINARY),
    ("R.bitwise_xor", Prim::Binary(Binary::BitwiseXor), BINARY),
    ("R.logical_and", Prim::Binary(Binary::LogicalAnd), BINARY),
    ("R.logical_or", Prim::Binary(Binary::LogicalOr), BINARY),
    ("R.logical_xor", Prim::Binary(Binary::LogicalXor), BINARY),
    ("R.equal", Prim::Binary(Binary::Equal), BINARY),
    ("R.not_equal", Prim::Binary(Binary::NotEqual), BINARY),
    ("R.less", Prim::Binary(Binary::Less), BINARY),
    ("R.less_equal", Prim::Binary(Binary::LessEqual), BINARY),
    ("R.greater", Prim::Binary(Binary::Greater), BINARY),
    ("R.greater_equal", Prim::Binary(Binary::GreaterEqual), BINARY),
    ("R.where", Prim::Where, "condition: tensor, a|x1: tensor, b|x2: tensor"),
    ("R.astype", Prim::Astype, "x: tensor, dtype: dtype"),
    ("R.reinterpret", Prim::Reinterpret, "x: tensor, dtype: dtype"),
    ("R.broadcast_to", Prim::BroadcastTo, "x: tensor, shape: shape"),
    ("R.sum", Prim::Reduce(Reduce::Sum), REDUCE),
    ("R.prod", Prim::Reduce(Reduce::Prod), REDUCE),
    ("R.max", Prim::Reduce(Reduce::Max), REDUCE),
    ("R.min", Prim::Reduce(Reduce::Min), REDUCE),
    ("R.argmax", Prim::Argmax, ARG_REDUCE),
    ("R.argmin", Prim::Argmin, ARG_REDUCE),
    ("R.cumsum", Prim::Cumsum, SCAN),
    ("R.cumprod", Prim::Cumprod, SCAN),
    ("R.permute_dims", Prim::PermuteDims, "x: tensor, axes: ints = None"),
    ("R.reshape", Prim::Reshape, "x: tensor, shape: shape"),
    ("R.strided_slice", Prim::StridedSlice, "x|data: tensor, axes: ints, begin: dims, end: dims, strides: dims = None, assume_inbound: bool = False"),
    ("R.concat", Prim::Concat, "tensors: tensors, axis: int = 0"),
    ("R.nn.pad", Prim::Pad, "x|data: tensor, pad_width: dims, pad_mode: str = 'constant', pad_value: float = 0.0"),
    ("R.take", Prim::Take, "x: tensor, indices: tensor, axis: int = None, mode: str = 'fast'"),
    ("R.gather_elements", Prim::GatherElements, "x|data: tensor, indices: tensor, axis: int = 0"),
    ("R.gather_nd", Prim::GatherNd, "x|data: tensor, indices: tensor, batch_dims: int = 0"),
    ("R.scatter_elements", Prim::ScatterElements, "x|data: tensor, indices: tensor, updates: tensor, axis: int = 0, reduction: str = 'update'"),
    ("R.scatter_nd", Prim::ScatterNd, "x|data: tensor, indices: tensor, updates: tensor, reduction: str = 'update'"),
    ("R.nn.max_pool1d", Prim::MaxPool(1), POOL),
    ("R.nn.max_pool2d", Prim::MaxPool(2), POOL),
    ("R.nn.max_pool3d", Prim::MaxPool(3), POOL),
    ("R.nn.avg_pool1d", Prim::AvgPool(1), POOL),
    ("R.nn.avg_pool2d", Prim::AvgPool(2), POOL),
    ("R.nn.avg_pool3d", Prim::AvgPool(3), POOL),
    ("R.matmul", Prim::Matmul, "a|x1: tensor, b|x2: tensor, out_dtype: dtype = None"),
    ("R.nn.conv1d", Prim::Conv(1), CONV),
    ("R.nn.conv2d", Prim::Conv(2), CONV),
    ("R.nn.conv3d", Prim::Conv(3), CONV),
    ("R.nn.conv1d_transpose", Prim::ConvTranspose(1), CONV_TRANSPOSE),
    ("R.nn.conv2d_transpose", Prim::ConvTranspose(2), CONV_TRANSPOSE),
    ("R.nn.conv3d_transpose", Prim::ConvTranspose(3), CONV_TRANSPOSE),
    ("R.full", Prim::Full, "shape: shape, fill_value: tensor, dtype: dtype = None"),
    ("R.arange", Prim::Arange, "start: tensor, end: tensor = None, step: tensor = 1, dtype: dtype = None"),
    ("R.const", Prim::Const, "value: value, dtype: dtype = None"),
    ("R.sort", Prim::Sort, "x: tensor, axis: int = -1, descending: bool = False"),
    ("R.argsort", Prim::Argsort, "x|data: tensor, axis: int = -1, descending: bool = False, dtype: dtype = 'int64'"),
    ("R.vision.keep_boxes", Prim::KeepBoxes, "boxes: tensor, order: tensor, counts: tensor, limit: tensor, threshold: tensor"),
    ("R.nonzero", Prim::Nonzero, "x: tensor"),
    ("R.unique", Prim::Unique, "x: tensor, sorted: bool = True, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False, axis: int = None"),
    ("R.str.concat", Prim::Text(Text::Concat), BINARY),
    ("R.str.split", Prim::Text(Text::Split), "x: tensor, delimiter: str = '', maxsplit: int = -1"),
    ("R.str.lower", Prim::Text(Text::Lower), UNARY),
    ("R.str.upper", Prim::Text(Text::Upper), UNARY),
    ("R.str.full_match", Prim::Text(Text::FullMatch), "x: tensor, pattern: str"),
    ("R.str.format", Prim::Text(Text::Format), UNARY),
    ("R.str.parse", Prim::Text(Text::Parse), "x: tensor, dtype: dtype"),
    ("R.image.decode", Prim::DecodeImage, "x: tensor, pixel_format: str = 'RGB'"),
    ("R.shape_of", Prim::ShapeOf, "x|expr: tensor"),
    ("R.shape", Prim::Shape, "values: dims = []"),
    ("R.shape_to_tensor", Prim::ShapeToTensor, "x|expr: tensor"),
    ("R.tensor_to_shape", Prim::TensorToShape, "x|expr: tensor"),
    ("R.match_cast", Prim::MatchCast, "x|value: tensor, ty: value"),
    ("R.call_tir", Prim::CallTir, DPS),
    ("R.call_tir_inplace", Prim::CallTirInplace, "func: value, args: tensors, out_ty|out_sinfo: value, inplace_indices: ints, tir_vars: value = None"),
    ("R.call_dps_packed", Prim::CallDpsPacked, DPS),
    ("R.call_pure_packed", Prim::CallPurePacked, PACKED),
    ("R.call_packed", Prim::CallPacked, PACKED),
    ("I.while_loop", Prim::WhileLoop, "func: value, trip_count: tensor = None, condition: tensor = None, carried: tensors = None, captured: tensors = None, out_ty: value"),
    ("I.sequence", Prim::Sequence, "items: tensors = None, ty: value = None"),
    ("I.seq_insert", Prim::SeqInsert, "sequence: tensor, x: tensor, position: tensor = None"),
    ("I.seq_erase", Prim::SeqErase, "sequence: tensor, position: tensor = None"),
    ("I.seq_at", Prim::SeqAt, "sequence: tensor, position: tensor"),
    ("I.seq_len", Prim::SeqLen, "sequence: tensor"),
    ("I.seq_concat", Prim::SeqConcat, "sequence: tensor, axis: int = 0, new_axis: bool = False"),
    ("I.rank", Prim::Rank, "x: tensor"),
    ("I.optional", Prim::Optional, "x: tensor = None, ty: value = None"),
    ("I.has_value", Prim::HasValue, "x: tensor"),
    ("I.get_value", Prim::GetValue, "x: tensor"),
];

struct Index {
    by_name: BTreeMap<&'static str, Prim>,
    by_prim: BTreeMap<Prim, usize>,
}

fn index() -> &'static Index {
    static INDEX: OnceLock<Index> = OnceLock::new();
    INDEX.get_or_init(|| Index {
        by_name: TABLE.iter().map(|row| (row.0, row.1)).collect(),
        by_prim: TABLE
            .iter()
            .enumerate()
            .map(|(at, row)| (row.1, at))
            .collect(),
    })
}

/// Whether a call by a primitive's name is a library function's all the same: `R.nn.pad` in a mode other than constant.
pub fn is_library_form(path: &str, call: &Expr) -> bool {
    if path != "R.nn.pad" {
        return false;
    }
    let positional = call.as_call().and_then(|(_, args)| args.get(2));
    let positional = positional.filter(|arg| arg.name.is_none());
    let mode = call
        .keyword("pad_mode")
        .or(positional.map(|arg| &arg.value));
    mode.and_then(Expr::as_str)
        .is_some_and(|mode| mode != "constant")
}

impl Prim {
    /// The primitive of a dotted name: `R.add`.
    pub fn find(name: &str) -> Option<Self> {
        index().by_name.get(name).copied()
    }

    /// Every primitive with its name, in the order of the table.
    pub fn all() -> impl Iterator<Item = (&'static str, Self)> {
        TABLE.iter().map(|row| (row.0, row.1))
    }

    /// Its dotted name.
    pub fn name(self) -> &'static str {
        index()
            .by_prim
            .get(&self)
            .and_then(|at| TABLE.get(*at))
            .map_or("", |row| row.0)
    }

    /// Whether its value follows from those of its operands alone: no control, call or run-time shape.
    pub fn is_plain(self) -> bool {
        !self.is_control()
            && !matches!(
                self,
                Self::Shape
                    | Self::ShapeOf
                    | Self::TensorToShape
                    | Self::MatchCast
                    | Self::CallTir
                    | Self::CallTirInplace
                    | Self::CallDpsPacked
                    | Self::CallPurePacked
                    | Self::CallPacked
            )
    }

    /// Whether it is a loop, or makes or reads an object of run time: no kernel, and nothing to fold.
    pub fn is_control(self) -> bool {
        matches!(
            self,
            Self::WhileLoop
                | Self::Sequence
                | Self::SeqInsert
                | Self::SeqErase
                | Self::SeqAt
                | Self::SeqLen
                | Self::SeqConcat
                | Self::Rank
                | Self::Optional
                | Self::HasValue
                | Self::GetValue
        )
    }

    /// Whether the graph function computes it itself: control, strings, and extents that depend on an operand's numbers,
    /// so that no kernel could have a place for the result.
    pub fn stays_in_graph(self) -> bool {
        self.is_control()
            || matches!(
                self,
                Self::Nonzero | Self::Unique | Self::Text(_) | Self::DecodeImage
            )
    }

    /// Whether calls of it may have an effect beyond their result.
    pub fn is_impure(self) -> bool {
        self == Self::CallPacked
    }
}
