// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recorders: the history of an allocator as a trace that is written while it runs; and what is left
//! of an out-of-memory error.

use std::ffi::{CString, c_void};
use std::fmt;
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::allocator::Allocator;
use crate::callback::{self, drop_box};
use crate::error::{Error, Result};
use crate::ffi;
use crate::sys;

/// What stands in the field `context` of a recorded event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RecordedContexts {
    /// The thread's labels, with their texts.
    #[default]
    Labels,
    /// The context that the history keeps; the texts of new ones are written by [`Recorder::flush`]
    /// and at the end.
    History,
    /// Nothing.
    None,
}

/// How a recording is made. Stands for `cachalot_recorder_options`.
#[derive(Default)]
#[must_use]
pub struct RecorderOptions {
    path: String,
    max_bytes: u64,
    contexts: RecordedContexts,
    workload: String,
    writer: Option<Box<dyn Write + Send>>,
}

impl RecorderOptions {
    /// Writes a file with mode 0600; `%p` in the path stands for the number of the process. A file that
    /// exists is kept, and the new file gets a number behind its name (".2").
    pub fn to_file(path: impl Into<String>) -> Self {
        Self { path: path.into(), ..Self::default() }
    }

    /// Gives whole lines to a writer, up to 64 KiB at a time, on the thread that fills the buffer and
    /// under a lock: it must not call an allocator, which answers `InvalidState` there. An error or a
    /// panic of it ends the recording.
    pub fn to_writer(writer: impl Write + Send + 'static) -> Self {
        Self { writer: Some(Box::new(writer)), ..Self::default() }
    }

    /// What the file may take, at least 2 MiB. When half of that is used, the file is kept beside as
    /// `PATH.before`, and a new one begins with what is live.
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// What stands in the field `context` of an event.
    pub fn contexts(mut self, contexts: RecordedContexts) -> Self {
        self.contexts = contexts;
        self
    }

    /// The name of the recorded program, for the header of the trace.
    pub fn workload(mut self, workload: impl Into<String>) -> Self {
        self.workload = workload.into();
        self
    }
}

impl fmt::Debug for RecorderOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecorderOptions").field("path", &self.path).finish_non_exhaustive()
    }
}

/// What a recorder has written. Stands for `cachalot_recorder_stats`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct RecorderStats {
    /// Events that it has seen, blocks that were live included.
    pub events: u64,
    /// Lines that it could not write: the disk is full, or the writer has failed.
    pub lost: u64,
    /// Bytes of all files.
    pub bytes: u64,
}

/// A recorder of an allocator; it stops when this is dropped. Keeps the allocator alive.
#[must_use = "the recorder stops when this is dropped"]
pub struct Recorder {
    /// `None` once it has stopped.
    allocator: Option<Allocator>,
    id: u64,
}

impl Recorder {
    fn call(
        &self,
        function: impl FnOnce(
            *mut sys::cachalot_allocator,
            u64,
            *mut sys::cachalot_error,
        ) -> sys::cachalot_status,
    ) -> Result<()> {
        match &self.allocator {
            Some(allocator) => allocator.call(|raw, error| function(raw, self.id, error)),
            None => Ok(()),
        }
    }

    /// Writes what is held back: lines for the writer, and texts of contexts. Stands for
    /// `cachalot_recorder_flush`.
    ///
    /// # Errors
    /// `Io` if events are lost, now or before.
    pub fn flush(&self) -> Result<()> {
        // SAFETY: the allocator is live; any number may be given.
        self.call(|raw, id, error| unsafe { sys::cachalot_recorder_flush(raw, id, error) })
    }

    /// What it has written. Stands for `cachalot_recorder_get_stats`.
    ///
    /// # Errors
    /// `InvalidState` from within a callback under a lock.
    pub fn stats(&self) -> Result<RecorderStats> {
        let mut out = ffi::sized::<sys::cachalot_recorder_stats>();
        // SAFETY: the allocator is live, and the struct knows its size.
        self.call(|raw, id, error| unsafe {
            sys::cachalot_recorder_get_stats(raw, id, &mut out, error)
        })?;
        Ok(RecorderStats { events: out.events, lost: out.lost, bytes: out.bytes })
    }

    /// The file that it writes; `""` if there is none. Stands for `cachalot_recorder_path`.
    ///
    /// # Errors
    /// As [`Recorder::stats`].
    pub fn path(&self) -> Result<String> {
        ffi::text(|buffer, capacity, length| {
            // SAFETY: the allocator is live, and the buffer has room for capacity bytes.
            self.call(|raw, id, error| unsafe {
                sys::cachalot_recorder_path(raw, id, buffer, capacity, length, error)
            })
        })
    }

    /// Writes the last line and ends the recorder, as dropping does, and tells what came of it. Stands
    /// for `cachalot_recorder_stop`.
    ///
    /// # Errors
    /// None is known. From within a callback under a lock it is stopped right after.
    pub fn stop(mut self) -> Result<()> {
        match self.allocator.take() {
            Some(allocator) if callback::is_locked() => {
                let id = self.id;
                callback::defer(move || drop(stop(&allocator, id)));
                Ok(())
            }
            Some(allocator) => stop(&allocator, self.id),
            None => Ok(()),
        }
    }

    /// Leaves the recorder running as long as the allocator lives.
    pub fn keep(mut self) {
        self.allocator = None;
    }
}

fn stop(allocator: &Allocator, id: u64) -> Result<()> {
    // SAFETY: the allocator is live; any number may be given.
    allocator.call(|raw, error| unsafe { sys::cachalot_recorder_stop(raw, id, error) })
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let Some(allocator) = self.allocator.take() else { return };
        let _ = Self { allocator: Some(allocator), id: self.id }.stop();
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recorder({})", self.id)
    }
}

/// The library calls from any thread, one at a time.
type Writer = Mutex<Box<dyn Write + Send>>;

unsafe extern "C" fn write(user_data: *mut c_void, data: *const c_void, size: usize) -> i32 {
    // SAFETY: the library gives back the box, and size bytes that live as long as this call.
    let (writer, data) = unsafe {
        (callback::user::<Writer>(user_data), std::slice::from_raw_parts(data.cast::<u8>(), size))
    };
    let written = callback::run_locked(|| {
        writer.lock().unwrap_or_else(PoisonError::into_inner).write_all(data).is_ok()
    });
    i32::from(written != Some(true))
}

impl Allocator {
    /// Starts a recorder on all devices. The recording begins with the blocks that are live, and no
    /// event is missing behind them. Stands for `cachalot_recorder_start`; `docs/debugging.md` tells
    /// more.
    ///
    /// # Errors
    /// `InvalidArgument` for options that do not fit each other; `Io` if the file cannot be made;
    /// `NotSupported` under `backend:cudaMallocAsync`; `InvalidState` from within a callback under a
    /// lock.
    pub fn record(&self, options: RecorderOptions) -> Result<Recorder> {
        let path = ffi::c_string(&options.path, "the path")?;
        let workload = ffi::c_string(&options.workload, "the workload")?;
        let mut out = ffi::sized::<sys::cachalot_recorder_options>();
        out.path = path.as_ptr();
        out.workload = workload.as_ptr();
        out.max_bytes = options.max_bytes;
        out.contexts = match options.contexts {
            RecordedContexts::Labels => sys::CACHALOT_RECORD_LABELS,
            RecordedContexts::History => sys::CACHALOT_RECORD_HISTORY_CONTEXTS,
            RecordedContexts::None => sys::CACHALOT_RECORD_NO_CONTEXTS,
        };
        let mut id = 0;
        self.call(|raw, error| {
            if let Some(writer) = options.writer {
                out.write = Some(write);
                out.write_user_data = Box::into_raw(Box::new(Writer::new(writer))).cast();
                out.write_destroy = Some(drop_box::<Writer>);
            }
            // SAFETY: the allocator is live, and the options and their texts live until the call
            // returns. The box belongs to the library, which destroys it once, also if the call fails.
            unsafe { sys::cachalot_recorder_start(raw, &out, &mut id, error) }
        })?;
        Ok(Recorder { allocator: Some(self.clone()), id })
    }

    /// From now on each request that fails as out of memory leaves its report, the last events and the
    /// live blocks in the folder, of the first 16 failures. events: that are kept for it; `None`: none,
    /// and calls cost nothing. Stands for `cachalot_set_oom_dump`.
    ///
    /// # Errors
    /// `InvalidArgument` for more than 10,000,000 events, and for a path that is no text; `Io` if there
    /// is no such folder; `NotSupported` under `backend:cudaMallocAsync`: nothing has changed.
    pub fn dump_out_of_memory(&self, folder: impl AsRef<Path>, events: Option<u32>) -> Result<()> {
        let folder =
            folder.as_ref().to_str().ok_or_else(|| Error::argument("the folder is no text"))?;
        let folder = ffi::c_string(folder, "the folder")?;
        self.set_oom_dump(&folder, events.filter(|&events| events > 0).map_or(-1, i64::from))
    }

    /// Nothing is written any more when a request fails, also not what `CACHALOT_OOM_DUMP` asks for.
    ///
    /// # Errors
    /// `InvalidState` from within a callback under a lock.
    pub fn dump_no_out_of_memory(&self) -> Result<()> {
        self.set_oom_dump(&CString::default(), 0)
    }

    fn set_oom_dump(&self, folder: &CString, events: i64) -> Result<()> {
        let mut out = ffi::sized::<sys::cachalot_oom_dump_options>();
        out.folder = folder.as_ptr();
        out.events = events;
        // SAFETY: the allocator is live, and the options and their text live until the call returns.
        self.call(|raw, error| unsafe { sys::cachalot_set_oom_dump(raw, &out, error) })
    }
}
