//! `fft`.

use stablehlo::ir::FftType;

use super::{LoweringContext, Result};
use crate::engine::dtype::DType;
use crate::engine::kernels::fft::Fft;
use crate::engine::machine_memory::MachineMemory;
use crate::error::CompileError;

/// Minimum length of a transform whose tables are compared with the machine's memory.
const LONG: usize = 1 << 20;
/// Available memory in bytes on systems that do not report it.
const ASSUMED: usize = 4 << 30;

impl LoweringContext<'_, '_> {
    pub(super) fn fft(&mut self, kind: FftType, lengths: &[i64]) -> Result<()> {
        let [x] = self.take()?;
        let lengths = self.sizes(lengths, lengths.len(), "fft_length")?;
        let rank = x.ty.rank();
        self.ensure(!lengths.is_empty() && lengths.len() <= rank, || {
            format!("fft_length = {lengths:?} does not fit {}", x.ty)
        })?;
        let double = match x.ty.dtype {
            DType::F32 | DType::C64 => false,
            DType::F64 | DType::C128 => true,
            _ => return Err(self.unsupported()),
        };
        let (part, complex) = if double { (DType::F64, DType::C128) } else { (DType::F32, DType::C64) };
        let mut given = x.ty.dims[..rank - lengths.len()].to_vec();
        given.extend(&lengths);
        let mut halved = given.clone();
        halved[rank - 1] = lengths[lengths.len() - 1] / 2 + 1;
        // Determine the element types and the extents of the operand and the result.
        let ((from, operand), (to, result)) = match kind {
            FftType::Fft | FftType::Ifft => ((complex, &given), (complex, &given)),
            FftType::Rfft => ((part, &given), (complex, &halved)),
            FftType::Irfft => ((complex, &halved), (part, &given)),
        };
        self.tables_fit(&lengths, complex.size())?;
        // If a length is zero, the operand and the result are empty, so the extents of the operand are not checked.
        let empty = lengths.contains(&0);
        let fits = x.ty.dtype == from && (x.ty.dims[..] == operand[..] || empty);
        self.ensure(fits, || format!("{kind:?} of lengths {lengths:?} does not fit {}", x.ty))?;
        let ty = if empty { self.result_type(0)? } else { self.typed(to, result)? };
        if empty || ty.elements() == 0 {
            let v = self.graph.splat_value(&vec![0; ty.dtype.size()], ty.elements());
            return self.finish_one(v, ty);
        }
        let v = if double {
            self.kernel(Fft::<f64>::new(kind, &lengths), &[x.value], &[], std::slice::from_ref(&ty))[0]
        } else {
            self.kernel(Fft::<f32>::new(kind, &lengths), &[x.value], &[], std::slice::from_ref(&ty))[0]
        };
        self.finish_one(v, ty)
    }

    /// Checks that the machine has memory for the tables of a transform. They have about one complex number of `size`
    /// bytes for each index of a dimension, and each thread has work space of the same size.
    fn tables_fit(&self, lengths: &[usize], size: usize) -> Result<()> {
        let longest = lengths.iter().copied().max().unwrap_or(0);
        if longest < LONG {
            return Ok(());
        }
        let needed = longest.saturating_mul(3 * size);
        let available = MachineMemory::read().map_or(ASSUMED, |memory| memory.available);
        if needed > available {
            return Err(CompileError::too_large(format!(
                "fft of length {longest} needs {needed} bytes for its tables, and {available} bytes are available"
            )));
        }
        Ok(())
    }
}
