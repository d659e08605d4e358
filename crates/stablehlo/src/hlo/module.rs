//! Converts the message `HloModuleProto` to a [`Module`].

use bytes::Bytes;

use super::proto::{self, decode};
use super::{computation, shape};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{Attribute, ElementType, Module};

/// Reads a serialized `HloModuleProto`.
pub(crate) fn parse(program: Bytes) -> Result<Module> {
    read(program, None)
}

/// Reads a serialized `HloModuleProtoWithConfig`.
pub(crate) fn parse_with_config(program: Bytes) -> Result<Module> {
    let whole: proto::ModuleWithConfig = decode(program)?;
    let Some(module) = whole.module else {
        return Err(Error::new(ErrorKind::Encoding, "the program does not contain an HLO module"));
    };
    read(module, whole.config)
}

fn read(program: Bytes, config: Option<proto::Config>) -> Result<Module> {
    let size = program.len();
    let mut source: proto::Module = decode(program)?;
    let config = config.unwrap_or_default();
    config.entry_computation_layout.iter().try_for_each(default_layouts)?;
    let mut reader = computation::Reader::new(std::mem::take(&mut source.computations), size)?;
    let funcs = reader.funcs(&source)?;
    let mut module = Module { name: Some(source.name), funcs, locations: reader.locations.into(), ..Module::default() };
    for (name, count) in [("mhlo.num_partitions", config.num_partitions), ("mhlo.num_replicas", config.replica_count)] {
        if count > 0 {
            module.attributes.push((name.to_owned(), Attribute::Integer(count, ElementType::I32)));
        }
    }
    module.attributes.extend(computation::frontend(source.frontend_attributes));
    Ok(module)
}

/// Returns an error if the entry layout of a config is not the default layout. Compiled programs take and return
/// buffers in the default layout. A config's layouts are binding. Without a config, a module's layouts are only hints,
/// which PJRT clients override.
fn default_layouts(of: &proto::ProgramShape) -> Result<()> {
    fn check(shape: &proto::Shape, what: &str) -> Result<()> {
        if let Some(order) = shape::permuted(shape) {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format_args!(
                    "{what} has the layout {order:?}; the reader supports only the default layout, with dimensions in descending order"
                ),
            ));
        }
        shape.tuple_shapes.iter().try_for_each(|part| check(part, what))
    }
    for (number, shape) in of.parameters.iter().enumerate() {
        check(shape, &format!("parameter {number}"))?;
    }
    of.result.iter().try_for_each(|shape| check(shape, "the result"))
}
