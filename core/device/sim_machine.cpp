// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/sim_machine.h"

#include "base/error.h"
#include "base/text.h"
#include "device/device_count.h"

namespace cachalot {
namespace {

constexpr Address kFirstAddress = 0x700000000000;
constexpr uint64_t kDeviceStride = uint64_t{1} << 42;
constexpr Address kLastAddress = Address{1} << 62;

// The last device has no other one above it to run into.
AddressSpace device_addresses(int device, int device_count) {
  const Address begin = kFirstAddress + kDeviceStride * static_cast<uint64_t>(device);
  return AddressSpace(begin, device + 1 == device_count ? kLastAddress : begin + kDeviceStride);
}

}  // namespace

uint64_t checked_sim_capacity(uint64_t capacity) {
  if (capacity <= kLargestSimCapacity) return capacity;
  throw_invalid_argument(format("a device of %llu bytes: at most %llu (4 TiB) can be simulated",
                                static_cast<unsigned long long>(capacity),
                                static_cast<unsigned long long>(kLargestSimCapacity)));
}

SimMachine::SimMachine(const SimOptions& options) {
  const uint64_t capacity = checked_sim_capacity(options.capacity);
  const int count = checked_device_count(options.device_count);
  devices_.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; i++) {
    devices_.push_back({SimMemory(capacity, device_addresses(i, count)), {}, {}, {}, {}});
  }
}

SimMachine::Lock SimMachine::enter(SimCall call) {
  latencies_.wait(call);
  return Lock(mutex_);
}

SimMachine::Device& SimMachine::checked(int device) {
  if (device >= 0 && device < device_count()) return at(device);
  throw_invalid_argument(format("device %d: the driver has %d", device, device_count()));
}

// Work lies on one stream, and so does a capture.
SimMachine::Device& SimMachine::checked(int device, Stream stream) {
  if (stream != kAllStreams) return checked(device);
  throw_invalid_argument("CACHALOT_STREAM_ALL is no single stream, which work and captures need");
}

void SimMachine::give_addresses(int device, std::span<const Address> addresses) {
  const Lock lock = enter();
  checked(device).memory.addresses().give(addresses);
}

void SimMachine::queue_work(int device, Stream stream) {
  const Lock lock = enter();
  checked(device, stream).streams.queue_work(stream);
}

void SimMachine::finish_oldest(int device, Stream stream) {
  const Lock lock = enter();
  checked(device, stream).streams.finish_oldest(stream);
}

void SimMachine::finish_stream(int device, Stream stream) {
  const Lock lock = enter();
  checked(device, stream).streams.finish(stream);
}

void SimMachine::finish_device(int device) {
  const Lock lock = enter();
  checked(device).streams.finish_all();
}

void SimMachine::fail(const SimFailure& failure) {
  const Lock lock = enter();
  failures_.order(failure);
}

void SimMachine::set_pending_error(DriverCode code) {
  const Lock lock = enter();
  pending_error_ = code;
}

void SimMachine::add_process(int device, const DeviceProcess& process) {
  const Lock lock = enter();
  checked(device).processes.push_back(process);
}

void SimMachine::set_fabric(int device, int32_t state, DriverCode create_code) {
  const Lock lock = enter();
  Device& changed = checked(device);
  changed.fabric_state = state;
  changed.fabric_create_code = create_code;
}

void SimMachine::begin_capture(int device, Stream stream, uint64_t capture_id) {
  const Lock lock = enter();
  Device& captured = checked(device, stream);
  if (capture_id == 0) throw_invalid_argument("capture_id is 0");
  captured.captures.begin(stream, capture_id);
}

void SimMachine::end_capture(int device, uint64_t capture_id) {
  const Lock lock = enter();
  checked(device).captures.end(capture_id);
}

void SimMachine::add_node(int device, Stream stream) {
  const Lock lock = enter();
  checked(device, stream).captures.add_node(stream);
}

void SimMachine::fork_capture(int device, Stream from, Stream to) {
  const Lock lock = enter();
  checked(device, to).captures.fork(from, to);
}

void SimMachine::join_capture(int device, Stream into, Stream other) {
  const Lock lock = enter();
  checked(device, into).captures.join(into, other);
}

void SimMachine::set_graph_memory(int device, uint64_t used, uint64_t reserved) {
  const Lock lock = enter();
  checked(device).pool.set_graph_memory(used, reserved);
}

void SimMachine::log_calls(uint32_t words) {
  const Lock lock = enter();
  log_.set_words(words);
}

size_t SimMachine::take_calls(char* buffer, size_t capacity) {
  const Lock lock = enter();
  return log_.take(buffer, capacity);
}

}  // namespace cachalot
