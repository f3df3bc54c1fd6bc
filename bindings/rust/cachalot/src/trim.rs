// SPDX-License-Identifier: MIT OR Apache-2.0
//! Giving idle memory back to the driver, so that several processes can share a device.

use std::fmt;
use std::time::Duration;

use crate::allocator::Allocator;
use crate::error::{Error, Result};
use crate::sys;

/// A trim that the driver refused, with what was given back until then.
#[derive(Debug)]
#[non_exhaustive]
pub struct TrimError {
    /// Bytes; they stay given back.
    pub released_bytes: u64,
    /// Why it ended.
    pub error: Error,
}

impl fmt::Display for TrimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes were given back)", self.error, self.released_bytes)
    }
}

impl std::error::Error for TrimError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl From<TrimError> for Error {
    fn from(error: TrimError) -> Self {
        error.error
    }
}

impl Allocator {
    /// Gives whole free segments, and whole free pages of expandable segments, back to the driver,
    /// longest idle first, until no more than `keep_bytes` are reserved on the device or nothing is
    /// left that has been idle for `min_idle`. Tells how many bytes it gave back. Stands for
    /// `cachalot_trim`.
    ///
    /// Memory counts as idle from the first trim on that sees it free, so trims should come several
    /// times within `min_idle`, and the first one only looks. `docs/serving.md` has more.
    ///
    /// # Errors
    /// `InvalidArgument` for a device that the driver does not have; `NotSupported` for a `min_idle`
    /// under `backend:cudaMallocAsync`; `Driver` where the driver refused: the rest stays cached.
    pub fn trim(&self, device: i32, keep_bytes: u64, min_idle: Duration) -> Result<u64, TrimError> {
        let mut released = 0;
        // SAFETY: the allocator is live, and the pointer is that of a local.
        let result = self.call(|raw, error| unsafe {
            sys::cachalot_trim(raw, device, keep_bytes, nanoseconds(min_idle), &mut released, error)
        });
        outcome(result, released)
    }

    /// The same by the caller's clock, for simulations and tests: `now` is the time of a clock that
    /// never goes back. Stands for `cachalot_trim_at`.
    ///
    /// # Errors
    /// As [`Allocator::trim`].
    pub fn trim_at(
        &self,
        device: i32,
        keep_bytes: u64,
        min_idle: Duration,
        now: Duration,
    ) -> Result<u64, TrimError> {
        let mut released = 0;
        let (idle, now) = (nanoseconds(min_idle), nanoseconds(now));
        // SAFETY: the allocator is live, and the pointer is that of a local.
        let result = self.call(|raw, error| unsafe {
            sys::cachalot_trim_at(raw, device, keep_bytes, idle, now, &mut released, error)
        });
        outcome(result, released)
    }
}

fn outcome(result: Result<()>, released_bytes: u64) -> Result<u64, TrimError> {
    match result {
        Ok(()) => Ok(released_bytes),
        Err(error) => Err(TrimError { released_bytes, error }),
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
