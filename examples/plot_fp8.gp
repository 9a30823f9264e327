# What fp8_linear wrote: gnuplot -e "csv='…/fp8_scales.csv'; png='…/fp8.png'" examples/plot_fp8.gp
load "examples/style.gp"
set datafile columnheaders
set terminal pngcairo size 1200,1100 font "sans,12" background "white"
set output png
array colors[5] = [red, orange, green, blue, purple]
array kinds[3] = ["input", "weight", "gradient"]
of(name, layer, what) = strcol("name") eq name && column("layer") == layer ? column(what) : NaN

set multiplot layout 4,1 title "Scales of the tensors of five linear layers, trained on handwritten digits in fp8" font ",15"
set logscale y 2
set format y "2^{%L}"
set key outside right top
set xrange [0:*]
set lmargin 10
set rmargin 24
array lowest[3] = [7, 7, 25]
do for [kind=1:3] {
  set yrange [2 ** lowest[kind] : *]
  set ylabel sprintf("scale of %ss", kinds[kind])
  plot for [i=0:4] csv using "step":(of("fp8 with delayed scales", i, kinds[kind])) with lines lw 1.5 lc rgb colors[i + 1] title sprintf("layer %d", i)
}
unset logscale y
set format y "%g"
set yrange [0:*]
set ylabel "saturated gradients"
set xlabel "step"
set title "With a loss scale that doubles every 20 steps, told by loss\\_scale\\_changed or not"
plot csv using "step":(of("fp8 with both; not told", 0, "saturated")) with impulses lw 2 lc rgb red title "not told", \
  "" using "step":(of("fp8 with both", 0, "saturated")) with impulses lw 2 lc rgb blue title "told"
unset multiplot
