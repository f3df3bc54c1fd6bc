// SPDX-License-Identifier: MIT OR Apache-2.0
//! Snapshots: segments, blocks and history at one moment.

use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::allocator::Allocator;
use crate::error::Result;
use crate::ffi;
use crate::history::TraceEntry;
use crate::settings::Settings;
use crate::sys;
use crate::types::{Address, PoolId, Stream};

/// A picture of an allocator. It keeps nothing alive, never changes, and may be read by any thread at
/// any time; clones are the same picture. Stands for `cachalot_snapshot`.
#[derive(Clone)]
pub struct Snapshot {
    handle: Arc<Handle>,
    devices: i32,
}

struct Handle(NonNull<sys::cachalot_snapshot>);

// SAFETY: a snapshot never changes, and any thread may read and destroy it.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle is ours and not used afterwards.
        unsafe { sys::cachalot_snapshot_destroy(self.0.as_ptr()) }
    }
}

/// What goes into a snapshot. Stands for `cachalot_snapshot_options`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct SnapshotOptions {
    pool: PoolId,
    without_history: bool,
}

impl SnapshotOptions {
    /// Everything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only the segments of this private pool.
    pub fn pool(mut self, pool: PoolId) -> Self {
        self.pool = pool;
        self
    }

    /// Leaves the history out.
    pub fn without_history(mut self) -> Self {
        self.without_history = true;
        self
    }
}

/// What a block of a snapshot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum BlockState {
    /// In the cache.
    Inactive,
    /// Handed out.
    Allocated,
    /// Freed, waiting for recorded streams.
    PendingFree,
    /// A state of a newer library, by its number.
    Other(i32),
}

impl BlockState {
    fn of_c(state: i32) -> Self {
        match state {
            sys::CACHALOT_BLOCK_INACTIVE => Self::Inactive,
            sys::CACHALOT_BLOCK_ALLOCATED => Self::Allocated,
            sys::CACHALOT_BLOCK_PENDING_FREE => Self::PendingFree,
            other => Self::Other(other),
        }
    }
}

/// One segment, or one contiguous mapped range of an expandable segment. Sizes in bytes. Stands for
/// `cachalot_segment_row`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Segment {
    /// Its device.
    pub device: i32,
    /// Whether it is of a large pool.
    pub is_large: bool,
    /// Its first byte.
    pub address: Address,
    /// All of it.
    pub total_size: u64,
    /// Of its blocks: handed out.
    pub allocated_size: u64,
    /// Of its blocks: handed out or waiting.
    pub active_size: u64,
    /// What was requested of the latter.
    pub requested_size: u64,
    /// Its stream.
    pub stream: Stream,
    /// Its private pool.
    pub pool: PoolId,
    /// Whether it is of an expandable segment.
    pub is_expandable: bool,
    /// Its number in the order in which segments were obtained (0 under 2.11).
    pub number: i64,
    /// The context of the call that obtained it, as far as its first block knows; 0: none.
    pub context: u64,
    /// Its blocks, by address.
    pub blocks: Vec<SegmentBlock>,
}

/// One block of a segment. Stands for `cachalot_block_row`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct SegmentBlock {
    /// Its first byte.
    pub address: Address,
    /// Bytes.
    pub size: u64,
    /// What was last requested of it, also of an inactive block, as in PyTorch.
    pub requested_size: u64,
    /// What it is.
    pub state: BlockState,
    /// The context of its hand-out; 0: none.
    pub context: u64,
}

/// A snapshot as plain data.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct SnapshotData {
    /// Devices in order, then by address.
    pub segments: Vec<Segment>,
    /// For each device its history, oldest first.
    pub history: Vec<Vec<TraceEntry>>,
    /// The options at the moment of the snapshot.
    pub settings: Settings,
    /// The last option string then.
    pub config: String,
}

impl Allocator {
    /// Takes a snapshot of all devices, each at one moment. Walks everything: its cost grows with the
    /// number of blocks. It is an event of the history itself, seen in later snapshots.
    ///
    /// # Errors
    /// As [`Allocator::snapshot_with`].
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.snapshot_with(&SnapshotOptions::new())
    }

    /// The same, of what the options say. Stands for `cachalot_snapshot_take`.
    ///
    /// # Errors
    /// `NotSupported` under `backend:cudaMallocAsync`.
    pub fn snapshot_with(&self, options: &SnapshotOptions) -> Result<Snapshot> {
        let mut out = ffi::sized::<sys::cachalot_snapshot_options>();
        out.pool = options.pool.to_c();
        out.without_history = options.without_history.into();
        let mut raw = ptr::null_mut();
        // SAFETY: the allocator is live, and both pointers are those of locals.
        self.call(|allocator, error| unsafe {
            sys::cachalot_snapshot_take(allocator, &out, &mut raw, error)
        })?;
        Ok(Snapshot::of_raw(raw, self.driver().device_count()))
    }
}

impl Snapshot {
    /// Of a call that worked.
    pub(crate) fn of_raw(raw: *mut sys::cachalot_snapshot, devices: i32) -> Self {
        let raw = NonNull::new(raw).expect("a call that worked gave a snapshot");
        Self { handle: Arc::new(Handle(raw)), devices }
    }

    /// The handle, for calls of `cachalot-sys`. It lives as long as this snapshot.
    pub fn as_raw(&self) -> *const sys::cachalot_snapshot {
        self.handle.0.as_ptr()
    }

    /// How many segments there are. Stands for `cachalot_snapshot_segment_count`.
    pub fn segment_count(&self) -> usize {
        // SAFETY: the snapshot is live.
        unsafe { sys::cachalot_snapshot_segment_count(self.as_raw()) }
    }

    /// How many blocks all segments have. Stands for `cachalot_snapshot_block_count`.
    pub fn block_count(&self) -> usize {
        // SAFETY: the snapshot is live.
        unsafe { sys::cachalot_snapshot_block_count(self.as_raw()) }
    }

    /// How many entries the history of a device has. Stands for `cachalot_snapshot_entry_count`.
    pub fn entry_count(&self, device: i32) -> usize {
        // SAFETY: the snapshot is live.
        unsafe { sys::cachalot_snapshot_entry_count(self.as_raw(), device) }
    }

    /// One segment with its blocks: devices in order, then by address. `None` past the last. Stands
    /// for `cachalot_snapshot_segment`.
    pub fn segment(&self, index: usize) -> Option<Segment> {
        let mut row = ffi::sized::<sys::cachalot_segment_row>();
        // SAFETY: the snapshot is live, and the row is a local of the size that it says.
        let status = unsafe { sys::cachalot_snapshot_segment(self.as_raw(), index, &mut row) };
        ffi::check(status).ok()?;
        let blocks = row.first_block..row.first_block + row.block_count;
        Some(Segment {
            device: row.device,
            is_large: row.is_large != 0,
            address: row.address,
            total_size: row.total_size,
            allocated_size: row.allocated_size,
            active_size: row.active_size,
            requested_size: row.requested_size,
            stream: Stream(row.stream),
            pool: PoolId::of_c(row.pool),
            is_expandable: row.is_expandable != 0,
            number: row.number,
            context: row.context,
            blocks: blocks.filter_map(|index| self.block(index)).collect(),
        })
    }

    /// One block of all segments, in their order. `None` past the last. Stands for
    /// `cachalot_snapshot_block`.
    pub fn block(&self, index: usize) -> Option<SegmentBlock> {
        let mut row = ffi::sized::<sys::cachalot_block_row>();
        // SAFETY: the snapshot is live, and the row is a local of the size that it says.
        let status = unsafe { sys::cachalot_snapshot_block(self.as_raw(), index, &mut row) };
        ffi::check(status).ok()?;
        Some(SegmentBlock {
            address: row.address,
            size: row.size,
            requested_size: row.requested_size,
            state: BlockState::of_c(row.state),
            context: row.context,
        })
    }

    /// One entry of a device's history, oldest first. `None` past the last. Stands for
    /// `cachalot_snapshot_entry`.
    pub fn entry(&self, device: i32, index: usize) -> Option<TraceEntry> {
        let mut row = ffi::sized::<sys::cachalot_trace_entry>();
        // SAFETY: the snapshot is live, and the row is a local of the size that it says.
        let status =
            unsafe { sys::cachalot_snapshot_entry(self.as_raw(), device, index, &mut row) };
        ffi::check(status).ok()?;
        // SAFETY: the texts live as long as the snapshot.
        Some(unsafe { TraceEntry::of_c(&row) })
    }

    /// All segments with their blocks.
    pub fn segments(&self) -> impl Iterator<Item = Segment> + '_ {
        (0..self.segment_count()).filter_map(|index| self.segment(index))
    }

    /// All blocks, in the order of the segments.
    pub fn blocks(&self) -> impl Iterator<Item = SegmentBlock> + '_ {
        (0..self.block_count()).filter_map(|index| self.block(index))
    }

    /// The history of a device, oldest first.
    pub fn history(&self, device: i32) -> impl Iterator<Item = TraceEntry> + '_ {
        (0..self.entry_count(device)).filter_map(move |index| self.entry(device, index))
    }

    /// The options at the moment of the snapshot. Stands for `cachalot_snapshot_settings`.
    pub fn settings(&self) -> Settings {
        let mut settings = ffi::sized::<sys::cachalot_settings>();
        // SAFETY: the snapshot is live, and the row is a local of the size that it says.
        let status = unsafe { sys::cachalot_snapshot_settings(self.as_raw(), &mut settings) };
        debug_assert_eq!(status, sys::CACHALOT_OK);
        Settings::of_c(&settings)
    }

    /// The last option string then. Stands for `cachalot_snapshot_config`.
    pub fn config(&self) -> String {
        // SAFETY: the snapshot is live, and the text lives as long as it.
        unsafe { ffi::string_of(sys::cachalot_snapshot_config(self.as_raw())) }
    }

    /// All of it as plain data.
    pub fn to_data(&self) -> SnapshotData {
        SnapshotData {
            segments: self.segments().collect(),
            history: (0..self.devices).map(|device| self.history(device).collect()).collect(),
            settings: self.settings(),
            config: self.config(),
        }
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("segments", &self.segment_count())
            .field("blocks", &self.block_count())
            .finish_non_exhaustive()
    }
}

/// As [`Snapshot::to_data`].
#[cfg(feature = "serde")]
impl serde::Serialize for Snapshot {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_data().serialize(serializer)
    }
}
