// SPDX-License-Identifier: MIT OR Apache-2.0
//! The benchmark is benches/pair.rs.
