//! Tests installations, against a package index in this process and with packages that the tests make.

mod bad_input;
mod choice;
mod download;
mod index_server;
mod installed;
mod wheels;
