// SPDX-License-Identifier: MIT OR Apache-2.0
//! History: what the allocator did, event by event, and contexts.

use std::fmt;

use crate::allocator::Allocator;
use crate::error::Result;
use crate::ffi;
use crate::snapshot::{Snapshot, SnapshotOptions};
use crate::sys;
use crate::types::{Address, PoolId, Stream};

/// What an entry of the history says. Stands for `cachalot_action`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Action {
    /// A block was handed out; the size is what was requested.
    Alloc,
    /// The caller freed it.
    FreeRequested,
    /// It can be reused.
    FreeCompleted,
    /// A segment was obtained.
    SegmentAlloc,
    /// A segment is about to be given back.
    SegmentFree,
    /// A range of an expandable segment was backed by memory.
    SegmentMap,
    /// Its memory was given back.
    SegmentUnmap,
    /// A snapshot was taken; the size is its active bytes.
    Snapshot,
    /// A request failed; the address is the device's free bytes.
    OutOfMemory,
    /// [`Allocator::annotate`] (since 2.14).
    Annotate,
    /// In recordings of programs only, like the rest: a block that was live when the recording began.
    LiveAtBegin,
    /// Memory outside of any cache was obtained.
    OtherAlloc,
    /// It was given back.
    OtherFree,
    /// A driver's call that gave memory back has ended.
    CallEnd,
    /// The device's primary context ended, and with it all its blocks.
    ContextEnd,
    /// The program made a stream.
    StreamCreate,
    /// It destroyed one.
    StreamDestroy,
    /// The program began to capture a stream.
    CaptureBegin,
    /// The capture ended.
    CaptureEnd,
    /// The program has waited for the work of a stream.
    StreamWait,
    /// It has waited for all work of the context.
    ContextWait,
    /// It gave a block to others by a handle.
    Export,
    /// The recording ended as it should; the size is how many events were lost.
    RecordingEnd,
    /// An action of a newer library, by its number.
    Other(i32),
}

impl Action {
    pub(crate) fn of_c(action: i32) -> Self {
        match action as sys::cachalot_action {
            sys::CACHALOT_ACTION_ALLOC => Self::Alloc,
            sys::CACHALOT_ACTION_FREE_REQUESTED => Self::FreeRequested,
            sys::CACHALOT_ACTION_FREE_COMPLETED => Self::FreeCompleted,
            sys::CACHALOT_ACTION_SEGMENT_ALLOC => Self::SegmentAlloc,
            sys::CACHALOT_ACTION_SEGMENT_FREE => Self::SegmentFree,
            sys::CACHALOT_ACTION_SEGMENT_MAP => Self::SegmentMap,
            sys::CACHALOT_ACTION_SEGMENT_UNMAP => Self::SegmentUnmap,
            sys::CACHALOT_ACTION_SNAPSHOT => Self::Snapshot,
            sys::CACHALOT_ACTION_OOM => Self::OutOfMemory,
            sys::CACHALOT_ACTION_ANNOTATE => Self::Annotate,
            sys::CACHALOT_ACTION_LIVE_AT_BEGIN => Self::LiveAtBegin,
            sys::CACHALOT_ACTION_OTHER_ALLOC => Self::OtherAlloc,
            sys::CACHALOT_ACTION_OTHER_FREE => Self::OtherFree,
            sys::CACHALOT_ACTION_CONTEXT_END => Self::ContextEnd,
            sys::CACHALOT_ACTION_STREAM_CREATE => Self::StreamCreate,
            sys::CACHALOT_ACTION_STREAM_DESTROY => Self::StreamDestroy,
            sys::CACHALOT_ACTION_CAPTURE_BEGIN => Self::CaptureBegin,
            sys::CACHALOT_ACTION_CAPTURE_END => Self::CaptureEnd,
            sys::CACHALOT_ACTION_CALL_END => Self::CallEnd,
            sys::CACHALOT_ACTION_STREAM_WAIT => Self::StreamWait,
            sys::CACHALOT_ACTION_CONTEXT_WAIT => Self::ContextWait,
            sys::CACHALOT_ACTION_EXPORT => Self::Export,
            sys::CACHALOT_ACTION_RECORDING_END => Self::RecordingEnd,
            _ => Self::Other(action),
        }
    }

    fn to_c(self) -> i32 {
        let action = match self {
            Self::Alloc => sys::CACHALOT_ACTION_ALLOC,
            Self::FreeRequested => sys::CACHALOT_ACTION_FREE_REQUESTED,
            Self::FreeCompleted => sys::CACHALOT_ACTION_FREE_COMPLETED,
            Self::SegmentAlloc => sys::CACHALOT_ACTION_SEGMENT_ALLOC,
            Self::SegmentFree => sys::CACHALOT_ACTION_SEGMENT_FREE,
            Self::SegmentMap => sys::CACHALOT_ACTION_SEGMENT_MAP,
            Self::SegmentUnmap => sys::CACHALOT_ACTION_SEGMENT_UNMAP,
            Self::Snapshot => sys::CACHALOT_ACTION_SNAPSHOT,
            Self::OutOfMemory => sys::CACHALOT_ACTION_OOM,
            Self::Annotate => sys::CACHALOT_ACTION_ANNOTATE,
            Self::LiveAtBegin => sys::CACHALOT_ACTION_LIVE_AT_BEGIN,
            Self::OtherAlloc => sys::CACHALOT_ACTION_OTHER_ALLOC,
            Self::OtherFree => sys::CACHALOT_ACTION_OTHER_FREE,
            Self::ContextEnd => sys::CACHALOT_ACTION_CONTEXT_END,
            Self::StreamCreate => sys::CACHALOT_ACTION_STREAM_CREATE,
            Self::StreamDestroy => sys::CACHALOT_ACTION_STREAM_DESTROY,
            Self::CaptureBegin => sys::CACHALOT_ACTION_CAPTURE_BEGIN,
            Self::CaptureEnd => sys::CACHALOT_ACTION_CAPTURE_END,
            Self::CallEnd => sys::CACHALOT_ACTION_CALL_END,
            Self::StreamWait => sys::CACHALOT_ACTION_STREAM_WAIT,
            Self::ContextWait => sys::CACHALOT_ACTION_CONTEXT_WAIT,
            Self::Export => sys::CACHALOT_ACTION_EXPORT,
            Self::RecordingEnd => sys::CACHALOT_ACTION_RECORDING_END,
            Self::Other(action) => return action,
        };
        action as i32
    }

    /// PyTorch's name of it ("segment_alloc"). Stands for `cachalot_action_name`.
    pub fn name(self) -> &'static str {
        // SAFETY: the function takes any number; its texts live as long as the library.
        match unsafe { ffi::str_of(sys::cachalot_action_name(self.to_c())) } {
            std::borrow::Cow::Borrowed(name) => name,
            std::borrow::Cow::Owned(_) => "unknown",
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One event. Stands for `cachalot_trace_entry`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct TraceEntry {
    /// What happened.
    pub action: Action,
    /// On which device.
    pub device: i32,
    /// Where.
    pub address: Address,
    /// Bytes.
    pub size: u64,
    /// For which stream.
    pub stream: Stream,
    /// In which private pool.
    pub pool: PoolId,
    /// The context that is kept for it; 0: none.
    pub context: u64,
    /// Microseconds since 1970.
    pub time_us: i64,
    /// The thread's text ([`set_metadata`](crate::set_metadata)), or that of an annotation.
    pub metadata: String,
    /// The allocator's own text (since 2.15).
    pub internal_metadata: String,
}

impl TraceEntry {
    /// # Safety
    /// The texts of the entry are alive.
    pub(crate) unsafe fn of_c(entry: &sys::cachalot_trace_entry) -> Self {
        Self {
            action: Action::of_c(entry.action),
            device: entry.device,
            address: entry.address,
            size: entry.size,
            stream: Stream(entry.stream),
            pool: PoolId::of_c(entry.pool),
            context: entry.context,
            time_us: entry.time_us,
            // SAFETY: as the caller promises.
            metadata: unsafe { ffi::string_of(entry.metadata) },
            // SAFETY: as the caller promises.
            internal_metadata: unsafe { ffi::string_of(entry.internal_metadata) },
        }
    }
}

/// For what contexts are kept. Each level includes those before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ContextLevel {
    /// For nothing.
    #[default]
    Never,
    /// Live blocks and segments.
    State,
    /// Entries too: that of the hand-out.
    Alloc,
    /// And frees have their own.
    All,
}

/// How history is recorded. Stands for `cachalot_history_options`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct HistoryOptions {
    enabled: bool,
    context: ContextLevel,
    max_entries: u64,
    clear: bool,
    skip_actions: String,
}

impl HistoryOptions {
    /// The ring of each device holds so many entries; 0 counts as 1.
    pub fn recording(max_entries: u64) -> Self {
        Self { enabled: true, max_entries, ..Self::default() }
    }

    /// Nothing is recorded, and what there is goes.
    pub fn off() -> Self {
        Self::default()
    }

    /// Whether entries are kept.
    pub fn enabled(mut self, enabled: bool) -> Self {
        self.enabled = enabled;
        self
    }

    /// The number of entries that a ring holds.
    pub fn max_entries(mut self, max_entries: u64) -> Self {
        self.max_entries = max_entries;
        self
    }

    /// For what contexts are kept.
    pub fn context(mut self, level: ContextLevel) -> Self {
        self.context = level;
        self
    }

    /// Drops older entries first.
    pub fn clear(mut self, clear: bool) -> Self {
        self.clear = clear;
        self
    }

    /// Names of actions that are not put into the ring, with commas between ("segment_map,alloc").
    pub fn skip_actions(mut self, names: impl Into<String>) -> Self {
        self.skip_actions = names.into();
        self
    }
}

/// The entries of a device's history at one moment, oldest first ([`Allocator::history`]).
#[derive(Debug)]
pub struct History {
    snapshot: Snapshot,
    device: i32,
    next: usize,
    count: usize,
}

impl Iterator for History {
    type Item = TraceEntry;

    fn next(&mut self) -> Option<TraceEntry> {
        let entry = self.snapshot.entry(self.device, self.next)?;
        self.next += 1;
        Some(entry)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.count - self.next.min(self.count);
        (left, Some(left))
    }
}

impl ExactSizeIterator for History {}
impl std::iter::FusedIterator for History {}

impl Allocator {
    /// Starts, changes or stops the recording of history on all devices. Slows every call down: all
    /// threads share one order of events. Stands for `cachalot_record_history`.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown name among the skipped actions (as in PyTorch, recording is on
    /// by then and nothing is skipped).
    pub fn record_history(&self, options: &HistoryOptions) -> Result<()> {
        let skipped = ffi::c_string(&options.skip_actions, "the list of actions")?;
        let mut out = ffi::sized::<sys::cachalot_history_options>();
        out.enabled = options.enabled.into();
        out.context = match options.context {
            ContextLevel::Never => sys::CACHALOT_CONTEXT_LEVEL_NEVER,
            ContextLevel::State => sys::CACHALOT_CONTEXT_LEVEL_STATE,
            ContextLevel::Alloc => sys::CACHALOT_CONTEXT_LEVEL_ALLOC,
            ContextLevel::All => sys::CACHALOT_CONTEXT_LEVEL_ALL,
        };
        out.max_entries = options.max_entries;
        out.clear = options.clear.into();
        if !options.skip_actions.is_empty() {
            out.skip_actions = skipped.as_ptr();
        }
        // SAFETY: the allocator is live, and the options and their text live until the call returns.
        self.call(|raw, error| unsafe { sys::cachalot_record_history(raw, &out, error) })
    }

    /// The recorded entries of a device, oldest first. Takes a snapshot, which is an event itself.
    ///
    /// # Errors
    /// As [`Allocator::snapshot`].
    pub fn history(&self, device: i32) -> Result<History> {
        let snapshot = self.snapshot_with(&SnapshotOptions::new())?;
        let count = snapshot.entry_count(device);
        Ok(History { snapshot, device, next: 0, count })
    }

    /// The context that a live block keeps; 0 for none and for any other address. Stands for
    /// `cachalot_context_of`.
    ///
    /// # Errors
    /// `NotSupported` under 2.11.
    pub fn context_of(&self, address: Address) -> Result<u64> {
        let mut context = 0;
        // SAFETY: the allocator is live, and the pointer is that of a local.
        self.call(|raw, error| unsafe {
            sys::cachalot_context_of(raw, address, &mut context, error)
        })?;
        Ok(context)
    }

    /// What a context means, one frame a line, innermost first. Stands for `cachalot_context_text`.
    ///
    /// # Errors
    /// `InvalidState` from within a callback under a lock.
    pub fn context_text(&self, context: u64) -> Result<String> {
        ffi::text(|buffer, capacity, length| {
            // SAFETY: the allocator is live, and the buffer has room for capacity bytes.
            self.call(|raw, error| unsafe {
                sys::cachalot_context_text(raw, context, buffer, capacity, length, error)
            })
        })
    }

    /// Adds an entry with a text for a live block. Stands for `cachalot_annotate`.
    ///
    /// # Errors
    /// `NotSupported` under 2.11; `InvalidArgument` for an address that is no live block.
    pub fn annotate(&self, address: Address, text: &str) -> Result<()> {
        let text = ffi::c_string(text, "the annotation")?;
        // SAFETY: the allocator is live, and the text lives until the call returns.
        self.call(|raw, error| unsafe {
            sys::cachalot_annotate(raw, address, text.as_ptr(), error)
        })
    }
}
