//! Devices of a PJRT plugin in another process.
//!
//! A *server* opens a plugin and serves its devices. The *plugin* `remote` forwards the calls of a framework to a
//! server. So several processes share a device that only one process can open, and a plugin that crashes does not end
//! the framework.
//!
//! With the feature `server`, [`Server`] serves the devices of a client of `pjrt`. With the feature `plugin`, the type
//! `Remote` is the plugin. `docs/remote-protocol.md` in the repository documents the protocol between both.
#![deny(unsafe_code)]

#[cfg_attr(not(all(feature = "server", feature = "plugin")), allow(dead_code, reason = "the other side uses the rest"))]
mod net;
#[cfg(feature = "plugin")]
mod plugin;
#[cfg(feature = "server")]
mod server;
#[allow(unsafe_code, reason = "accesses shared memory")]
#[cfg_attr(not(all(feature = "server", feature = "plugin")), allow(dead_code, reason = "the other side uses the rest"))]
mod shared;
#[cfg_attr(not(all(feature = "server", feature = "plugin")), allow(dead_code, reason = "the other side uses the rest"))]
mod wire;

pub use net::address::{Address, Fingerprint};
#[cfg(all(feature = "server", feature = "tls"))]
pub use net::tls::Identity;
#[cfg(feature = "plugin")]
pub use plugin::backend::RemoteBackend;
#[cfg(feature = "plugin")]
pub use plugin::objects::{RemoteBuffer, RemoteExecutable};
#[cfg(feature = "plugin")]
pub use plugin::remote::Remote;
#[cfg(feature = "plugin")]
pub use plugin::settings::ADDRESS as SERVER;
#[cfg(feature = "server")]
pub use server::access::Access;
#[cfg(feature = "server")]
pub use server::limits::Limits;
#[cfg(feature = "server")]
pub use server::listener::{Listener, Server};
#[cfg(feature = "server")]
pub use server::status::ClientStatus;
#[cfg(all(feature = "server", unix))]
pub use server::supervisor::{Supervisor, WorkerEvent};
#[cfg(feature = "server")]
pub use server::token::Token;

/// Tests the examples of the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct PackageReadme;
