#!/usr/bin/env bash
# convert_checkpoint.sh PROGRAM CHECKPOINTS: PROGRAM, tools/convert_checkpoint, reads every layout and writes every format, says what is
# wrong with bad checkpoints, and leaves nothing half written. CHECKPOINTS is tests/golden/checkpoints.
set -euo pipefail
program=$1 golden=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

faults=0
fault() { printf '%s\n' "$1" && faults=$((faults + 1)); }

# add NAME DTYPE SHAPE HEX [COUNT]: a tensor for the next file, COUNT times HEX. write FILE makes the file.
entries='' data=''
add() {
  local bytes
  bytes=$(printf "%.0s$4" $(seq "${5-1}"))
  entries+=",\"$1\":{\"dtype\":\"$2\",\"shape\":$3,\"data_offsets\":[$((${#data} / 2)),$(((${#data} + ${#bytes}) / 2))]}"
  data+=$bytes
}
# write_header FILE HEADER HEX: a file with any header shorter than 65536 bytes.
write_header() {
  {
    printf "$(printf '\\x%02x' $((${#2} % 256)) $((${#2} / 256)))\0\0\0\0\0\0%s" "$2"
    printf "$(sed 's/../\\x&/g' <<<"$3")"
  } >"$1"
}
write() {
  write_header "$1" "{${entries:1}}" "$data"
  entries='' data=''
}

# tensors FILE: lines of name, dtype, shape, begin, end of a file of the program.
tensors() {
  head -c $((8 + $(od -An -tu8 -N8 "$1"))) "$1" | tail -c +9 | grep -oE '"[^"]+":\{"data_offsets":[^}]*\}' |
    sed -E 's/"([^"]+)":\{"data_offsets":\[([0-9]+),([0-9]+)\],"dtype":"([^"]+)","shape":\[([0-9,]*)\]\}/\1 \4 \5 \2 \3/; s/  / scalar /; :a; s/^([^ ]+ [^ ]+ [0-9x]+),/\1x/; ta'
}
bytes_at() { tail -c +$((9 + $(od -An -tu8 -N8 "$1") + $2)) "$1" | head -c $(($3 - $2)); }
# expect FILE NAME DTYPE SHAPE HEX [COUNT]
expect() {
  local dtype shape begin end found wanted
  read -r dtype shape begin end < <(tensors "$1" | sed -n "s/^$2 //p") || true
  found="${dtype-} ${shape-} $(bytes_at "$1" "${begin-0}" "${end-0}" | od -An -v -tx1 | tr -d ' \n')"
  wanted="$3 $4 $(printf "%.0s$5" $(seq "${6-1}"))"
  [[ $found == "$wanted" ]] || fault "$1: $2 is $found, not $wanted"
}
# describe DIRECTORY: lines of name, dtype, shape and CRC-32, as in expected.txt. gzip computes it.
describe() {
  local file name dtype shape begin end
  for file in "$1"/*.safetensors; do
    tensors "$file" | while read -r name dtype shape begin end; do
      grep -qF "\"$name\": \"${file##*/}\"" "$1/model.safetensors.index.json" || echo "$name is not in the index"
      echo "$name $dtype $shape $(bytes_at "$file" "$begin" "$end" | gzip -1 | tail -c 8 | od -An -tx4 -N4 | tr -d ' ')"
    done
  done | LC_ALL=C sort
}
same_tensors() { [[ $(describe "$1") == "$2" ]] || fault "$1: $(diff <(describe "$1") - <<<"$2")"; }
# to FORMAT IN OUT: with its output in the file log.
to() { "$program" "$2" "$3" --to "$1" --threads 2 >log 2>&1 || fault "$*: $(cat log)"; }

# Every layout that is read, by hand.
add a.weight F8_E4M3 '[2,2]' 3840b87e
add a.weight_scale F32 '[1]' 0000003f
add a.input_scale F32 '[]' 00000000
add b.weight F8_E4M3 '[2,2]' 38383838
add b.weight_scale BF16 '[2,1]' 0040003f
add c.weight F8_E4M3 '[2,2]' 38383838
add c.weight_scale_inv F8_E8M0 '[1,1]' 80
add d.blocks U8 '[1,2,1,16]' 21 32
add d.scales U8 '[1,2,1]' 8081
add e.weight_packed U8 '[1,8]' 21 8
add e.weight_scale F8_E4M3 '[1,1]' 40
add e.weight_global_scale F32 '[1]' 00008040
add f.weight F8_E4M3 '[1,32]' 38 32
add f.weight_scale U8 '[1,1]' 7e
add g.weight U8 '[1,16]' 21 16
add g.weight_scale U8 '[1,1]' 80
add h.weight F8_E5M2 '[1,1]' 3c
add h.weight_scale F32 '[]' 00004040
add i.weight F8_E4M3 '[1,1]' 38
add i.weight_scale_inv F32 '[]' 00000040
add j.weight F8_E4M3 '[2,1]' 3838
add j.weight_scale F32 '[2]' 0000004000004040
add k.weight U8 '[1,8]' 21 8
add k.weight_scale F8_E4M3 '[1,1]' 40
add k.weight_scale_2 F32 '[]' 0000003f
add l_blocks U8 '[1,2,1,16]' 21 32
add l_scales U8 '[1,2,1]' 8081
add steps I64 '[]' 0100000000000000
add norm.weight F16 '[1]' 003c
write layouts
for isa in '' scalar; do
  HEADROOM_ISA=$isa to fp32 layouts "floats$isa"
  expect "floats$isa" a.weight F32 2x2 0000003f0000803f000000bf00006043
  expect "floats$isa" b.weight F32 2x2 00000040000000400000003f0000003f
  expect "floats$isa" c.weight F32 2x2 00000040 4
  expect "floats$isa" d F32 1x2x32 "$(printf '0000803f00000040%.0s' {1..16})$(printf '0000004000008040%.0s' {1..16})"
  expect "floats$isa" e.weight F32 1x16 0000803e0000003f 8
  expect "floats$isa" f.weight F32 1x32 0000003f 32
  expect "floats$isa" g.weight F32 1x32 0000803f00000040 16
  expect "floats$isa" h.weight F32 1x1 00004040
  expect "floats$isa" i.weight F32 1x1 00000040
  expect "floats$isa" j.weight F32 2x1 0000004000004040
  expect "floats$isa" k.weight F32 1x16 0000003f0000803f 8
  expect "floats$isa" l F32 1x32x2 0000803f000000400000004000008040 16
  expect "floats$isa" steps I64 scalar 0100000000000000
  expect "floats$isa" norm.weight F16 1 003c
  [[ $(tensors "floats$isa" | wc -l) == 14 ]] || fault "floats$isa: $(tensors "floats$isa")"
done

# Every format that is written, by hand: 448, 1 and 0.5. k_proj shares the tensor's scale of q_proj, which is loaded into one matrix with it.
weights() {
  add q_proj.weight F32 '[2,64]' "$(printf '0000e043%.0s' {1..32})$(printf '0000803f%.0s' {1..32})$(printf '0000003f%.0s' {1..64})"
  add x.k_proj.weight BF16 '[1,32]' 803f 32
  add x.q_proj.weight BF16 '[1,32]' e043 32
  add lm_head.weight BF16 '[1,32]' 803f 32
  add mlp.gate.weight BF16 '[1,32]' 803f 32
  add o_proj.bias F32 '[32]' 0000803f 32
  add short.weight BF16 '[1,24]' 803f 24
}
weights && write weights
for format in bf16 fp16 fp32 fp8-128x128 fp8-tensor mxfp8 mxfp4 nvfp4; do
  to $format weights $format
  expect $format o_proj.bias F32 32 0000803f 32
  case $format in *fp8* | *fp4*) expect $format lm_head.weight BF16 1x32 803f 32 && expect $format mlp.gate.weight BF16 1x32 803f 32 ;; esac
done
row() { printf "$1%.0s" $(seq "$2"); }
expect bf16 q_proj.weight BF16 2x64 "$(row e043 32)$(row 803f 32)$(row 003f 64)"
expect fp16 q_proj.weight F16 2x64 "$(row 005f 32)$(row 003c 32)$(row 0038 64)"
expect fp32 x.q_proj.weight F32 1x32 0000e043 32
expect fp8-128x128 q_proj.weight F8_E4M3 2x64 "$(row 7e 32)$(row 38 32)$(row 30 64)"
expect fp8-128x128 q_proj.weight_scale_inv F32 1x1 0000803f
expect fp8-128x128 short.weight F8_E4M3 1x24 7e 24
expect fp8-tensor q_proj.weight F8_E4M3 2x64 "$(row 7e 32)$(row 38 32)$(row 30 64)"
expect fp8-tensor q_proj.weight_scale F32 1 0000803f
expect fp8-tensor x.k_proj.weight F8_E4M3 1x32 7e 32
expect mxfp8 q_proj.weight F8_E4M3 2x64 "$(row 7e 32)$(row 78 96)"
expect mxfp8 q_proj.weight_scale U8 2x2 7f777676
expect mxfp4 q_proj.weight_packed U8 2x32 66 64
expect mxfp4 q_proj.weight_scale U8 2x2 867d7c7c
expect mxfp4 short.weight BF16 1x24 803f 24
expect nvfp4 q_proj.weight_packed U8 2x32 77 64
expect nvfp4 q_proj.weight_scale F8_E4M3 2x4 7e7e383830303030
expect nvfp4 q_proj.weight_global_scale F32 1 0000c040
expect nvfp4 x.k_proj.weight_global_scale F32 1 0000c040
expect nvfp4 x.k_proj.weight_scale F8_E4M3 1x2 3838
"$program" weights kept --to fp8-tensor --keep 'x.*' --threads 1 >log
expect kept x.k_proj.weight BF16 1x32 803f 32
"$program" fp8-tensor kept --to fp32 --keep 'x.*' --threads 1 >log
expect kept x.k_proj.weight BF16 1x32 803f 32
"$program" weights dry --to nvfp4 --dry-run | grep -qE 'F32 to nvfp4 +1 +512 +76$' || fault "the table: $("$program" weights dry --to nvfp4 --dry-run)"
[[ ! -e dry ]] || fault "--dry-run writes"

# What was lost: 1e-10 and 1e6 in fp16, and a block with Inf.
add w.weight F32 '[1,4]' fffedb2e0024744900000000000080bf
write extremes
to fp16 extremes extremes16 && grep -q '^1 became zero, 1 Inf or NaN' log || fault "loss: $(cat log)"
add w.weight F32 '[1,64]' "0000807f$(row 0000803f 63)"
write inf
to mxfp8 inf inf8 && grep -q '^0 became zero, 31 Inf or NaN; 1 were Inf' log || fault "loss of Inf: $(cat log)"

# The checkpoints of systems, in several files.
for model in deepseek gpt_oss modelopt_nvfp4; do
  expected=$(LC_ALL=C sort "$golden/$model/expected.txt")
  to bf16 "$golden/$model" $model
  same_tensors $model "$expected"
  ! grep -q quantization_config $model/config.json || fault "$model: $(cat $model/config.json)"
  for format in fp8-128x128 fp8-tensor mxfp8 mxfp4 nvfp4 fp16 fp32; do
    to $format $model $model.$format
    rm -rf tiles # many threads have small tiles
    "$program" $model tiles --to $format --threads 128 >log && diff -r $model.$format tiles || fault "$model: other threads, other $format"
    to bf16 $model.$format $model.$format.back
    [[ $format != fp32 ]] || same_tensors $model.fp32.back "$expected"
    to $format $model.$format.back $model.$format.again # loses nothing more
    to bf16 $model.$format.again $model.$format.again.back
    same_tensors $model.$format.again.back "$(describe $model.$format.back)"
  done
done
same_tensors gpt_oss.mxfp4.back "$(LC_ALL=C sort "$golden/gpt_oss/expected.txt")"
same_tensors modelopt_nvfp4.nvfp4.back "$(LC_ALL=C sort "$golden/modelopt_nvfp4/expected.txt")"
# Blocks along the rows, in tiles.
mkdir experts && echo '{"model_type":"gpt_oss"}' >experts/config.json
add x.experts.up_proj BF16 '[1,1056,32]' "$(row 803f 11264)$(row 8043 22528)"
write experts/model.safetensors
"$program" experts experts4 --to mxfp4 --threads 12 >log
to bf16 experts4 experts.back
expect experts.back/model.safetensors x.experts.up_proj BF16 1x1056x32 "$(row 803f 11264)$(row 8043 22528)"

to fp8-128x128 "$golden/deepseek" copied # which it is already
grep -q '^0 files were there already. 0 elements' log || fault "converted what has the format: $(cat log)"
to bf16 copied copied.back
same_tensors copied.back "$(describe deepseek)"
for pair in fp8-128x128:'"weight_block_size":[128,128]' fp8-tensor:'"strategy":"token"'; do
  tr -d ' \n' <deepseek."${pair%%:*}"/config.json | grep -qF "${pair#*:}" || fault "config of ${pair%%:*}: $(cat deepseek."${pair%%:*}"/config.json)"
  tr -d ' \n' <deepseek."${pair%%:*}"/config.json | grep -qF '"lm_head","model.embed_tokens",' || fault "lm_head is not kept: $(cat deepseek."${pair%%:*}"/config.json)"
done
tr -d ' \n' <gpt_oss.mxfp4/config.json | grep -qF '"quant_method":"mxfp4"' || fault "config of gpt-oss: $(cat gpt_oss.mxfp4/config.json)"

# ends CODE TEXT… -- ARGUMENTS: the program ends with CODE, its error has the texts, and it leaves nothing.
ends() {
  local wanted=$1 code=0 text texts=()
  for ((shift_by = 2; shift_by <= $#; ++shift_by)); do
    [[ ${!shift_by} != -- ]] || break
    texts+=("${!shift_by}")
  done
  shift "$shift_by"
  rm -rf out
  "$program" "$@" >log 2>error || code=$?
  [[ $code == "$wanted" ]] || fault "$*: ended with $code, not $wanted: $(cat error)"
  for text in "${texts[@]}"; do grep -qF -- "$text" error || fault "$*: no '$text' in: $(cat error)"; done
  [[ ! -e out ]] || fault "$*: left $(ls -d out out/*)"
}
ends 2 -- weights out
ends 2 -- weights --to bf16
ends 2 -- weights out --to fp4
ends 2 -- weights out --to bf16 --verbose yes
ends 2 -- --threads 0 weights out --to bf16
ends 2 -- weights out --to bf16 --keep
ends 2 'differ' -- deepseek deepseek --to fp16
ends 5 'missing' 'No such file' -- missing out --to bf16
ends 5 'nowhere/out' -- weights nowhere/out --to bf16

# malformed FILE TEXT…
malformed() { ends 3 "$1" "${@:2}" -- "$1" out --to bf16; }
entry() { printf '{"w":{"dtype":%s,"shape":%s,"data_offsets":%s}}' "$1" "$2" "$3"; }
exact=0000e0430000803f0000003f000000c0
write_header no_json '{"w":' '' && malformed no_json 'parse error'
write_header list '[1]' '' && malformed list
write_header no_shape '{"w":{"dtype":"F32"}}' '' && malformed no_shape w shape
write_header dtype "$(entry '"FOO"' '[2,2]' '[0,16]')" $exact && malformed dtype w FOO
write_header number "$(entry 7 '[2,2]' '[0,16]')" $exact && malformed number w '"dtype":7'
write_header negative "$(entry '"F32"' '[-2,2]' '[0,16]')" $exact && malformed negative w '-2 is no size'
write_header size "$(entry '"F32"' '[2,3]' '[0,16]')" $exact && malformed size w '[2,3]' 'offset 65'
write_header overflow "$(entry '"F32"' '[4294967296,4294967296]' '[0,0]')" '' && malformed overflow w 4294967296
write_header reversed "$(entry '"F32"' '[2,2]' '[16,0]')" $exact && malformed reversed w
write_header beyond "$(entry '"F32"' '[2,3]' '[0,24]')" $exact && malformed beyond w 'offset 65'
write_header one_offset "$(entry '"F32"' '[2,2]' '[16]')" $exact && malformed one_offset w '[16]'
write_header gap "$(entry '"F32"' '[2,2]' '[1,17]')" "00$exact" && malformed gap w 'offset 65'
write_header rest "$(entry '"F32"' '[2,2]' '[0,16]')" "${exact}00" && malformed rest w 'offset 81'
write_header exact "$(entry '"F32"' '[2,2]' '[0,16]')" $exact && to bf16 exact cut
for ((size = 0; size < $(stat -c %s exact); size += 7)); do
  head -c $size exact >cut && malformed cut
done
add w.weight F32 '[1,2]' 0000803f0000807f
write infinite
ends 3 infinite w.weight 'Inf' -- infinite out --to fp8-tensor

# broken MODEL SED FILE: a checkpoint with a changed file.
broken() { rm -rf broken && cp -r "$golden/$1" broken && sed -i "$2" broken/"$3"; }
index=model.safetensors.index.json
broken deepseek 's/"lm_head.weight": "[^"]*"/"lm_head.weight": "other.safetensors"/' $index && ends 3 other.safetensors -- broken out --to bf16
broken deepseek 's/"lm_head.weight"/"head.weight"/' $index && ends 3 model-00003-of-00003.safetensors head.weight -- broken out --to bf16
broken deepseek 's/model-00003/..\/model-00003/' $index && ends 3 '../model-00003' -- broken out --to bf16
broken deepseek 's/}//' $index && ends 3 $index 'parse error' -- broken out --to bf16
broken deepseek 's/}//' config.json && ends 3 config.json 'parse error' -- broken out --to bf16
broken deepseek 's/: \[/: [[1],/' config.json && ends 3 config.json -- broken out --to bf16
broken deepseek '10s/128/0/' config.json && ends 3 config.json 'weight_block_size is [128,0]' -- broken out --to bf16
broken deepseek '' config.json && truncate -s -100 broken/model-00002-of-00003.safetensors &&
  ends 3 model-00002-of-00003.safetensors 'model.layers.3.mlp.experts.0.gate_proj.weight' offset -- broken out --to bf16

# A scale is missing, or does not fit.
broken deepseek '/q_a_proj.weight_scale_inv/d' $index && ends 4 model-00001 'q_a_proj.weight_scale_inv' -- broken out --to bf16
broken deepseek 's/128/64/' config.json && ends 4 'kv_a_proj_with_mqa.weight_scale_inv' '[1,2]' '[1,3]' -- broken out --to bf16
scale() { add w.weight "$1" "$2" 38 "$3" && add "$4" "$5" "$6" "$7" && write scale && ends 4 scale "$4" "${@:8}" -- scale out --to bf16; }
scale F8_E4M3 '[2,2]' 4 w.weight_scale I32 '[1]' 00000000 I32
scale F8_E4M3 '[3,2]' 6 w.weight_scale F32 '[2]' 0000000000000000 '[2]' '[3,2]'
scale F8_E4M3 '[2,2]' 4 w.weight_scale_inv F32 '[1,2]' 0000000000000000 '[1,2]' '[2,1]'
scale U8 '[1,16]' 16 w.weight_scale F8_E4M3 '[1,2]' 3838 w.weight_scale_2
add w_packed U8 '[1,8]' 21 8 && add w_scale F8_E4M3 '[1,1]' 38 && add w_global_scale F32 '[1]' 00000000 && write zero
ends 4 zero w_global_scale 'is 0' -- zero out --to bf16
add w_blocks U8 '[1,1,1,16]' 21 16 && write alone && ends 4 alone w_scales -- alone out --to bf16
add w.weight F8_E4M3 '[1,1]' 38 && write unscaled && to bf16 unscaled cast && expect cast w.weight BF16 1x1 803f

# A full disk, and a file that was there.
add w.weight F32 '[64,64]' 0000803f 4096
write disk
(trap '' XFSZ && ulimit -f 4 && ends 5 out.part 'File too large' -- disk out --to bf16 && ((faults == 0))) || fault "a full disk"
cp exact old
(ulimit -f 4 && "$program" disk old --to bf16 >log 2>error) && fault "a full disk"
cmp exact old && [[ ! -e old.part ]] || fault "the old file changed"

# Again: only what is missing, damaged, of another format or input.
again() {
  to "$1" "${3-deepseek}" again
  grep -q "^$2 files were there already" log || fault "again: $2 $*: $(cat log)"
}
rm -rf again
again mxfp8 0 && again mxfp8 3 && again fp8-tensor 0 && again fp8-tensor 3
cp again/model-00002-of-00003.safetensors before
printf x | dd of=again/model-00002-of-00003.safetensors bs=1 seek=2000 conv=notrunc 2>/dev/null
again fp8-tensor 2
cmp before again/model-00002-of-00003.safetensors || fault "the damaged file was not made anew"
rm again/model-00001-of-00003.safetensors && again fp8-tensor 2
touch deepseek/model-00003-of-00003.safetensors && again fp8-tensor 2
again nvfp4 0 && again nvfp4 3 && touch deepseek/model-00003-of-00003.safetensors && again nvfp4 0 # all files may share scales

# Interrupted: nothing is left but finished files. Meanwhile less than 64 MiB are allocated.
mkdir large && cd large
header='{"w.weight":{"dtype":"BF16","shape":[12288,8192],"data_offsets":[0,201326592]}}'
write_header model-2.safetensors "$header" '' && truncate -s $((8 + ${#header} + 201326592)) model-2.safetensors
add a.weight BF16 '[1,32]' 803f 32 && write model-1.safetensors
echo '{"weight_map":{"a.weight":"model-1.safetensors","w.weight":"model-2.safetensors"}}' >$index
cd ..
"$program" large interrupted --to mxfp8 --threads 2 >log 2>error &
until [[ -e interrupted/model-2.safetensors.part ]]; do sleep 0.01; done
allocated=$(sed -n 's/^RssAnon:\s*\([0-9]*\) kB/\1/p' /proc/$!/status)
kill -INT $!
code=0 && wait $! || code=$?
[[ $code == 130 && $(ls interrupted) == model-1.safetensors ]] || fault "interrupted: ended with $code, left $(ls interrupted)"
((allocated < 65536)) || fault "it allocated $allocated KiB"

echo "$faults faults"
((faults == 0))
