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
  void begin(SessionOptions&) override {}
};

class SameArena : public Contender {
 public:
  void begin(SessionOptions& options) override {
    options.cuda.emplace_back(kExtend, "kSameAsRequested");
  }
};

class ShrinkingArena : public Contender {
 public:
  void begin(SessionOptions& options) override {
    options.run.emplace_back("memory.enable_memory_arena_shrinkage",
                             options.provider == "cuda" ? "gpu:0" : "cpu:0");
    options.config.emplace_back("session.use_device_allocator_for_initializers", "1");
  }
};

class NoArena : public Contender {
 public:
  void begin(SessionOptions& options) override { options.has_arena = false; }
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
  explicit Cachalot(const Setting& setting) : allocator_(make_allocator(setting)) {}
  ~Cachalot() override { cachalot_allocator_destroy_all(allocator_, nullptr); }

  void idle() override {
    cachalot_error error = CACHALOT_ERROR_INIT;
    check(cachalot_trim(allocator_, 0, 0, 0, nullptr, &error), error);
  }

 protected:
  cachalot_allocator* get() const { return allocator_; }

 private:
  cachalot_allocator* const allocator_;
};

class HostCachalot : public Cachalot {
 public:
  using Cachalot::Cachalot;

  void begin(SessionOptions& options) override {
    cachalot_error error = CACHALOT_ERROR_INIT;
    cachalot_ort_options made{};
    made.struct_size = sizeof made;
    made.allocator = get();
    check(cachalot_ort_register(&made, &registered_, &error), error);
    options.config.emplace_back("session.use_env_allocators", "1");
    options.config.emplace_back("session.use_device_allocator_for_initializers", "1");
  }

  void end() override {
    cachalot_error error = CACHALOT_ERROR_INIT;
    check(cachalot_ort_unregister(registered_, &error), error);
  }

 private:
  cachalot_ort_allocator* registered_ = nullptr;
};

// CUDA's legacy default stream by its handle, for all sessions: it orders what a block is used for by one of them and
// then by another.
constexpr cachalot_stream kLegacyStream = 1;

class CudaCachalot : public Cachalot {
 public:
  explicit CudaCachalot(const Setting& setting)
      : Cachalot(setting), empties_(setting.contender == "cachalot-empty") {}

  void begin(SessionOptions& options) override {
    cachalot_error error = CACHALOT_ERROR_INIT;
    check(cachalot_ort_external_register(get(), 0, kLegacyStream, &error), error);
    for (size_t i = 0; i < 3; i++) {
      const char* name = nullptr;
      const char* value = nullptr;
      check(cachalot_ort_external_option_at(i, &name, &value), error);
      if (empties_ || std::string(name) != "gpu_external_empty_cache")
        options.cuda.emplace_back(name, value);
    }
    options.cuda.emplace_back("has_user_compute_stream", "1");
    options.cuda.emplace_back("user_compute_stream", std::to_string(kLegacyStream));
  }

  void end() override {
    cachalot_error error = CACHALOT_ERROR_INIT;
    check(cachalot_ort_external_unregister(&error), error);
  }

 private:
  const bool empties_;
};

}  // namespace

std::vector<std::string> contender_names() {
  return {"arena", "arena-same", "arena-shrink", "none", "cachalot", "cachalot-empty"};
}

std::unique_ptr<Contender> make_contender(const Setting& setting) {
  if (setting.contender == "arena") return std::make_unique<Arena>();
  if (setting.contender == "arena-same") return std::make_unique<SameArena>();
  if (setting.contender == "arena-shrink") return std::make_unique<ShrinkingArena>();
  if (setting.contender == "none") return std::make_unique<NoArena>();
  if (setting.provider == "cuda") return std::make_unique<CudaCachalot>(setting);
  return std::make_unique<HostCachalot>(setting);
}

}  // namespace comparison
