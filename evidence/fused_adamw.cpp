// Times two steps of AdamW with scaled gradients. One unscales and clips them in passes of their
// own. The other is fused: it measures them, and AdamW multiplies them as it reads them
// (examples/fused_adamw.hpp). Ends with 1 if the weights differ, or if a step with Inf is not
// skipped. Compile with -O2 -fno-math-errno.
//
//   fused_adamw [leaves [elements of each [steps]]]

#include "../examples/fused_adamw.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <headroom/headroom.hpp>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

namespace {

template <class T>
using Leaves = std::vector<std::vector<T>>;

constexpr float loss_scale = 1000.0F;  // no power of two, so that the two steps round differently
constexpr double max_norm = 1.0;

struct Size {
  std::size_t leaves = 100, elements = 100'000;
  int steps = 20;
};

template <class T>
Leaves<T> leaves_of(const Size& size, float value) {
  return Leaves<T>(size.leaves, std::vector<T>(size.elements, T(value)));
}

/// Unscales, clips and updates in separate passes. 16-bit gradients are unscaled to float: in 16
/// bits small ones would underflow.
template <class T>
class Separate {
 public:
  explicit Separate(const Size& size) : weights(leaves_of<float>(size, 1.0F)) {
    state_.first = state_.second = leaves_of<float>(size, 0.0F);
    if (!std::is_same_v<T, float>) unscaled_ = leaves_of<float>(size, 0.0F);
  }
  bool step(Leaves<T>& scaled) {
    bool finite = false;
    if constexpr (std::is_same_v<T, float>) {
      finite = headroom::unscale_and_clip_in_place(scaled, loss_scale, max_norm).finite;
      if (finite) run_adamw(scaled);
    } else {
      finite = headroom::unscale_into(scaled, unscaled_, loss_scale).finite;
      if (finite) {
        headroom::clip_by_global_norm(unscaled_, max_norm);
        run_adamw(unscaled_);
      }
    }
    return finite;
  }

  Leaves<float> weights;

 private:
  void run_adamw(const Leaves<float>& gradients) {
    const fused::AdamWFactors by({}, ++state_.steps);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      fused::adamw_block(weights[i].data(), state_.first[i].data(), state_.second[i].data(),
                         gradients[i].data(), gradients[i].size(), by);
    }
  }

  Leaves<float> unscaled_;
  fused::AdamWState state_;
};

/// Only measures; the optimizer does the rest.
template <class T>
class Fused {
 public:
  Fused(const Size& size, Leaves<T>& scaled)
      : weights(leaves_of<float>(size, 1.0F)), optimizer_(weights, scaled), scaler_(loss_scale) {}
  Fused(const Fused&) = delete;  // the optimizer has the address of the weights
  Fused& operator=(const Fused&) = delete;

  bool step() {
    (void)scaler_.scale(1.0F);  // stands for backward
    scaler_.unscale_and_clip_(optimizer_, max_norm);
    const bool steps = !scaler_.step(optimizer_).skipped;
    scaler_.update();
    return steps;
  }

  Leaves<float> weights;

 private:
  fused::AdamW<Leaves<T>> optimizer_;
  headroom::GradScaler<> scaler_;
};

/// Plain loops over the same memory: they read gradients twice, and read and write weights and
/// moments.
template <class T>
class MemoryAlone {
 public:
  explicit MemoryAlone(const Size& size)
      : gradients_(size.leaves, std::vector<Word>(size.elements)) {
    for (auto& each : written_) each = leaves_of<float>(size, 1.0F);
  }
  void step() {
    std::uint64_t sum = 0;
    for (const auto& leaf : gradients_) sum += read(leaf.data(), leaf.size());
    const auto factor = static_cast<float>(sum);  // 0, but the compiler does not know it
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      write(written_[0][i].data(), written_[1][i].data(), written_[2][i].data(),
            gradients_[i].data(), gradients_[i].size(), factor);
    }
  }

 private:
  using Word = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>;

  static constexpr std::size_t stretch = 64, ahead = 512;  // as in the loop of AdamW

  [[gnu::always_inline]] static std::uint32_t sum_of(const Word* words, std::size_t n) {
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += words[i];
    return sum;
  }
  static std::uint32_t read(const Word* words, std::size_t n) {
    std::uint32_t sum = 0;
    std::size_t i = 0;
    for (; i + stretch <= n; i += stretch) sum += sum_of(words + i, stretch);
    return sum + sum_of(words + i, n - i);
  }
  [[gnu::always_inline]] static void add(float* __restrict a, float* __restrict b,
                                         float* __restrict c, const Word* __restrict words,
                                         std::size_t n, float factor) {
    for (std::size_t i = 0; i < n; ++i) {
      const float value = factor * static_cast<float>(static_cast<std::int32_t>(words[i]));
      a[i] += value;
      b[i] += value;
      c[i] += value;
    }
  }
  static void write(float* a, float* b, float* c, const Word* words, std::size_t n, float factor) {
    std::size_t i = 0;
    for (; i + stretch <= n; i += stretch) {
      for (std::size_t k = i + ahead; k < i + ahead + stretch; k += 16) {
        for (const float* stream : {a, b, c}) {
          __builtin_prefetch(reinterpret_cast<const void*>(
              reinterpret_cast<std::uintptr_t>(stream) + k * sizeof(float)));
        }
      }
      add(a + i, b + i, c + i, words + i, stretch, factor);
    }
    add(a + i, b + i, c + i, words + i, n - i, factor);
  }

  Leaves<float> written_[3];
  std::vector<std::vector<Word>> gradients_;
};

template <class F>
double milliseconds(F f) {
  const std::clock_t begin = std::clock();
  f();
  return 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

double largest_difference(const Leaves<float>& a, const Leaves<float>& b) {
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t k = 0; k < a[i].size(); ++k) {
      largest =
          std::max(largest, std::abs(static_cast<double>(a[i][k]) - static_cast<double>(b[i][k])));
    }
  }
  return largest;
}

/// Prints a line. Returns whether both have the same weights and skip a step with Inf.
template <class T>
bool compare(const char* name, const Size& size) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<T> noise(size.elements);
  for (T& each : noise) each = T(loss_scale * 0.01F * normal(random));

  Leaves<T> scaled = leaves_of<T>(size, 0.0F);
  const auto backward = [&] { std::fill(scaled.begin(), scaled.end(), noise); };
  Separate<T> separate(size);
  Fused<T> fused(size, scaled);
  MemoryAlone<T> memory_alone(size);
  double in_turn = std::numeric_limits<double>::max(), at_once = in_turn, least = in_turn;
  bool right = true;
  for (int step = 0; step < size.steps; ++step) {
    std::shuffle(noise.begin(), noise.end(), random);
    backward();
    in_turn = std::min(in_turn, milliseconds([&] { right = separate.step(scaled) && right; }));
    backward();
    at_once = std::min(at_once, milliseconds([&] { right = fused.step() && right; }));
    least = std::min(least, milliseconds([&] { memory_alone.step(); }));
  }
  const auto before = fused.weights;
  noise.back() = T(std::numeric_limits<float>::infinity());
  backward();
  right = right && !separate.step(scaled);
  backward();
  right = right && !fused.step() && fused.weights == before;

  const double difference = largest_difference(separate.weights, fused.weights);
  right = right && difference < 1e-6;
  std::printf("%-10s %15.2f %10.2f %15.2f %10.2f %19.1e\n", name, in_turn, at_once,
              in_turn / at_once, least, difference);
  return right;
}

}  // namespace

int main(int argc, char** argv) {
  Size size;
  if (argc > 1) size.leaves = static_cast<std::size_t>(std::max(1, std::atoi(argv[1])));
  if (argc > 2) size.elements = static_cast<std::size_t>(std::max(1, std::atoi(argv[2])));
  if (argc > 3) size.steps = std::max(1, std::atoi(argv[3]));
  std::printf(
      "A step of AdamW with %zu leaves of %zu elements, clipped by norm: milliseconds, the fastest "
      "of %d, one thread, %s\n\n",
      size.leaves, size.elements, size.steps, headroom::to_string(headroom::active_isa()));
  std::printf(
      "gradients  separate passes      fused   times as fast     memory  largest difference\n");
  bool right = compare<float>("float", size);
  right = compare<headroom::bfloat16>("bf16", size) && right;
  right = compare<headroom::half>("fp16", size) && right;
  std::printf(
      "\nMemory: plain loops that read the gradients twice, and read and write the weights and "
      "moments. How much the fused step\n"
      "saves depends on the CPU and on what else runs.\n");
  return right ? 0 : 1;
}
