// With the members of dlib's tensors that the block uses.
#include <headroom/headroom.hpp>
#include <type_traits>
#include <vector>

namespace dlib {
class tensor {
 public:
  virtual ~tensor() = default;
  virtual const float* host() const = 0;
  virtual float* host() = 0;
  virtual std::size_t size() const = 0;
};
class resizable_tensor : public tensor {
 public:
  explicit resizable_tensor(std::size_t n) : elements_(n, 8.0F) {}
  const float* host() const override { return elements_.data(); }
  float* host() override { return elements_.data(); }
  std::size_t size() const override { return elements_.size(); }

 private:
  std::vector<float> elements_;
};
}  // namespace dlib

#include BLOCK

int main() {
  std::vector<dlib::resizable_tensor> tree(2, dlib::resizable_tensor(6));
  return headroom::unscale_in_place(tree, 4.0F).max_abs == 2.0 && tree[1].host()[5] == 2.0F ? 0 : 1;
}
