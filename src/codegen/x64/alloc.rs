//! Register allocation: one linear scan over structured vector IR.
//!
//! Every instruction has a position, in the order of emission; loops and branches have a position for each of their
//! ends. The interval of a register is the hull of its reads and writes, stretched over every loop at whose head it is
//! alive. Intervals are placed in order of their start; when none is free, the least used one lives in memory:
//! constants in the literal pool, arguments in the caller's array, the rest in the frame. An instruction that ends an
//! interval may write its result to the same place, and does so when it can, which saves the copy before an `fma`.

use std::collections::BTreeMap;

use crate::codegen::kernel::vir::{Func, Inst, Reg, Src, Ty};

/// How often a loop runs whose count is not known.
const UNKNOWN_ROUNDS: f64 = 32.0;

/// A set of machine registers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Class {
    /// General purpose.
    Int,
    /// Vectors.
    Vec,
    /// AVX-512 masks.
    Mask,
}

/// Where a virtual register lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loc {
    /// It is never used.
    Nowhere,
    /// The n-th register of its class.
    Reg(u8),
    /// The n-th slot of its class in the frame.
    Slot(u32),
    /// A constant in the literal pool.
    Pool(u32),
    /// A slot of the argument array.
    Arg(u32),
}

/// How many registers there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// General purpose registers.
    pub int: u8,
    /// Vector registers.
    pub vec: u8,
    /// Mask registers; 0 when masks are vectors.
    pub mask: u8,
}

impl Limits {
    /// The class of a type.
    pub fn class(self, ty: Ty) -> Class {
        match ty {
            Ty::Int => Class::Int,
            Ty::F32 | Ty::I32 => Class::Vec,
            Ty::Mask if self.mask == 0 => Class::Vec,
            Ty::Mask => Class::Mask,
        }
    }

    fn of(self, class: Class) -> u8 {
        match class {
            Class::Int => self.int,
            Class::Vec => self.vec,
            Class::Mask => self.mask,
        }
    }
}

/// The result.
#[derive(Clone, Debug)]
pub struct Allocation {
    /// By virtual register.
    pub locs: Vec<Loc>,
    /// Vector registers free for an instruction's own use, by position.
    pub temps: BTreeMap<u32, Vec<u8>>,
    /// Vector registers free for operands of an instruction that live in memory, by position.
    pub scratch: BTreeMap<u32, Vec<u8>>,
    /// Frame slots of integers, vectors and masks.
    pub slots: [u32; 3],
    /// Which general purpose registers are used.
    pub used_ints: u32,
}

/// Places every register of a function. `temps` says how many extra vector registers an instruction needs, and
/// `scratch`, by position, how many more it needs for operands that live in memory.
pub fn allocate(
    func: &Func,
    limits: Limits,
    temps: &dyn Fn(&Inst) -> u8,
    scratch: &BTreeMap<u32, u8>,
) -> Allocation {
    let mut scan = Ranges::new(func, temps);
    let mut live = BitSet::new(func.types.len());
    scan.number(&func.body, 1.0);
    scan.position = scan.end;
    scan.stretch(&func.body, &mut live);
    Placer::new(func, limits, scan).place(scratch)
}

#[derive(Clone, PartialEq)]
struct BitSet(Vec<u64>);

impl BitSet {
    fn new(len: usize) -> Self {
        Self(vec![0; len.div_ceil(64)])
    }

    fn insert(&mut self, reg: Reg) {
        self.0[reg.0 as usize / 64] |= 1 << (reg.0 % 64);
    }

    fn remove(&mut self, reg: Reg) {
        self.0[reg.0 as usize / 64] &= !(1 << (reg.0 % 64));
    }

    fn unite(&mut self, other: &Self) {
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word |= other;
        }
    }

    fn each(&self, mut f: impl FnMut(u32)) {
        for (idx, &word) in self.0.iter().enumerate() {
            let mut rest = word;
            while rest != 0 {
                f(idx as u32 * 64 + rest.trailing_zeros());
                rest &= rest - 1;
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Interval {
    start: u32,
    end: u32,
    weight: f64,
    writes: u32,
    /// Whether some instruction wants it in a register.
    hard: bool,
    /// A register that ends where this one starts, to share its place.
    hint: Option<Reg>,
}

/// Intervals, computed in two walks: a numbering one and a backward one for what loops carry.
struct Ranges<'a> {
    intervals: Vec<Interval>,
    temps: &'a dyn Fn(&Inst) -> u8,
    temp_at: Vec<(u32, u8)>,
    position: u32,
    end: u32,
}

impl<'a> Ranges<'a> {
    fn new(func: &Func, temps: &'a dyn Fn(&Inst) -> u8) -> Self {
        let empty = Interval {
            start: u32::MAX,
            end: 0,
            weight: 0.0,
            writes: 0,
            hard: false,
            hint: None,
        };
        Self {
            intervals: vec![empty; func.types.len()],
            temps,
            temp_at: Vec::new(),
            position: 0,
            end: 0,
        }
    }

    fn touch(&mut self, reg: Reg, at: u32, rate: f64) {
        let interval = &mut self.intervals[reg.0 as usize];
        interval.start = interval.start.min(at);
        interval.end = interval.end.max(at);
        interval.weight += rate;
    }

    /// Reads happen at even numbers, writes at the odd ones after them. `rate` is how often the block runs.
    fn number(&mut self, block: &[Inst], rate: f64) {
        for inst in block {
            let at = self.end * 2;
            let n_temps = (self.temps)(inst);
            if n_temps > 0 {
                self.temp_at.push((self.end, n_temps));
            }
            inst.each_src(|reg| self.touch(reg, at, rate));
            for reg in hard_sources(inst).into_iter().flatten() {
                self.intervals[reg.0 as usize].hard = true;
            }
            if let Some(dst) = inst.dst() {
                self.touch(dst, at + 1, rate);
                self.intervals[dst.0 as usize].writes += 1;
                if self.intervals[dst.0 as usize].hint.is_none() {
                    self.intervals[dst.0 as usize].hint = hint(inst);
                }
            }
            self.end += 1;
            match inst {
                Inst::Loop {
                    counter,
                    count,
                    body,
                } => {
                    let rounds = match count {
                        Src::Imm(count) => (*count).clamp(1, 1024) as f64,
                        Src::Reg(_) => UNKNOWN_ROUNDS,
                    };
                    let rate = (rate * rounds).min(1e18);
                    self.number(body, rate);
                    self.touch(*counter, self.end * 2, rate);
                    self.end += 1;
                }
                Inst::If { then, orelse, .. } => {
                    self.number(then, rate);
                    self.end += 1;
                    self.number(orelse, rate);
                    self.end += 1;
                }
                _ => {}
            }
        }
    }

    /// Walks backward with what is alive after the block in `live`, and leaves what is alive before it.
    fn stretch(&mut self, block: &[Inst], live: &mut BitSet) {
        for inst in block.iter().rev() {
            self.position -= 1;
            match inst {
                Inst::Loop { counter, body, .. } => {
                    let last = self.position;
                    let after = live.clone();
                    live.insert(*counter);
                    loop {
                        let mut head = live.clone();
                        self.position = last;
                        self.stretch(body, &mut head);
                        let before = live.clone();
                        live.unite(&head);
                        if *live == before {
                            *live = head;
                            break;
                        }
                    }
                    self.position -= 1;
                    let (start, end) = (self.position * 2 + 1, last * 2 + 1);
                    let intervals = &mut self.intervals;
                    live.each(|reg| {
                        let interval = &mut intervals[reg as usize];
                        interval.start = interval.start.min(start);
                        interval.end = interval.end.max(end);
                    });
                    // A loop may run no time at all.
                    live.unite(&after);
                }
                Inst::If { then, orelse, .. } => {
                    let mut other = live.clone();
                    self.stretch(orelse, &mut other);
                    self.position -= 1;
                    self.stretch(then, live);
                    self.position -= 1;
                    live.unite(&other);
                }
                _ => {}
            }
            if let Some(dst) = inst.dst() {
                live.remove(dst);
            }
            inst.each_src(|reg| live.insert(reg));
        }
    }
}

/// The vectors that an instruction cannot take from memory.
fn hard_sources(inst: &Inst) -> [Option<Reg>; 2] {
    use crate::codegen::kernel::vir::BinOp;
    match inst {
        Inst::Bin {
            op: BinOp::Add | BinOp::Mul | BinOp::And | BinOp::Or | BinOp::Xor,
            ..
        } => [None, None],
        Inst::Bin { a, .. } | Inst::Cmp { a, .. } => [Some(*a), None],
        Inst::Select { mask, b, .. } => [Some(*mask), Some(*b)],
        Inst::Store { src, mask, .. } => [Some(*src), *mask],
        Inst::StoreOne { src, .. } | Inst::Reduce { src, .. } => [Some(*src), None],
        _ => [None, None],
    }
}

/// The operand whose place the result had best take.
fn hint(inst: &Inst) -> Option<Reg> {
    match inst {
        Inst::Fma { c, .. } => Some(*c),
        Inst::Un { a, .. } | Inst::Bin { a, .. } => Some(*a),
        Inst::Move {
            src: Src::Reg(reg), ..
        } => Some(*reg),
        Inst::Int {
            a: Src::Reg(reg), ..
        } => Some(*reg),
        _ => None,
    }
}

/// What has no place in a register: constants cost a memory operand, arguments a load.
enum Home {
    Pool(u32),
    Arg(u32),
}

struct Placer<'a> {
    func: &'a Func,
    limits: Limits,
    intervals: Vec<Interval>,
    temp_at: Vec<(u32, u8)>,
    homes: BTreeMap<u32, Home>,
    res: Allocation,
    active: [Vec<u32>; 3],
}

/// From a write to a read two instructions later.
const AT_ONCE: u32 = 3;

/// Temporaries are negative intervals in the scan: they come in their order and are never evicted.
#[derive(Clone, Copy)]
enum Item {
    Reg(u32),
    Temp(u32),
    Scratch(u32),
}

impl<'a> Placer<'a> {
    fn new(func: &'a Func, limits: Limits, scan: Ranges<'_>) -> Self {
        let mut homes = BTreeMap::new();
        for inst in &func.body {
            if let Inst::Const { dst, bits } = inst {
                homes.insert(dst.0, Home::Pool(*bits));
            }
            if let Inst::Arg { dst, slot } = inst {
                homes.insert(dst.0, Home::Arg(*slot));
            }
        }
        let mut intervals = scan.intervals;
        homes.retain(|reg, _| intervals[*reg as usize].writes == 1);
        for (reg, home) in &homes {
            let interval = &mut intervals[*reg as usize];
            interval.weight = (interval.weight - 1.0)
                * match home {
                    Home::Pool(_) => 0.3,
                    Home::Arg(_) => 0.6,
                };
        }
        // What the next instructions read at once needs its register there, wherever else it lives.
        for interval in &mut intervals {
            if interval.start != u32::MAX && interval.end - interval.start <= AT_ONCE {
                interval.weight = f64::INFINITY;
            }
        }
        let res = Allocation {
            locs: vec![Loc::Nowhere; func.types.len()],
            temps: BTreeMap::new(),
            scratch: BTreeMap::new(),
            slots: [0; 3],
            used_ints: 0,
        };
        let temp_at = scan.temp_at;
        let active = [Vec::new(), Vec::new(), Vec::new()];
        Self {
            func,
            limits,
            intervals,
            temp_at,
            homes,
            res,
            active,
        }
    }

    fn place(mut self, scratch: &BTreeMap<u32, u8>) -> Allocation {
        let mut items: Vec<(u32, Item)> = Vec::new();
        for (reg, interval) in self.intervals.iter().enumerate() {
            if interval.start != u32::MAX {
                items.push((interval.start, Item::Reg(reg as u32)));
            }
        }
        for &(at, count) in &self.temp_at {
            items.extend((0..count).map(|_| (at * 2, Item::Temp(at))));
        }
        for (&at, &count) in scratch {
            items.extend((0..count).map(|_| (at * 2, Item::Scratch(at))));
        }
        items.sort_by_key(|&(start, item)| {
            // A temporary must find the operands of its instruction in place and come before its result.
            (start, !matches!(item, Item::Reg(_)))
        });
        // Temporaries of the instruction at hand; they end before the next position.
        let mut busy: Vec<(u32, u8)> = Vec::new();
        for (start, item) in items {
            busy.retain(|&(at, _)| start <= at * 2 + 1);
            match item {
                Item::Reg(reg) => self.place_reg(reg, start, &busy),
                Item::Temp(at) => {
                    let reg = self.place_temp(start, &busy);
                    busy.push((at, reg));
                    self.res.temps.entry(at).or_default().push(reg);
                }
                Item::Scratch(at) => {
                    let reg = self.place_temp(start, &busy);
                    busy.push((at, reg));
                    self.res.scratch.entry(at).or_default().push(reg);
                }
            }
        }
        self.res
    }

    fn class(&self, reg: u32) -> Class {
        self.limits.class(self.func.types[reg as usize])
    }

    fn retire(&mut self, class: Class, start: u32) {
        let intervals = &self.intervals;
        self.active[class as usize].retain(|&reg| intervals[reg as usize].end >= start);
    }

    fn free(&self, class: Class, busy: &[(u32, u8)]) -> Vec<u8> {
        let taken: Vec<u8> = self.active[class as usize]
            .iter()
            .filter_map(|&reg| match self.res.locs[reg as usize] {
                Loc::Reg(n) => Some(n),
                _ => None,
            })
            .chain(busy.iter().filter(|_| class == Class::Vec).map(|&(_, n)| n))
            .collect();
        (0..self.limits.of(class))
            .filter(|n| !taken.contains(n))
            .collect()
    }

    fn place_reg(&mut self, reg: u32, start: u32, busy: &[(u32, u8)]) {
        let class = self.class(reg);
        self.retire(class, start);
        let free = self.free(class, busy);
        let interval = self.intervals[reg as usize];
        let hinted = interval
            .hint
            .and_then(|hint| match self.res.locs[hint.0 as usize] {
                Loc::Reg(n) if self.class(hint.0) == class && free.contains(&n) => Some(n),
                _ => None,
            });
        // A constant outside loops is one memory operand either way.
        if interval.weight < 1.0 && !interval.hard && self.homes.contains_key(&reg) {
            self.evict(reg);
            return;
        }
        if let Some(n) = hinted.or(free.first().copied()) {
            self.take(reg, class, n);
            return;
        }
        let (victim, n) = self.cheapest(class);
        match victim {
            Some(victim) if self.before(victim, reg) => {
                self.evict(victim);
                self.active[class as usize].retain(|&other| other != victim);
                self.take(reg, class, n);
            }
            _ => self.evict(reg),
        }
    }

    /// Whether the first had better go to memory than the second.
    fn before(&self, a: u32, b: u32) -> bool {
        let (a, b) = (self.intervals[a as usize], self.intervals[b as usize]);
        a.weight < b.weight || (a.weight == b.weight && a.end > b.end)
    }

    fn cheapest(&self, class: Class) -> (Option<u32>, u8) {
        let mut best = None;
        for &reg in &self.active[class as usize] {
            if best.is_none_or(|best| self.before(reg, best)) {
                best = Some(reg);
            }
        }
        match best.map(|best| self.res.locs[best as usize]) {
            Some(Loc::Reg(n)) => (best, n),
            _ => (None, 0),
        }
    }

    fn place_temp(&mut self, start: u32, busy: &[(u32, u8)]) -> u8 {
        self.retire(Class::Vec, start);
        if let Some(&n) = self.free(Class::Vec, busy).first() {
            return n;
        }
        let (victim, n) = self.cheapest(Class::Vec);
        if let Some(victim) = victim {
            self.evict(victim);
            self.active[Class::Vec as usize].retain(|&other| other != victim);
        }
        n
    }

    fn take(&mut self, reg: u32, class: Class, n: u8) {
        self.res.locs[reg as usize] = Loc::Reg(n);
        self.active[class as usize].push(reg);
        if class == Class::Int {
            self.res.used_ints |= 1 << n;
        }
    }

    fn evict(&mut self, reg: u32) {
        let class = self.class(reg);
        self.res.locs[reg as usize] = match self.homes.get(&reg) {
            Some(Home::Pool(bits)) => Loc::Pool(*bits),
            Some(Home::Arg(slot)) => Loc::Arg(*slot),
            None => {
                let slots = &mut self.res.slots[class as usize];
                *slots += 1;
                Loc::Slot(*slots - 1)
            }
        };
    }
}
