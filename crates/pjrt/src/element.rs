//! The element types that each API version supports.

use pjrt_types::{ApiVersion, Element, ElementType, Shape};

use crate::error::Error;

/// Returns the API minor version that added an element type, or 0 if every supported version has the type.
fn since(ty: ElementType) -> i32 {
    match ty {
        ElementType::F8E8M0FNU | ElementType::F4E2M1FN => 63,
        ElementType::S1 | ElementType::U1 => 94,
        ElementType::F6E2M3FN | ElementType::F6E3M2FN => 114,
        _ => 0,
    }
}

/// Rejects element types that are newer than the plugin's API version, because XLA's plugins crash on unknown type
/// numbers.
pub(crate) fn check(ty: ElementType, plugin: ApiVersion) -> Result<(), Error> {
    let since = since(ty);
    if plugin.minor < since {
        let message = format!("element type {ty} requires API 0.{since}; the plugin has API {plugin}");
        return Err(Error::unsupported(message));
    }
    Ok(())
}

/// Returns the size of an array on the host in bytes, or an error that names its shape.
pub(crate) fn host_size(shape: &Shape) -> Result<usize, Error> {
    let too_large = || Error::invalid(format!("{shape} has negative extents or exceeds the address space"));
    shape.host_size().ok_or_else(too_large)
}

/// Returns the number of elements of an array, or an error that names its shape if its size exceeds the address space.
pub(crate) fn count(shape: &Shape) -> Result<usize, Error> {
    host_size(shape).map(|_| shape.num_elements().unwrap_or_default())
}

/// Like [`check`], but also rejects tokens, which have no data.
pub(crate) fn check_data(ty: ElementType, plugin: ApiVersion) -> Result<(), Error> {
    if ty == ElementType::Token {
        return Err(Error::invalid("a token has no data to transfer"));
    }
    check(ty, plugin)
}

/// Sets the unused high bits of each byte if elements are smaller than a byte. The bits of signed integers become
/// copies of the sign bit, and the bits of other types become zero. This is necessary because plugins differ in the
/// values of these bits.
pub(crate) fn extend(ty: ElementType, bytes: &mut [u8]) {
    let unused = match ty.bits() {
        bits @ 1..8 => 8 - bits,
        _ => return,
    };
    let is_signed = matches!(ty, ElementType::S1 | ElementType::S2 | ElementType::S4);
    for byte in bytes {
        let high = *byte << unused;
        *byte = if is_signed { (high.cast_signed() >> unused).cast_unsigned() } else { high >> unused };
    }
}

/// Returns the element type of `T`, and checks at compile time that `T` has the size of this element type.
pub(crate) const fn type_of<T: Element>() -> ElementType {
    const { assert!(size_of::<T>() == T::TYPE.host_size()) }
    T::TYPE
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::ErrorKind;

    #[test]
    fn small_elements_are_extended() {
        let extended = |ty, byte: u8| {
            let mut bytes = [byte];
            extend(ty, &mut bytes);
            bytes[0]
        };
        // XLA returns -2 as 0x0e, and other plugins as 0xfe.
        assert_eq!((extended(ElementType::S4, 0x0e), extended(ElementType::S4, 0xfe)), (0xfe, 0xfe));
        assert_eq!((extended(ElementType::S4, 0xf7), extended(ElementType::U4, 0xfe)), (0x07, 0x0e));
        assert_eq!((extended(ElementType::S2, 0x02), extended(ElementType::U2, 0xfe)), (0xfe, 0x02));
        assert_eq!((extended(ElementType::S1, 0x01), extended(ElementType::U1, 0xff)), (0xff, 0x01));
        assert_eq!((extended(ElementType::F4E2M1FN, 0xf9), extended(ElementType::F6E2M3FN, 0xff)), (0x09, 0x3f));
        assert_eq!((extended(ElementType::S8, 0x8e), extended(ElementType::F8E5M2, 0xff)), (0x8e, 0xff));
    }

    #[test]
    fn rejects_types_newer_than_plugin() {
        let at = |minor| ApiVersion { major: 0, minor };
        assert!(check_data(ElementType::F6E2M3FN, at(114)).is_ok());
        let error = check_data(ElementType::F6E2M3FN, at(106)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        expect!["UNIMPLEMENTED: element type f6e2m3fn requires API 0.114; the plugin has API 0.106"]
            .assert_eq(&error.to_string());
        assert!(check_data(ElementType::F32, at(57)).is_ok());
        assert!(check(ElementType::Token, at(57)).is_ok());
        assert!(check_data(ElementType::Token, at(114)).is_err());
    }
}
