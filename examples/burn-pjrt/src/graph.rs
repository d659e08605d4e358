//! Selection of the recorded operations that a program must compute.

use std::collections::HashSet;

use burn_backend::DType;
use burn_ir::{OperationIr, TensorId, TensorIr};

use crate::key::KeyWriter;
use crate::scalars;

/// The recorded operations that one program computes.
#[derive(Debug)]
pub(crate) struct Graph {
    /// The operations, in the order in which they were recorded.
    pub(crate) ops: Vec<OperationIr>,
    /// The tensors that the operations read and that exist on the device, in the order of their first use.
    pub(crate) inputs: Vec<TensorIr>,
    /// The results that Burn still uses.
    pub(crate) outputs: Vec<TensorIr>,
    /// For each input, the index of the output that may reuse the input's memory, or `None`.
    pub(crate) donations: Vec<Option<usize>>,
}

impl Graph {
    /// Creates a graph without the operations that do not contribute to a tensor in use.
    pub(crate) fn new(recorded: Vec<OperationIr>, in_use: impl Fn(TensorId) -> bool) -> Self {
        let mut needed: HashSet<TensorId> = HashSet::new();
        let mut outputs = Vec::new();
        for op in &recorded {
            for output in op.outputs().filter(|output| in_use(output.id)) {
                needed.insert(output.id);
                outputs.push(output.clone());
            }
        }
        let mut ops = Vec::with_capacity(recorded.len());
        for op in recorded.into_iter().rev() {
            if op.outputs().any(|output| needed.contains(&output.id)) {
                needed.extend(op.inputs().map(|input| input.id));
                ops.push(op);
            }
        }
        ops.reverse();
        let mut known: HashSet<TensorId> = HashSet::new();
        let mut inputs = Vec::new();
        for op in &ops {
            for input in op.inputs() {
                if known.insert(input.id) {
                    inputs.push(input.clone());
                }
            }
            known.extend(op.outputs().map(|output| output.id));
        }
        let donations = vec![None; inputs.len()];
        Self { ops, inputs, outputs, donations }
    }

    /// Donates inputs to outputs. `last_use` returns whether no later operation uses an input. Each such input is
    /// assigned to an output of the same shape and type, if there is one left. The output may then reuse the input's
    /// memory.
    pub(crate) fn donate(&mut self, last_use: impl Fn(TensorId) -> bool) {
        let form = |tensor: &TensorIr| (tensor.shape.clone(), tensor.dtype);
        let mut free: Vec<Option<(burn_backend::Shape, DType)>> =
            self.outputs.iter().map(|output| Some(form(output))).collect();
        for (input, donation) in self.inputs.iter().zip(&mut self.donations) {
            if last_use(input.id) {
                *donation = free.iter().position(|output| output.as_ref() == Some(&form(input)));
                if let Some(output) = *donation {
                    free[output] = None;
                }
            }
        }
    }

    /// Returns the key of the graph. Graphs with equal keys have the same program.
    pub(crate) fn key(&self) -> Vec<u8> {
        let mut writer = KeyWriter::default();
        for op in &self.ops {
            writer.op(op, scalars::argument(op).is_some());
        }
        for output in &self.outputs {
            writer.tensor(output.id.value());
        }
        for donation in &self.donations {
            writer.word(donation.map_or(0, |output| output as u64 + 1));
        }
        writer.finish()
    }
}

#[cfg(test)]
mod tests {
    use burn_backend::Shape;
    use burn_ir::{NumericOperationIr, ScalarIr, ScalarOpIr, TensorStatus};

    use super::*;

    fn tensor(id: u64) -> TensorIr {
        let shape = Shape::new([2, 3]);
        TensorIr { id: TensorId::new(id), shape, status: TensorStatus::ReadOnly, dtype: DType::F32 }
    }

    fn scaled(from: u64, by: f64, to: u64) -> OperationIr {
        let op = ScalarOpIr { lhs: tensor(from), rhs: ScalarIr::Float(by), out: tensor(to) };
        OperationIr::NumericFloat(DType::F32, NumericOperationIr::MulScalar(op))
    }

    fn raised(from: u64, to: u64, by: f64) -> OperationIr {
        let op = ScalarOpIr { lhs: tensor(from), rhs: ScalarIr::Float(by), out: tensor(to) };
        OperationIr::NumericFloat(DType::F32, NumericOperationIr::PowiScalar(op))
    }

    fn graph(ops: Vec<OperationIr>, in_use: &[u64]) -> Graph {
        Graph::new(ops, |id| in_use.contains(&id.value()))
    }

    #[test]
    fn drops_results_that_nobody_uses() {
        let graph = graph(vec![scaled(1, 2.0, 2), scaled(1, 3.0, 3), scaled(2, 4.0, 4)], &[4]);
        assert_eq!(graph.ops.len(), 2);
        assert_eq!(graph.inputs.iter().map(|input| input.id.value()).collect::<Vec<_>>(), [1]);
        assert_eq!(graph.outputs.iter().map(|output| output.id.value()).collect::<Vec<_>>(), [4]);
    }

    #[test]
    fn keys_ignore_ids_and_argument_scalars() {
        let key = |ops, in_use: &[u64]| graph(ops, in_use).key();
        let first = key(vec![scaled(1, 2.0, 2), raised(2, 3, 2.0)], &[3]);
        assert_eq!(first, key(vec![scaled(7, 5.0, 9), raised(9, 8, 2.0)], &[8]));
        assert_ne!(first, key(vec![scaled(1, 2.0, 2), raised(2, 3, 3.0)], &[3]), "another exponent");
        assert_ne!(first, key(vec![scaled(1, 2.0, 2), raised(2, 3, 2.0)], &[2, 3]), "more results");
        assert_ne!(first, key(vec![scaled(1, 2.0, 2), raised(1, 3, 2.0)], &[3]), "another operand");
    }

    #[test]
    fn each_output_takes_one_donation() {
        let mut graph = graph(vec![scaled(1, 2.0, 2), scaled(3, 2.0, 4), scaled(2, 1.0, 5)], &[5, 4]);
        let before = graph.key();
        graph.donate(|id| id.value() != 9);
        assert_eq!(graph.donations, [Some(0), Some(1)]);
        assert_ne!(before, graph.key());
        graph.outputs.truncate(1);
        graph.donations = vec![None; 2];
        graph.donate(|_| true);
        assert_eq!(graph.donations, [Some(0), None]);
    }
}
