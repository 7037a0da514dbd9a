// Declares the simulator's log. It writes a message of a category at a level to standard error or a
// file, and to listeners.
#pragma once

#include <functional>
#include <ostream>
#include <string_view>

#include "src/log/settings.hpp"

namespace nkisim::log {

/// Sends all further lines of the process to `errors`, which outlives it, or to the end of the
/// settings' file. Warnings of commands go to `errors` in any case. Throws Error if the file cannot
/// be written.
void start(const Settings& settings, std::ostream& errors);

/// As start() with the environment's NKISIM_LOG, and `more` in its place where that says otherwise.
/// Throws a usage Error where a text is no setting.
void start(std::ostream& errors, std::string_view more = {});

/// Lines of categories from `levels` on go to `listener` as well (Python's logging). The
/// listener may be called by any thread. Null ends it.
using Listener = std::function<void(Category, Level, std::string_view)>;
void listen(const Levels& levels, Listener listener);

/// True if something listens: a load and a comparison. Ask before you make a text.
[[nodiscard]] bool on(Category category, Level level);
/// Says it to who wants to know.
void say(Category category, Level level, std::string_view text);

/// A command's warning: "nkisim: warning: TEXT".
inline void warn(std::string_view text) { say(Category::kCommand, Level::kWarning, text); }

}  // namespace nkisim::log
