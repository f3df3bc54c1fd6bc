// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces: recorded runs, read from a file.

use std::ffi::c_void;
use std::fmt;
use std::io::{self, Read, Write};
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::allocator::Allocator;
use crate::callback;
use crate::error::{CallbackError, Error, Result};
use crate::ffi;
use crate::history::Action;
use crate::snapshot::Snapshot;
use crate::stats::Stats;
use crate::sys;
use crate::types::{Address, PoolId, Release, Stream};

/// A recorded run. Immutable: any thread may read it at any time; clones are the same trace. Stands
/// for `cachalot_trace`; `docs/trace-format.md` describes the file.
#[derive(Clone)]
pub struct Trace {
    handle: Arc<Handle>,
    info: TraceInfo,
}

struct Handle(NonNull<sys::cachalot_trace>);

// SAFETY: a trace never changes, and any thread may read and destroy it.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle is ours and not used afterwards.
        unsafe { sys::cachalot_trace_destroy(self.0.as_ptr()) }
    }
}

/// What a trace says of itself; `""` where it says nothing. Stands for `cachalot_trace_info`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct TraceInfo {
    /// What ran.
    pub workload: String,
    /// The version of PyTorch that recorded it.
    pub torch: String,
    /// Its option string.
    pub config: String,
    /// Bytes of the device, if it is said.
    pub device_total: Option<u64>,
    /// How many events it has.
    pub event_count: usize,
    /// How many statistics were recorded at the end.
    pub stat_count: usize,
    /// The release that fits `torch`; `None` for any other version.
    pub release: Option<Release>,
    /// How many devices it has.
    pub device_count: i32,
    /// The program that wrote the file.
    pub recorder: String,
    /// The trace format, 1 or 2. Only format 2 has the rest.
    pub format: i32,
    /// The version of the CUDA driver, 13000 for 13.0, if it is said.
    pub driver_version: Option<i32>,
    /// The program that was recorded, with its arguments.
    pub command: String,
    /// Its process, if it is said.
    pub process_id: Option<i64>,
    /// The process that it was forked from.
    pub parent_process_id: Option<i64>,
    /// When the recording began, microseconds since 1970, if it is said.
    pub start_us: Option<i64>,
}

/// One event of a trace. Stands for `cachalot_trace_event`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct TraceEvent {
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
    /// Microseconds since 1970, where the file says it.
    pub time_us: Option<i64>,
    /// The context; 0 where the file does not say it.
    pub context: u64,
    /// Nanoseconds that the driver's call took, where the file says it.
    pub cost_ns: Option<i64>,
    /// Those of them in which it waited for work of the device, where the file says it.
    pub wait_ns: Option<i64>,
    /// The thread, by the system's number, where the file says it.
    pub thread: Option<u64>,
    /// Of a free: the stream that it is ordered on, the block's unless the file names another.
    pub freed_on: Stream,
    /// The context that the program asked in, where it is not the device's primary one.
    pub driver_context: Option<u64>,
    /// How the program asked: a letter of docs/trace-format.md, where the file says it.
    pub entry: Option<char>,
}

/// A reader or writer, and what it said when it failed.
pub(crate) struct Channel<T> {
    inner: T,
    failure: Option<io::Error>,
}

impl<T> Channel<T> {
    pub(crate) fn new(inner: T) -> Self {
        Self { inner, failure: None }
    }

    pub(crate) fn user_data(&mut self) -> *mut c_void {
        ptr::from_mut(self).cast()
    }

    /// The result of the call, with what the reader or writer said.
    pub(crate) fn finish(self, result: Result<()>) -> Result<()> {
        result.map_err(|error| error.with_source(self.failure))
    }
}

unsafe extern "C" fn read<R: Read>(
    user_data: *mut c_void,
    buffer: *mut c_void,
    capacity: usize,
) -> i64 {
    // SAFETY: the library gives back the channel, which nobody else uses, and a buffer with room for
    // capacity bytes, which are made valid first.
    let (channel, buffer) = unsafe {
        buffer.cast::<u8>().write_bytes(0, capacity);
        let buffer = std::slice::from_raw_parts_mut(buffer.cast::<u8>(), capacity);
        (&mut *user_data.cast::<Channel<R>>(), buffer)
    };
    loop {
        match callback::run(|| channel.inner.read(buffer)) {
            Some(Ok(length)) => return length.min(capacity) as i64,
            Some(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Some(Err(error)) => {
                channel.failure = Some(error);
                return -1;
            }
            None => return -1,
        }
    }
}

pub(crate) unsafe extern "C" fn write<W: Write>(
    user_data: *mut c_void,
    data: *const c_void,
    size: usize,
) -> i32 {
    // SAFETY: the library gives back the channel, which nobody else uses, and size bytes of data.
    let channel = unsafe { &mut *user_data.cast::<Channel<W>>() };
    let data: &[u8] = if size == 0 {
        &[]
    } else {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(data.cast(), size) }
    };
    match callback::run(|| channel.inner.write_all(data)) {
        Some(Ok(())) => 0,
        Some(Err(error)) => {
            channel.failure = Some(error);
            1
        }
        None => 1,
    }
}

/// One call of a stack. Stands for `cachalot_trace_frame`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct TraceFrame {
    /// Where the call returns to.
    pub address: Address,
    /// That place in the file, in bytes; 0 without a path.
    pub file_offset: u64,
    /// The program or library that was loaded there; `""` if none is known.
    pub path: String,
}

impl Trace {
    /// Reads a trace to its end. Compressed files are unpacked by the caller. Stands for
    /// `cachalot_trace_read`.
    ///
    /// # Errors
    /// `Io` with the number of the line for input that is no trace; `Callback` with the reader's error
    /// as its source.
    pub fn read(reader: impl Read) -> Result<Self> {
        fn read_from<R: Read>(reader: R) -> Result<Trace> {
            let mut channel = Channel::new(reader);
            let user_data = channel.user_data();
            let mut raw = ptr::null_mut();
            // SAFETY: the channel lives until the call returns, and the pointer is that of a local.
            let result = ffi::call(|error| unsafe {
                sys::cachalot_trace_read(Some(read::<R>), user_data, &mut raw, error)
            });
            channel.finish(result)?;
            let handle = Handle(NonNull::new(raw).expect("a call that worked gave a trace"));
            Ok(Trace { info: info(&handle)?, handle: Arc::new(handle) })
        }
        ffi::check_library()?;
        read_from(reader)
    }

    /// Reads a file, which is not compressed.
    ///
    /// # Errors
    /// As [`Trace::read`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let file = std::fs::File::open(&path).map_err(|source| {
            let message = format!("{} cannot be opened", path.as_ref().display());
            Error::Callback(Box::new(CallbackError { message, source: Some(source) }))
        })?;
        Self::read(file)
    }

    /// The handle, for calls of `cachalot-sys`. It lives as long as this trace.
    pub fn as_raw(&self) -> *const sys::cachalot_trace {
        self.handle.0.as_ptr()
    }

    /// What it says of itself. Stands for `cachalot_trace_get_info`.
    pub fn info(&self) -> &TraceInfo {
        &self.info
    }

    /// One event; `None` past the last. Stands for `cachalot_trace_get_event`.
    pub fn event(&self, index: usize) -> Option<TraceEvent> {
        let mut row = ffi::sized::<sys::cachalot_trace_event>();
        // SAFETY: the trace is live, and the row is a local of the size that it says.
        let status = unsafe { sys::cachalot_trace_get_event(self.as_raw(), index, &mut row) };
        ffi::check(status).ok()?;
        Some(TraceEvent {
            action: Action::of_c(row.action),
            device: row.device,
            address: row.address,
            size: row.size,
            stream: Stream(row.stream),
            pool: PoolId::of_c(row.pool),
            time_us: (row.time_us >= 0).then_some(row.time_us),
            context: row.context,
            cost_ns: (row.cost_ns >= 0).then_some(row.cost_ns),
            wait_ns: (row.wait_ns >= 0).then_some(row.wait_ns),
            thread: ffi::some_if_set(row.thread),
            freed_on: Stream(row.freed_on),
            driver_context: ffi::some_if_set(row.driver_context),
            entry: u8::try_from(row.entry).ok().filter(|&letter| letter != 0).map(char::from),
        })
    }

    /// All events, in order.
    pub fn events(&self) -> impl ExactSizeIterator<Item = TraceEvent> + '_ {
        (0..self.info.event_count)
            .map(|index| self.event(index).expect("the index is below the count"))
    }

    /// The calls that led to the events with a context, the innermost first; none if the trace does not
    /// tell them. Stands for `cachalot_trace_get_frame`.
    pub fn stack(&self, context: u64) -> Vec<TraceFrame> {
        let frame = |index| {
            let mut row = ffi::sized::<sys::cachalot_trace_frame>();
            // SAFETY: the trace is live, and the row is a local of the size that it says.
            let status =
                unsafe { sys::cachalot_trace_get_frame(self.as_raw(), context, index, &mut row) };
            ffi::check(status).ok()?;
            Some(TraceFrame {
                address: row.address,
                file_offset: row.file_offset,
                // SAFETY: the text lives as long as the trace.
                path: unsafe { ffi::string_of(row.path) },
            })
        };
        (0..).map_while(frame).collect()
    }

    /// What the trace tells of a context: its label, or its stack, one call a line, the innermost first;
    /// `""` if it tells nothing. Stands for `cachalot_trace_context_text`.
    pub fn context_text(&self, context: u64) -> String {
        ffi::text(|buffer, capacity, length| {
            // SAFETY: the trace is live, and the buffer has room for capacity bytes.
            ffi::check(unsafe {
                sys::cachalot_trace_context_text(self.as_raw(), context, buffer, capacity, length)
            })
        })
        .unwrap_or_default()
    }

    /// The statistics that were recorded at the end, by name. Stands for `cachalot_trace_get_stat`.
    pub fn stats(&self) -> impl Iterator<Item = (String, i64)> + '_ {
        (0..self.info.stat_count).filter_map(|index| {
            let (mut name, mut value) = (ptr::null(), 0);
            // SAFETY: the trace is live, and both pointers are those of locals.
            let status = unsafe {
                sys::cachalot_trace_get_stat(self.as_raw(), index, &mut name, &mut value)
            };
            ffi::check(status).ok()?;
            // SAFETY: the text lives as long as the trace.
            Some((unsafe { ffi::string_of(name) }, value))
        })
    }
}

fn info(handle: &Handle) -> Result<TraceInfo> {
    let mut row = ffi::sized::<sys::cachalot_trace_info>();
    // SAFETY: the trace is live, and the row is a local of the size that it says.
    ffi::check(unsafe { sys::cachalot_trace_get_info(handle.0.as_ptr(), &mut row) })?;
    // SAFETY: the texts live as long as the trace.
    let text = |text| unsafe { ffi::string_of(text) };
    Ok(TraceInfo {
        workload: text(row.workload),
        torch: text(row.torch),
        config: text(row.config),
        device_total: ffi::some_if_set(row.device_total),
        event_count: row.event_count,
        stat_count: row.stat_count,
        release: Release::of_c(row.release),
        device_count: row.device_count,
        recorder: text(row.recorder),
        format: row.format,
        driver_version: (row.driver_version != 0).then_some(row.driver_version),
        command: text(row.command),
        process_id: (row.process_id != 0).then_some(row.process_id),
        parent_process_id: (row.parent_process_id != 0).then_some(row.parent_process_id),
        start_us: (row.start_us != 0).then_some(row.start_us),
    })
}

impl Snapshot {
    /// Writes the history in the snapshot as a trace, with the statistics as its recorded ones. Stands
    /// for `cachalot_trace_write`.
    ///
    /// # Errors
    /// `Callback` with the writer's error as its source.
    pub fn write_trace(
        &self,
        writer: impl Write,
        stats: Option<&Stats>,
        workload: &str,
    ) -> Result<()> {
        fn write_to<W: Write>(
            snapshot: &Snapshot,
            writer: W,
            stats: *const sys::cachalot_stats,
            workload: &std::ffi::CStr,
        ) -> Result<()> {
            let mut channel = Channel::new(writer);
            let user_data = channel.user_data();
            // SAFETY: the snapshot is live, and all pointers live until the call returns.
            let result = ffi::call(|error| unsafe {
                sys::cachalot_trace_write(
                    snapshot.as_raw(),
                    stats,
                    workload.as_ptr(),
                    Some(write::<W>),
                    user_data,
                    error,
                )
            });
            channel.finish(result)
        }
        let workload = ffi::c_string(workload, "the workload")?;
        let stats = stats.map(|stats| stats.to_c());
        write_to(self, writer, stats.as_ref().map_or(ptr::null(), ptr::from_ref), &workload)
    }
}

impl Snapshot {
    /// Writes the snapshot as PyTorch's `torch.cuda.memory._dump_snapshot` does, for `memory_viz`.
    /// Stands for `cachalot_snapshot_write_pickle`.
    ///
    /// The allocator explains contexts ([`Allocator::context_text`]): a line `FILE:LINE:FUNCTION` is a
    /// frame with all three, any other line one with that name. `None`: they have no frames, but for
    /// those of a replay, which its snapshot explains itself.
    ///
    /// # Errors
    /// `Callback` with the writer's error as its source.
    pub fn write_pickle(&self, writer: impl Write, allocator: Option<&Allocator>) -> Result<()> {
        fn write_to<W: Write>(
            snapshot: &Snapshot,
            writer: W,
            allocator: Option<&Allocator>,
        ) -> Result<()> {
            let mut channel = Channel::new(writer);
            let user_data = channel.user_data();
            let explains = allocator.map_or(ptr::null_mut(), Allocator::as_raw);
            // SAFETY: the snapshot and the allocator are live, and the channel lives until the call
            // returns.
            let result = ffi::call(|error| unsafe {
                sys::cachalot_snapshot_write_pickle(
                    snapshot.as_raw(),
                    explains,
                    Some(write::<W>),
                    user_data,
                    error,
                )
            });
            channel.finish(result)
        }
        write_to(self, writer, allocator)
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.info.fmt(f)
    }
}
