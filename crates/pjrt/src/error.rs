//! Errors of the plugin and of this crate.

use std::fmt;

use pjrt_types::{ApiVersion, ErrorCode};

use crate::objects::device_memory::DeviceMemory;
use crate::table::load_error::LoadError;
use crate::table::read::Malformed;

/// The origin of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The plugin could not be loaded.
    Load,
    /// The plugin lacks the function or returned `UNIMPLEMENTED`, or the request is valid but not supported.
    Unsupported,
    /// This crate rejected the request before it called the plugin.
    InvalidArgument,
    /// The plugin reported an error.
    Plugin,
    /// The plugin returned data that violates the PJRT interface.
    Malformed,
    /// Operations did not end within the caller's time limit.
    Timeout,
}

/// An error of the plugin or of this crate. It owns a copy of all its data, so it may outlive the plugin's objects.
///
/// ```
/// # use pjrt::{ClientOptions, CompileOptions, ErrorKind, Program};
/// # let client = plugin_registry::open("cpu")?.client(&ClientOptions::new())?;
/// let error = client.compile(&Program::mlir("not a program"), &CompileOptions::default()).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Plugin);
/// assert_eq!(error.function(), Some("PJRT_Client_Compile"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    code: ErrorCode,
    function: Option<&'static str>,
    message: String,
    payloads: Vec<(String, Vec<u8>)>,
    load: Option<LoadError>,
    device_memory: Vec<DeviceMemory>,
}

impl Error {
    fn new(kind: ErrorKind, code: ErrorCode, function: Option<&'static str>, message: String) -> Self {
        Self(Box::new(Inner {
            kind,
            code,
            function,
            message,
            payloads: Vec::new(),
            load: None,
            device_memory: Vec::new(),
        }))
    }

    pub(crate) fn plugin(
        function: &'static str,
        code: ErrorCode,
        message: String,
        payloads: Vec<(String, Vec<u8>)>,
    ) -> Self {
        let kind = if code == ErrorCode::UNIMPLEMENTED { ErrorKind::Unsupported } else { ErrorKind::Plugin };
        let mut error = Self::new(kind, code, Some(function), message);
        error.0.payloads = payloads;
        error
    }

    #[cold]
    pub(crate) fn missing(function: &'static str, since: u32, plugin: ApiVersion) -> Self {
        let since =
            if since == 0 { "every API version has it".to_owned() } else { format!("it requires API 0.{since}") };
        let message = format!("the plugin has API {plugin} and lacks this function; {since}");
        Self::new(ErrorKind::Unsupported, ErrorCode::UNIMPLEMENTED, Some(function), message)
    }

    /// Creates the error for an extension that lacks a function.
    #[cold]
    pub(crate) fn missing_in(function: &'static str, table: &'static str, plugin: ApiVersion) -> Self {
        let message = format!("the plugin has API {plugin} and lacks this function in its {table}");
        Self::new(ErrorKind::Unsupported, ErrorCode::UNIMPLEMENTED, Some(function), message)
    }

    #[cold]
    pub(crate) fn unsupported(message: String) -> Self {
        Self::new(ErrorKind::Unsupported, ErrorCode::UNIMPLEMENTED, None, message)
    }

    #[cold]
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, ErrorCode::INVALID_ARGUMENT, None, message.into())
    }

    #[cold]
    pub(crate) fn timeout(message: String) -> Self {
        Self::new(ErrorKind::Timeout, ErrorCode::DEADLINE_EXCEEDED, None, message)
    }

    #[cold]
    pub(crate) fn malformed(function: &'static str, broken: Malformed) -> Self {
        let message = format!("the plugin returned an invalid answer: {broken}");
        Self::new(ErrorKind::Malformed, ErrorCode::INTERNAL, Some(function), message)
    }

    #[cold]
    pub(crate) fn malformed_text(function: &'static str, message: String) -> Self {
        Self::new(ErrorKind::Malformed, ErrorCode::INTERNAL, Some(function), message)
    }

    /// Returns the origin of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the status code. Errors of this crate have the code that fits best.
    #[doc(alias = "PJRT_Error_GetCode")]
    pub fn code(&self) -> ErrorCode {
        self.0.code
    }

    /// Returns the name of the C function that reported the error, that returned invalid data, or that the plugin
    /// lacks. Returns `None` for other errors.
    pub fn function(&self) -> Option<&'static str> {
        self.0.function
    }

    /// Returns the error message, without the code and the name of the function.
    #[doc(alias = "PJRT_Error_Message")]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the payloads that the plugin attached to the error, as pairs of a name and a value.
    #[doc(alias = "PJRT_Error_ForEachPayload")]
    pub fn payloads(&self) -> &[(String, Vec<u8>)] {
        &self.0.payloads
    }

    /// Returns whether the plugin reported an error with the code `RESOURCE_EXHAUSTED`, which means that it ran out of
    /// memory. Some plugins also use this code for other limited resources.
    ///
    /// [`ClientOptions::with_out_of_memory_hook`](crate::ClientOptions::with_out_of_memory_hook) sets a function that
    /// frees memory when such an error occurs.
    pub fn is_out_of_memory(&self) -> bool {
        self.0.kind == ErrorKind::Plugin && self.0.code == ErrorCode::RESOURCE_EXHAUSTED
    }

    /// Returns the memory statistics of devices at the time of an out-of-memory error. After a failed upload,
    /// allocation, copy or run, the list contains the statistics of the operation's devices. After a failed compilation
    /// or wait for an event, the list contains the statistics of all addressable devices of the client. The list is
    /// empty for other errors, and if the plugin does not report statistics.
    ///
    /// ```
    /// use pjrt::ClientOptions;
    ///
    /// let options = ClientOptions::new().with("memory_limit", "1MiB");
    /// let client = plugin_registry::open("cpu")?.client(&options)?;
    /// let error = client.buffer_from_host(&vec![0u8; 2 << 20], &[2 << 20]).unwrap_err();
    /// assert!(error.is_out_of_memory());
    /// assert_eq!(error.device_memory()[0].stats.bytes_limit, Some(1 << 20));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn device_memory(&self) -> &[DeviceMemory] {
        &self.0.device_memory
    }

    pub(crate) fn set_device_memory(&mut self, memory: Vec<DeviceMemory>) {
        self.0.device_memory = memory;
    }

    /// Returns the reason why the plugin could not be loaded, for errors of kind [`ErrorKind::Load`].
    pub fn load_error(&self) -> Option<&LoadError> {
        self.0.load.as_ref()
    }
}

impl From<LoadError> for Error {
    fn from(load: LoadError) -> Self {
        let mut error = Self::new(ErrorKind::Load, ErrorCode::UNAVAILABLE, None, load.to_string());
        error.0.load = Some(load);
        error
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { kind, code, function, message, device_memory, .. } = &*self.0;
        if let Some(function) = function {
            write!(f, "{function}: ")?;
        }
        if matches!(kind, ErrorKind::Plugin | ErrorKind::Unsupported) {
            write!(f, "{code}: ")?;
        }
        // The messages of plugins that are written with `device-plugin` already begin with the name of the function.
        // Remove it, because the code above has written the name.
        let named = function.and_then(|function| message.strip_prefix(function)?.strip_prefix(": "));
        f.write_str(named.unwrap_or(message))?;
        for (index, DeviceMemory { device_id, stats, .. }) in device_memory.iter().enumerate() {
            f.write_str(if index == 0 { " (" } else { ", " })?;
            write!(f, "device {device_id}: {} bytes in use", stats.bytes_in_use)?;
            if let Some(limit) = stats.bytes_limit {
                write!(f, " of {limit}")?;
            }
        }
        f.write_str(if device_memory.is_empty() { "" } else { ")" })
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Error");
        debug.field("kind", &self.0.kind).field("code", &self.0.code);
        debug.field("function", &self.0.function).field("message", &self.0.message);
        let names: Vec<&str> = self.0.payloads.iter().map(|(name, _)| name.as_str()).collect();
        debug.field("payloads", &names);
        if !self.0.device_memory.is_empty() {
            debug.field("device_memory", &self.0.device_memory);
        }
        debug.finish()
    }
}

impl std::error::Error for Error {
    /// Returns the cause of a failed load for an error of kind [`ErrorKind::Load`], and `None` for other errors.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.load.as_ref().and_then(std::error::Error::source)
    }
}
