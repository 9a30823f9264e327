#!/usr/bin/env bash
# quantize_file.sh PROGRAM: PROGRAM, examples/quantize_file, converts files to fp8, to MX and back, and refuses bad ones. After an error
# the output is what it was, and nothing else is left.
set -euo pipefail
program=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

faults=0
fault() { printf '%s\n' "$1" && faults=$((faults + 1)); }
# make FILE HEADER DATA: a safetensors file. The header is shorter than 65536 bytes; DATA has escapes of printf.
make() {
  {
    printf "$(printf '\\x%02x' $((${#2} % 256)) $((${#2} / 256)))\0\0\0\0\0\0%s" "$2"
    printf "$3"
  } >"$1"
}
# bytes FILE NAME: the elements of a tensor, in hex.
bytes() {
  local size begin end
  size=$(od -An -tu8 -N8 "$1" | tr -d ' ')
  read -r begin end < <(head -c $((8 + size)) "$1" | tail -c +9 | sed -E "s/.*\"$2\":\{\"data_offsets\":\[([0-9]+),([0-9]+)\].*/\1 \2/")
  tail -c +$((9 + size + begin)) "$1" | head -c $((end - begin)) | od -An -v -tx1 | tr -d ' \n'
}

"$program" --demo demo >log || fault "--demo failed"
[[ $(ls demo | wc -l) == 5 ]] || fault "--demo made $(ls demo)"

# 448, 1, 0.5 and -2 are exact with scale 1, and a row of 33 begins with a block of 448 and ends with one of 2^-20.
exact='\0\0\xe0\x43\0\0\x80\x3f\0\0\0\x3f\0\0\0\xc0'
make exact '{"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"b":{"dtype":"I8","shape":[3],"data_offsets":[16,19]}}' "${exact}abc"
"$program" to-fp8 exact exact.fp8 >log
[[ $(bytes exact.fp8 w) == 7e3830c0 ]] || fault "codes of fp8: $(bytes exact.fp8 w)"
[[ $(bytes exact.fp8 w_scale) == 0000803f ]] || fault "scale of fp8: $(bytes exact.fp8 w_scale)"
[[ $(bytes exact.fp8 b) == 616263 ]] || fault "copied: $(bytes exact.fp8 b)"
"$program" to-float exact normal && "$program" to-float exact.fp8 exact.fp8 && cmp normal exact.fp8 || fault "fp8 and back differs"

row=$(printf '\\0\\0\\xe0\\x43%.0s' {1..32})'\0\0\x80\x35'
make rows '{"w":{"dtype":"F32","shape":[2,33],"data_offsets":[0,264]}}' "$row$row"
"$program" to-mx rows rows.mx >log
[[ $(bytes rows.mx w_scale) == 7f637f63 ]] || fault "scales of MX: $(bytes rows.mx w_scale)"
"$program" to-float rows normal && "$program" to-float rows.mx rows.mx && cmp normal rows.mx || fault "MX and back differs"

# The same row twice as [2,33,1]: the blocks do not change. 1e-50 becomes 0, which the table counts.
make ones '{"w":{"dtype":"F32","shape":[2,33,1],"data_offsets":[0,264]}}' "$row$row"
"$program" to-mx ones ones.mx >log
[[ $(bytes ones.mx w_scale) == 7f637f63 ]] || fault "scales of [2,33,1]: $(bytes ones.mx w_scale)"
"$program" to-float ones.mx ones.mx && "$program" to-float ones normal && cmp normal ones.mx || fault "MX of [2,33,1] and back differs"
make tiny '{"w":{"dtype":"F64","shape":[1,2],"data_offsets":[0,16]}}' '\x1f\xb8\xd4\x4a\x7a\xee\x8d\x35\0\0\0\0\0\0\xf0\x3f'
"$program" to-fp8 tiny tiny.fp8 >log && grep -qE '^w +2 .* 1 +0$' log || fault "1e-50: $(cat log)"

# refused HOW FILE TEXT...: the error has the texts.
refused() {
  local how=$1 file=$2 status=0 text
  echo old >out
  "$program" "$how" "$file" out >log 2>error || status=$?
  [[ $status == 1 ]] || fault "$how $file ended with $status"
  for text in "$file" "${@:3}"; do grep -qF -- "$text" error || fault "$how $file: no '$text' in: $(cat error)"; done
  [[ $(cat out) == old ]] || fault "$how $file changed the output"
  [[ ! -e out.tmp ]] || fault "$how $file left a file"
}
entry() { printf '{"w":{"dtype":%s,"shape":%s,"data_offsets":%s}}' "$1" "$2" "$3"; }
refused to-fp8 missing "cannot be read"
make short '' ''
truncate -s 5 short && refused to-fp8 short "has 5 bytes"
make no_json '{"w":' '' && refused to-fp8 no_json header
make list '[1]' '' && refused to-fp8 list header
make no_shape '{"w":{"dtype":"F32"}}' '' && refused to-fp8 no_shape w shape
make dtype "$(entry '"F4"' '[2,2]' '[0,2]')" ab && "$program" to-fp8 dtype dtype.fp8 2>error >log && grep -q 'dtype: w: unknown dtype F4' error || fault "F4: $(cat error)"
[[ $(bytes dtype.fp8 w) == 6162 ]] || fault "copied: $(bytes dtype.fp8 w)"
make text "$(entry 7 '[2,2]' '[0,16]')" "$exact" && refused to-fp8 text ': w: ' '"dtype":7'
make negative "$(entry '"F32"' '[-2,2]' '[0,16]')" "$exact" && refused to-fp8 negative ': w: ' '-2 is no size'
make size "$(entry '"F32"' '[2,3]' '[0,16]')" "$exact" && refused to-fp8 size ': w: ' '[2,3]' 24
make overflow "$(entry '"F32"' '[4294967296,4294967296]' '[0,0]')" '' && refused to-fp8 overflow ': w: ' 4294967296
make beyond "$(entry '"F32"' '[2,3]' '[0,24]')" "$exact" && refused to-fp8 beyond ': w: ' '[0,24]'
make one_offset "$(entry '"F32"' '[2,2]' '[16]')" "$exact" && refused to-fp8 one_offset ': w: ' '[16]'
make gap "$(entry '"F32"' '[2,2]' '[1,17]')" "a$exact" && refused to-fp8 gap ': w' 'begin at 1, not at 0'
make rest "$(entry '"F32"' '[2,2]' '[0,16]')" "${exact}a" && refused to-fp8 rest '16 bytes of 17'
make inf "$(entry '"F32"' '[1,2]' '[0,8]')" '\0\0\x80\x3f\0\0\x80\x7f' && refused to-fp8 inf ': w' 'not finite at 1' && refused to-mx inf ': w'
make codes "$(entry '"F8_E4M3"' '[2]' '[0,2]')" ab && refused to-float codes 'no w_scale'
w='"w":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}'
make zero "{$w,\"w_scale\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[2,6]}}" 'ab\0\0\0\0' && refused to-float zero w_scale 'is 0'
make three "{$w,\"w_scale\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[2,5]}}" abcde && refused to-float three w_scale '[3]' '[2]'
"$program" to-fp8 exact twice >log
make twice '{"w":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},"w_scale":{"dtype":"I8","shape":[1],"data_offsets":[4,5]}}' abcde
refused to-fp8 twice w_scale 'exists already'
if "$program" to-fp8 exact nowhere/out >log 2>error; then fault "it wrote into no directory"; fi
grep -q '^nowhere/out: cannot be written' error || fault "nowhere/out: $(cat error)"
echo old >full
if (trap '' XFSZ && ulimit -f 4 && "$program" to-float demo/weights.safetensors full) 2>error; then fault "it wrote more than 4 KiB"; fi
[[ $(cat full) == old && ! -e full.tmp ]] || fault "half written: $(ls -l full*)"
grep -q '^full: cannot be written' error || fault "full: $(cat error)"
for ((size = 0; size < $(stat -c %s exact); size += 7)); do
  head -c $size exact >cut
  refused to-fp8 cut
done
echo "$faults faults"
((faults == 0))
