# What evidence wrote: gnuplot -e "directory='…'; png='…/evidence_scales.png'" examples/plot_evidence_scales.gp
set datafile separator comma
set datafile columnheaders
array networks[3] = ["digits", "transformer", "recurrent"]
array policies[3] = ["torch", "dynamic", "amax"]
array names[3] = ["torch", "dynamic", "amax"]
array colors[3] = ["#17becf", "#1f77b4", "#d62728"]
set terminal pngcairo size 1500,480 font "sans,12" background "white"
set output png
set multiplot layout 1,3 title "Loss scale by step; in the grey, the largest gradient in float exceeds fp16" font ",15" margins 0.05,0.985,0.09,0.82 spacing 0.05,0
set border 3
set tics nomirror
set grid lc rgb "#e5e5e5"
set logscale y 2
set format y "2^{%L}"
set yrange [2**8:2**36]
set ytics 16
set xrange [0:*]
set key top left Left reverse
do for [i=1:3] {
  set title networks[i]
  file(policy) = directory . "/steps_" . networks[i] . "_" . policy . ".csv"
  plot file("float") using 1:(65504 / column("max_abs")):(2.0**36) with filledcurves lc rgb "#dddddd" notitle, \
       for [k=1:3] file(policies[k]) using 1:(column("scale")) with steps lw 2 lc rgb colors[k] title names[k]
}
unset multiplot
