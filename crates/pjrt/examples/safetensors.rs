//! Load the weights of a model from a safetensors file. The file is mapped into memory, so that only the pages that a
//! device reads are loaded from disk. A CPU device uses a tensor's mapped memory in place if the memory is sufficiently
//! aligned.
//!
//! The example runs on the embedded CPU device, or on the plugin that the environment variable `PJRT_PLUGIN` names.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use memmap2::Mmap;
use pjrt::{Buffer, Client, ClientOptions, ElementType, Shape, Upload};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

/// The bytes of one tensor in a mapped file. The `Arc` keeps the file mapped while a buffer uses the bytes.
struct Weight {
    file: Arc<Mmap>,
    range: Range<usize>,
}

impl AsRef<[u8]> for Weight {
    fn as_ref(&self) -> &[u8] {
        &self.file[self.range.clone()]
    }
}

fn element_type(dtype: Dtype) -> Option<ElementType> {
    Some(match dtype {
        Dtype::BOOL => ElementType::Pred,
        Dtype::I8 => ElementType::S8,
        Dtype::I16 => ElementType::S16,
        Dtype::I32 => ElementType::S32,
        Dtype::I64 => ElementType::S64,
        Dtype::U8 => ElementType::U8,
        Dtype::U16 => ElementType::U16,
        Dtype::U32 => ElementType::U32,
        Dtype::U64 => ElementType::U64,
        Dtype::F16 => ElementType::F16,
        Dtype::BF16 => ElementType::Bf16,
        Dtype::F32 => ElementType::F32,
        Dtype::F64 => ElementType::F64,
        Dtype::C64 => ElementType::C64,
        Dtype::F8_E4M3 => ElementType::F8E4M3FN,
        Dtype::F8_E5M2 => ElementType::F8E5M2,
        Dtype::F8_E8M0 => ElementType::F8E8M0FNU,
        // The file format packs elements that are smaller than a byte, but uploads require one byte for each element.
        _ => return None,
    })
}

/// Uploads all tensors of a file. Returns the buffers by name, and the number of bytes that the device uses in place.
fn load(client: &Client, file: Mmap) -> Result<(BTreeMap<String, Buffer>, usize), Box<dyn std::error::Error>> {
    let file = Arc::new(file);
    let (mut weights, mut in_place) = (BTreeMap::new(), 0);
    for (name, tensor) in SafeTensors::deserialize(&file)?.iter() {
        let element_type =
            element_type(tensor.dtype()).ok_or_else(|| format!("{name} has the type {:?}", tensor.dtype()))?;
        let dims = tensor.shape().iter().map(|extent| i64::try_from(*extent)).collect::<Result<Vec<_>, _>>()?;
        let start = tensor.data().as_ptr().addr() - file.as_ptr().addr();
        let weight = Weight { file: Arc::clone(&file), range: start..start + tensor.data().len() };
        let shape = Shape::new(element_type, dims);
        let buffer = client.upload(Upload::owned::<u8, _>(weight).shape(&shape))?;
        if buffer.unsafe_pointer()? == tensor.data().as_ptr().addr() {
            in_place += tensor.data().len();
        }
        weights.insert(name.to_owned(), buffer);
    }
    Ok((weights, in_place))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("weights.safetensors");
    let (embedding, bias) = (vec![1u8; 4096 * 4], 2.5f32.to_ne_bytes().repeat(64));
    let tensors = [
        ("embedding", TensorView::new(Dtype::F32, vec![64, 64], &embedding)?),
        ("bias", TensorView::new(Dtype::F32, vec![64], &bias)?),
    ];
    safetensors::serialize_to_file(tensors, None, &path)?;

    let name = std::env::var("PJRT_PLUGIN").unwrap_or_else(|_| "cpu".to_owned());
    let client = plugin_registry::open(&name)?.client(&ClientOptions::new())?;
    // SAFETY: no other process writes to this file.
    let file = unsafe { Mmap::map(&File::open(&path)?) }?;
    let (weights, in_place) = load(&client, file)?;
    assert_eq!(weights["bias"].to_host::<f32>()?, [2.5; 64]);
    // The file format aligns tensors only to 8 bytes. CPU devices copy tensors that are not aligned to 64 bytes.
    println!("{} tensors were loaded, {in_place} bytes of them in place", weights.len());
    Ok(())
}
