// Checks a program that an untrusted process made of a Python kernel, and collects facts about it.

#include "src/run/recorded.hpp"

#include <algorithm>
#include <string_view>

#include "isa/base/error.hpp"
#include "isa/program/op_spec.hpp"

namespace nkisim {
namespace {

using Kind = DataSource::Kind;

constexpr std::string_view kArgument = "arg";

[[noreturn]] void no_recording(const std::string& what, const std::string& found,
                               const std::string& required) {
  isa::fail(isa::Rule::trace_not_recorded, what, found, required);
}

// Checks what the compiler and the models would otherwise accept from the program without a
// question.
void check_form(const TraceFile& trace) {
  const isa::Program& program = *trace.program;
  const std::string what = "a recorded program";
  if (!trace.open) no_recording(what, "one with addresses", "\"addresses\": \"open\"");
  if (trace.executed) no_recording(what, "a stream of executed instructions", "a program");
  if (program.timing_only()) no_recording(what, "for time only", "a program with data");
  if (program.explicit_semaphores()) no_recording(what, "with semaphores", "derived ones");
  if (program.ranks() != 1) no_recording(what, "for several ranks", "one rank");
  for (const isa::Inst& inst : program.insts()) {
    if (inst.dma != nullptr || inst.sync != nullptr) {
      no_recording(what, "with queues, packets or semaphores of its own", "instructions alone");
    }
    // In a group of one rank, which recording makes copies of, it would move data for nothing.
    const isa::OpSpec& op = isa::spec(inst);
    if (op.collective.kind != isa::Collective::Kind::kNone) {
      no_recording(what, "with " + std::string(op.name), "operations of one rank");
    }
  }
}

}  // namespace

Recorded recorded(const TraceFile& trace, const std::string& archive) {
  check_form(trace);
  Recorded out;
  out.legacy = trace.legacy;
  out.cores = std::max(trace.cores, trace.program->cores());
  out.sdk = trace.program->sdk();
  out.instructions = trace.program->insts().size();
  for (std::uint32_t id = 0; id < trace.program->tensors().size(); ++id) {
    const isa::Tensor& tensor = trace.program->tensor(id);
    const DataSource& source = trace.source(id);
    if (source.kind == Kind::kNone) continue;
    if (source.kind == Kind::kNpz && source.file == archive && source.key.starts_with(kArgument)) {
      out.inputs.push_back({source.key, tensor.name, tensor.written,
                            std::string(isa::name(tensor.dtype)), tensor.shape});
      continue;
    }
    if (source.kind == Kind::kNpy || (source.kind == Kind::kNpz && source.file != archive)) {
      no_recording(tensor.name, "data in " + source.file, "data in " + archive);
    }
    if (tensor.role == isa::TensorRole::kInputOutput) {
      no_recording(tensor.name, "a result that the program brings along", "one that it computes");
    }
    out.constant_bytes +=
        tensor.extent_bytes() * (tensor.space == isa::Space::kHbm ? 1 : tensor.shape.front());
  }
  return out;
}

}  // namespace nkisim
