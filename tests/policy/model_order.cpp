// SPDX-License-Identifier: MIT OR Apache-2.0
// Who waits for whom [policy P4, P9, P10], and frees that wait for other streams [core 12, 18].
#include <algorithm>

#include "model.h"

namespace cachalot::policy_model {
namespace {

// Whether there was such a wait at the stamp's time or later.
template <class Waits>
bool reaches(const Waits& waits, const typename Waits::key_type& key, uint64_t stamp) {
  const auto wait = waits.find(key);
  return wait != waits.end() && wait->second >= stamp;
}

}  // namespace

// ---- Waits

// Whether a wait of the host covers the stamp.
bool Model::is_finished(Stream stream, uint64_t stamp) const {
  return reaches(finished_, stream, stamp) || reaches(finished_, kAllStreams, stamp);
}

bool Model::covers(Stream stream, Stream other, uint64_t stamp) const {
  if (is_finished(other, stamp)) return true;
  return !is(Fault::kWaitsAgain) && (reaches(waited_, std::pair(stream, other), stamp) ||
                                     reaches(waited_, std::pair(stream, kAllStreams), stamp));
}

// The handle of a stream whose end is not announced may be gone, so the wait is for all.
Stream Model::covered_by_wait_for(Stream stream) const {
  return options_.announces_streams ? stream : kAllStreams;
}

// For the range's own stream first. Within a capture nothing that is handed out needs a wait.
void Model::wait_in_stream(const Block& block, Stream stream, Stream own) {
  if (may_be_capturing() || is(Fault::kNoWait)) return;
  for (const bool is_own : {true, false}) {
    for (const auto& [other, stamp] : block.stamps) {
      if ((other == own) != is_own || other == stream) continue;
      if (!covers(stream, other, stamp)) wait_for(stream, other);
    }
  }
}

void Model::wait_for(Stream stream, Stream other) {
  if (stream == kAllStreams || queue_wait(stream, other) != kSuccess) return finish(other);
  waited_[{stream, is(Fault::kCoversOne) ? other : covered_by_wait_for(other)}] = clock_++;
  numbers_.policy.stream_waits++;
}

DriverCode Model::queue_wait(Stream stream, Stream other) {
  if (const DriverCode code = make_event(&wait_event_)) return code;
  const DriverCode code = options_.announces_streams ? driver_.event_record(0, *wait_event_, other)
                                                     : driver_.event_record_all(0, *wait_event_);
  if (code != kSuccess) return code;
  return driver_.stream_wait_event(0, stream, *wait_event_);
}

DriverCode Model::make_event(std::optional<uint64_t>* event) {
  if (*event) return kSuccess;
  uint64_t made = 0;
  const DriverCode code = driver_.event_create(0, &made);
  if (code == kSuccess) *event = made;
  return code;
}

// An event of all streams that is done is like a wait of the host. False: the driver cannot tell.
bool Model::look_at_progress() {
  if (!query_progress()) return false;
  if (progress_clock_) return true;
  if (make_event(&progress_event_) || driver_.event_record_all(0, *progress_event_)) return false;
  progress_clock_ = clock_++;
  return query_progress();
}

bool Model::query_progress() {
  if (!progress_clock_) return true;
  const DriverCode code = driver_.event_query(0, *progress_event_);
  if (code == kNotReady) return true;
  if (code == kSuccess) finished_[kAllStreams] = std::max(finished_[kAllStreams], *progress_clock_);
  progress_clock_.reset();
  return code == kSuccess;
}

void Model::look_at_waiting_holes() {
  if (waiting_holes_.empty() || may_be_capturing() || is(Fault::kHolesWaitForever)) return;
  look_at_progress();
  const auto all = finished_.find(kAllStreams);
  end_waiting_holes(all == finished_.end() ? 0 : all->second, {});
}

// False: none waits.
bool Model::wait_for_waiting_holes() {
  if (waiting_holes_.empty() || may_be_capturing()) return false;
  synchronize_device();
  finished_[kAllStreams] = clock_++;
  numbers_.policy.host_waits++;
  end_waiting_holes(finished_[kAllStreams], {});
  return true;
}

bool Model::is_finished(const Block& block) const {
  return is(Fault::kUnmapsTooEarly) ||
         std::all_of(block.stamps.begin(), block.stamps.end(),
                     [&](const auto& stamp) { return is_finished(stamp.first, stamp.second); });
}

void Model::require(DriverCode code) {
  if (code != kSuccess) throw Failure{Status::kDriver, code};
}

// Before pages leave a cached block. Other streams have no work on it any more.
void Model::wait_on_host(Address address) {
  if (is(Fault::kNoHostWait)) return;
  const Stream own = range_at(address).stream;
  Stamps& stamps = block_at(address).stamps;
  for (const bool is_own : {true, false}) {
    for (const auto& [stream, stamp] : stamps) {
      if ((stream == own) == is_own && !is_finished(stream, stamp)) finish(stream);
    }
  }
  std::erase_if(stamps, [&](const auto& stamp) { return stamp.first != own; });
}

void Model::finish(Stream stream) {
  options_.announces_streams ? synchronize(stream) : synchronize_device();
  finished_[covered_by_wait_for(stream)] = clock_++;
  numbers_.policy.host_waits++;
}

// The same before pages go back, but no wait is noted.
void Model::wait_before_release(Address address) {
  const Stream own = range_at(address).stream;
  Stamps& stamps = block_at(address).stamps;
  bool is_device_idle = false;
  for (const bool is_own : {true, false}) {
    for (const auto& [stream, stamp] : stamps) {
      if ((stream == own) != is_own || is_finished(stream, stamp) || is_device_idle) continue;
      options_.announces_streams ? synchronize(stream) : synchronize_device();
      is_device_idle = !options_.announces_streams;
    }
  }
  std::erase_if(stamps, [&](const auto& stamp) { return stamp.first != own; });
}

// Where the driver refuses, for the whole device.
void Model::synchronize(Stream stream) {
  if (driver_.stream_synchronize(0, stream) != kSuccess) synchronize_device();
}

void Model::synchronize_device() { require(driver_.device_synchronize(0)); }

// Nothing of the stream has to be waited for any more [policy P14].
void Model::stream_ended(Stream stream) {
  if (may_be_capturing()) throw Failure{Status::kInvalidState};
  synchronize(stream);
  for (Range& range : ranges_) {
    for (Block& block : range.blocks) {
      if (block.has_user() && block.user == stream) {
        block.has_ended = true;
        block.user = range.stream;
      }
      block.stamps.erase(stream);
      if (!is(Fault::kUseOfEnded))
        std::erase_if(block.uses, [&](const Use& use) { return use.stream == stream; });
    }
  }
  std::erase_if(waited_, [&](const auto& wait) {
    return wait.first.first == stream || wait.first.second == stream;
  });
  finished_.erase(stream);
  for (Range& range : ranges_) range.has_stream_ended |= range.stream == stream;
  give_back_empty_ranges([&](const Range& range) { return range.stream == stream; });
}

// ---- Frees that wait

void Model::begin_waiting(Address address, bool is_captured) {
  block_at(address).state = State::kWaiting;
  if (is_captured) {
    deferred_.push_back(address);
  } else {
    record_events(address);
  }
}

// The order of PyTorch's hash table, which no rule of the policy tells.
void Model::order_uses(std::vector<Use>& uses) {
  HashOrder<size_t> order;
  for (size_t i = 0; i < uses.size(); i++) order.insert(i, uint64_t{1} << 56 | uses[i].stream);
  std::vector<Use> ordered;
  for (const size_t i : order.keys()) ordered.push_back(uses[i]);
  uses.swap(ordered);
}

// A refused event defers the free, with the uses that have none yet.
void Model::record_events(Address address) {
  Block& block = block_at(address);
  order_uses(block.uses);
  while (!block.uses.empty()) {
    const Stream stream = block.uses.front().stream;
    DriverCode code = kSuccess;
    if (spare_events_.empty()) {
      uint64_t made = 0;
      code = driver_.event_create(0, &made);
      if (code == kSuccess) spare_events_.push_back(made);
    }
    if (code == kSuccess) code = driver_.event_record(0, spare_events_.back(), stream);
    if (code != kSuccess) {
      deferred_.push_back(address);
      throw Failure{Status::kDriver, code};
    }
    events_.push_back({spare_events_.back(), stream, address});
    spare_events_.pop_back();
    block.uses.erase(block.uses.begin());
    block.events++;
  }
}

void Model::flush_deferred(std::optional<PoolId> pool) {
  for (size_t i = 0; i < deferred_.size();) {
    const Address address = deferred_[i];
    if (pool && range_at(address).pool != *pool) {
      i++;
      continue;
    }
    deferred_.erase(deferred_.begin() + static_cast<std::ptrdiff_t>(i));
    Block& block = block_at(address);
    std::erase_if(block.uses, [](const Use& use) { return use.is_captured; });
    if (!block.uses.empty()) {
      record_events(address);
    } else if (block.events == 0) {
      complete(address);
    }
  }
}

// By streams; a stream's events come in their order, so the first that has not come ends the look.
void Model::look_at_events() {
  flush_deferred({});
  for (std::optional<Stream> stream = next_event_stream({}); stream;
       stream = next_event_stream(stream)) {
    while (const auto index = first_event_of(*stream)) {
      const DriverCode code = driver_.event_query(0, events_[*index].event);
      if (code == kNotReady) break;
      require(code);
      finish_event(*index);
    }
  }
}

void Model::wait_for_events(std::optional<PoolId> pool) {
  flush_deferred({});
  for (std::optional<Stream> stream = next_event_stream({}); stream;
       stream = next_event_stream(stream)) {
    for (size_t i = 0; i < events_.size();) {
      const bool is_meant =
          events_[i].stream == *stream && (!pool || range_at(events_[i].block).pool == *pool);
      if (!is_meant) {
        i++;
        continue;
      }
      require(driver_.event_synchronize(0, events_[i].event));
      finish_event(i);
    }
  }
}

// The lowest stream above this one that has an event.
std::optional<Stream> Model::next_event_stream(std::optional<Stream> above) const {
  std::optional<Stream> next;
  for (const Event& event : events_)
    if ((!above || event.stream > *above) && (!next || event.stream < *next)) next = event.stream;
  return next;
}

std::optional<size_t> Model::first_event_of(Stream stream) const {
  for (size_t i = 0; i < events_.size(); i++)
    if (events_[i].stream == stream) return i;
  return {};
}

void Model::finish_event(size_t index) {
  const Event event = events_[index];
  events_.erase(events_.begin() + static_cast<std::ptrdiff_t>(index));
  spare_events_.push_back(event.event);
  Block& block = block_at(event.block);
  if (--block.events == 0 && block.uses.empty()) complete(event.block);
}

}  // namespace cachalot::policy_model
