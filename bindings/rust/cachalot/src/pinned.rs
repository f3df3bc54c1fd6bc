// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pinned host memory: blocks that the host reads and writes, and that copies to and from devices go
//! through without a stop.

use std::fmt;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

use crate::allocator::Allocator;
use crate::callback;
use crate::error::{Error, Result};
use crate::ffi;
use crate::stats::Stat;
use crate::sys;
use crate::types::{Address, Stream};

/// A block of pinned host memory: bytes of the host, which dereference to a slice and begin at a
/// multiple of 512. It keeps its allocator alive, may go to any thread, and is freed when it is dropped.
///
/// A `PinnedBlock` has bytes that are all written; [`Allocator::allocate_pinned`] fills them with 0. A
/// `PinnedBlock<MaybeUninit<u8>>` ([`Allocator::allocate_pinned_uninit`]) has whatever lay there, costs
/// nothing for it, and is for those who write it all anyway, or let a device write it.
///
/// ```
/// use cachalot::{Allocator, Driver};
///
/// # if false {
/// let allocator = Allocator::new()?;
/// # }
/// # let allocator = Allocator::builder().driver(Driver::open("host:1GiB")?).build()?;
/// let mut block = allocator.allocate_pinned(1 << 20)?;
/// block[..3].copy_from_slice(&[1, 2, 3]);
/// // A copy to a device that the host does not wait for, made by other means. Then:
/// let (device, stream) = (0, 0x10);
/// block.record_stream(device, stream)?;
/// drop(block); // is handed out again when that copy is done
/// # Ok::<(), cachalot::Error>(())
/// ```
///
/// # While a device uses it
///
/// Rust assumes that only the owner of a slice reads and writes its bytes. A device does both without
/// Rust's knowledge. The caller starts the device's work through other libraries, and has two duties:
///
/// - Until the work is done, the host does not read the bytes that the device writes, and does not write
///   the bytes that the device reads. The caller waits for the stream; no function here waits for it.
/// - The caller calls [`PinnedBlock::record_stream`] before the block is dropped, unless the work is done
///   by then. The call keeps the block from its next owner, and does not stop the present owner.
///
/// Some crates copy from and to any slice and return at once, because ordinary memory makes the driver
/// wait. For a pinned slice it does not. `cudarc`'s `memcpy_htod` and `memcpy_dtoh` are such functions:
/// with the feature `cudarc` they take a whole `PinnedBlock` and wait; given a slice of one they return
/// at once, and the stream must be waited for before the block is touched again.
#[must_use = "the memory is freed when this is dropped"]
pub struct PinnedBlock<T = u8> {
    allocator: Allocator,
    /// The first byte; dangling for an empty block.
    memory: NonNull<T>,
    /// Of bytes: T is `u8` or `MaybeUninit<u8>`.
    len: usize,
}

// SAFETY: the block owns its bytes, and all functions of the library may be called from any thread.
unsafe impl<T: Send> Send for PinnedBlock<T> {}
// SAFETY: as above; what is shared is read only.
unsafe impl<T: Sync> Sync for PinnedBlock<T> {}

impl Allocator {
    /// Hands out `size` bytes of pinned memory, all 0. A request of 0 bytes gives an empty block.
    ///
    /// To fill it with 0 takes as long as to write it; [`Allocator::allocate_pinned_copy`] and
    /// [`Allocator::allocate_pinned_uninit`] do not.
    ///
    /// # Errors
    /// As [`Allocator::allocate_pinned_uninit`].
    pub fn allocate_pinned(&self, size: u64) -> Result<PinnedBlock> {
        Ok(self.allocate_pinned_uninit(size)?.zero())
    }

    /// Hands out pinned memory with a copy of these bytes.
    ///
    /// # Errors
    /// As [`Allocator::allocate_pinned_uninit`].
    pub fn allocate_pinned_copy(&self, bytes: &[u8]) -> Result<PinnedBlock> {
        let block = self.allocate_pinned_uninit(bytes.len() as u64)?;
        // SAFETY: the block has as many bytes, and is of one owner; all of them are written.
        unsafe {
            block
                .memory
                .cast::<u8>()
                .as_ptr()
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            Ok(block.assume_init())
        }
    }

    /// Hands out `size` bytes of pinned memory with whatever lies there. Stands for
    /// `cachalot_pinned_allocate`.
    ///
    /// # Errors
    /// `Driver` where the driver refuses, also for want of memory, as in PyTorch; with
    /// [`AllocatorBuilder::pinned_config`](crate::AllocatorBuilder::pinned_config) `OutOfHostMemory` where
    /// that or the limit is short. `NotSupported` where the driver has no pinned memory; `InvalidArgument` for a size that no memory can
    /// have.
    pub fn allocate_pinned_uninit(&self, size: u64) -> Result<PinnedBlock<MaybeUninit<u8>>> {
        // SAFETY: the allocator is live, and the pointer is that of a local.
        self.obtain_pinned(size, |raw, memory, error| unsafe {
            sys::cachalot_pinned_allocate(raw, size, memory, error)
        })
    }

    /// The same, made while `current` of `device` is the thread's current stream: by it captures into
    /// graphs take requests ([`PinnedPoolKey::begin`](crate::PinnedPoolKey::begin)). Without it that is
    /// the legacy default stream of device 0. Stands for `cachalot_pinned_allocate_on_stream`.
    ///
    /// # Errors
    /// As [`Allocator::allocate_pinned_uninit`]; `InvalidArgument` for a device that the driver does not
    /// have.
    pub fn allocate_pinned_uninit_on_stream(
        &self,
        size: u64,
        device: i32,
        current: impl Into<Stream>,
    ) -> Result<PinnedBlock<MaybeUninit<u8>>> {
        let current = current.into();
        // SAFETY: the allocator is live, and the pointer is that of a local.
        self.obtain_pinned(size, |raw, memory, error| unsafe {
            sys::cachalot_pinned_allocate_on_stream(raw, size, device, current.0, memory, error)
        })
    }

    fn obtain_pinned(
        &self,
        size: u64,
        allocate: impl FnOnce(
            *mut sys::cachalot_allocator,
            *mut *mut std::ffi::c_void,
            *mut sys::cachalot_error,
        ) -> sys::cachalot_status,
    ) -> Result<PinnedBlock<MaybeUninit<u8>>> {
        let len = isize::try_from(size)
            .map_err(|_| Error::argument(format!("no memory has {size} bytes")))?
            .unsigned_abs();
        let mut memory = ptr::null_mut();
        self.call(|raw, error| allocate(raw, &mut memory, error))?;
        let memory = NonNull::new(memory.cast::<MaybeUninit<u8>>()).unwrap_or(NonNull::dangling());
        Ok(PinnedBlock { allocator: self.clone(), memory, len })
    }

    /// Takes a block back that was leaked ([`PinnedBlock::leak`]), or over that was handed out through the
    /// C interface by this same allocator.
    ///
    /// # Safety
    /// At the first byte begins a live block of this allocator's pinned memory, which has at least as
    /// many bytes, and which nobody else frees or uses as its owner. If T is `u8` they are written. An
    /// empty slice is no block.
    pub unsafe fn adopt_pinned_raw<T>(&self, memory: *mut [T]) -> PinnedBlock<T>
    where
        PinnedBlock<T>: Deref<Target = [T]>,
    {
        let first = NonNull::new(memory.cast::<T>()).unwrap_or(NonNull::dangling());
        PinnedBlock { allocator: self.clone(), memory: first, len: memory.len() }
    }

    /// Gives cached pinned memory back to the driver, that of graphs' pools without users too. Stands for
    /// `cachalot_pinned_empty_cache`.
    ///
    /// # Errors
    /// `Driver`.
    pub fn empty_pinned_cache(&self) -> Result<()> {
        // SAFETY: the allocator is live.
        self.call(|raw, error| unsafe { sys::cachalot_pinned_empty_cache(raw, error) })
    }

    /// The statistics of pinned memory. Stands for `cachalot_pinned_get_stats`.
    ///
    /// # Errors
    /// `NotSupported` where the driver has no pinned memory.
    pub fn pinned_stats(&self) -> Result<PinnedStats> {
        let mut stats = ffi::sized::<sys::cachalot_pinned_stats>();
        // SAFETY: the allocator is live, and the row is a local of the size that it says.
        self.call(|raw, error| unsafe { sys::cachalot_pinned_get_stats(raw, &mut stats, error) })?;
        Ok(PinnedStats {
            allocations: Stat::of_c(&stats.allocations),
            allocated_bytes: Stat::of_c(&stats.allocated_bytes),
            active_requests: Stat::of_c(&stats.active_requests),
            active_bytes: Stat::of_c(&stats.active_bytes),
            allocate_times: CallTimes::of_c(&stats.allocate_times),
            free_times: CallTimes::of_c(&stats.free_times),
        })
    }

    /// Sets every peak of pinned memory to its current value. Stands for
    /// `cachalot_pinned_reset_peak_stats`.
    ///
    /// # Errors
    /// As [`Allocator::pinned_stats`].
    pub fn reset_pinned_peak_stats(&self) -> Result<()> {
        // SAFETY: the allocator is live.
        self.call(|raw, error| unsafe { sys::cachalot_pinned_reset_peak_stats(raw, error) })
    }

    /// Sets all sums of pinned memory (`allocated`, `freed`) and the times to 0. Stands for
    /// `cachalot_pinned_reset_accumulated_stats`.
    ///
    /// # Errors
    /// As [`Allocator::pinned_stats`].
    pub fn reset_pinned_accumulated_stats(&self) -> Result<()> {
        // SAFETY: the allocator is live.
        self.call(|raw, error| unsafe { sys::cachalot_pinned_reset_accumulated_stats(raw, error) })
    }
}

impl<T> PinnedBlock<T> {
    /// The allocator that it is from.
    pub fn allocator(&self) -> &Allocator {
        &self.allocator
    }

    /// Its first byte, as drivers and the rest of the interface name it; 0 for an empty block.
    pub fn address(&self) -> Address {
        self.raw() as usize as Address
    }

    fn raw(&self) -> *mut std::ffi::c_void {
        if self.len == 0 { ptr::null_mut() } else { self.memory.as_ptr().cast() }
    }

    /// Bytes of the block that it lies in, at least those of the slice: sizes are rounded up. Stands for
    /// `cachalot_pinned_size`.
    ///
    /// # Errors
    /// `InvalidArgument` for an empty block, which has no memory.
    pub fn block_size(&self) -> Result<u64> {
        let mut size = 0;
        // SAFETY: the allocator and the block are live, and the pointer is that of a local.
        self.allocator.call(|raw, error| unsafe {
            sys::cachalot_pinned_size(raw, self.raw(), &mut size, error)
        })?;
        Ok(size)
    }

    /// Says that a stream of a device uses the block, behind each copy that the host does not wait for:
    /// after its free it stays out of use until the work is done that the stream had been given until
    /// then. What the host must not do meanwhile is told at [`PinnedBlock`]. Stands for
    /// `cachalot_pinned_record_stream`.
    ///
    /// # Errors
    /// `InvalidArgument` for a device that the driver does not have, and for an empty block, which has no
    /// memory.
    pub fn record_stream(&self, device: i32, stream: impl Into<Stream>) -> Result<()> {
        let stream = stream.into();
        // SAFETY: the allocator and the block are live.
        self.allocator.call(|raw, error| unsafe {
            sys::cachalot_pinned_record_stream(raw, self.raw(), device, stream.0, error)
        })
    }

    /// Frees the block now, as dropping does, and tells what came of it. Stands for
    /// `cachalot_pinned_free`.
    ///
    /// # Errors
    /// `Driver` where an event could not be recorded: the block is given up all the same.
    pub fn free(self) -> Result<()> {
        if callback::is_locked() {
            drop(self); // Which puts it off.
            return Ok(());
        }
        let memory = self.raw();
        free(&self.into_parts().0, memory)
    }

    /// Gives the memory away: nothing frees it until it is taken back with
    /// [`Allocator::adopt_pinned_raw`]. It is a leaked block to the allocator ([`Allocator::close`]).
    pub fn leak(self) -> *mut [T] {
        let (_, memory, len) = self.into_parts();
        ptr::slice_from_raw_parts_mut(memory.as_ptr(), len)
    }

    fn into_parts(self) -> (Allocator, NonNull<T>, usize) {
        let this = ManuallyDrop::new(self);
        // SAFETY: the block is not dropped, so what is read has one owner.
        (unsafe { ptr::read(&raw const this.allocator) }, this.memory, this.len)
    }
}

impl PinnedBlock<MaybeUninit<u8>> {
    /// The same block, all of whose bytes are 0.
    pub fn zero(self) -> PinnedBlock {
        // SAFETY: the bytes are those of the block, which has one owner; all of them are written.
        unsafe {
            self.memory.as_ptr().write_bytes(0, self.len);
            self.assume_init()
        }
    }

    /// The same block as one whose bytes are all written.
    ///
    /// # Safety
    /// They are: by the host, or by work of a device that is done.
    pub unsafe fn assume_init(self) -> PinnedBlock {
        let (allocator, memory, len) = self.into_parts();
        PinnedBlock { allocator, memory: memory.cast(), len }
    }
}

macro_rules! slices {
    ($type:ty) => {
        impl Deref for PinnedBlock<$type> {
            type Target = [$type];

            fn deref(&self) -> &[$type] {
                // SAFETY: the block has so many bytes as long as it lives, which is longer than the
                // borrow. They are written, or of a type that need not be.
                unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.len) }
            }
        }

        impl DerefMut for PinnedBlock<$type> {
            fn deref_mut(&mut self) -> &mut [$type] {
                // SAFETY: as above, and nobody else has the block.
                unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr(), self.len) }
            }
        }

        impl PinnedBlock<$type> {
            /// All that was asked for.
            pub fn as_slice(&self) -> &[$type] {
                self
            }

            /// All that was asked for, to be written.
            pub fn as_mut_slice(&mut self) -> &mut [$type] {
                self
            }
        }

        impl AsRef<[$type]> for PinnedBlock<$type> {
            fn as_ref(&self) -> &[$type] {
                self
            }
        }

        impl AsMut<[$type]> for PinnedBlock<$type> {
            fn as_mut(&mut self) -> &mut [$type] {
                self
            }
        }
    };
}
slices!(u8);
slices!(MaybeUninit<u8>);

fn free(allocator: &Allocator, memory: *mut std::ffi::c_void) -> Result<()> {
    // SAFETY: the allocator is live, and the owner of the block gives it up.
    allocator.call(|raw, error| unsafe { sys::cachalot_pinned_free(raw, memory, error) })
}

/// An error of the free is passed over ([`PinnedBlock::free`] tells it): the block is given up either way.
impl<T> Drop for PinnedBlock<T> {
    fn drop(&mut self) {
        if callback::is_locked() {
            let (allocator, address) = (self.allocator.clone(), self.raw() as usize);
            return callback::defer(move || {
                drop(free(&allocator, ptr::with_exposed_provenance_mut(address)));
            });
        }
        let _ = free(&self.allocator, self.raw());
    }
}

impl<T> fmt::Debug for PinnedBlock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinnedBlock({:#x}, {} bytes)", self.address(), self.len)
    }
}

/// How long calls of the driver took. Microseconds. Stands for `cachalot_call_times`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct CallTimes {
    /// How many there were.
    pub count: i64,
    /// All of them together.
    pub total: i64,
    /// The shortest; 0 where there was none.
    pub min: i64,
    /// The longest.
    pub max: i64,
}

impl CallTimes {
    fn of_c(times: &sys::cachalot_call_times) -> Self {
        Self { count: times.count, total: times.total, min: times.min, max: times.max }
    }
}

/// The statistics of pinned memory, as `torch.cuda.host_memory_stats` has them. Bytes are those of blocks.
/// Stands for `cachalot_pinned_stats`, whose text tells how peaks are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct PinnedStats {
    /// Blocks that were obtained, cached ones too.
    pub allocations: Stat,
    /// Their bytes.
    pub allocated_bytes: Stat,
    /// Blocks handed out, or waiting for streams after their free.
    pub active_requests: Stat,
    /// Their bytes.
    pub active_bytes: Stat,
    /// Of the calls that obtained memory.
    pub allocate_times: CallTimes,
    /// Of the calls that gave it back.
    pub free_times: CallTimes,
}
