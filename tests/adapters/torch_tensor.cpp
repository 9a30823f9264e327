#include "support/torch.hpp"

#include <headroom/adapters/torch.hpp>
#include <headroom/headroom.hpp>

#include <string>
#include <tuple>
#include <vector>

#include "gpu/torch_elsewhere.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::ConstantLossScale;
using namespace support;
using torch::Tensor;

namespace {

bool is_float(const Tensor& tensor) { return tensor.scalar_type() == torch::kFloat; }

}  // namespace

TEST_CASE("the verbs work on tensors of any dtype") {
  torch::manual_seed(1);
  for (const auto dtype : support::dtypes) {
    const std::vector<Tensor> tensors = {some({3, 5}, dtype), some({70000}, dtype), some({}, dtype),
                                         some({0}, dtype)};
    CHECK(headroom::leaf_count(tensors) == 4);
    CHECK(headroom::element_count(tensors) == 70016);
    CHECK(headroom::all_finite(tensors));
    const auto norm = headroom::measure(tensors);
    double squares = 0.0, largest = 0.0;
    for (const Tensor& tensor : tensors) {
      squares += tensor.to(torch::kDouble).square().sum().item<double>();
      if (tensor.numel() != 0)
        largest = std::max(largest, tensor.abs().max().to(torch::kDouble).item<double>());
    }
    CHECK(norm.norm == Catch::Approx(std::sqrt(squares)));
    CHECK(norm.max_abs == largest);

    std::vector<Tensor> changed;
    for (const Tensor& tensor : tensors) changed.push_back(tensor.clone());
    CHECK(
        ConstantLossScale(4.0F).unscale_in_place<headroom::allow_fp16_gradients>(changed).max_abs ==
        largest / 4);
    for (std::size_t i = 0; i < tensors.size(); ++i) CHECK(same_bits(changed[i], tensors[i] / 4));
    changed[1][69999] = infinity;
    CHECK_FALSE(headroom::all_finite(changed));
    CHECK(headroom::find_nonfinite(changed)->path == "[1]");
    CHECK(headroom::find_nonfinite(changed)->index == 69999);
  }
}

TEST_CASE("new trees have tensors of the dtype asked for") {
  torch::manual_seed(2);
  for (const auto dtype : support::dtypes) {
    const std::vector<Tensor> source = {some({4, 3}, dtype), Tensor(), torch::arange(3)};
    const auto halves = headroom::cast<headroom::half>(source);
    CHECK(same_bits(halves[0], source[0].to(torch::kHalf)));
    CHECK_FALSE(halves[1].defined());
    CHECK(halves[2].equal(source[2]));
    CHECK(same_bits(headroom::cast<headroom::bfloat16>(source)[0], source[0].to(torch::kBFloat16)));
    const auto [grads, report] = ConstantLossScale(8.0F).unscale(source);
    CHECK(same_bits(grads[0], source[0].to(dtype == torch::kDouble ? dtype : torch::kFloat) / 8));
    CHECK(same_bits(ConstantLossScale(8.0F).unscale<headroom::same_dtype>(source).grads[0],
                    source[0] / 8));
    std::vector<Tensor> wide = {torch::empty({4, 3}, torch::kDouble), Tensor(), torch::arange(3)};
    (void)ConstantLossScale(8.0F).unscale_into(source, wide);
    CHECK(same_bits(wide[0], source[0].to(torch::kDouble) / 8));
  }
  const Tensor weight = some({4, 3});
  CHECK(headroom::cast<headroom::half>(weight).scalar_type() == torch::kHalf);
  CHECK_FALSE(headroom::cast<float>(support::parameter({3})).requires_grad());
  std::vector<float> flat(12);
  headroom::cast_into(weight, flat);
  CHECK(same_bits(torch::from_blob(flat.data(), {4, 3}), weight));
}

TEST_CASE("strides are followed, and repeated elements are refused") {
  torch::manual_seed(3);
  const Tensor base = some({6, 7, 8}, torch::kBFloat16);
  for (const Tensor& view :
       {base.transpose(0, 2), base.slice(1, 1, 6, 2), base.permute({2, 0, 1}).select(1, 3)}) {
    CHECK(headroom::measure(view).norm ==
          Catch::Approx(view.to(torch::kDouble).norm().item<double>()));
    const Tensor expected = view / 2;
    CHECK(same_bits(ConstantLossScale(2.0F).unscale<headroom::same_dtype>(view).grads, expected));
    const Tensor untouched = base.clone();
    Tensor copy = base.clone().as_strided(view.sizes(), view.strides(), view.storage_offset());
    (void)ConstantLossScale(2.0F).unscale_in_place(copy);
    CHECK(same_bits(copy, expected));
  }
  Tensor repeated = torch::ones({1}).expand({5});
  CHECK_INVALID("repeats elements", ConstantLossScale(2.0F).unscale_in_place(repeated));
}

TEST_CASE("unsupported tensors are errors that name the path, before anything is written") {
  const auto refused = [](const Tensor& bad) {
    const Tensor good = torch::ones({3});
    const std::vector<Tensor> tree = {good, bad};
    const std::string message =
        message_of([&] { (void)ConstantLossScale(2.0F).unscale_in_place(tree); });
    CHECK(good.equal(torch::ones({3})));
    return message;
  };
  CHECK_THAT(refused(torch::ones({2}, torch::kMeta)), ContainsSubstring("[1] is not on the CPU"));
  CHECK_THAT(refused(torch::ones({2}, torch::kComplexFloat)),
             ContainsSubstring("[1] has a dtype that is not supported"));
  const Tensor indices = torch::tensor({{0, 0}}, torch::kLong);
  CHECK_THAT(refused(torch::sparse_coo_tensor(indices, torch::ones({2}), {3})),
             ContainsSubstring("[1] is sparse and not"));
  CHECK_THAT(refused(torch::imag(torch::ones({2}, torch::kComplexFloat).conj())),
             ContainsSubstring("[1] has its negation"));
  const std::vector<Tensor> source = {torch::ones({3})}, other = {torch::arange(3)};
  const Tensor longer = torch::ones({4});
  const ConstantLossScale policy(2.0F);
  CHECK_INVALID("the trees differ at [0]", policy.unscale_into(source, other));
  CHECK_INVALID("the source is 3, the destination is 4", policy.unscale_into(source[0], longer));
}

TEST_CASE("the elements of a coalesced sparse tensor are its values") {
  const Tensor indices = torch::tensor({{0, 2}}, torch::kLong);
  const Tensor sparse =
      torch::sparse_coo_tensor(indices, torch::tensor({2.0F, 4.0F}), {3}).coalesce();
  CHECK(headroom::element_count(sparse) == 2);
  CHECK(headroom::measure(sparse).max_abs == 4.0);
  const auto halved = ConstantLossScale(2.0F).unscale<double>(sparse).grads;
  CHECK(halved.is_coalesced());
  CHECK(halved.to_dense().equal(torch::tensor({1.0, 0.0, 2.0}, torch::kDouble)));
  CHECK(sparse.to_dense().equal(torch::tensor({2.0F, 0.0F, 4.0F})));
}

TEST_CASE("a scaled loss can be differentiated") {
  headroom::GradScaler<> scaler(1024.0);
  Tensor weight = support::parameter({3});
  scaler.scale((weight * weight).sum()).backward();
  CHECK(weight.grad().equal(weight.detach() * 2 * 1024));

  // scale takes a tree of losses. It scales floats beside tensors, and leaves integers as they are.
  weight.mutable_grad() = Tensor();
  const auto [losses, number, index] =
      scaler.scale(std::make_tuple(std::vector<Tensor>{weight[0], weight[1] * 2}, 3.0F, 7));
  (losses[0] + losses[1]).backward();
  CHECK(weight.grad().equal(torch::tensor({1024.0F, 2048.0F, 0.0F})));
  CHECK(number == 3072.0F);
  CHECK(index == 7);
  CHECK(scaler.scale(torch::arange(3)).equal(torch::arange(3)));
  CHECK_FALSE(scaler.scale(Tensor()).defined());

  // A tensor of one fp16 number becomes float, because 102400 is beyond fp16.
  const Tensor loss = scaler.scale(torch::tensor(100.0F).to(torch::kHalf));
  CHECK(loss.scalar_type() == torch::kFloat);
  CHECK(loss.item<float>() == 102400.0F);
  CHECK(scaler.scale(torch::ones({2}, torch::kHalf)).scalar_type() == torch::kHalf);

  headroom::GradScaler<> disabled(headroom::DynamicLossScale(), false);
  const Tensor same = weight.sum();
  CHECK(disabled.scale(same).is_same(same));
  CHECK(ConstantLossScale(2.0F).scale(same).item<float>() == 2 * same.item<float>());
}

TEST_CASE("gradients on several devices are measured, unscaled and clipped together") {
  // ATen unscales gradients that are not on the CPU. Here bf16 gradients take its path.
  using GradientVerbs = headroom::detail::aten::GradientVerbs<is_float>;
  const auto make = [] {
    return std::vector{torch::full({9}, 3.0F), torch::full({16}, 4.0F).to(torch::kBFloat16)};
  };
  const auto executor = headroom::parallel(1);
  std::vector<Tensor> tensors = make();
  CHECK(GradientVerbs::measure(tensors, executor).norm ==
        Catch::Approx(std::sqrt(9 * 9.0 + 16 * 16.0)));
  CHECK(GradientVerbs::measure(tensors, executor).max_abs == 4.0);
  CHECK(GradientVerbs::unscale(tensors, 2.0F, executor).max_abs == 2.0);
  CHECK((tensors[0][0].item<float>() == 1.5F && tensors[1][0].item<float>() == 2.0F));
  CHECK(GradientVerbs::scale(tensors, 4.0, executor).max_abs == 8.0);
  CHECK((tensors[0][0].item<float>() == 6.0F && tensors[1][0].item<float>() == 8.0F));
  for (const std::size_t bad : {0, 1}) {
    tensors = make();
    tensors[bad][5] = infinity;
    CHECK((!GradientVerbs::measure(tensors, executor).finite &&
           GradientVerbs::measure(tensors, executor).norm == infinity));
    CHECK_FALSE(GradientVerbs::unscale(tensors, 2.0F, executor).finite);
    CHECK_FALSE(GradientVerbs::scale(tensors, 2.0, executor).finite);
    // Both tensors are halved and doubled
    CHECK(tensors[1 - bad][0].item<float>() == (bad == 0 ? 4.0F : 3.0F));
  }
}

TEST_CASE("the address of the first gradient is found on other devices too") {
  // A negated view stands for a tensor on another device: headroom's verbs refuse both.
  const std::vector<Tensor> gradients = {torch::_neg_view(torch::ones({3}))};
  CHECK_THROWS_AS((void)headroom::measure(gradients), std::invalid_argument);
  CHECK(headroom::detail::look_at(gradients).first == gradients[0].data_ptr());
  const std::vector<Tensor> others = {torch::ones({3}, torch::kComplexFloat),
                                      gradients[0].to_sparse()};
  CHECK(headroom::detail::look_at(others).has_elements);
}

TEST_CASE("gradients elsewhere: bits, Inf and NaN, numbers of operators, on the CPU") {
  CHECK(elsewhere::compare(torch::kCPU) == 0);
}
