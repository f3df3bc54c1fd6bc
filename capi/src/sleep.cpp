// SPDX-License-Identifier: MIT OR Apache-2.0
// Pools that sleep.
#include "cachalot/sleep.h"

#include <memory>

#include "alloc/pinned/pinned_allocator.h"
#include "alloc/tenants/tenants.h"
#include "core_of.h"
#include "device/device_count.h"
#include "pinned_cache.h"
#include "tenant_handle.h"
#include "values.h"

namespace cachalot::capi {
namespace {

static_assert(static_cast<int32_t>(SleepContents::kDiscard) == CACHALOT_SLEEP_DISCARD);
static_assert(static_cast<int32_t>(SleepContents::kKeep) == CACHALOT_SLEEP_KEEP);
static_assert(static_cast<int32_t>(SleepContents::kKeepAll) == CACHALOT_SLEEP_KEEP_ALL);
static_assert(static_cast<int32_t>(SleepingPool::State::kFallingAsleep) ==
              CACHALOT_POOL_FALLING_ASLEEP);
static_assert(static_cast<int32_t>(SleepingPool::State::kAsleep) == CACHALOT_POOL_ASLEEP);
static_assert(static_cast<int32_t>(SleepingPool::State::kWaking) == CACHALOT_POOL_WAKING);

// Through the cache that the allocator has: PyTorch's, or one like that of a device.
class PinnedContentStore final : public ContentStore {
 public:
  explicit PinnedContentStore(cachalot_allocator& allocator) : allocator_(allocator) {}

  Address allocate(uint64_t size) override {
    return allocator_.pinned ? PinnedCacheOfDevice(allocator_).allocate(size)
                             : allocator_.core.pinned().allocate(size, 0, 0);
  }

  // A buffer whose stream cannot be noted waits for the stream itself.
  void free(Address buffer, int device, Stream stream) noexcept override {
    try {
      if (allocator_.pinned) {
        free_to(PinnedCacheOfDevice(allocator_), buffer, device, stream);
      } else {
        free_to(allocator_.core.pinned(), buffer, device, stream);
      }
    } catch (...) {
    }
  }

 private:
  template <class Pinned>
  void free_to(Pinned&& pinned, Address buffer, int device, Stream stream) {
    try {
      pinned.record_stream(buffer, device, stream);
    } catch (...) {
      allocator_.core.driver().stream_synchronize(device, stream);
    }
    pinned.free(buffer);
  }

  cachalot_allocator& allocator_;
};

// The allocator outlives it. Null: the driver has no pinned memory.
std::shared_ptr<ContentStore> content_store_of(cachalot_allocator& allocator) {
  if (!allocator.core.driver().has_host_memory()) return nullptr;
  return std::make_shared<PinnedContentStore>(allocator);
}

SleepContents read_contents(int32_t contents) {
  return static_cast<SleepContents>(
      read_choice(contents, CACHALOT_SLEEP_DISCARD, CACHALOT_SLEEP_KEEP_ALL, "contents"));
}

SleepRequest read_sleep_request(cachalot_allocator& allocator, cachalot_pool_id id,
                                int32_t contents, cachalot_stream stream) {
  return {.pool = read_pool_id(id),
          .contents = read_contents(contents),
          .stream = stream,
          .store = content_store_of(allocator)};
}

}  // namespace
}  // namespace cachalot::capi

using namespace cachalot;
using namespace cachalot::capi;

cachalot_status cachalot_pool_sleep(cachalot_allocator* allocator, int32_t device,
                                    cachalot_pool_id id, int32_t contents, cachalot_stream stream,
                                    uint64_t* out_bytes, cachalot_error* error) {
  return guard(error, [&] {
    Allocator& core = core_of(allocator);
    const uint64_t bytes =
        core.pool_sleep(device, read_sleep_request(*allocator, id, contents, stream));
    if (out_bytes != nullptr) *out_bytes = bytes;
  });
}

cachalot_status cachalot_pool_wake(cachalot_allocator* allocator, int32_t device,
                                   cachalot_pool_id id, cachalot_stream stream,
                                   cachalot_error* error) {
  return guard(error, [&] { core_of(allocator).pool_wake(device, read_pool_id(id), stream); });
}

cachalot_status cachalot_pool_set_sleep_contents(cachalot_allocator* allocator, int32_t device,
                                                 cachalot_pool_id id, const char* label,
                                                 int32_t contents, cachalot_error* error) {
  return guard(error, [&] {
    Allocator& core = core_of(allocator);
    if (label == nullptr) throw_null("label");
    core.pool_set_sleep_contents(device, read_pool_id(id), label, read_contents(contents));
  });
}

cachalot_status cachalot_get_sleep_stats(cachalot_allocator* allocator, int32_t device,
                                         cachalot_pool_id id, cachalot_sleep_stats* out_stats,
                                         cachalot_error* error) {
  return guard(error, [&] {
    const SleepStats stats = core_of(allocator).sleep_stats(device, read_pool_id_or_all(id));
    const cachalot_sleep_stats out = {.struct_size = sizeof out,
                                      .state = stats.state,
                                      .reserved_0 = 0,
                                      .pools = stats.pools,
                                      .blocks = stats.blocks,
                                      .allocated_bytes = stats.allocated_bytes,
                                      .asleep_bytes = stats.asleep_bytes,
                                      .kept_bytes = stats.kept_bytes,
                                      .num_sleeps = stats.num_sleeps,
                                      .num_wakes = stats.num_wakes};
    write_struct(out_stats, out, "out_stats");
  });
}

cachalot_status cachalot_tenant_set_sleep(cachalot_allocator* allocator, cachalot_tenant* tenant,
                                          int32_t device, cachalot_pool_id id, int32_t contents,
                                          cachalot_stream stream, cachalot_error* error) {
  return guard(error, [&] {
    Allocator& core = core_of(allocator);
    const Tenant& of = *require(tenant, "tenant").core;
    require_device(device, core.device_count());
    Tenants::FallAsleep fall_asleep;
    const PoolId pool = read_pool_id(id);
    if (contents != CACHALOT_SLEEP_NEVER) {
      SleepRequest request = read_sleep_request(*allocator, id, contents, stream);
      request.needs_memory = true;  // what has none would fall asleep for nothing
      fall_asleep = [&core, device, request] { return core.pool_sleep(device, request); };
    }
    core.tenant_set_sleep(of, device, pool, std::move(fall_asleep));
  });
}
