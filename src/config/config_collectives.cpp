#include "src/config/config_collectives.hpp"

#include <array>

namespace nkisim {
namespace {

constexpr std::array<std::string_view, 3> kWirings = {"torus", "chain", "switch"};
constexpr std::int64_t kMostChips = 1024;

int count(ConfigReader& in, const std::string& key, std::int64_t most) {
  const std::int64_t n = in.integer(key);
  if (n < 1 || n > most) in.fail(key + "/value", "1 to " + std::to_string(most) + " is required");
  return static_cast<int>(n);
}

double rate(ConfigReader& in, const std::string& key) {
  const double r = in.number(key);
  if (!(r > 0)) in.fail(key + "/value", "more than 0 B/ns is required");
  return r;
}

double share(ConfigReader& in, const std::string& key) {
  const double s = in.number(key);
  if (!(s > 0) || s > 1) in.fail(key + "/value", "(0, 1] is required");
  return s;
}

models::Algorithm algorithm(const ConfigReader& in, const std::string& text,
                            const std::string& key = "algorithm") {
  for (int a = 0; a < models::kAlgorithms; ++a) {
    const auto known = static_cast<models::Algorithm>(a);
    if (models::name(known) == text && known < models::Algorithm::kNone &&
        known != models::Algorithm::kOnChip)
      return known;
  }
  in.fail(key, "\"" + text + "\" is not one of mesh, rdh, kangaring, ring, direct, hierarchical");
}

std::uint32_t kinds(ConfigReader& in) {
  std::uint32_t mask = 0;
  for (const std::string& text : in.texts("kinds")) {
    std::uint32_t found = 0;
    for (int k = 0; k < models::kCollectiveKinds; ++k) {
      if (models::name(static_cast<models::CollectiveKind>(k)) == text) {
        found = 1U << static_cast<unsigned>(k);
      }
    }
    if (found == 0) in.fail("kinds", "\"" + text + "\" is not a collective operation");
    mask |= found;
  }
  return mask == 0 ? ~0U : mask;
}

// Another algorithm of a row; "none" takes back what a config inherits.
models::Algorithm other_algorithm(ConfigReader& in, const std::string& key) {
  if (!in.has(key)) return models::Algorithm::kNone;
  const std::string text = in.choice(key);
  return text == "none" ? models::Algorithm::kNone : algorithm(in, text, key);
}

models::SelectRule select_rule(ConfigReader in) {
  models::SelectRule r;
  r.id = in.text("id");
  r.kinds = kinds(in);
  r.min_chips = static_cast<int>(in.plain_integer_or("min_chips", 0));
  r.max_chips = static_cast<int>(in.plain_integer_or("max_chips", 0));
  r.min_instances = static_cast<int>(in.plain_integer_or("min_instances", 0));
  r.max_instances = static_cast<int>(in.plain_integer_or("max_instances", 0));
  r.whole_chips = in.plain_flag_or("whole_chips", false);
  r.max_bytes = static_cast<std::int64_t>(in.number_or("max_bytes", 0));
  if (r.max_bytes < 0) in.fail("max_bytes/value", "at least 0 is required");
  r.algorithm = algorithm(in, in.choice("algorithm"));
  r.or_else = other_algorithm(in, "or_else");
  r.after = other_algorithm(in, "after");
  r.above_bytes = static_cast<std::int64_t>(in.number_or("above_bytes", 0));
  if (r.above_bytes < 0) in.fail("above_bytes/value", "at least 0 is required");
  in.finish();
  return r;
}

models::AlgorithmConfig algorithm_config(ConfigReader in) {
  models::AlgorithmConfig a;
  a.base = in.time("base");
  a.step = in.time("step");
  a.peer = in.time_or_zero("peer");
  a.gather_share = share(in, "gather_share");
  a.reduce_share = share(in, "reduce_share");
  in.finish();
  return a;
}

}  // namespace

models::TopologyConfig parse_topology(ConfigReader in) {
  models::TopologyConfig t;
  t.cores_per_chip = count(in, "cores_per_chip", 8);
  t.cores_per_die = count(in, "cores_per_die", t.cores_per_chip);
  t.cores_per_stack = count(in, "cores_per_stack", t.cores_per_chip);
  t.rows = count(in, "rows", kMostChips);
  t.columns = count(in, "columns", kMostChips);
  const std::string wiring = in.choice("wiring");
  const auto known = std::find(kWirings.begin(), kWirings.end(), wiring);
  if (known == kWirings.end()) in.fail("wiring/value", "torus, chain or switch is required");
  t.wiring = static_cast<models::Wiring>(known - kWirings.begin());
  t.link_bytes_per_ns = rate(in, "link_bytes_per_ns");
  t.instances_per_server = count(in, "instances_per_server", kMostChips);
  t.server_link_bytes_per_ns = rate(in, "server_link_bytes_per_ns");
  t.network_bytes_per_ns = rate(in, "network_bytes_per_ns");
  t.cc_cores_per_core = count(in, "cc_cores_per_core", 16);
  t.streams = count(in, "streams", 16);
  in.finish();
  return t;
}

models::CollectiveConfig parse_collectives(ConfigReader in) {
  models::CollectiveConfig c;
  c.trigger_delay = in.time("trigger_delay");
  c.handshake = in.time("handshake");
  c.handshake_overlap = in.number("handshake_overlap");
  if (c.handshake_overlap < 0 || c.handshake_overlap > 1) {
    in.fail("handshake_overlap/value", "0 to 1 is required");
  }
  c.ring_bytes = in.integer("ring_bytes");
  if (c.ring_bytes < 0) in.fail("ring_bytes/value", "at least 0 is required");
  c.instruction = in.time("instruction");
  c.network_step = in.time("network_step");
  c.barrier = in.time("barrier");
  c.across_dies = in.time("across_dies");
  c.pair_bytes_per_ns = rate(in, "pair_bytes_per_ns");
  c.pair_across_dies_bytes_per_ns = rate(in, "pair_across_dies_bytes_per_ns");
  ConfigReader algorithms = in.object("algorithms");
  for (int a = 0; a < models::kAlgorithms; ++a) {
    const auto which = static_cast<models::Algorithm>(a);
    if (which == models::Algorithm::kNone) continue;
    c.algorithms.push_back(algorithm_config(algorithms.object(std::string(models::name(which)))));
  }
  algorithms.finish();
  for (ConfigReader& row : in.objects("select")) c.select.push_back(select_rule(row));
  in.finish();
  return c;
}

}  // namespace nkisim
