//! The vector IR: what kernel regions become before they are bytes.
//!
//! A [`Func`] is structured code (straight-line instructions, counted loops, two-way branches) over typed virtual
//! registers. Registers are variables: a loop updates its accumulators and pointers in place, so there is no SSA and no
//! phi. A vector holds [`Func::lanes`] lanes of 32 bits; narrower memory elements are widened by loads and
//! narrowed by stores. A scalar of floats is a vector with equal lanes. `Int` registers are 64-bit integers and addresses.
//!
//! The text form, printed and parsed by `vir_text.rs`, names a register by its type and number (`i0` integer, `f1` f32
//! lanes, `d2` i32 lanes, `m3` mask):
//!
//! ```text
//! lanes 8
//! i0 = arg 0
//! i1 = arg 1
//! f2 = const 0x40000000
//! loop i3 = 4 {
//!   f4 = load f32 [i0]
//!   f4 = mul f4 f2
//!   store f32 [i1 + 64] f4
//!   i0 = add i0 32
//!   i1 = add i1 32
//! }
//! ```

/// A virtual register, an index of [`Func::types`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Reg(pub u32);

/// The type of a register.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Ty {
    /// A 64-bit integer or address.
    Int,
    /// Lanes of f32.
    F32,
    /// Lanes of i32.
    I32,
    /// Lanes that are all ones or all zeros.
    Mask,
}

/// The type of an element in memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Elem {
    /// f32 lanes as they are.
    F32,
    /// i32 lanes as they are.
    I32,
    /// IEEE half, f32 lanes.
    F16,
    /// Signed 16-bit integers, i32 lanes; stores truncate.
    I16,
    /// Signed bytes, i32 lanes; stores truncate.
    I8,
    /// Unsigned bytes (and bools), i32 lanes; stores truncate.
    U8,
    /// Two signed bytes as the two signed halves of an i32 lane; not stored.
    I8Pair,
}

impl Elem {
    /// Bytes of one element.
    pub fn bytes(self) -> i64 {
        match self {
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::I16 | Self::I8Pair => 2,
            Self::I8 | Self::U8 => 1,
        }
    }

    /// The type of the lanes.
    pub fn ty(self) -> Ty {
        match self {
            Self::F32 | Self::F16 => Ty::F32,
            Self::I32 | Self::I16 | Self::I8 | Self::U8 | Self::I8Pair => Ty::I32,
        }
    }
}

/// An address: `[base + index * scale + disp]`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Mem {
    /// An `Int` register.
    pub base: Reg,
    /// An `Int` register and 1, 2, 4 or 8.
    pub index: Option<(Reg, u8)>,
    /// Bytes.
    pub disp: i32,
}

/// An integer operand.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Src {
    /// An `Int` register.
    Reg(Reg),
    /// A constant.
    Imm(i64),
}

/// Operations on integers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs)]
pub enum IntOp {
    Add,
    Sub,
    Mul,
    /// Floor division; the divisor is not 0.
    Div,
    /// The remainder of floor division.
    Mod,
    Min,
    Max,
}

/// Comparisons. Those of floats are ordered (false on NaN), but for `Ne`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs)]
pub enum CmpOp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// Operations on one vector.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum UnOp {
    /// The same bits, also between types of lanes.
    Copy,
    /// f32 square root, correctly rounded.
    Sqrt,
    /// f32, toward minus infinity.
    Floor,
    /// f32, toward plus infinity.
    Ceil,
    /// f32, toward zero.
    Trunc,
    /// f32, to nearest, ties to even.
    Round,
    /// f32, to the nearest value of a half, ties to even.
    RoundHalf,
    /// f32 to i32, toward zero; what does not fit becomes `i32::MIN`.
    ToInt,
    /// i32 to f32.
    ToFloat,
    /// All bits inverted; of masks and i32.
    Not,
}

/// Operations on two vectors.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum BinOp {
    /// f32 or i32.
    Add,
    /// f32 or i32.
    Sub,
    /// f32 or i32 (low half).
    Mul,
    /// f32.
    Div,
    /// f32: `a < b ? a : b`, so `b` where either is NaN. i32: signed.
    Min,
    /// f32: `a > b ? a : b`, so `b` where either is NaN. i32: signed.
    Max,
    /// Bits of any type.
    And,
    /// Bits of any type.
    Or,
    /// Bits of any type.
    Xor,
    /// `~a & b`, bits of any type.
    AndNot,
    /// i32; counts of 32 and more give 0.
    Shl,
    /// i32, zeros come in.
    Shr,
    /// i32, the sign comes in.
    Sar,
    /// i32 lanes as pairs of signed 16-bit integers: the product of the low ones plus that of the high ones.
    Pairs,
}

/// An instruction.
#[derive(Clone, PartialEq, Debug)]
pub enum Inst {
    /// The value of a slot of the argument array.
    Arg {
        /// An `Int`.
        dst: Reg,
        /// Which.
        slot: u32,
    },
    /// A constant in all lanes.
    Const {
        /// A vector; a mask is all ones or all zeros.
        dst: Reg,
        /// The bits of one lane.
        bits: u32,
    },
    /// An integer copied or set.
    Move {
        /// An `Int`.
        dst: Reg,
        /// Its value.
        src: Src,
    },
    /// `dst = a op b` on integers.
    Int {
        /// What is computed.
        op: IntOp,
        /// An `Int`.
        dst: Reg,
        /// Left operand.
        a: Src,
        /// Right operand.
        b: Src,
    },
    /// The low half of an integer in all lanes.
    Splat {
        /// A vector of either type.
        dst: Reg,
        /// An `Int`.
        src: Reg,
    },
    /// `0, 1, 2, …`
    Iota {
        /// An i32 vector.
        dst: Reg,
    },
    /// The mask of the lanes below a count.
    Lanes {
        /// A mask.
        dst: Reg,
        /// An `Int` from 0 to the number of lanes.
        count: Reg,
    },
    /// `dst = op a`
    Un {
        /// What is computed.
        op: UnOp,
        /// A vector.
        dst: Reg,
        /// Its operand.
        a: Reg,
    },
    /// `dst = a op b`
    Bin {
        /// What is computed.
        op: BinOp,
        /// A vector.
        dst: Reg,
        /// Left operand.
        a: Reg,
        /// Right operand.
        b: Reg,
    },
    /// `dst = a * b + c`, or `c - a * b` when negated; rounded once.
    Fma {
        /// Whether the product is subtracted.
        neg: bool,
        /// f32 lanes.
        dst: Reg,
        /// A factor.
        a: Reg,
        /// A factor.
        b: Reg,
        /// The addend.
        c: Reg,
    },
    /// `dst = a op b`, a mask.
    Cmp {
        /// The comparison.
        op: CmpOp,
        /// A mask.
        dst: Reg,
        /// Left operand, f32 or i32.
        a: Reg,
        /// Right operand.
        b: Reg,
    },
    /// `dst = mask ? a : b` by lanes.
    Select {
        /// A vector.
        dst: Reg,
        /// Which lanes come from `a`.
        mask: Reg,
        /// Where the mask is set.
        a: Reg,
        /// Where it is not.
        b: Reg,
    },
    /// Consecutive elements into lanes; lanes that are masked off are not read and become 0.
    Load {
        /// A vector.
        dst: Reg,
        /// The element in memory.
        elem: Elem,
        /// The first element.
        mem: Mem,
        /// The lanes to read.
        mask: Option<Reg>,
    },
    /// One element into all lanes.
    Broadcast {
        /// A vector.
        dst: Reg,
        /// The element in memory.
        elem: Elem,
        /// The element.
        mem: Mem,
    },
    /// Lanes into consecutive elements.
    Store {
        /// The element in memory.
        elem: Elem,
        /// The first element.
        mem: Mem,
        /// A vector.
        src: Reg,
        /// The lanes to write.
        mask: Option<Reg>,
    },
    /// The first lane into one element.
    StoreOne {
        /// The element in memory.
        elem: Elem,
        /// The element.
        mem: Mem,
        /// A vector.
        src: Reg,
    },
    /// The cache line of an address is wanted soon; the address may be any.
    Prefetch {
        /// Where.
        mem: Mem,
    },
    /// `op` over all lanes, in all lanes. `Add Mul Min Max And Or Xor`.
    Reduce {
        /// What joins two lanes.
        op: BinOp,
        /// A vector.
        dst: Reg,
        /// Its operand.
        src: Reg,
    },
    /// What follows comes from this line of the text; does nothing.
    Line(u32),
    /// The body `count` times, not at all when `count <= 0`.
    Loop {
        /// Counts down; belongs to the loop.
        counter: Reg,
        /// How often.
        count: Src,
        /// What is repeated.
        body: Vec<Inst>,
    },
    /// One of two blocks.
    If {
        /// The comparison, signed.
        op: CmpOp,
        /// Left operand.
        a: Src,
        /// Right operand.
        b: Src,
        /// When it holds.
        then: Vec<Inst>,
        /// When not.
        orelse: Vec<Inst>,
    },
}

/// A kernel in vector IR.
#[derive(Clone, PartialEq, Debug)]
pub struct Func {
    /// Lanes of a vector: 4, 8 or 16.
    pub lanes: u8,
    /// The type of every register.
    pub types: Vec<Ty>,
    /// What it does.
    pub body: Vec<Inst>,
}

impl Func {
    /// The type of a register.
    pub fn ty(&self, reg: Reg) -> Ty {
        self.types[reg.0 as usize]
    }
}

impl Inst {
    /// The register it writes. Loops and branches write what their bodies write, and the counter.
    pub fn dst(&self) -> Option<Reg> {
        match self {
            Self::Arg { dst, .. }
            | Self::Const { dst, .. }
            | Self::Move { dst, .. }
            | Self::Int { dst, .. }
            | Self::Splat { dst, .. }
            | Self::Iota { dst }
            | Self::Lanes { dst, .. }
            | Self::Un { dst, .. }
            | Self::Bin { dst, .. }
            | Self::Fma { dst, .. }
            | Self::Cmp { dst, .. }
            | Self::Select { dst, .. }
            | Self::Load { dst, .. }
            | Self::Broadcast { dst, .. }
            | Self::Reduce { dst, .. } => Some(*dst),
            Self::Loop { counter, .. } => Some(*counter),
            Self::Store { .. }
            | Self::StoreOne { .. }
            | Self::Prefetch { .. }
            | Self::If { .. }
            | Self::Line(_) => None,
        }
    }

    /// Calls `f` with every register it reads; those of nested bodies are not among them.
    pub fn each_src(&self, mut f: impl FnMut(Reg)) {
        let int = |src: &Src, f: &mut dyn FnMut(Reg)| {
            if let Src::Reg(reg) = src {
                f(*reg);
            }
        };
        match self {
            Self::Arg { .. } | Self::Const { .. } | Self::Iota { .. } | Self::Line(_) => {}
            Self::Move { src, .. } | Self::Loop { count: src, .. } => int(src, &mut f),
            Self::Int { a, b, .. } | Self::If { a, b, .. } => {
                int(a, &mut f);
                int(b, &mut f);
            }
            Self::Splat { src, .. } | Self::Reduce { src, .. } => f(*src),
            Self::Lanes { count, .. } => f(*count),
            Self::Un { a, .. } => f(*a),
            Self::Bin { a, b, .. } | Self::Cmp { a, b, .. } => {
                f(*a);
                f(*b);
            }
            Self::Fma { a, b, c, .. } => {
                f(*a);
                f(*b);
                f(*c);
            }
            Self::Select { mask, a, b, .. } => {
                f(*mask);
                f(*a);
                f(*b);
            }
            Self::Load { mem, mask, .. } => {
                mem.each_src(&mut f);
                mask.iter().for_each(|mask| f(*mask));
            }
            Self::Broadcast { mem, .. } | Self::Prefetch { mem } => mem.each_src(&mut f),
            Self::Store { mem, src, mask, .. } => {
                mem.each_src(&mut f);
                f(*src);
                mask.iter().for_each(|mask| f(*mask));
            }
            Self::StoreOne { mem, src, .. } => {
                mem.each_src(&mut f);
                f(*src);
            }
        }
    }
}

impl Mem {
    /// `[base + disp]`.
    pub fn at(base: Reg, disp: i32) -> Self {
        Self {
            base,
            index: None,
            disp,
        }
    }

    /// Calls `f` with every register of the address.
    pub fn each_src(&self, f: &mut impl FnMut(Reg)) {
        f(self.base);
        if let Some((index, _)) = self.index {
            f(index);
        }
    }
}

/// Makes a [`Func`] instruction by instruction.
#[derive(Clone, Debug)]
pub struct Builder {
    lanes: u8,
    types: Vec<Ty>,
    consts: std::collections::BTreeMap<(Ty, u32), Reg>,
    head: Vec<Inst>,
    blocks: Vec<Vec<Inst>>,
    /// The line that instructions come from, where it is known.
    pub line: Option<u32>,
    /// The line that the last instruction of each open block is marked with.
    marked: Vec<Option<u32>>,
}

impl Builder {
    /// An empty function of a vector width.
    pub fn new(lanes: u8) -> Self {
        Self {
            lanes,
            types: Vec::new(),
            consts: std::collections::BTreeMap::new(),
            head: Vec::new(),
            blocks: vec![Vec::new()],
            line: None,
            marked: vec![None],
        }
    }

    /// The function; arguments and constants come first.
    pub fn finish(mut self) -> Func {
        let mut body = self.head;
        body.append(&mut self.blocks.remove(0));
        Func {
            lanes: self.lanes,
            types: self.types,
            body,
        }
    }

    /// Lanes of a vector.
    pub fn lanes(&self) -> i64 {
        i64::from(self.lanes)
    }

    /// The type of a register.
    pub fn ty(&self, reg: Reg) -> Ty {
        self.types[reg.0 as usize]
    }

    /// A fresh register.
    pub fn reg(&mut self, ty: Ty) -> Reg {
        self.types.push(ty);
        Reg(self.types.len() as u32 - 1)
    }

    /// Appends an instruction to the open block.
    pub fn push(&mut self, inst: Inst) {
        self.push_at(self.blocks.len() - 1, inst);
    }

    /// Starts collecting instructions for a nested block.
    pub fn open(&mut self) {
        self.blocks.push(Vec::new());
        self.marked.push(None);
    }

    /// Ends the innermost nested block and gives its instructions.
    pub fn close(&mut self) -> Vec<Inst> {
        self.marked.pop();
        self.blocks.pop().unwrap_or_default()
    }

    /// An argument, read at the head of the function.
    pub fn arg(&mut self, slot: u32) -> Reg {
        let dst = self.reg(Ty::Int);
        self.head.push(Inst::Arg { dst, slot });
        dst
    }

    /// A constant of lanes, one register for each value.
    pub fn constant(&mut self, ty: Ty, bits: u32) -> Reg {
        if let Some(&reg) = self.consts.get(&(ty, bits)) {
            return reg;
        }
        let dst = self.reg(ty);
        self.consts.insert((ty, bits), dst);
        self.head.push(Inst::Const { dst, bits });
        dst
    }

    /// An f32 constant.
    pub fn f32(&mut self, value: f32) -> Reg {
        self.constant(Ty::F32, value.to_bits())
    }

    /// An i32 constant.
    pub fn i32(&mut self, value: i32) -> Reg {
        self.constant(Ty::I32, value as u32)
    }

    /// Whether a register is a constant, and its bits.
    pub fn as_constant(&self, reg: Reg) -> Option<u32> {
        self.consts
            .iter()
            .find(|(_, other)| **other == reg)
            .map(|((_, bits), _)| *bits)
    }

    /// `a op b` on integers.
    pub fn int(&mut self, op: IntOp, a: Src, b: Src) -> Reg {
        let dst = self.reg(Ty::Int);
        self.push(Inst::Int { op, dst, a, b });
        dst
    }

    /// `op a`; the type of the result follows from the operation, `Copy` keeps it.
    pub fn un(&mut self, op: UnOp, a: Reg) -> Reg {
        let ty = match op {
            UnOp::ToInt => Ty::I32,
            UnOp::ToFloat => Ty::F32,
            _ => self.ty(a),
        };
        let dst = self.reg(ty);
        self.push(Inst::Un { op, dst, a });
        dst
    }

    /// The same bits as another type of lanes.
    pub fn cast(&mut self, ty: Ty, a: Reg) -> Reg {
        let dst = self.reg(ty);
        self.push(Inst::Un {
            op: UnOp::Copy,
            dst,
            a,
        });
        dst
    }

    /// `a op b`, of the type of `a`.
    pub fn bin(&mut self, op: BinOp, a: Reg, b: Reg) -> Reg {
        let dst = self.reg(self.ty(a));
        self.push(Inst::Bin { op, dst, a, b });
        dst
    }

    /// `a * b + c`.
    pub fn fma(&mut self, a: Reg, b: Reg, c: Reg) -> Reg {
        let dst = self.reg(Ty::F32);
        self.push(Inst::Fma {
            neg: false,
            dst,
            a,
            b,
            c,
        });
        dst
    }

    /// `c - a * b`.
    pub fn fnma(&mut self, a: Reg, b: Reg, c: Reg) -> Reg {
        let dst = self.reg(Ty::F32);
        self.push(Inst::Fma {
            neg: true,
            dst,
            a,
            b,
            c,
        });
        dst
    }

    /// `a op b`, a mask.
    pub fn cmp(&mut self, op: CmpOp, a: Reg, b: Reg) -> Reg {
        let dst = self.reg(Ty::Mask);
        self.push(Inst::Cmp { op, dst, a, b });
        dst
    }

    /// `mask ? a : b`.
    pub fn select(&mut self, mask: Reg, a: Reg, b: Reg) -> Reg {
        let dst = self.reg(self.ty(a));
        self.push(Inst::Select { dst, mask, a, b });
        dst
    }
}

/// For code that moves what it makes: blocks are numbered from 0, the outermost.
impl Builder {
    /// The number of the open block.
    pub fn block(&self) -> usize {
        self.blocks.len() - 1
    }

    /// Appends an instruction to an enclosing block, in front of the nested ones that are still open.
    pub fn push_at(&mut self, block: usize, inst: Inst) {
        let (Some(insts), Some(marked)) = (self.blocks.get_mut(block), self.marked.get_mut(block))
        else {
            return;
        };
        if let Some(line) = self.line.filter(|line| *marked != Some(*line)) {
            insts.push(Inst::Line(line));
            *marked = Some(line);
        }
        // What follows a nested block is marked anew.
        if matches!(inst, Inst::Loop { .. } | Inst::If { .. }) {
            *marked = None;
        }
        insts.push(inst);
    }

    /// How many instructions the open block has.
    pub fn block_len(&self) -> usize {
        let is_code = |inst: &&Inst| !matches!(inst, Inst::Line(_));
        let count = |block: &Vec<Inst>| block.iter().filter(is_code).count();
        self.blocks.last().map_or(0, count)
    }

    /// Appends instructions made apart.
    pub fn append(&mut self, insts: Vec<Inst>) {
        if let Some(block) = self.blocks.last_mut() {
            block.extend(insts);
        }
        if let Some(marked) = self.marked.last_mut() {
            *marked = None;
        }
    }

    /// Lets the last instruction write `to` in place of `from`, when it computes `from`; otherwise copies.
    pub fn write_to(&mut self, to: Reg, from: Reg) {
        if let Some(last) = self.blocks.last_mut().and_then(|block| block.last_mut()) {
            match last {
                Inst::Un { dst, .. }
                | Inst::Bin { dst, .. }
                | Inst::Fma { dst, .. }
                | Inst::Cmp { dst, .. }
                | Inst::Select { dst, .. }
                    if *dst == from =>
                {
                    *dst = to;
                    return;
                }
                _ => {}
            }
        }
        self.push(Inst::Un {
            op: UnOp::Copy,
            dst: to,
            a: from,
        });
    }
}
