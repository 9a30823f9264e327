#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "network.hpp"
#include "random.hpp"

namespace digits {

constexpr int pixels = 64;
constexpr int classes = 10;

struct Images {
  Matrix<float> pixels;     // 64 x images, from -1 (paper) to 1 (ink)
  std::vector<int> labels;  // 0 … 9

  [[nodiscard]] std::size_t size() const { return labels.size(); }

  /// The images numbers[begin] … numbers[end - 1].
  [[nodiscard]] Images subset(const std::vector<int>& numbers, std::size_t begin,
                              std::size_t end) const {
    Images part;
    part.pixels.resize(pixels.rows(), static_cast<Eigen::Index>(end - begin));
    for (std::size_t i = begin; i < end; ++i) {
      part.pixels.col(static_cast<Eigen::Index>(i - begin)) = pixels.col(numbers[i]);
      part.labels.push_back(labels[static_cast<std::size_t>(numbers[i])]);
    }
    return part;
  }
  /// Part `number` of `parts`. Their sizes differ by at most one image.
  [[nodiscard]] Images part(std::size_t number, std::size_t parts) const {
    const std::size_t begin = size() * number / parts, end = size() * (number + 1) / parts;
    Images part;
    part.pixels =
        pixels.middleCols(static_cast<Eigen::Index>(begin), static_cast<Eigen::Index>(end - begin));
    part.labels.assign(labels.begin() + static_cast<std::ptrdiff_t>(begin),
                       labels.begin() + static_cast<std::ptrdiff_t>(end));
    return part;
  }
};

/// An integer in [0, largest]. Throws std::runtime_error naming file, line and text.
inline int parse_number(const std::string& text, int largest, const std::string& file, int line) {
  char* end = nullptr;
  const long value = std::strtol(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || value < 0 || value > largest) {
    throw std::runtime_error(file + ", line " + std::to_string(line) + ": '" + text +
                             "' is not a number from 0 to " + std::to_string(largest));
  }
  return static_cast<int>(value);
}

/// Reads rows of 64 pixels (0 … 16) and a label. Throws std::runtime_error naming file and line if
/// a row is not like that.
inline Images read_images(const std::string& file) {
  std::ifstream stream(file);
  if (!stream) throw std::runtime_error(file + ": cannot be read");
  std::vector<float> values;
  Images images;
  int line = 0;
  for (std::string row; std::getline(stream, row);) {
    ++line;
    std::stringstream fields(row);
    int count = 0;
    for (std::string field; std::getline(fields, field, ','); ++count) {
      if (count < pixels)
        values.push_back(static_cast<float>(parse_number(field, 16, file, line)) / 8.0F - 1.0F);
      if (count == pixels) images.labels.push_back(parse_number(field, classes - 1, file, line));
    }
    if (count != pixels + 1) {
      throw std::runtime_error(file + ", line " + std::to_string(line) + ": " +
                               std::to_string(count) + " fields, not 65");
    }
  }
  if (line < 2) throw std::runtime_error(file + ": has fewer than two images");
  images.pixels = Eigen::Map<const Matrix<float>>(values.data(), pixels,
                                                  static_cast<Eigen::Index>(images.size()));
  return images;
}

}  // namespace digits
