// Writes as JSON the causes to which the time of every engine is charged.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "src/files/json_text.hpp"
#include "src/report/accounting.hpp"

namespace nkisim {
namespace {

using Json = nlohmann::ordered_json;
using models::Fs;
using Parts = std::array<Fs, kCauseCount>;
using Sink = std::function<void(std::string_view)>;

std::string source(const isa::Program& program, const isa::Inst& inst) {
  if (std::string place = program.shared_place(inst); !place.empty()) return place;
  const std::string file = program.shared_trace();
  return (file.empty() ? "trace" : file) + ":" + std::to_string(inst.loc.trace_line);
}

// The places of instructions, as JSON text: the names of files are made text once.
class Places {
 public:
  explicit Places(const isa::Program& program) {
    const std::string trace = program.shared_trace();
    const auto add = [&](const std::string& file) {
      files_.push_back(Json(file).dump());
      files_.back().back() = ':';
    };
    add(trace.empty() ? "trace" : trace);
    for (const std::string& file : program.shared_files()) add(file);
  }
  // File and line; which file 0 is, source() says.
  [[nodiscard]] std::uint64_t key(const isa::Inst& inst) const {
    const isa::SourceLoc& loc = inst.loc;
    const bool known = loc.kernel_file > 0 && loc.kernel_file < files_.size();
    return known ? std::uint64_t{loc.kernel_file} << 32U | loc.kernel_line : loc.trace_line;
  }
  void append(std::string& out, std::uint64_t key) const {
    out += files_[key >> 32U];
    append_json_int(out, static_cast<std::int64_t>(key & ~std::uint32_t{0}));
    out += '"';
  }
  // True if the text of `a` comes before that of `b`.
  [[nodiscard]] bool before(std::uint64_t a, std::uint64_t b) const {
    const std::string &file_a = files_[a >> 32U], &file_b = files_[b >> 32U];
    if (&file_a == &file_b || file_a == file_b) {
      return digits(a & ~std::uint32_t{0}) < digits(b & ~std::uint32_t{0});
    }
    std::string text_a, text_b;
    append(text_a, a);
    append(text_b, b);
    return text_a < text_b;
  }

 private:
  // Compares as the number's text with a quote behind it does.
  static std::pair<std::uint64_t, int> digits(std::uint64_t number) {
    constexpr std::uint64_t kTenDigits = 1'000'000'000;
    int count = 10;
    while (number != 0 && number < kTenDigits) number *= 10, --count;
    return {number, number == 0 ? 1 : count};
  }
  std::vector<std::string> files_;  // each up to its line
};

void add_to(Parts& to, const Parts& more) {
  for (std::size_t i = 0; i < kCauseCount; ++i) to.at(i) += more.at(i);
}

// Reads the charges of an engine's parts, one after the other.
class ChargeReader {
 public:
  explicit ChargeReader(const Accounting::Engine& engine)
      : causes_(engine.closed.begin(), engine.closed.end()) {}
  Parts next() {
    Parts parts{};
    for (std::size_t i = 0; i < kCauseCount; ++i) parts.at(i) = causes_[i].next();
    return parts;
  }

 private:
  std::vector<ColumnReader> causes_;
};

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
  Writer(const Accounting& accounting, const Sink& out)
      : accounting_(accounting),
        out_(out),
        places_(accounting.program()),
        has_regions_(accounting.program().has_regions()) {}

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
  static constexpr std::size_t kFlush = std::size_t{1} << 16U;
  void number(std::int64_t value) { append_json_int(line_, value); }

  void place(const isa::Inst& inst) { places_.append(line_, places_.key(inst)); }

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
    if (line_.size() > kFlush) flush();
  }

  void groups(const Accounting::Engine& engine) {
    std::map<isa::Opcode, Parts> opcodes;
    std::map<std::string_view, Parts> regions;  // "": of instructions of none
    std::vector<std::uint64_t> lines;
    for (const PartRecord& p : engine.parts) lines.push_back(places_.key(*p.inst));
    std::sort(lines.begin(), lines.end());
    lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
    std::vector<Parts> of_line(lines.size());
    ChargeReader charges(engine);
    auto at = lines.begin();
    for (const PartRecord& p : engine.parts) {
      const Parts parts = charges.next();
      add_to(opcodes[p.opcode], parts);
      if (has_regions_) {
        add_to(regions[p.inst->region == nullptr ? std::string_view() : *p.inst->region], parts);
      }
      // The line is often that of the part before, or the next one.
      const std::uint64_t key = places_.key(*p.inst);
      auto line = std::find(at, at + std::min<std::ptrdiff_t>(2, lines.end() - at), key);
      if (line == lines.end() || *line != key) {
        line = std::lower_bound(lines.begin(), lines.end(), key);
      }
      at = line;
      add_to(of_line[static_cast<std::size_t>(line - lines.begin())], parts);
    }
    by_opcode(opcodes);
    by_line(lines, of_line);
    by_region(regions);
  }

  void by_opcode(const std::map<isa::Opcode, Parts>& opcodes) {
    std::map<std::string, Parts> rows;
    for (const auto& [opcode, parts] : opcodes) {
      add_to(rows[Json(accounting_.program().opcode_name(opcode)).dump()], parts);
    }
    line_ += ",\"by_opcode_fs\":{";
    bool first = true;
    for (const auto& [key, parts] : rows) {
      line_ += first ? "" : ",";
      first = false;
      line_ += key;
      line_ += ':';
      causes(parts);
    }
    line_ += '}';
  }

  // In the order of their texts; equal ones together.
  void by_line(const std::vector<std::uint64_t>& lines, const std::vector<Parts>& of_line) {
    std::vector<std::size_t> order(lines.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return places_.before(lines[a], lines[b]); });
    line_ += ",\"by_line_fs\":{";
    for (std::size_t i = 0; i < order.size();) {
      line_ += i == 0 ? "" : ",";
      const std::uint64_t line = lines[order[i]];
      places_.append(line_, line);
      line_ += ':';
      Parts parts = of_line[order[i]];
      for (++i; i < order.size() && !places_.before(line, lines[order[i]]); ++i) {
        add_to(parts, of_line[order[i]]);
      }
      causes(parts);
      if (line_.size() > kFlush) flush();
    }
    line_ += '}';
  }

  void by_region(const std::map<std::string_view, Parts>& rows) {
    if (rows.empty() || rows.rbegin()->first.empty()) return;  // none of the engine's has one
    line_ += ",\"by_region_fs\":{";
    bool first = true;
    for (const auto& [region, parts] : rows) {
      line_ += first ? "" : ",";
      first = false;
      line_ += Json(region).dump();
      line_ += ':';
      causes(parts);
    }
    line_ += '}';
  }

  void instructions(const Accounting::Core& core) {
    bool first = true;
    for (const auto& engine : core.engines) {
      ChargeReader charges(engine);
      for (const PartRecord& p : engine.parts) {
        begin_row(first);
        line_ += "\"id\":";
        number(static_cast<std::int64_t>(p.sequence));
        line_ += ",\"opcode\":\"";
        line_ += accounting_.program().opcode_name(p.opcode);
        line_ += "\",\"row\":\"";
        line_ += isa::name(p.unit);
        line_ += "\",\"source\":";
        place(*p.inst);
        line_ += ",\"start_fs\":";
        number(p.start);
        line_ += ",\"end_fs\":";
        number(p.end);
        line_ += ",\"fs\":";
        causes(charges.next());
        line_ += '}';
      }
    }
  }

  void path(int id) {
    const auto& queues = accounting_.cores().at(static_cast<std::size_t>(id)).queues;
    std::vector<std::string> names;  // of queues, as JSON text; the last one belongs to none
    for (const Accounting::Queue& queue : queues) names.push_back(Json(queue.name).dump());
    names.emplace_back("\"\"");
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
      line_ += names.at(std::min<std::size_t>(item.where, queues.size()));
      if (item.inst != nullptr) {
        line_ += ",\"id\":";
        number(static_cast<std::int64_t>(item.sequence));
        line_ += ",\"instruction\":\"";
        line_ += isa::spec(*item.inst).name;
        line_ += "\",\"source\":";
        place(*item.inst);
      }
      line_ += '}';
    }
  }

  const Accounting& accounting_;
  const Sink& out_;
  std::string line_;
  Places places_;
  bool has_regions_;
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
