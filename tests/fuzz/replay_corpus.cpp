// SPDX-License-Identifier: MIT OR Apache-2.0
// Feeds a fuzzer the files of folders, without a fuzzer's runtime: what was found once is a test
// for every compiler and sanitizer.
//
//   cachalot_fuzz_NAME_corpus FOLDER...
//
// Exit status: 0, or the process is aborted; 2 where a folder is missing or empty.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int count, char** words) {
  size_t files = 0;
  for (int i = 1; i < count; i++) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(words[i], error)) {
      std::ifstream in(entry.path(), std::ios::binary);
      const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
      std::fprintf(stderr, "%s\n", entry.path().c_str());
      LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
      files++;
    }
  }
  std::printf("%zu files\n", files);
  return files > 0 ? 0 : 2;
}
