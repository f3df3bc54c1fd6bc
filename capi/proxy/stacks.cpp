// SPDX-License-Identifier: MIT OR Apache-2.0
#include "stacks.h"

#include <pthread.h>

#include <algorithm>
#include <string>

#include "hexadecimal.h"
#include "recording.h"
#include "unwinder/unwinder.h"

namespace cachalot::proxy {
namespace {

// What a thread needs for its walks.
struct Walker {
  cachalot_unwinder_cache* cache = cachalot_unwinder_cache_new();
  uint64_t stack_begin = 0;
  uint64_t stack_end = 0;

  Walker() {
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
    void* begin = nullptr;
    size_t size = 0;
    if (pthread_attr_getstack(&attributes, &begin, &size) == 0) {
      stack_begin = reinterpret_cast<uint64_t>(begin);
      stack_end = stack_begin + size;
    }
    pthread_attr_destroy(&attributes);
  }
  ~Walker() { cachalot_unwinder_cache_delete(cache); }
  Walker(const Walker&) = delete;
  Walker& operator=(const Walker&) = delete;
};

// The program's own stacks of coroutines have ends that nobody knows.
bool is_on_stack(const Walker& walker, uint64_t address) {
  return walker.stack_begin <= address && address < walker.stack_end;
}

ContextId number_of(const uint64_t* frames, size_t count) {
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t i = 0; i < count; i++) {
    hash = (hash ^ frames[i]) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  }
  return hash == kNoContext ? 1 : hash;
}

}  // namespace

Stacks::Stacks(size_t frames, Recording* recording)
    : frames_(std::min(frames, kMostFrames)),
      recording_(recording),
      code_([this](const CodeFile& file) { write(file); }) {}

ContextId Stacks::of_this_thread() {
  if (frames_ == 0) return kNoContext;
  std::array<uint64_t, kMostFrames> frames;
  const size_t all = walk(&frames);
  // The first ones are the proxy's.
  const auto first = std::find_if(frames.begin(), frames.begin() + static_cast<ptrdiff_t>(all),
                                  [&](uint64_t frame) { return !code_.is_own(frame); });
  const auto skipped = static_cast<size_t>(first - frames.begin());
  const size_t count = std::min(all - skipped, frames_);
  if (count == 0) return kNoContext;
  const ContextId context = number_of(&frames[skipped], count);
  add(context, &frames[skipped], count);
  return context;
}

size_t Stacks::walk(std::array<uint64_t, kMostFrames>* frames) {
  thread_local Walker walker;
  uint64_t registers[3];
  asm volatile("lea 0(%%rip), %0\n\tmov %%rsp, %1\n\tmov %%rbp, %2"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]));
  if (!is_on_stack(walker, registers[1])) return 0;
  size_t count = 0;
  code_.with_modules([&](const cachalot_unwinder_modules* modules) {
    count = cachalot_unwinder_walk(modules, walker.cache, &registers, walker.stack_end,
                                   frames->data(), frames->size());
  });
  return count;
}

void Stacks::add(ContextId context, const uint64_t* frames, size_t count) {
  Shard& shard = shards_[context % shards_.size()];
  const std::lock_guard guard(shard.mutex);
  const auto [row, is_new] = shard.known.try_emplace(context);
  if (!is_new) return;
  for (size_t i = 0; i < count; i++) {
    if (i != 0) row->second += ';';
    append_hex(&row->second, frames[i]);
  }
  write(context, row->second);
}

void Stacks::write_all() {
  code_.tell_all();
  for (Shard& shard : shards_) {
    const std::lock_guard guard(shard.mutex);
    for (const auto& [context, frames] : shard.known) write(context, frames);
  }
}

void Stacks::write(ContextId context, const std::string& frames) {
  std::string line = "# stack ";
  append_hex(&line, context);
  recording_->append_comment(line + " " + frames + "\n");
}

void Stacks::write(const CodeFile& file) {
  std::string line = "# module ";
  for (const uint64_t number : {file.begin, file.end, file.offset}) {
    append_hex(&line, number);
    line += ' ';
  }
  recording_->append_comment(line + file.path + "\n");
}

}  // namespace cachalot::proxy
