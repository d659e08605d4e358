//! Replaces functions of the device.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::ptr::null_mut;
use std::sync::OnceLock;

use pjrt_sys::{Slot, StaticApi};

use super::call::{Answer, Call};
use super::tables::{Place, Raw, Tables, own, real};

type Hook<S> = Box<dyn Fn(&mut Call<S>) -> <S as Slot>::Return + Send + Sync>;
type Hooks = HashMap<TypeId, Box<dyn Any + Send + Sync>>;

/// The mutant's functions, by the type that identifies the replaced function. A process has only one mutant.
static HOOKS: OnceLock<Hooks> = OnceLock::new();

/// The embedded device (`pjrt-cpu`). A mutant replaces functions of the device before the device is started.
pub(crate) struct Device {
    /// The tables that the caller will receive.
    pub(crate) tables: Tables,
    /// Whether the last extension of the chain points to the first extension.
    pub(crate) cyclic: bool,
    hooks: Hooks,
    /// Functions that the mutant replaces although the device lacks them. Such a mutant has no fault.
    pub(crate) missing: Vec<&'static str>,
}

impl Device {
    /// Creates the device without a fault.
    pub(crate) fn new() -> Self {
        Self { tables: own().clone(), cyclic: false, hooks: Hooks::new(), missing: Vec::new() }
    }

    /// Replaces a function. The replacement can call the device's function with [`Call::pass`]. The device's function
    /// handles calls whose struct is too short.
    pub(crate) fn replace<S>(&mut self, hook: impl Fn(&mut Call<S>) -> S::Return + Send + Sync + 'static)
    where
        S: Slot<Table: Place, Return: Answer>,
    {
        self.replace_all::<S>(move |call| if call.is_short() { call.pass() } else { hook(call) });
    }

    /// Replaces a function like [`Self::replace`], but also for calls whose struct is too short.
    pub(crate) fn replace_all<S>(&mut self, hook: impl Fn(&mut Call<S>) -> S::Return + Send + Sync + 'static)
    where
        S: Slot<Table: Place, Return: Answer>,
    {
        if real::<S>().is_none() {
            self.missing.push(S::NAME);
        }
        let hook: Hook<S> = Box::new(hook);
        self.hooks.insert(TypeId::of::<S>(), Box::new(hook));
        let function: Raw<S> = entry::<S>;
        self.tables.set::<S>(function as *mut ());
    }

    /// Changes the results of a function after each successful call.
    pub(crate) fn after<S>(&mut self, change: impl Fn(&mut S::Args) + Send + Sync + 'static)
    where
        S: Slot<Table: Place, Return: Answer>,
    {
        self.replace::<S>(move |call| {
            let answer = call.pass();
            if answer.is_success() {
                change(&mut call.args);
            }
            answer
        });
    }

    /// Changes the arguments of each call of a function.
    pub(crate) fn before<S>(&mut self, change: impl Fn(&mut S::Args) + Send + Sync + 'static)
    where
        S: Slot<Table: Place, Return: Answer>,
    {
        self.replace::<S>(move |call| {
            change(&mut call.args);
            call.pass()
        });
    }

    /// Makes a function succeed without effect.
    pub(crate) fn skip<S>(&mut self)
    where
        S: Slot<Table: Place, Return: Answer>,
    {
        self.replace::<S>(|_| S::Return::SUCCESS);
    }

    /// Removes a function from its table.
    pub(crate) fn remove<S: Slot<Table: Place>>(&mut self) {
        self.tables.set::<S>(null_mut());
    }

    /// Returns the table for the caller. A process can start only one device.
    pub(crate) fn start(self) -> StaticApi {
        HOOKS.get_or_init(|| self.hooks);
        let table = self.tables.start(self.cyclic);
        // SAFETY: M3 (faults): the process exists for the cases, and a violated contract damages only this process.
        unsafe { StaticApi::new(table) }
    }
}

/// Calls the mutant's replacement of the function `S`. The slot of `S` contains this function.
///
/// # Safety
///
/// Contract M1 must hold for `args`.
unsafe extern "C" fn entry<S>(args: *mut S::Args) -> S::Return
where
    S: Slot<Table: Place, Return: Answer>,
{
    let hook = HOOKS.get().and_then(|hooks| hooks.get(&TypeId::of::<S>())).and_then(|hook| hook.downcast_ref());
    let Some(hook): Option<&Hook<S>> = hook.filter(|_| !args.is_null()) else { return S::Return::SUCCESS };
    // SAFETY: M1 (calls): the arguments are those of this function, and are not null.
    let mut call = unsafe { Call::<S>::of(args) };
    let answer = hook(&mut call);
    // SAFETY: M1 (calls): the call is a copy of these arguments.
    unsafe { call.finish(args) };
    answer
}
