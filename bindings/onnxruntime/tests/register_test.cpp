// SPDX-License-Identifier: MIT OR Apache-2.0
// Registering, in every order with what a wrapper does, and the way back.
#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>

#include "ort.h"

namespace cachalot::ort_test {
namespace {

// To be destroyed by the test.
cachalot_allocator* make_simulated() {
  cachalot_driver* driver = nullptr;
  EXPECT_EQ(cachalot_driver_open("sim:1GiB", &driver, nullptr), CACHALOT_OK);
  cachalot_allocator_options options{};
  options.struct_size = sizeof options;
  options.driver = driver;
  cachalot_allocator* allocator = nullptr;
  EXPECT_EQ(cachalot_allocator_create(&options, &allocator, nullptr), CACHALOT_OK);
  cachalot_driver_destroy(driver);
  return allocator;
}

cachalot_ort_options options_of(cachalot_allocator* allocator) {
  cachalot_ort_options options{};
  options.struct_size = sizeof options;
  options.allocator = allocator;
  return options;
}

TEST(Register, AfterTheWrappersEnvironment) {
  const Host host;
  const Environment environment;
  Registered registered(host);
  {
    const Session session(environment);
    EXPECT_EQ(session.run(64, 96), "");
    EXPECT_GT(registered.info().live_blocks, 100U);  // weights
  }
  EXPECT_EQ(registered.info().live_blocks, 0U);
  EXPECT_EQ(registered.end(), "");
}

TEST(Register, BeforeTheWrappersEnvironment) {
  const Host host;
  Registered registered(host);
  const Environment environment;
  const Session session(environment);
  EXPECT_EQ(session.run(64, 96), "");
  EXPECT_GT(registered.info().requests, 300U);
}

TEST(Register, LeavesORTItsOwnAllocatorWhereTheSwitchSaysSo) {
  cachalot_allocator* const allocator = make_simulated();
  const cachalot_ort_options options = options_of(allocator);
  setenv("CACHALOT_DISABLE", "1", 1);
  testing::internal::CaptureStderr();
  for (const auto start :
       {cachalot_ort_register, cachalot_ort_register_cuda, cachalot_ort_register_pinned}) {
    cachalot_ort_allocator* registered = reinterpret_cast<cachalot_ort_allocator*>(1);
    EXPECT_EQ(start(&options, &registered, nullptr), CACHALOT_OK);
    EXPECT_EQ(registered, nullptr);
    EXPECT_EQ(cachalot_ort_unregister(registered, nullptr), CACHALOT_OK);
  }
  const std::string said = testing::internal::GetCapturedStderr();
  const std::string line = "cachalot: CACHALOT_DISABLE=1: ONNX Runtime keeps its own allocator\n";
  EXPECT_EQ(said, line + line + line);
  unsetenv("CACHALOT_DISABLE");
  EXPECT_EQ(cachalot_allocator_destroy(allocator, nullptr), CACHALOT_OK);
}

TEST(Register, OutlivesTheWrappersEnvironment) {
  const Host host;
  Registered registered(host);
  for (int i = 0; i < 2; i++) {
    const Environment environment;
    const Session session(environment);
    const uint64_t before = registered.info().requests;
    EXPECT_EQ(session.run(64, 96), "");
    EXPECT_GT(registered.info().requests, before);
  }
}

TEST(Register, AgainAfterTheEnd) {
  const Environment environment;
  for (int i = 0; i < 3; i++) {
    const Host host;
    Registered registered(host);
    const Session session(environment);
    EXPECT_EQ(session.run(32, 32), "");
    EXPECT_GT(host.stats().allocation.all.allocated, 0);
  }
}

TEST(Register, SaysWhichRuntimeItFound) {
  const Host host;
  const Registered registered(host);
  const cachalot_ort_info info = registered.info();
  EXPECT_EQ(std::string(info.version).substr(0, 2), "1.");
  EXPECT_NE(std::string(info.library).find("libonnxruntime"), std::string::npos);
  EXPECT_EQ(info.live_blocks, 0U);
}

TEST(Register, TwiceIsRefusedWithTheNumberOfLiveBlocks) {
  const Host host;
  const Environment environment;
  const Registered registered(host);
  const Session session(environment);
  const cachalot_ort_options options = options_of(host.get());
  cachalot_ort_allocator* second = nullptr;
  cachalot_error error = CACHALOT_ERROR_INIT;
  EXPECT_EQ(cachalot_ort_register(&options, &second, &error), CACHALOT_ERROR_INVALID_STATE);
  const std::string expected = std::to_string(registered.info().live_blocks) + " blocks of it";
  EXPECT_NE(std::string(error.message).find(expected), std::string::npos) << error.message;
  EXPECT_EQ(second, nullptr);
}

TEST(Register, NeedsTheHostDriver) {
  cachalot_allocator* const allocator = make_simulated();
  ASSERT_NE(allocator, nullptr);
  const cachalot_ort_options options = options_of(allocator);
  cachalot_ort_allocator* registered = nullptr;
  cachalot_error error = CACHALOT_ERROR_INIT;
  EXPECT_EQ(cachalot_ort_register(&options, &registered, &error), CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message,
               "ONNX Runtime needs memory that the CPU can touch: the allocator's driver is 'sim', "
               "not 'host'.");
  cachalot_allocator_destroy(allocator, nullptr);
}

// Over the simulated device: nothing here is used by a GPU.
TEST(Register, CudaMemoryBesideCpuMemory) {
  const Host host;
  const Registered cpu(host);
  cachalot_allocator* const allocator = make_simulated();
  ASSERT_NE(allocator, nullptr);
  const cachalot_ort_options options = options_of(allocator);
  cachalot_ort_allocator* cuda = nullptr;
  cachalot_error error = CACHALOT_ERROR_INIT;
  const cachalot_status status = cachalot_ort_register_cuda(&options, &cuda, &error);
  if (ort_version() < 23) {
    EXPECT_EQ(status, CACHALOT_ERROR_NOT_SUPPORTED) << error.message;
  } else {
    ASSERT_EQ(status, CACHALOT_OK) << error.message;
    cachalot_ort_allocator* second = nullptr;
    EXPECT_EQ(cachalot_ort_register_cuda(&options, &second, &error), CACHALOT_ERROR_INVALID_STATE);
    EXPECT_EQ(second, nullptr);
    OrtAllocator* const table = cachalot_ort_get_table(cuda);
    const char* name = nullptr;
    EXPECT_EQ(take(ort().MemoryInfoGetName(table->Info(table), &name)), "");
    EXPECT_STREQ(name, "Cuda");
    void* const block = table->AllocOnStream(table, 1000, nullptr);
    EXPECT_EQ(cachalot_memory_allocated(allocator, 0), 1024U);
    table->Free(table, block);
    EXPECT_EQ(cachalot_ort_unregister(cuda, nullptr), CACHALOT_OK);
  }
  EXPECT_EQ(cpu.table()->AllocOnStream, nullptr);
  EXPECT_EQ(cachalot_allocator_destroy(allocator, nullptr), CACHALOT_OK);
}

TEST(Register, CudaMemoryIsNotThatOfTheHostDriver) {
  const Host host;
  const cachalot_ort_options options = options_of(host.get());
  cachalot_ort_allocator* registered = nullptr;
  cachalot_error error = CACHALOT_ERROR_INIT;
  EXPECT_EQ(cachalot_ort_register_cuda(&options, &registered, &error),
            CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(
      error.message,
      "ONNX Runtime's CUDA provider needs memory of a GPU: the allocator's driver is 'host'.");
}

TEST(Register, ChecksItsArguments) {
  const Host host;
  cachalot_ort_allocator* registered = nullptr;
  cachalot_error error = CACHALOT_ERROR_INIT;
  EXPECT_EQ(cachalot_ort_register(nullptr, &registered, &error), CACHALOT_ERROR_INVALID_ARGUMENT);
  cachalot_ort_options options{};
  EXPECT_EQ(cachalot_ort_register(&options, &registered, &error), CACHALOT_ERROR_INVALID_ARGUMENT);
  options.struct_size = sizeof options;
  EXPECT_EQ(cachalot_ort_register(&options, &registered, &error), CACHALOT_ERROR_INVALID_ARGUMENT);
  options.allocator = host.get();
  EXPECT_EQ(cachalot_ort_register(&options, nullptr, &error), CACHALOT_ERROR_INVALID_ARGUMENT);
  options.device = 1;
  EXPECT_EQ(cachalot_ort_register(&options, &registered, &error), CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "There is no device 1: the driver has 1.");
  EXPECT_EQ(cachalot_ort_unregister(nullptr, &error), CACHALOT_OK);
}

TEST(Unregister, IsRefusedWhileASessionHasMemory) {
  const Host host;
  const Environment environment;
  Registered registered(host);
  const Session session(environment);
  const std::string expected = "ONNX Runtime has " + std::to_string(registered.info().live_blocks) +
                               " live blocks: close its sessions first.";
  EXPECT_EQ(registered.end(), expected);
  EXPECT_EQ(session.run(32, 32), "");  // nothing has happened
}

TEST(Unregister, ASessionWithoutTheEntryDoesNotUseIt) {
  const Host host;
  const Environment environment;
  const Registered registered(host);
  const Session session(environment, {.uses_shared_allocator = false});
  EXPECT_EQ(session.run(32, 32), "");
  EXPECT_EQ(registered.info().requests, 0U);
}

// One field of a message in the format of ONNX files: its number, its length, its bytes.
std::string field(int number, const std::string& bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}

// y = Relu(x) over any number of floats: a model without weights.
std::string relu_model() {
  const std::string type = field(1, "\x08\x01" + field(2, field(1, field(2, "n"))));
  const auto value = [&](const char* name) { return field(1, name) + field(2, type); };
  const std::string node = field(1, "x") + field(2, "y") + field(4, "Relu");
  const std::string graph =
      field(1, node) + field(2, "g") + field(11, value("x")) + field(12, value("y"));
  return "\x08\x08" + field(7, graph) + field(8, "\x10\x0d");
}

// ORT keeps the address of the table in every session that was made with it.
TEST(Unregister, ASessionThatIsLeftGetsAnErrorAndNoMemory) {
  const Host host;
  const Environment environment;
  Registered registered(host);
  OrtSessionOptions* options = nullptr;
  ASSERT_EQ(take(ort().CreateSessionOptions(&options)), "");
  ASSERT_EQ(take(ort().AddSessionConfigEntry(options, "session.use_env_allocators", "1")), "");
  const std::string model = relu_model();
  OrtSession* session = nullptr;
  ASSERT_EQ(take(ort().CreateSessionFromArray(environment.get(), model.data(), model.size(),
                                              options, &session)),
            "");
  ort().ReleaseSessionOptions(options);
  OrtMemoryInfo* memory = nullptr;
  ASSERT_EQ(take(ort().CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &memory)), "");
  std::vector<float> data(1000, -1.0F);
  const int64_t shape = 1000;
  OrtValue* input = nullptr;
  ASSERT_EQ(take(ort().CreateTensorWithDataAsOrtValue(memory, data.data(), 4000, &shape, 1,
                                                      ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &input)),
            "");
  const auto run = [&] {
    const char* const x = "x";
    const char* const y = "y";
    OrtValue* output = nullptr;
    const std::string message = take(ort().Run(session, nullptr, &x, &input, 1, &y, 1, &output));
    ort().ReleaseValue(output);
    return message;
  };
  EXPECT_EQ(run(), "");
  EXPECT_EQ(registered.info().requests, 1U);
  EXPECT_EQ(registered.end(), "");
  EXPECT_NE(run().find("A session asks for 4000 bytes, but cachalot is no longer registered"),
            std::string::npos);
  ort().ReleaseValue(input);
  ort().ReleaseMemoryInfo(memory);
  ort().ReleaseSession(session);
}

// The allocator goes as soon as none of them has a block, and nobody may touch it any more.
TEST(Unregister, IsSafeWhileOtherThreadsAskAndFree) {
  for (int round = 0; round < 10; round++) {
    const Host host;
    Registered registered(host);
    OrtAllocator* const table = registered.table();
    std::atomic<bool> is_over = false;
    std::atomic<int> given = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; i++) {
      threads.emplace_back([&] {
        while (!is_over) {
          void* const block = table->Alloc(table, 1000);
          given += block != nullptr ? 1 : 0;
          std::this_thread::yield();
          table->Free(table, block);
          std::this_thread::yield();
        }
      });
    }
    while (given < 100) std::this_thread::yield();
    while (!registered.end().empty()) std::this_thread::yield();
    EXPECT_EQ(cachalot_memory_allocated(host.get(), 0), 0U);
    const int last = given;
    EXPECT_EQ(table->Alloc(table, 1000), nullptr);
    is_over = true;
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(given, last);
  }
}

TEST(Unregister, WorksFromAnotherThread) {
  const Host host;
  const Environment environment;
  Registered registered(host);
  std::thread([&] { EXPECT_EQ(registered.end(), ""); }).join();
}

}  // namespace
}  // namespace cachalot::ort_test
