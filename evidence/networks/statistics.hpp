#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

namespace evidence {

/// Wilcoxon's signed-rank test of paired differences (1945), two-sided and exact. Returns the
/// probability that random signs give a sum of ranks at least as far from its mean as these. Leaves
/// out differences of 0. Equal ones share the mean of their ranks; infinite ones are equal. Returns
/// 1 if none is left.
inline double wilcoxon(std::vector<double> differences) {
  differences.erase(std::remove(differences.begin(), differences.end(), 0.0), differences.end());
  std::sort(differences.begin(), differences.end(),
            [](double a, double b) { return std::abs(a) < std::abs(b); });
  const std::size_t n = differences.size();
  std::vector<std::size_t> ranks(n);  // doubled, so that they are integers
  std::size_t positive = 0;
  for (std::size_t begin = 0, end = 0; begin < n; begin = end) {
    while (end < n && !(std::abs(differences[begin]) < std::abs(differences[end]))) ++end;
    for (std::size_t i = begin; i < end; ++i) {
      ranks[i] = begin + end + 1;
      if (differences[i] > 0.0) positive += ranks[i];
    }
  }
  // Of each doubled sum of the ranks with a positive sign
  std::vector<double> probability(n * (n + 1) + 1, 0.0);
  probability[0] = 1.0;
  for (const std::size_t rank : ranks) {
    for (std::size_t sum = probability.size(); sum-- > 0;) {
      probability[sum] = 0.5 * (probability[sum] + (sum >= rank ? probability[sum - rank] : 0.0));
    }
  }
  const auto at = [&](std::size_t sum) {
    return probability.begin() + static_cast<std::ptrdiff_t>(sum);
  };
  const double below = std::accumulate(probability.begin(), at(positive + 1), 0.0);
  const double above = std::accumulate(at(positive), probability.end(), 0.0);
  return std::min(1.0, 2.0 * std::min(below, above));
}

/// Holm's correction of the p-values of several tests. If all null hypotheses hold, the probability
/// that any corrected value is at most a level is at most that level.
inline std::vector<double> holm(const std::vector<double>& p) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return p[a] < p[b]; });
  std::vector<double> corrected(p.size());
  double largest = 0.0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    largest = std::max(largest, std::min(1.0, p[order[i]] * static_cast<double>(p.size() - i)));
    corrected[order[i]] = largest;
  }
  return corrected;
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

inline double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace evidence
