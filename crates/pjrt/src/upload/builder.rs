//! Uploads: transfers of arrays from the host to a device.

use std::borrow::Cow;
use std::fmt;

use bytemuck::AnyBitPattern;
use pjrt_types::{Element, ElementType, HostBufferSemantics, Layout, Shape};

use crate::element;
use crate::error::Error;
use crate::objects::buffer::Buffer;
use crate::objects::owners::Client;
use crate::objects::placement::Placement;
use crate::upload::host_buffer::HostData;
use crate::upload::loan::Loan;

/// An array on the host, and how to transfer it to a device. [`Client::upload`] transfers it.
///
/// Without further options, the array has one dimension and is row-major. It goes to the default memory of the client's
/// first addressable device and gets the plugin's default layout.
///
/// ```
/// use pjrt::{ElementType, Layout, Shape, Upload};
/// # let client = plugin_registry::open("cpu")?.client(&pjrt::ClientOptions::new())?;
///
/// let device = client.default_device()?;
/// let x = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0];
/// // A copy of borrowed elements, in column-major order on the device.
/// let columns = Layout::new(vec![0, 1]);
/// let a = client.upload(Upload::of(&x).dims(&[2, 3]).layout(&columns).to(&device))?;
/// // The first two columns: rows are three elements apart.
/// let b = client.upload(Upload::of(&x).dims(&[2, 2]).strides(0, &[3, 1]))?;
/// assert_eq!(b.to_host::<f32>()?, [1.0, 2.0, 4.0, 5.0]);
/// // Bytes of any element type.
/// let c = client.upload(Upload::of(&[0x38u8; 4]).shape(&Shape::new(ElementType::F8E4M3FN, [4])))?;
/// // Memory that the device may use in place.
/// let d = client.upload(Upload::owned::<f32, _>(vec![0.0; 1024]))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "pass it to `Client::upload`"]
pub struct Upload<'a> {
    start: *const u8,
    /// Size of the data in bytes.
    len: usize,
    element_type: ElementType,
    access: Access,
    /// Owner of the data, if the upload owns it.
    owner: Unsent,
    form: Form<'a>,
    /// Whether the shape and the strides are those of an array, which other options cannot replace.
    is_fixed: bool,
    has_conflict: bool,
    strides: Option<Strides<'a>>,
    layout: Option<&'a Layout>,
    placement: Placement<'a>,
    semantics: Option<HostBufferSemantics>,
}

/// Whose the data is, and who may write it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    /// The caller's. It lives through the call.
    Borrowed,
    /// The upload's. Nobody writes it.
    Owned,
    /// The upload's. The plugin may write it.
    OwnedMut,
}

/// What the caller has said about the shape.
enum Form<'a> {
    /// Nothing, so all elements are one dimension.
    Flat,
    /// The extents.
    Dims(&'a [i64]),
    /// The element type and the extents.
    Shape(Cow<'a, Shape>),
}

/// The offset of the first element, and the stride of each dimension.
enum Strides<'a> {
    Elements(usize, &'a [i64]),
    Bytes(usize, Cow<'a, [i64]>),
}

/// The place of an array's elements in the data.
struct Place<'a> {
    shape: Cow<'a, Shape>,
    /// Offset of the first element in bytes.
    offset: usize,
    /// Strides in bytes. Empty if the array is row-major.
    byte_strides: Cow<'a, [i64]>,
}

/// Data that an upload owns and that the plugin has not received.
struct Unsent(Option<Loan<dyn Send>>);

impl Drop for Unsent {
    fn drop(&mut self) {
        if let Some(loan) = self.0.take() {
            loan.give_back();
        }
    }
}

impl<'a> Upload<'a> {
    fn new(start: *const u8, len: usize, element_type: ElementType, access: Access) -> Self {
        Self {
            start,
            len,
            element_type,
            access,
            owner: Unsent(None),
            form: Form::Flat,
            is_fixed: false,
            has_conflict: false,
            strides: None,
            layout: None,
            placement: Placement::Default,
            semantics: None,
        }
    }

    /// A copy of the elements of `data`. The plugin reads them only during the call of [`Client::upload`].
    pub fn of<T: Element>(data: &'a [T]) -> Self {
        Self::new(data.as_ptr().cast::<u8>(), size_of_val(data), element::type_of::<T>(), Access::Borrowed)
    }

    /// The elements of `data`, such as a `Vec<T>`, an `Arc<[T]>`, a memory-mapped file or a
    /// [`DmaMapping`](crate::DmaMapping). They are not copied if the device can use host memory in place, as CPU
    /// devices can. `data` is dropped when the plugin no longer uses it. The plugin may use it until the buffer is
    /// destroyed, and may drop it on a thread of the plugin.
    ///
    /// CPU devices use the memory in place if it is aligned to 64 bytes. Otherwise they copy it. The crate
    /// `aligned-vec` provides aligned vectors. To check whether the device uses the memory in place, compare its
    /// address with [`Buffer::unsafe_pointer`].
    ///
    /// ```
    /// use aligned_vec::{AVec, avec};
    /// use pjrt::{ElementType, Shape, Upload};
    /// # let client = plugin_registry::open("cpu")?.client(&pjrt::ClientOptions::new())?;
    ///
    /// let weights: AVec<u8> = avec![0x38; 4096];
    /// let address = weights.as_ptr().addr();
    /// let shape = Shape::new(ElementType::F8E4M3FN, [64, 64]);
    /// let buffer = client.upload(Upload::owned::<u8, _>(weights).shape(&shape))?;
    /// assert_eq!(buffer.unsafe_pointer()?, address);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn owned<T: Element, D: AsRef<[T]> + Send + Sync + 'static>(data: D) -> Self {
        let loan = Loan::new(data);
        let elements: &[T] = loan.data().as_ref();
        let (start, len) = (elements.as_ptr().cast::<u8>(), size_of_val(elements));
        let mut upload = Self::new(start, len, element::type_of::<T>(), Access::Owned);
        upload.owner = Unsent(Some(loan.erase()));
        upload
    }

    /// The elements of `data`, in memory that the plugin may use as the buffer's memory. If the buffer is donated to a
    /// program, the program may write to this memory. Otherwise like [`Upload::owned`].
    pub fn owned_mut<T: Element + AnyBitPattern, D: AsMut<[T]> + Send + 'static>(data: D) -> Self {
        let mut loan = Loan::new(data);
        let elements: &mut [T] = loan.data_mut().as_mut();
        let (start, len) = (elements.as_mut_ptr().cast::<u8>().cast_const(), size_of_val(elements));
        let mut upload = Self::new(start, len, element::type_of::<T>(), Access::OwnedMut);
        upload.owner = Unsent(Some(loan.erase()));
        upload
    }

    /// An array in the `len` bytes from `start`. The caller sets its shape with [`Upload::fixed`].
    ///
    /// # Safety
    ///
    /// The elements of that shape are readable, and no code writes them, until `owner` is dropped.
    #[cfg(feature = "dlpack")]
    pub(crate) unsafe fn foreign<D: Send + 'static>(start: *const u8, len: usize, ty: ElementType, owner: D) -> Self {
        let mut upload = Self::new(start, len, ty, Access::Owned);
        upload.owner = Unsent(Some(Loan::new(owner).erase()));
        upload
    }

    /// Sets a shape, and the offset and strides in bytes, that other options cannot replace.
    #[cfg(any(feature = "dlpack", feature = "ndarray"))]
    pub(crate) fn fixed(mut self, shape: Shape, strides: Option<(usize, Vec<i64>)>) -> Self {
        self.form = Form::Shape(Cow::Owned(shape));
        self.strides = strides.map(|(offset, strides)| Strides::Bytes(offset, Cow::Owned(strides)));
        self.is_fixed = true;
        self
    }

    /// Sets the extents of the dimensions. An empty slice means a scalar.
    pub fn dims(mut self, dims: &'a [i64]) -> Self {
        self.form = Form::Dims(dims);
        self.has_conflict |= self.is_fixed;
        self
    }

    /// Sets the element type and the extents. The data then counts as bytes of this element type, in native byte order.
    /// Each element that is smaller than a byte occupies one byte.
    pub fn shape(mut self, shape: &'a Shape) -> Self {
        self.form = Form::Shape(Cow::Borrowed(shape));
        self.has_conflict |= self.is_fixed;
        self
    }

    /// Sets the position of the elements in the data. Element `[i, j, …]` of the array is element `offset + i *
    /// strides[0] + j * strides[1] + …` of the data. Strides may be zero or negative.
    pub fn strides(mut self, offset: usize, strides: &'a [i64]) -> Self {
        self.strides = Some(Strides::Elements(offset, strides));
        self.has_conflict |= self.is_fixed;
        self
    }

    /// Sets the position of the elements in the data like [`Upload::strides`], with an offset and strides that count
    /// bytes.
    pub fn byte_strides(mut self, offset: usize, byte_strides: &'a [i64]) -> Self {
        self.strides = Some(Strides::Bytes(offset, Cow::Borrowed(byte_strides)));
        self.has_conflict |= self.is_fixed;
        self
    }

    /// Sets the layout of the buffer in the device's memory. A layout with tiles or with another order than row-major
    /// requires API 0.115, because some older plugins ignore the layout.
    pub fn layout(mut self, layout: &'a Layout) -> Self {
        self.layout = Some(layout);
        self
    }

    /// Sets the device or the memory that gets the array.
    pub fn to(mut self, placement: impl Into<Placement<'a>>) -> Self {
        self.placement = placement.into();
        self
    }

    /// Sets how long the plugin may use owned data, and whether it may write to the data. With
    /// `ImmutableOnlyDuringCall` and `ImmutableUntilTransferCompletes`, the data is dropped when the transfer has
    /// ended, and [`Client::synchronize`] waits until it is dropped.
    pub fn semantics(mut self, semantics: HostBufferSemantics) -> Self {
        self.semantics = Some(semantics);
        self
    }

    /// Returns the semantics of the transfer, or an error if they do not fit the owner of the data.
    fn chosen_semantics(&self) -> Result<HostBufferSemantics, Error> {
        use HostBufferSemantics::{ImmutableOnlyDuringCall, ImmutableZeroCopy, MutableZeroCopy};
        match (self.access, self.semantics) {
            (Access::Borrowed, None | Some(ImmutableOnlyDuringCall)) => Ok(ImmutableOnlyDuringCall),
            (Access::Borrowed, Some(other)) => Err(Error::invalid(format!(
                "the plugin may use data of {other:?} after the call; give up the data with Upload::owned"
            ))),
            (Access::Owned, Some(MutableZeroCopy)) => {
                Err(Error::invalid("a program may write data of MutableZeroCopy; use Upload::owned_mut"))
            }
            (Access::Owned, chosen) => Ok(chosen.unwrap_or(ImmutableZeroCopy)),
            (Access::OwnedMut, chosen) => Ok(chosen.unwrap_or(MutableZeroCopy)),
        }
    }

    /// Returns the place of the elements in the data, or an error if an element is outside the data.
    fn place(&self) -> Result<Place<'a>, Error> {
        if self.has_conflict {
            return Err(Error::invalid(
                "the array has its own extents and strides; leave out `dims`, `shape`, `strides` and `byte_strides`",
            ));
        }
        let shape = match &self.form {
            Form::Flat => {
                let len = i64::try_from(self.len / self.element_type.host_size()).unwrap_or(i64::MAX);
                Cow::Owned(Shape::new(self.element_type, [len]))
            }
            Form::Dims(dims) => Cow::Owned(Shape::new(self.element_type, *dims)),
            Form::Shape(shape) => shape.clone(),
        };
        // A token has elements of size zero.
        let size = shape.element_type.host_size();
        let elements = self.len / size.max(1);
        match &self.strides {
            None => {
                if matches!(self.form, Form::Shape(_)) {
                    check_bytes(self.len, &shape)?;
                } else {
                    check_count(elements, &shape)?;
                }
                Ok(Place { shape, offset: 0, byte_strides: Cow::Borrowed(&[]) })
            }
            Some(Strides::Elements(offset, strides)) => {
                let byte_strides = check_strides(elements, *offset, &shape, strides)?;
                Ok(Place { shape, offset: offset.saturating_mul(size), byte_strides: Cow::Owned(byte_strides) })
            }
            Some(Strides::Bytes(offset, byte_strides)) => {
                check_byte_strides(self.len, *offset, &shape, byte_strides)?;
                Ok(Place { shape, offset: *offset, byte_strides: byte_strides.clone() })
            }
        }
    }
}

impl fmt::Debug for Upload<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Upload");
        debug.field("bytes", &self.len).field("placement", &self.placement).finish_non_exhaustive()
    }
}

impl Client {
    /// Copies a row-major array to the client's first addressable device. If `dims` is empty, the array is a scalar.
    /// [`Client::upload`] has the other options.
    ///
    /// # Errors
    ///
    /// Returns an error if the number of elements does not match the dimensions.
    pub fn buffer_from_host<T: Element>(&self, data: &[T], dims: &[i64]) -> Result<Buffer, Error> {
        self.upload(Upload::of(data).dims(dims))
    }

    /// Transfers an array to a device. See [`Upload`].
    ///
    /// # Errors
    ///
    /// Returns an error if the size of the data does not match the shape, if the number of strides differs from the
    /// number of dimensions, if an element is outside the data, if the layout does not match the shape, if the
    /// semantics do not fit the owner of the data, or if the device or memory belongs to another client. Returns an
    /// error of kind [`Unsupported`](crate::ErrorKind::Unsupported) if the layout is tiled or not row-major and the
    /// plugin is older than API 0.115. After an error, owned data is dropped.
    #[doc(alias = "PJRT_Client_BufferFromHostBuffer")]
    pub fn upload(&self, mut upload: Upload<'_>) -> Result<Buffer, Error> {
        let semantics = upload.chosen_semantics()?;
        let Place { shape, offset, byte_strides } = upload.place()?;
        // Offset the pointer of the whole data, because elements with negative strides are at lower addresses than
        // `offset`. Use `wrapping_add`, because the pointer may be out of bounds if the array has no elements.
        let data = upload.start.wrapping_add(offset);
        let host = HostData { data, shape: &shape, byte_strides: &byte_strides };
        // SAFETY: C5 (host memory): all elements are within the data, which is borrowed through the call or owned. The
        // plugin reads borrowed data only during the call. Owned data is dropped only when the event is ready. Until
        // then, no other code writes it, and only the plugin uses data that it may write. Every bit pattern of such
        // data is valid.
        let (buffer, done) = unsafe { self.send(&host, semantics, upload.placement, upload.layout) }?;
        if let (Some(done), Some(owner)) = (done, upload.owner.0.take()) {
            match semantics {
                HostBufferSemantics::ImmutableOnlyDuringCall | HostBufferSemantics::ImmutableUntilTransferCompletes => {
                    owner.until(&done);
                }
                // The plugin may use the memory as long as the buffer lives, so `Client::synchronize` must not wait for
                // this event.
                _ => done.lend(owner, |owner, _| owner.give_back()),
            }
        }
        // By contract C5, the plugin does not read the data after a failed call. If there is no event, it does not read
        // the data after the call either. In both cases, dropping `upload` drops owned data.
        buffer
    }
}

/// Returns an error if `len` is not the number of elements of `shape`.
fn check_count(len: usize, shape: &Shape) -> Result<(), Error> {
    let expected = element::count(shape)?;
    if expected == len {
        return Ok(());
    }
    Err(Error::invalid(format!("{shape} has {expected} elements, but the data has {len}")))
}

/// Returns an error if `len` is not the size of `shape` on the host, in bytes.
fn check_bytes(len: usize, shape: &Shape) -> Result<(), Error> {
    let expected = element::host_size(shape)?;
    if expected == len {
        return Ok(());
    }
    Err(Error::invalid(format!("{shape} has {expected} bytes on the host, but the data has {len}")))
}

/// Converts `strides` from elements to bytes. `len` and `offset` count elements. Returns an error if the number of
/// strides differs from the rank, or if an element of the array is outside the `len` elements.
fn check_strides(len: usize, offset: usize, shape: &Shape, strides: &[i64]) -> Result<Vec<i64>, Error> {
    let size = shape.element_type.host_size();
    let in_bytes = |stride: &i64| stride.checked_mul(i64::try_from(size).ok()?);
    let byte_strides = strides.iter().map(in_bytes).collect::<Option<Vec<_>>>();
    let byte_strides = byte_strides.ok_or_else(|| outside(shape, strides))?;
    let (len, offset) = (len.saturating_mul(size), offset.saturating_mul(size));
    // Report the caller's strides in the error message, not the strides in bytes.
    let checked = check_byte_strides(len, offset, shape, &byte_strides);
    checked.map_err(|error| if strides.len() == shape.dimensions.len() { outside(shape, strides) } else { error })?;
    Ok(byte_strides)
}

fn outside(shape: &Shape, strides: &[i64]) -> Error {
    Error::invalid(format!("elements of {shape} with strides {strides:?} lie outside the data"))
}

/// Checks that each dimension has a stride and that every element of the array is within `len` bytes. The first element
/// begins at byte `offset`, and the strides are in bytes.
fn check_byte_strides(len: usize, offset: usize, shape: &Shape, strides: &[i64]) -> Result<(), Error> {
    let rank = shape.dimensions.len();
    if strides.len() != rank {
        return Err(Error::invalid(format!("{shape} has {rank} dimensions, but {} strides", strides.len())));
    }
    let outside = || outside(shape, strides);
    if shape.num_elements().ok_or_else(outside)? == 0 {
        return Ok(());
    }
    let number = |number: usize| i128::try_from(number).map_err(|_| outside());
    let (mut low, mut high) = (number(offset)?, number(offset)? + number(shape.element_type.host_size())?);
    for (extent, stride) in shape.dimensions.iter().zip(strides) {
        let reach = i128::from(extent - 1) * i128::from(*stride);
        low += reach.min(0);
        high += reach.max(0);
    }
    if low < 0 || high > number(len)? { Err(outside()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use pjrt_types::ElementType;

    use super::*;

    #[test]
    fn lengths_must_match() {
        let f32s = |dims: &[i64]| Shape::new(ElementType::F32, dims);
        assert!(check_count(6, &f32s(&[2, 3])).is_ok());
        assert!(check_count(1, &f32s(&[])).is_ok());
        assert!(check_count(0, &f32s(&[0, 5])).is_ok());
        let error = check_count(1, &f32s(&[16])).unwrap_err();
        expect!["f32[16] has 16 elements, but the data has 1"].assert_eq(&error.to_string());
        assert!(check_count(1, &f32s(&[-1])).is_err());
        assert!(check_count(0, &f32s(&[i64::MAX, i64::MAX])).is_err());
        assert!(check_bytes(3, &Shape::new(ElementType::S4, [3])).is_ok());
        assert!(check_bytes(2, &Shape::new(ElementType::S4, [3])).is_err());
    }

    #[test]
    fn strides_must_stay_within() {
        let shape = Shape::new(ElementType::F32, [2, 3]);
        assert_eq!(check_strides(6, 0, &shape, &[3, 1]).unwrap(), [12, 4]);
        assert_eq!(check_strides(6, 5, &shape, &[-3, -1]).unwrap(), [-12, -4]);
        assert_eq!(check_strides(1, 0, &shape, &[0, 0]).unwrap(), [0, 0]);
        assert!(check_strides(5, 0, &shape, &[3, 1]).is_err());
        assert!(check_strides(6, 4, &shape, &[-3, -1]).is_err());
        assert!(check_strides(6, 0, &shape, &[1]).is_err());
        assert!(check_strides(6, 0, &shape, &[i64::MAX, i64::MAX]).is_err());
        assert!(check_strides(0, 0, &Shape::new(ElementType::F32, [0]), &[1]).is_ok());
        assert!(check_strides(usize::MAX, usize::MAX, &shape, &[3, 1]).is_err());
        assert!(check_byte_strides(21, 0, &shape, &[9, 4]).is_ok());
        assert!(check_byte_strides(20, 0, &shape, &[9, 4]).is_err());
        assert!(check_byte_strides(21, 1, &shape, &[9, 4]).is_err());
    }
}
