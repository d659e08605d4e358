//! Options for creating a client, and checks of compile options.

use std::any::Any;
use std::sync::Arc;

use pjrt_types::{CompileOptions, NamedValue, OptionOverride, Value};

use crate::error::Error;
use crate::objects::key_value::KeyValueStore;

/// A function that frees memory of a device. Returns whether the failed operation should be attempted again.
pub(crate) type Hook = Arc<dyn Fn(&Error) -> bool + Send + Sync>;

/// Options for creating a client. The plugin defines the names and types of its options. Further settings, such as the
/// key-value store, have their own methods.
///
/// A plugin written with the crate `device-plugin` receives the plugin's options as `device_plugin::ClientOptions`. The
/// values are checked against the schema that the plugin declares.
///
/// ```
/// use pjrt::ClientOptions;
///
/// let options = ClientOptions::new().with("device_count", 2i64).with("memory_limit", "64MiB");
/// let client = plugin_registry::open("cpu")?.client(&options)?;
/// assert_eq!(client.devices()?.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct ClientOptions {
    pub(crate) values: Vec<NamedValue>,
    pub(crate) store: Option<Arc<dyn KeyValueStore>>,
    pub(crate) kept: Vec<Arc<dyn Any + Send + Sync>>,
    pub(crate) tracked_runs: bool,
    pub(crate) out_of_memory: Option<Hook>,
}

impl ClientOptions {
    /// Creates an empty set of options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an option of the plugin. The plugin defines the option's name, type and meaning. Strings, integers, lists
    /// of integers, floats and booleans are supported.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.values.push(NamedValue::new(name, value));
        self
    }

    /// Replaces all options of the plugin. Does not change the settings that have their own methods, such as the
    /// key-value store.
    #[must_use]
    pub fn with_values(mut self, values: Vec<NamedValue>) -> Self {
        self.values = values;
        self
    }

    /// Sets the key-value store through which the clients of a distributed program exchange set-up data.
    #[must_use]
    pub fn with_key_value_store(mut self, store: Arc<dyn KeyValueStore>) -> Self {
        self.store = Some(store);
        self
    }

    /// Keeps a value, such as a lease of a device, until the client is destroyed or its creation fails. The value is
    /// dropped after the client, possibly on another thread.
    #[must_use]
    pub fn keeping(mut self, value: Arc<dyn Any + Send + Sync>) -> Self {
        self.kept.push(value);
        self
    }

    /// Makes [`Client::synchronize`](crate::Client::synchronize) and the end of the process also wait for runs whose
    /// outputs and events were dropped. PJRT has no function that waits for a client's runs. With this option, each run
    /// therefore requests an event and registers a callback. Both calls together take less than a microsecond. Without
    /// this option, wait for a run's outputs, or use [`Client::shutdown`](crate::Client::shutdown).
    #[must_use]
    pub fn with_tracked_runs(mut self) -> Self {
        self.tracked_runs = true;
        self
    }

    /// Sets a hook that frees memory of a device when an operation fails for lack of memory. For example, the hook
    /// drops cached buffers or executables. If the hook returns `true`, the operation is attempted once more. The hook
    /// receives the error. The error contains memory statistics of the devices ([`Error::device_memory`]).
    ///
    /// The hook runs on the thread of the failed call and may use the client. The hook is not called for failures
    /// within the hook itself or within a callback of the plugin. A panic in the hook propagates to the caller of the
    /// failed operation.
    ///
    /// The following operations call the hook: uploads, [`Client::compile`](crate::Client::compile), loading
    /// executables, copies to other devices and memories,
    /// [`NewBuffer::uninitialized`](crate::NewBuffer::uninitialized), creating a transfer manager, and
    /// runs. Three kinds of runs do not call the hook, because they cannot be repeated safely: runs on several devices,
    /// runs with callbacks, and runs whose donated inputs the plugin has consumed. The hook is only called if the call
    /// itself fails. An operation that fails later reports the error through its event and its outputs.
    ///
    /// The client owns the hook. If the hook also owns buffers of the client, the resulting reference cycle keeps the
    /// client alive forever. Use a weak reference instead:
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    ///
    /// use pjrt::{Buffer, ClientOptions};
    ///
    /// let cache = Arc::new(Mutex::new(Vec::<Buffer>::new()));
    /// let weak = Arc::downgrade(&cache);
    /// let options = ClientOptions::new().with("memory_limit", "1MiB").with_out_of_memory_hook(move |_| {
    ///     let freed = weak.upgrade().map(|cache| std::mem::take(&mut *cache.lock().unwrap()));
    ///     freed.is_some_and(|freed| !freed.is_empty())
    /// });
    /// let client = plugin_registry::open("cpu")?.client(&options)?;
    /// let upload = || client.buffer_from_host(&vec![0u8; 600 << 10], &[600 << 10]);
    /// cache.lock().unwrap().push(upload()?);
    /// upload()?; // The limit is too small for two buffers, so the hook drops the first one.
    /// assert!(cache.lock().unwrap().is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_out_of_memory_hook(mut self, hook: impl Fn(&Error) -> bool + Send + Sync + 'static) -> Self {
        self.out_of_memory = Some(Arc::new(hook));
        self
    }

    /// Returns the key-value store, if one is set.
    pub fn key_value_store(&self) -> Option<&Arc<dyn KeyValueStore>> {
        self.store.as_ref()
    }

    /// Returns the options of the plugin.
    pub fn values(&self) -> &[NamedValue] {
        &self.values
    }
}

impl std::fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientOptions")
            .field("values", &self.values)
            .field("store", &self.store.is_some())
            .finish_non_exhaustive()
    }
}

impl Extend<NamedValue> for ClientOptions {
    fn extend<I: IntoIterator<Item = NamedValue>>(&mut self, values: I) {
        self.values.extend(values);
    }
}

/// Maximum product of the numbers of replicas and partitions. This limit exceeds the number of devices of any machine.
/// XLA's plugins allocate memory in proportion to this product before they compare it with the number of their devices.
pub(crate) const MAX_DEVICES: u32 = 1 << 20;
/// Maximum number of devices that a caller may request from XLA's CPU plugins. XLA allocates threads and memory for
/// each device.
const MAX_CPU_DEVICES: i64 = 4096;
/// Name of the option for the number of devices in XLA's CPU plugins.
const CPU_DEVICE_COUNT: &str = "cpu_device_count";

/// A field of XLA's `DebugOptions` with numbers that end the process of XLA's CPU plugins.
struct DebugOption {
    name: &'static str,
    /// The number of the field.
    field: u64,
    /// The largest accepted number. The smallest is 0.
    max: i64,
}

const DEBUG_OPTIONS: [DebugOption; 2] = [
    // XLA creates a vector of this length. The exception for a negative length is thrown through the C interface, and
    // 2^31 - 1 parts take more than 20 GB.
    DebugOption { name: "xla_cpu_parallel_codegen_split_count", field: 323, max: 1 << 16 },
    // XLA creates a shape with this extent.
    DebugOption { name: "xla_reduce_window_rewrite_base_length", field: 293, max: i64::MAX },
];

/// Serializes the options. Rejects values that would make XLA's plugins abort the process.
pub(crate) fn encode(options: &CompileOptions) -> Result<Vec<u8>, Error> {
    check(options)?;
    Ok(options.encode())
}

/// Decodes, checks and serializes options, like [`encode`]. Rejects empty bytes, because they
/// contain no counts of replicas and partitions, and XLA's plugins abort the process without these counts.
pub(crate) fn encode_raw(options: &[u8]) -> Result<Vec<u8>, Error> {
    if options.is_empty() {
        let message = "the compile options are empty; for the defaults, pass `CompileOptions::default().encode()`";
        return Err(Error::invalid(message));
    }
    let options = CompileOptions::decode(options).map_err(|error| Error::invalid(error.to_string()))?;
    encode(&options)
}

fn check(options: &CompileOptions) -> Result<(), Error> {
    let within = |name: &str, number: i64, low: i64, high: i64| {
        if (low..=high).contains(&number) {
            return Ok(());
        }
        Err(Error::invalid(format!("{name} is {number}; it must be from {low} to {high}")))
    };
    let (replicas, partitions) = (options.num_replicas, options.num_partitions);
    within("device_ordinal", options.device_ordinal, -1, i64::from(i32::MAX))?;
    within("num_replicas", replicas, 1, i64::from(MAX_DEVICES))?;
    within("num_partitions", partitions, 1, i64::from(MAX_DEVICES))?;
    // Each count is at most 2^20, so the product does not overflow.
    if replicas * partitions > i64::from(MAX_DEVICES) {
        let message = format!("{replicas} replicas of {partitions} partitions are more than {MAX_DEVICES} devices");
        return Err(Error::invalid(message));
    }
    for DebugOption { name, field, max } in DEBUG_OPTIONS {
        let overridden = options.env_option_overrides.get(name).and_then(integer);
        overridden.map_or(Ok(()), |number| within(name, number, 0, max))?;
        let Some(numbers) = options.unknown.debug_option(field) else {
            return Err(Error::invalid("debug_options are not fields of a protobuf message that can be checked"));
        };
        numbers.into_iter().try_for_each(|number| within(name, number, 0, max))?;
    }
    let Some(assignment) = &options.device_assignment else { return Ok(()) };
    let counts = [assignment.num_replicas(), assignment.num_partitions()].map(|count| i64::try_from(count).ok());
    if counts != [Some(replicas), Some(partitions)] {
        return Err(Error::invalid(format!(
            "device_assignment is for {} replicas of {} partitions, but the options are for {replicas} of \
             {partitions}; use the same counts in both",
            assignment.num_replicas(),
            assignment.num_partitions()
        )));
    }
    let ids = assignment.devices().iter();
    ids.copied().try_for_each(|id| within("an id of device_assignment", id, 0, i64::from(i32::MAX)))
}

/// Returns the number that XLA reads from the value of an integer option. XLA rejects all other values.
fn integer(value: &OptionOverride) -> Option<i64> {
    match value {
        OptionOverride::Int64(number) => Some(*number),
        OptionOverride::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// Rejects a `cpu_device_count` that is not an integer or out of range, because XLA's CPU plugins would abort the
/// process.
pub(crate) fn check_client(options: &[NamedValue]) -> Result<(), Error> {
    for NamedValue { value, .. } in options.iter().filter(|option| option.name == CPU_DEVICE_COUNT) {
        if !matches!(value, Value::Int64(count) if (1..=MAX_CPU_DEVICES).contains(count)) {
            let ty = value.type_name();
            return Err(Error::invalid(format!(
                "option {CPU_DEVICE_COUNT} is {value} ({ty}); it must be an int64 from 1 to {MAX_CPU_DEVICES}"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use pjrt_types::DeviceAssignment;

    use super::*;
    use crate::ErrorKind;

    #[track_caller]
    fn refused(options: &CompileOptions, expected: Expect) {
        let error = encode(options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        expected.assert_eq(&error.to_string());
    }

    #[test]
    fn counts_of_devices() {
        let with = |replicas, partitions| {
            CompileOptions::default().with_num_replicas(replicas).with_num_partitions(partitions)
        };
        for (replicas, partitions) in [(1, 1), (1 << 10, 1 << 10), (1 << 20, 1)] {
            assert!(encode(&with(replicas, partitions)).is_ok());
        }
        refused(&with(0, 1), expect!["num_replicas is 0; it must be from 1 to 1048576"]);
        refused(&with(1, -1), expect!["num_partitions is -1; it must be from 1 to 1048576"]);
        refused(&with(2_147_483_647, 1), expect!["num_replicas is 2147483647; it must be from 1 to 1048576"]);
        refused(&with(1 << 11, 1 << 10), expect!["2048 replicas of 1024 partitions are more than 1048576 devices"]);
        assert!(encode(&with(i64::MAX, i64::MAX)).is_err());
    }

    #[test]
    fn device_ordinals() {
        let with = |ordinal| CompileOptions::default().with_device_ordinal(ordinal);
        for ordinal in [-1, 0, i64::from(i32::MAX)] {
            assert!(encode(&with(ordinal)).is_ok());
        }
        refused(&with(-5), expect!["device_ordinal is -5; it must be from -1 to 2147483647"]);
        assert!(encode(&with(i64::MAX)).is_err());
    }

    #[test]
    fn device_assignments() {
        let with = |num_replicas, ids: &[i64]| {
            let assignment = DeviceAssignment::new(ids.len(), 1, ids.to_vec()).unwrap();
            CompileOptions::default().with_num_replicas(num_replicas).with_device_assignment(assignment)
        };
        assert!(encode(&with(2, &[0, 7])).is_ok());
        refused(&with(2, &[0, -1]), expect!["an id of device_assignment is -1; it must be from 0 to 2147483647"]);
        assert!(encode(&with(1, &[i64::MAX])).is_err());
        refused(
            &with(1, &[0, 1]),
            expect![
                "device_assignment is for 2 replicas of 1 partitions, but the options are for 1 of 1; use the same counts in both"
            ],
        );
    }

    #[test]
    fn raw_options() {
        assert!(encode_raw(&CompileOptions::default().encode()).is_ok());
        expect!["the compile options are empty; for the defaults, pass `CompileOptions::default().encode()`"]
            .assert_eq(&encode_raw(&[]).unwrap_err().to_string());
        assert!(encode_raw(&[0xff; 9]).is_err());
        let broken = CompileOptions::default().with_device_ordinal(-5);
        assert!(encode_raw(&broken.encode()).is_err());
        let broken = CompileOptions::default().with_num_replicas(-5);
        assert!(encode_raw(&broken.encode()).is_err());
        // These bytes set only `compile_portable_executable`. XLA's plugins would abort the process, because the
        // numbers of replicas and partitions are absent.
        let sent = CompileOptions::decode(&encode_raw(&[0x20, 1]).unwrap()).unwrap();
        assert!(sent.compile_portable_executable && sent.num_replicas == 1);
    }

    /// Returns encoded options in which a field of `DebugOptions` with a two-byte key has this number.
    fn debug_option(key: [u8; 2], number: i64) -> Vec<u8> {
        let mut field = key.to_vec();
        let mut rest = number.cast_unsigned();
        while rest >= 0x80 {
            field.push(u8::try_from(rest & 0x7f).unwrap() | 0x80);
            rest >>= 7;
        }
        field.push(u8::try_from(rest).unwrap());
        let mut bytes = CompileOptions::default().encode();
        let length = u8::try_from(field.len()).unwrap();
        bytes.extend([0x1a, length + 2, 0x1a, length]);
        bytes.extend(field);
        bytes
    }

    /// Each way to pass an option checks its number: as an override, as a text, and as a field of `DebugOptions`.
    #[test]
    fn numbers_of_debug_options() {
        let options = [
            (
                "xla_cpu_parallel_codegen_split_count",
                [0x98, 0x14],
                [0, 7, 1 << 16],
                vec![-1, (1 << 16) + 1, u32::MAX.into()],
            ),
            ("xla_reduce_window_rewrite_base_length", [0xa8, 0x12], [0, 7, i64::MAX], vec![-1, i64::MIN]),
        ];
        let mut messages = String::new();
        for (name, key, good, bad) in options {
            let with = |value: OptionOverride| encode(&CompileOptions::default().with_option_override(name, value));
            for number in good {
                with(number.into()).unwrap();
                with(number.to_string().as_str().into()).unwrap();
                encode_raw(&debug_option(key, number)).unwrap();
            }
            for number in bad {
                let error = with(number.into()).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
                messages += &format!("{name}={number}: {error}\n");
                assert_eq!(with(format!(" {number}").as_str().into()).unwrap_err().to_string(), error.to_string());
                let raw = encode_raw(&debug_option(key, number)).unwrap_err();
                assert_eq!(raw.to_string(), error.to_string());
            }
            // XLA rejects values that are not integers.
            with("many".into()).unwrap();
        }
        expect![[r#"
            xla_cpu_parallel_codegen_split_count=-1: xla_cpu_parallel_codegen_split_count is -1; it must be from 0 to 65536
            xla_cpu_parallel_codegen_split_count=65537: xla_cpu_parallel_codegen_split_count is 65537; it must be from 0 to 65536
            xla_cpu_parallel_codegen_split_count=4294967295: xla_cpu_parallel_codegen_split_count is 4294967295; it must be from 0 to 65536
            xla_reduce_window_rewrite_base_length=-1: xla_reduce_window_rewrite_base_length is -1; it must be from 0 to 9223372036854775807
            xla_reduce_window_rewrite_base_length=-9223372036854775808: xla_reduce_window_rewrite_base_length is -9223372036854775808; it must be from 0 to 9223372036854775807
        "#]].assert_eq(&messages);
        let group = [0x1a, 4, 0x1a, 2, 0x0b, 0x0c];
        expect!["debug_options are not fields of a protobuf message that can be checked"]
            .assert_eq(&encode_raw(&group).unwrap_err().to_string());
    }

    #[test]
    fn cpu_device_counts() {
        let check = |value: Value| check_client(&[NamedValue::new("cpu_device_count", value)]);
        assert!(check(4.into()).is_ok() && check(4096.into()).is_ok());
        for value in [Value::from(-1), 0.into(), 100_000.into(), "4".into(), true.into(), 4.0.into(), [4].into()] {
            assert!(check(value.clone()).is_err(), "{value}");
        }
        expect!["option cpu_device_count is -1 (int64); it must be an int64 from 1 to 4096"]
            .assert_eq(&check((-1).into()).unwrap_err().to_string());
        assert!(check_client(&[NamedValue::new("other", -1)]).is_ok());
    }
}
