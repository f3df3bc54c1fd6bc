// SPDX-License-Identifier: MIT OR Apache-2.0
// The functions of sim.h.
#include "cachalot/sim.h"

#include <unistd.h>

#include <memory>

#include "alloc/config/constants.h"
#include "base/text.h"
#include "device/address_range.h"
#include "device/sim_driver.h"
#include "guard.h"
#include "handles.h"

namespace cachalot::capi {
namespace {

static_assert(static_cast<uint32_t>(SimCall::kFabricState) == CACHALOT_SIM_CALL_FABRIC_STATE);
static_assert(static_cast<uint32_t>(SimCall::kEventCreate) == CACHALOT_SIM_CALL_EVENT_CREATE);
static_assert(static_cast<uint32_t>(SimCall::kStreamWait) == CACHALOT_SIM_CALL_STREAM_WAIT);
static_assert(static_cast<uint32_t>(SimCall::kHostAllocate) == CACHALOT_SIM_CALL_HOST_ALLOCATE);
static_assert(static_cast<uint32_t>(SimCall::kHostFree) == CACHALOT_SIM_CALL_HOST_FREE);
static_assert(static_cast<uint32_t>(SimCall::kCopy) == CACHALOT_SIM_CALL_COPY);
static_assert(kAllSimCalls == 2 * CACHALOT_SIM_CALL_COPY - 1);
static_assert(kLogCalls == CACHALOT_SIM_LOG_CALLS && kLogHandles == CACHALOT_SIM_LOG_HANDLES);
static_assert(kLogQueries == CACHALOT_SIM_LOG_QUERIES);
static_assert(kLogCaptureModes == CACHALOT_SIM_LOG_CAPTURE_MODES);
static_assert(kLogWaits == CACHALOT_SIM_LOG_WAITS);

SimMachine& sim_of(cachalot_driver* driver) {
  Driver& core = *require(driver, "driver").core;
  if (auto* const sim = dynamic_cast<SimDriver*>(&core)) return sim->machine();
  throw_invalid_argument(format("the driver is %s, not sim", core.name()));
}

void check_bits(const char* name, uint32_t bits, uint32_t known) {
  if ((bits & ~known) == 0) return;
  throw_invalid_argument(format("%s has the unknown bits 0x%x", name, bits & ~known));
}

SimOptions sim_options(const cachalot_sim_options* in) {
  const auto given = read_options(in);
  SimOptions options;
  if (given.capacity != 0) options.capacity = given.capacity;
  if (given.device_count != 0) options.device_count = given.device_count;
  return options;
}

SimFailure sim_failure(const cachalot_sim_failure* in) {
  const auto given = read_options(&require(in, "failure"), "failure");
  check_bits("failure->calls", given.calls, kAllSimCalls);
  if (given.calls == 0) throw_invalid_argument("failure->calls is 0");
  if (given.code == kSuccess) throw_invalid_argument("failure->code is 0");
  return {given.calls, given.code, given.after, given.count == 0 ? 1 : given.count};
}

void check_addresses(const cachalot_address* addresses, size_t count) {
  if (count != 0) require(addresses, "addresses");
  for (size_t i = 0; i < count; i++) {
    if (const char* const flaw = flaw_of_range(addresses[i], 1, kMinBlockSize))
      throw_invalid_argument(format("addresses[%zu] is 0x%llx: %s", i,
                                    static_cast<unsigned long long>(addresses[i]), flaw));
  }
}

}  // namespace
}  // namespace cachalot::capi

using namespace cachalot;
using namespace cachalot::capi;

cachalot_status cachalot_sim_create(const cachalot_sim_options* options,
                                    cachalot_driver** out_driver, cachalot_error* error) {
  return guard(error, [&] {
    require(out_driver, "out_driver");
    *out_driver = give_to_caller(new_driver(std::make_shared<SimDriver>(sim_options(options))));
  });
}

cachalot_status cachalot_sim_give_addresses(cachalot_driver* driver, int32_t device,
                                            const cachalot_address* addresses, size_t count,
                                            cachalot_error* error) {
  return guard(error, [&] {
    SimMachine& sim = sim_of(driver);
    check_addresses(addresses, count);
    sim.give_addresses(device, {addresses, count});
  });
}

cachalot_status cachalot_sim_queue_work(cachalot_driver* driver, int32_t device,
                                        cachalot_stream stream, cachalot_error* error) {
  return guard(error, [&] { sim_of(driver).queue_work(device, stream); });
}

cachalot_status cachalot_sim_finish_oldest(cachalot_driver* driver, int32_t device,
                                           cachalot_stream stream, cachalot_error* error) {
  return guard(error, [&] { sim_of(driver).finish_oldest(device, stream); });
}

cachalot_status cachalot_sim_finish_stream(cachalot_driver* driver, int32_t device,
                                           cachalot_stream stream, cachalot_error* error) {
  return guard(error, [&] { sim_of(driver).finish_stream(device, stream); });
}

cachalot_status cachalot_sim_finish_device(cachalot_driver* driver, int32_t device,
                                           cachalot_error* error) {
  return guard(error, [&] { sim_of(driver).finish_device(device); });
}

cachalot_status cachalot_sim_fail(cachalot_driver* driver, const cachalot_sim_failure* failure,
                                  cachalot_error* error) {
  return guard(error, [&] { sim_of(driver).fail(sim_failure(failure)); });
}

cachalot_status cachalot_sim_set_pending_error(cachalot_driver* driver, int32_t code,
                                               cachalot_error* error) {
  return guard(error, [&] { sim_of(driver).set_pending_error(code); });
}

cachalot_status cachalot_sim_set_latency(cachalot_driver* driver, uint32_t calls,
                                         uint64_t nanoseconds, cachalot_error* error) {
  return guard(error, [&] {
    SimMachine& sim = sim_of(driver);
    check_bits("calls", calls, kAllSimCalls);
    sim.set_latency(calls, nanoseconds);
  });
}

cachalot_status cachalot_sim_add_process(cachalot_driver* driver, int32_t device, uint64_t pid,
                                         uint64_t used, cachalot_error* error) {
  return guard(error, [&] {
    sim_of(driver).add_process(device, {pid == 0 ? static_cast<uint64_t>(::getpid()) : pid, used});
  });
}

cachalot_status cachalot_sim_set_fabric(cachalot_driver* driver, int32_t device, int32_t state,
                                        int32_t create_code, cachalot_error* error) {
  return guard(error, [&] { sim_of(driver).set_fabric(device, state, create_code); });
}

cachalot_status cachalot_sim_begin_capture(cachalot_driver* driver, int32_t device,
                                           cachalot_stream stream, uint64_t capture_id,
                                           cachalot_error* error) {
  return guard(error, [&] { sim_of(driver).begin_capture(device, stream, capture_id); });
}

cachalot_status cachalot_sim_end_capture(cachalot_driver* driver, int32_t device,
                                         uint64_t capture_id, cachalot_error* error) {
  return guard(error, [&] { sim_of(driver).end_capture(device, capture_id); });
}

cachalot_status cachalot_sim_add_node(cachalot_driver* driver, int32_t device,
                                      cachalot_stream stream, cachalot_error* error) {
  return guard(error, [&] { sim_of(driver).add_node(device, stream); });
}

cachalot_status cachalot_sim_fork_capture(cachalot_driver* driver, int32_t device,
                                          cachalot_stream from, cachalot_stream to,
                                          cachalot_error* error) {
  return guard(error, [&] { sim_of(driver).fork_capture(device, from, to); });
}

cachalot_status cachalot_sim_join_capture(cachalot_driver* driver, int32_t device,
                                          cachalot_stream into, cachalot_stream other,
                                          cachalot_error* error) {
  return guard(error, [&] { sim_of(driver).join_capture(device, into, other); });
}

cachalot_status cachalot_sim_set_graph_memory(cachalot_driver* driver, int32_t device,
                                              uint64_t used, uint64_t reserved,
                                              cachalot_error* error) {
  return guard(error, [&] { sim_of(driver).set_graph_memory(device, used, reserved); });
}

cachalot_status cachalot_sim_log_calls(cachalot_driver* driver, uint32_t words,
                                       cachalot_error* error) {
  return guard(error, [&] {
    SimMachine& sim = sim_of(driver);
    check_bits("words", words, kLogEverything);
    sim.log_calls(words);
  });
}

cachalot_status cachalot_sim_read_calls(cachalot_driver* driver, char* buffer, size_t capacity,
                                        size_t* out_length, cachalot_error* error) {
  return guard(error, [&] {
    SimMachine& sim = sim_of(driver);
    if (capacity != 0) require(buffer, "buffer");
    const size_t length = sim.take_calls(buffer, capacity);
    if (out_length != nullptr) *out_length = length;
  });
}
