//! The rules: ids, clauses and remedies.

/// A rule of the interface.
#[derive(Debug)]
pub struct Rule {
    /// Stable name of the rule.
    pub id: &'static str,
    /// The requirement of the interface, and its source.
    pub clause: &'static str,
    /// How to comply with the rule.
    pub remedy: &'static str,
}

/// The address of the header.
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
        "an argument points to an object of the type in its declaration",
        "pass an object of the argument's type";
    /// A null object is passed.
    NULL_OBJECT = "object.null",
        "a function's object must not be null, except for some functions such as `PJRT_Client_Destroy`",
        "pass a live object";
    /// A run with a deleted or donated buffer succeeds.
    USE_AFTER_DELETE = "buffer.use-after-delete",
        "`PJRT_Buffer_Delete` frees the device memory, and a donated buffer is deleted by the run; a later run must \
         fail",
        "pass another buffer; as the plugin's author, reject runs with deleted arguments";
    /// The argument of a run belongs to another client than the executable.
    WRONG_CLIENT = "client.mixed",
        "the arguments of a run belong to the client of the executable",
        "copy the buffer to a device of the executable's client";
    /// An object is used after its client was destroyed.
    CLIENT_GONE = "client.destroyed-before-object",
        "`PJRT_Client_Destroy` frees the client, which its objects need",
        "destroy the client after all its objects";
    /// A struct is smaller than in any supported version.
    SHORT_STRUCT = "struct.too-short",
        "`struct_size` is the size of the struct in the caller's header (`PJRT_DEFINE_STRUCT_TRAITS`)",
        "set `struct_size` to the constant `..._STRUCT_SIZE` of the header";
    /// A run has no place for its results.
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
