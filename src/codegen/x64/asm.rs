//! Bytes: one instruction at a time, labels, aligned loop heads, and a pool of literals behind the code.

use std::collections::BTreeMap;

use iced_x86::{Code, Encoder, Instruction, MemoryOperand, Register};

/// An operand of a machine instruction.
#[derive(Clone, Copy, Debug)]
pub enum Opnd {
    /// A register.
    Reg(Register),
    /// An address.
    Mem(MemoryOperand),
    /// An immediate.
    Imm(i32),
    /// A literal of the pool.
    Pool(u32),
}

impl From<Register> for Opnd {
    fn from(reg: Register) -> Self {
        Self::Reg(reg)
    }
}

impl From<MemoryOperand> for Opnd {
    fn from(mem: MemoryOperand) -> Self {
        Self::Mem(mem)
    }
}

impl From<i32> for Opnd {
    fn from(imm: i32) -> Self {
        Self::Imm(imm)
    }
}

/// A place in the code, an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label(u32);

/// What goes wrong only when the emitter is wrong: an operand form that the encoder does not know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadForm(pub String);

/// The condition of a jump, as the low half of its opcode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Cond {
    NotCarry = 0x3,
    NotSign = 0x9,
    Eq = 0x4,
    Ne = 0x5,
    Lt = 0xC,
    Ge = 0xD,
    Le = 0xE,
    Gt = 0xF,
}

/// The code so far.
pub struct Asm {
    encoder: Encoder,
    len: usize,
    labels: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
    literals: Vec<Vec<u8>>,
    known: BTreeMap<Vec<u8>, u32>,
    /// Where a displacement is, where its instruction ends, and which literal it means.
    uses: Vec<(usize, usize, u32)>,
}

/// A displacement that is certain to take four bytes, until the literal has its place.
const FAR: u64 = 0x1000_0000;

impl Asm {
    /// No code.
    pub fn new() -> Self {
        Self {
            encoder: Encoder::new(64),
            len: 0,
            labels: Vec::new(),
            jumps: Vec::new(),
            literals: Vec::new(),
            known: BTreeMap::new(),
            uses: Vec::new(),
        }
    }

    /// Appends an instruction with an opmask of lanes; lanes that are masked off become zero, or stay in memory.
    ///
    /// # Errors
    /// When the operands do not fit the code.
    pub fn masked(&mut self, code: Code, mask: Register, ops: &[Opnd]) -> Result<(), BadForm> {
        let zeroing = matches!(ops.first(), Some(Opnd::Reg(_)));
        self.encode(code, ops, |inst| {
            inst.set_op_mask(mask);
            inst.set_zeroing_masking(zeroing);
        })
    }

    /// Appends an instruction with an opmask that chooses between its operands.
    ///
    /// # Errors
    /// When the operands do not fit the code.
    pub fn blended(&mut self, code: Code, mask: Register, ops: &[Opnd]) -> Result<(), BadForm> {
        self.encode(code, ops, |inst| inst.set_op_mask(mask))
    }

    /// Appends an instruction.
    ///
    /// # Errors
    /// When the operands do not fit the code.
    pub fn ins(&mut self, code: Code, ops: &[Opnd]) -> Result<(), BadForm> {
        self.encode(code, ops, |_| {})
    }

    /// `mov to, imm64`
    ///
    /// # Errors
    /// When `to` is not a 64-bit register.
    pub fn wide_imm(&mut self, to: Register, imm: i64) -> Result<(), BadForm> {
        let bad = |why: iced_x86::IcedError| BadForm(why.to_string());
        let inst = Instruction::with2(Code::Mov_r64_imm64, to, imm).map_err(bad)?;
        self.len += self.encoder.encode(&inst, self.len as u64).map_err(bad)?;
        Ok(())
    }

    fn encode(
        &mut self,
        code: Code,
        ops: &[Opnd],
        change: impl FnOnce(&mut Instruction),
    ) -> Result<(), BadForm> {
        let bad = |why: String| BadForm(format!("{code:?} {ops:?}: {why}"));
        let literal = ops.iter().find_map(|op| match op {
            Opnd::Pool(literal) => Some(*literal),
            _ => None,
        });
        let ops: Vec<Opnd> = ops
            .iter()
            .map(|op| match op {
                Opnd::Pool(_) => Opnd::Mem(MemoryOperand::with_base_displ(
                    Register::RIP,
                    (self.len as u64 + FAR) as i64,
                )),
                other => *other,
            })
            .collect();
        let mut inst = instruction(code, &ops).map_err(bad)?;
        change(&mut inst);
        let size = self
            .encoder
            .encode(&inst, self.len as u64)
            .map_err(|why| BadForm(format!("{code:?} {ops:?}: {why}")))?;
        if let Some(literal) = literal {
            let at = self.len + self.encoder.get_constant_offsets().displacement_offset();
            self.uses.push((at, self.len + size, literal));
        }
        self.len += size;
        Ok(())
    }

    /// The literal of some bytes; its place is aligned to its size.
    pub fn literal(&mut self, bytes: Vec<u8>) -> Opnd {
        let next = self.literals.len() as u32;
        let id = *self.known.entry(bytes.clone()).or_insert(next);
        if id == next {
            self.literals.push(bytes);
        }
        Opnd::Pool(id)
    }

    /// A label without a place.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() as u32 - 1)
    }

    /// Bytes so far.
    pub fn len(&self) -> u32 {
        self.len as u32
    }

    /// Gives a label the place after the code so far.
    pub fn bind(&mut self, label: Label) {
        self.labels[label.0 as usize] = Some(self.len);
    }

    /// Fills up to a multiple of `to` bytes with instructions that do nothing.
    pub fn align(&mut self, to: usize) {
        const NOPS: [&[u8]; 10] = [
            &[],
            &[0x90],
            &[0x66, 0x90],
            &[0x0F, 0x1F, 0x00],
            &[0x0F, 0x1F, 0x40, 0x00],
            &[0x0F, 0x1F, 0x44, 0x00, 0x00],
            &[0x66, 0x0F, 0x1F, 0x44, 0x00, 0x00],
            &[0x0F, 0x1F, 0x80, 0x00, 0x00, 0x00, 0x00],
            &[0x0F, 0x1F, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
            &[0x66, 0x0F, 0x1F, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
        ];
        let mut rest = (to - self.len % to) % to;
        while rest > 0 {
            let size = rest.min(9);
            self.write(NOPS[size]);
            rest -= size;
        }
    }

    /// `jmp label`
    pub fn jump(&mut self, label: Label) {
        self.write(&[0xE9]);
        self.target(label);
    }

    /// `jcc label`, in two bytes where the label is bound and near.
    pub fn branch(&mut self, cond: Cond, label: Label) {
        if let Some(target) = self.labels[label.0 as usize] {
            let delta = target as i64 - (self.len as i64 + 2);
            if let Ok(near) = i8::try_from(delta) {
                self.write(&[0x70 | cond as u8, near as u8]);
                return;
            }
        }
        self.write(&[0x0F, 0x80 | cond as u8]);
        self.target(label);
    }

    fn target(&mut self, label: Label) {
        self.jumps.push((self.len, label));
        self.write(&[0; 4]);
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.encoder.write_u8(byte);
        }
        self.len += bytes.len();
    }

    /// The code with its literals behind it, and the length of the code alone.
    pub fn finish(mut self) -> (Vec<u8>, usize) {
        let len = self.len;
        let mut bytes = self.encoder.take_buffer();
        for (at, label) in self.jumps {
            let target = self.labels[label.0 as usize].unwrap_or(at);
            let delta = (target as i64 - (at as i64 + 4)) as i32;
            bytes[at..at + 4].copy_from_slice(&delta.to_le_bytes());
        }
        let mut places = Vec::new();
        for literal in &self.literals {
            bytes.resize(
                bytes
                    .len()
                    .next_multiple_of(literal.len().next_power_of_two()),
                0xCC,
            );
            places.push(bytes.len());
            bytes.extend_from_slice(literal);
        }
        for (at, end, literal) in std::mem::take(&mut self.uses) {
            let delta = (places[literal as usize] as i64 - end as i64) as i32;
            bytes[at..at + 4].copy_from_slice(&delta.to_le_bytes());
        }
        (bytes, len)
    }
}

/// The instruction of a code with any mix of operands.
fn instruction(code: Code, ops: &[Opnd]) -> Result<Instruction, String> {
    use Opnd::{Imm, Mem, Reg};
    let res = match *ops {
        [] => Ok(Instruction::with(code)),
        [Reg(a)] => Instruction::with1(code, a),
        [Mem(a)] => Instruction::with1(code, a),
        [Reg(a), Reg(b)] => Instruction::with2(code, a, b),
        [Reg(a), Mem(b)] => Instruction::with2(code, a, b),
        [Mem(a), Reg(b)] => Instruction::with2(code, a, b),
        [Reg(a), Imm(b)] => Instruction::with2(code, a, b),
        [Mem(a), Imm(b)] => Instruction::with2(code, a, b),
        [Reg(a), Reg(b), Reg(c)] => Instruction::with3(code, a, b, c),
        [Reg(a), Reg(b), Mem(c)] => Instruction::with3(code, a, b, c),
        [Reg(a), Reg(b), Imm(c)] => Instruction::with3(code, a, b, c),
        [Reg(a), Mem(b), Imm(c)] => Instruction::with3(code, a, b, c),
        [Reg(a), Mem(b), Reg(c)] => Instruction::with3(code, a, b, c),
        [Mem(a), Reg(b), Reg(c)] => Instruction::with3(code, a, b, c),
        [Mem(a), Reg(b), Imm(c)] => Instruction::with3(code, a, b, c),
        [Reg(a), Reg(b), Reg(c), Reg(d)] => Instruction::with4(code, a, b, c, d),
        [Reg(a), Reg(b), Mem(c), Reg(d)] => Instruction::with4(code, a, b, c, d),
        [Reg(a), Reg(b), Reg(c), Imm(d)] => Instruction::with4(code, a, b, c, d),
        [Reg(a), Reg(b), Mem(c), Imm(d)] => Instruction::with4(code, a, b, c, d),
        _ => return Err("no such form".to_owned()),
    };
    res.map_err(|why| why.to_string())
}
