// SPDX-License-Identifier: MIT OR Apache-2.0
#include "contender.h"

#include <stdexcept>

#include "cachalot/onnxruntime.h"

namespace comparison {
namespace {

constexpr const char* kExtend = "arena_extend_strategy";

// ORT's own arena, one a session, as it is by default.
class Arena : public Contender {
 public:
  void begin(const Environment&, SessionOptions&) override {}
};

class SameArena : public Contender {
 public:
  void begin(const Environment&, SessionOptions& options) override {
    options.cuda.emplace_back(kExtend, "kSameAsRequested");
  }
};

class ShrinkingArena : public Contender {
 public:
  void begin(const Environment&, SessionOptions& options) override {
    options.run.emplace_back("memory.enable_memory_arena_shrinkage",
                             options.provider == "cuda" ? "gpu:0" : "cpu:0");
    options.config.emplace_back("session.use_device_allocator_for_initializers", "1");
  }
};

// ORT's own arena, one for both sessions.
class SharedArena : public Contender {
 public:
  void begin(const Environment& environment, SessionOptions& options) override {
    const bool is_cuda = options.provider == "cuda";
    environment.share_arena(is_cuda ? "CUDAExecutionProvider" : "CPUExecutionProvider",
                            is_cuda ? "Cuda" : "Cpu");
    options.config.emplace_back("session.use_env_allocators", "1");
  }
};

class NoArena : public Contender {
 public:
  void begin(const Environment&, SessionOptions& options) override { options.has_arena = false; }
};

void check(cachalot_status status, const cachalot_error& error) {
  if (status != CACHALOT_OK) throw Refused(error.message);
}

cachalot_allocator* make_allocator(const Setting& setting) {
  cachalot_error error = CACHALOT_ERROR_INIT;
  cachalot_driver* driver = nullptr;
  if (setting.provider == "cuda")
    check(cachalot_driver_open("cuda", &driver, &error), error);
  else
    check(cachalot_driver_create_host(setting.host_capacity, 1, &driver, &error), error);
  cachalot_allocator_options options{};
  options.struct_size = sizeof options;
  options.driver = driver;
  options.config = setting.options.c_str();
  cachalot_allocator* allocator = nullptr;
  const cachalot_status status = cachalot_allocator_create(&options, &allocator, &error);
  cachalot_driver_destroy(driver);
  check(status, error);
  return allocator;
}

class Cachalot : public Contender {
 public:
  explicit Cachalot(const Setting& setting)
      : allocator_(make_allocator(setting)),
        register_(setting.provider == "cuda" ? cachalot_ort_register_cuda : cachalot_ort_register),
        has_one_stream_(setting.contender == "cachalot-stream") {}
  ~Cachalot() override { cachalot_allocator_destroy_all(allocator_, nullptr); }

  void idle() override {
    cachalot_error error = CACHALOT_ERROR_INIT;
    check(cachalot_trim(allocator_, 0, 0, 0, nullptr, &error), error);
  }

  std::optional<int64_t> driver_allocations() const override {
    cachalot_error error = CACHALOT_ERROR_INIT;
    cachalot_stats stats{};
    stats.struct_size = sizeof stats;
    check(cachalot_get_stats(allocator_, 0, &stats, &error), error);
    return stats.num_device_alloc;
  }

  void begin(const Environment&, SessionOptions& options) override {
    cachalot_error error = CACHALOT_ERROR_INIT;
    cachalot_ort_options made{};
    made.struct_size = sizeof made;
    made.allocator = allocator_;
    check(register_(&made, &registered_, &error), error);
    options.config.emplace_back("session.use_env_allocators", "1");
    options.config.emplace_back("session.use_device_allocator_for_initializers", "1");
    if (!has_one_stream_) return;
    options.cuda.emplace_back("has_user_compute_stream", "1");
    options.cuda.emplace_back("user_compute_stream", kLegacyStream);
  }

  void end() override {
    cachalot_error error = CACHALOT_ERROR_INIT;
    check(cachalot_ort_unregister(registered_, &error), error);
  }

 private:
  // CUDA's legacy default stream by its handle.
  static constexpr const char* kLegacyStream = "1";

  cachalot_allocator* const allocator_;
  decltype(&cachalot_ort_register) const register_;
  const bool has_one_stream_;
  cachalot_ort_allocator* registered_ = nullptr;
};

}  // namespace

std::vector<std::string> contender_names() {
  return {"arena", "arena-same", "arena-shared",   "arena-shrink",
          "none",  "cachalot",   "cachalot-stream"};
}

std::unique_ptr<Contender> make_contender(const Setting& setting) {
  if (setting.contender == "arena") return std::make_unique<Arena>();
  if (setting.contender == "arena-same") return std::make_unique<SameArena>();
  if (setting.contender == "arena-shared") return std::make_unique<SharedArena>();
  if (setting.contender == "arena-shrink") return std::make_unique<ShrinkingArena>();
  if (setting.contender == "none") return std::make_unique<NoArena>();
  return std::make_unique<Cachalot>(setting);
}

}  // namespace comparison
