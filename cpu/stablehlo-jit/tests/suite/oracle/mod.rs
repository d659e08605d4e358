//! Generates programs from bytes, interprets them, and compares the interpretation with the generated code.
//!
//! The fuzz target `jit` and the test `random_programs` share this module. It uses only the public interface of the
//! crate. The interpreter computes with 128-bit integers and checks every access.

mod generate;
mod interpret;
pub(crate) mod ops;

use std::sync::atomic::AtomicBool;

use stablehlo_jit::{Code, Error, Host, HostStep};

use generate::Generated;
use interpret::{End, Machine, Mode};

/// Bytes in front of and behind each array that a run must not change.
const MARGIN: usize = 256;
/// Content of these bytes.
const CANARY: u8 = 0xA5;
/// Largest array of a program that is run.
const LARGEST: usize = 4096;

/// Result of the check of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The verifier rejected the program.
    Rejected,
    /// The program was accepted, and its accesses were checked. It was not run, because a run would take too long or
    /// depend on unspecified bits.
    Checked,
    /// The generated code and the interpreter computed the same bytes.
    Compared,
}

/// Checks that a program made from these bytes is rejected, or that its accesses lie in its arrays and the generated
/// code computes what the interpreter computes. Returns a description of the first violation.
pub(crate) fn check(bytes: &[u8]) -> Result<Outcome, String> {
    let generated = generate::program(bytes);
    let failed = |what: String| format!("{what}\n{:#?}", generated.program);
    let code = match Code::compile(&generated.program) {
        Ok(code) => code,
        Err(Error::Invalid(_) | Error::TooLarge { .. }) => return Ok(Outcome::Rejected),
        Err(error) => return Err(failed(error.to_string())),
    };
    // Visit extreme values of counters and bounds.
    for round in 0..4 {
        let mut machine = Machine::new(&generated, Mode::Extremes(round));
        machine.run().map_err(|what| failed(format!("round {round}: {what}")))?;
    }
    if generated.arrays.iter().any(|&(_, bytes, _)| bytes > LARGEST) {
        return Ok(Outcome::Checked);
    }
    let mut machine = Machine::new(&generated, Mode::Exact);
    let end = machine.run().map_err(&failed)?;
    if end == End::Abandoned {
        return Ok(Outcome::Checked);
    }
    compare(&generated, &code, &machine, end).map_err(failed)?;
    Ok(Outcome::Compared)
}

fn compare(generated: &Generated, code: &Code, machine: &Machine<'_>, end: End) -> Result<(), String> {
    let margin = [CANARY; MARGIN];
    let arrays = generated.arrays.iter().enumerate();
    let framed = |(at, &(_, bytes, _))| [&margin, &interpret::content(at, bytes)[..], &margin].concat();
    let mut memories: Vec<Vec<u8>> = arrays.clone().map(framed).collect();
    let (mut reads, mut writes): (Vec<&[u8]>, Vec<&mut [u8]>) = (Vec::new(), Vec::new());
    for (memory, &(_, bytes, writable)) in memories.iter_mut().zip(&generated.arrays) {
        let own = &mut memory[MARGIN..MARGIN + bytes];
        if writable {
            writes.push(own);
        } else {
            reads.push(own);
        }
    }
    let stop = AtomicBool::new(false);
    let result = code.run(&reads, &mut writes, Some(&stop), &mut Sums { steps: &generated.steps });
    let expected = if end == End::Stopped { Err(Error::Stopped) } else { Ok(()) };
    if result != expected {
        return Err(format!("the run returned {result:?} in place of {expected:?}"));
    }
    for ((at, &(_, bytes, _)), memory) in arrays.zip(&memories) {
        let (front, rest) = memory.split_at(MARGIN);
        let (own, behind) = rest.split_at(bytes);
        if front.iter().chain(behind).any(|&byte| byte != CANARY) {
            return Err(format!("the run wrote beside array {at}"));
        }
        let expected = machine.memory(at);
        if let Some(i) = (0..bytes).find(|&i| !machine.is_unspecified(at, i) && own[i] != expected[i]) {
            return Err(format!("byte {i} of array {at} is {} in place of {}", own[i], expected[i]));
        }
    }
    Ok(())
}

/// Returns the byte that step `step` of the host writes, and whether the run continues.
fn step_result<'a>(step: u32, reads: impl Iterator<Item = &'a [u8]>) -> (u8, bool) {
    let sum = reads.flatten().fold(step as u8, |sum, &byte| sum.wrapping_mul(3).wrapping_add(byte));
    (sum, step % 4 != 3)
}

/// Runs the steps of the host, and checks that their parts have the declared lengths.
struct Sums<'g> {
    steps: &'g [HostStep],
}

impl Host for Sums<'_> {
    fn call(&mut self, step: u32, reads: &[&[u8]], writes: &mut [&mut [u8]]) -> bool {
        let declared = &self.steps[step as usize];
        assert!(declared.reads.iter().map(|part| part.bytes).eq(reads.iter().map(|read| read.len())));
        assert!(declared.writes.iter().map(|part| part.bytes).eq(writes.iter().map(|write| write.len())));
        let (byte, continues) = step_result(step, reads.iter().copied());
        writes.iter_mut().for_each(|write| write.fill(byte));
        continues
    }
}
