//! A thread of the plugin may drop lent data, so the data cannot be an `Rc`.

use std::rc::Rc;

use pjrt::{Client, Placement};

fn lend(client: &Client, data: Rc<[f32]>) {
    let _ = client.buffer_from_owned::<f32, Rc<[f32]>>(data, &[4], Placement::Default);
}

fn main() {}
