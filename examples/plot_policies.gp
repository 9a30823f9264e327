# What compare_policies wrote: gnuplot -e "directory='…'; png='…/policies.png'" examples/plot_policies.gp
set datafile separator comma
set datafile columnheaders
set terminal pngcairo size 1500,1500 font "sans,12" background "white"
set output png
array traces[5] = ["digits", "calm", "shift", "spikes", "burst"]
array titles[5] = ["digits: recorded from a real training", "calm: slowly falling gradients", "shift: 1000 times smaller, and back", "spikes: one step in 300 is 100 times larger", "burst: 30 steps in a row 200 times larger"]
# The policies that are drawn; the others are like one of them.
array names[8] = ["DynamicLossScale, jmp, eformer", "HysteresisScale", "torch, Emily", "Megatron", "DeepSpeed", "Cerebras, 10 % tolerated", "fairseq, 5 % tolerated", "metaseq"]
array policies[8] = ["dynamic", "hysteresis", "torch", "megatron", "deepspeed", "cerebras 10 %", "fairseq 5 %", "metaseq"]
array colors[8] = ["#1f77b4", "#2ca02c", "#17becf", "#d62728", "#ff7f0e", "#9467bd", "#8c564b", "#111111"]
set multiplot layout 3,2 title "Loss scale by step; in the grey, fp16 overflows" font ",16" margins 0.06,0.98,0.05,0.95 spacing 0.07,0.06
set grid lc rgb "#e5e5e5"
set border 3
set tics nomirror
unset key
set logscale y 2
set format y "2^{%L}"
set xrange [0:*]
set format x "%.0s%c"
set yrange [2:2**38]
set ytics 16
do for [t=1:5] {
  file = directory . "/policies_" . traces[t] . ".csv"
  set title titles[t]
  plot file using 1:2:(2.0**38) with filledcurves lc rgb "#dddddd", \
       for [i=1:8] file using 1:(column(policies[i])) with steps lw 2 lc rgb colors[i]
}
set title "what it costs: each symbol a trace"
set format y "%g"
set format x "%g %%"
set logscale x 10
unset logscale y
set xrange [0.004:100]
set yrange [0:25]
set ytics 5
set xlabel "steps skipped"
set ylabel "bits of fp16's range wasted, mean of a step"
set key top right reverse Left samplen 1
array symbols[5] = [7, 5, 9, 11, 13]
only(t, i) = (strcol(1) eq traces[t] && strcol(2) eq policies[i]) ? (column(3) > 0.005 ? column(3) : 0.005) : NaN
set datafile missing NaN
plot for [i=1:8] for [t=1:5] directory . "/policies.csv" using (only(t, i)):4 with points pt symbols[t] ps 1.6 lc rgb colors[i] notitle, \
     for [i=1:8] NaN with lines lw 4 lc rgb colors[i] title names[i], \
     for [t=1:5] NaN with points pt symbols[t] ps 1.6 lc rgb "#555555" title traces[t]
unset multiplot
