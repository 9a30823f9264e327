#pragma once

#include <headroom/tree/walk.hpp>

#include <string>
#include <vector>

namespace support {

/// The paths of all leaves, in the order of the walk.
template <class Tree>
std::vector<std::string> paths_of(const Tree& tree) {
  std::vector<std::string> paths;
  headroom::for_each_leaf_with_path(
      tree, [&](const std::string& path, const auto&) { paths.push_back(path); });
  return paths;
}

}  // namespace support
