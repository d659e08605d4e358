//! Runs Burn's own tests of gradients on PJRT. `BURN_SUITE` is the folder `crates/burn-backend-tests` of Burn 0.21.0.
#![recursion_limit = "256"]
#![allow(warnings, reason = "most of the code is that of Burn's tests")]

extern crate alloc;

use burn_autodiff::Autodiff;
use burn_autodiff::checkpoint::strategy::{BalancedCheckpointing, NoCheckpointing};
use burn_pjrt::{Pjrt, PjrtDevice};
pub use burn_tensor::Tensor;

pub type FloatElem = f32;
pub type IntElem = i32;

/// The device type that Burn's tests refer to.
pub struct AutodiffDevice;

impl AutodiffDevice {
    pub fn new() -> PjrtDevice {
        PjrtDevice::default()
    }
}

macro_rules! suite {
    ($name:ident, $strategy:ty) => {
        mod $name {
            use super::*;
            pub use super::{AutodiffDevice, FloatElem, IntElem, Tensor};

            pub type TestBackend = Autodiff<Pjrt, $strategy>;
            pub type TestTensor<const D: usize> = burn_tensor::Tensor<TestBackend, D>;
            pub type TestTensorInt<const D: usize> = burn_tensor::Tensor<TestBackend, D, burn_tensor::Int>;
            pub type TestTensorBool<const D: usize> = burn_tensor::Tensor<TestBackend, D, burn_tensor::Bool>;

            mod gradients {
                pub use super::*;
                include!(concat!(env!("BURN_SUITE"), "/tests/autodiff/mod.rs"));
            }
        }
    };
}

suite!(plain, NoCheckpointing);
suite!(checkpointing, BalancedCheckpointing);
