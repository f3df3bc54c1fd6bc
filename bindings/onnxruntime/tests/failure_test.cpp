// SPDX-License-Identifier: MIT OR Apache-2.0
// A request that fails is an error of its run, wherever in the run it is, and nothing else.
#include <dlfcn.h>

#include <cstdint>
#include <set>
#include <thread>

#include "ort.h"

namespace cachalot::ort_test {
namespace {

void set_limit(const Host& host, uint64_t bytes) {
  ASSERT_EQ(cachalot_empty_cache(host.get(), nullptr), CACHALOT_OK);
  ASSERT_EQ(cachalot_set_memory_limit(host.get(), 0, bytes, nullptr), CACHALOT_OK);
}

std::string last_report() {
  size_t length = 0;
  if (cachalot_ort_last_failure(nullptr, nullptr, 0, &length) != CACHALOT_OK) return "none";
  std::string text(length, '\0');
  cachalot_ort_last_failure(nullptr, text.data(), length + 1, nullptr);
  return text;
}

// Between the words of ORT that stand around the name of the node.
std::string node_of(const std::string& message) {
  const size_t name = message.find("Name:'");
  if (name == std::string::npos) return "";
  return message.substr(name + 6, message.find('\'', name + 6) - name - 6);
}

// A tenant that all requests of the calling thread belong to.
class Tenant {
 public:
  explicit Tenant(const Host& host) {
    cachalot_tenant_options options{};
    options.struct_size = sizeof options;
    EXPECT_EQ(cachalot_tenant_create(host.get(), &options, &tenant_, nullptr), CACHALOT_OK);
    EXPECT_EQ(cachalot_tenant_begin(tenant_, nullptr), CACHALOT_OK);
  }
  ~Tenant() {
    EXPECT_EQ(cachalot_tenant_end(tenant_, nullptr), CACHALOT_OK);
    EXPECT_EQ(cachalot_tenant_destroy(tenant_, nullptr), CACHALOT_OK);
  }
  Tenant(const Tenant&) = delete;
  void set_limit(uint64_t bytes) const {
    EXPECT_EQ(cachalot_tenant_set_bytes(tenant_, 0, 0, bytes, nullptr), CACHALOT_OK);
  }

 private:
  cachalot_tenant* tenant_ = nullptr;
};

// With each limit a run gets as far as another request. The limit of a tenant is to the byte.
TEST(Failure, RequestsFailAllOverARun) {
  const Host host;
  const Environment environment;
  const Registered registered(host);
  const Tenant tenant(host);
  const Session session(environment);
  const uint64_t live = registered.info().live_blocks;
  const uint64_t weights = cachalot_memory_allocated(host.get(), 0);
  constexpr uint64_t kStep = 4096;
  std::set<std::string> nodes;
  int failed = 0;
  bool worked = false;
  for (uint64_t n = 1; !worked; n++) {
    ASSERT_LT(n, 2000U);
    tenant.set_limit(weights + n * kStep);
    const std::string message = session.run(64, 64);
    worked = message.empty();
    if (!worked) {
      failed++;
      nodes.insert(node_of(message));
      EXPECT_NE(message.find("is out of memory. Tried to allocate "), std::string::npos) << message;
    }
    EXPECT_EQ(registered.info().live_blocks, live);
  }
  EXPECT_GE(nodes.size(), 5U);
  EXPECT_EQ(registered.info().failures, static_cast<uint64_t>(failed));
}

TEST(Failure, TheThreadHasTheNumbersAndAReport) {
  const Host host;
  const Environment environment;
  const Registered registered(host);
  const Session session(environment);
  set_limit(host, host.reserved() + (4U << 20));
  cachalot_ort_forget_failure();
  EXPECT_EQ(last_report(), "none");
  const std::string message = session.run(640, 640);
  ASSERT_NE(message, "");
  cachalot_error error = CACHALOT_ERROR_INIT;
  ASSERT_EQ(cachalot_ort_last_failure(&error, nullptr, 0, nullptr), CACHALOT_OK);
  EXPECT_EQ(error.status, CACHALOT_ERROR_OUT_OF_MEMORY);
  EXPECT_GT(error.requested, 1U << 20);
  EXPECT_EQ(error.limit, host.reserved() + (4U << 20));
  // The first line of the error is in ORT's words too.
  const std::string text = error.message;
  EXPECT_NE(message.find(text.substr(0, text.find('\n'))), std::string::npos) << message;
  const std::string report = last_report();
  EXPECT_NE(report.find("large blocks of the default pool: it fails"), std::string::npos) << report;
  char start[10];
  size_t length = 0;
  ASSERT_EQ(cachalot_ort_last_failure(nullptr, start, sizeof start, &length), CACHALOT_OK);
  EXPECT_EQ(report.substr(0, 9), start);
  EXPECT_EQ(length, report.size());
  std::thread([] { EXPECT_EQ(last_report(), "none"); }).join();
  cachalot_ort_forget_failure();
  EXPECT_EQ(last_report(), "none");
}

TEST(Failure, TheSessionGoesOnOnceThereIsMemory) {
  const Host host;
  const Environment environment;
  const Registered registered(host);
  const Session session(environment, {.has_memory_pattern = true});
  set_limit(host, host.reserved() + (4U << 20));
  for (int i = 0; i < 3; i++) EXPECT_NE(session.run(640, 640), "");
  EXPECT_EQ(session.run(32, 32), "");  // this one has room
  set_limit(host, UINT64_MAX);
  EXPECT_EQ(session.run(640, 640), "");
}

TEST(Failure, ASessionThatDoesNotFitIsNotMade) {
  const Host host;
  const Environment environment;
  const Registered registered(host);
  set_limit(host, 2U << 20);
  OrtSession* session = nullptr;
  const std::string message = Session::try_to_make(environment, {}, &session);
  EXPECT_NE(message.find("out of memory. Tried to allocate "), std::string::npos) << message;
  EXPECT_EQ(session, nullptr);
  EXPECT_EQ(registered.info().live_blocks, 0U);
}

TEST(Failure, ParallelExecutionFailsAsCleanly) {
  const Host host;
  const Environment environment;
  const Registered registered(host);
  const Session session(environment, {.is_parallel = true});
  const uint64_t live = registered.info().live_blocks;
  set_limit(host, host.reserved() + (8U << 20));
  EXPECT_NE(session.run(640, 640).find("Tried to allocate "), std::string::npos);
  EXPECT_EQ(registered.info().live_blocks, live);
  set_limit(host, UINT64_MAX);
  EXPECT_EQ(session.run(640, 640), "");
}

// A caller outside of ORT may be of any language, which has no exceptions of C++.
TEST(Failure, ADirectCallerGetsNullAndOrtAnError) {
  const Host host;
  const Environment environment;
  const Registered registered(host);
  OrtAllocator* const table = registered.table();
  void* const block = table->Alloc(table, 1000);
  EXPECT_NE(block, nullptr);
  set_limit(host, host.reserved() + (1U << 20));
  cachalot_ort_forget_failure();
  EXPECT_EQ(table->Alloc(table, 50U << 20), nullptr);
  EXPECT_NE(last_report().find("request of 50.00 MiB"), std::string::npos);
  EXPECT_EQ(table->Reserve(table, 60U << 20), nullptr);
  EXPECT_NE(last_report().find("request of 60.00 MiB"), std::string::npos);
  const int64_t shape = 20 << 20;
  OrtValue* tensor = nullptr;
  const std::string message = take(
      ort().CreateTensorAsOrtValue(table, &shape, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &tensor));
  EXPECT_NE(message.find("Tried to allocate 80.00 MiB"), std::string::npos) << message;
  table->Free(table, block);
  EXPECT_EQ(registered.info().live_blocks, 0U);
  EXPECT_EQ(registered.info().failures, 3U);
}

// They are C++ of ORT's too, and ORT's functions that call the table end in a jump to it: what it
// returns to is the provider's code then.
TEST(Failure, ALibraryOfAProviderOfOrtsGetsAnException) {
  const Host host;
  const Registered registered(host);
  void* const provider = ::dlopen(CACHALOT_ORT_PROVIDER, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(provider, nullptr) << ::dlerror();
  const auto message_of = reinterpret_cast<const char* (*)(OrtAllocator*, size_t)>(
      ::dlsym(provider, "message_of_alloc"));
  set_limit(host, 4U << 20);
  EXPECT_NE(
      std::string(message_of(registered.table(), 50U << 20)).find("Tried to allocate 50.00 M"),
      std::string::npos);
  EXPECT_EQ(registered.info().live_blocks, 0U);
}

TEST(Failure, SizesBeyondAnyMemoryAreErrors) {
  const Host host;
  const Registered registered(host);
  OrtAllocator* const table = registered.table();
  for (const size_t size : {SIZE_MAX, SIZE_MAX - 511, SIZE_MAX / 2 + 1, size_t{1} << 48}) {
    cachalot_ort_forget_failure();
    EXPECT_EQ(table->Alloc(table, size), nullptr);
    EXPECT_EQ(table->Reserve(table, size), nullptr);
    cachalot_error error = CACHALOT_ERROR_INIT;
    ASSERT_EQ(cachalot_ort_last_failure(&error, nullptr, 0, nullptr), CACHALOT_OK);
    EXPECT_EQ(error.status, CACHALOT_ERROR_OUT_OF_MEMORY) << error.message;
    EXPECT_EQ(error.requested, size);
  }
  EXPECT_EQ(registered.info().live_blocks, 0U);
}

// What the program has of the same allocator is none of the registration's.
TEST(Failure, FreeingABlockOfTheProgramsOwnDoesNotEndTheRegistration) {
  const Host host;
  Registered registered(host);
  OrtAllocator* const table = registered.table();
  cachalot_address own = 0;
  ASSERT_EQ(cachalot_allocate(host.get(), 1000, 0, 0, &own, nullptr), CACHALOT_OK);
  table->Free(table, reinterpret_cast<void*>(own));
  void* const block = table->Alloc(table, 1000);
  EXPECT_NE(block, nullptr);
  EXPECT_EQ(registered.info().live_blocks, 1U);
  table->Free(table, block);
  EXPECT_EQ(registered.end(), "");
}

TEST(Failure, AnAddressThatIsNotLiveIsReported) {
  const Host host;
  const Environment environment;
  Registered registered(host);
  OrtAllocator* const table = registered.table();
  void* const block = table->Alloc(table, 1000);
  table->Free(table, block);
  testing::internal::CaptureStderr();
  table->Free(table, block);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("ONNX Runtime frees what it does not have"),
            std::string::npos);
  EXPECT_EQ(registered.info().live_blocks, 0U);
  EXPECT_EQ(registered.end(), "");
  testing::internal::CaptureStderr();
  table->Free(table, block);
  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "cachalot: ONNX Runtime frees what it does not have: cachalot is no longer registered\n");
}

TEST(Failure, ManyThreadsFailAndOthersGoOn) {
  const Host host;
  const Environment environment;
  const Registered registered(host);
  const Session limited(environment, {.threads = 1});
  const Session other(environment, {.uses_shared_allocator = false, .threads = 1});
  const uint64_t live = registered.info().live_blocks;
  set_limit(host, host.reserved() + (24U << 20));
  constexpr size_t kThreads = 4;
  constexpr int kRuns = 3;
  std::vector<int> worked(kThreads);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; i++) {
    threads.emplace_back([&, i] {
      const Session& session = i % 2 == 0 ? limited : other;
      for (int n = 0; n < kRuns; n++) worked[i] += session.run(640, 640).empty() ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(worked, (std::vector<int>{0, kRuns, 0, kRuns}));
  EXPECT_EQ(registered.info().failures, 2U * kRuns);
  EXPECT_EQ(registered.info().live_blocks, live);
}

}  // namespace
}  // namespace cachalot::ort_test
