// SPDX-License-Identifier: MIT OR Apache-2.0
#include "memory.h"

#include <new>

namespace cachalot::ort {
namespace {

// Of a device, or of the host driver.
class DeviceMemory final : public Memory {
 public:
  DeviceMemory(cachalot_allocator* allocator, int32_t device)
      : allocator_(allocator), device_(device) {}

  cachalot_status allocate(uint64_t size, cachalot_stream stream, cachalot_address* out,
                           cachalot_error* error) override {
    return cachalot_allocate(allocator_, size, device_, stream, out, error);
  }
  cachalot_status free(cachalot_address address, cachalot_error* error) override {
    return cachalot_free(allocator_, address, error);
  }
  bool read(Figures* out) const override {
    cachalot_stats stats{};
    stats.struct_size = sizeof stats;
    uint64_t limit = UINT64_MAX;
    if (cachalot_get_stats(allocator_, device_, &stats, nullptr) != CACHALOT_OK ||
        cachalot_memory_limit(allocator_, device_, &limit, nullptr) != CACHALOT_OK)
      return false;
    *out = {.limit = limit == UINT64_MAX ? -1 : static_cast<int64_t>(limit),
            .used = stats.allocated_bytes.all.current,
            .reserved = stats.reserved_bytes.all.current,
            .most_used = stats.allocated_bytes.all.peak,
            .allocations = stats.allocation.all.allocated,
            .extensions = stats.num_device_alloc,
            .shrinkages = stats.num_device_free};
    return true;
  }
  void remember(uint64_t size, cachalot_stream stream, const cachalot_error& error) override {
    remember_failure(allocator_, size, {device_, stream}, error);
  }

 private:
  cachalot_allocator* const allocator_;
  const int32_t device_;
};

// Of the host, for copies. A request that names a stream is for a copy there: the block waits for that stream after
// its free.
class PinnedMemory final : public Memory {
 public:
  PinnedMemory(cachalot_allocator* allocator, int32_t device)
      : allocator_(allocator), device_(device) {}

  cachalot_status allocate(uint64_t size, cachalot_stream stream, cachalot_address* out,
                           cachalot_error* error) override {
    void* memory = nullptr;
    cachalot_status status = cachalot_pinned_allocate(allocator_, size, &memory, error);
    if (status != CACHALOT_OK) return status;
    if (stream != 0) {
      status = cachalot_pinned_record_stream(allocator_, memory, device_, stream, error);
      if (status != CACHALOT_OK) {
        cachalot_pinned_free(allocator_, memory, nullptr);
        return status;
      }
    }
    *out = reinterpret_cast<cachalot_address>(memory);
    return CACHALOT_OK;
  }
  cachalot_status free(cachalot_address address, cachalot_error* error) override {
    return cachalot_pinned_free(allocator_, reinterpret_cast<void*>(address), error);
  }
  bool read(Figures* out) const override {
    cachalot_pinned_stats stats{};
    stats.struct_size = sizeof stats;
    if (cachalot_pinned_get_stats(allocator_, &stats, nullptr) != CACHALOT_OK) return false;
    *out = {.limit = limit(),
            .used = stats.active_bytes.current,
            .reserved = stats.allocated_bytes.current,
            .most_used = stats.active_bytes.peak,
            .allocations = stats.active_requests.allocated,
            .extensions = stats.allocations.allocated,
            .shrinkages = stats.allocations.freed};
    return true;
  }
  // The report is that of a cache like a device's: PyTorch's allocator of pinned memory has none.
  void remember(uint64_t size, cachalot_stream, const cachalot_error& error) override {
    remember_failure(cachalot_pinned_allocator(allocator_), size, {}, error);
  }

 private:
  // PyTorch's has none either.
  int64_t limit() const {
    cachalot_allocator* const cache = cachalot_pinned_allocator(allocator_);
    uint64_t bytes = UINT64_MAX;
    if (cache == nullptr || cachalot_memory_limit(cache, 0, &bytes, nullptr) != CACHALOT_OK ||
        bytes == UINT64_MAX)
      return -1;
    return static_cast<int64_t>(bytes);
  }

  cachalot_allocator* const allocator_;
  const int32_t device_;
};

}  // namespace

std::unique_ptr<Memory> make_memory(MemoryKind kind, cachalot_allocator* allocator,
                                    int32_t device) {
  if (kind == MemoryKind::kPinned)
    return std::unique_ptr<Memory>(new (std::nothrow) PinnedMemory(allocator, device));
  return std::unique_ptr<Memory>(new (std::nothrow) DeviceMemory(allocator, device));
}

}  // namespace cachalot::ort
