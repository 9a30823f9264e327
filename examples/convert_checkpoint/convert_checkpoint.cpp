// Converts a checkpoint between the formats of its weights, and says what was lost.
//
//   convert_checkpoint IN OUT --to bf16|fp16|fp32|fp8-128x128|fp8-tensor|mxfp8|mxfp4|nvfp4 [--threads N] [--keep PATTERN]…
//   [--dry-run]
//
// IN is a safetensors file, or a directory with model.safetensors or model.safetensors.index.json; OUT is the same. layouts.hpp
// lists what is read and written. --keep copies tensors, or makes them BF16 if they are quantized; * stands for any letters. A
// file gets its name when it is complete. Called again, the program makes those that are missing, damaged, or were made from
// another input.

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <future>
#include <mutex>
#include <regex>
#include <thread>

#include "tiles.hpp"

namespace {

constexpr const char* no_digest = ":0000000000000000";
std::atomic<bool> is_interrupted{false};
void check_interrupted() {
  if (is_interrupted) throw Failure(Failure::interrupted, "interrupted");
}

/// Of what follows `begin`, in hex.
std::string digest(const File& file, std::size_t begin) {
  std::vector<std::uint64_t> words(1 << 17);
  std::uint64_t result = 0;
  for (const std::size_t end = file.size(), step = words.size() * 8; begin < end; begin += step) {
    check_interrupted();
    std::fill(words.begin(), words.end(), 0);
    file.read(words.data(), std::min(step, end - begin), begin);
    for (const std::uint64_t word : words) {
      result = (result ^ word) * 0x9E3779B97F4A7C15;
      result ^= result >> 32;
    }
  }
  char digits[18];
  std::snprintf(digits, sizeof digits, ":%016llx", static_cast<unsigned long long>(result));
  return digits;
}
void write_file(const fs::path& path, const std::string& text) {
  NewFile file(path);
  file.write(text.data(), text.size(), 0);
  file.finish();
}
std::string read_file(const fs::path& path) {
  const File file(path, O_RDONLY);
  std::string text(file.size(), '\0');
  file.read(text.data(), text.size(), 0);
  return text;
}

struct Options {
  fs::path in, out;
  const Layout* to = nullptr;
  std::vector<std::string> keep;
  std::size_t threads = std::max(1U, std::thread::hardware_concurrency());
  bool is_dry_run = false;
};

class Converter {
 public:
  explicit Converter(const Options& options) : options_(options), to_(options.to), checkpoint_(options.in) {
    const json old = checkpoint_.config.value("quantization_config", json::object());
    if (old.contains("weight_block_size")) block_ = {old["weight_block_size"].at(0), old["weight_block_size"].at(1)};
    for (const Layout& layout : layouts)
      if (layout.is_transposed && layout.to == std::string(to_->to) && checkpoint_.config.value("model_type", "") == "gpt_oss")
        to_ = &layout;
    for (const auto& [name, tensor] : checkpoint_.tensors) {
      const Job job = find_layout(name, tensor, checkpoint_, block_);
      if (target(job, *to_, options_.keep) != nullptr) replaced_.insert(job.others.begin(), job.others.end());
    }
  }

  /// Says what is to be done.
  void print_table() {
    std::map<std::pair<std::string, std::string>, std::array<std::size_t, 3>> rows;
    for (const File& file : checkpoint_.files) {
      for (const Job& job : jobs_of(file)) {
        std::string from = job.codes.dtype;
        if (job.is_quantized())
          from = (job.from->is_packed() ? "E2M1" : from) + ", " + job.from->scales + " of " + job.scales.dtype;
        auto& [tensors, before, after] = rows[{from, job.to == nullptr ? "copied" : job.to->to}];
        ++tensors;
        before += job.codes.bytes + (job.to == nullptr ? 0 : job.scales.bytes);
        for (const auto& [name, tensor] : job.made) after += tensor.bytes;
        total_ += static_cast<double>(job.codes.bytes * (job.needs_largest() ? 2 : 1));
        const bool is_kept = job.to == nullptr ? !job.is_quantized() : !job.to->is_quantized();
        if (is_kept && job.shape.size() == 2 && matches(job.name, {"*.weight"})) kept_.push_back(without(".weight", job.name));
      }
    }
    std::printf("%8s  %-36s %-12s %16s %16s\n", "tensors", "from", "to", "bytes before", "bytes after");
    for (const auto& [formats, row] : rows)
      std::printf("%8zu  %-36s %-12s %16zu %16zu\n", row[0], formats.first.c_str(), formats.second.c_str(), row[1], row[2]);
  }

  void convert() {
    const bool is_directory = fs::is_directory(options_.in), is_new = is_directory && fs::create_directories(options_.out);
    try {
      for (const File& file : checkpoint_.files) find_largest(file);
      for (const File& file : checkpoint_.files)
        convert_file(file, fs::is_directory(options_.out) ? options_.out / fs::path(file.name).filename() : options_.out);
      if (is_directory) write_others();
    } catch (...) {
      std::error_code ignored;
      if (is_new) fs::remove(options_.out, ignored);  // if it is empty
      throw;
    }
    const double n = std::max(1.0, static_cast<double>(loss_.elements));
    std::printf(
        "%zu files were there already. %zu elements were converted: largest error %.3g, root mean square %.3g, of the elements "
        "%.3g;\n%zu became zero, %zu saturated or became NaN.\n",
        files_there_, loss_.elements, loss_.largest, std::sqrt(loss_.squared_errors / n), std::sqrt(loss_.squares / n),
        loss_.zeros, loss_.saturated);
  }

 private:
  std::vector<Job> jobs_of(const File& file) {
    std::vector<Job> jobs;
    for (const auto& [name, tensor] : checkpoint_.tensors) {
      if (tensor.file != &file || replaced_.count(name) != 0) continue;
      jobs.push_back(find_layout(name, tensor, checkpoint_, block_));
      set_target(jobs.back(), target(jobs.back(), *to_, options_.keep));
    }
    return jobs;
  }
  /// Calls task(tile, buffers) in all threads.
  template <class Task>
  void for_each_tile(const Job& job, Task task) {
    const Tiles tiles = tiles_of(job, (std::size_t{1} << 21) / std::max<std::size_t>(options_.threads, 8));
    headroom::parallel(static_cast<int>(options_.threads)).run(tiles.size(), [&](std::size_t i) {
      thread_local Buffers buffers;
      if (!is_interrupted) task(tiles[i], buffers);
      show_progress(job.codes.bytes / tiles.size());
    });
    check_interrupted();
  }
  /// vLLM has one scale of NVFP4 for the layers that it fuses, so they get the same.
  static std::string name_of_largest(const Job& job) {
    if (job.to->tensor_scale == nullptr) return job.name;
    static const std::regex layers("\\.([qkv]|q_a|kv_a|gate|up)_proj(_with_mqa)?\\.|\\.w[13]\\.");
    return std::regex_replace(job.name, layers, ".fused.");
  }
  void find_largest(const File& file) {
    for (const Job& job : jobs_of(file)) {
      if (!job.needs_largest()) continue;
      for_each_tile(job, [&](const Tile& tile, Buffers& buffers) {
        read_values(job, tile, buffers);
        const auto report = headroom::measure(buffers.values);
        if (!report.finite)
          throw Failure(Failure::malformed, file.name + ": " + job.stored_name + " has Inf or NaN, so no scale fits it");
        const std::lock_guard<std::mutex> lock(mutex_);
        float& largest = largest_[name_of_largest(job)];
        largest = std::max(largest, static_cast<float>(report.max_abs));
      });
    }
  }

  /// Places what is made in the new file. Returns what precedes it, with zeros for the digest.
  std::string header_of(const File& file, std::vector<Job>& jobs) {
    std::vector<std::pair<std::string, Tensor>*> all;
    std::set<std::string> sources;
    for (Job& job : jobs) {
      for (auto& made : job.made) all.push_back(&made);
      for (const Tensor* of : {&job.codes, &job.scales})
        if (of->file != nullptr) sources.insert(of->file->name);
    }
    std::stable_sort(all.begin(), all.end(),
                     [](auto* a, auto* b) { return bits_of(a->second.dtype) > bits_of(b->second.dtype); });  // aligns
    std::string made_from = to_->to;
    for (const std::string& name : sources)
      made_from += " " + text(fs::file_size(name)) + " " + text(fs::last_write_time(name).time_since_epoch().count());
    json metadata = checkpoint_.metadata[&file];
    if (metadata.is_null()) metadata = {{"format", "pt"}};
    metadata["convert_checkpoint"] = made_from + no_digest;
    json entries = {{"__metadata__", metadata}};
    std::size_t end = 0;
    for (auto* made : all) {
      auto& [name, tensor] = *made;
      tensor.offset = end;
      end += tensor.bytes;
      entries[name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {tensor.offset, end}}};
      index_ += (index_.empty() ? "" : ",\n") + text(name) + ": " + text(fs::path(file.name).filename().string());
    }
    written_ += end;
    std::string header = entries.dump();
    header.resize((header.size() + 7) / 8 * 8, ' ');
    const std::uint64_t size = header.size();
    for (auto* made : all) made->second.offset += 8 + size;
    return std::string(reinterpret_cast<const char*>(&size), 8) + header;
  }
  static bool is_there(const fs::path& path, std::string header) {
    if (!fs::exists(path) || fs::file_size(path) < header.size()) return false;
    const File file(path, O_RDONLY);
    std::string old(header.size(), ' ');
    file.read(old.data(), old.size(), 0);
    return old == header.replace(header.find(no_digest), 17, digest(file, header.size()));
  }
  void convert_file(const File& file, const fs::path& path) {
    std::vector<Job> jobs = jobs_of(file);
    if (jobs.empty()) return;
    const std::string header = header_of(file, jobs);
    if (is_there(path, header)) {
      ++files_there_;
      for (const Job& job : jobs) show_progress(job.codes.bytes);
      return;
    }
    NewFile out(path);
    out.write(header.data(), header.size(), 0);
    for (Job& job : jobs) {
      if (job.needs_largest()) job.largest = largest_[name_of_largest(job)];
      const float tensor_scale = tensor_scale_of(job.largest);
      if (job.made.size() > 2) out.write(&tensor_scale, 4, job.made[2].second.offset);
      for_each_tile(job, [&](const Tile& tile, Buffers& buffers) {
        const Loss loss = convert_tile(job, tile, out, buffers);
        const std::lock_guard<std::mutex> lock(mutex_);
        loss_.add(loss);
      });
    }
    auto synced = std::async(std::launch::async, [&] { out.sync(); });
    const std::string of_data = digest(out, header.size());
    synced.get();
    check_interrupted();
    out.write(of_data.data(), of_data.size(), header.find(no_digest));
    out.finish();
  }
  void show_progress(std::size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    done_ += static_cast<double>(bytes);
    const auto now = std::chrono::steady_clock::now();
    if (::isatty(2) == 0 || now - shown_ < std::chrono::milliseconds(200)) return;
    shown_ = now;
    const double rate = done_ / std::chrono::duration<double>(now - start_).count();
    std::fprintf(stderr, "\r%5.1f %%  %.2f GB/s  %.0f s left  ", 100.0 * done_ / total_, rate * 1e-9, (total_ - done_) / rate);
  }
  /// The index, config.json, and copies of tokenizers and the like.
  void write_others() {
    const fs::path out = options_.out;
    if (checkpoint_.has_index)
      write_file(out / "model.safetensors.index.json",
                 "{\"metadata\": {\"total_size\": " + text(written_) + "},\n\"weight_map\": {\n" + index_ + "}}\n");
    json& config = checkpoint_.config;
    config.erase("quantization_config");
    if (to_->is_quantized()) config["quantization_config"] = quantization_config(*to_, kept_);
    if (!to_->is_quantized()) config[config.contains("dtype") ? "dtype" : "torch_dtype"] = to_->method;
    write_file(out / "config.json", config.dump(2) + "\n");
    for (const auto& entry : fs::directory_iterator(options_.in)) {
      const std::string name = entry.path().filename().string();
      if (!matches(name, {"*.json", "*.txt", "*.model", "*.jinja", "*.py"})) continue;
      if (!matches(name, {"config.json", "hf_quant_config.json", "*.index.json"}))
        write_file(out / name, read_file(entry.path()));
    }
  }

  Options options_;
  const Layout* to_;
  Checkpoint checkpoint_;
  BlockShape block_{128, 128};
  std::set<std::string> replaced_;
  std::vector<std::string> kept_;         // modules
  std::map<std::string, float> largest_;  // |element| of a tensor, or of those that are fused
  std::string index_;
  std::size_t written_ = 0, files_there_ = 0;
  Loss loss_;
  std::mutex mutex_;
  double total_ = 0.0, done_ = 0.0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now(), shown_;
};

Options options_of(const std::vector<std::string>& arguments) {
  Options options;
  std::vector<std::string> paths;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const bool is_option = arguments[i].find("--") == 0 && arguments[i] != "--dry-run";
    const std::string name = arguments[i], value = !is_option || i + 1 == arguments.size() ? "" : arguments[++i];
    if (!is_option && name != "--dry-run") paths.push_back(name);
    options.is_dry_run = options.is_dry_run || name == "--dry-run";
    if (name == "--keep") options.keep.push_back(value);
    if (name == "--threads") options.threads = std::strtoul(value.c_str(), nullptr, 10);
    for (const Layout& layout : layouts)
      if (name == "--to" && layout.to != nullptr && layout.to == value && !layout.is_transposed) options.to = &layout;
    if (is_option && !matches(name, {"--keep", "--threads", "--to"})) throw Failure(Failure::usage, name + " is unknown");
  }
  std::error_code ignored;
  if (paths.size() != 2 || options.to == nullptr || options.threads < 1 || options.threads > 128 ||
      fs::equivalent(paths[0], paths[1], ignored)) {
    throw Failure(Failure::usage,
                  "convert_checkpoint IN OUT --to bf16|fp16|fp32|fp8-128x128|fp8-tensor|mxfp8|mxfp4|nvfp4 [--threads 1..128] "
                  "[--keep PATTERN] [--dry-run]; IN is not OUT");
  }
  options.in = paths[0];
  options.out = paths[1];
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, [](int) { is_interrupted = true; });
  std::signal(SIGXFSZ, SIG_IGN);  // writing fails instead
  try {
    const Options options = options_of({argv + 1, argv + argc});
    Converter converter(options);
    converter.print_table();
    if (!options.is_dry_run) converter.convert();
    return 0;
  } catch (const Failure& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return failure.code;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return Failure::io;
  }
}
