//! The attribute that Burn's backend tests use. See the README of `burn-pjrt`.

use proc_macro::TokenStream;

/// Marks a test that may panic on some backends with a reason. This backend has to pass it.
#[proc_macro_attribute]
pub fn might_panic(_reason: TokenStream, test: TokenStream) -> TokenStream {
    test
}
