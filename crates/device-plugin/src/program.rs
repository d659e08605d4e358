//! Programs, and what a backend makes of them.

use bytes::Bytes;

use crate::{ElementType, Layout, Shape};

/// A program as a framework hands it over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// `mlir` for StableHLO (a portable artifact or text), `hlo` or `hlo_with_config` for HLO protos.
    pub format: String,
    /// The program; slices of it share its memory. The `stablehlo` crate reads format `mlir`: `stablehlo::parse` takes
    /// a clone of this.
    pub code: Bytes,
}

impl Program {
    /// The StableHLO version that a portable artifact was serialized for: major, minor and patch. None for programs in
    /// other forms.
    ///
    /// Where the plugin says which versions it reads
    /// ([`DevicePlugin::stablehlo_versions`](crate::DevicePlugin::stablehlo_versions)), the SDK refuses the others before
    /// the backend sees them.
    pub fn stablehlo_version(&self) -> Option<[i64; 3]> {
        crate::artifact::version(&self.code)
    }
}

/// Result of [`Backend::compile`](crate::Backend::compile).
#[derive(Clone, Debug)]
pub struct Compiled<E> {
    /// What the backend needs to run the program.
    pub executable: E,
    /// What frameworks ask about it.
    pub info: ExecutableInfo,
}

/// What frameworks ask about a compiled program. The SDK checks the arguments of each execution against it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExecutableInfo {
    /// Name of the program, such as its module's.
    pub name: String,
    /// Shapes of the parameters, in order.
    pub parameters: Vec<Shape>,
    /// Shapes of the outputs, in order: as many as the program returns, which frameworks rely on.
    pub outputs: Vec<Shape>,
    /// Indices of the parameters whose buffers an execution uses up, unless its caller forbids it.
    pub donated: Vec<usize>,
    /// Memory kinds of the outputs; empty when all are in the default memory, as is one with an empty name.
    pub output_memory_kinds: Vec<String>,
    /// The same for the parameters.
    pub parameter_memory_kinds: Vec<String>,
    /// Layouts of the outputs; empty when all are stored as [`Backend::default_layout`](crate::Backend::default_layout)
    /// says. Programs hand out arrays as the device stores them: dense and row-major in the order of the layout.
    pub output_layouts: Vec<Layout>,
    /// The same for the parameters.
    pub parameter_layouts: Vec<Layout>,
    /// Identifies the program for caches; the SDK hashes program and options when it is none.
    pub fingerprint: Option<String>,
    /// Bytes of generated code; -1 when unknown.
    pub code_size: i64,
    /// Serialized `OpSharding` messages of the parameters, for programs that run on several devices.
    pub parameter_shardings: Option<Vec<Vec<u8>>>,
    /// The same for the outputs. A program without outputs has one: the sharding of its empty tuple.
    pub output_shardings: Option<Vec<Vec<u8>>>,
    /// The program after optimization, which frameworks may read: of format `mlir` or `hlo_with_config`. When it is
    /// none, they read the one received; the SDK adds the config to a program of format `hlo`.
    pub optimized: Option<Program>,
}

impl ExecutableInfo {
    /// A program of that name and signature that uses up no parameter.
    pub fn new(
        name: impl Into<String>,
        parameters: impl IntoIterator<Item = Shape>,
        outputs: impl IntoIterator<Item = Shape>,
    ) -> Self {
        Self {
            name: name.into(),
            parameters: parameters.into_iter().collect(),
            outputs: outputs.into_iter().collect(),
            donated: Vec::new(),
            output_memory_kinds: Vec::new(),
            parameter_memory_kinds: Vec::new(),
            output_layouts: Vec::new(),
            parameter_layouts: Vec::new(),
            fingerprint: None,
            code_size: -1,
            parameter_shardings: None,
            output_shardings: None,
            optimized: None,
        }
    }

    /// Names the parameters whose buffers an execution uses up.
    #[must_use]
    pub fn donating(mut self, parameters: impl IntoIterator<Item = usize>) -> Self {
        self.donated = parameters.into_iter().collect();
        self
    }
}

/// Bytes of the shapes on the host, for statistics.
pub(crate) fn total_size(shapes: &[Shape]) -> i64 {
    let size =
        |shape: &Shape| if shape.element_type == ElementType::Token { 0 } else { shape.host_size().unwrap_or(0) };
    shapes.iter().map(size).fold(0i64, |sum, size| sum.saturating_add(i64::try_from(size).unwrap_or(i64::MAX)))
}
