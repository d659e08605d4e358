//! Matrix multiplication, linear algebra, transforms, indexing and random numbers.

use std::panic::Location;

use super::function::FunctionBuilder;
use super::options::{Convolution, DotGeneral, Gather};
use super::state::{NewOp, Types};
use super::value::Value;
use crate::error::{ErrorKind, Result};
use crate::ir::*;

fn types(element: Option<ElementType>) -> Types {
    element.map_or(Types::Inferred, Types::Elements)
}

impl FunctionBuilder {
    /// Multiplies matrices or vectors. Contracts the last dimension of `x` with the first dimension of `y`. Adds a
    /// `dot_general`, which replaces the op `dot` of earlier StableHLO versions.
    ///
    /// # Errors
    ///
    /// Returns an error if an operand is neither a vector nor a matrix, or if the contracted extents differ.
    #[track_caller]
    pub fn dot(&self, x: Value, y: Value) -> Result<Value> {
        let at = Location::caller();
        let kind = self.kind(at, "dot", &[], &[x, y])?;
        self.one(at, kind, &[x, y], Types::Inferred)
    }

    /// Multiplies tensors. Sums over the contracting dimensions, separately for each index of the batching dimensions.
    ///
    /// ```
    /// use stablehlo::builder::{DotGeneral, ModuleBuilder};
    /// use stablehlo::ir::{ElementType, TensorType};
    ///
    /// let module = ModuleBuilder::new("attention");
    /// module.function("main", |f| {
    ///     let heads = TensorType::new([8, 64, 32], ElementType::F32);
    ///     let (query, key) = (f.argument(&heads)?, f.argument(&heads)?);
    ///     f.dot_general(query, key, DotGeneral::new().batching([0], [0]).contracting([2], [2]))
    /// })?;
    /// # module.build()?;
    /// # Ok::<(), stablehlo::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the dimension numbers do not fit the operands.
    #[track_caller]
    pub fn dot_general(&self, x: Value, y: Value, options: DotGeneral) -> Result<Value> {
        let algorithm = options.algorithm.map(|algorithm| ("algorithm".to_owned(), algorithm.attribute()));
        let new = NewOp {
            kind: OpKind::DotGeneral { dimensions: options.dimensions, precision: options.precision },
            regions: Vec::new(),
            attributes: algorithm.into_iter().collect(),
            types: types(options.element),
        };
        self.single(Location::caller(), &[x, y], new)
    }

    /// Convolves an input with a kernel.
    ///
    /// # Errors
    ///
    /// Returns an error if the dimension numbers, the window or the group counts do not fit the operands.
    #[track_caller]
    pub fn convolution(&self, input: Value, kernel: Value, options: Convolution) -> Result<Value> {
        let kind = OpKind::Convolution {
            dimensions: Box::new(options.dimensions),
            window: Box::new(options.window),
            feature_group_count: options.feature_group_count,
            batch_group_count: options.batch_group_count,
            precision: options.precision,
        };
        self.one(Location::caller(), kind, &[input, kernel], types(options.element))
    }

    /// Gathers slices that start at indices known only at run time.
    ///
    /// ```
    /// use stablehlo::builder::{Gather, ModuleBuilder};
    /// use stablehlo::ir::{ElementType, TensorType};
    ///
    /// let module = ModuleBuilder::new("embedding");
    /// module.function("main", |f| {
    ///     let table = f.argument(TensorType::new([100, 16], ElementType::F32))?;
    ///     let tokens = f.argument(TensorType::new([5], ElementType::I32))?;
    ///     // Row `tokens[i]` of the table.
    ///     let rows = Gather::new([1, 16])
    ///         .offset_dims([1])
    ///         .collapsed_slice_dims([0])
    ///         .start_index_map([0])
    ///         .index_vector_dim(1usize);
    ///     f.gather(table, tokens, rows)
    /// })?;
    /// # module.build()?;
    /// # Ok::<(), stablehlo::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the dimension numbers do not fit the operands.
    #[track_caller]
    pub fn gather(&self, operand: Value, start_indices: Value, options: Gather) -> Result<Value> {
        let kind = OpKind::Gather {
            dimensions: Box::new(options.dimensions),
            slice_sizes: options.slice_sizes,
            indices_are_sorted: options.indices_are_sorted,
        };
        self.one(Location::caller(), kind, &[operand, start_indices], Types::Inferred)
    }

    /// Computes the Cholesky decomposition of a batch of matrices. Reads and returns the lower triangles if `lower` is
    /// true, and the upper triangles otherwise.
    ///
    /// # Errors
    ///
    /// Returns an error if the matrices are not square.
    #[track_caller]
    pub fn cholesky(&self, x: Value, lower: bool) -> Result<Value> {
        self.one(Location::caller(), OpKind::Cholesky { lower }, &[x], Types::Inferred)
    }

    /// Solves linear equations for `x`. The equations are `op(a) * x = b` if `left_side` is true, and `x * op(a) = b`
    /// otherwise. `a` contains triangular matrices. `transpose_a` selects `op`, which is the identity, the transpose or
    /// the adjoint. `lower` selects the triangle of `a` that is read. If `unit_diagonal` is true, the elements on the
    /// diagonal of `a` are taken to be 1.
    ///
    /// # Errors
    ///
    /// Returns an error if the matrices in `a` are not square, or if their shape does not fit `b`.
    #[track_caller]
    pub fn triangular_solve(
        &self,
        a: Value,
        b: Value,
        left_side: bool,
        lower: bool,
        unit_diagonal: bool,
        transpose_a: TransposeA,
    ) -> Result<Value> {
        let kind = OpKind::TriangularSolve { left_side, lower, transpose_a, unit_diagonal };
        self.one(Location::caller(), kind, &[a, b], Types::Inferred)
    }

    /// Computes the Fourier transform along the last one to three dimensions. `fft_length` contains the length of each
    /// transformed dimension.
    ///
    /// # Errors
    ///
    /// Returns an error if the lengths or the element type do not fit the operand.
    #[track_caller]
    pub fn fft(&self, x: Value, fft_type: FftType, fft_length: &[i64]) -> Result<Value> {
        let kind = OpKind::Fft { fft_length: fft_length.to_vec(), fft_type };
        self.one(Location::caller(), kind, &[x], Types::Inferred)
    }

    /// Creates random numbers of this shape. The distribution is uniform between the bounds `a` and `b`, or normal with
    /// the mean `a` and the standard deviation `b`. The device keeps the state of the generator, so the numbers are not
    /// reproducible. Also adds a constant that holds the shape.
    ///
    /// # Errors
    ///
    /// Returns an error if `a` and `b` are not scalars of the same type.
    #[track_caller]
    pub fn rng(&self, a: Value, b: Value, shape: &[i64], distribution: RngDistribution) -> Result<Value> {
        let at = Location::caller();
        let ty = self.tensor_of("stablehlo.rng", at, a)?;
        let rank = i64::try_from(shape.len()).unwrap_or(i64::MAX);
        let literal = Literal::from_slice(shape, &[rank]).map_err(|e| self.place(e, "stablehlo.rng", at))?;
        let extents = TensorType::new([rank], ElementType::I64);
        let shape_value = self.one(at, OpKind::Constant(literal), &[], Types::one(extents))?;
        self.one(at, OpKind::Rng { distribution }, &[a, b, shape_value], Types::one(TensorType::new(shape, ty.element)))
    }

    /// Creates a tensor of this type with random bits. Returns the next state of the generator and the random bits.
    ///
    /// # Errors
    ///
    /// Returns an error if the elements of the type are not numbers.
    #[track_caller]
    pub fn rng_bit_generator(&self, state: Value, algorithm: RngAlgorithm, ty: TensorType) -> Result<(Value, Value)> {
        let at = Location::caller();
        let state_type = self.types_of("stablehlo.rng_bit_generator", at, &[state])?.remove(0);
        let new = NewOp {
            kind: OpKind::RngBitGenerator { algorithm },
            regions: Vec::new(),
            attributes: Attributes::new(),
            types: Types::Stated([state_type, ty.into()].into_iter().collect()),
        };
        let results = self.push_op(at, &[state], new)?;
        match results[..] {
            [state, bits] => Ok((state, bits)),
            _ => Err(self.error(ErrorKind::Structure, "rng_bit_generator", at, "must have two results")),
        }
    }

    /// Normalizes a batch for inference. `scale`, `offset`, `mean` and `variance` have one element for each feature.
    /// `epsilon` is added to the variance, and `feature_index` is the feature dimension of `x`.
    ///
    /// # Errors
    ///
    /// Returns an error if `scale`, `offset`, `mean` or `variance` does not have one element for each feature.
    #[track_caller]
    #[expect(clippy::too_many_arguments, reason = "the operands of the specification")]
    pub fn batch_norm_inference(
        &self,
        x: Value,
        scale: Value,
        offset: Value,
        mean: Value,
        variance: Value,
        epsilon: f32,
        feature_index: usize,
    ) -> Result<Value> {
        let operands = [x, scale, offset, mean, variance];
        let kind = OpKind::BatchNormInference { epsilon, feature_index };
        self.one(Location::caller(), kind, &operands, Types::Inferred)
    }

    /// Normalizes a batch for training. Returns the normalized batch, the mean for each feature and the variance for
    /// each feature.
    ///
    /// # Errors
    ///
    /// Returns an error if `scale` or `offset` does not have one element for each feature.
    #[track_caller]
    pub fn batch_norm_training(
        &self,
        x: Value,
        scale: Value,
        offset: Value,
        epsilon: f32,
        feature_index: usize,
    ) -> Result<[Value; 3]> {
        let operands = [x, scale, offset];
        self.batch_norm(Location::caller(), OpKind::BatchNormTraining { epsilon, feature_index }, &operands)
    }

    /// Computes the gradients of a batch normalization with respect to the operand, the scale and the offset.
    ///
    /// # Errors
    ///
    /// Returns an error if `scale`, `mean` or `variance` does not have one element for each feature, or if
    /// `grad_output` does not have the shape of `x`.
    #[track_caller]
    #[expect(clippy::too_many_arguments, reason = "the operands of the specification")]
    pub fn batch_norm_grad(
        &self,
        x: Value,
        scale: Value,
        mean: Value,
        variance: Value,
        grad_output: Value,
        epsilon: f32,
        feature_index: usize,
    ) -> Result<[Value; 3]> {
        let operands = [x, scale, mean, variance, grad_output];
        self.batch_norm(Location::caller(), OpKind::BatchNormGrad { epsilon, feature_index }, &operands)
    }

    fn batch_norm(&self, at: super::state::At, kind: OpKind, operands: &[Value]) -> Result<[Value; 3]> {
        let name = kind.base_name();
        let new = NewOp { kind, regions: Vec::new(), attributes: Attributes::new(), types: Types::Inferred };
        let results = self.push_op(at, operands, new)?;
        results[..].try_into().map_err(|_| self.error(ErrorKind::Structure, name, at, "must have 3 results"))
    }
}
