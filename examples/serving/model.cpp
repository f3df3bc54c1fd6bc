// SPDX-License-Identifier: MIT OR Apache-2.0
#include "model.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace serving {

namespace {

constexpr uint64_t kLayer = 64 * MiB;

uint64_t size_of(cachalot_allocator* allocator, cachalot_address address) {
  cachalot_error error = CACHALOT_ERROR_INIT;
  cachalot_block block = {};
  block.struct_size = sizeof block;
  require(cachalot_get_block(allocator, address, &block, &error), error);
  return block.size;
}

}  // namespace

void require(cachalot_status status, const cachalot_error& error) {
  if (status == CACHALOT_OK) return;
  std::fprintf(stderr, "serving: %s\n", error.message);
  std::exit(2);
}

Model::Model(cachalot_allocator* allocator, const ModelPlan& plan, bool is_tenant)
    : allocator_(allocator), plan_(plan) {
  if (is_tenant) {
    cachalot_error error = CACHALOT_ERROR_INIT;
    cachalot_tenant_options options = {};
    options.struct_size = sizeof options;
    options.name = plan_.name.c_str();
    options.guaranteed_bytes = plan_.guaranteed;
    options.priority = plan_.priority;
    options.pressure = [](void* self, const cachalot_pressure* pressure) {
      return static_cast<Model*>(self)->give(pressure->missing_bytes);
    };
    options.pressure_user_data = this;
    require(cachalot_tenant_create(allocator_, &options, &tenant_, &error), error);
  }
  for (uint64_t loaded = 0; loaded < plan_.weights; loaded += kLayer)
    weights_.push_back(allocate(kLayer));
}

Model::~Model() {
  for (auto& [end, pages] : running_) free(pages);
  give(UINT64_MAX);
  free(weights_);
  cachalot_error error = CACHALOT_ERROR_INIT;
  require(cachalot_tenant_destroy(tenant_, &error), error);
}

// Without tenants a model can only give up something of its own. 0: refused.
cachalot_address Model::allocate(uint64_t size) {
  cachalot_error error = CACHALOT_ERROR_INIT;
  cachalot_address address = 0;
  cachalot_status status = CACHALOT_OK;
  do {
    status = tenant_ ? cachalot_allocate_for(allocator_, tenant_, size, 0, 0, &address, &error)
                     : cachalot_allocate(allocator_, size, 0, 0, &address, &error);
  } while (status == CACHALOT_ERROR_OUT_OF_MEMORY && !tenant_ && give(size) > 0);
  if (status == CACHALOT_ERROR_OUT_OF_MEMORY) {
    refusals_++;
    if (bytes_ + size <= plan_.guaranteed) broken_guarantees_++;
    return 0;
  }
  require(status, error);
  bytes_ += size_of(allocator_, address);
  return address;
}

void Model::free(Pages& pages) {
  for (const cachalot_address page : pages) {
    cachalot_error error = CACHALOT_ERROR_INIT;
    bytes_ -= size_of(allocator_, page);
    require(cachalot_free(allocator_, page, &error), error);
  }
  pages.clear();
}

// Of what it has kept, the oldest first, until so much is free. Gives how much that was.
uint64_t Model::give(uint64_t bytes) {
  const uint64_t before = bytes_;
  while (!kept_.empty() && before - bytes_ < bytes) {
    free(kept_.front().pages);
    kept_.pop_front();
  }
  return before - bytes_;
}

bool Model::serve(uint64_t pages, Time now) {
  Pages got;
  while (got.size() < pages) {
    const cachalot_address page = allocate(plan_.page);
    if (page == 0) {
      free(got);
      return false;
    }
    got.push_back(page);
  }
  running_.emplace(now + plan_.takes, std::move(got));
  return true;
}

void Model::tick(Time now) {
  while (!running_.empty() && running_.begin()->first <= now) {
    auto finished = running_.extract(running_.begin());
    kept_.push_back({std::move(finished.mapped()), finished.key() + plan_.keeps});
  }
  while (!kept_.empty() && kept_.front().until <= now) {
    free(kept_.front().pages);
    kept_.pop_front();
  }
}

uint64_t Model::counted_bytes() const {
  if (!tenant_) return bytes_;
  cachalot_error error = CACHALOT_ERROR_INIT;
  cachalot_tenant_stats stats = {};
  stats.struct_size = sizeof stats;
  require(cachalot_get_tenant_stats(tenant_, 0, &stats, &error), error);
  return static_cast<uint64_t>(stats.allocated_bytes.current);
}

}  // namespace serving
