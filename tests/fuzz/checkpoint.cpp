// For libFuzzer. Every checkpoint gives either an error that says in which file, or jobs whose
// tiles cover their tensors; those of small tensors are converted. An input is parts that end with
// a byte of 0: options, config.json, hf_quant_config.json, model.safetensors.index.json, the
// headers of up to three files (model.safetensors, or 1, 2 and 3), and what their tensors begin
// with. An empty part is no file.
#define main convert_checkpoint_main
#include "convert_checkpoint/convert_checkpoint.cpp"
#undef main

#include <cstdlib>

namespace {

void expect(bool holds) {
  if (!holds) std::abort();
}

/// In memory if there is some, and gone at the end.
const fs::path& directory() {
  static const struct Directory {
    fs::path path;
    Directory() {
      std::string name =
          (fs::exists("/dev/shm") ? "/dev/shm" : fs::temp_directory_path().string()) +
          "/fuzz_XXXXXX";
      expect(::mkdtemp(name.data()) != nullptr &&
             std::freopen("/dev/null", "w", stdout) != nullptr);
      path = name;
    }
    ~Directory() {
      std::error_code ignored;
      fs::remove_all(path, ignored);
    }
  } one;
  return one.path;
}
void put(const fs::path& name, const std::string& contents, std::size_t size = 0) {
  if (contents.empty()) {
    ::unlink((directory() / name).c_str());
    return;
  }
  const File file(directory() / name, O_RDWR | O_CREAT | O_TRUNC);
  file.move(::pwrite, contents.data(), contents.size(), 0);
  if (size > contents.size()) file.check(::ftruncate(file.number, static_cast<off_t>(size)));
}
/// A file as large as its header says, so that more than its size is tested.
void put_tensors(const fs::path& name, const std::string& header, const std::string& data) {
  if (header.empty()) return put(name, "");
  std::uint64_t bytes = header.size(), end = 0;
  const json entries = json::parse(header, nullptr, false);
  if (entries.is_object())
    for (const json& entry : entries)
      if (entry.is_object() && entry.contains("data_offsets"))
        for (const json& offset : entry["data_offsets"])
          if (offset.is_number_unsigned() && offset < 1 << 20)
            end = std::max(end, offset.get<std::uint64_t>());
  put(name, std::string(reinterpret_cast<const char*>(&bytes), 8) + header + data.substr(0, end),
      8 + bytes + end);
}

void check(Converter& converter, const Shard& shard) {
  for (const Job& job : converter.jobs_of(shard)) {
    std::size_t elements = 0;
    const std::vector<Tile> tiles = tiles_of(job, std::size_t{1} << 16);
    for (const Tile& tile : tiles) elements += tile.size();
    expect(elements == (job.to == nullptr ? job.codes.bytes : product(job.shape)));
    if (job.codes.bytes > 4096) continue;
    const File to(directory() / "made", O_RDWR | O_CREAT);
    Buffers buffers;
    Loss loss;
    for (const Tile& tile : tiles) convert_tile(job, tile, 1.0F, to, buffers, loss);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string parts[8];
  for (std::size_t i = 0, part = 0; i < size; ++i) {
    if (data[i] != 0 || part == 7) parts[part] += static_cast<char>(data[i]);
    if (data[i] == 0 && part < 7) ++part;
  }
  const std::size_t options = parts[0].empty() ? 0 : static_cast<unsigned char>(parts[0][0]);
  put("config.json", parts[1]);
  put("hf_quant_config.json", parts[2]);
  put("model.safetensors.index.json", parts[3]);
  put_tensors("model.safetensors", parts[4], parts[7]);
  for (int i = 0; i < 3; ++i)
    put_tensors(std::to_string(i + 1), parts[3].empty() ? "" : parts[4 + i], parts[7]);

  Converter converter;
  converter.in = directory();
  converter.out = directory() / "out";
  converter.to = &layouts[0];
  std::size_t nth = options % 8;
  for (const Layout& layout : layouts)
    if (layout.to != nullptr && !layout.is_transposed && nth-- == 0) converter.to = &layout;
  converter.quantizes_all = (options & 8) != 0;
  if ((options & 16) != 0) converter.keep = {"*.kept*"};
  try {
    converter.read();
    converter.print_table(true);
    for (const Shard& shard : converter.checkpoint.shards) check(converter, shard);
  } catch (const Failure& failure) {
    const bool is_of_keep = failure.code == Failure::usage;  // which may name no tensor
    expect(is_of_keep || std::string_view(failure.what()).find(directory().string()) == 0);
  } catch (const std::exception&) {
    expect(converter.checkpoint.where.find(directory().string()) == 0);  // which main prints
  }
  return 0;
}
