//! How an operator's loops look, as far as fusing needs to know (TVM's `OpPatternKind`).

use irc_syntax::Expr;

/// What kind of kernel a primitive makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// One element of each operand makes one element of the result, after broadcasting.
    ElementWise,
    /// Each element of the result is one element of an operand, at an index that rows share.
    Gather,
    /// Each element of the result is one element of an operand; neighbours come from anywhere.
    Injective,
    /// Sum, product, maximum or minimum along axes.
    Reduce,
    /// Pooling.
    Window,
    /// Matrix product or convolution.
    Contract,
    /// A kernel of its own that nothing joins.
    Opaque,
}

impl Pattern {
    /// Whether element-wise operators over the result may become part of the kernel.
    pub fn takes_epilogue(self) -> bool {
        matches!(
            self,
            Self::ElementWise | Self::Gather | Self::Reduce | Self::Window | Self::Contract
        )
    }

    /// Which group an element-wise operator with several operands prefers: the heavier.
    pub fn weight(self) -> u8 {
        match self {
            Self::Injective | Self::Opaque => 0,
            Self::ElementWise => 1,
            Self::Gather => 2,
            Self::Window => 3,
            Self::Reduce => 4,
            Self::Contract => 5,
        }
    }

    /// TVM's number: 0 element-wise, 2 injective, 3 reduction, 4 out-fusable, 8 opaque.
    pub fn op_pattern(self) -> i128 {
        match self {
            Self::ElementWise => 0,
            Self::Gather | Self::Injective => 2,
            Self::Reduce => 3,
            Self::Window | Self::Contract => 4,
            Self::Opaque => 8,
        }
    }
}

/// The pattern of a primitive call; `None` for what stays in the graph (views, shapes, calls, control).
// tidy: table
pub fn pattern_of(value: &Expr) -> Option<Pattern> {
    let (path, _) = value.as_call()?;
    let op = path.strip_prefix("R.")?;
    Some(match op {
        "abs" | "negative" | "exp" | "log" | "sqrt" | "rsqrt" | "sin" | "cos" | "tan" | "sinh"
        | "cosh" | "tanh" | "asin" | "acos" | "atan" | "asinh" | "acosh" | "atanh" | "erf"
        | "sigmoid" | "floor" | "ceil" | "round" | "trunc" | "sign" | "isnan" | "isinf"
        | "isfinite" | "logical_not" | "bitwise_not" | "add" | "subtract" | "multiply"
        | "divide" | "floor_divide" | "floor_mod" | "mod" | "power" | "maximum" | "minimum"
        | "left_shift" | "right_shift" | "bitwise_and" | "bitwise_or" | "bitwise_xor"
        | "logical_and" | "logical_or" | "logical_xor" | "equal" | "not_equal" | "less"
        | "less_equal" | "greater" | "greater_equal" | "where" | "astype" | "reinterpret"
        | "broadcast_to" => Pattern::ElementWise,
        "take" | "strided_slice" | "full" | "arange" | "shape_to_tensor" => Pattern::Gather,
        "permute_dims" | "concat" | "nn.pad" | "gather_elements" | "gather_nd" => Pattern::Injective,
        "sum" | "prod" | "max" | "min" => Pattern::Reduce,
        "nn.max_pool1d" | "nn.max_pool2d" | "nn.max_pool3d" | "nn.avg_pool1d" | "nn.avg_pool2d"
        | "nn.avg_pool3d" => Pattern::Window,
        "matmul" | "nn.conv1d" | "nn.conv2d" | "nn.conv3d" | "nn.conv1d_transpose"
        | "nn.conv2d_transpose" | "nn.conv3d_transpose" => Pattern::Contract,
        "argmax" | "argmin" | "cumsum" | "cumprod" | "scatter_elements" | "scatter_nd" | "sort"
        | "argsort" => Pattern::Opaque,
        _ => return None,
    })
}
