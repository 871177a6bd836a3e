//! Where fields lie: in what callers pass (DLPack, TVM-FFI), and in the descriptions that `irc_call` reads.

/// Bytes of a `DLTensor`.
pub const DL_BYTES: i64 = 48;

/// Offsets in a `DLTensor`.
pub mod dl {
    #![allow(missing_docs)]
    pub const DATA: i32 = 0;
    pub const DEVICE_TYPE: i32 = 8;
    pub const NDIM: i32 = 16;
    pub const DTYPE: i32 = 20;
    pub const SHAPE: i32 = 24;
    pub const STRIDES: i32 = 32;
    pub const BYTE_OFFSET: i32 = 40;
    /// The device type of the CPU.
    pub const CPU: i64 = 1;
}

/// Offsets in a `TVMFFIAny`, and type indices.
pub mod any {
    #![allow(missing_docs)]
    pub const TYPE: i32 = 0;
    pub const VALUE: i32 = 8;
    pub const BYTES: i64 = 16;
    pub const NONE: i64 = 0;
    pub const INT: i64 = 1;
    pub const BOOL: i64 = 2;
    pub const FLOAT: i64 = 3;
    pub const DL_TENSOR: i64 = 7;
    pub const RAW_STR: i64 = 8;
    pub const SMALL_STR: i64 = 11;
    pub const STR: i64 = 65;
    pub const SHAPE: i64 = 69;
    pub const TENSOR: i64 = 70;
}

/// Offsets in the description of a function.
pub mod func {
    /// Its name, C text.
    pub const NAME: i32 = 0;
    /// What is called, in the convention of graph functions.
    pub const HOST: i32 = 8;
    /// Evaluates compound dims: `fn(symbols, dims)`; null when there are none.
    pub const DIMS: i32 = 16;
    /// Number of inputs.
    pub const N_IN: i32 = 24;
    /// Number of results.
    pub const N_OUT: i32 = 32;
    /// Number of symbols.
    pub const N_SYMBOLS: i32 = 40;
    /// Descriptions of inputs, then of results.
    pub const PARAMS: i32 = 48;
    /// Descriptions of symbols.
    pub const SYMBOLS: i32 = 56;
    /// How results are returned, one of `RESULT_…`.
    pub const RESULT: i32 = 64;
    /// Names of the inputs, C text.
    pub const USAGE: i32 = 72;
    /// Offsets in the frame: slots of results, arguments, symbols, binders, compound dims.
    pub const FRAME: i32 = 80;
    /// All of it.
    pub const BYTES: usize = 120;
    /// The tensor itself.
    pub const RESULT_TENSOR: i64 = 0;
    /// An array of tensors.
    pub const RESULT_ARRAY: i64 = 1;
    /// Nothing.
    pub const RESULT_NONE: i64 = 2;
}

/// Offsets of the frame's parts, as they stand at [`func::FRAME`].
pub mod frame {
    #![allow(missing_docs)]
    pub const OUTS: i32 = 80;
    pub const ARGS: i32 = 88;
    pub const SYMBOLS: i32 = 96;
    pub const BINDERS: i32 = 104;
    pub const DIMS: i32 = 112;
}

/// Bytes of the description of a parameter or result.
pub const PARAM_BYTES: i64 = 72;

/// Offsets in the description of a parameter or result.
pub mod param {
    /// Its name, C text.
    pub const NAME: i32 = 0;
    /// One of the kinds below.
    pub const KIND: i32 = 8;
    /// The 32 bits of the `DLDataType` that is wanted.
    pub const DTYPE: i32 = 16;
    /// The rank.
    pub const RANK: i32 = 24;
    /// The descriptions of its dims.
    pub const DIMS: i32 = 32;
    /// Its type as text.
    pub const TYPE: i32 = 40;
    /// Bytes of an element.
    pub const ELEMENT: i32 = 48;
    /// The 32 bits of the `DLDataType` of a tensor that the runtime makes.
    pub const RESULT_DTYPE: i32 = 56;
    /// A tensor.
    pub const TENSOR: i64 = 0;
    /// An integer.
    pub const INT: i64 = 1;
    /// A boolean.
    pub const BOOL: i64 = 2;
    /// A float.
    pub const FLOAT: i64 = 3;
    /// A shape.
    pub const SHAPE: i64 = 4;
    /// A sequence of tensors.
    pub const SEQ: i64 = 5;
    /// A tensor or None.
    pub const OPT_TENSOR: i64 = 6;
    /// A sequence or None.
    pub const OPT_SEQ: i64 = 7;
    /// A tensor of any rank.
    pub const ANY_RANK: i64 = 8;
}

/// Bytes of the description of a dim.
pub const DIM_BYTES: i64 = 32;

/// Offsets in the description of a dim.
pub mod dim {
    /// One of the kinds below.
    pub const KIND: i32 = 0;
    /// The number, the symbol, or the place among the compound dims.
    pub const VALUE: i32 = 8;
    /// `a` of a dim `a * symbol + b`.
    pub const FACTOR: i32 = 16;
    /// `b` of a dim `a * symbol + b`.
    pub const TERM: i32 = 24;
    /// A number.
    pub const CONST: i64 = 0;
    /// `a * symbol + b`; binds the symbol when it comes first.
    pub const LINEAR: i64 = 1;
    /// Any other expression.
    pub const COMPOUND: i64 = 2;
    /// Anything.
    pub const ANY: i64 = 3;
}

/// Bytes of the description of a symbol.
pub const SYMBOL_BYTES: i64 = 32;

/// Offsets in the description of a symbol.
pub mod symbol {
    #![allow(missing_docs)]
    pub const NAME: i32 = 0;
    pub const MIN: i32 = 8;
    pub const MAX: i32 = 16;
    pub const MULTIPLE_OF: i32 = 24;
}
