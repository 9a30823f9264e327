// Policies of a user's own by name: for configuration files, and for states.
#include <headroom/policy/make_loss_scale.hpp>
#include <headroom/policy/registry.hpp>
#include <headroom/state/text.hpp>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/own_policies.hpp"
#include "support/policies.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::AnyLossScale;
using headroom::make_loss_scale;
using headroom::register_loss_scale;
using headroom::StateDict;
using support::FollowsMax;
using support::message_of;
using support::PatientLossScale;
using support::Stairs;

namespace {

/// A state, through text and back, is the policy's again.
void check_comes_back(const AnyLossScale& any) {
  const StateDict state = any.state_dict();
  INFO(to_text(state));
  CHECK(AnyLossScale::from_state_dict(state) == any);
  CHECK(AnyLossScale::from_state_dict(headroom::from_text(to_text(state))) == any);
  StateDict in_flight = state;
  in_flight.add("main_scale", 2.0);
  CHECK(AnyLossScale::from_state_dict(in_flight) == any);
  in_flight.set("main_scale", 0.0);
  CHECK_THAT(message_of([&] { (void)AnyLossScale::from_state_dict(in_flight); }), ContainsSubstring("main_scale is 0"));
}

}  // namespace

TEST_CASE("a registered policy is made by its name, with settings") {
  CHECK_THAT(message_of([] { (void)make_loss_scale("stair"); }),
             ContainsSubstring("there is no policy 'stair'; known are noop"));
  register_loss_scale<Stairs>("stairs");
  register_loss_scale("steep_stairs", Stairs{8.0, 3});
  register_loss_scale<PatientLossScale>("patient");
  CHECK(make_loss_scale("stairs").get<Stairs>() == Stairs{});
  CHECK(make_loss_scale("steep_stairs").loss_scale() == 512.0F);
  CHECK(make_loss_scale("stairs", {{"stair", 4}}).loss_scale() == 16.0F);
  CHECK(make_loss_scale("stairs", {{"height", 3}, {"stair", 4}}).loss_scale() == 81.0F);
  CHECK(make_loss_scale("patient", {{"patience", 0}, {"growth_interval", 1}}).adjust(true).loss_scale() == 65536.0F);
  CHECK_THAT(message_of([] {
               (void)make_loss_scale("stairs", {{"policy", "x"}});
             }),
             ContainsSubstring("the key 'policy' is unknown"));
  CHECK_THAT(message_of([] { (void)make_loss_scale("patient", {{"patience", -1}}); }), ContainsSubstring("patience is -1"));
  headroom::LossScaleConfig config;
  config.initial_scale = 64.0F;
  CHECK(make_loss_scale("patient", config).loss_scale() == 64.0F);
  CHECK_THAT(message_of([&] { (void)make_loss_scale("stairs", config); }),
             ContainsSubstring("the key 'initial_scale' is unknown"));
}

TEST_CASE("names that are known are listed") {
  register_loss_scale<Stairs>("stairs");
  const auto names = headroom::loss_scale_names();
  CHECK(std::count(names.begin(), names.end(), "stairs") == 1);
  CHECK(std::count(names.begin(), names.end(), "torch") == 1);
  CHECK_THAT(message_of([] { (void)make_loss_scale("nobody's"); }), ContainsSubstring("stairs"));
}

TEST_CASE("a state finds its policy again") {
  register_loss_scale<Stairs>("stairs");
  register_loss_scale<PatientLossScale>("patient");
  check_comes_back(AnyLossScale(Stairs{3.0, 5}).adjust(false));
  check_comes_back(support::after(AnyLossScale(PatientLossScale()), "++-+"));
  CHECK(to_text(AnyLossScale(Stairs{}).state_dict()) == "version = 1\npolicy = \"stairs\"\nheight = 2.0\nstair = 10\n");
  CHECK(AnyLossScale(PatientLossScale()).state_dict() == PatientLossScale().state_dict());
  StateDict state = AnyLossScale(Stairs{}).state_dict();
  state.add("colour", 3);
  CHECK_THAT(message_of([&] { (void)AnyLossScale::from_state_dict(state); }), ContainsSubstring("two entries of Stairs"));
  state.set("policy", "nobody's");
  CHECK_THAT(message_of([&] { (void)AnyLossScale::from_state_dict(state); }),
             ContainsSubstring("policy is 'nobody's'; it must be one of noop, constant, dynamic"));
  CHECK_THAT(message_of([&] { (void)AnyLossScale::from_state_dict(state); }), ContainsSubstring("patient_dynamic"));
  state.set("version", 2);
  CHECK_THAT(message_of([&] { (void)AnyLossScale::from_state_dict(state); }), ContainsSubstring("version is 2"));
}

TEST_CASE("a policy of one's own may say version and policy itself") {
  struct Versioned {
    [[nodiscard]] static float loss_scale() { return 8.0F; }
    [[nodiscard]] Versioned adjust(bool) const { return *this; }
    [[nodiscard]] Versioned adjust(const headroom::GradientReport&) const { return *this; }
    [[nodiscard]] static StateDict state_dict() { return {{"policy", "versioned"}, {"version", 7}}; }
    [[nodiscard]] static Versioned from_state_dict(const StateDict& dict) {
      if (dict != state_dict()) throw std::invalid_argument("not its own state");
      return {};
    }
  };
  register_loss_scale<Versioned>("by another name");
  CHECK(AnyLossScale(Versioned{}).state_dict() == Versioned::state_dict());
  check_comes_back(AnyLossScale(Versioned{}));
  for (const char* key : {"policy", "version"}) {
    CHECK_THAT(message_of([key] {
                 (void)make_loss_scale("by another name", {{key, 7}});
               }),
               ContainsSubstring("the key '" + std::string(key) + "' is unknown; its value is 7"));
  }
}

TEST_CASE("a policy of one's own without a name has no state in an AnyLossScale") {
  struct Nameless : Stairs {
    [[nodiscard]] Nameless adjust(bool) const { return *this; }
    [[nodiscard]] Nameless adjust(const headroom::GradientReport&) const { return *this; }
    [[nodiscard]] static Nameless from_state_dict(const StateDict&) { return {}; }
  };
  CHECK_THAT(support::logic_error_of([] { (void)AnyLossScale(Nameless{}).state_dict(); }),
             ContainsSubstring("call register_loss_scale"));
}

TEST_CASE("a name is that of one policy") {
  register_loss_scale<Stairs>("stairs");
  register_loss_scale<Stairs>("stairs");  // the same again
  CHECK_THAT(message_of([] {
               register_loss_scale("stairs", Stairs{4.0, 2});
             }),
             ContainsSubstring("there is a policy 'stairs' already"));
  CHECK_THAT(message_of([] { register_loss_scale<FollowsMax>("stairs"); }), ContainsSubstring("'stairs' already"));
  CHECK_THAT(message_of([] { register_loss_scale<Stairs>("torch"); }), ContainsSubstring("there is a policy 'torch' already"));
  CHECK_THAT(message_of([] { register_loss_scale<Stairs>("noop"); }), ContainsSubstring("'noop' already"));
  register_loss_scale("ours", headroom::presets::torch(4096.0));
  CHECK(make_loss_scale("ours") == AnyLossScale(headroom::presets::torch(4096.0)));
  CHECK(make_loss_scale("ours", {{"growth_interval", 3}}).config().growth_interval == 3);
}

TEST_CASE("a state is of one policy") {
  struct Pretender : Stairs {
    [[nodiscard]] Pretender adjust(bool) const { return *this; }
    [[nodiscard]] Pretender adjust(const headroom::GradientReport&) const { return *this; }
    [[nodiscard]] static StateDict state_dict() { return {{"policy", "constant"}, {"loss_scale", 2.0}}; }
    [[nodiscard]] static Pretender from_state_dict(const StateDict&) { return {}; }
  };
  CHECK_THAT(message_of([] { register_loss_scale<Pretender>("pretender"); }),
             ContainsSubstring("there are states of another policy 'constant' already"));
  CHECK_THAT(message_of([] { (void)make_loss_scale("pretender"); }), ContainsSubstring("there is no policy 'pretender'"));
  CHECK_THAT(message_of([] { register_loss_scale<Stairs>(""); }), ContainsSubstring("the name is empty"));
}

namespace {

/// Its states have no name but the one it gives itself.
template <int kind>
struct SameName : Stairs {
  [[nodiscard]] SameName adjust(bool) const { return *this; }
  [[nodiscard]] SameName adjust(const headroom::GradientReport&) const { return *this; }
  [[nodiscard]] static SameName from_state_dict(const StateDict& dict) { return {Stairs::from_state_dict(dict)}; }
  [[nodiscard]] static std::string policy_name() { return kind < 2 ? "same" : "dynamic"; }
};
std::atomic<int> asked{0};
/// While it is asked for its state, which every registration does, it waits until two are at it.
struct Turnstile : Stairs {
  [[nodiscard]] Turnstile adjust(bool) const { return *this; }
  [[nodiscard]] Turnstile adjust(const headroom::GradientReport&) const { return *this; }
  [[nodiscard]] static Turnstile from_state_dict(const StateDict&) { return {}; }
  [[nodiscard]] static StateDict state_dict() {
    if (asked++ > 0) {
      while (asked < 3) std::this_thread::yield();
    }
    return {{"policy", "turnstile"}};
  }
};
template <int kind>
struct Racing : Turnstile {
  [[nodiscard]] Racing adjust(bool) const { return *this; }
  [[nodiscard]] Racing adjust(const headroom::GradientReport&) const { return *this; }
  [[nodiscard]] static Racing from_state_dict(const StateDict&) { return {}; }
  [[nodiscard]] static StateDict state_dict() { return {{"policy", "racing"}}; }
};

}  // namespace

TEST_CASE("a state is of one policy, also by the name that the policy gives itself, and where two threads register at once") {
  register_loss_scale<SameName<0>>("same_0");
  CHECK_THAT(message_of([] { register_loss_scale<SameName<1>>("same_1"); }),
             ContainsSubstring("there are states of another policy 'same' already"));
  CHECK_THAT(message_of([] { register_loss_scale<SameName<2>>("same_2"); }),
             ContainsSubstring("there are states of another policy 'dynamic' already"));

  register_loss_scale<Turnstile>("turnstile");
  std::atomic<int> refused{0};
  std::thread other([&refused] { refused += message_of([] { register_loss_scale<Racing<0>>("racing_0"); }).empty() ? 0 : 1; });
  refused += message_of([] { register_loss_scale<Racing<1>>("racing_1"); }).empty() ? 0 : 1;
  other.join();
  CHECK(refused == 1);
}

TEST_CASE("threads may register at once: each name goes to one of them") {
  std::vector<std::thread> threads;
  std::atomic<int> refused{0};
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([thread, &refused] {
      for (int name = 0; name < 50; ++name) {
        const Stairs own{2.0, thread};
        if (!message_of([&] { register_loss_scale("stairs_" + std::to_string(name), own); }).empty()) ++refused;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(refused == 150);
  const auto names = headroom::loss_scale_names();
  for (int name = 0; name < 50; ++name) CHECK(std::count(names.begin(), names.end(), "stairs_" + std::to_string(name)) == 1);
}
