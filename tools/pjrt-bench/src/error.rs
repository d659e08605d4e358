//! Errors of a measurement.

use pjrt_record::replay::Difference;

/// An error of a measurement, with the case and the side that caused it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An input has a type for which no random values exist.
    #[error("input {index} is a {shape}, for which there are no random values; pass the input")]
    NoRandomInput {
        /// Index of the input.
        index: usize,
        /// Shape of the input.
        shape: String,
    },
    /// The client of a side has no device that this process may use.
    #[error("{side}: the client has no addressable device")]
    NoDevice {
        /// Name of the side.
        side: String,
    },
    /// A call of the plugin failed.
    #[error("{case} on {side}: {step}: {source}")]
    Plugin {
        /// Name of the case.
        case: String,
        /// Name of the side.
        side: String,
        /// The step that failed: the upload, the compilation, the execution or the read of an output.
        step: &'static str,
        /// The plugin's error.
        #[source]
        source: pjrt::Error,
    },
    /// The number or the shapes of the outputs differ between two sides.
    #[error("{case}: the outputs of {side} are {got}, those of {first} are {expected}")]
    Shapes {
        /// Name of the case.
        case: String,
        /// Name of the side whose outputs differ from those of the first side.
        side: String,
        /// Name of the first side.
        first: String,
        /// Shapes of the side's outputs.
        got: String,
        /// Shapes of the first side's outputs.
        expected: String,
    },
    /// The values of an output differ by more than the tolerance.
    #[error(
        "{case}: output {output} of {side} differs from that of {first} in {} of {} elements, first at {:?}: {} \
         instead of {}",
        difference.count, difference.elements, difference.index, difference.got, difference.expected
    )]
    Values {
        /// Name of the case.
        case: String,
        /// Name of the side whose output differs from that of the first side.
        side: String,
        /// Name of the first side.
        first: String,
        /// Index of the output.
        output: usize,
        /// Difference between the two outputs.
        difference: Box<Difference>,
    },
}
