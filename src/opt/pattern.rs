//! How an operator's loops look, as far as fusing needs to know (TVM's `OpPatternKind`).

use irc_syntax::Expr;

use crate::check::prim::Prim;

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
    Some(match Prim::find(&path)? {
        Prim::Unary(_) | Prim::Binary(_) | Prim::Where | Prim::Astype | Prim::Reinterpret => {
            Pattern::ElementWise
        }
        Prim::BroadcastTo => Pattern::ElementWise,
        Prim::Take | Prim::StridedSlice | Prim::Full | Prim::Arange | Prim::ShapeToTensor => {
            Pattern::Gather
        }
        Prim::PermuteDims | Prim::Concat | Prim::Pad | Prim::GatherElements | Prim::GatherNd => {
            Pattern::Injective
        }
        Prim::Reduce(_) => Pattern::Reduce,
        Prim::MaxPool(_) | Prim::AvgPool(_) => Pattern::Window,
        Prim::Matmul | Prim::Conv(_) | Prim::ConvTranspose(_) => Pattern::Contract,
        Prim::Argmax | Prim::Argmin | Prim::Cumsum | Prim::Cumprod | Prim::ScatterElements => {
            Pattern::Opaque
        }
        Prim::ScatterNd | Prim::Sort | Prim::Argsort | Prim::KeepBoxes => Pattern::Opaque,
        Prim::Reshape
        | Prim::Text(_)
        | Prim::DecodeImage
        | Prim::Const
        | Prim::Nonzero
        | Prim::Unique
        | Prim::ShapeOf
        | Prim::Shape => {
            return None;
        }
        Prim::TensorToShape | Prim::MatchCast | Prim::CallTir | Prim::CallTirInplace => {
            return None;
        }
        Prim::CallDpsPacked | Prim::CallPurePacked | Prim::CallPacked => return None,
        Prim::WhileLoop | Prim::Sequence | Prim::SeqInsert | Prim::SeqErase | Prim::SeqAt => {
            return None;
        }
        Prim::SeqLen | Prim::SeqConcat | Prim::Rank => return None,
        Prim::Optional | Prim::HasValue | Prim::GetValue => return None,
    })
}
