//! `PJRT_Memory`: a memory of one or more devices. The object's first word points to a function table, through which
//! frameworks attach their own data.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use pjrt_sys::{AbiStruct, PJRT_Device, PJRT_Memory, PJRT_Memory_FunctionTable};
use plugin_macros::entry;

use crate::abi::objects::owned_arrays::Pointers;
use crate::abi::table::ffi_read::handles;
use crate::{MemoryInfo, Result};

/// The object behind a `PJRT_Memory*`. The client owns it.
#[repr(C)]
pub(crate) struct Memory {
    base: PJRT_Memory,
    pub(crate) id: i32,
    pub(crate) info: MemoryInfo,
    pub(crate) device_indices: Vec<usize>,
    debug_string: String,
    to_string: String,
    devices: OnceLock<Pointers<PJRT_Device>>,
    user_data: Mutex<Vec<UserData>>,
}

// SAFETY: the function table is a constant, and all other fields never change or have their own synchronization.
unsafe impl Send for Memory {}
// SAFETY: the reason for `Send` of this type also applies here.
unsafe impl Sync for Memory {}

handles! {
    PJRT_Memory => Memory;
}

const FUNCTIONS: &PJRT_Memory_FunctionTable = &PJRT_Memory_FunctionTable {
    struct_size: PJRT_Memory_FunctionTable::STRUCT_SIZE,
    extension_start: null_mut(),
    instance_struct_size: size_of::<PJRT_Memory>(),
    get_user_data: Some(get_user_data),
    set_user_data: Some(set_user_data),
};

/// Data that a framework attached to a memory. It is freed when the framework replaces it or when the memory is
/// destroyed.
struct UserData {
    key: usize,
    data: *mut c_void,
    destroy: Option<unsafe extern "C" fn(*mut c_void)>,
}

impl Drop for UserData {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy {
            // SAFETY: V4 (callbacks): the data is not used after this call.
            unsafe { destroy(self.data) };
        }
    }
}

/// # Safety
///
/// V2 (handles) holds for `memory`.
unsafe extern "C" fn get_user_data(memory: *mut PJRT_Memory, key: *const c_void) -> *mut c_void {
    // SAFETY: V2 (handles) and V5 (opaque types).
    let memory = unsafe { memory.cast::<Memory>().as_ref() };
    let find =
        |memory: &Memory| memory.user_data().iter().find(|known| known.key == key.addr()).map(|known| known.data);
    memory.and_then(find).unwrap_or(null_mut())
}

/// # Safety
///
/// V2 (handles) holds for `memory`, and V4 (callbacks) for `destroy`.
unsafe extern "C" fn set_user_data(
    memory: *mut PJRT_Memory,
    key: *const c_void,
    data: *mut c_void,
    destroy: Option<unsafe extern "C" fn(*mut c_void)>,
) {
    // SAFETY: V2 (handles) and V5 (opaque types).
    let Some(memory) = (unsafe { memory.cast::<Memory>().as_ref() }) else { return };
    let new = UserData { key: key.addr(), data, destroy };
    let mut all = memory.user_data();
    let before = match all.iter_mut().find(|known| known.key == new.key) {
        Some(known) => Some(std::mem::replace(known, new)),
        None => {
            all.push(new);
            None
        }
    };
    // Release the lock before calling the framework's destructor.
    drop(all);
    drop(before);
}

impl Memory {
    pub(crate) fn new(id: usize, info: MemoryInfo, device_indices: Vec<usize>) -> Self {
        let ids: Vec<String> = info.devices.iter().map(i32::to_string).collect();
        Self {
            base: PJRT_Memory { vtable: FUNCTIONS },
            id: i32::try_from(id).unwrap_or(i32::MAX),
            debug_string: format!("{} memory {id} of devices {}", info.kind, ids.join(", ")),
            to_string: format!("{}:{id}", info.kind),
            info,
            device_indices,
            devices: OnceLock::new(),
            user_data: Mutex::default(),
        }
    }

    pub(crate) fn link_devices(&self, all: &[*mut PJRT_Device]) {
        self.devices.get_or_init(|| self.device_indices.iter().map(|device| all[*device]).collect());
    }

    fn user_data(&self) -> MutexGuard<'_, Vec<UserData>> {
        self.user_data.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[entry]
unsafe fn PJRT_Memory_Id<P: crate::DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Memory_Id_Args,
    memory: &Memory,
) -> Result<()> {
    args.id = memory.id;
    Ok(())
}

#[entry]
unsafe fn PJRT_Memory_Kind<P: crate::DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Memory_Kind_Args,
    memory: &Memory,
) -> Result<()> {
    args.kind = memory.info.kind.as_ptr().cast();
    args.kind_size = memory.info.kind.len();
    Ok(())
}

#[entry]
unsafe fn PJRT_Memory_Kind_Id<P: crate::DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Memory_Kind_Id_Args,
    memory: &Memory,
) -> Result<()> {
    args.kind_id = memory.info.kind_id;
    Ok(())
}

#[entry]
unsafe fn PJRT_Memory_DebugString<P: crate::DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Memory_DebugString_Args,
    memory: &Memory,
) -> Result<()> {
    args.debug_string = memory.debug_string.as_ptr().cast();
    args.debug_string_size = memory.debug_string.len();
    Ok(())
}

#[entry]
unsafe fn PJRT_Memory_ToString<P: crate::DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Memory_ToString_Args,
    memory: &Memory,
) -> Result<()> {
    args.to_string = memory.to_string.as_ptr().cast();
    args.to_string_size = memory.to_string.len();
    Ok(())
}

#[entry]
unsafe fn PJRT_Memory_AddressableByDevices<P: crate::DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Memory_AddressableByDevices_Args,
    memory: &Memory,
) -> Result<()> {
    let devices = memory.devices.get().map_or(&[][..], Pointers::as_slice);
    args.devices = devices.as_ptr();
    args.num_devices = devices.len();
    Ok(())
}
