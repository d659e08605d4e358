//! Errors in programs.

use std::fmt;

/// An error in a program, with its kind and position.
///
/// Match on [`Error::kind`] in code. The message is meant for people, and its wording may change in any release.
///
/// The error has the size of one pointer, so that returning a `Result` costs little in the readers' hot paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Box<Inner>);

/// Category of an error in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A text program does not follow MLIR's grammar.
    Syntax,
    /// The bytes are not well-formed MLIR bytecode or not a well-formed HLO module.
    Encoding,
    /// The version of a portable artifact, of its bytecode format or of one of its ops is outside the supported range.
    Version,
    /// The op does not exist in its dialect.
    UnknownOp,
    /// A value, a function or another name is not defined, is defined twice, or is used outside its scope.
    Reference,
    /// The program or an op has an invalid structure. Examples are a wrong number of operands, results or regions, a
    /// region without a return, and a recursive function.
    Structure,
    /// An attribute is missing, has the wrong type, or has a value that the op does not allow.
    Attribute,
    /// The types violate a constraint of the op, for example because two element types differ.
    Type,
    /// Ranks or extents violate a constraint of the op, or contradict each other.
    Shape,
    /// The program exceeds a limit of this crate, such as the maximum nesting depth.
    Limit,
    /// The program may be valid, but this crate cannot read it, or cannot express it in the requested format.
    Unsupported,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Inner {
    kind: ErrorKind,
    message: String,
    offset: Option<usize>,
    line_column: Option<(usize, usize)>,
    op: Option<String>,
    signature: Option<String>,
    func: Option<String>,
    location: Option<String>,
}

/// `Result` with this crate's [`Error`] as the default error type.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Creates an error without a position.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl fmt::Display) -> Self {
        Self::written(kind, &message)
    }

    /// Formats the message. This function is not generic, so it is compiled once and not for each of the hundreds of
    /// message types.
    #[cold]
    #[inline(never)]
    fn written(kind: ErrorKind, message: &dyn fmt::Display) -> Self {
        let message = message.to_string();
        Self(Box::new(Inner {
            kind,
            message,
            offset: None,
            line_column: None,
            op: None,
            signature: None,
            func: None,
            location: None,
        }))
    }

    /// Creates an error at this byte offset in the program.
    pub(crate) fn at(kind: ErrorKind, offset: usize, message: impl fmt::Display) -> Self {
        Self::written_at(kind, offset, &message)
    }

    #[cold]
    #[inline(never)]
    fn written_at(kind: ErrorKind, offset: usize, message: &dyn fmt::Display) -> Self {
        Self::written(kind, message).with_offset(offset)
    }

    /// Sets the byte offset, unless a more specific offset is already set.
    pub(crate) fn with_offset(mut self, offset: usize) -> Self {
        self.0.offset.get_or_insert(offset);
        self
    }

    /// Adds another way to express the program to the message.
    pub(crate) fn with_remedy(mut self, remedy: &str) -> Self {
        self.0.message = format!("{}; {remedy}", self.0.message);
        self
    }

    /// Sets the name of the op, unless the name of an inner op is already set.
    pub(crate) fn with_op(mut self, op: &str) -> Self {
        self.0.op.get_or_insert_with(|| op.to_owned());
        self
    }

    /// Sets the types and the sharding of the op, unless those of an inner op are already set.
    pub(crate) fn with_signature(mut self, signature: impl FnOnce() -> String) -> Self {
        self.0.signature.get_or_insert_with(signature);
        self
    }

    /// Adds the name of the attribute to the message.
    pub(crate) fn in_attribute(mut self, name: &str) -> Self {
        self.0.message = format!("attribute `{name}`: {}", self.0.message);
        self
    }

    /// Sets the name of the function, unless a name is already set.
    pub(crate) fn with_func(mut self, func: &str) -> Self {
        self.0.func.get_or_insert_with(|| func.to_owned());
        self
    }

    /// Sets the source location that the producer recorded, unless a location is already set.
    pub(crate) fn with_location(mut self, location: String) -> Self {
        if !location.is_empty() {
            self.0.location.get_or_insert(location);
        }
        self
    }

    /// Computes the line and the column of the byte offset in a text program.
    pub(crate) fn with_text(mut self, text: &str) -> Self {
        if let Some(offset) = self.0.offset {
            let before = &text.as_bytes()[..offset.min(text.len())];
            let line_start = before.iter().rposition(|&b| b == b'\n').map_or(0, |p| p + 1);
            let line = before.iter().filter(|&&b| b == b'\n').count() + 1;
            self.0.line_column = Some((line, before.len() - line_start + 1));
        }
        self
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the message, without the name of the op and without the position.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the byte offset in the program at which the error was found. Returns `None` if the error has no
    /// position.
    #[must_use]
    pub fn offset(&self) -> Option<usize> {
        self.0.offset
    }

    /// Returns the line and the column of [`Error::offset`] in a text program. Lines and columns start at 1, and
    /// columns count bytes.
    #[must_use]
    pub fn line_column(&self) -> Option<(usize, usize)> {
        self.0.line_column
    }

    /// Returns the full name of the op that caused the error, such as `stablehlo.add`.
    #[must_use]
    pub fn op(&self) -> Option<&str> {
        self.0.op.as_deref()
    }

    /// Returns the types and the sharding of the op that caused the error, as
    /// [`Op::signature`](crate::ir::Op::signature) does, if the error comes from [`rewrite`](crate::rewrite()),
    /// [`verify`](crate::verify()), [`infer`](crate::infer()) or [`Error::of_op`]. `Display` omits them.
    #[must_use]
    pub fn signature(&self) -> Option<&str> {
        self.0.signature.as_deref()
    }

    /// Returns the symbol name of the function that contains the error.
    #[must_use]
    pub fn func(&self) -> Option<&str> {
        self.0.func.as_deref()
    }

    /// Returns the source location that the producer recorded for the op that caused the error.
    #[must_use]
    pub fn location(&self) -> Option<&str> {
        self.0.location.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let e = &*self.0;
        if let Some(op) = &e.op {
            write!(f, "{op}: ")?;
        }
        f.write_str(&e.message)?;
        let mut places = Vec::new();
        match (e.line_column, e.offset) {
            (Some((line, column)), _) => places.push(format!("line {line}, column {column}")),
            (None, Some(offset)) => places.push(format!("byte {offset}")),
            (None, None) => {}
        }
        if let Some(func) = &e.func {
            places.push(format!("in @{func}"));
        }
        if let Some(location) = &e.location {
            places.push(location.clone());
        }
        if places.is_empty() { Ok(()) } else { write!(f, " ({})", places.join(", ")) }
    }
}

impl std::error::Error for Error {}
