// SPDX-License-Identifier: MIT OR Apache-2.0
#include "both_sides.h"

#include <cstdio>
#include <utility>

#include "base/text.h"
#include "wide.h"

namespace cachalot::policy_model {
namespace {

constexpr size_t kShownOperations = 24;

std::string text_of(const std::vector<Call>& calls) {
  std::string text;
  for (const Call& call : calls) text += "    " + text_of(call) + "\n";
  return text;
}

}  // namespace

void Tally::add(const Answer& answer, const std::vector<Call>& calls) {
  if (answer.address != 0) hand_outs++;
  if (answer.status == Status::kOutOfMemory) out_of_memory++;
  if (answer.status != Status::kOk && answer.status != Status::kOutOfMemory) other_failures++;
  for (const Call& call : calls) {
    const std::string_view name = call.name;
    pages_made += name == "create" && call.code == kSuccess;
    pages_unmapped += name == "unmap";
    pages_released += name == "release";
    stream_waits += name == "stream_wait";
    host_waits += name == "stream_sync" || name == "device_sync";
  }
}

void Tally::add(const Tally& other) {
  operations += other.operations;
  hand_outs += other.hand_outs;
  out_of_memory += other.out_of_memory;
  other_failures += other.other_failures;
  pages_made += other.pages_made;
  pages_unmapped += other.pages_unmapped;
  pages_released += other.pages_released;
  stream_waits += other.stream_waits;
  host_waits += other.host_waits;
}

BothSides::BothSides(Options options)
    : options_(std::move(options)),
      model_driver_(std::make_shared<NotingDriver>(options_.capacity)),
      library_driver_(std::make_shared<NotingDriver>(options_.capacity)),
      model_(*model_driver_, options_.model),
      library_(library_driver_, options_.library) {}

void BothSides::begin(const std::string& what) {
  tally_.operations++;
  history_.push_back(what);
  if (history_.size() > kShownOperations) history_.pop_front();
  if (options_.tells) std::fprintf(stderr, "%s\n", what.c_str());
  model_driver_->calls().clear();
  library_driver_->calls().clear();
}

Answer BothSides::answer_of(const std::function<Address()>& call) {
  try {
    return {Status::kOk, kSuccess, call()};
  } catch (const Failure& failure) {
    return {failure.status, failure.code, 0, failure.shortage};
  } catch (const Error& error) {
    return {error.status(), error.driver_code(), 0, error.numbers()};
  }
}

Answer BothSides::on_both(const std::string& what, const std::function<Address()>& on_model,
                          const std::function<Address()>& on_library) {
  begin(what);
  const Answer model = answer_of(on_model);
  const Answer library = answer_of(on_library);
  history_.back() += " -> " + policy_model::text_of(library);
  compare(model, library);
  tally_.add(library, library_driver_->calls());
  return library;
}

Answer BothSides::allocate_on_both(uint64_t size, Stream stream) {
  return on_both(
      format("allocate %llu for %llx", wide(size), wide(stream)),
      [&] { return model_.allocate(size, stream); },
      [&] { return library_.allocate(size, stream); });
}

void BothSides::free_on_both(Address address) {
  on_both(
      format("free %llx", wide(address)), [&] { return model_.free(address), 0; },
      [&] { return library_.free(address), 0; });
}

void BothSides::record_on_both(Address address, Stream stream) {
  on_both(
      format("record %llx for %llx", wide(address), wide(stream)),
      [&] { return model_.record_stream(address, stream), 0; },
      [&] { return library_.allocator().record_stream(address, stream), 0; });
}

void BothSides::empty_on_both(PoolId pool) {
  on_both(
      format("empty %llu %llu", wide(pool.first), wide(pool.second)),
      [&] { return model_.empty_cache(pool), 0; },
      [&] { return library_.allocator().empty_cache(0, pool), 0; });
}

void BothSides::on_machines(const std::string& what, const std::function<void(SimMachine&)>& act) {
  begin(what);
  act(model_driver_->machine());
  act(library_driver_->machine());
}

void BothSides::compare(const Answer& model, const Answer& library) {
  if (!found_.empty()) return;
  std::string difference;
  if (!(model == library))
    difference += "  model:   " + policy_model::text_of(model) +
                  "\n  library: " + policy_model::text_of(library) + "\n";
  if (!(model.shortage == library.shortage))
    difference += "  model:   " + policy_model::text_of(model.shortage) +
                  "\n  library: " + policy_model::text_of(library.shortage) + "\n";
  if (model_driver_->calls() != library_driver_->calls())
    difference += "  calls of the model:\n" + text_of(model_driver_->calls()) +
                  "  calls of the library:\n" + text_of(library_driver_->calls());
  const Numbers numbers = library_.numbers();
  if (!(model_.numbers() == numbers)) difference += difference_of(model_.numbers(), numbers);
  if (!difference.empty()) {
    const Picture picture = library_.picture();
    return report(difference + difference_of(model_.picture(), picture));
  }
  if (tally_.operations % options_.looks_inside_every == 0) compare_state();
}

// Not after each operation: the look puts back the free that a shard keeps for the next request.
void BothSides::compare_state() {
  const Picture picture = library_.picture();
  if (!(model_.picture() == picture)) return report(difference_of(model_.picture(), picture));
  const std::string wrong = library_.allocator().check();
  if (!wrong.empty()) report("  the auditor: " + wrong + "\n");
}

void BothSides::report(const std::string& difference) {
  if (!found_.empty()) return;
  found_ = format("%s\n  operation %llu: the model and the library differ\n", options_.name.c_str(),
                  static_cast<unsigned long long>(tally_.operations));
  for (const std::string& line : history_) found_ += "  " + line + "\n";
  found_ += difference;
}

}  // namespace cachalot::policy_model
