//! The object behind a `PJRT_Memory*`: a memory of one or more devices. The object's first word points to a function
//! table, through which frameworks attach their own data.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use pjrt_sys::{AbiStruct, PJRT_Device, PJRT_Memory, PJRT_Memory_FunctionTable};

use crate::MemoryInfo;
use crate::abi::objects::owned_arrays::Pointers;

/// The object behind a `PJRT_Memory*`. The client owns it.
#[repr(C)]
pub(crate) struct Memory {
    base: PJRT_Memory,
    pub(crate) id: i32,
    pub(crate) info: MemoryInfo,
    pub(crate) device_indices: Vec<usize>,
    pub(crate) debug_string: String,
    pub(crate) to_string: String,
    devices: OnceLock<Pointers<PJRT_Device>>,
    user_data: Mutex<Vec<UserData>>,
}

// SAFETY: the function table is a constant, and all other fields never change or have their own synchronization.
unsafe impl Send for Memory {}
// SAFETY: the reason for `Send` of this type also applies here.
unsafe impl Sync for Memory {}

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

    pub(crate) fn devices(&self) -> &[*mut PJRT_Device] {
        self.devices.get().map_or(&[], Pointers::as_slice)
    }

    fn user_data(&self) -> MutexGuard<'_, Vec<UserData>> {
        self.user_data.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
