// Implements `nkisim diff-profile`, which compares a simulated run with a device profile.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "isa/base/stable_order.hpp"
#include "src/cli/command.hpp"
#include "src/cli/hw_input.hpp"
#include "src/cli/options.hpp"
#include "src/config/config.hpp"
#include "src/device_profile/device_profile.hpp"
#include "src/files/files.hpp"
#include "src/job/job.hpp"
#include "src/log/log.hpp"
#include "src/trace/trace.hpp"

namespace nkisim::cli {
namespace {
namespace of_diff_profile {

namespace po = boost::program_options;
using Json = nlohmann::ordered_json;

constexpr double kPercent = 100;

void options(po::options_description& named, po::positional_options_description& positional,
             po::options_description& hidden) {
  add_options(named, "diff-profile");
  hidden.add_options()("sim", po::value<std::string>())("hw", po::value<std::string>());
  positional.add("sim", 1).add("hw", 1);
}

std::string format(const char* pattern, auto... values) {
  char line[512];
  std::snprintf(line, sizeof line, pattern, values...);
  return line;
}

bool is_trace(const std::string& path) {
  ByteReader reader = ByteReader::open(path);
  const std::string_view head = reader.peek(512);
  const std::size_t first = head.find_first_not_of(" \t\r\n");
  return first == std::string_view::npos || head[first] != '{' ||
         head.find("\"nisa\"") != std::string_view::npos;
}

TimedRun simulated_run(const Args& args, const HwProfile& hw) {
  const std::string path = required(args, "sim");
  auto overrides = texts(args, "set");
  if (std::filesystem::is_directory(path) || !is_trace(path)) {
    if (!overrides.empty() || args.count("config") != 0) {
      usage(isa::Rule::options_exclude,
            "--config and --set need a trace to simulate; " + path + " is a result");
    }
    return timed_run(read_profile_input(path));
  }
  const TraceFile trace = read_for(path, {}, text(args, "config"), texts(args, "set"));
  if (args.count("throttle-from-profile") != 0) {
    const auto phase = throttle_phase(hw);
    if (!phase)
      usage(isa::Rule::options_exclude,
            "--throttle-from-profile: the profile does not show the PE throttle");
    overrides.push_back("throttle.first_boundary=" + std::to_string(*phase));
  }
  const std::string config = args.count("config") != 0
                                 ? args["config"].as<std::string>()
                                 : std::string(trace.program->machine().target);
  return timed_run(trace, load_config(config, overrides));
}

Json spread_json(const ErrorSpread& s) {
  return {{"count", s.count}, {"median", s.median}, {"p90", s.p90}, {"max", s.worst}};
}

Json pair_json(const InstDiff& p) {
  return {{"key", p.measured.key},
          {"name", p.measured.name},
          {"engine", isa::name(p.measured.unit)},
          {"opcode", p.measured.opcode},
          {"core", p.measured.core},
          {"measured", {{"start_ns", p.measured.start}, {"duration_ns", p.measured.duration}}},
          {"simulated", {{"start_ns", p.simulated.start}, {"duration_ns", p.simulated.duration}}}};
}

Json to_json(const ProfileDiff& d) {
  Json j = {{"measured_total_ns", d.measured_total},
            {"simulated_total_ns", d.simulated_total},
            {"total_error", relative(d.simulated_total, d.measured_total)},
            {"matched_by", d.by_key ? "identity" : "order"},
            {"instructions", d.pairs.size()},
            {"only_measured", d.only_measured},
            {"only_simulated", d.only_simulated},
            {"duration_error", spread_json(d.duration)},
            {"start_error_ns", spread_json(d.start)},
            {"wait_error_ns", spread_json(d.wait)}};
  j["opcodes"] = Json::array();
  for (const OpcodeDiff& o : d.opcodes) {
    j["opcodes"].push_back({{"engine", o.unit},
                            {"opcode", o.opcode},
                            {"count", o.count},
                            {"measured_mean_ns", o.measured_mean},
                            {"simulated_mean_ns", o.simulated_mean},
                            {"duration_error", spread_json(o.duration)},
                            {"start_error_ns", spread_json(o.start)},
                            {"wait_error_ns", spread_json(o.wait)},
                            {"excess_ns", o.excess}});
  }
  j["engines"] = Json::array();
  for (const EngineDiff& e : d.engines) {
    j["engines"].push_back({{"core", e.core},
                            {"engine", e.engine},
                            {"measured_active_ns", e.measured},
                            {"simulated_active_ns", e.simulated},
                            {"error", relative(e.simulated, e.measured)}});
  }
  j["dma"] = {{"measured_packets", d.measured_packets},
              {"simulated_packets", d.simulated_packets},
              {"duration_error", spread_json(d.packet_duration)},
              {"start_error_ns", spread_json(d.packet_start)},
              {"measured_packet_time_ns", d.measured_packet_time},
              {"simulated_packet_time_ns", d.simulated_packet_time},
              {"measured_active_ns", d.measured_dma_active},
              {"simulated_active_ns", d.simulated_dma_active}};
  j["pairs"] = Json::array();
  for (const InstDiff& p : d.pairs) j["pairs"].push_back(pair_json(p));
  return j;
}

void print_overall(const ProfileDiff& d) {
  std::cout << format("total time      measured %10.0f ns   simulated %10.0f ns   %+.2f %%\n",
                      d.measured_total, d.simulated_total,
                      kPercent * relative(d.simulated_total, d.measured_total));
  std::cout << format("instructions    %zu compared, matched by %s", d.pairs.size(),
                      d.by_key ? "identity" : "order of opcodes");
  if (d.only_measured + d.only_simulated > 0) {
    std::cout << format("; %zu only measured, %zu only simulated", d.only_measured,
                        d.only_simulated);
  }
  std::cout << format("\nduration error  median %.2f %%   p90 %.2f %%   max %.1f %%\n",
                      kPercent * d.duration.median, kPercent * d.duration.p90,
                      kPercent * d.duration.worst);
  std::cout << format("start error     median %.0f ns   p90 %.0f ns   max %.0f ns\n",
                      d.start.median, d.start.p90, d.start.worst);
  std::cout << format("wait error      median %.0f ns   p90 %.0f ns   of %zu that wait\n",
                      d.wait.median, d.wait.p90, d.wait.count);
}

void print_engines(const ProfileDiff& d) {
  std::cout << "\nengine active   measured  simulated     error\n";
  for (const EngineDiff& e : d.engines) {
    const std::string name = d.engines.front().core == d.engines.back().core
                                 ? ""
                                 : " (core " + std::to_string(e.core) + ")";
    std::cout << format("  %-12s %9.0f  %9.0f  %+7.2f %%\n", (e.engine + name).c_str(), e.measured,
                        e.simulated, kPercent * relative(e.simulated, e.measured));
  }
}

void print_opcodes(const ProfileDiff& d) {
  std::cout << "\nopcode, worst first            count   mean ns: measured  simulated   "
               "|error| median    p90   start ns   wait ns\n";
  for (const OpcodeDiff& o : d.opcodes) {
    std::cout << format("  %-12s %-18s %5zu  %17.1f  %9.1f  %14.1f %%  %5.1f %%  %8.0f",
                        o.unit.c_str(), o.opcode.c_str(), o.count, o.measured_mean,
                        o.simulated_mean, kPercent * o.duration.median, kPercent * o.duration.p90,
                        o.start.median);
    std::cout << (o.wait.count > 0 ? format("  %8.0f\n", o.wait.median)
                                   : std::string("         -\n"));
  }
}

void print_dma(const ProfileDiff& d) {
  if (d.measured_packets + d.simulated_packets == 0) return;
  std::cout << format("\nDMA packets     measured %zu, simulated %zu\n", d.measured_packets,
                      d.simulated_packets);
  std::cout << format("  duration      median %.2f %%   p90 %.1f %%   sum %+.1f %%\n",
                      kPercent * d.packet_duration.median, kPercent * d.packet_duration.p90,
                      kPercent * relative(d.simulated_packet_time, d.measured_packet_time));
  std::cout << format("  start         median %.0f ns   p90 %.0f ns\n", d.packet_start.median,
                      d.packet_start.p90);
  std::cout << format("  any active    measured %.0f ns   simulated %.0f ns   %+.1f %%\n",
                      d.measured_dma_active, d.simulated_dma_active,
                      kPercent * relative(d.simulated_dma_active, d.measured_dma_active));
}

void print_pairs(std::vector<InstDiff> pairs, bool all, std::size_t top) {
  const auto error = [](const InstDiff& p) {
    return std::abs(p.simulated.duration - p.measured.duration);
  };
  isa::sort_stably(pairs, [&](const InstDiff& a, const InstDiff& b) {
    return all ? a.measured.start < b.measured.start : error(a) > error(b);
  });
  if (!all && pairs.size() > top) pairs.resize(top);
  std::cout << "\ninstruction                                            start ns: measured  "
               "simulated   duration ns: measured  simulated\n";
  for (const InstDiff& p : pairs) {
    std::cout << format("  %-12s %-18s %-22s %14.0f  %9.0f  %22.0f  %9.0f\n",
                        std::string(isa::name(p.measured.unit)).c_str(), p.measured.opcode.c_str(),
                        p.measured.name.c_str(), p.measured.start, p.simulated.start,
                        p.measured.duration, p.simulated.duration);
  }
}

int run(const Args& args) {
  const HwProfile hw = read_profile_input(required(args, "hw"));
  for (const std::string& w : hw.warnings) log::warn(w);
  const ProfileDiff d = diff_runs(simulated_run(args, hw), timed_run(hw));
  if (args.count("json") != 0) {
    std::cout << to_json(d).dump(1) << '\n';
    return kOk;
  }
  print_overall(d);
  print_engines(d);
  print_opcodes(d);
  print_dma(d);
  const std::size_t top = args["top"].as<std::size_t>();
  if (args.count("all") != 0 || top > 0) print_pairs(d.pairs, args.count("all") != 0, top);
  return kOk;
}

}  // namespace of_diff_profile
}  // namespace

const Command& diff_profile_command() {
  static const Command kCommand = {
      "diff-profile",
      "compare a simulated run with a device profile",
      "nkisim compare RUN HW.json[.gz] [options]",
      "  nkisim import-profile hw.json -o k.nisa && nkisim compare k.nisa hw.json\n"
      "  nkisim compare k.nisa hw.json --set dma.bytes_per_ns=25 --top 20\n"
      "  nkisim compare simulated_profile.json hw.json --json\n",
      "`nkisim diff-profile` is an older spelling.\n",
      of_diff_profile::options,
      of_diff_profile::run};
  return kCommand;
}

}  // namespace nkisim::cli
