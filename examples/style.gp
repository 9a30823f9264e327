# What all pictures share: a colour, a kind of line and a width for each variant, so that lines that meet stay visible.
black = "#222222"
red = "#d62728"
orange = "#ff9f1c"
blue = "#1f77b4"
green = "#2ca02c"
purple = "#9467bd"
grey = "#999999"
set style line 1 lc rgb black lw 4 dt 1 pt 7          # float
set style line 2 lc rgb red lw 2.5 dt 1 pt 5          # fp16 without a scale
set style line 3 lc rgb orange lw 2.5 dt (12,6) pt 9  # a constant
set style line 4 lc rgb blue lw 2.5 dt 1 pt 7         # DynamicLossScale, torch
set style line 5 lc rgb green lw 2.5 dt (4,4) pt 11   # HysteresisScale
set style line 6 lc rgb purple lw 2.5 dt 1 pt 13      # AmaxLossScale
set style line 7 lc rgb grey lw 2.5 dt (12,4,3,4) pt 4 # bf16 without a scale
set border 3
set tics nomirror
set grid lc rgb "#e5e5e5" lw 1 dt 1
set datafile separator comma
set datafile missing NaN
overflow = "#dddddd"  # the area where fp16 overflows
