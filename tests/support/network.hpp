#pragma once

#include <headroom/dtype/half.hpp>
#include <headroom/tree/walk.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "support/bits.hpp"

namespace support {

/// A tree with leaves and branches of many kinds; a class template of its scalar.
template <class T>
struct Layer {
  std::vector<T> weight;
  T bias{};
  std::int32_t step = 0;
  HEADROOM_TREE(Layer, weight, bias, step)
};

template <class T>
struct Network {
  std::vector<Layer<T>> layers;
  std::map<std::string, std::vector<T>> heads;
  std::optional<T> temperature;
  std::vector<int> tokens;
  bool frozen = false;
  HEADROOM_TREE(Network, layers, heads, temperature, tokens, frozen)
};

/// A network in which every floating-point element is `value`.
template <class T>
Network<T> network_of(const T& value) {
  Network<T> network;
  network.layers = {{{value, value, value}, value, 1}, {{value}, value, 2}};
  network.heads = {{"decoder", {value, value}}, {"encoder", {value, value, value, value}}};
  network.temperature = value;
  network.tokens = {7, 8, 9};
  network.frozen = true;
  return network;
}
inline constexpr std::size_t network_leaves = 7, network_elements = 13;

/// A network of random structure.
template <class T>
Network<T> random_network(std::mt19937& random) {
  Network<T> network;
  network.layers.resize(random() % 4);
  for (Layer<T>& layer : network.layers) layer.weight.resize(random() % 80);
  for (const char* name : {"decoder", "en coder", ""}) {
    if (random() % 2 == 0) network.heads[name].resize(random() % 80);
  }
  if (random() % 2 == 0) network.temperature.emplace();
  return network;
}

/// Whether every floating-point element has exactly these bits, and all other members are
/// unchanged.
template <class T>
bool is_network_of(const Network<T>& network, const T& value) {
  const auto bits = bits_of(value);
  const auto all = [&](const std::vector<T>& values, std::size_t size) {
    return bits_of(values) == std::vector<bits_type<T>>(size, bits);
  };
  return network.layers.size() == 2 && all(network.layers[0].weight, 3) &&
         bits_of(network.layers[0].bias) == bits && network.layers[0].step == 1 &&
         all(network.layers[1].weight, 1) && bits_of(network.layers[1].bias) == bits &&
         network.layers[1].step == 2 && network.heads.size() == 2 &&
         all(network.heads.at("decoder"), 2) && all(network.heads.at("encoder"), 4) &&
         network.temperature && bits_of(*network.temperature) == bits &&
         network.tokens == std::vector<int>{7, 8, 9} && network.frozen;
}

}  // namespace support
