//! Copies structs and arrays of the PJRT C API to Rust types.

use pjrt_sys::{
    AbiStruct, PJRT_Buffer_MemoryLayout, PJRT_Buffer_MemoryLayout_Strides, PJRT_Buffer_MemoryLayout_Tiled,
    PJRT_Buffer_MemoryLayout_Type, PJRT_NamedValue, PJRT_NamedValue_Type,
};
use pjrt_types::{ElementType, NamedValue, Shape, Value};

use super::raw as memory;

/// The layout of a buffer or of an array on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BufferLayout {
    /// `minor_to_major` lists the dimensions from the fastest-varying to the slowest-varying. `tiles` contains the
    /// extents of each tile.
    Tiled { minor_to_major: Vec<i64>, tiles: Vec<Vec<i64>> },
    /// The distance in bytes between neighboring elements along each dimension.
    Strides(Vec<i64>),
}

/// Copies a struct that begins with its size. Fields that the source lacks are 0.
///
/// # Safety
///
/// `from` must be null or readable for the size in its first word.
pub(in crate::core) unsafe fn struct_at<S: AbiStruct>(from: *const u8) -> Option<S> {
    if from.is_null() {
        return None;
    }
    // SAFETY: this function's contract.
    let announced = unsafe { memory::read::<usize>(from) };
    let mut value = S::new();
    let size = S::size_behind(announced).min(S::STRUCT_SIZE);
    // SAFETY: this function's contract: `from` is readable for this size, and `value` has at least this size.
    unsafe { memory::copy(from, (&raw mut value).cast(), size) };
    Some(value)
}

/// Copies a layout. Returns `None` if the pointer is null or the type of the layout is unknown.
///
/// # Safety
///
/// `from` must be null or point to a valid layout.
pub(in crate::core) unsafe fn layout_at(from: *const PJRT_Buffer_MemoryLayout) -> Option<BufferLayout> {
    // SAFETY: this function's contract.
    let layout = unsafe { struct_at::<PJRT_Buffer_MemoryLayout>(from.cast()) }?;
    // SAFETY: this function's contract.
    unsafe { layout_of(&layout) }
}

/// Copies the arrays of a layout. Returns `None` if the type of the layout is unknown.
///
/// # Safety
///
/// The layout must be valid.
pub(in crate::core) unsafe fn layout_of(layout: &PJRT_Buffer_MemoryLayout) -> Option<BufferLayout> {
    match layout.type_ {
        PJRT_Buffer_MemoryLayout_Type::PJRT_Buffer_MemoryLayout_Type_Tiled => {
            // SAFETY: the type selects the member of the union.
            let tiled: PJRT_Buffer_MemoryLayout_Tiled = unsafe { layout.__bindgen_anon_1.tiled };
            // SAFETY: this function's contract: the array has this length.
            let minor_to_major = unsafe { memory::numbers(tiled.minor_to_major, tiled.minor_to_major_size) };
            // SAFETY: this function's contract: the array has this length.
            let sizes = unsafe { memory::pointers(tiled.tile_dim_sizes.cast(), tiled.num_tiles) };
            let mut next = tiled.tile_dims;
            let mut tiles = Vec::new();
            for size in sizes {
                // SAFETY: this function's contract: the extents of all tiles are in one array.
                tiles.push(unsafe { memory::numbers(next, size) });
                next = next.wrapping_add(size);
            }
            Some(BufferLayout::Tiled { minor_to_major, tiles })
        }
        PJRT_Buffer_MemoryLayout_Type::PJRT_Buffer_MemoryLayout_Type_Strides => {
            // SAFETY: the type selects the member of the union.
            let strides: PJRT_Buffer_MemoryLayout_Strides = unsafe { layout.__bindgen_anon_1.strides };
            // SAFETY: this function's contract: the array has this length.
            Some(BufferLayout::Strides(unsafe { memory::numbers(strides.byte_strides, strides.num_byte_strides) }))
        }
        _ => None,
    }
}

/// Copies named values. Skips values of unknown types.
///
/// # Safety
///
/// `from` must be null or point to an array of `count` valid values.
pub(in crate::core) unsafe fn named_values(from: *const PJRT_NamedValue, count: usize) -> Vec<NamedValue> {
    // SAFETY: this function's contract.
    unsafe { raw_named_values(from, count) }.into_iter().filter_map(|(_, value)| value).collect()
}

/// Copies the structs of named values, each with its value. The value is `None` if its type is unknown.
///
/// # Safety
///
/// As for [`named_values`].
pub(in crate::core) unsafe fn raw_named_values(
    from: *const PJRT_NamedValue,
    count: usize,
) -> Vec<(Vec<u64>, Option<NamedValue>)> {
    let mut values = Vec::new();
    let mut next = from.cast::<u8>();
    for _ in 0..if from.is_null() { 0 } else { count } {
        // SAFETY: this function's contract.
        let Some(raw) = (unsafe { struct_at::<PJRT_NamedValue>(next) }) else { break };
        // SAFETY: this function's contract: each element begins with its size.
        let announced = unsafe { memory::read::<usize>(next) }.max(size_of::<usize>());
        // SAFETY: this function's contract: each element is readable for its size.
        let words = unsafe { memory::pointers(next, announced / size_of::<usize>()) };
        next = next.wrapping_add(announced);
        // SAFETY: this function's contract: the name is readable for its length.
        let name = unsafe { memory::text(raw.name.cast(), raw.name_size) };
        // SAFETY: this function's contract.
        let value = unsafe { value(&raw) }.map(|value| NamedValue { name, value });
        values.push((words.into_iter().map(|word| word as u64).collect(), value));
    }
    values
}

/// # Safety
///
/// The value must be valid.
unsafe fn value(raw: &PJRT_NamedValue) -> Option<Value> {
    Some(match raw.type_ {
        PJRT_NamedValue_Type::PJRT_NamedValue_kString => {
            // SAFETY: the type selects the member of the union.
            let text = unsafe { raw.__bindgen_anon_1.string_value };
            // SAFETY: this function's contract: the string is readable for its length.
            Value::String(unsafe { memory::text(text.cast(), raw.value_size) })
        }
        // SAFETY: the type selects the member of the union.
        PJRT_NamedValue_Type::PJRT_NamedValue_kInt64 => Value::Int64(unsafe { raw.__bindgen_anon_1.int64_value }),
        PJRT_NamedValue_Type::PJRT_NamedValue_kInt64List => {
            // SAFETY: the type selects the member of the union.
            let list = unsafe { raw.__bindgen_anon_1.int64_array_value };
            // SAFETY: this function's contract: the array has this length.
            Value::Int64List(unsafe { memory::numbers(list, raw.value_size) })
        }
        // SAFETY: the type selects the member of the union.
        PJRT_NamedValue_Type::PJRT_NamedValue_kFloat => Value::Float(unsafe { raw.__bindgen_anon_1.float_value }),
        PJRT_NamedValue_Type::PJRT_NamedValue_kBool => {
            // SAFETY: the type selects the member of the union.
            Value::Bool(unsafe { raw.__bindgen_anon_1.bool_value }.get())
        }
        _ => return None,
    })
}

/// Copies the elements of an array to contiguous memory. Returns `None` if the element type is unknown, the dimensions
/// are invalid, or `from` is null although the array has elements.
///
/// # Safety
///
/// The elements must be readable at the strides. If `strides` is empty, the elements must be readable without gaps.
pub(in crate::core) unsafe fn elements(
    from: *const u8,
    element_type: u32,
    dimensions: &[i64],
    strides: &[i64],
) -> Option<Vec<u8>> {
    let shape = Shape::new(ElementType::from_raw(element_type)?, dimensions);
    let (unit, size) = (shape.element_type.host_size(), shape.host_size()?);
    let has_gaps = strides.len() == dimensions.len() && strides != dense(unit, dimensions);
    if from.is_null() || size == 0 {
        return (size == 0).then(Vec::new);
    }
    if !has_gaps {
        // SAFETY: this function's contract.
        return Some(unsafe { memory::bytes(from, size) });
    }
    let mut out = Vec::with_capacity(size);
    let mut index = vec![0_i64; dimensions.len()];
    while out.len() < size {
        let offset: i64 = index.iter().zip(strides).map(|(at, stride)| at * stride).sum();
        let element = from.wrapping_offset(isize::try_from(offset).ok()?);
        // SAFETY: this function's contract: the element is readable.
        out.extend_from_slice(&unsafe { memory::bytes(element, unit) });
        for (at, extent) in index.iter_mut().zip(dimensions).rev() {
            *at += 1;
            if *at < *extent {
                break;
            }
            *at = 0;
        }
    }
    Some(out)
}

/// Returns the strides in bytes of a row-major array without gaps. `unit` is the size of an element in bytes.
fn dense(unit: usize, dimensions: &[i64]) -> Vec<i64> {
    let mut next = i64::try_from(unit).unwrap_or(i64::MAX);
    let mut strides: Vec<i64> = Vec::new();
    for extent in dimensions.iter().rev() {
        strides.push(next);
        next = next.saturating_mul(*extent);
    }
    strides.reverse();
    strides
}
