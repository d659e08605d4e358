//! The elements of the linked list of extensions, and the macro that declares an extension.

use std::ptr::null_mut;

use pjrt_sys::{AbiStruct, Extension, PJRT_Extension_Base};

/// An element of the linked list of extensions.
pub(crate) trait Link {
    /// Address of the extension. If the backend does not support the extension, the address of the next extension in
    /// the list, or null at the end.
    const POINTER: *mut PJRT_Extension_Base;
}

/// The end of the list.
pub(crate) enum End {}

impl Link for End {
    const POINTER: *mut PJRT_Extension_Base = null_mut();
}

/// Returns the header that begins the struct of the extension `E`.
pub(crate) const fn base<E: Extension + AbiStruct>(next: *mut PJRT_Extension_Base) -> PJRT_Extension_Base {
    PJRT_Extension_Base { struct_size: E::STRUCT_SIZE, type_: E::TYPE, next }
}

/// Declares an extension: `Name = Struct if OFFERED; field: slot, …`.
macro_rules! extension {
    ($(#[$meta:meta])* $name:ident = $struct:ident if $offered:expr; $($field:ident: $slot:ident,)*) => {
        $(#[$meta])*
        pub(crate) struct $name<P, Next>(::std::marker::PhantomData<(P, Next)>);

        impl<P: $crate::DevicePlugin, Next: $crate::abi::extensions::link::Link> $name<P, Next> {
            const EXTENSION: &'static ::pjrt_sys::$struct = &::pjrt_sys::$struct {
                base: $crate::abi::extensions::link::base::<::pjrt_sys::$struct>(Next::POINTER),
                $($field: Some($crate::abi::table::entry::entry::<
                    $crate::abi::table::entry::Shim<P>,
                    ::pjrt_sys::extension_slot::$slot,
                >),)*
            };
        }

        impl<P: $crate::DevicePlugin, Next: $crate::abi::extensions::link::Link>
            $crate::abi::extensions::link::Link for $name<P, Next>
        {
            const POINTER: *mut ::pjrt_sys::PJRT_Extension_Base =
                if $offered { (&raw const *Self::EXTENSION).cast_mut().cast() } else { Next::POINTER };
        }
    };
}
pub(crate) use extension;
