"""Elastic training: the life of a job in rounds, its size, and the workers that meet to train.

Lives here: the master and the agent, from the job's specification to the worker's process. Never here: a placement;
workers are gangs like any other, and the scheduler assigns their nodes.
"""
