// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory between processes of one machine and one user.

use std::fmt;
use std::ptr::{self, NonNull};

use crate::allocator::Allocator;
use crate::block::Block;
use crate::callback;
use crate::error::Result;
use crate::ffi;
use crate::sys;
use crate::types::Address;

/// A block that other processes can open by its ticket. When this is dropped nobody can open it any
/// more, and the block is freed as soon as no process has it open, however those processes end. Stands
/// for `cachalot_shared_block`.
///
/// It keeps its allocator alive. An allocator that ends while another process has one of its blocks
/// open is left behind, as with any live block: look at [`SharedBlock::users`] before.
#[must_use = "the block is freed when this is dropped and nobody has it open"]
pub struct SharedBlock {
    allocator: Allocator,
    raw: NonNull<sys::cachalot_shared_block>,
    address: Address,
}

// SAFETY: the library takes the handle from any thread.
unsafe impl Send for SharedBlock {}
// SAFETY: as above.
unsafe impl Sync for SharedBlock {}

impl Block {
    /// Lets other processes open the block. Stands for `cachalot_shared_block_create`.
    ///
    /// # Errors
    /// `NotSupported` for memory that this driver, or `backend:cudaMallocAsync`, cannot share;
    /// `InvalidState`, `Driver`, `Io`. The block is dropped then.
    pub fn into_shared(self) -> Result<SharedBlock> {
        let (address, mut raw) = (self.address(), ptr::null_mut());
        // SAFETY: the allocator and the block are live, and the pointer is that of a local.
        self.allocator().call(|allocator, error| unsafe {
            sys::cachalot_shared_block_create(allocator, address, &mut raw, error)
        })?;
        let (allocator, address) = self.into_parts(); // It is the shared block's now.
        let raw = NonNull::new(raw).expect("a call that works gives a handle");
        Ok(SharedBlock { allocator, raw, address })
    }
}

impl SharedBlock {
    /// The allocator.
    pub fn allocator(&self) -> &Allocator {
        &self.allocator
    }

    /// The block's first byte in this process.
    pub fn address(&self) -> Address {
        self.address
    }

    /// The text by which other processes of this user open the block: a secret. Stands for
    /// `cachalot_shared_block_ticket`.
    ///
    /// # Errors
    /// None of a live block.
    pub fn ticket(&self) -> Result<String> {
        ffi::text(|buffer, room, length| {
            // SAFETY: the handle is live, and the buffer has as much room as it is told.
            ffi::call(|error| unsafe {
                sys::cachalot_shared_block_ticket(self.raw.as_ptr(), buffer, room, length, error)
            })
        })
    }

    /// How often the block is open. Stands for `cachalot_shared_block_users`.
    pub fn users(&self) -> usize {
        // SAFETY: the handle is live.
        unsafe { sys::cachalot_shared_block_users(self.raw.as_ptr()) }
    }
}

impl Drop for SharedBlock {
    fn drop(&mut self) {
        let (allocator, raw) = (self.allocator.clone(), self.raw);
        callback::now_or_later(move || {
            // SAFETY: the handle is live, and not used afterwards; its allocator is live, too.
            unsafe { sys::cachalot_shared_block_destroy(raw.as_ptr()) };
            drop(allocator);
        });
    }
}

impl fmt::Debug for SharedBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedBlock({:#x}, {} users)", self.address, self.users())
    }
}

/// A block of another process, which stays there while this lives. Stands for
/// `cachalot_opened_block`. It keeps its allocator alive.
#[must_use = "the block is closed when this is dropped"]
pub struct OpenedBlock {
    allocator: Allocator,
    raw: NonNull<sys::cachalot_opened_block>,
    address: Address,
    size: u64,
}

// SAFETY: the library takes the handle from any thread.
unsafe impl Send for OpenedBlock {}
// SAFETY: as above.
unsafe impl Sync for OpenedBlock {}

impl Allocator {
    /// Opens a block that another process shares, on one of this allocator's devices. Stands for
    /// `cachalot_opened_block_create`.
    ///
    /// # Errors
    /// `InvalidArgument` for a text that is no ticket; `InvalidState` where the block or its process is
    /// gone; `Driver`, `NotSupported`, `Io`.
    pub fn open_block(&self, device: i32, ticket: &str) -> Result<OpenedBlock> {
        let ticket = ffi::c_string(ticket, "the ticket")?;
        let mut raw = ptr::null_mut();
        // SAFETY: the allocator is live, and the text lives until the call returns.
        self.call(|allocator, error| unsafe {
            sys::cachalot_opened_block_create(allocator, device, ticket.as_ptr(), &mut raw, error)
        })?;
        let raw = NonNull::new(raw).expect("a call that works gives a handle");
        let mut opened = OpenedBlock { allocator: self.clone(), raw, address: 0, size: 0 };
        let (mut address, mut size) = (0, 0);
        // SAFETY: the handle is live, and the pointers are those of locals.
        ffi::call(|error| unsafe {
            sys::cachalot_opened_block_address(raw.as_ptr(), &mut address, &mut size, error)
        })?;
        (opened.address, opened.size) = (address, size);
        Ok(opened)
    }
}

impl OpenedBlock {
    /// The allocator.
    pub fn allocator(&self) -> &Allocator {
        &self.allocator
    }

    /// The block's first byte in this process. Stands for `cachalot_opened_block_address`.
    pub fn address(&self) -> Address {
        self.address
    }

    /// Bytes, as they were requested where the block is from.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether the process that shares it is still there. Stands for
    /// `cachalot_opened_block_has_sharer`.
    pub fn has_sharer(&self) -> bool {
        // SAFETY: the handle is live.
        unsafe { sys::cachalot_opened_block_has_sharer(self.raw.as_ptr()) != 0 }
    }
}

impl Drop for OpenedBlock {
    fn drop(&mut self) {
        let (allocator, raw) = (self.allocator.clone(), self.raw);
        callback::now_or_later(move || {
            // SAFETY: the handle is live, and not used afterwards; its allocator is live, too.
            unsafe { sys::cachalot_opened_block_destroy(raw.as_ptr()) };
            drop(allocator);
        });
    }
}

impl fmt::Debug for OpenedBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenedBlock({:#x}, {} bytes)", self.address, self.size)
    }
}

/// What another process needs to open the memory under a block, in PyTorch's bytes. It says nothing of
/// lifetimes: the process that shares the block keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SharedHandle {
    /// The bytes of PyTorch's `shareIpcHandle`.
    pub bytes: Vec<u8>,
    /// Where in that memory the block begins.
    pub offset: u64,
}

/// Memory that was opened by a [`SharedHandle`]; closed when it is dropped. It keeps its allocator
/// alive. The work on a plain segment has to be done by then, as in PyTorch.
#[must_use = "the memory is closed when this is dropped"]
pub struct OpenedMemory {
    allocator: Allocator,
    memory: Address,
    offset: u64,
}

impl Allocator {
    /// What another process, also one of PyTorch's, needs to open the memory under a block. Stands for
    /// `cachalot_share`.
    ///
    /// # Errors
    /// `InvalidArgument` for an address that is no live block; `NotSupported` for memory that cannot
    /// be shared; `InvalidState`, `Driver`.
    pub fn share(&self, address: Address) -> Result<SharedHandle> {
        let mut bytes = vec![0u8; 256];
        loop {
            let (mut size, mut offset) = (0, 0);
            // SAFETY: the allocator is live, and the buffer has room for as many bytes as it is told.
            self.call(|raw, error| unsafe {
                let (buffer, room) = (bytes.as_mut_ptr().cast(), bytes.len());
                sys::cachalot_share(raw, address, buffer, room, &mut size, &mut offset, error)
            })?;
            if size <= bytes.len() {
                bytes.truncate(size);
                return Ok(SharedHandle { bytes, offset });
            }
            bytes.resize(size, 0);
        }
    }

    /// Opens memory that another process shares. Stands for `cachalot_open_shared`.
    ///
    /// # Errors
    /// `InvalidArgument` for bytes that are no handle; `InvalidState` where the process is gone or may
    /// not be asked; `Driver` where the memory is; `NotSupported`.
    pub fn open_shared(&self, device: i32, shared: &SharedHandle) -> Result<OpenedMemory> {
        let mut memory = 0;
        // SAFETY: the allocator is live, and the bytes live until the call returns.
        self.call(|raw, error| unsafe {
            let (bytes, size) = (shared.bytes.as_ptr().cast(), shared.bytes.len());
            sys::cachalot_open_shared(raw, device, bytes, size, &mut memory, error)
        })?;
        Ok(OpenedMemory { allocator: self.clone(), memory, offset: shared.offset })
    }
}

impl OpenedMemory {
    /// The allocator.
    pub fn allocator(&self) -> &Allocator {
        &self.allocator
    }

    /// The block's first byte in this process.
    pub fn address(&self) -> Address {
        self.memory + self.offset
    }

    /// The first byte of the memory under it.
    pub fn memory(&self) -> Address {
        self.memory
    }
}

impl Drop for OpenedMemory {
    /// Stands for `cachalot_close_shared`.
    fn drop(&mut self) {
        let (allocator, memory) = (self.allocator.clone(), self.memory);
        callback::now_or_later(move || {
            // SAFETY: the allocator is live, and the memory is not used afterwards.
            let _ = allocator
                .call(|raw, error| unsafe { sys::cachalot_close_shared(raw, memory, error) });
        });
    }
}

impl fmt::Debug for OpenedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenedMemory({:#x} + {})", self.memory, self.offset)
    }
}
