//! The arguments of a custom call, as a handler in Rust receives them.

use super::ExecuteContext;
use crate::{Element, ElementType, Error, Result, Shape};

/// The arguments of a handler: the operands, the results to fill, and data from the program and the framework.
#[derive(Debug)]
#[non_exhaustive]
pub struct Call<'a> {
    /// Name of the custom call.
    pub target: &'a str,
    /// The attributes of the call in the program (`backend_config`).
    pub attributes: &'a Attributes,
    /// The operands, in order.
    pub operands: &'a [Operand<'a>],
    /// The results, in order. Their bytes are zero until the handler writes them.
    pub results: &'a mut [ResultBuffer<'a>],
    /// The framework's user data for the calls of this execution.
    pub context: &'a ExecuteContext,
}

/// An operand on the host. It is dense, and row-major unless the call declares another layout. Sub-byte types occupy
/// one byte per element.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Operand<'a> {
    /// Element type and extents.
    pub shape: &'a Shape,
    /// The bytes of the elements.
    pub bytes: &'a [u8],
}

impl<'a> Operand<'a> {
    /// Creates an operand of this shape. [`Call::new`] checks the size of the data.
    pub fn new(shape: &'a Shape, bytes: &'a [u8]) -> Self {
        Self { shape, bytes }
    }
}

/// Memory for a result, with the same layout as the memory of an [`Operand`].
#[derive(Debug)]
#[non_exhaustive]
pub struct ResultBuffer<'a> {
    /// Element type and extents.
    pub shape: &'a Shape,
    /// The bytes of the elements.
    pub bytes: &'a mut [u8],
}

impl<'a> ResultBuffer<'a> {
    /// Wraps the memory for a result of this shape. [`Call::new`] checks the size of the memory.
    pub fn new(shape: &'a Shape, bytes: &'a mut [u8]) -> Self {
        Self { shape, bytes }
    }
}

/// The attributes of a custom call.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Attributes {
    /// `backend_config` as a string. Custom calls with an `api_version` below 4 have this form.
    pub text: Option<String>,
    /// `backend_config` as a dictionary, in the program's order.
    pub values: Vec<(String, Attribute)>,
    /// The element types of the integers and floats in `values`, at the same indices. If a type is `None` or missing,
    /// the integer or float has 64 bits. Handlers in C receive attributes of exactly these types. A call of a handler
    /// in C fails if a value is out of range for its type.
    pub types: Vec<Option<ElementType>>,
}

/// Value of an attribute.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Attribute {
    /// A boolean.
    Bool(bool),
    /// An integer of any width. A `u64` above `i64::MAX` is stored as the `i64` with the same bits.
    Int(i64),
    /// A float of any width.
    Float(f64),
    /// A string.
    String(String),
    /// An array of integers.
    IntList(Vec<i64>),
    /// An array of floats.
    FloatList(Vec<f64>),
    /// Nested attributes.
    Dictionary(Vec<(String, Attribute)>),
}

impl Attributes {
    /// Returns the value of the attribute with this name, or `None` if it is not present.
    pub fn get(&self, name: &str) -> Option<&Attribute> {
        self.values.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }
}

impl Attribute {
    /// Returns the value if the attribute is an integer.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns the value if the attribute is a float.
    pub fn as_float(&self) -> Option<f64> {
        match self {
            Self::Float(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns the value if the attribute is a boolean.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns the value if the attribute is a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(value) => Some(value),
            _ => None,
        }
    }
}

impl<'a> Call<'a> {
    /// Creates a call, which a backend passes to [`Handler::call`](super::Handler::call).
    ///
    /// # Errors
    ///
    /// Returns `INVALID_ARGUMENT` if the size of an operand or result does not match its shape.
    pub fn new(
        target: &'a str,
        attributes: &'a Attributes,
        operands: &'a [Operand<'a>],
        results: &'a mut [ResultBuffer<'a>],
        context: &'a ExecuteContext,
    ) -> Result<Self> {
        let call = Self { target, attributes, operands, results, context };
        call.check()?;
        Ok(call)
    }

    /// Checks that the size of each operand and result matches its shape. Safe code may change the public fields after
    /// `new`. The check must therefore be repeated before code that trusts the shapes receives the addresses.
    pub(crate) fn check(&self) -> Result<()> {
        let operands = self.operands.iter().map(|operand| (operand.shape, operand.bytes.len()));
        let results = self.results.iter().map(|result| (result.shape, result.bytes.len()));
        let operands = operands.enumerate().map(|part| ("operand", part));
        for (kind, (index, (shape, len))) in operands.chain(results.enumerate().map(|part| ("result", part))) {
            if shape.host_size() != Some(len) {
                let target = self.target;
                let message = format!("custom call {target:?}: {kind} {index} is {shape}, but has {len} bytes");
                return Err(Error::invalid_argument(message));
            }
        }
        Ok(())
    }
}

fn expect_type<T: Element>(shape: &Shape) -> Result<()> {
    if shape.element_type == T::TYPE {
        return Ok(());
    }
    Err(Error::invalid_argument(format!("the elements are read as {}, but the array is {shape}", T::TYPE)))
}

impl Operand<'_> {
    /// Returns a copy of the elements. The data may not be aligned, so it cannot be borrowed as a slice.
    ///
    /// # Errors
    ///
    /// Returns `INVALID_ARGUMENT` if the elements have another type, or if a byte of a boolean is neither 0 nor 1.
    pub fn elements<T: Element>(&self) -> Result<Vec<T>> {
        expect_type::<T>(self.shape)?;
        let read = |chunk| bytemuck::checked::try_pod_read_unaligned(chunk);
        let elements = self.bytes.chunks_exact(size_of::<T>()).map(read).collect::<Result<Vec<T>, _>>();
        elements.map_err(|error| Error::invalid_argument(format!("{}: {error}", self.shape)))
    }
}

impl ResultBuffer<'_> {
    /// Writes all elements of the result.
    ///
    /// # Errors
    ///
    /// Returns `INVALID_ARGUMENT` if the type or the number of the elements differs from that of the result.
    pub fn write<T: Element>(&mut self, elements: &[T]) -> Result<()> {
        expect_type::<T>(self.shape)?;
        let bytes: &[u8] = bytemuck::cast_slice(elements);
        if bytes.len() != self.bytes.len() {
            return Err(Error::invalid_argument(format!(
                "{} elements were written to a result of {}",
                elements.len(),
                self.shape
            )));
        }
        self.bytes.copy_from_slice(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Handler;
    use super::*;
    use crate::ErrorCode;
    use expect_test::expect;

    #[test]
    fn handler_reads_and_writes_elements() {
        let double = Handler::rust(|call| {
            let by = call.attributes.get("by").and_then(Attribute::as_int).unwrap_or(1);
            let input: Vec<i32> = call.operands[0].elements()?;
            let output: Vec<i32> = input.iter().map(|x| x * i32::try_from(by).unwrap()).collect();
            call.results[0].write(&output)
        });
        let shape = Shape::new(ElementType::S32, [2]);
        let attributes =
            Attributes { text: None, values: vec![("by".to_owned(), Attribute::Int(3))], types: Vec::new() };
        let input: Vec<u8> = [5i32, -7].iter().flat_map(|x| x.to_le_bytes()).collect();
        let mut output = [0; 8];
        let context = ExecuteContext::default();
        let operands = [Operand::new(&shape, &input)];
        let mut results = [ResultBuffer::new(&shape, &mut output)];
        let mut call = Call::new("triple", &attributes, &operands, &mut results, &context).unwrap();
        double.call(&mut call).unwrap();
        let error = call.operands[0].elements::<f32>().unwrap_err();
        expect!["the elements are read as f32, but the array is s32[2]"].assert_eq(error.message());
        assert!(call.results[0].write(&[1i32]).is_err());
        assert_eq!(output[..4], 15i32.to_le_bytes());
        assert_eq!(output[4..], (-21i32).to_le_bytes());
    }

    #[test]
    fn rejects_bytes_of_other_shape() {
        let shape = Shape::new(ElementType::S32, [2]);
        let operands = [Operand::new(&shape, &[0; 7])];
        let (attributes, context) = (Attributes::default(), ExecuteContext::default());
        let error = Call::new("f", &attributes, &operands, &mut [], &context).unwrap_err();
        assert_eq!(error.code(), ErrorCode::INVALID_ARGUMENT);
        expect![[r#"custom call "f": operand 0 is s32[2], but has 7 bytes"#]].assert_eq(error.message());
    }
}
