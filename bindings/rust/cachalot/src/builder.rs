// SPDX-License-Identifier: MIT OR Apache-2.0
//! How an allocator is made.

use std::ffi::{c_char, c_void};
use std::ptr::{self, NonNull};

use crate::allocator::{Allocator, Owner};
use crate::callback;
use crate::config::Config;
use crate::driver::Driver;
use crate::error::Result;
use crate::ffi;
use crate::policy::Policy;
use crate::sys;
#[cfg(feature = "tracing")]
use crate::tracing_events;
use crate::types::Release;

/// Flags that can be added up.
macro_rules! flags {
    ($(#[$meta:meta])* $name:ident { $($(#[$flag_meta:meta])* $flag:ident = $value:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name(u32);

        impl $name {
            /// None of them.
            pub const NONE: Self = Self(0);
            $($(#[$flag_meta])* pub const $flag: Self = Self(sys::$value);)*
            /// All of them.
            pub const ALL: Self = Self(0 $(| sys::$value)*);

            /// Whether all of these are in it.
            pub const fn contains(self, flags: Self) -> bool {
                self.0 & flags.0 == flags.0
            }

            /// The number of the C interface.
            pub const fn bits(self) -> u32 {
                self.0
            }
        }

        impl std::ops::BitOr for $name {
            type Output = Self;
            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }
    };
}
pub(crate) use flags;

flags! {
    /// Defects of PyTorch that are kept by default because they change decisions; each flag mends
    /// one. `docs/differences.md` describes them.
    Mend {
        /// U5: fallback fails on a pool that is routed to or released.
        FALLBACK_ERRORS = CACHALOT_MEND_FALLBACK_ERRORS,
        /// U6: fallback never finds expandable memory.
        FALLBACK_EXPANDABLE = CACHALOT_MEND_FALLBACK_EXPANDABLE,
        /// U8 (2.11): out of memory at the first page settles on fabric.
        HANDLE_TYPE = CACHALOT_MEND_HANDLE_TYPE,
        /// U9: no second search after the cache was released.
        SEARCH_AFTER_RELEASE = CACHALOT_MEND_SEARCH_AFTER_RELEASE,
        /// U11: the ring of the history loses its order when its size changes.
        HISTORY_ORDER = CACHALOT_MEND_HISTORY_ORDER,
        /// U16 (2.15): rejection although cached memory could be released.
        REJECTION = CACHALOT_MEND_REJECTION,
        /// U17 (2.15): too small a reserve fails every request.
        RESERVE = CACHALOT_MEND_RESERVE,
        /// U22: `max_split_size_mb` makes expandable segments grow without bound.
        SPLIT_LIMIT = CACHALOT_MEND_SPLIT_LIMIT,
    }
}

flags! {
    /// Safe debugging (`docs/debugging.md`). Requests take the general path, so all calls are slower.
    DebugOptions {
        /// Segments and live blocks are announced through NVTX's memory API, so that
        /// compute-sanitizer finds accesses outside of the bytes that were requested.
        NVTX = CACHALOT_DEBUG_NVTX,
        /// When a free completes, the block is filled with 0xFF.
        POISON = CACHALOT_DEBUG_POISON,
        /// Requests are enlarged, and what lies behind the caller's bytes is looked at.
        RED_ZONES = CACHALOT_DEBUG_RED_ZONES,
    }
}

/// What kind of remark a log closure gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LogLevel {
    /// A warning of PyTorch, in its words.
    Warning,
    /// A mended defect has just changed a decision: "differs from PyTorch: U3: ...".
    Difference,
    /// A block was written beyond its end ([`DebugOptions::RED_ZONES`]).
    Damage,
    /// Options that harm each other, such as those of [`Mend::SPLIT_LIMIT`]; given once.
    Advice,
    /// An allocator was dropped with leaked blocks alive ([`Allocator`]); a remark of this crate.
    LeftBehind,
    /// A level of a newer library, by its number.
    Other(i32),
}

impl LogLevel {
    fn of_c(level: i32) -> Self {
        match level {
            sys::CACHALOT_LOG_WARNING => Self::Warning,
            sys::CACHALOT_LOG_DIFFERENCE => Self::Difference,
            sys::CACHALOT_LOG_DAMAGE => Self::Damage,
            sys::CACHALOT_LOG_ADVICE => Self::Advice,
            other => Self::Other(other),
        }
    }
}

/// Where contexts of history entries come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ContextSource {
    /// The closures of [`AllocatorBuilder::contexts`], if there are any.
    #[default]
    Closure,
    /// Native call stacks.
    Stack,
    /// The thread's labels ([`Label`](crate::Label)).
    Labels,
}

impl ContextSource {
    fn to_c(self) -> i32 {
        match self {
            Self::Closure => sys::CACHALOT_CONTEXT_CALLBACK,
            Self::Stack => sys::CACHALOT_CONTEXT_STACK,
            Self::Labels => sys::CACHALOT_CONTEXT_LABELS,
        }
    }
}

/// Whose words errors, warnings and tables have. The numbers are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Texts {
    /// PyTorch's, to the letter, for programs that search them.
    PyTorch,
    /// Without PyTorch: "allocated by this process", "set `CACHALOT_ALLOC_CONF`".
    Own,
}

impl Texts {
    fn to_c(self) -> i32 {
        match self {
            Self::PyTorch => sys::CACHALOT_TEXTS_PYTORCH,
            Self::Own => sys::CACHALOT_TEXTS_OWN,
        }
    }
}

type LogFn = dyn Fn(LogLevel, &str) + Send + Sync;
type CaptureFn = dyn Fn() -> u64 + Send + Sync;
type DescribeFn = dyn Fn(u64) -> String + Send + Sync;

/// Closures that an allocator keeps as long as it lives.
#[derive(Default)]
pub(crate) struct Remarks {
    log: Option<Box<LogFn>>,
    capture: Option<Box<CaptureFn>>,
    describe: Option<Box<DescribeFn>>,
}

impl Remarks {
    /// Whether there is a closure to get the remark.
    pub(crate) fn log(&self, level: LogLevel, message: &str) -> bool {
        if let Some(log) = &self.log {
            callback::run_locked(|| log(level, message));
        }
        self.log.is_some()
    }
}

/// Makes an [`Allocator`] ([`Allocator::builder`]). Stands for `cachalot_allocator_options`.
///
/// ```
/// use cachalot::{Allocator, Config, Driver, Release};
///
/// let allocator = Allocator::builder()
///     .driver(Driver::open("sim:8GiB")?)
///     .config(Config::new().max_split_size_mb(128).garbage_collection_threshold(0.8))
///     .release(Release::V2_11)
///     .build()?;
/// assert_eq!(allocator.config()?, "max_split_size_mb:128,garbage_collection_threshold:0.8");
/// # Ok::<(), cachalot::Error>(())
/// ```
#[must_use]
#[derive(Default)]
pub struct AllocatorBuilder {
    driver: Option<Driver>,
    config: Option<String>,
    pinned_config: Option<String>,
    release: Option<Release>,
    policy: Option<Policy>,
    context_source: ContextSource,
    mend: Mend,
    debug: DebugOptions,
    caching: Option<bool>,
    shareable_pages: Option<bool>,
    check_every_call: bool,
    track_labels: bool,
    texts: Option<Texts>,
    remarks: Option<Box<Remarks>>,
    #[cfg(feature = "tracing")]
    traced_as: Option<String>,
}

impl AllocatorBuilder {
    /// Where memory comes from; without it [`Driver::from_env`].
    pub fn driver(mut self, driver: impl AsRef<Driver>) -> Self {
        self.driver = Some(driver.as_ref().clone());
        self
    }

    /// The options: PyTorch's string, or a [`Config`] that prints one. Without it the environment
    /// decides; `""` means that every option has its default.
    pub fn config(mut self, config: impl Into<String>) -> Self {
        self.config = Some(config.into());
        self
    }

    /// Pinned memory is cached as a device's memory is, with these options (`""`: all defaults):
    /// [`Allocator::pinned_allocator`] has its limits and statistics. Without it the environment
    /// variable `CACHALOT_PINNED_CONF` decides; if that is unset too it is cached as in PyTorch, and the
    /// `pinned_` options of [`AllocatorBuilder::config`] count. `backend:cudaMallocAsync` and
    /// `expandable_segments:True` are refused.
    pub fn pinned_config(mut self, config: impl Into<String>) -> Self {
        self.pinned_config = Some(config.into());
        self
    }

    /// Whose decisions are made; without it the environment variable `CACHALOT_RELEASE`, else 2.15.
    pub fn release(mut self, release: Release) -> Self {
        self.release = Some(release);
        self
    }

    /// Whether PyTorch's decisions are made or those of the serving policy, with its options; without it
    /// the environment variable `CACHALOT_POLICY`, else PyTorch's.
    pub fn policy(mut self, policy: impl Into<Policy>) -> Self {
        self.policy = Some(policy.into());
        self
    }

    /// Whose words messages have; without it the environment variable `CACHALOT_TEXTS`, else PyTorch's.
    pub fn texts(mut self, texts: Texts) -> Self {
        self.texts = Some(texts);
        self
    }

    /// Defects of PyTorch to mend.
    pub fn mend(mut self, mend: Mend) -> Self {
        self.mend = mend;
        self
    }

    /// Safe debugging; with [`DebugOptions::NONE`] the environment variable `CACHALOT_DEBUG` decides.
    pub fn debug(mut self, debug: DebugOptions) -> Self {
        self.debug = debug;
        self
    }

    /// Whether requests are cached; without it the environment variable
    /// `PYTORCH_NO_CUDA_MEMORY_CACHING` decides. [`Allocator::set_caching_enabled`] changes it later.
    pub fn caching(mut self, enabled: bool) -> Self {
        self.caching = Some(enabled);
        self
    }

    /// Whether expandable pages can be shared with other processes; without it the environment
    /// variable `TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC` decides.
    pub fn shareable_pages(mut self, shareable: bool) -> Self {
        self.shareable_pages = Some(shareable);
        self
    }

    /// The auditor ([`Allocator::check`]) runs after every call, and a finding ends the process; for
    /// tests.
    pub fn check_every_call(mut self, check: bool) -> Self {
        self.check_every_call = check;
        self
    }

    /// Keeps statistics for each label ([`Allocator::label_stats`]); costs a few nanoseconds a call.
    pub fn track_labels(mut self, track: bool) -> Self {
        self.track_labels = track;
        self
    }

    /// Gets remarks, one line each, on the thread of the call. It may run under a lock: it must not
    /// call an allocator ([`Allocator`] says what it gets then). Without it nothing is said, but for
    /// damage and for what is left behind, which go to the standard error output.
    pub fn log(mut self, log: impl Fn(LogLevel, &str) + Send + Sync + 'static) -> Self {
        self.remarks.get_or_insert_default().log = Some(Box::new(log));
        self
    }

    /// Gives remarks and out-of-memory errors to the crate `tracing` as events with the target
    /// `cachalot`, in place of [`AllocatorBuilder::log`]. Each has the fields `allocator`, which is this
    /// name, and `driver`.
    ///
    /// - A remark has the field `kind`: `warning` and `advice` are events of the level `WARN`,
    ///   `difference` is `INFO`, `damage` is `ERROR`, `left_behind` is `WARN`. It may come under a lock, so
    ///   a subscriber must not call an allocator, which answers `InvalidState` there.
    /// - An out-of-memory error is a `WARN`, since the caller gets it too. Its numbers are the fields
    ///   `device`, `stream`, `requested`, `segment_size`, `device_free`, `device_total`, `limit` (if there
    ///   is one), `allocated`, `reserved`, `private_pools_free` and `largest_free_block`.
    ///   `backend:cudaMallocAsync` tells no observer of them.
    #[cfg(feature = "tracing")]
    pub fn tracing(mut self, name: impl Into<String>) -> Self {
        self.traced_as = Some(name.into());
        self
    }

    /// Where history contexts come from.
    pub fn context_source(mut self, source: ContextSource) -> Self {
        self.context_source = source;
        self
    }

    /// History contexts of the caller's own: `capture` gives that of the calling thread as a number,
    /// 0 for none, while no lock is held; `describe` writes what one means, one frame a line,
    /// innermost first.
    pub fn contexts(
        mut self,
        capture: impl Fn() -> u64 + Send + Sync + 'static,
        describe: impl Fn(u64) -> String + Send + Sync + 'static,
    ) -> Self {
        self.context_source = ContextSource::Closure;
        let remarks = self.remarks.get_or_insert_default();
        remarks.capture = Some(Box::new(capture));
        remarks.describe = Some(Box::new(describe));
        self
    }

    /// Makes the allocator. Nothing is obtained from the driver yet. Stands for
    /// `cachalot_allocator_create`.
    ///
    /// # Errors
    /// `InvalidArgument` for an option string or a size of pages that is not acceptable; `NotSupported`
    /// for an option or a policy that the driver cannot serve; `DriverUnavailable`; `IncompatibleLibrary`.
    pub fn build(mut self) -> Result<Allocator> {
        ffi::check_library()?;
        let driver = match self.driver.take() {
            Some(driver) => driver,
            None => Driver::from_env()?,
        };
        #[cfg(feature = "tracing")]
        let source = self.traced_as.take().map(|name| tracing_events::Source::new(name, &driver));
        #[cfg(feature = "tracing")]
        if let Some(source) = source.clone() {
            self = self.log(move |level, message| source.remark(level, message));
        }
        let config =
            self.config.map(|text| ffi::c_string(&text, "the option string")).transpose()?;
        let pinned_config = self
            .pinned_config
            .map(|text| ffi::c_string(&text, "the option string of pinned memory"))
            .transpose()?;
        let mut options = ffi::sized::<sys::cachalot_allocator_options>();
        options.driver = driver.as_raw();
        options.config = config.as_ref().map_or(ptr::null(), |text| text.as_ptr());
        options.pinned_config = pinned_config.as_ref().map_or(ptr::null(), |text| text.as_ptr());
        options.release = Release::to_c_or_default(self.release);
        let policy = Policy::to_c_or_default(self.policy);
        options.policy = policy.policy;
        options.thrift = policy.thrift;
        options.borrow = policy.borrow;
        options.streams = policy.streams;
        options.page_bytes = policy.page_bytes;
        options.context_source = self.context_source.to_c();
        options.mend = self.mend.bits();
        options.debug = self.debug.bits();
        options.no_caching = self.caching.map_or(0, |enabled| if enabled { -1 } else { 1 });
        options.shareable_pages = self.shareable_pages.map_or(0, |on| if on { 1 } else { -1 });
        options.check_every_call = self.check_every_call.into();
        options.track_labels = self.track_labels.into();
        options.texts = self.texts.map_or(sys::CACHALOT_TEXTS_DEFAULT, Texts::to_c);
        if let Some(remarks) = &self.remarks {
            let user_data = ptr::from_ref::<Remarks>(remarks).cast_mut().cast::<c_void>();
            if remarks.log.is_some() {
                options.log = Some(log);
                options.log_user_data = user_data;
            }
            if remarks.capture.is_some() {
                options.context_capture = Some(capture_context);
                options.context_text = Some(describe_context);
                options.context_user_data = user_data;
            }
        }
        let mut raw = ptr::null_mut();
        // SAFETY: all pointers live until the call returns; the closures live as long as the
        // allocator, which owns them.
        ffi::call(|error| unsafe { sys::cachalot_allocator_create(&options, &mut raw, error) })?;
        let raw = NonNull::new(raw).expect("a call that worked gave an allocator");
        let allocator = Allocator::of_raw(raw, driver, Owner::Own(self.remarks));
        #[cfg(feature = "tracing")]
        if let Some(source) = source {
            source.follow(&allocator)?;
        }
        Ok(allocator)
    }
}

impl From<&Config> for String {
    fn from(config: &Config) -> Self {
        config.to_string()
    }
}

impl From<Config> for String {
    fn from(config: Config) -> Self {
        config.to_string()
    }
}

unsafe extern "C" fn log(user_data: *mut c_void, level: i32, message: *const c_char) {
    // SAFETY: the library gives back what `build` gave it, and a text that ends in a NUL.
    let (remarks, message) =
        unsafe { (callback::user::<Remarks>(user_data), ffi::str_of(message)) };
    remarks.log(LogLevel::of_c(level), &message);
}

unsafe extern "C" fn capture_context(user_data: *mut c_void) -> u64 {
    // SAFETY: the library gives back what `build` gave it.
    let remarks = unsafe { callback::user::<Remarks>(user_data) };
    callback::run(|| remarks.capture.as_ref().map_or(0, |capture| capture())).unwrap_or(0)
}

unsafe extern "C" fn describe_context(
    user_data: *mut c_void,
    context: u64,
    buffer: *mut c_char,
    capacity: usize,
) -> usize {
    // SAFETY: the library gives back what `build` gave it.
    let remarks = unsafe { callback::user::<Remarks>(user_data) };
    let text = callback::run_locked(|| {
        remarks.describe.as_ref().map_or_else(String::new, |describe| describe(context))
    });
    let text = text.unwrap_or_default();
    if capacity > 0 {
        let copied = text.len().min(capacity - 1);
        // SAFETY: the buffer has room for capacity bytes.
        unsafe {
            buffer.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), copied);
            buffer.add(copied).write(0);
        }
    }
    text.len()
}

impl std::fmt::Debug for AllocatorBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AllocatorBuilder")
            .field("driver", &self.driver)
            .field("config", &self.config)
            .field("pinned_config", &self.pinned_config)
            .field("release", &self.release)
            .finish_non_exhaustive()
    }
}
