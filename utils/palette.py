"""The course's colours: Okabe and Ito's palette, told apart with any colour vision.

Source: M. Okabe and K. Ito, "Color Universal Design", 2008.
"""

BLUE = "#0072B2"
VERMILLION = "#D55E00"
ORANGE = "#E69F00"
SKY = "#56B4E9"
GREEN = "#009E73"
PURPLE = "#CC79A7"
INK = "#1A1A1A"
GREY = "#6B6B6B"
LIGHT = "#D9D9D9"
