//! Descriptions of the functions of the PJRT C API and of their arguments.

use pjrt_sys::{AbiStruct, PJRT_Extension_Type, Slot};

/// Description of a function in the main table, in an extension, or in an object's function table.
pub struct Function {
    /// Name in the header.
    pub name: &'static str,
    /// The extension whose table contains the function, or `None` for the main table.
    pub extension: Option<PJRT_Extension_Type>,
    /// If an object's table contains the function, the type of this object, such as `PJRT_RawBuffer`. `None` for
    /// functions in the main table or in an extension. The name of a function in an object's table contains the name of
    /// the table, for example `PJRT_RawBuffer_FunctionTable.slice`. Its fields are its parameters and its `result`.
    pub object: Option<&'static str>,
    /// First minor version of the API that contains this function, or 0 if the version is older than 0.29.
    pub since: u32,
    /// Whether the function can return an error.
    pub fallible: bool,
    /// The fields of the args struct, except for `struct_size` and `extension_start`, which are the first fields of
    /// each args struct.
    pub fields: &'static [Field],
    /// The name and the sizes of the args struct.
    pub layout: Layout,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Function {
    pub(crate) const fn of<S: ForwardedFunction>(fallible: bool, fields: &'static [Field]) -> Self {
        let layout = Layout::of::<S::Args>();
        Self { name: S::NAME, extension: S::EXTENSION, object: None, since: S::SINCE, fallible, fields, layout }
    }

    /// Describes a function in the table of an object. `T` is the struct for its parameters.
    pub(crate) const fn of_object<T: AbiStruct>(
        object: &'static str,
        fallible: bool,
        fields: &'static [Field],
    ) -> Self {
        let layout = Layout::of::<T>();
        Self { name: T::NAME, extension: None, object: Some(object), since: 0, fallible, fields, layout }
    }

    /// Returns the argument with this name, if the function has it.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Returns the field of the object that the function operates on. This is the first field if it is a handle and an
    /// input. Otherwise, returns `None`.
    #[must_use]
    pub fn subject(&self) -> Option<&'static Field> {
        self.fields.first().filter(|field| matches!(field.kind, Kind::Handle(_)) && !field.output)
    }

    /// Returns the type of the object that the function destroys, or `None` if it does not destroy an object.
    #[must_use]
    pub fn destroys(&self) -> Option<&'static str> {
        if self.object.is_some() {
            return self.object.filter(|_| self.name.ends_with(".destroy"));
        }
        let kind = self.name.strip_suffix("_Destroy")?;
        match self.subject()?.kind {
            Kind::Handle(name) if name == kind => Some(name),
            _ => None,
        }
    }
}

/// A field of a function's args struct.
#[derive(Debug)]
pub struct Field {
    /// Name in the header.
    pub name: &'static str,
    /// Offset in the args struct, in bytes.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
    /// The kind of the field's content.
    pub kind: Kind,
    /// Whether the plugin writes the field.
    pub output: bool,
}

impl Field {
    pub(crate) const fn new(name: &'static str, offset: usize, size: usize, kind: Kind, output: bool) -> Self {
        Self { name, offset, size, kind, output }
    }
}

/// The content of a field.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A handle of the named type.
    Handle(&'static str),
    /// An array of handles of the named type.
    Handles(&'static str),
    /// A pointer to one struct that begins with its size.
    Struct(Layout),
    /// A count of bytes or elements.
    Size,
    /// An integer other than a count, or a value of an enumeration.
    Integer,
    /// A boolean.
    Bool,
    /// A pointer to a string whose length is in another field.
    Text,
    /// Any other pointer.
    Pointer,
    /// A struct or union that the args struct contains by value.
    Other,
}

/// Name and sizes of a C struct whose first field is its size.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Name in the header.
    pub name: &'static str,
    /// The size in bytes in the header from which this crate was generated.
    pub size: usize,
    /// Returns the struct's size in bytes in the header of a minor version of the API.
    pub size_at: fn(u32) -> usize,
    /// Converts the size that a caller's struct announces to the actual size in bytes. The two differ for some old
    /// headers, which announce a wrong size.
    pub size_behind: fn(usize) -> usize,
}

impl Layout {
    pub(crate) const fn of<T: AbiStruct>() -> Self {
        Self { name: T::NAME, size: T::STRUCT_SIZE, size_at: T::size_at, size_behind: T::size_behind }
    }
}

/// Creates a value for each [`ForwardedFunction`].
pub(crate) trait PerFunction {
    /// The type of the value.
    type Item;
    /// Creates the value for the function `S`.
    fn item<S: ForwardedFunction>() -> Self::Item;
}

/// A function for which this crate has a forwarder.
///
/// # Safety
///
/// `ID` must be the index of the function in `generated::FUNCTIONS` and in the result of
/// `generated::for_each_function`. `EXTENSION` must be the extension whose struct is `Table`, or `None` if `Table` is
/// the main table.
pub unsafe trait ForwardedFunction: Slot<Return: crate::core::Answer> {
    /// Index of the function in `generated::FUNCTIONS`.
    const ID: usize;
    /// The extension whose table contains the function, or `None` for the main table.
    const EXTENSION: Option<PJRT_Extension_Type>;
}
