// Tests the simulator's log: its settings as text, and the receivers of each message.
#include "src/log/log.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <vector>

#include "isa/base/error.hpp"

namespace nkisim::log {
namespace {

Level level(const Settings& s, Category category) {
  return s.levels[static_cast<std::size_t>(category)];
}

// Warnings to a stream that outlives it, as when a program begins.
std::ostringstream& fresh_stream() {
  static std::vector<std::unique_ptr<std::ostringstream>> streams;
  return *streams.emplace_back(std::make_unique<std::ostringstream>());
}

struct Quiet {
  ~Quiet() {
    listen(quiet_levels(), {});
    start(Settings(), fresh_stream());
  }
};

TEST_CASE("a log level alone is for every category, and the later setting counts") {
  const Settings all = parse_settings("debug", "--log-level");
  for (const Level l : all.levels) CHECK(l == Level::kDebug);
  CHECK(all.file.empty());

  const Settings one = parse_settings("compiler=trace,world=info", "--log-level");
  CHECK(level(one, Category::kCompiler) == Level::kTrace);
  CHECK(level(one, Category::kWorld) == Level::kInfo);
  CHECK(level(one, Category::kDma) == Level::kWarning);

  const Settings later = parse_settings("compiler=trace,info,waits=off", "--log-level");
  CHECK(level(later, Category::kCompiler) == Level::kInfo);
  CHECK(level(later, Category::kWaits) == Level::kOff);
  CHECK(level(parse_settings("warn", "x"), Category::kDma) == Level::kWarning);
}

TEST_CASE("text after a colon is a log file, commas and colons included") {
  const Settings s = parse_settings("dma=debug:/tmp/a,b:c.log", "NKISIM_LOG");
  CHECK(s.file == "/tmp/a,b:c.log");
  CHECK(level(s, Category::kDma) == Level::kDebug);
}

TEST_CASE("log settings extend earlier ones, and are read back from their text") {
  const Settings before = parse_settings("compiler=debug:run.log", "NKISIM_LOG");
  const Settings s = parse_settings("dma=info", "--log-level", before);
  CHECK(level(s, Category::kCompiler) == Level::kDebug);
  CHECK(level(s, Category::kDma) == Level::kInfo);
  CHECK(s.file == "run.log");
  const Settings again = parse_settings(format_settings(s), "NKISIM_LOG");
  CHECK(again.levels == s.levels);
  CHECK(again.file == s.file);
}

TEST_CASE("a wrong log setting is a usage error that names the option") {
  const auto said = [](const char* text) {
    try {
      (void)parse_settings(text, "NKISIM_LOG");
    } catch (const isa::Error& e) {
      CHECK(e.code() == isa::ErrorCode::kUsage);
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  CHECK(said("loud") ==
        "NKISIM_LOG is 'loud'; trace, debug, info, warning, error, off is required");
  CHECK(said("compiler=") ==
        "NKISIM_LOG is 'compiler='; trace, debug, info, warning, error, off is required");
  CHECK(said("engine=debug") ==
        "NKISIM_LOG is 'engine=debug'; one of command, compiler, dispatch, waits, dma, world, "
        "evaluator is required");
  CHECK(said("debug,") == "NKISIM_LOG is ''; trace, debug, info, warning, error, off is required");
  CHECK(said("debug:") == "NKISIM_LOG is 'debug:'; a file after ':' is required");
}

TEST_CASE("a command's warning has the program's name alone, others name their category") {
  const Quiet after;
  std::ostringstream& out = fresh_stream();
  start(parse_settings("compiler=debug", "x"), out);
  warn("a {brace} and 100 %");
  say(Category::kCompiler, Level::kDebug, "merge: 3 copies");
  say(Category::kCompiler, Level::kTrace, "unheard");
  say(Category::kDma, Level::kInfo, "unheard");
  CHECK(out.str() ==
        "nkisim: warning: a {brace} and 100 %\nnkisim: debug: compiler: merge: 3 copies\n");
}

TEST_CASE("a file takes the lines, at its end, and warnings are in both places") {
  const Quiet after;
  const auto path =
      std::filesystem::temp_directory_path() / ("nkisim_log" + std::to_string(getpid()));
  std::ofstream(path) << "before\n";
  std::ostringstream& out = fresh_stream();
  start(parse_settings("dma=info:" + path.string(), "x"), out);
  say(Category::kDma, Level::kInfo, "ring q0");
  warn("careful");
  start(Settings(), fresh_stream());
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  const std::string all = text.str();
  CHECK(all.starts_with("before\n2"));
  CHECK(all.find(" [info] dma: ring q0\n") != std::string::npos);
  CHECK(all.find(" [warning] command: careful\n") != std::string::npos);
  CHECK(out.str() == "nkisim: warning: careful\n");
  const std::string below = (path / "it.log").string();  // what holds it is a file
  CHECK_THROWS_WITH(start(parse_settings("info:" + below, "x"), out),
                    below + ": the log cannot be written");
  std::filesystem::remove(path);
}

TEST_CASE("a log listener receives what it asked for, whatever else is logged") {
  const Quiet after;
  std::ostringstream& out = fresh_stream();
  start(Settings(), out);
  CHECK_FALSE(on(Category::kWaits, Level::kInfo));
  CHECK(on(Category::kWaits, Level::kWarning));
  std::string received;
  Levels levels;
  levels.fill(Level::kOff);
  levels[static_cast<std::size_t>(Category::kWaits)] = Level::kTrace;
  listen(levels, [&](Category category, Level at, std::string_view text) {
    received += std::string(category_names()[static_cast<std::size_t>(category)]) + " " +
                std::string(level_names()[static_cast<std::size_t>(at)]) + " " + std::string(text);
  });
  CHECK(on(Category::kWaits, Level::kTrace));
  CHECK_FALSE(on(Category::kDma, Level::kInfo));
  say(Category::kWaits, Level::kTrace, "semaphore 3");
  warn("on the stream alone");
  CHECK(received == "waits trace semaphore 3");
  CHECK(out.str() == "nkisim: warning: on the stream alone\n");
}

}  // namespace
}  // namespace nkisim::log
