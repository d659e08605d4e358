//! Converts the arguments of calls to messages in a recording.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pjrt_record::{
    Arguments, ArrayType, BufferList, ClientCreate, Compile, Content, Copy, CreateBuffer, CreateManager, Deserialize,
    Download, Execute, Failure, Fulfill, Integers, Layout, MemoryLayout, NamedOption, Object, Retrieve, SetError,
    Tiled, Transfer, Upload, Value,
};
use pjrt_sys::{AbiStruct, PJRT_Client_Create_Args};
use pjrt_types::NamedValue;

use super::functions::Action;
use super::objects::Objects;
use crate::core::{BufferLayout, Call, HostData};

/// Converts the arguments of a call.
pub(super) struct Converter<'a> {
    pub(super) call: &'a Call,
    pub(super) objects: &'a Mutex<Objects>,
    /// Stores data in the recording, and returns a reference to the data.
    pub(super) store: &'a mut dyn FnMut(&[u8]) -> Content,
}

impl Converter<'_> {
    /// Returns the arguments of the call, and stores its data in the recording. Returns `None` if a replay cannot or
    /// need not repeat the call.
    pub(super) fn arguments(&mut self, action: Action) -> Option<Arguments> {
        Some(match action {
            Action::CreateClient => Arguments::ClientCreate(self.create_client()),
            Action::Destroy => Arguments::Destroy(Object { object: self.remove(self.subject()) }),
            Action::Delete => Arguments::Delete(Object { object: self.objects().number(self.subject()) }),
            Action::Compile => Arguments::Compile(self.compile()?),
            Action::Deserialize => Arguments::Deserialize(self.deserialize()?),
            Action::Upload => Arguments::Upload(self.upload()?),
            Action::CreateBuffer => Arguments::CreateBuffer(self.create_buffer()?),
            Action::CreateAlias => Arguments::CreateAlias(self.create_buffer()?),
            Action::Fulfill => Arguments::Fulfill(Fulfill {
                fulfillment: self.remove(self.call.address_of("fulfill_alias_buffer_cb")),
                buffer: self.number("buffer"),
                failure: self.failure("status_code"),
            }),
            Action::CreateManager => Arguments::CreateManager(self.create_manager()?),
            Action::TransferData => {
                let data = self.call.transferred_data()?;
                Arguments::Transfer(Transfer {
                    offset: self.integer("offset"),
                    last: self.integer("is_last_transfer") != 0,
                    data: Some((self.store)(&data)),
                    ..self.transfer()
                })
            }
            Action::TransferLiteral => {
                let literal = self.call.literal()?;
                Arguments::Transfer(Transfer {
                    last: true,
                    data: Some((self.store)(literal.elements.as_deref()?)),
                    array: Some(array(literal.element_type, literal.dimensions)),
                    ..self.transfer()
                })
            }
            Action::Retrieve => {
                Arguments::Retrieve(Retrieve { manager: self.number("transfer_manager"), index: self.index() })
            }
            Action::SetError => Arguments::SetError(SetError {
                manager: self.number("transfer_manager"),
                index: self.index(),
                failure: self.failure("error_code"),
            }),
            Action::Copy => Arguments::Copy(Copy {
                buffer: self.number("buffer"),
                device: self.device("dst_device"),
                memory: self.memory("dst_memory"),
            }),
            Action::Execute => Arguments::Execute(self.execute()?),
            Action::Download => Arguments::Download(self.download("src")?),
            Action::RawDownload => Arguments::RawDownload(self.download("buffer")?),
            Action::View | Action::Event | Action::DestroyEvent | Action::Skip => return None,
        })
    }

    fn create_client(&self) -> ClientCreate {
        let announced = self.call.announced();
        let minor = (0..1000).find(|minor| PJRT_Client_Create_Args::size_at(*minor) >= announced);
        ClientCreate {
            options: options(self.call.create_options()),
            framework_minor: minor.unwrap_or(0),
            key_value_store: self.call.address_of("kv_get_callback") != 0,
        }
    }

    fn compile(&mut self) -> Option<Compile> {
        let program = self.call.program()?;
        Some(Compile {
            client: self.number("client"),
            format: program.format,
            code: Some((self.store)(&program.code)),
            options: Some((self.store)(&program.options)),
        })
    }

    fn deserialize(&mut self) -> Option<Deserialize> {
        let (executable, options) = self.call.serialized_executable()?;
        Some(Deserialize {
            client: self.number("client"),
            executable: Some((self.store)(&executable)),
            options: (!options.is_empty()).then(|| (self.store)(&options)),
        })
    }

    fn upload(&mut self) -> Option<Upload> {
        let HostData { element_type, dimensions, byte_strides, elements } = self.call.host_data()?;
        Some(Upload {
            client: self.number("client"),
            array: Some(array(element_type, dimensions)),
            byte_strides,
            semantics: u32::try_from(self.integer("host_buffer_semantics")).unwrap_or(0),
            device: self.device("device"),
            memory: self.memory("memory"),
            layout: self.call.layout("device_layout").map(layout),
            data: Some((self.store)(&elements?)),
        })
    }

    fn create_buffer(&self) -> Option<CreateBuffer> {
        let (element_type, dimensions) = self.call.new_shape()?;
        Some(CreateBuffer {
            client: self.number("client"),
            array: Some(array(element_type, dimensions)),
            layout: self.call.layout("shape_layout").map(layout),
            device: self.device("device"),
            memory: self.memory("memory"),
            failure: self.failure("error_code"),
        })
    }

    fn create_manager(&self) -> Option<CreateManager> {
        let (shapes, layouts) = self.call.transfer_shapes()?;
        let layouts: Option<Vec<_>> = layouts.into_iter().map(|found| found.map(layout)).collect();
        Some(CreateManager {
            client: self.number("client"),
            arrays: shapes.into_iter().map(|(ty, dimensions)| array(ty, dimensions)).collect(),
            layouts: layouts.unwrap_or_default(),
            memory: self.memory("memory"),
        })
    }

    fn transfer(&self) -> Transfer {
        Transfer { manager: self.number("transfer_manager"), index: self.index(), ..Transfer::default() }
    }

    fn execute(&self) -> Option<Execute> {
        let run = self.call.execution()?;
        let objects = self.objects();
        let list = |buffers: Vec<usize>| BufferList {
            buffers: buffers.into_iter().map(|buffer| objects.number(buffer)).collect(),
        };
        let mut unsupported: Vec<String> = run.foreign_parts().into_iter().map(str::to_owned).collect();
        if objects.number(run.executable()) == 0 {
            unsupported.push("an executable whose program is not in the file".to_owned());
        }
        Some(Execute {
            executable: objects.number(run.executable()),
            arguments: run.argument_lists().into_iter().map(list).collect(),
            non_donatable: run.non_donatable(),
            launch_id: run.launch(),
            device: objects.device(run.device()),
            call_location: run.call_location(),
            options: options(run.custom_options()),
            unsupported,
            left_out: run.optional_parts().into_iter().map(str::to_owned).collect(),
        })
    }

    /// Converts the arguments of a download. Returns `None` if the call only queries the size of the data, or if the
    /// plugin does not describe the buffer.
    fn download(&self, source: &str) -> Option<Download> {
        let destination = self.call.destination()?;
        let buffer = self.call.address_of(source);
        let plugin = self.call.plugin();
        let info = plugin.buffer_info(buffer).ok()?;
        Some(Download {
            buffer: self.objects().number(buffer),
            array: Some(array(info.element_type, info.dimensions)),
            layout: self.call.layout("host_layout").or(info.layout).map(layout),
            offset: u64::try_from(self.integer("offset")).unwrap_or(0),
            size: destination.size as u64,
        })
    }

    fn failure(&self, code: &str) -> Option<Failure> {
        let code = u32::try_from(self.integer(code)).ok().filter(|code| *code != 0)?;
        let message = self.call.text("error_message", "error_message_size").unwrap_or_default();
        Some(Failure { code, message })
    }

    fn integer(&self, field: &str) -> i64 {
        self.call.function().field(field).map_or(0, |field| self.call.word(field).cast_signed())
    }

    fn index(&self) -> i32 {
        // The field has 32 bits, which are the lower half of the word.
        i32::try_from(self.integer("buffer_index") & 0x7fff_ffff).unwrap_or(0)
    }

    /// Returns the handle of the object that the call destroys or deletes.
    fn subject(&self) -> usize {
        self.call.function().subject().map_or(0, |field| self.call.address(field))
    }

    /// Removes an object that is about to be destroyed. Returns its number.
    fn remove(&self, handle: usize) -> u64 {
        self.objects().remove(handle)
    }

    fn number(&self, field: &str) -> u64 {
        self.objects().number(self.call.address_of(field))
    }

    fn device(&self, field: &str) -> Option<i32> {
        self.objects().device(self.call.address_of(field))
    }

    fn memory(&self, field: &str) -> Option<i32> {
        self.objects().memory(self.call.address_of(field))
    }

    fn objects(&self) -> MutexGuard<'_, Objects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn array(element_type: u32, dimensions: Vec<i64>) -> ArrayType {
    ArrayType { element_type, dimensions }
}

pub(super) fn layout(layout: BufferLayout) -> MemoryLayout {
    let layout = match layout {
        BufferLayout::Tiled { minor_to_major, tiles } => {
            let tiles = tiles.into_iter().map(|items| Integers { items }).collect();
            Layout::Tiled(Tiled { minor_to_major, tiles })
        }
        BufferLayout::Strides(items) => Layout::ByteStrides(Integers { items }),
    };
    MemoryLayout { layout: Some(layout) }
}

fn options(values: Vec<NamedValue>) -> Vec<NamedOption> {
    let value = |value: pjrt_types::Value| {
        Some(match value {
            pjrt_types::Value::String(text) => Value::String(text),
            pjrt_types::Value::Int64(number) => Value::Int64(number),
            pjrt_types::Value::Int64List(items) => Value::Int64List(Integers { items }),
            pjrt_types::Value::Float(number) => Value::Float(number),
            pjrt_types::Value::Bool(is_set) => Value::Bool(is_set),
            _ => return None,
        })
    };
    values.into_iter().map(|option| NamedOption { name: option.name, value: value(option.value) }).collect()
}
