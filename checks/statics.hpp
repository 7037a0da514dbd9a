// Finds mistakes in a program without running it, such as waits that no semaphore increment can
// end.
#pragma once

#include <string>
#include <vector>

#include "isa/base/policy.hpp"
#include "isa/program/disasm.hpp"

namespace nkisim::checks {

/// One remark on one instruction. Those whose rule is a warning may be meant, as where the bytes
/// are thrown away.
struct Remark {
  const isa::Inst* inst = nullptr;
  isa::Rule rule{};
  std::string text;
};

/// Waits for a semaphore that nothing posts to, or for more than all posts of the program together
/// can give (errors); operands that nothing has written (warnings). Branches count as taken, loops
/// with bounds in registers as endless, so that only what never holds is named. At most
/// kMostRemarks.
[[nodiscard]] std::vector<Remark> static_remarks(const isa::Program& program,
                                                 const isa::SemaphoreNames& names = {});
inline constexpr std::size_t kMostRemarks = 100;

/// Remarks on a program as it was written, before a pass moves anything: inplace_remarks, tensors
/// in HBM whose addresses overlap, one of them written, and cores of several that send to
/// themselves.
[[nodiscard]] std::vector<Remark> written_remarks(const isa::Program& program);

/// Remarks on results of a program as it was written: unread_remarks, step_remarks; with `unread`
/// all findings of rules with RuleInfo::unread. Takes 1 us an instruction, so runs of time alone
/// look only where RulePolicy::asks_for_lost.
[[nodiscard]] std::vector<Remark> lost_remarks(const isa::Program& program, bool unread);

/// Throws Error, as a run does, at an instruction that certainly runs and uses a register that was
/// never set, or goes on in a reduction that nothing began. Branches, and loops that may have no
/// iteration, count as begun and set and are not judged.
void check_state(const isa::Program& program);

/// Remarks as errors of their rules, each with its place.
[[nodiscard]] std::vector<isa::Error> located(const isa::Program& program,
                                              const std::vector<Remark>& remarks);

/// The findings that are warnings under a policy; throws the first that is an error.
[[nodiscard]] std::vector<isa::Error> warnings(const std::vector<isa::Error>& found,
                                               const isa::RulePolicy& policy);

}  // namespace nkisim::checks
