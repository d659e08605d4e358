//! Rules for the dimension numbers and shapes of contractions, reductions, windows, gather and scatter.

use super::elements::{self, INEXACT};
use super::shapes::{
    Extents, agree, all_distinct, distinct, extents, extents_agree, per_dimension, rest, same_extents, tensors, within,
};
use super::site::{Site, ensure};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::*;

pub(super) fn verify(site: &Site<'_>) -> Result<()> {
    match &site.op.kind {
        OpKind::DotGeneral { dimensions, .. } => dot_general(site, dimensions),
        OpKind::Convolution { dimensions, window, feature_group_count, batch_group_count, .. } => {
            convolution(site, dimensions, window, (*feature_group_count, *batch_group_count), true)
        }
        OpKind::Reduce { dimensions } => reduce(site, dimensions),
        OpKind::ReduceWindow { window } => reduce_window(site, window),
        OpKind::SelectAndScatter { window } => {
            let (operand, source) = tensors!(site.operand_tensor(0), site.operand_tensor(1));
            ensure!(Type, operand.element == source.element, "element types of {operand} and {source} differ");
            let shape = windowed(&operand.shape, &window.dimensions, window)?;
            ensure!(
                Shape,
                agree(&source.shape, &shape),
                "the source is {source} but must be {}",
                TensorType::new(shape, source.element)
            );
            Ok(())
        }
        OpKind::Gather { dimensions, slice_sizes, .. } => {
            for &size in slice_sizes {
                ensure!(Attribute, size >= 0, "slice size {size} must not be negative");
            }
            gather(site, dimensions, slice_sizes)
        }
        OpKind::Scatter { dimensions, .. } => scatter(site, dimensions),
        OpKind::Cholesky { .. } => {
            let (operand, result) = tensors!(site.operand_tensor(0), site.slot(0));
            elements::of(operand, INEXACT, "the operand")?;
            result.element_is(operand.element)?;
            square(operand)?;
            result.shape_is(&operand.shape)
        }
        OpKind::TriangularSolve { left_side, .. } => triangular_solve(site, *left_side),
        OpKind::Fft { fft_type, fft_length } => fft(site, *fft_type, fft_length),
        OpKind::RngBitGenerator { .. } => {
            let (operand, state) = tensors!(site.operand_tensor(0), site.slot(0));
            state.shape_is(&operand.shape)?;
            state.element_is(operand.element)
        }
        _ => Ok(()),
    }
}

fn dot_general(site: &Site<'_>, d: &DotDimensions) -> Result<()> {
    let (lhs, rhs, result) = tensors!(site.operand_tensor(0), site.operand_tensor(1), site.slot(0));
    for (left, right, name) in
        [(&d.lhs_batching, &d.rhs_batching, "batching"), (&d.lhs_contracting, &d.rhs_contracting, "contracting")]
    {
        ensure!(
            Shape,
            left.len() == right.len(),
            "the two sides have {} and {} {name} dimensions",
            left.len(),
            right.len()
        );
    }
    for (tensor, batching, contracting, name) in [
        (lhs, &d.lhs_batching, &d.lhs_contracting, "lhs dimensions"),
        (rhs, &d.rhs_batching, &d.rhs_contracting, "rhs dimensions"),
    ] {
        all_distinct(batching.iter().chain(contracting), tensor.rank(), name)?;
    }
    same_extents(lhs, &d.lhs_batching, rhs, &d.rhs_batching)?;
    same_extents(lhs, &d.lhs_contracting, rhs, &d.rhs_contracting)?;
    let mut shape = extents(lhs, &d.lhs_batching);
    for (tensor, batching, contracting) in
        [(lhs, &d.lhs_batching, &d.lhs_contracting), (rhs, &d.rhs_batching, &d.rhs_contracting)]
    {
        shape.extend(rest(&tensor.shape, &[&batching[..], contracting].concat()));
    }
    result.element_may_be(lhs.element);
    result.shape_is(&shape)
}

fn reduce(site: &Site<'_>, dimensions: &[usize]) -> Result<()> {
    let inputs = site.op.operands.len() / 2;
    let first = tensors!(site.operand_tensor(0));
    distinct(dimensions, first.rank(), "dimensions")?;
    for i in 0..inputs {
        let (input, result) = tensors!(site.operand_tensor(i), site.slot(i));
        ensure!(Shape, agree(&input.shape, &first.shape), "inputs {first} and {input} differ in shape");
        let shape: Extents = rest(&input.shape, dimensions).collect();
        result.shape_is(&shape)?;
    }
    Ok(())
}

/// Returns the number of window positions in each dimension of `shape`. `sizes` contains the extents of the window.
fn windowed(shape: &[i64], sizes: &[i64], window: &Window) -> Result<Vec<i64>> {
    let rank = shape.len();
    per_dimension(sizes.len(), rank, "window_dimensions")?;
    per_dimension(window.strides.len(), rank, "window_strides")?;
    per_dimension(window.base_dilations.len(), rank, "base_dilations")?;
    per_dimension(window.window_dilations.len(), rank, "window_dilations")?;
    per_dimension(window.padding.len(), rank, "padding")?;
    (0..rank)
        .map(|d| {
            let (stride, base, dilation) = (window.strides[d], window.base_dilations[d], window.window_dilations[d]);
            ensure!(
                Attribute,
                stride > 0 && base > 0 && dilation > 0,
                "strides and dilations of dimension {d} must be positive"
            );
            let (extent, size) = (shape[d], sizes[d]);
            if extent == DYNAMIC || size == DYNAMIC {
                return Ok(DYNAMIC);
            }
            ensure!(Attribute, size > 0, "window size {size} of dimension {d} must be positive");
            // Compute with 128 bits, because any 64-bit integers may occur in the program.
            let dilate = |size: i64, by: i64| if size == 0 { 0 } else { i128::from(size - 1) * i128::from(by) + 1 };
            let (low, high) = window.padding[d];
            let padded = dilate(extent, base) + i128::from(low) + i128::from(high);
            let span = dilate(size, dilation);
            let positions = if padded <= 0 || span > padded { 0 } else { (padded - span) / i128::from(stride) + 1 };
            i64::try_from(positions).map_err(|_| {
                Error::new(ErrorKind::Limit, format_args!("the window has too many positions in dimension {d}"))
            })
        })
        .collect()
}

fn reduce_window(site: &Site<'_>, window: &Window) -> Result<()> {
    for i in 0..site.op.operands.len() / 2 {
        let (input, result) = tensors!(site.operand_tensor(i), site.slot(i));
        result.shape_is(&windowed(&input.shape, &window.dimensions, window)?)?;
    }
    Ok(())
}

/// Checks a convolution. `padded` is false if the padding is an operand. In that case, the spatial extents of the
/// result are unknown and are not checked.
pub(super) fn convolution(
    site: &Site<'_>,
    d: &ConvDimensions,
    window: &Window,
    (feature_groups, batch_groups): (i64, i64),
    padded: bool,
) -> Result<()> {
    let (input, kernel, result) = tensors!(site.operand_tensor(0), site.operand_tensor(1), site.slot(0));
    // An input and a kernel with different 8-bit floating-point types may be combined.
    let byte_float = |element: ElementType| element.is_float() && element.bit_width() == 8;
    let fits = input.element == kernel.element || (byte_float(input.element) && byte_float(kernel.element));
    ensure!(Type, fits, "element types of {input} and {kernel} differ");
    let all = |first: usize, second: usize, spatial: &[usize]| [&[first, second], spatial].concat();
    for (tensor, dimensions, name) in [
        (input, all(d.input_batch, d.input_feature, &d.input_spatial), "input dimensions"),
        (kernel, all(d.kernel_input_feature, d.kernel_output_feature, &d.kernel_spatial), "kernel dimensions"),
        (input, all(d.output_batch, d.output_feature, &d.output_spatial), "output dimensions"),
    ] {
        // The input and the output have the same rank.
        per_dimension(dimensions.len(), tensor.rank(), name)?;
        distinct(&dimensions, tensor.rank(), name)?;
    }
    let spatial = d.input_spatial.len();
    ensure!(
        Shape,
        d.kernel_spatial.len() == spatial && d.output_spatial.len() == spatial,
        "input, kernel and output have different numbers of spatial dimensions"
    );
    per_dimension(window.reversal.len(), spatial, "window_reversal")?;
    ensure!(Attribute, feature_groups > 0 && batch_groups > 0, "group counts must be positive");
    ensure!(
        Attribute,
        feature_groups == 1 || batch_groups == 1,
        "feature and batch groups cannot both be more than one"
    );
    let (batch, feature) = (input.shape[d.input_batch], input.shape[d.input_feature]);
    let (kernel_in, kernel_out) = (kernel.shape[d.kernel_input_feature], kernel.shape[d.kernel_output_feature]);
    let divides = |extent: i64, groups: i64| extent == DYNAMIC || extent % groups == 0;
    ensure!(
        Shape,
        divides(feature, feature_groups) && divides(kernel_out, feature_groups),
        "features cannot be split into {feature_groups} groups"
    );
    ensure!(
        Shape,
        divides(batch, batch_groups) && divides(kernel_out, batch_groups),
        "batch or kernel cannot be split into {batch_groups} groups"
    );
    let per_group = if feature == DYNAMIC { DYNAMIC } else { feature / feature_groups };
    ensure!(
        Shape,
        extents_agree(per_group, kernel_in),
        "the kernel {kernel} does not take the {per_group} features of {input} per group"
    );
    let positions = windowed(&extents(input, &d.input_spatial), &extents(kernel, &d.kernel_spatial), window)?;
    let mut shape = vec![DYNAMIC; input.rank()];
    shape[d.output_batch] = if batch == DYNAMIC { DYNAMIC } else { batch / batch_groups };
    shape[d.output_feature] = kernel_out;
    for (&dimension, extent) in d.output_spatial.iter().zip(positions) {
        shape[dimension] = if padded { extent } else { DYNAMIC };
    }
    result.element_may_be(input.element);
    result.shape_is(&shape)
}

/// Checks that dimensions are in ascending order.
fn sorted(dimensions: &[usize], name: &str) -> Result<()> {
    ensure!(Attribute, dimensions.is_sorted(), "`{name}` must be sorted, not {dimensions:?}");
    Ok(())
}

/// Checks a gather. A slice size is [`DYNAMIC`] if it is not known before run time.
pub(super) fn gather(site: &Site<'_>, d: &GatherDimensions, slice_sizes: &[i64]) -> Result<()> {
    let (operand, indices, result) = tensors!(site.operand_tensor(0), site.operand_tensor(1), site.slot(0));
    let rank = operand.rank();
    ensure!(Type, indices.element.is_integer(), "indices must be integers, not {indices}");
    result.element_is(operand.element)?;
    per_dimension(slice_sizes.len(), rank, "slice_sizes")?;
    let dropped = [&d.collapsed_slice_dims[..], &d.operand_batching_dims].concat();
    distinct(&dropped, rank, "collapsed_slice_dims and operand_batching_dims")?;
    distinct(
        &[&d.start_index_map[..], &d.operand_batching_dims].concat(),
        rank,
        "start_index_map and operand_batching_dims",
    )?;
    for (&size, &extent) in slice_sizes.iter().zip(&operand.shape) {
        ensure!(Shape, extent == DYNAMIC || size <= extent, "slice size {size} is outside {operand}");
    }
    sorted(&d.offset_dims, "offset_dims")?;
    sorted(&d.collapsed_slice_dims, "collapsed_slice_dims")?;
    sorted(&d.operand_batching_dims, "operand_batching_dims")?;
    for &dimension in &dropped {
        ensure!(
            Attribute,
            slice_sizes[dimension] <= 1,
            "slice size of collapsed dimension {dimension} must be at most 1"
        );
    }
    let batch = index_batch(indices, d.index_vector_dim, d.start_index_map.len(), &d.start_indices_batching_dims)?;
    batching(operand, indices, &d.operand_batching_dims, &d.start_indices_batching_dims)?;
    let offsets: Vec<i64> = rest(slice_sizes, &dropped).collect();
    per_dimension(d.offset_dims.len(), offsets.len(), "offset_dims")?;
    distinct(&d.offset_dims, batch.len() + offsets.len(), "offset_dims")?;
    result.shape_is(&interleave(&batch, &offsets, &d.offset_dims))
}

/// Checks the index vectors, which are in the dimension `vector` and must have `length` components. Returns the extents
/// of the other dimensions of the indices.
fn index_batch(indices: &TensorType, vector: usize, length: usize, batching: &[usize]) -> Result<Vec<i64>> {
    ensure!(Attribute, vector <= indices.rank(), "`index_vector_dim` is {vector}, outside {indices}");
    distinct(batching, indices.rank(), "indices batching dimensions")?;
    ensure!(Attribute, !batching.contains(&vector), "`index_vector_dim` {vector} cannot be a batching dimension");
    let extent = indices.shape.get(vector).copied().unwrap_or(1);
    let fits = extent == DYNAMIC || usize::try_from(extent) == Ok(length);
    ensure!(Shape, fits, "index vectors have {extent} components, but {length} dimensions are indexed");
    Ok(rest(&indices.shape, &[vector]).collect())
}

fn batching(operand: &TensorType, indices: &TensorType, of_operand: &[usize], of_indices: &[usize]) -> Result<()> {
    ensure!(
        Shape,
        of_operand.len() == of_indices.len(),
        "operand and indices have different numbers of batching dimensions"
    );
    same_extents(operand, of_operand, indices, of_indices)
}

/// Returns a shape with the extents `window` at the dimensions `window_dims`, and the extents `batch` at all other
/// dimensions.
fn interleave(batch: &[i64], window: &[i64], window_dims: &[usize]) -> Vec<i64> {
    let (mut batch, mut window) = (batch.iter(), window.iter());
    let total = batch.len() + window.len();
    (0..total).filter_map(|d| if window_dims.contains(&d) { window.next() } else { batch.next() }.copied()).collect()
}

fn scatter(site: &Site<'_>, d: &ScatterDimensions) -> Result<()> {
    let inputs = site.op.operands.len() / 2;
    let (input, indices) = tensors!(site.operand_tensor(0), site.operand_tensor(inputs));
    let rank = input.rank();
    ensure!(Type, indices.element.is_integer(), "indices must be integers, not {indices}");
    sorted(&d.update_window_dims, "update_window_dims")?;
    sorted(&d.inserted_window_dims, "inserted_window_dims")?;
    sorted(&d.input_batching_dims, "input_batching_dims")?;
    let inserted = [&d.inserted_window_dims[..], &d.input_batching_dims].concat();
    distinct(&inserted, rank, "inserted_window_dims and input_batching_dims")?;
    distinct(
        &[&d.scatter_dims_to_operand_dims[..], &d.input_batching_dims].concat(),
        rank,
        "scatter_dims_to_operand_dims and input_batching_dims",
    )?;
    let batch = index_batch(
        indices,
        d.index_vector_dim,
        d.scatter_dims_to_operand_dims.len(),
        &d.scatter_indices_batching_dims,
    )?;
    batching(input, indices, &d.input_batching_dims, &d.scatter_indices_batching_dims)?;
    let bounds: Vec<i64> = rest(&input.shape, &inserted).collect();
    per_dimension(d.update_window_dims.len(), bounds.len(), "update_window_dims")?;
    for i in 0..inputs {
        site.slot(i)?.map_or(Ok(()), |result| result.shape_is(&input.shape))?;
        let (other, update) = tensors!(site.operand_tensor(i), site.operand_tensor(inputs + 1 + i));
        ensure!(Shape, agree(&other.shape, &input.shape), "inputs {input} and {other} differ in shape");
        ensure!(Type, other.element == update.element, "element types of {other} and {update} differ");
        distinct(&d.update_window_dims, update.rank(), "update_window_dims")?;
        per_dimension(batch.len() + bounds.len(), update.rank(), "updates")?;
        let limits = interleave(&batch, &bounds, &d.update_window_dims);
        for (dimension, (&extent, &limit)) in update.shape.iter().zip(&limits).enumerate() {
            // A window of the updates may be smaller than the input, but batch dimensions must have the extents of the
            // indices.
            let window = d.update_window_dims.contains(&dimension);
            let fits = extents_agree(extent, limit) || (window && extent <= limit);
            ensure!(
                Shape,
                fits,
                "dimension {dimension} of updates {update} does not fit inputs {input} and indices {indices}"
            );
        }
    }
    Ok(())
}

fn square(tensor: &TensorType) -> Result<()> {
    match tensor.shape[..] {
        [.., rows, columns] if extents_agree(rows, columns) => Ok(()),
        _ => Err(Error::new(ErrorKind::Type, format_args!("{tensor} must hold square matrices"))),
    }
}

fn triangular_solve(site: &Site<'_>, left_side: bool) -> Result<()> {
    let (a, b, result) = tensors!(site.operand_tensor(0), site.operand_tensor(1), site.slot(0));
    elements::of(a, INEXACT, "operands")?;
    ensure!(Type, a.element == b.element, "element types of {a} and {b} differ");
    result.element_is(a.element)?;
    square(a)?;
    ensure!(Shape, a.rank() == b.rank(), "{a} and {b} differ in rank");
    let rank = a.rank();
    let side = if left_side { rank - 2 } else { rank - 1 };
    let fits = agree(&a.shape[..rank - 2], &b.shape[..rank - 2]) && extents_agree(a.shape[rank - 1], b.shape[side]);
    ensure!(Shape, fits, "{a} cannot be solved for {b}");
    result.shape_is(&b.shape)
}

fn fft(site: &Site<'_>, fft_type: FftType, length: &[i64]) -> Result<()> {
    let (operand, result) = tensors!(site.operand_tensor(0), site.slot(0));
    result.element_is(transformed(operand, fft_type)?)?;
    ensure!(
        Attribute,
        (1..=3).contains(&length.len()),
        "`fft_length` must have one to three entries, not {}",
        length.len()
    );
    let Some(first) = operand.rank().checked_sub(length.len()) else {
        return within(length.len(), operand.rank() + 1, "fft_length");
    };
    let mut shape = operand.shape.clone();
    shape[first..].copy_from_slice(length);
    // The spectrum of a real transform only contains the nonnegative frequencies of the last dimension.
    let half = match length[length.len() - 1] {
        0 => 0,
        last => last / 2 + 1,
    };
    let time = shape.clone();
    if let Some(last) = shape.last_mut() {
        *last = half;
    }
    let (from, to) = match fft_type {
        FftType::Fft | FftType::Ifft => (&time, &time),
        FftType::Rfft => (&time, &shape),
        FftType::Irfft => (&shape, &time),
    };
    let fits = agree(&operand.shape, from);
    ensure!(Shape, fits, "{operand} cannot be transformed with lengths {length:?}");
    result.shape_is(to)
}

/// Returns the element type of a Fourier transform's result.
fn transformed(operand: &TensorType, fft_type: FftType) -> Result<ElementType> {
    let from = operand.element;
    let to = match fft_type {
        FftType::Fft | FftType::Ifft => Some(from).filter(|from| from.is_complex()),
        FftType::Rfft => ElementType::all().find(|to| to.complex_part() == Some(from)),
        FftType::Irfft => from.complex_part(),
    };
    to.ok_or_else(|| Error::new(ErrorKind::Type, format_args!("{fft_type:?} does not support {operand}")))
}
