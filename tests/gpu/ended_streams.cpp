// SPDX-License-Identifier: MIT OR Apache-2.0
// Streams that are destroyed while an allocator under the serving policy has memory that they used:
// what CUDA and the library make of it where nobody announced the end, and that nothing is wrong where
// somebody did. Each case runs in a process of its own, since CUDA may end it.
//
// Usage: ended_streams [--streams 1000] [--driver cuda] [--case NAME]
//   --streams  of the case `many`
//   --case     only this one, in this process
// Exit code: 0 all announced ends are harmless, 1 not, 77 no GPU. Cases whose end is not announced are
// only told about.
#include <sys/wait.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include "allocator.h"
#include "flags.h"
#include "function_driver.h"
#include "mismatches.h"
#include "streams.h"

namespace {

using gpu::Allocator;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kSize = 64 * kMiB;
constexpr uint64_t kLate = 100'000;  // microseconds of work that is under way

struct Options {
  uint64_t streams;
  std::string driver;
  std::string only;
};

cudaStream_t make_stream() {
  cudaStream_t stream = nullptr;
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

// An allocator, two streams and the words that differ. The first stream is the one that ends.
class World {
 public:
  World(const Options& options, const std::string& policy)
      : allocator(options.driver == "custom" ? gpu::make_function_driver(gpu::LeftOut::kNothing)
                                             : gpu::open_driver(options.driver),
                  "", CACHALOT_RELEASE_DEFAULT, policy),
        first(make_stream()),
        second(make_stream()) {}

  // Filled and compared on its stream; not waited for.
  cachalot_address block_on(cudaStream_t stream, uint64_t size = kSize) {
    const cachalot_address address = allocator.allocate(size, 0, stream);
    use(address, stream, size);
    return address;
  }
  void use(cachalot_address address, cudaStream_t stream, uint64_t size = kSize) {
    const uint32_t number = ++last_number_;
    CHECK_CUDA(gpu::fill_pattern(address, size, number, stream));
    CHECK_CUDA(gpu::verify_pattern(address, size, number, mismatches.on_device(), stream));
  }
  // Filled, and compared after a while: whoever writes too early is seen.
  void use_late(cachalot_address address, cudaStream_t stream) {
    const uint32_t number = ++last_number_;
    CHECK_CUDA(gpu::fill_pattern(address, kSize, number, stream));
    CHECK_CUDA(cudaStreamSynchronize(stream));
    CHECK_CUDA(gpu::hold_stream(kLate, stream));
    CHECK_CUDA(gpu::verify_pattern(address, kSize, number, mismatches.on_device(), stream));
  }

  // A block that is freed while its work is under way.
  void free_while_used(cudaStream_t stream) {
    const cachalot_address address = allocator.allocate(kSize, 0, stream);
    use_late(address, stream);
    allocator.free(address);
  }

  void end_first(bool announced) {
    if (announced) allocator.stream_ended(0, first);
    CHECK_CUDA(cudaStreamDestroy(first));
  }

  void print_stats() { gpu::print_policy_stats(allocator.policy_stats(0)); }

  // After all work.
  void require_right_words() {
    CHECK_CUDA(cudaDeviceSynchronize());
    const uint64_t differing = mismatches.print();
    gpu::require(differing == 0, std::to_string(differing) + " words differ");
    allocator.check();
  }

  gpu::Mismatches mismatches;
  Allocator allocator;
  cudaStream_t first;
  cudaStream_t second;

 private:
  uint32_t last_number_ = 0;
};

// ---- Ends that nobody announced

// The second stream gets memory that the first one, which is gone, has used.
void borrow_from(World& world) {
  const cachalot_address address = world.block_on(world.second);
  world.print_stats();
  world.require_right_words();
  world.allocator.free(address);
}

void idle_and_unannounced(const Options& options) {
  World world(options, "serving");
  world.allocator.free(world.block_on(world.first));
  CHECK_CUDA(cudaDeviceSynchronize());
  world.end_first(false);
  borrow_from(world);
}

void busy_and_unannounced(const Options& options) {
  World world(options, "serving");
  world.free_while_used(world.first);
  world.end_first(false);
  borrow_from(world);
}

void remade_and_unannounced(const Options& options) {
  World world(options, "serving");
  world.free_while_used(world.first);
  const cudaStream_t old = world.first;
  world.end_first(false);
  std::vector<cudaStream_t> others;
  others.reserve(64);
  for (int i = 0; i < 64; i++) others.push_back(make_stream());
  bool is_reused = false;
  for (const cudaStream_t other : others) is_reused = is_reused || other == old;
  printf("  the handle stands for one of 64 new streams: %s\n", is_reused ? "yes" : "no");
  borrow_from(world);
}

// Pages leave the block, so the host waits for the stream.
void moved_and_unannounced(const Options& options) {
  World world(options, "serving,borrow=never");
  world.allocator.set_limit(0, kSize);
  world.allocator.free(world.block_on(world.first));
  CHECK_CUDA(cudaDeviceSynchronize());
  world.end_first(false);
  borrow_from(world);
}

// ---- Announced ends

void announced(const Options& options) {
  World world(options, "serving");
  world.free_while_used(world.first);
  world.end_first(true);
  borrow_from(world);
  const cachalot_policy_stats stats = world.allocator.policy_stats(0);
  gpu::require(stats.blocks_borrowed == 1, "the block was not borrowed");
  gpu::require(stats.stream_waits == 0 && stats.host_waits == 0, "something was waited for");
}

void announced_and_moved(const Options& options) {
  World world(options, "serving,borrow=never");
  world.allocator.set_limit(0, kSize);
  world.allocator.free(world.block_on(world.first));
  world.end_first(true);
  borrow_from(world);
  const cachalot_policy_stats stats = world.allocator.policy_stats(0);
  gpu::require(stats.pages_moved > 0, "no page moved");
  gpu::require(stats.host_waits == 0, "something was waited for");
}

// The block outlives the stream that it was made for; another one uses it, and says so.
void outlives_its_stream(const Options& options) {
  World world(options, "serving");
  const cachalot_address address = world.block_on(world.first);
  world.end_first(true);
  const cudaStream_t heir = make_stream();
  printf("  the heir has the same handle: %s\n", heir == world.first ? "yes" : "no");
  world.use_late(address, heir);
  world.allocator.record_stream(address, heir);
  world.allocator.free(address);
  borrow_from(world);
}

// The same with a block that was lent: the heir is the stream that the memory belongs to.
void lent_and_outlives_its_stream(const Options& options) {
  World world(options, "serving");
  world.allocator.free(world.block_on(world.second));
  const cachalot_address address = world.block_on(world.first);  // borrowed from the second
  world.end_first(true);
  world.use_late(address, world.second);
  world.allocator.record_stream(address, world.second);
  world.allocator.free(address);
  const cudaStream_t third = make_stream();
  const cachalot_address next = world.block_on(third);
  world.print_stats();
  gpu::require(world.allocator.policy_stats(0).blocks_borrowed >= 1, "no block was borrowed");
  world.require_right_words();
  world.allocator.free(next);
}

// The block was recorded for a stream that ends before the block is freed.
void recorded_for_an_ended_stream(const Options& options) {
  World world(options, "serving");
  const cachalot_address address = world.block_on(world.second);
  world.allocator.record_stream(address, world.first);
  world.end_first(true);
  world.allocator.free(address);
  borrow_from(world);
}

// ---- Many

// Bytes of the process in the host's memory.
uint64_t resident_bytes() {
  FILE* const file = fopen("/proc/self/statm", "r");
  gpu::require(file != nullptr, "/proc/self/statm cannot be read");
  unsigned long long size = 0;
  unsigned long long resident = 0;
  const int fields = fscanf(file, "%llu %llu", &size, &resident);
  fclose(file);
  gpu::require(fields == 2, "/proc/self/statm has no numbers");
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// A few blocks of several sizes; one is freed only after the stream has ended.
void life_of_a_stream(World& world, uint64_t index) {
  const cudaStream_t stream = make_stream();
  std::vector<cachalot_address> blocks;
  for (const uint64_t size : {uint64_t{512}, 64 * (uint64_t{1} << 10), 3 * kMiB, 17 * kMiB}) {
    blocks.push_back(world.block_on(stream, size * (1 + index % 3)));
  }
  const cachalot_address survivor = blocks.back();
  blocks.pop_back();
  for (const cachalot_address block : blocks) world.allocator.free(block);
  world.allocator.stream_ended(0, stream);
  CHECK_CUDA(cudaStreamDestroy(stream));
  world.allocator.free(survivor);
}

// What the host's memory grows by where streams come and go without an allocator, after a tenth of them.
uint64_t growth_without_us(const Options& options) {
  void* memory = nullptr;
  CHECK_CUDA(cudaMalloc(&memory, kMiB));
  uint64_t before = 0;
  for (uint64_t i = 0; i < options.streams; i++) {
    if (i == options.streams / 10) before = resident_bytes();
    const cudaStream_t stream = make_stream();
    CHECK_CUDA(gpu::fill_pattern(reinterpret_cast<uint64_t>(memory), kMiB, 1, stream));
    CHECK_CUDA(cudaStreamSynchronize(stream));
    CHECK_CUDA(cudaStreamDestroy(stream));
  }
  const uint64_t after = resident_bytes();
  CHECK_CUDA(cudaFree(memory));
  return after > before ? after - before : 0;
}

struct Memory {
  uint64_t reserved;
  uint64_t resident;
};

Memory memory_of(World& world) {
  const auto reserved = world.allocator.stats(0).reserved_bytes.all.current;
  return {static_cast<uint64_t>(reserved), resident_bytes()};
}

void many(const Options& options) {
  World world(options, "serving");
  const uint64_t growth = growth_without_us(options);
  const uint64_t warm_up = options.streams / 10 + 1;
  for (uint64_t i = 0; i < warm_up; i++) life_of_a_stream(world, i);
  const Memory before = memory_of(world);
  for (uint64_t i = warm_up; i < options.streams; i++) life_of_a_stream(world, i);
  const Memory after = memory_of(world);
  world.print_stats();
  const auto in_mib = [](uint64_t bytes) { return static_cast<double>(bytes) / kMiB; };
  printf("  after %" PRIu64 " streams %.1f MiB reserved, %.1f MiB of the host; after %" PRIu64
         " %.1f and %.1f; without an allocator the host's grow by %.1f MiB\n",
         warm_up, in_mib(before.reserved), in_mib(before.resident), options.streams,
         in_mib(after.reserved), in_mib(after.resident), in_mib(growth));
  world.require_right_words();
  gpu::require(after.reserved <= before.reserved + before.reserved / 10,
               "what is reserved grows with the streams");
  gpu::require(after.resident <= before.resident + growth + 4 * kMiB,
               "the host's memory grows with the streams");
}

// ---- Processes

struct Case {
  const char* name;
  bool must_pass;
  void (*run)(const Options&);
};

constexpr Case kCases[] = {
    {"announced", true, announced},
    {"announced, pages move", true, announced_and_moved},
    {"announced, a block outlives its stream", true, outlives_its_stream},
    {"announced, a lent block outlives its stream", true, lent_and_outlives_its_stream},
    {"announced, a block was recorded for the stream", true, recorded_for_an_ended_stream},
    {"many", true, many},
    {"not announced, idle", false, idle_and_unannounced},
    {"not announced, busy", false, busy_and_unannounced},
    {"not announced, the handle anew", false, remade_and_unannounced},
    {"not announced, pages move", false, moved_and_unannounced},
};

int run_case(const Case& which, const Options& options) {
  return gpu::run_program([&] {
    gpu::require_gpus(1);
    which.run(options);
    return true;
  });
}

// Within a process that has not used CUDA yet.
int run_in_child(const Case& which, const Options& options) {
  fflush(stdout);
  const pid_t child = fork();
  gpu::require(child >= 0, "no process could be made");
  if (child == 0) {
    alarm(60);
    const int code = run_case(which, options);
    fflush(stdout);
    _exit(code);
  }
  int status = 0;
  gpu::require(waitpid(child, &status, 0) == child, "the process could not be waited for");
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  printf("  ended by signal %d (%s)\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return gpu::kFailed;
}

bool run_cases(const Options& options) {
  bool passed = true;
  for (const Case& which : kCases) {
    if (!options.only.empty() && options.only != which.name) continue;
    printf("%s:\n", which.name);
    const int code = options.only.empty() ? run_in_child(which, options) : run_case(which, options);
    if (code == gpu::kSkipped) throw gpu::Skip("no GPU");
    const char* const otherwise = which.must_pass ? "failed" : "did not work";
    printf("  %s\n", code == gpu::kPassed ? "works" : otherwise);
    passed = passed && (code == gpu::kPassed || !which.must_pass);
  }
  printf(passed ? "passed: announced ends are harmless\n" : "failed: see above\n");
  return passed;
}

bool run(int argc, char** argv) {
  gpu::Flags flags(argc, argv);
  Options options;
  options.streams = flags.number("streams", 1000);
  options.driver = flags.text("driver", "cuda");
  options.only = flags.text("case", "");
  flags.reject_unknown();
  return run_cases(options);
}

}  // namespace

int main(int argc, char** argv) {
  return gpu::run_program([&] { return run(argc, argv); });
}
