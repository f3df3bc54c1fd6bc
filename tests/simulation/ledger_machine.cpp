// SPDX-License-Identifier: MIT OR Apache-2.0
#include "ledger_machine.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace cachalot_test {
namespace {

constexpr uint64_t kPage = uint64_t{2} << 20;
constexpr cachalot_address kFirstAddress = 0x100000000000;
constexpr cachalot_address kDeviceDistance = 0x20000000000;
constexpr uint64_t kFirstNode = 0x9010;
// The numbers of cuda.h.
constexpr int32_t kPoolReservedCurrent = 5;
constexpr int32_t kPoolReservedHigh = 6;
constexpr int32_t kPoolUsedCurrent = 7;
constexpr int32_t kPoolUsedHigh = 8;

constexpr uint32_t kReturns = CACHALOT_SIM_CALL_RELEASE | CACHALOT_SIM_CALL_UNMAP |
                              CACHALOT_SIM_CALL_UNRESERVE | CACHALOT_SIM_CALL_HOST_FREE;

template <typename Map>
bool is_taken(const Map& ranges, cachalot_address address, uint64_t size) {
  const auto size_of = [](const auto& range) {
    if constexpr (std::is_same_v<std::decay_t<decltype(range)>, uint64_t>)
      return range;
    else
      return range.size;
  };
  const auto above = ranges.lower_bound(address);
  if (above != ranges.end() && above->first - address < size) return true;
  if (above == ranges.begin()) return false;
  const auto& [begin, range] = *std::prev(above);
  return address - begin < size_of(range);
}

}  // namespace

std::string hex(uint64_t number) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(number));
  return text;
}

LedgerMachine::LedgerMachine(uint64_t capacity, int32_t device_count, bool has_fabric, Plant plant)
    : capacity_(capacity),
      has_fabric_(has_fabric),
      plant_(plant),
      devices_(static_cast<size_t>(device_count)) {
  cachalot_device_ops ops;
  std::memset(&ops, 0, sizeof ops);
  ops.struct_size = sizeof ops;
  fill_memory(&ops);
  fill_virtual_memory(&ops);
  fill_events(&ops);
  fill_captures(&ops);
  fill_pool(&ops);
  fill_copies(&ops);
  fill_sharing(&ops);
  cachalot_error error = CACHALOT_ERROR_INIT;
  if (cachalot_driver_create_custom(&ops, device_count, this, nullptr, &driver_, &error) !=
      CACHALOT_OK)
    report_defect(error.message);
}

LedgerMachine::~LedgerMachine() { cachalot_driver_destroy(driver_); }

// ---- The table of functions

void LedgerMachine::fill_memory(cachalot_device_ops* ops) {
  ops->memory_info = [](void* self, int32_t device, uint64_t* out_free, uint64_t* out_total) {
    *out_total = of(self).capacity_;
    *out_free = of(self).capacity_ - of(self).at(device).used;
    return of(self).due(CACHALOT_SIM_CALL_MEMORY_INFO);
  };
  ops->allocate = [](void* self, int32_t device, uint64_t size, cachalot_address* out) {
    return of(self).allocate(device, size, out);
  };
  ops->free = [](void* self, int32_t device, cachalot_address address) {
    return of(self).free(device, address);
  };
  ops->enable_peer = [](void* self, int32_t, int32_t) {
    return of(self).due(CACHALOT_SIM_CALL_ENABLE_PEER);
  };
  ops->take_pending_error = [](void* self, int32_t) {
    if (of(self).pending_error_ != 0) of(self).faults_++;
    return std::exchange(of(self).pending_error_, 0);
  };
}

void LedgerMachine::fill_virtual_memory(cachalot_device_ops* ops) {
  ops->reserve = [](void* self, int32_t device, uint64_t size, cachalot_address* out) {
    return of(self).reserve(device, size, out);
  };
  ops->unreserve = [](void* self, int32_t device, cachalot_address address, uint64_t size) {
    return of(self).unreserve(device, address, size);
  };
  ops->granularity = [](void*, int32_t, uint64_t* out) {
    *out = kPage;
    return 0;
  };
  ops->create = [](void* self, int32_t device, uint64_t size, int32_t type, int32_t,
                   uint64_t* out) { return of(self).create(device, size, type, out); };
  ops->release = [](void* self, int32_t device, uint64_t handle) {
    return of(self).release(device, handle);
  };
  ops->map = [](void* self, int32_t device, cachalot_address address, uint64_t size,
                uint64_t handle) { return of(self).map(device, address, size, handle); };
  ops->unmap = [](void* self, int32_t device, cachalot_address address, uint64_t size) {
    return of(self).unmap(device, address, size);
  };
  ops->set_access = [](void* self, int32_t device, cachalot_address address, uint64_t size,
                       int32_t accessing) {
    return of(self).set_access(device, address, size, accessing);
  };
}

void LedgerMachine::fill_events(cachalot_device_ops* ops) {
  ops->event_create = [](void* self, int32_t device, uint64_t* out) {
    return of(self).event_create(device, out);
  };
  ops->event_destroy = [](void* self, int32_t device, uint64_t event) {
    return of(self).event_destroy(device, event);
  };
  ops->event_record = [](void* self, int32_t device, uint64_t event, cachalot_stream stream) {
    return of(self).event_record(device, event, stream);
  };
  ops->event_record_all = [](void* self, int32_t device, uint64_t event) {
    return of(self).event_record_all(device, event);
  };
  ops->event_query = [](void* self, int32_t device, uint64_t event) {
    return of(self).event_query(device, event);
  };
  ops->event_synchronize = [](void* self, int32_t device, uint64_t event) {
    return of(self).event_synchronize(device, event);
  };
  ops->stream_synchronize = [](void* self, int32_t device, cachalot_stream stream) {
    const int32_t code = of(self).due(CACHALOT_SIM_CALL_SYNCHRONIZE);
    if (code == 0) of(self).finish_stream(device, stream);
    return code;
  };
  ops->device_synchronize = [](void* self, int32_t device) {
    return of(self).device_synchronize(device);
  };
}

void LedgerMachine::fill_captures(cachalot_device_ops* ops) {
  ops->capture_info = [](void* self, int32_t device, cachalot_stream stream,
                         cachalot_capture_info* out) {
    return of(self).capture_info(device, stream, out);
  };
  ops->node_dependencies = [](void* self, int32_t, uint64_t node, const uint64_t** out_nodes,
                              size_t* out_count) {
    const auto& all = of(self).nodes_;
    if (node < kFirstNode || node - kFirstNode >= all.size())
      report_defect("the dependencies of a node that there is not");
    const std::vector<uint64_t>& nodes = all[node - kFirstNode];
    *out_nodes = nodes.data();
    *out_count = nodes.size();
    return of(self).due(CACHALOT_SIM_CALL_CAPTURE_INFO);
  };
}

void LedgerMachine::fill_pool(cachalot_device_ops* ops) {
  ops->pool_allocate = [](void* self, int32_t device, uint64_t size, cachalot_stream,
                          cachalot_address* out) {
    return of(self).pool_allocate(device, size, out);
  };
  ops->pool_free = [](void* self, int32_t device, cachalot_address address, cachalot_stream) {
    return of(self).pool_free(device, address);
  };
  ops->pool_trim = [](void* self, int32_t, uint64_t) {
    return of(self).due(CACHALOT_SIM_CALL_POOL_TRIM);
  };
  ops->pool_get_attribute = [](void* self, int32_t device, int32_t attribute, uint64_t* out) {
    return of(self).pool_get_attribute(device, attribute, out);
  };
  ops->pool_set_attribute = [](void* self, int32_t device, int32_t attribute, uint64_t) {
    Device& target = of(self).at(device);
    if (attribute == kPoolUsedHigh) target.pool_used_high = target.pool_used;
    if (attribute == kPoolReservedHigh) target.pool_reserved_high = target.pool_used;
    return of(self).due(CACHALOT_SIM_CALL_POOL_ATTRIBUTE);
  };
  ops->pool_set_access = [](void* self, int32_t, int32_t) {
    return of(self).due(CACHALOT_SIM_CALL_POOL_SET_ACCESS);
  };
  ops->stream_create = [](void* self, int32_t, cachalot_stream* out) {
    const int32_t code = of(self).due(CACHALOT_SIM_CALL_STREAM_CREATE);
    if (code == 0) *out = of(self).last_stream_ += 0x10;
    return code;
  };
  ops->stream_wait_event = [](void* self, int32_t device, cachalot_stream, uint64_t event) {
    of(self).event(device, event);
    return of(self).due(CACHALOT_SIM_CALL_STREAM_WAIT);
  };
}

// ---- Segments

// The lowest free place that is a multiple of a page.
cachalot_address LedgerMachine::place(int32_t device, uint64_t size) const {
  const Device& target = at(device);
  cachalot_address address = kFirstAddress + static_cast<uint64_t>(device) * kDeviceDistance;
  auto segment = target.segments.begin();
  auto reservation = target.reservations.begin();
  for (;;) {
    const bool is_segment =
        segment != target.segments.end() &&
        (reservation == target.reservations.end() || segment->first < reservation->first);
    if (!is_segment && reservation == target.reservations.end()) return address;
    const auto& [begin, length] = is_segment ? *segment++ : *reservation++;
    if (address + size <= begin) return address;
    address = (begin + length + kPage - 1) / kPage * kPage;
  }
}

int32_t LedgerMachine::allocate(int32_t device, uint64_t size, cachalot_address* out) {
  tell_under_way(true);
  Device& target = at(device);
  if (const int32_t code = due(CACHALOT_SIM_CALL_ALLOCATE)) return code;
  if (!fits(target, size)) return CACHALOT_DRIVER_OUT_OF_MEMORY;
  *out = 0;
  if (size == 0) return 0;
  *out = place(device, size);
  // Half of the first segment, and what lies behind it.
  if (plant_ == Plant::kOverlap && target.segments.size() > 2)
    *out = target.segments.begin()->first + kPage / 2;
  target.segments[*out] = size;
  target.used += size;
  return 0;
}

int32_t LedgerMachine::free(int32_t device, cachalot_address address) {
  tell_under_way(false);
  Device& target = at(device);
  const auto found = target.segments.find(address);
  if (found == target.segments.end())
    report_defect("free of " + hex(address) + ", which is no segment");
  if (const int32_t code = due(CACHALOT_SIM_CALL_FREE)) return code;
  tell_of_giving_back(address, found->second);
  if (plant_ == Plant::kLeak) return 0;
  contents_.drop(address, found->second);
  target.used -= found->second;
  target.segments.erase(found);
  target.segment_names.erase(address);
  return 0;
}

// ---- Virtual memory

int32_t LedgerMachine::reserve(int32_t device, uint64_t size, cachalot_address* out) {
  if (const int32_t code = due(CACHALOT_SIM_CALL_RESERVE)) return code;
  if (size == 0 || size % kPage != 0) report_defect("a reservation that is not of whole pages");
  *out = place(device, size);
  at(device).reservations[*out] = size;
  return 0;
}

int32_t LedgerMachine::unreserve(int32_t device, cachalot_address address, uint64_t size) {
  Device& target = at(device);
  const auto found = target.reservations.find(address);
  if (found == target.reservations.end() || found->second != size)
    report_defect("unreserve of " + hex(address) + ", which is no reservation of this size");
  if (const int32_t code = due(CACHALOT_SIM_CALL_UNRESERVE)) return code;
  if (is_taken(target.mappings, address, size) && refused_returns_ == 0)
    report_defect("unreserve of " + hex(address) + " with pages in it");
  target.reservations.erase(found);
  return 0;
}

int32_t LedgerMachine::create(int32_t device, uint64_t size, int32_t type, uint64_t* out) {
  Device& target = at(device);
  if (const int32_t code = due(CACHALOT_SIM_CALL_CREATE)) return code;
  if (!fits(target, size)) return CACHALOT_DRIVER_OUT_OF_MEMORY;
  *out = ++last_handle_;
  target.pages[*out] = {size, type};
  target.handles.insert(*out);
  target.used += size;
  return 0;
}

// Of one that keeps the page: a handle or a mapping.
void LedgerMachine::let_go(Device& device, uint64_t name, bool is_import) {
  const auto found = device.pages.find(name);
  Page& page = found->second;
  const bool was_of_imports = page.own == 0;
  (is_import ? page.imported : page.own)--;
  const bool is_gone = page.own == 0 && page.imported == 0;
  const bool is_of_imports = page.own == 0 && !is_gone;
  if (is_of_imports && !was_of_imports) device.used_by_imports += page.size;
  if (!is_of_imports && was_of_imports) device.used_by_imports -= page.size;
  if (!is_gone) return;
  device.used -= page.size;
  device.pages.erase(found);
}

// 0: there is no such handle.
uint64_t LedgerMachine::page_of(int32_t device, uint64_t handle) const {
  const Device& target = at(device);
  if (target.handles.count(handle) == 0) return 0;
  const auto imported = target.imported.find(handle);
  return imported == target.imported.end() ? handle : imported->second;
}

int32_t LedgerMachine::release(int32_t device, uint64_t handle) {
  Device& target = at(device);
  const uint64_t page = page_of(device, handle);
  if (page == 0) report_defect("release of a page that there is not");
  if (const int32_t code = due(CACHALOT_SIM_CALL_RELEASE)) return code;
  target.handles.erase(handle);
  let_go(target, page, target.imported.erase(handle) != 0);
  return 0;
}

int32_t LedgerMachine::map(int32_t device, cachalot_address address, uint64_t size,
                           uint64_t handle) {
  Device& target = at(device);
  const uint64_t name = page_of(device, handle);
  if (name == 0 || target.pages.at(name).size != size)
    report_defect("map of a page that there is not, or of another size");
  if (!is_within(target.reservations, address, size))
    report_defect("map of " + hex(address) + " outside of every reservation");
  if (const int32_t code = due(CACHALOT_SIM_CALL_MAP)) return code;
  if (is_taken(target.mappings, address, size)) {
    // A page that the driver has refused to take away may still be there.
    if (refused_returns_ == 0) report_defect("map of " + hex(address) + " over another page");
    faults_++;
    return CACHALOT_DRIVER_INVALID_VALUE;
  }
  const bool is_of_import = target.imported.count(handle) != 0;
  Page& page = target.pages.at(name);
  (is_of_import ? page.imported : page.own)++;
  target.mappings[address] = {size, name, is_of_import, 0};
  return 0;
}

int32_t LedgerMachine::unmap(int32_t device, cachalot_address address, uint64_t size) {
  Device& target = at(device);
  if (const int32_t code = due(CACHALOT_SIM_CALL_UNMAP)) return code;
  tell_of_giving_back(address, size);
  contents_.drop(address, size);
  for (const cachalot_address end = address + size; address < end;) {
    const auto mapping = target.mappings.find(address);
    if (mapping == target.mappings.end())
      report_defect("unmap of " + hex(address) + ", where no page begins");
    const Mapping gone = mapping->second;
    target.mappings.erase(mapping);
    let_go(target, gone.page, gone.is_of_import);
    address += gone.size;
    if (address > end) report_defect("unmap of half a page");
  }
  return 0;
}

int32_t LedgerMachine::set_access(int32_t device, cachalot_address address, uint64_t size,
                                  int32_t accessing) {
  Device& target = at(device);
  if (const int32_t code = due(CACHALOT_SIM_CALL_SET_ACCESS)) return code;
  for (const cachalot_address end = address + size; address < end;) {
    const auto mapping = target.mappings.find(address);
    if (mapping == target.mappings.end())
      report_defect("access to " + hex(address) + ", where no page is mapped");
    mapping->second.access |= uint64_t{1} << accessing;
    address += mapping->second.size;
  }
  return 0;
}

// ---- Streams and events

LedgerMachine::Stream& LedgerMachine::stream(int32_t device, cachalot_stream handle) {
  std::vector<Stream>& streams = at(device).streams;
  for (Stream& known : streams)
    if (known.handle == handle) return known;
  return streams.emplace_back(Stream{handle});
}

void LedgerMachine::queue_work(int32_t device, cachalot_stream on) { stream(device, on).queued++; }

void LedgerMachine::finish_oldest(int32_t device, cachalot_stream on) {
  Stream& target = stream(device, on);
  if (target.finished < target.queued) target.finished++;
}

void LedgerMachine::finish_stream(int32_t device, cachalot_stream on) {
  Stream& target = stream(device, on);
  target.finished = target.queued;
}

uint64_t LedgerMachine::queued(int32_t device, cachalot_stream on) {
  return stream(device, on).queued;
}

uint64_t LedgerMachine::finished(int32_t device, cachalot_stream on) {
  return stream(device, on).finished;
}

// Handles are numbers from 1 on.
LedgerMachine::Event& LedgerMachine::event(int32_t device, uint64_t handle) {
  std::vector<Event>& events = at(device).events;
  const uint64_t number = handle - 1;
  if (number >= events.size() || !events[number].is_live)
    report_defect("a call on an event that there is not");
  return events[number];
}

int32_t LedgerMachine::event_create(int32_t device, uint64_t* out) {
  if (const int32_t code = due(CACHALOT_SIM_CALL_EVENT_CREATE)) return code;
  Device& target = at(device);
  if (target.spare_events.empty()) {
    target.events.emplace_back();
    target.spare_events.push_back(target.events.size());
  }
  *out = target.spare_events.back();
  target.spare_events.pop_back();
  target.events[*out - 1] = {true, 0, 0};
  target.live_events++;
  return 0;
}

int32_t LedgerMachine::event_destroy(int32_t device, uint64_t handle) {
  event(device, handle).is_live = false;
  at(device).spare_events.push_back(handle);
  at(device).live_events--;
  return 0;
}

int32_t LedgerMachine::event_record(int32_t device, uint64_t handle, cachalot_stream on) {
  Event& target = event(device, handle);
  if (const int32_t code = due(CACHALOT_SIM_CALL_EVENT_RECORD)) return code;
  target = {true, on, stream(device, on).queued};
  return 0;
}

int32_t LedgerMachine::event_record_all(int32_t device, uint64_t handle) {
  Event& target = event(device, handle);
  if (const int32_t code = due(CACHALOT_SIM_CALL_EVENT_RECORD)) return code;
  target = {true};
  for (const Stream& known : at(device).streams) target.tickets_of_all.push_back(known.queued);
  return 0;
}

int32_t LedgerMachine::event_query(int32_t device, uint64_t handle) {
  const Event& target = event(device, handle);
  if (const int32_t code = due(CACHALOT_SIM_CALL_EVENT_QUERY)) return code;
  bool is_done = stream(device, target.stream).finished >= target.ticket;
  for (size_t i = 0; i < target.tickets_of_all.size(); i++)
    is_done = is_done && at(device).streams[i].finished >= target.tickets_of_all[i];
  return is_done || plant_ == Plant::kEarlyReuse ? 0 : CACHALOT_DRIVER_NOT_READY;
}

int32_t LedgerMachine::event_synchronize(int32_t device, uint64_t handle) {
  const Event& target = event(device, handle);
  if (const int32_t code = due(CACHALOT_SIM_CALL_EVENT_SYNCHRONIZE)) return code;
  const auto wait = [](Stream& awaited, uint64_t ticket) {
    awaited.finished = std::max(awaited.finished, ticket);
  };
  wait(stream(device, target.stream), target.ticket);
  for (size_t i = 0; i < target.tickets_of_all.size(); i++)
    wait(at(device).streams[i], target.tickets_of_all[i]);
  return 0;
}

int32_t LedgerMachine::device_synchronize(int32_t device) {
  if (const int32_t code = due(CACHALOT_SIM_CALL_SYNCHRONIZE)) return code;
  for (Stream& known : at(device).streams) known.finished = known.queued;
  return 0;
}

// ---- Captures

void LedgerMachine::begin_capture(int32_t device, cachalot_stream on, uint64_t capture) {
  Stream& target = stream(device, on);
  target.capture = capture;
  target.nodes.clear();
}

void LedgerMachine::end_capture(int32_t device, uint64_t capture) {
  for (Stream& known : at(device).streams) {
    if (known.capture != capture) continue;
    known.capture = 0;
    known.nodes.clear();
  }
}

void LedgerMachine::add_node(int32_t device, cachalot_stream on) {
  Stream& target = stream(device, on);
  if (target.capture == 0) return;
  nodes_.push_back(target.nodes);
  target.nodes = {kFirstNode + nodes_.size() - 1};
}

void LedgerMachine::fork(int32_t device, cachalot_stream from, cachalot_stream to) {
  const Stream source = stream(device, from);
  Stream& target = stream(device, to);
  target.capture = source.capture;
  target.nodes = source.nodes;
}

void LedgerMachine::join(int32_t device, cachalot_stream into, cachalot_stream other) {
  const std::vector<uint64_t> others = stream(device, other).nodes;
  Stream& target = stream(device, into);
  if (target.capture == 0) return;
  for (const uint64_t node : others)
    if (std::find(target.nodes.begin(), target.nodes.end(), node) == target.nodes.end())
      target.nodes.push_back(node);
}

int32_t LedgerMachine::capture_info(int32_t device, cachalot_stream on,
                                    cachalot_capture_info* out) {
  const Stream& target = stream(device, on);
  out->capturing = target.capture != 0 ? 1 : 0;
  out->capture_id = target.capture;
  out->graph = target.capture << 4;
  out->nodes = target.nodes.data();
  out->node_count = target.nodes.size();
  return due(CACHALOT_SIM_CALL_CAPTURE_INFO);
}

// ---- Stream-ordered memory

int32_t LedgerMachine::pool_allocate(int32_t device, uint64_t size, cachalot_address* out) {
  Device& target = at(device);
  if (const int32_t code = due(CACHALOT_SIM_CALL_POOL_ALLOCATE)) return code;
  if (size == 0) report_defect("0 bytes of stream-ordered memory");
  if (!fits(target, size)) return CACHALOT_DRIVER_OUT_OF_MEMORY;
  *out = place(device, size);
  target.segments[*out] = size;
  target.pool_blocks[*out] = size;
  target.used += size;
  target.pool_used += size;
  target.pool_used_high = std::max(target.pool_used_high, target.pool_used);
  target.pool_reserved_high = std::max(target.pool_reserved_high, target.pool_used);
  return 0;
}

int32_t LedgerMachine::pool_free(int32_t device, cachalot_address address) {
  Device& target = at(device);
  const auto found = target.pool_blocks.find(address);
  if (found == target.pool_blocks.end())
    report_defect("stream-ordered free of " + hex(address) + ", which is no block");
  if (const int32_t code = due(CACHALOT_SIM_CALL_POOL_FREE)) return code;
  tell_of_giving_back(address, found->second);
  target.used -= found->second;
  target.pool_used -= found->second;
  target.segments.erase(address);
  target.pool_blocks.erase(found);
  return 0;
}

int32_t LedgerMachine::pool_get_attribute(int32_t device, int32_t attribute, uint64_t* out) {
  const Device& target = at(device);
  *out = attribute == kPoolUsedCurrent || attribute == kPoolReservedCurrent ? target.pool_used
         : attribute == kPoolUsedHigh                                       ? target.pool_used_high
         : attribute == kPoolReservedHigh ? target.pool_reserved_high
                                          : 0;
  return due(CACHALOT_SIM_CALL_POOL_ATTRIBUTE);
}

// ---- Faults and accounts

void LedgerMachine::fail(uint32_t calls, int32_t code, uint64_t after, uint64_t count) {
  faults_to_come_.push_back({calls, code, after, count});
  armed_ |= calls;
}

void LedgerMachine::forget_faults() {
  faults_to_come_.clear();
  armed_ = 0;
  pending_error_ = 0;
}

int32_t LedgerMachine::count_fault(uint32_t call) {
  int32_t code = 0;
  for (Fault& fault : faults_to_come_) {
    if ((fault.calls & call) == 0) continue;
    if (fault.after > 0) {
      fault.after--;
    } else if (fault.count > 0 && code == 0) {
      fault.count--;
      code = fault.code;
    }
  }
  std::erase_if(faults_to_come_, [](const Fault& fault) { return fault.count == 0; });
  armed_ = 0;
  for (const Fault& fault : faults_to_come_) armed_ |= fault.calls;
  if (code == 0) return 0;
  faults_++;
  faults_by_kind_[static_cast<size_t>(std::countr_zero(call))]++;
  if (call & kReturns) refused_returns_++;
  return code;
}

uint64_t LedgerMachine::held(int32_t device) const {
  return refused_returns_ == 0 ? at(device).used - at(device).used_by_imports : UINT64_MAX;
}

std::string LedgerMachine::leaks() const {
  if (refused_returns_ != 0) return "";  // what the driver refused to take is still there
  for (const Device& device : devices_) {
    const std::string text = std::to_string(device.segments.size()) + " segments, " +
                             std::to_string(device.reservations.size()) + " reservations, " +
                             std::to_string(device.mappings.size()) + " mappings, " +
                             std::to_string(device.pages.size()) + " pages, " +
                             std::to_string(device.pool_blocks.size()) + " blocks, " +
                             std::to_string(device.opened.size()) + " opened segments, " +
                             std::to_string(host_blocks_.size()) + " blocks of pinned memory, " +
                             std::to_string(device.live_events) + " events";
    if (text.find_first_of("123456789") != std::string::npos) return text;
  }
  return "";
}

}  // namespace cachalot_test
