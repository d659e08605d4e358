//! Data that a framework passes to the custom calls of an execution.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::abi::lend::gate::{Gate, Open};
use crate::{Error, ErrorCode, Result};

/// User data of an execution, by type id. Cheap to clone. The framework owns the data, which stays valid until the
/// execution ends. Then handlers in C can no longer be called with the context. The default context has no data.
#[derive(Clone, Debug, Default)]
#[doc(alias = "PJRT_ExecuteContext")]
pub struct ExecuteContext {
    data: Arc<Mutex<Vec<UserData>>>,
    /// Open until the execution ends. `None` for a context of no execution. Safe code cannot add data to such a
    /// context.
    gate: Option<Arc<Gate>>,
}

/// User data for handlers: the id of its type, and its address. The SDK never dereferences the address.
#[derive(Clone, Copy, PartialEq, Eq)]
#[doc(alias = "PJRT_FFI_UserData")]
#[non_exhaustive]
pub struct UserData {
    /// Id of the data's type. [`Registry::type_id`](super::Registry::type_id) returns the id of the type with a given
    /// name.
    pub type_id: i64,
    /// Address of the data. The provenance of the address is exposed, so `std::ptr::with_exposed_provenance_mut`
    /// returns a pointer that can be dereferenced.
    pub address: usize,
}

impl fmt::Debug for UserData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UserData(type {}, {:#x})", self.type_id, self.address)
    }
}

impl ExecuteContext {
    fn list(&self) -> MutexGuard<'_, Vec<UserData>> {
        self.data.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the context of an execution with the same data. The gate is that of the execution.
    pub(crate) fn of_execution(&self, gate: &Arc<Gate>) -> Self {
        Self { data: Arc::clone(&self.data), gate: Some(Arc::clone(gate)) }
    }

    /// Keeps the data valid until the returned value is dropped: the execution ends after that.
    ///
    /// # Errors
    ///
    /// Returns `FAILED_PRECONDITION` if the execution has ended.
    pub(crate) fn enter(&self) -> Result<Option<Arc<Open>>> {
        let Some(gate) = &self.gate else { return Ok(None) };
        gate.enter().map(Some).ok_or_else(|| {
            Error::failed_precondition("the execution of the custom call has ended, so its user data may be freed")
        })
    }

    /// Adds user data. Handlers in C trust its address, so only frameworks can add data.
    ///
    /// # Errors
    ///
    /// Returns `ALREADY_EXISTS` if the context already contains data of this type.
    pub(crate) fn add(&self, data: UserData) -> Result<()> {
        let mut list = self.list();
        if list.iter().any(|known| known.type_id == data.type_id) {
            return Err(Error::new(
                ErrorCode::ALREADY_EXISTS,
                format!("the context already has user data of type {}", data.type_id),
            ));
        }
        list.push(data);
        Ok(())
    }

    /// Returns the user data of this type, or `None` if the context does not contain any.
    pub fn get(&self, type_id: i64) -> Option<UserData> {
        self.list().iter().find(|data| data.type_id == type_id).copied()
    }

    /// Returns all user data, in the order in which it was added.
    pub fn user_data(&self) -> Vec<UserData> {
        self.list().clone()
    }
}
