// Tests the reader of instruction files (traces) on damaged files: it succeeds or throws Error,
// never crashes or hangs.
#include <zlib.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "isa/program/disasm.hpp"
#include "src/trace/trace_reader.hpp"
#include "src/trace/trace_writer.hpp"
#include "tests/support/sample_trace.hpp"
#include "tests/support/source_folder.hpp"

using namespace nkisim;

namespace {

using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t n) { return n == 0 ? 0 : random() % n; }

std::string gzip(const std::string& bytes) {
  std::string out(compressBound(bytes.size()) + 64, '\0');
  z_stream s{};
  REQUIRE(deflateInit2(&s, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string in = bytes;
  s.next_in = reinterpret_cast<Bytef*>(in.data());
  s.avail_in = static_cast<uInt>(in.size());
  s.next_out = reinterpret_cast<Bytef*>(out.data());
  s.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&s, Z_FINISH) == Z_STREAM_END);
  out.resize(out.size() - s.avail_out);
  deflateEnd(&s);
  return out;
}

bool readable(const std::string& text) {
  try {
    (void)read_trace_text(text, "corpus");
    return true;
  } catch (const isa::Error&) {
    return false;  // whether committed traces run is for other tests to say
  }
}

/// A trace with every form there is, and the repository's small ones.
std::vector<std::string> corpus() {
  std::vector<std::string> texts(8, kSampleTrace);
  for (const auto& file : std::filesystem::directory_iterator(source_folder() + "/traces")) {
    if (file.path().extension() != ".jsonl" || file.file_size() > 20000) continue;
    std::ifstream in(file.path(), std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(in), {});
    if (readable(text)) texts.push_back(text);
  }
  std::sort(texts.begin(), texts.end());
  REQUIRE_FALSE(texts.empty());
  return texts;
}

const std::vector<std::string> kSplices = {"0",
                                           "-1",
                                           "128",
                                           "65536",
                                           "9223372036854775807",
                                           "-9223372036854775808",
                                           "1e999",
                                           "1.5",
                                           "null",
                                           "true",
                                           "\"inf\"",
                                           "\"nan\"",
                                           "\"r3\"",
                                           "\"r99999\"",
                                           "[]",
                                           "{}",
                                           "[[1,2]]",
                                           "\"\"",
                                           "\"a[\"",
                                           "::-1",
                                           ":",
                                           "[0:0]",
                                           "\xff\xfe",
                                           "\\u0000",
                                           "\n",
                                           "{\"tensor\":{}}",
                                           "[[[[[[[[[[[[",
                                           "\"float32\"",
                                           "\"hbm\"",
                                           "\"psum\"",
                                           "99999999999999999999",
                                           "\"trn1\"",
                                           "\"trn3\"",
                                           "4294967296",
                                           "1099511627776",
                                           "\"explicit\"",
                                           "\"virtual\""};

/// One to four random edits; JSON tokens are replaced by other tokens half of the time.
std::string mutate(std::string bytes, Random& random, bool text) {
  for (std::size_t n = 1 + below(random, 4); n > 0 && !bytes.empty(); --n) {
    const std::size_t at = below(random, bytes.size());
    switch (below(random, text ? 8 : 5)) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes.erase(at, 1 + below(random, 16));
        break;
      case 2:
        bytes.insert(at, 1, static_cast<char>(random()));
        break;
      case 3:
        bytes.resize(at);
        break;
      case 4: {
        const std::string piece = bytes.substr(below(random, bytes.size()), below(random, 64));
        bytes.insert(at, piece);
        break;
      }
      default: {  // replace the token that starts at or after `at`
        const std::size_t begin = bytes.find_first_of(":,[", at);
        if (begin == std::string::npos) break;
        const std::size_t end = bytes.find_first_of(",]}", begin + 1);
        if (end == std::string::npos) break;
        bytes.replace(begin + 1, end - begin - 1, kSplices[below(random, kSplices.size())]);
      }
    }
  }
  return bytes;
}

/// Reads `bytes`; if they are a trace after all, everything done with it must work too.
bool survives(const std::string& bytes) {
  try {
    const TraceFile trace = read_trace_text(bytes, "fuzz");
    const std::string text = format_trace(trace, TraceForm::kText);
    const std::string packed = format_trace(trace, TraceForm::kBinary);
    CHECK(format_trace(read_trace_text(text, "fuzz"), TraceForm::kText) == text);
    CHECK(format_trace(read_trace_text(packed, "fuzz"), TraceForm::kText) == text);
    for (const isa::Inst& inst : trace.program->insts())
      (void)isa::disasm_parts(*trace.program, inst);
    return true;
  } catch (const isa::Error& e) {
    CHECK(e.code() == isa::ErrorCode::kBadInput);
    CHECK_FALSE(std::string(e.what()).empty());
    return false;
  }
}

void fuzz(const char* what, std::size_t rounds, bool text,
          const std::function<std::string(const std::string&)>& before,
          const std::function<std::string(const std::string&)>& after) {
  const char* given = std::getenv("NKISIM_FUZZ_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20260816;
  std::vector<std::string> inputs;
  for (const std::string& trace : corpus()) inputs.push_back(before(trace));
  std::size_t accepted = 0;
  for (std::size_t i = 0; i < rounds; ++i) {
    Random random(seed + i);
    INFO(what << ": NKISIM_FUZZ_SEED=" << seed + i);
    const std::string bytes = mutate(inputs[below(random, inputs.size())], random, text);
    try {
      if (survives(after(bytes))) ++accepted;
    } catch (const std::exception& e) {
      FAIL("not an Error: " << e.what());
    }
  }
  INFO(what << ": " << accepted << " of " << rounds << " accepted");
  CHECK(accepted < rounds);
}

std::string same(const std::string& bytes) { return bytes; }
std::string packed(const std::string& text) {
  return format_trace(read_trace_text(text, "corpus"), TraceForm::kBinary);
}

}  // namespace

TEST_CASE("undamaged files are read") {
  for (const std::string& text : corpus()) CHECK(survives(text));
}
TEST_CASE("mutated text traces") { fuzz("text", 6000, true, same, same); }
TEST_CASE("mutated binary traces") { fuzz("binary", 8000, false, packed, same); }
TEST_CASE("mutated gzip files") { fuzz("gzip", 1500, false, gzip, same); }
TEST_CASE("compressed mutated traces") { fuzz("gzip of binary", 1500, false, packed, gzip); }
TEST_CASE("random bytes") {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Random random(seed);
    std::string bytes = seed % 2 == 0 ? std::string("\x89NISA\r\n\x01\x01", 9) : std::string();
    for (std::size_t n = below(random, 400); n > 0; --n) bytes += static_cast<char>(random());
    INFO("seed " << seed);
    CHECK_FALSE(survives(bytes));
  }
}
