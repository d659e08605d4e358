//! Compile options and device assignments, and their protobuf form.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};

use prost::Message;

use crate::proto::{
    CompileOptionsProto, ComputationDevice, DeviceAssignmentProto, ExecutableBuildOptionsProto, OptionOverrideEntry,
    OptionOverrideProto, OptionOverrideValue,
};
use crate::unknown::UnknownFields;

/// Options of a compilation, from the fields of `CompileOptionsProto`.
///
/// ```
/// use pjrt_types::CompileOptions;
///
/// let mut options = CompileOptions::default().with_num_replicas(2).with_option_override("optimization_level", 1);
/// options.parameter_is_tupled_arguments = true;
/// assert_eq!(options.num_replicas, 2);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct CompileOptions {
    /// Device for which the program is compiled. If it is -1, the plugin or the device assignment chooses the device.
    pub device_ordinal: i64,
    /// Number of replicas. Each replica is a copy of the program and runs on different data.
    pub num_replicas: i64,
    /// Number of partitions of each replica. Each partition runs on its own device.
    pub num_partitions: i64,
    /// Whether to partition the program by its sharding annotations.
    pub use_spmd_partitioning: bool,
    /// Whether the compiler partitions the program with Shardy instead of GSPMD.
    pub use_shardy_partitioner: bool,
    /// The device of each replica and partition.
    pub device_assignment: Option<DeviceAssignment>,
    /// Whether the executable may run on devices other than those for which it was compiled.
    pub compile_portable_executable: bool,
    /// Whether the program receives all arguments as one tuple.
    pub parameter_is_tupled_arguments: bool,
    /// Whether the compiler may choose the shardings of the outputs. The list has one element for each output, or one
    /// for all outputs.
    pub allow_spmd_sharding_propagation_to_output: Vec<bool>,
    /// Whether the compiler may choose the shardings of the parameters. The list has one element for each parameter, or
    /// one for all parameters.
    pub allow_spmd_sharding_propagation_to_parameters: Vec<bool>,
    /// Backend options by name, such as JAX's `compiler_options`.
    pub env_option_overrides: BTreeMap<String, OptionOverride>,
    /// Fields that this struct does not declare, such as XLA's debug options. Decoding keeps these fields, and encoding
    /// writes them again.
    pub unknown: UnknownFields,
}

/// Value of a backend option. Two doubles are equal if their bit patterns are equal, so that options can be hash keys.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "each name is its type")]
#[non_exhaustive]
pub enum OptionOverride {
    String(String),
    Bool(bool),
    Int64(i64),
    Double(f64),
}

impl PartialEq for OptionOverride {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::String(a), Self::String(b)) => a == b,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Int64(a), Self::Int64(b)) => a == b,
            (Self::Double(a), Self::Double(b)) => a.to_bits() == b.to_bits(),
            _ => false,
        }
    }
}

impl Eq for OptionOverride {}

impl Hash for OptionOverride {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Self::String(value) => value.hash(state),
            Self::Bool(value) => value.hash(state),
            Self::Int64(value) => value.hash(state),
            Self::Double(value) => value.to_bits().hash(state),
        }
    }
}

macro_rules! override_from {
    ($($variant:ident($ty:ty)),*) => {
        $(impl From<$ty> for OptionOverride {
            fn from(value: $ty) -> Self {
                Self::$variant(value.into())
            }
        })*
    };
}
override_from!(String(String), String(&str), Bool(bool), Int64(i64), Int64(i32), Double(f64));

impl fmt::Display for OptionOverride {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::String(value) => f.write_str(value),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int64(value) => write!(f, "{value}"),
            Self::Double(value) => write!(f, "{value}"),
        }
    }
}

/// The assignment of a program's replicas and partitions to devices.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DeviceAssignment {
    num_replicas: usize,
    num_partitions: usize,
    /// Device IDs in replica-major order.
    devices: Vec<i64>,
}

/// The error for bytes that do not encode compile options or a device assignment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DecodeError {
    message: String,
    /// The protobuf error, if the bytes are not a valid protobuf message.
    #[source]
    cause: Option<prost::DecodeError>,
}

impl DecodeError {
    fn new(message: String) -> Self {
        Self { message, cause: None }
    }

    /// Creates the error for bytes that are not a valid protobuf message. `what` names the expected message.
    fn protobuf(what: &str, cause: prost::DecodeError) -> Self {
        Self { message: format!("{what}: {cause}"), cause: Some(cause) }
    }
}

impl DeviceAssignment {
    /// Creates an assignment. `devices[replica * num_partitions + partition]` is a device ID. Returns `None` unless
    /// there is exactly one device for each replica and partition, and both counts are at least 1.
    #[must_use]
    pub fn new(num_replicas: usize, num_partitions: usize, devices: Vec<i64>) -> Option<Self> {
        let count = num_replicas.checked_mul(num_partitions)?;
        (count > 0 && count == devices.len()).then_some(Self { num_replicas, num_partitions, devices })
    }

    /// Returns the number of replicas.
    #[must_use]
    pub fn num_replicas(&self) -> usize {
        self.num_replicas
    }

    /// Returns the number of partitions.
    #[must_use]
    pub fn num_partitions(&self) -> usize {
        self.num_partitions
    }

    /// Returns the device IDs in replica-major order.
    #[must_use]
    pub fn devices(&self) -> &[i64] {
        &self.devices
    }

    /// Returns the device ID of a replica and partition, or `None` if one of the two indices is too large.
    #[must_use]
    pub fn device(&self, replica: usize, partition: usize) -> Option<i64> {
        if partition >= self.num_partitions {
            return None;
        }
        self.devices.get(replica.checked_mul(self.num_partitions)? + partition).copied()
    }

    /// Encodes the assignment as a `DeviceAssignmentProto`.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        self.to_proto().encode_to_vec()
    }

    /// Decodes a `DeviceAssignmentProto`.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not such a message, or if the counts do not match the listed devices.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let proto =
            DeviceAssignmentProto::decode(bytes).map_err(|error| DecodeError::protobuf("device assignment", error))?;
        Self::from_proto(&proto)
    }

    fn to_proto(&self) -> DeviceAssignmentProto {
        let partition = |partition: usize| ComputationDevice {
            replica_device_ids: (0..self.num_replicas).filter_map(|replica| self.device(replica, partition)).collect(),
        };
        DeviceAssignmentProto {
            replica_count: i32::try_from(self.num_replicas).unwrap_or(i32::MAX),
            computation_count: i32::try_from(self.num_partitions).unwrap_or(i32::MAX),
            computation_devices: (0..self.num_partitions).map(partition).collect(),
        }
    }

    fn from_proto(proto: &DeviceAssignmentProto) -> Result<Self, DecodeError> {
        let fault = |what: String| DecodeError::new(format!("device assignment: {what}"));
        let count = |n: i32| usize::try_from(n).ok();
        let (Some(replicas), Some(partitions)) = (count(proto.replica_count), count(proto.computation_count)) else {
            return Err(fault(format!(
                "{} replicas of {} partitions; both counts must be at least 1",
                proto.replica_count, proto.computation_count
            )));
        };
        if proto.computation_devices.len() != partitions {
            return Err(fault(format!(
                "{partitions} partitions, but {} lists of devices",
                proto.computation_devices.len()
            )));
        }
        for list in &proto.computation_devices {
            if list.replica_device_ids.len() != replicas {
                return Err(fault(format!(
                    "{replicas} replicas, but {} devices in a list",
                    list.replica_device_ids.len()
                )));
            }
        }
        let mut devices = Vec::new();
        for replica in 0..replicas {
            devices.extend(proto.computation_devices.iter().map(|list| list.replica_device_ids[replica]));
        }
        Self::new(replicas, partitions, devices).ok_or_else(|| {
            fault(format!("{replicas} replicas of {partitions} partitions; both counts must be at least 1"))
        })
    }
}

/// One replica and one partition, on a device that the plugin chooses.
impl Default for CompileOptions {
    fn default() -> Self {
        Self {
            device_ordinal: -1,
            num_replicas: 1,
            num_partitions: 1,
            use_spmd_partitioning: false,
            use_shardy_partitioner: false,
            device_assignment: None,
            compile_portable_executable: false,
            parameter_is_tupled_arguments: false,
            allow_spmd_sharding_propagation_to_output: Vec::new(),
            allow_spmd_sharding_propagation_to_parameters: Vec::new(),
            env_option_overrides: BTreeMap::new(),
            unknown: UnknownFields::default(),
        }
    }
}

impl CompileOptions {
    /// Sets the device for which the program is compiled.
    #[must_use]
    pub fn with_device_ordinal(mut self, ordinal: i64) -> Self {
        self.device_ordinal = ordinal;
        self
    }

    /// Sets the number of replicas: copies of the program that run on different data.
    #[must_use]
    pub fn with_num_replicas(mut self, count: i64) -> Self {
        self.num_replicas = count;
        self
    }

    /// Sets the number of partitions of each replica. Each partition runs on its own device.
    #[must_use]
    pub fn with_num_partitions(mut self, count: i64) -> Self {
        self.num_partitions = count;
        self
    }

    /// Sets whether the program is partitioned by its sharding annotations.
    #[must_use]
    pub fn with_spmd_partitioning(mut self, partition: bool) -> Self {
        self.use_spmd_partitioning = partition;
        self
    }

    /// Sets whether the compiler partitions the program with Shardy instead of GSPMD.
    #[must_use]
    pub fn with_shardy_partitioner(mut self, shardy: bool) -> Self {
        self.use_shardy_partitioner = shardy;
        self
    }

    /// Sets the device of each replica and partition. Also set `num_replicas` and `num_partitions` to the counts of the
    /// assignment.
    #[must_use]
    pub fn with_device_assignment(mut self, assignment: DeviceAssignment) -> Self {
        self.device_assignment = Some(assignment);
        self
    }

    /// Sets whether the executable may run on devices other than those for which it was compiled.
    #[must_use]
    pub fn with_portable_executable(mut self, portable: bool) -> Self {
        self.compile_portable_executable = portable;
        self
    }

    /// Sets a backend option. The new value replaces an earlier value of this option.
    #[must_use]
    pub fn with_option_override(mut self, name: impl Into<String>, value: impl Into<OptionOverride>) -> Self {
        self.env_option_overrides.insert(name.into(), value.into());
        self
    }

    /// Encodes the options as a `CompileOptionsProto`.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let overrides = self.env_option_overrides.iter().map(|(name, value)| {
            let value = match value {
                OptionOverride::String(value) => OptionOverrideValue::String(value.clone()),
                OptionOverride::Bool(value) => OptionOverrideValue::Bool(*value),
                OptionOverride::Int64(value) => OptionOverrideValue::Int(*value),
                OptionOverride::Double(value) => OptionOverrideValue::Double(*value),
            };
            OptionOverrideEntry { name: name.clone(), value: Some(OptionOverrideProto { value: Some(value) }) }
        });
        let mut bytes = CompileOptionsProto {
            parameter_is_tupled_arguments: self.parameter_is_tupled_arguments,
            executable_build_options: Some(ExecutableBuildOptionsProto {
                device_ordinal: self.device_ordinal,
                num_replicas: self.num_replicas,
                num_partitions: self.num_partitions,
                use_spmd_partitioning: self.use_spmd_partitioning,
                device_assignment: self.device_assignment.as_ref().map(DeviceAssignment::to_proto),
                allow_spmd_sharding_propagation_to_output: self.allow_spmd_sharding_propagation_to_output.clone(),
                allow_spmd_sharding_propagation_to_parameters: self
                    .allow_spmd_sharding_propagation_to_parameters
                    .clone(),
                use_shardy_partitioner: self.use_shardy_partitioner,
            }),
            compile_portable_executable: self.compile_portable_executable,
            env_option_overrides: overrides.collect(),
        }
        .encode_to_vec();
        self.unknown.append(&mut bytes);
        bytes
    }

    /// Decodes a `CompileOptionsProto`. Empty bytes decode to the defaults. Counts that are absent or 0 become 1.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not such a message, if a count is negative, or if the device assignment is
    /// inconsistent.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let proto =
            CompileOptionsProto::decode(bytes).map_err(|error| DecodeError::protobuf("compile options", error))?;
        let build = proto.executable_build_options.unwrap_or_else(|| ExecutableBuildOptionsProto {
            device_ordinal: -1,
            num_replicas: 1,
            num_partitions: 1,
            ..ExecutableBuildOptionsProto::default()
        });
        for (name, count) in [("num_replicas", build.num_replicas), ("num_partitions", build.num_partitions)] {
            if count < 0 {
                return Err(DecodeError::new(format!("compile options: {name} is {count}, but must be at least 0")));
            }
        }
        // Insert the entries one by one, because `collect` would make the binary larger by the code of a sort.
        let mut overrides = BTreeMap::new();
        for entry in proto.env_option_overrides {
            let value = match entry.value.and_then(|value| value.value) {
                None => continue,
                Some(OptionOverrideValue::String(value)) => OptionOverride::String(value),
                Some(OptionOverrideValue::Bool(value)) => OptionOverride::Bool(value),
                Some(OptionOverrideValue::Int(value)) => OptionOverride::Int64(value),
                Some(OptionOverrideValue::Double(value)) => OptionOverride::Double(value),
            };
            overrides.insert(entry.name, value);
        }
        Ok(Self {
            unknown: UnknownFields::of(bytes),
            device_ordinal: build.device_ordinal,
            num_replicas: build.num_replicas.max(1),
            num_partitions: build.num_partitions.max(1),
            use_spmd_partitioning: build.use_spmd_partitioning,
            use_shardy_partitioner: build.use_shardy_partitioner,
            device_assignment: build.device_assignment.as_ref().map(DeviceAssignment::from_proto).transpose()?,
            compile_portable_executable: proto.compile_portable_executable,
            parameter_is_tupled_arguments: proto.parameter_is_tupled_arguments,
            allow_spmd_sharding_propagation_to_output: build.allow_spmd_sharding_propagation_to_output,
            allow_spmd_sharding_propagation_to_parameters: build.allow_spmd_sharding_propagation_to_parameters,
            env_option_overrides: overrides,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_keys() {
        let options = |value: OptionOverride| CompileOptions::default().with_option_override("a", value);
        let distinct = [
            OptionOverride::from("1"),
            OptionOverride::from(true),
            OptionOverride::from(1),
            OptionOverride::from(1.0),
            OptionOverride::from(-0.0),
            OptionOverride::from(0.0),
            OptionOverride::from(f64::NAN),
        ];
        let mut keys = std::collections::HashSet::from([CompileOptions::default()]);
        for value in &distinct {
            assert!(keys.insert(options(value.clone())), "{value}");
            assert!(!keys.insert(options(value.clone())), "{value}");
        }
    }

    #[test]
    fn options_round_trip() {
        let options = CompileOptions {
            num_replicas: 2,
            num_partitions: 3,
            use_spmd_partitioning: true,
            use_shardy_partitioner: true,
            device_assignment: DeviceAssignment::new(2, 3, vec![0, 1, 2, 10, 11, 12]),
            compile_portable_executable: true,
            allow_spmd_sharding_propagation_to_output: vec![true, false],
            env_option_overrides: [
                ("a".to_owned(), OptionOverride::Bool(true)),
                ("b".to_owned(), OptionOverride::String("x".to_owned())),
                ("c".to_owned(), OptionOverride::Int64(-4)),
                ("d".to_owned(), OptionOverride::Double(0.5)),
            ]
            .into(),
            ..CompileOptions::default()
        };
        assert_eq!(CompileOptions::decode(&options.encode()).unwrap(), options);
        assert_eq!(CompileOptions::decode(&[]).unwrap(), CompileOptions::default());
    }

    #[test]
    fn unknown_fields_are_kept() {
        // Field 11 (compiler_variant) with a string, and field 4 with `true`.
        let bytes = [0x5a, 3, b'a', b'b', b'c', 0x20, 1];
        let options = CompileOptions::decode(&bytes).unwrap();
        assert!(options.compile_portable_executable);
        assert_eq!(options.unknown.field(11), Some(&b"abc"[..]));
        assert_eq!(CompileOptions::decode(&options.encode()).unwrap(), options);
        assert!(CompileOptions::decode(&[0xff; 7]).is_err());
    }

    /// Tests options from JAX. Fields that only XLA uses are interleaved with fields that this crate reads.
    #[test]
    fn round_trip() {
        // executable_build_options: device_ordinal -1; debug_options; 2 replicas; 3 partitions; use_spmd; the device
        // assignment {2, 3, {{0, 1}, {2, 3}, {4, 5}}}; both lists of sharding propagation; shardy; process_count;
        // memory_fitting_level.
        let mut build = vec![0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        build.extend([0x1a, 4, 0xf8, 0x01, 0x01, 0x07]);
        build.extend([0x20, 2, 0x28, 3, 0x30, 1]);
        build.extend([0x4a, 22, 0x08, 2, 0x10, 3]);
        for partition in 0u8..3 {
            build.extend([0x1a, 4, 0x0a, 2, 2 * partition, 2 * partition + 1]);
        }
        build.extend([0x62, 2, 1, 0, 0x92, 0x01, 1, 1, 0x98, 0x01, 1, 0xb8, 0x01, 1, 0xc8, 0x01, 29]);
        let mut bytes = vec![0x1a, u8::try_from(build.len()).unwrap()];
        bytes.extend(&build);
        // profile_version -1; one override {"o": {bool: true}}; allow_in_place_mlir_modification.
        bytes.extend([0x28, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]);
        bytes.extend([0x3a, 7, 0x0a, 1, b'o', 0x12, 2, 0x10, 1, 0x48, 1]);

        let options = CompileOptions::decode(&bytes).unwrap();
        assert_eq!((options.device_ordinal, options.num_replicas, options.num_partitions), (-1, 2, 3));
        assert!(options.use_spmd_partitioning && options.use_shardy_partitioner);
        let assignment = options.device_assignment.as_ref().unwrap();
        assert_eq!((assignment.device(0, 0), assignment.device(1, 2)), (Some(0), Some(5)));
        assert_eq!(options.allow_spmd_sharding_propagation_to_output, [true, false]);
        assert_eq!(options.allow_spmd_sharding_propagation_to_parameters, [true]);
        assert_eq!(options.env_option_overrides["o"], OptionOverride::Bool(true));
        assert_eq!(options.unknown.debug_options(), Some(&[0xf8, 0x01, 0x01, 0x07][..]));

        let written = options.encode();
        assert_eq!(CompileOptions::decode(&written).unwrap(), options);
        // Every unknown field is written unchanged.
        for kept in [
            &[0x1a, 4, 0xf8, 0x01, 0x01, 0x07][..],
            &[0xb8, 0x01, 1],
            &[0xc8, 0x01, 29],
            &[0x28, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
            &[0x48, 1],
        ] {
            assert!(written.windows(kept.len()).any(|window| window == kept), "{kept:x?} in {written:x?}");
        }
        // Encoding a changed option keeps all other fields.
        let mut changed = options.clone();
        changed.num_replicas = 1;
        changed.device_assignment = None;
        let read = CompileOptions::decode(&changed.encode()).unwrap();
        assert_eq!((read.num_replicas, &read.unknown), (1, &options.unknown));
    }

    #[test]
    fn device_assignments_are_consistent() {
        let assignment = DeviceAssignment::new(2, 2, vec![3, 2, 1, 0]).unwrap();
        assert_eq!(assignment.device(0, 1), Some(2));
        assert_eq!(assignment.device(1, 0), Some(1));
        assert_eq!(assignment.device(0, 2), None);
        assert_eq!(DeviceAssignment::decode(&assignment.encode()).unwrap(), assignment);
        assert!(DeviceAssignment::new(2, 2, vec![1]).is_none());
        assert!(DeviceAssignment::new(0, 1, vec![]).is_none());
        // replica_count = 1, computation_count = 1, and no list of devices.
        assert!(DeviceAssignment::decode(&[8, 1, 16, 1]).unwrap_err().to_string().contains("0 lists"));
        // A truncated replica_count, and then replica_count = -1.
        let cut = DeviceAssignment::decode(&[8]).unwrap_err();
        let cause = std::error::Error::source(&cut).unwrap();
        assert_eq!(cut.to_string(), format!("device assignment: {cause}"));
        assert!(DeviceAssignment::decode(&[8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1]).is_err());
    }
}
