//! The version history: the minor API version that added each slot, and each field that was added to an existing
//! struct.
//!
//! Most versions of slots come from the API's own CHANGELOG. [`SLOTS`] lists the slots that the CHANGELOG describes but
//! does not name. [`FIELDS`] lists the fields that were added to an existing struct. Each entry of [`FIELDS`] is
//! checked against the CHANGELOG section of its version. The CHANGELOG ends at an older version than the headers.
//! Entries of later versions come from a comparison of the headers of several packages.

use std::collections::BTreeMap;

use crate::Error;

/// Slots whose CHANGELOG entry does not contain their name.
const SLOTS: &[(&str, u64)] = &[
    ("PJRT_Memory_Kind_Id", 48),
    ("PJRT_ExecuteContext_Create", 52),
    ("PJRT_ExecuteContext_Destroy", 52),
    ("PJRT_AsyncHostToDeviceTransferManager_Destroy", 60),
    ("PJRT_AsyncHostToDeviceTransferManager_TransferData", 60),
    ("PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer", 62),
    ("PJRT_AsyncHostToDeviceTransferManager_Device", 62),
    ("PJRT_AsyncHostToDeviceTransferManager_BufferCount", 62),
    ("PJRT_AsyncHostToDeviceTransferManager_BufferSize", 62),
    ("PJRT_AsyncHostToDeviceTransferManager_SetBufferError", 62),
    ("PJRT_AsyncHostToDeviceTransferManager_AddMetadata", 62),
    ("PJRT_Client_CreateUninitializedBuffer", 69),
    ("PJRT_Client_CreateAliasBuffer", 77),
    ("PJRT_Client_FulfillAliasBuffer", 77),
    ("PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace", 109),
    ("PJRT_TopologyDescription_GetMemorySpaceKindIds", 110),
];

/// Marks a field of a version that is newer than the CHANGELOG.
const LATER: &str = "";

/// The first field that each minor version added to a struct. An entry consists of the struct, the field, the minor
/// version, and a word of the version's CHANGELOG section or [`LATER`].
pub(crate) const FIELDS: &[(&str, &str, u64, &str)] = &[
    ("PJRT_Client_Create_Args", "kv_try_get_callback", 61, "PJRT_KeyValueTryGet"),
    ("PJRT_ExecuteOptions", "context", 64, "context"),
    ("PJRT_Client_CreateViewOfDeviceBuffer_Args", "memory", 66, "memory"),
    (
        "PJRT_Executable_DeserializeAndLoad_Args",
        "overridden_serialized_compile_options",
        71,
        "overridden_serialized_compile_options",
    ),
    ("PJRT_Executable_GetCompiledMemoryStats_Args", "peak_memory_in_bytes", 72, "peak_memory_in_bytes"),
    ("PJRT_ExecuteOptions", "call_location", 76, "call_location"),
    ("PJRT_ExecuteOptions", "num_tasks", 78, "incarnations"),
    ("PJRT_Executable_GetCompiledMemoryStats_Args", "total_size_in_bytes", 90, "total_size_in_bytes"),
    (
        "PJRT_Layouts_Extension",
        "PJRT_Layouts_PJRT_Executable_GetOutputLayouts",
        81,
        "PJRT_Layouts_PJRT_Executable_GetOutputLayouts",
    ),
    (
        "PJRT_Layouts_Extension",
        "PJRT_Layouts_PJRT_Executable_GetParameterLayouts",
        93,
        "PJRT_Layouts_PJRT_Executable_GetParameterLayouts",
    ),
    ("PJRT_ExecuteOptions", "multi_slice_config", 97, "multi_slice_config"),
    ("PJRT_Device_PoisonExecution_Args", "payload", 100, "payload"),
    ("PJRT_Client_CreateErrorBuffer_Args", "payload", 103, "payload"),
    ("PJRT_Executable_GetCompiledMemoryStats_Args", "total_allocation_bytes", 104, "total_allocation_bytes"),
    (
        "PJRT_ExecuteOptions",
        "use_major_to_minor_data_layout_for_callbacks",
        108,
        "use_major_to_minor_data_layout_for_callbacks",
    ),
    ("PJRT_Executable_DeserializeAndLoad_Args", "load_options", 111, "load_options"),
    ("PJRT_ExecuteOptions", "hlo_output_callbacks", 112, "PJRT_HloOutputCallbackInfo"),
    ("PJRT_Device_MemoryStats_Args", "peak_allocated_bytes", 113, "peak_allocated_bytes"),
    ("PJRT_ExecuteOptions", "custom_options", 116, LATER),
    ("PJRT_Client_CreateErrorBuffer_Args", "device_layout", 117, LATER),
    ("PJRT_Xla_Transform_Extension", "get_hlo_pass_pipeline_trace", 116, LATER),
    ("PJRT_Gpu_Register_Custom_Call_Args", "traits", 116, LATER),
    ("PJRT_Gpu_Custom_Call", "custom_call_handles_traits", 116, LATER),
    ("PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers_Args", "allow_cancel_notifier", 116, LATER),
    ("PJRT_Transfers_PJRT_Client_CrossHostSendBuffers_Args", "num_tasks", 117, LATER),
    ("PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers_Args", "num_tasks", 117, LATER),
];

/// Structs for which some callers announce too small a size, because the size constant in their header does not include
/// all fields. An entry consists of the struct, the smallest announced size in bytes, the number of bytes that the
/// struct of such a caller certainly has, and the first minor version whose header has the correct constant.
pub(crate) const ANNOUNCED: &[(&str, u64, u64, u64)] = &[
    // In 0.81, the announced size ends after `alias_size_in_bytes`, although the struct had six more fields.
    ("PJRT_Executable_GetCompiledMemoryStats_Args", 56, 56, 90),
    // The constant of 0.54 to 0.67 ends at `attributes`, but users read `num_attributes` after it.
    ("PJRT_Plugin_Attributes_Args", 24, 32, 68),
];

/// Returns the minor version that added each slot, or 0 for a slot that is older than the CHANGELOG, which begins with
/// 0.29.
pub(crate) fn slots(names: &[String], changelog: &str) -> Result<Vec<u64>, Error> {
    let added = added(changelog)?;
    let mut minors = Vec::new();
    for name in names {
        let minor = match SLOTS.iter().find(|(slot, _)| slot == name) {
            Some((_, minor)) => *minor,
            None => added.get(name.as_str()).copied().unwrap_or(0),
        };
        minors.push(minor);
    }
    for (name, _) in SLOTS {
        if !names.iter().any(|n| n == name) {
            return Err(format!("the ledger names {name}, which is not a slot").into());
        }
    }
    check_order(names, &minors)?;
    Ok(minors)
}

/// Checks [`FIELDS`] against the CHANGELOG.
pub(crate) fn check_fields(changelog: &str) -> Result<(), Error> {
    let sections = sections(changelog)?;
    let newest = sections.keys().next_back().copied().unwrap_or(0);
    for (name, field, minor, word) in FIELDS {
        if word.is_empty() != (*minor > newest) {
            return Err(format!("{name}.{field}: the CHANGELOG describes versions up to 0.{newest}").into());
        }
        if !word.is_empty() && !sections.get(minor).is_some_and(|text| text.contains(word)) {
            return Err(format!("{name}.{field}: the CHANGELOG of 0.{minor} does not mention {word}").into());
        }
    }
    Ok(())
}

/// Checks the order of the minor versions. Since 0.57, slots are only added at the end of the table, so the versions of
/// these slots must not decrease.
fn check_order(names: &[String], minors: &[u64]) -> Result<(), Error> {
    let mut newest = 0;
    for (name, minor) in names.iter().zip(minors) {
        // From 0.57 on, the versions do not decrease. The check below exempts one older slot, which 0.57 moved.
        if *minor >= 57 && *minor < newest {
            return Err(format!("{name} is said to be of 0.{minor}, but follows a slot of 0.{newest}").into());
        }
        newest = newest.max(*minor);
        if newest >= 57 && *minor < 57 && name != "PJRT_Buffer_CopyRawToHost" {
            return Err(format!(
                "{name} follows a slot of 0.{newest}, but the ledger does not know since when it stands"
            )
            .into());
        }
    }
    Ok(())
}

fn sections(changelog: &str) -> Result<BTreeMap<u64, String>, Error> {
    let mut sections = BTreeMap::new();
    let mut current = None;
    for line in changelog.lines() {
        if let Some(rest) = line.strip_prefix("## 0.") {
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            current = Some(digits.parse()?);
        } else if let Some(minor) = current {
            let text: &mut String = sections.entry(minor).or_default();
            text.push_str(line);
            text.push('\n');
        }
    }
    Ok(sections)
}

/// Returns the identifiers in bullets that begin with "Add", with the oldest minor version that adds each of them.
fn added(changelog: &str) -> Result<BTreeMap<String, u64>, Error> {
    let mut added = BTreeMap::new();
    for (minor, text) in sections(changelog)? {
        let mut adds = false;
        for line in text.lines() {
            if let Some(bullet) = line.strip_prefix('*') {
                adds = bullet.trim_start().starts_with("Add");
            }
            // Later sentences of a bullet name older functions for comparison.
            let (sentence, rest) = line.split_once(". ").unwrap_or((line, ""));
            for word in sentence.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
                if adds && word.starts_with("PJRT_") {
                    added.entry(word.to_owned()).or_insert(minor);
                }
            }
            adds &= rest.is_empty() && !line.ends_with('.');
        }
    }
    Ok(added)
}
