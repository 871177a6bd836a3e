//! Runs emitted AVX-512 code on machines without it: an interpreter of the instructions that the emitter uses, over iced's
//! decoder. It knows lanes of 32 bits, opmasks and zeroing, and stops at anything else.

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

use super::exec::{peek, poke};

type Lanes = [u32; 16];

/// The state of the machine.
struct Machine {
    gpr: [u64; 16],
    zmm: [Lanes; 32],
    k: [u16; 8],
    /// Both sides of the last comparison, or a result and 0.
    flags: (i64, i64),
    stack: Vec<u64>,
}

/// Calls code with an array of arguments.
pub fn call(code: &[u8], args: &[u64]) {
    let mut stack = vec![0u64; 1 << 16];
    let mut machine = Machine {
        gpr: [0xDEAD_BEEF; 16],
        zmm: [[0x7FC0_0000; 16]; 32],
        k: [0x5555; 8],
        flags: (0, 0),
        stack: Vec::new(),
    };
    let top = (stack.as_mut_ptr() as u64 + 8 * ((1 << 16) - 64)) & !63;
    machine.gpr[4] = top;
    machine.gpr[7] = args.as_ptr() as u64;
    let saved = machine.gpr;
    let base = code.as_ptr() as u64;
    let mut decoder = Decoder::with_ip(64, code, base, DecoderOptions::NONE);
    loop {
        let inst = decoder.decode();
        assert_ne!(inst.code(), Code::INVALID, "at {:x}", inst.ip() - base);
        match inst.mnemonic() {
            Mnemonic::Ret => break,
            Mnemonic::Jmp => jump(&mut decoder, &inst, base),
            mnemonic => match machine.holds(mnemonic) {
                Some(true) => jump(&mut decoder, &inst, base),
                Some(false) => {}
                None => machine.step(&inst),
            },
        }
    }
    for n in [3, 4, 5, 12, 13, 14, 15] {
        assert_eq!(machine.gpr[n], saved[n], "register {n} is not kept");
    }
}

fn jump(decoder: &mut Decoder<'_>, inst: &Instruction, base: u64) {
    let target = inst.near_branch64();
    decoder
        .set_position((target - base) as usize)
        .expect("a target inside the code");
    decoder.set_ip(target);
}

fn number(reg: Register) -> usize {
    let at = |first: Register| reg as usize - first as usize;
    match reg {
        _ if (Register::RAX..=Register::R15).contains(&reg) => at(Register::RAX),
        _ if (Register::EAX..=Register::R15D).contains(&reg) => at(Register::EAX),
        _ if (Register::XMM0..=Register::XMM31).contains(&reg) => at(Register::XMM0),
        _ if (Register::YMM0..=Register::YMM31).contains(&reg) => at(Register::YMM0),
        _ if (Register::ZMM0..=Register::ZMM31).contains(&reg) => at(Register::ZMM0),
        _ if (Register::K0..=Register::K7).contains(&reg) => at(Register::K0),
        _ => panic!("{reg:?}"),
    }
}

fn is_vector(reg: Register) -> bool {
    (Register::XMM0..=Register::ZMM31).contains(&reg)
}

impl Machine {
    fn address(&self, inst: &Instruction) -> u64 {
        let base = match inst.memory_base() {
            Register::RIP => return inst.memory_displacement64(),
            Register::None => 0,
            reg => self.gpr[number(reg)],
        };
        let index = match inst.memory_index() {
            Register::None => 0,
            reg => self.gpr[number(reg)].wrapping_mul(u64::from(inst.memory_index_scale())),
        };
        base.wrapping_add(index)
            .wrapping_add(inst.memory_displacement64())
    }

    fn is_memory(inst: &Instruction, op: u32) -> bool {
        inst.op_kind(op) == OpKind::Memory
    }

    fn int(&self, inst: &Instruction, op: u32) -> u64 {
        match inst.op_kind(op) {
            OpKind::Register => {
                let reg = inst.op_register(op);
                let value = self.gpr[number(reg)];
                if reg >= Register::RAX {
                    value
                } else {
                    value & 0xFFFF_FFFF
                }
            }
            OpKind::Memory => {
                let mut bytes = [0; 8];
                let size = inst.memory_size().size().min(8);
                peek(self.address(inst), &mut bytes[..size]);
                u64::from_le_bytes(bytes)
            }
            _ => inst.immediate(op),
        }
    }

    fn set_int(&mut self, inst: &Instruction, value: u64) {
        match inst.op_kind(0) {
            OpKind::Register => {
                let reg = inst.op0_register();
                let value = if reg >= Register::RAX {
                    value
                } else {
                    value & 0xFFFF_FFFF
                };
                self.gpr[number(reg)] = value;
            }
            _ => poke(
                self.address(inst),
                &value.to_le_bytes()[..inst.memory_size().size()],
            ),
        }
    }

    /// The lanes of an operand; of memory, those that are asked for.
    fn lanes(&self, inst: &Instruction, op: u32, mask: u16) -> Lanes {
        if !Self::is_memory(inst, op) {
            return self.zmm[number(inst.op_register(op))];
        }
        let at = self.address(inst);
        std::array::from_fn(|lane| {
            let mut bytes = [0; 4];
            if mask >> lane & 1 == 1 {
                peek(at + 4 * lane as u64, &mut bytes);
            }
            u32::from_le_bytes(bytes)
        })
    }

    /// Narrow elements of memory or of the low part of a register.
    fn narrow(&self, inst: &Instruction, op: u32, size: usize, mask: u16) -> [u32; 16] {
        let at = if Self::is_memory(inst, op) {
            Some(self.address(inst))
        } else {
            None
        };
        let from = at.is_none().then(|| self.zmm[number(inst.op_register(op))]);
        let whole: Vec<u8> = from
            .iter()
            .flatten()
            .flat_map(|lane| lane.to_le_bytes())
            .collect();
        std::array::from_fn(|lane| {
            let mut bytes = [0; 4];
            if mask >> lane & 1 == 1 {
                match at {
                    Some(at) => peek(at + (size * lane) as u64, &mut bytes[..size]),
                    None => bytes[..size].copy_from_slice(&whole[size * lane..size * (lane + 1)]),
                }
            }
            u32::from_le_bytes(bytes)
        })
    }

    fn mask(&self, inst: &Instruction) -> u16 {
        match inst.op_mask() {
            Register::None => u16::MAX,
            reg => self.k[number(reg)],
        }
    }

    /// Writes a result: under the mask, zeroing or merging.
    fn set_lanes(&mut self, inst: &Instruction, value: Lanes) {
        let mask = self.mask(inst);
        if Self::is_memory(inst, 0) {
            let at = self.address(inst);
            for (lane, value) in value
                .iter()
                .enumerate()
                .filter(|(lane, _)| mask >> lane & 1 == 1)
            {
                poke(at + 4 * lane as u64, &value.to_le_bytes());
            }
            return;
        }
        let zeroing = inst.zeroing_masking();
        let to = &mut self.zmm[number(inst.op0_register())];
        for lane in 0..16 {
            if mask >> lane & 1 == 1 {
                to[lane] = value[lane];
            } else if zeroing {
                to[lane] = 0;
            }
        }
    }

    /// Whether a branch is taken; `None` when the instruction is none.
    fn holds(&self, branch: Mnemonic) -> Option<bool> {
        let (a, b) = self.flags;
        match branch {
            Mnemonic::Je => Some(a == b),
            Mnemonic::Jne => Some(a != b),
            Mnemonic::Jl => Some(a < b),
            Mnemonic::Jge | Mnemonic::Jns => Some(a >= b),
            Mnemonic::Jle => Some(a <= b),
            Mnemonic::Jg => Some(a > b),
            _ => None,
        }
    }

    fn step(&mut self, inst: &Instruction) {
        let first = inst.op_kind(0);
        let mask_op = first == OpKind::Register
            && inst.op_count() > 0
            && (Register::K0..=Register::K7).contains(&inst.op0_register());
        let vector = (0..inst.op_count())
            .any(|op| inst.op_kind(op) == OpKind::Register && is_vector(inst.op_register(op)));
        if matches!(
            inst.mnemonic(),
            Mnemonic::Vzeroupper | Mnemonic::Nop | Mnemonic::Prefetcht0
        ) {
            return;
        }
        if mask_op || inst.mnemonic() == Mnemonic::Kmovw {
            self.step_mask(inst);
        } else if vector {
            self.step_vector(inst);
        } else {
            self.step_int(inst);
        }
    }

    fn step_int(&mut self, inst: &Instruction) {
        use Mnemonic as M;
        let read = |op| self.int(inst, op);
        let value = match inst.mnemonic() {
            M::Mov => read(1),
            M::Lea => self.address(inst),
            M::Add => read(0).wrapping_add(read(1)),
            M::Sub => read(0).wrapping_sub(read(1)),
            M::And => read(0) & read(1),
            M::Xor => read(0) ^ read(1),
            M::Imul => {
                let (a, b) = if inst.op_count() == 3 { (1, 2) } else { (0, 1) };
                read(a).wrapping_mul(read(b))
            }
            M::Shl => read(0) << read(1),
            M::Sar => (read(0) as i64 >> read(1)) as u64,
            M::Dec => read(0).wrapping_sub(1),
            M::Bzhi => read(1) & ((1u64 << (read(2) & 0xFF).min(32)) - 1),
            M::Cmp => {
                self.flags = (read(0) as i64, read(1) as i64);
                return;
            }
            M::Test => {
                self.flags = ((read(0) & read(1)) as i64, 0);
                return;
            }
            M::Cmovg => {
                if self.flags.0 > self.flags.1 {
                    read(1)
                } else {
                    read(0)
                }
            }
            M::Cmovl => {
                if self.flags.0 < self.flags.1 {
                    read(1)
                } else {
                    read(0)
                }
            }
            M::Push => {
                let value = read(0);
                self.gpr[4] -= 8;
                poke(self.gpr[4], &value.to_le_bytes());
                self.stack.push(value);
                return;
            }
            M::Pop => {
                self.stack.pop();
                let mut bytes = [0; 8];
                peek(self.gpr[4], &mut bytes);
                self.gpr[4] += 8;
                u64::from_le_bytes(bytes)
            }
            M::Cqo => {
                self.gpr[2] = ((self.gpr[0] as i64) >> 63) as u64;
                return;
            }
            M::Idiv => {
                let by = read(0) as i64;
                let value = self.gpr[0] as i64;
                (self.gpr[0], self.gpr[2]) = ((value / by) as u64, (value % by) as u64);
                return;
            }
            other => panic!("{other:?}"),
        };
        if matches!(inst.mnemonic(), M::Dec | M::Xor | M::And) {
            self.flags = (value as i64, 0);
        }
        self.set_int(inst, value);
    }

    fn step_mask(&mut self, inst: &Instruction) {
        use Mnemonic as M;
        let k = |op| self.k[number(inst.op_register(op))];
        let value = match inst.mnemonic() {
            M::Kmovw if inst.op_kind(0) == OpKind::Memory => {
                poke(self.address(inst), &k(1).to_le_bytes());
                return;
            }
            M::Kmovw => self.int(inst, 1) as u16,
            M::Kandw => k(1) & k(2),
            M::Kandnw => !k(1) & k(2),
            M::Korw => k(1) | k(2),
            M::Kxorw => k(1) ^ k(2),
            M::Kxnorw => !(k(1) ^ k(2)),
            M::Knotw => !k(1),
            M::Vcmpps | M::Vpcmpd => {
                let (a, b) = (self.lanes(inst, 1, u16::MAX), self.lanes(inst, 2, u16::MAX));
                let float = inst.mnemonic() == M::Vcmpps;
                let how = inst.immediate8();
                (0..16).fold(0, |sum, lane| {
                    let one = if float {
                        compare_floats(how, f32::from_bits(a[lane]), f32::from_bits(b[lane]))
                    } else {
                        compare_ints(how, a[lane] as i32, b[lane] as i32)
                    };
                    sum | u16::from(one) << lane
                })
            }
            other => panic!("{other:?}"),
        };
        self.k[number(inst.op0_register())] = value;
    }

    fn step_vector(&mut self, inst: &Instruction) {
        // tidy: table
        use Mnemonic as M;
        let all = u16::MAX;
        let mask = self.mask(inst);
        let map2 = |m: &Self, f: &dyn Fn(u32, u32) -> u32| -> Lanes {
            let (a, b) = (m.lanes(inst, 1, all), m.lanes(inst, 2, all));
            std::array::from_fn(|lane| f(a[lane], b[lane]))
        };
        let float2 = |m: &Self, f: &dyn Fn(f32, f32) -> f32| {
            map2(m, &|a, b| f(f32::from_bits(a), f32::from_bits(b)).to_bits())
        };
        let map1 = |m: &Self, f: &dyn Fn(u32) -> u32| m.lanes(inst, 1, all).map(f);
        let fused = |m: &Self, order: [u32; 3], neg: bool| -> Lanes {
            let ops = order.map(|op| m.lanes(inst, op, all).map(f32::from_bits));
            std::array::from_fn(|lane| {
                let [a, b, c] = [ops[0][lane], ops[1][lane], ops[2][lane]];
                (if neg { -a } else { a }).mul_add(b, c).to_bits()
            })
        };
        let value = match inst.mnemonic() {
            M::Vmovups | M::Vmovaps => self.lanes(inst, 1, mask),
            M::Vbroadcastss => [self.lanes(inst, 1, 1)[0]; 16],
            M::Vpbroadcastd => [self.int(inst, 1) as u32; 16],
            M::Vpbroadcastb => [self.narrow(inst, 1, 1, 1)[0] * 0x0101_0101; 16],
            M::Vpbroadcastw => [self.narrow(inst, 1, 2, 1)[0] * 0x1_0001; 16],
            M::Vmovss => {
                let low = self.lanes(inst, 1, 1)[0];
                poke(self.address(inst), &low.to_le_bytes());
                return;
            }
            M::Vpextrb | M::Vpextrw => {
                let size = if inst.mnemonic() == M::Vpextrb { 1 } else { 2 };
                let low = self.lanes(inst, 1, 1)[0];
                poke(self.address(inst), &low.to_le_bytes()[..size]);
                return;
            }
            M::Vpmovsxbd => self.narrow(inst, 1, 1, mask).map(|byte| byte as i8 as u32),
            M::Vpmovzxbd => self.narrow(inst, 1, 1, mask),
            M::Vpmovsxwd => self.narrow(inst, 1, 2, mask).map(|word| word as i16 as u32),
            M::Vpmovsxbw => self.narrow(inst, 1, 2, all).map(|pair| {
                let [low, high, ..] = pair.to_le_bytes();
                join_words(low as i8 as u16, high as i8 as u16)
            }),
            M::Vmovdqu16 => {
                let words = self.narrow(inst, 1, 2, mask);
                self.zmm[number(inst.op0_register())] = std::array::from_fn(|lane| match lane {
                    0..8 => words[2 * lane] | words[2 * lane + 1] << 16,
                    _ => 0,
                });
                return;
            }
            M::Vpmaddwd => map2(self, &|a, b| {
                let product = |by: u32| i32::from((a >> by) as i16) * i32::from((b >> by) as i16);
                product(0).wrapping_add(product(16)) as u32
            }),
            M::Vcvtph2ps => self
                .narrow(inst, 1, 2, mask)
                .map(|bits| half::f16::from_bits(bits as u16).to_f32().to_bits()),
            M::Vpmovdb | M::Vpmovdw | M::Vcvtps2ph => return self.store_narrow(inst, mask),
            M::Vaddps => float2(self, &|a, b| a + b),
            M::Vsubps => float2(self, &|a, b| a - b),
            M::Vmulps => float2(self, &|a, b| a * b),
            M::Vdivps => float2(self, &|a, b| a / b),
            M::Vminps => float2(self, &|a, b| if a < b { a } else { b }),
            M::Vmaxps => float2(self, &|a, b| if a > b { a } else { b }),
            M::Vpaddd => map2(self, &u32::wrapping_add),
            M::Vpsubd => map2(self, &u32::wrapping_sub),
            M::Vpmulld => map2(self, &u32::wrapping_mul),
            M::Vpminsd => map2(self, &|a, b| (a as i32).min(b as i32) as u32),
            M::Vpmaxsd => map2(self, &|a, b| (a as i32).max(b as i32) as u32),
            M::Vpandd => map2(self, &|a, b| a & b),
            M::Vpandnd => map2(self, &|a, b| !a & b),
            M::Vpord => map2(self, &|a, b| a | b),
            M::Vpxord => map2(self, &|a, b| a ^ b),
            M::Vpsllvd => map2(self, &|a, b| a.checked_shl(b).unwrap_or(0)),
            M::Vpsrlvd => map2(self, &|a, b| a.checked_shr(b).unwrap_or(0)),
            M::Vpsravd => map2(self, &|a, b| ((a as i32) >> b.min(31)) as u32),
            M::Vsqrtps => map1(self, &|a| f32::from_bits(a).sqrt().to_bits()),
            M::Vcvtdq2ps => map1(self, &|a| (a as i32 as f32).to_bits()),
            M::Vcvttps2dq => map1(self, &|a| truncate(f32::from_bits(a))),
            M::Vrndscaleps => {
                let how = inst.immediate8();
                assert_eq!(how & 0xF8, 8);
                map1(self, &|a| round(how & 3, f32::from_bits(a)).to_bits())
            }
            M::Vfmadd132ps => fused(self, [0, 2, 1], false),
            M::Vfmadd213ps => fused(self, [1, 0, 2], false),
            M::Vfmadd231ps => fused(self, [1, 2, 0], false),
            M::Vfnmadd132ps => fused(self, [0, 2, 1], true),
            M::Vfnmadd213ps => fused(self, [1, 0, 2], true),
            M::Vfnmadd231ps => fused(self, [1, 2, 0], true),
            M::Vblendmps => {
                let (no, yes) = (self.lanes(inst, 1, all), self.lanes(inst, 2, all));
                let value = std::array::from_fn(|lane| {
                    if mask >> lane & 1 == 1 {
                        yes[lane]
                    } else {
                        no[lane]
                    }
                });
                self.zmm[number(inst.op0_register())] = value;
                return;
            }
            M::Vshufps | M::Vshuff32x4 => self.shuffled(inst),
            other => panic!("{other:?}"),
        };
        self.set_lanes(inst, value);
    }

    fn shuffled(&self, inst: &Instruction) -> Lanes {
        let how = inst.immediate8();
        let (a, b) = (self.lanes(inst, 1, u16::MAX), self.lanes(inst, 2, u16::MAX));
        std::array::from_fn(|lane| match inst.mnemonic() {
            Mnemonic::Vshufps => {
                let from = usize::from(how >> (lane % 4 * 2) & 3) + lane / 4 * 4;
                if lane % 4 < 2 { a[from] } else { b[from] }
            }
            _ => {
                let from = usize::from(how >> (lane / 4 * 2) & 3) * 4 + lane % 4;
                if lane < 8 { a[from] } else { b[from] }
            }
        })
    }

    /// Stores of narrow elements, to memory or the low part of a register.
    fn store_narrow(&mut self, inst: &Instruction, mask: u16) {
        let is_half = inst.mnemonic() == Mnemonic::Vcvtps2ph;
        let size = if inst.mnemonic() == Mnemonic::Vpmovdb {
            1
        } else {
            2
        };
        let from = self.lanes(inst, 1, u16::MAX).map(|lane| {
            if is_half {
                u32::from(half::f16::from_f32(f32::from_bits(lane)).to_bits())
            } else {
                lane
            }
        });
        if !Self::is_memory(inst, 0) {
            let packed = std::array::from_fn(|lane| {
                let at = 2 * lane % 16;
                if is_half && lane < 8 {
                    from[at] | from[at + 1] << 16
                } else {
                    0
                }
            });
            self.zmm[number(inst.op0_register())] = packed;
            return;
        }
        let at = self.address(inst);
        for (lane, value) in from
            .iter()
            .enumerate()
            .filter(|(lane, _)| mask >> lane & 1 == 1)
        {
            poke(at + (size * lane) as u64, &value.to_le_bytes()[..size]);
        }
    }
}

fn join_words(low: u16, high: u16) -> u32 {
    u32::from(low) | u32::from(high) << 16
}

fn truncate(value: f32) -> u32 {
    let inside = (-2_147_483_648.0..2_147_483_648.0).contains(&value);
    (if inside { value as i32 } else { i32::MIN }) as u32
}

fn round(how: u8, value: f32) -> f32 {
    match how {
        0 => value.round_ties_even(),
        1 => value.floor(),
        2 => value.ceil(),
        _ => value.trunc(),
    }
}

fn compare_floats(how: u8, a: f32, b: f32) -> bool {
    match how {
        0x00 => a == b,
        0x04 => a != b,
        0x11 => a < b,
        0x12 => a <= b,
        0x1D => a >= b,
        0x1E => a > b,
        _ => panic!("{how}"),
    }
}

fn compare_ints(how: u8, a: i32, b: i32) -> bool {
    match how {
        0 => a == b,
        1 => a < b,
        2 => a <= b,
        4 => a != b,
        5 => a >= b,
        6 => a > b,
        _ => panic!("{how}"),
    }
}
