// SPDX-License-Identifier: MIT OR Apache-2.0
// Two models in one process, whose sessions alternate on requests of varying sizes: what that costs in memory and
// time, with one way to get memory. Prints one line of JSON; compare.py compares.
#include <pthread.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <iostream>
#include <latch>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "contender.h"
#include "memory.h"

namespace comparison {
namespace {

using Clock = std::chrono::steady_clock;

struct Arguments {
  std::string library;
  std::string models;
  Setting setting{"arena", "cpu", "", uint64_t{64} << 30};
  size_t requests = 300;
  uint64_t seed = 1;
  int clients = 1;
  int threads = 1;
  uint64_t budget = 0;  // bytes beyond the loaded models; 0: no limit
  std::string timeline;
};

struct Outcome {
  size_t served = 0;
  std::string failure;
  std::vector<double> milliseconds;
};

// What the clients share.
class Load {
 public:
  // The clients warm up and then wait for run(): there may be no memory for threads later.
  Load(const std::vector<Request>& requests, const Session& detection, const Session& recognition,
       int clients)
      : requests_(requests),
        detection_(detection),
        recognition_(recognition),
        milliseconds_(requests.size()),
        ready_(clients),
        start_(1) {
    for (int i = 0; i < clients; i++) threads_.emplace_back([this] { serve(); });
    ready_.wait();
  }

  void run() {
    start_.count_down();
    for (std::thread& thread : threads_) thread.join();
  }

  Outcome outcome() const {
    Outcome outcome{served_, failure_, {}};
    for (const double each : milliseconds_)
      if (each > 0) outcome.milliseconds.push_back(each);
    std::sort(outcome.milliseconds.begin(), outcome.milliseconds.end());
    return outcome;
  }

 private:
  void serve() {
    std::vector<float> pixels(3 * kLargestSide * kLargestSide, 0.5f);
    warm_up(pixels);
    ready_.count_down();
    start_.wait();
    for (size_t i = next_++; i < requests_.size() && !has_failed_; i = next_++) {
      const auto begin = Clock::now();
      if (!try_to_run(requests_[i], pixels)) return;
      milliseconds_[i] = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
      served_++;
    }
  }

  // What ORT and CUDA load and make for a thread with its first run is no memory of those that are compared.
  void warm_up(std::vector<float>& pixels) { try_to_run({{32, 32}, {{kLineHeight, 32}}}, pixels); }

  bool try_to_run(const Request& request, std::vector<float>& pixels) {
    try {
      detection_.run(request.image, pixels);
      for (const Shape line : request.lines) recognition_.run(line, pixels);
      return true;
    } catch (const std::exception& refused) {
      if (!has_failed_.exchange(true)) failure_ = refused.what();
      return false;
    }
  }

  const std::vector<Request>& requests_;
  const Session& detection_;
  const Session& recognition_;
  std::vector<double> milliseconds_;
  std::atomic<size_t> next_{0};
  std::atomic<size_t> served_{0};
  std::atomic<bool> has_failed_{false};
  std::string failure_;
  std::latch ready_;
  std::latch start_;
  std::vector<std::thread> threads_;
};

double percentile(const std::vector<double>& sorted, double part) {
  if (sorted.empty()) return 0;
  return sorted[std::min(sorted.size() - 1,
                         static_cast<size_t>(part * static_cast<double>(sorted.size())))];
}

void write_timeline(const std::string& path, const Sampler& sampler) {
  if (path.empty()) return;
  std::ofstream file(path);
  file << "seconds,bytes\n";
  for (const Sampler::Sample& each : sampler.samples())
    file << each.seconds << ',' << each.bytes << '\n';
}

// ORT starts a thread of its own now and then, and ends the process if there is no memory for its stack: a small one
// is there nearly always.
void make_stacks_small() {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 512 << 10);
  pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
}

nlohmann::json measure(const Arguments& arguments) {
  make_stacks_small();
  load_runtime(arguments.library);
  const std::unique_ptr<Memory> memory = make_memory(arguments.setting.provider);
  const std::unique_ptr<Contender> contender = make_contender(arguments.setting);
  const Environment environment;
  SessionOptions options;
  options.provider = arguments.setting.provider;
  options.threads = arguments.threads;
  // Shapes are ever new: the search that is the default would take seconds for each.
  if (options.provider == "cuda") options.cuda.emplace_back("cudnn_conv_algo_search", "HEURISTIC");
  contender->begin(environment, options);
  const std::vector<Request> requests = make_sequence(arguments.requests, arguments.seed);
  nlohmann::json result;
  {
    const Session detection(environment, arguments.models + "/detection.onnx", options);
    const Session recognition(environment, arguments.models + "/recognition.onnx", options);
    Load load(requests, detection, recognition, arguments.clients);
    contender->idle();
    Sampler sampler(*memory);
    if (arguments.budget > 0) memory->limit(arguments.budget);
    sampler.begin();
    load.run();
    const double busy = sampler.seconds();
    const uint64_t after = memory->used();
    const std::optional<int64_t> allocations = contender->driver_allocations();
    contender->idle();
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    const uint64_t idle = memory->used();
    sampler.stop();
    write_timeline(arguments.timeline, sampler);
    const Outcome outcome = load.outcome();
    const uint64_t base = sampler.base();
    const auto beyond = [base](uint64_t bytes) { return bytes > base ? bytes - base : 0; };
    result = {{"contender", arguments.setting.contender},
              {"options", arguments.setting.options},
              {"served", outcome.served},
              {"failure", outcome.failure},
              {"peak", sampler.peak()},
              {"after", beyond(after)},
              {"idle", beyond(idle)},
              {"driver_allocations", nullptr},
              {"seconds", busy},
              {"p50_ms", percentile(outcome.milliseconds, 0.5)},
              {"p99_ms", percentile(outcome.milliseconds, 0.99)}};
    if (allocations) result["driver_allocations"] = *allocations;
  }
  contender->end();
  return result;
}

}  // namespace
}  // namespace comparison

int main(int argc, char** argv) {
  comparison::Arguments arguments;
  CLI::App app("Two ONNX models that alternate, with one way to get memory.");
  app.add_option("--library", arguments.library, "libonnxruntime.so")->required();
  app.add_option("--models", arguments.models,
                 "the folder with detection.onnx and recognition.onnx")
      ->required();
  app.add_option("--contender", arguments.setting.contender, "where memory comes from")
      ->check(CLI::IsMember(comparison::contender_names()));
  app.add_option("--provider", arguments.setting.provider, "cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--options", arguments.setting.options, "cachalot's option string");
  app.add_option("--requests", arguments.requests, "how many");
  app.add_option("--seed", arguments.seed, "of the requests' sizes");
  app.add_option("--clients", arguments.clients, "requests at a time");
  app.add_option("--threads", arguments.threads, "threads of a run");
  app.add_option("--budget", arguments.budget,
                 "bytes beyond the loaded models; stops at the first failure")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--host-capacity", arguments.setting.host_capacity,
                 "bytes of cachalot's host driver, the loaded models included [64 GiB]")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--timeline", arguments.timeline, "a file for memory over time (CSV)");
  CLI11_PARSE(app, argc, argv);
  try {
    std::cout << comparison::measure(arguments).dump() << std::endl;
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "comparison: " << error.what() << '\n';
    return 2;
  }
}
