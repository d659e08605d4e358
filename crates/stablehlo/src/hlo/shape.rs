//! Converts shapes and literals of XLA to types and literals of this crate.

use bytes::Bytes;

use super::proto::{self, decode};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{ElementType, Literal, TensorType, Type, normalise};
use crate::limits::MAX_NESTING;

const TUPLE: i32 = 13;
const TOKEN: i32 = 17;

/// Appends the types of the arrays and tokens in a shape, with tuples flattened.
pub(super) fn leaves(shape: &proto::Shape, out: &mut Vec<Type>) -> Result<()> {
    match shape.element_type {
        TUPLE => shape.tuple_shapes.iter().try_for_each(|part| leaves(part, out)),
        TOKEN => {
            out.push(Type::Token);
            Ok(())
        }
        _ => {
            out.push(array(shape)?);
            Ok(())
        }
    }
}

/// Returns the type of an array. If a dimension is dynamic, the type is the text of StableHLO's bounded type.
fn array(shape: &proto::Shape) -> Result<Type> {
    let is_dynamic = |d: usize| shape.is_dynamic_dimension.get(d) == Some(&true);
    if !(0..shape.dimensions.len()).any(is_dynamic) {
        return Ok(Type::Tensor(tensor(shape)?));
    }
    let mut bounds = Vec::with_capacity(shape.dimensions.len());
    let mut text = "tensor<".to_owned();
    for (d, &extent) in shape.dimensions.iter().enumerate() {
        if extent < 0 {
            return Err(Error::new(ErrorKind::Encoding, format_args!("the extent {extent} of a dimension is invalid")));
        }
        let (known, bound) = (extent.to_string(), "?".to_owned());
        let (known, bound) = if is_dynamic(d) { (bound, known) } else { (known, bound) };
        text += &format!("{known}x");
        bounds.push(bound);
    }
    Ok(Type::Other(format!("{text}{}, #stablehlo.bounds<{}>>", element(shape.element_type)?, bounds.join(", "))))
}

/// Returns the number of arrays and tokens in a shape.
pub(super) fn leaf_count(shape: &proto::Shape) -> usize {
    if shape.element_type == TUPLE { shape.tuple_shapes.iter().map(leaf_count).sum() } else { 1 }
}

/// Finds the subshape that an index path refers to. Returns the position of its first leaf and the number of its
/// leaves. A leaf is an array or a token.
pub(super) fn part(shape: &proto::Shape, index: &[i64]) -> Result<(usize, usize)> {
    let (mut shape, mut start) = (shape, 0);
    for &step in index {
        let parts = if shape.element_type == TUPLE { &shape.tuple_shapes[..] } else { &[] };
        let inner = usize::try_from(step).ok().and_then(|step| Some((step, parts.get(step)?)));
        let Some((step, inner)) = inner else {
            return Err(Error::new(
                ErrorKind::Encoding,
                format_args!("tuple index {step} is outside the {} elements", parts.len()),
            ));
        };
        start += parts[..step].iter().map(leaf_count).sum::<usize>();
        shape = inner;
    }
    Ok((start, leaf_count(shape)))
}

/// Returns the type of an array. Returns an error if a dimension is dynamic.
pub(super) fn tensor(shape: &proto::Shape) -> Result<TensorType> {
    let element = element(shape.element_type)?;
    if shape.is_dynamic_dimension.contains(&true) {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "the reader does not support arrays of bounded size in constants, layouts and collectives; use a static size",
        ));
    }
    if let Some(extent) = shape.dimensions.iter().find(|&&extent| extent < 0) {
        return Err(Error::new(ErrorKind::Encoding, format_args!("the extent {extent} of a dimension is invalid")));
    }
    Ok(TensorType::new(shape.dimensions.as_slice(), element))
}

/// Element types and their values in XLA's enum `PrimitiveType`.
const ELEMENTS: [(i32, ElementType); 28] = {
    use ElementType::*;
    [
        (1, Bool),
        (2, I8),
        (3, I16),
        (4, I32),
        (5, I64),
        (6, Ui8),
        (7, Ui16),
        (8, Ui32),
        (9, Ui64),
        (10, F16),
        (11, F32),
        (12, F64),
        (15, ComplexF32),
        (16, Bf16),
        (18, ComplexF64),
        (19, F8E5M2),
        (20, F8E4M3FN),
        (21, I4),
        (22, Ui4),
        (23, F8E4M3B11FNUZ),
        (24, F8E5M2FNUZ),
        (25, F8E4M3FNUZ),
        (26, I2),
        (27, Ui2),
        (28, F8E4M3),
        (29, F8E3M4),
        (32, F4E2M1FN),
        (33, F8E8M0FNU),
    ]
};

fn element(number: i32) -> Result<ElementType> {
    let row = ELEMENTS.iter().find(|row| row.0 == number);
    row.map(|row| row.1).ok_or_else(|| {
        Error::new(ErrorKind::Unsupported, format_args!("StableHLO does not support element type {number}"))
    })
}

/// Returns the shape of values of this type. Arrays have the default layout.
pub(super) fn of_type(ty: &Type) -> Result<proto::Shape> {
    match ty {
        Type::Tensor(ty) => of_tensor(ty),
        Type::Token => Ok(proto::Shape { element_type: TOKEN, ..proto::Shape::default() }),
        Type::Tuple(types) => Ok(tuple(types.iter().map(of_type).collect::<Result<_>>()?)),
        Type::Other(text) => Err(Error::new(ErrorKind::Unsupported, format_args!("HLO does not support type {text}"))),
    }
}

/// Returns the shape of an array in the default layout.
pub(super) fn of_tensor(ty: &TensorType) -> Result<proto::Shape> {
    let number = ELEMENTS.iter().find(|row| row.1 == ty.element).map(|row| row.0);
    let number = number.filter(|_| ty.shape.iter().all(|&extent| extent >= 0));
    let number =
        number.ok_or_else(|| Error::new(ErrorKind::Unsupported, format_args!("HLO does not support type {ty}")))?;
    let rank = i64::try_from(ty.rank()).unwrap_or(i64::MAX);
    Ok(proto::Shape {
        element_type: number,
        dimensions: ty.shape.clone(),
        tuple_shapes: Vec::new(),
        layout: Some(proto::Layout { minor_to_major: (0..rank).rev().collect() }),
        is_dynamic_dimension: vec![false; ty.rank()],
    })
}

/// Returns the shape of a tuple with these elements.
pub(super) fn tuple(tuple_shapes: Vec<proto::Shape>) -> proto::Shape {
    proto::Shape { element_type: TUPLE, tuple_shapes, ..proto::Shape::default() }
}

/// Returns the layout's dimensions from minor to major. Returns `None` if the shape has no layout, or if the layout is
/// equivalent to the default layout. The position of a dimension with the extent 1 does not matter.
pub(super) fn permuted(shape: &proto::Shape) -> Option<&[i64]> {
    let order = &shape.layout.as_ref()?.minor_to_major[..];
    let extent = |d: i64| usize::try_from(d).ok().and_then(|d| shape.dimensions.get(d)).copied();
    let wide: Vec<i64> = order.iter().copied().filter(|&d| extent(d) != Some(1)).collect();
    (!wide.is_sorted_by(|a, b| a > b)).then_some(order)
}

/// Appends the constants in a literal to `out`, with tuples flattened. `depth` is the nesting depth of the literal.
pub(super) fn literals(mut literal: proto::Literal, depth: usize, out: &mut Vec<Literal>) -> Result<()> {
    let shape = literal.shape.take().unwrap_or_default();
    if shape.element_type == TUPLE {
        if depth > MAX_NESTING {
            return Err(Error::new(ErrorKind::Limit, format_args!("literals nest deeper than {MAX_NESTING}")));
        }
        return literal.tuple_literals.into_iter().try_for_each(|part| literals(decode(part)?, depth + 1, out));
    }
    let ty = tensor(&shape)?;
    let data = elements(literal, &ty)?;
    let (count, size) = (ty.num_elements(), ty.element.byte_size());
    if count.and_then(|n| n.checked_mul(size)) != Some(data.len()) {
        return Err(Error::new(
            ErrorKind::Encoding,
            format_args!("a literal of type {ty} cannot have {} bytes", data.len()),
        ));
    }
    let data = match permuted(&shape) {
        Some(order) => reorder(&data, &ty, order)?,
        None => data,
    };
    out.push(Literal::new(ty, data)?);
    Ok(())
}

/// Returns the elements in the byte format of [`Literal`], in the literal's own memory order.
fn elements(literal: proto::Literal, ty: &TensorType) -> Result<Bytes> {
    use ElementType::*;
    fn joined<T, const N: usize>(values: &[T], bytes: impl Fn(&T) -> [u8; N]) -> Bytes {
        values.iter().flat_map(bytes).collect::<Vec<u8>>().into()
    }
    Ok(match ty.element {
        Bool => joined(&literal.preds, |&v| [u8::from(v)]),
        I2 => unpacked(literal.s2s, ty),
        I4 => unpacked(literal.s4s, ty),
        Ui2 => unpacked(literal.u2s, ty),
        Ui4 => unpacked(literal.u4s, ty),
        F4E2M1FN => unpacked(literal.f4e2m1fns, ty),
        I8 => literal.s8s,
        Ui8 => literal.u8s,
        I16 => literal.s16s,
        Ui16 => literal.u16s,
        I32 => joined(&literal.s32s, |v| v.to_le_bytes()),
        Ui32 => joined(&literal.u32s, |v| v.to_le_bytes()),
        I64 => joined(&literal.s64s, |v| v.to_le_bytes()),
        Ui64 => joined(&literal.u64s, |v| v.to_le_bytes()),
        F8E3M4 => literal.f8e3m4s,
        F8E4M3 => literal.f8e4m3s,
        F8E4M3FN => literal.f8e4m3fns,
        F8E4M3FNUZ => literal.f8e4m3fnuzs,
        F8E4M3B11FNUZ => literal.f8e4m3b11fnuzs,
        F8E5M2 => literal.f8e5m2s,
        F8E5M2FNUZ => literal.f8e5m2fnuzs,
        F8E8M0FNU => literal.f8e8m0fnus,
        Bf16 => literal.bf16s,
        F16 => literal.f16s,
        F32 => joined(&literal.f32s, |v| v.to_le_bytes()),
        F64 => joined(&literal.f64s, |v| v.to_le_bytes()),
        ComplexF32 => joined(&literal.c64s, |v| v.to_le_bytes()),
        ComplexF64 => joined(&literal.c128s, |v| v.to_le_bytes()),
        other => {
            return Err(Error::new(ErrorKind::Unsupported, format_args!("HLO does not support literals of {other}")));
        }
    })
}

/// Returns one byte per element. Some producers wrote one byte per element. Others packed as many elements as possible
/// into a byte, with the first element in the low bits.
fn unpacked(raw: Bytes, ty: &TensorType) -> Bytes {
    let width = usize::try_from(ty.element.bit_width()).unwrap_or(8);
    let count = ty.num_elements().unwrap_or(0);
    let per_byte = 8 / width.clamp(1, 8);
    let raw = if raw.len() != count && raw.len() == count.div_ceil(per_byte) {
        (0..count).map(|i| raw[i / per_byte] >> (i % per_byte * width)).collect()
    } else {
        raw
    };
    normalise(ty.element, raw)
}

/// Returns the elements of a literal in row-major order. `minor_to_major` is the order of the dimensions in `data`.
fn reorder(data: &[u8], ty: &TensorType, minor_to_major: &[i64]) -> Result<Bytes> {
    let wrong = || Error::new(ErrorKind::Encoding, format_args!("{minor_to_major:?} is not a layout of {ty}"));
    let rank = ty.rank();
    let extents: Vec<usize> = ty.shape.iter().filter_map(|&extent| usize::try_from(extent).ok()).collect();
    if minor_to_major.len() != rank || extents.len() != rank {
        return Err(wrong());
    }
    let mut strides = vec![0; rank];
    let mut stride = ty.element.byte_size();
    for &d in minor_to_major {
        let d = usize::try_from(d).ok().filter(|&d| d < rank && strides[d] == 0).ok_or_else(wrong)?;
        if data.is_empty() {
            return Ok(Bytes::new());
        }
        strides[d] = stride;
        stride *= extents[d];
    }
    let mut out = Vec::with_capacity(data.len());
    let (mut index, mut offset) = (vec![0; rank], 0);
    while out.len() < data.len() {
        out.extend_from_slice(&data[offset..offset + ty.element.byte_size()]);
        for d in (0..rank).rev() {
            index[d] += 1;
            offset += strides[d];
            if index[d] < extents[d] {
                break;
            }
            offset -= strides[d] * extents[d];
            index[d] = 0;
        }
    }
    Ok(out.into())
}

/// Converts a constant to a literal. A splat becomes a literal that is a scalar.
pub(super) fn literal_of(constant: &Literal) -> Result<proto::Literal> {
    use ElementType::*;
    fn each<T, const N: usize>(data: &[u8], read: impl Fn([u8; N]) -> T) -> Vec<T> {
        data.as_chunks::<N>().0.iter().map(|chunk| read(*chunk)).collect()
    }
    let element = constant.ty.element;
    let ty = if constant.splat { &TensorType::new([], element) } else { &constant.ty };
    let mut literal = proto::Literal { shape: Some(of_tensor(ty)?), ..proto::Literal::default() };
    let data = &constant.data;
    match element {
        Bool => literal.preds = data.iter().map(|&byte| byte != 0).collect(),
        I2 => literal.s2s = packed(data, element),
        I4 => literal.s4s = packed(data, element),
        Ui2 => literal.u2s = packed(data, element),
        Ui4 => literal.u4s = packed(data, element),
        F4E2M1FN => literal.f4e2m1fns = packed(data, element),
        I8 => literal.s8s = data.clone(),
        Ui8 => literal.u8s = data.clone(),
        I16 => literal.s16s = data.clone(),
        Ui16 => literal.u16s = data.clone(),
        I32 => literal.s32s = each(data, i32::from_le_bytes),
        Ui32 => literal.u32s = each(data, u32::from_le_bytes),
        I64 => literal.s64s = each(data, i64::from_le_bytes),
        Ui64 => literal.u64s = each(data, u64::from_le_bytes),
        F8E3M4 => literal.f8e3m4s = data.clone(),
        F8E4M3 => literal.f8e4m3s = data.clone(),
        F8E4M3FN => literal.f8e4m3fns = data.clone(),
        F8E4M3FNUZ => literal.f8e4m3fnuzs = data.clone(),
        F8E4M3B11FNUZ => literal.f8e4m3b11fnuzs = data.clone(),
        F8E5M2 => literal.f8e5m2s = data.clone(),
        F8E5M2FNUZ => literal.f8e5m2fnuzs = data.clone(),
        F8E8M0FNU => literal.f8e8m0fnus = data.clone(),
        Bf16 => literal.bf16s = data.clone(),
        F16 => literal.f16s = data.clone(),
        F32 => literal.f32s = each(data, u32::from_le_bytes),
        F64 => literal.f64s = each(data, u64::from_le_bytes),
        ComplexF32 => literal.c64s = each(data, u32::from_le_bytes),
        ComplexF64 => literal.c128s = each(data, u64::from_le_bytes),
        other => {
            return Err(Error::new(ErrorKind::Unsupported, format_args!("HLO does not support literals of {other}")));
        }
    }
    Ok(literal)
}

/// Packs as many elements as possible into each byte, with the first element in the low bits.
fn packed(data: &[u8], element: ElementType) -> Bytes {
    let width = usize::try_from(element.bit_width()).unwrap_or(8).clamp(1, 8);
    let mask = u8::MAX >> (8 - width);
    let join =
        |chunk: &[u8]| chunk.iter().enumerate().fold(0, |byte, (i, element)| byte | (element & mask) << (i * width));
    data.chunks(8 / width).map(join).collect::<Vec<u8>>().into()
}
