// Checks an instruction against its OpSpec (the op's description), and declares helpers for rules
// that single ops add.
#pragma once

#include <string>

#include "isa/program/op_spec.hpp"
#include "isa/program/program.hpp"

namespace nkisim::isa {

/// Generation, engine, argument kinds, spaces, dtypes, partition rules, bounds, then OpSpec::check.
/// Throws Error (kBadInput) naming operand, found and required; no location.
void check_inst(const Inst& inst, const Program& program);

/// check_inst of an instruction about whose arguments check_arg_kinds has been asked.
void check_all_but_kinds(const Inst& inst, const Program& program);
/// Checks that depend on addresses, for programs that get them after their instructions. Throws
/// Error at the first instruction with an operand at a forbidden address.
void check_placement(const Program& program);
/// Only number, presence and kinds of the arguments: what an op's pick_engine may rely on.
void check_arg_kinds(const Inst& inst);

/// True if an operand has more free dimensions than the pages of the program's release allow, and
/// the Error about it.
[[nodiscard]] bool too_deep(const Param& param, std::size_t free_dims, const Program& program);
[[noreturn]] void fail_rank(const Param& param, const std::string& found);

/// The rules of gathers and scatters through index tensors (kVector): which operands may use them.
void check_gathers(const Inst& inst, const OpSpec& op, const Program& program);
/// The first dynamic offset of `kind` on the operand; null if there is none.
[[nodiscard]] const DynamicOffset* find_dynamic(const TensorRef& ref, DynamicOffset::Kind kind);

/// "sbuf[128 x 512] bfloat16" — how messages and disassembly name an operand's shape.
[[nodiscard]] std::string describe(const TensorRef& ref);
/// True if the tensor engine's outputs must stay within one PSUM bank: before v4, and where the
/// program's addresses are the machine's.
[[nodiscard]] bool has_bank_rule(const Program& program);
/// Fails unless bytes first..last of a PSUM partition are in one bank.
void check_bank(std::string_view operand, std::int64_t first, std::int64_t last,
                const Machine& machine);
/// Start partition legal for `partitions` (0; 0/64 up to 64; 0/32/64/96 up to 32). ARCH1.
void check_start_partition(std::string_view operand, const TensorRef& ref);
/// Same rows and columns.
void check_same_shape(std::string_view a_name, const TensorRef& a, std::string_view b_name,
                      const TensorRef& b);
void check_same_rows(std::string_view a_name, const TensorRef& a, std::string_view b_name,
                     const TensorRef& b);
/// Not both in PSUM.
void check_not_both_psum(std::string_view a_name, const TensorRef& a, std::string_view b_name,
                         const TensorRef& b);
/// A [P,1] tile or a constant: if a tensor, `rows` partitions and one column.
void check_column(std::string_view operand, const Arg& arg, std::int64_t rows);
/// FP32 where the engine computes in FP32 scalars (tensor_scalar operands, activation scale).
void check_dtype(std::string_view operand, const TensorRef& ref, Dtypes allowed,
                 std::string_view required);

}  // namespace nkisim::isa
