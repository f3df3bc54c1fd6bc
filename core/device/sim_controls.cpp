// SPDX-License-Identifier: MIT OR Apache-2.0
// What the caller of the simulated driver controls.
#include "base/error.h"
#include "base/text.h"
#include "device/sim_driver.h"

namespace cachalot {

SimDriver::Device& SimDriver::checked(int device) {
  if (device >= 0 && device < device_count()) return at(device);
  throw_invalid_argument(format("device %d: the driver has %d", device, device_count()));
}

void SimDriver::give_addresses(int device, std::span<const Address> addresses) {
  const Lock lock = enter();
  checked(device).memory.addresses().give(addresses);
}

void SimDriver::queue_work(int device, Stream stream) {
  const Lock lock = enter();
  checked(device).streams.queue_work(stream);
}

void SimDriver::finish_oldest(int device, Stream stream) {
  const Lock lock = enter();
  checked(device).streams.finish_oldest(stream);
}

void SimDriver::finish_stream(int device, Stream stream) {
  const Lock lock = enter();
  checked(device).streams.finish(stream);
}

void SimDriver::finish_device(int device) {
  const Lock lock = enter();
  checked(device).streams.finish_all();
}

void SimDriver::fail(const SimFailure& failure) {
  const Lock lock = enter();
  failures_.order(failure);
}

void SimDriver::set_pending_error(DriverCode code) {
  const Lock lock = enter();
  pending_error_ = code;
}

void SimDriver::add_process(int device, const DeviceProcess& process) {
  const Lock lock = enter();
  checked(device).processes.push_back(process);
}

void SimDriver::set_fabric(int device, int32_t state, DriverCode create_code) {
  const Lock lock = enter();
  Device& changed = checked(device);
  changed.fabric_state = state;
  changed.fabric_create_code = create_code;
}

void SimDriver::begin_capture(int device, Stream stream, uint64_t capture_id) {
  const Lock lock = enter();
  Device& captured = checked(device);
  if (capture_id == 0) throw_invalid_argument("capture_id is 0");
  captured.captures.begin(stream, capture_id);
}

void SimDriver::end_capture(int device, uint64_t capture_id) {
  const Lock lock = enter();
  checked(device).captures.end(capture_id);
}

void SimDriver::add_node(int device, Stream stream) {
  const Lock lock = enter();
  checked(device).captures.add_node(stream);
}

void SimDriver::fork_capture(int device, Stream from, Stream to) {
  const Lock lock = enter();
  checked(device).captures.fork(from, to);
}

void SimDriver::join_capture(int device, Stream into, Stream other) {
  const Lock lock = enter();
  checked(device).captures.join(into, other);
}

void SimDriver::set_graph_memory(int device, uint64_t used, uint64_t reserved) {
  const Lock lock = enter();
  checked(device).pool.set_graph_memory(used, reserved);
}

void SimDriver::log_calls(uint32_t words) {
  const Lock lock = enter();
  log_.set_words(words);
}

size_t SimDriver::take_calls(char* buffer, size_t capacity) {
  const Lock lock = enter();
  return log_.take(buffer, capacity);
}

}  // namespace cachalot
