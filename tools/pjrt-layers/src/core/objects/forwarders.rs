//! Forwarders of the functions in the tables of objects. `generated.rs` lists these functions.

/// Declares the parameter structs and the forwarders of the functions in the tables of objects.
macro_rules! object_functions {
    ($($id:literal, $name:literal, $object:ident, $table:ident, $args:ident:
        $field:ident($($parameter:ident: $ty:ty),* $(,)?) -> $result:ty;)*) => {
        $(
            #[repr(C)]
            #[derive(Clone, Copy)]
            #[allow(non_camel_case_types, reason = "the names are those of the header")]
            struct $args {
                struct_size: usize,
                extension_start: usize,
                $($parameter: $ty,)*
                result: $result,
            }

            // SAFETY: the struct is `repr(C)` and begins with its size, and all-zero bytes are a valid value.
            unsafe impl pjrt_sys::AbiStruct for $args {
                const NAME: &'static str = $name;
                const STRUCT_SIZE: usize = size_of::<Self>();
                const MIN_SIZE: usize = Self::STRUCT_SIZE;
                const HISTORY: &'static [(u32, usize)] = &[];
            }
        )*

        /// Creates the forwarders of an instance for the functions in the tables of objects.
        pub(crate) fn object_forwarders<I: crate::core::Instance>() -> Vec<crate::core::ObjectForwarder> {
            vec![$({
                /// # Safety
                ///
                /// Contract L13 must hold for the parameters.
                unsafe extern "C" fn forward<I: crate::core::Instance, const TABLE: usize>($($parameter: $ty),*) -> $result {
                    let mut args: $args = pjrt_sys::AbiStruct::new();
                    $(args.$parameter = $parameter;)*
                    let kind = <$object as crate::core::HasTable>::KIND;
                    let target = crate::core::Target { kind, id: $id, table: TABLE, call: plugin };
                    // SAFETY: L13 (objects): these are the parameters of the call.
                    let error = unsafe { crate::core::call_object::<I>(&target, (&raw mut args).cast()) };
                    crate::core::Returned::from_call(args.result, error)
                }

                /// # Safety
                ///
                /// Contract L13: the table must have the size in this crate's header, and `args` must be the struct of
                /// this function.
                unsafe fn plugin(
                    table: *const u64,
                    args: *mut u8,
                    stack: &crate::core::Stack,
                    to: crate::core::To,
                ) -> *mut PJRT_Error {
                    // SAFETY: this function's contract.
                    let table = unsafe { &*table.cast::<$table>() };
                    let Some(function) = table.$field else { return core::ptr::null_mut() };
                    // SAFETY: this function's contract.
                    let args = unsafe { &mut *args.cast::<$args>() };
                    // SAFETY: L13 (objects): this is a parameter of the call.
                    $(unsafe { crate::core::Passed::enter(&mut args.$parameter, stack, to) };)*
                    // SAFETY: L13 (objects): the function belongs to the plugin or the framework, and receives the
                    // parameters of the call.
                    args.result = unsafe { function($(args.$parameter),*) };
                    let back = crate::core::back(to);
                    let error = crate::core::Returned::error(args.result);
                    if error.is_null() {
                        // SAFETY: L13 (objects): this is a parameter of the call.
                        $(unsafe { crate::core::Passed::leave(&mut args.$parameter, stack, back, false) };)*
                    }
                    // SAFETY: L13 (objects): this is the result of the call.
                    unsafe { crate::core::Passed::leave(&mut args.result, stack, back, true) };
                    error
                }

                crate::core::ObjectForwarder::new(
                    <$object as crate::core::HasTable>::KIND,
                    $id,
                    offset_of!($table, $field),
                    size_of::<$table>(),
                    {
                        let functions: [unsafe extern "C" fn($($ty),*) -> $result; 4] =
                            [forward::<I, 0>, forward::<I, 1>, forward::<I, 2>, forward::<I, 3>];
                        functions.map(|function| function as *mut ())
                    },
                )
            }),*]
        }
    };
}

pub(crate) use object_functions;
