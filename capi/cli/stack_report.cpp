// SPDX-License-Identifier: MIT OR Apache-2.0
#include "stack_report.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <unordered_map>

#include "numbers.h"
#include "symbols.h"

namespace cachalot::cli {
namespace {

// Requests with the same stack.
struct Place {
  uint64_t context = 0;
  uint64_t requests = 0;
  uint64_t blocks = 0;  // at the peak
  uint64_t bytes = 0;   // of them
};

bool is_block(const cachalot_trace_event& event) {
  return event.action == CACHALOT_ACTION_ALLOC || event.action == CACHALOT_ACTION_LIVE_AT_BEGIN;
}

// The blocks that are live behind the first `count` events, by address.
std::unordered_map<uint64_t, const cachalot_trace_event*> live_behind(
    const std::vector<cachalot_trace_event>& events, size_t count) {
  std::unordered_map<uint64_t, const cachalot_trace_event*> live;
  for (size_t i = 0; i < count; i++) {
    const cachalot_trace_event& event = events[i];
    if (is_block(event))
      live.insert_or_assign(event.address, &event);
    else if (event.action == CACHALOT_ACTION_FREE_REQUESTED)
      live.erase(event.address);
    else if (event.action == CACHALOT_ACTION_CONTEXT_END && event.address == 0)
      std::erase_if(live, [&](const auto& row) { return row.second->device == event.device; });
  }
  return live;
}

std::vector<Place> places_of(const std::vector<cachalot_trace_event>& events,
                             size_t events_to_peak) {
  std::map<uint64_t, Place> places;
  for (const cachalot_trace_event& event : events)
    if (is_block(event) && event.context != 0) places[event.context].requests++;
  for (const auto& [address, event] : live_behind(events, events_to_peak)) {
    Place& place = places[event->context];
    place.blocks++;
    place.bytes += event->size;
  }
  std::vector<Place> sorted;
  for (auto& [context, place] : places) {
    place.context = context;
    sorted.push_back(place);
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Place& a, const Place& b) { return a.bytes > b.bytes; });
  return sorted;
}

std::string place_text(const cachalot_trace_frame& frame) {
  const std::string path = frame.path;
  if (path.empty()) return hexadecimal(frame.address);
  return path.substr(path.find_last_of('/') + 1) + "+" + hexadecimal(frame.file_offset);
}

}  // namespace

std::vector<cachalot_trace_frame> stack_of(const cachalot_trace* trace, uint64_t context) {
  std::vector<cachalot_trace_frame> frames;
  cachalot_trace_frame frame{};
  frame.struct_size = sizeof frame;
  while (cachalot_trace_get_frame(trace, context, frames.size(), &frame) == CACHALOT_OK)
    frames.push_back(frame);
  return frames;
}

void add_codes(const std::vector<cachalot_trace_frame>& frames, std::set<CodePlace>* codes) {
  for (const cachalot_trace_frame& frame : frames)
    if (*frame.path != '\0') codes->emplace(frame.path, frame.file_offset);
}

std::string frame_text(const cachalot_trace_frame& frame,
                       const std::map<CodePlace, std::string>& names) {
  const auto found = names.find({frame.path, frame.file_offset});
  return found == names.end() ? place_text(frame) : found->second;
}

std::vector<PlaceText> places_behind(const cachalot_trace* trace,
                                     const std::vector<cachalot_trace_event>& events, size_t count,
                                     size_t most) {
  std::vector<Place> places = places_of(events, count);
  std::erase_if(places, [](const Place& place) { return place.blocks == 0; });
  places.resize(std::min(places.size(), most));
  std::vector<std::vector<cachalot_trace_frame>> stacks;
  std::set<CodePlace> codes;
  for (const Place& place : places) {
    stacks.push_back(stack_of(trace, place.context));
    add_codes(stacks.back(), &codes);
  }
  if (codes.empty()) return {};
  const auto names = names_of(codes);
  std::vector<PlaceText> texts;
  for (size_t i = 0; i < places.size(); i++) {
    PlaceText text{places[i].requests, places[i].blocks, places[i].bytes, {}};
    for (const cachalot_trace_frame& frame : stacks[i])
      text.frames.push_back(frame_text(frame, names));
    texts.push_back(std::move(text));
  }
  return texts;
}

void print_places(const cachalot_trace* trace, const std::vector<cachalot_trace_event>& events,
                  const RecordingSummary& summary, size_t most, std::FILE* out) {
  const auto places = places_behind(trace, events, summary.events_to_peak, most);
  if (places.empty()) {
    std::fprintf(out,
                 "\n  The recording has no stacks: `cachalot record --stacks 32` takes them.\n");
    return;
  }
  std::fprintf(out, "\n  Where the program asks for the blocks that it has at its peak:\n");
  for (const PlaceText& place : places) {
    std::fprintf(out, "\n    %s in %s blocks, of %s requests\n", mebibytes(place.bytes).c_str(),
                 grouped(place.blocks).c_str(), grouped(place.requests).c_str());
    for (const std::string& frame : place.frames) std::fprintf(out, "      %s\n", frame.c_str());
  }
}

}  // namespace cachalot::cli
