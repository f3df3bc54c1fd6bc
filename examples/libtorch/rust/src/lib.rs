// SPDX-License-Identifier: MIT OR Apache-2.0
//! libcachalot_libtorch.so: cachalot as libtorch's allocator, under `tch`.

use std::ffi::{CStr, c_char};

use cachalot::{Allocator, Release, sys};

#[repr(C)]
struct RawInfo {
    struct_size: usize,
    major: i32,
    minor: i32,
    patch: i32,
    release: i32,
    library: *const c_char,
}

unsafe extern "C" {
    fn cachalot_libtorch_find(out_info: *mut RawInfo, error: *mut sys::cachalot_error) -> u32;
    fn cachalot_libtorch_install(
        allocator: *mut sys::cachalot_allocator,
        flags: u32,
        error: *mut sys::cachalot_error,
    ) -> u32;
}

/// Makes a call that takes a `cachalot_error*` last.
fn call(function: impl FnOnce(*mut sys::cachalot_error) -> u32) -> Result<(), String> {
    // SAFETY: zero is a value of every field.
    let mut error: sys::cachalot_error = unsafe { std::mem::zeroed() };
    error.struct_size = size_of::<sys::cachalot_error>();
    if function(&mut error) == sys::CACHALOT_OK {
        return Ok(());
    }
    // SAFETY: the message is an array that ends in a NUL.
    Err(unsafe { CStr::from_ptr(error.message.as_ptr()) }.to_string_lossy().into_owned())
}

/// The release of PyTorch that is loaded, for [`cachalot::AllocatorBuilder::release`]; `None`: one that cachalot does
/// not have.
pub fn release() -> Result<Option<Release>, String> {
    // SAFETY: zero is a value of every field.
    let mut info: RawInfo = unsafe { std::mem::zeroed() };
    info.struct_size = size_of::<RawInfo>();
    // SAFETY: the pointers are those of locals.
    call(|error| unsafe { cachalot_libtorch_find(&mut info, error) })?;
    Ok(match info.release {
        211 => Some(Release::V2_11),
        215 => Some(Release::V2_15),
        _ => None,
    })
}

/// `CACHALOT_LIBTORCH_ANY_DRIVER`: memory of another driver than `cuda`, for tests without a GPU.
const ANY_DRIVER: u32 = 2;

/// Makes an allocator that of libtorch's CUDA memory, before its first use of CUDA and for the rest of the process.
pub fn install(allocator: &Allocator) -> Result<(), String> {
    let flags = if std::env::var_os("CACHALOT_DRIVER").is_some() { ANY_DRIVER } else { 0 };
    // SAFETY: the allocator is never destroyed from here on.
    call(|error| unsafe { cachalot_libtorch_install(allocator.as_raw(), flags, error) })?;
    std::mem::forget(allocator.clone());
    Ok(())
}
