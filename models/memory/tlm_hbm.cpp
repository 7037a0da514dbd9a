// Sends the packets of DMA engines as TLM-2.0 transactions to an HBM model of another SystemC
// design.
#include "models/memory/tlm_hbm.hpp"

#include <algorithm>
#include <exception>
#include <string>

#include "isa/base/error.hpp"

namespace nkisim::models {

TlmHbm::TlmHbm(const sc_core::sc_module_name& name, Clock& clock, Options options)
    : sc_module(name), clock_(clock), options_(options), wake_(clock, "wake") {
  if (options.outstanding < 1) {
    isa::fail(isa::Rule::systemc, std::string(this->name()) + ": outstanding",
              std::to_string(options.outstanding), "at least 1");
  }
  socket.bind(static_cast<tlm::tlm_bw_transport_if<>&>(*this));
  SC_HAS_PROCESS(TlmHbm);
  SC_METHOD(act);
  sensitive << wake_.event();
  dont_initialize();
}

TlmHbm::~TlmHbm() = default;

// ---- transactions -----------------------------------------------------------------------------
// Payloads come back by free() when the target has let go of them too.
TlmHbm::Payload& TlmHbm::make_payload(Packet& packet, std::int64_t offset, std::int64_t bytes) {
  if (free_.empty()) {
    payloads_.push_back(std::make_unique<Payload>(static_cast<tlm::tlm_mm_interface*>(this)));
    payloads_.back()->set_extension(new HbmAccess);
    free_.push_back(payloads_.back().get());
  }
  Payload& payload = *free_.back();
  free_.pop_back();
  payload.acquire();
  const auto length = static_cast<unsigned>(bytes);
  payload.set_command(packet.request.write ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND);
  payload.set_address(packet.request.address + static_cast<std::uint64_t>(offset));
  payload.set_data_ptr(packet.data.data() + offset);
  payload.set_data_length(length);
  payload.set_streaming_width(length);
  payload.set_byte_enable_ptr(nullptr);
  payload.set_dmi_allowed(false);
  payload.set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
  auto& access = *payload.get_extension<HbmAccess>();
  access.request = packet.request;
  access.offset = offset;
  return payload;
}

void TlmHbm::free(Payload* payload) { free_.push_back(payload); }

void TlmHbm::ask(const HbmRequest& request, HbmRequester& asker) { queue(request, &asker); }

void TlmHbm::queue(const HbmRequest& request, HbmRequester* asker) {
  const auto packet = std::make_shared<Packet>(Packet{request, asker, 0, {}});
  packet->data.resize(static_cast<std::size_t>(request.bytes));
  const std::int64_t most = options_.most_bytes > 0 ? options_.most_bytes : request.bytes;
  for (std::int64_t at = 0; at < request.bytes; at += most) {
    Payload& payload = make_payload(*packet, at, std::min(most, request.bytes - at));
    ++packet->left;
    packets_[&payload] = packet;
    waiting_.push_back(&payload);
  }
  send();
}

void TlmHbm::carry(const HbmRequest& all, Fs start, std::int64_t piece_bytes) {
  if (all.stack_bytes <= 0) return;
  carried_.push_back({all, start, std::max<std::int64_t>(1, piece_bytes)});
  put({.kind = Event::Kind::kCarry, .carried = carried_.size() - 1}, std::max(start, clock_.now()));
}

void TlmHbm::carry_on(std::size_t at) {
  Carried& c = carried_.at(at);
  HbmRequest piece = c.all;
  piece.address = static_cast<std::uint64_t>(c.moved);
  piece.bytes = piece.stack_bytes = std::min(c.piece_bytes, c.all.stack_bytes - c.moved);
  piece.write = c.moved / c.piece_bytes % 2 == 1;
  const double part = static_cast<double>(piece.bytes) / static_cast<double>(c.all.stack_bytes);
  piece.span = static_cast<Fs>(static_cast<double>(c.all.span) * part);
  c.moved += piece.bytes;
  if (c.moved < c.all.stack_bytes) {
    const double done = static_cast<double>(c.moved) / static_cast<double>(c.all.stack_bytes);
    put({.kind = Event::Kind::kCarry, .carried = at},
        std::max(clock_.now(), c.start + static_cast<Fs>(static_cast<double>(c.all.span) * done)));
  }
  queue(piece, nullptr);
}

// ---- the protocol -----------------------------------------------------------------------------
// One request at a time, until the target has accepted it.
void TlmHbm::send() {
  while (sent_ == nullptr && !waiting_.empty()) {
    Payload& payload = *waiting_.front();
    waiting_.pop_front();
    sent_ = &payload;
    tlm::tlm_phase phase = tlm::BEGIN_REQ;
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    switch (socket->nb_transport_fw(payload, phase, delay)) {
      case tlm::TLM_ACCEPTED:
        break;
      case tlm::TLM_UPDATED:
        note(payload, phase, delay, true);
        break;
      case tlm::TLM_COMPLETED:
        note(payload, tlm::BEGIN_RESP, delay, false);
    }
  }
}

tlm::tlm_sync_enum TlmHbm::nb_transport_bw(Payload& payload, tlm::tlm_phase& phase,
                                           sc_core::sc_time& delay) {
  note(payload, phase, delay, false);
  return phase == tlm::BEGIN_RESP ? tlm::TLM_COMPLETED : tlm::TLM_ACCEPTED;
}

// A response also accepts a request that was not accepted before.
void TlmHbm::note(Payload& payload, const tlm::tlm_phase& phase, const sc_core::sc_time& delay,
                  bool end_response) {
  const Fs at = clock_.host_now() + clock_.of(delay);
  if (&payload == sent_ && (phase == tlm::END_REQ || phase == tlm::BEGIN_RESP)) {
    put({.kind = Event::Kind::kAccepted, .payload = &payload}, at);
  }
  if (phase == tlm::BEGIN_RESP) {
    put({.kind = end_response ? Event::Kind::kEnded : Event::Kind::kAnswered, .payload = &payload},
        at);
  }
}

void TlmHbm::put(const Event& event, Fs at) {
  events_.emplace(at, event);
  wake_.ring_at(events_.begin()->first);
}

void TlmHbm::act() {
  if (clock_.stopped()) return;
  try {
    while (!events_.empty() && events_.begin()->first <= clock_.now()) {
      const Event event = events_.begin()->second;
      events_.erase(events_.begin());
      happen(event);
    }
    if (!events_.empty()) wake_.ring_at(events_.begin()->first);
  } catch (...) {
    clock_.fail(std::current_exception());
    clock_.quiet();
  }
}

void TlmHbm::happen(const Event& event) {
  if (event.kind == Event::Kind::kAccepted) {
    if (sent_ == event.payload) sent_ = nullptr;
    send();
    return;
  }
  if (event.kind == Event::Kind::kCarry) {
    carry_on(event.carried);
    return;
  }
  if (event.kind == Event::Kind::kEnded) end_response(*event.payload);
  answer(*event.payload);
}

void TlmHbm::end_response(Payload& payload) {
  tlm::tlm_phase phase = tlm::END_RESP;
  sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
  (void)socket->nb_transport_fw(payload, phase, delay);
}

void TlmHbm::answer(Payload& payload) {
  const auto found = packets_.find(&payload);
  if (found == packets_.end()) return;  // answered before, against the protocol
  const std::shared_ptr<Packet> packet = found->second;
  packets_.erase(found);
  if (!payload.is_response_ok()) {
    isa::fail(isa::Rule::systemc, std::string(name()) + ": the response to a transaction",
              payload.get_response_string(), "TLM_OK_RESPONSE");
  }
  payload.release();
  if (--packet->left == 0 && packet->asker != nullptr) packet->asker->answered(packet->request);
}

}  // namespace nkisim::models
