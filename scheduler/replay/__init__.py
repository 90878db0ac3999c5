"""The cluster in one document, and the live code deciding on it once more.

Lives here: the document, its redaction, and a judgement of it: where every gang stands, what each was asked and what
the answer was. Never here: where a document comes from, or how an answer is shown. Pure, like all that decides: one
document gives one judgement, byte for byte. The command line asks live clusters through here too, so what it says of
a cluster and what a snapshot of that cluster says later are the same.
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
