#include <headroom.h>

#include <headroom/headroom.hpp>
#include <headroom/state/text.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/c.hpp"
#include "support/catch.hpp"
#include "support/optimizers.hpp"
#include "support/samples.hpp"

using namespace support;

namespace {

template <class Handle, class Save>
std::string text_of(const Handle& handle, Save save) {
  std::size_t size = 0;
  CHECK(save(handle.get(), nullptr, &size) == HEADROOM_OK);
  std::string text(size, '?');
  CHECK(save(handle.get(), &text[0], &size) == HEADROOM_OK);
  CHECK(std::strlen(text.c_str()) + 1 == size);
  return text.c_str();
}
float scale_of(const Scaler& scaler) {
  double scaled = 0.0;
  CHECK(headroom_grad_scaler_scale(scaler.get(), 1.0, &scaled) == HEADROOM_OK);
  return static_cast<float>(scaled);
}

/// Adds a rank with gradients of 10 and 20; fails or throws if `context` says so.
headroom_status reduce(void* context, int32_t* finite, double* max_abs, double* sum_of_squares,
                       uint64_t digest) {
  const auto what = *static_cast<int*>(context);
  if (what == 1) throw std::invalid_argument("network down");
  if (what == 2) return 77;
  CHECK((digest != 0 && *finite == (std::isfinite(*max_abs) ? 1 : 0)));
  if (what == 3) *finite = 0;
  if (what == 4) *finite = 2;  // any but 0
  *max_abs = std::max(*max_abs, 20.0);
  *sum_of_squares += 500.0;
  return HEADROOM_OK;
}

}  // namespace

TEST_CASE("C: versions") {
  int major = -1, minor = -1, patch = -1;
  CHECK(std::sscanf(headroom_version(), "%d.%d.%d", &major, &minor, &patch) == 3);
  CHECK((major == HEADROOM_VERSION_MAJOR && minor == HEADROOM_VERSION_MINOR &&
         patch == HEADROOM_VERSION_PATCH));
  CHECK(headroom_abi() == HEADROOM_ABI);
}

TEST_CASE("C: every policy adjusts, saves and loads as in C++") {
  std::mt19937 random(support::seed);
  for (const std::string& name : headroom::loss_scale_names()) {
    const char* const settings = name == "constant" ? "scale = 8.0" : "";
    Policy policy = make_policy(name.c_str(), settings);
    auto expected = headroom::make_loss_scale(name, headroom::from_text(settings));
    for (int i = 0; i < 50; ++i) {
      const bool finite = random() % 4 != 0;
      const double max_abs =
          finite ? std::ldexp(1.0, static_cast<int>(random() % 40) - 20) : HUGE_VAL;
      CHECK(headroom_loss_scale_adjust(policy.get(), finite, max_abs) == HEADROOM_OK);
      expected = expected.adjust(headroom::GradientReport{finite, max_abs});
      REQUIRE(headroom_loss_scale_get(policy.get()) == expected.loss_scale());
      const std::string text = text_of(policy, headroom_loss_scale_save);
      REQUIRE(text == to_text(expected.state_dict()));
      headroom_loss_scale* loaded = nullptr;
      REQUIRE(headroom_loss_scale_load(text.c_str(), &loaded) == HEADROOM_OK);
      policy.reset(loaded);
    }
  }
  CHECK(headroom_loss_scale_get(
            make_policy("dynamic", "initial_scale = 8.0\ngrowth_interval = 5").get()) == 8.0F);
  CHECK((headroom_loss_scale_get(nullptr) == 1.0F &&
         headroom_grad_scaler_get_scale(nullptr) == 1.0F));
  headroom_loss_scale_free(nullptr);
  headroom_grad_scaler_free(nullptr);
}

TEST_CASE("C: finite is any number but 0, not only 1") {
  const Policy amax = make_policy("amax");
  for (const int32_t finite : {2, -1, INT32_MIN}) {
    const World world;
    refuses(world, HEADROOM_INVALID_ARGUMENT, {"max_abs is inf"},
            [&] { return headroom_loss_scale_adjust(amax.get(), finite, HUGE_VAL); });
    const Policy one = make_policy("dynamic"), other = make_policy("dynamic");
    CHECK(headroom_loss_scale_adjust(one.get(), 1, 2.0) == HEADROOM_OK);
    CHECK(headroom_loss_scale_adjust(other.get(), finite, 2.0) == HEADROOM_OK);
    CHECK(text_of(one, headroom_loss_scale_save) == text_of(other, headroom_loss_scale_save));
  }
}

TEST_CASE("C: wrong policies and states") {
  const Policy amax = make_policy("amax");
  World world;
  const Policy policy = make_policy("torch");
  const Scaler scaler = make_scaler();
  const auto make = [&](const char* name, const char* settings) {
    return headroom_loss_scale_make(name, settings, &world.policy);
  };
  refuses(world, HEADROOM_INVALID_ARGUMENT, {"'dynamo'", "dynamic, ", "torch, "},
          [&] { return make("dynamo", nullptr); });
  refuses_all(
      world,
      {{"grow", [&] { return make("dynamic", "grow = 5"); }},
       {"growth_factor is 0.5", [&] { return make("dynamic", "growth_factor = 0.5"); }},
       {"line 1", [&] { return make("dynamic", "growth_factor"); }},
       {"name is NULL", [&] { return make(nullptr, nullptr); }},
       {"out is NULL", [] { return headroom_loss_scale_make("torch", "", nullptr); }},
       {"policy is NULL", [] { return headroom_loss_scale_adjust(nullptr, 1, 0.0); }},
       {"the key 'scale' is missing", [&] { return make("constant", nullptr); }},
       {"max_abs is inf", [&] { return headroom_loss_scale_adjust(amax.get(), 1, HUGE_VAL); }},
       {"max_abs is nan", [&] { return headroom_loss_scale_adjust(amax.get(), 1, NAN); }},
       {"max_abs is -1", [&] { return headroom_loss_scale_adjust(amax.get(), 1, -1.0); }},
       {"text is NULL", [&] { return headroom_loss_scale_load(nullptr, &world.policy); }},
       {"out is NULL", [] { return headroom_loss_scale_load("", nullptr); }},
       {"text is NULL", [&] { return headroom_grad_scaler_load(scaler.get(), nullptr); }},
       {"size is NULL",
        [&] { return headroom_grad_scaler_save(scaler.get(), world.text, nullptr); }}});
  const std::pair<const char*, const char*> states[] = {
      {"", "the state is empty"},
      {"policy = 5", "'version' is missing"},
      {"no state", "expected '=' after the key 'no'"},
      {"version = 2\npolicy = \"dynamic\"", "is missing"}};
  for (const auto& [text, message] : states) {
    const std::string before = text_of(scaler, headroom_grad_scaler_save);
    refuses_all(
        world,
        {{message, [&, text = text] { return headroom_loss_scale_load(text, &world.policy); }},
         {message, [&, text = text] { return headroom_grad_scaler_load(scaler.get(), text); }}});
    CHECK(text_of(scaler, headroom_grad_scaler_save) == before);
  }
  world.size = text_of(policy, headroom_loss_scale_save).size();  // without the 0 at the end
  const auto save = [&] { return headroom_loss_scale_save(policy.get(), world.text, &world.size); };
  refuses(world, HEADROOM_INVALID_ARGUMENT, {"*size is "}, save);
  ++world.size;
  CHECK(save() == HEADROOM_OK);
}

TEST_CASE("C: a scaler takes the steps of the one in C++") {
  std::mt19937 random(support::seed);
  const Policy policy =
      make_policy("dynamic", "initial_scale = 4.0\ngrowth_interval = 3\nmin_scale = 0.25");
  const Scaler c = make_scaler(policy.get());
  CHECK(headroom_grad_scaler_set_threads(c.get(), 2) == HEADROOM_OK);
  headroom::GradScaler cpp(headroom::make_loss_scale(
      "dynamic", {{"initial_scale", 4.0}, {"growth_interval", 3}, {"min_scale", 0.25}}));
  for (int i = 0; i < 400; ++i) {
    Owner expected{std::vector<float>(8, 0.0F)};
    for (float& value : expected.grads)
      value = static_cast<float>(static_cast<int>(random() % 2000) - 1000);
    if (random() % 4 == 0) expected.grads[random() % 8] = random() % 2 == 0 ? HUGE_VALF : NAN;
    std::vector<float> here = expected.grads;
    const headroom_tensor grads[] = {{nullptr, 0, HEADROOM_FLOAT64, 0, nullptr, nullptr},
                                     {here.data(), 8, HEADROOM_FLOAT32, 0, nullptr, nullptr}};
    REQUIRE(headroom_grad_scaler_get_scale(c.get()) == cpp.get_scale());
    REQUIRE(scale_of(c) == cpp.scale(1.0F));
    World world;
    const unsigned way = random() % 4;
    if (way == 0) {
      REQUIRE(headroom_grad_scaler_unscale(c.get(), 5, grads, 2, &world.report) == HEADROOM_OK);
      REQUIRE(
          (world.report.max_abs == cpp.unscale_(expected).max_abs && world.report.norm == -1.0));
    } else if (way == 1) {
      REQUIRE(headroom_grad_scaler_unscale_and_clip(c.get(), 5, grads, 2, 20.0, &world.report) ==
              HEADROOM_OK);
      REQUIRE(world.report.norm == cpp.unscale_and_clip_(expected, 20.0).norm);
    }
    std::vector<float> unscaled(8, -7.0F);
    const headroom_tensor to[] = {grads[0],
                                  {unscaled.data(), 8, HEADROOM_FLOAT32, 0, nullptr, nullptr}};
    REQUIRE((way == 3
                 ? headroom_grad_scaler_step_into(c.get(), 5, grads, to, 2, &world.step)
                 : headroom_grad_scaler_step(c.get(), 5, grads, 2, &world.step)) == HEADROOM_OK);
    if (way != 3) unscaled = here;
    const auto result = cpp.step(expected);
    REQUIRE(std::memcmp(unscaled.data(), expected.grads.data(), 8 * sizeof(float)) == 0);
    headroom_step step{sizeof(headroom_step),
                       result.skipped,
                       static_cast<int>(result.reason),
                       result.loss_scale,
                       {},
                       {}};
    step.report = {sizeof(headroom_report), result.report.finite, result.report.max_abs, -1.0};
    step.nonfinite.struct_size = sizeof(headroom_place);
    if (const auto& found = result.nonfinite) {
      const bool is_nan = found->kind == headroom::NonFiniteKind::nan;
      step.nonfinite = {sizeof(headroom_place), is_nan,           1,
                        found->index,           found->nan_count, found->inf_count};
    }
    REQUIRE(std::memcmp(&world.step, &step, sizeof step) == 0);
    cpp.update();
    REQUIRE(headroom_grad_scaler_update(c.get()) == HEADROOM_OK);
    REQUIRE(text_of(c, headroom_grad_scaler_save) == to_text(cpp.state_dict()));
  }
}

TEST_CASE("C: the number identifies an optimizer, not the address of its gradients") {
  World world;
  const Scaler scaler = make_scaler();
  const auto list = world.list(), to = world.wide();
  scale_of(scaler);
  const auto step = [&](std::size_t i) {
    return headroom_grad_scaler_step(scaler.get(), 1, &list[i], 1, &world.step);
  };
  CHECK(headroom_grad_scaler_unscale(scaler.get(), 1, &list[0], 1, nullptr) == HEADROOM_OK);
  refuses(world, HEADROOM_LOGIC_ERROR, {"step_into: this optimizer has been unscaled"}, [&] {
    return headroom_grad_scaler_step_into(scaler.get(), 1, &list[1], &to[0], 1, &world.step);
  });
  refuses(world, HEADROOM_LOGIC_ERROR, {"headroom: unscale: this optimizer has been unscaled"},
          [&] { return headroom_grad_scaler_unscale(scaler.get(), 1, &list[2], 1, nullptr); });
  refuses(world, HEADROOM_LOGIC_ERROR,
          {"headroom: unscale_and_clip: this optimizer has been unscaled"}, [&] {
            return headroom_grad_scaler_unscale_and_clip(scaler.get(), 1, &list[2], 1, 1.0,
                                                         nullptr);
          });
  CHECK(step(0) == HEADROOM_OK);
  refuses(world, HEADROOM_LOGIC_ERROR,
          {"step: this optimizer has been stepped", "call update or abandon"},
          [&] { return step(2); });
}

TEST_CASE("C: what a scaler refuses changes nothing") {
  World world;
  const Scaler owner = make_scaler();
  headroom_grad_scaler* const scaler = owner.get();
  scale_of(owner);
  const auto all = world.list(), wide = world.wide();
  const headroom_tensor *const list = all.data(), *const to = wide.data(),
                               twice[] = {all[0], all[0]},
                               shorter[] = {{list->data, 3, HEADROOM_FLOAT32, 0, nullptr, nullptr}};
  headroom_report* const report = &world.report;
  headroom_step* const step = &world.step;
  const char* const narrow = "grads[1] would become 0 in place, use headroom_grad_scaler_step_into";
  refuses_all(
      world,
      {{narrow, [&] { return headroom_grad_scaler_unscale(scaler, 1, list, 4, report); }},
       {narrow,
        [&] { return headroom_grad_scaler_unscale_and_clip(scaler, 1, list, 4, 1.0, report); }},
       {narrow, [&] { return headroom_grad_scaler_step(scaler, 1, list, 2, step); }},
       {"max_norm is nan",
        [&] { return headroom_grad_scaler_unscale_and_clip(scaler, 1, list, 1, NAN, report); }},
       {"grads is NULL",
        [&] { return headroom_grad_scaler_unscale(scaler, 1, nullptr, 4, report); }},
       {"grads[0] and grads[1]",
        [&] { return headroom_grad_scaler_unscale(scaler, 1, twice, 2, report); }},
       {"grads[0] and grads[1]",
        [&] { return headroom_grad_scaler_step(scaler, 1, twice, 2, step); }},
       {"from[0]", [&] { return headroom_grad_scaler_step_into(scaler, 1, shorter, to, 1, step); }},
       {"from is NULL",
        [&] { return headroom_grad_scaler_step_into(scaler, 1, nullptr, to, 1, step); }},
       {"scaler is NULL",
        [&] { return headroom_grad_scaler_step_into(nullptr, 1, list, to, 1, step); }},
       {"scaler is NULL",
        [&] { return headroom_grad_scaler_unscale(nullptr, 1, twice, 1, report); }},
       {"scaled is NULL", [&] { return headroom_grad_scaler_scale(scaler, 1.0, nullptr); }},
       {"threads is -1", [&] { return headroom_grad_scaler_set_threads(scaler, -1); }},
       {"scaler is NULL", [] { return headroom_grad_scaler_abandon(nullptr); }},
       {"out is NULL", [] { return headroom_grad_scaler_make(nullptr, nullptr); }}});
  step->struct_size = report->struct_size = 0;
  refuses_all(world,
              {{"step->struct_size is 0",
                [&] { return headroom_grad_scaler_step_into(scaler, 1, list, to, 1, step); }},
               {"step->struct_size is 0",
                [&] { return headroom_grad_scaler_step(scaler, 1, list, 1, step); }},
               {"report->struct_size is 0",
                [&] { return headroom_grad_scaler_unscale(scaler, 1, list, 1, report); }}});
  step->struct_size = sizeof *step;
  CHECK(headroom_grad_scaler_step_into(scaler, 1, list, to, 2, step) == HEADROOM_OK);
  CHECK(step->skipped == 0);
}

TEST_CASE("C: a step without elements is skipped, also if there were some to unscale") {
  World world;
  const Scaler scaler = make_scaler();
  const auto list = world.list(), to = world.wide();
  scale_of(scaler);
  const auto is_skipped = [&](headroom_status status) {
    return status == HEADROOM_OK && world.step.skipped == 1 &&
           world.step.reason == HEADROOM_SKIP_NO_GRADIENTS;
  };
  CHECK(is_skipped(headroom_grad_scaler_step(scaler.get(), 1, nullptr, 0, &world.step)));
  CHECK(is_skipped(
      headroom_grad_scaler_step_into(scaler.get(), 2, nullptr, nullptr, 0, &world.step)));
  CHECK(headroom_grad_scaler_unscale(scaler.get(), 3, list.data(), 1, nullptr) == HEADROOM_OK);
  CHECK(is_skipped(headroom_grad_scaler_step(scaler.get(), 3, list.data(), 0, &world.step)));
  CHECK(headroom_grad_scaler_step_into(scaler.get(), 4, list.data(), to.data(), 1, &world.step) ==
        HEADROOM_OK);
  CHECK(world.step.skipped == 0);
}

TEST_CASE("C: step_into at a scale of 1, and where unscaling overflows") {
  World world;
  const auto from = world.list(), to = world.wide();
  const Scaler one = make_scaler(make_policy("constant", "scale = 1.0").get());
  CHECK(headroom_grad_scaler_step_into(one.get(), 1, from.data(), to.data(), 2, &world.step) ==
        HEADROOM_OK);
  CHECK(
      (world.step.report.max_abs == 8.0 && world.wide_to[1] == -2.0F && world.wide_to[7] == 8.0F));
  const Scaler small = make_scaler(make_policy("constant", "scale = 0.5").get());
  world.fp32[2] = 3e38F;
  CHECK(headroom_grad_scaler_step_into(small.get(), 1, from.data(), to.data(), 2, &world.step) ==
        HEADROOM_OK);
  CHECK((world.step.reason == HEADROOM_SKIP_NOT_FINITE && world.step.nonfinite.index == 2 &&
         world.step.nonfinite.inf_count == 1));
}

TEST_CASE("C: reducers") {
  World world;
  int what = 0;
  const Scaler scaler = make_scaler(make_policy("constant", "scale = 1.0").get());
  const headroom_tensor grads = world.list()[0];
  CHECK(headroom_grad_scaler_set_reducer(scaler.get(), reduce, &what) == HEADROOM_OK);
  CHECK(headroom_grad_scaler_unscale_and_clip(scaler.get(), 1, &grads, 1, HUGE_VAL,
                                              &world.report) == HEADROOM_OK);
  CHECK(world.report.max_abs == 20.0);
  CHECK(world.report.norm == std::sqrt(1.0 + 4.0 + 9.0 + 16.0 + 500.0));
  refuses(world, HEADROOM_LOGIC_ERROR, {"have been unscaled already", "in C the same id"},
          [&] { return headroom_grad_scaler_step(scaler.get(), 2, &grads, 1, &world.step); });
  CHECK(headroom_grad_scaler_step(scaler.get(), 1, &grads, 1, &world.step) == HEADROOM_OK);
  what = 3;
  CHECK(headroom_grad_scaler_step(scaler.get(), 2, &grads, 1, &world.step) == HEADROOM_OK);
  CHECK(world.step.reason == HEADROOM_SKIP_NOT_FINITE);
  CHECK(world.step.nonfinite.inf_count + world.step.nonfinite.nan_count == 0);
  what = 4;
  CHECK(headroom_grad_scaler_step(scaler.get(), 3, &grads, 1, &world.step) == HEADROOM_OK);
  CHECK(world.step.skipped == 0);
  world.fp32[1] = HUGE_VALF;
  what = 0;
  CHECK(headroom_grad_scaler_step(scaler.get(), 4, &grads, 1, &world.step) == HEADROOM_OK);
  CHECK((world.step.reason == HEADROOM_SKIP_NOT_FINITE && world.step.nonfinite.inf_count == 1));
  world.fp32[1] = -2.0F;
  for (what = 1; what < 3; ++what) {
    const auto id = static_cast<uint64_t>(10 + what);
    refuses(world, HEADROOM_RUNTIME_ERROR, {what == 1 ? "network down" : "77"},
            [&] { return headroom_grad_scaler_step(scaler.get(), id, &grads, 1, &world.step); });
    CHECK(headroom_grad_scaler_step(scaler.get(), id, &grads, 1, &world.step) == HEADROOM_OK);
    CHECK(world.step.reason == HEADROOM_SKIP_NOT_FINITE);  // counts as an overflow
  }
  CHECK(headroom_grad_scaler_update(scaler.get()) == HEADROOM_OK);
  CHECK(headroom_grad_scaler_set_reducer(scaler.get(), nullptr, nullptr) == HEADROOM_OK);
  CHECK(headroom_grad_scaler_step(scaler.get(), 1, &grads, 1, &world.step) == HEADROOM_OK);
  CHECK(world.step.skipped == 0);
}
