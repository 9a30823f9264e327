# GB/s of each contender: a panel for memory, one for the caches, and one by size.
# gnuplot -e "tsv='…/kernels.tsv'; png='…/kernels.png'" benchmarks/plot_kernels.gp
height = 1500
load "examples/style.gp"
set datafile separator tab
array works[8] = ["unscale float in place", "unscale fp16 to float", "unscale bf16 to float", "unscale fp16 in place", "unscale bf16 in place", "measure float", "measure fp16", "measure bf16"]
array labels[8] = ["float in place", "fp16 to float", "bf16 to float", "fp16 in place", "bf16 in place", "measure float", "measure fp16", "measure bf16"]
# As the table calls them; a contender that it does not have gets no point. headroom's other instruction sets are not drawn.
has(name) = int(system(sprintf("grep -c '\t%s' '%s' || true", name, tsv))) > 0
ours = "headroom " . (has("headroom avx512") ? "avx512" : has("headroom avx2") ? "avx2" : has("headroom neon") ? "neon" : "portable")
array names[6] = [ours, "limit", "Highway", "libtorch", "Eigen", "obvious loop"]
array titles[6] = [ours, "loop without checks", "Highway", "libtorch", "Eigen", "plain loop"]
array colors[6] = [blue, black, purple, red, orange, "#777777"]
array symbols[6] = [7, 2, 12, 10, 4, 8]
array sizes[6] = [2.4, 1.6, 1.8, 1.6, 1.6, 1.6]
# GB/s of a contender at a size, NaN if the table does not have it.
rate(work, name, size) = real("0" . system(sprintf("awk -F '\t' '/^[a-z]/ { here = $1 == \"%s\"; for (i = column = 0; ++i <= NF;) if (index($i, \"%s\") == 1) column = i } here && column && $1 == \"%d\" { print $column }' '%s'", work, name, size, tsv)))
positive(x) = x > 0 ? x : NaN

set multiplot layout 3,1 margins 0.22,0.93,0.06,0.885 spacing 0,0.085
set logscale x 10
set xrange [0.25:500]
set xtics (1, 10, 100)
set yrange [8.6:0.4]
set for [i=1:8] ytics (labels[1] 1)
do for [i=2:8] { set ytics add (labels[i] i) }
set xlabel "GB/s read and written by one thread" offset 0,0.4
set key at screen 0.5,0.985 center top maxrows 3 Left reverse samplen 1
do for [size in "268435456 524288"] {
  set title (size > 2**20 ? "Unscaling and measuring 256 MiB" : "512 KiB, from a cache") offset 0,-0.5
  plot for [k=1:6] works using (positive(rate(works[$1], names[k], int(size)))):1 with points pt symbols[k] ps sizes[k] lw 2 lc rgb colors[k] title (has(names[k]) ? titles[k] : "")
  unset key
}

set title ours . "; dashed: loop without checks" offset 0,-0.5
set xrange [0.9 * 2**13:1.1 * 2**28]
set logscale x 2
set xtics ("8 KiB" 2**13, "512 KiB" 2**19, "32 MiB" 2**25, "256 MiB " 2**28)
set logscale y 10
set yrange [5:500]
set ytics (5, 10, 20, 50, 100, 200, 500)
set xlabel "bytes read and written"
set ylabel "GB/s"
set key bottom left inside Left reverse samplen 2
array sizes_drawn[6] = [13, 16, 19, 22, 25, 28]
array lines[3] = [blue, green, orange]
plot for [i=1:3] sizes_drawn using (2**sizes_drawn[$1]):(positive(rate(works[i], names[1], 2**sizes_drawn[$1]))) with lines lw 3 lc rgb lines[i] title works[i], \
     for [i=1:3] sizes_drawn using (2**sizes_drawn[$1]):(positive(rate(works[i], "limit", 2**sizes_drawn[$1]))) with lines lw 2.5 dt (12,8) lc rgb lines[i] notitle
unset multiplot
