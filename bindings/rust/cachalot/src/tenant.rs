// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tenants: several users (models of a server, say) of one allocator, each with memory that the
//! others cannot take, a limit, and a closure that is asked to give memory back.

use std::cell::RefCell;
use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use crate::allocator::Allocator;
use crate::block::Block;
use crate::callback::{self, drop_box};
use crate::error::{Error, Result};
use crate::ffi;
use crate::scope::Scopes;
use crate::stats::Stat;
use crate::sys;
use crate::types::Stream;

/// Why a tenant is asked to give memory back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PressureReason {
    /// The tenant's own request is beyond its limit.
    Limit,
    /// What others are guaranteed would not be left.
    Guarantee,
    /// The device has no memory left.
    Device,
    /// A reason of a newer library, by its number.
    Other(i32),
}

/// What a tenant's closure is asked. Stands for `cachalot_pressure`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pressure {
    /// Why it is asked.
    pub reason: PressureReason,
    /// On which device.
    pub device: i32,
    /// How many bytes would make room, as far as is known.
    pub missing_bytes: u64,
    /// What the tenant that is asked has.
    pub allocated_bytes: u64,
    /// What it is guaranteed.
    pub guaranteed_bytes: u64,
    /// For whom: the id of the tenant; 0: the default one.
    pub requester: u64,
    /// Its name.
    pub requester_name: String,
    /// Its priority.
    pub requester_priority: i32,
    /// Whether the request is within that tenant's guarantee.
    pub is_guaranteed: bool,
}

/// How a tenant is made. Stands for `cachalot_tenant_options`.
#[derive(Default)]
#[must_use]
pub struct TenantOptions {
    name: String,
    guaranteed_bytes: u64,
    limit_bytes: Option<u64>,
    priority: i32,
    pressure: Option<Box<PressureFn>>,
}

type PressureFn = dyn Fn(&Pressure) -> u64 + Send + Sync;

impl TenantOptions {
    /// A tenant with this name, for messages and statistics; less than 64 bytes. Two tenants may have
    /// the same. `""`: "tenant N".
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// What it can have at any time, in bytes on each device.
    pub fn guaranteed_bytes(mut self, bytes: u64) -> Self {
        self.guaranteed_bytes = bytes;
        self
    }

    /// What it can have at most, in bytes on each device; not below the guarantee.
    pub fn limit_bytes(mut self, bytes: u64) -> Self {
        self.limit_bytes = Some(bytes);
        self
    }

    /// Tenants of lower priority give first.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Is asked to free memory of the tenant's own, on the thread of the request that needs it, with
    /// no lock held, maybe on several threads at the same time. It answers the bytes that it freed; 0:
    /// none, and it is not asked again for that request. A panic counts as 0.
    ///
    /// It may drop blocks, allocate (such a request asks nobody), read statistics, change, make and
    /// drop other tenants. It must not wait for a thread that waits for memory.
    pub fn on_pressure(
        mut self,
        pressure: impl Fn(&Pressure) -> u64 + Send + Sync + 'static,
    ) -> Self {
        self.pressure = Some(Box::new(pressure));
        self
    }
}

/// What one tenant has on one device. Stands for `cachalot_tenant_stats`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct TenantStats {
    /// Ascending in the order of creation, never used again; 0: the default tenant.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// The device.
    pub device: i32,
    /// Its priority.
    pub priority: i32,
    /// What it is guaranteed there.
    pub guaranteed_bytes: u64,
    /// What it can have at most there.
    pub limit_bytes: Option<u64>,
    /// Blocks that it has.
    pub allocation: Stat,
    /// Their bytes.
    pub allocated_bytes: Stat,
    /// What was requested of them.
    pub requested_bytes: Stat,
    /// Its requests that ended as out of memory.
    pub num_ooms: i64,
    /// How often its closure was called.
    pub num_pressure_calls: i64,
    /// By how many bytes what it has sank meanwhile.
    pub pressure_freed_bytes: i64,
    /// Bytes of its blocks whose pools sleep, which the figures above leave out.
    pub asleep_bytes: u64,
}

impl TenantStats {
    fn of_c(stats: &sys::cachalot_tenant_stats) -> Self {
        Self {
            id: stats.id,
            // SAFETY: the name is an array that ends in a NUL.
            name: unsafe { ffi::string_of(stats.name.as_ptr()) },
            device: stats.device,
            priority: stats.priority,
            guaranteed_bytes: stats.guaranteed_bytes,
            limit_bytes: ffi::some_if_set(stats.limit_bytes),
            allocation: Stat::of_c(&stats.allocation),
            allocated_bytes: Stat::of_c(&stats.allocated_bytes),
            requested_bytes: Stat::of_c(&stats.requested_bytes),
            num_ooms: stats.num_ooms,
            num_pressure_calls: stats.num_pressure_calls,
            pressure_freed_bytes: stats.pressure_freed_bytes,
            asleep_bytes: stats.asleep_bytes,
        }
    }
}

/// A tenant of an allocator. Clones are the same tenant, which ends with the last of them.
///
/// The library keeps a tenant that has live blocks. Dropping the last clone earlier is fine: the
/// tenant ends with the allocator then, or when another tenant of it is made or dropped and it has no
/// blocks left.
#[derive(Clone)]
pub struct Tenant {
    inner: Arc<Inner>,
}

struct Inner {
    raw: NonNull<sys::cachalot_tenant>,
    allocator: Allocator,
}

// SAFETY: the header allows all functions on a tenant from any thread; destroying happens when no
// other owner is left.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

/// A handle that nobody else has.
struct Orphan(NonNull<sys::cachalot_tenant>);

// SAFETY: as for `Inner`.
unsafe impl Send for Orphan {}

/// The tenants of an allocator whose last owner is gone and which had live blocks by then.
#[derive(Default)]
pub(crate) struct Orphans(Mutex<Vec<Orphan>>);

impl Orphans {
    fn add(&self, orphan: Orphan) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(orphan);
    }

    /// Ends those that can end by now; all of them once the allocator has ended.
    pub(crate) fn end(&self) {
        let orphans = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for orphan in orphans {
            if destroy(orphan.0).is_err() {
                self.add(orphan);
            }
        }
    }
}

fn destroy(raw: NonNull<sys::cachalot_tenant>) -> Result<()> {
    // SAFETY: the caller is the last owner; if this works the handle is not used again.
    ffi::call(|error| unsafe { sys::cachalot_tenant_destroy(raw.as_ptr(), error) })
}

impl Drop for Inner {
    fn drop(&mut self) {
        let orphan = Orphan(self.raw);
        if callback::is_locked() {
            let allocator = self.allocator.clone();
            return callback::defer(move || end(&allocator, orphan));
        }
        end(&self.allocator, orphan);
    }
}

fn end(allocator: &Allocator, orphan: Orphan) {
    if destroy(orphan.0).is_err() {
        allocator.inner.kept.orphans.add(orphan);
    } else {
        allocator.inner.kept.orphans.end();
    }
}

thread_local! {
    static TENANTS: RefCell<Scopes<Tenant>> = const { RefCell::new(Scopes::new()) };
}

unsafe extern "C" fn ask(user_data: *mut c_void, pressure: *const sys::cachalot_pressure) -> u64 {
    // SAFETY: the library gives back the box, and a record that lives as long as this call.
    let (closure, pressure) = unsafe { (callback::user::<Box<PressureFn>>(user_data), &*pressure) };
    let pressure = Pressure {
        reason: match pressure.reason {
            sys::CACHALOT_PRESSURE_LIMIT => PressureReason::Limit,
            sys::CACHALOT_PRESSURE_GUARANTEE => PressureReason::Guarantee,
            sys::CACHALOT_PRESSURE_DEVICE => PressureReason::Device,
            other => PressureReason::Other(other),
        },
        device: pressure.device,
        missing_bytes: pressure.missing_bytes,
        allocated_bytes: pressure.allocated_bytes,
        guaranteed_bytes: pressure.guaranteed_bytes,
        requester: pressure.requester,
        // SAFETY: the text lives as long as this call.
        requester_name: unsafe { ffi::string_of(pressure.requester_name) },
        requester_priority: pressure.requester_priority,
        is_guaranteed: pressure.is_guaranteed != 0,
    };
    callback::run(|| closure(&pressure)).unwrap_or(0)
}

impl Tenant {
    /// The handle, for calls of `cachalot-sys`. It lives as long as this tenant.
    pub fn as_raw(&self) -> *mut sys::cachalot_tenant {
        self.inner.raw.as_ptr()
    }

    /// Its allocator.
    pub fn allocator(&self) -> &Allocator {
        &self.inner.allocator
    }

    fn call(
        &self,
        function: impl FnOnce(*mut sys::cachalot_tenant, *mut sys::cachalot_error) -> u32,
    ) -> Result<()> {
        self.allocator().call(|_, error| function(self.as_raw(), error))
    }

    /// [`Allocator::allocate`] for this tenant. Stands for `cachalot_allocate_for`.
    ///
    /// # Errors
    /// As [`Allocator::allocate`]; `OutOfMemory` also for a refusal by the rules of tenants
    /// (`docs/serving.md`); `InvalidState` while caching is off.
    pub fn allocate(&self, size: u64, device: i32, stream: impl Into<Stream>) -> Result<Block> {
        let stream = stream.into();
        let mut address = 0;
        // SAFETY: allocator and tenant are live, and the pointer is that of a local.
        self.allocator().call(|raw, error| unsafe {
            sys::cachalot_allocate_for(
                raw,
                self.as_raw(),
                size,
                device,
                stream.0,
                &mut address,
                error,
            )
        })?;
        Ok(Block::new(self.allocator().clone(), address))
    }

    /// Makes this the tenant of all requests of the calling thread that name none, until the guard is
    /// dropped. These nest, and guards may be dropped in any order. Stands for
    /// `cachalot_tenant_begin` and `cachalot_tenant_end`.
    ///
    /// # Errors
    /// `InvalidState` from within a callback under a lock.
    pub fn enter(&self) -> Result<TenantScope> {
        // SAFETY: the tenant is live.
        self.call(|raw, error| unsafe { sys::cachalot_tenant_begin(raw, error) })?;
        let number = TENANTS.with_borrow_mut(|scopes| scopes.begin(self.clone()));
        Ok(TenantScope { number, _thread: PhantomData })
    }

    /// Guarantee and limit on a device, or on all (`None`), in bytes, for later requests. Blocks stay
    /// what they are. Stands for `cachalot_tenant_set_bytes`.
    ///
    /// # Errors
    /// As [`Allocator::create_tenant`]; all devices are changed, or none.
    pub fn set_bytes(
        &self,
        device: Option<i32>,
        guaranteed_bytes: u64,
        limit_bytes: Option<u64>,
    ) -> Result<()> {
        let device = device.unwrap_or(sys::CACHALOT_ALL_DEVICES);
        let limit = limit_bytes.unwrap_or(0);
        // SAFETY: the tenant is live.
        self.call(|raw, error| unsafe {
            sys::cachalot_tenant_set_bytes(raw, device, guaranteed_bytes, limit, error)
        })
    }

    /// Changes the priority, for later requests. Stands for `cachalot_tenant_set_priority`.
    ///
    /// # Errors
    /// `InvalidState` from within a callback under a lock.
    pub fn set_priority(&self, priority: i32) -> Result<()> {
        // SAFETY: the tenant is live.
        self.call(|raw, error| unsafe { sys::cachalot_tenant_set_priority(raw, priority, error) })
    }

    /// What it has on a device, with its guarantee, limit and priority. Stands for
    /// `cachalot_get_tenant_stats`.
    ///
    /// # Errors
    /// `InvalidArgument` for a device that the driver does not have.
    pub fn stats(&self, device: i32) -> Result<TenantStats> {
        let mut stats = ffi::sized::<sys::cachalot_tenant_stats>();
        // SAFETY: the tenant is live, and the row is a local of the size that it says.
        self.call(|raw, error| unsafe {
            sys::cachalot_get_tenant_stats(raw, device, &mut stats, error)
        })?;
        Ok(TenantStats::of_c(&stats))
    }

    /// Ends the tenant, if this is its last clone. Stands for `cachalot_tenant_destroy`.
    ///
    /// # Errors
    /// `InvalidState` while it has clones or live blocks, while it is the tenant of a thread, or from
    /// within its own closure: then it comes back.
    pub fn close(self) -> Result<(), (Self, Error)> {
        if callback::is_locked() {
            return Err((self, Error::state("a tenant cannot end within a callback under a lock")));
        }
        let inner = match Arc::try_unwrap(self.inner) {
            Ok(inner) => std::mem::ManuallyDrop::new(inner),
            Err(inner) => {
                return Err((Self { inner }, Error::state("other owners of this tenant are left")));
            }
        };
        match destroy(inner.raw) {
            Ok(()) => {
                // SAFETY: the handle is gone, so only the other field is dropped, once.
                drop(unsafe { ptr::read(&raw const inner.allocator) });
                Ok(())
            }
            Err(error) => {
                let inner = Arc::new(std::mem::ManuallyDrop::into_inner(inner));
                Err((Self { inner }, error))
            }
        }
    }
}

impl fmt::Debug for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tenant({:p})", self.inner.raw)
    }
}

/// A thread's tenant, until this is dropped ([`Tenant::enter`]).
#[must_use = "the tenant is left when this is dropped"]
pub struct TenantScope {
    number: u64,
    /// It is the thread's.
    _thread: PhantomData<Rc<()>>,
}

impl Drop for TenantScope {
    fn drop(&mut self) {
        let number = self.number;
        let leave = move || {
            let ended =
                TENANTS.try_with(|scopes| scopes.borrow_mut().end(number)).unwrap_or_default();
            for tenant in ended {
                // SAFETY: the tenant is live.
                let _ = tenant.call(|raw, error| unsafe { sys::cachalot_tenant_end(raw, error) });
            }
        };
        callback::now_or_later(leave);
    }
}

impl fmt::Debug for TenantScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TenantScope")
    }
}

impl Allocator {
    /// Makes a tenant. From the first one on all requests are counted, which costs. Stands for
    /// `cachalot_tenant_create`.
    ///
    /// # Errors
    /// `InvalidArgument` for a limit below the guarantee, a name that is too long, or guarantees that
    /// together are more than a device's capacity; `NotSupported` under `backend:cudaMallocAsync`;
    /// `Driver` if the driver does not tell its memory.
    pub fn create_tenant(&self, options: TenantOptions) -> Result<Tenant> {
        let name = ffi::c_string(&options.name, "the tenant's name")?;
        let mut out = ffi::sized::<sys::cachalot_tenant_options>();
        out.name = name.as_ptr();
        out.guaranteed_bytes = options.guaranteed_bytes;
        out.limit_bytes = options.limit_bytes.unwrap_or(0);
        out.priority = options.priority;
        let mut raw = ptr::null_mut();
        self.call(|allocator, error| {
            if let Some(pressure) = options.pressure {
                out.pressure = Some(ask);
                // The library destroys the box once, also if the call fails.
                out.pressure_destroy = Some(drop_box::<Box<PressureFn>>);
                out.pressure_user_data = Box::into_raw(Box::new(pressure)).cast();
            }
            // SAFETY: the allocator is live, and all pointers live until the call returns.
            unsafe { sys::cachalot_tenant_create(allocator, &out, &mut raw, error) }
        })?;
        self.inner.kept.orphans.end();
        let raw = NonNull::new(raw).expect("a call that worked gave a tenant");
        Ok(Tenant { inner: Arc::new(Inner { raw, allocator: self.clone() }) })
    }

    /// All tenants on a device: the default one, then the others in the order of their creation;
    /// empty before the first was made. Stands for `cachalot_tenant_count` and
    /// `cachalot_tenant_stats_at`.
    ///
    /// # Errors
    /// `InvalidArgument` for a device that the driver does not have.
    pub fn tenant_stats(&self, device: i32) -> Result<Vec<TenantStats>> {
        let mut count = 0;
        // SAFETY: the allocator is live, and the pointer is that of a local.
        self.call(|raw, error| unsafe { sys::cachalot_tenant_count(raw, &mut count, error) })?;
        ffi::rows(
            count,
            |index, row| {
                // SAFETY: the allocator is live, and the row is of the size that it says.
                self.call(|raw, error| unsafe {
                    sys::cachalot_tenant_stats_at(raw, device, index, row, error)
                })
            },
            TenantStats::of_c,
        )
    }
}

impl fmt::Debug for TenantOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TenantOptions")
            .field("name", &self.name)
            .field("guaranteed_bytes", &self.guaranteed_bytes)
            .field("limit_bytes", &self.limit_bytes)
            .field("priority", &self.priority)
            .finish_non_exhaustive()
    }
}
