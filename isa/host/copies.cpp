// Computes numbers in forked processes, which write them into pipes:
//
//   copy c computes works c, c + copies, c + 2 copies, ..., and writes (work, number) after each
//   this process reads from all pipes, and asks go_on every 50 ms
#include "isa/host/copies.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <vector>

#include "isa/host/host.hpp"

namespace nkisim::isa::host {
namespace {

constexpr int kEveryMs = 50;

struct Answer {  // smaller than a pipe writes at once
  std::int64_t work = 0, number = 0;
};

// The life of one copy; what it throws ends it.
[[noreturn]] void live_as_copy(const CopyWork& work, std::size_t first, std::size_t step, int out) {
  end_with_parent(SIGKILL);
  try {
    for (std::size_t i = first; i < work.count; i += step) {
      const Answer answer{static_cast<std::int64_t>(i), work.compute(i)};
      if (write(out, &answer, sizeof answer) != sizeof answer) break;
    }
  } catch (...) {  // NOLINT(bugprone-empty-catch): the caller sees what is not done
  }
  _exit(0);  // nothing of the parent's is flushed twice
}

class Copies {
 public:
  Copies(const CopyWork& work, std::size_t copies) : work_(work) {
    for (std::size_t c = 0; c < copies; ++c) start(c, copies);
  }
  // Ends those that have not ended by themselves.
  ~Copies() {
    for (std::size_t c = 0; c < pipes_.size(); ++c) {
      kill(ids_[c], SIGKILL);
      end(c);
    }
  }
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  void wait() {
    while (!pipes_.empty()) {
      poll(pipes_.data(), static_cast<nfds_t>(pipes_.size()), kEveryMs);
      for (std::size_t c = pipes_.size(); c-- > 0;) {
        if (pipes_[c].revents == 0 || take(pipes_[c].fd)) continue;
        end(c);
        pipes_.erase(pipes_.begin() + static_cast<std::ptrdiff_t>(c));
        ids_.erase(ids_.begin() + static_cast<std::ptrdiff_t>(c));
      }
      if (!work_.go_on()) return;
    }
  }

 private:
  void start(std::size_t first, std::size_t step) {
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0) return;
    for (const int end : ends) fcntl(end, F_SETFD, FD_CLOEXEC);
    const pid_t id = fork();
    if (id == 0) live_as_copy(work_, first, step, ends[1]);
    close(ends[1]);
    if (id < 0) {
      close(ends[0]);
      return;
    }
    ids_.push_back(id);
    pipes_.push_back({.fd = ends[0], .events = POLLIN, .revents = 0});
  }

  void end(std::size_t copy) {
    close(pipes_[copy].fd);
    while (waitpid(ids_[copy], nullptr, 0) < 0 && errno == EINTR) {
    }
  }

  // False at the end of the pipe.
  bool take(int pipe) const {
    Answer answer;
    const ssize_t size = read(pipe, &answer, sizeof answer);
    if (size < 0 && errno == EINTR) return true;
    if (size != sizeof answer) return false;
    work_.done(static_cast<std::size_t>(answer.work), answer.number);
    return true;
  }

  const CopyWork& work_;
  std::vector<pollfd> pipes_;  // one of each copy
  std::vector<pid_t> ids_;
};

}  // namespace

void compute_in_copies(const CopyWork& work, std::size_t copies) {
  Copies(work, std::min(copies, work.count)).wait();
}

std::size_t copies_at_once() {
  const std::size_t at_once = processors();
  const std::int64_t own = resident_bytes();
  if (own <= 0) return at_once;
  const auto fit = static_cast<std::size_t>(std::max<std::int64_t>(1, memory_bytes() / own - 1));
  return std::min(at_once, fit);
}

}  // namespace nkisim::isa::host
