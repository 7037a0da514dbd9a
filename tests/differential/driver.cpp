// Executes one small trace after another for the differential tests: reads trace text and initial
// bytes of tensors from stdin, answers on stdout with an error or the final bytes of all tensors.
// With --timed every trace is also run in simulated time, which must leave the same bytes.
//
// Request: u32 length, trace text (JSON Lines); u32 count, then per tensor u32 id, u32 length and
// that many bytes.
//
// Answer: u8 status (0 done, 1 rejected when read, 2 rejected when run, 3 any other exception), u32
// length, message; if done: u32 count, then per tensor u32 length and that many bytes, then
// u32 length and what was printed.
//
// Tensor bytes are row-major, partitions first; a tensor without initial bytes was never written.
#include <malloc.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "isa/interpreter.hpp"
#include "src/config/config_json.hpp"
#include "src/run/simulation.hpp"
#include "src/trace/trace_reader.hpp"

namespace {

using nkisim::isa::Memory;
using nkisim::isa::Program;

struct Init {
  std::uint32_t tensor = 0;
  std::vector<std::byte> bytes;
};

bool get(void* out, std::size_t size) { return std::fread(out, 1, size, stdin) == size; }

bool get_u32(std::uint32_t& out) { return get(&out, sizeof out); }

void put(const void* data, std::size_t size) { std::fwrite(data, 1, size, stdout); }

void put_u32(std::size_t value) {
  const auto v = static_cast<std::uint32_t>(value);
  put(&v, sizeof v);
}

bool get_request(std::string& text, std::vector<Init>& inits) {
  std::uint32_t size = 0, count = 0;
  if (!get_u32(size)) return false;
  text.resize(size);
  if (!get(text.data(), size) || !get_u32(count)) return false;
  inits.resize(count);
  for (Init& init : inits) {
    if (!get_u32(init.tensor) || !get_u32(size)) return false;
    init.bytes.resize(size);
    if (!get(init.bytes.data(), size)) return false;
  }
  return true;
}

/// Puts initial bytes where the tensor lives, as if an instruction had written them.
void fill(const Program& program, Memory& memory, const Init& init) {
  const nkisim::isa::Tensor& tensor = program.tensor(init.tensor);
  if (tensor.space == nkisim::isa::Space::kHbm) return memory.load(init.tensor, init.bytes);
  nkisim::isa::TensorRef ref;
  ref.tensor = init.tensor;
  ref.space = tensor.space;
  ref.dtype = tensor.dtype;
  ref.partition = tensor.partition;
  const nkisim::isa::Placement place = memory.place(ref);
  const std::int64_t row = tensor.extent_bytes();
  for (std::int64_t r = 0; r < tensor.shape[0]; ++r) {
    const std::int64_t at = place.start + r * place.pitch;
    std::memcpy(place.region->data() + at, init.bytes.data() + r * row,
                static_cast<std::size_t>(row));
    place.region->mark_written(at, row);
  }
}

void answer(int status, const std::string& message) {
  const auto byte = static_cast<unsigned char>(status);
  put(&byte, 1);
  put_u32(message.size());
  put(message.data(), message.size());
}

/// The first tensor that the timed run leaves with other bytes than `expected`; empty if none.
std::string differing_timed(const Program& program, const std::vector<Init>& inits,
                            Memory& expected) {
  Memory memory(program);
  for (const Init& init : inits) fill(program, memory, init);
  nkisim::simulate(program, nkisim::load_config(std::string(program.machine().target)), &memory);
  for (std::uint32_t id = 0; id < program.tensors().size(); ++id) {
    if (memory.read(id) != expected.read(id)) return program.tensor(id).name;
  }
  return {};
}

void execute(const std::string& text, const std::vector<Init>& inits, bool timed) {
  int stage = 1;
  try {
    const nkisim::TraceFile trace = nkisim::read_trace_text(text, "case.jsonl");
    stage = 2;
    const Program& program = *trace.program;
    Memory memory(program);
    for (const Init& init : inits) fill(program, memory, init);
    std::string printed;
    nkisim::isa::InterpretOptions options;
    options.print = [&](const std::string& line) { printed += line; };
    (void)nkisim::isa::interpret(program, memory, options);
    const std::string name = timed ? differing_timed(program, inits, memory) : "";
    if (!name.empty()) return answer(3, "the timed run leaves other bytes in " + name);
    answer(0, "");
    put_u32(program.tensors().size());
    for (std::uint32_t id = 0; id < program.tensors().size(); ++id) {
      const std::vector<std::byte> bytes = memory.read(id);
      put_u32(bytes.size());
      put(bytes.data(), bytes.size());
    }
    put_u32(printed.size());
    put(printed.data(), printed.size());
  } catch (const nkisim::isa::Error& error) {
    answer(error.code() == nkisim::isa::ErrorCode::kBadInput ? stage : 3, error.what());
  } catch (const std::exception& error) {
    answer(3, error.what());
  }
}

}  // namespace

// SystemC's library refers to it.
extern "C" int sc_main(int, char*[]) { return 0; }

int main(int argc, char* argv[]) {
  const bool timed = argc > 1 && std::strcmp(argv[1], "--timed") == 0;
  // Memory of each case mapped anew rather than recycled: only the pages it touches are cleared.
  mallopt(M_MMAP_THRESHOLD, 256 * 1024);
  std::string text;
  std::vector<Init> inits;
  while (get_request(text, inits)) {
    execute(text, inits, timed);
    std::fflush(stdout);
  }
  return 0;
}
