// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/debug/memory_watch.h"

#include <algorithm>
#include <new>

#include "alloc/streams/relaxed_capture_mode.h"
#include "alloc/trace/contexts.h"
#include "base/error.h"
#include "base/text.h"
#include "base/units.h"

namespace cachalot {
namespace {

// Bytes that are copied to the host at a time: a red zone of a large block can be as long as its
// rounding.
constexpr size_t kSeenAtOnce = 64 * KiB;

// Goes on without memory for the watch's own notes: debugging must not fail a call.
template <class Step>
void watched(Step step) noexcept {
  try {
    step();
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace

MemoryWatch::MemoryWatch(Driver& driver, const Captures& captures, const DebugOptions& options,
                         int device, const Labels& labels, const Log& log)
    : driver_(driver),
      captures_(captures),
      labels_(labels),
      log_(log),
      options_(options),
      device_(device) {
  if ((options_.poison || options_.red_zones) && !driver_.can_touch_memory()) {
    throw_not_supported(
        std::string("poison and red zones need memory that can be written, which the driver ") +
        driver_.name() + " does not have");
  }
  // Here, so that a look needs no memory.
  if (options_.red_zones) seen_.resize(kSeenAtOnce);
  if (!options_.nvtx) return;
  nvtx_ = make_nvtx_memory();
  if (!nvtx_)
    throw_not_supported(
        "this build has no NVTX: its headers were not found (CACHALOT_NVTX_INCLUDE)");
}

// A heap for each piece, because the driver takes memory back in these pieces.
void MemoryWatch::came(Address address, uint64_t size, uint64_t piece) noexcept {
  CACHALOT_ASSERT(1, piece > 0 && size % piece == 0);
  if (!nvtx_) return;
  watched([&] {
    for (uint64_t offset = 0; offset < size; offset += piece)
      nvtx_->add_heap(address + offset, piece);
  });
}

// Before the driver has the memory back: another allocation may get it at once.
void MemoryWatch::goes(Address address, uint64_t size) noexcept {
  if (nvtx_) nvtx_->remove_heaps(address, size);
}

// The region covers the caller's bytes; the zone behind them is outside, so that a tool reports a
// write there at once.
void MemoryWatch::handed_out(Block* block, std::optional<Stream> stream) noexcept {
  CACHALOT_ASSERT(1, block->is(Block::kUsed) && asked(block) <= block->size);
  BlockDetail& detail = block->detail();
  // The object may come from another block, whose zone means nothing here.
  detail.red_zone = 0;
  set_region(block, 0, asked(block));
  if (nvtx_ && detail.label != Labels::kNone) {
    watched([&] { nvtx_->name_region(block->address, labels_.text(detail.label).c_str()); });
  }
  if (!options_.red_zones) return;
  set_region(block, asked(block), block->size);
  if (fill(block, asked(block), kRedZoneByte, stream)) detail.red_zone = asked(block);
  set_region(block, block->size, asked(block));
}

// pre: the work that used the block is done or queued on its stream, so the fill comes behind it.
void MemoryWatch::freed(Block* block, std::optional<Stream> stream) noexcept {
  CACHALOT_ASSERT(1, block->is_free());
  // Before poison covers it, the zone is looked at for the last time.
  set_region(block, asked(block), block->size);
  watched([&] {
    if (const std::string found = look(block, stream); !found.empty()) log_.report_damage(found);
  });
  block->detail().red_zone = 0;
  if (options_.poison) fill(block, 0, kPoisonByte, stream);
  set_region(block, block->size, 0);
}

std::string MemoryWatch::damage(const Block* block, std::optional<Stream> stream) noexcept {
  CACHALOT_ASSERT(1, block->is(Block::kUsed));
  std::string found;
  set_region(block, asked(block), block->size);
  watched([&] { found = look(block, stream); });
  set_region(block, block->size, asked(block));
  return found;
}

// Not within a capture: the fill would become part of the graph. A stream whose state the driver does
// not tell may be captured. For all streams the device is waited for, which ends a capture of any.
bool MemoryWatch::may_touch(std::optional<Stream> stream) const {
  if (stream == kAllStreams && captures_.may_be_under_way()) return false;
  CaptureInfo info;
  return stream && driver_.capture_info(device_, *stream, &info) == kSuccess && !info.capturing;
}

bool MemoryWatch::fill(const Block* block, uint64_t from, uint8_t byte,
                       std::optional<Stream> stream) const {
  CACHALOT_ASSERT(1, driver_.can_touch_memory() && from <= block->size);
  bool filled = false;
  watched([&] {
    filled = may_touch(stream) && driver_.fill(device_, block->address + from, block->size - from,
                                               byte, *stream) == kSuccess;
  });
  return filled;
}

// For the watch's own writes and reads: a checking tool would report those outside of a region.
void MemoryWatch::set_region(const Block* block, uint64_t before, uint64_t after) const {
  if (nvtx_) nvtx_->set_region(block->address, before, after);
}

// Reads in pieces, so that a look needs no memory of the block's size. A failed read ends it
// without a finding.
std::string MemoryWatch::look(const Block* block, std::optional<Stream> stream) {
  const uint64_t begin = block->detail().red_zone;
  if (begin == 0 || !may_touch(stream)) return "";
  CACHALOT_ASSERT(1, options_.red_zones && begin <= block->size);
  const RelaxedCaptureMode relaxed(driver_, device_,
                                   true);  // reading waits, and others may capture
  for (uint64_t offset = begin; offset < block->size; offset += kSeenAtOnce) {
    const uint64_t size = std::min<uint64_t>(kSeenAtOnce, block->size - offset);
    const DriverCode code =
        driver_.read(device_, block->address + offset, size, seen_.data(), *stream);
    if (code != kSuccess) return "";
    const auto end = seen_.begin() + static_cast<std::ptrdiff_t>(size);
    const auto found =
        std::find_if(seen_.begin(), end, [](uint8_t byte) { return byte != kRedZoneByte; });
    if (found != end)
      return damage_text(block, offset + static_cast<uint64_t>(found - seen_.begin()), *found,
                         *stream);
  }
  return "";
}

// Names the first changed byte, counted from 1 behind the caller's last one.
std::string MemoryWatch::damage_text(const Block* block, uint64_t offset, uint8_t found,
                                     Stream stream) const {
  const std::string label = labels_.text(block->detail().label);
  return "the block at " + hex_address(block->address) + " of " + std::to_string(asked(block)) +
         " bytes (device " + std::to_string(device_) + ", stream " + hex_address(stream) +
         (label.empty() ? "" : ", label " + label) + ") was written beyond its end: byte " +
         std::to_string(offset - asked(block) + 1) + format(" after it is 0x%02x", found);
}

}  // namespace cachalot
