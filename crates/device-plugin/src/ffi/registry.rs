//! The registry of custom call handlers and of types of user data.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pjrt_types::HandlerTraits;

use super::{Call, DeviceCall};
use crate::abi::extensions::foreign_handler;
use crate::contain::contain;
use crate::per_type::PerType;
use crate::{Backend, Error, ErrorCode, Result};

/// The custom calls and user data types of one backend, for the whole process.
#[derive(Debug, Default)]
pub struct Registry(Mutex<Content>);

#[derive(Debug, Default)]
struct Content {
    /// The handlers, by target and by platform in lower case.
    handlers: HashMap<(String, String), Handler>,
    types: HashMap<String, i64>,
}

/// The code of a custom call.
#[derive(Clone)]
#[non_exhaustive]
pub enum Handler {
    /// Registered by a framework through the C API.
    Foreign(ForeignHandler),
    /// Registered in Rust, for host memory.
    Rust(Arc<RustHandler>),
    /// Registered in Rust, for device memory.
    RustOnDevice(DeviceHandler),
}

type RustHandler = dyn Fn(&mut Call<'_>) -> Result<()> + Send + Sync;
type DeviceFunction = dyn Fn(&DeviceCall<'_>) -> Result<()> + Send + Sync;

/// A Rust function that works on device memory. Only [`Handler::call_on_device`] calls it, because the function trusts
/// the addresses of a call.
#[derive(Clone)]
pub struct DeviceHandler(Arc<DeviceFunction>);

impl DeviceHandler {
    /// Calls the function for [`Handler::call_on_device`], which is unsafe. A panic becomes an error.
    pub(crate) fn call(&self, call: &DeviceCall<'_>) -> Result<()> {
        contain(|| (self.0)(call))
    }
}

/// The address of an `XLA_FFI_Handler`. [`Handler::call`] and [`Handler::call_on_device`] call the handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignHandler {
    address: usize,
    traits: HandlerTraits,
}

impl ForeignHandler {
    pub(crate) fn new(address: usize, traits: u32) -> Self {
        Self { address, traits: HandlerTraits(traits) }
    }

    /// Returns the handler's address, which is not null. The provenance of the address is exposed, so
    /// `std::ptr::with_exposed_provenance` returns a pointer that can be called.
    pub fn address(&self) -> usize {
        self.address
    }

    /// Returns the properties that the framework declared for the handler.
    pub fn traits(&self) -> HandlerTraits {
        self.traits
    }
}

impl Handler {
    /// Creates a handler from a Rust function. A panic of the function becomes the error `INTERNAL` of the call.
    pub fn rust(function: impl Fn(&mut Call<'_>) -> Result<()> + Send + Sync + 'static) -> Self {
        Self::Rust(Arc::new(function))
    }

    /// Creates a handler from a Rust function that enqueues work on a device. A panic of the function becomes the error
    /// `INTERNAL` of the call.
    ///
    /// The function may use the addresses and the stream of the call as [`Handler::call_on_device`] promises.
    pub fn rust_on_device(function: impl Fn(&DeviceCall<'_>) -> Result<()> + Send + Sync + 'static) -> Self {
        Self::RustOnDevice(DeviceHandler(Arc::new(function)))
    }

    /// Calls the handler. A handler in C receives the buffers, the attributes and the user data. If it requests a
    /// stream, state, threads or a future, the request fails with `UNIMPLEMENTED`.
    ///
    /// # Errors
    ///
    /// Returns the errors of the handler, `INTERNAL` if a handler in Rust panics, and `UNIMPLEMENTED` for a handler of
    /// device memory. For a handler in C, also returns `UNIMPLEMENTED` or `INVALID_ARGUMENT` if the call cannot be
    /// passed to it, and `FAILED_PRECONDITION` if the execution of the call's context has ended.
    pub fn call(&self, call: &mut Call<'_>) -> Result<()> {
        match self {
            Self::Rust(function) => contain(|| function(call)),
            Self::Foreign(handler) => foreign_handler::call(handler.address, call),
            Self::RustOnDevice(_) => Err(wrong_memory(call.target, "device", "host")),
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Foreign(one), Self::Foreign(two)) => one == two,
            (Self::Rust(one), Self::Rust(two)) => Arc::ptr_eq(one, two),
            (Self::RustOnDevice(one), Self::RustOnDevice(two)) => Arc::ptr_eq(&one.0, &two.0),
            _ => false,
        }
    }
}

impl fmt::Debug for DeviceHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeviceHandler(..)")
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign(handler) => f.debug_tuple("Foreign").field(handler).finish(),
            Self::Rust(_) => f.write_str("Rust(..)"),
            Self::RustOnDevice(handler) => f.debug_tuple("RustOnDevice").field(handler).finish(),
        }
    }
}

/// The error for a handler that works on the memory `of`, in a call that passes the memory `passed`.
pub(crate) fn wrong_memory(target: &str, of: &str, passed: &str) -> Error {
    Error::unimplemented(format!(
        "the handler of the custom call {target:?} works on {of} memory, but this device passes {passed} memory; \
         register a handler for {passed} memory"
    ))
}

/// Registries and their contents live as long as the process.
static REGISTRIES: PerType<Registry> = PerType::new();

impl Registry {
    /// Returns the registry of a backend. Every call returns the same registry.
    pub fn of<B: Backend>() -> &'static Self {
        REGISTRIES.get_or_make::<B>(Self::default)
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers the handler of a target on a platform. Registering the same handler again has no effect.
    ///
    /// # Errors
    ///
    /// Returns `INVALID_ARGUMENT` for an empty target, and `ALREADY_EXISTS` if the target has another handler on that
    /// platform.
    pub fn register(&self, target: &str, platform: &str, handler: Handler) -> Result<()> {
        if target.is_empty() {
            return Err(Error::invalid_argument("the target name of the custom call is empty"));
        }
        let mut content = self.content();
        let key = (target.to_owned(), platform.to_lowercase());
        match content.handlers.get(&key) {
            Some(known) if known.is_same(&handler) => Ok(()),
            Some(_) => Err(Error::new(
                ErrorCode::ALREADY_EXISTS,
                format!("custom call {target:?} on platform {platform:?} already has another handler"),
            )),
            None => {
                content.handlers.insert(key, handler);
                Ok(())
            }
        }
    }

    /// Returns the handler of a target on a platform, or `None` if no handler is registered. The case of the platform's
    /// name does not matter.
    pub fn handler(&self, target: &str, platform: &str) -> Option<Handler> {
        self.content().handlers.get(&(target.to_owned(), platform.to_lowercase())).cloned()
    }

    /// Returns the target and the platform (in lower case) of each handler, sorted. Use this function to list the
    /// handlers in error messages.
    pub fn targets(&self) -> Vec<(String, String)> {
        let mut targets: Vec<_> = self.content().handlers.keys().cloned().collect();
        targets.sort_unstable();
        targets
    }

    /// Returns the id of a type of user data, or `None` if the type is not registered.
    pub fn type_id(&self, name: &str) -> Option<i64> {
        self.content().types.get(name).copied()
    }

    /// Registers a type of user data and returns its id: the requested id or, if `id` is `None`, a new positive id.
    /// Registering the same name again returns the same id.
    ///
    /// # Errors
    ///
    /// Returns `INVALID_ARGUMENT` for an empty name, for the id 0, for a name that has another id, and for an id that
    /// belongs to another name. Returns `RESOURCE_EXHAUSTED` if no id is left.
    pub fn register_type(&self, name: &str, id: Option<i64>) -> Result<i64> {
        if name.is_empty() {
            return Err(Error::invalid_argument("the name of the type of user data is empty"));
        }
        if id == Some(0) {
            // The C interface requests a new id with 0, so 0 cannot be an id.
            return Err(Error::invalid_argument(format!("type {name:?} cannot get the id 0, which means no id")));
        }
        let mut content = self.content();
        let known = content.types.get(name).copied();
        match (known, id) {
            (Some(known), Some(id)) if known != id => Err(Error::invalid_argument(format!(
                "type {name:?} already has the id {known}; it cannot get the id {id}"
            ))),
            (Some(known), _) => Ok(known),
            (None, Some(id)) => match content.types.iter().find(|(_, known)| **known == id) {
                Some((other, _)) => {
                    Err(Error::invalid_argument(format!("the id {id} already belongs to type {other:?}")))
                }
                None => {
                    content.types.insert(name.to_owned(), id);
                    Ok(id)
                }
            },
            (None, None) => {
                // Use the successor of the largest id, so that the ids remain small. If the largest id is `i64::MAX`,
                // use the first free id.
                let last = content.types.values().copied().max().unwrap_or(0).max(0);
                let is_free = |id: &i64| content.types.values().all(|known| known != id);
                let id = last.checked_add(1).or_else(|| (1..i64::MAX).find(is_free));
                let id = id.ok_or_else(|| Error::resource_exhausted("all ids for types of user data are used"))?;
                content.types.insert(name.to_owned(), id);
                Ok(id)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn one_handler_per_target_and_platform() {
        let registry = Registry::default();
        let one = Handler::Foreign(ForeignHandler::new(64, 1));
        registry.register("f", "Host", one.clone()).unwrap();
        registry.register("f", "HOST", one).unwrap();
        let other = Handler::rust(|_| Ok(()));
        assert_eq!(registry.register("f", "host", other.clone()).unwrap_err().code(), ErrorCode::ALREADY_EXISTS);
        registry.register("f", "toy", other.clone()).unwrap();
        registry.register("f", "toy", other).unwrap();
        assert!(registry.register("", "toy", Handler::rust(|_| Ok(()))).is_err());
        assert!(
            matches!(registry.handler("f", "hOST"), Some(Handler::Foreign(f)) if f.traits().is_command_buffer_compatible())
        );
        assert!(registry.handler("g", "host").is_none());
        assert_eq!(registry.targets(), [("f".to_owned(), "host".to_owned()), ("f".to_owned(), "toy".to_owned())]);
    }

    #[test]
    fn types_have_one_id() {
        let registry = Registry::default();
        assert_eq!(registry.register_type("a", Some(7)), Ok(7));
        assert_eq!(registry.register_type("b", None), Ok(8));
        assert_eq!(registry.register_type("b", None), Ok(8));
        assert_eq!(registry.register_type("b", Some(8)), Ok(8));
        let mut messages = String::new();
        for name in ["b", "c"] {
            messages += &format!("{name}=7: {}\n", registry.register_type(name, Some(7)).unwrap_err());
        }
        expect![[r#"
            b=7: INVALID_ARGUMENT: type "b" already has the id 8; it cannot get the id 7
            c=7: INVALID_ARGUMENT: the id 7 already belongs to type "a"
        "#]]
        .assert_eq(&messages);
        assert!(registry.register_type("", None).is_err());
        assert!(registry.register_type("zero", Some(0)).is_err());
        assert_eq!((registry.type_id("a"), registry.type_id("c")), (Some(7), None));
        // A new id never equals an id that a framework has chosen for another type.
        assert_eq!(registry.register_type("last", Some(i64::MAX)), Ok(i64::MAX));
        assert_eq!(registry.register_type("d", None), Ok(1));
        assert_eq!(registry.register_type("e", None), Ok(2));
        assert_eq!(registry.register_type("negative", Some(-3)), Ok(-3));
    }
}
