//! Options for the builder methods of ops with many attributes.

use crate::ir::*;

/// Generates methods that set one field each. Each method takes and returns the options by value.
macro_rules! setters {
    ($($(#[doc = $doc:literal])+ $name:ident($($field:ident).+): $ty:ty;)*) => {
        $(
            $(#[doc = $doc])+
            #[must_use]
            pub fn $name(mut self, $name: impl Into<$ty>) -> Self {
                self.$($field).+ = $name.into();
                self
            }
        )*
    };
}

fn dims(list: impl AsRef<[usize]>) -> Dims {
    list.as_ref().into()
}

/// Attributes of `dot_general`.
#[derive(Clone, Debug)]
pub struct DotGeneral {
    pub(super) dimensions: DotDimensions,
    pub(super) precision: [Precision; 2],
    pub(super) algorithm: Option<DotAlgorithm>,
    pub(super) element: Option<ElementType>,
}

impl DotGeneral {
    /// Creates the options of an outer product, which has no contracting and no batching dimensions.
    #[must_use]
    pub fn new() -> Self {
        Self {
            dimensions: DotDimensions::default(),
            precision: [Precision::Default; 2],
            algorithm: None,
            element: None,
        }
    }

    /// Sets the dimensions of the left and of the right operand over which the products are summed.
    #[must_use]
    pub fn contracting(mut self, lhs: impl AsRef<[usize]>, rhs: impl AsRef<[usize]>) -> Self {
        (self.dimensions.lhs_contracting, self.dimensions.rhs_contracting) = (dims(lhs), dims(rhs));
        self
    }

    /// Sets the batching dimensions of the left and of the right operand. The op multiplies the slices at each index of
    /// these dimensions separately.
    #[must_use]
    pub fn batching(mut self, lhs: impl AsRef<[usize]>, rhs: impl AsRef<[usize]>) -> Self {
        (self.dimensions.lhs_batching, self.dimensions.rhs_batching) = (dims(lhs), dims(rhs));
        self
    }

    setters! {
        /// Sets the precision of the left and of the right operand.
        precision(precision): [Precision; 2];
        /// Sets the algorithm. With an algorithm, the precision must be the default precision.
        algorithm(algorithm): Option<DotAlgorithm>;
        /// Sets the element type of the result. The default is the element type of the left operand.
        result_element(element): Option<ElementType>;
    }
}

impl Default for DotGeneral {
    fn default() -> Self {
        Self::new()
    }
}

/// Algorithm of a `dot_general`.
#[derive(Clone, Debug)]
pub struct DotAlgorithm {
    types: [ElementType; 3],
    primitive_operations: i64,
    imprecise: bool,
}

impl DotAlgorithm {
    /// Creates an algorithm with one primitive operation. It rounds the left operand to the type `lhs` and the right
    /// operand to the type `rhs`, and accumulates in the type `accumulation`.
    #[must_use]
    pub fn new(lhs: ElementType, rhs: ElementType, accumulation: ElementType) -> Self {
        Self { types: [lhs, rhs, accumulation], primitive_operations: 1, imprecise: false }
    }

    setters! {
        /// Sets the number of primitive dot products whose sum is the result (`num_primitive_operations`).
        primitive_operations(primitive_operations): i64;
        /// Sets whether sums may be less precise than the accumulation type.
        allow_imprecise_accumulation(imprecise): bool;
    }

    pub(super) fn attribute(&self) -> Attribute {
        let [lhs, rhs, accumulation] = self.types;
        Attribute::Other(format!(
            "#stablehlo.dot_algorithm<lhs_precision_type = {lhs}, rhs_precision_type = {rhs}, accumulation_type = \
             {accumulation}, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = {}, \
             allow_imprecise_accumulation = {}>",
            self.primitive_operations, self.imprecise,
        ))
    }
}

/// Attributes of `convolution` and `dynamic_conv`.
#[derive(Clone, Debug)]
pub struct Convolution {
    pub(super) dimensions: ConvDimensions,
    pub(super) window: Window,
    pub(super) feature_group_count: i64,
    pub(super) batch_group_count: i64,
    pub(super) precision: [Precision; 2],
    pub(super) element: Option<ElementType>,
}

impl Convolution {
    /// Creates the options of a convolution over `spatial` spatial dimensions. Strides and dilations are 1, and there
    /// is no padding. In the input and the output, the batch dimension is the first and the feature dimension is the
    /// last (NHWC). In the kernel, the last two dimensions are the input features and the output features, in this
    /// order (HWIO).
    #[must_use]
    pub fn new(spatial: usize) -> Self {
        Self::with_dimensions(ConvDimensions {
            input_batch: 0,
            input_feature: spatial + 1,
            input_spatial: (1..=spatial).collect(),
            kernel_input_feature: spatial,
            kernel_output_feature: spatial + 1,
            kernel_spatial: (0..spatial).collect(),
            output_batch: 0,
            output_feature: spatial + 1,
            output_spatial: (1..=spatial).collect(),
        })
    }

    /// Works like [`Self::new`], but in the input and the output, the feature dimension follows the batch dimension
    /// (NCHW). The first two dimensions of the kernel are the output features and the input features, in this order
    /// (OIHW).
    #[must_use]
    pub fn features_first(spatial: usize) -> Self {
        let last: Vec<usize> = (2..spatial + 2).collect();
        Self::with_dimensions(ConvDimensions {
            input_batch: 0,
            input_feature: 1,
            input_spatial: last.clone(),
            kernel_input_feature: 1,
            kernel_output_feature: 0,
            kernel_spatial: last.clone(),
            output_batch: 0,
            output_feature: 1,
            output_spatial: last,
        })
    }

    /// Creates the options of a convolution with these dimension numbers. Strides and dilations are 1, and there is no
    /// padding.
    #[must_use]
    pub fn with_dimensions(dimensions: ConvDimensions) -> Self {
        let spatial = dimensions.input_spatial.len();
        let ones = vec![1; spatial];
        let window = Window {
            dimensions: Vec::new(),
            strides: ones.clone(),
            base_dilations: ones.clone(),
            window_dilations: ones,
            padding: vec![(0, 0); spatial],
            reversal: vec![false; spatial],
        };
        Self {
            dimensions,
            window,
            feature_group_count: 1,
            batch_group_count: 1,
            precision: [Precision::Default; 2],
            element: None,
        }
    }

    setters! {
        /// Sets the strides of the window.
        strides(window.strides): Vec<i64>;
        /// Sets the padding before and after the elements of each spatial dimension.
        padding(window.padding): Vec<(i64, i64)>;
        /// Sets the dilation of the input (`lhs_dilation`).
        input_dilation(window.base_dilations): Vec<i64>;
        /// Sets the dilation of the kernel (`rhs_dilation`).
        kernel_dilation(window.window_dilations): Vec<i64>;
        /// Sets for each spatial dimension whether the kernel is reversed.
        reversal(window.reversal): Vec<bool>;
        /// Sets the number of feature groups.
        feature_group_count(feature_group_count): i64;
        /// Sets the number of batch groups.
        batch_group_count(batch_group_count): i64;
        /// Sets the precision of the input and of the kernel.
        precision(precision): [Precision; 2];
        /// Sets the element type of the result. The default is the element type of the input.
        result_element(element): Option<ElementType>;
    }
}

/// Attributes of `gather` and `dynamic_gather`.
#[derive(Clone, Debug, Default)]
pub struct Gather {
    pub(super) dimensions: GatherDimensions,
    pub(super) slice_sizes: Vec<i64>,
    pub(super) indices_are_sorted: bool,
}

impl Gather {
    /// Creates options that gather slices of these sizes. `dynamic_gather` takes the sizes as an operand and ignores
    /// this list.
    #[must_use]
    pub fn new(slice_sizes: impl Into<Vec<i64>>) -> Self {
        Self { slice_sizes: slice_sizes.into(), ..Self::default() }
    }

    setters! {
        /// Sets the dimensions of the result that index into a slice.
        offset_dims(dimensions.offset_dims): Vec<usize>;
        /// Sets the dimensions of the operand that are removed from each slice. The slice size in these dimensions is
        /// 1.
        collapsed_slice_dims(dimensions.collapsed_slice_dims): Vec<usize>;
        /// Sets the batching dimensions of the operand.
        operand_batching_dims(dimensions.operand_batching_dims): Vec<usize>;
        /// Sets the batching dimensions of the start indices.
        start_indices_batching_dims(dimensions.start_indices_batching_dims): Vec<usize>;
        /// Sets the dimension of the operand that each component of an index vector refers to.
        start_index_map(dimensions.start_index_map): Vec<usize>;
        /// Sets the dimension of the start indices that contains the index vectors.
        index_vector_dim(dimensions.index_vector_dim): usize;
        /// Sets whether the indices are sorted.
        indices_are_sorted(indices_are_sorted): bool;
    }
}

/// Attributes of `scatter`.
#[derive(Clone, Debug, Default)]
pub struct Scatter {
    pub(super) dimensions: ScatterDimensions,
    pub(super) indices_are_sorted: bool,
    pub(super) unique_indices: bool,
}

impl Scatter {
    /// Creates the options of a scatter whose updates have no window dimensions.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets the dimensions of the updates that index into a window.
        update_window_dims(dimensions.update_window_dims): Vec<usize>;
        /// Sets the dimensions of the input that the windows in the updates omit. The window size in these dimensions
        /// is 1.
        inserted_window_dims(dimensions.inserted_window_dims): Vec<usize>;
        /// Sets the batching dimensions of the input.
        input_batching_dims(dimensions.input_batching_dims): Vec<usize>;
        /// Sets the batching dimensions of the scatter indices.
        scatter_indices_batching_dims(dimensions.scatter_indices_batching_dims): Vec<usize>;
        /// Sets the dimension of the input that each component of an index vector refers to.
        scatter_dims_to_operand_dims(dimensions.scatter_dims_to_operand_dims): Vec<usize>;
        /// Sets the dimension of the scatter indices that contains the index vectors.
        index_vector_dim(dimensions.index_vector_dim): usize;
        /// Sets whether the indices are sorted.
        indices_are_sorted(indices_are_sorted): bool;
        /// Sets whether the windows are known not to overlap.
        unique_indices(unique_indices): bool;
    }
}

/// Window of `reduce_window` and `select_and_scatter`.
#[derive(Clone, Debug)]
pub struct WindowOptions {
    pub(super) window: Window,
}

impl WindowOptions {
    /// Creates a window of these extents. Strides and dilations are 1, and there is no padding.
    #[must_use]
    pub fn new(dimensions: impl Into<Vec<i64>>) -> Self {
        let dimensions = dimensions.into();
        let ones = vec![1; dimensions.len()];
        let padding = vec![(0, 0); dimensions.len()];
        let window = Window {
            dimensions,
            strides: ones.clone(),
            base_dilations: ones.clone(),
            window_dilations: ones,
            padding,
            reversal: Vec::new(),
        };
        Self { window }
    }

    setters! {
        /// Sets the strides of the window.
        strides(window.strides): Vec<i64>;
        /// Sets the padding before and after the elements of each dimension.
        padding(window.padding): Vec<(i64, i64)>;
        /// Sets the dilation of the input.
        base_dilations(window.base_dilations): Vec<i64>;
        /// Sets the dilation of the window.
        window_dilations(window.window_dilations): Vec<i64>;
    }
}

/// Target and attributes of `custom_call`.
#[derive(Clone, Debug)]
pub struct CustomCall {
    pub(super) target: String,
    pub(super) has_side_effect: bool,
    pub(super) backend_config: Attribute,
    pub(super) api_version: i64,
    pub(super) attributes: Attributes,
}

impl CustomCall {
    /// Creates a call of this target. The call has no side effects, an empty configuration and API version 1.
    #[must_use]
    pub fn new(target: impl Into<String>) -> Self {
        Self {
            target: target.into(),
            has_side_effect: false,
            backend_config: Attribute::String(bytes::Bytes::new()),
            api_version: 1,
            attributes: Attributes::new(),
        }
    }

    setters! {
        /// Sets whether the call has side effects. The compiler must not remove a call with side effects.
        has_side_effect(has_side_effect): bool;
        /// Sets the configuration. It is a dictionary for API version 4, and a string for other versions.
        backend_config(backend_config): Attribute;
        /// Sets the API version of the target's interface. Version 4 is XLA's typed FFI.
        api_version(api_version): i64;
    }

    /// Adds an attribute, such as `called_computations`, `output_operand_aliases` or `mhlo.sharding`.
    #[must_use]
    pub fn attribute(mut self, name: &str, value: Attribute) -> Self {
        self.attributes.push((name.to_owned(), value));
        self
    }
}

/// Attributes of collectives: the groups of participating devices, and the channel.
#[derive(Clone, Debug, Default)]
pub struct Collective {
    groups: Groups,
    channel_id: i64,
    pub(super) use_global_device_ids: bool,
}

#[derive(Clone, Debug, Default)]
enum Groups {
    #[default]
    All,
    Listed(Vec<Vec<i64>>),
    Axes(String),
}

impl Collective {
    /// Creates a single group of all replicas. For ops in which [`Self::groups`] takes partition ids, the group
    /// contains all partitions instead.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates groups from a list of the member ids of each group.
    ///
    /// Without a channel, the ids are replica ids. With a channel, the ids are partition ids in `all_to_all`,
    /// `collective_broadcast` and `collective_reduce`. In other collectives with a channel, the ids are replica ids,
    /// and each group contains all partitions of its replicas. With [`Self::use_global_device_ids`], the ids are global
    /// device ids.
    #[must_use]
    pub fn groups<G: AsRef<[i64]>>(groups: impl IntoIterator<Item = G>) -> Self {
        let listed = groups.into_iter().map(|group| group.as_ref().to_vec()).collect();
        Self { groups: Groups::Listed(listed), ..Self::default() }
    }

    /// Creates groups along these axes of a mesh of the module. Requires StableHLO 1.16.
    #[must_use]
    pub fn mesh_axes(mesh: &str, axes: &[&str]) -> Self {
        let axes: Vec<String> = axes.iter().map(|axis| format!("#stablehlo.axis_ref<name = \"{axis}\">")).collect();
        let text = format!("#stablehlo.replica_group_mesh_axes<mesh = @{mesh}, axes = [{}]>", axes.join(", "));
        Self { groups: Groups::Axes(text), ..Self::default() }
    }

    setters! {
        /// Sets the id of the channel. Set a positive id if partitions communicate.
        channel_id(channel_id): i64;
        /// Sets whether the groups contain global device ids, `replica * partitions + partition`. Requires a channel.
        use_global_device_ids(use_global_device_ids): bool;
    }

    pub(super) fn replica_groups(&self) -> ReplicaGroups {
        match &self.groups {
            Groups::All => ReplicaGroups::listed::<[i64; 0]>(&[]),
            Groups::Listed(groups) => ReplicaGroups::listed(groups),
            Groups::Axes(text) => ReplicaGroups::Mesh(text.clone()),
        }
    }

    pub(super) fn channel(&self) -> ChannelHandle {
        ChannelHandle::new(self.channel_id)
    }
}

/// Channel of `send` and `recv`.
#[derive(Clone, Debug)]
pub struct Channel {
    pub(super) id: i64,
    pub(super) host: bool,
    pub(super) pairs: Vec<[i64; 2]>,
}

impl Channel {
    /// Creates a channel between devices.
    #[must_use]
    pub fn devices(id: i64) -> Self {
        Self { id, host: false, pairs: Vec::new() }
    }

    /// Creates a channel between a device and the host.
    #[must_use]
    pub fn host(id: i64) -> Self {
        Self { id, host: true, pairs: Vec::new() }
    }

    setters! {
        /// Sets the pairs of communicating devices. Each pair contains a sending device and a receiving device, in this
        /// order.
        source_target_pairs(pairs): Vec<[i64; 2]>;
    }

    /// Returns the channel's id and its type code. For a channel to or from the host, the code is `host_type`. For a
    /// channel between devices, it is 1.
    pub(super) fn handle(&self, host_type: i64) -> ChannelHandle {
        ChannelHandle { id: self.id, channel_type: if self.host { host_type } else { 1 } }
    }

    pub(super) fn pairs(&self) -> Vec<(i64, i64)> {
        self.pairs.iter().map(|&[source, target]| (source, target)).collect()
    }
}
