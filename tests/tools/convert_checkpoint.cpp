// Tests tools/convert_checkpoint as a program: it reads every layout and writes every format, says
// what is wrong with bad checkpoints, and leaves nothing half written.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <set>
#include <thread>

#include "checkpoints.hpp"
#include "support/catch.hpp"

namespace {

using Expected = std::vector<Tensor>;
const Texts formats = {"bf16",       "fp16",  "fp32",  "fp8-128x128",
                       "fp8-tensor", "mxfp8", "mxfp4", "nvfp4"};
const fs::path golden = fs::path(HEADROOM_TEST_DATA_DIR) / "checkpoints";

Result to(const std::string& format, const std::string& in, const std::string& out,
          const Texts& more = {}) {
  Texts arguments{in, out, "--to", format};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Result result = run(arguments);
  INFO(in << " to " << format << ": " << result.err);
  CHECK(result.code == 0);
  return result;
}
/// `out` has these tensors and no other.
void expect(const std::string& out, const Expected& wanted) {
  const auto found = read(out);
  CHECK(found.size() == wanted.size());
  for (const Tensor& one : wanted) CHECK(out + ": " + differs(found, one) == out + ": ");
}
/// What is between bars.
Texts split(const std::string& list) {
  Texts texts;
  std::istringstream items(list);
  for (std::string item; std::getline(items, item, '|');) texts.push_back(item);
  return texts;
}
bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
/// The program ends with `code`, its error has the texts, and it makes nothing.
void ends(
    int code, const Texts& texts, const Texts& arguments, const Setup& setup = [] {}) {
  const Result result = run(arguments, setup);
  INFO(json(arguments).dump(-1, ' ', false, json::error_handler_t::replace) << ": " << result.err);
  CHECK(result.code == code);
  for (const std::string& text : texts) {
    INFO("wanted: " << text);
    CHECK(has(result.err, text));
  }
  CHECK_FALSE((fs::exists("out") || fs::exists("out.part")));
}
json config_of(const std::string& out) {
  return json::parse(contents(fs::path(out) / "config.json"));
}
/// What config.json has under the first quantization_config, or is itself.
json config(const std::string& quantization) {
  return {{"quantization_config", json::parse(quantization)}};
}

// ---- numbers ----

/// How a tensor NAME is stored: the names that follow a prefix, and the dtypes.
struct Stored {
  // Kind: of the numbers. level: "" if there is none
  std::string name, codes, scales, level, dtype, scale_dtype, kind;
};
/// Adds random codes and scales. Returns the tensor that they stand for. A block of 0 is all rows
/// or columns.
Tensor store(Files& files, const Stored& how, const std::string& prefix, const Shape& shape,
             const Shape& of_scales, Shape block, bool is_finite) {
  const bool has_groups = has(how.codes, "blocks");
  const std::size_t columns = shape.back(), rows = shape.size() < 2 ? 1 : shape[shape.size() - 2];
  Shape stored = shape;
  stored.back() = shape.back() * bits_in(how.kind) / (has_groups ? 128 : bits_in(how.dtype));
  if (has_groups) stored.push_back(16);
  Bytes codes = random_bytes(product(shape) * bits_in(how.kind) / 8),
        scales = random_bytes(product(of_scales));
  for (char& code : codes)
    while (is_finite && how.kind != "E2M1" &&
           !std::isfinite(number(static_cast<unsigned char>(code), how.kind)))
      code = random_bytes(1)[0];
  const std::string scale_kind = has(how.scale_dtype, "F") ? how.scale_dtype
                                 : block[1] == 16          ? "F8_E4M3"
                                                           : "F8_E8M0";
  for (char& scale : scales)
    if (is_finite) scale = static_cast<char>(100 + static_cast<unsigned char>(scale) % 20);
  if (bits_in(scale_kind) > 8) scales = encode(random_numbers(product(of_scales)), scale_kind);
  const std::vector<float> level = random_numbers(1), factors = decode(scales, scale_kind);
  std::vector<float> values = decode(codes, how.kind);
  if (block[0] == 0) block[0] = rows;
  if (block[1] == 0) block[1] = columns;
  const std::size_t high = (rows + block[0] - 1) / block[0],
                    wide = (columns + block[1] - 1) / block[1];
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t row = i / columns % rows,
                      at = (i / columns / rows * high + row / block[0]) * wide +
                           i % columns / block[1];
    const float factor = factors[factors.size() == 1 ? 0 : at];
    values[i] *= how.level.empty()          ? factor
                 : has(how.level, "global") ? factor / level[0]
                                            : factor * level[0];
  }
  files.add({prefix + how.codes, how.dtype, stored, codes})
      .add({prefix + how.scales, how.scale_dtype, of_scales, scales});
  if (!how.level.empty()) files.add({prefix + how.level, "F32", {}, encode(level, "F32")});
  return {prefix + how.name, "F32", shape, encode(values, "F32")};
}
/// With the last two dimensions in the other order.
Tensor transposed(const Tensor& of, std::size_t bytes) {
  Tensor result = of;
  const std::size_t columns = of.shape.back(), rows = of.shape[of.shape.size() - 2],
                    matrix = rows * columns;
  std::swap(result.shape[of.shape.size() - 2], result.shape.back());
  for (std::size_t i = 0; i < product(of.shape); ++i)
    result.bytes.replace((i / matrix * matrix + i % columns * rows + i / columns % rows) * bytes,
                         bytes, of.bytes, i * bytes, bytes);
  return result;
}
/// What a tensor of floats becomes, by the rules in README.md.
Expected converted(const Tensor& of, const std::string& format) {
  const std::vector<float> values = decode(of.bytes, "F32");
  const std::map<std::string, std::string> plain = {
      {"bf16", "BF16"}, {"fp16", "F16"}, {"fp32", "F32"}};
  const auto found = plain.find(format);
  const bool is_packed = format == "mxfp4" || format == "nvfp4", is_mx = format[0] == 'm',
             is_tensor = format == "fp8-tensor";
  const std::size_t columns = of.shape.back(), width = format == "nvfp4" ? 16
                                                       : is_mx           ? 32
                                                       : is_tensor       ? columns
                                                                         : 128;
  if (found != plain.end())
    return {{of.name, found->second, of.shape, encode(values, found->second)}};
  const std::size_t rows = of.shape[of.shape.size() - 2], height = is_mx || is_packed ? 1
                                                                   : is_tensor        ? rows
                                                                                      : 128;
  if (of.shape.size() != 2 || (height == 1 && columns % width != 0)) return converted(of, "bf16");
  const std::string kind = is_packed ? "E2M1" : "F8_E4M3";
  const float top = is_packed ? 6.0F : 448.0F;
  float all = 0.0F;
  for (const float value : values) all = std::max(all, std::fabs(value));
  const float level = all / 2688.0F;
  std::vector<float> quotients = values, scales;
  for (std::size_t row = 0; row < rows; row += height) {
    for (std::size_t column = 0; column < columns; column += width) {
      std::vector<std::size_t> block;
      for (std::size_t i = row; i < std::min(rows, row + height); ++i)
        for (std::size_t j = column; j < std::min(columns, column + width); ++j)
          block.push_back(i * columns + j);
      float amax = 0.0F, scale = 1.0F;
      for (const std::size_t i : block) amax = std::max(amax, std::fabs(values[i]));
      if (format == "fp8-128x128") scale = 448.0F / amax;
      if (is_tensor) scale = decode(encode({amax / 448.0F}, "BF16"), "BF16")[0];
      if (is_mx) scale = std::ldexp(1.0F, -126);
      while (is_mx && top * scale < amax) scale *= 2.0F;
      if (format == "nvfp4")
        scale = std::max(0x1p-9F, decode(encode({amax / (6.0F * level)}, "F8_E4M3"), "F8_E4M3")[0]);
      for (const std::size_t i : block) {
        if (format == "fp8-128x128") quotients[i] = values[i] * scale;
        if (format != "fp8-128x128")
          quotients[i] = values[i] / (format == "nvfp4" ? scale * level : scale);
      }
      scales.push_back(format == "fp8-128x128" ? 1.0F / scale : scale);
    }
  }
  Bytes bytes = encode(scales, format == "nvfp4" ? "F8_E4M3" : "F32");
  if (is_mx) bytes.clear();
  for (std::size_t i = 0; is_mx && i < scales.size(); ++i)
    bytes += static_cast<char>(std::ilogb(scales[i]) + 127);
  const Shape of_scales =
      is_tensor ? Shape{1} : Shape{(rows + height - 1) / height, (columns + width - 1) / width};
  Expected result{{of.name + (is_packed ? "_packed" : ""),
                   is_packed ? "U8" : "F8_E4M3",
                   {rows, columns / (is_packed ? 2 : 1)},
                   encode(quotients, kind)},
                  {of.name + (format == "fp8-128x128" ? "_scale_inv" : "_scale"),
                   is_mx               ? "U8"
                   : format == "nvfp4" ? "F8_E4M3"
                                       : "F32",
                   of_scales, bytes}};
  if (format == "nvfp4")
    result.push_back({of.name + "_global_scale", "F32", {1}, encode({1.0F / level}, "F32")});
  return result;
}

TEST_CASE("Every format that is written, by hand") {
  const Workplace here;  // 448, 1 and 0.5; x.k_proj shares a scale of NVFP4 with x.q_proj
  const std::string bias = "; o_proj.bias F32 [32] 1",
                    head = "; lm_head.weight BF16 [1,32] = 803f*32",
                    kept = "; x.k_proj.weight BF16 [1,32] = 803f*32",
                    small = "; short.weight BF16 [1,24] = 803f*24";
  Files{tensors_of("q_proj.weight F32 [2,64] = 0000e043*32 0000803f*32 0000003f*64; "
                   "x.q_proj.weight BF16 [1,32] = e043*32"
                   "; zeros.weight BF16 [1,32] = 0000*32" +
                   bias + head + kept + small)}
      .write("in");
  const std::map<std::string, std::string> wanted = {
      {"bf16", "q_proj.weight BF16 [2,64] = e043*32 803f*32 003f*64"},
      {"fp16", "q_proj.weight F16 [2,64] = 005f*32 003c*32 0038*64"},
      {"fp32", "x.q_proj.weight F32 [1,32] = 0000e043*32"},
      {"fp8-128x128",
       "q_proj.weight F8_E4M3 [2,64] = 7e*32 38*32 30*64; q_proj.weight_scale_inv F32 [1,1] 1; "
       "short.weight F8_E4M3 [1,24] = "
       "7e*24"
       "; zeros.weight F8_E4M3 [1,32] = 00*32; zeros.weight_scale_inv F32 [1,1] 1" +
           head},
      {"fp8-tensor",
       "q_proj.weight F8_E4M3 [2,64] = 7e*32 38*32 30*64; q_proj.weight_scale F32 [1] 1"
       "; zeros.weight_scale F32 [1] 1; x.k_proj.weight F8_E4M3 [1,32] = 7e*32" +
           head},
      {"mxfp8",
       "q_proj.weight F8_E4M3 [2,64] = 7e*32 78*96; q_proj.weight_scale U8 [2,2] = 7f777676; "
       "zeros.weight_scale U8 [1,1] = 00" +
           head},
      {"mxfp4", "q_proj.weight_packed U8 [2,32] = 66*64; q_proj.weight_scale U8 [2,2] = 867d7c7c" +
                    small + head},
      {"nvfp4",
       "q_proj.weight_packed U8 [2,32] = 77*64; q_proj.weight_scale F8_E4M3 [2,4] = 7e*2 38*2 30*4"
       "; q_proj.weight_global_scale F32 [1] 6; x.k_proj.weight_global_scale F32 [1] 6"
       "; zeros.weight_global_scale F32 [1] 1; x.k_proj.weight_scale F8_E4M3 [1,2] = 3838" +
           head}};
  for (const auto& [format, tensors] : wanted) {
    to(format, "in", format);
    const auto found = read(format);
    for (const Tensor& one : tensors_of(tensors + bias))
      CHECK(format + differs(found, one) == format);
  }
  to("fp8-tensor", "in", "kept", {"--keep", "x.*", "--keep", "z*", "--threads", "1"});
  CHECK(differs(read("kept"), tensors_of(kept.substr(2))[0]) == "");
  CHECK(read("kept").at("zeros.weight").dtype == "BF16");
  to("fp32", "fp8-tensor", "kept", {"--keep", "x.*"});  // BF16 if they are quantized
  CHECK(differs(read("kept"), tensors_of(kept.substr(2))[0]) == "");
  const std::string table = to("nvfp4", "in", "dry", {"--dry-run"}).out;
  INFO(table);
  CHECK(has(table, "q_proj.weight [2,64]: F32 to nvfp4\n"));
  std::istringstream words(table.substr(table.rfind("F32 to nvfp4")));
  CHECK(Texts{std::istream_iterator<std::string>(words), {}}[5] == "76");
  CHECK_FALSE(fs::exists("dry"));
}

TEST_CASE("It says what was lost") {
  const Workplace here;
  // 1e-10, 1e6, 0, -1
  Files{tensors_of("w.weight F32 [1,4] = fffedb2e 00247449 00000000 000080bf")}.write("extremes");
  CHECK(has(to("fp16", "extremes", "out16").out, "\n1 became zero, 1 became Inf or NaN; 0 were"));
  Files{tensors_of("w.weight F32 [1,64] = 0000807f 0000803f*63")}.write("inf");
  const std::string lost = to("mxfp8", "inf", "out8").out;
  CHECK(has(lost, "\nw.weight: 31 became Inf or NaN, 1 were\n"));
  CHECK(has(lost, "\n0 became zero, 31 became Inf or NaN; 1 were Inf"));
  ends(3, {"inf: w.weight", "Inf"}, {"inf", "out", "--to", "fp8-tensor"});
  Files{tensors_of("w.weight F8_E4M3 [4,4] = 7f*16; w.weight_scale F32 [] 1")}.write("nan");
  CHECK(has(to("bf16", "nan", "of_nan").out, "; 16 were Inf or NaN"));
}

TEST_CASE("Every layout and form of scales, with random codes") {
  const Workplace here;
  // clang-format off
  struct Form { Shape shape, scales, block; };
  const std::vector<Form> all_forms = {
      {{7, 96}, {}, {0, 0}}, {{7, 96}, {1}, {0, 0}}, {{7, 96}, {1, 1}, {0, 0}}, {{64}, {1}, {0, 0}},
      {{7, 96}, {7}, {1, 0}}, {{7, 96}, {7, 1}, {1, 0}}, {{3, 7, 96}, {3, 7, 1}, {1, 0}},
      {{130, 136}, {2, 2}, {128, 128}}, {{3, 130, 136}, {3, 2, 2}, {128, 128}}, {{130, 136}, {2, 1, 2, 1}, {128, 128}},
      {{3, 7, 96}, {3}, {0, 0}}, {{3, 7, 96}, {3, 1, 1}, {0, 0}}, {{2, 3, 5, 64}, {2, 3, 1, 1}, {0, 0}},
      {{3, 7, 96}, {3, 1, 96}, {0, 1}}, {{3, 7, 96}, {1}, {0, 0}}, {{3, 7, 96}, {}, {0, 0}}};
  const char *fp8s = "F8_E4M3|F8_E5M2", *floats = "F32|BF16|F16", *mx = "U8|F8_E8M0", *any = "F32|BF16|F16|U8|F8_E8M0";
  /// kind: empty as dtypes. block: 0 for all forms, else the columns.
  struct Row { const char *name, *codes, *scales, *level, *kind, *dtypes, *scale_dtypes; std::size_t block; };
  const Row rows[] = {
      {"weight", "weight", "weight_scale_inv", "", "", fp8s, any, 0},
      {"weight", "weight", "weight_scale", "", "", fp8s, floats, 0},
      {"up_proj", "up_proj", "up_proj_weight_scale", "", "", fp8s, floats, 0},
      {"weight", "_weight_qdata", "_weight_scale", "", "", fp8s, floats, 0},
      {"weight", "weight", "scale_weight", "", "", fp8s, floats, 0},
      {"weight", "weight", "qscale_weight", "", "", fp8s, floats, 0},
      {"weight", "weight", "scale", "", "", fp8s, "F8_E8M0", 0},
      {"weight", "weight", "scale", "", "E2M1", "I8", "F8_E8M0", 32},
      {"weight", "weight", "weight_scale", "", "", fp8s, mx, 32},
      {"weight", "weight_packed", "weight_scale", "weight_global_scale", "E2M1", "U8", "F8_E4M3", 16},
      {"weight", "weight_packed", "weight_scale", "", "E2M1", "U8", mx, 32},
      {"weight", "weight", "weight_scale", "weight_scale_2", "E2M1", "U8", "F8_E4M3", 16},
      {"weight", "weight", "weight_scale", "", "E2M1", "U8", mx, 32},
      {"up", "up_blocks", "up_scales", "", "E2M1", "U8", mx, 32},
      {"up", "up.blocks", "up.scales", "", "E2M1", "U8", mx, 32},
      {"weight", "weight", "scales", "", "E2M1", "U32", "U8", 32},
      {"weight", "weight", "scales", "", "F8_E4M3", "U32", "U8", 32},
      {"weight", "weight", "scales", "", "E2M1", "U32", "U8", 16}};
  // clang-format on
  const Expected copied = tensors_of("steps I64 [] = 0100000000000000; norm.weight F16 [1] = 003c");
  for (const Row& row : rows) {
    const std::size_t width = std::max<std::size_t>(1, row.block);
    const std::vector<Form> blocks = {{{37, 160}, {37, 160 / width}, {1, width}},
                                      {{3, 5, 64}, {3, 5, 64 / width}, {1, width}}};
    for (const std::string& dtype : split(row.dtypes)) {
      for (const std::string& scale_dtype : split(row.scale_dtypes)) {
        INFO(row.codes << " in " << dtype << ", " << row.scales << " in " << scale_dtype);
        const Stored how{row.name,
                         row.codes,
                         row.scales,
                         row.level,
                         dtype,
                         scale_dtype,
                         *row.kind == '\0' ? dtype : row.kind};
        Files files{copied};
        Expected fp32 = copied, bf16 = copied;
        for (const Form& form : row.block == 0 ? all_forms : blocks) {
          const std::string prefix = "t" + std::to_string(fp32.size()) + ".";
          Tensor wanted = store(files, how, prefix, form.shape, form.scales, form.block, false);
          if (has(row.codes, "_blocks")) wanted = transposed(wanted, 4);
          fp32.push_back(wanted);
          bf16.push_back(converted(wanted, "bf16")[0]);
        }
        files.write("in");
        run({"in", "scalar", "--to", "fp32"}, [] { ::setenv("HEADROOM_ISA", "scalar", 1); });
        expect("scalar", fp32);
        to("fp32", "in", "fp32");
        expect("fp32", fp32);
        to("bf16", "in", "bf16");
        expect("bf16", bf16);
      }
    }
  }
}

TEST_CASE("Tensors of many tiles, whose blocks are not those of the tiles") {
  const Workplace here;
  const Stored blocks{"weight", "weight", "weight_scale_inv", "", "F8_E4M3", "F32", "F8_E4M3"},
      e5m2{"weight", "weight", "weight_scale_inv", "", "F8_E5M2", "F32", "F8_E5M2"},
      rounded{"weight", "weight", "weight_scale_inv", "", "F8_E4M3", "BF16", "F8_E4M3"},
      nvfp4{"weight", "weight", "weight_scale", "weight_scale_2", "U8", "F8_E4M3", "E2M1"};
  // clang-format off
  struct Case { Stored how; Shape shape, scales, block; bool is_copied = false; };  // by --to fp8-128x128
  const Case cases[] = {
      {blocks, {525, 160}, {5, 2}, {128, 128}, true}, {e5m2, {525, 160}, {5, 2}, {128, 128}},
      {rounded, {130, 136}, {2, 2}, {128, 128}}, {blocks, {285, 160}, {3, 2}, {100, 100}},
      {blocks, {285, 160}, {3, 2}, {100, 128}}, {blocks, {285, 160}, {3, 2}, {128, 100}},
      {blocks, {1, 2048}, {1, 22}, {64, 96}}, {blocks, {2, 9130}, {1, 96}, {64, 96}},
      {blocks, {78, 4097}, {1, 33}, {128, 128}, true}, {blocks, {300, 500}, {300, 1}, {1, 0}},
      {blocks, {300, 500}, {}, {0, 0}}, {blocks, {100, 100}, {}, {0, 0}}, {blocks, {128, 64}, {1, 1}, {128, 128}, true},
      {blocks, {128, 192}, {2, 3}, {64, 64}}, {blocks, {256, 64}, {2, 1}, {128, 64}, true}, {blocks, {256, 128}, {2, 2}, {128, 64}},
      {blocks, {128, 256}, {2, 2}, {64, 128}}, {blocks, {3, 200, 300}, {3, 2, 3}, {128, 128}}, {blocks, {3, 200, 300}, {3}, {0, 0}},
      {blocks, {3, 200, 300}, {3, 1, 300}, {0, 1}}, {blocks, {3, 200, 300}, {3, 200, 1}, {1, 0}},
      {nvfp4, {300, 416}, {300, 26}, {1, 16}}, {nvfp4, {2, 44000}, {2, 2750}, {1, 16}}};
  // clang-format on
  for (const Case& one : cases) {
    Files files;
    const Tensor values = store(files, one.how, "m.", one.shape, one.scales, one.block, true);
    files.config = json::object();
    if (one.block[1] > 1 && one.how.level.empty())
      files.config["quantization_config"] = {{"quant_method", "fp8"},
                                             {"weight_block_size", one.block}};
    files.write("in");
    for (const std::string& format : formats) {
      const bool is_copied = one.is_copied && format == "fp8-128x128";
      const Expected wanted = is_copied ? files.tensors : converted(values, format);
      // 96: tiles of a size that is no power of two
      for (const char* threads : {"1", "96", "128"}) {
        INFO(json(one.shape).dump()
             << " in " << json(one.block).dump() << " to " << format << ", threads: " << threads);
        const Result result = to(format, "in", threads, {"--threads", threads});
        CHECK(has(result.out, "already. 0 elements") == is_copied);
        expect(threads, wanted);
      }
      const Bytes all = contents("1/model.safetensors");
      CHECK((all == contents("96/model.safetensors") && all == contents("128/model.safetensors")));
    }
  }
  // Experts of gpt-oss, whose rows are columns, with one scale for all.
  Files files{{}, {{"model_type", "gpt_oss"}}};
  const Stored of_experts{"up_proj", "up_proj", "up_proj_scale", "", "F8_E4M3", "F32", "F8_E4M3"};
  const Tensor experts = store(files, of_experts, "x.experts.", {2, 288, 160}, {}, {0, 0}, true);
  files.write("experts");
  const Tensor turned = transposed(experts, 4);
  Tensor codes("x.experts.up_proj_blocks", "U8", {2, 160, 9, 16}, ""),
      scales("x.experts.up_proj_scales", "U8", {2, 160, 9}, "");
  for (std::size_t i = 0; i < 2; ++i) {
    const Expected half = converted(
        {"", "F32", {160, 288}, turned.bytes.substr(i * 160 * 288 * 4, 160 * 288 * 4)}, "mxfp4");
    codes.bytes += half[0].bytes;
    scales.bytes += half[1].bytes;
  }
  for (const char* threads : {"1", "128"}) {
    to("mxfp4", "experts", std::string("experts") + threads, {"--threads", threads});
    expect(std::string("experts") + threads, {codes, scales});
  }
  to("bf16", "experts1", "back");
  to("mxfp4", "back", "back4");
  to("bf16", "back4", "back16");
  CHECK(describe("back16") == describe("back"));
  // A convolution: many dimensions, small matrices.
  const std::vector<float> numbers = random_numbers(640 * 640 * 9);
  const Tensor convolution("c.weight", "F32", {640, 640, 3, 3}, encode(numbers, "F32"));
  Files{{convolution}}.write("convolution");
  to("bf16", "convolution", "convolution16");
  expect("convolution16", converted(convolution, "bf16"));
}

// ---- checkpoints ----

TEST_CASE("Checkpoints of systems") {
  const Workplace here;
  for (const auto& entry : fs::directory_iterator(golden)) {
    const std::string model = entry.path().filename().string(), in = entry.path().string(),
                      at = model + ".";
    INFO(model);
    if (fs::exists(entry.path() / "refused.txt")) {
      std::istringstream words(contents(entry.path() / "refused.txt"));
      ends(4, {std::istream_iterator<std::string>(words), {}}, {in, "out", "--to", "bf16"});
      continue;
    }
    std::istringstream lines(contents(entry.path() / "expected.txt"));
    std::set<std::string> sorted;
    for (std::string line; std::getline(lines, line);) sorted.insert(line + "\n");
    std::string wanted;
    for (const std::string& line : sorted) wanted += line;
    to("bf16", in, model);
    CHECK(describe(model) == wanted);
    CHECK_FALSE(has(contents(model + "/config.json"), "quantization"));
    for (const std::string& format : formats) {
      INFO(format);
      if (format == "bf16") continue;
      to(format, model, at + format, {"--threads", "1"});
      to(format, model, at + "tiles", {"--threads", "128"});  // many threads have small tiles
      for (const auto& file : fs::directory_iterator(at + format))
        CHECK(contents(file.path()) == contents(fs::path(at + "tiles") / file.path().filename()));
      to("bf16", at + format, at + format + ".back");
      const std::string back = describe(at + format + ".back");
      if (format == "fp32") CHECK(back == wanted);
      to(format, at + format + ".back", at + "again");  // loses nothing more
      to("bf16", at + "again", at + "again.back");
      CHECK(describe(at + "again.back") == back);
      for (const char* directory : {"tiles", "again", "again.back"}) fs::remove_all(at + directory);
    }
  }
  const auto same = [](const char* a, const char* b) { CHECK(describe(a) == describe(b)); };
  same("gpt_oss.mxfp4.back", "gpt_oss");
  same("modelopt_nvfp4.nvfp4.back", "modelopt_nvfp4");
  Files{tensors_of("w.weight_packed U8 [2,16] = 65*16 23*8 14*8; w.weight_scale U8 [2,1] = 7d74")}
      .write("mxfp4");
  to("fp32", "mxfp4", "mxfp4.fp32");
  to("nvfp4", "mxfp4", "mxfp4.nvfp4");
  to("fp32", "mxfp4.nvfp4", "mxfp4.nvfp4.fp32");  // no number changes
  CHECK(differs(read("mxfp4.nvfp4.fp32"), read("mxfp4.fp32").at("w.weight")) == "");
  const std::string in = (golden / "deepseek").string();
  // Which it is already
  CHECK(has(to("fp8-128x128", in, "copied").out, "\n0 files were there already. 0 elements"));
  CHECK(describe("copied") == describe(in));
  const json blocks = config_of("deepseek.fp8-128x128")["quantization_config"],
             tensor = config_of("deepseek.fp8-tensor")["quantization_config"];
  CHECK(blocks["weight_block_size"] == json{128, 128});
  CHECK(tensor["config_groups"]["group_0"]["input_activations"]["strategy"] == "token");
  CHECK(blocks["modules_to_not_convert"][0] == "lm_head");
  CHECK(blocks["modules_to_not_convert"][1] == "model.embed_tokens");
  CHECK(config_of("gpt_oss.mxfp4")["quantization_config"]["quant_method"] == "mxfp4");
}

// clang-format off
/// A checkpoint as tables have it: tensors_of, and the quantization_config of config.json or a member for each file.
/// `wanted`: texts between bars.
struct Case { std::string what, tensors, text, wanted; };
// clang-format on
Files files_of(const Case& one) {
  Files files{tensors_of(one.tensors), json::object()};
  const json all = one.text.empty() ? json::object() : json::parse(one.text);
  const bool has_files =
      all.contains("config") || all.contains("producer") || all.contains("metadata");
  if (!has_files && !all.empty()) files.config["quantization_config"] = all;
  if (!has_files) return files;
  files.config = all.value("config", json::object());
  files.producer = all.value("producer", json());
  files.metadata = all.value("metadata", json());
  return files;
}
const std::string bf16 = "w.weight BF16 [32,32]",
                  fp8 = "w.weight F8_E4M3 [32,32]; w.weight_scale F32 [32,1]",
                  nvfp4 =
                      "w.weight U8 [4,16]; w.weight_scale F8_E4M3 [4,2]; w.weight_scale_2 F32 [] ";

TEST_CASE("What is not understood is refused") {
  const Workplace here;
  // clang-format off
  const Case cases[] = {
      // Dtypes and names, with and without a configuration.
      {"int8, compressed-tensors", "w.weight I8 [32,32]; w.weight_scale F32 [32,1]", R"({"quant_method": "compressed-tensors", "format": "int-quantized"})", "w.weight: I8|int-quantized"},
      {"int8 with scales", "w.weight I8 [32,32]; w.weight_scale F32 [32,1]", "", "w.weight: I8|int8"},
      {"int8", "w.weight I8 [32,32]", "", "w.weight: I8|int8"},
      {"int8 of an unknown name", "w I8 [32,32]", "", "w: I8|int8"},
      {"int8, one dimension", "w.weight I8 [4]", "", "w.weight: I8|int8"},
      {"U8", "w.weight U8 [4,16]", "", "w.weight: U8|integers"},
      {"I16", "w.weight I16 [4,4]", "", "w.weight: I16|integers"},
      {"U32", "w.weight U32 [4,4]", "", "w.weight: U32|affine, MLX"},
      {"closest of three layouts", "w.weight U32 [4,8]; w.scales U8 [4,3]", "", "w.scales: U8|[[4,4]] for nvfp4, MLX"},
      {"affine", "w.weight U32 [32,8]; w.scales BF16 [32,1]; w.biases BF16 [32,1]", R"({"bits": 4, "group_size": 64})", "w.weight: U32|affine"},
      {"GPTQ", "w.qweight I32 [4,4]; w.qzeros I32 [4,1]; w.scales F16 [4,4]", "", "w.q|GPTQ"},
      {"GPTQ by configuration", "w.qweight I32 [4,4]", R"({"quant_method": "gptq", "bits": 4})", "w.qweight: I32|gptq"},
      {"packed", "w.weight_packed I32 [4,4]; w.weight_scale BF16 [4,2]; w.weight_shape I64 [2]", "", "w.weight_packed: I32|pack-quantized"},
      {"packed by configuration", "w.weight_packed I32 [4,4]; w.weight_scale BF16 [4,2]", R"({"quant_method": "compressed-tensors", "format": "pack-quantized"})", "w.weight_packed: I32|pack-quantized"},
      {"nf4", "w.weight U8 [64,1]; w.weight.absmax F32 [2]; w.weight.quant_map F32 [16]; w.weight.quant_state.bitsandbytes__nf4 U8 [80]", R"({"quant_method": "bitsandbytes"})", "w.weight: U8|bitsandbytes"},
      {"nf4 alone", "w.weight.quant_state.bitsandbytes__nf4 U8 [80]; w.weight U8 [64,1]", "", "w.weight: U8"},
      {"HQQ", "w.W_q U8 [4,4]", "", "w.W_q: U8|HQQ"},
      {"quanto", "w.weight._data I8 [4,4]", "", "w.weight._data: I8|quanto"},
      {"torchao's integers", "w._weight_qdata I8 [4,4]", "", "w._weight_qdata: I8|torchao"},
      {"fnuz", "w.weight F8_E4M3FNUZ [32,32]; w.weight_scale F32 []", R"({"quant_method": "quark"})", "w.weight: F8_E4M3FNUZ|another bias"},
      {"fnuz alone", "w.weight F8_E5M2FNUZ [32,32]", "", "w.weight: F8_E5M2FNUZ|another bias"},
      {"F4", "w.weight F4 [4,4]", "", "w.weight: F4|not read"},
      {"F6", "w.weight F6_E2M3 [4,4]", "", "w.weight: F6_E2M3|not read"},
      {"F64", "w.weight F64 [4,4]", "", "w.weight: F64|not read"},
      {"scales alone", "w.weight F8_E8M0 [4,4]", "", "w.weight: F8_E8M0|not read"},
      // Where configurations are.
      {"quantization", bf16, R"({"config": {"quantization": {"bits": 4, "mode": "affine"}}})", "w.weight: BF16|affine"},
      {"compression_config", bf16, R"({"config": {"compression_config": {"quant_method": "x1"}}})", "w.weight: BF16|x1"},
      {"text_config", bf16, R"({"config": {"text_config": {"quantization_config": {"quant_method": "x1"}}}})", "w.weight: BF16|x1|text_config.quantization_config"},
      {"vision_config", bf16, R"({"config": {"vision_config": {"a": [{"quantization_config": {"quant_method": "x1"}}]}}})", "w.weight: BF16|x1"},
      {"hf_quant_config.json", bf16, R"({"producer": {"quantization": {"quant_algo": "W4A16_AWQ"}}})", "w.weight: BF16|W4A16_AWQ|hf_quant_config.json"},
      {"a header", bf16, R"({"metadata": {"_quantization_metadata": "{\"layers\": {\"w\": {\"format\": \"int4_x\"}}}"}})", "w.weight: BF16|int4_x"},
      {"comfy_quant", bf16 + R"(; w.comfy_quant U8 [19] {"format":"int4_x"})", "", "w.comfy_quant: U8|int4_x"},
      {"the second of two", fp8, R"({"config": {"quantization_config": {"quant_method": "fp8"}, "text_config": {"quantization_config": {"quant_method": "x1"}}}})", "w.weight: F8_E4M3|x1"},
      // What they say.
      {"no method", fp8, R"({"some": "thing"})", "w.weight: F8_E4M3|no method"},
      {"a method", fp8, R"({"quant_method": "x1"})", "w.weight: F8_E4M3|x1"},
      {"a format", fp8, R"({"quant_method": "compressed-tensors", "format": "x-quantized"})", "w.weight: F8_E4M3|x-quantized"},
      {"a format of a group", fp8, R"({"quant_method": "compressed-tensors", "format": "mixed-precision", "config_groups": {"a": {"format": "float-quantized"}, "b": {"format": "x-quantized"}}})", "w.weight: F8_E4M3|x-quantized"},
      {"an algorithm", fp8, R"({"quant_method": "modelopt", "quant_algo": "W4A8_AWQ"})", "w.weight: F8_E4M3|W4A8_AWQ"},
      {"torchao", fp8, R"({"quant_method": "torchao", "quant_type": {"default": {"_type": "Int4WeightOnlyConfig"}}})", "w.weight: F8_E4M3|Int4WeightOnlyConfig"},
      {"quark", fp8, R"({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "int4"}}})", "w.weight: F8_E4M3|int4"},
      {"a transform", fp8, R"({"quant_method": "compressed-tensors", "format": "float-quantized", "transform_config": {"config_groups": {"r": {"apply": [{"location": "input"}]}}}})", "w.weight: F8_E4M3|transform_config"},
      {"its matrix", fp8 + "; w.r_input F64 [4,4]", R"({"quant_method": "compressed-tensors", "format": "float-quantized"})", "w.r_input: F64|not read"},
      {"nothing is quantized", bf16, R"({"quant_method": "fp8"})", "fp8|no tensor"},
      {"another format", fp8, R"({"quant_method": "mxfp4"})", "mxfp4|no tensor"},
      {"one more format", fp8 + "; v.weight U8 [4,16]; v.weight_scale U8 [4,1]", R"({"quant_method": "fbgemm_fp8"})", "v.weight: U8|mxfp4"},
      // Parts of weights.
      {"pre_quant_scale", nvfp4 + "1; w.pre_quant_scale BF16 [32]", R"({"quant_method": "modelopt", "quant_algo": "NVFP4_AWQ"})", "w.pre_quant_scale: BF16|part of a quantized weight"},
      {"zero points", fp8 + "; w.weight_zero_point F32 [32,1]", "", "w.weight_zero_point: F32|part of a quantized weight"},
      {"zero points of integers", fp8 + "; w.weight_zero_point I8 [32,1]", "", "w.weight_zero_point: I8"},
      {"absmax", bf16 + "; w.weight.absmax F32 [32]", "", "w.weight.absmax: F32|part of a quantized weight"},
      {"svdquant", bf16 + "; w.svdquant_lora BF16 [4,4]", "", "w.svdquant_lora: BF16|part of a quantized weight"},
      {"scales of what is plain", bf16 + "; w.weight_scale F32 [32,1]", "", "w.weight_scale: F32|part of a quantized weight"},
      {"an order of columns", "w.weight F8_E4M3 [32,64]; w.weight_scale F32 [32,1]; w.weight_g_idx I32 [64]", "", "w.weight_g_idx: I32|part of a quantized weight"},
      {"a bias in integers", fp8 + "; w.bias I8 [32]; w.bias_scale F32 []", "", "w.bias_scale: F32|part of a quantized weight"},
      {"a matrix of biases", bf16 + "; w.bias I8 [32,32]", "", "w.bias: I8"},
      {"a rotation", fp8 + "; w.input_rotation F32 [32,32]", "", "w.input_rotation: F32|part of a quantized weight"},
      {"a rotation of ComfyUI", R"(w.weight F8_E4M3 [32,32]; w.weight_scale F32 []; w.comfy_quant U8 [39] {"format":"float8_e4m3","convrot":true})", "", "true, ComfyUI"},
      {"a weight named as scales", fp8 + "; m.input_scale_proj.weight I8 [32,32]", "", "m.input_scale_proj.weight: I8"},
      {"a scale below", "w.weight F8_E4M3 [32,32]; w.weight.scale F32 [1]", "", "w.weight: F8_E4M3|no scales"},
      {"a scale beside", "w.weight F8_E4M3 [32,32]; w.scale.weight F32 [1]", "", "w.weight: F8_E4M3|no scales"},
      {"scales of quanto", "w.weight._data F8_E4M3 [32,32]; w.weight._scale F32 [32,1]", "", "w.weight._data: F8_E4M3|no scales"},
      // Scales.
      {"Inf", nvfp4 + "inf", "", "w.weight_scale_2: F32|inf"},
      {"NaN", nvfp4 + "nan", "", "w.weight_scale_2: F32|nan"},
      {"negative", nvfp4 + "-1", "", "w.weight_scale_2: F32|-1"},
      {"divided by 0", "w_packed U8 [1,8]; w_scale F8_E4M3 [1,1]; w_global_scale F32 [1] 0", "", "w_global_scale: F32|is 0"},
      {"no second scale", "w.weight U8 [4,16]; w.weight_scale F8_E4M3 [4,2]", "", "w.weight: U8|w.weight_scale_2"},
      {"fp8 with Inf", "w.weight F8_E4M3 [32,32]; w.weight_scale F32 [] inf", "", "w.weight_scale: F32|inf"},
      {"fp8 with NaN", "w.weight F8_E4M3 [32,32]; w.weight_scale F32 [1,1] nan", "", "w.weight_scale: F32|nan"},
      {"fp8 with NaN of BF16", "w.weight F8_E4M3 [32,32]; w.weight_scale BF16 [1] = ffff", "", "w.weight_scale: BF16|nan"},
      {"lost scales", fp8 + "; v.weight F8_E4M3 [4,4]", "", "v.weight: F8_E4M3|no scales"},
      {"lost scales beside mxfp4", "w.weight_packed U8 [4,16]; w.weight_scale U8 [4,1]; v.weight F8_E4M3 [4,4]", "", "v.weight: F8_E4M3|no scales"},
      {"lost scales of a configuration", "w.weight F8_E4M3 [32,32]", R"({"quant_method": "fp8"})", "w.weight: F8_E4M3|no scales"},
      {"lost scales beside a part", "w.weight F8_E4M3 [32,32]; v.pre_quant_scale F32 [4]", "", "v.pre_quant_scale: F32"},
      {"scales in I32", "w.weight F8_E4M3 [32,32]; w.weight_scale I32 [1]", "", "w.weight_scale: I32"},
      {"blocks' scales in I32", "w.weight F8_E4M3 [32,32]; w.weight_scale_inv I32 [1,1]", "", "w.weight_scale_inv: I32"},
      {"too few scales", "w.weight F8_E4M3 [3,2]; w.weight_scale F32 [2]", "", "w.weight_scale: F32|[2]|[3,2]"},
      {"too many scales", "w.weight F8_E4M3 [2,2]; w.weight_scale_inv F32 [1,2]", "", "w.weight_scale_inv: F32|[1,2]"},
      {"blocks without scales", "w_blocks U8 [1,1,1,16]", "", "w_blocks: U8|w_scales"},
  };
  // clang-format on
  for (const Case& one : cases) {
    INFO(one.what);
    files_of(one).write("in");
    ends(4, split(one.wanted), {"in", "out", "--to", "bf16"});
    ends(4, split(one.wanted), {"in", "out", "--to", "fp8-tensor", "--dry-run"});
    ends(4, split(one.wanted), {"in", "out", "--to", "mxfp4", "--quantize-all"});
    fs::remove_all("in");
  }
}

TEST_CASE("What is no quantized weight is not refused") {
  const Workplace here;
  // clang-format off
  const Case cases[] = {
      {"masks and ids", "mask BOOL [4,4]; ids I64 [4,4]; n.weight_shape U64 [2]", "", "mask BOOL|ids I64|n.weight_shape U64"},
      {"GPT-2", "h.0.attn.bias U8 [1,1,4,4]; h.0.attn.masked_bias F32 []", "", "h.0.attn.bias U8|h.0.attn.masked_bias F32"},
      {"a table of experts", "layers.0.ffn.gate.tid2eid I32 [4,4]", "", "layers.0.ffn.gate.tid2eid I32"},
      {"Swin", "attn.relative_position_index I32 [4,4]; a.position_ids I32 [1,4]", "", "attn.relative_position_index I32|a.position_ids I32"},
      {"counts", "bn.num_batches I32 []; inv_freq F64 [4]", "", "bn.num_batches I32|inv_freq F64"},
      {"a cast", "w.weight F8_E4M3 [32,32]; v.weight F8_E5M2 [4,4]", "", "w.weight BF16|v.weight BF16"},
      {"null", bf16, R"({"config": {"quantization_config": null, "model_type": null, "text_config": {"quantization_config": {}}}})", "w.weight BF16"},
      {"MLX", "w.weight U32 [32,4]; w.scales U8 [32,1]", R"({"bits": 4, "group_size": 32, "mode": "mxfp4"})", "w.weight BF16"},
      {"ModelOpt's blocks", "w.weight F8_E4M3 [256,256]; w.weight_scale F32 [2,1,2,1]", R"({"quant_method": "modelopt", "quant_algo": "fp8_pb_wo"})", "w.weight BF16"},
      {"torchao", "w._weight_qdata F8_E4M3 [64,64]; w._weight_scale F32 [64,1]", R"({"quant_method": "torchao", "quant_type": {"default": {"_type": "Float8WeightOnlyConfig", "_data": {"granularity": {"_type": "PerRow"}}}}})", "w.weight BF16"},
      {"DeepSeek-V4", "a.weight F8_E4M3 [256,256]; a.scale F8_E8M0 [2,2]; b.weight I8 [256,128]; b.scale F8_E8M0 [256,8]", R"({"quant_method": "fp8", "weight_block_size": [128, 128]})", "a.weight BF16|b.weight BF16"},
      {"ComfyUI", R"(w.weight F8_E4M3 [32,32]; w.weight_scale F32 []; w.comfy_quant U8 [24] {"format":"float8_e4m3"})", "", "w.weight BF16"},
      {"a gate with a scale", bf16 + "; mlp.gate.weight BF16 [4,32]; mlp.gate.global_scale BF16 [1]; x.out_scales F32 [4]", "", "mlp.gate.global_scale BF16|x.out_scales F32"},
      {"a cast with scales of its own", "m.qkv.weight F8_E4M3 [32,32]; m.norm.scale F32 [32]; logit_scale F32 []", "", "m.qkv.weight BF16|m.norm.scale F32|logit_scale F32"},
      {"other quantizations", bf16, R"({"config": {"audio_config": {"quantization": "rvq", "quantization_levels": 8}, "codec": {"quantization": {"n_q": 8}}}})", "w.weight BF16"},
      {"only a cache", bf16, R"({"quant_method": "modelopt", "quant_algo": null, "kv_cache_quant_algo": "FP8"})", "w.weight BF16"},
      {"learned scales", fp8 + "; attn.q_scale BF16 [64]; attn.k_scale F32 []", "", "attn.q_scale BF16|w.weight BF16"},
      {"no transform", fp8, R"({"quant_method": "compressed-tensors", "format": "float-quantized", "transform_config": {}})", "w.weight BF16"},
  };
  // clang-format on
  for (const Case& one : cases) {
    INFO(one.what);
    const Files files = files_of(one);
    files.write("in");
    to("bf16", "in", "out");
    const auto found = fs::exists("out") ? read("out") : std::map<std::string, Tensor>();
    for (const std::string& wanted : split(one.wanted)) {
      const std::string name = wanted.substr(0, wanted.find(' ')),
                        dtype = wanted.substr(name.size() + 1);
      INFO(wanted);
      REQUIRE(found.count(name) == 1);
      CHECK(found.at(name).dtype == dtype);
      for (const Tensor& before : files.tensors)
        if (before.name == name && before.dtype == dtype) CHECK(differs(found, before) == "");
    }
    fs::remove_all("in");
    fs::remove_all("out");
  }
  // A file has the configuration of its directory.
  Files{tensors_of(fp8), json{{"quantization_config", {{"quant_method", "other"}}}}}.write("in");
  ends(4, {"w.weight: F8_E4M3", "other"}, {"in/model.safetensors", "out", "--to", "bf16"});
  Files{tensors_of(bf16 + "; table I32 [4,4]")}.write("table");
  ends(4, {"table: I32"}, {"table", "out", "--to", "bf16"});
  to("fp32", "table", "kept", {"--keep", "table"});
  CHECK(differs(read("kept"), {"table", "I32", {4, 4}}) == "");
}

TEST_CASE("What a source keeps is not quantized") {
  const Workplace here;
  for (const char* key : {"modules_to_not_convert", "ignore", "exclude_modules"}) {
    INFO(key);
    Files files{tensors_of(fp8 + "; a.proj.weight BF16 [32,32]; b.experts BF16 [2,32,32]"),
                config(R"({"quant_method": "fbgemm_fp8"})")};
    files.config["quantization_config"][key] = {"c.absent", "re:.*x", "d.*"};
    files.write("in");
    to("nvfp4", "in", "out");
    CHECK(differs(read("out"), {"a.proj.weight", "BF16", {32, 32}}) == "");
    CHECK(read("out").count("w.weight_packed") == 1);
    const std::set<std::string> ignored = config_of("out")["quantization_config"]["ignore"];
    for (const char* module : {"lm_head", "a.proj", "b", "c.absent", "re:.*x"})
      CHECK(module + std::to_string(ignored.count(module)) == module + std::string("1"));
    CHECK(ignored.count("w") + ignored.count("d.*") == 0);
    to("nvfp4", "in", "all", {"--quantize-all"});
    CHECK(read("all").count("a.proj.weight_packed") == 1);
    CHECK(config_of("all")["quantization_config"]["ignore"] == json{"b", "lm_head"});
  }
  Files files{tensors_of(bf16), json::object()};
  const Texts heads = split(
      "model.embed_tokens|lm_head|head|model.norm|mlp.router|mlp.gate|transformer.wte.x|"
      "transformer.wpe.x|a.shared"
      "|a.relative_attention_bias|word_emb|model.output|output_layer|score|classifier.0");
  for (const std::string& name : heads) files.add({name + ".weight", "BF16", {32, 32}});
  files.add({"attention.query_key_value.weight", "BF16", {32, 32}});  // no query of an embedding
  files.write("heads");
  for (const char* format : {"fp8-128x128", "fp8-tensor", "mxfp8", "mxfp4", "nvfp4"}) {
    to(format, "heads", format);
    const auto found = read(format);
    const json quantization = config_of(format)["quantization_config"];
    const std::set<std::string> ignored =
        quantization[quantization.contains("ignore") ? "ignore" : "modules_to_not_convert"];
    CHECK(differs(found, {"attention.query_key_value.weight", "BF16", {32, 32}}) != "");
    for (const std::string& name : heads) {
      INFO(format << ": " << name);
      CHECK(differs(found, {name + ".weight", "BF16", {32, 32}}) == "");
      CHECK(ignored.count(name) == 1);
    }
    CHECK(ignored.count("w") == 0);
    CHECK(found.size() > heads.size() + 1);  // w, with scales
  }
  // Heads whose weight is the embedding's have no tensor.
  Files{tensors_of(bf16 + "; lm_head.layer_norm.weight BF16 [2]; decoder.bias BF16 [2]; "
                          "decoder.weight BF16 [32,32]"),
        json::object()}
      .write("tied");
  to("mxfp8", "tied", "untied");
  CHECK(config_of("untied")["quantization_config"]["ignore"] == json{"lm_head", "lm_head.decoder"});
}

TEST_CASE("Configurations and parts of what was quantized") {
  const Workplace here;
  const auto text =
      R"({"torch_dtype": "float32", "a": {"hidden_size": 1}, "quantization": {"quant_method": "fp8"},
    "text_config": {"dtype": "float16", "expert_dtype": "fp4", "quantization_config": {"quant_method": "fp8"}},
    "vision_config": [{"torch_dtype": "float32", "compression_config": {"quant_method": "fp8"}}]})";
  Files files{tensors_of(fp8), json::parse(text), {{"quantization", {{"quant_algo", "FP8"}}}}};
  for (const char* part :
       {"w.k_scale", "w.v_scale", "w.q_scale", "w.input_scale", "w.output_scale"})
    files.add({part, "F32", {}});
  files.add({"n.bias", "F32", {4}});
  files.metadata = {{"format", "pt"},
                    {"w.weight", R"({"_type": "Float8Tensor"})"},
                    {"tensor_names", "[]"},
                    {"_quantization_metadata", R"({"layers": {"w": {"format": "float8_e4m3"}}})"}};
  files.write("in");
  for (const auto& [format, dtype] : {std::pair{"bf16", "bfloat16"}, {"fp32", "float32"}}) {
    to(format, "in", format);
    CHECK(config_of(format) == json::parse(R"({"torch_dtype": ")" + std::string(dtype) +
                                           R"(", "text_config": {"dtype": ")" + dtype +
                                           R"("}, "vision_config": [{"torch_dtype": ")" + dtype +
                                           R"("}], "a": {"hidden_size": 1}})"));
    json metadata;
    CHECK(read(format, &metadata).size() == 2);
    CHECK(metadata.size() == 2);
    CHECK(metadata["format"] == "pt");
    CHECK_FALSE(fs::exists(fs::path(format) / "hf_quant_config.json"));
  }
  to("fp8-tensor", "in", "fp8-tensor");
  const json quantized = config_of("fp8-tensor");
  CHECK(quantized["quantization_config"]["quant_method"] == "compressed-tensors");
  CHECK(quantized["text_config"] == json{{"dtype", "float16"}});
  CHECK(quantized["torch_dtype"] == "float32");
  files.config["torch_dtype"] = "float8_e4m3fn";
  files.write("in");
  to("mxfp8", "in", "mxfp8");
  CHECK(config_of("mxfp8")["torch_dtype"] == "bfloat16");
  // Nothing is converted: all is as it was.
  Files same{
      {{"w.weight", "F8_E4M3", {32, 32}}, {"w.weight_scale", "F32", {1}}, {"w.k_scale", "F32", {}}},
      json::parse(text),
      {{"quantization", {{"quant_algo", "FP8"}}}},
      files.metadata};
  same.write("same");
  put("same/tokenizer.json", "[1, 2]");
  to("fp8-tensor", "same", "as_was");
  expect("as_was", same.tensors);
  CHECK(config_of("as_was") == same.config);
  CHECK(json::parse(contents("as_was/hf_quant_config.json")) == same.producer);
  CHECK(contents("as_was/tokenizer.json") == "[1, 2]");
  json metadata;
  (void)read("as_was", &metadata);
  metadata.erase("convert_checkpoint");
  CHECK(metadata == same.metadata);
}

// ---- errors ----

TEST_CASE("Wrong calls") {
  const Workplace here;
  Files{tensors_of(bf16)}.write("in");
  Files{tensors_of(bf16), json::object()}.write("directory");
  // clang-format off
  const Texts wrong[] = {{"in", "out"}, {"in", "--to", "bf16"}, {"in", "out", "--to", "fp4"}, {"in", "out", "--to", "bf16", "--keep"},
                         {"in", "out", "--to", "bf16", "--verbose", "yes"}, {"in", "in", "--to", "fp16"},
                         {"directory", "directory", "--to", "fp16"}, {"in", "directory", "--to", "fp16"},
                         {"in", "out", "--to", "bf16", "--keep", "w"}, {"in", "out", "--to", "bf16", "--keep", "w.*", "--keep", "v"}};
  // clang-format on
  for (const Texts& arguments : wrong) ends(2, {}, arguments);
  for (const char* threads : {"4x", "0", "129", "-1", ""})
    ends(2, {}, {"in", "out", "--to", "bf16", "--threads", threads});
  ends(5, {"missing", "No such file"}, {"missing", "out", "--to", "bf16"});
  ends(5, {"nowhere/out"}, {"in", "nowhere/out", "--to", "bf16"});
  CHECK(run({"--help"}).code == 0);
}

/// Arrays in arrays.
std::string nested(std::size_t levels) {
  return std::string(levels, '[') + std::string(levels, ']');
}

TEST_CASE("Malformed files") {
  const Workplace here;
  const Bytes exact = hex("0000e0430000803f0000003f000000c0");
  const auto malformed = [](const Bytes& file, const Texts& texts) {
    put("in", file);
    INFO(file.size() << " bytes: " << file.substr(std::min<std::size_t>(8, file.size()), 200));
    Texts all{"in"};
    all.insert(all.end(), texts.begin(), texts.end());
    ends(3, all, {"in", "out", "--to", "bf16"});
    ends(3, all, {"in", "out", "--to", "bf16", "--dry-run"});
  };
  const auto entry = [](const std::string& shape, const std::string& offsets,
                        const std::string& more = "") {
    return R"({"w":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + more +
           "}}";
  };
  const auto two = [](const std::string& offsets) {
    return R"({"v":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"w":{"dtype":"U8","shape":[2],"data_offsets":)" +
           offsets + "}}";
  };
  // clang-format off
  struct Header { std::string header; Bytes data; std::string wanted; };
  const Header headers[] = {
      {R"({"w":)", "", "parse error"},
      {"[1]", "", "object"},
      {"", "", "parse error"},
      {R"({"w":1})", "", "w"},
      {R"({"w":{"dtype":"F32"}})", "", "w|shape"},
      {R"({"w":{"dtype":"FOO","shape":[2,2],"data_offsets":[0,16]}})", exact, "w|FOO"},
      {R"({"w":{"dtype":7,"shape":[2,2],"data_offsets":[0,16]}})", exact, R"(w|"dtype":7)"},
      {R"({"__metadata__":[1]})", "", "__metadata__"},
      {R"({"__metadata__":{"a":1}})", "", "__metadata__"},
      {R"({"__metadata__":{"_quantization_metadata":"{"}})", "", "parse error"},
      {R"({"__metadata__":{"_quantization_metadata":"[]"}})", "", ""},
      {R"({"x.comfy_quant":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "{", "parse error"},
      {entry("[-2,2]", "[0,16]"), exact, "w|-2 is no size"},
      {entry("[2.0,2]", "[0,16]"), exact, "w|2.0 is no size"},
      {entry("[2,3]", "[0,16]"), exact, "w|[2,3]|offset 65"},
      {entry("[4294967296,4294967296]", "[0,0]"), "", "w|4294967296"},
      {entry("[2,2]", "[16,0]"), exact, "w"},
      {entry("[2,3]", "[0,24]"), exact, "w|offset 65"},
      {entry("[2,2]", "[16]"), exact, "w|[16]"},
      {entry("[2,2]", "[1,17]"), "0" + exact, "w|offset 65"},
      {entry("[2,2]", "[0,16]"), exact + "0", "w|offset 81"},
      {two("[0,2]"), "ab", "w|offset"},
      {two("[1,3]"), "abc", "w|offset"},
      {two("[2,4]"), "ab", "w|offset"},
      {entry("[2,2]", "[0,16]", ",\"x\":" + nested(63)), exact, "64 levels"},
      {R"({"__metadata__":{"_quantization_metadata":"{\"x\":)" + nested(64) + "}\"}}", "", "64 levels"}};
  // clang-format on
  for (const Header& one : headers) malformed(with_header(one.header, one.data), split(one.wanted));
  malformed(hex("ffffffffffffff7f"), {"offset 8"});
  put("deep", with_header(entry("[2,2]", "[0,16]", ",\"x\":" + nested(62)), exact));
  to("bf16", "deep", "deep16");
  put("deep",
      with_header(R"({"__metadata__":{"_quantization_metadata":"{\"x\":)" + nested(63) + "}\"}}",
                  ""));
  ends(4, {"_quantization_metadata", "no tensor"}, {"deep", "deep0", "--to", "bf16"});
  const Bytes whole = with_header(entry("[2,2]", "[0,16]"), exact);
  for (std::size_t size = 0; size < whole.size(); size += 7) malformed(whole.substr(0, size), {});
  Files{tensors_of(bf16 + "; x.weight BF16 [2]")}.write("two");
  // It ends where a tensor does
  malformed(contents("two").substr(0, contents("two").size() - 4), {"x.weight"});
}

TEST_CASE("Malformed directories") {
  const Workplace here;
  const std::string index = "model.safetensors.index.json",
                    third = "model-00003-of-00003.safetensors";
  const auto broken = [&](const std::string& file, const std::string& old, const std::string& by,
                          int code, const Texts& texts) {
    fs::remove_all("in");
    fs::copy(golden / "deepseek", "in");
    std::string text = contents("in/" + file);
    INFO(file << ": " << old << " becomes " << by);
    REQUIRE(has(text, old));
    put("in/" + file, old.empty() ? by : text.replace(text.find(old), old.size(), by));
    ends(code, texts, {"in", "out", "--to", "bf16"});
  };
  const json map = json::parse(contents(golden / "deepseek" / index))["weight_map"];
  broken(index, "\"lm_head.weight\": \"" + map["lm_head.weight"].get<std::string>(),
         "\"lm_head.weight\": \"other.safetensors", 3, {"other.safetensors"});
  broken(index, "\"lm_head.weight\"", "\"head.weight\"", 3, {"head.weight", "is not in"});
  broken(index, third, "../" + third, 3, {"../model-00003"});
  broken(index, "}", "", 3, {index, "parse error"});
  for (const char* text : {R"({"weight_map": {}})", R"({"weight_map": []})", R"({"weight_map": 1})",
                           R"({"weight_map": {"w": 1}})", "{}", "[]", ""})
    broken(index, "", text, 3, {index});
  broken(index, "", "{\"x\":" + nested(64) + "}", 3, {"64 levels"});
  broken("config.json", "", "{\"x\":" + nested(64) + "}", 3, {"config.json", "64 levels"});
  broken("config.json", "}", "", 3, {"config.json", "parse error"});
  for (const char* size :
       {"[128, 0]", "[128]", "[1, 2, 3]", "128", "[-1, 128]", "[1.5, 128]", "\"128\""})
    broken("config.json", "",
           R"({"quantization_config": {"quant_method": "fp8", "weight_block_size": )" +
               std::string(size) + "}}",
           3, {"config.json", "weight_block_size is"});
  broken("config.json", "", R"({"quantization_config": "fp8"})", 3,
         {"config.json", "quantization_config"});
  fs::remove_all("in");
  fs::copy(golden / "deepseek", "in");
  put("in/config.json",
      R"({"quantization_config": {"quant_method": "fp8"}, "x": )" + nested(63) + "}");
  to("bf16", "in", "deep");
  const std::string second = "in/model-00002-of-00003.safetensors";
  fs::resize_file(second, fs::file_size(second) - 100);
  ends(3, {second, "model.layers.3.mlp.experts.0.gate_proj.weight", "offset"},
       {"in", "out", "--to", "bf16"});
  // A scale that the index lacks, and blocks of another size.
  const std::string lost = "model.layers.0.self_attn.q_a_proj.weight_scale_inv";
  broken(index, "\"" + lost + "\": \"" + map[lost].get<std::string>() + "\",", "", 4,
         {"model-00001", "q_a_proj.weight_scale_inv"});
  broken("config.json", "128,\n   128", "64, 128", 4, {"weight_scale_inv", "must be"});
}

TEST_CASE("What cannot be read or written") {
  const Workplace here;
  Files{{{"w.weight", "F32", {64, 64}}}}.write("in");
  const Setup full = [] {
    const rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  };
  ends(5, {"out.part", "File too large"}, {"in", "out", "--to", "bf16"}, full);
  put("old", "old");
  CHECK(run({"in", "old", "--to", "bf16"}, full).code == 5);
  CHECK(contents("old") == "old");
  CHECK_FALSE(fs::exists("old.part"));
  for (const char* more : {"--dry-run", "--quantize-all"})
    ends(5, {"standard output"}, {"in", "out", "--to", "bf16", more},
         [] { ::dup2(::open("/dev/full", O_WRONLY), 1); });
  // Another process writes the same file.
  const int other = ::open("busy.part", O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  CHECK(::flock(other, LOCK_EX) == 0);
  CHECK(has(run({"in", "busy", "--to", "bf16"}).err, "busy.part: another process writes"));
  CHECK(run({"in", "busy", "--to", "bf16"}).code == 5);
  CHECK(fs::exists("busy.part"));
  ::close(other);
  to("bf16", "in", "busy");
  CHECK_FALSE(fs::exists("busy.part"));
  Files{tensors_of(bf16), json::object()}.write("model");
  to("bf16", "model", "both");
  const int directory = ::open("both", O_RDONLY | O_CLOEXEC);
  CHECK(::flock(directory, LOCK_EX) == 0);
  CHECK(has(run({"model", "both", "--to", "fp16"}).err, "both: another process writes"));
  ::close(directory);
  // OUT has other weights.
  put("both/adapter.safetensors", "old");
  CHECK(has(run({"model", "both", "--to", "fp16"}).err, "adapter.safetensors"));
  fs::remove("both/adapter.safetensors");
  CHECK(read("both").at("w.weight").dtype == "BF16");
  fs::remove_all("model");
  // Files beside the weights are looked at first.
  Files{tensors_of(bf16), json::object()}.write("model");
  fs::create_directory("model/tokenizer.json");
  ends(5, {"tokenizer.json"}, {"model", "out", "--to", "bf16"});
  fs::remove("model/tokenizer.json");
  fs::create_symlink("nowhere", "model/vocab.txt");
  ends(5, {"vocab.txt"}, {"model", "out", "--to", "bf16"});
  fs::remove("model/vocab.txt");
  fs::rename("model", "model\xff");
  to("fp16", "model\xff", "out\xfe");
  CHECK(read("out\xfe").at("w.weight").dtype == "F16");
  Files{{{"w.weight", "I8", {4, 4}}}}.write("\xff");
  ends(4, {"w.weight: I8"}, {"\xff", "out", "--to", "bf16"});
  put("\xff", "");
  ends(3, {}, {"\xff", "out", "--to", "bf16"});
}

TEST_CASE("Called again, it makes what is missing, damaged or of another input") {
  const Workplace here;
  const auto again = [](int files, const std::string& format, const std::string& in,
                        const Texts& more = {}) {
    const std::string out = to(format, in, "of_" + in, more).out;
    INFO(out);
    CHECK(has(out, "\n" + std::to_string(files) + " files were there already."));
  };
  fs::copy(golden / "deepseek", "in");
  const std::string second = "of_in/model-00002-of-00003.safetensors";
  const auto touch = [](const fs::path& file) {
    fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(1));
  };
  for (const auto& [files, format] :
       {std::pair{0, "mxfp8"}, {3, "mxfp8"}, {0, "fp8-tensor"}, {3, "fp8-tensor"}})
    again(files, format, "in");
  const Bytes before = contents(second);
  for (const std::size_t at : {std::size_t{100}, before.size() - 900, before.size() - 1}) {
    Bytes damaged = before;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    put(second, damaged);
    again(2, "fp8-tensor", "in");
    CHECK(contents(second) == before);
  }
  put(second, before + "x");
  again(2, "fp8-tensor", "in");
  fs::remove("of_in/model-00001-of-00003.safetensors");
  again(2, "fp8-tensor", "in");
  touch("in/model-00003-of-00003.safetensors");  // has scales of others
  again(1, "fp8-tensor", "in");
  again(3, "fp8-tensor", "in");
  again(0, "fp8-tensor", "in", {"--keep", "*gate_proj*"});
  CHECK(read("of_in").at("model.layers.3.mlp.experts.0.gate_proj.weight").dtype == "BF16");
  again(3, "fp8-tensor", "in", {"--keep", "*gate_proj*"});
  again(0, "nvfp4", "in");
  again(3, "nvfp4", "in");
  touch("in/model-00003-of-00003.safetensors");
  again(0, "nvfp4", "in");  // all files may share scales
  // What is read changes, but neither sizes nor times of files.
  const auto write = [](const Files& files, const fs::path& path, const std::string& file) {
    const auto time = fs::exists(path / file) ? fs::last_write_time(path / file)
                                              : fs::file_time_type::clock::now();
    files.write(path, file);
    fs::last_write_time(path / file, time);
  };
  Files{tensors_of("w.weight U8 [4,16]; w.weight_scale F8_E4M3 [4,2]"), json::object()}.write(
      "level", "1.safetensors");
  for (const float level : {1.0F, 2.0F}) {  // in another file
    write({tensors_of("w.weight_scale_2 F32 [] " + std::to_string(level)), json::object()}, "level",
          "2.safetensors");
    write_index("level", {{"w.weight", "1.safetensors"},
                          {"w.weight_scale", "1.safetensors"},
                          {"w.weight_scale_2", "2.safetensors"}});
    again(0, "fp32", "level");
    CHECK(decode(read("of_level").at("w.weight").bytes, "F32")[1] == 1.5F * level);
  }
  Files blocks{
      tensors_of("w.weight F8_E4M3 [256,256]; w.weight_scale_inv F32 [2,2] = 0000803f 00000040*3"),
      json::object()};
  for (const std::size_t size : {128U, 200U}) {
    blocks.config["quantization_config"] = {{"quant_method", "fp8"},
                                            {"weight_block_size", {size, size}}};
    write(blocks, "blocks", "model.safetensors");
    again(0, "fp32", "blocks");
    CHECK(decode(read("of_blocks").at("w.weight").bytes, "F32")[150] ==
          (size == 128 ? 2.0F : 1.0F));
  }
}

TEST_CASE("Interrupted, it leaves only finished files; it takes little memory") {
  const Workplace here;
  Files{tensors_of("a.weight BF16 [1,32]"), json::object()}.write("large", "model-1.safetensors");
  const std::size_t bytes = 49152 * 8192 * 2;
  const Bytes header =
      with_header(R"({"w.weight":{"dtype":"BF16","shape":[49152,8192],"data_offsets":[0,)" +
                      std::to_string(bytes) + "]}}",
                  "");
  put("large/model-2.safetensors", header);
  fs::resize_file("large/model-2.safetensors", header.size() + bytes);
  write_index("large", {{"a.weight", "model-1.safetensors"}, {"w.weight", "model-2.safetensors"}});
  const pid_t child = start({"large", "out", "--to", "mxfp8", "--threads", "2"});
  struct ::stat part {};
  for (int i = 0; i < 60000 && part.st_blocks < 8192; ++i) {  // 4 MiB
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    (void)::stat("out/model-2.safetensors.part", &part);
  }
  const std::string status = contents("/proc/" + std::to_string(child) + "/status");
  ::kill(child, SIGINT);
  CHECK(finish(child).code == 130);
  CHECK(std::distance(fs::directory_iterator("out"), {}) == 1);
  CHECK(fs::exists("out/model-1.safetensors"));
  REQUIRE(has(status, "RssAnon:"));
  CHECK(std::stol(status.substr(status.find("RssAnon:") + 8)) < 65536);
}

}  // namespace
