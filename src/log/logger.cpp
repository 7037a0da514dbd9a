// Implements the simulator's log: filters messages by category and level, and writes them by
// spdlog.

#include "src/log/logger.hpp"

// Both libraries by their headers alone: nothing more to link or to ship.
#define FMT_HEADER_ONLY
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/ostream_sink.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>

#include "isa/base/error.hpp"

namespace nkisim::log {
namespace {

spdlog::level::level_enum level_of(Level level) {
  return static_cast<spdlog::level::level_enum>(std::min<int>(static_cast<int>(level), 4) +
                                                (level == Level::kOff ? 2 : 0));
}

// A command's warnings are the program's own words; every other line names its category.
class CategoryFlag : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& msg, const std::tm&,
              spdlog::memory_buf_t& out) override {
    constexpr std::string_view kBetween = ": ";
    if (msg.logger_name == std::string_view(category_names().front())) return;
    out.append(msg.logger_name.data(), msg.logger_name.data() + msg.logger_name.size());
    out.append(kBetween.data(), kBetween.data() + kBetween.size());
  }
  [[nodiscard]] std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<CategoryFlag>();
  }
};

std::shared_ptr<spdlog::sinks::sink> stream_sink(std::ostream& out) {
  auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(out);
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<CategoryFlag>('*').set_pattern("nkisim: %l: %*%v");
  sink->set_formatter(std::move(formatter));
  return sink;
}

std::shared_ptr<spdlog::sinks::sink> file_sink(const std::string& file) {
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file);
    sink->set_pattern("%Y-%m-%d %H:%M:%S.%e [%l] %n: %v");
    return sink;
  } catch (const spdlog::spdlog_ex&) {
    isa::fail(isa::Rule::file_unwritable, file + ": the log cannot be written");
  }
}

// One for the process, as what it writes to is.
struct Logger {
  std::mutex mutex;
  std::array<std::shared_ptr<spdlog::logger>, kCategories> categories;
  Levels said = quiet_levels(), listened;
  Listener listener;
  std::array<std::atomic<Level>, kCategories> lowest;

  Logger() {
    listened.fill(Level::kOff);
    settle();
  }
  void settle() {
    for (std::size_t r = 0; r < kCategories; ++r) {
      const Level own = categories[r] ? said[r] : Level::kOff;
      lowest[r].store(std::min(own, listened[r]), std::memory_order_relaxed);
    }
  }
};

Logger& logger() {
  static Logger one;
  return one;
}

}  // namespace

void start(const Settings& settings, std::ostream& errors) {
  const auto stream = stream_sink(errors);
  const auto file = settings.file.empty() ? nullptr : file_sink(settings.file);
  Logger& l = logger();
  const std::scoped_lock lock(l.mutex);
  for (std::size_t r = 0; r < kCategories; ++r) {
    std::vector<spdlog::sink_ptr> sinks;
    if (file) sinks.push_back(file);
    if (!file || r == static_cast<std::size_t>(Category::kCommand)) sinks.push_back(stream);
    auto made = std::make_shared<spdlog::logger>(std::string(category_names()[r]), sinks.begin(),
                                                 sinks.end());
    made->set_level(level_of(settings.levels[r]));
    made->flush_on(spdlog::level::info);
    l.categories[r] = std::move(made);
  }
  l.said = settings.levels;
  l.settle();
}

void start(std::ostream& errors, std::string_view more) {
  Settings settings = environment_settings();
  if (!more.empty()) settings = parse_settings(more, "--log-level", settings);
  start(settings, errors);
}

void listen(const Levels& levels, Listener listener) {
  Logger& l = logger();
  const std::scoped_lock lock(l.mutex);
  l.listener = std::move(listener);
  l.listened = levels;
  if (!l.listener) l.listened.fill(Level::kOff);
  l.settle();
}

bool on(Category category, Level level) {
  const auto r = static_cast<std::size_t>(category);
  return level >= logger().lowest[r].load(std::memory_order_relaxed);
}

void say(Category category, Level level, std::string_view text) {
  if (!on(category, level)) return;
  const auto r = static_cast<std::size_t>(category);
  Logger& l = logger();
  std::shared_ptr<spdlog::logger> own;
  Listener listener;
  {
    const std::scoped_lock lock(l.mutex);
    own = l.categories[r];
    if (level >= l.listened[r]) listener = l.listener;
  }
  if (own) own->log(level_of(level), spdlog::string_view_t(text.data(), text.size()));
  if (listener) listener(category, level, text);
}

}  // namespace nkisim::log
