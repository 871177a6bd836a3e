//! From types to descriptions: what a public function takes and returns, in terms of what can be checked at a call.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::{DType, Diagnostic, Expr, ExprKind, Func, FuncKind, Module, Name};

use super::layout::param;
use super::map;
use crate::check::{FuncInfo, Info, TensorType, Type};
use crate::codegen::loops::{PrimParam, prim_sig};
use crate::shape::{Dim, Facts, SymbolFacts};

/// How a parameter or result is passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A tensor of an element type.
    Tensor(DType),
    /// A number.
    Scalar(DType),
    /// A shape.
    Shape,
    /// A sequence of tensors of an element type.
    Seq(DType),
    /// A tensor of an element type, or None.
    OptTensor(DType),
    /// A sequence, or None.
    OptSeq(DType),
    /// A tensor of an element type and any rank.
    AnyRank(DType),
}

impl Kind {
    /// Whether it is passed as an object of the runtime.
    pub fn is_object(self) -> bool {
        match self {
            Self::Seq(_) | Self::OptTensor(_) | Self::OptSeq(_) | Self::AnyRank(_) => true,
            Self::Tensor(_) | Self::Scalar(_) | Self::Shape => false,
        }
    }

    /// The element type of its tensors.
    fn element(self) -> Option<DType> {
        match self {
            Self::Tensor(dtype)
            | Self::Seq(dtype)
            | Self::OptTensor(dtype)
            | Self::OptSeq(dtype)
            | Self::AnyRank(dtype) => Some(dtype),
            Self::Scalar(_) | Self::Shape => None,
        }
    }
}

/// What must hold of one dim.
#[derive(Clone, PartialEq, Debug)]
pub enum DimRule {
    /// It is a number.
    Const(i64),
    /// It is `factor * symbol + term`.
    Linear {
        /// Index of the symbol in [`Entry::symbols`].
        symbol: usize,
        /// At least 1.
        factor: i64,
        /// Any number.
        term: i64,
    },
    /// It is an expression: an index of [`Entry::compound`].
    Compound(usize),
    /// It is known only by running.
    Any,
}

/// A parameter or a result.
#[derive(Clone, PartialEq, Debug)]
pub struct Slot {
    /// Its name.
    pub name: String,
    /// How it is passed.
    pub kind: Kind,
    /// Its dims; empty for numbers.
    pub dims: Vec<DimRule>,
    /// The dims as text, `?` where known only by running.
    pub dims_text: Vec<String>,
}

/// How results are handed out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// One tensor.
    Tensor,
    /// An array of tensors.
    Array,
    /// Nothing: a prim_func, which writes its arguments.
    None,
}

/// Pairs of tensors that are maps to callers, each by its name and the place of its keys; its values stand behind them.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Maps {
    /// Among the parameters: keys and values.
    pub inputs: Vec<(String, usize)>,
    /// Among the results: keys, and a row of values for each map of a list.
    pub results: Vec<(String, usize)>,
}

impl Maps {
    /// What the attribute `irc.maps` of a function says.
    pub fn of(func: &Func) -> Self {
        let places = |key: &str| -> Vec<(String, usize)> {
            let Some(ExprKind::Dict(parts)) = func.attr("irc.maps").map(|maps| &maps.kind) else {
                return Vec::new();
            };
            let part = parts.iter().find(|(name, _)| name.as_str() == Some(key));
            let Some(ExprKind::Dict(items)) = part.map(|(_, part)| &part.kind) else {
                return Vec::new();
            };
            let read = |(name, at): &(Expr, Expr)| {
                Some((
                    name.as_str()?.to_owned(),
                    usize::try_from(at.as_int()?).ok()?,
                ))
            };
            items.iter().filter_map(read).collect()
        };
        Self {
            inputs: places("inputs"),
            results: places("results"),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.inputs.is_empty() && self.results.is_empty()
    }
}

/// A public function.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Whether it is a prim_func.
    pub is_loops: bool,
    /// What is passed.
    pub inputs: Vec<Slot>,
    /// What comes back.
    pub outputs: Vec<Slot>,
    /// How.
    pub form: Form,
    /// Symbols of inputs, with their facts.
    pub symbols: Vec<(Name, SymbolFacts)>,
    /// Which of its tensors are maps to callers.
    pub maps: Maps,
    /// Dims that are neither numbers nor linear in one symbol.
    pub compound: Vec<Dim>,
}

impl Entry {
    /// Whether C can call it: sequences, optionals and tensors of any rank are for TVM-FFI only.
    pub fn has_c_entries(&self) -> bool {
        let mut slots = self.inputs.iter().chain(&self.outputs);
        !slots.any(|slot| slot.kind.is_object())
    }
}

impl Slot {
    /// Its type as a reader knows it: `Tensor((n, 4), "float32")`.
    pub fn ty(&self) -> String {
        let dims = match self.dims_text.as_slice() {
            [one] => format!("({one},)"),
            many => format!("({})", many.join(", ")),
        };
        match self.kind {
            Kind::Tensor(dtype) => format!("Tensor({dims}, \"{dtype}\")"),
            Kind::Scalar(dtype) => dtype.to_string(),
            Kind::Shape => format!("Shape{dims}"),
            Kind::AnyRank(dtype) => format!("Tensor(\"{dtype}\")"),
            Kind::Seq(dtype) => format!("Array of Tensor(\"{dtype}\")"),
            Kind::OptTensor(dtype) => format!("Tensor(\"{dtype}\") or None"),
            Kind::OptSeq(dtype) => format!("Array of Tensor(\"{dtype}\") or None"),
        }
    }

    /// The number of its kind in a description.
    pub fn kind_code(&self) -> i64 {
        match self.kind {
            Kind::Tensor(_) => param::TENSOR,
            Kind::Scalar(DType::Bool) => param::BOOL,
            Kind::Scalar(dtype) if dtype.is_float() => param::FLOAT,
            Kind::Scalar(_) => param::INT,
            Kind::Shape => param::SHAPE,
            Kind::Seq(_) => param::SEQ,
            Kind::OptTensor(_) => param::OPT_TENSOR,
            Kind::OptSeq(_) => param::OPT_SEQ,
            Kind::AnyRank(_) => param::ANY_RANK,
        }
    }

    /// The `DLDataType` that callers pass, as 32 bits. Types below a byte come one element a byte.
    pub fn dtype_word(&self) -> i64 {
        let Some(dtype) = self.kind.element() else {
            return 0;
        };
        let (code, bits) = match dtype {
            _ if dtype.bits() >= 8 => (dtype.dlpack_code(), dtype.bits()),
            _ if dtype.is_signed() => (0, 8),
            _ => (1, 8),
        };
        i64::from(code) | i64::from(bits) << 8 | 1 << 16
    }

    /// Bytes of an element.
    pub fn element_bytes(&self) -> i64 {
        self.kind.element().map_or(8, |dtype| dtype.bytes() as i64)
    }
}

/// Describes the public functions of a module.
///
/// # Errors
/// A function whose arguments or results cannot be passed, one diagnostic each.
pub fn describe(module: &Module, info: &Info) -> Result<Vec<Entry>, Vec<Diagnostic>> {
    let mut entries = Vec::new();
    let mut faults = Vec::new();
    for func in module.funcs().filter(|func| !func.is_private()) {
        let empty = FuncInfo::default();
        let facts = info.funcs.get(&func.name).unwrap_or(&empty);
        match describe_func(func, facts) {
            Ok(entry) => entries.push(entry),
            Err(fault) => faults.push(fault),
        }
    }
    if faults.is_empty() {
        Ok(entries)
    } else {
        Err(faults)
    }
}

fn describe_func(func: &Func, info: &FuncInfo) -> Result<Entry, Diagnostic> {
    let is_loops = func.kind == FuncKind::Loops;
    let mut maker = Maker {
        func,
        facts: &info.facts,
        symbols: BTreeMap::new(),
        order: Vec::new(),
        compound: Vec::new(),
    };
    let params = if is_loops {
        let (params, dims) = loops_params(func)?;
        // The adapter passes symbols in this order.
        dims.iter().for_each(|name| {
            maker.symbol(name);
        });
        params
    } else {
        let n_input = info.num_input.min(info.params.len());
        info.params[..n_input].to_vec()
    };
    // A symbol that stands alone somewhere is bound there, wherever else it occurs.
    for (_, ty) in &params {
        maker.note_symbols(ty);
    }
    let mut inputs = Vec::new();
    for (name, ty) in &params {
        inputs.push(maker.slot(name, ty)?);
    }
    let known: BTreeSet<Name> = maker.symbols.keys().cloned().collect();
    let mut results = Vec::new();
    let form = match info.ret.as_ref() {
        _ if is_loops => Form::None,
        None | Some(Type::Void) => Form::None,
        Some(ty) => {
            flatten(ty, &mut results);
            if matches!(ty, Type::Tuple(_)) {
                Form::Array
            } else {
                Form::Tensor
            }
        }
    };
    let names = result_names(func, results.len());
    let mut outputs = Vec::new();
    for (name, ty) in names.into_iter().zip(results) {
        outputs.push(maker.result(&name, ty, &known)?);
    }
    let Maker {
        order,
        compound,
        facts,
        ..
    } = maker;
    let maps = Maps::of(func);
    check_maps(func, &maps.inputs, &inputs, 1)?;
    check_maps(func, &maps.results, &outputs, 2)?;
    let symbols = order
        .into_iter()
        .map(|name| (name.clone(), facts.get(&name)))
        .collect();
    Ok(Entry {
        name: func.name.to_string(),
        is_loops,
        inputs,
        outputs,
        form,
        symbols,
        maps,
        compound,
    })
}

/// Refuses pairs that are no keys and values; values are of a rank.
fn check_maps(
    func: &Func,
    maps: &[(String, usize)],
    slots: &[Slot],
    rank: usize,
) -> Result<(), Diagnostic> {
    let mut taken = BTreeSet::new();
    for (name, at) in maps {
        let is_sound = |at: usize, rank: usize| {
            slots.get(at).is_some_and(|slot| match slot.kind {
                Kind::Tensor(dtype) => map::can_pass(dtype) && slot.dims.len() == rank,
                Kind::Scalar(_)
                | Kind::Shape
                | Kind::Seq(_)
                | Kind::OptTensor(_)
                | Kind::OptSeq(_)
                | Kind::AnyRank(_) => false,
            })
        };
        let of = |at: usize| slots.get(at).map(|slot| slot.kind);
        let keys = matches!(of(*at), Some(Kind::Tensor(DType::Str | DType::I64)));
        // Lists of maps hold numbers.
        let values = rank == 1 || of(at + 1) != Some(Kind::Tensor(DType::Str));
        let is_new = taken.insert(*at) && taken.insert(at + 1);
        if !(keys && values && is_new && is_sound(*at, 1) && is_sound(at + 1, rank)) {
            let message = format!(
                "`irc.maps` of `{}` says that `{name}` has keys and values at {at} and {}, which are not \
                 such tensors",
                func.name,
                at + 1
            );
            return Err(Diagnostic::error("entry-type", message)
                .at(func.name_span, "public function")
                .note(
                    "keys are a vector of strings or int64, values of strings, int64 or floats",
                ));
        }
    }
    Ok(())
}

/// Names and types.
type Params = Vec<(Name, Type)>;

/// Buffers and numbers of a prim_func, in the order of its parameters, and the symbols it takes after them.
fn loops_params(func: &Func) -> Result<(Params, Vec<Name>), Diagnostic> {
    let sig = prim_sig(func)?;
    let mut params = Vec::new();
    for (name, param) in sig.params {
        let ty = match param {
            PrimParam::Scalar(dtype) => Type::Scalar(dtype),
            PrimParam::Buffer(decl) => {
                let dims = decl
                    .shape
                    .iter()
                    .map(Dim::from_expr)
                    .collect::<Result<_, _>>()?;
                Type::tensor(decl.dtype, dims)
            }
        };
        params.push((name, ty));
    }
    Ok((params, sig.dims))
}

/// The tensors of a result, tuples flattened.
fn flatten<'t>(ty: &'t Type, into: &mut Vec<&'t Type>) {
    if let Type::Tuple(members) = ty {
        members.iter().for_each(|member| flatten(member, into));
    } else {
        into.push(ty);
    }
}

/// `out`, or `out0`, `out1`…, unless a parameter has that name.
pub fn result_names(func: &Func, n: usize) -> Vec<String> {
    let taken: BTreeSet<&str> = func
        .params
        .iter()
        .map(|param| param.name.as_str())
        .collect();
    let mut base = "out".to_owned();
    while taken.iter().any(|name| name.starts_with(base.as_str())) {
        base.push('_');
    }
    if n == 1 {
        vec![base]
    } else {
        (0..n).map(|i| format!("{base}{i}")).collect()
    }
}

/// What is gathered over the parameters of one function.
struct Maker<'a> {
    func: &'a Func,
    facts: &'a Facts,
    symbols: BTreeMap<Name, usize>,
    order: Vec<Name>,
    compound: Vec<Dim>,
}

impl Maker<'_> {
    fn refuse(&self, name: &str, why: &str) -> Diagnostic {
        Diagnostic::error(
            "entry-type",
            format!(
                "`{}` cannot be called from outside: `{name}` {why}",
                self.func.name
            ),
        )
        .at(self.func.name_span, "public function")
        .note("say `private=True` if only this module calls it")
    }

    fn symbol(&mut self, name: &Name) -> usize {
        let next = self.symbols.len();
        *self.symbols.entry(name.clone()).or_insert_with(|| {
            self.order.push(name.clone());
            next
        })
    }

    /// Symbols that a dim of this type binds.
    fn note_symbols(&mut self, ty: &Type) {
        let dims = match ty {
            Type::Tensor(tensor) => tensor.shape.as_deref(),
            Type::Shape(dims) => dims.as_deref(),
            _ => None,
        };
        for dim in dims.unwrap_or_default() {
            if let Some((name, ..)) = linear(dim) {
                self.symbol(&name);
            }
        }
    }

    fn slot(&mut self, name: &Name, ty: &Type) -> Result<Slot, Diagnostic> {
        let known: BTreeSet<Name> = self.symbols.keys().cloned().collect();
        if let Some(kind) = self.object(name, ty)? {
            return Ok(self.make(name.to_string(), kind, Vec::new(), &known));
        }
        let (kind, dims) = match ty {
            Type::Tensor(tensor) => self.tensor(name, tensor)?,
            Type::Scalar(dtype) => (Kind::Scalar(*dtype), Vec::new()),
            Type::Shape(Some(dims)) => (Kind::Shape, dims.iter().cloned().map(Some).collect()),
            _ => {
                return Err(self.refuse(
                    name,
                    "is neither a tensor nor a number nor a shape of known rank",
                ));
            }
        };
        Ok(self.make(name.to_string(), kind, dims, &known))
    }

    fn result(
        &mut self,
        name: &str,
        ty: &Type,
        known: &BTreeSet<Name>,
    ) -> Result<Slot, Diagnostic> {
        if let Some(kind) = self.object(name, ty)? {
            return Ok(self.make(name.to_owned(), kind, Vec::new(), known));
        }
        let Type::Tensor(tensor) = ty else {
            return Err(self.refuse(name, "is a result that is not a tensor"));
        };
        let (kind, dims) = self.tensor(name, tensor)?;
        Ok(self.make(name.to_owned(), kind, dims, known))
    }

    /// How a value that is described at run time is passed; `None` for others.
    fn object(&self, name: &str, ty: &Type) -> Result<Option<Kind>, Diagnostic> {
        let (tensor, kind): (&Type, fn(DType) -> Kind) = match ty {
            Type::Tensor(tensor) if tensor.ndim.is_none() => (ty, Kind::AnyRank),
            Type::Seq(inner) => (inner, Kind::Seq),
            Type::Opt(inner) => match &**inner {
                Type::Seq(inner) => (inner, Kind::OptSeq),
                inner => (inner, Kind::OptTensor),
            },
            _ => return Ok(None),
        };
        match tensor.as_tensor().and_then(|tensor| tensor.dtype) {
            Some(dtype) if dtype != DType::Str => Ok(Some(kind(dtype))),
            _ => Err(self.refuse(name, "holds tensors whose dtype cannot be passed")),
        }
    }

    fn tensor(
        &self,
        name: &str,
        tensor: &TensorType,
    ) -> Result<(Kind, Vec<Option<Dim>>), Diagnostic> {
        let Some(dtype) = tensor.dtype else {
            return Err(self.refuse(name, "is a tensor whose dtype is not known"));
        };
        let dims = match (&tensor.shape, tensor.ndim) {
            (Some(dims), _) => dims.iter().cloned().map(Some).collect(),
            (None, Some(rank)) => vec![None; rank],
            (None, None) => return Err(self.refuse(name, "is a tensor of unknown rank")),
        };
        Ok((Kind::Tensor(dtype), dims))
    }

    fn make(
        &mut self,
        name: String,
        kind: Kind,
        dims: Vec<Option<Dim>>,
        known: &BTreeSet<Name>,
    ) -> Slot {
        let mut rules = Vec::new();
        let mut texts = Vec::new();
        for dim in dims {
            let usable = dim.filter(|dim| dim.symbols().is_subset(known) && !dim.overflows());
            texts.push(usable.as_ref().map_or("?".to_owned(), ToString::to_string));
            rules.push(usable.map_or(DimRule::Any, |dim| self.rule(dim)));
        }
        Slot {
            name,
            kind,
            dims: rules,
            dims_text: texts,
        }
    }

    fn rule(&mut self, dim: Dim) -> DimRule {
        if let Some(value) = dim.as_int() {
            return DimRule::Const(value);
        }
        if let Some((name, factor, term)) = linear(&dim) {
            let symbol = self.symbol(&name);
            return DimRule::Linear {
                symbol,
                factor,
                term,
            };
        }
        let place = self
            .compound
            .iter()
            .position(|other| *other == dim)
            .unwrap_or_else(|| {
                self.compound.push(dim);
                self.compound.len() - 1
            });
        DimRule::Compound(place)
    }
}

/// `(symbol, a, b)` of a dim `a * symbol + b` with positive `a`.
fn linear(dim: &Dim) -> Option<(Name, i64, i64)> {
    let symbols = dim.symbols();
    let name = symbols.first().filter(|_| symbols.len() == 1)?;
    let at = |value: i64| dim.eval(&|symbol| (symbol == name).then_some(value));
    let (term, first) = (at(0)?, at(1)?);
    let factor = first.checked_sub(term)?;
    let same = *dim == Dim::sym(name) * Dim::int(factor) + Dim::int(term);
    (factor >= 1 && same).then(|| (name.clone(), factor, term))
}
