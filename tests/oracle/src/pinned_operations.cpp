// SPDX-License-Identifier: MIT OR Apache-2.0
// The words of the pinned-memory allocator, which is in libtorch_cuda.so.
#include <ATen/core/CachingHostAllocator.h>

#include <chrono>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>

#include "fakecuda.h"
#include "operations.h"
#include "output.h"
#include "streams.h"

namespace oracle {
namespace {

std::unordered_map<long, c10::DataPtr> blocks;

at::HostAllocator& pinned() { return *at::getHostAllocator(c10::DeviceType::CUDA); }

void allocate(Arguments& arguments) {
  const long id = arguments.id();
  c10::DataPtr data = pinned().allocate(arguments.number<size_t>());
  line("R " + hex(fakecuda::shown_address(reinterpret_cast<uint64_t>(data.get()))));
  blocks.erase(id);
  blocks.emplace(id, std::move(data));
}

void free_block(Arguments& arguments) { blocks.erase(arguments.id()); }

void say_known(bool is_known) { line(is_known ? "# known" : "# unknown"); }

void record(Arguments& arguments) {
  const auto block = blocks.find(arguments.id());
  if (block == blocks.end()) return;
  const c10::DataPtr& data = block->second;
  const c10::Stream stream = stream_of(arguments.hex()).unwrap();
  say_known(pinned().record_event(data.get(), data.get_context(), stream));
}

// By an address inside of the block, without its context.
void record_at(Arguments& arguments) {
  const auto block = blocks.find(arguments.id());
  if (block == blocks.end()) return;
  const c10::Stream stream = stream_of(arguments.hex()).unwrap();
  void* const address = static_cast<char*>(block->second.get()) + arguments.number<size_t>();
  say_known(pinned().record_event(address, address, stream));
}

void empty(Arguments&) { pinned().empty_cache(); }

// What a capture into a graph tells the allocator of pinned memory.
void begin_pool(Arguments& arguments) {
  const c10::MempoolId_t pool = arguments.pool();
  const auto takes = routed_streams(arguments.word());
  pinned().begin_allocate_to_pool(
      pool, [takes](c10::Stream stream) { return takes(c10::cuda::CUDAStream(stream).stream()); });
}
void end_pool(Arguments& arguments) { pinned().end_allocate_to_pool(arguments.pool()); }
void release_pool(Arguments& arguments) { pinned().release_pool(arguments.pool()); }

// For what PyTorch does in a thread of its own.
void sleep(Arguments& arguments) {
  std::this_thread::sleep_for(std::chrono::milliseconds(arguments.number<int>()));
}

std::string text_of(const c10::CachingAllocator::Stat& stat) {
  return std::to_string(stat.current) + " " + std::to_string(stat.peak) + " " +
         std::to_string(stat.allocated) + " " + std::to_string(stat.freed);
}

void statistics(Arguments&) {
  const at::HostStats stats = pinned().get_stats();
  line("= host_allocations " + text_of(stats.allocations));
  line("= host_allocated_bytes " + text_of(stats.allocated_bytes));
  line("= host_active_requests " + text_of(stats.active_requests));
  line("= host_active_bytes " + text_of(stats.active_bytes));
  line("= host_counters alloc " + std::to_string(stats.num_host_alloc) + " free " +
       std::to_string(stats.num_host_free) + " alloc_times " +
       std::to_string(stats.host_alloc_time.count) + " free_times " +
       std::to_string(stats.host_free_time.count));
}

void reset_peak(Arguments&) { pinned().reset_peak_stats(); }
void reset_accumulated(Arguments&) { pinned().reset_accumulated_stats(); }

}  // namespace

void add_pinned_operations(Operations& operations) {
  operations.insert({{"ha", allocate},
                     {"hf", free_block},
                     {"hr", record},
                     {"hr_at", record_at},
                     {"host_empty", empty},
                     {"host_pool_begin", begin_pool},
                     {"host_pool_end", end_pool},
                     {"host_pool_release", release_pool},
                     {"host_sleep", sleep},
                     {"host_stats", statistics},
                     {"host_reset_peak", reset_peak},
                     {"host_reset_accumulated", reset_accumulated}});
}

}  // namespace oracle
