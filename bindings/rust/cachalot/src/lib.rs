// SPDX-License-Identifier: MIT OR Apache-2.0
//! PyTorch's CUDA caching allocator, for every program that is not PyTorch.
//!
//! Given the same addresses by the driver, cachalot hands out the same addresses, makes the same
//! driver calls, counts the same statistics, and writes the same history and messages as PyTorch 2.11
//! or 2.15. It needs no PyTorch, no Python and no CUDA Toolkit: NVIDIA's driver is opened when it is
//! asked for, and without one memory comes from the host, or from a simulated device.
//!
//! ```
//! use cachalot::{Allocator, Driver};
//!
//! # fn main() -> cachalot::Result<()> {
//! # let allocator = Allocator::builder().driver(Driver::open("host:1GiB")?).build()?;
//! # if false {
//! let allocator = Allocator::new()?; // the GPUs if there are any, else host memory
//! # }
//! let block = allocator.allocate(1 << 20, 0, 0)?; // 1 MiB on device 0 for the default stream
//! println!("{:#x}, {} bytes", block.address(), block.info()?.size);
//! drop(block); // back to the cache
//! # Ok(())
//! # }
//! ```
//!
//! # The parts
//!
//! | what | where |
//! | --- | --- |
//! | where memory comes from | [`Driver`], [`Sim`] |
//! | the allocator, its options and limits | [`Allocator`], [`AllocatorBuilder`], [`Config`], [`Settings`] |
//! | memory that was handed out | [`Block`], [`BorrowedBlock`], [`Request`] |
//! | whose decisions are made | [`Policy`], [`Serving`], [`PolicyStats`] |
//! | memory that others have registered | [`Pin`], [`PoolFlags::PINNED`] |
//! | pinned host memory | [`PinnedBlock`], [`Allocator::allocate_pinned`], [`PinnedStats`] |
//! | private pools and captures | [`Pool`], [`PoolKey`], [`Route`] |
//! | idle pools whose memory others have meanwhile | [`PoolKey::sleep`], [`PoolKey::wake`], [`SleepStats`] |
//! | several users of one allocator | [`Tenant`] |
//! | idle memory given back | [`Allocator::trim`], [`Allocator::empty_cache_on_drop`] |
//! | statistics, metrics | [`Stats`], [`Allocator::metrics`] |
//! | segments and blocks at one moment | [`Snapshot`] |
//! | who holds what, and what is in the way | [`Report`] |
//! | history, contexts, labels, observers | [`Allocator::record_history`], [`Label`], [`Observer`] |
//! | recorded runs and their replay | [`Trace`], [`Replay`] |
//!
//! # Features
//!
//! - `serde`: statistics, snapshots, reports and the like can be written and read.
//! - `cudarc`: device slices of the crate `cudarc` in memory of an allocator: the module `cuda`.
//! - `allocator-api2`: collections in memory of the host driver: the module `host`.
//! - `metrics`: the statistics as gauges and counters of the crate `metrics`: `MetricsReporter`.
//! - `tracing`: remarks and out-of-memory errors as events of the crate `tracing`:
//!   `AllocatorBuilder::tracing`.
//! - `prebuilt`, `bundled`, `static`: whether the library comes with the crates, is built from the
//!   source in the crate `cachalot-sys`, and how one that is installed is linked; that crate tells
//!   where it looks.
//!
//! # Safety
//!
//! Addresses are numbers; nothing here reads or writes the memory behind them, but for the two modules
//! that own it and for [`PinnedBlock`], whose memory is the host's. What is marked `unsafe` is for programs
//! that mix this crate with calls of the C interface, or takes memory from blocks that have owners: copies,
//! checkpoints that are put back, and pools that sleep.
#![warn(missing_docs, missing_debug_implementations)]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub use cachalot_sys as sys;

mod allocator;
mod block;
mod builder;
mod callback;
mod checkpoint;
mod config;
#[cfg(feature = "cudarc")]
pub mod cuda;
mod driver;
mod error;
mod expandable;
mod ffi;
mod history;
#[cfg(feature = "allocator-api2")]
pub mod host;
mod label;
mod metrics;
#[cfg(feature = "metrics")]
mod metrics_reporter;
mod observer;
mod pinned;
mod pinned_pool;
mod policy;
mod pool;
mod recorder;
mod replay;
mod report;
mod scope;
mod settings;
mod share;
mod sim;
mod sleep;
mod snapshot;
mod stats;
mod status;
mod tenant;
mod trace;
#[cfg(feature = "tracing")]
mod tracing_events;
mod trim;
mod types;

pub use allocator::{Allocator, EmptyCacheGuard, WeakAllocator};
pub use block::{Block, BlockInfo, BorrowedBlock, Request};
pub use builder::{AllocatorBuilder, ContextSource, DebugOptions, LogLevel, Mend, Texts};
pub use checkpoint::{Checkpoint, CheckpointBlock, CheckpointChanges};
pub use config::{Backend, Config, ConfigError, Reserve};
pub use driver::Driver;
pub use error::{CallbackError, DriverError, Error, OutOfMemory, Result};
pub use expandable::{ExpandableSegment, ExpandableTotals, ReserveInfo};
pub use history::{Action, ContextLevel, History, HistoryOptions, TraceEntry};
pub use label::{Label, set_metadata};
#[cfg(feature = "metrics")]
pub use metrics_reporter::{MetricsReporter, MetricsThread};
pub use observer::{Observer, Rejection};
pub use pinned::{CallTimes, PinnedBlock, PinnedStats};
pub use pinned_pool::{PinnedPool, PinnedPoolKey, PinnedPoolScope};
pub use policy::{Borrow, Pin, Policy, PolicyStats, Serving};
pub use pool::{CaptureScope, Pool, PoolFlags, PoolKey, PoolOptions, PoolScope, PoolSource, Route};
pub use recorder::{RecordedContexts, Recorder, RecorderOptions, RecorderStats};
pub use replay::{Replay, ReplayCall, ReplayDifference, ReplayOptions, ReplayResult};
pub use report::{
    Holder, Outcome, Reason, Report, ReportData, ReportNumbers, ReportOptions, ReportReason,
};
pub use settings::{DeviceTotals, Settings};
pub use share::{OpenedBlock, OpenedMemory, SharedBlock, SharedHandle};
pub use sim::{Sim, SimCalls, SimFailure, SimLog, SimOptions};
pub use sleep::{PoolState, SleepContents, SleepStats};
pub use snapshot::{BlockState, Segment, SegmentBlock, Snapshot, SnapshotData, SnapshotOptions};
pub use stats::{LabelStats, PoolStats, Stat, StatArray, Stats};
pub use status::{
    StatusDescription, library_version, library_version_number, status_descriptions, status_name,
};
pub use tenant::{Pressure, PressureReason, Tenant, TenantOptions, TenantScope, TenantStats};
pub use trace::{Trace, TraceEvent, TraceFrame, TraceInfo};
pub use trim::TrimError;
pub use types::{Address, PoolId, Release, Stream};
