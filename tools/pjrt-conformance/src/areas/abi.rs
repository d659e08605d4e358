//! Cases for the `PJRT_Api` table: its versions, struct sizes, slots, extensions and attributes.

use std::collections::BTreeSet;

use pjrt::{Function, Value};

use crate::case::Profiles;
use crate::context::Context;
use crate::program::announced_version;
use crate::raw::{MOST, Newer, OLDER, PROBES, chain, newer};
use crate::stop::Stop;
use crate::suite::Suite;

const SIZE: &str = "pjrt_c_api.h: every struct begins with struct_size, the size of the struct in the caller's header";

pub(crate) fn declare(suite: &mut Suite) {
    table(suite);
    slots(suite);
    sizes(suite);
    extensions(suite);
    plugin(suite);
}

fn table(suite: &mut Suite) {
    suite
        .case(
            "abi.table.major_version",
            "pjrt_c_api.h: PJRT_API_MAJOR changes with every incompatible change of the interface, and is 0",
            "every framework rejects a plugin with a different major version",
        )
        .profiles(Profiles::MINIMAL)
        .without_client()
        .check(|cx| {
            ensure_eq!(cx.plugin().api_version().major, 0, "major version of the table");
            Ok(())
        });
    suite
        .case(
            "abi.table.minor_version",
            "jaxlib: a plugin's minor version is at least 29; this suite requires 57, which changed the order of the \
             table",
            "in an older table, frameworks find the wrong functions at the offsets that they know",
        )
        .profiles(Profiles::MINIMAL)
        .without_client()
        .check(|cx| {
            let minor = cx.plugin().api_version().minor;
            ensure!(minor >= 57, "the minor version {minor} is older than 57, which changed the order of the table");
            Ok(())
        });
    suite
        .case(
            "abi.table.size_matches_version",
            "pjrt_c_api.h: struct_size of PJRT_Api is PJRT_Api_STRUCT_SIZE in the header of the announced version",
            "a framework that relies on the version reads beyond the end of a shorter table",
        )
        .profiles(Profiles::MINIMAL)
        .without_client()
        .check(|cx| {
            let minor = u32::try_from(cx.plugin().api_version().minor).unwrap_or(0);
            let slots = PROBES.iter().filter(|(_, since, _)| *since <= minor).count();
            let (found, needed) = (cx.plugin().api().struct_size(), 40 + 8 * slots);
            ensure!(
                found >= needed,
                "the table announces version 0.{minor}, which has {slots} functions in {needed} bytes, but a size of \
                 only {found} bytes"
            );
            Ok(())
        });
    suite
        .case(
            "abi.table.size_is_whole",
            "pjrt_c_api.h: the table has 40 bytes of version and size, followed by function pointers of 8 bytes each",
            "frameworks ignore a function whose pointer is only partly within the size",
        )
        .without_client()
        .check(|cx| {
            let size = cx.plugin().api().struct_size();
            ensure!(
                size >= 40 && (size - 40) % 8 == 0,
                "the table's size of {size} bytes is not 40 plus a multiple of 8"
            );
            Ok(())
        });
}

/// Functions that every framework calls without checking whether the slot is null. The list was collected from the
/// frameworks' sources.
const MINIMAL: &[Function] = &[
    Function::PJRT_Error_Destroy,
    Function::PJRT_Error_Message,
    Function::PJRT_Error_GetCode,
    Function::PJRT_Plugin_Initialize,
    Function::PJRT_Plugin_Attributes,
    Function::PJRT_Event_Destroy,
    Function::PJRT_Event_IsReady,
    Function::PJRT_Event_Await,
    Function::PJRT_Event_OnReady,
    Function::PJRT_Client_Create,
    Function::PJRT_Client_Destroy,
    Function::PJRT_Client_PlatformName,
    Function::PJRT_Client_PlatformVersion,
    Function::PJRT_Client_ProcessIndex,
    Function::PJRT_Client_Devices,
    Function::PJRT_Client_AddressableDevices,
    Function::PJRT_Client_LookupDevice,
    Function::PJRT_Client_AddressableMemories,
    Function::PJRT_Client_Compile,
    Function::PJRT_Client_BufferFromHostBuffer,
    Function::PJRT_DeviceDescription_Id,
    Function::PJRT_DeviceDescription_ProcessIndex,
    Function::PJRT_DeviceDescription_Attributes,
    Function::PJRT_DeviceDescription_Kind,
    Function::PJRT_DeviceDescription_DebugString,
    Function::PJRT_DeviceDescription_ToString,
    Function::PJRT_Device_GetDescription,
    Function::PJRT_Device_IsAddressable,
    Function::PJRT_Device_LocalHardwareId,
    Function::PJRT_Executable_Destroy,
    Function::PJRT_Executable_Name,
    Function::PJRT_Executable_NumReplicas,
    Function::PJRT_Executable_NumPartitions,
    Function::PJRT_Executable_NumOutputs,
    Function::PJRT_LoadedExecutable_Destroy,
    Function::PJRT_LoadedExecutable_GetExecutable,
    Function::PJRT_LoadedExecutable_AddressableDevices,
    Function::PJRT_LoadedExecutable_Execute,
    Function::PJRT_Buffer_Destroy,
    Function::PJRT_Buffer_ElementType,
    Function::PJRT_Buffer_Dimensions,
    Function::PJRT_Buffer_ToHostBuffer,
    Function::PJRT_Buffer_Device,
    Function::PJRT_Buffer_Delete,
    Function::PJRT_Buffer_IsDeleted,
    Function::PJRT_Buffer_ReadyEvent,
];

/// Additional functions that JAX and PyTorch/XLA call without checking whether the slot is null.
const JAX: &[Function] = &[
    Function::PJRT_Client_LookupAddressableDevice,
    Function::PJRT_Client_DefaultDeviceAssignment,
    Function::PJRT_Client_TopologyDescription,
    Function::PJRT_TopologyDescription_PlatformName,
    Function::PJRT_TopologyDescription_PlatformVersion,
    Function::PJRT_TopologyDescription_GetDeviceDescriptions,
    Function::PJRT_TopologyDescription_Attributes,
    Function::PJRT_Device_AddressableMemories,
    Function::PJRT_Device_DefaultMemory,
    Function::PJRT_Device_MemoryStats,
    Function::PJRT_Memory_Id,
    Function::PJRT_Memory_Kind,
    Function::PJRT_Memory_DebugString,
    Function::PJRT_Memory_ToString,
    Function::PJRT_Memory_AddressableByDevices,
    Function::PJRT_Executable_SizeOfGeneratedCodeInBytes,
    Function::PJRT_Executable_GetCostAnalysis,
    Function::PJRT_Executable_OutputMemoryKinds,
    Function::PJRT_Executable_OptimizedProgram,
    Function::PJRT_Executable_Serialize,
    Function::PJRT_Executable_DeserializeAndLoad,
    Function::PJRT_Executable_Fingerprint,
    Function::PJRT_Executable_GetCompiledMemoryStats,
    Function::PJRT_LoadedExecutable_Delete,
    Function::PJRT_LoadedExecutable_IsDeleted,
    Function::PJRT_Buffer_UnpaddedDimensions,
    Function::PJRT_Buffer_DynamicDimensionIndices,
    Function::PJRT_Buffer_GetMemoryLayout,
    Function::PJRT_Buffer_OnDeviceSizeInBytes,
    Function::PJRT_Buffer_Memory,
    Function::PJRT_Buffer_IsOnCpu,
    Function::PJRT_Buffer_CopyToDevice,
    Function::PJRT_Buffer_CopyToMemory,
    Function::PJRT_Buffer_UnsafePointer,
];

fn slots(suite: &mut Suite) {
    let groups = [(MINIMAL, Profiles::MINIMAL, "every framework"), (JAX, Profiles::JAX_TORCH, "JAX and PyTorch/XLA")];
    for (functions, profiles, who) in groups {
        for &function in functions {
            suite
                .case(
                    format!("abi.slots.present[function={}]", function.name()),
                    "pjrt_c_api.h: PJRT_Api lists the function; frameworks call it without checking the pointer",
                    format!("{who} calls it, and a null pointer ends the process"),
                )
                .profiles(profiles)
                .without_client()
                .check(move |cx| {
                    let version = cx.plugin().api_version();
                    if let Some(since) = function.since()
                        && since.minor > version.minor
                    {
                        return Err(Stop::Skip(format!("the plugin's version {version} is older than the function")));
                    }
                    ensure!(
                        cx.plugin().supports(function),
                        "the slot of {} is null or beyond the end of the table",
                        function.name()
                    );
                    Ok(())
                });
        }
    }
}

fn sizes(suite: &mut Suite) {
    for &(name, _, probe) in PROBES {
        // `PJRT_Error_Destroy` and `PJRT_Error_Message` return nothing, so they cannot reject a struct.
        if ["PJRT_Error_Destroy", "PJRT_Error_Message"].contains(&name) {
            continue;
        }
        suite
            .case(
                format!("abi.struct_size.too_small[function={name}]"),
                format!(
                    "{SIZE}. XLA's ActualStructSizeIsGreaterOrEqual rejects a size that is too small with \
                     INVALID_ARGUMENT"
                ),
                "an older framework passes shorter structs; reading beyond their end is undefined behaviour",
            )
            .without_client()
            .check(move |cx| match probe(cx.plugin(), 8) {
                None => Err(Stop::Unsupported(format!("the plugin lacks {name}"))),
                Some(Ok(())) => Err(Stop::Fail(format!("{name} accepted a struct of 8 bytes"))),
                Some(Err(failure)) => {
                    let code = failure.code().unwrap_or(0);
                    let refusals = [pjrt::ErrorCode::INVALID_ARGUMENT, pjrt::ErrorCode::UNIMPLEMENTED];
                    ensure!(
                        refusals.iter().any(|refusal| refusal.as_raw() == code),
                        "{name} returned code {code} for a struct of 8 bytes, and neither INVALID_ARGUMENT nor UNIMPLEMENTED: {}",
                        failure.message().0
                    );
                    Ok(())
                }
            });
    }
    for (name, call) in newer() {
        suite
            .case(
                format!("abi.struct_size.newer[function={name}]"),
                format!(
                    "{SIZE}. Fields are only appended, so the plugin accepts a larger size and ignores the additional \
                     fields"
                ),
                "a framework with a newer header passes longer structs to every function",
            )
            .profiles(Profiles::FRAMEWORKS)
            .check(move |cx| with_objects(cx, call));
    }
    for older in OLDER {
        for (minor, size) in (older.sizes)() {
            suite
                .case(
                    format!("abi.struct_size.older[function={},caller=0.{minor}]", older.name),
                    format!("{SIZE}. Fields are only appended, so an older header's size excludes the newer fields"),
                    "a framework built with an older header, such as PyTorch/XLA 2.9, passes shorter structs",
                )
                .profiles(Profiles::TORCH)
                .check(move |cx| {
                    let version = cx.plugin().api_version();
                    if u32::try_from(version.minor).unwrap_or(0) < minor {
                        return Err(Stop::Skip(format!("the plugin's version {version} is older than the caller's")));
                    }
                    with_objects(cx, |objects| (older.call)(objects, size))
                });
        }
    }
}

fn with_objects(cx: &Context, run: impl Fn(&Newer<'_>) -> Result<(), Stop>) -> Result<(), Stop> {
    let (device, memory) = (cx.device()?, cx.memory()?);
    let buffer = cx.floats(&[1.0, 2.0])?;
    buffer.wait()?;
    let executable = cx.add_one(2)?;
    run(&Newer { client: cx.client()?, device: &device, memory: &memory, buffer: &buffer, executable: &executable })
}

fn extensions(suite: &mut Suite) {
    suite
        .case(
            "abi.extensions.chain_ends",
            "pjrt_c_api.h: PJRT_Extension_Base::next points to the next extension, or is null",
            "frameworks follow the chain to its end, and never return if it is cyclic",
        )
        .profiles(Profiles::MINIMAL)
        .without_client()
        .check(|cx| {
            let count = chain(cx.plugin()).len();
            ensure!(count < MOST, "the chain has {count} or more extensions; it is probably cyclic");
            Ok(())
        });
    suite
        .case(
            "abi.extensions.unique",
            "pjrt_c_api_helpers: FindExtension returns the first extension of a type",
            "frameworks cannot find a second extension of the same type",
        )
        .without_client()
        .check(|cx| {
            let mut numbers: Vec<u32> = chain(cx.plugin()).iter().map(|extension| extension.number).collect();
            numbers.sort_unstable();
            let count = numbers.len();
            numbers.dedup();
            ensure_eq!(count, numbers.len(), "number of extensions without duplicates");
            Ok(())
        });
    for number in 0..25u32 {
        let Some(name) = pjrt::extensions::name(number) else { continue };
        let of_extension =
            |function: &Function| function.extension().map(plain).is_some_and(|found| found == plain(name));
        let functions: Vec<Function> = Function::ALL.iter().copied().filter(of_extension).collect();
        suite
            .case(
                format!("abi.extensions.size[extension={name}]"),
                "pjrt_c_api_*_extension.h: the struct begins with PJRT_Extension_Base, followed by function pointers",
                "a framework reads the functions at fixed offsets, and checks only the announced size",
            )
            .without_client()
            .check(move |cx| {
                let size =
                    chain(cx.plugin()).iter().find(|extension| extension.number == number).map(|found| found.size);
                let Some(size) = size else {
                    return Err(Stop::Unsupported(format!("the plugin lacks the extension {name} ({number})")));
                };
                ensure!(size >= 24, "the extension announces {size} bytes, less than PJRT_Extension_Base");
                let present = functions.iter().filter(|function| cx.plugin().supports(**function)).count();
                ensure!(
                    functions.is_empty() || present > 0,
                    "the extension has none of its {} functions",
                    functions.len()
                );
                Ok(())
            });
    }
}

/// Returns the name of an extension in lower case, without underscores and the affixes `PJRT_` and `_Extension`. The
/// header spells the same name differently in extension types and in structs.
fn plain(name: &str) -> String {
    let name = name.strip_prefix("PJRT_").unwrap_or(name);
    name.strip_suffix("_Extension").unwrap_or(name).replace('_', "").to_ascii_lowercase()
}

fn plugin(suite: &mut Suite) {
    suite
        .case(
            "abi.plugin.attributes_stable",
            "pjrt_c_api.h: the attributes that PJRT_Plugin_Attributes returns live as long as the plugin",
            "frameworks keep pointers to the attributes",
        )
        .profiles(Profiles::FRAMEWORKS)
        .without_client()
        .check(|cx| {
            let first = format!("{:?}", cx.plugin().attributes()?);
            let second = format!("{:?}", cx.plugin().attributes()?);
            ensure_eq!(second, first, "attributes of the second call");
            Ok(())
        });
    suite
        .case(
            "abi.plugin.attributes_unique",
            "pjrt_c_api_test: each attribute that PJRT_Plugin_Attributes returns has a name of its own",
            "frameworks find an attribute by its name, and never see a second one of the same name",
        )
        .profiles(Profiles::FRAMEWORKS)
        .without_client()
        .check(|cx| {
            let attributes = cx.plugin().attributes()?;
            let names: BTreeSet<&str> = attributes.iter().map(|attribute| attribute.name.as_str()).collect();
            ensure_eq!(names.len(), attributes.len(), "number of different names");
            Ok(())
        });
    for (name, len) in [("stablehlo_current_version", 3), ("stablehlo_minimum_version", 3)] {
        suite
            .case(
                format!("abi.plugin.version_attribute[name={name}]"),
                "jaxlib: the attributes xla_version, stablehlo_current_version and stablehlo_minimum_version determine \
                 the format of programs",
                "JAX sends the oldest format it can write to a plugin without these attributes",
            )
            .profiles(Profiles::JAX)
            .without_client()
            .check(move |cx| {
                let attributes = cx.plugin().attributes()?;
                let found = attributes.iter().find(|attribute| attribute.name == name);
                match found.map(|attribute| &attribute.value) {
                    Some(Value::Int64List(list)) if list.len() == len => Ok(()),
                    Some(other) => Err(Stop::Fail(format!("{name} is {other}, not a list of {len} integers"))),
                    None => Err(Stop::Fail(format!("the plugin has no attribute {name}"))),
                }
            });
    }
    suite
        .case(
            "abi.plugin.xla_version_attribute",
            "jaxlib: the attribute xla_version is an integer",
            "JAX and PyTorch/XLA read it to choose features",
        )
        .profiles(Profiles::JAX)
        .without_client()
        .check(|cx| {
            let attributes = cx.plugin().attributes()?;
            match attributes.iter().find(|attribute| attribute.name == "xla_version").map(|attribute| &attribute.value)
            {
                Some(Value::Int64(_)) => Ok(()),
                Some(other) => Err(Stop::Fail(format!("xla_version is {other}, not an integer"))),
                None => Err(Stop::Unsupported("the plugin has no attribute xla_version".to_owned())),
            }
        });
    suite
        .case(
            "abi.plugin.versions_in_order",
            "StableHLO compatibility: a consumer's minimum version is at most its current version",
            "a framework sends its programs in a version within this range",
        )
        .profiles(Profiles::JAX)
        .without_client()
        .check(|cx| {
            let version = |name: &str| announced_version(cx.plugin(), name);
            match (version("stablehlo_minimum_version")?, version("stablehlo_current_version")?) {
                (Some(least), Some(current)) => {
                    ensure!(least <= current, "the minimum version {least:?} is newer than the current {current:?}");
                    Ok(())
                }
                _ => Err(Stop::Unsupported("the plugin does not announce its StableHLO versions".to_owned())),
            }
        });
}
