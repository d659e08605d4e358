//! `PJRT_ExecutableMetadata_Extension`: metadata of compiled programs, in a format that the plugin defines.

use pjrt_sys::*;

use super::functions::Functions;
use super::plugin_extension::plugin_extension;
use crate::error::Error;
use crate::objects::executable::Executable;
use crate::table::read;

/// Access to the metadata of executables, such as the fingerprint.
#[derive(Clone, Debug)]
#[doc(alias = "PJRT_ExecutableMetadata_Extension")]
pub struct ExecutableMetadata(Functions<PJRT_ExecutableMetadata_Extension>);

plugin_extension!(ExecutableMetadata(PJRT_ExecutableMetadata_Extension));

const GET: &str = "PJRT_ExecutableMetadata_GetExecutableMetadata";

impl ExecutableMetadata {
    /// Returns the metadata of an executable. The plugin defines the format. XLA's plugins return a serialized
    /// `xla.PjRtExecutableMetadata` message.
    ///
    /// # Errors
    ///
    /// Returns an error if the executable belongs to another plugin.
    #[doc(alias = "PJRT_ExecutableMetadata_GetExecutableMetadata")]
    #[doc(alias = "PJRT_ExecutableMetadata_DestroySerializedMetadata")]
    pub fn of(&self, executable: &Executable) -> Result<Vec<u8>, Error> {
        self.0.check(executable.handle().api())?;
        let table = &self.0.table.0;
        let missing = |function| {
            Error::missing_in(function, PJRT_ExecutableMetadata_Extension::NAME, self.0.plugin.api_version())
        };
        let get = table.get_executable_metadata.ok_or_else(|| missing(GET))?;
        let destroy = table
            .destroy_serialized_metadata
            .ok_or_else(|| missing("PJRT_ExecutableMetadata_DestroySerializedMetadata"))?;
        let mut args = PJRT_ExecutableMetadata_GetExecutableMetadata_Args {
            executable: executable.handle().as_ptr(),
            metadata: std::ptr::null_mut(),
        };
        // SAFETY: C1 (table), C2 (calls): the table contains a function of this type. The executable is live and
        // belongs to this plugin.
        let error = unsafe { get(&mut args) };
        if !error.is_null() {
            // SAFETY: C2 (calls): an error that a function returned is live and owned by its caller.
            return Err(unsafe { self.0.plugin.api().take_error(GET, error) });
        }
        let metadata = read::object(args.metadata).map_err(|broken| Error::malformed(GET, broken))?;
        // SAFETY: C3 (objects): the metadata lives until it is destroyed below.
        let PJRT_ExecutableMetadata { serialized_metadata, serialized_metadata_size } = unsafe { metadata.read() };
        // SAFETY: C3 (objects): the bytes live as long as the metadata.
        let bytes = unsafe { read::slice(serialized_metadata.cast::<u8>(), serialized_metadata_size) };
        let bytes = bytes.map(<[u8]>::to_vec);
        let mut args = PJRT_ExecutableMetadata_DestroySerializedMetadata_Args { metadata: metadata.as_ptr() };
        // SAFETY: C2 (calls): the metadata is live and not used afterwards.
        unsafe { destroy(&mut args) };
        bytes.map_err(|broken| Error::malformed(GET, broken))
    }
}
