"""Pools drawn at random from all that there are, checked and measured: `python -m benchmarks.map`.

drawing    which pools there are
data       their arrays
rivals     how they are called on tensors, by PyTorch and by ndpool
truth      what their numbers should be
timing     how long they take
measures   what is asked of the times
report     that in words, and `chart` in a picture
"""
