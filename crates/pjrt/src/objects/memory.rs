//! `PJRT_Memory_*`: the memories of a client.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use pjrt_sys::*;

use crate::error::Error;
use crate::objects::owners::{Client, ClientInner};
use crate::table::handle::Handle;
use crate::table::read;

/// A memory of a client, such as the memory on a device, or host memory that a device can access.
///
/// ```
/// # use pjrt::{ClientOptions, Upload};
/// # let client = plugin_registry::open("cpu")?.client(&ClientOptions::new())?;
/// let device = client.default_device()?;
/// let memories = device.memories()?;
/// let pinned = memories.iter().find(|memory| memory.kind().is_ok_and(|kind| kind == "pinned_host"));
/// let x = client.upload(Upload::of(&[1.0f32]).dims(&[1]).to(pinned.ok_or("the device has no pinned memory")?))?;
/// assert_eq!(x.memory()?.kind()?, "pinned_host");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Memory(Handle<PJRT_Memory, Arc<ClientInner>>);

impl Memory {
    /// # Safety
    ///
    /// `raw` is a live memory of `client`.
    pub(crate) unsafe fn new(raw: NonNull<PJRT_Memory>, client: Arc<ClientInner>) -> Self {
        // SAFETY: this function's contract: the memory is live and belongs to `client`.
        Self(unsafe { Handle::new(raw, client) })
    }

    pub(crate) fn list(
        client: &Arc<ClientInner>,
        memories: &[*mut PJRT_Memory],
        function: &'static str,
    ) -> Result<Vec<Self>, Error> {
        let one = |raw: &*mut PJRT_Memory| {
            let raw = read::object(*raw).map_err(|broken| Error::malformed(function, broken))?;
            // SAFETY: C3 (objects): the memories that a plugin lists belong to the client.
            Ok(unsafe { Self::new(raw, client.clone()) })
        };
        memories.iter().map(one).collect()
    }

    pub(crate) fn handle(&self) -> &Handle<PJRT_Memory, Arc<ClientInner>> {
        &self.0
    }

    /// Returns the client that this memory belongs to.
    pub fn client(&self) -> Client {
        Client::from_inner(self.0.owner().clone())
    }

    /// Returns the memory's id, which is unique among the client's memories.
    #[doc(alias = "PJRT_Memory_Id")]
    pub fn id(&self) -> Result<i32, Error> {
        self.0.query::<slot::PJRT_Memory_Id>()
    }

    /// Returns the platform's name for the memory kind, such as `device` or `pinned_host`.
    #[doc(alias = "PJRT_Memory_Kind")]
    pub fn kind(&self) -> Result<String, Error> {
        self.0.query::<slot::PJRT_Memory_Kind>().map(String::from)
    }

    /// Returns the platform's id for the memory kind.
    #[doc(alias = "PJRT_Memory_Kind_Id")]
    pub fn kind_id(&self) -> Result<i32, Error> {
        self.0.query::<slot::PJRT_Memory_Kind_Id>()
    }

    /// Returns a long, unambiguous description for logs.
    #[doc(alias = "PJRT_Memory_DebugString")]
    pub fn debug_string(&self) -> Result<String, Error> {
        self.0.query::<slot::PJRT_Memory_DebugString>().map(String::from)
    }

    /// Returns a short description for users.
    #[doc(alias = "PJRT_Memory_ToString")]
    pub fn display_string(&self) -> Result<String, Error> {
        self.0.query::<slot::PJRT_Memory_ToString>().map(String::from)
    }
}

/// Two handles are equal if they refer to the same `PJRT_Memory` object.
impl PartialEq for Memory {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_ptr() == other.0.as_ptr()
    }
}

impl Eq for Memory {}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Memory").field(&self.0).finish()
    }
}
