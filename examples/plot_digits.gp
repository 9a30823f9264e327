# Loss and loss scale of the six trainings by step: gnuplot -e "csv='…/digits.csv'; png='…/digits.png'" examples/plot_digits.gp
height = 860
load "examples/style.gp"
set multiplot layout 2,1 margins 0.13,0.955,0.1,0.86 spacing 0,0.08
set xrange [0:*]
set xtics 200
array names[6] = ["fp16, DynamicLossScale", "float", "fp16, no scaling", "fp16, ConstantLossScale", "fp16, HysteresisScale", "bf16, no scaling"]
array columns[6] = [4, 1, 2, 3, 5, 6]
array styles[6] = [4, 1, 2, 3, 5, 7]

set logscale y
set ylabel "training loss (nats)" offset 1
set format y "10^{/*1.15 %L}"
set key at screen 0.5,0.985 center top maxrows 3 Left reverse samplen 2 width -2
# An epoch is two batches: step by step the curves would be bands, one batch high, one low.
first = 0
mean_of_epoch(step, loss) = int(step) % 2 == 0 ? (first = loss, NaN) : (first + loss) / 2
plot for [i=1:6] csv using 1:(mean_of_epoch(column(1), column(2 * columns[i]))) every ::1 with lines ls styles[i] title names[i]

set logscale y 2
set ylabel "loss scale"
set xlabel "step"
set format y power
set yrange [2**14:2**30]
set ytics 16
unset key
plot for [i in "1 4 5"] csv using 1:(column(2 * columns[int(i)] + 1)) every ::1 with lines ls styles[int(i)]
unset multiplot
