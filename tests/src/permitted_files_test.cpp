// Tests which files an untrusted input may name, and that a written file appears as a whole.
#include "src/files/permitted_files.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "isa/base/error.hpp"
#include "src/files/atomic_file.hpp"
#include "src/report/sources.hpp"

namespace {

namespace fs = std::filesystem;
using namespace nkisim;

struct Folder {
  fs::path path = fs::temp_directory_path() / ("nkisim-reach" + std::to_string(getpid()));
  Folder() {
    fs::create_directories(path / "in" / ".git");
    for (const char* name : {"secret.py", "in/k.py", "in/.env.py", "in/.git/config.py", "in/k.txt"})
      std::ofstream(path / name) << name;
    fs::create_symlink(path / "secret.py", path / "in" / "link.py");
    fs::create_symlink(path / "in" / "k.py", path / "in" / "own.py");
  }
  ~Folder() { fs::remove_all(path); }
};

std::string content(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("an input names files below the roots only") {
  const Folder folder;
  const PermittedFiles reach({folder.path / "in"});
  CHECK(reach.find(folder.path / "in/k.py"));
  CHECK(reach.find(folder.path / "in/../in/k.py"));
  CHECK_FALSE(reach.find(folder.path / "secret.py"));
  CHECK_FALSE(reach.find(folder.path / "in/../secret.py"));
  CHECK_FALSE(reach.find(folder.path / "in/link.py"));
  CHECK_FALSE(reach.find(folder.path / "in"));
  CHECK_FALSE(reach.find(folder.path / "in/none.py"));
  CHECK_FALSE(reach.find("/dev/zero"));
  CHECK(PermittedFiles({folder.path / "none"}).find(folder.path / "in/k.py") == std::nullopt);
}

TEST_CASE("a trace's sources are source files below its folder") {
  const Folder folder;
  const std::vector<std::string> names = {
      "k.py",         "own.py", "link.py",
      ".env.py",      "k.txt",  ".git/config.py",
      "../secret.py", "..",     (folder.path / "secret.py").string(),
      "/etc/passwd"};
  const auto texts = read_sources(names, folder.path / "in" / "k.jsonl", {});
  CHECK(texts == std::map<std::string, std::string>{{"k.py", "in/k.py"}, {"own.py", "in/k.py"}});
  // The place where it was recorded is not read: k.py next to the trace stands for it.
  for (const std::string& name :
       {(folder.path / "in/k.py").string(), std::string("/home/me/k.py")}) {
    CHECK(read_sources({name}, folder.path / "in/k.jsonl", {}).at(name) == "in/k.py");
  }
  const auto more = read_sources({"secret.py"}, folder.path / "in/k.jsonl",
                                 {.own_kernel = false, .roots = {folder.path}});
  CHECK(more == std::map<std::string, std::string>{{"secret.py", "secret.py"}});
  // A name may count from the working folder or one above the trace's, if it ends below the
  // trace's.
  CHECK(read_sources({"in/k.py"}, folder.path / "in/k.jsonl", {}).size() == 1);
}

TEST_CASE("a kernel's own sources are wherever it was") {
  const Folder folder;
  const std::string name = (folder.path / "secret.py").string();
  CHECK(read_sources({name}, "", {.own_kernel = true, .roots = {}}).at(name) == "secret.py");
}

TEST_CASE("two writers of a file each leave a whole one") {
  const Folder folder;
  const fs::path target = folder.path / "out";
  AtomicFile a(target), b(target);
  a.write("first");
  b.write("second");
  a.commit();
  CHECK(content(target) == "first");
  b.commit();
  CHECK(content(target) == "second");
  CHECK(std::distance(fs::directory_iterator(folder.path), fs::directory_iterator()) == 3);
}

TEST_CASE("a link to a file is replaced, a link to a device is written through") {
  const Folder folder;
  const fs::path link = folder.path / "in" / "link.py", null = folder.path / "null";
  AtomicFile file(link);
  file.write("new");
  file.commit();
  CHECK(content(folder.path / "secret.py") == "secret.py");
  CHECK_FALSE(fs::is_symlink(link));
  fs::create_symlink("/dev/null", null);
  AtomicFile device(null);
  device.write("gone");
  device.commit();
  CHECK(fs::is_symlink(null));
  CHECK_THROWS_AS(AtomicFile(folder.path), isa::Error);
}
