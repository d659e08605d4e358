//! A plugin may use lent memory after the function has returned, so a borrowed slice cannot be lent.

use pjrt::{Buffer, Client, Error, Upload};

fn upload(client: &Client) -> Result<Buffer, Error> {
    let data = vec![1.0f32; 4];
    client.upload(Upload::owned::<f32, &[f32]>(&data).dims(&[4]))
}

fn main() {}
