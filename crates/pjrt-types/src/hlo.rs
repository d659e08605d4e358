//! Reads the parameters of a compiled program from the `HloModuleProto` of plugins that are built on XLA.
//!
//! The C API does not report the number and the shapes of a program's parameters. The messages of this module declare
//! the fields that describe them, and decoding skips all other fields.

use prost::Message;

use crate::{ElementType, Layout, Shape};

/// Code of the tuple type in XLA's `PrimitiveType`.
const TUPLE: i32 = 13;

#[derive(Message)]
struct HloModuleProtoWithConfig {
    #[prost(message, optional, tag = "1")]
    hlo_module: Option<HloModuleProto>,
}

#[derive(Message)]
struct HloModuleProto {
    #[prost(message, optional, tag = "4")]
    host_program_shape: Option<ProgramShapeProto>,
}

#[derive(Message)]
struct ProgramShapeProto {
    #[prost(message, repeated, tag = "1")]
    parameters: Vec<ShapeProto>,
}

#[derive(Message)]
struct ShapeProto {
    #[prost(int32, tag = "2")]
    element_type: i32,
    #[prost(int64, repeated, tag = "3")]
    dimensions: Vec<i64>,
    #[prost(message, repeated, tag = "4")]
    tuple_shapes: Vec<ShapeProto>,
    #[prost(message, optional, tag = "5")]
    layout: Option<LayoutProto>,
    #[prost(bool, repeated, tag = "6")]
    is_dynamic_dimension: Vec<bool>,
}

#[derive(Message)]
struct LayoutProto {
    #[prost(int64, repeated, tag = "1")]
    minor_to_major: Vec<i64>,
    #[prost(message, repeated, tag = "6")]
    tiles: Vec<TileProto>,
}

#[derive(Message)]
struct TileProto {
    #[prost(int64, repeated, tag = "1")]
    dimensions: Vec<i64>,
}

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
        "hlo" => HloModuleProto::decode(code).ok()?,
        "hlo_with_config" => HloModuleProtoWithConfig::decode(code).ok()?.hlo_module?,
        _ => return None,
    };
    let mut shapes = module.host_program_shape?.parameters;
    let is_tuple = matches!(&shapes[..], [only] if only.element_type == TUPLE);
    if is_tuple {
        shapes = shapes.pop()?.tuple_shapes;
    }
    Some(HloParameters { all: shapes.into_iter().map(ShapeProto::parameter).collect(), is_tuple })
}

/// Reads the `ShapeProto` of an array. Returns `None` if a dimension is dynamic, if this crate does not support the
/// element type, or if the bytes are invalid.
#[must_use]
pub fn shape(proto: &[u8]) -> Option<(Shape, Layout)> {
    let parameter = ShapeProto::decode(proto).ok()?.parameter();
    let shape = parameter.shape?;
    let layout = parameter.layout.unwrap_or_else(|| Layout::row_major(shape.dimensions.len()));
    Some((shape, layout))
}

impl ShapeProto {
    fn parameter(self) -> HloParameter {
        let is_dynamic = self.is_dynamic_dimension.contains(&true);
        let known = element_type_of_xla(self.element_type).filter(|_| !is_dynamic);
        HloParameter {
            shape: known.map(|element_type| Shape::new(element_type, self.dimensions)),
            layout: self.layout.map(LayoutProto::layout),
        }
    }
}

impl LayoutProto {
    fn layout(self) -> Layout {
        let mut layout = Layout::new(self.minor_to_major);
        layout.tiles = self.tiles.into_iter().map(|tile| tile.dimensions).collect();
        layout
    }
}

/// Converts a code of XLA's `PrimitiveType`, whose codes differ from those of `PJRT_Buffer_Type`. Returns `None` for
/// types that this crate does not support.
fn element_type_of_xla(number: i32) -> Option<ElementType> {
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
