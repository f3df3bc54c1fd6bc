// SPDX-License-Identifier: MIT OR Apache-2.0
// What recorded runs need of a pool whose blocks are whole allocations of the driver, beside what they would
// need without a cache:
//
//   cachalot_whole_blocks [--no-split] FILE…
//
// Prints a row for each recording, and exits with 1 where the pool reserves more than five quarters.
// --no-split: with blocks that are only not split, for comparison; without a bound.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <string>
#include <unordered_map>

#include "cachalot/cachalot.h"
#include "text_file.h"

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr cachalot_pool_id kPool = {0, 1};

// What the driver takes for a request: small ones share its pages.
uint64_t driver_bytes(uint64_t size) {
  const uint64_t step = size > kMiB ? 2 * kMiB : 512;
  return (size + step - 1) / step * step;
}

void require(cachalot_status status, const cachalot_error& error) {
  if (status == CACHALOT_OK) return;
  std::fprintf(stderr, "%s\n", error.message);
  std::exit(2);
}

// A simulated device that is large enough for any run, all of whose requests go to one pool.
class Pool {
 public:
  explicit Pool(uint32_t flags) {
    cachalot_sim_options sim = {};
    sim.struct_size = sizeof sim;
    sim.capacity = uint64_t{1} << 40;
    ok(cachalot_sim_create(&sim, &driver_, &error_));
    cachalot_allocator_options options = {};
    options.struct_size = sizeof options;
    options.driver = driver_;
    options.config = "";
    ok(cachalot_allocator_create(&options, &allocator_, &error_));
    cachalot_pool_options pool = {};
    pool.struct_size = sizeof pool;
    pool.flags = flags;
    ok(cachalot_pool_create(allocator_, 0, kPool, &pool, &error_));
    ok(cachalot_pool_begin(allocator_, 0, kPool, nullptr, &error_));
  }
  ~Pool() {
    ok(cachalot_check(allocator_, &error_));
    ok(cachalot_allocator_destroy_all(allocator_, &error_));
    cachalot_driver_destroy(driver_);
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  cachalot_address allocate(uint64_t size, cachalot_stream stream) {
    cachalot_address address = 0;
    ok(cachalot_allocate(allocator_, size, 0, stream, &address, &error_));
    return address;
  }
  void free(cachalot_address address) { ok(cachalot_free(allocator_, address, &error_)); }
  cachalot_stats stats() {
    cachalot_stats stats = {};
    stats.struct_size = sizeof stats;
    ok(cachalot_get_stats(allocator_, 0, &stats, &error_));
    return stats;
  }

 private:
  void ok(cachalot_status status) const { require(status, error_); }

  cachalot_driver* driver_ = nullptr;
  cachalot_allocator* allocator_ = nullptr;
  cachalot_error error_ = CACHALOT_ERROR_INIT;
};

// Requests and completed frees of a recording of format 1; a late free comes when it was completed.
class Run {
 public:
  explicit Run(uint32_t flags) : pool_(flags) {}

  void take(const std::string& line) {
    const char action = line[0];
    if (action != 'a' && action != 'c') return;
    char* end = nullptr;
    const uint64_t recorded = std::strtoull(line.c_str() + 2, &end, 16);
    const uint64_t size = std::strtoull(end + 1, &end, 10);
    const cachalot_stream stream = std::strtoull(end + 1, &end, 16);
    if (action == 'a') {
      blocks_[recorded] = pool_.allocate(size, stream);
      requests_++;
      in_use_ += driver_bytes(size);
      if (in_use_ > peak_) peak_ = in_use_;
      return;
    }
    const auto block = blocks_.find(recorded);
    pool_.free(block->second);
    blocks_.erase(block);
    in_use_ -= driver_bytes(size);
  }
  // Prints the row. Whether five quarters were enough.
  bool end(const std::string& name) {
    const cachalot_stats stats = pool_.stats();
    const auto reserved = static_cast<uint64_t>(stats.reserved_bytes.all.peak);
    const auto misses = static_cast<double>(stats.num_device_alloc);
    const uint64_t uncached = 2 * requests_;
    const int64_t calls = stats.num_device_alloc + stats.num_device_free;
    std::printf("| %s | %.0f | %.3f | %.2f %% | %lld | %llu |\n", name.c_str(),
                static_cast<double>(peak_) / static_cast<double>(kMiB),
                static_cast<double>(reserved) / static_cast<double>(peak_),
                100 - 100 * misses / static_cast<double>(requests_), static_cast<long long>(calls),
                static_cast<unsigned long long>(uncached));
    return reserved <= peak_ + peak_ / 4;
  }

 private:
  Pool pool_;
  std::unordered_map<uint64_t, cachalot_address> blocks_;
  uint64_t requests_ = 0;
  uint64_t in_use_ = 0;
  uint64_t peak_ = 0;
};

bool run(const char* path, uint32_t flags) {
  std::istringstream lines(cachalot::differential::read_text_file(path));
  Run run(flags);
  for (std::string line; std::getline(lines, line);) run.take(line);
  const std::string name = std::filesystem::path(path).filename();
  return run.end(name.substr(0, name.find('.')));
}

}  // namespace

int main(int count, char** arguments) {
  const bool is_no_split = count > 1 && std::strcmp(arguments[1], "--no-split") == 0;
  std::puts(
      "| run | peak without a cache, MiB | reserved, over that | hits | driver calls | without a "
      "cache |");
  bool is_kept = true;
  for (int i = is_no_split ? 2 : 1; i < count; i++)
    is_kept &= run(arguments[i], is_no_split ? CACHALOT_POOL_NO_SPLIT : CACHALOT_POOL_WHOLE_BLOCKS);
  return is_kept || is_no_split ? 0 : 1;
}
