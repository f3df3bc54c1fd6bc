// SPDX-License-Identifier: MIT OR Apache-2.0
//! Drivers: where an allocator gets its memory from.

use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::callback;
use crate::error::Result;
use crate::ffi;
use crate::sys;

/// A source of device memory: NVIDIA GPUs (`cuda`), ordinary memory (`host`), accounting only
/// (`sim`, see [`Sim`](crate::Sim)), or one that was made in C of the caller's own functions
/// ([`Driver::from_raw`]).
///
/// Counted: clones are the same driver, and each allocator keeps its driver alive, so drivers and
/// allocators may be dropped in any order.
#[derive(Clone)]
pub struct Driver {
    inner: Arc<Inner>,
}

struct Inner {
    raw: NonNull<sys::cachalot_driver>,
    owner: Owner,
}

/// What keeps the handle alive.
enum Owner {
    /// A reference of our own.
    Own,
    /// Another object of the library, which is kept with it.
    Borrowed(#[allow(dead_code)] Arc<dyn Send + Sync>),
}

// SAFETY: the header allows every function on a driver from any thread at any time, also destroying
// the reference.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Owner::Own = self.owner {
            // SAFETY: the reference is ours, and this is the last use of it.
            unsafe { sys::cachalot_driver_destroy(self.raw.as_ptr()) };
            callback::do_deferred();
        }
    }
}

impl Driver {
    /// Opens a driver by name. Stands for `cachalot_driver_open`.
    ///
    /// `name` is `cuda`, `host` or `sim`, each alone or with a capacity: `sim:80GiB` (a number with
    /// B, KiB, MiB, GiB or TiB). Without one `host` has 4 GiB, `sim` 80 GiB, and each device of
    /// `cuda` what it has.
    ///
    /// # Errors
    /// `InvalidArgument` for a name that is none of these, `DriverUnavailable` where the driver or
    /// the device is missing.
    pub fn open(name: &str) -> Result<Self> {
        ffi::check_library()?;
        let name = ffi::c_string(name, "the driver's name")?;
        // SAFETY: the name ends in a NUL and lives until the call returns.
        Self::make(|out, error| unsafe { sys::cachalot_driver_open(name.as_ptr(), out, error) })
    }

    /// The driver that the environment variable `CACHALOT_DRIVER` names; if it is unset `cuda` where
    /// a GPU's driver can be opened, else `host`. Stands for `cachalot_driver_open(NULL, ...)`.
    ///
    /// # Errors
    /// As [`Driver::open`].
    pub fn from_env() -> Result<Self> {
        ffi::check_library()?;
        // SAFETY: NULL is allowed for the name.
        Self::make(|out, error| unsafe { sys::cachalot_driver_open(ptr::null(), out, error) })
    }

    /// A driver over ordinary memory. Stands for `cachalot_driver_create_host`.
    ///
    /// `capacity` is in bytes a device, 0 meaning 4 GiB; `devices` 0 means 1. Memory is taken from
    /// the system when it is touched.
    ///
    /// # Errors
    /// `InvalidArgument` for a number of devices that cannot be.
    pub fn host(capacity: u64, devices: i32) -> Result<Self> {
        ffi::check_library()?;
        // SAFETY: the call takes numbers only.
        Self::make(|out, error| unsafe {
            sys::cachalot_driver_create_host(capacity, devices, out, error)
        })
    }

    pub(crate) fn make(
        function: impl FnOnce(
            *mut *mut sys::cachalot_driver,
            *mut sys::cachalot_error,
        ) -> sys::cachalot_status,
    ) -> Result<Self> {
        let mut raw = ptr::null_mut();
        ffi::call(|error| function(&mut raw, error))?;
        let raw = NonNull::new(raw).expect("a call that worked gave a driver");
        Ok(Self { inner: Arc::new(Inner { raw, owner: Owner::Own }) })
    }

    /// A driver that another object of the library keeps alive.
    pub(crate) fn borrowed(
        raw: NonNull<sys::cachalot_driver>,
        keeper: Arc<dyn Send + Sync>,
    ) -> Self {
        Self { inner: Arc::new(Inner { raw, owner: Owner::Borrowed(keeper) }) }
    }

    /// Takes over a reference that was made through the C interface: the way for a driver of the
    /// caller's own functions, which `sys::cachalot_driver_create_custom` makes.
    ///
    /// # Safety
    /// `raw` is a live driver of the library that this crate is linked to, and the caller's
    /// reference to it is given up. If it is one of the caller's own functions with `host_allocate`,
    /// that gives memory as the header asks for: the process can read and write all of its bytes until
    /// `host_free`, and nobody else uses it, since [`PinnedBlock`](crate::PinnedBlock) does.
    pub unsafe fn from_raw(raw: NonNull<sys::cachalot_driver>) -> Self {
        Self { inner: Arc::new(Inner { raw, owner: Owner::Own }) }
    }

    /// The handle, for calls of `cachalot-sys`. It lives as long as this driver or one of its
    /// allocators.
    pub fn as_raw(&self) -> *mut sys::cachalot_driver {
        self.inner.raw.as_ptr()
    }

    /// `cuda`, `host`, `sim` or `custom`; `pinned` for that of an
    /// [`Allocator::pinned_allocator`](crate::Allocator::pinned_allocator). Stands for `cachalot_driver_name`.
    pub fn name(&self) -> &'static str {
        // SAFETY: the driver is live; the text lives as long as the library.
        let name = unsafe { ffi::str_of(sys::cachalot_driver_name(self.as_raw())) };
        match name {
            std::borrow::Cow::Borrowed(name) => name,
            std::borrow::Cow::Owned(_) => "",
        }
    }

    /// How many devices it has. Stands for `cachalot_driver_device_count`.
    pub fn device_count(&self) -> i32 {
        // SAFETY: the driver is live.
        unsafe { sys::cachalot_driver_device_count(self.as_raw()) }
    }
}

impl AsRef<Driver> for Driver {
    fn as_ref(&self) -> &Driver {
        self
    }
}

/// Whether both are the same driver.
impl PartialEq for Driver {
    fn eq(&self, other: &Self) -> bool {
        self.inner.raw == other.inner.raw
    }
}

impl Eq for Driver {}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("name", &self.name())
            .field("device_count", &self.device_count())
            .finish()
    }
}
