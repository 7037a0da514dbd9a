// Tests SBUF and PSUM of a core, driven through their interfaces alone.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "models/memory/psum.hpp"
#include "models/memory/sbuf.hpp"
#include "models/sim_session.hpp"

using namespace nkisim;
using namespace nkisim::models;

namespace {

constexpr auto kVector = isa::Engine::kVector, kScalar = isa::Engine::kScalar,
               kGpSimd = isa::Engine::kGpSimd, kTensor = isa::Engine::kTensor;

std::uint32_t bit(isa::Engine engine) { return 1U << static_cast<unsigned>(engine); }

// As on the two generations: one port of SBUF; PSUM as a whole, or by bank.
std::vector<PortRule> rules(bool per_bank) {
  return {{isa::Space::kSbuf, bit(kVector) | bit(kGpSimd), false},
          {isa::Space::kPsum, bit(kVector) | bit(kScalar), per_bank}};
}

Grant asked(const psum_if& psum, isa::Engine engine, std::uint32_t banks, Fs at) {
  Grant grant{.at = at};
  psum.probe(engine, banks, grant);
  return grant;
}

Grant asked(const sbuf_if& sbuf, isa::Engine engine, Fs at) {
  Grant grant{.at = at};
  sbuf.probe(engine, grant);
  return grant;
}

}  // namespace

TEST_CASE("a shared port of SBUF delays the other engine only") {
  SimSession session;
  const auto ports = rules(true);
  Sbuf sbuf("sbuf", ports);
  CHECK(sbuf.shared_by(kVector));
  CHECK_FALSE(sbuf.shared_by(kScalar));
  sbuf.reserve(kVector, 100);
  CHECK(asked(sbuf, kGpSimd, 40).at == 100);
  CHECK(asked(sbuf, kGpSimd, 40).holder == kVector);
  CHECK(asked(sbuf, kGpSimd, 140).at == 140);
  CHECK(asked(sbuf, kGpSimd, 140).holder == isa::Engine::kAny);
  CHECK(asked(sbuf, kVector, 40).at == 40);
  sbuf.reserve(kScalar, 900);  // has a port of its own
  CHECK(asked(sbuf, kGpSimd, 40).at == 100);
}

TEST_CASE("banks of PSUM are taken one by one where the port is a bank's") {
  SimSession session;
  const auto ports = rules(true);
  Psum psum("psum", ports, 8);
  psum.reserve(kVector, 0b10, 100);
  CHECK(asked(psum, kScalar, 0b01, 40).at == 40);
  CHECK(asked(psum, kScalar, 0b11, 40).at == 100);
  CHECK(asked(psum, kScalar, 0, 40).at == 40);
  CHECK(asked(psum, kVector, 0b11, 40).at == 40);
  CHECK(asked(psum, kTensor, 0b11, 40).at == 40);
  CHECK(psum.bank(1).ports().front().holder() == kVector);
  CHECK(psum.bank(1).ports().front().until() == 100);
  CHECK(psum.bank(0).ports().front().until() == 0);
}

TEST_CASE("all of PSUM is taken where the port is the memory's") {
  SimSession session;
  const auto ports = rules(false);
  Psum psum("psum", ports, 8);
  psum.reserve(kVector, 0b10, 100);
  CHECK(asked(psum, kScalar, 0b01, 40).at == 100);
  CHECK(asked(psum, kScalar, 0, 40).at == 40);
}

TEST_CASE("PSUM has a module for each bank") {
  SimSession session;
  const auto ports = rules(true);
  const Psum psum("psum", ports, 3);
  std::vector<std::string> names;
  for (const sc_core::sc_object* o : psum.get_child_objects()) names.emplace_back(o->name());
  CHECK(names == std::vector<std::string>{"psum.bank0", "psum.bank1", "psum.bank2"});
}
