//! Faults of clients, devices and memories.

use std::ptr::null_mut;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use pjrt_sys::{PJRT_Client, PJRT_Device, PJRT_Memory, slot};

use crate::device::{Answer, Device, Shared, ask, leaked, list, read_at, write_at};
use crate::mutant::Mutant;

/// The newest client, if the mutant has called [`remember_client`].
static CLIENT: AtomicPtr<PJRT_Client> = AtomicPtr::new(null_mut());

/// Returns the newest client, if the mutant has called [`remember_client`].
pub(super) fn client() -> Option<*mut PJRT_Client> {
    Some(CLIENT.load(Ordering::SeqCst)).filter(|client| !client.is_null())
}

/// Makes [`client`] return the newest client.
pub(super) fn remember_client(device: &mut Device) {
    device.after::<slot::PJRT_Client_Create>(|args| CLIENT.store(args.client, Ordering::SeqCst));
}

/// Returns the addressable devices of a client.
pub(super) fn devices(client: *mut PJRT_Client) -> Vec<*mut PJRT_Device> {
    let found = ask::<slot::PJRT_Client_AddressableDevices>(|args| args.client = client);
    found.map_or_else(Vec::new, |found| list(found.addressable_devices, found.num_addressable_devices))
}

pub(super) fn first_device(client: *mut PJRT_Client) -> *mut PJRT_Device {
    devices(client).first().copied().unwrap_or(null_mut())
}

pub(super) fn default_memory(device: *mut PJRT_Device) -> *mut PJRT_Memory {
    ask::<slot::PJRT_Device_DefaultMemory>(|args| args.device = device).map_or(null_mut(), |found| found.memory)
}

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant::new("client.platform_name_empty", "PJRT_Client_PlatformName: identifies the platform", |device| {
        device.after::<slot::PJRT_Client_PlatformName>(|args| args.platform_name_size = 0);
    }),
    Mutant::new(
        "client.platform_name_with_terminator",
        "PJRT_Client_PlatformName: the size does not count a NUL",
        |device| {
            device.after::<slot::PJRT_Client_PlatformName>(|args| {
                let mut name = list(args.platform_name, args.platform_name_size);
                name.push(0);
                args.platform_name_size = name.len();
                args.platform_name = leaked(name);
            });
        },
    ),
    Mutant::new("client.platform_version_empty", "PJRT_Client_PlatformVersion: a version for people", |device| {
        device.after::<slot::PJRT_Client_PlatformVersion>(|args| args.platform_version_size = 0);
    }),
    Mutant::new("client.process_index", "PJRT_Client_ProcessIndex: 0 in a program of one process", |device| {
        device.after::<slot::PJRT_Client_ProcessIndex>(|args| args.process_index = 1);
    }),
    Mutant::new("client.second_client_fails", "PJRT_Client_Create: a client can follow a destroyed one", |device| {
        let count = AtomicUsize::new(0);
        device.replace::<slot::PJRT_Client_Create>(move |call| {
            if count.fetch_add(1, Ordering::SeqCst) > 0 {
                let code = pjrt_sys::PJRT_Error_Code::PJRT_Error_Code_ALREADY_EXISTS;
                return crate::device::error(code, "the process had a client before");
            }
            call.pass()
        });
    }),
    Mutant::new("client.create_fails", "PJRT_Client_Create: creates a client", |device| {
        device.replace::<slot::PJRT_Client_Create>(|_| {
            crate::device::error(pjrt_sys::PJRT_Error_Code::PJRT_Error_Code_INTERNAL, "the device does not answer")
        });
    }),
    Mutant::new("devices.list_is_empty", "PJRT_Client_AddressableDevices: the devices of this process", |device| {
        device.after::<slot::PJRT_Client_AddressableDevices>(|args| args.num_addressable_devices = 0);
    }),
    Mutant::new("devices.ids_negative", "PJRT_DeviceDescription_Id: the id of a device is 0 or more", |device| {
        device.after::<slot::PJRT_DeviceDescription_Id>(|args| args.id = -1 - args.id);
    }),
    Mutant::new(
        "devices.poison_without_message",
        "PJRT_Device_PoisonExecution: the run fails with the error",
        |device| {
            device.before::<slot::PJRT_Device_PoisonExecution>(|args| args.error_message_size = 0);
        },
    ),
    Mutant::new("devices.listed_twice", "PJRT_Client_Devices: lists each device once", |device| {
        device.after::<slot::PJRT_Client_Devices>(|args| {
            let mut all = list(args.devices, args.num_devices);
            all.extend(all.first().copied());
            args.num_devices = all.len();
            args.devices = leaked(all);
        });
    }),
    Mutant::new("devices.missing_in_list_of_all", "PJRT_Client_Devices: includes the addressable devices", |device| {
        device.after::<slot::PJRT_Client_Devices>(|args| args.num_devices = 1);
    }),
    Mutant::new("devices.order_changes", "PJRT_Client_AddressableDevices: the list does not change", |device| {
        let calls = AtomicUsize::new(0);
        device.after::<slot::PJRT_Client_AddressableDevices>(move |args| {
            let mut all = list(args.addressable_devices, args.num_addressable_devices);
            let count = all.len().max(1);
            all.rotate_left(calls.fetch_add(1, Ordering::Relaxed) % count);
            args.addressable_devices = leaked(all);
        });
    }),
    Mutant::new("devices.same_id", "PJRT_DeviceDescription_Id: different devices have different ids", |device| {
        device.after::<slot::PJRT_DeviceDescription_Id>(|args| args.id = 0);
    }),
    Mutant::new("errors.lookup_finds_first", "PJRT_Client_LookupDevice: returns the device with the id", |device| {
        device.before::<slot::PJRT_Client_LookupDevice>(|args| {
            args.id = if (0..100).contains(&args.id) { 0 } else { args.id };
        });
    }),
    Mutant::new(
        "errors.local_lookup_finds_first",
        "PJRT_Client_LookupAddressableDevice: returns the device with the local hardware id",
        |device| {
            device.before::<slot::PJRT_Client_LookupAddressableDevice>(|args| {
                args.local_hardware_id =
                    if (0..100).contains(&args.local_hardware_id) { 0 } else { args.local_hardware_id };
            });
        },
    ),
    Mutant::new("devices.local_hardware_id_negative", "PJRT_Device_LocalHardwareId: an id, or -1", |device| {
        device.after::<slot::PJRT_Device_LocalHardwareId>(|args| args.local_hardware_id = -7);
    }),
    Mutant::new(
        "devices.process_of_device",
        "PJRT_DeviceDescription_ProcessIndex: the process of the device",
        |device| {
            device.after::<slot::PJRT_DeviceDescription_ProcessIndex>(|args| args.process_index = 3);
        },
    ),
    Mutant::new(
        "devices.not_addressable",
        "PJRT_Device_IsAddressable: whether the process can use the device",
        |device| {
            device.after::<slot::PJRT_Device_IsAddressable>(|args| args.is_addressable = false.into());
        },
    ),
    Mutant::new("devices.kind_empty", "PJRT_DeviceDescription_Kind: identifies the kind of device", |device| {
        device.after::<slot::PJRT_DeviceDescription_Kind>(|args| args.device_kind_size = 0);
    }),
    Mutant::new("devices.debug_string_empty", "PJRT_DeviceDescription_DebugString: a string for logs", |device| {
        device.after::<slot::PJRT_DeviceDescription_DebugString>(|args| args.debug_string_size = 0);
    }),
    Mutant::new(
        "devices.attribute_listed_twice",
        "PJRT_DeviceDescription_Attributes: an attribute has one value",
        |device| {
            device.after::<slot::PJRT_DeviceDescription_Attributes>(|args| {
                let mut attributes = list(args.attributes, args.num_attributes);
                let value = pjrt_sys::PJRT_NamedValue {
                    name: leaked(*b"coords").cast(),
                    name_size: 6,
                    value_size: 1,
                    type_: pjrt_sys::PJRT_NamedValue_Type::PJRT_NamedValue_kInt64,
                    ..pjrt_sys::AbiStruct::new()
                };
                attributes.extend([value; 2]);
                args.num_attributes = attributes.len();
                args.attributes = leaked(attributes);
            });
        },
    ),
    Mutant::new(
        "devices.memory_stats_constant",
        "PJRT_Device_MemoryStats: bytes_in_use follows the buffers",
        |device| {
            device.after::<slot::PJRT_Device_MemoryStats>(|args| args.bytes_in_use = 0);
        },
    ),
    Mutant::new(
        "devices.memory_peak_below_use",
        "PJRT_Device_MemoryStats: the peak is at least bytes_in_use",
        |device| {
            device.after::<slot::PJRT_Device_MemoryStats>(|args| {
                args.peak_bytes_in_use = args.bytes_in_use - 1;
                args.peak_bytes_in_use_is_set = true.into();
            });
        },
    ),
    Mutant::new(
        "devices.default_assignment_repeats",
        "PJRT_Client_DefaultDeviceAssignment: one device for each replica",
        |device| {
            device.after::<slot::PJRT_Client_DefaultDeviceAssignment>(|args| {
                for at in 1..args.default_assignment_size {
                    let first: i32 = read_at(args.default_assignment.cast_const(), 0);
                    write_at(args.default_assignment, at, first);
                }
            });
        },
    ),
    Mutant::new(
        "devices.upload_to_first",
        "PJRT_Client_BufferFromHostBuffer: device is where the buffer is",
        |device| {
            device.before::<slot::PJRT_Client_BufferFromHostBuffer>(|args| {
                if args.memory.is_null() {
                    args.device = first_device(args.client);
                }
            });
        },
    ),
    Mutant::new("devices.buffer_is_on_first", "PJRT_Buffer_Device: the device of the buffer", |device| {
        remember_client(device);
        device.after::<slot::PJRT_Buffer_Device>(|args| {
            args.device = client().map_or(args.device, first_device);
        });
    }),
    Mutant::new("devices.copy_stays_on_device", "PJRT_Buffer_CopyToDevice: copies to dst_device", |device| {
        device.before::<slot::PJRT_Buffer_CopyToDevice>(|args| {
            let own = ask::<slot::PJRT_Buffer_Device>(|new| new.buffer = args.buffer);
            args.dst_device = own.map_or(args.dst_device, |own| own.device);
        });
    }),
    Mutant::new("devices.execute_device_ignored", "PJRT_LoadedExecutable_Execute: runs on execute_device", |device| {
        device.before::<slot::PJRT_LoadedExecutable_Execute>(|args| args.execute_device = null_mut());
    }),
    Mutant::new(
        "devices.unknown_launch_poisoned",
        "PJRT_Device_PoisonExecution: poisoned is false for an unknown launch",
        |device| {
            device.after::<slot::PJRT_Device_PoisonExecution>(|args| args.poisoned = true.into());
        },
    ),
    Mutant::new(
        "memories.default_of_other_device",
        "PJRT_Device_DefaultMemory: one of the device's memories",
        |device| {
            let first: Mutex<Option<Shared<PJRT_Memory>>> = Mutex::new(None);
            device.after::<slot::PJRT_Device_DefaultMemory>(move |args| {
                let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
                args.memory = first.get_or_insert(Shared(args.memory)).get();
            });
        },
    ),
    Mutant::new("memories.same_id", "PJRT_Memory_Id: different memories have different ids", |device| {
        device.after::<slot::PJRT_Memory_Id>(|args| args.id = 0);
    }),
    Mutant::new("memories.kind_empty", "PJRT_Memory_Kind: the kind of the memory", |device| {
        device.after::<slot::PJRT_Memory_Kind>(|args| args.kind_size = 0);
    }),
    Mutant::new("memories.kind_id_is_constant", "PJRT_Memory_Kind_Id: different kinds have different ids", |device| {
        device.after::<slot::PJRT_Memory_Kind_Id>(|args| args.kind_id = 5);
    }),
    Mutant::new(
        "memories.belongs_to_no_device",
        "PJRT_Memory_AddressableByDevices: the devices that can use it",
        |device| {
            device.after::<slot::PJRT_Memory_AddressableByDevices>(|args| args.num_devices = 0);
        },
    ),
    Mutant::new(
        "memories.belongs_to_other_device",
        "PJRT_Memory_AddressableByDevices: the devices that can use it",
        |device| {
            remember_client(device);
            device.after::<slot::PJRT_Memory_AddressableByDevices>(|args| {
                if let Some(client) = client() {
                    args.devices = leaked([first_device(client)]);
                }
            });
        },
    ),
    Mutant::new(
        "memories.device_lists_first_only",
        "PJRT_Device_AddressableMemories: all memories of the device",
        |device| {
            device.after::<slot::PJRT_Device_AddressableMemories>(|args| args.num_memories = args.num_memories.min(1));
        },
    ),
    Mutant::new(
        "memories.upload_to_default",
        "PJRT_Client_BufferFromHostBuffer: memory is where the buffer is",
        |device| {
            device.before::<slot::PJRT_Client_BufferFromHostBuffer>(|args| {
                if !args.memory.is_null() {
                    args.memory = default_memory(first_device(args.client));
                }
            });
        },
    ),
    Mutant::new("memories.copy_to_default", "PJRT_Buffer_CopyToMemory: copies to dst_memory", |device| {
        remember_client(device);
        device.before::<slot::PJRT_Buffer_CopyToMemory>(|args| {
            if let Some(client) = client() {
                args.dst_memory = default_memory(first_device(client));
            }
        });
    }),
    Mutant::new("memories.copy_has_no_contents", "PJRT_Buffer_CopyToMemory: copies the contents", |device| {
        remember_client(device);
        device.replace::<slot::PJRT_Buffer_CopyToMemory>(|call| {
            let args = call.args;
            let Some(client) = client() else { return call.pass() };
            let shape = ask::<slot::PJRT_Buffer_Dimensions>(|new| new.buffer = args.buffer);
            let ty = ask::<slot::PJRT_Buffer_ElementType>(|new| new.buffer = args.buffer);
            let (Some(shape), Some(ty)) = (shape, ty) else { return call.pass() };
            let new = ask::<slot::PJRT_Client_CreateUninitializedBuffer>(|new| {
                new.client = client;
                (new.shape_dims, new.shape_num_dims) = (shape.dims, shape.num_dims);
                new.shape_element_type = ty.type_;
                new.memory = args.dst_memory;
            });
            let Some(new) = new else { return call.pass() };
            call.args.dst_buffer = new.buffer;
            Answer::SUCCESS
        });
    }),
    Mutant::new(
        "memories.output_kind",
        "PJRT_Executable_OutputMemoryKinds: the kind of each output's memory",
        |device| {
            device.after::<slot::PJRT_Executable_OutputMemoryKinds>(|args| {
                let count = args.num_outputs;
                args.memory_kinds = leaked(vec![leaked(*b"pinned_host").cast_const().cast(); count]);
                args.memory_kind_sizes = leaked(vec![11_usize; count]);
            });
        },
    ),
    Mutant::new("memories.buffer_in_other_memory", "PJRT_Buffer_Memory: the memory of the buffer", |device| {
        device.after::<slot::PJRT_Buffer_Memory>(|args| {
            let own = ask::<slot::PJRT_Buffer_Device>(|new| new.buffer = args.buffer);
            let all = own.and_then(|own| ask::<slot::PJRT_Device_AddressableMemories>(|new| new.device = own.device));
            if let Some(all) = all {
                args.memory = list(all.memories, all.num_memories).last().copied().unwrap_or(args.memory);
            }
        });
    }),
];
