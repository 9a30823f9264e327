// Data-parallel training under MPI, in fp16. Each rank computes the gradients of its part of each
// batch. All ranks decide together whether to step, and what the loss scale becomes. Trains
// handwritten digits. Resumes from its last checkpoint, also with another number of ranks. `bash
// examples/mpi.sh` shows what happens when ranks overflow, fail or are killed.
//
//   mpirun -np 4 mpi_digits <digits.csv> <directory> [options]
//
// All ranks must see the directory.
//
//   --epochs N, --seed N         400, 8
//   --every N                    25 steps from one checkpoint to the next
//   --micro-batches N            1; a rank computes its part of the batch in so many pieces
//   --stop-after STEP            saves a checkpoint at this step and ends
//   --overflow STEP:RANK         this rank's gradients have an Inf in this step
//   --fail STEP:RANK             this rank cannot compute its gradients in this step
//   --kill STEP:RANK             this rank dies by kill -9 in this step
//   --progress                   draws a progress bar
//
// Each rank writes steps.RANK.csv: the loss scale of every step, and whether it was skipped.

#include <mpi.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <headroom/adapters/mpi.hpp>
#include <headroom/headroom.hpp>
#include <headroom/state/state_dict.hpp>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>

#include "checkpoint.hpp"
#include "digits/data.hpp"
#include "digits/progress.hpp"
#include "digits/session.hpp"

namespace {

struct Place {
  int step = -1, rank = -1;
};

struct Options {
  std::string images, directory;
  digits::Settings settings;
  int every = 25, micro_batches = 1, stop_after = std::numeric_limits<int>::max();
  Place overflow, fail, kill;
  bool progress = false;
};

Place read_place(const std::string& text) {
  Place place;
  if (std::sscanf(text.c_str(), "%d:%d", &place.step, &place.rank) != 2)
    throw std::invalid_argument(text + " is not STEP:RANK");
  return place;
}

Options read_options(int argc, char** argv) {
  if (argc < 3) throw std::invalid_argument("usage: mpi_digits <digits.csv> <directory> [options]");
  Options options;
  options.images = argv[1];
  options.directory = argv[2];
  for (int i = 3; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--progress") {
      options.progress = true;
      continue;
    }
    if (++i == argc) throw std::invalid_argument(name + " needs a value");
    if (name == "--epochs") {
      options.settings.epochs = std::max(1, std::atoi(argv[i]));
    } else if (name == "--seed") {
      options.settings.seed = static_cast<std::uint32_t>(std::atoi(argv[i]));
    } else if (name == "--every") {
      options.every = std::max(1, std::atoi(argv[i]));
    } else if (name == "--micro-batches") {
      options.micro_batches = std::max(1, std::atoi(argv[i]));
    } else if (name == "--stop-after") {
      options.stop_after = std::atoi(argv[i]);
    } else if (name == "--overflow") {
      options.overflow = read_place(argv[i]);
    } else if (name == "--fail") {
      options.fail = read_place(argv[i]);
    } else if (name == "--kill") {
      options.kill = read_place(argv[i]);
    } else {
      throw std::invalid_argument("unknown option " + name);
    }
  }
  return options;
}

/// One of the ranks of MPI_COMM_WORLD.
class Rank {
 public:
  Rank(const Options& options, const digits::Images& images)
      : options_(options),
        session_(images, options.settings, headroom::DynamicLossScale(config())) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    reducer_.emplace(MPI_COMM_WORLD, size_);  // after the sum, all ranks hold the same gradients
    parts_ = size_ * options.micro_batches;
    if (options.settings.batch % static_cast<std::size_t>(parts_) != 0) {
      throw std::invalid_argument("a batch of " + std::to_string(options.settings.batch) +
                                  " cannot be shared out equally");
    }
    path_ = std::filesystem::path(options.directory) / "digits.checkpoint";
    std::filesystem::create_directories(options.directory);
    resume();
    log_.open(std::filesystem::path(options.directory) /
              ("steps." + std::to_string(rank_) + ".csv"));
    log_.precision(17);  // scales in full
    log_ << "step,loss_scale,skipped\n";
  }

  void train() {
    const int end = std::min(options_.settings.steps(), options_.stop_after);
    digits::Progress progress(end, session_.step());
    while (session_.step() < end) {
      step();
      const bool is_due = session_.step() % options_.every == 0 || session_.step() == end;
      if (rank_ == 0 && is_due) checkpoint::save(path_, session_.sections());
      if (rank_ == 0 && options_.progress) progress.tick();
    }
    check_weights();
    if (rank_ != 0) return;
    std::printf("%d ranks, %d steps, %d of them skipped; loss scale %g; test accuracy %.1f %%\n",
                size_, session_.step(), session_.skipped(),
                static_cast<double>(session_.loss_scale().loss_scale()), session_.test_accuracy());
  }

 private:
  static headroom::LossScaleConfig config() {
    headroom::LossScaleConfig config;
    config.initial_scale = 0x1p16F;
    config.growth_interval = 20;  // not 2000, because the training has only 800 steps
    return config;
  }
  [[nodiscard]] bool is_at(const Place& place) const {
    return session_.step() == place.step && rank_ == place.rank;
  }

  void resume() {
    const auto loaded = checkpoint::load(path_);
    if (!loaded) return;
    session_.restore(loaded->sections);
    if (rank_ != 0) return;
    if (!loaded->warning.empty())
      std::fprintf(stderr, "%s; going on from %s\n", loaded->warning.c_str(), loaded->path.c_str());
    std::printf("resumed after step %d: %s\n", session_.step(), loaded->path.c_str());
  }

  void step() {
    if (is_at(options_.kill)) std::raise(SIGKILL);
    digits::Model<float> scaled = session_.model();
    compute_scaled_gradients(scaled);
    sum_over_ranks(scaled);

    // Unscaling divides by the number of parts as well, so the sum becomes a mean. After a sum in
    // float each rank sees every overflow, so here the ranks would decide alike anyway. If ranks
    // hold different gradients, they need the reducer. Its digest finds a rank in another step or
    // state.
    const auto loss_scale = session_.loss_scale();
    const auto [grads, report] =
        headroom::unscale(scaled, loss_scale.loss_scale() * static_cast<float>(parts_));
    headroom::StateDict state = loss_scale.state_dict();
    state.add("step", session_.step());
    const auto all = (*reducer_)(headroom::gradient_sums(report), headroom::digest(state));
    const headroom::GradientReport report_of_all{all.finite, all.max_abs};
    log_ << session_.step() << ',' << loss_scale.loss_scale() << ','
         << (report_of_all.finite ? 0 : 1) << '\n';
    session_.update(grads, report_of_all);
  }
  /// The sum, in float, of the gradients of the mean loss over each of this rank's parts of the
  /// batch.
  void compute_scaled_gradients(digits::Model<float>& sum) {
    headroom::for_each_leaf(sum, [](auto& leaf) { leaf.setZero(); });
    const digits::Images batch = session_.next_batch();
    if (is_at(options_.fail)) throw std::runtime_error("its gradients could not be computed");
    for (int i = 0; i < options_.micro_batches; ++i) {
      const int part = rank_ * options_.micro_batches + i;
      auto grads16 = session_.scaled_gradients(
          batch.part(static_cast<std::size_t>(part), static_cast<std::size_t>(parts_)));
      if (is_at(options_.overflow))
        grads16.layers[0].weight(0, 0) = std::numeric_limits<Eigen::half>::infinity();
      headroom::accumulate_into(grads16, sum, 1.0F);  // the sum over all ranks is checked instead
    }
  }
  /// Sums in float, because a sum in fp16 can overflow although none of its terms does. An error in
  /// MPI ends the job by default.
  static void sum_over_ranks(digits::Model<float>& model) {
    headroom::for_each_leaf(model, [](auto& leaf) {
      MPI_Allreduce(MPI_IN_PLACE, leaf.data(), static_cast<int>(leaf.size()), MPI_FLOAT, MPI_SUM,
                    MPI_COMM_WORLD);
    });
  }
  /// Throws std::logic_error if two ranks have weights with different bits.
  void check_weights() const {
    const std::string here = session_.sections().at("weights");
    std::string first = here;
    MPI_Bcast(first.data(), static_cast<int>(first.size()), MPI_BYTE, 0, MPI_COMM_WORLD);
    if (first != here) throw std::logic_error("the weights are not those of rank 0");
  }

  Options options_;
  digits::Session session_;
  std::optional<headroom::MpiReducer> reducer_;
  int rank_ = 0, size_ = 1, parts_ = 1;  // parts of a batch
  std::string path_;
  std::ofstream log_;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  try {
    const Options options = read_options(argc, argv);
    const digits::Images images = digits::read_images(options.images);
    Rank(options, images).train();
  } catch (const std::exception& error) {  // ends the other ranks, which may wait for this one
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
