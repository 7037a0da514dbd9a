// Reads the collective algorithms and the links between chips of a machine description.

#include "src/config/config_collectives.hpp"

#include <utility>

#include "src/config/config_values.hpp"

namespace nkisim {
namespace {

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

}  // namespace

models::TopologyConfig parse_topology(ConfigReader in) {
  const auto t = read_section<models::TopologyConfig>(in);
  for (const auto& [key, cores] : {std::pair{"cores_per_die", t.cores_per_die},
                                   std::pair{"cores_per_stack", t.cores_per_stack}}) {
    if (cores > t.cores_per_chip) {
      in.fail(key + std::string("/value"),
              "1 to " + std::to_string(t.cores_per_chip) + " is required");
    }
  }
  return t;
}

models::CollectiveConfig parse_collectives(ConfigReader in) {
  models::CollectiveConfig c;
  read_values(in, static_cast<models::CollectiveRates&>(c));
  ConfigReader algorithms = in.object("algorithms");
  for (int a = 0; a < models::kAlgorithms; ++a) {
    const auto which = static_cast<models::Algorithm>(a);
    if (which == models::Algorithm::kNone) continue;
    c.algorithms.push_back(
        read_section<models::AlgorithmConfig>(algorithms.object(std::string(models::name(which)))));
  }
  algorithms.finish();
  for (ConfigReader& row : in.objects("select")) c.select.push_back(select_rule(row));
  in.finish();
  return c;
}

}  // namespace nkisim
