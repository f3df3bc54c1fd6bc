// SPDX-License-Identifier: MIT OR Apache-2.0
// The time of a request and its free under `cachalot run`, and of it that of the proxy's own code: over a fake driver,
// whose calls are timed alone and taken off.
//
//   CACHALOT_RUN_FREE=RULE LD_LIBRARY_PATH=build/release/tests/proxy/links_13000 build/release/tests/proxy/pair_time RULE
//
// RULE: wait or event. Asserts nothing.
#include <algorithm>
#include <array>
#include <chrono>
#include <string>

#include "driver.h"

namespace {

using namespace proxy_test;

constexpr int kPairs = 200'000;
constexpr int kTurns = 9;
constexpr int kFreesOfAnEvent = 16;  // capi/proxy/freed_blocks.h

// Nanoseconds of one call, of kPairs of them.
template <class Act>
double time_of(Act act) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kPairs; i++) act(i);
  const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
  return time.count() / kPairs;
}

// The driver's calls in a pair.
void call_as_a_pair_does(const Driver& fake, Context context, EventHandle event, bool is_by_event,
                         int i) {
  Context current = nullptr;
  unsigned long long id = 0;
  fake.cuCtxGetCurrent(&current);
  fake.cuCtxGetId(context, &id);
  if (!is_by_event) {
    fake.cuCtxRecordEvent(context, event);
    fake.cuEventSynchronize(event);
  } else if (i % kFreesOfAnEvent == 0) {
    fake.cuCtxRecordEvent(context, event);
    fake.cuEventQuery(event);
  }
}

double median(std::array<double, kTurns> values) {
  std::sort(values.begin(), values.end());
  return values[kTurns / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const std::string rule = argc == 2 ? argv[1] : "";
  if (rule != "wait" && rule != "event") {
    std::fprintf(stderr, "usage: pair_time wait|event\n");
    return 2;
  }
  const Driver driver;
  const Driver fake("libcachalot_real_cuda.so");
  driver.use();
  Context context = nullptr;
  EventHandle event = nullptr;
  fake.cuCtxGetCurrent(&context);
  fake.cuEventCreate(&event, 2);
  std::array<double, kTurns> pairs{};
  std::array<double, kTurns> own{};
  for (int turn = 0; turn < kTurns; turn++) {
    pairs[turn] = time_of([&](int) {
      DeviceAddress address = 0;
      driver.cuMemAlloc_v2(&address, 5000);
      driver.cuMemFree_v2(address);
    });
    own[turn] = pairs[turn] - time_of([&](int i) {
                  call_as_a_pair_does(fake, context, event, rule == "event", i);
                });
  }
  if (driver.fake_calls("cuMemAlloc_v2") != 1) {
    std::fprintf(stderr, "the requests are not served: CACHALOT_RUN_FREE is not set\n");
    return 1;
  }
  std::printf("%s: a pair %.0f ns, of it the proxy's own code %.0f ns (%.0f to %.0f)\n",
              rule.c_str(), median(pairs), median(own), *std::min_element(own.begin(), own.end()),
              *std::max_element(own.begin(), own.end()));
  return 0;
}
