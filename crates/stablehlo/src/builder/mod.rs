//! Builds programs: a [`ModuleBuilder`] creates functions, and a [`FunctionBuilder`] has a method for each op.
//!
//! ```
//! use stablehlo::builder::{DotGeneral, ModuleBuilder};
//! use stablehlo::ir::{ElementType, TensorType};
//!
//! let module = ModuleBuilder::new("dense_layer");
//! module.function("main", |f| {
//!     f.numpy_broadcasting(true);
//!     let x = f.argument(TensorType::new([16, 8], ElementType::F32))?;
//!     let weights = f.argument(TensorType::new([8, 4], ElementType::F32))?;
//!     let bias = f.argument(TensorType::new([4], ElementType::F32))?;
//!     let product = f.dot_general(x, weights, DotGeneral::new().contracting([1], [0]))?;
//!     f.tanh(f.add(product, bias)?)
//! })?;
//! let module = module.build()?;
//! assert_eq!(module.entry().expect("a function named main").results[0].to_string(), "tensor<16x4xf32>");
//! # Ok::<(), stablehlo::Error>(())
//! ```
//!
//! A method returns an error if its op is not valid. The error names the op, the problem and the caller's source
//! location, which is also the location of the op in the program:
//!
//! ```
//! use stablehlo::builder::ModuleBuilder;
//! use stablehlo::ir::{ElementType, TensorType};
//!
//! let module = ModuleBuilder::new("wrong");
//! let error = module.function("main", |f| {
//!     let x = f.argument(TensorType::new([2], ElementType::F32))?;
//!     let y = f.argument(TensorType::new([3], ElementType::F32))?;
//!     f.add(x, y)
//! });
//! let error = error.expect_err("the shapes differ");
//! assert_eq!(error.op(), Some("stablehlo.add"));
//! assert_eq!(error.message(), "operands tensor<2xf32> and tensor<3xf32> differ in shape");
//! assert!(error.location().is_some_and(|place| place.contains(".rs:")));
//! ```

mod annotations;
#[cfg(feature = "text")]
mod by_name;
mod calls;
mod collectives;
mod constants;
mod dynamic;
mod elementwise;
mod function;
mod linear;
mod module;
mod options;
mod regions;
mod shapes;
mod state;
mod value;

pub use annotations::{Argument, Output, Sharding};
#[cfg(feature = "text")]
pub use by_name::{EndedRegion, NamedOp};
pub use constants::Element;
pub use dynamic::QuantizedType;
pub use function::{FinishedFunction, FunctionBuilder};
pub use module::{Callee, ModuleBuilder};
pub use options::{
    Channel, Collective, Convolution, CustomCall, DotAlgorithm, DotGeneral, Gather, Scatter, WindowOptions,
};
pub use value::{Value, Values};

pub use crate::ir::RngDistribution;
