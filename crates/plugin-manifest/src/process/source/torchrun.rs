//! The variables of torchrun, which other launchers such as Kubeflow's training operator also set.

use super::input::{Input, Reading};
use crate::Faults;
use crate::process::partial_topology::Partial;
use crate::process::provenance::Item;

/// Variable with the coordinator's port. `MASTER_PORT` does not contain this port, because PyTorch's own store listens
/// there.
const PORT: &str = "XLA_COORDINATOR_PORT";

pub(in crate::process) fn read(input: &Input<'_>) -> Result<Reading, Faults> {
    if !(input.has("RANK") || input.has("LOCAL_RANK")) {
        return Ok(input.without("RANK", &["WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR"]));
    }
    let port = input.port(PORT)?;
    let mut partial = Partial { coordinator: input.address("MASTER_ADDR")?, ..Partial::default() };
    if let (Some(port), Some(known)) = (port, &mut partial.coordinator) {
        known.value = known.value.clone().with_port(port);
    }
    let world = [(Item::GlobalRank, "RANK"), (Item::WorldSize, "WORLD_SIZE")];
    let local = [(Item::LocalRank, "LOCAL_RANK"), (Item::LocalWorldSize, "LOCAL_WORLD_SIZE")];
    let local_remedy = "start the program with torchrun, or set RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE";
    let world_remedy = "start the program with torchrun, or set both RANK and WORLD_SIZE";
    for (pair, remedy) in [(world, world_remedy), (local, local_remedy)] {
        if pair.iter().any(|(_, name)| input.has(name)) {
            partial.or(input.all(&pair, remedy)?);
        }
    }
    // Unless both variables are set, the host index and host count are derived later.
    if input.has("GROUP_RANK") && input.has("GROUP_WORLD_SIZE") {
        partial.or(input.all(&[(Item::HostIndex, "GROUP_RANK"), (Item::HostCount, "GROUP_WORLD_SIZE")], "")?);
    }
    Ok(Reading::Present(partial))
}
