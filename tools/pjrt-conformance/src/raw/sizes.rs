//! Calls with struct sizes other than those of the plugin's version.

use pjrt::raw::AsRaw;
use pjrt::{Buffer, Client, Device, LoadedExecutable, Memory, Plugin};
use pjrt_sys::{AbiStruct, Extension, PJRT_Api, Slot, extension_slot, for_each_slot, slot};

use super::failure::{Failure, Returned, call, call_extension};
use crate::stop::Stop;

/// Function that calls a function of the plugin with a struct whose `struct_size` is the second argument and whose
/// other fields are zero.
pub(crate) type Probe = fn(&Plugin, usize) -> Option<Result<(), Failure>>;

fn probe<S>(plugin: &Plugin, size: usize) -> Option<Result<(), Failure>>
where
    S: Slot<Table = PJRT_Api>,
    S::Return: Returned,
{
    let mut args = S::Args::new();
    write_size(&mut args, size);
    // SAFETY: C2 (calls): the announced size is too small for a pointer field, so a function that reads only the
    // announced bytes finds no pointer.
    unsafe { call::<S>(plugin, &raw mut args) }
}

fn probe_extension<S>(plugin: &Plugin, size: usize) -> Option<Result<(), Failure>>
where
    S: Slot<Table: Extension>,
    S::Return: Returned,
{
    let mut args = S::Args::new();
    write_size(&mut args, size);
    // SAFETY: C2 (calls): the announced size is too small for a pointer field, so a function that reads only the
    // announced bytes finds no pointer.
    unsafe { call_extension::<S>(plugin, &raw mut args) }
}

/// Probes of the functions in the ABI version extension that parse a serialized version.
pub(crate) const ABI_VERSION_PROBES: &[(&str, Probe)] = &[
    ("runtime", probe_extension::<extension_slot::PJRT_RuntimeAbiVersion_FromProto> as Probe),
    ("executable", probe_extension::<extension_slot::PJRT_ExecutableAbiVersion_FromProto> as Probe),
];

fn write_size<T: AbiStruct>(args: &mut T, size: usize) {
    // SAFETY: `AbiStruct`: the struct begins with its size.
    unsafe { std::ptr::from_mut(args).cast::<usize>().write(size) };
}

macro_rules! probes {
    ($($slot:ident),* $(,)?) => {
        /// Every function of the `PJRT_Api` table, the minor API version that added it, and its probe.
        pub(crate) const PROBES: &[(&str, u32, Probe)] =
            &[$((slot::$slot::NAME, slot::$slot::SINCE, probe::<slot::$slot> as Probe),)*];
    };
}
for_each_slot!(probes);

/// A struct followed by additional bytes, like the struct of a caller with a newer header.
#[repr(C)]
struct Longer<T> {
    args: T,
    more: [u64; 8],
}

/// Calls a function with a struct that is 64 bytes longer than in the newest known header. `fill` sets the inputs. The
/// additional bytes are zero. Fails the case if the plugin returns an error or changes the additional bytes.
fn longer<S>(plugin: &Plugin, fill: impl FnOnce(&mut S::Args)) -> Result<S::Args, Stop>
where
    S: Slot<Table = PJRT_Api>,
    S::Return: Returned,
{
    let mut args = Longer { args: S::Args::new(), more: [0; 8] };
    fill(&mut args.args);
    write_size(&mut args.args, size_of::<Longer<S::Args>>());
    // SAFETY: C2 (calls): the objects are live, and the struct has the announced size.
    let result = unsafe { call::<S>(plugin, (&raw mut args).cast()) };
    result.ok_or_else(|| Stop::Unsupported(format!("the plugin lacks {}", S::NAME)))??;
    ensure!(args.more == [0; 8], "{} wrote beyond the fields that it knows", S::NAME);
    Ok(args.args)
}

/// Arguments of the calls in `NEWER` and [`OLDER`].
pub(crate) struct Newer<'a> {
    pub(crate) client: &'a Client,
    pub(crate) device: &'a Device,
    pub(crate) memory: &'a Memory,
    pub(crate) buffer: &'a Buffer,
    pub(crate) executable: &'a LoadedExecutable,
}

type NewerCall = fn(&Newer<'_>) -> Result<(), Stop>;

macro_rules! newer_calls {
    ($($slot:ident: $object:ident as $field:ident;)*) => {
        const NEWER: &[(&str, NewerCall)] = &[$((slot::$slot::NAME, |objects: &Newer<'_>| {
            let plugin = objects.client.plugin();
            longer::<slot::$slot>(&plugin, |args| args.$field = objects.$object.as_raw()).map(drop)
        }),)*];
    };
}
newer_calls! {
    PJRT_Client_PlatformName: client as client;
    PJRT_Client_PlatformVersion: client as client;
    PJRT_Client_ProcessIndex: client as client;
    PJRT_Client_Devices: client as client;
    PJRT_Client_AddressableDevices: client as client;
    PJRT_Client_AddressableMemories: client as client;
    PJRT_Client_TopologyDescription: client as client;
    PJRT_Device_GetDescription: device as device;
    PJRT_Device_IsAddressable: device as device;
    PJRT_Device_LocalHardwareId: device as device;
    PJRT_Device_AddressableMemories: device as device;
    PJRT_Device_DefaultMemory: device as device;
    PJRT_Device_MemoryStats: device as device;
    PJRT_Memory_Id: memory as memory;
    PJRT_Memory_Kind: memory as memory;
    PJRT_Memory_DebugString: memory as memory;
    PJRT_Memory_AddressableByDevices: memory as memory;
    PJRT_Buffer_ElementType: buffer as buffer;
    PJRT_Buffer_Dimensions: buffer as buffer;
    PJRT_Buffer_UnpaddedDimensions: buffer as buffer;
    PJRT_Buffer_OnDeviceSizeInBytes: buffer as buffer;
    PJRT_Buffer_Device: buffer as buffer;
    PJRT_Buffer_Memory: buffer as buffer;
    PJRT_Buffer_IsDeleted: buffer as buffer;
    PJRT_Buffer_IsOnCpu: buffer as buffer;
    PJRT_LoadedExecutable_AddressableDevices: executable as executable;
    PJRT_LoadedExecutable_IsDeleted: executable as executable;
}

/// Returns the name of each function in `NEWER`, and a call of the function with a longer struct.
pub(crate) fn newer() -> impl Iterator<Item = (&'static str, NewerCall)> {
    NEWER.iter().copied()
}

/// A function whose argument struct has grown, and a call with the struct size of an older API version.
pub(crate) struct Older {
    pub(crate) name: &'static str,
    /// The older minor API versions, each with the struct size that its callers announce.
    pub(crate) sizes: fn() -> Vec<(u32, usize)>,
    pub(crate) call: fn(&Newer<'_>, usize) -> Result<(), Stop>,
}

/// Returns the former sizes of a struct, each with the last minor API version that had this size. Omits versions before
/// 57, because they order the functions of `PJRT_Api` differently, and the suite does not support this order.
fn history<T: AbiStruct>() -> Vec<(u32, usize)> {
    let of_minor = |(since, size): &(u32, usize)| (since.saturating_sub(1), *size);
    T::HISTORY.iter().map(of_minor).filter(|(minor, _)| *minor >= 57).collect()
}

fn sized<S>(plugin: &Plugin, size: usize, fill: impl FnOnce(&mut S::Args)) -> Result<S::Args, Stop>
where
    S: Slot<Table = PJRT_Api>,
    S::Return: Returned,
{
    let mut args = S::Args::new();
    fill(&mut args);
    write_size(&mut args, size);
    // SAFETY: C2 (calls): the objects are live, and the struct has at least the announced size.
    let result = unsafe { call::<S>(plugin, &raw mut args) };
    result.ok_or_else(|| Stop::Unsupported(format!("the plugin lacks {}", S::NAME)))??;
    Ok(args)
}

/// The functions whose structs have grown and that a case can call with only the objects of [`Newer`].
pub(crate) const OLDER: &[Older] = &[
    Older {
        name: "PJRT_Plugin_Attributes",
        sizes: history::<pjrt_sys::PJRT_Plugin_Attributes_Args>,
        call: |objects, size| sized::<slot::PJRT_Plugin_Attributes>(&objects.client.plugin(), size, |_| ()).map(drop),
    },
    Older {
        name: "PJRT_Device_MemoryStats",
        sizes: history::<pjrt_sys::PJRT_Device_MemoryStats_Args>,
        call: |objects, size| {
            let fill = |args: &mut pjrt_sys::PJRT_Device_MemoryStats_Args| args.device = objects.device.as_raw();
            sized::<slot::PJRT_Device_MemoryStats>(&objects.client.plugin(), size, fill).map(drop)
        },
    },
    Older {
        name: "PJRT_Executable_GetCompiledMemoryStats",
        sizes: history::<pjrt_sys::PJRT_Executable_GetCompiledMemoryStats_Args>,
        call: |objects, size| {
            let executable = objects.executable.executable().as_raw();
            let fill = |args: &mut pjrt_sys::PJRT_Executable_GetCompiledMemoryStats_Args| args.executable = executable;
            sized::<slot::PJRT_Executable_GetCompiledMemoryStats>(&objects.client.plugin(), size, fill).map(drop)
        },
    },
    Older {
        name: "PJRT_LoadedExecutable_Execute",
        sizes: history::<pjrt_sys::PJRT_ExecuteOptions>,
        call: execute_with_options_of,
    },
];

/// Executes a program with a `PJRT_ExecuteOptions` that announces `size` bytes.
fn execute_with_options_of(objects: &Newer<'_>, size: usize) -> Result<(), Stop> {
    let mut options = pjrt_sys::PJRT_ExecuteOptions::new();
    write_size(&mut options, size);
    let inputs = [objects.buffer.as_raw()];
    let lists = [inputs.as_ptr()];
    let mut results = [std::ptr::null_mut()];
    let places = [results.as_mut_ptr()];
    let fill = |args: &mut pjrt_sys::PJRT_LoadedExecutable_Execute_Args| {
        args.executable = objects.executable.as_raw();
        args.options = &raw mut options;
        args.argument_lists = lists.as_ptr();
        args.num_devices = 1;
        args.num_args = 1;
        args.output_lists = places.as_ptr();
    };
    let full = pjrt_sys::PJRT_LoadedExecutable_Execute_Args::STRUCT_SIZE;
    sized::<slot::PJRT_LoadedExecutable_Execute>(&objects.client.plugin(), full, fill)?;
    // SAFETY: C7 (runs), A2 (adopted buffers): the plugin wrote a new buffer to `results[0]`. This function owns the
    // buffer.
    let output = unsafe { pjrt::raw::own_buffer(objects.client, results[0]) }?;
    Ok(output.wait()?)
}
