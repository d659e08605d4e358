//! A limit on the operations that a caller keeps in flight.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use crate::error::Error;
use crate::objects::event::{Completion, Event};
use crate::table::callback::in_callback;

/// Limits the number of operations that are in flight on a device, and the bytes that these operations hold.
///
/// A caller that never waits can start runs faster than a device completes them. Each run holds its inputs and outputs,
/// so the memory use grows. Some plugins block the caller when too many runs are in flight, but others do not. A
/// limiter works with all plugins. Create one limiter for each device, and clone the limiter to share it between
/// threads. Acquire a permit before starting an operation. The permit is released when the operation has ended.
///
/// ```
/// # use pjrt::{ClientOptions, CompileOptions, ExecuteOptions, Input, Program};
/// use pjrt::InFlightLimiter;
///
/// # let client = plugin_registry::open("cpu")?.client(&ClientOptions::new())?;
/// # let program = Program::mlir(
/// #     "func.func @main(%x: tensor<256xf32>) -> tensor<256xf32> {
/// #        %y = stablehlo.add %x, %x : tensor<256xf32>
/// #        return %y : tensor<256xf32>
/// #      }",
/// # );
/// # let double = client.compile(&program, &CompileOptions::default())?;
/// // At most 8 runs, and at most 64 MiB.
/// let limiter = InFlightLimiter::new(8, 64 << 20);
/// let x = client.buffer_from_host(&[1.0f32; 256], &[256])?;
/// for _ in 0..100 {
///     // Blocks while 8 runs are in flight. An async function awaits the result of `acquire` instead.
///     let permit = limiter.acquire(2 * 1024).wait()?;
///     let run = double.execute_with([Input::Borrow(&x)], &ExecuteOptions::new())?;
///     permit.release_after(&run.done);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Permits are granted in the order of the requests. If the first waiting request is for many bytes, later requests
/// wait until it is granted. Otherwise, small requests could delay a large request forever.
#[derive(Clone)]
pub struct InFlightLimiter(Arc<Shared>);

struct Shared {
    max_operations: usize,
    max_bytes: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    operations: usize,
    bytes: u64,
    /// Waiting callers, in the order of their requests.
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    bytes: u64,
    granted: Arc<Completion>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an operation if it fits in the limits or if no other operation is in flight. Returns whether the
    /// operation was counted.
    fn admit(&self, state: &mut State, bytes: u64) -> bool {
        let fits = state.bytes.checked_add(bytes).is_some_and(|sum| sum <= self.max_bytes);
        // If no other operation is in flight, an operation may exceed the limit. Otherwise the operation could never
        // run.
        let is_admitted = state.operations == 0 || (state.operations < self.max_operations && fits);
        if is_admitted {
            state.operations += 1;
            state.bytes = state.bytes.saturating_add(bytes);
        }
        is_admitted
    }

    /// Grants the waiting requests in order until one exceeds the limits. Unlocks the state before waking the callers.
    fn grant(&self, mut state: MutexGuard<'_, State>) {
        let mut granted = Vec::new();
        while let Some(bytes) = state.waiting.front().map(|first| first.bytes)
            && self.admit(&mut state, bytes)
        {
            granted.extend(state.waiting.pop_front());
        }
        drop(state);
        for waiting in granted {
            waiting.granted.complete(Ok(()));
        }
    }

    fn release(&self, bytes: u64) {
        let mut state = self.lock();
        state.operations -= 1;
        state.bytes = state.bytes.saturating_sub(bytes);
        self.grant(state);
    }
}

impl InFlightLimiter {
    /// Creates a limiter for one device. A `max_operations` of 0 counts as 1. While no operation is in flight, the next
    /// operation may hold more than `max_bytes`.
    #[must_use]
    pub fn new(max_operations: usize, max_bytes: u64) -> Self {
        Self(Arc::new(Shared { max_operations: max_operations.max(1), max_bytes, state: Mutex::default() }))
    }

    /// Creates a limiter that limits only the number of operations.
    #[must_use]
    pub fn operations(max_operations: usize) -> Self {
        Self::new(max_operations, u64::MAX)
    }

    /// Creates a limiter that limits only the number of bytes.
    #[must_use]
    pub fn bytes(max_bytes: u64) -> Self {
        Self::new(usize::MAX, max_bytes)
    }

    /// Requests a permit for one operation. `bytes` is the memory that the operation holds, such as the total size of
    /// its outputs. The request joins the queue at once. To wait for the permit, call [`Acquire::wait`] or use
    /// `.await`.
    pub fn acquire(&self, bytes: u64) -> Acquire {
        let granted = Arc::new(Completion::default());
        let mut state = self.0.lock();
        if state.waiting.is_empty() && self.0.admit(&mut state, bytes) {
            granted.complete(Ok(()));
        } else {
            state.waiting.push_back(Waiting { bytes, granted: granted.clone() });
        }
        drop(state);
        Acquire { shared: self.0.clone(), granted, bytes, taken: false }
    }

    /// Returns a permit for one operation, or `None` if the caller would have to wait.
    pub fn try_acquire(&self, bytes: u64) -> Option<InFlightPermit> {
        let mut state = self.0.lock();
        let is_granted = state.waiting.is_empty() && self.0.admit(&mut state, bytes);
        is_granted.then(|| InFlightPermit { shared: self.0.clone(), bytes })
    }

    /// Returns the number of operations in flight.
    pub fn operations_in_flight(&self) -> usize {
        self.0.lock().operations
    }

    /// Returns the number of bytes that the operations in flight hold.
    pub fn bytes_in_flight(&self) -> u64 {
        self.0.lock().bytes
    }
}

/// A request for a permit. Dropping the request removes it from the queue, or releases the permit if it was granted but
/// not yet returned. If the future is polled again after it returned a permit, it requests another permit.
#[must_use = "a request that is dropped is not granted"]
pub struct Acquire {
    shared: Arc<Shared>,
    granted: Arc<Completion>,
    bytes: u64,
    /// Whether the permit was returned to the caller.
    taken: bool,
}

impl Acquire {
    /// Blocks until the permit is granted.
    ///
    /// # Errors
    ///
    /// Returns an error if the permit is not granted yet and `wait` is called within a callback of a plugin. Such a
    /// callback must not block.
    pub fn wait(mut self) -> Result<InFlightPermit, Error> {
        if !self.granted.is_complete() && in_callback() {
            return Err(Error::invalid("a callback cannot wait for a permit; use `try_acquire`, or another thread"));
        }
        self.granted.wait()?;
        Ok(self.take())
    }

    fn take(&mut self) -> InFlightPermit {
        self.taken = true;
        InFlightPermit { shared: self.shared.clone(), bytes: self.bytes }
    }
}

impl Future for Acquire {
    type Output = InFlightPermit;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<InFlightPermit> {
        if self.taken {
            *self = InFlightLimiter(self.shared.clone()).acquire(self.bytes);
        }
        self.granted.poll(cx).map(|_| self.take())
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        let mut state = self.shared.lock();
        let place = state.waiting.iter().position(|waiting| Arc::ptr_eq(&waiting.granted, &self.granted));
        match place {
            Some(place) => {
                state.waiting.remove(place);
                // The next requests in the queue may be small enough to be granted now.
                self.shared.grant(state);
            }
            None => {
                drop(state);
                self.shared.release(self.bytes);
            }
        }
    }
}

/// A permit to have one operation in flight. Dropping the permit releases it.
#[must_use = "the operation counts as ended when the permit is dropped"]
pub struct InFlightPermit {
    shared: Arc<Shared>,
    bytes: u64,
}

impl InFlightPermit {
    /// Releases the permit when `event` is ready. The event is for example that of a run ([`Execution::done`]) or of
    /// the computation of a buffer ([`Buffer::ready_event`]). [`Client::synchronize`] waits until the permit is
    /// released.
    ///
    /// If the plugin supports neither callbacks nor waiting for events, this crate cannot detect the end of the
    /// operation, and the permit is never released.
    ///
    /// [`Execution::done`]: crate::Execution::done
    /// [`Buffer::ready_event`]: crate::Buffer::ready_event
    /// [`Client::synchronize`]: crate::Client::synchronize
    pub fn release_after(self, event: &Event) {
        event.hold(self, |permit, _| drop(permit));
    }
}

impl Drop for InFlightPermit {
    fn drop(&mut self) {
        self.shared.release(self.bytes);
    }
}

impl fmt::Debug for InFlightLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.lock();
        f.debug_struct("InFlightLimiter")
            .field("operations", &state.operations)
            .field("max_operations", &self.0.max_operations)
            .field("bytes", &state.bytes)
            .field("max_bytes", &self.0.max_bytes)
            .field("waiting", &state.waiting.len())
            .finish()
    }
}

impl fmt::Debug for Acquire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl fmt::Debug for InFlightPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlightPermit").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
