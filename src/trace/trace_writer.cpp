// Formats instructions as lines of JSON, and writes them as a file (a trace).

#include "src/trace/trace_writer.hpp"

#include <functional>

#include "src/files/atomic_file.hpp"
#include "src/files/json_text.hpp"
#include "src/trace/operand_text.hpp"
#include "src/trace/trace_binary.hpp"
#include "src/trace/trace_declare.hpp"
#include "src/trace/trace_names.hpp"

namespace nkisim {
namespace {

using isa::Arg;

void begin(std::string& out, std::string_view key) {
  out += ",\"";
  out += key;
  out += "\":";
}

template <typename Items, typename Fn>
void append_list(std::string& out, const Items& items, Fn&& append) {
  out += '[';
  for (const auto& item : items) {
    if (out.back() != '[') out += ',';
    append(item);
  }
  out += ']';
}

void append_arg(std::string& out, const isa::Program& program, const isa::Param& param,
                const Arg& arg, bool patterns) {
  switch (arg.kind) {
    case Arg::Kind::kNone:
      out += "null";
      break;
    case Arg::Kind::kTensor:
      append_operand(out, program, *arg.tensor, patterns);
      break;
    case Arg::Kind::kTensors:
      append_list(out, *arg.tensors,
                  [&](const isa::TensorRef* ref) { append_operand(out, program, *ref, patterns); });
      break;
    case Arg::Kind::kReal:
      append_json_real(out, arg.real);
      break;
    case Arg::Kind::kBool:
      out += param.kind == isa::ParamKind::kBool ? (arg.integer != 0 ? "true" : "false")
                                                 : (arg.integer != 0 ? "1" : "0");
      break;
    case Arg::Kind::kEnum:
      append_json_string(out, choice_name(program, param, arg.integer));
      break;
    case Arg::Kind::kInt:
      if (is_choice(param.kind)) {
        append_json_string(out, choice_name(program, param, arg.integer));
      } else if (param.kind == isa::ParamKind::kReal) {
        append_json_real(out, static_cast<double>(arg.integer));
      } else {
        append_json_int(out, arg.integer);
      }
      break;
    case Arg::Kind::kRegister:
      out += "\"r" + std::to_string(arg.integer) + "\"";
      break;
    case Arg::Kind::kList:
      if (param.kind == isa::ParamKind::kGroups) {
        append_list(out, isa::groups_in(*arg.list), [&](const isa::RankGroup& group) {
          append_list(out, group, [&](std::int64_t rank) { append_json_int(out, rank); });
        });
        break;
      }
      append_list(out, *arg.list, [&](std::int64_t v) { append_json_int(out, v); });
      break;
    case Arg::Kind::kText:
      append_json_string(out, *arg.text);
      break;
  }
}

void append_waits(std::string& out, const std::vector<isa::SemaphoreWait>& waits) {
  append_list(out, waits, [&](const isa::SemaphoreWait& w) {
    out += "[" + std::to_string(w.semaphore) + ",\"";
    out += kCompareNames.at(static_cast<std::size_t>(w.compare));
    out += "\"," + std::to_string(w.value) + "]";
  });
}

void append_posts(std::string& out, const std::vector<isa::SemaphorePost>& posts) {
  using Action = isa::SemaphorePost::Action;
  append_list(out, posts, [&](const isa::SemaphorePost& p) {
    out += "[" + std::to_string(p.semaphore) + ",\"";
    out += kActionNames.at(static_cast<std::size_t>(p.action));
    out += '"';
    if (p.action != Action::kIncrement && p.action != Action::kDecrement) {
      out += "," + std::to_string(p.value);
    }
    out += p.at_issue ? ",\"@issue\"]" : "]";
  });
}

void append_ordering(std::string& out, const isa::Ordering& ordering) {
  if (ordering.id != 0) {
    begin(out, "id");
    append_json_int(out, ordering.id);
  }
  if (ordering.after.empty()) return;
  begin(out, "after");
  append_list(out, ordering.after, [&](std::uint32_t id) { append_json_int(out, id); });
}

void append_dma(std::string& out, const isa::Program& program, const isa::DmaPlan& plan) {
  out += "{\"queue\":";
  append_json_string(out, program.queues().at(plan.queue_name));
  if (!plan.packets.empty()) {
    begin(out, "packets");
    append_list(out, plan.packets, [&](const isa::DmaPacket& p) {
      out += "[" + std::to_string(p.engine) + "," + std::to_string(p.queue) + "," +
             std::to_string(p.bytes) + "]";
    });
  }
  if (plan.semaphore >= 0) {
    begin(out, "semaphore");
    append_json_int(out, plan.semaphore);
    begin(out, "increment");
    append_json_int(out, plan.increment);
  }
  out += '}';
}

// One instruction as its JSON line, without the end of line.
void append_inst(std::string& out, const isa::Program& program, const isa::Inst& inst,
                 bool patterns) {
  const isa::OpSpec& op = isa::spec(inst);
  out += "{\"i\":\"";
  out += op.name;
  out += '"';
  if (inst.engine != isa::Engine::kAny) {
    begin(out, "engine");
    append_json_string(out, isa::name(inst.engine));
  }
  if (inst.core != 0) {
    begin(out, "core");
    append_json_int(out, inst.core);
  }
  for (std::size_t i = 0; i < inst.args.size(); ++i) {
    if (!inst.args[i].present()) continue;
    begin(out, op.params[i].name);
    append_arg(out, program, op.params[i], inst.args[i], patterns);
  }
  if (inst.sync != nullptr) {
    begin(out, "wait");
    append_waits(out, inst.sync->waits);
    begin(out, "post");
    append_posts(out, inst.sync->posts);
  }
  if (inst.dma != nullptr) {
    begin(out, "dma");
    append_dma(out, program, *inst.dma);
  }
  if (inst.forward) {
    begin(out, "forward");
    out += "true";
  }
  if (inst.ordering != 0) append_ordering(out, program.ordering(inst));
  if (inst.label != nullptr) {
    begin(out, "label");
    append_json_string(out, *inst.label);
  }
  if (inst.region != nullptr) {
    begin(out, "region");
    append_json_string(out, *inst.region);
  }
  if (inst.loc.kernel_file != 0) {
    begin(out, "loc");
    append_json_string(out, program.shared_place(inst));
  }
  out += '}';
}

void write_text(const TraceFile& trace, const std::filesystem::path& folder, bool patterns,
                const ByteSink& sink) {
  std::string out = format_header(trace) + "\n";
  const isa::Program& program = *trace.program;
  for (std::uint32_t id = 0; id < program.tensors().size(); ++id) {
    if (program.tensor(id).is_raw()) continue;
    out += format_tensor(trace, id, folder) + "\n";
  }
  for (isa::Inst inst : program.insts()) {
    if (trace.open && inst.engine_open) inst.engine = isa::Engine::kAny;
    inst.forward = inst.forward && program.virtual_addresses();
    append_inst(out, program, inst, patterns);
    out += '\n';
    if (out.size() >= kFlushBytes) {
      sink(out);
      out.clear();
    }
  }
  sink(out);
}

void write_form(const TraceFile& trace, TraceForm form, const std::filesystem::path& folder,
                const ByteSink& sink) {
  if (form == TraceForm::kBinary) {
    write_binary_trace(trace, folder, sink);
  } else {
    write_text(trace, folder, form == TraceForm::kPatterns, sink);
  }
}

}  // namespace

void write_trace(const TraceFile& trace, const std::string& path, bool patterns) {
  std::filesystem::path name(path);
  const std::filesystem::path folder = name.parent_path();
  const bool gzip = name.extension() == ".gz";
  if (gzip) name = name.stem();
  const TraceForm form = name.extension() == ".nisa" ? TraceForm::kBinary
                         : patterns                  ? TraceForm::kPatterns
                                                     : TraceForm::kText;
  AtomicFile file(path);
  if (gzip) {
    GzipWriter packed(file);
    write_form(trace, form, folder, [&](std::string_view bytes) { packed.write(bytes); });
    packed.finish();
  } else {
    write_form(trace, form, folder, [&](std::string_view bytes) { file.write(bytes); });
  }
  file.commit();
}

std::string format_trace(const TraceFile& trace, TraceForm form) {
  std::string out;
  write_form(trace, form, trace.folder, [&](std::string_view bytes) { out += bytes; });
  return out;
}

}  // namespace nkisim
