// SPDX-License-Identifier: MIT OR Apache-2.0
//! Option strings, typed.

use std::fmt;
use std::str::FromStr;

/// Options by name, printed as PyTorch's option string. `docs/config.md` says what each does.
///
/// An option that is not set is not in the string. Values are not looked at here: the library
/// answers a string that is not acceptable with PyTorch's own words.
///
/// ```
/// use cachalot::Config;
///
/// let config = Config::new().expandable_segments(true).roundup_power2_divisions_by_size(&[
///     (256, 1), (512, 2), (1024, 4)], Some(8));
/// assert_eq!(
///     config.to_string(),
///     "expandable_segments:True,roundup_power2_divisions:[256:1,512:2,1024:4,>:8]"
/// );
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Config {
    options: Vec<(String, String)>,
}

/// Which allocator serves requests (the option `backend`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// The caching allocator.
    Native,
    /// The driver's own stream-ordered pool.
    CudaMallocAsync,
}

/// How much address space an expandable segment reserves.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reserve {
    /// A share of the device's memory, above 0.
    Fraction(f64),
    /// GiB.
    GiB(u64),
}

impl fmt::Display for Reserve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fraction(fraction) => write!(f, "{fraction}"),
            Self::GiB(number) => write!(f, "{number}G"),
        }
    }
}

macro_rules! mib {
    ($($(#[$meta:meta])* $name:ident)*) => { $(
        $(#[$meta])*
        pub fn $name(self, mib: u64) -> Self {
            self.option(stringify!($name), mib)
        }
    )* };
}

macro_rules! switches {
    ($($(#[$meta:meta])* $name:ident)*) => { $(
        $(#[$meta])*
        pub fn $name(self, on: bool) -> Self {
            self.option(stringify!($name), if on { "True" } else { "False" })
        }
    )* };
}

impl Config {
    /// No option: every one has its default.
    pub fn new() -> Self {
        Self::default()
    }

    /// Any option by its name, also one that this crate does not know.
    pub fn option(mut self, name: impl Into<String>, value: impl fmt::Display) -> Self {
        self.options.push((name.into(), value.to_string()));
        self
    }

    mib! {
        /// Blocks of this size in MiB and more are not split, and not handed to smaller requests.
        max_split_size_mb
        /// A request of `max_split_size_mb` and more takes a cached block that is larger by less than
        /// this, in MiB.
        max_non_split_rounding_mb
        /// Segment size in MiB for requests from 1 to 10 MiB, above 10.
        large_segment_size_mb
        /// Requests above this size in MiB are not rounded by divisions.
        roundup_bypass_threshold_mb
        /// MiB; kept for the pinned-memory allocator.
        pinned_max_round_threshold_mb
        /// MiB; kept for the pinned-memory allocator.
        pinned_max_cached_size_mb
        /// MiB, above 0; kept for the pinned-memory allocator.
        pinned_reserve_segment_size_mb
        /// A power of two, 1 to 128; kept for the pinned-memory allocator.
        pinned_num_register_threads
    }

    switches! {
        /// Segments that grow, page by page, in reserved address space. RDMA, peers and other
        /// processes may not reach into such memory as before, and with `max_split_size_mb` it grows
        /// without bound (`docs/config.md`).
        expandable_segments
        /// Refuses what would exceed `per_process_memory_fraction` before asking the driver.
        throw_on_cudamalloc_oom
        /// Other threads go on while the driver allocates.
        release_lock_on_cudamalloc
        /// Blocks freed during a capture are reused in it where the graph's order allows.
        graph_capture_record_stream_reuse
        /// Kept for the pinned-memory allocator.
        pinned_use_background_threads
        /// Kept for the pinned-memory allocator.
        pinned_use_cuda_host_register
        /// Kept for the pinned-memory allocator.
        pinned_free_catch_all
    }

    /// Above this share of the memory limit (above 0 and below 1) cached segments that were not used
    /// for long are given back first.
    pub fn garbage_collection_threshold(self, share: f64) -> Self {
        self.option("garbage_collection_threshold", share)
    }

    /// The memory limit at the start, as a share of the device, 0 to 1.
    pub fn per_process_memory_fraction(self, share: f64) -> Self {
        self.option("per_process_memory_fraction", share)
    }

    /// Rounds requests up to the next of so many equal steps between two powers of two.
    pub fn roundup_power2_divisions(self, divisions: u64) -> Self {
        self.option("roundup_power2_divisions", divisions)
    }

    /// The same by size: (MiB, divisions), and the divisions above all of them.
    pub fn roundup_power2_divisions_by_size(
        self,
        by_mib: &[(u64, u64)],
        above: Option<u64>,
    ) -> Self {
        let mut entries: Vec<String> =
            by_mib.iter().map(|(mib, divisions)| format!("{mib}:{divisions}")).collect();
        entries.extend(above.map(|divisions| format!(">:{divisions}")));
        self.option("roundup_power2_divisions", format!("[{}]", entries.join(",")))
    }

    /// Address space that a new expandable segment reserves.
    pub fn expandable_segments_reserve(self, reserve: Reserve) -> Self {
        self.option("expandable_segments_reserve", reserve)
    }

    /// The same for the streams of classes ([`Allocator::set_reserve_class`](crate::Allocator::set_reserve_class)).
    pub fn expandable_segments_reserve_by_class(self, classes: &[(&str, Reserve)]) -> Self {
        let entries: Vec<String> =
            classes.iter().map(|(name, reserve)| format!("{name}:{reserve}")).collect();
        self.option("expandable_segments_reserve_by_class", format!("[{}]", entries.join(",")))
    }

    /// Which allocator serves requests; read when an allocator is made.
    pub fn backend(self, backend: Backend) -> Self {
        let name = match backend {
            Backend::Native => "native",
            Backend::CudaMallocAsync => "cudaMallocAsync",
        };
        self.option("backend", name)
    }
}

/// The option string.
impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, value)) in self.options.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{name}:{value}")?;
        }
        Ok(())
    }
}

/// Why a text is no option string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    pair: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is no NAME:VALUE", self.pair)
    }
}

impl std::error::Error for ConfigError {}

/// Reads `NAME:VALUE,NAME:VALUE`. Names and values are not looked at.
impl FromStr for Config {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let mut config = Self::new();
        let (mut start, mut depth) = (0, 0usize);
        let ends = text.char_indices().filter_map(|(index, character)| match character {
            '[' => {
                depth += 1;
                None
            }
            ']' => {
                depth = depth.saturating_sub(1);
                None
            }
            ',' if depth == 0 => Some(index),
            _ => None,
        });
        for end in ends.chain([text.len()]).collect::<Vec<_>>() {
            let pair = &text[start..end];
            start = end + 1;
            if pair.trim().is_empty() {
                continue;
            }
            let Some((name, value)) = pair.split_once(':') else {
                return Err(ConfigError { pair: pair.to_owned() });
            };
            config = config.option(name.trim(), value.trim());
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_that_was_read_prints_the_same() {
        for text in [
            "",
            "max_split_size_mb:128",
            "roundup_power2_divisions:[256:1,512:2,>:8],expandable_segments:True",
            "backend:native,pinned_num_register_threads:8",
        ] {
            assert_eq!(text.parse::<Config>().unwrap().to_string(), text);
        }
        assert_eq!(
            "nonsense".parse::<Config>().unwrap_err().to_string(),
            "'nonsense' is no NAME:VALUE"
        );
    }
}
