// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports: who holds the memory of a device, and what is in the way of a request.

use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::allocator::Allocator;
use crate::error::{OutOfMemory, Result};
use crate::ffi;
use crate::sys;
use crate::types::{PoolId, Stream};

/// The request that a report is about. Stands for `cachalot_report_options`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct ReportOptions {
    device: i32,
    size: u64,
    stream: Stream,
}

impl ReportOptions {
    /// Of a device, and no request in particular.
    pub fn device(device: i32) -> Self {
        Self { device, ..Self::default() }
    }

    /// Of a request for so many bytes, below 2^60.
    pub fn request(mut self, size: u64, stream: impl Into<Stream>) -> Self {
        self.size = size;
        self.stream = stream.into();
        self
    }
}

/// Of the request that failed.
impl From<&OutOfMemory> for ReportOptions {
    fn from(failed: &OutOfMemory) -> Self {
        Self { device: failed.device, size: failed.requested, stream: failed.stream }
    }
}

/// What would become of a request now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Outcome {
    /// The report is about no request.
    NoRequest,
    /// A cached block serves it.
    FromCache,
    /// The device has enough and no limit is in the way, or a pool's own source is asked.
    FromDevice,
    /// It is served if cached memory is released first, or by a pool that helps out.
    AfterRelease,
    /// It fails.
    Fails,
    /// An outcome of a newer library, by its number.
    Other(i32),
}

impl Outcome {
    fn of_c(outcome: i32) -> Self {
        match outcome {
            sys::CACHALOT_OUTCOME_NO_REQUEST => Self::NoRequest,
            sys::CACHALOT_OUTCOME_FROM_CACHE => Self::FromCache,
            sys::CACHALOT_OUTCOME_FROM_DEVICE => Self::FromDevice,
            sys::CACHALOT_OUTCOME_AFTER_RELEASE => Self::AfterRelease,
            sys::CACHALOT_OUTCOME_FAILS => Self::Fails,
            other => Self::Other(other),
        }
    }

    fn to_c(self) -> i32 {
        match self {
            Self::NoRequest => sys::CACHALOT_OUTCOME_NO_REQUEST,
            Self::FromCache => sys::CACHALOT_OUTCOME_FROM_CACHE,
            Self::FromDevice => sys::CACHALOT_OUTCOME_FROM_DEVICE,
            Self::AfterRelease => sys::CACHALOT_OUTCOME_AFTER_RELEASE,
            Self::Fails => sys::CACHALOT_OUTCOME_FAILS,
            Self::Other(other) => other,
        }
    }

    /// "from_cache" and so on: the words of the JSON. Stands for `cachalot_report_outcome_name`.
    pub fn name(self) -> &'static str {
        // SAFETY: the function takes any number; its texts live as long as the library.
        match unsafe { ffi::str_of(sys::cachalot_report_outcome_name(self.to_c())) } {
            std::borrow::Cow::Borrowed(name) => name,
            std::borrow::Cow::Owned(_) => "unknown",
        }
    }
}

/// Why a request cannot have memory that is not live: the first that applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Reason {
    /// It can, or there is no request.
    Usable,
    /// Freed; work on recorded streams was left when last looked.
    PendingEvents,
    /// Freed while a capture was under way; waits for its end.
    PendingCapture,
    /// Of another pool.
    OtherPool,
    /// Small blocks for a large request, or the other way round.
    OtherClass,
    /// Of another stream.
    OtherStream,
    /// Of expandable segments, which the request may not use.
    Expandable,
    /// Too small.
    TooSmall,
    /// `max_split_size_mb` forbids to split it for so little.
    NotSplit,
    /// A reason of a newer library, by its number.
    Other(i32),
}

impl Reason {
    const ALL: [Self; 9] = [
        Self::Usable,
        Self::PendingEvents,
        Self::PendingCapture,
        Self::OtherPool,
        Self::OtherClass,
        Self::OtherStream,
        Self::Expandable,
        Self::TooSmall,
        Self::NotSplit,
    ];

    fn to_c(self) -> i32 {
        match self {
            Self::Usable => sys::CACHALOT_REASON_USABLE,
            Self::PendingEvents => sys::CACHALOT_REASON_PENDING_EVENTS,
            Self::PendingCapture => sys::CACHALOT_REASON_PENDING_CAPTURE,
            Self::OtherPool => sys::CACHALOT_REASON_OTHER_POOL,
            Self::OtherClass => sys::CACHALOT_REASON_OTHER_CLASS,
            Self::OtherStream => sys::CACHALOT_REASON_OTHER_STREAM,
            Self::Expandable => sys::CACHALOT_REASON_EXPANDABLE,
            Self::TooSmall => sys::CACHALOT_REASON_TOO_SMALL,
            Self::NotSplit => sys::CACHALOT_REASON_NOT_SPLIT,
            Self::Other(other) => other,
        }
    }

    fn of_c(number: i32) -> Self {
        Self::ALL.into_iter().find(|reason| reason.to_c() == number).unwrap_or(Self::Other(number))
    }

    /// "too_small" and so on: the words of the JSON. Stands for `cachalot_report_reason_name`.
    pub fn name(self) -> &'static str {
        // SAFETY: the function takes any number; its texts live as long as the library.
        match unsafe { ffi::str_of(sys::cachalot_report_reason_name(self.to_c())) } {
            std::borrow::Cow::Borrowed(name) => name,
            std::borrow::Cow::Owned(_) => "unknown",
        }
    }
}

/// The numbers of a report, in bytes where nothing else is said. Stands for
/// `cachalot_report_numbers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ReportNumbers {
    /// The device.
    pub device: i32,
    /// What would become of the request.
    pub outcome: Outcome,
    /// As asked.
    pub requested: u64,
    /// Rounded to the block that it needs.
    pub size: u64,
    /// The segment that the driver would be asked for.
    pub segment_size: u64,
    /// The request's stream.
    pub stream: Stream,
    /// The request's pool.
    pub pool: PoolId,
    /// Whether it needs a small block.
    pub is_small: bool,
    /// What the device has.
    pub device_total: u64,
    /// What of it is free.
    pub device_free: u64,
    /// The allocator's limit.
    pub limit: Option<u64>,
    /// Obtained from the driver: the sum of the next three.
    pub reserved: u64,
    /// Live blocks.
    pub allocated: u64,
    /// Freed blocks that wait.
    pub pending: u64,
    /// Free blocks.
    pub cached: u64,
    /// The largest of them.
    pub largest_free_block: u64,
    /// What a trim of everything could give back.
    pub releasable: u64,
    /// What pools that sleep need to wake; it is not reserved.
    pub asleep: u64,
}

/// Live blocks of one label, tenant, stream and pool. Stands for `cachalot_report_holder`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Holder {
    /// `""`: none, or labels are not tracked.
    pub label: String,
    /// The id of the tenant; 0: the default one.
    pub tenant: u32,
    /// Their stream.
    pub stream: Stream,
    /// Their pool.
    pub pool: PoolId,
    /// How many.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What callers asked for.
    pub requested: u64,
}

/// Memory that is not live, by what is in the way. Stands for `cachalot_report_reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ReportReason {
    /// What is in the way.
    pub reason: Reason,
    /// How many blocks.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those of the largest.
    pub largest: u64,
    /// What a trim could give back of them.
    pub releasable: u64,
}

/// A report as plain data.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ReportData {
    /// The numbers.
    pub numbers: ReportNumbers,
    /// Who holds memory, most bytes first.
    pub holders: Vec<Holder>,
    /// What is in the way of the rest, most bytes first.
    pub reasons: Vec<ReportReason>,
    /// Which options would have made room for a request that fails; else `""`.
    pub advice: String,
}

/// A picture of one device, and of one request for it. It keeps nothing alive, never changes, and may
/// be read by any thread; clones are the same picture. Stands for `cachalot_report`.
///
/// Printing it gives the table of [`Report::text`].
#[derive(Clone)]
pub struct Report {
    handle: Arc<Handle>,
}

struct Handle(NonNull<sys::cachalot_report>);

// SAFETY: a report never changes, and any thread may read and destroy it.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle is ours and not used afterwards.
        unsafe { sys::cachalot_report_destroy(self.0.as_ptr()) }
    }
}

impl Allocator {
    /// Makes a report: of a request that may come ("why would it fail now?"), or of one that has
    /// failed (`ReportOptions::from(&out_of_memory)`), also from within an out-of-memory observer.
    /// Walks all blocks of the device with its lock held, and changes nothing. Stands for
    /// `cachalot_report_create`.
    ///
    /// # Errors
    /// `InvalidArgument` for a device that the driver does not have or a size of 2^60 and more;
    /// `InvalidState` where the request would be routed to a pool that is gone; `Driver`;
    /// `NotSupported` under `backend:cudaMallocAsync`.
    pub fn report(&self, options: &ReportOptions) -> Result<Report> {
        let mut out = ffi::sized::<sys::cachalot_report_options>();
        out.device = options.device;
        out.size = options.size;
        out.stream = options.stream.0;
        let mut raw = ptr::null_mut();
        // SAFETY: the allocator is live, and both pointers are those of locals.
        self.call(|allocator, error| unsafe {
            sys::cachalot_report_create(allocator, &out, &mut raw, error)
        })?;
        let raw = NonNull::new(raw).expect("a call that worked gave a report");
        Ok(Report { handle: Arc::new(Handle(raw)) })
    }
}

impl Report {
    /// The handle, for calls of `cachalot-sys`. It lives as long as this report.
    pub fn as_raw(&self) -> *const sys::cachalot_report {
        self.handle.0.as_ptr()
    }

    /// Its numbers. Stands for `cachalot_report_get_numbers`.
    pub fn numbers(&self) -> ReportNumbers {
        let mut row = ffi::sized::<sys::cachalot_report_numbers>();
        // SAFETY: the report is live, and the row is a local of the size that it says.
        let status = unsafe { sys::cachalot_report_get_numbers(self.as_raw(), &mut row) };
        debug_assert_eq!(status, sys::CACHALOT_OK);
        ReportNumbers {
            device: row.device,
            outcome: Outcome::of_c(row.outcome),
            requested: row.requested,
            size: row.size,
            segment_size: row.segment_size,
            stream: Stream(row.stream),
            pool: PoolId::of_c(row.pool),
            is_small: row.is_small != 0,
            device_total: row.device_total,
            device_free: row.device_free,
            limit: ffi::some_if_set(row.limit),
            reserved: row.reserved,
            allocated: row.allocated,
            pending: row.pending,
            cached: row.cached,
            largest_free_block: row.largest_free_block,
            releasable: row.releasable,
            asleep: row.asleep,
        }
    }

    /// Who holds memory, most bytes first. Stands for `cachalot_report_holder_count` and
    /// `cachalot_report_get_holder`.
    pub fn holders(&self) -> Vec<Holder> {
        // SAFETY: the report is live.
        let count = unsafe { sys::cachalot_report_holder_count(self.as_raw()) };
        let holders = ffi::rows(
            count,
            |index, row| {
                // SAFETY: the report is live, and the row is of the size that it says.
                ffi::check(unsafe { sys::cachalot_report_get_holder(self.as_raw(), index, row) })
            },
            |row: &sys::cachalot_report_holder| Holder {
                // SAFETY: the text lives as long as the report.
                label: unsafe { ffi::string_of(row.label) },
                tenant: row.tenant,
                stream: Stream(row.stream),
                pool: PoolId::of_c(row.pool),
                blocks: row.blocks,
                bytes: row.bytes,
                requested: row.requested,
            },
        );
        holders.unwrap_or_default()
    }

    /// What is in the way of what is not live, most bytes first. Stands for
    /// `cachalot_report_reason_count` and `cachalot_report_get_reason`.
    pub fn reasons(&self) -> Vec<ReportReason> {
        // SAFETY: the report is live.
        let count = unsafe { sys::cachalot_report_reason_count(self.as_raw()) };
        let reasons = ffi::rows(
            count,
            |index, row| {
                // SAFETY: the report is live, and the row is of the size that it says.
                ffi::check(unsafe { sys::cachalot_report_get_reason(self.as_raw(), index, row) })
            },
            |row: &sys::cachalot_report_reason| ReportReason {
                reason: Reason::of_c(row.reason),
                blocks: row.blocks,
                bytes: row.bytes,
                largest: row.largest,
                releasable: row.releasable,
            },
        );
        reasons.unwrap_or_default()
    }

    /// For a request that fails: which options would have made room; else `""`. Stands for
    /// `cachalot_report_advice`.
    pub fn advice(&self) -> String {
        // SAFETY: the report is live, and the text lives as long as it.
        unsafe { ffi::string_of(sys::cachalot_report_advice(self.as_raw())) }
    }

    /// The report as a table of one screen, for logs. Stands for `cachalot_report_text`.
    ///
    /// # Errors
    /// `OutOfHostMemory`.
    pub fn text(&self) -> Result<String> {
        ffi::text(|buffer, capacity, length| {
            // SAFETY: the report is live, and the buffer has room for capacity bytes.
            ffi::call(|error| unsafe {
                sys::cachalot_report_text(self.as_raw(), buffer, capacity, length, error)
            })
        })
    }

    /// The report as one JSON object; `docs/serving.md` lists its keys. Stands for
    /// `cachalot_report_json`.
    ///
    /// # Errors
    /// `OutOfHostMemory`.
    pub fn json(&self) -> Result<String> {
        ffi::text(|buffer, capacity, length| {
            // SAFETY: the report is live, and the buffer has room for capacity bytes.
            ffi::call(|error| unsafe {
                sys::cachalot_report_json(self.as_raw(), buffer, capacity, length, error)
            })
        })
    }

    /// All of it as plain data.
    pub fn to_data(&self) -> ReportData {
        ReportData {
            numbers: self.numbers(),
            holders: self.holders(),
            reasons: self.reasons(),
            advice: self.advice(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text().map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.numbers().fmt(f)
    }
}

/// As [`Report::to_data`].
#[cfg(feature = "serde")]
impl serde::Serialize for Report {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_data().serialize(serializer)
    }
}
