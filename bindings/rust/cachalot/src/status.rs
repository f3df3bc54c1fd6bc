// SPDX-License-Identifier: MIT OR Apache-2.0
//! Versions and statuses.

use crate::ffi;
use crate::sys;

/// The version of the library that is loaded. Stands for `cachalot_version`.
pub fn library_version() -> String {
    // SAFETY: the function takes nothing; its text lives as long as the library.
    unsafe { ffi::string_of(sys::cachalot_version()) }
}

/// The same as a number, major * 10000 + minor * 100 + patch. Stands for `cachalot_version_number`.
pub fn library_version_number() -> i32 {
    // SAFETY: the function takes nothing.
    unsafe { sys::cachalot_version_number() }
}

/// The name of a status, for example "OUT_OF_MEMORY"; "UNKNOWN" for a number that is none. Stands for
/// `cachalot_status_name`.
pub fn status_name(status: i32) -> &'static str {
    // SAFETY: the function takes any number; its texts live as long as the library.
    match unsafe { ffi::str_of(sys::cachalot_status_name(status)) } {
        std::borrow::Cow::Borrowed(name) => name,
        std::borrow::Cow::Owned(_) => "UNKNOWN",
    }
}

/// One status of the C interface. Stands for `cachalot_status_description`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StatusDescription {
    /// Its number, as [`Error::status`](crate::Error::status) gives it.
    pub status: i32,
    /// Its name, for example "OUT_OF_MEMORY".
    pub name: &'static str,
    /// One sentence.
    pub text: &'static str,
}

/// All statuses that the library knows, in ascending order of their numbers. Stands for
/// `cachalot_status_count` and `cachalot_status_at`.
pub fn status_descriptions() -> impl Iterator<Item = StatusDescription> {
    // SAFETY: the function takes nothing.
    let count = unsafe { sys::cachalot_status_count() };
    (0..count).filter_map(|index| {
        let mut row = ffi::sized::<sys::cachalot_status_description>();
        // SAFETY: the row is a local of the size that it says.
        let status = unsafe { sys::cachalot_status_at(index, &mut row) };
        if status != sys::CACHALOT_OK {
            return None;
        }
        // SAFETY: the texts live as long as the library.
        let (name, text) = unsafe { (ffi::str_of(row.name), ffi::str_of(row.text)) };
        match (name, text) {
            (std::borrow::Cow::Borrowed(name), std::borrow::Cow::Borrowed(text)) => {
                Some(StatusDescription { status: row.status, name, text })
            }
            _ => None,
        }
    })
}
