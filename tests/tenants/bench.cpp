// SPDX-License-Identifier: MIT OR Apache-2.0
// What calls on one tenant cost beside many others.
// Usage: cachalot_tenants_bench ROUNDS COUNT...
//
// One row of a table for each number of tenants; each figure is the median of the rounds, in ns a
// call (a pair: of allocate and free). Every tenant has one live block of 1 MiB, and a callback that
// gives it for the requests of the last column but one.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <utility>
#include <vector>

#include "cachalot/cachalot.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kMiB = 1024 * 1024;
constexpr int kCalls = 2000;

void require(cachalot_status status, const cachalot_error& error) {
  if (status == CACHALOT_OK) return;
  std::fprintf(stderr, "%s\n", error.message);
  std::exit(2);
}

double nanoseconds_each(int count, const std::function<void(int)>& call) {
  const auto begin = Clock::now();
  for (int i = 0; i < count; i++) call(i);
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / count;
}

class Server;

struct TenantWithBlock {
  Server* server;
  cachalot_tenant* handle;
  cachalot_address block;
};

class Server {
 public:
  explicit Server(int count) : count_(count) {
    cachalot_sim_options sim = {};
    sim.struct_size = sizeof sim;
    sim.capacity = (static_cast<uint64_t>(count) + 100) * kMiB;
    require(cachalot_sim_create(&sim, &driver_, &error_), error_);
    cachalot_allocator_options options = {};
    options.struct_size = sizeof options;
    options.driver = driver_;
    options.config = "";
    require(cachalot_allocator_create(&options, &allocator_, &error_), error_);
    tenants_.reserve(static_cast<size_t>(count) + 1);
  }

  ~Server() {
    cachalot_allocator_destroy_all(allocator_, nullptr);
    cachalot_driver_destroy(driver_);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Each figure in the order of kColumns.
  std::vector<double> measure() {
    std::vector<double> figures;
    figures.push_back(nanoseconds_each(count_, [&](int) { create(0); }));
    for (TenantWithBlock& tenant : tenants_) tenant.block = allocate(tenant);
    figures.push_back(nanoseconds_each(kCalls, [&](int i) { free(allocate(at(i))); }));
    figures.push_back(nanoseconds_each(kCalls, [&](int i) { read(at(i)); }));
    figures.push_back(nanoseconds_each(kCalls, [&](int i) { list(i % count_); }));
    set_bytes(tenants_[0], 0, kMiB);
    figures.push_back(nanoseconds_each(kCalls, [&](int) { be_refused(tenants_[0], kMiB); }));
    set_bytes(tenants_[0], 0, 0);
    figures.push_back(pressure());
    for (TenantWithBlock& tenant : tenants_) free(tenant.block);
    figures.push_back(nanoseconds_each(count_, [&](int) { destroy(); }));
    return figures;
  }

 private:
  static uint64_t be_asked(void* user_data, const cachalot_pressure*) {
    auto* const tenant = static_cast<TenantWithBlock*>(user_data);
    Server& server = *tenant->server;
    if (!server.gives_) return 0;
    server.gave_ = tenant;
    server.free(tenant->block);
    return kMiB;
  }

  TenantWithBlock& at(int i) { return tenants_[static_cast<size_t>(i % count_)]; }

  void create(uint64_t guaranteed) {
    tenants_.push_back({this, nullptr, 0});
    cachalot_tenant_options options = {};
    options.struct_size = sizeof options;
    options.guaranteed_bytes = guaranteed;
    options.pressure = be_asked;
    options.pressure_user_data = &tenants_.back();
    require(cachalot_tenant_create(allocator_, &options, &tenants_.back().handle, &error_), error_);
  }

  void destroy() {
    require(cachalot_tenant_destroy(tenants_.back().handle, &error_), error_);
    tenants_.pop_back();
  }

  cachalot_address allocate(const TenantWithBlock& tenant) {
    cachalot_address block = 0;
    require(cachalot_allocate_for(allocator_, tenant.handle, kMiB, 0, 0, &block, &error_), error_);
    return block;
  }

  void free(cachalot_address block) { require(cachalot_free(allocator_, block, &error_), error_); }

  void be_refused(const TenantWithBlock& tenant, uint64_t size) {
    cachalot_address block = 0;
    if (cachalot_allocate_for(allocator_, tenant.handle, size, 0, 0, &block, nullptr) ==
        CACHALOT_ERROR_OUT_OF_MEMORY)
      return;
    std::fprintf(stderr, "a request was not refused\n");
    std::exit(2);
  }

  void set_bytes(const TenantWithBlock& tenant, uint64_t guaranteed, uint64_t limit) {
    require(cachalot_tenant_set_bytes(tenant.handle, 0, guaranteed, limit, &error_), error_);
  }

  void read(const TenantWithBlock& tenant) {
    cachalot_tenant_stats stats = {};
    stats.struct_size = sizeof stats;
    require(cachalot_get_tenant_stats(tenant.handle, 0, &stats, &error_), error_);
  }

  void list(int index) {
    cachalot_tenant_stats stats = {};
    stats.struct_size = sizeof stats;
    require(cachalot_tenant_stats_at(allocator_, 0, static_cast<size_t>(index), &stats, &error_),
            error_);
  }

  // A request for which nothing is left beside what another tenant is guaranteed: the tenant that is
  // asked gives its block, and gets another one when the request's is freed.
  double pressure() {
    create(100 * kMiB);
    const double figure = nanoseconds_each(kCalls, [&](int) {
      gives_ = true;
      const cachalot_address block = allocate(tenants_[0]);
      gives_ = false;
      free(block);
      gave_->block = allocate(*gave_);
    });
    destroy();
    return figure;
  }

  const int count_;
  cachalot_error error_ = CACHALOT_ERROR_INIT;
  cachalot_driver* driver_ = nullptr;
  cachalot_allocator* allocator_ = nullptr;
  std::vector<TenantWithBlock> tenants_;  // never moved: callbacks know their places
  bool gives_ = false;
  TenantWithBlock* gave_ = nullptr;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void print_row(int rounds, int count) {
  std::vector<std::vector<double>> columns;
  for (int round = 0; round < rounds; round++) {
    const std::vector<double> figures = Server(count).measure();
    columns.resize(figures.size());
    for (size_t i = 0; i < figures.size(); i++) columns[i].push_back(figures[i]);
  }
  std::printf("| %d |", count);
  for (const std::vector<double>& column : columns) std::printf(" %.0f |", median(column));
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s ROUNDS COUNT...\n", argv[0]);
    return 2;
  }
  std::printf(
      "| tenants | create | allocate and free | statistics | statistics at an index | refusal by "
      "the limit | request that one gives for | destroy |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- |\n");
  const int rounds = std::max(1, std::atoi(argv[1]));
  for (int i = 2; i < argc; i++) print_row(rounds, std::max(1, std::atoi(argv[i])));
  return 0;
}
