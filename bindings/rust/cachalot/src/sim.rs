// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `sim` driver: a device that keeps accounts and holds no memory.

use std::fmt;
use std::ops::Deref;
use std::ptr;
use std::time::Duration;

use crate::builder::flags;
use crate::driver::Driver;
use crate::error::Result;
use crate::ffi;
use crate::sys;
use crate::types::{Address, Stream};

flags! {
    /// Kinds of driver calls.
    SimCalls {
        /// Segments obtained.
        ALLOCATE = CACHALOT_SIM_CALL_ALLOCATE,
        /// Segments given back.
        FREE = CACHALOT_SIM_CALL_FREE,
        /// Address space reserved.
        RESERVE = CACHALOT_SIM_CALL_RESERVE,
        /// Address space given back.
        UNRESERVE = CACHALOT_SIM_CALL_UNRESERVE,
        /// Physical memory made.
        CREATE = CACHALOT_SIM_CALL_CREATE,
        /// Physical memory given back.
        RELEASE = CACHALOT_SIM_CALL_RELEASE,
        /// Ranges mapped.
        MAP = CACHALOT_SIM_CALL_MAP,
        /// Ranges unmapped.
        UNMAP = CACHALOT_SIM_CALL_UNMAP,
        /// Access to ranges.
        SET_ACCESS = CACHALOT_SIM_CALL_SET_ACCESS,
        /// Handles exported.
        EXPORT = CACHALOT_SIM_CALL_EXPORT,
        /// Handles imported.
        IMPORT = CACHALOT_SIM_CALL_IMPORT,
        /// Events made.
        EVENT_CREATE = CACHALOT_SIM_CALL_EVENT_CREATE,
        /// Events recorded.
        EVENT_RECORD = CACHALOT_SIM_CALL_EVENT_RECORD,
        /// Events asked.
        EVENT_QUERY = CACHALOT_SIM_CALL_EVENT_QUERY,
        /// Events waited for.
        EVENT_SYNCHRONIZE = CACHALOT_SIM_CALL_EVENT_SYNCHRONIZE,
        /// Streams or devices waited for.
        SYNCHRONIZE = CACHALOT_SIM_CALL_SYNCHRONIZE,
        /// Streams asked whether they are captured.
        CAPTURE_INFO = CACHALOT_SIM_CALL_CAPTURE_INFO,
        /// Peer access.
        ENABLE_PEER = CACHALOT_SIM_CALL_ENABLE_PEER,
        /// Free memory asked for.
        MEMORY_INFO = CACHALOT_SIM_CALL_MEMORY_INFO,
        /// The fabric asked for.
        FABRIC_STATE = CACHALOT_SIM_CALL_FABRIC_STATE,
        /// Stream-ordered memory obtained.
        POOL_ALLOCATE = CACHALOT_SIM_CALL_POOL_ALLOCATE,
        /// Stream-ordered memory given back.
        POOL_FREE = CACHALOT_SIM_CALL_POOL_FREE,
        /// The pool trimmed.
        POOL_TRIM = CACHALOT_SIM_CALL_POOL_TRIM,
        /// Attributes of the pool or of graph memory read or set.
        POOL_ATTRIBUTE = CACHALOT_SIM_CALL_POOL_ATTRIBUTE,
        /// Access of peers to the pool.
        POOL_SET_ACCESS = CACHALOT_SIM_CALL_POOL_SET_ACCESS,
        /// Streams made.
        STREAM_CREATE = CACHALOT_SIM_CALL_STREAM_CREATE,
        /// Streams made to wait for an event.
        STREAM_WAIT = CACHALOT_SIM_CALL_STREAM_WAIT,
        /// Pinned memory obtained.
        HOST_ALLOCATE = CACHALOT_SIM_CALL_HOST_ALLOCATE,
        /// Pinned memory given back.
        HOST_FREE = CACHALOT_SIM_CALL_HOST_FREE,
        /// A copy that is queued.
        COPY = CACHALOT_SIM_CALL_COPY,
    }
}

flags! {
    /// Which calls [`Sim::log_calls`] keeps as text.
    SimLog {
        /// The usual ones.
        CALLS = CACHALOT_SIM_LOG_CALLS,
        /// The handle type of each page.
        HANDLES = CACHALOT_SIM_LOG_HANDLES,
        /// Event queries.
        QUERIES = CACHALOT_SIM_LOG_QUERIES,
        /// Exchanges of the capture mode.
        CAPTURE_MODES = CACHALOT_SIM_LOG_CAPTURE_MODES,
        /// Streams that are made to wait for an event.
        WAITS = CACHALOT_SIM_LOG_WAITS,
    }
}

/// How a simulated driver is made. Stands for `cachalot_sim_options`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct SimOptions {
    capacity: u64,
    device_count: i32,
}

impl SimOptions {
    /// One device of 80 GiB.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes of a device, at most 4 TiB; 0: 80 GiB.
    pub fn capacity(mut self, bytes: u64) -> Self {
        self.capacity = bytes;
        self
    }

    /// Number of devices; 0: 1.
    pub fn device_count(mut self, count: i32) -> Self {
        self.device_count = count;
        self
    }
}

/// Driver calls that shall fail. Stands for `cachalot_sim_failure`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct SimFailure {
    calls: SimCalls,
    code: i32,
    after: u64,
    count: u64,
}

impl SimFailure {
    /// The code of a driver that has no memory left.
    pub const OUT_OF_MEMORY: i32 = sys::CACHALOT_DRIVER_OUT_OF_MEMORY;

    /// The next call of these kinds gives this code of the driver.
    pub fn new(calls: SimCalls, code: i32) -> Self {
        Self { calls, code, after: 0, count: 1 }
    }

    /// The next call of these kinds finds no memory.
    pub fn out_of_memory(calls: SimCalls) -> Self {
        Self::new(calls, Self::OUT_OF_MEMORY)
    }

    /// So many calls of these kinds work first.
    pub fn after(mut self, calls: u64) -> Self {
        self.after = calls;
        self
    }

    /// So many fail then.
    pub fn count(mut self, calls: u64) -> Self {
        self.count = calls;
        self
    }
}

/// A driver whose devices keep accounts and hold no memory; addresses, work on streams, captures and
/// errors are in the caller's hand. A program over it is deterministic.
///
/// Clones are the same driver. It may be used from within any callback: it never calls an allocator.
/// All functions answer `InvalidArgument` for a device that it does not have.
///
/// ```
/// use cachalot::{Allocator, Sim, SimLog, SimOptions};
///
/// let sim = Sim::new(SimOptions::new().capacity(1 << 30))?;
/// sim.log_calls(SimLog::CALLS)?;
/// sim.give_addresses(0, &[0x7f00_0000_0000])?;
/// let allocator = Allocator::builder().driver(&sim).config("").build()?;
/// let block = allocator.allocate(512, 0, 0)?;
/// assert_eq!(block.address(), 0x7f00_0000_0000);
/// assert_eq!(sim.read_calls()?, "malloc 2097152 7f0000000000\n");
/// # Ok::<(), cachalot::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Sim {
    driver: Driver,
}

/// A call with the driver.
macro_rules! call {
    ($self:ident, $function:path $(, $argument:expr)*) => {
        // SAFETY: the driver is live; any numbers may be given, and pointers among the arguments live
        // until the call returns.
        ffi::call(|error| unsafe { $function($self.as_raw(), $($argument,)* error) })
    };
}

impl Sim {
    /// Makes a simulated driver. Stands for `cachalot_sim_create`.
    ///
    /// # Errors
    /// `InvalidArgument` for a number of devices that cannot be.
    pub fn new(options: SimOptions) -> Result<Self> {
        ffi::check_library()?;
        let mut out = ffi::sized::<sys::cachalot_sim_options>();
        out.capacity = options.capacity;
        out.device_count = options.device_count;
        // SAFETY: the options live until the call returns.
        let driver =
            Driver::make(|raw, error| unsafe { sys::cachalot_sim_create(&out, raw, error) })?;
        Ok(Self { driver })
    }

    /// The driver.
    pub fn driver(&self) -> &Driver {
        &self.driver
    }

    /// Gives the addresses of the next segments and reservations of a device, in this order, in
    /// addition to those given before; after them the driver chooses again. Stands for
    /// `cachalot_sim_give_addresses`.
    ///
    /// # Errors
    /// `InvalidArgument` for an address that is 0.
    pub fn give_addresses(&self, device: i32, addresses: &[Address]) -> Result<()> {
        call!(self, sys::cachalot_sim_give_addresses, device, addresses.as_ptr(), addresses.len())
    }

    /// Queues a piece of work on a stream; it stays unfinished, and events recorded from now on wait
    /// for it. Stands for `cachalot_sim_queue_work`.
    ///
    /// # Errors
    /// See [`Sim`].
    pub fn queue_work(&self, device: i32, stream: impl Into<Stream>) -> Result<()> {
        let stream = stream.into();
        call!(self, sys::cachalot_sim_queue_work, device, stream.0)
    }

    /// Finishes the oldest unfinished piece of work of a stream. Stands for
    /// `cachalot_sim_finish_oldest`.
    ///
    /// # Errors
    /// See [`Sim`].
    pub fn finish_oldest(&self, device: i32, stream: impl Into<Stream>) -> Result<()> {
        let stream = stream.into();
        call!(self, sys::cachalot_sim_finish_oldest, device, stream.0)
    }

    /// Finishes all work of a stream. Stands for `cachalot_sim_finish_stream`.
    ///
    /// # Errors
    /// See [`Sim`].
    pub fn finish_stream(&self, device: i32, stream: impl Into<Stream>) -> Result<()> {
        let stream = stream.into();
        call!(self, sys::cachalot_sim_finish_stream, device, stream.0)
    }

    /// Finishes all work of a device. Stands for `cachalot_sim_finish_device`.
    ///
    /// # Errors
    /// See [`Sim`].
    pub fn finish_device(&self, device: i32) -> Result<()> {
        call!(self, sys::cachalot_sim_finish_device, device)
    }

    /// Lets driver calls fail. Failures of other kinds or codes that were ordered before stay; one of
    /// the same code that is still to come is replaced. Stands for `cachalot_sim_fail`.
    ///
    /// # Errors
    /// `InvalidArgument` for no kind of calls or code 0.
    pub fn fail(&self, failure: SimFailure) -> Result<()> {
        let mut out = ffi::sized::<sys::cachalot_sim_failure>();
        out.calls = failure.calls.bits();
        out.code = failure.code;
        out.after = failure.after;
        out.count = failure.count;
        call!(self, sys::cachalot_sim_fail, &out)
    }

    /// Leaves an error pending, as earlier work of the thread would; 0 clears it. Stands for
    /// `cachalot_sim_set_pending_error`.
    ///
    /// # Errors
    /// See [`Sim`].
    pub fn set_pending_error(&self, code: i32) -> Result<()> {
        call!(self, sys::cachalot_sim_set_pending_error, code)
    }

    /// From now on each call of these kinds takes so long; zero ends it. Stands for
    /// `cachalot_sim_set_latency`.
    ///
    /// # Errors
    /// See [`Sim`].
    pub fn set_latency(&self, calls: SimCalls, latency: Duration) -> Result<()> {
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        call!(self, sys::cachalot_sim_set_latency, calls.bits(), nanoseconds)
    }

    /// Adds a process to the list of those that use the device, with its bytes; 0: this process.
    /// Stands for `cachalot_sim_add_process`.
    ///
    /// # Errors
    /// See [`Sim`].
    pub fn add_process(&self, device: i32, pid: u64, used: u64) -> Result<()> {
        call!(self, sys::cachalot_sim_add_process, device, pid, used)
    }

    /// What the device says of fabric handles: whether it is part of a fabric (`None`: the question
    /// fails), and the code that creating memory with such a handle gives (0: it works). Stands for
    /// `cachalot_sim_set_fabric`.
    ///
    /// # Errors
    /// See [`Sim`].
    pub fn set_fabric(&self, device: i32, state: Option<bool>, create_code: i32) -> Result<()> {
        let state = state.map_or(-1, i32::from);
        call!(self, sys::cachalot_sim_set_fabric, device, state, create_code)
    }

    /// A stream is captured from now on, under an id that is not 0. Stands for
    /// `cachalot_sim_begin_capture`.
    ///
    /// # Errors
    /// See [`Sim`].
    pub fn begin_capture(&self, device: i32, stream: impl Into<Stream>, id: u64) -> Result<()> {
        let stream = stream.into();
        call!(self, sys::cachalot_sim_begin_capture, device, stream.0, id)
    }

    /// A capture ends, for every stream in it. Stands for `cachalot_sim_end_capture`.
    ///
    /// # Errors
    /// See [`Sim`].
    pub fn end_capture(&self, device: i32, id: u64) -> Result<()> {
        call!(self, sys::cachalot_sim_end_capture, device, id)
    }

    /// Adds a graph node behind the stream's end nodes. Stands for `cachalot_sim_add_node`.
    ///
    /// # Errors
    /// See [`Sim`].
    pub fn add_node(&self, device: i32, stream: impl Into<Stream>) -> Result<()> {
        let stream = stream.into();
        call!(self, sys::cachalot_sim_add_node, device, stream.0)
    }

    /// `to` joins the capture of `from`, behind its present end nodes. Stands for
    /// `cachalot_sim_fork_capture`.
    ///
    /// # Errors
    /// See [`Sim`].
    pub fn fork_capture(
        &self,
        device: i32,
        from: impl Into<Stream>,
        to: impl Into<Stream>,
    ) -> Result<()> {
        let (from, to) = (from.into(), to.into());
        call!(self, sys::cachalot_sim_fork_capture, device, from.0, to.0)
    }

    /// `into` waits for `other`: it gets the end nodes of both. Stands for
    /// `cachalot_sim_join_capture`.
    ///
    /// # Errors
    /// See [`Sim`].
    pub fn join_capture(
        &self,
        device: i32,
        into: impl Into<Stream>,
        other: impl Into<Stream>,
    ) -> Result<()> {
        let (into, other) = (into.into(), other.into());
        call!(self, sys::cachalot_sim_join_capture, device, into.0, other.0)
    }

    /// What the device says of the memory of captured graphs, in bytes. Stands for
    /// `cachalot_sim_set_graph_memory`.
    ///
    /// # Errors
    /// See [`Sim`].
    pub fn set_graph_memory(&self, device: i32, used: u64, reserved: u64) -> Result<()> {
        call!(self, sys::cachalot_sim_set_graph_memory, device, used, reserved)
    }

    /// Starts keeping the driver's calls as text, or stops ([`SimLog::NONE`]). Stands for
    /// `cachalot_sim_log_calls`.
    ///
    /// # Errors
    /// See [`Sim`].
    pub fn log_calls(&self, words: SimLog) -> Result<()> {
        call!(self, sys::cachalot_sim_log_calls, words.bits())
    }

    /// Takes the calls that were kept since the last time, oldest first, one a line. Stands for
    /// `cachalot_sim_read_calls`; `cachalot/sim.h` lists the lines.
    ///
    /// # Errors
    /// See [`Sim`].
    pub fn read_calls(&self) -> Result<String> {
        let mut waiting = 0;
        call!(self, sys::cachalot_sim_read_calls, ptr::null_mut(), 0, &mut waiting)?;
        if waiting == 0 {
            return Ok(String::new());
        }
        let mut buffer = vec![0u8; waiting + 1];
        call!(
            self,
            sys::cachalot_sim_read_calls,
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            &mut waiting
        )?;
        let length = buffer.iter().position(|byte| *byte == 0).unwrap_or(buffer.len());
        buffer.truncate(length);
        Ok(String::from_utf8_lossy(&buffer).into_owned())
    }
}

impl Deref for Sim {
    type Target = Driver;

    fn deref(&self) -> &Driver {
        &self.driver
    }
}

impl AsRef<Driver> for Sim {
    fn as_ref(&self) -> &Driver {
        &self.driver
    }
}

impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sim").field("device_count", &self.device_count()).finish()
    }
}
