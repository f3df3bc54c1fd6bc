// SPDX-License-Identifier: MIT OR Apache-2.0
#include "loaded_code.h"

#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <optional>

#include "unwinder/unwinder.h"

namespace cachalot::proxy {
namespace {

// One object of the loader's list.
class Object {
 public:
  explicit Object(const dl_phdr_info& info) : info_(info) {}

  std::vector<CodeFile> code() const {
    std::vector<CodeFile> files;
    for (const ElfW(Phdr) & part : parts())
      if (part.p_type == PT_LOAD && (part.p_flags & PF_X) != 0)
        files.push_back({address_of(part), end_of(part), part.p_offset, path()});
    return files;
  }

  // Nothing where it has no tables for unwinding.
  std::optional<cachalot_unwinder_library> library() const {
    for (const ElfW(Phdr) & part : parts()) {
      if (part.p_type != PT_GNU_EH_FRAME) continue;
      const Address frames = frames_of(address_of(part));
      if (frames == 0) return std::nullopt;
      const auto [begin, end] = range();
      return cachalot_unwinder_library{.base = info_.dlpi_addr,
                                       .begin = begin,
                                       .end = end,
                                       .index = address_of(part),
                                       .index_size = part.p_memsz,
                                       .frames = frames,
                                       .frames_size = end_of_part_at(frames) - frames};
    }
    return std::nullopt;
  }

  std::pair<Address, Address> range() const {
    Address begin = UINT64_MAX;
    Address end = 0;
    for (const ElfW(Phdr) & part : parts()) {
      if (part.p_type != PT_LOAD) continue;
      begin = std::min<Address>(begin, address_of(part));
      end = std::max<Address>(end, end_of(part));
    }
    return {begin, end};
  }

 private:
  struct Parts {
    const ElfW(Phdr) * first;
    size_t count;

    const ElfW(Phdr) * begin() const { return first; }
    const ElfW(Phdr) * end() const { return first + count; }
  };

  Parts parts() const { return {info_.dlpi_phdr, info_.dlpi_phnum}; }
  Address address_of(const ElfW(Phdr) & part) const { return info_.dlpi_addr + part.p_vaddr; }
  Address end_of(const ElfW(Phdr) & part) const { return address_of(part) + part.p_memsz; }

  // The program itself has no name.
  std::string path() const {
    if (info_.dlpi_name != nullptr && *info_.dlpi_name != '\0') return info_.dlpi_name;
    std::array<char, 4096> path;
    const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
    return length > 0 ? std::string(path.data(), static_cast<size_t>(length)) : "";
  }

  // .eh_frame_hdr: version 1, then how .eh_frame's address is written: in all of today's files as a distance of
  // 32 bits from where it stands.
  static Address frames_of(Address index) {
    constexpr uint8_t kDistanceOf32Bits = 0x1b;
    const auto* const header = reinterpret_cast<const uint8_t*>(index);
    if (header[0] != 1 || header[1] != kDistanceOf32Bits) return 0;
    int32_t distance = 0;
    std::memcpy(&distance, header + 4, sizeof distance);
    return index + 4 + static_cast<Address>(static_cast<int64_t>(distance));
  }

  Address end_of_part_at(Address address) const {
    for (const ElfW(Phdr) & part : parts())
      if (part.p_type == PT_LOAD && address_of(part) <= address && address < end_of(part))
        return end_of(part);
    return address;
  }

  const dl_phdr_info& info_;
};

// Calls `see` with each object, until it gives true.
template <class See>
void for_each_object(See see) {
  dl_iterate_phdr([](dl_phdr_info* info, size_t,
                     void* data) { return (*static_cast<See*>(data))(*info) ? 1 : 0; },
                  &see);
}

std::pair<Address, Address> own_range() {
  static const int own = 0;
  const auto address = reinterpret_cast<Address>(&own);
  std::pair<Address, Address> found;
  for_each_object([&](const dl_phdr_info& info) {
    const auto [begin, end] = Object(info).range();
    const bool is_own = begin <= address && address < end;
    if (is_own) found = {begin, end};
    return is_own;
  });
  return found;
}

}  // namespace

LoadedCode::LoadedCode(std::function<void(const CodeFile&)> told)
    : told_(std::move(told)), own_(own_range()) {}

LoadedCode::~LoadedCode() {
  if (modules_ != nullptr) cachalot_unwinder_modules_delete(modules_);
}

LoadedCode::Changes LoadedCode::ask_loader() {
  Changes changes;
  for_each_object([&](const dl_phdr_info& info) {
    changes = {info.dlpi_adds, info.dlpi_subs};
    return true;
  });
  return changes;
}

void LoadedCode::refresh_if_changed() {
  const Changes now = ask_loader();
  {
    const std::shared_lock guard(mutex_);
    if (modules_ != nullptr && changes_ == now) return;
  }
  const std::lock_guard guard(mutex_);
  refresh();
}

void LoadedCode::refresh() {
  cachalot_unwinder_modules* const modules = cachalot_unwinder_modules_new();
  std::vector<CodeFile> files;
  for_each_object([&](const dl_phdr_info& info) {
    changes_ = {info.dlpi_adds, info.dlpi_subs};
    const Object object(info);
    if (const auto library = object.library()) cachalot_unwinder_modules_add(modules, &*library);
    for (CodeFile& file : object.code()) files.push_back(std::move(file));
    return false;
  });
  for (const CodeFile& file : files)
    if (!file.path.empty() && std::find(files_.begin(), files_.end(), file) == files_.end())
      told_(file);
  files_ = std::move(files);
  if (modules_ != nullptr) cachalot_unwinder_modules_delete(modules_);
  modules_ = modules;
}

void LoadedCode::tell_all() {
  const std::shared_lock guard(mutex_);
  for (const CodeFile& file : files_)
    if (!file.path.empty()) told_(file);
}

}  // namespace cachalot::proxy
