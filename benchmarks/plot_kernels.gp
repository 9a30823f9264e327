# GB/s over size: a picture for each kind of work, a line for each contender, one legend.
# gnuplot -e "tsv='…/kernels.tsv'; png='…/kernels.png'" benchmarks/plot_kernels.gp
load "examples/style.gp"
set datafile separator tab
set style line 1 lc rgb black lw 2 dt (4,4) pt 2 ps 1 # a limit
set style line 2 lc rgb blue lw 3 dt 1 pt 7 ps 0.9    # headroom with AVX2
set style line 3 lc rgb green lw 3 dt 1 pt 9 ps 1     # headroom with AVX-512 or NEON
set style line 4 lc rgb pale_blue lw 2 dt 1 pt 6 ps 0.9
set style line 5 lc rgb purple lw 1.5 dt (12,4) pt 13 ps 1
set style line 6 lc rgb orange lw 2 dt (8,3,2,3) pt 5 ps 0.8
set style line 7 lc rgb red lw 1.5 dt (6,3) pt 11 ps 1
set style line 8 lc rgb "#8c564b" lw 1.5 dt (2,2) pt 3 ps 0.9 # brown, which the other pictures do not use
set style line 9 lc rgb grey lw 2 dt 1 pt 4 ps 0.8
set terminal pngcairo size 1500,1780 font "sans,11" background "white" noenhanced
set output png
field(block, i) = system(sprintf("grep '^[a-z]' '%s' | sed -n %dp | cut -f%d", tsv, block + 1, i))
style(name) = name[1:5] eq "limit" ? 1 : name eq "headroom avx2" ? 2 : name eq "headroom scalar" ? 4 : name[1:8] eq "headroom" ? 3 : \
  name eq "Highway" ? 5 : name[1:5] eq "Eigen" ? 6 : name[1:8] eq "libtorch" ? 7 : name eq "xtensor" ? 8 : 9
works = int(system("grep -c '^[a-z]' '" . tsv . "'"))
rows = (works + 3) / 3 # one place is for the legend
set multiplot layout rows, 3 margins 0.05, 0.97, 0.04, 0.975 spacing 0.06, 0.06
set logscale x 2
set logscale y 10
set xtics ("8 KiB" 2**13, "64 KiB" 2**16, "512 KiB" 2**19, "4 MiB" 2**22, "32 MiB" 2**25, "256 MiB" 2**28)
set ytics (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500)
set xrange [0.9 * 2**13:1.1 * 2**28]
set yrange [0.4:700]
set grid lc rgb "#dddddd" lt 1 dt solid lw 1
set border 3
set tics nomirror
set ylabel "GB/s" offset 1,0
set xlabel "size: what is read and written" offset 0,0.4
unset key
do for [block = 0:works - 1] {
  columns = words(system(sprintf("grep '^[a-z]' '%s' | sed -n %dp | tr ' ' '_'", tsv, block + 1)))
  set title field(block, 1)
  ours = ""
  others = ""
  do for [i = 2:columns] {
    if (field(block, i)[1:8] eq "headroom") { ours = ours . " " . i } else { others = others . " " . i }
  }
  # headroom's wide lines first, so that the others stay visible on top of them
  plot for [i in ours . others] tsv index block every ::1 using 1:int(i) with linespoints ls style(field(block, int(i)))
}

# The legend: each contender that the table has.
contenders = "'headroom avx512' 'headroom avx2' 'headroom neon' 'headroom scalar' Highway Eigen libtorch xtensor 'obvious loop'"
has(name) = int(system(sprintf("grep '^[a-z]' '%s' | grep -c '\t%s' || true", tsv, name))) > 0
array names[9]
shown = 1
names[1] = "limit: only reads, multiplies, …"
do for [i = 1:words(contenders)] {
  if (has(word(contenders, i))) {
    shown = shown + 1
    names[shown] = word(contenders, i)
  }
}
unset tics
unset border
unset xlabel
unset ylabel
unset grid
unset logscale
set title "GB/s read and written by one thread; medians"
set key center center maxcols 1 spacing 1.4 font ",12"
set xrange [0:1]
set yrange [0:1]
plot NaN notitle, for [i = 1:shown] keyentry with linespoints ls style(names[i]) title names[i]
unset multiplot
