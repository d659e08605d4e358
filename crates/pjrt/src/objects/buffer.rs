//! `PJRT_Buffer_*`: an array on a device.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, OnceLock};

use once_cell::race::OnceBox;
use pjrt_sys::*;
use pjrt_types::{ElementType, Layout, Shape};

use crate::error::{Error, ErrorKind};
use crate::layout;
use crate::objects::alias_chain::AliasChain;
use crate::objects::device::Device;
use crate::objects::event::Event;
use crate::objects::memory::Memory;
use crate::objects::owners::{Client, ClientInner};
use crate::objects::references::{References, deleted};
use crate::table::api::FallibleSlot;
use crate::table::handle::{Handle, Owned, Owner, Uncounted};
use crate::table::read;
use crate::table::send_ptr::SendPtr;

/// An array on a device. Its contents may still be pending. Operations that use the contents wait until the contents
/// are ready.
///
/// A `Buffer` cannot be cloned, because [donating](crate::Input::Donate) a buffer to a run gives up its memory and must
/// be its last use. To share a buffer that is only read, use an `Arc<Buffer>`. The handle has a size of four words and
/// does not contain the array itself.
///
/// ```
/// # use pjrt::ClientOptions;
/// # let client = plugin_registry::open("cpu")?.client(&ClientOptions::new())?;
/// let matrix = client.buffer_from_host(&[1, 2, 3, 4, 5, 6], &[2, 3])?;
/// assert_eq!(matrix.shape()?.to_string(), "s32[2,3]");
/// assert_eq!(matrix.to_host::<i32>()?, [1, 2, 3, 4, 5, 6]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[repr(transparent)]
pub struct Buffer(pub(crate) Fields<Arc<ClientInner>>);

/// The fields of a [`Buffer`]. The type parameter `O` is the reference to the buffer's client. The memory layout of
/// this struct depends only on the layout of `O`.
#[repr(C)]
pub(crate) struct Fields<O: Owner> {
    raw: Owned<PJRT_Buffer, O>,
    /// The buffer's device, or null if it has not been queried yet.
    device: AtomicPtr<PJRT_Device>,
    details: LazyDetails,
}

/// The [`Details`] of a buffer, allocated on first use. Most buffers never need details, because a run's outputs are
/// usually only passed to the next run.
#[derive(Default)]
struct LazyDetails(ManuallyDrop<OnceBox<Details>>);

impl LazyDetails {
    #[inline]
    fn get(&self) -> Option<&Details> {
        self.0.get()
    }

    fn get_or_init(&self) -> &Details {
        self.0.get_or_init(Box::default)
    }
}

impl Drop for LazyDetails {
    #[inline]
    fn drop(&mut self) {
        #[cold]
        fn free(details: &mut ManuallyDrop<OnceBox<Details>>) {
            // SAFETY: `drop` runs once, and the details are not used afterwards.
            unsafe { ManuallyDrop::drop(details) };
        }
        // Most buffers have no details, so keep the code that frees them out of line.
        if self.get().is_some() {
            free(&mut self.0);
        }
    }
}

/// The cached properties of a buffer, whether it was deleted, and its number of external references. A new buffer has
/// no details.
#[derive(Default)]
struct Details {
    shape: OnceLock<Shape>,
    /// The layout if its dimension order is not row-major. `None` if the order is row-major or if the plugin does not
    /// report it. Unset until the layout has been queried.
    non_default: OnceLock<Option<Layout>>,
    /// Whether [`Buffer::wait_once`] has found the contents ready.
    ready: AtomicBool,
    /// Counts the external references to the memory, and knows whether [`Buffer::delete`] has deleted the buffer.
    external: References,
    /// The place in a chain of aliases if this is an alias buffer.
    alias: OnceLock<Arc<AliasChain>>,
}

impl Details {
    /// Returns whether the shape is known and equals `expected`. Not inlined, because this function is never called for
    /// the many plugins that do not report the shapes of parameters.
    #[inline(never)]
    fn has_shape(&self, expected: &Shape) -> bool {
        self.shape.get() == Some(expected)
    }
}

impl<O: Owner> Fields<O> {
    /// # Safety
    ///
    /// `raw` is a live buffer of `client`, and the caller owns the buffer.
    #[inline]
    pub(crate) unsafe fn new(
        raw: NonNull<PJRT_Buffer>,
        client: O,
        device: Option<SendPtr<NonNull<PJRT_Device>>>,
    ) -> Self {
        Self {
            // SAFETY: this function's contract: the buffer is live, and the caller owned it.
            raw: unsafe { Owned::new(raw, client) },
            device: AtomicPtr::new(device.map_or(ptr::null_mut(), |device| device.0.as_ptr())),
            details: LazyDetails::default(),
        }
    }
}

impl Fields<Uncounted<ClientInner>> {
    /// Converts these fields to a [`Buffer`] that keeps the client alive. `client` must be the buffer's client.
    #[inline]
    pub(crate) fn held(self, client: Arc<ClientInner>) -> Buffer {
        let raw = self.raw.release().raw();
        // SAFETY: the buffer is live, because it was released and not destroyed, and `client` is its client.
        let raw = unsafe { Owned::new(raw.0, client) };
        Buffer(Fields { raw, device: self.device, details: self.details })
    }

    /// Reinterprets a slice of fields as a slice of buffers. The fields do not keep their client alive, so another
    /// value must hold the client while the slice exists.
    #[inline]
    pub(crate) fn as_buffers(these: &[Self]) -> &[Buffer] {
        // SAFETY: a `Buffer` has the layout of its `Fields`, and the layouts of `Fields`, `Owned` and `Handle` depend
        // only on the layout of the owner. An `Uncounted` has the layout of an `Arc`. An `Arc` cannot be dropped
        // through a shared reference.
        unsafe { &*(ptr::from_ref(these) as *const [Buffer]) }
    }
}

impl Buffer {
    /// # Safety
    ///
    /// `raw` is a live buffer of `client`, and the caller owns the buffer.
    #[inline]
    pub(crate) unsafe fn new(
        raw: NonNull<PJRT_Buffer>,
        client: Arc<ClientInner>,
        device: Option<SendPtr<NonNull<PJRT_Device>>>,
    ) -> Self {
        // SAFETY: this function's contract: the buffer is live, and the caller owned it.
        Self(unsafe { Fields::new(raw, client, device) })
    }

    fn details(&self) -> &Details {
        self.0.details.get_or_init()
    }

    /// Returns whether [`Buffer::delete`] has marked this buffer as deleted. Does not detect a donated buffer.
    #[inline]
    fn was_deleted(&self) -> bool {
        self.0.details.get().is_some_and(|details| details.external.is_deleted())
    }

    /// Returns the raw pointer and gives up the ownership of the buffer without destroying it.
    pub(crate) fn release(self) -> SendPtr<NonNull<PJRT_Buffer>> {
        self.0.raw.release().raw()
    }

    #[inline]
    pub(crate) fn handle(&self) -> &Handle<PJRT_Buffer, Arc<ClientInner>> {
        &self.0.raw
    }

    /// Returns the handle for an operation on the contents, or an error if the buffer has been deleted.
    #[inline]
    pub(crate) fn live(&self) -> Result<&Handle<PJRT_Buffer, Arc<ClientInner>>, Error> {
        if self.was_deleted() {
            return Err(deleted());
        }
        Ok(&self.0.raw)
    }

    /// Returns the counter of external references. While the count is not zero, [`Buffer::delete`] fails or waits.
    pub(crate) fn external(&self) -> &References {
        &self.details().external
    }

    /// Makes a call of the function `F`, which may move the memory to another buffer, if the buffer has no external
    /// references.
    pub(crate) fn moving<F: FallibleSlot>(&self, call: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        if !self.0.raw.api().supports::<F>() {
            // The call only returns an error, so do not wait for copies first.
            return call();
        }
        self.external().without_references(call)
    }

    /// Marks this buffer as an alias buffer, and returns its place in a chain of aliases.
    pub(crate) fn make_alias(&self) -> Arc<AliasChain> {
        Arc::clone(self.details().alias.get_or_init(Arc::default))
    }

    /// Returns the place in a chain of aliases. Returns `None` if this is not an alias buffer.
    pub(crate) fn alias(&self) -> Option<&Arc<AliasChain>> {
        self.0.details.get()?.alias.get()
    }

    /// Returns the client that this buffer belongs to.
    pub fn client(&self) -> Client {
        Client::from_inner(self.0.raw.owner().clone())
    }

    /// Returns the element type and the extents.
    ///
    /// # Errors
    ///
    /// Returns an error if this crate does not know the element type, or if the buffer was deleted before its shape was
    /// queried.
    #[doc(alias = "PJRT_Buffer_ElementType")]
    #[doc(alias = "PJRT_Buffer_Dimensions")]
    #[inline]
    pub fn shape(&self) -> Result<&Shape, Error> {
        match self.0.details.get().and_then(|details| details.shape.get()) {
            Some(shape) => Ok(shape),
            None => self.query_shape(),
        }
    }

    fn query_shape(&self) -> Result<&Shape, Error> {
        let live = self.live()?;
        let raw = live.query::<slot::PJRT_Buffer_ElementType>()?.0;
        let element_type = ElementType::from_raw(raw).ok_or_else(|| {
            let message = format!("unknown number {raw} for the buffer's element type");
            Error::malformed_text(slot::PJRT_Buffer_ElementType::NAME, message)
        })?;
        let dimensions = live.query::<slot::PJRT_Buffer_Dimensions>()?;
        Ok(self.details().shape.get_or_init(|| Shape::new(element_type, dimensions)))
    }

    /// Returns the type of the elements.
    ///
    /// # Errors
    ///
    /// The errors of [`Buffer::shape`] apply.
    pub fn element_type(&self) -> Result<ElementType, Error> {
        self.shape().map(|shape| shape.element_type)
    }

    /// Returns the extents of the dimensions. The slice is empty for a scalar.
    ///
    /// # Errors
    ///
    /// The errors of [`Buffer::shape`] apply.
    pub fn dimensions(&self) -> Result<&[i64], Error> {
        self.shape().map(|shape| shape.dimensions.as_slice())
    }

    /// Returns the extents without padding. The extent of a dynamic dimension may be smaller than in
    /// [`Buffer::dimensions`].
    #[doc(alias = "PJRT_Buffer_UnpaddedDimensions")]
    pub fn unpadded_dimensions(&self) -> Result<Vec<i64>, Error> {
        self.live()?.query::<slot::PJRT_Buffer_UnpaddedDimensions>().map(<[i64]>::to_vec)
    }

    /// Returns the indices of the dynamic dimensions.
    #[doc(alias = "PJRT_Buffer_DynamicDimensionIndices")]
    pub fn dynamic_dimension_indices(&self) -> Result<Vec<usize>, Error> {
        self.live()?.query::<slot::PJRT_Buffer_DynamicDimensionIndices>().map(<[usize]>::to_vec)
    }

    /// Returns the layout in the device's memory, or `None` if the plugin reports strides that do not describe a dense
    /// array.
    #[doc(alias = "PJRT_Buffer_GetMemoryLayout")]
    pub fn memory_layout(&self) -> Result<Option<Layout>, Error> {
        type Function = slot::PJRT_Buffer_GetMemoryLayout;
        let malformed = |broken| Error::malformed(Function::NAME, broken);
        let shape = self.shape()?;
        let layout = self.live()?.query::<Function>()?.layout;
        if layout.type_ == PJRT_Buffer_MemoryLayout_Type::PJRT_Buffer_MemoryLayout_Type_Tiled {
            // SAFETY: the type field selects this member of the union, and any bytes are a valid value of the member.
            let tiled = unsafe { layout.__bindgen_anon_1.tiled };
            // SAFETY: C3 (objects): the array lives as long as the buffer.
            let order = unsafe { read::slice(tiled.minor_to_major, tiled.minor_to_major_size) }.map_err(malformed)?;
            // SAFETY: C3 (objects): this array also lives as long as the buffer.
            let sizes = unsafe { read::slice(tiled.tile_dim_sizes, tiled.num_tiles) }.map_err(malformed)?;
            let total = sizes.iter().try_fold(0usize, |sum, n| sum.checked_add(*n));
            let total = total.ok_or_else(|| malformed(read::Malformed("an implausible number of tile dimensions")))?;
            // SAFETY: C3 (objects): this array also lives as long as the buffer. It contains the dimensions of all
            // tiles, one tile after the other.
            let mut rest = unsafe { read::slice(tiled.tile_dims, total) }.map_err(malformed)?;
            let mut tiles = Vec::with_capacity(sizes.len());
            for size in sizes {
                let (tile, others) = rest.split_at(*size);
                tiles.push(tile.to_vec());
                rest = others;
            }
            return Ok(Some(Layout::new(order.to_vec()).with_tiles(tiles)));
        }
        // SAFETY: the type field selects this member of the union, and any bytes are a valid value of the member.
        let strided = unsafe { layout.__bindgen_anon_1.strides };
        // SAFETY: C3 (objects): the array lives as long as the buffer.
        let strides = unsafe { read::slice(strided.byte_strides, strided.num_byte_strides) }.map_err(malformed)?;
        Ok(dense_order(strides, shape))
    }

    /// Returns the layout if it is known and its dimension order is not row-major.
    #[inline]
    pub(crate) fn non_default_layout(&self) -> Option<&Layout> {
        match self.0.details.get().and_then(|details| details.non_default.get()) {
            Some(known) => known.as_ref(),
            None => self.find_non_default_layout(),
        }
    }

    /// Returns `true` if the cached details show that the buffer is not deleted, has a row-major layout, and has the
    /// shape `expected`, if a shape is given. Does not call the plugin.
    #[inline]
    pub(crate) fn is_known_plain(&self, expected: Option<&Shape>) -> bool {
        self.0.details.get().is_some_and(|details| {
            !details.external.is_deleted()
                && matches!(details.non_default.get(), Some(None))
                && expected.is_none_or(|expected| details.has_shape(expected))
        })
    }

    /// Returns whether the buffer's cached device is `device`. Does not call the plugin.
    #[inline]
    pub(crate) fn is_known_on(&self, device: SendPtr<NonNull<PJRT_Device>>) -> bool {
        self.0.device.load(Ordering::Relaxed) == device.0.as_ptr()
    }

    /// Queries whether the buffer has a row-major layout without tiles, and the shape `expected`, if a shape is given.
    /// Returns `false` if the plugin cannot answer, if it reports strides instead of a dimension order, or if the
    /// buffer already has details. The function caches nothing, so it suits a buffer that is used for the last time.
    pub(crate) fn is_plain(&self, expected: Option<&Shape>) -> bool {
        self.0.details.get().is_none() && self.query_plain(expected) == Some(true)
    }

    fn query_plain(&self, expected: Option<&Shape>) -> Option<bool> {
        let live = self.live().ok()?;
        let dimensions = live.query::<slot::PJRT_Buffer_Dimensions>().ok()?;
        if let Some(expected) = expected {
            let element_type = live.query::<slot::PJRT_Buffer_ElementType>().ok()?;
            if element_type.0 != expected.element_type.as_raw() || dimensions != expected.dimensions {
                return Some(false);
            }
        }
        // An array with fewer than two dimensions has only one dimension order.
        if dimensions.len() < 2 {
            return Some(true);
        }
        let layout = live.query::<slot::PJRT_Buffer_GetMemoryLayout>().ok()?.layout;
        if layout.type_ != PJRT_Buffer_MemoryLayout_Type::PJRT_Buffer_MemoryLayout_Type_Tiled {
            return None;
        }
        // SAFETY: the type field selects this member of the union, and any bytes are a valid value of the member.
        let tiled = unsafe { layout.__bindgen_anon_1.tiled };
        // SAFETY: C3 (objects): the array lives as long as the buffer.
        let order = unsafe { read::slice(tiled.minor_to_major, tiled.minor_to_major_size) }.ok()?;
        Some(tiled.num_tiles == 0 && order.iter().rev().copied().eq((0i64..).take(dimensions.len())))
    }

    #[cold]
    fn find_non_default_layout(&self) -> Option<&Layout> {
        // An array with fewer than two dimensions has only one dimension order.
        let shape = self.shape().ok()?;
        let found = if shape.dimensions.len() > 1 { self.any_layout() } else { Ok(None) };
        let known = match found {
            Ok(found) => found.filter(|layout| layout::is_non_default(layout, shape)),
            Err(error) if error.kind() == ErrorKind::Unsupported => None,
            // A later query may succeed, so do not cache the failure.
            Err(_) => return None,
        };
        self.details().non_default.get_or_init(|| known).as_ref()
    }

    /// Returns the size of the buffer on the device, in bytes.
    #[doc(alias = "PJRT_Buffer_OnDeviceSizeInBytes")]
    pub fn on_device_size(&self) -> Result<usize, Error> {
        self.live()?.query::<slot::PJRT_Buffer_OnDeviceSizeInBytes>()
    }

    /// Returns the device whose memory holds the buffer.
    #[doc(alias = "PJRT_Buffer_Device")]
    pub fn device(&self) -> Result<Device, Error> {
        let raw = self.device_raw()?;
        // SAFETY: C3 (objects): the device belongs to the buffer's client.
        Ok(unsafe { Device::new(raw.0, self.0.raw.owner().clone()) })
    }

    #[inline]
    pub(crate) fn device_raw(&self) -> Result<SendPtr<NonNull<PJRT_Device>>, Error> {
        if let Some(device) = NonNull::new(self.0.device.load(Ordering::Relaxed)) {
            return Ok(SendPtr(device));
        }
        let device = self.live()?.query::<slot::PJRT_Buffer_Device>()?;
        self.0.device.store(device.as_ptr(), Ordering::Relaxed);
        Ok(SendPtr(device))
    }

    /// Returns the memory that holds the buffer.
    #[doc(alias = "PJRT_Buffer_Memory")]
    pub fn memory(&self) -> Result<Memory, Error> {
        let raw = self.live()?.query::<slot::PJRT_Buffer_Memory>()?;
        // SAFETY: C3 (objects): the memory belongs to the buffer's client.
        Ok(unsafe { Memory::new(raw, self.0.raw.owner().clone()) })
    }

    /// Frees the buffer's memory on the device as soon as no pending operation uses it. The handle remains valid.
    /// Dropping the buffer also frees the memory.
    ///
    /// # Errors
    ///
    /// Returns an error if code outside PJRT holds a reference to the memory, such as an
    /// [`ExternalReference`](crate::ExternalReference) or a DLPack tensor.
    #[doc(alias = "PJRT_Buffer_Delete")]
    pub fn delete(&self) -> Result<(), Error> {
        self.external().delete(|| self.0.raw.query::<slot::PJRT_Buffer_Delete>())
    }

    /// Returns whether the buffer was deleted, by [`Buffer::delete`] or by donation.
    #[doc(alias = "PJRT_Buffer_IsDeleted")]
    pub fn is_deleted(&self) -> Result<bool, Error> {
        if self.was_deleted() {
            return Ok(true);
        }
        self.0.raw.query::<slot::PJRT_Buffer_IsDeleted>()
    }

    /// Returns whether the buffer is in host memory, as on CPU devices.
    #[doc(alias = "PJRT_Buffer_IsOnCpu")]
    pub fn is_on_cpu(&self) -> Result<bool, Error> {
        self.live()?.query::<slot::PJRT_Buffer_IsOnCpu>()
    }

    /// Returns an event that becomes ready when the contents are ready or their computation has failed.
    ///
    /// # Errors
    ///
    /// Returns an error if the buffer has been deleted.
    #[doc(alias = "PJRT_Buffer_ReadyEvent")]
    pub fn ready_event(&self) -> Result<Event, Error> {
        let raw = self.live()?.query::<slot::PJRT_Buffer_ReadyEvent>()?;
        // SAFETY: C3 (objects): the plugin created the event for this caller.
        Ok(unsafe { Event::new(raw, self.0.raw.owner().clone()) })
    }

    /// Blocks until the contents are ready.
    ///
    /// # Errors
    ///
    /// Returns an error if the buffer has been deleted, or if the operation that computes the contents failed.
    #[inline]
    pub fn wait(&self) -> Result<(), Error> {
        if !self.0.raw.api().supports::<slot::PJRT_Event_Await>() {
            return self.ready_event()?.wait();
        }
        let raw = self.live()?.query::<slot::PJRT_Buffer_ReadyEvent>()?;
        // SAFETY: C3 (objects): the plugin created the event for this caller. The buffer keeps the client alive while
        // the event exists.
        let event = unsafe { Owned::new(raw, self.0.raw.owner()) };
        event.query::<slot::PJRT_Event_Await>().map_err(|error| self.0.raw.owner().describe_memory(error))
    }

    /// Waits like [`Self::wait`], but calls the plugin only until this function has found the contents ready. A later
    /// call succeeds even if the buffer has been deleted since, so check this with the call that uses the memory.
    pub(crate) fn wait_once(&self) -> Result<(), Error> {
        let details = self.details();
        if !details.ready.load(Ordering::Acquire) {
            self.wait()?;
            details.ready.store(true, Ordering::Release);
        }
        Ok(())
    }
}

/// Returns the dimension order of a dense array with these byte strides, if such an order exists.
fn dense_order(strides: &[i64], shape: &Shape) -> Option<Layout> {
    if strides.len() != shape.dimensions.len() {
        return None;
    }
    let mut order: Vec<usize> = (0..strides.len()).collect();
    // If two strides are equal, list the later dimension first. A row-major array with dimensions of extent 1 then
    // keeps its row-major order.
    order.sort_by_key(|i| (strides[*i], std::cmp::Reverse(*i)));
    let mut expected = i64::try_from(shape.element_type.host_size()).ok()?;
    for i in &order {
        if shape.dimensions[*i] != 1 && strides[*i] != expected {
            return None;
        }
        expected = expected.checked_mul(shape.dimensions[*i].max(1))?;
    }
    let minor_to_major = order.into_iter().map(i64::try_from).collect::<Result<Vec<_>, _>>().ok()?;
    Some(Layout::new(minor_to_major))
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Buffer");
        match self.shape() {
            Ok(shape) => debug.field("shape", &format_args!("{shape}")),
            Err(error) => debug.field("shape", &format_args!("<{error}>")),
        };
        debug.field("raw", &self.0.raw).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_has_four_words() {
        // The outputs of a run are stored in one `Vec`. Allocators often have a fast path for sizes up to 1 KiB, which
        // is the size of 32 buffers of four 8-byte words.
        assert_eq!(size_of::<Buffer>(), 4 * size_of::<usize>());
    }

    #[test]
    fn dense_strides_give_order() {
        let order = |strides: &[i64], dims: &[i64]| {
            dense_order(strides, &Shape::new(ElementType::F32, dims)).map(|layout| layout.minor_to_major)
        };
        assert_eq!(order(&[12, 4], &[2, 3]), Some(vec![1, 0]));
        assert_eq!(order(&[4, 8], &[2, 3]), Some(vec![0, 1]));
        assert_eq!(order(&[4, 4], &[3, 1]), Some(vec![1, 0]));
        assert_eq!(order(&[16, 4], &[2, 3]), None);
        assert_eq!(order(&[4], &[2, 3]), None);
        assert_eq!(order(&[], &[]), Some(vec![]));
    }
}
