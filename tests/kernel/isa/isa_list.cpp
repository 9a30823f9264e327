#include <headroom/kernel/isa/isa_list.hpp>

#include <fstream>
#include <initializer_list>
#include <set>
#include <sstream>
#include <string>

#include "support/catch.hpp"

using headroom::Isa;
using headroom::detail::isa_count;

namespace {

bool can_run(Isa isa) { return headroom::detail::isa_rows[static_cast<int>(isa)].can_run(); }

}  // namespace

TEST_CASE("names of the instruction sets", "[kernel]") {
  CHECK(std::string(to_string(Isa::scalar)) == "scalar");
  CHECK(std::string(to_string(Isa::avx2)) == "avx2");
  CHECK(std::string(to_string(Isa::avx512)) == "avx512");
  CHECK(std::string(to_string(Isa::neon)) == "neon");
  CHECK(std::string(to_string(static_cast<Isa>(99))) == "unknown");
  CHECK(std::string(to_string(static_cast<Isa>(-1))) == "unknown");
}

TEST_CASE("each instruction set has a row, and those that were compiled in can run", "[kernel]") {
  CHECK(isa_count == 4);
  CHECK(can_run(Isa::scalar));
  for (const Isa isa : {Isa::avx2, Isa::avx512}) CHECK((HEADROOM_DETAIL_HAS_X86 || !can_run(isa)));
  CHECK(can_run(Isa::neon) == (HEADROOM_DETAIL_HAS_NEON != 0));
  CHECK((can_run(Isa::avx2) || !can_run(Isa::avx512)));  // no CPU has the one without the other
}

#if HEADROOM_DETAIL_HAS_X86 && defined(__linux__)

namespace {

/// What Linux lists, after it has asked the processor and has decided which registers it saves.
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
bool has_all(const std::set<std::string>& flags, std::initializer_list<const char*> names) {
  bool has = true;
  for (const char* const name : names) has = has && flags.count(name) != 0;
  return has;
}

}  // namespace

TEST_CASE("the CPU has what the operating system says that it has", "[kernel]") {
  const auto flags = flags_of_this_cpu();
  if (flags.empty()) return;  // run by an emulator, on a machine of another kind
  const bool avx2 = has_all(flags, {"avx", "avx2", "f16c", "fma"});
  CHECK(headroom::detail::cpu_has_avx2() == avx2);
  CHECK(headroom::detail::read_cpu_has_avx2() == avx2);
  const bool avx512 = avx2 && has_all(flags, {"avx512f", "avx512bw", "avx512vl", "avx512dq"});
  CHECK(headroom::detail::cpu_has_avx512() == avx512);
  CHECK(headroom::detail::read_cpu_has_avx512() == avx512);
}

TEST_CASE("registers count as saved only if all that were asked for are", "[kernel]") {
  using headroom::detail::os_saves_registers;
  const auto flags = flags_of_this_cpu();
  if (!has_all(flags, {"avx"})) return;
  CHECK(os_saves_registers(2U));
  CHECK(os_saves_registers(2U | 4U));
  CHECK(os_saves_registers(2U | 4U | 0xe0U) == has_all(flags, {"avx512f"}));
  CHECK_FALSE(os_saves_registers(2U | 1U << 30));  // a part that no processor has
}

#endif
