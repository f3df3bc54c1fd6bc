// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays: recorded runs, driven through an allocator over the `sim` driver.

use std::ffi::{CString, c_void};
use std::fmt;
use std::io::Write;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::allocator::{Allocator, Owner};
use crate::callback;
use crate::driver::Driver;
use crate::error::{Error, Result};
use crate::ffi;
use crate::history::TraceEntry;
use crate::policy::Policy;
use crate::snapshot::Snapshot;
use crate::sys;
use crate::trace::{Channel, Trace, write};
use crate::types::Release;

/// How a trace is replayed. Stands for `cachalot_replay_options`.
#[derive(Default)]
#[must_use]
pub struct ReplayOptions<'a> {
    config: Option<String>,
    release: Option<Release>,
    policy: Option<Policy>,
    expect: bool,
    stop_at_out_of_memory: bool,
    history: bool,
    capacity: u64,
    fraction: f64,
    event_count: usize,
    progress: Option<Box<ProgressFn<'a>>>,
    observer: Option<Box<ObserverFn<'a>>>,
}

type ProgressFn<'a> = dyn FnMut(u64, u64) -> bool + 'a;
type ObserverFn<'a> = dyn FnMut(usize, &TraceEntry) + 'a;

impl<'a> ReplayOptions<'a> {
    /// As it was recorded.
    pub fn new() -> Self {
        Self::default()
    }

    /// The option string, or a [`Config`](crate::Config); without it the recorded one.
    pub fn config(mut self, config: impl Into<String>) -> Self {
        self.config = Some(config.into());
        self
    }

    /// Whose decisions are made; without it those of the recorded release, else of the default.
    pub fn release(mut self, release: Release) -> Self {
        self.release = Some(release);
        self
    }

    /// Whether PyTorch's decisions are made, as without it, or those of the serving policy, which rules
    /// out [`ReplayOptions::expect`].
    pub fn policy(mut self, policy: impl Into<Policy>) -> Self {
        self.policy = Some(policy.into());
        self
    }

    /// The recorded addresses are handed out and every event is compared; needs the recorded options
    /// and release.
    pub fn expect(mut self, expect: bool) -> Self {
        self.expect = expect;
        self
    }

    /// The replay ends at the first request that fails as out of memory. Not with
    /// [`ReplayOptions::expect`].
    pub fn stop_at_out_of_memory(mut self, stop: bool) -> Self {
        self.stop_at_out_of_memory = stop;
        self
    }

    /// The history is kept, for [`Replay::snapshot`].
    pub fn history(mut self, history: bool) -> Self {
        self.history = history;
        self
    }

    /// Bytes of a device, at most 4 TiB; 0: the recorded number, else 80 GiB.
    pub fn capacity(mut self, bytes: u64) -> Self {
        self.capacity = bytes;
        self
    }

    /// The memory fraction; 0: no limit.
    pub fn fraction(mut self, fraction: f64) -> Self {
        self.fraction = fraction;
        self
    }

    /// Is called now and then with the events that are done and their number; `false` stops the
    /// replay with [`Error::Callback`].
    pub fn progress(mut self, progress: impl FnMut(u64, u64) -> bool + 'a) -> Self {
        self.progress = Some(Box::new(progress));
        self
    }

    /// Sees what the allocator did at an event, given by its index in the trace, once for each entry. All
    /// of the event is done and no lock is held. The entries have no context: that of the event is the
    /// trace's. A panic ends the replay with [`Error::Callback`].
    pub fn observer(mut self, observer: impl FnMut(usize, &TraceEntry) + 'a) -> Self {
        self.observer = Some(Box::new(observer));
        self
    }

    /// Only so many events are replayed, from the first on; 0: all. Not with
    /// [`ReplayOptions::expect`].
    pub fn event_count(mut self, count: usize) -> Self {
        self.event_count = count;
        self
    }
}

/// What came of a replay. Stands for `cachalot_replay_result`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ReplayResult {
    /// Events of the trace that were replayed or compared.
    pub events: u64,
    /// Requests made.
    pub allocations: u64,
    /// Those of them that failed as out of memory.
    pub out_of_memory: u64,
    /// Driver calls that obtained memory.
    pub driver_allocations: u64,
    /// Driver calls that gave it back.
    pub driver_frees: u64,
    /// Segments at the end, expandable ones included.
    pub segments: u64,
    /// The most there were at a time.
    pub segments_peak: u64,
    /// The most bytes requested, of all devices.
    pub peak_requested: u64,
    /// The most bytes handed out, of all devices.
    pub peak_allocated: u64,
    /// The most bytes reserved, of all devices.
    pub peak_reserved: u64,
    /// With [`ReplayOptions::expect`]: events that differ.
    pub differing_events: u64,
    /// The first of them, if there is one.
    pub first_difference: Option<ReplayDifference>,
    /// The most bytes that the driver had handed out of one device. With PyTorch's decisions and
    /// without a memory fraction the replay is the same on a device of any size from this one up to
    /// its own.
    pub peak_device_bytes: u64,
}

/// Calls of one function of the driver with one size, behind the same gap. Stands for `cachalot_replay_call`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ReplayCall {
    /// Its name in the CUDA driver, like `cuMemAlloc`.
    pub function: String,
    /// In bytes.
    pub size: u64,
    /// How many, those that failed included; what an ending context gives back is none.
    pub count: u64,
    /// Microseconds that the program had worked since the function's call before, rounded down to a power of two.
    pub gap_us: u64,
}

/// The first event of a replay that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ReplayDifference {
    /// Its index in the trace.
    pub index: usize,
    /// What was expected there.
    pub expected: String,
    /// What came.
    pub actual: String,
}

/// A replay that has ended, with its allocator. Stands for `cachalot_replay`.
pub struct Replay {
    handle: Arc<Handle>,
    result: ReplayResult,
    allocator: Allocator,
}

struct Handle(NonNull<sys::cachalot_replay>);

// SAFETY: after the run the handle is only destroyed, by the last owner.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle is ours and not used afterwards, nor is its allocator.
        unsafe { sys::cachalot_replay_destroy(self.0.as_ptr()) };
        callback::do_deferred();
    }
}

/// The options as the library takes them, with what they point to.
struct Given<'a> {
    out: sys::cachalot_replay_options,
    _config: Option<CString>,
    closures: Closures<'a>,
}

/// The closures of the caller's, and whether one of them panicked.
struct Closures<'a> {
    progress: Option<Box<ProgressFn<'a>>>,
    observer: Option<Box<ObserverFn<'a>>>,
    has_panicked: bool,
}

impl<'a> Closures<'a> {
    /// Runs one of the closures; `None` if one panicked, this time or before.
    fn run<R>(&mut self, call: impl FnOnce(&mut Self) -> R) -> Option<R> {
        if self.has_panicked {
            return None;
        }
        let result = callback::run(|| call(self));
        self.has_panicked = result.is_none();
        result
    }
}

impl Given<'_> {
    /// For one call, during which nobody else uses what is given.
    fn out(&mut self) -> *const sys::cachalot_replay_options {
        let user_data = ptr::from_mut(&mut self.closures).cast();
        self.out.progress_user_data = user_data;
        self.out.observer_user_data = user_data;
        &self.out
    }

    /// The result of the call, unless a closure panicked. A replay that ended at a failed request has
    /// worked all the same: it asks for no progress then.
    fn finish<T>(self, result: Result<T>) -> Result<T> {
        if self.closures.has_panicked {
            let message = "a closure of the replay panicked".to_owned();
            return Err(Error::of_status(sys::CACHALOT_ERROR_CALLBACK, message));
        }
        result
    }
}

fn give(options: ReplayOptions<'_>) -> Result<Given<'_>> {
    let config =
        options.config.map(|text| ffi::c_string(&text, "the option string")).transpose()?;
    let mut out = ffi::sized::<sys::cachalot_replay_options>();
    out.config = config.as_ref().map_or(ptr::null(), |text| text.as_ptr());
    out.release = Release::to_c_or_default(options.release);
    let policy = Policy::to_c_or_default(options.policy);
    out.policy = policy.policy;
    out.thrift = policy.thrift;
    out.borrow = policy.borrow;
    out.streams = policy.streams;
    out.page_bytes = policy.page_bytes;
    out.expect = options.expect.into();
    out.stop_at_out_of_memory = options.stop_at_out_of_memory.into();
    out.history = options.history.into();
    out.capacity = options.capacity;
    out.fraction = options.fraction;
    out.event_count = options.event_count as u64;
    out.progress = Some(report_progress);
    if options.observer.is_some() {
        out.observer = Some(report_entry);
    }
    let closures =
        Closures { progress: options.progress, observer: options.observer, has_panicked: false };
    Ok(Given { out, _config: config, closures })
}

/// Also stops a replay whose observer has panicked.
unsafe extern "C" fn report_progress(user_data: *mut c_void, done: u64, total: u64) -> i32 {
    // SAFETY: the library gives back the closures, which live until its call returns, and calls one at
    // a time.
    let closures = unsafe { &mut *user_data.cast::<Closures<'_>>() };
    let goes_on = closures.run(|all| match &mut all.progress {
        Some(progress) => progress(done, total),
        None => true,
    });
    (!goes_on.unwrap_or(false)).into()
}

unsafe extern "C" fn report_entry(
    user_data: *mut c_void,
    event: u64,
    entry: *const sys::cachalot_trace_entry,
) {
    // SAFETY: as above; the entry lives as long as this call.
    let (closures, entry) =
        unsafe { (&mut *user_data.cast::<Closures<'_>>(), TraceEntry::of_c(&*entry)) };
    closures.run(|all| {
        if let Some(observer) = &mut all.observer {
            observer(event as usize, &entry);
        }
    });
}

impl Trace {
    /// Replays the trace over a simulated device. Stands for `cachalot_replay_run`.
    ///
    /// # Errors
    /// `InvalidArgument` for options that do not fit; `Io` for a trace that cannot have happened;
    /// `Callback` where the progress closure said so, or a closure panicked. Events that differ are no
    /// error.
    pub fn replay(&self, options: ReplayOptions<'_>) -> Result<Replay> {
        let mut given = give(options)?;
        let mut raw = ptr::null_mut();
        // SAFETY: the trace is live, and all pointers live until the call returns.
        let result = ffi::call(|error| unsafe {
            sys::cachalot_replay_run(self.as_raw(), given.out(), &mut raw, error)
        });
        given.finish(result.and_then(|()| {
            Replay::of_raw(NonNull::new(raw).expect("a call that worked gave a replay"))
        }))
    }

    /// Writes a run as a script for the oracle (`tests/oracle/FORMAT.md`). Stands for
    /// `cachalot_replay_write_script`.
    ///
    /// # Errors
    /// As [`Trace::replay`]; `Callback` with the writer's error as its source.
    pub fn write_script(&self, options: ReplayOptions<'_>, writer: impl Write) -> Result<()> {
        fn write_to<W: Write>(
            trace: &Trace,
            options: *const sys::cachalot_replay_options,
            writer: W,
        ) -> Result<()> {
            let mut channel = Channel::new(writer);
            let user_data = channel.user_data();
            // SAFETY: the trace is live, and all pointers live until the call returns.
            let result = ffi::call(|error| unsafe {
                sys::cachalot_replay_write_script(
                    trace.as_raw(),
                    options,
                    Some(write::<W>),
                    user_data,
                    error,
                )
            });
            channel.finish(result)
        }
        let mut given = give(options)?;
        let result = write_to(self, given.out(), writer);
        given.finish(result)
    }
}

impl Replay {
    fn of_raw(raw: NonNull<sys::cachalot_replay>) -> Result<Self> {
        let handle = Arc::new(Handle(raw));
        let mut row = ffi::sized::<sys::cachalot_replay_result>();
        // SAFETY: the replay is live, and the row is a local of the size that it says.
        ffi::check(unsafe { sys::cachalot_replay_get_result(raw.as_ptr(), &mut row) })?;
        // SAFETY: the replay is live.
        let allocator = unsafe { sys::cachalot_replay_allocator(raw.as_ptr()) };
        let missing = || Error::Internal("the replay has no allocator".into());
        let allocator = NonNull::new(allocator).ok_or_else(missing)?;
        // SAFETY: the allocator is live as long as the replay.
        let driver = unsafe { sys::cachalot_allocator_driver(allocator.as_ptr()) };
        let driver = Driver::borrowed(NonNull::new(driver).ok_or_else(missing)?, handle.clone());
        Ok(Self {
            handle: handle.clone(),
            result: result_of(&row),
            allocator: Allocator::of_raw(allocator, driver, Owner::Other(handle)),
        })
    }

    /// What came of it. Stands for `cachalot_replay_get_result`.
    pub fn result(&self) -> &ReplayResult {
        &self.result
    }

    /// The driver's calls by which it obtained memory and gave it back, by function, then by size.
    /// Stands for `cachalot_replay_call_count` and `cachalot_replay_get_call`.
    pub fn calls(&self) -> Vec<ReplayCall> {
        let raw = self.handle.0.as_ptr();
        // SAFETY: the replay is live.
        let count = unsafe { sys::cachalot_replay_call_count(raw) };
        let calls = ffi::rows(
            count,
            |index, row| {
                // SAFETY: the replay is live, and the row is of the size that it says.
                ffi::check(unsafe { sys::cachalot_replay_get_call(raw, index, row) })
            },
            |row: &sys::cachalot_replay_call| ReplayCall {
                // SAFETY: the text lives for ever.
                function: unsafe { ffi::string_of(row.function) },
                size: row.size,
                count: row.count,
                gap_us: row.gap_us,
            },
        );
        calls.unwrap_or_default()
    }

    /// Takes a snapshot of the allocator at the end of the run. Its history is that of the replay, with
    /// the times and the contexts of the recording; where [`ReplayOptions::expect`] found no difference
    /// it is the recorded one. Stands for `cachalot_replay_snapshot`.
    ///
    /// # Errors
    /// `InvalidState` without [`ReplayOptions::history`].
    pub fn snapshot(&self) -> Result<Snapshot> {
        let mut raw = ptr::null_mut();
        // SAFETY: the replay is live, and the pointer is that of a local.
        ffi::call(|error| unsafe {
            sys::cachalot_replay_snapshot(self.handle.0.as_ptr(), &mut raw, error)
        })?;
        Ok(Snapshot::of_raw(raw, self.allocator.driver().device_count()))
    }

    /// The allocator at the end of the run, to be asked for statistics, summary and snapshot. It ends
    /// with the replay and with its last clone. Stands for `cachalot_replay_allocator`.
    pub fn allocator(&self) -> &Allocator {
        &self.allocator
    }
}

fn result_of(row: &sys::cachalot_replay_result) -> ReplayResult {
    // SAFETY: the texts live as long as the replay.
    let text = |text| unsafe { ffi::string_of(text) };
    ReplayResult {
        events: row.events,
        allocations: row.allocations,
        out_of_memory: row.out_of_memory,
        driver_allocations: row.driver_allocations,
        driver_frees: row.driver_frees,
        segments: row.segments,
        segments_peak: row.segments_peak,
        peak_requested: row.peak_requested,
        peak_allocated: row.peak_allocated,
        peak_reserved: row.peak_reserved,
        differing_events: row.differing_events,
        first_difference: (row.first_difference != usize::MAX).then(|| ReplayDifference {
            index: row.first_difference,
            expected: text(row.expected),
            actual: text(row.actual),
        }),
        peak_device_bytes: row.peak_device_bytes,
    }
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.result.fmt(f)
    }
}

impl fmt::Debug for ReplayOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplayOptions")
            .field("config", &self.config)
            .field("release", &self.release)
            .field("policy", &self.policy)
            .field("expect", &self.expect)
            .field("history", &self.history)
            .finish_non_exhaustive()
    }
}
