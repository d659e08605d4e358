//! Conversions between the element types of Burn, of programs and of buffers.

use burn_backend::{DType, DTypeUsage, DTypeUsageSet, TensorData};
use burn_ir::TensorIr;
use burn_std::BoolStore;
use pjrt::{Buffer, Client, ElementType, Layout, Shape, Upload};
use plugin_manifest::Capabilities;
use stablehlo::ir::{ElementType as IrElement, TensorType};

use crate::error::Error;

/// Maps Burn's element types to the types that the device stores, according to the plugin's capabilities.
#[derive(Clone, Debug)]
pub(crate) struct Types {
    plugin: String,
    capabilities: Capabilities,
}

/// Returns the buffer type for a Burn type on a device that supports all types. Returns `None` for quantized types.
fn plain(dtype: DType) -> Option<ElementType> {
    Some(match dtype {
        DType::F64 => ElementType::F64,
        DType::F32 | DType::Flex32 => ElementType::F32,
        DType::F16 => ElementType::F16,
        DType::BF16 => ElementType::Bf16,
        DType::I64 => ElementType::S64,
        DType::I32 => ElementType::S32,
        DType::I16 => ElementType::S16,
        DType::I8 => ElementType::S8,
        DType::U64 => ElementType::U64,
        DType::U32 => ElementType::U32,
        DType::U16 => ElementType::U16,
        DType::U8 => ElementType::U8,
        DType::Bool(_) => ElementType::Pred,
        DType::QFloat(_) => return None,
    })
}

/// Returns the Burn type for a buffer type, or `None` if Burn does not have the type.
fn host_type(element: ElementType) -> Option<DType> {
    Some(match element {
        ElementType::F64 => DType::F64,
        ElementType::F32 => DType::F32,
        ElementType::F16 => DType::F16,
        ElementType::Bf16 => DType::BF16,
        ElementType::S64 => DType::I64,
        ElementType::S32 => DType::I32,
        ElementType::S16 => DType::I16,
        ElementType::S8 => DType::I8,
        ElementType::U64 => DType::U64,
        ElementType::U32 => DType::U32,
        ElementType::U16 => DType::U16,
        ElementType::U8 => DType::U8,
        ElementType::Pred => DType::Bool(BoolStore::Native),
        _ => return None,
    })
}

impl Types {
    pub(crate) fn new(plugin: String, capabilities: Capabilities) -> Self {
        Self { plugin, capabilities }
    }

    pub(crate) fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// Returns the type in which the device stores values of a Burn type. Returns an error for quantized types, and for
    /// types that the plugin does not support.
    pub(crate) fn stored(&self, dtype: DType) -> Result<ElementType, Error> {
        let Some(declared) = plain(dtype) else {
            return Err(Error::unsupported("quantized tensors", format!("{dtype:?}")));
        };
        let element = self.capabilities.stored_as(declared);
        match &self.capabilities.supported_dtypes {
            Some(supported) if !supported.contains(&element) => Err(Error::DType {
                plugin: self.plugin.clone(),
                dtype: format!("{dtype:?}"),
                supported: supported.iter().map(|ty| ty.name()).collect::<Vec<_>>().join(", "),
            }),
            _ => Ok(element),
        }
    }

    /// Returns the element type that programs use for a Burn type.
    pub(crate) fn element(&self, dtype: DType) -> Result<IrElement, Error> {
        let stored = self.stored(dtype)?;
        IrElement::try_from(stored)
            .map_err(|error| Error::unsupported(&format!("elements of type {dtype:?}"), error.to_string()))
    }

    /// Returns the tensor type that programs use for a Burn tensor.
    pub(crate) fn tensor(&self, tensor: &TensorIr) -> Result<TensorType, Error> {
        Ok(TensorType::new(extents(tensor), self.element(tensor.dtype)?))
    }

    /// Returns the order in which the device stores the dimensions of tensors with this shape, from minor to major.
    /// Returns `None` for a row-major order.
    pub(crate) fn minor_to_major(&self, shape: &[i64]) -> Option<Vec<usize>> {
        self.capabilities.layout.minor_to_major(shape)
    }

    /// Returns the ways in which the device can use a Burn type: storage and arithmetic, or none.
    pub(crate) fn usage(&self, dtype: DType) -> DTypeUsageSet {
        if self.stored(dtype).is_ok() { DTypeUsage::Storage | DTypeUsage::Arithmetic } else { DTypeUsageSet::empty() }
    }

    /// Copies data to the device. Converts the data to the type in which the device stores it.
    pub(crate) fn upload(&self, client: &Client, data: TensorData) -> Result<Buffer, Error> {
        let stored = self.stored(data.dtype)?;
        let dims: Vec<i64> = data.shape.iter().map(|&extent| extent as i64).collect();
        let data = match host_type(stored) {
            // Other representations of booleans may contain bytes other than 0 and 1.
            Some(DType::Bool(_)) => data.convert_dtype(DType::Bool(BoolStore::Native)),
            Some(host) if host != data.dtype => data.convert_dtype(host),
            _ => data,
        };
        let device = client.default_device()?;
        let order = self.minor_to_major(&dims);
        let shape = Shape::new(stored, dims);
        Ok(match order {
            None => client.upload(Upload::of(data.as_bytes()).shape(&shape).to(&device))?,
            Some(order) => {
                let layout = Layout::new(order.into_iter().map(|dimension| dimension as i64).collect::<Vec<_>>());
                client.upload(Upload::of(data.as_bytes()).shape(&shape).layout(&layout).to(&device))?
            }
        })
    }

    /// Copies a buffer to the host. Converts the data to the tensor's type in Burn.
    pub(crate) fn download(&self, buffer: &Buffer, tensor: &TensorIr) -> Result<TensorData, Error> {
        let shape = tensor.shape.clone();
        let element = buffer.element_type()?;
        let data = match element {
            ElementType::F64 => TensorData::new(buffer.to_host::<f64>()?, shape),
            ElementType::F32 => TensorData::new(buffer.to_host::<f32>()?, shape),
            ElementType::F16 => TensorData::new(buffer.to_host::<burn_std::f16>()?, shape),
            ElementType::Bf16 => TensorData::new(buffer.to_host::<burn_std::bf16>()?, shape),
            ElementType::S64 => TensorData::new(buffer.to_host::<i64>()?, shape),
            ElementType::S32 => TensorData::new(buffer.to_host::<i32>()?, shape),
            ElementType::S16 => TensorData::new(buffer.to_host::<i16>()?, shape),
            ElementType::S8 => TensorData::new(buffer.to_host::<i8>()?, shape),
            ElementType::U64 => TensorData::new(buffer.to_host::<u64>()?, shape),
            ElementType::U32 => TensorData::new(buffer.to_host::<u32>()?, shape),
            ElementType::U16 => TensorData::new(buffer.to_host::<u16>()?, shape),
            ElementType::U8 => TensorData::new(buffer.to_host::<u8>()?, shape),
            ElementType::Pred => TensorData::new(buffer.to_host::<bool>()?, shape),
            other => return Err(Error::unsupported("reads", format!("of elements of type {}", other.name()))),
        };
        readable(&data)?;
        Ok(if data.dtype == tensor.dtype { data } else { data.convert_dtype(tensor.dtype) })
    }
}

/// Rejects values that do not fit into the default types `i32` and `f32`, because `burn-router` converts each tensor
/// that it reads to a default type. The conversion rounds `f64` to `f32`, which is not an error here.
fn readable(data: &TensorData) -> Result<(), Error> {
    let lossy = match data.dtype {
        DType::I64 => data.iter::<i64>().find(|&value| i32::try_from(value).is_err()).map(|value| value.to_string()),
        DType::U32 | DType::U64 => {
            data.iter::<u64>().find(|&value| i32::try_from(value).is_err()).map(|value| value.to_string())
        }
        DType::F64 => data
            .iter::<f64>()
            .find(|value| value.is_finite() && value.abs() > f64::from(f32::MAX))
            .map(|value| value.to_string()),
        _ => None,
    };
    match lossy {
        Some(value) => Err(Error::unsupported(
            "reads",
            format!(
                "of the number {value} from a tensor of type {:?}, because `burn-router` converts it to a 32-bit type; \
                 bring it into the range of that type first",
                data.dtype
            ),
        )),
        None => Ok(()),
    }
}

/// Returns the extents of a tensor.
pub(crate) fn extents(tensor: &TensorIr) -> Vec<i64> {
    tensor.shape.iter().map(|&extent| extent as i64).collect()
}
