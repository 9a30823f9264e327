#include <headroom/gpu.hpp>
#include <headroom/headroom.hpp>

// case: gpu_cbfloat16
// expect: headroom: gradients on a GPU are float, double, fp16 or bf16
#ifdef HEADROOM_CONTROL
using Element = headroom::bfloat16;
#else
using Element = headroom::cbfloat16;
#endif

headroom::gpu::Gradient gradient(Element* first) { return {first, 1}; }
