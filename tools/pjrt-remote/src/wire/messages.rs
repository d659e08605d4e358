//! The Protobuf messages. `docs/remote-protocol.md` explains them.
//!
//! Field numbers are never reused. A peer ignores fields that it does not know, and rejects requests and replies that
//! it does not know. New requests therefore need a new version of the protocol.

use prost::{Message, Oneof};

/// First field of [`Hello`]. It distinguishes a client from a program that connected by mistake.
pub(crate) const MAGIC: &str = "pjrt-remote";
/// Oldest version of the protocol that this build speaks.
pub(crate) const OLDEST: u32 = 1;
/// Newest version of the protocol that this build speaks.
pub(crate) const NEWEST: u32 = 1;

/// The first message of a client.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Hello {
    #[prost(string, tag = "1")]
    pub(crate) magic: String,
    /// The versions that the client speaks.
    #[prost(uint32, tag = "2")]
    pub(crate) oldest: u32,
    #[prost(uint32, tag = "3")]
    pub(crate) newest: u32,
    /// The secret of the server, for connections that need one.
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) token: Vec<u8>,
    /// Name and process id of the client's program, for lists of clients.
    #[prost(string, tag = "5")]
    pub(crate) program: String,
    #[prost(uint32, tag = "6")]
    pub(crate) process: u32,
    /// Whether a descriptor of a block of shared memory with [`PROBE`] bytes comes with the message.
    #[prost(bool, tag = "7")]
    pub(crate) shares_memory: bool,
    /// Whether the other side only asks for [`Welcome::clients`], and is not a client itself.
    #[prost(bool, tag = "8")]
    pub(crate) is_status: bool,
}

/// What a client of a server holds.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ClientStatus {
    #[prost(string, tag = "1")]
    pub(crate) program: String,
    #[prost(uint32, tag = "2")]
    pub(crate) process: u32,
    /// Milliseconds since the client connected.
    #[prost(uint64, tag = "3")]
    pub(crate) connected_ms: u64,
    #[prost(uint64, tag = "4")]
    pub(crate) objects: u64,
    #[prost(uint64, tag = "5")]
    pub(crate) bytes: u64,
}

/// Size of the block with which a client finds out whether it shares memory with the server.
pub(crate) const PROBE: usize = 4096;

/// The first message of a server.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Welcome {
    /// Why the server rejects the client. The other fields are then empty, and the server closes the connection.
    #[prost(message, optional, tag = "1")]
    pub(crate) refusal: Option<Failure>,
    /// The version of the protocol that both sides speak from now on.
    #[prost(uint32, tag = "2")]
    pub(crate) version: u32,
    #[prost(string, tag = "3")]
    pub(crate) platform_name: String,
    #[prost(string, tag = "4")]
    pub(crate) platform_version: String,
    #[prost(int32, tag = "5")]
    pub(crate) process_index: i32,
    #[prost(message, repeated, tag = "6")]
    pub(crate) devices: Vec<Device>,
    #[prost(message, repeated, tag = "7")]
    pub(crate) memories: Vec<Memory>,
    #[prost(message, repeated, tag = "8")]
    pub(crate) plugin_attributes: Vec<NamedValue>,
    #[prost(message, repeated, tag = "9")]
    pub(crate) topology_attributes: Vec<NamedValue>,
    /// Maximum number of requests of a client that have not been answered.
    #[prost(uint32, tag = "10")]
    pub(crate) max_outstanding: u32,
    /// Whether large arrays pass in shared memory, because the descriptor of the client arrived.
    #[prost(bool, tag = "11")]
    pub(crate) shares_memory: bool,
    /// The clients of the server, for [`Hello::is_status`]. The other fields are then empty.
    #[prost(message, repeated, tag = "12")]
    pub(crate) clients: Vec<ClientStatus>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Device {
    #[prost(int32, tag = "1")]
    pub(crate) id: i32,
    #[prost(int32, tag = "2")]
    pub(crate) process_index: i32,
    #[prost(int32, tag = "3")]
    pub(crate) local_hardware_id: i32,
    #[prost(bool, tag = "4")]
    pub(crate) addressable: bool,
    #[prost(string, tag = "5")]
    pub(crate) kind: String,
    #[prost(string, tag = "6")]
    pub(crate) debug_string: String,
    #[prost(string, tag = "7")]
    pub(crate) display_string: String,
    #[prost(message, repeated, tag = "8")]
    pub(crate) attributes: Vec<NamedValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Memory {
    #[prost(string, tag = "1")]
    pub(crate) kind: String,
    #[prost(int32, tag = "2")]
    pub(crate) kind_id: i32,
    /// Ids of the devices that can address the memory.
    #[prost(int32, repeated, tag = "3")]
    pub(crate) devices: Vec<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NamedValue {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(oneof = "Value", tags = "2, 3, 4, 5, 6")]
    pub(crate) value: Option<Value>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Value {
    #[prost(string, tag = "2")]
    String(String),
    #[prost(int64, tag = "3")]
    Int64(i64),
    #[prost(message, tag = "4")]
    Int64List(Int64List),
    #[prost(float, tag = "5")]
    Float(f32),
    #[prost(bool, tag = "6")]
    Bool(bool),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Int64List {
    #[prost(int64, repeated, tag = "1")]
    pub(crate) values: Vec<i64>,
}

/// The error of an operation.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Failure {
    /// A code of `PJRT_Error_Code`.
    #[prost(uint32, tag = "1")]
    pub(crate) code: u32,
    #[prost(string, tag = "2")]
    pub(crate) message: String,
    #[prost(message, repeated, tag = "3")]
    pub(crate) payloads: Vec<Payload>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Payload {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Shape {
    /// A code of `PJRT_Buffer_Type`.
    #[prost(uint32, tag = "1")]
    pub(crate) element_type: u32,
    #[prost(int64, repeated, tag = "2")]
    pub(crate) dimensions: Vec<i64>,
}

/// A message of the client after [`Hello`].
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Request {
    #[prost(oneof = "RequestKind", tags = "1, 2, 3, 5, 6, 7, 8, 9, 10")]
    pub(crate) kind: Option<RequestKind>,
    /// Handles of objects that the server frees before it handles the request, which may be empty. Handles that the
    /// server does not know are ignored, because a donation may have freed them.
    #[prost(uint64, repeated, tag = "4")]
    pub(crate) released: Vec<u64>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum RequestKind {
    #[prost(message, tag = "1")]
    Upload(Upload),
    #[prost(message, tag = "2")]
    Read(Read),
    #[prost(message, tag = "3")]
    Derive(Derive),
    #[prost(message, tag = "5")]
    Compile(Compile),
    #[prost(message, tag = "6")]
    Execute(Execute),
    #[prost(message, tag = "7")]
    DeviceQuery(DeviceQuery),
    #[prost(message, tag = "8")]
    ExecutableQuery(ExecutableQuery),
    #[prost(message, tag = "9")]
    Allocate(Allocate),
    #[prost(message, tag = "10")]
    Poison(Poison),
}

/// Creates a buffer from the `bytes` bytes that follow the message, or that pass through the client's ring.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Upload {
    #[prost(uint64, tag = "1")]
    pub(crate) ticket: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) handle: u64,
    #[prost(message, optional, tag = "3")]
    pub(crate) shape: Option<Shape>,
    #[prost(uint32, tag = "4")]
    pub(crate) memory: u32,
    #[prost(uint64, tag = "5")]
    pub(crate) bytes: u64,
    /// Whether the buffer may use host memory. Then the server lends the plugin the memory in which the data arrived.
    #[prost(bool, tag = "6")]
    pub(crate) zero_copy: bool,
    #[prost(bool, tag = "9")]
    pub(crate) in_ring: bool,
    /// Whether the ring is new. The descriptors of its memory and of its socket then come with the message.
    #[prost(bool, tag = "10")]
    pub(crate) new_ring: bool,
}

/// Creates a buffer that the client need not fill. Its elements are zero.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Allocate {
    #[prost(uint64, tag = "1")]
    pub(crate) ticket: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) handle: u64,
    #[prost(message, optional, tag = "3")]
    pub(crate) shape: Option<Shape>,
    #[prost(uint32, tag = "4")]
    pub(crate) memory: u32,
}

/// Requests the contents of a buffer, which [`Data`] answers.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Read {
    #[prost(uint64, tag = "1")]
    pub(crate) ticket: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) handle: u64,
}

/// Creates a buffer from another one: a copy in a memory or, with a shape, a bitcast in the same memory.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Derive {
    #[prost(uint64, tag = "1")]
    pub(crate) ticket: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) handle: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) source: u64,
    #[prost(uint32, tag = "4")]
    pub(crate) memory: u32,
    #[prost(message, optional, tag = "5")]
    pub(crate) bitcast: Option<Shape>,
}

/// Compiles the program whose `bytes` bytes follow the message. [`Compiled`] answers.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Compile {
    #[prost(uint64, tag = "1")]
    pub(crate) ticket: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) handle: u64,
    #[prost(string, tag = "3")]
    pub(crate) format: String,
    /// A serialized `CompileOptionsProto`.
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) options: Vec<u8>,
    #[prost(uint64, tag = "5")]
    pub(crate) bytes: u64,
}

/// Runs a program, on one device or on several at once.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Execute {
    #[prost(uint64, tag = "1")]
    pub(crate) executable: u64,
    #[prost(int32, tag = "2")]
    pub(crate) launch_id: i32,
    /// Whether the launches are one run on all devices of the program. Otherwise there is one launch.
    #[prost(bool, tag = "3")]
    pub(crate) all_devices: bool,
    #[prost(message, repeated, tag = "4")]
    pub(crate) launches: Vec<Launch>,
    #[prost(string, tag = "5")]
    pub(crate) call_location: String,
}

/// The part of a run on one device.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Launch {
    #[prost(uint64, tag = "1")]
    pub(crate) ticket: u64,
    /// Index of the device in [`Welcome::devices`].
    #[prost(uint32, tag = "2")]
    pub(crate) device: u32,
    #[prost(uint64, repeated, tag = "3")]
    pub(crate) arguments: Vec<u64>,
    /// Indices of the donated arguments.
    #[prost(uint32, repeated, tag = "4")]
    pub(crate) donated: Vec<u32>,
    /// Handle of the first output. The handles of the others follow it.
    #[prost(uint64, tag = "5")]
    pub(crate) first_output: u64,
    /// The number of outputs.
    #[prost(uint32, tag = "6")]
    pub(crate) outputs: u32,
}

/// Asks for, or resets, the memory statistics of a device. [`Answer`] answers. All clients of the server see the same
/// statistics, so they can be reset only if the server accepts a single client.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeviceQuery {
    #[prost(uint64, tag = "1")]
    pub(crate) ticket: u64,
    #[prost(uint32, tag = "2")]
    pub(crate) device: u32,
    /// Whether to reset the statistics.
    #[prost(bool, tag = "3")]
    pub(crate) clear: bool,
}

/// Asks for the costs or the memory statistics of an executable. [`Answer`] answers.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ExecutableQuery {
    #[prost(uint64, tag = "1")]
    pub(crate) ticket: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) handle: u64,
    /// Whether to return memory statistics instead of costs.
    #[prost(bool, tag = "3")]
    pub(crate) memory: bool,
}

/// Ends a run of this client with an error. [`Answer`] answers, with the value `poisoned` if the run was pending.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Poison {
    #[prost(uint64, tag = "1")]
    pub(crate) ticket: u64,
    #[prost(uint32, tag = "2")]
    pub(crate) device: u32,
    #[prost(int32, tag = "3")]
    pub(crate) launch_id: i32,
    #[prost(message, optional, tag = "4")]
    pub(crate) failure: Option<Failure>,
}

/// A message of the server after [`Welcome`].
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Reply {
    #[prost(oneof = "ReplyKind", tags = "1, 2, 3, 4, 5, 6")]
    pub(crate) kind: Option<ReplyKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum ReplyKind {
    #[prost(message, tag = "1")]
    Done(Done),
    #[prost(message, tag = "2")]
    Failed(Failed),
    #[prost(message, tag = "3")]
    Data(Data),
    #[prost(message, tag = "4")]
    Compiled(Compiled),
    #[prost(message, tag = "5")]
    Answer(Answer),
    #[prost(message, tag = "6")]
    Closing(Failure),
}

/// Operations that have ended without an error.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Done {
    #[prost(uint64, repeated, tag = "1")]
    pub(crate) tickets: Vec<u64>,
}

/// An operation that has ended with an error.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Failed {
    #[prost(uint64, tag = "1")]
    pub(crate) ticket: u64,
    #[prost(message, optional, tag = "2")]
    pub(crate) failure: Option<Failure>,
}

/// The contents of a buffer: the `bytes` bytes that follow the message, or that pass through the server's ring.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Data {
    #[prost(uint64, tag = "1")]
    pub(crate) ticket: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) bytes: u64,
    #[prost(bool, tag = "3")]
    pub(crate) in_ring: bool,
    /// Whether the ring is new. The descriptors of its memory and of its socket then come with the message.
    #[prost(bool, tag = "4")]
    pub(crate) new_ring: bool,
}

/// The properties of a compiled program. The `bytes` bytes that follow the message are the optimized program.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Compiled {
    #[prost(uint64, tag = "1")]
    pub(crate) ticket: u64,
    #[prost(string, tag = "2")]
    pub(crate) name: String,
    #[prost(message, repeated, tag = "3")]
    pub(crate) outputs: Vec<Shape>,
    /// Absent if the plugin does not report the parameters.
    #[prost(message, optional, tag = "4")]
    pub(crate) parameters: Option<Shapes>,
    #[prost(string, repeated, tag = "5")]
    pub(crate) output_memory_kinds: Vec<String>,
    #[prost(string, repeated, tag = "6")]
    pub(crate) parameter_memory_kinds: Vec<String>,
    #[prost(message, optional, tag = "7")]
    pub(crate) output_shardings: Option<Shardings>,
    #[prost(message, optional, tag = "8")]
    pub(crate) parameter_shardings: Option<Shardings>,
    #[prost(string, optional, tag = "9")]
    pub(crate) fingerprint: Option<String>,
    #[prost(int64, tag = "10")]
    pub(crate) size_of_generated_code: i64,
    /// Format of the optimized program, or empty if the plugin does not return one.
    #[prost(string, tag = "11")]
    pub(crate) format: String,
    #[prost(uint64, tag = "12")]
    pub(crate) bytes: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Shapes {
    #[prost(message, repeated, tag = "1")]
    pub(crate) shapes: Vec<Shape>,
}

/// Serialized `OpSharding` messages.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Shardings {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub(crate) shardings: Vec<Vec<u8>>,
}

/// The answer to a query. Statistics have the names of the fields of the C API.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Answer {
    #[prost(uint64, tag = "1")]
    pub(crate) ticket: u64,
    #[prost(message, repeated, tag = "2")]
    pub(crate) values: Vec<NamedValue>,
}

impl Request {
    fn of(kind: RequestKind) -> Self {
        Self { kind: Some(kind), released: Vec::new() }
    }
}

impl Reply {
    fn of(kind: ReplyKind) -> Self {
        Self { kind: Some(kind) }
    }
}

macro_rules! kinds {
    ($($message:ident { $($kind:ident),+ } $of:ident)+) => {
        $($(
            impl From<$kind> for $message {
                fn from(kind: $kind) -> Self {
                    Self::of($of::$kind(kind))
                }
            }
        )+)+
    };
}

kinds! {
    Request { Upload, Allocate, Read, Derive, Compile, Execute, DeviceQuery, ExecutableQuery, Poison } RequestKind
    Reply { Done, Failed, Data, Compiled, Answer } ReplyKind
}
