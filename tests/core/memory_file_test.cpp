// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/memory_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "base/units.h"
#include "device/host_memory.h"

namespace cachalot {
namespace {

char& byte_at(Address address) { return *reinterpret_cast<char*>(address); }

TEST(MemoryFile, IsTheSameMemoryForWhoeverOpensIt) {
  const MemoryFile file = MemoryFile::create(MiB);
  const MemoryFile opened = MemoryFile::open(file.handle());
  ASSERT_TRUE(opened.is_open());
  EXPECT_EQ(opened.size(), MiB);
  const Address first = file.map(0, PROT_READ | PROT_WRITE);
  const Address second = opened.map(0, PROT_READ | PROT_WRITE);
  byte_at(first + MiB - 1) = 7;
  EXPECT_EQ(byte_at(second + MiB - 1), 7);
  munmap(&byte_at(first), MiB);
  munmap(&byte_at(second), MiB);
}

TEST(MemoryFile, OfAHandleIsNotWhatHasItsDescriptorNow) {
  ShareableHandle handle;
  int descriptor = -1;
  {
    const MemoryFile file = MemoryFile::create(MiB);
    handle = file.handle();
    std::memcpy(&descriptor, handle.bytes + 12, sizeof descriptor);
  }
  EXPECT_FALSE(MemoryFile::open(handle).is_open());
  const MemoryFile other = MemoryFile::create(MiB);
  std::memcpy(&descriptor, other.handle().bytes + 12, sizeof descriptor);
  EXPECT_FALSE(MemoryFile::open(handle).is_open()) << "it has descriptor " << descriptor;
  EXPECT_FALSE(MemoryFile::open(ShareableHandle{}).is_open());
}

TEST(MemoryFile, KeepsItsSize) {
  const MemoryFile file = MemoryFile::create(MiB);
  const int descriptor = file.new_descriptor();
  EXPECT_NE(ftruncate(descriptor, 1), 0);
  EXPECT_NE(ftruncate(descriptor, 2 * MiB), 0);
  close(descriptor);
  EXPECT_FALSE(MemoryFile::create(UINT64_MAX).is_open());
}

TEST(MemoryFile, IsNoneThatOthersCanShrink) {
  const int descriptor = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(descriptor, MiB), 0);
  EXPECT_FALSE(MemoryFile::duplicate(descriptor).is_open());
  close(descriptor);
  EXPECT_FALSE(MemoryFile::duplicate(STDIN_FILENO).is_open());
  EXPECT_FALSE(MemoryFile::duplicate(-1).is_open());
}

TEST(SharedHostMemory, CountsWhereItWasMade) {
  HostMemory here(MiB, true);
  HostMemory there(MiB, true);
  Address block = 0;
  ASSERT_EQ(here.allocate(MiB, &block), kSuccess);
  ShareableHandle handle;
  ASSERT_EQ(here.get_handle(block, &handle), kSuccess);
  Address opened = 0;
  ASSERT_EQ(there.open(handle, &opened), kSuccess);
  EXPECT_EQ(there.used_bytes(), 0u);
  EXPECT_NE(there.free(opened), kSuccess);
  EXPECT_NE(here.close(block), kSuccess);
  byte_at(opened) = 5;
  EXPECT_EQ(byte_at(block), 5);
  EXPECT_EQ(here.free(block), kSuccess);
  EXPECT_EQ(byte_at(opened), 5);
  EXPECT_EQ(there.close(opened), kSuccess);
  EXPECT_EQ(here.used_bytes(), 0u);
}

TEST(SharedHostMemory, KeepsAPageForWhoeverHasImportedIt) {
  HostMemory here(MiB, true);
  HostMemory there(MiB, true);
  constexpr uint64_t kSize = HostMemory::kGranularity;
  const auto place = [](HostMemory& memory, uint64_t handle) {
    Address address = 0;
    EXPECT_EQ(memory.reserve(kSize, &address), kSuccess);
    EXPECT_EQ(memory.map(address, kSize, handle), kSuccess);
    EXPECT_EQ(memory.set_access(address, kSize), kSuccess);
    return address;
  };
  uint64_t page = 0;
  uint64_t imported = 0;
  ASSERT_EQ(here.create(kSize, &page), kSuccess);
  const Address first = place(here, page);
  byte_at(first) = 9;
  ShareableHandle handle;
  ASSERT_EQ(here.export_page(page, &handle), kSuccess);
  ASSERT_EQ(there.import_page(handle, &imported), kSuccess);
  close(handle.descriptor());
  const Address second = place(there, imported);
  EXPECT_EQ(here.unmap(first, kSize), kSuccess);
  EXPECT_EQ(here.release(page), kSuccess);
  EXPECT_EQ(here.used_bytes() + there.used_bytes(), 0u);
  EXPECT_EQ(byte_at(second), 9);
  EXPECT_EQ(there.unmap(second, kSize), kSuccess);
  EXPECT_EQ(there.release(imported), kSuccess);
}

TEST(SharedHostMemory, HasNoHandlesWhereMemoryIsTheProcessesOwn) {
  HostMemory memory(MiB);
  Address block = 0;
  uint64_t page = 0;
  ShareableHandle handle;
  ASSERT_EQ(memory.allocate(1000, &block), kSuccess);
  ASSERT_EQ(memory.create(HostMemory::kGranularity, &page), kSuccess);
  EXPECT_EQ(memory.get_handle(block, &handle), kDriverNotSupported);
  EXPECT_EQ(memory.export_page(page, &handle), kDriverNotSupported);
  EXPECT_EQ(memory.open(handle, &block), kDriverNotSupported);
  EXPECT_EQ(memory.import_page(handle, &page), kDriverNotSupported);
  EXPECT_EQ(memory.free(block), kSuccess);
}

}  // namespace
}  // namespace cachalot
