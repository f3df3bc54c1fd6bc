// SPDX-License-Identifier: MIT OR Apache-2.0
#include "pickle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "failure.h"
#include "numbers.h"

namespace cachalot::cli {
namespace {

using Kind = PickleValue::Kind;

// The numbers are Python's.
enum class Op : uint8_t {
  kMark = '(',
  kStop = '.',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinUnicode = 'X',
  kAppend = 'a',
  kEmptyDict = '}',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kEmptyList = ']',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kEmptyTuple = ')',
  kSetItems = 'u',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinBytes8 = 0x8e,
  kMemoize = 0x94,
  kFrame = 0x95,
};

struct RefusedOp {
  uint8_t code;
  const char* name;
};

// What makes objects, calls something or asks the reader for something.
constexpr std::array<RefusedOp, 19> kRefusedOps{{
    {'c', "GLOBAL"},
    {0x93, "STACK_GLOBAL"},
    {'R', "REDUCE"},
    {'b', "BUILD"},
    {'i', "INST"},
    {'o', "OBJ"},
    {0x81, "NEWOBJ"},
    {0x92, "NEWOBJ_EX"},
    {0x82, "EXT1"},
    {0x83, "EXT2"},
    {0x84, "EXT4"},
    {'P', "PERSID"},
    {'Q', "BINPERSID"},
    {0x8f, "EMPTY_SET"},
    {0x90, "ADDITEMS"},
    {0x91, "FROZENSET"},
    {0x96, "BYTEARRAY8"},
    {0x97, "NEXT_BUFFER"},
    {0x98, "READONLY_BUFFER"},
}};

std::string name_of_op(uint8_t code) {
  const auto* const found = std::find_if(kRefusedOps.begin(), kRefusedOps.end(),
                                         [&](const RefusedOp& op) { return op.code == code; });
  return found != kRefusedOps.end() ? found->name : "opcode " + hexadecimal(uint64_t{code});
}

// How many parts a pickle may have for its size. A snapshot has fewer: a reference to a value has two bytes at least,
// and a dictionary or a list is some twenty.
constexpr size_t kBytesPerItem = 2;
constexpr size_t kBytesPerContainer = 8;
constexpr size_t kBytesPerKept = 3;  // in the memo
constexpr size_t kAlwaysAllowed = 1024;

PickleValue number_value(uint64_t number) {
  PickleValue value{.kind = Kind::kInteger};
  value.number = number;
  return value;
}

PickleValue signed_value(int64_t number) {
  PickleValue value = number_value(static_cast<uint64_t>(number));
  if (number < 0) value.kind = Kind::kNegative;
  return value;
}

}  // namespace

std::optional<uint64_t> PickleValue::as_number() const {
  return kind == Kind::kInteger ? std::optional(number) : std::nullopt;
}

// What a pickle is a program for: a stack of values with marks, and a memo of values that come again.
class Pickle::Machine {
 public:
  explicit Machine(Pickle* pickle) : pickle_(*pickle), rest_(pickle->bytes_) {}

  PickleValue run() {
    if (take_number(1) != static_cast<uint8_t>(Op::kProto)) fail("not a pickle");
    read_protocol();
    while (step()) {
    }
    if (stack_.size() != 1 || !marks_.empty()) fail("STOP with more or less than one value");
    return stack_.back();
  }

 private:
  void require_less(size_t count, size_t bytes_each, const char* what) const {
    if (count >= kAlwaysAllowed + pickle_.bytes_.size() / bytes_each)
      fail(std::string("more ") + what + " than a snapshot has");
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Failure("byte " + grouped(uint64_t{op_at_}) + " of the pickle: " + what);
  }

  size_t position() const { return pickle_.bytes_.size() - rest_.size(); }

  std::string_view take(uint64_t count) {
    if (count > rest_.size()) fail("the pickle ends too early");
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  // Little-endian.
  uint64_t take_number(size_t bytes) { return little_endian(take(bytes)); }

  static uint64_t little_endian(std::string_view bytes) {
    uint64_t number = 0;
    for (size_t i = bytes.size(); i-- > 0;) number = number << 8 | static_cast<uint8_t>(bytes[i]);
    return number;
  }

  void read_protocol() {
    const uint64_t protocol = take_number(1);
    if (protocol < 2 || protocol > 5)
      fail("protocol " + std::to_string(protocol) + " is not known: 2 to 5 are");
  }

  // False: the end.
  bool step() {
    op_at_ = position();
    const auto code = static_cast<uint8_t>(take_number(1));
    const auto op = static_cast<Op>(code);
    if (op == Op::kStop) return false;
    if (!push_scalar(op) && !push_text(op) && !push_container(op) && !fill_container(op) &&
        !use_memo(op) && !pass_over(op))
      fail(name_of_op(code) + " is refused: a snapshot has plain values only");
    return true;
  }

  bool pass_over(Op op) {
    if (op == Op::kProto)
      read_protocol();
    else if (op == Op::kFrame)
      take_number(8);
    else
      return false;
    return true;
  }

  bool push_scalar(Op op) {
    if (op == Op::kNone)
      push({});
    else if (op == Op::kNewTrue || op == Op::kNewFalse)
      push_bool(op == Op::kNewTrue);
    else if (op == Op::kBinInt)
      push(signed_value(static_cast<int32_t>(take_number(4))));
    else if (op == Op::kBinInt1)
      push(number_value(take_number(1)));
    else if (op == Op::kBinInt2)
      push(number_value(take_number(2)));
    else if (op == Op::kLong1)
      push_long(take_number(1));
    else if (op == Op::kLong4)
      push_long(take_number(4));
    else if (op == Op::kBinFloat)
      push_real();
    else
      return false;
    return true;
  }

  void push_bool(bool is_true) {
    PickleValue value = number_value(is_true);
    value.kind = Kind::kBool;
    push(value);
  }

  // Two's complement, as short as it can be: a number from 2^63 on has a ninth byte for its sign.
  void push_long(uint64_t bytes) {
    const std::string_view digits = take(bytes);
    if (digits.size() == 9 && digits.back() == 0)
      return push(number_value(little_endian(digits.substr(0, 8))));
    if (digits.size() > 8) fail("an integer of " + grouped(bytes) + " bytes");
    uint64_t number = little_endian(digits);
    const bool is_negative = !digits.empty() && (digits.back() & 0x80) != 0;
    if (is_negative && digits.size() < 8) number |= ~uint64_t{0} << (8 * digits.size());
    push(signed_value(static_cast<int64_t>(number)));
  }

  void push_real() {
    uint64_t bits = 0;
    for (const char byte : take(8)) bits = bits << 8 | static_cast<uint8_t>(byte);
    PickleValue value{.kind = Kind::kReal};
    value.real = std::bit_cast<double>(bits);
    push(value);
  }

  bool push_text(Op op) {
    if (op == Op::kShortBinUnicode)
      push_bytes(Kind::kText, 1);
    else if (op == Op::kBinUnicode)
      push_bytes(Kind::kText, 4);
    else if (op == Op::kBinUnicode8)
      push_bytes(Kind::kText, 8);
    else if (op == Op::kShortBinBytes)
      push_bytes(Kind::kBytes, 1);
    else if (op == Op::kBinBytes)
      push_bytes(Kind::kBytes, 4);
    else if (op == Op::kBinBytes8)
      push_bytes(Kind::kBytes, 8);
    else
      return false;
    return true;
  }

  void push_bytes(Kind kind, size_t length_bytes) {
    const std::string_view text = take(take_number(length_bytes));
    if (text.size() > UINT32_MAX) fail("a text of more than 4 GiB");
    PickleValue value{.kind = kind, .length = static_cast<uint32_t>(text.size())};
    value.text = text.data();
    push(value);
  }

  bool push_container(Op op) {
    if (op == Op::kMark)
      push_mark();
    else if (op == Op::kEmptyDict)
      push_new(Kind::kDict, 0);
    else if (op == Op::kEmptyList)
      push_new(Kind::kList, 0);
    else if (op == Op::kEmptyTuple)
      push_new(Kind::kTuple, 0);
    else if (op == Op::kTuple1 || op == Op::kTuple2 || op == Op::kTuple3)
      push_new(Kind::kTuple, 1 + static_cast<size_t>(op) - static_cast<size_t>(Op::kTuple1));
    else if (op == Op::kTuple)
      push_new(Kind::kTuple, values_behind_mark());
    else
      return false;
    return true;
  }

  void push_mark() {
    require_less(marks_.size(), kBytesPerContainer, "marks");
    marks_.push_back(stack_.size());
  }

  // The last values of the stack move into it.
  void push_new(Kind kind, size_t count) {
    require_values(count);
    require_less(pickle_.containers_.size(), kBytesPerContainer, "lists");
    PickleValue value{.kind = kind};
    value.container = pickle_.containers_.size();
    pickle_.containers_.emplace_back(stack_.end() - static_cast<std::ptrdiff_t>(count),
                                     stack_.end());
    stack_.resize(stack_.size() - count);
    push(value);
  }

  bool fill_container(Op op) {
    if (op == Op::kAppend)
      fill(Kind::kList, 1);
    else if (op == Op::kAppends)
      fill(Kind::kList, values_behind_mark());
    else if (op == Op::kSetItem)
      fill(Kind::kDict, 2);
    else if (op == Op::kSetItems)
      fill(Kind::kDict, values_behind_mark());
    else
      return false;
    return true;
  }

  void fill(Kind kind, size_t count) {
    require_values(count + 1);
    if (kind == Kind::kDict && count % 2 != 0) fail("a key without a value");
    const auto first = stack_.end() - static_cast<std::ptrdiff_t>(count);
    const PickleValue& target = *(first - 1);
    if (target.kind != kind) fail("values for what holds none");
    items_ += count;
    require_less(items_, kBytesPerItem, "values");
    std::vector<PickleValue>& items = pickle_.containers_[target.container];
    items.insert(items.end(), first, stack_.end());
    stack_.resize(stack_.size() - count);
  }

  size_t values_behind_mark() {
    if (marks_.empty()) fail("no mark is left");
    const size_t count = stack_.size() - marks_.back();
    marks_.pop_back();
    return count;
  }

  // Above the last mark.
  void require_values(size_t count) const {
    const size_t bottom = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() - bottom < count) fail("a value is missing");
  }

  bool use_memo(Op op) {
    if (op == Op::kMemoize)
      keep(memo_.size());
    else if (op == Op::kBinPut)
      keep(take_number(1));
    else if (op == Op::kLongBinPut)
      keep(take_number(4));
    else if (op == Op::kBinGet)
      push_kept(take_number(1));
    else if (op == Op::kLongBinGet)
      push_kept(take_number(4));
    else
      return false;
    return true;
  }

  // Python counts them from 0 on.
  void keep(size_t index) {
    require_values(1);
    if (index > memo_.size()) fail("memo " + grouped(uint64_t{index}) + " comes before its turn");
    require_less(memo_.size(), kBytesPerKept, "values in its memo");
    if (index == memo_.size()) memo_.emplace_back();
    memo_[index] = stack_.back();
  }

  void push_kept(size_t index) {
    if (index >= memo_.size()) fail("memo " + grouped(uint64_t{index}) + " has no value");
    push(memo_[index]);
  }

  void push(const PickleValue& value) {
    require_less(stack_.size(), kBytesPerItem, "values at a time");
    stack_.push_back(value);
  }

  Pickle& pickle_;
  std::string_view rest_;
  size_t op_at_ = 0;
  std::vector<PickleValue> stack_;
  size_t items_ = 0;           // of all containers
  std::vector<size_t> marks_;  // how many values lie under each
  std::vector<PickleValue> memo_;
};

Pickle::Pickle(std::string bytes) : bytes_(std::move(bytes)) { root_ = Machine(this).run(); }

std::span<const PickleValue> Pickle::items(const PickleValue& value) const {
  if (!value.is_sequence() && !value.is_dict()) return {};
  return containers_[value.container];
}

}  // namespace cachalot::cli
