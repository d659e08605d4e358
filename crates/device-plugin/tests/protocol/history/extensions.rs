//! Cases for the functions of the extensions that the SDK adds to every plugin.

use pjrt_sys::*;

use super::fixture::{DIMS, S32};
use crate::framework::text;

/// Members of extensions that are not functions, or have a separate test.
pub const WITHOUT_CASE: &[&str] = &[];

fn destroy(layout: *mut PJRT_Layouts_MemoryLayout) {
    let mut age = super::Caller { age: super::Age::Future(0), called: Vec::new(), more: false };
    age.extension::<extension_slot::PJRT_Layouts_MemoryLayout_Destroy>(|args| args.layout = layout).unwrap();
}

fn layout_of(buffer: *mut PJRT_Buffer) -> *mut PJRT_Layouts_MemoryLayout {
    let mut age = super::Caller { age: super::Age::Future(0), called: Vec::new(), more: false };
    let args = age.extension::<extension_slot::PJRT_Layouts_PJRT_Buffer_MemoryLayout>(|args| args.buffer = buffer);
    args.unwrap().layout
}

super::table! { CASES in extension_slot:
    PJRT_Layouts_MemoryLayout_Destroy(w, c) {
        let layout = layout_of(w.buffer);
        if c.extension::<S>(|args| args.layout = layout).is_none() {
            destroy(layout);
        }
    }
    PJRT_Layouts_MemoryLayout_Serialize(w, c) {
        let layout = layout_of(w.buffer);
        if let Some(args) = c.extension::<S>(|args| args.layout = layout) {
            assert_eq!(unsafe { text(args.serialized_bytes, args.serialized_bytes_size) }, "{0}");
            unsafe { args.serialized_layout_deleter.unwrap()(args.serialized_layout) };
        }
        destroy(layout);
    }
    PJRT_Layouts_PJRT_Client_GetDefaultLayout(w, c) {
        let called = c.extension::<S>(|args| {
            (args.client, args.type_, args.dims, args.num_dims) = (w.client, S32, DIMS.as_ptr(), 1);
        });
        if let Some(args) = called {
            destroy(args.layout);
        }
    }
    PJRT_Layouts_PJRT_Buffer_MemoryLayout(w, c) {
        if let Some(args) = c.extension::<S>(|args| args.buffer = w.buffer) {
            destroy(args.layout);
        }
    }
    PJRT_Layouts_PJRT_Topology_GetDefaultLayout(w, c) {
        let called = c.extension::<S>(|args| {
            (args.topology_description, args.type_) = (w.topology, S32);
            (args.dims, args.num_dims) = (DIMS.as_ptr(), 1);
        });
        if let Some(args) = called {
            destroy(args.layout);
        }
    }
    PJRT_Layouts_PJRT_Executable_GetOutputLayouts(w, c) {
        if let Some(args) = c.extension::<S>(|args| args.executable = w.executable) {
            assert_eq!(args.num_outputs, 1);
        }
    }
    PJRT_Layouts_PJRT_Executable_GetParameterLayouts(w, c) {
        if let Some(args) = c.extension::<S>(|args| args.executable = w.executable) {
            assert_eq!(args.num_parameters, 1);
        }
    }
    PJRT_Shardings_PJRT_Executable_ParameterShardings(w, c) {
        if let Some(args) = c.extension::<S>(|args| args.executable = w.executable) {
            assert_eq!(args.num_parameters, 0);
        }
    }
    PJRT_Shardings_PJRT_Executable_OutputShardings(w, c) {
        if let Some(args) = c.extension::<S>(|args| args.executable = w.executable) {
            assert_eq!(args.num_outputs, 0);
        }
    }
    PJRT_DeviceDescription_MemoryDescriptions(w, c) {
        if let Some(args) = c.extension::<S>(|args| args.device_description = w.description) {
            assert_eq!((args.num_memory_descriptions, args.default_memory_index), (2, 0));
        }
    }
    PJRT_MemoryDescription_Kind(w, c) {
        type Descriptions = extension_slot::PJRT_DeviceDescription_MemoryDescriptions;
        let mut age = super::Caller { age: super::Age::Future(0), called: Vec::new(), more: false };
        let all = age.extension::<Descriptions>(|args| args.device_description = w.description).unwrap();
        let first = unsafe { *all.memory_descriptions };
        if let Some(args) = c.extension::<S>(|args| args.memory_description = first) {
            assert_eq!(unsafe { text(args.kind, args.kind_size) }, "device");
        }
    }
    PJRT_HostMemoryAllocator_Allocate(w, c) {
        let called = c.extension::<S>(|args| (args.client, args.size, args.numa_node) = (w.client, 8, -1));
        if let Some(args) = called {
            unsafe { args.deleter.unwrap()(args.ptr.cast(), args.deleter_arg) };
        }
    }
}
