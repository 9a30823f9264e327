// Three ways to use your own types with headroom: HEADROOM_TENSOR for a simple tensor class,
// tensor_traits for a tensor with a shape, and spans for a struct of pointers into one allocation,
// as in llm.c.

#include <cstdio>
#include <headroom/headroom.hpp>
#include <memory>
#include <vector>

/// A tensor that owns its elements and has a constructor from their number: HEADROOM_TENSOR is all
/// it needs.
template <class T>
struct Vector {
  explicit Vector(std::size_t size) : elements(size) {}
  T* data() { return elements.data(); }
  const T* data() const { return elements.data(); }
  std::size_t size() const { return elements.size(); }
  std::vector<T> elements;
};
HEADROOM_TENSOR(Vector)

/// A tensor with padding after each row, as image and BLAS libraries have them.
template <class T>
class Image {
 public:
  Image(std::size_t rows, std::size_t cols)
      : rows_(rows), cols_(cols), pitch_((cols + 15) / 16 * 16), memory_(rows * pitch_) {}
  [[nodiscard]] std::size_t rows() const { return rows_; }
  [[nodiscard]] std::size_t cols() const { return cols_; }
  [[nodiscard]] std::size_t pitch() const { return pitch_; }
  T* data() { return memory_.data(); }
  const T* data() const { return memory_.data(); }
  T& operator()(std::size_t row, std::size_t col) { return memory_[row * pitch_ + col]; }

 private:
  std::size_t rows_, cols_, pitch_;
  std::vector<T> memory_;
};

template <class T>
struct headroom::tensor_traits<Image<T>> {
  using value_type = T;
  static T* data(Image<T>& image) { return image.data(); }
  static const T* data(const Image<T>& image) { return image.data(); }
  static std::size_t size(const Image<T>& image) { return image.rows() * image.cols(); }
  // Optional: shape and strides, so that headroom leaves the padding alone.
  static Layout layout(const Image<T>& image) {
    Layout layout;
    layout.push(static_cast<std::ptrdiff_t>(image.rows()),
                static_cast<std::ptrdiff_t>(image.pitch()));
    layout.push(static_cast<std::ptrdiff_t>(image.cols()), 1);
    return layout;
  }
  static constexpr bool is_view = false;  // a copy of an Image has its own elements
  // Optional: for verbs that return a tensor of another dtype.
  template <class To>
  using rebind = Image<To>;
  template <class To>
  static Image<To> like(const Image<T>& image) {
    return Image<To>(image.rows(), image.cols());
  }
};

/// All gradients of a model in one allocation, as llm.c keeps them.
template <class T>
struct GradientTensors {
  explicit GradientTensors(std::size_t vocabulary, std::size_t channels)
      : memory(std::make_unique<T[]>(vocabulary * channels + 4 * channels * channels)),
        wte(memory.get(), vocabulary * channels),
        fcw(memory.get() + vocabulary * channels, 4 * channels * channels) {}

  std::unique_ptr<T[]> memory;
  headroom::span<T> wte;  // (V, C) token embeddings
  headroom::span<T> fcw;  // (4C, C) weights of the feed-forward layer

  HEADROOM_TREE(GradientTensors, wte, fcw)
};

int main() {
  const headroom::DynamicLossScale loss_scale;

  Image<headroom::half> image16(3, 20);
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 20; ++j)
      image16(i, j) = headroom::half(loss_scale.scale(1e-6F));  // lost in fp16 without the scale
  }
  const auto [image, report] = loss_scale.unscale(image16);
  std::printf("image: finite %d, largest gradient %.3g\n", report.finite, report.max_abs);

  Vector<headroom::half> vector16(7);
  vector16.data()[3] = headroom::half(loss_scale.scale(1e-6F));
  const Vector<float> vector = loss_scale.unscale(vector16).grads;
  std::printf("vector: %.3g\n", static_cast<double>(vector.data()[3]));

  GradientTensors<headroom::half> grads16(100, 8);
  GradientTensors<float> grads(100, 8);
  grads16.wte[42] = headroom::half(2.0F);
  grads16.fcw[7] = std::numeric_limits<headroom::half>::infinity();
  const headroom::GradientReport overflow = loss_scale.unscale_into(
      grads16, grads);  // writes to the memory of `grads`; allocates nothing
  std::printf("llm.c: finite %d\n", overflow.finite);
  const auto culprit = headroom::find_nonfinite(grads);
  if (culprit)
    std::printf("llm.c: first non-finite gradient in %s[%zu]\n", culprit->path.c_str(),
                culprit->index);

  const bool right = vector.size() == 7 && vector.data()[3] > 0.9e-6F && report.finite &&
                     report.max_abs > 0.9e-6 && report.max_abs < 1.1e-6 && !overflow.finite &&
                     culprit && culprit->path == "fcw" && culprit->index == 7 &&
                     grads.wte[42] == 2.0F / loss_scale.loss_scale();
  return right ? 0 : 1;
}
