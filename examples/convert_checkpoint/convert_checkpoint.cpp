// Converts a checkpoint between the formats of its weights, and says what was lost.
//
//   convert_checkpoint IN OUT --to FORMAT [--threads N] [--keep PATTERN]… [--dry-run]
//
// FORMAT is bf16, fp16, fp32, fp8-128x128, fp8-tensor, mxfp8, mxfp4 or nvfp4. IN is a safetensors file, or a directory with
// model.safetensors or model.safetensors.index.json; OUT is of the same kind. layouts.hpp lists what is read and written.
// --keep copies tensors, or makes them BF16 if they are quantized; * stands for any letters. A file gets its name when it is
// complete. Called again, the program makes those that are missing, damaged, or of another input. It ends with 0 or a
// Failure::Code.

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <future>
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
  std::vector<std::uint64_t> words(1 << 16);
  std::uint64_t sums[4] = {fs::file_size(file.name)};  // four, which the CPU computes at once
  for (const std::size_t end = fs::file_size(file.name), step = words.size() * 8; begin < end; begin += step) {
    check_interrupted();
    if (end - begin < step) std::fill(words.begin(), words.end(), 0);
    file.move(::pread, reinterpret_cast<char*>(words.data()), std::min(step, end - begin), begin);
    for (std::size_t i = 0; i < words.size(); ++i)
      sums[i % 4] = ((sums[i % 4] ^ words[i]) * 0x9E3779B97F4A7C15) ^ (sums[i % 4] >> 32);
  }
  const std::uint64_t result = sums[0] + 3 * sums[1] + 5 * sums[2] + 7 * sums[3];
  char digits[18];
  std::snprintf(digits, sizeof digits, ":%016llx", static_cast<unsigned long long>(result));
  return digits;
}
std::string read_file(const fs::path& path, std::size_t bytes) {
  std::string contents(bytes, ' ');
  File(path, O_RDONLY).move(::pread, contents.data(), bytes, 0);
  return contents;
}
void write_file(const fs::path& path, const std::string& contents) {
  const NewFile file(path);
  file.move(::pwrite, contents.data(), contents.size(), 0);
  file.finish();
}

struct Converter {
  fs::path in, out;
  const Layout* to = nullptr;
  std::vector<std::string> keep;
  std::size_t threads = std::max(1U, std::thread::hardware_concurrency());
  Checkpoint checkpoint{};
  BlockShape blocks{128, 128};
  std::set<std::string> replaced{}, kept{"lm_head"};  // tensors, modules
  std::map<std::string, float> largest{};             // |element| of a tensor, or of those that are fused
  std::string index{};
  bool is_quantized = false;  // any tensor
  std::size_t written = 0, files_there = 0;
  Loss loss{};
  double total = 0.0, done = 0.0;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now(), shown{};

  void read() {
    checkpoint.read(in);
    checkpoint.where = (in / "config.json").string();
    const json old = checkpoint.config.value("quantization_config", json::object());
    const json size = old.value("weight_block_size", json());  // may be null
    if (!size.is_null()) blocks = {size.at(0), size.at(1)};
    if (blocks.rows == 0 || blocks.columns == 0)
      throw Failure(Failure::malformed, checkpoint.where + ": weight_block_size is " + size.dump());
    const bool is_gpt_oss = checkpoint.config.value("model_type", "") == "gpt_oss";
    for (const Layout& layout : layouts)
      if (is_gpt_oss && layout.is_transposed && std::string(to->to) == layout.to) to = &layout;
    checkpoint.where.clear();
    for (const File& file : checkpoint.files)
      for (const Job& job : jobs_of(file))
        if (job.to != nullptr) replaced.insert(job.others.begin(), job.others.end());
  }
  std::vector<Job> jobs_of(const File& file) const {
    std::vector<Job> jobs;
    for (const auto& [name, tensor] : checkpoint.tensors) {
      if (tensor.file != &file || replaced.count(name) != 0) continue;
      jobs.push_back(find_layout(tensor, checkpoint.tensors, blocks));
      plan(jobs.back(), *to, keep);
    }
    return jobs;
  }
  void print_table() {
    std::map<std::string, std::array<std::size_t, 3>> rows;
    for (const File& file : checkpoint.files) {
      for (const Job& job : jobs_of(file)) {
        const bool is_kept = job.to == nullptr ? !job.is_quantized() : job.to->scales == nullptr;
        const std::string from = job.codes.dtype + (job.is_quantized() ? std::string(" with ") + job.from->scales : "");
        auto& [tensors, before, after] = rows[from + (job.to == nullptr ? " copied" : std::string(" to ") + job.to->to)];
        ++tensors;
        before += job.codes.bytes + (job.to == nullptr ? 0 : job.scales.bytes);
        for (const Tensor& tensor : job.made) after += tensor.bytes;
        total += static_cast<double>(job.codes.bytes * (job.needs_largest() ? 2 : 1));
        is_quantized = is_quantized || job.to == to || (job.to == nullptr && job.is_quantized());
        if (is_kept && (job.shape.size() == 3 || (job.shape.size() == 2 && matches(job.name, {"*.weight"}))))
          kept.insert(job.name.substr(0, job.name.rfind('.')));
      }
    }
    std::printf("%-44s %8s %16s %16s\n", "", "tensors", "bytes before", "bytes after");
    for (const auto& [what, row] : rows) std::printf("%-44s %8zu %16zu %16zu\n", what.c_str(), row[0], row[1], row[2]);
    if (!is_quantized && to->scales != nullptr) std::printf("No tensor is quantized: none has a shape that fits %s.\n", to->to);
  }

  void show_progress(std::size_t bytes) {
    const std::lock_guard<std::mutex> lock(loss.mutex);
    done += static_cast<double>(bytes);
    const auto now = std::chrono::steady_clock::now();
    if (::isatty(2) == 0 || now - shown < std::chrono::milliseconds(200)) return;
    shown = now;
    const double rate = done / std::chrono::duration<double>(now - start).count();
    std::fprintf(stderr, "\r%5.1f %%  %.2f GB/s  %.0f s left  ", 100.0 * done / total, rate * 1e-9, (total - done) / rate);
  }
  /// Calls task(tile, buffers) in all threads.
  template <class Task>
  void for_each_tile(const Job& job, Task task) {
    const std::vector<Tile> tiles = tiles_of(job, (std::size_t{1} << 19) / std::max<std::size_t>(threads, 8));
    headroom::parallel(static_cast<int>(threads)).run(tiles.size(), [&](std::size_t i) {
      thread_local Buffers buffers;
      if (!is_interrupted) task(tiles[i], buffers);
      show_progress(job.codes.bytes / tiles.size());
    });
    check_interrupted();
  }
  /// vLLM has one scale of NVFP4 for the layers that it fuses, so they get the same.
  float& largest_of(const Job& job) {
    static const std::regex fused("\\.([qkv]|q_a|kv_a|gate|up)_proj(_with_mqa)?\\.|\\.w[13]\\.");
    return largest[job.to->tensor_scale == nullptr ? job.name : std::regex_replace(job.name, fused, ".fused.")];
  }
  void find_largest(const Job& job) {
    for_each_tile(job, [&](const Tile& tile, Buffers& buffers) {
      read_values(job, tile, buffers);
      const auto found = headroom::measure(buffers.values);
      if (!found.finite)
        throw Failure(Failure::malformed,
                      job.codes.file->name + ": " + job.codes.name + " has Inf or NaN, so no scale fits it");
      const std::lock_guard<std::mutex> lock(loss.mutex);
      largest_of(job) = std::max(largest_of(job), static_cast<float>(found.max_abs));
    });
  }

  /// Places what is made in the new file. Returns what precedes it, without a digest.
  std::string header_of(const File& file, std::vector<Job>& jobs) {
    std::multimap<std::size_t, Tensor*, std::greater<>> by_bits;  // which aligns them
    std::set<const File*> sources{&file};
    for (Job& job : jobs) {
      for (Tensor& tensor : job.made) by_bits.emplace(bits_of(tensor.dtype), &tensor);
      sources.insert(job.is_quantized() ? job.scales.file : &file);
    }
    json& metadata = checkpoint.metadata[&file];
    if (metadata.is_null()) metadata["format"] = "pt";
    std::string made_from = to->to;
    for (const File& from : checkpoint.files) {
      if (sources.count(&from) == 0 && to->tensor_scale == nullptr) continue;  // layers of any file may share a tensor_scale
      made_from += " " + text(fs::file_size(from.name)) + " " + text(fs::last_write_time(from.name).time_since_epoch().count());
    }
    metadata["convert_checkpoint"] = made_from + no_digest;
    json entries = {{"__metadata__", metadata}};
    std::size_t at = 0;
    for (const auto& [bits, tensor] : by_bits) {
      tensor->offset = at;
      at += tensor->bytes;
      entries[tensor->name] = {{"dtype", tensor->dtype}, {"shape", tensor->shape}, {"data_offsets", {tensor->offset, at}}};
      index += (index.empty() ? "" : ",\n") + text(tensor->name) + ": " + text(fs::path(file.name).filename().string());
    }
    written += at;
    std::string header = entries.dump();
    header.resize((header.size() + 7) / 8 * 8, ' ');
    const std::uint64_t size = header.size();
    for (const auto& [bits, tensor] : by_bits) tensor->offset += 8 + size;
    return std::string(reinterpret_cast<const char*>(&size), 8) + header;
  }
  void convert_file(const File& file) {
    const fs::path path = fs::is_directory(out) ? out / fs::path(file.name).filename() : out;
    std::vector<Job> jobs = jobs_of(file);
    std::string header = header_of(file, jobs);
    const std::size_t digest_at = header.find(no_digest), size = header.size();
    if (jobs.empty()) return;
    if (fs::exists(path) && fs::file_size(path) >= size &&
        read_file(path, size) == std::string(header).replace(digest_at, 17, digest(File(path, O_RDONLY), size))) {
      ++files_there;
      for (const Job& job : jobs) show_progress(job.codes.bytes);
      return;
    }
    const NewFile part(path);
    part.move(::pwrite, header.data(), size, 0);
    for (const Job& job : jobs) {
      const float all = job.needs_largest() ? largest_of(job) : 0.0F,
                  format_max = job.to == nullptr || job.to->is_packed() ? 2688.0F : 448.0F;
      const float scale = all > 0.0F ? std::max(all / format_max, 1e-38F) : 1.0F, reciprocal = 1.0F / scale;
      if (job.made.size() > 2) part.move(::pwrite, reinterpret_cast<const char*>(&reciprocal), 4, job.made[2].offset);
      for_each_tile(job, [&](const Tile& tile, Buffers& buffers) { convert_tile(job, tile, scale, part, buffers, loss); });
    }
    auto synced = std::async(std::launch::async, [&] { part.check(::fsync(part.number)); });
    const std::string of_data = digest(part, size);
    synced.get();
    part.move(::pwrite, of_data.data(), of_data.size(), digest_at);
    check_interrupted();
    part.finish();
  }
  /// The index, config.json, and copies of tokenizers and the like.
  void write_others() {
    const std::string start_of_index = "{\"metadata\": {\"total_size\": " + text(written) + "},\n\"weight_map\": {\n";
    if (checkpoint.has_index) write_file(out / "model.safetensors.index.json", start_of_index + index + "}}\n");
    json& config = checkpoint.config;
    config.erase("quantization_config");
    if (to->scales != nullptr) config["quantization_config"] = quantization_config(*to, kept);
    if (to->scales == nullptr) config[config.contains("dtype") ? "dtype" : "torch_dtype"] = to->method;
    write_file(out / "config.json", config.dump(2) + "\n");
    for (const auto& entry : fs::directory_iterator(in)) {
      const std::string name = entry.path().filename().string();
      const bool is_made = matches(name, {"config.json", "hf_quant_config.json", "*.index.json"});
      if (matches(name, {"*.json", "*.txt", "*.model", "*.jinja", "*.py"}) && !is_made)
        write_file(out / name, read_file(entry.path(), entry.file_size()));
    }
  }
  void convert() {
    const bool is_new = fs::is_directory(in) && fs::create_directories(out);
    try {
      for (const File& file : checkpoint.files)
        for (const Job& job : jobs_of(file))
          if (job.needs_largest()) find_largest(job);
      for (const File& file : checkpoint.files) convert_file(file);
      if (fs::is_directory(in)) write_others();
    } catch (...) {
      if (is_new) ::rmdir(out.c_str());  // if it is empty
      throw;
    }
    const double n = std::max(1.0, static_cast<double>(loss.elements));
    std::printf("%zu files were there already. %zu elements were converted: largest error %.3g, ", files_there, loss.elements,
                loss.largest);
    std::printf("root mean square %.3g (of the elements %.3g).\n", std::sqrt(loss.squared_errors / n),
                std::sqrt(loss.squares / n));
    std::printf("%zu became zero, %zu saturated or became NaN.\n", loss.zeros, loss.saturated);
  }
};

void run(const std::vector<std::string>& arguments, Converter& converter) {
  std::vector<std::string> paths;
  bool is_dry_run = false, is_known = true;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string name = arguments[i], value = i + 1 < arguments.size() ? arguments[i + 1] : "";
    is_dry_run = is_dry_run || name == "--dry-run";
    if (name.find("--") != 0) paths.push_back(name);
    if (name.find("--") != 0 || name == "--dry-run") continue;
    ++i;
    is_known = is_known && i < arguments.size() && matches(name, {"--to", "--threads", "--keep"});
    if (name == "--keep") converter.keep.push_back(value);
    if (name == "--threads") converter.threads = std::strtoul(value.c_str(), nullptr, 10);
    for (const Layout& layout : layouts)
      if (name == "--to" && layout.to != nullptr && layout.to == value && !layout.is_transposed) converter.to = &layout;
  }
  std::error_code ignored;
  if (!is_known || paths.size() != 2 || converter.to == nullptr || converter.threads < 1 || converter.threads > 128 ||
      fs::equivalent(paths[0], paths[1], ignored) ||
      (fs::exists(paths[1]) && fs::is_directory(paths[0]) != fs::is_directory(paths[1]))) {
    throw Failure(Failure::usage,
                  "convert_checkpoint IN OUT --to bf16|fp16|fp32|fp8-128x128|fp8-tensor|mxfp8|mxfp4|nvfp4 [--threads 1..128] "
                  "[--keep PATTERN]... [--dry-run]; IN and OUT differ, and both are files or directories");
  }
  converter.in = paths[0];
  converter.out = paths[1];
  converter.read();
  converter.print_table();
  if (!is_dry_run) converter.convert();
}

}  // namespace

int main(int argc, char** argv) {
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, [](int) { is_interrupted = true; });
  std::signal(SIGXFSZ, SIG_IGN);  // writing fails instead
  Converter converter;
  try {
    run({argv + 1, argv + argc}, converter);
    return 0;
  } catch (const Failure& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return failure.code;
  } catch (const std::exception& error) {
    const std::string& reading = converter.checkpoint.where;
    std::fprintf(stderr, "%s%s%s\n", reading.c_str(), reading.empty() ? "" : ": ", error.what());
    return reading.empty() ? Failure::io : Failure::malformed;
  }
}
