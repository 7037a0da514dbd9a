// Connects a core to another SystemC model's HBM stack through a TLM-2.0 socket.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <tlm>
#include <vector>

#include "models/clock.hpp"
#include "models/memory/hbm_if.hpp"

namespace nkisim::models {

/// The packet that a transaction is of. A target need not look at it.
struct HbmAccess : tlm::tlm_extension<HbmAccess> {
  HbmRequest request;
  std::int64_t offset = 0;  // of the transaction in the packet
  [[nodiscard]] tlm::tlm_extension_base* clone() const override { return new HbmAccess(*this); }
  void copy_from(const tlm::tlm_extension_base& other) override {
    *this = static_cast<const HbmAccess&>(other);
  }
};

/// A channel to bind a core's port `hbm` to, and an initiator of the base protocol with the
/// non-blocking interface. Each packet of a DMA engine is asked for when it starts, and has ended
/// when it is answered. A target that holds back END_REQ holds back all that comes behind.
///
/// Nothing is planned ahead then. A target that answers as the model's stack does (Hbm::delay)
/// gives its times within 0.1 %, also where two cores ask for more than the stack has: both serve
/// packets in the order of time, but at one instant.
///
/// The config's dma.hbm_read_latency and stall fractions still apply; set them to 0 where the
/// target has such times of its own. The data of transactions mean nothing: values are
/// isa::Memory's. Data of collectives are transactions too (HbmRequests::carry), from address 0 on;
/// a collective takes the time that the model gives it, however late they are answered.
class TlmHbm : public sc_core::sc_module,
               public hbm_if,
               private HbmRequests,
               private tlm::tlm_bw_transport_if<>,
               private tlm::tlm_mm_interface {
 public:
  [[nodiscard]] const char* kind() const override { return "TlmHbm"; }
  struct Options {
    /// Packets of one engine on their way. 1: each ends before the next starts, which fits a target
    /// that knows what the engine takes by itself (HbmRequest::span); more hide a latency.
    int outstanding = 1;
    /// Longest transaction; a longer packet becomes several. 0: any.
    std::int64_t most_bytes = 0;
  };
  /// `clock`: of the chip (HostedChip), which outlives it.
  TlmHbm(const sc_core::sc_module_name& name, Clock& clock, Options options);
  ~TlmHbm() override;
  tlm::tlm_initiator_socket<> socket{"socket"};

  [[nodiscard]] bool limits() const override { return false; }
  Fs delay(Fs /*start*/, Fs /*span*/, double /*bytes*/) override { return 0; }
  void reserve(Fs /*start*/, Fs /*span*/, double /*bytes*/) override {}
  void join(HbmUser& /*user*/) override {}
  void settle(Fs /*now*/) override {}
  void settle_all(Fs /*now*/) override {}
  [[nodiscard]] HbmRequests* requests() override { return this; }

 private:
  using Payload = tlm::tlm_generic_payload;
  // A packet, until its last transaction is answered.
  struct Packet {
    HbmRequest request;
    HbmRequester* asker = nullptr;
    int left = 0;  // transactions
    std::vector<unsigned char> data;
  };
  // Something that happens to a transaction at a moment.
  struct Event {
    enum class Kind : std::uint8_t { kAccepted, kAnswered, kEnded, kCarry };
    Kind kind{};
    Payload* payload = nullptr;
    std::size_t carried = 0;
  };
  // Data of a collective that move piece by piece.
  struct Carried {
    HbmRequest all;
    Fs start = 0;
    std::int64_t piece_bytes = 0, moved = 0;
  };
  [[nodiscard]] int outstanding() const override { return options_.outstanding; }
  void ask(const HbmRequest& request, HbmRequester& asker) override;
  void carry(const HbmRequest& all, Fs start, std::int64_t piece_bytes) override;
  void queue(const HbmRequest& request, HbmRequester* asker);
  void carry_on(std::size_t at);
  tlm::tlm_sync_enum nb_transport_bw(Payload& payload, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) override;
  void invalidate_direct_mem_ptr(sc_dt::uint64 /*start*/, sc_dt::uint64 /*end*/) override {}
  void free(Payload* payload) override;
  Payload& make_payload(Packet& packet, std::int64_t offset, std::int64_t bytes);
  void send();
  void note(Payload& payload, const tlm::tlm_phase& phase, const sc_core::sc_time& delay,
            bool end_response);
  void put(const Event& event, Fs at);
  void act();
  void happen(const Event& event);
  void end_response(Payload& payload);
  void answer(Payload& payload);

  Clock& clock_;
  Options options_;
  Alarm wake_;
  std::multimap<Fs, Event> events_;
  std::vector<Carried> carried_;
  std::deque<Payload*> waiting_;  // to be sent
  Payload* sent_ = nullptr;       // not accepted yet
  std::map<Payload*, std::shared_ptr<Packet>> packets_;
  std::vector<std::unique_ptr<Payload>> payloads_;
  std::vector<Payload*> free_;
};

}  // namespace nkisim::models
