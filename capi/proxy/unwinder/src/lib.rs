// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stacks of this process's own threads: framehop behind a C interface (unwinder.h).
//!
//! Without Rust's standard library, so that the proxy gets nothing of it.
#![no_std]

extern crate alloc;

use alloc::boxed::Box;
use alloc::string::String;
use core::alloc::{GlobalAlloc, Layout};
use core::ops::Range;

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, Module, Unwinder};

extern "C" {
    fn aligned_alloc(alignment: usize, size: usize) -> *mut u8;
    fn free(memory: *mut u8);
    fn abort() -> !;
}

struct CAllocator;

// SAFETY: memory of the C library's, as large and as aligned as it is asked for.
unsafe impl GlobalAlloc for CAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let alignment = layout.align().max(core::mem::size_of::<usize>());
        let size = layout.size().next_multiple_of(alignment);
        // SAFETY: the size is a multiple of the alignment, which is a power of two.
        unsafe { aligned_alloc(alignment, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, _: Layout) {
        // SAFETY: it comes from `alloc`.
        unsafe { free(memory) }
    }
}

#[global_allocator]
static ALLOCATOR: CAllocator = CAllocator;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    // SAFETY: takes nothing.
    unsafe { abort() }
}

/// What the compiled `core` and `alloc` name and nothing calls: a panic aborts.
#[no_mangle]
pub extern "C" fn rust_eh_personality() {}

type Bytes = &'static [u8];

/// The code of a process.
pub struct Modules(UnwinderX86_64<Bytes>);

/// What a thread has found out about addresses.
pub struct Cache(CacheX86_64);

/// Where a library lies. All are addresses in this process, and sizes in bytes.
#[repr(C)]
pub struct Library {
    base: u64,
    begin: u64,
    end: u64,
    index: u64,
    index_size: u64,
    frames: u64,
    frames_size: u64,
}

/// # Safety
/// The range is memory that stays readable.
unsafe fn bytes(address: u64, size: u64) -> Bytes {
    // SAFETY: as the caller says.
    unsafe { core::slice::from_raw_parts(address as *const u8, size as usize) }
}

#[no_mangle]
pub extern "C" fn cachalot_unwinder_modules_new() -> *mut Modules {
    Box::into_raw(Box::new(Modules(UnwinderX86_64::new())))
}

/// # Safety
/// `modules` comes from `cachalot_unwinder_modules_new`, and nobody uses it any more.
#[no_mangle]
pub unsafe extern "C" fn cachalot_unwinder_modules_delete(modules: *mut Modules) {
    // SAFETY: as the caller says.
    drop(unsafe { Box::from_raw(modules) });
}

/// # Safety
/// Nobody else uses `modules` meanwhile, and the library stays loaded until it is deleted.
#[no_mangle]
pub unsafe extern "C" fn cachalot_unwinder_modules_add(modules: *mut Modules, library: &Library) {
    let own = |address: u64, size: u64| -> Range<u64> {
        let begin = address.wrapping_sub(library.base);
        begin..begin + size
    };
    // SAFETY: as the caller says.
    let (index, frames) = unsafe {
        (bytes(library.index, library.index_size), bytes(library.frames, library.frames_size))
    };
    let sections = ExplicitModuleSectionInfo {
        base_svma: 0,
        eh_frame_hdr_svma: Some(own(library.index, library.index_size)),
        eh_frame_hdr: Some(index),
        eh_frame_svma: Some(own(library.frames, library.frames_size)),
        eh_frame: Some(frames),
        ..Default::default()
    };
    let module = Module::new(String::new(), library.begin..library.end, library.base, sections);
    // SAFETY: as the caller says.
    unsafe { (*modules).0.add_module(module) }
}

#[no_mangle]
pub extern "C" fn cachalot_unwinder_cache_new() -> *mut Cache {
    Box::into_raw(Box::new(Cache(CacheX86_64::new())))
}

/// # Safety
/// `cache` comes from `cachalot_unwinder_cache_new`, and nobody uses it any more.
#[no_mangle]
pub unsafe extern "C" fn cachalot_unwinder_cache_delete(cache: *mut Cache) {
    // SAFETY: as the caller says.
    drop(unsafe { Box::from_raw(cache) });
}

/// # Safety
/// The thread is this one, `stack_end` the end of its stack, `frames` has room for `most`, and nobody else uses
/// `cache` or changes `modules` meanwhile.
#[no_mangle]
pub unsafe extern "C" fn cachalot_unwinder_walk(
    modules: *const Modules,
    cache: *mut Cache,
    registers: &[u64; 3],
    stack_end: u64,
    frames: *mut u64,
    most: usize,
) -> usize {
    let [instruction, stack, frame] = *registers;
    let mut read = |address: u64| {
        let is_of_stack =
            address >= stack && address.checked_add(8).is_some_and(|end| end <= stack_end);
        // SAFETY: between the thread's stack pointer and the end of its stack.
        is_of_stack.then(|| unsafe { (address as *const u64).read_unaligned() }).ok_or(())
    };
    // SAFETY: as the caller says.
    let (modules, cache) = unsafe { (&*modules, &mut *cache) };
    let registers = UnwindRegsX86_64::new(instruction, stack, frame);
    let mut walk = modules.0.iter_frames(instruction, registers, &mut cache.0, &mut read);
    let mut count = 0;
    while count < most {
        let Ok(Some(address)) = walk.next() else { break };
        // SAFETY: `count` is less than `most`.
        unsafe { frames.add(count).write(address.address()) };
        count += 1;
    }
    count
}
