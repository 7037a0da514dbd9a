// Converts the JSON of a machine description (configs/*.json) to the struct models::Config.
#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "isa/base/error.hpp"
#include "isa/base/machine.hpp"
#include "isa/base/part.hpp"
#include "src/config/config_collectives.hpp"
#include "src/config/config_json.hpp"
#include "src/config/config_values.hpp"

namespace nkisim {
namespace {

using models::Config;

std::uint32_t features(ConfigReader& row, const std::string& key) {
  std::uint32_t mask = 0;
  for (const std::string& text : row.texts(key)) {
    const auto feature = isa::parse_feature(text);
    if (!feature) row.fail(key, "\"" + text + "\" is not a known feature");
    mask |= *feature;
  }
  return mask;
}

std::uint32_t dtypes(ConfigReader& row) {
  std::uint32_t mask = 0;
  for (const std::string& text : row.texts("dtypes")) {
    const auto d = isa::parse_dtype(text);
    if (!d) row.fail("dtypes", "\"" + text + "\" is not a dtype");
    mask |= 1U << static_cast<unsigned>(*d);
  }
  return mask;
}

isa::Unit unit(ConfigReader& row) {
  const std::string text = row.text("unit");
  for (int u = 0; u < isa::kUnitCount; ++u) {
    if (name(static_cast<isa::Unit>(u)) == text) return static_cast<isa::Unit>(u);
  }
  row.fail("unit", "\"" + text + "\" is not a unit (Tensor, TensorMatrix, Vector, ...)");
}

isa::Engine engine(const ConfigReader& at, const std::string& text) {
  const auto e = isa::parse_engine(text);
  if (!e || *e == isa::Engine::kAny) at.fail("", "\"" + text + "\" is not an engine");
  return *e;
}

template <typename Row>
void match_conditions(ConfigReader& in, Row& row) {
  row.id = in.text("id");
  row.unit = unit(in);
  row.opcodes = in.texts("opcodes");
  row.present = features(in, "present");
  row.absent = features(in, "absent");
  row.dtypes = dtypes(in);
  in.ignore("note");
}

// A row, and the same with the defaults of its numbers that fewer than three measurements give.
template <typename Read>
auto with_otherwise(ConfigReader in, Read&& read) {
  ConfigReader again = in.otherwise();
  auto row = read(in);
  if (in.rests_on_few()) {
    row.otherwise = std::make_shared<const decltype(row)>(read(again));
  }
  return row;
}

models::CostRule rule(ConfigReader& in) {
  models::CostRule r;
  match_conditions(in, r);
  const std::string kind = in.text("kind");
  const auto k = std::find(kPartKindNames.begin(), kPartKindNames.end(), kind);
  if (k == kPartKindNames.end())
    in.fail("kind", "pipe, sequencer, array or dma_trigger is required");
  r.kind = static_cast<models::PartKind>(k - kPartKindNames.begin());
  r.fixed = in.time_or_zero("fixed");
  r.cycles_per_element = in.number_or("cycles_per_element", 0);
  r.fixed_cycles = in.number_or("fixed_cycles", 0);
  r.min_cycles = in.number_or("min_cycles", 0);
  r.overlap = in.time_or_zero("overlap");
  r.min_interval = in.time_or_zero("min_interval");
  r.mode = in.text_or("performance_mode", "");
  r.assumed =
      in.confidence("fixed") == "assumed" || in.confidence("cycles_per_element") == "assumed";
  r.documented = in.confidence("cycles_per_element") == "documented";
  in.finish();
  return r;
}

models::CostExtra extra(ConfigReader& in) {
  models::CostExtra e;
  match_conditions(in, e);
  e.fixed = in.time_or_zero("fixed");
  e.stream_factor = in.number_or("stream_factor", 1);
  e.min_cycles = in.number_or("min_cycles", 0);
  e.min_interval = in.time_or_zero("min_interval");
  e.whole_gap_cycles = in.number_or("whole_gap_cycles", 0);
  in.finish();
  return e;
}

models::ThrottleConfig throttle(const ConfigReader& in) {
  const auto t = read_section<models::ThrottleConfig>(in);
  if (t.enabled && t.window <= 0) in.fail("window/value", "more than 0 ns is required");
  if (t.fall > t.rise) in.fail("fall/value", "at most rise is required");
  return t;
}

models::DmaRates dma_rates(ConfigReader& in) {
  models::DmaRates d;
  read_values(in, d);
  in.finish();
  d.cold_full_bytes = std::max<std::int64_t>(1, d.cold_full_bytes);
  return d;
}

models::DmaConfig dma(ConfigReader in) {
  ConfigReader again = in.otherwise();
  models::DmaConfig d{dma_rates(in)};
  if (in.rests_on_few()) d.otherwise = std::make_shared<const models::DmaRates>(dma_rates(again));
  return d;
}

std::vector<models::PortRule> ports(ConfigReader in) {
  std::vector<models::PortRule> list;
  for (const std::string& key : in.keys()) {
    ConfigReader row = in.object(key);
    models::PortRule p;
    const std::string space = row.text("space");
    if (space != "sbuf" && space != "psum") row.fail("space", "sbuf or psum is required");
    p.space = space == "sbuf" ? isa::Space::kSbuf : isa::Space::kPsum;
    for (const std::string& e : row.texts("engines")) {
      p.engines |= 1U << static_cast<unsigned>(engine(row, e));
    }
    p.per_bank = row.plain_flag("per_bank");
    if (row.flag("enabled")) list.push_back(p);
    row.finish();
  }
  return list;
}

// target -> unit -> opcode -> sizes.
std::vector<models::Calibrated> calibrated(ConfigReader in) {
  std::vector<models::Calibrated> list;
  for (const std::string& target : in.keys()) {
    ConfigReader units = in.object(target);
    for (const std::string& unit : units.keys()) {
      ConfigReader opcodes = units.object(unit);
      for (const std::string& opcode : opcodes.keys()) {
        const auto [least, most] = opcodes.range(opcode);
        list.push_back({target, unit, opcode, least, most});
      }
    }
  }
  return list;
}

std::vector<models::Spread> spreads(ConfigReader in) {
  std::vector<models::Spread> list;
  for (const std::string& kind : in.keys()) {
    ConfigReader row = in.object(kind);
    models::Spread s{.kind = kind,
                     .low = row.number("low"),
                     .high = row.number("high"),
                     .widening = row.number("widening"),
                     .versions = row.number_or("versions", 0),
                     .targets = row.texts("targets")};
    if (!(s.low > 0) || s.high < s.low || s.low > 1e3 || s.high > 1e3) {
      row.fail("", "0 < low <= high <= 1000 is required");
    }
    if (s.widening < 0 || s.widening > 10) row.fail("widening/value", "0 to 10 is required");
    if (s.versions < 0 || s.versions > 10) row.fail("versions/value", "0 to 10 is required");
    row.finish();
    list.push_back(std::move(s));
  }
  return list;
}

}  // namespace

namespace {

// Paths of what a Machine has of a config.
constexpr std::array<std::string_view, 13> kSizes = {"pe_rows",
                                                     "pe_columns",
                                                     "sbuf_partition_bytes",
                                                     "psum_partition_bytes",
                                                     "psum_banks",
                                                     "hbm.chip_bytes",
                                                     "topology.cores_per_chip",
                                                     "engines.tensor.available",
                                                     "engines.vector.available",
                                                     "engines.scalar.available",
                                                     "engines.gpsimd.available",
                                                     "engines.sync.available",
                                                     "target"};

// The machine of a config's target, with the sizes that the config has.
isa::Machine machine(const Config& c) {
  isa::Machine m = *isa::find_machine(c.target);
  m.engine_mask = 0;
  for (std::size_t e = 0; e < c.engines.size(); ++e) {
    m.engine_mask |= (c.engines[e].available ? 1 : 0) << e;
  }
  m.pe_rows = c.pe_rows;
  m.pe_columns = c.pe_columns;
  m.cores_per_chip = c.topology.cores_per_chip;
  if (c.sbuf_partition_bytes != 0) m.sbuf_partition_bytes = c.sbuf_partition_bytes;
  if (c.psum_partition_bytes != 0) m.psum_partition_bytes = c.psum_partition_bytes;
  if (c.psum_banks != 0) m.psum_banks = c.psum_banks;
  if (c.hbm.chip_bytes != 0) m.hbm_chip_bytes = c.hbm.chip_bytes;
  return m;
}

}  // namespace

std::vector<std::string> size_overrides(const std::vector<std::string>& overrides) {
  std::vector<std::string> list;
  for (const std::string& one : overrides) {
    const std::string_view path = std::string_view(one).substr(0, one.find('='));
    if (std::find(kSizes.begin(), kSizes.end(), path) != kSizes.end()) list.push_back(one);
  }
  return list;
}

Config parse_config(const nlohmann::json& config) {
  ConfigReader in(config, "");
  Config c;
  in.ignore("$schema");
  c.name = in.text("name");
  c.target = in.text("target");
  if (isa::find_target(c.target) != c.target) {
    in.fail("target", "trn1, inf2, trn2 or trn3 is required");
  }
  c.instance_type = in.text("instance_type");
  read_values(in, static_cast<models::DeviceRates&>(c));
  ConfigReader engines = in.object("engines");
  for (int e = 0; e < isa::kEngineCount; ++e) {
    const auto i = static_cast<std::size_t>(e);
    c.engines.at(i) = read_section<models::EngineConfig>(
        engines.object(std::string(name(static_cast<isa::Engine>(e)))));
  }
  engines.finish();
  for (ConfigReader& row : in.objects("rules")) c.rules.push_back(with_otherwise(row, rule));
  for (ConfigReader& row : in.objects("extras")) c.extras.push_back(with_otherwise(row, extra));
  c.array = read_section<models::ArrayConfig>(in.object("array"));
  c.throttle = throttle(in.object("throttle"));
  c.dma = dma(in.object("dma"));
  c.hbm = read_section<models::HbmConfig>(in.object("hbm"));
  c.topology = parse_topology(in.object("topology"));
  c.collectives = parse_collectives(in.object("collectives"));
  c.ports = ports(in.object("ports"));
  c.compiler = read_section<models::CompilerConfig>(in.object("compiler"));
  if (in.has("calibrated")) c.calibrated = calibrated(in.object("calibrated"));
  if (in.has("spread")) c.spreads = spreads(in.object("spread"));
  in.finish();
  c.machine = machine(c);
  return c;
}

}  // namespace nkisim
