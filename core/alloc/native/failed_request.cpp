// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/native/failed_request.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "alloc/native/oom_hints.h"
#include "base/text.h"

namespace cachalot {

// R80, R81. Compares A, so it can blame the reserve for a request that failed for another reason.
std::string FailedRequest::reserve_advice(uint64_t total) {
  const std::string variable = rules().wording().config_variable;
  const std::string name = device_.shared.reserve_classes.of(params_.stream);
  const ReserveDecision decision = decide_reserve(settings(), name, total);
  const bool blames_reserve = params_.segment_size <= total &&
                              decision.segment_bytes < params_.segment_size &&
                              !rules().mend_reserve;
  if (!blames_reserve) {
    return " expandable_segments is enabled. If instead the process is running out of virtual "
           "address space "
           "(VSZ), expandable segments may be over-reserving VA (each segment reserves ~9/8 of "
           "device memory, "
           "times the number of streams); reduce it via " +
           variable +
           " expandable_segments_reserve / "
           "expandable_segments_reserve_by_class.";
  }
  const std::string whose =
      name.empty() ? "for this stream" : "for stream reserve class '" + name + "'";
  return " This allocation exceeds the expandable-segment reserve of " +
         format_size(decision.segment_bytes) + " " + whose +
         ", and a single allocation cannot span expandable segments. Raise " + variable +
         " expandable_segments_reserve or expandable_segments_reserve_by_class (or unset it) so "
         "that a segment is "
         "at least " +
         format_size(params_.segment_size) + ".";
}

// [core 16.2] It counts what private pools cache as allocated (P34).
std::string FailedRequest::text_of(const OutOfMemory& numbers) {
  const Wording& wording = rules().wording();
  std::string text = "CUDA out of memory. Tried to allocate " + format_size(params_.segment_size) +
                     ". GPU " + std::to_string(device_.index) + " has a total capacity of " +
                     format_size(numbers.device_total) + " of which " +
                     format_size(numbers.device_free) + " is free. ";
  const auto pid = static_cast<uint64_t>(getpid());
  for (const DeviceProcess& process : driver().processes(device_.index)) {
    text +=
        process.pid == pid ? wording.process_with_others : "Process " + std::to_string(process.pid);
    text += " has " + format_size(process.used) + " memory in use. ";
  }
  if (limit() != kUnlimited) text += format_size(limit()) + " allowed; ";
  const uint64_t allocated = numbers.allocated + numbers.private_pools_free;
  text += "Of the allocated memory " + format_size(allocated) + " is allocated by " +
          wording.owner + ", ";
  if (numbers.private_pools_free > 0) {
    text += "with " + format_size(numbers.private_pools_free) +
            " allocated in private pools (e.g., CUDA Graphs), ";
  }
  text += "and " + format_size(numbers.reserved - allocated) + " is reserved by " + wording.owner +
          " but unallocated.";
  if (rules().oom_text_knows_expandable && settings().expandable_segments) {
    text += reserve_advice(numbers.device_total);
  } else {
    text += wording.expandable_advice;
  }
  if (rules().oom_text_knows_expandable && params_.source_gave_null)
    text += wording.source_gave_null;
  return text;
}

// pre: the whole device, so that the numbers are of one moment. A driver that does not tell its
// memory leaves zeros.
OutOfMemory FailedRequest::take_numbers() {
  OutOfMemory numbers;
  numbers.device = device_.index;
  numbers.stream = params_.stream;
  numbers.requested = params_.requested;
  numbers.segment_size = params_.segment_size;
  driver().memory_info(device_.index, &numbers.device_free, &numbers.device_total);
  numbers.limit = limit() == kUnlimited ? 0 : limit();
  numbers.allocated =
      static_cast<uint64_t>(device_.shards.sums().rows[Counters::kAll].current(Counters::kBytes));
  numbers.reserved = device_.stats.reserved();
  device_.for_each_list([&](const StreamFreeList& list) {
    if (const Block* largest = list.free.last()) {
      numbers.largest_free_block = std::max(numbers.largest_free_block, largest->size);
    }
    if (!list.pool->owner) return;
    for (const Block* b = list.free.first(); b; b = list.free.next(b))
      numbers.private_pools_free += b->size;
  });
  return numbers;
}

// The reference's text first, since programs search it; our line comes behind it.
void FailedRequest::throw_out_of_memory() {
  const OutOfMemory numbers = take_numbers();
  std::string text = text_of(numbers) + "\n" +
                     OomHints(device_, params_, numbers.device_free, numbers.device_total).line();
  throw_out_of_memory(numbers, std::move(text));
}

void FailedRequest::throw_out_of_memory(const OutOfMemory& numbers, std::string text) {
  // The entry has the free bytes in the place of an address [core 22.1].
  device_.trace(Action::kOom, numbers.device_free, params_.size, params_.stream, *params_.pool,
                params_.context);
  device_.stats.count_out_of_memory();
  // Observers run without a lock, so that they can call the allocator. The copy keeps them alive.
  const auto observers = device_.recorder.observers();
  lock_.unlock();
  for (const auto& [id, observer] : observers->out_of_memory) observer(numbers);
  throw Error(numbers, std::move(text));
}

// By a tenant's terms: the driver was not asked, yet it is an out of memory for the caller.
void FailedRequest::throw_refused(std::string text) {
  throw_out_of_memory(take_numbers(), std::move(text));
}

// R31: no entry, and num_ooms does not move, since the driver was not asked.
void FailedRequest::throw_rejected() {
  const OutOfMemory numbers = take_numbers();
  const Rejection rejection{device_.index, params_.segment_size, params_.reserved_when_rejected,
                            numbers.device_total};
  std::string text =
      "CUDA out of memory. Allocation was preemptively rejected because it would exceed "
      "per_process_memory_fraction limit. Requested size: " +
      format_size(params_.requested) + "\n" +
      OomHints(device_, params_, numbers.device_free, numbers.device_total).line();
  const auto observers = device_.recorder.observers();
  lock_.unlock();
  for (const auto& [id, observer] : observers->rejection) observer(rejection);
  throw Error(numbers, std::move(text));
}

}  // namespace cachalot
