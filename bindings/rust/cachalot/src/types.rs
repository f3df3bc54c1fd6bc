// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small values that everything else is made of.

use std::fmt;

use crate::sys;

/// An address in device memory (the value of a `CUdeviceptr`). 0 is no address. Addresses of the
/// `sim` driver cannot be dereferenced.
pub type Address = sys::cachalot_address;

/// A stream: the value of a `cudaStream_t` or `CUstream`. Stands for `cachalot_stream`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[repr(transparent)]
pub struct Stream(pub u64);

impl Stream {
    /// The default stream.
    pub const DEFAULT: Self = Self(0);
    /// Every stream of the device's context, for callers that do not know which streams use a
    /// block: a block that is recorded for it stays out of use after its free until all work is
    /// done that is queued by then. No such block may be freed while a stream of the context is
    /// captured. Stands for `CACHALOT_STREAM_ALL`.
    pub const ALL: Self = Self(sys::CACHALOT_STREAM_ALL);
}

impl From<u64> for Stream {
    fn from(handle: u64) -> Self {
        Self(handle)
    }
}

/// In hexadecimal, with `0x`.
impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// Names a private pool: exactly one half is not 0. Pools of users are (0, k), those of graphs
/// (k, 0); (0, 0) is the default pool where one can be meant. Stands for `cachalot_pool_id`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PoolId {
    /// Not 0 for a pool of a graph.
    pub first: u64,
    /// Not 0 for a pool of a user.
    pub second: u64,
}

impl PoolId {
    /// The pool that is no private one.
    pub const DEFAULT: Self = Self { first: 0, second: 0 };

    /// The pool (0, k) of a user.
    pub const fn of_user(number: u64) -> Self {
        Self { first: 0, second: number }
    }

    /// The pool (k, 0) of a graph.
    pub const fn of_graph(number: u64) -> Self {
        Self { first: number, second: 0 }
    }

    pub(crate) fn to_c(self) -> sys::cachalot_pool_id {
        sys::cachalot_pool_id { first: self.first, second: self.second }
    }

    pub(crate) fn of_c(id: sys::cachalot_pool_id) -> Self {
        Self { first: id.first, second: id.second }
    }
}

impl fmt::Display for PoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}, {})", self.first, self.second)
    }
}

/// The PyTorch release whose decisions are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Release {
    /// PyTorch 2.11.
    V2_11,
    /// PyTorch 2.15.
    V2_15,
}

impl Release {
    pub(crate) fn to_c(self) -> i32 {
        match self {
            Self::V2_11 => sys::CACHALOT_RELEASE_2_11,
            Self::V2_15 => sys::CACHALOT_RELEASE_2_15,
        }
    }

    pub(crate) fn of_c(release: i32) -> Option<Self> {
        match release {
            sys::CACHALOT_RELEASE_2_11 => Some(Self::V2_11),
            sys::CACHALOT_RELEASE_2_15 => Some(Self::V2_15),
            _ => None,
        }
    }

    pub(crate) fn to_c_or_default(release: Option<Self>) -> i32 {
        release.map_or(sys::CACHALOT_RELEASE_DEFAULT, Self::to_c)
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V2_11 => "2.11",
            Self::V2_15 => "2.15",
        })
    }
}
