//! The object behind a `PJRT_Layouts_MemoryLayout*`, and arrays of such objects.

use pjrt_sys::PJRT_Layouts_MemoryLayout;

use crate::abi::objects::owned_arrays::Pointers;
use crate::array_layout::ArrayLayout;

/// The object behind a `PJRT_Layouts_MemoryLayout*`.
pub(crate) struct MemoryLayout {
    pub(crate) text: String,
    /// Whether the framework destroys the layout. The layouts of an executable are destroyed together with the
    /// executable.
    pub(crate) owned: bool,
}

/// The layouts of an executable's parameters or outputs.
pub(crate) struct LayoutList {
    /// The objects to which `handles` points.
    _objects: Vec<MemoryLayout>,
    handles: Pointers<PJRT_Layouts_MemoryLayout>,
}

impl MemoryLayout {
    pub(crate) fn owned(layout: &ArrayLayout) -> *mut PJRT_Layouts_MemoryLayout {
        Box::into_raw(Box::new(Self { text: layout.layout_text(), owned: true })).cast()
    }
}

impl LayoutList {
    pub(crate) fn new(layouts: &[ArrayLayout]) -> Self {
        let objects: Vec<_> =
            layouts.iter().map(|layout| MemoryLayout { text: layout.layout_text(), owned: false }).collect();
        Self { handles: Pointers::of(&objects), _objects: objects }
    }

    pub(crate) fn raw(&self) -> (*mut *mut PJRT_Layouts_MemoryLayout, usize) {
        let handles = self.handles.as_slice();
        (handles.as_ptr().cast_mut(), handles.len())
    }
}
