# What all pictures share: the width, the size of text, and a colour, a kind of line and a width for each variant. Text is a 38th of the
# width, so that a telephone shows it with 9 pixels. Set height before. Draw wide lines first: thin and dashed ones then stay visible.
set terminal pngcairo size 800,height font "sans,16" background "white"
set output png
title_font = ",17"
power = "2^{/*1.15 %L}"
black = "#222222"
red = "#d62728"
orange = "#ff9f1c"
blue = "#1f77b4"
pale_blue = "#8fc1ea"
green = "#1a7a1a"
purple = "#9467bd"
grey = "#999999"
set style line 1 lc rgb black lw 3.5 dt 1 pt 7            # float
set style line 2 lc rgb red lw 2.5 dt 1 pt 5            # fp16 without a scale
set style line 3 lc rgb orange lw 2 dt (14,7) pt 9      # a constant, Megatron
set style line 4 lc rgb pale_blue lw 8 dt 1 pt 7             # DynamicLossScale, torch
set style line 5 lc rgb green lw 1.5 dt 1 pt 11        # HysteresisScale
set style line 6 lc rgb purple lw 2 dt 1 pt 13          # AmaxLossScale
set style line 7 lc rgb grey lw 2 dt (14,5,3,5) pt 4    # bf16 without a scale, other rules
set border 3
set tics nomirror
set grid lc rgb "#d5d5d5" lw 1 dt 1
set datafile separator comma
set datafile missing NaN
overflow = "#dddddd"  # the area where fp16 overflows
