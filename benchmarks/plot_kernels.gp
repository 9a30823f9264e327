# GB/s over size: a picture for each work, a line for each contender.
# gnuplot -e "tsv='…/kernels.tsv'; png='…/kernels.png'" benchmarks/plot_kernels.gp
set datafile separator tab
set terminal pngcairo size 1500,1900 font "sans,11" background "white" noenhanced
set output png
field(block, i) = system(sprintf("grep '^[a-z]' '%s' | sed -n %dp | cut -f%d", tsv, block + 1, i))
color(name) = name[1:5] eq "limit" ? "#222222" : name eq "headroom scalar" ? "#c6dbef" : name eq "headroom avx2" ? "#6baed6" : name[1:8] eq "headroom" ? "#1f77b4" : \
  name[1:5] eq "Eigen" ? "#ff7f0e" : name eq "xtensor" ? "#2ca02c" : name[1:8] eq "libtorch" ? "#d62728" : \
  name eq "Highway" ? "#9467bd" : "#aaaaaa"
works = int(system("grep -c '^[a-z]' '" . tsv . "'"))
set multiplot layout (works + 2) / 3, 3
set logscale x 2
set xtics ("8K" 2**13, "64K" 2**16, "512K" 2**19, "4M" 2**22, "32M" 2**25, "256M" 2**28)
set xrange [2**13:2**28]
set yrange [0:*]
set border 3
set tics nomirror
set ylabel "GB/s read and written"
set key outside bottom center horizontal font ",9"
do for [block = 0:works - 1] {
  columns = words(system(sprintf("grep '^[a-z]' '%s' | sed -n %dp | tr ' ' '_'", tsv, block + 1)))
  set title field(block, 1)
  plot for [i = 2:columns] tsv index block every ::1 using 1:i with linespoints lw 2 pt 7 ps 0.6 \
    lc rgb color(field(block, i)) title field(block, i)
}
unset multiplot
