// Declares what DMA instructions share: descriptor mode, triggering engine, pieces, stored values.
#pragma once

#include "isa/ops/shared/common.hpp"

namespace nkisim::isa {

/// Engines whose sequencer may trigger a transfer; sync first.
inline constexpr std::array<EngineRule, 3> kDmaTriggers = {
    {{Engine::kSync}, {Engine::kScalar}, {Engine::kGpSimd}}};
/// nki.isa.dge_mode and oob_mode, in the order of their values.
inline constexpr std::array<std::string_view, 4> kDgeModes = {"unknown", "swdge", "hwdge", "none"};
inline constexpr std::array<std::string_view, 2> kOobModes = {"error", "skip"};
inline constexpr std::string_view kPriorityDoc = "0 (most urgent) to 3; trn3 only";

/// The facts that decide how a transfer's descriptors are made.
struct DmaRequest {
  DgeMode mode = DgeMode::kUnknown;  // as asked for
  bool gather = false;               // some operand has a vector_offset
  bool cast = false;                 // dtypes differ
  bool dynamic = false;              // some address is known only at run time
};
[[nodiscard]] DmaRequest dma_request(std::initializer_list<const TensorRef*> operands,
                                     DgeMode mode);
/// The mode a request ends up with on an engine. Unknown becomes (assumed): swdge for gathers and
/// casts, static descriptors on trn1, hwdge elsewhere, as far as the engine can do it.
[[nodiscard]] DgeMode resolve_dge(const DmaRequest& request, Engine engine, const Machine& machine);
/// The trigger where the program leaves it open: GpSimd for software descriptors, which the
/// compiler also chooses where it is to find a mode for an address known only at run time; else
/// sync.
[[nodiscard]] Engine pick_dma_engine(const DmaRequest& request, const Machine& machine);
/// Rules of the modes: hwdge from trn2 on, only from sync or scalar, without gather or cast; swdge
/// only from gpsimd; none without run-time addresses.
void check_dge(const DmaRequest& request, Engine engine, const Machine& machine);
/// 0 to 3, trn3 only.
void check_priority(const Inst& inst, int param, const Machine& machine);

/// The contiguous pieces a transfer between two operands falls into.
struct Pieces {
  std::int64_t count = 0;
  std::int64_t bytes = 0;  // of the largest
};
[[nodiscard]] Pieces dma_pieces(const TensorRef& src, const TensorRef& dst);
/// Fills `out` with the trigger and the transfer.
void expand_dma(const Inst& inst, const TensorRef& src, const TensorRef& dst, DgeMode mode,
                Expansion& out);
/// Lets a filled transfer move `bytes` in all, in more descriptors of its size: the time of a
/// transfer is that of its descriptors.
void move_bytes(std::int64_t bytes, DmaWork& dma);

/// dst = src element by element in row-major order: raw bytes where the dtypes agree, otherwise
/// through FP32. With `skip`, what an out-of-range index addresses is left alone.
void dma_move(const TensorRef& dst, const TensorRef& src, bool skip, OpContext& ctx);
/// As dma_move for values already loaded; `dropped` rows of the source (empty: none) are not
/// written. The raw bytes are in the dtype of `dst`.
void dma_store(const TensorRef& dst, const Tile<std::byte>& raw, const std::vector<bool>& dropped,
               OpContext& ctx);

}  // namespace nkisim::isa
