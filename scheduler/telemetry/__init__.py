"""Telemetry of Gangwright: metrics for machines, log lines for people.

Lives here: the name and meaning of every metric, once, and the format of log lines. Never here: a decision, or when to
log; callers decide that. Every edge may import this package. No pure package may.
"""
