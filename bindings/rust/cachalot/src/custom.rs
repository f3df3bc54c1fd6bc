// SPDX-License-Identifier: MIT OR Apache-2.0
//! Drivers of the caller's own.
