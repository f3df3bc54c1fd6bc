// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits and options of a live allocator.

use crate::allocator::Allocator;
use crate::error::Result;
use crate::ffi;
use crate::sys;
use crate::types::{Address, Stream};

/// The options in force, as numbers. Stands for `cachalot_settings`. Read, change and write back to
/// set options without a string.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Settings {
    /// Bytes; `u64::MAX`: unlimited.
    pub max_split_size: u64,
    /// Bytes.
    pub max_non_split_rounding_size: u64,
    /// Bytes.
    pub large_segment_size: u64,
    /// 0: off; else between 0 and 1.
    pub garbage_collection_threshold: f64,
    /// What the option says; the limit in force is [`Allocator::memory_fraction`].
    pub per_process_memory_fraction: f64,
    /// Divisions for sizes from 2^i MiB to below 2^(i+1) MiB; the first and last slot are open. 0:
    /// off.
    pub roundup_power2_divisions: [u64; 16],
    /// Requests of more bytes are not rounded by divisions; `u64::MAX`: all are.
    pub roundup_bypass_threshold: u64,
    /// Segments that grow in reserved address space.
    pub expandable_segments: bool,
    /// Other threads go on while the driver allocates.
    pub release_lock_on_cudamalloc: bool,
    /// Blocks freed during a capture are reused in it.
    pub graph_capture_record_stream_reuse: bool,
    /// Refuses what would exceed the fraction before asking the driver.
    pub throw_on_cudamalloc_oom: bool,
    /// Kept for the pinned-memory allocator, like all that begins so.
    pub pinned_use_background_threads: bool,
    /// See `pinned_use_background_threads`.
    pub pinned_use_cuda_host_register: bool,
    /// See `pinned_use_background_threads`.
    pub pinned_free_catch_all: bool,
    /// See `pinned_use_background_threads`.
    pub pinned_num_register_threads: u64,
    /// MiB.
    pub pinned_reserve_segment_size_mb: u64,
    /// Bytes; `u64::MAX`: unset.
    pub pinned_max_round_threshold: u64,
    /// Bytes.
    pub pinned_max_cached_size: u64,
}

impl Settings {
    pub(crate) fn of_c(settings: &sys::cachalot_settings) -> Self {
        Self {
            max_split_size: settings.max_split_size,
            max_non_split_rounding_size: settings.max_non_split_rounding_size,
            large_segment_size: settings.large_segment_size,
            garbage_collection_threshold: settings.garbage_collection_threshold,
            per_process_memory_fraction: settings.per_process_memory_fraction,
            roundup_power2_divisions: settings.roundup_power2_divisions,
            roundup_bypass_threshold: settings.roundup_bypass_threshold,
            expandable_segments: settings.expandable_segments != 0,
            release_lock_on_cudamalloc: settings.release_lock_on_cudamalloc != 0,
            graph_capture_record_stream_reuse: settings.graph_capture_record_stream_reuse != 0,
            throw_on_cudamalloc_oom: settings.throw_on_cudamalloc_oom != 0,
            pinned_use_background_threads: settings.pinned_use_background_threads != 0,
            pinned_use_cuda_host_register: settings.pinned_use_cuda_host_register != 0,
            pinned_free_catch_all: settings.pinned_free_catch_all != 0,
            pinned_num_register_threads: settings.pinned_num_register_threads,
            pinned_reserve_segment_size_mb: settings.pinned_reserve_segment_size_mb,
            pinned_max_round_threshold: settings.pinned_max_round_threshold,
            pinned_max_cached_size: settings.pinned_max_cached_size,
        }
    }

    fn to_c(&self) -> sys::cachalot_settings {
        let mut out = ffi::sized::<sys::cachalot_settings>();
        out.max_split_size = self.max_split_size;
        out.max_non_split_rounding_size = self.max_non_split_rounding_size;
        out.large_segment_size = self.large_segment_size;
        out.garbage_collection_threshold = self.garbage_collection_threshold;
        out.per_process_memory_fraction = self.per_process_memory_fraction;
        out.roundup_power2_divisions = self.roundup_power2_divisions;
        out.roundup_bypass_threshold = self.roundup_bypass_threshold;
        out.expandable_segments = self.expandable_segments.into();
        out.release_lock_on_cudamalloc = self.release_lock_on_cudamalloc.into();
        out.graph_capture_record_stream_reuse = self.graph_capture_record_stream_reuse.into();
        out.throw_on_cudamalloc_oom = self.throw_on_cudamalloc_oom.into();
        out.pinned_use_background_threads = self.pinned_use_background_threads.into();
        out.pinned_use_cuda_host_register = self.pinned_use_cuda_host_register.into();
        out.pinned_free_catch_all = self.pinned_free_catch_all.into();
        out.pinned_num_register_threads = self.pinned_num_register_threads;
        out.pinned_reserve_segment_size_mb = self.pinned_reserve_segment_size_mb;
        out.pinned_max_round_threshold = self.pinned_max_round_threshold;
        out.pinned_max_cached_size = self.pinned_max_cached_size;
        out
    }
}

/// Where a device's memory is, in bytes. Stands for `cachalot_device_totals`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct DeviceTotals {
    /// What the device has.
    pub total: u64,
    /// What of it is in use, by whomever.
    pub used: u64,
    /// What the management library says of this process; 0 where it does not know.
    pub used_by_process: u64,
    /// What this allocator has obtained.
    pub reserved: u64,
    /// `used - reserved`: other processes, contexts, libraries, other allocators.
    pub outside: u64,
}

impl Allocator {
    /// Changes options at run time, by string or [`Config`](crate::Config). As in PyTorch, options
    /// that the string does not name are kept or reset (`docs/config.md`), and the change applies to
    /// the next request. Stands for `cachalot_configure`.
    ///
    /// # Errors
    /// `InvalidArgument`: what stands before the error has been applied.
    pub fn configure(&self, config: impl Into<String>) -> Result<()> {
        let config = ffi::c_string(&config.into(), "the option string")?;
        // SAFETY: the allocator is live, and the text lives until the call returns.
        self.call(|raw, error| unsafe { sys::cachalot_configure(raw, config.as_ptr(), error) })
    }

    /// The last option string, word for word. Stands for `cachalot_get_config`.
    ///
    /// # Errors
    /// `InvalidState` from within a callback under a lock.
    pub fn config(&self) -> Result<String> {
        ffi::text(|buffer, capacity, length| {
            // SAFETY: the allocator is live, and the buffer has room for capacity bytes.
            self.call(|raw, error| unsafe {
                sys::cachalot_get_config(raw, buffer, capacity, length, error)
            })
        })
    }

    /// The options in force. Stands for `cachalot_get_settings`.
    ///
    /// # Errors
    /// `InvalidState` from within a callback under a lock.
    pub fn settings(&self) -> Result<Settings> {
        let mut settings = ffi::sized::<sys::cachalot_settings>();
        // SAFETY: the allocator is live, and the row is a local of the size that it says.
        self.call(|raw, error| unsafe { sys::cachalot_get_settings(raw, &mut settings, error) })?;
        Ok(Settings::of_c(&settings))
    }

    /// Sets all options at once. Stands for `cachalot_set_settings`.
    ///
    /// # Errors
    /// `InvalidArgument` for a value out of its range: nothing has changed.
    pub fn set_settings(&self, settings: &Settings) -> Result<()> {
        let settings = settings.to_c();
        // SAFETY: the allocator is live, and the row is a local of the size that it says.
        self.call(|raw, error| unsafe { sys::cachalot_set_settings(raw, &settings, error) })
    }

    /// Sets the options that the string names and leaves all others as they are, whatever other
    /// threads set meanwhile ([`Allocator::configure`] resets some). A list that is named is replaced
    /// as a whole. [`Allocator::config`] goes on to give the string of `configure`. Stands for
    /// `cachalot_update_config`.
    ///
    /// # Errors
    /// `InvalidArgument`, `InvalidState` for another backend, `NotSupported`: nothing has changed.
    pub fn update_config(&self, config: impl Into<String>) -> Result<()> {
        let config = ffi::c_string(&config.into(), "the option string")?;
        // SAFETY: the allocator is live, and the text lives until the call returns.
        self.call(|raw, error| unsafe { sys::cachalot_update_config(raw, config.as_ptr(), error) })
    }

    /// How many steps requests are rounded in between two powers of two: powers of two, or 0 for off,
    /// for sizes from 2^i MiB to below 2^(i+1) MiB; the first and last slot are open. Stands for
    /// `cachalot_set_roundup_power2_divisions`.
    ///
    /// # Errors
    /// `InvalidArgument`: nothing has changed.
    pub fn set_roundup_power2_divisions(&self, divisions: &[u64; 16]) -> Result<()> {
        // SAFETY: the allocator is live, and the list has as many numbers as it says.
        self.call(|raw, error| unsafe {
            sys::cachalot_set_roundup_power2_divisions(
                raw,
                divisions.as_ptr(),
                divisions.len(),
                error,
            )
        })
    }

    /// Switches caching off or on for later requests. A block is freed the way it was made. Stands
    /// for `cachalot_set_caching_enabled`.
    ///
    /// # Errors
    /// `InvalidState` from within a callback under a lock.
    pub fn set_caching_enabled(&self, enabled: bool) -> Result<()> {
        // SAFETY: the allocator is live.
        self.call(|raw, error| unsafe {
            sys::cachalot_set_caching_enabled(raw, enabled.into(), error)
        })
    }

    /// Whether requests are cached. Stands for `cachalot_is_caching_enabled`.
    pub fn is_caching_enabled(&self) -> bool {
        // SAFETY: the allocator is live; the function takes no lock.
        unsafe { sys::cachalot_is_caching_enabled(self.as_raw()) != 0 }
    }

    /// Limits what the allocator may obtain from a device: a share of its total memory, 0 to 1; 1: no
    /// limit. Releases nothing. Stands for `cachalot_set_memory_fraction`.
    ///
    /// # Errors
    /// `InvalidArgument` for another number or a device that the driver does not have.
    pub fn set_memory_fraction(&self, device: i32, fraction: f64) -> Result<()> {
        // SAFETY: the allocator is live.
        self.call(|raw, error| unsafe {
            sys::cachalot_set_memory_fraction(raw, device, fraction, error)
        })
    }

    /// The fraction in force: limit over total; 1 without a limit. Stands for
    /// `cachalot_memory_fraction`.
    ///
    /// # Errors
    /// `InvalidArgument` for a device that the driver does not have; `Driver`.
    pub fn memory_fraction(&self, device: i32) -> Result<f64> {
        let mut fraction = 0.0;
        // SAFETY: the allocator is live, and the pointer is that of a local.
        self.call(|raw, error| unsafe {
            sys::cachalot_memory_fraction(raw, device, &mut fraction, error)
        })?;
        Ok(fraction)
    }

    /// The same limit in bytes; `None`: none. Stands for `cachalot_set_memory_limit`.
    ///
    /// # Errors
    /// `InvalidArgument` for a device that the driver does not have.
    pub fn set_memory_limit(&self, device: i32, bytes: Option<u64>) -> Result<()> {
        let bytes = bytes.unwrap_or(u64::MAX);
        // SAFETY: the allocator is live.
        self.call(|raw, error| unsafe { sys::cachalot_set_memory_limit(raw, device, bytes, error) })
    }

    /// The limit in force in bytes; `None`: none. Stands for `cachalot_memory_limit`.
    ///
    /// # Errors
    /// `InvalidArgument` for a device that the driver does not have.
    pub fn memory_limit(&self, device: i32) -> Result<Option<u64>> {
        let mut bytes = u64::MAX;
        // SAFETY: the allocator is live, and the pointer is that of a local.
        self.call(|raw, error| unsafe {
            sys::cachalot_memory_limit(raw, device, &mut bytes, error)
        })?;
        Ok((bytes != u64::MAX).then_some(bytes))
    }

    /// Lets `device` use the memory of `peer`, that of its expandable segments included, present and
    /// future. Stands for `cachalot_enable_peer_access`.
    ///
    /// # Errors
    /// `Driver`; `InvalidArgument` for a device that the driver does not have.
    pub fn enable_peer_access(&self, device: i32, peer: i32) -> Result<()> {
        // SAFETY: the allocator is live.
        self.call(|raw, error| unsafe {
            sys::cachalot_enable_peer_access(raw, device, peer, error)
        })
    }

    /// Copies `size` bytes between devices, or within one, on a stream of the device that is copied to; the
    /// host does not wait. The devices need no access to each other. An address may also be one of pinned
    /// host memory. Stands for `cachalot_copy`.
    ///
    /// # Safety
    /// Both ranges stay valid until the stream has done the copy, and nothing else uses the target
    /// meanwhile.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown device, an address 0 or all streams; `NotSupported` for a custom
    /// driver without copies; `Driver`.
    pub unsafe fn copy(
        &self,
        (to, to_device): (Address, i32),
        (from, from_device): (Address, i32),
        size: u64,
        stream: impl Into<Stream>,
    ) -> Result<()> {
        let stream = stream.into();
        // SAFETY: the allocator is live; the caller answers for the ranges.
        self.call(|raw, error| unsafe {
            sys::cachalot_copy(raw, to, to_device, from, from_device, size, stream.0, error)
        })
    }

    /// Where a device's memory is. Stands for `cachalot_get_device_totals`.
    ///
    /// # Errors
    /// `Driver`; `InvalidArgument` for a device that the driver does not have.
    pub fn device_totals(&self, device: i32) -> Result<DeviceTotals> {
        let mut totals = ffi::sized::<sys::cachalot_device_totals>();
        // SAFETY: the allocator is live, and the row is a local of the size that it says.
        self.call(|raw, error| unsafe {
            sys::cachalot_get_device_totals(raw, device, &mut totals, error)
        })?;
        Ok(DeviceTotals {
            total: totals.total,
            used: totals.used,
            used_by_process: totals.used_by_process,
            reserved: totals.reserved,
            outside: totals.outside,
        })
    }
}

// One field a function; PLACES.md looks for the names after sys.
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident($value:ident: $type:ty) = sys::$function:ident;)*) => {
        /// # One setting at a time
        ///
        /// Each function sets one field of [`Settings`] and leaves all others as they are at that
        /// moment, so that threads that set different fields do not undo each other's changes. The
        /// change applies to the next request. A value that is not acceptable, also one that does
        /// not go with the other fields, is `InvalidArgument` in PyTorch's words: nothing has changed.
        impl Allocator {
            $($(#[$doc])*
            pub fn $name(&self, $value: $type) -> Result<()> {
                // SAFETY: the allocator is live.
                self.call(|raw, error| unsafe { sys::$function(raw, $value.into(), error) })
            })*
        }
    };
}

setters! {
    /// Blocks of this size and more are kept whole. Bytes. At least the large segment size;
    /// `u64::MAX`: unlimited.
    ///
    /// # Errors
    /// `InvalidArgument`: nothing has changed.
    set_max_split_size(bytes: u64) = sys::cachalot_set_max_split_size;
    /// How much larger a cached block may be for a request of `max_split_size` and more. Bytes.
    /// At least the large segment size.
    ///
    /// # Errors
    /// `InvalidArgument`: nothing has changed.
    set_max_non_split_rounding_size(bytes: u64) = sys::cachalot_set_max_non_split_rounding_size;
    /// The segment size of requests from 1 to 10 MiB, and the page size of new large expandable
    /// segments. Bytes. A multiple of 1 MiB above 10 MiB, at most `max_split_size`.
    /// `max_non_split_rounding_size` goes with it where it has the old value, which is its
    /// default.
    ///
    /// # Errors
    /// `InvalidArgument`: nothing has changed.
    set_large_segment_size(bytes: u64) = sys::cachalot_set_large_segment_size;
    /// From which share of the memory limit on cached segments are collected. Between 0 and 1;
    /// 0: off.
    ///
    /// # Errors
    /// `InvalidArgument`: nothing has changed.
    set_garbage_collection_threshold(fraction: f64) = sys::cachalot_set_garbage_collection_threshold;
    /// What `throw_on_cudamalloc_oom` compares with. Of the device, 0 to 1. The limit in force
    /// stays: [`Allocator::set_memory_fraction`] changes that.
    ///
    /// # Errors
    /// `InvalidArgument`: nothing has changed.
    set_per_process_memory_fraction(fraction: f64) = sys::cachalot_set_per_process_memory_fraction;
    /// Requests of more bytes are not rounded by divisions. Bytes. `u64::MAX`: all are.
    ///
    /// # Errors
    /// `InvalidArgument`: nothing has changed.
    set_roundup_bypass_threshold(bytes: u64) = sys::cachalot_set_roundup_bypass_threshold;
    /// Whether new segments are made of pages. `NotSupported` for `true` where the driver has
    /// no virtual memory.
    ///
    /// # Errors
    /// `InvalidArgument`: nothing has changed.
    set_expandable_segments(enabled: bool) = sys::cachalot_set_expandable_segments;
    /// Whether other threads go on while the driver allocates.
    ///
    /// # Errors
    /// `InvalidArgument`: nothing has changed.
    set_release_lock_on_cudamalloc(enabled: bool) = sys::cachalot_set_release_lock_on_cudamalloc;
    /// Whether blocks freed during a capture are reused in it.
    ///
    /// # Errors
    /// `InvalidArgument`: nothing has changed.
    set_graph_capture_record_stream_reuse(enabled: bool) = sys::cachalot_set_graph_capture_record_stream_reuse;
    /// Whether requests beyond `per_process_memory_fraction` are refused before the driver is
    /// asked. Since 2.12: under 2.11 `true` is an unknown key.
    ///
    /// # Errors
    /// `InvalidArgument`: nothing has changed.
    set_throw_on_cudamalloc_oom(enabled: bool) = sys::cachalot_set_throw_on_cudamalloc_oom;
    /// Kept for the pinned-memory allocator.
    ///
    /// # Errors
    /// `InvalidArgument`: nothing has changed.
    set_pinned_use_background_threads(enabled: bool) = sys::cachalot_set_pinned_use_background_threads;
    /// Kept for the pinned-memory allocator.
    ///
    /// # Errors
    /// `InvalidArgument`: nothing has changed.
    set_pinned_use_cuda_host_register(enabled: bool) = sys::cachalot_set_pinned_use_cuda_host_register;
    /// Kept for the pinned-memory allocator. Since 2.12: under 2.11 `true` is an unknown key.
    ///
    /// # Errors
    /// `InvalidArgument`: nothing has changed.
    set_pinned_free_catch_all(enabled: bool) = sys::cachalot_set_pinned_free_catch_all;
    /// Kept for the pinned-memory allocator. A power of two, 1 to 128.
    ///
    /// # Errors
    /// `InvalidArgument`: nothing has changed.
    set_pinned_num_register_threads(threads: u64) = sys::cachalot_set_pinned_num_register_threads;
    /// Kept for the pinned-memory allocator. MiB; 0: off.
    ///
    /// # Errors
    /// `InvalidArgument`: nothing has changed.
    set_pinned_reserve_segment_size_mb(megabytes: u64) = sys::cachalot_set_pinned_reserve_segment_size_mb;
    /// Kept for the pinned-memory allocator. Bytes. `u64::MAX`: unset. Since 2.13.
    ///
    /// # Errors
    /// `InvalidArgument`: nothing has changed.
    set_pinned_max_round_threshold(bytes: u64) = sys::cachalot_set_pinned_max_round_threshold;
    /// Kept for the pinned-memory allocator. Bytes. `u64::MAX`: unset. Since 2.13.
    ///
    /// # Errors
    /// `InvalidArgument`: nothing has changed.
    set_pinned_max_cached_size(bytes: u64) = sys::cachalot_set_pinned_max_cached_size;
}
