//! Messages of an ONNX file, written: the counterpart of `onnx/model`.
//!
//! In: nodes, tensors and types as plain structures. Out: bytes in protobuf's wire format, in the order of field numbers
//! that ONNX's own library writes. The bytes of weights are not copied: [`Chunks`] is a list of pieces, some borrowed.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Bytes in pieces.
#[derive(Default)]
pub struct Chunks<'w> {
    pieces: Vec<Cow<'w, [u8]>>,
    len: usize,
}

impl<'w> Chunks<'w> {
    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Writes all of them.
    ///
    /// # Errors
    /// What `out` says.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        self.pieces
            .iter()
            .try_for_each(|piece| out.write_all(piece))
    }

    /// Adds bytes of our own.
    fn put(&mut self, bytes: &[u8]) {
        self.len += bytes.len();
        match self.pieces.last_mut() {
            Some(Cow::Owned(piece)) => piece.extend_from_slice(bytes),
            Some(Cow::Borrowed(_)) | None => self.pieces.push(Cow::Owned(bytes.to_vec())),
        }
    }

    /// Adds bytes that stay where they are.
    fn lend(&mut self, bytes: &'w [u8]) {
        self.len += bytes.len();
        self.pieces.push(Cow::Borrowed(bytes));
    }

    fn varint(&mut self, mut value: u64) {
        let mut bytes = [0u8; 10];
        let mut n = 0;
        loop {
            let low = (value & 0x7f) as u8;
            value >>= 7;
            bytes[n] = if value == 0 { low } else { low | 0x80 };
            n += 1;
            if value == 0 {
                break;
            }
        }
        self.put(&bytes[..n]);
    }

    fn key(&mut self, number: u32, wire: u64) {
        self.varint(u64::from(number) << 3 | wire);
    }

    /// An integer field.
    pub fn int(&mut self, number: u32, value: i64) {
        self.key(number, 0);
        self.varint(value.cast_unsigned());
    }

    /// A float field.
    pub fn float(&mut self, number: u32, value: f32) {
        self.key(number, 5);
        self.put(&value.to_le_bytes());
    }

    /// A field of bytes or text.
    pub fn bytes(&mut self, number: u32, value: &[u8]) {
        self.key(number, 2);
        self.varint(value.len() as u64);
        self.put(value);
    }

    /// A field of bytes that stay where they are.
    pub fn borrowed(&mut self, number: u32, value: &'w [u8]) {
        self.key(number, 2);
        self.varint(value.len() as u64);
        self.lend(value);
    }

    /// Bytes that stay where they are, without a field; the place where they begin, a multiple of 64.
    pub fn append(&mut self, value: &'w [u8]) -> u64 {
        let gap = self.len.next_multiple_of(64) - self.len;
        self.put(&vec![0; gap]);
        let start = self.len as u64;
        self.lend(value);
        start
    }

    /// A field that is a message.
    pub fn message(&mut self, number: u32, value: Chunks<'w>) {
        self.key(number, 2);
        self.varint(value.len as u64);
        for piece in value.pieces {
            match piece {
                Cow::Owned(bytes) => self.put(&bytes),
                Cow::Borrowed(bytes) => self.lend(bytes),
            }
        }
    }
}

/// The data of a tensor.
pub enum Data<'w> {
    /// As irc holds it.
    Borrowed(&'w [u8]),
    /// Made for the file.
    Owned(Vec<u8>),
    /// Texts.
    Strings(Vec<String>),
    /// In a file beside the model: its name, and where.
    External(String, u64, u64),
}

/// A `TensorProto`.
pub struct Tensor<'w> {
    /// Its name; empty in attributes.
    pub name: String,
    /// ONNX's number of the element type.
    pub data_type: i64,
    /// Extents.
    pub dims: Vec<i64>,
    /// The elements, packed as ONNX packs them.
    pub data: Data<'w>,
}

impl<'w> Tensor<'w> {
    fn write(self) -> Chunks<'w> {
        let mut out = Chunks::default();
        for dim in &self.dims {
            out.int(1, *dim);
        }
        out.int(2, self.data_type);
        if let Data::Strings(texts) = &self.data {
            for text in texts {
                out.bytes(6, text.as_bytes());
            }
        }
        if !self.name.is_empty() {
            out.bytes(8, self.name.as_bytes());
        }
        match self.data {
            Data::Borrowed(bytes) => out.borrowed(9, bytes),
            Data::Owned(bytes) => out.bytes(9, &bytes),
            Data::Strings(_) => {}
            Data::External(file, offset, length) => {
                for (key, value) in [
                    ("location", file),
                    ("offset", offset.to_string()),
                    ("length", length.to_string()),
                ] {
                    let mut entry = Chunks::default();
                    entry.bytes(1, key.as_bytes());
                    entry.bytes(2, value.as_bytes());
                    out.message(13, entry);
                }
                out.int(14, 1);
            }
        }
        out
    }
}

/// The value of an `AttributeProto`.
pub enum Attr<'w> {
    /// `FLOAT`
    Float(f32),
    /// `INT`
    Int(i64),
    /// `STRING`
    Str(String),
    /// `TENSOR`
    Tensor(Tensor<'w>),
    /// `GRAPH`
    Graph(Graph<'w>),
    /// `FLOATS`
    Floats(Vec<f32>),
    /// `INTS`
    Ints(Vec<i64>),
    /// `STRINGS`
    Strs(Vec<String>),
    /// `TYPE_PROTO`
    Type(Type),
}

/// A `NodeProto`.
pub struct Node<'w> {
    /// The operator.
    pub op: String,
    /// Its domain; empty for ai.onnx.
    pub domain: String,
    /// Inputs; empty text where one is left out.
    pub inputs: Vec<String>,
    /// Outputs.
    pub outputs: Vec<String>,
    /// Attributes, in order of names.
    pub attrs: Vec<(String, Attr<'w>)>,
}

impl<'w> Node<'w> {
    /// Gives values other names, in graphs inside the node too.
    pub fn rename(&mut self, names: &BTreeMap<String, String>) {
        for value in self.inputs.iter_mut().chain(&mut self.outputs) {
            if let Some(name) = names.get(value) {
                value.clone_from(name);
            }
        }
        for (_, attr) in &mut self.attrs {
            if let Attr::Graph(graph) = attr {
                graph.nodes.iter_mut().for_each(|node| node.rename(names));
            }
        }
    }

    fn write(self) -> Chunks<'w> {
        let mut out = Chunks::default();
        for input in &self.inputs {
            out.bytes(1, input.as_bytes());
        }
        for output in &self.outputs {
            out.bytes(2, output.as_bytes());
        }
        if let Some(first) = self.outputs.iter().find(|output| !output.is_empty()) {
            out.bytes(3, first.as_bytes());
        }
        out.bytes(4, self.op.as_bytes());
        for (name, attr) in self.attrs {
            out.message(5, write_attr(&name, attr));
        }
        if !self.domain.is_empty() {
            out.bytes(7, self.domain.as_bytes());
        }
        out
    }
}

fn write_attr<'w>(name: &str, attr: Attr<'w>) -> Chunks<'w> {
    let mut out = Chunks::default();
    out.bytes(1, name.as_bytes());
    let kind = match attr {
        Attr::Float(value) => {
            out.float(2, value);
            1
        }
        Attr::Int(value) => {
            out.int(3, value);
            2
        }
        Attr::Str(text) => {
            out.bytes(4, text.as_bytes());
            3
        }
        Attr::Tensor(tensor) => {
            out.message(5, tensor.write());
            4
        }
        Attr::Graph(graph) => {
            out.message(6, graph.write());
            5
        }
        Attr::Floats(values) => {
            values.iter().for_each(|value| out.float(7, *value));
            6
        }
        Attr::Ints(values) => {
            values.iter().for_each(|value| out.int(8, *value));
            7
        }
        Attr::Strs(texts) => {
            texts.iter().for_each(|text| out.bytes(9, text.as_bytes()));
            8
        }
        Attr::Type(ty) => {
            out.message(14, ty.write());
            13
        }
    };
    out.int(20, kind);
    out
}

/// One extent of a type.
pub enum Extent {
    /// A number.
    Value(i64),
    /// A name.
    Param(String),
    /// Not known.
    Unknown,
}

/// A `TypeProto`.
pub enum Type {
    /// A tensor: element type, and extents where the rank is known.
    Tensor(i64, Option<Vec<Extent>>),
    /// A sequence.
    Sequence(Box<Type>),
    /// An optional value.
    Optional(Box<Type>),
}

impl Type {
    fn write<'w>(&self) -> Chunks<'w> {
        let mut out = Chunks::default();
        match self {
            Self::Tensor(elem, dims) => {
                let mut tensor = Chunks::default();
                tensor.int(1, *elem);
                if let Some(dims) = dims {
                    let mut shape = Chunks::default();
                    for dim in dims {
                        let mut extent = Chunks::default();
                        match dim {
                            Extent::Value(value) => extent.int(1, *value),
                            Extent::Param(name) => extent.bytes(2, name.as_bytes()),
                            Extent::Unknown => {}
                        }
                        shape.message(1, extent);
                    }
                    tensor.message(2, shape);
                }
                out.message(1, tensor);
            }
            Self::Sequence(element) | Self::Optional(element) => {
                let mut inner = Chunks::default();
                inner.message(1, element.write());
                let number = if matches!(self, Self::Sequence(_)) {
                    4
                } else {
                    9
                };
                out.message(number, inner);
            }
        }
        out
    }
}

/// A `GraphProto`.
#[derive(Default)]
pub struct Graph<'w> {
    /// Its name.
    pub name: String,
    /// Operators in order.
    pub nodes: Vec<Node<'w>>,
    /// Constant tensors.
    pub initializers: Vec<Tensor<'w>>,
    /// Inputs with their types.
    pub inputs: Vec<(String, Type)>,
    /// Outputs with their types.
    pub outputs: Vec<(String, Type)>,
}

impl<'w> Graph<'w> {
    fn write(self) -> Chunks<'w> {
        let mut out = Chunks::default();
        for node in self.nodes {
            out.message(1, node.write());
        }
        out.bytes(2, self.name.as_bytes());
        for tensor in self.initializers {
            out.message(5, tensor.write());
        }
        for (number, values) in [(11, &self.inputs), (12, &self.outputs)] {
            for (name, ty) in values {
                let mut value = Chunks::default();
                value.bytes(1, name.as_bytes());
                value.message(2, ty.write());
                out.message(number, value);
            }
        }
        out
    }
}

/// A `ModelProto`.
pub struct Model<'w> {
    /// Version of the format.
    pub ir_version: i64,
    /// Operator sets: domain and version.
    pub opsets: Vec<(String, i64)>,
    /// The graph.
    pub graph: Graph<'w>,
}

impl<'w> Model<'w> {
    /// The file.
    pub fn write(self) -> Chunks<'w> {
        let mut out = Chunks::default();
        out.int(1, self.ir_version);
        out.bytes(2, b"irc");
        out.bytes(3, env!("CARGO_PKG_VERSION").as_bytes());
        out.message(7, self.graph.write());
        for (domain, version) in self.opsets {
            let mut opset = Chunks::default();
            opset.bytes(1, domain.as_bytes());
            opset.int(2, version);
            out.message(8, opset);
        }
        out
    }
}
