//! Names of C functions.

/// Keywords of C and C++, alternative spellings of C++ operators, and other names that such a function cannot have.
const RESERVED: &str = " \
    _Alignas _Alignof _Atomic _Bool _Complex _Decimal128 _Decimal32 _Decimal64 _Generic _Imaginary _Noreturn \
    _Static_assert _Thread_local NULL alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t \
    char32_t char8_t class co_await co_return co_yield compl concept const const_cast consteval constexpr constinit \
    continue decltype default delete do double dynamic_cast else enum errno explicit export extern false float for friend \
    goto if inline int long main mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected \
    public register reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast std struct \
    switch template this thread_local throw true try typedef typeid typename typeof typeof_unqual union unsigned using \
    virtual void volatile wchar_t while xor xor_eq ";

/// Returns whether a name has the form of a C identifier.
pub(crate) fn is_identifier(name: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.chars().next().is_some_and(letter) && name.chars().all(|c| letter(c) || c.is_ascii_digit())
}

/// Returns whether a header for C11 and C++17 can declare a shutdown function with this name, beside the functions of
/// the plugin interface.
pub(crate) fn is_shutdown(name: &str) -> bool {
    let is_entry_point = ["GetPjrtApi", "DevicePlugin_GetDescriptor"].iter().any(|entry| name.ends_with(entry));
    is_identifier(name) && !is_entry_point && !RESERVED.split(' ').any(|word| word == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_shutdown_functions() {
        for name in ["stop", "_stop", "Stop9", "classes", "a_int"] {
            assert!(is_shutdown(name), "{name}");
        }
        for name in [
            "",
            " ",
            "9",
            "a b",
            "a-b",
            "ä",
            "a\0",
            "int",
            "class",
            "main",
            "_Bool",
            "xor_eq",
            "while",
            "GetPjrtApi",
            "a_GetPjrtApi",
        ] {
            assert!(!is_shutdown(name), "{name}");
        }
    }
}
