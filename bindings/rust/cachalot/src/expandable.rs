// SPDX-License-Identifier: MIT OR Apache-2.0
//! Expandable segments and the address space that they reserve.

use crate::allocator::Allocator;
use crate::error::Result;
use crate::ffi;
use crate::sys;
use crate::types::Stream;

/// One expandable segment. Stands for `cachalot_expandable_segment`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ExpandableSegment {
    /// Its stream.
    pub stream: Stream,
    /// Bytes that are backed by memory.
    pub mapped_size: u64,
    /// Whether it is for small blocks.
    pub is_small: bool,
}

/// The address space of all expandable segments of all devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ExpandableTotals {
    /// What they reserve, in bytes.
    pub bytes: u64,
    /// How many there are.
    pub count: u64,
}

/// The address space that segments of a reserve class get. Stands for `cachalot_reserve`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ReserveInfo {
    /// In bytes, where an option or a default applies.
    pub reserve_bytes: Option<u64>,
    /// Whether the class has an entry of its own.
    pub is_class_known: bool,
    /// What a new segment gets, before it is rounded up to pages.
    pub segment_bytes: u64,
}

impl Allocator {
    /// The expandable segments of a device, in the order of their creation, those of the default
    /// stream left out. Stands for `cachalot_expandable_segments`.
    ///
    /// # Errors
    /// `InvalidArgument` for a device that the driver does not have.
    pub fn expandable_segments(&self, device: i32) -> Result<Vec<ExpandableSegment>> {
        let mut rows: Vec<sys::cachalot_expandable_segment> = Vec::new();
        loop {
            let mut count = 0;
            // SAFETY: the allocator is live, and there is room for as many rows as it is told.
            self.call(|raw, error| unsafe {
                sys::cachalot_expandable_segments(
                    raw,
                    device,
                    rows.as_mut_ptr(),
                    rows.len(),
                    &mut count,
                    error,
                )
            })?;
            if count <= rows.len() {
                rows.truncate(count);
                break;
            }
            rows.resize(count, sys::cachalot_expandable_segment::default());
        }
        Ok(rows
            .iter()
            .map(|row| ExpandableSegment {
                stream: Stream(row.stream),
                mapped_size: row.mapped_size,
                is_small: row.is_small != 0,
            })
            .collect())
    }

    /// What all expandable segments of all devices reserve. Stands for `cachalot_expandable_totals`.
    ///
    /// # Errors
    /// `NotSupported` under 2.11.
    pub fn expandable_totals(&self) -> Result<ExpandableTotals> {
        let (mut bytes, mut count) = (0, 0);
        // SAFETY: the allocator is live, and both pointers are those of locals.
        self.call(|raw, error| unsafe {
            sys::cachalot_expandable_totals(raw, &mut bytes, &mut count, error)
        })?;
        Ok(ExpandableTotals { bytes, count })
    }

    /// Gives a stream a reserve class; `""` takes it away. Stands for `cachalot_set_reserve_class`.
    ///
    /// # Errors
    /// `NotSupported` under 2.11.
    pub fn set_reserve_class(&self, stream: impl Into<Stream>, name: &str) -> Result<()> {
        let (stream, name) = (stream.into(), ffi::c_string(name, "the class")?);
        // SAFETY: the allocator is live, and the text lives until the call returns.
        self.call(|raw, error| unsafe {
            sys::cachalot_set_reserve_class(raw, stream.0, name.as_ptr(), error)
        })
    }

    /// A stream's reserve class. Stands for `cachalot_get_reserve_class`.
    ///
    /// # Errors
    /// `NotSupported` under 2.11.
    pub fn reserve_class(&self, stream: impl Into<Stream>) -> Result<String> {
        let stream = stream.into();
        ffi::text(|buffer, capacity, length| {
            // SAFETY: the allocator is live, and the buffer has room for capacity bytes.
            self.call(|raw, error| unsafe {
                sys::cachalot_get_reserve_class(raw, stream.0, buffer, capacity, length, error)
            })
        })
    }

    /// A class's reserve where no option names one: a fraction of the device's memory, above 0. Stands
    /// for `cachalot_set_default_reserve`.
    ///
    /// # Errors
    /// `InvalidArgument`; `NotSupported` under 2.11.
    pub fn set_default_reserve(&self, name: &str, fraction: f64) -> Result<()> {
        let name = ffi::c_string(name, "the class")?;
        // SAFETY: the allocator is live, and the text lives until the call returns.
        self.call(|raw, error| unsafe {
            sys::cachalot_set_default_reserve(raw, name.as_ptr(), fraction, error)
        })
    }

    /// What a class gets on a device; `""`: streams without a class. Stands for
    /// `cachalot_get_reserve`.
    ///
    /// # Errors
    /// `InvalidArgument` for a device that the driver does not have; `NotSupported` under 2.11.
    pub fn reserve(&self, device: i32, name: &str) -> Result<ReserveInfo> {
        let name = ffi::c_string(name, "the class")?;
        let mut reserve = ffi::sized::<sys::cachalot_reserve>();
        // SAFETY: the allocator is live, the text lives until the call returns, and the row is a local
        // of the size that it says.
        self.call(|raw, error| unsafe {
            sys::cachalot_get_reserve(raw, device, name.as_ptr(), &mut reserve, error)
        })?;
        Ok(ReserveInfo {
            reserve_bytes: (reserve.has_reserve != 0).then_some(reserve.reserve_bytes),
            is_class_known: reserve.is_class_known != 0,
            segment_bytes: reserve.segment_bytes,
        })
    }
}
