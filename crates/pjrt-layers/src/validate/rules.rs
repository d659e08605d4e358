//! The rules, as data.

/// A rule of the interface.
#[derive(Debug)]
pub struct Rule {
    /// Stable name of the rule.
    pub id: &'static str,
    /// The requirement of the interface, and its source.
    pub clause: &'static str,
    /// A way to keep the rule.
    pub remedy: &'static str,
}

/// Where the header is.
pub(super) const HEADER: &str = "https://github.com/openxla/xla/blob/main/xla/pjrt/c/pjrt_c_api.h";

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
    /// An object of another type is passed.
    WRONG_TYPE = "object.wrong-type",
        "an argument is a pointer to an object of its type",
        "pass an object of the argument's type";
    /// A null object is passed.
    NULL_OBJECT = "object.null",
        "a function works on an object; only `PJRT_Client_Destroy` and some others accept null",
        "pass a live object";
    /// A run with a deleted or donated buffer succeeds.
    USE_AFTER_DELETE = "buffer.use-after-delete",
        "`PJRT_Buffer_Delete` frees the device memory, and a donated buffer is deleted by the run; a later run must fail",
        "pass another buffer, and let the plugin reject deleted ones";
    /// Objects of two clients meet in a call.
    WRONG_CLIENT = "client.mixed",
        "the arguments of a run belong to the client of the executable",
        "copy the buffer to a device of the executable's client";
    /// An object is used after its client was destroyed.
    CLIENT_GONE = "client.destroyed-before-object",
        "`PJRT_Client_Destroy` shuts the client down, which its objects need",
        "destroy the client after its objects";
    /// A struct is smaller than in any supported version.
    SHORT_STRUCT = "struct.too-short",
        "`struct_size` is the size of the caller's struct (`PJRT_DEFINE_STRUCT_TRAITS`)",
        "set `struct_size` to the header's `_STRUCT_SIZE`";
    /// A run has no place for its results.
    NO_OUTPUTS = "execute.no-output-lists",
        "the caller allocates the outer and inner lists of outputs",
        "pass one list of outputs for each device";
    /// A run has no devices.
    NO_DEVICES = "execute.no-devices",
        "the lists of arguments and outputs have one entry for each device",
        "set `num_devices` to the number of lists";
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
