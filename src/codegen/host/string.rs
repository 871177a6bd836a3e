//! The primitives on strings: memory for the bytes, and calls of the loops in `string_text`.

use cranelift_codegen::ir::types::{I8, I64};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value};
use irc_syntax::{DType, Expr, Span};

use super::string_text as text;
use super::{Host, HostTensor, HostValue};
use crate::check::prim::{self, BoundCall, Prim, Text};
use crate::codegen::arith::Val;
use crate::codegen::lower::{Extent, Res, unsupported};
use crate::tensor::text::{Case, case_table};
use crate::tensor::{Pattern, PatternError};

/// The most bytes that an integer is written with.
const INT_BYTES: i64 = 20;

impl Host<'_, '_, '_> {
    /// A call of a primitive on strings.
    pub fn text(&mut self, op: Text, expr: &Expr) -> Res<HostValue> {
        let call = prim::bind(Prim::Text(op), expr)?;
        let mut operands = Vec::new();
        for operand in call.operands() {
            let value = self.value(operand, None)?;
            operands.push(self.as_tensor(value, expr.span)?);
        }
        let first = operands
            .first()
            .cloned()
            .ok_or_else(|| unsupported(expr.span, "an operand is missing"))?;
        let dims = first.dims.clone();
        let res = match op {
            Text::Concat => {
                let second = operands.get(1).unwrap_or(&first);
                let (a, b) = (self.pairs(&first), self.pairs(second));
                let sizes = [self.total(&a, expr.span)?, self.total(&b, expr.span)?];
                let bytes = self.lower.b.ins().iadd(sizes[0], sizes[1]);
                self.write_strings(text::CONCAT, &[&a, &b], bytes, expr.span)?
            }
            Text::Split => return self.split(&call, &first),
            Text::Lower => self.in_case(&first, Case::Lower, expr.span)?,
            Text::Upper => self.in_case(&first, Case::Upper, expr.span)?,
            Text::FullMatch => self.full_match(&call, &first)?,
            Text::Format if first.dtype.is_float() => self.format_float(&first, expr.span)?,
            Text::Format => {
                let flat = self.flat(&first);
                let bytes = self
                    .lower
                    .extent_mul(flat.dims[0], Extent::Const(INT_BYTES));
                let bytes = self.lower.extent(bytes);
                self.write_strings(text::FORMAT_INT, &[&flat], bytes, expr.span)?
            }
            Text::Parse => self.parse(&call, &first)?,
        };
        Ok(HostValue::Tensor(HostTensor { dims, ..res }))
    }

    /// A tensor with one axis.
    fn flat(&mut self, x: &HostTensor) -> HostTensor {
        let len = self.lower.product(&x.dims);
        HostTensor {
            dims: vec![len],
            ..x.clone()
        }
    }

    /// Strings as `(n, 2)` of addresses and lengths.
    fn pairs(&mut self, x: &HostTensor) -> HostTensor {
        let len = self.lower.product(&x.dims);
        HostTensor {
            data: x.data,
            dtype: DType::I64,
            dims: vec![len, Extent::Const(2)],
        }
    }

    pub(super) fn new_tensor(&mut self, dtype: DType, dims: &[Extent]) -> Res<HostTensor> {
        Ok(HostTensor {
            data: self.alloc(dtype, dims)?,
            dtype,
            dims: dims.to_vec(),
        })
    }

    /// Memory for the bytes of strings, which no loop gives back.
    fn new_bytes(&mut self, size: Value) -> Res<HostTensor> {
        let args = [self.call, size];
        let data = self
            .lower
            .call_runtime("irc_strings_alloc", &[I64, I64], &[I64], &args)?;
        self.lower.require_pointer(data);
        Ok(HostTensor {
            data,
            dtype: DType::U8,
            dims: vec![Extent::Run(size)],
        })
    }

    /// Calls the last function of a text.
    fn run_text(
        &mut self,
        text: &str,
        dtype: DType,
        args: Vec<HostValue>,
        span: Option<Span>,
    ) -> Res<()> {
        let funcs = self.helpers(text, dtype)?;
        let func = funcs
            .last()
            .ok_or_else(|| unsupported(span, "there is no code for strings"))?;
        self.call_prim(func, args, span)
    }

    /// The number that a function has left.
    fn number(&mut self, x: &HostTensor) -> Value {
        self.number_at(x, 0)
    }

    /// One of the numbers that a function has left.
    pub(super) fn number_at(&mut self, x: &HostTensor, at: i32) -> Value {
        let flags = MemFlagsData::trusted();
        self.lower.b.ins().load(I64, flags, x.data, 8 * at)
    }

    fn total(&mut self, pairs: &HostTensor, span: Option<Span>) -> Res<Value> {
        let total = self.new_tensor(DType::I64, &[])?;
        self.run_text(text::TOTAL, DType::I64, tensors(&[pairs, &total]), span)?;
        Ok(self.number(&total))
    }

    /// Calls a function that writes strings behind its operands, at most so many bytes.
    fn write_strings(
        &mut self,
        text: &str,
        operands: &[&HostTensor],
        bytes: Value,
        span: Option<Span>,
    ) -> Res<HostTensor> {
        let len = operands[0].dims[0];
        let bytes = self.new_bytes(bytes)?;
        let out = self.new_tensor(DType::I64, &[len, Extent::Const(2)])?;
        let mut args = operands.to_vec();
        args.extend([&bytes, &out]);
        self.run_text(text, operands[0].dtype, tensors(&args), span)?;
        Ok(as_strings(out))
    }

    /// The data of the object as a tensor.
    fn table(&mut self, dtype: DType, dims: &[usize], bytes: &[u8]) -> Res<HostTensor> {
        let extent = |&dim: &usize| Extent::Const(dim as i64);
        Ok(HostTensor {
            data: self.lower.constant(bytes)?,
            dtype,
            dims: dims.iter().map(extent).collect(),
        })
    }

    fn in_case(&mut self, x: &HostTensor, case: Case, span: Option<Span>) -> Res<HostTensor> {
        let rows = case_table(case);
        let utf8 = |code: u32| char::from_u32(code).map_or(0, char::len_utf8);
        let growth = rows.iter().map(|row| {
            let to: usize = row[1..]
                .iter()
                .filter(|code| **code != 0)
                .map(|code| utf8(*code))
                .sum();
            to.div_ceil(utf8(row[0]).max(1))
        });
        let growth = growth.max().unwrap_or(1).max(1);
        let words: Vec<u8> = rows
            .iter()
            .flatten()
            .flat_map(|code| code.to_le_bytes())
            .collect();
        let table = self.table(DType::I32, &[rows.len(), 4], &words)?;
        let pairs = self.pairs(x);
        let total = self.total(&pairs, span)?;
        let bytes = self.lower.b.ins().imul_imm_s(total, growth as i64);
        self.write_strings(text::CASE, &[&pairs, &table], bytes, span)
    }

    fn split(&mut self, call: &BoundCall, x: &HostTensor) -> Res<HostValue> {
        let span = call.span;
        let pairs = self.pairs(x);
        let len = pairs.dims[0];
        let delimiter = call.str("delimiter");
        let most = match call.int("maxsplit") {
            most if most < 0 => i64::MAX,
            most => most,
        };
        let counts = self.new_tensor(DType::I64, &[len])?;
        let widest = self.new_tensor(DType::I64, &[])?;
        let (code, mut args) = if delimiter.is_empty() {
            (text::SPLIT_SPACE, vec![pairs])
        } else {
            let bytes = delimiter.as_bytes();
            let bytes = self.table(DType::U8, &[bytes.len()], bytes)?;
            (text::SPLIT, vec![pairs, bytes])
        };
        args.extend([counts.clone(), widest.clone()]);
        let args: Vec<&HostTensor> = args.iter().collect();
        let two = Extent::Const(2);
        let nothing = self.new_tensor(DType::I64, &[len, Extent::Const(0), two])?;
        self.run_split(code, &args, &nothing, most, span)?;
        let width = Extent::Run(self.number(&widest));
        let pieces = self.new_tensor(DType::I64, &[len, width, two])?;
        let args: Vec<&HostTensor> = args.clone();
        self.run_split(code, &args, &pieces, most, span)?;
        let mut dims = x.dims.clone();
        let counts = HostTensor {
            dims: dims.clone(),
            ..counts
        };
        dims.push(width);
        let pieces = HostTensor {
            dims,
            ..as_strings(pieces)
        };
        Ok(HostValue::Tuple(vec![
            HostValue::Tensor(pieces),
            HostValue::Tensor(counts),
        ]))
    }

    /// Counts pieces, or writes them where there is room for any.
    fn run_split(
        &mut self,
        code: &str,
        args: &[&HostTensor],
        out: &HostTensor,
        most: i64,
        span: Option<Span>,
    ) -> Res<()> {
        let mut args = tensors(args);
        args.push(HostValue::Tensor(out.clone()));
        let most = self.lower.i64(most);
        args.push(HostValue::Scalar(Val {
            v: most,
            dtype: DType::I64,
        }));
        args.push(self.flag(out.dims[1] != Extent::Const(0)));
        self.run_text(code, DType::I64, args, span)
    }

    fn flag(&mut self, value: bool) -> HostValue {
        HostValue::Scalar(Val {
            v: self.lower.b.ins().iconst(I8, i64::from(value)),
            dtype: DType::Bool,
        })
    }

    fn full_match(&mut self, call: &BoundCall, x: &HostTensor) -> Res<HostTensor> {
        let pattern = call.str("pattern");
        let dfa = Pattern::compile(pattern).map_err(|error| {
            let why = match error {
                PatternError::Syntax(why) => why,
                PatternError::TooLarge => "its automaton is too large".to_owned(),
            };
            unsupported(call.span, format!("pattern {pattern:?}: {why}"))
        })?;
        let next: Vec<u8> = dfa
            .next
            .iter()
            .flat_map(|state| state.to_le_bytes())
            .collect();
        let accepts: Vec<u8> = dfa
            .accepts
            .iter()
            .map(|accepts| u8::from(*accepts))
            .collect();
        let n_states = accepts.len();
        let classes = self.table(DType::U8, &[256], &dfa.classes)?;
        let next = self.table(DType::U16, &[n_states, dfa.n_classes], &next)?;
        let accepts = self.table(DType::Bool, &[n_states], &accepts)?;
        let pairs = self.pairs(x);
        let out = self.new_tensor(DType::Bool, &[pairs.dims[0]])?;
        let args = tensors(&[&pairs, &classes, &next, &accepts, &out]);
        self.run_text(text::FULL_MATCH, DType::I64, args, call.span)?;
        Ok(out)
    }

    fn format_float(&mut self, x: &HostTensor, span: Option<Span>) -> Res<HostTensor> {
        let (precision, least) = float_format(x.dtype)
            .ok_or_else(|| unsupported(span, format!("`{}` is not written as text", x.dtype)))?;
        let code = text::FORMAT_FLOAT
            .replace("PRECISION", &precision.to_string())
            .replace("LEAST", &least.to_string());
        let flat = self.flat(x);
        let total = self.new_tensor(DType::I64, &[])?;
        let out = self.new_tensor(DType::I64, &[flat.dims[0], Extent::Const(2)])?;
        let mut bytes = self.new_tensor(DType::U8, &[Extent::Const(0)])?;
        for write in [false, true] {
            if write {
                let size = self.number(&total);
                bytes = self.new_bytes(size)?;
            }
            let mut args = tensors(&[&flat, &total, &bytes, &out]);
            args.push(self.flag(write));
            self.run_text(&code, x.dtype, args, span)?;
        }
        Ok(as_strings(out))
    }

    fn parse(&mut self, call: &BoundCall, x: &HostTensor) -> Res<HostTensor> {
        let dtype = call.opt_dtype("dtype").unwrap_or(DType::F32);
        let finish = match dtype {
            DType::F32 => text::PARSE_FLOAT.replace("READ", "strtof"),
            DType::F64 => text::PARSE_FLOAT.replace("READ", "strtod"),
            DType::I64 => text::PARSE_INT.replace("SIGNED", "True"),
            _ => text::PARSE_INT.replace("SIGNED", "False"),
        };
        let code = text::PARSE.replace("FINISH", &finish);
        let pairs = self.pairs(x);
        let out = self.new_tensor(dtype, &[pairs.dims[0]])?;
        self.run_text(&code, dtype, tensors(&[&pairs, &out]), call.span)?;
        Ok(out)
    }
}

fn tensors(list: &[&HostTensor]) -> Vec<HostValue> {
    let value = |tensor: &&HostTensor| HostValue::Tensor((*tensor).clone());
    list.iter().map(value).collect()
}

/// Pairs of addresses and lengths as the strings that they are.
fn as_strings(pairs: HostTensor) -> HostTensor {
    HostTensor {
        dtype: DType::Str,
        ..pairs
    }
}

/// The bits of a mantissa with its leading one, and the exponent of the least number.
fn float_format(dtype: DType) -> Option<(i64, i64)> {
    Some(match dtype {
        DType::F64 => (53, -1074),
        DType::F32 => (24, -149),
        DType::F16 => (11, -24),
        DType::BF16 => (8, -133),
        DType::F8E4M3FN => (4, -9),
        DType::F8E4M3FNUZ => (4, -10),
        DType::F8E5M2 => (3, -16),
        DType::F8E5M2FNUZ => (3, -17),
        DType::F8E8M0 => (1, -127),
        DType::F4E2M1 => (2, -1),
        _ => return None,
    })
}
