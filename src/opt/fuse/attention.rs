//! Joins two matrix products and the rows between them into one group: attention.
//!
//!     lv = cls.matmul(q, k)                      (a product of computed tensors)
//!     lv1 = cls.softmax(lv)            →         y = cls.fused_matmul_…_matmul(q, k, v)
//!     y = cls.matmul(lv1, v)
//!
//! The scores `lv` and `lv1` are then values inside one kernel, which the schedule makes a band of rows at a time
//! (`sched/bands`). Products with weights are left alone: their weights are packed, which pays more.

use std::collections::BTreeSet;

use irc_syntax::Name;

use super::{Fuser, Pattern};
use crate::shape::Dim;

impl Fuser<'_> {
    /// Joins every such three groups.
    pub(super) fn join_attention(&mut self) {
        for product in 0..self.groups.len() {
            let Some(rows) = self.rows_before(product) else {
                continue;
            };
            let Some(scores) = self.product_before(rows) else {
                continue;
            };
            let within = |group: usize, reader: usize| self.is_read_by(group, reader);
            let apart = |group: usize, but: usize, on: &[usize]| {
                self.groups[group].deps.iter().all(|&dep| {
                    let dep = self.resolve(dep);
                    dep == but || dep == group || on.iter().all(|&on| !self.depends_on(dep, on))
                })
            };
            let joins = within(scores, rows)
                && within(rows, product)
                && apart(rows, scores, &[scores])
                && apart(product, rows, &[scores, rows]);
            if joins {
                self.merge(scores, product);
                self.merge(rows, product);
            }
        }
    }

    /// The group of row reductions whose result a product of computed tensors takes as its rows.
    fn rows_before(&self, product: usize) -> Option<usize> {
        let (rows, _) = self.computed_product(product)?;
        let maker = *self.maker.get(&rows)?;
        let group = self.resolve(*self.of_stmt.get(maker)?);
        let of = &self.groups[group];
        let domain = self.shape_of(&rows)?;
        let (last, heads) = domain.split_last()?;
        let kept: Vec<Dim> = heads.iter().cloned().chain([Dim::int(1)]).collect();
        let to = &self.groups[product].domain;
        let fits = of.pattern == Some(Pattern::Reduce)
            && of.domain == domain
            && of.reduced.as_ref() == Some(&kept)
            && last.as_int() != Some(1)
            // With one row there is nothing to hold back.
            && heads.last().is_some_and(|dim| dim.as_int() != Some(1))
            && to.len() == domain.len()
            && to[..heads.len()] == *heads;
        fits.then_some(group)
    }

    /// The one product of computed tensors among what a group of rows reads.
    fn product_before(&self, rows: usize) -> Option<usize> {
        let of = &self.groups[rows];
        let mut products = of
            .deps
            .iter()
            .map(|&dep| self.resolve(dep))
            .filter(|&dep| dep != rows && self.groups[dep].domain == of.domain)
            .filter(|&dep| self.computed_product(dep).is_some())
            .collect::<BTreeSet<usize>>()
            .into_iter();
        match (products.next(), products.next()) {
            (Some(one), None) => Some(one),
            _ => None,
        }
    }

    /// The operands of the matrix product that a group starts with, where neither is a weight.
    fn computed_product(&self, group: usize) -> Option<(Name, Name)> {
        let of = &self.groups[group];
        if of.pattern != Some(Pattern::Contract) || of.merged_into.is_some() {
            return None;
        }
        let mut products = of.members.iter().filter_map(|&at| {
            let value = self.value(at)?;
            value.is_call_of("R.matmul").then_some(value)
        });
        let (value, None) = (products.next()?, products.next()) else {
            return None;
        };
        let mut operands = value.positional().filter_map(|operand| operand.as_name());
        let (a, b) = (operands.next()?, operands.next()?);
        let inputs = self.info.params.iter().take(self.info.num_input);
        let is_computed = |name: &Name| {
            self.maker.contains_key(name) || inputs.clone().any(|(input, _)| input == name)
        };
        (is_computed(a) && is_computed(b)).then(|| (a.clone(), b.clone()))
    }

    /// Whether nothing but `reader` reads what a group makes.
    fn is_read_by(&self, group: usize, reader: usize) -> bool {
        self.groups[group].members.iter().all(|&member| {
            !self.escapes(member)
                && self.users[member].iter().all(|&user| {
                    self.of_stmt
                        .get(user)
                        .is_some_and(|&of| of == group || of == reader)
                })
        })
    }
}
