// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/pages.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

namespace cachalot {
namespace {

TEST(Pages, AreDroppedWhereTheyAreWhollyInTheRange) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  char* const memory = static_cast<char*>(map_zero_pages(4 * page));
  std::fill(memory, memory + 4 * page, 'x');
  const auto is = [&](size_t number, char value) {
    return std::all_of(memory + number * page, memory + (number + 1) * page,
                       [&](char c) { return c == value; });
  };
  drop_pages(memory, page / 16);
  EXPECT_TRUE(is(0, 'x')) << "a part of a page";
  drop_pages(memory + page / 2, 2 * page);
  EXPECT_TRUE(is(0, 'x'));
  EXPECT_TRUE(is(1, 0));
  EXPECT_TRUE(is(2, 'x'));
  drop_pages(memory + 2 * page, 2 * page);
  EXPECT_TRUE(is(2, 0));
  EXPECT_TRUE(is(3, 0));
  unmap_pages(memory, 4 * page);
}

}  // namespace
}  // namespace cachalot
