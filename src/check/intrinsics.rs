//! Names of the loop level: what `T.…` there is, older spellings of it, and the functions of a real number.

use irc_syntax::DType;

/// What a call of a loop-level name gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gives {
    /// A value of the dtype of its first operand.
    First,
    /// A value of the dtype that its operands come to together.
    Common,
    /// A value of the dtype of its second operand: `T.if_then_else(c, a, b)`.
    Second,
    /// A truth value.
    Bool,
    /// A value of the dtype named by its first argument: `T.Cast("float32", x)`.
    Named,
    /// A pointer.
    Handle,
    /// Nothing: a statement.
    Nothing,
}

use Gives::{Bool, Common, First, Handle, Named, Nothing, Second};

/// name, what it gives
#[rustfmt::skip]
const TABLE: &[(&str, Gives)] = &[
    ("abs", First), ("acos", First), ("acosh", First), ("asin", First), ("asinh", First), ("atan", First),
    ("atan2", Common), ("atanh", First), ("ceil", First), ("ceildiv", Common), ("clz", First), ("copysign", Common),
    ("cos", First), ("cosh", First), ("erf", First), ("exp", First), ("exp10", First), ("exp2", First),
    ("fabs", First), ("floor", First), ("floordiv", Common), ("floormod", Common), ("fma", Common), ("fmod", Common),
    ("hypot", Common), ("ldexp", First), ("log", First), ("log10", First), ("log1p", First), ("log2", First),
    ("max", Common), ("min", Common), ("nearbyint", First), ("nextafter", Common), ("popcount", First), ("pow", Common),
    ("round", First), ("rsqrt", First), ("shift_left", Common), ("shift_right", Common), ("sigmoid", First),
    ("sin", First), ("sinh", First), ("sqrt", First), ("tan", First), ("tanh", First), ("trunc", First),
    ("truncdiv", Common), ("truncmod", Common), ("bitwise_and", Common), ("bitwise_or", Common),
    ("bitwise_xor", Common), ("bitwise_not", First), ("likely", First), ("saturate", First),
    ("isfinite", Bool), ("isinf", Bool), ("isnan", Bool), ("isnullptr", Bool),
    ("Add", Common), ("Sub", Common), ("Mul", Common), ("Div", Common), ("Mod", Common), ("FloorDiv", Common),
    ("FloorMod", Common), ("Max", Common), ("Min", Common), ("EQ", Bool), ("NE", Bool), ("LT", Bool), ("LE", Bool),
    ("GT", Bool), ("GE", Bool), ("And", Bool), ("Or", Bool), ("Not", Bool), ("Select", Second),
    ("if_then_else", Second), ("Cast", Named), ("cast", Named), ("reinterpret", Named), ("Ramp", First),
    ("Broadcast", First), ("Shuffle", First), ("vectorcombine", First), ("vectorhigh", First), ("vectorlow", First),
    ("Call", Named), ("call_extern", Named), ("call_pure_extern", Named), ("call_llvm_intrin", Named),
    ("call_llvm_pure_intrin", Named), ("call_packed", Handle), ("call_cpacked", Handle), ("call_intrin", Named),
    ("tvm_call_packed", Handle), ("tvm_stack_make_array", Handle), ("tvm_stack_make_shape", Handle),
    ("tvm_stack_alloca", Handle), ("tvm_struct_get", Named), ("tvm_struct_set", Nothing), ("tvm_tuple", Handle),
    ("tvm_access_ptr", Handle), ("address_of", Handle), ("type_annotation", Handle), ("handle", Handle),
    ("tvm_throw_last_error", Nothing), ("ret", Nothing), ("thread_return", Nothing), ("evaluate", Nothing),
    ("Evaluate", Nothing), ("reads", Nothing), ("writes", Nothing), ("where", Nothing), ("sblock_attr", Nothing),
    ("func_attr", Nothing), ("attr", Nothing), ("assume", Nothing), ("undef", First), ("prefetch", Nothing),
    ("break_loop", Nothing), ("continue_loop", Nothing), ("sblock", Nothing), ("init", Nothing), ("axis.remap", Nothing),
    ("axis.spatial", Second), ("axis.reduce", Second), ("axis.scan", Second), ("axis.opaque", Second),
    ("grid", Nothing), ("serial", Nothing), ("parallel", Nothing), ("vectorized", Nothing), ("unroll", Nothing),
    ("thread_binding", Nothing), ("launch_thread", Nothing), ("env_thread", First), ("Buffer", Handle),
    ("alloc_buffer", Handle), ("sblock_alloc_buffer", Handle), ("alloc_local", Handle), ("alloc_shared", Handle),
    ("decl_buffer", Handle), ("match_buffer", Handle), ("allocate", Handle), ("allocate_const", Handle),
    ("target", Handle), ("let", Nothing), ("Let", Nothing), ("dtype", Handle), ("meta_var", First), ("buffer_store", Nothing),
    ("tvm_storage_sync", Nothing), ("atomic_add", First), ("lookup_param", Handle), ("Range", Handle),
    ("CommReducer", Handle), ("comm_reducer", Handle), ("realize", Nothing), ("preflattened_buffer", Nothing),
    ("block_attr", Nothing), ("prim_func", Nothing), ("macro", Nothing), ("vscale", Common), ("get_active_lane_mask", Bool),
];

/// older name, name
const ALIASES: &[(&str, &str)] = &[
    ("T.block", "T.sblock"),
    ("T.block_attr", "T.sblock_attr"),
    ("T.Evaluate", "T.evaluate"),
    ("T.cast", "T.Cast"),
    ("T.floordiv", "T.FloorDiv"),
    ("T.floormod", "T.FloorMod"),
    ("T.Mod", "T.truncmod"),
    ("T.truncdiv", "T.Div"),
    ("T.Max", "T.max"),
    ("T.Min", "T.min"),
    ("T.abs", "T.fabs"),
    ("T.call_pure_extern", "T.call_extern"),
    ("R.Object", "R.Any"),
];

/// The present spelling of a dotted name.
pub fn canonical(path: &str) -> &str {
    ALIASES
        .iter()
        .find(|row| row.0 == path)
        .map_or(path, |row| row.1)
}

/// What a name after `T.` gives; `None` when there is no such name.
pub fn find(name: &str) -> Option<Gives> {
    TABLE.iter().find(|row| row.0 == name).map(|row| row.1)
}

/// Every name after `T.`, dtypes included.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLE
        .iter()
        .map(|row| row.0)
        .chain(DType::all().map(DType::name))
}

/// Defines [`Real`] and the names of its functions.
macro_rules! reals {
    ($($function:ident $name:literal,)*) => {
        /// A function of one real number, the same at both levels: `R.exp(x)` of tensors, `T.exp(x)` of scalars.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        #[allow(missing_docs)]
        pub enum Real {
            $($function,)*
        }

        const REALS: &[(&str, Real)] = &[$(($name, Real::$function),)*];
    };
}

reals! {
    Exp "exp",
    Exp2 "exp2",
    Exp10 "exp10",
    Expm1 "expm1",
    Log "log",
    Log2 "log2",
    Log10 "log10",
    Log1p "log1p",
    Sqrt "sqrt",
    Rsqrt "rsqrt",
    Sin "sin",
    Cos "cos",
    Tan "tan",
    Sinh "sinh",
    Cosh "cosh",
    Tanh "tanh",
    Asin "asin",
    Acos "acos",
    Atan "atan",
    Asinh "asinh",
    Acosh "acosh",
    Atanh "atanh",
    Erf "erf",
    Sigmoid "sigmoid",
    Floor "floor",
    Ceil "ceil",
    Round "round", // half to even
    Trunc "trunc",
}

impl Real {
    /// The function of a name behind `T.` or `R.`, or of libm.
    pub fn from_name(name: &str) -> Option<Self> {
        if let "nearbyint" | "rint" | "roundeven" = name {
            return Some(Self::Round);
        }
        REALS.iter().find(|row| row.0 == name).map(|row| row.1)
    }

    /// Its name behind `T.` and `R.`.
    pub fn name(self) -> &'static str {
        REALS
            .iter()
            .find(|row| row.1 == self)
            .map_or("", |row| row.0)
    }

    /// Whether it gives an integer, and an integer itself.
    pub fn is_rounding(self) -> bool {
        matches!(self, Self::Floor | Self::Ceil | Self::Round | Self::Trunc)
    }
}
