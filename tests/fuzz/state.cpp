// For libFuzzer. Every text gives either an error of headroom, or a state that its own text gives
// again. A policy with that state stays in its range, and resumes from what it writes. So do a
// SpikeGuard and a histogram.
#include <headroom/observe/spike_guard.hpp>
#include <headroom/policy/any.hpp>
#include <headroom/state/text.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace {

void expect(bool holds) {
  if (!holds) std::abort();
}

template <class F>
auto unless_refused(F f) -> std::optional<decltype(f())> {
  try {
    return f();
  } catch (const std::invalid_argument& error) {
    expect(std::string_view(error.what()).substr(0, 10) == "headroom: ");
    return std::nullopt;
  }
}

bool has_nan(const headroom::StateDict& dict) {
  for (const auto& [key, value] : dict) {
    if (!value.is_text() && headroom::detail::to_text(value).find("nan") != std::string::npos)
      return true;
  }
  return false;
}

void check(headroom::AnyLossScale policy) {
  for (int step = 0; step < 20; ++step) {
    expect(policy.loss_scale() >= headroom::smallest_loss_scale &&
           policy.loss_scale() <= headroom::largest_loss_scale);
    expect(headroom::AnyLossScale::from_state_dict(policy.state_dict()) == policy);
    policy = policy.adjust(step % 3 != 2);
  }
}

void check(headroom::SpikeGuard guard) {
  for (const double value : {1.0, 0x1p1023, -0x1p-1022, 1.0}) {
    expect(headroom::SpikeGuard::from_state_dict(guard.state_dict()) == guard);
    (void)guard.is_spike(value);
    guard = guard.adjust(value);
    expect(guard.values().size() <= static_cast<std::size_t>(guard.window()) &&
           guard.values().back() == value);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(data, data + size);
  const auto dict = unless_refused([&] { return headroom::from_text(text); });
  if (!dict) return 0;
  const std::string written = to_text(*dict);
  expect(to_text(headroom::from_text(written)) == written);
  // The text of every NaN is the same
  if (!has_nan(*dict)) expect(headroom::from_text(written) == *dict);
  if (const auto policy =
          unless_refused([&] { return headroom::AnyLossScale::from_state_dict(*dict); }))
    check(*policy);
  if (const auto guard =
          unless_refused([&] { return headroom::SpikeGuard::from_state_dict(*dict); }))
    check(*guard);
  return 0;
}
