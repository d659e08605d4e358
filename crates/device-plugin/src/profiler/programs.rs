//! Converts the programs that ran while a profile was taken.
//!
//! A profile refers to operations by their names in the HLO program. XLA's profiler therefore stores the programs as
//! `HloProto` messages in a separate plane, where viewers find them.

use super::recorded_program::RecordedProgram;
use crate::{Error, Result, hlo};

impl RecordedProgram {
    /// Returns the optimized program, or else the received program, as a serialized `HloProto`.
    ///
    /// # Errors
    ///
    /// Returns an error if neither program can be converted to HLO, or if the HLO module has more than `limit` bytes.
    pub(super) fn hlo_proto(&self, limit: usize) -> Result<Vec<u8>> {
        const HLO_MODULE: u8 = 1;
        let optimized = self.optimized.as_ref().and_then(|program| hlo::module(program).ok());
        let module = optimized.map_or_else(|| hlo::module(&self.received), Ok)?;
        if module.len() > limit {
            return Err(Error::resource_exhausted("all programs of a profile together may have at most 512 MiB"));
        }
        let mut proto = Vec::with_capacity(module.len() + 8);
        hlo::message(&mut proto, HLO_MODULE, &module);
        Ok(proto)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorCode, ExecutableInfo, Program};

    #[test]
    fn programs_beyond_limit_are_errors() {
        let module = Program::new("hlo", vec![7; 100]);
        let program = RecordedProgram::new("test", &ExecutableInfo::new("main", [], []), &module);
        assert_eq!(program.hlo_proto(100).unwrap(), [&[0x0a, 100][..], &[7; 100]].concat());
        assert_eq!(program.hlo_proto(99).unwrap_err().code(), ErrorCode::RESOURCE_EXHAUSTED);
    }
}
