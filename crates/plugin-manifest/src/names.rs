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

        impl $name {
            /// All variants, in the order of their codes.
            #[cfg(test)]
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the code of the variant in the C descriptor.
            pub(crate) const fn code(self) -> u32 {
                self as u32
            }

            /// Returns the variant with this code in the C descriptor, or `None` if the code is unknown.
            pub(crate) const fn from_code(code: u32) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use codes;
