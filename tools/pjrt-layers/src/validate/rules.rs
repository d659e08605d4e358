//! The rules that the layer `validate` checks, each with its id, clause and remedy.

/// A rule of the PJRT C API.
#[derive(Debug)]
pub struct Rule {
    /// Stable name of the rule.
    pub id: &'static str,
    /// The requirement of the API, and its source.
    pub clause: &'static str,
    /// How to comply with the rule.
    pub remedy: &'static str,
}

/// URL of the header of the PJRT C API.
pub(super) const HEADER: &str = "https://github.com/openxla/xla/blob/main/xla/pjrt/c/pjrt_c_api.h";

impl Rule {
    /// Returns the link to the rule in `docs/layers.md`, relative to the root of the SDK's repository.
    #[must_use]
    pub fn anchor(&self) -> String {
        format!("docs/layers.md#{}", self.id.replace('.', "-"))
    }
}

macro_rules! rules {
    ($($(#[$attribute:meta])* $name:ident = $id:literal, $clause:literal, $remedy:literal;)*) => {
        $($(#[$attribute])* pub(super) static $name: Rule = Rule { id: $id, clause: $clause, remedy: $remedy };)*

        /// All rules.
        pub static RULES: &[&Rule] = &[$(&$name),*];
    };
}

rules! {
    /// An object is used after it was destroyed.
    USE_AFTER_DESTROY = "object.use-after-destroy",
        "the function that destroys an object frees it (`PJRT_..._Destroy`)",
        "destroy the object after its last use";
    /// An object is destroyed twice.
    DOUBLE_DESTROY = "object.double-destroy",
        "the function that destroys an object frees it (`PJRT_..._Destroy`)",
        "destroy each object once";
    /// The type of an object differs from the type of the argument for which it is passed.
    WRONG_TYPE = "object.wrong-type",
        "an argument points to an object of the type in its declaration",
        "pass an object of the argument's type";
    /// An object argument that must not be null is null.
    NULL_OBJECT = "object.null",
        "a function's object must not be null, except for some functions such as `PJRT_Client_Destroy`",
        "pass a live object";
    /// A run with a deleted or donated buffer succeeds.
    USE_AFTER_DELETE = "buffer.use-after-delete",
        "`PJRT_Buffer_Delete` frees the device memory, and a donated buffer is deleted by the run; a later run must \
         fail",
        "pass another buffer; as the plugin's author, reject runs with deleted arguments";
    /// The objects of a call belong to different clients.
    WRONG_CLIENT = "client.mixed",
        "all objects of a call belong to one client, such as the buffers of a run, or a buffer and the device to which it \
         is copied",
        "pass objects of one client, and move data between clients through host memory";
    /// An object is used after its client was destroyed.
    CLIENT_GONE = "client.destroyed-before-object",
        "`PJRT_Client_Destroy` frees the client, which its objects need",
        "destroy the client after all its objects";
    /// A struct is smaller than in any known version of the API.
    SHORT_STRUCT = "struct.too-short",
        "`struct_size` is the size of the struct in the caller's header (`PJRT_DEFINE_STRUCT_TRAITS`)",
        "set `struct_size` to the constant `..._STRUCT_SIZE` of the header";
    /// An argument that must not be null is null.
    NULL_ARGUMENT = "argument.null",
        "a pointer must not be null if its length is not 0, or if the function needs what it points to",
        "pass a valid pointer, or 0 as the length";
    /// An argument is not a value of its enumeration.
    UNKNOWN_VALUE = "argument.unknown-value",
        "an argument is one of the values of its enumeration (`PJRT_Buffer_Type`, `PJRT_HostBufferSemantics`, \
         `PJRT_Error_Code`)",
        "pass a value of the enumeration in the header";
    /// An argument of a run is on another device than the executable.
    WRONG_DEVICE = "device.wrong",
        "the arguments in the list of a device are on this device (`PJRT_LoadedExecutable_Execute_Args`)",
        "copy the buffer to the device of its list, or compile the program for the device of the buffer";
    /// The number of argument lists of a run differs from the number of the executable's devices.
    WRONG_DEVICE_COUNT = "execute.wrong-device-count",
        "a run has one list for each device of the executable that the process can use, or one list with \
         `execute_device`",
        "set `num_devices` to the number of `PJRT_LoadedExecutable_AddressableDevices`";
    /// The number of a run's arguments differs from the number of the program's parameters.
    WRONG_ARGUMENT_COUNT = "execute.wrong-argument-count",
        "the list of a device has one argument for each parameter of the program \
         (`PJRT_LoadedExecutable_Execute_Args`)",
        "set `num_args` to the number of parameters, and pass the elements of a tuple one by one";
    /// An argument of a run has another shape or element type than the program's parameter.
    WRONG_SHAPE = "execute.wrong-shape",
        "an argument has the element type and the dimensions of the program's parameter on each device (StableHLO: \
         the types of a function's inputs)",
        "pass a buffer with this element type and these dimensions, or compile the program for those of the buffer";
    /// The error of an event is queried before the event is ready.
    ERROR_BEFORE_READY = "event.error-before-ready",
        "`PJRT_Event_Error` should only be called if `PJRT_Event_IsReady` returns true",
        "wait for the event before you ask for its error";
    /// An event is neither used nor destroyed before the process exits.
    UNUSED_EVENT = "event.unused",
        "the caller is responsible for calling `PJRT_Event_Destroy` on the events that a call returns",
        "wait for the event or destroy it";
    /// A callback waits for an event that is not ready.
    WAIT_IN_CALLBACK = "thread.wait-in-callback",
        "a callback of an event runs on a thread of the plugin, which may be the one that makes other events ready",
        "wait on a thread of your own, or register another callback";
    /// An object is destroyed while another thread uses it.
    DESTROYED_IN_USE = "thread.destroyed-in-use",
        "several threads may use one object at the same time, except while it is destroyed",
        "destroy the object after the calls of other threads have returned";
    /// A run passes no lists for its outputs.
    NO_OUTPUTS = "execute.no-output-lists",
        "the caller allocates the outer and inner lists of outputs",
        "pass one list of outputs for each device";
    /// A run has no devices.
    NO_DEVICES = "execute.no-devices",
        "the lists of arguments and outputs have one entry for each device",
        "set `num_devices` to the number of these lists, at least 1";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique() {
        let mut ids: Vec<_> = RULES.iter().map(|rule| rule.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), RULES.len());
    }
}
