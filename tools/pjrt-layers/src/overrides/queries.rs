//! The values that queries return in place of the plugin's values, and their parsers.

use std::str::FromStr;

use pjrt_sys::slot;

use crate::core::{Call, Stack};
use crate::function::{Field, Kind};
use crate::layer::Outcome;

/// Error for a string that is not a valid setting. The message names the invalid part and the allowed values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidOverride(String);

/// The devices of a client that the framework sees. A position is an index into the client's addressable devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Devices {
    /// All devices.
    #[default]
    All,
    /// The first devices. The field is the number of these devices.
    First(usize),
    /// The devices at these positions, which start at 0.
    At(Vec<usize>),
}

impl Devices {
    pub(super) fn contains(&self, position: usize) -> bool {
        match self {
            Self::All => true,
            Self::First(count) => position < *count,
            Self::At(positions) => positions.contains(&position),
        }
    }

    /// Returns the first selected position that does not exist on a client with `count` devices.
    pub(super) fn first_missing(&self, count: usize) -> Option<usize> {
        match self {
            Self::All => None,
            Self::First(wanted) => (*wanted > count).then_some(count),
            Self::At(positions) => positions.iter().copied().find(|position| *position >= count),
        }
    }
}

impl FromStr for Devices {
    type Err = InvalidOverride;

    /// Parses `first 2`, or positions such as `0,3`.
    fn from_str(text: &str) -> Result<Self, InvalidOverride> {
        let fault = || {
            InvalidOverride(format!(
                "`{text}` does not select devices; write the number of devices as `first 2`, or the positions of devices \
                 as `0,3`"
            ))
        };
        if let Some(count) = text.trim().strip_prefix("first") {
            let count = count.trim().parse().ok().filter(|count| *count > 0);
            return count.map(Self::First).ok_or_else(fault);
        }
        let positions = text.split(',').map(|position| position.trim().parse().map_err(|_| fault()));
        Ok(Self::At(positions.collect::<Result<_, _>>()?))
    }
}

/// The memory statistics that devices report. Each element contains a field of `PJRT_Device_MemoryStats_Args`, and the
/// value of this field for the framework.
#[derive(Clone, Debug, Default)]
pub struct Memory(Vec<(&'static Field, u64)>);

impl Memory {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes the values to the result of a call. If the call failed, clears the error and sets all other output fields
    /// to 0.
    pub(super) fn answer(&self, call: &mut Call, outcome: Outcome) {
        let function = call.function();
        if outcome.failed() {
            for field in function.fields {
                call.set(field, 0);
            }
            call.clear_error();
        }
        for (field, value) in &self.0 {
            call.set(field, *value);
            if let Some(is_set) = function.field(&format!("{}_is_set", field.name)) {
                call.set(is_set, 1);
            }
        }
    }

    /// Returns the fields of the memory statistics that a setting can replace.
    fn fields() -> impl Iterator<Item = &'static Field> {
        let fields = Stack::function::<slot::PJRT_Device_MemoryStats>().fields.iter();
        fields.filter(|field| field.output && matches!(field.kind, Kind::Integer))
    }
}

impl FromStr for Memory {
    type Err = InvalidOverride;

    /// Parses values such as `bytes_limit=2GiB, bytes_in_use=512MiB`.
    fn from_str(text: &str) -> Result<Self, InvalidOverride> {
        let mut values = Vec::new();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let field = Self::fields().find(|field| field.name == name.trim()).ok_or_else(|| {
                let names: Vec<&str> = Self::fields().map(|field| field.name).collect();
                InvalidOverride(format!("`{word}` is not a value; write NAME=NUMBER with one of {}", names.join(", ")))
            })?;
            let value = bytes(value.trim()).ok_or_else(|| {
                InvalidOverride(format!(
                    "`{word}` has no valid number; write a whole number, with or without `KiB`, `MiB` or `GiB`"
                ))
            })?;
            values.push((field, value));
        }
        Ok(Self(values))
    }
}

/// Parses a size with an optional unit, and returns the size in bytes. Without a unit, the size is in bytes.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return None,
    };
    let number = digits.parse::<u64>().ok()?.checked_mul(1 << shift)?;
    i64::try_from(number).is_ok().then_some(number)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn devices_are_a_number_or_positions() {
        assert_eq!("first 2".parse(), Ok(Devices::First(2)));
        assert_eq!("0, 3".parse(), Ok(Devices::At(vec![0, 3])));
        let mut messages = String::new();
        for wrong in ["first 0", "first", "2-3", "", "-1"] {
            let error = wrong.parse::<Devices>().unwrap_err().to_string();
            messages += &format!("`{wrong}`: {error}\n");
        }
        expect![[r#"
            `first 0`: `first 0` does not select devices; write the number of devices as `first 2`, or the positions of devices as `0,3`
            `first`: `first` does not select devices; write the number of devices as `first 2`, or the positions of devices as `0,3`
            `2-3`: `2-3` does not select devices; write the number of devices as `first 2`, or the positions of devices as `0,3`
            ``: `` does not select devices; write the number of devices as `first 2`, or the positions of devices as `0,3`
            `-1`: `-1` does not select devices; write the number of devices as `first 2`, or the positions of devices as `0,3`
        "#]].assert_eq(&messages);
        assert_eq!(Devices::At(vec![0, 3]).first_missing(2), Some(3));
        assert_eq!(Devices::First(2).first_missing(2), None);
    }

    #[test]
    fn memory_has_names_and_units() {
        let memory: Memory = "bytes_limit=2GiB, num_allocs=7".parse().unwrap();
        let values: Vec<_> = memory.0.iter().map(|(field, value)| (field.name, *value)).collect();
        assert_eq!(values, [("bytes_limit", 2 << 30), ("num_allocs", 7)]);
        let mut messages = String::new();
        for wrong in ["bytes=1", "bytes_limit", "bytes_limit=2GB", "bytes_limit=-1", "bytes_limit=9223372036854775808"]
        {
            messages += &format!("{wrong}: {}\n", wrong.parse::<Memory>().unwrap_err());
        }
        expect![[r#"
            bytes=1: `bytes=1` is not a value; write NAME=NUMBER with one of bytes_in_use, peak_bytes_in_use, num_allocs, largest_alloc_size, bytes_limit, bytes_reserved, peak_bytes_reserved, bytes_reservable_limit, largest_free_block_bytes, pool_bytes, peak_pool_bytes, peak_allocated_bytes
            bytes_limit: `bytes_limit` has no valid number; write a whole number, with or without `KiB`, `MiB` or `GiB`
            bytes_limit=2GB: `bytes_limit=2GB` has no valid number; write a whole number, with or without `KiB`, `MiB` or `GiB`
            bytes_limit=-1: `bytes_limit=-1` has no valid number; write a whole number, with or without `KiB`, `MiB` or `GiB`
            bytes_limit=9223372036854775808: `bytes_limit=9223372036854775808` has no valid number; write a whole number, with or without `KiB`, `MiB` or `GiB`
        "#]].assert_eq(&messages);
    }
}
