// SPDX-License-Identifier: MIT OR Apache-2.0
//! The library that is linked is one that the bindings fit. (The layouts of all structs are looked at
//! when the bindings are compiled: they have static assertions.)

use cachalot_sys as sys;

#[test]
fn versions_and_statuses_are_those_of_the_library() {
    // SAFETY: the functions take nothing, or a struct of the size that it says.
    unsafe {
        assert_eq!(sys::cachalot_version_number() / 100, sys::CACHALOT_VERSION_NUMBER / 100);
        let mut row: sys::cachalot_status_description = std::mem::zeroed();
        row.struct_size = size_of::<sys::cachalot_status_description>();
        assert_eq!(sys::cachalot_status_at(0, &mut row), sys::CACHALOT_OK);
        assert_eq!(row.status, sys::CACHALOT_OK as i32);
        assert!(sys::cachalot_status_count() > 5);
    }
}

#[test]
fn a_block_by_the_raw_calls() {
    // SAFETY: all pointers are those of locals, and the structs are of the size that they say.
    unsafe {
        let mut driver = std::ptr::null_mut();
        let mut error: sys::cachalot_error = std::mem::zeroed();
        error.struct_size = size_of::<sys::cachalot_error>();
        let name = c"sim:1GiB".as_ptr();
        assert_eq!(sys::cachalot_driver_open(name, &mut driver, &mut error), sys::CACHALOT_OK);
        let mut options: sys::cachalot_allocator_options = std::mem::zeroed();
        options.struct_size = size_of::<sys::cachalot_allocator_options>();
        options.driver = driver;
        options.config = c"".as_ptr();
        let mut allocator = std::ptr::null_mut();
        let made = sys::cachalot_allocator_create(&options, &mut allocator, &mut error);
        assert_eq!(made, sys::CACHALOT_OK);
        let mut address = 0;
        let status = sys::cachalot_allocate(allocator, 512, 0, 0, &mut address, &mut error);
        assert_eq!((status, address), (sys::CACHALOT_OK, 0x7000_0000_0000));
        assert_eq!(sys::cachalot_free(allocator, address, &mut error), sys::CACHALOT_OK);
        assert_eq!(sys::cachalot_allocator_destroy(allocator, &mut error), sys::CACHALOT_OK);
        sys::cachalot_driver_destroy(driver);
    }
}
