// SPDX-License-Identifier: MIT OR Apache-2.0
//! The statistics of all devices as a page for Prometheus.

use crate::allocator::Allocator;
use crate::error::Result;
use crate::ffi;
use crate::sys;

impl Allocator {
    /// What a server answers to a scrape of Prometheus, with the content type
    /// `text/plain; version=0.0.4; charset=utf-8`. `docs/serving.md` lists the metrics. Costs a short
    /// hold of each device's lock. Stands for `cachalot_metrics_text`.
    ///
    /// # Errors
    /// `Driver` under `backend:cudaMallocAsync`, where the driver has the numbers.
    pub fn metrics(&self) -> Result<String> {
        ffi::text(|buffer, capacity, length| {
            // SAFETY: the allocator is live, and the buffer has room for capacity bytes.
            self.call(|raw, error| unsafe {
                sys::cachalot_metrics_text(raw, buffer, capacity, length, error)
            })
        })
    }
}
