// SPDX-License-Identifier: MIT OR Apache-2.0
// Pinned host memory on a GPU: pairs of allocation and free beside PyTorch's allocator and the driver, the bytes
// that a load of mixed sizes pins, and copies on several streams, compared byte by byte.
//
// Usage: pinned [--torch LIBRARY] [--pairs 2000000] [--copies 4000] [--seed 1] [--out FOLDER]
//   --torch  the library made of torch_pinned_plugin.cpp; without it PyTorch is left out
//   --out    where pinned.md goes (.)
// Exit code: 0 no byte differed, 1 one did, 77 no GPU.
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "allocator.h"
#include "flags.h"
#include "measure.h"
#include "text_file.h"

namespace {

using Clock = std::chrono::steady_clock;
constexpr uint64_t kKiB = uint64_t{1} << 10;
constexpr uint64_t kMiB = uint64_t{1} << 20;

struct Block {
  void* memory = nullptr;
  void* context = nullptr;
};

// Functions throw gpu::Failure, and are called from any thread.
class Contender {
 public:
  explicit Contender(std::string name) : name_(std::move(name)) {}
  Contender(const Contender&) = delete;
  Contender& operator=(const Contender&) = delete;
  virtual ~Contender() = default;

  const std::string& name() const { return name_; }
  virtual Block allocate(size_t size) = 0;
  virtual void free(const Block& block) = 0;
  // So many pairs of both, in turns of these sizes.
  virtual void pair_up(uint64_t count, const std::vector<size_t>& sizes) = 0;
  virtual void empty() = 0;
  virtual int64_t pinned_bytes() = 0;
  virtual bool has_cache() const { return true; }

 private:
  std::string name_;
};

// The loop is compiled for each contender, so that it costs the same few instructions beside each.
template <class Kind>
class Paired : public Contender {
 public:
  using Contender::Contender;
  void pair_up(uint64_t count, const std::vector<size_t>& sizes) final {
    Kind& kind = static_cast<Kind&>(*this);
    size_t at = 0;
    for (uint64_t i = 0; i < count; i++) {
      kind.Kind::free(kind.Kind::allocate(sizes[at]));
      if (++at == sizes.size()) at = 0;
    }
  }
};

class Cachalot final : public Paired<Cachalot> {
 public:
  // config: of the cache like a device's; null: PyTorch's decisions.
  Cachalot(const std::string& name, const char* config) : Paired(name) {
    cachalot_allocator_options options = {};
    options.struct_size = sizeof options;
    options.driver = gpu::open_driver("cuda");
    options.config = "";
    options.release = CACHALOT_RELEASE_2_11;
    options.pinned_config = config;
    cachalot_error error = CACHALOT_ERROR_INIT;
    const cachalot_status status = cachalot_allocator_create(&options, &allocator_, &error);
    cachalot_driver_destroy(options.driver);
    gpu::check_status(status, error, "cachalot_allocator_create");
  }
  ~Cachalot() override { cachalot_allocator_destroy_all(allocator_, nullptr); }

  // Without a record of the error, which is 4 KiB; once more for its words.
  Block allocate(size_t size) override {
    Block block;
    if (cachalot_pinned_allocate(allocator_, size, &block.memory, nullptr) == CACHALOT_OK)
      return block;
    cachalot_error error = CACHALOT_ERROR_INIT;
    gpu::check_status(cachalot_pinned_allocate(allocator_, size, &block.memory, &error), error,
                      "cachalot_pinned_allocate");
    return block;
  }
  void free(const Block& block) override {
    if (cachalot_pinned_free(allocator_, block.memory, nullptr) == CACHALOT_OK) return;
    cachalot_error error = CACHALOT_ERROR_INIT;
    gpu::check_status(cachalot_pinned_free(allocator_, block.memory, &error), error,
                      "cachalot_pinned_free");
  }
  void record_stream(const Block& block, cudaStream_t stream) {
    cachalot_error error = CACHALOT_ERROR_INIT;
    gpu::check_status(
        cachalot_pinned_record_stream(allocator_, block.memory, 0, gpu::handle_of(stream), &error),
        error, "cachalot_pinned_record_stream");
  }
  void empty() override { cachalot_pinned_empty_cache(allocator_, nullptr); }
  // pre: it was made with a config.
  void set_limit(uint64_t bytes) {
    cachalot_error error = CACHALOT_ERROR_INIT;
    gpu::check_status(
        cachalot_set_memory_limit(cachalot_pinned_allocator(allocator_), 0, bytes, &error), error,
        "cachalot_set_memory_limit");
  }
  int64_t pinned_bytes() override {
    cachalot_pinned_stats stats = {};
    stats.struct_size = sizeof stats;
    cachalot_pinned_get_stats(allocator_, &stats, nullptr);
    return stats.allocated_bytes.current;
  }

 private:
  cachalot_allocator* allocator_ = nullptr;
};

class Torch final : public Paired<Torch> {
 public:
  explicit Torch(const std::string& library) : Paired("PyTorch") {
    // Never closed: the libraries behind it do not expect to be unloaded.
    void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) throw gpu::Failure(dlerror());
    load(handle, "torch_pinned_allocate", allocate_);
    load(handle, "torch_pinned_free", free_);
    load(handle, "torch_pinned_empty", empty_);
    load(handle, "torch_pinned_bytes", bytes_);
  }
  Block allocate(size_t size) override {
    Block block;
    block.memory = allocate_(size, &block.context);
    if (!block.memory) throw gpu::Failure("PyTorch: no memory");
    return block;
  }
  void free(const Block& block) override { free_(block.context); }
  void empty() override { empty_(); }
  int64_t pinned_bytes() override { return bytes_(); }

 private:
  template <class Function>
  static void load(void* handle, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(handle, name));
    if (!function) throw gpu::Failure(std::string("the plugin has no ") + name);
  }

  void* (*allocate_)(size_t, void**) = nullptr;
  void (*free_)(void*) = nullptr;
  void (*empty_)() = nullptr;
  int64_t (*bytes_)() = nullptr;
};

class Driver final : public Paired<Driver> {
 public:
  Driver() : Paired("cudaHostAlloc") {}
  Block allocate(size_t size) override {
    Block block;
    CHECK_CUDA(cudaHostAlloc(&block.memory, size, cudaHostAllocDefault));
    return block;
  }
  void free(const Block& block) override { CHECK_CUDA(cudaFreeHost(block.memory)); }
  void empty() override {}
  int64_t pinned_bytes() override { return 0; }
  bool has_cache() const override { return false; }
};

// ---- Pairs

// Nanoseconds a pair, of all threads together: each has a block at a time, in turns of these sizes.
double time_pairs(Contender& contender, int threads, uint64_t pairs,
                  const std::vector<size_t>& sizes) {
  const uint64_t each = std::max<uint64_t>(1, pairs / static_cast<uint64_t>(threads));
  std::atomic<int> waiting{threads};
  std::vector<std::thread> running;
  std::atomic<bool> has_begun{false};
  for (int i = 0; i < threads; i++) {
    running.emplace_back([&] {
      contender.pair_up(sizes.size(), sizes);  // the misses
      waiting--;
      while (!has_begun) std::this_thread::yield();
      contender.pair_up(each, sizes);
    });
  }
  while (waiting > 0) std::this_thread::yield();
  const auto begin = Clock::now();
  has_begun = true;
  for (std::thread& thread : running) thread.join();
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  contender.empty();
  return seconds * 1e9 / static_cast<double>(each * static_cast<uint64_t>(threads));
}

using Contenders = std::vector<std::unique_ptr<Contender>>;

std::string pairs_table(Contenders& contenders, uint64_t pairs) {
  struct Row {
    const char* name;
    int threads;
    std::vector<size_t> sizes;
  };
  const Row rows[] = {
      {"1 thread, 64 KiB", 1, {64 * kKiB}},
      {"1 thread, 4 KiB to 16 MiB", 1, {4096, 70000, 300000, 2 * kMiB, 16 * kMiB}},
      {"16 threads, 64 KiB", 16, {64 * kKiB}},
      {"16 threads, 4 KiB to 16 MiB", 16, {4096, 70000, 300000, 2 * kMiB, 16 * kMiB}}};
  std::string text = "| ns a pair |";
  for (const auto& contender : contenders) text += " " + contender->name() + " |";
  text += "\n| --- |";
  for (size_t i = 0; i < contenders.size(); i++) text += " --- |";
  text += "\n";
  for (const Row& row : rows) {
    std::vector<std::vector<double>> times(contenders.size());
    // In turns, so that the machine's speed is the same for all.
    for (size_t round = 0; round < 5; round++) {
      for (size_t turn = 0; turn < contenders.size(); turn++) {
        const size_t i = (round + turn) % contenders.size();
        const uint64_t count = contenders[i]->has_cache() ? pairs : 200;
        times[i].push_back(time_pairs(*contenders[i], row.threads, count, row.sizes));
      }
    }
    text += std::string("| ") + row.name + " |";
    for (const auto& of_contender : times) {
      text += gpu::format(" %.0f |", gpu::median(of_contender));
    }
    text += "\n";
  }
  return text;
}

// ---- Bytes

struct Bytes {
  size_t requested = 0;  // at the peak
  int64_t pinned = 0;    // likewise
};

// Staging buffers of a server: up to 64 live ones of 4 KiB to 64 MiB, most of them small.
Bytes run_load(Contender& contender, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::pair<Block, size_t>> live;
  size_t requested = 0;
  Bytes most;
  try {
    for (int i = 0; i < 4000; i++) {
      if (live.size() == 64 || (!live.empty() && random() % 2 == 0)) {
        const size_t at = random() % live.size();
        contender.free(live[at].first);
        requested -= live[at].second;
        live.erase(live.begin() + static_cast<ptrdiff_t>(at));
        continue;
      }
      const double power = 12 + 14 * std::pow(std::uniform_real_distribution<>()(random), 2);
      const auto size = static_cast<size_t>(std::exp2(power));
      live.emplace_back(contender.allocate(size), size);
      requested += size;
      most.requested = std::max(most.requested, requested);
      most.pinned = std::max(most.pinned, contender.pinned_bytes());
    }
  } catch (const gpu::Failure&) {
    most.pinned = -1;
  }
  for (const auto& [block, size] : live) contender.free(block);
  contender.empty();
  return most;
}

std::string bytes_line(const std::string& name, const Bytes& most) {
  return gpu::format("| %s | %.0f | %.0f | %.2f |\n", name.c_str(),
                     static_cast<double>(most.requested) / kMiB,
                     static_cast<double>(most.pinned) / kMiB,
                     static_cast<double>(most.pinned) / static_cast<double>(most.requested));
}

// The smallest limit under which the load runs, to a hundredth of what is requested.
Bytes smallest_limit(Cachalot& contender, uint64_t seed, const Bytes& unlimited) {
  const auto step = static_cast<int64_t>(unlimited.requested / 100);
  int64_t too_small = 0;
  int64_t enough = unlimited.pinned / step + 1;
  while (enough - too_small > 1) {
    const int64_t middle = (too_small + enough) / 2;
    contender.set_limit(static_cast<uint64_t>(middle * step));
    (run_load(contender, seed).pinned < 0 ? too_small : enough) = middle;
  }
  contender.set_limit(UINT64_MAX);
  return {unlimited.requested, enough * step};
}

// ---- Copies

// Blocks are filled, copied to the device without a wait, and freed at once; then they come back the same way, and
// are compared. A block that is handed out too early is written while a copy still reads it.
uint64_t differing_copies(Cachalot& contender, uint64_t copies, uint64_t seed) {
  constexpr size_t kStreams = 8;
  constexpr size_t kLargest = 8 * kMiB;
  std::vector<cudaStream_t> streams(kStreams);
  std::vector<unsigned char*> on_device(kStreams);
  for (size_t i = 0; i < kStreams; i++) {
    CHECK_CUDA(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
    CHECK_CUDA(cudaMalloc(reinterpret_cast<void**>(&on_device[i]), kLargest));
  }
  std::mt19937_64 random(seed);
  uint64_t different = 0;
  std::vector<unsigned char> expected(kLargest);
  for (uint64_t i = 0; i < copies; i++) {
    const size_t at = random() % kStreams;
    const size_t size = 1 + random() % kLargest;
    const auto pattern = static_cast<unsigned char>(random());
    // Several in a row to the same place: only the last counts, and each must have been whole.
    for (int turn = 0; turn < 3; turn++) {
      const Block block = contender.allocate(size);
      std::memset(block.memory, pattern + turn, size);
      CHECK_CUDA(
          cudaMemcpyAsync(on_device[at], block.memory, size, cudaMemcpyHostToDevice, streams[at]));
      contender.record_stream(block, streams[at]);
      contender.free(block);
    }
    const Block back = contender.allocate(size);
    CHECK_CUDA(
        cudaMemcpyAsync(back.memory, on_device[at], size, cudaMemcpyDeviceToHost, streams[at]));
    CHECK_CUDA(cudaStreamSynchronize(streams[at]));
    std::memset(expected.data(), pattern + 2, size);
    if (std::memcmp(back.memory, expected.data(), size) != 0) different++;
    contender.free(back);
  }
  for (size_t i = 0; i < kStreams; i++) {
    cudaStreamDestroy(streams[i]);
    cudaFree(on_device[i]);
  }
  return different;
}

bool run(int argc, char** argv) {
  gpu::Flags flags(argc, argv);
  const std::string torch = flags.text("torch", "");
  const uint64_t pairs = flags.number("pairs", 2000000);
  const uint64_t copies = flags.number("copies", 4000);
  const uint64_t seed = flags.number("seed", 1);
  const std::string out = flags.text("out", ".");
  flags.reject_unknown();
  gpu::require_gpus(1);

  Contenders contenders;
  contenders.push_back(std::make_unique<Cachalot>("cachalot", nullptr));
  contenders.push_back(std::make_unique<Cachalot>("cachalot, pinned_config", ""));
  if (!torch.empty()) contenders.push_back(std::make_unique<Torch>(torch));
  contenders.push_back(std::make_unique<Driver>());

  std::string text = pairs_table(contenders, pairs);
  text += "\n| contender | requested, MiB | pinned, MiB | ratio |\n| --- | --- | --- | --- |\n";
  for (const auto& contender : contenders) {
    if (contender->has_cache()) text += bytes_line(contender->name(), run_load(*contender, seed));
  }
  Cachalot& limited = static_cast<Cachalot&>(*contenders[1]);
  text += bytes_line(limited.name() + ", under the smallest limit",
                     smallest_limit(limited, seed, run_load(limited, seed)));
  uint64_t different = 0;
  for (size_t i = 0; i < 2; i++) {
    const uint64_t found = differing_copies(static_cast<Cachalot&>(*contenders[i]), copies, seed);
    text += "\n" + contenders[i]->name() + ": of " + std::to_string(copies) + " round trips " +
            std::to_string(found) + " differ\n";
    different += found;
  }
  printf("%s", text.c_str());
  gpu::write_file(out + "/pinned.md", text);
  printf(different == 0 ? "passed: no byte differed\n" : "failed: see above\n");
  return different == 0;
}

}  // namespace

int main(int argc, char** argv) {
  return gpu::run_program([&] { return run(argc, argv); });
}
