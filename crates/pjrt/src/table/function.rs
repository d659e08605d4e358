//! An enum of the functions of the PJRT C API.

use std::fmt;

use pjrt_sys::{AbiStruct, Slot, extension_slot, for_each_function, slot};
use pjrt_types::ApiVersion;

use crate::extensions::Functions;
use crate::objects::owners::Plugin;

/// Defines [`Function`] from the names of the functions of `PJRT_Api` and of the extensions.
macro_rules! functions {
    ([$($main:ident,)*] [$($extension:ident,)*]) => {
        /// A function of the C API, named as in the header. [`Plugin::supports`] returns whether a plugin provides the
        /// function.
        ///
        /// ```
        /// use pjrt::Function;
        ///
        /// let function = Function::PJRT_Layouts_PJRT_Executable_GetParameterLayouts;
        /// assert_eq!(function.name(), "PJRT_Layouts_PJRT_Executable_GetParameterLayouts");
        /// assert_eq!(function.extension(), Some("PJRT_Layouts_Extension"));
        /// assert_eq!(Function::PJRT_Client_Create.extension(), None);
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        #[allow(non_camel_case_types, reason = "the names of the C API")]
        pub enum Function {
            $(
                #[doc = concat!("`", stringify!($main), "` of `PJRT_Api`.")]
                $main,
            )*
            $(
                #[doc = concat!("`", stringify!($extension), "` of an extension.")]
                $extension,
            )*
        }

        impl Function {
            /// All functions that this crate knows: first the functions of `PJRT_Api`, in the order of its fields, then
            /// the functions of the extensions.
            pub const ALL: &'static [Self] = &[$(Self::$main,)* $(Self::$extension,)*];

            /// Returns the function's name in the C API, such as `PJRT_Buffer_Bitcast`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$main => stringify!($main),)*
                    $(Self::$extension => stringify!($extension),)*
                }
            }

            /// Returns the name of the extension struct that contains the function, such as `PJRT_Layouts_Extension`.
            /// Returns `None` for the functions of `PJRT_Api`.
            #[must_use]
            pub const fn extension(self) -> Option<&'static str> {
                match self {
                    $(Self::$main => None,)*
                    $(Self::$extension => Some(<extension_slot::$extension as Slot>::Table::NAME),)*
                }
            }

            /// Returns the first API version that has this function, or `None` if that version is older than 0.29.
            #[must_use]
            pub fn since(self) -> Option<ApiVersion> {
                let minor = match self {
                    $(Self::$main => slot::$main::SINCE,)*
                    $(Self::$extension => extension_slot::$extension::SINCE,)*
                };
                let minor = i32::try_from(minor).ok().filter(|minor| *minor > 0)?;
                Some(ApiVersion { major: 0, minor })
            }

            /// Returns whether the plugin's `PJRT_Api` or extension struct contains the function.
            fn is_in(self, plugin: &Plugin) -> bool {
                match self {
                    $(Self::$main => plugin.api().supports::<slot::$main>(),)*
                    $(Self::$extension => Functions::of(plugin)
                        .is_some_and(|functions| functions.supports::<extension_slot::$extension>()),)*
                }
            }
        }
    };
}
for_each_function!(functions);

impl Plugin {
    /// Returns whether the plugin's `PJRT_Api` or extension struct contains the function. A call of the function may
    /// still return the error `UNIMPLEMENTED`.
    pub fn supports(&self, function: Function) -> bool {
        function.is_in(self)
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::Function;

    #[test]
    fn versions_follow_the_header() {
        assert_eq!(Function::ALL.iter().filter(|function| function.extension().is_none()).count(), pjrt_sys::NUM_SLOTS);
        let since = |function: Function| function.since().map(|version| version.minor);
        assert_eq!(since(Function::PJRT_Client_Create), None);
        assert_eq!(since(Function::PJRT_Executable_ParameterMemoryKinds), Some(102));
    }
}
