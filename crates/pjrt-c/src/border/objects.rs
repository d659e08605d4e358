//! The types of objects.

use std::cell::Cell;

use crate::border::table::{NotLive, Object, Table, kind_of};

/// The spare slots of a thread, one for each type of object. With them, most objects that a thread makes and frees in
/// turn need no change that other threads see. A thread that ends gives them back.
struct Spares([Cell<u32>; 64]);

thread_local! {
    static SPARES: Spares = const { Spares([const { Cell::new(0) }; 64]) };
}

/// Lists the types of objects, and numbers them.
macro_rules! objects {
    ($($ty:ident),* $(,)?) => {
        #[repr(u8)]
        #[allow(dead_code, reason = "no handle has the kind 0")]
        enum Kind { Nothing, $($ty),* }

        $(
            impl Object for crate::$ty {
                const NAME: &'static str = stringify!($ty);
                const KIND: u8 = Kind::$ty as u8;

                #[inline]
                fn table() -> &'static Table<Self> {
                    static TABLE: Table<crate::$ty> = Table::new();
                    &TABLE
                }

                #[inline]
                fn spare<R>(use_spare: impl FnOnce(&Cell<u32>) -> R) -> Option<R> {
                    SPARES.try_with(|spares| use_spare(&spares.0[usize::from(Self::KIND)])).ok()
                }
            }
        )*

        impl Drop for Spares {
            fn drop(&mut self) {
                $(crate::$ty::table().give_back(self.0[usize::from(crate::$ty::KIND)].take());)*
            }
        }

        /// Returns the name of the type of object that a handle names or named.
        pub(crate) fn name_of(handle: usize) -> Option<&'static str> {
            let kind = kind_of(handle)?;
            $(if kind == Kind::$ty as u8 { return Some(stringify!($ty)); })*
            None
        }

        /// Adds a reference to an object, and returns whether there is such an object.
        pub(crate) fn retain(handle: usize) -> bool {
            let Some(kind) = kind_of(handle) else { return false };
            $(if kind == Kind::$ty as u8 { return crate::$ty::table().retain(handle); })*
            false
        }

        $(const _: () = assert!((Kind::$ty as u8) < 64, "see `Object::KIND`");)*

        /// Returns the number of objects.
        pub(crate) fn count() -> usize {
            0 $(+ crate::$ty::table().count())*
        }

        /// Removes a reference to an object.
        pub(crate) fn release(handle: usize) -> Result<(), NotLive> {
            let kind = kind_of(handle).ok_or(NotLive)?;
            $(if kind == Kind::$ty as u8 { return crate::$ty::table().release(handle).map(drop); })*
            Err(NotLive)
        }
    };
}

objects!(
    dp_buffer,
    dp_bytes,
    dp_client,
    dp_compile_options,
    dp_completer,
    dp_copy_to_device_stream,
    dp_detected_topology,
    dp_device,
    dp_device_description,
    dp_discovery,
    dp_error,
    dp_event,
    dp_executable,
    dp_execute_context,
    dp_execute_options,
    dp_function,
    dp_function_builder,
    dp_key_value_store,
    dp_lease,
    dp_loaded_executable,
    dp_memory,
    dp_module,
    dp_module_builder,
    dp_op,
    dp_options,
    dp_plan,
    dp_plugin,
    dp_plugin_list,
    dp_policy,
    dp_profile,
    dp_program,
    dp_raw_buffer,
    dp_registry,
    dp_settable_event,
    dp_support,
    dp_topology_description,
    dp_transfer_manager,
);
