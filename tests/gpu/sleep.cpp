// SPDX-License-Identifier: MIT OR Apache-2.0
// Pools that sleep on a GPU: two models that do not fit together take turns, with CUDA graphs that were captured
// before, and each finds its weights as they were. Then what sleeping and waking cost, beside plain copies of pinned
// memory.
//
// Usage: sleep [--model 16GiB] [--turns 6] [--require 0] [--out FOLDER]
//   --require  the least percentage of a plain copy's bandwidth that keeping contents has to reach
//   --out      where sleep.md goes (.)
// Exit code: 0 nothing differed and the bandwidth was reached, 1 not, 77 no GPU.
#include <algorithm>
#include <vector>

#include "allocator.h"
#include "flags.h"
#include "measure.h"
#include "pattern_kernels.h"
#include "text_file.h"

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kBlock = 256 * kMiB;

template <class Function, class... Arguments>
void call(const char* name, Function function, Arguments... arguments) {
  cachalot_error error = CACHALOT_ERROR_INIT;
  gpu::check_status(function(arguments..., &error), error, name);
}

// Weights and a key/value cache in a private pool, and a graph that reads the ones and writes the other. Its report of
// wrong words lies outside.
class Model {
 public:
  Model(cachalot_allocator* allocator, uint64_t number, uint64_t bytes)
      : allocator_(allocator), pool_{0, number}, number_(static_cast<uint32_t>(number)) {
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    CHECK_CUDA(cudaMalloc(reinterpret_cast<void**>(&report_), sizeof *report_));
    const std::string name = "model " + std::to_string(number);
    cachalot_tenant_options options = {};
    options.struct_size = sizeof options;
    options.name = name.c_str();
    call("tenant", cachalot_tenant_create, allocator, &options, &tenant_);
    call("pool", cachalot_pool_create, allocator, 0, pool_,
         static_cast<const cachalot_pool_options*>(nullptr));
    call("contents", cachalot_pool_set_sleep_contents, allocator, 0, pool_, "kv",
         CACHALOT_SLEEP_DISCARD);
    call("sleep of a tenant", cachalot_tenant_set_sleep, allocator, tenant_, 0, pool_,
         CACHALOT_SLEEP_KEEP, gpu::handle_of(stream_));
    weights_ = blocks("weights", bytes - bytes / 4);
    cache_ = blocks("kv", bytes / 4);
    for (size_t i = 0; i < weights_.size(); i++)
      CHECK_CUDA(gpu::fill_pattern(weights_[i], kBlock, pattern_of(i), stream_));
    capture();
  }
  ~Model() {
    cudaGraphExecDestroy(graph_);
    cudaFree(report_);
    for (const auto* list : {&weights_, &cache_})
      for (const cachalot_address block : *list) cachalot_free(allocator_, block, nullptr);
    cachalot_tenant_destroy(tenant_, nullptr);
    cachalot_pool_release(allocator_, 0, pool_, nullptr);
    cachalot_pool_empty(allocator_, 0, pool_, nullptr);
    cudaStreamDestroy(stream_);
  }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  cachalot_pool_id pool() const { return pool_; }
  cudaStream_t stream() const { return stream_; }

  void sleep(int32_t contents) {
    call("sleep", cachalot_pool_sleep, allocator_, 0, pool_, contents, gpu::handle_of(stream_),
         static_cast<uint64_t*>(nullptr));
  }
  void wake() { call("wake", cachalot_pool_wake, allocator_, 0, pool_, gpu::handle_of(stream_)); }
  cachalot_sleep_stats stats() const {
    cachalot_sleep_stats stats = {};
    stats.struct_size = sizeof stats;
    call("stats", cachalot_get_sleep_stats, allocator_, 0, pool_, &stats);
    return stats;
  }
  // Words of the weights that are not what was written.
  uint64_t run_graph() {
    CHECK_CUDA(cudaGraphLaunch(graph_, stream_));
    gpu::MismatchReport found = {};
    CHECK_CUDA(cudaMemcpyAsync(&found, report_, sizeof found, cudaMemcpyDeviceToHost, stream_));
    CHECK_CUDA(cudaStreamSynchronize(stream_));
    return found.words;
  }

 private:
  uint32_t pattern_of(size_t block) const { return number_ * 1000 + static_cast<uint32_t>(block); }

  std::vector<cachalot_address> blocks(const char* label, uint64_t bytes) {
    std::vector<cachalot_address> made;
    call("label", cachalot_label_push, label);
    cachalot_pool_route route = {};
    route.struct_size = sizeof route;
    call("pool begin", cachalot_pool_begin, allocator_, 0, pool_,
         static_cast<const cachalot_pool_route*>(&route));
    for (uint64_t i = 0; i < bytes / kBlock; i++) {
      made.push_back(0);
      call("allocate", cachalot_allocate_for, allocator_, tenant_, kBlock, 0,
           gpu::handle_of(stream_), &made.back());
    }
    call("pool end", cachalot_pool_end, allocator_, 0, pool_);
    call("pool release", cachalot_pool_release, allocator_, 0, pool_);
    call("label", cachalot_label_pop);
    return made;
  }

  void capture() {
    cudaGraph_t captured = nullptr;
    CHECK_CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    CHECK_CUDA(cudaMemsetAsync(report_, 0, sizeof *report_, stream_));
    for (size_t i = 0; i < weights_.size(); i++)
      CHECK_CUDA(gpu::verify_pattern(weights_[i], kBlock, pattern_of(i), report_, stream_));
    for (const cachalot_address block : cache_)
      CHECK_CUDA(gpu::fill_pattern(block, kBlock, number_, stream_));
    CHECK_CUDA(cudaStreamEndCapture(stream_, &captured));
    CHECK_CUDA(cudaGraphInstantiate(&graph_, captured, 0));
    CHECK_CUDA(cudaGraphDestroy(captured));
  }

  cachalot_allocator* allocator_;
  cachalot_pool_id pool_;
  uint32_t number_;
  cachalot_tenant* tenant_ = nullptr;
  cudaStream_t stream_ = nullptr;
  gpu::MismatchReport* report_ = nullptr;
  cudaGraphExec_t graph_ = nullptr;
  std::vector<cachalot_address> weights_;
  std::vector<cachalot_address> cache_;
};

// ---- Turns

// Nobody but the one that wakes is told: the other falls asleep since memory is short. Gives the words that differ.
uint64_t take_turns(Model& first, Model& second, uint64_t turns) {
  uint64_t different = 0;
  for (uint64_t turn = 0; turn < turns; turn++) {
    Model& next = turn % 2 == 0 ? first : second;
    Model& last = turn % 2 == 0 ? second : first;
    const double seconds = gpu::seconds_of([&] {
      next.wake();
      different += next.run_graph();
    });
    gpu::require(last.stats().state == CACHALOT_POOL_ASLEEP, "both models are awake");
    printf("  turn %llu: %.3f s until the graph has run\n", static_cast<unsigned long long>(turn),
           seconds);
  }
  return different;
}

// ---- Costs

// Bytes a second of plain copies in pieces of 32 MiB, as many at a time as the contents of a model have.
double plain_bandwidth(cudaMemcpyKind kind, cudaStream_t stream) {
  constexpr size_t kPiece = 32 * kMiB;
  constexpr size_t kPieces = 64;
  unsigned char* device = nullptr;
  unsigned char* host = nullptr;
  CHECK_CUDA(cudaMalloc(reinterpret_cast<void**>(&device), kPiece * kPieces));
  CHECK_CUDA(cudaHostAlloc(reinterpret_cast<void**>(&host), kPiece * kPieces, 0));
  double best = 0;
  for (int round = 0; round < 5; round++) {
    const double seconds = gpu::seconds_of([&] {
      for (size_t i = 0; i < kPieces; i++) {
        void* const to = (kind == cudaMemcpyHostToDevice ? device : host) + i * kPiece;
        const void* const from = (kind == cudaMemcpyHostToDevice ? host : device) + i * kPiece;
        CHECK_CUDA(cudaMemcpyAsync(to, from, kPiece, kind, stream));
      }
      CHECK_CUDA(cudaStreamSynchronize(stream));
    });
    best = std::max(best, static_cast<double>(kPiece * kPieces) / seconds);
  }
  CHECK_CUDA(cudaFree(device));
  CHECK_CUDA(cudaFreeHost(host));
  return best;
}

struct Costs {
  double first_sleep, sleep, wake, discard, wake_discarded;  // seconds
  uint64_t kept, bytes;
};

Costs measure(Model& model) {
  Costs costs = {};
  std::vector<double> sleeps, wakes, discards, empty_wakes;
  for (int round = 0; round < 6; round++) {
    sleeps.push_back(gpu::seconds_of([&] { model.sleep(CACHALOT_SLEEP_KEEP_ALL); }));
    costs.kept = model.stats().kept_bytes;
    costs.bytes = model.stats().asleep_bytes;
    wakes.push_back(gpu::seconds_of([&] {
      model.wake();
      CHECK_CUDA(cudaStreamSynchronize(model.stream()));
    }));
  }
  costs.first_sleep = sleeps.front();
  sleeps.erase(sleeps.begin());
  gpu::require(model.run_graph() == 0, "weights differ");
  for (int round = 0; round < 3; round++) {
    discards.push_back(gpu::seconds_of([&] { model.sleep(CACHALOT_SLEEP_DISCARD); }));
    empty_wakes.push_back(gpu::seconds_of([&] { model.wake(); }));
  }
  costs.sleep = gpu::median(sleeps);
  costs.wake = gpu::median(wakes);
  costs.discard = gpu::median(discards);
  costs.wake_discarded = gpu::median(empty_wakes);
  return costs;
}

// Gives the lower of the two percentages.
double write_costs(const Costs& costs, double to_host, double to_device, std::string* text) {
  const auto gb = [](double bytes) { return bytes / 1e9; };
  const auto kept = static_cast<double>(costs.kept);
  const double sleep_rate = kept / costs.sleep;
  const double wake_rate = kept / costs.wake;
  *text += gpu::format("%.1f GB, of which %.1f GB are kept:\n\n",
                       gb(static_cast<double>(costs.bytes)), gb(kept));
  *text += "| | seconds | GB/s | a plain copy, GB/s | part |\n| --- | --- | --- | --- | --- |\n";
  *text += gpu::format("| sleep, the first time | %.3f | %.1f | %.1f | %.0f %% |\n",
                       costs.first_sleep, gb(kept / costs.first_sleep), gb(to_host),
                       100 * kept / costs.first_sleep / to_host);
  *text += gpu::format("| sleep | %.3f | %.1f | %.1f | %.0f %% |\n", costs.sleep, gb(sleep_rate),
                       gb(to_host), 100 * sleep_rate / to_host);
  *text += gpu::format("| wake | %.3f | %.1f | %.1f | %.0f %% |\n", costs.wake, gb(wake_rate),
                       gb(to_device), 100 * wake_rate / to_device);
  *text += gpu::format("| sleep, all discarded | %.3f | | | |\n", costs.discard);
  *text += gpu::format("| wake, all discarded | %.3f | | | |\n", costs.wake_discarded);
  return 100 * std::min(sleep_rate / to_host, wake_rate / to_device);
}

bool run(int argc, char** argv) {
  gpu::Flags flags(argc, argv);
  const uint64_t bytes = flags.size("model", 16 * 1024 * kMiB);
  const uint64_t turns = flags.number("turns", 6);
  const uint64_t required = flags.number("require", 0);
  const std::string out = flags.text("out", ".");
  flags.reject_unknown();
  gpu::require_gpus(1);

  const bool tracks_labels = true;
  gpu::Allocator allocator(gpu::open_driver("cuda"), "expandable_segments:True",
                           CACHALOT_RELEASE_DEFAULT, "", tracks_labels);
  call("limit", cachalot_set_memory_limit, allocator.get(), 0, bytes + bytes / 2);
  uint64_t different = 0;
  {
    Model first(allocator.get(), 1, bytes);
    Model second(allocator.get(), 2, bytes);  // for which the first falls asleep
    different = second.run_graph() + take_turns(first, second, turns);
  }
  std::string text = gpu::format(
      "Two models of %.0f MiB under a limit of %.0f MiB, %llu turns: %llu words differ\n\n",
      static_cast<double>(bytes) / kMiB, static_cast<double>(bytes + bytes / 2) / kMiB,
      static_cast<unsigned long long>(turns), static_cast<unsigned long long>(different));
  double reached = 0;
  {
    Model alone(allocator.get(), 3, bytes);
    const double to_host = plain_bandwidth(cudaMemcpyDeviceToHost, alone.stream());
    const double to_device = plain_bandwidth(cudaMemcpyHostToDevice, alone.stream());
    reached = write_costs(measure(alone), to_host, to_device, &text);
  }
  printf("%s", text.c_str());
  gpu::write_file(out + "/sleep.md", text);
  const bool is_passed = different == 0 && reached >= static_cast<double>(required);
  printf(is_passed ? "passed: no word differed\n" : "failed: see above\n");
  return is_passed;
}

}  // namespace

int main(int argc, char** argv) {
  return gpu::run_program([&] { return run(argc, argv); });
}
