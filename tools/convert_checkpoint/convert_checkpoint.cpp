// Converts a checkpoint between the formats of its weights, and says what was lost.
//
//   convert_checkpoint IN OUT --to FORMAT [--threads N] [--keep PATTERN]… [--dry-run]
//
// FORMAT is bf16, fp16, fp32, fp8-128x128, fp8-tensor, mxfp8, mxfp4 or nvfp4. IN is a safetensors file, or a directory with
// model.safetensors or model.safetensors.index.json; OUT is of the same kind. layouts.hpp lists what is read and written.
// --keep copies tensors, or makes them BF16 if they are quantized; * stands for any letters. A file gets its name when it is
// complete. Called again, the program makes those that are missing, damaged, or of another input. It ends with 0 or a
// Failure::Code.

#include <CLI/CLI.hpp>
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
  NewFile file(path);
  file.move(::pwrite, contents.data(), contents.size(), 0);
  file.finish();
}

struct Converter {
  fs::path in, out;
  const Layout* to = nullptr;
  std::vector<std::string> keep;
  bool quantizes_all = false;
  std::size_t threads = std::max(1U, std::thread::hardware_concurrency());
  Checkpoint checkpoint{};
  BlockShape blocks{128, 128};             // of fp8
  bool fp8_is_cast = true;                 // without scales
  bool is_quantized = false;               // any tensor of the source
  std::set<std::string> kept{"lm_head"};   // modules
  std::map<std::string, float> largest{};  // |element| of a tensor, or of those that are fused
  std::vector<std::string> others{};       // files
  std::string index{}, made_from{};
  std::size_t written = 0, files_there = 0, converted = 0, quantized = 0;  // converted, quantized: tensors
  Loss loss{};
  double total = 0.0, done = 0.0;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now(), shown{};

  void read() {
    checkpoint.read(in);
    checkpoint.where = in.string() + ": the configuration";
    const json type = checkpoint.config.value("model_type", json());
    for (const Layout& layout : layouts)
      if (type == "gpt_oss" && layout.is_transposed && std::string(to->to) == layout.to) to = &layout;
    const std::vector<Quantization> found = quantizations(checkpoint, in);
    blocks = blocks_of(found);
    fp8_is_cast = found.empty();
    checkpoint.where.clear();
    std::set<std::string> formats;
    Misfit ignored;
    for (auto& [name, tensor] : checkpoint.tensors) {
      fp8_is_cast = fp8_is_cast && !matches(name, parts_of_weights);
      const Job job = find_layout(tensor, checkpoint.tensors, blocks, false, ignored);
      for (const std::string& part : job.parts) checkpoint.tensors[part].is_part = job.is_quantized();
      if (job.is_quantized()) formats.insert(job.from->format);
    }
    fp8_is_cast = fp8_is_cast && formats.empty();
    check(found, formats);
    find_others();
    if (!quantizes_all && to->scales != nullptr)
      for (const std::string& module : kept_modules(found))  // regular expressions are those of compressed-tensors
        if (module.find_first_of("*[]()\\^$|?+:") == module.npos ||
            (module.find("re:") == 0 && std::string("mxfp4 fp8").find(to->method) == module.npos))
          kept.insert(module);
    for (const File& file : checkpoint.files) {
      for (const Job& job : jobs_of(file)) {
        if (job.to == nullptr) continue;
        ++converted;
        for (const std::string& part : job.parts) checkpoint.tensors[part].is_gone = true;
      }
    }
    for (auto& [name, tensor] : checkpoint.tensors)
      if (converted > 0 && is_quantized && matches(name, parts_of_activations)) tensor.is_gone = true;
  }
  /// Whether all tensors are read, and are what the configurations say.
  void check(const std::vector<Quantization>& found, const std::set<std::string>& formats) {
    std::string not_read;
    std::set<std::string> named;
    for (const Quantization& one : found) {
      if (not_read.empty()) not_read = one.unread;
      named.insert(one.formats.begin(), one.formats.end());
    }
    const Tensor* weight = nullptr;
    for (const auto& [name, tensor] : checkpoint.tensors) {
      if (tensor.is_part) continue;
      Misfit closest;
      const Job job = find_layout(tensor, checkpoint.tensors, blocks, fp8_is_cast, closest);
      is_quantized = is_quantized || job.is_quantized();
      if (weight == nullptr || (job.is_quantized() && !has(fp8, weight->dtype))) weight = &tensor;
      if (matches(name, keep) && !job.is_quantized()) continue;
      const bool is_of_weight = matches(name, parts_of_weights), is_of_activation = matches(name, parts_of_activations);
      if (is_of_activation || (job.from == nullptr ? is_table(tensor) : !is_of_weight)) continue;
      if (!not_read.empty())
        throw Failure(Failure::not_read, describe(tensor) + " is taken for " + not_read + ", which is not read");
      if (is_of_weight && job.from != nullptr)
        throw Failure(Failure::not_read, describe(tensor) + " is taken for a part of a quantized weight, which no layout has");
      if (has(fp8, tensor.dtype) || closest.distance < 1e6) throw Failure(Failure::not_read, closest.what);
      for (const Unread& row : unread)
        if (matches(name, {row.name}) && matches(tensor.dtype, {row.dtype}))
          throw Failure(Failure::not_read, describe(tensor) + " is taken for " + row.taken_for + ", which is not read");
    }
    if (!not_read.empty())
      throw Failure(Failure::not_read, (weight == nullptr ? in.string() : describe(*weight)) + " is taken for " + not_read +
                                           ", which is not read");
    for (const Quantization& one : found)
      if (!one.formats.empty() &&
          std::none_of(one.formats.begin(), one.formats.end(), [&](auto& format) { return formats.count(format) != 0; }))
        throw Failure(Failure::not_read, one.where + " names " + text(one.formats) + ", but no tensor is stored so");
    for (const std::string& format : formats)
      if (!found.empty() && named.count(format) == 0)
        throw Failure(Failure::not_read,
                      describe(*weight) + ": tensors are " + format + ", but " + found[0].where + " names " + text(named));
  }
  /// Tokenizers and the like, which are copied.
  void find_others() {
    if (!fs::is_directory(in)) return;
    for (const auto& entry : fs::directory_iterator(in)) {
      const std::string name = entry.path().filename().string();
      if (!matches(name, {"*.json", "*.txt", "*.model", "*.jinja", "*.py"}) ||
          matches(name, {"config.json", "hf_quant_config.json", "*.index.json"}))
        continue;
      if (!entry.is_regular_file()) throw Failure(Failure::io, entry.path().string() + ": is no file");
      (void)File(entry.path(), O_RDONLY);
      others.push_back(name);
    }
    std::sort(others.begin(), others.end());
  }
  std::vector<Job> jobs_of(const File& file) {
    std::vector<Job> jobs;
    Misfit ignored;
    for (const auto& [name, tensor] : checkpoint.tensors) {
      if (tensor.file != &file || tensor.is_gone) continue;
      Job job{tensor};
      if (!tensor.is_part) job = find_layout(tensor, checkpoint.tensors, blocks, fp8_is_cast, ignored);
      const bool is_kept = !quantizes_all && is_quantized && !job.is_quantized() && to->scales != nullptr;
      plan(job, *to, is_kept || matches(job.name, keep));
      jobs.push_back(std::move(job));
    }
    return jobs;
  }
  void print_table(bool is_dry_run) {
    std::map<std::string, std::array<std::size_t, 3>> rows;
    for (const File& file : checkpoint.files) {
      for (const Job& job : jobs_of(file)) {
        const bool is_result = job.to == nullptr ? job.is_quantized() : job.to->scales != nullptr;
        const std::string from = job.codes.dtype + (job.scales.file == nullptr ? "" : std::string(" with ") + job.from->scales),
                          what = from + (job.to == nullptr ? " copied" : std::string(" to ") + job.to->to);
        auto& [tensors, before, after] = rows[what];
        ++tensors;
        before += job.codes.bytes + (job.to == nullptr ? 0 : job.scales.bytes);
        for (const Tensor& tensor : job.made) after += tensor.bytes;
        total += static_cast<double>(job.codes.bytes * (job.needs_largest() ? 2 : 1));
        quantized += is_result ? 1 : 0;
        made_from += what + job.name + text({job.block.rows, job.block.columns, job.tensor_scale});
        if (made_from.size() > 4096) made_from = text(std::hash<std::string>()(made_from));
        if (is_dry_run) std::printf("%s %s: %s\n", job.codes.name.c_str(), text(job.shape).c_str(), what.c_str());
        if (!is_result && (job.shape.size() == 3 || (job.shape.size() == 2 && matches(job.name, {"*.weight"}))))
          kept.insert(job.name.substr(0, job.name.rfind('.')));
      }
    }
    std::printf("%-44s %8s %16s %16s\n", "", "tensors", "bytes before", "bytes after");
    for (const auto& [what, row] : rows) std::printf("%-44s %8zu %16zu %16zu\n", what.c_str(), row[0], row[1], row[2]);
    if (quantized == 0 && to->scales != nullptr)
      std::printf("No tensor is quantized: none has a shape that fits %s.\n", to->to);
    if (std::fflush(stdout) != 0) throw Failure(Failure::io, std::string("standard output: ") + std::strerror(errno));
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
      if (job.scales.file != nullptr) sources.insert(job.scales.file);
    }
    json& metadata = checkpoint.metadata[&file];
    for (auto entry = metadata.begin(); converted > 0 && entry != metadata.end();)  // torchao's are of tensors
      entry =
          matches(entry.key(), {"*quant*", "tensor_names"}) || entry->get<std::string>().find("\"_type\"") != std::string::npos
              ? metadata.erase(entry)
              : std::next(entry);
    if (metadata.is_null()) metadata["format"] = "pt";
    std::string of_files = std::string(to->to) + " " + text(std::hash<std::string>()(made_from));
    for (const File& from : checkpoint.files) {
      if (sources.count(&from) == 0 && to->tensor_scale == nullptr) continue;  // layers of any file may share a tensor_scale
      of_files += " " + text(fs::file_size(from.name)) + " " + text(fs::last_write_time(from.name).time_since_epoch().count());
    }
    metadata["convert_checkpoint"] = of_files + no_digest;
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
    NewFile part(path);
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
    if (converted > 0) {
      relabel(config, to->scales == nullptr ? to->method : "");
      if (to->scales == nullptr) config[config.contains("dtype") ? "dtype" : "torch_dtype"] = to->method;
      if (quantized > 0 && to->scales != nullptr) config["quantization_config"] = quantization_config(*to, kept);
    } else {
      others.push_back("hf_quant_config.json");
    }
    write_file(out / "config.json", config.dump(2) + "\n");
    for (const std::string& name : others)
      if (fs::exists(in / name)) write_file(out / name, read_file(in / name, fs::file_size(in / name)));
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
    std::printf("%zu became zero, %zu saturated or became NaN; %zu were Inf or NaN.\n", loss.zeros, loss.saturated,
                loss.not_finite);
  }
};

int run(int argc, char** argv, Converter& converter) {
  CLI::App app("Converts safetensors checkpoints between formats of weights, and says what was lost.", "convert_checkpoint");
  std::string in, out, to;
  bool is_dry_run = false;
  std::set<std::string> names;
  for (const Layout& layout : layouts)
    if (layout.to != nullptr) names.insert(layout.to);
  app.add_option("IN", in, "a safetensors file, or a directory with model.safetensors or its index")->required();
  app.add_option("OUT", out, "what is made, of the same kind")->required();
  app.add_option("--to", to, "the format of weights")->required()->check(CLI::IsMember(names));
  app.add_option("--threads", converter.threads, "at most so many")->check(CLI::Range(1, 128));
  app.add_option("--keep", converter.keep, "copies tensors, or makes them BF16 if they are quantized; * is any letters")
      ->allow_extra_args(false);
  app.add_flag("--quantize-all", converter.quantizes_all, "quantizes what a quantized source has kept, too");
  app.add_flag("--dry-run", is_dry_run, "only says what each tensor becomes");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : Failure::usage;
  }
  for (const Layout& layout : layouts)
    if (layout.to != nullptr && layout.to == to && !layout.is_transposed) converter.to = &layout;
  std::error_code ignored;
  if (fs::equivalent(in, out, ignored) || (fs::exists(out) && fs::is_directory(in) != fs::is_directory(out)))
    throw Failure(Failure::usage, "convert_checkpoint: IN and OUT differ, and both are files or directories");
  converter.in = in;
  converter.out = out;
  converter.read();
  converter.print_table(is_dry_run);
  if (!is_dry_run) converter.convert();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, [](int) { is_interrupted = true; });
  std::signal(SIGXFSZ, SIG_IGN);  // writing fails instead
  Converter converter;
  try {
    return run(argc, argv, converter);
  } catch (const Failure& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return failure.code;
  } catch (const std::exception& error) {
    const std::string& reading = converter.checkpoint.where;
    std::fprintf(stderr, "%s%s%s\n", reading.c_str(), reading.empty() ? "" : ": ", error.what());
    return reading.empty() ? Failure::io : Failure::malformed;
  }
}
