# What evidence wrote: gnuplot -e "csv='…/evidence_differences.csv'; kind='policy'; png='…'" examples/plot_evidence.gp
# kind is policy or fault. Each point is a seed; those beyond the edge are drawn at it, as triangles.
set datafile separator comma
set datafile columnheaders
networks = kind eq "policy" ? 3 : 2
array names[3] = ["digits", "transformer", "recurrent"]
array titles[3] = ["digits: % recognised", "transformer: test loss, nats a word", "recurrent: log_{10} of the test error"]
array lowest[3] = [-12, -0.25, -0.6]
array highest[3] = [12, 0.25, 0.6]
array step[3] = [4, 0.1, 0.2]
set terminal pngcairo size 1500,420 font "sans,12" background "white"
set output png
set multiplot layout 1,networks title (kind eq "policy" ? "Difference from float with the same seed" : "Difference from the right step with the same seed") font ",15" margins 0.155,0.985,0.08,0.82 spacing 0.155,0
set border 1
set tics nomirror
unset ytics
set yrange [*:-0.4]
set offsets 0,0,0,0.6
set grid x lc rgb "#e5e5e5"
unset key
within(i) = (strcol("network") eq names[i] && strcol("kind") eq kind && column("number") > 0) ? 1 : NaN
clipped(i, x) = x < lowest[i] ? lowest[i] : x > highest[i] ? highest[i] : x
is_outside(i, x) = (x < lowest[i] || x > highest[i]) ? 1 : NaN
row(number, seed) = -number + 0.012 * (int(seed) % 20 - 9.5)
do for [i=1:networks] {
  set title titles[i]
  set xrange [lowest[i]:highest[i]]
  set xtics step[i]
  set arrow 1 from 0,graph 0 to 0,graph 1 nohead lw 1.5 lc rgb "#999999"
  plot csv using (column("seed") == 1 ? within(i) * lowest[i] : NaN):(-column("number")):(strcol("variant")) with labels right offset -1,0 noenhanced, \
       csv using (within(i) * clipped(i, column("difference"))):(row(column("number"), column("seed"))) with points pt 7 ps 0.8 lc rgb "#1f77b4", \
       csv using (within(i) * is_outside(i, column("difference")) * clipped(i, column("difference"))):(row(column("number"), column("seed"))) with points pt 9 ps 1.6 lc rgb "#d62728"
}
unset multiplot
