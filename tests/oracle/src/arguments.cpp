// SPDX-License-Identifier: MIT OR Apache-2.0
#include "arguments.h"

namespace oracle {

std::string Arguments::word() {
  std::string word;
  in_ >> word;
  return word;
}

std::vector<std::string> Arguments::words() {
  std::vector<std::string> words;
  for (std::string word; in_ >> word;) words.push_back(word);
  return words;
}

std::string Arguments::rest() {
  std::string text;
  std::getline(in_ >> std::ws, text);
  return text;
}

uint64_t Arguments::hex() {
  uint64_t value = 0;
  in_ >> std::hex >> value >> std::dec;
  return value;
}

c10::MempoolId_t Arguments::pool() {
  const std::string name = word();
  if (name[0] == 'g') return {std::stoull(name.substr(1)), 0};
  return {0, std::stoull(name)};
}

}  // namespace oracle
