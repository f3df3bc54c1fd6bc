// SPDX-License-Identifier: MIT OR Apache-2.0
//! Observers: closures that see what happens.
//!
//! Closures run on the thread of the call that they see, maybe on several threads at the same time.
//! A panic ends at the boundary: it has been printed by then, and the library goes on.

use std::ffi::c_void;
use std::fmt;

use crate::allocator::Allocator;
use crate::callback::{self, drop_box};
use crate::error::{OutOfMemory, Result};
use crate::ffi;
use crate::history::TraceEntry;
use crate::sys;
use crate::types::Stream;

/// A closure that is attached to an allocator; detached when this is dropped. Keeps the allocator
/// alive.
#[must_use = "the closure is detached when this is dropped"]
pub struct Observer {
    /// `None` once it has been given up.
    allocator: Option<Allocator>,
    id: u64,
}

impl Observer {
    /// Detaches the closure, as dropping does, and tells what came of it. Stands for
    /// `cachalot_detach`.
    ///
    /// # Errors
    /// `InvalidState` from within a callback under a lock: then it is detached right after.
    pub fn detach(mut self) -> Result<()> {
        match self.allocator.take() {
            Some(allocator) if callback::is_locked() => {
                let id = self.id;
                callback::defer(move || drop(detach(&allocator, id)));
                Ok(())
            }
            Some(allocator) => detach(&allocator, self.id),
            None => Ok(()),
        }
    }

    /// Leaves the closure attached as long as the allocator lives.
    pub fn keep(mut self) {
        self.allocator = None;
    }
}

fn detach(allocator: &Allocator, id: u64) -> Result<()> {
    // SAFETY: the allocator is live; any number may be given.
    allocator.call(|raw, error| unsafe { sys::cachalot_detach(raw, id, error) })
}

impl Drop for Observer {
    fn drop(&mut self) {
        let Some(allocator) = self.allocator.take() else { return };
        let _ = Self { allocator: Some(allocator), id: self.id }.detach();
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Observer({})", self.id)
    }
}

/// A request that was refused before the driver was asked, in bytes. Stands for
/// `cachalot_rejection`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Rejection {
    /// Of which device.
    pub device: i32,
    /// The segment that would have been asked for.
    pub segment_size: u64,
    /// What was reserved before.
    pub reserved: u64,
    /// What the device has.
    pub device_total: u64,
}

type Attach<C> = unsafe extern "C" fn(
    *mut sys::cachalot_allocator,
    C,
    *mut c_void,
    Option<unsafe extern "C" fn(*mut c_void)>,
    *mut u64,
    *mut sys::cachalot_error,
) -> sys::cachalot_status;

impl Allocator {
    /// Sees each event of all devices as it happens, recorded or not. Stands for
    /// `cachalot_observe_trace`.
    ///
    /// The closure runs under a lock: it must not call the allocator, which answers `InvalidState`
    /// there. Blocks may be dropped in it: they are freed when the call that it saw returns.
    ///
    /// # Errors
    /// `InvalidState` from within a callback under a lock; `NotSupported` under
    /// `backend:cudaMallocAsync`.
    pub fn observe_trace<F>(&self, observer: F) -> Result<Observer>
    where
        F: Fn(&TraceEntry) + Send + Sync + 'static,
    {
        unsafe extern "C" fn see<F: Fn(&TraceEntry)>(
            user_data: *mut c_void,
            entry: *const sys::cachalot_trace_entry,
        ) {
            // SAFETY: the library gives back the box, and an entry that lives as long as this call.
            let (observer, entry) =
                unsafe { (callback::user::<F>(user_data), TraceEntry::of_c(&*entry)) };
            callback::run_locked(|| observer(&entry));
        }
        self.attach(sys::cachalot_observe_trace, Some(see::<F>), observer)
    }

    /// Sees each out-of-memory error before the caller gets it. No lock is held: the closure may call
    /// anything. Stands for `cachalot_observe_out_of_memory`.
    ///
    /// # Errors
    /// As [`Allocator::observe_trace`].
    pub fn observe_out_of_memory<F>(&self, observer: F) -> Result<Observer>
    where
        F: Fn(&OutOfMemory) + Send + Sync + 'static,
    {
        unsafe extern "C" fn see<F: Fn(&OutOfMemory)>(
            user_data: *mut c_void,
            numbers: *const sys::cachalot_out_of_memory,
        ) {
            // SAFETY: the library gives back the box, and numbers that live as long as this call.
            let (observer, numbers) = unsafe { (callback::user::<F>(user_data), &*numbers) };
            let numbers = OutOfMemory {
                message: String::new(),
                device: numbers.device,
                stream: Stream(numbers.stream),
                requested: numbers.requested,
                segment_size: numbers.segment_size,
                device_free: numbers.device_free,
                device_total: numbers.device_total,
                limit: ffi::some_if_set(numbers.limit),
                allocated: numbers.allocated,
                reserved: numbers.reserved,
                private_pools_free: numbers.private_pools_free,
                largest_free_block: numbers.largest_free_block,
            };
            callback::run(|| observer(&numbers));
        }
        self.attach(sys::cachalot_observe_out_of_memory, Some(see::<F>), observer)
    }

    /// Sees each rejection before the caller gets it. No lock is held: the closure may call anything.
    /// Stands for `cachalot_observe_rejection`.
    ///
    /// # Errors
    /// As [`Allocator::observe_trace`].
    pub fn observe_rejection<F>(&self, observer: F) -> Result<Observer>
    where
        F: Fn(&Rejection) + Send + Sync + 'static,
    {
        unsafe extern "C" fn see<F: Fn(&Rejection)>(
            user_data: *mut c_void,
            numbers: *const sys::cachalot_rejection,
        ) {
            // SAFETY: the library gives back the box, and numbers that live as long as this call.
            let (observer, numbers) = unsafe { (callback::user::<F>(user_data), &*numbers) };
            let rejection = Rejection {
                device: numbers.device,
                segment_size: numbers.segment_size,
                reserved: numbers.reserved,
                device_total: numbers.device_total,
            };
            callback::run(|| observer(&rejection));
        }
        self.attach(sys::cachalot_observe_rejection, Some(see::<F>), observer)
    }

    /// Is asked to free memory when a request finds no cached block, before anything else is tried:
    /// gets the device and the size in bytes, and answers whether it freed something; then the cache
    /// is searched again. No lock is held: it may drop blocks and call anything. A request of its own
    /// that finds no block calls it again. Stands for `cachalot_register_free_memory_callback`.
    ///
    /// # Errors
    /// As [`Allocator::observe_trace`].
    pub fn on_free_memory<F>(&self, callback: F) -> Result<Observer>
    where
        F: Fn(i32, u64) -> bool + Send + Sync + 'static,
    {
        unsafe extern "C" fn ask<F: Fn(i32, u64) -> bool>(
            user_data: *mut c_void,
            device: i32,
            size: u64,
        ) -> i32 {
            // SAFETY: the library gives back the box.
            let callback = unsafe { callback::user::<F>(user_data) };
            callback::run(|| callback(device, size)).unwrap_or(false).into()
        }
        self.attach(sys::cachalot_register_free_memory_callback, Some(ask::<F>), callback)
    }

    fn attach<C, F>(&self, attach: Attach<C>, callback: C, closure: F) -> Result<Observer> {
        let mut id = 0;
        // SAFETY: the allocator is live. The box belongs to the library from here on, which destroys
        // it once, also if the call fails; the callback casts it to what it is.
        self.call(|raw, error| unsafe {
            let user_data = Box::into_raw(Box::new(closure)).cast::<c_void>();
            attach(raw, callback, user_data, Some(drop_box::<F>), &mut id, error)
        })?;
        Ok(Observer { allocator: Some(self.clone()), id })
    }
}
