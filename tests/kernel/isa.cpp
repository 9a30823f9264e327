#include <headroom/headroom.hpp>
#include <headroom/kernel/isa.hpp>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/isa.hpp"

using namespace headroom;
using namespace support;

namespace {

bool is_available(Isa isa) {
  const auto isas = available_isas();
  return std::find(isas.begin(), isas.end(), isa) != isas.end();
}

/// Sets HEADROOM_ISA to a value, or removes it for null, and resets the choice. The destructor
/// restores both.
class WithEnvironment {
 public:
  explicit WithEnvironment(const char* value) : chosen_(shared_v1::chosen_isa.exchange(-1)) {
    if (const char* old = std::getenv("HEADROOM_ISA")) old_ = old;
    set(value);
  }
  ~WithEnvironment() {
    set(old_ ? old_->c_str() : nullptr);
    shared_v1::chosen_isa.store(chosen_);
  }
  WithEnvironment(const WithEnvironment&) = delete;
  WithEnvironment& operator=(const WithEnvironment&) = delete;

 private:
  static void set(const char* value) {
    if (value != nullptr) {
      ::setenv("HEADROOM_ISA", value, 1);
    } else {
      ::unsetenv("HEADROOM_ISA");
    }
  }
  int chosen_;
  std::optional<std::string> old_;
};

/// The CPU flags that Linux lists. It has asked the processor and decided which registers to save.
std::set<std::string> flags_of_this_cpu() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("flags", 0) != 0) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    std::set<std::string> flags;
    for (std::string word; words >> word;) flags.insert(word);
    return flags;
  }
  return {};
}

std::vector<Isa> every_isa() {
  std::vector<Isa> isas;
  for (int isa = 0; isa < detail::isa_count; ++isa) isas.push_back(static_cast<Isa>(isa));
  return isas;
}

}  // namespace

TEST_CASE("portable is always there, and first", "[kernel]") {
  const auto isas = available_isas();
  REQUIRE_FALSE(isas.empty());
  CHECK(isas.front() == Isa::portable);
  for (const Isa isa : isas) CHECK(std::count(isas.begin(), isas.end(), isa) == 1);
}

TEST_CASE("names of the instruction sets", "[kernel]") {
  std::string names;
  for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512, Isa::neon})
    names += std::string(" ") + to_string(isa);
  CHECK(names == " portable avx2 avx512 neon");
  for (const int none : {detail::isa_count, 99, -1})
    CHECK(to_string(static_cast<Isa>(none)) == std::string("unknown"));
}

TEST_CASE(
    "T10: an instruction set is available if it was compiled in and the operating system says that "
    "the CPU has it",
    "[kernel]") {
  CHECK(is_available(Isa::neon) == (HEADROOM_DETAIL_HAS_NEON != 0));
  const auto flags = flags_of_this_cpu();
  if (flags.empty()) return;  // not Linux, or an emulator on another kind of machine
  const auto has_all = [&](std::initializer_list<const char*> names) {
    return std::all_of(names.begin(), names.end(),
                       [&](const char* name) { return flags.count(name) != 0; });
  };
  const bool avx2 = HEADROOM_DETAIL_HAS_X86 && has_all({"avx", "avx2", "f16c", "fma"});
  CHECK(is_available(Isa::avx2) == avx2);
  CHECK(is_available(Isa::avx512) ==
        (avx2 && has_all({"avx512f", "avx512bw", "avx512vl", "avx512dq"})));
}

TEST_CASE("force_isa refuses what is not available, by name, and changes nothing", "[kernel]") {
  for (const Isa active : available_isas()) {
    const ScopedIsa scoped(active);
    for (const Isa isa : every_isa()) {
      if (is_available(isa)) continue;
      INFO(to_string(isa));
      CHECK_THROWS_AS(force_isa(isa), std::invalid_argument);
      CHECK_THROWS_WITH(force_isa(isa), Catch::Matchers::ContainsSubstring(to_string(isa)) &&
                                            Catch::Matchers::ContainsSubstring("portable"));
      CHECK(active_isa() == active);
    }
    CHECK_THROWS_AS(force_isa(static_cast<Isa>(99)), std::invalid_argument);
    CHECK(active_isa() == active);
  }
  std::string names;
  for (const Isa isa : available_isas()) names += std::string(" ") + to_string(isa);
  CHECK_THROWS_WITH(force_isa(static_cast<Isa>(99)),
                    Catch::Matchers::EndsWith("this program on this CPU has:" + names));
}

TEST_CASE("the kernels run on the instruction set that was forced", "[kernel]") {
  const auto kernel_in_use = [] {
    using namespace detail;
    return kernels<Op::scale, binary32>[isa_index()];
  };
  std::vector<decltype(kernel_in_use())> kernels;
  for_each_isa([&](Isa) { kernels.push_back(kernel_in_use()); });
  for (const auto& kernel : kernels) CHECK(std::count(kernels.begin(), kernels.end(), kernel) == 1);
}

TEST_CASE(
    "HEADROOM_ISA names the instruction set that is chosen at first use; without it, it is the "
    "best",
    "[kernel]") {
  for (const char* unset : {static_cast<const char*>(nullptr), ""}) {
    const WithEnvironment environment(unset);
    CHECK(active_isa() == available_isas().back());
  }
  for (const Isa isa : available_isas()) {
    const WithEnvironment environment(to_string(isa));
    CHECK(active_isa() == isa);
  }
}

TEST_CASE("HEADROOM_ISA is read once, and force_isa overrides it", "[kernel]") {
  const Isa best = available_isas().back();
  {
    const WithEnvironment environment("portable");
    force_isa(best);
    CHECK(active_isa() == best);
  }
  const WithEnvironment environment("scalar");  // its former name
  CHECK(active_isa() == Isa::portable);
  ::setenv("HEADROOM_ISA", "no such thing", 1);
  CHECK(active_isa() == Isa::portable);
}

TEST_CASE(
    "an unknown or unavailable HEADROOM_ISA is refused with its value and the ones there are, at "
    "every use",
    "[kernel]") {
  std::vector<std::string> refused{"avx1024", "AVX2", "scalar ", "0"};
  for (const Isa isa : every_isa()) {
    if (!is_available(isa)) refused.emplace_back(to_string(isa));
  }
  for (const std::string& value : refused) {
    const WithEnvironment environment(value.c_str());
    const std::string complaint = MESSAGE_OF(active_isa());
    INFO(complaint);
    CHECK(complaint.find("HEADROOM_ISA=" + value) != std::string::npos);
    for (const Isa isa : available_isas())
      CHECK(complaint.find(to_string(isa)) != std::string::npos);
    CHECK(MESSAGE_OF(active_isa()) == complaint);
    if (available_isas().size() == 1) continue;  // kernels without a choice need not ask
    float values[] = {1.0F};
    CHECK_THROWS_AS(unscale_in_place<allow_fp16_gradients>(values, 2.0F), std::invalid_argument);
    CHECK(values[0] == 1.0F);
    std::vector<std::vector<float>> tree(2, std::vector<float>(3, 1.0F));
    CHECK_THROWS_AS(unscale_in_place<allow_fp16_gradients>(tree, 2.0F), std::invalid_argument);
    CHECK_THROWS_AS((void)all_finite(tree), std::invalid_argument);
  }
}
