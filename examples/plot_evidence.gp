# What evidence wrote: gnuplot -e "csv='…/evidence_differences.csv'; kind='policy'; png='…'" examples/plot_evidence.gp
# kind is policy or fault. Each point is a seed. For those beyond an edge, their number and their values are written at that edge.
policy = kind eq "policy"
height = policy ? 1150 : 460
load "examples/style.gp"
set datafile columnheaders
networks = policy ? 3 : 1
array names[3] = ["digits", "gpt", "recurrent"]
array units[3] = ["right answers, percentage points (right is better)", "test loss, nats a word (left is better)", "log_{10} of the test error (left is better)"]
array lowest[3] = [(policy ? -12 : -100), -0.8, -0.6]
array highest[3] = [12, 0.8, 0.6]
array step[3] = [(policy ? 4 : 20), 0.4, 0.2]
array colors[6] = [0x777777, 0xd62728, 0xff9f1c, 0x1f77b4, 0x1a7a1a, 0x9467bd]
color(number) = policy && number > 0 && number < 7 ? colors[int(number)] : 0x1f77b4
set multiplot layout networks,1 title "Difference from " . (policy ? "float" : "the right step") . ", a point for each seed" font title_font \
  margins (policy ? 0.24 : 0.38),0.96,(policy ? 0.075 : 0.18),(policy ? 0.925 : 0.87) spacing 0,0.115
set border 1
unset ytics
unset grid
set grid x
set yrange [(policy ? -6.5 : -7.5):-0.4]
unset key
array count[9]
array smallest[9]
array largest[9]
# The difference if it is of network i; NaN, and counted by its variant, if it lies beyond an edge.
inside(i, n, x) = strcol("network") ne names[i] || strcol("kind") ne kind || n < 1 || x != x ? NaN : x >= lowest[i] && x <= highest[i] ? x : \
  (smallest[n] = count[n] && smallest[n] < x ? smallest[n] : x, largest[n] = count[n] && largest[n] > x ? largest[n] : x, count[n] = count[n] + 1, NaN)
row(number, seed) = -number + 0.03 * (int(seed - 1) % 20 % 10 - 4.5)
variant(i) = strcol("network") eq names[i] && strcol("kind") eq kind && column("number") > 0 && column("seed") == 1 ? int(column("number")) : 0
beyond(n) = n == 0 ? "" : sprintf("%d seed%s: %.3g to %.3g", count[n], count[n] > 1 ? "s" : "", smallest[n], largest[n])
at_edge(i, n, left) = n > 0 && count[n] > 0 && (smallest[n] < lowest[i]) == left ? (left ? lowest[i] : highest[i]) : NaN
do for [i=1:networks] {
  do for [n=1:9] { count[n] = 0; smallest[n] = 0; largest[n] = 0 }
  if (policy) { set title names[i] offset 0,-0.5 }
  set xlabel units[i] offset (policy ? 0 : -4),0
  set xrange [lowest[i]:highest[i]]
  set xtics step[i]
  set arrow 1 from 0,graph 0 to 0,graph 1 nohead lw 1.5 lc rgb black
  plot csv using (variant(i) ? lowest[i] : NaN):(-column("number")):(strcol("variant")) with labels right offset -1,0 noenhanced, \
       csv using (inside(i, int(column("number")), column("difference"))):(row(column("number"), column("seed"))):(color(column("number"))) \
         with points pt 7 ps 1.2 lc rgb variable, \
       csv using (at_edge(i, variant(i), 1)):(-column("number")):("← " . beyond(variant(i))) with labels left tc rgb black, \
       csv using (at_edge(i, variant(i), 0)):(-column("number")):(beyond(variant(i)) . " →") with labels right tc rgb black
}
unset multiplot
