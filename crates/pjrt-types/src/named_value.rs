//! `PJRT_NamedValue`: plugin attributes, create options, device attributes, cost analysis.

use std::fmt;

/// Value of a [`NamedValue`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// UTF-8 text.
    String(String),
    /// A 64-bit integer.
    Int64(i64),
    /// A list of 64-bit integers.
    Int64List(Vec<i64>),
    /// A 32-bit float.
    Float(f32),
    /// A boolean.
    Bool(bool),
}

/// A name and its typed value.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedValue {
    /// The name.
    pub name: String,
    /// The value.
    pub value: Value,
}

impl NamedValue {
    /// A named value; integers, floats, booleans, text and integer lists convert.
    pub fn new(name: impl Into<String>, value: impl Into<Value>) -> Self {
        Self { name: name.into(), value: value.into() }
    }
}

macro_rules! from {
    ($($variant:ident($ty:ty)),*) => {
        $(impl From<$ty> for Value {
            fn from(value: $ty) -> Self {
                Self::$variant(value.into())
            }
        })*
    };
}
from!(
    String(String),
    String(&str),
    Int64(i64),
    Int64(i32),
    Int64(u32),
    Int64List(Vec<i64>),
    Int64List(&[i64]),
    Float(f32),
    Bool(bool)
);

impl<const N: usize> From<[i64; N]> for Value {
    fn from(value: [i64; N]) -> Self {
        Self::Int64List(value.to_vec())
    }
}

impl Value {
    /// Name of the value's type, as the CLI and errors spell it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::String(_) => "string",
            Self::Int64(_) => "int64",
            Self::Int64List(_) => "int64 list",
            Self::Float(_) => "float",
            Self::Bool(_) => "bool",
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::String(value) => f.write_str(value),
            Self::Int64(value) => write!(f, "{value}"),
            Self::Int64List(value) => write!(f, "{value:?}"),
            Self::Float(value) => write!(f, "{value}"),
            Self::Bool(value) => write!(f, "{value}"),
        }
    }
}
