//! Creates serialized executables in the formats of specific families of plugins.

use pjrt::{CompileOptions, Program};

/// A family of plugins that share a format of serialized executables.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Maker {
    /// Plugins that are built with the crate `device-plugin`.
    DevicePlugin,
    /// XLA's own plugins. Their format is a serialized `ExecutableAndOptionsProto`.
    Xla,
}

/// Serializes a program in the executable format of a plugin family. `platform` and `version` are the name and the
/// version of the platform for which the executable is compiled. XLA's format does not contain the version.
pub(crate) fn executable(maker: Maker, program: &Program, platform: &str, version: &str) -> Vec<u8> {
    let options = CompileOptions::default().encode();
    match maker {
        Maker::DevicePlugin => {
            let mut bytes = b"device-plugin executable 2\n".to_vec();
            let fields: [&[u8]; 5] =
                [platform.as_bytes(), version.as_bytes(), program.format().as_bytes(), program.code(), &options];
            for field in fields {
                bytes.extend((field.len() as u64).to_le_bytes());
                bytes.extend(field);
            }
            // The length of the compiled code is 0, because this executable contains only the program.
            bytes.extend(0u64.to_le_bytes());
            bytes.extend(checksum(&bytes).to_le_bytes());
            bytes
        }
        Maker::Xla => {
            let mut bytes = Vec::new();
            for (field, content) in [(1, &program.code()[..]), (2, &options[..]), (3, platform.as_bytes())] {
                // A tag of wire type 2 and the length precede the content of a field.
                varint(field << 3 | 2, &mut bytes);
                varint(content.len() as u64, &mut bytes);
                bytes.extend(content);
            }
            bytes
        }
    }
}

/// Computes the 64-bit FNV-1a hash.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// Appends an integer as a protobuf varint: seven bits per byte, the lowest bits first.
fn varint(mut number: u64, to: &mut Vec<u8>) {
    while number >= 0x80 {
        to.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    to.push(number.to_le_bytes()[0]);
}

#[cfg(test)]
mod tests {
    use pjrt::{ClientOptions, ErrorCode, Plugin};

    use super::{Maker, executable};

    /// The embedded CPU device is built with `device-plugin`. It must load an executable in this format if the
    /// executable is for its own platform, and reject it otherwise.
    #[test]
    fn own_platform_is_loaded_and_another_is_refused() {
        let client = Plugin::from_static(pjrt_cpu::Cpu::api()).unwrap().client(&ClientOptions::new()).unwrap();
        let program = crate::program::for_plugin(&crate::program::add_one(2), &client.plugin()).unwrap();
        let load = |platform: &str| {
            let bytes = executable(Maker::DevicePlugin, &program, platform, &client.platform_version().unwrap());
            // SAFETY: P2 (executables): the bytes contain a program, and no compiled code.
            unsafe { client.deserialize_and_load_unchecked(&bytes) }
        };
        let loaded = load(&client.platform_name().unwrap()).unwrap();
        let input = client.buffer_from_host(&[1.0f32, 2.0], &[2]).unwrap();
        assert_eq!(loaded.execute(&[&input]).unwrap()[0].to_host::<f32>().unwrap(), [2.0, 3.0]);
        assert_eq!(load("pjrt_conformance").unwrap_err().code(), ErrorCode::INVALID_ARGUMENT);
    }
}
