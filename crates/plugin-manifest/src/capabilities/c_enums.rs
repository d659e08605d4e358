//! Enumerations that are represented by a name in JSON and by an integer code in C.

/// Declares an enumeration whose variants have a JSON name and an integer code. The code of a default variant is 0.
macro_rules! codes {
    (
        $(#[$meta:meta])*
        pub enum $name:ident, $what:literal {
            $( $(#[$variant_meta:meta])* $variant:ident = $code:literal $text:literal, )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        #[repr(u32)]
        pub enum $name {
            $( $(#[$variant_meta])* $variant = $code, )*
        }

        impl $name {
            /// All variants, in the order of their codes.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the name of the variant in JSON.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }

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

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        /// Parses the JSON name. The error message lists the valid names.
        impl std::str::FromStr for $name {
            type Err = $crate::Error;

            fn from_str(text: &str) -> $crate::Result<Self> {
                Self::ALL.iter().copied().find(|value| value.name() == text).ok_or_else(|| {
                    let known: Vec<_> = Self::ALL.iter().map(|value| value.name()).collect();
                    $crate::Error::invalid_argument(format!("{text:?} is not {}; known are {}", $what, known.join(", ")))
                })
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str> as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(|error: $crate::Error| serde::de::Error::custom(error.message()))
            }
        }
    };
}
pub(crate) use codes;
