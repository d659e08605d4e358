//! The objects behind `PJRT_Client*` and `PJRT_Buffer*`. They refer to each other, because a buffer keeps its client
//! alive, and a client has the list of the deleted buffers that executions may still use.
//!
//! A buffer is a value that can be deleted while other threads use it.

use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pjrt_sys::{PJRT_Api, PJRT_Buffer, PJRT_Device, PJRT_Memory};

use crate::abi::objects::client::alias_sources::AliasSources;
use crate::abi::objects::client::at_exit::Registration;
use crate::abi::objects::client::device::Device;
use crate::abi::objects::client::extents::KnownExtents;
use crate::abi::objects::client::mappings::Mappings;
use crate::abi::objects::client::memory::Memory;
use crate::abi::objects::client::pending_value::PendingValue;
use crate::abi::objects::client::placeholder_buffer::PlaceholderBuffer;
use crate::abi::objects::client::value::Value;
use crate::abi::objects::executable::deferred_launches::DeferredLaunches;
use crate::abi::objects::executable::launch_order::Order;
use crate::abi::objects::opaque_tokens::OpaqueTokens;
use crate::abi::objects::owned_arrays::Pointers;
use crate::abi::objects::topology::Topology;
use crate::abi::reclaim::buffer_pool;
use crate::abi::reclaim::hazard::{Guard, HazardDomain};
use crate::abi::reclaim::refcount::{Counted, OwnerRef, Reclaimed, Ref};
use crate::abi::table::ffi_read::handles;
use crate::array_layout::ArrayLayout;
use crate::contain::drop_contained;
use crate::features::FeatureCalls;
use crate::{Backend, ClientOptions, DeviceInfo, Error, Event, Placement, Result, Shape, TopologyInfo};

/// A client: the backend, and the objects that represent its devices and memories. Buffers and executables keep the
/// client alive, so a framework may destroy the client before them.
pub(crate) struct Client<B: Backend> {
    /// The hook that runs if the process ends before the client is destroyed.
    pub(crate) at_exit: Registration,
    pub(crate) backend: B,
    pub(crate) process_index: i32,
    pub(crate) topology: Arc<Topology>,
    pub(crate) devices: Vec<Device>,
    pub(crate) device_handles: Pointers<PJRT_Device>,
    pub(crate) addressable_handles: Pointers<PJRT_Device>,
    pub(crate) memories: Vec<Memory>,
    pub(crate) memory_handles: Pointers<PJRT_Memory>,
    /// Publishes the buffers that executions use, and counts the outputs that executions create.
    pub(crate) hazards: Arc<HazardDomain>,
    /// Deleted buffers that executions may still use.
    pub(crate) retired: RetiredBuffers<B>,
    /// Launches that wait for their arguments.
    pub(crate) deferred: DeferredLaunches,
    /// Prevents deferred launches on several devices from overlapping with other launches on several devices.
    pub(crate) order: Order,
    pub(crate) mappings: Mappings,
    /// Alias buffers, which wait for the framework to name the buffer whose data they take over.
    pub(crate) aliases: OpaqueTokens<PlaceholderBuffer<B::Buffer>>,
    /// The buffers whose data alias buffers wait for.
    pub(crate) alias_sources: Arc<AliasSources>,
    pub(crate) extents: KnownExtents,
}

handles! {
    PJRT_Client => Counted<Client<P::Backend>>;
}

impl<B: Backend> Reclaimed for Client<B> {
    #[inline]
    fn domain(&self) -> &Arc<HazardDomain> {
        &self.hazards
    }
}

impl<B: Backend> Client<B> {
    /// Creates a client. Its first word is the address of the plugin's function table, so that other code of the
    /// process can call the plugin with only a client. XLA's clients have had this first word since May 2026.
    /// `default_platform` is the name of the platform if the backend does not name it.
    pub(crate) fn create(table: *const PJRT_Api, default_platform: &str, options: &ClientOptions) -> Result<Ref<Self>> {
        let backend = B::create(options)?;
        let info = TopologyInfo {
            platform_name: backend.platform_name().unwrap_or_else(|| default_platform.to_owned()),
            platform_version: backend.platform_version(),
            devices: backend.devices(),
            memories: backend.memories(),
            attributes: backend.topology_attributes(),
        };
        let topology = Arc::new(Topology::new(info)?);
        let ids: Vec<i32> = topology.info.devices.iter().map(|info| info.id).collect();
        let addressable: Vec<bool> = topology.info.devices.iter().map(|info| info.addressable).collect();
        let mut memories = Vec::new();
        for (id, info) in topology.info.memories.iter().enumerate() {
            let index = |device: &i32| ids.iter().position(|id| id == device);
            memories.push(Memory::new(id, info.clone(), info.devices.iter().filter_map(index).collect()));
        }
        let memories_of = |device: usize| {
            let with = memories.iter().enumerate().filter(move |(_, memory)| memory.device_indices.contains(&device));
            with.map(|(i, _)| i).collect::<Vec<_>>()
        };
        let devices: Vec<Device> =
            (0..ids.len()).map(|index| Device::new(Arc::clone(&topology), index, memories_of(index))).collect();
        if let Some(device) = (0..ids.len()).find(|i| addressable[*i] && devices[*i].memory_indices.is_empty()) {
            return Err(Error::internal(format!(
                "the backend lists no memory for the addressable device {}",
                ids[device]
            )));
        }

        let device_handles = Pointers::of(&devices);
        let memory_handles = Pointers::of(&memories);
        let addressable_handles =
            Pointers::of(devices.iter().zip(&addressable).filter(|(_, yes)| **yes).map(|(device, _)| device));
        for device in &devices {
            device.link_memories(memory_handles.as_slice());
        }
        for memory in &memories {
            memory.link_devices(device_handles.as_slice());
        }
        let process_index = backend.process_index();
        let elsewhere =
            topology.info.devices.iter().find(|info| info.addressable && info.process_index != process_index);
        if let Some(DeviceInfo { id, process_index: other, .. }) = elsewhere {
            return Err(Error::internal(format!(
                "device {id} is addressable and belongs to process {other}, but Distributed::process_index is \
                 {process_index}"
            )));
        }
        let client = Ref::new(
            table.cast(),
            Self {
                at_exit: Registration::new(backend.at_exit()),
                backend,
                process_index,
                topology,
                devices,
                device_handles,
                addressable_handles,
                memories,
                memory_handles,
                hazards: HazardDomain::new(),
                retired: RetiredBuffers::new(),
                deferred: DeferredLaunches::default(),
                order: Order::default(),
                mappings: Mappings::default(),
                aliases: OpaqueTokens::new(),
                alias_sources: Arc::default(),
                extents: KnownExtents::default(),
            },
        );
        for device in &client.devices {
            device.link_client(std::ptr::from_ref(&*client).cast());
        }
        Ok(client)
    }

    /// Returns the client of a device. Returns an error if the device belongs to a topology.
    pub(crate) fn of_device(device: &Device) -> Result<&Counted<Self>> {
        let client = device.client_address().cast::<Counted<Self>>();
        // SAFETY: V6 (lifetimes): the pointer is null or refers to the client that owns this device, and a plugin has
        // only one backend type.
        unsafe { client.as_ref() }.ok_or_else(|| {
            Error::internal("the device belongs to a topology without a client; use a device of a client")
        })
    }
}

/// The object behind a `PJRT_Buffer*`.
///
/// `state` holds flags and counts the uses of the value. The framework itself counts as one use until it deletes the
/// buffer. The thread that ends the last use drops the value. Executions do not count as uses. Instead, they publish
/// their arguments in the client's hazard domain. A thread checks this domain before it drops a value.
pub(crate) struct BufferHandle<B: Backend> {
    state: AtomicUsize,
    value: UnsafeCell<Value<B::Buffer>>,
    /// Number of external references, by which other libraries use the memory. Each external reference is also a use.
    external: AtomicU32,
    /// Whether the array may have dynamic dimensions. Always `false` for backends without the feature `DynamicShapes`.
    pub(crate) is_dynamic: bool,
    pub(crate) ready: Event,
    /// Declared after the value, so that the value is dropped first.
    pub(crate) client: OwnerRef<Client<B>>,
    pub(crate) placement: Placement,
    pub(crate) form: ArrayLayout,
}

/// The framework deleted the buffer or donated it to an execution. New uses are rejected.
const DELETED: usize = 1 << (usize::BITS - 1);
/// The framework destroyed the handle. The end of the last use frees it.
const DESTROYED: usize = 1 << (usize::BITS - 2);
/// The buffer is in [`RetiredBuffers`], because an execution may still use its value. The value is dropped when no
/// execution uses it any more, or together with the handle.
const RETIRED: usize = 1 << (usize::BITS - 3);
const USES: usize = RETIRED - 1;

/// Returns whether the array of a value may have dynamic dimensions. For a value that does not exist yet, returns
/// whether the backend has the feature `DynamicShapes`.
#[inline]
fn may_be_dynamic<B: Backend>(value: &Value<B::Buffer>, backend: &B) -> bool {
    match value {
        Value::Now(value) => backend.is_dynamic(value),
        Value::Later(_) => const { B::FEATURES.dynamic_shapes.is_some() },
        Value::Gone => false,
    }
}

handles! {
    PJRT_Buffer => BufferHandle<P::Backend>;
}

// SAFETY: threads share the value while the count of uses is not zero, and only its sole user changes it.
unsafe impl<B: Backend> Send for BufferHandle<B> {}
// SAFETY: the reason for `Send` of this type also applies here.
unsafe impl<B: Backend> Sync for BufferHandle<B> {}

impl<B: Backend> Drop for BufferHandle<B> {
    #[inline(always)]
    fn drop(&mut self) {
        if const { B::FEATURES.dynamic_shapes.is_some() } && self.is_dynamic {
            self.client.extents.forget(std::ptr::from_ref(self).addr());
        }
    }
}

impl<B: Backend> BufferHandle<B> {
    /// Creates a buffer that the framework owns and destroys.
    #[inline]
    pub(crate) fn give(
        client: impl Into<OwnerRef<Client<B>>>,
        value: Value<B::Buffer>,
        form: &ArrayLayout,
        placement: Placement,
        ready: Event,
    ) -> *mut PJRT_Buffer {
        let client = client.into();
        let is_dynamic = may_be_dynamic(&value, &client.backend);
        Self::new(client, value, form, placement, ready, is_dynamic).as_ptr().cast()
    }

    /// Creates a buffer with one use, which [`BufferHandle::destroy`] ends. `is_dynamic` specifies whether the array
    /// may have dynamic dimensions.
    #[inline]
    pub(crate) fn new(
        client: impl Into<OwnerRef<Client<B>>>,
        value: Value<B::Buffer>,
        form: &ArrayLayout,
        placement: Placement,
        ready: Event,
        is_dynamic: bool,
    ) -> NonNull<Self> {
        buffer_pool::new(|| Self {
            state: AtomicUsize::new(1),
            value: UnsafeCell::new(value),
            external: AtomicU32::new(0),
            is_dynamic,
            ready,
            client: client.into(),
            placement,
            form: form.clone(),
        })
    }

    /// Creates a buffer for the framework, and the producer that sets the buffer's value. `is_dynamic` specifies
    /// whether the array may have dynamic dimensions.
    pub(crate) fn pending(
        client: &Counted<Client<B>>,
        form: &ArrayLayout,
        to: Placement,
        is_dynamic: bool,
    ) -> (*mut PJRT_Buffer, PendingValue<B::Buffer>) {
        let (value, ready, producer) = PendingValue::new();
        (Self::new(client.share(), value, form, to, ready, is_dynamic).as_ptr().cast(), producer)
    }

    /// Frees a buffer that the framework has not seen yet.
    ///
    /// # Safety
    ///
    /// V7 (counting): the buffer came from [`BufferHandle::new`], no other code has a reference to it, and the caller
    /// does not use it again.
    #[inline]
    pub(crate) unsafe fn take_back(buffer: *mut PJRT_Buffer) {
        if let Some(handle) = NonNull::new(buffer.cast::<Self>()) {
            // SAFETY: V7 (counting), which the caller promises.
            unsafe { buffer_pool::free(handle) };
        }
    }

    /// Frees the handle of a buffer that a launch has just created, and returns its value. Returns `None` if `buffer`
    /// is null or has no value.
    ///
    /// # Safety
    ///
    /// The requirements of [`BufferHandle::take_back`] apply.
    pub(crate) unsafe fn into_value(buffer: *mut PJRT_Buffer) -> Option<B::Buffer> {
        let handle = NonNull::new(buffer.cast::<Self>())?;
        // SAFETY: the caller promises that the handle exists.
        let this = unsafe { handle.as_ref() };
        // SAFETY: the caller promises that no other thread uses the value.
        let value = unsafe { this.take_value() };
        // SAFETY: the caller promises that no other thread uses the handle.
        unsafe { buffer_pool::free(handle) };
        value.into_buffer()
    }

    /// Returns the array's shape, with the dimensions in the order in which the device stores them.
    pub(crate) fn stored_shape(&self) -> Shape {
        self.form.stored_shape()
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.state.load(Ordering::Acquire) & DELETED != 0
    }

    /// Returns whether an execution may use the buffer. The execution's guard must already have published the buffer.
    #[inline]
    pub(crate) fn is_usable(&self) -> bool {
        self.state.load(Ordering::SeqCst) & DELETED == 0
    }

    /// Adds a use, which ends when the returned value is dropped. Returns an error if the buffer is deleted.
    #[inline]
    pub(crate) fn hold(&self) -> Result<BufferUse<'_, B>> {
        if self.acquire() { Ok(BufferUse { buffer: self }) } else { Err(deleted()) }
    }

    /// Adds a use, which [`BufferHandle::release`] ends. Returns `false` if the buffer is deleted.
    #[inline]
    fn acquire(&self) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        while state & DELETED == 0 {
            match self.state.compare_exchange_weak(state, state + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    /// Ends a use.
    ///
    /// # Safety
    ///
    /// The caller owns a use that [`BufferHandle::acquire`] added, and no longer accesses the value through it. If the
    /// framework has destroyed the buffer, this call may free `self`.
    #[inline]
    unsafe fn release(&self) {
        let mut state = self.state.load(Ordering::Acquire);
        // The last use of a deleted buffer stays counted until the value is dropped, so that no other thread frees the
        // handle in the meantime.
        while state & DELETED == 0 || state & USES != 1 {
            match self.state.compare_exchange_weak(state, state - 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(now) => state = now,
            }
        }
        // SAFETY: the caller owns the last use, and `DELETED` prevents new uses.
        unsafe { self.end() };
    }

    /// Drops the value, or retires the buffer if an execution may still use the value. Then ends the last use, and
    /// frees the handle if the framework has destroyed it.
    ///
    /// # Safety
    ///
    /// V7 (counting): the caller owns the last use, which this call ends.
    #[cold]
    unsafe fn end(&self) {
        let this = NonNull::from(self);
        // No execution uses a buffer that the framework has destroyed.
        if self.state.load(Ordering::SeqCst) & DESTROYED == 0 && self.client.hazards.is_protected(self.bit(), None) {
            self.client.retired.add(this);
        } else {
            // SAFETY: V7 (counting), which the caller promises.
            drop_contained(unsafe { self.take_value() });
        }
        if self.state.fetch_sub(1, Ordering::AcqRel) & DESTROYED != 0 {
            self.client.retired.remove(this);
            // SAFETY: V7 (counting), which the caller promises. No other reference is left.
            drop_contained(unsafe { self.take_value() });
            // SAFETY: V7 (counting), which the caller promises.
            unsafe { buffer_pool::free(this) };
        }
    }

    /// Returns the bit of this buffer in the Bloom filters of the hazard domain.
    #[inline]
    pub(crate) fn bit(&self) -> u64 {
        Self::bit_of(std::ptr::from_ref(self))
    }

    /// Returns the bit of the buffer at this address. Does not access the buffer.
    #[inline]
    pub(crate) fn bit_of(buffer: *const Self) -> u64 {
        1 << ((buffer.addr() >> 6) & 63)
    }

    /// Drops the value of a deleted buffer without uses, or retires the buffer if an execution other than that of `own`
    /// may use it. In the second case, also drops the values of other retired buffers that no execution uses any more.
    ///
    /// # Safety
    ///
    /// V7 (counting): the caller reduced the count of uses to zero and has no reference to the value.
    unsafe fn retire(&self, own: Option<&Guard>) {
        if self.client.hazards.is_protected(self.bit(), own) {
            self.client.retired.add(NonNull::from(self));
            self.client.retired.drop_unused(&self.client);
        } else {
            // SAFETY: V7 (counting): the caller ended the last use, and `DELETED` prevents new uses.
            drop_contained(unsafe { self.take_value() });
        }
    }

    /// Returns the value, which may still be pending.
    ///
    /// # Safety
    ///
    /// The reference must not outlive a use that [`BufferHandle::acquire`] added, or a guard that published the buffer
    /// before the buffer was deleted.
    #[inline]
    pub(crate) unsafe fn value(&self) -> &Value<B::Buffer> {
        // SAFETY: the use or the guard prevents other threads from taking or dropping the value.
        unsafe { &*self.value.get() }
    }

    /// Takes the value of an argument and deletes the buffer. Returns `None` if the buffer was deleted before or has no
    /// value.
    ///
    /// # Safety
    ///
    /// The buffer occurs exactly once among the arguments of the execution that holds `own`, and the caller has no
    /// reference to its value.
    pub(crate) unsafe fn take(&self, own: &Guard) -> Option<B::Buffer> {
        // If the framework's use is the only one and no other execution uses the buffer, this execution is the last
        // user. `DELETED` prevents new uses.
        if self.state.compare_exchange(1, DELETED, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
            if !self.client.hazards.is_protected(self.bit(), Some(own)) {
                // SAFETY: V7 (counting): the framework's use was the only use, and it has ended.
                return unsafe { self.take_value() }.into_buffer();
            }
            // Retires the buffer even if the clone panics.
            let _leaving = RetireOnDrop(self);
            // SAFETY: no other thread can drop the value before `_leaving` retires the buffer.
            return unsafe { self.value() }.get().cloned();
        }
        // SAFETY: the guard of the execution prevents other threads from dropping the value.
        let value = unsafe { self.value() }.get().cloned();
        // If another execution has deleted the buffer in the meantime, the value belongs to that execution.
        if self.delete(Some(own)) { value } else { None }
    }

    /// Deletes the buffer, which ends the framework's use. Returns `false` if the buffer was already deleted. An
    /// execution passes its guard as `own`, so that it does not count as a user of the buffer.
    pub(crate) fn delete(&self, own: Option<&Guard>) -> bool {
        match self.mark_deleted() {
            None => return false,
            // SAFETY: V7 (counting): the last use has ended, and `DELETED` prevents new uses.
            Some(0) => unsafe { self.retire(own) },
            Some(_) => {}
        }
        true
    }

    /// Marks the buffer as deleted, which ends the framework's use. Returns the number of remaining uses, or `None` if
    /// the buffer was already deleted.
    fn mark_deleted(&self) -> Option<usize> {
        let mut state = self.state.load(Ordering::Relaxed);
        while state & DELETED == 0 {
            // Set the flag and end the framework's use in one step.
            let next = (state | DELETED) - 1;
            match self.state.compare_exchange_weak(state, next, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return Some(next & USES),
                Err(now) => state = now,
            }
        }
        None
    }

    /// Takes the value out of the buffer, without running vendor code.
    ///
    /// # Safety
    ///
    /// No other thread uses the value, neither now nor later.
    #[inline]
    unsafe fn take_value(&self) -> Value<B::Buffer> {
        // SAFETY: the caller promises that no other thread uses the value.
        let value = unsafe { &mut *self.value.get() };
        std::mem::replace(value, Value::Gone)
    }

    /// Destroys the framework's handle. Frees the handle at once, or when the last use ends.
    ///
    /// # Safety
    ///
    /// V2 (handles): the handle came from [`BufferHandle::new`], and the caller does not use it again.
    #[inline(always)]
    pub(crate) unsafe fn destroy(this: NonNull<Self>) {
        // SAFETY: V2 (handles): the handle is live until this function frees it.
        let buffer = unsafe { this.as_ref() };
        // In the usual cases, only the framework uses the buffer, or the buffer is deleted and unused. These cases need
        // no further atomic operation.
        if matches!(buffer.state.load(Ordering::Acquire), 1 | DELETED) {
            // SAFETY: V2 (handles) and V7 (counting): `BufferHandle::new` allocated the handle, and no other use
            // exists.
            return unsafe { buffer_pool::free(this) };
        }
        // SAFETY: V2 (handles), which the caller promises.
        unsafe { Self::destroy_used(this) };
    }

    /// Destroys the framework's handle of a buffer that has other uses or is retired.
    ///
    /// # Safety
    ///
    /// The requirements of [`BufferHandle::destroy`] apply.
    #[cold]
    #[inline(never)]
    unsafe fn destroy_used(this: NonNull<Self>) {
        // SAFETY: V2 (handles): the handle is live until this function frees it.
        let buffer = unsafe { this.as_ref() };
        // The framework destroys a buffer only after all executions that use it (V2), so the buffer need not stay
        // retired.
        buffer.client.retired.remove(this);
        if buffer.mark_deleted() == Some(0) {
            // SAFETY: V7 (counting): the last use has ended, and `DELETED` prevents new uses.
            drop_contained(unsafe { buffer.take_value() });
        }
        let before = buffer.state.fetch_or(DESTROYED, Ordering::SeqCst);
        if before & USES == 0 {
            // SAFETY: V7 (counting): the last use has ended, so this thread alone frees the buffer.
            unsafe { buffer_pool::free(this) };
        }
    }

    /// Adds a use for another library, so that the memory stays valid.
    pub(crate) fn add_external(&self) -> Result<()> {
        let held = self.hold()?;
        self.external.fetch_add(1, Ordering::Relaxed);
        // `remove_external` ends this use.
        std::mem::forget(held);
        Ok(())
    }

    pub(crate) fn remove_external(&self) -> Result<()> {
        let removed = self.external.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        removed.map_err(|_| {
            Error::failed_precondition("the buffer has no external reference; increase the count first").unnamed()
        })?;
        // SAFETY: `add_external` added the use, and the counter ensures that each use is removed only once.
        unsafe { self.release() };
        Ok(())
    }
}

pub(crate) fn deleted() -> Error {
    Error::invalid_argument("the buffer was deleted or donated to an execution").unnamed()
}

/// A use of a buffer. While it exists, the buffer's value is not dropped.
pub(crate) struct BufferUse<'a, B: Backend> {
    buffer: &'a BufferHandle<B>,
}

impl<B: Backend> BufferUse<'_, B> {
    /// Returns the value, which may still be pending.
    pub(crate) fn value(&self) -> &Value<B::Buffer> {
        // SAFETY: this `BufferUse` owns a use of the buffer.
        unsafe { self.buffer.value() }
    }
}

impl<B: Backend> Drop for BufferUse<'_, B> {
    fn drop(&mut self) {
        // SAFETY: `hold` added the use that ends here.
        unsafe { self.buffer.release() };
    }
}

/// A guard whose destructor calls [`BufferHandle::retire`] for a deleted buffer.
struct RetireOnDrop<'a, B: Backend>(&'a BufferHandle<B>);

impl<B: Backend> Drop for RetireOnDrop<'_, B> {
    fn drop(&mut self) {
        self.0.client.retired.add(NonNull::from(self.0));
    }
}

/// Deleted buffers whose values executions may still use.
pub(crate) struct RetiredBuffers<B: Backend> {
    count: AtomicUsize,
    buffers: Mutex<Vec<NonNull<BufferHandle<B>>>>,
}

// SAFETY: the list holds buffers, which any thread may use, and a buffer is removed from the list before it is freed.
unsafe impl<B: Backend> Send for RetiredBuffers<B> {}
// SAFETY: the reason for `Send` of this type also applies here.
unsafe impl<B: Backend> Sync for RetiredBuffers<B> {}

impl<B: Backend> RetiredBuffers<B> {
    pub(crate) fn new() -> Self {
        Self { count: AtomicUsize::new(0), buffers: Mutex::new(Vec::new()) }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<NonNull<BufferHandle<B>>>> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    #[cold]
    fn add(&self, buffer: NonNull<BufferHandle<B>>) {
        let mut buffers = self.lock();
        buffers.push(buffer);
        self.count.store(buffers.len(), Ordering::SeqCst);
        // SAFETY: the caller passes a buffer that has not been freed.
        unsafe { buffer.as_ref() }.state.fetch_or(RETIRED, Ordering::SeqCst);
    }

    /// Removes a buffer that is about to be freed together with its value.
    fn remove(&self, buffer: NonNull<BufferHandle<B>>) {
        let mut buffers = self.lock();
        buffers.retain(|left| *left != buffer);
        self.count.store(buffers.len(), Ordering::SeqCst);
        // SAFETY: the caller frees the buffer only after this call.
        unsafe { buffer.as_ref() }.state.fetch_and(!RETIRED, Ordering::SeqCst);
    }

    /// Drops the values that executions no longer use. Catches panics of the values' destructors.
    #[cold]
    pub(crate) fn drop_unused(&self, client: &Client<B>) {
        let mut values: Vec<Value<B::Buffer>> = Vec::new();
        {
            let mut buffers = self.lock();
            buffers.retain(|buffer| {
                // SAFETY: a buffer is removed from the list, under the lock, before it is freed.
                let buffer = unsafe { buffer.as_ref() };
                let used = client.hazards.is_protected(buffer.bit(), None);
                if !used {
                    // SAFETY: V7 (counting): no use is counted, no execution uses the value, and `DELETED` prevents new
                    // uses.
                    values.push(unsafe { buffer.take_value() });
                    buffer.state.fetch_and(!RETIRED, Ordering::SeqCst);
                }
                used
            });
            self.count.store(buffers.len(), Ordering::SeqCst);
        }
        // Run vendor code after the lock is released. If a destructor panics, the remaining values are still dropped.
        values.into_iter().for_each(drop_contained);
    }
}
