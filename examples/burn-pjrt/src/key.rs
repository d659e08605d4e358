//! Keys of graphs. If the bytes of two keys are equal, the graphs have the same program.
//!
//! A key contains the operations with their parameters, shapes and element types. Tensors are numbered in the order of
//! their first use, because Burn's ids differ in each step. The key is written with `serde`, so a new parameter of an
//! operation becomes part of the key without a change in this module.

use std::collections::HashMap;

use burn_ir::OperationIr;
use serde::ser::{self, Serialize};

/// Serializes operations to a key.
#[derive(Debug, Default)]
pub(crate) struct KeyWriter {
    bytes: Vec<u8>,
    numbers: HashMap<u64, u32>,
    /// Whether to omit the values of scalars, because they are arguments of the program.
    omit_scalars: bool,
    /// Whether the next integer is the id of a tensor.
    id_follows: bool,
}

impl KeyWriter {
    /// Appends an operation.
    pub(crate) fn op(&mut self, op: &OperationIr, omit_scalars: bool) {
        self.omit_scalars = omit_scalars;
        // Serializing into this writer never fails.
        let _ = op.serialize(&mut *self);
    }

    /// Appends the ordinal of a tensor. Ordinals are assigned in the order of the tensors' first use.
    pub(crate) fn tensor(&mut self, id: u64) {
        let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        let number = *self.numbers.entry(id).or_insert(next);
        self.word(number.into());
    }

    /// Appends an integer.
    pub(crate) fn word(&mut self, word: u64) {
        self.bytes.extend_from_slice(&word.to_le_bytes());
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// The error type that `serde` requires of a serializer.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Never(String);

impl ser::Error for Never {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

type Done = Result<(), Never>;

macro_rules! words {
    ($($method:ident: $ty:ty),*) => {
        $(
            fn $method(self, value: $ty) -> Done {
                self.word(value as u64);
                Ok(())
            }
        )*
    };
}

/// A structure that is being serialized.
pub(crate) struct Fields<'a> {
    writer: &'a mut KeyWriter,
    /// Whether the structure is a tensor. The status of a tensor is omitted, because it is not part of the program.
    tensor: bool,
    /// Whether the structure is the id of a tensor.
    id: bool,
}

impl<'a> ser::Serializer for &'a mut KeyWriter {
    type Ok = ();
    type Error = Never;
    type SerializeSeq = Fields<'a>;
    type SerializeTuple = Fields<'a>;
    type SerializeTupleStruct = Fields<'a>;
    type SerializeTupleVariant = Fields<'a>;
    type SerializeMap = Fields<'a>;
    type SerializeStruct = Fields<'a>;
    type SerializeStructVariant = Fields<'a>;

    words!(
        serialize_bool: bool, serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_char: char
    );

    fn serialize_u64(self, value: u64) -> Done {
        if std::mem::take(&mut self.id_follows) {
            self.tensor(value);
        } else {
            self.word(value);
        }
        Ok(())
    }

    fn serialize_f32(self, value: f32) -> Done {
        self.word(value.to_bits().into());
        Ok(())
    }

    fn serialize_f64(self, value: f64) -> Done {
        self.word(value.to_bits());
        Ok(())
    }

    fn serialize_str(self, value: &str) -> Done {
        self.serialize_bytes(value.as_bytes())
    }

    fn serialize_bytes(self, value: &[u8]) -> Done {
        self.word(value.len() as u64);
        self.bytes.extend_from_slice(value);
        Ok(())
    }

    fn serialize_none(self) -> Done {
        self.word(0);
        Ok(())
    }

    fn serialize_some<T: ?Sized + Serialize>(self, value: &T) -> Done {
        self.word(1);
        value.serialize(self)
    }

    fn serialize_unit(self) -> Done {
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Done {
        Ok(())
    }

    fn serialize_unit_variant(self, _: &'static str, index: u32, _: &'static str) -> Done {
        self.word(index.into());
        Ok(())
    }

    fn serialize_newtype_struct<T: ?Sized + Serialize>(self, _: &'static str, value: &T) -> Done {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: ?Sized + Serialize>(
        self,
        name: &'static str,
        index: u32,
        _: &'static str,
        value: &T,
    ) -> Done {
        if name == "ScalarIr" && self.omit_scalars {
            return Ok(());
        }
        self.word(index.into());
        value.serialize(self)
    }

    fn serialize_seq(self, length: Option<usize>) -> Result<Fields<'a>, Never> {
        self.word(length.map_or(u64::MAX, |length| length as u64));
        Ok(Fields { writer: self, tensor: false, id: false })
    }

    fn serialize_tuple(self, _: usize) -> Result<Fields<'a>, Never> {
        Ok(Fields { writer: self, tensor: false, id: false })
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Fields<'a>, Never> {
        Ok(Fields { writer: self, tensor: false, id: false })
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        index: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Fields<'a>, Never> {
        self.word(index.into());
        Ok(Fields { writer: self, tensor: false, id: false })
    }

    fn serialize_map(self, length: Option<usize>) -> Result<Fields<'a>, Never> {
        self.serialize_seq(length)
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Fields<'a>, Never> {
        Ok(Fields { writer: self, tensor: name == "TensorIr", id: name == "TensorId" })
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        index: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Fields<'a>, Never> {
        self.word(index.into());
        Ok(Fields { writer: self, tensor: false, id: false })
    }
}

impl Fields<'_> {
    fn field<T: ?Sized + Serialize>(&mut self, name: &str, value: &T) -> Done {
        if self.tensor && name == "status" {
            return Ok(());
        }
        self.writer.id_follows = self.id;
        value.serialize(&mut *self.writer)
    }
}

macro_rules! lists {
    ($($trait:ident $method:ident),* $(,)?) => {
        $(
            impl ser::$trait for Fields<'_> {
                type Ok = ();
                type Error = Never;

                fn $method<T: ?Sized + Serialize>(&mut self, value: &T) -> Done {
                    self.field("", value)
                }

                fn end(self) -> Done {
                    Ok(())
                }
            }
        )*
    };
}

lists!(
    SerializeSeq serialize_element,
    SerializeTuple serialize_element,
    SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field,
);

macro_rules! structures {
    ($($trait:ident),*) => {
        $(
            impl ser::$trait for Fields<'_> {
                type Ok = ();
                type Error = Never;

                fn serialize_field<T: ?Sized + Serialize>(&mut self, name: &'static str, value: &T) -> Done {
                    self.field(name, value)
                }

                fn end(self) -> Done {
                    Ok(())
                }
            }
        )*
    };
}

structures!(SerializeStruct, SerializeStructVariant);

impl ser::SerializeMap for Fields<'_> {
    type Ok = ();
    type Error = Never;

    fn serialize_key<T: ?Sized + Serialize>(&mut self, key: &T) -> Done {
        self.field("", key)
    }

    fn serialize_value<T: ?Sized + Serialize>(&mut self, value: &T) -> Done {
        self.field("", value)
    }

    fn end(self) -> Done {
        Ok(())
    }
}
