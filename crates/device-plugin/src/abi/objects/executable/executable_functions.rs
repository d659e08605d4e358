//! The functions of `PJRT_Executable`, and `PJRT_Compile`.

use std::sync::Arc;

use bytes::Bytes;
use plugin_macros::entry;

use crate::abi::objects::client::handle::Client;
use crate::abi::objects::executable::handles::{Executable, Source};
use crate::abi::objects::executable::program::{read_program, write_program};
use crate::abi::objects::owned_arrays::{Blob, NamedValues, delete_blob};
use crate::abi::objects::topology::Topology;
use crate::abi::reclaim::refcount::Counted;
use crate::abi::table::ffi_read;
use crate::abi::table::handles::handles;
use crate::artifact;
use crate::features::FeatureCalls;
use crate::serialized_format::{Reader, Writer};
use crate::{Backend, DevicePlugin, Error, Program, Result};

handles! {
    PJRT_Executable => Executable<P::Backend>;
}

/// First bytes of a serialized executable. The digit is the version of the format.
const MAGIC: &[u8] = b"device-plugin executable 2\n";

/// Serializes the platform's name and version, the program as received, and its compile options. If the backend
/// serializes the compiled program, the result also contains this serialized form.
fn serialize<B: Backend>(executable: &Executable<B>) -> Result<Vec<u8>> {
    let native = B::serialize(&executable.compiled)?;
    let mut out = Writer::new(MAGIC);
    out.text(&executable.platform_name);
    out.text(&executable.platform_version);
    out.text(executable.program.format());
    out.bytes(executable.program.code());
    out.bytes(&executable.options);
    out.count(native.iter().len());
    if let Some(native) = native {
        out.bytes(&native);
    }
    Ok(out.finish())
}

#[entry(traced)]
unsafe fn PJRT_Compile<P: DevicePlugin>(args: &mut pjrt_sys::PJRT_Compile_Args, topology: &Topology) -> Result<()> {
    // SAFETY: V1 (argument structs) and V3 (arrays and text).
    let program = unsafe { read_program(args.program) }?;
    artifact::check(&program, P::stablehlo_versions())?;
    // SAFETY: V3 (arrays and text).
    let options =
        unsafe { ffi_read::slice(args.compile_options.cast::<u8>(), args.compile_options_size, "compile_options") }?;
    // SAFETY: V2 (handles) and V5 (opaque types).
    let client = unsafe { args.client.cast::<Counted<Client<P::Backend>>>().as_ref() };
    // If the topology belongs to the client, compile through the client, so that the program can run on the
    // client's devices.
    let executable = match client.filter(|client| std::ptr::eq(Arc::as_ptr(&client.topology), topology)) {
        Some(client) => Executable::compile(client, program, options)?,
        None => Executable::<P::Backend>::compile_for(topology, program, options)?,
    };
    args.executable = executable.into_raw();
    Ok(())
}

#[entry(destroys)]
unsafe fn PJRT_Executable_Destroy<P: DevicePlugin>(args: &mut pjrt_sys::PJRT_Executable_Destroy_Args) -> Result<()> {
    if !args.executable.is_null() {
        let executable = args.executable.cast_const().cast::<Executable<P::Backend>>();
        // SAFETY: V2 (handles): the handle came from `Executable::into_raw`, and the framework no longer uses it.
        drop(unsafe { Arc::from_raw(executable) });
    }
    Ok(())
}

#[entry]
unsafe fn PJRT_Executable_Name<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Executable_Name_Args,
    executable: &Executable<P::Backend>,
) -> Result<()> {
    args.executable_name = executable.info.name.as_ptr().cast();
    args.executable_name_size = executable.info.name.len();
    Ok(())
}

#[entry]
unsafe fn PJRT_Executable_NumReplicas<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Executable_NumReplicas_Args,
    executable: &Executable<P::Backend>,
) -> Result<()> {
    args.num_replicas = executable.assignment.num_replicas();
    Ok(())
}

#[entry]
unsafe fn PJRT_Executable_NumPartitions<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Executable_NumPartitions_Args,
    executable: &Executable<P::Backend>,
) -> Result<()> {
    args.num_partitions = executable.assignment.num_partitions();
    Ok(())
}

#[entry]
unsafe fn PJRT_Executable_NumOutputs<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Executable_NumOutputs_Args,
    executable: &Executable<P::Backend>,
) -> Result<()> {
    args.num_outputs = executable.info.outputs.len();
    Ok(())
}

#[entry]
unsafe fn PJRT_Executable_SizeOfGeneratedCodeInBytes<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Executable_SizeOfGeneratedCodeInBytes_Args,
    executable: &Executable<P::Backend>,
) -> Result<()> {
    args.size_in_bytes = executable.info.size_of_generated_code;
    Ok(())
}

#[entry]
unsafe fn PJRT_Executable_Fingerprint<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Executable_Fingerprint_Args,
    executable: &Executable<P::Backend>,
) -> Result<()> {
    args.executable_fingerprint = executable.fingerprint.as_ptr().cast();
    args.executable_fingerprint_size = executable.fingerprint.len();
    Ok(())
}

#[entry]
unsafe fn PJRT_Executable_GetCostAnalysis<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Executable_GetCostAnalysis_Args,
    executable: &Executable<P::Backend>,
) -> Result<()> {
    let cost = match executable.cost.get() {
        Some(cost) => cost,
        None => {
            // Compute the costs before `get_or_init`, because vendor code must not run within the cell's lock.
            let cost = P::Backend::cost_analysis(&executable.compiled).map(NamedValues::new);
            executable.cost.get_or_init(|| cost)
        }
    };
    let cost = cost.as_ref().map_err(Clone::clone)?;
    args.properties = cost.raw().as_ptr();
    args.num_properties = cost.raw().len();
    Ok(())
}

#[entry]
unsafe fn PJRT_Executable_OutputMemoryKinds<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Executable_OutputMemoryKinds_Args,
    executable: &Executable<P::Backend>,
) -> Result<()> {
    args.num_outputs = executable.output_kinds.len();
    args.memory_kinds = executable.output_kinds.pointers();
    args.memory_kind_sizes = executable.output_kinds.sizes();
    Ok(())
}

#[entry]
unsafe fn PJRT_Executable_ParameterMemoryKinds<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Executable_ParameterMemoryKinds_Args,
    executable: &Executable<P::Backend>,
) -> Result<()> {
    args.num_parameters = executable.parameter_kinds.len();
    args.memory_kinds = executable.parameter_kinds.pointers();
    args.memory_kind_sizes = executable.parameter_kinds.sizes();
    Ok(())
}

#[entry]
unsafe fn PJRT_Executable_OutputElementTypes<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Executable_OutputElementTypes_Args,
    executable: &Executable<P::Backend>,
) -> Result<()> {
    args.output_types = executable.output_types.as_ptr().cast_mut();
    args.num_output_types = executable.output_types.len();
    Ok(())
}

#[entry]
unsafe fn PJRT_Executable_OutputDimensions<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Executable_OutputDimensions_Args,
    executable: &Executable<P::Backend>,
) -> Result<()> {
    args.num_outputs = executable.output_ranks.len();
    args.dims = executable.output_dims.as_ptr();
    args.dim_sizes = executable.output_ranks.as_ptr();
    Ok(())
}

#[entry]
unsafe fn PJRT_Executable_OptimizedProgram<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Executable_OptimizedProgram_Args,
    executable: &Executable<P::Backend>,
) -> Result<()> {
    write_program(args.program, executable.readable_program())
}

#[entry]
unsafe fn PJRT_Executable_GetCompiledMemoryStats<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Executable_GetCompiledMemoryStats_Args,
    executable: &Executable<P::Backend>,
) -> Result<()> {
    let stats = P::Backend::compiled_memory_stats(&executable.compiled, &executable.info)?;
    args.generated_code_size_in_bytes = stats.generated_code_size;
    args.argument_size_in_bytes = stats.argument_size;
    args.output_size_in_bytes = stats.output_size;
    args.alias_size_in_bytes = stats.alias_size;
    args.temp_size_in_bytes = stats.temp_size;
    args.host_generated_code_size_in_bytes = stats.host_generated_code_size;
    args.host_argument_size_in_bytes = stats.host_argument_size;
    args.host_output_size_in_bytes = stats.host_output_size;
    args.host_alias_size_in_bytes = stats.host_alias_size;
    args.host_temp_size_in_bytes = stats.host_temp_size;
    args.peak_memory_in_bytes = stats.peak_memory;
    let device = [stats.output_size, stats.temp_size, stats.alias_size.saturating_neg()];
    let total = device.into_iter().fold(stats.argument_size, i64::saturating_add);
    args.total_size_in_bytes = if stats.total_size == 0 { total } else { stats.total_size };
    let or = |reported: i64, computed: i64| if reported == 0 { computed } else { reported };
    args.total_allocation_bytes = or(stats.total_allocation_size, args.total_size_in_bytes);
    args.indefinite_allocations = stats.indefinite_allocation_size;
    args.peak_unpadded_heap_bytes = or(stats.peak_unpadded_heap, stats.peak_memory);
    Ok(())
}

#[entry]
unsafe fn PJRT_Executable_GetCompileOptions<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Executable_GetCompileOptions_Args,
    executable: &Executable<P::Backend>,
) -> Result<()> {
    let blob = Blob::new(executable.options.clone());
    args.serialized_bytes = blob.bytes;
    args.serialized_bytes_size = blob.size;
    args.serialized_compile_options = blob.owner.cast();
    args.serialized_compile_options_deleter = Some(delete_blob);
    Ok(())
}

#[entry]
unsafe fn PJRT_Executable_Serialize<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Executable_Serialize_Args,
    executable: &Executable<P::Backend>,
) -> Result<()> {
    let blob = Blob::new(serialize(executable)?);
    args.serialized_bytes = blob.bytes;
    args.serialized_bytes_size = blob.size;
    args.serialized_executable = blob.owner.cast();
    args.serialized_executable_deleter = Some(delete_blob);
    Ok(())
}

#[entry(traced)]
unsafe fn PJRT_Executable_DeserializeAndLoad<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Executable_DeserializeAndLoad_Args,
    client: &Counted<Client<P::Backend>>,
) -> Result<()> {
    // SAFETY: V3 (arrays and text).
    let bytes = unsafe {
        ffi_read::slice(
            args.serialized_executable.cast::<u8>(),
            args.serialized_executable_size,
            "serialized_executable",
        )
    }?;
    // SAFETY: V3 (arrays and text).
    let overridden = unsafe {
        ffi_read::slice(
            args.overridden_serialized_compile_options.cast::<u8>(),
            args.overridden_serialized_compile_options_size,
            "overridden_serialized_compile_options",
        )
    }?;
    let mut from = Reader::new(bytes, MAGIC, "an executable")?;
    let platform = (from.text()?, from.text()?);
    let program = Program::from_bytes(from.text()?, Bytes::copy_from_slice(from.bytes()?));
    let stored = from.bytes()?;
    let native = match from.count()? {
        0 => None,
        _ => Some(from.bytes()?),
    };
    from.finish()?;
    if platform.0 != client.topology.platform_name {
        return Err(Error::argument(format!(
            "the executable was serialized on the platform {:?}, but this platform is {:?}",
            platform.0, client.topology.platform_name
        )));
    }
    let options = if overridden.is_empty() { stored } else { overridden };
    // If the platform's version differs from the stored version, ignore the compiled form and compile the program
    // again.
    let native = native.filter(|_| platform.1 == client.topology.platform_version);
    let executable = match native {
        None => Executable::compile(client, program, options)?,
        Some(native) => {
            let source = Source::new(&client.topology, program, options, true)?;
            let compiled = client.backend.deserialize_and_load(native, &source.parsed)?;
            Executable::new(&client.topology, Some(client.share()), compiled, source)?
        }
    };
    args.loaded_executable = executable.load(client)?;
    Ok(())
}
