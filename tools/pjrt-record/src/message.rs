//! The Protobuf messages in blocks. `docs/record-format.md` lists them.
//!
//! Each object, such as a client or a buffer, has a number. Numbers start at 1 and are unique within a file. The number
//! 0 means that there is no object. Devices and memories have the IDs that the plugin assigns.

use crate::content::Content;

/// A description of the recorded process and its plugin. It is the first block of a file.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct Process {
    /// Name and version of the program that wrote the file.
    #[prost(string, tag = "1")]
    pub recorder: String,
    /// ID of the process.
    #[prost(uint32, tag = "2")]
    pub process: u32,
    /// Time at which the recording began, in nanoseconds since 1970.
    #[prost(uint64, tag = "3")]
    pub unix_nanos: u64,
    /// Path of the recorded program.
    #[prost(string, tag = "4")]
    pub program: String,
    /// Operating system and architecture.
    #[prost(string, tag = "5")]
    pub system: String,
    /// Path of the plugin's library.
    #[prost(string, tag = "6")]
    pub plugin_path: String,
    /// SHA-256 hash of the plugin's library, in hexadecimal digits.
    #[prost(string, tag = "7")]
    pub plugin_sha256: String,
    /// Major version of the C API in the plugin's table.
    #[prost(uint32, tag = "8")]
    pub plugin_api_major: u32,
    /// Minor version of the C API in the plugin's table.
    #[prost(uint32, tag = "9")]
    pub plugin_api_minor: u32,
    /// The run to which the recording is limited, in the notation of [`Selection`](crate::Selection), or an empty
    /// string.
    #[prost(string, tag = "10")]
    pub only_run: String,
}

/// A named option of a client or of an execution.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct NamedOption {
    /// Name of the option.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Value of the option.
    #[prost(oneof = "Value", tags = "2, 3, 4, 5, 6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

/// The value of an option.
#[derive(Clone, PartialEq, prost::Oneof, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// A string.
    #[prost(string, tag = "2")]
    String(String),
    /// An integer.
    #[prost(int64, tag = "3")]
    Int64(i64),
    /// A list of integers.
    #[prost(message, tag = "4")]
    Int64List(Integers),
    /// A float.
    #[prost(float, tag = "5")]
    Float(f32),
    /// A boolean.
    #[prost(bool, tag = "6")]
    Bool(bool),
}

/// A list of integers.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct Integers {
    /// The integers.
    #[prost(int64, repeated, tag = "1")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<i64>,
}

/// An error: its code and its message.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct Failure {
    /// Code of the error, as in `PJRT_Error_Code`.
    #[prost(uint32, tag = "1")]
    pub code: u32,
    /// Message of the error.
    #[prost(string, tag = "2")]
    pub message: String,
}

/// The type and the shape of an array.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct ArrayType {
    /// The element type, as in `PJRT_Buffer_Type`.
    #[prost(uint32, tag = "1")]
    pub element_type: u32,
    /// Extents, from the slowest varying dimension of a row-major array to the fastest varying.
    #[prost(int64, repeated, tag = "2")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dimensions: Vec<i64>,
}

/// The layout of a buffer.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct MemoryLayout {
    /// The layout, in one of two forms.
    #[prost(oneof = "Layout", tags = "1, 2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<Layout>,
}

/// A layout, in one of two forms.
#[derive(Clone, PartialEq, prost::Oneof, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// The order of the dimensions in memory, and the extents of tiles.
    #[prost(message, tag = "1")]
    Tiled(Tiled),
    /// Byte strides, one for each dimension.
    #[prost(message, tag = "2")]
    ByteStrides(Integers),
}

/// The order of the dimensions in memory, and the extents of tiles.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct Tiled {
    /// Dimensions, from the fastest varying to the slowest varying.
    #[prost(int64, repeated, tag = "1")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub minor_to_major: Vec<i64>,
    /// Extents of the tiles, one list for each tile.
    #[prost(message, repeated, tag = "2")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tiles: Vec<Integers>,
}

/// A list of buffers.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct BufferList {
    /// Numbers of the buffers.
    #[prost(uint64, repeated, tag = "1")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub buffers: Vec<u64>,
}

/// A call, with the arguments that the plugin received.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct Call {
    /// Name of the function.
    #[prost(string, tag = "1")]
    pub function: String,
    /// Arguments of the call. `None` if the call cannot be replayed.
    #[prost(oneof = "Arguments", tags = "2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Arguments>,
}

/// The arguments of a call.
#[derive(Clone, PartialEq, prost::Oneof, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Arguments {
    /// `PJRT_Client_Create`.
    #[prost(message, tag = "2")]
    ClientCreate(ClientCreate),
    /// A function that destroys an object.
    #[prost(message, tag = "3")]
    Destroy(Object),
    /// A function that deletes an object: `PJRT_Buffer_Delete`, `PJRT_LoadedExecutable_Delete`.
    #[prost(message, tag = "4")]
    Delete(Object),
    /// `PJRT_Client_Compile`.
    #[prost(message, tag = "5")]
    Compile(Compile),
    /// `PJRT_Executable_DeserializeAndLoad`.
    #[prost(message, tag = "6")]
    Deserialize(Deserialize),
    /// `PJRT_Client_BufferFromHostBuffer`.
    #[prost(message, tag = "7")]
    Upload(Upload),
    /// `PJRT_Client_CreateUninitializedBuffer`, `PJRT_Client_CreateErrorBuffer`.
    #[prost(message, tag = "8")]
    CreateBuffer(CreateBuffer),
    /// `PJRT_Client_CreateAliasBuffer`, which creates a buffer and the fulfillment that provides its contents.
    #[prost(message, tag = "9")]
    CreateAlias(CreateBuffer),
    /// `PJRT_Client_FulfillAliasBuffer`.
    #[prost(message, tag = "10")]
    Fulfill(Fulfill),
    /// `PJRT_Client_CreateBuffersForAsyncHostToDevice`.
    #[prost(message, tag = "11")]
    CreateManager(CreateManager),
    /// `PJRT_AsyncHostToDeviceTransferManager_TransferData` and `..._TransferLiteral`.
    #[prost(message, tag = "12")]
    Transfer(Transfer),
    /// `PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer`.
    #[prost(message, tag = "13")]
    Retrieve(Retrieve),
    /// `PJRT_AsyncHostToDeviceTransferManager_SetBufferError`.
    #[prost(message, tag = "14")]
    SetError(SetError),
    /// `PJRT_Buffer_CopyToDevice`, `PJRT_Buffer_CopyToMemory`.
    #[prost(message, tag = "15")]
    Copy(Copy),
    /// `PJRT_LoadedExecutable_Execute`.
    #[prost(message, tag = "16")]
    Execute(Execute),
    /// `PJRT_Buffer_ToHostBuffer`. The data follow in [`Contents`].
    #[prost(message, tag = "17")]
    Download(Download),
    /// `PJRT_Buffer_CopyRawToHost`. The data follow in [`Contents`].
    #[prost(message, tag = "18")]
    RawDownload(Download),
}

/// Arguments of a call that creates a client.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct ClientCreate {
    /// Options of the client.
    #[prost(message, repeated, tag = "1")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<NamedOption>,
    /// The oldest minor version of the C API in which the argument struct is at least as large as the struct that the
    /// framework passed.
    #[prost(uint32, tag = "2")]
    pub framework_minor: u32,
    /// Whether the framework passed a key-value store, which programs with several processes need.
    #[prost(bool, tag = "3")]
    pub key_value_store: bool,
}

/// Argument of a call that destroys or deletes an object.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct Object {
    /// Number of the object.
    #[prost(uint64, tag = "1")]
    pub object: u64,
}

/// Arguments of a call that compiles a program.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct Compile {
    /// Number of the client.
    #[prost(uint64, tag = "1")]
    pub client: u64,
    /// Format of the program, such as `mlir`.
    #[prost(string, tag = "2")]
    pub format: String,
    /// Serialized program.
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Content>,
    /// Compile options, as a serialized `CompileOptionsProto`.
    #[prost(message, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<Content>,
}

/// Arguments of a call that loads a serialized executable.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct Deserialize {
    /// Number of the client.
    #[prost(uint64, tag = "1")]
    pub client: u64,
    /// The serialized executable.
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executable: Option<Content>,
    /// Compile options that replace the options of the executable.
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<Content>,
}

/// Arguments of a call that creates a buffer from host memory.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct Upload {
    /// Number of the client.
    #[prost(uint64, tag = "1")]
    pub client: u64,
    /// Element type and shape of the array.
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayType>,
    /// Byte strides of the array in the framework's memory. Empty if the array is row-major.
    #[prost(int64, repeated, tag = "3")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub byte_strides: Vec<i64>,
    /// Host buffer semantics, as in `PJRT_HostBufferSemantics`.
    #[prost(uint32, tag = "4")]
    pub semantics: u32,
    /// ID of the device.
    #[prost(int32, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<i32>,
    /// ID of the memory, if the call specifies a memory instead of a device.
    #[prost(int32, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<i32>,
    /// Layout in the memory of the device.
    #[prost(message, optional, tag = "7")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<MemoryLayout>,
    /// Elements in row-major order without gaps. Elements of sub-byte types take one byte each.
    #[prost(message, optional, tag = "8")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Content>,
}

/// Arguments of a call that creates a buffer without data.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct CreateBuffer {
    /// Number of the client.
    #[prost(uint64, tag = "1")]
    pub client: u64,
    /// Element type and shape of the buffer.
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayType>,
    /// Layout of the buffer.
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<MemoryLayout>,
    /// ID of the device.
    #[prost(int32, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<i32>,
    /// ID of the memory, if the call specifies a memory instead of a device.
    #[prost(int32, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<i32>,
    /// The error that the buffer has instead of data.
    #[prost(message, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// Arguments of a call that provides the contents of an alias buffer.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct Fulfill {
    /// Number of the fulfillment. The call that created the alias buffer returned this object.
    #[prost(uint64, tag = "1")]
    pub fulfillment: u64,
    /// Number of the buffer with the contents.
    #[prost(uint64, tag = "2")]
    pub buffer: u64,
    /// The error that the alias buffer gets instead of contents.
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// Arguments of a call that creates a transfer manager.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct CreateManager {
    /// Number of the client.
    #[prost(uint64, tag = "1")]
    pub client: u64,
    /// Element types and shapes of the buffers.
    #[prost(message, repeated, tag = "2")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arrays: Vec<ArrayType>,
    /// Layouts of the buffers. Empty if the plugin chooses the layouts.
    #[prost(message, repeated, tag = "3")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub layouts: Vec<MemoryLayout>,
    /// ID of the memory.
    #[prost(int32, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<i32>,
}

/// Arguments of a call that transfers data to a buffer of a transfer manager.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct Transfer {
    /// Number of the transfer manager.
    #[prost(uint64, tag = "1")]
    pub manager: u64,
    /// Index of the buffer.
    #[prost(int32, tag = "2")]
    pub index: i32,
    /// Offset in the buffer, in bytes.
    #[prost(int64, tag = "3")]
    pub offset: i64,
    /// Whether this is the last transfer to the buffer.
    #[prost(bool, tag = "4")]
    pub last: bool,
    /// Element type and shape, if the data are a literal for the whole buffer.
    #[prost(message, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayType>,
    /// Data to transfer.
    #[prost(message, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Content>,
}

/// Arguments of a call that retrieves a buffer from a transfer manager.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct Retrieve {
    /// Number of the transfer manager.
    #[prost(uint64, tag = "1")]
    pub manager: u64,
    /// Index of the buffer.
    #[prost(int32, tag = "2")]
    pub index: i32,
}

/// Arguments of a call that sets the error of a transfer manager's buffer.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct SetError {
    /// Number of the transfer manager.
    #[prost(uint64, tag = "1")]
    pub manager: u64,
    /// Index of the buffer.
    #[prost(int32, tag = "2")]
    pub index: i32,
    /// Error of the buffer.
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// Arguments of a call that copies a buffer to a device or to a memory.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct Copy {
    /// Number of the buffer.
    #[prost(uint64, tag = "1")]
    pub buffer: u64,
    /// ID of the device.
    #[prost(int32, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<i32>,
    /// ID of the memory, if the call specifies a memory instead of a device.
    #[prost(int32, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<i32>,
}

/// Arguments of a call that executes a program.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct Execute {
    /// Number of the executable.
    #[prost(uint64, tag = "1")]
    pub executable: u64,
    /// Arguments of the program, one list for each device.
    #[prost(message, repeated, tag = "2")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<BufferList>,
    /// Indices of the arguments that must not be donated.
    #[prost(int64, repeated, tag = "3")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub non_donatable: Vec<i64>,
    /// Launch ID of the execution.
    #[prost(int32, tag = "4")]
    pub launch_id: i32,
    /// ID of the device on which a portable executable runs.
    #[prost(int32, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<i32>,
    /// Source location in the framework's program, or an empty string.
    #[prost(string, tag = "6")]
    pub call_location: String,
    /// Options of the plugin that the C API does not define.
    #[prost(message, repeated, tag = "7")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<NamedOption>,
    /// Descriptions of arguments that prevent a replay, such as callbacks.
    #[prost(string, repeated, tag = "8")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unsupported: Vec<String>,
    /// Descriptions of arguments that a replay omits, such as the user data of custom calls.
    #[prost(string, repeated, tag = "9")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// Arguments of a call that copies a buffer to host memory.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct Download {
    /// Number of the buffer.
    #[prost(uint64, tag = "1")]
    pub buffer: u64,
    /// Element type and shape of the buffer.
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayType>,
    /// Layout of the data on the host: the layout that the framework requested, or the layout of the buffer.
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<MemoryLayout>,
    /// Offset in the memory of the device in bytes, for `PJRT_Buffer_CopyRawToHost`.
    #[prost(uint64, tag = "4")]
    pub offset: u64,
    /// Size of the data in bytes.
    #[prost(uint64, tag = "5")]
    pub size: u64,
}

/// The outcome of a call. Its block has the number of the call.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct Outcome {
    /// The error, if the call failed.
    #[prost(message, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Numbers of the objects that the call created.
    #[prost(uint64, repeated, tag = "2")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<u64>,
    /// Outputs of an execution, one list for each device.
    #[prost(message, repeated, tag = "3")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<BufferList>,
    /// Numbers of the arguments that are deleted after the execution, because they were donated.
    #[prost(uint64, repeated, tag = "4")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deleted: Vec<u64>,
    /// Description of the client that the call created.
    #[prost(message, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientDescription>,
    /// Description of the executable that the call created.
    #[prost(message, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executable: Option<ExecutableDescription>,
}

/// A client, as the plugin describes it.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct ClientDescription {
    /// Name of the platform.
    #[prost(string, tag = "1")]
    pub platform_name: String,
    /// Version of the platform.
    #[prost(string, tag = "2")]
    pub platform_version: String,
    /// Index of this process among the processes of the program.
    #[prost(int32, tag = "3")]
    pub process_index: i32,
    /// The devices of all processes, in the plugin's order.
    #[prost(message, repeated, tag = "4")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Device>,
    /// The memories that this process can use.
    #[prost(message, repeated, tag = "5")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub memories: Vec<Memory>,
}

/// A device of a client.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct Device {
    /// ID of the device, unique among all devices.
    #[prost(int32, tag = "1")]
    pub id: i32,
    /// Device kind, as the vendor names it.
    #[prost(string, tag = "2")]
    pub kind: String,
    /// Index of the process to which the device belongs.
    #[prost(int32, tag = "3")]
    pub process_index: i32,
    /// Whether this process can use the device.
    #[prost(bool, tag = "4")]
    pub addressable: bool,
}

/// A memory of a client.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct Memory {
    /// ID of the memory, unique among the client's memories.
    #[prost(int32, tag = "1")]
    pub id: i32,
    /// Memory kind, such as `device`.
    #[prost(string, tag = "2")]
    pub kind: String,
    /// IDs of the devices that can use the memory.
    #[prost(int32, repeated, tag = "3")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<i32>,
}

/// An executable, as the plugin describes it.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct ExecutableDescription {
    /// Name of the program.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Element types and shapes of the outputs.
    #[prost(message, repeated, tag = "2")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<ArrayType>,
}

/// The contents of a buffer. A replay must compute the same contents.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct Contents {
    /// Number of the buffer.
    #[prost(uint64, tag = "1")]
    pub buffer: u64,
    /// Whether the recorder read the contents as an output of an execution. If so, the block has the number of the
    /// execution. Otherwise, the block has the number of the framework's download.
    #[prost(bool, tag = "2")]
    pub is_output: bool,
    /// Element type and shape of the buffer.
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayType>,
    /// Layout of the data. If it is absent, the data are row-major.
    #[prost(message, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<MemoryLayout>,
    /// Contents of the buffer.
    #[prost(message, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Content>,
    /// The error that the buffer has instead of data.
    #[prost(message, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// A buffer that no call in the file creates. The recorder read it back from the device.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct Snapshot {
    /// Number of the client.
    #[prost(uint64, tag = "1")]
    pub client: u64,
    /// Number of the buffer.
    #[prost(uint64, tag = "2")]
    pub buffer: u64,
    /// Element type and shape of the buffer.
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayType>,
    /// ID of the memory.
    #[prost(int32, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<i32>,
    /// Layout of the data. If it is absent, the data are row-major.
    #[prost(message, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<MemoryLayout>,
    /// Elements of the buffer.
    #[prost(message, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Content>,
    /// The error that the plugin returned when the recorder read the contents.
    #[prost(message, optional, tag = "7")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// ID of the device.
    #[prost(int32, optional, tag = "8")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<i32>,
    /// Layout in the memory of the device.
    #[prost(message, optional, tag = "9")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_layout: Option<MemoryLayout>,
}

/// The end of a recording.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct End {
    /// Number of recorded calls.
    #[prost(uint64, tag = "1")]
    pub calls: u64,
}
