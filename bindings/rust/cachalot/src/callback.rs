// SPDX-License-Identifier: MIT OR Apache-2.0
//! What happens while the library calls a closure of the caller's.
//!
//! Note [Callbacks]
//! Rationale: some callbacks run with a lock of the library held (observers of traces, predicates of
//! routes, sources of pools, logs, functions of custom drivers, and whatever drops a closure). From
//! within them the library must not be called, or the thread waits for itself. A closure cannot be
//! kept from dropping a block, though, so a drop must work anywhere.
//! Approach: a number of the thread counts these callbacks. While it is above 0 an allocator refuses
//! calls with `InvalidState`, and drops are put off; they are done when the call of the library that
//! led to the callback has returned. One word of the thread tells both, so that a hit reads it once
//! before and once after the call.
//! Panics end here: they have been printed by then, and the library gets what stands for failure.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// In `STATE`: something was put off.
const DEFERRED: u32 = 1;
/// In `STATE`: one callback under a lock.
const LOCKED: u32 = 2;

thread_local! {
    static STATE: Cell<u32> = const { Cell::new(0) };
    static QUEUE: RefCell<Vec<Box<dyn FnOnce()>>> = const { RefCell::new(Vec::new()) };
}

/// Whether this thread is inside of a callback that runs under a lock.
#[inline]
pub(crate) fn is_locked() -> bool {
    STATE.get() >= LOCKED
}

/// Runs a callback of the caller's under a lock of the library; `None` if it panicked.
pub(crate) fn run_locked<R>(callback: impl FnOnce() -> R) -> Option<R> {
    STATE.set(STATE.get() + LOCKED);
    let result = run(callback);
    STATE.set(STATE.get() - LOCKED);
    result
}

/// Runs a callback of the caller's while no lock is held; `None` if it panicked.
pub(crate) fn run<R>(callback: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(callback)) {
        Ok(result) => Some(result),
        Err(payload) => {
            // A payload whose drop panics would unwind into C.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
            None
        }
    }
}

/// Puts something off until the call of the library that led to this callback has returned.
pub(crate) fn defer(action: impl FnOnce() + 'static) {
    let mut action = Some(action);
    let _ = QUEUE.try_with(|queue| {
        let action = action.take().expect("it is taken once");
        queue.borrow_mut().push(Box::new(action));
    });
    // Else the thread is ending, and so is what was put off: it is forgotten, as running it could
    // wait for ever.
    std::mem::forget(action);
    STATE.set(STATE.get() | DEFERRED);
}

/// Puts it off where a lock is held, and else does it.
pub(crate) fn now_or_later(action: impl FnOnce() + 'static) {
    if is_locked() { defer(action) } else { action() }
}

/// Does what was put off, if there is something and no lock is held.
#[inline]
pub(crate) fn do_deferred() {
    if STATE.get() == DEFERRED {
        do_all_deferred();
    }
}

#[cold]
#[inline(never)]
fn do_all_deferred() {
    STATE.set(STATE.get() & !DEFERRED);
    let actions = QUEUE.try_with(RefCell::take).unwrap_or_default();
    for action in actions {
        action();
    }
}

/// Drops a box that was given to the library with `Box::into_raw`; the `destroy` of callbacks.
///
/// # Safety
/// `user_data` is such a box of this type, and is not used afterwards.
pub(crate) unsafe extern "C" fn drop_box<T>(user_data: *mut c_void) {
    run_locked(|| {
        // SAFETY: as the caller promises.
        drop(unsafe { Box::from_raw(user_data.cast::<T>()) });
    });
}

/// What a callback of the library gets as its user data.
///
/// # Safety
/// `user_data` points to a live `T`, which nobody else changes.
pub(crate) unsafe fn user<'a, T>(user_data: *mut c_void) -> &'a T {
    // SAFETY: as the caller promises.
    unsafe { &*user_data.cast::<T>() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn what_is_put_off_is_done_after_the_outermost_callback() {
        let done = Rc::new(Cell::new(0));
        let seen = done.clone();
        run_locked(|| {
            run_locked(|| defer(move || seen.set(seen.get() + 1)));
            do_deferred();
            assert_eq!(done.get(), 0);
            assert!(is_locked());
        });
        assert!(!is_locked());
        do_deferred();
        do_deferred();
        assert_eq!(done.get(), 1);
    }

    #[test]
    fn a_panic_ends_at_the_boundary() {
        assert_eq!(run_locked(|| -> u32 { std::panic::panic_any("expected") }), None);
        assert!(!is_locked());
    }
}
