//! Reads the parameters of a compiled program from the `HloModuleProto` of plugins that are built on XLA.
//!
//! The C API does not report the number and the shapes of a program's parameters. This module reads the relevant fields
//! of the protobuf message and skips all other fields.

use crate::{ElementType, Layout, Shape};

/// Code of the tuple type in XLA's `PrimitiveType`.
const TUPLE: u64 = 13;

/// A parameter of a program, as its `ShapeProto` describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HloParameter {
    /// Shape on each device. `None` if a dimension is dynamic, or if this crate does not support the element type.
    pub shape: Option<Shape>,
    /// Layout in the device's memory. `None` if the program does not contain a layout. The layout is then row-major.
    pub layout: Option<Layout>,
}

/// The parameters of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HloParameters {
    /// The parameters in the order of the program.
    pub all: Vec<HloParameter>,
    /// Whether the program's only parameter is a tuple. If so, `all` contains the elements of this tuple, because
    /// callers of PJRT pass the elements one by one.
    pub is_tuple: bool,
}

/// Returns whether [`parameters`] reads programs in this format.
#[must_use]
pub fn is_readable(format: &str) -> bool {
    matches!(format, "hlo" | "hlo_with_config")
}

/// Reads the parameters of a program in the format `hlo` or `hlo_with_config`. Returns `None` for other formats and for
/// invalid bytes.
#[must_use]
pub fn parameters(format: &str, code: &[u8]) -> Option<HloParameters> {
    let module = match format {
        "hlo" => code,
        // HloModuleProtoWithConfig.hlo_module.
        "hlo_with_config" => field(code, 1)?,
        _ => return None,
    };
    // HloModuleProto.host_program_shape.
    let program = field(module, 4)?;
    let mut shapes = Vec::new();
    for message in fields(program) {
        // ProgramShapeProto.parameters.
        if let (1, Value::Bytes(shape)) = message? {
            shapes.push(shape);
        }
    }
    let mut is_tuple = false;
    if let [only] = shapes[..]
        && element_type(only)? == TUPLE
    {
        is_tuple = true;
        shapes = fields(only).filter_map(|message| tuple_element(message.as_ref())).collect();
    }
    Some(HloParameters { all: shapes.into_iter().map(parameter).collect::<Option<_>>()?, is_tuple })
}

/// Reads the `ShapeProto` of an array. Returns `None` if a dimension is dynamic, if this crate does not support the
/// element type, or if the bytes are invalid.
#[must_use]
pub fn shape(proto: &[u8]) -> Option<(Shape, Layout)> {
    let mut read = parameter(proto)?;
    let shape = read.shape.take()?;
    let layout = read.layout.take().unwrap_or_else(|| Layout::row_major(shape.dimensions.len()));
    Some((shape, layout))
}

/// Returns the value if the field is `ShapeProto.tuple_shapes`, and `None` for any other field.
fn tuple_element<'a>(message: Option<&(u64, Value<'a>)>) -> Option<&'a [u8]> {
    match message {
        Some((4, Value::Bytes(shape))) => Some(shape),
        _ => None,
    }
}

/// Returns `ShapeProto.element_type`, or 0 if the field is missing. Returns `None` if the bytes are invalid.
fn element_type(shape: &[u8]) -> Option<u64> {
    let mut found = 0;
    for message in fields(shape) {
        if let (2, Value::Varint(number)) = message? {
            found = number;
        }
    }
    Some(found)
}

fn parameter(shape: &[u8]) -> Option<HloParameter> {
    let mut dimensions = Vec::new();
    let mut dynamic = false;
    let mut layout = None;
    for message in fields(shape) {
        match message? {
            // ShapeProto.dimensions, packed or not.
            (3, Value::Varint(extent)) => dimensions.push(extent.cast_signed()),
            (3, Value::Bytes(packed)) => unpack(packed, &mut dimensions)?,
            // ShapeProto.layout.
            (5, Value::Bytes(message)) => layout = Some(read_layout(message)?),
            // ShapeProto.is_dynamic_dimension, packed or not.
            (6, Value::Varint(flag)) => dynamic |= flag != 0,
            (6, Value::Bytes(flags)) => dynamic |= flags.iter().any(|flag| *flag != 0),
            _ => {}
        }
    }
    let known = element_type_of_xla(element_type(shape)?).filter(|_| !dynamic);
    Some(HloParameter { shape: known.map(|element_type| Shape::new(element_type, dimensions)), layout })
}

fn read_layout(message: &[u8]) -> Option<Layout> {
    let mut layout = Layout::new(Vec::new());
    for message in fields(message) {
        match message? {
            // LayoutProto.minor_to_major, packed or not.
            (1, Value::Varint(dimension)) => layout.minor_to_major.push(dimension.cast_signed()),
            (1, Value::Bytes(packed)) => unpack(packed, &mut layout.minor_to_major)?,
            // LayoutProto.tiles.
            (6, Value::Bytes(tile)) => {
                let mut extents = Vec::new();
                for message in fields(tile) {
                    match message? {
                        // TileProto.dimensions, packed or not.
                        (1, Value::Varint(extent)) => extents.push(extent.cast_signed()),
                        (1, Value::Bytes(packed)) => unpack(packed, &mut extents)?,
                        _ => {}
                    }
                }
                layout.tiles.push(extents);
            }
            _ => {}
        }
    }
    Some(layout)
}

/// Decodes a packed list of varints and appends the integers to `into`. Returns `None` if the list is invalid.
fn unpack(mut packed: &[u8], into: &mut Vec<i64>) -> Option<()> {
    while !packed.is_empty() {
        into.push(varint(&mut packed)?.cast_signed());
    }
    Some(())
}

/// Converts a code of XLA's `PrimitiveType`, whose codes differ from those of `PJRT_Buffer_Type`. Returns `None` for
/// types that this crate does not support.
fn element_type_of_xla(number: u64) -> Option<ElementType> {
    Some(match number {
        1 => ElementType::Pred,
        2 => ElementType::S8,
        3 => ElementType::S16,
        4 => ElementType::S32,
        5 => ElementType::S64,
        6 => ElementType::U8,
        7 => ElementType::U16,
        8 => ElementType::U32,
        9 => ElementType::U64,
        10 => ElementType::F16,
        11 => ElementType::F32,
        12 => ElementType::F64,
        15 => ElementType::C64,
        16 => ElementType::Bf16,
        18 => ElementType::C128,
        19 => ElementType::F8E5M2,
        20 => ElementType::F8E4M3FN,
        21 => ElementType::S4,
        22 => ElementType::U4,
        23 => ElementType::F8E4M3B11FNUZ,
        24 => ElementType::F8E5M2FNUZ,
        25 => ElementType::F8E4M3FNUZ,
        _ => return None,
    })
}

enum Value<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    Fixed,
}

/// Returns the value of the last length-delimited field with this field number. Returns `None` if there is no such
/// field, or if the message is invalid.
fn field(message: &[u8], number: u64) -> Option<&[u8]> {
    let mut found = None;
    for field in fields(message) {
        if let (n, Value::Bytes(bytes)) = field?
            && n == number
        {
            found = Some(bytes);
        }
    }
    found
}

/// Iterates over the fields of a protobuf message. If the bytes are invalid, the last item is `None`.
fn fields(message: &[u8]) -> impl Iterator<Item = Option<(u64, Value<'_>)>> {
    let mut rest = message;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let field = next(&mut rest);
        if field.is_none() {
            rest = &[];
        }
        Some(field)
    })
}

fn next<'a>(rest: &mut &'a [u8]) -> Option<(u64, Value<'a>)> {
    let tag = varint(rest)?;
    let value = match tag & 7 {
        0 => Value::Varint(varint(rest)?),
        1 => {
            *rest = rest.get(8..)?;
            Value::Fixed
        }
        2 => {
            let len = usize::try_from(varint(rest)?).ok()?;
            let (bytes, after) = rest.split_at_checked(len)?;
            *rest = after;
            Value::Bytes(bytes)
        }
        5 => {
            *rest = rest.get(4..)?;
            Value::Fixed
        }
        _ => return None,
    };
    Some((tag >> 3, value))
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2, u8::try_from(bytes.len()).unwrap()];
        out.extend_from_slice(bytes);
        out
    }

    fn module(parameters: &[&[u8]]) -> Vec<u8> {
        let program: Vec<u8> = parameters.iter().flat_map(|shape| message(1, shape)).collect();
        let mut module = message(1, b"name");
        module.extend(message(4, &program));
        module
    }

    /// element_type = 11 (f32), dimensions = [2, 300] packed.
    const F32_2_300: &[u8] = &[0x10, 11, 0x1a, 3, 2, 0xac, 2];
    /// element_type = 4 (s32), no dimensions.
    const S32: &[u8] = &[0x10, 4];

    fn shapes(code: &[u8]) -> Option<Vec<String>> {
        let show = |p: &HloParameter| p.shape.as_ref().map_or("?".to_owned(), ToString::to_string);
        Some(parameters("hlo", code)?.all.iter().map(show).collect())
    }

    #[test]
    fn parameters_are_read() {
        assert_eq!(shapes(&module(&[F32_2_300, S32])).unwrap(), ["f32[2,300]", "s32[]"]);
        assert_eq!(shapes(&module(&[])).unwrap(), [""; 0]);
        let with_config = message(1, &module(&[S32]));
        assert_eq!(parameters("hlo_with_config", &with_config).unwrap().all.len(), 1);
        // These dimensions are not packed. The second shape also has a dynamic dimension.
        assert_eq!(shapes(&module(&[&[0x10, 11, 0x18, 2, 0x18, 3]])).unwrap(), ["f32[2,3]"]);
        assert_eq!(shapes(&module(&[&[0x10, 11, 0x18, 2, 0x32, 1, 1]])).unwrap(), ["?"]);
        // 99 is not the code of an element type.
        assert_eq!(shapes(&module(&[&[0x10, 99]])).unwrap(), ["?"]);
    }

    #[test]
    fn layouts_are_read() {
        let layout = |bytes: &[u8]| {
            let mut shape = F32_2_300.to_vec();
            shape.extend(message(5, bytes));
            parameters("hlo", &module(&[&shape])).unwrap().all[0].layout.as_ref().map(ToString::to_string)
        };
        assert_eq!(layout(&[0x0a, 2, 0, 1]).unwrap(), "{0,1}");
        assert_eq!(layout(&[0x08, 1, 0x08, 0]).unwrap(), "{1,0}");
        assert_eq!(layout(&[0x0a, 2, 1, 0, 0x32, 5, 0x0a, 3, 8, 0x80, 1]).unwrap(), "{1,0:T(8,128)}");
        assert!(parameters("hlo", &module(&[F32_2_300])).unwrap().all[0].layout.is_none());
    }

    #[test]
    fn flattens_one_tuple() {
        let mut tuple = vec![0x10, 13];
        tuple.extend(message(4, F32_2_300));
        tuple.extend(message(4, S32));
        assert_eq!(shapes(&module(&[&tuple])).unwrap(), ["f32[2,300]", "s32[]"]);
        assert!(parameters("hlo", &module(&[&tuple])).unwrap().is_tuple);
        assert!(!parameters("hlo", &module(&[S32])).unwrap().is_tuple);
    }

    #[test]
    fn other_bytes_are_none() {
        assert!(parameters("mlir", &module(&[])).is_none());
        let whole = module(&[F32_2_300]);
        for len in 0..whole.len() {
            assert!(parameters("hlo", &whole[..len]).is_none(), "{len}");
        }
        assert!(parameters("hlo", &[0xff; 32]).is_none());
    }
}
