// SPDX-License-Identifier: MIT OR Apache-2.0
#include "runtime.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <memory>

namespace comparison {
namespace {

const OrtApi* loaded = nullptr;

void append_cuda(OrtSessionOptions* options, const Entries& entries) {
  OrtCUDAProviderOptionsV2* cuda = nullptr;
  check(ort().CreateCUDAProviderOptions(&cuda));
  const std::unique_ptr<OrtCUDAProviderOptionsV2, void (*)(OrtCUDAProviderOptionsV2*)> owner(
      cuda, [](OrtCUDAProviderOptionsV2* ended) { ort().ReleaseCUDAProviderOptions(ended); });
  // All at once: each call puts what it does not name back to its default.
  std::vector<const char*> names;
  std::vector<const char*> values;
  for (const auto& [name, value] : entries) {
    names.push_back(name.c_str());
    values.push_back(value.c_str());
  }
  check(ort().UpdateCUDAProviderOptions(cuda, names.data(), values.data(), names.size()));
  check(ort().SessionOptionsAppendExecutionProvider_CUDA_V2(options, cuda));
}

std::string name_of(OrtStatus* (*ask)(const OrtSession*, size_t, OrtAllocator*, char**),
                    const OrtSession* session) {
  OrtAllocator* allocator = nullptr;
  check(ort().GetAllocatorWithDefaultOptions(&allocator));
  char* name = nullptr;
  check(ask(session, 0, allocator, &name));
  std::string copy = name;
  allocator->Free(allocator, name);
  return copy;
}

using Value = std::unique_ptr<OrtValue, void (*)(OrtValue*)>;

Value own(OrtValue* value) {
  return {value, [](OrtValue* ended) { ort().ReleaseValue(ended); }};
}

using MemoryInfo = std::unique_ptr<OrtMemoryInfo, void (*)(OrtMemoryInfo*)>;

MemoryInfo make_info(const char* memory, OrtAllocatorType type) {
  OrtMemoryInfo* info = nullptr;
  check(ort().CreateMemoryInfo(memory, type, 0, OrtMemTypeDefault, &info));
  return {info, [](OrtMemoryInfo* ended) { ort().ReleaseMemoryInfo(ended); }};
}

}  // namespace

void load_runtime(const std::string& path) {
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Refused(::dlerror());
  const auto base = reinterpret_cast<const OrtApiBase* (*)()>(::dlsym(library, "OrtGetApiBase"));
  if (base == nullptr) throw Refused(path + " is no ONNX Runtime");
  loaded = base()->GetApi(ORT_API_VERSION);
  if (loaded == nullptr)
    throw Refused(std::string("ONNX Runtime ") + base()->GetVersionString() +
                  " is older than its header");
}

const OrtApi& ort() { return *loaded; }

void check(OrtStatus* status) {
  if (status == nullptr) return;
  const std::string message = ort().GetErrorMessage(status);
  ort().ReleaseStatus(status);
  throw Refused(message);
}

Environment::Environment() { check(ort().CreateEnv(ORT_LOGGING_LEVEL_FATAL, "comparison", &env_)); }

Environment::~Environment() { ort().ReleaseEnv(env_); }

void Environment::share_arena(const char* provider, const char* memory) const {
  const MemoryInfo info = make_info(memory, OrtArenaAllocator);
  const char* const keys[] = {"device_id"};
  const char* const values[] = {"0"};
  const size_t count = std::string(memory) == "Cuda" ? 1 : 0;
  OrtArenaCfg* config = nullptr;
  check(ort().CreateArenaCfgV2(nullptr, nullptr, 0, &config));
  const std::unique_ptr<OrtArenaCfg, void (*)(OrtArenaCfg*)> config_owner(
      config, [](OrtArenaCfg* ended) { ort().ReleaseArenaCfg(ended); });
  check(
      ort().CreateAndRegisterAllocatorV2(env_, provider, info.get(), config, keys, values, count));
}

Session::Session(const Environment& environment, const std::string& model,
                 const SessionOptions& options) {
  OrtSessionOptions* made = nullptr;
  check(ort().CreateSessionOptions(&made));
  const std::unique_ptr<OrtSessionOptions, void (*)(OrtSessionOptions*)> owner(
      made, [](OrtSessionOptions* ended) { ort().ReleaseSessionOptions(ended); });
  check(ort().SetIntraOpNumThreads(made, options.threads));
  // Ever new shapes: ORT would remember the plan of each.
  check(ort().DisableMemPattern(made));
  if (!options.has_arena) check(ort().DisableCpuMemArena(made));
  for (const auto& [name, value] : options.config)
    check(ort().AddSessionConfigEntry(made, name.c_str(), value.c_str()));
  if (options.provider == "cuda") append_cuda(made, options.cuda);
  check(ort().CreateSession(environment.get(), model.c_str(), made, &session_));
  input_ = name_of(ort().SessionGetInputName, session_);
  output_ = name_of(ort().SessionGetOutputName, session_);
  if (options.run.empty()) return;
  check(ort().CreateRunOptions(&run_options_));
  for (const auto& [name, value] : options.run)
    check(ort().AddRunConfigEntry(run_options_, name.c_str(), value.c_str()));
}

Session::~Session() {
  ort().ReleaseRunOptions(run_options_);
  ort().ReleaseSession(session_);
}

void Session::run(Shape shape, std::vector<float>& pixels) const {
  const MemoryInfo memory = make_info("Cpu", OrtDeviceAllocator);
  const int64_t dimensions[] = {1, 3, shape.height, shape.width};
  OrtValue* input = nullptr;
  check(ort().CreateTensorWithDataAsOrtValue(
      memory.get(), pixels.data(),
      static_cast<size_t>(3 * shape.height * shape.width) * sizeof(float), dimensions, 4,
      ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &input));
  const Value image = own(input);
  const char* const input_name = input_.c_str();
  const char* const output_name = output_.c_str();
  OrtValue* output = nullptr;
  OrtStatus* const status =
      ort().Run(session_, run_options_, &input_name, &input, 1, &output_name, 1, &output);
  const Value result = own(output);
  check(status);
}

}  // namespace comparison
