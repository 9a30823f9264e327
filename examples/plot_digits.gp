# Loss and loss scale of the six trainings by step: gnuplot -e "csv='…/digits.csv'; png='…/digits.png'" examples/plot_digits.gp
load "examples/style.gp"
set terminal pngcairo size 1200,900 font "sans,12" background "white"
set output png
set multiplot layout 2,1 title "Handwritten digits, six hidden layers of sigmoids" font ",15" margins 0.08,0.76,0.07,0.93 spacing 0,0.06
set xrange [0:*]
array names[6] = ["fp16, DynamicLossScale", "float", "fp16, no scaling", "fp16, ConstantLossScale", "fp16, HysteresisScale", "bf16, no scaling"]
array columns[6] = [4, 1, 2, 3, 5, 6]
array styles[6] = [4, 1, 2, 3, 5, 7]

set logscale y
set ylabel "training loss of an epoch (nats)"
set format y "10^{%L}"
set key outside right top Left reverse
# An epoch is two batches: step by step the curves would be bands, one batch high, one low.
first = 0
mean_of_epoch(step, loss) = int(step) % 2 == 0 ? (first = loss, NaN) : (first + loss) / 2
plot for [i=1:6] csv using 1:(mean_of_epoch(column(1), column(2 * columns[i]))) every ::1 with lines ls styles[i] title names[i]

set logscale y 2
set ylabel "loss scale"
set xlabel "step"
set format y "2^{%L}"
set yrange [2**14:2**30]
plot for [i in "1 4 5"] csv using 1:(column(2 * columns[int(i)] + 1)) every ::1 with lines ls styles[int(i)] title names[int(i)]
unset multiplot
