// SPDX-License-Identifier: MIT OR Apache-2.0
#include "ort.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace cachalot::ort_test {
namespace {

const OrtApi* load(uint32_t* version) {
  const char* const chosen = std::getenv("CACHALOT_ORT_TEST_LIBRARY");
  void* const library =
      ::dlopen(chosen != nullptr ? chosen : CACHALOT_ORT_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  const auto entry = reinterpret_cast<const OrtApiBase* (*)()>(::dlsym(library, "OrtGetApiBase"));
  unsigned minor = 0;
  std::sscanf(entry()->GetVersionString(), "1.%u", &minor);
  *version = std::min<uint32_t>(minor, ORT_API_VERSION);
  return entry()->GetApi(*version);
}

uint32_t version_loaded = 0;

void expect_ok(OrtStatus* status) { EXPECT_EQ(take(status), ""); }

void append_cuda_provider(OrtSessionOptions* options) {
  OrtCUDAProviderOptionsV2* cuda = nullptr;
  expect_ok(ort().CreateCUDAProviderOptions(&cuda));
  const char* const name = "cudnn_conv_algo_search";  // the default takes seconds for each shape
  const char* const value = "HEURISTIC";
  expect_ok(ort().UpdateCUDAProviderOptions(cuda, &name, &value, 1));
  expect_ok(ort().SessionOptionsAppendExecutionProvider_CUDA_V2(options, cuda));
  ort().ReleaseCUDAProviderOptions(cuda);
}

OrtValue* tensor_over(std::vector<float>& pixels, int64_t height, int64_t width) {
  OrtMemoryInfo* memory = nullptr;
  expect_ok(ort().CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &memory));
  const int64_t shape[] = {1, 3, height, width};
  OrtValue* tensor = nullptr;
  expect_ok(ort().CreateTensorWithDataAsOrtValue(memory, pixels.data(),
                                                 pixels.size() * sizeof(float), shape, 4,
                                                 ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &tensor));
  ort().ReleaseMemoryInfo(memory);
  return tensor;
}

OrtValue* tensor_in(OrtAllocator* memory, const std::vector<float>& pixels, int64_t height,
                    int64_t width) {
  const int64_t shape[] = {1, 3, height, width};
  OrtValue* tensor = nullptr;
  expect_ok(
      ort().CreateTensorAsOrtValue(memory, shape, 4, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &tensor));
  void* data = nullptr;
  expect_ok(ort().GetTensorMutableData(tensor, &data));
  std::copy(pixels.begin(), pixels.end(), static_cast<float*>(data));
  return tensor;
}

}  // namespace

const OrtApi& ort() {
  static const OrtApi* const api = load(&version_loaded);
  if (api == nullptr) std::abort();  // nothing can be tested
  return *api;
}

uint32_t ort_version() {
  ort();
  return version_loaded;
}

std::string take(OrtStatus* status) {
  if (status == nullptr) return "";
  std::string text = ort().GetErrorMessage(status);
  ort().ReleaseStatus(status);
  return text.empty() ? "an error without a text" : text;
}

Host::Host(uint64_t capacity) {
  cachalot_driver* driver = nullptr;
  cachalot_error error = CACHALOT_ERROR_INIT;
  EXPECT_EQ(cachalot_driver_create_host(capacity, 1, &driver, &error), CACHALOT_OK);
  cachalot_allocator_options options{};
  options.struct_size = sizeof options;
  options.driver = driver;
  options.config = "";
  EXPECT_EQ(cachalot_allocator_create(&options, &allocator_, &error), CACHALOT_OK) << error.message;
  cachalot_driver_destroy(driver);
}

Host::~Host() {
  cachalot_error error = CACHALOT_ERROR_INIT;
  EXPECT_EQ(cachalot_check(allocator_, &error), CACHALOT_OK) << error.message;
  EXPECT_EQ(cachalot_allocator_destroy(allocator_, &error), CACHALOT_OK) << error.message;
}

cachalot_stats Host::stats() const {
  cachalot_stats stats{};
  stats.struct_size = sizeof stats;
  EXPECT_EQ(cachalot_get_stats(allocator_, 0, &stats, nullptr), CACHALOT_OK);
  return stats;
}

Registered::Registered(const Host& host, const char* library) {
  ort();
  cachalot_ort_options options{};
  options.struct_size = sizeof options;
  options.allocator = host.get();
  options.library = library;
  cachalot_error error = CACHALOT_ERROR_INIT;
  EXPECT_EQ(cachalot_ort_register(&options, &registered_, &error), CACHALOT_OK) << error.message;
}

Registered::~Registered() { EXPECT_EQ(end(), ""); }

cachalot_ort_info Registered::info() const {
  cachalot_ort_info info{};
  info.struct_size = sizeof info;
  EXPECT_EQ(cachalot_ort_get_info(registered_, &info, nullptr), CACHALOT_OK);
  return info;
}

std::string Registered::end() {
  cachalot_error error = CACHALOT_ERROR_INIT;
  if (cachalot_ort_unregister(registered_, &error) != CACHALOT_OK) return error.message;
  registered_ = nullptr;
  return "";
}

Environment::Environment() {
  expect_ok(ort().CreateEnv(ORT_LOGGING_LEVEL_FATAL, "wrapper", &env_));
}

Environment::~Environment() { ort().ReleaseEnv(env_); }

Session::Session(const Environment& environment, const SessionOptions& options) {
  EXPECT_EQ(try_to_make(environment, options, &session_), "");
}

std::string Session::try_to_make(const Environment& environment, const SessionOptions& options,
                                 OrtSession** out) {
  OrtSessionOptions* made = nullptr;
  expect_ok(ort().CreateSessionOptions(&made));
  const auto add = [made](const char* name, bool on) {
    expect_ok(ort().AddSessionConfigEntry(made, name, on ? "1" : "0"));
  };
  add("session.use_env_allocators", options.uses_shared_allocator);
  add("session.use_device_allocator_for_initializers", options.reserves_weights);
  if (!options.has_memory_pattern) expect_ok(ort().DisableMemPattern(made));
  if (options.is_parallel) {
    expect_ok(ort().SetSessionExecutionMode(made, ORT_PARALLEL));
    expect_ok(ort().SetInterOpNumThreads(made, 2));
  }
  expect_ok(ort().SetIntraOpNumThreads(made, options.threads));
  if (options.is_on_gpu) append_cuda_provider(made);
  std::string message = take(
      ort().CreateSession(environment.get(), CACHALOT_ORT_MODELS "/detection.onnx", made, out));
  ort().ReleaseSessionOptions(made);
  return message;
}

Session::~Session() { ort().ReleaseSession(session_); }

std::string Session::run(int64_t height, int64_t width, std::vector<float>* output,
                         OrtAllocator* image_memory) const {
  std::vector<float> pixels(static_cast<size_t>(3 * height * width));
  for (size_t i = 0; i < pixels.size(); i++) pixels[i] = static_cast<float>(i % 17) / 16;
  OrtValue* const input = image_memory == nullptr ? tensor_over(pixels, height, width)
                                                  : tensor_in(image_memory, pixels, height, width);
  const char* const input_name = "x";
  const char* const output_name = "sigmoid_0.tmp_0";
  OrtValue* result = nullptr;
  const std::string message =
      take(ort().Run(session_, nullptr, &input_name, &input, 1, &output_name, 1, &result));
  if (message.empty() && output != nullptr) {
    void* data = nullptr;
    expect_ok(ort().GetTensorMutableData(result, &data));
    const auto* const first = static_cast<const float*>(data);
    output->assign(first, first + height * width);
  }
  ort().ReleaseValue(result);
  ort().ReleaseValue(input);
  return message;
}

}  // namespace cachalot::ort_test
