"""Pools on the GPU beside PyTorch, compiled PyTorch and a copy of memory: `python -m benchmarks.gpu`.

timing         how long something takes on the device
works          the table of pools and what is done with them
random_pools   pools drawn at random, as `benchmarks.map` draws them
training       a training step of parts of networks, before and after `convert`
overhead       what a call costs on a tiny tensor
report         all that in words
"""
