//! The names of the environment variables that the library reads.

/// The path of the plugin's shared library.
pub const PLUGIN: &str = "PJRT_LAYERS_PLUGIN";
/// The names of the layers, separated by commas. The first layer is next to the framework.
pub const LAYERS: &str = "PJRT_LAYERS";
/// The folder in which the layers write their files.
pub const OUTPUT: &str = "PJRT_LAYERS_OUTPUT";
/// Number of records that the timeline of `trace` keeps for each thread. See [`Outputs`](crate::trace::Outputs).
pub const TRACE_CALLS: &str = "PJRT_LAYERS_TRACE_CALLS";
/// Number of seconds that a thread may wait for an event before `validate` writes a graph of the waiting threads.
pub const VALIDATE_WAIT: &str = "PJRT_LAYERS_VALIDATE_WAIT";
/// The minor version of the API that `compat` announces.
pub const COMPAT_MINOR: &str = "PJRT_LAYERS_COMPAT_MINOR";
/// The `PJRT_Extension_Type` values of the extensions that `compat` hides, separated by commas.
pub const COMPAT_HIDE: &str = "PJRT_LAYERS_COMPAT_HIDE";
/// `1` makes `compat` compile a program with several replicas for a single device if its replicas do not communicate.
/// `0` prevents this. By default, the program's format and the plugin's platform determine the behavior. See
/// [`Compat::single_replica`](crate::compat::Compat::single_replica).
pub const COMPAT_SINGLE_REPLICA: &str = "PJRT_LAYERS_COMPAT_SINGLE_REPLICA";
/// The rules of `fault`, separated by semicolons. See [`Rules`](crate::fault::Rules).
pub const FAULT: &str = "PJRT_LAYERS_FAULT";
/// The seed for the random selection of calls by the rules of `fault`. The default is 0.
pub const FAULT_SEED: &str = "PJRT_LAYERS_FAULT_SEED";
/// The folder with files that replace programs. See [`Programs`](crate::overrides::Programs).
pub const OVERRIDE_PROGRAMS: &str = "PJRT_LAYERS_OVERRIDE_PROGRAMS";
/// The devices that the framework sees. The value is a number of devices, written as `first 2`, or a list of positions
/// in the client's addressable devices, written as `0,3`.
pub const OVERRIDE_DEVICES: &str = "PJRT_LAYERS_OVERRIDE_DEVICES";
/// The values that devices report about their memory, such as `bytes_limit=2GiB`.
pub const OVERRIDE_MEMORY: &str = "PJRT_LAYERS_OVERRIDE_MEMORY";
/// The platform name that the framework sees.
pub const OVERRIDE_PLATFORM_NAME: &str = "PJRT_LAYERS_OVERRIDE_PLATFORM_NAME";
/// The platform version string that the framework sees.
pub const OVERRIDE_PLATFORM_VERSION: &str = "PJRT_LAYERS_OVERRIDE_PLATFORM_VERSION";
/// The device kind (the vendor's name of the model) that the framework sees for each device.
pub const OVERRIDE_DEVICE_KIND: &str = "PJRT_LAYERS_OVERRIDE_DEVICE_KIND";
/// The version of the API that the table announces, such as `0.90`.
pub const OVERRIDE_API_VERSION: &str = "PJRT_LAYERS_OVERRIDE_API_VERSION";
/// `1` makes calls that start runs or transfers return only when the work has ended or a time limit has passed. `0`
/// keeps these calls asynchronous.
pub const OVERRIDE_SYNCHRONOUS: &str = "PJRT_LAYERS_OVERRIDE_SYNCHRONOUS";
/// The run to which `record` limits the recording. See [`Selection`](crate::record::Selection).
pub const RECORD_RUN: &str = "PJRT_LAYERS_RECORD_RUN";

/// The names of all variables.
pub(crate) const NAMES: &[&str] = &[
    PLUGIN,
    LAYERS,
    OUTPUT,
    TRACE_CALLS,
    COMPAT_MINOR,
    COMPAT_HIDE,
    COMPAT_SINGLE_REPLICA,
    FAULT,
    FAULT_SEED,
    OVERRIDE_PROGRAMS,
    OVERRIDE_DEVICES,
    OVERRIDE_MEMORY,
    OVERRIDE_PLATFORM_NAME,
    OVERRIDE_PLATFORM_VERSION,
    OVERRIDE_DEVICE_KIND,
    OVERRIDE_API_VERSION,
    OVERRIDE_SYNCHRONOUS,
    RECORD_RUN,
    VALIDATE_WAIT,
];
