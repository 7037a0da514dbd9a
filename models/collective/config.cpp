// Names the kinds and algorithms of collectives, as configs and profiles write them.
#include "models/collective/config.hpp"

#include <array>

namespace nkisim::models {
namespace {

constexpr std::array<std::string_view, kCollectiveKinds> kKindNames = {
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute", "barrier"};
constexpr std::array<std::string_view, kCollectiveKinds> kProfileKindNames = {
    "AllReduce", "AllGather", "ReduceScatter", "AllToAll", "Permute", "Invalid"};
constexpr std::array<std::string_view, kAlgorithms> kAlgorithmNames = {
    "mesh", "rdh", "on_chip", "kangaring", "ring", "direct", "hierarchical", "none"};
constexpr std::array<std::string_view, kAlgorithms> kProfileAlgorithmNames = {
    "Mesh", "RDH", "RDH", "KangaRing", "Ring", "Direct", "Hierarchical", "Invalid"};

}  // namespace

std::string_view name(CollectiveKind kind) { return kKindNames.at(static_cast<std::size_t>(kind)); }
std::string_view profile_name(CollectiveKind kind) {
  return kProfileKindNames.at(static_cast<std::size_t>(kind));
}
std::string_view name(Algorithm algorithm) {
  return kAlgorithmNames.at(static_cast<std::size_t>(algorithm));
}
std::string_view profile_name(Algorithm algorithm) {
  return kProfileAlgorithmNames.at(static_cast<std::size_t>(algorithm));
}

}  // namespace nkisim::models
