// A model of two layers, of which one ignores the gradient that comes in.
#include <cstdio>
#include <headroom/headroom.hpp>
#include <string>
#include <vector>

struct Model {
  std::vector<float> body, head;
  HEADROOM_TREE(Model, body, head)
};
static Model backward(const Model&, float batch, float scale) {
  return {{batch * scale, 0.0F}, {6.0F * batch, 8.0F * batch}};
}

int main() {
  const Model model;
  const float batch = 0.5F;
#include BLOCK
}
