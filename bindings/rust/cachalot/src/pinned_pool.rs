// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pools of pinned memory: what a capture into a graph sets apart for it.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr;

use crate::allocator::Allocator;
use crate::callback;
use crate::error::{Error, Result};
use crate::pool::Route;
use crate::sys;
use crate::types::PoolId;

/// A pool of pinned memory by its id. Its functions are those of the C interface, one by one, and the
/// balance of beginning, ending and releasing is the caller's; [`PinnedPool`] keeps it by itself.
///
/// The id may be that of a pool of a device ([`Allocator::new_pool_id`] gives one), which has nothing to
/// do with this one. Where pinned memory is cached as a device's
/// ([`AllocatorBuilder::pinned_config`](crate::AllocatorBuilder::pinned_config)) there are no such pools:
/// every function is `NotSupported`.
#[derive(Clone, PartialEq, Eq)]
pub struct PinnedPoolKey {
    allocator: Allocator,
    id: PoolId,
}

impl PinnedPoolKey {
    /// The allocator.
    pub fn allocator(&self) -> &Allocator {
        &self.allocator
    }

    /// The id.
    pub fn id(&self) -> PoolId {
        self.id
    }

    /// Routes requests of pinned memory to the pool from now on, as a capture into a graph does; it gets a
    /// user. Of several routings that would take a request the oldest has it. `device` is the one that
    /// [`Route::Capture`] asks. A block of the pool that streams use is not handed out again once it is
    /// freed, because the graph may use it at each launch. Stands for `cachalot_pinned_pool_begin`.
    ///
    /// # Errors
    /// `InvalidState` if the pool is being routed to already (it has one user more by then, as in
    /// PyTorch), or has been released; `InvalidArgument` for a device that the driver does not have.
    pub fn begin(&self, device: i32, route: Route) -> Result<()> {
        let route = route.into_c();
        // SAFETY: the allocator is live, and the route lives until the call returns.
        self.allocator.call(|raw, error| unsafe {
            sys::cachalot_pinned_pool_begin(raw, device, self.id.to_c(), &route, error)
        })
    }

    /// Ends the routing to the pool. Its users stay. Stands for `cachalot_pinned_pool_end`.
    ///
    /// # Errors
    /// `InvalidState` for a pool that is not routed to.
    pub fn end(&self) -> Result<()> {
        // SAFETY: the allocator is live.
        self.allocator
            .call(|raw, error| unsafe { sys::cachalot_pinned_pool_end(raw, self.id.to_c(), error) })
    }

    /// The pool has one user less. Without users its cached blocks go with the next
    /// [`Allocator::empty_pinned_cache`]. Stands for `cachalot_pinned_pool_release`.
    ///
    /// # Errors
    /// `InvalidState` for a pool without users; `InvalidArgument` where there is none with this id.
    pub fn release(&self) -> Result<()> {
        // SAFETY: the allocator is live.
        self.allocator.call(|raw, error| unsafe {
            sys::cachalot_pinned_pool_release(raw, self.id.to_c(), error)
        })
    }
}

impl fmt::Debug for PinnedPoolKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pool {} of pinned memory", self.id)
    }
}

impl Allocator {
    /// A pool of pinned memory by its id, which need not exist.
    pub fn pinned_pool(&self, id: PoolId) -> PinnedPoolKey {
        PinnedPoolKey { allocator: self.clone(), id }
    }

    /// Routes requests of pinned memory to a pool until the guard ends or is dropped.
    ///
    /// ```
    /// use cachalot::{Allocator, Driver, Route};
    ///
    /// let allocator = Allocator::builder().driver(Driver::open("host:1GiB")?).build()?;
    /// let id = allocator.new_pool_id(true)?;
    /// let capture = allocator.route_pinned(0, id, Route::ThisThread)?;
    /// let block = allocator.allocate_pinned(4096)?; // of the pool
    /// let pool = capture.end()?; // the graph has been captured, and keeps the pool
    /// drop(block);
    /// drop(pool); // the graph is gone
    /// allocator.empty_pinned_cache()?;
    /// assert_eq!(allocator.pinned_stats()?.allocations.current, 0);
    /// # Ok::<(), cachalot::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`PinnedPoolKey::begin`], without a user more.
    pub fn route_pinned(&self, device: i32, id: PoolId, route: Route) -> Result<PinnedPoolScope> {
        let key = self.pinned_pool(id);
        match key.begin(device, route) {
            Ok(()) => Ok(PinnedPoolScope { pool: PinnedPool { key } }),
            Err(error) => {
                // A beginning that is refused has made a user.
                if matches!(error, Error::InvalidState(_)) && !callback::is_locked() {
                    let _ = key.release();
                }
                Err(error)
            }
        }
    }
}

/// A user of a pool of pinned memory: one less when this is dropped ([`PinnedPoolScope::end`]).
#[must_use = "the pool is released when this is dropped"]
#[derive(Debug)]
pub struct PinnedPool {
    key: PinnedPoolKey,
}

impl Deref for PinnedPool {
    type Target = PinnedPoolKey;

    fn deref(&self) -> &PinnedPoolKey {
        &self.key
    }
}

impl Drop for PinnedPool {
    fn drop(&mut self) {
        let key = self.key.clone();
        callback::now_or_later(move || drop(key.release()));
    }
}

/// A routing to a pool of pinned memory ([`Allocator::route_pinned`]). Dropped, it ends, and the pool has
/// one user less; [`PinnedPoolScope::end`] leaves it the user. A routing of one thread is that of the
/// thread that began it, wherever the guard goes.
#[must_use = "the routing ends when this is dropped"]
#[derive(Debug)]
pub struct PinnedPoolScope {
    pool: PinnedPool,
}

impl PinnedPoolScope {
    /// Ends the routing and leaves the pool its user, the captured graph.
    ///
    /// # Errors
    /// `InvalidState` where somebody has ended it by the id; the pool is released then.
    pub fn end(self) -> Result<PinnedPool> {
        self.pool.end()?;
        let this = ManuallyDrop::new(self);
        // SAFETY: the scope is not dropped, so this is the only owner of the field.
        Ok(unsafe { ptr::read(&raw const this.pool) })
    }
}

impl Drop for PinnedPoolScope {
    fn drop(&mut self) {
        let key = self.pool.key.clone();
        callback::now_or_later(move || drop(key.end())); // Behind it the pool is released.
    }
}
