//! Custom calls: user code that a program calls by name.
//!
//! A backend with the feature [`Features::ffi`](crate::features::Features::ffi) receives the handlers that frameworks
//! register. The plugin's [`Registry`] contains each [`Handler`] with its target and platform, and types of user data
//! with their ids. Each launch has an [`ExecuteContext`] with the user data of that execution. Frameworks in Rust can
//! register handlers in Rust, which a backend calls without unsafe code:
//!
//! ```
//! use device_plugin::ffi::{Call, Handler, Registry};
//! # use device_plugin::{NoBackend as MyDevice, Error, Result};
//!
//! fn scale(call: &mut Call<'_>) -> Result<()> {
//!     let factor = call.attributes.get("factor").and_then(|value| value.as_float()).unwrap_or(1.0);
//!     let input: Vec<f32> = call.operands[0].elements()?;
//!     call.results[0].write(&input.iter().map(|x| x * factor as f32).collect::<Vec<_>>())
//! }
//!
//! Registry::of::<MyDevice>().register("scale", "my_device", Handler::rust(scale))?;
//! # Ok::<(), Error>(())
//! ```
//!
//! # Handlers in C
//!
//! A framework registers the address of an `XLA_FFI_Handler`. [`Handler::call`] calls this handler as XLA does, with
//! the call's attributes, with its operands and results in host memory, and with the user data of the execution.
//! Handlers that require other functions of XLA's runtime, such as state or threads, receive an error. The call fails
//! after the execution has ended, because the framework may then free the user data.
//!
//! # Handlers on devices
//!
//! For a device with separate memory, [`Handler::call_on_device`] passes the addresses of device memory instead, with
//! the queue in which the program runs. The handler enqueues its kernels there, so neither the handler nor the backend
//! waits. [`Handler::rust_on_device`] creates such a handler in Rust. A handler in C requests the queue with
//! `XLA_FFI_Stream_Get`. It does not say whether it works on host or device memory, so frameworks register it for the
//! platform whose memory it uses.

mod call;
mod context;
mod device_call;
pub(crate) mod registry;

pub use call::{Attribute, Attributes, Call, Operand, ResultBuffer};
pub use context::{ExecuteContext, UserData};
pub use device_call::{DeviceArray, DeviceCall};
pub use pjrt_types::HandlerTraits;
pub use registry::{DeviceHandler, ForeignHandler, Handler, Registry};
