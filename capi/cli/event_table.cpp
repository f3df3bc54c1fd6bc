// SPDX-License-Identifier: MIT OR Apache-2.0
#include "event_table.h"

#include <string>

#include "held_memory.h"
#include "numbers.h"
#include "recording.h"
#include "run.h"
#include "run_facts.h"

namespace cachalot::cli {
namespace {

std::string if_said(int64_t number) { return number >= 0 ? std::to_string(number) : ""; }
std::string if_not_zero(uint64_t number) { return number != 0 ? std::to_string(number) : ""; }

// The names say the units. held: behind the event, of its device.
std::string row_of(const cachalot_trace_event& event, const HeldMemory& held) {
  std::string row = if_said(event.time_us);
  const auto add = [&row](const std::string& value) { row += "," + value; };
  add(cachalot_action_name(event.action));
  add(std::to_string(event.device));
  add(hexadecimal(event.address));
  add(std::to_string(event.size));
  add(hexadecimal(event.stream));
  add(pair_text(event.pool));
  add(event.context != 0 ? hexadecimal(event.context) : "");
  add(if_said(event.cost_ns));
  add(if_said(event.wait_ns));
  add(event.entry != 0 ? std::string(1, static_cast<char>(event.entry)) : "");
  add(if_not_zero(event.thread));
  add(event.freed_on != event.stream ? hexadecimal(event.freed_on) : "");
  add(event.driver_context != 0 ? hexadecimal(event.driver_context) : "");
  add(std::to_string(held.requested));
  add(std::to_string(held.reserved));
  return row + "\n";
}

}  // namespace

void write_event_table(const cachalot_trace* trace, Output* output) {
  output->write(
      "time_us,action,device,address,size,stream,pool,context,cost_ns,wait_ns,entry,thread,freed_"
      "on,"
      "driver_context,held_requested,held_reserved\n");
  HeldMemories held;
  for_each_event(trace, [&](const cachalot_trace_event& event) {
    held.see(event);
    output->write(row_of(event, held.of(event.device)));
  });
}

}  // namespace cachalot::cli
