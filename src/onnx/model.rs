//! An ONNX file as borrowed structures: names are slices of the file, tensors keep their bytes where they are.
//!
//! In: the bytes of a `ModelProto` (or of a `TensorProto` of test data). Out: the messages below with what the
//! import needs; documentation, device placement and training information are passed over. Numbers of tensors
//! are decoded in `tensor.rs`, and only once their count is proven.

use super::wire::{Field, Reader, WireError};

/// A `ModelProto`.
#[derive(Clone, Default, Debug)]
pub struct Model<'a> {
    /// Version of the format; 0 when absent.
    pub ir_version: i64,
    /// Operator sets that the graph's nodes are taken from.
    pub opsets: Vec<Opset<'a>>,
    /// The program that wrote the file.
    pub producer: &'a str,
    /// The graph; `None` when absent.
    pub graph: Option<Graph<'a>>,
    /// Functions that the model brings along.
    pub functions: Vec<Function<'a>>,
}

/// An operator set: `("", 17)`.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Opset<'a> {
    /// Its domain; empty for ONNX's own.
    pub domain: &'a str,
    /// Its version.
    pub version: i64,
}

/// A `GraphProto`.
#[derive(Clone, Default, Debug)]
pub struct Graph<'a> {
    /// Its name.
    pub name: &'a str,
    /// Operators in written order.
    pub nodes: Vec<Node<'a>>,
    /// Constant tensors.
    pub initializers: Vec<Tensor<'a>>,
    /// Constant sparse tensors.
    pub sparse_initializers: Vec<SparseTensor<'a>>,
    /// Inputs, initializers among them in old files.
    pub inputs: Vec<ValueInfo<'a>>,
    /// Outputs.
    pub outputs: Vec<ValueInfo<'a>>,
    /// Types of values between.
    pub values: Vec<ValueInfo<'a>>,
}

/// A `FunctionProto`.
#[derive(Clone, Default, Debug)]
pub struct Function<'a> {
    /// Its name: the operator type of its calls.
    pub name: &'a str,
    /// Its domain.
    pub domain: &'a str,
    /// Tells functions of one name apart.
    pub overload: &'a str,
    /// Inputs by name.
    pub inputs: Vec<&'a str>,
    /// Outputs by name.
    pub outputs: Vec<&'a str>,
    /// Attributes that a call must give, by name.
    pub attributes: Vec<&'a str>,
    /// Attributes with a default.
    pub defaults: Vec<Attribute<'a>>,
    /// Operators.
    pub nodes: Vec<Node<'a>>,
    /// Operator sets that its nodes are taken from.
    pub opsets: Vec<Opset<'a>>,
}

/// A `NodeProto`.
#[derive(Clone, Default, Debug)]
pub struct Node<'a> {
    /// Its name; may be empty.
    pub name: &'a str,
    /// The operator.
    pub op: &'a str,
    /// The operator's domain; empty for ONNX's own.
    pub domain: &'a str,
    /// Tells functions of one name apart.
    pub overload: &'a str,
    /// Inputs; empty text where one is left out.
    pub inputs: Vec<&'a str>,
    /// Outputs; empty text where one is not wanted.
    pub outputs: Vec<&'a str>,
    /// Attributes in written order.
    pub attributes: Vec<Attribute<'a>>,
}

/// An `AttributeProto`.
#[derive(Clone, Debug)]
pub struct Attribute<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its value.
    pub value: AttrValue<'a>,
}

/// The value of an attribute.
#[derive(Clone, Debug)]
pub enum AttrValue<'a> {
    /// An attribute of the surrounding function's call.
    Ref(&'a str),
    /// `FLOAT`
    Float(f32),
    /// `INT`
    Int(i64),
    /// `STRING`
    Str(&'a [u8]),
    /// `TENSOR`
    Tensor(Box<Tensor<'a>>),
    /// `GRAPH`
    Graph(Box<Graph<'a>>),
    /// `SPARSE_TENSOR`
    Sparse(Box<SparseTensor<'a>>),
    /// `FLOATS`
    Floats(Vec<f32>),
    /// `INTS`
    Ints(Vec<i64>),
    /// `STRINGS`
    Strs(Vec<&'a [u8]>),
    /// `TENSORS`
    Tensors(Vec<Tensor<'a>>),
    /// `TYPE_PROTO`
    Type(Box<TypeProto<'a>>),
    /// A kind that irc has no use for, by its number; or a type number that the value does not bear out.
    Other(i64),
}

/// A `TensorProto` whose numbers have not been looked at.
#[derive(Clone, Default, Debug)]
pub struct Tensor<'a> {
    /// Its name.
    pub name: &'a str,
    /// Extents as written.
    pub dims: Vec<i64>,
    /// Element type as written.
    pub data_type: i64,
    /// Numbers as bytes.
    pub raw: Option<&'a [u8]>,
    /// Fields that hold numbers or strings one by one: `float_data` and the like.
    pub typed: Vec<Field<'a>>,
    /// `location`, `offset`, `length` of numbers in another file.
    pub external: Vec<(&'a str, &'a str)>,
    /// Whether the numbers are in another file.
    pub is_external: bool,
}

/// A `SparseTensorProto`.
#[derive(Clone, Default, Debug)]
pub struct SparseTensor<'a> {
    /// The elements that are not zero; has the name.
    pub values: Tensor<'a>,
    /// Where they are: linear, or a row of coordinates each.
    pub indices: Tensor<'a>,
    /// Extents of the dense tensor.
    pub dims: Vec<i64>,
}

/// A `ValueInfoProto`.
#[derive(Clone, Default, Debug)]
pub struct ValueInfo<'a> {
    /// The value's name.
    pub name: &'a str,
    /// Its type; `None` when absent.
    pub ty: Option<TypeProto<'a>>,
}

/// A `TypeProto`.
#[derive(Clone, PartialEq, Debug)]
pub enum TypeProto<'a> {
    /// A tensor: element type as written, and extents where the rank is known.
    Tensor(i64, Option<Vec<DimProto<'a>>>),
    /// A sequence.
    Sequence(Box<TypeProto<'a>>),
    /// An optional value.
    Optional(Box<TypeProto<'a>>),
    /// A map: the type of its keys as written, and that of its values.
    Map(i64, Box<TypeProto<'a>>),
    /// A sparse or an opaque type, by name.
    Other(&'static str),
    /// No type inside the message.
    Missing,
}

/// One extent of a type.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum DimProto<'a> {
    /// A number.
    Value(i64),
    /// A name.
    Param(&'a str),
    /// Nothing known.
    Unknown,
}

impl<'a> Model<'a> {
    /// Reads a whole file.
    ///
    /// # Errors
    /// Where the bytes are not those of a `ModelProto`.
    pub fn read(bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut model = Self::default();
        let mut reader = Reader::new(bytes);
        while let Some(field) = reader.next_field()? {
            match field.number {
                1 => model.ir_version = field.int()?,
                2 => model.producer = field.text()?,
                7 => model.graph = Some(Graph::read(reader.message(&field)?)?),
                8 => model.opsets.push(Opset::read(reader.message(&field)?)?),
                25 => model
                    .functions
                    .push(Function::read(reader.message(&field)?)?),
                _ => {}
            }
        }
        Ok(model)
    }
}

impl<'a> Opset<'a> {
    fn read(mut reader: Reader<'a>) -> Result<Self, WireError> {
        let mut opset = Self::default();
        while let Some(field) = reader.next_field()? {
            match field.number {
                1 => opset.domain = field.text()?,
                2 => opset.version = field.int()?,
                _ => {}
            }
        }
        Ok(opset)
    }
}

impl<'a> Graph<'a> {
    fn read(mut reader: Reader<'a>) -> Result<Self, WireError> {
        let mut graph = Self::default();
        while let Some(field) = reader.next_field()? {
            match field.number {
                1 => graph.nodes.push(Node::read(reader.message(&field)?)?),
                2 => graph.name = field.text()?,
                5 => graph
                    .initializers
                    .push(Tensor::read(reader.message(&field)?)?),
                11 => graph.inputs.push(ValueInfo::read(reader.message(&field)?)?),
                12 => graph
                    .outputs
                    .push(ValueInfo::read(reader.message(&field)?)?),
                13 => graph.values.push(ValueInfo::read(reader.message(&field)?)?),
                15 => graph
                    .sparse_initializers
                    .push(SparseTensor::read(reader.message(&field)?)?),
                _ => {}
            }
        }
        Ok(graph)
    }
}

impl<'a> Function<'a> {
    fn read(mut reader: Reader<'a>) -> Result<Self, WireError> {
        let mut func = Self::default();
        while let Some(field) = reader.next_field()? {
            match field.number {
                1 => func.name = field.text()?,
                4 => func.inputs.push(field.text()?),
                5 => func.outputs.push(field.text()?),
                6 => func.attributes.push(field.text()?),
                7 => func.nodes.push(Node::read(reader.message(&field)?)?),
                9 => func.opsets.push(Opset::read(reader.message(&field)?)?),
                10 => func.domain = field.text()?,
                11 => func
                    .defaults
                    .push(Attribute::read(reader.message(&field)?)?),
                13 => func.overload = field.text()?,
                _ => {}
            }
        }
        Ok(func)
    }
}

impl<'a> Node<'a> {
    fn read(mut reader: Reader<'a>) -> Result<Self, WireError> {
        let mut node = Self::default();
        while let Some(field) = reader.next_field()? {
            match field.number {
                1 => node.inputs.push(field.text()?),
                2 => node.outputs.push(field.text()?),
                3 => node.name = field.text()?,
                4 => node.op = field.text()?,
                5 => node
                    .attributes
                    .push(Attribute::read(reader.message(&field)?)?),
                7 => node.domain = field.text()?,
                8 => node.overload = field.text()?,
                _ => {}
            }
        }
        Ok(node)
    }

    /// The value of an attribute.
    pub fn attr(&self, name: &str) -> Option<&AttrValue<'a>> {
        self.attributes
            .iter()
            .find(|attr| attr.name == name)
            .map(|attr| &attr.value)
    }
}

/// What an `AttributeProto` holds before its type says which field counts.
#[derive(Default)]
struct AttrFields<'a> {
    float: Option<f32>,
    int: Option<i64>,
    text: Option<&'a [u8]>,
    tensor: Option<Tensor<'a>>,
    graph: Option<Graph<'a>>,
    sparse: Option<SparseTensor<'a>>,
    ty: Option<TypeProto<'a>>,
    floats: Vec<f32>,
    ints: Vec<i64>,
    texts: Vec<&'a [u8]>,
    tensors: Vec<Tensor<'a>>,
}

impl<'a> Attribute<'a> {
    fn read(mut reader: Reader<'a>) -> Result<Self, WireError> {
        let (mut name, mut ty, mut reference) = ("", 0, "");
        let mut fields = AttrFields::default();
        while let Some(field) = reader.next_field()? {
            match field.number {
                1 => name = field.text()?,
                2 => fields.float = Some(field.float()?),
                3 => fields.int = Some(field.int()?),
                4 => fields.text = Some(field.bytes()?),
                5 => fields.tensor = Some(Tensor::read(reader.message(&field)?)?),
                6 => fields.graph = Some(Graph::read(reader.message(&field)?)?),
                7 => field.floats(|value| fields.floats.push(value))?,
                8 => field.ints(|value| fields.ints.push(value.cast_signed()))?,
                9 => fields.texts.push(field.bytes()?),
                10 => fields.tensors.push(Tensor::read(reader.message(&field)?)?),
                14 => fields.ty = Some(TypeProto::read(reader.message(&field)?)?),
                20 => ty = field.int()?,
                21 => reference = field.text()?,
                22 => fields.sparse = Some(SparseTensor::read(reader.message(&field)?)?),
                _ => {}
            }
        }
        let value = if reference.is_empty() {
            fields.value(ty)
        } else {
            AttrValue::Ref(reference)
        };
        Ok(Self { name, value })
    }
}

impl<'a> AttrFields<'a> {
    /// The value of the type of a number. Files from before the type was written have 0: the field that is
    /// there tells. Scalars that are absent are protobuf's defaults.
    fn value(self, ty: i64) -> AttrValue<'a> {
        let inferred = match ty {
            0 => self.infer_type(),
            ty => ty,
        };
        match inferred {
            1 => AttrValue::Float(self.float.unwrap_or_default()),
            2 => AttrValue::Int(self.int.unwrap_or_default()),
            3 => AttrValue::Str(self.text.unwrap_or_default()),
            4 => self.tensor.map_or(AttrValue::Other(4), |tensor| {
                AttrValue::Tensor(Box::new(tensor))
            }),
            5 => self.graph.map_or(AttrValue::Other(5), |graph| {
                AttrValue::Graph(Box::new(graph))
            }),
            6 => AttrValue::Floats(self.floats),
            7 => AttrValue::Ints(self.ints),
            8 => AttrValue::Strs(self.texts),
            9 => AttrValue::Tensors(self.tensors),
            11 => self.sparse.map_or(AttrValue::Other(11), |sparse| {
                AttrValue::Sparse(Box::new(sparse))
            }),
            13 => self
                .ty
                .map_or(AttrValue::Other(13), |ty| AttrValue::Type(Box::new(ty))),
            other => AttrValue::Other(other),
        }
    }

    fn infer_type(&self) -> i64 {
        let present = [
            (self.float.is_some(), 1),
            (self.int.is_some(), 2),
            (self.text.is_some(), 3),
            (self.tensor.is_some(), 4),
            (self.graph.is_some(), 5),
            (!self.floats.is_empty(), 6),
            (!self.ints.is_empty(), 7),
            (!self.texts.is_empty(), 8),
            (!self.tensors.is_empty(), 9),
            (self.sparse.is_some(), 11),
            (self.ty.is_some(), 13),
        ];
        present
            .iter()
            .find(|(is_there, _)| *is_there)
            .map_or(0, |(_, ty)| *ty)
    }
}

impl<'a> Tensor<'a> {
    /// Reads a `TensorProto`.
    ///
    /// # Errors
    /// Where the bytes are not those of one.
    pub fn read(mut reader: Reader<'a>) -> Result<Self, WireError> {
        let mut tensor = Self::default();
        while let Some(field) = reader.next_field()? {
            match field.number {
                1 => field.ints(|value| tensor.dims.push(value.cast_signed()))?,
                2 => tensor.data_type = field.int()?,
                4..=7 | 10 | 11 => tensor.typed.push(field),
                8 => tensor.name = field.text()?,
                9 => tensor.raw = Some(field.bytes()?),
                13 => tensor.external.push(read_entry(reader.message(&field)?)?),
                14 => tensor.is_external = field.int()? == 1,
                _ => {}
            }
        }
        Ok(tensor)
    }
}

fn read_entry<'a>(mut reader: Reader<'a>) -> Result<(&'a str, &'a str), WireError> {
    let mut entry = ("", "");
    while let Some(field) = reader.next_field()? {
        match field.number {
            1 => entry.0 = field.text()?,
            2 => entry.1 = field.text()?,
            _ => {}
        }
    }
    Ok(entry)
}

impl<'a> SparseTensor<'a> {
    fn read(mut reader: Reader<'a>) -> Result<Self, WireError> {
        let mut sparse = Self::default();
        while let Some(field) = reader.next_field()? {
            match field.number {
                1 => sparse.values = Tensor::read(reader.message(&field)?)?,
                2 => sparse.indices = Tensor::read(reader.message(&field)?)?,
                3 => field.ints(|value| sparse.dims.push(value.cast_signed()))?,
                _ => {}
            }
        }
        Ok(sparse)
    }
}

impl<'a> ValueInfo<'a> {
    fn read(mut reader: Reader<'a>) -> Result<Self, WireError> {
        let mut info = Self::default();
        while let Some(field) = reader.next_field()? {
            match field.number {
                1 => info.name = field.text()?,
                2 => info.ty = Some(TypeProto::read(reader.message(&field)?)?),
                _ => {}
            }
        }
        Ok(info)
    }
}

impl<'a> TypeProto<'a> {
    fn read(mut reader: Reader<'a>) -> Result<Self, WireError> {
        let mut ty = Self::Missing;
        while let Some(field) = reader.next_field()? {
            ty = match field.number {
                1 => Self::read_tensor(reader.message(&field)?)?,
                4 => Self::Sequence(Box::new(Self::read_element(reader.message(&field)?)?)),
                5 => Self::read_map(reader.message(&field)?)?,
                7 => Self::Other("opaque"),
                8 => Self::Other("sparse tensor"),
                9 => Self::Optional(Box::new(Self::read_element(reader.message(&field)?)?)),
                _ => continue,
            };
        }
        Ok(ty)
    }

    fn read_map(mut reader: Reader<'a>) -> Result<Self, WireError> {
        let (mut key, mut value) = (0, Self::Missing);
        while let Some(field) = reader.next_field()? {
            match field.number {
                1 => key = field.int()?,
                2 => value = Self::read(reader.message(&field)?)?,
                _ => {}
            }
        }
        Ok(Self::Map(key, Box::new(value)))
    }

    fn read_element(mut reader: Reader<'a>) -> Result<Self, WireError> {
        let mut ty = Self::Missing;
        while let Some(field) = reader.next_field()? {
            if field.number == 1 {
                ty = Self::read(reader.message(&field)?)?;
            }
        }
        Ok(ty)
    }

    fn read_tensor(mut reader: Reader<'a>) -> Result<Self, WireError> {
        let (mut elem, mut shape) = (0, None);
        while let Some(field) = reader.next_field()? {
            match field.number {
                1 => elem = field.int()?,
                2 => shape = Some(read_shape(reader.message(&field)?)?),
                _ => {}
            }
        }
        Ok(Self::Tensor(elem, shape))
    }
}

fn read_shape<'a>(mut reader: Reader<'a>) -> Result<Vec<DimProto<'a>>, WireError> {
    let mut dims = Vec::new();
    while let Some(field) = reader.next_field()? {
        if field.number == 1 {
            dims.push(read_dim(reader.message(&field)?)?);
        }
    }
    Ok(dims)
}

fn read_dim<'a>(mut reader: Reader<'a>) -> Result<DimProto<'a>, WireError> {
    let mut dim = DimProto::Unknown;
    while let Some(field) = reader.next_field()? {
        match field.number {
            1 => dim = DimProto::Value(field.int()?),
            2 => {
                let name = field.text()?;
                dim = if name.is_empty() {
                    DimProto::Unknown
                } else {
                    DimProto::Param(name)
                };
            }
            _ => {}
        }
    }
    Ok(dim)
}
