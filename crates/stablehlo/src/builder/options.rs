//! The attributes of ops that have many.

use crate::ir::*;

/// Adds methods that set fields.
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

/// The attributes of `dot_general`.
#[derive(Clone, Debug)]
pub struct DotGeneral {
    pub(super) dimensions: DotDimensions,
    pub(super) precision: [Precision; 2],
    pub(super) algorithm: Option<DotAlgorithm>,
    pub(super) element: Option<ElementType>,
}

impl DotGeneral {
    /// An outer product: no dimensions are contracted, and none are batching dimensions.
    #[must_use]
    pub fn new() -> Self {
        Self {
            dimensions: DotDimensions::default(),
            precision: [Precision::Default; 2],
            algorithm: None,
            element: None,
        }
    }

    /// Sums over these dimensions of the left and of the right operand.
    #[must_use]
    pub fn contracting(mut self, lhs: impl AsRef<[usize]>, rhs: impl AsRef<[usize]>) -> Self {
        (self.dimensions.lhs_contracting, self.dimensions.rhs_contracting) = (dims(lhs), dims(rhs));
        self
    }

    /// Multiplies slices along these dimensions of the left and of the right operand separately.
    #[must_use]
    pub fn batching(mut self, lhs: impl AsRef<[usize]>, rhs: impl AsRef<[usize]>) -> Self {
        (self.dimensions.lhs_batching, self.dimensions.rhs_batching) = (dims(lhs), dims(rhs));
        self
    }

    setters! {
        /// Sets the precision of the left and of the right operand.
        precision(precision): [Precision; 2];
        /// Sets the algorithm. The precision must be the default.
        algorithm(algorithm): Option<DotAlgorithm>;
        /// Sets the element type of the result. By default it is that of the left operand.
        result_element(element): Option<ElementType>;
    }
}

impl Default for DotGeneral {
    fn default() -> Self {
        Self::new()
    }
}

/// The algorithm of a `dot_general`.
#[derive(Clone, Debug)]
pub struct DotAlgorithm {
    types: [ElementType; 3],
    primitive_operations: i64,
    imprecise: bool,
}

impl DotAlgorithm {
    /// An algorithm that rounds the left and the right operand to the first two types and accumulates in the third one,
    /// with one primitive operation.
    #[must_use]
    pub fn new(lhs: ElementType, rhs: ElementType, accumulation: ElementType) -> Self {
        Self { types: [lhs, rhs, accumulation], primitive_operations: 1, imprecise: false }
    }

    setters! {
        /// Sets the number of products that are added to form the result (`num_primitive_operations`).
        primitive_operations(primitive_operations): i64;
        /// Sets whether sums may be less precise than their type.
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

/// The attributes of `convolution` and `dynamic_conv`.
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
    /// A convolution over this many spatial dimensions, with strides and dilations of 1 and without padding. The input
    /// and the output have the batch first and the features last (NHWC). The kernel has the input features and then the
    /// output features last (HWIO).
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

    /// Like [`Self::new`], but the features of input and output follow the batch (NCHW), and the kernel begins with the
    /// output features, followed by the input features (OIHW).
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

    /// A convolution with these dimension numbers.
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
        /// Sets the padding of each spatial dimension before and after its elements.
        padding(window.padding): Vec<(i64, i64)>;
        /// Sets the dilation of the input (`lhs_dilation`).
        input_dilation(window.base_dilations): Vec<i64>;
        /// Sets the dilation of the kernel (`rhs_dilation`).
        kernel_dilation(window.window_dilations): Vec<i64>;
        /// Sets along which spatial dimensions the kernel is reversed.
        reversal(window.reversal): Vec<bool>;
        /// Sets the number of groups of features.
        feature_group_count(feature_group_count): i64;
        /// Sets the number of groups of batches.
        batch_group_count(batch_group_count): i64;
        /// Sets the precision of the input and of the kernel.
        precision(precision): [Precision; 2];
        /// Sets the element type of the result. By default it is that of the input.
        result_element(element): Option<ElementType>;
    }
}

/// The attributes of `gather` and `dynamic_gather`.
#[derive(Clone, Debug, Default)]
pub struct Gather {
    pub(super) dimensions: GatherDimensions,
    pub(super) slice_sizes: Vec<i64>,
    pub(super) indices_are_sorted: bool,
}

impl Gather {
    /// Gathers slices of these sizes. `dynamic_gather` takes the sizes as an operand instead and ignores this list.
    #[must_use]
    pub fn new(slice_sizes: impl Into<Vec<i64>>) -> Self {
        Self { slice_sizes: slice_sizes.into(), ..Self::default() }
    }

    setters! {
        /// Sets the dimensions of the result along which a slice extends.
        offset_dims(dimensions.offset_dims): Vec<usize>;
        /// Sets the dimensions of the operand that are removed from a slice. Their size is 1.
        collapsed_slice_dims(dimensions.collapsed_slice_dims): Vec<usize>;
        /// Sets the batching dimensions of the operand.
        operand_batching_dims(dimensions.operand_batching_dims): Vec<usize>;
        /// Sets the batching dimensions of the indices.
        start_indices_batching_dims(dimensions.start_indices_batching_dims): Vec<usize>;
        /// Sets the dimensions of the operand to which the components of an index belong.
        start_index_map(dimensions.start_index_map): Vec<usize>;
        /// Sets the dimension of the indices that holds the components of an index.
        index_vector_dim(dimensions.index_vector_dim): usize;
        /// Sets whether the indices are sorted.
        indices_are_sorted(indices_are_sorted): bool;
    }
}

/// The attributes of `scatter`.
#[derive(Clone, Debug, Default)]
pub struct Scatter {
    pub(super) dimensions: ScatterDimensions,
    pub(super) indices_are_sorted: bool,
    pub(super) unique_indices: bool,
}

impl Scatter {
    /// A scatter without window dimensions.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets the dimensions of the updates along which a window extends.
        update_window_dims(dimensions.update_window_dims): Vec<usize>;
        /// Sets the dimensions of the input that the updates lack. A window has the size 1 in them.
        inserted_window_dims(dimensions.inserted_window_dims): Vec<usize>;
        /// Sets the batching dimensions of the input.
        input_batching_dims(dimensions.input_batching_dims): Vec<usize>;
        /// Sets the batching dimensions of the indices.
        scatter_indices_batching_dims(dimensions.scatter_indices_batching_dims): Vec<usize>;
        /// Sets the dimensions of the input to which the components of an index belong.
        scatter_dims_to_operand_dims(dimensions.scatter_dims_to_operand_dims): Vec<usize>;
        /// Sets the dimension of the indices that holds the components of an index.
        index_vector_dim(dimensions.index_vector_dim): usize;
        /// Sets whether the indices are sorted.
        indices_are_sorted(indices_are_sorted): bool;
        /// Sets whether no two windows overlap.
        unique_indices(unique_indices): bool;
    }
}

/// The window of `reduce_window` and `select_and_scatter`.
#[derive(Clone, Debug)]
pub struct WindowOptions {
    pub(super) window: Window,
}

impl WindowOptions {
    /// A window of these extents, with strides and dilations of 1 and without padding.
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
        /// Sets the padding of each dimension before and after its elements.
        padding(window.padding): Vec<(i64, i64)>;
        /// Sets the dilation of the input.
        base_dilations(window.base_dilations): Vec<i64>;
        /// Sets the dilation of the window.
        window_dilations(window.window_dilations): Vec<i64>;
    }
}

/// The target and the attributes of `custom_call`.
#[derive(Clone, Debug)]
pub struct CustomCall {
    pub(super) target: String,
    pub(super) has_side_effect: bool,
    pub(super) backend_config: Attribute,
    pub(super) api_version: i64,
    pub(super) attributes: Attributes,
}

impl CustomCall {
    /// A call of this target without side effects, with an empty configuration and API version 1.
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
        /// Sets whether the call has side effects, so that it must not be removed.
        has_side_effect(has_side_effect): bool;
        /// Sets the configuration: a string, or a dictionary for API version 4.
        backend_config(backend_config): Attribute;
        /// Sets the version of the interface of the target. 4 is the typed FFI.
        api_version(api_version): i64;
    }

    /// Sets another attribute, such as `called_computations`, `output_operand_aliases` or `mhlo.sharding`.
    #[must_use]
    pub fn attribute(mut self, name: &str, value: Attribute) -> Self {
        self.attributes.push((name.to_owned(), value));
        self
    }
}

/// The attributes of collectives: the groups of devices that take part, and the channel.
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
    /// All replicas form one group, or all partitions if [`Self::groups`] would take partition ids.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lists the members of each group by id.
    ///
    /// Without a channel, these are replica ids. With a channel, they are partition ids in `all_to_all`,
    /// `collective_broadcast` and `collective_reduce`. In other collectives they are replica ids, and all partitions of
    /// these replicas form the group. [`Self::use_global_device_ids`] changes the ids to global ones.
    #[must_use]
    pub fn groups<G: AsRef<[i64]>>(groups: impl IntoIterator<Item = G>) -> Self {
        let listed = groups.into_iter().map(|group| group.as_ref().to_vec()).collect();
        Self { groups: Groups::Listed(listed), ..Self::default() }
    }

    /// Groups along these axes of a mesh of the module, since StableHLO 1.21.
    #[must_use]
    pub fn mesh_axes(mesh: &str, axes: &[&str]) -> Self {
        let axes: Vec<String> = axes.iter().map(|axis| format!("#stablehlo.axis_ref<name = \"{axis}\">")).collect();
        let text = format!("#stablehlo.replica_group_mesh_axes<mesh = @{mesh}, axes = [{}]>", axes.join(", "));
        Self { groups: Groups::Axes(text), ..Self::default() }
    }

    setters! {
        /// Sets the id of the channel. Set a positive id if partitions communicate.
        channel_id(channel_id): i64;
        /// Sets whether the groups hold global ids, `replica * partitions + partition`. Requires a channel.
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

/// The channel of `send` and `recv`.
#[derive(Clone, Debug)]
pub struct Channel {
    pub(super) id: i64,
    pub(super) host: bool,
    pub(super) pairs: Vec<[i64; 2]>,
}

impl Channel {
    /// A channel between devices.
    #[must_use]
    pub fn devices(id: i64) -> Self {
        Self { id, host: false, pairs: Vec::new() }
    }

    /// A channel between a device and the host.
    #[must_use]
    pub fn host(id: i64) -> Self {
        Self { id, host: true, pairs: Vec::new() }
    }

    setters! {
        /// Sets the pairs of a sending and a receiving device.
        source_target_pairs(pairs): Vec<[i64; 2]>;
    }

    /// The id and the type. `host_type` is the type of a channel to or from the host.
    pub(super) fn handle(&self, host_type: i64) -> ChannelHandle {
        ChannelHandle { id: self.id, channel_type: if self.host { host_type } else { 1 } }
    }

    pub(super) fn pairs(&self) -> Vec<(i64, i64)> {
        self.pairs.iter().map(|&[source, target]| (source, target)).collect()
    }
}
