//! Changes the compile options of programs with several replicas if the framework launches the replicas one at a time.

use pjrt_types::CompileOptions;

use crate::core::{Call, CompiledProgram};

/// The platform name of XLA's CPU plugin.
const PLATFORM: &str = "cpu";
/// The format in which PyTorch/XLA sends programs.
const FORMAT: &str = "hlo";

/// Substrings of the names of ops that communicate between replicas, or that may return different results in different
/// replicas. `?` stands for the separator of words, which is `-` in HLO and `_` in StableHLO.
const COMMUNICATION: &[&[u8]] = &[
    b"all?gather",
    b"all?reduce",
    b"all?to?all",
    b"collective?broadcast",
    b"collective?permute",
    b"cross?replica",
    b"infeed",
    b"outfeed",
    b"partition?id",
    b"recv",
    b"reduce?scatter",
    b"replica?id",
    b"send",
];

/// Changes the compile options of a call so that the program runs on any single device, if its replicas do not
/// communicate.
///
/// `wanted` is the value of [`Compat::single_replica`](super::Compat::single_replica). If it is `Some(false)`, the
/// function does nothing. If it is `None`, the function only changes programs in PyTorch/XLA's format on the platform
/// of XLA's CPU plugin. Other frameworks launch all replicas in one call, which needs a program for several replicas.
pub(super) fn compile_for_one(call: &mut Call, wanted: Option<bool>) {
    if wanted == Some(false) {
        return;
    }
    let Some(program) = call.program() else { return };
    let Some(options) = options_for_one(&program) else { return };
    let is_pytorch = || {
        let client = call.address_of("client");
        program.format == FORMAT && call.plugin().platform_name(client).as_deref() == Some(PLATFORM)
    };
    if wanted == Some(true) || is_pytorch() {
        call.replace_compile_options(&options);
    }
}

/// Returns compile options that let a program with several replicas run on any single device. Returns `None` if the
/// options are invalid, or if the program has a single replica, is partitioned, or is already portable. Also returns
/// `None` if its replicas may communicate.
fn options_for_one(program: &CompiledProgram) -> Option<Vec<u8>> {
    let mut options = CompileOptions::decode(&program.options).ok()?;
    let is_replicated = options.num_replicas > 1 && options.num_partitions <= 1;
    if !is_replicated || options.compile_portable_executable || communicates(&program.code) {
        return None;
    }
    options.num_replicas = 1;
    options.device_assignment = None;
    options.compile_portable_executable = true;
    Some(options.encode())
}

/// Returns whether the replicas of a program may communicate. All formats contain the names of ops as plain text. The
/// result is also `true` if any other text in the program matches one of [`COMMUNICATION`]. The program then keeps its
/// options.
fn communicates(code: &[u8]) -> bool {
    COMMUNICATION.iter().any(|name| code.windows(name.len()).any(|text| matches(text, name)))
}

/// Returns whether `text` is equal to `name`, where `?` in `name` matches `-` and `_`. Both must have the same length.
fn matches(text: &[u8], name: &[u8]) -> bool {
    text.iter().zip(name).all(|(text, name)| text == name || *name == b'?' && matches!(text, b'-' | b'_'))
}

#[cfg(test)]
mod tests {
    use pjrt_types::DeviceAssignment;

    use super::*;

    fn program(code: &[u8], replicas: i64, partitions: i64) -> CompiledProgram {
        let mut options = CompileOptions::default().with_num_replicas(replicas).with_num_partitions(partitions);
        if (replicas, partitions) == (4, 1) {
            options.device_assignment = DeviceAssignment::new(4, 1, vec![0, 1, 2, 3]);
        }
        CompiledProgram { code: code.to_vec(), format: FORMAT.to_owned(), options: options.encode() }
    }

    #[test]
    fn independent_replicas_run_on_any_device() {
        let options = options_for_one(&program(b"\x0a\x03add\x12\x05dot.1", 4, 1));
        let options = CompileOptions::decode(&options.expect("the replicas are independent")).expect("valid options");
        assert_eq!((options.num_replicas, options.num_partitions), (1, 1));
        assert!(options.compile_portable_executable);
        assert_eq!(options.device_assignment, None);
    }

    #[test]
    fn others_keep_their_options() {
        assert_eq!(options_for_one(&program(b"add", 1, 1)), None);
        assert_eq!(options_for_one(&program(b"add", 1, 4)), None);
        for code in
            [&b"x all-reduce y"[..], b"vhlo.all_reduce_v1", b"collective-permute-start", b"stablehlo.replica_id"]
        {
            assert_eq!(options_for_one(&program(code, 4, 1)), None, "{}", String::from_utf8_lossy(code));
        }
        let invalid = CompiledProgram { options: vec![0xff], ..program(b"add", 4, 1) };
        assert_eq!(options_for_one(&invalid), None);
    }
}
