//! The messages in blocks, as Protobuf. `docs/record-format.md` lists them.
//!
//! Objects have numbers, from 1, which are unique within a file. 0 stands for no object. Devices and memories have the
//! ids that the plugin gives them.

use crate::content::Content;

/// The process that was recorded, and its plugin. The first block of a file.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct Process {
    /// The program that wrote the file, with its version.
    #[prost(string, tag = "1")]
    pub recorder: String,
    /// The id of the process.
    #[prost(uint32, tag = "2")]
    pub process: u32,
    /// When the recording began, in nanoseconds since 1970.
    #[prost(uint64, tag = "3")]
    pub unix_nanos: u64,
    /// The path of the program.
    #[prost(string, tag = "4")]
    pub program: String,
    /// The operating system and the architecture.
    #[prost(string, tag = "5")]
    pub system: String,
    /// The path of the plugin's library.
    #[prost(string, tag = "6")]
    pub plugin_path: String,
    /// The SHA-256 hash of the plugin's library, in hexadecimal digits.
    #[prost(string, tag = "7")]
    pub plugin_sha256: String,
    /// The major version of the C API in the plugin's table.
    #[prost(uint32, tag = "8")]
    pub plugin_api_major: u32,
    /// The minor version of the C API in the plugin's table.
    #[prost(uint32, tag = "9")]
    pub plugin_api_minor: u32,
    /// The run to which the recording is limited, or an empty text.
    #[prost(string, tag = "10")]
    pub only_run: String,
}

/// A named option of a client or of a run.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct NamedOption {
    /// The name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The value.
    #[prost(oneof = "Value", tags = "2, 3, 4, 5, 6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

/// The value of an option.
#[derive(Clone, PartialEq, prost::Oneof, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// A text.
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

/// An error.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct Failure {
    /// The code, as in `PJRT_Error_Code`.
    #[prost(uint32, tag = "1")]
    pub code: u32,
    /// The text.
    #[prost(string, tag = "2")]
    pub message: String,
}

/// The type and the shape of an array.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct ArrayType {
    /// The element type, as in `PJRT_Buffer_Type`.
    #[prost(uint32, tag = "1")]
    pub element_type: u32,
    /// The extents, from the slowest varying dimension of a row-major array to the fastest.
    #[prost(int64, repeated, tag = "2")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dimensions: Vec<i64>,
}

/// The layout of a buffer.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct MemoryLayout {
    /// One of the two forms.
    #[prost(oneof = "Layout", tags = "1, 2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<Layout>,
}

/// The form of a layout.
#[derive(Clone, PartialEq, prost::Oneof, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// An order of the dimensions, with tiles.
    #[prost(message, tag = "1")]
    Tiled(Tiled),
    /// The distances between elements in bytes, one for each dimension.
    #[prost(message, tag = "2")]
    ByteStrides(Integers),
}

/// An order of the dimensions, with tiles.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct Tiled {
    /// The dimensions, from the fastest varying to the slowest.
    #[prost(int64, repeated, tag = "1")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub minor_to_major: Vec<i64>,
    /// The extents of the tiles.
    #[prost(message, repeated, tag = "2")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tiles: Vec<Integers>,
}

/// A list of buffers.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct BufferList {
    /// The numbers of the buffers.
    #[prost(uint64, repeated, tag = "1")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub buffers: Vec<u64>,
}

/// A call, as the plugin receives it.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct Call {
    /// The name of the function.
    #[prost(string, tag = "1")]
    pub function: String,
    /// The arguments. `None` if the call cannot be replayed.
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
    /// `PJRT_Client_CreateAliasBuffer`. It creates a buffer and its fulfillment.
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

/// Creates a client.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct ClientCreate {
    /// The options.
    #[prost(message, repeated, tag = "1")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<NamedOption>,
    /// The oldest minor version of the C API whose header has the struct that the framework passed.
    #[prost(uint32, tag = "2")]
    pub framework_minor: u32,
    /// Whether the framework passed a key-value store, because the program has several processes.
    #[prost(bool, tag = "3")]
    pub key_value_store: bool,
}

/// One object.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct Object {
    /// Its number.
    #[prost(uint64, tag = "1")]
    pub object: u64,
}

/// Compiles a program.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct Compile {
    /// The client.
    #[prost(uint64, tag = "1")]
    pub client: u64,
    /// The format of the program, such as `mlir`.
    #[prost(string, tag = "2")]
    pub format: String,
    /// The program.
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Content>,
    /// The compile options, a serialized `CompileOptionsProto`.
    #[prost(message, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<Content>,
}

/// Loads a serialized executable.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct Deserialize {
    /// The client.
    #[prost(uint64, tag = "1")]
    pub client: u64,
    /// The serialized executable.
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executable: Option<Content>,
    /// The compile options that replace those of the executable.
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<Content>,
}

/// Creates a buffer from host memory.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct Upload {
    /// The client.
    #[prost(uint64, tag = "1")]
    pub client: u64,
    /// The type and the shape.
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayType>,
    /// The distances between elements in the framework's memory. Empty if it is row-major.
    #[prost(int64, repeated, tag = "3")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub byte_strides: Vec<i64>,
    /// As in `PJRT_HostBufferSemantics`.
    #[prost(uint32, tag = "4")]
    pub semantics: u32,
    /// The device.
    #[prost(int32, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<i32>,
    /// The memory, in place of the device.
    #[prost(int32, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<i32>,
    /// The layout in the memory of the device.
    #[prost(message, optional, tag = "7")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<MemoryLayout>,
    /// The elements, row-major without gaps. Elements smaller than a byte take one byte.
    #[prost(message, optional, tag = "8")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Content>,
}

/// Creates a buffer without data.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct CreateBuffer {
    /// The client.
    #[prost(uint64, tag = "1")]
    pub client: u64,
    /// The type and the shape.
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayType>,
    /// The layout.
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<MemoryLayout>,
    /// The device.
    #[prost(int32, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<i32>,
    /// The memory, in place of the device.
    #[prost(int32, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<i32>,
    /// The error that the buffer has in place of data.
    #[prost(message, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// Provides the contents of an alias buffer.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct Fulfill {
    /// The fulfillment, which the call that created the alias buffer returned.
    #[prost(uint64, tag = "1")]
    pub fulfillment: u64,
    /// The buffer with the contents.
    #[prost(uint64, tag = "2")]
    pub buffer: u64,
    /// The error that the alias buffer gets in place of contents.
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// Creates a transfer manager.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct CreateManager {
    /// The client.
    #[prost(uint64, tag = "1")]
    pub client: u64,
    /// The types and the shapes of the buffers.
    #[prost(message, repeated, tag = "2")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arrays: Vec<ArrayType>,
    /// The layouts of the buffers. Empty for the plugin's layouts.
    #[prost(message, repeated, tag = "3")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub layouts: Vec<MemoryLayout>,
    /// The memory.
    #[prost(int32, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<i32>,
}

/// Transfers data to a buffer of a transfer manager.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct Transfer {
    /// The transfer manager.
    #[prost(uint64, tag = "1")]
    pub manager: u64,
    /// The index of the buffer.
    #[prost(int32, tag = "2")]
    pub index: i32,
    /// The offset in the buffer, in bytes.
    #[prost(int64, tag = "3")]
    pub offset: i64,
    /// Whether this is the last transfer to the buffer.
    #[prost(bool, tag = "4")]
    pub last: bool,
    /// The type and the shape of a literal, which is the whole buffer.
    #[prost(message, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayType>,
    /// The data.
    #[prost(message, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Content>,
}

/// Takes a buffer from a transfer manager.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct Retrieve {
    /// The transfer manager.
    #[prost(uint64, tag = "1")]
    pub manager: u64,
    /// The index of the buffer.
    #[prost(int32, tag = "2")]
    pub index: i32,
}

/// Gives a buffer of a transfer manager an error.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct SetError {
    /// The transfer manager.
    #[prost(uint64, tag = "1")]
    pub manager: u64,
    /// The index of the buffer.
    #[prost(int32, tag = "2")]
    pub index: i32,
    /// The error.
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// Copies a buffer to a device or to a memory.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct Copy {
    /// The buffer.
    #[prost(uint64, tag = "1")]
    pub buffer: u64,
    /// The device.
    #[prost(int32, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<i32>,
    /// The memory, in place of the device.
    #[prost(int32, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<i32>,
}

/// Runs a program.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct Execute {
    /// The executable.
    #[prost(uint64, tag = "1")]
    pub executable: u64,
    /// The arguments of each device.
    #[prost(message, repeated, tag = "2")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<BufferList>,
    /// The positions of the arguments that must not be donated.
    #[prost(int64, repeated, tag = "3")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub non_donatable: Vec<i64>,
    /// The identifier of the launch.
    #[prost(int32, tag = "4")]
    pub launch_id: i32,
    /// The device of a portable executable's run.
    #[prost(int32, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<i32>,
    /// The place in the framework's source, or an empty text.
    #[prost(string, tag = "6")]
    pub call_location: String,
    /// Options that only the plugin defines.
    #[prost(message, repeated, tag = "7")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<NamedOption>,
    /// Parts of the arguments that cannot be replayed, such as callbacks.
    #[prost(string, repeated, tag = "8")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unsupported: Vec<String>,
    /// Parts of the arguments that a replay leaves out, such as the user data of custom calls.
    #[prost(string, repeated, tag = "9")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// Copies a buffer to host memory.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct Download {
    /// The buffer.
    #[prost(uint64, tag = "1")]
    pub buffer: u64,
    /// The type and the shape of the buffer.
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayType>,
    /// The layout of the data on the host: the one that the framework requested, or that of the buffer.
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<MemoryLayout>,
    /// The offset in the memory of the device, for `PJRT_Buffer_CopyRawToHost`.
    #[prost(uint64, tag = "4")]
    pub offset: u64,
    /// Number of bytes.
    #[prost(uint64, tag = "5")]
    pub size: u64,
}

/// The outcome of a call. It has the same number as the call.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct Outcome {
    /// The error, if the call failed.
    #[prost(message, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// The objects that the call created.
    #[prost(uint64, repeated, tag = "2")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<u64>,
    /// The outputs of a run on each device.
    #[prost(message, repeated, tag = "3")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<BufferList>,
    /// The arguments that are deleted after the run, because they were donated.
    #[prost(uint64, repeated, tag = "4")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deleted: Vec<u64>,
    /// The client that the call created.
    #[prost(message, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientDescription>,
    /// The executable that the call created.
    #[prost(message, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executable: Option<ExecutableDescription>,
}

/// A client, as the plugin describes it.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct ClientDescription {
    /// The name of the platform.
    #[prost(string, tag = "1")]
    pub platform_name: String,
    /// The version of the platform.
    #[prost(string, tag = "2")]
    pub platform_version: String,
    /// The index of the process among those of the program.
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

/// A device.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct Device {
    /// The id, unique among all devices.
    #[prost(int32, tag = "1")]
    pub id: i32,
    /// The vendor's name of the kind.
    #[prost(string, tag = "2")]
    pub kind: String,
    /// The process to which the device belongs.
    #[prost(int32, tag = "3")]
    pub process_index: i32,
    /// Whether this process can use the device.
    #[prost(bool, tag = "4")]
    pub addressable: bool,
}

/// A memory.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct Memory {
    /// The id, unique among the client's memories.
    #[prost(int32, tag = "1")]
    pub id: i32,
    /// The kind, such as `device`.
    #[prost(string, tag = "2")]
    pub kind: String,
    /// The ids of the devices that can use the memory.
    #[prost(int32, repeated, tag = "3")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<i32>,
}

/// An executable, as the plugin describes it.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct ExecutableDescription {
    /// The name of the program.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The types and the shapes of the outputs.
    #[prost(message, repeated, tag = "2")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<ArrayType>,
}

/// The contents of a buffer. A replay must compute the same contents.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct Contents {
    /// The buffer.
    #[prost(uint64, tag = "1")]
    pub buffer: u64,
    /// Whether the recorder read an output of the run with this number. Otherwise, the call with this number is the
    /// framework's download.
    #[prost(bool, tag = "2")]
    pub is_output: bool,
    /// The type and the shape of the buffer.
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayType>,
    /// The layout of the data. Row-major if it is absent.
    #[prost(message, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<MemoryLayout>,
    /// The data.
    #[prost(message, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Content>,
    /// The error, in place of the data.
    #[prost(message, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// A buffer that no call in the file creates. The recorder read it back from the device.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct Snapshot {
    /// The client.
    #[prost(uint64, tag = "1")]
    pub client: u64,
    /// The buffer.
    #[prost(uint64, tag = "2")]
    pub buffer: u64,
    /// The type and the shape.
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayType>,
    /// The memory.
    #[prost(int32, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<i32>,
    /// The layout of the data. Row-major if it is absent.
    #[prost(message, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<MemoryLayout>,
    /// The elements.
    #[prost(message, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Content>,
    /// Why the contents could not be read.
    #[prost(message, optional, tag = "7")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// The device.
    #[prost(int32, optional, tag = "8")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<i32>,
    /// The layout in the memory of the device.
    #[prost(message, optional, tag = "9")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_layout: Option<MemoryLayout>,
}

/// The end of a recording.
#[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
pub struct End {
    /// The number of recorded calls.
    #[prost(uint64, tag = "1")]
    pub calls: u64,
}
