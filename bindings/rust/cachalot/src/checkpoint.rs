// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checkpoints of private pools.

use std::ptr;

use crate::allocator::Allocator;
use crate::error::Result;
use crate::ffi;
use crate::pool::PoolKey;
use crate::sys;
use crate::types::{Address, PoolId, Stream};

/// One block of a checkpoint. Stands for `cachalot_checkpoint_row`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CheckpointBlock {
    /// Its first byte.
    pub address: Address,
    /// Its bytes.
    pub size: u64,
    /// The stream that the memory of its segment was obtained for.
    pub stream: Stream,
    /// Whether it is handed out.
    pub is_used: bool,
    /// `false`: addresses at the end of an expandable segment that have no pages. They are not put
    /// back.
    pub is_mapped: bool,
}

/// The blocks of a private pool at one moment, to be put back later. Stands for
/// `cachalot_checkpoint`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Checkpoint {
    /// The pool that it was taken of.
    pub pool: PoolId,
    /// All blocks of each segment, by address. Segments are put back in this order.
    pub segments: Vec<Vec<CheckpointBlock>>,
}

/// What putting a pool back has done. Stands for `cachalot_checkpoint_changes`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckpointChanges {
    /// The blocks that were handed out before, in the order of their frees.
    pub freed: Vec<Address>,
    /// The blocks that are handed out now, each like a leaked one, also where its memory was free before
    /// the restore: [`Allocator::adopt`] and [`Allocator::free`] take each block once.
    pub created: Vec<Address>,
}

impl PoolKey {
    /// Takes a checkpoint. Stands for `cachalot_checkpoint_take`.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown pool; `InvalidState` while a freed block of the pool waits for a
    /// stream; `NotSupported` under `backend:cudaMallocAsync`.
    pub fn checkpoint(&self) -> Result<Checkpoint> {
        let (device, id) = (self.device(), self.id().to_c());
        let mut raw = ptr::null_mut();
        // SAFETY: the allocator is live, and the pointer is that of a local.
        self.allocator().call(|allocator, error| unsafe {
            sys::cachalot_checkpoint_take(allocator, device, id, &mut raw, error)
        })?;
        Taken(raw).read()
    }
}

impl Allocator {
    /// Puts a private pool back: all its blocks are freed, and those of the checkpoint are handed out
    /// again, at their addresses. Stands for `cachalot_checkpoint_apply`.
    ///
    /// # Safety
    /// Blocks of the pool are freed whoever has them. Each [`Block`](crate::Block) of the pool has to be
    /// given up with [`Block::leak`](crate::Block::leak) before. No other thread gives one up, takes one
    /// back or asks for one while the call runs. Nobody may read or write through an address of the pool
    /// that is not among those created.
    ///
    /// # Errors
    /// `InvalidState` where the pool has no user, a segment is gone or has another shape, or a block in the
    /// way waits for a stream; `InvalidArgument` for blocks that are no segment of the pool;
    /// `NotSupported` under the serving policy, with red zones, and under `backend:cudaMallocAsync`.
    /// Nothing has changed then.
    pub unsafe fn apply_checkpoint(
        &self,
        device: i32,
        checkpoint: &Checkpoint,
    ) -> Result<CheckpointChanges> {
        let given = Taken::of(checkpoint)?;
        let mut changes = ptr::null_mut();
        // SAFETY: allocator and checkpoint are live, and the pointer is that of a local.
        self.call(|raw, error| unsafe {
            sys::cachalot_checkpoint_apply(raw, device, given.0, &mut changes, error)
        })?;
        let changes = Changes(changes);
        // SAFETY: the changes are live.
        let (freed, created) = unsafe {
            (
                sys::cachalot_checkpoint_freed_count(changes.0),
                sys::cachalot_checkpoint_created_count(changes.0),
            )
        };
        let changes = CheckpointChanges {
            freed: changes.read(sys::cachalot_checkpoint_freed_at, freed)?,
            created: changes.read(sys::cachalot_checkpoint_created_at, created)?,
        };
        self.note_restored(&changes);
        Ok(changes)
    }
}

/// A checkpoint of the C interface. Owns it.
struct Taken(*mut sys::cachalot_checkpoint);

impl Taken {
    fn of(checkpoint: &Checkpoint) -> Result<Self> {
        let mut raw = ptr::null_mut();
        // SAFETY: the pointer is that of a local.
        ffi::call(|error| unsafe {
            sys::cachalot_checkpoint_create(checkpoint.pool.to_c(), &mut raw, error)
        })?;
        let made = Self(raw);
        for (segment, blocks) in checkpoint.segments.iter().enumerate() {
            for block in blocks {
                let row = sys::cachalot_checkpoint_row {
                    address: block.address,
                    size: block.size,
                    stream: block.stream.0,
                    segment,
                    is_used: block.is_used.into(),
                    is_mapped: block.is_mapped.into(),
                    ..ffi::sized()
                };
                // SAFETY: the checkpoint is live, and the row is a local of the size that it says.
                ffi::call(|error| unsafe { sys::cachalot_checkpoint_add(made.0, &row, error) })?;
            }
        }
        Ok(made)
    }

    fn read(&self) -> Result<Checkpoint> {
        let mut id = PoolId::default().to_c();
        // SAFETY: the checkpoint is live, and the pointer is that of a local.
        ffi::check(unsafe { sys::cachalot_checkpoint_pool(self.0, &mut id) })?;
        let mut checkpoint = Checkpoint { pool: PoolId::of_c(id), segments: Vec::new() };
        // SAFETY: the checkpoint is live.
        for index in 0..unsafe { sys::cachalot_checkpoint_row_count(self.0) } {
            let mut row = ffi::sized::<sys::cachalot_checkpoint_row>();
            // SAFETY: the checkpoint is live, and the row is a local of the size that it says.
            ffi::check(unsafe { sys::cachalot_checkpoint_row_at(self.0, index, &mut row) })?;
            if row.segment == checkpoint.segments.len() {
                checkpoint.segments.push(Vec::new());
            }
            checkpoint.segments[row.segment].push(CheckpointBlock {
                address: row.address,
                size: row.size,
                stream: Stream(row.stream),
                is_used: row.is_used != 0,
                is_mapped: row.is_mapped != 0,
            });
        }
        Ok(checkpoint)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        // SAFETY: it is ours, and this is its end.
        unsafe { sys::cachalot_checkpoint_destroy(self.0) }
    }
}

/// The changes of the C interface. Owns them.
struct Changes(*mut sys::cachalot_checkpoint_changes);

impl Changes {
    fn read(
        &self,
        at: unsafe extern "C" fn(
            *const sys::cachalot_checkpoint_changes,
            usize,
            *mut sys::cachalot_address,
        ) -> sys::cachalot_status,
        count: usize,
    ) -> Result<Vec<Address>> {
        (0..count)
            .map(|index| {
                let mut address = 0;
                // SAFETY: the changes are live, and the pointer is that of a local.
                ffi::check(unsafe { at(self.0, index, &mut address) })?;
                Ok(address)
            })
            .collect()
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        // SAFETY: they are ours, and this is their end.
        unsafe { sys::cachalot_checkpoint_changes_destroy(self.0) }
    }
}
