//! Types of calls of primitives: the dispatch, and what every rule reads its operands with.

use irc_syntax::{DType, Diagnostic, Expr, ExprKind, Span, UnaryOp};

use super::{BoundCall, Items, Prim, control, element, index, layout, make, string, window};
use crate::check::types::{TensorType, Type};
use crate::shape::{Dim, Facts};
use crate::tensor::Tensor;

/// What surrounds a call: the types of names, facts on symbols, and a source of fresh symbols.
pub trait Scope {
    /// The type of an operand; `Type::Error` for what has been reported.
    fn type_of(&mut self, expr: &Expr) -> Type;

    /// What is known about the symbols in scope.
    fn facts(&self) -> &Facts;

    /// A symbol that stands for an extent known at run time only.
    fn fresh(&mut self, base: &str) -> Dim;

    /// A symbol that stands for an integer known at run time only, of any sign.
    fn fresh_any_sign(&mut self, base: &str) -> Dim;

    /// Hears of two extents that have to be equal, which only run time can tell.
    fn must_agree(&mut self, _a: &Dim, _b: &Dim) {}

    /// Takes two extents as equal from here on, where what is built checks that they are. A scope that only asks for
    /// types ignores it: the check would find itself proved, and be left out.
    fn assume_equal(&mut self, _a: &Dim, _b: &Dim) {}

    /// The constant that an operand is, where it is one whose value is at hand. `R.const` itself is not asked for.
    fn constant(&self, _expr: &Expr) -> Option<Tensor> {
        None
    }

    /// The meaning of an annotation such as `out_ty=R.Tensor((n, 4), "float32")`.
    fn annotation(&mut self, expr: &Expr) -> Result<Type, Diagnostic>;
}

/// The type of a call's result. An operand in error gives `Type::Error`, silently.
pub fn infer(call: &BoundCall, scope: &mut dyn Scope) -> Result<Type, Diagnostic> {
    let mut rule = Rule { call, scope };
    match rule.dispatch() {
        Ok(ty) => Ok(ty),
        Err(Stop::Silent) => Ok(Type::Error),
        Err(Stop::Fault(fault)) => Err(*fault),
    }
}

/// Why a rule ends without a type.
pub(super) enum Stop {
    /// An operand is in error already.
    Silent,
    /// The call is wrong.
    Fault(Box<Diagnostic>),
}

impl From<Diagnostic> for Stop {
    fn from(fault: Diagnostic) -> Self {
        Self::Fault(Box::new(fault))
    }
}

/// What a rule comes to.
pub(super) type Typed<T = Type> = Result<T, Stop>;

/// One operand as rules see it.
#[derive(Clone)]
pub(super) struct Operand {
    pub(super) ty: TensorType,
    /// A plain number, which takes the dtype of the other operand.
    pub(super) weak: bool,
    /// Its text, where it is a name.
    pub(super) text: String,
    pub(super) span: Option<Span>,
}

impl Operand {
    pub(super) fn shape(&self) -> Option<&[Dim]> {
        self.ty.shape.as_deref()
    }

    pub(super) fn value(&self) -> Option<&[Dim]> {
        self.ty.value.as_deref()
    }
}

/// One call being typed.
pub(super) struct Rule<'a> {
    pub(super) call: &'a BoundCall,
    pub(super) scope: &'a mut dyn Scope,
}

impl Rule<'_> {
    fn dispatch(&mut self) -> Typed {
        match self.call.prim {
            Prim::Unary(op) => element::unary(self, op),
            Prim::Binary(op) => element::binary(self, op),
            Prim::Where => element::select(self),
            Prim::Astype => element::astype(self),
            Prim::Reinterpret => element::reinterpret(self),
            Prim::BroadcastTo => element::broadcast_to(self),
            Prim::Reduce(op) => element::reduce(self, op),
            Prim::Argmax | Prim::Argmin => element::arg_reduce(self),
            Prim::Cumsum | Prim::Cumprod => element::scan(self),
            Prim::PermuteDims => layout::permute_dims(self),
            Prim::Reshape => layout::reshape(self),
            Prim::StridedSlice => layout::strided_slice(self),
            Prim::Concat => layout::concat(self),
            Prim::Pad => layout::pad(self),
            Prim::Take => index::take(self),
            Prim::GatherElements => index::gather_elements(self),
            Prim::GatherNd => index::gather_nd(self),
            Prim::ScatterElements => index::scatter_elements(self),
            Prim::ScatterNd => index::scatter_nd(self),
            Prim::MaxPool(rank) | Prim::AvgPool(rank) => window::pool(self, rank),
            Prim::Matmul => window::matmul(self),
            Prim::Conv(rank) => window::conv(self, rank),
            Prim::ConvTranspose(rank) => window::conv_transpose(self, rank),
            Prim::Full => make::full(self),
            Prim::Arange => make::arange(self),
            Prim::Const => make::constant(self),
            Prim::Sort => index::sort(self),
            Prim::Argsort => index::argsort(self),
            Prim::KeepBoxes => index::keep_boxes(self),
            Prim::Nonzero => index::nonzero(self),
            Prim::Unique => index::unique(self),
            Prim::Text(op) => string::text(self, op),
            Prim::DecodeImage => make::decode_image(self),
            Prim::ShapeOf => make::shape_of(self),
            Prim::Shape => Ok(Type::Shape(Some(self.call.dims("values").to_vec()))),
            Prim::ShapeToTensor => make::shape_to_tensor(self),
            Prim::TensorToShape => make::tensor_to_shape(self),
            Prim::MatchCast => make::match_cast(self),
            Prim::CallTir | Prim::CallTirInplace | Prim::CallDpsPacked => {
                make::declared(self, "out_ty")
            }
            Prim::CallPurePacked | Prim::CallPacked => make::declared(self, "ty_args"),
            Prim::WhileLoop => make::declared(self, "out_ty"),
            Prim::Sequence => control::sequence(self),
            Prim::SeqInsert => control::seq_insert(self),
            Prim::SeqErase => control::seq_erase(self),
            Prim::SeqAt => control::seq_at(self),
            Prim::SeqLen => control::seq_len(self),
            Prim::Rank => control::rank(self),
            Prim::SeqConcat => control::seq_concat(self),
            Prim::Optional => control::optional(self),
            Prim::HasValue => control::has_value(self),
            Prim::GetValue => control::get_value(self),
        }
    }

    /// A tensor operand.
    pub(super) fn tensor(&mut self, slot: &str) -> Typed<Operand> {
        let Some(expr) = self.call.operand(slot) else {
            return Err(self.missing(slot).into());
        };
        self.operand(expr)
    }

    /// A tensor operand that may be left out.
    pub(super) fn opt_tensor(&mut self, slot: &str) -> Typed<Option<Operand>> {
        self.call
            .operand(slot)
            .map(|expr| self.operand(expr))
            .transpose()
    }

    /// The members of an operand that takes a tuple of tensors.
    pub(super) fn tensors(&mut self, slot: &str) -> Typed<Vec<Operand>> {
        let expr = match self.call.items(slot) {
            Items::Listed(items) => return items.iter().map(|item| self.operand(item)).collect(),
            Items::Tuple(expr) => expr,
        };
        match self.scope.type_of(expr) {
            Type::Tuple(members) => {
                let text = describe(expr);
                let member = |(at, ty): (usize, Type)| {
                    as_operand(ty, format!("{text}[{at}]"), expr.span)
                        .ok_or_else(|| not_a_tensor(expr).into())
                };
                members.into_iter().enumerate().map(member).collect()
            }
            Type::Error => Err(Stop::Silent),
            _ => Err(Diagnostic::error(
                "not-a-tensor",
                format!(
                    "`{slot}` of `{}` is a tuple of tensors",
                    self.call.prim.name()
                ),
            )
            .at(expr.span, "not a tuple")
            .into()),
        }
    }

    pub(super) fn operand(&mut self, expr: &Expr) -> Typed<Operand> {
        if let Some(number) = number_type(expr) {
            let text = describe(expr);
            return Ok(Operand {
                ty: number,
                weak: true,
                text,
                span: expr.span,
            });
        }
        match self.scope.type_of(expr) {
            Type::Error => Err(Stop::Silent),
            Type::Scalar(dtype) => {
                let value = Dim::from_expr(expr)
                    .ok()
                    .filter(|_| dtype.is_int())
                    .map(|dim| vec![dim]);
                let ty = TensorType {
                    value,
                    ..TensorType::new(dtype, Vec::new())
                };
                Ok(Operand {
                    ty,
                    weak: false,
                    text: describe(expr),
                    span: expr.span,
                })
            }
            ty => {
                as_operand(ty, describe(expr), expr.span).ok_or_else(|| not_a_tensor(expr).into())
            }
        }
    }

    /// A shape operand; `None` when its dims are not known.
    pub(super) fn shape(&mut self, slot: &str) -> Typed<Option<Vec<Dim>>> {
        if let Some(dims) = self.call.opt_dims(slot) {
            return Ok(Some(dims.to_vec()));
        }
        let Some(expr) = self.call.operand(slot) else {
            return Err(self.missing(slot).into());
        };
        match self.scope.type_of(expr) {
            Type::Shape(dims) => Ok(dims),
            Type::Any => Ok(None),
            // A 1-d integer tensor whose content is known serves as well.
            Type::Tensor(TensorType {
                value: Some(dims), ..
            }) => Ok(Some(dims)),
            Type::Error => Err(Stop::Silent),
            other => Err(Diagnostic::error(
                "not-a-shape",
                format!(
                    "`{slot}` of `{}` is a shape, not {other}",
                    self.call.prim.name()
                ),
            )
            .at(expr.span, "not a shape")
            .help(
                "write `R.shape([…])`, or `R.tensor_to_shape` of a tensor",
                None,
            )
            .into()),
        }
    }

    /// An axis counted from the start, for a rank.
    pub(super) fn axis(&self, axis: i64, rank: usize) -> Typed<usize> {
        let full = i64::try_from(rank).unwrap_or(i64::MAX);
        let at = if axis < 0 { axis + full } else { axis };
        if at < 0 || at >= full {
            return Err(self.axis_range(axis, rank).into());
        }
        usize::try_from(at).map_err(|_| Stop::Silent)
    }

    /// Axes counted from the start, each once.
    pub(super) fn axes(&self, axes: &[i64], rank: usize) -> Typed<Vec<usize>> {
        let mut found = Vec::with_capacity(axes.len());
        for axis in axes {
            let at = self.axis(*axis, rank)?;
            if found.contains(&at) {
                let message = format!("axis {axis} of `{}` is named twice", self.call.prim.name());
                return Err(Diagnostic::error("axis-range", message)
                    .at(self.call.span, "in this call")
                    .into());
            }
            found.push(at);
        }
        Ok(found)
    }

    /// The dtype that operands share; plain numbers take any.
    pub(super) fn common_dtype(&self, operands: &[&Operand]) -> Typed<Option<DType>> {
        let mut found: Option<(&Operand, DType)> = None;
        for operand in operands.iter().filter(|operand| !operand.weak) {
            let Some(dtype) = operand.ty.dtype else {
                continue;
            };
            match found {
                None => found = Some((operand, dtype)),
                Some((_, first)) if first == dtype => {}
                Some((first, _)) => return Err(self.dtype_mismatch(first, operand).into()),
            }
        }
        if let Some((_, dtype)) = found {
            return Ok(Some(dtype));
        }
        let any_unknown = operands.iter().any(|operand| !operand.weak);
        let float = operands
            .iter()
            .any(|operand| operand.ty.dtype == Some(DType::F32));
        Ok(if any_unknown {
            None
        } else if float {
            Some(DType::F32)
        } else {
            operands.first().and_then(|operand| operand.ty.dtype)
        })
    }

    /// Numpy's broadcast of operands: rank, and dims where they are all known.
    pub(super) fn broadcast(
        &mut self,
        operands: &[&Operand],
    ) -> Typed<(Option<usize>, Option<Vec<Dim>>)> {
        let ranks: Option<Vec<usize>> = operands.iter().map(|operand| operand.ty.ndim).collect();
        let Some(rank) = ranks.and_then(|ranks| ranks.into_iter().max()) else {
            return Ok((None, None));
        };
        if operands.iter().any(|operand| operand.ty.shape.is_none()) {
            return Ok((Some(rank), None));
        }
        let mut dims: Vec<Dim> = vec![Dim::int(1); rank];
        let mut owners: Vec<Option<&Operand>> = vec![None; rank];
        for operand in operands.iter().copied() {
            let shape = operand.shape().unwrap_or(&[]);
            let from = rank - shape.len();
            let places = dims.iter_mut().zip(&mut owners).skip(from).zip(shape);
            for ((dim, owner), other) in places {
                if dim.as_int() == Some(1) {
                    (*dim, *owner) = (other.clone(), Some(operand));
                    continue;
                }
                self.agree_or_one(dim, other);
                let merged = self.scope.facts().broadcast(dim, other);
                let Some(merged) = merged else {
                    let first = owner.unwrap_or(operand);
                    return Err(self.dim_mismatch(first, dim, operand, other).into());
                };
                *dim = merged;
            }
        }
        Ok((Some(rank), Some(dims)))
    }

    /// Two extents that broadcast are equal, or one of them is 1: the product of the three differences is zero.
    fn agree_or_one(&mut self, a: &Dim, b: &Dim) {
        let facts = self.scope.facts();
        let is_one = |dim: &Dim| facts.prove_eq(dim, &Dim::int(1));
        if facts.prove_eq(a, b) == Some(true) || is_one(a) == Some(true) || is_one(b) == Some(true)
        {
            return;
        }
        let mut product = a - b;
        for dim in [a, b] {
            if is_one(dim) != Some(false) {
                product = product * (dim - 1);
            }
        }
        if facts.prove_eq(&product, &Dim::int(0)).is_none() {
            self.scope.must_agree(&product, &Dim::int(0));
        }
    }

    /// The extent that two operands must agree on: a number where one is known.
    pub(super) fn same_dim(&mut self, a: &Operand, x: &Dim, b: &Operand, y: &Dim) -> Typed<Dim> {
        if x == y {
            return Ok(x.clone());
        }
        match self.scope.facts().prove_eq(x, y) {
            Some(true) => {}
            Some(false) => return Err(self.dim_mismatch(a, x, b, y).into()),
            None => self.scope.must_agree(x, y),
        }
        Ok(if x.as_int().is_none() && y.as_int().is_some() {
            y.clone()
        } else {
            x.clone()
        })
    }

    pub(super) fn need_rank(&self, operand: &Operand, wanted: usize) -> Typed<()> {
        match operand.ty.ndim {
            Some(rank) if rank != wanted => {
                let message = format!(
                    "`{}` needs a tensor of {wanted} axes, and {} has {rank}",
                    self.call.prim.name(),
                    operand.text
                );
                Err(Diagnostic::error("rank-mismatch", message)
                    .at(operand.span.or(self.call.span), label(operand))
                    .into())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn need_index(&self, operand: &Operand) -> Typed<()> {
        match operand.ty.dtype {
            Some(dtype) if !dtype.is_int() && !operand.weak => {
                let message = format!("indices of `{}` are integers", self.call.prim.name());
                Err(Diagnostic::error("dtype-mismatch", message)
                    .at(operand.span.or(self.call.span), label(operand))
                    .into())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn fault(
        &self,
        code: &'static str,
        message: String,
        label: impl Into<String>,
    ) -> Stop {
        Diagnostic::error(code, message)
            .at(self.call.span, label)
            .into()
    }

    pub(super) fn name(&self) -> &'static str {
        self.call.prim.name()
    }

    fn missing(&self, slot: &str) -> Diagnostic {
        Diagnostic::error(
            "bad-call",
            format!("`{}` needs its argument `{slot}`", self.call.prim.name()),
        )
        .at(self.call.span, "argument is missing")
    }

    fn axis_range(&self, axis: i64, rank: usize) -> Diagnostic {
        let message = format!(
            "axis {axis} of `{}` is outside a tensor of {rank} axes",
            self.call.prim.name()
        );
        Diagnostic::error("axis-range", message).at(self.call.span, "in this call")
    }

    fn dtype_mismatch(&self, a: &Operand, b: &Operand) -> Diagnostic {
        let message = format!(
            "`{}` needs equal dtypes, and {} is {} while {} is {}",
            self.call.prim.name(),
            a.text,
            dtype_text(a),
            b.text,
            dtype_text(b)
        );
        let fault = Diagnostic::error("dtype-mismatch", message);
        with_operands(fault, self.call.span, &[a, b]).help("convert one side with `R.astype`", None)
    }

    pub(super) fn dim_mismatch(&self, a: &Operand, x: &Dim, b: &Operand, y: &Dim) -> Diagnostic {
        let message = format!(
            "extents {x} of {} and {y} of {} do not go together in `{}`",
            a.text,
            b.text,
            self.call.prim.name()
        );
        with_operands(
            Diagnostic::error("dim-mismatch", message),
            self.call.span,
            &[a, b],
        )
    }
}

/// The primary label goes to the call, the related ones to the operands.
fn with_operands(fault: Diagnostic, call: Option<Span>, operands: &[&Operand]) -> Diagnostic {
    let fault = fault.at(call, "in this call");
    operands.iter().fold(fault, |fault, operand| {
        fault.related(operand.span, label(operand))
    })
}

/// `(n, 4) float32`, for a label.
pub(super) fn label(operand: &Operand) -> String {
    operand.ty.to_string()
}

fn dtype_text(operand: &Operand) -> &'static str {
    operand.ty.dtype.map_or("of no known dtype", DType::name)
}

fn as_operand(ty: Type, text: String, span: Option<Span>) -> Option<Operand> {
    let ty = match ty {
        Type::Tensor(ty) => ty,
        Type::Scalar(dtype) => TensorType::new(dtype, Vec::new()),
        Type::Any => TensorType::default(),
        Type::Opt(inner) => return as_operand(*inner, text, span),
        Type::Shape(_)
        | Type::Tuple(_)
        | Type::Seq(_)
        | Type::Func(..)
        | Type::Str
        | Type::DTypeValue
        | Type::Void
        | Type::Error => return None,
    };
    Some(Operand {
        ty,
        weak: false,
        text,
        span,
    })
}

/// The type of a number written as an operand.
fn number_type(expr: &Expr) -> Option<TensorType> {
    let scalar = |dtype| TensorType::new(dtype, Vec::new());
    match &expr.kind {
        ExprKind::Int(value) => {
            let value = i64::try_from(*value)
                .ok()
                .map(|value| vec![Dim::int(value)]);
            Some(TensorType {
                value,
                ..scalar(DType::I64)
            })
        }
        ExprKind::Float(_) => Some(scalar(DType::F32)),
        ExprKind::Bool(value) => {
            let value = Some(vec![Dim::int(i64::from(*value))]);
            Some(TensorType {
                value,
                ..scalar(DType::Bool)
            })
        }
        ExprKind::Unary {
            op: UnaryOp::Neg,
            value,
        } => {
            let inner = number_type(value)?;
            let value = inner
                .value
                .map(|value| value.iter().map(|dim| -dim).collect());
            Some(TensorType {
                value,
                ..scalar(inner.dtype?)
            })
        }
        _ => None,
    }
}

fn describe(expr: &Expr) -> String {
    match expr.as_path() {
        Some(path) => format!("`{path}`"),
        None => match &expr.kind {
            ExprKind::Int(value) => format!("`{value}`"),
            ExprKind::Float(value) => format!("`{value}`"),
            ExprKind::Bool(true) => "`True`".to_string(),
            ExprKind::Bool(false) => "`False`".to_string(),
            ExprKind::Call { func, .. } => match func.as_path() {
                Some(path) => format!("the result of `{path}`"),
                None => "the operand".to_string(),
            },
            _ => "the operand".to_string(),
        },
    }
}

fn not_a_tensor(expr: &Expr) -> Diagnostic {
    Diagnostic::error(
        "not-a-tensor",
        format!("{} is not a tensor", describe(expr)),
    )
    .at(expr.span, "not a tensor")
}
