// SPDX-License-Identifier: MIT OR Apache-2.0
// The hot path of reading: a line costs a few dozen instructions, so the numbers are read by hand.
// Every loop ends at the line break at the latest, since that is neither a digit nor a comma.
#include "replay/event_line.h"

#include <array>
#include <bit>
#include <charconv>
#include <limits>

#include "base/assert.h"

namespace cachalot {
namespace {

constexpr std::string_view kLetters = "aqcSFMUsonbARkxCDghwWez";  // by the numbers of Action
static_assert(kLetters.size() == kRecordedActionCount);
constexpr std::string_view kEntries = "stpvhinmlry";  // docs/trace-format.md

constexpr uint8_t kNone = 0xff;

constexpr std::array<uint8_t, 256> make_hex_values() {
  std::array<uint8_t, 256> values{};
  values.fill(kNone);
  for (uint8_t i = 0; i < 10; i++) values['0' + i] = i;
  for (uint8_t i = 0; i < 6; i++) values['a' + i] = values['A' + i] = static_cast<uint8_t>(10 + i);
  return values;
}

constexpr std::array<uint8_t, 256> make_actions() {
  std::array<uint8_t, 256> actions{};
  actions.fill(kNone);
  for (uint8_t i = 0; i < kRecordedActionCount; i++) actions[static_cast<uint8_t>(kLetters[i])] = i;
  return actions;
}

constexpr auto kHexValues = make_hex_values();
constexpr auto kActions = make_actions();

class Fields {
 public:
  explicit Fields(const char* text) : at_(text) {}

  const char* at() const { return at_; }
  bool take(char wanted) {
    if (*at_ != wanted) return false;
    at_++;
    return true;
  }

  bool action(Action* action) {
    const uint8_t number = kActions[static_cast<uint8_t>(*at_)];
    if (number == kNone) return false;
    at_++;
    *action = static_cast<Action>(number);
    return true;
  }

  bool entry(char* entry) {
    if (kEntries.find(*at_) == std::string_view::npos) return false;
    *entry = *at_++;
    return true;
  }

  bool hex(uint64_t* value) {
    const char* const begin = at_;
    *value = 0;
    for (uint8_t digit; (digit = kHexValues[static_cast<uint8_t>(*at_)]) != kNone; at_++)
      *value = *value << 4 | digit;
    return at_ != begin && at_ - begin <= 16;
  }

  bool decimal(uint64_t* value) {
    constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
    const char* const begin = at_;
    *value = 0;
    for (unsigned digit; (digit = static_cast<unsigned>(*at_ - '0')) < 10; at_++) {
      if (*value > kMost / 10 || *value * 10 > kMost - digit) return false;
      *value = *value * 10 + digit;
    }
    return at_ != begin;
  }

 private:
  const char* at_;
};

bool parse_pool(Fields& fields, PoolId* pool) {
  return fields.decimal(&pool->first) && fields.take(':') && fields.decimal(&pool->second) &&
         (pool->first == 0 || pool->second == 0);
}

bool parse_signed(Fields& fields, int64_t* number) {
  uint64_t value = 0;
  if (!fields.decimal(&value) || value > static_cast<uint64_t>(INT64_MAX)) return false;
  *number = static_cast<int64_t>(value);
  return true;
}

// Whether the field that comes next, if one does, says something.
bool has_value(Fields& fields) { return *fields.at() != ',' && *fields.at() != '\n'; }

// The fields that may be left out or be empty.
bool parse_rest(Fields& fields, EventLine* line) {
  if (!fields.take(',')) return true;
  if (has_value(fields) && !fields.decimal(&line->device)) return false;
  if (!fields.take(',')) return true;
  if (has_value(fields) && !parse_pool(fields, &line->pool)) return false;
  if (!fields.take(',')) return true;
  if (has_value(fields) && !parse_signed(fields, &line->time_us)) return false;
  if (!fields.take(',')) return true;
  return !has_value(fields) || fields.hex(&line->context);
}

// Those of format 2, likewise.
bool parse_detail(Fields& fields, EventDetail* detail) {
  if (!fields.take(',')) return true;
  if (has_value(fields) && !parse_signed(fields, &detail->cost_ns)) return false;
  if (!fields.take(',')) return true;
  if (has_value(fields) && !fields.entry(&detail->entry)) return false;
  if (!fields.take(',')) return true;
  if (has_value(fields) && !fields.decimal(&detail->thread)) return false;
  if (!fields.take(',')) return true;
  if (has_value(fields) && !fields.hex(&detail->freed_on)) return false;
  if (!fields.take(',')) return true;
  if (has_value(fields) && !parse_signed(fields, &detail->wait_ns)) return false;
  if (!fields.take(',')) return true;
  return !has_value(fields) || fields.hex(&detail->driver_context);
}

bool is_in_format(Action action, int format) {
  return format >= 2 || static_cast<int>(action) < kActionCount;
}

// Puts fields behind each other.
class Writer {
 public:
  explicit Writer(char* out) : at_(out) {}

  char* at() const { return at_; }
  void put(char c) { *at_++ = c; }
  void hex(uint64_t value) {
    char* const end = at_ + (std::bit_width(value | 1) + 3) / 4;
    for (char* digit = end; digit != at_; value >>= 4) *--digit = "0123456789abcdef"[value & 0xf];
    at_ = end;
  }
  void decimal(uint64_t value) { at_ = std::to_chars(at_, at_ + 20, value).ptr; }
  void decimal_if_said(int64_t value) {
    if (value >= 0) decimal(static_cast<uint64_t>(value));
  }
  void drop_empty_fields() {
    while (at_[-1] == ',') at_--;
  }

 private:
  char* at_;
};

void write_pool(Writer& out, const PoolId& pool) {
  if (pool.is_default()) return;
  out.decimal(pool.first);
  out.put(':');
  out.decimal(pool.second);
}

// With empty fields for what it does not say.
void write_detail(Writer& out, const EventLine& line) {
  const EventDetail& detail = line.detail;
  out.put(',');
  out.decimal_if_said(detail.cost_ns);
  out.put(',');
  if (detail.entry != 0) out.put(detail.entry);
  out.put(',');
  if (detail.thread != 0) out.decimal(detail.thread);
  out.put(',');
  if (detail.freed_on != line.stream) out.hex(detail.freed_on);
  out.put(',');
  out.decimal_if_said(detail.wait_ns);
  out.put(',');
  if (detail.driver_context != 0) out.hex(detail.driver_context);
}

}  // namespace

EventLine line_of_entry(const TraceEntry& entry) {
  return {.action = entry.action,
          .address = entry.address,
          .size = entry.size,
          .stream = entry.stream,
          .device = static_cast<uint64_t>(entry.device),
          .pool = entry.pool,
          .time_us = entry.time_us,
          .context = entry.context,
          .detail = {.freed_on = entry.stream}};
}

const char* parse_event_line(const char* text, int format, EventLine* line) {
  Fields fields(text);
  line->device = 0;
  line->pool = {};
  line->time_us = -1;
  line->context = kNoContext;
  if (!fields.action(&line->action) || !fields.take(',') || !fields.hex(&line->address) ||
      !fields.take(',') || !fields.decimal(&line->size) || !fields.take(',') ||
      !fields.hex(&line->stream) || !parse_rest(fields, line) ||
      !is_in_format(line->action, format))
    return nullptr;
  if (format >= 2) {
    line->detail = {.freed_on = line->stream};
    if (!parse_detail(fields, &line->detail)) return nullptr;
  }
  return fields.take('\n') ? fields.at() : nullptr;
}

char* write_event_line(char* out, const EventLine& line) {
  Writer writer(out);
  writer.put(action_letter(line.action));
  writer.put(',');
  writer.hex(line.address);
  writer.put(',');
  writer.decimal(line.size);
  writer.put(',');
  writer.hex(line.stream);
  writer.put(',');
  writer.decimal(line.device);
  writer.put(',');
  write_pool(writer, line.pool);
  writer.put(',');
  writer.decimal_if_said(line.time_us);
  writer.put(',');
  if (line.context != kNoContext) writer.hex(line.context);
  write_detail(writer, line);
  writer.drop_empty_fields();
  writer.put('\n');
  CACHALOT_ASSERT(1, writer.at() <= out + kMaxEventLine);
  return writer.at();
}

void append_event_line(std::string* out, const EventLine& line) {
  std::array<char, kMaxEventLine> text;
  out->append(text.data(), write_event_line(text.data(), line));
}

char action_letter(Action action) {
  CACHALOT_ASSERT(1, static_cast<size_t>(action) < kLetters.size());
  return kLetters[static_cast<size_t>(action)];
}

}  // namespace cachalot
