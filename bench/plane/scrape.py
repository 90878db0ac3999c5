"""What a program's `/metrics` says, as samples to look up."""

import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from prometheus_client.parser import text_string_to_metric_families

from bench.plane.ports import unverified


@dataclass(frozen=True)
class Metrics:
    """One scrape."""

    samples: tuple[tuple[str, Mapping[str, str], float], ...]

    @classmethod
    def read(cls, url: str) -> Self:
        """The metrics at this address on loopback.  Raises OSError."""
        context = unverified() if url.startswith("https") else None
        handlers = [urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)]
        with urllib.request.build_opener(*handlers).open(url, timeout=5) as answer:
            return cls.parsed(answer.read().decode())

    @classmethod
    def parsed(cls, text: str) -> Self:
        families = text_string_to_metric_families(text)
        return cls(tuple((s.name, s.labels, s.value) for family in families for s in family.samples))

    def all(self, name: str, **labels: str) -> Iterable[tuple[Mapping[str, str], float]]:
        """Labels and value of each sample of that full name whose labels hold these."""
        return [
            (own, value)
            for sample, own, value in self.samples
            if sample == name and all(own.get(label) == word for label, word in labels.items())
        ]

    def value(self, name: str, **labels: str) -> float:
        """The sum over these samples; 0 when there is none."""
        return sum(value for _, value in self.all(name, **labels))
