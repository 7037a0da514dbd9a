// A world whose ranks are spread over processes: what these parts of it tell each other.
//
// Every part runs its own ranks and knows of the others where they wait and what they send. Parts
// meet in rounds, in which each tells all others what is new (docs/collectives.md).
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "isa/base/error.hpp"
#include "isa/world/exchange.hpp"

namespace nkisim::isa {

/// What a part told this one in a round.
struct Told {
  std::string all;   // as it told everybody
  std::string mine;  // this one alone
};

/// The way to the other parts.
class Link {
 public:
  Link() = default;
  virtual ~Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  /// Tells every part `all`, and part p also each[p]. Returns what each part told this one (its own
  /// words too, without `mine`), by part, when all of them have come: every part makes the same
  /// calls. Throws Error if a part is gone.
  virtual std::vector<Told> meet(const std::string& all, const std::vector<std::string>& each) = 0;
};

/// Which part this process is, and who has which rank.
struct Spread {
  Link* link = nullptr;  // null: one process has all ranks
  int part = 0, parts = 1;
  std::vector<int> owner = {};  // part of every rank of the world
  [[nodiscard]] bool owns(std::int64_t rank) const {
    return link == nullptr || owner[static_cast<std::size_t>(rank)] == part;
  }
};

/// Values in the bytes of a message, of one build on machines of one byte order.
class Words {
 public:
  template <typename T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put_text(std::string_view text) {
    put<std::uint64_t>(text.size());
    bytes_ += text;
  }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }
  [[nodiscard]] bool empty() const { return bytes_.empty(); }
  /// The bytes, which are gone then.
  [[nodiscard]] std::string take() { return std::exchange(bytes_, {}); }

 private:
  std::string bytes_;
};

/// Reads what Words wrote; throws an internal Error where a message is too short.
class WordReader {
 public:
  explicit WordReader(std::string_view bytes) : bytes_(bytes) {}
  template <typename T>
  T get() {
    T value;
    const std::string_view from = next(sizeof value);
    std::memcpy(&value, from.data(), sizeof value);
    return value;
  }
  [[nodiscard]] std::string_view text() { return next(get<std::uint64_t>()); }
  [[nodiscard]] bool at_end() const { return bytes_.empty(); }

 private:
  std::string_view next(std::uint64_t count);
  std::string_view bytes_;
};

/// The collective instructions of a program, in its order: the numbers by which parts name them.
class CollectiveTable {
 public:
  explicit CollectiveTable(const Program& program);
  [[nodiscard]] std::uint32_t number(const Inst& inst) const;
  [[nodiscard]] const Inst& inst(std::uint32_t number) const { return *insts_.at(number); }
  [[nodiscard]] const std::vector<const Inst*>& all() const { return insts_; }

 private:
  std::vector<const Inst*> insts_;
};

/// Sources of a rank's call, for other parts; `program` is the rank's.
void put_sources(Words& out, const RankSources& sources, const Program& program);
[[nodiscard]] RankSources get_sources(WordReader& in, const Program& program);
/// The other parts that have ranks of a group.
[[nodiscard]] std::vector<int> parts_of(RankGroup group, const Spread& spread);

/// An error of one part, which ends the run of all.
struct Failure {
  std::int64_t time = 0;   // when in the run: the first of all parts' counts
  std::int64_t order = 0;  // of those at one time
  Error error;
  [[nodiscard]] bool before(const std::optional<Failure>& other) const {
    return !other || time < other->time || (time == other->time && order < other->order);
  }
};
void put_failure(Words& out, const std::optional<Failure>& failure);
[[nodiscard]] std::optional<Failure> get_failure(WordReader& in);
/// One round about nothing but errors: throws the first of all parts' if there is one.
void agree(const Spread& spread, const std::optional<Failure>& mine);

}  // namespace nkisim::isa
