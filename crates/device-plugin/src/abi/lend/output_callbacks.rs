//! Callbacks of the framework that receive values from a running program.

use std::sync::Arc;

use pjrt_sys::{PJRT_Buffer_Type, PJRT_HloOutputCallbackInfo};

use crate::abi::lend::gate::Gate;
use crate::abi::table::ffi_read;
use crate::{Error, HostArray, Result};

/// The output callbacks of one execution. Cheap to clone. The program can call the callbacks until the execution ends.
#[derive(Clone, Default)]
#[doc(alias = "PJRT_HloOutputCallbackInfo")]
pub struct OutputCallbacks(Option<Arc<Callbacks>>);

struct Callbacks {
    infos: Vec<Info>,
    /// Open while the program may call the callbacks.
    gate: Arc<Gate>,
}

struct Info(PJRT_HloOutputCallbackInfo);

// SAFETY: V4 (callbacks): callbacks may be called from any thread.
unsafe impl Send for Info {}
// SAFETY: the reason for `Send` of this type also applies here.
unsafe impl Sync for Info {}

impl OutputCallbacks {
    /// Reads the output callbacks in the execute options of a call. They can be called while `gate` is open.
    ///
    /// # Safety
    ///
    /// V1 (argument structs) and V3 (arrays and text) hold for the list, and V4 (callbacks) for the callbacks until the
    /// event of the gate is ready.
    pub(crate) unsafe fn read(infos: *const PJRT_HloOutputCallbackInfo, len: usize, gate: &Arc<Gate>) -> Result<Self> {
        if len == 0 {
            return Ok(Self::default());
        }
        // SAFETY: V1 (argument structs), V3 (arrays and text) and V4 (callbacks), which the caller promises.
        let infos = unsafe { ffi_read::slice(infos, len, "options->hlo_output_callbacks") }?;
        if infos.iter().any(|info| info.callback.is_none()) {
            return Err(Error::argument("a callback of options->hlo_output_callbacks is null"));
        }
        let infos = infos.iter().map(|info| Info(*info)).collect();
        Ok(Self(Some(Arc::new(Callbacks { infos, gate: Arc::clone(gate) }))))
    }

    /// Returns whether the execution has no output callbacks.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the id and the number of operands of each callback.
    pub fn ids(&self) -> impl Iterator<Item = (i64, usize)> {
        self.0.iter().flat_map(|all| all.infos.iter().map(|info| (info.0.callback_id, info.0.num_operands)))
    }

    /// Passes `value` to the callback with the given id. `operand` is the index of the value among the callback's
    /// operands, and `(replica, partition)` identifies the device that computed the value. The value must be dense and
    /// row-major. The callback may block.
    ///
    /// # Errors
    ///
    /// Returns `INVALID_ARGUMENT` if the callback or operand does not exist, and `FAILED_PRECONDITION` if the execution
    /// has ended.
    pub fn call(&self, id: i64, (replica, partition): (i64, i64), operand: usize, value: &HostArray<'_>) -> Result<()> {
        let known = |info: &&Info| info.0.callback_id == id && operand < info.0.num_operands;
        let callbacks = self.0.as_deref();
        let info = callbacks.and_then(|callbacks| callbacks.infos.iter().find(known)).ok_or_else(|| {
            Error::invalid_argument(format!(
                "the framework passed no output callback for operand {operand} of callback {id}"
            ))
        })?;
        let open = callbacks.and_then(|callbacks| callbacks.gate.enter());
        let _open = open.ok_or_else(|| {
            Error::failed_precondition("the execution has ended, so its output callbacks are released")
        })?;
        let index = i64::try_from(operand).map_err(|_| Error::invalid_argument(format!("operand {operand}")))?;
        let (shape, Some(callback)) = (value.shape(), info.0.callback) else { return Ok(()) };
        let dimensions = &shape.dimensions;
        let element_type = PJRT_Buffer_Type(shape.element_type.as_raw());
        let data = value.bytes().as_ptr().cast();
        let (dims, rank) = (dimensions.as_ptr(), dimensions.len());
        // SAFETY: V4 (callbacks): the data, the extents and the rank describe one array, which lives until the call
        // returns.
        unsafe { callback(replica, partition, data, dims, rank, element_type, index, info.0.user_arg) };
        Ok(())
    }
}

impl std::fmt::Debug for OutputCallbacks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.ids()).finish()
    }
}
