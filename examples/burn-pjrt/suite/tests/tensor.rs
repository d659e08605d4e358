//! Runs Burn's own tests of tensor operations on PJRT. `BURN_SUITE` is the folder `crates/burn-backend-tests` of Burn
//! 0.21.0.
#![recursion_limit = "256"]
#![allow(warnings, reason = "most of the code is that of Burn's tests")]

extern crate alloc;

use burn_pjrt::Pjrt;
pub use burn_tensor::Tensor;

pub type FloatElem = f32;
pub type IntElem = i32;
pub type TestBackend = Pjrt;
pub type TestTensor<const D: usize> = burn_tensor::Tensor<TestBackend, D>;
pub type TestTensorInt<const D: usize> = burn_tensor::Tensor<TestBackend, D, burn_tensor::Int>;
pub type TestTensorBool<const D: usize> = burn_tensor::Tensor<TestBackend, D, burn_tensor::Bool>;

mod clone_invariance {
    include!(concat!(env!("BURN_SUITE"), "/tests/tensor/clone_invariance.rs"));
}

mod multi_threads {
    include!(concat!(env!("BURN_SUITE"), "/tests/tensor/multi_threads.rs"));
}

mod float {
    include!(concat!(env!("BURN_SUITE"), "/tests/tensor/float/mod.rs"));
}

mod int {
    include!(concat!(env!("BURN_SUITE"), "/tests/tensor/int/mod.rs"));
}

mod bool {
    include!(concat!(env!("BURN_SUITE"), "/tests/tensor/bool/mod.rs"));
}
