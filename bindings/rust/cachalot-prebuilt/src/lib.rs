// SPDX-License-Identifier: MIT OR Apache-2.0
//! The library of cachalot, built: a part of the crate `cachalot-sys`, whose feature `prebuilt` links
//! it.
#![no_std]

/// The folder with `TARGET/libcachalot.a`, a static library for each target that there is one for.
pub const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/lib");
