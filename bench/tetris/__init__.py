"""Tetris' experiment: packing tasks of four resources on twenty nodes.

Lives here: the workload (tasks), list schedulers that Gangwright is compared with (peers), and runs of both (running).
Never here: a decision of Gangwright (`bench.simulator` asks its engine), or the layout of the table (`bench.tables.tetris`).
"""
