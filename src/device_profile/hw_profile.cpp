// Parses the JSON of a device profile of neuron-profile, record by record.

#include "src/device_profile/hw_profile.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "isa/base/error.hpp"
#include "isa/base/names.hpp"
#include "isa/base/real.hpp"
#include "src/files/byte_reader.hpp"

namespace nkisim {
namespace {

using nlohmann::json;

// Feeds the parser from a ByteReader a byte at a time.
class Bytes {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  Bytes() = default;
  explicit Bytes(ByteReader& reader) : reader_(&reader) { fill(); }
  char operator*() const { return chunk_[at_]; }
  Bytes& operator++() {
    if (++at_ == chunk_.size()) fill();
    return *this;
  }
  Bytes operator++(int) {
    Bytes old = *this;
    ++*this;
    return old;
  }
  bool operator==(const Bytes& other) const { return ended() == other.ended(); }
  bool operator!=(const Bytes& other) const { return !(*this == other); }

 private:
  [[nodiscard]] bool ended() const { return at_ == chunk_.size(); }
  void fill() {
    constexpr std::size_t kChunk = std::size_t{1} << 16U;
    reader_->skip(chunk_.size());
    chunk_ = reader_->peek(kChunk);
    at_ = 0;
  }
  ByteReader* reader_ = nullptr;
  std::string_view chunk_;
  std::size_t at_ = 0;
};

// One record of a table, with the ways its fields are spelt.
class Record {
 public:
  Record(const std::string& file, std::string_view table, std::size_t index, const json& object)
      : file_(file), table_(table), index_(index), object_(object) {}

  [[nodiscard]] std::string text(std::initializer_list<const char*> keys) const {
    const json* v = find(keys);
    if (v == nullptr || v->is_null()) return {};
    if (v->is_string()) return v->get<std::string>();
    return v->is_structured() ? std::string{} : v->dump();
  }
  /// A number or a text that is one; empty where absent.
  [[nodiscard]] std::optional<double> real(std::initializer_list<const char*> keys) const {
    const json* v = find(keys);
    if (v == nullptr || v->is_null()) return std::nullopt;
    if (v->is_number()) return finite(*keys.begin(), v->get<double>());
    if (v->is_string()) {
      const auto& s = v->get_ref<const std::string&>();
      if (s.empty()) return std::nullopt;
      double value = 0;
      const auto [end, ec] = isa::read_real(s.data(), s.data() + s.size(), value);
      if (ec == std::errc{} && end == s.data() + s.size()) return finite(*keys.begin(), value);
    }
    wrong(*keys.begin(), v->dump(), "a number");
  }
  [[nodiscard]] double required(std::initializer_list<const char*> keys) const {
    const auto value = real(keys);
    if (!value) wrong(*keys.begin(), "missing", "a number");
    return *value;
  }
  [[nodiscard]] std::optional<std::int64_t> integer(std::initializer_list<const char*> keys) const {
    const auto value = real(keys);
    if (!value) return std::nullopt;
    constexpr double kLimit = 4e18;
    return std::llround(std::clamp(*value, -kLimit, kLimit));
  }
  [[noreturn]] void wrong(const char* key, const std::string& found, const char* need) const {
    throw isa::Error(isa::Rule::profile_field,
                     file_ + ": " + std::string(table_) + "[" + std::to_string(index_) + "]." +
                         key + " is " + found.substr(0, 80) + "; " + need + " is required");
  }

 private:
  [[nodiscard]] const json* find(std::initializer_list<const char*> keys) const {
    for (const char* key : keys) {
      const auto it = object_.find(key);
      if (it != object_.end()) return &*it;
    }
    return nullptr;
  }
  double finite(const char* key, double value) const {
    if (!std::isfinite(value)) wrong(key, "not finite", "a finite number");
    return value;
  }
  const std::string& file_;
  std::string_view table_;
  std::size_t index_;
  const json& object_;
};

constexpr std::array<std::pair<std::string_view, isa::Unit>, 13> kUnits = {{
    {"tensormatrix", isa::Unit::kTensorMatrix},
    {"tensor", isa::Unit::kTensor},
    {"pe", isa::Unit::kTensor},
    {"vector", isa::Unit::kVector},
    {"dve", isa::Unit::kVector},
    {"scalar", isa::Unit::kScalar},
    {"act", isa::Unit::kScalar},
    {"activation", isa::Unit::kScalar},
    {"gpsimd", isa::Unit::kGpSimd},
    {"pool", isa::Unit::kGpSimd},
    {"gp-simd", isa::Unit::kGpSimd},
    {"sync", isa::Unit::kSync},
    {"sp", isa::Unit::kSync},
}};

std::optional<isa::Unit> find_unit(std::string_view text) {
  const std::string lower = isa::lower_case(text);
  for (const auto& [name, unit] : kUnits) {
    if (lower == name) return unit;
  }
  return std::nullopt;
}

// "S[24] (qSyncIO0)" or "24" or "-1".
int semaphore_number(std::string_view text) {
  const std::size_t digit = text.find_first_of("0123456789");
  if (digit == std::string_view::npos || text.find('-') < digit) return -1;
  int value = -1;
  std::from_chars(text.data() + digit, text.data() + text.size(), value);
  return value;
}

// Collects records while the parser runs, so that a file never is in memory as a whole.
class Collector {
 public:
  explicit Collector(HwProfile& profile) : profile_(profile) {}

  bool on_event(int depth, json::parse_event_t event, json& value) {
    using Event = json::parse_event_t;
    if (depth == 1 && event == Event::key) {
      table_ = value.get<std::string>();
      const std::string lower = isa::lower_case(table_);
      reader_ = find(lower);
      index_ = 0;
      return reader_ != nullptr;
    }
    // A table is a list of records; summary and metadata may be a bare record.
    const bool bare = reader_ == &Collector::read_summary || reader_ == &Collector::read_metadata;
    const bool record = depth == 2 || (depth == 1 && bare);
    if (!record || event != Event::object_end || reader_ == nullptr) return true;
    (this->*reader_)(Record(profile_.file, table_, index_++, value));
    return false;
  }
  void finish();

 private:
  using Reader = void (Collector::*)(const Record&);
  static Reader find(std::string_view table);
  void read_instruction(const Record& r);
  void read_packet(const Record& r);
  void read_queue(const Record& r);
  void read_throttle(const Record& r);
  void read_semaphore(const Record& r);
  void read_metadata(const Record& r);
  void read_summary(const Record& r);
  void name_queues();
  void number_cores();
  void scale_times();
  void warn(std::string text) { profile_.warnings.push_back(std::move(text)); }

  HwProfile& profile_;
  std::string table_;
  std::size_t index_ = 0;
  Reader reader_ = nullptr;
  double ticks_per_ns_ = 1;
  std::map<std::string, std::size_t> other_engines_;
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> queue_names_;
};

Collector::Reader Collector::find(std::string_view table) {
  static const std::map<std::string_view, Reader> kReaders = {
      {"instruction", &Collector::read_instruction},
      {"instructions", &Collector::read_instruction},
      {"dma", &Collector::read_packet},
      {"dmapacket", &Collector::read_packet},
      {"dma_packet", &Collector::read_packet},
      {"dma_queues_info", &Collector::read_queue},
      {"dmaqueuesinfo", &Collector::read_queue},
      {"ham", &Collector::read_throttle},
      {"semaphore_update", &Collector::read_semaphore},
      {"semaphoreupdate", &Collector::read_semaphore},
      {"metadata", &Collector::read_metadata},
      {"summary", &Collector::read_summary},
  };
  const auto it = kReaders.find(table);
  return it == kReaders.end() ? nullptr : it->second;
}

std::string core_of(const Record& r) {
  const std::string physical = r.text({"pcore_idx"});
  return physical.empty() ? r.text({"subgraph"}) : "core " + physical;
}

void Collector::read_instruction(const Record& r) {
  HwInstruction i;
  i.record = index_ - 1;
  const std::string engine = r.text({"subgroup", "engine"});
  const std::string row = r.text({"label", "timeline_track"});
  auto unit = find_unit(engine);
  const auto row_unit = find_unit(row);
  if (!unit || (row_unit == isa::Unit::kTensorMatrix)) unit = row_unit ? row_unit : unit;
  if (!unit) {
    ++other_engines_[engine.empty() ? row : engine];
    return;
  }
  i.unit = *unit;
  i.start = r.required({"timestamp", "start_ts"});
  i.duration = r.required({"duration", "duration_ns"});
  i.wait = r.real({"evt_wait_time", "evt_wait_time_ns"});
  i.id = r.text({"id"});
  i.name = r.text({"bir_instruction_name", "kernel_instruction_name"});
  i.opcode = r.text({"opcode"});
  if (i.opcode.empty()) i.opcode = "unknown";
  i.operands = r.text({"operands"});
  i.subgraph = core_of(r);
  i.location = r.text({"nki_source_location", "bir_debug_info_source_location"});
  i.compiler_opcode = r.text({"compiler_opcode"});
  i.compiler_operands = r.text({"compiler_operands"});
  i.performance_mode = r.text({"performance_mode"});
  i.pc = r.integer({"pc"}).value_or(-1);
  i.from_compiler = r.integer({"compiler_pc"}).value_or(-1) >= 0;
  i.transpose = r.text({"instruction_type", "tensor_instruction_type"}) == "TRANSPOSE";
  i.psum_write_bytes = r.integer({"psum_write_bytes"}).value_or(0);
  i.hbm_read_bytes = r.integer({"hbm_read_bytes"}).value_or(0);
  i.hbm_write_bytes = r.integer({"hbm_write_bytes"}).value_or(0);
  profile_.instructions.push_back(std::move(i));
}

void Collector::read_packet(const Record& r) {
  constexpr int kEngines = 16;
  HwPacket p;
  p.record = index_ - 1;
  p.start = r.required({"timestamp", "start_ts"});
  p.duration = r.required({"duration", "duration_ns"});
  p.bytes = r.integer({"transfer_size", "transfer_bytes", "write_size"}).value_or(0);
  p.queue = r.text({"dma_queue", "queue", "queue_idx"});
  p.kind = r.text({"queue_type"});
  p.subgraph = core_of(r);
  p.engine = static_cast<int>(std::abs(r.integer({"dma_engine", "engine"}).value_or(0)) % kEngines);
  p.index = r.integer({"packet_idx"}).value_or(-1);
  p.semaphore = semaphore_number(r.text({"semaphore_id"}));
  const std::string collective = isa::lower_case(r.text({"is_cc_dma"}));
  p.collective = collective == "yes" || collective == "true" || collective == "1";
  profile_.packets.push_back(std::move(p));
}

void Collector::read_queue(const Record& r) {
  const std::string name = r.text({"q_name", "name", "queue_name"});
  if (name.empty()) return;
  queue_names_[{core_of(r), r.text({"q_idx", "idx", "queue_idx"})}].push_back(name);
}

void Collector::read_throttle(const Record& r) {
  profile_.throttle.push_back({r.required({"timestamp", "start_ts"}),
                               r.required({"duration", "duration_ns"}),
                               static_cast<int>(r.integer({"k"}).value_or(0)),
                               static_cast<int>(r.integer({"n"}).value_or(0))});
}

void Collector::read_semaphore(const Record& r) {
  HwSemaphoreUpdate u;
  u.subgraph = core_of(r);
  u.semaphore = semaphore_number(r.text({"id"}));
  u.value = r.integer({"value"}).value_or(0);
  u.time = r.required({"timestamp", "start_ts"});
  if (u.semaphore >= 0) profile_.semaphores.push_back(std::move(u));
}

void Collector::read_metadata(const Record& r) {
  ticks_per_ns_ = r.real({"ticks_per_nanosec"}).value_or(1);
  if (profile_.instance_type.empty()) profile_.instance_type = r.text({"instance_type"});
}

void Collector::read_summary(const Record& r) {
  constexpr double kNsPerSecond = 1e9;
  if (profile_.total_time == 0) {
    profile_.total_time = r.real({"total_time"}).value_or(0) * kNsPerSecond;
  }
  const std::string type = r.text({"instance_type"});
  if (!type.empty()) profile_.instance_type = type;
}

// Several queues may share a number on different engines; then the number alone names nothing.
void Collector::name_queues() {
  for (HwPacket& p : profile_.packets) {
    const auto it = queue_names_.find({p.subgraph, p.queue});
    if (it == queue_names_.end()) continue;
    const auto& names = it->second;
    if (std::all_of(names.begin(), names.end(), [&](const auto& n) { return n == names[0]; })) {
      p.queue = names[0];
    }
  }
}

// Cores are the subgraphs that run kernel instructions, in order of name; if none can be found
// apart, all that run anything.
void Collector::number_cores() {
  std::map<std::string, int> kernel, all;
  for (const HwInstruction& i : profile_.instructions) {
    all[i.subgraph] = 0;
    if (i.from_compiler && i.opcode != "SET_ORDERING_MODE") kernel[i.subgraph] = 0;
  }
  std::map<std::string, int>& ids = kernel.empty() ? all : kernel;
  for (auto& [name, id] : ids) {
    id = static_cast<int>(profile_.cores.size());
    profile_.cores.push_back(name);
  }
  const auto number = [&ids](const std::string& name) {
    const auto it = ids.find(name);
    return it == ids.end() ? -1 : it->second;
  };
  for (HwInstruction& i : profile_.instructions) i.core = number(i.subgraph);
  for (HwPacket& p : profile_.packets) p.core = number(p.subgraph);
  for (HwSemaphoreUpdate& u : profile_.semaphores) u.core = number(u.subgraph);
}

// Some versions count in ticks although others with the same metadata count in nanoseconds: the
// summary's total time decides.
void Collector::scale_times() {
  if (profile_.total_time <= 0 || ticks_per_ns_ <= 1) return;
  double first = HUGE_VAL, last = -HUGE_VAL;
  for (const HwInstruction& i : profile_.instructions) {
    first = std::min(first, i.start);
    last = std::max(last, i.start + i.duration);
  }
  const double ratio = (last - first) / profile_.total_time;
  if (ratio < std::sqrt(ticks_per_ns_)) return;
  const auto scale = [this](double& t) { t /= ticks_per_ns_; };
  for (HwInstruction& i : profile_.instructions) {
    scale(i.start);
    scale(i.duration);
    if (i.wait) scale(*i.wait);
  }
  for (HwPacket& p : profile_.packets) {
    scale(p.start);
    scale(p.duration);
  }
  for (HwThrottle& t : profile_.throttle) {
    scale(t.start);
    scale(t.duration);
  }
  for (HwSemaphoreUpdate& u : profile_.semaphores) scale(u.time);
}

void Collector::finish() {
  if (profile_.instructions.empty()) {
    throw isa::Error(isa::Rule::profile_format,
                     profile_.file +
                         " has no instruction table with engine instructions; the JSON "
                         "of `neuron-profile view --output-format json` is required");
  }
  for (const auto& [engine, count] : other_engines_) {
    warn(std::to_string(count) + " instructions of engine '" + engine + "' are left out");
  }
  name_queues();
  number_cores();
  scale_times();
}

HwProfile read(ByteReader reader, const std::string& name) {
  HwProfile profile;
  profile.file = name;
  Collector collector(profile);
  try {
    const json rest = json::parse(Bytes(reader), Bytes(),
                                  [&collector](int depth, json::parse_event_t event, json& value) {
                                    return collector.on_event(depth, event, value);
                                  });
    if (!rest.is_object())
      isa::fail(isa::Rule::profile_format, profile.file + " is not a JSON object of tables");
  } catch (const json::exception& e) {
    std::string what = e.what();
    if (const std::size_t at = what.find("] "); at != std::string::npos) what.erase(0, at + 2);
    throw isa::Error(isa::Rule::profile_format, profile.file + " is not JSON: " + what);
  }
  collector.finish();
  return profile;
}

}  // namespace

std::string HwProfile::target() const {
  for (const char* known : {"trn1", "inf2", "trn2", "trn3"}) {
    if (instance_type.rfind(known, 0) == 0) return known;
  }
  return {};
}

HwProfile read_hw_profile(const std::string& path) { return read_hw_profile(path, path); }

HwProfile read_hw_profile(const std::string& path, const std::string& name) {
  return read(ByteReader::open(path), name);
}

HwProfile read_hw_profile_text(std::string_view bytes, const std::string& name) {
  return read(ByteReader::from_memory(bytes, name), name);
}

std::string instruction_key(const HwInstruction& inst) {
  if (!inst.id.empty()) return inst.id;
  return std::string(isa::name(inst.unit)) + "/" + std::to_string(inst.pc) + "/" +
         std::to_string(std::llround(inst.start));
}

}  // namespace nkisim
