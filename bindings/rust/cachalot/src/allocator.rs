// SPDX-License-Identifier: MIT OR Apache-2.0
//! The allocator: its life, blocks, the cache, limits.

use std::collections::HashSet;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::block::{Block, BlockInfo, BorrowedBlock, Request};
use crate::builder::{AllocatorBuilder, LogLevel, Remarks};
use crate::callback;
use crate::checkpoint::CheckpointChanges;
use crate::driver::Driver;
use crate::error::{Error, Result};
use crate::ffi;
use crate::sys;
use crate::tenant::Orphans;
use crate::types::{Address, Release, Stream};

/// A caching allocator over all devices of one driver.
///
/// Clones are the same allocator; all functions may be called at the same time from any thread.
/// Devices do not wait for each other. The allocator ends with its last clone: blocks hold one each.
///
/// # What is left when it ends
///
/// A [`Block`] keeps the allocator alive, so only blocks that were leaked ([`Block::leak`]) can be
/// live when the last clone is dropped. Their addresses are in use somewhere, so dropping does not
/// take them away: the allocator then stays for the life of the process, and says so through the
/// log closure ([`LogLevel::LeftBehind`]) or on the standard error output. [`Allocator::close`]
/// returns that as an error instead, and [`Allocator::close_all`] frees such blocks too.
///
/// # From within a callback
///
/// Trace observers, routes' predicates, pools' sources and log closures run with a lock of the
/// library held. There every call of an allocator answers [`Error::InvalidState`], and blocks,
/// observers and scopes that are dropped are freed when the call that led to the closure returns.
/// All other closures may call anything.
#[derive(Clone)]
pub struct Allocator {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    raw: NonNull<sys::cachalot_allocator>,
    /// Whether `Allocator::end` has destroyed the handle.
    is_destroyed: bool,
    driver: Driver,
    owner: ManuallyDrop<Owner>,
    pub(crate) kept: Arc<Kept>,
    pinned: Mutex<PinnedPart>,
}

/// What is remembered as long as the library's allocator lives.
#[derive(Default)]
pub(crate) struct Kept {
    /// Addresses that `Block::leak` gave away and that nobody has taken back.
    leaked: Mutex<HashSet<Address>>,
    pub(crate) orphans: Orphans,
}

/// The allocator of pinned memory that goes with an allocator.
#[derive(Default)]
struct PinnedPart {
    /// As long as somebody has it.
    inner: Weak<Inner>,
    kept: Arc<Kept>,
}

/// What keeps the handle alive, and what the library calls.
pub(crate) enum Owner {
    Own(Option<Box<Remarks>>),
    /// Another object of the library, which is kept with it.
    Other(#[allow(dead_code)] Arc<dyn Send + Sync>),
}

// SAFETY: the header allows all functions from any thread at the same time; destroying needs every
// other call to have returned, and happens when no other owner is left.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Owner::Other(_) = &*self.owner {
            // SAFETY: the field is not used afterwards.
            return unsafe { ManuallyDrop::drop(&mut self.owner) };
        }
        let ended = if self.is_destroyed {
            Ok(())
        } else {
            // SAFETY: this is the only owner, so no other call is under way; if it works the handle
            // is not used again.
            ffi::call(|error| unsafe { sys::cachalot_allocator_destroy(self.raw.as_ptr(), error) })
        };
        match ended {
            Ok(()) => {
                self.kept.orphans.end();
                self.pinned().kept.orphans.end();
                // SAFETY: the field is not used afterwards, and the library no longer calls it.
                unsafe { ManuallyDrop::drop(&mut self.owner) }
            }
            // It stays, and with it what it calls.
            Err(error) => self.remark(&format!("an allocator was left behind: {error}")),
        }
    }
}

impl Inner {
    fn remark(&self, message: &str) {
        match &*self.owner {
            Owner::Own(Some(remarks)) if remarks.log(LogLevel::LeftBehind, message) => {}
            _ => eprintln!("cachalot: {message}"),
        }
    }

    fn leaked(&self) -> MutexGuard<'_, HashSet<Address>> {
        self.kept.leaked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pinned(&self) -> MutexGuard<'_, PinnedPart> {
        self.pinned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Allocator {
    /// An allocator with all defaults: memory from [`Driver::from_env`], options from the
    /// environment (`CACHALOT_ALLOC_CONF`, `PYTORCH_CUDA_ALLOC_CONF`, `PYTORCH_ALLOC_CONF`: the
    /// first that is set). Nothing is obtained from the driver yet.
    ///
    /// # Errors
    /// As [`AllocatorBuilder::build`].
    pub fn new() -> Result<Self> {
        Self::builder().build()
    }

    /// An allocator that is made step by step.
    pub fn builder() -> AllocatorBuilder {
        AllocatorBuilder::default()
    }

    pub(crate) fn of_raw(
        raw: NonNull<sys::cachalot_allocator>,
        driver: Driver,
        owner: Owner,
    ) -> Self {
        Self::of_raw_and_kept(raw, driver, owner, Arc::default())
    }

    fn of_raw_and_kept(
        raw: NonNull<sys::cachalot_allocator>,
        driver: Driver,
        owner: Owner,
        kept: Arc<Kept>,
    ) -> Self {
        let inner = Inner {
            raw,
            is_destroyed: false,
            driver,
            owner: ManuallyDrop::new(owner),
            kept,
            pinned: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The allocator that has the pinned memory where [`AllocatorBuilder::pinned_config`] was given, else
    /// `None`. It is as one with one device, 0, whose memory is the machine's: limits, trims, tenants,
    /// labels, statistics, reports, snapshots, the history and recorders are those of any allocator.
    /// Requests go through this one ([`Allocator::allocate_pinned`]). It keeps this one alive, and cannot
    /// be closed by itself. Stands for `cachalot_pinned_allocator`.
    ///
    /// ```
    /// use cachalot::{Allocator, Driver};
    ///
    /// let driver = Driver::open("host:1GiB")?;
    /// let allocator = Allocator::builder().driver(driver).pinned_config("").build()?;
    /// let pinned = allocator.pinned_allocator().expect("there is an option string");
    /// pinned.set_memory_limit(0, Some(64 << 20))?;
    /// let block = allocator.allocate_pinned(1 << 20)?;
    /// assert_eq!(pinned.memory_allocated(0), 1 << 20);
    /// assert!(allocator.allocate_pinned(1 << 30).is_err());
    /// # drop(block);
    /// # Ok::<(), cachalot::Error>(())
    /// ```
    pub fn pinned_allocator(&self) -> Option<Allocator> {
        // SAFETY: the allocator is live; the function takes no lock.
        let raw = NonNull::new(unsafe { sys::cachalot_pinned_allocator(self.as_raw()) })?;
        let mut part = self.inner.pinned();
        if let Some(inner) = part.inner.upgrade() {
            return Some(Self { inner });
        }
        // SAFETY: that allocator is live as long as this one.
        let driver = NonNull::new(unsafe { sys::cachalot_allocator_driver(raw.as_ptr()) })?;
        let driver = Driver::borrowed(driver, self.inner.clone());
        let owner = Owner::Other(self.inner.clone());
        let pinned = Self::of_raw_and_kept(raw, driver, owner, part.kept.clone());
        part.inner = Arc::downgrade(&pinned.inner);
        Some(pinned)
    }

    /// A share that does not keep the allocator alive: for closures that the allocator itself keeps,
    /// such as observers, which would keep it alive for ever otherwise.
    pub fn downgrade(&self) -> WeakAllocator {
        WeakAllocator { inner: Arc::downgrade(&self.inner) }
    }

    /// The handle, for calls of `cachalot-sys`. It lives as long as this allocator.
    pub fn as_raw(&self) -> *mut sys::cachalot_allocator {
        self.inner.raw.as_ptr()
    }

    /// A call that may fail, with the handle and a place for the error.
    #[inline]
    pub(crate) fn call(
        &self,
        function: impl FnOnce(
            *mut sys::cachalot_allocator,
            *mut sys::cachalot_error,
        ) -> sys::cachalot_status,
    ) -> Result<()> {
        if callback::is_locked() {
            return Err(refuse_in_callback());
        }
        ffi::call(|error| function(self.as_raw(), error))
    }

    /// Ends the allocator, if this is its last clone and no block is live. Stands for
    /// `cachalot_allocator_destroy`.
    ///
    /// # Errors
    /// `InvalidState` while there are clones (each block, pool, tenant and observer has one) or
    /// leaked blocks; then the allocator comes back.
    pub fn close(self) -> Result<(), (Self, Error)> {
        // SAFETY: `end` has made sure that no other call is under way, and that the handle is not
        // used again if this works.
        self.end(|raw, error| unsafe { sys::cachalot_allocator_destroy(raw, error) })
    }

    /// Like [`Allocator::close`], but leaked blocks are freed too: for each device that has some, all
    /// its work is waited for first. Their addresses must not be used afterwards. Stands for
    /// `cachalot_allocator_destroy_all`.
    ///
    /// # Errors
    /// `InvalidState` while there are clones; `Driver`. Then the allocator comes back.
    pub fn close_all(self) -> Result<(), (Self, Error)> {
        // SAFETY: as in `close`.
        self.end(|raw, error| unsafe { sys::cachalot_allocator_destroy_all(raw, error) })
    }

    fn end(
        self,
        destroy: impl FnOnce(
            *mut sys::cachalot_allocator,
            *mut sys::cachalot_error,
        ) -> sys::cachalot_status,
    ) -> Result<(), (Self, Error)> {
        if callback::is_locked() {
            return Err((self, refuse_in_callback()));
        }
        if let Owner::Other(_) = &*self.inner.owner {
            let message = "the allocator ends with what it is of: a replay, or another allocator";
            return Err((self, Error::state(message)));
        }
        let mut inner = match Arc::try_unwrap(self.inner) {
            Ok(inner) => inner,
            Err(inner) => {
                let others = Arc::strong_count(&inner).saturating_sub(1);
                let message = format!("{others} other owners of this allocator are left");
                return Err((Self { inner }, Error::state(&message)));
            }
        };
        match ffi::call(|error| destroy(inner.raw.as_ptr(), error)) {
            Ok(()) => {
                inner.is_destroyed = true; // What is left goes as always.
                Ok(())
            }
            Err(error) => Err((Self { inner: Arc::new(inner) }, error)),
        }
    }

    /// Where its memory comes from. Stands for `cachalot_allocator_driver`.
    pub fn driver(&self) -> &Driver {
        // SAFETY: the allocator is live.
        let raw = unsafe { sys::cachalot_allocator_driver(self.as_raw()) };
        debug_assert!(std::ptr::eq(raw, self.inner.driver.as_raw()));
        &self.inner.driver
    }

    /// The release whose decisions are made. Stands for `cachalot_allocator_release`.
    pub fn release(&self) -> Release {
        // SAFETY: the allocator is live.
        let release = unsafe { sys::cachalot_allocator_release(self.as_raw()) };
        Release::of_c(release).unwrap_or(Release::V2_15)
    }

    /// `native` or `cudaMallocAsync`, as the option `backend` chose. Stands for
    /// `cachalot_allocator_backend`.
    pub fn backend(&self) -> &'static str {
        // SAFETY: the allocator is live; the text lives as long as the library.
        match unsafe { ffi::str_of(sys::cachalot_allocator_backend(self.as_raw())) } {
            std::borrow::Cow::Borrowed(name) => name,
            std::borrow::Cow::Owned(_) => "",
        }
    }

    // ---- Blocks ---------------------------------------------------------------------------------

    /// Hands out a block that owns itself: it keeps the allocator alive, may go to any thread, and is
    /// freed when it is dropped. Stands for `cachalot_allocate`.
    ///
    /// `size` is in bytes; 0 gives address 0 and takes nothing, 2^60 and more fail at once. `device`
    /// counts from 0. `stream` is the one that will use the block: it is not waited for between
    /// blocks of one stream.
    ///
    /// # Errors
    /// `OutOfMemory` with all numbers; `Driver` for an error that the driver reported now or left
    /// pending. Then the allocator is as before, but for its counters and for cached memory that was
    /// given back on the way.
    #[inline]
    pub fn allocate(&self, size: u64, device: i32, stream: impl Into<Stream>) -> Result<Block> {
        let address = self.obtain(size, device, stream.into())?;
        Ok(Block::new(self.clone(), address))
    }

    /// Like [`Allocator::allocate`], but the block borrows the allocator, which saves the two atomic
    /// counts that an owner costs.
    ///
    /// # Errors
    /// As [`Allocator::allocate`].
    #[inline]
    pub fn allocate_borrowed(
        &self,
        size: u64,
        device: i32,
        stream: impl Into<Stream>,
    ) -> Result<BorrowedBlock<'_>> {
        let address = self.obtain(size, device, stream.into())?;
        Ok(BorrowedBlock::new(self, address))
    }

    #[inline]
    fn obtain(&self, size: u64, device: i32, stream: Stream) -> Result<Address> {
        let mut address = 0;
        // SAFETY: the allocator is live, and the address is that of a local.
        self.call(|raw, error| unsafe {
            sys::cachalot_allocate(raw, size, device, stream.0, &mut address, error)
        })?;
        Ok(address)
    }

    /// Like [`Allocator::allocate`], with all that a request may say. Stands for
    /// `cachalot_allocate_with`.
    ///
    /// # Errors
    /// As [`Allocator::allocate`]; `NotSupported` for [`Request::at`] under 2.11, `InvalidState` where
    /// no block can begin there.
    pub fn allocate_with(&self, request: &Request) -> Result<Block> {
        let request = request.to_c();
        let mut address = 0;
        // SAFETY: the allocator is live, and both pointers are those of locals.
        self.call(|raw, error| unsafe {
            sys::cachalot_allocate_with(raw, &request, &mut address, error)
        })?;
        Ok(Block::new(self.clone(), address))
    }

    /// Frees a block that was leaked ([`Block::leak`]), by its address. 0 does nothing. Stands for
    /// `cachalot_free`.
    ///
    /// # Errors
    /// `InvalidArgument` for an address that is not a live block; `InvalidState` for one that somebody
    /// owns.
    pub fn free(&self, address: Address) -> Result<()> {
        if address == 0 {
            return Ok(());
        }
        self.adopt(address)?.free()
    }

    /// Takes a block back that was leaked ([`Block::leak`]) by this allocator. Address 0 gives an
    /// empty block.
    ///
    /// # Errors
    /// `InvalidArgument` for an address that is not a live block; `InvalidState` for one that was not
    /// leaked or that somebody has taken back already: a block has one owner.
    pub fn adopt(&self, address: Address) -> Result<Block> {
        if address != 0 && !self.inner.leaked().remove(&address) {
            let block = self.block_at(address)?;
            let message = format!("the block at {:#x} has an owner", block.address);
            return Err(Error::state(&message));
        }
        Ok(Block::new(self.clone(), address))
    }

    /// Takes a block over that was handed out through the C interface by this same allocator.
    ///
    /// # Safety
    /// `address` is a live block of this allocator, which nobody else frees or uses as its owner.
    pub unsafe fn adopt_raw(&self, address: Address) -> Block {
        self.inner.leaked().remove(&address);
        Block::new(self.clone(), address)
    }

    pub(crate) fn leak(&self, address: Address) {
        if address != 0 {
            self.inner.leaked().insert(address);
        }
    }

    /// An address that is free now is nobody's to take back, since a later request may get it. An address that
    /// is handed out as before stays with the caller that gave it up, and one that was free before has no owner yet.
    pub(crate) fn note_restored(&self, changes: &CheckpointChanges) {
        let freed: HashSet<_> = changes.freed.iter().copied().collect();
        let created: HashSet<_> = changes.created.iter().copied().collect();
        let mut leaked = self.inner.leaked();
        for gone in freed.difference(&created) {
            leaked.remove(gone);
        }
        leaked.extend(created.difference(&freed));
    }

    /// What is known of a live block, whoever owns it. Stands for `cachalot_get_block`.
    ///
    /// # Errors
    /// `InvalidArgument` for any other address.
    pub fn block_at(&self, address: Address) -> Result<BlockInfo> {
        let mut block = ffi::sized::<sys::cachalot_block>();
        // SAFETY: the allocator is live, and the row is a local of the size that it says.
        self.call(|raw, error| unsafe {
            sys::cachalot_get_block(raw, address, &mut block, error)
        })?;
        Ok(BlockInfo::of_c(&block))
    }

    /// Says that work on another stream uses a block: after its free it stays out of use until the
    /// work that is queued on that stream by then is done. Addresses of no block are ignored, as in
    /// PyTorch. Stands for `cachalot_record_stream`.
    ///
    /// # Errors
    /// Under `backend:cudaMallocAsync` `InvalidState` for a foreign address, and `InvalidArgument`
    /// for `Stream::ALL`.
    pub fn record_stream(&self, address: Address, stream: impl Into<Stream>) -> Result<()> {
        let stream = stream.into();
        // SAFETY: the allocator is live; any address may be asked for.
        self.call(|raw, error| unsafe {
            sys::cachalot_record_stream(raw, address, stream.0, error)
        })
    }

    /// The segment of a live block: its first byte and its size in bytes. Stands for
    /// `cachalot_base_allocation`.
    ///
    /// # Errors
    /// `InvalidState` for blocks of expandable segments and of an allocator without caching, as in
    /// PyTorch.
    pub fn base_allocation(&self, address: Address) -> Result<(Address, u64)> {
        let (mut base, mut size) = (0, 0);
        // SAFETY: the allocator is live, and both pointers are those of locals.
        self.call(|raw, error| unsafe {
            sys::cachalot_base_allocation(raw, address, &mut base, &mut size, error)
        })?;
        Ok((base, size))
    }

    // ---- The cache ------------------------------------------------------------------------------

    /// Gives all cached memory of all devices back to the driver, after waiting for blocks that were
    /// freed with recorded streams. Stands for `cachalot_empty_cache`.
    ///
    /// # Errors
    /// `Driver`.
    pub fn empty_cache(&self) -> Result<()> {
        // SAFETY: the allocator is live.
        self.call(|raw, error| unsafe { sys::cachalot_empty_cache(raw, error) })
    }

    /// The same for one device. Stands for `cachalot_empty_device_cache`.
    ///
    /// # Errors
    /// `Driver`; `InvalidArgument` for a device that the driver does not have.
    pub fn empty_device_cache(&self, device: i32) -> Result<()> {
        // SAFETY: the allocator is live.
        self.call(|raw, error| unsafe { sys::cachalot_empty_device_cache(raw, device, error) })
    }

    /// Lets go of a device's context, which the caller is about to end: of the device's cached memory, of cached
    /// pinned memory, and of all events. What is live on the device ends with the context. The next call for the
    /// device takes the context that there is then. Stands for `cachalot_release_context`.
    ///
    /// # Errors
    /// `Driver`; `InvalidArgument` for a device that the driver does not have; `InvalidState` while a capture may be
    /// under way; `NotSupported` under `backend:cudaMallocAsync`.
    pub fn release_context(&self, device: i32) -> Result<()> {
        // SAFETY: the allocator is live.
        self.call(|raw, error| unsafe { sys::cachalot_release_context(raw, device, error) })
    }

    /// The same, made while `current` is the thread's current stream, which matters during captures.
    /// Stands for `cachalot_empty_device_cache_on_stream`.
    ///
    /// # Errors
    /// As [`Allocator::empty_device_cache`].
    pub fn empty_device_cache_on_stream(
        &self,
        device: i32,
        current: impl Into<Stream>,
    ) -> Result<()> {
        let current = current.into();
        // SAFETY: the allocator is live.
        self.call(|raw, error| unsafe {
            sys::cachalot_empty_device_cache_on_stream(raw, device, current.0, error)
        })
    }

    /// Empties the cache at the end of a scope.
    ///
    /// ```
    /// # use cachalot::{Allocator, Driver};
    /// let allocator = Allocator::builder().driver(Driver::open("sim:1GiB")?).build()?;
    /// {
    ///     let _guard = allocator.empty_cache_on_drop();
    ///     allocator.allocate(1 << 20, 0, 0)?;
    /// }
    /// assert_eq!(allocator.memory_reserved(0), 0);
    /// # Ok::<(), cachalot::Error>(())
    /// ```
    pub fn empty_cache_on_drop(&self) -> EmptyCacheGuard {
        EmptyCacheGuard { allocator: self.clone() }
    }

    /// The largest cached block in bytes. Stands for `cachalot_largest_block`.
    ///
    /// `at_least` is where to start from; 0: the device's free memory counts as one block. Under
    /// `backend:cudaMallocAsync`, which ignores it: the largest block that can be allocated, by trial.
    ///
    /// # Errors
    /// `Driver`; `InvalidArgument` for a device that the driver does not have.
    pub fn largest_block(&self, device: i32, at_least: u64) -> Result<u64> {
        let mut size = 0;
        // SAFETY: the allocator is live, and the pointer is that of a local.
        self.call(|raw, error| unsafe {
            sys::cachalot_largest_block(raw, device, at_least, &mut size, error)
        })?;
        Ok(size)
    }

    /// The same, made while `current` is the thread's current stream, which matters to
    /// `backend:cudaMallocAsync` only. Stands for `cachalot_largest_block_on_stream`.
    ///
    /// # Errors
    /// As [`Allocator::largest_block`].
    pub fn largest_block_on_stream(
        &self,
        device: i32,
        at_least: u64,
        current: impl Into<Stream>,
    ) -> Result<u64> {
        let current = current.into();
        let mut size = 0;
        // SAFETY: the allocator is live, and the pointer is that of a local.
        self.call(|raw, error| unsafe {
            sys::cachalot_largest_block_on_stream(
                raw, device, at_least, current.0, &mut size, error,
            )
        })?;
        Ok(size)
    }

    /// Walks everything and compares lists, indexes and counters; with red zones it also looks
    /// behind every live block. Stands for `cachalot_check`.
    ///
    /// # Errors
    /// `Internal` with the first thing that is wrong; `InvalidState` with the first block that was
    /// written beyond its end.
    pub fn check(&self) -> Result<()> {
        // SAFETY: the allocator is live.
        self.call(|raw, error| unsafe { sys::cachalot_check(raw, error) })
    }
}

#[cold]
fn refuse_in_callback() -> Error {
    Error::state("an allocator was called from within a callback that runs under its lock")
}

/// Whether both are the same allocator.
impl PartialEq for Allocator {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Eq for Allocator {}

impl fmt::Debug for Allocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Allocator")
            .field("driver", self.driver())
            .field("release", &self.release())
            .field("backend", &self.backend())
            .finish()
    }
}

/// An allocator that this does not keep alive ([`Allocator::downgrade`]).
#[derive(Clone)]
pub struct WeakAllocator {
    inner: Weak<Inner>,
}

impl WeakAllocator {
    /// The allocator, if it has not ended.
    pub fn upgrade(&self) -> Option<Allocator> {
        self.inner.upgrade().map(|inner| Allocator { inner })
    }
}

impl fmt::Debug for WeakAllocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeakAllocator")
    }
}

/// Empties the cache of its allocator when it is dropped ([`Allocator::empty_cache_on_drop`]). An
/// error of the driver is passed over: memory that did not go back stays cached.
#[must_use = "the cache is emptied when this is dropped"]
#[derive(Debug)]
pub struct EmptyCacheGuard {
    allocator: Allocator,
}

impl Drop for EmptyCacheGuard {
    fn drop(&mut self) {
        if callback::is_locked() {
            let allocator = self.allocator.clone();
            return callback::defer(move || drop(allocator.empty_cache()));
        }
        let _ = self.allocator.empty_cache();
    }
}
