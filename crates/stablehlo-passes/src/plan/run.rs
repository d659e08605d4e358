//! Executes the steps of a plan.

use super::step::{Place, Step};

/// A device that executes plans, as the vendor implements it for one launch.
///
/// The steps must take effect in the order of the calls. Calls other than [`Device::read`] need not wait for their end.
pub trait Device {
    /// The vendor's type of a kernel.
    type Kernel;
    /// The vendor's type of an error. It ends the execution.
    type Error;

    /// Runs a kernel.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel cannot run.
    fn run(&mut self, kernel: &Self::Kernel, reads: &[Place], writes: &[Place]) -> Result<(), Self::Error>;

    /// Copies bytes. The places have the same length and do not overlap, but they may be the same memory.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes cannot be copied.
    fn copy(&mut self, from: Place, to: Place) -> Result<(), Self::Error>;

    /// Reads bytes after all steps before. The lengths are equal, and at most 8. Plans without
    /// [control flow](super::Plan::has_control_flow) do not call it.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes cannot be read.
    fn read(&mut self, from: Place, to: &mut [u8]) -> Result<(), Self::Error>;
}

/// Executes steps in their order.
///
/// # Errors
///
/// Returns the first error of the device.
pub fn run<D: Device>(steps: &[Step<D::Kernel>], device: &mut D) -> Result<(), D::Error> {
    for step in steps {
        match step {
            Step::Run { kernel, reads, writes } => device.run(kernel, reads, writes)?,
            Step::Copy { from, to } => device.copy(*from, *to)?,
            Step::While { condition, predicate, body } => loop {
                run(condition, device)?;
                if integer(device, *predicate)? == 0 {
                    break;
                }
                run(body, device)?;
            },
            Step::Case { index, branches } => {
                let number = usize::try_from(integer(device, *index)?).ok();
                let branch = number.and_then(|number| branches.get(number)).or(branches.last());
                run(branch.map_or(&[], Vec::as_slice), device)?;
            }
        }
    }
    Ok(())
}

fn integer<D: Device>(device: &mut D, from: Place) -> Result<i64, D::Error> {
    let mut bytes = [0; 8];
    device.read(from, &mut bytes[..from.bytes])?;
    // Indices have 32 bits, so extend the sign.
    Ok(match from.bytes {
        4 => i64::from(i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
        _ => i64::from_le_bytes(bytes),
    })
}
