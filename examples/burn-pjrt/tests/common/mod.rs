//! Runs the same operations on Burn's own CPU backend and on PJRT, and compares their results. The plugin is the
//! embedded device, or the plugin that the environment variable `BURN_PJRT_PLUGIN` names.
#![allow(dead_code, reason = "each test uses a part")]

use burn_tensor::backend::Backend;
use burn_tensor::{Bool, Float, Int, Tensor, TensorData};

/// Named results of operations.
#[derive(Default)]
pub(crate) struct Results(Vec<(String, TensorData)>);

impl Results {
    pub(crate) fn float<B: Backend, const D: usize>(&mut self, name: &str, tensor: Tensor<B, D, Float>) {
        self.0.push((name.to_owned(), tensor.into_data()));
    }

    pub(crate) fn int<B: Backend, const D: usize>(&mut self, name: &str, tensor: Tensor<B, D, Int>) {
        self.0.push((name.to_owned(), tensor.into_data()));
    }

    pub(crate) fn bool<B: Backend, const D: usize>(&mut self, name: &str, tensor: Tensor<B, D, Bool>) {
        self.0.push((name.to_owned(), tensor.into_data()));
    }
}

/// Runs a function on both backends and compares the results. Floats may differ by `tolerance`, which is relative for
/// values above 1 and absolute for smaller ones.
#[macro_export]
macro_rules! compare {
    ($results:ident, $tolerance:expr) => {{
        let mut expected = $crate::common::Results::default();
        $results::<burn_flex::Flex>(&mut expected, &Default::default());
        let mut found = $crate::common::Results::default();
        $results::<burn_pjrt::Pjrt>(&mut found, &burn_pjrt::PjrtDevice::default());
        $crate::common::assert_equal(&expected, &found, $tolerance);
    }};
}

/// Compares the results, and reports all differences at once.
pub(crate) fn assert_equal(expected: &Results, found: &Results, tolerance: f64) {
    assert_eq!(expected.0.len(), found.0.len());
    let mut wrong = Vec::new();
    for ((name, expected), (_, found)) in expected.0.iter().zip(&found.0) {
        // `burn-router` converts all tensors that it reads to the default types, so the element types may differ.
        if expected.shape != found.shape {
            wrong.push(format!("{name}: the shape {:?} is not {:?}", found.shape, expected.shape));
            continue;
        }
        let close = |(a, b): (f64, f64)| {
            a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance * a.abs().max(b.abs()).max(1.0)
        };
        if !expected.iter::<f64>().zip(found.iter::<f64>()).all(close) {
            wrong.push(format!("{name}: {found} is not {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
