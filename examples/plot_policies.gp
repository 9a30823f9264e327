# What compare_policies wrote: gnuplot -e "directory='…'; png='…/policies.png'" examples/plot_policies.gp
height = 1900
load "examples/style.gp"
set style line 7 lc rgb black lw 1.5  # seen on grey, too
set datafile columnheaders
array traces[9] = ["digits", "calm", "shift", "spikes", "burst", "drift", "walk", "cycles", "tails"]
array titles[9] = ["digits: recorded\nfrom a training", "calm: slowly\nfalling gradients", "shift: 1000 times\nsmaller, and back", "spikes: one step in 300\nis 100 times larger", "burst: 30 steps in a row\n200 times larger", "drift: 4096 times larger\nover the training", "walk:\na random walk", "cycles: up and down\nby a factor of 64", "tails: noise\nwith heavy tails"]
# The policies that are drawn; the others are like one of them. Wide lines first.
array names[5] = ["DynamicLossScale", "Megatron", "LogMax (example)", "HysteresisScale", "AmaxLossScale"]
array policies[5] = ["dynamic", "megatron", "log_max", "hysteresis", "amax"]
array styles[5] = [4, 3, 7, 5, 6]
set multiplot title "Loss scale over steps; in the grey, fp16 overflows" font title_font
# A place of the grid of 2 by 5 above, 1 for each trace; the last one is for the legend.
set size 0.5,0.148
place(t) = sprintf("set origin %g,%g", (t - 1) % 2 * 0.5, 0.828 - (t - 1) / 2 * 0.143)
set lmargin 6.5
set rmargin 2.5
set tmargin 2.8
set bmargin 1.8
set logscale y 2
set format y power
set xrange [0:*]
set yrange [2**8:2**38]
set ytics 256
unset key
do for [t=1:9] {
  file = directory . "/policies_" . traces[t] . ".csv"
  set title titles[t] offset 0,-0.7
  if (t == 1) { set xtics (0, "5k" 5000, "10k" 9998) } else { set xtics (0, "50k" 50000, "100k" 99998) }
  eval place(t)
  plot file using 1:2:(2.0**38) with filledcurves lc rgb overflow, \
       for [i=1:5] file using 1:(column(policies[i])) with steps ls styles[i]
}
unset title
unset logscale y
set yrange [0:1]
eval place(10)
unset border
unset tics
set key center center Left reverse samplen 2
plot for [i=1:5] NaN with linespoints ls styles[i] ps 1.6 title names[i]

# A row for each trace, and in it a symbol for each policy.
set border 1
unset key
set size 0.54,0.24
set origin 0,0
set lmargin 8
set tmargin 2.8
set bmargin 3
set yrange [9.6:0.4]
set for [t=1:9] label t traces[t] at graph 0, first t right offset -1,0
set for [t=1:9] arrow t from graph 0, first t to graph 1, first t nohead lc rgb "#d5d5d5" back
of(t, i, value) = strcol(1) eq traces[t] && strcol(2) eq policies[i] ? value : NaN
set title "what it costs: steps skipped" offset 0,-0.7
set logscale x 10
set format x "%g %%"
set xrange [0.0005:2]
set xtics ("none" 0.0007, "0.01 %%" 0.01, "1 %%" 1) scale 1 nomirror
plot for [i=1:5] for [t=1:9] directory . "/policies.csv" using (of(t, i, column(3) > 0.0007 ? column(3) : 0.0007)):(t + 0.14 * (i - 3)) with points ls styles[i] ps 1.6 lw 1
unset label
unset logscale x
set size 0.46,0.24
set origin 0.54,0
set lmargin 2
set title "doublings of the scale unused" offset 0,-0.7
set xlabel "mean of all steps"
set format x "%g"
set xrange [0:15]
set xtics 5
plot for [i=1:5] for [t=1:9] directory . "/policies.csv" using (of(t, i, column(4))):(t + 0.14 * (i - 3)) with points ls styles[i] ps 1.6 lw 1
unset multiplot
