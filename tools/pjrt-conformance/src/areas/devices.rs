//! Cases for devices, memories, and programs on several devices.

use std::collections::BTreeSet;

use pjrt::{
    AsyncHostToDeviceTransferManager, CompileOptions, DeviceAssignment, ElementType, ErrorCode, ExecuteOptions,
    Function, Input, Upload, Value,
};

use crate::case::Profiles;
use crate::context::{floats, shape};
use crate::raw::is_on;
use crate::stop::Stop;
use crate::suite::Suite;

pub(crate) fn declare(suite: &mut Suite) {
    devices(suite);
    memories(suite);
    copies(suite);
    poison(suite);
}

fn devices(suite: &mut Suite) {
    suite
        .case(
            "devices.list.not_empty",
            "pjrt_c_api.h, PJRT_Client_AddressableDevices: the devices that this process can use",
            "a framework cannot run anything on a client without devices",
        )
        .profiles(Profiles::MINIMAL)
        .without_client()
        .check(|cx| {
            ensure!(!cx.client()?.addressable_devices()?.is_empty(), "the client has no device");
            Ok(())
        });
    suite
        .case(
            "devices.list.subset",
            "pjrt_c_api.h, PJRT_Client_Devices: all devices, including those that are not addressable",
            "frameworks look up addressable devices in the list of all devices",
        )
        .profiles(Profiles::MINIMAL)
        .check(|cx| {
            let client = cx.client()?;
            let all: BTreeSet<i32> = client.devices()?.iter().map(pjrt::Device::id).collect::<Result<_, _>>()?;
            for device in client.addressable_devices()? {
                ensure!(all.contains(&device.id()?), "device {} is not in the list of all devices", device.id()?);
                ensure!(
                    device.is_addressable()?,
                    "device {} is in the list of addressable devices, but reports that it is not addressable",
                    device.id()?
                );
            }
            Ok(())
        });
    suite
        .case(
            "devices.list.same_order",
            "pjrt_c_api.h, PJRT_Client_Devices and PJRT_Client_AddressableDevices: the list belongs to the client, and \
             does not change",
            "frameworks refer to a device by its position in the list",
        )
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            let client = cx.client()?;
            let ids = |devices: Vec<pjrt::Device>| -> Result<Vec<i32>, Stop> {
                Ok(devices.iter().map(pjrt::Device::id).collect::<Result<_, _>>()?)
            };
            let (all, own) = (ids(client.devices()?)?, ids(client.addressable_devices()?)?);
            for _ in 0..3 {
                ensure_eq!(ids(client.devices()?)?, all, "ids of all devices");
                ensure_eq!(ids(client.addressable_devices()?)?, own, "ids of the addressable devices");
            }
            Ok(())
        });
    suite
        .case(
            "devices.list.unique_ids",
            "pjrt_c_api.h, PJRT_DeviceDescription_Id: unique among devices of this type",
            "device assignments refer to devices by id",
        )
        .profiles(Profiles::MINIMAL)
        .check(|cx| {
            let devices = cx.client()?.devices()?;
            let ids: BTreeSet<i32> = devices.iter().map(pjrt::Device::id).collect::<Result<_, _>>()?;
            ensure_eq!(ids.len(), devices.len(), "number of different ids");
            Ok(())
        });
    suite
        .case(
            "devices.list.ids_not_negative",
            "pjrt_c_api_test: the id of every device is 0 or more",
            "frameworks store -1 in a device assignment for a place without a device",
        )
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            for device in cx.client()?.devices()? {
                ensure!(device.id()? >= 0, "a device has the id {}", device.id()?);
            }
            Ok(())
        });
    for (name, clause) in [
        (
            "kind",
            "pjrt_c_api.h, PJRT_DeviceDescription_Kind: a vendor-dependent string that uniquely identifies the kind of \
             device",
        ),
        ("debug_string", "pjrt_c_api.h, PJRT_DeviceDescription_DebugString: a debug string suitable for logging"),
        ("display_string", "pjrt_c_api.h, PJRT_DeviceDescription_ToString: a string suitable for reading by end users"),
    ] {
        suite
            .case(format!("devices.description.{name}"), clause, "JAX shows this text to users")
            .profiles(Profiles::FRAMEWORKS)
            .check(move |cx| {
                let description = cx.device()?.description()?;
                let text = match name {
                    "kind" => description.kind()?,
                    "debug_string" => description.debug_string()?,
                    _ => description.display_string()?,
                };
                ensure!(!text.is_empty(), "the text is empty");
                Ok(())
            });
    }
    suite
        .case(
            "devices.description.attributes",
            "pjrt_c_api.h, PJRT_DeviceDescription_Attributes: an array of device attributes",
            "JAX reads the device's coordinates from the attributes",
        )
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            for device in cx.client()?.devices()? {
                let attributes = device.description()?.attributes()?;
                let names: BTreeSet<&str> = attributes.iter().map(|attribute| attribute.name.as_str()).collect();
                ensure_eq!(names.len(), attributes.len(), "number of different names");
            }
            Ok(())
        });
    suite
        .case(
            "devices.description.coords",
            "jaxlib: the attribute coords of a device is a list of integers, which has one length for all devices",
            "JAX derives the order of a mesh's devices from the coordinates",
        )
        .profiles(Profiles::JAX)
        .check(|cx| {
            let mut lengths = BTreeSet::new();
            for device in cx.client()?.devices()? {
                let attributes = device.description()?.attributes()?;
                match attributes.iter().find(|attribute| attribute.name == "coords").map(|attribute| &attribute.value) {
                    None => lengths.insert(None),
                    Some(Value::Int64List(coords)) => lengths.insert(Some(coords.len())),
                    Some(other) => fail!("coords is {other}, not a list of integers"),
                };
            }
            if lengths == BTreeSet::from([None]) {
                return Err(Stop::Unsupported("the devices have no attribute coords".to_owned()));
            }
            ensure_eq!(lengths.len(), 1, "number of different lengths, where `None` is a device without coords");
            Ok(())
        });
    suite
        .case(
            "devices.query.attributes",
            "pjrt_c_api.h, PJRT_Device_GetAttributes: returns named values, which the caller frees",
            "JAX reads properties that a device's description lacks, such as its location in a machine",
        )
        .profiles(Profiles::JAX)
        .functions(&[Function::PJRT_Device_GetAttributes])
        .check(|cx| {
            for device in cx.client()?.addressable_devices()? {
                let attributes = device.attributes()?;
                let names: BTreeSet<&str> = attributes.iter().map(|attribute| attribute.name.as_str()).collect();
                ensure!(!names.contains(""), "an attribute has no name");
                ensure_eq!(names.len(), attributes.len(), "number of different names");
                let again: Vec<String> = device.attributes()?.into_iter().map(|attribute| attribute.name).collect();
                ensure!(
                    again.iter().map(String::as_str).collect::<BTreeSet<_>>() == names,
                    "the second call returned the attributes {again:?}, the first {names:?}"
                );
            }
            Ok(())
        });
    suite
        .case(
            "devices.description.process_index",
            "pjrt_c_api.h, PJRT_DeviceDescription_ProcessIndex: the process that can use the device",
            "frameworks select the devices of their process by it",
        )
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            let client = cx.client()?;
            for device in client.addressable_devices()? {
                ensure_eq!(device.process_index()?, client.process_index()?, "process of an addressable device");
            }
            Ok(())
        });
    suite
        .case(
            "devices.query.local_hardware_id",
            "pjrt_c_api.h, PJRT_Device_LocalHardwareId: an opaque hardware id, or -1",
            "frameworks bind a process to processors by this id",
        )
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            let devices = cx.client()?.addressable_devices()?;
            for device in devices {
                ensure!(device.local_hardware_id()? >= -1, "the hardware id is {}", device.local_hardware_id()?);
            }
            Ok(())
        });
    suite
        .case(
            "devices.query.memory_stats",
            "pjrt_c_api.h, PJRT_Device_MemoryStats: returns bytes_in_use, and fields that are valid if their flag is \
             set",
            "users find memory leaks with these numbers",
        )
        .profiles(Profiles::JAX)
        .functions(&[Function::PJRT_Device_MemoryStats])
        .check(|cx| {
            let stats = cx.device()?.memory_stats()?;
            ensure!(stats.bytes_in_use >= 0, "bytes_in_use is {}", stats.bytes_in_use);
            if let Some(peak) = stats.peak_bytes_in_use {
                ensure!(peak >= stats.bytes_in_use, "the peak {peak} is below bytes_in_use {}", stats.bytes_in_use);
            }
            Ok(())
        });
    suite
        .case(
            "devices.query.memory_stats_follow_buffers",
            "pjrt_c_api.h, PJRT_Device_MemoryStats: bytes_in_use is the number of bytes in use",
            "users find memory leaks with these numbers",
        )
        .functions(&[Function::PJRT_Device_MemoryStats])
        .isolated()
        .check(|cx| {
            let device = cx.device()?;
            let before = device.memory_stats()?.bytes_in_use;
            let buffer = cx.floats(&vec![1.0; 1 << 20])?;
            buffer.wait()?;
            let during = device.memory_stats()?.bytes_in_use;
            ensure!(
                during - before >= 4 << 20,
                "bytes_in_use grew by {} when a buffer of 4194304 bytes was created",
                during - before
            );
            drop(buffer);
            let after = device.memory_stats()?.bytes_in_use;
            ensure!(after < during, "bytes_in_use did not shrink when the buffer was destroyed");
            Ok(())
        });
    suite
        .case(
            "devices.query.clear_memory_stats",
            "pjrt_c_api.h, PJRT_Device_ClearMemoryStats: resets the peaks of the statistics",
            "users measure the peak of one training step",
        )
        .functions(&[Function::PJRT_Device_MemoryStats, Function::PJRT_Device_ClearMemoryStats])
        .isolated()
        .check(|cx| {
            let device = cx.device()?;
            let buffer = cx.floats(&vec![1.0; 1 << 20])?;
            buffer.wait()?;
            drop(buffer);
            let before = device.memory_stats()?;
            device.clear_memory_stats()?;
            let after = device.memory_stats()?;
            if let (Some(before), Some(after)) = (before.peak_bytes_in_use, after.peak_bytes_in_use) {
                ensure!(
                    after + (2 << 20) <= before,
                    "the peak was {before} bytes with a buffer of 4194304 bytes, and is {after} after its reset"
                );
            }
            ensure!(after.bytes_in_use >= 0, "{} bytes are in use", after.bytes_in_use);
            Ok(())
        });
    suite
        .case(
            "devices.query.default_assignment",
            "pjrt_c_api.h, PJRT_Client_DefaultDeviceAssignment: a device for each replica and partition",
            "JAX creates meshes from this assignment",
        )
        .profiles(Profiles::JAX)
        .functions(&[Function::PJRT_Client_DefaultDeviceAssignment])
        .check(|cx| {
            let client = cx.client()?;
            let count = client.addressable_devices()?.len();
            let ids: BTreeSet<i64> =
                client.devices()?.iter().map(|device| device.id().map(i64::from)).collect::<Result<_, _>>()?;
            let assignment = client.default_device_assignment(count, 1)?;
            let assigned: BTreeSet<i64> = assignment.devices().iter().copied().collect();
            ensure_eq!(assigned.len(), count, "number of different devices");
            ensure!(assigned.is_subset(&ids), "the assignment {assigned:?} names devices that do not exist");
            Ok(())
        });
}

fn memories(suite: &mut Suite) {
    suite
        .case(
            "memories.list.of_client",
            "pjrt_c_api.h, PJRT_Client_AddressableMemories: the memories of the client",
            "JAX reports memory kinds from this list",
        )
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            ensure!(!cx.client()?.memories()?.is_empty(), "the client has no memory");
            Ok(())
        });
    suite
        .case(
            "memories.list.unique_ids",
            "pjrt_c_api.h, PJRT_Memory_Id: unique among memories of this type",
            "frameworks keep memories in maps whose key is the id",
        )
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            let memories = cx.client()?.memories()?;
            let ids: BTreeSet<i32> = memories.iter().map(pjrt::Memory::id).collect::<Result<_, _>>()?;
            ensure_eq!(ids.len(), memories.len(), "number of different ids");
            Ok(())
        });
    suite
        .case(
            "memories.list.default_is_listed",
            "pjrt_c_api.h, PJRT_Device_DefaultMemory: one of the device's memories",
            "JAX asks for the default kind of every device",
        )
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            for device in cx.client()?.addressable_devices()? {
                let default = device.default_memory()?.id()?;
                let ids: Vec<i32> = device.memories()?.iter().map(pjrt::Memory::id).collect::<Result<_, _>>()?;
                ensure!(ids.contains(&default), "the default memory {default} is not among {ids:?}");
            }
            Ok(())
        });
    suite
        .case(
            "memories.list.devices_know_memories",
            "pjrt_c_api.h, PJRT_Memory_AddressableByDevices: the devices that can use the memory",
            "frameworks place arrays by these lists",
        )
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            for memory in cx.client()?.memories()? {
                let id = memory.id()?;
                let devices = memory.devices()?;
                ensure!(!devices.is_empty(), "memory {id} belongs to no device");
                for device in devices {
                    let ids: Vec<i32> = device.memories()?.iter().map(pjrt::Memory::id).collect::<Result<_, _>>()?;
                    ensure!(ids.contains(&id), "device {} does not list memory {id}", device.id()?);
                }
            }
            Ok(())
        });
    for name in ["kind", "debug_string", "display_string", "kind_id"] {
        suite
            .case(
                format!("memories.description.{name}"),
                "pjrt_c_api.h, PJRT_Memory_Kind, PJRT_Memory_DebugString, PJRT_Memory_ToString, PJRT_Memory_Kind_Id: \
                 describe the memory",
                "JAX shows and compares them",
            )
            .profiles(Profiles::JAX)
            .check(move |cx| {
                let mut kinds: Vec<(String, i32)> = Vec::new();
                for memory in cx.client()?.memories()? {
                    let text = match name {
                        "kind" => memory.kind()?,
                        "debug_string" => memory.debug_string()?,
                        "display_string" => memory.display_string()?,
                        _ => {
                            kinds.push((memory.kind()?, memory.kind_id()?));
                            continue;
                        }
                    };
                    ensure!(!text.is_empty(), "the {name} of a memory is empty");
                }
                for (kind, id) in &kinds {
                    let same = kinds.iter().all(|(other, number)| (other == kind) == (number == id));
                    ensure!(same, "kinds and their ids do not correspond: {kinds:?}");
                }
                Ok(())
            });
    }
    suite
        .case(
            "memories.buffers.placed",
            "pjrt_c_api.h, PJRT_Client_BufferFromHostBuffer: memory, if not null, is where the buffer is created",
            "frameworks create arrays in pinned host memory for fast transfers and offloading",
        )
        .profiles(Profiles::JAX)
        .check(|cx| {
            for memory in cx.device()?.memories()? {
                let buffer = cx.client()?.upload(Upload::of(&[1.0f32, 2.0]).dims(&[2]).to(&memory))?;
                ensure_eq!(buffer.memory()?.id()?, memory.id()?, "memory of the buffer");
                ensure_eq!(floats(&buffer)?, vec![1.0, 2.0], "contents in the memory {}", memory.kind()?);
            }
            Ok(())
        });
    suite
        .case(
            "memories.buffers.copied",
            "pjrt_c_api.h, PJRT_Buffer_CopyToMemory: copies the buffer to another memory",
            "frameworks offload weights and activations to the host",
        )
        .profiles(Profiles::JAX)
        .functions(&[Function::PJRT_Buffer_CopyToMemory])
        .check(|cx| {
            let buffer = cx.floats(&[1.0, 2.0])?;
            let own = buffer.memory()?.id()?;
            let mut others = 0;
            for memory in cx.client()?.memories()? {
                if memory.id()? == own {
                    continue;
                }
                others += 1;
                let copy = buffer.copy_to(&memory)?;
                ensure_eq!(copy.memory()?.id()?, memory.id()?, "memory of the copy");
                buffer.wait()?;
                ensure_eq!(floats(&copy)?, vec![1.0, 2.0], "contents in the memory {}", memory.kind()?);
            }
            if others == 0 { Err(Stop::Skip("the client has one memory".to_owned())) } else { Ok(()) }
        });
    suite
        .case(
            "memories.outputs.kinds",
            "pjrt_c_api.h, PJRT_Executable_OutputMemoryKinds: returns a memory kind for each output",
            "JAX derives the memory of the result arrays from it",
        )
        .profiles(Profiles::JAX)
        .functions(&[Function::PJRT_Executable_OutputMemoryKinds])
        .check(|cx| {
            let executable = cx.add_one(2)?;
            let kinds = executable.executable().output_memory_kinds()?;
            ensure_eq!(kinds.len(), 1, "number of kinds");
            let buffer = cx.floats(&[1.0, 2.0])?;
            let outputs = executable.execute(&[&buffer])?;
            ensure_eq!(outputs[0].memory()?.kind()?, kinds[0], "kind of the output's memory");
            Ok(())
        });
}

fn copies(suite: &mut Suite) {
    let clause = "pjrt_c_api.h, PJRT_Buffer_CopyToDevice: copies the buffer to another device";
    suite
        .case("devices.copy.to_every_device", clause, "jax.device_put copies arrays between devices")
        .profiles(Profiles::FRAMEWORKS)
        .devices(2)
        .functions(&[Function::PJRT_Buffer_CopyToDevice])
        .check(|cx| {
            let devices = cx.devices(2)?;
            let source = cx.client()?.upload(Upload::of(&[1.0f32, 2.0]).dims(&[2]).to(&devices[0]))?;
            for device in &devices[1..] {
                let copy = source.copy_to(device)?;
                ensure!(is_on(&copy, device)?, "the copy is not on device {}", device.id()?);
                ensure_eq!(floats(&copy)?, vec![1.0, 2.0], "contents");
            }
            Ok(())
        });
    suite
        .case("devices.copy.source_dropped", clause, "frameworks free the source while the copy is pending")
        .profiles(Profiles::FRAMEWORKS)
        .devices(2)
        .functions(&[Function::PJRT_Buffer_CopyToDevice])
        .check(|cx| {
            let devices = cx.devices(2)?;
            for at in 0..10u8 {
                let source =
                    cx.client()?.upload(Upload::of(&vec![f32::from(at); 100_000]).dims(&[100_000]).to(&devices[0]))?;
                let copy = source.copy_to(&devices[1])?;
                drop(source);
                ensure!(floats(&copy)?.iter().all(|value| *value == f32::from(at)), "the copy read freed memory");
            }
            Ok(())
        });
    suite
        .case(
            "devices.placement.upload",
            "pjrt_c_api.h, PJRT_Client_BufferFromHostBuffer: device is where the buffer is created",
            "each part of a sharded array is created on its own device",
        )
        .profiles(Profiles::FRAMEWORKS)
        .devices(2)
        .check(|cx| {
            for device in cx.devices(2)? {
                let buffer = cx.client()?.upload(Upload::of(&[1.0f32]).dims(&[1]).to(&device))?;
                ensure!(is_on(&buffer, &device)?, "the buffer is not on device {}", device.id()?);
            }
            Ok(())
        });
    suite
        .case(
            "devices.placement.execute_on",
            "pjrt_c_api.h, PJRT_LoadedExecutable_Execute: execute_device runs a portable program on that device",
            "PyTorch/XLA compiles a program once, and runs it on any device",
        )
        .profiles(Profiles::FULL)
        .devices(2)
        .check(|cx| {
            let devices = cx.devices(2)?;
            let executable = cx
                .compile_with(&crate::program::add_one(2), &CompileOptions::default().with_portable_executable(true))?;
            for device in &devices {
                let input = cx.client()?.upload(Upload::of(&[1.0f32, 2.0]).dims(&[2]).to(device))?;
                let run =
                    executable.execute_with([Input::Borrow(&input)], &ExecuteOptions::new().with_device(device))?;
                ensure!(is_on(&run.outputs[0], device)?, "the output is not on device {}", device.id()?);
                ensure_eq!(floats(&run.outputs[0])?, vec![2.0, 3.0], "result");
            }
            Ok(())
        });
    suite
        .case(
            "devices.placement.assigned",
            "CompileOptionsProto: device_assignment names the devices of a program",
            "the devices of a mesh may be in any order",
        )
        .profiles(Profiles::FRAMEWORKS)
        .devices(2)
        .check(|cx| {
            for device in cx.devices(2)? {
                let id = i64::from(device.id()?);
                let assignment = DeviceAssignment::new(1, 1, vec![id])
                    .ok_or_else(|| Stop::Fail("the suite's assignment is not valid".to_owned()))?;
                let executable = cx.compile_with(
                    &crate::program::add_one(1),
                    &CompileOptions::default().with_device_assignment(assignment),
                )?;
                let input = cx.client()?.upload(Upload::of(&[1.0f32]).dims(&[1]).to(&device))?;
                let outputs = executable.execute(&[&input])?;
                ensure!(is_on(&outputs[0], &device)?, "the output is not on device {}", device.id()?);
                ensure_eq!(floats(&outputs[0])?, vec![2.0], "result");
            }
            Ok(())
        });
}

fn poison(suite: &mut Suite) {
    let clause = "pjrt_c_api.h, PJRT_Device_PoisonExecution: poisoned is true if the launch exists and was poisoned";
    let why = "frameworks end the runs of a distributed program after an error";
    suite.case("devices.poison.unknown_launch", clause, why).functions(&[Function::PJRT_Device_PoisonExecution]).check(
        |cx| {
            let poisoned = cx.device()?.poison_execution(123_456, ErrorCode::ABORTED, "the reason")?;
            ensure!(!poisoned, "the plugin poisoned a launch that does not exist");
            Ok(())
        },
    );
    suite
        .case("devices.poison.pending_run", clause, why)
        .functions(&[
            Function::PJRT_Device_PoisonExecution,
            Function::PJRT_Client_CreateBuffersForAsyncHostToDevice,
            Function::PJRT_AsyncHostToDeviceTransferManager_TransferData,
            Function::PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer,
        ])
        .isolated()
        .check(|cx| {
            let vector = shape(ElementType::F32, &[2]);
            let manager = AsyncHostToDeviceTransferManager::new(&cx.memory()?, &[vector])?;
            let input = manager.retrieve_buffer(0)?;
            let executable = cx.add_one(2)?;
            let run = executable.execute_with([Input::Borrow(&input)], &ExecuteOptions::new().with_launch_id(77))?;
            let poisoned = cx.device()?.poison_execution(77, ErrorCode::ABORTED, "the reason")?;
            let data: Vec<u8> = [1.0f32, 2.0].iter().flat_map(|value| value.to_ne_bytes()).collect();
            manager.transfer_last_data(0, 0, data)?.wait()?;
            if !poisoned {
                ensure_eq!(floats(&run.outputs[0])?, vec![2.0, 3.0], "result of a run that was not poisoned");
                return Err(Stop::Unsupported(
                    "the plugin does not poison a run that waits for its argument".to_owned(),
                ));
            }
            let Err(error) = run.outputs[0].wait() else { fail!("the result of a poisoned run has no error") };
            ensure!(error.message().contains("the reason"), "the message is {:?}", error.message());
            Ok(())
        });
}
