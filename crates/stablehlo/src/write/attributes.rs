//! Attributes of the VHLO dialect and of MLIR's builtin dialect.

use bytes::Bytes;

use super::bytes::Buffer;
use super::encoder::{Dialect, Encoder, SMALL};
use super::texts;
use super::versions::needs;
use crate::attributes::{is_none_type, sorted};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{Attribute, Attributes, ElementType, Literal, TensorType, Type, Version};
use crate::text::fields;

/// The enumerations. Each row contains StableHLO's name, the code of the attribute in artifacts, and the keywords of
/// the values in ascending order, starting at the value 0.
const ENUMERATIONS: [(&str, u64, &[&str]); 7] = [
    ("comparison_direction", 3, &["EQ", "NE", "GE", "GT", "LE", "LT"]),
    ("comparison_type", 4, &["NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED", "WEAKORDER"]),
    ("fft_type", 7, &["FFT", "IFFT", "RFFT", "IRFFT"]),
    ("precision", 11, &["DEFAULT", "HIGH", "HIGHEST"]),
    ("rng_algorithm", 12, &["DEFAULT", "THREE_FRY", "PHILOX"]),
    ("rng_distribution", 13, &["", "UNIFORM", "NORMAL"]),
    ("transpose", 16, &["TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"]),
];

impl Encoder {
    fn put(&mut self, dialect: Dialect, code: u64, fields: impl FnOnce(&mut Buffer)) -> usize {
        let mut buffer = self.buffer();
        buffer.varint(code);
        fields(&mut buffer);
        self.attribute(dialect, buffer)
    }

    fn vhlo_put(&mut self, code: u64, fields: impl FnOnce(&mut Buffer)) -> usize {
        self.put(Dialect::Vhlo, code, fields)
    }

    pub(super) fn vhlo_bool(&mut self, value: bool) -> usize {
        self.vhlo_put(2, |b| b.varint(u64::from(value)))
    }

    pub(super) fn vhlo_integer(&mut self, value: i64, element: ElementType) -> Result<usize> {
        let ty = self.vhlo_element(element)?;
        Ok(self.vhlo_put(9, |b| {
            b.size(ty);
            b.int_of_width(value.cast_unsigned(), element.bit_width());
        }))
    }

    pub(super) fn vhlo_string(&mut self, bytes: &[u8]) -> usize {
        let string = self.string(bytes);
        self.vhlo_put(14, |b| b.size(string))
    }

    pub(super) fn vhlo_array(&mut self, items: &[usize]) -> usize {
        self.vhlo_put(1, |b| b.indices(items))
    }

    pub(super) fn vhlo_type_attribute(&mut self, ty: usize) -> usize {
        self.vhlo_put(17, |b| b.size(ty))
    }

    /// Adds a type attribute of the type `none`, which represents an absent attribute. Returns its index.
    pub(super) fn vhlo_absent(&mut self) -> Result<usize> {
        let none = self.vhlo_none()?;
        Ok(self.vhlo_type_attribute(none))
    }

    /// Adds the API version of a custom call to the attribute table, and returns its index. Returns an error if the
    /// version is unknown.
    pub(super) fn vhlo_api_version(&mut self, value: i64) -> Result<usize> {
        match u64::try_from(value) {
            Ok(value @ 0..=4) => Ok(self.vhlo_put(5, |b| b.varint(value))),
            _ => Err(Error::new(ErrorKind::Attribute, format_args!("`api_version` {value} is unknown"))),
        }
    }

    /// Adds the value `word` of the enumeration `family` to the attribute table, and returns its index. Returns an
    /// error if the keyword is unknown.
    pub(super) fn vhlo_word(&mut self, family: &str, word: &str) -> Result<usize> {
        let found = ENUMERATIONS.iter().find(|row| row.0 == family);
        let number = found.and_then(|row| Some((row.1, row.2.iter().position(|&w| w == word)?)));
        match number {
            Some((code, number)) => Ok(self.vhlo_put(code, |b| b.size(number))),
            None => Err(Error::new(ErrorKind::Attribute, format_args!("unknown {family} `{word}`"))),
        }
    }

    /// Adds a tensor of 64-bit integers with this shape to the attribute table, and returns its index.
    fn vhlo_integers(&mut self, shape: &[i64], values: impl Iterator<Item = i64> + Clone) -> Result<usize> {
        let count = values.clone().count();
        // A uniform tensor is stored as one element.
        let stored = match values.clone().next() {
            Some(first) if values.clone().all(|v| v == first) => 1,
            _ => count,
        };
        let values = values.take(stored);
        if stored * size_of::<i64>() > SMALL {
            let data: Vec<u8> = values.flat_map(i64::to_le_bytes).collect();
            let literal = Literal { ty: TensorType::new(shape, ElementType::I64), data: data.into(), splat: false };
            return self.vhlo_literal(&literal);
        }
        let ty = self.vhlo_tensor(shape, ElementType::I64)?;
        Ok(self.vhlo_put(15, |b| {
            b.size(ty);
            b.size(stored * size_of::<i64>());
            values.for_each(|v| b.0.extend_from_slice(&v.to_le_bytes()));
        }))
    }

    pub(super) fn vhlo_ints(&mut self, values: &[i64]) -> Result<usize> {
        self.vhlo_integers(&[extent(values.len())], values.iter().copied())
    }

    pub(super) fn vhlo_dims(&mut self, values: &[usize]) -> Result<usize> {
        self.vhlo_integers(&[extent(values.len())], values.iter().map(|&v| extent(v)))
    }

    pub(super) fn vhlo_pairs(&mut self, values: &[(i64, i64)]) -> Result<usize> {
        self.vhlo_integers(&[extent(values.len()), 2], values.iter().flat_map(|&(a, b)| [a, b]))
    }

    pub(super) fn vhlo_bools(&mut self, values: &[bool]) -> Result<usize> {
        let ty = TensorType::new([extent(values.len())], ElementType::Bool);
        let data: Vec<u8> = values.iter().map(|&v| u8::from(v)).collect();
        self.vhlo_literal(&Literal { ty, data: data.into(), splat: false })
    }

    /// Adds a constant to the attribute table as a VHLO attribute, and returns its index.
    pub(super) fn vhlo_literal(&mut self, literal: &Literal) -> Result<usize> {
        let ty = self.vhlo_tensor(&literal.ty.shape, literal.ty.element)?;
        Ok(self.literal(Dialect::Vhlo, 15, ty, literal))
    }

    fn literal(&mut self, dialect: Dialect, code: u64, ty: usize, literal: &Literal) -> usize {
        let data = raw(literal);
        let mut buffer = self.buffer();
        buffer.varint(code);
        buffer.size(ty);
        buffer.size(data.len());
        self.constant(dialect, buffer, data)
    }

    pub(super) fn vhlo_dictionary(&mut self, entries: &Attributes) -> Result<usize> {
        let mut pairs = Vec::with_capacity(entries.len());
        for (name, value) in sorted(entries) {
            pairs.push((self.vhlo_string(name.as_bytes()), self.vhlo_attribute(value).map_err(|e| named(e, name))?));
        }
        Ok(self.vhlo_put(6, |b| {
            b.list(pairs.iter(), |b, &(name, value)| {
                b.size(name);
                b.size(value);
            });
        }))
    }

    /// Adds an attribute to the attribute table, and returns its index. The attribute is in the VHLO dialect, or in the
    /// builtin dialect if VHLO has no such attribute.
    pub(super) fn vhlo_attribute(&mut self, attribute: &Attribute) -> Result<usize> {
        match attribute {
            Attribute::Unit => {
                needs(self.version, Version(1, 11, 0), || "a unit attribute".to_owned())?;
                Ok(self.builtin_attribute(attribute))
            }
            Attribute::Bool(value) => Ok(self.vhlo_bool(*value)),
            Attribute::Integer(value, element) => self.vhlo_integer(*value, *element),
            Attribute::Float(value, element) => {
                let ty = self.vhlo_element(*element)?;
                let bits = float_bits(*value, *element)?;
                Ok(self.vhlo_put(8, |b| {
                    b.size(ty);
                    b.int_of_width(bits, element.bit_width());
                }))
            }
            Attribute::String(bytes) => Ok(self.vhlo_string(bytes)),
            Attribute::Symbol(name) => Ok(self.vhlo_string(name.as_bytes())),
            Attribute::Type(_) if is_none_type(attribute) => self.vhlo_absent(),
            Attribute::Type(ty) => {
                let ty = self.vhlo_type(ty)?;
                Ok(self.vhlo_type_attribute(ty))
            }
            Attribute::Array(items) => {
                let items = items.iter().map(|item| self.vhlo_attribute(item)).collect::<Result<Vec<_>>>()?;
                Ok(self.vhlo_array(&items))
            }
            Attribute::Dictionary(entries) => self.vhlo_dictionary(entries),
            Attribute::Tensor(literal) | Attribute::DenseArray(literal) => self.vhlo_literal(literal),
            Attribute::Other(text) => self.vhlo_text_attribute(text),
        }
    }

    fn vhlo_text_attribute(&mut self, text: &str) -> Result<usize> {
        if let Some((family, word)) =
            text.strip_prefix("#stablehlo<").and_then(|rest| rest.strip_suffix('>')?.split_once(' '))
        {
            return self.vhlo_word(family, word);
        }
        if text.starts_with("#sdy") {
            needs(self.version, Version(1, 11, 0), || format!("Shardy's attribute {text}"))?;
            return Ok(self.attribute_text(Dialect::Shardy, text));
        }
        if let Some(body) = texts::inside(text, "result_accuracy") {
            return self.vhlo_result_accuracy(body);
        }
        if let Some(body) = texts::inside(text, "output_operand_alias") {
            let fields = fields(body)?;
            let list = |name: &str| find(&fields, name).and_then(Attribute::as_integers).unwrap_or_default();
            let operand = find(&fields, "operand_index").and_then(Attribute::as_integer).unwrap_or(0);
            let (output, inner) = (list("output_tuple_indices"), list("operand_tuple_indices"));
            return Ok(self.vhlo_put(10, |b| {
                b.svarints(&output);
                b.svarint(operand);
                b.svarints(&inner);
            }));
        }
        if let Some(body) = texts::inside(text, "replica_group_mesh_axes") {
            return self.vhlo_mesh_axes(body);
        }
        if let Some(body) = texts::inside(text, "axis_ref") {
            return self.vhlo_axis_ref(body);
        }
        if let Some(body) = texts::inside(text, "mesh_axis") {
            let fields = fields(body)?;
            let name = find(&fields, "name").and_then(Attribute::as_str).unwrap_or_default().to_owned();
            let size = find(&fields, "size").and_then(Attribute::as_integer).unwrap_or(0);
            let name = self.vhlo_string(name.as_bytes());
            return Ok(self.vhlo_put(24, |b| {
                b.size(name);
                b.svarint(size);
            }));
        }
        if let Some(body) = texts::inside(text, "mesh") {
            let fields = fields(body)?;
            let axes = match find(&fields, "axes") {
                Some(axes) => self.vhlo_attribute(axes)?,
                None => self.vhlo_array(&[]),
            };
            let devices = find(&fields, "device_ids").map(|d| self.vhlo_attribute(d)).transpose()?;
            return Ok(self.vhlo_put(25, |b| {
                b.size(axes);
                match devices {
                    Some(devices) => b.flagged(devices, true),
                    None => b.varint(0),
                }
            }));
        }
        // The IR keeps a NaN as the text of its bit pattern.
        if let Some((bits, element)) = text.strip_prefix("0x").and_then(|rest| rest.split_once(" : "))
            && let (Ok(bits), Some(element)) = (u64::from_str_radix(bits, 16), ElementType::from_name(element))
        {
            let ty = self.vhlo_element(element)?;
            return Ok(self.vhlo_put(8, |b| {
                b.size(ty);
                b.int_of_width(bits, element.bit_width());
            }));
        }
        Err(Error::new(
            ErrorKind::Unsupported,
            format_args!("attribute {text} cannot be expressed in a portable artifact"),
        ))
    }

    /// Adds a result accuracy, such as `atol = 1.0, mode = #stablehlo.result_accuracy_mode<DEFAULT>`. All fields are
    /// optional.
    pub(super) fn vhlo_result_accuracy(&mut self, body: &str) -> Result<usize> {
        let fields = fields(body)?;
        let number = |name: &str| match find(&fields, name) {
            Some(Attribute::Float(value, _)) => *value,
            _ => 0.0,
        };
        let ulps = find(&fields, "ulps").and_then(Attribute::as_integer).unwrap_or(0);
        let mode = match find(&fields, "mode") {
            Some(Attribute::Other(text)) => text.trim_end_matches('>').rsplit(['<', ' ']).next().unwrap_or_default(),
            _ => "DEFAULT",
        };
        let Some(mode) = ["DEFAULT", "HIGHEST", "TOLERANCE"].iter().position(|&m| m == mode) else {
            return Err(Error::new(ErrorKind::Attribute, format_args!("unknown result accuracy `{body}`")));
        };
        let mode = self.vhlo_put(19, |b| b.size(mode));
        let (atol, rtol) = (number("atol"), number("rtol"));
        Ok(self.vhlo_put(20, |b| {
            b.svarint(atol.to_bits().cast_signed());
            b.svarint(rtol.to_bits().cast_signed());
            b.svarint(ulps);
            b.size(mode);
        }))
    }

    /// Adds replica groups along the axes of a mesh. `body` has the form `mesh = @mesh, axes = [...]`.
    fn vhlo_mesh_axes(&mut self, body: &str) -> Result<usize> {
        needs(self.version, Version(1, 16, 0), || "a replica group by mesh axes".to_owned())?;
        let (mut mesh, mut axes) = (None, Vec::new());
        for part in texts::split(body) {
            match part.split_once('=').map(|(name, value)| (name.trim(), value.trim())) {
                Some(("mesh", value)) => {
                    mesh = Some(match value.strip_prefix('@') {
                        Some(name) => self.vhlo_string(texts::string(name).as_bytes()),
                        None => self.vhlo_text_attribute(value)?,
                    });
                }
                Some(("axes", value)) => {
                    for axis in texts::split(value.trim_start_matches('[').trim_end_matches(']')) {
                        axes.push(self.vhlo_text_attribute(axis)?);
                    }
                }
                _ => {}
            }
        }
        let Some(mesh) = mesh else {
            return Err(Error::new(ErrorKind::Attribute, "a replica group by mesh axes names no mesh"));
        };
        let axes = self.vhlo_array(&axes);
        Ok(self.vhlo_put(23, |b| {
            b.size(mesh);
            b.size(axes);
        }))
    }

    /// Adds a reference to a mesh axis. `body` has a form such as `name = "x", sub_axis_info = (1)2`.
    fn vhlo_axis_ref(&mut self, body: &str) -> Result<usize> {
        let (mut name, mut sub) = (String::new(), None);
        for part in texts::split(body) {
            match part.split_once('=').map(|(name, value)| (name.trim(), value.trim())) {
                Some(("name", value)) => name = texts::string(value),
                Some(("sub_axis_info", value)) => {
                    let numbers = value.strip_prefix('(').and_then(|rest| rest.split_once(')'));
                    let numbers = numbers.and_then(|(pre, size)| Some((pre.parse().ok()?, size.parse().ok()?)));
                    let Some((pre, size)) = numbers else {
                        return Err(Error::new(
                            ErrorKind::Attribute,
                            format_args!("`{value}` is not a part of a mesh axis"),
                        ));
                    };
                    sub = Some(self.vhlo_put(21, |b| {
                        b.svarint(pre);
                        b.svarint(size);
                    }));
                }
                _ => {}
            }
        }
        let name = self.vhlo_string(name.as_bytes());
        Ok(self.vhlo_put(22, |b| {
            b.size(name);
            b.varint(u64::from(sub.is_some()));
            if let Some(sub) = sub {
                b.size(sub);
            }
        }))
    }

    fn builtin_put(&mut self, code: u64, fields: impl FnOnce(&mut Buffer)) -> usize {
        self.put(Dialect::Builtin, code, fields)
    }

    /// Adds a dictionary. `pairs` contains the name and the table index of each attribute. Returns the dictionary's
    /// index.
    pub(super) fn builtin_pairs(&mut self, mut pairs: Vec<(&str, usize)>) -> usize {
        pairs.sort_unstable();
        let pairs: Vec<(usize, usize)> =
            pairs.into_iter().map(|(name, value)| (self.builtin_string(name.as_bytes()), value)).collect();
        self.builtin_put(1, |b| {
            b.list(pairs.iter(), |b, &(name, value)| {
                b.size(name);
                b.size(value);
            });
        })
    }

    pub(super) fn builtin_dictionary(&mut self, entries: &Attributes) -> usize {
        let pairs = entries.iter().map(|(name, value)| (name.as_str(), self.builtin_attribute(value))).collect();
        self.builtin_pairs(pairs)
    }

    /// Adds an attribute of MLIR's builtin dialect to the attribute table, and returns its index. The writer uses such
    /// attributes in ops of dialects other than StableHLO.
    pub(super) fn builtin_attribute(&mut self, attribute: &Attribute) -> usize {
        match attribute {
            Attribute::Unit => self.builtin_put(7, |_| {}),
            Attribute::Bool(value) => {
                let ty = self.builtin_element(ElementType::Bool);
                self.builtin_put(8, |b| {
                    b.size(ty);
                    b.byte(u8::from(*value));
                })
            }
            Attribute::Integer(value, element) => {
                let ty = self.builtin_element(*element);
                self.builtin_put(8, |b| {
                    b.size(ty);
                    b.int_of_width(value.cast_unsigned(), element.bit_width());
                })
            }
            Attribute::Float(value, element) => {
                let ty = self.builtin_element(*element);
                let bits = float_bits(*value, *element).unwrap_or(0);
                self.builtin_put(9, |b| {
                    b.size(ty);
                    b.int_of_width(bits, element.bit_width());
                })
            }
            Attribute::String(bytes) => self.builtin_string(bytes),
            Attribute::Symbol(name) => {
                let mut parts = name.split("::@").map(str::as_bytes);
                let root = self.builtin_string(parts.next().unwrap_or_default());
                let nested: Vec<usize> = parts
                    .map(|part| {
                        let part = self.builtin_string(part);
                        self.builtin_put(4, |b| b.size(part))
                    })
                    .collect();
                let code = if nested.is_empty() { 4 } else { 5 };
                self.builtin_put(code, |b| {
                    b.size(root);
                    if code == 5 {
                        b.indices(&nested);
                    }
                })
            }
            Attribute::Type(ty) => {
                let ty = match ty {
                    Type::Other(text) => match crate::text::function_type(text) {
                        Some(_) => self.type_text(text),
                        None => self.builtin_type(ty),
                    },
                    _ => self.builtin_type(ty),
                };
                self.builtin_put(6, |b| b.size(ty))
            }
            Attribute::Array(items) => {
                let items: Vec<usize> = items.iter().map(|item| self.builtin_attribute(item)).collect();
                self.builtin_put(0, |b| b.indices(&items))
            }
            Attribute::Dictionary(entries) => self.builtin_dictionary(entries),
            Attribute::Tensor(literal) => {
                let ty = self.builtin_type(&Type::Tensor(literal.ty.clone()));
                self.literal(Dialect::Builtin, 18, ty, literal)
            }
            Attribute::DenseArray(literal) => {
                let ty = self.builtin_element(literal.ty.element);
                let count = literal.ty.num_elements().unwrap_or(0);
                let data = if literal.splat { literal.data.repeat(count) } else { literal.data.to_vec() };
                self.builtin_put(17, |b| {
                    b.size(ty);
                    b.size(count);
                    b.size(data.len());
                    b.0.extend_from_slice(&data);
                })
            }
            Attribute::Other(text) => {
                let dialect = if text.starts_with("#sdy") {
                    Dialect::Shardy
                } else if text.starts_with("#stablehlo") {
                    Dialect::Stablehlo
                } else {
                    Dialect::Builtin
                };
                self.attribute_text(dialect, text)
            }
        }
    }
}

fn extent(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

fn float_bits(value: f64, element: ElementType) -> Result<u64> {
    crate::float::encode(value, element)
        .ok_or_else(|| Error::new(ErrorKind::Attribute, format_args!("{value} is not a value of type {element}")))
}

pub(super) fn find<'a>(attributes: &'a Attributes, name: &str) -> Option<&'a Attribute> {
    attributes.iter().find(|(n, _)| n == name).map(|(_, value)| value)
}

/// Adds the attribute's name to the message of an error.
pub(super) fn named(error: Error, name: &str) -> Error {
    error.in_attribute(name)
}

/// Returns the elements in MLIR's raw format. A uniform constant is stored as one element, and eight booleans are
/// packed into a byte.
fn raw(literal: &Literal) -> Bytes {
    let size = literal.ty.element.byte_size();
    let data = &literal.data;
    let uniform = data.len() > size && data[size..] == data[..data.len() - size];
    if literal.ty.element != ElementType::Bool {
        return if uniform { data.slice(..size) } else { data.clone() };
    }
    if data.is_empty() {
        return Bytes::new();
    }
    if literal.splat || uniform || data.len() == 1 {
        return Bytes::copy_from_slice(&[if data[0] != 0 { 0xFF } else { 0 }]);
    }
    data.chunks(8).map(|chunk| chunk.iter().rev().fold(0, |byte, &b| byte << 1 | u8::from(b != 0))).collect()
}
