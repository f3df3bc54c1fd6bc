// SPDX-License-Identifier: MIT OR Apache-2.0
// What each call of the CUDA driver costs that an allocator makes: time on the calling thread, by
// size.
//
// Usage: driver_costs [--out FOLDER] [--max-size 8GiB] [--milliseconds 120]
//   --out           where driver_costs.csv and driver_costs.md go (.)
//   --milliseconds  for each group of calls at each size
// Exit code: 0 measured, 1 a call failed (the others are still measured), 77 no GPU.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "driver_functions.h"
#include "flags.h"
#include "streams.h"
#include "text_file.h"

namespace {

using Clock = std::chrono::steady_clock;

struct Cost {
  size_t samples;
  double median;  // microseconds
  double p99;
  double least;
};

// Calls in the order of their first sample, by size; size 0 for calls that have none.
class Costs {
 public:
  void add(const std::string& call, uint64_t size, double microseconds) {
    if (std::find(calls_.begin(), calls_.end(), call) == calls_.end()) calls_.push_back(call);
    samples_[{call, size}].push_back(microseconds);
  }

  std::string csv() const {
    std::string text = "call,size,samples,median_us,p99_us,least_us\n";
    for (const std::string& call : calls_) {
      for (const uint64_t size : sizes()) {
        const Cost cost = cost_of(call, size);
        if (!cost.samples) continue;
        text += gpu::format("\"%s\",%llu,%zu,%.3f,%.3f,%.3f\n", call.c_str(),
                            static_cast<unsigned long long>(size), cost.samples, cost.median,
                            cost.p99, cost.least);
      }
    }
    return text;
  }

  // A column for each call that has a size, then the others as lines.
  std::string markdown() const {
    std::string text = "Microseconds on the calling thread: median (99th percentile).\n\n| size |";
    const std::vector<std::string> columns = calls_of(true);
    for (const std::string& call : columns) text += " " + call + " |";
    text += "\n| --- |";
    for (size_t i = 0; i < columns.size(); i++) text += " --- |";
    for (const uint64_t size : sizes()) {
      if (size == 0) continue;
      text += "\n| " + name_of(size) + " |";
      for (const std::string& call : columns) text += " " + cell(call, size) + " |";
    }
    text += "\n\n| call | cost |\n| --- | --- |\n";
    for (const std::string& call : calls_of(false)) {
      text += "| " + call + " | " + cell(call, 0) + " |\n";
    }
    return text;
  }

 private:
  std::vector<uint64_t> sizes() const {
    std::vector<uint64_t> sizes;
    for (const auto& [key, samples] : samples_) sizes.push_back(key.second);
    std::sort(sizes.begin(), sizes.end());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    return sizes;
  }

  std::vector<std::string> calls_of(bool with_size) const {
    std::vector<std::string> calls;
    for (const std::string& call : calls_) {
      if ((samples_.count({call, 0}) == 0) == with_size) calls.push_back(call);
    }
    return calls;
  }

  Cost cost_of(const std::string& call, uint64_t size) const {
    const auto found = samples_.find({call, size});
    if (found == samples_.end()) return {};
    std::vector<double> sorted = found->second;
    std::sort(sorted.begin(), sorted.end());
    const auto rank = static_cast<size_t>(std::ceil(0.99 * static_cast<double>(sorted.size()))) - 1;
    return {sorted.size(), sorted[sorted.size() / 2], sorted[rank], sorted[0]};
  }

  std::string cell(const std::string& call, uint64_t size) const {
    const Cost cost = cost_of(call, size);
    return cost.samples ? gpu::format("%.1f (%.1f)", cost.median, cost.p99) : "–";
  }

  static std::string name_of(uint64_t size) {
    static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB"};
    int unit = 0;
    for (; size >= 1024; size /= 1024) unit++;
    return std::to_string(size) + " " + kUnits[unit];
  }

  std::vector<std::string> calls_;
  std::map<std::pair<std::string, uint64_t>, std::vector<double>> samples_;
};

class Measurement {
 public:
  explicit Measurement(std::chrono::milliseconds duration) : duration_(duration) {
    CHECK_CUDA(cudaDeviceGetDefaultMemPool(&pool_, 0));
    uint64_t everything = UINT64_MAX;
    CHECK_CUDA(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &everything));
  }

  const Costs& costs() const { return costs_; }
  bool failed() const { return failed_; }

  void measure_sizes(uint64_t most) {
    std::vector<uint64_t> sizes;
    for (uint64_t size = 512; size <= most; size *= 4) sizes.push_back(size);
    sizes.push_back(uint64_t{20} << 20);  // the page of large expandable segments
    std::sort(sizes.begin(), sizes.end());
    for (const uint64_t size : sizes) {
      if (size > most) break;
      group("plain memory", size, [&] { plain(size); });
      if (size % granularity_ == 0) group("virtual memory", size, [&] { virtual_memory(size); });
      group("stream-ordered memory, hit", size, [&] { stream_ordered_hit(size); });
      group("stream-ordered memory, miss", size, [&] { stream_ordered_miss(size); });
    }
  }

  void measure_events() {
    group("events", 0, [&] { event(); });
    group("a late event", 0, [&] { late_event(); });
  }

 private:
  static constexpr int kFewest = 5;
  static constexpr int kMost = 2000;

  // Repeats until the time is over. A first round warms up and is not counted.
  void group(const char* name, uint64_t size, const std::function<void()>& round) {
    try {
      recording_ = false;
      round();
      recording_ = true;
      const auto end = Clock::now() + duration_;
      for (int i = 0; i < kMost && (i < kFewest || Clock::now() < end); i++) round();
      CHECK_CUDA(cudaDeviceSynchronize());
      CHECK_CUDA(cudaMemPoolTrimTo(pool_, 0));
    } catch (const gpu::Failure& failure) {
      printf("failed: %s of %llu bytes: %s\n", name, static_cast<unsigned long long>(size),
             failure.what());
      failed_ = true;
    }
  }

  template <class Call>
  void time(const char* name, uint64_t size, Call call) {
    const auto begin = Clock::now();
    const auto code = call();
    const std::chrono::duration<double, std::micro> elapsed = Clock::now() - begin;
    check(code, name);
    if (recording_) costs_.add(name, size, elapsed.count());
  }

  void check(CUresult code, const char* call) const { driver_.check(code, call); }
  void check(cudaError_t code, const char* call) const {
    gpu::check_cuda(code, call, __FILE__, __LINE__);
  }

  void plain(uint64_t size) {
    CUdeviceptr address = 0;
    time("cuMemAlloc", size, [&] { return driver_.cuMemAlloc_p(&address, size); });
    time("cuMemFree", size, [&] { return driver_.cuMemFree_p(address); });
  }

  void virtual_memory(uint64_t size) {
    CUdeviceptr address = 0;
    CUmemGenericAllocationHandle handle = 0;
    time("cuMemAddressReserve", size,
         [&] { return driver_.cuMemAddressReserve_p(&address, size, 0, 0, 0); });
    time("cuMemCreate", size, [&] { return driver_.cuMemCreate_p(&handle, size, &property_, 0); });
    time("cuMemMap", size, [&] { return driver_.cuMemMap_p(address, size, 0, handle, 0); });
    time("cuMemSetAccess", size,
         [&] { return driver_.cuMemSetAccess_p(address, size, &access_, 1); });
    time("cuMemUnmap", size, [&] { return driver_.cuMemUnmap_p(address, size); });
    time("cuMemRelease", size, [&] { return driver_.cuMemRelease_p(handle); });
    time("cuMemAddressFree", size, [&] { return driver_.cuMemAddressFree_p(address, size); });
  }

  void stream_ordered_hit(uint64_t size) {
    void* address = nullptr;
    time("cudaMallocAsync, hit", size,
         [&] { return cudaMallocAsync(&address, size, streams_[0]); });
    time("cudaFreeAsync", size, [&] { return cudaFreeAsync(address, streams_[0]); });
  }

  void stream_ordered_miss(uint64_t size) {
    check(cudaStreamSynchronize(streams_[0]), "cudaStreamSynchronize");
    check(cudaMemPoolTrimTo(pool_, 0), "cudaMemPoolTrimTo");
    void* address = nullptr;
    time("cudaMallocAsync, miss", size,
         [&] { return cudaMallocAsync(&address, size, streams_[0]); });
    check(cudaFreeAsync(address, streams_[0]), "cudaFreeAsync");
  }

  void event() {
    cudaEvent_t event = nullptr;
    time("event create", 0,
         [&] { return cudaEventCreateWithFlags(&event, cudaEventDisableTiming); });
    time("event record", 0, [&] { return cudaEventRecord(event, streams_[0]); });
    check(cudaStreamSynchronize(streams_[0]), "cudaStreamSynchronize");
    time("event query, done", 0, [&] { return cudaEventQuery(event); });
    time("event synchronize, done", 0, [&] { return cudaEventSynchronize(event); });
    time("event destroy", 0, [&] { return cudaEventDestroy(event); });
  }

  // Asked while the copy before it is still under way.
  void late_event() {
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
    check(cudaMemsetAsync(scratch_.address, 1, Scratch::kSize, streams_[0]), "cudaMemsetAsync");
    check(cudaEventRecord(event, streams_[0]), "cudaEventRecord");
    bool late = false;
    const auto begin = Clock::now();
    late = cudaEventQuery(event) == cudaErrorNotReady;
    const std::chrono::duration<double, std::micro> elapsed = Clock::now() - begin;
    if (recording_ && late) costs_.add("event query, not done", 0, elapsed.count());
    check(cudaEventSynchronize(event), "cudaEventSynchronize");
    check(cudaEventDestroy(event), "cudaEventDestroy");
  }

  // Memory whose filling takes about a tenth of a millisecond.
  struct Scratch {
    static constexpr size_t kSize = size_t{256} << 20;
    Scratch() { CHECK_CUDA(cudaMalloc(&address, kSize)); }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch() { cudaFree(address); }
    void* address = nullptr;
  };

  uint64_t page_granularity() const {
    size_t bytes = 0;
    driver_.check(driver_.cuMemGetAllocationGranularity_p(&bytes, &property_,
                                                          CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                  "cuMemGetAllocationGranularity");
    return bytes;
  }

  const gpu::Driver driver_;
  const std::chrono::milliseconds duration_;
  const gpu::Streams streams_{1};
  const Scratch scratch_;
  const CUmemAllocationProp property_ = gpu::page_property();
  const CUmemAccessDesc access_ = {property_.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  const uint64_t granularity_ = page_granularity();
  cudaMemPool_t pool_ = nullptr;
  Costs costs_;
  bool recording_ = false;
  bool failed_ = false;
};

bool run(int argc, char** argv) {
  gpu::Flags flags(argc, argv);
  const std::string out = flags.text("out", ".");
  const uint64_t most = flags.size("max-size", uint64_t{8} << 30);
  const uint64_t milliseconds = flags.number("milliseconds", 120);
  flags.reject_unknown();
  gpu::require_gpus(1);
  CHECK_CUDA(cudaFree(nullptr));
  Measurement measurement{std::chrono::milliseconds(milliseconds)};
  measurement.measure_sizes(most);
  measurement.measure_events();
  const std::string table = measurement.costs().markdown();
  fputs(table.c_str(), stdout);
  gpu::write_file(out + "/driver_costs.md", table);
  gpu::write_file(out + "/driver_costs.csv", measurement.costs().csv());
  return !measurement.failed();
}

}  // namespace

int main(int argc, char** argv) {
  return gpu::run_program([&] { return run(argc, argv); });
}
