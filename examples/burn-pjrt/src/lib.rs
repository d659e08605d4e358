//! A backend of the [Burn](https://burn.dev) framework that runs on any PJRT plugin.
//!
//! [`Pjrt`] implements Burn's `Backend` through `burn-router`, which describes each operation as data instead of
//! running it. A [`PjrtDevice`] records the operations. When the program reads a tensor, the device does the following:
//!
//! 1. It removes operations whose results are not in use.
//! 2. It looks up the executable of an equal graph. If there is none, it lowers the graph to StableHLO and compiles it.
//! 3. It runs the executable on the plugin. Results that are still in use stay on the device.
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

/// The Burn backend. Its device is [`PjrtDevice`], and its default types are `f32`, `i32` and `bool`.
pub type Pjrt = burn_router::BackendRouter<PjrtChannel>;
