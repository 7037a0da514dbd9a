// Collects the functions of the simulator's log: the public header of src/log.
//
//   start, say, on, warn             the one logger, behind --log-level and NKISIM_LOG
//   Settings, parse_settings         which categories say what, and where to
//   listen                           further receivers: Python's logging
//   say_pass, run_log                the messages of the compiler and of a simulated run
//
// Within: spdlog is the business of logger.cpp alone.
#pragma once

#include "src/log/logger.hpp"
#include "src/log/run_log.hpp"
#include "src/log/settings.hpp"
