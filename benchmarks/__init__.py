"""Speed, measured against peers in one interleaved run. ``python -m benchmarks``.

Contestants of one table take turns in rounds, and every round starts with another one, so a
slow minute of the machine hits all of them alike. Medians of the same thing differ between
runs by up to two times here: compare ratios inside one table, not milliseconds between runs.
"""
