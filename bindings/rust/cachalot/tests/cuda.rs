// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `cuda` driver and the feature `cudarc`, where there is a GPU. Else the tests say that they are
//! skipped, and fail where `CACHALOT_GPU_TESTS` promises one.

use cachalot::{Allocator, Driver};

/// A CUDA driver, or why there is none.
fn driver() -> Option<Driver> {
    match Driver::open("cuda") {
        Ok(driver) => Some(driver),
        Err(error) => {
            let promised = std::env::var("CACHALOT_GPU_TESTS").is_ok_and(|value| value != "0");
            assert!(!promised, "a GPU was promised: {error}");
            println!("skipped: {error}");
            None
        }
    }
}

fn allocator() -> Option<Allocator> {
    Some(Allocator::builder().driver(driver()?).config("").build().unwrap())
}

#[test]
fn a_block_on_a_gpu() {
    let Some(allocator) = allocator() else { return };
    let block = allocator.allocate(64 << 20, 0, 0).unwrap();
    let totals = allocator.device_totals(0).unwrap();
    assert!(block.address() != 0 && totals.used >= 64 << 20);
    drop(block);
    allocator.empty_cache().unwrap();
    assert_eq!(allocator.memory_reserved(0), 0);
    let error = allocator.allocate(1 << 50, 0, 0).unwrap_err();
    assert!(error.to_string().starts_with("CUDA out of memory."), "{error}");
    allocator.check().unwrap();
}

#[cfg(feature = "cudarc")]
mod slices {
    use cachalot::cuda::cudarc::driver::{CudaContext, CudaSlice};
    use cachalot::cuda::{CudaBlock, stream_of};
    use cachalot::{Address, Allocator, Driver, Error, PoolOptions, PoolSource, Route, Stream};

    /// What is passed to a function of a user's that knows cudarc only.
    fn length(slice: &CudaSlice<f32>) -> usize {
        slice.len()
    }

    #[test]
    fn slices_lie_in_blocks_and_go_back() {
        let Some(allocator) = super::allocator() else { return };
        let context = CudaContext::new(0).unwrap();
        let first = context.new_stream().unwrap();
        let second = context.new_stream().unwrap();
        let host: Vec<f32> = (0..1 << 20).map(|number| number as f32).collect();
        let mut addresses = Vec::new();
        for round in 0..10 {
            let mut zeros = CudaBlock::<f32>::zeros(&allocator, &first, host.len()).unwrap();
            let copy = CudaBlock::copy_of(&allocator, &first, &host).unwrap();
            assert_eq!(length(&copy), host.len());
            assert_eq!(copy.block().info().unwrap().stream, stream_of(&first));
            // Another stream reads and writes; cudarc's events order that.
            second.memcpy_dtod(&copy, &mut zeros.as_view_mut()).unwrap();
            assert_eq!(second.clone_dtoh(&*zeros).unwrap(), host);
            let part = host[5..10].to_vec();
            first.memcpy_htod(&part, &mut zeros.slice_mut(0..5)).unwrap();
            assert_eq!(first.clone_dtoh(&*zeros).unwrap()[..5], part);
            if round == 0 {
                addresses = vec![zeros.block().address(), copy.block().address()];
            }
            assert_eq!(addresses, [zeros.block().address(), copy.block().address()]);
        }
        let stats = allocator.stats(0).unwrap();
        assert_eq!((stats.allocation.all.allocated, stats.allocation.all.current), (20, 0));
        assert_eq!(stats.num_device_alloc, 1, "slices came from the cache");
        // Had cudarc freed a slice, giving the segment back would fail.
        allocator.empty_cache().unwrap();
        first.synchronize().unwrap();
        second.synchronize().unwrap();
        context.check_err().unwrap();
        allocator.check().unwrap();
    }

    #[test]
    fn pinned_blocks_are_copied_from_and_to() {
        let Some(driver) = super::driver() else { return };
        let cached_as_a_devices = Allocator::builder().driver(&driver).config("").pinned_config("");
        for allocator in [super::allocator().unwrap(), cached_as_a_devices.build().unwrap()] {
            let stream = CudaContext::new(0).unwrap().new_stream().unwrap();
            let size = 32 << 20;
            let numbers: Vec<u8> = (0..size).map(|number| (number % 251) as u8).collect();
            let mut from = allocator.allocate_pinned_copy(&numbers).unwrap();
            let mut to = allocator.allocate_pinned(size).unwrap();
            let mut slice = CudaBlock::<u8>::zeros(&allocator, &stream, numbers.len()).unwrap();
            // Whole blocks: the copies are done when the calls return.
            stream.memcpy_htod(&from, &mut slice).unwrap();
            from.fill(0);
            stream.memcpy_dtoh(&*slice, &mut to).unwrap();
            assert!(*to == *numbers);
            // A slice of one: the stream may still read it when the block is dropped.
            from.copy_from_slice(&numbers);
            to.fill(0);
            stream.memset_zeros(&mut slice).unwrap();
            let address = from.address();
            stream.memcpy_htod(&from[..], &mut slice).unwrap();
            from.record_stream(0, stream_of(&stream)).unwrap();
            drop(from);
            drop(allocator.allocate_pinned(size).unwrap()); // zeros, in other memory or afterwards
            stream.memcpy_dtoh(&*slice, &mut to).unwrap();
            assert!(*to == *numbers);
            let blocks = [(); 2].map(|()| allocator.allocate_pinned_uninit(size).unwrap());
            assert!(blocks.iter().any(|block| block.address() == address));
            drop((blocks, to, slice));
            allocator.empty_pinned_cache().unwrap();
            assert_eq!(allocator.pinned_stats().unwrap().allocations.current, 0);
            allocator.check().unwrap();
        }
    }

    #[test]
    fn memory_of_another_kind_is_refused() {
        let driver = Driver::open("sim:1GiB").unwrap();
        let allocator = Allocator::builder().driver(driver).config("").build().unwrap();
        if super::driver().is_none() {
            return;
        }
        let stream = CudaContext::new(0).unwrap().default_stream();
        let refused = CudaBlock::<u8>::zeros(&allocator, &stream, 16);
        assert!(matches!(refused, Err(Error::InvalidArgument(_))));
    }

    /// A source that names an address of nobody's.
    struct Nowhere;

    impl PoolSource for Nowhere {
        fn allocate(&self, _size: u64, _device: i32, _stream: Stream) -> Option<Address> {
            Some(0x10_0000_0000)
        }

        fn free(&self, _address: Address, _size: u64, _device: i32, _stream: Stream) {}
    }

    #[test]
    fn memory_of_a_pools_source_is_refused() {
        let Some(allocator) = super::allocator() else { return };
        let stream = CudaContext::new(0).unwrap().default_stream();
        let pool = allocator.create_pool(0, PoolOptions::new().source(Nowhere)).unwrap();
        {
            let _scope = pool.route(Route::All).unwrap();
            let refused = CudaBlock::<u8>::zeros(&allocator, &stream, 16);
            assert!(matches!(refused, Err(Error::InvalidArgument(_))));
            assert_eq!(allocator.memory_allocated(0), 0);
        }
        assert!(CudaBlock::<u8>::zeros(&allocator, &stream, 16).is_ok());
    }
}
