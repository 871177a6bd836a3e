//! The text of vector IR: [`print`] and [`parse`], each the other's inverse. The form is shown in `vir.rs`.

use super::vir::{BinOp, CmpOp, Elem, Func, Inst, IntOp, Mem, Reg, Src, Ty, UnOp};

const INT_OPS: [(&str, IntOp); 7] = [
    ("add", IntOp::Add),
    ("sub", IntOp::Sub),
    ("mul", IntOp::Mul),
    ("div", IntOp::Div),
    ("mod", IntOp::Mod),
    ("min", IntOp::Min),
    ("max", IntOp::Max),
];
const CMP_OPS: [(&str, CmpOp); 6] = [
    ("eq", CmpOp::Eq),
    ("ne", CmpOp::Ne),
    ("lt", CmpOp::Lt),
    ("le", CmpOp::Le),
    ("gt", CmpOp::Gt),
    ("ge", CmpOp::Ge),
];
const UN_OPS: [(&str, UnOp); 10] = [
    ("copy", UnOp::Copy),
    ("sqrt", UnOp::Sqrt),
    ("floor", UnOp::Floor),
    ("ceil", UnOp::Ceil),
    ("trunc", UnOp::Trunc),
    ("round", UnOp::Round),
    ("round_half", UnOp::RoundHalf),
    ("to_int", UnOp::ToInt),
    ("to_float", UnOp::ToFloat),
    ("not", UnOp::Not),
];
const BIN_OPS: [(&str, BinOp); 14] = [
    ("add", BinOp::Add),
    ("sub", BinOp::Sub),
    ("mul", BinOp::Mul),
    ("div", BinOp::Div),
    ("min", BinOp::Min),
    ("max", BinOp::Max),
    ("and", BinOp::And),
    ("or", BinOp::Or),
    ("xor", BinOp::Xor),
    ("and_not", BinOp::AndNot),
    ("shl", BinOp::Shl),
    ("shr", BinOp::Shr),
    ("sar", BinOp::Sar),
    ("pairs", BinOp::Pairs),
];
const ELEMS: [(&str, Elem); 7] = [
    ("f32", Elem::F32),
    ("i32", Elem::I32),
    ("f16", Elem::F16),
    ("i16", Elem::I16),
    ("i8", Elem::I8),
    ("u8", Elem::U8),
    ("i8pair", Elem::I8Pair),
];
const TYPES: [(&str, Ty); 4] = [
    ("i", Ty::Int),
    ("f", Ty::F32),
    ("d", Ty::I32),
    ("m", Ty::Mask),
];

fn name_in<T: PartialEq>(table: &[(&'static str, T)], value: &T) -> &'static str {
    table
        .iter()
        .find(|(_, other)| other == value)
        .map_or("?", |(name, _)| name)
}

fn value_in<T: Copy>(table: &[(&'static str, T)], name: &str) -> Option<T> {
    table
        .iter()
        .find(|(other, _)| *other == name)
        .map(|(_, value)| *value)
}

/// A function as text.
pub fn print(func: &Func) -> String {
    let mut printer = Printer {
        func,
        text: format!("lanes {}\n", func.lanes),
        depth: 0,
    };
    printer.block(&func.body);
    printer.text
}

struct Printer<'a> {
    func: &'a Func,
    text: String,
    depth: usize,
}

impl Printer<'_> {
    fn line(&mut self, line: &str) {
        self.text.push_str(&"  ".repeat(self.depth));
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn reg(&self, reg: Reg) -> String {
        format!("{}{}", name_in(&TYPES, &self.func.ty(reg)), reg.0)
    }

    fn src(&self, src: Src) -> String {
        match src {
            Src::Reg(reg) => self.reg(reg),
            Src::Imm(imm) => imm.to_string(),
        }
    }

    fn mem(&self, mem: &Mem) -> String {
        let mut text = format!("[{}", self.reg(mem.base));
        if let Some((index, scale)) = mem.index {
            text.push_str(&format!(" + {}*{scale}", self.reg(index)));
        }
        if mem.disp != 0 {
            let sign = if mem.disp < 0 { '-' } else { '+' };
            text.push_str(&format!(" {sign} {}", mem.disp.unsigned_abs()));
        }
        text + "]"
    }

    fn under(&self, mask: Option<Reg>) -> String {
        mask.map_or_else(String::new, |mask| format!(" if {}", self.reg(mask)))
    }

    fn block(&mut self, block: &[Inst]) {
        for inst in block {
            match inst {
                Inst::Loop {
                    counter,
                    count,
                    body,
                } => {
                    let head = format!("loop {} = {} {{", self.reg(*counter), self.src(*count));
                    self.line(&head);
                    self.nested(body);
                    self.line("}");
                }
                Inst::If {
                    op,
                    a,
                    b,
                    then,
                    orelse,
                } => {
                    let (op, a, b) = (name_in(&CMP_OPS, op), self.src(*a), self.src(*b));
                    self.line(&format!("if {op} {a} {b} {{"));
                    self.nested(then);
                    if !orelse.is_empty() {
                        self.line("} else {");
                        self.nested(orelse);
                    }
                    self.line("}");
                }
                inst => {
                    let what = self.inst(inst);
                    let line = match inst.dst() {
                        Some(dst) => format!("{} = {what}", self.reg(dst)),
                        None => what,
                    };
                    self.line(&line);
                }
            }
        }
    }

    fn nested(&mut self, block: &[Inst]) {
        self.depth += 1;
        self.block(block);
        self.depth -= 1;
    }

    // tidy: table
    fn inst(&self, inst: &Inst) -> String {
        let r = |reg: &Reg| self.reg(*reg);
        match inst {
            Inst::Arg { slot, .. } => format!("arg {slot}"),
            Inst::Const { bits, .. } => format!("const {bits:#010x}"),
            Inst::Move { src, .. } => format!("move {}", self.src(*src)),
            Inst::Int { op, a, b, .. } => {
                format!(
                    "{} {} {}",
                    name_in(&INT_OPS, op),
                    self.src(*a),
                    self.src(*b)
                )
            }
            Inst::Splat { src, .. } => format!("splat {}", r(src)),
            Inst::Iota { .. } => "iota".to_owned(),
            Inst::Lanes { count, .. } => format!("lanes {}", r(count)),
            Inst::Un { op, a, .. } => format!("{} {}", name_in(&UN_OPS, op), r(a)),
            Inst::Bin { op, a, b, .. } => {
                format!("{} {} {}", name_in(&BIN_OPS, op), r(a), r(b))
            }
            Inst::Fma { neg, a, b, c, .. } => {
                format!(
                    "{} {} {} {}",
                    if *neg { "fnma" } else { "fma" },
                    r(a),
                    r(b),
                    r(c)
                )
            }
            Inst::Cmp { op, a, b, .. } => {
                format!("{} {} {}", name_in(&CMP_OPS, op), r(a), r(b))
            }
            Inst::Select { mask, a, b, .. } => format!("select {} {} {}", r(mask), r(a), r(b)),
            Inst::Load {
                elem, mem, mask, ..
            } => {
                format!(
                    "load {} {}{}",
                    name_in(&ELEMS, elem),
                    self.mem(mem),
                    self.under(*mask)
                )
            }
            Inst::Broadcast { elem, mem, .. } => {
                format!("broadcast {} {}", name_in(&ELEMS, elem), self.mem(mem))
            }
            Inst::Store {
                elem,
                mem,
                src,
                mask,
            } => {
                let (elem, to) = (name_in(&ELEMS, elem), self.mem(mem));
                format!("store {elem} {to} {}{}", r(src), self.under(*mask))
            }
            Inst::StoreOne { elem, mem, src } => {
                format!(
                    "store_one {} {} {}",
                    name_in(&ELEMS, elem),
                    self.mem(mem),
                    r(src)
                )
            }
            Inst::Prefetch { mem } => format!("prefetch {}", self.mem(mem)),
            Inst::Reduce { op, src, .. } => format!("reduce {} {}", name_in(&BIN_OPS, op), r(src)),
            Inst::Loop { .. } | Inst::If { .. } => String::new(),
            Inst::Line(line) => format!("line {line}"),
        }
    }
}

/// The function of a text.
///
/// # Errors
/// The number of the first line that is not vector IR.
pub fn parse(text: &str) -> Result<Func, usize> {
    let mut parser = Parser {
        lines: text.lines().collect(),
        at: 0,
        types: Vec::new(),
    };
    let lanes = parser
        .lines
        .first()
        .and_then(|line| line.strip_prefix("lanes ")?.parse().ok());
    parser.at = 1;
    let body = parser.block(0).ok_or(parser.at)?;
    let lanes = lanes.ok_or(1usize)?;
    if parser.at < parser.lines.len() {
        return Err(parser.at + 1);
    }
    let types = parser
        .types
        .iter()
        .map(|ty| ty.unwrap_or(Ty::Int))
        .collect();
    Ok(Func { lanes, types, body })
}

struct Parser<'a> {
    lines: Vec<&'a str>,
    at: usize,
    types: Vec<Option<Ty>>,
}

impl Parser<'_> {
    /// Lines up to a closing one, which stays.
    fn block(&mut self, depth: usize) -> Option<Vec<Inst>> {
        let mut res = Vec::new();
        while let Some(line) = self.lines.get(self.at).map(|line| line.trim()) {
            if line.starts_with('}') && depth > 0 {
                return Some(res);
            }
            self.at += 1;
            let words: Vec<&str> = line.split(' ').collect();
            res.push(match words.as_slice() {
                ["loop", counter, "=", count, "{"] => {
                    let (counter, count) = (self.reg(counter)?, self.src(count)?);
                    let body = self.block(depth + 1)?;
                    self.close("}")?;
                    Inst::Loop {
                        counter,
                        count,
                        body,
                    }
                }
                ["if", op, a, b, "{"] => {
                    let op = value_in(&CMP_OPS, op)?;
                    let (a, b) = (self.src(a)?, self.src(b)?);
                    let then = self.block(depth + 1)?;
                    let mut orelse = Vec::new();
                    if self.close("} else {").is_some() {
                        orelse = self.block(depth + 1)?;
                    }
                    self.close("}")?;
                    Inst::If {
                        op,
                        a,
                        b,
                        then,
                        orelse,
                    }
                }
                [dst, "=", what @ ..] => {
                    let dst = self.reg(dst)?;
                    self.value(dst, what)?
                }
                ["line", line] => Inst::Line(line.parse().ok()?),
                what => self.effect(what)?,
            });
        }
        (depth == 0).then_some(res)
    }

    fn close(&mut self, line: &str) -> Option<()> {
        (self.lines.get(self.at)?.trim() == line).then(|| self.at += 1)
    }

    fn reg(&mut self, text: &str) -> Option<Reg> {
        let ty = value_in(&TYPES, text.get(..1)?)?;
        let number: u32 = text.get(1..)?.parse().ok()?;
        // A limit, so that no text makes a huge table.
        (number < 1 << 20).then_some(())?;
        let at = number as usize;
        if self.types.len() <= at {
            self.types.resize(at + 1, None);
        }
        (*self.types[at].get_or_insert(ty) == ty).then_some(Reg(number))
    }

    fn src(&mut self, text: &str) -> Option<Src> {
        match text.parse() {
            Ok(imm) => Some(Src::Imm(imm)),
            Err(_) => Some(Src::Reg(self.reg(text)?)),
        }
    }

    /// An address, and the words behind it.
    fn mem<'w>(&mut self, words: &'w [&'w str]) -> Option<(Mem, &'w [&'w str])> {
        let len = words.iter().position(|word| word.ends_with(']'))? + 1;
        let (mem, rest) = words.split_at(len);
        let mem: Vec<&str> = mem
            .iter()
            .map(|word| word.trim_matches(['[', ']']))
            .collect();
        let (base, mut more) = mem.split_first()?;
        let mut res = Mem::at(self.reg(base)?, 0);
        while let [sign, part, behind @ ..] = more {
            if let Some((index, scale)) = part.split_once('*') {
                res.index = Some((self.reg(index)?, scale.parse().ok()?));
            } else {
                let disp: i64 = part.parse().ok()?;
                res.disp = i32::try_from(if *sign == "-" { -disp } else { disp }).ok()?;
            }
            more = behind;
        }
        Some((res, rest))
    }

    fn under(&mut self, words: &[&str]) -> Option<Option<Reg>> {
        match words {
            [] => Some(None),
            ["if", mask] => Some(Some(self.reg(mask)?)),
            _ => None,
        }
    }

    // tidy: table
    fn value(&mut self, dst: Reg, what: &[&str]) -> Option<Inst> {
        let is_int = self.types[dst.0 as usize] == Some(Ty::Int);
        Some(match what {
            ["arg", slot] => Inst::Arg {
                dst,
                slot: slot.parse().ok()?,
            },
            ["const", bits] => Inst::Const {
                dst,
                bits: u32::from_str_radix(bits.strip_prefix("0x")?, 16).ok()?,
            },
            ["move", src] => Inst::Move {
                dst,
                src: self.src(src)?,
            },
            ["splat", src] => Inst::Splat {
                dst,
                src: self.reg(src)?,
            },
            ["iota"] => Inst::Iota { dst },
            ["lanes", count] => Inst::Lanes {
                dst,
                count: self.reg(count)?,
            },
            ["select", mask, a, b] => Inst::Select {
                dst,
                mask: self.reg(mask)?,
                a: self.reg(a)?,
                b: self.reg(b)?,
            },
            [op @ ("fma" | "fnma"), a, b, c] => {
                let (a, b, c) = (self.reg(a)?, self.reg(b)?, self.reg(c)?);
                Inst::Fma {
                    neg: *op == "fnma",
                    dst,
                    a,
                    b,
                    c,
                }
            }
            ["reduce", op, src] => Inst::Reduce {
                op: value_in(&BIN_OPS, op)?,
                dst,
                src: self.reg(src)?,
            },
            ["load", elem, rest @ ..] => {
                let elem = value_in(&ELEMS, elem)?;
                let (mem, rest) = self.mem(rest)?;
                Inst::Load {
                    dst,
                    elem,
                    mem,
                    mask: self.under(rest)?,
                }
            }
            ["broadcast", elem, rest @ ..] => {
                let elem = value_in(&ELEMS, elem)?;
                let (mem, []) = self.mem(rest)? else {
                    return None;
                };
                Inst::Broadcast { dst, elem, mem }
            }
            [op, a, b] if is_int => {
                let op = value_in(&INT_OPS, op)?;
                Inst::Int {
                    op,
                    dst,
                    a: self.src(a)?,
                    b: self.src(b)?,
                }
            }
            [op, a, b] => {
                let (a, b) = (self.reg(a)?, self.reg(b)?);
                match value_in(&CMP_OPS, op) {
                    Some(op) => Inst::Cmp { op, dst, a, b },
                    None => Inst::Bin {
                        op: value_in(&BIN_OPS, op)?,
                        dst,
                        a,
                        b,
                    },
                }
            }
            [op, a] => Inst::Un {
                op: value_in(&UN_OPS, op)?,
                dst,
                a: self.reg(a)?,
            },
            _ => return None,
        })
    }

    fn effect(&mut self, what: &[&str]) -> Option<Inst> {
        if let ["prefetch", rest @ ..] = what {
            let (mem, rest) = self.mem(rest)?;
            return rest.is_empty().then_some(Inst::Prefetch { mem });
        }
        let [op, elem, rest @ ..] = what else {
            return None;
        };
        let elem = value_in(&ELEMS, elem)?;
        let (mem, rest) = self.mem(rest)?;
        let (src, rest) = rest.split_first()?;
        let src = self.reg(src)?;
        match (*op, rest) {
            ("store", rest) => Some(Inst::Store {
                elem,
                mem,
                src,
                mask: self.under(rest)?,
            }),
            ("store_one", []) => Some(Inst::StoreOne { elem, mem, src }),
            _ => None,
        }
    }
}
