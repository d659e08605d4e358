//! The plugin behind the layers: how it is loaded, called and queried, and its errors.

pub(super) mod errors;
mod forwarded;
mod inside_plugin;
mod library;
mod queries;
mod query;
mod raw_call;

pub use forwarded::Plugin;

pub(crate) use library::{library_folder, load};
pub(crate) use queries::{BufferInfo, ClientInfo};

pub(super) use inside_plugin::{InsidePlugin, is_inside_plugin};
pub(super) use query::{ask, query};
pub(super) use raw_call::{destroy_error, send};
