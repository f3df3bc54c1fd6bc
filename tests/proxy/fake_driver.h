// SPDX-License-Identifier: MIT OR Apache-2.0
// What tests ask of the fake driver, beside the driver's own functions. Found by name.
#pragma once

#include <cstdint>

// How often the driver's function has been called, by its exported name.
using fake_calls_form = uint64_t(const char* exported_name);
// The next call of the function gives the code and does nothing.
using fake_fail_form = void(const char* exported_name, int code);
// Where a call of the function begins, `act` is called once.
using fake_before_form = void(const char* exported_name, void (*act)());
// The device has work: a call that waits for it blocks until fake_finish.
using fake_start_work_form = void();
using fake_finish_work_form = void();
// Work one by one: its number, up to which work is finished, and how far that is.
using fake_queue_work_form = uint64_t();
using fake_finish_to_form = void(uint64_t number);
using fake_finished_form = uint64_t();
// A fault: events are done as soon as they are recorded.
using fake_let_events_be_early_form = void();
// What each pool says that it has reserved, and that is in use.
using fake_set_pool_form = void(uint64_t reserved, uint64_t used);
// The exported names of calls so far that waited for work, or gave memory back, with blanks between them.
using fake_order_form = const char*();
