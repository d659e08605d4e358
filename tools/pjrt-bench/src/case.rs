//! A program and its inputs.

use half::{bf16, f16};
use pjrt::{ElementType, HostArray, Program, Shape};

use crate::Error;

/// A program, and the inputs that every [`Side`](crate::Side) passes to it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Case {
    /// Name of the case in the report.
    pub name: String,
    /// The program, which runs on one device.
    pub program: Program,
    /// The same program in other formats, for plugins that do not accept the format of `program`. Each element is the
    /// program of the side with the same index. A side without an element runs `program`.
    pub forms: Vec<Program>,
    /// The inputs of the program.
    pub inputs: Vec<HostArray>,
}

impl Case {
    /// Creates a case from a program and its inputs.
    #[must_use]
    pub fn new(name: impl Into<String>, program: Program, inputs: Vec<HostArray>) -> Self {
        Self { name: name.into(), program, forms: Vec::new(), inputs }
    }

    /// Creates a case with random inputs of the given shapes: floating-point numbers between -0.5 and 0.5, integers
    /// from 0 to 3, and both values of `pred`. Every call creates the same inputs.
    ///
    /// # Errors
    ///
    /// Returns [`Error::NoRandomInput`] if an input has another type, such as a token or a type of less than 8 bits.
    pub fn with_random_inputs(name: impl Into<String>, program: Program, shapes: &[Shape]) -> Result<Self, Error> {
        let inputs = shapes.iter().enumerate().map(|(index, shape)| {
            let none = || Error::NoRandomInput { index, shape: shape.to_string() };
            let bytes = random(shape, index).ok_or_else(none)?;
            HostArray::new(shape.clone(), bytes).map_err(|_| none())
        });
        let inputs = inputs.collect::<Result<_, _>>()?;
        Ok(Self::new(name, program, inputs))
    }

    /// Sets [`Self::forms`], which contains the program of each side in the order of the sides.
    #[must_use]
    pub fn with_forms(mut self, forms: Vec<Program>) -> Self {
        self.forms = forms;
        self
    }

    /// Returns the program that the side with this index runs.
    pub(crate) fn form(&self, side: usize) -> &Program {
        self.forms.get(side).unwrap_or(&self.program)
    }
}

/// A generator of pseudorandom numbers that produces the same numbers in each run.
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u16 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u16::try_from(self.0 >> 48).unwrap_or_default()
    }

    /// Returns a number from -0.5 (inclusive) to 0.5 (exclusive).
    fn float(&mut self) -> f32 {
        f32::from(self.bits()) / 65536.0 - 0.5
    }

    /// Returns an integer from 0 to 3.
    fn integer(&mut self) -> u8 {
        u8::try_from(self.bits() >> 14).unwrap_or_default()
    }
}

/// Returns random elements in row-major order and in the byte order of the host. Returns `None` for types that have no
/// random values, and for shapes without a valid size.
fn random(shape: &Shape, seed: usize) -> Option<Vec<u8>> {
    let count = usize::try_from(shape.dimensions.iter().try_fold(1i64, |all, size| all.checked_mul(*size))?).ok()?;
    let mut random = Random((seed as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(count.checked_mul(shape.element_type.host_size())?).ok()?;
    let mut add = |element: &[u8]| bytes.extend_from_slice(element);
    for _ in 0..count {
        match shape.element_type {
            ElementType::Pred => add(&[random.integer() & 1]),
            ElementType::S8 | ElementType::U8 => add(&[random.integer()]),
            ElementType::S16 | ElementType::U16 => add(&u16::from(random.integer()).to_ne_bytes()),
            ElementType::S32 | ElementType::U32 => add(&u32::from(random.integer()).to_ne_bytes()),
            ElementType::S64 | ElementType::U64 => add(&u64::from(random.integer()).to_ne_bytes()),
            ElementType::F16 => add(&f16::from_f32(random.float()).to_ne_bytes()),
            ElementType::Bf16 => add(&bf16::from_f32(random.float()).to_ne_bytes()),
            ElementType::F32 => add(&random.float().to_ne_bytes()),
            ElementType::F64 => add(&f64::from(random.float()).to_ne_bytes()),
            ElementType::C64 => (0..2).for_each(|_| add(&random.float().to_ne_bytes())),
            ElementType::C128 => (0..2).for_each(|_| add(&f64::from(random.float()).to_ne_bytes())),
            _ => return None,
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(element_type: ElementType) -> Result<Case, Error> {
        Case::with_random_inputs("x", Program::mlir(""), &[Shape::new(element_type, [2, 3])])
    }

    #[test]
    fn random_inputs_repeat_and_are_small() {
        let values = |case: Case| {
            let bytes = case.inputs[0].bytes().to_vec();
            bytes.chunks_exact(4).map(|b| f32::from_ne_bytes([b[0], b[1], b[2], b[3]])).collect::<Vec<f32>>()
        };
        let first = values(inputs(ElementType::F32).unwrap());
        assert_eq!(first, values(inputs(ElementType::F32).unwrap()));
        assert_eq!(first.len(), 6);
        assert!(first.iter().all(|value| value.abs() <= 0.5));
        assert!(first.iter().any(|value| *value != first[0]));
        let integers = inputs(ElementType::U8).unwrap();
        assert!(integers.inputs[0].bytes().iter().all(|value| *value < 4));
        assert_eq!(inputs(ElementType::C128).unwrap().inputs[0].bytes().len(), 96);
    }

    #[test]
    fn other_types_have_no_random_values() {
        assert!(matches!(inputs(ElementType::Token), Err(Error::NoRandomInput { index: 0, .. })));
    }
}
