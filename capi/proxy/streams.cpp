// SPDX-License-Identifier: MIT OR Apache-2.0
#include "streams.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "real_driver.h"

namespace cachalot::proxy {
namespace {

struct ThreadId {
  uint64_t id = 0;
  uint32_t process = 0;  // in which of the processes it was asked
};
thread_local ThreadId this_thread;
std::atomic<uint32_t> process_number{1};  // one more in each child

}  // namespace

uint64_t this_thread_id() {
  const uint32_t process = process_number.load(std::memory_order_relaxed);
  if (this_thread.process != process)
    this_thread = {static_cast<uint64_t>(syscall(SYS_gettid)), process};
  return this_thread.id;
}

void forget_thread_ids() { process_number.fetch_add(1, std::memory_order_relaxed); }

// The driver takes 0 for the legacy stream here.
bool is_captured(StreamHandle handle, DefaultStream default_stream) {
  StreamHandle const asked = driver_handle(handle, default_stream);
  int status = 0;
  return call_real(real().cuStreamIsCapturing, asked, &status) == 0 && status != 0;
}

}  // namespace cachalot::proxy
