//! Measures PJRT plugins on the same programs.
//!
//! [`measure`] compiles a [`Case`] on each [`Side`], compares the outputs with those of the first side, and then runs
//! all sides alternately for the configured time. It measures compilation in the same way. The results are the median
//! and the quartiles of the elapsed time, and the processor time of all threads. Other work on the machine affects the
//! processor time less than the elapsed time. A [`Report`] contains the results of several cases. It can be written as
//! JSON, as text and as a chart.
//!
//! All sides run in one process, so a plugin that keeps threads busy between executions slows down the other sides.
//!
//! ```
//! use pjrt::{ClientOptions, ElementType, Program, Shape};
//! use pjrt_bench::{Case, Report, Settings, Side, measure};
//!
//! let program = Program::mlir(
//!     "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
//!          %0 = stablehlo.add %x, %x : tensor<4xf32>
//!          return %0 : tensor<4xf32>
//!      }",
//! );
//! let plugin = pjrt::Plugin::from_static(pjrt_cpu::Cpu::api())?;
//! let sides = [Side::new("cpu", plugin.client(&ClientOptions::new())?)];
//! let case = Case::with_random_inputs("double", program, &[Shape::new(ElementType::F32, [4])])?;
//! let settings = Settings::default().with_seconds(0.01);
//! let report = Report::new(&sides, vec![measure(&case, &sides, &settings)?]);
//! println!("{report}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod case;
mod chart;
mod error;
mod measure;
mod report;
mod side;
mod statistics;

pub use case::Case;
pub use chart::chart;
pub use error::Error;
pub use measure::{Settings, measure};
pub use report::{CaseReport, Machine, PluginReport, Report, SideReport};
pub use side::Side;
pub use statistics::Times;
