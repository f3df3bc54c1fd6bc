// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a thread says of what it does: labels, and a text for its history entries.

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;

use crate::error::Result;
use crate::ffi;
use crate::scope::Scopes;
use crate::sys;

thread_local! {
    static LABELS: RefCell<Scopes<()>> = const { RefCell::new(Scopes::new()) };
}

/// A label on the calling thread as long as this lives: what the thread allocates in between counts
/// for it, in every allocator. Labels nest ("model-a/kv-cache").
///
/// ```
/// # use cachalot::{Allocator, Driver};
/// use cachalot::Label;
///
/// let allocator =
///     Allocator::builder().driver(Driver::open("sim:1GiB")?).track_labels(true).build()?;
/// let model = Label::push("model-a")?;
/// let cache = {
///     let _label = Label::push("kv-cache")?;
///     allocator.allocate(1 << 20, 0, 0)?
/// };
/// drop(model);
/// assert_eq!(allocator.label_stats(0)?[0].label, "model-a/kv-cache");
/// # Ok::<(), cachalot::Error>(())
/// ```
///
/// Guards may be dropped in any order: a label ends when its own guard and all that were made after
/// it are gone.
#[must_use = "the label is taken away when this is dropped"]
pub struct Label {
    number: u64,
    /// Labels belong to a thread.
    _thread: PhantomData<Rc<()>>,
}

impl Label {
    /// Puts a label on the calling thread. Stands for `cachalot_label_push`, and dropping it for
    /// `cachalot_label_pop`.
    ///
    /// # Errors
    /// `InvalidArgument` for an empty text or one with a NUL inside.
    pub fn push(label: &str) -> Result<Self> {
        ffi::check_library()?;
        let label = ffi::c_string(label, "the label")?;
        // SAFETY: the text ends in a NUL and lives until the call returns.
        ffi::call(|error| unsafe { sys::cachalot_label_push(label.as_ptr(), error) })?;
        let number = LABELS.with_borrow_mut(|labels| labels.begin(()));
        Ok(Self { number, _thread: PhantomData })
    }

    /// Runs a closure under a label.
    ///
    /// # Errors
    /// As [`Label::push`].
    pub fn with<R>(label: &str, function: impl FnOnce() -> R) -> Result<R> {
        let _label = Self::push(label)?;
        Ok(function())
    }
}

impl Drop for Label {
    fn drop(&mut self) {
        let ended =
            LABELS.try_with(|labels| labels.borrow_mut().end(self.number)).unwrap_or_default();
        for () in ended {
            // SAFETY: the call takes no pointer but the error's.
            let _ = ffi::call(|error| unsafe { sys::cachalot_label_pop(error) });
        }
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Label")
    }
}

/// The text that the calling thread's later history entries carry, in every allocator; `""`: none.
/// Stands for `cachalot_set_metadata`.
///
/// # Errors
/// `InvalidArgument` for a text with a NUL inside.
pub fn set_metadata(text: &str) -> Result<()> {
    ffi::check_library()?;
    let text = ffi::c_string(text, "the metadata")?;
    // SAFETY: the text ends in a NUL and lives until the call returns.
    ffi::call(|error| unsafe { sys::cachalot_set_metadata(text.as_ptr(), error) })
}
