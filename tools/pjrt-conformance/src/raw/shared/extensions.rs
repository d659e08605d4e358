//! Objects of extensions: layouts, raw buffers, ABI versions and callbacks.

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use pjrt::Function;
use pjrt::extensions::{ExecutableAbiVersion, RawBuffer, RuntimeAbiVersion};
use pjrt::raw::AsRaw;
use pjrt_sys::{
    PJRT_Buffer_Type, PJRT_Callback_PrefatalArgs, PJRT_Callback_Type, PJRT_Error_Code, PJRT_Layouts_MemoryLayout,
    PJRT_RawBuffer, extension_slot, slot,
};

use super::kind::{
    Answer, DIMENSIONS, End, Kind, Objects, Operation, Owned, SIZE, With, ask, ask_extension, checksum, drop_all, list,
    nothing, operation, query, released, sized, wait,
};
use crate::case::Profiles;
use crate::context::extension;
use crate::stop::Stop;

const F32: PJRT_Buffer_Type = PJRT_Buffer_Type::PJRT_Buffer_Type_F32;

type Layout = Owned<PJRT_Layouts_MemoryLayout>;

pub(crate) const LAYOUT: Kind<Layout> = Kind {
    name: "shared.layout",
    why: "JAX compares layouts of arrays and programs in every thread that calls a compiled function",
    profiles: Profiles::JAX,
    compiles: false,
    operations: &[
        operation!([PJRT_Layouts_MemoryLayout_Serialize], |on| serialized(on, on.extra.as_raw())),
        operation!([PJRT_Layouts_PJRT_Buffer_MemoryLayout, PJRT_Layouts_MemoryLayout_Serialize], |on| {
            let layout = of_buffer(on)?;
            serialized(on, layout.as_raw())
        }),
        operation!([PJRT_Layouts_PJRT_Client_GetDefaultLayout, PJRT_Layouts_MemoryLayout_Serialize], |on| {
            let args =
                ask_extension::<extension_slot::PJRT_Layouts_PJRT_Client_GetDefaultLayout>(on.plugin(), |args| {
                    (args.client, args.type_) = (on.client.as_raw(), F32);
                    (args.dims, args.num_dims) = (DIMENSIONS.as_ptr(), DIMENSIONS.len());
                })?;
            let layout = Owned::new(on.plugin(), args.layout, destroy_layout)?;
            serialized(on, layout.as_raw())
        }),
        operation!([PJRT_Layouts_PJRT_Topology_GetDefaultLayout, PJRT_Layouts_MemoryLayout_Serialize], |on| {
            let topology = ask::<slot::PJRT_Client_TopologyDescription>(on.plugin(), |args| {
                args.client = on.client.as_raw();
            })?
            .topology;
            let args =
                ask_extension::<extension_slot::PJRT_Layouts_PJRT_Topology_GetDefaultLayout>(on.plugin(), |args| {
                    (args.topology_description, args.type_) = (topology, F32);
                    (args.dims, args.num_dims) = (DIMENSIONS.as_ptr(), DIMENSIONS.len());
                })?;
            let layout = Owned::new(on.plugin(), args.layout, destroy_layout)?;
            serialized(on, layout.as_raw())
        }),
        // The layouts of an executable live as long as the executable.
        operation!([PJRT_Layouts_PJRT_Executable_GetOutputLayouts, PJRT_Layouts_MemoryLayout_Serialize], |on| {
            let args =
                ask_extension::<extension_slot::PJRT_Layouts_PJRT_Executable_GetOutputLayouts>(on.plugin(), |args| {
                    args.executable = on.loaded.executable().as_raw()
                })?;
            all_serialized(on, &list(args.layouts, args.num_outputs))
        }),
        operation!([PJRT_Layouts_PJRT_Executable_GetParameterLayouts, PJRT_Layouts_MemoryLayout_Serialize], |on| {
            let args = ask_extension::<extension_slot::PJRT_Layouts_PJRT_Executable_GetParameterLayouts>(
                on.plugin(),
                |args| args.executable = on.loaded.executable().as_raw(),
            )?;
            all_serialized(on, &list(args.layouts, args.num_parameters))
        }),
    ],
    make: |_, objects| of_buffer(objects),
    end: End::Never,
    finish: drop_all,
};

fn destroy_layout(plugin: &pjrt::Plugin, layout: *mut PJRT_Layouts_MemoryLayout) -> Result<(), Stop> {
    ask_extension::<extension_slot::PJRT_Layouts_MemoryLayout_Destroy>(plugin, |args| args.layout = layout).map(drop)
}

fn of_buffer(objects: &Objects) -> Result<Layout, Stop> {
    let args = ask_extension::<extension_slot::PJRT_Layouts_PJRT_Buffer_MemoryLayout>(&objects.plugin, |args| {
        args.buffer = objects.buffer.as_raw();
    })?;
    Owned::new(&objects.plugin, args.layout, destroy_layout)
}

fn serialized(on: &With<Layout>, layout: *mut PJRT_Layouts_MemoryLayout) -> Answer {
    let args = ask_extension::<extension_slot::PJRT_Layouts_MemoryLayout_Serialize>(on.plugin(), |args| {
        args.layout = layout;
    })?;
    let bytes = released(
        args.serialized_bytes,
        args.serialized_bytes_size,
        args.serialized_layout,
        args.serialized_layout_deleter,
    );
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn all_serialized(on: &With<Layout>, layouts: &[*mut PJRT_Layouts_MemoryLayout]) -> Answer {
    let all = layouts.iter().map(|layout| serialized(on, *layout)).collect::<Result<Vec<_>, _>>()?;
    Ok(format!("{all:?}"))
}

pub(crate) const RAW_BUFFER: Kind<RawBuffer> = Kind {
    name: "shared.raw_buffer",
    why: "a library for transfers reads pieces of one array from several threads",
    profiles: Profiles::FULL,
    compiles: false,
    operations: &[
        query!(
            extension PJRT_RawBuffer_GetOnDeviceSizeInBytes,
            |on, args| args.buffer = on.extra.as_raw(),
            args.on_device_size_in_bytes
        ),
        query!(extension PJRT_RawBuffer_GetMemorySpace, |on, args| args.buffer = on.extra.as_raw(), args.memory_space),
        query!(extension PJRT_RawBuffer_GetHostPointer, |on, args| args.buffer = on.extra.as_raw(), args.host_pointer),
        operation!([PJRT_RawBuffer_CopyRawDeviceToHost], |on| read(on, on.extra.as_raw())),
        operation!(
            [PJRT_RawBuffer_CreateRawAliasOfBuffer, PJRT_RawBuffer_CopyRawDeviceToHost, PJRT_RawBuffer_Destroy],
            |on| {
                let alias =
                    ask_extension::<extension_slot::PJRT_RawBuffer_CreateRawAliasOfBuffer>(on.plugin(), |args| {
                        args.buffer = on.buffer.as_raw()
                    })?
                    .raw_buffer;
                let answer = read(on, alias);
                ask_extension::<extension_slot::PJRT_RawBuffer_Destroy>(on.plugin(), |args| args.buffer = alias)?;
                answer
            }
        ),
    ],
    make: |cx, objects| Ok(extension::<pjrt::extensions::RawBuffers>(cx)?.alias(&objects.buffer)?),
    end: End::Never,
    finish: drop_all,
};

/// Copies the memory of a raw buffer to the host.
fn read(on: &With<RawBuffer>, buffer: *mut PJRT_RawBuffer) -> Answer {
    let mut memory = vec![0u8; SIZE];
    let args = ask_extension::<extension_slot::PJRT_RawBuffer_CopyRawDeviceToHost>(on.plugin(), |args| {
        (args.buffer, args.dst) = (buffer, memory.as_mut_ptr().cast());
        args.transfer_size = SIZE as i64;
    })?;
    wait(on.plugin(), args.event, "PJRT_RawBuffer_CopyRawDeviceToHost")?;
    Ok(checksum(&memory))
}

type Versions = (RuntimeAbiVersion, ExecutableAbiVersion);

pub(crate) const ABI_VERSIONS: Kind<Versions> = Kind {
    name: "shared.abi_version",
    why: "a cache of executables compares versions in each thread that compiles",
    profiles: Profiles::FULL,
    compiles: false,
    operations: &[
        query!(
            extension PJRT_RuntimeAbiVersion_PlatformId,
            |on, args| args.abi_version = on.extra.0.as_raw(),
            args.platform_id
        ),
        query!(
            extension PJRT_ExecutableAbiVersion_PlatformId,
            |on, args| args.abi_version = on.extra.1.as_raw(),
            args.platform_id
        ),
        query!(
            extension PJRT_RuntimeAbiVersion_IsCompatibleWithRuntime,
            |on, args| {
                let version = on.extra.0.as_raw();
                (args.abi_version, args.other_abi_version) = (version, version);
            }
        ),
        query!(
            extension PJRT_RuntimeAbiVersion_IsCompatibleWithExecutable,
            |on, args| {
                (args.abi_version, args.executable_abi_version) = (on.extra.0.as_raw(), on.extra.1.as_raw());
            }
        ),
        operation!([PJRT_RuntimeAbiVersion_ToProto], |on| {
            let args = ask_extension::<extension_slot::PJRT_RuntimeAbiVersion_ToProto>(on.plugin(), |args| {
                args.abi_version = on.extra.0.as_raw();
            })?;
            Ok(checksum(&released(
                args.serialized_proto,
                args.serialized_proto_size,
                args.serialized_proto_holder,
                args.serialized_proto_deleter,
            )))
        }),
        operation!([PJRT_ExecutableAbiVersion_ToProto], |on| {
            let args = ask_extension::<extension_slot::PJRT_ExecutableAbiVersion_ToProto>(on.plugin(), |args| {
                args.abi_version = on.extra.1.as_raw();
            })?;
            Ok(checksum(&released(
                args.serialized_proto,
                args.serialized_proto_size,
                args.serialized_proto_holder,
                args.serialized_proto_deleter,
            )))
        }),
        operation!([PJRT_Client_RuntimeAbiVersion, PJRT_RuntimeAbiVersion_Destroy], |on| {
            let args = ask_extension::<extension_slot::PJRT_Client_RuntimeAbiVersion>(on.plugin(), |args| {
                args.client = on.client.as_raw();
            })?;
            ask_extension::<extension_slot::PJRT_RuntimeAbiVersion_Destroy>(on.plugin(), |destroy| {
                destroy.abi_version = args.abi_version;
            })?;
            Ok("created".to_owned())
        }),
        operation!([PJRT_Executable_GetAbiVersion, PJRT_ExecutableAbiVersion_Destroy], |on| {
            let args = ask_extension::<extension_slot::PJRT_Executable_GetAbiVersion>(on.plugin(), |args| {
                args.executable = on.loaded.executable().as_raw();
            })?;
            ask_extension::<extension_slot::PJRT_ExecutableAbiVersion_Destroy>(on.plugin(), |destroy| {
                destroy.abi_version = args.abi_version;
            })?;
            Ok("created".to_owned())
        }),
    ],
    make: |cx, objects| {
        let versions = extension::<pjrt::extensions::AbiVersions>(cx)?;
        Ok((versions.of_client(&objects.client)?, versions.of_executable(objects.loaded.executable())?))
    },
    end: End::Never,
    finish: drop_all,
};

/// A callback that counts its calls in its argument, which is an `AtomicUsize`.
unsafe extern "C" fn count(_: *mut c_void, calls: *mut c_void) {
    // SAFETY: C11 (callbacks of an extension): the argument is the registered counter, which is never freed.
    unsafe { &*calls.cast::<AtomicUsize>() }.fetch_add(1, Relaxed);
}

pub(crate) const CALLBACKS: Kind<()> = Kind {
    name: "shared.callbacks",
    why: "libraries register callbacks for fatal errors while the plugin reports one",
    profiles: Profiles::FULL,
    compiles: false,
    operations: &[operation!([PJRT_Register_Callback, PJRT_Callback_InvokeCallback], |on| {
        // Callbacks cannot be unregistered, so the counter lives until the process ends.
        let calls: &'static AtomicUsize = Box::leak(Box::default());
        let prefatal = PJRT_Callback_Type::PJRT_Callback_Type_Prefatal;
        ask_extension::<extension_slot::PJRT_Register_Callback>(on.plugin(), |args| {
            (args.client, args.type_) = (on.client.as_raw(), prefatal);
            args.callback = Some(count);
            args.user_arg = std::ptr::from_ref(calls).cast_mut().cast();
        })?;
        let mut event: PJRT_Callback_PrefatalArgs = sized(on.plugin());
        event.error_code = PJRT_Error_Code::PJRT_Error_Code_INTERNAL;
        ask_extension::<extension_slot::PJRT_Callback_InvokeCallback>(on.plugin(), |args| {
            (args.client, args.type_, args.args) = (on.client.as_raw(), prefatal, (&raw mut event).cast());
        })?;
        ensure!(calls.load(Relaxed) > 0, "a callback that was registered before the event was not called");
        Ok("called".to_owned())
    })],
    make: nothing,
    end: End::Never,
    finish: drop_all,
};
