//! Tensors of unknown rank, sequences and optionals in a graph function, and values made to fit a type.
//!
//! What the runtime does with such objects is in `runtime/object`. A tuple stands for a sequence of known length, a
//! tensor for a record or an optional, wherever one of these is wanted.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I32, I64};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value};
use irc_syntax::{DType, Expr, Name, Span};

use super::{Host, HostTensor, HostValue};
use crate::check::prim::{self, BoundCall, Items, Prim};
use crate::check::{TensorType, Type};
use crate::codegen::arith::Val;
use crate::codegen::cast;
use crate::codegen::lower::{Extent, Res, unsupported};
use crate::codegen::runtime::object::{ITEMS, MAX_RANK, record};
use crate::shape::Dim;

/// Whether values of a type are objects of run time.
pub fn is_object(ty: &Type) -> bool {
    match ty {
        Type::Tensor(tensor) => tensor.ndim.is_none(),
        Type::Seq(_) | Type::Opt(_) => true,
        Type::Scalar(_)
        | Type::Shape(_)
        | Type::Tuple(_)
        | Type::Func(..)
        | Type::Str
        | Type::DTypeValue
        | Type::Any
        | Type::Void
        | Type::Error => false,
    }
}

impl Host<'_, '_, '_> {
    /// A value in the form that a type says.
    pub fn coerce(&mut self, value: HostValue, ty: &Type, span: Option<Span>) -> Res<HostValue> {
        match (value, ty) {
            (HostValue::Tuple(items), Type::Tuple(types)) if items.len() == types.len() => {
                let items = items
                    .into_iter()
                    .zip(types)
                    .map(|(item, ty)| self.coerce(item, ty, span))
                    .collect::<Res<_>>()?;
                Ok(HostValue::Tuple(items))
            }
            (value, Type::Opt(inner)) => self.optional_of(value, inner, span),
            (value, Type::Seq(inner)) => self.sequence_of(value, inner, span),
            (value, Type::Tensor(tensor)) if tensor.ndim.is_none() => {
                self.record_of(value, tensor.dtype, span)
            }
            (
                HostValue::Object {
                    object,
                    ty: Type::Tensor(held),
                },
                Type::Tensor(wanted),
            ) => {
                let tensor = self.open_record(object, &held, wanted, span)?;
                Ok(HostValue::Tensor(tensor))
            }
            (value, _) => Ok(value),
        }
    }

    fn optional_of(
        &mut self,
        value: HostValue,
        inner: &Type,
        span: Option<Span>,
    ) -> Res<HostValue> {
        let ty = |inner: &Type| Type::Opt(Box::new(inner.clone()));
        match value {
            HostValue::Object {
                object,
                ty: Type::Opt(held),
            } => Ok(HostValue::Object {
                object,
                ty: ty(if *inner == Type::Any { &held } else { inner }),
            }),
            HostValue::Nothing => Ok(HostValue::Object {
                object: self.lower.i64(0),
                ty: ty(inner),
            }),
            value => {
                // Any tensor fits an optional, so its rank is said at run time.
                let object = match inner {
                    Type::Tensor(tensor) => self.record_of(value, tensor.dtype, span)?,
                    Type::Any => match value {
                        HostValue::Object {
                            object,
                            ty: held @ Type::Seq(_),
                        } => {
                            return Ok(HostValue::Object {
                                object,
                                ty: ty(&held),
                            });
                        }
                        value => self.record_of(value, None, span)?,
                    },
                    other => self.coerce(value, other, span)?,
                };
                let HostValue::Object { object, ty: held } = object else {
                    return Err(unsupported(span, "this cannot be an optional"));
                };
                Ok(HostValue::Object {
                    object,
                    ty: ty(if *inner == Type::Any { &held } else { inner }),
                })
            }
        }
    }

    fn sequence_of(
        &mut self,
        value: HostValue,
        inner: &Type,
        span: Option<Span>,
    ) -> Res<HostValue> {
        match value {
            HostValue::Object {
                object,
                ty: Type::Seq(held),
            } => {
                let inner = if *inner == Type::Any {
                    *held
                } else {
                    inner.clone()
                };
                Ok(HostValue::Object {
                    object,
                    ty: Type::Seq(Box::new(inner)),
                })
            }
            HostValue::Tuple(items) => {
                let n = self.lower.i64(items.len() as i64);
                let seq = self.object_call("irc_seq_new", &[self.call, n])?;
                for (at, item) in items.into_iter().enumerate() {
                    let dtype = inner.as_tensor().and_then(|tensor| tensor.dtype);
                    let HostValue::Object { object, .. } = self.record_of(item, dtype, span)?
                    else {
                        continue;
                    };
                    let flags = MemFlagsData::trusted();
                    let place = ITEMS + 8 * at as i32;
                    self.lower.b.ins().store(flags, object, seq, place);
                }
                Ok(HostValue::Object {
                    object: seq,
                    ty: Type::Seq(Box::new(inner.clone())),
                })
            }
            HostValue::Nothing => self.sequence_of(HostValue::Tuple(Vec::new()), inner, span),
            HostValue::Object {
                object,
                ty: Type::Opt(held),
            } if matches!(*held, Type::Seq(_)) => {
                let some = self.lower.b.ins().icmp_imm_s(IntCC::NotEqual, object, 0);
                self.lower
                    .require(some, "ValueError", "the optional has no value")?;
                self.sequence_of(HostValue::Object { object, ty: *held }, inner, span)
            }
            HostValue::Tensor(_)
            | HostValue::Shape(_)
            | HostValue::Scalar(_)
            | HostValue::Storage(_)
            | HostValue::Object { .. } => Err(unsupported(span, "this is not a sequence")),
        }
    }

    /// A tensor as a record, which owns its bytes.
    fn record_of(
        &mut self,
        value: HostValue,
        dtype: Option<DType>,
        span: Option<Span>,
    ) -> Res<HostValue> {
        if let HostValue::Object {
            ty: Type::Tensor(held),
            ..
        } = &value
        {
            return match (held.dtype, dtype) {
                (Some(have), Some(want)) if have != want => Err(unsupported(
                    span,
                    format!("a tensor of {have} stands where one of {want} is wanted"),
                )),
                _ => Ok(value),
            };
        }
        let tensor = self.as_tensor(value, span)?;
        if dtype.is_some_and(|dtype| dtype != tensor.dtype) {
            let message = format!(
                "a tensor of {} stands where another dtype is wanted",
                tensor.dtype
            );
            return Err(unsupported(span, message));
        }
        let rank = self.lower.i64(tensor.dims.len() as i64);
        let dims: Vec<Value> = tensor
            .dims
            .iter()
            .map(|&dim| self.lower.extent(dim))
            .collect();
        let dims = self.lower.stack_array(&dims);
        let bytes = self.bytes(tensor.dtype, &tensor.dims);
        let object = self.object_call("irc_box", &[self.call, rank, dims, tensor.data, bytes])?;
        Ok(HostValue::Object {
            object,
            ty: Type::Tensor(TensorType {
                dtype: Some(tensor.dtype),
                ..TensorType::default()
            }),
        })
    }

    /// A record as a tensor of a known rank, which is checked.
    pub fn open_record(
        &mut self,
        object: Value,
        held: &TensorType,
        wanted: &TensorType,
        span: Option<Span>,
    ) -> Res<HostTensor> {
        let dtype = held.dtype.or(wanted.dtype);
        let (Some(dtype), Some(rank)) = (dtype, wanted.ndim) else {
            return Err(unsupported(
                span,
                "a tensor whose rank is known at run time only stands where its rank is needed",
            ));
        };
        let flags = MemFlagsData::trusted();
        let have = self.lower.b.ins().load(I64, flags, object, record::RANK);
        let want = self.lower.i64(rank as i64);
        let same = self.lower.b.ins().icmp(IntCC::Equal, have, want);
        let text = format!("a tensor that has to have {rank} axes has another number");
        self.lower.require(same, "ValueError", &text)?;
        let data = self.lower.b.ins().load(I64, flags, object, record::DATA);
        let mut dims = Vec::with_capacity(rank);
        for axis in 0..rank {
            let place = record::DIMS + 8 * axis as i32;
            let dim = self.lower.b.ins().load(I64, flags, object, place);
            dims.push(Extent::Run(dim));
        }
        let shape: Vec<_> = wanted.shape.iter().flatten().enumerate().collect();
        for (axis, known) in shape {
            let (Some(value), Some(dim)) = (known.as_int(), dims.get_mut(axis)) else {
                continue;
            };
            let (have, want) = (self.lower.extent(*dim), self.lower.i64(value));
            let same = self.lower.b.ins().icmp(IntCC::Equal, have, want);
            let text = format!("an extent that has to be {value} is another number");
            self.lower.require(same, "ValueError", &text)?;
            *dim = Extent::Const(value);
        }
        Ok(HostTensor { data, dtype, dims })
    }

    /// Calls a function of the runtime that makes or finds an object; null says that an error has been raised.
    fn object_call(&mut self, name: &str, args: &[Value]) -> Res<Value> {
        let object = self
            .lower
            .call_runtime(name, &vec![I64; args.len()], &[I64], args)?;
        self.lower.require_pointer(object);
        Ok(object)
    }

    /// A call of a primitive of sequences or optionals; `name` is what it is bound to.
    pub fn object_prim(&mut self, found: Prim, expr: &Expr, name: Option<&Name>) -> Res<HostValue> {
        let call = prim::bind(found, expr)?;
        let span = expr.span;
        match found {
            Prim::Sequence => self.make_sequence(&call, name),
            Prim::SeqInsert => {
                let (seq, inner) = self.sequence_operand(&call)?;
                let x = self.operand(&call, "x")?;
                let dtype = inner.as_tensor().and_then(|tensor| tensor.dtype);
                let HostValue::Object { object, ty } = self.record_of(x, dtype, span)? else {
                    return Err(unsupported(span, "only tensors are put into sequences"));
                };
                let (at, given) = self.position(&call)?;
                let args = [self.call, seq, object, at, given];
                let object = self.object_call("irc_seq_insert", &args)?;
                let ty = match name.and_then(|name| self.known_type(name)) {
                    Some(ty @ Type::Seq(_)) => ty,
                    _ => Type::Seq(Box::new(prim::join_elements(&inner, &ty))),
                };
                Ok(HostValue::Object { object, ty })
            }
            Prim::SeqErase => {
                let (seq, inner) = self.sequence_operand(&call)?;
                let (at, given) = self.position(&call)?;
                let object = self.object_call("irc_seq_erase", &[self.call, seq, at, given])?;
                let ty = Type::Seq(Box::new(inner));
                Ok(HostValue::Object { object, ty })
            }
            Prim::SeqAt => {
                let (seq, inner) = self.sequence_operand(&call)?;
                let (at, _) = self.position(&call)?;
                let object = self.object_call("irc_seq_at", &[seq, at])?;
                self.taken_out(object, &inner, span)
            }
            Prim::SeqLen => {
                let (seq, _) = self.sequence_operand(&call)?;
                let n = self
                    .lower
                    .b
                    .ins()
                    .load(I64, MemFlagsData::trusted(), seq, 0);
                Ok(HostValue::Scalar(Val {
                    v: n,
                    dtype: DType::I64,
                }))
            }
            Prim::SeqConcat => self.seq_concat(&call, span),
            Prim::Rank => self.rank(&call, span),
            Prim::Optional => {
                let value = match call.operand("x") {
                    Some(x) => self.value(x, None)?,
                    None => HostValue::Nothing,
                };
                let ty = name.and_then(|name| self.known_type(name));
                let inner = match ty {
                    Some(Type::Opt(inner)) => *inner,
                    _ => Type::Any,
                };
                self.optional_of(value, &inner, span)
            }
            Prim::HasValue => {
                let value = self.operand(&call, "x")?;
                let v = match value {
                    HostValue::Object {
                        object,
                        ty: Type::Opt(_),
                    } => self.lower.b.ins().icmp_imm_s(IntCC::NotEqual, object, 0),
                    HostValue::Nothing => self.lower.b.ins().iconst(I8, 0),
                    _ => self.lower.b.ins().iconst(I8, 1),
                };
                Ok(HostValue::Scalar(Val {
                    v,
                    dtype: DType::Bool,
                }))
            }
            Prim::GetValue => match self.operand(&call, "x")? {
                HostValue::Object {
                    object,
                    ty: Type::Opt(inner),
                } => {
                    let some = self.lower.b.ins().icmp_imm_s(IntCC::NotEqual, object, 0);
                    self.lower
                        .require(some, "ValueError", "the optional has no value")?;
                    self.taken_out(object, &inner, span)
                }
                HostValue::Nothing => Err(unsupported(span, "the optional never has a value")),
                value => Ok(value),
            },
            _ => Err(unsupported(
                span,
                format!("`{}` has no code here", found.name()),
            )),
        }
    }

    /// Hands the index-th result, an object, to the caller.
    pub fn give_object(&mut self, idx: usize, value: HostValue) -> Res<()> {
        let HostValue::Object { object, ty } = value else {
            return Ok(());
        };
        let idx = self.lower.i64(idx as i64);
        let is_seq = match &ty {
            Type::Opt(inner) => matches!(**inner, Type::Seq(_)),
            ty => matches!(ty, Type::Seq(_)),
        };
        let name = if is_seq {
            "irc_output_seq"
        } else {
            "irc_output_record"
        };
        let status =
            self.lower
                .call_runtime(name, &[I64, I64, I64], &[I32], &[self.call, idx, object])?;
        self.lower.check_status(status);
        Ok(())
    }

    fn operand(&mut self, call: &BoundCall, slot: &str) -> Res<HostValue> {
        match call.operand(slot) {
            Some(expr) => self.value(expr, None),
            None => Ok(HostValue::Nothing),
        }
    }

    fn make_sequence(&mut self, call: &BoundCall, name: Option<&Name>) -> Res<HostValue> {
        let value = match call.items("items") {
            Items::Listed(items) => HostValue::Tuple(
                items
                    .iter()
                    .map(|item| self.value(item, None))
                    .collect::<Res<_>>()?,
            ),
            Items::Tuple(expr) => self.value(expr, None)?,
        };
        let inner = match name.and_then(|name| self.known_type(name)) {
            Some(Type::Seq(inner)) => *inner,
            _ => Type::Any,
        };
        self.sequence_of(value, &inner, call.span)
    }

    /// The operand `sequence`: its address and the type of its elements.
    fn sequence_operand(&mut self, call: &BoundCall) -> Res<(Value, Type)> {
        let value = self.operand(call, "sequence")?;
        match self.sequence_of(value, &Type::Any, call.span)? {
            HostValue::Object {
                object,
                ty: Type::Seq(inner),
            } => Ok((object, *inner)),
            _ => Err(unsupported(call.span, "this is not a sequence")),
        }
    }

    /// The operand `position` as an integer, and whether it is given.
    fn position(&mut self, call: &BoundCall) -> Res<(Value, Value)> {
        let Some(expr) = call.operand("position") else {
            return Ok((self.lower.i64(0), self.lower.i64(0)));
        };
        let held = self.value(expr, None)?;
        Ok((self.integer(held, expr.span)?, self.lower.i64(1)))
    }

    /// The one number of a value, a scalar or a tensor of one element, as an i64.
    pub fn integer(&mut self, value: HostValue, span: Option<Span>) -> Res<Value> {
        self.scalar_of(value, DType::I64, span)
    }

    /// The one number of a value as a scalar of a dtype.
    pub fn scalar_of(&mut self, value: HostValue, dtype: DType, span: Option<Span>) -> Res<Value> {
        let val = match value {
            HostValue::Scalar(val) => val,
            other => {
                let tensor = self.as_tensor(other, span)?;
                let zero = self.lower.i64(0);
                self.load_element(&tensor, zero, span)?
            }
        };
        Ok(cast::cast(&mut self.lower.b, val.v, val.dtype, dtype))
    }

    /// A condition: a scalar, or the one element of a tensor.
    pub fn truth(&mut self, value: HostValue, span: Option<Span>) -> Res<Value> {
        self.scalar_of(value, DType::Bool, span)
    }

    /// An element that is taken out of a sequence or optional.
    fn taken_out(&mut self, object: Value, inner: &Type, span: Option<Span>) -> Res<HostValue> {
        match inner {
            Type::Tensor(tensor) if tensor.ndim.is_some() => Ok(HostValue::Tensor(
                self.open_record(object, tensor, tensor, span)?,
            )),
            Type::Tensor(_) | Type::Seq(_) => Ok(HostValue::Object {
                object,
                ty: inner.clone(),
            }),
            _ => Err(unsupported(span, "the type of this element is not known")),
        }
    }

    fn rank(&mut self, call: &BoundCall, span: Option<Span>) -> Res<HostValue> {
        let v = match self.operand(call, "x")? {
            HostValue::Object {
                object,
                ty: Type::Tensor(_),
            } => {
                let flags = MemFlagsData::trusted();
                self.lower.b.ins().load(I64, flags, object, record::RANK)
            }
            value => {
                let rank = self.as_tensor(value, span)?.dims.len();
                self.lower.i64(rank as i64)
            }
        };
        Ok(HostValue::Scalar(Val {
            v,
            dtype: DType::I64,
        }))
    }

    fn seq_concat(&mut self, call: &BoundCall, span: Option<Span>) -> Res<HostValue> {
        let (seq, inner) = self.sequence_operand(call)?;
        let Type::Tensor(TensorType {
            dtype: Some(dtype),
            ndim: Some(rank),
            ..
        }) = inner
        else {
            return Err(unsupported(span, "the type of the elements is not known"));
        };
        if rank > MAX_RANK {
            return Err(unsupported(span, "the elements have too many axes"));
        }
        let is_new = call.bool("new_axis");
        let out_rank = rank + usize::from(is_new);
        let axis = call.int("axis");
        let axis = if axis < 0 {
            axis + out_rank as i64
        } else {
            axis
        };
        let args = [axis, i64::from(is_new), dtype.bytes() as i64, rank as i64];
        let mut args: Vec<Value> = args.map(|value| self.lower.i64(value)).to_vec();
        args.splice(0..0, [self.call, seq]);
        let object = self.object_call("irc_seq_join", &args)?;
        let ty = TensorType {
            dtype: Some(dtype),
            ndim: Some(out_rank),
            ..TensorType::default()
        };
        Ok(HostValue::Tensor(self.open_record(object, &ty, &ty, span)?))
    }
}

/// What is said of an extent that has a name and is not what it has to be.
pub fn not_equal(have: &Expr, want: &Dim) -> String {
    let have = irc_syntax::print_expr(have);
    format!("`{have}` has to be `{want}`, and is another number")
}
