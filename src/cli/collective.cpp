// Implements `nkisim collective`, which times one collective operation between ranks.
#include "models/collective/collective.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <iomanip>
#include <iostream>

#include "isa/base/error.hpp"
#include "src/cli/command.hpp"
#include "src/cli/options.hpp"
#include "src/config/config.hpp"

namespace nkisim::cli {
namespace {
namespace of_collective {

namespace po = boost::program_options;
using models::CollectiveKind;
using models::to_ns;

constexpr int kMostRanks = 4096, kDefaultRanks = 64;

void options(po::options_description& named, po::positional_options_description& positional,
             po::options_description& hidden) {
  add_options(named, "collective");
  hidden.add_options()("words", po::value<std::vector<std::string>>());
  positional.add("words", -1);
}

int ranks_of(const Args& args) {
  return given(args, "ranks") ? args["ranks"].as<int>() : kDefaultRanks;
}

CollectiveKind kind_of(const std::string& text) {
  std::string known;
  for (int k = 0; k < models::kCollectiveKinds; ++k) {
    const auto kind = static_cast<CollectiveKind>(k);
    if (text == models::name(kind)) return kind;
    known += (known.empty() ? "" : ", ") + std::string(models::name(kind));
  }
  usage(isa::Rule::option_value, "'" + text + "' is not one of " + known);
}

// "8K", "1MiB", "4096"
std::int64_t size_of(const std::string& text) {
  std::int64_t n = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, n);
  static constexpr std::array<std::string_view, 4> kUnits = {"B", "KiB", "MiB", "GiB"};
  const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  if (error == std::errc{} && n >= 0 && n < std::int64_t{1} << 40U) {
    if (unit.empty()) return n;
    for (std::size_t u = 0; u < kUnits.size(); ++u) {
      if (unit == kUnits.at(u) || unit == kUnits.at(u).substr(0, 1)) return n << (10 * u);
    }
  }
  usage(isa::Rule::option_value,
        "a size is a number of bytes, or of K, M or G (1024), not '" + text + "'");
}

std::vector<int> group_of(const Args& args, int ranks) {
  std::vector<int> group;
  if (!given(args, "group")) {
    for (int r = 0; r < ranks; ++r) group.push_back(r);
    return group;
  }
  const std::string text = args["group"].as<std::string>();
  for (const char* at = text.data(); at <= text.data() + text.size(); ++at) {
    int rank = 0;
    const auto [rest, error] = std::from_chars(at, text.data() + text.size(), rank);
    const bool ends = rest == text.data() + text.size();
    if (error != std::errc{} || (!ends && *rest != ',')) {
      usage(isa::Rule::option_value, "--group takes ranks, 0,1,2,3, not '" + text + "'");
    }
    group.push_back(rank);
    at = rest;
  }
  std::vector<int> sorted = group;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    usage(isa::Rule::option_value, "--group has a rank twice");
  }
  if (sorted.front() < 0 || sorted.back() >= ranks) {
    usage(isa::Rule::option_value,
          "--group takes ranks below " + std::to_string(ranks) + ", not '" + text + "'");
  }
  return group;
}

models::CollectiveRequest request_of(const Args& args, const std::vector<std::string>& words) {
  models::CollectiveRequest r{.kind = kind_of(words[0]), .ranks = group_of(args, ranks_of(args))};
  const auto n = static_cast<std::int64_t>(r.ranks.size());
  r.bytes = size_of(words[1]);
  if (r.kind == CollectiveKind::kAllGather) r.bytes /= n;
  if (r.kind == CollectiveKind::kPermute) {
    for (int i = 0; i < static_cast<int>(n); ++i) {
      r.pairs.emplace_back(i, (i + 1) % static_cast<int>(n));
    }
  }
  if (given(args, "sbuf")) r.memory = isa::Space::kSbuf;
  r.triggered.assign(r.ranks.size(), 0);
  r.triggered.back() = models::from_ns(args["skew"].as<double>());
  return r;
}

std::string_view name(models::CollectivePhase phase) {
  static constexpr std::array<std::string_view, 4> kNames = {"waiting", "handshake", "steps",
                                                             "data"};
  return kNames.at(static_cast<std::size_t>(phase));
}

nlohmann::ordered_json result(const models::CollectiveTiming& t, const models::Topology& topology,
                              const models::CollectiveRequest& request, double duration_ns) {
  nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < t.ranks.size(); ++i) {
    const models::RankTiming& r = t.ranks[i];
    nlohmann::ordered_json phases = nlohmann::ordered_json::array();
    for (const models::PhaseTime& p : r.phases) {
      phases.push_back(
          {{"phase", name(p.phase)}, {"start_ns", to_ns(p.start)}, {"end_ns", to_ns(p.end)}});
    }
    ranks.push_back({{"rank", request.ranks[i]},
                     {"start_ns", to_ns(r.start)},
                     {"end_ns", to_ns(r.end)},
                     {"phases", phases}});
  }
  nlohmann::ordered_json loads = nlohmann::ordered_json::object();
  for (const models::ServerLoad& l : t.loads) loads[topology.server_name(l.server)] = l.bytes;
  nlohmann::ordered_json parts = nlohmann::ordered_json::array();
  for (const models::CollectivePart& p : t.parts) {
    parts.push_back({{"algorithm", models::name(p.algorithm)},
                     {"reduces", p.reduces},
                     {"steps", p.steps},
                     {"latency_ns", to_ns(p.latency)},
                     {"data_ns", to_ns(p.data)}});
  }
  return {{"operation", models::name(request.kind)},
          {"algorithm", models::profile_name(t.algorithm)},
          {"steps", t.steps},
          {"input_bytes", t.input_bytes},
          {"output_bytes", t.output_bytes},
          {"duration_ns", duration_ns},
          {"parts", parts},
          {"ranks", ranks},
          {"bytes", loads}};
}

// From the first rank's start to the last one's end, over the operations.
double duration_ns(const models::Config& config, int lnc, int ranks,
                   const models::CollectiveRequest& request, int operations) {
  models::Collectives world(config, lnc, ranks);
  const models::Fs now = *std::max_element(request.triggered.begin(), request.triggered.end());
  std::vector<int> ids;
  for (int i = 0; i < operations; ++i) ids.push_back(world.start(request, now));
  std::vector<models::Collectives::RankDone> done;
  while (world.next() != models::kNever) world.advance(world.next(), done);
  models::Fs start = models::kNever, end = 0;
  for (const models::RankTiming& r : world.take(ids.front()).ranks)
    start = std::min(start, r.start);
  for (const auto& d : done) end = std::max(end, d.end);
  return to_ns(end - start) / operations;
}

void print(const nlohmann::ordered_json& r) {
  std::cout << r["operation"].get<std::string>() << ", " << r["ranks"].size()
            << " ranks: " << r["algorithm"].get<std::string>() << ", " << r["steps"] << " steps, "
            << std::fixed << std::setprecision(2) << r["duration_ns"].get<double>() / 1000
            << " us\n";
  for (const auto& p : r["ranks"].front()["phases"]) {
    std::cout << "  " << std::left << std::setw(10) << p["phase"].get<std::string>() << std::right
              << std::setw(12) << (p["end_ns"].get<double>() - p["start_ns"].get<double>()) / 1000
              << " us\n";
  }
}

int run(const Args& args) {
  const std::vector<std::string> words = texts(args, "words");
  if (words.size() != 2) usage(isa::Rule::option_value, "collective takes an operation and a size");
  models::Config config = load_config(machine_name(args), texts(args, "set"));
  if (given(args, "in-graph")) config.collectives.handshake = 0;
  const int ranks = ranks_of(args);
  const int lnc =
      given(args, "lnc") ? args["lnc"].as<int>() : std::min(2, config.topology.cores_per_stack);
  if (ranks < 1 || ranks > kMostRanks) usage(isa::Rule::option_value, "--ranks takes 1 to 4096");
  const int most = config.topology.cores_per_stack;
  if (lnc < 1 || lnc > most || config.topology.cores_per_chip % lnc != 0) {
    usage(isa::Rule::option_value,
          "--lnc takes 1 to " + std::to_string(most) + " on " + config.target);
  }
  const models::Collectives world(config, lnc, ranks);
  const models::CollectiveRequest request = request_of(args, words);
  const int operations = args["repeat"].as<int>();
  if (operations < 1 || operations > 100'000)
    usage(isa::Rule::option_value, "--repeat takes 1 to 100000");
  const nlohmann::ordered_json r = result(world.alone(request), world.topology(), request,
                                          duration_ns(config, lnc, ranks, request, operations));
  if (wants_json(args)) {
    print_json(r);
  } else {
    print(r);
  }
  return kOk;
}

}  // namespace of_collective
}  // namespace

const Command& collective_command() {
  static const Command kCommand = {
      "collective",
      "the time of one collective operation between ranks",
      "nkisim collective OPERATION SIZE [options]",
      "  nkisim collective all_reduce 8K --ranks 4\n"
      "  nkisim collective all_gather 64M --ranks 64 --json\n"
      "  nkisim collective permute 1M --ranks 8 --lnc 1 --group 0,2\n",
      "SIZE is the larger of a rank's input and output: the output of an all_gather. permute "
      "sends\neach rank's bytes to the next.\n",
      of_collective::options,
      of_collective::run};
  return kCommand;
}

}  // namespace nkisim::cli
