//! Tensors in the metadata of a text that Apache TVM printed.
//!
//!     metadata = tvm.ir.load_json("{…}")
//!     …                                            →     …
//!     y = R.add(x, metadata["ir.GenericConst"][0])       y = R.add(x, R.const([1.0, 2.0], "float32"))
//!
//! Source: `tvm.ir.save_json` of TVM 0.27: `{"root_index", "nodes": [{"type", "data"}]}`, where a child is the index of
//! a node, and `ffi.Tensor` the base64 of its saved form (`reflection/object graph`, `runtime/ndarray` of TVM).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use irc_syntax::visit::{VisitMut, walk_expr_mut, walk_module_mut};
use irc_syntax::{DType, Diagnostic, Expr, ExprKind, Module, Span, StmtKind};
use serde_json::Value;

use super::{Tensor, print_const};

/// What a saved tensor starts with.
const MAGIC: u64 = 0xDD5E_40F0_96B4_A13F;

/// Writes the tensors of a module's metadata where they are used, and drops the metadata; a module without stays.
///
/// # Errors
/// `metadata` when it cannot be read, at the place of its text, or has no such entry, at the place of the use.
pub fn inline_metadata(module: &mut Module) -> Result<(), Diagnostic> {
    let is_metadata = |kind: &StmtKind| match kind {
        StmtKind::Assign { target, value, .. } => {
            target.as_name().is_some_and(|name| **name == *"metadata")
                && value.is_call_of("tvm.ir.load_json")
        }
        _ => false,
    };
    let Some(at) = module
        .prelude
        .iter()
        .position(|stmt| is_metadata(&stmt.kind))
    else {
        return Ok(());
    };
    let stmt = module.prelude.remove(at);
    let text = match &stmt.kind {
        StmtKind::Assign { value, .. } => value.positional().next().and_then(Expr::as_str),
        _ => None,
    };
    let graph: Value = serde_json::from_str(text.unwrap_or_default())
        .map_err(|error| fault(format!("the metadata is no JSON: {error}"), stmt.span))?;
    let mut inline = Inline {
        graph: &graph,
        faults: Vec::new(),
    };
    walk_module_mut(&mut inline, module);
    inline.faults.into_iter().next().map_or(Ok(()), Err)
}

fn fault(message: String, span: Option<Span>) -> Diagnostic {
    Diagnostic::error("metadata", message).at(span, "here")
}

struct Inline<'g> {
    graph: &'g Value,
    faults: Vec<Diagnostic>,
}

impl VisitMut for Inline<'_> {
    fn visit_expr(&mut self, expr: &mut Expr) {
        walk_expr_mut(self, expr);
        let Some((kind, at)) = entry(expr) else {
            return;
        };
        match self.tensor(kind, at) {
            Some(tensor) => *expr = print_const(&tensor).at(expr.span),
            None => {
                let message = format!("the metadata has no tensor `{kind}` {at} that can be read");
                self.faults.push(fault(message, expr.span));
            }
        }
    }
}

/// `metadata["ir.GenericConst"][0]`
fn entry(expr: &Expr) -> Option<(&str, usize)> {
    let ExprKind::Index { value, index } = &expr.kind else {
        return None;
    };
    let at = usize::try_from(index.first()?.as_int()?).ok()?;
    let ExprKind::Index { value, index } = &value.kind else {
        return None;
    };
    (**value.as_name()? == *"metadata").then_some((index.first()?.as_str()?, at))
}

impl Inline<'_> {
    fn node(&self, at: &Value) -> Option<(&str, &Value)> {
        let node = self.graph["nodes"].get(usize::try_from(at.as_u64()?).ok()?)?;
        Some((node["type"].as_str()?, &node["data"]))
    }

    fn tensor(&self, kind: &str, at: usize) -> Option<Tensor> {
        let (_, root) = self.node(&self.graph["root_index"])?;
        let list = root.as_array()?.chunks(2).find_map(|pair| {
            let (_, key) = self.node(pair.first()?)?;
            (key.as_str() == Some(kind)).then(|| pair.get(1))?
        })?;
        let (_, list) = self.node(list)?;
        let (found, mut data) = self.node(list.get(at)?)?;
        if found != "ffi.Tensor" {
            data = self
                .node(data.get("value").or_else(|| data.get("data"))?)?
                .1;
        }
        saved_tensor(&STANDARD.decode(data.as_str()?).ok()?)
    }
}

/// Magic, reserved word, device (i32, i32), rank (i32), dtype (u8 code, u8 bits, u16 lanes), extents (i64), length of
/// the data (i64), data: all little-endian.
fn saved_tensor(bytes: &[u8]) -> Option<Tensor> {
    let (magic, rest) = bytes.split_first_chunk::<8>()?;
    let (_, rest) = rest.split_at_checked(16)?;
    let (rank, rest) = rest.split_first_chunk::<4>()?;
    let ([code, bits, lanes @ ..], mut rest) = rest.split_first_chunk::<4>()?;
    if u64::from_le_bytes(*magic) != MAGIC || *lanes != [1, 0] {
        return None;
    }
    let dtype = match (*code, *bits) {
        // A bool of one bit is saved as a byte.
        (1, 1) => DType::Bool,
        (code, bits) => DType::all().find(|dtype| {
            dtype.dlpack_code() == code && dtype.bits() == u32::from(bits) && bits >= 8
        })?,
    };
    let mut shape = Vec::new();
    for _ in 0..u32::from_le_bytes(*rank) {
        let (extent, after) = rest.split_first_chunk::<8>()?;
        shape.push(usize::try_from(i64::from_le_bytes(*extent)).ok()?);
        rest = after;
    }
    let (_, data) = rest.split_at_checked(8)?;
    Tensor::new(dtype, shape, data)
}
