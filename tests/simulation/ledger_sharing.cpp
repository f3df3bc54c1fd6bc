// SPDX-License-Identifier: MIT OR Apache-2.0
// The ledger's memory between processes, which all are this one.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "ledger_machine.h"

namespace cachalot_test {
namespace {

// What a handle or the file of a descriptor says.
struct Name {
  int64_t device;
  uint64_t number;
};

void put(const Name& name, cachalot_shareable_handle* out) {
  std::memset(out, 0, sizeof *out);
  std::memcpy(out->bytes, &name, sizeof name);
}

int new_descriptor(const Name& name) {
  const int file = memfd_create("page", MFD_CLOEXEC);
  if (file < 0 || pwrite(file, &name, sizeof name, 0) != sizeof name)
    report_defect("the system has no file for a page");
  return file;
}

Name name_of(const cachalot_shareable_handle& from, int32_t type) {
  Name name = {-1, 0};
  if (type == CACHALOT_HANDLE_FABRIC) {
    std::memcpy(&name, from.bytes, sizeof name);
    return name;
  }
  int descriptor = -1;
  std::memcpy(&descriptor, from.bytes, sizeof descriptor);
  if (pread(descriptor, &name, sizeof name, 0) != sizeof name)
    report_defect("import of a descriptor that is of no page");
  return name;
}

}  // namespace

void LedgerMachine::fill_sharing(cachalot_device_ops* ops) {
  ops->fabric_state = [](void* self, int32_t, int32_t* out) {
    *out = of(self).has_fabric_ ? 1 : 0;
    return of(self).due(CACHALOT_SIM_CALL_FABRIC_STATE);
  };
  ops->export_handle = [](void* self, int32_t device, uint64_t handle, int32_t type,
                          cachalot_shareable_handle* out) {
    return of(self).export_page(device, handle, type, out);
  };
  ops->import_handle = [](void* self, int32_t device, const cachalot_shareable_handle* from,
                          int32_t type,
                          uint64_t* out) { return of(self).import_page(device, *from, type, out); };
  ops->ipc_get = [](void* self, int32_t device, cachalot_address address,
                    cachalot_shareable_handle* out) {
    return of(self).ipc_get(device, address, out);
  };
  ops->ipc_open = [](void* self, int32_t device, const cachalot_shareable_handle* from,
                     cachalot_address* out) { return of(self).ipc_open(device, *from, out); };
  ops->ipc_close = [](void* self, int32_t device, cachalot_address address) {
    return of(self).ipc_close(device, address);
  };
}

// ---- Pages

int32_t LedgerMachine::export_page(int32_t device, uint64_t handle, int32_t type,
                                   cachalot_shareable_handle* out) {
  const uint64_t page = page_of(device, handle);
  if (page == 0) report_defect("export of a page that there is not");
  if (const int32_t code = due(CACHALOT_SIM_CALL_EXPORT)) return code;
  if (at(device).pages.at(page).type != type || type == 0) {
    faults_++;
    return CACHALOT_DRIVER_INVALID_VALUE;
  }
  const Name name = {device, page};
  if (type == CACHALOT_HANDLE_FABRIC) {
    put(name, out);
    return 0;
  }
  const int descriptor = new_descriptor(name);
  std::memset(out, 0, sizeof *out);
  std::memcpy(out->bytes, &descriptor, sizeof descriptor);
  return 0;
}

int32_t LedgerMachine::import_page(int32_t device, const cachalot_shareable_handle& from,
                                   int32_t type, uint64_t* out) {
  if (const int32_t code = due(CACHALOT_SIM_CALL_IMPORT)) return code;
  const Name name = name_of(from, type);
  const auto page = at(device).pages.find(name.number);
  if (name.device != device || page == at(device).pages.end())
    report_defect("import of a page that is gone, or of another device");
  *out = ++last_handle_;
  at(device).handles.insert(*out);
  at(device).imported[*out] = name.number;
  page->second.imported++;
  return 0;
}

// ---- Segments

int32_t LedgerMachine::ipc_get(int32_t device, cachalot_address address,
                               cachalot_shareable_handle* out) {
  Device& target = at(device);
  if (target.segments.count(address) == 0)
    report_defect("a handle of " + hex(address) + ", where no segment begins");
  if (const int32_t code = due(CACHALOT_SIM_CALL_EXPORT)) return code;
  uint64_t& name = target.segment_names[address];
  if (name == 0) name = ++last_segment_name_;
  put({device, name}, out);
  return 0;
}

int32_t LedgerMachine::ipc_open(int32_t device, const cachalot_shareable_handle& from,
                                cachalot_address* out) {
  if (const int32_t code = due(CACHALOT_SIM_CALL_IMPORT)) return code;
  const Name name = name_of(from, CACHALOT_HANDLE_FABRIC);
  Device& target = at(device);
  for (const auto& [address, opened] : target.opened)
    if (opened.name == name.number && refused_returns_ == 0)
      report_defect("a segment is opened a second time");
  for (const auto& [address, number] : target.segment_names) {
    if (number != name.number || name.device != device) continue;
    *out = next_opened_address_;
    target.opened[*out] = {target.segments.at(address), number};
    next_opened_address_ += uint64_t{1} << 40;
    return 0;
  }
  report_defect("a segment is opened that is gone, or of another device");
}

// Nobody comes back for what is not closed, as for pages that are not released.
int32_t LedgerMachine::ipc_close(int32_t device, cachalot_address address) {
  if (at(device).opened.count(address) == 0)
    report_defect("close of " + hex(address) + ", where no opened segment begins");
  if (const int32_t code = due(CACHALOT_SIM_CALL_RELEASE)) return code;
  at(device).opened.erase(address);
  return 0;
}

// ---- What an address is of

// The name of a page or a segment, and the place in it.
std::pair<uint64_t, uint64_t> LedgerMachine::memory_at(int32_t device,
                                                       cachalot_address address) const {
  const Device& of = at(device);
  const auto mapping = last_from(of.mappings, address);
  if (mapping != of.mappings.end() && address - mapping->first < mapping->second.size)
    return {mapping->second.page, address - mapping->first};
  const auto opened = last_from(of.opened, address);
  if (opened != of.opened.end() && address - opened->first < opened->second.size)
    return {opened->second.name, address - opened->first};
  const auto segment = last_from(of.segments, address);
  if (segment == of.segments.end()) return {0, 0};
  const cachalot_address begin = segment->first;
  const auto name = of.segment_names.find(begin);
  return {name == of.segment_names.end() ? 0 : name->second, address - begin};
}

// Pages that could not be unmapped may lie where others are now.
bool LedgerMachine::is_same(int32_t device, cachalot_address one, cachalot_address other) const {
  if (refused_returns_ != 0) return true;
  const auto memory = memory_at(device, one);
  return memory.first != 0 && memory == memory_at(device, other);
}

}  // namespace cachalot_test
