// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a call failed.

use std::fmt;

use crate::sys;
use crate::types::Stream;

/// The result of everything here that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed.
///
/// A failed call has changed nothing, except where its text says so. Messages that PyTorch has too
/// are its own, word for word.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// An argument, an address or an option string is not acceptable.
    InvalidArgument(Box<str>),
    /// The call does not fit the present state: a pool that is not routed to, live blocks, a call
    /// from within a callback that runs under a lock.
    InvalidState(Box<str>),
    /// The chosen release, driver or build has no such thing.
    NotSupported(Box<str>),
    /// The device has not enough memory, or a limit refuses it. The allocator stays usable.
    OutOfMemory(Box<OutOfMemory>),
    /// The process has not enough ordinary memory for bookkeeping.
    OutOfHostMemory(Box<str>),
    /// The device driver reported an error.
    Driver(Box<DriverError>),
    /// No device driver could be opened.
    DriverUnavailable(Box<str>),
    /// A closure, reader or writer of the caller reported failure, which is the source.
    Callback(Box<CallbackError>),
    /// Input could not be read or is not well formed.
    Io(Box<str>),
    /// A defect of the library. Please report it.
    Internal(Box<str>),
    /// The library that is loaded has another binary interface than this crate was made for.
    IncompatibleLibrary {
        /// Major * 10000 + minor * 100 + patch of the header that this crate was made from.
        built_for: i32,
        /// The same of the library.
        found: i32,
    },
    /// A status that this crate does not know, of a newer library.
    Other {
        /// Its number.
        status: i32,
        /// What the library says of it.
        message: Box<str>,
    },
}

/// The numbers of a request that failed for want of device memory, in bytes where nothing else is
/// said. Stands for the numbers in `cachalot_error` and for `cachalot_out_of_memory`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct OutOfMemory {
    /// PyTorch's text; behind it a line of cachalot's with the largest free block and the options
    /// that would have made room. Empty for what an observer gets.
    pub message: String,
    /// The device asked for.
    pub device: i32,
    /// The stream asked for.
    pub stream: Stream,
    /// What was asked for.
    pub requested: u64,
    /// What would have been asked from the driver: the size of the new segment.
    pub segment_size: u64,
    /// Free on the device, as the driver says.
    pub device_free: u64,
    /// All that the device has.
    pub device_total: u64,
    /// The limit in force; `None` if there is none.
    pub limit: Option<u64>,
    /// Handed out.
    pub allocated: u64,
    /// Obtained from the driver.
    pub reserved: u64,
    /// Cached in private pools.
    pub private_pools_free: u64,
    /// The largest cached block of any pool and stream.
    pub largest_free_block: u64,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.message.is_empty() {
            return f.write_str(&self.message);
        }
        write!(
            f,
            "device {} has no {} bytes for stream {}",
            self.device, self.requested, self.stream
        )
    }
}

impl std::error::Error for OutOfMemory {}

/// An error that the device driver reported.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DriverError {
    /// The driver's own code.
    pub code: i32,
    /// What the library says of it.
    pub message: String,
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for DriverError {}

/// A failure of something that the caller gave: a reader, a writer, a closure of a replay.
#[derive(Debug)]
#[non_exhaustive]
pub struct CallbackError {
    /// What the library says of it.
    pub message: String,
    /// What the reader or writer said.
    pub source: Option<std::io::Error>,
}

impl fmt::Display for CallbackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CallbackError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

impl Error {
    /// The status of the C interface that this stands for: a `CACHALOT_ERROR_` number.
    pub fn status(&self) -> i32 {
        let status = match self {
            Self::InvalidArgument(_) => sys::CACHALOT_ERROR_INVALID_ARGUMENT,
            Self::InvalidState(_) => sys::CACHALOT_ERROR_INVALID_STATE,
            Self::NotSupported(_) | Self::IncompatibleLibrary { .. } => {
                sys::CACHALOT_ERROR_NOT_SUPPORTED
            }
            Self::OutOfMemory(_) => sys::CACHALOT_ERROR_OUT_OF_MEMORY,
            Self::OutOfHostMemory(_) => sys::CACHALOT_ERROR_OUT_OF_HOST_MEMORY,
            Self::Driver(_) => sys::CACHALOT_ERROR_DRIVER,
            Self::DriverUnavailable(_) => sys::CACHALOT_ERROR_DRIVER_UNAVAILABLE,
            Self::Callback(_) => sys::CACHALOT_ERROR_CALLBACK,
            Self::Io(_) => sys::CACHALOT_ERROR_IO,
            Self::Internal(_) => sys::CACHALOT_ERROR_INTERNAL,
            Self::Other { status, .. } => return *status,
        };
        status as i32
    }

    /// The numbers, if this is a want of device memory.
    pub fn out_of_memory(&self) -> Option<&OutOfMemory> {
        match self {
            Self::OutOfMemory(numbers) => Some(numbers),
            _ => None,
        }
    }

    /// The driver's code, if the driver reported this.
    pub fn driver_code(&self) -> Option<i32> {
        match self {
            Self::Driver(error) => Some(error.code),
            _ => None,
        }
    }

    pub(crate) fn of_status(status: sys::cachalot_status, message: String) -> Self {
        let message = message.into_boxed_str();
        match status {
            sys::CACHALOT_ERROR_INVALID_ARGUMENT => Self::InvalidArgument(message),
            sys::CACHALOT_ERROR_INVALID_STATE => Self::InvalidState(message),
            sys::CACHALOT_ERROR_NOT_SUPPORTED => Self::NotSupported(message),
            sys::CACHALOT_ERROR_OUT_OF_HOST_MEMORY => Self::OutOfHostMemory(message),
            sys::CACHALOT_ERROR_DRIVER_UNAVAILABLE => Self::DriverUnavailable(message),
            sys::CACHALOT_ERROR_IO => Self::Io(message),
            sys::CACHALOT_ERROR_INTERNAL => Self::Internal(message),
            sys::CACHALOT_ERROR_CALLBACK => {
                Self::Callback(Box::new(CallbackError { message: message.into(), source: None }))
            }
            _ => Self::Other { status: status as i32, message },
        }
    }

    /// Adds what a reader or writer said to the error of the call that it failed.
    pub(crate) fn with_source(self, source: Option<std::io::Error>) -> Self {
        match self {
            Self::Callback(mut error) => {
                error.source = source;
                Self::Callback(error)
            }
            other => other,
        }
    }

    pub(crate) fn state(message: &str) -> Self {
        Self::InvalidState(message.into())
    }

    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Self::InvalidArgument(message.into().into_boxed_str())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidArgument(message)
            | Self::InvalidState(message)
            | Self::NotSupported(message)
            | Self::OutOfHostMemory(message)
            | Self::DriverUnavailable(message)
            | Self::Io(message)
            | Self::Internal(message)
            | Self::Other { message, .. } => f.write_str(message),
            Self::OutOfMemory(error) => error.fmt(f),
            Self::Driver(error) => error.fmt(f),
            Self::Callback(error) => error.fmt(f),
            Self::IncompatibleLibrary { built_for, found } => write!(
                f,
                "the loaded libcachalot has version number {found}, this program was built for {built_for}"
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::OutOfMemory(error) => Some(&**error),
            Self::Driver(error) => Some(&**error),
            Self::Callback(error) => error.source.as_ref().map(|source| source as _),
            _ => None,
        }
    }
}
