// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/sharing/shared_memory.h"

#include <cstring>

#include "alloc/config/constants.h"
#include "base/error.h"
#include "base/text.h"
#include "device/address_range.h"

namespace cachalot {
namespace {

constexpr char kKindSegment = 'c';
constexpr char kKindPages = 'e';
// Since this version the text of pages says what kind of handles they have (R61).
constexpr uint8_t kVersionWithKinds = 3;
constexpr size_t kHandleBytes = sizeof(ShareableHandle);
constexpr size_t kDescriptorBytes = sizeof(int32_t);

// As both releases write it in the machine's byte order. Their padding is whatever was
// there.
struct PagesHeader {
  int32_t process;
  uint32_t padding;
  uint64_t page_size;
  uint64_t pages;
};
static_assert(sizeof(PagesHeader) == 24);
struct KindOfHandles {
  int32_t kind;
  uint32_t padding;
};
enum PageHandles : int32_t { kPosixFds = 1, kFabrics = 2 };

size_t handle_bytes(HandleType type) {
  return type == HandleType::kFabric ? kHandleBytes : kDescriptorBytes;
}

template <class T>
void append(std::string* bytes, const T& value) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Takes a value from the front; zeros where the text ends before, which the reference does
// too.
template <class T>
T take_value(std::string_view* bytes) {
  T value{};
  if (bytes->size() < sizeof value) {
    *bytes = {};
    return value;
  }
  std::memcpy(&value, bytes->data(), sizeof value);
  bytes->remove_prefix(sizeof value);
  return value;
}

// Of descriptors only the numbers: the process that opens them takes them from this one.
std::string pages_to_bytes(const SharedPages& pages, bool with_kind) {
  std::string bytes;
  append(&bytes, PagesHeader{pages.process.value_or(0), 0, pages.page_size, pages.handles.size()});
  if (with_kind)
    append(&bytes, KindOfHandles{pages.type == HandleType::kFabric ? kFabrics : kPosixFds, 0});
  for (const ShareableHandle& handle : pages.handles)
    bytes.append(reinterpret_cast<const char*>(handle.bytes), handle_bytes(pages.type));
  return bytes;
}

HandleType type_of(int32_t kind) {
  if (kind == kPosixFds) return HandleType::kPosixFd;
  if (kind == kFabrics) return HandleType::kFabric;
  throw_invalid_argument(
      format("Unknown Expandable_Segments_Handle_Type in IPC share header: %d", kind));
}

// An older text does not say the kind, and only one of them fits its length.
HandleType type_by_length(uint64_t pages, size_t length) {
  return length / kHandleBytes == pages && length % kHandleBytes == 0 ? HandleType::kFabric
                                                                      : HandleType::kPosixFd;
}

// Before anything is reserved: the reference divides by the size of a
// page (U26).
void require_possible(const PagesHeader& header, HandleType type, size_t length) {
  if (header.pages == 0)
    throw_invalid_argument("IPC share header describes an empty expandable segment");
  if (header.page_size == 0 || header.page_size % kMinBlockSize != 0 ||
      header.pages > kAddressEnd / header.page_size) {
    throw_invalid_argument(format("%llu pages of %llu bytes are no shared memory",
                                  static_cast<unsigned long long>(header.pages),
                                  static_cast<unsigned long long>(header.page_size)));
  }
  if (length % handle_bytes(type) != 0 || length / handle_bytes(type) != header.pages) {
    throw_invalid_argument(format("%llu shared pages have handles of %zu bytes, not %zu",
                                  static_cast<unsigned long long>(header.pages),
                                  static_cast<size_t>(header.pages) * handle_bytes(type), length));
  }
}

// The order of the checks is the reference's: an empty description is told before the kind of handles.
SharedPages read_pages(std::string_view bytes, bool with_kind) {
  const auto header = take_value<PagesHeader>(&bytes);
  const auto kind = with_kind ? take_value<KindOfHandles>(&bytes) : KindOfHandles{};
  if (with_kind && header.pages == 0) require_possible(header, HandleType::kPosixFd, 0);
  SharedPages pages{
      .process = header.process,
      .page_size = header.page_size,
      .type = with_kind ? type_of(kind.kind) : type_by_length(header.pages, bytes.size()),
      .handles = {}};
  require_possible(header, pages.type, bytes.size());
  pages.handles.resize(header.pages);
  for (ShareableHandle& handle : pages.handles) {
    std::memcpy(handle.bytes, bytes.data(), handle_bytes(pages.type));
    bytes.remove_prefix(handle_bytes(pages.type));
  }
  return pages;
}

ShareableHandle read_segment(std::string_view bytes) {
  if (bytes.size() != kHandleBytes) {
    throw_invalid_argument(
        format("the handle of a segment has %zu bytes, not %zu", kHandleBytes, bytes.size()));
  }
  return take_value<ShareableHandle>(&bytes);
}

}  // namespace

std::string to_bytes(const SharedMemory& memory, const Rules& rules) {
  std::string bytes{static_cast<char>(rules.share_version)};
  if (const auto* const segment = std::get_if<ShareableHandle>(&memory)) {
    bytes += kKindSegment;
    append(&bytes, *segment);
    return bytes;
  }
  bytes += kKindPages;
  return bytes +
         pages_to_bytes(std::get<SharedPages>(memory), rules.share_version >= kVersionWithKinds);
}

SharedMemory read_shared_memory(std::string_view bytes, const Rules& rules) {
  // From before there were versions.
  if (bytes.size() == kHandleBytes) return read_segment(bytes);
  const auto version = take_value<uint8_t>(&bytes);
  if (version > rules.share_version) throw_invalid_argument(rules.wording().future_version);
  const char kind = take_value<char>(&bytes);
  if (kind == kKindSegment) return read_segment(bytes);
  if (kind == kKindPages) return read_pages(bytes, version >= kVersionWithKinds);
  throw_invalid_argument("unexpected or illformed shareable handle type");
}

}  // namespace cachalot
