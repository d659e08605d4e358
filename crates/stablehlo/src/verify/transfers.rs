//! Rules of transfers between devices, and of transfers between a device and the host.

use super::site::{Site, ensure};
use crate::error::Result;
use crate::ir::*;

/// Type of a channel between two devices.
const DEVICE_TO_DEVICE: i64 = 1;
/// Type of a channel from a device to the host.
const DEVICE_TO_HOST: i64 = 2;
/// Type of a channel from the host to a device.
const HOST_TO_DEVICE: i64 = 3;

#[inline]
pub(super) fn verify(site: &Site<'_>) -> Result<()> {
    match &site.op.kind {
        OpKind::Infeed { layout, .. } => {
            takes_token(site, 0)?;
            returns_token(site)?;
            tensors_but_last(site)?;
            let tensors = site.op.results.len().saturating_sub(1);
            // Artifacts store an empty layout if the layout is absent, so accept an empty layout.
            let fits = layout.is_empty() || layout.len() == tensors;
            ensure!(Attribute, fits, "`layout` has {} entries for {tensors} tensors", layout.len());
            Ok(())
        }
        OpKind::Recv { channel, is_host_transfer, .. } => {
            takes_token(site, 0)?;
            returns_token(site)?;
            channel_type(*channel, *is_host_transfer, HOST_TO_DEVICE)?;
            tensors_but_last(site)
        }
        OpKind::Outfeed { .. } => {
            takes_token(site, site.op.operands.len().saturating_sub(1))?;
            returns_token(site)
        }
        OpKind::Send { channel, is_host_transfer, .. } => {
            takes_token(site, site.op.operands.len().saturating_sub(1))?;
            returns_token(site)?;
            channel_type(*channel, *is_host_transfer, DEVICE_TO_HOST)
        }
        _ => Ok(()),
    }
}

fn takes_token(site: &Site<'_>, operand: usize) -> Result<()> {
    let ty = site.operand(operand)?;
    ensure!(Type, *ty == Type::Token, "operand {operand} must be a token, not {ty}");
    Ok(())
}

/// Checks that the last result is a token. During inference, there are no results to check.
fn returns_token(site: &Site<'_>) -> Result<()> {
    if site.wanted.is_some() {
        return Ok(());
    }
    let ty = site.result(site.op.results.len().saturating_sub(1))?;
    ensure!(Type, *ty == Type::Token, "the last result must be a token, not {ty}");
    Ok(())
}

/// Checks that all results except the last are tensors.
fn tensors_but_last(site: &Site<'_>) -> Result<()> {
    let results = site.results();
    let count = results.len().saturating_sub(1);
    for (i, ty) in results.take(count).enumerate() {
        ensure!(Type, matches!(ty, Type::Tensor(_) | Type::Other(_)), "result {i} must be a tensor, not {ty}");
    }
    Ok(())
}

/// Checks the type of a channel, which may be unspecified. `host` is the required type for a transfer to or from the
/// host.
fn channel_type(channel: ChannelHandle, is_host_transfer: bool, host: i64) -> Result<()> {
    let wanted = if is_host_transfer { host } else { DEVICE_TO_DEVICE };
    let actual = channel.channel_type;
    ensure!(
        Attribute,
        actual == 0 || actual == wanted,
        "attribute `channel_type` must be {wanted} where `is_host_transfer` is {is_host_transfer}, not {actual}"
    );
    Ok(())
}
