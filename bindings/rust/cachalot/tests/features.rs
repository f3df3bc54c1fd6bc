// SPDX-License-Identifier: MIT OR Apache-2.0
//! The features `serde` and `allocator-api2`.

#[cfg(feature = "serde")]
mod serde {
    use cachalot::{
        Allocator, Driver, HistoryOptions, ReportData, ReportOptions, SnapshotData, Stats,
    };

    #[test]
    fn plain_data_comes_back_as_it_was() {
        let driver = Driver::open("sim:1GiB").unwrap();
        let allocator = Allocator::builder().driver(driver).config("").build().unwrap();
        allocator.record_history(&HistoryOptions::recording(10)).unwrap();
        let _block = allocator.allocate(5 << 20, 0, 0x10).unwrap();
        let stats = allocator.stats(0).unwrap();
        let text = serde_json::to_string(&stats).unwrap();
        assert_eq!(serde_json::from_str::<Stats>(&text).unwrap(), stats);
        let snapshot = allocator.snapshot().unwrap();
        let text = serde_json::to_string(&snapshot).unwrap();
        let data: SnapshotData = serde_json::from_str(&text).unwrap();
        assert_eq!(data, snapshot.to_data());
        assert_eq!((data.segments.len(), data.history[0].len()), (1, 2));
        let report = allocator.report(&ReportOptions::device(0)).unwrap();
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<ReportData>(&text).unwrap(), report.to_data());
    }
}

#[cfg(feature = "allocator-api2")]
mod host {
    use allocator_api2::alloc::{Allocator as _, Layout};
    use allocator_api2::boxed::Box;
    use allocator_api2::vec::Vec;
    use cachalot::host::HostAllocator;

    #[test]
    fn collections_live_in_blocks() {
        let host = HostAllocator::new(64 << 20).unwrap();
        let mut lists = Vec::new_in(host.clone());
        for length in 0..100u32 {
            let mut list = Vec::new_in(host.clone());
            list.extend(0..length);
            lists.push(list);
        }
        let boxed = Box::new_in([7u8; 4096], host.clone());
        assert_eq!(lists.iter().map(|list| list.len()).sum::<usize>(), 4950);
        assert!(lists[99].iter().copied().eq(0..99));
        assert_eq!(boxed[4095], 7);
        drop(lists);
        assert_eq!(host.stats().unwrap().allocation.all.current, 1);
        drop(boxed);
        host.empty_cache().unwrap();
        let stats = host.stats().unwrap();
        assert_eq!((stats.allocation.all.current, stats.reserved_bytes.all.current), (0, 0));
        assert!(host.memory_summary(true).unwrap().contains("Active memory"));
    }

    #[test]
    fn every_alignment_is_kept() {
        let host = HostAllocator::new(64 << 20).unwrap();
        for shift in 0..=16 {
            let layout = Layout::from_size_align(1000, 1 << shift).unwrap();
            let memory = host.allocate(layout).unwrap();
            assert_eq!(memory.cast::<u8>().as_ptr() as usize % (1 << shift), 0);
            // SAFETY: the memory has 1000 bytes, and is given up with its own layout.
            unsafe {
                memory.cast::<u8>().as_ptr().write_bytes(0xaa, 1000);
                host.deallocate(memory.cast(), layout);
            }
        }
        assert_eq!(host.stats().unwrap().allocation.all.current, 0);
        assert!(host.allocate(Layout::from_size_align(1 << 40, 8).unwrap()).is_err());
    }
}
