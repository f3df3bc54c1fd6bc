// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/tools/snapshot_pickle.h"

#include <bit>
#include <charconv>
#include <cstdint>
#include <unordered_map>

#include "base/assert.h"
#include "base/utf8.h"

namespace cachalot {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 16;
constexpr size_t kMostListed = 1000;  // values that a reader has to hold before they go into a list
// Texts that come again are written once. Longer ones, and more than so many, are written each time.
constexpr size_t kMostKeptBytes = 256;
constexpr size_t kMostKept = size_t{1} << 16;

// The opcodes of Python's pickles that are used here, which are all known to memory_viz. A pickle is
// a program for a machine with a stack of values; kOpStop gives the last one.
constexpr std::string_view kOpProto4 = "\x80\x04";
constexpr char kOpStop = '.';
// Containers begin empty. What stands behind a mark goes into the one before it: keys with their
// values by kOpSetItems, values by kOpAppends.
constexpr char kOpEmptyDict = '}';
constexpr char kOpEmptyList = ']';
constexpr char kOpMark = '(';
constexpr char kOpSetItems = 'u';
constexpr char kOpAppends = 'e';
// The last two values become one.
constexpr char kOpTuple2 = '\x86';
constexpr char kOpTrue = '\x88';
constexpr char kOpFalse = '\x89';
// 8 bytes, big-endian; all others are little-endian.
constexpr char kOpBinFloat = 'G';
// Numbers of 1 and 2 bytes, without a sign; of 4, with one.
constexpr char kOpBinInt1 = 'K';
constexpr char kOpBinInt2 = 'M';
constexpr char kOpBinInt = 'J';
// The count of its bytes, then these: two's complement.
constexpr char kOpLong1 = '\x8a';
// The length in 1 byte or in 4, then UTF-8.
constexpr char kOpShortUnicode = '\x8c';
constexpr char kOpUnicode = 'X';
// Keeps the last value under the next number, which kOpGet or kOpLongGet gives again: by 1 byte, by 4.
constexpr char kOpMemoize = '\x94';
constexpr char kOpGet = 'h';
constexpr char kOpLongGet = 'j';

// Writes values one after another, in protocol 4.
class PickleWriter {
 public:
  explicit PickleWriter(const std::function<void(std::string_view)>& write) : write_(write) {
    out_ = kOpProto4;
  }

  void finish() {
    out_ += kOpStop;
    write_(out_);
  }

  // Body adds a key and a value, again and again.
  template <class Body>
  void dict(Body body) {
    out_ += kOpEmptyDict;
    out_ += kOpMark;
    body();
    out_ += kOpSetItems;
    pass_on();
  }

  // value(i) writes one. A reader never holds more than kMostListed of them beside the list.
  template <class Value>
  void list(size_t count, Value value) {
    out_ += kOpEmptyList;
    for (size_t i = 0; i < count; i++) {
      if (i % kMostListed == 0) out_ += kOpMark;
      value(i);
      if (i % kMostListed == kMostListed - 1 || i == count - 1) out_ += kOpAppends;
    }
  }

  // What is no UTF-8 is replaced, since a reader would refuse all of the file.
  void text(std::string_view text) {
    const auto known = texts_.find(std::string(text.substr(0, kMostKeptBytes + 1)));
    if (known != texts_.end()) return kept(known->second);
    const std::string valid = valid_utf8(text);
    const bool is_short = valid.size() < 256;
    out_ += is_short ? kOpShortUnicode : kOpUnicode;
    little_endian(valid.size(), is_short ? 1 : 4);
    out_ += valid;
    if (text.size() <= kMostKeptBytes && texts_.size() < kMostKept) texts_.emplace(text, keep());
  }

  // In as few bytes as an opcode for it has.
  void number(uint64_t value) {
    if (value < 0x100) {
      out_ += kOpBinInt1;
      little_endian(value, 1);
    } else if (value < 0x10000) {
      out_ += kOpBinInt2;
      little_endian(value, 2);
    } else if (value < 0x80000000) {
      out_ += kOpBinInt;
      little_endian(value, 4);
    } else {
      long_number(value, static_cast<size_t>(std::bit_width(value)) / 8 + 1);
    }
  }

  // A negative one is rare: it takes all bytes.
  void signed_number(int64_t value) {
    if (value >= 0) return number(static_cast<uint64_t>(value));
    long_number(static_cast<uint64_t>(value), 8);
  }

  void real(double value) {
    out_ += kOpBinFloat;
    const auto bits = std::bit_cast<uint64_t>(value);
    for (int shift = 56; shift >= 0; shift -= 8) out_ += static_cast<char>(bits >> shift);
  }

  void boolean(bool value) { out_ += value ? kOpTrue : kOpFalse; }

  // As a tuple, which the ids of pools are.
  void pair(uint64_t first, uint64_t second) {
    number(first);
    number(second);
    out_ += kOpTuple2;
  }

  // Of the value that was written last: it can be written again as kept().
  uint32_t keep() {
    out_ += kOpMemoize;
    return kept_++;
  }

  void kept(uint32_t index) {
    out_ += index < 0x100 ? kOpGet : kOpLongGet;
    little_endian(index, index < 0x100 ? 1 : 4);
  }

 private:
  void long_number(uint64_t value, size_t bytes) {
    out_ += kOpLong1;
    little_endian(bytes, 1);
    little_endian(value, bytes);
  }

  // A ninth byte is 0: the sign.
  void little_endian(uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) out_ += i < 8 ? static_cast<char>(value >> (8 * i)) : '\0';
  }

  // Memory stays small, however large the snapshot is.
  void pass_on() {
    if (out_.size() < kPieceBytes) return;
    write_(out_);
    out_.clear();
  }

  const std::function<void(std::string_view)>& write_;
  std::string out_;
  std::unordered_map<std::string, uint32_t> texts_;
  uint32_t kept_ = 0;  // values in the reader's memo
};

struct FrameText {
  std::string_view file;
  uint64_t line = 0;
  std::string_view name;
};

// The first ":NUMBER:" ends the file's name.
FrameText frame_of(std::string_view text) {
  for (size_t at = text.find(':', 1); at < text.size(); at = text.find(':', at + 1)) {
    FrameText frame{.file = text.substr(0, at)};
    const char* const end = text.data() + text.size();
    const auto [behind, problem] = std::from_chars(text.data() + at + 1, end, frame.line);
    if (problem != std::errc() || behind == end || *behind != ':') continue;
    frame.name = text.substr(static_cast<size_t>(behind + 1 - text.data()));
    return frame;
  }
  return {.name = text};
}

const char* state_name(BlockState state) {
  if (state == BlockState::kAllocated) return "active_allocated";
  return state == BlockState::kPendingFree ? "active_pending_free" : "inactive";
}

class SnapshotWriter {
 public:
  SnapshotWriter(const Snapshot& snapshot, const std::function<std::string(ContextId)>& describe,
                 const std::function<void(std::string_view)>& write)
      : snapshot_(snapshot), describe_(describe), out_(write) {}

  void write() {
    out_.dict([this] {
      out_.text("segments");
      out_.list(snapshot_.segments.size(), [this](size_t i) { write(snapshot_.segments[i]); });
      out_.text("device_traces");
      out_.list(snapshot_.traces.size(), [this](size_t i) { write(snapshot_.traces[i]); });
      out_.text("allocator_settings");
      write(snapshot_.settings);
      out_.text("external_annotations");
      out_.list(0, [](size_t) {});
    });
    out_.finish();
  }

 private:
  void number(const char* key, uint64_t value) {
    out_.text(key);
    out_.number(value);
  }
  void text(const char* key, std::string_view value) {
    out_.text(key);
    out_.text(value);
  }
  void boolean(const char* key, bool value) {
    out_.text(key);
    out_.boolean(value);
  }
  void pool(const char* key, PoolId id) {
    out_.text(key);
    out_.pair(id.first, id.second);
  }

  // The keys of all dictionaries are PyTorch's, in its order.
  void write(const SegmentRow& segment) {
    CACHALOT_ASSERT(1, segment.first_block + segment.block_count <= snapshot_.blocks.size());
    out_.dict([&] {
      number("device", static_cast<uint64_t>(segment.device));
      number("address", segment.address);
      number("total_size", segment.total_size);
      number("allocated_size", segment.allocated_size);
      number("active_size", segment.active_size);
      number("requested_size", segment.requested_size);
      number("stream", segment.stream);
      text("segment_type", segment.is_large ? "large" : "small");
      pool("segment_pool_id", segment.pool);
      boolean("is_expandable", segment.is_expandable);
      frames(segment.context);
      out_.text("blocks");
      out_.list(segment.block_count,
                [&](size_t i) { write(snapshot_.blocks[segment.first_block + i]); });
    });
  }

  // An inactive block tells what was last requested of it, as in the reference.
  void write(const BlockRow& block) {
    out_.dict([&] {
      number("address", block.address);
      number("size", block.size);
      number("requested_size", block.requested);
      text("state", state_name(block.state));
      frames(block.context);
    });
  }

  void write(const std::vector<TraceEntry>& history) {
    out_.list(history.size(), [&](size_t i) { write(history[i]); });
  }

  // compile_context is of torch.compile, which no allocator knows. Releases before 2.12 tell no pool.
  void write(const TraceEntry& entry) {
    out_.dict([&] {
      text("action", action_name(entry.action));
      number(entry.action == Action::kOom ? "device_free" : "addr", entry.address);
      number("size", entry.size);
      number("stream", entry.stream);
      out_.text("time_us");
      out_.signed_number(entry.time_us);
      text("compile_context", "N/A");
      text("user_metadata", entry.metadata ? std::string_view(*entry.metadata) : "");
      if (snapshot_.release > Release::k2_11) pool("pool_id", entry.pool);
      if (*entry.internal_metadata != '\0') text("internal_metadata", entry.internal_metadata);
      if (entry.context != kNoContext) frames(entry.context);
    });
  }

  // Equal ones are written once.
  void frames(ContextId context) {
    out_.text("frames");
    const auto known = frames_of_.find(context);
    if (known != frames_of_.end()) return out_.kept(known->second);
    const std::string all = context != kNoContext && describe_ ? describe_(context) : "";
    std::vector<std::string_view> lines;
    for (std::string_view rest = all; !rest.empty();) {
      const size_t end = rest.find('\n');
      lines.push_back(rest.substr(0, end));
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    }
    out_.list(lines.size(), [&](size_t i) { write(frame_of(lines[i])); });
    frames_of_.emplace(context, out_.keep());
  }

  // Every key is there, as in PyTorch's own.
  void write(const FrameText& frame) {
    out_.dict([&] {
      text("name", frame.name);
      text("filename", frame.file);
      number("line", frame.line);
    });
  }

  // The slots of the roundup are named by the sizes in MiB that they begin at.
  void write(const Settings& settings) {
    out_.dict([&] {
      text("PYTORCH_CUDA_ALLOC_CONF", settings.config);
      out_.text("max_split_size");
      out_.signed_number(settings.shown_max_split_size());
      out_.text("garbage_collection_threshold");
      out_.real(settings.garbage_collection_threshold);
      boolean("expandable_segments", settings.expandable_segments);
      number("pinned_num_register_threads", settings.pinned_num_register_threads);
      boolean("release_lock_on_cudamalloc", settings.release_lock_on_cudamalloc);
      boolean("pinned_use_cuda_host_register", settings.pinned_use_cuda_host_register);
      boolean("graph_capture_record_stream_reuse", settings.graph_capture_record_stream_reuse);
      out_.text("roundup_power2_divisions");
      out_.dict([&] {
        for (size_t i = 0; i < settings.roundup_power2_divisions.size(); i++)
          number(std::to_string(uint64_t{1} << i).c_str(), settings.roundup_power2_divisions[i]);
      });
    });
  }

  const Snapshot& snapshot_;
  const std::function<std::string(ContextId)>& describe_;
  PickleWriter out_;
  std::unordered_map<ContextId, uint32_t> frames_of_;
};

}  // namespace

void write_snapshot_pickle(const Snapshot& snapshot,
                           const std::function<std::string(ContextId)>& describe,
                           const std::function<void(std::string_view bytes)>& write) {
  SnapshotWriter(snapshot, describe, write).write();
}

}  // namespace cachalot
