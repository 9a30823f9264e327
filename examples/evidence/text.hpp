#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

namespace evidence {

/// A text as numbers of its words: the most frequent word is 1, and 0 stands for all that are not in the vocabulary.
struct Text {
  std::vector<int> training, test;  // of every ten blocks of 1024 words, the last is test text
  int vocabulary = 0;
  std::uint64_t digest = 0;  // FNV-1a of the words, each with a line feed after it: the licences differ from system to system

  [[nodiscard]] std::size_t words() const { return training.size() + test.size(); }
};

/// The licences that a Debian system has in any case: /usr/share/common-licenses and /usr/share/doc/*/copyright, in the order
/// of their paths. Links are left out, as what they lead to is there too.
inline std::vector<std::filesystem::path> licence_files(const std::filesystem::path& share = "/usr/share") {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  const auto add = [&files](const fs::path& file) {
    std::error_code ignored;
    if (!fs::is_symlink(file, ignored) && fs::is_regular_file(file, ignored)) files.push_back(file);
  };
  std::error_code missing;  // leaves the iterator at its end
  for (const auto& entry : fs::directory_iterator(share / "common-licenses", missing)) add(entry.path());
  for (const auto& entry : fs::directory_iterator(share / "doc", missing)) add(entry.path() / "copyright");
  std::sort(files.begin(), files.end());
  return files;
}

/// Words are what white space separates; those equally frequent are numbered in alphabetical order. Throws std::runtime_error
/// if there are fewer different words than `vocabulary`.
inline Text read_text(const std::vector<std::filesystem::path>& files, int vocabulary) {
  std::vector<std::string> words;
  for (const auto& file : files) {
    std::ifstream stream(file);
    for (std::string word; stream >> word;) words.push_back(word);
  }
  std::unordered_map<std::string, int> counts;
  for (const std::string& word : words) ++counts[word];
  const auto needed = static_cast<std::size_t>(vocabulary) - 1;
  if (counts.size() < needed) {
    throw std::runtime_error(std::to_string(files.size()) + " files have " + std::to_string(counts.size()) +
                             " different words, but " + std::to_string(needed) +
                             " are needed; the text is that of /usr/share/common-licenses and /usr/share/doc/*/copyright");
  }
  std::vector<std::pair<int, std::string>> order;
  for (const auto& [word, count] : counts) order.emplace_back(-count, word);
  std::sort(order.begin(), order.end());
  for (auto& [word, number] : counts) number = 0;
  for (std::size_t i = 0; i < needed; ++i) counts[order[i].second] = static_cast<int>(i) + 1;

  Text text;
  text.vocabulary = vocabulary;
  text.digest = 0xcbf29ce484222325U;
  for (std::size_t i = 0; i < words.size(); ++i) {
    (i / 1024 % 10 == 9 ? text.test : text.training).push_back(counts.at(words[i]));
    for (const char byte : words[i] + '\n') text.digest = (text.digest ^ static_cast<unsigned char>(byte)) * 0x100000001b3U;
  }
  return text;
}

}  // namespace evidence
