//! Declares the objects behind handles.

/// Declares the Rust type of the object behind each opaque C type: `opaque C type => Rust type`.
macro_rules! handles {
    ($($raw:ident => $target:ty;)*) => {
        $(
            // SAFETY: V5 (opaque types): the plugin creates pointers of the C type only from values of this target
            // type.
            unsafe impl<P: $crate::DevicePlugin> $crate::abi::table::ffi_read::Handle<P> for ::pjrt_sys::$raw {
                type Target = $target;
            }
        )*
    };
}
pub(crate) use handles;
