//! The element types that each API version supports.

use pjrt_types::{ApiVersion, Element, ElementType};

use crate::error::Error;

/// API minor that added an element type; 0 if every supported version has it.
fn since(ty: ElementType) -> i32 {
    match ty {
        ElementType::F8E8M0FNU | ElementType::F4E2M1FN => 63,
        ElementType::S1 | ElementType::U1 => 94,
        ElementType::F6E2M3FN | ElementType::F6E3M2FN => 114,
        _ => 0,
    }
}

/// Rejects element types that are newer than the plugin. XLA's plugins crash on unknown numbers.
pub(crate) fn check(ty: ElementType, plugin: ApiVersion) -> Result<(), Error> {
    let since = since(ty);
    if plugin.minor < since {
        let message = format!("element type {ty} requires API 0.{since}; the plugin has API {plugin}");
        return Err(Error::unsupported(message));
    }
    Ok(())
}

/// Like [`check`], but also rejects types without data.
pub(crate) fn check_data(ty: ElementType, plugin: ApiVersion) -> Result<(), Error> {
    if ty == ElementType::Token {
        return Err(Error::invalid("a token has no data to transfer"));
    }
    check(ty, plugin)
}

/// Returns the element type of `T`, and checks at compile time that both have the same size.
pub(crate) const fn type_of<T: Element>() -> ElementType {
    const { assert!(size_of::<T>() == T::TYPE.host_size()) }
    T::TYPE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_types_newer_than_plugin() {
        let at = |minor| ApiVersion { major: 0, minor };
        assert!(check_data(ElementType::F6E2M3FN, at(114)).is_ok());
        let error = check_data(ElementType::F6E2M3FN, at(106)).unwrap_err().to_string();
        assert_eq!(error, "UNIMPLEMENTED: element type f6e2m3fn requires API 0.114; the plugin has API 0.106");
        assert!(check_data(ElementType::F32, at(57)).is_ok());
        assert!(check(ElementType::Token, at(57)).is_ok());
        assert!(check_data(ElementType::Token, at(114)).is_err());
    }
}
