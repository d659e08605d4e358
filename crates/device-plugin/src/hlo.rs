//! Conversion of programs to HLO, XLA's own format, for frameworks that read programs back.
//!
//! Frameworks that send an `HloModuleProto` read the program back as an `HloModuleProtoWithConfig` and reject any other
//! format. The config must contain the shapes of the program's arguments and result, and the numbers of replicas and
//! partitions. The module also contains these shapes.

use std::borrow::Cow;

#[cfg(feature = "hlo")]
use crate::stablehlo::to_hlo;
use crate::{Error, Program, Result};

/// The formats of a [`Program`] that contains HLO.
const MODULE: &str = "hlo";
const MODULE_WITH_CONFIG: &str = "hlo_with_config";

/// Field numbers of `HloModuleProto`, `HloModuleProtoWithConfig` and `HloModuleConfigProto`.
const HOST_PROGRAM_SHAPE: u64 = 4;
const HLO_MODULE: u8 = 1;
const CONFIG: u8 = 2;
const ENTRY_COMPUTATION_LAYOUT: u8 = 1;
const REPLICA_COUNT: u8 = 4;
const NUM_PARTITIONS: u8 = 5;

/// Wire types of protobuf.
const VARINT: u8 = 0;
const LENGTH: u8 = 2;

/// Returns the program as a serialized `HloModuleProto`. Converts StableHLO if the crate's feature `hlo` is enabled.
/// Returns an error for other formats, and for a StableHLO program that is damaged or that HLO cannot express. Also
/// returns an error if a program of the format `hlo_with_config` contains no module. Does not check programs of the
/// format `hlo`.
pub(crate) fn module(program: &Program) -> Result<Cow<'_, [u8]>> {
    let unknown =
        || Error::unimplemented(format!("programs of format {:?} are not converted to HLO", program.format()));
    match program.format() {
        MODULE => Ok(Cow::Borrowed(program.code())),
        MODULE_WITH_CONFIG => field(program.code(), HLO_MODULE.into()).map(Cow::Borrowed).ok_or_else(unknown),
        #[cfg(feature = "hlo")]
        _ => {
            let written = to_hlo(program).ok_or_else(unknown)?;
            written.map(Cow::Owned).map_err(|error| Error::unimplemented(error.to_string()))
        }
        #[cfg(not(feature = "hlo"))]
        _ => Err(unknown()),
    }
}

/// Converts an `HloModuleProto` to an `HloModuleProtoWithConfig`. Returns `None` for programs of other formats, because
/// frameworks read them unchanged. Also returns `None` for a module that does not contain the shapes of the program's
/// arguments and result.
pub(crate) fn with_config(program: &Program, replicas: usize, partitions: usize) -> Option<Program> {
    if program.format() != MODULE {
        return None;
    }
    let shape = field(program.code(), HOST_PROGRAM_SHAPE)?;
    let mut config = Vec::new();
    message(&mut config, ENTRY_COMPUTATION_LAYOUT, shape);
    for (field, count) in [(REPLICA_COUNT, replicas), (NUM_PARTITIONS, partitions)] {
        config.push(field << 3 | VARINT);
        varint(&mut config, count);
    }
    let mut code = Vec::with_capacity(program.code().len() + config.len() + 24);
    message(&mut code, HLO_MODULE, program.code());
    message(&mut code, CONFIG, &config);
    Some(Program::new(MODULE_WITH_CONFIG, code))
}

/// Returns the content of field `number` of the serialized protobuf message `message`. The field itself holds a
/// message. Returns `None` if the field is missing, or if `message` is not a valid protobuf message.
fn field(message: &[u8], number: u64) -> Option<&[u8]> {
    let mut left = message;
    let mut found = None;
    while !left.is_empty() {
        let tag = read_varint(&mut left)?;
        let value = match tag & 7 {
            0 => {
                read_varint(&mut left)?;
                &[]
            }
            1 => take(&mut left, 8)?,
            2 => {
                let size = usize::try_from(read_varint(&mut left)?).ok()?;
                take(&mut left, size)?
            }
            5 => take(&mut left, 4)?,
            _ => return None,
        };
        if tag >> 3 == number && tag & 7 == u64::from(LENGTH) {
            found = Some(value);
        }
    }
    found
}

fn take<'a>(left: &mut &'a [u8], size: usize) -> Option<&'a [u8]> {
    let (taken, rest) = left.split_at_checked(size)?;
    *left = rest;
    Some(taken)
}

fn read_varint(left: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = *take(left, 1)?.first()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Appends a field that holds a message or a byte string.
pub(crate) fn message(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    out.push(field << 3 | LENGTH);
    varint(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// Appends an integer as a protobuf varint.
pub(crate) fn varint(out: &mut Vec<u8>, value: usize) {
    let mut left = value;
    while left >= 0x80 {
        let [low, ..] = left.to_le_bytes();
        out.push(low | 0x80);
        left >>= 7;
    }
    let [low, ..] = left.to_le_bytes();
    out.push(low);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module() -> Vec<u8> {
        let mut module = Vec::new();
        message(&mut module, 1, b"main");
        module.extend([6 << 3, 0xac, 0x02]);
        message(&mut module, 4, b"shape of the program");
        message(&mut module, 3, &[7; 300]);
        module
    }

    #[test]
    fn wraps_module_with_its_shape() {
        let module = Program::hlo(module());
        let wrapped = with_config(&module, 2, 300).unwrap();
        assert_eq!(wrapped.format(), "hlo_with_config");
        let mut config = Vec::new();
        message(&mut config, 1, b"shape of the program");
        config.extend([0x20, 2, 0x28, 0xac, 0x02]);
        let mut expected = Vec::new();
        message(&mut expected, 1, module.code());
        message(&mut expected, 2, &config);
        assert_eq!(*wrapped.code(), expected);
    }

    #[test]
    fn keeps_bytes_that_are_not_a_module() {
        let code = module();
        assert!(with_config(&Program::mlir(code.clone()), 1, 1).is_none());
        for cut in 0..code.len() {
            let cut = &code[..cut];
            // From a truncated module, `field` returns either the complete shape or nothing.
            if let Some(shape) = field(cut, HOST_PROGRAM_SHAPE) {
                assert_eq!(shape, b"shape of the program");
            }
        }
        assert!(with_config(&Program::hlo([0xff; 12]), 1, 1).is_none());
    }
}
