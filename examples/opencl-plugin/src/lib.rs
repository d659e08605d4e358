//! The PJRT plugin `opencl`.
