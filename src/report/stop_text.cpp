// Formats the state of a simulated run at one instant as lines of text.
#include <iomanip>
#include <sstream>

#include "src/report/stop.hpp"

namespace nkisim {
namespace {
namespace of_stop_text {

using Json = nlohmann::ordered_json;

constexpr std::size_t kEdge = 3;  // values at both ends of a row, and rows of a tensor

std::string us(const Json& time) {
  if (time.is_null()) return "?";
  std::ostringstream s;
  s << std::fixed << std::setprecision(3) << time.get<double>();
  return s.str();
}

std::string who(const Json& instruction) {
  std::string text = instruction.at("instruction");
  const std::string place = instruction.at("source");
  return place.empty() ? text : text + " " + place;
}

std::string joined(const Json& texts) {
  std::string all;
  for (const Json& one : texts) all += (all.empty() ? "" : ", ") + one.get<std::string>();
  return all;
}

// "nc1.vector" where there are several cores.
std::string engine(const Json& row, bool several) {
  const std::string name = row.at("engine");
  return several ? "nc" + std::to_string(row.at("core").get<int>()) + "." + name : name;
}

void print_engines(std::ostream& out, const Json& rank, bool several) {
  for (const Json& row : rank.at("engines")) {
    out << "  " << std::left << std::setw(13) << engine(row, several);
    std::string text;
    const Json &runs = row.at("runs"), &next = row.at("next");
    if (!runs.is_null()) {
      text = "runs " + who(runs) + " (" + us(runs.at("start_us")) + " to " + us(runs.at("end_us")) +
             ")";
    }
    if (!row.at("waits_for").is_null()) {
      text += (text.empty() ? "" : "; ") + (next.is_null() ? "then" : who(next)) + " waits for " +
              row.at("waits_for").get<std::string>();
    }
    out << (text.empty() ? "has ended" : text) << '\n';
  }
}

std::string number(const Json& value) {
  if (value.is_null()) return "-";
  if (value.is_string()) return value.get<std::string>();
  std::ostringstream s;
  s << std::setprecision(5) << value.get<double>();
  return s.str();
}

// fn(i) of the first and last of `count`, fn of nothing where some are left out.
template <typename Fn, typename Gap>
void edges(std::size_t count, Fn&& fn, Gap&& gap) {
  for (std::size_t i = 0; i < count; ++i) {
    if (count > 2 * kEdge && i == kEdge) {
      gap();
      i = count - kEdge;
    }
    fn(i);
  }
}

void print_values(std::ostream& out, const Json& value) {
  const Json& shape = value.at("shape");
  const Json& all = value.at("values");
  const std::size_t rows = shape.size() < 2 || all.empty() ? 1 : shape.front().get<std::size_t>();
  const std::size_t columns = all.size() / std::max<std::size_t>(1, rows);
  edges(
      rows,
      [&](std::size_t r) {
        out << "   ";
        edges(
            columns, [&](std::size_t c) { out << ' ' << number(all[r * columns + c]); },
            [&] { out << " ..."; });
        out << '\n';
      },
      [&] { out << "    ...\n"; });
}

void print_tensor(std::ostream& out, const std::string& name, const Json& value) {
  out << "  " << name << ' ' << value.at("dtype").get<std::string>() << value.at("shape").dump()
      << ": " << value.at("valid") << " of " << value.at("elements") << " elements have a value";
  if (!value.at("under_way").empty()) out << "; under way: " << joined(value.at("under_way"));
  out << '\n';
  if (value.contains("values")) print_values(out, value);
}

void print_rank(std::ostream& out, const Json& rank) {
  const Json &under_way = rank.at("under_way"), &engines = rank.at("engines");
  bool several = false;
  for (const Json& row : engines) several = several || row.at("core") != 0;
  out << rank.at("complete") << " of " << rank.at("instructions") << " instructions are complete, "
      << under_way.size() << " under way\n";
  print_engines(out, rank, several);
  for (const Json& row : under_way) {
    out << "  under way    " << who(row) << " on " << engine(row, several) << " ("
        << us(row.at("start_us")) << " to " << us(row.at("end_us")) << ")";
    if (!row.at("writes").empty()) out << ", writes " << joined(row.at("writes"));
    out << '\n';
  }
  if (!rank.contains("values")) return;
  for (const auto& [name, value] : rank.at("values").items()) print_tensor(out, name, value);
}

}  // namespace of_stop_text
}  // namespace

std::string stop_text(const nlohmann::ordered_json& stop, std::size_t rank) {
  std::ostringstream out;
  const nlohmann::ordered_json& ranks = stop.at("ranks");
  out << "stop at " << of_stop_text::us(stop.at("at_us")) << " us";
  if (ranks.size() > 1) out << ", rank " << rank;
  out << ": ";
  of_stop_text::print_rank(out, ranks[rank]);
  return out.str();
}

}  // namespace nkisim
