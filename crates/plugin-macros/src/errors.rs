//! Collects all errors of one use of a macro.

use proc_macro2::TokenStream;
use syn::Error;

/// Errors in the order of detection.
#[derive(Default)]
pub(crate) struct Errors(Option<Error>);

impl Errors {
    pub(crate) fn push(&mut self, error: Error) {
        match &mut self.0 {
            Some(all) => all.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// Adds an error that points at `tokens`.
    pub(crate) fn at(&mut self, tokens: impl quote::ToTokens, message: impl std::fmt::Display) {
        self.push(Error::new_spanned(tokens, message));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Converts each error to a call of `compile_error!`.
    pub(crate) fn into_tokens(self) -> TokenStream {
        self.0.map(Error::into_compile_error).unwrap_or_default()
    }
}

/// Returns `; did you mean …?` if a known name is similar to `written` or begins it. Otherwise returns `; ` and the
/// help.
pub(crate) fn hint<'a>(written: &str, known: impl IntoIterator<Item = &'a str>, help: &str) -> String {
    let distance = |name: &&str| strsim::osa_distance(written, name);
    match known.into_iter().min_by_key(distance) {
        Some(name) if distance(&name) <= 1 + written.len() / 3 || written.starts_with(name) => {
            format!("; did you mean `{name}`?")
        }
        _ => format!("; {help}"),
    }
}
