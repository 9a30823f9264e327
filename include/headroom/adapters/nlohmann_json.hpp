#pragma once

#include <headroom/detail/error.hpp>
#include <headroom/state/state_dict.hpp>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

// States as JSON: `json j = policy.state_dict();` and `j.get<headroom::StateDict>()`, with nlohmann::json, or with
// nlohmann::ordered_json to keep the order of the keys. Doubles are written with enough digits to be read back exactly.

HEADROOM_DETAIL_BEGIN_NAMESPACE

template <class Json>
auto to_json(Json& json, const StateDict& dict) -> decltype(Json::object(), void()) {
  json = Json::object();
  for (const auto& [key, value] : dict) {
    Json& written = json[key];
    if (value.is_integer()) written = value.integer();
    if (value.is_real()) written = value.real();
    if (value.is_text()) written = value.text();
    if (value.is_boolean()) written = value.boolean();
    if (value.is_list()) written = value.list();
  }
}

/// Throws std::invalid_argument naming the key if a value is not a number, boolean, string or list of numbers. (nlohmann writes
/// NaN and Inf as null.)
template <class Json>
auto from_json(const Json& json, StateDict& dict) -> decltype(Json::object(), void()) {
  if (!json.is_object()) detail::throw_invalid_argument({"a state is a JSON object, and not ", json.dump()});
  StateDict read;
  for (auto it = json.begin(); it != json.end(); ++it) {
    const Json& value = it.value();
    if (value.is_number_unsigned() && value.template get<std::uint64_t>() >> 63U != 0) {
      detail::throw_invalid_argument({it.key(), " is ", value.dump(), "; it must be below 2^63"});
    } else if (value.is_boolean()) {
      read.add(it.key(), value.template get<bool>());
    } else if (value.is_number_integer()) {
      read.add(it.key(), value.template get<std::int64_t>());
    } else if (value.is_number_float()) {
      read.add(it.key(), value.template get<double>());
    } else if (value.is_string()) {
      read.add(it.key(), value.template get<std::string>());
    } else if (value.is_array() && std::all_of(value.begin(), value.end(), [](const Json& each) { return each.is_number(); })) {
      read.add(it.key(), value.template get<std::vector<double>>());
    } else {
      detail::throw_invalid_argument(
          {it.key(), " is ", value.dump(), "; it must be a number, true, false, a text or a list of numbers"});
    }
  }
  dict = std::move(read);
}

HEADROOM_DETAIL_END_NAMESPACE
