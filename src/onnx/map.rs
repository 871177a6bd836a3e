//! Maps, of which no operator computes anything: each is two tensors, its keys and its values.
//!
//! Before: a graph input `x` of type `map(string, float)`, an output `z` of `seq(map(int64, float))`. After: parameters
//! `x_keys` and `x_values`, vectors of one length, and two results, the keys and a row of values for each map. The attribute
//! `irc.maps` says where they stand, so that callers pass and get maps. CastMap and DictVectorizer take both parts, ZipMap gives them.

use std::collections::BTreeMap;

use irc_syntax::ast::{Expr, Name, Param, Stmt};

use super::fault::Failure;
use super::import::{Importer, Scope};
use super::model::{AttrValue, Node, TypeProto};
use super::nodes::targets;
use super::order::describe;
use super::signature::{Symbols, map_dtypes, tensor_type};

/// The dotted name of the operator that makes maps.
pub const ZIP_MAP: &str = "onnx.ml.ZipMap";
/// Those that take them.
const TAKERS: [&str; 2] = ["onnx.ml.CastMap", "onnx.ml.DictVectorizer"];

/// The maps of a model.
#[derive(Default)]
pub struct Maps {
    /// By the name that stands for the map: its keys and its values.
    pub pairs: BTreeMap<Name, [Name; 2]>,
    /// Names in the file, and the places of the keys among the parameters.
    pub inputs: Vec<(String, usize)>,
    /// The same among the results.
    pub results: Vec<(String, usize)>,
}

impl Maps {
    /// The value of `irc.maps`; `None` where there are none.
    pub fn attr(&self) -> Option<Expr> {
        let part = |key: &str, maps: &[(String, usize)]| {
            let maps = maps.iter().cloned();
            let places = maps.map(|(name, at)| (name, Expr::int(at as i128)));
            (places.len() > 0).then(|| (key.to_owned(), Expr::dict(places)))
        };
        let parts = [part("inputs", &self.inputs), part("results", &self.results)];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| Expr::dict(parts))
    }
}

impl<'m, 'a> Importer<'m, 'a> {
    /// The two parameters of an input that is a map.
    pub(super) fn map_input(
        &mut self,
        name: &str,
        legal: &Name,
        key: i64,
        value: &TypeProto<'a>,
        symbols: &mut Symbols<'a>,
    ) -> Result<(), Failure> {
        let dtypes = match map_dtypes(key, value, &format!("input `{name}`")) {
            Ok(dtypes) => dtypes,
            Err(failure) => return self.gather(failure),
        };
        let extent = self.names.fresh(&format!("{legal}_n"));
        symbols.all.push(extent.clone());
        self.maps.inputs.push((name.to_owned(), self.params.len()));
        let parts = ["keys", "values"].map(|part| self.names.fresh(&format!("{legal}_{part}")));
        for (part, dtype) in parts.iter().zip(dtypes) {
            let dims = Some(vec![Expr::str(extent.as_str())]);
            let param = Param::new(part.clone(), tensor_type(dtype, dims));
            self.params.push(param);
        }
        self.maps.pairs.insert(legal.clone(), parts);
        Ok(())
    }

    /// A node's inputs with keys and values in the place of a map.
    pub(super) fn opened_maps(
        &self,
        node: &Node<'a>,
        path: &str,
        inputs: Vec<Option<Name>>,
    ) -> Result<Vec<Option<Name>>, Failure> {
        let mut opened = Vec::with_capacity(inputs.len() + 1);
        let takes = TAKERS.contains(&path);
        for input in inputs {
            let pair = input.as_ref().and_then(|name| self.maps.pairs.get(name));
            match pair {
                Some(pair) if takes => opened.extend(pair.iter().cloned().map(Some)),
                Some(_) => {
                    return Err(Failure::unsupported(format!(
                        "{} reads a map, which only CastMap and DictVectorizer take",
                        describe(node)
                    )));
                }
                None if takes => {
                    return Err(Failure::invalid(format!(
                        "{} reads a value that is no map",
                        describe(node)
                    )));
                }
                None => opened.push(input),
            }
        }
        Ok(opened)
    }

    /// `keys, rows = onnx.ml.ZipMap(x, …)`.
    pub(super) fn zip_map(
        &mut self,
        node: &'m Node<'a>,
        version: i64,
        inputs: &[Option<Name>],
        attrs: &BTreeMap<&'a str, &'m AttrValue<'a>>,
        scope: &mut Scope<'a>,
        body: &mut Vec<Stmt>,
    ) -> Result<(), Failure> {
        let at = describe(node);
        let ([Some(x)], [output]) = (inputs, node.outputs.as_slice()) else {
            return Err(Failure::invalid(format!(
                "{at} has {} inputs and {} outputs, and a ZipMap has one of each",
                inputs.len(),
                node.outputs.len()
            )));
        };
        let mut call = Expr::call(ZIP_MAP, [Expr::name(x.clone())]);
        for (name, value) in attrs {
            if let Some(value) = self.attr_value(name, value, node, body)? {
                call = call.with(name, value);
            }
        }
        let legal = self.names.fresh(output);
        let parts = ["keys", "values"].map(|part| self.names.fresh(&format!("{legal}_{part}")));
        for part in &parts {
            self.origins.insert(part.clone(), at.clone());
        }
        let call = call.with("since", Expr::int(version));
        body.push(Stmt::assign(targets(&parts), call));
        self.maps.pairs.insert(legal.clone(), parts);
        scope.define(output, legal);
        Ok(())
    }
}
