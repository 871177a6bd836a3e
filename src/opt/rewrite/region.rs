//! Element-wise computations between two moves of elements that undo each other.

use std::collections::BTreeMap;

use irc_syntax::{Expr, ExprKind, Name};

use super::Site;
use crate::check::prim::{Prim, Unary};

/// How many operators a region may have.
const MOST: usize = 64;

/// Operators of the library that compute each element from that of their first operand.
const ACTIVATIONS: [&str; 14] = [
    "R.clip",
    "R.nn.celu",
    "R.nn.elu",
    "R.nn.gelu",
    "R.nn.gelu_tanh",
    "R.nn.hard_sigmoid",
    "R.nn.hard_swish",
    "R.nn.leakyrelu",
    "R.nn.mish",
    "R.nn.relu",
    "R.nn.relu6",
    "R.nn.silu",
    "R.nn.softplus",
    "R.nn.softsign",
];

/// What stands for an operand from outside the region, or nothing.
pub type Entry<'e> = &'e dyn Fn(&Expr) -> Option<Expr>;

/// The operators from some moved values to one value, none of which anything else reads.
pub struct Region<'s, 'a> {
    site: &'s Site<'a>,
    /// What is read in place of a moved value.
    moved: Entry<'s>,
    /// Whether a constant may be read.
    accepts: &'s dyn Fn(&Expr) -> bool,
    /// The operators in order, and how often the region reads each.
    order: Vec<Name>,
    reads: BTreeMap<Name, usize>,
    has_moved: bool,
}

impl<'s, 'a> Region<'s, 'a> {
    /// Finds the region that ends in `value`, which one other operator reads.
    pub fn find(
        site: &'s Site<'a>,
        value: &Expr,
        moved: Entry<'s>,
        accepts: &'s dyn Fn(&Expr) -> bool,
    ) -> Option<Self> {
        let mut region = Self {
            site,
            moved,
            accepts,
            order: Vec::new(),
            reads: BTreeMap::new(),
            has_moved: false,
        };
        region.enter(value)?;
        let closed = region.has_moved
            && !region.order.is_empty()
            && (region.reads.iter()).all(|(name, &reads)| site.uses(&Expr::name(name)) == reads);
        closed.then_some(region)
    }

    /// Computes it beside the binding at hand on what is not moved, and gives how the last value is computed.
    /// `constant` says what is read in place of a constant.
    pub fn compute(&self, constant: Entry) -> Option<Expr> {
        let mut made: BTreeMap<Name, Expr> = BTreeMap::new();
        let mut last = None;
        for name in &self.order {
            let mut value = self.site.def(&Expr::name(name))?.clone();
            let ExprKind::Call { args, .. } = &mut value.kind else {
                return None;
            };
            for arg in args.iter_mut() {
                if let Some(new) = self.replacement(&arg.value, &made, constant) {
                    if let Some(old) = arg.value.as_name() {
                        made.insert(old.clone(), new.clone());
                    }
                    arg.value = new;
                }
            }
            if self.order.last() == Some(name) {
                last = Some(value);
            } else {
                made.insert(name.clone(), self.site.step(name.as_str(), value));
            }
        }
        last
    }

    fn replacement(
        &self,
        operand: &Expr,
        made: &BTreeMap<Name, Expr>,
        constant: Entry,
    ) -> Option<Expr> {
        if let Some(name) = operand.as_name()
            && let Some(new) = made.get(name)
        {
            return Some(new.clone());
        }
        // Attributes are no operands.
        self.site.ty(operand)?;
        if self.site.constant_shape(operand).is_some() {
            return constant(operand);
        }
        (self.moved)(operand)
    }

    fn enter(&mut self, value: &Expr) -> Option<()> {
        if (self.moved)(value).is_some() {
            self.has_moved = true;
            return Some(());
        }
        if self.site.constant_shape(value).is_some() {
            return (self.accepts)(value).then_some(());
        }
        let name = value.as_name()?;
        *self.reads.entry(name.clone()).or_insert(0) += 1;
        if self.order.contains(name) {
            return Some(());
        }
        if self.order.len() == MOST {
            return None;
        }
        let def = self.site.def(value)?;
        for operand in operands(self.site, def)? {
            self.enter(&operand)?;
        }
        self.order.push(name.clone());
        Some(())
    }
}

/// The tensors that an element-wise operator reads.
fn operands(site: &Site, value: &Expr) -> Option<Vec<Expr>> {
    let (path, args) = value.as_call()?;
    if ACTIVATIONS.contains(&path.as_str()) {
        let names = args.iter().filter(|arg| arg.value.as_name().is_some());
        return Some(names.map(|arg| arg.value.clone()).collect());
    }
    let call = site.prim(value)?;
    match call.prim {
        Prim::Unary(Unary::Isnan | Unary::Isinf | Unary::Isfinite) => None,
        Prim::Unary(_) | Prim::Binary(_) | Prim::Where | Prim::Astype => {
            Some(call.operands().into_iter().cloned().collect())
        }
        _ => None,
    }
}
