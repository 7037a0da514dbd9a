// Reads the instruction lines of a trace (a file of NKI instructions), from JSON to Inst.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/trace/json_line.hpp"
#include "src/trace/operand_text.hpp"
#include "src/trace/trace_file.hpp"

namespace nkisim {

/// Appends instruction objects to one trace's program.
class InstReader {
 public:
  explicit InstReader(TraceFile& trace);
  /// Throws isa::Error naming instruction, `line` and the kernel's own line if given.
  void read(Json object, std::uint32_t line);

 private:
  void read_fields(Json object, const isa::OpSpec& op, isa::Inst& inst);
  // Keys of the format's own, apart from those of the instruction itself.
  struct ReservedFields {
    isa::Sync sync;
    isa::Ordering ordering;
  };
  void read_reserved(Json value, isa::Inst& inst, ReservedFields& reserved);
  void read_waits(Json list, isa::Sync& sync) const;
  void read_posts(Json list, isa::Sync& sync) const;
  std::uint16_t semaphore(std::string_view what, Json value) const;
  const isa::DmaPlan* read_dma(Json value);
  isa::Arg read_arg(const isa::Param& param, Json value, int core);
  isa::Arg read_choice(const isa::Param& param, Json value) const;
  isa::Arg read_text(const isa::Param& param, Json value) const;
  isa::Arg read_int_list(const isa::Param& param, Json value) const;
  isa::Arg read_groups(const isa::Param& param, Json value) const;
  isa::Arg read_operand(const isa::Param& param, Json value, int core);
  isa::Arg read_operand_list(const isa::Param& param, Json value, int core);
  isa::Arg read_scalar_or_operand(const isa::Param& param, Json value, int core);
  const isa::OpSpec& find(Json name) const;

  TraceFile& trace_;
  isa::Program& program_;
  OperandReader operands_;
  std::unordered_map<std::string_view, const isa::OpSpec*> ops_;
  std::unordered_map<std::string, isa::SourceLoc> locs_;
  std::unordered_map<std::string, std::uint16_t> semaphore_ids_;
  std::vector<isa::Arg> args_;
};

/// "r3" to 3; empty if `text` is not a register.
[[nodiscard]] std::optional<std::int64_t> parse_register(std::string_view text);

}  // namespace nkisim
