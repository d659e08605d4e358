//! Checks null pointers, array lengths, sizes of structs, and values of enumerations in the arguments of a call.

use pjrt_sys::{PJRT_Buffer_Type, PJRT_Error_Code, PJRT_HostBufferSemantics, slot};

use super::rules::{self, Rule};
use crate::core::Call;
use crate::function::{Field, Function, Kind, Layout};

/// Pointer arguments that must not be null. Each element contains the names of the function and of the argument.
const REQUIRED: &[(&str, &str)] = &[
    ("PJRT_Event_OnReady", "callback"),
    ("PJRT_Client_Compile", "program"),
    ("PJRT_Compile", "program"),
    ("PJRT_LoadedExecutable_Execute", "options"),
    ("PJRT_Buffer_CopyToDevice", "dst_device"),
    ("PJRT_Buffer_CopyToMemory", "dst_memory"),
];

/// A pointer that may be null although its length is not 0. A call with a null pointer queries the size of the data.
const QUESTION: (&str, &str) = ("PJRT_Buffer_ToHostBuffer", "dst");

/// Arguments whose type is an enumeration. Each element contains the names of the function, the argument and the
/// enumeration, and the largest value of the enumeration.
const ENUMERATIONS: &[(&str, &str, &str, u32)] = &[
    ("PJRT_Client_BufferFromHostBuffer", "type_", "PJRT_Buffer_Type", LAST_TYPE),
    ("PJRT_Client_BufferFromHostBuffer", "host_buffer_semantics", "PJRT_HostBufferSemantics", LAST_SEMANTICS),
    ("PJRT_Client_CreateViewOfDeviceBuffer", "element_type", "PJRT_Buffer_Type", LAST_TYPE),
    ("PJRT_Client_CreateUninitializedBuffer", "shape_element_type", "PJRT_Buffer_Type", LAST_TYPE),
    ("PJRT_Client_CreateErrorBuffer", "shape_element_type", "PJRT_Buffer_Type", LAST_TYPE),
    ("PJRT_Client_CreateErrorBuffer", "error_code", "PJRT_Error_Code", LAST_CODE),
];

const LAST_TYPE: u32 = PJRT_Buffer_Type::PJRT_Buffer_Type_F6E3M2FN.0;
const LAST_SEMANTICS: u32 = PJRT_HostBufferSemantics::PJRT_HostBufferSemantics_kMutableZeroCopy.0;
const LAST_CODE: u32 = PJRT_Error_Code::PJRT_Error_Code_UNAUTHENTICATED.0;

/// A struct whose size is not checked. XLA's C++ client of the API, which JAX and PyTorch/XLA contain, does not set the
/// struct's size field, so its value is arbitrary.
const UNSIZED: &str = "PJRT_Buffer_MemoryLayout";

/// The arguments that the layer checks in calls of one function.
#[derive(Debug, Default)]
pub(super) struct Checks {
    required: Vec<&'static Field>,
    /// Pointers to arrays, each with the field of its length.
    arrays: Vec<(&'static Field, &'static Field)>,
    /// Fields whose type is an enumeration, each with the name and the largest value of the enumeration.
    enumerations: Vec<(&'static Field, &'static str, u32)>,
    /// Pointers to structs that begin with their size.
    structs: Vec<(&'static Field, &'static Layout)>,
}

impl Checks {
    pub(super) fn new(function: &'static Function) -> Self {
        // The arguments of extension functions follow other conventions, so this module does not check them.
        if function.extension.is_some() {
            return Self::default();
        }
        let named = |(name, field): &(&str, &'static str)| (*name == function.name).then(|| function.field(field))?;
        let of_enumeration = |(name, field, kind, last): &(&str, &str, &'static str, u32)| {
            (*name == function.name).then(|| Some((function.field(field)?, *kind, *last)))?
        };
        let pointers = function.fields.iter().filter(|field| {
            let is_pointer = matches!(field.kind, Kind::Handles(_) | Kind::Text | Kind::Pointer);
            is_pointer && !field.output && (function.name, field.name) != QUESTION
        });
        let length = |field: &'static Field| {
            let names = [format!("num_{}", field.name), format!("{}_size", field.name)];
            let found = names.iter().find_map(|name| function.field(name))?;
            (matches!(found.kind, Kind::Size) && !found.output).then_some((field, found))
        };
        let structs = function.fields.iter().filter(|field| !field.output);
        let structs = structs.filter_map(|field| match &field.kind {
            Kind::Struct(layout) if layout.name != UNSIZED => Some((field, layout)),
            _ => None,
        });
        Self {
            structs: structs.collect(),
            required: REQUIRED.iter().filter_map(named).collect(),
            arrays: pointers.filter_map(length).collect(),
            enumerations: ENUMERATIONS.iter().filter_map(of_enumeration).collect(),
        }
    }

    /// Calls `report` with each rule that a call breaks, and with a description of the mistake.
    pub(super) fn run(&self, call: &Call, mut report: impl FnMut(&'static Rule, String)) {
        for field in self.required.iter().filter(|field| call.address(field) == 0) {
            report(&rules::NULL_ARGUMENT, format!("`{}` is null", field.name));
        }
        for (field, length) in &self.arrays {
            let count = call.address(length);
            if count > 0 && call.address(field) == 0 {
                report(&rules::NULL_ARGUMENT, format!("`{}` is null, but `{}` is {count}", field.name, length.name));
            }
        }
        for (field, layout) in &self.structs {
            let least = (layout.size_at)(0);
            if let Some(announced) = call.announced_of(field)
                && (layout.size_behind)(announced) < least
            {
                let (name, kind) = (field.name, layout.name);
                let what = format!(
                    "`struct_size` of {kind} in `{name}` is {announced}, but no version of the API has fewer than {least} \
                     bytes"
                );
                report(&rules::SHORT_STRUCT, what);
            }
        }
        for (field, kind, last) in &self.enumerations {
            let value = call.word(field);
            if value > u64::from(*last) {
                // If a field's C name is a Rust keyword, its generated name ends with an underscore.
                let name = field.name.trim_end_matches('_');
                let what = format!("`{name}` is {value}, but the values of {kind} are 0 to {last}");
                report(&rules::UNKNOWN_VALUE, what);
            }
        }
        if let Some(args) = call.args::<slot::PJRT_Client_BufferFromHostBuffer>()
            && args.data.is_null()
            && call.numbers("dims", "num_dims").iter().all(|extent| *extent != 0)
        {
            report(&rules::NULL_ARGUMENT, "`data` is null, but the array has elements".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generated::FUNCTIONS;

    #[test]
    fn names_are_those_of_the_header() {
        let named = REQUIRED.iter().copied().chain(ENUMERATIONS.iter().map(|(name, field, ..)| (*name, *field)));
        for (name, field) in named.chain([QUESTION]) {
            let function = FUNCTIONS.iter().find(|function| function.name == name);
            assert!(function.is_some_and(|function| function.field(field).is_some()), "{name}: {field}");
        }
    }

    #[test]
    fn lengths_are_found() {
        let arrays: usize = FUNCTIONS.iter().map(|function| Checks::new(function).arrays.len()).sum();
        assert!(arrays >= 10, "{arrays}");
    }
}
