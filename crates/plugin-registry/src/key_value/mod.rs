//! Key-value stores through which the clients of several processes find each other.
//!
//! A plugin that drives the devices of several processes requests a store from the framework ([`pjrt::KeyValueStore`]).
//! One process sets the keys for which the other processes wait. [`InProcess`] is a store for clients within one
//! process. `Redis` (feature `redis`) and `Etcd` (feature `etcd`) are stores for processes on any hosts. [`Prefixed`]
//! separates the keys of different plugins, and of different runs of a program, that share a store.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use pjrt::KeyValueStore;
//! use plugin_registry::key_value::{InProcess, Prefixed};
//!
//! let store = Arc::new(InProcess::new());
//! let (cpu, gpu) = (Prefixed::new(store.clone(), "run7", "cpu"), Prefixed::new(store, "run7", "gpu"));
//! cpu.put("address", b"node0:1234").unwrap();
//! assert_eq!(cpu.get("address", Duration::from_secs(1)).unwrap(), b"node0:1234");
//! assert_eq!(gpu.try_get("address").unwrap(), None);
//! ```

mod answer;
#[cfg(any(feature = "etcd", feature = "redis"))]
mod deadline;
#[cfg(feature = "etcd")]
mod etcd;
#[cfg(feature = "etcd")]
mod etcd_answers;
#[cfg(feature = "etcd")]
mod etcd_gateway;
mod in_process;
mod prefixed;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "redis")]
mod redis_connection;

#[cfg(feature = "etcd")]
pub use self::etcd::{Etcd, EtcdError};
#[cfg(feature = "redis")]
pub use self::redis::{Redis, RedisError};
pub use in_process::InProcess;
pub use prefixed::Prefixed;
