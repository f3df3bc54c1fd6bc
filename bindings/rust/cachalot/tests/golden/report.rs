// SPDX-License-Identifier: MIT OR Apache-2.0
//! The answers to a script's questions, printed as the oracle prints them.

use cachalot::{BlockState, PoolId, Release, SnapshotOptions, Stat, StatArray};

use crate::script::{Script, entry_text, metadata_marks};

pub fn numbers(stat: &Stat) -> String {
    format!("{} {} {} {}", stat.current, stat.peak, stat.allocated, stat.freed)
}

fn by_kind(script: &Script, name: &str, stats: &StatArray) {
    script.add(format!("= {name}.all {}", numbers(&stats.all)));
    script.add(format!("= {name}.small_pool {}", numbers(&stats.small_pool)));
    script.add(format!("= {name}.large_pool {}", numbers(&stats.large_pool)));
}

pub fn stats(script: &mut Script) {
    let Some(stats) = script.worked(script.allocator().stats(0)) else { return };
    by_kind(script, "allocation", &stats.allocation);
    by_kind(script, "segment", &stats.segment);
    by_kind(script, "active", &stats.active);
    by_kind(script, "inactive_split", &stats.inactive_split);
    by_kind(script, "allocated_bytes", &stats.allocated_bytes);
    by_kind(script, "reserved_bytes", &stats.reserved_bytes);
    by_kind(script, "active_bytes", &stats.active_bytes);
    by_kind(script, "inactive_split_bytes", &stats.inactive_split_bytes);
    by_kind(script, "requested_bytes", &stats.requested_bytes);
    script.add(format!("= oversize_allocations {}", numbers(&stats.oversize_allocations)));
    script.add(format!("= oversize_segments {}", numbers(&stats.oversize_segments)));
    script.add(format!(
        "= counters retries {} ooms {} syncs {} device_alloc {} device_free {} max_split {}",
        stats.num_alloc_retries,
        stats.num_ooms,
        stats.num_sync_all_streams,
        stats.num_device_alloc,
        stats.num_device_free,
        stats.max_split_size
    ));
    if script.release < Release::V2_15 {
        return;
    }
    script.add(format!("= rejections {}", stats.num_oom_rejections));
    for row in script.worked(script.allocator().pool_stats(0)).into_iter().flatten() {
        let PoolId { first, second } = row.pool;
        let name = format!("reserved_bytes_by_private_pools.{first},{second}");
        by_kind(script, &name, &row.reserved_bytes);
    }
}

/// A context is the number of the operation that it was captured in.
fn context_mark(script: &Script, context: u64) -> String {
    match context {
        _ if !script.shared().log.context => String::new(),
        0 => " no line".into(),
        number => format!(" line {number}"),
    }
}

pub fn snapshot(script: &mut Script, pool: PoolId) {
    let options = SnapshotOptions::new().pool(pool).without_history();
    let taken = script.allocator().snapshot_with(&options);
    let Some(snapshot) = script.worked(taken) else { return };
    for segment in snapshot.segments() {
        let counter = match script.shared().log.counter {
            true => format!(" counter {}", segment.number),
            false => String::new(),
        };
        script.add(format!(
            "# seg {:x} {} {:x} {}{} pool {},{} requested {} allocated {} active {}{counter}{}",
            segment.address,
            segment.total_size,
            segment.stream.0,
            if segment.is_large { "large" } else { "small" },
            if segment.is_expandable { " expandable" } else { "" },
            segment.pool.first,
            segment.pool.second,
            segment.requested_size,
            segment.allocated_size,
            segment.active_size,
            context_mark(script, segment.context)
        ));
        for block in segment.blocks {
            let state = match block.state {
                BlockState::Allocated => "allocated",
                BlockState::PendingFree => "pending",
                _ => "free",
            };
            script.add(format!(
                "# blk {} {} {state}{}",
                block.size,
                block.requested_size,
                context_mark(script, block.context)
            ));
        }
    }
}

pub fn history(script: &mut Script) {
    let Some(entries) = script.worked(script.allocator().history(0)) else { return };
    for entry in entries {
        let marks = metadata_marks(&script.shared(), &entry);
        let context = context_mark(script, entry.context);
        script.add(format!("# trace {}{context}{marks}", entry_text(&entry)));
    }
}

pub fn settings(script: &mut Script) {
    let Some(snapshot) = script.worked(script.allocator().snapshot()) else { return };
    let settings = snapshot.settings();
    let rounding: String =
        settings.roundup_power2_divisions.iter().map(|number| format!(" {number}")).collect();
    script.add(format!(
        "# set string \"{}\" max_split {} gc {} expandable {} threads {} release_lock {} \
         host_register {} reuse {} round{rounding} # large_segment {} non_split_rounding {} \
         background {} fraction {} reserve_segment {}",
        snapshot.config(),
        settings.max_split_size as i64,
        all_digits(settings.garbage_collection_threshold),
        u8::from(settings.expandable_segments),
        settings.pinned_num_register_threads,
        u8::from(settings.release_lock_on_cudamalloc),
        u8::from(settings.pinned_use_cuda_host_register),
        u8::from(settings.graph_capture_record_stream_reuse),
        settings.large_segment_size,
        settings.max_non_split_rounding_size,
        u8::from(settings.pinned_use_background_threads),
        all_digits(settings.per_process_memory_fraction),
        settings.pinned_reserve_segment_size_mb
    ));
    if script.release < Release::V2_15 {
        return;
    }
    script.answer(format_args!(
        "throw_on_cudamalloc_oom {} pinned_free_catch_all {}",
        u8::from(settings.throw_on_cudamalloc_oom),
        u8::from(settings.pinned_free_catch_all)
    ));
    script.answer(format_args!(
        "max_round_threshold {} max_cached_size {}",
        settings.pinned_max_round_threshold, settings.pinned_max_cached_size
    ));
}

/// As C prints `%.17g`: 17 digits that count, without zeros at the end.
pub fn all_digits(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let scientific = format!("{value:.16e}");
    let (digits, exponent) = scientific.split_once('e').unwrap();
    let exponent: i32 = exponent.parse().unwrap();
    if !(-4..17).contains(&exponent) {
        let digits = digits.trim_end_matches('0').trim_end_matches('.');
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let fixed = format!("{value:.*}", (16 - exponent) as usize);
    if fixed.contains('.') {
        fixed.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        fixed
    }
}

#[test]
fn numbers_are_printed_as_c_does() {
    for (value, text) in [
        (0.0, "0"),
        (1.0, "1"),
        (0.5, "0.5"),
        (0.8, "0.80000000000000004"),
        (0.1, "0.10000000000000001"),
        (0.00001, "1.0000000000000001e-05"),
        (123456789.0, "123456789"),
    ] {
        assert_eq!(all_digits(value), text);
    }
}
