"""Pools drawn at random from all that there are, checked and measured: `python -m benchmarks.map`.

drawing draws pools; data makes their arrays; rivals says how PyTorch spells a pool; truth checks a result; timing measures;
measures says what is asked of the times; report writes that down; chart draws it.
"""
