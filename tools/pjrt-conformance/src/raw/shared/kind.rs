//! A kind of shared object, and functions that its operations have in common.

use std::ffi::{c_char, c_void};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use pjrt::raw::AsRaw;
use pjrt::{Buffer, Client, Device, Function, LoadedExecutable, Memory, Plugin};
use pjrt_sys::{
    AbiStruct, Extension, PJRT_Api, PJRT_Buffer, PJRT_Event, PJRT_NamedValue, PJRT_NamedValue_Type, Slot, slot,
};

use crate::case::Profiles;
use crate::context::Context;
use crate::raw::buffers::set_size;
use crate::raw::events::RawEvent;
use crate::raw::failure::{Returned, call, call_extension, called, text};
use crate::stop::Stop;

/// Number of `f32` elements of the shared buffer and of the program's argument.
pub(super) const LEN: u8 = 64;
/// Size of the shared buffer in bytes.
pub(super) const SIZE: usize = 4 * LEN as usize;
/// Dimensions of the shared buffer.
pub(super) const DIMENSIONS: [i64; 1] = [LEN as i64];

/// The objects that every kind of shared object needs. Threads use them at the same time, too.
pub(crate) struct Objects {
    pub(super) plugin: Plugin,
    pub(super) client: Client,
    pub(super) device: Device,
    pub(super) memory: Memory,
    pub(super) buffer: Buffer,
    pub(super) loaded: Arc<LoadedExecutable>,
}

/// The objects of a round, and the shared object of a kind that needs one more.
pub(crate) struct With<X> {
    pub(super) objects: Objects,
    pub(super) extra: X,
}

impl<X> Deref for With<X> {
    type Target = Objects;

    fn deref(&self) -> &Objects {
        &self.objects
    }
}

impl<X> With<X> {
    pub(crate) fn plugin(&self) -> &Plugin {
        &self.plugin
    }
}

/// The answer of an operation as text, which can be compared with other answers.
pub(crate) type Answer = Result<String, Stop>;

/// Calls of one or more functions that several threads may make for the same objects.
pub(crate) struct Operation<X> {
    /// The functions that the operation calls. The plugin must have all of them.
    pub(crate) functions: &'static [Function],
    /// Returns the same answer each time.
    pub(crate) run: fn(&With<X>) -> Answer,
}

/// The fate of the shared object while the threads use it.
pub(crate) enum End<X> {
    /// Nothing. Every call returns the same answer.
    Never,
    /// One thread calls this function once. Until then, calls may wait. All calls return the answer that they return
    /// afterwards.
    Completed(Function, fn(&With<X>) -> Result<(), Stop>),
    /// One thread calls this function once. A call returns the answer from before, or an error.
    Deleted(Function, fn(&With<X>) -> Result<(), Stop>),
}

/// A kind of shared object with its operations.
pub(crate) struct Kind<X: 'static> {
    /// The part of the case's id after the area.
    pub(crate) name: &'static str,
    /// The framework that shares such objects between threads.
    pub(crate) why: &'static str,
    pub(crate) profiles: Profiles,
    /// Whether each round needs a program of its own.
    pub(crate) compiles: bool,
    pub(crate) operations: &'static [Operation<X>],
    pub(crate) make: fn(&Context, &Objects) -> Result<X, Stop>,
    pub(crate) end: End<X>,
    /// Checks the objects after a round, and destroys them.
    pub(crate) finish: fn(With<X>) -> Result<(), Stop>,
}

impl<X> Kind<X> {
    /// Creates the objects of a round. If the kind needs no program of its own, `loaded` is shared by all rounds.
    pub(crate) fn objects(&self, cx: &Context, loaded: &Arc<LoadedExecutable>) -> Result<With<X>, Stop> {
        let client = cx.client()?.clone();
        let loaded = if self.compiles { program(cx)? } else { loaded.clone() };
        let data: Vec<f32> = (0..LEN).map(f32::from).collect();
        let buffer = client.buffer_from_host(&data, &DIMENSIONS)?;
        buffer.wait()?;
        let (plugin, device, memory) = (cx.plugin().clone(), cx.device()?, cx.memory()?);
        let objects = Objects { plugin, client, device, memory, buffer, loaded };
        let extra = (self.make)(cx, &objects)?;
        Ok(With { objects, extra })
    }
}

/// Compiles the program that the shared executables run.
pub(crate) fn program(cx: &Context) -> Result<Arc<LoadedExecutable>, Stop> {
    Ok(Arc::new(cx.add_one(LEN.into())?))
}

/// For kinds that need no object besides [`Objects`].
pub(super) fn nothing(_: &Context, _: &Objects) -> Result<(), Stop> {
    Ok(())
}

/// For kinds whose objects need no check after a round.
#[expect(clippy::unnecessary_wraps, reason = "the type of `Kind::finish`")]
pub(super) fn drop_all<X>(objects: With<X>) -> Result<(), Stop> {
    drop(objects);
    Ok(())
}

/// Owner of an object that `pjrt` has no type for, or of which `pjrt` has already queried the only handle.
pub(crate) struct Owned<T> {
    plugin: Plugin,
    raw: NonNull<T>,
    destroy: fn(&Plugin, *mut T) -> Result<(), Stop>,
}

// SAFETY: C4 (threads): functions may be called on any thread, and an object may be destroyed on another thread.
unsafe impl<T> Send for Owned<T> {}
// SAFETY: C4 (threads): several threads may use one object at the same time, except while it is destroyed.
unsafe impl<T> Sync for Owned<T> {}

impl<T> Owned<T> {
    pub(super) fn new(
        plugin: &Plugin,
        raw: *mut T,
        destroy: fn(&Plugin, *mut T) -> Result<(), Stop>,
    ) -> Result<Self, Stop> {
        let raw = NonNull::new(raw).ok_or_else(|| Stop::Fail("the plugin returned a null object".to_owned()))?;
        Ok(Self { plugin: plugin.clone(), raw, destroy })
    }

    pub(super) fn as_raw(&self) -> *mut T {
        self.raw.as_ptr()
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // Ignore an error of the destruction, as `pjrt` does.
        let _ = (self.destroy)(&self.plugin, self.as_raw());
    }
}

/// Calls a function of the table. `fill` sets the inputs, which must be live objects and valid memory.
pub(super) fn ask<S>(plugin: &Plugin, fill: impl FnOnce(&mut S::Args)) -> Result<S::Args, Stop>
where
    S: Slot<Table = PJRT_Api>,
    S::Return: Returned,
{
    let mut args = sized::<S::Args>(plugin);
    fill(&mut args);
    // SAFETY: C2 (calls): the operation passes live objects and valid memory.
    let result = unsafe { call::<S>(plugin, &raw mut args) };
    called(result, S::NAME)??;
    Ok(args)
}

/// Calls a function of an extension, like [`ask`].
pub(super) fn ask_extension<S>(plugin: &Plugin, fill: impl FnOnce(&mut S::Args)) -> Result<S::Args, Stop>
where
    S: Slot<Table: Extension>,
    S::Return: Returned,
{
    let mut args = sized::<S::Args>(plugin);
    fill(&mut args);
    // SAFETY: C2 (calls): the operation passes live objects and valid memory.
    let result = unsafe { call_extension::<S>(plugin, &raw mut args) };
    called(result, S::NAME)??;
    Ok(args)
}

/// Creates a struct of the size that callers of the plugin's API version pass.
pub(super) fn sized<T: AbiStruct>(plugin: &Plugin) -> T {
    let mut args = T::new();
    set_size(&mut args, plugin.api_version().minor);
    args
}

/// Defines an operation of one function: how it fills the arguments, and the values in them that are its answer.
/// Without such values, the answer is only whether the function succeeds.
macro_rules! query {
    ($ask:ident, $module:ident, $slot:ident, |$on:ident, $args:ident| $fill:expr) => {
        Operation {
            functions: &[Function::$slot],
            run: |$on| $ask::<$module::$slot>($on.plugin(), |$args| $fill).map(|_| String::new()),
        }
    };
    ($ask:ident, $module:ident, $slot:ident, |$on:ident, $args:ident| $fill:expr, $answer:expr) => {
        Operation {
            functions: &[Function::$slot],
            run: |$on| {
                let $args = $ask::<$module::$slot>($on.plugin(), |$args| $fill)?;
                Ok(format!("{:?}", $answer))
            },
        }
    };
    (extension $slot:ident, $($rest:tt)*) => { query!(ask_extension, extension_slot, $slot, $($rest)*) };
    ($slot:ident, $($rest:tt)*) => { query!(ask, slot, $slot, $($rest)*) };
}
pub(super) use query;

/// Defines an operation of several functions, or of a function that needs more than [`query`].
macro_rules! operation {
    ([$($slot:ident),+], $run:expr) => {
        Operation { functions: &[$(Function::$slot),+], run: $run }
    };
}
pub(super) use operation;

/// Copies a list that the plugin owns.
pub(super) fn list<T: Copy>(data: *const T, len: usize) -> Vec<T> {
    let len = if data.is_null() { 0 } else { len };
    let mut copy = Vec::with_capacity(len);
    // SAFETY: C3 (objects): the list lives as long as its object, and has this length. The copy has the capacity.
    unsafe { std::ptr::copy_nonoverlapping(data, copy.as_mut_ptr(), len) };
    // SAFETY: C3 (objects): the elements were copied, and are valid because the plugin's are.
    unsafe { copy.set_len(len) };
    copy
}

/// Copies a list of strings that the plugin owns.
pub(super) fn texts(data: *const *const c_char, sizes: *const usize, len: usize) -> Vec<String> {
    list(data, len).into_iter().zip(list(sizes, len)).map(|(data, size)| text(data, size)).collect()
}

/// Copies a list of named values that the plugin owns, as text.
pub(super) fn named(data: *const PJRT_NamedValue, len: usize) -> Vec<String> {
    let value = |value: &PJRT_NamedValue| {
        let words = match value.type_ {
            PJRT_NamedValue_Type::PJRT_NamedValue_kString => {
                // SAFETY: C3 (objects): the value has the type that it announces.
                text(unsafe { value.__bindgen_anon_1.string_value }, value.value_size)
            }
            PJRT_NamedValue_Type::PJRT_NamedValue_kInt64List => {
                // SAFETY: C3 (objects): the value has the type that it announces.
                format!("{:?}", list(unsafe { value.__bindgen_anon_1.int64_array_value }, value.value_size))
            }
            PJRT_NamedValue_Type::PJRT_NamedValue_kInt64 => {
                // SAFETY: C3 (objects): the value has the type that it announces.
                unsafe { value.__bindgen_anon_1.int64_value }.to_string()
            }
            PJRT_NamedValue_Type::PJRT_NamedValue_kFloat => {
                // SAFETY: C3 (objects): the value has the type that it announces.
                unsafe { value.__bindgen_anon_1.float_value }.to_string()
            }
            // SAFETY: C3 (objects): the remaining type is a Boolean value, of which every byte is valid.
            _ => unsafe { value.__bindgen_anon_1.bool_value }.get().to_string(),
        };
        format!("{}={words}", text(value.name, value.name_size))
    };
    list(data, len).iter().map(value).collect()
}

/// Copies bytes that came with an owner, and destroys the owner.
pub(super) fn released<T>(
    bytes: *const c_char,
    size: usize,
    owner: *mut T,
    deleter: Option<unsafe extern "C" fn(*mut T)>,
) -> Vec<u8> {
    let copy = list(bytes.cast::<u8>(), size);
    if let Some(delete) = deleter {
        // SAFETY: C3 (objects): the deleter runs once, after the last use of the bytes.
        unsafe { delete(owner) };
    }
    copy
}

/// Returns a checksum of bytes, with their number.
pub(super) fn checksum(bytes: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    format!("{} bytes with the checksum {:016x}", bytes.len(), hasher.finish())
}

/// Waits for an event that a function returned, and destroys the event.
pub(super) fn wait(plugin: &Plugin, event: *mut PJRT_Event, function: &str) -> Result<(), Stop> {
    Ok(RawEvent::of(plugin, event, function)?.wait()??)
}

/// Copies the contents of a buffer to the host.
pub(super) fn contents(plugin: &Plugin, buffer: *mut PJRT_Buffer) -> Answer {
    let size = ask::<slot::PJRT_Buffer_ToHostBuffer>(plugin, |args| args.src = buffer)?.dst_size;
    let mut memory = vec![0u8; size];
    let copy = ask::<slot::PJRT_Buffer_ToHostBuffer>(plugin, |args| {
        args.src = buffer;
        args.dst = memory.as_mut_ptr().cast::<c_void>();
        args.dst_size = size;
    })?;
    wait(plugin, copy.event, "PJRT_Buffer_ToHostBuffer")?;
    Ok(checksum(&memory))
}

pub(super) fn destroy_buffer(plugin: &Plugin, buffer: *mut PJRT_Buffer) -> Result<(), Stop> {
    ask::<slot::PJRT_Buffer_Destroy>(plugin, |args| args.buffer = buffer).map(drop)
}

/// Copies the contents of a new buffer to the host, and destroys the buffer.
pub(super) fn take(plugin: &Plugin, buffer: *mut PJRT_Buffer) -> Answer {
    let buffer = Owned::new(plugin, buffer, destroy_buffer)?;
    contents(plugin, buffer.as_raw())
}

/// Executes the program on the shared buffer. Returns the contents of the output.
pub(super) fn execute(on: &Objects, context: *mut pjrt_sys::PJRT_ExecuteContext) -> Answer {
    let kept = [0i64];
    let mut options = sized::<pjrt_sys::PJRT_ExecuteOptions>(&on.plugin);
    options.non_donatable_input_indices = kept.as_ptr();
    options.num_non_donatable_input_indices = 1;
    options.context = context;
    let inputs = [on.buffer.as_raw()];
    let mut outputs = [std::ptr::null_mut()];
    let mut events = [std::ptr::null_mut()];
    let (lists, places) = ([inputs.as_ptr()], [outputs.as_mut_ptr()]);
    ask::<slot::PJRT_LoadedExecutable_Execute>(&on.plugin, |args| {
        args.executable = on.loaded.as_raw();
        args.options = &raw mut options;
        args.argument_lists = lists.as_ptr();
        (args.num_devices, args.num_args) = (1, 1);
        args.output_lists = places.as_ptr();
        args.device_complete_events = events.as_mut_ptr();
    })?;
    let answer = take(&on.plugin, outputs[0]);
    wait(&on.plugin, events[0], "PJRT_LoadedExecutable_Execute")?;
    answer
}
