# What evidence wrote: gnuplot -e "directory='…'; png='…/evidence_scales.png'" examples/plot_evidence_scales.gp
height = 750
load "examples/style.gp"
set datafile columnheaders
array networks[2] = ["digits", "recurrent"]
array policies[4] = ["dynamic", "constant_2^16", "hysteresis", "amax"]
array names[4] = ["dynamic", "constant 2^{16}", "hysteresis", "amax"]
array styles[4] = [4, 3, 5, 6]
set multiplot layout 2,1 title "In the grey, the largest gradient exceeds fp16" font title_font margins 0.13,0.955,0.11,0.80 spacing 0,0.11
set ylabel "loss scale"
set logscale y 2
set format y power
set yrange [2**8:2**36]
set ytics 256
set xrange [0:*]
set xtics 500
set key at screen 0.5,0.935 center top maxrows 2 Left reverse samplen 2
do for [i=1:2] {
  set title networks[i] offset 0,-0.5
  if (i == 2) { set xlabel "step" }
  file(policy) = directory . "/steps_" . networks[i] . "_" . policy . ".csv"
  plot file("float") using 1:(65504 / column("max_abs")):(2.0**36) with filledcurves lc rgb overflow notitle, \
       for [k=1:4] file(policies[k]) using 1:(column("scale")) with steps ls styles[k] title names[k]
  unset key
}
unset multiplot
