// Executes small programs for random instruction tests. It reads a program's text and the initial
// bytes of its tensors from stdin, and answers on stdout with an error or the final bytes of all
// tensors. With --timed every program is also simulated with timing, which must leave the same
// bytes.
//
// Request: u32 length, program text (JSON Lines); u32 count, then per tensor u32 id, u32 length and
// that many bytes. With --undefined the bytes of each tensor are followed by as many flags: 1 where
// the byte is not written.
//
// Answer: u8 status (0 done, 1 rejected when read, 2 rejected when run, 3 any other exception), u32
// length, message; if done: u32 count, then per tensor u32 length and that many bytes (and with
// --undefined as many flags: 1 where the byte is undefined), then u32 length and what was printed.
//
// Tensor bytes are row-major, partitions first.
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "isa/host/host.hpp"
#include "isa/world/interpreter.hpp"
#include "src/config/config_json.hpp"
#include "src/run/simulation.hpp"
#include "src/trace/trace_reader.hpp"

namespace {

using nkisim::isa::Memory;
using nkisim::isa::Program;

struct Init {
  std::uint32_t tensor = 0;
  std::vector<std::byte> bytes;
  std::vector<std::uint8_t> undefined;
};

bool get(void* out, std::size_t size) { return std::fread(out, 1, size, stdin) == size; }

bool get_u32(std::uint32_t& out) { return get(&out, sizeof out); }

void put(const void* data, std::size_t size) { std::fwrite(data, 1, size, stdout); }

void put_u32(std::size_t value) {
  const auto v = static_cast<std::uint32_t>(value);
  put(&v, sizeof v);
}

bool get_request(std::string& text, std::vector<Init>& inits, bool flags) {
  std::uint32_t size = 0, count = 0;
  if (!get_u32(size)) return false;
  text.resize(size);
  if (!get(text.data(), size) || !get_u32(count)) return false;
  inits.resize(count);
  for (Init& init : inits) {
    if (!get_u32(init.tensor) || !get_u32(size)) return false;
    init.bytes.resize(size);
    if (!get(init.bytes.data(), size)) return false;
    init.undefined.resize(flags ? size : 0);
    if (!get(init.undefined.data(), init.undefined.size())) return false;
  }
  return true;
}

/// Puts initial bytes where the tensor lives, as if an instruction had written them.
void fill(Memory& memory, const Init& init) {
  memory.write(init.tensor, init.bytes);
  for (std::size_t i = 0; i < init.undefined.size(); ++i) {
    if (init.undefined[i] != 0)
      memory.bits(init.tensor).undefine(static_cast<std::int64_t>(i), 1, 0);
  }
}

void put_flags(const nkisim::isa::Definedness& bits, std::size_t size) {
  std::vector<std::uint8_t> flags(size);
  for (std::size_t i = 0; i < size; ++i) {
    flags[i] = bits.find_undefined(static_cast<std::int64_t>(i), 1) >= 0 ? 1 : 0;
  }
  put(flags.data(), flags.size());
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
  for (const Init& init : inits) fill(memory, init);
  nkisim::simulate(program, nkisim::load_config(std::string(program.machine().target)), &memory);
  for (std::uint32_t id = 0; id < program.tensors().size(); ++id) {
    if (memory.read(id) != expected.read(id)) return program.tensor(id).name;
  }
  return {};
}

void execute(const std::string& text, const std::vector<Init>& inits, bool timed, bool flags) {
  int stage = 1;
  try {
    const nkisim::TraceFile trace = nkisim::read_trace_text(text, "case.jsonl");
    stage = 2;
    const Program& program = *trace.program;
    Memory memory(program);
    for (const Init& init : inits) fill(memory, init);
    std::string printed;
    nkisim::isa::InterpretOptions options;
    options.conditions.print = [&](const std::string& line) { printed += line; };
    nkisim::isa::RuleChoices rules{.strict = true};
    if (flags) rules.warn = {"undefined_value", "output_partly_written"};
    options.conditions.rules = nkisim::isa::RulePolicy(rules);
    (void)nkisim::isa::interpret(program, memory, options);
    const std::string name = timed ? differing_timed(program, inits, memory) : "";
    if (!name.empty()) return answer(3, "the timed run leaves other bytes in " + name);
    answer(0, "");
    put_u32(program.tensors().size());
    for (std::uint32_t id = 0; id < program.tensors().size(); ++id) {
      const std::vector<std::byte> bytes = memory.read(id);
      put_u32(bytes.size());
      put(bytes.data(), bytes.size());
      if (flags) put_flags(memory.bits(id), bytes.size());
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

int main(int argc, char* argv[]) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const bool timed = mode == "--timed", flags = mode == "--undefined";
  // Memory of each case mapped anew rather than recycled: only the pages it touches are cleared.
  nkisim::isa::host::map_larger_than(std::size_t{256} * 1024);
  std::string text;
  std::vector<Init> inits;
  while (get_request(text, inits, flags)) {
    execute(text, inits, timed, flags);
    std::fflush(stdout);
  }
  return 0;
}
