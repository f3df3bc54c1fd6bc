// SPDX-License-Identifier: MIT OR Apache-2.0
//! Collections in memory of the host driver, by the crate `allocator-api2`.

use std::alloc::Layout;
use std::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator as AllocatorApi};

use crate::allocator::Allocator;
use crate::driver::Driver;
use crate::error::Result;
use crate::stats::Stats;
use crate::sys;

/// What blocks of the host driver are aligned to, in bytes.
const BLOCK_ALIGNMENT: usize = 512;

/// An allocator for collections, over ordinary memory with a capacity. Clones are the same one.
///
/// The cachalot allocator inside is its own: nobody else can free its blocks, so memory that a
/// collection has stays its own.
///
/// ```
/// use allocator_api2::vec::Vec;
/// use cachalot::host::HostAllocator;
///
/// let host = HostAllocator::new(1 << 30)?;
/// let mut numbers = Vec::new_in(host.clone());
/// numbers.extend(0..1000);
/// assert_eq!(numbers.iter().sum::<i32>(), 499_500);
/// assert!(host.stats()?.allocated_bytes.all.current >= 4000);
/// # Ok::<(), cachalot::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct HostAllocator {
    allocator: Allocator,
}

impl HostAllocator {
    /// An allocator over so many bytes; 0 means 4 GiB. Options are all defaults.
    ///
    /// # Errors
    /// As [`HostAllocator::with_config`].
    pub fn new(capacity: u64) -> Result<Self> {
        Self::with_config(capacity, "")
    }

    /// The same with an option string or a [`Config`](crate::Config).
    ///
    /// # Errors
    /// `InvalidArgument` for a string that is not acceptable; `NotSupported` for an option that host
    /// memory cannot serve.
    pub fn with_config(capacity: u64, config: impl Into<String>) -> Result<Self> {
        let driver = Driver::host(capacity, 1)?;
        let allocator = Allocator::builder().driver(driver).config(config).build()?;
        Ok(Self { allocator })
    }

    /// The statistics.
    ///
    /// # Errors
    /// `InvalidState` from within a callback under a lock.
    pub fn stats(&self) -> Result<Stats> {
        self.allocator.stats(0)
    }

    /// The table of the statistics ([`Allocator::memory_summary`]).
    ///
    /// # Errors
    /// As [`HostAllocator::stats`].
    pub fn memory_summary(&self, abbreviated: bool) -> Result<String> {
        self.allocator.memory_summary(0, abbreviated)
    }

    /// Gives cached memory back to the system ([`Allocator::empty_cache`]).
    ///
    /// # Errors
    /// As [`HostAllocator::stats`].
    pub fn empty_cache(&self) -> Result<()> {
        self.allocator.empty_cache()
    }

    /// Bytes of a block for this layout. Blocks are aligned to 512 bytes: for more there is room to
    /// move the first byte, and in front of it, for the block's address.
    fn block_size(layout: Layout) -> Option<usize> {
        if layout.align() <= BLOCK_ALIGNMENT {
            return Some(layout.size());
        }
        layout.size().checked_add(layout.align())?.checked_add(BLOCK_ALIGNMENT)
    }
}

// SAFETY: a block stays valid and where it is until it is freed, whatever is done with the allocator
// and its clones, since each block is freed by `deallocate` only and the last clone outlives it.
unsafe impl AllocatorApi for HostAllocator {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            let dangling = NonNull::new(std::ptr::without_provenance_mut(layout.align()));
            return Ok(NonNull::slice_from_raw_parts(dangling.ok_or(AllocError)?, 0));
        }
        let size = Self::block_size(layout).ok_or(AllocError)?;
        let mut address = 0;
        // SAFETY: the allocator is live, and the pointer is that of a local.
        let result = self.allocator.call(|raw, error| unsafe {
            sys::cachalot_allocate(raw, size as u64, 0, 0, &mut address, error)
        });
        result.map_err(|_| AllocError)?;
        let base = std::ptr::with_exposed_provenance_mut::<u8>(address as usize);
        let first = if layout.align() <= BLOCK_ALIGNMENT {
            base
        } else {
            let offset = (address as usize + BLOCK_ALIGNMENT).next_multiple_of(layout.align())
                - address as usize;
            // SAFETY: the block has room for the offset and the size, and at least 512 bytes lie in
            // front of the first byte.
            unsafe {
                let first = base.add(offset);
                first.cast::<u64>().sub(1).write_unaligned(address);
                first
            }
        };
        let first = NonNull::new(first).ok_or(AllocError)?;
        Ok(NonNull::slice_from_raw_parts(first, layout.size()))
    }

    unsafe fn deallocate(&self, first: NonNull<u8>, layout: Layout) {
        if layout.size() == 0 {
            return;
        }
        let address = if layout.align() <= BLOCK_ALIGNMENT {
            first.as_ptr().expose_provenance() as u64
        } else {
            // SAFETY: `allocate` has written it there for this layout.
            unsafe { first.as_ptr().cast::<u64>().sub(1).read_unaligned() }
        };
        // A block, which may be dropped within any callback.
        // SAFETY: the caller gives up what `allocate` gave.
        drop(unsafe { self.allocator.adopt_raw(address) });
    }
}
