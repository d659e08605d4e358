//! The objects behind executable handles: the compiled program, and the properties that frameworks query.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use pjrt_sys::{PJRT_Buffer_Type, PJRT_Device, PJRT_Executable, PJRT_LoadedExecutable, PJRT_LogicalDeviceIds};

use crate::abi::objects::client::handle::Client;
use crate::abi::objects::memory_layout::LayoutList;
use crate::abi::objects::owned_arrays::{NamedValues, Pointers, Texts};
use crate::abi::objects::topology::Topology;
use crate::abi::reclaim::refcount::{Counted, Ref};
use crate::array_layout::ArrayLayout;
use crate::features::FeatureCalls;
use crate::hlo;
use crate::profiler::LastProfile;
use crate::{
    Backend, CompileOptions, Compiled, DeviceAssignment, Error, ExecutableInfo, Layout, Placement, Program, Result,
    Shape,
};

/// The reference-counted object behind a `PJRT_Executable*`: a compiled program. Its devices may be absent.
pub(crate) struct Executable<B: Backend> {
    /// The client that compiled the program, or `None` if it was compiled for a topology.
    pub(crate) client: Option<Ref<Client<B>>>,
    pub(crate) platform_name: String,
    pub(crate) platform_version: String,
    pub(crate) compiled: Arc<B::Executable>,
    pub(crate) info: ExecutableInfo,
    pub(crate) program: Program,
    /// The serialized compile options as received. They keep fields that this SDK does not use, because frameworks read
    /// the options back.
    pub(crate) options: Vec<u8>,
    pub(crate) assignment: DeviceAssignment,
    /// Whether the framework may launch the program on any device (`compile_portable_executable`).
    portable: bool,
    /// For each parameter, whether an execution donates its argument.
    donated: Vec<bool>,
    pub(crate) fingerprint: String,
    pub(crate) output_types: Vec<PJRT_Buffer_Type>,
    pub(crate) output_dims: Vec<i64>,
    pub(crate) output_ranks: Vec<usize>,
    pub(crate) output_kinds: Texts,
    pub(crate) parameter_kinds: Texts,
    pub(crate) output_shardings: Option<Texts>,
    pub(crate) parameter_shardings: Option<Texts>,
    pub(crate) output_layout_list: LayoutList,
    pub(crate) parameter_layout_list: LayoutList,
    parameter_layouts: Vec<ArrayLayout>,
    output_layouts: Vec<ArrayLayout>,
    pub(crate) cost: OnceLock<Result<NamedValues>>,
    /// The program that frameworks read, with the module configuration that they expect. `None` inside the cell if the
    /// program needs no change.
    readable: OnceLock<Option<Program>>,
    pub(crate) last_profile: LastProfile,
}

/// The reference-counted object behind a `PJRT_LoadedExecutable*`: a program on the devices of a client. Deferred
/// launches keep it alive.
pub(crate) struct LoadedExecutable<B: Backend> {
    pub(crate) executable: Arc<Executable<B>>,
    pub(crate) client: Ref<Client<B>>,
    pub(crate) compiled: Arc<B::Executable>,
    pub(crate) assignment: DeviceAssignment,
    pub(crate) portable: bool,
    /// Indices of the addressable devices of the device assignment, in the order of the assignment. Empty if all its
    /// devices belong to other processes.
    pub(crate) devices: Vec<usize>,
    pub(crate) device_handles: Pointers<PJRT_Device>,
    pub(crate) logical_ids: Vec<PJRT_LogicalDeviceIds>,
    pub(crate) parameter_layouts: Vec<ArrayLayout>,
    pub(crate) output_layouts: Vec<ArrayLayout>,
    /// For each parameter, whether an execution donates its argument. Empty if no argument is donated.
    pub(crate) donated: Vec<bool>,
    /// For each of `devices`, the placements of the outputs.
    pub(crate) placements: Vec<Vec<Placement>>,
    deleted: AtomicBool,
}

/// A program and the options for compiling it.
pub(crate) struct Source {
    pub(crate) program: Program,
    pub(crate) options: Vec<u8>,
    pub(crate) parsed: CompileOptions,
    pub(crate) assignment: DeviceAssignment,
}

impl Source {
    /// # Errors
    ///
    /// Returns an error if the options cannot be decoded or contradict the devices.
    pub(crate) fn new(topology: &Topology, program: Program, options: &[u8], present: bool) -> Result<Self> {
        let parsed = parse_options(options)?;
        let assignment = assign(topology, &parsed, present)?;
        Ok(Self { program, options: options.to_vec(), parsed, assignment })
    }
}

impl<B: Backend> Executable<B> {
    /// Compiles a program for the devices of a client.
    pub(crate) fn compile(client: &Counted<Client<B>>, program: Program, options: &[u8]) -> Result<Arc<Self>> {
        let source = Source::new(&client.topology, program, options, true)?;
        if let Some(schema) = B::compile_options() {
            schema.check(&source.parsed)?;
        }
        let compiled = client.backend.compile(&source.program, &source.parsed)?;
        Self::new(&client.topology, Some(client.share()), compiled, source)
    }

    /// Compiles a program for devices that need not be present.
    pub(crate) fn compile_for(topology: &Topology, program: Program, options: &[u8]) -> Result<Arc<Self>> {
        let source = Source::new(topology, program, options, false)?;
        if let Some(schema) = B::compile_options() {
            schema.check(&source.parsed)?;
        }
        let compiled = B::compile_for(&topology.info, &source.program, &source.parsed)?;
        Self::new(topology, None, compiled, source)
    }

    pub(crate) fn new(
        topology: &Topology,
        client: Option<Ref<Client<B>>>,
        compiled: Compiled<B::Executable>,
        source: Source,
    ) -> Result<Arc<Self>> {
        let Compiled { executable, info } = compiled;
        let Source { program, options, parsed, assignment } = source;
        let mut donated = vec![false; info.parameters.len()];
        for index in &info.donated {
            let slot = donated.get_mut(*index);
            *slot.ok_or_else(|| broken(format!("the donated parameter {index} does not exist")))? = true;
        }
        // Frameworks do not check extents, and end the process if an extent is invalid.
        let mut shapes = info.parameters.iter().chain(&info.outputs);
        if let Some(shape) = shapes.find(|shape| shape.host_size().is_none()) {
            return Err(broken(format!("{shape} has negative extents or exceeds the address space")));
        }
        let ids = assignment.devices();
        if let Some(twice) = (1..ids.len()).find(|at| ids[..*at].contains(&ids[*at])) {
            return Err(Error::invalid_argument(format!("the device assignment names device {} twice", ids[twice])));
        }
        let indices = ids.iter().map(|id| topology.device_of_id(*id)).collect::<Result<Vec<_>>>()?;
        // The memories of devices of other processes are unknown. Use an addressable device instead, because its
        // memories have the same kinds.
        let is_known = |index: &usize| client.is_none() || topology.descriptions[*index].info.addressable;
        let device = indices.into_iter().find(is_known).or_else(|| (0..topology.descriptions.len()).find(is_known));
        let device = device.ok_or_else(|| Error::invalid_argument("this process has no addressable device"))?;
        let output_kinds = kinds(topology, device, &info.output_memory_kinds, info.outputs.len(), "output")?;
        let parameter_kinds =
            kinds(topology, device, &info.parameter_memory_kinds, info.parameters.len(), "parameter")?;
        let output_layouts = array_layouts::<B>(topology, &info.outputs, &info.output_layouts, "output")?;
        let parameter_layouts = array_layouts::<B>(topology, &info.parameters, &info.parameter_layouts, "parameter")?;
        let shardings = |given: &Option<Vec<Vec<u8>>>, expected: usize, what: &str| match given {
            // XLA also assigns a sharding to the empty tuple of a program without outputs, and XLA's clients expect
            // this sharding.
            Some(given) if given.len() != expected && (given.len(), expected) != (1, 0) => {
                Err(broken(format!("it returned {} shardings for {expected} {what}s", given.len())))
            }
            given => Ok(given.as_ref().map(|texts| Texts::new(texts.iter().cloned()))),
        };
        Ok(Arc::new(Self {
            fingerprint: info.fingerprint.clone().unwrap_or_else(|| fingerprint(topology, &program, &options)),
            output_types: info.outputs.iter().map(|shape| PJRT_Buffer_Type(shape.element_type.as_raw())).collect(),
            output_dims: info.outputs.iter().flat_map(|shape| &shape.dimensions).copied().collect(),
            output_ranks: info.outputs.iter().map(|shape| shape.dimensions.len()).collect(),
            output_kinds: Texts::new(output_kinds),
            parameter_kinds: Texts::new(parameter_kinds),
            output_shardings: shardings(&info.output_shardings, info.outputs.len(), "output")?,
            parameter_shardings: shardings(&info.parameter_shardings, info.parameters.len(), "parameter")?,
            output_layout_list: LayoutList::new(&output_layouts),
            parameter_layout_list: LayoutList::new(&parameter_layouts),
            output_layouts,
            parameter_layouts,
            cost: OnceLock::new(),
            readable: OnceLock::new(),
            last_profile: LastProfile::default(),
            client,
            platform_name: topology.platform_name.clone(),
            platform_version: topology.platform_version.clone(),
            compiled: Arc::new(executable),
            portable: parsed.compile_portable_executable,
            info,
            program,
            options,
            assignment,
            donated,
        }))
    }

    /// Returns the program that frameworks read back: the optimized program of the backend, or else the program as
    /// received.
    pub(crate) fn readable_program(&self) -> &Program {
        let program = self.info.optimized_program.as_ref().unwrap_or(&self.program);
        let counts = (self.assignment.num_replicas(), self.assignment.num_partitions());
        self.readable.get_or_init(|| hlo::with_config(program, counts.0, counts.1)).as_ref().unwrap_or(program)
    }

    /// Converts the executable to a handle that the framework owns and destroys.
    pub(crate) fn into_raw(self: Arc<Self>) -> *mut PJRT_Executable {
        Arc::into_raw(self).cast_mut().cast()
    }

    /// Loads the program on the devices of a client. Returns a handle that the framework owns and destroys.
    pub(crate) fn load(self: Arc<Self>, client: &Counted<Client<B>>) -> Result<*mut PJRT_LoadedExecutable> {
        Ok(Arc::into_raw(Arc::new(LoadedExecutable::new(self, client)?)).cast_mut().cast())
    }
}

impl<B: Backend> LoadedExecutable<B> {
    fn new(executable: Arc<Executable<B>>, client: &Counted<Client<B>>) -> Result<Self> {
        let topology = &client.topology;
        let (compiled, assignment) = match &executable.client {
            Some(own) if own.is(client) => (Arc::clone(&executable.compiled), executable.assignment.clone()),
            Some(_) => {
                return Err(Error::argument(
                    "the executable was compiled by another client; serialize it and load it with this client",
                ));
            }
            None => {
                if executable.platform_name != topology.platform_name {
                    return Err(Error::argument(format!(
                        "the executable was compiled for the platform {:?}, but this platform is {:?}",
                        executable.platform_name, topology.platform_name
                    )));
                }
                // Use the devices that the framework chose. If the framework chose no devices, assign devices that are
                // present.
                let assignment = assign(topology, &parse_options(&executable.options)?, true)?;
                (client.backend.load_executable(&executable.compiled)?, assignment)
            }
        };
        let (mut devices, mut logical_ids) = (Vec::new(), Vec::new());
        for replica in 0..assignment.num_replicas() {
            for partition in 0..assignment.num_partitions() {
                let id = assignment.device(replica, partition).unwrap_or(-1);
                let device = topology.device_of_id(id)?;
                if topology.descriptions[device].info.addressable {
                    devices.push(device);
                    let logical = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
                    logical_ids
                        .push(PJRT_LogicalDeviceIds { replica: logical(replica), partition: logical(partition) });
                }
            }
        }
        let info = &executable.info;
        let place = |device: &usize| place(client, *device, info);
        let all = client.device_handles.as_slice();
        Ok(Self {
            placements: devices.iter().map(place).collect::<Result<_>>()?,
            device_handles: devices.iter().map(|device| all[*device]).collect(),
            client: client.share(),
            compiled,
            assignment,
            portable: executable.portable,
            devices,
            logical_ids,
            parameter_layouts: executable.parameter_layouts.clone(),
            output_layouts: executable.output_layouts.clone(),
            donated: if executable.donated.contains(&true) { executable.donated.clone() } else { Vec::new() },
            executable,
            deleted: AtomicBool::new(false),
        })
    }

    /// Returns the placements of the outputs of a launch on `device`.
    #[inline]
    pub(crate) fn placements_on(&self, device: usize) -> Result<std::borrow::Cow<'_, [Placement]>> {
        if let Some(at) = self.devices.iter().position(|assigned| *assigned == device) {
            return Ok(self.placements[at].as_slice().into());
        }
        place(&self.client, device, &self.executable.info).map(Into::into)
    }

    pub(crate) fn delete(&self) {
        self.deleted.store(true, Ordering::Release);
    }

    #[inline]
    pub(crate) fn is_deleted(&self) -> bool {
        self.deleted.load(Ordering::Acquire)
    }
}

fn broken(what: String) -> Error {
    Error::internal(format!("the backend returned contradictory values: {what}"))
}

/// Decodes serialized compile options.
pub(crate) fn parse_options(options: &[u8]) -> Result<CompileOptions> {
    CompileOptions::decode(options).map_err(|error| Error::argument(error.to_string()))
}

/// Returns the device assignment that the options contain. If they contain none, a program with one replica and one
/// partition is assigned to the device whose id is the `device_ordinal` of the options, if it is set. In all other
/// cases, assigns the first devices of the topology or, if `present` is true, its first addressable devices.
pub(crate) fn assign(topology: &Topology, options: &CompileOptions, present: bool) -> Result<DeviceAssignment> {
    let known = topology.descriptions.len();
    let count = |n: i64, what: &str| {
        let count = usize::try_from(n).ok().filter(|n| *n <= known);
        count.ok_or_else(|| {
            Error::invalid_argument(format!("the program needs {n} {what}, but there are {known} devices"))
        })
    };
    let replicas = count(options.num_replicas, "replicas")?;
    let partitions = count(options.num_partitions, "partitions")?;
    if let Some(assignment) = &options.device_assignment {
        if (assignment.num_replicas(), assignment.num_partitions()) != (replicas, partitions) {
            return Err(Error::invalid_argument(format!(
                "the device assignment has {} replicas of {} partitions, but the compile options have {replicas} of \
                 {partitions}",
                assignment.num_replicas(),
                assignment.num_partitions(),
            )));
        }
        return Ok(assignment.clone());
    }
    if options.device_ordinal >= 0 && replicas == 1 && partitions == 1 {
        topology.device_of_id(options.device_ordinal)?;
        return Ok(one(options.device_ordinal));
    }
    default_assignment(topology, replicas, partitions, present)
}

fn one(device: i64) -> DeviceAssignment {
    // One replica and one partition need one device, so the constructor does not fail.
    DeviceAssignment::new(1, 1, vec![device]).unwrap_or_else(|| unreachable!("one device is one device"))
}

/// Assigns the first devices of the topology in replica-major order. If `present` is true, assigns only addressable
/// devices.
pub(crate) fn default_assignment(
    topology: &Topology,
    replicas: usize,
    partitions: usize,
    present: bool,
) -> Result<DeviceAssignment> {
    let usable = topology.descriptions.iter().filter(|device| !present || device.info.addressable);
    let count = replicas.saturating_mul(partitions);
    let ids: Vec<i64> = usable.map(|device| device.info.id.into()).take(count).collect();
    let found = ids.len();
    DeviceAssignment::new(replicas, partitions, ids).ok_or_else(|| {
        let which = if present { "are addressable" } else { "are in the topology" };
        Error::invalid_argument(format!(
            "{replicas} replicas of {partitions} partitions need {count} devices, but only {found} {which}"
        ))
    })
}

/// Returns the memory kinds of the `expected` outputs or parameters. An empty name or an empty list in `given` selects
/// the kind of the default memory of `device`.
fn kinds(topology: &Topology, device: usize, given: &[String], expected: usize, what: &str) -> Result<Vec<String>> {
    if !given.is_empty() && given.len() != expected {
        return Err(broken(format!("it returned {} memory kinds for {expected} {what}s", given.len())));
    }
    let default = topology.default_kind(device)?;
    let kind = |at| given.get(at).map(String::as_str).filter(|kind| !kind.is_empty()).unwrap_or(default).to_owned();
    Ok((0..expected).map(kind).collect())
}

/// Returns the device layout of each array in `shapes`. If `layouts` is empty, every array has the default layout of
/// its shape.
fn array_layouts<B: Backend>(
    topology: &Topology,
    shapes: &[Shape],
    layouts: &[Layout],
    what: &str,
) -> Result<Vec<ArrayLayout>> {
    if layouts.is_empty() {
        return shapes.iter().map(|shape| ArrayLayout::new::<B>(&topology.info, shape)).collect();
    }
    if layouts.len() != shapes.len() {
        return Err(broken(format!("it returned {} layouts for {} {what}s", layouts.len(), shapes.len())));
    }
    let layouts = shapes.iter().zip(layouts).map(|(shape, layout)| ArrayLayout::with_layout(shape, layout.clone()));
    layouts.collect::<Result<_>>().map_err(|error| broken(error.message().to_owned()))
}

/// Returns the placements of the outputs of a launch on `device`.
fn place<B: Backend>(client: &Client<B>, device: usize, info: &ExecutableInfo) -> Result<Vec<Placement>> {
    let kinds = kinds(&client.topology, device, &info.output_memory_kinds, info.outputs.len(), "output")?;
    kinds.iter().map(|kind| client.placement_of_kind(device, kind)).collect()
}

/// Returns a hash of all inputs of a compilation: the platform, the program and the options.
fn fingerprint(topology: &Topology, program: &Program, options: &[u8]) -> String {
    let hash = |seed: u64| {
        let mut hasher = DefaultHasher::new();
        seed.hash(&mut hasher);
        (&topology.platform_name, &topology.platform_version).hash(&mut hasher);
        (program.format(), &program.code()[..], options).hash(&mut hasher);
        hasher.finish()
    };
    format!("{:016x}{:016x}", hash(0), hash(1))
}
