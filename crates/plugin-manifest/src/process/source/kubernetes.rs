//! An indexed Job of Kubernetes, with one process in each pod. The user must set the values that only the API server
//! can provide.

use super::input::{Input, Reading};
use crate::process::address::Address;
use crate::process::partial_topology::{Attributed, Partial};
use crate::process::provenance::{Item, Origin};
use crate::{Fault, Faults};

const SERVICE: &str = "KUBERNETES_SERVICE_HOST";
const INDEX: &str = "JOB_COMPLETION_INDEX";
const SIZE: &str = "WORLD_SIZE";
const NAME: &str = "HOSTNAME";
const HOSTS_FILE: &str = "/etc/hosts";

/// The port that JAX uses in Kubernetes.
const PORT: u16 = 55527;

pub(in crate::process) fn read(input: &Input<'_>) -> Result<Reading, Faults> {
    if !input.has(SERVICE) {
        return Ok(Reading::Absent);
    }
    let Some(rank) = input.number(INDEX)? else {
        return Ok(Reading::Incomplete(format!(
            "{SERVICE} is set without {INDEX}, so the pod is not part of an indexed Job"
        )));
    };
    let size = input.required(
        SIZE,
        &format!(
            "{INDEX} is {}, and only the API server knows the number of pods of the Job; set {SIZE} in the pod to the \
             Job's parallelism, or to 1 if each pod works alone",
            rank.value
        ),
    )?;
    let alone = size.value == 1;
    let rank = if alone { Attributed::new(0, size.origin.clone()) } else { rank };
    let coordinator = match input.address("MASTER_ADDR")? {
        Some(address) => Some(Attributed::new(address.value.or_port(PORT), address.origin)),
        None => first_pod(input),
    };
    if !alone && coordinator.is_none() && !input.has("JAX_COORDINATOR_ADDRESS") {
        let message = format!(
            "the variable is not set, and {HOSTS_FILE} contains no name of this pod that other pods can resolve; set \
             it to host:{PORT} of the pod with index 0. Such a name needs a headless service, which the pods name as \
             their `subdomain`"
        );
        return Err(Fault::new("JAX_COORDINATOR_ADDRESS", message).into());
    }
    let numbers = [(Item::GlobalRank, Some(rank)), (Item::WorldSize, Some(size))];
    Ok(Reading::Present(Partial { coordinator, ..Partial::default() }.with(numbers)))
}

/// Returns the address of the pod with index 0: the full name of this pod, with 0 instead of its own index. The kubelet
/// writes the full name of a pod with a subdomain into the pod's hosts file, as in `10.1.2.3
/// train-3.workers.default.svc.cluster.local train-3`. Returns `None` if the hosts file lacks the full name.
fn first_pod(input: &Input<'_>) -> Option<Attributed<Address>> {
    let (name, index) = (input.text(NAME)?, input.text(INDEX)?);
    let job = name.strip_suffix(index.trim())?.strip_suffix('-')?;
    let hosts = input.host?.file(HOSTS_FILE)?;
    let words = hosts.lines().filter(|line| !line.trim_start().starts_with('#')).flat_map(str::split_whitespace);
    let domain = words.filter_map(|word| word.strip_prefix(name)).find(|rest| rest.starts_with('.'))?;
    let address = Address::new(format!("{job}-0{domain}"), Some(PORT)).ok()?;
    Some(Attributed::new(address, Origin::named(input.source, HOSTS_FILE)))
}
