//! Reads the data of a recording with a limit.

use std::io::{Read, Seek};

use pjrt_types::Shape;

use super::budget::{Budget, Share};
use crate::content::Content;
use crate::error::ReadError;
use crate::reader::Reader;

/// Number of bytes of data that a block of a file of any size may contain.
const FREE_DATA: u64 = 64 << 20;
/// Number of bytes of data in a block that each byte of the file allows.
const DATA_PER_BYTE: u64 = 16;
/// Returns the maximum size in bytes of the data in a block: the caller's limit, or a limit that follows from the size
/// of the file.
pub(super) fn data_limit<R: Read + Seek>(reader: &mut Reader<R>, limit: Option<u64>) -> Result<u64, ReadError> {
    match limit {
        Some(limit) => Ok(limit),
        None => Ok(reader.file_size()?.saturating_mul(DATA_PER_BYTE).saturating_add(FREE_DATA)),
    }
}

fn explain(error: ReadError) -> String {
    match error {
        ReadError::TooLarge { .. } => {
            format!("{error}, which follows from the size of the file: `pjrt replay --limit` sets another limit")
        }
        error => error.to_string(),
    }
}

/// Reads the data to which the calls of a recording refer. Rejects data that are larger than `limit` bytes.
pub(super) struct Source<'a, R> {
    pub(super) reader: &'a mut Reader<R>,
    pub(super) limit: u64,
}

impl<R: Read + Seek> Source<'_, R> {
    pub(super) fn content(&mut self, content: Option<&Content>) -> Result<Vec<u8>, String> {
        self.content_within(content, self.limit)
    }

    pub(super) fn content_within(&mut self, content: Option<&Content>, limit: u64) -> Result<Vec<u8>, String> {
        let content = content.ok_or("the recording does not have the data")?;
        self.reader.content(content, limit).map_err(explain)
    }

    /// Returns an error if data of this size must not be read.
    pub(super) fn check(&self, size: u64) -> Result<(), String> {
        if size > self.limit {
            return Err(explain(ReadError::TooLarge { size, limit: self.limit }));
        }
        Ok(())
    }

    /// Returns the elements of an array, and adds the array to the budget. Checks both before it reads the elements.
    pub(super) fn elements(
        &mut self,
        shape: &Shape,
        content: Option<&Content>,
        budget: &Budget,
    ) -> Result<(Vec<u8>, Share), String> {
        if let Some(size) = content.map(|content| content.size)
            && shape.host_size().and_then(|expected| u64::try_from(expected).ok()) != Some(size)
        {
            return Err(format!("the recording has {size} bytes for an array of {shape}"));
        }
        let share = budget.add_array(shape)?;
        Ok((self.content(content)?, share))
    }
}
