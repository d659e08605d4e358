//! The server that a client uses, from the client's options and the environment.

use device_plugin::{ClientOptions, Error, Result, Value};

use crate::net::address::Address;

/// The environment variable with the address of the server.
pub const ADDRESS: &str = "PJRT_REMOTE";
/// The variable with the path of the file that contains the token of the server.
pub(crate) const TOKEN_FILE: &str = "PJRT_REMOTE_TOKEN_FILE";
/// The options with the same meaning.
pub(crate) const OPTIONS: [&str; 2] = ["address", "token_file"];

/// Where the server is, and the secret that it needs.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) address: Address,
    pub(crate) token: Vec<u8>,
}

impl Settings {
    /// Returns the settings of a client. Options override the environment.
    pub(crate) fn new(options: &ClientOptions) -> Result<Self> {
        options.expect_only(&OPTIONS)?;
        let text = |option: &str, variable: &str| match options.get(option) {
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(Error::invalid_argument(format!("option {option} is {other}, which is not a string"))),
            None => variable_text(variable),
        };
        match text(OPTIONS[0], ADDRESS)? {
            Some(address) => Self::of(&address, text(OPTIONS[1], TOKEN_FILE)?),
            None => Err(Error::failed_precondition(format!(
                "the plugin remote has no server; run `pjrt serve`, and set {ADDRESS} or the option {:?} to the address \
                 that it prints",
                OPTIONS[0]
            ))),
        }
    }

    /// Returns the settings in the environment, or `None` if it has no address.
    pub(crate) fn of_environment() -> Result<Option<Self>> {
        let Some(address) = variable_text(ADDRESS)? else { return Ok(None) };
        Self::of(&address, variable_text(TOKEN_FILE)?).map(Some)
    }

    fn of(address: &str, token_file: Option<String>) -> Result<Self> {
        let address = address.parse().map_err(Error::invalid_argument)?;
        let token = match token_file {
            Some(path) => std::fs::read_to_string(&path)
                .map_err(|error| Error::failed_precondition(format!("cannot read the token in {path}: {error}")))?
                .trim()
                .as_bytes()
                .to_vec(),
            None => Vec::new(),
        };
        Ok(Self { address, token })
    }
}

fn variable_text(name: &str) -> Result<Option<String>> {
    match std::env::var(name) {
        Ok(value) if value.is_empty() => Ok(None),
        Ok(value) => Ok(Some(value)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => Err(Error::invalid_argument(format!("{name} is not UTF-8"))),
    }
}
