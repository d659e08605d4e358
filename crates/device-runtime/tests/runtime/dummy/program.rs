//! The programs of the dummy driver.

use device_plugin::features::Stream;
use device_plugin::ffi::{Attribute, Attributes, DeviceArray, DeviceCall, ExecuteContext, Handler};
use device_plugin::{ElementType, Error, Program, Result, Shape};
use device_runtime::collectives::Schedule;

/// A program on arrays of bytes. Its text is a list of words: `name=NAME`, `size=BYTES`, `inputs=COUNT`,
/// `donated=INDEX`, `alias=OUTPUT:INPUT`, `scratch=BYTES`, and one `out=TERM+TERM` for each output. A term is a
/// constant or `x` with the index of an input. With `repeat=COUNT`, the outputs repeat their bytes. `fail=run`,
/// `fail=launch`, `fail=prepare`, `panic=wait` and `panic=launch` make a step fail or panic. With `fail=launch`, the
/// launch fails when it is submitted, and ends at once. With `all_reduce=COUNT`, a program has one input, and one
/// output that is the sum of the inputs of this number of devices. With `call=TARGET`, a custom call with the attribute
/// `by=NUMBER` fills the outputs. `memory=KIND` for each output chooses its memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    pub(crate) size: usize,
    pub(crate) inputs: usize,
    pub(crate) repeat: usize,
    pub(crate) donated: Vec<usize>,
    pub(crate) aliases: Vec<(usize, usize)>,
    pub(crate) scratch: usize,
    pub(crate) fails_to_run: bool,
    pub(crate) fails_to_launch: bool,
    pub(crate) fails_to_prepare: bool,
    pub(crate) panics_in_wait: bool,
    pub(crate) panics_in_launch: bool,
    pub(crate) all_reduce: Option<Schedule>,
    pub(crate) custom_call: Option<String>,
    by: i64,
    pub(crate) memories: Vec<String>,
    pub(crate) text: String,
    outputs: Vec<Vec<Term>>,
}

#[derive(Clone, Copy, Debug)]
enum Term {
    Input(usize),
    Constant(u8),
}

impl Kernel {
    pub(crate) fn parse(program: &Program) -> Result<Self> {
        let text = String::from_utf8_lossy(program.code()).into_owned();
        Self::read(&text).ok_or_else(|| Error::invalid_argument(format!("not a program: {text}")))
    }

    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut kernel = Self { repeat: 1, text: text.to_owned(), ..Self::default() };
        for word in text.split_whitespace() {
            let (key, value) = word.split_once('=')?;
            match (key, value) {
                ("name", name) => kernel.name = name.to_owned(),
                ("size", size) => kernel.size = size.parse().ok()?,
                ("inputs", count) => kernel.inputs = count.parse().ok()?,
                ("repeat", count) => kernel.repeat = count.parse().ok()?,
                ("donated", index) => kernel.donated.push(index.parse().ok()?),
                ("alias", pair) => {
                    let (output, input) = pair.split_once(':')?;
                    kernel.aliases.push((output.parse().ok()?, input.parse().ok()?));
                }
                ("scratch", size) => kernel.scratch = size.parse().ok()?,
                ("fail", "run") => kernel.fails_to_run = true,
                ("fail", "launch") => kernel.fails_to_launch = true,
                ("fail", "prepare") => kernel.fails_to_prepare = true,
                ("panic", "wait") => kernel.panics_in_wait = true,
                ("panic", "launch") => kernel.panics_in_launch = true,
                ("all_reduce", count) => {
                    let schedule = Schedule::ring_all_reduce(count.parse().ok()?, kernel.size, 1).ok()?;
                    kernel.scratch = schedule.scratch_bytes();
                    kernel.all_reduce = Some(schedule);
                }
                ("call", target) => kernel.custom_call = Some(target.to_owned()),
                ("memory", kind) => kernel.memories.push(kind.to_owned()),
                ("by", number) => kernel.by = number.parse().ok()?,
                ("out", terms) => kernel.outputs.push(terms.split('+').map(term).collect::<Option<_>>()?),
                _ => return None,
            }
        }
        Some(kernel)
    }

    pub(crate) fn output_count(&self) -> usize {
        self.outputs.len()
    }

    /// Computes the outputs from the inputs.
    pub(crate) fn compute(&self, inputs: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let byte = |terms: &[Term], at: usize| {
            terms.iter().fold(0u8, |sum, term| {
                sum.wrapping_add(match term {
                    Term::Input(index) => inputs[*index][at],
                    Term::Constant(value) => *value,
                })
            })
        };
        self.outputs
            .iter()
            .map(|terms| (0..self.size).map(|at| byte(terms, at)).collect::<Vec<_>>().repeat(self.repeat))
            .collect()
    }

    /// Calls the handler of the custom call with the addresses of the inputs and the outputs.
    pub(crate) fn call(
        &self,
        handler: &Handler,
        addresses: [&[usize]; 2],
        context: &ExecuteContext,
        place: (usize, Stream),
    ) -> Result<()> {
        let shape = Shape::new(ElementType::U8, [i64::try_from(self.size).unwrap()]);
        let arrays = addresses.map(|all| all.iter().map(|at| DeviceArray::new(&shape, *at)).collect::<Vec<_>>());
        let mut attributes = Attributes::default();
        attributes.values.push(("by".to_owned(), Attribute::Int(self.by)));
        let target = self.custom_call.as_deref().unwrap_or_default();
        let call = DeviceCall::new(target, &attributes, [&arrays[0], &arrays[1]], context, place);
        // SAFETY: the handlers of the tests do not dereference addresses. They pass them to the driver, which looks up
        // the memory.
        #[expect(unsafe_code, reason = "a driver vouches for its addresses")]
        unsafe {
            handler.call_on_device(&call)
        }
    }
}

fn term(text: &str) -> Option<Term> {
    match text.strip_prefix('x') {
        Some(index) => index.parse().ok().map(Term::Input),
        None => text.parse().ok().map(Term::Constant),
    }
}
