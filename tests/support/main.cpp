// Catch2's main for every suite, and the sc_main that libsystemc asks for.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <cstdlib>

extern "C" int sc_main(int, char*[]) { return 0; }

int main(int argc, char* argv[]) {
  setenv("SYSTEMC_DISABLE_COPYRIGHT_MESSAGE", "1", 0);
  return Catch::Session().run(argc, argv);
}
