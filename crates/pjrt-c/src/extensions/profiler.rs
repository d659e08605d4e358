//! Profiles of what a plugin and its devices do.

use std::sync::Mutex;

use pjrt::extensions::{Profile, Profiler};
use pjrt_c_macros::c_function;

use crate::border::bytes::dp_bytes;
use crate::border::error::{dp_code, dp_error};
use crate::border::failure::Outcome;
use crate::border::handle::Owned;
use crate::client::dp_client;
use crate::extensions::info::extension;

/// A profile that is being recorded.
pub struct dp_profile {
    inner: Mutex<Profile>,
}

/// Starts to record a profile. `options` is a serialized `tensorflow.ProfileOptions`, and may be empty.
#[c_function]
pub fn dp_client_start_profile(client: &dp_client, options: &[u8]) -> Outcome<Owned<dp_profile>> {
    let profiler = extension::<Profiler>(&client.inner.plugin(), "Profiler")?;
    Ok(Owned(dp_profile { inner: Mutex::new(profiler.start(options)?) }))
}

/// Stops a profile, and returns it as a serialized `tensorflow.profiler.XSpace`. Releases `profile`, also if the
/// function fails.
#[c_function]
pub fn dp_profile_stop(profile: Owned<dp_profile>) -> Outcome<Owned<dp_bytes>> {
    let profile = profile.0.inner.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok(Owned(dp_bytes::new(profile.stop()?)))
}
