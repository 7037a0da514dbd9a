// Declares the interface of an HBM stack, and those of the DMA engines that use its bandwidth.
#pragma once

#include <cstdint>
#include <systemc>

#include "models/core/core_id.hpp"
#include "models/time.hpp"

namespace nkisim::models {

/// Says what the engines of a core still have to move.
struct HbmAhead {
  Fs next = kNever;  // the next packet may start
  int busy = 0;      // engines with packets, now or later
};

/// Engines that take from a stack together: those of one core.
class HbmUser {
 public:
  virtual ~HbmUser() = default;
  /// Takes for every packet that starts by `now`; only of engines that may end a transfer by then,
  /// unless `every`.
  virtual void take_until(Fs now, bool every) = 0;
  [[nodiscard]] virtual HbmAhead ahead() const = 0;
  [[nodiscard]] virtual CoreId id() const = 0;
};

/// A packet of a DMA engine, asked of a stack that is no part of the model.
struct HbmRequest {
  CoreId core;
  int engine = 0;
  bool write = false;
  /// Where it is if tensors follow each other in HBM, an operand's bytes too, and each engine moves
  /// a part of them in one piece. Strides and offsets known only at run time are left out.
  std::uint64_t address = 0;
  std::int64_t bytes = 0;
  /// The bytes that the packet moves over the stack: of a copy within HBM twice `bytes` with its
  /// read, 0 with its write.
  std::int64_t stack_bytes = 0;
  Fs span = 0;            // what it takes at the engine's own rate
  std::uint64_t tag = 0;  // the asker's own
};

/// The asking core and rank.
class HbmRequester {
 public:
  virtual ~HbmRequester() = default;
  /// The packet has been moved, now. Not called within ask().
  virtual void answered(const HbmRequest& request) = 0;
};

/// A stack that is asked for each packet when that starts.
class HbmRequests {
 public:
  virtual ~HbmRequests() = default;
  /// The packets that an engine may have asked for without an answer.
  [[nodiscard]] virtual int outstanding() const = 0;
  virtual void ask(const HbmRequest& request, HbmRequester& asker) = 0;
  /// Data of a collective: the stack_bytes of `all` move evenly over its span from `start` on, in
  /// pieces, half of them read. They have no address, and their answers delay nothing.
  virtual void carry(const HbmRequest& all, Fs start, std::int64_t piece_bytes) = 0;
};

class hbm_if : public virtual sc_core::sc_interface {
 public:
  /// False: the stack can serve all its engines at once and never delays anybody.
  [[nodiscard]] virtual bool limits() const = 0;
  /// `bytes` that an engine would move evenly in [start, start + span): by how much they end later.
  virtual Fs delay(Fs start, Fs span, double bytes) = 0;
  /// `bytes` that others move evenly in [start, start + span), or later where the stack is full:
  /// engines share the rest.
  virtual void reserve(Fs start, Fs span, double bytes) = 0;
  /// `user` outlives the last settle().
  virtual void join(HbmUser& user) = 0;
  /// Everybody takes until `now`, once at each instant. Called before anybody takes, submits or
  /// reserves anything, it keeps the order of cores at one instant, and of engines, out of the
  /// result.
  virtual void settle(Fs now) = 0;
  /// The same, and of all engines, also those that end no transfer yet, what starts before `now`.
  virtual void settle_all(Fs now) = 0;
  /// Not null: nothing can be planned ahead, engines ask for every packet. It limits nothing then.
  [[nodiscard]] virtual HbmRequests* requests() { return nullptr; }
};

}  // namespace nkisim::models
