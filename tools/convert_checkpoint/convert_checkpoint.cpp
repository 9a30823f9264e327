// Converts a checkpoint between the formats of its weights, and says what was lost.
// README.md says how. A file gets its name when it is complete; called again, the program makes
// those that are missing, damaged, or of another input. It ends with 0 or a Failure::Code.

#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <future>
#include <regex>
#include <thread>

#include "tiles.hpp"

namespace {

const std::string version = " " + std::to_string(HEADROOM_VERSION_MAJOR) + "." +
                            std::to_string(HEADROOM_VERSION_MINOR) + " ";
constexpr const char* no_digest = ":0000000000000000";
std::atomic<bool> is_interrupted{false};
void check_interrupted() {
  if (is_interrupted) throw Failure(Failure::interrupted, "interrupted");
}
/// The digest of a file from `begin` on, in hex.
std::string digest(const File& file, std::size_t begin) {
  std::size_t sum = fs::file_size(file.name);
  for (const std::size_t end = sum, step = 1 << 18; begin < end; begin += step) {
    check_interrupted();
    sum = 31 * sum + std::hash<std::string>()(file.read(std::min(step, end - begin), begin));
  }
  char digits[18];
  std::snprintf(digits, sizeof digits, ":%016zx", sum);
  return digits;
}

struct Converter {
  fs::path in, out;
  const Layout* to = nullptr;
  std::vector<std::string> keep;
  bool quantizes_all = false;
  std::size_t threads = std::max(1U, std::thread::hardware_concurrency());
  Checkpoint checkpoint{};
  Quantization quantization{};  // of the source
  bool fp8_is_cast = true;      // without scales
  // Of quantized tensors of the source, with the first of each
  std::map<std::string, const Tensor*> formats{};
  std::set<std::string> kept{}, others{};  // modules, files
  // |element| of a tensor, or of those that are fused
  std::map<std::string, float> largest{};
  std::string made_from{};
  // Converted, quantized: tensors
  std::size_t written = 0, files_there = 0, converted = 0, quantized = 0;
  Loss loss{};

  void read() {
    checkpoint.read(in);
    checkpoint.where = in.string() + ": a configuration";
    const json& config = checkpoint.configs["config.json"];
    for (const Layout& layout : layouts)
      if (config.value("model_type", json()) == "gpt_oss" && layout.is_transposed &&
          std::string(to->to) == layout.to)
        to = &layout;
    quantization.read(checkpoint);
    checkpoint.where.clear();
    fp8_is_cast = quantization.formats.empty();
    Misfit ignored;
    for (const Tensor& tensor : checkpoint.tensors) {
      const Job job = find_layout(tensor, checkpoint.tensors, quantization.blocks, false, ignored);
      for (const Tensor* part : job.parts) part->is_part = true;
      const bool is_scale =
          matches(tensor.name, {"*scale*"}) && is_beside_codes(tensor, checkpoint.tensors);
      fp8_is_cast = fp8_is_cast && job.parts.empty() && !is_scale;
    }
    check();
    std::set<std::string> unused(keep.begin(), keep.end());
    for (const Shard& shard : checkpoint.shards) {
      for (const Job& job : jobs_of(shard)) {
        for (const std::string& pattern : keep)
          if (matches(job.name, {pattern})) unused.erase(pattern);
        if (job.to == nullptr) continue;
        ++converted;
        for (const Tensor* part : job.parts) part->is_gone = true;
      }
    }
    if (!unused.empty())
      throw Failure(Failure::usage,
                    "convert_checkpoint: --keep " + *unused.begin() + " names no tensor");
    for (const Tensor& tensor : checkpoint.tensors)
      if (converted > 0 && !formats.empty() && is_of_activations(tensor)) tensor.is_gone = true;
    if (fs::is_directory(in)) find_others();
  }
  /// Whether all tensors are read, and are what the configurations say.
  void check() {
    const auto refuse = [](const Tensor& tensor, const std::string& taken_for) {
      throw Failure(Failure::not_read,
                    describe(tensor) + " is taken for " + taken_for + ", which is not read");
    };
    const Tensor* part = nullptr;  // that no layout has
    for (const Tensor& tensor : checkpoint.tensors) {
      Misfit closest;
      const Job job =
          find_layout(tensor, checkpoint.tensors, quantization.blocks, fp8_is_cast, closest);
      if (job.is_quantized()) formats.emplace(job.from->format, &tensor);
      if (tensor.is_part || is_of_activations(tensor) || matches(tensor.name, keep)) continue;
      const bool is_part = !job.is_quantized() && is_of_weights(tensor, checkpoint.tensors);
      if (is_part && part == nullptr) part = &tensor;
      if (is_part || job.from != nullptr || is_table(tensor)) continue;
      if (!quantization.unread.empty()) refuse(tensor, quantization.unread);
      if (has(fp8, tensor.dtype) || closest.of < Misfit::dtype)
        throw Failure(Failure::not_read, closest.what);
      for (const Unread& row : unread)
        if (matches(tensor.name, {row.name}) && matches(tensor.dtype, {row.dtype}))
          refuse(tensor, row.taken_for);
    }
    if (part != nullptr)
      refuse(*part,
             quantization.unread.empty() ? "a part of a quantized weight" : quantization.unread);
    if (!quantization.unread.empty() && !checkpoint.tensors.empty())
      refuse(formats.empty() ? *checkpoint.tensors.begin() : *formats.begin()->second,
             quantization.unread);
    std::set<std::string> all;
    for (const auto& [where, named] : quantization.formats) {
      all.insert(named.begin(), named.end());
      // Beside one shard of many
      const bool is_of_file = fs::is_directory(in) || where.find("config.json: ") == where.npos;
      if (is_of_file && !named.empty() &&
          std::none_of(named.begin(), named.end(),
                       [&](auto& format) { return formats.count(format) != 0; }))
        throw Failure(Failure::not_read,
                      where + " names " + text(named) +
                          ", but no tensor is stored so; remove it if none should be");
    }
    for (const auto& [format, tensor] : formats)
      if (!quantization.formats.empty() && all.count(format) == 0)
        refuse(*tensor,
               format + ", but " + quantization.formats.begin()->first + " names " + text(all));
  }
  /// Tokenizers and the like, which are copied. OUT must have no other weights, which loaders would
  /// read.
  void find_others() {
    std::set<std::string> weights;
    for (const Shard& shard : checkpoint.shards) weights.insert(shard.name);
    if (fs::is_directory(out))
      for (const auto& entry : fs::directory_iterator(out))
        if (const std::string name = entry.path().filename().string();
            matches(name, {"*.safetensors"}) && weights.count(name) == 0)
          throw Failure(Failure::io, entry.path().string() + ": is of another checkpoint");
    for (const auto& entry : fs::directory_iterator(in)) {
      const std::string name = entry.path().filename().string();
      const bool is_made = matches(name, {"config.json", "*.index.json"}) ||
                           (converted > 0 && matches(name, {"*quant*config*.json"}));
      if (is_made || !matches(name, {"*.json", "*.txt", "*.model", "*.jinja", "*.py"})) continue;
      for (const fs::path& path : {entry.path(), out / name})
        if (fs::exists(fs::symlink_status(path)) && !fs::is_regular_file(path))
          throw Failure(Failure::io, path.string() + ": is no file");
      (void)File(entry.path(), O_RDONLY);
      others.insert(name);
    }
  }
  std::vector<Job> jobs_of(const Shard& shard) {
    std::vector<Job> jobs;
    Misfit ignored;
    for (const Tensor* tensor : shard.tensors) {
      if (tensor->is_gone) continue;
      Job job{*tensor};
      if (!tensor->is_part)
        job = find_layout(*tensor, checkpoint.tensors, quantization.blocks, fp8_is_cast, ignored);
      const bool source_kept =
          !quantizes_all && !formats.empty() && !job.is_quantized() && to->scales != nullptr;
      plan(job, *to, source_kept || matches(job.name, keep));
      jobs.push_back(std::move(job));
    }
    return jobs;
  }
  /// Prints what becomes of all tensors, and finds which modules are kept.
  void print_table(bool is_dry_run) {
    std::map<std::string, std::array<std::size_t, 3>> rows;
    for (const Shard& shard : checkpoint.shards) {
      for (const Job& job : jobs_of(shard)) {
        const bool is_result = job.to == nullptr ? job.is_quantized() : job.to->scales != nullptr;
        const std::string from = job.codes.dtype + (job.scales.file == nullptr
                                                        ? ""
                                                        : std::string(" with ") + job.from->scales),
                          what = from +
                                 (job.to == nullptr ? " copied" : std::string(" to ") + job.to->to);
        auto& [tensors, before, after] = rows[what];
        ++tensors;
        before += job.codes.bytes + (job.to == nullptr ? 0 : job.scales.bytes);
        for (const Tensor& tensor : job.made) after += tensor.bytes;
        quantized += is_result ? 1 : 0;
        for (auto name = quantization.kept.begin();
             is_result && name != quantization.kept.end();)  // as transformers matches them
          name = matches(job.name, {*name + ".*", "*" + *name + ".weight"})
                     ? quantization.kept.erase(name)
                     : std::next(name);
        made_from += what + job.name + text({job.block.rows, job.block.columns, job.tensor_scale});
        if (made_from.size() > 4096) made_from = text(std::hash<std::string>()(made_from));
        if (is_dry_run)
          std::printf("%s %s: %s\n", job.codes.name.c_str(), text(job.shape).c_str(), what.c_str());
        if (!is_result &&
            (job.shape.size() == 3 || (job.shape.size() == 2 && matches(job.name, {"*.weight"}))))
          kept.insert(job.name.substr(0, job.name.rfind('.')));
      }
    }
    const Tensors& tensors = checkpoint.tensors;
    for (const Tied& row : tied)
      if (tensors.count({row.module + std::string(".weight")}) == 0 &&
          (row.tensor == nullptr || tensors.count({row.tensor}) != 0))
        kept.insert(row.module);
    // Regular expressions are those of compressed-tensors
    for (const std::string& name : quantization.kept)
      if (!quantizes_all && (name.find_first_of("*[]()\\^$|?+:") == name.npos ||
                             (name.find("re:") == 0 && std::strchr(to->method, '-') != nullptr)))
        kept.insert(name);
    std::printf("%-44s %8s %16s %16s\n", "", "tensors", "bytes before", "bytes after");
    for (const auto& [what, row] : rows)
      std::printf("%-44s %8zu %16zu %16zu\n", what.c_str(), row[0], row[1], row[2]);
    if (quantized == 0 && to->scales != nullptr)
      std::printf(
          "No tensor is quantized: none is the weight of a linear layer that fits %s and is not "
          "kept.\n",
          to->to);
    if (std::fflush(stdout) != 0)
      throw Failure(Failure::io, std::string("standard output: ") + std::strerror(errno));
  }

  /// Calls task(tile, buffers) in all threads.
  template <class Task>
  void for_each_tile(const Job& job, Task task) {
    const std::vector<Tile> tiles =
        tiles_of(job, (std::size_t{1} << 19) / std::max<std::size_t>(threads, 8));
    headroom::parallel(static_cast<int>(threads)).run(tiles.size(), [&](std::size_t i) {
      thread_local Buffers buffers;
      if (!is_interrupted) task(tiles[i], buffers);
    });
    check_interrupted();
  }
  /// vLLM has one scale of NVFP4 for the layers that it fuses, so they get the same.
  float& largest_of(const Job& job) {
    static const std::regex fused("\\.([qkv]|q_a|kv_a|gate|up)_proj(_with_mqa)?\\.|\\.w[13]\\.");
    return largest[job.to->tensor_scale == nullptr
                       ? job.name
                       : std::regex_replace(job.name, fused, ".fused.")];
  }
  void find_largest(const Job& job) {
    float& most = largest_of(job);
    for_each_tile(job, [&](const Tile& tile, Buffers& buffers) {
      read_values(job, tile, buffers);
      const auto found = headroom::measure(buffers.values);
      if (!found.finite)
        throw Failure(Failure::malformed, job.codes.file->name + ": " + job.codes.name +
                                              " has Inf or NaN, so no scale fits it");
      const std::lock_guard<std::mutex> lock(loss.mutex);
      most = std::max(most, static_cast<float>(found.max_abs));
    });
  }

  float tensor_scale_of(const Job& job) {
    const float all = job.needs_largest() ? largest_of(job) : 0.0F;
    if (all == 0.0F) return 1.0F;
    if (!job.to->is_packed())
      return static_cast<float>(
          headroom::bfloat16(std::max(all / 448.0F, 1e-38F)));  // as transformers reads it
    return formats.count("mxfp4") != 0 ? headroom::Mxfp4ToNvfp4::tensor_scale_of(all)
                                       : std::max(all / 2688.0F, 1e-38F);
  }

  /// Places what is made in the new file. Returns what precedes it, without a digest.
  std::string header_of(const Shard& shard, std::vector<Job>& jobs) {
    std::multimap<std::size_t, Tensor*, std::greater<>> by_bits;  // which aligns them
    std::set<const File*> sources{&shard.file};
    for (Job& job : jobs) {
      for (Tensor& tensor : job.made) by_bits.emplace(bits_of(tensor.dtype), &tensor);
      if (job.scales.file != nullptr) sources.insert(job.scales.file);
    }
    json metadata = {{"format", "pt"}};
    for (const auto& [key, value] : shard.metadata.items())  // torchao's are of tensors
      if (converted == 0 ||
          (!matches(key, {"*quant*", "tensor_names"}) && !matches(value, {"*\"_type\"*"})))
        metadata[key] = value;
    std::string of_files =
        std::string(to->to) + version + text(std::hash<std::string>()(made_from));
    for (const Shard& other : checkpoint.shards) {
      const File& from = other.file;
      // Layers of any file may share a tensor_scale
      if (sources.count(&from) == 0 && to->tensor_scale == nullptr) continue;
      of_files += " " + text(fs::file_size(from.name)) + " " +
                  text(fs::last_write_time(from.name).time_since_epoch().count());
    }
    metadata["convert_checkpoint"] = of_files + no_digest;
    json entries = {{"__metadata__", metadata}};
    std::size_t at = 0;
    for (const auto& [bits, tensor] : by_bits) {
      tensor->offset = at;
      at += tensor->bytes;
      entries[tensor->name] = {{"dtype", tensor->dtype},
                               {"shape", tensor->shape},
                               {"data_offsets", {tensor->offset, at}}};
    }
    written += at;
    std::string header = entries.dump();
    header.resize((header.size() + 7) / 8 * 8, ' ');
    const std::uint64_t size = header.size();
    for (const auto& [bits, tensor] : by_bits) tensor->offset += 8 + size;
    return std::string(reinterpret_cast<const char*>(&size), 8) + header;
  }
  void convert_file(const Shard& shard) {
    const fs::path path = fs::is_directory(out) ? out / shard.name : out;
    std::vector<Job> jobs = jobs_of(shard);
    std::string header = header_of(shard, jobs);
    const std::size_t digest_at = header.find(no_digest), size = header.size();
    if (jobs.empty()) return;
    if (fs::exists(path) && fs::file_size(path) >= size) {
      const File old(path, O_RDONLY);
      const bool is_there =
          old.read(size) == std::string(header).replace(digest_at, 17, digest(old, size));
      files_there += is_there ? 1 : 0;
      if (is_there) return;
    }
    NewFile part(path);
    part.append(header);
    for (const Job& job : jobs) {
      const float scale = tensor_scale_of(job), reciprocal = 1.0F / scale;
      if (job.made.size() > 2)
        part.move(::pwrite, reinterpret_cast<const char*>(&reciprocal), 4, job.made[2].offset);
      const double became = loss.sums[Loss::became_not_finite], were = loss.sums[Loss::not_finite];
      for_each_tile(job, [&](const Tile& tile, Buffers& buffers) {
        convert_tile(job, tile, scale, part, buffers, loss);
      });
      if (loss.sums[Loss::became_not_finite] > became || loss.sums[Loss::not_finite] > were)
        std::printf("%s: %.0f became Inf or NaN, %.0f were\n", job.name.c_str(),
                    loss.sums[Loss::became_not_finite] - became,
                    loss.sums[Loss::not_finite] - were);
    }
    auto synced = std::async(std::launch::async, [&] { part.check(::fsync(part.number)); });
    const std::string of_data = digest(part, size);
    synced.get();
    part.move(::pwrite, of_data.data(), of_data.size(), digest_at);
    check_interrupted();
    part.finish();
  }
  void write_index() {
    NewFile file(out / "model.safetensors.index.json");
    std::string before =
        "{\"metadata\": {\"total_size\": " + text(written) + "},\n\"weight_map\": {";
    for (const Shard& shard : checkpoint.shards) {
      for (const Job& job : jobs_of(shard)) {
        for (const Tensor& tensor : job.made) {
          file.append(before + "\n" + text(tensor.name) + ": " + text(shard.name));
          before = ",";
        }
      }
    }
    file.append("}}\n");
    file.finish();
  }
  /// config.json, and copies of tokenizers and the like.
  void write_others() {
    json& config = checkpoint.configs["config.json"];
    if (converted > 0) relabel(config, to->scales == nullptr ? to->method : "");
    if (converted > 0 && to->scales == nullptr)
      config[config.contains("dtype") ? "dtype" : "torch_dtype"] = to->method;
    if (converted > 0 && to->scales != nullptr && quantized > 0)
      config["quantization_config"] = quantization_config(*to, kept);
    others.insert("config.json");
    for (const std::string& name : others) {
      NewFile file(out / name);
      file.append(name == "config.json" ? config.dump(2) + "\n"
                                        : File(in / name, O_RDONLY).read(fs::file_size(in / name)));
      file.finish();
    }
  }
  void convert() {
    for (const Shard& shard : checkpoint.shards)
      for (const Job& job : jobs_of(shard))
        if (job.needs_largest()) find_largest(job);
    if (fs::is_directory(in)) fs::create_directories(out);
    const File lock(fs::is_directory(out) ? out : in, O_RDONLY);  // of OUT, if it is a directory
    if (fs::is_directory(out) && ::flock(lock.number, LOCK_EX | LOCK_NB) != 0)
      throw Failure(Failure::io, lock.name + ": another process writes this directory");
    for (const char* name : {"config.json", "hf_quant_config.json", "model.safetensors.index.json"})
      if (fs::is_directory(in))
        fs::remove(out / name);  // what an earlier call has left says nothing of these files
    for (const Shard& shard : checkpoint.shards) {
      if (::isatty(2) != 0) std::fprintf(stderr, "%s\n", shard.name.c_str());
      convert_file(shard);
    }
    if (checkpoint.has_index) write_index();
    if (fs::is_directory(in)) write_others();
    const double n = std::max(1.0, loss.sums[Loss::elements]);
    std::printf(
        "%zu files were there already. %.0f elements were converted: largest error %.3g, root mean "
        "square %.3g (of the ",
        files_there, loss.sums[Loss::elements], loss.largest,
        std::sqrt(loss.sums[Loss::squared_errors] / n));
    std::printf(
        "elements %.3g).\n%.0f became zero, %.0f became Inf or NaN; %.0f were Inf or NaN before.\n",
        std::sqrt(loss.sums[Loss::squares] / n), loss.sums[Loss::became_zero],
        loss.sums[Loss::became_not_finite], loss.sums[Loss::not_finite]);
  }
};

int run(int argc, char** argv, Converter& converter) {
  CLI::App app(
      "Converts safetensors checkpoints between formats of weights, and says what was lost.",
      "convert_checkpoint");
  bool is_dry_run = false;
  std::map<std::string, const Layout*> targets;
  for (const Layout& layout : layouts)
    if (layout.to != nullptr) targets.emplace(layout.to, &layout);
  const auto choose = [&](const std::string& name) { converter.to = targets.at(name); };
  app.add_option("IN", converter.in,
                 "a safetensors file, or a directory with model.safetensors or its index")
      ->required();
  app.add_option("OUT", converter.out, "what is made, of the same kind")->required();
  app.add_option_function<std::string>("--to", choose, "the format of weights")
      ->required()
      ->check(CLI::IsMember(targets));
  app.add_option("--threads", converter.threads, "at most so many")->check(CLI::Range(1, 128));
  app.add_option("--keep", converter.keep,
                 "copies tensors of that name, or makes them BF16 if they are quantized; * is any "
                 "letters; may be repeated")
      ->allow_extra_args(false);
  app.add_flag("--quantize-all", converter.quantizes_all,
               "quantizes what a quantized source has kept, too");
  app.add_flag("--dry-run", is_dry_run, "only says what each tensor becomes");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : Failure::usage;
  }
  const auto& [in, out] = std::tie(converter.in, converter.out);
  std::error_code ignored;
  if (fs::equivalent(in, out, ignored))
    throw Failure(Failure::usage, "convert_checkpoint: OUT is IN");
  if (fs::exists(in) && fs::exists(out) && fs::is_directory(in) != fs::is_directory(out))
    throw Failure(Failure::usage,
                  "convert_checkpoint: one of IN and OUT is a directory, the other a file");
  converter.read();
  converter.print_table(is_dry_run);
  if (!is_dry_run) converter.convert();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  for (const int signal : {SIGINT, SIGTERM})
    std::signal(signal, [](int) { is_interrupted = true; });
  std::signal(SIGXFSZ, SIG_IGN);  // writing fails instead
  Converter converter;
  const std::string& reading = converter.checkpoint.where;
  try {
    return run(argc, argv, converter);
  } catch (const Failure& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return failure.code;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s%s%s\n", reading.c_str(), reading.empty() ? "" : ": ", error.what());
    return reading.empty() ? Failure::io : Failure::malformed;
  }
}
