#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <vector>

#include "numbers.hpp"

namespace evidence {

/// Words by number, the most frequent first.
struct Text {
  std::vector<int> training, test;
  int vocabulary = 0;
};

/// Makes up a text, the same on every machine: the C++ standard fixes the bits of the generator,
/// and the probabilities need only sums and quotients. One word in 17 is drawn by Zipf's law: the
/// n-th with a probability proportional to 1/n. The others are one of four words that may follow
/// the word before. The last tenth is test text.
inline Text make_text(int vocabulary, std::size_t length = 1000000) {
  Random random(1);
  std::vector<double> cumulative;
  for (int n = 1; n <= vocabulary; ++n)
    cumulative.push_back((n == 1 ? 0.0 : cumulative.back()) + 1.0 / n);
  const auto draw = [&] {
    const auto found = std::upper_bound(cumulative.begin(), cumulative.end() - 1,
                                        random.uniform() * cumulative.back());
    return static_cast<int>(std::distance(cumulative.begin(), found));
  };
  std::vector<std::array<int, 4>> followers(static_cast<std::size_t>(vocabulary));
  for (auto& words : followers) std::generate(words.begin(), words.end(), draw);

  Text text;
  text.vocabulary = vocabulary;
  int word = 0;
  for (std::size_t i = 0; i < length; ++i) {
    const double choice = 4.25 * random.uniform();
    word = choice < 4.0
               ? followers[static_cast<std::size_t>(word)][static_cast<std::size_t>(choice)]
               : draw();
    (i < length / 10 * 9 ? text.training : text.test).push_back(word);
  }
  return text;
}

}  // namespace evidence
