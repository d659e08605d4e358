//! Errors of a measurement.

use pjrt_record::replay::Difference;

/// An error of a measurement. Names the case, and the side that caused it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Random inputs cannot be made for this type.
    #[error("input {index} is a {shape}, for which there are no random values; pass the input")]
    NoRandomInput {
        /// The input's index.
        index: usize,
        /// Its shape.
        shape: String,
    },
    /// The client of a side has no device that this process may use.
    #[error("{side}: the client has no addressable device")]
    NoDevice {
        /// The side's name.
        side: String,
    },
    /// A call of the plugin failed.
    #[error("{case} on {side}: {step}: {source}")]
    Plugin {
        /// The case's name.
        case: String,
        /// The side's name.
        side: String,
        /// The step that failed: the upload, the compilation, the execution or the read of an output.
        step: &'static str,
        /// The plugin's error.
        #[source]
        source: pjrt::Error,
    },
    /// The numbers of outputs or their shapes differ.
    #[error("{case}: the outputs of {side} are {got}, those of {first} are {expected}")]
    Shapes {
        /// The case's name.
        case: String,
        /// The side whose outputs differ from those of the first side.
        side: String,
        /// The first side.
        first: String,
        /// The shapes of the side's outputs.
        got: String,
        /// The shapes of the first side's outputs.
        expected: String,
    },
    /// The values of an output differ by more than the tolerance.
    #[error(
        "{case}: output {output} of {side} differs from that of {first} in {} of {} elements, first at {:?}: {} \
         instead of {}",
        difference.count, difference.elements, difference.index, difference.got, difference.expected
    )]
    Values {
        /// The case's name.
        case: String,
        /// The side whose output differs from that of the first side.
        side: String,
        /// The first side.
        first: String,
        /// The output's index.
        output: usize,
        /// The difference.
        difference: Box<Difference>,
    },
}
