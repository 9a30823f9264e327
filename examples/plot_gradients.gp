# What gradient_histogram wrote: gnuplot -e "directory='…'; png='…/gradients.png'" examples/plot_gradients.gp
height = 900
load "examples/style.gp"
set datafile columnheaders
all = directory . "/gradients.csv"
leaves = directory . "/gradients_by_leaf.csv"
stats all using "count" nooutput
elements = STATS_sum
leaf(i) = sprintf("layers[%d].weight", i)
of(path) = strcol("path") eq path && strcol("kind") eq "finite" ? column("exponent") : NaN

set multiplot layout 2,1 title "Gradients of handwritten digits by binary exponent" font title_font margins 0.11,0.98,0.1,0.94 spacing 0,0.06
set xrange [-46:21]
set xtics 10
set format x "2^{/*1.15 %g}"
unset grid
set style fill solid 1.0 noborder
set boxwidth 0.9
# What is shaded rounds to zero in fp16; from there on numbers are subnormal up to 2^-14.
set style rect fs solid 1.0 noborder
set object 1 rect from graph 0, graph 0 to first -25.5, graph 1 fc rgb "#f4c9c9" behind
set object 2 rect from first -25.5, graph 0 to first -14.5, graph 1 fc rgb "#fbeecb" behind
set object 3 rect from first 15.5, graph 0 to graph 1, graph 1 fc rgb overflow behind
set label 1 "zero in fp16" at first -35.7, graph 0.94 center
set label 2 "subnormal" at first -20, graph 0.94 center
set label 3 "normal" at first 0.5, graph 0.94 center
set label 4 "Inf" at first 18.2, graph 0.94 center
set ylabel "share of all gradients, %" offset 1
set yrange [0:10.9]
unset key
lost(exponent) = exponent < -25 ? 0xd62728 : exponent < -14 ? 0xff9f1c : 0x1f77b4
plot all using (strcol("kind") eq "finite" ? column("exponent") : NaN):(100.0 * column("count") / elements):(lost(column("exponent"))) \
  with boxes lc rgb variable

unset label
set ylabel "gradients, thousands"
set yrange [0:*]
set xlabel "|gradient|"
set key inside right top opaque box lc rgb "#cccccc" samplen 2
array colors[7] = [red, orange, "#bcbd22", green, "#17becf", blue, purple]
plot for [i=0:6] leaves using (of(leaf(i))):(column("count") / 1000.0) with linespoints pt 7 ps 0.5 lw 2 lc rgb colors[i + 1] title leaf(i)
unset multiplot
