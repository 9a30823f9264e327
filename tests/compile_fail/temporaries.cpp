// expect: headroom: this verb writes into a temporary, so the result would be lost
// expect: temporaries.cpp:56:
// expect: temporaries.cpp:57:
// expect: temporaries.cpp:58:
// expect: temporaries.cpp:59:
// expect: temporaries.cpp:60:
// expect: temporaries.cpp:61:
// expect: temporaries.cpp:62:
// expect: temporaries.cpp:63:
// expect: temporaries.cpp:64:
// expect: temporaries.cpp:65:
// expect: temporaries.cpp:66:
// expect: temporaries.cpp:67:
// expect: temporaries.cpp:68:
// expect: temporaries.cpp:69:
// expect: temporaries.cpp:70:
// expect: temporaries.cpp:71:
// expect: temporaries.cpp:72:
// expect: temporaries.cpp:73:
// expect: temporaries.cpp:74:
// expect: temporaries.cpp:75:
// expect: temporaries.cpp:76:
// expect: temporaries.cpp:77:
// expect: temporaries.cpp:78:
// expect: temporaries.cpp:79:
// expect: temporaries.cpp:80:
// expect: temporaries.cpp:81:
// expect: temporaries.cpp:82:
// expect: temporaries.cpp:83:
// expect: temporaries.cpp:84:
// errors: 29
#include <headroom/headroom.hpp>
#include <headroom/quantize.hpp>

#include <array>
#include <vector>

using namespace headroom;

// Types that differ from line to line, because a compiler reports a type once.
template <class T>
T by_value();
template <class T>
T& by_reference();
#ifdef HEADROOM_CONTROL
#define GRADS by_reference<std::array<float, __LINE__>>()
#define CODES by_reference<std::array<float8_e4m3, __LINE__>>()
#else
#define GRADS by_value<std::array<float, __LINE__>>()
#define CODES by_value<std::array<float8_e4m3, __LINE__>>()
#endif

void train(const std::vector<float>& grads, const std::vector<half>& scaled,
           std::vector<float8_e4m3>& codes, std::vector<float>& scales, std::vector<float>& max_abs,
           const NoOpLossScale& no, const DynamicLossScale& dynamic, const AnyLossScale& any) {
  scale_in_place(GRADS, 2.0);
  (void)unscale_in_place(GRADS, 2.0F);
  (void)unscale_and_clip_in_place(GRADS, 2.0F, 1.0);
  (void)clip_by_global_norm(GRADS, 1.0);
  (void)unscale_into(scaled, GRADS, 2.0F);
  (void)accumulate_into(scaled, GRADS, 2.0F);
  cast_into(scaled, GRADS);
  cast_into(scaled, GRADS, saturate);
  dequantize_into(codes, GRADS, scales);
  (void)quantize_into(scaled, CODES, scales, max_abs);
  (void)TensorScales<float8_e4m3>(scaled).quantize_into(scaled, CODES);
  (void)quantize_blocks_into(grads, CODES, scales, {1, 0}, TorchaoBlockScaling());
  (void)quantize_blocks_into(grads, codes, GRADS, {1, 0}, TorchaoBlockScaling());
  dequantize_blocks_into(codes, scales, GRADS, {1, 0});
  no.scale_in_place(GRADS);
  (void)no.unscale_in_place(GRADS);
  (void)no.unscale_and_clip_in_place(GRADS, 1.0);
  (void)no.unscale_into(scaled, GRADS);
  (void)no.accumulate_into(scaled, GRADS);
  dynamic.scale_in_place(GRADS);
  (void)dynamic.unscale_in_place(GRADS);
  (void)dynamic.unscale_and_clip_in_place(GRADS, 1.0);
  (void)dynamic.unscale_into(scaled, GRADS);
  (void)dynamic.accumulate_into(scaled, GRADS);
  any.scale_in_place(GRADS);
  (void)any.unscale_in_place(GRADS);
  (void)any.unscale_and_clip_in_place(GRADS, 1.0);
  (void)any.unscale_into(scaled, GRADS);
  (void)any.accumulate_into(scaled, GRADS);
}
