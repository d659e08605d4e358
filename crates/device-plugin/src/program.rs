//! The results of compiling a program.

use crate::{ElementType, Layout, Program, Shape};

/// Result of [`Backend::compile`](crate::Backend::compile).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Compiled<E> {
    /// The data that the backend needs to run the program.
    pub executable: E,
    /// Properties of the program that frameworks query.
    pub info: ExecutableInfo,
}

impl<E> Compiled<E> {
    /// Creates the result for a program with these properties.
    pub fn new(executable: E, info: ExecutableInfo) -> Self {
        Self { executable, info }
    }
}

/// Properties of a compiled program that frameworks query. The SDK checks the arguments of each execution against them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExecutableInfo {
    /// Name of the program, usually that of its module.
    pub name: String,
    /// Shapes of the parameters, in order.
    pub parameters: Vec<Shape>,
    /// Shapes of the outputs, in order. Frameworks expect one shape for each value that the program returns.
    pub outputs: Vec<Shape>,
    /// Indices of the donated parameters. An execution consumes their buffers, unless its caller excludes them from
    /// donation.
    pub donated: Vec<usize>,
    /// Memory kinds of the outputs. An empty name selects the default memory of an output. An empty list selects the
    /// default memory for all outputs.
    pub output_memory_kinds: Vec<String>,
    /// Memory kinds of the parameters, with the same meaning of empty values as in [`Self::output_memory_kinds`].
    pub parameter_memory_kinds: Vec<String>,
    /// Layouts of the outputs. Empty if all outputs have their
    /// [`StorageLayouts::default_layout`](crate::features::StorageLayouts::default_layout). A program returns each
    /// array as the device stores it: dense, with the dimensions in the order that the layout specifies.
    pub output_layouts: Vec<Layout>,
    /// Layouts of the parameters. Empty if all parameters have their default layout, as in [`Self::output_layouts`].
    pub parameter_layouts: Vec<Layout>,
    /// Fingerprint that identifies the program in caches. If it is `None`, the SDK hashes the platform, the program and
    /// its compile options.
    pub fingerprint: Option<String>,
    /// Size of the generated code in bytes, or -1 if it is unknown.
    pub size_of_generated_code: i64,
    /// Serialized `OpSharding` messages of the parameters, for programs that run on several devices.
    pub parameter_shardings: Option<Vec<Vec<u8>>>,
    /// Serialized `OpSharding` messages of the outputs. A program without outputs has one message, the sharding of its
    /// empty tuple.
    pub output_shardings: Option<Vec<Vec<u8>>>,
    /// The optimized program, for frameworks that read it back. Its format is `mlir`, `hlo_with_config` or `hlo`. The
    /// SDK converts `hlo` to `hlo_with_config`. If this field is `None`, frameworks read the program that the backend
    /// received.
    pub optimized_program: Option<Program>,
}

impl ExecutableInfo {
    /// Creates the properties of a program with this name and signature, without donated parameters.
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
            size_of_generated_code: -1,
            parameter_shardings: None,
            output_shardings: None,
            optimized_program: None,
        }
    }

    /// Sets the indices of the parameters whose buffers an execution consumes.
    #[must_use]
    pub fn donating(mut self, parameters: impl IntoIterator<Item = usize>) -> Self {
        self.donated = parameters.into_iter().collect();
        self
    }
}

/// Returns the total host size of arrays of these shapes in bytes, for statistics. Tokens and arrays that exceed the
/// address space count as 0.
pub(crate) fn total_size(shapes: &[Shape]) -> i64 {
    let size =
        |shape: &Shape| if shape.element_type == ElementType::Token { 0 } else { shape.host_size().unwrap_or(0) };
    shapes.iter().map(size).fold(0i64, |sum, size| sum.saturating_add(i64::try_from(size).unwrap_or(i64::MAX)))
}
