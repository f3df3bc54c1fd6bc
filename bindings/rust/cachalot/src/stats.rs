// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics: PyTorch's counters as structs, the common ones as one call, the summary as text.
//!
//! Every number is PyTorch's, peaks included. Reading costs a short hold of the device's lock and no
//! walk.

use crate::allocator::Allocator;
use crate::callback;
use crate::error::Result;
use crate::ffi;
use crate::sys;
use crate::types::{PoolId, Release};

/// One statistic: a count or a number of bytes. Without resets `current = allocated - freed`. Stands
/// for `cachalot_stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Stat {
    /// Now.
    pub current: i64,
    /// The highest `current` since the last [`Allocator::reset_peak_stats`].
    pub peak: i64,
    /// All increases since the last [`Allocator::reset_accumulated_stats`].
    pub allocated: i64,
    /// All decreases since then.
    pub freed: i64,
}

impl Stat {
    pub(crate) fn of_c(stat: &sys::cachalot_stat) -> Self {
        Self {
            current: stat.current,
            peak: stat.peak,
            allocated: stat.allocated,
            freed: stat.freed,
        }
    }

    fn to_c(self) -> sys::cachalot_stat {
        sys::cachalot_stat {
            current: self.current,
            peak: self.peak,
            allocated: self.allocated,
            freed: self.freed,
        }
    }
}

/// A statistic by kind of pool: small blocks are those of requests up to 1 MiB. Stands for
/// `cachalot_stat_array`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StatArray {
    /// Both kinds.
    pub all: Stat,
    /// Small blocks.
    pub small_pool: Stat,
    /// Large blocks.
    pub large_pool: Stat,
}

impl StatArray {
    fn of_c(stats: &sys::cachalot_stat_array) -> Self {
        Self {
            all: Stat::of_c(&stats.all),
            small_pool: Stat::of_c(&stats.small_pool),
            large_pool: Stat::of_c(&stats.large_pool),
        }
    }

    fn to_c(self) -> sys::cachalot_stat_array {
        sys::cachalot_stat_array {
            all: self.all.to_c(),
            small_pool: self.small_pool.to_c(),
            large_pool: self.large_pool.to_c(),
        }
    }
}

/// The statistics, in the order of the C struct: each field there and here.
macro_rules! stats {
    ($($(#[$meta:meta])* $name:ident: $kind:ident,)*) => {
        /// The statistics of one device, as `torch.cuda.memory_stats` has them. Stands for
        /// `cachalot_stats`.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[non_exhaustive]
        pub struct Stats {
            $($(#[$meta])* pub $name: $kind,)*
        }

        impl Stats {
            fn of_c(stats: &sys::cachalot_stats) -> Self {
                Self { $($name: $kind::of_c(&stats.$name),)* }
            }

            pub(crate) fn to_c(self) -> sys::cachalot_stats {
                let mut stats = ffi::sized::<sys::cachalot_stats>();
                $(stats.$name = self.$name.to_c();)*
                stats
            }
        }
    };
}

/// A plain number, as the fields of structs that are converted one by one.
trait Number {
    fn of_c(number: &i64) -> i64;
    fn to_c(self) -> i64;
}

impl Number for i64 {
    fn of_c(number: &i64) -> i64 {
        *number
    }
    fn to_c(self) -> i64 {
        self
    }
}

stats! {
    /// Blocks handed out.
    allocation: StatArray,
    /// Segments obtained (expandable ones are not counted).
    segment: StatArray,
    /// Blocks handed out or waiting for recorded streams after their free.
    active: StatArray,
    /// Free pieces of segments that are partly in use, so that no release can give them back.
    inactive_split: StatArray,
    /// Bytes handed out.
    allocated_bytes: StatArray,
    /// Bytes obtained from the driver.
    reserved_bytes: StatArray,
    /// Bytes handed out or waiting.
    active_bytes: StatArray,
    /// Bytes of the free pieces.
    inactive_split_bytes: StatArray,
    /// What callers asked for, of the active blocks.
    requested_bytes: StatArray,
    /// Blocks of `max_split_size` and more.
    oversize_allocations: Stat,
    /// Segments of `max_split_size` and more.
    oversize_segments: Stat,
    /// Requests to the driver after the whole cache was released.
    num_alloc_retries: i64,
    /// Out-of-memory errors given to callers.
    num_ooms: i64,
    /// Waits for all recorded streams.
    num_sync_all_streams: i64,
    /// Segments obtained or ranges mapped.
    num_device_alloc: i64,
    /// Segments given back or ranges unmapped.
    num_device_free: i64,
    /// The option `max_split_size` in bytes when the allocator was made; -1: unlimited.
    max_split_size: i64,
    /// Requests refused by `throw_on_cudamalloc_oom` (since 2.12).
    num_oom_rejections: i64,
}

impl Stats {
    /// The rows of `torch.cuda.memory_stats` by name ("active.all.allocated" and so on), in its
    /// order: 122 under release 2.11, 123 under 2.15. Stands for `cachalot_stats_at`.
    pub fn rows(&self, release: Release) -> impl Iterator<Item = (&'static str, i64)> + use<> {
        let stats = self.to_c();
        (0..).map_while(move |index| {
            let (mut name, mut value) = (std::ptr::null(), 0);
            // SAFETY: the row is of the size that it says, and both pointers are those of locals.
            let status = unsafe {
                sys::cachalot_stats_at(&stats, release.to_c(), index, &mut name, &mut value)
            };
            if status != sys::CACHALOT_OK {
                return None;
            }
            // SAFETY: the text lives as long as the library.
            match unsafe { ffi::str_of(name) } {
                std::borrow::Cow::Borrowed(name) => Some((name, value)),
                std::borrow::Cow::Owned(_) => None,
            }
        })
    }
}

/// Bytes reserved by one private pool (since 2.13). Stands for `cachalot_pool_stats`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct PoolStats {
    /// The pool, which may be gone.
    pub pool: PoolId,
    /// What it has obtained.
    pub reserved_bytes: StatArray,
}

/// What was handed out under one label. Stands for `cachalot_label_stats`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct LabelStats {
    /// The labels of the thread that asked, outermost first, joined by "/"; cut to 255 bytes. The row
    /// "(other)" has the labels that have no row of their own any more.
    pub label: String,
    /// Blocks handed out.
    pub allocation: Stat,
    /// Their bytes.
    pub allocated_bytes: Stat,
}

/// The functions that give one number of a device.
macro_rules! common_numbers {
    ($($(#[$meta:meta])* $name:ident = $function:path,)*) => { $(
        $(#[$meta])*
        ///
        /// 0 for a device that the driver does not have, and from within a callback that runs under a
        /// lock ([`Allocator`]).
        pub fn $name(&self, device: i32) -> u64 {
            if callback::is_locked() {
                return 0;
            }
            // SAFETY: the allocator is live.
            unsafe { $function(self.as_raw(), device) }
        }
    )* };
}

impl Allocator {
    /// The statistics of a device. Stands for `cachalot_get_stats`.
    ///
    /// # Errors
    /// `InvalidArgument` for a device that the driver does not have.
    pub fn stats(&self, device: i32) -> Result<Stats> {
        let mut stats = ffi::sized::<sys::cachalot_stats>();
        // SAFETY: the allocator is live, and the row is a local of the size that it says.
        self.call(|raw, error| unsafe { sys::cachalot_get_stats(raw, device, &mut stats, error) })?;
        Ok(Stats::of_c(&stats))
    }

    /// Sets every peak to its current value. Stands for `cachalot_reset_peak_stats`.
    ///
    /// # Errors
    /// As [`Allocator::stats`].
    pub fn reset_peak_stats(&self, device: i32) -> Result<()> {
        // SAFETY: the allocator is live.
        self.call(|raw, error| unsafe { sys::cachalot_reset_peak_stats(raw, device, error) })
    }

    /// Sets all sums (`allocated`, `freed`) and the `num_` counters to 0. Stands for
    /// `cachalot_reset_accumulated_stats`.
    ///
    /// # Errors
    /// As [`Allocator::stats`].
    pub fn reset_accumulated_stats(&self, device: i32) -> Result<()> {
        // SAFETY: the allocator is live.
        self.call(|raw, error| unsafe { sys::cachalot_reset_accumulated_stats(raw, device, error) })
    }

    common_numbers! {
        /// Bytes handed out on a device. Stands for `cachalot_memory_allocated`.
        memory_allocated = sys::cachalot_memory_allocated,
        /// The most since the peaks were reset. Stands for `cachalot_max_memory_allocated`.
        max_memory_allocated = sys::cachalot_max_memory_allocated,
        /// Bytes obtained from the driver. Stands for `cachalot_memory_reserved`.
        memory_reserved = sys::cachalot_memory_reserved,
        /// The most since the peaks were reset. Stands for `cachalot_max_memory_reserved`.
        max_memory_reserved = sys::cachalot_max_memory_reserved,
        /// Bytes handed out or waiting for streams. Stands for `cachalot_memory_active`.
        memory_active = sys::cachalot_memory_active,
        /// The most since the peaks were reset. Stands for `cachalot_max_memory_active`.
        max_memory_active = sys::cachalot_max_memory_active,
    }

    /// The table of `torch.cuda.memory_summary`, byte for byte; `abbreviated` leaves the rows by kind
    /// of pool out. Stands for `cachalot_memory_summary`.
    ///
    /// # Errors
    /// As [`Allocator::stats`].
    pub fn memory_summary(&self, device: i32, abbreviated: bool) -> Result<String> {
        ffi::text(|buffer, capacity, length| {
            // SAFETY: the allocator is live, and the buffer has room for capacity bytes.
            self.call(|raw, error| unsafe {
                sys::cachalot_memory_summary(
                    raw,
                    device,
                    abbreviated.into(),
                    buffer,
                    capacity,
                    length,
                    error,
                )
            })
        })
    }

    /// The private pools that have had reserved bytes on a device, in ascending order of their ids.
    /// Stands for `cachalot_pool_stats_count` and `cachalot_pool_stats_at`.
    ///
    /// # Errors
    /// As [`Allocator::stats`].
    pub fn pool_stats(&self, device: i32) -> Result<Vec<PoolStats>> {
        let mut count = 0;
        // SAFETY: the allocator is live, and the pointer is that of a local.
        self.call(|raw, error| unsafe {
            sys::cachalot_pool_stats_count(raw, device, &mut count, error)
        })?;
        ffi::rows(
            count,
            |index, row| {
                // SAFETY: the allocator is live, and the row is of the size that it says.
                self.call(|raw, error| unsafe {
                    sys::cachalot_pool_stats_at(raw, device, index, row, error)
                })
            },
            |row: &sys::cachalot_pool_stats| PoolStats {
                pool: PoolId::of_c(row.pool),
                reserved_bytes: StatArray::of_c(&row.reserved_bytes),
            },
        )
    }

    /// The labels that have rows on a device, in the order of their first use: 1,000 at most, and the
    /// row "(other)" of those whose rows have ended. Stands for `cachalot_label_stats_count` and
    /// `cachalot_label_stats_at`.
    ///
    /// # Errors
    /// As [`Allocator::stats`].
    pub fn label_stats(&self, device: i32) -> Result<Vec<LabelStats>> {
        let mut count = 0;
        // SAFETY: the allocator is live, and the pointer is that of a local.
        self.call(|raw, error| unsafe {
            sys::cachalot_label_stats_count(raw, device, &mut count, error)
        })?;
        ffi::rows(
            count,
            |index, row| {
                // SAFETY: the allocator is live, and the row is of the size that it says.
                self.call(|raw, error| unsafe {
                    sys::cachalot_label_stats_at(raw, device, index, row, error)
                })
            },
            |row: &sys::cachalot_label_stats| LabelStats {
                // SAFETY: the label is an array that ends in a NUL.
                label: unsafe { ffi::string_of(row.label.as_ptr()) },
                allocation: Stat::of_c(&row.allocation),
                allocated_bytes: Stat::of_c(&row.allocated_bytes),
            },
        )
    }
}
