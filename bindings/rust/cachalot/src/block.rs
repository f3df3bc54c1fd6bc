// SPDX-License-Identifier: MIT OR Apache-2.0
//! Blocks: memory that was handed out, with its owner.

use std::fmt;
use std::mem::ManuallyDrop;

use crate::allocator::Allocator;
use crate::callback;
use crate::error::{Error, Result};
use crate::ffi;
use crate::policy::Pin;
use crate::sys;
use crate::types::{Address, PoolId, Stream};

/// A request with all that it may say. Stands for `cachalot_request`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Request {
    size: u64,
    device: i32,
    stream: Stream,
    current_stream: Option<Stream>,
    at: Address,
}

impl Request {
    /// A request for `size` bytes on device 0, for the default stream.
    pub fn new(size: u64) -> Self {
        Self { size, ..Self::default() }
    }

    /// The device, counted from 0.
    pub fn device(mut self, device: i32) -> Self {
        self.device = device;
        self
    }

    /// The stream that will use the block.
    pub fn stream(mut self, stream: impl Into<Stream>) -> Self {
        self.stream = stream.into();
        self
    }

    /// The stream that PyTorch would call the thread's current one; else that of the request.
    pub fn current_stream(mut self, stream: impl Into<Stream>) -> Self {
        self.current_stream = Some(stream.into());
        self
    }

    /// The block shall begin at this address, a multiple of 512 inside of cached memory (since
    /// 2.13). 0: anywhere.
    pub fn at(mut self, address: Address) -> Self {
        self.at = address;
        self
    }

    pub(crate) fn to_c(self) -> sys::cachalot_request {
        let mut request = ffi::sized::<sys::cachalot_request>();
        request.size = self.size;
        request.device = self.device;
        request.stream = self.stream.0;
        if let Some(current) = self.current_stream {
            request.has_current_stream = 1;
            request.current_stream = current.0;
        }
        request.at = self.at;
        request
    }
}

/// What is known of a live block. Stands for `cachalot_block`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct BlockInfo {
    /// Its first byte.
    pub address: Address,
    /// Bytes of the block.
    pub size: u64,
    /// Bytes that were requested.
    pub requested: u64,
    /// The stream that it was handed out for.
    pub stream: Stream,
    /// Its private pool, or [`PoolId::DEFAULT`].
    pub pool: PoolId,
    /// Its device.
    pub device: i32,
    /// Whether the request went to the driver because caching was off.
    pub uncached: bool,
    /// Whether the source of its pool gave its memory ([`PoolOptions::source`](crate::PoolOptions::source));
    /// else the driver did.
    pub from_source: bool,
}

impl BlockInfo {
    pub(crate) fn of_c(block: &sys::cachalot_block) -> Self {
        Self {
            address: block.address,
            size: block.size,
            requested: block.requested,
            stream: Stream(block.stream),
            pool: PoolId::of_c(block.pool),
            device: block.device,
            uncached: block.uncached != 0,
            from_source: block.from_source != 0,
        }
    }
}

/// What both kinds of blocks can do.
macro_rules! block_methods {
    () => {
        /// The block's first byte; 0 for a request of 0 bytes.
        #[inline]
        pub fn address(&self) -> Address {
            self.address
        }

        /// What is known of it. Stands for `cachalot_get_block`.
        ///
        /// # Errors
        /// `InvalidArgument` for an empty block, which has no memory.
        pub fn info(&self) -> Result<BlockInfo> {
            self.allocator().block_at(self.address)
        }

        /// Says that work on another stream uses the block: after its free it stays out of use until
        /// the work that is queued on that stream by then is done. Its own stream is ignored. Stands
        /// for `cachalot_record_stream`.
        ///
        /// # Errors
        /// `Driver` under `backend:cudaMallocAsync`.
        pub fn record_stream(&self, stream: impl Into<Stream>) -> Result<()> {
            self.allocator().record_stream(self.address, stream)
        }

        /// The same, made while `current` is the thread's current stream, which matters during
        /// captures. Stands for `cachalot_record_stream_on_stream`.
        ///
        /// # Errors
        /// As for `record_stream`.
        pub fn record_stream_on_stream(
            &self,
            stream: impl Into<Stream>,
            current: impl Into<Stream>,
        ) -> Result<()> {
            let (stream, current) = (stream.into(), current.into());
            // SAFETY: the allocator and the block are live.
            self.allocator().call(|raw, error| unsafe {
                sys::cachalot_record_stream_on_stream(raw, self.address, stream.0, current.0, error)
            })
        }

        /// Keeps what was requested of the block where it is until the guard is dropped, also after the
        /// block was freed ([`Allocator::pin`]).
        ///
        /// # Errors
        /// `InvalidArgument` for an empty block, which has no memory, and for one that bypassed the
        /// cache; `NotSupported` under `backend:cudaMallocAsync`.
        pub fn pin(&self) -> Result<Pin> {
            self.allocator().pin(self.address, self.info()?.requested)
        }

        /// The same for `size` bytes of the block from `offset` on.
        ///
        /// # Errors
        /// As for `pin`; `InvalidArgument` also for a part that goes beyond what was requested.
        pub fn pin_range(&self, offset: u64, size: u64) -> Result<Pin> {
            let requested = self.info()?.requested;
            if offset.checked_add(size).is_none_or(|end| end > requested) {
                let message = format!(
                    "{size} bytes from {offset} on are not within a block of {requested} bytes"
                );
                return Err(Error::argument(message));
            }
            self.allocator().pin(self.address + offset, size)
        }

        /// Frees the block now, as dropping does, and tells what came of it. It is reused at once on
        /// its own stream; after `record_stream` only when the work recorded there is done. Stands
        /// for `cachalot_free`.
        ///
        /// # Errors
        /// `Driver`: the block is given up all the same, and waits for its streams.
        pub fn free(self) -> Result<()> {
            if callback::is_locked() {
                return Ok(drop(self)); // Which puts it off.
            }
            let (allocator, address) = self.into_parts();
            free(&allocator, address)
        }

        /// The same, made while `current` is the thread's current stream, which matters during
        /// captures. Stands for `cachalot_free_on_stream`.
        ///
        /// # Errors
        /// As for `free`.
        pub fn free_on_stream(self, current: impl Into<Stream>) -> Result<()> {
            if callback::is_locked() {
                return Ok(drop(self)); // Which puts it off.
            }
            let (allocator, address) = self.into_parts();
            let current = current.into();
            // SAFETY: the allocator is live, and the block is ours and not used afterwards.
            allocator.call(|raw, error| unsafe {
                sys::cachalot_free_on_stream(raw, address, current.0, error)
            })
        }

        /// Gives the block away as a number: nothing frees it until it is taken back with
        /// [`Allocator::adopt`] or freed with [`Allocator::free`].
        pub fn leak(self) -> Address {
            let (allocator, address) = self.into_parts();
            allocator.leak(address);
            address
        }
    };
}

/// A block with an owner's share of its allocator: may go to any thread, and is freed when it is
/// dropped. A free makes no driver call unless streams were recorded.
///
/// An error of a free is passed over by the drop ([`Block::free`] tells it): the block is given up
/// either way.
#[must_use = "the block is freed when this is dropped"]
pub struct Block {
    allocator: Allocator,
    address: Address,
}

impl Block {
    #[inline]
    pub(crate) fn new(allocator: Allocator, address: Address) -> Self {
        Self { allocator, address }
    }

    /// The allocator that it is from.
    #[inline]
    pub fn allocator(&self) -> &Allocator {
        &self.allocator
    }

    /// Allocator and address of a block that is given up or away.
    pub(crate) fn into_parts(self) -> (Allocator, Address) {
        let this = ManuallyDrop::new(self);
        // SAFETY: the block is not dropped, so what is read has one owner.
        (unsafe { std::ptr::read(&raw const this.allocator) }, this.address)
    }

    block_methods!();
}

impl Drop for Block {
    #[inline]
    fn drop(&mut self) {
        drop_block(&self.allocator, self.address);
    }
}

/// A block that borrows its allocator, which costs less than an owner; freed when it is dropped.
///
/// See [`Block`] for what holds for both.
#[must_use = "the block is freed when this is dropped"]
pub struct BorrowedBlock<'a> {
    allocator: &'a Allocator,
    address: Address,
}

impl<'a> BorrowedBlock<'a> {
    #[inline]
    pub(crate) fn new(allocator: &'a Allocator, address: Address) -> Self {
        Self { allocator, address }
    }

    /// The allocator that it is from.
    #[inline]
    pub fn allocator(&self) -> &'a Allocator {
        self.allocator
    }

    /// The same block with an owner's share of the allocator.
    pub fn into_owned(self) -> Block {
        let (allocator, address) = self.into_parts();
        Block::new(allocator.clone(), address)
    }

    fn into_parts(self) -> (&'a Allocator, Address) {
        let this = ManuallyDrop::new(self);
        (this.allocator, this.address)
    }

    block_methods!();
}

impl Drop for BorrowedBlock<'_> {
    #[inline]
    fn drop(&mut self) {
        drop_block(self.allocator, self.address);
    }
}

#[inline]
fn free(allocator: &Allocator, address: Address) -> Result<()> {
    // SAFETY: the allocator is live, and the owner of the block gives it up.
    allocator.call(|raw, error| unsafe { sys::cachalot_free(raw, address, error) })
}

#[inline]
fn drop_block(allocator: &Allocator, address: Address) {
    if callback::is_locked() {
        return free_later(allocator.clone(), address);
    }
    let _ = free(allocator, address);
}

#[cold]
#[inline(never)]
fn free_later(allocator: Allocator, address: Address) {
    callback::defer(move || drop(free(&allocator, address)));
}

macro_rules! block_traits {
    ($type:ty) => {
        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($type), "({:#x})"), self.address)
            }
        }

        impl PartialEq for $type {
            /// Whether both are the same memory: of one allocator at one address.
            fn eq(&self, other: &Self) -> bool {
                self.address == other.address && self.allocator() == other.allocator()
            }
        }

        impl Eq for $type {}
    };
}
block_traits!(Block);
block_traits!(BorrowedBlock<'_>);
