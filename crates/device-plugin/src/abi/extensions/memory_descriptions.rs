//! The memory descriptions extension: describes the memories of devices, including devices that are not present.

use crate::abi::extensions::link::extension;
use crate::abi::table::entry::entries;

extension! {
    /// The memory descriptions extension. Plugins of this SDK always offer it.
    MemoryDescriptions = PJRT_MemoryDescriptions_Extension if true;
    PJRT_DeviceDescription_MemoryDescriptions: PJRT_DeviceDescription_MemoryDescriptions,
    PJRT_MemoryDescription_Kind: PJRT_MemoryDescription_Kind,
}

entries! {
    in extension_slot;

    PJRT_DeviceDescription_MemoryDescriptions(args, device_description) {
        let memories = device_description.memory_handles.as_slice();
        args.memory_descriptions = memories.as_ptr().cast();
        args.num_memory_descriptions = memories.len();
        // The first memory is the default one. `usize::MAX`, which the header writes as -1, means that the device has
        // no memory.
        args.default_memory_index = if memories.is_empty() { usize::MAX } else { 0 };
        Ok(())
    }

    PJRT_MemoryDescription_Kind(args, memory_description) {
        args.kind = memory_description.kind.as_ptr().cast();
        args.kind_size = memory_description.kind.len();
        args.kind_id = memory_description.kind_id;
        Ok(())
    }
}
