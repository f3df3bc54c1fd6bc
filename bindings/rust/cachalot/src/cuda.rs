// SPDX-License-Identifier: MIT OR Apache-2.0
//! Device slices of the crate `cudarc` in memory of an allocator.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, RangeBounds};
use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{
    CudaSlice, CudaStream, CudaViewMut, DevicePtr, DevicePtrMut, DeviceRepr, DeviceSlice,
    DriverError, HostSlice, SyncOnDrop, ValidAsZeroBits,
};

use crate::allocator::Allocator;
use crate::block::Block;
use crate::error::{self, Error, Result};
use crate::pinned::PinnedBlock;
use crate::types::Stream;

pub use cudarc;

/// The stream of `cudarc` as an allocator knows it.
pub fn stream_of(stream: &CudaStream) -> Stream {
    Stream(stream.cu_stream() as usize as u64)
}

fn of_cudarc(error: DriverError) -> Error {
    let (code, message) = (error.0 as i32, format!("CUDA driver error: {error:?}"));
    Error::Driver(Box::new(error::DriverError { code, message }))
}

/// A device slice in a block of an allocator. It dereferences to a [`CudaSlice`], so it can be read,
/// copied from and passed to kernels as one; for writing it is a [`DevicePtrMut`] itself, and
/// [`CudaBlock::as_view_mut`] is what a kernel's argument takes. When it is dropped the block goes back
/// to the allocator; `cudarc` never frees it.
///
/// Work of other streams that `cudarc` knows of (it keeps events of a slice's last read and write) is
/// waited for by the slice's own stream before the block is used again; without that
/// (`disable_event_tracking`) record such streams: `block().record_stream(stream_of(&other))`.
pub struct CudaBlock<T> {
    slice: ManuallyDrop<CudaSlice<T>>,
    block: Block,
}

impl<T> CudaBlock<T> {
    /// Memory for `len` elements, with what lies there.
    ///
    /// # Errors
    /// `InvalidArgument` for memory that the `cuda` driver did not give: of another driver, or of a
    /// pool with a source of its own; `OutOfMemory`; `Driver`.
    ///
    /// # Safety
    /// The elements are not read before they have been written.
    pub unsafe fn uninit(
        allocator: &Allocator,
        stream: &Arc<CudaStream>,
        len: usize,
    ) -> Result<Self>
    where
        T: DeviceRepr,
    {
        if allocator.driver().name() != "cuda" {
            return Err(Error::argument("only blocks of the cuda driver are device slices"));
        }
        let device = i32::try_from(stream.context().ordinal())
            .map_err(|_| Error::argument("there is no such device"))?;
        // A product that does not fit asks for more than any device has, and fails as that does.
        let size = len.checked_mul(size_of::<T>()).map_or(u64::MAX, |size| size as u64);
        // An empty slice has an address all the same.
        let block = allocator.allocate(size.max(1), device, stream_of(stream))?;
        if block.info()?.from_source {
            return Err(Error::argument(format!(
                "the block at {:#x} is no device slice: the source of its pool gave its memory",
                block.address()
            )));
        }
        stream.context().bind_to_thread().map_err(of_cudarc)?;
        // SAFETY: the block is memory of that device for so many elements, it lives as long as the
        // slice, and the slice is never dropped by itself.
        let slice = unsafe { stream.upgrade_device_ptr(block.address(), len) };
        Ok(Self { slice: ManuallyDrop::new(slice), block })
    }

    /// `len` elements of zero bytes.
    ///
    /// # Errors
    /// As [`CudaBlock::uninit`].
    pub fn zeros(allocator: &Allocator, stream: &Arc<CudaStream>, len: usize) -> Result<Self>
    where
        T: DeviceRepr + ValidAsZeroBits,
    {
        // SAFETY: the elements are written at once.
        let mut block = unsafe { Self::uninit(allocator, stream, len) }?;
        stream.memset_zeros(&mut block).map_err(of_cudarc)?;
        Ok(block)
    }

    /// A copy of what lies on the host.
    ///
    /// # Errors
    /// As [`CudaBlock::uninit`].
    pub fn copy_of(allocator: &Allocator, stream: &Arc<CudaStream>, host: &[T]) -> Result<Self>
    where
        T: DeviceRepr,
    {
        // SAFETY: the elements are written at once.
        let mut block = unsafe { Self::uninit(allocator, stream, host.len()) }?;
        stream.memcpy_htod(host, &mut block).map_err(of_cudarc)?;
        Ok(block)
    }

    /// The block that it lies in.
    pub fn block(&self) -> &Block {
        &self.block
    }

    /// All of it, for writing.
    pub fn as_view_mut(&mut self) -> CudaViewMut<'_, T> {
        self.slice.as_view_mut()
    }

    /// A part of it, for writing.
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> CudaViewMut<'_, T> {
        self.slice.slice_mut(range)
    }
}

impl<T> Deref for CudaBlock<T> {
    type Target = CudaSlice<T>;

    fn deref(&self) -> &CudaSlice<T> {
        &self.slice
    }
}

impl<T> DeviceSlice<T> for CudaBlock<T> {
    fn len(&self) -> usize {
        self.slice.len()
    }

    fn stream(&self) -> &Arc<CudaStream> {
        self.slice.stream()
    }
}

impl<T> DevicePtr<T> for CudaBlock<T> {
    fn device_ptr<'a>(&'a self, stream: &'a CudaStream) -> (CUdeviceptr, SyncOnDrop<'a>) {
        self.slice.device_ptr(stream)
    }
}

impl<T> DevicePtrMut<T> for CudaBlock<T> {
    fn device_ptr_mut<'a>(&'a mut self, stream: &'a CudaStream) -> (CUdeviceptr, SyncOnDrop<'a>) {
        self.slice.device_ptr_mut(stream)
    }
}

impl<T> Drop for CudaBlock<T> {
    fn drop(&mut self) {
        // SAFETY: the field is not used afterwards. Leaking lets the slice's stream wait for its last
        // read and write, and frees nothing; then the block is dropped.
        let slice = unsafe { ManuallyDrop::take(&mut self.slice) };
        let _ = slice.leak();
    }
}

impl<T> fmt::Debug for CudaBlock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CudaBlock({:#x}, {} elements)", self.block.address(), self.slice.len())
    }
}

/// A copy from or to a whole pinned block waits until its stream is done, so that the host cannot touch the
/// block too early. Of a plain slice of the block `cudarc` does not wait: [`PinnedBlock`] tells what its
/// user has to see to.
impl HostSlice<u8> for PinnedBlock {
    fn len(&self) -> usize {
        self.as_slice().len()
    }

    unsafe fn stream_synced_slice<'a>(
        &'a self,
        stream: &'a CudaStream,
    ) -> (&'a [u8], SyncOnDrop<'a>) {
        (self, SyncOnDrop::sync_stream(stream))
    }

    unsafe fn stream_synced_mut_slice<'a>(
        &'a mut self,
        stream: &'a CudaStream,
    ) -> (&'a mut [u8], SyncOnDrop<'a>) {
        (self, SyncOnDrop::sync_stream(stream))
    }
}
