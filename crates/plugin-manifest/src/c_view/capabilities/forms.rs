//! Conversions between the types of the capabilities and the fields of [`dp_capabilities`](super::dp_capabilities).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_char;
use std::num::NonZeroU32;

use super::decode::{decode, decoded, flag, named, text, unknown};
use super::owned::{Owned, feature, parts};
use super::structs::{DP_LAYOUT_DESCENDING, DP_LAYOUT_TILED, dp_dtype_remap, dp_feature, dp_string};
use crate::c_view::foreign;
use crate::capabilities::{
    Autocast, DlpackDevice, HostCallbacks, LayoutPolicy, MemoryKinds, ProgramFormat, ProgramFormats,
};
use crate::names::Code;
use crate::{ElementType, Error, Result, StablehloVersions, Value};

/// The Rust type of a capability. `FIELDS` is the number of fields that represent the capability in the C struct.
pub(super) trait CForm<const FIELDS: usize>: Sized {
    /// The values of the C fields, as a tuple.
    type Raw;

    /// Reads the C fields. `names` contains the names of these fields, for error messages.
    ///
    /// # Safety
    ///
    /// All data that the fields point to satisfies V8 of `docs/safety.md`.
    unsafe fn read(raw: Self::Raw, names: [&str; FIELDS]) -> Result<Self>;

    /// Returns the C fields. Pointers in the fields refer to memory of `owned`.
    fn write(&self, owned: &mut Owned) -> Result<Self::Raw>;
}

/// A flag, which is 0 or 1 in C.
impl CForm<1> for bool {
    type Raw = (u32,);

    unsafe fn read((number,): (u32,), [name]: [&str; 1]) -> Result<Self> {
        flag(name, number)
    }

    fn write(&self, _: &mut Owned) -> Result<(u32,)> {
        Ok((u32::from(*self),))
    }
}

/// A count, for which 0 in C means `None`.
impl CForm<1> for Option<NonZeroU32> {
    type Raw = (u32,);

    unsafe fn read((number,): (u32,), _: [&str; 1]) -> Result<Self> {
        Ok(NonZeroU32::new(number))
    }

    fn write(&self, _: &mut Owned) -> Result<(u32,)> {
        Ok((self.map_or(0, NonZeroU32::get),))
    }
}

/// An enumeration whose default has the code 0.
impl<T: Code + Default> CForm<1> for T {
    type Raw = (u32,);

    unsafe fn read((number,): (u32,), [name]: [&str; 1]) -> Result<Self> {
        decode(name, number)
    }

    fn write(&self, _: &mut Owned) -> Result<(u32,)> {
        Ok((self.code(),))
    }
}

/// An enumeration without a default variant. The code 0 in C means `None`.
impl CForm<1> for Option<DlpackDevice> {
    type Raw = (u32,);

    unsafe fn read((number,): (u32,), [name]: [&str; 1]) -> Result<Self> {
        if number == 0 { Ok(None) } else { decode(name, number).map(Some) }
    }

    fn write(&self, _: &mut Owned) -> Result<(u32,)> {
        Ok((self.map_or(0, DlpackDevice::code),))
    }
}

impl Code for ElementType {
    fn code(self) -> u32 {
        self.as_raw()
    }

    fn from_code(code: u32) -> Option<Self> {
        Self::from_raw(code)
    }
}

/// Pointer to the first element, and number of elements.
type List = (*const u32, usize);

impl<T: Code + Ord> CForm<2> for BTreeSet<T> {
    type Raw = List;

    unsafe fn read(list: List, [name, _]: [&str; 2]) -> Result<Self> {
        // SAFETY: V8 (descriptors): the list is readable for its length.
        unsafe { decoded::<T>(list, name) }.map(Self::from_iter)
    }

    fn write(&self, owned: &mut Owned) -> Result<List> {
        Ok(owned.numbers(self.iter().copied().map(T::code)))
    }
}

/// An empty list in C means `None`.
impl<T: Code + Ord> CForm<2> for Option<BTreeSet<T>> {
    type Raw = List;

    unsafe fn read(list: List, names: [&str; 2]) -> Result<Self> {
        // SAFETY: V8 (descriptors): the list is readable for its length.
        let set: BTreeSet<T> = unsafe { CForm::read(list, names) }?;
        Ok((!set.is_empty()).then_some(set))
    }

    fn write(&self, owned: &mut Owned) -> Result<List> {
        Ok(owned.numbers(self.iter().flatten().copied().map(T::code)))
    }
}

/// An empty list in C means the default.
impl CForm<2> for ProgramFormats {
    type Raw = List;

    unsafe fn read(list: List, [name, _]: [&str; 2]) -> Result<Self> {
        // SAFETY: V8 (descriptors): the list is readable for its length.
        let formats = unsafe { decoded::<ProgramFormat>(list, name) }?;
        Ok(Self::try_from(formats).unwrap_or_default())
    }

    fn write(&self, owned: &mut Owned) -> Result<List> {
        Ok(owned.numbers(self.as_slice().iter().copied().map(ProgramFormat::code)))
    }
}

/// Pointer to the types, number of types, default type, and autocast kind. The kind 0 means `None`.
impl CForm<4> for Option<Autocast> {
    type Raw = (*const u32, usize, u32, u32);

    unsafe fn read((data, size, default, kind): Self::Raw, names: [&str; 4]) -> Result<Self> {
        if kind == 0 {
            return Ok(None);
        }
        let [dtypes, _, default_dtype, kind_name] = names;
        // SAFETY: V8 (descriptors): the list is readable for its length.
        let dtypes = unsafe { decoded((data, size), dtypes) }?;
        let kind = decode(kind_name, kind)?;
        Ok(Some(Autocast { kind, dtypes, default_dtype: decode(default_dtype, default)? }))
    }

    fn write(&self, owned: &mut Owned) -> Result<Self::Raw> {
        let Some(autocast) = self else { return Ok((std::ptr::null(), 0, 0, 0)) };
        let (data, size) = owned.numbers(autocast.dtypes.iter().map(|ty| ty.as_raw()));
        Ok((data, size, autocast.default_dtype.as_raw(), autocast.kind.code()))
    }
}

impl CForm<2> for BTreeMap<ElementType, ElementType> {
    type Raw = (*const dp_dtype_remap, usize);

    unsafe fn read((data, size): Self::Raw, [name, _]: [&str; 2]) -> Result<Self> {
        // SAFETY: V8 (descriptors): the list is readable for its length.
        let remaps = unsafe { foreign::slice(data, size, name) }?;
        let each = remaps.iter().enumerate().map(|(index, remap)| {
            let from = decode(&format!("{name}[{index}].from"), remap.from)?;
            Ok((from, decode(&format!("{name}[{index}].to"), remap.to)?))
        });
        each.collect()
    }

    fn write(&self, owned: &mut Owned) -> Result<Self::Raw> {
        let remap = |(from, to): (&ElementType, &ElementType)| dp_dtype_remap { from: from.as_raw(), to: to.as_raw() };
        owned.remaps = self.iter().map(remap).collect();
        Ok(parts(&owned.remaps))
    }
}

/// Extents of the tile, limit of the padding factor, and layout policy.
impl CForm<3> for LayoutPolicy {
    type Raw = ([u32; 2], f32, u32);

    unsafe fn read((tile, max_padding, policy): Self::Raw, names: [&str; 3]) -> Result<Self> {
        let [tile_name, _, name] = names;
        match policy {
            DP_LAYOUT_DESCENDING => Ok(Self::Descending),
            DP_LAYOUT_TILED => {
                let [rows, columns] = tile.map(NonZeroU32::new);
                let (rows, columns) = rows.zip(columns).ok_or_else(|| {
                    Error::invalid_argument(format!("{tile_name} = {tile:?} is not a tile; write positive numbers"))
                })?;
                Ok(Self::Tiled { tile: [rows, columns], max_padding })
            }
            other => Err(unknown(name, other)),
        }
    }

    fn write(&self, _: &mut Owned) -> Result<Self::Raw> {
        Ok(match self {
            Self::Descending => ([0; 2], 0.0, DP_LAYOUT_DESCENDING),
            Self::Tiled { tile, max_padding } => (tile.map(NonZeroU32::get), *max_padding, DP_LAYOUT_TILED),
        })
    }
}

/// Flags for partitioned programs, for empty arrays, and for the support of callbacks. If the last flag is 0, the value
/// is `None`.
impl CForm<3> for Option<HostCallbacks> {
    type Raw = (u32, u32, u32);

    unsafe fn read((partitioned, empty_arrays, any): Self::Raw, names: [&str; 3]) -> Result<Self> {
        if !flag(names[2], any)? {
            return Ok(None);
        }
        let (partitioned, empty_arrays) = (flag(names[0], partitioned)?, flag(names[1], empty_arrays)?);
        Ok(Some(HostCallbacks { partitioned, empty_arrays }))
    }

    fn write(&self, _: &mut Owned) -> Result<Self::Raw> {
        Ok(self.map_or((0, 0, 0), |callbacks| (callbacks.partitioned.into(), callbacks.empty_arrays.into(), 1)))
    }
}

/// Oldest and newest version. If the newest version is 0.0.0, the value is `None`.
impl CForm<2> for Option<StablehloVersions> {
    type Raw = ([u32; 3], [u32; 3]);

    unsafe fn read((minimum, current): Self::Raw, _: [&str; 2]) -> Result<Self> {
        Ok((current != [0; 3]).then_some(StablehloVersions { minimum, current }))
    }

    fn write(&self, _: &mut Owned) -> Result<Self::Raw> {
        Ok(self.map_or(([0; 3], [0; 3]), |range| (range.minimum, range.current)))
    }
}

/// Pointer to the names of the memory kinds, number of names, pointer to the name of the default kind, length of this
/// name in bytes, and the flag for arrays in host memory.
impl CForm<5> for MemoryKinds {
    type Raw = (*const dp_string, usize, *const c_char, usize, u32);

    unsafe fn read((names, count, data, size, offload): Self::Raw, fields: [&str; 5]) -> Result<Self> {
        let [list, _, default_kind, _, host_offload] = fields;
        let mut kinds = Self::default();
        // SAFETY: V8 (descriptors): the list is readable for its length.
        for (index, &name) in unsafe { foreign::slice(names, count, list) }?.iter().enumerate() {
            // SAFETY: V8 (descriptors): the text is readable for its length.
            kinds.names.push(unsafe { text(name, &format!("{list}[{index}]")) }?.unwrap_or_default());
        }
        // SAFETY: V8 (descriptors): the text is readable for its length.
        kinds.default_kind = unsafe { text(dp_string { data, size }, default_kind) }?;
        kinds.host_offload = flag(host_offload, offload)?;
        Ok(kinds)
    }

    fn write(&self, owned: &mut Owned) -> Result<Self::Raw> {
        owned.strings = self.names.iter().map(|name| owned.text(name)).collect();
        let (names, count) = parts(&owned.strings);
        let dp_string { data, size } = owned.text(self.default_kind.as_deref().unwrap_or_default());
        Ok((names, count, data, size, self.host_offload.into()))
    }
}

impl CForm<2> for BTreeMap<String, Value> {
    type Raw = (*const dp_feature, usize);

    unsafe fn read((data, size): Self::Raw, [name, _]: [&str; 2]) -> Result<Self> {
        // SAFETY: V8 (descriptors): the list is readable for its length.
        let features = unsafe { foreign::slice(data, size, name) }?;
        // SAFETY: V8 (descriptors): all data that the elements point to is readable for its length.
        features.iter().map(|feature| unsafe { named(feature) }).collect()
    }

    fn write(&self, owned: &mut Owned) -> Result<Self::Raw> {
        for (name, value) in self {
            let feature = feature(name, value, owned)?;
            owned.features.push(feature);
        }
        Ok(parts(&owned.features))
    }
}
