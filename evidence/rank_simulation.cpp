// Thousands of ranks that decide together, in a discrete simulation. The ranks run headroom's own
// code. Time, the network and the launcher are simulated. Ranks are late, overflow alone, die at
// any moment, abort, or start from an older checkpoint. Ends with 0 if no two ranks decided
// differently, no rank waited forever, and each training ended in the state of one process that
// sees all gradients.
//   rank_simulation [STEPS [RANKS ...]]
#include "rank_simulation/job.hpp"

#include <cstdio>
#include <cstdlib>
#include <headroom/policy/any.hpp>

using namespace simulation;

namespace {

int failures = 0;
void check(bool holds, const char* what) {
  if (holds) return;
  ++failures;
  std::printf("FAILED: %s\n", what);
}

// The states of one process that sees all gradients, after 0, 1, … steps.
struct SingleProcess {
  std::vector<headroom::StateDict> states;
  int overflows = 0, overflows_of_one = 0;

  SingleProcess(const World& world, AnyLossScale policy, std::uint32_t steps)
      : states{policy.state_dict()} {
    for (std::uint32_t step = 0; step < steps; ++step) {
      headroom::GradientReport all;
      std::uint32_t overflowed = 0;
      for (std::uint32_t rank = 0; rank < world.ranks; ++rank) {
        const headroom::GradientSums here = world.sums(step, rank, policy);
        overflowed += here.finite ? 0U : 1U;
        all = {all.finite && here.finite, std::max(all.max_abs, here.max_abs)};
      }
      overflows += overflowed > 0 ? 1 : 0;
      overflows_of_one += overflowed == 1 ? 1 : 0;
      policy = policy.adjust(all);
      states.push_back(policy.state_dict());
    }
  }
};

// A training. After each fault it is launched again, from the last checkpoint of rank 0.
class Training {
 public:
  Training(const World& world, const char* policy, std::uint32_t steps, int faults)
      : world_(world),
        name_(policy),
        steps_(steps),
        faults_(faults),
        single_(world, start(policy), steps) {
    newest_ = older_ = {0, single_.states.front()};
  }
  void run() {
    const int before = failures;
    for (std::uint32_t launch = 0; !is_done_ && launch < 1000; ++launch) {
      const bool is_stale = launch % 3 == 2 && older_.state != newest_.state;
      Fault fault = next_fault(launch);
      is_stale ? launch_out_of_step(launch, fault.rank)
               : launch_with(launch, faults_ > 0 ? &fault : nullptr);
      if (failures != before) break;
    }
    check(is_done_, "training comes to an end");
    check(last_state_ == single_.states.back(), "the last state is that of one process");
    if (failures != before)
      std::printf("by the training of %u ranks with the policy %s\n", world_.ranks, name_);
  }
  void print() const {
    std::printf("%6u  %-11s %6u %9d %7d %5d %7d %6d %10d %7d %10.1f %12.1f\n", world_.ranks, name_,
                steps_, decided_, count_[Fault::killed], count_[Fault::lost], count_[Fault::aborts],
                out_of_step_, single_.overflows, single_.overflows_of_one, latest(), microseconds_);
  }

 private:
  static AnyLossScale start(const char* policy) {
    const headroom::StateDict settings{{"initial_scale", 65536.0}, {"growth_interval", 8}};
    return headroom::make_loss_scale(policy, settings);
  }
  [[nodiscard]] Job::Settings settings(std::uint32_t launch) const {
    return {world_, networks[0], recursive_doubling, launch, steps_, 5};
  }
  [[nodiscard]] Fault next_fault(std::uint32_t launch) const {
    Random random(world_.seed, 4, launch);
    constexpr Fault::Kind kinds[] = {Fault::killed, Fault::aborts, Fault::killed, Fault::lost};
    Fault fault{kinds[launch % 4], random.below(world_.ranks), newest_.step + random.below(10), -1};
    const auto moves =
        static_cast<std::uint32_t>(recursive_doubling(fault.rank, world_.ranks).size());
    if (random.uniform() < 0.6) fault.move = static_cast<int>(random.below(moves));
    return fault;
  }
  void launch_out_of_step(std::uint32_t launch, std::uint32_t stale) {
    Job job(settings(launch), newest_, nullptr, &older_, stale);
    job.run();
    ++out_of_step_;
    check(job.ranks_threw() == world_.ranks,
          "all ranks get the error of one with an older checkpoint");
    // If it is rank 0, all others differ
    check(job.first_that_differs() == std::max(stale, 1U), "the error names the rank");
    end(job);
  }
  void launch_with(std::uint32_t launch, const Fault* fault) {
    Job job(settings(launch), newest_, fault);
    job.run();
    is_done_ = job.ranks_finished() == world_.ranks;
    check(is_done_ == (fault == nullptr || fault->step >= steps_),
          "a job ends early if and only if a rank fails");
    if (!is_done_ && fault != nullptr) {
      check(job.ranks_stopped() + job.ranks_finished() == world_.ranks - 1,
            "the launcher stops all ranks that still run");
      ++count_[fault->kind];
      --faults_;
    }
    end(job);
  }
  void end(const Job& job) {
    check(job.ranks_hung() == 0, "no rank waits forever");
    check(job.split() == 0, "all ranks decide alike");
    for (const Checkpoint& saved : job.saved()) {
      check(saved.state == single_.states[saved.step], "a checkpoint has the state of one process");
      if (saved.step > newest_.step) {
        older_ = newest_;
        newest_ = saved;
      }
    }
    decided_ += static_cast<int>(job.steps_decided());
    microseconds_ = job.microseconds_of_decision();
    if (is_done_) last_state_ = job.policy(world_.ranks - 1).state_dict();
    if (is_done_ || newest_.step < steps_) return;
    is_done_ = true;  // in the last step a rank has died after rank 0 had saved it
    last_state_ = newest_.state;
  }
  // The latest rank of the first launch, in seconds of computing.
  [[nodiscard]] double latest() const {
    double most = 0.0;
    for (std::uint32_t step = 0; step < steps_; ++step) {
      for (std::uint32_t rank = 0; rank < world_.ranks; ++rank)
        most = std::max(most, world_.microseconds(0, step, rank));
    }
    return most * 1e-6;
  }

  World world_;
  const char* name_;
  std::uint32_t steps_;
  int faults_;
  SingleProcess single_;
  Checkpoint newest_, older_;
  headroom::StateDict last_state_;
  bool is_done_ = false;
  int decided_ = 0, out_of_step_ = 0, count_[4] = {};
  double microseconds_ = 0.0;
};

void print_costs(const World& world) {
  constexpr struct {
    const char* name;
    Algorithm algorithm;
  } algorithms[] = {
      {"recursive doubling", recursive_doubling}, {"tree, there and back", tree}, {"ring", ring}};
  std::printf(
      "\nMicroseconds of a decision of %u ranks, from the last report to the last answer\n%-22s",
      world.ranks, "");
  for (const Network& network : networks) std::printf(" %15s", network.name);
  std::printf(" %15s\n", "latencies");
  for (const auto& each : algorithms) {
    std::printf("%-22s", each.name);
    double latencies = 0.0;
    for (const Network& network : networks) {
      const Checkpoint start{0, AnyLossScale().state_dict()};
      Job job({world, network, each.algorithm, 0, 3, 100}, start);
      job.run();
      check(job.ranks_finished() == world.ranks && job.split() == 0, each.name);
      std::printf(" %15.1f", job.microseconds_of_decision());
      latencies = job.microseconds_of_decision() / network.microseconds;
    }
    std::printf(" %15.1f\n", latencies);
  }
}

// Shows that the checks fail without the protocol.
void show_that_it_is_needed(const World& world) {
  const Checkpoint start{
      0, AnyLossScale(headroom::DynamicLossScale().with_loss_scale(0x1p20F)).state_dict()};
  Job alone({world, networks[0], nothing, 0, 20, 100}, start);
  alone.run();
  const Fault fault{Fault::leaves, 1, 5, -1};
  Job silent({world, networks[0], recursive_doubling, 0, 20, 100}, start, &fault);
  silent.run();
  std::printf(
      "\nWithout a reduction %u of %u decisions in 20 steps differ from those of another rank.\n",
      alone.split(), 20 * world.ranks);
  std::printf("If a rank throws and does not call MPI_Abort, %u of %u ranks wait forever.\n",
              silent.ranks_hung(), world.ranks);
  check(alone.split() > 0, "ranks that decide alone come apart");
  check(silent.ranks_hung() == world.ranks - 1, "the others wait for a rank that leaves");
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int i) {
    return static_cast<std::uint32_t>(std::strtoul(argv[i], nullptr, 10));
  };
  const std::uint32_t steps = argc > 1 ? number(1) : 200;
  std::vector<std::uint32_t> sizes;
  for (int i = 2; i < argc; ++i) sizes.push_back(number(i));
  if (sizes.empty()) sizes = {1000, 10000};

  std::printf(
      "Takes half a minute with the default sizes.\n\nLaunched again after each fault:\n%6s  %-11s "
      "%6s %9s %7s %5s %7s %6s %10s %7s %10s %12s\n",
      "ranks", "policy", "steps", "+ redone", "killed", "lost", "aborted", "stale", "overflows",
      "of one", "latest, s", "decision, us");
  for (const std::uint32_t ranks : sizes) {
    Training training({ranks, ranks}, "dynamic", steps, static_cast<int>(steps) / 5);
    training.run();
    training.print();
  }
  int trainings = 0;
  const std::uint32_t most = std::min(sizes.front(), 70U);
  for (const char* policy : {"hysteresis", "torch", "megatron", "deepspeed", "apex", "fairseq"}) {
    for (std::uint32_t ranks = 3; ranks <= most; ++ranks, ++trainings)
      Training({ranks, ranks}, policy, 40, 12).run();
  }
  std::printf("and %d trainings of 3 to %u ranks with other policies\n", trainings, most);
  for (const std::uint32_t ranks : sizes) print_costs({1, ranks});
  show_that_it_is_needed({3, sizes.front()});
  std::printf(failures == 0 ? "\nAll ranks always decided alike, and none waited forever.\n"
                            : "\n%d checks failed.\n",
              failures);
  return failures == 0 ? 0 : 1;
}
