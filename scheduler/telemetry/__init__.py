"""What Gangwright says of itself: metrics for machines, log lines for people.

Lives here: every metric's name and meaning, once, and how a log line looks. Never here: a decision, or when to
say something; that is the caller's. Every edge may call this room, no pure room may.
"""
