// SPDX-License-Identifier: MIT OR Apache-2.0
// `cachalot record --live`: what programs hold, served by HTTP while they run.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace cachalot::cli {

class Live {
 public:
  // address: "HOST:PORT"; port 0: any that is free. recordings: gives the paths of those that there are.
  // Throws Failure if the address cannot be had.
  Live(const std::string& address, std::function<std::vector<std::string>()> recordings);
  // Reads what the recordings still have.
  ~Live();
  Live(const Live&) = delete;
  Live& operator=(const Live&) = delete;

  // "http://127.0.0.1:9464"
  std::string url() const;
  // From now on requests are answered and failures of programs reported, on threads of its own.
  void start();

 private:
  class Watch;
  class Server;

  std::unique_ptr<Watch> watch_;
  std::unique_ptr<Server> server_;
};

}  // namespace cachalot::cli
