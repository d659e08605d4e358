//! Compares each call with the rules.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use pjrt_sys::slot;

use super::objects::{Key, Object, Objects};
use super::reports::{Report, Reports};
use super::rules::{self, Rule};
use crate::core::{Call, Execution};
use crate::function::{Field, Function, Kind};
use crate::generated::FUNCTIONS;
use crate::layer::{Layer, Outcome, Step};

const BUFFER: &str = "PJRT_Buffer";
const CLIENT: &str = "PJRT_Client";
const EVENT: &str = "PJRT_Event";
const LOADED: &str = "PJRT_LoadedExecutable";

/// Checks every call against [`RULES`](super::RULES), and reports calls that break one. The calls continue.
#[derive(Debug)]
pub struct Validate {
    objects: Objects,
    reports: Reports,
    /// The arguments to read, by function.
    plans: Vec<Plan>,
    /// The number of outputs of each loaded executable.
    outputs_of: RwLock<HashMap<usize, usize>>,
}

/// The arguments of a function that the layer reads.
#[derive(Debug)]
struct Plan {
    inputs: Vec<(&'static str, &'static Field)>,
    outputs: Vec<(&'static str, &'static Field)>,
    destroys: Option<&'static str>,
    /// The first argument must not be null.
    subject: Option<&'static Field>,
}

impl Validate {
    /// Creates the layer.
    #[must_use]
    pub fn new(reports: Reports) -> Self {
        let plans = FUNCTIONS.iter().map(|function| Plan::new(function, &owned())).collect();
        Self { objects: Objects::new(), reports, plans, outputs_of: RwLock::default() }
    }

    fn report(&self, rule: &'static Rule, call: &Call, what: String, object: Option<&Object>) {
        let last_calls = object.map(Object::last_calls).unwrap_or_default();
        self.reports.add(Report { rule, function: call.function().name, what, last_calls });
    }

    /// Checks an object that a call uses. Returns what the layer knows about it.
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

    /// Returns 1 + the position of a deleted argument, or 0. Such a run must fail.
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
        for (at, address) in run.arguments().into_iter().enumerate() {
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
            }
        }
        deleted
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

    /// The client of the objects that a call creates.
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
        let known = self.outputs_of.read().unwrap_or_else(PoisonError::into_inner).get(&executable).copied();
        let count = known.unwrap_or_else(|| {
            let count = call.state().output_count(executable).unwrap_or(0);
            self.outputs_of.write().unwrap_or_else(PoisonError::into_inner).insert(executable, count);
            count
        });
        let buffers = run.outputs(count).into_iter().map(|address| (BUFFER, address));
        for key in buffers.chain(run.events().into_iter().map(|address| (EVENT, address))) {
            if key.1 != 0 {
                self.objects.add(key, Object::new(call.id(), client));
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
            // The plugin may create another object at the address before the call returns.
            let before = self.objects.destroy((kind, address), call.id());
            if let Some(object) = before.filter(|object| object.destroyed) {
                let what = format!("the {kind} {address:#x} was already destroyed");
                self.report(&rules::DOUBLE_DESTROY, call, what, Some(&object));
            }
            if kind == LOADED {
                self.outputs_of.write().unwrap_or_else(PoisonError::into_inner).remove(&address);
            }
            return Step::Continue(0);
        }
        for (kind, field) in &plan.inputs {
            let address = call.address(field);
            if address != 0 {
                self.check(call, field.name, (kind, address));
            }
        }
        let deleted = call.execution().map_or(0, |run| self.check_run(call, &run));
        if call.is::<slot::PJRT_Buffer_Delete>() || call.is::<slot::PJRT_Buffer_DonateWithControlDependency>() {
            self.objects.with((BUFFER, call.address_of("buffer")), |object| object.deleted = true);
        }
        Step::Continue(deleted)
    }

    fn after(&self, call: &mut Call, deleted: u64, outcome: Outcome) {
        let plan = &self.plans[call.id()];
        if outcome.failed() || plan.destroys.is_some() {
            return;
        }
        if let Some(run) = call.execution() {
            if deleted > 0 {
                let what = format!("argument {} was already deleted or donated, but the run succeeded", deleted - 1);
                self.report(&rules::USE_AFTER_DELETE, call, what, None);
            }
            return self.record_run(call, &run);
        }
        if let Some(args) = call.args::<slot::PJRT_Buffer_IsDeleted>() {
            let deleted = args.is_deleted.get();
            self.objects.with((BUFFER, args.buffer.addr()), |object| object.deleted |= deleted);
        }
        // A call that only asks for the size of a copy starts no copy.
        let is_question = call.args::<slot::PJRT_Buffer_ToHostBuffer>().is_some_and(|args| args.dst.is_null());
        if plan.outputs.is_empty() || is_question {
            return;
        }
        let client = self.client(call, plan);
        for (kind, field) in &plan.outputs {
            let address = call.address(field);
            if address != 0 {
                let client = if *kind == CLIENT { address } else { client };
                self.objects.add((kind, address), Object::new(call.id(), client));
            }
        }
    }

    fn exit(&self) {
        self.reports.finish(&self.objects.live());
    }
}

impl Plan {
    fn new(function: &'static Function, owned: &[&'static str]) -> Self {
        let handles = function.fields.iter().filter_map(|field| match field.kind {
            Kind::Handle(kind) if owned.contains(&kind) => Some((kind, field)),
            _ => None,
        });
        let (outputs, inputs): (Vec<_>, Vec<_>) = handles.partition(|(_, field)| field.output);
        // The client owns its own topology.
        let outputs = if function.name == "PJRT_Client_TopologyDescription" { Vec::new() } else { outputs };
        let destroys = function.destroys();
        // Functions of extensions may accept null.
        let subject = function.subject().filter(|_| destroys.is_none() && function.extension.is_none());
        Self { inputs, outputs, destroys, subject }
    }
}

/// The types of objects that the caller destroys.
fn owned() -> Vec<&'static str> {
    let main = FUNCTIONS.iter().filter(|function| function.extension.is_none());
    main.filter_map(Function::destroys).filter(|kind| *kind != "PJRT_Error").collect()
}
