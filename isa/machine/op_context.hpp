// Declares OpContext, through which an instruction's code gets operands as dense tiles and the
// engine's registers, and stores its result.
#pragma once

#include <functional>
#include <initializer_list>
#include <vector>

#include "isa/machine/cast_watch.hpp"
#include "isa/machine/rendezvous.hpp"

namespace nkisim::isa {

/// The services for an op's eval and send. An eval reads before it writes memory or state: where it
/// meets an undefined byte it is given up and evaluated anew (isa/machine/eval_undefined.cpp).
class OpContext : public CastWatch {
 public:
  PrintSink print;
  /// The partner's message at a rendezvous; null on a single core.
  [[nodiscard]] const Parcel* received() const { return received_; }

  /// Operand as FP32 values (packed dtypes: 4 columns per element).
  Tile<float> load(const TensorRef& ref);
  void store(const TensorRef& ref, const Tile<float>& values);
  /// Calls fn(row, inputs, out, columns) for each row: inputs as FP32, `out` to be filled with FP32
  /// (it may be one of the inputs' arrays) and then stored to `dst`. As load, compute and store of
  /// whole tiles, but values stay in the first-level cache where the operands allow it.
  using RowFn = std::function<void(std::int64_t, const float* const*, float*, std::size_t)>;
  void map_rows(std::initializer_list<const TensorRef*> inputs, const TensorRef& dst,
                const RowFn& fn);
  /// A kScalarOrTensor argument as one FP32 value per row; `absent` where it is not given.
  Tile<float> column(const Arg& arg, std::int64_t rows, float absent = 0.0F);
  /// The same as integer bits (bitvec operands).
  Tile<std::uint32_t> column_bits(const Arg& arg, std::int64_t rows);
  /// An kInt, kIntOrRegister argument now.
  [[nodiscard]] std::int64_t value(const Arg& arg) const;

  /// Packs an operand for `send`: its bytes, and which of them are undefined.
  Parcel pack(const TensorRef& ref);
  /// Elements that rows with equal indices give different values are undefined from now on: the
  /// order in which a DMA writes them is not defined.
  void undefine_repeated(const TensorRef& ref, const Tile<std::byte>& values);
  /// The same where a DMA overwrites, with other values (`values` for dst), elements of its own
  /// source that go to another place: the old or the new value may arrive there. `becomes`: which
  /// element of dst each of src goes to; empty: the one of the same number.
  void undefine_overlap(const TensorRef& dst, const TensorRef& src, const Tile<std::byte>& values,
                        const std::vector<std::int64_t>& becomes = {});

 protected:
  using CastWatch::CastWatch;
  ~OpContext() = default;

  struct Repeated {  // bytes written twice by the running instruction
    std::int64_t bit, size;
    Origin origin;
  };
  std::vector<Repeated> repeated_;
  const Parcel* received_ = nullptr;
};

}  // namespace nkisim::isa
