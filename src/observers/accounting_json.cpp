#include <algorithm>

#include "src/observers/accounting.hpp"

namespace nkisim {
namespace {

using Json = nlohmann::ordered_json;
using models::Fs;

std::string source(const isa::Program& program, const isa::Inst& inst) {
  if (inst.loc.kernel_file != 0 && inst.loc.kernel_file <= program.files().size()) {
    return program.files()[inst.loc.kernel_file - 1] + ":" + std::to_string(inst.loc.kernel_line);
  }
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

using Parts = std::array<Fs, kCauseCount>;

void add(Parts& to, const Parts& more) {
  for (std::size_t i = 0; i < kCauseCount; ++i) to.at(i) += more.at(i);
}

Json causes(const Parts& parts) {
  Json out = Json::object();
  for (std::size_t i = 0; i < kCauseCount; ++i) {
    if (parts.at(i) != 0) out[std::string(name(static_cast<Cause>(i)))] = parts.at(i);
  }
  return out;
}

template <typename Key>
Json grouped(const std::map<Key, Parts>& groups) {
  Json out = Json::object();
  // Keys are distinct already; operator[] would look through all earlier ones.
  auto& object = out.get_ref<Json::object_t&>();
  for (const auto& [key, parts] : groups) object.emplace_back(key, causes(parts));
  return out;
}

Json engine_json(const Accounting& accounting, int core, const Accounting::Engine& engine) {
  const isa::Program& program = accounting.program();
  std::map<std::string, Parts> by_opcode, by_line;
  for (const PartRecord& p : engine.parts) {
    add(by_opcode[std::string(program.opcode_name(p.opcode))], p.charged);
    add(by_line[source(program, *p.inst)], p.charged);
  }
  return {{"total_fs", charges(accounting, core, engine.total)},
          {"by_opcode_fs", grouped(by_opcode)},
          {"by_line_fs", grouped(by_line)}};
}

Json instruction_rows(const Accounting& accounting, const Accounting::Core& core) {
  Json rows = Json::array();
  for (const auto& engine : core.engines) {
    for (const PartRecord& p : engine.parts) {
      rows.push_back({{"id", p.sequence},
                      {"opcode", accounting.program().opcode_name(p.opcode)},
                      {"row", isa::name(p.unit)},
                      {"source", source(accounting.program(), *p.inst)},
                      {"start_fs", p.start},
                      {"end_fs", p.end},
                      {"fs", causes(p.charged)}});
    }
  }
  return rows;
}

Json path_rows(const Accounting& accounting, int core) {
  Json rows = Json::array();
  const auto& queues = accounting.cores().at(static_cast<std::size_t>(core)).queues;
  for (const PathItem& item : critical_path(accounting, core)) {
    Json row = {{"from_fs", item.from}, {"to_fs", item.to}, {"cause", name(item.cause)}};
    row["where"] = item.where < queues.size() ? queues[item.where].name : "";
    if (item.inst != nullptr) {
      row["id"] = item.sequence;
      row["instruction"] = isa::spec(*item.inst).name;
      row["source"] = source(accounting.program(), *item.inst);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

Json accounting_json(const Accounting& accounting, bool rows) {
  Json out = {{"end_fs", accounting.end()}, {"cores", Json::array()}};
  for (std::size_t c = 0; c < accounting.cores().size(); ++c) {
    const Accounting::Core& core = accounting.cores()[c];
    const int id = static_cast<int>(c);
    Json engines = Json::object(), queues = Json::object();
    for (std::size_t e = 0; e < core.engines.size(); ++e) {
      engines[core.queues.at(e).name] = engine_json(accounting, id, core.engines.at(e));
    }
    for (const Accounting::Queue& q : core.queues) {
      if (!q.transfers.empty()) queues[q.name] = {{"total_fs", charges(accounting, id, q.total)}};
    }
    Json row = {{"core", id}, {"engines", engines}, {"dma_queues", queues}};
    if (rows) {
      row["critical_path"] = path_rows(accounting, id);
      row["instructions"] = instruction_rows(accounting, core);
    }
    out["cores"].push_back(std::move(row));
  }
  return out;
}

}  // namespace nkisim
