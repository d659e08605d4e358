//! Arrays with dynamic dimensions, whose actual extents may be smaller than the extents of their shape.

use std::borrow::Cow;
use std::sync::Arc;

use crate::abi::objects::client::extents::Extents;
use crate::abi::objects::client::handle::BufferHandle;
use crate::array_layout::ArrayLayout;
use crate::features::FeatureCalls;
use crate::{Backend, Error, Result, Shape};

/// Asks the backend for the extents of a value that is ready.
pub(super) fn ask<B: Backend>(backend: &B, value: &B::Buffer, shape: &Shape) -> Result<Extents> {
    let given = backend.dynamic_dimensions(value, shape);
    let mut extents = Extents { unpadded: shape.dimensions.clone(), dynamic: Vec::with_capacity(given.len()) };
    for (dimension, extent) in given {
        let bound = extents.unpadded.get_mut(dimension).filter(|_| !extents.dynamic.contains(&dimension));
        let Some(place) = bound.filter(|bound| (0..=**bound).contains(&extent)) else {
            return Err(Error::internal(format!(
                "DynamicShapes::dynamic_dimensions returned the extent {extent} for dimension {dimension} of {shape}"
            )));
        };
        *place = extent;
        extents.dynamic.push(dimension);
    }
    Ok(extents)
}

/// Returns whether the extents of a buffer may differ from those of its shape.
pub(super) fn may_differ<B: Backend>(buffer: &BufferHandle<B>) -> bool {
    buffer.is_dynamic && buffer.layout.stored().is_none()
}

/// Waits until a buffer is ready and returns its actual extents. Returns `None` if the buffer has no dynamic dimensions
/// or is not row-major. In both cases, its extents are those of its shape.
pub(crate) fn of<B: Backend>(buffer: &BufferHandle<B>) -> Result<Option<Arc<Extents>>> {
    if !may_differ(buffer) {
        return Ok(None);
    }
    let (known, address) = (&buffer.client.extents, std::ptr::from_ref(buffer).addr());
    let find = |all: &[(usize, Arc<Extents>)]| {
        all.iter().find(|(known, _)| *known == address).map(|(_, extents)| Arc::clone(extents))
    };
    let found = find(&known.lock());
    if found.is_some() {
        return Ok(found);
    }
    buffer.ready.wait()?;
    let held = buffer.hold()?;
    let extents = Arc::new(ask(&buffer.client.backend, held.value().available()?, &buffer.layout.shape())?);
    let mut all = known.lock();
    // Another thread may have stored the extents in the meantime, and the framework may have pointers into them. Keep
    // the stored extents in this case.
    Ok(Some(find(&all).unwrap_or_else(|| {
        all.push((address, Arc::clone(&extents)));
        extents
    })))
}

/// Returns whether the extents of a buffer are still unknown because the buffer is not ready.
pub(crate) fn are_open<B: Backend>(buffer: &BufferHandle<B>) -> bool {
    may_differ(buffer) && !buffer.ready.is_ready()
}

/// Returns the row-major layout of a value that is ready, with the actual extents of the value.
pub(crate) fn layout_of<B: Backend>(backend: &B, value: &B::Buffer, shape: &Shape) -> Result<ArrayLayout> {
    let extents = ask(backend, value, shape)?;
    Ok(ArrayLayout::row_major(&Shape::new(shape.element_type, extents.unpadded)))
}

/// Returns the layout of the array that a read of the buffer returns, with the actual extents. Returns the declared
/// layout if the buffer has no dynamic dimensions or is not row-major. Also returns it if the extents cannot be
/// determined, because the read then reports the error.
pub(crate) fn readable<B: Backend>(buffer: &BufferHandle<B>) -> Cow<'_, ArrayLayout> {
    match of(buffer) {
        Ok(Some(extents)) => {
            Cow::Owned(ArrayLayout::row_major(&Shape::new(buffer.layout.element_type, extents.unpadded.as_slice())))
        }
        _ => Cow::Borrowed(&buffer.layout),
    }
}
