// SPDX-License-Identifier: MIT OR Apache-2.0
//! libcachalot_onnxruntime.so: cachalot as ONNX Runtime's allocator.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::{self, NonNull};

use cachalot::Allocator;
use cachalot::sys;

#[repr(C)]
struct Options {
    struct_size: usize,
    allocator: *mut sys::cachalot_allocator,
    device: i32,
    reserved_0: i32,
    library: *const c_char,
}

#[repr(C)]
struct RawInfo {
    struct_size: usize,
    version: *const c_char,
    library: *const c_char,
    live_blocks: u64,
    requests: u64,
    reserves: u64,
    failures: u64,
}

unsafe extern "C" {
    fn cachalot_ort_register(
        options: *const Options,
        out_registered: *mut *mut c_void,
        error: *mut sys::cachalot_error,
    ) -> u32;
    fn cachalot_ort_unregister(registered: *mut c_void, error: *mut sys::cachalot_error) -> u32;
    fn cachalot_ort_get_info(
        registered: *const c_void,
        out_info: *mut RawInfo,
        error: *mut sys::cachalot_error,
    ) -> u32;
    fn cachalot_ort_last_failure(
        out_failure: *mut sys::cachalot_error,
        buffer: *mut c_char,
        capacity: usize,
        out_length: *mut usize,
    ) -> u32;
    fn cachalot_ort_forget_failure();
}

/// What ONNX Runtime has asked for so far.
pub struct Info {
    pub version: String,
    pub live_blocks: u64,
    pub requests: u64,
    pub reserves: u64,
    pub failures: u64,
}

/// An allocator that is ONNX Runtime's, until `close`, or until it is dropped where a start fails.
pub struct Registration {
    raw: NonNull<c_void>,
    /// Lives as long as it is registered; `None` afterwards.
    allocator: Option<Allocator>,
}

// SAFETY: the header allows all functions from any thread.
unsafe impl Send for Registration {}
// SAFETY: as above.
unsafe impl Sync for Registration {}

fn new_error() -> sys::cachalot_error {
    // SAFETY: zero is a value of every field.
    let mut error: sys::cachalot_error = unsafe { std::mem::zeroed() };
    error.struct_size = size_of::<sys::cachalot_error>();
    error
}

fn message(error: &sys::cachalot_error) -> String {
    // SAFETY: the message is an array that ends in a NUL.
    unsafe { CStr::from_ptr(error.message.as_ptr()) }.to_string_lossy().into_owned()
}

impl Registration {
    /// With the ONNX Runtime that the process has loaded.
    pub fn new(allocator: &Allocator) -> Result<Self, String> {
        let options = Options {
            struct_size: size_of::<Options>(),
            allocator: allocator.as_raw(),
            device: 0,
            reserved_0: 0,
            library: ptr::null(),
        };
        let mut raw = ptr::null_mut();
        let mut error = new_error();
        // SAFETY: all pointers are those of locals; the allocator is kept as long as it is registered.
        let status = unsafe { cachalot_ort_register(&options, &mut raw, &mut error) };
        match (status, NonNull::new(raw)) {
            (sys::CACHALOT_OK, Some(raw)) => Ok(Self { raw, allocator: Some(allocator.clone()) }),
            _ => Err(message(&error)),
        }
    }

    /// Takes the allocator back; an error if ONNX Runtime still has memory of it.
    pub fn close(mut self) -> Result<(), String> {
        self.unregister()
    }

    fn unregister(&mut self) -> Result<(), String> {
        let Some(allocator) = self.allocator.take() else { return Ok(()) };
        let mut error = new_error();
        // SAFETY: it is registered, and not used afterwards.
        let status = unsafe { cachalot_ort_unregister(self.raw.as_ptr(), &mut error) };
        if status == sys::CACHALOT_OK {
            return Ok(());
        }
        std::mem::forget(allocator); // ONNX Runtime still calls it
        Err(message(&error))
    }

    pub fn info(&self) -> Info {
        let mut raw = RawInfo {
            struct_size: size_of::<RawInfo>(),
            version: c"".as_ptr(),
            library: c"".as_ptr(),
            live_blocks: 0,
            requests: 0,
            reserves: 0,
            failures: 0,
        };
        // SAFETY: it is registered, and the record is a local of the size that it says. Its texts live as
        // long as the process.
        let version = unsafe {
            cachalot_ort_get_info(self.raw.as_ptr(), &mut raw, ptr::null_mut());
            CStr::from_ptr(raw.version)
        };
        Info {
            version: version.to_string_lossy().into_owned(),
            live_blocks: raw.live_blocks,
            requests: raw.requests,
            reserves: raw.reserves,
            failures: raw.failures,
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Err(error) = self.unregister() {
            eprintln!("{error}");
        }
    }
}

/// A request of ONNX Runtime's that failed.
pub struct Exhausted {
    /// cachalot's message.
    pub error: String,
    /// Who held what at that moment.
    pub report: String,
}

/// Forgets what failed on this thread.
pub fn forget_failure() {
    // SAFETY: it has no conditions.
    unsafe { cachalot_ort_forget_failure() };
}

/// What failed on this thread since then, if anything did.
pub fn last_failure() -> Option<Exhausted> {
    let mut error = new_error();
    let mut length = 0;
    // SAFETY: the pointers are those of locals.
    let status = unsafe { cachalot_ort_last_failure(&mut error, ptr::null_mut(), 0, &mut length) };
    if status != sys::CACHALOT_OK {
        return None;
    }
    let mut report = vec![0u8; length + 1];
    // SAFETY: the buffer is as long as it says. The failure is the thread's, so it is the same.
    unsafe {
        cachalot_ort_last_failure(
            ptr::null_mut(),
            report.as_mut_ptr().cast(),
            report.len(),
            &mut length,
        )
    };
    report.truncate(length);
    Some(Exhausted {
        error: message(&error),
        report: String::from_utf8_lossy(&report).into_owned(),
    })
}
