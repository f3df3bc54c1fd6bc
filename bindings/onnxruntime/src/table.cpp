// SPDX-License-Identifier: MIT OR Apache-2.0
#include "table.h"

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <new>

#include "error.h"
#include "failure.h"

namespace cachalot::ort {
namespace {

// What says no stream of its own. The cache keeps segments of different streams apart: so weights,
// which stay, do not hold on to segments of a run, which a trim could give back.
constexpr cachalot_stream kRuns = 0;
constexpr cachalot_stream kWeights = 1;

// The version of ORT's interface that has statistics, and lists of names and values for them.
constexpr uint32_t kStatsVersion = 23;

constexpr const char* kForeign = "ONNX Runtime frees what it does not have";

// What ORT's kernels expect of an allocator without memory.
class OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(const cachalot_error& error) {
    std::snprintf(text_, sizeof text_, "%s", error.message);
  }
  const char* what() const noexcept override { return text_; }

 private:
  char text_[CACHALOT_MESSAGE_CAPACITY];
};

Table* self(OrtAllocator* table) { return static_cast<Table*>(table); }
const Table* self(const OrtAllocator* table) { return static_cast<const Table*>(table); }

void* call_alloc(OrtAllocator* table, size_t size) {
  return self(table)->allocate(size, kRuns, __builtin_return_address(0));
}

void* call_reserve(OrtAllocator* table, size_t size) {
  return self(table)->reserve(size, __builtin_return_address(0));
}

void* call_alloc_on_stream(OrtAllocator* table, size_t size, OrtSyncStream* stream) {
  void* const handle =
      stream != nullptr ? self(table)->runtime().api->SyncStream_GetHandle(stream) : nullptr;
  return self(table)->allocate(size, reinterpret_cast<cachalot_stream>(handle),
                               __builtin_return_address(0));
}

void call_free(OrtAllocator* table, void* pointer) { self(table)->free(pointer); }

const OrtMemoryInfo* call_info(const OrtAllocator* table) { return self(table)->info(); }

OrtStatus* call_get_stats(const OrtAllocator* table, OrtKeyValuePairs** out) noexcept {
  const OrtApi* const api = self(table)->runtime().api;
  api->CreateKeyValuePairs(out);
  self(table)->add_stats(*out);
  return nullptr;
}

void raise(std::atomic<uint64_t>& most, uint64_t value) {
  uint64_t now = most.load(std::memory_order_relaxed);
  while (now < value && !most.compare_exchange_weak(now, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

Table::Table(const Runtime& runtime, std::unique_ptr<Memory> memory, int32_t device,
             OrtMemoryInfo* info)
    : OrtAllocator{}, runtime_(runtime), memory_(std::move(memory)), device_(device), info_(info) {
  version = runtime.api_version;  // ORT looks at no field that came later
  Alloc = call_alloc;
  Free = call_free;
  Info = call_info;
  Reserve = call_reserve;
  if (version >= kStatsVersion) GetStats = call_get_stats;
}

void Table::follow_streams() { AllocOnStream = call_alloc_on_stream; }

cachalot_status Table::request(size_t size, cachalot_stream stream, cachalot_address* out,
                               cachalot_error* error) {
  if (!gate_.enter()) {
    fail(error, CACHALOT_ERROR_INVALID_STATE,
         "A session asks for %zu bytes, but cachalot is no longer registered with ONNX Runtime: "
         "close sessions before cachalot_ort_unregister.",
         size);
    remember_failure(nullptr, size, {device_, stream}, *error);
    return CACHALOT_ERROR_INVALID_STATE;
  }
  const cachalot_status status = memory_->allocate(size, stream, out, error);
  if (status == CACHALOT_OK) return status;
  // The allocator is there as long as the gate is held.
  memory_->remember(size, stream, *error);
  gate_.leave();
  return status;
}

void* Table::allocate(size_t size, cachalot_stream stream, const void* caller) {
  if (size == 0) return nullptr;
  requests_.fetch_add(1, std::memory_order_relaxed);
  cachalot_error error;
  start_error(error);
  cachalot_address address = 0;
  if (request(size, stream, &address, &error) == CACHALOT_OK) {
    raise(largest_, size);
    return reinterpret_cast<void*>(address);
  }
  failures_.fetch_add(1, std::memory_order_relaxed);
  // Who is no part of ORT may be of any language.
  if (bears_exceptions(runtime_, caller)) throw OutOfMemory(error);
  return nullptr;
}

void* Table::reserve(size_t size, const void* caller) {
  if (size > 0) reserves_.fetch_add(1, std::memory_order_relaxed);
  return allocate(size, kWeights, caller);
}

void Table::free(void* pointer) {
  if (pointer == nullptr) return;
  cachalot_error error;
  start_error(error);
  const auto address = reinterpret_cast<cachalot_address>(pointer);
  // Whoever has a block keeps the allocator there; who has none may be anybody.
  if (!gate_.enter()) {
    fail(&error, CACHALOT_ERROR_INVALID_STATE, "cachalot is no longer registered");
    return print_error(kForeign, error);
  }
  if (memory_->free(address, &error) == CACHALOT_OK) return gate_.leave(2);
  gate_.leave();
  print_error(kForeign, error);
}

void Table::add_stats(OrtKeyValuePairs* out) const {
  if (!gate_.enter()) return;
  Memory::Figures figures;
  const bool is_known = memory_->read(&figures);
  gate_.leave();
  if (!is_known) return;
  const auto add = [&](const char* name, int64_t value) {
    char text[32];
    std::snprintf(text, sizeof text, "%" PRId64, value);
    runtime_.api->AddKeyValuePair(out, name, text);
  };
  add("Limit", figures.limit);
  add("InUse", figures.used);
  add("TotalAllocated", figures.reserved);
  add("MaxInUse", figures.most_used);
  add("NumAllocs", figures.allocations);
  add("NumReserves", static_cast<int64_t>(reserves()));
  add("NumArenaExtensions", figures.extensions);
  add("NumArenaShrinkages", figures.shrinkages);
  add("MaxAllocSize", static_cast<int64_t>(largest_.load(std::memory_order_relaxed)));
}

}  // namespace cachalot::ort
