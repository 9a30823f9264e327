# What fp8_linear wrote: gnuplot -e "csv='…/fp8_scales.csv'; png='…/fp8.png'" examples/plot_fp8.gp
height = 1250
load "examples/style.gp"
set datafile columnheaders
array colors[5] = [red, orange, green, blue, purple]
array kinds[3] = ["input", "weight", "gradient"]
# A scale is 1 until its tensor has been seen; that would hide the others at the bottom.
scale(layer, kind) = strcol("name") eq "fp8 with delayed scales" && column("layer") == layer && column(kind) != 1 ? column(kind) : NaN
saturated(name) = strcol("name") eq name && column("layer") == 0 ? column("saturated") : NaN

set multiplot layout 4,1 title "Five linear layers, trained on digits in fp8" font title_font margins 0.13,0.955,0.07,0.925 spacing 0,0.065
set logscale y 2
set format y power
set key at screen 0.5,0.97 center top maxrows 1 samplen 1.5
set xrange [0:*]
set xtics 200
do for [kind=1:3] {
  if (kind == 3) { set ytics 16 }
  set ylabel "scale of " . kinds[kind] . "s"
  plot for [i=0:4] csv using "step":(scale(i, kinds[kind])) with lines lw 2 lc rgb colors[i + 1] title sprintf("layer %d", i)
  unset key
}
unset logscale y
set format y "%g"
set yrange [0:*]
set ytics 1000
set ylabel "saturated so far"
set xlabel "step"
set title "gradients saturated if the loss scale doubles every 20 steps" offset 0,-0.5
set key inside center right vertical maxrows auto maxcols 1 samplen 2
plot csv using "step":(saturated("fp8 with both; not told")) smooth cumulative with steps lw 3 lc rgb red title "without loss\\_scale\\_changed", \
  "" using "step":(saturated("fp8 with both")) smooth cumulative with steps lw 3 lc rgb blue title "with loss\\_scale\\_changed"
unset multiplot
