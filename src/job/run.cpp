// Runs a job (a run described as data) and converts an error to a failed outcome.

#include "src/job/run.hpp"

#include <new>
#include <stdexcept>
#include <system_error>

#include "src/job/runner.hpp"

namespace nkisim {
void RunListener::page(const std::string& html, const std::string& /*session*/,
                       const std::function<void(const std::string&)>& /*write*/) {
  isa::fail(isa::Rule::file_unwritable, html + " cannot be written: pages are made by commands");
}

Outcome run(const Job& job, RunListener& listener, RunArtifacts& artifacts, Programs& programs) {
  return Runner(job, listener, artifacts, programs).run();
}

int exit_code_of(const isa::Error& error) {
  if (error.code() == isa::ErrorCode::kUsage) return kUsage;
  return error.code() == isa::ErrorCode::kInternal ? kInternal : kBadInput;
}

Outcome failed(const nlohmann::ordered_json& id, const isa::Error& error) {
  Outcome out;
  out.id = id;
  out.error = error_json(error);
  out.exit_code = exit_code_of(error);
  return out;
}

isa::Error error_in_flight(const isa::host::MemoryBound& bound) {
  const auto refused = [](const std::string& why) {
    return isa::Error(isa::Rule::host_refuses, why);
  };
  try {
    throw;
  } catch (const isa::Error& e) {
    return e;
  } catch (const std::bad_alloc&) {
    const std::string most = bound.reached();
    return refused("the input needs " +
                   (most.empty() ? "more memory than this process may have" : most));
  } catch (const std::length_error&) {
    return refused("the input needs more memory than any process may have");
  } catch (const std::system_error& e) {
    return refused(e.what());
  } catch (const std::exception& e) {
    return isa::Error(isa::Rule::internal_error, "internal error: " + std::string(e.what()));
  }
}

Outcome run(const Job& job, Programs& programs) {
  Outcome received;
  KeepingListener keeper(received.warnings, received.printed);
  Outcome out;
  const isa::host::MemoryBound bound;
  try {
    RunArtifacts artifacts;
    out = run(job, keeper, artifacts, programs);
  } catch (...) {
    out = failed(job.id, error_in_flight(bound));
  }
  out.warnings = std::move(received.warnings);
  out.printed = std::move(received.printed);
  return out;
}

}  // namespace nkisim
