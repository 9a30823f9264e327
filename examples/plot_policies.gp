# What compare_policies wrote: gnuplot -e "directory='…'; png='…/policies.png'" examples/plot_policies.gp
load "examples/style.gp"
set datafile columnheaders
set terminal pngcairo size 1500,1900 font "sans,12" background "white"
set output png
array traces[9] = ["digits", "calm", "shift", "spikes", "burst", "drift", "walk", "cycles", "tails"]
array titles[9] = ["digits: recorded from a real training", "calm: slowly falling gradients", "shift: 1000 times smaller, and back", "spikes: one step in 300 is 100 times larger", "burst: 30 steps in a row 200 times larger", "drift: 4096 times larger over the training", "walk: a random walk", "cycles: up and down by a factor of 64", "tails: noise with heavy tails"]
# The policies that are drawn; the others are like one of them. Wide lines first.
array names[5] = ["DynamicLossScale", "Megatron", "LogMax (example)", "HysteresisScale", "AmaxLossScale"]
array policies[5] = ["dynamic", "megatron", "log_max", "hysteresis", "amax"]
array styles[5] = [4, 3, 7, 5, 6]
array colors[5] = ["#4a90d0", orange, grey, green, purple]
set multiplot layout 5,2 title "Loss scale by step; in the grey, fp16 overflows" font ",16" margins 0.065,0.98,0.04,0.96 spacing 0.09,0.06
unset key
set logscale y 2
set format y "2^{%L}"
set xrange [0:*]
set format x "%.0s%c"
set xlabel "step" offset 0,0.6
set ylabel "loss scale" offset 0.5,0
set yrange [2**8:2**38]
set ytics 16
do for [t=1:9] {
  file = directory . "/policies_" . traces[t] . ".csv"
  set title titles[t]
  plot file using 1:2:(2.0**38) with filledcurves lc rgb overflow, \
       for [i=1:5] file using 1:(column(policies[i])) with steps ls styles[i]
}
set title "what it costs: each symbol a trace"
set format y "%g"
set format x "%g %%"
set logscale x 10
unset logscale y
set xrange [0.0005:10]
set yrange [0:22]
set ytics 5
set xlabel "steps skipped (at the left edge: none)"
set ylabel "bits wasted, mean of a step"
set key outside right top reverse Left samplen 2
array symbols[9] = [7, 5, 9, 11, 13, 4, 6, 8, 10]
only(t, i) = (strcol(1) eq traces[t] && strcol(2) eq policies[i]) ? (column(3) > 0.0007 ? column(3) : 0.0007) : NaN
plot for [i=1:5] for [t=1:9] directory . "/policies.csv" using (only(t, i)):4 with points pt symbols[t] ps 1.6 lc rgb colors[i] notitle, \
     for [i=1:5] NaN with lines ls styles[i] title names[i], \
     for [t=1:9] NaN with points pt symbols[t] ps 1.6 lc rgb "#555555" title traces[t]
unset multiplot
