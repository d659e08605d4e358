//! Enumerations whose variants have a name.

/// Declares an enumeration whose variants have a name, which is also their JSON form.
macro_rules! names {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident {
            $( $(#[$variant_meta:meta])* $variant:ident $(= $code:literal)? $text:literal, )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        $vis enum $name {
            $( $(#[$variant_meta])* #[serde(rename = $text)] $variant $(= $code)?, )*
        }

        impl $name {
            /// Returns the name of the variant in JSON.
            $vis const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}
pub(crate) use names;

/// A type whose values have a code in C.
pub(crate) trait Code: Copy {
    /// Returns the code of the value.
    fn code(self) -> u32;

    /// Returns the value with this code, or `None` if the code is unknown.
    fn from_code(code: u32) -> Option<Self>;
}

/// Declares an enumeration like [`names`], whose variants also have an integer code, which represents them in C. The
/// code of a default variant is 0.
macro_rules! codes {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $( $(#[$variant_meta:meta])* $variant:ident = $code:literal $text:literal, )*
        }
    ) => {
        $crate::names::names! {
            $(#[$meta])*
            #[non_exhaustive]
            #[repr(u32)]
            pub enum $name {
                $( $(#[$variant_meta])* $variant = $code $text, )*
            }
        }

        #[cfg(test)]
        impl $name {
            /// All variants, in the order of their codes.
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)*];
        }

        impl $crate::names::Code for $name {
            fn code(self) -> u32 {
                self as u32
            }

            fn from_code(code: u32) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use codes;
