// Declares the private parts of the public C++ API (include/nkisim): the contents of its objects,
// and how the library's errors become public ones.
#pragma once

#include <string>
#include <utility>

#include "include/nkisim/nkisim.hpp"
#include "isa/base/error.hpp"
#include "src/job/job.hpp"

namespace nkisim::v1 {

struct Program::Inside {
  std::string name;   // the file, or what stands for it
  TraceFile trace;    // as it was read: what the program is asked about
  Programs programs;  // compiled for the jobs that run it

  Inside(std::string named, TraceFile read)
      : name(std::move(named)), trace(std::move(read)), programs(1) {}
};

/// The way into objects for the functions of this folder.
struct Access {
  static Program::Inside& of(const Program& program) { return *program.inside_; }
};

/// The same failure as users of the library meet it.
[[nodiscard]] Error public_error(const isa::Error& error);

/// Calls `what`; an isa::Error leaves as an Error.
template <typename Call>
auto translated(const Call& call) {
  try {
    return call();
  } catch (const isa::Error& e) {
    throw public_error(e);
  }
}

}  // namespace nkisim::v1
