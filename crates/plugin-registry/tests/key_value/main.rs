//! Tests of the key-value stores in servers.

mod etcd;
mod every_store;
mod lying_servers;
mod redis;
