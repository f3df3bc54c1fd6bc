// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pools that sleep: the memory of an idle model goes back to the driver, and comes back at the same
//! addresses.

use crate::allocator::Allocator;
use crate::error::Result;
use crate::ffi;
use crate::pool::PoolKey;
use crate::sys;
use crate::tenant::Tenant;
use crate::types::{PoolId, Stream};

/// What becomes of the contents of a pool that falls asleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SleepContents {
    /// They are lost.
    Discard,
    /// Those of blocks that are handed out are kept.
    Keep,
    /// Those of free memory too: for graphs whose results lie in memory that was freed.
    KeepAll,
}

impl SleepContents {
    fn to_c(self) -> i32 {
        match self {
            Self::Discard => sys::CACHALOT_SLEEP_DISCARD,
            Self::Keep => sys::CACHALOT_SLEEP_KEEP,
            Self::KeepAll => sys::CACHALOT_SLEEP_KEEP_ALL,
        }
    }
}

/// What a pool does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum PoolState {
    /// It has its memory.
    #[default]
    Awake,
    /// Contents are saved, and memory goes.
    FallingAsleep,
    /// The driver has its memory.
    Asleep,
    /// Memory comes.
    Waking,
    /// A state of a newer library, by its number.
    Other(i32),
}

impl PoolState {
    fn of_c(state: i32) -> Self {
        match state {
            sys::CACHALOT_POOL_AWAKE => Self::Awake,
            sys::CACHALOT_POOL_FALLING_ASLEEP => Self::FallingAsleep,
            sys::CACHALOT_POOL_ASLEEP => Self::Asleep,
            sys::CACHALOT_POOL_WAKING => Self::Waking,
            other => Self::Other(other),
        }
    }
}

/// What sleeps of a pool, or of all pools of a device. Stands for `cachalot_sleep_stats`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct SleepStats {
    /// That of the pool; of a device [`PoolState::Awake`].
    pub state: PoolState,
    /// Pools that are not awake.
    pub pools: u64,
    /// Blocks that will be handed out again.
    pub blocks: u64,
    /// Their bytes.
    pub allocated_bytes: u64,
    /// Bytes of pages that the driver has back, and that waking needs.
    pub asleep_bytes: u64,
    /// Bytes of pinned host memory that has contents.
    pub kept_bytes: u64,
    /// How often pools of the device fell asleep; of a pool 0.
    pub num_sleeps: u64,
    /// How often they woke; of a pool 0.
    pub num_wakes: u64,
}

impl PoolKey {
    /// Gives the pool's memory back to the driver and keeps its addresses, which are right again once the
    /// pool is awake. Answers the bytes that the driver has back. The memory has to be in expandable
    /// segments ([`Config::expandable_segments`](crate::Config::expandable_segments)). Stands for
    /// `cachalot_pool_sleep`.
    ///
    /// All work of the device is waited for. What is kept is then copied to pinned host memory on
    /// `stream`, one of the device, and that is waited for too. While the pool sleeps its blocks count for
    /// nobody. They can be dropped; all else that is asked of them is `InvalidState`.
    ///
    /// ```
    /// use cachalot::{Allocator, Config, Driver, PoolOptions, Route, SleepContents};
    ///
    /// let config = Config::new().expandable_segments(true);
    /// let allocator = Allocator::builder().driver(Driver::open("sim:1GiB")?).config(config).build()?;
    /// let pool = allocator.create_pool(0, PoolOptions::new())?;
    /// let block = {
    ///     let _scope = pool.route(Route::ThisThread)?;
    ///     allocator.allocate(30 << 20, 0, 0)?
    /// };
    /// // SAFETY: nothing uses the block until the pool is awake.
    /// unsafe { pool.sleep(SleepContents::Keep, 0)? };
    /// assert_eq!(allocator.memory_reserved(0), 0);
    /// pool.wake(0)?;
    /// assert_eq!(block.info()?.requested, 30 << 20);
    /// # Ok::<(), cachalot::Error>(())
    /// ```
    ///
    /// # Safety
    /// The memory goes while blocks of the pool have owners. From this call on until the pool is awake
    /// nobody reads or writes it: neither the host, nor work that is queued on a device, nor the slice of
    /// a [`PinnedBlock`](crate::PinnedBlock) where the pool is one of the
    /// [`pinned_allocator`](Allocator::pinned_allocator). Work that reads kept contents comes behind the
    /// copies that [`PoolKey::wake`] has queued. Contents that were discarded
    /// are not read before they are written: they need not be a value of the type that was there.
    ///
    /// # Errors
    /// `InvalidState` for a pool that does not exist, that is not awake, that requests are routed to, or
    /// that is pinned or has a [`Pin`](crate::Pin), and while a capture may be under way; `NotSupported` for
    /// memory that cannot come back at its addresses, for a driver that cannot keep contents, under
    /// the serving policy, with red zones or poison, and under `backend:cudaMallocAsync`; `Driver` and
    /// `OutOfHostMemory`, also where there is no pinned memory. Nothing has changed then.
    pub unsafe fn sleep(&self, contents: SleepContents, stream: impl Into<Stream>) -> Result<u64> {
        let (device, id, stream) = (self.device(), self.id().to_c(), stream.into());
        let mut bytes = 0;
        // SAFETY: the allocator is live, and the pointer is that of a local; the caller answers for the
        // memory.
        self.allocator().call(|raw, error| unsafe {
            sys::cachalot_pool_sleep(raw, device, id, contents.to_c(), stream.0, &mut bytes, error)
        })?;
        Ok(bytes)
    }

    /// Gives a pool that sleeps new memory at its addresses, queues the copies of what was kept on `stream`,
    /// one of the device, and hands its blocks out again. The host does not wait for the copies; work
    /// on other streams has to come behind them. Stands for `cachalot_pool_wake`.
    ///
    /// # Errors
    /// `OutOfMemory` with the numbers of a request for the whole pool, where there is not enough memory or a
    /// tenant is not granted its blocks; `Driver`. The pool sleeps on then, with its contents, and the
    /// call can be repeated. `InvalidState` for a pool that does not exist or does not sleep, and while a
    /// capture may be under way.
    pub fn wake(&self, stream: impl Into<Stream>) -> Result<()> {
        let (device, id, stream) = (self.device(), self.id().to_c(), stream.into());
        // SAFETY: the allocator is live. Nobody uses the memory: the caller that put the pool to sleep answers for that.
        self.allocator()
            .call(|raw, error| unsafe { sys::cachalot_pool_wake(raw, device, id, stream.0, error) })
    }

    /// Says what becomes of the pool's blocks with this label, whatever [`PoolKey::sleep`] says:
    /// [`SleepContents::Discard`] or [`SleepContents::Keep`]. Stands for
    /// `cachalot_pool_set_sleep_contents`.
    ///
    /// # Safety
    /// Contents that others expect to be kept may be discarded: what is promised at [`PoolKey::sleep`]
    /// holds for each later sleep.
    ///
    /// # Errors
    /// `InvalidState` for a pool that does not exist, or where labels are not tracked
    /// ([`AllocatorBuilder::track_labels`](crate::AllocatorBuilder::track_labels)); `InvalidArgument` for
    /// other contents, or an empty label.
    pub unsafe fn set_sleep_contents(&self, label: &str, contents: SleepContents) -> Result<()> {
        let (device, id) = (self.device(), self.id().to_c());
        let label = ffi::c_string(label, "the label")?;
        // SAFETY: the allocator is live, and so is the text.
        self.allocator().call(|raw, error| unsafe {
            sys::cachalot_pool_set_sleep_contents(
                raw,
                device,
                id,
                label.as_ptr(),
                contents.to_c(),
                error,
            )
        })
    }

    /// What sleeps of the pool. Stands for `cachalot_get_sleep_stats`.
    ///
    /// # Errors
    /// `InvalidState` for a pool that does not exist.
    pub fn sleep_stats(&self) -> Result<SleepStats> {
        let (device, id) = (self.device(), self.id().to_c());
        let mut stats = ffi::sized::<sys::cachalot_sleep_stats>();
        // SAFETY: the allocator is live, and the row is a local of the size that it says.
        self.allocator().call(|raw, error| unsafe {
            sys::cachalot_get_sleep_stats(raw, device, id, &mut stats, error)
        })?;
        Ok(SleepStats {
            state: PoolState::of_c(stats.state),
            pools: stats.pools,
            blocks: stats.blocks,
            allocated_bytes: stats.allocated_bytes,
            asleep_bytes: stats.asleep_bytes,
            kept_bytes: stats.kept_bytes,
            num_sleeps: stats.num_sleeps,
            num_wakes: stats.num_wakes,
        })
    }
}

impl Allocator {
    /// What sleeps of all pools of a device. Stands for `cachalot_get_sleep_stats`.
    ///
    /// # Errors
    /// `InvalidArgument` for a device that the driver does not have.
    pub fn sleep_stats(&self, device: i32) -> Result<SleepStats> {
        self.pool(device, PoolId::DEFAULT).sleep_stats()
    }
}

impl Tenant {
    /// Lets a pool be put to sleep when the tenant is asked for memory, before its closure is called, which
    /// it need not have. Where the pool cannot sleep the closure is called as always. The thread that
    /// waits for memory waits for the copies on `stream`. The pool need not exist yet. Stands for
    /// `cachalot_tenant_set_sleep`.
    ///
    /// # Safety
    /// As [`PoolKey::sleep`], at any time from now on, and until requests that were under way when
    /// [`Tenant::never_sleep`] returned have ended. While requests are routed to a pool it does not
    /// fall asleep, and none can be routed to one that sleeps: so a caller that uses the memory may
    /// hold a [`PoolScope`](crate::PoolScope) of [`Route::None`](crate::Route::None), say.
    ///
    /// # Errors
    /// `InvalidArgument` for a pool of another allocator, or a device that the driver does not have.
    pub unsafe fn set_sleep(
        &self,
        pool: &PoolKey,
        contents: SleepContents,
        stream: impl Into<Stream>,
    ) -> Result<()> {
        self.say_sleep(pool, contents.to_c(), stream.into())
    }

    /// Ends what [`Tenant::set_sleep`] has begun. Stands for `cachalot_tenant_set_sleep`.
    ///
    /// # Errors
    /// As [`Tenant::set_sleep`].
    pub fn never_sleep(&self, pool: &PoolKey) -> Result<()> {
        self.say_sleep(pool, sys::CACHALOT_SLEEP_NEVER, Stream::DEFAULT)
    }

    fn say_sleep(&self, pool: &PoolKey, contents: i32, stream: Stream) -> Result<()> {
        let (tenant, device, id) = (self.as_raw(), pool.device(), pool.id().to_c());
        // SAFETY: allocator and tenant are live; the caller of `set_sleep` answers for the memory.
        pool.allocator().call(|raw, error| unsafe {
            sys::cachalot_tenant_set_sleep(raw, tenant, device, id, contents, stream.0, error)
        })
    }
}
