//! Checks each call against the rules.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use pjrt_sys::slot;
use pjrt_types::{ElementType, Shape};

use super::arguments::Checks;
use super::objects::{Key, Object, Objects};
use super::places::{Places, is_place};
use super::reports::{Report, Reports};
use super::rules::{self, Rule};
use super::waits::Waits;
use crate::core::{Call, Execution, thread_id};
use crate::function::{Field, Function, Kind};
use crate::generated::FUNCTIONS;
use crate::layer::{Layer, Outcome, Step};

const BUFFER: &str = "PJRT_Buffer";
const CLIENT: &str = "PJRT_Client";
const EVENT: &str = "PJRT_Event";
const LOADED: &str = "PJRT_LoadedExecutable";

/// The layer `validate`. It checks every call against [`RULES`](super::RULES), and reports calls that break a rule. The
/// layer does not stop these calls.
#[derive(Debug)]
pub struct Validate {
    objects: Objects,
    reports: Reports,
    /// For each function, the arguments that the layer checks.
    plans: Vec<Plan>,
    /// Properties of the loaded executables, by their handles.
    executables: RwLock<HashMap<usize, Arc<Executable>>>,
    places: Places,
    waits: Waits,
    /// How long a thread may wait for an event before the layer writes a graph of the waiting threads. `None` disables
    /// these graphs.
    wait_limit: Option<Duration>,
}

/// The properties that the plugin reports about a loaded executable.
#[derive(Debug, Default)]
struct Executable {
    outputs: usize,
    /// The handles of the executable's addressable devices. Empty if they are unknown.
    devices: Vec<usize>,
    /// The shapes of the parameters on each device. An element is `None` if the shape is unknown. The field is `None`
    /// if the number of parameters is unknown, or if the only parameter is a tuple.
    parameters: Option<Vec<Option<Shape>>>,
}

/// The arguments that the layer reads in calls of one function.
#[derive(Debug)]
struct Plan {
    inputs: Vec<(&'static str, &'static Field)>,
    outputs: Vec<(&'static str, &'static Field)>,
    destroys: Option<&'static str>,
    /// The object argument that must not be null.
    subject: Option<&'static Field>,
    /// The arguments that are devices or memories.
    places: Vec<&'static Field>,
    checks: Checks,
    /// Whether the function waits for its event argument, queries the event's state, or registers a callback.
    observes: bool,
    /// Whether a callback may destroy objects of the call while the function runs.
    may_lose_objects: bool,
}

impl Validate {
    /// Creates the layer.
    #[must_use]
    pub fn new(reports: Reports) -> Self {
        let plans = FUNCTIONS.iter().map(|function| Plan::new(function, &owned())).collect();
        Self {
            objects: Objects::new(),
            reports,
            plans,
            executables: RwLock::default(),
            places: Places::default(),
            waits: Waits::default(),
            wait_limit: None,
        }
    }

    /// Makes the layer write a graph of the waiting threads when a thread waits for longer than `limit`. `None`
    /// disables this.
    #[must_use]
    pub fn with_wait_limit(mut self, limit: Option<Duration>) -> Self {
        self.wait_limit = limit;
        self
    }

    /// Describes the threads that wait for events, and the runs that produce the events. The string is empty if no
    /// thread waits.
    #[must_use]
    pub fn waits(&self) -> String {
        self.waits.graph()
    }

    fn report(&self, rule: &'static Rule, call: &Call, what: String, object: Option<&Object>) {
        let last_calls = object.map(Object::last_calls).unwrap_or_default();
        self.reports.add(Report { rule, function: call.function().name, what, last_calls });
    }

    /// Checks an object that a call uses. Returns the record of the object before the call, or `None` if the layer has
    /// no record of the object.
    fn check(&self, call: &Call, name: &str, key: Key) -> Option<Object> {
        let (kind, address) = key;
        let known = self.objects.with(key, |object| {
            let before = *object;
            object.called(call.id());
            before
        });
        let Some(object) = known else {
            if let Some((other, object)) = self.objects.other_type(key) {
                let what = format!("`{name}` is {address:#x}, which is a {other}, not a {kind}");
                self.report(&rules::WRONG_TYPE, call, what, Some(&object));
            }
            return None;
        };
        if object.destroyed {
            let what = format!("`{name}` is the {kind} {address:#x}, which was destroyed");
            self.report(&rules::USE_AFTER_DESTROY, call, what, Some(&object));
        } else if kind != CLIENT && self.objects.with((CLIENT, object.client), |c| c.destroyed) == Some(true) {
            let what = format!("`{name}` is the {kind} {address:#x}, whose client was destroyed");
            self.report(&rules::CLIENT_GONE, call, what, Some(&object));
        }
        Some(object)
    }

    /// Checks the devices, output lists and arguments of a run. Returns 1 plus the index of the last argument that is
    /// deleted, or 0 if no argument is deleted. A run with a deleted argument must fail.
    fn check_run(&self, call: &Call, run: &Execution) -> u64 {
        let mut deleted = 0;
        if run.devices() == 0 {
            self.report(&rules::NO_DEVICES, call, "`num_devices` is 0".to_owned(), None);
            return 0;
        }
        if run.lacks_output_lists() {
            self.report(&rules::NO_OUTPUTS, call, "`output_lists` is null".to_owned(), None);
        }
        let executable = (LOADED, run.executable());
        let client = self.objects.with(executable, |object| object.client).unwrap_or(0);
        let facts = self.executable(call, run.executable());
        let devices = run.on_devices(&facts.devices);
        if devices.is_empty() && !facts.devices.is_empty() {
            let what = format!(
                "`num_devices` is {}, but the process can use {} devices of the executable",
                run.devices(),
                facts.devices.len()
            );
            self.report(&rules::WRONG_DEVICE_COUNT, call, what, None);
        }
        let arguments = run.arguments();
        let of_each = arguments.len() / run.devices();
        // If the number of arguments is wrong, the parameter of each argument is unknown.
        let parameters = facts.parameters.as_deref().filter(|parameters| {
            let is_right = parameters.len() == of_each;
            if !is_right {
                let what = format!("`num_args` is {of_each}, but the program has {} parameters", parameters.len());
                self.report(&rules::WRONG_ARGUMENT_COUNT, call, what, None);
            }
            is_right
        });
        for (at, address) in arguments.into_iter().enumerate() {
            let name = format!("argument {at}");
            if address == 0 {
                self.report(&rules::NULL_OBJECT, call, format!("{name} is null"), None);
                continue;
            }
            let Some(buffer) = self.check(call, &name, (BUFFER, address)) else { continue };
            if buffer.deleted && !buffer.destroyed {
                deleted = 1 + at as u64;
            }
            if client != 0 && buffer.client != 0 && buffer.client != client {
                let what = format!(
                    "{name} is a buffer of the client {:#x}, but the executable belongs to the client {client:#x}",
                    buffer.client
                );
                self.report(&rules::WRONG_CLIENT, call, what, Some(&buffer));
            } else if let Some(device) = devices.get(at / of_each.max(1))
                && buffer.device != 0
                && buffer.device != *device
            {
                let what = format!(
                    "{name} is a buffer on the device {:#x}, but its list is that of the device {device:#x}",
                    buffer.device
                );
                self.report(&rules::WRONG_DEVICE, call, what, Some(&buffer));
            }
            if let Some(Some(expected)) = parameters.and_then(|parameters| parameters.get(at % of_each))
                && !buffer.destroyed
                && let Some(shape) = shape_of(call, address)
                && shape != *expected
            {
                let what = format!("{name} has the shape {shape}, but the program's parameter has {expected}");
                self.report(&rules::WRONG_SHAPE, call, what, Some(&buffer));
            }
        }
        deleted
    }

    /// Checks that all objects in the arguments of a call belong to the same client. Ignores objects whose client is
    /// unknown.
    fn check_clients(&self, call: &Call, plan: &Plan) {
        let mut first: Option<(&str, usize)> = None;
        let objects = plan.inputs.iter().map(|(kind, field)| {
            let address = call.address(field);
            let client = if *kind == CLIENT { Some(address) } else { self.objects.with((kind, address), |o| o.client) };
            (field.name, client)
        });
        let places = plan.places.iter().map(|field| (field.name, self.places.client(call.address(field))));
        for (name, client) in objects.chain(places) {
            let Some(client) = client.filter(|client| *client != 0) else { continue };
            match first {
                None => first = Some((name, client)),
                Some((other, of)) if of != client => {
                    let what =
                        format!("`{other}` belongs to the client {of:#x}, but `{name}` to the client {client:#x}");
                    return self.report(&rules::WRONG_CLIENT, call, what, None);
                }
                Some(_) => {}
            }
        }
    }

    /// Checks a call that waits for an event, queries it, or registers a callback. Records that the framework has
    /// observed the event.
    fn check_event(&self, call: &Call, plan: &Plan) {
        let event = call.address_of("event");
        if !plan.observes || event == 0 {
            return;
        }
        let object = self.objects.with((EVENT, event), |object| {
            object.observed = true;
            *object
        });
        // The state of an unknown or destroyed event cannot be queried.
        let is_live = object.is_some_and(|object| !object.destroyed);
        let is_late = |call: &Call| is_live && call.plugin().is_ready(event) == Some(false);
        if call.is::<slot::PJRT_Event_Error>() && is_late(call) {
            let what = format!("the event {event:#x} is not ready");
            self.report(&rules::ERROR_BEFORE_READY, call, what, object.as_ref());
        }
        if call.is::<slot::PJRT_Event_Await>() {
            if call.is_in_callback() && is_late(call) {
                let what = format!("a callback of an event waits for the event {event:#x}, which is not ready");
                self.report(&rules::WAIT_IN_CALLBACK, call, what, object.as_ref());
            }
            self.waits.begin(event, object.as_ref(), self.wait_limit, &self.reports);
        }
    }

    /// Returns the properties that the plugin reports about an executable.
    fn executable(&self, call: &Call, executable: usize) -> Arc<Executable> {
        let known = self.executables.read().unwrap_or_else(PoisonError::into_inner).get(&executable).cloned();
        known.unwrap_or_else(|| {
            let outputs = call.plugin().output_count(executable).unwrap_or(0);
            let devices = call.plugin().executable_devices(executable).unwrap_or_default();
            // Ignore the parameters of a program whose only parameter is a tuple, because an optimization may have
            // packed several parameters into this tuple.
            let parameters = call.plugin().parameters(executable).filter(|parameters| !parameters.is_tuple);
            let parameters = parameters.map(|read| read.all.into_iter().map(|parameter| parameter.shape).collect());
            let facts = Arc::new(Executable { outputs, devices, parameters });
            let mut all = self.executables.write().unwrap_or_else(PoisonError::into_inner);
            all.insert(executable, Arc::clone(&facts));
            facts
        })
    }

    fn check_size(&self, call: &Call) {
        let layout = &call.function().layout;
        let (announced, least) = (call.announced(), (layout.size_at)(0));
        if (layout.size_behind)(announced) < least {
            let what = format!(
                "`struct_size` of {} is {announced}, but no version of the API has fewer than {least} bytes",
                layout.name
            );
            self.report(&rules::SHORT_STRUCT, call, what, None);
        }
    }

    /// Returns the handle of the client to which the objects that a call creates belong, or 0 if the client is unknown.
    fn client(&self, call: &Call, plan: &Plan) -> usize {
        for (kind, field) in &plan.inputs {
            let address = call.address(field);
            if *kind == CLIENT {
                return address;
            }
            if let Some(client) = self.objects.with((kind, address), |object| object.client)
                && client != 0
            {
                return client;
            }
        }
        0
    }

    fn record_run(&self, call: &Call, run: &Execution) {
        let executable = run.executable();
        let client = self.objects.with((LOADED, executable), |object| object.client).unwrap_or(0);
        let facts = self.executable(call, executable);
        let of_arguments = run.arguments().into_iter().filter(|address| *address != 0);
        let runs =
            of_arguments.filter_map(|address| self.objects.with((BUFFER, address), |object| object.run)).collect();
        let number = self.waits.add_run(executable, runs);
        let devices = run.on_devices(&facts.devices);
        let outputs = run.outputs(facts.outputs).into_iter().enumerate();
        let outputs = outputs.map(|(at, address)| {
            let device = devices.get(at / facts.outputs.max(1)).copied().unwrap_or(0);
            ((BUFFER, address), device)
        });
        for (key, device) in outputs.chain(run.events().into_iter().map(|address| ((EVENT, address), 0))) {
            if key.1 != 0 {
                let mut object = Object::new(call.id(), client);
                (object.run, object.device) = (number, device);
                self.objects.add(key, object);
            }
        }
    }
}

impl Layer for Validate {
    fn name(&self) -> &'static str {
        "validate"
    }

    fn wants(&self, function: &Function) -> bool {
        !function.name.starts_with("PJRT_Error_")
    }

    fn before(&self, call: &mut Call) -> Step {
        self.check_size(call);
        let plan = &self.plans[call.id()];
        if let Some(subject) = plan.subject
            && call.address(subject) == 0
        {
            self.report(&rules::NULL_OBJECT, call, format!("`{}` is null", subject.name), None);
        }
        if let (Some(kind), Some(subject)) = (plan.destroys, call.function().subject()) {
            let address = call.address(subject);
            // Record the destruction before the call, because the plugin may create another object at the address
            // before the call returns.
            let before = self.objects.destroy((kind, address), call.id());
            if let Some(object) = before.filter(|object| object.destroyed) {
                let what = format!("the {kind} {address:#x} was already destroyed");
                self.report(&rules::DOUBLE_DESTROY, call, what, Some(&object));
            } else if let Some(object) = before.filter(|_| kind != EVENT)
                && let Some(thread) = object.other_user(thread_id())
            {
                let what = format!("the {kind} {address:#x} is in use by a call of thread {thread}");
                self.report(&rules::DESTROYED_IN_USE, call, what, Some(&object));
            }
            if kind == CLIENT {
                self.places.forget(address);
            }
            if kind == LOADED {
                self.executables.write().unwrap_or_else(PoisonError::into_inner).remove(&address);
            }
            return Step::Continue(0);
        }
        plan.checks.run(call, |rule, what| self.report(rule, call, what, None));
        let thread = thread_id();
        for (kind, field) in &plan.inputs {
            let address = call.address(field);
            if address != 0 {
                self.check(call, field.name, (kind, address));
                if !plan.may_lose_objects {
                    self.objects.with((kind, address), |object| object.enter(thread));
                }
            }
        }
        self.check_clients(call, plan);
        self.check_event(call, plan);
        let deleted = call.execution().map_or(0, |run| self.check_run(call, &run));
        Step::Continue(deleted)
    }

    fn after(&self, call: &mut Call, deleted: u64, outcome: Outcome) {
        let plan = &self.plans[call.id()];
        if plan.destroys.is_none() && !plan.may_lose_objects {
            for (kind, field) in &plan.inputs {
                self.objects.with((kind, call.address(field)), Object::leave);
            }
        }
        if call.is::<slot::PJRT_Event_Await>() {
            self.waits.end();
        }
        if outcome.failed() || plan.destroys.is_some() {
            return;
        }
        if !plan.places.is_empty() || call.function().subject().is_some() {
            self.places.record(call, self.client(call, plan));
        }
        if let Some(run) = call.execution() {
            if deleted > 0 {
                let what = format!("argument {} was already deleted or donated, but the run succeeded", deleted - 1);
                self.report(&rules::USE_AFTER_DELETE, call, what, None);
            }
            return self.record_run(call, &run);
        }
        // Another thread's run may begin while the call deletes the buffer. Only a run that begins later must fail.
        if call.is::<slot::PJRT_Buffer_Delete>() || call.is::<slot::PJRT_Buffer_DonateWithControlDependency>() {
            self.objects.with((BUFFER, call.address_of("buffer")), |object| object.deleted = true);
        }
        if let Some(args) = call.args::<slot::PJRT_Buffer_IsDeleted>() {
            let deleted = args.is_deleted.get();
            self.objects.with((BUFFER, args.buffer.addr()), |object| object.deleted |= deleted);
        }
        // A call that only queries the size of a copy does not start a copy.
        let is_question = call.args::<slot::PJRT_Buffer_ToHostBuffer>().is_some_and(|args| args.dst.is_null());
        if plan.outputs.is_empty() || is_question {
            return;
        }
        let client = self.client(call, plan);
        for (kind, field) in &plan.outputs {
            let address = call.address(field);
            if address != 0 {
                let client = if *kind == CLIENT { address } else { client };
                let mut object = Object::new(call.id(), client);
                object.device = if *kind == BUFFER { device_of(call) } else { 0 };
                // The event of a buffer becomes ready when the run that produces the buffer ends.
                let source = plan.inputs.iter().find(|(kind, _)| *kind == BUFFER);
                let run =
                    source.and_then(|(kind, field)| self.objects.with((kind, call.address(field)), |from| from.run));
                object.run = run.unwrap_or(0);
                self.objects.add((kind, address), object);
            }
        }
    }

    fn watches_events(&self) -> bool {
        true
    }

    fn exit(&self) {
        for (function, count, object) in self.objects.unobserved_events() {
            let what = format!("{count} of its events were neither destroyed nor used until the process ended");
            let last_calls = object.last_calls();
            self.reports.add(Report { rule: &rules::UNUSED_EVENT, function, what, last_calls });
        }
        self.reports.finish(&self.objects.live(), &self.waits.graph());
    }
}

impl Plan {
    fn new(function: &'static Function, owned: &[&'static str]) -> Self {
        let handles = function.fields.iter().filter_map(|field| match field.kind {
            Kind::Handle(kind) if owned.contains(&kind) => Some((kind, field)),
            _ => None,
        });
        let (outputs, inputs): (Vec<_>, Vec<_>) = handles.partition(|(_, field)| field.output);
        // The topology belongs to the client, so the caller does not destroy it.
        let outputs = if function.name == "PJRT_Client_TopologyDescription" { Vec::new() } else { outputs };
        let destroys = function.destroys();
        // Functions of extensions may accept a null object.
        let subject = function.subject().filter(|_| destroys.is_none() && function.extension.is_none());
        let is_of_place = |field: &&Field| matches!(field.kind, Kind::Handle(kind) if is_place(kind)) && !field.output;
        let places = function.fields.iter().filter(is_of_place).collect();
        let observers = ["PJRT_Event_IsReady", "PJRT_Event_Error", "PJRT_Event_Await", "PJRT_Event_OnReady"];
        // A callback runs during or after the call that registers it, and may destroy its event and other objects.
        let may_lose_objects = function.fields.iter().any(|field| field.name.contains("callback"));
        Self {
            inputs,
            outputs,
            destroys,
            subject,
            places,
            checks: Checks::new(function),
            observes: observers.contains(&function.name),
            may_lose_objects,
        }
    }
}

/// Returns the shape of a live buffer, if its element type is known.
fn shape_of(call: &Call, buffer: usize) -> Option<Shape> {
    let (element_type, dimensions) = call.plugin().buffer_shape(buffer).ok()?;
    Some(Shape::new(ElementType::from_raw(element_type)?, dimensions))
}

/// Returns the types of objects that the caller destroys, except for errors and objects of extensions.
fn owned() -> Vec<&'static str> {
    let main = FUNCTIONS.iter().filter(|function| function.extension.is_none());
    main.filter_map(Function::destroys).filter(|kind| *kind != "PJRT_Error").collect()
}

/// Returns the device of the buffer that a call creates, or 0 if the arguments select a memory or no device.
fn device_of(call: &Call) -> usize {
    if let Some(args) = call.args::<slot::PJRT_Client_BufferFromHostBuffer>() {
        return if args.memory.is_null() { args.device.addr() } else { 0 };
    }
    call.args::<slot::PJRT_Buffer_CopyToDevice>().map_or(0, |args| args.dst_device.addr())
}
