# What evidence wrote: gnuplot -e "csv='…/evidence_differences.csv'; kind='policy'; png='…'" examples/plot_evidence.gp
# kind is policy or fault. Each point is a seed; those beyond the edge are drawn at it, as triangles.
load "examples/style.gp"
set datafile columnheaders
networks = kind eq "policy" ? 3 : 1
array names[3] = ["digits", "gpt", "recurrent"]
array titles[3] = ["digits", "GPT", "recurrent"]
array units[3] = ["right answers, percentage points (right is better)", "test loss, nats a word (left is better)", "log_{10} of the test error (left is better)"]
array lowest[3] = [(kind eq "policy" ? -12 : -100), -0.2, -0.6]
array highest[3] = [12, 0.2, 0.6]
array step[3] = [(kind eq "policy" ? 4 : 20), 0.1, 0.2]
array colors[6] = [0x999999, 0xd62728, 0xff9f1c, 0x1f77b4, 0x1a7a1a, 0x9467bd]
color(number) = kind eq "policy" && number > 0 && number < 7 ? colors[int(number)] : 0x1f77b4
set terminal pngcairo size (kind eq "policy" ? 1500 : 900),440 font "sans,12" background "white"
set output png
set multiplot layout 1,networks title (kind eq "policy" ? "Difference from float with the same seed, a point per seed" : "Difference from the right step with the same seed, a point per seed") font ",15" margins (kind eq "policy" ? 0.095 : 0.27),0.985,0.15,0.82 spacing 0.1,0
set border 1
unset ytics
unset grid
set grid x
set offsets 0,0,0,0.6
set yrange [*:-0.4]
unset key
within(i) = (strcol("network") eq names[i] && strcol("kind") eq kind && column("number") > 0) ? 1 : NaN
clipped(i, x) = x < lowest[i] ? lowest[i] : x > highest[i] ? highest[i] : x
is_outside(i, x) = x < lowest[i] || x > highest[i]
inside_x(i, x) = is_outside(i, x) ? NaN : x
outside_x(i, x) = is_outside(i, x) ? clipped(i, x) : NaN
row(number, seed) = -number + 0.03 * (int(seed - 1) % 20 % 10 - 4.5)
do for [i=1:networks] {
  set title titles[i]
  set xlabel units[i]
  set xrange [lowest[i]:highest[i]]
  set xtics step[i]
  set arrow 1 from 0,graph 0 to 0,graph 1 nohead lw 1.5 lc rgb black
  plot csv using (column("seed") == 1 ? within(i) * lowest[i] : NaN):(-column("number")):(strcol("variant")) with labels right offset -1,0 noenhanced, \
       csv using (within(i) * inside_x(i, column("difference"))):(row(column("number"), column("seed"))):(color(column("number"))) with points pt 7 ps 0.9 lc rgb variable, \
       csv using (within(i) * outside_x(i, column("difference"))):(row(column("number"), column("seed"))):(color(column("number"))) with points pt 9 ps 1.6 lc rgb variable
}
unset multiplot
