//! Generates machine code, and runs it. This file contains all unsafe code of the crate.
//!
//! The one call of generated code, in [`Code::run_part`], relies on the following facts:
//!
//! - *The verifier* has proved that each access of the program lies in its array and that only writable arrays are
//!   written, for all values that indices can have. It computes without overflow.
//! - *Cranelift* translates the program correctly. The ops of a program become instructions that do not trap.
//! - *The arrays* of the call have the lengths that the verifier assumed. [`Code::check`] compares them. Slices keep
//!   them alive and exclude other accesses to the written arrays during the call.
//! - *The stack* is not overrun unnoticed. The generated function does not call itself, its frame has at most
//!   [`limits::STACK`] bytes, and it writes to each page of a larger frame than a page before it uses the frame. On a
//!   stack that is too small, it therefore reaches the guard page, as Rust functions do.
//! - *The code* stays mapped, because `self` owns its memory and is borrowed.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use cranelift_codegen::ir::UserFuncName;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{Linkage, Module as _, default_libcall_names};

use crate::error::Error;
use crate::ir::{Host, HostStep, Part, Program};
use crate::limits;
use crate::translate::{FINISHED, PAUSED, signature, translate};
use crate::verify::verify;

/// The generated function. See [`signature`].
type Entry = unsafe extern "C" fn(*const *mut u8, *const u8, *mut Context<'_, '_>, u64) -> i32;

/// Maximum number of parts that a step reads for which no memory is allocated.
const INLINE_READS: usize = 8;
/// Maximum number of parts that a step writes for which no memory is allocated.
const INLINE_WRITES: usize = 4;

/// A compiled program.
pub struct Code {
    entry: Entry,
    /// Owns the memory of `entry`.
    _module: Module,
    arrays: Vec<(usize, bool)>,
    steps: Vec<HostStep>,
}

/// Owns the memory of generated code, which [`JITModule`] does not free when it is dropped.
struct Module {
    /// `None` only while `self` is dropped. The mutex makes the module shareable between threads, and is never locked.
    module: Mutex<Option<JITModule>>,
}

/// The state of a run that [`call_host`] needs.
struct Context<'r, 'h> {
    arrays: &'r [*mut u8],
    steps: &'r [HostStep],
    host: &'r mut (dyn Host + 'h),
    /// The payload of a panic in a host step. A panic ends the run.
    panic: Option<Box<dyn Any + Send>>,
}

impl Code {
    /// Verifies and compiles a program.
    ///
    /// Returns an error if the program breaks a rule or is too large, if the current processor is not supported, or if
    /// the code generator fails or panics.
    pub fn compile(program: &Program) -> Result<Code, Error> {
        verify(program)?;
        #[expect(clippy::disallowed_methods, reason = "a caller can interpret the program instead")]
        let code = catch_unwind(|| Code::generate(program));
        code.unwrap_or_else(|panic| Err(Error::Generator(format!("it panicked: {}", message(panic.as_ref())))))
    }

    fn generate(program: &Program) -> Result<Code, Error> {
        let failed = |error: &dyn fmt::Display| Error::Generator(error.to_string());
        let mut flags = settings::builder();
        let verifier = if cfg!(debug_assertions) { "true" } else { "false" };
        for (name, value) in [
            ("opt_level", "speed"),
            ("enable_verifier", verifier),
            ("is_pic", "false"),
            ("enable_probestack", "true"),
            ("probestack_strategy", "inline"),
        ] {
            flags.set(name, value).map_err(|error| failed(&error))?;
        }
        let isa = cranelift_native::builder().map_err(|error| Error::Platform(error.into()))?;
        let isa = isa.finish(settings::Flags::new(flags)).map_err(|error| failed(&error))?;
        let mut owner = Module::new(JITModule::new(JITBuilder::with_isa(isa, default_libcall_names())));
        let module = owner.get().ok_or_else(|| failed(&"it has no module"))?;
        let config = module.target_config();
        let mut cx = module.make_context();
        cx.func.signature = signature(config.default_call_conv, config.pointer_type());
        let id = module.declare_function("loop", Linkage::Export, &cx.func.signature);
        let id = id.map_err(|error| failed(&error))?;
        cx.func.name = UserFuncName::user(0, id.as_u32());
        let mut state = FunctionBuilderContext::new();
        let builder = FunctionBuilder::new(&mut cx.func, &mut state);
        translate(program, builder, config.pointer_type(), call_host as *const () as usize, config)?;
        module.define_function(id, &mut cx).map_err(|error| Error::Generator(format!("{error:?}")))?;
        let layout = cx.compiled_code().and_then(|code| code.buffer.frame_layout());
        let frame = layout.ok_or_else(|| failed(&"it does not report the size of the frame"))?.frame_to_fp_offset;
        if usize::try_from(frame).map_or(true, |frame| frame > limits::STACK) {
            return Err(Error::TooLarge { what: "bytes on the stack", limit: limits::STACK });
        }
        module.finalize_definitions().map_err(|error| failed(&error))?;
        let entry = module.get_finalized_function(id);
        #[expect(clippy::disallowed_methods, reason = "an address that is a function")]
        // SAFETY: J1 (generated code): the generated function has the signature `Entry`.
        let entry = unsafe { std::mem::transmute::<*const u8, Entry>(entry) };
        Ok(Code {
            entry,
            _module: owner,
            arrays: program.arrays.iter().map(|array| (array.bytes, array.writable)).collect(),
            steps: program.host_steps.clone(),
        })
    }

    /// Runs the program. `reads` are the arrays that the program only reads, and `writes` are the arrays that it may
    /// write, both in declaration order. If `stop` is set during a [`While`](crate::Statement::While) loop, or if a
    /// step of the host returns false, the run ends with [`Error::Stopped`].
    pub fn run(
        &self,
        reads: &[&[u8]],
        writes: &mut [&mut [u8]],
        stop: Option<&AtomicBool>,
        host: &mut dyn Host,
    ) -> Result<(), Error> {
        // No loop runs `u64::MAX` iterations, so this run does not pause.
        self.run_part(u64::MAX, reads, writes, stop, host).map(drop)
    }

    /// Runs the program, but leaves each outermost `While` loop after at most `iterations` iterations, as if its
    /// condition were false. Returns whether the conditions of all these loops became false.
    ///
    /// A program can continue where a run paused. To allow this, give the program only one such loop, load the loop's
    /// initial values from arrays, and store its results in the same arrays. The next run then continues the loop.
    pub fn run_part(
        &self,
        iterations: u64,
        reads: &[&[u8]],
        writes: &mut [&mut [u8]],
        stop: Option<&AtomicBool>,
        host: &mut dyn Host,
    ) -> Result<bool, Error> {
        self.check(reads, writes)?;
        let (mut reads, mut writes) = (reads.iter(), writes.iter_mut());
        let address = |&(_, writable): &(usize, bool)| {
            if writable {
                writes.next().map(|array| array.as_mut_ptr())
            } else {
                // Verified programs do not write these arrays.
                reads.next().map(|array| array.as_ptr().cast_mut())
            }
        };
        // The lengths were checked, so no array is missing.
        let arrays: Vec<*mut u8> = self.arrays.iter().map_while(address).collect();
        let never = AtomicBool::new(false);
        let stop = stop.unwrap_or(&never).as_ptr().cast::<u8>().cast_const();
        let mut context = Context { arrays: &arrays, steps: &self.steps, host, panic: None };
        // SAFETY: J1 (generated code): `check` has compared the arrays with those of the verified program. The flag and
        // the context live until the call returns.
        let code = unsafe { (self.entry)(arrays.as_ptr(), stop, &raw mut context, iterations) };
        if let Some(panic) = context.panic {
            resume_unwind(panic);
        }
        match i64::from(code) {
            FINISHED => Ok(true),
            PAUSED => Ok(false),
            _ => Err(Error::Stopped),
        }
    }

    /// Checks that the slices have the declared lengths.
    fn check(&self, reads: &[&[u8]], writes: &[&mut [u8]]) -> Result<(), Error> {
        let of = |writable: bool| self.arrays.iter().filter(move |a| a.1 == writable).map(|a| a.0);
        let fits = of(false).eq(reads.iter().map(|a| a.len())) && of(true).eq(writes.iter().map(|a| a.len()));
        if fits {
            return Ok(());
        }
        let list = |reads: Vec<usize>, writes: Vec<usize>| {
            format!("arrays of {reads:?} bytes to read and of {writes:?} bytes to write")
        };
        Err(Error::Arrays {
            want: list(of(false).collect(), of(true).collect()),
            got: list(reads.iter().map(|a| a.len()).collect(), writes.iter().map(|a| a.len()).collect()),
        })
    }
}

impl Module {
    fn new(module: JITModule) -> Self {
        Self { module: Mutex::new(Some(module)) }
    }

    fn get(&mut self) -> Option<&mut JITModule> {
        self.module.get_mut().unwrap_or_else(PoisonError::into_inner).as_mut()
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        let module = self.module.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(module) = module {
            // SAFETY: J1 (generated code): no run of the code is in progress, because runs borrow the `Code` that owns
            // `self`, and its `entry` is not used again.
            unsafe { module.free_memory() };
        }
    }
}

/// Returns the message of a panic.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Code").field("arrays", &self.arrays).field("steps", &self.steps.len()).finish()
    }
}

/// Runs a step of the host, for generated code. Returns 0 if the run continues, and 1 if it must end.
#[expect(clippy::disallowed_methods, reason = "the crate's one place for parts of arrays and for panics")]
extern "C" fn call_host(context: *mut Context<'_, '_>, step: u32) -> i32 {
    // SAFETY: J2 (host steps): generated code passes the context of its run, and nothing else uses this context
    // meanwhile.
    let context = unsafe { &mut *context };
    let step_of = &context.steps[step as usize];
    let start = |part: &Part| context.arrays[part.array.0 as usize].wrapping_add(part.start);
    // SAFETY: J2 (host steps): the part lies in its array, and no other part of the step that is written overlaps it.
    let read = |part: &Part| unsafe { std::slice::from_raw_parts(start(part).cast_const(), part.bytes) };
    // SAFETY: J2 (host steps): the part lies in a writable array, and no other part of the step overlaps it.
    let write = |part: &Part| unsafe { std::slice::from_raw_parts_mut(start(part), part.bytes) };
    // Most steps have few parts. Filling an array is faster than filling a `SmallVec`.
    let (mut few, mut many): ([&[u8]; INLINE_READS], Vec<&[u8]>) = ([&[]; INLINE_READS], Vec::new());
    let reads: &[&[u8]] = match few.get_mut(..step_of.reads.len()) {
        Some(few) => {
            few.iter_mut().zip(&step_of.reads).for_each(|(to, part)| *to = read(part));
            few
        }
        None => {
            many.extend(step_of.reads.iter().map(read));
            &many
        }
    };
    let (mut few, mut many): ([&mut [u8]; INLINE_WRITES], Vec<&mut [u8]>) =
        ([(); INLINE_WRITES].map(|()| &mut [][..]), Vec::new());
    let writes: &mut [&mut [u8]] = match few.get_mut(..step_of.writes.len()) {
        Some(few) => {
            few.iter_mut().zip(&step_of.writes).for_each(|(to, part)| *to = write(part));
            few
        }
        None => {
            many.extend(step_of.writes.iter().map(write));
            &mut many
        }
    };
    let host = &mut *context.host;
    // A panic must not unwind through generated code.
    match catch_unwind(AssertUnwindSafe(|| host.call(step, reads, writes))) {
        Ok(true) => 0,
        Ok(false) => 1,
        Err(panic) => {
            context.panic = Some(panic);
            1
        }
    }
}
