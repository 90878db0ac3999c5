"""The cluster in one document, and a replay of the live code's decisions on it.

Lives here: the document, its redaction, and the replay: the state of every gang, and the question and answer for each.
Never here: where a document comes from, or how to show an answer. Pure, like all deciding code: one document gives one
result, byte for byte. The command line also uses this package for live clusters, so a cluster and a later replay of its
snapshot give the same answers.
"""

from scheduler.replay.decision_trace import DecisionTrace, Step, judge, stand
from scheduler.replay.snapshot import VERSION, Document, InvalidSnapshot, decode, document, encode

__all__ = [
    "VERSION",
    "DecisionTrace",
    "Document",
    "InvalidSnapshot",
    "Step",
    "decode",
    "document",
    "encode",
    "judge",
    "stand",
]
