#!/usr/bin/env bash
# On a machine with an NVIDIA GPU and nvcc: compiles and runs what is checked on a GPU, and prints one table. At most seven minutes.
#   bash tests/gpu/run.sh          programs and logs are in $OUT, or in build/gpu
# Uses compute-sanitizer, NCCL and Python's torch if they are installed. The exit status is 1 if a part failed.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
out=${OUT:-build/gpu} end=$((SECONDS + 400))
export PATH=$PATH:/usr/local/cuda/bin
if ! gpu=$(nvidia-smi -L 2>/dev/null | grep -m1 GPU) || ! nvcc=$(nvcc --version 2>/dev/null | grep -o 'release.*'); then
  echo "skipped: it needs a GPU and nvcc" && exit 0
fi
mkdir -p "$out" && rm -f "$out"/*.log "$out/table"
echo "$gpu; nvcc $nvcc; $(date -u '+%F %T')" | tee "$out/table"

# part NAME SECONDS COMMAND...: runs the command. It fails if it takes longer. Status 77: skipped.
part() {
  local name=$1 limit=$2 left=$((end - SECONDS)) begin=$SECONDS rc=0 result=passed
  shift 2
  timeout -k 5 $((left < 1 ? 1 : left < limit ? left : limit)) "$@" >"$out/$name.log" 2>&1 || rc=$?
  ((rc == 0)) || result="FAILED ($rc)"
  ((rc != 77)) || result=skipped
  printf '%-22s %-12s %4d s\n' "$name" "$result" $((SECONDS - begin)) | tee -a "$out/table"
}
skip() { printf '%-22s skipped: %s\n' "$1" "$2" | tee -a "$out/table"; }
# compile NAME SOURCE FLAGS...: a program for the GPU
compile() { part "build-$1" 170 nvcc -std=c++17 -O2 -lineinfo -arch=native -Iinclude -x cu "tests/gpu/$2" -c -o "$out/$1.o" "${@:3}"; }
# run NAME SECONDS PROGRAM ARGUMENT FLAGS...
run() {
  local link=(nvcc -arch=native "$out/$3.o" "$out/reference.o" -o "$out/$3" -Xcompiler -pthread "${@:5}")
  [[ -x $out/$3 ]] || part "link-$3" 30 "${link[@]}"
  part "$1" "$2" "$out/$3" "$4"
}

cuda=$(dirname "$(readlink -f "$(command -v nvcc)")")/..
part build-reference 170 g++ -std=c++17 -O2 -Iinclude -isystem "$cuda/include" -c tests/gpu/reference.cpp -o "$out/reference.o" &
compile check check.cpp &
compile fast check.cpp --use_fast_math &
part build-example 170 nvcc -std=c++17 -O2 -arch=native -Iinclude examples/cuda/train.cu -o "$out/example" &
sed -n '/test: gpu_conditional/,/^```$/p' docs/notes/gpu.md | sed '1,2d;$d' >"$out/if_taken.hpp"
part build-conditional 170 nvcc -std=c++17 -O2 -arch=native -Iinclude "-I$out" tests/gpu/conditional.cu -o "$out/conditional" &
nccl=$(python3 -c 'import nvidia.nccl as n; print(n.__path__[0])' 2>/dev/null) nccl_flags=(-lnccl) has_nccl=
[[ -z $nccl ]] || nccl_flags=("-I$nccl/include" "-L$nccl/lib" -l:libnccl.so.2 -Xlinker "-rpath=$nccl/lib")
if echo '#include <nccl.h>' | nvcc -x cu -E - "${nccl_flags[@]}" >/dev/null 2>&1; then
  has_nccl=yes
  compile nccl check.cpp -DHEADROOM_CHECK_NCCL "${nccl_flags[@]}" &
fi
torch=$(python3 -c 'import torch; assert torch.cuda.is_available(); print(torch.__path__[0])' 2>/dev/null)
if [[ -n $torch && -e tests/gpu/torch_adapter.cpp ]]; then
  torch_flags=(-std=c++20 -Iinclude -isystem "$torch/include" -isystem "$torch/include/torch/csrc/api/include")
  torch_libraries=(-L"$torch/lib" -Wl,-rpath,"$torch/lib" -Wl,--allow-shlib-undefined,--no-as-needed -ltorch_cuda -ltorch_cpu
    -lc10_cuda -lc10)
  part build-torch_adapter 170 g++ -O1 "${torch_flags[@]}" -c tests/gpu/torch_adapter.cpp -o "$out/torch_adapter.o" &
  echo '#include <headroom/adapters/torch_cuda.hpp>' >"$out/torch_kernels.cu"
  part build-torch_kernels 170 nvcc -O2 -arch=native "${torch_flags[@]}" -c "$out/torch_kernels.cu" -o "$out/torch_kernels.o" &
fi
wait
if [[ -e $out/torch_adapter.o ]]; then
  part link-torch_adapter 30 g++ "$out/torch_adapter.o" -o "$out/torch_adapter" "${torch_libraries[@]}"
  part link-torch_kernels 30 g++ "$out/torch_adapter.o" "$out/torch_kernels.o" -o "$out/torch_kernels" "${torch_libraries[@]}" \
    -L"$cuda/lib64" -lcudart_static -lpthread -ldl -lrt
fi
run bits 100 check bits
run policies 60 check policies
run training 40 check training
run speed 60 check speed
run fast-math-bits 100 fast bits
run fast-math-policies 60 fast policies
run fp8 60 check fp8
run fast-math-fp8 60 fast fp8
if [[ -n $has_nccl ]]; then run nccl 60 nccl training "${nccl_flags[@]}"; else skip nccl "no nccl.h"; fi
part conditional 20 "$out/conditional"
part example 60 bash tests/examples/cuda.sh "$out/example" examples/data/digits.csv
for tool in memcheck racecheck initcheck synccheck; do
  if command -v compute-sanitizer >/dev/null; then
    part "$tool" 90 compute-sanitizer --tool "$tool" --error-exitcode 9 "$out/check" small &
  else
    skip "$tool" "no compute-sanitizer"
  fi
done
wait
if [[ -n $torch ]]; then
  part torch_adapter 60 "$out/torch_adapter" cuda
  part torch_kernels 60 "$out/torch_kernels" cuda
  part torch_speed 60 python3 tests/gpu/torch_speed.py
else
  skip torch "no torch with CUDA"
fi

echo "---- results"
for log in bits policies training fp8 speed conditional example torch_adapter torch_kernels torch_speed; do
  [[ ! -e $out/$log.log ]] || head -n 50 "$out/$log.log"
done | cut -c1-150 | head -n 110
echo "---- table"
cat "$out/table"
failed=$(grep -o '^.* FAILED' "$out/table" | cut -d' ' -f1)
for name in $failed; do echo "---- $name: $(tail -n 3 "$out/$name.log" | cut -c1-200)"; done | head -n 30
[[ -z $failed ]]
