//! Checked reads of `PJRT_Buffer_MemoryLayout`, the layouts that frameworks pass.

use pjrt_sys::{PJRT_Buffer_MemoryLayout, PJRT_Buffer_MemoryLayout_Type};

use crate::abi::table::ffi_read::slice;
use crate::array_layout::ArrayLayout;
use crate::strided::Strided;
use crate::{Error, Layout, Result, Shape};

/// A layout in one of the two forms of `PJRT_Buffer_MemoryLayout`.
enum CLayout<'a> {
    /// The dimensions in minor-to-major order, and the extents of each tile.
    Order(&'a [i64], Vec<Vec<i64>>),
    Strides(&'a [i64]),
}

/// Reads a layout. Returns `None` if `layout` is null, and an error if the layout has tiles but `may_have_tiles` is
/// false.
///
/// # Safety
///
/// `layout` is null or points to a `PJRT_Buffer_MemoryLayout` of the size that the C header declares. V3 (arrays and
/// text) holds for this struct and its arrays. The function ignores `struct_size`, because frameworks do not initialize
/// this field in layouts.
unsafe fn read_layout<'a>(
    layout: *const PJRT_Buffer_MemoryLayout,
    may_have_tiles: bool,
) -> Result<Option<CLayout<'a>>> {
    if layout.is_null() {
        return Ok(None);
    }
    // SAFETY: V3 (arrays and text), which the caller promises. Every bit pattern is a valid `PJRT_Buffer_MemoryLayout`.
    let layout = unsafe { layout.read() };
    Ok(Some(match layout.type_ {
        PJRT_Buffer_MemoryLayout_Type::PJRT_Buffer_MemoryLayout_Type_Tiled => {
            // SAFETY: the type selects the field of the union.
            let tiled = unsafe { layout.__bindgen_anon_1.tiled };
            if tiled.num_tiles != 0 && !may_have_tiles {
                return Err(Error::unimplemented("tiled layouts of host memory are not supported").unnamed());
            }
            // SAFETY: V3 (arrays and text).
            let order = unsafe { slice(tiled.minor_to_major, tiled.minor_to_major_size, "minor_to_major") }?;
            // SAFETY: V3 (arrays and text).
            let ranks = unsafe { slice(tiled.tile_dim_sizes, tiled.num_tiles, "tile_dim_sizes") }?;
            let count = ranks.iter().try_fold(0usize, |sum, rank| sum.checked_add(*rank));
            let count = count.ok_or_else(|| Error::argument("the sum of tile_dim_sizes is too large"))?;
            // SAFETY: V3 (arrays and text).
            let mut extents = unsafe { slice(tiled.tile_dims, count, "tile_dims") }?.iter().copied();
            CLayout::Order(order, ranks.iter().map(|rank| extents.by_ref().take(*rank).collect()).collect())
        }
        PJRT_Buffer_MemoryLayout_Type::PJRT_Buffer_MemoryLayout_Type_Strides => {
            // SAFETY: the type selects the field of the union.
            let strides = unsafe { layout.__bindgen_anon_1.strides };
            // SAFETY: V3 (arrays and text).
            CLayout::Strides(unsafe { slice(strides.byte_strides, strides.num_byte_strides, "byte_strides") }?)
        }
        other => {
            return Err(Error::argument(format!(
                "unknown PJRT_Buffer_MemoryLayout_Type {}; pass Tiled or Strides",
                other.0
            )));
        }
    }))
}

/// Reads a layout of host memory. Returns its strides, with the dimensions in the order in which the device stores the
/// array. Returns `None` if `layout` is null.
///
/// # Safety
///
/// `layout` is null or points to a `PJRT_Buffer_MemoryLayout` of the size that the C header declares. V3 (arrays and
/// text) holds for this struct and its arrays.
pub(crate) unsafe fn host_layout(
    layout: *const PJRT_Buffer_MemoryLayout,
    array: &ArrayLayout,
) -> Result<Option<Strided>> {
    // SAFETY: V3 (arrays and text), which the caller promises.
    Ok(match unsafe { read_layout(layout, false) }? {
        None => None,
        Some(CLayout::Order(order, _)) => Some(array.ordered(order)?),
        Some(CLayout::Strides(strides)) => Some(array.strided(strides)?),
    })
}

/// An owned layout of host memory, which may outlive the framework's call.
pub(crate) enum HostLayout {
    RowMajor,
    Order(Vec<i64>),
    Strides(Vec<i64>),
}

impl HostLayout {
    /// # Safety
    ///
    /// `layout` is null or points to a `PJRT_Buffer_MemoryLayout` of the size that the C header declares. V3 (arrays
    /// and text) holds for this struct and its arrays.
    pub(crate) unsafe fn read(layout: *const PJRT_Buffer_MemoryLayout) -> Result<Self> {
        // SAFETY: V3 (arrays and text), which the caller promises.
        Ok(match unsafe { read_layout(layout, false) }? {
            None => Self::RowMajor,
            Some(CLayout::Order(order, _)) => Self::Order(order.to_vec()),
            Some(CLayout::Strides(strides)) => Self::Strides(strides.to_vec()),
        })
    }

    /// Returns the strides of host memory, with the dimensions in the order in which the device stores the array.
    /// Returns `None` for [`HostLayout::RowMajor`], which requires that `array` is row-major, too.
    pub(crate) fn of(&self, array: &ArrayLayout) -> Result<Option<Strided>> {
        Ok(match self {
            Self::RowMajor => None,
            Self::Order(order) => Some(array.ordered(order)?),
            Self::Strides(strides) => Some(array.strided(strides)?),
        })
    }
}

/// Reads the layout that a framework requests for a buffer on the device. Returns `None` if `layout` is null.
///
/// # Safety
///
/// `layout` is null or points to a `PJRT_Buffer_MemoryLayout` of the size that the C header declares. V3 (arrays and
/// text) holds for this struct and its arrays.
pub(crate) unsafe fn device_layout(layout: *const PJRT_Buffer_MemoryLayout, shape: &Shape) -> Result<Option<Layout>> {
    // SAFETY: V3 (arrays and text), which the caller promises.
    Ok(match unsafe { read_layout(layout, true) }? {
        None => None,
        Some(CLayout::Order(order, tiles)) => Some(Layout::new(order.to_vec()).with_tiles(tiles)),
        Some(CLayout::Strides(strides)) if Strided::new(shape, strides)?.is_dense() => {
            Some(Layout::row_major(shape.dimensions.len()))
        }
        Some(CLayout::Strides(_)) => {
            let message = "device layouts given as strides must be row-major; give minor_to_major instead";
            return Err(Error::unimplemented(message).unnamed());
        }
    })
}
