// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/trace/contexts.h"

#include <execinfo.h>

#include <array>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "alloc/trace/frame_texts.h"
#include "alloc/trace/loaded_code.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/mutex.h"

namespace cachalot {

namespace {

// ---- The calling thread's labels and metadata

using Text = std::shared_ptr<const std::string>;

// Owns what one thread has said. Only this thread reads and writes it, so there is no lock.
struct ThreadTexts {
  std::vector<Text> labels;  // each with those before it
  Text metadata;
};

// Other thread_local objects may still ask while a thread ends. A pointer and a flag have no
// destructor, so they can be read at any time; an object behind them could not.
thread_local ThreadTexts* thread_texts = nullptr;
thread_local bool has_ended = false;

struct ThreadEnd {
  ~ThreadEnd() {
    has_ended = true;
    delete std::exchange(thread_texts, nullptr);
  }
};

// Never made nor destroyed: it may be asked for until the process ends.
union NoText {
  Text text;
  constexpr NoText() : text() {}
  ~NoText() {}  // NOLINT(modernize-use-equals-default): that of a union would be deleted
};
constinit const NoText kNoText;

// Null when the thread is about to end.
ThreadTexts* make_thread_texts() {
  if (!thread_texts && !has_ended) {
    thread_local ThreadEnd end;
    thread_texts = new ThreadTexts;
  }
  return thread_texts;
}

// ---- Values that are kept once and known by a number

// A number that was given stays good, so that a history never shows the wrong context.
constexpr size_t kMostStacks = 1000000;
constexpr size_t kMostLabels = 100000;

// No more than `most`: all others are `other`.
template <typename Value, typename Hash>
class Interned {
 public:
  Interned(size_t most, Value other) : most_(most), other_(std::move(other)) {}

  ContextId id_of(const Value& value) {
    std::lock_guard lock(mutex_);
    const bool is_full = values_.size() >= most_ && !ids_.contains(value);
    const auto [place, is_new] = ids_.try_emplace(is_full ? other_ : value, values_.size() + 1);
    if (is_new) values_.push_back(&place->first);
    CACHALOT_ASSERT(1, values_.size() == ids_.size() && values_.size() <= most_ + 1);
    CACHALOT_ASSERT(1, place->second != kNoContext);
    return place->second;
  }

  // An empty value for a number that was not given.
  Value value_of(ContextId id) const {
    std::lock_guard lock(mutex_);
    return id - 1 < values_.size() ? *values_[id - 1] : Value{};
  }

 private:
  const size_t most_;
  const Value other_;
  mutable Mutex mutex_{LockRank::kContexts};
  std::unordered_map<Value, ContextId, Hash> ids_;
  std::deque<const Value*> values_;  // by number - 1; the map's keys do not move
};

// ---- Native stacks

using Stack = std::vector<void*>;  // return addresses, innermost first

// Deeper stacks lose their outermost frames.
constexpr size_t kMaxFrames = 128;

struct StackHash {
  size_t operator()(const Stack& stack) const {
    size_t hash = stack.size();
    for (void* const address : stack)
      hash = (hash ^ reinterpret_cast<uintptr_t>(address)) * 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 32);
  }
};

// Its address is inside the code of this library, whichever file that was linked into.
void any_own_function() {}

// If our code is part of the program, our frames cannot be told from the caller's: then nothing is.
LoadedCode own_library() {
  const LoadedCode code = loaded_code_at(reinterpret_cast<uintptr_t>(&any_own_function));
  return code.is_program ? LoadedCode{} : code;
}

// The part of the calling thread's stack that is not in the library.
[[gnu::noinline]] Stack caller_stack(const LoadedCode& own) {
  std::array<void*, kMaxFrames> frames;
  const auto count = static_cast<size_t>(backtrace(frames.data(), static_cast<int>(frames.size())));
  size_t first = count > 0 ? 1 : 0;  // this function
  while (first < count && own.contains(reinterpret_cast<uintptr_t>(frames[first]))) ++first;
  CACHALOT_ASSERT(1, first <= count && count <= frames.size());
  return Stack(frames.begin() + first, frames.begin() + count);
}

std::string describe_stack(const Stack& stack, FrameTexts& texts) {
  std::string text;
  for (const void* const frame : stack) text += (text.empty() ? "" : "\n") + texts.text_of(frame);
  return text;
}

// "model-a/kv-cache" as "kv-cache", "model-a".
std::string describe_labels(std::string labels) {
  std::string text;
  for (size_t slash = labels.rfind('/'); slash != std::string::npos; slash = labels.rfind('/')) {
    text += labels.substr(slash + 1) + "\n";
    labels.resize(slash);
  }
  return text + labels;
}

}  // namespace

// The source owns the stacks; functions of the source share them.
ContextSource stack_contexts() {
  const auto stacks = std::make_shared<Interned<Stack, StackHash>>(kMostStacks, Stack{});
  const auto texts = std::make_shared<FrameTexts>();
  // Once a source, since a walk over all objects takes a lock of the loader.
  const LoadedCode own = own_library();
  return {[stacks, own] { return stacks->id_of(caller_stack(own)); },
          [stacks, texts](ContextId id) { return describe_stack(stacks->value_of(id), *texts); }};
}

ContextSource label_contexts() {
  const auto texts =
      std::make_shared<Interned<std::string, std::hash<std::string>>>(kMostLabels, "(other)");
  const auto capture = [texts] {
    const Text& labels = current_labels();
    return labels ? texts->id_of(*labels) : kNoContext;
  };
  return {capture, [texts](ContextId id) { return describe_labels(texts->value_of(id)); }};
}

void push_label(const std::string& label) {
  if (label.empty()) throw_invalid_argument("A label must not be empty");
  ThreadTexts* texts = make_thread_texts();
  if (!texts) return;
  std::vector<Text>& labels = texts->labels;
  labels.push_back(
      std::make_shared<const std::string>(labels.empty() ? label : *labels.back() + "/" + label));
}

// A thread that is about to end has no labels left.
bool pop_label() {
  if (!thread_texts || thread_texts->labels.empty()) return false;
  thread_texts->labels.pop_back();
  return true;
}

const Text& current_labels() {
  return thread_texts && !thread_texts->labels.empty() ? thread_texts->labels.back() : kNoText.text;
}

void set_metadata(const char* text) {
  ThreadTexts* texts = make_thread_texts();
  if (!texts) return;
  const bool is_empty = !text || !*text;
  texts->metadata = is_empty ? nullptr : std::make_shared<const std::string>(text);
}

const Text& current_metadata() { return thread_texts ? thread_texts->metadata : kNoText.text; }

}  // namespace cachalot
