//! The protobuf messages that cross the C API. They are written by hand, so that no build needs protoc.
//!
//! The field numbers are those of XLA's `CompileOptionsProto`. Fields that this SDK does not use are not declared here.
//! [`crate::unknown`] keeps them as bytes.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CompileOptionsProto {
    #[prost(bool, tag = "2")]
    pub(crate) parameter_is_tupled_arguments: bool,
    #[prost(message, optional, tag = "3")]
    pub(crate) executable_build_options: Option<ExecutableBuildOptionsProto>,
    #[prost(bool, tag = "4")]
    pub(crate) compile_portable_executable: bool,
    /// A protobuf map, which is encoded as a list of entries. A `Vec` needs no hash table and keeps the order of the
    /// entries.
    #[prost(message, repeated, tag = "7")]
    pub(crate) env_option_overrides: Vec<OptionOverrideEntry>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct OptionOverrideEntry {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) value: Option<OptionOverrideProto>,
}

/// Field numbers of [`CompileOptionsProto`].
pub(crate) const COMPILE_OPTIONS: &[u64] = &[2, 3, 4, 7];
/// Number of the field `executable_build_options` of [`CompileOptionsProto`].
pub(crate) const EXECUTABLE_BUILD_OPTIONS: u64 = 3;
/// Field numbers of [`ExecutableBuildOptionsProto`].
pub(crate) const BUILD_OPTIONS: &[u64] = &[1, 4, 5, 6, 9, 12, 18, 19];

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ExecutableBuildOptionsProto {
    #[prost(int64, tag = "1")]
    pub(crate) device_ordinal: i64,
    #[prost(int64, tag = "4")]
    pub(crate) num_replicas: i64,
    #[prost(int64, tag = "5")]
    pub(crate) num_partitions: i64,
    #[prost(bool, tag = "6")]
    pub(crate) use_spmd_partitioning: bool,
    #[prost(message, optional, tag = "9")]
    pub(crate) device_assignment: Option<DeviceAssignmentProto>,
    #[prost(bool, repeated, tag = "12")]
    pub(crate) allow_spmd_sharding_propagation_to_output: Vec<bool>,
    #[prost(bool, repeated, tag = "18")]
    pub(crate) allow_spmd_sharding_propagation_to_parameters: Vec<bool>,
    #[prost(bool, tag = "19")]
    pub(crate) use_shardy_partitioner: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeviceAssignmentProto {
    #[prost(int32, tag = "1")]
    pub(crate) replica_count: i32,
    #[prost(int32, tag = "2")]
    pub(crate) computation_count: i32,
    #[prost(message, repeated, tag = "3")]
    pub(crate) computation_devices: Vec<ComputationDevice>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ComputationDevice {
    #[prost(int64, repeated, tag = "1")]
    pub(crate) replica_device_ids: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct OptionOverrideProto {
    #[prost(oneof = "OptionOverrideValue", tags = "1, 2, 3, 4")]
    pub(crate) value: Option<OptionOverrideValue>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum OptionOverrideValue {
    #[prost(string, tag = "1")]
    String(String),
    #[prost(bool, tag = "2")]
    Bool(bool),
    #[prost(int64, tag = "3")]
    Int(i64),
    #[prost(double, tag = "4")]
    Double(f64),
}
