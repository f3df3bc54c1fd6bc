// SPDX-License-Identifier: MIT OR Apache-2.0
//! Private pools: memory set apart for a graph or a user, and routing of requests to them.

use std::ffi::c_void;
use std::fmt;
use std::ops::Deref;

use crate::allocator::Allocator;
use crate::builder::flags;
use crate::callback::{self, drop_box};
use crate::error::{Error, Result};
use crate::ffi;
use crate::sys;
use crate::types::{Address, PoolId, Stream};

flags! {
    /// What a pool is like.
    PoolFlags {
        /// Its cached blocks serve requests of others that would fail.
        USE_ON_OOM = CACHALOT_POOL_USE_ON_OOM,
        /// Its blocks are never split.
        NO_SPLIT = CACHALOT_POOL_NO_SPLIT,
        /// Its memory stays where it is, also once it was released: for memory that others have
        /// registered.
        PINNED = CACHALOT_POOL_PINNED,
        /// Each of its blocks is an allocation of the driver; see [`PoolKey::set_whole_blocks`].
        WHOLE_BLOCKS = CACHALOT_POOL_WHOLE_BLOCKS,
    }
}

/// A pool's own source of segments.
///
/// The functions run under a lock: they must not call the allocator, which answers `InvalidState`
/// there. A panic counts as "no memory".
pub trait PoolSource: Send + Sync + 'static {
    /// `size` bytes on a device, or `None`, which counts as out of memory. `stream` is the thread's
    /// current one. What no memory can be (not at a multiple of 512, over a live segment, ending
    /// above 2^63) is freed again, and the request is refused as `InvalidState`.
    fn allocate(&self, size: u64, device: i32, stream: Stream) -> Option<Address>;
    /// Takes back what [`PoolSource::allocate`] gave, with the same size, device and stream.
    fn free(&self, address: Address, size: u64, device: i32, stream: Stream);
}

/// Which requests go to a pool while it is routed to. Stands for `cachalot_pool_route`.
#[derive(Default)]
#[non_exhaustive]
pub enum Route {
    /// Those of the thread that began the routing; none once it has ended.
    #[default]
    ThisThread,
    /// Those of every thread and stream.
    All,
    /// None.
    None,
    /// Those for one stream.
    Stream(Stream),
    /// Those for streams that are captured under this id.
    Capture(u64),
    /// Those for streams that a closure accepts. It runs under a lock.
    Predicate(Box<dyn Fn(Stream) -> bool + Send + Sync>),
}

impl Route {
    /// [`Route::Predicate`] of a closure.
    pub fn predicate(accepts: impl Fn(Stream) -> bool + Send + Sync + 'static) -> Self {
        Self::Predicate(Box::new(accepts))
    }

    /// For the one call that begins the routing. The library destroys what a predicate has captured, also
    /// if that call fails; one that is refused within a callback gets nothing to destroy.
    pub(crate) fn into_c(self) -> sys::cachalot_pool_route {
        let mut out = ffi::sized::<sys::cachalot_pool_route>();
        out.kind = match self {
            Self::ThisThread => sys::CACHALOT_ROUTE_THIS_THREAD,
            Self::All => sys::CACHALOT_ROUTE_ALL,
            Self::None => sys::CACHALOT_ROUTE_NONE,
            Self::Stream(stream) => {
                out.stream = stream.0;
                sys::CACHALOT_ROUTE_STREAM
            }
            Self::Capture(id) => {
                out.capture_id = id;
                sys::CACHALOT_ROUTE_CAPTURE
            }
            Self::Predicate(predicate) => {
                if !callback::is_locked() {
                    out.predicate = Some(accepts);
                    out.destroy = Some(drop_box::<Predicate>);
                    out.user_data = Box::into_raw(Box::new(predicate)).cast();
                }
                sys::CACHALOT_ROUTE_PREDICATE
            }
        };
        out
    }
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ThisThread => f.write_str("ThisThread"),
            Self::All => f.write_str("All"),
            Self::None => f.write_str("None"),
            Self::Stream(stream) => write!(f, "Stream({stream})"),
            Self::Capture(id) => write!(f, "Capture({id})"),
            Self::Predicate(_) => f.write_str("Predicate"),
        }
    }
}

/// How a pool is made. Stands for `cachalot_pool_options`.
#[derive(Default)]
#[must_use]
pub struct PoolOptions {
    flags: PoolFlags,
    source: Option<Box<dyn PoolSource>>,
}

impl PoolOptions {
    /// All defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// What the pool is like; counts for a pool that exists too.
    pub fn flags(mut self, flags: PoolFlags) -> Self {
        self.flags = flags;
        self
    }

    /// Where its segments come from, instead of from the driver; only for a pool that is new.
    pub fn source(mut self, source: impl PoolSource) -> Self {
        self.source = Some(Box::new(source));
        self
    }
}

type Source = Box<dyn PoolSource>;
type Predicate = Box<dyn Fn(Stream) -> bool + Send + Sync>;

unsafe extern "C" fn source_allocate(
    user_data: *mut c_void,
    size: u64,
    device: i32,
    stream: sys::cachalot_stream,
) -> Address {
    // SAFETY: the library gives back the box.
    let source = unsafe { callback::user::<Source>(user_data) };
    callback::run_locked(|| source.allocate(size, device, Stream(stream))).flatten().unwrap_or(0)
}

unsafe extern "C" fn source_free(
    user_data: *mut c_void,
    address: Address,
    size: u64,
    device: i32,
    stream: sys::cachalot_stream,
) {
    // SAFETY: the library gives back the box.
    let source = unsafe { callback::user::<Source>(user_data) };
    callback::run_locked(|| source.free(address, size, device, Stream(stream)));
}

unsafe extern "C" fn accepts(user_data: *mut c_void, stream: sys::cachalot_stream) -> i32 {
    // SAFETY: the library gives back the box.
    let predicate = unsafe { callback::user::<Predicate>(user_data) };
    callback::run_locked(|| predicate(Stream(stream))).unwrap_or(false).into()
}

/// A pool by its address: device and id. Its functions are those of the C interface, one by one, and
/// the balance of creating, beginning, ending and releasing is the caller's; [`Pool`] keeps it by
/// itself.
///
/// A pool has a use count: creating or joining it and each beginning of a routing add 1,
/// [`PoolKey::release`] takes 1 away; at 0 its memory may be given back and it cannot be joined again.
/// As in PyTorch a pool lives on one device; equal ids on two devices are two pools.
///
/// All functions answer `InvalidArgument` for a device that the driver does not have.
#[derive(Clone, PartialEq, Eq)]
pub struct PoolKey {
    allocator: Allocator,
    device: i32,
    id: PoolId,
}

/// A call with the handle, the device and the id.
macro_rules! call {
    ($self:ident, $function:path $(, $argument:expr)*) => {
        // SAFETY: the allocator is live; any device and id may be given, and pointers among the other
        // arguments are those of locals.
        $self.allocator.call(|raw, error| unsafe {
            $function(raw, $self.device, $self.id.to_c(), $($argument,)* error)
        })
    };
}

impl PoolKey {
    /// The allocator.
    pub fn allocator(&self) -> &Allocator {
        &self.allocator
    }

    /// The device.
    pub fn device(&self) -> i32 {
        self.device
    }

    /// The id.
    pub fn id(&self) -> PoolId {
        self.id
    }

    /// Creates the pool, or joins the one that has this id. Stands for `cachalot_pool_create`.
    ///
    /// # Errors
    /// `InvalidState` for a pool that was released, or for a source of a pool that exists: then
    /// nothing has changed.
    pub fn create(&self, options: PoolOptions) -> Result<()> {
        let mut out = ffi::sized::<sys::cachalot_pool_options>();
        out.flags = options.flags.bits();
        let mut source = ffi::sized::<sys::cachalot_pool_source>();
        if let Some(own) = options.source {
            if callback::is_locked() {
                return call!(self, sys::cachalot_pool_create, &out); // Which says why not.
            }
            source.allocate = Some(source_allocate);
            source.free = Some(source_free);
            // The library destroys the box once, also if the call fails.
            source.destroy = Some(drop_box::<Source>);
            source.user_data = Box::into_raw(Box::new(own)).cast();
            out.source = &source;
        }
        call!(self, sys::cachalot_pool_create, &out)
    }

    /// Creates or joins the pool and routes requests to it from now on. Of several routings the newest
    /// that takes a request has it. Stands for `cachalot_pool_begin`.
    ///
    /// # Errors
    /// `InvalidState` if the pool is being routed to already (its use count has been raised by then,
    /// as in PyTorch).
    pub fn begin(&self, route: Route) -> Result<()> {
        let route = route.into_c();
        call!(self, sys::cachalot_pool_begin, &route)
    }

    /// Ends the routing to the pool. Its use count stays: call [`PoolKey::release`] for the beginning
    /// too. Stands for `cachalot_pool_end`.
    ///
    /// # Errors
    /// `InvalidState` for a pool that is not routed to.
    pub fn end(&self) -> Result<()> {
        call!(self, sys::cachalot_pool_end)
    }

    /// The same, made while `current` is the thread's current stream. Stands for
    /// `cachalot_pool_end_on_stream`.
    ///
    /// # Errors
    /// As [`PoolKey::end`].
    pub fn end_on_stream(&self, current: impl Into<Stream>) -> Result<()> {
        let current = current.into();
        call!(self, sys::cachalot_pool_end_on_stream, current.0)
    }

    /// Lowers the use count. Stands for `cachalot_pool_release`.
    ///
    /// # Errors
    /// `InvalidState` for an unknown pool or a count below 0.
    pub fn release(&self) -> Result<()> {
        call!(self, sys::cachalot_pool_release)
    }

    /// Gives the cached memory of a pool with use count 0 back; for any other nothing happens. Stands
    /// for `cachalot_pool_empty`.
    ///
    /// # Errors
    /// `Driver`.
    pub fn empty(&self) -> Result<()> {
        call!(self, sys::cachalot_pool_empty)
    }

    /// The same, made while `current` is the thread's current stream. Stands for
    /// `cachalot_pool_empty_on_stream`.
    ///
    /// # Errors
    /// As [`PoolKey::empty`].
    pub fn empty_on_stream(&self, current: impl Into<Stream>) -> Result<()> {
        let current = current.into();
        call!(self, sys::cachalot_pool_empty_on_stream, current.0)
    }

    /// Lets the pool's cached blocks serve requests that would fail, or not. The pool need not exist.
    /// Stands for `cachalot_pool_set_use_on_oom`.
    ///
    /// # Errors
    /// `NotSupported` under `backend:cudaMallocAsync`.
    pub fn set_use_on_oom(&self, use_on_oom: bool) -> Result<()> {
        call!(self, sys::cachalot_pool_set_use_on_oom, use_on_oom.into())
    }

    /// Blocks of the pool are not split from now on. The pool need not exist. Stands for
    /// `cachalot_pool_set_no_split`.
    ///
    /// # Errors
    /// As [`PoolKey::set_use_on_oom`].
    pub fn set_no_split(&self) -> Result<()> {
        call!(self, sys::cachalot_pool_set_no_split)
    }

    /// Pins the pool's memory, present and future, or ends that ([`PoolFlags::PINNED`]). A pool that is
    /// in use keeps its memory anyway. Stands for `cachalot_pool_set_pinned`.
    ///
    /// # Errors
    /// `InvalidState` for a pool that does not exist; `NotSupported` under `backend:cudaMallocAsync`.
    pub fn set_pinned(&self, pinned: bool) -> Result<()> {
        call!(self, sys::cachalot_pool_set_pinned, pinned.into())
    }

    /// Makes each block of the pool a whole allocation of the driver from now on, as handles for other
    /// processes (CUDA IPC) need it. Cached blocks go back to the driver: the pool reserves
    /// at most a quarter more than was in use at its peak. A pool that a graph is captured into has to
    /// be pinned as well. Stands for `cachalot_pool_set_whole_blocks`.
    ///
    /// # Errors
    /// `InvalidState` for a pool that does not exist, or that has memory of another kind;
    /// `NotSupported` under `backend:cudaMallocAsync`.
    pub fn set_whole_blocks(&self) -> Result<()> {
        call!(self, sys::cachalot_pool_set_whole_blocks)
    }

    /// The use count. Stands for `cachalot_pool_use_count`.
    ///
    /// # Errors
    /// `InvalidState` for a pool that does not exist.
    pub fn use_count(&self) -> Result<i32> {
        let mut count = 0;
        call!(self, sys::cachalot_pool_use_count, &mut count)?;
        Ok(count)
    }

    /// Whether the pool's blocks that are handed out are exactly these. Stands for
    /// `cachalot_pool_has_live`.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown pool.
    pub fn has_live(&self, addresses: &[Address]) -> Result<bool> {
        let mut equal = 0;
        call!(self, sys::cachalot_pool_has_live, addresses.as_ptr(), addresses.len(), &mut equal)?;
        Ok(equal != 0)
    }
}

impl fmt::Debug for PoolKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pool {} of device {}", self.id, self.device)
    }
}

/// A pool with one of its uses: released when this is dropped.
///
/// ```
/// # use cachalot::{Allocator, Driver};
/// use cachalot::{PoolOptions, Route};
///
/// let allocator = Allocator::builder().driver(Driver::open("sim:1GiB")?).build()?;
/// let pool = allocator.create_pool(0, PoolOptions::new())?;
/// let block = {
///     let _scope = pool.route(Route::ThisThread)?;
///     allocator.allocate(1 << 20, 0, 0)?
/// };
/// assert_eq!(block.info()?.pool, pool.id());
/// # Ok::<(), cachalot::Error>(())
/// ```
#[must_use = "the pool is released when this is dropped"]
#[derive(Debug)]
pub struct Pool {
    key: PoolKey,
}

impl Pool {
    /// Routes requests to the pool until the guard is dropped.
    ///
    /// # Errors
    /// `InvalidState` if the pool is being routed to already.
    pub fn route(&self, route: Route) -> Result<PoolScope> {
        let key = self.key.clone();
        match key.begin(route) {
            Ok(()) => Ok(PoolScope { key }),
            Err(error) => {
                // A beginning that is refused has raised the use count.
                if matches!(error, Error::InvalidState(_)) && !callback::is_locked() {
                    let _ = key.release();
                }
                Err(error)
            }
        }
    }

    /// The pool by its address; its use is the caller's to release then.
    pub fn into_key(self) -> PoolKey {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: the pool is not dropped, so this is the only owner of the field.
        unsafe { std::ptr::read(&raw const this.key) }
    }
}

impl Deref for Pool {
    type Target = PoolKey;

    fn deref(&self) -> &PoolKey {
        &self.key
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let key = self.key.clone();
        callback::now_or_later(move || drop(key.release()));
    }
}

/// A routing to a pool, ended when this is dropped ([`Pool::route`]). A routing of one thread is that
/// of the thread that began it, wherever the guard goes.
#[must_use = "the routing ends when this is dropped"]
#[derive(Debug)]
pub struct PoolScope {
    key: PoolKey,
}

impl Drop for PoolScope {
    fn drop(&mut self) {
        let key = self.key.clone();
        callback::now_or_later(move || {
            let _ = key.end();
            let _ = key.release();
        });
    }
}

impl Allocator {
    /// A new id that this allocator has not given yet: (0, k), or (k, 0) for a graph. Stands for
    /// `cachalot_pool_new_id`.
    ///
    /// # Errors
    /// `InvalidState` from within a callback under a lock.
    pub fn new_pool_id(&self, for_graph: bool) -> Result<PoolId> {
        let mut id = PoolId::DEFAULT.to_c();
        // SAFETY: the allocator is live, and the pointer is that of a local.
        self.call(|raw, error| unsafe {
            sys::cachalot_pool_new_id(raw, for_graph.into(), &mut id, error)
        })?;
        Ok(PoolId::of_c(id))
    }

    /// A new pool of a user on a device, with an id of its own.
    ///
    /// # Errors
    /// `InvalidArgument` for a device that the driver does not have; `NotSupported` under
    /// `backend:cudaMallocAsync`.
    pub fn create_pool(&self, device: i32, options: PoolOptions) -> Result<Pool> {
        self.join_pool(device, self.new_pool_id(false)?, options)
    }

    /// The pool with this id, which is made if there is none.
    ///
    /// # Errors
    /// As [`PoolKey::create`].
    pub fn join_pool(&self, device: i32, id: PoolId, options: PoolOptions) -> Result<Pool> {
        let key = self.pool(device, id);
        key.create(options)?;
        Ok(Pool { key })
    }

    /// A pool by its address, which need not exist.
    pub fn pool(&self, device: i32, id: PoolId) -> PoolKey {
        PoolKey { allocator: self.clone(), device, id }
    }

    /// Marks a graph capture on a device until the guard is dropped: in between, calls on captured
    /// streams make no driver call that a capture forbids. Under 2.11 routing does that and marks
    /// change nothing.
    ///
    /// # Errors
    /// As [`Allocator::capture_begin`].
    pub fn capture(&self, device: i32) -> Result<CaptureScope> {
        self.capture_begin(device)?;
        Ok(CaptureScope { allocator: self.clone(), device })
    }

    /// Marks the begin of a graph capture; the end is the caller's to mark. Stands for
    /// `cachalot_capture_begin`.
    ///
    /// # Errors
    /// `InvalidArgument` for a device that the driver does not have.
    pub fn capture_begin(&self, device: i32) -> Result<()> {
        // SAFETY: the allocator is live.
        self.call(|raw, error| unsafe { sys::cachalot_capture_begin(raw, device, error) })
    }

    /// Marks the end of a graph capture. Stands for `cachalot_capture_end`.
    ///
    /// # Errors
    /// `InvalidState` for an end without a begin.
    pub fn capture_end(&self, device: i32) -> Result<()> {
        // SAFETY: the allocator is live.
        self.call(|raw, error| unsafe { sys::cachalot_capture_end(raw, device, error) })
    }
}

/// A marked capture, whose end is marked when this is dropped ([`Allocator::capture`]).
#[must_use = "the capture's end is marked when this is dropped"]
#[derive(Debug)]
pub struct CaptureScope {
    allocator: Allocator,
    device: i32,
}

impl Drop for CaptureScope {
    fn drop(&mut self) {
        let (allocator, device) = (self.allocator.clone(), self.device);
        callback::now_or_later(move || drop(allocator.capture_end(device)));
    }
}

impl fmt::Debug for PoolOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolOptions")
            .field("flags", &self.flags)
            .field("has_source", &self.source.is_some())
            .finish()
    }
}
