// SPDX-License-Identifier: MIT OR Apache-2.0
//! Raw bindings to the C interface of cachalot, as `bindgen` writes them.
//!
//! Every function, type and constant of `cachalot/cachalot.h` has the name that it has there, with
//! the header's own text. The crate `cachalot` is the safe interface; this one is for other
//! bindings, and for programs that mix both.
//!
//! # Where the library comes from
//!
//! 1. The folder that the environment variable `CACHALOT_LIB_DIR` names, if it is set.
//! 2. With the feature `bundled` the library's source inside of this crate, which a C++20 compiler builds.
//! 3. With the feature `prebuilt` the library in the crate `cachalot-prebuilt`, for
//!    `x86_64-unknown-linux-gnu` and `aarch64-unknown-linux-gnu` with glibc 2.27 or newer. For another
//!    target the build ends with an error.
//! 4. Without these two features what `pkg-config` finds, if the version fits, and else the source.
//!
//! A library that is found by 1 or 4 is linked as the shared one, or statically with the feature
//! `static`; all others are linked statically. `DEP_CACHALOT_LIB_DIR` tells the build scripts of
//! crates that depend on this one directly where the library lies.
//!
//! # Example
//!
//! ```
//! // SAFETY: the function takes nothing, and may be called at any time.
//! let number = unsafe { cachalot_sys::cachalot_version_number() };
//! assert_eq!(number / 100, cachalot_sys::CACHALOT_VERSION_NUMBER / 100);
//! ```
#![no_std]
#![allow(non_camel_case_types, clippy::doc_lazy_continuation, clippy::doc_overindented_list_items)]
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags, rustdoc::bare_urls)]

// Generated: as the generator writes it.
#[rustfmt::skip]
#[allow(clippy::undocumented_unsafe_blocks)]
mod bindings;

pub use bindings::*;
