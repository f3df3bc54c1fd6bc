// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whose decisions an allocator makes: PyTorch's or the serving policy's. What both are told of memory
//! and streams: pins, and the end of a stream.

use std::fmt;
use std::str::FromStr;

use crate::allocator::Allocator;
use crate::callback;
use crate::error::{Error, Result};
use crate::ffi;
use crate::sys;
use crate::types::{Address, Stream};

/// Whose decisions an allocator or a replay makes. Stands for `cachalot_policy`.
///
/// The text form is that of the environment variable `CACHALOT_POLICY`: `parse` reads it, `to_string`
/// writes it.
///
/// ```
/// use cachalot::{Allocator, Driver, Policy, Serving};
///
/// let allocator = Allocator::builder()
///     .driver(Driver::open("sim:8GiB")?)
///     .policy(Serving::new().thrift(true).page_bytes(8 << 20))
///     .build()?;
/// assert_eq!(allocator.policy()?, "serving,thrift,page=8MiB".parse()?);
/// # Ok::<(), cachalot::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Policy {
    /// PyTorch's; [`Policy::PYTORCH`] is PyTorch's exactly.
    PyTorch {
        /// The page of expandable segments, small and large: a power of two, a multiple of the driver's
        /// granularity, at most 1 GiB. `None`: PyTorch's. With any other the events are not PyTorch's any
        /// more.
        page_bytes: Option<u64>,
    },
    /// Those of cachalot's serving policy, which needs less memory (`docs/policy.md`).
    Serving(Serving),
    /// A policy of a newer library, by its number.
    Other(i32),
}

/// The options of the serving policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
#[must_use]
pub struct Serving {
    /// Whether idle pages of the cache serve before new ones, so that no more is reserved than is
    /// needed.
    pub thrift: bool,
    /// When cached memory of one stream is lent to another.
    pub borrow: Borrow,
    /// A promise: the program calls [`Allocator::stream_ended`] before it destroys a stream, or destroys
    /// none. With it a borrower waits for the lender's stream alone, by its handle; CUDA's driver ends the
    /// process at the handle of a stream that is gone. Without it a borrower waits for all work that the
    /// device has been given, and no handle but the request's own is used.
    pub announced_streams: bool,
    /// Bytes of a page: a power of two, a multiple of the driver's granularity, at most 1 GiB. `None`:
    /// 2 MiB, or the granularity if that is more.
    pub page_bytes: Option<u64>,
}

impl Serving {
    /// All defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`Serving::thrift`](#structfield.thrift).
    pub fn thrift(mut self, thrift: bool) -> Self {
        self.thrift = thrift;
        self
    }

    /// Sets [`Serving::borrow`](#structfield.borrow).
    pub fn borrow(mut self, borrow: Borrow) -> Self {
        self.borrow = borrow;
        self
    }

    /// Sets [`Serving::announced_streams`](#structfield.announced_streams).
    pub fn announced_streams(mut self, announced: bool) -> Self {
        self.announced_streams = announced;
        self
    }

    /// Sets [`Serving::page_bytes`](#structfield.page_bytes).
    pub fn page_bytes(mut self, bytes: u64) -> Self {
        self.page_bytes = Some(bytes);
        self
    }
}

/// When the serving policy lends cached memory of one stream to another. The borrower waits for the
/// lender's work, on the device ([`Serving::announced_streams`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Borrow {
    /// Before new pages are obtained: the least memory.
    #[default]
    First,
    /// Where no new page is to be had: streams wait for each other seldom.
    AtLimit,
    /// Never: streams do not wait for each other.
    Never,
    /// A value of a newer library, by its number.
    Other(i32),
}

impl Borrow {
    fn to_c(self) -> i32 {
        match self {
            Self::First => sys::CACHALOT_BORROW_FIRST,
            Self::AtLimit => sys::CACHALOT_BORROW_AT_LIMIT,
            Self::Never => sys::CACHALOT_BORROW_NEVER,
            Self::Other(number) => number,
        }
    }

    fn of_c(borrow: i32) -> Self {
        match borrow {
            sys::CACHALOT_BORROW_FIRST => Self::First,
            sys::CACHALOT_BORROW_AT_LIMIT => Self::AtLimit,
            sys::CACHALOT_BORROW_NEVER => Self::Never,
            other => Self::Other(other),
        }
    }
}

/// As in the text form of a policy.
impl fmt::Display for Borrow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::First => f.write_str("first"),
            Self::AtLimit => f.write_str("at_limit"),
            Self::Never => f.write_str("never"),
            Self::Other(number) => write!(f, "{number}"),
        }
    }
}

impl Policy {
    /// PyTorch's decisions, pages included.
    pub const PYTORCH: Self = Self::PyTorch { page_bytes: None };

    pub(crate) fn to_c_or_default(policy: Option<Self>) -> sys::cachalot_policy {
        let mut out = ffi::sized::<sys::cachalot_policy>();
        out.policy = match policy {
            None => sys::CACHALOT_POLICY_DEFAULT,
            Some(Self::PyTorch { page_bytes }) => {
                out.page_bytes = page_bytes.unwrap_or(0);
                sys::CACHALOT_POLICY_PYTORCH
            }
            Some(Self::Serving(serving)) => {
                out.thrift = serving.thrift.into();
                out.borrow = serving.borrow.to_c();
                out.streams = if serving.announced_streams {
                    sys::CACHALOT_STREAMS_ANNOUNCED
                } else {
                    sys::CACHALOT_STREAMS_UNANNOUNCED
                };
                out.page_bytes = serving.page_bytes.unwrap_or(0);
                sys::CACHALOT_POLICY_SERVING
            }
            Some(Self::Other(number)) => number,
        };
        out
    }

    fn of_c(policy: &sys::cachalot_policy) -> Self {
        match policy.policy {
            sys::CACHALOT_POLICY_PYTORCH => {
                Self::PyTorch { page_bytes: ffi::some_if_set(policy.page_bytes) }
            }
            sys::CACHALOT_POLICY_SERVING => Self::Serving(Serving {
                thrift: policy.thrift != 0,
                borrow: Borrow::of_c(policy.borrow),
                announced_streams: policy.streams == sys::CACHALOT_STREAMS_ANNOUNCED,
                page_bytes: ffi::some_if_set(policy.page_bytes),
            }),
            other => Self::Other(other),
        }
    }
}

/// [`Policy::PYTORCH`].
impl Default for Policy {
    fn default() -> Self {
        Self::PYTORCH
    }
}

impl From<Serving> for Policy {
    fn from(serving: Serving) -> Self {
        Self::Serving(serving)
    }
}

/// Reads `pytorch`, also with a page, or `serving` and any of its options. Stands for
/// `cachalot_policy_read`. The error is `InvalidArgument` and says what was expected.
impl FromStr for Policy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        ffi::check_library()?;
        let text = ffi::c_string(text, "the policy")?;
        let mut policy = ffi::sized::<sys::cachalot_policy>();
        // SAFETY: the text ends in a NUL, and both live until the call returns.
        ffi::call(|error| unsafe { sys::cachalot_policy_read(text.as_ptr(), &mut policy, error) })?;
        Ok(Self::of_c(&policy))
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PyTorch { page_bytes } => {
                f.write_str("pytorch")?;
                page_bytes.map_or(Ok(()), |bytes| write_page(f, bytes))
            }
            Self::Serving(serving) => serving.fmt(f),
            Self::Other(number) => write!(f, "policy {number}"),
        }
    }
}

/// What is the default is left out.
impl fmt::Display for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("serving")?;
        if self.thrift {
            f.write_str(",thrift")?;
        }
        if let Some(bytes) = self.page_bytes {
            write_page(f, bytes)?;
        }
        if self.borrow != Borrow::First {
            write!(f, ",borrow={}", self.borrow)?;
        }
        if self.announced_streams {
            f.write_str(",streams=announced")?;
        }
        Ok(())
    }
}

/// As a whole number of the largest unit that there is.
fn write_page(f: &mut fmt::Formatter<'_>, bytes: u64) -> fmt::Result {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB"), (0, "B")];
    let unit = units.into_iter().find(|(shift, _)| bytes % (1 << shift) == 0);
    let (shift, unit) = unit.unwrap_or_default();
    write!(f, ",page={}{unit}", bytes >> shift)
}

/// What the policy has done on a device. Stands for `cachalot_policy_stats`.
///
/// All but `pinned_bytes` are sums since the allocator was made, which nothing resets; 0 where PyTorch's
/// decisions are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct PolicyStats {
    /// Pages obtained from the driver.
    pub pages_created: u64,
    /// Pages that went from cached blocks to where they were missing.
    pub pages_moved: u64,
    /// Pages given back to the driver.
    pub pages_released: u64,
    /// Requests served by a cached block of another stream.
    pub blocks_borrowed: u64,
    /// How often a stream was made to wait for another, on the device.
    pub stream_waits: u64,
    /// How often a call waited for a stream or the device.
    pub host_waits: u64,
    /// Bytes of pages and plain segments that are pinned now ([`Allocator::pin`]), under either policy.
    pub pinned_bytes: u64,
}

/// A part of a block that stays where it is until this is dropped ([`Allocator::pin`]).
///
/// It outlives the block: the memory under it is neither given back to the driver nor moved after the
/// block was freed. It may go to any thread, and it keeps the allocator alive.
///
/// An error of the end of a pin is passed over by the drop ([`Pin::unpin`] tells it).
#[must_use = "the memory is unpinned when this is dropped"]
#[derive(PartialEq, Eq)]
pub struct Pin {
    allocator: Allocator,
    address: Address,
    size: u64,
}

impl Pin {
    /// The allocator.
    pub fn allocator(&self) -> &Allocator {
        &self.allocator
    }

    /// The first byte that is pinned.
    pub fn address(&self) -> Address {
        self.address
    }

    /// Bytes from there on.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Ends the pin now, as dropping does, and tells what came of it. Stands for `cachalot_unpin`.
    ///
    /// # Errors
    /// `InvalidArgument` where a call of the C interface has ended the pin already.
    pub fn unpin(self) -> Result<()> {
        if callback::is_locked() {
            drop(self); // Which puts it off.
            return Ok(());
        }
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: the pin is not dropped, so this is the only owner of the field.
        let allocator = unsafe { std::ptr::read(&raw const this.allocator) };
        unpin(&allocator, this.address, this.size)
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let (address, size) = (self.address, self.size);
        if callback::is_locked() {
            let allocator = self.allocator.clone();
            return callback::defer(move || drop(unpin(&allocator, address, size)));
        }
        let _ = unpin(&self.allocator, address, size);
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pin({:#x}, {} bytes)", self.address, self.size)
    }
}

fn unpin(allocator: &Allocator, address: Address, size: u64) -> Result<()> {
    // SAFETY: the allocator is live; any part may be asked for.
    allocator.call(|raw, error| unsafe { sys::cachalot_unpin(raw, address, size, error) })
}

impl Allocator {
    /// The policy in force, with the size of its pages. Stands for `cachalot_get_policy`.
    ///
    /// # Errors
    /// `InvalidState` from within a callback under a lock.
    pub fn policy(&self) -> Result<Policy> {
        let mut policy = ffi::sized::<sys::cachalot_policy>();
        // SAFETY: the allocator is live, and the row is a local of the size that it says.
        self.call(|raw, error| unsafe { sys::cachalot_get_policy(raw, &mut policy, error) })?;
        Ok(Policy::of_c(&policy))
    }

    /// What the policy has done on a device. Stands for `cachalot_get_policy_stats`.
    ///
    /// # Errors
    /// As [`Allocator::stats`].
    pub fn policy_stats(&self, device: i32) -> Result<PolicyStats> {
        let mut stats = ffi::sized::<sys::cachalot_policy_stats>();
        // SAFETY: the allocator is live, and the row is a local of the size that it says.
        self.call(|raw, error| unsafe {
            sys::cachalot_get_policy_stats(raw, device, &mut stats, error)
        })?;
        Ok(PolicyStats {
            pages_created: stats.pages_created,
            pages_moved: stats.pages_moved,
            pages_released: stats.pages_released,
            blocks_borrowed: stats.blocks_borrowed,
            stream_waits: stats.stream_waits,
            host_waits: stats.host_waits,
            pinned_bytes: stats.pinned_bytes,
        })
    }

    /// Keeps `size` bytes of a live block where they are until the guard is dropped: the segment or the
    /// pages under them are neither given back to the driver nor moved, also after the block was freed.
    /// Blocks come and go there as before. For memory that others have registered: RDMA, dma-buf, NCCL's
    /// user buffers, handles given to other processes. [`Block::pin`](crate::Block::pin) and
    /// [`Block::pin_range`](crate::Block::pin_range) name a block. Stands for `cachalot_pin`.
    ///
    /// ```
    /// # use cachalot::{Allocator, Driver, Serving};
    /// # let driver = Driver::open("sim:1GiB")?;
    /// let allocator = Allocator::builder().driver(driver).policy(Serving::new()).build()?;
    /// let block = allocator.allocate(8 << 20, 0, 0)?;
    /// let pin = allocator.pin(block.address(), 4 << 20)?;
    /// drop(block);
    /// allocator.empty_cache()?;
    /// assert_eq!(allocator.memory_reserved(0), 4 << 20);
    /// drop(pin);
    /// allocator.empty_cache()?;
    /// assert_eq!(allocator.memory_reserved(0), 0);
    /// # Ok::<(), cachalot::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` for a part that does not lie in one live block, also of a block that bypassed
    /// the cache; `NotSupported` under `backend:cudaMallocAsync`.
    pub fn pin(&self, address: Address, size: u64) -> Result<Pin> {
        // SAFETY: the allocator is live; any part may be asked for.
        self.call(|raw, error| unsafe { sys::cachalot_pin(raw, address, size, error) })?;
        Ok(Pin { allocator: self.clone(), address, size })
    }

    /// Tells that a stream is about to be destroyed and that no more work comes of it. Waits for its
    /// work; then nothing waits for the stream any more, also not for blocks of its that are freed later.
    /// With [`Serving::announced_streams`] call it before the stream is destroyed: a borrower of its memory
    /// would wait for it by its handle. With PyTorch's decisions nothing happens. Stands for
    /// `cachalot_stream_ended`.
    ///
    /// # Errors
    /// `InvalidState` while a capture may be under way on the device; `Driver` where the work has failed:
    /// then nothing has changed; `InvalidArgument` for a device that the driver does not have.
    pub fn stream_ended(&self, device: i32, stream: impl Into<Stream>) -> Result<()> {
        let stream = stream.into();
        // SAFETY: the allocator is live.
        self.call(|raw, error| unsafe { sys::cachalot_stream_ended(raw, device, stream.0, error) })
    }
}
