#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/files/json_text.hpp"
#include "src/report/accounting.hpp"

namespace nkisim {
namespace {

using Json = nlohmann::ordered_json;
using models::Fs;
using Parts = std::array<Fs, kCauseCount>;
using Sink = std::function<void(std::string_view)>;

std::string source(const isa::Program& program, const isa::Inst& inst) {
  if (std::string place = program.kernel_place(inst); !place.empty()) return place;
  const std::string& file = program.trace_file();
  return (file.empty() ? "trace" : file) + ":" + std::to_string(inst.loc.trace_line);
}

// Unique under the profiler-like name of the cause; zero entries are left out.
Json charges(const Accounting& accounting, int core, const Charges& total) {
  Json out = Json::object();
  for (const auto& [charge, fs] : total) {
    if (fs == 0) continue;
    out[accounting.describe(core, charge)] = fs;
  }
  return out;
}

Json queues_json(const Accounting& accounting, int core) {
  Json queues = Json::object();
  for (const Accounting::Queue& q : accounting.cores().at(static_cast<std::size_t>(core)).queues) {
    if (q.used()) {
      queues[q.name] = {{"total_fs", charges(accounting, core, q.total)}};
    }
  }
  return queues;
}

// JSON as text without a tree: a run has hundreds of thousands of rows.
class Writer {
 public:
  Writer(const Accounting& accounting, const Sink& out) : accounting_(accounting), out_(out) {}

  void core(int id) {
    const Accounting::Core& core = accounting_.cores().at(static_cast<std::size_t>(id));
    line_ += "{\"core\":" + std::to_string(id) + ",\"engines\":{";
    for (std::size_t e = 0; e < core.engines.size(); ++e) {
      line_ += (e == 0 ? "" : ",") + Json(core.queues.at(e).name).dump() +
               ":{\"total_fs\":" + charges(accounting_, id, core.engines.at(e).total).dump();
      groups(core.engines.at(e));
      line_ += '}';
    }
    line_ += "},\"dma_queues\":" + queues_json(accounting_, id).dump() + ",\"critical_path\":[";
    path(id);
    line_ += "],\"instructions\":[";
    instructions(core);
    line_ += "]}";
  }
  void raw(std::string_view text) { line_ += text; }
  void flush() {
    out_(line_);
    line_.clear();
  }

 private:
  void number(std::int64_t value) { append_json_int(line_, value); }

  // The JSON text of an instruction's place, made once.
  const std::string& place(const isa::Inst& inst) {
    std::string& text = places_[&inst];
    if (text.empty()) text = Json(source(accounting_.program(), inst)).dump();
    return text;
  }

  void causes(const Parts& parts) {
    bool first = true;
    line_ += '{';
    for (std::size_t i = 0; i < kCauseCount; ++i) {
      if (parts.at(i) == 0) continue;
      line_ += first ? "\"" : ",\"";
      first = false;
      line_ += name(static_cast<Cause>(i));
      line_ += "\":";
      number(parts.at(i));
    }
    line_ += '}';
  }

  void begin_row(bool& first) {
    line_ += first ? "\n{" : ",\n{";
    first = false;
    constexpr std::size_t kFlush = 1U << 16U;
    if (line_.size() > kFlush) flush();
  }

  void groups(const Accounting::Engine& engine) {
    std::map<std::string, Parts> by_opcode, by_line;
    std::map<isa::Opcode, Parts> opcodes;
    std::unordered_map<const isa::Inst*, Parts> insts;
    const auto add = [](Parts& to, const Parts& more) {
      for (std::size_t i = 0; i < kCauseCount; ++i) to.at(i) += more.at(i);
    };
    std::size_t at = 0;
    for (const PartRecord& p : engine.parts) {
      const Causes charged = engine.causes_of(at++);
      add(opcodes[p.opcode], charged);
      add(insts[p.inst], charged);
    }
    for (const auto& [opcode, parts] : opcodes) {
      add(by_opcode[Json(accounting_.program().opcode_name(opcode)).dump()], parts);
    }
    for (const auto& [inst, parts] : insts) add(by_line[place(*inst)], parts);
    for (const auto& [title, rows] :
         {std::pair(",\"by_opcode_fs\":{", &by_opcode), std::pair(",\"by_line_fs\":{", &by_line)}) {
      line_ += title;
      bool first = true;
      for (const auto& [key, parts] : *rows) {
        line_ += first ? "" : ",";
        first = false;
        line_ += key;
        line_ += ':';
        causes(parts);
      }
      line_ += '}';
    }
  }

  void instructions(const Accounting::Core& core) {
    bool first = true;
    for (const auto& engine : core.engines) {
      std::size_t at = 0;
      for (const PartRecord& p : engine.parts) {
        begin_row(first);
        line_ += "\"id\":";
        number(static_cast<std::int64_t>(p.sequence));
        line_ += ",\"opcode\":\"";
        line_ += accounting_.program().opcode_name(p.opcode);
        line_ += "\",\"row\":\"";
        line_ += isa::name(p.unit);
        line_ += "\",\"source\":";
        line_ += place(*p.inst);
        line_ += ",\"start_fs\":";
        number(p.start);
        line_ += ",\"end_fs\":";
        number(p.end);
        line_ += ",\"fs\":";
        causes(engine.causes_of(at++));
        line_ += '}';
      }
    }
  }

  void path(int id) {
    const auto& queues = accounting_.cores().at(static_cast<std::size_t>(id)).queues;
    bool first = true;
    for (const PathItem& item : critical_path(accounting_, id)) {
      begin_row(first);
      line_ += "\"from_fs\":";
      number(item.from);
      line_ += ",\"to_fs\":";
      number(item.to);
      line_ += ",\"cause\":\"";
      line_ += name(item.cause);
      line_ += "\",\"where\":";
      line_ += item.where < queues.size() ? Json(queues[item.where].name).dump() : "\"\"";
      if (item.inst != nullptr) {
        line_ += ",\"id\":";
        number(static_cast<std::int64_t>(item.sequence));
        line_ += ",\"instruction\":\"";
        line_ += isa::spec(*item.inst).name;
        line_ += "\",\"source\":";
        line_ += place(*item.inst);
      }
      line_ += '}';
    }
  }

  const Accounting& accounting_;
  const Sink& out_;
  std::string line_;
  std::unordered_map<const isa::Inst*, std::string> places_;
};

}  // namespace

Json accounting_json(const Accounting& accounting) {
  Json out = {
      {"end_fs", accounting.end()}, {"partial", accounting.partial()}, {"cores", Json::array()}};
  for (std::size_t c = 0; c < accounting.cores().size(); ++c) {
    const Accounting::Core& core = accounting.cores()[c];
    const int id = static_cast<int>(c);
    Json engines = Json::object();
    for (std::size_t e = 0; e < core.engines.size(); ++e) {
      engines[core.queues.at(e).name] = {
          {"total_fs", charges(accounting, id, core.engines.at(e).total)}};
    }
    out["cores"].push_back(
        {{"core", id}, {"engines", engines}, {"dma_queues", queues_json(accounting, id)}});
  }
  return out;
}

Json world_path_json(std::span<const Accounting* const> ranks) {
  Json rows = Json::array();
  for (const PathItem& item : critical_path(ranks)) {
    const Accounting& rank = *ranks[static_cast<std::size_t>(item.rank)];
    const auto& queues = rank.cores().at(static_cast<std::size_t>(item.core)).queues;
    Json row = {{"rank", item.rank},
                {"core", item.core},
                {"from_fs", item.from},
                {"to_fs", item.to},
                {"cause", name(item.cause)},
                {"where", item.where < queues.size() ? queues[item.where].name : ""}};
    if (item.inst != nullptr) {
      row["instruction"] = isa::spec(*item.inst).name;
      row["source"] = source(rank.program(), *item.inst);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

void write_accounting(const Accounting& accounting, const Sink& out) {
  Writer writer(accounting, out);
  writer.raw("{\"end_fs\":" + std::to_string(accounting.end()) +
             ",\"partial\":" + (accounting.partial() ? "true" : "false") + ",\"cores\":[");
  for (std::size_t c = 0; c < accounting.cores().size(); ++c) {
    writer.raw(c == 0 ? "\n" : ",\n");
    writer.core(static_cast<int>(c));
  }
  writer.raw("]}\n");
  writer.flush();
}

}  // namespace nkisim
