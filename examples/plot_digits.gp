# Loss and loss scale of the six trainings by step: gnuplot -e "csv='…/digits.csv'; png='…/digits.png'" examples/plot_digits.gp
set datafile separator comma
set terminal pngcairo size 1200,900 font "sans,12" background "white"
set output png
set multiplot layout 2,1 title "Handwritten digits, six hidden layers of sigmoids" font ",15"
set grid lc rgb "#dddddd"
set border 3
set tics nomirror
set xrange [0:*]
array colors[6] = ["#222222", "#d62728", "#9467bd", "#1f77b4", "#2ca02c", "#ff9f1c"]
array names[6] = ["float", "fp16, no scaling", "fp16, ConstantLossScale", "fp16, DynamicLossScale", "fp16, HysteresisScale", "bf16, no scaling"]
array widths[6] = [3, 3, 1.5, 1.5, 1.5, 1.5]

set logscale y
set ylabel "training loss, mean of an epoch"
set format y "%g"
set key outside right top
# An epoch is two batches: step by step the curves would be bands, one batch high, one low.
set datafile missing NaN
first = 0
mean_of_epoch(step, loss) = int(step) % 2 == 0 ? (first = loss, NaN) : (first + loss) / 2
plot for [i=1:6] csv using 1:(mean_of_epoch(column(1), column(2 * i))) every ::1 with lines lw widths[i] lc rgb colors[i] title names[i]

set logscale y 2
set ylabel "loss scale"
set xlabel "step"
set format y "2^{%L}"
plot for [i=3:5] csv using 1:(column(2 * i + 1)) every ::1 with lines lw 2 lc rgb colors[i] title names[i]
unset multiplot
