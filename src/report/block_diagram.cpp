// Lays out the modules of a simulated chip as nested boxes, and draws them as SVG.

#include "src/report/block_diagram.hpp"

#include <algorithm>
#include <map>
#include <sstream>
#include <vector>

namespace nkisim {
namespace {

using models::Block;

int depth_of(const std::string& name) {
  return static_cast<int>(std::count(name.begin(), name.end(), '.'));
}

std::string last_name(const std::string& name) { return name.substr(name.rfind('.') + 1); }

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size() + 2), ' ');
  return text;
}

// ---- the drawing ----
constexpr double kPad = 8, kLine = 15, kLeafHeight = 50, kRow = 900;

// A module's box with those of its children in it. Places are within its parent.
struct Box {
  const Block* block = nullptr;
  std::vector<Box> children;
  double x = 0, y = 0, width = 0, height = 0;
};

std::string ports_text(const Block& block) {
  std::string text;
  for (const Block::Port& port : block.ports) text += (text.empty() ? "→ " : ", ") + port.name;
  return text;
}

double text_width(const Block& block) {
  const std::size_t longest =
      std::max({last_name(block.name).size(), block.kind.size(), ports_text(block).size()});
  return 7.2 * static_cast<double>(longest) + 2 * kPad;
}

// Children stand in rows of at most kRow, below the title.
void lay_out(Box& box) {
  box.width = text_width(*box.block);
  box.height = kLeafHeight;
  if (box.children.empty()) return;
  double x = kPad, y = kLeafHeight, row = 0;
  for (Box& child : box.children) {
    lay_out(child);
    if (x > kPad && x + child.width > kRow) {
      x = kPad;
      y += row + kPad;
      row = 0;
    }
    child.x = x;
    child.y = y;
    x += child.width + kPad;
    row = std::max(row, child.height);
    box.width = std::max(box.width, x);
  }
  box.height = y + row + kPad;
}

// Boxes of blocks[at...] that lie within `parent`; moves `at` behind them.
std::vector<Box> boxes_within(std::span<const Block> blocks, const std::string& parent,
                              std::size_t& at) {
  std::vector<Box> boxes;
  while (at < blocks.size() && blocks[at].name.rfind(parent, 0) == 0) {
    Box& box = boxes.emplace_back();
    box.block = &blocks[at++];
    box.children = boxes_within(blocks, box.block->name + ".", at);
  }
  return boxes;
}

void text(std::ostream& out, double x, double y, const std::string& style,
          const std::string& words) {
  out << "<text x=\"" << x << "\" y=\"" << y << "\" " << style << '>' << words << "</text>\n";
}

void draw(std::ostream& out, const Box& box, double left, double top, int depth) {
  static constexpr std::array<const char*, 4> kFills = {"#eef3f8", "#e2f0d9", "#fff8e1", "#fbe9e7"};
  const double x = left + box.x, y = top + box.y;
  out << "<rect x=\"" << x << "\" y=\"" << y << "\" width=\"" << box.width << "\" height=\""
      << box.height << "\" rx=\"4\" fill=\"" << kFills.at(static_cast<std::size_t>(depth) % 4)
      << "\" stroke=\"#555\"/>\n";
  text(out, x + kPad, y + kLine, "font-weight=\"bold\"", last_name(box.block->name));
  text(out, x + kPad, y + 2 * kLine, "fill=\"#333\"", box.block->kind);
  text(out, x + kPad, y + 3 * kLine - 2, "font-size=\"10\" fill=\"#666\"", ports_text(*box.block));
  for (const Box& child : box.children) draw(out, child, x, y, depth + 1);
}

}  // namespace

std::string block_tree(std::span<const Block> blocks) {
  std::ostringstream out;
  for (const Block& block : blocks) {
    const int depth = depth_of(block.name);
    const std::string name =
        std::string(2 * static_cast<std::size_t>(depth), ' ') + last_name(block.name);
    std::string line = padded(name, 26) + padded(block.kind, 18);
    for (const Block::Port& port : block.ports) line += port.name + " -> " + port.to + "  ";
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << '\n';
  }
  return out.str();
}

nlohmann::ordered_json block_json(std::span<const Block> blocks) {
  nlohmann::ordered_json modules = nlohmann::ordered_json::array();
  for (const Block& block : blocks) {
    nlohmann::ordered_json ports = nlohmann::ordered_json::object();
    for (const Block::Port& port : block.ports) ports[port.name] = port.to;
    modules.push_back({{"name", block.name}, {"kind", block.kind}, {"ports", ports}});
  }
  return {{"modules", modules}};
}

std::string block_svg(std::span<const Block> blocks, const std::string& title) {
  std::size_t at = 0;
  std::vector<Box> boxes = boxes_within(blocks, "", at);
  double y = 30, width = 0;
  for (Box& box : boxes) {
    lay_out(box);
    box.x = kPad;
    box.y = y;
    y += box.height + kPad;
    width = std::max(width, box.width);
  }
  std::ostringstream out;
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << width + 2 * kPad << "\" height=\""
      << y << "\" font-family=\"sans-serif\" font-size=\"12\">\n"
      << "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  text(out, kPad, 20, "font-size=\"15\" font-weight=\"bold\"", title);
  for (const Box& box : boxes) draw(out, box, 0, 0, 0);
  out << "</svg>\n";
  return out.str();
}

}  // namespace nkisim
