// SPDX-License-Identifier: MIT OR Apache-2.0
// A libcuda.so.1 for machines without a GPU: keeps accounts like a real one, checks that the right
// context is current, and lets any call fail.
#pragma once

#include <cstdint>
#include <string>

namespace fake_cuda {

// As new: CUDA 13.0, one device with everything, no failures.
void reset();

void set_version(int version);
void set_device_count(int count);
// The devices are instances of divided GPUs (MIG).
void divide();
// Of all devices: an attribute by its number in cuda.h.
void set_attribute(int attribute, int value);
// cuGetProcAddress does not know it, or not in the form of that version or later.
void hide(const std::string& function, int from_version = 0);
// After so many calls that work, one call gives the code; 0 takes the order back.
void fail(const std::string& function, int code, uint64_t after = 0);
// From now on every call gives the code, as after a lost context; 0: ends.
void fail_always(int code);

uint64_t calls(const std::string& function);
// What is still there, in words; empty if nothing is.
std::string leftovers();
// The retained primary contexts of a device.
int context_references(int device);
void* current_context();
void set_current_context(void* context);
void* primary_context(int device);
// Work on a stream stays unfinished until it is synchronized.
void hold_work(bool hold);
// The stream that the last recorded event was recorded on.
uint64_t last_recorded_stream();
// The stream is captured, behind so many nodes; not any more: -1.
void capture(uint64_t stream, int nodes);
int capture_mode();
uint8_t byte_at(uint64_t address);

}  // namespace fake_cuda
