#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <headroom/state/state_dict.hpp>
#include <queue>
#include <stdexcept>
#include <vector>

#include "wire.hpp"
#include "world.hpp"

namespace simulation {

// One launch, from a checkpoint to the last step or to an error on every rank. The ranks run
// headroom's own code. Time, the network and the launcher are simulated.
class Job {
 public:
  struct Settings {
    World world;
    Network network;
    Algorithm algorithm;
    std::uint32_t launch, last_step, steps_per_checkpoint;
  };

  // If there is an `older` checkpoint, rank `stale` starts from it.
  Job(const Settings& settings, const Checkpoint& newest, const Fault* fault = nullptr,
      const Checkpoint* older = nullptr, std::uint32_t stale = 0)
      : settings_(settings), fault_(fault), saved_{newest}, reports_(settings.world.ranks) {
    const std::uint32_t size = settings.world.ranks;
    decisions_.resize(settings.last_step);
    ranks_.reserve(size);
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      const Checkpoint& start = older != nullptr && rank == stale ? *older : newest;
      ranks_.push_back(Rank{settings.algorithm(rank, size),
                            AnyLossScale::from_state_dict(start.state), digest(start.state),
                            start.step});
    }
  }
  // Runs until no event is left.
  void run() {
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) compute(rank);
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.time;
      Rank& rank = ranks_[event.rank];
      if (!is_active(rank)) continue;
      if (event.kind == Event::stop) rank.state = Rank::stopped;
      if (event.kind == Event::end) end(event.rank);
      if (event.kind == Event::go_on) go_on(event.rank);
    }
  }

  // Ranks that wait forever.
  [[nodiscard]] std::uint32_t ranks_hung() const { return count(Rank::waiting); }
  [[nodiscard]] std::uint32_t ranks_finished() const { return count(Rank::finished); }
  // Ranks that threw because one is out of step; ranks that the launcher stopped.
  [[nodiscard]] std::uint32_t ranks_threw() const { return count(Rank::threw); }
  [[nodiscard]] std::uint32_t ranks_stopped() const { return count(Rank::stopped); }
  // Decisions with other bits than the first decision of the same step.
  [[nodiscard]] std::uint32_t split() const { return split_; }
  // The first rank in another state than rank 0, as the error on all ranks says.
  [[nodiscard]] std::uint32_t first_that_differs() const { return first_that_differs_; }
  // The checkpoint it started with, then those that rank 0 saved, in order.
  [[nodiscard]] const std::vector<Checkpoint>& saved() const { return saved_; }
  [[nodiscard]] const AnyLossScale& policy(std::uint32_t rank) const { return ranks_[rank].policy; }
  [[nodiscard]] std::uint64_t messages() const { return messages_; }
  // The mean time from the last rank's report to the last rank's decision, over the steps that all
  // ranks decided.
  [[nodiscard]] double microseconds_of_decision() const {
    double sum = 0.0, steps = 0.0;
    for (const Decision& decision : decisions_) {
      if (decision.ranks != ranks_.size()) continue;
      sum += decision.last_end - decision.last_begin;
      steps += 1.0;
    }
    return sum / steps;
  }
  [[nodiscard]] std::uint32_t steps_decided() const {
    return static_cast<std::uint32_t>(
        std::count_if(decisions_.begin(), decisions_.end(),
                      [](const Decision& decision) { return decision.ranks != 0; }));
  }

 private:
  struct Message {
    bool is_here = false;
    double arrival = 0.0;
    Report report;
  };
  struct Rank {
    enum State : std::uint8_t { computing, waiting, receiving, finished, threw, stopped, dead };

    Moves moves;
    AnyLossScale policy;
    std::uint64_t digest;  // of its state
    std::uint32_t step;
    std::uint32_t reduction = 0;  // how many it has begun
    std::size_t move = 0;         // of this one
    bool is_gathering = false;    // the digests differ: the ranks gather them to find the first
    State state = computing;
    Report report{};
    Message box[2][slots] = {};  // for this reduction and the next; no rank is further ahead
  };
  struct Event {
    enum Kind : std::uint8_t { go_on, end, stop };
    double time;
    std::uint64_t serial;
    std::uint32_t rank;
    Kind kind;
    bool operator<(const Event& other) const {
      return time != other.time ? time > other.time : serial > other.serial;
    }
  };
  struct Decision {
    std::uint32_t ranks = 0;
    Report of_all;
    std::uint64_t digest_after = 0;
    double last_begin = 0.0, last_end = 0.0;
  };

  [[nodiscard]] std::uint32_t count(typename Rank::State state) const {
    return static_cast<std::uint32_t>(std::count_if(
        ranks_.begin(), ranks_.end(), [&](const Rank& rank) { return rank.state == state; }));
  }
  static bool is_active(const Rank& rank) { return rank.state <= Rank::receiving; }
  void at(double time, std::uint32_t rank, typename Event::Kind kind) {
    events_.push({time, serial_++, rank, kind});
  }
  // A message takes a tenth longer on average than the published time, and sometimes much longer.
  [[nodiscard]] double latency() {
    return settings_.network.microseconds *
           (1.0 + 0.1 * Random(settings_.world.seed, 3, messages_).exponential());
  }
  [[nodiscard]] bool has(std::uint32_t rank, typename Fault::Kind kind) const {
    return fault_ != nullptr && fault_->kind == kind && fault_->rank == rank &&
           fault_->step == ranks_[rank].step;
  }
  [[nodiscard]] bool dies(std::uint32_t rank, int move) const {
    return fault_ != nullptr && fault_->move == move &&
           (has(rank, Fault::killed) || has(rank, Fault::lost));
  }

  void compute(std::uint32_t rank) {
    ranks_[rank].state = Rank::computing;
    const double time = settings_.world.microseconds(settings_.launch, ranks_[rank].step, rank);
    at(now_ + time, rank, Event::go_on);
    if (dies(rank, -1)) at(now_ + time / 2.0, rank, Event::end);
  }
  void go_on(std::uint32_t rank) {
    if (ranks_[rank].state == Rank::computing) {
      if (has(rank, Fault::leaves)) {
        ranks_[rank].state = Rank::dead;
        return;
      }
      const World& world = settings_.world;
      const AnyLossScale& policy = ranks_[rank].policy;
      if (has(rank, Fault::aborts)) return end(rank);
      reports_[rank] = Report(world.sums(ranks_[rank].step, rank, policy), ranks_[rank].digest);
      Decision& decision = decisions_[ranks_[rank].step];
      decision.last_begin = std::max(decision.last_begin, now_);
      begin_reduction(ranks_[rank], reports_[rank]);
    }
    reduce(rank);
  }
  static void begin_reduction(Rank& rank, const Report& report) {
    ++rank.reduction;
    rank.move = 0;
    rank.report = report;
  }
  void reduce(std::uint32_t number) {
    Rank& rank = ranks_[number];
    for (; rank.move < rank.moves.size(); ++rank.move) {
      if (!rank.is_gathering && dies(number, static_cast<int>(rank.move))) return end(number);
      const Move& move = rank.moves[rank.move];
      if (move.kind == Move::send) {
        send(rank, move);
        continue;
      }
      Message& message = rank.box[rank.reduction % 2][move.slot];
      rank.state = !message.is_here ? Rank::waiting : Rank::receiving;
      if (!message.is_here) return;
      if (message.arrival > now_) return at(message.arrival, number, Event::go_on);
      if (move.kind == Move::combine) rank.report.combine(message.report);
      if (move.kind == Move::replace) rank.report = message.report;
      message.is_here = false;
    }
    decide(number);
  }
  void send(const Rank& from, const Move& move) {
    Rank& to = ranks_[move.peer];
    Message& message = to.box[from.reduction % 2][move.slot];
    if (message.is_here) throw std::logic_error("two messages in one slot");
    message = {true, now_ + latency(), from.report};
    ++messages_;
    const bool is_awaited = to.state == Rank::waiting && to.reduction == from.reduction &&
                            to.moves[to.move].slot == move.slot;
    if (!is_awaited) return;
    to.state = Rank::receiving;
    at(message.arrival, move.peer, Event::go_on);
  }
  void decide(std::uint32_t number) {
    Rank& rank = ranks_[number];
    if (rank.is_gathering) {
      fail(rank);
    } else if (!rank.report.agree()) {
      rank.is_gathering = true;
      rank.moves = tree(number, static_cast<std::uint32_t>(ranks_.size()));
      begin_reduction(rank, reports_[number]);
      reduce(number);
    } else {
      step(number);
    }
  }
  // All ranks gathered the same reports, so all throw the same error.
  void fail(Rank& rank) {
    rank.state = Rank::threw;
    if (decisions_[rank.step].ranks != 0) ++split_;  // a rank has made the step
    const auto differs = [&](const Report& report) { return report.digest != reports_[0].digest; };
    const auto first = std::find_if(reports_.begin(), reports_.end(), differs);
    if (first == reports_.end()) ++split_;  // this rank would not throw
    first_that_differs_ = static_cast<std::uint32_t>(first - reports_.begin());
  }
  void step(std::uint32_t number) {
    Rank& rank = ranks_[number];
    rank.policy =
        rank.policy.adjust(headroom::GradientReport{rank.report.finite, rank.report.max_abs});
    Decision& decision = decisions_[rank.step];
    rank.digest = digest(rank.policy.state_dict());
    if (decision.ranks++ == 0) {
      decision.of_all = rank.report;
      decision.digest_after = rank.digest;
    } else if (rank.digest != decision.digest_after || !same_bits(rank.report, decision.of_all)) {
      ++split_;
    }
    decision.last_end = now_;
    ++rank.step;
    if (number == 0 && rank.step % settings_.steps_per_checkpoint == 0)
      saved_.push_back({rank.step, rank.policy.state_dict()});
    rank.state = Rank::finished;
    if (rank.step < settings_.last_step) compute(number);
  }
  static bool same_bits(const Report& a, const Report& b) {
    return a.finite == b.finite && std::memcmp(&a.max_abs, &b.max_abs, 2 * sizeof a.max_abs) == 0;
  }

  // The launcher notices the end of a rank, and stops the others.
  void end(std::uint32_t rank) {
    ranks_[rank].state = Rank::dead;
    const double noticed =
        now_ + (fault_->kind == Fault::lost ? until_heartbeat_is_missed : until_end_is_noticed);
    for (std::uint32_t other = 0; other < ranks_.size(); ++other)
      at(noticed + latency(), other, Event::stop);
  }

  Settings settings_;
  const Fault* fault_;
  std::vector<Rank> ranks_;
  std::vector<Checkpoint> saved_;
  std::vector<Report> reports_;      // of each rank in its last reduction
  std::vector<Decision> decisions_;  // of each step
  std::uint32_t first_that_differs_ = 0;
  std::uint32_t split_ = 0;
  std::priority_queue<Event> events_;
  double now_ = 0.0;
  std::uint64_t serial_ = 0, messages_ = 0;
};

}  // namespace simulation
