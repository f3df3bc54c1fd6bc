// SPDX-License-Identifier: MIT OR Apache-2.0
//! The step from a status to a `Result`, and other small change of the C interface.

use std::ffi::{CStr, CString, c_char};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::callback;
use crate::error::{DriverError, Error, OutOfMemory, Result};
use crate::sys;
use crate::types::Stream;

/// Makes a call that takes a `cachalot_error*` last.
///
/// Afterwards what callbacks put off during the call is done (see `callback`).
#[inline]
pub(crate) fn call(
    function: impl FnOnce(*mut sys::cachalot_error) -> sys::cachalot_status,
) -> Result<()> {
    let mut record = MaybeUninit::<sys::cachalot_error>::uninit();
    // SAFETY: the pointer is that of a live local; only its first field is written.
    unsafe {
        (&raw mut (*record.as_mut_ptr()).struct_size).write(size_of::<sys::cachalot_error>())
    };
    let status = function(record.as_mut_ptr());
    callback::do_deferred();
    if status == sys::CACHALOT_OK {
        return Ok(());
    }
    // SAFETY: a call that fails has filled the record.
    Err(unsafe { error_of(status, &record) })
}

/// # Safety
/// The record is filled but for what stands behind the NUL of its message.
#[cold]
#[inline(never)]
unsafe fn error_of(
    status: sys::cachalot_status,
    record: &MaybeUninit<sys::cachalot_error>,
) -> Error {
    let record = record.as_ptr();
    // SAFETY: the message is filled up to its NUL.
    let message = unsafe { string_of((&raw const (*record).message).cast()) };
    match status {
        sys::CACHALOT_ERROR_DRIVER => {
            // SAFETY: the field is filled.
            let code = unsafe { (*record).driver_code };
            Error::Driver(Box::new(DriverError { code, message }))
        }
        sys::CACHALOT_ERROR_OUT_OF_MEMORY => {
            // SAFETY: all fields before the message are filled.
            let numbers = unsafe {
                OutOfMemory {
                    message,
                    device: (*record).device,
                    stream: Stream((*record).stream),
                    requested: (*record).requested,
                    segment_size: (*record).segment_size,
                    device_free: (*record).device_free,
                    device_total: (*record).device_total,
                    limit: some_if_set((*record).limit),
                    allocated: (*record).allocated,
                    reserved: (*record).reserved,
                    private_pools_free: (*record).private_pools_free,
                    largest_free_block: (*record).largest_free_block,
                }
            };
            Error::OutOfMemory(Box::new(numbers))
        }
        _ => Error::of_status(status, message),
    }
}

/// Makes a call that answers with a status alone.
pub(crate) fn check(status: sys::cachalot_status) -> Result<()> {
    if status == sys::CACHALOT_OK {
        return Ok(());
    }
    let text = crate::status_descriptions()
        .find(|row| row.status == status as i32)
        .map_or_else(|| format!("status {status}"), |row| row.text.to_owned());
    Err(Error::of_status(status, text))
}

/// 0 where the interface means "none".
pub(crate) fn some_if_set(value: u64) -> Option<u64> {
    (value != 0).then_some(value)
}

/// A struct of the C interface that begins with its size.
///
/// # Safety
/// The first field is `struct_size: usize`, and zero bytes are a valid value.
pub(crate) unsafe trait Sized: Copy {}

macro_rules! sized {
    ($($name:ident)*) => { $(
        // SAFETY: the header says so of each transparent struct: integers, floats, pointers and
        // optional functions, with the size first.
        unsafe impl Sized for sys::$name {}
    )* };
}
sized!(cachalot_status_description cachalot_capture_info cachalot_device_ops);
sized!(cachalot_allocator_options cachalot_request cachalot_block cachalot_device_totals);
sized!(cachalot_settings cachalot_pool_source cachalot_pool_options cachalot_pool_route);
sized!(cachalot_reserve cachalot_stats cachalot_pool_stats cachalot_label_stats);
sized!(cachalot_history_options cachalot_trace_entry cachalot_snapshot_options);
sized!(cachalot_segment_row cachalot_block_row cachalot_sim_options cachalot_sim_failure);
sized!(cachalot_tenant_options cachalot_tenant_stats cachalot_report_options);
sized!(cachalot_report_numbers cachalot_report_holder cachalot_report_reason);
sized!(cachalot_policy cachalot_policy_stats cachalot_pinned_stats);
sized!(cachalot_recorder_options cachalot_recorder_stats cachalot_oom_dump_options);
sized!(cachalot_trace_info cachalot_trace_event cachalot_trace_frame);
sized!(cachalot_sleep_stats);
sized!(cachalot_checkpoint_row cachalot_replay_options cachalot_replay_result cachalot_replay_call);

/// All zero, but for the size.
pub(crate) fn sized<T: Sized>() -> T {
    // SAFETY: zero bytes are a valid value of such a struct, and its first field is the size.
    unsafe {
        let mut value = MaybeUninit::<T>::zeroed();
        value.as_mut_ptr().cast::<usize>().write(size_of::<T>());
        value.assume_init()
    }
}

/// Rows that are asked for one by one until there is none.
pub(crate) fn rows<T: Sized, R>(
    count: usize,
    read: impl Fn(usize, *mut T) -> Result<()>,
    convert: impl Fn(&T) -> R,
) -> Result<Vec<R>> {
    (0..count)
        .map(|index| {
            let mut row = sized::<T>();
            read(index, &mut row)?;
            Ok(convert(&row))
        })
        .collect()
}

/// A text of unknown length, written like `snprintf`.
pub(crate) fn text(
    mut write: impl FnMut(*mut c_char, usize, *mut usize) -> Result<()>,
) -> Result<String> {
    let mut buffer = vec![0u8; 512];
    loop {
        let mut length = 0;
        write(buffer.as_mut_ptr().cast(), buffer.len(), &mut length)?;
        if length < buffer.len() {
            buffer.truncate(length);
            return Ok(String::from_utf8(buffer)
                .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()));
        }
        buffer.resize(length + 1, 0);
    }
}

/// # Safety
/// `text` is NULL or ends in a NUL.
pub(crate) unsafe fn string_of(text: *const c_char) -> String {
    // SAFETY: as the caller promises.
    unsafe { str_of(text) }.into_owned()
}

/// # Safety
/// `text` is NULL or ends in a NUL, and stays what it is for `'a`.
pub(crate) unsafe fn str_of<'a>(text: *const c_char) -> std::borrow::Cow<'a, str> {
    if text.is_null() {
        return "".into();
    }
    // SAFETY: as the caller promises.
    unsafe { CStr::from_ptr(text) }.to_string_lossy()
}

/// A text of the caller's, which must have no NUL inside.
pub(crate) fn c_string(text: &str, name: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::argument(format!("{name} has a NUL inside")))
}

/// Whether the library that is loaded is one that this crate was made for. Asked before the first
/// object of a kind is made.
pub(crate) fn check_library() -> Result<()> {
    static CHECKED: AtomicBool = AtomicBool::new(false);
    if CHECKED.load(Ordering::Relaxed) {
        return Ok(());
    }
    let found = crate::library_version_number();
    check_version(found)?;
    CHECKED.store(true, Ordering::Relaxed);
    Ok(())
}

/// Before version 1 a minor version may break the binary interface; a patch never does.
fn check_version(found: i32) -> Result<()> {
    let built_for = sys::CACHALOT_VERSION_NUMBER;
    if found / 100 != built_for / 100 {
        return Err(Error::IncompatibleLibrary { built_for, found });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_minor_version_is_refused_without_a_panic() {
        let built_for = sys::CACHALOT_VERSION_NUMBER;
        assert!(check_version(built_for).is_ok());
        assert!(check_version(built_for + 1).is_ok());
        let error = check_version(built_for + 100).unwrap_err();
        assert!(matches!(error, Error::IncompatibleLibrary { .. }));
        assert!(error.to_string().contains(&format!("built for {built_for}")));
    }

    #[test]
    fn texts_of_any_length_come_whole() {
        for length in [0, 1, 511, 512, 513, 5000] {
            let whole = "x".repeat(length);
            let text = text(|buffer, capacity, out| {
                let copied = length.min(capacity - 1);
                // SAFETY: the buffer has room for capacity bytes, and out is a live local.
                unsafe {
                    buffer.cast::<u8>().copy_from(whole.as_ptr(), copied);
                    *out = length;
                }
                Ok(())
            });
            assert_eq!(text.unwrap(), whole);
        }
    }
}
