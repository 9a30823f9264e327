# What the programs of this folder wrote: gnuplot -e "directory='…'; picture='…'; png='…'" evidence/plots.gp
# picture is evidence_policy or evidence_fault, evidence_scales, evidence_constants, policies, gradients or fp8: the block of that name.
height = picture eq "policies" ? 700 : picture eq "fp8" ? 950 : picture eq "evidence_policy" ? 1150 : picture eq "evidence_scales" || picture eq "evidence_constants" ? 750 : 460
load "examples/style.gp"
set datafile columnheaders

if (picture eq "evidence_policy" || picture eq "evidence_fault") {
  # Each point is a seed. For those beyond an edge, their number and their values are written at that edge.
  policy = picture eq "evidence_policy"
  kind = policy ? "policy" : "fault"
  csv = directory . "/evidence_differences.csv"
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
  row(number, seed) = -number + 0.03 * (int(seed - 1) % 10 - 4.5)
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
}

if (picture eq "evidence_scales") {
  array networks[2] = ["digits_2400", "recurrent_3000"]
  array titles[2] = ["digits", "recurrent"]
  array policies[3] = ["dynamic", "hysteresis", "amax"]
  array styles[3] = [4, 5, 6]
  set multiplot layout 2,1 title "The loss scale of three policies, seed 1" font title_font margins 0.13,0.955,0.11,0.83 spacing 0,0.11
  set ylabel "loss scale"
  set logscale y 2
  set format y power
  set yrange [2**8:2**36]
  set ytics 256
  set xrange [0:*]
  set xtics 500
  set key at screen 0.5,0.935 center top maxrows 1 Left reverse samplen 2
  do for [i=1:2] {
    set title titles[i] offset 0,-0.5
    if (i == 2) { set xlabel "step" }
    set label 1 "here the largest gradient (in float) overflows" at graph 0.98, graph 0.93 right front
    file(policy) = directory . "/steps_" . networks[i] . "_" . policy . ".csv"
    plot file("float") using 1:(65504 / column("max_abs")):(2.0**36) with filledcurves lc rgb overflow notitle, \
         for [k=1:3] file(policies[k]) using 1:(column("scale")) with steps ls styles[k] title policies[k]
    unset key
  }
  unset multiplot
}

if (picture eq "evidence_constants") {
  csv = directory . "/evidence_constants.csv"
  array policies[4] = ["dynamic", "dynamic/40", "hysteresis", "amax"]
  array styles[4] = [4, 2, 5, 6]
  at(network, variant, y) = strcol("network") eq network && strcol("variant") eq variant ? y : NaN
  set multiplot title "fp16 with a constant loss scale" font title_font
  set lmargin at screen 0.19
  set rmargin at screen 0.955
  set logscale x 2
  set format x power
  set xrange [2**-17:2**31]
  set xtics 256
  set tmargin at screen 0.84
  set bmargin at screen 0.61
  set key at screen 0.56,0.925 center top maxrows 1 samplen 2
  set ylabel "digits right, %" offset 1,0
  set yrange [0:100]
  set ytics 50
  plot csv using (at("digits", "constant", column("low"))):(column("quality")) with linespoints pt 7 lw 2.5 lc rgb black title "sigmoids", \
       csv using (at("relu", "constant", column("low"))):(column("quality")) with linespoints pt 6 ps 1.2 lw 2.5 lc rgb orange title "ReLU"
  unset key
  unset ylabel
  set title "scales that policies used with the sigmoids" offset 0,-0.5
  set tmargin at screen 0.49
  set bmargin at screen 0.37
  set yrange [4.6:0.4]
  unset ytics
  set for [i=1:4] label i policies[i] at graph 0, first i right offset -1,0
  plot for [i=1:4] csv using (at("digits", policies[i], column("low"))):(i):(column("low")):(column("high")) \
         with xerrorbars ls styles[i] lw 6 dt 1 pt 7 ps 1
  unset for [i=1:4] label i
  unset title
  set tmargin at screen 0.29
  set bmargin at screen 0.12
  set ylabel "GPT, nats" offset 1,0
  set xlabel "loss scale"
  set yrange [2.5:4.5]
  set ytics 1 nomirror
  plot csv using (at("gpt", "constant", column("low"))):(column("quality")) with linespoints pt 7 lw 2.5 lc rgb black
  unset multiplot
}

if (picture eq "policies") {
  array traces[6] = ["gpt", "reinforce", "lstm", "mlp_b4", "cnn", "cnn_b8"]
  array names[5] = ["DynamicLossScale", "the same, interval of steps/40", "Megatron", "HysteresisScale", "AmaxLossScale"]
  array policies[5] = ["dynamic", "dynamic/40", "megatron", "hysteresis", "amax"]
  array styles[5] = [4, 2, 3, 5, 6]
  set multiplot title "What a policy costs on six recorded trainings, the quietest above" font title_font
  set border 1
  set yrange [6.6:0.4]
  unset ytics
  set for [t=1:6] label t traces[t] noenhanced at graph 0, first t right offset -1,0
  set for [t=1:6] arrow t from graph 0, first t to graph 1, first t nohead lc rgb "#d5d5d5" back
  of(t, i, value) = strcol(1) eq traces[t] && strcol(2) eq policies[i] ? value : NaN
  set size 0.56,0.74
  set origin 0,0
  set lmargin 11
  set key at screen 0.3,0.94 left top maxrows 5 maxcols 1 Left reverse samplen 2
  set logscale x 10
  set format x "%g %%"
  set xrange [0.002:4]
  set xtics ("0" 0.003, "0.1 %%" 0.1, "1 %%" 1) scale 1 nomirror
  set xlabel "steps skipped"
  plot for [i=1:5] for [t=1:6] directory . "/policies.csv" using (of(t, i, column(3) > 0.003 ? column(3) : 0.003)):(t + 0.14 * (i - 3)) \
    with points ls styles[i] ps 1.6 lw 1 notitle, \
    for [i=1:5] NaN with points ls styles[i] ps 1.6 lw 1 title names[i]
  unset label
  unset key
  unset logscale x
  set size 0.44,0.74
  set origin 0.56,0
  set lmargin 2
  set xlabel "mean doublings unused"
  set format x "%g"
  set xrange [0:13]
  set xtics 4
  plot for [i=1:5] for [t=1:6] directory . "/policies.csv" using (of(t, i, column(4))):(t + 0.14 * (i - 3)) with points ls styles[i] ps 1.6 lw 1
  unset multiplot
}

if (picture eq "gradients") {
  all = directory . "/gradients.csv"
  stats all using "count" nooutput
  elements = STATS_sum
  set title "Gradients of handwritten digits by binary exponent" font title_font
  set xlabel "|gradient|"
  set xrange [-46:21]
  set xtics 10
  set format x "2^{/*1.15 %g}"
  unset grid
  set style fill solid 1.0 noborder
  set boxwidth 0.9
  set style rect fs solid 1.0 noborder
  set object 1 rect from graph 0, graph 0 to first -25.5, graph 1 fc rgb "#f4c9c9" behind
  set object 2 rect from first -25.5, graph 0 to first -14.5, graph 1 fc rgb "#fbeecb" behind
  set object 3 rect from first 15.5, graph 0 to graph 1, graph 1 fc rgb overflow behind
  set label 1 "zero in fp16" at first -35.7, graph 0.94 center
  set label 2 "subnormal" at first -20, graph 0.94 center
  set label 3 "normal" at first 0.5, graph 0.94 center
  set label 4 "Inf" at first 18.2, graph 0.94 center
  set ylabel "share of all gradients, %" offset 1
  set yrange [0:10.9]
  unset key
  lost(exponent) = exponent < -25 ? 0xd62728 : exponent < -14 ? 0xff9f1c : 0x1f77b4
  plot all using (strcol("kind") eq "finite" ? column("exponent") : NaN):(100.0 * column("count") / elements):(lost(column("exponent"))) \
    with boxes lc rgb variable
}

if (picture eq "fp8") {
  csv = directory . "/fp8_scales.csv"
  array colors[5] = [red, orange, green, blue, purple]
  array kinds[2] = ["weight", "gradient"]
  # A scale is 1 until its tensor has been seen; that would hide the others at the bottom.
  scale(layer, kind) = strcol("name") eq "fp8 with delayed scales" && column("layer") == layer && column(kind) != 1 ? column(kind) : NaN
  saturated(name) = strcol("name") eq name && column("layer") == 0 ? column("saturated") : NaN

  set multiplot layout 3,1 title "Five linear layers, trained on digits in fp8" font title_font margins 0.13,0.955,0.09,0.90 spacing 0,0.085
  set logscale y 2
  set format y power
  set key at screen 0.5,0.955 center top maxrows 1 samplen 1.5
  set xrange [0:*]
  set xtics 200
  do for [kind=1:2] {
    if (kind == 2) { set ytics 16 }
    set ylabel "scale of " . kinds[kind] . "s"
    plot for [i=0:4] csv using "step":(scale(i, kinds[kind])) with lines lw 2 lc rgb colors[i + 1] title sprintf("layer %d", i)
    unset key
  }
  unset logscale y
  set format y "%g"
  set yrange [0:*]
  set ytics 1000
  set ylabel "saturated so far"
  set xlabel "step"
  set title "gradients saturated if the loss scale doubles every 20 steps" offset 0,-0.5
  set key inside center right vertical maxrows auto maxcols 1 samplen 2
  plot csv using "step":(saturated("fp8 with both; not told")) smooth cumulative with steps lw 3 lc rgb red title "without loss\\_scale\\_changed", \
    "" using "step":(saturated("fp8 with both")) smooth cumulative with steps lw 3 lc rgb blue title "with loss\\_scale\\_changed"
  unset multiplot
}
