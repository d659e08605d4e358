//! Descriptions of the functions of the interface and their arguments.

use pjrt_sys::{AbiStruct, PJRT_Extension_Type, Slot};

/// A function of the main table, of an extension, or of an object's table.
pub struct Function {
    /// Name in the header.
    pub name: &'static str,
    /// The extension whose table contains the function, or `None` for the main table.
    pub extension: Option<PJRT_Extension_Type>,
    /// The type of the object whose own table contains the function, such as `PJRT_RawBuffer`. The name of such a function
    /// is `PJRT_RawBuffer_FunctionTable.slice`, and its fields are its parameters and its `result`.
    pub object: Option<&'static str>,
    /// First minor version of the API with this function, or 0 if that is older than 0.29.
    pub since: u32,
    /// Whether the function returns an error.
    pub fallible: bool,
    /// The fields of the args struct, without the size and the extensions that each args struct begins with.
    pub fields: &'static [Field],
    /// The size of the args struct.
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

    /// A function in the table of an object, with a struct for its parameters.
    pub(crate) const fn of_object<T: AbiStruct>(
        object: &'static str,
        fallible: bool,
        fields: &'static [Field],
    ) -> Self {
        let layout = Layout::of::<T>();
        Self { name: T::NAME, extension: None, object: Some(object), since: 0, fallible, fields, layout }
    }

    /// Returns the argument of this name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The object that the function operates on: its first argument, if this is a handle and not an output.
    #[must_use]
    pub fn subject(&self) -> Option<&'static Field> {
        self.fields.first().filter(|field| matches!(field.kind, Kind::Handle(_)) && !field.output)
    }

    /// The kind of object that the function destroys.
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

/// One field of a function's arguments.
#[derive(Debug)]
pub struct Field {
    /// Name in the header.
    pub name: &'static str,
    /// Offset in the arguments, in bytes.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
    /// The kind of content.
    pub kind: Kind,
    /// Whether the plugin writes it.
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
    /// A handle of this type.
    Handle(&'static str),
    /// An array of handles of this type.
    Handles(&'static str),
    /// A pointer to one struct that begins with its size.
    Struct(Layout),
    /// A number of bytes or of elements.
    Size,
    /// Another integer, or a value of an enumeration.
    Integer,
    /// A boolean.
    Bool,
    /// The start of a text whose length is in another field.
    Text,
    /// Any other pointer.
    Pointer,
    /// A struct or union within the arguments.
    Other,
}

/// The sizes of a struct that begins with its size.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Name in the header.
    pub name: &'static str,
    /// The size in this crate's header.
    pub size: usize,
    /// Returns the size in the header of a minor version of the API.
    pub size_at: fn(u32) -> usize,
    /// Returns the number of bytes in the struct of a caller that announces this size.
    pub size_behind: fn(usize) -> usize,
}

impl Layout {
    pub(crate) const fn of<T: AbiStruct>() -> Self {
        Self { name: T::NAME, size: T::STRUCT_SIZE, size_at: T::size_at, size_behind: T::size_behind }
    }
}

/// Creates an item for each function.
pub(crate) trait PerFunction {
    /// The item.
    type Item;
    /// Creates the item of a function.
    fn item<S: ForwardedFunction>() -> Self::Item;
}

/// A function for which this crate has a forwarder.
///
/// # Safety
///
/// `ID` is the position of the function in `generated::FUNCTIONS` and in the result of `generated::for_each_function`, and `EXTENSION` is the
/// extension whose struct is `Table`, or `None` for the main table.
pub unsafe trait ForwardedFunction: Slot<Return: crate::core::Answer> {
    /// Position among all functions.
    const ID: usize;
    /// The extension whose table contains the function, or `None` for the main table.
    const EXTENSION: Option<PJRT_Extension_Type>;
}
