//! Copies of a call's arguments, which replace the caller's arguments on the way to the plugin.

use crate::core::memory;

/// Number of words of a frame. The largest struct of arguments or options in the current header is smaller, so that
/// structs of later versions also fit.
const WORDS: usize = 64;

/// A copy of a call's arguments with another size or other pointers.
#[derive(Debug)]
pub(in crate::core) struct Frame {
    words: [u64; WORDS],
    /// The arguments that the frame replaces, and the number of their known bytes.
    caller: (*mut u8, usize),
    /// Offsets of the pointers that were replaced, with the original values.
    replaced: Vec<(usize, usize)>,
    /// Copies of structs to which the arguments point.
    structs: Vec<Box<[u64]>>,
    /// Copies of bytes to which the arguments or the copied structs point.
    kept: Vec<Box<[u8]>>,
    /// The frame that this frame replaces.
    outer: Option<Box<Frame>>,
}

impl Frame {
    /// Copies the arguments to a struct that announces `size`.
    ///
    /// # Safety
    ///
    /// The arguments must be readable for `known` bytes, and writable for `known` bytes until the frame is restored.
    pub(in crate::core) unsafe fn new(args: *mut u8, known: usize, size: usize, outer: Option<Box<Self>>) -> Box<Self> {
        let mut words = [0; WORDS];
        let copied = known.min(size).min(size_of_val(&words));
        // SAFETY: this function's contract: `args` is readable for this size, and `words` has at least this size.
        unsafe { memory::copy(args, words.as_mut_ptr().cast(), copied) };
        words[0] = announce(size);
        Box::new(Self {
            words,
            caller: (args, known),
            replaced: Vec::new(),
            structs: Vec::new(),
            kept: Vec::new(),
            outer,
        })
    }

    pub(in crate::core) fn args(&mut self) -> *mut u8 {
        self.words.as_mut_ptr().cast()
    }

    pub(in crate::core) fn announced(&self) -> usize {
        usize::try_from(self.words[0]).unwrap_or(0)
    }

    pub(in crate::core) fn depth(&self) -> usize {
        1 + self.outer.as_ref().map_or(0, |outer| outer.depth())
    }

    /// Replaces the pointer at the byte offset `offset` with `value`.
    pub(in crate::core) fn replace(&mut self, offset: usize, value: usize) {
        let Some(word) = self.words.get_mut(offset / size_of::<u64>()) else { return };
        self.replaced.push((offset, usize::try_from(*word).unwrap_or(0)));
        *word = value as u64;
    }

    /// Adds a copy of the struct at `from` and sets the size in the copy to `size`. Returns the address of the copy.
    ///
    /// # Safety
    ///
    /// `from` must be readable for `known` bytes.
    pub(in crate::core) unsafe fn add(&mut self, from: *const u8, known: usize, size: usize) -> usize {
        let mut words: Box<[u64]> = Box::new([0; WORDS]);
        // SAFETY: this function's contract: `from` is readable for this size, and `words` has at least this size.
        unsafe { memory::copy(from, words.as_mut_ptr().cast(), known.min(size).min(size_of_val(&*words))) };
        words[0] = announce(size);
        let address = words.as_mut_ptr().expose_provenance();
        self.structs.push(words);
        address
    }

    /// Sets the word at the byte offset `offset` in the struct that the last call of [`Self::add`] copied.
    pub(in crate::core) fn set_in_newest(&mut self, offset: usize, value: usize) {
        let words = self.structs.last_mut().map_or(&mut [][..], |words| &mut words[..]);
        if let Some(word) = words.get_mut(offset / size_of::<u64>()) {
            *word = value as u64;
        }
    }

    /// Keeps words, and returns their address. They live as long as the frame.
    pub(in crate::core) fn keep_words(&mut self, words: Vec<u64>) -> usize {
        let words = words.into_boxed_slice();
        let address = words.as_ptr().expose_provenance();
        self.structs.push(words);
        address
    }

    /// Copies bytes, and returns the address of the copy. The copy lives as long as the frame. A zero byte follows it,
    /// because MLIR's parser in many builds of XLA reads the byte after the end of a string.
    pub(in crate::core) fn keep(&mut self, bytes: &[u8]) -> usize {
        let bytes: Box<[u8]> = bytes.iter().copied().chain([0]).collect();
        let address = bytes.as_ptr().expose_provenance();
        self.kept.push(bytes);
        address
    }

    /// Copies the results back to the caller's arguments, whose size and pointers do not change. Returns the caller's
    /// arguments, their known size, and the frame that this frame replaced.
    ///
    /// # Safety
    ///
    /// The caller's arguments must be writable for their known size.
    pub(in crate::core) unsafe fn restore(mut self: Box<Self>) -> (*mut u8, usize, Option<Box<Self>>) {
        const HEAD: usize = 2 * size_of::<usize>();
        while let Some((offset, value)) = self.replaced.pop() {
            self.words[offset / size_of::<u64>()] = value as u64;
        }
        let (args, known) = self.caller;
        let size = known.min(self.announced()).min(size_of_val(&self.words));
        let from = self.args();
        if size > HEAD {
            // SAFETY: this function's contract. The copy does not overwrite the caller's size and extensions, which end
            // at `HEAD`.
            unsafe { memory::copy(from.wrapping_add(HEAD), args.wrapping_add(HEAD), size - HEAD) };
        }
        (args, known, self.outer.take())
    }
}

/// Returns the first word of a struct of this size. The result is at most the size of a frame.
fn announce(size: usize) -> u64 {
    size.min(WORDS * size_of::<u64>()) as u64
}
