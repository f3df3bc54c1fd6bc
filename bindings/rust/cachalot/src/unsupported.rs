// SPDX-License-Identifier: MIT OR Apache-2.0
//! What PyTorch has and this version of the library does not: every function checks its arguments,
//! changes nothing and answers `NotSupported`.

use crate::allocator::Allocator;
use crate::error::Result;
use crate::sys;
use crate::types::{Address, Stream};

impl Allocator {
    /// What another process needs to open a block, and where in it the block lies. Stands for
    /// `cachalot_share`.
    ///
    /// # Errors
    /// `NotSupported`; `InvalidArgument` for an address that is no live block.
    pub fn share(&self, address: Address) -> Result<(Vec<u8>, u64)> {
        let mut buffer = vec![0u8; 256];
        loop {
            let (mut size, mut offset) = (0, 0);
            // SAFETY: the allocator is live, and the buffer has room for as many bytes as it is told.
            self.call(|raw, error| unsafe {
                let (bytes, room) = (buffer.as_mut_ptr().cast(), buffer.len());
                sys::cachalot_share(raw, address, bytes, room, &mut size, &mut offset, error)
            })?;
            if size <= buffer.len() {
                buffer.truncate(size);
                return Ok((buffer, offset));
            }
            buffer.resize(size, 0);
        }
    }

    /// Opens memory that another process shares. Stands for `cachalot_open_shared`.
    ///
    /// # Errors
    /// `NotSupported`.
    pub fn open_shared(&self, device: i32, shared: &[u8]) -> Result<Address> {
        let mut address = 0;
        // SAFETY: the allocator is live, and the bytes live until the call returns.
        self.call(|raw, error| unsafe {
            let bytes = shared.as_ptr().cast();
            sys::cachalot_open_shared(raw, device, bytes, shared.len(), &mut address, error)
        })?;
        Ok(address)
    }

    /// Copies between devices on a stream: from and to an address of a device each, `size` bytes.
    /// Stands for `cachalot_copy`.
    ///
    /// # Errors
    /// `NotSupported`.
    pub fn copy(
        &self,
        (to, to_device): (Address, i32),
        (from, from_device): (Address, i32),
        size: u64,
        stream: impl Into<Stream>,
    ) -> Result<()> {
        let stream = stream.into();
        // SAFETY: the allocator is live; addresses are numbers to it.
        self.call(|raw, error| unsafe {
            sys::cachalot_copy(raw, to, to_device, from, from_device, size, stream.0, error)
        })
    }
}
