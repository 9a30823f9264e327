# What evidence wrote: gnuplot -e "directory='…'; png='…/evidence_scales.png'" examples/plot_evidence_scales.gp
load "examples/style.gp"
set datafile columnheaders
array networks[3] = ["digits", "gpt", "recurrent"]
array policies[4] = ["dynamic", "constant_2^16", "hysteresis", "amax"]
array names[4] = ["dynamic", "constant 2^{16}", "hysteresis", "amax"]
array styles[4] = [4, 3, 5, 6]
set terminal pngcairo size 1500,480 font "sans,12" background "white"
set output png
set multiplot layout 1,3 title "Loss scale by step; in the grey, the largest gradient in float exceeds fp16" font ",15" margins 0.05,0.985,0.13,0.82 spacing 0.06,0
set ylabel "loss scale"
set xlabel "step"
set logscale y 2
set format y "2^{%L}"
set yrange [2**4:2**36]
set ytics 16
set xrange [0:*]
set key bottom right Left reverse
do for [i=1:3] {
  set title networks[i]
  file(policy) = directory . "/steps_" . networks[i] . "_" . policy . ".csv"
  plot file("float") using 1:(65504 / column("max_abs")):(2.0**36) with filledcurves lc rgb overflow notitle, \
       for [k=1:4] file(policies[k]) using 1:(column("scale")) with steps ls styles[k] title names[k]
}
unset multiplot
