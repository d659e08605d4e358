//! How the arrays of a program are split over devices.

use pjrt::ErrorCode;
use pjrt::extensions::{CustomPartitioners, Shardings};
use pjrt_c_macros::c_function;

use crate::border::bytes::dp_bytes;
use crate::border::error::{dp_code, dp_error};
use crate::border::failure::{Failure, Outcome};
use crate::border::handle::Owned;
use crate::border::memory;
use crate::border::memory::Name;
use crate::client::dp_client;
use crate::extensions::info::extension;
use crate::program::dp_executable;

/// Returns the sharding of the parameter at `index` of a program, as a serialized `xla.OpSharding`. Returns
/// `DP_NOT_FOUND` if the plugin reports none for the program, such as one for a single device. `client` is a client of
/// the plugin that compiled the program.
#[c_function]
pub fn dp_client_parameter_sharding(
    client: &dp_client,
    executable: &dp_executable,
    index: usize,
) -> Outcome<Owned<dp_bytes>> {
    let shardings = extension::<Shardings>(&client.inner.plugin(), "Shardings")?;
    sharding_at(shardings.parameter_shardings(executable.get())?, index)
}

/// Returns the sharding of the output at `index` of a program, as a serialized `xla.OpSharding`. Returns `DP_NOT_FOUND`
/// if the plugin reports none for the program, such as one for a single device. `client` is a client of the plugin that
/// compiled the program.
#[c_function]
pub fn dp_client_output_sharding(
    client: &dp_client,
    executable: &dp_executable,
    index: usize,
) -> Outcome<Owned<dp_bytes>> {
    let shardings = extension::<Shardings>(&client.inner.plugin(), "Shardings")?;
    sharding_at(shardings.output_shardings(executable.get())?, index)
}

fn sharding_at(found: Option<Vec<Vec<u8>>>, index: usize) -> Outcome<Owned<dp_bytes>> {
    let found =
        found.ok_or_else(|| Failure::new(ErrorCode::NOT_FOUND, "the plugin reports no shardings for the program"))?;
    Ok(Owned(dp_bytes::new(memory::at(&found, index)?.as_slice())))
}

/// Declares for the whole process that the custom call `target` computes the elements of a batch independently, so that
/// the plugin may split it along the dimensions of the batch.
#[c_function]
pub fn dp_client_register_batch_partitionable(client: &dp_client, target: Name<'_>) -> Outcome<()> {
    let partitioners = extension::<CustomPartitioners>(&client.inner.plugin(), "Custom_Partitioner")?;
    Ok(partitioners.register_batch_partitionable(target)?)
}
