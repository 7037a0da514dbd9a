// Distributes the ranks of one simulation over several processes, and declares their messages. A
// shard is the ranks of one process.
//
// Every shard runs its own ranks and knows of the others where they wait and what they send. Shards
// meet in rounds, in which each sends all others its news (docs/collectives.md). A world in one
// process is one shard, which has no other to send to.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "isa/base/error.hpp"
#include "isa/world/exchange.hpp"

namespace nkisim::isa {

/// A shard's message to this one in a round.
struct Message {
  std::string all;   // as it sent it to all
  std::string mine;  // this one alone
};

/// The way to the other shards.
class Link {
 public:
  Link() = default;
  virtual ~Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  /// Sends every shard `all`, and shard s also each[s]. Returns what each sent this one (its own
  /// words too, without `mine`), by shard, when all of them have come: every shard makes the same
  /// calls. Throws Error if one is gone.
  virtual std::vector<Message> meet(const std::string& all,
                                    const std::vector<std::string>& each) = 0;
};

/// The shard of the world that this process has, and the owner of each rank.
struct Shard {
  Link* link = nullptr;  // null: one process has all ranks
  int number = 0, count = 1;
  std::vector<int> owner = {};  // shard of every rank of the world
  [[nodiscard]] bool alone() const { return link == nullptr; }
  [[nodiscard]] bool owns(std::int64_t rank) const {
    return alone() || owner[static_cast<std::size_t>(rank)] == number;
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

/// The collective instructions of a program, in its order: the numbers by which shards name them.
class CollectiveTable {
 public:
  explicit CollectiveTable(const Program& program);
  [[nodiscard]] std::uint32_t number(const Inst& inst) const { return numbers_.at(&inst); }
  [[nodiscard]] const Inst& inst(std::uint32_t number) const { return *insts_.at(number); }
  [[nodiscard]] const std::vector<const Inst*>& all() const { return insts_; }

 private:
  std::vector<const Inst*> insts_;
  std::unordered_map<const Inst*, std::uint32_t> numbers_;
};

/// An error of one shard, which ends the run of all.
struct Failure {
  std::int64_t time = 0;   // when in the run: the first of all shards' counts
  std::int64_t order = 0;  // of those at one time
  Error error;
  [[nodiscard]] bool before(const std::optional<Failure>& other) const {
    return !other || time < other->time || (time == other->time && order < other->order);
  }
};

/// The shards' messages to each other: calls, the data that they send, and errors. Between the
/// rounds of one process nothing is kept.
class Post {
 public:
  /// A core of a rank has come to `inst` at `time`.
  struct Called {
    std::int64_t rank = 0;
    std::size_t core = 0;
    const Inst* inst = nullptr;
    std::int64_t time = 0;
    std::int64_t prepared = 0;  // when the prepare of an operation in two parts ended
  };
  /// The data that a rank sends in a call.
  struct Sent {
    std::int64_t rank = 0;
    std::uint64_t call = 0;
    RankSources sources = {};
  };
  /// `programs`: of every rank of the world.
  Post(const Shard& shard, std::vector<const Program*> programs);
  /// To all, in this order.
  void send(const Called& called);
  void send(std::span<const std::int64_t> lengths);
  /// To the other shards that have ranks of the group.
  void send(RankGroup group, std::int64_t rank, std::uint64_t call, const RankSources& sources);
  /// One round, with the shard's error, if it has one, and `head` in front; the words of each. In
  /// a run of one shard it has none.
  std::vector<Message> meet(const std::optional<Failure>& mine, const Words& head = {});
  [[nodiscard]] Called get_called(WordReader& in) const;
  [[nodiscard]] static std::vector<std::int64_t> get_lengths(WordReader& in, std::size_t count);
  [[nodiscard]] Sent get_sent(WordReader& in) const;
  [[nodiscard]] static std::optional<Failure> get_failure(WordReader& in);
  /// The collectives of `program`.
  [[nodiscard]] const CollectiveTable& table(const Program& program) const {
    return tables_.at(&program);
  }

 private:
  const Shard& shard_;
  std::vector<const Program*> programs_;
  std::map<const Program*, CollectiveTable> tables_;
  Words all_;
  std::vector<Words> each_;
};

/// One round about nothing but errors: throws the first of all shards' if there is one.
void agree(const Shard& shard, const std::optional<Failure>& mine);

}  // namespace nkisim::isa
