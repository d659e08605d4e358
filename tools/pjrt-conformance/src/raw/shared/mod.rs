//! Operations on objects that several threads share. The operations call the plugin's functions directly, because
//! `pjrt` calls some functions for one object only one after the other.

mod buffers;
mod clients;
mod compilers;
mod devices;
mod executables;
mod extensions;
mod kind;
mod late;
mod objects;
mod topologies;

pub(crate) use buffers::{BUFFER, DELETED_BUFFER, REFERENCES};
pub(crate) use clients::CLIENT;
pub(crate) use compilers::COMPILER;
pub(crate) use devices::{DESCRIPTION, DEVICE, MEMORY};
pub(crate) use executables::{DELETED_EXECUTABLE, EXECUTABLE, LOADED_EXECUTABLE};
pub(crate) use extensions::{ABI_VERSIONS, CALLBACKS, LAYOUT, RAW_BUFFER};
pub(crate) use kind::{Answer, End, Kind, Operation, With, program};
pub(crate) use late::{BUFFER_ERROR, CONTEXT, LITERAL, METADATA, REGISTRY, STREAM, TRANSFER_MANAGER, USER_DATA};
pub(crate) use objects::{ERROR, EVENT, SET_EVENT};
pub(crate) use topologies::TOPOLOGY;
