//! Checks for invalid capabilities that the types cannot exclude.

use std::collections::BTreeSet;
use std::fmt::Display;

use super::{Autocast, Bf16Policy, Capabilities, Int64Policy, LayoutPolicy, MemoryKinds, ProgramFormat};
use crate::diagnostic::Found;
use crate::stablehlo_versions::dotted;
use crate::{ElementType, Faults, Value};

/// Largest dense gather factor. Frameworks multiply the factor by ten in signed 32-bit arithmetic, where a larger
/// factor would overflow.
const MAX_DENSE_GATHER_FACTOR: u32 = i32::MAX.unsigned_abs() / 10;
/// Largest dense scatter factor. Frameworks store the factor as a signed 32-bit integer.
const MAX_DENSE_SCATTER_FACTOR: u32 = i32::MAX.unsigned_abs();

impl Found {
    /// Adds the fault of a field with an invalid value.
    fn refuse(&mut self, field: &str, value: impl Display, remedy: &str) {
        self.add(field, format!("{value} {remedy}"));
    }
}

impl Capabilities {
    /// Checks each field, and whether the fields are consistent with each other.
    ///
    /// # Errors
    ///
    /// Returns an error if a field is invalid or contradicts another field. The error contains all faults. Each fault
    /// contains the field, its value and the remedy.
    pub fn validate(&self) -> Result<(), Faults> {
        let mut faults = Found::default();
        self.factors(&mut faults);
        self.dtypes(&mut faults);
        if let Some(autocast) = &self.autocast {
            self.check_autocast(autocast, &mut faults);
        }
        if let LayoutPolicy::Tiled { max_padding, .. } = self.layout
            && !(max_padding.is_finite() && max_padding >= 1.0)
        {
            let remedy = "is not a valid padding factor; write a number of at least 1";
            faults.refuse("layout.tiled.max_padding", max_padding, remedy);
        }
        if self.cache_key_strip_device_assignment && !self.persistent_cache {
            faults.refuse(
                "cache_key_strip_device_assignment",
                true,
                "has no effect without persistent_cache; set persistent_cache to true, or remove this field",
            );
        }
        self.programs(&mut faults);
        self.sharing(&mut faults);
        check_memories(&self.memory_kinds, &mut faults);
        if self.dot_algorithms.as_ref().is_some_and(BTreeSet::is_empty) {
            faults.refuse(
                "dot_algorithms",
                "[]",
                "excludes every dot product; list the supported algorithms, or remove the field to allow all of them",
            );
        }
        self.check_features(&mut faults);
        faults.finish()
    }

    fn factors(&self, faults: &mut Found) {
        let factors = [
            ("dense_gather_factor", self.dense_gather_factor, MAX_DENSE_GATHER_FACTOR),
            ("dense_scatter_factor", self.dense_scatter_factor, MAX_DENSE_SCATTER_FACTOR),
        ];
        for (field, factor, max) in factors {
            if let Some(factor) = factor.filter(|factor| factor.get() > max) {
                faults.refuse(field, factor, &format!("overflows the arithmetic of frameworks; write at most {max}"));
            }
        }
    }

    fn dtypes(&self, faults: &mut Found) {
        let supported = self.supported_dtypes.as_ref();
        if supported.is_some_and(BTreeSet::is_empty) {
            faults.refuse(
                "supported_dtypes",
                "[]",
                "excludes every program; list the supported types, or remove the field if they are unknown",
            );
        }
        let supports = |ty: ElementType| supported.is_none_or(|supported| supported.contains(&ty));
        for (&from, &to) in &self.remapped_dtypes {
            let field = format!("remapped_dtypes.{from}");
            if from == to {
                faults.refuse(&field, to, "replaces the type with itself; remove the entry");
            } else if class(from) != class(to) {
                faults.refuse(
                    &field,
                    to,
                    &format!(
                        "cannot replace {from}, which is a different kind of type; choose another {}",
                        class(from)
                    ),
                );
            } else if self.remapped_dtypes.contains_key(&to) {
                faults.refuse(&field, to, "is replaced in turn; write the type that the device stores");
            } else if !supports(to) {
                faults.refuse(&field, to, "is missing from supported_dtypes; add it there, or choose another type");
            }
            if supported.is_some_and(|supported| supported.contains(&from)) {
                faults.refuse(
                    &field,
                    to,
                    &format!("replaces {from}, but supported_dtypes lists {from}; remove one of the two entries"),
                );
            }
            if matches!(from, ElementType::S64 | ElementType::U64) && self.int64 != Int64Policy::Remapped {
                let remedy = "contradicts int64, by which the device stores 64-bit integers; set int64 to remapped";
                faults.refuse(&field, to, remedy);
            }
            if self.bf16 != Bf16Policy::Native && matches!(from, ElementType::F32 | ElementType::F64) {
                faults.refuse(&field, to, &format!("contradicts bf16 = {}; remove one of the two", self.bf16.name()));
            }
        }
        if self.bf16 != Bf16Policy::Native && !supports(ElementType::Bf16) {
            faults.refuse("bf16", self.bf16.name(), "stores bf16, which supported_dtypes does not list; add it there");
        }
        if self.int64 == Int64Policy::Remapped && !(supports(ElementType::S32) && supports(ElementType::U32)) {
            faults.refuse(
                "int64",
                self.int64.name(),
                "stores s32 and u32, which supported_dtypes does not list; add them there",
            );
        }
    }

    fn check_autocast(&self, autocast: &Autocast, faults: &mut Found) {
        let Autocast { dtypes, default_dtype, .. } = autocast;
        if dtypes.is_empty() {
            faults.refuse("autocast.dtypes", "[]", "excludes every type; list float types, or remove autocast");
        } else if !dtypes.contains(default_dtype) {
            faults.refuse("autocast.default_dtype", default_dtype, "is missing from autocast.dtypes; add it there");
        }
        for (index, &ty) in dtypes.iter().enumerate() {
            let field = format!("autocast.dtypes[{index}]");
            if class(ty) != FLOAT {
                faults.refuse(&field, ty, "is not a float type; write bf16, f16 or another float type");
            } else if dtypes[..index].contains(&ty) {
                faults.refuse(&field, ty, "is listed twice; remove one of the two");
            } else if self.supported_dtypes.as_ref().is_some_and(|supported| !supported.contains(&ty)) {
                faults.refuse(&field, ty, "is missing from supported_dtypes; add it there");
            }
        }
    }

    fn programs(&self, faults: &mut Found) {
        let Some(range) = self.stablehlo else { return };
        if range.minimum > range.current {
            let remedy = format!("is newer than stablehlo.current = {}; swap the two", dotted(range.current));
            faults.refuse("stablehlo.minimum", dotted(range.minimum), &remedy);
        }
        if !self.program_formats.as_slice().contains(&ProgramFormat::Mlir) {
            let formats = self.program_formats.as_slice().iter().map(|format| format.name());
            faults.refuse(
                "program_formats",
                list(formats),
                "lacks mlir, although the field stablehlo is set; add mlir, or remove stablehlo",
            );
        }
    }

    fn sharing(&self, faults: &mut Found) {
        if let Some(device) = self.dlpack_host_device.filter(|device| !device.is_host()) {
            faults.refuse(
                "dlpack_host_device",
                device.name(),
                "is not a host device; write cpu, cuda_host, rocm_host or tpu_host",
            );
        }
        if !self.zero_copy_export.is_empty() && self.dlpack_device.is_none() && self.dlpack_host_device.is_none() {
            let names = self.zero_copy_export.iter().map(|device| device.name());
            let remedy = "has no effect without a DLPack device type; set dlpack_device, or remove the field";
            faults.refuse("zero_copy_export", list(names), remedy);
        }
    }

    fn check_features(&self, faults: &mut Found) {
        for (name, value) in &self.features {
            let field = format!("features.{name}");
            let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
            let rest = name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.'));
            if !(first && rest) {
                let remedy = "cannot be stored under this name; begin the name with a lower-case letter, and use only lower-case letters, digits, _ and .";
                faults.refuse(&field, value, remedy);
            } else if Capabilities::FIELDS.contains(&name.as_str()) {
                faults.refuse(&field, value, "belongs in the field of the same name; move it there");
            }
            if let Value::Float(number) = value
                && !number.is_finite()
            {
                faults.refuse(&field, number, "cannot be written in JSON; write a finite number");
            }
        }
    }
}

fn check_memories(memories: &MemoryKinds, faults: &mut Found) {
    let MemoryKinds { names, default_kind, host_offload } = memories;
    for (index, name) in names.iter().enumerate() {
        let field = format!("memory_kinds.names[{index}]");
        if name.is_empty() {
            faults.refuse(&field, "\"\"", "is not the name of a memory kind; write a name such as device");
        } else if names[..index].contains(name) {
            faults.refuse(&field, name, "is listed twice; remove one of the two");
        }
    }
    if let Some(name) = default_kind.as_ref().filter(|name| !names.contains(name)) {
        faults.refuse("memory_kinds.default", name, "is missing from memory_kinds.names; add it there");
    }
    if *host_offload && !names.iter().any(|name| name.contains("host")) {
        let remedy = "needs a host memory; add pinned_host or unpinned_host to memory_kinds.names";
        faults.refuse("memory_kinds.host_offload", true, remedy);
    }
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    format!("[{}]", names.collect::<Vec<_>>().join(", "))
}

/// Numeric class of an element type. A type can only be replaced by a type of the same class.
fn class(ty: ElementType) -> &'static str {
    match ty.name().as_bytes() {
        [b'f', ..] | [b'b', b'f', ..] => FLOAT,
        [b's', ..] => "signed integer",
        [b'u', ..] => "unsigned integer",
        [b'c', ..] => "complex type",
        _ => "type of its kind",
    }
}

const FLOAT: &str = "float";
