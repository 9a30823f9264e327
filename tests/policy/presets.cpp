// The list of systems: each of them is there for everything that goes by the list, and follows its own rule from its own
// defaults.
#include <headroom/policy/make_loss_scale.hpp>
#include <headroom/policy/presets.hpp>
#include <headroom/state/state_dict.hpp>

#include <random>
#include <set>
#include <string>
#include <vector>

#include "support/any_policies.hpp"
#include "support/catch.hpp"
#include "support/follow.hpp"
#include "support/samples.hpp"
#include "support/systems.hpp"

namespace presets = headroom::presets;

namespace {

// What the systems begin with.
static_assert(presets::jmp().loss_scale() == 32768.0F && presets::eformer().loss_scale() == 32768.0F);
static_assert(presets::emily().loss_scale() == 65536.0F && presets::torch().loss_scale() == 65536.0F);
static_assert(presets::megatron().loss_scale() == 0x1p32F && presets::megatron().hysteresis_left() == 2);
static_assert(presets::deepspeed().loss_scale() == 0x1p32F && presets::deepspeed().hysteresis_left() == 1);
static_assert(presets::deepspeed_config().loss_scale() == 65536.0F && presets::deepspeed_config().hysteresis_left() == 2);
static_assert(presets::cerebras_fp16().loss_scale() == 32768.0F);
static_assert(presets::cerebras_cbfloat16().loss_scale() == 0x1p31F);
static_assert(presets::fairseq().loss_scale() == 32768.0F && presets::metaseq().loss_scale() == 4.0F);
static_assert(presets::metaseq().growth().window() == 256.0);

/// Takes the presets of all systems, each beside its rule with the system's own defaults.
class Systems {
 public:
  template <class Policy, class Rule>
  void follow(const char* name, const Policy& preset, const Rule& rule) {
    follow(name, preset, rule, preset);
  }
  /// `followed`: the preset with settings with which it follows the rule everywhere.
  template <class Policy, class Rule>
  void follow(const char* name, const Policy& preset, const Rule& rule, const Policy& followed) {
    static_assert(support::is_among<Policy>(support::PolicyTypes()));
    INFO(name);
    CHECK(names.insert(name).second);
    CHECK(headroom::make_loss_scale(name) == headroom::AnyLossScale(preset));
    for (int run = 0; run < support::cases(20); ++run) {
      CHECK(support::first_difference(followed, rule, random, false, 200) == "");
      CHECK(support::first_difference(followed, rule, random, false, 20000) == "");
    }
  }

  std::set<std::string> names;

 private:
  std::mt19937 random{support::seed};
};

}  // namespace

TEST_CASE("every system is followed from its own defaults, and goes by its name") {
  // What fairseq and metaseq do at their floor is beyond what is compared.
  const headroom::StateDict without_floor = {{"min_scale", 0x1p-126}};
  const systems::Cerebras fp16{32768.0F, 2000, 0x1p-14F, 0x1p15F, 0.0F};
  const systems::Jmp jmp{32768.0F, 2000, 2.0F, 1.0F};
  Systems all;
  all.follow("torch", presets::torch(), systems::Torch{65536.0F, 2.0, 0.5, 2000});
  all.follow("megatron", presets::megatron(), systems::Megatron{0x1p32F, 1.0F, 2.0F, 0.5F, 1000, 2});
  all.follow("cerebras", presets::cerebras_fp16(), fp16);
  all.follow("emily", presets::emily(), systems::Emily{65536.0, 2.0, 0.5, 2000, 1.0});
  all.follow("jmp", presets::jmp(), jmp);
  all.follow("eformer", presets::eformer(), jmp);
  all.follow("deepspeed", presets::deepspeed(), systems::DeepSpeed{0x1p32, 2.0, 1000, 1.0, 1, false});
  all.follow("deepspeed_0_16", presets::deepspeed_0_16(), systems::DeepSpeed{0x1p32, 2.0, 1000, 1.0, 1, false, false});
  all.follow("deepspeed_config", presets::deepspeed_config(), systems::DeepSpeed{65536.0, 2.0, 1000, 1.0, 2, false});
  all.follow("cerebras_fp16", presets::cerebras_fp16(), fp16);
  all.follow("cerebras_cbfloat16", presets::cerebras_cbfloat16(), systems::Cerebras{0x1p31F, 2000, 0x1p-14F, 0x1p31F, 0.0F});
  all.follow("apex", presets::apex(), systems::Apex{65536.0F, 2.0, 0.5, 2000, 2});
  all.follow("fairseq", presets::fairseq(), systems::Fairseq{32768.0, 2.0, 2000.0, 0.0, false},
             presets::fairseq().with_settings(without_floor));
  all.follow("metaseq", presets::metaseq(), systems::Fairseq{4.0, 2.0, 256.0, 0.0, true},
             presets::metaseq().with_settings(without_floor));
  all.follow("flax", presets::flax(), systems::Flax{65536.0F, 2.0F, 0.5F, 2000, 0x1p-126F});
  all.follow("chainer", presets::chainer(), systems::Chainer{1000});
  all.follow("keras", presets::keras(), systems::Keras{32768.0F, 2000});
  all.follow("marian", presets::marian(), systems::Marian{256.0F, 1000, 2.0F, 256.0F});
  all.follow("mindformers_adaptive", presets::mindformers_adaptive(),
             systems::MindFormers{65536.0F, 2.0F, {20, 30, 40, 50, 100, 200, 500, 1000}, 0});
  all.follow("nntrainer", presets::nntrainer(), systems::NNTrainer{1.0F});
  all.follow("onnxruntime", presets::onnxruntime(), systems::OnnxRuntime{65536.0F, 2000, 1.0F, 0x1p24F});
  all.follow("openseq2seq_backoff", presets::openseq2seq_backoff(), systems::OpenSeq2Seq{1.0F, 16384.0F, 2.0F, 2000});
  all.follow("paddle", presets::paddle(), systems::Paddle{65536.0F, 2.0F, 0.5F, 2000, 1});
  all.follow("paddle_2_4", presets::paddle_2_4(), systems::Paddle{32768.0F, 2.0F, 0.5F, 1000, 2});

  std::set<std::string> expected = {
      "noop", "constant", "dynamic",  "hysteresis", "hysteresis_refill_on_growth", "hysteresis_refill_on_backoff",
      "amax", "log_max",  "histogram"};
  expected.insert(all.names.begin(), all.names.end());
  const std::vector<std::string> known = headroom::loss_scale_names();
  CHECK(std::set<std::string>(known.begin(), known.end()) == expected);
  CHECK(known.size() == expected.size());
}
