//! Access to an op's raw attributes by name, before the attributes are converted to an [`OpKind`](crate::ir::OpKind).

use std::collections::BinaryHeap;

use crate::error::{Error, ErrorKind, Result};
use crate::float::decode;
use crate::ir::{Attribute, Attributes, ElementType, Type};

/// Returns the attributes sorted by name. A heap sorts them, because the lists are short and the standard sort compiles
/// to more code.
pub(crate) fn sorted(attributes: &Attributes) -> Vec<&(String, Attribute)> {
    let names: BinaryHeap<_> = attributes.iter().enumerate().map(|(at, (name, _))| (name.as_str(), at)).collect();
    names.into_sorted_vec().into_iter().map(|(_, at)| &attributes[at]).collect()
}

/// The raw attributes of one op, under their names in portable artifacts.
#[derive(Clone, Copy)]
pub(crate) struct Named<'a>(pub(crate) &'a [(&'a str, &'a Attribute)]);

impl<'a> Named<'a> {
    pub(crate) fn find(self, name: &str) -> Option<&'a Attribute> {
        // Compare the lengths first, because most different names also differ in length.
        self.0.iter().find(|(n, _)| n.len() == name.len() && *n == name).map(|(_, a)| *a)
    }

    fn required<T>(self, name: &str, what: &str, read: impl Fn(&'a Attribute) -> Option<T>) -> Result<T> {
        let Some(attribute) = self.find(name) else {
            return Err(Error::new(ErrorKind::Attribute, format_args!("attribute `{name}` is missing")));
        };
        read(attribute)
            .ok_or_else(|| Error::new(ErrorKind::Attribute, format_args!("attribute `{name}` must be {what}")))
    }

    fn or<T>(self, name: &str, what: &str, default: T, read: impl Fn(&'a Attribute) -> Option<T>) -> Result<T> {
        match self.find(name) {
            None => Ok(default),
            Some(attribute) => read(attribute)
                .ok_or_else(|| Error::new(ErrorKind::Attribute, format_args!("attribute `{name}` must be {what}"))),
        }
    }

    /// Reads a list of integers. The attribute must be present.
    pub(crate) fn ints(self, name: &str) -> Result<Vec<i64>> {
        self.required(name, "a list of integers", ints)
    }

    /// Reads a list of integers. Returns `default` if the attribute is absent.
    pub(crate) fn ints_or(self, name: &str, default: impl Into<Vec<i64>>) -> Result<Vec<i64>> {
        self.or(name, "a list of integers", default.into(), ints)
    }

    /// Reads a list of dimension indices. The attribute must be present.
    pub(crate) fn dims<L: FromIterator<usize>>(self, name: &str) -> Result<L> {
        self.required(name, "a list of dimensions", dims)
    }

    /// Reads a list of dimension indices. Returns an empty list if the attribute is absent.
    pub(crate) fn dims_or_empty<L: FromIterator<usize>>(self, name: &str) -> Result<L> {
        self.or(name, "a list of dimensions", L::from_iter([]), dims)
    }

    /// Reads a list of pairs, such as padding. Returns `count` pairs of zeros if the attribute is absent.
    pub(crate) fn pairs(self, name: &str, count: usize) -> Result<Vec<(i64, i64)>> {
        let flat = self.ints_or(name, vec![0; count.saturating_mul(2)])?;
        let paired = match self.find(name) {
            Some(Attribute::Tensor(literal)) => literal.ty.shape.len() == 2 && literal.ty.shape[1] == 2,
            Some(Attribute::Array(items)) => items.iter().all(|item| match item {
                Attribute::Array(pair) => pair.len() == 2,
                _ => true,
            }),
            _ => true,
        };
        if !paired && !flat.is_empty() {
            return Err(Error::new(
                ErrorKind::Attribute,
                format_args!("attribute `{name}` must hold pairs, one per dimension"),
            ));
        }
        let (pairs, rest) = flat.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(Error::new(ErrorKind::Attribute, format_args!("attribute `{name}` must hold pairs")));
        }
        Ok(pairs.iter().map(|&[low, high]| (low, high)).collect())
    }

    /// Reads a list of booleans. Returns `default` if the attribute is absent.
    pub(crate) fn bools_or(self, name: &str, default: Vec<bool>) -> Result<Vec<bool>> {
        self.or(name, "a list of booleans", default, |a| Some(ints(a)?.iter().map(|&v| v != 0).collect()))
    }

    /// Reads an integer. Returns `default` if the attribute is absent.
    pub(crate) fn int_or(self, name: &str, default: i64) -> Result<i64> {
        self.or(name, "an integer", default, integer)
    }

    /// Reads an integer. The attribute must be present.
    pub(crate) fn int(self, name: &str) -> Result<i64> {
        self.required(name, "an integer", integer)
    }

    /// Reads a nonnegative integer, such as the index of a dimension. The attribute must be present.
    pub(crate) fn dim(self, name: &str) -> Result<usize> {
        self.required(name, "an integer that is not negative", |a| usize::try_from(integer(a)?).ok())
    }

    /// Reads a nonnegative integer, such as the index of a dimension. Returns 0 if the attribute is absent, because
    /// MLIR omits zeros in structured attributes.
    pub(crate) fn dim_or_zero(self, name: &str) -> Result<usize> {
        self.or(name, "an integer that is not negative", 0, |a| usize::try_from(integer(a)?).ok())
    }

    /// Reads a number of bits. The attribute must be present.
    pub(crate) fn bits(self, name: &str) -> Result<u32> {
        self.required(name, "a number of bits", |a| u32::try_from(integer(a)?).ok())
    }

    /// Reads a boolean. Returns `false` if the attribute is absent.
    pub(crate) fn flag(self, name: &str) -> Result<bool> {
        self.flag_or(name, false)
    }

    /// Reads a boolean. Returns `default` if the attribute is absent.
    pub(crate) fn flag_or(self, name: &str, default: bool) -> Result<bool> {
        self.or(name, "a boolean", default, |a| match a {
            Attribute::Unit => Some(true),
            Attribute::Bool(value) => Some(*value),
            Attribute::Integer(value @ (0 | 1), _) => Some(*value == 1),
            _ => None,
        })
    }

    /// Reads a string, or the name of a symbol. The attribute must be present.
    pub(crate) fn text(self, name: &str) -> Result<String> {
        self.required(name, "a string", text)
    }

    /// Reads an enumeration attribute. Returns only its keyword, such as `EQ` for `#stablehlo<comparison_direction
    /// EQ>`, or `default` if the attribute is absent.
    pub(crate) fn word_or(self, name: &str, default: &'a str) -> Result<&'a str> {
        self.or(name, "an enumeration", default, word)
    }

    /// Reads an enumeration attribute, which must be present. Returns only its keyword, as [`Self::word_or`] does.
    pub(crate) fn word(self, name: &str) -> Result<&'a str> {
        self.required(name, "an enumeration", word)
    }

    /// Reads an array of enumeration attributes. Returns their keywords, or an empty list if the attribute is absent.
    pub(crate) fn words(self, name: &str) -> Result<Vec<&'a str>> {
        self.or(name, "a list of enumerations", Vec::new(), |a| match a {
            Attribute::Array(items) => items.iter().map(word).collect(),
            _ => None,
        })
    }
}

/// Returns the values of a list of integers or booleans in any of MLIR's forms. Flattens an array of arrays.
pub(crate) fn ints(attribute: &Attribute) -> Option<Vec<i64>> {
    match attribute {
        Attribute::Tensor(literal) | Attribute::DenseArray(literal) => literal.integers(),
        Attribute::Array(items) => {
            let mut values = Vec::with_capacity(items.len());
            for item in items {
                match item {
                    Attribute::Array(inner) => {
                        for item in inner {
                            values.push(integer(item)?);
                        }
                    }
                    item => values.push(integer(item)?),
                }
            }
            Some(values)
        }
        _ => None,
    }
}

fn dims<L: FromIterator<usize>>(attribute: &Attribute) -> Option<L> {
    match attribute {
        // Most lists in artifacts have this form. Read them without an intermediate list.
        Attribute::Tensor(literal) if literal.ty.element == ElementType::I64 && !literal.splat => {
            let (values, _) = literal.data.as_chunks::<8>();
            values.iter().map(|&v| usize::try_from(i64::from_le_bytes(v)).ok()).collect()
        }
        _ => ints(attribute)?.into_iter().map(|v| usize::try_from(v).ok()).collect(),
    }
}

fn integer(attribute: &Attribute) -> Option<i64> {
    match attribute {
        Attribute::Integer(value, _) => Some(*value),
        Attribute::Bool(value) => Some(i64::from(*value)),
        _ => None,
    }
}

fn text(attribute: &Attribute) -> Option<String> {
    match attribute {
        Attribute::String(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Attribute::Symbol(name) => Some(name.clone()),
        _ => None,
    }
}

fn word(attribute: &Attribute) -> Option<&str> {
    match attribute {
        Attribute::Other(text) => text.trim_end_matches('>').rsplit([' ', '<']).next(),
        _ => None,
    }
}

/// Creates an enumeration attribute in the form that MLIR prints and [`Named::word`] reads.
pub(crate) fn enumeration(family: &str, word: &str) -> Attribute {
    Attribute::Other(joined(&["#stablehlo<", family, " ", word, ">"]))
}

/// Returns texts one after the other. Compiles to less code than `concat`.
pub(crate) fn joined(texts: &[&str]) -> String {
    texts.iter().copied().collect()
}

/// Creates a 64-bit integer attribute.
pub(crate) fn int(value: i64) -> Attribute {
    Attribute::Integer(value, ElementType::I64)
}

/// Creates a floating-point attribute with this bit pattern.
pub(crate) fn float_attribute(bits: u64, element: ElementType) -> Attribute {
    match decode(bits, element) {
        // Converting a NaN to `f64` can change its bits, so keep the bit pattern as text.
        Some(value) if !value.is_nan() => Attribute::Float(value, element),
        _ => Attribute::Other(format!("0x{bits:X} : {element}")),
    }
}

/// Returns whether an attribute is the type `none`, which portable artifacts store if a type is absent.
pub(crate) fn is_none_type(attribute: &Attribute) -> bool {
    matches!(attribute, Attribute::Type(Type::Other(text)) if text == "none")
}

/// Returns the approximate heap size of an attribute in bytes, for [`Budget`].
pub(crate) fn weight(attribute: &Attribute) -> usize {
    let node = size_of::<Attribute>();
    node + match attribute {
        Attribute::String(bytes) => bytes.len(),
        Attribute::Symbol(text) | Attribute::Other(text) => text.len(),
        Attribute::Type(ty) => type_weight(ty),
        Attribute::Array(items) => items.iter().map(weight).sum(),
        Attribute::Dictionary(entries) => entries.iter().map(|(name, value)| name.len() + weight(value)).sum(),
        Attribute::Tensor(literal) | Attribute::DenseArray(literal) => 8 * literal.ty.shape.len(),
        _ => 0,
    }
}

/// Returns the approximate heap size of a type in bytes, for [`Budget`].
pub(crate) fn type_weight(ty: &Type) -> usize {
    size_of::<Type>()
        + match ty {
            Type::Tensor(tensor) => 8 * tensor.shape.len(),
            Type::Tuple(types) => types.iter().map(type_weight).sum(),
            Type::Other(text) => text.len(),
            Type::Token => 0,
        }
}

/// Limits the heap memory that a reader allocates for a program. A small malicious program can refer to one large
/// attribute many times, or nest references so that the expansion grows exponentially. Normal programs stay far below
/// the limit.
pub(crate) struct Budget {
    left: usize,
}

impl Budget {
    /// Creates the budget for a program of `program_bytes` bytes.
    pub(crate) fn new(program_bytes: usize) -> Self {
        Self { left: program_bytes.saturating_mul(128).saturating_add(1 << 20) }
    }

    /// Subtracts `bytes` from the budget. Returns an error if fewer bytes remain.
    #[inline]
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<()> {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(spent()),
        }
    }
}

#[cold]
fn spent() -> Error {
    Error::new(
        ErrorKind::Limit,
        "the program expands to far more than its size; its attributes or types repeat without bound",
    )
}

impl Attribute {
    /// Returns the value of an integer or boolean attribute. Returns `None` for any other attribute.
    #[must_use]
    pub fn as_integer(&self) -> Option<i64> {
        integer(self)
    }

    /// Returns the values of a list of integers or booleans in any of MLIR's forms: `[1, 2]`, `array<i64: 1, 2>` or
    /// `dense<[1, 2]>`. Flattens an array of arrays. Returns `None` for any other attribute.
    #[must_use]
    pub fn as_integers(&self) -> Option<Vec<i64>> {
        ints(self)
    }

    /// Returns the last word of an enumeration value such as `#chlo<comparison_direction LT>`, or the text of
    /// [`Self::as_str`]. Returns `None` for any other attribute.
    #[must_use]
    pub fn as_word(&self) -> Option<&str> {
        match self {
            Self::Other(text) => {
                text.trim_end_matches('>').rsplit([' ', '<', '.']).next().filter(|word| !word.is_empty())
            }
            _ => self.as_str(),
        }
    }

    /// Returns the value of a string attribute, or the name of a symbol. Returns `None` for a string that is not valid
    /// UTF-8, and for any other attribute.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(bytes) => std::str::from_utf8(bytes).ok(),
            Self::Symbol(name) => Some(name),
            _ => None,
        }
    }
}
