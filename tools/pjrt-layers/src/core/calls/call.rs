//! A call on its way to the plugin, with the methods through which layers read and change its arguments.

use std::ptr;

use pjrt_sys::AbiStruct;

use super::frame::Frame;
use crate::core::events::is_inside_callback;
use crate::core::memory;
use crate::core::plugin::Plugin;
use crate::function::{Field, ForwardedFunction, Function, Kind, Layout};
use crate::generated::FUNCTIONS;

/// A call on its way to the plugin. Layers read copies of the arguments, so they need no unsafe code.
#[derive(Debug)]
pub struct Call {
    pub(in crate::core) function: &'static Function,
    /// Index of the function in `FUNCTIONS`.
    id: usize,
    /// The arguments that the next layer and the plugin receive. Readable and writable for `size` bytes (L2).
    pub(in crate::core) args: *mut u8,
    /// Number of bytes of the arguments that exist in both the caller's version and this crate's version of the struct.
    pub(in crate::core) size: usize,
    pub(in crate::core) plugin: &'static Plugin,
    /// The copy that replaces the caller's arguments, if a layer has changed them.
    pub(in crate::core) frame: Option<Box<Frame>>,
    /// Whether a layer has cleared the call's error.
    pub(in crate::core) clears_error: bool,
}

impl Call {
    /// # Safety
    ///
    /// Contract L2: `args` must be the arguments of a call of the function `id`, and `size_behind` the method of their
    /// struct.
    #[inline]
    pub(in crate::core) unsafe fn new(
        plugin: &'static Plugin,
        id: usize,
        args: *mut u8,
        size_behind: impl FnOnce(usize) -> usize,
    ) -> Self {
        let function = &FUNCTIONS[id];
        // SAFETY: L2 (arguments): the struct begins with its size.
        let announced = unsafe { memory::read::<usize>(args) };
        let size = size_behind(announced).min(function.layout.size);
        Self { function, id, args, size, plugin, frame: None, clears_error: false }
    }

    /// Returns the called function.
    #[must_use]
    pub fn function(&self) -> &'static Function {
        self.function
    }

    /// Returns the index of the function in `FUNCTIONS`.
    #[inline]
    pub(crate) fn id(&self) -> usize {
        self.id
    }

    /// Returns whether this is a call of the function `S`.
    #[must_use]
    #[inline]
    pub fn is<S: ForwardedFunction>(&self) -> bool {
        self.id == S::ID
    }

    /// Returns whether this thread is in a callback of an event. Callbacks are only tracked if a layer watches events
    /// or selects a function in the tables of errors.
    #[must_use]
    pub fn is_in_callback(&self) -> bool {
        is_inside_callback()
    }

    /// Returns the elements of an array of 64-bit integers. `array` and `count` are the names of the fields for the
    /// array and its length. The result is empty if the function has no array and length with these names, or if the
    /// array is null.
    #[must_use]
    pub fn numbers(&self, array: &str, count: &str) -> Vec<i64> {
        let (Some(array), Some(count)) = (self.function.field(array), self.function.field(count)) else {
            return Vec::new();
        };
        let is_array = matches!(array.kind, Kind::Pointer) && matches!(count.kind, Kind::Size);
        let (from, count) = (ptr::with_exposed_provenance::<u8>(self.address(array)), self.address(count));
        if from.is_null() || !is_array {
            return Vec::new();
        }
        // SAFETY: L2 (arguments): the array has an integer at each index.
        (0..count).map(|at| unsafe { memory::read::<i64>(from.wrapping_add(at * size_of::<i64>())) }).collect()
    }

    /// Returns the plugin to which the layers forward the call.
    #[must_use]
    pub fn plugin(&self) -> &'static Plugin {
        self.plugin
    }

    /// Returns the size that the args struct announces.
    #[must_use]
    #[inline]
    pub fn announced(&self) -> usize {
        // SAFETY: L2 (arguments): the struct begins with its size.
        unsafe { memory::read(self.args) }
    }

    /// Returns the value of a field of 1, 4 or 8 bytes. Returns 0 for fields of other sizes, or if the caller's struct
    /// ends before the field.
    #[must_use]
    #[inline]
    pub fn word(&self, field: &Field) -> u64 {
        if field.offset + field.size > self.size {
            return 0;
        }
        let from = self.args.wrapping_add(field.offset);
        match field.size {
            // SAFETY: L2 (arguments): the field is within the struct.
            8 => unsafe { memory::read::<u64>(from) },
            // SAFETY: L2 (arguments): the field is within the struct.
            4 => u64::from(unsafe { memory::read::<u32>(from) }),
            // SAFETY: L2 (arguments): the field is within the struct.
            1 => u64::from(unsafe { memory::read::<u8>(from) }),
            _ => 0,
        }
    }

    /// Returns the address in a field, or 0 if the caller's struct ends before the field.
    #[must_use]
    pub fn address(&self, field: &Field) -> usize {
        usize::try_from(self.word(field)).unwrap_or(0)
    }

    /// Returns the address in the field with this name, or 0 if the function does not have this field.
    #[must_use]
    pub fn address_of(&self, name: &str) -> usize {
        self.function.field(name).map_or(0, |field| self.address(field))
    }

    /// Returns a copy of the arguments, if this is a call of the function `S`. Fields that the caller's struct lacks
    /// are 0.
    #[must_use]
    pub fn args<S: ForwardedFunction>(&self) -> Option<S::Args> {
        if !self.is::<S>() {
            return None;
        }
        let mut args = S::Args::new();
        // SAFETY: L2 (arguments): the arguments are readable for this size, and `args` has at least this size.
        unsafe { memory::copy(self.args, (&raw mut args).cast(), self.size) };
        Some(args)
    }

    /// Copies a string of the arguments, such as a name. `text` and `length` are the names of the fields for the string
    /// and its length. Returns `None` if the function does not have a string and a length with these names.
    #[must_use]
    pub fn text(&self, text: &str, length: &str) -> Option<String> {
        let (text, length) = (self.function.field(text)?, self.function.field(length)?);
        let from = ptr::with_exposed_provenance(self.address(text));
        let is_text = matches!(text.kind, Kind::Text | Kind::Pointer) && matches!(length.kind, Kind::Size);
        // SAFETY: L2 (arguments): the string is readable for its length.
        is_text.then(|| unsafe { memory::text(from, self.address(length)) })
    }

    /// Replaces the arguments with a copy that announces this size, for the next layers and the plugin. Additional
    /// bytes are 0. `size` must be at least the size of the first two fields, which are the struct's size and its
    /// extensions.
    pub fn resize(&mut self, size: usize) {
        self.frame_of(size);
    }

    /// Returns the announced size of the struct to which an argument points. Returns `None` if the argument is null or
    /// is not a pointer to a struct.
    #[must_use]
    pub fn announced_of(&self, field: &Field) -> Option<usize> {
        let from = ptr::with_exposed_provenance::<u8>(self.address(field));
        let is_struct = matches!(field.kind, Kind::Struct(_)) && !from.is_null();
        // SAFETY: L2 (arguments): the struct begins with its size.
        is_struct.then(|| unsafe { memory::read(from) })
    }

    /// Replaces the struct to which an argument points with a copy of this size, for the next layers and the plugin.
    /// Does nothing if the pointer is null or the struct already has this size.
    pub fn resize_struct(&mut self, field: &Field, layout: &Layout, size: usize) {
        let from = ptr::with_exposed_provenance::<u8>(self.address(field));
        let Some(announced) = self.announced_of(field).filter(|announced| *announced != size) else { return };
        let known = (layout.size_behind)(announced).min(size);
        let announced = self.announced();
        // SAFETY: L2 (arguments): the struct is readable for its size.
        let address = unsafe { self.frame_of(announced).add(from, known, size) };
        self.replace(field, address);
    }

    /// Replaces the pointer in `field` with `value` for the next layers and the plugin. The caller's struct does not
    /// change. Does nothing if this struct ends before the field.
    pub(in crate::core) fn replace(&mut self, field: &Field, value: usize) {
        let announced = self.announced();
        let fits = field.offset + size_of::<usize>() <= self.size;
        if fits && field.size == size_of::<usize>() {
            self.frame_of(announced).replace(field.offset, value);
        }
    }

    /// Returns the copy that replaces the caller's arguments and announces `size`. Creates the copy if no copy with
    /// this size exists.
    pub(in crate::core) fn frame_of(&mut self, size: usize) -> &mut Frame {
        let frame = match self.frame.take() {
            Some(frame) if frame.announced() == size => frame,
            outer => {
                // SAFETY: L2 (arguments): the arguments are readable and writable for `self.size` bytes.
                let mut frame = unsafe { Frame::new(self.args, self.size, size, outer) };
                self.args = frame.args();
                self.size = (self.function.layout.size_behind)(size).min(self.function.layout.size);
                frame
            }
        };
        self.frame.insert(frame)
    }

    /// Returns the number of frames that replace the caller's arguments.
    #[inline]
    pub(in crate::core) fn depth(&self) -> usize {
        self.frame.as_ref().map_or(0, |frame| frame.depth())
    }

    /// Removes frames until only `depth` frames are left. Copies the results in each removed frame to the arguments
    /// that this frame replaced.
    pub(in crate::core) fn restore(&mut self, depth: usize) {
        while self.depth() > depth {
            let Some(frame) = self.frame.take() else { return };
            // SAFETY: L2 (arguments): the arguments are writable during the call.
            (self.args, self.size, self.frame) = unsafe { frame.restore() };
        }
    }
}
