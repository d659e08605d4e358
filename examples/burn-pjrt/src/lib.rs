//! A backend of the [Burn](https://burn.dev) framework that runs on any PJRT plugin.
//!
//! [`Pjrt`] implements Burn's `Backend` through `burn-router`, which describes each operation as data instead of running
//! it. A [`PjrtDevice`] records the operations. When the program reads a tensor, the device
//!
//! 1. removes operations whose results are not in use,
//! 2. looks for an executable of an equal graph, and otherwise lowers the graph to StableHLO and compiles it,
//! 3. executes it on the plugin, and keeps the results that are still in use on the device.
//!
//! ```
//! use burn_pjrt::{Pjrt, PjrtDevice};
//! use burn_tensor::Tensor;
//!
//! let device = PjrtDevice::open("cpu")?;
//! let x = Tensor::<Pjrt, 2>::from_floats([[1.0, 2.0], [3.0, 4.0]], &device);
//! let y = x.clone().matmul(x).tanh().sum();
//! assert!((y.into_scalar() - 3.999).abs() < 0.01);
//! # Ok::<(), burn_pjrt::Error>(())
//! ```

mod channel;
mod client;
mod device;
mod dtype;
mod engine;
mod error;
mod graph;
mod key;
mod lower;
mod scalars;
mod settings;

pub use channel::{HostBridge, PjrtChannel};
pub use client::PjrtClient;
pub use device::PjrtDevice;
pub use engine::Statistics;
pub use error::Error;
pub use settings::Settings;

/// The backend. Its device is [`PjrtDevice`], its default types are `f32`, `i32` and `bool`.
pub type Pjrt = burn_router::BackendRouter<PjrtChannel>;
