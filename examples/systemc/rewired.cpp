// Shows two simulated chips within your own SystemC design, at a resolution of 1 ps. The first has
// a memory that answers as the model's HBM does, so its latency is that of a run. The second has
// other parts: a DRAM with a short queue, a replaced VectorEngine, and a probe at a port.
#define SC_INCLUDE_DYNAMIC_PROCESSES
#include <tlm_utils/peq_with_get.h>
#include <tlm_utils/simple_target_socket.h>

#include <iostream>
#include <systemc>

#include "models/engines/vector_engine.hpp"
#include "models/hosted_chip.hpp"
#include "models/memory/hbm.hpp"
#include "models/memory/tlm_hbm.hpp"
#include "src/config/config.hpp"
#include "src/trace/trace.hpp"

namespace models = nkisim::models;
using models::from_ns, models::to_ns;
using Payload = tlm::tlm_generic_payload;

const char* const kTrace = R"({"nisa": 1, "target": "trn2", "name": "double"}
{"tensor": {"name": "x", "space": "hbm", "shape": [128, 4096], "dtype": "float32", "role": "input"}}
{"tensor": {"name": "y", "space": "hbm", "shape": [128, 4096], "dtype": "float32", "role": "output"}}
{"tensor": {"name": "t", "space": "sbuf", "shape": [128, 4096], "dtype": "float32", "address": 0}}
{"i": "dma_copy", "engine": "sync", "dst": "t", "src": "x"}
{"i": "tensor_tensor", "engine": "vector", "dst": "t", "data1": "t", "data2": "t", "op": "add"}
{"i": "dma_copy", "engine": "sync", "dst": "y", "src": "t"}
)";

/// A target of the non-blocking base protocol. Requests beyond `depth` are accepted when one of
/// those before has been answered. `latency` is asked when a request is accepted.
struct Memory : sc_core::sc_module {
  using Latency = std::function<models::Fs(const Payload&, models::Fs now)>;
  Memory(const sc_core::sc_module_name& name, int queue, Latency latency_of)
      : sc_module(name), depth(queue), latency(std::move(latency_of)) {
    socket.register_nb_transport_fw(this, &Memory::request);
    SC_HAS_PROCESS(Memory);
    SC_METHOD(respond);
    sensitive << answers.get_event();
  }
  tlm::tlm_sync_enum request(Payload& p, tlm::tlm_phase& phase, sc_core::sc_time& /*delay*/) {
    p.acquire();
    if (in_service >= depth) {
      held = &p;  // back-pressure: the initiator sends nothing more
      return tlm::TLM_ACCEPTED;
    }
    serve(p);
    phase = tlm::END_REQ;
    return tlm::TLM_UPDATED;
  }
  void serve(Payload& p) {
    ++in_service;
    bytes += p.get_data_length();
    const models::Fs fs = latency(p, from_ns(sc_core::sc_time_stamp().to_seconds() * 1e9));
    answers.notify(p, sc_core::sc_time(static_cast<double>(fs), sc_core::SC_FS));
  }
  void respond() {
    sc_core::sc_time none;
    while (Payload* p = answers.get_next_transaction()) {
      p->set_response_status(tlm::TLM_OK_RESPONSE);
      tlm::tlm_phase phase = tlm::BEGIN_RESP;
      socket->nb_transport_bw(*p, phase, none);
      p->release();
      --in_service;
      if (held == nullptr) continue;
      Payload& next = *std::exchange(held, nullptr);
      serve(next);
      phase = tlm::END_REQ;
      socket->nb_transport_bw(next, phase, none);
    }
  }
  tlm_utils::simple_target_socket<Memory> socket{"socket"};
  tlm_utils::peq_with_get<Payload> answers{"answers"};
  int depth, in_service = 0;
  Latency latency;
  Payload* held = nullptr;
  std::int64_t bytes = 0;
};

/// Between a port `dma` of an engine and the rings: counts what the engine starts.
struct DmaProbe : sc_core::sc_module, models::dma_if {
  explicit DmaProbe(const sc_core::sc_module_name& name) : sc_module(name) {}
  sc_core::sc_port<models::dma_if> rings{"rings"};
  int transfers = 0;
  void submit(models::Operation& op, const models::DgeConfig& dge, models::Fs first) override {
    ++transfers;
    rings->submit(op, dge, first);
  }
  int outstanding(nkisim::isa::DgeMode mode) override { return rings->outstanding(mode); }
  models::Fs backlog(models::QueueIndex q, std::int64_t b) override { return rings->backlog(q, b); }
  void occupy(double moved) override { rings->occupy(moved); }
};

/// A VectorEngine that takes a microsecond more for each instruction.
struct SlowVector : models::VectorEngine {
  using VectorEngine::VectorEngine;
  models::Cost price(const nkisim::isa::Part& part) const override {
    models::Cost cost = VectorEngine::price(part);
    cost.duration += from_ns(1000);
    return cost;
  }
};
std::unique_ptr<models::Engine> make_engine(const char* name, nkisim::isa::Engine id,
                                            const models::EngineSetup& setup) {
  if (id == nkisim::isa::Engine::kVector) return std::make_unique<SlowVector>(name, setup);
  return models::make_engine(name, id, setup);
}

int sc_main(int /*argc*/, char** /*argv*/) try {
  const nkisim::TraceFile trace = nkisim::read_trace_text(kTrace, "double.jsonl");
  const models::Config config = nkisim::load_config("trn2");
  const models::Fs alone = models::run(*trace.program, config, nullptr, {}).end;

  sc_core::sc_clock clock("clock", 100, sc_core::SC_NS);  // your own
  models::HostedChip plain("plain", *trace.program, config);
  models::TlmHbm plain_hbm("plain_hbm", plain.clock(), {.outstanding = 1});
  models::Hbm stack(config.hbm, config.dma.engines * config.dma.bytes_per_ns, config.dma.engines);
  Memory same("same", 1000, [&stack](const Payload& p, models::Fs now) {
    const models::HbmRequest& r = p.get_extension<models::HbmAccess>()->request;
    return r.span + stack.delay(now, r.span, static_cast<double>(r.stack_bytes));
  });
  plain_hbm.socket.bind(same.socket);
  plain.core().hbm.bind(plain_hbm);

  models::HostedChip mine("mine", *trace.program, config, nullptr, {}, {.engine = make_engine});
  models::TlmHbm mine_hbm("mine_hbm", mine.clock(), {.outstanding = 8, .most_bytes = 256});
  models::Fs free = 0;  // a channel of 100 bytes per ns, 80 ns away
  Memory dram("dram", 64, [&free](const Payload& p, models::Fs now) {
    free = std::max(free, now) + from_ns(p.get_data_length() / 100.0);
    return free - now + from_ns(80);
  });
  mine_hbm.socket.bind(dram.socket);
  mine.core().hbm.bind(mine_hbm);
  DmaProbe probe("probe");
  probe.rings.bind(mine.core().dma());
  mine.core().engine(nkisim::isa::Engine::kSync).dma.bind(probe);

  sc_core::sc_start(200, sc_core::SC_US);
  const models::Fs same_end = plain.outcome().front().end, end = mine.outcome().front().end;
  std::cout << "alone " << to_ns(alone) << " ns, next to a model " << to_ns(same_end)
            << " ns, rewired " << to_ns(end) << " ns\n"
            << probe.transfers << " transfers, " << dram.bytes << " bytes from and to the DRAM\n";
  return plain.finished() && mine.finished() && std::abs(same_end - alone) <= alone / 1000 ? 0 : 1;
} catch (const std::exception& e) {
  std::cerr << e.what() << '\n';
  return 3;
}
