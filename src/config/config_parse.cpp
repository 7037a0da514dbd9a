// JSON to models::Config.
#include <algorithm>
#include <array>
#include <utility>

#include "isa/base/error.hpp"
#include "isa/base/machine.hpp"
#include "isa/base/part.hpp"
#include "src/config/config_collectives.hpp"
#include "src/config/config_json.hpp"
#include "src/config/config_reader.hpp"

namespace nkisim {
namespace {

using models::Config;

constexpr std::array<std::string_view, 4> kKinds = {"pipe", "sequencer", "array", "dma_trigger"};

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

models::CostRule rule(ConfigReader in) {
  models::CostRule r;
  match_conditions(in, r);
  const std::string kind = in.text("kind");
  const auto k = std::find(kKinds.begin(), kKinds.end(), kind);
  if (k == kKinds.end()) in.fail("kind", "pipe, sequencer, array or dma_trigger is required");
  r.kind = static_cast<models::PartKind>(k - kKinds.begin());
  r.fixed = in.time_or_zero("fixed");
  r.cycles_per_element = in.number_or("cycles_per_element", 0);
  r.fixed_cycles = in.number_or("fixed_cycles", 0);
  r.min_cycles = in.number_or("min_cycles", 0);
  r.overlap = in.time_or_zero("overlap");
  r.mode = in.text_or("performance_mode", "");
  r.assumed =
      in.confidence("fixed") == "assumed" || in.confidence("cycles_per_element") == "assumed";
  r.documented = in.confidence("cycles_per_element") == "documented";
  in.finish();
  return r;
}

models::CostExtra extra(ConfigReader in) {
  models::CostExtra e;
  match_conditions(in, e);
  e.fixed = in.time_or_zero("fixed");
  e.stream_factor = in.number_or("stream_factor", 1);
  e.min_cycles = in.number_or("min_cycles", 0);
  in.finish();
  return e;
}

models::EngineConfig engine_config(ConfigReader in) {
  models::EngineConfig e;
  e.clock_ghz = in.number("clock");
  if (e.clock_ghz <= 0) in.fail("clock/value", "a clock above 0 GHz is required");
  e.start = in.time("start");
  e.issue = in.time("issue");
  e.issue_after_sequencer = in.time("issue_after_sequencer");
  e.gap = in.time("gap");
  e.wake = in.time("wake");
  e.wake_sequencer = in.time("wake_sequencer");
  e.update = in.time("update");
  in.finish();
  return e;
}

models::ArrayConfig array_config(ConfigReader in) {
  models::ArrayConfig a;
  a.lead = in.time("lead");
  a.lead_throttled = in.time("lead_throttled");
  a.bubble = in.time("bubble");
  a.bubble_throttled = in.time("bubble_throttled");
  a.background_load = in.flag("background_load");
  a.tile = static_cast<std::int32_t>(in.integer("tile"));
  if (a.tile < 1 || a.tile > isa::kPartitions) in.fail("tile/value", "1 to 128 is required");
  in.finish();
  return a;
}

models::ThrottleConfig throttle(ConfigReader in) {
  models::ThrottleConfig t;
  t.enabled = in.flag("enabled");
  t.window = in.time("window");
  t.rise = in.number("rise");
  t.fall = in.number("fall");
  t.slow_rate = in.number("slow_rate");
  t.first_boundary = in.time("first_boundary");
  if (t.enabled && t.window <= 0) in.fail("window/value", "more than 0 ns is required");
  if (t.fall > t.rise) in.fail("fall/value", "at most rise is required");
  if (t.slow_rate <= 0 || t.slow_rate > 1) in.fail("slow_rate/value", "(0, 1] is required");
  in.finish();
  return t;
}

models::DgeConfig dge(ConfigReader in) {
  models::DgeConfig d;
  d.available = in.flag("available");
  ConfigReader trigger = in.object("trigger");
  for (int e = 0; e < isa::kEngineCount; ++e) {
    const auto i = static_cast<std::size_t>(e);
    d.trigger.at(i) = trigger.time(std::string(name(static_cast<isa::Engine>(e))));
  }
  trigger.finish();
  d.trigger_per_outstanding = in.time("trigger_per_outstanding");
  d.dynamic_trigger = in.time_or_zero("dynamic_trigger");
  d.short_run = in.time_or_zero("short_run");
  d.short_run_bytes = in.has("short_run_bytes") ? in.integer("short_run_bytes") : 0;
  d.holds_sequencer = in.flag("holds_sequencer");
  d.interval_base = in.time("interval_base");
  d.interval_per_descriptor = in.time("interval_per_descriptor");
  d.wake_base = in.time("wake_base");
  d.wake_per_descriptor = in.time("wake_per_descriptor");
  d.first_packet = in.time("first_packet");
  d.packet_bytes = in.integer("packet_bytes");
  d.queue_interval = in.time("queue_interval");
  d.queue_bytes = in.integer("queue_bytes");
  d.max_packet_bytes = in.integer("max_packet_bytes");
  in.finish();
  return d;
}

isa::DgeMode dge_mode(ConfigReader& in, const std::string& key) {
  const std::string text = in.choice(key);
  if (text == "software") return isa::DgeMode::kSwdge;
  if (text == "hardware") return isa::DgeMode::kHwdge;
  if (text == "static") return isa::DgeMode::kNone;
  in.fail(key + "/value", "software, hardware or static is required");
}

void dma_rates(ConfigReader& in, models::DmaConfig& d) {
  d.bytes_per_ns = in.number("bytes_per_ns");
  if (d.bytes_per_ns <= 0) in.fail("bytes_per_ns/value", "more than 0 is required");
  d.packet_gap = in.time("packet_gap");
  d.packet_overlap = in.time("packet_overlap");
  d.compute_extra = in.time("compute_extra");
  d.hbm_read_latency = in.time("hbm_read_latency");
  d.store_floor = in.time("store_floor");
  d.load_floor = in.time("load_floor");
  d.floor_max_bytes = in.integer("floor_max_bytes");
  d.piece_gap = in.time_or_zero("piece_gap");
  d.piece_full_bytes = in.has("piece_full_bytes") ? in.integer("piece_full_bytes") : 0;
  d.split_bytes = in.has("split_bytes") ? in.integer("split_bytes") : 0;
  d.hbm_stall_fraction = in.number("hbm_stall_fraction");
  d.hbm_write_stall_fraction = in.number("hbm_write_stall_fraction");
  d.hbm_stall_quantum = in.time("hbm_stall_quantum");
  if (d.hbm_stall_quantum <= 0) in.fail("hbm_stall_quantum/value", "more than 0 is required");
  d.cold_penalty = in.time("cold_penalty");
  d.cold_idle = in.time("cold_idle");
  d.cold_full_bytes = std::max<std::int64_t>(1, in.integer("cold_full_bytes"));
  d.semaphore_packet = in.time("semaphore_packet");
  d.semaphore_latency = in.time("semaphore_latency");
  d.semaphore_serial = in.time("semaphore_serial");
  d.stagger = in.times("stagger");
  d.read_stagger_factor = in.number("read_stagger_factor");
  d.read_stagger_bytes = in.integer("read_stagger_bytes");
  d.transpose_from_hbm = in.number("transpose_from_hbm");
  d.transpose_from_sbuf = in.number("transpose_from_sbuf");
}

models::DmaConfig dma(ConfigReader in) {
  models::DmaConfig d;
  d.engines = static_cast<int>(in.integer("engines"));
  if (d.engines < 1 || d.engines > 256) in.fail("engines/value", "1 to 256 is required");
  dma_rates(in, d);
  d.rows_per_engine = in.integer("rows_per_engine");
  if (d.rows_per_engine < 1) in.fail("rows_per_engine/value", "at least 1 is required");
  ConfigReader modes = in.object("default_mode");
  for (int e = 0; e < isa::kEngineCount; ++e) {
    const std::string key(name(static_cast<isa::Engine>(e)));
    d.default_mode.at(static_cast<std::size_t>(e)) = dge_mode(modes, key);
  }
  modes.finish();
  d.software = dge(in.object("software"));
  d.hardware = dge(in.object("hardware"));
  d.fixed = dge(in.object("static"));
  in.finish();
  return d;
}

models::HbmConfig hbm(ConfigReader in) {
  models::HbmConfig h;
  h.bytes_per_ns = in.number("bytes_per_ns");
  in.finish();
  return h;
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

models::CompilerConfig compiler(ConfigReader in) {
  models::CompilerConfig c;
  c.infer_dependences = in.flag("infer_dependences");
  c.waits_per_instruction = static_cast<int>(in.integer("waits_per_instruction"));
  if (c.waits_per_instruction < 1) in.fail("waits_per_instruction/value", "at least 1 is required");
  c.dma_queues_per_engine = static_cast<int>(in.integer("dma_queues_per_engine"));
  if (c.dma_queues_per_engine < 1 || c.dma_queues_per_engine > 16) {
    in.fail("dma_queues_per_engine/value", "1 to 16 is required");
  }
  in.finish();
  return c;
}

}  // namespace

Config parse_config(const nlohmann::json& config) {
  ConfigReader in(config, "");
  Config c;
  in.ignore("$schema");
  c.name = in.text("name");
  c.target = in.text("target");
  if (!isa::find_machine(c.target)) in.fail("target", "trn1, inf2, trn2 or trn3 is required");
  c.instance_type = in.text("instance_type");
  c.base_clock_ghz = in.number("base_clock");
  c.pe_rows = static_cast<int>(in.integer("pe_rows"));
  c.pe_columns = static_cast<int>(in.integer("pe_columns"));
  ConfigReader engines = in.object("engines");
  for (int e = 0; e < isa::kEngineCount; ++e) {
    const auto i = static_cast<std::size_t>(e);
    c.engines.at(i) = engine_config(engines.object(std::string(name(static_cast<isa::Engine>(e)))));
  }
  engines.finish();
  for (ConfigReader& row : in.objects("rules")) c.rules.push_back(rule(row));
  for (ConfigReader& row : in.objects("extras")) c.extras.push_back(extra(row));
  c.array = array_config(in.object("array"));
  c.throttle = throttle(in.object("throttle"));
  c.dma = dma(in.object("dma"));
  c.hbm = hbm(in.object("hbm"));
  c.topology = parse_topology(in.object("topology"));
  c.collectives = parse_collectives(in.object("collectives"));
  c.ports = ports(in.object("ports"));
  c.compiler = compiler(in.object("compiler"));
  if (in.has("calibrated")) c.calibrated = calibrated(in.object("calibrated"));
  if (in.has("spread")) c.spreads = spreads(in.object("spread"));
  in.finish();
  return c;
}

}  // namespace nkisim
