//! The list of extensions that the table points to.
//!
//! PJRT's extensions form a linked list of structs. Each one is a [`Link`] that knows its successor, and [`Chain`]
//! defines their order. If the backend does not offer an extension, its link points to the next one.

use std::ptr::null_mut;

use pjrt_sys::{AbiStruct, Extension, PJRT_Extension_Base};

use crate::abi::extensions::ffi::Ffi;
use crate::abi::extensions::layouts::Layouts;
use crate::abi::extensions::memory_descriptions::MemoryDescriptions;
use crate::abi::extensions::profiler::Profile;
use crate::abi::extensions::raw_buffers::RawBuffers;
use crate::abi::extensions::shardings::Shardings;
use crate::abi::extensions::streams::Streams;

/// The extensions of the plugin `P`, in the order in which frameworks find them.
pub(crate) type Chain<P> =
    Layouts<P, Profile<P, Streams<P, Ffi<P, RawBuffers<P, Shardings<P, MemoryDescriptions<P, End>>>>>>>;

/// An element of the list.
pub(crate) trait Link {
    /// Address of the extension, or of the next one that the backend offers.
    const POINTER: *mut PJRT_Extension_Base;
}

/// The end of the list.
pub(crate) enum End {}

impl Link for End {
    const POINTER: *mut PJRT_Extension_Base = null_mut();
}

/// The first words of an extension.
pub(crate) const fn base<E: Extension + AbiStruct>(next: *mut PJRT_Extension_Base) -> PJRT_Extension_Base {
    PJRT_Extension_Base { struct_size: E::STRUCT_SIZE, type_: E::TYPE, next }
}

/// Declares an extension: `Name = Struct if OFFERED; field: slot, …`.
macro_rules! extension {
    ($(#[$meta:meta])* $name:ident = $struct:ident if $offered:expr; $($field:ident: $slot:ident,)*) => {
        $(#[$meta])*
        pub(crate) struct $name<P, Next>(::std::marker::PhantomData<(P, Next)>);

        impl<P: $crate::DevicePlugin, Next: $crate::abi::extensions::extension_chain::Link> $name<P, Next> {
            const EXTENSION: &'static ::pjrt_sys::$struct = &::pjrt_sys::$struct {
                base: $crate::abi::extensions::extension_chain::base::<::pjrt_sys::$struct>(Next::POINTER),
                $($field: Some($crate::abi::table::entry::entry::<
                    $crate::abi::table::entry::Shim<P>,
                    ::pjrt_sys::extension_slot::$slot,
                >),)*
            };
        }

        impl<P: $crate::DevicePlugin, Next: $crate::abi::extensions::extension_chain::Link>
            $crate::abi::extensions::extension_chain::Link for $name<P, Next>
        {
            const POINTER: *mut ::pjrt_sys::PJRT_Extension_Base =
                if $offered { (&raw const *Self::EXTENSION).cast_mut().cast() } else { Next::POINTER };
        }
    };
}
pub(crate) use extension;
