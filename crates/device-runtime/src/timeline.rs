//! The progress of a queue, and the operations that use a block of memory.

// The unit tests run all interleavings of threads. The integration tests use the types of the standard library.
#[cfg(test)]
use loom::sync::{
    Condvar, Mutex,
    atomic::{AtomicU64, Ordering},
};
use std::sync::{Arc, PoisonError, Weak};
#[cfg(not(test))]
use std::sync::{
    Condvar, Mutex,
    atomic::{AtomicU64, Ordering},
};
use std::time::Instant;

/// The number of operations of a queue that have ended. The operations of a queue are numbered from 1 and end in this
/// order.
#[derive(Default)]
pub(crate) struct Timeline {
    ended: AtomicU64,
    /// Held while `ended` changes, so that a waiting thread does not miss the change.
    lock: Mutex<()>,
    changed: Condvar,
}

impl Timeline {
    pub(crate) fn has_ended(&self, work: u64) -> bool {
        self.ended.load(Ordering::Acquire) >= work
    }

    /// Records that all operations up to `work` have ended.
    pub(crate) fn advance(&self, work: u64) {
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.ended.store(work, Ordering::Release);
        drop(guard);
        self.changed.notify_all();
    }

    /// Blocks until `work` has ended.
    pub(crate) fn wait(&self, work: u64) {
        if self.has_ended(work) {
            return;
        }
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.has_ended(work) {
            guard = self.changed.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Blocks until `work` has ended, or until the deadline. Returns whether the operation has ended.
    pub(crate) fn wait_until(&self, work: u64, deadline: Instant) -> bool {
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.has_ended(work) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            guard = self.changed.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

/// An operation of a queue.
pub(crate) struct Point<C> {
    timeline: Arc<Timeline>,
    work: u64,
    /// The queue drops the completion when the operation has ended.
    completion: Weak<C>,
}

impl<C> Clone for Point<C> {
    fn clone(&self) -> Self {
        let (timeline, completion) = (Arc::clone(&self.timeline), Weak::clone(&self.completion));
        Self { timeline, work: self.work, completion }
    }
}

impl<C> Point<C> {
    pub(crate) fn new(timeline: &Arc<Timeline>, work: u64, completion: &Arc<C>) -> Self {
        Self { timeline: Arc::clone(timeline), work, completion: Arc::downgrade(completion) }
    }

    fn has_ended(&self) -> bool {
        self.timeline.has_ended(self.work)
    }

    /// Whether a new operation of the queue with this timeline begins after this operation without waiting for its
    /// completion.
    fn precedes_new_work_of(&self, timeline: &Arc<Timeline>) -> bool {
        Arc::ptr_eq(&self.timeline, timeline) || self.has_ended()
    }
}

/// The operations that may still use a block of memory. A later operation does not replace an earlier one of another
/// queue, although it waits for it. If the later operation fails, it may end first.
pub(crate) struct Uses<C> {
    /// The last operation that writes the memory.
    write: Option<Point<C>>,
    /// The operations that read the memory after the write, and earlier operations that had not ended at the write.
    /// Contains few operations of each queue, because an operation replaces earlier ones of its queue.
    others: Vec<Point<C>>,
}

impl<C> Default for Uses<C> {
    fn default() -> Self {
        Self { write: None, others: Vec::new() }
    }
}

impl<C> Uses<C> {
    /// Returns the operations after which the memory is unused.
    fn last(&self) -> impl Iterator<Item = &Point<C>> {
        self.others.iter().chain(&self.write)
    }

    /// Whether work that is submitted to the queue with this timeline may write the memory without waiting for other
    /// queues.
    pub(crate) fn allow_reuse_by(&self, timeline: &Arc<Timeline>) -> bool {
        self.last().all(|point| point.precedes_new_work_of(timeline))
    }

    /// Whether no operation uses the memory.
    pub(crate) fn have_ended(&self) -> bool {
        self.last().all(Point::has_ended)
    }

    /// Blocks until no operation uses the memory.
    pub(crate) fn wait(&self) {
        self.last().for_each(|point| point.timeline.wait(point.work));
    }

    /// Adds to `after` the completions for which work of the queue with this timeline must wait before it reads the
    /// memory.
    pub(crate) fn before_read(&self, timeline: &Arc<Timeline>, after: &mut Vec<Arc<C>>) {
        add(self.write.iter(), timeline, after);
    }

    /// Adds to `after` the completions for which work of the queue with this timeline must wait before it writes the
    /// memory.
    pub(crate) fn before_write(&self, timeline: &Arc<Timeline>, after: &mut Vec<Arc<C>>) {
        add(self.last(), timeline, after);
    }

    pub(crate) fn add_read(&mut self, point: Point<C>) {
        self.others.retain(|other| !other.precedes_new_work_of(&point.timeline));
        self.others.push(point);
    }

    pub(crate) fn set_write(&mut self, point: Point<C>) {
        self.others.extend(self.write.take());
        self.others.retain(|other| !other.precedes_new_work_of(&point.timeline));
        self.write = Some(point);
    }
}

fn add<'a, C: 'a>(points: impl Iterator<Item = &'a Point<C>>, timeline: &Arc<Timeline>, after: &mut Vec<Arc<C>>) {
    for point in points.filter(|point| !point.precedes_new_work_of(timeline)) {
        if let Some(completion) = point.completion.upgrade()
            && !after.iter().any(|known| Arc::ptr_eq(known, &completion))
        {
            after.push(completion);
        }
    }
}

#[cfg(test)]
mod tests {
    use loom::model::Builder;
    use loom::thread::spawn;

    use super::*;

    /// Memory of a device, which a model writes and reads without synchronization.
    type Data = AtomicU64;

    /// Runs the interleavings of the threads of `test` with at most three preemptions.
    fn model(test: impl Fn() + Send + Sync + 'static) {
        let mut builder = Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(test);
    }

    fn point(timeline: &Arc<Timeline>, work: u64) -> Point<u64> {
        let completion = Arc::new(work);
        let point = Point::new(timeline, work, &completion);
        std::mem::forget(completion);
        point
    }

    fn before(uses: &Uses<u64>, timeline: &Arc<Timeline>, writes: bool) -> Vec<u64> {
        let mut after = Vec::new();
        match writes {
            true => uses.before_write(timeline, &mut after),
            false => uses.before_read(timeline, &mut after),
        }
        after.iter().map(|completion| **completion).collect()
    }

    #[test]
    fn reads_wait_for_write() {
        model(|| {
            let [one, two] = [(); 2].map(|()| Arc::new(Timeline::default()));
            let mut uses = Uses::default();
            assert!(uses.have_ended() && uses.allow_reuse_by(&one));
            uses.set_write(point(&one, 1));
            assert_eq!((before(&uses, &one, false), before(&uses, &two, false)), (vec![], vec![1]));
            assert!(uses.allow_reuse_by(&one) && !uses.allow_reuse_by(&two) && !uses.have_ended());
            one.advance(1);
            assert_eq!(before(&uses, &two, false), [0; 0]);
            assert!(uses.allow_reuse_by(&two) && uses.have_ended());
        });
    }

    #[test]
    fn write_waits_for_last_reads() {
        model(|| {
            let [one, two, three] = [(); 3].map(|()| Arc::new(Timeline::default()));
            let mut uses = Uses::default();
            uses.set_write(point(&one, 1));
            uses.add_read(point(&two, 10));
            uses.add_read(point(&two, 11));
            assert_eq!((before(&uses, &two, true), before(&uses, &three, true)), (vec![1], vec![11, 1]));
            uses.add_read(point(&one, 2));
            assert_eq!(before(&uses, &three, true), [11, 2, 1]);
            assert!(!uses.allow_reuse_by(&one) && !uses.allow_reuse_by(&two));
            two.advance(11);
            assert!(uses.allow_reuse_by(&one) && !uses.allow_reuse_by(&two));
            uses.set_write(point(&three, 20));
            // The write of the third queue may fail before the read of the first one has ended.
            assert_eq!((before(&uses, &three, true), before(&uses, &one, true)), (vec![2, 1], vec![20]));
            assert_eq!((before(&uses, &three, false), before(&uses, &two, true)), (vec![], vec![2, 1, 20]));
            three.advance(20);
            assert!(!uses.have_ended() && !uses.allow_reuse_by(&three) && uses.allow_reuse_by(&one));
            one.advance(2);
            assert!(uses.have_ended() && uses.allow_reuse_by(&three));
        });
    }

    /// A read that fails at once does not replace the write that it waited for.
    #[test]
    fn failed_read_keeps_write() {
        model(|| {
            let [one, two] = [(); 2].map(|()| Arc::new(Timeline::default()));
            let mut uses = Uses::default();
            uses.set_write(point(&one, 1));
            uses.add_read(point(&two, 1));
            two.advance(1);
            assert_eq!(before(&uses, &two, true), [1]);
            assert!(!uses.have_ended() && !uses.allow_reuse_by(&two));
        });
    }

    #[test]
    fn wait_ends_at_deadline() {
        model(|| {
            let timeline = Timeline::default();
            assert!(!timeline.wait_until(1, Instant::now()));
            timeline.advance(1);
            assert!(timeline.wait_until(1, Instant::now()));
            timeline.wait(1);
        });
    }

    /// No waiting thread misses the end of an operation, and it sees what the operation wrote.
    #[test]
    fn all_threads_see_the_end() {
        model(|| {
            let (timeline, data) = (Arc::new(Timeline::default()), Arc::new(Data::new(0)));
            let waits = [1, 2].map(|work| {
                let (timeline, data) = (Arc::clone(&timeline), Arc::clone(&data));
                spawn(move || {
                    timeline.wait(work);
                    assert!(data.load(Ordering::Relaxed) >= work);
                })
            });
            for work in [1, 2] {
                data.store(work, Ordering::Relaxed);
                timeline.advance(work);
            }
            waits.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }

    /// A thread that finds memory unused without waiting also sees what the last operation wrote.
    #[test]
    fn unused_memory_is_not_written() {
        model(|| {
            let (timeline, data) = (Arc::new(Timeline::default()), Arc::new(Data::new(0)));
            let mut uses = Uses::default();
            uses.set_write(point(&timeline, 1));
            let (queue, written) = (Arc::clone(&timeline), Arc::clone(&data));
            let thread = spawn(move || {
                written.store(1, Ordering::Relaxed);
                queue.advance(1);
            });
            let other = Arc::new(Timeline::default());
            if uses.have_ended() {
                assert_eq!((data.load(Ordering::Relaxed), before(&uses, &other, true).len()), (1, 0));
            }
            uses.wait();
            assert_eq!(data.load(Ordering::Relaxed), 1);
            thread.join().unwrap();
        });
    }
}
