# SPDX-License-Identifier: MIT OR Apache-2.0
# Rust, with the library that was built before: what a new user types, in an empty folder with the program.
cargo new --quiet --vcs none --name first program
cd program
cargo add --quiet cachalot --features prebuilt
cp ../main.rs src
cargo run --quiet
