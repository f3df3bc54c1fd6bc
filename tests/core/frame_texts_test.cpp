// SPDX-License-Identifier: MIT OR Apache-2.0
// What frames of compiled code look like is shown by tests/process/frames_test.cpp.
#include "alloc/trace/frame_texts.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

namespace cachalot {
namespace {

[[gnu::noinline]] void some_function() { asm volatile(""); }

// As if the first byte of the function were a call.
const void* behind_first_byte(const void* function) {
  return static_cast<const char*>(function) + 1;
}

// Of the program, of the C library and of C++'s.
std::vector<const void*> some_addresses() {
  std::vector<const void*> addresses;
  for (const void* const function :
       {reinterpret_cast<const void*>(&some_function), reinterpret_cast<const void*>(&std::puts),
        reinterpret_cast<const void*>(&std::set_terminate),
        reinterpret_cast<const void*>(&std::qsort)})
    addresses.push_back(behind_first_byte(function));
  return addresses;
}

std::vector<std::string> texts_of(FrameTexts& texts) {
  std::vector<std::string> all;
  for (const void* const address : some_addresses()) all.push_back(texts.text_of(address));
  return all;
}

TEST(FrameTexts, NameStaticFunctionsAndThoseOfLibraries) {
  FrameTexts texts;
  const std::vector<std::string> all = texts_of(texts);
  EXPECT_NE(all[0].find("some_function()"), std::string::npos) << all[0];
  EXPECT_NE(all[1].find("puts"), std::string::npos) << all[1];
  EXPECT_NE(all[2].find("std::set_terminate("), std::string::npos) << all[2];
  EXPECT_NE(all[3].find("qsort"), std::string::npos) << all[3];
}

TEST(FrameTexts, AreTheSameWhateverIsKept) {
  FrameTexts usual;
  FrameTexts keeps_nothing(0, 0);
  FrameTexts keeps_files(0);
  const std::vector<std::string> expected = texts_of(usual);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(texts_of(usual), expected);
    EXPECT_EQ(texts_of(keeps_nothing), expected);
    EXPECT_EQ(texts_of(keeps_files), expected);
  }
}

TEST(FrameTexts, ShowTheAddressThatIsInNoFile) {
  FrameTexts texts;
  EXPECT_EQ(texts.text_of(reinterpret_cast<const void*>(0x11)), "?? (0x10)");
  EXPECT_EQ(texts.text_of(nullptr), "?? (0xffffffffffffffff)");
  const std::vector<char> memory(64);
  EXPECT_TRUE(texts.text_of(memory.data()).starts_with("?? (0x"));
}

}  // namespace
}  // namespace cachalot
