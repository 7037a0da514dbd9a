// Saves a simulated run's events as columns in one profile file (.npz, called a session). Every
// report can be made from it without simulating again.
#pragma once

#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/files/npy.hpp"
#include "src/report/accounting.hpp"
#include "src/report/columns.hpp"
#include "src/report/part_texts.hpp"
#include "src/report/pointer_table.hpp"
#include "src/report/sources.hpp"

namespace nkisim {

/// Texts by number; saved as one array of bytes and one of offsets.
class Texts {
 public:
  std::int64_t add(std::string_view text);
  void save(NpzWriter& out) const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>> ids_;
  std::string bytes_;
  std::vector<std::int64_t> ends_;
};

class Session : public models::Observer {
 public:
  Session();
  void on_start(const isa::Program& program, const models::Config& config) override;
  void on_queue(const models::QueueName& queue) override;
  void on_event(const models::PartEvent& event) override;
  void on_event(const models::DmaLaneEvent& event) override;
  void on_event(const models::DmaEvent& event) override;
  void on_event(const models::SemaphoreEvent& event) override;
  void on_event(const models::CollectiveEvent& event) override;

  /// Columns are arrays of integers, times in fs; their names are those of Columns::save.
  /// `accounting` saw the same run. `facts` is the caller's JSON (summary, verdict, partial, ...).
  void save(const std::filesystem::path& path, const Accounting& accounting,
            const SourceRules& rules, nlohmann::ordered_json facts) const;

 private:
  std::int64_t inst_row(const isa::Inst& inst);
  void add_inst(const isa::Inst& inst, std::int64_t row);
  std::int64_t operands(const models::PartEvent& event, std::int64_t row);
  std::int64_t opcode_text(isa::Opcode opcode);
  std::int64_t mode_text(std::string_view mode);
  void add_tensors();
  void save_charges(NpzWriter& out, const Accounting& accounting) const;
  [[nodiscard]] Columns critical_path(const Accounting& accounting) const;
  [[nodiscard]] nlohmann::ordered_json describe_machine() const;

  const isa::Program* program_ = nullptr;
  models::Config config_;
  Texts texts_;
  Columns insts_, parts_, transfers_, lanes_, semaphores_, queues_, tensors_, uses_, collectives_,
      cc_instructions_;
  int rank_ = 0;
  PointerTable<std::int64_t> rows_;
  const isa::Inst* last_ = nullptr;  // that was asked for, and its row: parts follow each other
  std::int64_t last_row_ = 0;
  std::unique_ptr<PartTexts> lines_;
  std::vector<std::int64_t> op_texts_, file_texts_;  // kNone: not added yet
  std::vector<std::size_t> first_text_ = {0};        // of each instruction, and the end
  std::vector<std::int32_t> operand_texts_;          // of each instruction's parts
  std::vector<std::int64_t> opcode_texts_;
  std::unordered_map<const char*, std::int64_t> mode_texts_;
};

}  // namespace nkisim
