//! What each thread does with the buffers of a client, noted where no other thread writes.
//!
//! An atomic addition that another thread might see takes longer than all else an execution needs of this SDK. So each
//! thread has a page of its own for each client, and writes it by plain stores:
//!
//! - **Uses.** While an execution runs, its page shows which buffers are its arguments, as a set of bits. Whoever
//!   deletes or takes a buffer meanwhile looks at all pages first, and leaves the value alone if it may be in use.
//! - **Outputs.** The outputs of executions do not count as references to their client. A page says how many were made
//!   and how many are gone; the sum over all pages is what is left. It matters only once there is no other reference:
//!   then no output can be made any more, since an executable is one.

use std::cell::{Cell, RefCell};
use std::ptr::{NonNull, null};
use std::sync::{Arc, PoisonError};

use crate::abi::reclaim::sync::{
    AtomicBool, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, per_thread, process_wide,
};

/// The pages of a client.
pub(crate) struct Ledger {
    book: Mutex<Book>,
    /// Outputs gone on threads that are ending, which have no page any more.
    elsewhere: AtomicUsize,
}

struct Book {
    pages: Vec<Arc<Page>>,
    state: State,
}

enum State {
    Open,
    /// No reference is left but the outputs of executions.
    Closed(Owner),
    /// The client is freed, or about to be.
    Gone,
}

/// The object that a ledger belongs to.
#[derive(Clone, Copy)]
pub(crate) struct Owner {
    pub(crate) object: NonNull<()>,
    /// Whether nothing refers to the object, outputs aside.
    pub(crate) is_unused: unsafe fn(NonNull<()>) -> bool,
    /// Frees the object.
    pub(crate) free: unsafe fn(NonNull<()>),
}

// SAFETY: the object is only looked at and freed, by whichever thread finds it unused.
unsafe impl Send for Owner {}

/// What one thread does with the buffers of one client. Others only read it.
#[repr(align(128))]
pub(crate) struct Page {
    /// Bits of the buffers that executions of this thread use now.
    uses: AtomicU64,
    /// How many executions of this thread run now, each within the one before.
    depth: AtomicUsize,
    made: AtomicUsize,
    gone: AtomicUsize,
    /// Whether `gone` matters to somebody.
    closing: AtomicBool,
    /// Whether a thread has the page.
    taken: AtomicBool,
    ledger: Arc<Ledger>,
}

/// The arguments of an execution, while it runs.
pub(crate) struct Pin {
    page: NonNull<Page>,
    /// What executions further out on this thread use.
    before: u64,
    /// How many there are, with this one.
    depth: usize,
    /// The page, if the thread keeps none.
    _own: Option<OwnPage>,
}

// SAFETY: an execution lends its pin to other threads only to be compared; what it notes in the page it notes on the
// thread of the call, which alone makes and ends launches.
unsafe impl Send for Pin {}
// SAFETY: as above.
unsafe impl Sync for Pin {}

/// A page of a thread that is ending.
struct OwnPage(Arc<Page>);

impl Drop for OwnPage {
    fn drop(&mut self) {
        self.0.taken.store(false, Ordering::Release);
    }
}

/// The pages of a thread.
struct Thread {
    /// The ledger used last, which its page keeps alive.
    ledger: Cell<*const Ledger>,
    page: Cell<*const Page>,
    pages: RefCell<Vec<Arc<Page>>>,
}

per_thread! {
    static THREAD: Thread =
        const { Thread { ledger: Cell::new(null()), page: Cell::new(null()), pages: RefCell::new(Vec::new()) } };
}

process_wide! {
    /// Ledgers that closed while outputs were left. Whoever destroys the last output sees to it, unless it does so at the
    /// very moment of the closing and neither side sees the other: then somebody else finds the ledger here.
    static LINGERING: Mutex<Vec<Arc<Ledger>>> = Mutex::new(Vec::new());
}

fn lingering() -> MutexGuard<'static, Vec<Arc<Ledger>>> {
    LINGERING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Frees the clients that nothing refers to any more, if any were overlooked.
pub(crate) fn settle() {
    let all = lingering().clone();
    for ledger in all {
        ledger.finish();
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.ledger.set(null());
        let pages = std::mem::take(&mut *self.pages.borrow_mut());
        for page in pages {
            // Another thread goes on where this one stopped.
            page.taken.store(false, Ordering::Release);
            page.ledger.finish();
        }
    }
}

impl Thread {
    /// The page for a ledger.
    #[cold]
    fn open(&self, ledger: &Arc<Ledger>) -> *const Page {
        let mut pages = self.pages.borrow_mut();
        pages.retain(|page| !page.ledger.is_gone());
        let known = pages.iter().find(|page| Arc::ptr_eq(&page.ledger, ledger)).cloned();
        let page = known.unwrap_or_else(|| {
            let page = ledger.take_page();
            pages.push(Arc::clone(&page));
            page
        });
        self.page.set(Arc::as_ptr(&page));
        self.ledger.set(Arc::as_ptr(ledger));
        self.page.get()
    }
}

/// The page of this thread for a ledger, which stays as long as the client and the thread; none when the thread is
/// ending.
#[inline]
fn page(ledger: &Arc<Ledger>) -> Option<NonNull<Page>> {
    let find = |thread: &Thread| {
        if thread.ledger.get() == Arc::as_ptr(ledger) { thread.page.get() } else { thread.open(ledger) }
    };
    NonNull::new(THREAD.try_with(find).ok()?.cast_mut())
}

impl Page {
    /// Adds to a number that only this thread changes.
    #[inline]
    fn add(number: &AtomicUsize, count: usize) {
        number.store(number.load(Ordering::Relaxed).wrapping_add(count), Ordering::Release);
    }
}

impl Ledger {
    pub(crate) fn new() -> Arc<Self> {
        let book = Book { pages: Vec::new(), state: State::Open };
        Arc::new(Self { book: Mutex::new(book), elsewhere: AtomicUsize::new(0) })
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_gone(&self) -> bool {
        matches!(self.book().state, State::Gone)
    }

    #[cold]
    /// A page for a thread: one that a thread left when it ended, or a new one.
    fn take_page(self: &Arc<Self>) -> Arc<Page> {
        let mut book = self.book();
        let free =
            |page: &&Arc<Page>| page.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if let Some(page) = book.pages.iter().find(free) {
            return Arc::clone(page);
        }
        let page = Arc::new(Page {
            uses: AtomicU64::new(0),
            depth: AtomicUsize::new(0),
            made: AtomicUsize::new(0),
            gone: AtomicUsize::new(0),
            closing: AtomicBool::new(matches!(book.state, State::Closed(_))),
            taken: AtomicBool::new(true),
            ledger: Arc::clone(self),
        });
        book.pages.push(Arc::clone(&page));
        page
    }

    /// Shows that an execution of this thread uses the buffers of these bits. Either what is read of the buffers
    /// afterwards shows a change made before, or whoever made the change finds the bits when looking for users.
    #[inline(always)]
    pub(crate) fn pin(self: &Arc<Self>, bits: u64) -> Pin {
        let (page, own) = match page(self) {
            Some(page) => (page, None),
            None => {
                let own = self.take_page();
                (NonNull::from(&*own), Some(OwnPage(own)))
            }
        };
        // SAFETY: the page is this thread's or `own`, and the client lasts for the execution.
        let shown = unsafe { page.as_ref() };
        let before = shown.uses.load(Ordering::Relaxed);
        let depth = shown.depth.load(Ordering::Relaxed) + 1;
        shown.depth.store(depth, Ordering::Release);
        if bits != 0 {
            shown.uses.swap(before | bits, Ordering::SeqCst);
        }
        Pin { page, before, depth, _own: own }
    }

    /// Where this thread notes that outputs are gone.
    #[inline(always)]
    pub(crate) fn account(self: &Arc<Self>) -> Account {
        match page(self) {
            Some(page) => Account(Ok(page)),
            None => Account(Err(Arc::clone(self))),
        }
    }

    /// Whether an execution may use a buffer of that bit, other than the one of `own`.
    pub(crate) fn is_used(&self, bit: u64, own: Option<&Pin>) -> bool {
        self.book().pages.iter().any(|page| {
            let uses = page.uses.load(Ordering::SeqCst);
            // Of its own page, an execution ignores its own part, unless there is another one within it.
            let is_own =
                |pin: &Pin| NonNull::from(&**page) == pin.page && page.depth.load(Ordering::Acquire) == pin.depth;
            own.filter(|pin| is_own(pin)).map_or(uses, |pin| pin.before) & bit != 0
        })
    }

    /// Notes that nothing refers to the owner any more but the outputs of executions; when there are none, frees it.
    pub(crate) fn close(self: Arc<Self>, owner: Owner) {
        {
            let mut book = self.book();
            if matches!(book.state, State::Open) {
                book.state = State::Closed(owner);
                for page in &book.pages {
                    page.closing.store(true, Ordering::SeqCst);
                }
                lingering().push(Arc::clone(&self));
            }
        }
        self.finish();
    }

    /// Frees the owner if it is closed and nothing is left.
    fn finish(self: &Arc<Self>) {
        let mut book = self.book();
        let State::Closed(owner) = book.state else { return };
        // Outputs that are gone stay gone, and while there is no other reference none is made. Where there is one again,
        // made through an output, its end comes here.
        let gone = book.pages.iter().map(|page| page.gone.load(Ordering::SeqCst)).fold(0, usize::wrapping_add);
        let gone = gone.wrapping_add(self.elsewhere.load(Ordering::SeqCst));
        let made = book.pages.iter().map(|page| page.made.load(Ordering::SeqCst)).fold(0, usize::wrapping_add);
        // SAFETY: closed and not gone, so the object is there.
        if gone != made || !unsafe { (owner.is_unused)(owner.object) } {
            return;
        }
        book.state = State::Gone;
        book.pages.clear();
        drop(book);
        lingering().retain(|ledger| !Arc::ptr_eq(ledger, self));
        // SAFETY: V7; this thread alone found it closed and unused.
        unsafe { (owner.free)(owner.object) };
    }
}

impl Pin {
    /// Notes that the execution makes outputs.
    #[inline]
    pub(crate) fn make(&self, count: usize) {
        // SAFETY: the page lasts as long as this.
        Page::add(&unsafe { self.page.as_ref() }.made, count);
    }

    /// Notes that outputs were not made after all.
    #[inline]
    pub(crate) fn unmade(&self, count: usize) {
        // SAFETY: the page lasts as long as this.
        note_gone(unsafe { self.page.as_ref() }, count);
    }
}

impl Drop for Pin {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the page lasts as long as this.
        let page = unsafe { self.page.as_ref() };
        page.uses.store(self.before, Ordering::Release);
        page.depth.store(self.depth - 1, Ordering::Release);
    }
}

/// Where a thread notes that outputs are gone; it does not need the client.
pub(crate) struct Account(Result<NonNull<Page>, Arc<Ledger>>);

impl Account {
    /// Notes that an output is gone, and with it perhaps its client.
    #[inline]
    pub(crate) fn forget_output(self) {
        match self.0 {
            // SAFETY: the page is this thread's.
            Ok(page) => note_gone(unsafe { page.as_ref() }, 1),
            Err(ledger) => {
                ledger.elsewhere.fetch_add(1, Ordering::SeqCst);
                ledger.finish();
            }
        }
    }
}

#[inline]
fn note_gone(page: &Page, count: usize) {
    Page::add(&page.gone, count);
    if page.closing.load(Ordering::SeqCst) {
        settle_page(page);
    }
}

#[cold]
fn settle_page(page: &Page) {
    let ledger = Arc::clone(&page.ledger);
    ledger.finish();
}
