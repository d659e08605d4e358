//! A thread of the plugin may drop lent data, so the data cannot be an `Rc`.

use std::rc::Rc;

use pjrt::{Client, Upload};

fn lend(client: &Client, data: Rc<[f32]>) {
    let _ = client.upload(Upload::owned::<f32, Rc<[f32]>>(data).dims(&[4]));
}

fn main() {}
