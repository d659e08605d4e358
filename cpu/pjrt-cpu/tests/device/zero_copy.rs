//! Tests of host memory that buffers use in place.

use std::sync::Arc;

use pjrt::{Input, Upload};

use crate::{client, compile};

/// An array whose elements start at a 64-byte boundary, or at a given offset from such a boundary.
struct Aligned {
    data: Vec<f32>,
    from: usize,
    len: usize,
    _alive: Arc<()>,
}

impl Aligned {
    fn new(len: usize, off: usize, alive: &Arc<()>) -> Self {
        let data = vec![1.0f32; len + 32];
        let from = data.as_ptr().align_offset(64) + off;
        Self { data, from, len, _alive: Arc::clone(alive) }
    }
}

impl AsRef<[f32]> for Aligned {
    fn as_ref(&self) -> &[f32] {
        &self.data[self.from..][..self.len]
    }
}

#[test]
fn uses_aligned_memory_in_place() {
    let client = client(1);
    let device = client.devices().unwrap().remove(0);
    let alive = Arc::new(());
    let buffer = client.upload(Upload::owned(Aligned::new(1024, 0, &alive)).dims(&[1024]).to(&device)).unwrap();
    assert_eq!(device.memory_stats().unwrap().num_allocs, Some(0));
    assert_eq!(Arc::strong_count(&alive), 2);
    assert_eq!(buffer.to_host::<f32>().unwrap(), [1.0; 1024]);
    drop(buffer);
    assert_eq!(Arc::strong_count(&alive), 1);

    let copied = client.upload(Upload::owned(Aligned::new(1024, 1, &alive)).dims(&[1024]).to(&device)).unwrap();
    assert_eq!(Arc::strong_count(&alive), 1, "what is not aligned is copied, and free again");
    assert_eq!(device.memory_stats().unwrap().num_allocs, Some(1));
    assert_eq!(copied.to_host::<f32>().unwrap(), [1.0; 1024]);
    let empty = client.upload(Upload::owned(Aligned::new(0, 0, &alive)).dims(&[0]).to(&device)).unwrap();
    assert_eq!(empty.to_host::<f32>().unwrap(), [0.0f32; 0]);
}

#[test]
fn lent_memory_is_immutable_and_kept_alive() {
    let client = client(1);
    let device = client.devices().unwrap().remove(0);
    let text = "func.func @main(%x: tensor<512x512xf32> {tf.aliasing_output = 0 : i32}) -> tensor<512x512xf32> {
      %0 = stablehlo.add %x, %x : tensor<512x512xf32>
      return %0 : tensor<512x512xf32>
    }";
    let double = compile(&client, text);
    let alive = Arc::new(());
    let owner = Arc::new(Aligned::new(512 * 512, 0, &alive));
    struct Shared(Arc<Aligned>);
    impl AsRef<[f32]> for Shared {
        fn as_ref(&self) -> &[f32] {
            (*self.0).as_ref()
        }
    }
    let x = client.upload(Upload::owned(Shared(owner.clone())).dims(&[512, 512]).to(&device)).unwrap();
    let execution = double.execute_with(vec![Input::Donate(x)], &Default::default()).unwrap();
    assert_eq!(execution.outputs[0].to_host::<f32>().unwrap(), vec![2.0; 512 * 512]);
    assert!((*owner).as_ref().iter().all(|x| *x == 1.0));
}
